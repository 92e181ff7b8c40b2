/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of a guest that dies, also in the middle of an ordinary one. */
#include <string.h>

#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

static struct ss_request panic_request(void)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.flags = KCD_SS_FROM_PANIC;
	return q;
}

static enum gs_code capture_panic(void)
{
	struct ss_request q = panic_request();

	return session_capture_with(&q);
}

START_TEST(panic_capture_is_a_whole_one)
{
	static struct view ordinary;

	session_capture_all();
	ordinary = view;
	ck_assert_int_eq(capture_panic(), GS_OK);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.in_flags, KCD_SS_FROM_PANIC | KCD_SS_KCDATA_FORMAT);
	ck_assert_uint_eq(view.threads, ordinary.threads);
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert_mem_eq(&view.thread[i].r, &ordinary.thread[i].r,
				 sizeof(view.thread[i].r));
}
END_TEST

START_TEST(first_capture_of_a_session_may_be_a_panic)
{
	ck_assert_int_eq(capture_panic(), GS_OK);
	ck_assert(result.complete);
	ck_assert_uint_eq(result.threads, 6);
}
END_TEST

/* --- in the middle of another capture --------------------------------------------------------- */

static struct ss_result inner;
static struct gs_error inner_error;
static enum gs_code inner_code;
static uint32_t panic_at;
static uint64_t inner_flags;

static enum gs_code panic_at_stop(struct linux_guest *g, uint32_t nth)
{
	struct ss_request q = panic_request();

	(void)g;
	if (nth != panic_at)
		return GS_OK;
	q.flags = inner_flags;
	inner_code = ss_capture(session, &q, &inner, &inner_error);
	return GS_OK;
}

static void panic_during_stop(uint32_t nth, uint64_t flags)
{
	panic_at = nth;
	inner_flags = flags;
	guest.on_stop = panic_at_stop;
}

START_TEST(ordinary_capture_stands_aside_for_a_panic)
{
	session_capture_all();
	panic_during_stop(guest.stops + 1, KCD_SS_FROM_PANIC);
	ck_assert_int_eq(session_capture(SS_PID_ALL), GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(error.text, "a panic capture took over"));
	ck_assert_int_eq(inner_code, GS_OK);
	ck_assert(inner.complete);
	view_read(&view, &inner);
	ck_assert_uint_eq(view.threads, 8);
	ss_result_deinit(&inner);
	// and afterwards all is as before
	session_capture_all();
	ck_assert_uint_eq(result.threads, 6);
}
END_TEST

START_TEST(panic_before_the_kernel_is_known_leaves_the_registers)
{
	// the first stop is for the registers of the search, and the lock is held
	panic_during_stop(1, KCD_SS_FROM_PANIC);
	session_capture_all();
	ck_assert_int_eq(inner_code, GS_OK);
	ck_assert(!inner.complete);
	view_read(&view, &inner);
	ck_assert_uint_eq(view.vcpus, 2);
	ck_assert_uint_eq(view.threads, 0);
	ck_assert_ptr_nonnull(
		strstr(view_missing(&view, SS_MISSING_KERNEL, 0)->reason, "before the panic"));
	ss_result_deinit(&inner);
}
END_TEST

START_TEST(second_panic_at_once_is_refused)
{
	struct ss_request q = panic_request();

	session_capture_all();
	panic_during_stop(guest.stops + 1, KCD_SS_FROM_PANIC);
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert_int_eq(inner_code, GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(inner_error.text, "another panic capture"));
}
END_TEST

START_TEST(trylock_does_not_wait_for_the_capture_in_progress)
{
	struct ss_request q = session_request(SS_PID_ALL);

	panic_during_stop(2, KCD_SS_TRYLOCK);
	session_capture_all();
	ck_assert_int_eq(inner_code, GS_EBUSY);
	ck_assert_ptr_nonnull(strstr(inner_error.text, "in progress"));
	q.flags = KCD_SS_TRYLOCK;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
}
END_TEST

/* --- room ------------------------------------------------------------------------------------- */

START_TEST(panic_capture_without_room_is_cut_and_says_so)
{
	uint32_t most = 0;

	session_end();
	lg_create(&guest, &(struct lg_form){ .seqs = true, .ram_size = UINT64_C(12) << 20 });
	lg_populate(&guest);
	for (int32_t i = 0; i < 40; i++) {
		struct lg_thread *p =
			lg_add_light_process(&guest, 1000 + i * 10, &guest.threads[2]);

		for (int32_t k = 1; k < 8; k++)
			lg_add_light_thread(&guest, p, 1000 + i * 10 + k, &guest.threads[2]);
	}
	for (uint64_t size = 4096; size <= 512 << 10; size += 4096 * 5) {
		session_options.panic_buffer = size;
		session_begin();
		ck_assert_int_eq(capture_panic(), GS_OK);
		ck_assert_uint_eq(result.tries, 1);
		ck_assert_uint_ge(view.threads, most);
		most = view.threads;
		if (!result.complete)
			ck_assert_uint_gt(view_count_missing(&view, SS_MISSING_ROOM), 0);
		ss_session_destroy(session);
		session = NULL;
	}
	ck_assert(result.complete);
	ck_assert_uint_eq(view.threads, 8 + 40 * 8);
}
END_TEST

START_TEST(panic_capture_allocates_nothing_while_the_guest_is_stopped_and_no_buffer_before)
{
	session_capture_all();
	ck_assert_int_eq(capture_panic(), GS_OK);
	ss_result_deinit(&result);
	struct ss_request q = panic_request();
	seam_reset();
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	enum gs_code rc = ss_capture(session, &q, &result, &error);
	uint32_t allocations = seam_allocations.calls;
	ck_assert_int_eq(rc, GS_OK);
	// the finished stream, and what its names need: a handful
	ck_assert_uint_lt(allocations, 60);
}
END_TEST

Suite *suite_panic(void)
{
	Suite *s = suite_create("panic");
	TCase *tc = tcase_create("panic");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, session_setup, session_end);
	tcase_add_test(tc, panic_capture_is_a_whole_one);
	tcase_add_test(tc, first_capture_of_a_session_may_be_a_panic);
	tcase_add_test(tc, ordinary_capture_stands_aside_for_a_panic);
	tcase_add_test(tc, panic_before_the_kernel_is_known_leaves_the_registers);
	tcase_add_test(tc, second_panic_at_once_is_refused);
	tcase_add_test(tc, trylock_does_not_wait_for_the_capture_in_progress);
	tcase_add_test(tc, panic_capture_without_room_is_cut_and_says_so);
	tcase_add_test(
		tc,
		panic_capture_allocates_nothing_while_the_guest_is_stopped_and_no_buffer_before);
	suite_add_tcase(s, tc);
	return s;
}
