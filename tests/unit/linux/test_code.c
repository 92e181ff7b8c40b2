/* SPDX-License-Identifier: Apache-2.0 */
/* A vCPU stopped at each instruction of made-up code: who has called, and what is uncertain. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct lnx_view v;
static struct lg_thread *t;
static struct guest_vcpu_regs *regs;
static struct lnx_task task;
static uint64_t addresses[LNX_FRAMES_MAX];
static uint8_t kinds[LNX_FRAMES_MAX], doubts[LNX_FRAMES_MAX];
static struct lnx_stack stack = { .address = addresses, .kind = kinds, .doubt = doubts };

/* The words are as the GNU assembler makes them. */
#define CBZ_12	   0x34000060 /* cbz w0, .+12 */
#define BL	   0x94000000 /* bl . */
#define BRK	   0xd4200000
#define RET	   0xd65f03c0
#define LOOP	   0x14000000 /* b . */
#define BR	   0xd61f0200 /* br x16 */
#define NOP	   0xd503201f
#define MOV_X9_X30 0xaa1e03e9
#define ADD_X0	   0x91000400 /* add x0, x0, #1 */

/* What gcc makes of a function that calls another one. */
static const uint32_t function[] = {
	MOV_X9_X30, NOP,
	0xd503233f, // paciasp
	0xa9be7bfd, // stp x29, x30, [sp, #-32]!
	0x910003fd, // mov x29, sp
	0xf9000bf3, // str x19, [sp, #16]
	BL,
	0xf9400bf3, // ldr x19, [sp, #16]
	0xa8c27bfd, // ldp x29, x30, [sp], #32
	0xd50323bf, // autiasp
	RET,
};

#define HAS_RECORD(i) ((i) > 4 && (i) < 9)

/* kernel_entry 1, a handler, kernel_exit 1 (entry.S), as far as x29, x30 and calls go. */
static const uint32_t entry[] = {
	0xa90007e0, // stp x0, x1, [sp]
	0xa90e77fc, // stp x28, x29, [sp, #224]
	0xd5384036, // mrs x22, elr_el1
	0xa90f57fe, // stp x30, x21, [sp, #240]
	0xa9135bfd, // stp x29, x22, [sp, #304]
	0x9104c3fd, // add x29, sp, #304
	0xa9105ff6, // stp x22, x23, [sp, #256]
	0x910003e0, // mov x0, sp
	BL,
	0xa94e77fc, // ldp x28, x29, [sp, #224]
	0xf9407bfe, // ldr x30, [sp, #240]
	0x910543ff, // add sp, sp, #0x150
	0xd69f03e0, // eret
};

enum { PC_STORED = 7, HANDLER = 8, X29_LOADED = 10, X30_LOADED = 11 };

static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	lg_populate(&g);
	t = &g.threads[4];
	regs = &g.m.regs[0];
	k = lg_kernel_find(&g);
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

static void put_code(uint64_t at, const uint32_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		*(uint32_t *)lg_image(&g, at + 4 * i - lg_image_va(&g, 0)) = words[i];
}

#define CODE(at, ...)                                       \
	do {                                                \
		const uint32_t words_[] = { __VA_ARGS__ };  \
		put_code((at), words_, ARRAY_SIZE(words_)); \
	} while (0)

static void unwind(void)
{
	memset(doubts, 0xee, sizeof(doubts));
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_task_read(&v, GVA(t->address), &task), GS_OK);
	lnx_unwind_running(&v, &task, regs, &stack);
	ck_assert_msg(stack.end == LNX_END_COMPLETE, "%s", lnx_unwind_end_name(stack.end));
}

/* Under el0_svc and pipe_read, whose record x29 leads to. */
static void begin(uint64_t pc)
{
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, "el0t_64_sync"));
	lg_push(&g, t, lg_in(&g, "el0_svc"));
	lg_run(&g, 0, t, pc);
}

/* The frames behind the pc are these and the two of begin(). */
static void expect(const uint64_t *callers, uint32_t n)
{
	ck_assert_uint_eq(stack.count, n + 3);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_msg(addresses[1 + i] == callers[i], "caller %u: %#" PRIx64, i,
			      addresses[1 + i]);
	ck_assert_uint_eq(addresses[n + 1], lg_in(&g, "el0_svc"));
	ck_assert_uint_eq(addresses[n + 2], lg_in(&g, "el0t_64_sync"));
}

