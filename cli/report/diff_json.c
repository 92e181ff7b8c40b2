/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of what happened between two captures: docs/json.md. */
#include <stdio.h>

#include "cli/report/diff.h"
#include "cli/report/members.h"

static void write_taken(struct kcd_json *j, const char *key, const struct rep_capture *c)
{
	struct rep_totals sum = rep_capture_totals(c);

	kcd_json_key(j, key);
	kcd_json_object_begin(j);
	rep_json_taken(j, c);
	kcd_json_member_u64(j, "tasks", sum.processes);
	kcd_json_member_u64(j, "threads", sum.threads);
	kcd_json_object_end(j);
}

static void write_counts(struct kcd_json *j, const struct rep_diff *d)
{
	kcd_json_key(j, "tasks");
	kcd_json_object_begin(j);
	kcd_json_member_u64(j, "new", d->new_tasks);
	kcd_json_member_u64(j, "gone", d->gone_tasks);
	kcd_json_object_end(j);
	kcd_json_key(j, "threads");
	kcd_json_object_begin(j);
	for (int i = 0; i < REP_CHANGES; i++)
		kcd_json_member_u64(j, rep_change_name((enum rep_change)i), d->changes[i]);
	kcd_json_member_u64(j, "uninterruptible", d->uninterruptible);
	kcd_json_member_u64(j, "starving", d->starving);
	kcd_json_object_end(j);
}

static void write_diff(struct kcd_json *j, const struct rep_diff *d)
{
	kcd_json_key(j, "diff");
	kcd_json_object_begin(j);
	kcd_json_member_bool(j, "complete",
			     rep_is_complete(d->before) && rep_is_complete(d->after));
	kcd_json_key(j, "apart_ns");
	d->has_apart ? kcd_json_u64(j, d->apart_ns) : kcd_json_null(j);
	write_taken(j, "before", d->before);
	write_taken(j, "after", d->after);
	write_counts(j, d);
	kcd_json_object_end(j);
}

static void write_task(struct kcd_json *j, enum rep_change change, const struct rep_task *task)
{
	kcd_json_object_begin(j);
	kcd_json_member_string(j, "change", rep_change_name(change));
	kcd_json_member_i64(j, "pid", task->pid);
	kcd_json_key(j, "ppid");
	task->ppid >= 0 ? kcd_json_i64(j, task->ppid) : kcd_json_null(j);
	kcd_json_member_string(j, "comm", task->comm);
	kcd_json_member_u64(j, "threads", task->thread_count);
	kcd_json_object_end(j);
}

static void write_side(struct kcd_json *j, const char *key, const struct rep_capture *c,
		       const struct rep_thread *t)
{
	kcd_json_key(j, key);
	if (t)
		rep_json_thread(j, c, t);
	else
		kcd_json_null(j);
}

static void write_thread(struct kcd_json *j, const struct rep_diff *d,
			 const struct rep_thread_diff *t)
{
	kcd_json_object_begin(j);
	kcd_json_member_string(j, "change", rep_change_name(t->change));
	kcd_json_key(j, "process");
	kcd_json_object_begin(j);
	kcd_json_member_i64(j, "pid", t->task->pid);
	kcd_json_member_string(j, "comm", t->task->comm);
	kcd_json_object_end(j);
	if (t->before && t->after) {
		kcd_json_member_u64(j, "cpu_ns", t->cpu_ns);
		kcd_json_member_u64(j, "switches", t->switches);
	}
	write_side(j, "before", d->before, t->before);
	write_side(j, "after", d->after, t->after);
	kcd_json_object_end(j);
}

bool rep_diff_json(const struct rep_diff *d, FILE *to)
{
	struct kcd_json j;

	kcd_json_init(&j, rep_json_sink, to, KCD_JSON_PRETTY);
	kcd_json_object_begin(&j);
	kcd_json_member_u64(&j, "schema_version", REP_DIFF_SCHEMA_VERSION);
	write_diff(&j, d);
	kcd_json_key(&j, "tasks");
	kcd_json_array_begin(&j);
	for (size_t i = 0; i < d->task_count; i++) {
		if (!d->tasks[i].before)
			write_task(&j, REP_CHANGE_NEW, d->tasks[i].after);
		else if (!d->tasks[i].after)
			write_task(&j, REP_CHANGE_GONE, d->tasks[i].before);
	}
	kcd_json_array_end(&j);
	kcd_json_key(&j, "threads");
	kcd_json_array_begin(&j);
	for (size_t i = 0; i < d->thread_count && !kcd_json_failed(&j); i++)
		write_thread(&j, d, &d->threads[i]);
	kcd_json_array_end(&j);
	kcd_json_object_end(&j);
	return kcd_json_finish(&j) == KCD_OK && fflush(to) == 0;
}
