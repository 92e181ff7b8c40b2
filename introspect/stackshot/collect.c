/* SPDX-License-Identifier: Apache-2.0 */
/* The stopped guest: its vCPUs, and the work for the workers. */
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/memory.h"
#include "introspect/stackshot/system.h"

/* --- what is missing in no item --- */

void ss_note_head(struct ss_engine *e, struct ss_note note)
{
	note.item = 0; /* before those of all items */
	note.seq = e->t.head_notes++;
	note.pid = note.tid = -1;
	if (!note.count)
		note.count = 1;
	ss_notes_add(&e->worker[0]->notes, &note);
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

static void record_registers(struct ss_engine *e, uint32_t i)
{
	const struct guest_vcpu_regs *regs = &e->t.regs[i];
	struct ss_vcpu_record *r = &e->t.vcpu[i];

	*r = (struct ss_vcpu_record){
		.vcpu = i,
		.cluster = e->s->g->vcpu_cluster[i],
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
static void complete_registers(struct ss_engine *e, uint32_t i)
{
	struct guest_vcpu_regs *regs = &e->t.regs[i];

	if (regs->state != GUEST_VCPU_OFF && !(regs->valid & GUEST_REGS_TPIDR) &&
	    !lnx_percpu_offset(&e->worker[0]->v, i, &regs->tpidr_el1))
		regs->valid |= GUEST_REGS_TPIDR;
}

static uint32_t current_slot(gva_t task)
{
	return (uint32_t)(task.a * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SS_CURRENT_SLOTS;
}

/* Half of the slots stay free, so every search ends. */
static void add_current(struct ss_try *t, gva_t task, uint32_t vcpu)
{
	uint32_t slot = current_slot(task);

	while (t->current[slot].task.a && t->current[slot].task.a != task.a)
		slot = (slot + 1) % SS_CURRENT_SLOTS;
	if (t->current[slot].task.a)
		return; /* of two vCPUs that claim a task the first has it */
	t->current[slot].task = task;
	t->current[slot].vcpu = (int32_t)vcpu;
}

int32_t ss_vcpu_of(const struct ss_try *t, gva_t task)
{
	for (uint32_t slot = current_slot(task); t->current[slot].task.a;
	     slot = (slot + 1) % SS_CURRENT_SLOTS)
		if (t->current[slot].task.a == task.a)
			return t->current[slot].vcpu;
	return -1;
}

static void find_current(struct ss_engine *e, uint32_t i)
{
	struct lnx_view *v = &e->worker[0]->v;
	const struct guest_vcpu_regs *regs = &e->t.regs[i];
	struct ss_vcpu_record *r = &e->t.vcpu[i];
	struct lnx_task task;
	gva_t address;

	if (r->state == SS_VCPU_OFF)
		return;
	if (r->state == SS_VCPU_UNKNOWN) {
		ss_note_head(e, (struct ss_note){ .what = SS_MISSING_CURRENT,
						  .why = SS_WHY_NO_REGISTERS,
						  .a = i });
		return;
	}
	if (lnx_vcpu_current(v, regs, &address) || lnx_task_read(v, address, &task)) {
		ss_note_head(e, (struct ss_note){ .what = SS_MISSING_CURRENT,
						  .why = SS_WHY_NO_CURRENT,
						  .address = regs->sp_el0,
						  .a = i });
		return;
	}
	add_current(&e->t, address, i);
	r->pid = task.tgid;
	r->tid = task.pid;
	r->thread_id = task.pid ? ss_unique_id(&task) : ss_idle_id(i);
	memcpy(r->comm, task.comm, sizeof(r->comm));
	if (task.pid == 0 && r->state == SS_VCPU_KERNEL)
		r->state = SS_VCPU_IDLE;
}

static void read_registers(struct ss_engine *e)
{
	guest_all_vcpu_regs(e->s->g, e->t.regs);
	for (uint32_t i = 0; i < e->s->g->vcpu_count; i++)
		record_registers(e, i);
}

static void find_currents(struct ss_engine *e)
{
	e->t.registers_known = e->s->g->vcpu_count > 0;
	for (uint32_t i = 0; i < e->s->g->vcpu_count; i++) {
		e->t.registers_known &= e->t.vcpu[i].state != SS_VCPU_UNKNOWN;
		complete_registers(e, i);
		find_current(e, i);
	}
}

/* --- processes --- */

/* An item as the list has it; what it had before the stop is found by walking along. */
static void make_item(struct ss_engine *e, uint32_t index, gva_t task, uint32_t *at)
{
	const struct ss_expected *x = &e->expected;
	struct ss_item *item = &e->item[index];

	*item = (struct ss_item){ .task = task };
	for (uint32_t i = *at; i < x->process_count && i < *at + 8; i++) {
		if (x->processes[i].a != task.a)
			continue;
		item->expected = x->threads + x->of[i].first;
		item->expected_count = x->of[i].count;
		*at = i + 1;
		return;
	}
}

/* Whether a process is to be recorded; one that cannot be read may be the one that is asked for. */
static bool is_wanted(struct ss_engine *e, gva_t task)
{
	struct lnx_task leader;

	return e->t.request->pid == SS_PID_ALL || lnx_task_read(&e->worker[0]->v, task, &leader) ||
	       !leader.tgid || leader.tgid == e->t.request->pid;
}

/*
 * Walk the list of processes and hand each to the workers as it comes; but the last one is the calling
 * thread's own, which the others may have left nothing else to do.
 *
 * @param own_out  its index; SS_NO_ITEM: there is none
 */
static enum gs_code put_processes(struct ss_engine *e, uint32_t *own_out)
{
	struct lnx_list l;
	uint32_t at = 0, own = SS_NO_ITEM;
	gva_t task;
	enum gs_code rc = GS_OK;

	lnx_processes_begin(&l, &e->worker[0]->v, e->processes, e->max_tasks);
	lnx_list_expect(&l, e->expected.processes, e->expected.process_count);
	while (!rc && lnx_list_next(&l, &task)) {
		make_item(e, l.n, task, &at);
		if (is_wanted(e, task)) {
			if (own != SS_NO_ITEM)
				ss_queues_put(&e->queues, own, e->item[own].expected_count);
			own = l.n;
		} else {
			e->item[l.n].is_done = true;
		}
		rc = ss_context_check(&e->context);
	}
	ss_queues_close(&e->queues);
	*own_out = own;
	e->t.longest = l.n;
	e->t.items = 1 + l.n;
	if (!rc)
		rc = l.rc;
	if (rc == GS_EBUSY || (rc == GS_ENOSPC && !e->is_fixed))
		return rc;
	e->t.has_unseen = rc != GS_OK;
	if (rc)
		ss_note_head(e, (struct ss_note){ .what = SS_MISSING_TASKS,
						  .why = SS_WHY_PROCESS_LIST,
						  .address = l.n ? e->processes[l.n - 1].a : 0,
						  .a = l.n,
						  .b = rc });
	return GS_OK;
}

/* By the calling thread when its other work is done: helpers may still have some. */
static enum gs_code read_log(struct ss_engine *e)
{
	enum gs_code rc = ss_log_read(e);

	return rc == GS_ETIMEDOUT ? GS_OK : rc;
}

static enum gs_code collect_tasks(struct ss_engine *e)
{
	struct ss_worker *w = e->worker[0];
	uint64_t start = gs_clock_ns();
	uint32_t own = SS_NO_ITEM;
	enum gs_code rc = GS_OK;

	if (!(e->t.request->flags & SS_NO_PROCESSES))
		rc = put_processes(e, &own);
	else
		ss_queues_close(&e->queues);

	e->t.walk_ns = gs_clock_ns() - start;
	if (!rc && e->t.items && e->t.request->pid == SS_PID_ALL)
		rc = ss_worker_do_idle(w);
	if (!rc)
		rc = ss_worker_run(w, own);
	return rc ? rc : read_log(e);
}

/* --- all of it --- */

static enum gs_code collect(struct ss_engine *e)
{
	const struct lnx_kernel *k = ss_kernel(e);

	read_registers(e);
	if (!k) {
		ss_note_head(
			e, (struct ss_note){ .what = SS_MISSING_KERNEL, .why = SS_WHY_NO_KERNEL });
		return GS_OK;
	}
	if (!lnx_kernel_is_current(k, e->s->g)) {
		/* shown only if it goes on changing: the capture is repeated after a new search */
		e->t.kernel_changed = true;
		ss_note_head(e, (struct ss_note){ .what = SS_MISSING_KERNEL,
						  .why = SS_WHY_KERNEL_GONE });
		return GS_OK;
	}
	find_currents(e);
	ss_memory_begin(e);
	ss_system_read(e);
	e->item[0] = (struct ss_item){ .task = lnx_init_task(k) };
	e->t.setup_ns = gs_clock_ns() - e->t.start_ns;
	if (!ss_context_run(&e->context))
		return GS_EBUSY;
	return collect_tasks(e);
}

enum gs_code ss_collect(struct ss_engine *e)
{
	enum gs_code rc = collect(e);

	if (!rc && ss_context_state(&e->context) == SS_SETUP) {
		ss_collect_nothing(e);
		return GS_OK;
	}
	if (rc)
		ss_context_fail(&e->context, rc);
	ss_context_leave(&e->context);
	uint64_t start = gs_clock_ns();
	ss_context_wait_done(&e->context);
	e->t.wait_ns = gs_clock_ns() - start;
	return ss_context_end(&e->context);
}

void ss_collect_nothing(struct ss_engine *e)
{
	/* those who wait for the start see that there is none */
	GS_IGNORE(ss_context_end(&e->context));
	ss_context_leave(&e->context);
	ss_context_wait_done(&e->context);
}

/* --- sums --- */

/* Notes of items that turned out not to be any (a list that loops) go, and all are in one list. */
static void gather_notes(struct ss_engine *e)
{
	struct ss_notes *all = &e->worker[0]->notes;
	uint32_t n = all->n;

	all->n = 0;
	for (uint32_t i = 0; i < n; i++)
		if (all->note[i].item <= e->t.items)
			ss_notes_add(all, &all->note[i]);
	for (uint32_t w = 1; w < e->workers; w++) {
		const struct ss_notes *more = &e->worker[w]->notes;

		for (uint32_t i = 0; i < more->n; i++)
			if (more->note[i].item <= e->t.items)
				ss_notes_add(all, &more->note[i]);
	}
}

/* Processes that nobody has looked at: a capture that was not cut has none. */
static void note_late(struct ss_engine *e, uint32_t processes)
{
	/* only a fixed engine goes on without room, and it has one worker */
	const bool no_room = e->worker[0]->no_room;

	ss_note_head(e, (struct ss_note){ .what = no_room ? SS_MISSING_ROOM : SS_MISSING_LATE,
					  .why = no_room ? SS_WHY_NO_ROOM_PROCESSES
							 : SS_WHY_LATE_PROCESSES,
					  .count = processes,
					  .a = processes });
}

static void sum_items(struct ss_engine *e)
{
	struct ss_try *t = &e->t;
	uint32_t late = 0;

	for (uint32_t i = 0; i < t->items; i++) {
		const struct ss_item *item = &e->item[i];

		t->missing_count += item->notes;
		if (i == 0) {
			t->idle_tasks = item->is_task;
			t->idle_threads = item->threads;
			continue;
		}
		t->tasks += item->is_task;
		t->threads += item->threads;
		t->same_tasks += item->is_same;
		t->same_threads += item->same;
		late += !item->is_done;
		t->has_unseen |= !item->is_done || (!item->is_task && item->notes);
	}
	if (late)
		note_late(e, late);
	t->missing_count += t->head_notes;
}

void ss_collect_results(struct ss_engine *e)
{
	struct ss_try *t = &e->t;

	for (uint32_t i = 0; i < e->workers; i++) {
		const struct lnx_view *v = &e->worker[i]->v;

		t->reads += v->reads;
		t->bytes += v->bytes;
		t->fault_ns += v->fault_ns;
		for (size_t f = 0; f < A64_FAULTS; f++)
			t->faults[f] += v->faults[f];
		t->longest = (uint32_t)gs_max(t->longest, e->worker[i]->longest);
	}
	ss_memory_end(e);
	ss_system_end(e);
	gather_notes(e);
	sum_items(e);
	struct ss_notes *notes = &e->worker[0]->notes;
	t->missing_listed = ss_notes_to_records(notes->note, notes->n, t->missing_count,
						e->why_no_kernel, t->missing);
}
