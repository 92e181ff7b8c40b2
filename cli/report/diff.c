/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to the threads of a guest between two captures. */
#include "cli/report/diff.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/report/delta.h"
#include "cli/report/ids.h"
#include "cli/report/lines.h"
#include "introspect/linux/linux.h"

/* --- one thread --- */

static bool is_on_cpu(const struct rep_thread *t)
{
	return t->linux_facts.vcpu >= 0 || t->linux_facts.stack_end == LNX_END_RUNNING;
}

static bool is_elsewhere(const struct rep_diff *d, const struct rep_thread *a,
			 const struct rep_thread *b)
{
	return is_on_cpu(a) != is_on_cpu(b) ||
	       rep_compare_stacks(&(struct rep_member){ d->before, a },
				  &(struct rep_member){ d->after, b }) != 0;
}

/*
 * exec_start is set to 0 when a thread that waits for a CPU is moved to the queue of another one
 * (migrate_task_rq_fair(), kernel/sched/fair.c, 5.10 to 6.19): that is no run.
 */
static bool has_count_changed(const struct ss_thread_record *a, const struct ss_thread_record *b,
			      uint32_t known)
{
	return ((known & LNX_TASK_HAS_SWITCHES) &&
		(a->nvcsw != b->nvcsw || a->nivcsw != b->nivcsw)) ||
	       ((known & LNX_TASK_HAS_TIMES) && a->sum_exec_runtime_ns != b->sum_exec_runtime_ns) ||
	       ((known & LNX_TASK_HAS_LAST_RUN) && b->exec_start_ns &&
		a->exec_start_ns != b->exec_start_ns);
}

static enum rep_change change_of(const struct rep_diff *d, const struct rep_thread *a,
				 const struct rep_thread *b)
{
	const uint32_t telling = LNX_TASK_HAS_SWITCHES | LNX_TASK_HAS_TIMES | LNX_TASK_HAS_LAST_RUN;
	const struct ss_thread_record *x = &a->linux_facts, *y = &b->linux_facts;
	uint32_t known = a->has_linux && b->has_linux ? x->known & y->known & telling : 0;
	bool elsewhere = is_elsewhere(d, a, b);

	if (is_on_cpu(a) || is_on_cpu(b) || has_count_changed(x, y, known))
		return elsewhere ? REP_CHANGE_MOVED : REP_CHANGE_RETURNED;
	if (known)
		return REP_CHANGE_NOT_RUN;
	/* a stack changes only by running; one that is the same may be so again */
	return elsewhere ? REP_CHANGE_MOVED : REP_CHANGE_UNKNOWN;
}

