/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that take themselves, as asked for on a command line. */
#include <stdio.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "cli/schedule_options.h"
#include "tests/unit/cli/suites.h"
#include "tests/unit/cli/words.h"

#define SEC UINT64_C(1000000000)

static struct cli_run_options o;

/* @return exit code; -1: go on */
static int parse(const char *line)
{
	static char all[512];
	char *argv[WORDS_MAX + 1];
	int code = -1;

	snprintf(all, sizeof(all), "--kernel k %s", line);
	const int argc = words_split("guestshot-run", all, argv);

	return cli_run_options_parse(argc, argv, &o, &code) ? -1 : code;
}

START_TEST(nothing_is_asked_for_by_default)
{
	ck_assert_int_eq(parse(""), -1);
	ck_assert(!cli_schedule_wanted(&o.schedule));
	cli_run_options_deinit(&o);
}
END_TEST

START_TEST(everything_can_be_asked_for)
{
	const struct ctl_schedule_config *s = &o.schedule.schedule;

	ck_assert_int_eq(parse("--every 10s"), -1);
	ck_assert(cli_schedule_wanted(&o.schedule));
	ck_assert_uint_eq(s->every_ns, 10 * SEC);
	ck_assert_uint_eq(s->max_stopped, 10000);
	ck_assert_str_eq(s->dir, "guestshot-captures");
	ck_assert(!s->jitter && !s->keep && !s->max_bytes && !s->full_every && !s->triggers);
	ck_assert_int_eq(parse("--every 500ms --jitter --keep 7 --max-bytes 2G --full-every 12 "
			       "--max-stopped 0.1% --dir d"),
			 -1);
	ck_assert_uint_eq(s->every_ns, SEC / 2);
	ck_assert_uint_eq(s->jitter, 10);
	ck_assert_uint_eq(s->keep, 7);
	ck_assert_uint_eq(s->max_bytes, UINT64_C(2) << 30);
	ck_assert_uint_eq(s->full_every, 12);
	ck_assert_uint_eq(s->max_stopped, 1000);
	ck_assert_str_eq(s->dir, "d");
	ck_assert_int_eq(parse("--every 1s --jitter=50"), -1);
	ck_assert_uint_eq(s->jitter, 50);
	cli_run_options_deinit(&o);
}
END_TEST

START_TEST(triggers_can_be_asked_for)
{
	const struct cli_schedule_options *s = &o.schedule;

	ck_assert_int_eq(parse("--trigger panic,oops,hung-task"), -1);
	ck_assert(cli_schedule_wanted(s) && s->schedule.triggers && !s->schedule.every_ns);
	ck_assert_uint_eq(s->triggers,
			  1u << SS_REASON_PANIC | 1u << SS_REASON_OOPS | 1u << SS_REASON_HUNG_TASK);
	ck_assert_uint_eq(s->schedule.hung_ns, 10 * SEC);
	ck_assert_uint_eq(s->schedule.lockup_ns, 0);
	ck_assert_int_eq(parse("--trigger hung-task=2m --trigger soft-lockup=5s "
			       "--trigger console=a,b --trigger console=c --keep 3"),
			 -1);
	ck_assert_uint_eq(s->schedule.hung_ns, 120 * SEC);
	ck_assert_uint_eq(s->schedule.lockup_ns, 5 * SEC);
	ck_assert_uint_eq(s->patterns, 2);
	ck_assert_str_eq(s->pattern[0], "a,b");
	ck_assert_int_eq(parse("--trigger soft-lockup,timeout --timeout 1m"), -1);
	ck_assert_uint_eq(s->schedule.lockup_ns, 20 * SEC);
	ck_assert(s->triggers & 1u << SS_REASON_TIMEOUT);
	cli_run_options_deinit(&o);
}
END_TEST

static const struct {
	const char *text;
	uint32_t ppm; /* 0: refused */
} percents[] = {
	{ "1", 10000 },
	{ "1%", 10000 },
	{ "0.1%", 1000 },
	{ "0.0001%", 1 },
	{ "100%", 1000000 },
	{ "12.5", 125000 },
	{ "99.9999%", 999999 },
	{ "0", 0 },
	{ "0%", 0 },
	{ "0.00001%", 0 },
	{ "100.0001%", 0 },
	{ "101", 0 },
	{ "99999999999", 0 },
	{ "1%%", 0 },
	{ "%", 0 },
	{ ".5", 0 },
	{ "1.2.3", 0 },
	{ "-1", 0 },
	{ "1e1", 0 },
	{ "half", 0 },
};

START_TEST(budgets_are_percentages)
{
	char line[64];

	snprintf(line, sizeof(line), "--every 1s --max-stopped=%s", percents[_i].text);
	ck_assert_int_eq(parse(line), percents[_i].ppm ? -1 : CLI_EXIT_USAGE);
	if (percents[_i].ppm)
		ck_assert_uint_eq(o.schedule.schedule.max_stopped, percents[_i].ppm);
	cli_run_options_deinit(&o);
}
END_TEST

static const char *const wrong[] = {
	"--every 0",
	"--every 9ms",
	"--every 8000000",
	"--every soon",
	"--keep 3",
	"--dir d",
	"--max-stopped 1%",
	"--every 1s --keep 0",
	"--every 1s --keep 10001",
	"--every 1s --max-bytes 0",
	"--every 1s --max-bytes much",
	"--every 1s --full-every 0",
	"--every 1s --jitter=51",
	"--every 1s --dir=",
	"--trigger panic --jitter",
	"--trigger panic --full-every 3",
	"--trigger=",
	"--trigger panic,",
	"--trigger panic=3s",
	"--trigger schedule",
	"--trigger exit",
	"--trigger hung-task=999ms",
	"--trigger hung-task=25h",
	"--trigger hung-task=",
	"--trigger console=(",
	"--trigger console",
	"--trigger timeout",
	"--trigger "
	"a-word-that-is-longer-than-any-trigger-could-ever-be-and-than-what-there-is-room-for",
	"--trigger=console=1 --trigger=console=2 --trigger=console=3 --trigger=console=4 "
	"--trigger=console=5 --trigger=console=6 --trigger=console=7",
};

START_TEST(what_makes_no_sense_is_refused)
{
	ck_assert_msg(parse(wrong[_i]) == CLI_EXIT_USAGE, "%s", wrong[_i]);
	cli_run_options_deinit(&o);
}
END_TEST

Suite *suite_schedule_options(void)
{
	Suite *s = suite_create("cli/schedule_options");
	TCase *tc = tcase_create("parse");

	tcase_add_test(tc, nothing_is_asked_for_by_default);
	tcase_add_test(tc, everything_can_be_asked_for);
	tcase_add_test(tc, triggers_can_be_asked_for);
	tcase_add_loop_test(tc, budgets_are_percentages, 0, ARRAY_SIZE(percents));
	tcase_add_loop_test(tc, what_makes_no_sense_is_refused, 0, ARRAY_SIZE(wrong));
	suite_add_tcase(s, tc);
	return s;
}
