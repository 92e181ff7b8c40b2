/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, durations and numbers as people write them, a server's answers, and exit codes. */
#include <string.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "tests/unit/cli/suites.h"

static const struct {
	const char *text;
	bool ok;
	uint64_t value;
} sizes[] = {
	{ "0", true, 0 },
	{ "512M", true, UINT64_C(512) << 20 },
	{ "64k", true, 65536 },
	{ "17179869183G", true, UINT64_C(17179869183) << 30 },
	{ "17179869184G", false, 0 },
	{ "18446744073709551615", true, UINT64_MAX },
	{ "18446744073709551616", false, 0 },
	{ "", false, 0 },
	{ "M", false, 0 },
	{ "-1", false, 0 },
	{ " 1", false, 0 },
	{ "1 M", false, 0 },
	{ "1MB", false, 0 },
	{ "0x10", false, 0 },
	{ "1.5G", false, 0 },
};

START_TEST(size_is_read_or_refused)
{
	uint64_t value = 42;

	ck_assert_int_eq(cli_parse_size(sizes[_i].text, &value), sizes[_i].ok);
	if (sizes[_i].ok)
		ck_assert_uint_eq(value, sizes[_i].value);
}
END_TEST

static const struct {
	const char *text;
	bool ok;
	uint64_t ns;
} durations[] = {
	{ "60s", true, UINT64_C(60000000000) },
	{ "60", true, UINT64_C(60000000000) },
	{ "2m", true, UINT64_C(120000000000) },
	{ "1h", true, UINT64_C(3600000000000) },
	{ "500ms", true, 500000000 },
	{ "3us", true, 3000 },
	{ "1.5s", true, 1500000000 },
	{ "0.25", true, 250000000 },
	{ "1.2345s", true, 1234000000 },
	{ "0", true, 0 },
	{ "9223372037s", false, 0 },
	{ "99999999999999999999", false, 0 },
	{ "", false, 0 },
	{ "s", false, 0 },
	{ "-1s", false, 0 },
	{ "1d", false, 0 },
	{ "1s ", false, 0 },
	{ ".5s", false, 0 },
};

START_TEST(duration_is_read_or_refused)
{
	uint64_t ns = 42;

	ck_assert_int_eq(cli_parse_duration(durations[_i].text, &ns), durations[_i].ok);
	if (durations[_i].ok)
		ck_assert_uint_eq(ns, durations[_i].ns);
}
END_TEST

START_TEST(number_keeps_to_its_range)
{
	uint64_t n = 42;

	ck_assert(cli_parse_number("1", 1, 64, &n) && n == 1);
	ck_assert(cli_parse_number("64", 1, 64, &n) && n == 64);
	ck_assert(!cli_parse_number("0", 1, 64, &n));
	ck_assert(!cli_parse_number("65", 1, 64, &n));
	ck_assert(!cli_parse_number("4x", 1, 64, &n));
	ck_assert(!cli_parse_number("", 0, 64, &n));
}
END_TEST

START_TEST(address_is_a_number_and_nothing_else)
{
	uint64_t a = 42;

	ck_assert(cli_parse_address("0xffff000002a85140", &a) && a == 0xffff000002a85140);
	ck_assert(cli_parse_address("4096", &a) && a == 4096);
	ck_assert(!cli_parse_address("", &a));
	ck_assert(!cli_parse_address("-1", &a));
	ck_assert(!cli_parse_address(" 1", &a));
	ck_assert(!cli_parse_address("0x1 ", &a));
	ck_assert(!cli_parse_address("0x10000000000000000", &a));
}
END_TEST

static const struct {
	const char *text;
	uint32_t count; /* 0: refused */
	enum ss_cluster_kind kind[3];
} kinds[] = {
	{ "big", 1, { SS_CLUSTER_BIG } },
	{ "little,big", 2, { SS_CLUSTER_LITTLE, SS_CLUSTER_BIG } },
	{ "same,same,little", 3, { SS_CLUSTER_SAME, SS_CLUSTER_SAME, SS_CLUSTER_LITTLE } },
	{ "", 0, { 0 } },
	{ ",", 0, { 0 } },
	{ "big,", 0, { 0 } },
	{ ",big", 0, { 0 } },
	{ "big,,big", 0, { 0 } },
	{ "bi", 0, { 0 } },
	{ "bigger", 0, { 0 } },
	{ "big little", 0, { 0 } },
	{ "Big", 0, { 0 } },
};