static void expect_doubt(uint32_t frame, enum lnx_doubt doubt)
{
	for (uint32_t i = 0; i < stack.count; i++)
		ck_assert_msg(doubts[i] == (i == frame ? doubt : LNX_CERTAIN), "frame %u: %s", i,
			      lnx_doubt_name((enum lnx_doubt)doubts[i]));
}

#define EXPECT(...)                                          \
	do {                                                 \
		const uint64_t callers_[] = { __VA_ARGS__ }; \
		expect(callers_, ARRAY_SIZE(callers_));      \
	} while (0)

/* --- functions -------------------------------------------------------------------------------- */

// Called by itself: the link register points into the function, but has not come back from a call.
START_TEST(each_instruction_of_a_function_that_calls_itself)
{
	const uint64_t at = lg_symbol(&g, "vfs_read"), self = at + 7 * 4;

	put_code(at, function, ARRAY_SIZE(function));
	for (uint32_t i = 0; i < ARRAY_SIZE(function); i++) {
		begin(at + 4 * i);
		// the record of the call before this one
		uint64_t outer = t->fp;
		lg_push(&g, t, lg_in(&g, "pipe_read"));
		if (HAS_RECORD(i))
			lg_push(&g, t, self);
		regs->x[29] = t->fp;
		regs->x[30] = self;
		ck_assert_uint_ne(outer, t->fp);
		unwind();
		EXPECT(self, lg_in(&g, "pipe_read"));
		expect_doubt(0, LNX_CERTAIN);
	}
}
END_TEST

// What a call in another part of the function (f.cold) has left in the link register is no caller.
START_TEST(leftover_in_the_link_register_is_no_caller)
{
	const uint64_t at = lg_symbol(&g, "vfs_read");

	put_code(at, function, ARRAY_SIZE(function));
	for (uint32_t i = 0; i < ARRAY_SIZE(function); i++) {
		if (!HAS_RECORD(i))
			continue;
		begin(at + 4 * i);
		regs->x[30] = lg_in(&g, "do_exit");
		unwind();
		EXPECT();
		expect_doubt(0, LNX_CERTAIN);
	}
}
END_TEST

START_TEST(link_register_that_the_code_needs_and_is_no_text_is_uncertain)
{
	const uint64_t at = lg_symbol(&g, "vfs_read");

	put_code(at, function, ARRAY_SIZE(function));
	begin(at);
	regs->x[30] = 0x1234;
	unwind();
	EXPECT();
	expect_doubt(1, LNX_DOUBT_LINK);
}
END_TEST

START_TEST(call_of_a_tracer_at_the_start_is_before_the_record)
{
	const uint64_t at = lg_symbol(&g, "vfs_read");

	put_code(at, function, ARRAY_SIZE(function));
	CODE(at + 4, BL);
	begin(at + 4);
	regs->x[30] = lg_in(&g, "pipe_read");
	unwind();
	EXPECT(lg_in(&g, "pipe_read"));
	expect_doubt(0, LNX_CERTAIN);
}
END_TEST

START_TEST(all_ways_through_the_code_have_to_agree)
{
	const uint64_t at = lg_symbol(&g, "vfs_read"), lr = lg_in(&g, "pipe_read");

	// both to a return
	CODE(at, CBZ_12, ADD_X0, RET, ADD_X0, RET);
	begin(at);
	regs->x[30] = lr;
	unwind();
	EXPECT(lr);
	expect_doubt(0, LNX_CERTAIN);
	// one to a call, before which nothing tells
	CODE(at, CBZ_12, ADD_X0, RET, ADD_X0, BL);
	unwind();
	EXPECT(lr);
	expect_doubt(1, LNX_DOUBT_LINK);
	// one comes to nothing
	CODE(at, CBZ_12, ADD_X0, RET, ADD_X0, BR);
	unwind();
	EXPECT(lr);
	expect_doubt(0, LNX_CERTAIN);
}
END_TEST

// Then the rule is what there is, and what it cannot know is said.
START_TEST(code_that_tells_nothing_leaves_the_rule)
{
	static const uint32_t nothing[] = { LOOP, BR, BRK };
	const uint64_t at = lg_symbol(&g, "vfs_read"), lr = lg_in(&g, "pipe_read");

	for (size_t i = 0; i < ARRAY_SIZE(nothing); i++) {
		CODE(at, ADD_X0, nothing[i]);
		begin(at);
		regs->x[30] = lr;
		unwind();
		EXPECT(lr);
		expect_doubt(1, LNX_DOUBT_LINK);
		// it is in the record as well
		regs->x[30] = lg_in(&g, "el0_svc");
		unwind();
		EXPECT();
		expect_doubt(0, LNX_CERTAIN);
		// no call is there
		regs->x[30] = lr + 4;
		unwind();
		EXPECT();
		expect_doubt(0, LNX_CERTAIN);
	}
}
END_TEST

