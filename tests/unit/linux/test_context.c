/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in. */
#include "introspect/linux/context.h"

#include <check.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

#define NAMESPACES (0x7fu << 8)
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
	ck_assert_uint_eq(tc.known, LNX_THREAD_QUEUE | LNX_THREAD_SIGNALS);
	ck_assert_uint_eq(tc.on_rq, 1);
	ck_assert_uint_eq(tc.vruntime, 123456);
	ck_assert_uint_eq(tc.cfs_rq, LG_LINEAR + 64);
	ck_assert_uint_eq(tc.pending, 3);
	ck_assert_uint_eq(tc.blocked, UINT64_C(1) << 63);
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
	{ "task_struct.on_rq", 0, LNX_THREAD_QUEUE },
	{ "task_struct.vruntime", 0, LNX_THREAD_QUEUE },
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
	ck_assert_uint_eq(tc.known, (LNX_THREAD_QUEUE | LNX_THREAD_SIGNALS) & ~lacking[_i].thread);
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
