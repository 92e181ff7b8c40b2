/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel stacks: whole chains of all generations of kernels, and every way in which one breaks. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static struct lg_thread *t;
static struct guest_vcpu_regs *regs;
static uint64_t addresses[LNX_FRAMES_MAX];
static uint8_t kinds[LNX_FRAMES_MAX];
static struct lnx_stack stack = { .address = addresses, .kind = kinds };

static void begin(void)
{
	lg_populate(&g);
	t = &g.threads[4]; // waiter, 102
	regs = &g.m.regs[0];
	k = lg_kernel_find(&g);
	lnx_view_init(&v, k, &g.m.guest);
}

static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	begin();
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

static void clear(void)
{
	memset(addresses, 0xee, sizeof(addresses));
	memset(kinds, 0xee, sizeof(kinds));
	stack.count = 4711;
	stack.end = LNX_ENDS;
	stack.end_at = 4711;
}

static void unwind_blocked(void)
{
	static struct lnx_task task;

	clear();
	ck_assert_int_eq(lnx_task_read(&v, GVA(t->address), &task), GS_OK);
	lnx_unwind_blocked(&v, &task, &stack);
}

static void unwind_running(void)
{
	static struct lnx_task task;

	clear();
	ck_assert_int_eq(lnx_task_read(&v, GVA(t->address), &task), GS_OK);
	lnx_unwind_running(&v, &task, regs, &stack);
}

/* An expected frame: a name stands for the return address in that function. */
struct expected {
	const char *in;
	enum lnx_frame_kind kind;
	uint64_t address; /* instead of the name */
};

static void expect_frames(const struct expected *e, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < stack.count; i++) {
		uint64_t at = e[i].in ? lg_in(&g, e[i].in) : e[i].address;

		ck_assert_msg(addresses[i] == at, "frame %u: %#" PRIx64 " instead of %#" PRIx64, i,
			      addresses[i], at);
		ck_assert_msg(kinds[i] == e[i].kind, "frame %u: kind %d", i, kinds[i]);
	}
	ck_assert_uint_eq(stack.count, n);
}

static void expect_end(enum lnx_unwind_end end, uint64_t at)
{
	ck_assert_msg(stack.end == end, "%s", lnx_unwind_end_name(stack.end));
	ck_assert_uint_eq(stack.end_at, at);
}

#define IN(function)                            \
	{                                       \
		(function), LNX_FRAME_RETURN, 0 \
	}
#define LR(function)                        \
	{                                   \
		(function), LNX_FRAME_LR, 0 \
	}

#define EXPECT(...)                                           \
	do {                                                  \
		const struct expected e_[] = { __VA_ARGS__ }; \
		expect_frames(e_, ARRAY_SIZE(e_));            \
	} while (0)

#define WHOLE() expect_end(LNX_END_COMPLETE, 0)

/* --- blocked tasks ---------------------------------------------------------------------------- */

START_TEST(blocked_chain_ends_at_the_outermost_record)
{
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("schedule"), IN("futex_wait"), IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

// 6.1 and 6.12 know the last record by its place alone; what it holds does not matter.
START_TEST(outermost_record_is_known_by_its_place)
{
	uint64_t junk[2] = { t->stack + 64, lg_in(&g, "vfs_read") };

	memcpy(t->stack_bytes + LG_TOP, junk, 16);
	unwind_blocked();
	ck_assert_uint_eq(stack.count, 5);
	WHOLE();
}
END_TEST

START_TEST(chain_ends_at_a_record_of_zeros)
{
	// 5.10: not at the top
	uint64_t zeros[2] = { 0, 0 };

	memcpy(lg_word(&g, t->stack + LG_STACK - LG_REGS_SIZE - 0x40), zeros, 16);
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("schedule"), IN("futex_wait"), IN("el0_svc"));
	WHOLE();
	// a NULL that is signed
	zeros[1] = UINT64_C(0x001b) << 48;
	memcpy(lg_word(&g, t->stack + LG_STACK - LG_REGS_SIZE - 0x40), zeros, 16);
	unwind_blocked();
	ck_assert_uint_eq(stack.count, 4);
	WHOLE();
}
END_TEST

START_TEST(chain_of_a_kernel_thread_ends_behind_its_first_function)
{
	remake(&(struct lg_form){ .old = true });
	t = &g.threads[1];
	// the outermost record of 5.10's kernel threads: {0, ret_from_fork + 4}
	lg_stack_reset(&g, t);
	t->fp = 0;
	lg_push(&g, t, lg_in(&g, "ret_from_fork"));
	lg_push(&g, t, lg_in(&g, "kthread"));
	t->task->fp = t->fp;
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("kthread"), IN("ret_from_fork"));
	WHOLE();
}
END_TEST

