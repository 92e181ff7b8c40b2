/* SPDX-License-Identifier: Apache-2.0 */
/* What a task_struct says, and what is none; which task a vCPU executes. */
#include <string.h>

#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static struct lg_thread *t;
static struct lnx_task task;

static void find(void)
{
	struct gs_error err = { 0 };

	ck_assert_msg(!lnx_kernel_find(&g.m.guest, g.m.regs, 2, NULL, &k, &err), "%s", err.text);
	lnx_view_init(&v, k, &g.m.guest);
}

static void setup(void)
{
	lg_create(&g, &(struct lg_form){ 0 });
	lg_populate(&g);
	t = &g.threads[2]; // worker, 100
	find();
}

static void teardown(void)
{
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

static enum gs_code read_task(void)
{
	memset(&task, 0x5a, sizeof(task));
	return lnx_task_read(&v, GVA(t->address), &task);
}

START_TEST(task_is_read_with_all_it_says)
{
	t->task->rt_priority = 3;
	t->task->policy = 2;
	t->task->mm = UINT64_C(0xffff000000123000);
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert_uint_eq(task.address.a, t->address);
	ck_assert_int_eq(task.pid, 100);
	ck_assert_int_eq(task.tgid, 100);
	ck_assert_str_eq(task.comm, "worker");
	ck_assert_int_eq(task.state, 'S');
	ck_assert_uint_eq(task.raw_state, 1);
	ck_assert_uint_eq(task.exit_state, 0);
	ck_assert_uint_eq(task.flags, 0);
	ck_assert_uint_eq(task.on_cpu, 0);
	ck_assert_uint_eq(task.cpu, 1);
	ck_assert_int_eq(task.prio, 120);
	ck_assert_int_eq(task.static_prio, 120);
	ck_assert_uint_eq(task.rt_priority, 3);
	ck_assert_uint_eq(task.policy, 2);
	ck_assert_uint_eq(task.utime_ns, 7000100);
	ck_assert_uint_eq(task.stime_ns, 3000000);
	ck_assert_uint_eq(task.sum_exec_runtime_ns, 10000000);
	ck_assert_uint_eq(task.nvcsw, 5);
	ck_assert_uint_eq(task.nivcsw, 6);
	ck_assert_uint_eq(task.start_time_ns, 100000500);
	ck_assert_uint_eq(task.start_boottime_ns, 100000700);
	ck_assert_uint_eq(task.exec_start_ns, 123456789);
	ck_assert_uint_eq(task.min_flt, 8);
	ck_assert_uint_eq(task.maj_flt, 9);
	ck_assert_uint_eq(task.mm.a, UINT64_C(0xffff000000123000));
	ck_assert_uint_eq(task.signal.a, t->signal_address);
	ck_assert_uint_eq(task.stack.a, t->stack);
	ck_assert_uint_eq(task.real_parent.a, g.init.address);
	ck_assert_uint_eq(task.group_leader.a, t->address);
	ck_assert_uint_eq(task.context_fp, t->fp);
	ck_assert_uint_eq(task.context_pc, lg_in(&g, "__switch_to"));
	ck_assert_uint_eq(task.valid, LNX_TASK_HAS_CPU | LNX_TASK_HAS_TIMES |
					      LNX_TASK_HAS_SWITCHES | LNX_TASK_HAS_START |
					      LNX_TASK_HAS_FAULTS | LNX_TASK_HAS_PRIO |
					      LNX_TASK_HAS_LAST_RUN);
}
END_TEST

START_TEST(on_cpu_of_one_byte_is_not_read_with_its_neighbours)
{
	t->task->on_cpu = 1;
	t->task->bits = 0xff;
	t->task->unused = 0xffff;
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert_uint_eq(task.on_cpu, 1);
}
END_TEST

START_TEST(task_of_an_old_kernel_is_read_with_all_it_says)
{
	teardown();
	lg_create(&g, &(struct lg_form){ .old = true });
	lg_populate(&g);
	t = &g.threads[2];
	t->task->cpu = 5;
	find();
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert_int_eq(task.state, 'S');
	ck_assert_uint_eq(task.cpu, 5);
	ck_assert_uint_eq(task.start_boottime_ns, 100000700);
	ck_assert(task.valid & LNX_TASK_HAS_START);
}
END_TEST

START_TEST(facts_a_kernel_does_not_have_are_not_claimed)
{
	static const struct typeinfo_form types = { .omit = "task_struct.utime" };

	teardown();
	lg_create(&g, &(struct lg_form){ .types = &types });
	lg_populate(&g);
	t = &g.threads[2];
	find();
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert(!(task.valid & LNX_TASK_HAS_TIMES));
	ck_assert_uint_eq(task.utime_ns, 0);
	ck_assert_uint_eq(task.stime_ns, 0);
	ck_assert(task.valid & LNX_TASK_HAS_FAULTS);
}
END_TEST

// T08: fs/proc/array.c of the kernel is the judge; the raw state is kept beside the letter.
static const struct {
	uint32_t state, exit_state;
	char letter;
} states[] = {
	{ 0, 0, 'R' },	     { 1, 0, 'S' },	  { 2, 0, 'D' },      { 4, 0, 'T' },
	{ 8, 0, 't' },	     { 0x40, 0, 'P' },	  { 0x402, 0, 'I' },  { 0x1002, 0, 'D' },
	{ 0x1000, 0, 'D' },  { 0x100, 0, 'R' },	  { 0x102, 0, 'D' },  { 0x101, 0, 'S' },
	{ 0x80, 0x10, 'X' }, { 0x80, 0x20, 'Z' }, { 0, 0x20, 'Z' },   { 0x80, 0x30, 'Z' },
	{ 0x104, 0, 'T' },   { 0x108, 0, 't' },	  { 0x400, 0, 'R' },  { 0x800, 0, 'R' },
	{ 0x200, 0, 'R' },   { 0x8002, 0, 'D' },  { 0x2001, 0, 'S' }, { 1, 0x10, 'X' },
};

START_TEST(states_have_the_letters_of_proc)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		t->task->state = states[i].state;
		t->task->exit_state = states[i].exit_state;
		ck_assert_int_eq(read_task(), GS_OK);
		ck_assert_msg(task.state == states[i].letter, "%#x/%#x: %c",
			      (unsigned int)states[i].state, (unsigned int)states[i].exit_state,
			      task.state);
		ck_assert_uint_eq(task.raw_state, states[i].state);
		ck_assert_uint_eq(task.exit_state, states[i].exit_state);
	}
}
END_TEST