static uint32_t bl(uint64_t from, uint64_t to)
{
	return BL | ((uint32_t)((to - from) >> 2) & 0x3ffffff);
}

START_TEST(what_a_call_calls_decides_where_the_rule_cannot)
{
	const uint64_t at = lg_symbol(&g, "vfs_read"), lr = lg_in(&g, "pipe_read");

	CODE(at, ADD_X0, LOOP);
	// it calls what runs: no doubt
	CODE(lr - 4, bl(lr - 4, at));
	begin(at);
	regs->x[30] = lr;
	unwind();
	EXPECT(lr);
	expect_doubt(0, LNX_CERTAIN);
	// within the function: another one that has come back, or itself, or nobody knows
	CODE(at + 0x40, bl(at + 0x40, lg_symbol(&g, "do_exit")));
	regs->x[30] = at + 0x44;
	unwind();
	EXPECT();
	expect_doubt(0, LNX_CERTAIN);
	CODE(at + 0x40, bl(at + 0x40, at));
	unwind();
	EXPECT();
	expect_doubt(1, LNX_DOUBT_LINK);
	CODE(at + 0x40, 0xd63f0200); // blr x16
	unwind();
	EXPECT();
	expect_doubt(1, LNX_DOUBT_LINK);
}
END_TEST

// Assembly that makes calls and has no record: the caller is lost, and that is said.
START_TEST(call_without_a_record_is_uncertain)
{
	const uint64_t at = lg_symbol(&g, "leaf");

	CODE(at, ADD_X0, ADD_X0, BL, RET);
	begin(at);
	regs->x[30] = lg_in(&g, "vfs_read");
	unwind();
	EXPECT(lg_in(&g, "vfs_read"));
	expect_doubt(1, LNX_DOUBT_LINK);
}
END_TEST

START_TEST(return_addresses_follow_a_call)
{
	static const uint32_t calls[] = { BL, 0xd63f0200, 0xd73f0822, 0xd63f087f };
	static const uint32_t others[] = { NOP, RET, BR, LOOP, 0x54000040, BRK };
	const uint64_t in = lg_symbol(&g, "do_exit") + 0x40;

	for (size_t i = 0; i < ARRAY_SIZE(calls) + ARRAY_SIZE(others); i++) {
		bool is_call = i < ARRAY_SIZE(calls);

		CODE(in - 4, is_call ? calls[i] : others[i - ARRAY_SIZE(calls)]);
		begin(lg_symbol(&g, "vfs_read"));
		lg_push(&g, t, in);
		regs->x[29] = t->fp;
		unwind();
		EXPECT(in);
		expect_doubt(1, is_call ? LNX_CERTAIN : LNX_DOUBT_NO_CALL);
	}
	// memory of functions that run once is given away
	begin(lg_symbol(&g, "vfs_read"));
	lg_push(&g, t, lg_symbol(&g, "start_kernel") + 0x20);
	regs->x[29] = t->fp;
	unwind();
	expect_doubt(0, LNX_CERTAIN);
}
END_TEST

START_TEST(what_was_seen_to_follow_a_call_is_remembered)
{
	static struct lnx_cache cache;
	const uint64_t in = lg_in(&g, "do_exit");

	begin(lg_symbol(&g, "vfs_read"));
	lg_push(&g, t, in);
	regs->x[29] = t->fp;
	lnx_view_init(&v, k, &g.m.guest);
	lnx_view_use_cache(&v, &cache);
	ck_assert_int_eq(lnx_task_read(&v, GVA(t->address), &task), GS_OK);
	lnx_unwind_running(&v, &task, regs, &stack);
	expect_doubt(0, LNX_CERTAIN);
	CODE(in - 4, NOP);
	lnx_unwind_running(&v, &task, regs, &stack);
	expect_doubt(0, LNX_CERTAIN);
	// a new stop, and nothing is known any more
	lnx_view_use_cache(&v, &cache);
	lnx_unwind_running(&v, &task, regs, &stack);
	expect_doubt(1, LNX_DOUBT_NO_CALL);
}
END_TEST

/* --- exceptions ------------------------------------------------------------------------------- */