START_TEST(new_thread_has_one_frame)
{
	lg_stack_reset(&g, t);
	t->task->fp = t->fp;
	t->task->pc = lg_symbol(&g, "ret_from_fork");
	unwind_blocked();
	EXPECT({ NULL, LNX_FRAME_RETURN, lg_symbol(&g, "ret_from_fork") });
	WHOLE();
}
END_TEST

// 5.10 begins tasks with an x29 of 0: what they begin with has no caller, nor has the way to user mode.
START_TEST(old_thread_that_begins_has_one_frame)
{
	static const char *const first[] = { "ret_from_fork", "el0_sync" };

	remake(&(struct lg_form){ .old = true });
	t = &g.threads[1];
	lg_stack_reset(&g, t);
	t->task->fp = 0;
	t->task->pc = lg_symbol(&g, "ret_from_fork");
	unwind_blocked();
	EXPECT({ NULL, LNX_FRAME_RETURN, lg_symbol(&g, "ret_from_fork") });
	WHOLE();
	for (size_t i = 0; i < ARRAY_SIZE(first); i++) {
		lg_run(&g, 0, t, lg_symbol(&g, first[i]) + 8);
		regs->x[29] = 0;
		regs->spsr_el1 = 5; // of whatever there was before
		unwind_running();
		EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, first[i]) + 8 });
		ck_assert_int_eq(stack.end, LNX_END_COMPLETE);
	}
	// anywhere else a frame pointer of 0 is lost
	lg_run(&g, 0, t, lg_symbol(&g, "vfs_read") + 8);
	regs->x[29] = 0;
	unwind_running();
	expect_end(LNX_END_BAD_RECORD, 0);
}
END_TEST

START_TEST(final_record_of_new_kernels_ends_the_chain)
{
	remake(&(struct lg_form){ .meta = true });
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("schedule"), IN("futex_wait"), IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
	// it counts wherever it lies
	uint64_t final[3] = { 0, 0, 1 };
	memcpy(lg_word(&g, t->stack + LG_STACK - LG_REGS_SIZE - 0x40), final, 24);
	unwind_blocked();
	ck_assert_uint_eq(stack.count, 4);
	WHOLE();
}
END_TEST

START_TEST(record_of_an_unknown_type_is_bad)
{
	static const uint64_t types[] = { 0, 3, UINT64_MAX };

	remake(&(struct lg_form){ .meta = true });
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		memcpy(t->stack_bytes + LG_TOP_META + 16, &types[i], 8);
		unwind_blocked();
		ck_assert_uint_eq(stack.count, 5);
		expect_end(LNX_END_BAD_RECORD, t->stack + LG_TOP_META);
	}
}
END_TEST

// U01: signed by the CPU; all bits above the VA size go, the top byte too.
START_TEST(signed_return_addresses_are_stripped)
{
	static const uint16_t codes[] = { 0xadca, 0x00c3, 0xff7f, 0x80ff, 0x0080 };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		lg_stack_reset(&g, t);
		// bit 55 is the address's own
		uint64_t sign = (uint64_t)(codes[i] | 0x80) << 48;
		uint64_t low = (UINT64_C(1) << 48) - 1;
		lg_push(&g, t, (lg_in(&g, "el0t_64_sync") & low) | sign);
		lg_push(&g, t, (lg_in(&g, "vfs_read") & low) | sign);
		t->task->fp = t->fp;
		unwind_blocked();
		EXPECT(IN("__switch_to"), IN("vfs_read"), IN("el0t_64_sync"));
		WHOLE();
	}
}
END_TEST

START_TEST(return_address_into_a_module_is_text)
{
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, "el0t_64_sync"));
	lg_push(&g, t, LG_MODULE + 0x124);
	t->task->fp = t->fp;
	unwind_blocked();
	EXPECT(IN("__switch_to"), { NULL, LNX_FRAME_RETURN, LG_MODULE + 0x124 },
	       IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(return_address_that_is_no_text_ends_the_chain)
{
	const uint64_t bad[] = { 0x1234,
				 UINT64_C(0xaaaab0001234),
				 lg_image_va(&g, LG_BANNER),
				 lg_symbol(&g, "_etext"),
				 t->address,
				 LG_MODULE + 2,
				 LG_MODULE + 0x1000,
				 t->stack };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		lg_stack_reset(&g, t);
		lg_push(&g, t, lg_in(&g, "el0t_64_sync"));
		lg_push(&g, t, bad[i]);
		lg_push(&g, t, lg_in(&g, "vfs_read"));
		t->task->fp = t->fp;
		unwind_blocked();
		EXPECT(IN("__switch_to"), IN("vfs_read"));
		ck_assert_int_eq(stack.end, LNX_END_NOT_TEXT);
		ck_assert_uint_eq(stack.end_at & ((UINT64_C(1) << 48) - 1),
				  bad[i] & ((UINT64_C(1) << 48) - 1));
	}
}
END_TEST

