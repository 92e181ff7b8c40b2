/* SPDX-License-Identifier: Apache-2.0 */
/* A vCPU in the EFI firmware, or stopped on its way there and back: whose chain, and what is uncertain. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

#define FIRMWARE UINT64_C(0x20a31c44) /* below 1 GiB, where the kernel maps it */

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static struct lg_thread *t;
static struct guest_vcpu_regs *regs;
static struct lnx_task task;
static uint64_t efi; /* start of the firmware's stack */
static uint64_t addresses[LNX_FRAMES_MAX];
static uint8_t kinds[LNX_FRAMES_MAX], doubts[LNX_FRAMES_MAX];
static struct lnx_stack stack = { .address = addresses, .kind = kinds, .doubt = doubts };

static const char *entry_of(void)
{
	return g.form.old ? "el0_sync" : "el0t_64_sync";
}

/* A thread whose vfs_read has called the wrapper, which has called the firmware. */
static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	lg_populate(&g);
	t = &g.threads[4];
	regs = &g.m.regs[0];
	efi = g.threads[1].stack;
	const uint64_t top = efi + LG_STACK;
	memcpy(lg_image(&g, LG_EFI_STACK), &top, sizeof(top));
	k = lg_kernel_find(&g);
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, entry_of()));
	lg_push(&g, t, lg_in(&g, "el0_svc"));
	lg_push(&g, t, lg_in(&g, "vfs_read"));
	*lg_word(&g, top - 8) = t->fp;
	lg_run(&g, 0, t, FIRMWARE);
	regs->sp_el1 = top - 0x120;
	regs->x[29] = 0x6b2d;
	regs->x[30] = FIRMWARE + 0x100;
}

static void setup(void)
{
	make(&(struct lg_form){ 0 });
}

static void teardown(void)
{
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

static void remake(const struct lg_form *form)
{
	teardown();
	make(form);
}

static void unwind(bool is_running)
{
	memset(addresses, 0xee, sizeof(addresses));
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert(!lnx_task_read(&v, GVA(t->address), &task));
	if (is_running)
		lnx_unwind_running(&v, &task, regs, &stack);
	else
		lnx_unwind_blocked(&v, &task, &stack);
}

/* From the frame @p at on the chain is that of the wrapper's callers; @p wrapper: with its own frame. */
static void expect_callers(uint32_t at, bool wrapper)
{
	const uint64_t callers[] = { lg_symbol(&g, "__efi_rt_asm_wrapper") + LG_EFI_RETURN,
				     lg_in(&g, "vfs_read"), lg_in(&g, "el0_svc"),
				     lg_in(&g, entry_of()) };

	for (uint32_t i = !wrapper; i < ARRAY_SIZE(callers); i++, at++) {
		ck_assert_uint_lt(at, stack.count);
		ck_assert_msg(addresses[at] == callers[i], "frame %u: %#" PRIx64, at,
			      addresses[at]);
		ck_assert_int_eq(doubts[at], LNX_CERTAIN);
	}
	ck_assert_uint_eq(stack.count, at);
	ck_assert_msg(stack.end == LNX_END_COMPLETE, "%s", lnx_unwind_end_name(stack.end));
}

static void expect_firmware(uint32_t at, uint64_t address, enum lnx_frame_kind kind)
{
	ck_assert_uint_eq(addresses[at], address);
	ck_assert_int_eq(kinds[at], kind);
	ck_assert_int_eq(doubts[at], LNX_DOUBT_FIRMWARE);
}

static const struct lg_form forms[] = { { .old = true },
					{ 0 },
					{ .seqs = true, .data_symbols = true },
					{ .style = 'C', .meta = true } };

START_TEST(stack_of_the_firmware_is_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		remake(&forms[i]);
		ck_assert_uint_eq(k->variable[LNX_V_EFI_STACK].a, lg_image_va(&g, LG_EFI_STACK));
		ck_assert_uint_eq(k->efi_return,
				  lg_symbol(&g, "__efi_rt_asm_wrapper") + LG_EFI_RETURN);
	}
}
END_TEST

START_TEST(vcpu_in_the_firmware_has_the_chain_of_the_wrapper)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		remake(&forms[i]);
		// whatever the firmware does with x29
		const uint64_t fps[] = { 0x6b2d, 0, efi + 0x100, t->fp, t->stack, UINT64_MAX };

		for (size_t n = 0; n < ARRAY_SIZE(fps); n++) {
			regs->x[29] = fps[n];
			unwind(true);
			expect_firmware(0, FIRMWARE, LNX_FRAME_PC);
			expect_callers(1, true);
			// its registers are not those of user mode
			ck_assert(!lnx_has_no_chain(&v, regs));
		}
	}
}
END_TEST

