/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's way through its items: reading ahead, reading, unwinding. item.c writes. */
#include "introspect/stackshot/worker.h"

#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/memory.h"
#include "introspect/stackshot/user.h"

enum gs_code ss_worker_reserve(struct ss_worker *w, uint32_t tasks)
{
	if (tasks <= w->tasks_max)
		return GS_OK;
	// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what it is
	const size_t each = sizeof(*w->tasks) + sizeof(w->same[0]);
	if (ss_pages_reserve(&w->task_pages, tasks * each))
		return GS_ENOSPC;
	w->tasks = w->task_pages.at;
	w->same = (void *)(w->tasks + tasks);
	w->tasks_max = tasks;
	return GS_OK;
}

void ss_worker_release(struct ss_worker *w)
{
	ss_pages_release(&w->task_pages);
}

void ss_worker_reset(struct ss_worker *w)
{
	lnx_view_init(&w->v, w->e->k, w->e->s->g);
	lnx_view_use_cache(&w->v, &w->cache);
	w->notes.n = 0;
	w->longest = 0;
	w->items = w->threads = 0;
	w->asked = w->foreign = 0;
	w->times = (struct ss_worker_times){ 0 };
	w->no_room = false;
	w->user = (struct lnx_user_space){ 0 };
	memset(&w->known_ids, 0, sizeof(w->known_ids));
	ss_user_begin(w);
	w->at = w->filled = w->end = w->first = 0;
}

void ss_worker_note(struct ss_worker *w, struct ss_item *item, struct ss_note note)
{
	note.item = (uint32_t)(item - w->e->item) + 1;
	note.seq = item->notes++;
	ss_notes_add(&w->notes, &note);
}

/* --- threads --- */

/* Of a delta: the mark of a thread that has not run since the time to compare with, or NULL. */
static struct ss_mark *unchanged(const struct ss_worker *w, const struct lnx_task *task)
{
	static const struct lnx_stack no_stack = { 0 };
	const struct ss_try *t = &w->e->t;

	/* idle threads are always told: there are few, and vCPUs show them */
	if (!t->request->since_ns || !task->pid || task->on_cpu)
		return NULL;
	const struct ss_thread_record now = ss_thread_record_of(task, -1, &no_stack);

	return ss_history_thread(&w->e->s->history, ss_unique_id(task), &now, t->request->since_ns);
}

static void start_walk(struct ss_worker *w, struct ss_slot *s)
{
	const struct ss_try *t = &w->e->t;

	s->stack = (struct lnx_stack){ .address = s->frames, .kind = s->kinds, .doubt = s->doubts };
	s->walk.ended = true;
	s->same = NULL;
	if (s->rc)
		return;
	s->vcpu = ss_vcpu_of(t, s->address);
	if (s->vcpu < 0)
		s->same = unchanged(w, &s->task);
	if (s->same)
		return; /* nor has its stack */
	if (s->vcpu < 0 && s->task.on_cpu && !t->registers_known)
		s->stack.end = LNX_END_RUNNING; /* its saved context is that of an earlier sleep */
	else if (s->vcpu >= 0)
		lnx_walk_running(&s->walk, &w->v, &s->task, &t->regs[s->vcpu], &s->stack);
	else
		lnx_walk_blocked(&s->walk, &w->v, &s->task, &s->stack);
}

/* Read the next threads of the list, as many as there are slots, all at once. */
static void fill_slots(struct ss_worker *w)
{
	const gva_t *tasks = w->tasks + w->filled;
	uint32_t left = w->end - w->filled;
	/* batches of one size: a short last one would wait for memory most of the time */
	uint32_t n = left / (1 + (left - 1) / SS_SLOTS);

	for (uint32_t i = 0; i < n; i++)
		lnx_task_prefetch_entry(&w->v, tasks[i]);
	for (uint32_t i = 0; i < n; i++)
		lnx_task_prefetch(&w->v, tasks[i]);
	for (uint32_t i = 0; i < n; i++) {
		struct ss_slot *s = &w->slot[i];

		s->address = tasks[i];
		s->rc = lnx_task_read(&w->v, tasks[i], &s->task);
		if (!s->rc)
			lnx_prefetch_entry(&w->v, GVA(s->task.context_fp));
	}
	for (uint32_t i = 0; i < n; i++)
		start_walk(w, &w->slot[i]);
	/* all slots' walks lie apart: finish them in groups by pointer */
	struct lnx_walk *walks[SS_SLOTS];
	for (uint32_t i = 0; i < n; i++)
		walks[i] = &w->slot[i].walk;
	lnx_walk_finish(walks, n);
	ss_user_walk(w, w->slot, n);
	w->first = w->filled;
	w->filled += n;
}

