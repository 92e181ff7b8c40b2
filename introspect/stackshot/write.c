/* SPDX-License-Identifier: Apache-2.0 */
/* What threads and processes look like in the stream. */
#include <string.h>

#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/linux_context.h"
#include "introspect/stackshot/user.h"
#include "kcdata/stackshot_types.h"

/* --- threads --- */

static uint32_t stock_state(char letter)
{
	switch (letter) {
	case 'R': return KCD_THREAD_RUN;
	case 'S':
	case 'P': return KCD_THREAD_WAIT;
	case 'D':
	case 'I': return KCD_THREAD_WAIT | KCD_THREAD_UNINT;
	case 'T':
	case 't': return KCD_THREAD_SUSP;
	case 'Z': return KCD_THREAD_TERMINATE | KCD_THREAD_TERMINATE2;
	default: return KCD_THREAD_TERMINATE;
	}
}

static void fill_thread_snapshot(struct kcd_thread_snapshot_v4 *out, const struct ss_slot *slot,
				 uint64_t id)
{
	const struct lnx_task *task = &slot->task;
	const struct lnx_stack *stack = &slot->stack;
	uint64_t flags = ss_user_flags(slot);

	if (stack->count)
		flags |= KCD_SS_KERNEL64;
	if (stack->end != LNX_END_COMPLETE && stack->end != LNX_END_NO_STACK)
		flags |= KCD_THREAD_TRUNCATED_BT | KCD_THREAD_TRUNC_KERN_BT;
	if (slot->vcpu >= 0)
		flags |= KCD_THREAD_ON_CORE;
	if (task->pid == task->tgid)
		flags |= KCD_THREAD_MAIN;

	struct kcd_thread_snapshot_v4 snapshot = {
		.ths_thread_id = id,
		.ths_user_time = task->utime_ns,
		.ths_sys_time = task->stime_ns,
		.ths_ss_flags = flags,
		.ths_last_run_time = task->exec_start_ns,
		.ths_state = stock_state(task->state) | (task->pid == 0 ? KCD_THREAD_IDLE : 0u),
		.ths_base_priority = (int16_t)task->static_prio,
		.ths_sched_priority = (int16_t)task->prio,
		.ths_thread_t = task->address.a,
	};
	memcpy(out, &snapshot, sizeof(snapshot));
}

struct ss_thread_record ss_thread_record_of(const struct lnx_task *task, int32_t vcpu,
					    const struct lnx_stack *stack)
{
	struct ss_thread_record r = {
		.tid = task->pid,
		.vcpu = vcpu,
		.state = (uint8_t)task->state,
		.raw_state = task->raw_state,
		.exit_state = task->exit_state,
		.flags = task->flags,
		.known = task->valid,
		.cpu = task->cpu,
		.prio = task->prio,
		.static_prio = task->static_prio,
		.rt_priority = task->rt_priority,
		.policy = task->policy,
		.stack_end = stack->end,
		.stack_end_at = stack->end_at,
		.utime_ns = task->utime_ns,
		.stime_ns = task->stime_ns,
		.sum_exec_runtime_ns = task->sum_exec_runtime_ns,
		.nvcsw = task->nvcsw,
		.nivcsw = task->nivcsw,
		.start_time_ns = task->start_time_ns,
		.start_boottime_ns = task->start_boottime_ns,
		.exec_start_ns = task->exec_start_ns,
		.min_flt = task->min_flt,
		.maj_flt = task->maj_flt,
		.address = task->address.a,
	};

	memcpy(r.comm, task->comm, sizeof(r.comm));
	return r;
}

static bool is_special(const struct lnx_stack *stack, uint32_t i)
{
	return stack->kind[i] != LNX_FRAME_RETURN || stack->doubt[i];
}

static enum gs_code write_stack(struct ss_worker *w, const struct lnx_stack *stack)
{
	const uint32_t count = stack->count;
	uint32_t special = 0;

	if (!count)
		return GS_OK; /* an empty stack is left out */
	enum gs_code rc = ss_code(kcd_append_array(&w->out, KCD_SS_KERN_STACKLR64, count,
						   sizeof(uint64_t), stack->address));
	for (uint32_t i = 0; i < count; i++)
		special += is_special(stack, i);
	if (rc || !special)
		return rc;

