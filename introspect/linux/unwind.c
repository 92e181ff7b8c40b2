/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel stacks: frame records, exception frames, the change from the IRQ stack to the task's. */
#include <string.h>

#include "introspect/linux/code.h"
#include "introspect/linux/kernel.h"
#include "introspect/linux/traced.h"

/*
 * A frame record is {next frame pointer, return address} (AAPCS64). The kernel's own unwinder is
 * arch/arm64/kernel/stacktrace.c; how chains end and how exceptions show in them changed over the
 * versions, and is told apart by the presence of struct frame_record_meta (6.19 and later).
 */

#define FRAME_RECORD_SIZE 16
/*
 * What a stack may cost beside its records. Exceptions nest a few times; the function graph tracer follows
 * 50 calls of a task (FTRACE_RETFUNC_DEPTH). A guest that has made up more would be stopped for long.
 */
#define SCANS_MAX    16
#define LOOKUPS_MAX  64
#define META_FINAL   1 /* FRAME_META_TYPE_FINAL, …_PT_REGS (asm/stacktrace/frame.h, 6.19) */
#define META_PT_REGS 2

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

const char *lnx_doubt_name(enum lnx_doubt doubt)
{
	switch (doubt) {
	case LNX_CERTAIN: return "certain";
	case LNX_DOUBT_NO_CALL: return "no call is in front of it";
	case LNX_DOUBT_UNREADABLE: return "what is in front of it cannot be read";
	case LNX_DOUBT_LINK: return "the link register may or may not be a caller";
	case LNX_DOUBT_TRACED: return "a tracer has taken its place";
	case LNX_DOUBT_ENTRY: return "what an exception interrupted is not known";
	case LNX_DOUBT_FIRMWARE:
		return "code of the EFI firmware, in which its callers are not known";
	case LNX_DOUBTS: break;
	}
	return "unknown";
}

static bool stop(struct lnx_walk *w, enum lnx_unwind_end end, uint64_t at)
{
	struct lnx_stack *s = w->out;

	s->end = end;
	s->end_at = end == LNX_END_COMPLETE ? 0 : at;
	if (s->doubt && s->count && w->doubt && !s->doubt[s->count - 1])
		s->doubt[s->count - 1] = (uint8_t)w->doubt;
	return false;
}

static bool push(struct lnx_walk *w, uint64_t address, enum lnx_frame_kind kind)
{
	struct lnx_stack *s = w->out;

	if (s->count == LNX_FRAMES_MAX)
		return stop(w, LNX_END_TRUNCATED, address);
	s->address[s->count] = address;
	s->kind[s->count] = (uint8_t)kind;
	if (s->doubt) {
		if (!w->doubt && (kind == LNX_FRAME_RETURN || kind == LNX_FRAME_LR))
			w->doubt = lnx_call_doubt(w->v, address);
		s->doubt[s->count] = (uint8_t)w->doubt;
	}
	w->doubt = LNX_CERTAIN;
	s->count++;
	return true;
}

static bool is_el1_entry(const struct lnx_kernel *k, uint64_t address)
{
	for (uint32_t i = 0; i < k->el1_entries; i++)
		if (lnx_range_has(k->el1_entry[i], address - 1))
			return true;
	return false;
}

static void add_stack(struct lnx_walk *w, uint64_t start, uint64_t size)
{
	w->stack[w->stacks].start = start;
	w->stack[w->stacks++].end = start + size;
}

/* Its place among the stacks: behind that of the task, which calls the firmware, and before those of the CPU. */
static uint32_t efi_index(const struct lnx_walk *w)
{
	return w->top ? 1 : 0;
}

static bool is_on_efi_stack(const struct lnx_walk *w)
{
	return w->has_efi && w->on == efi_index(w);
}