START_TEST(saved_pc_that_is_no_text_gives_no_frames)
{
	t->task->pc = 0;
	unwind_blocked();
	ck_assert_uint_eq(stack.count, 0);
	expect_end(LNX_END_NOT_TEXT, 0);
	t->task->pc = UINT64_C(0xffff800001230000);
	unwind_blocked();
	ck_assert_uint_eq(stack.count, 0);
	expect_end(LNX_END_NOT_TEXT, UINT64_C(0xffff800001230000));
}
END_TEST

START_TEST(task_without_a_stack_has_no_frames)
{
	static const uint64_t none[] = { 0, 1, 0xaaaab0000000, UINT64_MAX - 7,
					 UINT64_MAX - LG_STACK + 1 - 8 };

	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		t->task->stack = none[i];
		unwind_blocked();
		if (i < 4) {
			ck_assert_uint_eq(stack.count, 0);
			expect_end(LNX_END_NO_STACK, 0);
		} else { // just fits, but is not there
			ck_assert_int_ne(stack.end, LNX_END_COMPLETE);
		}
	}
}
END_TEST

/* A chain whose third link is this frame pointer. */
static void chain_with_link(uint64_t link)
{
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, "el0t_64_sync"));
	t->fp = link;
	lg_push(&g, t, lg_in(&g, "el0_svc"));
	lg_push(&g, t, lg_in(&g, "vfs_read"));
	t->task->fp = t->fp;
	unwind_blocked();
}

// U04: misaligned, below, above, at the very ends, back, on itself, elsewhere.
START_TEST(frame_pointer_that_is_no_step_outwards_ends_the_chain)
{
	const uint64_t innermost = t->stack + LG_STACK - LG_REGS_SIZE - 3 * 0x40;
	const uint64_t bad[] = { t->stack + LG_STACK - 0x100 + 1,
				 t->stack + LG_STACK - 0x100 + 4,
				 t->stack - 16,
				 t->stack - 8,
				 t->stack + LG_STACK,
				 t->stack + LG_STACK - 8,
				 innermost,
				 innermost + 0x40, // itself
				 t->stack,
				 g.threads[2].fp, // another thread's stack
				 g.cpu[0].irq_stack + 0x100,
				 t->address,
				 8,
				 0xaaaab0000010,
				 UINT64_MAX - 15,
				 UINT64_MAX - 7 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		chain_with_link(bad[i]);
		EXPECT(IN("__switch_to"), IN("vfs_read"), IN("el0_svc"));
		expect_end(LNX_END_BAD_RECORD, bad[i]);
	}
}
END_TEST

START_TEST(records_at_both_ends_of_the_stack_count)
{
	uint64_t low[2], high[2] = { 0, lg_in(&g, "el0_svc") };

	lg_stack_reset(&g, t);
	memcpy(t->stack_bytes + LG_STACK - 16, high, 16);
	low[0] = t->stack + LG_STACK - 16;
	low[1] = lg_in(&g, "vfs_read");
	memcpy(t->stack_bytes, low, 16);
	t->task->fp = t->stack;
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("vfs_read"), IN("el0_svc"));
	WHOLE();
}
END_TEST

START_TEST(records_aligned_to_eight_count)
{
	uint64_t record[2] = { t->stack + LG_TOP, lg_in(&g, "vfs_read") };

	lg_stack_reset(&g, t);
	memcpy(t->stack_bytes + 0x1008, record, 16);
	t->task->fp = t->stack + 0x1008;
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("vfs_read"));
	WHOLE();
}
END_TEST

START_TEST(record_on_a_page_that_is_gone_is_unreadable)
{
	uint64_t record[2] = { t->stack + LG_STACK - 0x800, lg_in(&g, "vfs_read") };

	lg_stack_reset(&g, t);
	memcpy(t->stack_bytes + 0x800, record, 16);
	t->task->fp = t->stack + 0x800;
	lg_unmap(&g, t->stack + LG_STACK - 0x1000);
	lnx_view_init(&v, k, &g.m.guest);
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("vfs_read"));
	expect_end(LNX_END_UNREADABLE, t->stack + LG_STACK - 0x800);
	ck_assert_uint_gt(v.faults[A64_NOT_MAPPED], 0);
	// half of it on the page
	record[0] = t->stack + 0x3000 - 8;
	memcpy(t->stack_bytes + 0x800, record, 16);
	unwind_blocked();
	EXPECT(IN("__switch_to"), IN("vfs_read"));
	expect_end(LNX_END_UNREADABLE, t->stack + 0x3000 - 8);
}
END_TEST

