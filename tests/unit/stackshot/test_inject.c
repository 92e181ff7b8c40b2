/* SPDX-License-Identifier: Apache-2.0 */
/* Failures one at a time: each record, piece of storage and allocation, of any worker. */
#include <string.h>

#include "introspect/stackshot/capture.h"
#include "tests/unit/stackshot/judge.h"
#include "tests/unit/stackshot/picture.h"
#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

/* Every one, but under sanitizers. */
#if defined(__SANITIZE_THREAD__)
#define STEP 17
#elif defined(__SANITIZE_ADDRESS__)
#define STEP 7
#else
#define STEP 1
#endif

static struct picture whole, now;
static uint32_t calls_in_stop; /* of what is made to fail, until the first resume */
static struct seam_point *counted;

static const struct ss_request all = { .version = SS_REQUEST_VERSION,
				       .size = sizeof(all),
				       .pid = SS_PID_ALL };
static const struct ss_request panic = { .version = SS_REQUEST_VERSION,
					 .size = sizeof(panic),
					 .pid = SS_PID_ALL,
					 .flags = KCD_SS_FROM_PANIC };

static enum gs_code note_resume(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	if (counted && !calls_in_stop)
		calls_in_stop = counted->calls;
	return GS_OK;
}

static void expect_whole(const struct ss_request *q)
{
	ck_assert_msg(session_capture_only(q) == GS_OK, "%s", error.text);
	ck_assert(result.complete);
	ck_assert(picture_take(&result, &now));
	ck_assert(picture_is(&now, &whole));
}

/* How many calls a capture makes until it lets the guest go on, if none fails. */
static uint32_t count_calls(struct seam_point *p, const struct ss_request *q)
{
	seam_fail(p, 0, 0);
	calls_in_stop = 0;
	counted = p;
	expect_whole(q);
	counted = NULL;
	ck_assert_uint_gt(calls_in_stop, 0);
	return calls_in_stop;
}

static enum gs_code capture_failing(struct seam_point *p, uint32_t first, uint32_t last,
				    const struct ss_request *q)
{
	seam_fail(p, first, last);
	enum gs_code rc = session_capture_only(q);
	ck_assert_uint_gt(p->failed, 0);
	seam_fail(p, 0, 0);
	return rc;
}

/* --- ordinary captures ------------------------------------------------------------------------ */

static void expect_second_try(const struct seam_point *p)
{
	// each doubles the buffers, up to the most there may be
	ss_storage_release(&session->ordinary.storage);
	expect_whole(&all);
	ck_assert_uint_eq(p->failed, 1);
	ck_assert_uint_eq(result.tries, 2);
}

/* No room, once: a second try has it. */
static void fail_once(struct seam_point *p)
{
	const uint32_t n = count_calls(p, &all);

	for (uint32_t i = 1; i <= n; i += STEP) {
		seam_fail(p, i, i);
		expect_second_try(p);
		seam_fail(p, 0, 0);
		expect_whole(&all);
		ck_assert_uint_eq(result.tries, 1);
	}
}

/* No room from some call on, however large the buffers: a shortage, and nobody is left behind. */
static void fail_from(struct seam_point *p)
{
	const uint32_t n = count_calls(p, &all);

	session_options.buffer_max = 512 << 10;
	session_restart();
	for (uint32_t i = 1; i <= n; i += STEP) {
		ck_assert_int_eq(capture_failing(p, i, UINT32_MAX, &all), GS_ENOSPC);
		ck_assert_msg(strstr(error.text, "resource shortage"), "%s", error.text);
		expect_whole(&all);
	}
}

START_TEST(record_without_room_is_written_in_a_second_try)
{
	fail_once(&seam_records);
}
END_TEST

START_TEST(records_without_room_again_and_again_are_a_shortage)
{
	fail_from(&seam_records);
}
END_TEST

START_TEST(piece_that_is_not_there_is_had_in_a_second_try)
{
	fail_once(&seam_pieces);
}
END_TEST

START_TEST(pieces_that_are_never_there_are_a_shortage)
{
	fail_from(&seam_pieces);
}
END_TEST

