/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas completed by the capture before them. */
#include "cli/report/delta.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/report/ids.h"
#include "cli/report/lines.h"

/* What becomes of a task or thread of the base. */
enum fate_kind {
	FATE_GONE,
	FATE_KEPT,    /* as it was */
	FATE_UPDATED, /* the same, but for what rep_capture.still_runnable[at] of the delta says */
	FATE_CHANGED, /* the delta's own, at */
};

struct fate {
	enum fate_kind kind;
	size_t at;
};

struct merge {
	const struct rep_capture *base, *delta;
	struct rep_ids base_ids, delta_ids;
	struct fate *tasks, *threads; /* one for each of the base's */
	size_t repeated;	      /* tasks and threads with an id that was there already */
	size_t unknown; /* ids called unchanged that an incomplete base does not have */
	uint64_t first_unknown;
	struct rep_capture out;
	struct gs_error *err;
};

/* --- do they belong together? --- */

enum gs_code rep_check_same_guest(const struct rep_capture *a, const struct rep_capture *b,
				  struct gs_error *err)
{
	const struct ss_guest_record *x = &a->guest, *y = &b->guest;

	if (x->kernel_text != y->kernel_text || x->kernel_voffset != y->kernel_voffset ||
	    x->ram_size != y->ram_size || x->vcpus != y->vcpus || x->symbols != y->symbols)
		return gs_fail(
			err, GS_EINVAL,
			"of another guest than the capture before it, or of another boot of its "
			"kernel");
	if (a->only_pid != b->only_pid)
		return gs_fail(err, GS_EINVAL,
			       "of other processes than the capture before it: one of them is of a "
			       "single process (snap --pid)");
	return GS_OK;
}

/* Wall-clock time of a moment that is known by the monotonic clock. */
static const char *since_text(const struct rep_capture *delta, char out[static REP_TIME_TEXT])
{
	uint64_t ago_us =
		delta->start_ns < delta->since_ns ? 0 : (delta->start_ns - delta->since_ns) / 1000;

	return rep_time(delta->wall_us - gs_min(ago_us, delta->wall_us), true, out);
}

enum gs_code rep_refuse_delta(const struct rep_capture *delta, const char *path,
			      struct gs_error *err)
{
	char since[REP_TIME_TEXT];

	if (!delta->has_guest)
		return gs_fail(
			err, GS_EMALFORMED,
			"%s: a delta of another tool, or damaged: only those of guestshot can be "
			"shown, after their base",
			path);
	return gs_fail(err, GS_EINVAL,
		       "%s: a delta since %s, no full capture: give the full one of that time or "
		       "later before it",
		       path, since_text(delta, since));
}

static enum gs_code check_times(const struct rep_capture *base, const struct rep_capture *delta,
				struct gs_error *err)
{
	char before[REP_TIME_TEXT], since[REP_TIME_TEXT];

	rep_time(base->wall_us, true, before);
	if (base->start_ns < delta->since_ns)
		return gs_fail(
			err, GS_EINVAL,
			"a delta since %s, but the capture before it is of %s: one in between "
			"is missing",
			since_text(delta, since), before);
	if (base->start_ns > delta->start_ns)
		return gs_fail(
			err, GS_EINVAL,
			"a delta of %s, but the capture before it is of %s: give them in the "
			"order they were taken",
			rep_time(delta->wall_us, true, since), before);
	return GS_OK;
}

static enum gs_code check(const struct rep_capture *base, const struct rep_capture *delta,
			  struct gs_error *err)
{
	if (base->is_delta)
		return gs_fail(err, GS_EINVAL, "the capture before it is a delta, too");
	if (!delta->is_delta)
		return gs_fail(err, GS_EINVAL,
			       "a full capture: only deltas complete the one before them");
	if (!delta->has_guest && delta->damaged)
		return gs_fail(err, GS_EMALFORMED, "%s, before it says what guest it is of",
			       delta->damage);
	if (!delta->has_guest || !base->has_guest)
		return gs_fail(err, GS_EMALFORMED,
			       "%s of another tool: only those of guestshot can be completed",
			       delta->has_guest ? "a delta, but after a capture" : "a delta");
	enum gs_code rc = rep_check_same_guest(base, delta, err);

