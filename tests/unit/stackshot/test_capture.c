/* SPDX-License-Identifier: Apache-2.0 */
/* Whole captures of a made-up guest. */
#include <string.h>

#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

static void expect_stack(int32_t tid, const char *const *names)
{
	const struct view_thread *t = view_thread(&view, tid);
	uint32_t i = 0;

	for (; names[i]; i++) {
		ck_assert_uint_lt(i, t->frames.count);
		ck_assert_str_eq(view_name(&view, t, i), names[i]);
	}
	ck_assert_uint_eq(t->frames.count, i);
}

#define STACK(tid, ...) expect_stack(tid, (const char *const[]){ __VA_ARGS__, NULL })

START_TEST(capture_has_every_process_and_thread_once)
{
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_eq(result.tasks, 4);
	ck_assert_uint_eq(result.threads, 6);
	ck_assert_uint_eq(result.tries, 1);
	ck_assert_uint_eq(view.tasks, 5);
	ck_assert_uint_eq(view_task(&view, 1)->count, 1);
	ck_assert_uint_eq(view_task(&view, 2)->count, 1);
	ck_assert_uint_eq(view_task(&view, 100)->count, 3);
	ck_assert_uint_eq(view_task(&view, 200)->count, 1);
	ck_assert_uint_eq(view_task(&view, 100)->r.threads, 3);
	ck_assert_str_eq(view_task(&view, 100)->r.comm, "worker");
	ck_assert_str_eq(view_task(&view, 100)->stock.ts_p_comm, "worker");
	ck_assert_int_eq(view_task(&view, 100)->r.ppid, 0);
	ck_assert_uint_eq(view_task(&view, 2)->r.flags, LNX_PF_KTHREAD);
	ck_assert_uint_eq(view_task(&view, 100)->r.address, guest.threads[2].address);
	// sums over the threads of the process
	ck_assert_uint_eq(view_task(&view, 100)->stock.ts_faults, 3 * 17);
	ck_assert_uint_eq(view_task(&view, 100)->stock.ts_pageins, 3 * 9);
}
END_TEST

START_TEST(capture_has_all_stacks_with_names)
{
	session_capture_all();
	STACK(1, "__sched_text_start+0x14", "schedule+0x14", "do_epoll_wait+0x14", "el0_svc+0x14",
	      "el0t_64_sync+0x14");
	STACK(2, "__sched_text_start+0x14", "schedule+0x14", "worker_thread+0x14", "kthread+0x14",
	      "ret_from_fork+0x14");
	STACK(100, "__sched_text_start+0x14", "schedule+0x14", LG_NAME_63 "+0x14",
	      LG_NAME_64 "+0x14", "el0_svc+0x14", "el0t_64_sync+0x14");
	STACK(101, "pipe_read+0x40", "vfs_read+0x14", "el0_svc+0x14", "el0t_64_sync+0x14");
	STACK(102, "__sched_text_start+0x14", "schedule+0x14", "futex_wait+0x14", "el0_svc+0x14",
	      "el0t_64_sync+0x14");
	ck_assert_uint_eq(view_thread(&view, 200)->frames.count, 0);
	ck_assert_uint_eq(view_thread(&view, 200)->r.stack_end, LNX_END_NO_STACK);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end, LNX_END_COMPLETE);
	ck_assert_uint_eq(view_thread(&view, 102)->r.stack_end_at, 0);
}
END_TEST

START_TEST(long_names_have_records_of_their_own)
{
	uint32_t longs = 0;

	session_capture_all();
	for (uint32_t i = 0; i < view.symbols; i++) {
		const struct view_symbol *s = &view.symbol[i];

		longs += s->is_long;
		ck_assert_int_eq(s->is_long, strcmp(s->name, LG_NAME_64) == 0);
		if (strcmp(s->name, LG_NAME_63) == 0)
			ck_assert_uint_eq(s->size, 0x200);
		ck_assert_uint_eq(s->flags == SS_SYMBOL_SCHED,
				  strcmp(s->name, "__sched_text_start") == 0 ||
					  strcmp(s->name, "schedule") == 0);
	}
	ck_assert_uint_eq(longs, 1);
}
END_TEST

