/* SPDX-License-Identifier: Apache-2.0 */
/* User stacks: registers, chains, the link register, what ends a stack. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "introspect/linux/user.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/user_memory.h"

#define TEXT  UINT64_C(0xaaaab0000000)
#define STACK UINT64_C(0xffffc0000000)

#define BL(from, to) (0x94000000u | (((uint32_t)((to) - (from)) >> 2) & 0x3ffffffu))
#define BLR_X1	     0xd63f0020u
#define BLRAA_X1_X2  0xd73f0822u
#define ADRP_X16     0x90000010u
#define BTI_C	     0xd503245fu
#define MOV_X29_SP   0x910003fdu
#define NOP	     0xd503201fu

static struct lnx_view view;
static struct lnx_user_space space;
static struct lnx_user_stack stack;
static struct lg_thread *worker;
static struct lg_mm *mm;

static void make_form(const struct lg_form *form)
{
	make(form);
	worker = &made.g.threads[2];
	mm = lg_add_mm(&made.g, worker, 0x10001);
	um_enter(&made.g, worker, TEXT + 0x100, STACK, 0);
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
}

static void setup(void)
{
	make_form(&(struct lg_form){ .seqs = true });
}

static void record(uint64_t fp, uint64_t next, uint64_t lr)
{
	um_record(&made.g, mm, fp, next, lr);
}

static void insn(uint64_t va, uint32_t word)
{
	um_insn(&made.g, mm, va, word);
}

static void unwind_on(const struct guest_vcpu_regs *cpu)
{
	struct lnx_task task;

	ck_assert_int_eq(lnx_task_read(&view, GVA(worker->address), &task), GS_OK);
	lnx_user_space_init(&space, &view, lnx_task_mm(&task), made.g.m.regs,
			    made.g.m.guest.vcpu_count);
	memset(&stack, 0xa5, sizeof(stack));
	lnx_user_unwind(&space, &task, cpu, &stack);
	ck_assert_uint_le(stack.count, LNX_USER_FRAMES_MAX);
}

static void expect_end(enum lnx_user_end end, uint64_t at)
{
	ck_assert_str_eq(lnx_user_end_name(stack.end), lnx_user_end_name(end));
	ck_assert_uint_eq(stack.end_at, at);
}

/* Frames behind the first, which is at TEXT + 0x100; 0 at the end. */
static void expect_frames(const uint64_t *offsets)
{
	uint32_t n = 1;

	ck_assert_uint_eq(stack.address[0], TEXT + 0x100);
	for (; offsets[n - 1]; n++)
		ck_assert_uint_eq(stack.address[n], TEXT + offsets[n - 1]);
	ck_assert_uint_eq(stack.count, n);
}

#define FRAMES(...) expect_frames((const uint64_t[]){ __VA_ARGS__, 0 })

static void expect_stack_of_three(void)
{
	record(STACK, STACK + 0x40, TEXT + 0x200);
	record(STACK + 0x40, 0, TEXT + 0x300);
	unwind_on(NULL);
	FRAMES(0x200, 0x300);
	ck_assert(!stack.has_lr);
	expect_end(LNX_USER_COMPLETE, 0);
}

/* --- chains ----------------------------------------------------------------------------------- */

START_TEST(records_are_followed_to_the_one_without_a_next)
{
	const uint64_t reads = view.reads;

	ck_assert(lnx_knows_user_stacks(made.k));
	expect_stack_of_three();
	ck_assert_uint_gt(view.reads, reads);
	for (size_t f = 0; f < A64_FAULTS; f++)
		ck_assert_uint_eq(view.faults[f], 0);
}
END_TEST

START_TEST(a_record_of_zeros_is_the_end_too)
{
	record(STACK, STACK + 0x10, TEXT + 0x200);
	record(STACK + 0x10, 0, 0);
	unwind_on(NULL);
	FRAMES(0x200);
	expect_end(LNX_USER_COMPLETE, 0);
}
END_TEST

START_TEST(a_frame_pointer_of_zero_has_the_pc_alone)
{
	um_enter(&made.g, worker, TEXT + 0x100, 0, 0);
	unwind_on(NULL);
	ck_assert_uint_eq(stack.count, 1);
	expect_end(LNX_USER_COMPLETE, 0);
}
END_TEST

