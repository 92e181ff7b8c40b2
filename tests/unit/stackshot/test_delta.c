/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that tell only what has changed since another one. */
#include <stdlib.h>
#include <string.h>

#include "kcdata/stackshot_types.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/trap.h"

/* Of lg_populate(). */
enum { INIT, KTHREADD, WORKER, RUNNER, WAITER, ZOMBIE };

static const struct lg_form large = { .seqs = true, .ram_size = UINT64_C(64) << 20 };

static struct lg_task *task_of(int i)
{
	return guest.threads[i].task;
}

static uint64_t id_of(int i)
{
	const struct lg_task *t = task_of(i);

	return t->start_boottime / 1000000 << 22 | (uint32_t)t->pid;
}

/* A thread gets a CPU, and gives it up again. */
static void runs(int i)
{
	task_of(i)->nvcsw++;
	task_of(i)->exec_start += 1000;
	task_of(i)->sum_exec_runtime += 100;
}

static uint64_t full(void)
{
	session_capture_all();
	ck_assert(!view.is_delta && result.same_tasks == 0 && result.same_threads == 0);
	return result.start_ns;
}

static struct ss_request delta_request(uint64_t since_ns)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.flags = KCD_SS_COLLECT_DELTA_SNAPSHOT;
	q.since_ns = since_ns;
	return q;
}

static uint64_t delta(uint64_t since_ns)
{
	struct ss_request q = delta_request(since_ns);

	ck_assert_msg(session_capture_with(&q) == GS_OK, "%s", error.text);
	ck_assert(view.is_delta);
	ck_assert_uint_eq(view.since_ns, since_ns);
	ck_assert_uint_gt(result.start_ns, since_ns);
	return result.start_ns;
}

static bool is_same_task(uint64_t id)
{
	for (uint32_t i = 0; i < view.same_tasks; i++)
		if (view.same_task[i] == id)
			return true;
	return false;
}

static const struct view_same *same_thread(uint64_t id)
{
	for (uint32_t i = 0; i < view.same_count; i++)
		if (view.same[i].id == id)
			return &view.same[i];
	return NULL;
}

/* All that is told: the thread on a vCPU with its process's others named, and the idle task. */
static void expect_nothing_but_the_runner(void)
{
	ck_assert_uint_eq(view.tasks, 2);
	ck_assert(view_task_by_id(&view, id_of(WORKER))->is_told);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(WORKER))->count, 1);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(WORKER))->same_count, 2);
	ck_assert_ptr_nonnull(view_thread_by_id(&view, id_of(RUNNER)));
	ck_assert(!same_thread(id_of(WORKER))->runnable);
	ck_assert(!same_thread(id_of(WAITER))->runnable);
	ck_assert_uint_eq(view_task_by_id(&view, 0)->count, 2);
	ck_assert_uint_eq(view.same_tasks, 3);
	ck_assert(is_same_task(id_of(INIT)) && is_same_task(id_of(KTHREADD)) &&
		  is_same_task(id_of(ZOMBIE)));
	ck_assert_uint_eq(result.tasks, 1);
	ck_assert_uint_eq(result.threads, 1);
	ck_assert_uint_eq(result.same_tasks, 3);
	ck_assert_uint_eq(result.same_threads, 5);
	ck_assert(result.complete);
}

START_TEST(what_has_not_changed_is_named_only)
{
	uint64_t first = full();

	delta(first);
	expect_nothing_but_the_runner();
	// a delta is as good a base as a full one, and the first one is still one
	uint64_t second = delta(first);
	expect_nothing_but_the_runner();
	delta(second);
	expect_nothing_but_the_runner();
	delta(first);
	expect_nothing_but_the_runner();
	// sums of a process that is told are those of all its threads
	ck_assert_uint_eq(view_task(&view, 100)->stock.ts_faults, 3 * 17);
	// what a reader knows from the base is not repeated
	ck_assert_int_eq(view.banner[0], 0);
	ck_assert_int_eq(view.release[0], 0);
	ck_assert_uint_eq(view.vcpus, 2);
}
END_TEST

