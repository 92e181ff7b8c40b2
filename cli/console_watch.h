/* SPDX-License-Identifier: Apache-2.0 */
/* Words on a console that a capture is to be taken for, and the console's last lines. */
#ifndef CLI_CONSOLE_WATCH_H
#define CLI_CONSOLE_WATCH_H

/*
 * The console's thread feeds; the event loop takes what was found. A program in the guest may say
 * what the kernel says: then there is a capture too many.
 */

#include <pthread.h>
#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/console_lines.h"
#include "introspect/stackshot/records.h"

#define CLI_WATCH_PATTERNS_MAX 8

struct cli_console_watch {
	struct {
		regex_t re;
		uint32_t reason; /* enum ss_reason */
	} pattern[CLI_WATCH_PATTERNS_MAX];
	uint32_t patterns;
	uint32_t looked_for; /* bits 1 << enum ss_reason; the feeder's, as is what follows */
	struct cli_lines lines;

	pthread_mutex_t lock; /* guards the rest */
	uint32_t found;	      /* bits 1 << enum ss_reason, with the line in reason */
	struct ss_reason_record reason[SS_REASON_SIGNAL + 1];
	struct ss_console_record last[SS_CONSOLE_LINES]; /* a ring */
	uint64_t count; /* of all lines; the next one's place, by SS_CONSOLE_LINES */
};

void cli_console_watch_init(struct cli_console_watch *w);
void cli_console_watch_deinit(struct cli_console_watch *w);

/** What Linux says in a panic, for cli_console_watch_add(). */
extern const char cli_panic_pattern[];
/** What it says when it hit an error of its own. */
extern const char cli_oops_pattern[];

/**
 * Before the first feed.
 *
 * @param regex  POSIX extended regular expression
 * @param reason enum ss_reason
 * @return GS_OK; GS_EINVAL: not one; GS_ETOOBIG: CLI_WATCH_PATTERNS_MAX
 */
GS_MUST_USE enum gs_code cli_console_watch_add(struct cli_console_watch *w, const char *regex,
					       uint32_t reason, struct gs_error *err);

/**
 * From the next line on, look for what has one of these reasons only; at first for all.
 *
 * @param reasons  bits 1 << enum ss_reason
 * Threads: that of the feeds.
 */
void cli_console_watch_look_for(struct cli_console_watch *w, uint32_t reasons);

/** Take output. Threads: one. */
void cli_console_watch_feed(struct cli_console_watch *w, const char *bytes, size_t len);

/** What was found, one at a time. @return false: nothing more. Threads: any. */
bool cli_console_watch_take(struct cli_console_watch *w, struct ss_reason_record *reason_out);

/** The last lines, oldest first. @return how many. Threads: any. */
uint32_t cli_console_watch_tail(struct cli_console_watch *w,
				struct ss_console_record lines_out[SS_CONSOLE_LINES]);

#endif