	return rc ? rc : check_times(base, delta, err);
}

/* --- what becomes of what --- */

/*
 * The delta says that something is as it was, and the base does not have it. With a base that is
 * complete it is the wrong one.
 */
static enum gs_code note_unknown(struct merge *m, const char *what, uint64_t id)
{
	if (rep_is_complete(m->base))
		return gs_fail(m->err, GS_EMALFORMED,
			       "%s with id %#" PRIx64
			       " is unchanged, it says, but the capture before it "
			       "has none: it is of another base, or a delta in between is missing",
			       what, id);
	if (!m->unknown++)
		m->first_unknown = id;
	return GS_OK;
}

static enum gs_code keep_thread(struct merge *m, const struct rep_task *b, uint64_t id,
				struct fate fate)
{
	size_t at = b ? rep_find_thread(&m->base_ids, b, id) : REP_NONE;

	if (at == REP_NONE)
		return note_unknown(m, "a thread", id);
	if (m->threads[at].kind == FATE_GONE)
		m->threads[at] = fate;
	else
		m->repeated++;
	return GS_OK;
}

static bool is_first_thread(const struct merge *m, const struct rep_task *d, size_t at)
{
	return rep_find_thread(&m->delta_ids, d, m->delta->threads[at].id) == at;
}

/* Of the threads of a task that the delta has a container for. b: in the base; NULL: new */
static enum gs_code decide_threads(struct merge *m, const struct rep_task *b,
				   const struct rep_task *d)
{
	enum gs_code rc = GS_OK;

	for (uint32_t i = 0; i < d->thread_count; i++) {
		size_t at = d->first_thread + i;
		size_t was =
			b ? rep_find_thread(&m->base_ids, b, m->delta->threads[at].id) : REP_NONE;

		if (!is_first_thread(m, d, at))
			m->repeated++;
		else if (was != REP_NONE)
			m->threads[was] = (struct fate){ FATE_CHANGED, at };
	}
	for (uint32_t i = 0; !rc && i < d->runnable_count; i++) {
		size_t at = d->first_runnable + i;

		rc = keep_thread(m, b, m->delta->still_runnable[at].tds_thread_id,
				 (struct fate){ FATE_UPDATED, at });
	}
	for (uint32_t i = 0; !rc && i < d->waiting_count; i++)
		rc = keep_thread(m, b, m->delta->still_waiting[d->first_waiting + i],
				 (struct fate){ FATE_KEPT, 0 });
	return rc;
}

static bool is_first_task(const struct merge *m, size_t at)
{
	return rep_find_task(&m->delta_ids, m->delta->tasks[at].id) == at;
}

static enum gs_code decide_changed(struct merge *m)
{
	enum gs_code rc = GS_OK;

	for (size_t i = 0; !rc && i < m->delta->task_count; i++) {
		const struct rep_task *d = &m->delta->tasks[i];
		size_t was = rep_find_task(&m->base_ids, d->id);

		if (!is_first_task(m, i)) {
			m->repeated++;
			continue;
		}
		if (was != REP_NONE)
			m->tasks[was] = (struct fate){ FATE_CHANGED, i };
		else if (!d->has_facts)
			rc = note_unknown(m, "a process", d->id);
		if (!rc)
			rc = decide_threads(m, was == REP_NONE ? NULL : &m->base->tasks[was], d);
	}
	return rc;
}

static enum gs_code decide_unchanged(struct merge *m)
{
	enum gs_code rc = GS_OK;

	for (size_t i = 0; !rc && i < m->delta->still_task_count; i++) {
		size_t at = rep_find_task(&m->base_ids, m->delta->still_tasks[i]);

		if (at == REP_NONE)
			rc = note_unknown(m, "a process", m->delta->still_tasks[i]);
		else if (m->tasks[at].kind == FATE_GONE)
			m->tasks[at].kind = FATE_KEPT;
		else
			m->repeated++;
	}
	for (size_t i = 0; i < m->base->task_count; i++) {
		const struct rep_task *b = &m->base->tasks[i];

		for (uint32_t k = 0; m->tasks[i].kind == FATE_KEPT && k < b->thread_count; k++)
			m->threads[b->first_thread + k].kind = FATE_KEPT;
	}
	return rc;
}

