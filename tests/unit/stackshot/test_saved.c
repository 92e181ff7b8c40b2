/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that stay in the session until they have been delivered. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/seam.h"

#define SAVE	 KCD_SS_SAVE_IN_KERNEL_BUFFER
#define RETRIEVE KCD_SS_RETRIEVE_EXISTING_BUFFER

static enum gs_code ask(uint64_t flags)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.flags = flags;
	return session_capture_only(&q);
}

/* What is saved now. @return its identity; 0: nothing */
static uint64_t saved_now(void)
{
	struct ss_result numbers;
	uint64_t wall_us;

	if (!ss_session_saved(session, &numbers, &wall_us))
		return 0;
	ck_assert_ptr_null(numbers.data);
	ck_assert_ptr_null(numbers.held);
	ck_assert_uint_gt(numbers.size, 0);
	return numbers.saved_id;
}

static uint64_t save(void)
{
	ck_assert_msg(ask(SAVE) == GS_OK, "%s", error.text);
	ck_assert_uint_ne(result.saved_id, 0);
	return result.saved_id;
}

START_TEST(saved_capture_leaves_its_numbers_only)
{
	struct ss_result numbers;
	uint64_t begin_us = gs_clock_wall_us(), wall_us;

	ck_assert_uint_eq(saved_now(), 0);
	uint64_t id = save();
	ck_assert_ptr_null(result.data);
	ck_assert_uint_gt(result.size, 1000);
	ck_assert_uint_eq(result.tasks, 4);
	ck_assert_uint_eq(result.threads, 6);
	ck_assert_uint_eq(result.tries, 1);
	ck_assert(result.complete);
	ck_assert(ss_session_saved(session, &numbers, &wall_us));
	ck_assert_uint_eq(numbers.saved_id, id);
	ck_assert_uint_eq(numbers.size, result.size);
	ck_assert_uint_eq(numbers.start_ns, result.start_ns);
	ck_assert(wall_us >= begin_us && wall_us <= gs_clock_wall_us());
}
END_TEST

START_TEST(retrieved_capture_is_the_saved_one)
{
	uint64_t id = save();
	const struct ss_result saved = result;
	uint32_t stops = guest.stops;

	for (int i = 0; i < 2; i++) { // as often as one likes
		ck_assert_int_eq(ask(RETRIEVE | KCD_SS_KCDATA_FORMAT | (i ? KCD_SS_TRYLOCK : 0)),
				 GS_OK);
		view_read(&view, &result);
		ck_assert_uint_eq(view.in_flags, SAVE | KCD_SS_KCDATA_FORMAT);
		ck_assert_uint_eq(result.saved_id, id);
		ck_assert_uint_eq(result.size, saved.size);
		ck_assert_uint_eq(result.start_ns, saved.start_ns);
		ck_assert_uint_eq(result.stopped_ns, saved.stopped_ns);
		ck_assert_uint_gt(result.total_ns, saved.stopped_ns);
		ck_assert_uint_le(result.total_ns, saved.total_ns);
	}
	ck_assert_uint_eq(guest.stops, stops);
}
END_TEST

START_TEST(time_of_the_result_is_that_of_the_stream)
{
	struct kcd_reader reader;
	struct kcd_item it;
	uint64_t start_ns = 0;

	session_capture_all();
	ck_assert_int_eq(kcd_reader_init(&reader, result.data, result.size, KCD_STRICT, NULL),
			 KCD_OK);
	while (!kcd_reader_next(&reader, &it))
		if (it.type == KCD_TYPE_MACH_ABSOLUTE_TIME)
			(void)kcd_item_copy(&it, &start_ns, sizeof(start_ns));
	ck_assert_uint_ne(start_ns, 0);
	ck_assert_uint_eq(result.start_ns, start_ns);
}
END_TEST

START_TEST(second_one_is_refused_before_the_guest_is_stopped)
{
	uint64_t id = save();
	uint32_t stops = guest.stops;

	ck_assert_int_eq(ask(SAVE), GS_EEXIST);
	ck_assert_ptr_nonnull(strstr(error.text, "retrieve it first"));
	ck_assert_uint_eq(guest.stops, stops);
	ck_assert_uint_eq(saved_now(), id);
}
END_TEST

START_TEST(saved_capture_stays_until_it_is_dropped)
{
	uint64_t id = save();

	ck_assert_int_eq(ask(RETRIEVE), GS_OK);
	ss_result_deinit(&result); // as if it could not be written
	ck_assert_uint_eq(saved_now(), id);
	ck_assert(!ss_session_saved_drop(session, 0));
	ck_assert(!ss_session_saved_drop(session, id + 1));
	ck_assert_uint_eq(saved_now(), id);
	ck_assert(ss_session_saved_drop(session, id));
	ck_assert(!ss_session_saved_drop(session, id));
	ck_assert_uint_eq(saved_now(), 0);
	ck_assert_int_eq(ask(RETRIEVE), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(error.text, "no capture is saved"));
	// a drop that comes late does not hit the next one
	uint64_t next = save();
	ck_assert_uint_ne(next, id);
	ck_assert(!ss_session_saved_drop(session, id));
	ck_assert_uint_eq(saved_now(), next);
}
END_TEST

