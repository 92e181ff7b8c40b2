/* SPDX-License-Identifier: Apache-2.0 */
/* When captures of a schedule are due, by a made-up clock. */
#include "control/pace.h"

#include "base/util.h"
#include "tests/unit/control/suites.h"

#define MS  UINT64_C(1000000)
#define SEC (1000 * MS)

static const uint64_t begin = 5 * SEC;

static struct ctl_pace pace_of(uint64_t every_ns, uint32_t max_stopped)
{
	struct ctl_pace p = { .every_ns = every_ns, .max_stopped = max_stopped };

	ctl_pace_start(&p, begin);
	return p;
}

/* Take the next one as soon as it is due, if need be at @p now; it stops the guest for so long. */
static uint64_t take(struct ctl_pace *p, uint64_t now, uint64_t stopped_ns)
{
	now = gs_max(now, ctl_pace_due(p));
	ctl_pace_begin(p, now, 0);
	(void)ctl_pace_pay(p, now + stopped_ns, stopped_ns);
	return now;
}

START_TEST(first_is_due_at_once_and_others_do_not_drift)
{
	struct ctl_pace p = pace_of(SEC, 0);

	ck_assert_uint_eq(ctl_pace_due(&p), begin);
	/* each begins a little late; the raster stays */
	for (uint64_t i = 0; i < 600; i++) {
		ck_assert_uint_eq(ctl_pace_due(&p), begin + i * SEC);
		(void)take(&p, begin + i * SEC + 3 * MS, 2 * MS);
	}
	ck_assert_uint_eq(p.taken, 600);
	ck_assert_uint_eq(p.left_out, 0);
	ck_assert_uint_eq(p.interval_ns, SEC);
	ck_assert_uint_eq(p.stopped_ns, 1200 * MS);
	ck_assert(!p.is_stretched);
}
END_TEST

START_TEST(without_an_interval_nothing_is_due)
{
	struct ctl_pace p = pace_of(0, 1000);

	ck_assert_uint_eq(ctl_pace_due(&p), UINT64_MAX);
	ck_assert(!ctl_pace_pay(&p, begin + SEC, SEC));
	ck_assert_uint_eq(ctl_pace_due(&p), UINT64_MAX);
	ck_assert_uint_eq(p.paid_ns, begin + 1000 * SEC);
}
END_TEST

START_TEST(what_passes_meanwhile_is_left_out)
{
	struct ctl_pace p = pace_of(SEC, 0);

	(void)take(&p, begin, 0);
	(void)take(&p, begin + 3500 * MS, 0); /* those of 1, 2 and 3 s: one is taken */
	ck_assert_uint_eq(p.left_out, 2);
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 4 * SEC);
	(void)take(&p, begin + 5 * SEC, 0); /* exactly at the next point: that is passed, too */
	ck_assert_uint_eq(p.left_out, 3);
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 6 * SEC);
}
END_TEST

START_TEST(ten_minutes_within_the_budget_lose_none)
{
	struct ctl_pace p = pace_of(SEC, 1000); /* 0.1 %: a millisecond for each */

	for (int i = 0; i < 600; i++)
		(void)take(&p, 0, i % 2 ? MS : MS / 4);
	ck_assert_uint_eq(p.taken, 600);
	ck_assert_uint_eq(p.left_out, 0);
	ck_assert_uint_eq(p.slot_ns, begin + 600 * SEC);
	ck_assert_uint_le(p.stopped_ns, 600 * SEC / 1000);
}
END_TEST

START_TEST(budget_stretches_the_interval_and_lets_it_go_back)
{
	struct ctl_pace p = pace_of(SEC, 1000);

	ctl_pace_begin(&p, begin, 0);
	ck_assert(ctl_pace_pay(&p, begin + 3 * MS, 3 * MS)); /* pays for three seconds */
	ck_assert(p.is_stretched);
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 3 * SEC);
	ctl_pace_begin(&p, begin + 3 * SEC, 0);
	ck_assert_uint_eq(p.left_out, 2); /* three points of the raster, one capture */
	ck_assert(ctl_pace_pay(&p, begin + 3 * SEC + MS / 2, MS / 2));
	ck_assert(!p.is_stretched);
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 4 * SEC);
}
END_TEST