// U10
START_TEST(more_frames_than_there_is_room_for_are_cut_and_said_so)
{
	uint64_t lr = lg_in(&g, "vfs_read");

	// records that overlap: each word is the next record's address and this one's return address
	lg_stack_reset(&g, t);
	for (uint64_t at = 0; at + 24 <= LG_TOP; at += 24) {
		uint64_t record[2] = { t->stack + at + 24, lr };

		memcpy(t->stack_bytes + at, record, 16);
	}
	t->task->fp = t->stack;
	unwind_blocked();
	ck_assert_uint_lt(stack.count, LNX_FRAMES_MAX); // 24 bytes each are few enough

	// with those of the IRQ stack before it they are too many
	for (uint64_t at = 0; at + 16 < LG_STACK; at += 16) {
		uint64_t record[2] = { g.cpu[0].irq_stack + at + 16, lr };

		memcpy(g.cpu[0].irq_bytes + at, record, 16);
	}
	uint64_t over[2] = { t->stack, lr };
	memcpy(g.cpu[0].irq_bytes + LG_STACK - 16, over, 16);
	lg_run(&g, 0, t, lg_symbol(&g, "leaf"));
	regs->x[29] = g.cpu[0].irq_stack;
	unwind_running();
	ck_assert_uint_eq(stack.count, LNX_FRAMES_MAX);
	ck_assert_int_eq(stack.end, LNX_END_TRUNCATED);
	ck_assert_uint_eq(stack.end_at, lr);
}
END_TEST

/* --- running tasks ---------------------------------------------------------------------------- */

static void run_in(const char *function, uint64_t offset)
{
	lg_run(&g, 0, t, lg_symbol(&g, function) + offset);
}

static void build(const char *const *names)
{
	lg_stack_reset(&g, t);
	for (; *names; names++)
		lg_push(&g, t, lg_in(&g, *names));
}

START_TEST(running_thread_begins_with_its_pc)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	run_in("vfs_read", 0x30);
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "vfs_read") + 0x30 }, IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(running_in_user_mode_gives_nothing)
{
	for (int kpti = 0; kpti < 2; kpti++) {
		lg_run_user(&g, 0, t, kpti);
		unwind_running();
		ck_assert_uint_eq(stack.count, 0);
		WHOLE();
	}
	run_in("vfs_read", 0);
	regs->valid &= ~(uint32_t)GUEST_REGS_GENERAL;
	unwind_running();
	ck_assert_uint_eq(stack.count, 0);
}
END_TEST

// U11: a function that has set up no frame, or not yet, or no longer.
START_TEST(link_register_of_a_leaf_is_a_frame)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	run_in("leaf", 8);
	regs->x[30] = lg_in(&g, "vfs_read");
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "leaf") + 8 }, LR("vfs_read"), IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
	// signed
	regs->x[30] = (regs->x[30] & ((UINT64_C(1) << 48) - 1)) | UINT64_C(0x00c3) << 48;
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "leaf") + 8 }, LR("vfs_read"), IN("el0_svc"),
	       IN("el0t_64_sync"));
}
END_TEST

START_TEST(link_register_that_is_in_the_chain_is_no_further_frame)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	run_in("vfs_read", 0x30);
	regs->x[30] = lg_in(&g, "el0_svc");
	unwind_running();
	ck_assert_uint_eq(stack.count, 3);
	// signed in one place, not in the other
	regs->x[30] ^= UINT64_C(0x5500) << 48;
	unwind_running();
	ck_assert_uint_eq(stack.count, 3);
	WHOLE();
}
END_TEST

START_TEST(link_register_within_the_same_function_is_no_frame)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	run_in("vfs_read", 0x30);
	regs->x[30] = lg_symbol(&g, "vfs_read") + 0x10; // of a call it made
	unwind_running();
	ck_assert_uint_eq(stack.count, 3);
	// a return address that is the next function's start belongs to the call before it
	regs->x[30] = lg_symbol(&g, "vfs_read") + 0x200;
	unwind_running();
	ck_assert_uint_eq(stack.count, 3);
	// and one that is this function's start to the one before
	regs->x[30] = lg_symbol(&g, "vfs_read");
	*(uint32_t *)lg_image(&g, regs->x[30] - 4 - lg_image_va(&g, 0)) = 0x94000000; // bl .
	unwind_running();
	ck_assert_uint_eq(stack.count, 4);
	ck_assert_int_eq(kinds[1], LNX_FRAME_LR);
	WHOLE();
}
END_TEST

START_TEST(link_register_that_is_no_text_is_no_frame)
{
	const uint64_t bad[] = { 0, 0x1234, lg_symbol(&g, "_etext"), t->address, UINT64_MAX };

	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		run_in("vfs_read", 0x30);
		regs->x[30] = bad[i];
		unwind_running();
		ck_assert_uint_eq(stack.count, 3);
		WHOLE();
	}
}
END_TEST

