/* SPDX-License-Identifier: Apache-2.0 */
/* Words on a console, and its last lines. */
#include "cli/console_watch.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/cli/suites.h"

static struct cli_console_watch w;
static struct ss_reason_record found;
static struct ss_console_record lines[SS_CONSOLE_LINES];
static struct gs_error err;

static void setup(void)
{
	cli_console_watch_init(&w);
	ck_assert_int_eq(cli_console_watch_add(&w, cli_panic_pattern, SS_REASON_PANIC, &err),
			 GS_OK);
	ck_assert_int_eq(cli_console_watch_add(&w, cli_oops_pattern, SS_REASON_OOPS, &err), GS_OK);
	ck_assert_int_eq(cli_console_watch_add(&w, "^a,b$", SS_REASON_CONSOLE, &err), GS_OK);
}

static void teardown(void)
{
	cli_console_watch_deinit(&w);
}

static void feed(const char *text)
{
	cli_console_watch_feed(&w, text, strlen(text));
}

START_TEST(words_are_found_in_lines_of_any_pieces)
{
	for (const char *c = "[    1.0] Kernel panic - not syncing: VFS\r\na,b\n"; *c; c++) {
		cli_console_watch_feed(&w, c, 1);
	}
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_uint_eq(found.reason, SS_REASON_PANIC);
	ck_assert_str_eq(found.text, "[    1.0] Kernel panic - not syncing: VFS");
	ck_assert(found.pid == -1 && found.tid == -1 && found.vcpu == -1);
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_uint_eq(found.reason, SS_REASON_CONSOLE);
	ck_assert(!cli_console_watch_take(&w, &found));
}
END_TEST

static const struct {
	const char *line;
	uint32_t reason; /* 0: none */
} said[] = {
	{ "Internal error: Oops: 0000000096000004 [#1] SMP", SS_REASON_OOPS },
	{ "Internal error: Oops - BUG: 00000000f2000800 [#12] PREEMPT SMP", SS_REASON_OOPS },
	{ "Internal error: synchronous external abort: 96000410 [#1] SMP", SS_REASON_OOPS },
	{ "---[ end Kernel panic - not syncing: Fatal exception ]---", SS_REASON_PANIC },
	{ "the disk says: Internal error: 5", 0 },
	{ "a,bc", 0 },
	{ "", 0 },
};

START_TEST(what_the_kernel_says_is_known)
{
	feed(said[_i].line);
	ck_assert(!cli_console_watch_take(&w, &found)); /* no line yet */
	feed("\n");
	ck_assert_int_eq(cli_console_watch_take(&w, &found), said[_i].reason != 0);
	if (said[_i].reason)
		ck_assert_uint_eq(found.reason, said[_i].reason);
}
END_TEST

START_TEST(first_line_counts_until_it_is_taken)
{
	feed("Kernel panic - not syncing: 1\nKernel panic - not syncing: 2\n");
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_str_eq(found.text, "Kernel panic - not syncing: 1");
	ck_assert(!cli_console_watch_take(&w, &found));
	feed("Kernel panic - not syncing: 3\n");
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_str_eq(found.text, "Kernel panic - not syncing: 3");
}
END_TEST

START_TEST(last_lines_are_kept)
{
	char line[32];

	ck_assert_uint_eq(cli_console_watch_tail(&w, lines), 0);
	feed("one\ntwo\nhalf");
	ck_assert_uint_eq(cli_console_watch_tail(&w, lines), 2);
	ck_assert_str_eq(lines[0].text, "one");
	ck_assert_str_eq(lines[1].text, "two");
	feed("\n");
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "%d\n", i);
		feed(line);
	}
	ck_assert_uint_eq(cli_console_watch_tail(&w, lines), SS_CONSOLE_LINES);
	ck_assert_str_eq(lines[0].text, "960");
	ck_assert_str_eq(lines[SS_CONSOLE_LINES - 1].text, "999");
}
END_TEST

START_TEST(nobody_has_to_look_for_everything)
{
	cli_console_watch_look_for(&w, 1u << SS_REASON_CONSOLE);
	feed("Kernel panic - not syncing: VFS\na,b\n");
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_uint_eq(found.reason, SS_REASON_CONSOLE);
	ck_assert(!cli_console_watch_take(&w, &found));
	cli_console_watch_look_for(&w, 1u << SS_REASON_PANIC);
	feed("Kernel panic - not syncing: VFS\na,b\n");
	ck_assert(cli_console_watch_take(&w, &found));
	ck_assert_uint_eq(found.reason, SS_REASON_PANIC);
	ck_assert(!cli_console_watch_take(&w, &found));
}
END_TEST

START_TEST(long_lines_and_odd_bytes_are_cut_and_kept)
{
	static char flood[10 * CLI_LINE_MAX];

	memset(flood, 'x', sizeof(flood));
	cli_console_watch_feed(&w, flood, sizeof(flood));
	ck_assert_uint_eq(cli_console_watch_tail(&w, lines), 10);
	ck_assert_uint_eq(strlen(lines[9].text), sizeof(lines[9].text) - 1);
	cli_console_watch_feed(&w, "\0\xff\x1b[0m\n", 8);
	ck_assert_uint_eq(cli_console_watch_tail(&w, lines), 11);
	ck_assert_str_eq(lines[10].text, "\xff\x1b[0m");
}
END_TEST

START_TEST(expressions_are_checked_and_limited)
{
	ck_assert_int_eq(cli_console_watch_add(&w, "(", SS_REASON_CONSOLE, &err), GS_EINVAL);
	for (uint32_t i = w.patterns; i < CLI_WATCH_PATTERNS_MAX; i++)
		ck_assert_int_eq(cli_console_watch_add(&w, "x", SS_REASON_CONSOLE, &err), GS_OK);
	ck_assert_int_eq(cli_console_watch_add(&w, "x", SS_REASON_CONSOLE, &err), GS_ETOOBIG);
}
END_TEST

Suite *suite_console_watch(void)
{
	Suite *s = suite_create("cli/console_watch");
	TCase *tc = tcase_create("watch");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nobody_has_to_look_for_everything);
	tcase_add_test(tc, words_are_found_in_lines_of_any_pieces);
	tcase_add_loop_test(tc, what_the_kernel_says_is_known, 0, ARRAY_SIZE(said));
	tcase_add_test(tc, first_line_counts_until_it_is_taken);
	tcase_add_test(tc, last_lines_are_kept);
	tcase_add_test(tc, long_lines_and_odd_bytes_are_cut_and_kept);
	tcase_add_test(tc, expressions_are_checked_and_limited);
	suite_add_tcase(s, tc);
	return s;
}
