/* SPDX-License-Identifier: Apache-2.0 */
/* States of a capture, and who may change them to what. */
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "introspect/stackshot/context.h"
#include "tests/unit/stackshot/suites.h"

static struct ss_context c;

static void to(enum ss_state state)
{
	c = (struct ss_context){ 0 };
	if (state == SS_INACTIVE)
		return;
	ck_assert(ss_context_setup(&c, 0));
	if (state == SS_SETUP)
		return;
	if (state == SS_PANICKED) {
		ss_context_panic(&c);
		return;
	}
	ck_assert(ss_context_run(&c));
	if (state == SS_ERRORED)
		ss_context_fail(&c, GS_EMALFORMED);
}

enum change { SETUP, RUN, FAIL, PANIC, END, CHANGES };

static void change(enum change what)
{
	switch (what) {
	case SETUP: (void)ss_context_setup(&c, 0); break;
	case RUN: (void)ss_context_run(&c); break;
	case FAIL: ss_context_fail(&c, GS_ENOSPC); break;
	case PANIC: ss_context_panic(&c); break;
	case END: (void)ss_context_end(&c); break;
	case CHANGES: break;
	}
}

START_TEST(only_these_changes_of_state_are_possible)
{
	static const enum ss_state after[5][CHANGES] = {
		[SS_INACTIVE] = { SS_SETUP, SS_INACTIVE, SS_INACTIVE, SS_INACTIVE, SS_INACTIVE },
		[SS_SETUP] = { SS_SETUP, SS_RUNNING, SS_ERRORED, SS_PANICKED, SS_INACTIVE },
		[SS_RUNNING] = { SS_RUNNING, SS_RUNNING, SS_ERRORED, SS_PANICKED, SS_INACTIVE },
		[SS_ERRORED] = { SS_ERRORED, SS_ERRORED, SS_ERRORED, SS_PANICKED, SS_INACTIVE },
		[SS_PANICKED] = { SS_PANICKED, SS_PANICKED, SS_PANICKED, SS_PANICKED, SS_INACTIVE },
	};

	for (int from = 0; from < 5; from++) {
		for (int what = 0; what < CHANGES; what++) {
			to((enum ss_state)from);
			ck_assert_int_eq(ss_context_state(&c), from);
			change((enum change)what);
			ck_assert_msg(ss_context_state(&c) == after[from][what],
				      "state %d, change %d: %d", from, what, ss_context_state(&c));
		}
	}
}
END_TEST

START_TEST(first_failure_is_the_one_that_counts)
{
	to(SS_RUNNING);
	ck_assert_int_eq(ss_context_check(&c), GS_OK);
	ss_context_fail(&c, GS_ENOSPC);
	ss_context_fail(&c, GS_EINVAL);
	ck_assert_int_eq(ss_context_check(&c), GS_EBUSY);
	ck_assert_int_eq(ss_context_end(&c), GS_ENOSPC);
	ck_assert_int_eq(ss_context_state(&c), SS_INACTIVE);
	to(SS_RUNNING);
	ck_assert_int_eq(ss_context_end(&c), GS_OK);
	to(SS_PANICKED);
	ck_assert_int_eq(ss_context_check(&c), GS_EBUSY);
	ck_assert_int_eq(ss_context_end(&c), GS_EBUSY);
}
END_TEST

START_TEST(deadline_is_said_from_when_it_has_passed)
{
	c = (struct ss_context){ 0 };
	ck_assert(ss_context_setup(&c, gs_clock_ns() + 3600 * GS_NS_PER_SEC));
	ck_assert(ss_context_run(&c));
	ck_assert_int_eq(ss_context_check(&c), GS_OK);
	c.deadline_ns = gs_clock_ns() - 1;
	ck_assert_int_eq(ss_context_check(&c), GS_ETIMEDOUT);
	// said once it stays so, and a failure is more important
	c.deadline_ns += 3600 * GS_NS_PER_SEC;
	ck_assert_int_eq(ss_context_check(&c), GS_ETIMEDOUT);
	ss_context_fail(&c, GS_ENOSPC);
	ck_assert_int_eq(ss_context_check(&c), GS_EBUSY);
	// the next one has its own
	ck_assert_int_eq(ss_context_end(&c), GS_ENOSPC);
	ck_assert(ss_context_setup(&c, 0));
	ck_assert(ss_context_run(&c));
	ck_assert_int_eq(ss_context_check(&c), GS_OK);
}
END_TEST

