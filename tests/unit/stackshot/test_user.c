/* SPDX-License-Identifier: Apache-2.0 */
/* User stacks in captures: asked for, and not to be had. */
#include "introspect/linux/user.h"

#include <string.h>

#include "introspect/stackshot/worker.h"
#include "tests/unit/linux/user_memory.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define TEXT  UINT64_C(0xaaaab0000000)
#define STACK UINT64_C(0xffffc0000000)

static struct lg_mm *init_mm, *worker_mm;

/* init with two frames; threads 100, 101 and 102 of one process with one, two and three behind the pc. */
static void give_stacks(void)
{
	struct lg_thread *t = guest.threads;

	init_mm = lg_add_mm(&guest, &t[0], 0x10001);
	worker_mm = lg_add_mm(&guest, &t[2], 0x10002);
	t[3].task->mm = t[4].task->mm = t[2].task->mm;
	um_enter(&guest, &t[0], TEXT + 0x100, STACK, 0);
	um_record(&guest, init_mm, STACK, 0, TEXT + 0x200);
	for (uint32_t i = 0; i < 3; i++) {
		const uint64_t at = STACK + 0x10000 * i;

		um_enter(&guest, &t[2 + i], TEXT + 0x1000 * i, at, 0);
		for (uint32_t k = 0; k <= i; k++)
			um_record(&guest, worker_mm, at + 0x10 * k, k < i ? at + 0x10 * (k + 1) : 0,
				  TEXT + 0x1000 * i + 4 * (k + 1));
	}
}

static void make_guest(const struct lg_form *form)
{
	lg_create(&guest, form);
	lg_populate(&guest);
	give_stacks();
	session_begin();
}

static void setup(void)
{
	make_guest(&(struct lg_form){ .seqs = true });
}

static struct ss_request user_request(int32_t pid)
{
	struct ss_request q = session_request(pid);

	q.flags = SS_USER_STACKS;
	return q;
}

static void capture(void)
{
	const struct ss_request q = user_request(SS_PID_ALL);

	ck_assert_msg(session_capture_with(&q) == GS_OK, "%s", error.text);
	ck_assert_uint_eq(view.in_flags, SS_USER_STACKS | KCD_SS_KCDATA_FORMAT);
}

static const struct view_thread *expect_end(int32_t tid, enum lnx_user_end end, uint64_t at)
{
	const struct view_thread *t = view_thread(&view, tid);

	ck_assert(t->has_user);
	ck_assert_str_eq(lnx_user_end_name((enum lnx_user_end)t->user.end), lnx_user_end_name(end));
	ck_assert_uint_eq(t->user.end_at, at);
	return t;
}

static void expect_worker_stack(uint32_t i)
{
	const struct view_thread *t = expect_end(100 + (int32_t)i, LNX_USER_COMPLETE, 0);

	ck_assert_uint_eq(t->user_frames.count, 2 + i);
	for (uint32_t k = 0; k < 2 + i; k++)
		ck_assert_uint_eq(view_user_frame(t, k), TEXT + 0x1000 * i + 4 * k);
	ck_assert_uint_eq(t->user.has_lr, 0);
}

static void expect_all(void)
{
	ck_assert(result.complete);
	ck_assert_uint_eq(view.out_flags, SS_USER_STACKS | KCD_SS_KCDATA_FORMAT);
	for (uint32_t i = 0; i < 3; i++)
		expect_worker_stack(i);
	const struct view_thread *t = expect_end(1, LNX_USER_COMPLETE, 0);
	ck_assert_uint_eq(t->user_frames.count, 2);
	ck_assert_uint_eq(view_user_frame(t, 1), TEXT + 0x200);
}

START_TEST(no_user_stack_is_recorded_unasked)
{
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_eq(view.out_flags & SS_USER_STACKS, 0);
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert(!view.thread[i].has_user && !view.thread[i].user_frames.count);
}
END_TEST