START_TEST(captures_of_others_are_paid_for_as_well)
{
	struct ctl_pace p = pace_of(SEC, 10000); /* 1 % */

	(void)take(&p, 0, MS);
	ck_assert(ctl_pace_pay(&p, begin + 500 * MS, 10 * MS));
	ck_assert(ctl_pace_pay(&p, begin + 600 * MS, 10 * MS) ==
		  false); /* not changed: stretched */
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 490 * MS + 2 * SEC);
}
END_TEST

START_TEST(late_captures_alone_are_no_stretching)
{
	struct ctl_pace p = pace_of(SEC, CTL_PPM);

	ctl_pace_begin(&p, begin, 0);
	ck_assert(!ctl_pace_pay(&p, begin + 2500 * MS, 2500 * MS)); /* budget of 100 % */
	ck_assert_uint_eq(ctl_pace_due(&p), begin + 2500 * MS);
}
END_TEST

START_TEST(never_more_than_the_budget_whatever_captures_cost)
{
	static const uint32_t budgets[] = { 1, 100, 1000, 33333, 700000, 1000000 };
	uint64_t seed = 1;

	for (size_t b = 0; b < ARRAY_SIZE(budgets); b++) {
		struct ctl_pace p = pace_of(100 * MS, budgets[b]);
		uint64_t stopped = 0, cost = 0;

		for (int i = 0; i < 2000; i++) {
			/* all but the one before this is paid for by now */
			const uint64_t now = take(&p, 0, cost = seed % (5 * MS));

			ck_assert((double)stopped <= (double)(now - begin) * budgets[b] / 1e6 + 1);
			stopped += cost;
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			seed ^= seed >> 29;
		}
	}
}
END_TEST

START_TEST(absurd_stops_pay_for_a_day)
{
	struct ctl_pace p = pace_of(SEC, 1);

	(void)take(&p, 0, 0);
	(void)ctl_pace_pay(&p, begin + SEC, UINT64_MAX / 2);
	ck_assert_uint_le(ctl_pace_due(&p), begin + SEC + 86400 * SEC);
}
END_TEST

START_TEST(jitter_makes_late_by_no_more_than_said)
{
	struct ctl_pace p = { .every_ns = SEC, .jitter = 20 };
	uint64_t most = 0;

	ctl_pace_start(&p, begin);
	ck_assert_uint_eq(ctl_pace_due(&p), begin);
	for (uint64_t i = 1; i < 1000; i++) {
		ctl_pace_begin(&p, ctl_pace_due(&p), i * UINT64_C(987654321987));
		const uint64_t late = ctl_pace_due(&p) - (begin + i * SEC);
		ck_assert_uint_lt(late, 200 * MS);
		most = gs_max(most, late);
	}
	ck_assert_uint_gt(most, 150 * MS);
	ck_assert_uint_eq(p.left_out, 0);
}
END_TEST

Suite *suite_pace(void)
{
	Suite *s = suite_create("pace");
	TCase *tc = tcase_create("pace");

	tcase_add_test(tc, first_is_due_at_once_and_others_do_not_drift);
	tcase_add_test(tc, without_an_interval_nothing_is_due);
	tcase_add_test(tc, what_passes_meanwhile_is_left_out);
	tcase_add_test(tc, ten_minutes_within_the_budget_lose_none);
	tcase_add_test(tc, budget_stretches_the_interval_and_lets_it_go_back);
	tcase_add_test(tc, captures_of_others_are_paid_for_as_well);
	tcase_add_test(tc, late_captures_alone_are_no_stretching);
	tcase_add_test(tc, never_more_than_the_budget_whatever_captures_cost);
	tcase_add_test(tc, absurd_stops_pay_for_a_day);
	tcase_add_test(tc, jitter_makes_late_by_no_more_than_said);
	suite_add_tcase(s, tc);
	return s;
}
