/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to the threads of a guest between two captures. */
#ifndef CLI_REPORT_DIFF_H
#define CLI_REPORT_DIFF_H

/*
 * Threads are the same when the ids of their containers are: a pid that is used again is another thread.
 * One has run if it is on a CPU in either capture, or if its switches, its CPU time or the time it last
 * began to run differ; an idle thread says nothing and is left out.
 */

#include <stdio.h>

#include "cli/report/capture_file.h"

/* Raised only for changes that break a reader; docs/json.md describes each version. */
#define REP_DIFF_SCHEMA_VERSION 1

enum rep_change {
	REP_CHANGE_NEW,
	REP_CHANGE_GONE,
	REP_CHANGE_MOVED,    /* ran, and is in another state or at another stack */
	REP_CHANGE_RETURNED, /* ran, and is where it was */
	REP_CHANGE_NOT_RUN,
	REP_CHANGE_UNKNOWN, /* the captures do not have what would tell */
	REP_CHANGES
};

struct rep_thread_diff {
	enum rep_change change;
	const struct rep_task *task;		 /* as it is after, or was before */
	const struct rep_thread *before, *after; /* NULL: not there */
	uint64_t cpu_ns, switches;		 /* between the two; 0: not known, too */
};

/** A process with its threads: those after in their order, then those that are gone. */
struct rep_task_diff {
	const struct rep_task *before, *after; /* NULL: not there */
	size_t first_thread;		       /* in rep_diff.threads */
	size_t thread_count;
};

struct rep_diff {
	const struct rep_capture *before, *after;
	uint64_t apart_ns;
	bool has_apart; /* dumps do not say when the guest stood */

	struct rep_task_diff *tasks; /* those after in their order, then those that are gone */
	struct rep_thread_diff *threads;
	size_t task_count, thread_count;

	size_t new_tasks, gone_tasks;
	size_t changes[REP_CHANGES];	  /* threads */
	size_t uninterruptible, starving; /* of those that have not run */
};

/**
 * Compare two full captures.
 *
 * @param before, after  borrowed until rep_diff_deinit()
 * @param out            untouched unless GS_OK
 * @return GS_OK; GS_EINVAL: of different guests or boots, or in the wrong order; GS_EMALFORMED: of
 * another tool; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code rep_diff_init(const struct rep_capture *before,
				       const struct rep_capture *after, struct rep_diff *out,
				       struct gs_error *err);

void rep_diff_deinit(struct rep_diff *d);

/** Whether a thread that has not run sleeps where no signal reaches it. */
bool rep_is_uninterruptible(const struct rep_thread_diff *t);

/** Whether a thread that has not run could have, but got no CPU. */
bool rep_is_starving(const struct rep_thread_diff *t);

/** "new", "moved", … */
const char *rep_change_name(enum rep_change change);

/**
 * Read the first of several files and what the rest make of it: a delta completes what is before it, a
 * full capture stands for itself.
 *
 * @param paths  at least two; "-", at most once: standard input
 * @param before_out, after_out  the first and the last; freed by rep_capture_deinit(), also after an error
 * @return as rep_capture_read() and rep_capture_merge()
 */
GS_MUST_USE enum gs_code rep_files_read_two(char *const *paths, size_t count,
					    struct rep_capture *before_out,
					    struct rep_capture *after_out, struct gs_error *err);

/**
 * Text for people: a line that sums it up, what is new and gone, what ran, what has not.
 *
 * @param all  threads in ordinary sleep, and those that came back to where they were, one by one
 * @return false: @p to refused bytes, or out of memory
 */
bool rep_diff_text(const struct rep_diff *d, bool all, FILE *to);

/** The JSON document of docs/json.md. @return false: @p to refused bytes */
bool rep_diff_json(const struct rep_diff *d, FILE *to);

#endif