/* The pt_regs of an interrupt of vfs_read, called by do_exit that only the link register has. */
static uint64_t push_regs(uint64_t pc, uint64_t lr)
{
	struct lg_regs r = { .pc = pc, .pstate = 5 };
	uint64_t at = t->next - LG_REGS_SIZE - 0x40;

	r.regs[29] = t->fp;
	r.regs[30] = lr;
	if (g.form.meta) {
		const uint64_t meta[3] = { 0, 0, 2 };

		memcpy(&r.stackframe_meta, meta, sizeof(meta));
	} else {
		r.stackframe[0] = t->fp;
		r.stackframe[1] = pc;
	}
	memcpy(lg_word(&g, at), &r, sizeof(r));
	return at;
}

static uint64_t record_in(uint64_t pt_regs)
{
	return pt_regs + (g.form.meta ? offsetof(struct lg_regs, stackframe_meta)
				      : offsetof(struct lg_regs, stackframe));
}

START_TEST(each_instruction_of_exception_entry_and_exit)
{
	for (int meta = 0; meta < 2; meta++) {
		teardown();
		make(&(struct lg_form){ .meta = meta });
		const uint64_t at = lg_symbol(&g, "el1h_64_irq"), pc = lg_symbol(&g, "vfs_read");
		const uint64_t lr = lg_in(&g, "do_exit");

		put_code(at, entry, ARRAY_SIZE(entry));
		put_code(pc, function, ARRAY_SIZE(function));
		for (uint32_t i = 0; i < ARRAY_SIZE(entry); i++) {
			bool is_saved = i > 5 && i < X29_LOADED;

			begin(at + 4 * i);
			uint64_t fp = t->fp, on = push_regs(pc, lr);
			if (meta && i < PC_STORED)
				*lg_word(&g, on + offsetof(struct lg_regs, pc)) = 0x4711;
			regs->sp_el1 = on;
			regs->x[29] = is_saved ? record_in(on) : fp;
			// up to the handler's call that of what was interrupted, then anything
			regs->x[30] = i <= HANDLER || i >= X30_LOADED ? lr : lg_in(&g, "leaf");
			regs->elr_el1 = pc;
			regs->spsr_el1 = 5;
			unwind();
			EXPECT(pc, lr);
			ck_assert_int_eq(kinds[1], LNX_FRAME_INTERRUPTED);
			ck_assert_int_eq(kinds[2], LNX_FRAME_LR);
			expect_doubt(0, LNX_CERTAIN);
		}
	}
}
END_TEST

START_TEST(exception_of_user_mode_has_no_chain)
{
	const uint64_t at = lg_symbol(&g, "el1h_64_irq");

	put_code(at, entry, ARRAY_SIZE(entry));
	for (uint32_t i = 0; i < ARRAY_SIZE(entry); i++) {
		if (i > 5 && i < X29_LOADED)
			continue;
		begin(at + 4 * i); // x29 and x30 as a program in user mode may choose them
		regs->x[30] = lg_in(&g, "do_exit");
		regs->elr_el1 = lg_in(&g, "vfs_read");
		regs->spsr_el1 = 0;
		unwind();
		ck_assert_uint_eq(stack.count, 1);
		expect_doubt(0, LNX_CERTAIN);
	}
}
END_TEST

START_TEST(exception_entry_without_elr_is_uncertain)
{
	const uint64_t at = lg_symbol(&g, "el1h_64_irq");

	put_code(at, entry, ARRAY_SIZE(entry));
	begin(at);
	regs->valid &= ~(uint32_t)GUEST_REGS_EXC;
	unwind();
	EXPECT();
	expect_doubt(1, LNX_DOUBT_ENTRY);
	regs->x[29] = 0xaaaab0001230;
	unwind();
	ck_assert_uint_eq(stack.count, 1);
	expect_doubt(0, LNX_DOUBT_ENTRY);
}
END_TEST

// A fault that was fixed up has another pc in its pt_regs than in the record.
START_TEST(caller_of_what_was_interrupted_is_found)
{
	for (int meta = 0; meta < 2; meta++) {
		teardown();
		make(&(struct lg_form){ .meta = meta });
		const uint64_t in = lg_symbol(&g, "vfs_read"), self = in + 7 * 4;

		put_code(in, function, ARRAY_SIZE(function));
		for (uint32_t i = 0; i < ARRAY_SIZE(function); i++) {
			begin(lg_symbol(&g, "do_exit") + 4);
			uint64_t on = push_regs(in + 4 * i, self);

			if (!meta)
				*lg_word(&g, on + offsetof(struct lg_regs, pc)) += 4;
			t->fp = record_in(on);
			t->next = on;
			lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
			regs->x[29] = t->fp;
			unwind();
			if (HAS_RECORD(i))
				EXPECT(lg_in(&g, "el1h_64_irq"), in + 4 * i);
			else
				EXPECT(lg_in(&g, "el1h_64_irq"), in + 4 * i, self);
			expect_doubt(0, LNX_CERTAIN);
		}
	}
}
END_TEST