// U09: a jump through NULL leaves the caller in the link register.
START_TEST(pc_of_zero_is_shown_and_the_chain_goes_on)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	run_in("vfs_read", 0);
	regs->pc = 0;
	regs->x[30] = lg_in(&g, "vfs_read");
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, 0 }, LR("vfs_read"), IN("el0_svc"), IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(frame_pointer_of_a_running_thread_may_be_anything)
{
	static const uint64_t bad[] = { 0, 1, 0xffffc0001230, UINT64_MAX, UINT64_C(0xffff) << 48 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		run_in("leaf", 4);
		regs->x[29] = bad[i];
		unwind_running();
		EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "leaf") + 4 });
		expect_end(LNX_END_BAD_RECORD, bad[i]);
	}
}
END_TEST

// Under KPTI a vCPU is there between user mode and the kernel, and x29 is the user's or in use.
START_TEST(vcpu_in_the_trampoline_has_no_chain)
{
	const uint64_t pcs[] = { LG_TRAMPOLINE + 0xc80, LG_TRAMPOLINE };
	const uint64_t fps[] = { 0, 0xffffc0001230, LG_TRAMPOLINE, LG_TRAMPOLINE + 8, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(pcs) * ARRAY_SIZE(fps); i++) {
		run_in("vectors", 0x80);
		regs->pc = pcs[i / ARRAY_SIZE(fps)];
		regs->x[29] = i % ARRAY_SIZE(fps) == 4 ? t->fp : fps[i % ARRAY_SIZE(fps)];
		regs->x[30] = lg_in(&g, "vfs_read");
		unwind_running();
		EXPECT({ NULL, LNX_FRAME_PC, regs->pc });
		WHOLE();
	}
}
END_TEST

// kernel_exit loads the trampoline's address before it goes there.
START_TEST(vcpu_on_its_way_to_the_trampoline_has_no_chain)
{
	run_in("el0t_64_sync", 0x10);
	regs->x[29] = LG_TRAMPOLINE;
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, regs->pc });
	WHOLE();
	// elsewhere it is no frame pointer
	run_in("fn_0004", 0x10);
	regs->x[29] = LG_TRAMPOLINE;
	unwind_running();
	expect_end(LNX_END_BAD_RECORD, LG_TRAMPOLINE);
}
END_TEST

/* --- exceptions ------------------------------------------------------------------------------- */

/*
 * An interrupt that came in vfs_read, up to 6.12: pt_regs on the task's stack whose stackframe is the
 * record {interrupted x29, interrupted pc}. @return address of that record
 */
static uint64_t interrupt(uint64_t interrupted_pc)
{
	uint64_t at = t->next - LG_REGS_SIZE - 0x40;
	struct lg_regs r = { .pc = interrupted_pc, .pstate = 5 };

	r.regs[29] = t->fp;
	if (g.form.meta) {
		uint64_t meta[3] = { 0, 0, 2 };

		memcpy(&r.stackframe_meta, meta, 24);
		t->fp = at + offsetof(struct lg_regs, stackframe_meta);
	} else {
		r.stackframe[0] = t->fp;
		r.stackframe[1] = interrupted_pc;
		t->fp = at + offsetof(struct lg_regs, stackframe);
	}
	memcpy(t->stack_bytes + (at - t->stack), &r, sizeof(r));
	t->next = at;
	return t->fp;
}

static void build_interrupted(void)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	interrupt(lg_symbol(&g, "vfs_read") + 0x4c);
}

START_TEST(interrupted_pc_is_marked)
{
	static const struct lg_form forms[] = { { .old = true },
						{ .seqs = true },
						{ .style = 'B' } };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		const char *entry = forms[i].old ? "el1_irq" : "el1h_64_irq";
		const char *from = forms[i].old ? "el0_sync" : "el0t_64_sync";

		remake(&forms[i]);
		build((const char *const[]){ from, "el0_svc", NULL });
		interrupt(lg_symbol(&g, "vfs_read") + 0x4c);
		lg_push(&g, t, lg_in(&g, entry));
		lg_push(&g, t, lg_in(&g, "el1_interrupt"));
		run_in("gic_handle_irq", 0x20);
		unwind_running();
		EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "gic_handle_irq") + 0x20 },
		       IN("el1_interrupt"), IN(entry),
		       { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "vfs_read") + 0x4c },
		       IN("el0_svc"), IN(from));
		WHOLE();
		// a thread that was preempted in it
		t->task->fp = t->fp;
		unwind_blocked();
		ck_assert_uint_eq(stack.count, 6);
		ck_assert_int_eq(kinds[2], LNX_FRAME_RETURN);
		ck_assert_int_eq(kinds[3], LNX_FRAME_INTERRUPTED);
		WHOLE();
	}
}
END_TEST

