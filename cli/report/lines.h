/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of text that the views for people share. */
#ifndef CLI_REPORT_LINES_H
#define CLI_REPORT_LINES_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/capture_file.h"

/* Room for any short string of a record (names of threads), every byte escaped. */
struct rep_shown {
	char text[4 * (KCD_SS_THREAD_NAME_SIZE + 1) + 1];
};

/** A short string of the guest, escaped. @return text of @p s */
const char *rep_show(const char *guest_text, size_t max, struct rep_shown *s);

/** A string of any length, escaped. */
void rep_put(const char *guest_text, size_t max, FILE *to);

#define REP_TIME_TEXT 48

/** "2026-11-30 09:38:22 UTC", or with ".120" in it. @return @p out */
const char *rep_time(uint64_t wall_us, bool milliseconds, char out[static REP_TIME_TEXT]);

/** What is missing in a capture, a line each. */
void rep_put_missing(const struct rep_capture *c, FILE *to);

/** "process 100 worker, parent 1, 3 threads" */
void rep_put_task(const struct rep_task *t, FILE *to);

/** "on vCPU 1" or "S (sleeping)" */
void rep_put_state(const struct rep_thread *t, FILE *to);

/** "thread 101 runner" */
void rep_put_name(const struct rep_thread *t, FILE *to);

/** The name and the state. */
void rep_put_thread(const struct rep_thread *t, FILE *to);

/**
 * The innermost frame that says something: all that sleep are in the scheduler, so its functions are
 * passed. NULL: there is no frame.
 */
const struct rep_frame *rep_place(const struct rep_capture *c, const struct rep_thread *t);

/** The state and the innermost function, for one that sleeps without the scheduler's: "S (sleeping) in pipe_read" */
void rep_put_place(const struct rep_capture *c, const struct rep_thread *t, FILE *to);

/**
 * The kernel stack, a frame a line, and why it ends if not well; then the same of the user stack, if that
 * was asked for.
 */
void rep_put_stack(const struct rep_capture *c, const struct rep_thread *t, const char *indent,
		   FILE *to);

/** The build ids of files that frames of a process's user stacks lie in, a line each. */
void rep_put_build_ids(const struct rep_capture *c, const struct rep_task *t, FILE *to);

/* Of a build id in hexadecimal, terminated. */
#define REP_BUILD_ID_TEXT (2 * sizeof(((struct ss_mapping_record *)0)->build_id) + 1)

/** A mapping's build id; "" where it is not known. @return @p text_out */
const char *rep_build_id(const struct ss_mapping_record *m,
			 char text_out[static REP_BUILD_ID_TEXT]);

/** Lines of a guest's console, one a line. */
void rep_put_console(const struct ss_console_record *lines, size_t count, const char *indent,
		     FILE *to);

/** A thread to be shown in a group. */
struct rep_member {
	const struct rep_capture *c;
	const struct rep_thread *thread;
};

/**
 * Order by what threads of one kernel do: same state, same way to end, same frames are equal; a cut
 * stack never equals a whole one.
 */
int rep_compare_stacks(const struct rep_member *a, const struct rep_member *b);

/** Threads with the same stack and state. */
struct rep_group {
	const struct rep_member *first; /* the others are behind it */
	size_t count;
	uint64_t rank; /* highest of its members */
};

/**
 * Make groups of threads, by all that is shown of their stacks.
 *
 * @param members    sorted here; all of one capture; borrowed by the groups
 * @param rank       groups of a higher one come first, then larger ones; NULL: larger ones first
 * @param groups_out returned: free with free(); NULL when there are none
 * @return false: out of memory
 */
GS_MUST_USE bool rep_groups_make(struct rep_member *members, size_t count,
				 uint64_t (*rank)(const struct rep_member *m, void *arg), void *arg,
				 struct rep_group **groups_out, size_t *count_out);

/** "3 threads, sleeping: 110 a, 111 b, 112 b" */
void rep_put_group(const struct rep_group *g, FILE *to);

/**
 * The functions of the kernel stack, innermost first: "pipe_read < vfs_read < ksys_read"; of one that sleeps
 * without the scheduler's.
 */
void rep_put_functions(const struct rep_capture *c, const struct rep_thread *t, FILE *to);

/** The first names of a group's threads: " 101 runner, 102 wait and 7 more" */
void rep_put_group_names(const struct rep_group *g, FILE *to);

/**
 * Threads with the same stack and state once, with their number and names; largest group first.
 *
 * @param members sorted here; all of one capture
 * @return false: out of memory
 */
bool rep_put_groups(struct rep_member *members, size_t count, FILE *to);

#endif
