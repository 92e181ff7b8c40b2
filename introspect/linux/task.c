/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: the lists they are on, what a task_struct says, which one a vCPU executes. */
#include <string.h>

#include "introspect/linux/kernel.h"

/* task.__state and task.exit_state (include/linux/sched.h, 5.10 to 7.3). */
#define TASK_INTERRUPTIBLE   0x1u
#define TASK_UNINTERRUPTIBLE 0x2u
#define TASK_STOPPED	     0x4u
#define TASK_TRACED	     0x8u
#define EXIT_DEAD	     0x10u
#define EXIT_ZOMBIE	     0x20u
#define TASK_PARKED	     0x40u
#define TASK_NOLOAD	     0x400u
#define TASK_RTLOCK_WAIT     0x1000u
#define TASK_IDLE	     (TASK_UNINTERRUPTIBLE | TASK_NOLOAD)

/*
 * An unsigned member of 1, 2, 4 or 8 bytes out of a copy of the structure; absent ones are 0. Some
 * thirty for each thread: the common sizes are single loads.
 */
static uint64_t get(const struct lnx_kernel *k, const uint8_t *copy, enum lnx_member m)
{
	const struct lnx_field *f = lnx_field_of(k, m);
	uint64_t value = 0;
	uint32_t half;

	if (!f->present)
		return 0;
	if (f->size >= sizeof(value)) {
		memcpy(&value, copy + f->offset, sizeof(value));
	} else if (f->size == sizeof(half)) {
		memcpy(&half, copy + f->offset, sizeof(half));
		value = half;
	} else {
		memcpy(&value, copy + f->offset, f->size);
	}
	return value;
}

/* The letter of /proc/PID/stat: fs/proc/array.c get_task_state() and task_state_index(). */
static char state_letter(uint32_t state, uint32_t exit_state)
{
	if (exit_state & EXIT_ZOMBIE)
		return 'Z';
	if (exit_state & EXIT_DEAD)
		return 'X';
	if ((state & TASK_IDLE) == TASK_IDLE)
		return 'I';
	if (state & TASK_INTERRUPTIBLE)
		return 'S';
	if (state & (TASK_UNINTERRUPTIBLE | TASK_RTLOCK_WAIT))
		return 'D';
	if (state & TASK_STOPPED)
		return 'T';
	if (state & TASK_TRACED)
		return 't';
	if (state & TASK_PARKED)
		return 'P';
	return 'R';
}

static bool has(const struct lnx_kernel *k, enum lnx_member m)
{
	return lnx_field_of(k, m)->present;
}

static void fill_optional(const struct lnx_kernel *k, const uint8_t *copy, struct lnx_task *t)
{
	if (has(k, LNX_M_TASK_CPU)) {
		t->valid |= LNX_TASK_HAS_CPU;
		t->cpu = (uint32_t)get(k, copy, LNX_M_TASK_CPU);
	}
	if (has(k, LNX_M_TASK_UTIME) && has(k, LNX_M_TASK_STIME) &&
	    has(k, LNX_M_TASK_SUM_EXEC_RUNTIME)) {
		t->valid |= LNX_TASK_HAS_TIMES;
		t->utime_ns = get(k, copy, LNX_M_TASK_UTIME);
		t->stime_ns = get(k, copy, LNX_M_TASK_STIME);
		t->sum_exec_runtime_ns = get(k, copy, LNX_M_TASK_SUM_EXEC_RUNTIME);
	}
	if (has(k, LNX_M_TASK_NVCSW) && has(k, LNX_M_TASK_NIVCSW)) {
		t->valid |= LNX_TASK_HAS_SWITCHES;
		t->nvcsw = get(k, copy, LNX_M_TASK_NVCSW);
		t->nivcsw = get(k, copy, LNX_M_TASK_NIVCSW);
	}
	if (has(k, LNX_M_TASK_START_TIME) && has(k, LNX_M_TASK_START_BOOTTIME)) {
		t->valid |= LNX_TASK_HAS_START;
		t->start_time_ns = get(k, copy, LNX_M_TASK_START_TIME);
		t->start_boottime_ns = get(k, copy, LNX_M_TASK_START_BOOTTIME);
	}
	if (has(k, LNX_M_TASK_MIN_FLT) && has(k, LNX_M_TASK_MAJ_FLT)) {
		t->valid |= LNX_TASK_HAS_FAULTS;
		t->min_flt = get(k, copy, LNX_M_TASK_MIN_FLT);
		t->maj_flt = get(k, copy, LNX_M_TASK_MAJ_FLT);
	}
	if (has(k, LNX_M_TASK_PRIO) && has(k, LNX_M_TASK_STATIC_PRIO)) {
		t->valid |= LNX_TASK_HAS_PRIO;
		t->prio = (int32_t)get(k, copy, LNX_M_TASK_PRIO);
		t->static_prio = (int32_t)get(k, copy, LNX_M_TASK_STATIC_PRIO);
		t->rt_priority = (uint32_t)get(k, copy, LNX_M_TASK_RT_PRIORITY);
		t->policy = (uint32_t)get(k, copy, LNX_M_TASK_POLICY);
	}
	if (has(k, LNX_M_TASK_EXEC_START)) {
		t->valid |= LNX_TASK_HAS_LAST_RUN;
		t->exec_start_ns = get(k, copy, LNX_M_TASK_EXEC_START);
	}
}

