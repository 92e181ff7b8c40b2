/* SPDX-License-Identifier: Apache-2.0 */
/* What runs while the guest is stopped: from its memory to records. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "introspect/stackshot/capture.h"
#include "kcdata/stackshot_types.h"

void ss_note_missing(struct ss_try *t, enum ss_missing what, int32_t pid, int32_t tid,
		     uint64_t address, const char *fmt, ...)
{
	if (t->missing_count++ >= SS_MISSING_LISTED)
		return;

	struct ss_missing_record *m = &t->missing[t->missing_count - 1];
	*m = (struct ss_missing_record){
		.what = what, .count = 1, .pid = pid, .tid = tid, .address = address
	};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(m->reason, sizeof(m->reason), fmt, ap);
	va_end(ap);
}

/* --- vCPUs --- */

static enum ss_vcpu_state vcpu_state(const struct guest_vcpu_regs *regs)
{
	if (regs->state == GUEST_VCPU_OFF)
		return SS_VCPU_OFF;
	if (!(regs->valid & GUEST_REGS_GENERAL))
		return SS_VCPU_UNKNOWN;
	return a64_pstate_el(regs->pstate) == 0 ? SS_VCPU_USER : SS_VCPU_KERNEL;
}

static void record_registers(struct ss_try *t, uint32_t i)
{
	const struct guest_vcpu_regs *regs = &t->s->regs[i];
	struct ss_vcpu_record *r = &t->vcpu[i];

	*r = (struct ss_vcpu_record){
		.vcpu = i,
		.cluster = t->s->g->vcpu_cluster[i],
		.state = vcpu_state(regs),
		.known = regs->valid,
		.pid = -1,
		.tid = -1,
		.sp_el0 = regs->sp_el0,
		.sp_el1 = regs->sp_el1,
		.pc = regs->pc,
		.pstate = regs->pstate,
		.elr_el1 = regs->elr_el1,
		.spsr_el1 = regs->spsr_el1,
		.ttbr0_el1 = regs->ttbr0_el1,
		.ttbr1_el1 = regs->ttbr1_el1,
		.tcr_el1 = regs->tcr_el1,
		.mair_el1 = regs->mair_el1,
		.sctlr_el1 = regs->sctlr_el1,
		.vbar_el1 = regs->vbar_el1,
		.tpidr_el1 = regs->tpidr_el1,
		.contextidr_el1 = regs->contextidr_el1,
		.mpidr_el1 = regs->mpidr_el1,
	};
	memcpy(r->x, regs->x, sizeof(r->x));
}

/*
 * Other VMMs and dumps tell the general registers only. Which CPU's data a vCPU uses is then known
 * from its number, as VMMs describe them to the guest in this order; what is recorded as known stays.
 */
static void complete_registers(struct ss_try *t, uint32_t i)
{
	struct guest_vcpu_regs *regs = &t->s->regs[i];

	if (regs->state != GUEST_VCPU_OFF && !(regs->valid & GUEST_REGS_TPIDR) &&
	    !lnx_percpu_offset(&t->v, i, &regs->tpidr_el1))
		regs->valid |= GUEST_REGS_TPIDR;
}

static void find_current(struct ss_try *t, uint32_t i)
{
	struct ss_vcpu_record *r = &t->vcpu[i];
	struct lnx_task task;

	if (r->state == SS_VCPU_OFF)
		return;
	if (r->state == SS_VCPU_UNKNOWN) {
		ss_note_missing(t, SS_MISSING_CURRENT, -1, -1, 0,
				"the registers of vCPU %" PRIu32 " are not known", i);
		return;
	}
	if (lnx_vcpu_current(&t->v, &t->s->regs[i], &t->current[i]) ||
	    lnx_task_read(&t->v, t->current[i], &task)) {
		t->current[i] = GVA(0);
		ss_note_missing(t, SS_MISSING_CURRENT, -1, -1, t->s->regs[i].sp_el0,
				"what vCPU %" PRIu32
				" executes is not known: neither SP_EL0 nor its "
				"__entry_task is a task",
				i);
		return;
	}
	r->pid = task.tgid;
	r->tid = task.pid;
	r->thread_id = task.pid ? ss_unique_id(&task) : ss_idle_id(i);
	memcpy(r->comm, task.comm, sizeof(r->comm));
	if (task.pid == 0 && r->state == SS_VCPU_KERNEL)
		r->state = SS_VCPU_IDLE;
}