START_TEST(thread_that_ran_is_told_whole)
{
	uint64_t first = full(), second;

	runs(WAITER);
	second = delta(first);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(WORKER))->count, 2);
	ck_assert_uint_eq(view_thread_by_id(&view, id_of(WAITER))->frames.count, 5);
	ck_assert_ptr_null(same_thread(id_of(WAITER)));
	ck_assert_uint_eq(result.threads, 2);
	// it ran before the second and after the first
	delta(second);
	expect_nothing_but_the_runner();
	delta(first);
	ck_assert_ptr_nonnull(view_thread_by_id(&view, id_of(WAITER)));
	// the only thread of its process
	runs(INIT);
	delta(second);
	ck_assert(view_task_by_id(&view, id_of(INIT))->is_told);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(INIT))->count, 1);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(INIT))->same_count, 0);
	ck_assert(!is_same_task(id_of(INIT)));
}
END_TEST

static void change_state(void)
{
	task_of(WAITER)->state = 0;
}
static void change_exit_state(void)
{
	task_of(WAITER)->exit_state = 0x10;
}
static void change_flags(void)
{
	task_of(WAITER)->flags ^= 0x40000;
}
static void change_priority(void)
{
	task_of(WAITER)->static_prio--;
}
static void change_name(void)
{
	strcpy(task_of(WAITER)->comm, "renamed");
}
static void change_switches(void)
{
	task_of(WAITER)->nivcsw++;
}
static void change_run_time(void)
{
	task_of(WAITER)->exec_start++;
}

START_TEST(any_change_of_a_thread_makes_it_told)
{
	static void (*const change[])(void) = { change_state,	 change_exit_state, change_flags,
						change_priority, change_name,	    change_switches,
						change_run_time };
	uint64_t base = full();

	for (size_t i = 0; i < ARRAY_SIZE(change); i++) {
		change[i]();
		base = delta(base);
		ck_assert_msg(view_thread_by_id(&view, id_of(WAITER)) != NULL, "change %zu", i);
		base = delta(base);
		if (i == 0)
			task_of(WAITER)->state = 2; // it is runnable until here
		else
			ck_assert_msg(view_thread_by_id(&view, id_of(WAITER)) == NULL, "change %zu",
				      i);
	}
}
END_TEST

START_TEST(thread_that_waits_for_a_cpu_is_named_with_its_priority)
{
	task_of(INIT)->state = 0;
	task_of(WAITER)->state = 0;
	delta(full());
	// a process of which nothing is told, but of which a thread could run
	const struct view_task *t = view_task_by_id(&view, id_of(INIT));
	ck_assert(t && !t->is_told && t->count == 0 && t->same_count == 1);
	ck_assert(same_thread(id_of(INIT))->runnable);
	ck_assert_uint_eq(same_thread(id_of(INIT))->delta.tds_state, KCD_THREAD_RUN);
	ck_assert_int_eq(same_thread(id_of(INIT))->delta.tds_sched_priority, task_of(INIT)->prio);
	ck_assert_int_eq(same_thread(id_of(INIT))->delta.tds_base_priority,
			 task_of(INIT)->static_prio);
	ck_assert(same_thread(id_of(WAITER))->runnable);
	ck_assert(!same_thread(id_of(WORKER))->runnable);
}
END_TEST

/* Take an element off a list, as list_del() does. */
static void unlink_from(struct lg_list *list)
{
	memcpy(lg_word(&guest, list->prev), &list->next, 8);
	memcpy(lg_word(&guest, list->next + 8), &list->prev, 8);
}