/* As a mistake in a record would be: not for want of room, so there is no second try. */
static void refuse_each(uint32_t n)
{
	seam_record_code = KCD_EINVAL;
	for (uint32_t i = 1; i <= n; i += STEP) {
		ck_assert_int_eq(capture_failing(&seam_records, i, i, &all), GS_EINVAL);
		expect_whole(&all);
	}
}

START_TEST(record_that_is_refused_is_an_error)
{
	seam_record_code = KCD_EINVAL; // which the ends of containers count for
	refuse_each(count_calls(&seam_records, &all));
}
END_TEST

START_TEST(record_that_fails_in_the_finished_capture_is_an_error)
{
	const uint32_t n = count_calls(&seam_records, &all), in_all = seam_records.calls;

	ck_assert_uint_gt(in_all, n);
	for (uint32_t i = n + 1; i <= in_all; i++) {
		ck_assert_int_eq(capture_failing(&seam_records, i, i, &all), GS_ENOSPC);
		expect_whole(&all);
	}
}
END_TEST

/* --- the other workers ------------------------------------------------------------------------ */

/*
 * What three helpers write at least that have met: a process each, of one thread without a stack.
 */
#define HELPERS_RECORDS 27

START_TEST(helper_without_room_for_a_record_is_enough_for_a_second_try)
{
	seam_meeting = 4;
	seam_records.helpers_only = true;
	for (uint32_t i = 1; i <= HELPERS_RECORDS; i += STEP) {
		seam_fail(&seam_records, i, i);
		expect_second_try(&seam_records);
	}
}
END_TEST

START_TEST(helper_whose_record_is_refused_ends_the_capture)
{
	seam_meeting = 4;
	seam_records.helpers_only = true;
	refuse_each(HELPERS_RECORDS);
}
END_TEST

START_TEST(all_helpers_may_fail_at_once)
{
	seam_meeting = 4;
	seam_records.helpers_only = true;
	seam_record_code = KCD_EINVAL;
	for (uint32_t i = 1; i <= HELPERS_RECORDS; i += STEP) {
		ck_assert_int_eq(capture_failing(&seam_records, i, UINT32_MAX, &all), GS_EINVAL);
		expect_whole(&all);
	}
}
END_TEST

/* --- panics ----------------------------------------------------------------------------------- */

/* Processes and threads that are there and those that there was no room for make up all. */
static void expect_counted(void)
{
	uint32_t left_out = 0;

	for (uint32_t i = 0; i < view.missing_count; i++) {
		ck_assert_uint_eq(view.missing[i].what, SS_MISSING_ROOM);
		left_out += view.missing[i].pid == -1 ? view.missing[i].count : 0;
	}
	ck_assert_uint_eq(result.tasks + left_out, good.tasks - 1);
	for (uint32_t i = 0; i < view.tasks; i++) {
		const struct view_task *t = &view.task[i];
		uint32_t there = t->count;

		for (uint32_t k = 0; k < view.missing_count; k++)
			if (view.missing[k].pid == t->r.pid)
				there += view.missing[k].count;
		ck_assert_uint_eq(there, t->r.threads);
	}
}

/* What follows is not in the stop any more. */
static enum gs_code end_of_failures(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	counted->first = counted->last = 0;
	return GS_OK;
}

/* A panic capture cannot be repeated: it is cut, and says where. */
static void fail_in_panic(struct seam_point *p, bool from_there_on)
{
	const uint32_t n = count_calls(p, &all);

	ck_assert_uint_eq(count_calls(p, &panic), n);
	guest.on_resume = end_of_failures;
	counted = p;
	for (uint32_t i = 1; i <= n; i += from_there_on ? 5 * STEP : STEP) {
		seam_fail(p, i, from_there_on ? UINT32_MAX : i);
		ck_assert_msg(session_capture_with(&panic) == GS_OK, "%s", error.text);
		ck_assert_uint_gt(p->failed, 0);
		ck_assert(!result.complete);
		ck_assert_uint_eq(result.tries, 1);
		judge_view(false);
		expect_counted();
		seam_fail(p, 0, 0);
		expect_whole(&panic);
	}
	counted = NULL;
}

START_TEST(panic_without_room_for_a_record_is_cut_and_says_so)
{
	fail_in_panic(&seam_records, false);
}
END_TEST

