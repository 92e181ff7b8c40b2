/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers: the same capture, whoever does what; and nothing while the guest is stopped. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/trap.h"

#ifdef __SANITIZE_THREAD__
#define ROUNDS 20
#elif defined(__SANITIZE_ADDRESS__)
#define ROUNDS 30
#else
#define ROUNDS 100
#endif

static const uint32_t worker_counts[] = { 1, 2, 4, 8 };

/* Processes of all sizes: 600 threads or so. */
static void make_guest(void)
{
	uint64_t seed = 9;
	int32_t pid = 1000;

	lg_create(&guest, &(struct lg_form){ .seqs = true, .ram_size = UINT64_C(12) << 20 });
	lg_populate(&guest);
	for (uint32_t i = 0; i < 120; i++) {
		struct lg_thread *p = lg_add_light_process(&guest, pid++, &guest.threads[2]);
		uint32_t more = i % 10 == 0 ? 40 : (uint32_t)prng_below(&seed, i % 3 ? 3 : 14);

		while (more--)
			lg_add_light_thread(&guest, p, pid++, &guest.threads[2]);
	}
	// things that are missing are in order, too
	lg_stack_reset(&guest, &guest.threads[4]);
	guest.threads[4].task->fp = guest.threads[4].stack + 0x1234;
	guest.threads[50].task->pid = -1;
	guest.threads[90].task->tgid = 1;
}

static void start(uint32_t workers)
{
	ss_session_destroy(session);
	session_options.workers = workers;
	session_begin();
}

/* From the first container to the end of the last. */
static size_t task_section(const struct ss_result *r, const uint8_t **start_out)
{
	struct kcd_reader reader;
	struct kcd_item it;
	size_t first = 0, end = 0;
	enum kcd_code rc = kcd_reader_init(&reader, r->data, r->size, KCD_STRICT, NULL);

	while (!rc && !(rc = kcd_reader_next(&reader, &it))) {
		if (it.kind == KCD_ITEM_CONTAINER_BEGIN && !first)
			first = it.offset;
		if (it.kind == KCD_ITEM_CONTAINER_END)
			end = reader.pos;
	}
	ck_assert_int_eq(rc, KCD_DONE);
	ck_assert_uint_gt(end, first);
	*start_out = (const uint8_t *)r->data + first;
	return end - first;
}

static const struct ss_request all = { .version = SS_REQUEST_VERSION,
				       .size = sizeof(all),
				       .pid = SS_PID_ALL };

/* The records of what is missing. */
static void copy_missing(const struct ss_result *r, uint8_t *out, size_t *size_out)
{
	struct kcd_reader reader;
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&reader, r->data, r->size, KCD_STRICT, NULL);

	*size_out = 0;
	while (!rc && !(rc = kcd_reader_next(&reader, &it))) {
		if (it.kind != KCD_ITEM_ARRAY || it.elem_type != SS_RECORD_MISSING)
			continue;
		memcpy(out, it.data, it.size);
		*size_out = it.size;
	}
}