START_TEST(new_and_gone_threads_and_processes_are_seen)
{
	static const char *const stack[] = { "el0t_64_sync", "el0_svc", "schedule", NULL };
	uint64_t base = full();
	struct lg_thread *t = lg_add_thread(&guest, &guest.threads[WORKER], 103, "new");

	lg_block(&guest, t, stack);
	base = delta(base);
	ck_assert_uint_eq(view_thread(&view, 103)->frames.count, 4);
	ck_assert_uint_eq(view_task_by_id(&view, id_of(WORKER))->same_count, 2);
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 4);

	t = lg_add_process(&guest, 300, "new too");
	lg_block(&guest, t, stack);
	base = delta(base);
	ck_assert(view_task(&view, 300)->is_told);
	ck_assert_uint_eq(view_thread(&view, 300)->frames.count, 4);

	// a thread of a process of which nothing else has changed: the process is told
	unlink_from(&guest.threads[6].task->thread_node);
	base = delta(base);
	ck_assert_ptr_nonnull(view_task_by_id(&view, id_of(WORKER)));
	ck_assert_ptr_null(same_thread(id_of(6)));
	ck_assert_ptr_null(view_thread_by_id(&view, id_of(6)));
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 3);

	unlink_from(&guest.threads[7].task->tasks);
	delta(base);
	ck_assert(!is_same_task(id_of(7)));
	ck_assert_ptr_null(view_task_by_id(&view, id_of(7)));
	expect_nothing_but_the_runner();
}
END_TEST

START_TEST(process_whose_own_facts_changed_is_told_with_its_threads_named)
{
	uint64_t base = full();

	task_of(ZOMBIE)->real_parent = guest.threads[INIT].address;
	base = delta(base);
	const struct view_task *t = view_task_by_id(&view, id_of(ZOMBIE));
	ck_assert(t && t->is_told && t->count == 0 && t->same_count == 1);
	ck_assert_int_eq(t->r.ppid, 1);
	delta(base);
	expect_nothing_but_the_runner();
}
END_TEST

START_TEST(thread_that_a_vcpu_executed_is_told_though_nothing_was_counted)
{
	task_of(RUNNER)->state = 1;
	uint64_t base = full();

	// the switch had been counted, and was then carried out
	task_of(RUNNER)->on_cpu = 0;
	lg_run(&guest, 0, &guest.init, lg_symbol(&guest, "schedule") + 4);
	lg_block(&guest, &guest.threads[RUNNER],
		 (const char *const[]){ "el0_svc", "schedule", NULL });
	base = delta(base);
	ck_assert_uint_eq(view_thread_by_id(&view, id_of(RUNNER))->frames.count, 3);
	delta(base);
	ck_assert_ptr_null(view_thread_by_id(&view, id_of(RUNNER)));
	ck_assert(is_same_task(id_of(WORKER)));
}
END_TEST

START_TEST(thread_whose_stack_was_not_whole_is_told_again)
{
	uint64_t base, *record = lg_word(&guest, guest.threads[WAITER].fp);
	uint64_t good = *record;

	*record = 8;
	base = full();
	ck_assert(!result.complete);
	base = delta(base);
	ck_assert(!result.complete);
	ck_assert_ptr_nonnull(view_thread_by_id(&view, id_of(WAITER)));
	*record = good;
	base = delta(base);
	ck_assert(result.complete);
	ck_assert_uint_eq(view_thread_by_id(&view, id_of(WAITER))->frames.count, 5);
	delta(base);
	expect_nothing_but_the_runner();
}
END_TEST

/* Each process is told, with all its threads. */
static void expect_everything(void)
{
	ck_assert(view.is_delta);
	ck_assert_uint_eq(view.tasks, 5);
	ck_assert_uint_eq(result.threads, 6);
	ck_assert_uint_eq(result.same_tasks + result.same_threads, 0);
}

START_TEST(time_before_the_first_capture_makes_everything_told)
{
	uint64_t first = full();

	delta(first - 1);
	expect_everything();
	// nothing is known in a session that has taken none
	ss_session_destroy(session);
	session_begin();
	delta(first);
	expect_everything();
}
END_TEST

