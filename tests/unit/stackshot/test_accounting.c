/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture says of itself: workers, time, buffers; and what a request leaves out. */
#include <string.h>

#include "kcdata/stackshot_types.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

static const enum ss_cluster_kind kinds[] = { SS_CLUSTER_BIG, SS_CLUSTER_LITTLE };

static void make(uint32_t workers)
{
	static const char *const stack[] = { "el0t_64_sync", "el0_svc", "schedule", NULL };

	session_options =
		(struct ss_options){ .workers = workers, .kinds = workers, .kind = kinds };
	lg_create(&guest, &(struct lg_form){ .seqs = true, .ram_size = UINT64_C(64) << 20 });
	lg_populate(&guest);
	for (int i = 0; i < 400; i++)
		lg_block(&guest, lg_add_process(&guest, 1000 + i, "p"), stack);
	session_begin();
}

static void capture(uint64_t flags)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.flags = flags;
	ck_assert_msg(session_capture_with(&q) == GS_OK, "%s", error.text);
}

START_TEST(each_worker_that_worked_says_what_it_did)
{
	uint32_t both = 0;

	make(2);
	for (int round = 0; round < 20 || (!both && round < 2000); round++) {
		uint64_t tasks = 0, threads = 0, bytes = 0;

		capture(0);
		ck_assert_uint_ge(view.workers, 1);
		ck_assert_uint_eq(view.times.workers, view.workers);
		ck_assert_int_eq(view.worker[0].cpu_number, 0);
		ck_assert_int_eq(view.worker[0].cluster_type, 2);
		for (uint32_t i = 0; i < view.workers; i++) {
			const struct kcd_latency_cpu *w = &view.worker[i];

			tasks += w->tasks_processed;
			threads += w->threads_processed;
			bytes += w->total_buf;
			ck_assert_uint_gt(w->total_latency_mt, 0);
			ck_assert_uint_le(w->total_latency_mt, view.times.collect_ns);
			ck_assert_uint_le(w->init_latency_mt + w->workqueue_latency_mt,
					  w->total_latency_mt);
			ck_assert_uint_le(w->intercluster_buf_used, w->total_buf);
		}
		ck_assert_uint_eq(tasks, result.tasks);
		ck_assert_uint_eq(threads, result.threads + 2); // and the idle ones
		ck_assert_uint_ge(bytes, view.times.buffer_used - view.times.buffer_overhead);
		if (view.workers == 2)
			ck_assert_int_eq(view.worker[1].cluster_type, 1);
		both += view.workers == 2 && view.worker[1].tasks_processed;
	}
	ck_assert_uint_gt(both, 0);
}
END_TEST

START_TEST(capture_says_where_its_time_and_room_went)
{
	make(2);
	capture(0);
	ck_assert_uint_eq(view.latency.latency_version, 2);
	ck_assert_uint_gt(view.latency.setup_latency_mt, 0);
	ck_assert_uint_gt(view.latency.task_queue_building_latency_mt, 0);
	ck_assert_uint_eq(view.latency.total_task_iteration_latency_mt, 0);
	ck_assert_uint_le(view.latency.setup_latency_mt +
				  view.latency.task_queue_building_latency_mt +
				  view.latency.cpu_wait_latency_mt,
			  view.times.collect_ns);
	ck_assert_uint_eq(view.latency.buffer_count, 2);
	ck_assert_uint_eq(view.times.buffers, 2);
	ck_assert_uint_eq(view.latency.buffer_size, view.times.buffer_size);
	ck_assert_uint_eq(view.latency.buffer_overhead, view.times.buffer_overhead);
	ck_assert_uint_gt(view.times.buffer_used, 400 * 500);
	// of one process by one worker
	ck_assert_int_eq(session_capture(100), GS_OK);
	ck_assert_uint_gt(view.latency.total_task_iteration_latency_mt, 0);
	ck_assert_uint_eq(view.latency.task_queue_building_latency_mt, 0);
	ck_assert_uint_eq(view.workers, 1);
	// unless it is not wanted
	capture(KCD_SS_DISABLE_LATENCY_INFO);
	ck_assert_uint_eq(view.workers, 0);
	ck_assert_uint_eq(view.latency.latency_version, 0);
	ck_assert_uint_gt(view.times.buffer_used, 400 * 500);
}
END_TEST