START_TEST(threads_with_an_address_space_have_their_user_stacks)
{
	capture();
	expect_all();
	// a kernel thread, one that has ended, idle ones: none
	ck_assert(!view_thread(&view, 2)->has_user);
	ck_assert(!view_thread(&view, 200)->has_user);
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert(view.thread[i].r.tid || !view.thread[i].has_user);
	// the kernel stacks are as they are
	ck_assert_str_eq(view_name(&view, view_thread(&view, 102), 1), "schedule+0x14");
}
END_TEST

START_TEST(user_stacks_of_one_process_and_in_a_panic)
{
	struct ss_request q = user_request(100);

	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert_uint_eq(view.threads, 3);
	expect_worker_stack(2);
	capture();
	q = user_request(SS_PID_ALL);
	q.flags |= KCD_SS_FROM_PANIC;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	for (uint32_t i = 0; i < 3; i++)
		expect_worker_stack(i);
}
END_TEST

START_TEST(user_stacks_are_the_same_with_any_number_of_workers)
{
	for (session_options.workers = 1; session_options.workers <= 4; session_options.workers++) {
		session_restart();
		capture();
		expect_all();
	}
}
END_TEST

// A leader that has ended has no address space, its threads have.
START_TEST(each_thread_has_its_own_address_space)
{
	guest.threads[2].task->mm = 0;
	guest.threads[4].task->mm = guest.threads[0].task->mm;
	um_record(&guest, init_mm, STACK + 0x20000, 0, TEXT + 0x300);
	capture();
	ck_assert(!view_thread(&view, 100)->has_user);
	expect_worker_stack(1);
	ck_assert_uint_eq(view_user_frame(view_thread(&view, 102), 1), TEXT + 0x300);
}
END_TEST

/* --- what is not to be had -------------------------------------------------------------------- */

START_TEST(stack_that_breaks_off_says_why_and_leaves_the_capture_complete)
{
	um_record(&guest, worker_mm, STACK + 0x20000, STACK + 0x30000, TEXT + 0x2004);
	capture();
	ck_assert(result.complete);
	const struct view_thread *t = expect_end(102, LNX_USER_NOT_PRESENT, STACK + 0x30000);
	ck_assert_uint_eq(t->user_frames.count, 2);
	expect_worker_stack(1);
}
END_TEST

START_TEST(thread_of_32_bits_is_said_to_be_one)
{
	um_saved(&guest, &guest.threads[4])->pstate = 0x10;
	capture();
	const struct view_thread *t = expect_end(102, LNX_USER_32BIT, 0);
	ck_assert_uint_eq(t->user_frames.count, 0);
	ck_assert_uint_eq(t->stock.ths_ss_flags & KCD_SS_USER64, 0);
	ck_assert_uint_ne(view_thread(&view, 101)->stock.ths_ss_flags & KCD_SS_USER64, 0);
}
END_TEST

START_TEST(thread_that_a_vcpu_has_in_user_mode_has_its_registers)
{
	lg_run_user(&guest, 0, &guest.threads[3], false);
	guest.m.regs[0].x[29] = STACK + 0x20000;
	capture();
	const struct view_thread *t = expect_end(101, LNX_USER_COMPLETE, 0);
	ck_assert_uint_eq(t->user_frames.count, 4);
	ck_assert_uint_eq(view_user_frame(t, 0), guest.m.regs[0].pc);
	ck_assert_uint_eq(view_user_frame(t, 3), TEXT + 0x200c);
	ck_assert_uint_eq(t->frames.count, 0);
}
END_TEST

START_TEST(thread_of_a_vcpu_without_registers_has_no_user_stack)
{
	capture();
	guest.deaf = 1; // the vCPU that executes 101
	capture();
	const struct view_thread *t = expect_end(101, LNX_USER_NO_REGISTERS, 0);
	ck_assert_uint_eq(t->user_frames.count, 0);
	expect_worker_stack(0);
	expect_worker_stack(2);
}
END_TEST