START_TEST(captures_of_one_process_or_of_some_threads_are_no_base_for_others)
{
	uint64_t base = full(), second;
	struct ss_request q = session_request(SS_PID_ALL);

	ck_assert_int_eq(session_capture(100), GS_OK);
	delta(base); // is not disturbed by it
	expect_nothing_but_the_runner();

	q.threads_max = 1;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	second = result.start_ns;
	delta(second);
	ck_assert_ptr_nonnull(view_thread_by_id(&view, id_of(RUNNER)));
	ck_assert_ptr_nonnull(view_thread_by_id(&view, id_of(WAITER)));
	ck_assert(!same_thread(id_of(WORKER))->runnable);
}
END_TEST

START_TEST(new_kernel_has_no_past)
{
	uint64_t base = full();

	// another symbol table where that of the kernel was: found again by a new search
	lg_destroy(&guest);
	lg_create(&guest, &(struct lg_form){ .seqs = true, .voffset = LG_VOFFSET + 0x200000 });
	lg_populate(&guest);
	delta(base);
	expect_everything();
}
END_TEST

START_TEST(deltas_are_refused_where_they_make_no_sense)
{
	uint64_t base = full();
	struct ss_request q = delta_request(UINT64_MAX);

	ck_assert_int_eq(session_capture_with(&q), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "still to come"));
	q.since_ns = 0;
	ck_assert_int_eq(session_capture_with(&q), GS_EINVAL);
	ck_assert_ptr_nonnull(strstr(error.text, "without a time"));
	q = delta_request(base);
	q.flags = 0;
	ck_assert_int_eq(session_capture_with(&q), GS_EINVAL);
	q = delta_request(base);
	q.pid = 100;
	ck_assert_int_eq(session_capture_with(&q), GS_EINVAL);
	q = delta_request(base);
	q.flags |= KCD_SS_FROM_PANIC;
	ck_assert_int_eq(session_capture_with(&q), GS_EINVAL);

	ss_session_destroy(session);
	session_options.remember = false;
	session_begin();
	base = full();
	q = delta_request(base);
	ck_assert_int_eq(session_capture_with(&q), GS_ENOTSUP);
	ck_assert_ptr_nonnull(strstr(error.text, "not kept"));
}
END_TEST

/* Two threads that say they are one: neither can be told from the other, so both are told. */
START_TEST(thread_that_is_there_twice_is_always_told)
{
	static const char *const stack[] = { "el0t_64_sync", "el0_svc", "schedule", NULL };
	struct lg_thread *t = lg_add_thread(&guest, &guest.threads[WORKER], 103, "twin");
	struct ss_request q;

	lg_block(&guest, t, stack);
	memcpy(&t->task->pid, &task_of(WAITER)->pid, 4);
	t->task->start_boottime = task_of(WAITER)->start_boottime;
	q = session_request(SS_PID_ALL);
	ck_assert_int_eq(session_capture_only(&q), GS_OK); // ids are not unique, as view wants them
	for (int i = 0; i < 3; i++) {
		q = delta_request(result.start_ns);
		ck_assert_int_eq(session_capture_only(&q), GS_OK);
		ck_assert_uint_eq(result.threads, 3);
		ck_assert_uint_eq(result.same_threads, 4);
	}
}
END_TEST

/* --- what a reader makes of it ---------------------------------------------------------------- */

#define MANY 600

/* The full picture, as a reader of base and deltas has it. */
struct known {
	uint64_t id, task;
	struct ss_thread_record r;
	uint32_t frames;
	uint64_t innermost;
};
static struct known picture[MANY], next_picture[MANY];
static uint32_t known_count;

static const struct known *find_known(uint64_t id)
{
	for (uint32_t i = 0; i < known_count; i++)
		if (picture[i].id == id)
			return &picture[i];
	ck_abort_msg("the delta names %#lx, which its base does not have", (unsigned long)id);
	return NULL;
}