// X11
START_TEST(comm_without_an_end_is_no_task)
{
	memset(t->task->comm, 'x', 16);
	ck_assert_int_eq(read_task(), GS_EMALFORMED);
	t->task->comm[15] = '\0';
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert_str_eq(task.comm, "xxxxxxxxxxxxxxx");
	memset(t->task->comm, 0, 16);
	ck_assert_int_eq(read_task(), GS_OK);
	ck_assert_str_eq(task.comm, "");
}
END_TEST

START_TEST(ids_out_of_range_are_no_task)
{
	static const int32_t bad[] = { -1, INT32_MIN, INT32_MAX, LNX_TASKS_MAX + 1 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		t->task->pid = bad[i];
		ck_assert_int_eq(read_task(), GS_EMALFORMED);
		t->task->pid = 100;
		t->task->tgid = bad[i];
		ck_assert_int_eq(read_task(), GS_EMALFORMED);
		t->task->tgid = 100;
	}
	t->task->pid = LNX_TASKS_MAX;
	ck_assert_int_eq(read_task(), GS_OK);
}
END_TEST

START_TEST(relatives_that_are_no_tasks_make_no_task)
{
	static const uint64_t bad[] = { 0, 8, UINT64_C(0xffff000000000001),
					UINT64_C(0x7fff000000000000) };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		uint64_t before = t->task->group_leader;

		t->task->group_leader = bad[i];
		ck_assert_int_eq(read_task(), GS_EMALFORMED);
		t->task->group_leader = before;
		before = t->task->real_parent;
		t->task->real_parent = bad[i];
		ck_assert_int_eq(read_task(), GS_EMALFORMED);
		t->task->real_parent = before;
	}
	ck_assert_int_eq(read_task(), GS_OK);
}
END_TEST