START_TEST(kernel_that_does_not_tell_has_the_flag_dropped)
{
	static const char *const omit[] = { "mm_struct.pgd", "task_struct.mm" };

	for (size_t i = 0; i < ARRAY_SIZE(omit); i++) {
		const struct typeinfo_form types = { .omit = omit[i] };

		session_end();
		make_guest(&(struct lg_form){ .seqs = true, .types = &types });
		capture();
		ck_assert(result.complete);
		ck_assert_uint_eq(view.out_flags, KCD_SS_KCDATA_FORMAT);
		for (uint32_t k = 0; k < view.threads; k++)
			ck_assert(!view.thread[k].has_user);
	}
}
END_TEST

// Each read fails once: what is there then is the beginning of what there is, or it is said.
START_TEST(reads_that_fail_cut_user_stacks_and_nothing_else)
{
	uint64_t cut = 0;
	const struct ss_request q = user_request(100);

	capture();
	lg_unmap_host(&guest);
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	const uint64_t reads = guest.reads;
	ck_assert_uint_gt(reads, 100);
	for (uint64_t n = 1; n <= reads; n++) {
		guest.reads = 0;
		guest.fail_first = guest.fail_last = n;
		if (session_capture_with(&q))
			continue;
		for (uint32_t i = 0; i < view.threads; i++) {
			const struct view_thread *t = &view.thread[i];
			const uint32_t k = (uint32_t)t->r.tid - 100;

			ck_assert(t->has_user || !(view.out_flags & SS_USER_STACKS));
			cut += t->user.end == LNX_USER_UNREADABLE;
			ck_assert(!t->has_user || t->user.end || t->user_frames.count == 2 + k);
			for (uint32_t f = 0; f < t->user_frames.count; f++)
				ck_assert_uint_eq(view_user_frame(t, f), TEXT + 0x1000 * k + 4 * f);
		}
	}
	ck_assert_uint_ge(cut, 3);
}
END_TEST

/* --- mappings --------------------------------------------------------------------------------- */

static uint64_t program;

/* The program's text, the first and the second part of it, and something else that no frame is in. */
static void give_mappings(void)
{
	const uint64_t root = um_dentry(&guest, 0, "/"), bin = um_dentry(&guest, root, "bin");

	program = um_file(&guest, um_dentry(&guest, bin, "worker"), 4711);
	const struct um_mapping m[] = {
		{ TEXT - 0x2000, TEXT - 0x1000, 0, program },
		{ TEXT, TEXT + 0x1000, 2, program },
		{ TEXT + 0x1000, TEXT + 0x3000, 3, program },
		{ TEXT + 0x3000, TEXT + 0x9000, 0, 0 },
	};
	um_map(&guest, worker_mm, m, 4);
	um_program(&guest, worker_mm, TEXT - 0x2000, "build id of 20 bytes", 20);
}

static void expect_mappings(void)
{
	const struct view_task *t = view_task(&view, 100);

	ck_assert_uint_eq(t->mapping_count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		ck_assert_uint_eq(t->mapping[i].start, TEXT + 0x1000 * i);
		ck_assert_uint_eq(t->mapping[i].end, TEXT + (i ? 0x3000 : 0x1000));
		ck_assert_uint_eq(t->mapping[i].offset, 0x2000 + 0x1000 * i);
		ck_assert_uint_eq(t->mapping[i].inode, 4711);
		ck_assert_str_eq(t->mapping[i].file, "/bin/worker");
		ck_assert_uint_eq(t->mapping[i].build_id_size, 20);
		ck_assert_mem_eq(t->mapping[i].build_id, "build id of 20 bytes", 20);
	}
	// init has none
	ck_assert_uint_eq(view_task(&view, 1)->mapping_count, 0);
}

