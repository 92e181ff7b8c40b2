/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of a capture are shown. */
#ifndef CLI_REPORT_FILTER_H
#define CLI_REPORT_FILTER_H

#include <stdbool.h>

#include "cli/report/capture_file.h"

/** A thread has to agree with all that is set. */
struct rep_filter {
	const char *states;   /* letters of /proc/PID/stat, any of them; NULL: all */
	const char *process;  /* its name, or its number; NULL: all */
	const char *function; /* that a frame is of, by its full name; NULL: all */
	uint64_t waiting_ns;  /* not executed for at least so long; 0: all */
};

/** Whether anything is set. */
bool rep_filter_is_set(const struct rep_filter *f);

/** Whether letters are all such as threads can have. */
bool rep_filter_are_states(const char *letters);

/**
 * Hide the threads that do not agree.
 *
 * How long a thread has not been executed may have been longer, but was not less (since.h).
 *
 * @return how many are not hidden
 */
size_t rep_filter_apply(struct rep_capture *c, const struct rep_filter *f);

#endif
