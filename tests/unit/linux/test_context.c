/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in. */
#include "introspect/linux/context.h"

#include <check.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

#define NAMESPACES (0x7fu << 8)
#define THREAD_ALL (LNX_THREAD_QUEUE | LNX_THREAD_SIGNALS | LNX_THREAD_DEADLINE | LNX_THREAD_LOCKS)
#define ARGS	   UINT64_C(0x0000fffffffe0ff8) /* goes over the end of a page */

static struct lg_thread *process;
static struct lg_mm *mm;
static struct lnx_process_context c;
static struct lnx_thread_context tc;
static const char args[] = "/bin/worker\0-u\0one two";

static void begin_form(const struct lg_form *form)
{
	make(form);
	process = lg_add_process(&made.g, 100, "worker");
	mm = lg_add_mm(&made.g, process, 1);
	lg_set_cgroup(&made.g, process, "/system.slice/worker.service");
	lg_set_namespaces(&made.g, process, 4000);
	process->signal->shared_pending.signal = 1 << 14;
	mm->arg_start = ARGS;
	mm->arg_end = ARGS + sizeof(args);
	memcpy(lg_user_page(&made.g, mm, ARGS) + 0xff8, args, 8);
	memcpy(lg_user_page(&made.g, mm, ARGS + 8), args + 8, sizeof(args) - 8);
	ck_assert_msg(!find(NULL), "%s", made.err.text);
}

static void begin(void)
{
	begin_form(&(struct lg_form){ 0 });
}

static struct lnx_task task_of(struct lnx_view *view)
{
	struct lnx_task task;

	lnx_view_init(view, made.k, &made.g.m.guest);
	ck_assert_int_eq(lnx_task_read(view, GVA(process->address), &task), GS_OK);
	return task;
}

static void look(void)
{
	struct lnx_view view;
	const struct lnx_task task = task_of(&view);

	memset(&c, 0xff, sizeof(c));
	lnx_process_context_read(&view, &task, lnx_task_mm(&task), made.g.m.regs, 2, &c);
	memset(&tc, 0xff, sizeof(tc));
	lnx_thread_context_read(&view, &task, &tc);
}

static void expect_all(void)
{
	look();
	ck_assert_uint_eq(c.known, NAMESPACES | LNX_PROCESS_CGROUP | LNX_PROCESS_PENDING |
					   LNX_PROCESS_COMMAND);
	ck_assert_str_eq(c.cgroup, "/system.slice/worker.service");
	for (uint32_t i = 0; i < LNX_NAMESPACES; i++)
		ck_assert_uint_eq(c.namespace[i], 4000 + i);
	ck_assert_uint_eq(c.pending, 1 << 14);
	ck_assert_mem_eq(c.command, args, sizeof(args));
	for (size_t i = sizeof(args); i < sizeof(c.command); i++)
		ck_assert_int_eq(c.command[i], 0);
}