	void *room;
	rc = ss_code(kcd_reserve_array(&w->out, SS_RECORD_FRAME_KIND, special,
				       sizeof(struct ss_frame_kind_record), &room));
	if (rc)
		return rc;
	struct ss_frame_kind_record *out = room;
	for (uint32_t i = 0; i < count; i++) {
		struct ss_frame_kind_record r = { i, stack->kind[i], stack->doubt[i] };

		if (is_special(stack, i))
			memcpy(out++, &r, sizeof(r));
	}
	return GS_OK;
}

enum gs_code ss_write_thread(struct ss_worker *w, const struct ss_slot *slot, uint64_t id)
{
	const struct lnx_task *task = &slot->task;
	struct ss_thread_record record = ss_thread_record_of(task, slot->vcpu, &slot->stack);
	struct kcd_cpu_times_v2 times = { .user_usec = task->utime_ns / 1000,
					  .system_usec = task->stime_ns / 1000 };
	char name[KCD_SS_THREAD_NAME_SIZE] = { 0 };
	struct ss_wait_record waits[LNX_WAITS_MAX];
	const uint32_t n = ss_find_waits(w, slot, waits);
	void *snapshot;
	enum kcd_code rc;

	memcpy(name, task->comm, sizeof(task->comm));
	if ((rc = kcd_container_begin(&w->out, KCD_SS_CONTAINER_THREAD, id)) ||
	    (rc = kcd_reserve(&w->out, KCD_SS_THREAD_SNAPSHOT,
			      sizeof(struct kcd_thread_snapshot_v4), &snapshot)))
		return ss_code(rc);
	fill_thread_snapshot(snapshot, slot, id);
	if ((rc = kcd_append(&w->out, SS_RECORD_THREAD, &record, sizeof(record))) ||
	    (rc = kcd_append(&w->out, KCD_SS_THREAD_NAME, name, sizeof(name))) ||
	    ((task->valid & LNX_TASK_HAS_TIMES) &&
	     (rc = kcd_append(&w->out, KCD_SS_CPU_TIMES, &times, sizeof(times)))))
		return ss_code(rc);

	enum gs_code code = write_stack(w, &slot->stack);
	if (!code)
		code = ss_write_thread_context(w, slot);
	if (!code)
		code = ss_write_user_stack(w, slot);
	if (code ||
	    (n && (code = ss_code(kcd_append_array(&w->out, SS_RECORD_WAIT, n, sizeof(waits[0]),
						   waits)))) ||
	    (code = ss_code(kcd_container_end(&w->out, id))))
		return code;
	return ss_write_waitinfo(w, id, waits, n);
}

/* --- processes --- */

/* A terminated string of at most 15 characters; not formatted, which is not for a stopped guest. */
static void copy_comm(char *out, const char *comm)
{
	memcpy(out, comm, strnlen(comm, LNX_COMM_LEN - 1));
}

struct ss_task_record ss_task_record_of(const struct lnx_task *leader, int32_t ppid,
					uint32_t threads, const char *comm)
{
	struct ss_task_record record = {
		.pid = leader->tgid,
		.ppid = ppid,
		.flags = leader->flags,
		.threads = threads,
		.address = leader->address.a,
	};

	copy_comm(record.comm, comm);
	return record;
}

#define TASK_FLAGS (KCD_SS_USER64 | KCD_SS_KERNEL64 | KCD_TASK_SHARED_REGION_NONE)

enum gs_code ss_write_task_begin(struct ss_worker *w, const struct lnx_task *leader, uint64_t id,
				 const struct ss_task_record *record, void **snapshot_out)
{
	struct kcd_task_snapshot_v2 snapshot = {
		.ts_unique_pid = id,
		.ts_ss_flags = TASK_FLAGS,
		.ts_p_start_sec = leader->start_boottime_ns / 1000000000,
		.ts_pid = leader->tgid,
	};
	enum kcd_code rc;

	copy_comm(snapshot.ts_p_comm, record->comm);
	if ((rc = kcd_container_begin(&w->out, KCD_SS_CONTAINER_TASK, id)) ||
	    (rc = kcd_reserve(&w->out, KCD_SS_TASK_SNAPSHOT, sizeof(snapshot), snapshot_out)))
		return ss_code(rc);
	memcpy(*snapshot_out, &snapshot, sizeof(snapshot));
	return ss_code(kcd_append(&w->out, SS_RECORD_TASK, record, sizeof(*record)));
}