/*
 * The next thread of the list.
 *
 * @return GS_OK; GS_ETIMEDOUT, GS_EBUSY: as ss_context_check()
 */
static enum gs_code next_thread(struct ss_worker *w, struct ss_slot **slot_out)
{
	if (w->at == w->filled) {
		enum gs_code rc = ss_context_check(&w->e->context);

		if (rc)
			return rc;
		fill_slots(w);
		/*
		 * Another may have let the guest go on at the deadline: what was read after it is not
		 * to be believed.
		 */
		rc = ss_context_check(&w->e->context);
		if (rc)
			return rc;
	}
	*slot_out = &w->slot[w->at++ - w->first];
	return GS_OK;
}

/* Whether a slot holds a thread of the process; notes it if not. */
static bool is_thread_of(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
			 const struct ss_slot *s)
{
	struct ss_note note = ss_note_of(leader, SS_MISSING_TASK, SS_WHY_THREAD);

	/* only idle threads have id 0, and they are on no list */
	if (!s->rc && s->task.tgid == leader->tgid && s->task.pid)
		return true;
	note.address = s->address.a;
	note.b = s->rc;
	if (!s->rc)
		note.why = s->task.pid ? SS_WHY_THREAD_FOREIGN : SS_WHY_THREAD_IDLE;
	ss_worker_note(w, item, note);
	return false;
}

/* --- processes --- */

/* How many of a process's threads are to be recorded. */
static uint32_t wanted_threads(const struct ss_worker *w, uint32_t listed)
{
	const uint32_t max = w->e->t.request->threads_max;

	return max && listed > max ? max : listed;
}

/* The threads of a process, behind those of the group's others. */
static enum gs_code list_threads(struct ss_worker *w, struct ss_item *item,
				 const struct lnx_task *leader, uint32_t *n_out)
{
	struct lnx_list l;
	gva_t thread;

	*n_out = 0;
	enum gs_code rc = lnx_threads_begin(&l, &w->v, leader->signal, w->tasks + w->end,
					    w->tasks_max - w->end);
	if (!rc) {
		lnx_list_expect(&l, item->expected, item->expected_count);
		while (lnx_list_next(&l, &thread))
			;
		rc = l.rc;
		*n_out = l.n;
		w->longest = (uint32_t)gs_max(w->longest, w->end + l.n);
	}
	if (rc == GS_ENOSPC && !w->e->is_fixed)
		return rc;
	w->end += wanted_threads(w, *n_out);
	if (rc) {
		struct ss_note note = ss_note_of(leader, SS_MISSING_THREADS, SS_WHY_THREAD_LIST);

		note.address = leader->signal.a;
		note.a = *n_out;
		note.b = rc;
		ss_worker_note(w, item, note);
	}
	return GS_OK;
}

static void note_process(struct ss_worker *w, struct ss_item *item, enum gs_code rc)
{
	struct ss_note note = ss_note_of(NULL, SS_MISSING_TASK, SS_WHY_PROCESS);

	if (!rc)
		note.why = SS_WHY_PROCESS_IDLE;
	note.address = item->task.a;
	note.b = rc;
	ss_worker_note(w, item, note);
}