START_TEST(process_is_told_by_all_kinds_of_kernels)
{
	static const struct lg_form forms[] = {
		{ .style = 'A', .old = true },
		{ .style = 'B', .data_symbols = true },
		{ .style = 'C', .data_symbols = true, .meta = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		done();
		begin_form(&forms[i]);
		expect_all();
	}
}
END_TEST

START_TEST(thread_is_told)
{
	process->task->on_rq = 1;
	process->task->vruntime = 123456;
	process->task->cfs_rq = LG_LINEAR + 64;
	process->task->pending.signal = 3;
	process->task->blocked = UINT64_C(1) << 63;
	look();
	ck_assert_uint_eq(tc.known, THREAD_ALL);
	ck_assert_uint_eq(tc.on_rq, 1);
	ck_assert_uint_eq(tc.vruntime, 123456);
	ck_assert_uint_eq(tc.cfs_rq, LG_LINEAR + 64);
	ck_assert_uint_eq(tc.pending, 3);
	ck_assert_uint_eq(tc.blocked, UINT64_C(1) << 63);
}
END_TEST

START_TEST(thread_that_sleeps_on_its_queue_is_told_as_such)
{
	process->task->deadline = 777;
	process->task->sched_delayed = 1;
	process->task->lockdep_depth = 3;
	look();
	ck_assert_uint_eq(tc.deadline, 777);
	ck_assert_uint_eq(tc.locks, 3);
	ck_assert_uint_eq(tc.delayed, 0); // it is not on it
	process->task->on_rq = 1;
	look();
	ck_assert_uint_eq(tc.delayed, 1);
	// kernels before have vruntime alone
	done();
	begin_form(&(struct lg_form){ .old = true });
	process->task->on_rq = 1;
	look();
	ck_assert_uint_eq(tc.known, THREAD_ALL & ~(uint32_t)LNX_THREAD_DEADLINE);
	ck_assert_uint_eq(tc.deadline, 0);
}
END_TEST

/* --- queues of real-time threads --- */

#define RT_PRIO	  40
#define RT_CPU	  1
#define RT_THREAD 3

static struct lg_thread *waiting[RT_THREAD];

static uint64_t link_of(const struct lg_thread *t)
{
	return t->address + offsetof(struct lg_task, run_list);
}

static uint64_t rt_queue(uint32_t cpu, uint32_t prio)
{
	return made.g.cpu[cpu].area + LG_PERCPU_RUNQUEUES + offsetof(struct lg_rq, rt_queue) +
	       prio * sizeof(struct lg_list);
}

/* Each one leads to the next, the last one to the first, and back. */
static void link_all(const uint64_t *node, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t next = node[(i + 1) % n];

		*lg_word(&made.g, node[i]) = next;
		*lg_word(&made.g, next + 8) = node[i];
	}
}

static void queue_threads(void)
{
	uint64_t node[1 + RT_THREAD] = { rt_queue(RT_CPU, RT_PRIO) };

	for (uint32_t i = 0; i < RT_THREAD; i++) {
		waiting[i] = lg_add_thread(&made.g, process, 101 + (int32_t)i, "waits");
		struct lg_task *t = waiting[i]->task;

		t->prio = RT_PRIO;
		t->on_rq = 1;
		t->cpu = t->thread_cpu = RT_CPU;
		node[1 + i] = link_of(waiting[i]);
	}
	link_all(node, ARRAY_SIZE(node));
}

static uint32_t place_of(struct lg_thread *t)
{
	process = t;
	look();
	return tc.rt_place;
}

START_TEST(real_time_threads_have_places)
{
	static const struct lg_form forms[] = { { .old = true }, { .meta = true } };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		done();
		begin_form(&forms[i]);
		queue_threads();
		for (uint32_t k = 0; k < RT_THREAD; k++)
			ck_assert_uint_eq(place_of(waiting[k]), k + 1);
	}
	waiting[2]->task->on_rq = 0;
	ck_assert_uint_eq(place_of(waiting[2]), 0);
	waiting[2]->task->on_rq = 1;
	waiting[2]->task->prio = 100; // of the fair class
	ck_assert_uint_eq(place_of(waiting[2]), 0);
	waiting[2]->task->prio = -1; // with a deadline
	ck_assert_uint_eq(place_of(waiting[2]), 0);
}
END_TEST

START_TEST(queue_is_that_of_the_priority_and_the_cpu)
{
	queue_threads();
	waiting[0]->task->prio++;
	ck_assert_uint_eq(place_of(waiting[0]), 0);
	waiting[0]->task->prio = RT_PRIO;
	waiting[0]->task->cpu = waiting[0]->task->thread_cpu = 0;
	ck_assert_uint_eq(place_of(waiting[0]), 0);
	waiting[0]->task->cpu = waiting[0]->task->thread_cpu = RT_CPU;
	ck_assert_uint_eq(place_of(waiting[0]), 1);
	// a run queue has the idle thread of its CPU
	struct lg_rq *rq = (void *)(made.g.cpu[RT_CPU].bytes + LG_PERCPU_RUNQUEUES);
	const uint64_t idle = rq->idle;
	rq->idle = waiting[1]->address;
	ck_assert_uint_eq(place_of(waiting[0]), 0);
	rq->idle = 0x1234;
	ck_assert_uint_eq(place_of(waiting[0]), 0);
	rq->idle = idle;
	ck_assert_uint_eq(place_of(waiting[0]), 1);
}
END_TEST

