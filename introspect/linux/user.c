/* SPDX-License-Identifier: Apache-2.0 */
/* Threads in user mode: their registers and stacks. */
#include "introspect/linux/user.h"

#include "base/clock.h"
#include "introspect/linux/kernel.h"

#define PAGE	     UINT64_C(4096) /* the smallest; larger ones are looked at in parts */
#define PSTATE_MODE  UINT64_C(0xf)  /* M[3:0]: 0 is EL0 (DDI 0487J.a, C5.2.19) */
#define PSTATE_32BIT UINT64_C(0x10) /* M[4] */
#define INSN_BTI_C   UINT32_C(0xd503245f)
#define IP0	     16 /* the register that the linker's stubs use (AAPCS64, 6.1.1) */
/* No function without a frame of its own is as long: they are leaves, such as memcpy(). */
#define LEAF_MAX 4096

const char *lnx_user_end_name(enum lnx_user_end end)
{
	switch (end) {
	case LNX_USER_COMPLETE: return "complete";
	case LNX_USER_NO_REGISTERS: return "its registers are not known";
	case LNX_USER_NEVER: return "it has never been in user mode";
	case LNX_USER_32BIT: return "32-bit state";
	case LNX_USER_NO_TABLES: return "its page tables were not found";
	case LNX_USER_NOT_PRESENT: return "frame record in a page that is not in memory";
	case LNX_USER_UNREADABLE: return "unreadable frame record";
	case LNX_USER_BAD_RECORD: return "bad frame pointer";
	case LNX_USER_BAD_RETURN: return "bad return address";
	case LNX_USER_TRUNCATED: return "too many frames";
	case LNX_USER_ENDS: break;
	}
	return "unknown";
}

bool lnx_knows_user_stacks(const struct lnx_kernel *k)
{
	return lnx_knows_page_tables(k);
}

/* --- address spaces --- */

void lnx_user_space_init(struct lnx_user_space *u, struct lnx_view *v, gva_t mm,
			 const struct guest_vcpu_regs *regs, uint32_t n)
{
	*u = (struct lnx_user_space){ .v = v, .mm = mm };
	u->rc = lnx_mm_half(v, mm, regs, n, &u->regime.half[0]);
}

static bool is_user(const struct lnx_user_space *u, uint64_t address)
{
	return address >> u->regime.half[0].va_bits == 0;
}

static uint64_t strip(const struct lnx_user_space *u, uint64_t address)
{
	return a64_strip(address, u->regime.half[0].va_bits);
}

/* Where in memory an address lies: most frame records are in the page of the one before. */
static enum a64_fault locate(struct lnx_user_space *u, uint64_t va, gpa_t *at_out)
{
	const uint64_t page = va & ~(PAGE - 1);
	struct a64_mapping m;

	if (u->page != (page | 1)) {
		enum a64_fault f = a64_translate(&u->regime, u->v->g, GVA(page), &m);

		if (f)
			return f;
		u->page = page | 1;
		u->page_at = m.pa;
	}
	*at_out = GPA(u->page_at.a + va % PAGE);
	return A64_OK;
}

enum a64_fault lnx_user_read(struct lnx_user_space *u, uint64_t va, void *buf, size_t len)
{
	const uint64_t start = u->v->is_timed ? gs_clock_ns() : 0;
	const size_t whole = len;

	while (len) {
		size_t n = (size_t)gs_min(len, PAGE - va % PAGE);
		gpa_t at;
		enum a64_fault f = locate(u, va, &at);

		if (!f && guest_read(u->v->g, at, buf, n))
			f = A64_NOT_RAM;
		if (f) {
			u->v->faults[f]++;
			if (u->v->is_timed)
				u->v->fault_ns += gs_clock_ns() - start;
			return f;
		}
		buf = (char *)buf + n;
		va += n;
		len -= n;
	}
	u->v->reads++;
	u->v->bytes += whole;
	return A64_OK;
}

/* --- registers --- */

struct registers {
	uint64_t fp, lr, pc, pstate; /* lr 0: not known */
};

/* What the kernel saved when the thread entered it. */
static bool read_saved(struct lnx_view *v, const struct lnx_task *task, struct registers *out)
{
	const struct lnx_kernel *k = v->k;
	const struct lnx_types *types = &k->types;
	uint64_t pair[2];

	if (!lnx_is_object(k, task->stack.a) || task->stack.a > ~k->thread_size)
		return false;
	const uint64_t regs = task->stack.a + k->thread_size - types->pt_regs_size;
	if (lnx_read(v, GVA(regs + types->member[LNX_M_PT_REGS_REGS].offset + 29 * 8), pair,
		     sizeof(pair)))
		return false;
	out->fp = pair[0];
	out->lr = pair[1];
	if (lnx_read(v, GVA(regs + types->member[LNX_M_PT_REGS_PC].offset), pair, sizeof(pair)))
		return false;
	out->pc = pair[0];
	out->pstate = pair[1];
	return true;
}

static bool find_registers(struct lnx_view *v, const struct lnx_task *task,
			   const struct guest_vcpu_regs *cpu, struct registers *out)
{
	if (!cpu)
		return read_saved(v, task, out);
	if (!guest_regs_have_frame(cpu))
		return false;
	if (a64_pstate_el(cpu->pstate) == 0) {
		*out = (struct registers){ cpu->x[29], cpu->x[30], cpu->pc, cpu->pstate };
		return true;
	}
	if (!lnx_has_no_chain(v, cpu))
		return read_saved(v, task, out);
	/* not saved yet, or restored already; x30 is used in between */
	*out = (struct registers){ cpu->x[29], 0, cpu->elr_el1, cpu->spsr_el1 };
	return cpu->valid & GUEST_REGS_EXC;
}

