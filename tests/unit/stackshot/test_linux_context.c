/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in, when a capture is asked for it. */
#include <string.h>

#include "base/clock.h"
#include "introspect/linux/context.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define ARGS UINT64_C(0x0000aaaa00000100)

static struct ss_request request;
static struct lg_thread *worker; /* process 100 */

static void setup(void)
{
	session_make(&(struct lg_form){ 0 });
	worker = &guest.threads[2];
	ck_assert_int_eq(worker->task->pid, 100);
	lg_set_cgroup(&guest, worker, "/a/b");
	lg_set_namespaces(&guest, worker, 4000);
	struct lg_mm *mm = lg_add_mm(&guest, worker, 1);
	mm->arg_start = ARGS;
	mm->arg_end = ARGS + 3;
	memcpy(lg_user_page(&guest, mm, ARGS) + ARGS % 4096, "ab", 3);
	worker->signal->shared_pending.signal = 4;
	worker->task->pending.signal = 8;
	worker->task->on_rq = 1;
	worker->task->deadline = 12;
	worker->task->lockdep_depth = 2;
	worker->task->sched_delayed = 1;
	request = session_request(SS_PID_ALL);
	request.flags = SS_CONTEXT;
}

static void capture(void)
{
	ck_assert_msg(!session_capture_with(&request), "%s", error.text);
}

START_TEST(processes_and_threads_have_their_records)
{
	capture();
	ck_assert(result.complete && (view.out_flags & SS_CONTEXT));
	const struct view_task *t = view_task(&view, 100);
	ck_assert(t->has_context);
	ck_assert_str_eq(t->context.cgroup, "/a/b");
	ck_assert_uint_eq(t->context.namespace[LNX_NS_CGROUP], 4006);
	ck_assert_uint_eq(t->context.pending, 4);
	ck_assert_mem_eq(t->context.command, "ab", 3);
	const struct view_thread *th = view_thread(&view, 100);
	ck_assert(th->has_context);
	ck_assert_uint_eq(th->context.pending, 8);
	ck_assert_uint_eq(th->context.on_rq, 1);
	ck_assert_uint_eq(th->context.deadline, 12);
	ck_assert_uint_eq(th->context.locks, 2);
	ck_assert_uint_eq(th->context.delayed, 1);
	ck_assert_uint_eq(th->context.rt_place, 0);
	ck_assert(view_thread(&view, 102)->has_context);
	ck_assert(view_task(&view, 2)->has_context);
}
END_TEST

START_TEST(idle_threads_have_none)
{
	capture();
	for (uint32_t i = 0; i < view.tasks; i++)
		ck_assert_int_eq(view.task[i].has_context, view.task[i].r.pid != 0);
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert_int_eq(view.thread[i].has_context, view.thread[i].r.tid != 0);
}
END_TEST

START_TEST(other_captures_have_none)
{
	session_capture_all();
	ck_assert(!view_task(&view, 100)->has_context);
	ck_assert(!view_thread(&view, 100)->has_context);
	ck_assert_uint_eq(view.out_flags & SS_CONTEXT, 0);
}
END_TEST

// What is not there is not known, and no part of the capture is missing for that.
START_TEST(process_without_anything_has_an_empty_record)
{
	worker->task->cgroups = worker->task->nsproxy = worker->task->mm = 0;
	capture();
	ck_assert(result.complete);
	ck_assert_uint_eq(view_task(&view, 100)->context.known, LNX_PROCESS_PENDING);
}
END_TEST

START_TEST(delta_with_it_is_refused)
{
	request.flags |= KCD_SS_COLLECT_DELTA_SNAPSHOT;
	request.since_ns = gs_clock_ns();
	ck_assert_int_eq(session_capture_with(&request), GS_EINVAL);
	ck_assert_msg(strstr(error.text, "CONTEXT"), "%s", error.text);
}
END_TEST

Suite *suite_linux_context(void)
{
	Suite *s = suite_create("linux_context");
	TCase *tc = tcase_create("linux_context");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, session_end);
	tcase_add_test(tc, processes_and_threads_have_their_records);
	tcase_add_test(tc, idle_threads_have_none);
	tcase_add_test(tc, other_captures_have_none);
	tcase_add_test(tc, process_without_anything_has_an_empty_record);
	tcase_add_test(tc, delta_with_it_is_refused);
	suite_add_tcase(s, tc);
	return s;
}