START_TEST(time_of_each_process_is_recorded_when_asked_for)
{
	make(2);
	capture(0);
	for (uint32_t i = 0; i < view.tasks; i++)
		ck_assert(!view.task[i].has_latency);
	ck_assert_uint_eq(view.times.fault_ns, 0);
	capture(SS_LATENCY_INFO);
	ck_assert_uint_eq(view.tasks, 405);
	for (uint32_t i = 0; i < view.tasks; i++) {
		const struct kcd_latency_task *l = &view.task[i].latency;

		ck_assert(view.task[i].has_latency);
		ck_assert_uint_eq(l->task_uniqueid, view.task[i].id);
		ck_assert_uint_gt(l->cur_tsnap_latency + l->task_thread_count_loop_latency, 0);
		ck_assert_uint_eq(l->misc_latency, l->task_thread_count_loop_latency);
		ck_assert_uint_le(l->setup_latency + l->cur_tsnap_latency + l->misc_latency +
					  l->end_latency,
				  view.times.collect_ns);
	}
}
END_TEST

START_TEST(time_of_failed_translations_is_counted_when_asked_for)
{
	make(1);
	lg_unmap(&guest, guest.threads[0].stack + LG_STACK - 0x1000);
	capture(SS_LATENCY_INFO);
	ck_assert(!result.complete);
	uint64_t faults = 0;
	for (size_t i = 0; i < ARRAY_SIZE(view.times.faults); i++)
		faults += view.times.faults[i];
	ck_assert_uint_gt(faults, 0);
	ck_assert_uint_gt(view.times.fault_ns, 0);
	ck_assert_uint_eq(view.worker[0].faulting_time_mt, view.times.fault_ns);
}
END_TEST

START_TEST(no_more_threads_of_a_process_are_recorded_than_asked_for)
{
	struct ss_request q = session_request(SS_PID_ALL);

	make(2);
	q.threads_max = 2;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert(result.complete); // it is what was asked for
	ck_assert_uint_eq(view_task(&view, 100)->count, 2);
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 3); // so one can see it
	ck_assert_uint_eq(view_task(&view, 1)->count, 1);
	ck_assert(!view_has_thread(&view, 102));
	q.threads_max = 3;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert_uint_eq(view_task(&view, 100)->count, 3);
	q.pid = 100;
	q.threads_max = 1;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert_uint_eq(view_task(&view, 100)->count, 1);
	ck_assert_int_eq(view.thread[0].r.tid, 100);
}
END_TEST

START_TEST(threads_without_a_kernel_stack_are_left_out_when_asked_for)
{
	make(2);
	capture(0);
	ck_assert_uint_eq(view_thread(&view, 200)->frames.count, 0);
	capture(KCD_SS_ACTIVE_KERNEL_THREADS_ONLY);
	ck_assert(result.complete);
	ck_assert(!view_has_thread(&view, 200));
	ck_assert_uint_eq(view_task(&view, 200)->count, 0);
	ck_assert_uint_eq(result.threads, 405);
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert_uint_gt(view.thread[i].frames.count, 0);
}
END_TEST

static void teardown(void)
{
	session_end();
	session_options = (struct ss_options){ 0 };
}

Suite *suite_accounting(void)
{
	Suite *s = suite_create("accounting");
	TCase *c = tcase_create("all");

	tcase_add_checked_fixture(c, NULL, teardown);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, each_worker_that_worked_says_what_it_did);
	tcase_add_test(c, capture_says_where_its_time_and_room_went);
	tcase_add_test(c, time_of_each_process_is_recorded_when_asked_for);
	tcase_add_test(c, time_of_failed_translations_is_counted_when_asked_for);
	tcase_add_test(c, no_more_threads_of_a_process_are_recorded_than_asked_for);
	tcase_add_test(c, threads_without_a_kernel_stack_are_left_out_when_asked_for);
	suite_add_tcase(s, c);
	return s;
}