START_TEST(queues_that_are_none_have_no_places)
{
	queue_threads();
	uint64_t *before = lg_word(&made.g, link_of(waiting[1]) + 8);
	const uint64_t good = *before;
	const uint64_t bad[] = {
		0, 0x1234, UINT64_MAX - 7, link_of(waiting[2]), link_of(waiting[1]), good + 4
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		*before = bad[i];
		ck_assert_uint_eq(place_of(waiting[2]), 0);
	}
	*before = good;
	ck_assert_uint_eq(place_of(waiting[2]), 3);
	// a ring without a head
	const uint64_t ring[] = { link_of(waiting[0]), link_of(waiting[1]), link_of(waiting[2]) };
	link_all(ring, ARRAY_SIZE(ring));
	for (uint32_t k = 0; k < RT_THREAD; k++)
		ck_assert_uint_eq(place_of(waiting[k]), 0);
}
END_TEST

START_TEST(in_long_queues_the_first_ones_have_places)
{
	enum { MANY = LNX_RT_PLACE_MAX + 2 };
	static uint64_t node[MANY + 1];
	const uint64_t pages = lg_linear(&made.g, lg_pages(&made.g, (MANY + 1) * 16 / 4096 + 1));

	queue_threads();
	node[0] = rt_queue(RT_CPU, RT_PRIO);
	for (uint32_t i = 1; i <= MANY; i++)
		node[i] = pages + 16 * i;
	node[LNX_RT_PLACE_MAX] = link_of(waiting[0]);
	node[LNX_RT_PLACE_MAX + 1] = link_of(waiting[1]);
	link_all(node, MANY + 1);
	ck_assert_uint_eq(place_of(waiting[0]), LNX_RT_PLACE_MAX);
	ck_assert_uint_eq(place_of(waiting[1]), 0);
}
END_TEST

START_TEST(kernel_that_does_not_tell_of_the_queues_has_no_places)
{
	static const char *const omit[] = { "task_struct.run_list", "rq.rt", "rq.cpu" };

	for (size_t i = 0; i < ARRAY_SIZE(omit); i++) {
		const struct typeinfo_form types = { .omit = omit[i] };

		done();
		begin_form(&(struct lg_form){ .types = &types });
		queue_threads();
		ck_assert_uint_eq(place_of(waiting[0]), 0);
		ck_assert_uint_eq(tc.on_rq, 1);
	}
}
END_TEST

static void expect_cgroup(const char *set, const char *told)
{
	lg_set_cgroup(&made.g, process, set);
	look();
	ck_assert(c.known & LNX_PROCESS_CGROUP);
	ck_assert_str_eq(c.cgroup, told);
}

// 190 characters fit: of a longer path the end is told, without a '/' before it.
START_TEST(path_is_as_long_as_there_is_room)
{
	char path[LNX_CGROUP_PATH + 20];

	expect_cgroup("/", "/");
	expect_cgroup("/a", "/a");
	memset(path, 'x', sizeof(path));
	path[0] = path[100] = '/';
	path[LNX_CGROUP_PATH - 2] = '\0';
	expect_cgroup(path, path);
	path[LNX_CGROUP_PATH - 2] = 'y';
	path[LNX_CGROUP_PATH + 10] = '\0';
	expect_cgroup(path, path + 12);
	ck_assert_uint_eq(strlen(c.cgroup), LNX_CGROUP_PATH - 2);
}
END_TEST

static struct lg_kernfs_node *node(uint32_t i)
{
	return (void *)((uint8_t *)lg_word(&made.g, process->task->cgroups) + 0x100 + 0x40 * i);
}

static void expect_no_cgroup(void)
{
	look();
	ck_assert_uint_eq(c.known & LNX_PROCESS_CGROUP, 0);
	ck_assert_str_eq(c.cgroup, "");
	ck_assert_uint_eq(c.known & NAMESPACES, NAMESPACES);
}