// Code is read for a limited number of them: a guest can make up many.
START_TEST(many_exceptions_in_each_other_are_uncertain)
{
	const uint64_t in = lg_symbol(&g, "vfs_read");
	uint32_t uncertain = 0;

	put_code(in, function, ARRAY_SIZE(function));
	begin(lg_symbol(&g, "do_exit") + 4);
	for (int i = 0; i < 20; i++) {
		uint64_t on = push_regs(in + 6 * 4, 0);

		t->fp = record_in(on);
		t->next = on;
		lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	}
	regs->x[29] = t->fp;
	unwind();
	ck_assert_uint_eq(stack.count, 3 + 2 * 20);
	for (uint32_t i = 0; i < stack.count; i++)
		uncertain += doubts[i] == LNX_DOUBT_LINK;
	// the vCPU's own code, and fifteen of theirs
	ck_assert_uint_eq(uncertain, 20 - 15);
}
END_TEST

START_TEST(pt_regs_that_contradict_their_record_are_uncertain)
{
	const uint64_t in = lg_symbol(&g, "vfs_read");

	begin(lg_symbol(&g, "do_exit") + 4);
	uint64_t on = push_regs(in, lg_in(&g, "do_exit"));
	*lg_word(&g, on + 29 * 8) = 8;
	t->fp = record_in(on);
	t->next = on;
	lg_push(&g, t, lg_in(&g, "el1h_64_irq"));
	regs->x[29] = t->fp;
	unwind();
	EXPECT(lg_in(&g, "el1h_64_irq"), in);
	expect_doubt(3, LNX_DOUBT_ENTRY);
}
END_TEST

/* --- assembly of its own kind ------------------------------------------------------------------ */

// x29 is the next task's already, the rest is not: the chain is the one that was saved.
START_TEST(switch_between_tasks_has_the_chain_that_was_saved)
{
	const uint64_t at = lg_symbol(&g, "cpu_switch_to");

	CODE(at, ADD_X0, RET);
	begin(at);
	t->task->fp = t->fp;
	t->task->pc = lg_in(&g, "schedule");
	regs->x[29] = g.threads[2].fp;
	regs->x[30] = lg_in(&g, "do_exit");
	unwind();
	EXPECT(lg_in(&g, "schedule"));
	expect_doubt(0, LNX_CERTAIN);
	// before and after it what the registers say
	regs->x[29] = t->fp;
	unwind();
	EXPECT(lg_in(&g, "do_exit"));
}
END_TEST

START_TEST(nothing_has_called_the_first_function_of_a_thread)
{
	const uint64_t at = lg_symbol(&g, "ret_from_fork");

	CODE(at, ADD_X0, BL, RET);
	begin(at);
	regs->x[30] = lg_in(&g, "do_exit");
	unwind();
	EXPECT();
	expect_doubt(0, LNX_CERTAIN);
}
END_TEST

/* --- tracers ------------------------------------------------------------------------------------ */

/* pipe_read, called by el0_svc, and do_exit by pipe_read, are both traced: x29 of their callers. */
static void begin_traced(uint64_t trampoline, uint64_t fp[2])
{
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, g.form.old ? "el0_sync" : "el0t_64_sync"));
	fp[0] = t->fp;
	lg_push(&g, t, trampoline);
	fp[1] = t->fp;
	lg_push(&g, t, trampoline);
	lg_run(&g, 0, t, lg_symbol(&g, "do_exit") + 4);
}

static void expect_traced_from(const char *from, enum lnx_doubt doubt)
{
	unwind();
	ck_assert_uint_eq(stack.count, 4);
	for (uint32_t i = 1; i < 3; i++)
		ck_assert_int_eq(doubts[i], doubt);
	if (doubt)
		return;
	ck_assert_uint_eq(addresses[1], lg_in(&g, "pipe_read"));
	ck_assert_uint_eq(addresses[2], lg_in(&g, "el0_svc"));
	ck_assert_uint_eq(addresses[3], lg_in(&g, from));
}

static void expect_traced(enum lnx_doubt doubt)
{
	expect_traced_from("el0t_64_sync", doubt);
}