START_TEST(two_who_retrieve_it_both_have_it)
{
	struct ss_request q = session_request(SS_PID_ALL);
	struct ss_result other = { 0 };

	uint64_t id = save();
	q.flags = RETRIEVE;
	ck_assert_int_eq(ask(RETRIEVE), GS_OK);
	ck_assert_int_eq(ss_capture(session, &q, &other, &error), GS_OK);
	ck_assert_uint_eq(other.saved_id, id);
	ck_assert(ss_session_saved_drop(session, id));
	ss_result_deinit(&result);
	ck_assert(!ss_session_saved_drop(session, other.saved_id));
	view_read(&view, &other); // still there for who has it
	ss_result_deinit(&other);
}
END_TEST

START_TEST(retrieved_capture_outlives_the_session)
{
	(void)save();
	ck_assert_int_eq(ask(RETRIEVE), GS_OK);
	ss_session_destroy(session);
	session = NULL;
	view_read(&view, &result);
	ss_result_deinit(&result);
	ss_result_deinit(&result);
}
END_TEST

START_TEST(capture_that_fails_saves_nothing)
{
	struct ss_request q = session_request(4711);

	q.flags = SAVE;
	ck_assert_int_eq(session_capture_only(&q), GS_ENOENT);
	ck_assert_uint_eq(result.size, 0);
	ck_assert_uint_eq(saved_now(), 0);
	q.pid = 100;
	ck_assert_int_eq(session_capture_only(&q), GS_OK);
	ck_assert_uint_eq(saved_now(), result.saved_id);
}
END_TEST

START_TEST(other_captures_go_on_beside_it)
{
	uint64_t id = save();

	session_capture_all();
	ck_assert_uint_eq(result.saved_id, 0);
	ck_assert_uint_eq(view.in_flags, KCD_SS_KCDATA_FORMAT);
	ck_assert_int_eq(ask(KCD_SS_FROM_PANIC), GS_OK);
	ck_assert_uint_eq(result.saved_id, 0);
	ck_assert_int_eq(ask(KCD_SS_FROM_PANIC | SAVE), GS_EINVAL);
	ck_assert_uint_eq(saved_now(), id);
}
END_TEST

START_TEST(retrieval_with_a_wish_is_refused)
{
	static const struct ss_request with[] = {
		{ .pid = 100 },
		{ .pid = SS_PID_ALL, .threads_max = 1 },
		{ .pid = SS_PID_ALL, .size_hint = 4096 },
		{ .pid = SS_PID_ALL, .deadline_ns = 1 },
		{ .pid = SS_PID_ALL, .since_ns = 1 },
		{ .pid = SS_PID_ALL, .pagetable_mask = 1 },
		{ .pid = SS_PID_ALL, .flags = SAVE },
		{ .pid = SS_PID_ALL, .flags = KCD_SS_NO_IO_STATS },
		{ .pid = SS_PID_ALL, .flags = KCD_SS_FROM_PANIC },
	};

	uint64_t id = save();
	for (size_t i = 0; i < ARRAY_SIZE(with); i++) {
		struct ss_request q = with[i];

		q.version = SS_REQUEST_VERSION;
		q.size = sizeof(q);
		q.flags |= RETRIEVE;
		ck_assert_msg(session_capture_only(&q) == GS_EINVAL, "%zu", i);
	}
	ck_assert_uint_eq(saved_now(), id);
}
END_TEST

START_TEST(any_allocation_that_fails_saves_nothing_or_all)
{
	struct ss_request q = session_request(SS_PID_ALL);
	uint32_t n = 0, failures = 0, allocations;

	q.flags = SAVE;
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	session_capture_all();				   // the kernel is known from here on
	do {
		ss_result_deinit(&result);
		n++;
		seam_fail(&seam_allocations, n, n);
		enum gs_code rc = ss_capture(session, &q, &result, &error);
		allocations = seam_allocations.calls;
		seam_reset();
		ck_assert(!rc || rc == GS_ENOSPC);
		ck_assert_int_eq(saved_now() != 0, !rc);
		ck_assert_ptr_null(result.data);
		failures += rc == GS_ENOSPC;
		if (!rc)
			ck_assert(ss_session_saved_drop(session, result.saved_id));
	} while (allocations >= n);
	ck_assert_uint_gt(failures, 2);
}
END_TEST

/* --- in the middle of another capture --------------------------------------------------------- */

static enum gs_code inner_code;
static uint64_t inner_flags, inner_id;

static enum gs_code ask_at_stop(struct linux_guest *g, uint32_t nth)
{
	struct ss_request q = session_request(SS_PID_ALL);
	struct ss_result inner = { 0 };