/* Read the leaders of the items at hand and the lists of their threads. */
static enum gs_code read_group(struct ss_worker *w, const uint32_t *items, uint32_t n)
{
	w->at = w->filled = w->end = 0;
	ss_user_begin(w);
	for (uint32_t i = 0; i < n; i++) {
		w->group[i].item = &w->e->item[items[i]];
		lnx_task_prefetch_entry(&w->v, w->group[i].item->task);
	}
	for (uint32_t i = 0; i < n; i++)
		lnx_task_prefetch(&w->v, w->group[i].item->task);
	for (uint32_t i = 0; i < n; i++) {
		struct lnx_task *leader = &w->group[i].leader;

		w->group[i].listed = w->group[i].threads = 0;
		w->group[i].ppid = -1; /* shown as not known */
		w->group[i].rc = lnx_task_read(&w->v, w->group[i].item->task, leader);
		if (w->group[i].rc || !leader->tgid) {
			note_process(w, w->group[i].item, w->group[i].rc);
			w->group[i].rc = GS_EMALFORMED;
			continue;
		}
		if (w->e->t.request->pid != SS_PID_ALL && leader->tgid != w->e->t.request->pid) {
			/* could not be read when it was looked at first, and is another one */
			w->group[i].rc = GS_ENOENT;
			continue;
		}
		lnx_relatives_prefetch_entry(&w->v, leader);
		ss_memory_prefetch_entry(w, leader);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (w->group[i].rc)
			continue;
		lnx_relatives_prefetch(&w->v, &w->group[i].leader);
		ss_memory_prefetch(w, &w->group[i].leader);
	}
	for (uint32_t i = 0; i < n; i++) {
		if (w->group[i].rc)
			continue;
		enum gs_code rc =
			list_threads(w, w->group[i].item, &w->group[i].leader, &w->group[i].listed);
		if (rc)
			return rc;
		w->group[i].threads = wanted_threads(w, w->group[i].listed);
		GS_IGNORE(lnx_task_tgid(&w->v, w->group[i].leader.real_parent, &w->group[i].ppid));
	}
	return GS_OK;
}

static enum gs_code record_process(struct ss_worker *w, uint32_t i)
{
	struct ss_item *item = w->group[i].item;
	const struct lnx_task *leader = &w->group[i].leader;
	const uint32_t n = w->group[i].threads;
	const struct ss_task_record record =
		ss_task_record_of(leader, w->group[i].ppid, w->group[i].listed, leader->comm);
	enum gs_code rc = ss_item_open(w, item, ss_unique_id(leader), leader, &record, n);

	if (rc)
		return rc;
	w->mm = lnx_task_mm(leader);
	for (uint32_t k = 0; !rc && k < n; k++) {
		struct ss_slot *s;

		rc = next_thread(w, &s);
		if (rc || !is_thread_of(w, item, leader, s))
			continue;
		rc = ss_item_thread(w, item, s, ss_unique_id(&s->task));
		if (!w->mm.a) /* a leader that has ended, its threads have not */
			w->mm = lnx_task_mm(&s->task);
	}
	w->latency.task_thread_count_loop_latency += ss_lap(w);
	return ss_item_close(w, item, leader, &record, n, rc);
}

static enum gs_code do_items(struct ss_worker *w, const uint32_t *items, uint32_t n)
{
	ss_lap_begin(w);
	enum gs_code rc = read_group(w, items, n);
	w->latency.setup_latency += ss_lap(w);

	for (uint32_t i = 0; !rc && i < n; i++) {
		struct ss_item *item = w->group[i].item;

		item->worker = w->number;
		if (!w->group[i].rc)
			rc = record_process(w, i);
		else
			item->is_done = true; /* and noted as what cannot be read */
		w->items++;
	}
	return rc;
}

enum gs_code ss_worker_do(struct ss_worker *w, const uint32_t *items, uint32_t n)
{
	enum gs_code rc = GS_OK;

	if (!w->v.is_timed)
		return do_items(w, items, n);
	/* side by side nobody could say what took how long */
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = do_items(w, &items[i], 1);
	return rc;
}

/* What is there to be taken; the time without any is counted. */
static enum ss_take take_items(struct ss_worker *w, uint32_t *items, uint32_t *n_out)
{
	struct ss_engine *e = w->e;
	enum ss_take take = ss_queues_take(&e->queues, w->kind, e->helping + 1, items, n_out);
	uint32_t rounds = 0;

	if (take != SS_TAKE_EMPTY)
		return take;
	uint64_t start = gs_clock_ns();
	do {
		ss_relax(&rounds);
		/* who is to stop is told so by the caller's next look */
		if (ss_context_check(&e->context))
			break;
		take = ss_queues_take(&e->queues, w->kind, e->helping + 1, items, n_out);
	} while (take == SS_TAKE_EMPTY);
	w->times.waited_ns += gs_clock_ns() - start;
	return take;
}

