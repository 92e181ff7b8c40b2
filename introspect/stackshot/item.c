/* SPDX-License-Identifier: Apache-2.0 */
/* The records of an item: a process and its threads, or what a delta names of them. */
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/linux_context.h"
#include "introspect/stackshot/memory.h"
#include "introspect/stackshot/user.h"

/* What an item's first piece has room for; what is not needed is given back. */
#define BYTES_PER_THREAD  1024u
#define BYTES_PER_PROCESS 512u
#define PIECE_MAX	  (size_t)(64u << 10)
#define PIECE_MIN	  256u

struct ss_note ss_note_of(const struct lnx_task *task, enum ss_missing what, enum ss_why why)
{
	struct ss_note n = { .what = what, .why = why, .count = 1, .pid = -1, .tid = -1 };

	if (task)
		ss_note_process(&n, task);
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

/* --- how long what took, when that is asked for --- */

void ss_lap_begin(struct ss_worker *w)
{
	if (!w->v.is_timed)
		return;
	w->latency = (struct kcd_latency_task){ 0 };
	w->lap_ns = gs_clock_ns();
}

uint64_t ss_lap(struct ss_worker *w)
{
	if (!w->v.is_timed)
		return 0;
	uint64_t before = w->lap_ns;

	w->lap_ns = gs_clock_ns();
	return w->lap_ns - before;
}

/* --- threads --- */

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
	struct ss_note note = ss_note_of(&s->task, SS_MISSING_STACK, SS_WHY_STACK);
	note.tid = s->task.pid;
	note.address = stack->end_at;
	note.a = stack->count;
	note.b = stack->end;
	ss_worker_note(w, item, note);
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
	ss_write_task_faults(w->snapshot, s->task.min_flt, s->task.maj_flt);
	return GS_OK;
}

enum gs_code ss_item_thread(struct ss_worker *w, struct ss_item *item, struct ss_slot *s,
			    uint64_t id)
{
	const bool active_only = w->e->t.request->flags & KCD_SS_ACTIVE_KERNEL_THREADS_ONLY;

	w->threads++;
	if (s->same) {
		w->same[item->same++] = s->same;
		item->runnable += ss_is_runnable(s->same);
		ss_mark_see(s->same, w->e->t.start_ns);
		ss_write_task_faults(w->snapshot, s->task.min_flt, s->task.maj_flt);
		return GS_OK;
	}
	return active_only && !s->stack.count ? GS_OK : record_thread(w, item, s, id);
}

/* --- processes --- */

bool ss_is_cut(const struct ss_worker *w, enum gs_code rc)
{
	return rc == GS_ETIMEDOUT || (rc == GS_ENOSPC && w->e->is_fixed);
}

void ss_note_cut(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
		 uint32_t threads, enum gs_code rc)
{
	struct ss_note note = ss_note_of(leader, SS_MISSING_LATE, SS_WHY_LATE_THREADS);

	if (rc == GS_ENOSPC) {
		note.what = SS_MISSING_ROOM;
		note.why = SS_WHY_NO_ROOM_THREADS;
		w->no_room = true;
	}
	note.count = threads - item->threads - item->same;
	note.a = item->threads + item->same;
	note.b = threads;
	ss_worker_note(w, item, note);
}

enum gs_code ss_item_open(struct ss_worker *w, struct ss_item *item, uint64_t id,
			  const struct lnx_task *leader, const struct ss_task_record *record,
			  uint32_t threads)
{
	enum gs_code rc = open_records(w, item, threads);

	item->id = id;
	if (!rc) {
		w->begin = kcd_writer_mark(&w->out);
		rc = ss_write_task_begin(w, leader, id, record, &w->snapshot);
	}
	if (rc) {
		item->records = NULL;
		w->no_room = true;
	}
	w->latency.cur_tsnap_latency += ss_lap(w);
	return rc;
}

/*
 * A delta: what has not changed is named instead. As in the original, a process of which any thread is
 * told is told itself, and one of which nothing has changed is a number in a list of all such.
 */
static enum gs_code write_same(struct ss_worker *w, struct ss_item *item,
			       const struct ss_task_record *record)
{
	const struct ss_try *t = &w->e->t;
	struct ss_mark *known = NULL;
	enum gs_code rc = GS_OK;

	if (!item->threads)
		known = ss_history_task(&w->e->s->history, item->id, record, t->request->since_ns);
	if (known) {
		ss_mark_see(known, t->start_ns);
		rc = ss_code(kcd_writer_rewind(&w->out, w->begin));
		item->is_same = item->same == record->threads && !item->runnable;
		if (rc || item->is_same)
			return rc;
		rc = ss_write_same_task_begin(w, item->id);
	}
	return rc ? rc : ss_write_same_threads(w, w->same, item->same);
}

/* Where there is no more room and cannot be, frames stay without the names of files. */
static enum gs_code write_mappings(struct ss_worker *w, struct ss_item *item,
				   const struct lnx_task *leader)
{
	enum gs_code rc = ss_write_mappings(w, leader);

	if (!rc || !ss_is_cut(w, rc))
		return rc;
	w->no_room = true;
	ss_worker_note(w, item, ss_note_of(leader, SS_MISSING_ROOM, SS_WHY_NO_ROOM_MAPPINGS));
	return rc;
}

/* What stands behind the threads. */
static enum gs_code write_end(struct ss_worker *w, struct ss_item *item,
			      const struct lnx_task *leader, const struct ss_task_record *record,
			      enum gs_code cut)
{
	enum gs_code rc = GS_OK;

	if (w->e->t.request->since_ns && item->id)
		rc = write_same(w, item, record);
	if (rc || item->is_same)
		return rc;
	if (!cut)
		rc = write_mappings(w, item, leader);
	if (!rc && !cut)
		rc = ss_write_process_context(w, leader);
	if (!rc)
		rc = ss_write_memory(w, item, leader, w->mm, cut);
	w->latency.pmap_latency += ss_lap(w);
	if (rc || !w->v.is_timed)
		return rc;
	w->latency.task_uniqueid = item->id;
	w->latency.misc_latency = w->latency.task_thread_count_loop_latency;
	w->latency.end_latency += ss_lap(w);
	return ss_write_task_latency(w, &w->latency);
}

enum gs_code ss_item_close(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
			   const struct ss_task_record *record, uint32_t threads, enum gs_code cut)
{
	if (ss_is_cut(w, cut))
		ss_note_cut(w, item, leader, threads, cut);
	else if (cut)
		return cut;
	enum gs_code rc = write_end(w, item, leader, record, cut);
	if (rc && !ss_is_cut(w, rc))
		return rc;
	item->is_done = true;
	if (item->is_same) {
		ss_piece_trim(&w->e->storage, item->records, 0);
		item->records = NULL;
		return cut;
	}
	enum gs_code closed = ss_code(kcd_container_end(&w->out, item->id));

	ss_piece_trim(&w->e->storage, w->out.chunk, kcd_writer_used(&w->out));
	item->is_task = true;
	if (!cut)
		cut = rc;
	return cut ? cut : closed;
}
