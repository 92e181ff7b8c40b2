/* SPDX-License-Identifier: Apache-2.0 */
/* The limit: what is dropped, what stays, what is said about it. */
#include <stdlib.h>

#include "base/clock.h"
#include "introspect/btlog/priv.h"
#include "tests/unit/btlog/suites.h"

#define MANY 60000u

static void check_sums(struct btl_library *lib, struct btl_log *log)
{
	struct btl_library_stats s = stats_of(lib);
	struct btl_log_stats l = log_stats_of(log);

	ck_assert_uint_gt(s.drops, 0);
	ck_assert_uint_gt(s.dropped_stacks, 0);
	ck_assert_uint_eq(s.dropped_records, l.dropped);
	ck_assert_uint_eq(l.recorded, l.held + l.overwritten + l.erased + l.dropped);
	ck_assert_uint_eq(s.lost, 0);
	ck_assert_uint_le(s.stack_bytes + s.table_bytes, s.limit);
	ck_assert_uint_le(s.stacks, s.stacks_max);
}

static void more_stacks_than_fit(enum btl_log_kind kind)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct btl_log *log = kind == BTL_LOG_RING ? ring(lib, 1 << 17) : hash(lib, 1 << 17);

	for (uint32_t i = 0; i < MANY; i++)
		record(log, i, 1, i);
	btl_library_settle(lib);
	ck_assert_uint_lt(stats_of(lib).stacks_max, MANY / 4);
	check_sums(lib, log);
	/* not more than needed went */
	ck_assert_uint_gt(stats_of(lib).stacks, stats_of(lib).stacks_max * 7 / 8);
	btl_log_destroy(log);
	close_library(lib);
}

START_TEST(a_ring_drops_records_at_the_limit)
{
	more_stacks_than_fit(BTL_LOG_RING);
}
END_TEST

START_TEST(a_hash_log_drops_records_at_the_limit)
{
	more_stacks_than_fit(BTL_LOG_HASH);
}
END_TEST

/* First those with the fewest references; of those with equally many, the oldest. */
START_TEST(rare_and_old_stacks_go_first)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct btl_log *log = ring(lib, 1 << 17);
	struct btl_record *records;
	uint32_t count, singles = 0, popular = 0;

	for (uint32_t i = 0; i < 1000; i++)
		for (uint32_t k = 0; k < 10; k++)
			record(log, i, 1, i);
	for (uint32_t i = 1000; i < MANY; i++)
		record(log, i, 2, i);
	btl_library_settle(lib);
	check_sums(lib, log);
	ck_assert_int_eq(btl_log_records(log, &records, &count, NULL), GS_OK);
	/* all of the popular ones, then singles up to the last one without a gap */
	for (uint32_t i = 0; i < count; i++) {
		if (records[i].op == 1)
			popular++;
		else
			ck_assert_uint_eq(records[i].element, MANY - (count - i));
		singles += records[i].op == 2;
	}
	ck_assert_uint_eq(popular, 10000);
	ck_assert_uint_gt(singles, 10000);
	ck_assert_uint_lt(singles, stats_of(lib).stacks_max);
	btl_records_release(log, records, count);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(the_records_of_every_log_count)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct btl_log *first = ring(lib, 1 << 16), *second = hash(lib, 1 << 16);

	/* stacks of both logs have two references, so those of the first alone go */
	for (uint32_t i = 0; i < 5000; i++) {
		record(first, i, 1, i);
		record(second, i, 1, i);
	}
	for (uint32_t i = 5000; i < 40000; i++)
		record(first, i, 1, i);
	btl_library_settle(lib);
	ck_assert_uint_gt(log_stats_of(first).dropped, 0);
	ck_assert_uint_eq(log_stats_of(second).dropped, 0);
	ck_assert_uint_eq(references(lib, 0), 2);
	ck_assert_uint_eq(references(lib, 5000), 0);
	btl_log_destroy(first);
	btl_log_destroy(second);
	close_library(lib);
}
END_TEST

START_TEST(stacks_that_others_hold_do_not_go)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	uint32_t max = stats_of(lib).stacks_max, n = 0, ref;
	uint32_t *refs = calloc(max, sizeof(*refs));
	uint64_t frames[BTL_FRAMES_MAX];

	ck_assert_ptr_nonnull(refs);
	while (n < max)
		refs[n] = get(lib, n), n++;
	uint32_t count = made_stack(max, frames);
	ck_assert_int_eq(btl_get(lib, frames, count, 0, &ref), GS_ENOSPC);
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_NOWAIT, &ref), GS_EBUSY);
	ck_assert_uint_eq(stats_of(lib).lost, 2);
	ck_assert_uint_eq(stats_of(lib).dropped_stacks, 0);
	/* known ones are found all the same */
	ck_assert_uint_eq(get(lib, 5), refs[5]);
	ck_assert_int_eq(btl_put(lib, refs[5]), GS_OK);
	/* and when one goes, its place is waited for */
	ck_assert_int_eq(btl_put(lib, refs[7]), GS_OK);
	ck_assert_int_eq(btl_get(lib, frames, count, 0, &ref), GS_OK);
	ck_assert_uint_eq(ref, refs[7]);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_int_eq(btl_put(lib, refs[i]), GS_OK);
	free(refs);
	close_library(lib);
}
END_TEST

/* Nothing would come free: not looked for again at each call. */
START_TEST(looking_in_vain_is_not_repeated_at_once)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct btl_log *log = ring(lib, 64);
	uint32_t max = stats_of(lib).stacks_max, ref;
	uint64_t frames[BTL_FRAMES_MAX];

	for (uint32_t i = 0; i < max; i++)
		(void)get(lib, i);
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t count = made_stack(max + i, frames);

		ck_assert_int_eq(btl_get(lib, frames, count, 0, &ref), GS_ENOSPC);
	}
	ck_assert_uint_eq(stats_of(lib).lost, 10000);
	btl_library_settle(lib);
	/* far fewer passes than calls */
	ck_assert_uint_lt(lib->drop_rounds, 2000);
	btl_log_destroy(log);
	btl_library_destroy(lib);
}
END_TEST

Suite *suite_limit(void)
{
	Suite *s = suite_create("limit");
	TCase *tc = tcase_create("limit");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, a_ring_drops_records_at_the_limit);
	tcase_add_test(tc, a_hash_log_drops_records_at_the_limit);
	tcase_add_test(tc, rare_and_old_stacks_go_first);
	tcase_add_test(tc, the_records_of_every_log_count);
	tcase_add_test(tc, stacks_that_others_hold_do_not_go);
	tcase_add_test(tc, looking_in_vain_is_not_repeated_at_once);
	suite_add_tcase(s, tc);
	return s;
}