/* --- the result --- */

static bool reserve(struct merge *m)
{
	const struct rep_capture *b = m->base, *d = m->delta;
	struct rep_capture *o = &m->out;

	o->tasks = gs_array_alloc(b->task_count + d->task_count + 1, sizeof(*o->tasks));
	o->threads = gs_array_alloc(b->thread_count + d->thread_count + 1, sizeof(*o->threads));
	o->frames = gs_array_alloc(b->frame_count + d->frame_count + 1, sizeof(*o->frames));
	o->user_frames = gs_array_alloc(b->user_frame_count + d->user_frame_count + 1,
					sizeof(*o->user_frames));
	o->mappings = gs_array_alloc(b->mapping_count + d->mapping_count + 1, sizeof(*o->mappings));
	o->symbols = gs_array_alloc(b->symbol_count + d->symbol_count + 1, sizeof(*o->symbols));
	o->modules = gs_array_alloc(b->module_count + d->module_count + 1, sizeof(*o->modules));
	/* two of our own may be added */
	o->missing = gs_array_alloc(b->missing_count + d->missing_count + 2, sizeof(*o->missing));
	o->vcpus = gs_array_alloc(d->vcpu_count + 1, sizeof(*o->vcpus));
	return o->tasks && o->threads && o->frames && o->user_frames && o->mappings && o->symbols &&
	       o->modules && o->missing && o->vcpus;
}

/* Mappings of the base come first, then those of the delta: put_mappings(). */
static void put_user_frames(struct rep_capture *o, const struct rep_capture *from,
			    const struct rep_thread *t, struct rep_thread *copy)
{
	const size_t before = from->is_delta ? o->mapping_count - from->mapping_count : 0;

	copy->first_user_frame = o->user_frame_count;
	for (uint32_t i = 0; i < t->user_frame_count; i++) {
		struct rep_user_frame *f = &o->user_frames[o->user_frame_count++];

		*f = from->user_frames[t->first_user_frame + i];
		if (f->mapping)
			f->mapping += before;
	}
}

static void put_mappings(struct rep_capture *o, const struct rep_capture *from)
{
	if (from->mapping_count)
		memcpy(o->mappings + o->mapping_count, from->mappings,
		       from->mapping_count * sizeof(*o->mappings));
	o->mapping_count += from->mapping_count;
}

static struct rep_thread *put_thread(struct rep_capture *o, const struct rep_capture *from,
				     size_t at)
{
	const struct rep_thread *t = &from->threads[at];
	struct rep_thread *copy = &o->threads[o->thread_count++];

	*copy = *t;
	copy->has_context = false; /* of the base, and not of this time */
	copy->first_frame = o->frame_count;
	/* a lock has another owner by now, perhaps: what was waited for is not known any more */
	copy->first_wait = copy->wait_count = 0;
	if (t->frame_count)
		memcpy(&o->frames[o->frame_count], &from->frames[t->first_frame],
		       t->frame_count * sizeof(*o->frames));
	o->frame_count += t->frame_count;
	put_user_frames(o, from, t, copy);
	return copy;
}

/* It has not run, but somebody else may have changed its priority. */
static void update_thread(struct rep_thread *t, const struct kcd_thread_delta_snapshot_v3 *s)
{
	t->stock.ths_ss_flags = s->tds_ss_flags;
	t->stock.ths_last_made_runnable_time = s->tds_last_made_runnable_time;
	t->stock.ths_state = s->tds_state;
	t->stock.ths_sched_flags = s->tds_sched_flags;
	t->stock.ths_base_priority = s->tds_base_priority;
	t->stock.ths_sched_priority = s->tds_sched_priority;
	t->linux_facts.static_prio = s->tds_base_priority;
	t->linux_facts.prio = s->tds_sched_priority;
}

/* Whether another one has the same id, stands before it and is still there. */
static bool is_second(const struct fate *fates, size_t at, size_t first)
{
	return first != at && fates[first].kind != FATE_GONE;
}