// The second record itself crosses the end of its page, and the pages lie apart in memory.
START_TEST(records_may_be_in_several_pages_and_across_two)
{
	record(STACK, STACK + 0xff8, TEXT + 0x200);
	(void)lg_pages(&made.g, 3);
	record(STACK + 0xff8, STACK + 0x7000, TEXT + 0x300);
	record(STACK + 0x7000, 0, TEXT + 0x400);
	unwind_on(NULL);
	FRAMES(0x200, 0x300, 0x400);
	expect_end(LNX_USER_COMPLETE, 0);
}
END_TEST

START_TEST(authentication_codes_and_tags_are_stripped)
{
	um_enter(&made.g, worker, TEXT + 0x100, STACK | UINT64_C(0x5b) << 56, 0);
	record(STACK, (STACK + 0x40) | UINT64_C(0xff) << 56,
	       (TEXT + 0x200) | UINT64_C(0x7d2f) << 48);
	record(STACK + 0x40, 0, (TEXT + 0x300) | UINT64_C(0xff7f) << 48);
	unwind_on(NULL);
	FRAMES(0x200, 0x300);
	expect_end(LNX_USER_COMPLETE, 0);
}
END_TEST

/* --- what ends a stack before its end ----------------------------------------------------------- */

START_TEST(page_that_is_not_in_memory_ends_the_stack_and_is_named)
{
	record(STACK, STACK + 0x1000, TEXT + 0x200);
	record(STACK + 0x1000, 0, TEXT + 0x300);
	um_unmap(&made.g, mm, STACK + 0x1000);
	unwind_on(NULL);
	FRAMES(0x200);
	expect_end(LNX_USER_NOT_PRESENT, STACK + 0x1000);
	ck_assert_uint_eq(view.faults[A64_NOT_MAPPED], 1);
	// of a record that is there in part, nothing is shown
	record(STACK, STACK + 0xff8, TEXT + 0x200);
	unwind_on(NULL);
	FRAMES(0x200);
	expect_end(LNX_USER_NOT_PRESENT, STACK + 0xff8);
}
END_TEST

START_TEST(page_that_is_no_memory_ends_the_stack)
{
	record(STACK, STACK + 0x1000, TEXT + 0x200);
	*lg_entry(&made.g, lg_directory(&made.g, mm), STACK + 0x1000) = 0x9000f43;
	unwind_on(NULL);
	FRAMES(0x200);
	expect_end(LNX_USER_UNREADABLE, STACK + 0x1000);
	ck_assert_uint_eq(view.faults[A64_NOT_RAM], 1);
}
END_TEST

START_TEST(frame_pointers_that_can_be_none_end_the_stack)
{
	const uint64_t bad[] = { STACK,	       // to itself
				 STACK - 0x40, // back
				 STACK + 0x44, // not aligned
				 STACK + 0x41,
				 STACK + 0x4c,
				 UINT64_C(0xffff800009000000), // the kernel's
				 UINT64_C(0xffffffffffffffff),
				 UINT64_C(0x0080000000000000) };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		record(STACK, bad[i], TEXT + 0x200);
		unwind_on(NULL);
		FRAMES(0x200);
		expect_end(LNX_USER_BAD_RECORD, a64_strip(bad[i], 48));
	}
}
END_TEST

START_TEST(chain_that_goes_back_ends)
{
	record(STACK, STACK + 0x40, TEXT + 0x200);
	record(STACK + 0x40, STACK + 0x20, TEXT + 0x300);
	record(STACK + 0x20, STACK + 0x40, TEXT + 0x400);
	unwind_on(NULL);
	FRAMES(0x200, 0x300);
	expect_end(LNX_USER_BAD_RECORD, STACK + 0x20);
}
END_TEST

START_TEST(return_addresses_that_can_be_none_end_the_stack)
{
	const uint64_t bad[] = { 0, TEXT + 0x201, TEXT + 0x202, UINT64_C(0xffff800008010000), 3 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		record(STACK, STACK + 0x40, TEXT + 0x200);
		record(STACK + 0x40, STACK + 0x80, bad[i]);
		record(STACK + 0x80, 0, TEXT + 0x400);
		unwind_on(NULL);
		FRAMES(0x200);
		expect_end(LNX_USER_BAD_RETURN, bad[i]);
	}
}
END_TEST