/* Where the stack of the EFI firmware's calls is, if a record at @p at would be on it. */
static bool find_efi_stack(struct lnx_view *v, uint64_t at, uint64_t *start_out)
{
	const struct lnx_kernel *k = v->k;
	const gva_t variable = k->variable[LNX_V_EFI_STACK];
	uint64_t top;

	if (!variable.a || lnx_read_u64(v, variable, &top) || top < k->thread_size ||
	    !lnx_is_object(k, top - k->thread_size) ||
	    !gs_in_range(at, FRAME_RECORD_SIZE, top - k->thread_size, k->thread_size))
		return false;
	*start_out = top - k->thread_size;
	return true;
}

/*
 * There is one for all calls of the firmware, which are made one at a time. It is asked for only by what
 * leads to no other stack.
 */
static bool add_efi_stack(struct lnx_walk *w, uint64_t at)
{
	const uint32_t place = efi_index(w);
	uint64_t start;

	if (w->has_efi || w->stacks == LNX_STACKS_MAX || !find_efi_stack(w->v, at, &start))
		return false;
	for (uint32_t i = w->stacks; i > place; i--)
		w->stack[i] = w->stack[i - 1];
	w->stack[place].start = start;
	w->stack[place].end = start + w->v->k->thread_size;
	w->stacks++;
	w->on += w->on >= place;
	w->has_efi = true;
	return true;
}

/*
 * The firmware runs at addresses of the lower half, on a stack of its own. It has no symbols and need not keep
 * frame records; what it does with x29 is its own. But the wrapper that calls it leaves its own x29 at the
 * top of that stack until the firmware has returned (__efi_rt_asm_wrapper in
 * arch/arm64/kernel/efi-rt-wrapper.S, since 6.2).
 */
static bool is_firmware(uint64_t pc)
{
	return pc && !BIT(pc, 55);
}

/* SP may be at the very top, where no record would be. */
static uint64_t below_sp(const struct guest_vcpu_regs *regs)
{
	return regs->sp_el1 - FRAME_RECORD_SIZE;
}

/* The number of the stack that a record lies on; w->stacks: none. */
static uint32_t stack_of(const struct lnx_walk *w, uint64_t fp)
{
	uint32_t i = 0;

	while (i < w->stacks && !gs_in_range(fp, FRAME_RECORD_SIZE, w->stack[i].start,
					     w->stack[i].end - w->stack[i].start))
		i++;
	return i;
}

/*
 * Whether a record may lie at @p fp: aligned (8 since 5.11; 16 before, which implies it), wholly on
 * a known stack, and farther out than the last one.
 */
static bool place_record(struct lnx_walk *w, uint64_t fp)
{
	if (fp & 7)
		return false;
	uint32_t i = stack_of(w, fp);
	if (i == w->stacks && add_efi_stack(w, fp))
		i = stack_of(w, fp);
	if (i == w->stacks || i > w->on || (i == w->on && fp <= w->last_fp))
		return false;
	w->on = i;
	w->last_fp = fp;
	return true;
}

static bool same_function(const struct lnx_kernel *k, uint64_t a, uint64_t b)
{
	uint32_t i = kallsyms_upper_bound(&k->ks, a);

	return i && i == kallsyms_upper_bound(&k->ks, b);
}

static bool is_on_task_stack(const struct lnx_walk *w, uint64_t at)
{
	return w->top && gs_in_range(at, FRAME_RECORD_SIZE, w->top - w->v->k->thread_size,
				     w->v->k->thread_size);
}

/*
 * Whether a function that makes a call has a record by then. Of C all have; of assembly those that
 * push one. A part that the compiler has put elsewhere (f.cold) goes on with the record of its function.
 */
static bool has_record_at_calls(const struct lnx_kernel *k, struct lnx_view *v, uint64_t pc)
{
	uint32_t i = kallsyms_upper_bound(&k->ks, pc);
	char name[LNX_SYMBOL_MAX];

	/* of modules and BPF programs nothing is known, and they are of C */
	if (!i || !lnx_range_has(k->text, pc) || lnx_code_may_push(v, k->ks.address[i - 1], pc))
		return true;
	kallsyms_name(&k->ks, i - 1, NULL, name, sizeof(name));
	return strstr(name, ".cold") != NULL;
}

