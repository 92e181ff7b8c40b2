/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel stacks: frame records, exception frames, the change from the IRQ stack to the task's. */
#include <string.h>

#include "introspect/linux/kernel.h"

/*
 * A frame record is {next frame pointer, return address} (AAPCS64). The kernel's own unwinder is
 * arch/arm64/kernel/stacktrace.c; how chains end and how exceptions show in them changed over the
 * versions, and is told apart by the presence of struct frame_record_meta (6.19 and later).
 */

#define OVERFLOW_STACK	  UINT64_C(4096) /* OVERFLOW_STACK_SIZE, arch/arm64/include/asm/memory.h */
#define FRAME_RECORD_SIZE 16
#define META_FINAL	  1 /* FRAME_META_TYPE_FINAL, …_PT_REGS (asm/stacktrace/frame.h, 6.19) */
#define META_PT_REGS	  2

const char *lnx_unwind_end_name(enum lnx_unwind_end end)
{
	switch (end) {
	case LNX_END_COMPLETE: return "complete";
	case LNX_END_NO_STACK: return "no stack";
	case LNX_END_UNREADABLE: return "unreadable frame record";
	case LNX_END_BAD_RECORD: return "bad frame pointer";
	case LNX_END_NOT_TEXT: return "return address outside of kernel text";
	case LNX_END_TRUNCATED: return "too many frames";
	case LNX_END_RUNNING: return "it runs, and its registers are not known";
	case LNX_ENDS: break;
	}
	return "unknown";
}

static bool stop(struct lnx_walk *w, enum lnx_unwind_end end, uint64_t at)
{
	w->out->end = end;
	w->out->end_at = end == LNX_END_COMPLETE ? 0 : at;
	return false;
}

static bool push(struct lnx_walk *w, uint64_t address, enum lnx_frame_kind kind)
{
	struct lnx_stack *s = w->out;

	if (s->count == LNX_FRAMES_MAX)
		return stop(w, LNX_END_TRUNCATED, address);
	s->address[s->count] = address;
	s->kind[s->count++] = (uint8_t)kind;
	return true;
}

static bool is_el1_entry(const struct lnx_kernel *k, uint64_t address)
{
	for (uint32_t i = 0; i < k->el1_entries; i++)
		if (lnx_range_has(k->el1_entry[i], address - 1))
			return true;
	return false;
}

/*
 * Whether a record may lie at @p fp: aligned (8 since 5.11; 16 before, which implies it), wholly on
 * a known stack, and farther out than the last one.
 */
static bool place_record(struct lnx_walk *w, uint64_t fp)
{
	if (fp & 7)
		return false;
	for (uint32_t i = 0; i < w->stacks; i++) {
		if (!gs_in_range(fp, FRAME_RECORD_SIZE, w->stack[i].start,
				 w->stack[i].end - w->stack[i].start))
			continue;
		if (i > w->on || (i == w->on && fp <= w->last_fp))
			return false;
		w->on = i;
		w->last_fp = fp;
		return true;
	}
	return false;
}

/* 6.19 and later: {0, 0} is followed by a word that says what the record stands for. */
static bool follow_meta(struct lnx_walk *w, uint64_t fp, uint64_t *next_out)
{
	const struct lnx_types *types = &w->v->k->types;
	uint64_t kind, pc, x29;

	if (lnx_read_u64(w->v, GVA(fp + FRAME_RECORD_SIZE), &kind))
		return stop(w, LNX_END_UNREADABLE, fp);
	if (kind == META_FINAL)
		return stop(w, LNX_END_COMPLETE, fp);
	if (kind != META_PT_REGS)
		return stop(w, LNX_END_BAD_RECORD, fp);

	uint64_t regs = fp - types->member[LNX_M_PT_REGS_STACKFRAME].offset;
	if (lnx_read_u64(w->v, GVA(regs + types->member[LNX_M_PT_REGS_PC].offset), &pc) ||
	    lnx_read_u64(w->v, GVA(regs + types->member[LNX_M_PT_REGS_REGS].offset + 29 * 8), &x29))
		return stop(w, LNX_END_UNREADABLE, fp);
	*next_out = x29;
	return push(w, pc, LNX_FRAME_INTERRUPTED);
}

/*
 * Whether the record at @p fp is the one inside of the pt_regs at the very top of the task's stack.
 */
static bool is_outermost(const struct lnx_walk *w, uint64_t fp)
{
	const struct lnx_types *types = &w->v->k->types;

	return w->top &&
	       fp == w->top - types->pt_regs_size + types->member[LNX_M_PT_REGS_STACKFRAME].offset;
}