START_TEST(stack_with_too_many_frames_is_cut)
{
	for (uint32_t more = 0; more < 2; more++) {
		const uint32_t records = LNX_USER_FRAMES_MAX - 1 + more;

		for (uint32_t i = 0; i < records; i++)
			record(STACK + 0x10 * i, i + 1 < records ? STACK + 0x10 * (i + 1) : 0,
			       TEXT + 0x1000 + 4 * i);
		unwind_on(NULL);
		ck_assert_uint_eq(stack.count, LNX_USER_FRAMES_MAX);
		if (more)
			expect_end(LNX_USER_TRUNCATED, TEXT + 0x1000 + 4 * (records - 1));
		else
			expect_end(LNX_USER_COMPLETE, 0);
	}
}
END_TEST

/* --- registers -------------------------------------------------------------------------------- */

START_TEST(saved_registers_are_found_in_the_form_of_6_19_too)
{
	done();
	make_form(&(struct lg_form){
		.style = 'C', .seqs = true, .data_symbols = true, .meta = true });
	expect_stack_of_three();
}
END_TEST

START_TEST(thread_of_32_bits_has_no_frames)
{
	record(STACK, 0, TEXT + 0x200);
	um_saved(&made.g, worker)->pstate = 0x60000010;
	unwind_on(NULL);
	ck_assert_uint_eq(stack.count, 0);
	expect_end(LNX_USER_32BIT, 0);
}
END_TEST

START_TEST(thread_that_was_never_in_user_mode_has_no_frames)
{
	um_saved(&made.g, worker)->pstate = 0x3c5;
	unwind_on(NULL);
	ck_assert_uint_eq(stack.count, 0);
	expect_end(LNX_USER_NEVER, 0);
}
END_TEST

START_TEST(thread_without_a_kernel_stack_has_no_registers)
{
	const uint64_t bad[] = { 0, 0x1000, LG_STACKS + 4, UINT64_MAX - 7,
				 LG_STACKS + (UINT64_C(1) << 40) };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		worker->task->stack = bad[i];
		unwind_on(NULL);
		ck_assert_uint_eq(stack.count, 0);
		expect_end(LNX_USER_NO_REGISTERS, 0);
	}
}
END_TEST

START_TEST(address_space_that_cannot_be_found_leaves_the_pc)
{
	const uint64_t pgd = mm->pgd;

	record(STACK, 0, TEXT + 0x200);
	mm->pgd = 0x1234;
	unwind_on(NULL);
	ck_assert_uint_eq(stack.count, 1);
	ck_assert_uint_eq(stack.address[0], TEXT + 0x100);
	expect_end(LNX_USER_NO_TABLES, worker->task->mm);
	mm->pgd = pgd;
	unwind_on(NULL);
	FRAMES(0x200);
}
END_TEST

static struct guest_vcpu_regs *run_in_user_mode(void)
{
	struct guest_vcpu_regs *r = &made.g.m.regs[0];

	lg_run_user(&made.g, 0, worker, false);
	// what was saved is of an earlier entry
	um_enter(&made.g, worker, TEXT + 0x9000, STACK + 0x9000, 0);
	r->pc = TEXT + 0x100;
	r->x[29] = STACK;
	r->x[30] = 0;
	record(STACK, 0, TEXT + 0x200);
	return r;
}

START_TEST(vcpu_in_user_mode_has_the_registers_itself)
{
	struct guest_vcpu_regs *r = run_in_user_mode();

	unwind_on(r);
	FRAMES(0x200);
	expect_end(LNX_USER_COMPLETE, 0);
	r->pstate = 0x10;
	unwind_on(r);
	expect_end(LNX_USER_32BIT, 0);
	r->valid &= ~(uint32_t)GUEST_REGS_GENERAL;
	unwind_on(r);
	ck_assert_uint_eq(stack.count, 0);
	expect_end(LNX_USER_NO_REGISTERS, 0);
}
END_TEST