/* A return address; @fp is the x29 of the function that it leads to. */
static bool push_return(struct lnx_walk *w, uint64_t lr, uint64_t fp, enum lnx_frame_kind kind)
{
	const struct lnx_call_place at = { w->last_fp, fp };

	if (lnx_is_trampoline(w->v->k, lr) &&
	    (++w->lookups > LOOKUPS_MAX || !lnx_traced_return(w->v, w->task, lr, &at, &lr)))
		w->doubt = LNX_DOUBT_TRACED;
	w->entered = is_el1_entry(w->v->k, lr);
	return push(w, lr, kind);
}

/*
 * The rule for code that does not tell: the link register is a caller unless it points into the same
 * function, which has then made a call, or into the caller that the record has, too. It errs with
 * recursion, and where a link register is left over from some other part of a function; the call itself
 * tells what it calls, if that is not in a register.
 */
static bool push_by_rule(struct lnx_walk *w, uint64_t pc, uint64_t lr, uint64_t fp)
{
	const struct lnx_kernel *k = w->v->k;
	uint64_t saved = 0, target;
	const bool is_same = same_function(k, lr - 4, pc);
	const enum lnx_call call = lnx_call_before(w->v, lr, &target);
	const bool calls_here = call == LNX_CALL_DIRECT && same_function(k, target, pc);

	if (call == LNX_CALL_NONE && !lnx_is_trampoline(k, lr))
		return true;
	GS_IGNORE(lnx_read_u64(w->v, GVA(fp + 8), &saved));
	if (is_same) {
		/* of a call to another function, which has come back: no caller */
		if (calls_here || call != LNX_CALL_DIRECT)
			w->doubt = LNX_DOUBT_LINK;
		return true;
	}
	if (lr == lnx_strip(k, saved))
		return true;
	if (!calls_here)
		w->doubt = LNX_DOUBT_LINK;
	return push_return(w, lr, fp, LNX_FRAME_LR);
}

/*
 * The caller of the function that stopped at @p pc, if the record at @p fp is not yet, or no longer, the
 * function's own: a leaf, a prologue, an epilogue. Then only the link register has it.
 */
static bool push_caller(struct lnx_walk *w, uint64_t pc, uint64_t link, uint64_t fp)
{
	const struct lnx_kernel *k = w->v->k;
	const uint64_t lr = lnx_strip(k, link);
	bool only_call;
	enum lnx_code_state state;

	if (lnx_range_has(k->ret_from_fork, pc))
		return true; /* nothing has called it */
	if (++w->scans > SCANS_MAX) {
		w->doubt = LNX_DOUBT_LINK;
		return true;
	}
	state = lnx_code_state(w->v, pc, &only_call);
	if (lnx_range_has(k->entry_text, pc)) {
		/* an exception in exception code: what that one interrupted was in the registers */
		if (state != LNX_CODE_RECORD)
			w->doubt = LNX_DOUBT_ENTRY;
		return true;
	}
	if (state == LNX_CODE_RECORD && only_call && !has_record_at_calls(k, w->v, pc))
		state = LNX_CODE_UNKNOWN;
	if (state == LNX_CODE_RECORD)
		return true;
	if (!lnx_is_text(w->v, lr)) {
		if (state == LNX_CODE_NO_RECORD)
			w->doubt = LNX_DOUBT_LINK;
		return true;
	}
	if (state == LNX_CODE_NO_RECORD)
		return push_return(w, lr, fp, LNX_FRAME_LR);
	return push_by_rule(w, pc, lr, fp);
}

/* What the pt_regs of an exception has of the one that was interrupted. */
struct interrupted {
	uint64_t pc, fp, lr;
};