START_TEST(callers_of_functions_in_the_graph_are_found)
{
	for (int meta = 0; meta < 2; meta++) {
		teardown();
		make(&(struct lg_form){ .meta = meta });
		const uint64_t trampoline = lg_symbol(&g, "return_to_handler"),
			       pa = lg_pages(&g, 1);
		const uint64_t func = lg_symbol(&g, "leaf") + 4;
		uint64_t *word = lg_at(&g, pa), fp[2];

		begin_traced(trampoline, fp);
		expect_traced(LNX_DOUBT_TRACED);
		ck_assert_uint_eq(addresses[1], trampoline);
		t->task->ret_stack = lg_linear(&g, pa);
		if (meta) {
			const uint64_t words[] = { lg_in(&g, "el0_svc"), func, fp[0], 7, 0x103,
						   lg_in(&g, "pipe_read"), func, fp[1], 0x103,
						   // left behind by calls that have returned
						   lg_in(&g, "leaf"), 0, fp[1], 0x103 };

			memcpy(word, words, sizeof(words));
			t->task->curr_ret_stack = 9;
		} else {
			const struct lg_ret_stack elements[] = {
				{ lg_in(&g, "el0_svc"), func, 0, fp[0], fp[0] },
				{ lg_in(&g, "pipe_read"), func, 0, fp[1], fp[1] },
				// has gone to another function: both have the same caller
				{ trampoline, func, 0, fp[1], fp[1] },
				{ lg_in(&g, "leaf"), 0, 0, fp[1], fp[1] },
			};

			memcpy(word, elements, sizeof(elements));
			t->task->curr_ret_stack = 2;
		}
		expect_traced(LNX_CERTAIN);
		t->task->curr_ret_stack = -1;
		expect_traced(LNX_DOUBT_TRACED);
		t->task->curr_ret_stack = INT32_MAX;
		unwind(); // ends
		t->task->ret_stack = 8;
		expect_traced(LNX_DOUBT_TRACED);
	}
}
END_TEST

START_TEST(callers_of_functions_with_a_kretprobe_are_found)
{
	const uint64_t trampoline = lg_symbol(&g, "__kretprobe_trampoline"), pa = lg_pages(&g, 1);
	struct lg_kretprobe *probe = lg_at(&g, pa);
	const uint64_t at = lg_linear(&g, pa), list = offsetof(struct lg_kretprobe, llist);
	uint64_t fp[2];

	begin_traced(trampoline, fp);
	expect_traced(LNX_DOUBT_TRACED);
	probe[0] = (struct lg_kretprobe){ .llist = at + sizeof(*probe) + list,
					  .ret_addr = lg_in(&g, "pipe_read"),
					  .fp = fp[1] };
	probe[1] = (struct lg_kretprobe){ .ret_addr = lg_in(&g, "el0_svc"), .fp = fp[0] };
	t->task->kretprobe_instances = at + list;
	expect_traced(LNX_CERTAIN);
	// in the link register of a leaf
	lg_stack_reset(&g, t);
	lg_push(&g, t, lg_in(&g, "el0t_64_sync"));
	CODE(lg_symbol(&g, "leaf"), ADD_X0, RET);
	lg_run(&g, 0, t, lg_symbol(&g, "leaf"));
	regs->x[30] = trampoline;
	ck_assert_uint_eq(t->fp, fp[0]);
	unwind();
	ck_assert_uint_eq(stack.count, 3);
	ck_assert_uint_eq(addresses[1], lg_in(&g, "el0_svc"));
	ck_assert_int_eq(doubts[1], LNX_CERTAIN);
	// a list that leads to itself, and one that leads nowhere
	begin_traced(trampoline, fp);
	probe[0].fp = 0;
	probe[0].llist = at + list;
	expect_traced(LNX_DOUBT_TRACED);
	probe[0].llist = ~UINT64_C(0xfff);
	expect_traced(LNX_DOUBT_TRACED);
}
END_TEST

/* The list of 5.10 that a task's instances are in. */
static uint64_t *list_of(uint64_t address)
{
	uint64_t *table = lg_image(&g, LG_KRETPROBES);

	return &table[address * UINT64_C(0x61c8864680b583eb) >> 58];
}

