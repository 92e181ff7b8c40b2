/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that end a run: in pieces, prompts without an end, lines without a limit, statuses. */
#include <string.h>

#include "base/util.h"
#include "cli/until.h"
#include "tests/unit/cli/suites.h"

static struct cli_until u;

static void add(enum cli_until_kind kind, const char *regex)
{
	struct gs_error err;

	ck_assert_int_eq(cli_until_add(&u, kind, regex, &err), GS_OK);
}

static void start(const char *regex)
{
	cli_until_init(&u);
	add(CLI_UNTIL_GOOD, regex);
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
	ck_assert(cli_until_check_partial(&u, false));
	ck_assert(cli_until_matched(&u));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(no_line_is_no_match)
{
	start("^$");
	ck_assert(!cli_until_check_partial(&u, false));
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
	ck_assert(cli_until_check_partial(&u, false));
	cli_until_deinit(&u);
}
END_TEST

START_TEST(what_is_no_expression_is_refused)
{
	struct gs_error err;

	cli_until_init(&u);
	ck_assert_int_eq(cli_until_add(&u, CLI_UNTIL_GOOD, "(", &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "'('"));
	ck_assert_int_eq(cli_until_add(&u, CLI_UNTIL_STATUS, "[0-9]+", &err), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(err.text, "(subexpression)"));
	for (int i = 0; i < CLI_UNTIL_PATTERNS_MAX; i++)
		add(CLI_UNTIL_FAIL, "x");
	ck_assert_int_eq(cli_until_add(&u, CLI_UNTIL_FAIL, "x", &err), GS_ETOOBIG);
	cli_until_deinit(&u);
}
END_TEST

static const struct cli_until_match *got(void)
{
	static struct cli_until_match m;

	cli_until_get(&u, &m);
	ck_assert_int_eq(cli_until_matched(&u), m.kind != CLI_UNTIL_NOTHING);
	return &m;
}

static void start_all(void)
{
	start("^done");
	add(CLI_UNTIL_FAIL, "BUG");
	add(CLI_UNTIL_FAIL, "^not ok");
	add(CLI_UNTIL_STATUS, "^exit ([^ ]*)( .*)?$");
}

START_TEST(nothing_ever_matches_without_an_expression)
{
	cli_until_init(&u);
	ck_assert(!cli_until_has(&u, CLI_UNTIL_GOOD));
	ck_assert(!feed("done\n\nhalf"));
	ck_assert(!cli_until_check_partial(&u, true));
	ck_assert_int_eq(got()->kind, CLI_UNTIL_NOTHING);
	cli_until_deinit(&u);
}
END_TEST

static const struct {
	const char *said;
	enum cli_until_kind kind;
	const char *line;
} first[] = {
	{ "done\nBUG\n", CLI_UNTIL_GOOD, "done" },
	{ "BUG\ndone\n", CLI_UNTIL_FAIL, "BUG" },
	{ "exit 0\nBUG\n", CLI_UNTIL_STATUS, "exit 0" },
	{ "not ok 1\nexit 0\n", CLI_UNTIL_FAIL, "not ok 1" },
	// of one line
	{ "done BUG\n", CLI_UNTIL_FAIL, "done BUG" },
	{ "exit 0 BUG\n", CLI_UNTIL_FAIL, "exit 0 BUG" },
	{ "ok\nnothing\n", CLI_UNTIL_NOTHING, "" },
};

START_TEST(first_line_counts_and_in_it_what_fails)
{
	start_all();
	feed(first[_i].said);
	ck_assert_int_eq(got()->kind, first[_i].kind);
	ck_assert_str_eq(got()->line, first[_i].line);
	cli_until_deinit(&u);
}
END_TEST

static const struct {
	const char *line;
	bool has;
	uint32_t status;
} statuses[] = {
	{ "exit 0", true, 0 },
	{ "exit 1", true, 1 },
	{ "exit 0137", true, 137 },
	{ "exit 3 after 5 s", true, 3 },
	{ "exit 2147483647", true, 2147483647 },
	{ "exit 2147483648", false, 0 },
	{ "exit 18446744073709551616", false, 0 },
	{ "exit 000000000000000000000000000000", false, 0 },
	{ "exit ", false, 0 },
	{ "exit -1", false, 0 },
	{ "exit +1", false, 0 },
	{ "exit 0x1", false, 0 },
	{ "exit 1.", false, 0 },
	{ "exit \xd9\xa1", false, 0 },
};

START_TEST(status_is_a_decimal_number_or_none)
{
	start_all();
	feed(statuses[_i].line);
	ck_assert(feed("\r\n"));
	const struct cli_until_match *m = got();
	ck_assert_int_eq(m->kind, CLI_UNTIL_STATUS);
	ck_assert_int_eq(m->has_status, statuses[_i].has);
	ck_assert_uint_eq(m->status, statuses[_i].status);
	cli_until_deinit(&u);
}
END_TEST

START_TEST(status_that_takes_no_part_in_the_match_is_none)
{
	cli_until_init(&u);
	add(CLI_UNTIL_STATUS, "end|exit ([0-9]+)");
	ck_assert(feed("end\n"));
	ck_assert(got()->kind == CLI_UNTIL_STATUS && !got()->has_status);
	cli_until_deinit(&u);
}
END_TEST

START_TEST(half_a_line_has_no_status_until_nothing_follows)
{
	start_all();
	feed("exit 1");
	ck_assert(!cli_until_check_partial(&u, false));
	feed("0");
	ck_assert(cli_until_check_partial(&u, true));
	ck_assert_uint_eq(got()->status, 10);
	cli_until_deinit(&u);
}
END_TEST

START_TEST(half_a_line_fails_only_where_it_would_be_good)
{
	start("login");
	add(CLI_UNTIL_FAIL, "BUG");
	feed("BUG");
	ck_assert(!cli_until_check_partial(&u, false));
	feed(" login");
	ck_assert(cli_until_check_partial(&u, false));
	ck_assert_int_eq(got()->kind, CLI_UNTIL_FAIL);
	cli_until_deinit(&u);
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
	tcase_add_test(tc, nothing_ever_matches_without_an_expression);
	tcase_add_loop_test(tc, first_line_counts_and_in_it_what_fails, 0, ARRAY_SIZE(first));
	tcase_add_loop_test(tc, status_is_a_decimal_number_or_none, 0, ARRAY_SIZE(statuses));
	tcase_add_test(tc, status_that_takes_no_part_in_the_match_is_none);
	tcase_add_test(tc, half_a_line_has_no_status_until_nothing_follows);
	tcase_add_test(tc, half_a_line_fails_only_where_it_would_be_good);
	suite_add_tcase(s, tc);
	return s;
}
