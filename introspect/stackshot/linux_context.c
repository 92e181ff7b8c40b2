/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in. */
#include "introspect/stackshot/linux_context.h"

#include <string.h>

#include "introspect/linux/context.h"

_Static_assert(SS_CGROUP_PATH == LNX_CGROUP_PATH && SS_COMMAND == LNX_COMMAND &&
		       SS_NAMESPACES == LNX_NAMESPACES,
	       "all of it is copied");

/* A record and its header, in steps of 16 bytes. */
#define ROOM(record) (gs_align_up(sizeof(record), 16) + 16)

static bool is_wanted(const struct ss_request *q)
{
	return q->flags & SS_CONTEXT;
}

uint64_t ss_context_room_process(const struct ss_request *q)
{
	return is_wanted(q) ? ROOM(struct ss_process_context_record) : 0;
}

uint64_t ss_context_room_thread(const struct ss_request *q)
{
	return is_wanted(q) ? ROOM(struct ss_thread_context_record) : 0;
}

enum gs_code ss_write_process_context(struct ss_worker *w, const struct lnx_task *leader)
{
	const struct ss_try *t = &w->e->t;
	struct lnx_process_context c;

	/* idle threads are of no process */
	if (!is_wanted(t->request) || !leader->tgid)
		return GS_OK;
	lnx_process_context_read(&w->v, leader, w->mm, t->regs, w->e->s->g->vcpu_count, &c);
	struct ss_process_context_record r = { .known = c.known, .pending = c.pending };
	memcpy(r.namespace, c.namespace, sizeof(r.namespace));
	memcpy(r.cgroup, c.cgroup, sizeof(r.cgroup));
	memcpy(r.command, c.command, sizeof(r.command));
	return ss_code(kcd_append(&w->out, SS_RECORD_PROCESS_CONTEXT, &r, sizeof(r)));
}

enum gs_code ss_write_thread_context(struct ss_worker *w, const struct ss_slot *slot)
{
	struct lnx_thread_context c;

	if (!is_wanted(w->e->t.request) || !slot->task.pid)
		return GS_OK;
	lnx_thread_context_read(&w->v, &slot->task, &c);
	const struct ss_thread_context_record r = {
		.known = c.known,
		.on_rq = c.on_rq,
		.vruntime = c.vruntime,
		.cfs_rq = c.cfs_rq,
		.pending = c.pending,
		.blocked = c.blocked,
		.deadline = c.deadline,
		.rt_place = c.rt_place,
		.delayed = c.delayed,
		.locks = c.locks,
	};
	return ss_code(kcd_append(&w->out, SS_RECORD_THREAD_CONTEXT, &r, sizeof(r)));
}
