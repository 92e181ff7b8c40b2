/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's way through its items: reading ahead, reading, unwinding, writing. */
#include "introspect/stackshot/worker.h"

#include <string.h>

#include "introspect/stackshot/capture.h"
#include "kcdata/stackshot_types.h"

/* What an item's first piece has room for; what is not needed is given back. */
#define BYTES_PER_THREAD  1024u
#define BYTES_PER_PROCESS 512u
#define PIECE_MAX	  (size_t)(64u << 10)
#define PIECE_MIN	  256u

enum gs_code ss_worker_reserve(struct ss_worker *w, uint32_t tasks)
{
	if (tasks <= w->tasks_max)
		return GS_OK;
	if (ss_pages_reserve(&w->task_pages, tasks * sizeof(*w->tasks)))
		return GS_ENOSPC;
	w->tasks = w->task_pages.at;
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
	w->no_room = false;
	w->at = w->filled = w->end = w->first = 0;
}

void ss_worker_note(struct ss_worker *w, struct ss_item *item, struct ss_note note)
{
	note.item = (uint32_t)(item - w->e->item) + 1;
	note.seq = item->notes++;
	ss_notes_add(&w->notes, &note);
}

static struct ss_note note_of(const struct lnx_task *task, enum ss_missing what, enum ss_why why)
{
	struct ss_note n = { .what = what, .why = why, .count = 1, .pid = -1, .tid = -1 };

	if (task) {
		n.pid = task->tgid;
		memcpy(n.comm, task->comm, sizeof(n.comm));
	}
	return n;
}

/* --- room for records --- */

static struct kcd_chunk *more(void *arg, struct kcd_chunk *full, size_t keep, size_t min_size)
{
	struct ss_worker *w = arg;
	struct ss_storage *st = &w->e->storage;

	ss_piece_trim(st, full, keep);
	struct kcd_chunk *piece = ss_piece_take(st, w->number, PIECE_MAX, min_size, &w->foreign);
	if (piece)
		w->asked += piece->size;
	return piece;
}

static enum gs_code open_records(struct ss_worker *w, struct ss_item *item, uint32_t threads)
{
	size_t want = BYTES_PER_PROCESS + (size_t)threads * BYTES_PER_THREAD;

	item->records = ss_piece_take(&w->e->storage, w->number, (size_t)gs_min(want, PIECE_MAX),
				      PIECE_MIN, &w->foreign);
	if (!item->records)
		return GS_ENOSPC;
	w->asked += item->records->size;
	return ss_code(kcd_writer_init_chain(&w->out, item->records, 0, KCD_WRITER_FRAGMENT, more,
					     NULL, w));
}

static void close_records(struct ss_worker *w)
{
	ss_piece_trim(&w->e->storage, w->out.chunk, kcd_writer_used(&w->out));
}

/* --- threads --- */

static void start_walk(struct ss_worker *w, struct ss_slot *s)
{
	const struct ss_try *t = &w->e->t;

	s->stack = (struct lnx_stack){ .address = s->frames, .kind = s->kinds };
	s->walk.ended = true;
	if (s->rc)
		return;
	s->vcpu = ss_vcpu_of(t, s->address);
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
	struct ss_note note = note_of(leader, SS_MISSING_TASK, SS_WHY_THREAD);

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

/* A stack that breaks off is recorded as far as it goes. */
static void note_stack(struct ss_worker *w, struct ss_item *item, struct ss_slot *s)
{
	struct lnx_stack *stack = &s->stack;

	if (stack->count > KCD_SS_FRAMES_MAX) {
		stack->end = LNX_END_TRUNCATED;
		stack->end_at = stack->address[KCD_SS_FRAMES_MAX];
		stack->count = KCD_SS_FRAMES_MAX;
	}
	if (stack->end == LNX_END_COMPLETE || stack->end == LNX_END_NO_STACK)
		return;
	struct ss_note note = note_of(&s->task, SS_MISSING_STACK, SS_WHY_STACK);
	note.tid = s->task.pid;
	note.address = stack->end_at;
	note.a = stack->count;
	note.b = stack->end;
	ss_worker_note(w, item, note);
}

/* --- processes --- */

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
	w->end += *n_out;
	if (rc) {
		struct ss_note note = note_of(leader, SS_MISSING_THREADS, SS_WHY_THREAD_LIST);

		note.address = leader->signal.a;
		note.a = *n_out;
		note.b = rc;
		ss_worker_note(w, item, note);
	}
	return GS_OK;
}

