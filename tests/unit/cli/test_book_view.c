/* SPDX-License-Identifier: Apache-2.0 */
/* Where elements come from that were never erased. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/book_view.h"
#include "tests/unit/cli/suites.h"

enum { THREADS, PROBES, OTHERS }; /* logs: a ring, and two from which elements are erased */

static struct btl_log_record logs[] = {
	[THREADS] = { .kind = BTL_LOG_RING, .overwritten = 100, .name = "threads" },
	[PROBES] = { .kind = BTL_LOG_HASH, .overwritten = 3, .dropped = 4, .name = "probes" },
	[OTHERS] = { .kind = BTL_LOG_HASH, .name = "others" },
};
static struct btl_symbol symbols[] = {
	{ .start = 0x1000, .size = 0x100, .module = BTL_NONE, .name = (char *)"allocate" },
	{ .start = 0x2000, .size = 0x100, .flags = BTL_SYMBOL_MODULE, .name = (char *)"make" },
};
static struct btl_module_record modules[] = { { .name = "leak" } };
static struct btl_frame_record frames[] = {
	{ .frame = 0x1010, .symbol = 0, .offset = 0x10 },
	{ .frame = 0x2020, .symbol = 1, .offset = 0x20 },
	{ .frame = 0x1044, .symbol = 0, .offset = 0x44 },
};
static struct btl_stack_record stacks[] = {
	{ .count = 1, .frame = { 2 } },
	{ .count = 2, .frame = { 0, 1 }, .flags = BTL_STACK_CUT },
};
static struct btl_entry_record entries[] = {
	{ .time_us = 10, .element = 0xa, .log = PROBES, .stack = 1 },
	{ .time_us = 30, .element = 0xb, .log = PROBES, .stack = 1 },
	/* one element twice: the newest record says where it comes from */
	{ .time_us = 20, .element = 0xb, .log = PROBES, .stack = 0 },
	{ .time_us = 40, .element = 0xc, .log = PROBES, .stack = 0 },
	{ .time_us = 50, .element = 0xd, .log = PROBES, .stack = 1 },
	/* another element of this address */
	{ .time_us = 60, .element = 0xa, .log = OTHERS, .stack = 0 },
	{ .time_us = 70, .element = 0xe, .log = THREADS, .stack = 0 },
};
static const struct btl_book book = {
	.logs = ARRAY_SIZE(logs),
	.modules = ARRAY_SIZE(modules),
	.symbols = ARRAY_SIZE(symbols),
	.frames = ARRAY_SIZE(frames),
	.stacks = ARRAY_SIZE(stacks),
	.entries = ARRAY_SIZE(entries),
	.log = logs,
	.module = modules,
	.symbol = symbols,
	.frame = frames,
	.stack = stacks,
	.entry = entries,
};

static void expect(const struct cli_book_view *v, const uint64_t *elements, size_t n, size_t known,
		   const char *wanted)
{
	char *text = NULL;
	size_t size, got;
	FILE *f = open_memstream(&text, &size);

	ck_assert(!cli_book_leaks(&book, elements, n, v, f, &got, NULL));
	fclose(f);
	ck_assert_str_eq(text, wanted);
	ck_assert_uint_eq(got, known);
	free(text);
}

#define MADE                     \
	"    allocate+0x10\n"    \
	"    make+0x20 [leak]\n" \
	"    … (outer frames are not kept)\n\n"

START_TEST(what_was_not_erased_is_counted_by_its_newest_record)
{
	const struct cli_book_view v = { .filter.log = PROBES };

	expect(&v, NULL, 0, 4, "3 of 4\n" MADE "1 of 4\n    allocate+0x44\n\n");
	ck_assert(cli_book_can_leak(&book, &v));
	ck_assert_uint_eq(cli_book_missing(&book, &v), 7);
}
END_TEST

START_TEST(elements_of_several_logs_are_several)
{
	const struct cli_book_view v = { .filter.log = BTL_NONE };

	expect(&v, NULL, 0, 5, "3 of 5\n" MADE "2 of 5\n    allocate+0x44\n\n");
}
END_TEST

START_TEST(records_are_chosen_by_time)
{
	/* before the newest record of 0xb there was another one */
	const struct cli_book_view v = { .filter = { .log = PROBES, .to_us = 30 } };

	expect(&v, NULL, 0, 2, "1 of 2\n    allocate+0x44\n\n1 of 2\n" MADE);
}
END_TEST

START_TEST(given_elements_may_be_of_any_log)
{
	const struct cli_book_view v = { .filter.log = BTL_NONE };
	const uint64_t elements[] = { 0xe, 0xf, 0xb };

	expect(&v, elements, ARRAY_SIZE(elements), 2, "1 of 3\n    allocate+0x44\n\n1 of 3\n" MADE);
}
END_TEST

START_TEST(ring_tells_nothing)
{
	const struct cli_book_view v = { .filter.log = THREADS };

	expect(&v, NULL, 0, 0, "");
	ck_assert(!cli_book_can_leak(&book, &v));
	ck_assert_uint_eq(cli_book_missing(&book, &v), 0);
}
END_TEST

START_TEST(programs_get_the_same)
{
	const struct cli_book_view v = { .filter.log = PROBES, .max = 1, .json = true };

	expect(&v, NULL, 0, 4,
	       "{\n  \"records\": 4,\n  \"cut\": 3,\n  \"by\": \"stack\",\n  \"counts\": [\n    {\n"
	       "      \"count\": 3,\n      \"frames\": [\n        \"allocate+0x10\",\n"
	       "        \"make+0x20 [leak]\"\n      ]\n    }\n  ]\n}\n");
}
END_TEST

Suite *suite_book_view(void)
{
	Suite *s = suite_create("book_view");
	TCase *t = tcase_create("leaks");

	tcase_add_test(t, what_was_not_erased_is_counted_by_its_newest_record);
	tcase_add_test(t, elements_of_several_logs_are_several);
	tcase_add_test(t, records_are_chosen_by_time);
	tcase_add_test(t, given_elements_may_be_of_any_log);
	tcase_add_test(t, ring_tells_nothing);
	tcase_add_test(t, programs_get_the_same);
	suite_add_tcase(s, t);
	return s;
}