START_TEST(address_that_is_none_of_an_object_is_no_task)
{
	static const uint64_t bad[] = { 0, 4, UINT64_C(0x0000ffff00000000), UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(lnx_task_read(&v, GVA(bad[i]), &task), GS_EMALFORMED);
	ck_assert_int_eq(lnx_task_read(&v, GVA(t->address + 4), &task), GS_EMALFORMED);
	ck_assert_int_eq(lnx_task_read(&v, GVA(UINT64_MAX - 7), &task), GS_EFAULT);
}
END_TEST

/* A task that begins so far before the end of a page, with the page behind it gone or not. */
static enum gs_code read_across(uint64_t before_end, bool gone)
{
	uint64_t pa = lg_pages(&g, 2), va = LG_LINEAR + (pa - LG_RAM);
	uint64_t at = 4096 - before_end;

	memcpy(lg_at(&g, pa + at), t->task, sizeof(*t->task));
	if (gone)
		lg_unmap(&g, va + 4096);
	return lnx_task_read(&v, GVA(va + at), &task);
}

START_TEST(task_with_a_page_in_its_middle_gone_is_unreadable)
{
	// the first and the last byte that are read are in the pages' own half, too
	for (uint64_t before = 8; before < offsetof(struct lg_task, nsproxy); before += 24) {
		ck_assert_int_eq(read_across(before, false), GS_OK);
		ck_assert_str_eq(task.comm, "worker");
		ck_assert_int_eq(read_across(before, true), GS_EFAULT);
	}
	ck_assert_int_eq(read_across(sizeof(struct lg_task), true), GS_OK);
}
END_TEST

START_TEST(tgid_alone_is_read_and_checked)
{
	int32_t tgid = 5;

	ck_assert_int_eq(lnx_task_tgid(&v, GVA(g.threads[3].address), &tgid), GS_OK);
	ck_assert_int_eq(tgid, 100);
	g.threads[3].task->tgid = -3;
	ck_assert_int_eq(lnx_task_tgid(&v, GVA(g.threads[3].address), &tgid), GS_EMALFORMED);
	ck_assert_int_eq(lnx_task_tgid(&v, GVA(0), &tgid), GS_EFAULT);
	ck_assert_int_eq(tgid, 100);
}
END_TEST

/* --- what a vCPU executes --------------------------------------------------------------------- */

static struct guest_vcpu_regs *regs;

static uint64_t current(void)
{
	gva_t at = GVA(7);

	regs = &g.m.regs[0];
	enum gs_code rc = lnx_vcpu_current(&v, regs, &at);
	ck_assert(rc == GS_OK || (rc == GS_ENOENT && at.a == 7));
	return rc ? 0 : at.a;
}

START_TEST(task_in_the_kernel_is_that_of_sp_el0)
{
	ck_assert_uint_eq(current(), g.threads[3].address);
	// while the CPU switches, SP_EL0 is older than __entry_task
	memcpy(g.cpu[0].bytes + LG_PERCPU_ENTRY_TASK, &g.threads[4].address, 8);
	ck_assert_uint_eq(current(), g.threads[3].address);
}
END_TEST

START_TEST(task_in_user_mode_is_that_of_the_entry_task)
{
	lg_run_user(&g, 0, t, true);
	// a user's stack pointer may be anything, also another task's address
	g.m.regs[0].sp_el0 = g.threads[4].address;
	ck_assert_uint_eq(current(), t->address);
}
END_TEST

START_TEST(sp_el0_that_is_no_task_falls_back_to_the_entry_task)
{
	static const uint64_t bad[] = { 0, 0xffffc0001230, UINT64_C(0xffff000000000010) };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		g.m.regs[0].sp_el0 = bad[i];
		ck_assert_uint_eq(current(), g.threads[3].address);
	}
	g.m.regs[0].sp_el0 = g.threads[4].address;
	g.threads[4].task->stack = 0; // a task that executes has a stack
	ck_assert_uint_eq(current(), g.threads[3].address);
}
END_TEST