static void put_old_threads(struct merge *m, const struct rep_task *b)
{
	for (size_t i = 0; i < b->thread_count; i++) {
		size_t at = b->first_thread + i;
		const struct fate *fate = &m->threads[at];

		switch (fate->kind) {
		case FATE_GONE:
			/* a second one with an id: of which of them the delta speaks, nobody knows */
			m->repeated += is_second(
				m->threads, at,
				rep_find_thread(&m->base_ids, b, m->base->threads[at].id));
			break;
		case FATE_KEPT: put_thread(&m->out, m->base, at); break;
		case FATE_UPDATED:
			update_thread(put_thread(&m->out, m->base, at),
				      &m->delta->still_runnable[fate->at]);
			break;
		case FATE_CHANGED: put_thread(&m->out, m->delta, fate->at); break;
		}
	}
}

static void put_new_threads(struct merge *m, const struct rep_task *b, const struct rep_task *d)
{
	for (size_t i = 0; i < d->thread_count; i++) {
		size_t at = d->first_thread + i;

		if (is_first_thread(m, d, at) &&
		    (!b || rep_find_thread(&m->base_ids, b, m->delta->threads[at].id) == REP_NONE))
			put_thread(&m->out, m->delta, at);
	}
}

/* b: in the base; NULL: new. d: in the delta; NULL: as it was */
static void put_task(struct merge *m, const struct rep_task *b, const struct rep_task *d)
{
	struct rep_task *t = &m->out.tasks[m->out.task_count++];

	*t = d && (d->has_facts || !b) ? *d : *b;
	t->context = 0; /* the base's, and not of this time */
	t->first_thread = m->out.thread_count;
	t->first_runnable = t->first_waiting = 0;
	t->runnable_count = t->waiting_count = 0;
	if (b)
		put_old_threads(m, b);
	if (d)
		put_new_threads(m, b, d);
	t->thread_count = (uint32_t)(m->out.thread_count - t->first_thread);
}

/* The base's order first, then what is new. */
static void put_tasks(struct merge *m)
{
	for (size_t i = 0; i < m->base->task_count; i++) {
		const struct rep_task *b = &m->base->tasks[i];
		const struct fate *fate = &m->tasks[i];

		if (fate->kind == FATE_GONE)
			m->repeated += is_second(m->tasks, i, rep_find_task(&m->base_ids, b->id));
		else
			put_task(m, b,
				 fate->kind == FATE_CHANGED ? &m->delta->tasks[fate->at] : NULL);
	}
	for (size_t i = 0; i < m->delta->task_count; i++)
		if (is_first_task(m, i) &&
		    rep_find_task(&m->base_ids, m->delta->tasks[i].id) == REP_NONE)
			put_task(m, NULL, &m->delta->tasks[i]);
}

static bool is_same_symbol(const struct rep_symbol *a, const struct rep_symbol *b)
{
	return a->start == b->start && a->size == b->size && strcmp(a->name, b->name) == 0;
}

/* Those of both, each once: both have them ascending. */
static bool put_symbols(struct merge *m)
{
	const struct rep_capture *b = m->base, *d = m->delta;
	const struct rep_symbol *last = NULL;
	struct rep_capture *o = &m->out;

	for (size_t i = 0, k = 0; i < b->symbol_count || k < d->symbol_count;) {
		bool old = k == d->symbol_count ||
			   (i < b->symbol_count && b->symbols[i].start <= d->symbols[k].start);
		const struct rep_symbol *s = old ? &b->symbols[i++] : &d->symbols[k++];

		if (last && is_same_symbol(last, s))
			continue;
		last = s;
		char *name = strdup(s->name);
		if (!name)
			return false;
		o->symbols[o->symbol_count++] =
			(struct rep_symbol){ s->start, s->size, s->flags, name };
	}
	return true;
}

/* The same of the modules. */
static void put_modules(struct merge *m)
{
	const struct rep_capture *b = m->base, *d = m->delta;
	const struct ss_module_record *last = NULL;
	struct rep_capture *o = &m->out;

	for (size_t i = 0, k = 0; i < b->module_count || k < d->module_count;) {
		bool old = k == d->module_count ||
			   (i < b->module_count && b->modules[i].start <= d->modules[k].start);
		const struct ss_module_record *r = old ? &b->modules[i++] : &d->modules[k++];

		if (last && !memcmp(last, r, sizeof(*r)))
			continue;
		last = r;
		o->modules[o->module_count++] = *r;
	}
}

