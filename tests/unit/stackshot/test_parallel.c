/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers: the same capture, whoever does what. */
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "tests/unit/stackshot/picture.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define ROUNDS 100

static const uint32_t worker_counts[] = { 1, 2, 4, 8 };

/* Things that are missing are in order, too. */
static void make_guest(void)
{
	session_make_crowd(120);
	lg_stack_reset(&guest, &guest.threads[4]);
	guest.threads[4].task->fp = guest.threads[4].stack + 0x1234;
	guest.threads[50].task->pid = -1;
	guest.threads[90].task->tgid = 1;
}

static void start(uint32_t workers)
{
	session_options.workers = workers;
	session_restart();
}

static const struct ss_request all = { .version = SS_REQUEST_VERSION,
				       .size = sizeof(all),
				       .pid = SS_PID_ALL };

/* The picture of a capture is @p expected, which is taken from the first one. */
static void expect_picture(struct picture *expected)
{
	struct picture p = { 0 };

	ck_assert_int_eq(session_capture_only(&all), GS_OK);
	ck_assert(picture_take(&result, &p));
	if (!expected->bytes)
		ck_assert(picture_take(&result, expected));
	ck_assert(picture_is(&p, expected));
	picture_drop(&p);
}

static void compare_numbers_of_workers(void)
{
	struct picture expected = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(worker_counts); i++) {
		start(worker_counts[i]);
		session_capture_all();
		ck_assert_uint_eq(view.missing_count, 3);
		ck_assert_uint_gt(view.threads, 500);
		for (int round = 0; round < ROUNDS; round++)
			expect_picture(&expected);
	}
	picture_drop(&expected);
}

START_TEST(capture_is_the_same_with_any_number_of_workers)
{
	compare_numbers_of_workers();
}
END_TEST

/* Where each read is a call, as with the guests of others. */
START_TEST(capture_through_a_callback_is_the_same_with_any_number_of_workers)
{
	lg_unmap_host(&guest);
	compare_numbers_of_workers();
	ck_assert_uint_gt(guest.reads, 0);
}
END_TEST

START_TEST(every_worker_does_some_of_the_work)
{
	const struct ss_engine *e;
	uint32_t together = 0;

	start(2);
	e = &session->ordinary;
	/* where other programs have the CPUs the second one often comes too late, but not always */
	for (int round = 0; round < ROUNDS || (!together && round < 100 * ROUNDS); round++) {
		uint32_t items = 0, threads = 0, foreign = 0;

		ck_assert_int_eq(session_capture_only(&all), GS_OK);
		for (uint32_t w = 0; w < 2; w++) {
			items += e->worker[w]->items;
			threads += e->worker[w]->threads;
		}
		together += e->worker[0]->items && e->worker[1]->items;
		// the idle threads are no item that is taken
		ck_assert_uint_eq(items, e->t.items - 1);
		ck_assert_uint_eq(threads, e->t.threads + e->t.idle_threads);
		for (uint32_t i = 1; i < e->t.items; i++)
			foreign += e->item[i].worker > 1;
		ck_assert_uint_eq(foreign, 0);
	}
	ck_assert_uint_gt(together, 0);
}
END_TEST

START_TEST(one_process_is_for_one_worker)
{
	start(4);
	ck_assert_int_eq(session_capture(100), GS_OK);
	ck_assert_uint_eq(session->ordinary.helping, 0);
	session_capture_all();
	ck_assert_uint_eq(session->ordinary.helping, 3);
}
END_TEST

START_TEST(more_kinds_than_clusters_are_refused)
{
	static const enum ss_cluster_kind kind[] = { SS_CLUSTER_BIG, SS_CLUSTER_BIG };
	struct ss_session *s = NULL;
	struct ss_options o = { .kind = kind, .kinds = 2 };

	guest.m.guest.cluster_count = 1;
	ck_assert_int_eq(ss_session_create_with(&guest.m.guest, &o, &s, &error), GS_EINVAL);
	ck_assert_ptr_null(s);
	ck_assert_ptr_nonnull(strstr(error.text, "the guest has 1"));
	guest.m.guest.cluster_count = 2;
	ck_assert_int_eq(ss_session_create_with(&guest.m.guest, &o, &s, &error), GS_OK);
	ss_session_destroy(s);
}
END_TEST

START_TEST(too_many_workers_are_refused)
{
	struct ss_session *s = NULL;
	struct ss_options o = { .workers = SS_WORKERS_MAX + 1 };

	ck_assert_int_eq(ss_session_create_with(&guest.m.guest, &o, &s, &error), GS_EINVAL);
	ck_assert_ptr_null(s);
	o.workers = SS_WORKERS_MAX;
	ck_assert_int_eq(ss_session_create_with(&guest.m.guest, &o, &s, &error), GS_OK);
	ss_session_destroy(s);
}
END_TEST

/* --- deadlines -------------------------------------------------------------------------------- */

START_TEST(deadline_gives_what_there_is_by_then)
{
	struct ss_request q = session_request(SS_PID_ALL);
	uint32_t cut = 0, rounds = 0;

	for (uint32_t workers = 1; workers <= 2; workers++) {
		start(workers);
		ck_assert_int_eq(session_capture_only(&all), GS_OK);
		const uint32_t whole = result.threads;
		for (uint64_t us = 1; us < 4000000; us += us / 3 + 1, rounds++) {
			q.deadline_ns = gs_clock_ns() + us * 1000;
			ck_assert_int_eq(session_capture_only(&q), GS_OK);
			ck_assert_uint_le(result.threads, whole);
			if (result.threads == whole)
				continue;
			cut++;
			ck_assert(!result.complete);
			view_read(&view, &result);
			ck_assert(view_count_missing(&view, SS_MISSING_LATE) +
				  view_count_missing(&view, SS_MISSING_TASKS));
		}
		ck_assert_uint_eq(result.threads, whole);
	}
	ck_assert_uint_gt(cut, 2);
}
END_TEST

START_TEST(deadline_that_has_passed_leaves_the_registers)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.deadline_ns = 1;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert(!result.complete);
	ck_assert_uint_eq(view.vcpus, 2);
	ck_assert_int_eq(view.vcpu[0].tid, 101);
	ck_assert_uint_eq(view.threads, 0);
	ck_assert_ptr_nonnull(
		strstr(view_missing(&view, SS_MISSING_LATE, 0)->reason, "the deadline passed"));
}
END_TEST

static void setup(void)
{
	make_guest();
	session_begin();
}

Suite *suite_parallel(void)
{
	Suite *s = suite_create("parallel");
	TCase *tc = tcase_create("parallel");

	tcase_set_timeout(tc, 600);
	tcase_add_checked_fixture(tc, setup, session_end);
	tcase_add_test(tc, capture_is_the_same_with_any_number_of_workers);
	tcase_add_test(tc, capture_through_a_callback_is_the_same_with_any_number_of_workers);
	tcase_add_test(tc, every_worker_does_some_of_the_work);
	tcase_add_test(tc, one_process_is_for_one_worker);
	tcase_add_test(tc, more_kinds_than_clusters_are_refused);
	tcase_add_test(tc, too_many_workers_are_refused);
	tcase_add_test(tc, deadline_gives_what_there_is_by_then);
	tcase_add_test(tc, deadline_that_has_passed_leaves_the_registers);
	suite_add_tcase(s, tc);
	return s;
}