static struct known known_of(const struct view_thread *t)
{
	return (struct known){ .id = t->id,
			       .task = view.task[t->task].id,
			       .r = t->r,
			       .frames = t->frames.count,
			       .innermost = t->frames.count ? view_frame(t, 0) : 0 };
}

/* Apply the capture in view. */
static void apply(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < view.threads; i++)
		next_picture[n++] = known_of(&view.thread[i]);
	for (uint32_t i = 0; i < view.same_count; i++)
		next_picture[n++] = *find_known(view.same[i].id);
	for (uint32_t i = 0; i < view.same_tasks; i++)
		for (uint32_t k = 0; k < known_count; k++)
			if (picture[k].task == view.same_task[i])
				next_picture[n++] = picture[k];
	memcpy(picture, next_picture, sizeof(picture));
	known_count = n;
}

static void expect_picture(void)
{
	ck_assert_uint_eq(known_count, view.threads);
	for (uint32_t i = 0; i < view.threads; i++) {
		const struct known now = known_of(&view.thread[i]);
		const struct known *k = find_known(now.id);

		ck_assert_uint_eq(k->task, now.task);
		ck_assert_mem_eq(&k->r, &now.r, sizeof(now.r));
		ck_assert_uint_eq(k->frames, now.frames);
		ck_assert_uint_eq(k->innermost, now.innermost);
	}
}

static uint64_t seed = 1;
static int32_t next_tid = 1000;
static bool is_gone[MANY];

static void change_something(void)
{
	static const char *const ends[] = { "futex_wait", "pipe_read", "do_epoll_wait" };
	uint32_t i = (uint32_t)prng_below(&seed, guest.thread_count);
	const char *stack[] = { "el0t_64_sync", "el0_svc", ends[prng_below(&seed, 3)], "schedule",
				NULL };

	if (i <= ZOMBIE || is_gone[i])
		return;
	switch (prng_below(&seed, 6)) {
	case 0:
		if (guest.thread_count < 200)
			lg_block(&guest,
				 lg_add_thread(&guest, &guest.threads[WORKER], next_tid++, "more"),
				 stack);
		break;
	case 1:
		if (guest.thread_count < 200)
			lg_block(&guest, lg_add_process(&guest, next_tid++, "other"), stack);
		break;
	case 2:
		is_gone[i] = true;
		if (task_of((int)i)->pid == task_of((int)i)->tgid)
			unlink_from(&task_of((int)i)->tasks);
		else
			unlink_from(&task_of((int)i)->thread_node);
		break;
	case 3: task_of((int)i)->state ^= 1; break;
	default:
		lg_block(&guest, &guest.threads[i], stack);
		runs((int)i);
		break;
	}
}

START_TEST(base_and_deltas_are_the_full_picture)
{
	static uint64_t taken[400];
	uint32_t n = 0;

	session_end();
	session_make(&large);
	for (int i = 0; i < 60; i++) // room for changes to find something
		lg_block(&guest, lg_add_thread(&guest, &guest.threads[WORKER], next_tid++, "first"),
			 (const char *const[]){ "el0_svc", "schedule", NULL });
	taken[n++] = full();
	apply();
	for (int round = 0; round < 150; round++) {
		for (uint64_t k = prng_below(&seed, 12); k; k--)
			change_something();
		// since the one before, or one that is longer ago
		uint32_t back = (uint32_t)prng_below(&seed, 4);
		taken[n] = delta(taken[n - 1 - (back < n ? back : 0)]);
		n++;
		apply();
		session_capture_all();
		expect_picture();
		taken[n++] = result.start_ns;
	}
	ck_assert_uint_gt(guest.thread_count, 100);
}
END_TEST

/* --- failures --------------------------------------------------------------------------------- */

static struct known base_picture[MANY], end_picture[MANY];
static uint32_t base_count, end_count;
static uint64_t base_ns;

static uint32_t known_in_view(struct known *out)
{
	for (uint32_t i = 0; i < view.threads; i++)
		out[i] = known_of(&view.thread[i]);
	return view.threads;
}

