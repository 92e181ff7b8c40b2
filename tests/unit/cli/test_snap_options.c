/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of snap. */
#include "base/clock.h"
#include "base/util.h"
#include "cli/snap.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/cli/suites.h"
#include "tests/unit/cli/words.h"

static struct cli_snap_options o;

/* @return exit code; -1: go on */
static int parse(const char *line)
{
	char *argv[WORDS_MAX + 1];
	int argc = words_split("guestshot-snap", line, argv), code = -1;

	return cli_snap_options_parse(argc, argv, &o, &code) ? -1 : code;
}

START_TEST(defaults_ask_for_all)
{
	ck_assert_int_eq(parse("--control s -o f"), -1);
	ck_assert_str_eq(o.output, "f");
	ck_assert_str_eq(o.remote.control, "s");
	ck_assert_int_eq(o.ask.pid, SS_PID_ALL);
	ck_assert_uint_eq(o.ask.flags, 0);
	ck_assert_uint_eq(o.ask.threads_max, 0);
	ck_assert_uint_eq(o.ask.pagetable_mask, 0);
	ck_assert_uint_eq(o.deadline_ns, 0);
	ck_assert_ptr_null(o.since);
}
END_TEST

START_TEST(everything_can_be_said)
{
	ck_assert_int_eq(parse("--control s -o f --since old --latency --threads-max 4294967295 "
			       "--deadline 1h"),
			 -1);
	ck_assert_str_eq(o.since, "old");
	ck_assert_uint_eq(o.ask.flags, KCD_SS_COLLECT_DELTA_SNAPSHOT | SS_LATENCY_INFO);
	ck_assert_uint_eq(o.ask.threads_max, UINT32_MAX);
	ck_assert_uint_eq(o.deadline_ns, 3600 * GS_NS_PER_SEC);

	ck_assert_int_eq(parse("--core c -o - --pid 2147483647 --page-tables"), -1);
	ck_assert_uint_eq(o.ask.flags, KCD_SS_REQ_PAGE_TABLES);
	ck_assert_uint_eq(o.ask.pagetable_mask, 0);
	ck_assert_int_eq(o.ask.pid, INT32_MAX);
	ck_assert_int_eq(parse("--core c -o f --pid 1 --page-tables=3"), -1);
	ck_assert_uint_eq(o.ask.pagetable_mask, 8);
	ck_assert_int_eq(parse("--qmp q -o f --pid 1 --page-tables=0,1,2,1"), -1);
	ck_assert_uint_eq(o.ask.pagetable_mask, 7);

	ck_assert_int_eq(parse("--core c -o f --waits"), -1);
	ck_assert_uint_eq(o.ask.flags, KCD_SS_REQ_THREAD_WAITINFO);
	ck_assert_int_eq(parse("--core c -o f --user"), -1);
	ck_assert_uint_eq(o.ask.flags, SS_USER_STACKS);
	ck_assert_int_eq(parse("--core c -o f --flags USER_STACKS"), -1);
	ck_assert_uint_eq(o.ask.flags, SS_USER_STACKS);

	ck_assert_int_eq(parse("--core c -o f --log --context"), -1);
	ck_assert_uint_eq(o.ask.flags, SS_KERNEL_LOG | SS_CONTEXT);
	ck_assert_int_eq(parse("--domain d -o f --flags TRYLOCK,ASID --flags GET_DQ"), -1);
	ck_assert_uint_eq(o.ask.flags, KCD_SS_TRYLOCK | KCD_SS_REQ_ASID | KCD_SS_GET_DQ);
}
END_TEST

START_TEST(saving_writes_nothing_and_retrieving_does)
{
	ck_assert_int_eq(parse("--control s --save --latency --pid 7"), -1);
	ck_assert_ptr_null(o.output);
	ck_assert_uint_eq(o.ask.flags, KCD_SS_SAVE_IN_KERNEL_BUFFER | SS_LATENCY_INFO);
	ck_assert_int_eq(parse("--control s --flags SAVE_IN_KERNEL_BUFFER"), -1);
	ck_assert_int_eq(parse("--control s --retrieve -o f --compress zlib"), -1);
	ck_assert_uint_eq(o.ask.flags, KCD_SS_RETRIEVE_EXISTING_BUFFER);
}
END_TEST

static const char *const nonsense[] = {
	"",
	"--control s",
	"-o f",
	"--control s -o f extra",
	"--control s --core c -o f",
	"--control s -o f --pid 2147483648",
	"--control s -o f --deadline 0",
	"--control s -o f --compress lz4",
	"--control s -o f --threads-max 0",
	"--control s -o f --threads-max 4294967296",
	"--control s -o f --threads-max few",
	"--control s -o f --page-tables",
	"--control s -o f --flags PAGE_TABLES",
	"--control s -o f --pid 1 --page-tables=",
	"--control s -o f --pid 1 --page-tables=4",
	"--control s -o f --pid 1 --page-tables=0,",
	"--control s -o f --pid 1 --page-tables 3",
	"--control s -o f --flags",
	"--control s -o f --flags=",
	"--control s -o f --flags trylock",
	"--control s -o f --flags TRYLOCK,",
	"--control s -o f --flags TRYLOCK,,ASID",
	"--control s -o f --flags "
	"TRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCKTRYLOCK",
	"--control s -o f --since",
	"--core c -o f --since old",
	"--qmp q -o f --flags COLLECT_DELTA_SNAPSHOT",
	"--control s --save -o f",
	"--control s --save --compress zlib",
	"--control s --save --retrieve",
	"--control s --retrieve",
	"--core c --save",
	"--domain d --flags SAVE_IN_KERNEL_BUFFER",
	"--core c --retrieve -o f",
};

START_TEST(nonsense_is_bad_usage)
{
	ck_assert_msg(parse(nonsense[_i]) == CLI_EXIT_USAGE, "%s", nonsense[_i]);
}
END_TEST

Suite *suite_snap_options(void)
{
	Suite *s = suite_create("cli/snap_options");
	TCase *tc = tcase_create("options");

	tcase_add_test(tc, defaults_ask_for_all);
	tcase_add_test(tc, everything_can_be_said);
	tcase_add_test(tc, saving_writes_nothing_and_retrieving_does);
	tcase_add_loop_test(tc, nonsense_is_bad_usage, 0, ARRAY_SIZE(nonsense));
	suite_add_tcase(s, tc);
	return s;
}
