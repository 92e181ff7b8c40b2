/* SPDX-License-Identifier: Apache-2.0 */
/* User stacks of threads. */
#include "introspect/stackshot/user.h"

#include <string.h>

#include "kcdata/stackshot_types.h"

_Static_assert(SS_MAPPING_FILE == LNX_FILE_NAME &&
		       sizeof(((struct ss_mapping_record *)0)->build_id) == LNX_BUILD_ID,
	       "names and build ids are copied whole");

/* Some ten frames and what stands around them; deeper stacks use what others leave. */
#define BYTES_PER_THREAD UINT64_C(160)

uint64_t ss_user_room(const struct ss_request *q)
{
	return q->flags & SS_USER_STACKS ? BYTES_PER_THREAD : 0;
}

/* --- mappings --- */

void ss_user_begin(struct ss_worker *w)
{
	w->mappings_used = 0;
}

/* The mappings of a process so far; NULL: none, and no room for those of another process. */
static struct ss_mappings *mappings_of(struct ss_worker *w, int32_t tgid, bool create)
{
	for (uint32_t i = 0; i < w->mappings_used; i++)
		if (w->mappings[i].tgid == tgid)
			return &w->mappings[i];
	if (!create || w->mappings_used == SS_TAKE_MAX)
		return NULL;
	struct ss_mappings *m = &w->mappings[w->mappings_used++];
	m->tgid = tgid;
	m->n = 0;
	return m;
}

static bool is_known(const struct ss_mappings *m, uint64_t address)
{
	for (uint32_t i = m->n; i-- > 0;)
		if (address >= m->at[i].start && address < m->at[i].end)
			return true;
	return false;
}

/* What a stack's frames lie in. The one of a return address is that of the call before it. */
static void note_mappings(struct ss_worker *w, const struct ss_slot *s)
{
	struct ss_mappings *m = mappings_of(w, s->task.tgid, true);

	for (uint32_t i = 0; m && i < s->user.count && m->n < SS_MAPPINGS_MAX; i++) {
		const uint64_t address = s->user.address[i] - (i > 0);

		/* one that is not found leaves the frame as it is: an address */
		if (is_known(m, address) ||
		    lnx_mapping_find(&w->v, w->user.mm, address, &m->at[m->n]))
			continue;
		lnx_mapping_identify(&w->user, &w->known_ids, &m->at[m->n]);
		m->n++;
	}
}

enum gs_code ss_write_mappings(struct ss_worker *w, const struct lnx_task *leader)
{
	const struct ss_mappings *m = mappings_of(w, leader->tgid, false);
	void *room;

	if (!m || !m->n)
		return GS_OK;
	enum gs_code rc = ss_code(kcd_reserve_array(&w->out, SS_RECORD_MAPPING, m->n,
						    sizeof(struct ss_mapping_record), &room));
	for (uint32_t i = 0; !rc && i < m->n; i++) {
		struct ss_mapping_record r = {
			.start = m->at[i].start,
			.end = m->at[i].end,
			.offset = m->at[i].offset,
			.inode = m->at[i].inode,
			.build_id_size = m->at[i].build_id.size,
		};

		memcpy(r.file, m->at[i].file, sizeof(r.file));
		memcpy(r.build_id, m->at[i].build_id.byte, sizeof(r.build_id));
		memcpy((struct ss_mapping_record *)room + i, &r, sizeof(r));
	}
	return rc;
}

/* --- stacks --- */

static void walk(struct ss_worker *w, struct ss_slot *s)
{
	const struct ss_try *t = &w->e->t;
	const gva_t mm = lnx_task_mm(&s->task);

	s->has_user = mm.a != 0;
	if (!s->has_user)
		return;
	if (s->vcpu < 0 && s->task.on_cpu && !t->registers_known) {
		/* what is saved is of an earlier entry into the kernel */
		s->user.count = 0;
		s->user.has_lr = false;
		s->user.end = LNX_USER_NO_REGISTERS;
		s->user.end_at = 0;
		return;
	}
	if (w->user.mm.a != mm.a)
		lnx_user_space_init(&w->user, &w->v, mm, t->regs, w->e->s->g->vcpu_count);
	lnx_user_unwind(&w->user, &s->task, s->vcpu < 0 ? NULL : &t->regs[s->vcpu], &s->user);
	note_mappings(w, s);
}

void ss_user_walk(struct ss_worker *w, struct ss_slot *slots, uint32_t n)
{
	const bool is_wanted = w->e->t.honoured & SS_USER_STACKS;

	for (uint32_t i = 0; i < n; i++) {
		slots[i].has_user = false;
		if (is_wanted && !slots[i].rc && !slots[i].same)
			walk(w, &slots[i]);
	}
}

uint64_t ss_user_flags(const struct ss_slot *s)
{
	if (!s->has_user)
		return KCD_SS_USER64;
	switch (s->user.end) {
	case LNX_USER_COMPLETE:
	case LNX_USER_NEVER: return KCD_SS_USER64;
	case LNX_USER_32BIT: return KCD_THREAD_TRUNCATED_BT | KCD_THREAD_TRUNC_USER_BT;
	case LNX_USER_NO_REGISTERS:
	case LNX_USER_NO_TABLES:
	case LNX_USER_NOT_PRESENT:
	case LNX_USER_UNREADABLE:
	case LNX_USER_BAD_RECORD:
	case LNX_USER_BAD_RETURN:
	case LNX_USER_TRUNCATED:
	case LNX_USER_ENDS: break;
	}
	return KCD_SS_USER64 | KCD_THREAD_TRUNCATED_BT | KCD_THREAD_TRUNC_USER_BT;
}

enum gs_code ss_write_user_stack(struct ss_worker *w, const struct ss_slot *s)
{
	const struct lnx_user_stack *stack = &s->user;
	const struct ss_user_stack_record record = {
		.end = stack->end,
		.has_lr = stack->has_lr,
		.end_at = stack->end_at,
	};
	enum kcd_code rc = KCD_OK;

	if (!s->has_user)
		return GS_OK;
	if (stack->count)
		rc = kcd_append_array(&w->out, KCD_SS_USER_STACKLR64, stack->count,
				      sizeof(stack->address[0]), stack->address);
	if (!rc)
		rc = kcd_append(&w->out, SS_RECORD_USER_STACK, &record, sizeof(record));
	return ss_code(rc);
}