/* A base, and a guest that has changed since. */
static void make_base(void)
{
	base_ns = full();
	base_count = known_in_view(base_picture);
	runs(WAITER);
	task_of(INIT)->state = 0;
	session_capture_all();
	end_count = known_in_view(end_picture);
}

/* A delta that says it is complete is; one that is not names what is missing. */
static void judge_delta(enum gs_code rc)
{
	if (rc || !result.complete)
		return;
	memcpy(picture, base_picture, sizeof(picture));
	known_count = base_count;
	apply();
	ck_assert_uint_eq(known_count, end_count);
	for (uint32_t i = 0; i < end_count; i++)
		ck_assert_mem_eq(&find_known(end_picture[i].id)->r, &end_picture[i].r,
				 sizeof(end_picture[i].r));
}

START_TEST(read_that_fails_costs_a_delta_no_more_than_is_named)
{
	uint32_t whole = 0, incomplete = 0;
	const struct ss_request all = session_request(SS_PID_ALL);

	lg_unmap_host(&guest);
	make_base();
	struct ss_request q = delta_request(base_ns);
	guest.reads = 0;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	const uint64_t reads = guest.reads;
	for (uint64_t n = 1; n <= reads; n += 1 + reads / 400) {
		guest.reads = 0;
		guest.fail_first = n;
		guest.fail_last = n % 2 ? n : UINT64_MAX;
		enum gs_code rc = session_capture_with(&q);
		// one whose link register looks missing for once is as in test_faults.c
		if (n % 2 == 0)
			judge_delta(rc);
		whole += !rc && result.complete;
		incomplete += !rc && !result.complete;
		guest.fail_first = guest.fail_last = 0;
		ck_assert_int_eq(session_capture_with(&q), GS_OK);
		ck_assert(result.complete);
		judge_delta(GS_OK);
	}
	ck_assert_uint_gt(incomplete, 10);
	ck_assert_int_eq(session_capture_with(&all), GS_OK);
	ck_assert(result.complete);
}
END_TEST

static void fail_each(struct seam_point *p)
{
	struct ss_request q = delta_request(base_ns);
	uint32_t n = 0;

	do {
		n++;
		seam_fail(p, n, n);
		judge_delta(session_capture_with(&q));
		const uint32_t failed = p->failed;
		seam_reset();
		ck_assert_int_eq(session_capture_with(&q), GS_OK);
		judge_delta(GS_OK);
		if (!failed)
			break;
	} while (n < 1000);
	ck_assert_uint_gt(n, 4);
}

START_TEST(delta_without_room_for_a_record_or_a_piece_is_taken_again)
{
	make_base();
	fail_each(&seam_records);
	base_ns = full();
	base_count = known_in_view(base_picture);
	end_count = known_in_view(end_picture);
	fail_each(&seam_pieces);
}
END_TEST

START_TEST(delta_without_memory_for_what_was_seen_tells_everything)
{
	struct ss_request q;
	uint32_t n = 0, failed;

	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	make_base();
	q = delta_request(base_ns);
	do {
		n++;
		seam_fail(&seam_allocations, n, n);
		ss_result_deinit(&result);
		enum gs_code rc = ss_capture(session, &q, &result, NULL);
		failed = seam_allocations.failed;
		seam_reset();
		ck_assert(!rc || rc == GS_ENOSPC);
		ck_assert_int_eq(session_capture_with(&q), GS_OK);
		judge_delta(GS_OK);
	} while (failed);
	ck_assert_uint_gt(n, 5);
}
END_TEST