/* The same of 5.10: in a table, with the stack pointer instead of x29. */
static void make_old_probes(struct lg_old_kretprobe **probe_out, uint64_t *at_out, uint64_t fp[2])
{
	const uint64_t trampoline = lg_symbol(&g, "kretprobe_trampoline"), pa = lg_pages(&g, 1);
	struct lg_old_kretprobe *probe = lg_at(&g, pa);
	const uint64_t at = lg_linear(&g, pa);

	begin_traced(trampoline, fp);
	// two probes of the function that el0_svc has called: one has taken the return address of the other
	probe[0] = (struct lg_old_kretprobe){ .ret_addr = lg_in(&g, "pipe_read"), .fp = fp[1] };
	probe[1] = (struct lg_old_kretprobe){ .ret_addr = trampoline, .fp = fp[0] - 0x10 };
	probe[2] =
		(struct lg_old_kretprobe){ .ret_addr = lg_in(&g, "el0_svc"), .fp = fp[0] - 0x10 };
	for (int i = 0; i < 3; i++) {
		probe[i].hlist[0] = i < 2 ? at + (i + 1) * sizeof(*probe) : 0;
		probe[i].task = t->address;
	}
	*list_of(t->address) = at;
	*probe_out = probe;
	*at_out = at;
}

START_TEST(callers_of_functions_with_a_kretprobe_of_old_kernels_are_found)
{
	struct lg_old_kretprobe *probe;
	uint64_t at, fp[2];

	for (int data_symbols = 0; data_symbols < 2; data_symbols++) {
		teardown();
		make(&(struct lg_form){ .old = true, .data_symbols = data_symbols });
		ck_assert_uint_eq(k->variable[LNX_V_KRETPROBES].a, lg_image_va(&g, LG_KRETPROBES));
		make_old_probes(&probe, &at, fp);
		expect_traced_from("el0_sync", LNX_CERTAIN);
		// instances of other tasks are passed
		probe[0].task = g.threads[1].address;
		unwind();
		ck_assert_int_eq(doubts[1], LNX_DOUBT_TRACED);
		ck_assert_uint_eq(addresses[2], lg_in(&g, "el0_svc"));
		ck_assert_int_eq(doubts[2], LNX_CERTAIN);
		// of another call: farther in than the function's own record, or farther out than its caller's
		probe[0].task = t->address;
		for (int i = 0; i < 2; i++) {
			probe[2].fp = i ? fp[0] + 8 : fp[1];
			unwind();
			ck_assert_int_eq(doubts[1], LNX_CERTAIN);
			ck_assert_int_eq(doubts[2], LNX_DOUBT_TRACED);
		}
	}
}
END_TEST

START_TEST(nonsense_for_kretprobes_of_old_kernels_ends)
{
	struct lg_old_kretprobe *probe;
	uint64_t at, fp[2];

	teardown();
	make(&(struct lg_form){ .old = true });
	make_old_probes(&probe, &at, fp);
	const uint64_t bad[] = { 0,	     1,		at + 8, at + 4096 - 8, ~UINT64_C(0xfff),
				 UINT64_MAX, 0xaaaa0000 };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		*list_of(t->address) = bad[i];
		unwind();
		ck_assert_int_eq(doubts[1], LNX_DOUBT_TRACED);
		ck_assert_uint_eq(stack.count, 4);
	}
	// a list that leads to itself
	*list_of(t->address) = at;
	probe[0].hlist[0] = at;
	probe[0].ret_addr = lg_symbol(&g, "kretprobe_trampoline");
	expect_traced_from("el0_sync", LNX_DOUBT_TRACED);
	// return addresses that are none
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		probe[0].ret_addr = bad[i];
		expect_traced_from("el0_sync", LNX_DOUBT_TRACED);
	}
}
END_TEST

// Where the table is, is not taken from code that does something else.
START_TEST(code_that_tells_of_no_table_of_kretprobes_is_no_harm)
{
	struct lg_old_kretprobe *probe;
	uint64_t at, fp[2];

	for (int i = 0; i < 2; i++) {
		teardown();
		lg_create(&g, &(struct lg_form){ .old = true });
		lg_populate(&g);
		t = &g.threads[4];
		regs = &g.m.regs[0];
		uint32_t *code =
			lg_image(&g, lg_symbol(&g, "kretprobe_hash_lock") - lg_image_va(&g, 0));

		if (i) {
			// another place of a pointer beside
			code[7] = 0x8b000c42; // add x2, x2, x0, lsl #3
		} else {
			// an address below what is written to
			(void)lg_put_address(code, lg_symbol(&g, "kretprobe_hash_lock"), 3,
					     lg_image_va(&g, LG_STEXT));
		}
		ck_assert(!lnx_kernel_find(&g.m.guest, g.m.regs, g.form.vcpus, NULL, &k, NULL));
		ck_assert_uint_eq(k->variable[LNX_V_KRETPROBES].a, 0);
		make_old_probes(&probe, &at, fp);
		expect_traced_from("el0_sync", LNX_DOUBT_TRACED);
	}
}
END_TEST

