/* SPDX-License-Identifier: Apache-2.0 */
/* The escapes among typed keys. */
#include <string.h>

#include "base/util.h"
#include "cli/console.h"
#include "tests/unit/cli/suites.h"

static const struct {
	const char *typed; /* pieces, divided by | */
	const char *sent;
	bool quit;
} keys[] = {
	{ "abc\x03\x1a", "abc\x03\x1a", false },
	{ "\x01x", "", true },
	{ "\x01|x", "", true },
	{ "a\x01X", "a", true },
	{ "a\x01xlost", "a", true },
	{ "\x01\x01", "\x01", false },
	{ "\x01\x01x", "\x01x", false },
	{ "\x01\x01|\x01x", "\x01", true },
	{ "\x01"
	  "e",
	  "\x01"
	  "e",
	  false },
	{ "\x01", "", false },
};

START_TEST(keys_are_filtered)
{
	char sent[64] = { 0 };
	bool escape = false, quit = false;

	for (const char *at = keys[_i].typed; *at && !quit;) {
		size_t n, len = strcspn(at, "|");

		quit = cli_console_filter(&escape, at, len, sent + strlen(sent), &n);
		at += len + (at[len] == '|');
	}
	ck_assert_str_eq(sent, keys[_i].sent);
	ck_assert_int_eq(quit, keys[_i].quit);
}
END_TEST

Suite *suite_keys(void)
{
	Suite *s = suite_create("cli/console");
	TCase *tc = tcase_create("keys");

	tcase_add_loop_test(tc, keys_are_filtered, 0, ARRAY_SIZE(keys));
	suite_add_tcase(s, tc);
	return s;
}