// 5.10 has pushed nothing: all there is is x29, and what the firmware has of records.
START_TEST(firmware_is_followed_where_the_wrapper_has_left_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		remake(&forms[i]);
		const uint64_t bad[] = { 0, 0x7654, efi + 0x800, t->stack + LG_STACK, UINT64_MAX };

		for (size_t n = 0; n < ARRAY_SIZE(bad); n++) {
			*lg_word(&g, efi + LG_STACK - 8) = bad[n];
			regs->sp_el1 = efi + LG_STACK;
			regs->x[29] = t->fp;
			unwind(true);
			expect_firmware(0, FIRMWARE, LNX_FRAME_PC);
			expect_callers(1, false);
			// two records of the firmware, the outer one with the return into the wrapper
			*lg_word(&g, efi + 0x3000) = efi + 0x3040;
			*lg_word(&g, efi + 0x3008) = FIRMWARE + 0x2000;
			*lg_word(&g, efi + 0x3040) = t->fp;
			*lg_word(&g, efi + 0x3048) = k->efi_return;
			regs->x[29] = efi + 0x3000;
			unwind(true);
			expect_firmware(0, FIRMWARE, LNX_FRAME_PC);
			expect_firmware(1, FIRMWARE + 0x2000, LNX_FRAME_RETURN);
			expect_callers(2, true);
			regs->x[29] = 0;
			unwind(true);
			ck_assert_uint_eq(stack.count, 1);
			ck_assert_int_eq(stack.end, LNX_END_BAD_RECORD);
		}
	}
}
END_TEST

START_TEST(records_of_the_firmware_that_lead_round_end)
{
	*lg_word(&g, efi + LG_STACK - 8) = 0;
	for (int back = 0; back < 3; back++) {
		*lg_word(&g, efi + 0x3000) = efi + 0x3000 - (uint64_t)back * 0x40;
		*lg_word(&g, efi + 0x3008) = FIRMWARE;
		regs->x[29] = efi + 0x3000;
		unwind(true);
		ck_assert_uint_eq(stack.count, 2);
		ck_assert_int_eq(stack.end, LNX_END_BAD_RECORD);
		ck_assert_uint_eq(stack.end_at, efi + 0x3000 - (uint64_t)back * 0x40);
	}
	// neither the kernel's nor the firmware's
	*lg_word(&g, efi + 0x3008) = UINT64_C(0xffff123400000000);
	unwind(true);
	ck_assert_uint_eq(stack.count, 1);
	ck_assert_int_eq(stack.end, LNX_END_NOT_TEXT);
	// a stack that is full of them
	for (uint64_t at = efi; at < efi + LG_STACK; at += 16) {
		*lg_word(&g, at) = at + 16;
		*lg_word(&g, at + 8) = FIRMWARE;
	}
	regs->x[29] = efi;
	unwind(true);
	ck_assert_uint_eq(stack.count, LNX_FRAMES_MAX);
	ck_assert_int_eq(stack.end, LNX_END_TRUNCATED);
}
END_TEST

START_TEST(stack_of_the_firmware_that_is_nonsense_is_none)
{
	const uint64_t bad[] = {
		0, 3, LG_STACK, 0xaaaab0000000, UINT64_MAX - 7, t->stack + LG_STACK
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		memcpy(lg_image(&g, LG_EFI_STACK), &bad[i], 8);
		regs->x[29] = t->fp;
		unwind(true);
		ck_assert_uint_eq(addresses[0], FIRMWARE);
		ck_assert_int_ne(doubts[0], LNX_DOUBT_FIRMWARE);
		regs->x[29] = efi + 0x3000;
		unwind(true);
		ck_assert_uint_eq(stack.count, 1);
		ck_assert_int_eq(stack.end, LNX_END_BAD_RECORD);
	}
	lg_unmap(&g, lg_image_va(&g, LG_EFI_STACK) & ~UINT64_C(4095));
	unwind(true);
	ck_assert_uint_eq(stack.count, 1);
}
END_TEST

/* An exception that came in the firmware. @return the record in its pt_regs */
static uint64_t interrupt(uint64_t pc)
{
	const uint64_t at = efi + LG_STACK - 0x400;
	struct lg_regs r = { .pc = pc, .pstate = 5 };
	const uint64_t meta[3] = { 0, 0, 2 };
	const size_t record = g.form.meta ? offsetof(struct lg_regs, stackframe_meta)
					  : offsetof(struct lg_regs, stackframe);

	r.regs[29] = 0x6b2d;
	r.regs[30] = t->fp;
	if (g.form.meta)
		memcpy(&r.stackframe_meta, meta, sizeof(meta));
	else
		memcpy(r.stackframe, (uint64_t[]){ 0x6b2d, pc }, 16);
	memcpy(g.threads[1].stack_bytes + (at - efi), &r, sizeof(r));
	return at + record;
}

/* What the kernel does then: an entry function and one more, on the stack of the firmware or the CPU's. */
static uint64_t handle(uint64_t record, bool on_cpu_stack)
{
	const char *entry = g.form.old ? "el1_irq" : "el1h_64_irq";
	const uint64_t first = record - 0x200;

	*lg_word(&g, first) = record;
	*lg_word(&g, first + 8) = lg_in(&g, entry);
	const uint64_t last[2] = { first, lg_in(&g, "el1_interrupt") };
	if (on_cpu_stack) {
		memcpy(g.cpu[0].irq_bytes + 0x3000, last, 16);
		return g.cpu[0].irq_stack + 0x3000;
	}
	memcpy(lg_word(&g, first - 0x40), last, 16);
	return first - 0x40;
}

