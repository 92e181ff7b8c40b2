/* SPDX-License-Identifier: Apache-2.0 */
/* Command lines for the parsers of subcommands. */
#include "tests/unit/cli/words.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

int words_split(const char *command, const char *line, char *argv[static WORDS_MAX + 1])
{
	static char text[512];
	int argc = 0;

	snprintf(text, sizeof(text), "%s %s", command, line);
	for (char *word = strtok(text, " "); word && argc < WORDS_MAX; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
	return argc;
}