START_TEST(capture_says_where_it_is_from)
{
	session_capture_all();
	ck_assert_str_eq(view.banner, "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP");
	ck_assert_str_eq(view.release, "6.1.0-made-up");
	ck_assert_str_eq(view.guest.source, "memory");
	ck_assert_uint_eq(view.guest.ram_size, LG_RAM_DEFAULT);
	ck_assert_uint_eq(view.guest.vcpus, 2);
	ck_assert_uint_eq(view.guest.clusters, 1);
	ck_assert_uint_eq(view.guest.kernel_text, lg_symbol(&guest, "_stext"));
	ck_assert_uint_eq(view.guest.kernel_voffset, LG_VOFFSET);
	ck_assert_uint_eq(view.guest.page_size, 4096);
	ck_assert_uint_eq(view.guest.va_bits, 48);
	ck_assert_uint_eq(view.guest.symbols, guest.symbol_count);
	ck_assert_int_eq(view.in_pid, SS_PID_ALL);
	ck_assert_uint_gt(view.times.reads, 50);
	ck_assert_uint_gt(view.times.bytes, view.times.reads);
	for (size_t i = 0; i < 8; i++)
		ck_assert_uint_eq(view.times.faults[i], 0);
}
END_TEST

START_TEST(thread_records_say_what_the_task_says)
{
	const struct view_thread *t;

	guest.threads[4].task->prio = 98;
	guest.threads[4].task->rt_priority = 1;
	guest.threads[4].task->policy = 1;
	session_capture_all();
	t = view_thread(&view, 102);
	ck_assert_int_eq(t->r.state, 'D');
	ck_assert_uint_eq(t->r.raw_state, 2);
	ck_assert_uint_eq(t->r.known, 0x7f);
	ck_assert_uint_eq(t->r.cpu, 1);
	ck_assert_int_eq(t->r.prio, 98);
	ck_assert_int_eq(t->r.static_prio, 120);
	ck_assert_uint_eq(t->r.rt_priority, 1);
	ck_assert_uint_eq(t->r.policy, 1);
	ck_assert_uint_eq(t->r.utime_ns, 7000102);
	ck_assert_uint_eq(t->r.nivcsw, 6);
	ck_assert_uint_eq(t->r.start_boottime_ns, 102000700);
	ck_assert_uint_eq(t->r.address, guest.threads[4].address);
	ck_assert_str_eq(t->r.comm, "waiter");
	ck_assert_int_eq(t->r.vcpu, -1);
	ck_assert_uint_eq(t->id, UINT64_C(102) << 22 | 102);
	ck_assert_uint_eq(t->stock.ths_user_time, 7000102);
	ck_assert_int_eq(t->stock.ths_sched_priority, 98);
	ck_assert_uint_eq(t->stock.ths_state, KCD_THREAD_WAIT | KCD_THREAD_UNINT);
	ck_assert_uint_eq(t->times.user_usec, 7000);
	ck_assert_uint_eq(t->times.system_usec, 3000);
	ck_assert_uint_eq(view_thread(&view, 200)->r.state, 'Z');
	ck_assert_uint_eq(view_thread(&view, 2)->r.state, 'I');
	ck_assert(view_thread(&view, 100)->stock.ths_ss_flags & KCD_THREAD_MAIN);
	ck_assert(!(t->stock.ths_ss_flags & KCD_THREAD_MAIN));
}
END_TEST

START_TEST(running_thread_is_that_of_its_vcpu)
{
	const struct view_thread *t;

	session_capture_all();
	t = view_thread(&view, 101);
	ck_assert_int_eq(t->r.vcpu, 0);
	ck_assert_int_eq(t->r.state, 'R');
	ck_assert_uint_eq(view_kind(t, 0), LNX_FRAME_PC);
	ck_assert_uint_eq(view_kind(t, 1), LNX_FRAME_RETURN);
	ck_assert_uint_eq(view.vcpus, 2);
	ck_assert_uint_eq(view.vcpu[0].vcpu, 0);
	ck_assert_uint_eq(view.vcpu[0].state, SS_VCPU_KERNEL);
	ck_assert_int_eq(view.vcpu[0].pid, 100);
	ck_assert_int_eq(view.vcpu[0].tid, 101);
	ck_assert_uint_eq(view.vcpu[0].thread_id, t->id);
	ck_assert_str_eq(view.vcpu[0].comm, "runner");
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert_int_eq(view.thread[i].r.vcpu == 0, view.thread[i].r.tid == 101);
}
END_TEST