START_TEST(hostile_paths_have_an_end)
{
	const uint64_t self = process->task->cgroups + 0x100 + 0x80, name = node(2)->name;

	node(2)->parent = self; // its own parent
	look();
	ck_assert_uint_eq(strnlen(c.cgroup, sizeof(c.cgroup)), LNX_CGROUP_PATH - 2);
	*(char *)lg_word(&made.g, name & ~UINT64_C(7)) = 0;
	memset((uint8_t *)lg_word(&made.g, name & ~UINT64_C(7)) + name % 8, 0, 32);
	node(2)->parent = self; // and no name: 64 slashes are enough
	expect_no_cgroup();
	node(2)->parent = self + 4;
	expect_no_cgroup();
	node(2)->parent = 8;
	expect_no_cgroup();
	node(2)->parent = LG_LINEAR + (UINT64_C(1) << 40);
	expect_no_cgroup();
}
END_TEST

START_TEST(names_that_cannot_be_read_leave_no_path)
{
	memset((uint8_t *)lg_word(&made.g, process->task->cgroups) + 0x800, 'x', 0x800);
	expect_no_cgroup(); // longer than any name
	node(2)->name = LG_LINEAR + (UINT64_C(1) << 40);
	expect_no_cgroup();
	process->task->cgroups = 0;
	expect_no_cgroup();
	process->task->cgroups = LG_LINEAR + (UINT64_C(1) << 40);
	expect_no_cgroup();
}
END_TEST

START_TEST(process_that_has_ended_has_no_namespaces)
{
	process->task->nsproxy = 0;
	look();
	ck_assert_uint_eq(c.known & NAMESPACES, 0);
	ck_assert_uint_eq(c.namespace[LNX_NS_NET], 0);
	ck_assert(c.known & LNX_PROCESS_CGROUP);
}
END_TEST

START_TEST(namespace_that_is_not_there_costs_itself)
{
	struct lg_nsproxy *proxy = lg_set_namespaces(&made.g, process, 7000);

	proxy->net = 3;
	proxy->mnt = LG_LINEAR + (UINT64_C(1) << 40);
	look();
	ck_assert_uint_eq(c.known & NAMESPACES,
			  NAMESPACES & ~(1u << (8 + LNX_NS_NET)) & ~(1u << (8 + LNX_NS_MNT)));
	ck_assert_uint_eq(c.namespace[LNX_NS_CGROUP], 7006);
}
END_TEST

static void expect_command(const char *text, size_t size)
{
	look();
	ck_assert_uint_eq(c.known & LNX_PROCESS_COMMAND, size ? LNX_PROCESS_COMMAND : 0);
	ck_assert_mem_eq(c.command, text, size);
	for (size_t i = size; i < sizeof(c.command); i++)
		ck_assert_int_eq(c.command[i], 0);
}

START_TEST(command_ends_where_it_cannot_be_read)
{
	*lg_entry(&made.g, lg_directory(&made.g, mm), ARGS + 8) = 0;
	expect_command(args, 8);
	*lg_entry(&made.g, lg_directory(&made.g, mm), ARGS) = 0;
	expect_command("", 0);
}
END_TEST

START_TEST(long_command_is_cut)
{
	mm->arg_end = ARGS + 4000;
	memset(lg_user_page(&made.g, mm, ARGS + 8), 'a', 4096);
	look();
	ck_assert_uint_eq(strnlen(c.command, sizeof(c.command)), LNX_COMMAND - 1);
}
END_TEST

START_TEST(command_that_makes_no_sense_is_none)
{
	const uint64_t bad[][2] = { { 0, 100 },
				    { ARGS, ARGS },
				    { ARGS + 1, ARGS },
				    { ARGS, UINT64_MAX },
				    { LG_LINEAR, LG_LINEAR + 8 },
				    { UINT64_MAX - 4, UINT64_MAX } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		mm->arg_start = bad[i][0];
		mm->arg_end = bad[i][1];
		expect_command("", 0);
	}
	process->task->mm = 0;
	expect_command("", 0);
}
END_TEST