/* One record; false when the walk is over. */
static bool step(struct lnx_walk *w, uint64_t *fp)
{
	const struct lnx_kernel *k = w->v->k;
	uint64_t record[2];

	if (!place_record(w, *fp))
		return stop(w, LNX_END_BAD_RECORD, *fp);
	if (lnx_read(w->v, GVA(*fp), record, sizeof(record)))
		return stop(w, LNX_END_UNREADABLE, *fp);

	uint64_t lr = lnx_strip(k, record[1]);
	if (k->types.has_frame_record_meta) {
		if (!record[0] && !record[1])
			return follow_meta(w, *fp, fp);
	} else if (is_outermost(w, *fp) || (!record[0] && !lr)) {
		/*
		 * a NULL return address may be signed (5.10's boot and idle chains): compare it
		 * stripped
		 */
		return stop(w, LNX_END_COMPLETE, *fp);
	}
	if (!lnx_is_text(w->v, lr))
		return stop(w, LNX_END_NOT_TEXT, lr);

	/* Up to 6.12 a pt_regs links into the chain as {interrupted x29, interrupted pc}. */
	enum lnx_frame_kind kind = LNX_FRAME_RETURN;
	if (w->entered && !k->types.has_frame_record_meta)
		kind = LNX_FRAME_INTERRUPTED;
	w->entered = kind == LNX_FRAME_RETURN && is_el1_entry(k, lr);
	if (!push(w, lr, kind))
		return false;
	*fp = record[0];
	/* chains of 5.10 end so behind ret_from_fork */
	if (!*fp)
		return stop(w, LNX_END_COMPLETE, 0);
	return true;
}

static void add_stack(struct lnx_walk *w, uint64_t start, uint64_t size)
{
	w->stack[w->stacks].start = start;
	w->stack[w->stacks++].end = start + size;
}

static void walk_init(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      struct lnx_stack *stack)
{
	/* not the frames' own room: it is large */
	*w = (struct lnx_walk){ .v = v, .out = stack, .ended = true };
	stack->count = 0;
	stack->end = LNX_END_COMPLETE;
	stack->end_at = 0;
	if (task && lnx_is_object(v->k, task->stack.a) && task->stack.a <= ~v->k->thread_size) {
		w->top = task->stack.a + v->k->thread_size;
		add_stack(w, task->stack.a, v->k->thread_size);
	}
}

static void walk_chain(struct lnx_walk *w, uint64_t fp)
{
	w->on = w->stacks;
	w->fp = fp;
	w->ended = false;
}

void lnx_walk_blocked(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      struct lnx_stack *stack)
{
	walk_init(w, v, task, stack);
	if (!w->stacks) {
		(void)stop(w, LNX_END_NO_STACK, 0);
		return;
	}
	/*
	 * cpu_context.pc is the return address of cpu_switch_to(); a new task's is ret_from_fork
	 * itself
	 */
	uint64_t pc = lnx_strip(v->k, task->context_pc);
	if (!lnx_is_text(v, pc)) {
		(void)stop(w, LNX_END_NOT_TEXT, pc);
		return;
	}
	if (push(w, pc, LNX_FRAME_RETURN))
		walk_chain(w, task->context_fp);
}

/* The CPU's own stacks, farther in than the task's; each is optional. */
static void add_cpu_stacks(struct lnx_walk *w, const struct guest_vcpu_regs *regs)
{
	const struct lnx_kernel *k = w->v->k;
	uint64_t irq;

	if (!(regs->valid & GUEST_REGS_TPIDR))
		return;
	if (k->irq_stack_ptr.a &&
	    !lnx_read_u64(w->v, GVA(k->irq_stack_ptr.a + regs->tpidr_el1), &irq) &&
	    lnx_is_object(k, irq) && irq <= ~k->thread_size)
		add_stack(w, irq, k->thread_size);
	if (k->overflow_stack.a) {
		uint64_t at = k->overflow_stack.a + regs->tpidr_el1;

		if (lnx_is_object(k, at) && at <= ~OVERFLOW_STACK)
			add_stack(w, at, OVERFLOW_STACK);
	}
}

static bool same_function(const struct lnx_kernel *k, uint64_t a, uint64_t b)
{
	uint32_t i = kallsyms_upper_bound(&k->ks, a);

	return i && i == kallsyms_upper_bound(&k->ks, b);
}

/*
 * Whether the link register holds a caller that the chain does not have yet: the function that runs
 * has set up no frame (a leaf), or not yet, or no longer. Exact on all instructions of a
 * single-stepped system call, but for a function stopped in the prologue of a direct recursion.
 */
