/* SPDX-License-Identifier: Apache-2.0 */
/* A console's bytes as lines. */
#ifndef CLI_CONSOLE_LINES_H
#define CLI_CONSOLE_LINES_H

/*
 * Bytes come in pieces of any length. The guest decides what the lines are, so one is cut into
 * pieces of CLI_LINE_MAX bytes, each of which is a line. Threads: one at a time.
 */

#include <stdbool.h>
#include <stddef.h>

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

#endif
