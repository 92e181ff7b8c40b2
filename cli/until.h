/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for a regular expression in the lines of a console. */
#ifndef CLI_UNTIL_H
#define CLI_UNTIL_H

/*
 * Console bytes come in pieces of any length on the console's thread; whole lines are matched right
 * there. The last line may have no end yet (a prompt): somebody else looks at it now and then with
 * cli_until_check_partial().
 */

#include <pthread.h>
#include <regex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/console_lines.h"

struct cli_until {
	regex_t re;
	atomic_bool matched;
	pthread_mutex_t lock; /* guards the rest */
	struct cli_lines lines;
};

/**
 * @param regex POSIX extended regular expression
 * @return GS_OK; GS_EINVAL: not one
 */
GS_MUST_USE enum gs_code cli_until_init(struct cli_until *u, const char *regex,
					struct gs_error *err);

void cli_until_deinit(struct cli_until *u);

/** Take output. @return whether something has matched, now or before. Threads: one. */
bool cli_until_feed(struct cli_until *u, const char *bytes, size_t len);

/** Match the line that has no end yet. @return whether something has matched. Threads: any. */
bool cli_until_check_partial(struct cli_until *u);

/** Whether something has matched. Threads: any. */
bool cli_until_matched(const struct cli_until *u);

#endif
