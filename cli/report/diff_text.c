/* SPDX-License-Identifier: Apache-2.0 */
/* What happened between two captures, as text for people. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/diff.h"
#include "cli/report/lines.h"

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* "2 processes, 5 threads" */
static void write_totals(size_t processes, size_t threads, FILE *to)
{
	fprintf(to, "%zu process%s, %zu thread%s\n", processes, processes == 1 ? "" : "es", threads,
		plural(threads));
}

/* --- what all of it comes to --- */

static void write_summary(const struct rep_diff *d, FILE *to)
{
	size_t ran = d->changes[REP_CHANGE_MOVED] + d->changes[REP_CHANGE_RETURNED];

	if (d->has_apart)
		fprintf(to, "%.3f s apart: ", (double)d->apart_ns / (double)GS_NS_PER_SEC);
	else
		fputs("Time between the dumps is not known: ", to);
	fprintf(to, "%zu thread%s new%s, %zu gone%s, %zu ran, %zu ha%s not",
		d->changes[REP_CHANGE_NEW], plural(d->changes[REP_CHANGE_NEW]),
		rep_is_complete(d->before) ? "" : " or not captured before",
		d->changes[REP_CHANGE_GONE], rep_is_complete(d->after) ? "" : " or not captured",
		ran, d->changes[REP_CHANGE_NOT_RUN],
		d->changes[REP_CHANGE_NOT_RUN] == 1 ? "s" : "ve");
	if (d->uninterruptible)
		fprintf(to, "; %zu of these in uninterruptible sleep", d->uninterruptible);
	if (d->starving)
		fprintf(to, "%s %zu %srunnable without a CPU", d->uninterruptible ? "," : ";",
			d->starving, d->uninterruptible ? "" : "of these ");
	if (d->changes[REP_CHANGE_UNKNOWN])
		fprintf(to, "; of %zu it is not known", d->changes[REP_CHANGE_UNKNOWN]);
	fputc('\n', to);
}

static void write_taken(const char *which, const struct rep_capture *c, FILE *to)
{
	struct rep_totals sum = rep_capture_totals(c);
	char taken[REP_TIME_TEXT];

	fprintf(to, "%s: %s, ", which, rep_time(c->wall_us, true, taken));
	write_totals(sum.processes, sum.threads, to);
}

static void write_missing(const char *what, const struct rep_capture *c, FILE *to)
{
	if (rep_is_complete(c))
		return;
	fprintf(to, "\nThe %s:\n", what);
	rep_put_missing(c, to);
}

/* --- threads, a line each --- */

/* " (100 worker)": its process, unless the thread is the leader and has the same number. */
static void write_process(const struct rep_thread_diff *t, const struct rep_thread *thread,
			  FILE *to)
{
	struct rep_shown s;

	if (!thread->has_linux || thread->linux_facts.tid != t->task->pid)
		fprintf(to, " (%" PRId32 " %s)", t->task->pid,
			rep_show(t->task->comm, sizeof(t->task->comm), &s));
}

static void write_name(const struct rep_thread_diff *t, const char *indent, FILE *to)
{
	const struct rep_thread *thread = t->after ? t->after : t->before;

	fputs(indent, to);
	rep_put_name(thread, to);
	write_process(t, thread, to);
	fputs(": ", to);
}

static void write_moved(const struct rep_diff *d, const struct rep_thread_diff *t, FILE *to)
{
	char time[CLI_TEXT_MAX];

	write_name(t, "  ", to);
	rep_put_place(d->before, t->before, to);
	fputs(" -> ", to);
	rep_put_place(d->after, t->after, to);
	fprintf(to, "; %s of CPU time, %" PRIu64 " switch%s\n",
		cli_format_duration(t->cpu_ns, time), t->switches, t->switches == 1 ? "" : "es");
}

/* With the stack. Its state may have changed without a run: it was woken, or stopped. */
static void write_whole(const struct rep_diff *d, const struct rep_thread_diff *t, FILE *to)
{
	write_name(t, "  ", to);
	rep_put_state(t->after, to);
	if (t->before->linux_facts.state != t->after->linux_facts.state) {
		fputs(", was ", to);
		rep_put_state(t->before, to);
	}
	fputc('\n', to);
	rep_put_stack(d->after, t->after, "    ", to);
}

/* --- sections --- */

/* Processes and threads that are new, or gone. */
static void write_section(const struct rep_diff *d, enum rep_change change, size_t processes,
			  const char *title, FILE *to)
{
	bool is_new = change == REP_CHANGE_NEW;
	const struct rep_capture *c = is_new ? d->after : d->before;

	if (!processes && !d->changes[change])
		return;
	fprintf(to, "\n%s: ", title);
	write_totals(processes, d->changes[change], to);
	for (size_t i = 0; i < d->task_count && !ferror(to); i++) {
		const struct rep_task_diff *task = &d->tasks[i];
		bool whole = is_new ? !task->before : !task->after;

		if (whole) {
			fputs("  ", to);
			rep_put_task(is_new ? task->after : task->before, to);
		}
		for (size_t k = 0; k < task->thread_count; k++) {
			const struct rep_thread_diff *t = &d->threads[task->first_thread + k];

			if (t->change != change)
				continue;
			write_name(t, whole ? "    " : "  ", to);
			rep_put_place(c, is_new ? t->after : t->before, to);
			fputc('\n', to);
		}
	}
}