static void note_process(struct ss_worker *w, struct ss_item *item, enum gs_code rc)
{
	struct ss_note note = note_of(NULL, SS_MISSING_TASK, SS_WHY_PROCESS);

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
	for (uint32_t i = 0; i < n; i++) {
		w->group[i].item = &w->e->item[items[i]];
		lnx_task_prefetch_entry(&w->v, w->group[i].item->task);
	}
	for (uint32_t i = 0; i < n; i++)
		lnx_task_prefetch(&w->v, w->group[i].item->task);
	for (uint32_t i = 0; i < n; i++) {
		struct lnx_task *leader = &w->group[i].leader;

		w->group[i].threads = 0;
		w->group[i].ppid = -1; /* shown as not known */
		w->group[i].rc = lnx_task_read(&w->v, w->group[i].item->task, leader);
		if (w->group[i].rc || !leader->tgid) {
			note_process(w, w->group[i].item, w->group[i].rc);
			w->group[i].rc = GS_EMALFORMED;
			continue;
		}
		lnx_relatives_prefetch_entry(&w->v, leader);
	}
	for (uint32_t i = 0; i < n; i++)
		if (!w->group[i].rc)
			lnx_relatives_prefetch(&w->v, &w->group[i].leader);
	for (uint32_t i = 0; i < n; i++) {
		if (w->group[i].rc)
			continue;
		enum gs_code rc = list_threads(w, w->group[i].item, &w->group[i].leader,
					       &w->group[i].threads);
		if (rc)
			return rc;
		GS_IGNORE(lnx_task_tgid(&w->v, w->group[i].leader.real_parent, &w->group[i].ppid));
	}
	return GS_OK;
}

/*
 * Whether a failure only ends the capture, with what there is: the deadline has passed, or there is
 * no more room and cannot be. What is left out is noted.
 */
static bool is_cut(const struct ss_worker *w, enum gs_code rc)
{
	return rc == GS_ETIMEDOUT || (rc == GS_ENOSPC && w->e->is_fixed);
}

static void note_cut(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
		     uint32_t threads, enum gs_code rc)
{
	struct ss_note note = note_of(leader, SS_MISSING_LATE, SS_WHY_LATE_THREADS);

	if (rc == GS_ENOSPC) {
		note.what = SS_MISSING_ROOM;
		note.why = SS_WHY_NO_ROOM_THREADS;
		w->no_room = true;
	}
	note.count = threads - item->threads;
	note.a = item->threads;
	note.b = threads;
	ss_worker_note(w, item, note);
}

/* Begin an item's records with its container, and nothing if there is no room. */
static enum gs_code open_item(struct ss_worker *w, struct ss_item *item,
			      const struct lnx_task *leader, uint64_t id, int32_t ppid,
			      uint32_t threads, const char *comm, void **snapshot_out)
{
	enum gs_code rc = open_records(w, item, threads);

	if (!rc)
		rc = ss_write_task_begin(w, leader, id, ppid, threads, comm, snapshot_out);
	if (rc) {
		item->records = NULL;
		w->no_room = true;
	}
	return rc;
}

static enum gs_code close_item(struct ss_worker *w, struct ss_item *item, uint64_t id)
{
	enum gs_code rc = ss_code(kcd_container_end(&w->out, id));

	close_records(w);
	item->is_task = true;
	item->is_done = true;
	return rc;
}