/* --- what is missing in it --- */

static int compare_numbers(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

	return (x > y) - (x < y);
}

static bool has_number(const int32_t *sorted, size_t n, int32_t number)
{
	return n && bsearch(&number, sorted, n, sizeof(number), compare_numbers);
}

static bool is_kept(const struct fate *fate)
{
	return fate->kind == FATE_KEPT || fate->kind == FATE_UPDATED;
}

/*
 * What the base lacks is still lacking in threads and processes that are as they were, and perhaps what it
 * does not list. Of all else the delta says what there is now.
 */
static bool keep_missing(struct merge *m)
{
	const struct rep_capture *b = m->base;
	GS_FREE int32_t *tids = gs_array_alloc(b->thread_count + 1, sizeof(*tids));
	GS_FREE int32_t *pids = gs_array_alloc(b->task_count + 1, sizeof(*pids));
	size_t threads = 0, tasks = 0;

	if (!tids || !pids)
		return false;
	for (size_t i = 0; i < b->thread_count; i++)
		if (is_kept(&m->threads[i]))
			tids[threads++] = b->threads[i].linux_facts.tid;
	for (size_t i = 0; i < b->task_count; i++)
		if (is_kept(&m->tasks[i]))
			pids[tasks++] = b->tasks[i].pid;
	qsort(tids, threads, sizeof(*tids), compare_numbers);
	qsort(pids, tasks, sizeof(*pids), compare_numbers);
	for (size_t i = 0; i < b->missing_count; i++) {
		const struct ss_missing_record *r = &b->missing[i];

		if (r->what == SS_MISSING_MORE ||
		    (r->tid >= 0 && has_number(tids, threads, r->tid)) ||
		    (r->pid >= 0 && has_number(pids, tasks, r->pid)))
			m->out.missing[m->out.missing_count++] = *r;
	}
	return true;
}

static struct ss_missing_record *add_missing(struct rep_capture *o, size_t count)
{
	struct ss_missing_record *r = &o->missing[o->missing_count++];

	*r = (struct ss_missing_record){ .what = SS_MISSING_TASK,
					 .count = (uint32_t)gs_min(count, UINT32_MAX),
					 .pid = -1,
					 .tid = -1 };
	return r;
}

static bool put_missing(struct merge *m)
{
	const struct rep_capture *b = m->base, *d = m->delta;
	struct rep_capture *o = &m->out;

	if (!keep_missing(m))
		return false;
	if (d->missing_count)
		memcpy(&o->missing[o->missing_count], d->missing,
		       d->missing_count * sizeof(*d->missing));
	o->missing_count += d->missing_count;
	if (m->unknown) {
		struct ss_missing_record *r = add_missing(o, m->unknown);

		snprintf(r->reason, sizeof(r->reason),
			 "a process or thread is as it was, but the incomplete capture before does "
			 "not have it (id %#" PRIx64 ")",
			 m->first_unknown);
	}
	if (m->repeated) {
		struct ss_missing_record *r = add_missing(o, m->repeated);

		snprintf(r->reason, sizeof(r->reason),
			 "a process or thread has the id of another one: only the first is here");
	}
	o->damaged = b->damaged || d->damaged;
	memcpy(o->damage, b->damaged ? b->damage : d->damage, sizeof(o->damage));
	return true;
}

/* Why the delta was taken: that is the moment that is shown. */
static bool put_reason(struct rep_capture *o, const struct rep_capture *d)
{
	o->reason = d->reason;
	if (!d->console_count)
		return true;
	o->console = gs_array_alloc(d->console_count, sizeof(*o->console));
	if (!o->console)
		return false;
	memcpy(o->console, d->console, d->console_count * sizeof(*o->console));
	o->console_count = d->console_count;
	return true;
}

static bool put_rest(struct merge *m)
{
	const struct rep_capture *b = m->base, *d = m->delta;
	struct rep_capture *o = &m->out;

	o->start_ns = d->start_ns;
	o->wall_us = d->wall_us;
	o->times = d->times;
	o->duration = d->duration;
	o->guest = b->guest;
	o->system = d->system;
	o->has_system = d->has_system;
	o->only_pid = b->only_pid;
	o->has_guest = true;
	if (d->vcpu_count)
		memcpy(o->vcpus, d->vcpus, d->vcpu_count * sizeof(*o->vcpus));
	o->vcpu_count = d->vcpu_count;
	return (!b->banner || (o->banner = strdup(b->banner))) &&
	       (!b->release || (o->release = strdup(b->release)));
}