static bool read_pt_regs(struct lnx_walk *w, uint64_t record, struct interrupted *out)
{
	const struct lnx_types *types = &w->v->k->types;
	const uint64_t regs = record - types->member[LNX_M_PT_REGS_STACKFRAME].offset;
	const uint64_t x = regs + types->member[LNX_M_PT_REGS_REGS].offset;
	uint64_t pair[2];

	if (lnx_read_u64(w->v, GVA(regs + types->member[LNX_M_PT_REGS_PC].offset), &out->pc) ||
	    lnx_read(w->v, GVA(x + 29 * 8), pair, sizeof(pair)))
		return false;
	out->fp = pair[0];
	out->lr = pair[1];
	return true;
}

static bool push_interrupted(struct lnx_walk *w, const struct interrupted *i)
{
	w->entered = is_el1_entry(w->v->k, i->pc + 1);
	return push(w, i->pc, LNX_FRAME_INTERRUPTED) && push_caller(w, i->pc, i->lr, i->fp);
}

/* A pc in the firmware, and the wrapper; @p fp is x29 there, and then that of the wrapper. */
static bool push_firmware(struct lnx_walk *w, uint64_t pc, enum lnx_frame_kind kind, uint64_t *fp)
{
	const uint64_t top = w->stack[efi_index(w)].end;
	uint64_t saved;

	w->entered = false;
	w->doubt = LNX_DOUBT_FIRMWARE;
	if (!push(w, pc, kind))
		return false;
	if (lnx_read_u64(w->v, GVA(top - 8), &saved) || !is_on_task_stack(w, saved))
		return true;
	*fp = saved;
	return !w->v->k->efi_return || push(w, w->v->k->efi_return, LNX_FRAME_RETURN);
}

/*
 * A frame that is in no text of the kernel: of the firmware, if it is on that one's stack. Records on it
 * are followed where the wrapper has left nothing (5.10).
 */
static bool follow_firmware(struct lnx_walk *w, const uint64_t record[2], uint64_t *fp)
{
	if (!is_on_efi_stack(w) || !is_firmware(record[1]))
		return stop(w, LNX_END_NOT_TEXT, lnx_strip(w->v->k, record[1]));
	*fp = record[0];
	if (w->entered && !w->v->k->types.has_frame_record_meta)
		return push_firmware(w, record[1], LNX_FRAME_INTERRUPTED, fp);
	w->doubt = LNX_DOUBT_FIRMWARE;
	return push(w, record[1], LNX_FRAME_RETURN);
}

/*
 * After a fault in the firmware the kernel goes on in __efi_rt_asm_recover, with the wrapper's x29 in x30 until
 * both are loaded from the record there (efi_runtime_fixup_exception(), since 6.2).
 */
static uint64_t chain_of(struct lnx_walk *w, uint64_t pc, uint64_t fp, uint64_t lr)
{
	bool only_call;

	return lnx_range_has(w->v->k->efi_recover, pc) &&
			       lnx_code_state(w->v, pc, &only_call) == LNX_CODE_RECORD
		       ? lr
		       : fp;
}

/* 6.19 and later: {0, 0} is followed by a word that says what the record stands for. */
static bool follow_meta(struct lnx_walk *w, uint64_t fp, uint64_t *next_out)
{
	struct interrupted i;
	uint64_t kind;

	if (lnx_read_u64(w->v, GVA(fp + FRAME_RECORD_SIZE), &kind))
		return stop(w, LNX_END_UNREADABLE, fp);
	if (kind == META_FINAL)
		return stop(w, LNX_END_COMPLETE, fp);
	if (kind != META_PT_REGS)
		return stop(w, LNX_END_BAD_RECORD, fp);
	if (!read_pt_regs(w, fp, &i))
		return stop(w, LNX_END_UNREADABLE, fp);
	if (w->elr)
		i.pc = w->elr;
	w->elr = 0;
	*next_out = chain_of(w, i.pc, i.fp, i.lr);
	if (is_on_efi_stack(w) && is_firmware(i.pc))
		return push_firmware(w, i.pc, LNX_FRAME_INTERRUPTED, next_out);
	return push_interrupted(w, &i);
}

/*
 * Up to 6.12 a pt_regs links into the chain as {interrupted x29, interrupted pc}. Its own pc is stored
 * after x29 and x30, and changed when a fault is fixed up. If the rest of it is not as it should be, the
 * record is all that is taken.
 */