static enum gs_code run(struct ss_worker *w, uint32_t own)
{
	uint32_t items[SS_TAKE_MAX] = { own }, n = 1;
	enum ss_take take = own == SS_NO_ITEM ? SS_TAKE_EMPTY : SS_TAKE_SOME;

	for (;; take = SS_TAKE_EMPTY) {
		enum gs_code rc = ss_context_check(&w->e->context);

		if (rc)
			take = SS_TAKE_END;
		else if (take != SS_TAKE_SOME)
			take = take_items(w, items, &n);
		if (take == SS_TAKE_SOME)
			rc = ss_worker_do(w, items, n);
		if (rc || take == SS_TAKE_END)
			return ss_is_cut(w, rc) ? GS_OK : rc;
	}
}

enum gs_code ss_worker_run(struct ss_worker *w, uint32_t own)
{
	w->times.queue_ns = gs_clock_ns();
	if (!w->times.begin_ns)
		w->times.begin_ns = w->times.queue_ns;
	enum gs_code rc = run(w, own);
	w->times.end_ns = gs_clock_ns();
	return rc;
}

/* --- idle threads --- */

static void note_idle(struct ss_worker *w, struct ss_item *item, uint32_t vcpu)
{
	struct ss_note note = ss_note_of(NULL, SS_MISSING_IDLE, SS_WHY_NO_IDLE);

	note.pid = note.tid = 0;
	note.address = w->e->t.regs[vcpu].tpidr_el1;
	note.a = vcpu;
	ss_worker_note(w, item, note);
}

/* The idle threads of all vCPUs, one entry each: 0 where there is none. */
static void list_idle(struct ss_worker *w, struct ss_item *item)
{
	const struct ss_try *t = &w->e->t;

	w->at = w->filled = 0;
	for (w->end = 0; w->end < w->e->s->g->vcpu_count; w->end++) {
		const struct guest_vcpu_regs *regs = &t->regs[w->end];
		gva_t *at = &w->tasks[w->end];

		*at = GVA(0);
		if (regs->state == GUEST_VCPU_OFF || !(regs->valid & GUEST_REGS_TPIDR) ||
		    !lnx_idle_task(&w->v, regs->tpidr_el1, at))
			continue;
		note_idle(w, item, w->end);
	}
}

enum gs_code ss_worker_do_idle(struct ss_worker *w)
{
	struct ss_item *item = &w->e->item[0];
	const uint32_t vcpus = w->e->s->g->vcpu_count;
	struct lnx_task *init = &w->group[0].leader;

	item->worker = w->number;
	ss_lap_begin(w);
	if (lnx_task_read(&w->v, item->task, init)) {
		struct ss_note note = ss_note_of(NULL, SS_MISSING_TASK, SS_WHY_NO_INIT_TASK);

		note.pid = note.tid = 0;
		note.address = item->task.a;
		ss_worker_note(w, item, note);
		return GS_OK;
	}
	/* the comm is "swapper/0", the boot CPU's own: the task stands for all of them */
	const struct ss_task_record record = ss_task_record_of(init, 0, vcpus, "swapper");
	enum gs_code rc = ss_item_open(w, item, 0, init, &record, vcpus);
	if (rc) {
		if (!ss_is_cut(w, rc))
			return rc;
		ss_note_cut(w, item, init, vcpus, rc);
		return GS_OK;
	}
	w->mm = GVA(0);
	list_idle(w, item);
	rc = ss_write_load_info(w);
	for (uint32_t i = 0; !rc && i < vcpus; i++) {
		struct ss_slot *s;

		rc = next_thread(w, &s);
		if (rc || !s->address.a)
			continue;
		if (s->rc)
			note_idle(w, item, i);
		else
			rc = ss_item_thread(w, item, s, ss_idle_id(i));
	}
	w->latency.task_thread_count_loop_latency += ss_lap(w);
	rc = ss_item_close(w, item, init, &record, vcpus, rc);
	return ss_is_cut(w, rc) ? GS_OK : rc;
}