/* The vCPU that executes a task, or -1. */
static int32_t vcpu_of(const struct ss_try *t, gva_t task)
{
	for (uint32_t i = 0; i < t->s->g->vcpu_count; i++)
		if (t->current[i].a == task.a)
			return (int32_t)i;
	return -1;
}

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

static void fill_thread_snapshot(struct kcd_thread_snapshot_v4 *out, const struct lnx_task *task,
				 uint64_t id, int32_t vcpu, const struct lnx_stack *stack)
{
	uint64_t flags = KCD_SS_USER64;

	if (stack->count)
		flags |= KCD_SS_KERNEL64;
	if (stack->end != LNX_END_COMPLETE && stack->end != LNX_END_NO_STACK)
		flags |= KCD_THREAD_TRUNCATED_BT | KCD_THREAD_TRUNC_KERN_BT;
	if (vcpu >= 0)
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

static struct ss_thread_record thread_record(const struct lnx_task *task, int32_t vcpu,
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

static enum gs_code write_stack(struct ss_try *t, const struct lnx_stack *stack)
{
	const uint32_t count = stack->count;
	uint32_t special = 0;

	if (!count)
		return GS_OK; /* an empty stack is left out */
	enum gs_code rc = ss_code(kcd_append_array(&t->w, KCD_SS_KERN_STACKLR64, count,
						   sizeof(uint64_t), stack->address));
	for (uint32_t i = 0; i < count; i++)
		special += stack->kind[i] != LNX_FRAME_RETURN;
	if (rc || !special)
		return rc;

	void *room;
	rc = ss_code(kcd_reserve_array(&t->w, SS_RECORD_FRAME_KIND, special,
				       sizeof(struct ss_frame_kind_record), &room));
	if (rc)
		return rc;
	struct ss_frame_kind_record *out = room;
	for (uint32_t i = 0; i < count; i++) {
		struct ss_frame_kind_record r = { i, stack->kind[i] };

		if (r.kind != LNX_FRAME_RETURN)
			memcpy(out++, &r, sizeof(r));
	}
	return GS_OK;
}

static enum gs_code write_thread(struct ss_try *t, const struct lnx_task *task, uint64_t id,
				 int32_t vcpu)
{
	struct lnx_stack stack = { .address = t->s->frames, .kind = t->s->frame_kinds };

	if (vcpu < 0 && task->on_cpu && !t->registers_known)
		stack.end = LNX_END_RUNNING; /* its saved context is that of an earlier sleep */
	else if (vcpu >= 0)
		lnx_unwind_running(&t->v, task, &t->s->regs[vcpu], &stack);
	else
		lnx_unwind_blocked(&t->v, task, &stack);
	if (stack.count > KCD_SS_FRAMES_MAX) {
		stack.end = LNX_END_TRUNCATED;
		stack.end_at = stack.address[KCD_SS_FRAMES_MAX];
		stack.count = KCD_SS_FRAMES_MAX;
	}
	if (stack.end != LNX_END_COMPLETE && stack.end != LNX_END_NO_STACK)
		ss_note_missing(t, SS_MISSING_STACK, task->tgid, task->pid, stack.end_at,
				"kernel stack ends after %" PRIu32 " frames: %s", stack.count,
				lnx_unwind_end_name(stack.end));

	struct ss_thread_record record = thread_record(task, vcpu, &stack);
	struct kcd_cpu_times_v2 times = { .user_usec = task->utime_ns / 1000,
					  .system_usec = task->stime_ns / 1000 };
	char name[KCD_SS_THREAD_NAME_SIZE] = { 0 };
	void *snapshot;
	enum kcd_code rc;

	memcpy(name, task->comm, sizeof(task->comm));
	if ((rc = kcd_container_begin(&t->w, KCD_SS_CONTAINER_THREAD, id)) ||
	    (rc = kcd_reserve(&t->w, KCD_SS_THREAD_SNAPSHOT, sizeof(struct kcd_thread_snapshot_v4),
			      &snapshot)))
		return ss_code(rc);
	fill_thread_snapshot(snapshot, task, id, vcpu, &stack);
	if ((rc = kcd_append(&t->w, SS_RECORD_THREAD, &record, sizeof(record))) ||
	    (rc = kcd_append(&t->w, KCD_SS_THREAD_NAME, name, sizeof(name))) ||
	    ((task->valid & LNX_TASK_HAS_TIMES) &&
	     (rc = kcd_append(&t->w, KCD_SS_CPU_TIMES, &times, sizeof(times)))))
		return ss_code(rc);

	enum gs_code code = write_stack(t, &stack);
	if (code)
		return code;
	t->threads += task->pid != 0;
	t->idle_threads += task->pid == 0;
	return ss_code(kcd_container_end(&t->w, id));
}

/* --- processes --- */

/*
 * Open a task's container; what is summed over its threads is filled in later through
 * *snapshot_out.
 */
static enum gs_code begin_task(struct ss_try *t, const struct lnx_task *leader, uint64_t id,
			       int32_t ppid, uint32_t threads, const char *comm,
			       void **snapshot_out)
{
	struct ss_task_record record = {
		.pid = leader->tgid,
		.ppid = ppid,
		.flags = leader->flags,
		.threads = threads,
		.address = leader->address.a,
	};
	struct kcd_task_snapshot_v2 snapshot = {
		.ts_unique_pid = id,
		.ts_ss_flags = KCD_SS_USER64 | KCD_SS_KERNEL64 | KCD_TASK_SHARED_REGION_NONE,
		.ts_p_start_sec = leader->start_boottime_ns / 1000000000,
		.ts_pid = leader->tgid,
	};
	enum kcd_code rc;

	snprintf(record.comm, sizeof(record.comm), "%s", comm);
	snprintf(snapshot.ts_p_comm, sizeof(snapshot.ts_p_comm), "%s", comm);
	if ((rc = kcd_container_begin(&t->w, KCD_SS_CONTAINER_TASK, id)) ||
	    (rc = kcd_reserve(&t->w, KCD_SS_TASK_SNAPSHOT, sizeof(snapshot), snapshot_out)))
		return ss_code(rc);
	memcpy(*snapshot_out, &snapshot, sizeof(snapshot));
	return ss_code(kcd_append(&t->w, SS_RECORD_TASK, &record, sizeof(record)));
}

static void add_faults(void *snapshot, const struct lnx_task *task)
{
	struct kcd_task_snapshot_v2 s;

	memcpy(&s, snapshot, sizeof(s));
	s.ts_faults += (uint32_t)(task->min_flt + task->maj_flt);
	s.ts_pageins += (uint32_t)task->maj_flt;
	memcpy(snapshot, &s, sizeof(s));
}

static enum gs_code write_threads(struct ss_try *t, const struct lnx_task *leader, void *snapshot,
				  uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		gva_t at = t->s->storage.threads[i];
		struct lnx_task task;
		enum gs_code rc = lnx_task_read(&t->v, at, &task);

		/* only idle threads have id 0, and they are on no list */
		if (rc || task.tgid != leader->tgid || !task.pid) {
			ss_note_missing(t, SS_MISSING_TASK, leader->tgid, -1, at.a,
					"a thread of %s could not be read: %s", leader->comm,
					rc	   ? gs_code_name(rc)
					: task.pid ? "it belongs to another process"
						   : "it claims to be an idle thread");
			continue;
		}
		rc = write_thread(t, &task, ss_unique_id(&task), vcpu_of(t, at));
		if (rc)
			return rc;
		add_faults(snapshot, &task);
	}
	return GS_OK;
}

static enum gs_code write_process(struct ss_try *t, gva_t at)
{
	struct ss_storage *st = &t->s->storage;
	struct lnx_task leader;
	int32_t ppid = -1;
	uint32_t n;
	void *snapshot;
	enum gs_code rc = lnx_task_read(&t->v, at, &leader);

	if (rc || !leader.tgid) {
		ss_note_missing(t, SS_MISSING_TASK, -1, -1, at.a, "a process could not be read: %s",
				rc ? gs_code_name(rc) : "it claims to be the idle task");
		return GS_OK;
	}
	if (t->request->pid != SS_PID_ALL && leader.tgid != t->request->pid)
		return GS_OK;

	rc = lnx_threads_collect(&t->v, leader.signal, st->threads, st->max_tasks, &n);
	t->longest = (uint32_t)gs_max(t->longest, n);
	if (rc == GS_ENOSPC)
		return rc;
	if (rc)
		ss_note_missing(t, SS_MISSING_THREADS, leader.tgid, -1, leader.signal.a,
				"the threads of %s break off after %" PRIu32 ": %s", leader.comm, n,
				gs_code_name(rc));
	GS_IGNORE(lnx_task_tgid(&t->v, leader.real_parent, &ppid)); /* -1: shown as not known */

	rc = begin_task(t, &leader, ss_unique_id(&leader), ppid, n, leader.comm, &snapshot);
	if (!rc)
		rc = write_threads(t, &leader, snapshot, n);
	if (rc)
		return rc;
	t->tasks++;
	return ss_code(kcd_container_end(&t->w, ss_unique_id(&leader)));
}

/* --- idle task --- */

static enum gs_code write_idle_thread(struct ss_try *t, uint32_t vcpu)
{
	const struct guest_vcpu_regs *regs = &t->s->regs[vcpu];
	struct lnx_task task;
	gva_t at;

	if (regs->state == GUEST_VCPU_OFF || !(regs->valid & GUEST_REGS_TPIDR))
		return GS_OK;
	if (lnx_idle_task(&t->v, regs->tpidr_el1, &at) || lnx_task_read(&t->v, at, &task)) {
		ss_note_missing(t, SS_MISSING_IDLE, 0, 0, regs->tpidr_el1,
				"the idle thread of vCPU %" PRIu32 " was not found", vcpu);
		return GS_OK;
	}
	return write_thread(t, &task, ss_idle_id(vcpu), vcpu_of(t, at));
}

static enum gs_code write_idle_task(struct ss_try *t)
{
	struct lnx_task init;
	void *snapshot;

	if (lnx_task_read(&t->v, lnx_init_task(t->s->k), &init)) {
		ss_note_missing(t, SS_MISSING_TASK, 0, 0, lnx_init_task(t->s->k).a,
				"init_task could not be read");
		return GS_OK;
	}
	/* the comm is "swapper/0", the boot CPU's own: the task stands for all of them */
	enum gs_code rc = begin_task(t, &init, 0, 0, t->s->g->vcpu_count, "swapper", &snapshot);
	for (uint32_t i = 0; !rc && i < t->s->g->vcpu_count; i++)
		rc = write_idle_thread(t, i);
	t->idle_task = true;
	return rc ? rc : ss_code(kcd_container_end(&t->w, 0));
}

/* --- all of it --- */

static enum gs_code write_processes(struct ss_try *t)
{
	struct ss_storage *st = &t->s->storage;
	uint32_t n;
	enum gs_code rc = lnx_processes_collect(&t->v, st->processes, st->max_tasks, &n);

	t->longest = (uint32_t)gs_max(t->longest, n);
	if (rc == GS_ENOSPC)
		return rc;
	if (rc)
		ss_note_missing(t, SS_MISSING_TASKS, -1, -1, n ? st->processes[n - 1].a : 0,
				"the list of processes breaks off after %" PRIu32 ": %s", n,
				gs_code_name(rc));
	for (uint32_t i = 0; i < n; i++) {
		rc = write_process(t, st->processes[i]);
		if (rc)
			return rc;
	}
	return GS_OK;
}

enum gs_code ss_collect(struct ss_try *t)
{
	struct ss_session *s = t->s;
	enum gs_code rc = ss_code(kcd_writer_init(&t->w, s->storage.records,
						  s->storage.records_size, KCD_MAGIC_STACKSHOT, 0));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < s->g->vcpu_count; i++) {
		if (guest_vcpu_regs(s->g, i, &s->regs[i]))
			s->regs[i] = (struct guest_vcpu_regs){ 0 };
		record_registers(t, i);
	}
	if (!s->k) {
		ss_note_missing(t, SS_MISSING_KERNEL, -1, -1, 0, "%s", s->why_no_kernel.text);
		return GS_OK;
	}
	if (!lnx_kernel_is_current(s->k, s->g)) {
		/* shown only if it goes on changing: the capture is repeated after a new search */
		t->kernel_changed = true;
		ss_note_missing(t, SS_MISSING_KERNEL, -1, -1, 0,
				"the kernel that was found is no longer in memory");
		return GS_OK;
	}

	lnx_view_init(&t->v, s->k, s->g);
	t->registers_known = s->g->vcpu_count > 0;
	for (uint32_t i = 0; i < s->g->vcpu_count; i++) {
		t->registers_known &= t->vcpu[i].state != SS_VCPU_UNKNOWN;
		complete_registers(t, i);
		find_current(t, i);
	}
	if (t->request->pid == SS_PID_ALL)
		rc = write_idle_task(t);
	if (!rc)
		rc = write_processes(t);
	if (!rc && t->request->pid != SS_PID_ALL && !t->tasks)
		rc = GS_ENOENT;
	return rc;
}