START_TEST(vcpu_records_have_all_registers)
{
	struct guest_vcpu_regs *r = &guest.m.regs[0];

	for (uint64_t i = 0; i < 29; i++)
		r->x[i] = 0x1000 + i;
	r->elr_el1 = 1;
	r->spsr_el1 = 2;
	r->mair_el1 = 3;
	r->contextidr_el1 = 4;
	session_capture_all();
	const struct ss_vcpu_record *v = &view.vcpu[0];
	ck_assert_mem_eq(v->x, r->x, sizeof(v->x));
	ck_assert_uint_eq(v->known, GUEST_REGS_ALL);
	ck_assert_uint_eq(v->pc, r->pc);
	ck_assert_uint_eq(v->pstate, r->pstate);
	ck_assert_uint_eq(v->sp_el0, r->sp_el0);
	ck_assert_uint_eq(v->sp_el1, r->sp_el1);
	ck_assert_uint_eq(v->elr_el1, 1);
	ck_assert_uint_eq(v->spsr_el1, 2);
	ck_assert_uint_eq(v->mair_el1, 3);
	ck_assert_uint_eq(v->contextidr_el1, 4);
	ck_assert_uint_eq(v->ttbr0_el1, r->ttbr0_el1);
	ck_assert_uint_eq(v->ttbr1_el1, r->ttbr1_el1);
	ck_assert_uint_eq(v->tcr_el1, r->tcr_el1);
	ck_assert_uint_eq(v->sctlr_el1, r->sctlr_el1);
	ck_assert_uint_eq(v->vbar_el1, r->vbar_el1);
	ck_assert_uint_eq(v->tpidr_el1, r->tpidr_el1);
	ck_assert_uint_eq(v->mpidr_el1, r->mpidr_el1);
}
END_TEST

// U09: each idle thread once, under one task with id 0, with ids of their own.
START_TEST(idle_threads_are_in_the_idle_task)
{
	const struct view_task *idle;

	session_end();
	session_make(&(struct lg_form){ .vcpus = 4 });
	session_capture_all();
	ck_assert(result.complete);
	idle = view_task(&view, 0);
	ck_assert_uint_eq(idle->id, 0);
	ck_assert_str_eq(idle->r.comm, "swapper");
	ck_assert_uint_eq(idle->count, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct view_thread *t = &view.thread[idle->first + i];
		char comm[] = "swapper/0";

		comm[8] = (char)('0' + i);
		ck_assert_str_eq(t->r.comm, comm);
		ck_assert_uint_eq(t->id, UINT64_C(1) << 63 | i);
		ck_assert_int_eq(t->r.vcpu, i ? (int32_t)i : -1); // vCPU 0 executes 101
		ck_assert(t->stock.ths_state & KCD_THREAD_IDLE);
		ck_assert_uint_eq(view.vcpu[i].state, i ? SS_VCPU_IDLE : SS_VCPU_KERNEL);
		if (i) {
			ck_assert_uint_eq(view.vcpu[i].thread_id, t->id);
			ck_assert_str_eq(view_name(&view, t, 0), "cpu_do_idle+0x8");
			ck_assert_str_eq(view_name(&view, t, 1), "arch_cpu_idle+0x14");
			ck_assert_uint_eq(view_kind(t, 1), LNX_FRAME_LR);
		}
	}
	ck_assert_uint_eq(result.threads, 6);
}
END_TEST

START_TEST(vcpu_in_user_mode_has_its_thread_and_no_kernel_frames)
{
	for (int kpti = 0; kpti < 2; kpti++) {
		lg_run_user(&guest, 0, &guest.threads[3], kpti);
		session_capture_all();
		ck_assert(result.complete);
		ck_assert_uint_eq(view.vcpu[0].state, SS_VCPU_USER);
		ck_assert_int_eq(view.vcpu[0].tid, 101);
		ck_assert_int_eq(view_thread(&view, 101)->r.vcpu, 0);
		ck_assert_uint_eq(view_thread(&view, 101)->frames.count, 0);
		ck_assert_uint_eq(view_thread(&view, 101)->r.stack_end, LNX_END_COMPLETE);
	}
}
END_TEST

START_TEST(vcpu_that_is_off_has_neither_thread_nor_idle_thread)
{
	guest.m.regs[1].state = GUEST_VCPU_OFF;
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_eq(view.vcpu[1].state, SS_VCPU_OFF);
	ck_assert_int_eq(view.vcpu[1].pid, -1);
	ck_assert_int_eq(view.vcpu[1].tid, -1);
	ck_assert_uint_eq(view_task(&view, 0)->count, 1);
}
END_TEST

START_TEST(one_process_is_captured_alone)
{
	ck_assert_int_eq(session_capture(100), GS_OK);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tasks, 1);
	ck_assert_uint_eq(view.threads, 3);
	ck_assert_uint_eq(result.tasks, 1);
	ck_assert_uint_eq(result.threads, 3);
	ck_assert_int_eq(view.in_pid, 100);
	ck_assert_uint_eq(view.vcpus, 2);
	ck_assert_int_eq(session_capture(2), GS_OK);
	ck_assert_uint_eq(view.threads, 1);
	ck_assert_int_eq(session_capture(4711), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(error.text, "no process has pid 4711"));
	session_capture_all();
	ck_assert_uint_eq(view.tasks, 5);
}
END_TEST

