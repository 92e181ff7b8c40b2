/* SPDX-License-Identifier: Apache-2.0 */
/* --until: lines in pieces, prompts without an end, lines without a limit. */
#include <string.h>

#include "cli/until.h"
#include "tests/unit/cli/suites.h"

static struct cli_until u;

static void start(const char *regex)
{
	struct gs_error err;

	ck_assert_int_eq(cli_until_init(&u, regex, &err), GS_OK);
}

static bool feed(const char *text)
{
	return cli_until_feed(&u, text, strlen(text));
}

START_TEST(line_is_matched_when_it_ends)
{
	start("^guest: done$");
	ck_assert(!feed("guest: d"));
	ck_assert(!feed("one"));
	ck_assert(!cli_until_matched(&u));
	ck_assert(feed("\r\n"));
	ck_assert(cli_until_matched(&u));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(pieces_of_two_lines_do_not_make_one)
{
	start("^ab$");
	ck_assert(!feed("a\nb\n"));
	ck_assert(!feed("xab\nabx\n\n"));
	ck_assert(feed("\nab\nc"));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(prompt_without_end_is_matched_on_asking)
{
	start("login: $");
	ck_assert(!feed("\nhost login: "));
	ck_assert(cli_until_check_partial(&u));
	ck_assert(cli_until_matched(&u));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(no_line_is_no_match)
{
	start("^$");
	ck_assert(!cli_until_check_partial(&u));
	ck_assert(feed("\n"));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(endless_line_is_matched_in_pieces)
{
	static char big[CLI_LINE_MAX * 3 + 1];

	memset(big, 'a', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	start("end");
	ck_assert(!feed(big));
	ck_assert(feed("end\n"));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(nul_bytes_do_not_hide_a_line)
{
	start("bad end");
	ck_assert(cli_until_feed(&u, "\0bad\0 end\n", 10));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(match_is_kept)
{
	start("x");
	ck_assert(feed("x\n"));
	ck_assert(feed("y\n"));
	ck_assert(cli_until_check_partial(&u));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(what_is_no_expression_is_refused)
{
	struct gs_error err;

	ck_assert_int_eq(cli_until_init(&u, "(", &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "'('"));
}
END_TEST

Suite *suite_until(void)
{
	Suite *s = suite_create("cli/until");
	TCase *tc = tcase_create("until");

	tcase_add_test(tc, line_is_matched_when_it_ends);
	tcase_add_test(tc, pieces_of_two_lines_do_not_make_one);
	tcase_add_test(tc, prompt_without_end_is_matched_on_asking);
	tcase_add_test(tc, no_line_is_no_match);
	tcase_add_test(tc, endless_line_is_matched_in_pieces);
	tcase_add_test(tc, nul_bytes_do_not_hide_a_line);
	tcase_add_test(tc, match_is_kept);
	tcase_add_test(tc, what_is_no_expression_is_refused);
	suite_add_tcase(s, tc);
	return s;
}
