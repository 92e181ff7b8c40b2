/* SPDX-License-Identifier: Apache-2.0 */
/* Groups, the top stack, leak sites, times of records. */
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"
#include "tests/unit/btlog/suites.h"

static void check_group(const struct btl_group *g, uint64_t number, uint32_t op, uint32_t count)
{
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t n = made_stack(number, frames);

	ck_assert_uint_eq(g->count, count);
	ck_assert_uint_eq(g->op, op);
	ck_assert_uint_eq(g->frames, n);
	ck_assert_mem_eq(g->frame, frames, n * sizeof(*frames));
}

START_TEST(equal_records_are_counted_together)
{
	struct btl_library *lib = library(0);
	struct btl_groups g;

	ck_assert_uint_eq(sizeof(struct btl_group), 128);
	for (int kind = 0; kind < 2; kind++) {
		struct btl_log *log = kind ? hash(lib, 256) : ring(lib, 256);

		/* one stack with two operations is two groups */
		for (uint32_t i = 0; i < 10; i++) {
			record(log, i, 1, 100);
			if (i < 7)
				record(log, i, 2, 100);
			if (i < 4)
				record(log, i, 1, 200);
		}
		ck_assert_int_eq(btl_log_groups(log, 0, &g, NULL), GS_OK);
		ck_assert_uint_eq(g.count, 3);
		ck_assert_uint_eq(g.records, 21);
		ck_assert_uint_eq(g.clipped, 0);
		check_group(&g.group[0], 100, 1, 10);
		check_group(&g.group[1], 100, 2, 7);
		check_group(&g.group[2], 200, 1, 4);
		btl_groups_deinit(&g);
		/* the most popular ones stay, the others are counted */
		ck_assert_int_eq(btl_log_groups(log, 1, &g, NULL), GS_OK);
		ck_assert_uint_eq(g.count, 1);
		check_group(&g.group[0], 100, 1, 10);
		ck_assert_uint_eq(g.records, 10);
		ck_assert_uint_eq(g.clipped, 2);
		ck_assert_uint_eq(g.clipped_records, 11);
		btl_groups_deinit(&g);
		btl_log_destroy(log);
	}
	close_library(lib);
}
END_TEST

START_TEST(both_forms_of_a_permanent_reference_are_one_group)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 16);
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count = made_stack(9, frames), ref;
	struct btl_groups g;

	record(log, 1, 1, 9);
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_PERMANENT, &ref), GS_OK);
	record(log, 2, 1, 9);
	ck_assert_int_eq(btl_log_groups(log, 0, &g, NULL), GS_OK);
	ck_assert_uint_eq(g.count, 1);
	check_group(&g.group[0], 9, 1, 2);
	btl_groups_deinit(&g);
	btl_log_destroy(log);
	btl_library_destroy(lib);
}
END_TEST