START_TEST(capture_again_is_the_same)
{
	static struct view first;

	session_capture_all();
	first = view;
	for (int i = 0; i < 5; i++) {
		session_capture_all();
		ck_assert_uint_eq(view.threads, first.threads);
		for (uint32_t t = 0; t < view.threads; t++) {
			ck_assert_uint_eq(view.thread[t].id, first.thread[t].id);
			ck_assert_mem_eq(&view.thread[t].r, &first.thread[t].r,
					 sizeof(first.thread[t].r));
		}
		ck_assert_uint_eq(view.symbols, first.symbols);
	}
}
END_TEST

START_TEST(kernels_of_every_generation_are_captured)
{
	static const struct lg_form forms[] = {
		{ .style = 'A', .old = true },
		{ .style = 'B', .seqs = true, .data_symbols = true },
		{ .style = 'C', .meta = true, .data_symbols = true },
		{ .style = 'C', .vcpus = 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		session_end();
		session_make(&forms[i]);
		session_capture_all();
		ck_assert(result.complete);
		ck_assert_uint_eq(view.tasks, 5);
		ck_assert_uint_eq(view_thread(&view, 102)->frames.count, 5);
		ck_assert_uint_eq(view_thread(&view, 101)->frames.count, 4);
		ck_assert_str_eq(view_name(&view, view_thread(&view, 102), 2), "futex_wait+0x14");
	}
}
END_TEST

// U15: a call that never returns may be its function's last instruction.
START_TEST(return_address_at_the_end_of_a_function_belongs_to_it)
{
	struct lg_thread *t = &guest.threads[4];

	lg_stack_reset(&guest, t);
	lg_push(&guest, t, lg_symbol(&guest, "vfs_read") + 0x200);
	t->task->fp = t->fp;
	session_capture_all();
	STACK(102, "__sched_text_start+0x14", "vfs_read+0x200");
}
END_TEST

START_TEST(pc_at_the_start_of_a_function_belongs_to_it)
{
	guest.m.regs[0].pc = lg_symbol(&guest, "futex_wait");
	session_capture_all();
	STACK(101, "futex_wait+0", "vfs_read+0x14", "el0_svc+0x14", "el0t_64_sync+0x14");
}
END_TEST

START_TEST(frames_in_unknown_executable_memory_have_no_symbol)
{
	struct lg_thread *t = &guest.threads[4];

	lg_stack_reset(&guest, t);
	lg_push(&guest, t, lg_in(&guest, "kthread"));
	lg_push(&guest, t, LG_MODULE + 0x124);
	t->task->fp = t->fp;
	session_capture_all();
	ck_assert(result.complete);
	STACK(102, "__sched_text_start+0x14", "0xffff800001000124", "kthread+0x14");
}
END_TEST

START_TEST(guest_strings_are_passed_on_as_they_are)
{
	memcpy(guest.threads[4].task->comm, "\x1b[31m\xff\xfe\"\\\n", 11);
	session_capture_all();
	ck_assert_mem_eq(view_thread(&view, 102)->r.comm, "\x1b[31m\xff\xfe\"\\\n", 11);
}
END_TEST

/* With one worker, and with three: nothing is different. */
static void setup_three(void)
{
	session_options.workers = 3;
	session_setup();
}

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, capture_has_every_process_and_thread_once);
	tcase_add_test(tc, capture_has_all_stacks_with_names);
	tcase_add_test(tc, long_names_have_records_of_their_own);
	tcase_add_test(tc, capture_says_where_it_is_from);
	tcase_add_test(tc, thread_records_say_what_the_task_says);
	tcase_add_test(tc, running_thread_is_that_of_its_vcpu);
	tcase_add_test(tc, vcpu_records_have_all_registers);
	tcase_add_test(tc, idle_threads_are_in_the_idle_task);
	tcase_add_test(tc, vcpu_in_user_mode_has_its_thread_and_no_kernel_frames);
	tcase_add_test(tc, vcpu_that_is_off_has_neither_thread_nor_idle_thread);
	tcase_add_test(tc, one_process_is_captured_alone);
	tcase_add_test(tc, capture_again_is_the_same);
	tcase_add_test(tc, kernels_of_every_generation_are_captured);
	tcase_add_test(tc, return_address_at_the_end_of_a_function_belongs_to_it);
	tcase_add_test(tc, pc_at_the_start_of_a_function_belongs_to_it);
	tcase_add_test(tc, frames_in_unknown_executable_memory_have_no_symbol);
	tcase_add_test(tc, guest_strings_are_passed_on_as_they_are);
}

Suite *suite_capture(void)
{
	Suite *s = suite_create("capture");
	TCase *one = tcase_create("one worker"), *three = tcase_create("three workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(three, 300);
	tcase_add_checked_fixture(one, session_setup, session_end);
	tcase_add_checked_fixture(three, setup_three, session_end);
	add_tests(one);
	add_tests(three);
	suite_add_tcase(s, one);
	suite_add_tcase(s, three);
	return s;
}