static const struct {
	const char *omit;
	uint32_t process, thread; /* bits that are not known without it */
} lacking[] = {
	{ "task_struct.cgroups", LNX_PROCESS_CGROUP, 0 },
	{ "css_set", LNX_PROCESS_CGROUP, 0 },
	{ "cgroup.kn", LNX_PROCESS_CGROUP, 0 },
	{ "kernfs_node.__parent", LNX_PROCESS_CGROUP, 0 },
	{ "kernfs_node.name", LNX_PROCESS_CGROUP, 0 },
	{ "task_struct.nsproxy", NAMESPACES, 0 },
	{ "nsproxy", NAMESPACES, 0 },
	{ "net", 1u << (8 + LNX_NS_NET), 0 },
	{ "nsproxy.time_ns", 1u << (8 + LNX_NS_TIME), 0 },
	{ "signal_struct.shared_pending", LNX_PROCESS_PENDING, 0 },
	{ "mm_struct.arg_start", LNX_PROCESS_COMMAND, 0 },
	{ "mm_struct.arg_end", LNX_PROCESS_COMMAND, 0 },
	{ "task_struct.on_rq", 0, LNX_THREAD_QUEUE | LNX_THREAD_DEADLINE },
	{ "task_struct.vruntime", 0, LNX_THREAD_QUEUE | LNX_THREAD_DEADLINE },
	{ "task_struct.deadline", 0, LNX_THREAD_DEADLINE },
	{ "task_struct.sched_delayed", 0, 0 },
	{ "task_struct.lockdep_depth", 0, LNX_THREAD_LOCKS },
	{ "task_struct.cfs_rq", 0, 0 },
	{ "task_struct.pending", 0, LNX_THREAD_SIGNALS },
	{ "task_struct.blocked", 0, LNX_THREAD_SIGNALS },
};

START_TEST(kernel_that_lacks_a_member_leaves_that_out)
{
	const struct typeinfo_form types = { .omit = lacking[_i].omit };

	done();
	begin_form(&(struct lg_form){ .types = &types });
	look();
	ck_assert_uint_eq(c.known, (NAMESPACES | LNX_PROCESS_CGROUP | LNX_PROCESS_PENDING |
				    LNX_PROCESS_COMMAND) &
					   ~lacking[_i].process);
	ck_assert_uint_eq(tc.known, THREAD_ALL & ~lacking[_i].thread);
}
END_TEST

Suite *suite_context(void)
{
	Suite *s = suite_create("context");
	TCase *tcase = tcase_create("context");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, begin, done);
	tcase_add_test(tcase, process_is_told_by_all_kinds_of_kernels);
	tcase_add_test(tcase, thread_is_told);
	tcase_add_test(tcase, thread_that_sleeps_on_its_queue_is_told_as_such);
	tcase_add_test(tcase, real_time_threads_have_places);
	tcase_add_test(tcase, queue_is_that_of_the_priority_and_the_cpu);
	tcase_add_test(tcase, queues_that_are_none_have_no_places);
	tcase_add_test(tcase, in_long_queues_the_first_ones_have_places);
	tcase_add_test(tcase, kernel_that_does_not_tell_of_the_queues_has_no_places);
	tcase_add_test(tcase, path_is_as_long_as_there_is_room);
	tcase_add_test(tcase, hostile_paths_have_an_end);
	tcase_add_test(tcase, names_that_cannot_be_read_leave_no_path);
	tcase_add_test(tcase, process_that_has_ended_has_no_namespaces);
	tcase_add_test(tcase, namespace_that_is_not_there_costs_itself);
	tcase_add_test(tcase, command_ends_where_it_cannot_be_read);
	tcase_add_test(tcase, long_command_is_cut);
	tcase_add_test(tcase, command_that_makes_no_sense_is_none);
	tcase_add_loop_test(tcase, kernel_that_lacks_a_member_leaves_that_out, 0,
			    (int)ARRAY_SIZE(lacking));
	suite_add_tcase(s, tcase);
	return s;
}