/* --- frames --- */

static void stop(struct lnx_user_stack *s, enum lnx_user_end end, uint64_t at)
{
	s->end = end;
	s->end_at = at;
}

static bool can_return_to(const struct lnx_user_space *u, uint64_t address)
{
	return address && (address & 3) == 0 && is_user(u, address);
}

/* bl, blr, blraa and their like (DDI 0487J.a, C4.1.65). */
static bool is_call(uint32_t word, uint64_t at, uint64_t *target_out)
{
	const struct a64_insn insn = a64_decode(word, at);

	*target_out = insn.imm;
	if (insn.kind == A64_INSN_CALL)
		return true;
	*target_out = 0;
	return (word & UINT32_C(0xfefff000)) == UINT32_C(0xd63f0000);
}

/* Whether a frame is made on the way from the start of a function: mov x29, sp or add x29, sp, #n. */
static bool makes_a_frame(struct lnx_user_space *u, uint64_t start, uint64_t pc)
{
	uint32_t word[16];

	for (uint64_t at = start; at < pc; at += sizeof(word)) {
		if (lnx_user_read(u, at, word, sizeof(word)))
			return false;
		for (uint64_t i = 0; i < ARRAY_SIZE(word) && at + 4 * i < pc; i++) {
			const struct a64_insn insn = a64_decode(word[i], at);

			if (insn.kind == A64_INSN_ADD_IMM && insn.rd == 29 && insn.rn == 31)
				return true;
		}
	}
	return false;
}

/*
 * Whether a call of a function has returned: what executes is not in it, or in a part of it that has a
 * frame. Unless what was called is one of the linker's stubs, which begin with adrp x16 and lead to
 * anywhere.
 */
static bool has_returned(struct lnx_user_space *u, uint64_t target, uint64_t pc)
{
	uint32_t word[2];

	if (pc >= target && pc - target < LEAF_MAX)
		return makes_a_frame(u, target, pc);
	if (!is_user(u, target) || lnx_user_read(u, target, word, sizeof(word)))
		return false;
	const struct a64_insn first = a64_decode(word[word[0] == INSN_BTI_C], target);
	return first.kind != A64_INSN_ADRP || first.rd != IP0;
}

/*
 * Whether the link register holds a caller that the chain does not have: of a function without a
 * frame, or whose frame is not there yet. In one that has called others it holds the place behind the
 * last call.
 */
static bool lr_is_a_frame(struct lnx_user_space *u, uint64_t pc, uint64_t lr, uint64_t fp)
{
	uint64_t target, saved;
	uint32_t word;

	if (!can_return_to(u, lr) || lr == pc || lnx_user_read(u, lr - 4, &word, sizeof(word)) ||
	    !is_call(word, lr - 4, &target))
		return false;
	if (target && has_returned(u, target, pc))
		return false;
	if ((fp & 7) || !fp || !is_user(u, fp) || lnx_user_read(u, fp + 8, &saved, sizeof(saved)))
		return true;
	return strip(u, saved) != lr;
}

static void walk_chain(struct lnx_user_space *u, uint64_t fp, struct lnx_user_stack *s)
{
	uint64_t record[2], last = 0;

	for (; fp; fp = strip(u, record[0])) {
		if ((fp & 7) || !is_user(u, fp) || fp <= last) {
			stop(s, LNX_USER_BAD_RECORD, fp);
			return;
		}
		enum a64_fault f = lnx_user_read(u, fp, record, sizeof(record));
		if (f) {
			stop(s, f == A64_NOT_MAPPED ? LNX_USER_NOT_PRESENT : LNX_USER_UNREADABLE,
			     fp);
			return;
		}
		last = fp;
		const uint64_t lr = strip(u, record[1]);
		if (!record[0] && !lr)
			break;
		if (!can_return_to(u, lr)) {
			stop(s, LNX_USER_BAD_RETURN, lr);
			return;
		}
		if (s->count == LNX_USER_FRAMES_MAX) {
			stop(s, LNX_USER_TRUNCATED, lr);
			return;
		}
		s->address[s->count++] = lr;
	}
	stop(s, LNX_USER_COMPLETE, 0);
}

void lnx_user_unwind(struct lnx_user_space *u, const struct lnx_task *task,
		     const struct guest_vcpu_regs *cpu, struct lnx_user_stack *s)
{
	struct registers r;

	s->count = 0;
	s->has_lr = false;
	if (!find_registers(u->v, task, cpu, &r)) {
		stop(s, LNX_USER_NO_REGISTERS, 0);
		return;
	}
	if (r.pstate & PSTATE_32BIT) {
		stop(s, LNX_USER_32BIT, 0);
		return;
	}
	if (r.pstate & PSTATE_MODE) {
		stop(s, LNX_USER_NEVER, 0);
		return;
	}
	s->address[s->count++] = r.pc;
	if (u->rc) {
		stop(s, LNX_USER_NO_TABLES, u->mm.a);
		return;
	}
	const uint64_t fp = strip(u, r.fp), lr = strip(u, r.lr);
	if (lr_is_a_frame(u, r.pc, lr, fp)) {
		s->has_lr = true;
		s->address[s->count++] = lr;
	}
	walk_chain(u, fp, s);
}