START_TEST(many_groups_are_all_there)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 1 << 16);
	struct btl_groups g;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < 50000; i++)
		record(log, i, 0, i % 9000);
	ck_assert_int_eq(btl_log_groups(log, 0, &g, NULL), GS_OK);
	ck_assert_uint_eq(g.count, 9000);
	for (uint32_t i = 0; i < g.count; i++) {
		sum += g.group[i].count;
		ck_assert_uint_ge(g.group[i].count, 5);
		ck_assert(!i || g.group[i].count <= g.group[i - 1].count);
	}
	ck_assert_uint_eq(sum, 50000);
	btl_groups_deinit(&g);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(an_empty_log_has_no_groups)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 16);
	struct gs_error err = { 0 };
	struct btl_groups g;
	struct btl_record *r;
	struct btl_stack s;
	uint32_t n;

	ck_assert_int_eq(btl_log_groups(log, 0, &g, &err), GS_ENOENT);
	ck_assert_str_eq(err.text, "log log: nothing recorded");
	ck_assert_int_eq(btl_log_records(log, &r, &n, NULL), GS_ENOENT);
	ck_assert_int_eq(btl_log_guess_top(log, &s, &n), GS_ENOENT);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(the_top_stack_is_found_without_allocating)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = hash(lib, 1024);
	struct btl_stack stack;
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count;

	/* stack k occurs 10 + k times, so 19 is the most frequent one */
	for (uint32_t i = 0; i < 30; i++)
		for (uint32_t k = 0; k < 20; k++)
			if (i < 10 + k)
				record(log, i, 1, k);
	ck_assert_int_eq(btl_log_guess_top(log, &stack, &count), GS_OK);
	ck_assert_uint_eq(count, 29);
	ck_assert_uint_eq(stack.count, made_stack(19, frames));
	ck_assert_mem_eq(stack.frame, frames, stack.count * sizeof(*frames));
	/* one with more references elsewhere is among the eight, but does not win */
	uint32_t held[100];
	for (uint32_t i = 0; i < 100; i++)
		held[i] = get(lib, 3);
	ck_assert_int_eq(btl_log_guess_top(log, &stack, &count), GS_OK);
	ck_assert_uint_eq(count, 29);
	for (uint32_t i = 0; i < 100; i++)
		ck_assert_int_eq(btl_put(lib, held[i]), GS_OK);
	/* the log is being written */
	pthread_mutex_lock(&log->lock);
	ck_assert_int_eq(btl_log_guess_top(log, &stack, &count), GS_EBUSY);
	pthread_mutex_unlock(&log->lock);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(leak_sites_are_the_newest_records)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = hash(lib, 65536);
	struct btl_log *other = ring(lib, 16);
	static uint64_t elements[10001];
	struct btl_groups g;

	/* allocated at 1, then again at 2 (odd elements) or 3 (every tenth) */
	for (uint32_t i = 0; i < 10000; i++) {
		elements[i] = 0xffff000000000000 + 64 * i;
		record(log, elements[i], 1, 1);
		if (i % 2)
			record(log, elements[i], 2, 2);
		if (i % 10 == 0)
			record(log, elements[i], 2, 3);
	}
	elements[10000] = 5; // not known
	ck_assert_int_eq(btl_log_leak_sites(log, elements, 10001, &g, NULL), GS_OK);
	ck_assert_uint_eq(g.count, 3);
	check_group(&g.group[0], 2, 0, 5000);
	check_group(&g.group[1], 1, 0, 4000);
	check_group(&g.group[2], 3, 0, 1000);
	ck_assert_uint_eq(g.records, 10000);
	ck_assert_uint_eq(g.clipped_records, 1);
	btl_groups_deinit(&g);
	/* what was freed is no leak */
	for (uint32_t i = 0; i < 10000; i += 2)
		ck_assert_uint_ge(btl_log_erase(log, elements[i]), 1);
	ck_assert_int_eq(btl_log_leak_sites(log, elements, 10001, &g, NULL), GS_OK);
	ck_assert_uint_eq(g.count, 1);
	check_group(&g.group[0], 2, 0, 5000);
	ck_assert_uint_eq(g.clipped_records, 5001);
	btl_groups_deinit(&g);
	ck_assert_int_eq(btl_log_leak_sites(other, elements, 1, &g, NULL), GS_ENOTSUP);
	btl_log_disable(log);
	ck_assert_int_eq(btl_log_leak_sites(log, elements, 1, &g, NULL), GS_ENOENT);
	btl_log_destroy(log);
	btl_log_destroy(other);
	close_library(lib);
}
END_TEST

START_TEST(records_have_their_times)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 16);
	uint64_t start = log_stats_of(log).enabled_at_ns;
	const uint64_t after[] = { 0, 10, 20, 1000, 86400000, UINT64_C(42949672950) }; /* ms */
	struct btl_record *r;
	uint32_t n;

	for (uint32_t i = 0; i < 6; i++)
		ck_assert_int_eq(
			btl_log_record(log, i, 1, get(lib, 1), start + after[i] * GS_NS_PER_MS + 7),
			GS_OK);
	/* before the log was there, and after its clock's end */
	ck_assert_int_eq(btl_log_record(log, 6, 1, get(lib, 1), start - 5), GS_OK);
	ck_assert_int_eq(btl_log_record(log, 7, 1, get(lib, 1), UINT64_MAX), GS_OK);
	ck_assert_int_eq(btl_log_records(log, &r, &n, NULL), GS_OK);
	ck_assert_uint_eq(n, 8);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert(!i || r[i].time_ns >= r[i - 1].time_ns);
		if (r[i].element < 6)
			ck_assert_uint_eq(r[i].time_ns, start + after[r[i].element] * GS_NS_PER_MS);
		else
			ck_assert_uint_eq(r[i].time_ns,
					  start + (r[i].element == 6 ? 0 : UINT32_MAX) *
							  UINT64_C(10000000));
	}
	btl_records_release(log, r, n);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

Suite *suite_read(void)
{
	Suite *s = suite_create("read");
	TCase *tc = tcase_create("read");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, equal_records_are_counted_together);
	tcase_add_test(tc, both_forms_of_a_permanent_reference_are_one_group);
	tcase_add_test(tc, many_groups_are_all_there);
	tcase_add_test(tc, an_empty_log_has_no_groups);
	tcase_add_test(tc, the_top_stack_is_found_without_allocating);
	tcase_add_test(tc, leak_sites_are_the_newest_records);
	tcase_add_test(tc, records_have_their_times);
	suite_add_tcase(s, tc);
	return s;
}