START_TEST(interrupted_pc_at_the_start_of_a_function_is_marked)
{
	build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
	interrupt(lg_symbol(&g, "vfs_read"));
	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	run_in("gic_handle_irq", 0x20);
	unwind_running();
	ck_assert_uint_eq(stack.count, 5);
	ck_assert_uint_eq(addresses[2], lg_symbol(&g, "vfs_read"));
	ck_assert_int_eq(kinds[2], LNX_FRAME_INTERRUPTED);
}
END_TEST

START_TEST(stop_in_the_entry_code_itself_marks_the_interrupted_pc)
{
	build_interrupted();
	run_in("el1h_64_irq", 0x60);
	regs->spsr_el1 = 5;
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "el1h_64_irq") + 0x60 },
	       { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "vfs_read") + 0x4c }, IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(exception_in_an_exception_marks_both)
{
	build_interrupted();
	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	interrupt(lg_symbol(&g, "gic_handle_irq") + 0x10);
	lg_push(&g, t, lg_in(&g, "el1h_64_sync"));
	run_in("do_exit", 0x20);
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "do_exit") + 0x20 }, IN("el1h_64_sync"),
	       { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "gic_handle_irq") + 0x10 },
	       IN("el1h_64_irq"), { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "vfs_read") + 0x4c },
	       IN("el0_svc"), IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(exception_frames_of_new_kernels_are_followed)
{
	remake(&(struct lg_form){ .style = 'C', .meta = true });
	build_interrupted();
	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	lg_push(&g, t, lg_in(&g, "el1_interrupt"));
	run_in("gic_handle_irq", 0x20);
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "gic_handle_irq") + 0x20 }, IN("el1_interrupt"),
	       IN("el1h_64_irq"), { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "vfs_read") + 0x4c },
	       IN("el0_svc"), IN("el0t_64_sync"));
	WHOLE();
}
END_TEST

START_TEST(exception_frame_that_leads_back_is_bad)
{
	remake(&(struct lg_form){ .style = 'C', .meta = true });
	build((const char *const[]){ "el0t_64_sync", NULL });
	uint64_t fp = interrupt(lg_symbol(&g, "vfs_read") + 0x4c);
	struct lg_regs *r = (struct lg_regs *)(void *)(t->stack_bytes + (fp - 296 - t->stack));
	const uint64_t bad[] = { fp, fp - 8, t->stack - 16, 0, 4, UINT64_MAX };

	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		r->regs[29] = bad[i];
		run_in("gic_handle_irq", 0x20);
		unwind_running();
		ck_assert_uint_eq(stack.count, 3);
		ck_assert_int_eq(kinds[2], LNX_FRAME_INTERRUPTED);
		expect_end(LNX_END_BAD_RECORD, bad[i]);
	}
}
END_TEST

START_TEST(exception_frame_that_reaches_out_of_the_stack_is_unreadable)
{
	remake(&(struct lg_form){ .style = 'C', .meta = true });
	uint64_t meta[3] = { 0, 0, 2 };

	lg_stack_reset(&g, t);
	memcpy(t->stack_bytes + 8, meta, 24); // pt_regs would begin in the guard page below
	lg_run(&g, 0, t, lg_symbol(&g, "vfs_read"));
	regs->x[29] = t->stack + 8;
	unwind_running();
	ck_assert_uint_eq(stack.count, 1);
	expect_end(LNX_END_UNREADABLE, t->stack + 8);
	// the type behind the end of the stack
	memset(t->stack_bytes + LG_STACK - 16, 0, 16);
	regs->x[29] = t->stack + LG_STACK - 16;
	unwind_running();
	ck_assert_uint_eq(stack.count, 1);
	expect_end(LNX_END_UNREADABLE, t->stack + LG_STACK - 16);
}
END_TEST

/* --- stacks of the CPU ------------------------------------------------------------------------ */

/* The way from the task's stack to the CPU's, and some frames there. @return the innermost record */
static uint64_t switch_to_irq_stack(void)
{
	uint64_t top = LG_STACK - 0x10,
		 lr[3] = { lg_in(&g, "call_on_irq_stack"), lg_in(&g, "do_interrupt_handler"),
			   lg_in(&g, "generic_handle_domain_irq") };
	uint64_t fp = t->fp;

	for (int i = 0; i < 3; i++) {
		uint64_t record[2] = { fp, lr[i] };

		memcpy(g.cpu[0].irq_bytes + top, record, 16);
		fp = g.cpu[0].irq_stack + top;
		top -= 0x40;
	}
	return fp;
}