START_TEST(vcpu_in_the_kernel_has_saved_them)
{
	record(STACK, 0, TEXT + 0x200);
	lg_push(&made.g, worker, lg_in(&made.g, "el0_svc"));
	lg_run(&made.g, 0, worker, lg_symbol(&made.g, "pipe_read") + 0x40);
	unwind_on(&made.g.m.regs[0]);
	FRAMES(0x200);
	expect_end(LNX_USER_COMPLETE, 0);
}
END_TEST

START_TEST(vcpu_between_the_modes_has_them_in_part)
{
	struct guest_vcpu_regs *r = run_in_user_mode();

	r->elr_el1 = r->pc;
	r->spsr_el1 = 0;
	r->pc = LG_TRAMPOLINE + 0x480; // the alias of KPTI
	r->pstate = 0x3c5;
	// whatever the entry code has there by now
	insn(TEXT + 0x4fc, BLR_X1);
	r->x[30] = TEXT + 0x500;
	unwind_on(r);
	FRAMES(0x200);
	ck_assert(!stack.has_lr);
	expect_end(LNX_USER_COMPLETE, 0);
	r->spsr_el1 = 0x10;
	unwind_on(r);
	expect_end(LNX_USER_32BIT, 0);
	r->valid &= ~(uint32_t)GUEST_REGS_EXC;
	unwind_on(r);
	expect_end(LNX_USER_NO_REGISTERS, 0);
}
END_TEST

/* --- the link register ------------------------------------------------------------------------ */

static void enter_with_lr(uint64_t lr)
{
	um_enter(&made.g, worker, TEXT + 0x100, STACK, lr);
	unwind_on(NULL);
}

static void expect_lr(bool is_frame)
{
	ck_assert_int_eq(stack.has_lr, is_frame);
	if (is_frame)
		FRAMES(0x5000, 0x200);
	else
		FRAMES(0x200);
	expect_end(LNX_USER_COMPLETE, 0);
}

START_TEST(caller_of_a_function_without_a_frame_is_in_the_link_register)
{
	record(STACK, 0, TEXT + 0x200);
	insn(TEXT + 0x4ffc, BL(TEXT + 0x4ffc, TEXT + 0xf0)); // of the function that executes
	enter_with_lr(TEXT + 0x5000);
	expect_lr(true);
	insn(TEXT + 0x4ffc, BLR_X1);
	enter_with_lr((TEXT + 0x5000) | UINT64_C(0x12) << 48); // signed, as by paciasp
	expect_lr(true);
	insn(TEXT + 0x4ffc, BLRAA_X1_X2);
	enter_with_lr(TEXT + 0x5000);
	expect_lr(true);
	// which has no frame of its own either
	um_enter(&made.g, worker, TEXT + 0x100, 0, TEXT + 0x5000);
	unwind_on(NULL);
	FRAMES(0x5000);
	ck_assert(stack.has_lr);
}
END_TEST

START_TEST(link_register_that_the_chain_has_is_no_frame)
{
	record(STACK, 0, TEXT + 0x200);
	insn(TEXT + 0x1fc, BLR_X1);
	enter_with_lr(TEXT + 0x200);
	expect_lr(false);
	record(STACK, 0, (TEXT + 0x200) | UINT64_C(0x55) << 48);
	enter_with_lr(TEXT + 0x200);
	expect_lr(false);
}
END_TEST

START_TEST(link_register_of_a_call_that_has_returned_is_no_frame)
{
	const uint64_t called[] = {
		TEXT + 0x104,	 // behind the place
		TEXT + 0x4000,	 // far behind
		TEXT + 0x100000, // not in memory: nothing speaks against it
		TEXT - 0xf00,	 // before it, but it has the start of a later function in it
	};

	record(STACK, 0, TEXT + 0x200);
	insn(TEXT + 0x4000, NOP);
	insn(TEXT - 0xf00, NOP);
	insn(TEXT + 0xf8, MOV_X29_SP);
	for (size_t i = 0; i < ARRAY_SIZE(called); i++) {
		insn(TEXT + 0x4ffc, BL(TEXT + 0x4ffc, called[i]));
		enter_with_lr(TEXT + 0x5000);
		expect_lr(i == 2);
	}
}
END_TEST