/* A thread that executes a program takes over the leader's id, but not its counts. */
static uint64_t grown(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

static void fill_spent(struct rep_thread_diff *t)
{
	const struct ss_thread_record *a = &t->before->linux_facts, *b = &t->after->linux_facts;

	if (a->known & b->known & LNX_TASK_HAS_TIMES)
		t->cpu_ns = grown(a->sum_exec_runtime_ns, b->sum_exec_runtime_ns);
	if (a->known & b->known & LNX_TASK_HAS_SWITCHES)
		t->switches = grown(a->nvcsw, b->nvcsw) + grown(a->nivcsw, b->nivcsw);
}

bool rep_is_uninterruptible(const struct rep_thread_diff *t)
{
	return t->change == REP_CHANGE_NOT_RUN && t->after->linux_facts.state == 'D';
}

bool rep_is_starving(const struct rep_thread_diff *t)
{
	return t->change == REP_CHANGE_NOT_RUN && t->after->linux_facts.state == 'R';
}

const char *rep_change_name(enum rep_change change)
{
	static const char *const names[REP_CHANGES] = {
		[REP_CHANGE_NEW] = "new",	  [REP_CHANGE_GONE] = "gone",
		[REP_CHANGE_MOVED] = "moved",	  [REP_CHANGE_RETURNED] = "returned",
		[REP_CHANGE_NOT_RUN] = "not-run", [REP_CHANGE_UNKNOWN] = "unknown",
	};

	return names[change];
}

/* --- all of them --- */

/* While threads are paired. Of several with an id the first of either side are a pair. */
struct pairing {
	struct rep_diff d;
	struct rep_ids ids; /* of before */
	bool *task_seen, *thread_seen;
};

static void add_thread(struct pairing *p, struct rep_thread_diff t)
{
	struct rep_task_diff *task = &p->d.tasks[p->d.task_count - 1];

	p->d.changes[t.change]++;
	p->d.uninterruptible += rep_is_uninterruptible(&t);
	p->d.starving += rep_is_starving(&t);
	p->d.threads[p->d.thread_count++] = t;
	task->thread_count++;
}

static void pair_thread(struct pairing *p, const struct rep_task *before, size_t at)
{
	const struct rep_task_diff *task = &p->d.tasks[p->d.task_count - 1];
	struct rep_thread_diff t = { .task = task->after, .after = &p->d.after->threads[at] };
	size_t was = before ? rep_find_thread(&p->ids, before, t.after->id) : REP_NONE;

	if (was == REP_NONE || p->thread_seen[was]) {
		t.change = REP_CHANGE_NEW;
	} else {
		p->thread_seen[was] = true;
		t.before = &p->d.before->threads[was];
		t.change = change_of(&p->d, t.before, t.after);
		fill_spent(&t);
	}
	add_thread(p, t);
}

static void add_gone_threads(struct pairing *p, const struct rep_task *before)
{
	for (uint32_t i = 0; i < before->thread_count; i++) {
		size_t at = before->first_thread + i;

		if (!p->thread_seen[at])
			add_thread(p,
				   (struct rep_thread_diff){ .change = REP_CHANGE_GONE,
							     .task = before,
							     .before = &p->d.before->threads[at] });
	}
}

static void pair_task(struct pairing *p, const struct rep_task *after)
{
	size_t was = rep_find_task(&p->ids, after->id);
	const struct rep_task *before = NULL;

	if (was != REP_NONE && !p->task_seen[was]) {
		p->task_seen[was] = true;
		before = &p->d.before->tasks[was];
	}
	if (after->pid == 0)
		return;
	p->d.new_tasks += !before;
	p->d.tasks[p->d.task_count++] = (struct rep_task_diff){ .before = before,
								.after = after,
								.first_thread = p->d.thread_count };
	for (uint32_t i = 0; i < after->thread_count; i++)
		pair_thread(p, before, after->first_thread + i);
	if (before)
		add_gone_threads(p, before);
}

static void add_gone_task(struct pairing *p, const struct rep_task *before)
{
	p->d.gone_tasks++;
	p->d.tasks[p->d.task_count++] =
		(struct rep_task_diff){ .before = before, .first_thread = p->d.thread_count };
	add_gone_threads(p, before);
}

static void pair_all(struct pairing *p)
{
	for (size_t i = 0; i < p->d.after->task_count; i++)
		pair_task(p, &p->d.after->tasks[i]);
	for (size_t i = 0; i < p->d.before->task_count; i++)
		if (!p->task_seen[i] && p->d.before->tasks[i].pid != 0)
			add_gone_task(p, &p->d.before->tasks[i]);
}

/* --- do they belong together? --- */

/* A capture of a dump says when the dump was read: the guest stood at some time before. */
static bool is_of_dump(const struct rep_capture *c)
{
	static const char *const sources[] = { "raw", "elf-core", "kdump" };

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		if (strncmp(c->guest.source, sources[i], sizeof(c->guest.source)) == 0)
			return true;
	return false;
}

static enum gs_code check(const struct rep_capture *before, const struct rep_capture *after,
			  struct gs_error *err)
{
	char earlier[REP_TIME_TEXT], later[REP_TIME_TEXT];

	if (!before->has_guest || !after->has_guest)
		return gs_fail(
			err, GS_EMALFORMED,
			"the %s capture is of another tool, or damaged: nothing says what guest "
			"it is of",
			before->has_guest ? "last" : "first");
	enum gs_code rc = rep_check_same_guest(before, after, err);
	if (rc)
		return gs_wrap(err, rc, "the last capture");
	if (after->start_ns < before->start_ns && !is_of_dump(before) && !is_of_dump(after))
		return gs_fail(
			err, GS_EINVAL,
			"the last capture is of %s, before the first one of %s: give the older "
			"one first",
			rep_time(after->wall_us, true, later),
			rep_time(before->wall_us, true, earlier));
	return GS_OK;
}

enum gs_code rep_diff_init(const struct rep_capture *before, const struct rep_capture *after,
			   struct rep_diff *out, struct gs_error *err)
{
	size_t tasks = before->task_count + after->task_count + 1;
	size_t threads = before->thread_count + after->thread_count + 1;
	struct pairing p = { .d = { .before = before, .after = after } };
	enum gs_code rc = check(before, after, err);

	if (rc)
		return rc;
	p.d.has_apart = !is_of_dump(before) && !is_of_dump(after);
	p.d.apart_ns = p.d.has_apart ? after->start_ns - before->start_ns : 0;
	p.d.tasks = gs_array_alloc(tasks, sizeof(*p.d.tasks));
	p.d.threads = gs_array_alloc(threads, sizeof(*p.d.threads));
	p.task_seen = gs_array_alloc(tasks, sizeof(*p.task_seen));
	p.thread_seen = gs_array_alloc(threads, sizeof(*p.thread_seen));
	if (p.d.tasks && p.d.threads && p.task_seen && p.thread_seen &&
	    rep_ids_init(before, &p.ids)) {
		pair_all(&p);
		*out = p.d;
	} else {
		rep_diff_deinit(&p.d);
		rc = gs_fail(err, GS_ENOSPC, "out of memory");
	}
	rep_ids_deinit(&p.ids);
	free(p.task_seen);
	free(p.thread_seen);
	return rc;
}

void rep_diff_deinit(struct rep_diff *d)
{
	free(d->tasks);
	free(d->threads);
	*d = (struct rep_diff){ 0 };
}

/* --- files --- */

/* The second and later ones. */
static enum gs_code read_next(char *const *paths, size_t count, size_t i,
			      const struct rep_capture *before, struct rep_capture *after,
			      struct gs_error *err)
{
	struct rep_capture c;
	enum gs_code rc = rep_file_read(paths, count, i, &c, err);

	if (rc)
		return rc;
	if (!c.is_delta) {
		rep_capture_deinit(after);
		*after = c;
		return GS_OK;
	}
	rc = i == 1 ? rep_capture_merge(before, &c, after, err) : rep_capture_apply(after, &c, err);
	rep_capture_deinit(&c);
	return rc ? gs_wrap(err, rc, "%s", paths[i]) : GS_OK;
}

enum gs_code rep_files_read_two(char *const *paths, size_t count, struct rep_capture *before_out,
				struct rep_capture *after_out, struct gs_error *err)
{
	*after_out = (struct rep_capture){ 0 };
	enum gs_code rc = rep_file_read(paths, count, 0, before_out, err);

	if (!rc && before_out->is_delta)
		rc = rep_refuse_delta(before_out, paths[0], err);
	for (size_t i = 1; !rc && i < count; i++)
		rc = read_next(paths, count, i, before_out, after_out, err);
	return rc;
}