START_TEST(process_has_the_mappings_that_its_frames_lie_in)
{
	give_mappings();
	for (session_options.workers = 1; session_options.workers <= 4; session_options.workers++) {
		session_restart();
		capture();
		expect_all();
		expect_mappings();
	}
	// a return address at the end of one belongs to it, also when nothing follows
	const struct um_mapping m = { TEXT + 0x1000, TEXT + 0x2004, 3, program };
	um_map(&guest, worker_mm, &m, 1);
	guest.threads[3].task->mm = 0;
	capture();
	ck_assert_uint_eq(view_task(&view, 100)->mapping_count, 1);
}
END_TEST

// The parent waits for a child that has its address space: each has what its own frames lie in.
START_TEST(processes_may_share_an_address_space)
{
	give_mappings();
	guest.threads[0].task->mm = guest.threads[2].task->mm;
	um_record(&guest, worker_mm, STACK, 0, TEXT + 0x200);
	capture();
	ck_assert_uint_eq(view_task(&view, 1)->mapping_count, 1);
	ck_assert_uint_eq(view_task(&view, 100)->mapping_count, 2);
}
END_TEST

START_TEST(of_very_many_mappings_the_first_ones_are_there)
{
	enum { MANY = SS_MAPPINGS_MAX + 5 };
	static struct um_mapping m[MANY];

	for (uint32_t i = 0; i < MANY; i++) {
		const uint64_t at = STACK + 0x20000 + 0x10 * i;

		m[i] = (struct um_mapping){ TEXT + 0x10000 * i, TEXT + 0x10000 * i + 0x4000, 0, 0 };
		um_record(&guest, worker_mm, at, i + 1 < MANY ? at + 0x10 : 0, m[i].start + 4);
	}
	um_map(&guest, worker_mm, m, MANY);
	capture();
	ck_assert(result.complete);
	ck_assert_uint_eq(view_thread(&view, 102)->user_frames.count, 1 + MANY);
	ck_assert_uint_eq(view_task(&view, 100)->mapping_count, SS_MAPPINGS_MAX);
}
END_TEST

/* --- deltas ----------------------------------------------------------------------------------- */

START_TEST(delta_has_user_stacks_of_threads_that_ran)
{
	struct ss_request q = user_request(SS_PID_ALL);

	session_options.remember = true;
	session_restart();
	capture();
	q.flags |= KCD_SS_COLLECT_DELTA_SNAPSHOT;
	q.since_ns = view.start_ns;
	guest.threads[4].task->nvcsw++;
	ck_assert_msg(session_capture_with(&q) == GS_OK, "%s", error.text);
	expect_worker_stack(2);
	ck_assert(!view_has_thread(&view, 100));
}
END_TEST

static void teardown(void)
{
	session_end();
	session_options = (struct ss_options){ 0 };
}

Suite *suite_user(void)
{
	Suite *s = suite_create("user");
	TCase *tc = tcase_create("user");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, no_user_stack_is_recorded_unasked);
	tcase_add_test(tc, threads_with_an_address_space_have_their_user_stacks);
	tcase_add_test(tc, user_stacks_of_one_process_and_in_a_panic);
	tcase_add_test(tc, user_stacks_are_the_same_with_any_number_of_workers);
	tcase_add_test(tc, each_thread_has_its_own_address_space);
	tcase_add_test(tc, stack_that_breaks_off_says_why_and_leaves_the_capture_complete);
	tcase_add_test(tc, thread_of_32_bits_is_said_to_be_one);
	tcase_add_test(tc, thread_that_a_vcpu_has_in_user_mode_has_its_registers);
	tcase_add_test(tc, thread_of_a_vcpu_without_registers_has_no_user_stack);
	tcase_add_test(tc, kernel_that_does_not_tell_has_the_flag_dropped);
	tcase_add_test(tc, reads_that_fail_cut_user_stacks_and_nothing_else);
	tcase_add_test(tc, process_has_the_mappings_that_its_frames_lie_in);
	tcase_add_test(tc, of_very_many_mappings_the_first_ones_are_there);
	tcase_add_test(tc, processes_may_share_an_address_space);
	tcase_add_test(tc, delta_has_user_stacks_of_threads_that_ran);
	suite_add_tcase(s, tc);
	return s;
}