// U03
START_TEST(chain_goes_from_the_irq_stack_to_the_stack_of_the_task)
{
	build_interrupted();
	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	lg_push(&g, t, lg_in(&g, "el1_interrupt"));
	uint64_t fp = switch_to_irq_stack();
	run_in("timer_handler", 0x30);
	regs->x[29] = fp;
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "timer_handler") + 0x30 },
	       IN("generic_handle_domain_irq"), IN("do_interrupt_handler"), IN("call_on_irq_stack"),
	       IN("el1_interrupt"), IN("el1h_64_irq"),
	       { NULL, LNX_FRAME_INTERRUPTED, lg_symbol(&g, "vfs_read") + 0x4c }, IN("el0_svc"),
	       IN("el0t_64_sync"));
	WHOLE();
	// without the task only the CPU's own stack is known
	clear();
	lnx_unwind_running(&v, NULL, regs, &stack);
	ck_assert_uint_eq(stack.count, 4);
	expect_end(LNX_END_BAD_RECORD, t->fp);
	// without TPIDR_EL1 not even that
	regs->valid &= ~(uint32_t)GUEST_REGS_TPIDR;
	unwind_running();
	ck_assert_uint_eq(stack.count, 1);
	expect_end(LNX_END_BAD_RECORD, fp);
}
END_TEST

START_TEST(chain_from_the_overflow_stack_goes_on_wherever_it_leads)
{
	for (int via_irq = 0; via_irq < 2; via_irq++) {
		build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
		uint64_t record[2] = { via_irq ? switch_to_irq_stack() : t->fp,
				       lg_in(&g, "do_exit") };

		memcpy(g.cpu[0].bytes + LG_PERCPU_OVERFLOW_STACK + 0x800, record, 16);
		run_in("leaf", 4);
		regs->x[29] = g.cpu[0].area + LG_PERCPU_OVERFLOW_STACK + 0x800;
		unwind_running();
		ck_assert_uint_eq(stack.count, via_irq ? 7 : 4);
		ck_assert_uint_eq(addresses[1], lg_in(&g, "do_exit"));
		WHOLE();
	}
}
END_TEST

START_TEST(chain_never_goes_back_from_the_stack_of_the_task)
{
	build((const char *const[]){ "el0t_64_sync", NULL });
	uint64_t fp = switch_to_irq_stack();
	uint64_t record[2] = { fp, lg_in(&g, "el0_svc") };

	t->next -= 0x40;
	memcpy(lg_word(&g, t->next), record, 16);
	run_in("leaf", 4);
	regs->x[29] = t->next;
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "leaf") + 4 }, IN("el0_svc"));
	expect_end(LNX_END_BAD_RECORD, fp);
}
END_TEST

START_TEST(irq_stack_pointer_of_nonsense_is_no_stack)
{
	static const uint64_t bad[] = { 0, 3, 0xaaaab0000000, UINT64_MAX - 7 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		build((const char *const[]){ "el0t_64_sync", "el0_svc", NULL });
		uint64_t fp = switch_to_irq_stack();
		memcpy(g.cpu[0].bytes + LG_PERCPU_IRQ_STACK_PTR, &bad[i], 8);
		run_in("leaf", 4);
		regs->x[29] = fp;
		unwind_running();
		ck_assert_uint_eq(stack.count, 1);
		expect_end(LNX_END_BAD_RECORD, fp);
		regs->x[29] = t->fp;
		unwind_running();
		ck_assert_uint_eq(stack.count, 3);
		WHOLE();
	}
}
END_TEST

START_TEST(idle_vcpu_in_a_leaf_has_its_caller)
{
	t = &g.cpu[1].idle;
	regs = &g.m.regs[1];
	unwind_running();
	EXPECT({ NULL, LNX_FRAME_PC, lg_symbol(&g, "cpu_do_idle") + 8 }, LR("arch_cpu_idle"),
	       IN("do_idle"), IN("secondary_start_kernel"));
	WHOLE();
}
END_TEST

/* --- hostile stacks --------------------------------------------------------------------------- */

START_TEST(stacks_of_noise_end)
{
	uint64_t seed = 5;
	int ends[LNX_ENDS] = { 0 };

	for (int round = 0; round < 4000; round++) {
		// words that are mostly plausible: addresses on the stack, text, zero, noise
		for (size_t i = 0; i < LG_STACK / 8; i += 1 + prng_below(&seed, 64)) {
			uint64_t word = prng(&seed);

			switch (prng_below(&seed, 6)) {
			case 0:
			case 1: word = t->stack + prng_below(&seed, LG_STACK); break;
			case 2:
				word = (t->stack + prng_below(&seed, LG_STACK)) & ~UINT64_C(7);
				break;
			case 3: word = lg_symbol(&g, "vfs_read") + prng_below(&seed, 64); break;
			case 4: word = 0; break;
			default: break;
			}
			memcpy(t->stack_bytes + 8 * i, &word, 8);
		}
		t->task->fp = (t->stack + prng_below(&seed, LG_STACK)) & ~UINT64_C(7);
		t->task->pc = lg_in(&g, "__switch_to");
		unwind_blocked();
		ck_assert_uint_le(stack.count, LNX_FRAMES_MAX);
		ck_assert_int_lt(stack.end, LNX_ENDS);
		ends[stack.end]++;
	}
	ck_assert_int_gt(ends[LNX_END_BAD_RECORD], 100);
	ck_assert_int_gt(ends[LNX_END_NOT_TEXT], 100);
	ck_assert_int_gt(ends[LNX_END_COMPLETE], 10);
}
END_TEST