START_TEST(exception_in_the_firmware_leads_back_to_the_wrapper)
{
	for (size_t i = 0; i < 2 * ARRAY_SIZE(forms); i++) {
		remake(&forms[i / 2]);
		if (g.form.old && i % 2)
			continue; // nothing tells where its stack is
		const uint64_t fp = handle(interrupt(FIRMWARE), i % 2);

		lg_run(&g, 0, t, lg_symbol(&g, "gic_handle_irq") + 0x20);
		regs->x[29] = fp;
		unwind(true);
		ck_assert_uint_eq(addresses[1], lg_in(&g, "el1_interrupt"));
		expect_firmware(3, FIRMWARE, LNX_FRAME_INTERRUPTED);
		expect_callers(4, true);
		// a thread that another one has taken the CPU from there
		if (i % 2)
			continue;
		t->task->fp = fp;
		t->task->pc = lg_in(&g, "__switch_to");
		unwind(false);
		ck_assert_uint_eq(addresses[0], lg_in(&g, "__switch_to"));
		expect_firmware(3, FIRMWARE, LNX_FRAME_INTERRUPTED);
		expect_callers(4, true);
	}
}
END_TEST

// A fault of the firmware is mended: the kernel goes on behind the wrapper, with its record in x30.
START_TEST(return_from_a_fault_in_the_firmware_has_the_chain_of_the_wrapper)
{
	const uint64_t recover = lg_symbol(&g, "__efi_rt_asm_recover");

	for (uint64_t at = 0; at < 0x18; at += 4) {
		lg_run(&g, 0, t, recover + at);
		regs->x[29] = 0x6b2d;
		regs->x[30] = t->fp;
		unwind(true);
		ck_assert_uint_eq(addresses[0], recover + at);
		expect_callers(1, false);
	}
	// both are loaded
	lg_run(&g, 0, t, recover + 0x18);
	regs->x[29] = *lg_word(&g, t->fp);
	regs->x[30] = lg_in(&g, "vfs_read");
	unwind(true);
	ck_assert_int_eq(kinds[1], LNX_FRAME_LR);
	expect_callers(1, false);
	// where the handler of the fault has put the place to go on at
	remake(&forms[3]);
	const uint64_t fp = handle(interrupt(lg_symbol(&g, "__efi_rt_asm_recover")), false);
	lg_run(&g, 0, t, lg_symbol(&g, "gic_handle_irq") + 0x20);
	regs->x[29] = fp;
	unwind(true);
	ck_assert_uint_eq(addresses[3], lg_symbol(&g, "__efi_rt_asm_recover"));
	expect_callers(4, false);
}
END_TEST

// The wrapper at each instruction: it has a record like any other function, on the task's stack.
START_TEST(vcpu_in_the_wrapper_has_its_chain)
{
	const uint64_t wrapper = lg_symbol(&g, "__efi_rt_asm_wrapper");

	for (uint64_t at = 0; at <= 0x60; at += 4) {
		const bool has_record = at > 8 && at < 0x60;

		lg_run(&g, 0, t, wrapper + at);
		regs->x[29] = has_record ? t->fp : *lg_word(&g, t->fp);
		regs->x[30] = has_record && at > 0x4c ? k->efi_return : lg_in(&g, "vfs_read");
		regs->sp_el1 = at > 0x2c && at < 0x58 ? efi + LG_STACK - 16 : t->fp;
		unwind(true);
		ck_assert_uint_eq(addresses[0], wrapper + at);
		expect_callers(1, false);
	}
}
END_TEST

START_TEST(chain_never_goes_back_to_the_stack_of_the_firmware)
{
	*lg_word(&g, t->fp) = efi + 0x3000;
	unwind(true);
	ck_assert_uint_eq(stack.count, 3);
	ck_assert_int_eq(stack.end, LNX_END_BAD_RECORD);
	ck_assert_uint_eq(stack.end_at, efi + 0x3000);
}
END_TEST

Suite *suite_firmware(void)
{
	Suite *s = suite_create("firmware");
	TCase *tc = tcase_create("firmware");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, stack_of_the_firmware_is_found);
	tcase_add_test(tc, vcpu_in_the_firmware_has_the_chain_of_the_wrapper);
	tcase_add_test(tc, firmware_is_followed_where_the_wrapper_has_left_nothing);
	tcase_add_test(tc, records_of_the_firmware_that_lead_round_end);
	tcase_add_test(tc, stack_of_the_firmware_that_is_nonsense_is_none);
	tcase_add_test(tc, exception_in_the_firmware_leads_back_to_the_wrapper);
	tcase_add_test(tc, return_from_a_fault_in_the_firmware_has_the_chain_of_the_wrapper);
	tcase_add_test(tc, vcpu_in_the_wrapper_has_its_chain);
	tcase_add_test(tc, chain_never_goes_back_to_the_stack_of_the_firmware);
	suite_add_tcase(s, tc);
	return s;
}