// An event of the firmware comes on top of all other stacks, a critical one on top of a normal one.
START_TEST(stacks_of_events_of_the_firmware_lead_to_the_others)
{
	const uint64_t at = lg_symbol(&g, "do_exit") + 4;
	const uint64_t normal = g.threads[1].stack, critical = g.threads[2].stack;

	begin(at);
	memcpy(g.cpu[0].bytes + LG_PERCPU_SDEI_NORMAL, &normal, 8);
	memcpy(g.cpu[0].bytes + LG_PERCPU_SDEI_CRITICAL, &critical, 8);
	*lg_word(&g, normal + 0x100) = t->fp;
	*lg_word(&g, normal + 0x108) = lg_in(&g, "vfs_read");
	*lg_word(&g, critical + 0x800) = normal + 0x100;
	*lg_word(&g, critical + 0x808) = lg_in(&g, "pipe_read");
	regs->x[29] = critical + 0x800;
	unwind();
	EXPECT(lg_in(&g, "pipe_read"), lg_in(&g, "vfs_read"));
	// never the other way
	*lg_word(&g, normal + 0x100) = critical + 0x800;
	regs->x[29] = normal + 0x100;
	lnx_view_init(&v, k, &g.m.guest);
	lnx_unwind_running(&v, &task, regs, &stack);
	ck_assert_int_eq(stack.end, LNX_END_BAD_RECORD);
	ck_assert_uint_eq(stack.count, 2);
}
END_TEST

START_TEST(every_doubt_has_a_name)
{
	for (int i = 0; i < LNX_DOUBTS; i++)
		for (int other = 0; other < i; other++)
			ck_assert_str_ne(lnx_doubt_name((enum lnx_doubt)i),
					 lnx_doubt_name((enum lnx_doubt)other));
	ck_assert_str_eq(lnx_doubt_name(LNX_DOUBTS), "unknown");
}
END_TEST

Suite *suite_code(void)
{
	Suite *s = suite_create("code");
	TCase *tc = tcase_create("code");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, each_instruction_of_a_function_that_calls_itself);
	tcase_add_test(tc, leftover_in_the_link_register_is_no_caller);
	tcase_add_test(tc, link_register_that_the_code_needs_and_is_no_text_is_uncertain);
	tcase_add_test(tc, call_of_a_tracer_at_the_start_is_before_the_record);
	tcase_add_test(tc, all_ways_through_the_code_have_to_agree);
	tcase_add_test(tc, code_that_tells_nothing_leaves_the_rule);
	tcase_add_test(tc, what_a_call_calls_decides_where_the_rule_cannot);
	tcase_add_test(tc, call_without_a_record_is_uncertain);
	tcase_add_test(tc, return_addresses_follow_a_call);
	tcase_add_test(tc, what_was_seen_to_follow_a_call_is_remembered);
	tcase_add_test(tc, each_instruction_of_exception_entry_and_exit);
	tcase_add_test(tc, exception_of_user_mode_has_no_chain);
	tcase_add_test(tc, exception_entry_without_elr_is_uncertain);
	tcase_add_test(tc, caller_of_what_was_interrupted_is_found);
	tcase_add_test(tc, many_exceptions_in_each_other_are_uncertain);
	tcase_add_test(tc, pt_regs_that_contradict_their_record_are_uncertain);
	tcase_add_test(tc, switch_between_tasks_has_the_chain_that_was_saved);
	tcase_add_test(tc, nothing_has_called_the_first_function_of_a_thread);
	tcase_add_test(tc, callers_of_functions_in_the_graph_are_found);
	tcase_add_test(tc, callers_of_functions_with_a_kretprobe_are_found);
	tcase_add_test(tc, callers_of_functions_with_a_kretprobe_of_old_kernels_are_found);
	tcase_add_test(tc, nonsense_for_kretprobes_of_old_kernels_ends);
	tcase_add_test(tc, code_that_tells_of_no_table_of_kretprobes_is_no_harm);
	tcase_add_test(tc, stacks_of_events_of_the_firmware_lead_to_the_others);
	tcase_add_test(tc, every_doubt_has_a_name);
	suite_add_tcase(s, tc);
	return s;
}