/*
 * A comm is terminated within its 16 bytes (set_task_comm always does); anything else is no task.
 */
static bool copy_comm(const struct lnx_kernel *k, const uint8_t *copy, char *comm)
{
	const struct lnx_field *f = lnx_field_of(k, LNX_M_TASK_COMM);
	size_t n = (size_t)gs_min(f->size, LNX_COMM_LEN);

	memset(comm, 0, LNX_COMM_LEN);
	memcpy(comm, copy + f->offset, n);
	return memchr(comm, 0, LNX_COMM_LEN) != NULL;
}

enum gs_code lnx_task_read(struct lnx_view *v, gva_t address, struct lnx_task *task_out)
{
	const struct lnx_kernel *k = v->k;
	/* static per thread: too large for a stack frame, and nothing may be allocated here */
	static _Thread_local uint8_t own_copy[LNX_TASK_SIZE_MAX];
	uint8_t *copy = v->cache ? v->cache->task : own_copy;

	if (!lnx_is_object(k, address.a))
		return GS_EMALFORMED;
	for (uint32_t i = 0; i < k->spans; i++) {
		const struct lnx_span *s = &k->span[i];
		enum gs_code rc =
			lnx_read(v, GVA(address.a + s->offset), copy + s->offset, s->size);
		if (rc)
			return rc;
	}

	struct lnx_task t = {
		.address = address,
		.pid = (int32_t)get(k, copy, LNX_M_TASK_PID),
		.tgid = (int32_t)get(k, copy, LNX_M_TASK_TGID),
		.raw_state = (uint32_t)get(k, copy, LNX_M_TASK_STATE),
		.exit_state = (uint32_t)get(k, copy, LNX_M_TASK_EXIT_STATE),
		.flags = (uint32_t)get(k, copy, LNX_M_TASK_FLAGS),
		.on_cpu = (uint32_t)get(k, copy, LNX_M_TASK_ON_CPU),
		.mm = GVA(get(k, copy, LNX_M_TASK_MM)),
		.signal = GVA(get(k, copy, LNX_M_TASK_SIGNAL)),
		.stack = GVA(get(k, copy, LNX_M_TASK_STACK)),
		.real_parent = GVA(get(k, copy, LNX_M_TASK_REAL_PARENT)),
		.group_leader = GVA(get(k, copy, LNX_M_TASK_GROUP_LEADER)),
		.context_fp = get(k, copy, LNX_M_TASK_CONTEXT_FP),
		.context_sp = get(k, copy, LNX_M_TASK_CONTEXT_SP),
		.context_pc = get(k, copy, LNX_M_TASK_CONTEXT_PC),
	};

	/* PID_MAX_LIMIT bounds both ids; relatives are other tasks. */
	if (t.pid < 0 || t.tgid < 0 || (uint32_t)t.pid > LNX_TASKS_MAX ||
	    (uint32_t)t.tgid > LNX_TASKS_MAX || !copy_comm(k, copy, t.comm) ||
	    !lnx_is_object(k, t.real_parent.a) || !lnx_is_object(k, t.group_leader.a))
		return GS_EMALFORMED;
	t.state = state_letter(t.raw_state, t.exit_state);
	fill_optional(k, copy, &t);
	*task_out = t;
	return GS_OK;
}

