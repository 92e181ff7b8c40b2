/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a guest that is captured again and again: what fits on a screen, newest capture first. */
#ifndef CLI_REPORT_LIVE_H
#define CLI_REPORT_LIVE_H

/*
 * A head says how the guest is, how many of its threads do what, and what captures cost it. Below it
 * are deadlocks, the longest blocked threads, the most frequent stacks, and what is missing.
 *
 * Every line is printable ASCII, whatever the guest calls its things, so a byte is a column.
 * Threads: any; depends on nothing but the arguments.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/report/capture_file.h"
#include "control/pace.h"

/** What is shown beside the capture. Texts are shown as they are: escaped by the caller. */
struct rep_live {
	const struct rep_capture *capture; /* NULL: there is none yet */
	const char *state;		   /* of the guest; NULL: not known */
	uint64_t machine_up_ns;		   /* its virtual machine; 0: not known */
	const struct ctl_pace *pace;	   /* when captures are taken, and what they cost */
	uint64_t watched_ns;		   /* since the first was asked for */
	uint64_t last_stopped_ns;	   /* what the last one cost */
	const char *failure;		   /* why the last one failed; NULL: it did not */
	const char *note;		   /* instead of what keys do; NULL: none */
	bool is_paused;
	uint32_t top; /* most threads and most stacks that are listed */
};

struct rep_live_view {
	char *text;  /* of all lines */
	char **line; /* each terminated */
	size_t count;
	size_t first; /* line of the body that is the first on the screen */
	size_t shown; /* lines of the body on the screen */
};

/**
 * Make the lines of the view.
 *
 * @param width    columns: longer lines go on in the next, farther in; 0: they are left as they are
 * @param height   lines of the screen, of which head, a part of the body and a line about keys are made;
 *                 0: head and body as a whole
 * @param first    line of the body to begin with; more than there are: the last ones
 * @param view_out freed by rep_live_view_deinit()
 * @return false: out of memory
 */
bool rep_live_view(const struct rep_live *l, uint32_t width, uint32_t height, size_t first,
		   struct rep_live_view *view_out);

void rep_live_view_deinit(struct rep_live_view *v);

#endif