START_TEST(every_end_has_a_name)
{
	for (int i = 0; i < LNX_ENDS; i++) {
		ck_assert_str_ne(lnx_unwind_end_name((enum lnx_unwind_end)i), "unknown");
		for (int other = 0; other < i; other++)
			ck_assert_str_ne(lnx_unwind_end_name((enum lnx_unwind_end)i),
					 lnx_unwind_end_name((enum lnx_unwind_end)other));
	}
	ck_assert_str_eq(lnx_unwind_end_name(LNX_ENDS), "unknown");
	ck_assert_str_eq(lnx_unwind_end_name((enum lnx_unwind_end)12345), "unknown");
}
END_TEST

static TCase *blocked_cases(void)
{
	TCase *tc = tcase_create("blocked");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, blocked_chain_ends_at_the_outermost_record);
	tcase_add_test(tc, outermost_record_is_known_by_its_place);
	tcase_add_test(tc, chain_ends_at_a_record_of_zeros);
	tcase_add_test(tc, chain_of_a_kernel_thread_ends_behind_its_first_function);
	tcase_add_test(tc, new_thread_has_one_frame);
	tcase_add_test(tc, old_thread_that_begins_has_one_frame);
	tcase_add_test(tc, final_record_of_new_kernels_ends_the_chain);
	tcase_add_test(tc, record_of_an_unknown_type_is_bad);
	tcase_add_test(tc, signed_return_addresses_are_stripped);
	tcase_add_test(tc, return_address_into_a_module_is_text);
	tcase_add_test(tc, return_address_that_is_no_text_ends_the_chain);
	tcase_add_test(tc, saved_pc_that_is_no_text_gives_no_frames);
	tcase_add_test(tc, task_without_a_stack_has_no_frames);
	tcase_add_test(tc, frame_pointer_that_is_no_step_outwards_ends_the_chain);
	tcase_add_test(tc, records_at_both_ends_of_the_stack_count);
	tcase_add_test(tc, records_aligned_to_eight_count);
	tcase_add_test(tc, record_on_a_page_that_is_gone_is_unreadable);
	tcase_add_test(tc, more_frames_than_there_is_room_for_are_cut_and_said_so);
	tcase_add_test(tc, stacks_of_noise_end);
	tcase_add_test(tc, every_end_has_a_name);
	return tc;
}

static TCase *running_cases(void)
{
	TCase *tc = tcase_create("running");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, running_thread_begins_with_its_pc);
	tcase_add_test(tc, running_in_user_mode_gives_nothing);
	tcase_add_test(tc, link_register_of_a_leaf_is_a_frame);
	tcase_add_test(tc, link_register_that_is_in_the_chain_is_no_further_frame);
	tcase_add_test(tc, link_register_within_the_same_function_is_no_frame);
	tcase_add_test(tc, link_register_that_is_no_text_is_no_frame);
	tcase_add_test(tc, pc_of_zero_is_shown_and_the_chain_goes_on);
	tcase_add_test(tc, frame_pointer_of_a_running_thread_may_be_anything);
	tcase_add_test(tc, vcpu_in_the_trampoline_has_no_chain);
	tcase_add_test(tc, vcpu_on_its_way_to_the_trampoline_has_no_chain);
	tcase_add_test(tc, interrupted_pc_is_marked);
	tcase_add_test(tc, interrupted_pc_at_the_start_of_a_function_is_marked);
	tcase_add_test(tc, stop_in_the_entry_code_itself_marks_the_interrupted_pc);
	tcase_add_test(tc, exception_in_an_exception_marks_both);
	tcase_add_test(tc, exception_frames_of_new_kernels_are_followed);
	tcase_add_test(tc, exception_frame_that_leads_back_is_bad);
	tcase_add_test(tc, exception_frame_that_reaches_out_of_the_stack_is_unreadable);
	tcase_add_test(tc, chain_goes_from_the_irq_stack_to_the_stack_of_the_task);
	tcase_add_test(tc, chain_from_the_overflow_stack_goes_on_wherever_it_leads);
	tcase_add_test(tc, chain_never_goes_back_from_the_stack_of_the_task);
	tcase_add_test(tc, irq_stack_pointer_of_nonsense_is_no_stack);
	tcase_add_test(tc, idle_vcpu_in_a_leaf_has_its_caller);
	return tc;
}

Suite *suite_unwind(void)
{
	Suite *s = suite_create("unwind");

	suite_add_tcase(s, blocked_cases());
	suite_add_tcase(s, running_cases());
	return s;
}