static bool follow_linked(struct lnx_walk *w, uint64_t fp, const uint64_t record[2])
{
	struct interrupted i;

	const bool is_whole = read_pt_regs(w, fp, &i) && i.fp == record[0];
	i.pc = lnx_strip(w->v->k, record[1]);
	if (is_whole)
		return push_interrupted(w, &i);
	w->entered = false;
	if (!push(w, i.pc, LNX_FRAME_INTERRUPTED))
		return false;
	w->doubt = LNX_DOUBT_ENTRY;
	return true;
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
		return follow_firmware(w, record, fp);

	if (w->entered && !k->types.has_frame_record_meta) {
		if (!follow_linked(w, *fp, record))
			return false;
	} else if (!push_return(w, lr, record[0], LNX_FRAME_RETURN)) {
		return false;
	}
	*fp = record[0];
	/* chains of 5.10 end so behind ret_from_fork */
	if (!*fp)
		return stop(w, LNX_END_COMPLETE, 0);
	return true;
}

static void walk_init(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      struct lnx_stack *stack)
{
	/* not the frames' own room: it is large */
	*w = (struct lnx_walk){ .v = v, .out = stack, .ended = true };
	w->task = task ? task->address : GVA(0);
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
	const struct lnx_kernel *k = w->v->k;
	const uint64_t at = w->out->address[w->out->count - 1];

	/* 5.10 begins a task with an x29 of 0, which stays so on the way to its function or to user mode */
	if (!fp && (lnx_range_has(k->ret_from_fork, at) || lnx_range_has(k->entry_text, at))) {
		(void)stop(w, LNX_END_COMPLETE, 0);
		return;
	}
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

/* One that a per-CPU pointer leads to. */
static void add_cpu_stack(struct lnx_walk *w, enum lnx_cpu_stack which, uint64_t tpidr)
{
	const struct lnx_kernel *k = w->v->k;
	uint64_t at;

	if (k->stack_ptr[which].a && !lnx_read_u64(w->v, GVA(k->stack_ptr[which].a + tpidr), &at) &&
	    lnx_is_object(k, at) && at <= ~k->thread_size)
		add_stack(w, at, k->thread_size);
}

/*
 * The CPU's own stacks, farther in than the task's; each is optional. An interrupt comes on top of a
 * task, an overflow on top of either, and an event of the firmware (SDEI) on top of all; a critical one
 * interrupts a normal one (arch/arm64/kernel/stacktrace.c, sdei.c).
 */
static void add_cpu_stacks(struct lnx_walk *w, const struct guest_vcpu_regs *regs)
{
	const struct lnx_kernel *k = w->v->k;

	if (!(regs->valid & GUEST_REGS_TPIDR))
		return;
	add_cpu_stack(w, LNX_STACK_IRQ, regs->tpidr_el1);
	if (k->overflow_stack.a) {
		uint64_t at = k->overflow_stack.a + regs->tpidr_el1;

		if (lnx_is_object(k, at) && at <= ~LNX_OVERFLOW_STACK)
			add_stack(w, at, LNX_OVERFLOW_STACK);
	}
	add_cpu_stack(w, LNX_STACK_SDEI_NORMAL, regs->tpidr_el1);
	add_cpu_stack(w, LNX_STACK_SDEI_CRITICAL, regs->tpidr_el1);
}

/*
 * A vCPU in the entry code (entry.S, 5.10 to 7.3). Between saving the registers into pt_regs and loading
 * them again x29 leads to the record in there. Before and after it x29 and x30 are what the exception
 * interrupted, and only ELR_EL1 says where that was; of user mode there is no chain at all.
 *
 * @return whether there is a chain
 */
static bool begin_in_entry(struct lnx_walk *w, const struct guest_vcpu_regs *regs)
{
	const bool knows = regs->valid & GUEST_REGS_EXC;
	const bool of_user = knows && a64_pstate_el(regs->spsr_el1) == 0;
	bool only_call;
	const enum lnx_code_state state = lnx_code_state(w->v, regs->pc, &only_call);
	struct interrupted i = { regs->elr_el1, regs->x[29], regs->x[30] };
	uint64_t offset;

	/* on the way to KPTI's trampoline its address is in x29 (tramp_alias in kernel_exit) */
	if (lnx_is_alias(w->v, i.fp))
		return stop(w, LNX_END_COMPLETE, 0);
	if (state == LNX_CODE_RECORD) {
		/* before the handler is called; x29 is set before pt_regs has its pc */
		if (only_call && knows && !of_user)
			w->elr = i.pc;
		return true;
	}
	if (of_user)
		return stop(w, LNX_END_COMPLETE, 0);
	if (state == LNX_CODE_NO_RECORD && knows && lnx_is_text(w->v, i.pc)) {
		/* x30 is loaded last */
		if (lnx_code_loads_lr(w->v, regs->pc, &offset))
			GS_IGNORE(lnx_read_u64(w->v, GVA(regs->sp_el1 + offset), &i.lr));
		return push_interrupted(w, &i);
	}
	w->doubt = LNX_DOUBT_ENTRY;
	w->entered = state == LNX_CODE_UNKNOWN && w->entered;
	return is_on_task_stack(w, i.fp) || stop(w, LNX_END_COMPLETE, 0);
}

/*
 * Whether the registers of a vCPU in the kernel are those of user mode: not saved yet, or loaded again
 * (entry.S, 5.10 to 7.3).
 */
bool lnx_has_no_chain(struct lnx_view *v, const struct guest_vcpu_regs *regs)
{
	const struct lnx_kernel *k = v->k;
	const uint64_t fp = regs->x[29];
	bool entry = lnx_range_has(k->entry_text, regs->pc) || !lnx_range_has(k->text, regs->pc);
	uint64_t stack;

	if (is_firmware(regs->pc) && find_efi_stack(v, below_sp(regs), &stack))
		return false;

	/* KPTI's trampoline runs at an alias outside of the image, and on the way there x29 has its address */
	return lnx_is_alias(v, regs->pc) ||
	       (entry && (!lnx_is_object(k, fp & ~UINT64_C(7)) || lnx_is_alias(v, fp)));
}

/*
 * cpu_switch_to() saves the registers of the one task and then loads those of the other, x29 before SP
 * and x30. As long as the CPU is said to execute the first one, that one's chain is what it has saved.
 */
static void begin_in_switch(struct lnx_walk *w, const struct lnx_task *task, uint64_t *lr,
			    uint64_t *fp)
{
	if (!task || is_on_task_stack(w, *fp))
		return;
	*fp = task->context_fp;
	*lr = task->context_pc;
}

void lnx_walk_running(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      const struct guest_vcpu_regs *regs, struct lnx_stack *stack)
{
	const struct lnx_kernel *k = v->k;
	uint64_t fp = regs->x[29], lr = regs->x[30];

	walk_init(w, v, task, stack);
	if (!guest_regs_have_frame(regs) || a64_pstate_el(regs->pstate) != 1)
		return;
	add_cpu_stacks(w, regs);

	if (is_firmware(regs->pc) && add_efi_stack(w, below_sp(regs))) {
		if (push_firmware(w, regs->pc, LNX_FRAME_PC, &fp))
			walk_chain(w, fp);
		return;
	}
	if (!push(w, regs->pc, LNX_FRAME_PC))
		return;
	w->entered = is_el1_entry(k, regs->pc + 1);
	if (lnx_range_has(k->entry_text, regs->pc)) {
		if (!begin_in_entry(w, regs))
			return;
	} else if (lnx_has_no_chain(v, regs)) {
		return;
	} else {
		if (lnx_range_has(k->switch_to, regs->pc))
			begin_in_switch(w, task, &lr, &fp);
		fp = chain_of(w, regs->pc, fp, lr);
		if (!push_caller(w, regs->pc, lr, fp))
			return;
	}
	walk_chain(w, fp);
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