START_TEST(task_section_is_the_same_with_any_number_of_workers)
{
	static uint8_t missing[SS_MISSING_LISTED * sizeof(struct ss_missing_record)];
	static uint8_t expected_missing[sizeof(missing)];
	uint8_t *expected = NULL;
	const uint8_t *section;
	size_t expected_size = 0, missing_size, expected_missing_size = 0;

	for (size_t i = 0; i < ARRAY_SIZE(worker_counts); i++) {
		start(worker_counts[i]);
		session_capture_all();
		for (int round = 0; round < ROUNDS; round++) {
			ck_assert_int_eq(session_capture_only(&all), GS_OK);
			size_t size = task_section(&result, &section);
			copy_missing(&result, missing, &missing_size);
			if (!expected) {
				expected = malloc(size);
				ck_assert_ptr_nonnull(expected);
				memcpy(expected, section, size);
				expected_size = size;
				memcpy(expected_missing, missing, missing_size);
				expected_missing_size = missing_size;
				ck_assert_uint_ge(missing_size,
						  2 * sizeof(struct ss_missing_record));
			}
			ck_assert_uint_eq(size, expected_size);
			ck_assert_int_eq(memcmp(section, expected, size), 0);
			ck_assert_uint_eq(missing_size, expected_missing_size);
			ck_assert_int_eq(memcmp(missing, expected_missing, missing_size), 0);
		}
	}
	free(expected);
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

START_TEST(kinds_of_clusters_change_nothing_in_the_capture)
{
	static const enum ss_cluster_kind kind[] = { SS_CLUSTER_LITTLE, SS_CLUSTER_BIG };
	const uint8_t *a, *b;

	start(1);
	session_capture_all();
	size_t size = task_section(&result, &a);
	uint8_t *expected = malloc(size);
	ck_assert_ptr_nonnull(expected);
	memcpy(expected, a, size);
	session_options.kind = kind;
	session_options.kinds = 2;
	start(3);
	ck_assert_int_eq(session->ordinary.worker[0]->kind, SS_CLUSTER_LITTLE);
	ck_assert_int_eq(session->ordinary.worker[1]->kind, SS_CLUSTER_BIG);
	ck_assert_int_eq(session->ordinary.worker[2]->kind, SS_CLUSTER_SAME);
	session_capture_all();
	ck_assert_uint_eq(task_section(&result, &b), size);
	ck_assert_mem_eq(b, expected, size);
	free(expected);
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

/* --- the stopped interval --------------------------------------------------------------------- */

static enum gs_code set_trap(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_arm();
	return GS_OK;
}

static enum gs_code clear_trap(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	trap_set = false;
	return GS_OK;
}

static pthread_mutex_t some_lock = PTHREAD_MUTEX_INITIALIZER;

START_TEST(nothing_is_allocated_locked_formatted_or_written_while_the_guest_is_stopped)
{
	for (size_t i = 0; i < ARRAY_SIZE(worker_counts); i++) {
		start(worker_counts[i]);
		trap_reset();
		guest.on_stop = set_trap;
		guest.on_resume = clear_trap;
		for (int round = 0; round < 5; round++) {
			struct ss_request q = session_request(round == 3 ? 100 : SS_PID_ALL);
			ck_assert_int_eq(session_capture_only(&q), GS_OK);
			ck_assert_msg(trap_calls == 0, "%s while the guest was stopped",
				      trap_first);
		}
	}
	// the trap works
	trap_arm();
	void *volatile p = malloc(1); // volatile: so that both calls are made
	free(p);
	pthread_mutex_lock(&some_lock);
	pthread_mutex_unlock(&some_lock);
	trap_set = false;
	ck_assert_uint_eq(trap_calls, 4);
	ck_assert_str_eq(trap_first, "malloc");
}
END_TEST

/* A session and two captures. What they return is looked at later: the test program allocates, too. */
struct outcome {
	enum gs_code created, taken[2];
	bool has_session, has_data[2], resumed;
	uint32_t allocations;
};

static struct outcome take_two(uint32_t fail_at)
{
	struct ss_request q = session_request(SS_PID_ALL);
	struct outcome o = { .resumed = true };

	trap_fail_at = fail_at;
	o.created = ss_session_create_with(&guest.m.guest, &session_options, &session, &error);
	o.has_session = session;
	for (int i = 0; !o.created && i < 2; i++) {
		ss_result_deinit(&result);
		o.taken[i] = ss_capture(session, &q, &result, &error);
		o.has_data[i] = result.data;
		o.resumed &= guest.m.stop_depth == 0;
	}
	o.allocations = trap_allocations;
	trap_reset();
	return o;
}

START_TEST(any_allocation_that_fails_is_an_error_or_is_survived)
{
	struct outcome o;
	uint32_t n = 0, failures = 0, incomplete = 0;

	session_options.workers = 2;
	do {
		ss_session_destroy(session);
		session = NULL;
		o = take_two(++n);
		ck_assert(!o.created || o.created == GS_ENOSPC);
		ck_assert_int_eq(o.has_session, !o.created);
		failures += o.created == GS_ENOSPC;
		if (o.created)
			continue;
		ck_assert(o.resumed);
		for (int i = 0; i < 2; i++) {
			ck_assert(!o.taken[i] || o.taken[i] == GS_ENOSPC);
			ck_assert_int_eq(o.has_data[i], !o.taken[i]);
			failures += o.taken[i] == GS_ENOSPC;
		}
		incomplete += !o.taken[1] && result.threads < 500;
		// the next capture is a good one
		ck_assert_int_eq(session_capture_only(&all), GS_OK);
		ck_assert_uint_gt(result.threads, 500);
	} while (o.allocations >= n);
	ck_assert_uint_gt(failures, 20);
	ck_assert_uint_eq(incomplete, 0); // the second capture searches again
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
	// without its assertion, which allocates
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs;
	session_begin();
}

static void teardown(void)
{
	trap_reset();
	session_end();
}

Suite *suite_parallel(void)
{
	Suite *s = suite_create("parallel");
	TCase *tc = tcase_create("parallel");

	tcase_set_timeout(tc, 600);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, task_section_is_the_same_with_any_number_of_workers);
	tcase_add_test(tc, every_worker_does_some_of_the_work);
	tcase_add_test(tc, one_process_is_for_one_worker);
	tcase_add_test(tc, kinds_of_clusters_change_nothing_in_the_capture);
	tcase_add_test(tc, more_kinds_than_clusters_are_refused);
	tcase_add_test(tc, too_many_workers_are_refused);
	tcase_add_test(tc,
		       nothing_is_allocated_locked_formatted_or_written_while_the_guest_is_stopped);
	tcase_add_test(tc, any_allocation_that_fails_is_an_error_or_is_survived);
	tcase_add_test(tc, deadline_gives_what_there_is_by_then);
	tcase_add_test(tc, deadline_that_has_passed_leaves_the_registers);
	suite_add_tcase(s, tc);
	return s;
}
