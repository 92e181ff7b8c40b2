/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines for the parsers of subcommands. */
#ifndef TESTS_UNIT_CLI_WORDS_H
#define TESTS_UNIT_CLI_WORDS_H

#define WORDS_MAX 16

/**
 * Make an argv of words divided by spaces, in a static buffer, and silence argp: its messages are not
 * what is tested.
 *
 * @return argc
 */
int words_split(const char *command, const char *line, char *argv[static WORDS_MAX + 1]);

#endif