#define HELPERS 3

static int plain[HELPERS], begun; // not atomic: ordered by the context alone
static _Atomic int entered;

static void *help(void *arg)
{
	int *mine = arg;

	*mine = -1;
	if (ss_context_enter(&c)) {
		*mine = begun;
		entered++;
		ss_context_leave(&c);
	}
	ss_context_gone(&c);
	return NULL;
}

static void start_helpers(pthread_t *id)
{
	c = (struct ss_context){ 0 };
	entered = 0;
	ck_assert(ss_context_setup(&c, 0));
	ss_context_join(&c, HELPERS);
	for (int i = 0; i < HELPERS; i++)
		ck_assert_int_eq(pthread_create(&id[i], NULL, help, &plain[i]), 0);
	ss_context_wait_arrived(&c);
}

/* Those who did not come in time have -1. @return how many had the expected value */
static int join_helpers(const pthread_t *id, int expected)
{
	int n = 0;

	ss_context_leave(&c);
	ss_context_wait_done(&c);
	ss_context_wait_gone(&c);
	for (int i = 0; i < HELPERS; i++) {
		ck_assert(plain[i] == expected || plain[i] == -1);
		n += plain[i] == expected;
		ck_assert_int_eq(pthread_join(id[i], NULL), 0);
	}
	return n;
}

/* ... having waited until all were in. */
static void wait_for_all(void)
{
	while (entered < HELPERS)
		;
}

START_TEST(workers_begin_with_the_running_state_and_are_waited_for)
{
	pthread_t id[HELPERS];

	for (int round = 1; round <= 20; round++) {
		start_helpers(id);
		begun = round;
		ck_assert(ss_context_run(&c));
		if (round % 2)
			wait_for_all();
		int n = join_helpers(id, round);
		ck_assert(round % 2 == 0 || n == HELPERS);
	}
}
END_TEST

START_TEST(worker_that_comes_too_late_does_nothing)
{
	c = (struct ss_context){ 0 };
	ck_assert(ss_context_setup(&c, 0));
	ss_context_join(&c, 1);
	ck_assert(ss_context_run(&c));
	ss_context_leave(&c);
	ss_context_wait_done(&c); // does not wait for it
	ck_assert(!ss_context_enter(&c));
	ss_context_gone(&c);
	ss_context_wait_gone(&c);
	ck_assert_int_eq(ss_context_end(&c), GS_OK);
	// and in the next round it may enter again
	ck_assert(ss_context_setup(&c, 0));
	ss_context_join(&c, 1);
	ck_assert(ss_context_run(&c));
	ck_assert(ss_context_enter(&c));
	ss_context_leave(&c);
	ss_context_gone(&c);
}
END_TEST

START_TEST(workers_that_sleep_are_woken)
{
	pthread_t id[HELPERS];

	start_helpers(id);
	// they have spun long enough when all are asleep: wait for the event, not for a time
	while (atomic_load(&c.sleepers) < HELPERS)
		;
	begun = 7;
	ck_assert(ss_context_run(&c));
	wait_for_all();
	ck_assert_int_eq(join_helpers(id, 7), HELPERS);
}
END_TEST

START_TEST(workers_of_a_capture_that_never_begins_are_let_go)
{
	pthread_t id[HELPERS];

	for (int how = 0; how < 3; how++) {
		start_helpers(id);
		if (how == 0)
			ck_assert_int_eq(ss_context_end(&c), GS_OK);
		else if (how == 1)
			ss_context_fail(&c, GS_ESYS);
		else
			ss_context_panic(&c);
		ck_assert_int_eq(join_helpers(id, -1), HELPERS);
	}
}
END_TEST

Suite *suite_context(void)
{
	Suite *s = suite_create("context");
	TCase *tc = tcase_create("context");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, only_these_changes_of_state_are_possible);
	tcase_add_test(tc, first_failure_is_the_one_that_counts);
	tcase_add_test(tc, deadline_is_said_from_when_it_has_passed);
	tcase_add_test(tc, workers_begin_with_the_running_state_and_are_waited_for);
	tcase_add_test(tc, worker_that_comes_too_late_does_nothing);
	tcase_add_test(tc, workers_that_sleep_are_woken);
	tcase_add_test(tc, workers_of_a_capture_that_never_begins_are_let_go);
	suite_add_tcase(s, tc);
	return s;
}