enum gs_code lnx_task_signal(struct lnx_view *v, gva_t address, gva_t *signal_out)
{
	return lnx_read_u64(v, lnx_member_of(v->k, address, LNX_M_TASK_SIGNAL), &signal_out->a);
}

enum gs_code lnx_task_tgid(struct lnx_view *v, gva_t address, int32_t *tgid_out)
{
	uint32_t tgid;
	enum gs_code rc = lnx_read_u32(v, lnx_member_of(v->k, address, LNX_M_TASK_TGID), &tgid);

	if (rc)
		return rc;
	if (tgid > LNX_TASKS_MAX)
		return GS_EMALFORMED;
	*tgid_out = (int32_t)tgid;
	return GS_OK;
}

void lnx_task_prefetch_entry(struct lnx_view *v, gva_t address)
{
	const struct lnx_kernel *k = v->k;

	if (!v->can_prefetch || !lnx_is_object(k, address.a))
		return;
	/* of two pages at most, for the kernels looked at */
	lnx_prefetch_entry(v, GVA(address.a + k->span[0].offset));
	lnx_prefetch_entry(v, GVA(address.a + k->span[k->spans - 1].offset));
}

void lnx_task_prefetch(struct lnx_view *v, gva_t address)
{
	const struct lnx_kernel *k = v->k;

	if (!v->can_prefetch || !lnx_is_object(k, address.a))
		return;
	for (uint32_t i = 0; i < k->spans; i++)
		lnx_prefetch(v, GVA(address.a + k->span[i].offset), k->span[i].size);
}

void lnx_relatives_prefetch_entry(struct lnx_view *v, const struct lnx_task *task)
{
	lnx_prefetch_entry(v, lnx_member_of(v->k, task->signal, LNX_M_SIGNAL_THREAD_HEAD));
	lnx_prefetch_entry(v, lnx_member_of(v->k, task->real_parent, LNX_M_TASK_TGID));
}

void lnx_relatives_prefetch(struct lnx_view *v, const struct lnx_task *task)
{
	lnx_prefetch(v, lnx_member_of(v->k, task->signal, LNX_M_SIGNAL_THREAD_HEAD), 8);
	lnx_prefetch(v, lnx_member_of(v->k, task->real_parent, LNX_M_TASK_TGID), 4);
}

void lnx_processes_begin(struct lnx_list *l, struct lnx_view *v, gva_t *tasks, uint32_t max)
{
	lnx_list_begin(l, v, lnx_member_of(v->k, v->k->init_task, LNX_M_TASK_TASKS),
		       lnx_field_of(v->k, LNX_M_TASK_TASKS)->offset, tasks, max);
}

enum gs_code lnx_threads_begin(struct lnx_list *l, struct lnx_view *v, gva_t signal, gva_t *tasks,
			       uint32_t max)
{
	if (!lnx_is_object(v->k, signal.a))
		return GS_EMALFORMED;
	lnx_list_begin(l, v, lnx_member_of(v->k, signal, LNX_M_SIGNAL_THREAD_HEAD),
		       lnx_field_of(v->k, LNX_M_TASK_THREAD_NODE)->offset, tasks, max);
	return GS_OK;
}

static enum gs_code walk_to_end(struct lnx_list *l, uint32_t *n_out)
{
	gva_t task;

	while (lnx_list_next(l, &task))
		;
	*n_out = l->n;
	return l->rc;
}

enum gs_code lnx_processes_collect(struct lnx_view *v, gva_t *tasks, uint32_t max, uint32_t *n_out)
{
	struct lnx_list l;

	lnx_processes_begin(&l, v, tasks, max);
	return walk_to_end(&l, n_out);
}

enum gs_code lnx_threads_collect(struct lnx_view *v, gva_t signal, gva_t *tasks, uint32_t max,
				 uint32_t *n_out)
{
	struct lnx_list l;

	*n_out = 0;
	enum gs_code rc = lnx_threads_begin(&l, v, signal, tasks, max);
	return rc ? rc : walk_to_end(&l, n_out);
}

