/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups, namespaces, signals and command lines in both views. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/stackshot.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define ARGS UINT64_C(0x0000aaaa00000000)

static char *text;

static void setup(void)
{
	struct lg_thread *init, *worker;

	sample_setup();
	init = &guest.threads[0];
	worker = &guest.threads[2];
	ck_assert(init->task->pid == 1 && worker->task->pid == 100);
	lg_set_cgroup(&guest, init, "/");
	lg_set_namespaces(&guest, init, 4000);
	lg_set_cgroup(&guest, worker, "/evil\x1b[2J");
	lg_set_namespaces(&guest, worker, 4000)->net = 0;
	struct lg_mm *mm = lg_add_mm(&guest, worker, 1);
	mm->arg_start = ARGS;
	mm->arg_end = ARGS + 9;
	memcpy(lg_user_page(&guest, mm, ARGS), "/bin/w\0-x", 9);
	worker->signal->shared_pending.signal = 1 << 14 | 1;
	worker->task->pending.signal = 1 << 9;
	worker->task->blocked = UINT64_C(1) << 63;
	worker->task->on_rq = 1;
	sample_flags = SS_CONTEXT;
}

static void teardown(void)
{
	sample_flags = 0;
	free(text);
	text = NULL;
	sample_teardown();
}

/* The document is too long for a message: only what is behind the word is shown. */
static void has_behind(const char *line, const char *word)
{
	const char *at = strstr(text, word);

	ck_assert_msg(strstr(text, line), "no \"%s\" in: %.1000s", line, at ? at : "");
}

static void has(const char *line)
{
	has_behind(line, "process 1");
}

START_TEST(text_has_lines_below_the_process)
{
	// another time namespace than init's
	struct lg_nsproxy *proxy = (void *)lg_word(&guest, guest.threads[2].task->nsproxy);
	((struct lg_namespace *)(void *)lg_word(&guest, proxy->time))->inum = 77;
	sample_take();
	sample_load();
	text = sample_text(false);
	has("  command /bin/w -x\n  cgroup /evil\\x1b[2J\n  namespaces of its own: time 77\n  "
	    "signals "
	    "pending: 1 15\n");
	has("thread 100 worker: S (sleeping), waits for CPU 1 (1 of 1 in its queue), signals "
	    "pending: 10\n");
	has("process 1 init, parent 0\n  cgroup /\n  thread 1");
	sample_show_all();
}
END_TEST

START_TEST(document_has_them)
{
	sample_take();
	sample_load();
	text = sample_json_compact();
	has_behind(
		"\"context\":{\"command\":[\"/bin/w\",\"-x\"],\"cgroup\":\"/evil\\u001B[2J\","
		"\"namespaces\":{\"uts\":4000,\"ipc\":4001,\"mnt\":4002,\"pid\":4003,\"time\":4005,"
		"\"cgroup\":4006},\"pending\":[1,15]}",
		"\"command\":[\"/bin/w");
	has_behind("\"context\":{\"on_rq\":1,\"vruntime\":0,\"cfs_rq\":\"0x0\",\"deadline\":0,"
		   "\"delayed\":false,\"pending\":[10],\"blocked\":[64],\"queue_place\":1,"
		   "\"queue_length\":1,\"locks_held\":0}",
		   "\"on_rq\":1");
}
END_TEST

/* --- run queues --- */

static struct lg_task *waits(uint32_t thread, int32_t prio, uint64_t vruntime, uint64_t deadline)
{
	struct lg_task *t = guest.threads[thread].task;

	t->on_rq = 1;
	t->prio = prio;
	t->vruntime = vruntime;
	t->deadline = deadline;
	t->cpu = t->thread_cpu = 1;
	return t;
}

static void expect_place(int32_t tid, uint32_t place, uint32_t length)
{
	const struct rep_thread *t = sample_thread(tid);

	ck_assert_uint_eq(t->queue_place, place);
	ck_assert_uint_eq(t->queue_length, length);
}

/* init, kthreadd, 100 and 102 wait for one CPU. */
static void all_wait(int32_t prio)
{
	waits(0, prio, 30, (uint64_t)-2);
	waits(1, prio, 20, 10);
	waits(2, prio, 10, 20);
	waits(4, prio, (uint64_t)-1, 30);
}

