/* SPDX-License-Identifier: Apache-2.0 */
/* A console's bytes as lines. */
#ifndef CLI_CONSOLE_LINES_H
#define CLI_CONSOLE_LINES_H

/*
 * Bytes come in pieces of any length. The guest decides what the lines are, so one is cut into
 * pieces of CLI_LINE_MAX bytes, each of which is a line. Threads: one at a time.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define CLI_LINE_MAX 1024

struct cli_lines {
	char line[CLI_LINE_MAX]; /* that has no end yet */
	size_t len;
};

/**
 * Take output.
 *
 * @param visit  gets each line, without its end, not terminated; returns whether to go on: what
 *               follows is not looked at otherwise
 */
void cli_lines_feed(struct cli_lines *l, const char *bytes, size_t len,
		    bool (*visit)(void *arg, const char *line, size_t len), void *arg);

/** A line as a string: what ends a C string or a terminal's line is left out. */
void cli_line_text(const char *line, size_t len, char text_out[static CLI_LINE_MAX + 1]);

/**
 * Compile the extended regular expression that lines are to match.
 *
 * @param re_out      freed by regfree()
 * @param with_places where subexpressions match is asked for
 * @return GS_OK; GS_EINVAL: it is none
 */
GS_MUST_USE enum gs_code cli_line_regex(regex_t *re_out, const char *regex, bool with_places,
					struct gs_error *err);

#endif
