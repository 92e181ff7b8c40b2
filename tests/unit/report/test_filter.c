/* SPDX-License-Identifier: Apache-2.0 */
/* Which threads of a capture are shown. */
#include "cli/report/filter.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define SECOND UINT64_C(1000000000)

static struct lg_thread *sleeper, *second, *other;
static char *text;

/* Processes 300, with threads 300 and 301, and 400; all ran on a CPU that no other thread was on. */
static void setup(void)
{
	sample_setup();
	sleeper = lg_add_process(&guest, 300, "sleepy");
	second = lg_add_thread(&guest, sleeper, 301, "second");
	other = lg_add_process(&guest, 400, "other");
	struct lg_thread *const all[] = { sleeper, second, other };
	for (int i = 0; i < 3; i++) {
		lg_sleep(&guest, all[i], i == 1 ? "futex_wait" : "pipe_read");
		all[i]->task->thread_cpu = 5;
		all[i]->task->exec_start = (uint64_t)(100 + 10 * i) * SECOND;
	}
	sleeper->task->state = 1; // S; the others D
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static size_t apply(struct rep_filter f)
{
	ck_assert(rep_filter_is_set(&f));
	sample_take();
	sample_load();
	const size_t shown = rep_filter_apply(&capture, &f);
	free(text);
	text = sample_text(false);
	return shown;
}

static bool shows(int32_t tid)
{
	char line[32];

	snprintf(line, sizeof(line), "\n  thread %d ", tid);
	return strstr(text, line) != NULL;
}

START_TEST(nothing_set_hides_nothing)
{
	struct rep_filter none = { 0 };

	ck_assert(!rep_filter_is_set(&none));
	sample_take();
	sample_load();
	ck_assert_uint_eq(rep_filter_apply(&capture, &none), capture.thread_count);
	text = sample_text(false);
	ck_assert_ptr_null(strstr(text, "threads are shown"));
}
END_TEST

START_TEST(process_is_one_of_a_name_or_a_number)
{
	ck_assert_uint_eq(apply((struct rep_filter){ .process = "sleepy" }), 2);
	ck_assert(shows(300) && shows(301) && !shows(400));
	ck_assert_ptr_null(strstr(text, "process 400"));
	ck_assert_ptr_nonnull(strstr(text, "\n2 of "));
	ck_assert_uint_eq(apply((struct rep_filter){ .process = "400" }), 1);
	ck_assert(shows(400) && !shows(300));
	ck_assert_uint_eq(apply((struct rep_filter){ .process = "sleep" }), 0);
	ck_assert_ptr_nonnull(strstr(text, "\n0 of "));
}
END_TEST

START_TEST(function_is_one_of_any_frame)
{
	apply((struct rep_filter){ .function = "futex_wait" });
	ck_assert(!shows(300) && shows(301) && !shows(400));
	// the process is there for its thread
	ck_assert_ptr_nonnull(strstr(text, "\nprocess 300 sleepy"));
	apply((struct rep_filter){ .function = "el0_svc" });
	ck_assert(shows(300) && shows(301) && shows(400));
	ck_assert_uint_eq(apply((struct rep_filter){ .function = "futex" }), 0);
}
END_TEST

START_TEST(states_are_letters)
{
	apply((struct rep_filter){ .states = "D" });
	ck_assert(!shows(300) && shows(301) && shows(400));
	apply((struct rep_filter){ .states = "ZS" });
	ck_assert(shows(300) && !shows(301) && !shows(400));
	ck_assert(rep_filter_are_states("SDRTtZXIP"));
	ck_assert(!rep_filter_are_states(""));
	ck_assert(!rep_filter_are_states("SQ"));
}
END_TEST

START_TEST(waiting_is_told_by_what_ran_on_the_same_cpu)
{
	apply((struct rep_filter){ .waiting_ns = 20 * SECOND });
	ck_assert(shows(300) && !shows(301) && !shows(400));
	apply((struct rep_filter){ .waiting_ns = 10 * SECOND });
	ck_assert(shows(300) && shows(301) && !shows(400));
	apply((struct rep_filter){ .waiting_ns = 10 * SECOND, .states = "D" });
	ck_assert(!shows(300) && shows(301));
	// on a CPU of its own nobody can say
	sleeper->task->thread_cpu = 6;
	apply((struct rep_filter){ .waiting_ns = 1 });
	ck_assert(!shows(300) && shows(301));
	sleeper->task->thread_cpu = 100000;
	apply((struct rep_filter){ .waiting_ns = 1 });
	ck_assert(!shows(300) && shows(301));
	// one that wants a CPU does not wait
	second->task->state = 0;
	apply((struct rep_filter){ .waiting_ns = 1 });
	ck_assert(!shows(301));
}
END_TEST

START_TEST(groups_are_of_those_that_are_shown)
{
	apply((struct rep_filter){ .process = "sleepy" });
	free(text);
	text = sample_text(true);
	ck_assert_ptr_nonnull(strstr(text, "sleepy"));
	ck_assert_ptr_nonnull(strstr(text, "second"));
	ck_assert_ptr_null(strstr(text, "other"));
}
END_TEST

Suite *suite_filter(void)
{
	Suite *s = suite_create("filter");
	TCase *tc = tcase_create("filter");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nothing_set_hides_nothing);
	tcase_add_test(tc, process_is_one_of_a_name_or_a_number);
	tcase_add_test(tc, function_is_one_of_any_frame);
	tcase_add_test(tc, states_are_letters);
	tcase_add_test(tc, waiting_is_told_by_what_ran_on_the_same_cpu);
	tcase_add_test(tc, groups_are_of_those_that_are_shown);
	suite_add_tcase(s, tc);
	return s;
}
