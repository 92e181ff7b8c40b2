/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's end means: the table of docs/exit-codes.md and docs/ci.md. */
#include "cli/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "tests/unit/cli/suites.h"
#include "tests/unit/cli/words.h"

static struct cli_run_options o;
static struct cli_end e;
static struct cli_outcome out;

static void ask(const char *line)
{
	static char all[256];
	char *argv[WORDS_MAX + 1];
	int code;

	snprintf(all, sizeof(all), "--kernel k %s", line);
	const int argc = words_split("guestshot-run", all, argv);

	ck_assert(cli_run_options_parse(argc, argv, &o, &code));
}

static void find(void)
{
	cli_outcome_find(&o, &e, &out);
	cli_run_options_deinit(&o);
}

#define UNTIL  "--until a"
#define STATUS "--status-line (a)"
#define FAIL   "--fail-on a"

static const struct {
	const char *asked;
	enum cli_run_reason reason;
	enum vmm_end end;
	bool panicked;
	const char *result, *type;
	int code;
	const char *text;
} ends[] = {
	{ "", CLI_RUN_EXIT, VMM_END_POWEROFF, false, "passed", "passed", 0,
	  "the guest ended: poweroff" },
	{ FAIL, CLI_RUN_EXIT, VMM_END_POWEROFF, false, "passed", "passed", 0,
	  "the guest ended: poweroff" },
	{ UNTIL, CLI_RUN_EXIT, VMM_END_POWEROFF, false, "failed", "no-match", 7,
	  "the guest powered off before --until had matched" },
	{ STATUS, CLI_RUN_EXIT, VMM_END_POWEROFF, false, "failed", "no-match", 7,
	  "the guest powered off before --status-line had matched" },
	{ STATUS " " UNTIL, CLI_RUN_EXIT, VMM_END_POWEROFF, false, "failed", "no-match", 7,
	  "the guest powered off before --until or --status-line had matched" },
	{ UNTIL, CLI_RUN_EXIT, VMM_END_REBOOT, false, "failed", "reboot", 3,
	  "the guest ended: reboot" },
	{ "", CLI_RUN_EXIT, VMM_END_CRASH, false, "failed", "crash", 4, "the guest ended: crash" },
	{ "", CLI_RUN_EXIT, VMM_END_ERROR, false, "error", "vm-error", 5,
	  "KVM cannot run the guest any further" },
	{ "", CLI_RUN_EXIT, VMM_END_KILLED, false, "error", "requested", 6,
	  "the guest was ended on request" },
	{ "--timeout 90s", CLI_RUN_TIMEOUT, VMM_RUNNING, false, "failed", "timeout", 124,
	  "timeout after 90.00 s" },
	{ "", CLI_RUN_SIGNAL, VMM_RUNNING, true, "error", "signal", 143, "ended by signal 15" },
	{ UNTIL, CLI_RUN_UNTIL, VMM_RUNNING, true, "passed", "passed", 0, "--until has matched" },
	{ UNTIL, CLI_RUN_EXIT, VMM_END_REBOOT, true, "failed", "panic", 4,
	  "the guest's kernel panicked; then the guest ended: reboot" },
	{ "", CLI_RUN_EXIT, VMM_END_POWEROFF, true, "failed", "panic", 4,
	  "the guest's kernel panicked; then the guest ended: poweroff" },
	{ "--timeout 2s", CLI_RUN_TIMEOUT, VMM_RUNNING, true, "failed", "panic", 4,
	  "the guest's kernel panicked; then timeout after 2.00 s" },
};

START_TEST(each_end_has_its_code_and_word)
{
	ask(ends[_i].asked);
	e = (struct cli_end){ .reason = ends[_i].reason,
			      .end = ends[_i].end,
			      .panicked = ends[_i].panicked,
			      .signo = 15 };
	find();
	ck_assert_str_eq(out.result, ends[_i].result);
	ck_assert_str_eq(out.type, ends[_i].type);
	ck_assert_int_eq(out.code, ends[_i].code);
	ck_assert_str_eq(out.text, ends[_i].text);
}
END_TEST

static const struct {
	struct cli_until_match match;
	enum cli_run_reason reason;
	const char *type;
	int code;
	const char *text;
} lines[] = {
	{ { CLI_UNTIL_STATUS, true, 0, "a 0" },
	  CLI_RUN_STATUS_LINE,
	  "passed",
	  0,
	  "the guest's test ended with status 0" },
	{ { CLI_UNTIL_STATUS, true, 77, "a 77" },
	  CLI_RUN_STATUS_LINE,
	  "status",
	  9,
	  "the guest's test ended with status 77" },
	{ { CLI_UNTIL_STATUS, false, 0, "a -1\x1b[m" },
	  CLI_RUN_STATUS_LINE,
	  "status",
	  9,
	  "--status-line has matched, but what it has is no status, a decimal number from 0 to "
	  "2147483647: a -1\\x1b[m" },
	{ { CLI_UNTIL_FAIL, false, 0, "BUG: a\xff" },
	  CLI_RUN_FAIL_ON,
	  "fail-on",
	  8,
	  "--fail-on has matched: BUG: a\\xff" },
};

START_TEST(line_of_the_guest_decides)
{
	ask(STATUS " " FAIL " " UNTIL);
	e = (struct cli_end){ .reason = lines[_i].reason, .match = lines[_i].match };
	find();
	ck_assert_str_eq(out.type, lines[_i].type);
	ck_assert_str_eq(out.result, lines[_i].code ? "failed" : "passed");
	ck_assert_int_eq(out.code, lines[_i].code);
	ck_assert_str_eq(out.text, lines[_i].text);
}
END_TEST

START_TEST(long_line_is_cut_and_stays_harmless)
{
	ask(FAIL);
	e = (struct cli_end){ .reason = CLI_RUN_FAIL_ON, .match = { .kind = CLI_UNTIL_FAIL } };
	memset(e.match.line, 0x1b, sizeof(e.match.line) - 1);
	find();
	ck_assert_uint_eq(strlen(out.text), strlen("--fail-on has matched: ") + 4 * 80);
	ck_assert_ptr_null(strchr(out.text, 0x1b));
}
END_TEST

START_TEST(guest_that_was_not_started_is_an_error)
{
	struct gs_error why = { .code = GS_EMALFORMED, .text = "k: not an ARM64 Image" };

	ask(UNTIL);
	e = (struct cli_end){ .not_started = &why };
	find();
	ck_assert_str_eq(out.result, "error");
	ck_assert_str_eq(out.type, "not-started");
	ck_assert_int_eq(out.code, CLI_EXIT_BAD_DATA);
	ck_assert_str_eq(out.text, why.text);
}
END_TEST

Suite *suite_outcome(void)
{
	Suite *s = suite_create("cli/outcome");
	TCase *tc = tcase_create("outcome");

	tcase_add_loop_test(tc, each_end_has_its_code_and_word, 0, ARRAY_SIZE(ends));
	tcase_add_loop_test(tc, line_of_the_guest_decides, 0, ARRAY_SIZE(lines));
	tcase_add_test(tc, long_line_is_cut_and_stays_harmless);
	tcase_add_test(tc, guest_that_was_not_started_is_an_error);
	suite_add_tcase(s, tc);
	return s;
}