	(void)g;
	(void)nth;
	q.flags = inner_flags;
	inner_code = ss_capture(session, &q, &inner, NULL);
	inner_id = saved_now();
	ss_result_deinit(&inner);
	return GS_OK;
}

START_TEST(retrieval_waits_for_no_capture)
{
	uint64_t id = save();

	guest.on_stop = ask_at_stop;
	inner_flags = RETRIEVE;
	inner_code = GS_ESYS;
	session_capture_all();
	ck_assert_int_eq(inner_code, GS_OK);
	ck_assert_uint_eq(inner_id, id);
}
END_TEST

START_TEST(capture_is_saved_when_it_is_whole)
{
	guest.on_stop = ask_at_stop;
	inner_flags = SAVE | KCD_SS_TRYLOCK;
	inner_code = GS_OK;
	uint64_t id = save();
	ck_assert_int_eq(inner_code, GS_EBUSY);
	ck_assert_uint_eq(inner_id, 0);
	ck_assert_uint_eq(saved_now(), id);
}
END_TEST

/* --- many at once ------------------------------------------------------------------------------ */

#define THREADS 4
#define ROUNDS	300
#define IDS	(THREADS * ROUNDS + 1)

static _Atomic uint64_t sums[IDS]; /* by identity: of the stream's bytes; 0: not known yet */
static _Atomic uint32_t saves, drops, refused;

static uint64_t sum_of(const struct ss_result *r)
{
	const uint8_t *at = r->data;
	uint64_t sum = 1;

	for (size_t i = 0; i < r->size; i++)
		sum = sum * 31 + at[i];
	return sum | 1;
}

static void try_to_retrieve(bool deliver)
{
	struct ss_request q = session_request(SS_PID_ALL);
	struct ss_result r = { 0 };
	uint64_t expected = 0;

	q.flags = RETRIEVE;
	enum gs_code rc = ss_capture(session, &q, &r, NULL);
	ck_assert(!rc || rc == GS_ENOENT);
	if (rc)
		return;
	ck_assert_uint_lt(r.saved_id, IDS);
	uint64_t sum = sum_of(&r);
	// whoever has the same identity has the same bytes
	ck_assert(atomic_compare_exchange_strong(&sums[r.saved_id], &expected, sum) ||
		  expected == sum);
	if (deliver)
		drops += ss_session_saved_drop(session, r.saved_id);
	ss_result_deinit(&r);
}

static void try_to_save(void)
{
	struct ss_request q = session_request(100);
	struct ss_result r = { 0 };

	q.flags = SAVE;
	enum gs_code rc = ss_capture(session, &q, &r, NULL);
	ck_assert(!rc || rc == GS_EEXIST);
	saves += !rc;
	refused += rc == GS_EEXIST;
	ss_result_deinit(&r);
}

static void *work(void *arg)
{
	uint64_t seed = *(const uint32_t *)arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct ss_result numbers;
		uint64_t wall_us;

		switch (prng_below(&seed, 5)) {
		case 0:
		case 1: try_to_save(); break;
		case 2: try_to_retrieve(false); break;
		case 3: try_to_retrieve(true); break;
		default: (void)ss_session_saved(session, &numbers, &wall_us); break;
		}
	}
	return NULL;
}

START_TEST(each_saved_capture_is_dropped_once)
{
	pthread_t thread[THREADS];
	uint32_t number[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		number[i] = i + 1;
		ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &number[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_gt(saves, 10);
	ck_assert_uint_gt(refused, 10);
	ck_assert_uint_eq(saves, drops + (saved_now() != 0));
	ck_assert_int_eq(guest.m.stop_depth, 0);
}
END_TEST

static void teardown(void)
{
	seam_reset();
	session_end();
}

Suite *suite_saved(void)
{
	Suite *s = suite_create("saved");
	TCase *tc = tcase_create("saved");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, session_setup, teardown);
	tcase_add_test(tc, saved_capture_leaves_its_numbers_only);
	tcase_add_test(tc, retrieved_capture_is_the_saved_one);
	tcase_add_test(tc, time_of_the_result_is_that_of_the_stream);
	tcase_add_test(tc, second_one_is_refused_before_the_guest_is_stopped);
	tcase_add_test(tc, saved_capture_stays_until_it_is_dropped);
	tcase_add_test(tc, two_who_retrieve_it_both_have_it);
	tcase_add_test(tc, retrieved_capture_outlives_the_session);
	tcase_add_test(tc, capture_that_fails_saves_nothing);
	tcase_add_test(tc, other_captures_go_on_beside_it);
	tcase_add_test(tc, retrieval_with_a_wish_is_refused);
	tcase_add_test(tc, any_allocation_that_fails_saves_nothing_or_all);
	tcase_add_test(tc, retrieval_waits_for_no_capture);
	tcase_add_test(tc, capture_is_saved_when_it_is_whole);
	tcase_add_test(tc, each_saved_capture_is_dropped_once);
	suite_add_tcase(s, tc);
	return s;
}
