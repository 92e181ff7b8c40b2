/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for regular expressions in the lines of a console that end a run, well or badly. */
#ifndef CLI_UNTIL_H
#define CLI_UNTIL_H

/*
 * Console bytes come in pieces of any length on the console's thread; whole lines are matched right
 * there. The last line may have no end yet (a prompt): somebody else looks at it now and then with
 * cli_until_check_partial().
 *
 * The first line that matches counts. Of one line what fails counts before a status, and this before
 * what is waited for. A line that has no end yet is only looked at for the last, and not at all where
 * a status is looked for: "exit 1" may become "exit 10".
 */

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/console_lines.h"

#define CLI_UNTIL_PATTERNS_MAX 10
/* Most that a test may end with: what an exit status of any system is. */
#define CLI_UNTIL_STATUS_MAX INT32_MAX

/** What a line that matches means, in the order in which they count. */
enum cli_until_kind {
	CLI_UNTIL_NOTHING = 0,
	CLI_UNTIL_FAIL,	  /* --fail-on: it failed */
	CLI_UNTIL_STATUS, /* --status-line: its test has ended, and the line says how */
	CLI_UNTIL_GOOD,	  /* --until: it is good */
};

/** What has matched. */
struct cli_until_match {
	enum cli_until_kind kind;
	bool has_status;	     /* else the line of a status has none that could be one */
	uint32_t status;	     /* 0 … CLI_UNTIL_STATUS_MAX */
	char line[CLI_LINE_MAX + 1]; /* guest text */
};

struct cli_until {
	struct {
		regex_t re;
		enum cli_until_kind kind;
	} pattern[CLI_UNTIL_PATTERNS_MAX];
	uint32_t patterns;
	atomic_bool matched;
	pthread_mutex_t lock; /* guards the rest */
	struct cli_lines lines;
	struct cli_until_match match;
};

/** Without an expression nothing ever matches. */
void cli_until_init(struct cli_until *u);

/**
 * Before the first feed.
 *
 * @param regex POSIX extended regular expression; of CLI_UNTIL_STATUS with a subexpression, the first of
 *              which is the status
 * @return GS_OK; GS_EINVAL: not one; GS_ETOOBIG: CLI_UNTIL_PATTERNS_MAX
 */
GS_MUST_USE enum gs_code cli_until_add(struct cli_until *u, enum cli_until_kind kind,
				       const char *regex, struct gs_error *err);

/** Whether there is an expression of this kind. */
bool cli_until_has(const struct cli_until *u, enum cli_until_kind kind);

void cli_until_deinit(struct cli_until *u);

/** Take output. @return whether something has matched, now or before. Threads: one. */
bool cli_until_feed(struct cli_until *u, const char *bytes, size_t len);

/**
 * Match the line that has no end yet.
 *
 * @param is_last  nothing will follow: it is a line as others are
 * @return whether something has matched. Threads: any.
 */
bool cli_until_check_partial(struct cli_until *u, bool is_last);

/** Whether something has matched. Threads: any. */
bool cli_until_matched(const struct cli_until *u);

/** What has matched; kind CLI_UNTIL_NOTHING: nothing. Threads: any. */
void cli_until_get(struct cli_until *u, struct cli_until_match *match_out);

#endif
