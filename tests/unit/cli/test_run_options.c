/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of run. */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "tests/unit/cli/suites.h"
#include "tests/unit/cli/words.h"

static struct cli_run_options o;

/* @return exit code; -1: go on */
static int parse(const char *line)
{
	char *argv[WORDS_MAX + 1];
	int argc = words_split("guestshot-run", line, argv), code = -1;

	return cli_run_options_parse(argc, argv, &o, &code) ? -1 : code;
}

START_TEST(defaults_are_small)
{
	ck_assert_int_eq(parse("--kernel k"), -1);
	ck_assert_str_eq(o.kernel, "k");
	ck_assert_uint_eq(o.memory, UINT64_C(512) << 20);
	ck_assert_uint_eq(o.cpus, 1);
	ck_assert_uint_eq(o.clusters, 1);
	ck_assert_int_eq(o.console, CLI_CONSOLE_STDIO);
	ck_assert(!o.until.patterns && !o.timeout_ns && !o.snapshot_on && !o.control && !o.initrd);
	ck_assert(!o.artifacts && !o.junit && !cli_run_wants_summary(&o));
	cli_run_options_deinit(&o);
}
END_TEST

START_TEST(everything_can_be_said)
{
	ck_assert_int_eq(
		parse("--kernel=k --initrd i --append a --memory 1G --cpus 64 --clusters 8 "
		      "--control s"),
		-1);
	ck_assert_uint_eq(o.memory, UINT64_C(1) << 30);
	ck_assert_uint_eq(o.cpus, 64);
	ck_assert_uint_eq(o.clusters, 8);
	ck_assert_uint_eq(o.kinds.count, 0);
	ck_assert_int_eq(parse("--cluster-kind little,big --kernel k --cpus 4 --clusters 2"), -1);
	ck_assert_uint_eq(o.kinds.count, 2);
	ck_assert_int_eq(o.kinds.kind[0], SS_CLUSTER_LITTLE);
	ck_assert_int_eq(parse("--kernel k --console file:a:b --console-buffer 64K -vv"), -1);
	ck_assert_int_eq(o.console, CLI_CONSOLE_FILE);
	ck_assert_str_eq(o.console_path, "a:b");
	ck_assert_uint_eq(o.console_buffer, 65536);
	ck_assert_uint_eq(o.verbosity, 2);
	ck_assert_int_eq(parse("--kernel k --until a|b --timeout 2m --snapshot f "
			       "--snapshot-on timeout,exit,until,signal"),
			 -1);
	ck_assert(cli_until_has(&o.until, CLI_UNTIL_GOOD));
	ck_assert_uint_eq(o.timeout_ns, UINT64_C(120000000000));
	ck_assert_uint_eq(o.snapshot_on, 15);
	cli_run_options_deinit(&o);
}
END_TEST

START_TEST(tests_can_be_run)
{
	const struct ctl_schedule_config *s = &o.schedule.schedule;

	ck_assert_int_eq(parse("--kernel boot/k --fail-on a --fail-on b --status-line x([0-9]+) "
			       "--snapshot-on fail-on,status-line"),
			 -1);
	ck_assert_uint_eq(o.until.patterns, 3);
	ck_assert_uint_eq(o.snapshot_on, 1u << CLI_RUN_FAIL_ON | 1u << CLI_RUN_STATUS_LINE);
	ck_assert(cli_run_wants_summary(&o) && !cli_schedule_wanted(&o.schedule));
	ck_assert_str_eq(cli_run_name(&o), "k");
	cli_run_options_deinit(&o);

	ck_assert_int_eq(parse("--kernel k --junit j --name n"), -1);
	ck_assert_str_eq(o.junit, "j");
	ck_assert_str_eq(cli_run_name(&o), "n");
	ck_assert(cli_run_wants_summary(&o) && !cli_schedule_wanted(&o.schedule));
	cli_run_options_deinit(&o);

	// a folder wants captures of what goes wrong, and has a place for them
	ck_assert_int_eq(parse("--kernel k --artifacts a --keep 3"), -1);
	ck_assert(cli_run_wants_summary(&o) && cli_schedule_wanted(&o.schedule) && s->triggers);
	ck_assert_uint_eq(o.schedule.triggers, 1u << SS_REASON_PANIC | 1u << SS_REASON_OOPS);
	ck_assert_str_eq(s->dir, "a/captures");
	cli_run_options_deinit(&o);
	ck_assert_int_eq(parse("--kernel k --dir guestshot-captures --artifacts a"), -1);
	ck_assert_str_eq(s->dir, "guestshot-captures");
	cli_run_options_deinit(&o);
}
END_TEST

static const char *const wrong[] = {
	"",
	"--initrd i",
	"--kernel",
	"--kernel k extra",
	"--kernel k --nonsense",
	"--kernel k --memory 63M",
	"--kernel k --memory lots",
	"--kernel k --cpus 0",
	"--kernel k --cpus 65",
	"--kernel k --cpus 2 --clusters 3",
	"--kernel k --cluster-kind big,little",
	"--kernel k --cpus 2 --clusters 2 --cluster-kind big,medium",
	"--kernel k --cpus 2 --clusters 2 --cluster-kind big,",
	"--kernel k --console file:",
	"--kernel k --console tty",
	"--kernel k --console-buffer 0",
	"--kernel k --until (",
	"--kernel k --until a --until b",
	"--kernel k --timeout 0",
	"--kernel k --timeout soon",
	"--kernel k --snapshot f",
	"--kernel k --snapshot-on exit,",
	"--kernel k --snapshot-on never",
	"--kernel k --snapshot-on timeout",
	"--kernel k --snapshot-on until --timeout 5s",
	"--kernel k --snapshot-on until --fail-on a",
	"--kernel k --snapshot-on fail-on --until a",
	"--kernel k --snapshot-on status-line --until a",
	"--kernel k --fail-on (",
	"--kernel k --fail-on",
	"--kernel k --status-line [0-9]+",
	"--kernel k --status-line ([0-9]+",
	"--kernel k --status-line (a) --status-line (b)",
	"--kernel k --artifacts=",
	"--kernel k --junit=",
	"--kernel k --junit j --name=",
	"--kernel k --name n",
};

START_TEST(nonsense_is_bad_usage)
{
	ck_assert_int_eq(parse(wrong[_i]), CLI_EXIT_USAGE);
	cli_run_options_deinit(&o);
}
END_TEST

START_TEST(help_is_success)
{
	ck_assert_int_eq(parse("--help"), CLI_EXIT_OK);
	ck_assert_int_eq(parse("--kernel k -h"), CLI_EXIT_OK);
	ck_assert_int_eq(parse("--usage"), CLI_EXIT_OK);
}
END_TEST

Suite *suite_run_options(void)
{
	Suite *s = suite_create("cli/run_options");
	TCase *tc = tcase_create("options");

	tcase_add_test(tc, defaults_are_small);
	tcase_add_test(tc, everything_can_be_said);
	tcase_add_test(tc, tests_can_be_run);
	tcase_add_loop_test(tc, nonsense_is_bad_usage, 0, ARRAY_SIZE(wrong));
	tcase_add_test(tc, help_is_success);
	suite_add_tcase(s, tc);
	return s;
}