START_TEST(panic_without_room_for_any_more_records_is_cut_and_says_so)
{
	fail_in_panic(&seam_records, true);
}
END_TEST

START_TEST(panic_without_a_piece_is_cut_and_says_so)
{
	fail_in_panic(&seam_pieces, false);
}
END_TEST

START_TEST(panic_without_any_more_pieces_is_cut_and_says_so)
{
	fail_in_panic(&seam_pieces, true);
}
END_TEST

START_TEST(record_that_is_refused_in_a_panic_is_an_error)
{
	seam_record_code = KCD_EINVAL;
	for (uint32_t i = 1, n = count_calls(&seam_records, &panic); i <= n; i += STEP) {
		ck_assert_int_eq(capture_failing(&seam_records, i, i, &panic), GS_EINVAL);
		expect_whole(&panic);
	}
}
END_TEST

/* --- allocations ------------------------------------------------------------------------------ */

/*
 * A session and two captures. What they return is looked at later: the test program allocates, too.
 */
static struct {
	enum gs_code created, taken[2];
	struct ss_result result[2];
	bool resumed;
	uint32_t allocations;
} two;

static void take_two(uint32_t first, uint32_t last)
{
	memset(&two, 0, sizeof(two));
	ss_session_destroy(session);
	session = NULL;
	seam_fail(&seam_allocations, first, last);
	two.created = ss_session_create_with(&guest.m.guest, &session_options, &session, &error);
	two.resumed = true;
	for (int i = 0; !two.created && i < 2; i++) {
		two.taken[i] = ss_capture(session, &all, &two.result[i], &error);
		two.resumed &= guest.m.stop_depth == 0;
	}
	two.allocations = seam_allocations.calls;
	seam_fail(&seam_allocations, 0, 0);
}

/* @return whether it is one: a whole one, or one that says that the kernel was not found */
static bool look_at(enum gs_code rc, struct ss_result *r)
{
	ck_assert(rc == GS_OK || rc == GS_ENOSPC);
	ck_assert_int_eq(r->data != NULL, !rc);
	if (rc)
		return false;
	if (r->complete) {
		ck_assert(picture_take(r, &now));
		ck_assert(picture_is(&now, &whole));
	} else {
		view_read(&view, r);
		ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_KERNEL), 1);
	}
	ss_result_deinit(r);
	return true;
}

/* @return failures */
static uint32_t look_at_two(void)
{
	uint32_t failures = 0;

	ck_assert(two.created == GS_OK || two.created == GS_ENOSPC);
	ck_assert_int_eq(session != NULL, !two.created);
	ck_assert(two.resumed);
	if (two.created)
		return 1;
	for (int i = 0; i < 2; i++)
		failures += !look_at(two.taken[i], &two.result[i]);
	expect_whole(&all);
	return failures;
}

START_TEST(allocation_that_fails_is_an_error_or_is_survived)
{
	uint32_t failures = 0, n = 0;

	do {
		take_two(n + 1, n + 1);
		// one that fails costs one capture: the next searches and reserves again
		ck_assert(two.created || !two.taken[0] || !two.taken[1]);
		failures += look_at_two();
	} while (two.allocations > n++);
	ck_assert_uint_gt(failures, 20);
}
END_TEST

START_TEST(allocations_that_fail_from_one_on_are_an_error_or_are_survived)
{
	uint32_t failures = 0, n = 0;

	do {
		take_two(n + 1, UINT32_MAX);
		failures += look_at_two();
	} while (two.allocations > n++);
	ck_assert_uint_gt(failures, 20);
}
END_TEST

START_TEST(memory_that_cannot_be_locked_is_as_good)
{
	seam_fail(&seam_advice, 1, UINT32_MAX);
	session_restart();
	expect_whole(&all);
	expect_whole(&panic);
	ck_assert_uint_gt(seam_advice.failed, 10);
}
END_TEST

/* --- more room for a second try --------------------------------------------------------------- */

static uint32_t fail_first, fail_last;

/* The first resume is that after the search. */
static enum gs_code fail_after_first_try(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	if (nth == 2)
		seam_fail(&seam_allocations, fail_first, fail_last);
	return GS_OK;
}

