/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that turn out too small while the guest is stopped. */
#include <string.h>

#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

/* What a hook adds, as if the guest had made it between the count and the stop. */
static uint32_t add_processes, add_threads, at_stop;
static int32_t next_pid;

static void grow(struct linux_guest *g)
{
	struct lg_thread *stack = &g->threads[2]; // 6 frames

	for (uint32_t i = 0; i < add_processes; i++)
		lg_add_light_process(g, next_pid++, stack);
	for (uint32_t i = 0; i < add_threads; i++)
		lg_add_light_thread(g, &g->threads[2], next_pid++, stack);
}

static enum gs_code grow_at_stop(struct linux_guest *g, uint32_t nth)
{
	if (nth == at_stop)
		grow(g);
	return GS_OK;
}

static void setup(void)
{
	session_make(&(struct lg_form){ .seqs = true, .ram_size = UINT64_C(12) << 20 });
	guest.on_stop = grow_at_stop;
	next_pid = 1000;
	at_stop = 2; // the first is for the registers of the search
	add_processes = add_threads = 0;
}

static void expect(uint32_t tasks, uint32_t threads)
{
	ck_assert(result.complete);
	ck_assert_uint_eq(result.tasks, tasks);
	ck_assert_uint_eq(result.threads, threads);
	ck_assert_uint_eq(view.missing_count, 0);
}

START_TEST(processes_that_come_between_count_and_stop_are_captured_in_a_second_try)
{
	add_processes = 400; // over 256 KiB of records
	session_capture_all();
	expect(404, 406);
	ck_assert_uint_eq(result.tries, 2);
	ck_assert_uint_gt(view.times.prior_ns, 0);
	ck_assert_uint_eq(view.duration.stackshot_duration_prior, view.times.prior_ns);
	// the next capture knows what it takes
	session_capture_all();
	expect(404, 406);
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(list_of_processes_longer_than_its_room_is_captured_in_a_later_try)
{
	add_processes = 1500; // over the 1024 of the first try
	session_capture_all();
	expect(1504, 1506);
	ck_assert_uint_ge(result.tries, 2);
	session_capture_all();
	expect(1504, 1506);
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(list_of_threads_longer_than_its_room_is_captured_in_a_later_try)
{
	add_threads = 2500;
	session_capture_all();
	expect(4, 2506);
	ck_assert_uint_ge(result.tries, 2);
	ck_assert_uint_eq(view_task(&view, 100)->count, 2503);
	session_capture_all();
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(guest_that_was_large_before_is_captured_in_one_try)
{
	at_stop = 1; // before the count
	add_processes = 900;
	add_threads = 500;
	session_capture_all();
	expect(904, 1406);
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(capture_of_one_process_does_not_need_room_for_all)
{
	add_processes = 900;
	ck_assert_int_eq(session_capture(100), GS_OK);
	expect(1, 3);
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(loop_longer_than_the_room_is_found_to_be_one)
{
	add_processes = 1500;
	grow(&guest);
	add_processes = 0;
	// the last leads to the middle
	guest.threads[guest.thread_count - 1].task->tasks.next =
		guest.threads[500].address + offsetof(struct lg_task, tasks);
	session_capture_all();
	ck_assert(!result.complete);
	ck_assert_uint_eq(view.missing_count, 1);
	ck_assert_ptr_nonnull(strstr(view_missing(&view, SS_MISSING_TASKS, 0)->reason,
				     "breaks off after 1504: loop"));
	ck_assert_uint_eq(result.tasks, 1504);
}
END_TEST

// Deep stacks for all: over 8 MiB, the most for a guest of so little memory.
START_TEST(capture_over_the_limit_is_a_shortage_that_says_so)
{
	struct lg_thread *t = &guest.threads[2];
	uint64_t lr = lg_in(&guest, "vfs_read");

	for (uint64_t at = 0; at < 990 * 16; at += 16) {
		uint64_t record[2] = { t->stack + at + 16, lr };

		if (at == 989 * 16)
			record[0] = t->stack + LG_TOP;
		memcpy(t->stack_bytes + at, record, 16);
	}
	t->task->fp = t->fp = t->stack;
	add_processes = 1200;
	grow(&guest);
	add_processes = 0;
	ck_assert_int_eq(session_capture(SS_PID_ALL), GS_ENOSPC);
	ck_assert_msg(strstr(error.text, "resource shortage"), "%s", error.text);
	ck_assert_msg(strstr(error.text, "8388608 bytes"), "%s", error.text);
	// what fits is still to be had
	ck_assert_int_eq(session_capture(100), GS_OK);
	expect(1, 3);
	ck_assert_uint_eq(view_thread(&view, 100)->frames.count, 991);
}
END_TEST

/* With one worker, and with three: nothing is different. */
static void setup_three(void)
{
	session_options.workers = 3;
	setup();
}

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, processes_that_come_between_count_and_stop_are_captured_in_a_second_try);
	tcase_add_test(tc, list_of_processes_longer_than_its_room_is_captured_in_a_later_try);
	tcase_add_test(tc, list_of_threads_longer_than_its_room_is_captured_in_a_later_try);
	tcase_add_test(tc, guest_that_was_large_before_is_captured_in_one_try);
	tcase_add_test(tc, capture_of_one_process_does_not_need_room_for_all);
	tcase_add_test(tc, loop_longer_than_the_room_is_found_to_be_one);
	tcase_add_test(tc, capture_over_the_limit_is_a_shortage_that_says_so);
}

Suite *suite_room(void)
{
	Suite *s = suite_create("room");
	TCase *one = tcase_create("one worker"), *three = tcase_create("three workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(three, 300);
	tcase_add_checked_fixture(one, setup, session_end);
	tcase_add_checked_fixture(three, setup_three, session_end);
	add_tests(one);
	add_tests(three);
	suite_add_tcase(s, one);
	suite_add_tcase(s, three);
	return s;
}