enum gs_code ss_write_same_task_begin(struct ss_worker *w, uint64_t id)
{
	const struct kcd_task_delta_snapshot_v2 snapshot = {
		.tds_unique_pid = id,
		.tds_ss_flags = TASK_FLAGS,
	};
	enum kcd_code rc = kcd_container_begin(&w->out, KCD_SS_CONTAINER_TASK, id);

	if (!rc)
		rc = kcd_append(&w->out, KCD_SS_TASK_DELTA_SNAPSHOT, &snapshot, sizeof(snapshot));
	return ss_code(rc);
}

enum gs_code ss_write_task_latency(struct ss_worker *w, const struct kcd_latency_task *latency)
{
	return ss_code(kcd_append(&w->out, KCD_SS_LATENCY_INFO_TASK, latency, sizeof(*latency)));
}

/* --- what has not changed --- */

/* Elements of one array: readers join arrays of one kind, and a large one may find no room. */
#define SAME_AT_ONCE 512u

bool ss_is_runnable(const struct ss_mark *m)
{
	return stock_state((char)m->r.thread.state) & KCD_THREAD_RUN;
}

static struct kcd_thread_delta_snapshot_v3 thread_delta(const struct ss_mark *m)
{
	const struct ss_thread_record *r = &m->r.thread;
	struct kcd_thread_delta_snapshot_v3 delta = {
		.tds_thread_id = m->id,
		.tds_ss_flags = KCD_SS_USER64, /* no stack is recorded */
		.tds_state = stock_state((char)r->state),
		.tds_base_priority = (int16_t)r->static_prio,
		.tds_sched_priority = (int16_t)r->prio,
	};

	return delta;
}

/* Up to SAME_AT_ONCE of those that can run, or of those that cannot, from *at on. */
static enum gs_code write_same(struct ss_worker *w, struct ss_mark *const *same, uint32_t count,
			       bool runnable, uint32_t *at)
{
	const size_t size =
		runnable ? sizeof(struct kcd_thread_delta_snapshot_v3) : sizeof(uint64_t);
	uint32_t n = 0, end;
	void *room = NULL;

	for (end = *at; end < count && n < SAME_AT_ONCE; end++)
		n += ss_is_runnable(same[end]) == runnable;
	enum gs_code rc = GS_OK;
	if (n)
		rc = ss_code(kcd_reserve_array(
			&w->out, runnable ? KCD_SS_THREAD_DELTA_SNAPSHOT : KCD_SS_NONRUNNABLE_TIDS,
			n, size, &room));
	for (uint8_t *out = room; !rc && *at < end; ++*at) {
		if (ss_is_runnable(same[*at]) != runnable)
			continue;
		struct kcd_thread_delta_snapshot_v3 delta = thread_delta(same[*at]);
		/* the id comes first in it */
		memcpy(out, &delta, size);
		out += size;
	}
	return rc;
}

enum gs_code ss_write_same_threads(struct ss_worker *w, struct ss_mark *const *same, uint32_t count)
{
	enum gs_code rc = GS_OK;

	for (uint32_t at = 0; !rc && at < count;)
		rc = write_same(w, same, count, true, &at);
	for (uint32_t at = 0; !rc && at < count;)
		rc = write_same(w, same, count, false, &at);
	return rc;
}

void ss_write_task_faults(void *snapshot, uint64_t minor, uint64_t major)
{
	struct kcd_task_snapshot_v2 s;

	memcpy(&s, snapshot, sizeof(s));
	s.ts_faults += (uint32_t)(minor + major);
	s.ts_pageins += (uint32_t)major;
	memcpy(snapshot, &s, sizeof(s));
}