/* @return whether the capture failed for it */
static bool fail_enlarging(uint32_t first, uint32_t last)
{
	fail_first = first;
	fail_last = last;
	guest.resumes = 0;
	guest.on_resume = fail_after_first_try;
	session_restart();
	ss_result_deinit(&result);
	// what it says is looked at later: that allocates
	enum gs_code rc = ss_capture(session, &all, &result, &error);
	const bool failed = seam_allocations.failed;
	seam_fail(&seam_allocations, 0, 0);
	guest.on_resume = NULL;
	ck_assert(failed);
	GS_IGNORE(look_at(rc, &result));
	expect_whole(&all);
	expect_whole(&all);
	return rc;
}

START_TEST(lists_that_cannot_be_enlarged_are_a_shortage)
{
	// more than there is room for in a new session: 1024
	for (int32_t i = 0; i < 1100; i++)
		lg_add_light_process(&guest, 3000 + i, &guest.threads[2]);
	session_capture_all();
	ck_assert_uint_eq(result.tries, 2);
	ck_assert(picture_take(&result, &whole));
	// the list of items, the queues, a list for each worker; what fails behind these may be
	// survived
	const uint32_t least = 2 + session->ordinary.workers;
	for (uint32_t n = 1; n <= least + 5; n++) {
		bool failed = fail_enlarging(n, n);

		ck_assert(failed || n > least);
		ck_assert(fail_enlarging(n, UINT32_MAX));
	}
}
END_TEST

/* --- all of it -------------------------------------------------------------------------------- */

static void setup(void)
{
	session_make_crowd(9);
	// without its assertion, which allocates
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs;
	session_begin();
	session_capture_all();
	ck_assert(result.complete);
	judge_keep();
	ck_assert(picture_take(&result, &whole));
	guest.on_resume = note_resume;
}

static void setup_four(void)
{
	session_options.workers = 4;
	setup();
}

static void teardown(void)
{
	seam_reset();
	judge_forget();
	picture_drop(&whole);
	picture_drop(&now);
	session_end();
}

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, record_without_room_is_written_in_a_second_try);
	tcase_add_test(tc, records_without_room_again_and_again_are_a_shortage);
	tcase_add_test(tc, piece_that_is_not_there_is_had_in_a_second_try);
	tcase_add_test(tc, pieces_that_are_never_there_are_a_shortage);
	tcase_add_test(tc, record_that_is_refused_is_an_error);
	tcase_add_test(tc, allocation_that_fails_is_an_error_or_is_survived);
	tcase_add_test(tc, allocations_that_fail_from_one_on_are_an_error_or_are_survived);
	tcase_add_test(tc, memory_that_cannot_be_locked_is_as_good);
	tcase_add_test(tc, lists_that_cannot_be_enlarged_are_a_shortage);
}

Suite *suite_inject(void)
{
	Suite *s = suite_create("inject");
	TCase *one = tcase_create("one worker"), *four = tcase_create("four workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(four, 300);
	tcase_add_checked_fixture(one, setup, teardown);
	tcase_add_checked_fixture(four, setup_four, teardown);
	add_tests(one);
	tcase_add_test(one, record_that_fails_in_the_finished_capture_is_an_error);
	tcase_add_test(one, panic_without_room_for_a_record_is_cut_and_says_so);
	tcase_add_test(one, panic_without_room_for_any_more_records_is_cut_and_says_so);
	tcase_add_test(one, panic_without_a_piece_is_cut_and_says_so);
	tcase_add_test(one, panic_without_any_more_pieces_is_cut_and_says_so);
	tcase_add_test(one, record_that_is_refused_in_a_panic_is_an_error);
	add_tests(four);
	tcase_add_test(four, helper_without_room_for_a_record_is_enough_for_a_second_try);
	tcase_add_test(four, helper_whose_record_is_refused_ends_the_capture);
	tcase_add_test(four, all_helpers_may_fail_at_once);
#ifndef __SANITIZE_THREAD__ // which has nothing to see in one thread
	suite_add_tcase(s, one);
#endif
	suite_add_tcase(s, four);
	return s;
}