gva_t lnx_init_task(const struct lnx_kernel *k)
{
	return k->init_task;
}

/* A run queue's idle member leads to a task that is one: pid 0, "swapper/N". */
static bool idle_of(struct lnx_view *v, gva_t rq, gva_t *task_out)
{
	struct lnx_task t;
	uint64_t idle;

	if (lnx_read_u64(v, lnx_member_of(v->k, rq, LNX_M_RQ_IDLE), &idle) ||
	    lnx_task_read(v, GVA(idle), &t) || t.pid != 0 || strncmp(t.comm, "swapper", 7) != 0)
		return false;
	*task_out = GVA(idle);
	return true;
}

enum gs_code lnx_runqueue(struct lnx_view *v, uint64_t tpidr_el1, gva_t *rq_out, gva_t *idle_out)
{
	const struct lnx_kernel *k = v->k;

	if (!has(k, LNX_M_RQ_IDLE))
		return GS_ENOENT;
	/* modulo 2^64, as the kernel adds them */
	for (uint32_t i = 0; i < k->runqueues_count; i++) {
		*rq_out = GVA(k->runqueues[i].a + tpidr_el1);
		if (idle_of(v, *rq_out, idle_out))
			return GS_OK;
	}
	return GS_ENOENT;
}

enum gs_code lnx_idle_task(struct lnx_view *v, uint64_t tpidr_el1, gva_t *task_out)
{
	gva_t rq;

	return lnx_runqueue(v, tpidr_el1, &rq, task_out);
}

/*
 * idle_task() adds an element of __per_cpu_offset to runqueues, and both are among the addresses
 * that were decoded from it: the pair that leads to the run queue of that CPU is the right one.
 */
enum gs_code lnx_percpu_offset(struct lnx_view *v, uint32_t cpu, uint64_t *offset_out)
{
	const struct lnx_kernel *k = v->k;
	gva_t idle;

	if (!has(k, LNX_M_RQ_IDLE) || !has(k, LNX_M_RQ_CPU))
		return GS_ENOENT;
	for (uint32_t t = 0; t < k->runqueues_count; t++) {
		uint64_t offset;

		if (lnx_read_u64(v, GVA(k->runqueues[t].a + 8 * (uint64_t)cpu), &offset))
			continue;
		for (uint32_t i = 0; i < k->runqueues_count; i++) {
			gva_t rq = GVA(k->runqueues[i].a + offset);
			uint32_t number;

			if (i == t || !idle_of(v, rq, &idle) ||
			    lnx_read_u32(v, lnx_member_of(k, rq, LNX_M_RQ_CPU), &number) ||
			    number != cpu)
				continue;
			*offset_out = offset;
			return GS_OK;
		}
	}
	return GS_ENOENT;
}

/*
 * A pointer that some register holds is a task only if what it points to reads like one and its
 * stack pointer is one of a kernel stack.
 */
static bool is_task(struct lnx_view *v, uint64_t address)
{
	struct lnx_task t;

	return lnx_is_object(v->k, address) && lnx_task_read(v, GVA(address), &t) == GS_OK &&
	       lnx_is_object(v->k, t.stack.a) && t.comm[0];
}

enum gs_code lnx_vcpu_current(struct lnx_view *v, const struct guest_vcpu_regs *regs,
			      gva_t *task_out)
{
	const struct lnx_kernel *k = v->k;
	uint64_t task;

	if (regs->state == GUEST_VCPU_OFF || !guest_regs_have_frame(regs))
		return GS_ENOENT;
	/*
	 * In EL1 SP_EL0 is the current task, but for some instructions after entry from EL0 and
	 * before the return to it, where it is the user's stack pointer: hence the check of what is
	 * there.
	 */
	if (a64_pstate_el(regs->pstate) == 1 && is_task(v, regs->sp_el0)) {
		*task_out = GVA(regs->sp_el0);
		return GS_OK;
	}
	if (!k->entry_task.a || !(regs->valid & GUEST_REGS_TPIDR))
		return GS_ENOENT;
	if (lnx_read_u64(v, GVA(k->entry_task.a + regs->tpidr_el1), &task) || !is_task(v, task))
		return GS_ENOENT;
	*task_out = GVA(task);
	return GS_OK;
}