/* The whole record of a thread, or nothing of it. */
static enum gs_code record_thread(struct ss_worker *w, struct ss_item *item, struct ss_slot *s,
				  uint64_t id)
{
	struct kcd_mark mark = kcd_writer_mark(&w->out);

	note_stack(w, item, s);
	enum gs_code rc = ss_write_thread(w, s, id);
	if (rc) {
		GS_IGNORE(kcd_writer_rewind(&w->out, mark)); /* to a place that is there */
		return rc;
	}
	item->threads++;
	w->threads++;
	return GS_OK;
}

static enum gs_code record_process(struct ss_worker *w, uint32_t i)
{
	struct ss_item *item = w->group[i].item;
	const struct lnx_task *leader = &w->group[i].leader;
	const uint32_t n = w->group[i].threads;
	const uint64_t id = ss_unique_id(leader);
	void *snapshot;
	enum gs_code rc =
		open_item(w, item, leader, id, w->group[i].ppid, n, leader->comm, &snapshot);

	if (rc)
		return rc;
	for (uint32_t k = 0; !rc && k < n; k++) {
		struct ss_slot *s;

		rc = next_thread(w, &s);
		if (rc || !is_thread_of(w, item, leader, s))
			continue;
		rc = record_thread(w, item, s, ss_unique_id(&s->task));
		ss_write_task_faults(snapshot, &s->task);
	}
	if (is_cut(w, rc))
		note_cut(w, item, leader, n, rc);
	else if (rc)
		return rc;
	enum gs_code closed = close_item(w, item, id);
	return rc ? rc : closed;
}

enum gs_code ss_worker_do(struct ss_worker *w, const uint32_t *items, uint32_t n)
{
	enum gs_code rc = read_group(w, items, n);

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

enum gs_code ss_worker_run(struct ss_worker *w)
{
	struct ss_engine *e = w->e;
	uint32_t items[SS_TAKE_MAX], n, rounds = 0;

	for (;;) {
		enum gs_code rc = ss_context_check(&e->context);
		enum ss_take take = SS_TAKE_END;

		if (!rc)
			take = ss_queues_take(&e->queues, w->kind, e->helping + 1, items, &n);
		if (take == SS_TAKE_SOME)
			rc = ss_worker_do(w, items, n);
		if (rc || take == SS_TAKE_END)
			return is_cut(w, rc) ? GS_OK : rc;
		if (take == SS_TAKE_EMPTY)
			ss_relax(&rounds);
	}
}

/* --- idle threads --- */

static void note_idle(struct ss_worker *w, struct ss_item *item, uint32_t vcpu)
{
	struct ss_note note = note_of(NULL, SS_MISSING_IDLE, SS_WHY_NO_IDLE);

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
	void *snapshot;

	item->worker = w->number;
	if (lnx_task_read(&w->v, item->task, init)) {
		struct ss_note note = note_of(NULL, SS_MISSING_TASK, SS_WHY_NO_INIT_TASK);

		note.pid = note.tid = 0;
		note.address = item->task.a;
		ss_worker_note(w, item, note);
		return GS_OK;
	}
	/* the comm is "swapper/0", the boot CPU's own: the task stands for all of them */
	enum gs_code rc = open_item(w, item, init, 0, 0, vcpus, "swapper", &snapshot);
	if (rc) {
		if (!is_cut(w, rc))
			return rc;
		note_cut(w, item, init, vcpus, rc);
		return GS_OK;
	}
	list_idle(w, item);
	for (uint32_t i = 0; !rc && i < vcpus; i++) {
		struct ss_slot *s;

		rc = next_thread(w, &s);
		if (rc || !s->address.a)
			continue;
		if (s->rc)
			note_idle(w, item, i);
		else
			rc = record_thread(w, item, s, ss_idle_id(i));
	}
	if (is_cut(w, rc))
		note_cut(w, item, init, vcpus, rc);
	else if (rc)
		return rc;
	return close_item(w, item, 0);
}