static void take_and_load(void)
{
	sample_take();
	sample_load();
}

START_TEST(queues_of_the_fair_class_are_ordered_by_deadline)
{
	all_wait(120);
	take_and_load();
	expect_place(1, 1, 4); // they begin below 0
	expect_place(2, 2, 4);
	expect_place(100, 3, 4);
	expect_place(102, 4, 4);
	expect_place(101, 0, 0); // executed
	text = sample_text(false);
	has("waits for CPU 1 (2 of 4 in its queue)");
	// each queue for itself, whether it is a group's or a CPU's
	guest.threads[1].task->cfs_rq = guest.threads[2].task->cfs_rq = LG_LINEAR + 64;
	guest.threads[4].task->cpu = guest.threads[4].task->thread_cpu = 0;
	take_and_load();
	expect_place(1, 1, 1);
	expect_place(2, 1, 2);
	expect_place(100, 2, 2);
	expect_place(102, 1, 1);
}
END_TEST

START_TEST(queues_of_kernels_before_are_ordered_by_vruntime)
{
	lg_destroy(&guest);
	lg_create(&guest, &(struct lg_form){ .old = true });
	lg_populate(&guest);
	all_wait(120);
	take_and_load();
	expect_place(102, 1, 4);
	expect_place(100, 2, 4);
	expect_place(2, 3, 4);
	expect_place(1, 4, 4);
}
END_TEST

START_TEST(threads_that_sleep_or_move_have_no_place)
{
	all_wait(120);
	guest.threads[1].task->sched_delayed = 1;
	guest.threads[2].task->on_rq = 2;
	guest.threads[4].task->on_rq = 0;
	guest.threads[4].task->lockdep_depth = 2;
	take_and_load();
	expect_place(1, 1, 1);
	expect_place(2, 0, 0);
	expect_place(100, 0, 0);
	expect_place(102, 0, 0);
	text = sample_text(false);
	has("thread 2 kthreadd: I (idle)\n");
	has("thread 100 worker: S (sleeping), waits for CPU 1, signals");
	has(", holds 2 locks\n");
}
END_TEST

// Those of a higher priority, whose number is lower, come first, also those of the fair class last.
START_TEST(real_time_threads_come_by_priority)
{
	const uint64_t head = guest.cpu[1].area + LG_PERCPU_RUNQUEUES +
			      offsetof(struct lg_rq, rt_queue) + 50 * sizeof(struct lg_list);
	uint64_t node[] = { head, 0, 0 };

	all_wait(50);
	waits(1, 40, 0, 0);
	waits(0, 120, 0, 0);
	node[1] = guest.threads[4].address + offsetof(struct lg_task, run_list);
	node[2] = guest.threads[2].address + offsetof(struct lg_task, run_list);
	for (uint32_t i = 0; i < 3; i++) {
		*lg_word(&guest, node[i]) = node[(i + 1) % 3];
		*lg_word(&guest, node[(i + 1) % 3] + 8) = node[i];
	}
	take_and_load();
	expect_place(102, 2, 3);
	expect_place(100, 3, 3);
	expect_place(1, 1, 1);
	// the one whose list is broken has none, but is there
	expect_place(2, 0, 3);
	waits(4, -1, 0, 0); // with a deadline
	take_and_load();
	expect_place(102, 0, 0);
}
END_TEST

START_TEST(views_without_them_say_nothing)
{
	sample_flags = 0;
	sample_take();
	sample_load();
	text = sample_text(false);
	ck_assert(!strstr(text, "cgroup") && !strstr(text, "signals"));
	free(text);
	text = sample_json();
	ck_assert(!strstr(text, "context\""));
}
END_TEST

Suite *suite_linux_context(void)
{
	Suite *s = suite_create("linux_context");
	TCase *tc = tcase_create("linux_context");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_has_lines_below_the_process);
	tcase_add_test(tc, document_has_them);
	tcase_add_test(tc, queues_of_the_fair_class_are_ordered_by_deadline);
	tcase_add_test(tc, queues_of_kernels_before_are_ordered_by_vruntime);
	tcase_add_test(tc, threads_that_sleep_or_move_have_no_place);
	tcase_add_test(tc, real_time_threads_come_by_priority);
	tcase_add_test(tc, views_without_them_say_nothing);
	suite_add_tcase(s, tc);
	return s;
}