// What a stub of the linker leads to is anywhere.
START_TEST(link_register_of_a_call_through_a_stub_is_a_frame)
{
	record(STACK, 0, TEXT + 0x200);
	insn(TEXT + 0x4ffc, BL(TEXT + 0x4ffc, TEXT + 0x6000));
	insn(TEXT + 0x6000, ADRP_X16);
	enter_with_lr(TEXT + 0x5000);
	expect_lr(true);
	insn(TEXT + 0x6000, BTI_C);
	insn(TEXT + 0x6004, ADRP_X16);
	enter_with_lr(TEXT + 0x5000);
	expect_lr(true);
	insn(TEXT + 0x6004, ADRP_X16 + 1); // x17: a function's own
	enter_with_lr(TEXT + 0x5000);
	expect_lr(false);
}
END_TEST

START_TEST(link_register_that_no_call_has_set_is_no_frame)
{
	const uint64_t bad[] = { 0, 4, TEXT + 0x5002, TEXT + 0x100, LG_STACKS, TEXT + 0x800000 };

	record(STACK, 0, TEXT + 0x200);
	insn(TEXT + 0x4ffc, NOP);
	insn(TEXT + 0xfc, BLR_X1);
	enter_with_lr(TEXT + 0x5000);
	expect_lr(false);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		enter_with_lr(bad[i]);
		expect_lr(false);
	}
}
END_TEST

/* --- all -------------------------------------------------------------------------------------- */

START_TEST(ends_have_names)
{
	for (int i = 0; i < LNX_USER_ENDS; i++)
		for (int k = 0; k <= i; k++)
			ck_assert_int_eq(strcmp(lnx_user_end_name((enum lnx_user_end)i),
						lnx_user_end_name((enum lnx_user_end)k)) == 0,
					 i == k);
	ck_assert_str_eq(lnx_user_end_name(LNX_USER_ENDS), "unknown");
}
END_TEST

Suite *suite_user(void)
{
	Suite *s = suite_create("user");
	TCase *tc = tcase_create("user");

	tcase_add_checked_fixture(tc, setup, done);
	tcase_add_test(tc, records_are_followed_to_the_one_without_a_next);
	tcase_add_test(tc, a_record_of_zeros_is_the_end_too);
	tcase_add_test(tc, a_frame_pointer_of_zero_has_the_pc_alone);
	tcase_add_test(tc, records_may_be_in_several_pages_and_across_two);
	tcase_add_test(tc, authentication_codes_and_tags_are_stripped);
	tcase_add_test(tc, page_that_is_not_in_memory_ends_the_stack_and_is_named);
	tcase_add_test(tc, page_that_is_no_memory_ends_the_stack);
	tcase_add_test(tc, frame_pointers_that_can_be_none_end_the_stack);
	tcase_add_test(tc, chain_that_goes_back_ends);
	tcase_add_test(tc, return_addresses_that_can_be_none_end_the_stack);
	tcase_add_test(tc, stack_with_too_many_frames_is_cut);
	tcase_add_test(tc, saved_registers_are_found_in_the_form_of_6_19_too);
	tcase_add_test(tc, thread_of_32_bits_has_no_frames);
	tcase_add_test(tc, thread_that_was_never_in_user_mode_has_no_frames);
	tcase_add_test(tc, thread_without_a_kernel_stack_has_no_registers);
	tcase_add_test(tc, address_space_that_cannot_be_found_leaves_the_pc);
	tcase_add_test(tc, vcpu_in_user_mode_has_the_registers_itself);
	tcase_add_test(tc, vcpu_in_the_kernel_has_saved_them);
	tcase_add_test(tc, vcpu_between_the_modes_has_them_in_part);
	tcase_add_test(tc, caller_of_a_function_without_a_frame_is_in_the_link_register);
	tcase_add_test(tc, link_register_that_the_chain_has_is_no_frame);
	tcase_add_test(tc, link_register_of_a_call_that_has_returned_is_no_frame);
	tcase_add_test(tc, link_register_of_a_call_through_a_stub_is_a_frame);
	tcase_add_test(tc, link_register_that_no_call_has_set_is_no_frame);
	tcase_add_test(tc, ends_have_names);
	suite_add_tcase(s, tc);
	return s;
}