static enum gs_code build(struct merge *m)
{
	enum gs_code rc;

	if ((rc = decide_changed(m)) || (rc = decide_unchanged(m)))
		return rc;
	if (!reserve(m) || !put_symbols(m) || !put_rest(m) || !put_reason(&m->out, m->delta))
		return gs_fail(m->err, GS_ENOSPC, "out of memory");
	put_modules(m);
	put_mappings(&m->out, m->base);
	put_mappings(&m->out, m->delta);
	put_tasks(m);
	if (!put_missing(m))
		return gs_fail(m->err, GS_ENOSPC, "out of memory");
	rep_capture_name_frames(&m->out);
	return GS_OK;
}

/* The result is in m->out. */
static enum gs_code merge(struct merge *m)
{
	enum gs_code rc = check(m->base, m->delta, m->err);

	if (rc)
		return rc;
	m->tasks = gs_array_alloc(m->base->task_count + 1, sizeof(*m->tasks));
	m->threads = gs_array_alloc(m->base->thread_count + 1, sizeof(*m->threads));
	if (m->tasks && m->threads && rep_ids_init(m->base, &m->base_ids) &&
	    rep_ids_init(m->delta, &m->delta_ids))
		rc = build(m);
	else
		rc = gs_fail(m->err, GS_ENOSPC, "out of memory");
	free(m->tasks);
	free(m->threads);
	rep_ids_deinit(&m->base_ids);
	rep_ids_deinit(&m->delta_ids);
	if (rc)
		rep_capture_deinit(&m->out);
	return rc;
}

enum gs_code rep_capture_merge(const struct rep_capture *base, const struct rep_capture *delta,
			       struct rep_capture *out, struct gs_error *err)
{
	struct merge m = { .base = base, .delta = delta, .err = err };
	enum gs_code rc = merge(&m);

	if (!rc)
		*out = m.out;
	return rc;
}

enum gs_code rep_capture_apply(struct rep_capture *base, const struct rep_capture *delta,
			       struct gs_error *err)
{
	struct merge m = { .base = base, .delta = delta, .err = err };
	enum gs_code rc = merge(&m);

	if (rc)
		return rc;
	rep_capture_deinit(base);
	*base = m.out;
	return GS_OK;
}

/* --- files --- */

enum gs_code rep_file_read(char *const *paths, size_t count, size_t i, struct rep_capture *out,
			   struct gs_error *err)
{
	char text[sizeof(out->damage)];
	enum gs_code rc = rep_capture_read(paths[i], out, err);

	if (rc || count == 1 || !out->damaged)
		return rc;
	/* cut, if need be: the place comes first in it */
	int n = snprintf(text, sizeof(text), "number %zu of %zu: ", i + 1, count);
	snprintf(text + n, sizeof(text) - (size_t)n, "%.*s", (int)(sizeof(text) - (size_t)n - 1),
		 out->damage);
	memcpy(out->damage, text, sizeof(text));
	return GS_OK;
}

static enum gs_code apply_file(char *const *paths, size_t count, size_t i, struct rep_capture *base,
			       struct gs_error *err)
{
	struct rep_capture delta;
	enum gs_code rc = rep_file_read(paths, count, i, &delta, err);

	if (rc)
		return rc;
	rc = rep_capture_apply(base, &delta, err);
	rep_capture_deinit(&delta);
	return rc ? gs_wrap(err, rc, "%s", paths[i]) : GS_OK;
}

enum gs_code rep_files_read(char *const *paths, size_t count, struct rep_capture *out,
			    struct gs_error *err)
{
	enum gs_code rc = rep_file_read(paths, count, 0, out, err);

	if (!rc && out->is_delta)
		rc = rep_refuse_delta(out, paths[0], err);
	for (size_t i = 1; !rc && i < count; i++)
		rc = apply_file(paths, count, i, out, err);
	if (rc)
		rep_capture_deinit(out);
	return rc;
}