START_TEST(nothing_is_executed_by_a_vcpu_that_is_off_or_unknown)
{
	g.m.regs[0].state = GUEST_VCPU_OFF;
	ck_assert_uint_eq(current(), 0);
	g.m.regs[0].state = GUEST_VCPU_UNKNOWN;
	ck_assert_uint_eq(current(), g.threads[3].address);
	g.m.regs[0].valid &= ~(uint32_t)GUEST_REGS_TPIDR;
	ck_assert_uint_eq(current(), g.threads[3].address);
	g.m.regs[0].sp_el0 = 0;
	ck_assert_uint_eq(current(), 0);
	g.m.regs[0].valid = 0;
	ck_assert_uint_eq(current(), 0);
}
END_TEST

START_TEST(entry_task_that_is_no_task_is_not_executed)
{
	uint64_t bad = g.threads[3].address + 16;

	g.m.regs[0].sp_el0 = 0;
	memcpy(g.cpu[0].bytes + LG_PERCPU_ENTRY_TASK, &bad, 8);
	ck_assert_uint_eq(current(), 0);
	g.m.regs[0].tpidr_el1 += UINT64_C(1) << 40;
	ck_assert_uint_eq(current(), 0);
}
END_TEST

/* --- idle tasks ------------------------------------------------------------------------------- */

static enum gs_code idle_of(uint64_t tpidr)
{
	gva_t at = GVA(7);
	enum gs_code rc = lnx_idle_task(&v, tpidr, &at);

	ck_assert_uint_eq(at.a, rc ? 7 : g.cpu[0].idle.address);
	return rc;
}

START_TEST(run_queue_is_proved_by_its_idle_task_at_each_use)
{
	uint8_t *idle = g.cpu[0].bytes + LG_PERCPU_RUNQUEUES + offsetof(struct lg_rq, idle);
	static const uint64_t bad[] = { 0, 3, 0xffffc0001230, UINT64_C(0xffff000000000000) };

	ck_assert_int_eq(idle_of(g.cpu[0].offset), GS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(idle, &bad[i], 8);
		ck_assert_int_eq(idle_of(g.cpu[0].offset), GS_ENOENT);
	}
	memcpy(idle, &g.threads[2].address, 8); // a task, but no idle one
	ck_assert_int_eq(idle_of(g.cpu[0].offset), GS_ENOENT);
	memcpy(idle, &g.cpu[0].idle.address, 8);
	ck_assert_int_eq(idle_of(g.cpu[0].offset), GS_OK);
	ck_assert_int_eq(idle_of(g.cpu[0].offset + (UINT64_C(1) << 45)), GS_ENOENT);
	ck_assert_int_eq(idle_of(UINT64_MAX), GS_ENOENT);
	ck_assert_int_eq(idle_of(0), GS_ENOENT);
}
END_TEST

Suite *suite_task(void)
{
	Suite *s = suite_create("task");
	TCase *tc = tcase_create("task");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, task_is_read_with_all_it_says);
	tcase_add_test(tc, on_cpu_of_one_byte_is_not_read_with_its_neighbours);
	tcase_add_test(tc, task_of_an_old_kernel_is_read_with_all_it_says);
	tcase_add_test(tc, facts_a_kernel_does_not_have_are_not_claimed);
	tcase_add_test(tc, states_have_the_letters_of_proc);
	tcase_add_test(tc, comm_without_an_end_is_no_task);
	tcase_add_test(tc, ids_out_of_range_are_no_task);
	tcase_add_test(tc, relatives_that_are_no_tasks_make_no_task);
	tcase_add_test(tc, address_that_is_none_of_an_object_is_no_task);
	tcase_add_test(tc, task_with_a_page_in_its_middle_gone_is_unreadable);
	tcase_add_test(tc, tgid_alone_is_read_and_checked);
	tcase_add_test(tc, task_in_the_kernel_is_that_of_sp_el0);
	tcase_add_test(tc, task_in_user_mode_is_that_of_the_entry_task);
	tcase_add_test(tc, sp_el0_that_is_no_task_falls_back_to_the_entry_task);
	tcase_add_test(tc, nothing_is_executed_by_a_vcpu_that_is_off_or_unknown);
	tcase_add_test(tc, entry_task_that_is_no_task_is_not_executed);
	tcase_add_test(tc, run_queue_is_proved_by_its_idle_task_at_each_use);
	suite_add_tcase(s, tc);
	return s;
}