/* Threads of one kind, to be shown together. */
struct list {
	const struct rep_thread_diff **thread;
	size_t count;
};

enum kind {
	KIND_MOVED,
	KIND_RETURNED,
	KIND_UNINTERRUPTIBLE,
	KIND_STARVING,
	KIND_ASLEEP,
	KIND_UNKNOWN
};

static bool is_of_kind(const struct rep_thread_diff *t, enum kind kind)
{
	switch (kind) {
	case KIND_MOVED: return t->change == REP_CHANGE_MOVED;
	case KIND_RETURNED: return t->change == REP_CHANGE_RETURNED;
	case KIND_UNINTERRUPTIBLE: return rep_is_uninterruptible(t);
	case KIND_STARVING: return rep_is_starving(t);
	case KIND_ASLEEP:
		return t->change == REP_CHANGE_NOT_RUN && !rep_is_uninterruptible(t) &&
		       !rep_is_starving(t);
	case KIND_UNKNOWN: return t->change == REP_CHANGE_UNKNOWN;
	}
	return false;
}

/* Most CPU time first; among equals as in the capture. */
static int compare_spent(const void *a, const void *b)
{
	const struct rep_thread_diff *x = *(const struct rep_thread_diff *const *)a;
	const struct rep_thread_diff *y = *(const struct rep_thread_diff *const *)b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	if (x->switches != y->switches)
		return x->switches < y->switches ? 1 : -1;
	return (x > y) - (x < y);
}

static void select_kind(const struct rep_diff *d, enum kind kind, struct list *l)
{
	l->count = 0;
	for (size_t i = 0; i < d->thread_count; i++)
		if (is_of_kind(&d->threads[i], kind))
			l->thread[l->count++] = &d->threads[i];
	if (kind == KIND_MOVED && l->count)
		// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what it is
		qsort(l->thread, l->count, sizeof(*l->thread), compare_spent);
}

static bool write_groups(const struct rep_diff *d, const struct list *l, FILE *to)
{
	GS_FREE struct rep_member *members = gs_array_alloc(l->count, sizeof(*members));

	if (!members)
		return false;
	for (size_t i = 0; i < l->count; i++)
		members[i] = (struct rep_member){ d->after, l->thread[i]->after };
	return rep_put_groups(members, l->count, to);
}

static bool write_kind(const struct rep_diff *d, enum kind kind, bool all, struct list *l, FILE *to)
{
	static const struct {
		const char *title;
		bool grouped;
	} kinds[] = {
		[KIND_MOVED] = { "Ran, and are elsewhere now", false },
		[KIND_RETURNED] = { "Ran, and are at the same place again", true },
		[KIND_UNINTERRUPTIBLE] = { "Have not run, in uninterruptible sleep", false },
		[KIND_STARVING] = { "Have not run, though runnable", false },
		[KIND_ASLEEP] = { "Have not run", true },
		[KIND_UNKNOWN] = { "Not known whether they ran", true },
	};

	select_kind(d, kind, l);
	if (!l->count)
		return true;
	fprintf(to, "\n%s%s: %zu thread%s\n", kinds[kind].title,
		kind == KIND_ASLEEP && (d->uninterruptible || d->starving) ? ", the others" : "",
		l->count, plural(l->count));
	if (kinds[kind].grouped && !all)
		return write_groups(d, l, to);
	for (size_t i = 0; i < l->count && !ferror(to); i++) {
		if (kind == KIND_MOVED)
			write_moved(d, l->thread[i], to);
		else
			write_whole(d, l->thread[i], to);
	}
	return true;
}

bool rep_diff_text(const struct rep_diff *d, bool all, FILE *to)
{
	// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what it is
	struct list l = { .thread = gs_array_alloc(d->thread_count + 1, sizeof(*l.thread)) };
	bool ok = l.thread;

	write_summary(d, to);
	write_taken("Before", d->before, to);
	write_taken("After", d->after, to);
	write_missing("first capture is NOT complete; what is new may have been there", d->before,
		      to);
	write_missing("last capture is NOT complete; what is gone may still be there", d->after,
		      to);
	write_section(d, REP_CHANGE_NEW, d->new_tasks, "New", to);
	write_section(d, REP_CHANGE_GONE, d->gone_tasks, "Gone", to);
	for (int kind = KIND_MOVED; ok && kind <= KIND_UNKNOWN; kind++)
		ok = write_kind(d, (enum kind)kind, all, &l, to);
	free(l.thread);
	return fflush(to) == 0 && !ferror(to) && ok;
}
