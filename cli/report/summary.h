/* SPDX-License-Identifier: Apache-2.0 */
/* How a run of a guest ended, and what the guest was doing. */
#ifndef CLI_REPORT_SUMMARY_H
#define CLI_REPORT_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/capture_file.h"

/* Raised only for changes that break a reader; docs/ci.md describes each version. */
#define REP_SUMMARY_SCHEMA_VERSION 1

/** What is known of a run. Pointers are borrowed; strings are as they are, guest text included. */
struct rep_summary {
	const char *name;   /* of the test */
	const char *result; /* "passed", "failed" or "error" */
	const char *type;   /* in which way, one word */
	const char *text;   /* a sentence, harmless for a terminal */
	const char *report; /* lines about a machine that could not go on; NULL: none */
	const char *line;   /* of the console, that decided; NULL: none did */
	const char *panic;  /* the console's line; NULL: none was seen */
	bool passed;
	bool has_status;
	uint32_t status; /* of the guest's test */
	int exit_code;
	uint64_t took_ns;

	const struct rep_capture *capture;	 /* the last one; NULL: none */
	const char *capture_file;		 /* where it is; NULL: not known, or nowhere */
	const struct ss_console_record *console; /* the last lines, oldest first */
	uint32_t console_lines;
};

/**
 * Text for people: the end; of a run that did not pass also deadlocks, threads by stack, those that are
 * blocked first and the longest before others, and the console's last lines.
 *
 * @return false: @p to refused bytes, or out of memory
 */
bool rep_summary_text(const struct rep_summary *s, FILE *to);

/** The JSON document of docs/ci.md; it always has the threads of the capture, if there is one. */
bool rep_summary_json(const struct rep_summary *s, FILE *to);

/**
 * The thread that is blocked longest, in a line: "thread 7 tar: D (uninterruptible sleep) in io_schedule".
 * Nothing if none is in uninterruptible sleep.
 *
 * @return false: none is
 */
bool rep_put_stuck(const struct rep_capture *c, FILE *to);

#endif