START_TEST(any_number_of_workers_makes_the_same_delta)
{
	static uint8_t *one;
	size_t size = 0;
	uint64_t base;

	for (uint32_t workers = 1; workers <= 8; workers *= 2) {
		session_end();
		session_options.workers = workers;
		session_make(&large);
		for (int i = 0; i < 300; i++)
			lg_block(&guest, lg_add_process(&guest, 2000 + i, "p"),
				 (const char *const[]){ "el0_svc", "schedule", NULL });
		base = full();
		for (int i = 10; i < 300; i += 7)
			runs(i);
		delta(base);
		ck_assert_uint_eq(result.same_tasks, 3 + 300 - 42);
		if (!one) {
			one = malloc(result.size);
			ck_assert_ptr_nonnull(one);
			size = sizeof(view.task[0]) * view.tasks;
			memcpy(one, view.task, size);
		} else {
			ck_assert_uint_eq(size, sizeof(view.task[0]) * view.tasks);
			ck_assert_mem_eq(one, view.task, size);
		}
	}
	free(one);
}
END_TEST

START_TEST(delta_allocates_nothing_while_the_guest_is_stopped)
{
	uint64_t base = full();

	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	trap_reset();
	trap_while_stopped(&guest);
	for (int i = 0; i < 5; i++) {
		runs(WAITER);
		base = delta(base);
		ck_assert_msg(trap_calls == 0, "%s while the guest was stopped", trap_first);
	}
}
END_TEST

START_TEST(delta_of_an_idle_guest_is_a_twentieth)
{
	size_t whole;
	uint64_t base;

	session_end();
	session_make(&large);
	for (int i = 0; i < 2000; i++)
		lg_block(&guest,
			 i % 4 ? lg_add_thread(&guest, &guest.threads[WORKER], 2000 + i, "t")
			       : lg_add_process(&guest, 2000 + i, "p"),
			 (const char *const[]){ "el0t_64_sync", "el0_svc", "futex_wait", "schedule",
						NULL });
	base = full();
	whole = result.size;
	delta(base);
	ck_assert_uint_eq(result.same_threads, 5 + 2000);
	ck_assert_msg(result.size < whole / 20, "%zu of %zu bytes", result.size, whole);
}
END_TEST

static void setup(void)
{
	session_options = (struct ss_options){ .remember = true };
	session_setup();
}

Suite *suite_delta(void)
{
	Suite *s = suite_create("delta");
	TCase *c = tcase_create("all");

	tcase_add_checked_fixture(c, setup, session_end);
	tcase_set_timeout(c, 120);
	tcase_add_test(c, what_has_not_changed_is_named_only);
	tcase_add_test(c, thread_that_ran_is_told_whole);
	tcase_add_test(c, any_change_of_a_thread_makes_it_told);
	tcase_add_test(c, thread_that_waits_for_a_cpu_is_named_with_its_priority);
	tcase_add_test(c, new_and_gone_threads_and_processes_are_seen);
	tcase_add_test(c, process_whose_own_facts_changed_is_told_with_its_threads_named);
	tcase_add_test(c, thread_that_a_vcpu_executed_is_told_though_nothing_was_counted);
	tcase_add_test(c, thread_whose_stack_was_not_whole_is_told_again);
	tcase_add_test(c, time_before_the_first_capture_makes_everything_told);
	tcase_add_test(c, captures_of_one_process_or_of_some_threads_are_no_base_for_others);
	tcase_add_test(c, new_kernel_has_no_past);
	tcase_add_test(c, deltas_are_refused_where_they_make_no_sense);
	tcase_add_test(c, thread_that_is_there_twice_is_always_told);
	tcase_add_test(c, base_and_deltas_are_the_full_picture);
	tcase_add_test(c, read_that_fails_costs_a_delta_no_more_than_is_named);
	tcase_add_test(c, delta_without_room_for_a_record_or_a_piece_is_taken_again);
	tcase_add_test(c, delta_without_memory_for_what_was_seen_tells_everything);
	tcase_add_test(c, any_number_of_workers_makes_the_same_delta);
	tcase_add_test(c, delta_allocates_nothing_while_the_guest_is_stopped);
	tcase_add_test(c, delta_of_an_idle_guest_is_a_twentieth);
	suite_add_tcase(s, c);
	return s;
}