static bool lr_is_a_frame(struct lnx_walk *w, uint64_t pc, uint64_t lr, uint64_t fp)
{
	uint64_t saved;

	if (!lnx_is_text(w->v, lr) || same_function(w->v->k, lr - 4, pc))
		return false;
	if (lnx_read_u64(w->v, GVA(fp + 8), &saved))
		return true;
	return lnx_strip(w->v->k, saved) != lr;
}

/*
 * In the first instructions after an exception, and in the last ones before the return from it, x29 is
 * still, or again, what the exception interrupted (entry.S, 5.10 to 7.3): of user mode there is no
 * kernel chain at all; of kernel mode ELR_EL1 has the interrupted function that the chain lacks.
 */
bool lnx_has_no_chain(struct lnx_view *v, const struct guest_vcpu_regs *regs)
{
	const struct lnx_kernel *k = v->k;
	const uint64_t fp = regs->x[29];
	bool entry = lnx_range_has(k->entry_text, regs->pc) || !lnx_range_has(k->text, regs->pc);

	/*
	 * The trampoline of KPTI runs at an alias outside of the image; on the way there its address is
	 * in x29 (tramp_alias in kernel_exit).
	 */
	return lnx_is_alias(v, regs->pc) ||
	       (entry && (!lnx_is_object(k, fp & ~UINT64_C(7)) || lnx_is_alias(v, fp)));
}

/* VBAR_EL1 + 0x200 … 0x3ff: taken from EL1 with its own stack pointer (DDI 0487J.a, D1.3.1). */
static bool is_el1_vector(const struct lnx_kernel *k, uint64_t pc)
{
	return k->vectors && gs_in_range(pc, 4, k->vectors + 0x200, 0x200);
}

void lnx_walk_running(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      const struct guest_vcpu_regs *regs, struct lnx_stack *stack)
{
	walk_init(w, v, task, stack);
	if (!guest_regs_have_frame(regs) || a64_pstate_el(regs->pstate) != 1)
		return;
	add_cpu_stacks(w, regs);

	if (!push(w, regs->pc, LNX_FRAME_PC) || lnx_has_no_chain(v, regs))
		return;
	if (is_el1_vector(v->k, regs->pc) && (regs->valid & GUEST_REGS_EXC) &&
	    lnx_is_text(v, regs->elr_el1) && !push(w, regs->elr_el1, LNX_FRAME_INTERRUPTED))
		return;
	uint64_t lr = lnx_strip(v->k, regs->x[30]);
	if (lr_is_a_frame(w, regs->pc, lr, regs->x[29]) && !push(w, lr, LNX_FRAME_LR))
		return;
	w->entered = is_el1_entry(v->k, regs->pc + 1);
	walk_chain(w, regs->x[29]);
}

/*
 * Records of one stack are read one after the other, since each says where the next one is. Those of
 * several stacks do not wait for each other. A frame record is pushed at most once, so no chain is
 * longer than what fits on the stacks.
 */
void lnx_walk_finish(struct lnx_walk *const *walks, uint32_t n)
{
	struct lnx_walk *active[LNX_WALKS_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (walks[i]->ended)
			continue;
		active[count++] = walks[i];
		lnx_prefetch_entry(walks[i]->v, GVA(walks[i]->fp));
	}
	for (uint32_t i = 0; i < count; i++)
		lnx_prefetch(active[i]->v, GVA(active[i]->fp), FRAME_RECORD_SIZE);
	while (count) {
		uint32_t left = 0;

		for (uint32_t i = 0; i < count; i++) {
			struct lnx_walk *w = active[i];

			w->ended = !step(w, &w->fp);
			if (w->ended)
				continue;
			lnx_prefetch(w->v, GVA(w->fp), FRAME_RECORD_SIZE);
			active[left++] = w;
		}
		count = left;
	}
}

void lnx_unwind_blocked(struct lnx_view *v, const struct lnx_task *task, struct lnx_stack *stack)
{
	struct lnx_walk w, *const walks[] = { &w };

	lnx_walk_blocked(&w, v, task, stack);
	lnx_walk_finish(walks, 1);
}

void lnx_unwind_running(struct lnx_view *v, const struct lnx_task *task,
			const struct guest_vcpu_regs *regs, struct lnx_stack *stack)
{
	struct lnx_walk w, *const walks[] = { &w };

	lnx_walk_running(&w, v, task, regs, stack);
	lnx_walk_finish(walks, 1);
}