START_TEST(kinds_of_clusters_are_a_list)
{
	struct cli_kinds k;

	ck_assert_int_eq(cli_parse_kinds(kinds[_i].text, &k), kinds[_i].count != 0);
	if (!kinds[_i].count)
		return;
	ck_assert_uint_eq(k.count, kinds[_i].count);
	for (uint32_t i = 0; i < k.count; i++)
		ck_assert_int_eq(k.kind[i], kinds[_i].kind[i]);
}
END_TEST

START_TEST(kinds_have_a_limit)
{
	char text[(SS_WORKERS_MAX + 1) * 4 + 1] = "";
	struct cli_kinds k;

	for (int i = 0; i < SS_WORKERS_MAX; i++)
		strcat(text, i ? ",big" : "big");
	ck_assert(cli_parse_kinds(text, &k));
	ck_assert_uint_eq(k.count, SS_WORKERS_MAX);
	strcat(text, ",big");
	ck_assert(!cli_parse_kinds(text, &k));
}
END_TEST

/* A server may send anything: no control sequence of its reaches a terminal. */
START_TEST(answer_is_hostile)
{
	char text[CLI_ANSWER_TEXT_MAX], longest[512];

	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	json_t *answer = json_pack("{s:s, s:s, s:s, s:i, s:i}", "plain", "threads", "escape",
				   "a\033[2Jb", "long", longest, "count", 7, "negative", -7);
	ck_assert_ptr_nonnull(answer);
	ck_assert_str_eq(cli_answer_text(answer, "plain", text), "threads");
	ck_assert_ptr_null(strchr(cli_answer_text(answer, "escape", text), '\033'));
	ck_assert_uint_lt(strlen(cli_answer_text(answer, "long", text)), CLI_ANSWER_TEXT_MAX);
	ck_assert_str_eq(cli_answer_text(answer, "absent", text), "?");
	ck_assert_str_eq(cli_answer_text(answer, "count", text), "?");
	ck_assert_str_eq(cli_answer_text(NULL, "plain", text), "?");
	ck_assert_uint_eq(cli_answer_number(answer, "count"), 7);
	ck_assert_uint_eq(cli_answer_number(answer, "negative"), 0);
	ck_assert_uint_eq(cli_answer_number(answer, "plain"), 0);
	ck_assert_uint_eq(cli_answer_number(NULL, "count"), 0);
	json_decref(answer);
}
END_TEST

START_TEST(sizes_and_durations_are_short_texts)
{
	char buf[CLI_TEXT_MAX];

	ck_assert_str_eq(cli_format_size(0, buf), "0 bytes");
	ck_assert_str_eq(cli_format_size(1023, buf), "1023 bytes");
	ck_assert_str_eq(cli_format_size(1536, buf), "1.5 KiB");
	ck_assert_str_eq(cli_format_size(UINT64_C(512) << 20, buf), "512 MiB");
	ck_assert_str_eq(cli_format_size(UINT64_MAX, buf), "16777216 TiB");
	ck_assert_str_eq(cli_format_duration(0, buf), "0 us");
	ck_assert_str_eq(cli_format_duration(3210000, buf), "3.21 ms");
	ck_assert_str_eq(cli_format_duration(UINT64_C(60000000000), buf), "60.00 s");
}
END_TEST

START_TEST(every_failure_has_an_exit_code)
{
	for (int code = GS_ENOENT; code <= GS_ESYS; code++) {
		enum cli_exit e = cli_exit_of((enum gs_code)code);

		ck_assert_msg(e >= CLI_EXIT_USAGE && e <= CLI_EXIT_TIMEOUT, "%d -> %d", code,
			      (int)e);
	}
	ck_assert_int_eq(cli_exit_of(GS_OK), CLI_EXIT_OK);
}
END_TEST

Suite *suite_values(void)
{
	Suite *s = suite_create("cli/values");
	TCase *tc = tcase_create("values");

	tcase_add_loop_test(tc, size_is_read_or_refused, 0, ARRAY_SIZE(sizes));
	tcase_add_loop_test(tc, duration_is_read_or_refused, 0, ARRAY_SIZE(durations));
	tcase_add_test(tc, number_keeps_to_its_range);
	tcase_add_test(tc, address_is_a_number_and_nothing_else);
	tcase_add_loop_test(tc, kinds_of_clusters_are_a_list, 0, ARRAY_SIZE(kinds));
	tcase_add_test(tc, kinds_have_a_limit);
	tcase_add_test(tc, answer_is_hostile);
	tcase_add_test(tc, sizes_and_durations_are_short_texts);
	tcase_add_test(tc, every_failure_has_an_exit_code);
	suite_add_tcase(s, tc);
	return s;
}
