/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's code says of its own stack frames. */
#include "introspect/linux/code.h"

#include "introspect/linux/kernel.h"

/* Most instructions that are looked at, and places that are still to be looked at. */
#define SCAN_INSNS 1024
#define SCAN_WAYS  64
#define PUSH_BYTES 4096

#define FP 29
#define LR 30
#define SP 31

/* What the guest has where there is a breakpoint of ours. */
static uint32_t original(const struct lnx_view *v, uint64_t pc, uint32_t word)
{
	if (word == GUEST_BREAK_INSN)
		(void)guest_break_original(v->g, pc, &word);
	return word;
}

bool lnx_code_fetch(struct lnx_code_reader *c, uint64_t pc, uint32_t *word_out)
{
	const uint64_t at = pc & ~(uint64_t)(sizeof(c->word) - 1);

	if (pc & 3)
		return false;
	if (!c->is_read || c->at != at) {
		c->is_read = !lnx_read(c->v, GVA(at), c->word, sizeof(c->word));
		c->at = at;
	}
	*word_out = original(c->v, pc, c->word[(pc - at) / 4]);
	return c->is_read;
}

/* One instruction alone. */
static bool read_insn(struct lnx_view *v, uint64_t pc, uint32_t *word_out)
{
	if (pc & 3 || lnx_read_u32(v, GVA(pc), word_out))
		return false;
	*word_out = original(v, pc, *word_out);
	return true;
}

/* One way through the code after another; each place is gone to once. */
struct scan {
	struct lnx_code_reader code;
	uint64_t start;
	uint64_t way[SCAN_WAYS];
	uint32_t ways, next;
	uint32_t budget;
};

static void add_way(struct scan *s, uint64_t pc)
{
	for (uint32_t i = 0; i < s->ways; i++)
		if (s->way[i] == pc)
			return;
	if (s->ways < SCAN_WAYS)
		s->way[s->ways++] = pc;
}

static bool is_call_or_nop(struct scan *s, uint64_t pc)
{
	uint32_t word;

	if (!lnx_code_fetch(&s->code, pc, &word))
		return false;
	enum a64_insn_kind kind = a64_decode(word, pc).kind;
	return kind == A64_INSN_CALL || kind == A64_INSN_NOP;
}

static bool is_mov_x9_lr(const struct a64_insn *in)
{
	return in->kind == A64_INSN_MOV_REG && in->rd == 9 && in->rn == LR;
}

/* The call of a tracer, with the caller's return address in x9, comes before the function's record. */
static bool is_traced_entry(struct scan *s, uint64_t pc)
{
	uint32_t word;

	if (pc != s->start || !lnx_code_fetch(&s->code, pc - 4, &word))
		return false;
	struct a64_insn before = a64_decode(word, pc - 4);
	return is_mov_x9_lr(&before);
}

/*
 * What one instruction tells. Exception entry code saves and loads x29 beside x28, and others beside x30 or
 * what stands for it. The wrapper of the EFI firmware's calls has its record already where it pushes x18 and x29.
 */
static enum lnx_code_state told_by(struct scan *s, uint64_t pc, const struct a64_insn *in)
{
	const bool is_fp_pair =
		in->rn == SP && (in->rd == FP || (in->rd == FP - 1 && in->rd2 == FP));

	switch (in->kind) {
	case A64_INSN_STP: return is_fp_pair ? LNX_CODE_NO_RECORD : LNX_CODE_UNKNOWN;
	case A64_INSN_LDP: return is_fp_pair ? LNX_CODE_RECORD : LNX_CODE_UNKNOWN;
	case A64_INSN_ADD_IMM:
		return in->rd == FP && in->rn == SP ? LNX_CODE_NO_RECORD : LNX_CODE_UNKNOWN;
	case A64_INSN_MOV_REG:
		return is_mov_x9_lr(in) && is_call_or_nop(s, pc + 4) ? LNX_CODE_NO_RECORD
								     : LNX_CODE_UNKNOWN;
	case A64_INSN_RET: return in->rn == LR ? LNX_CODE_NO_RECORD : LNX_CODE_UNKNOWN;
	case A64_INSN_ERET:
	case A64_INSN_PAC_LR: return LNX_CODE_NO_RECORD;
	case A64_INSN_CALL: return is_traced_entry(s, pc) ? LNX_CODE_NO_RECORD : LNX_CODE_RECORD;
	case A64_INSN_CALL_REG: return LNX_CODE_RECORD;
	case A64_INSN_OTHER:
	case A64_INSN_ADRP:
	case A64_INSN_ADR:
	case A64_INSN_LDR_IMM:
	case A64_INSN_MRS:
	case A64_INSN_MSR:
	case A64_INSN_BRANCH:
	case A64_INSN_BRANCH_IF:
	case A64_INSN_BRANCH_REG:
	case A64_INSN_NOP:
	case A64_INSN_TRAP: break;
	}
	return LNX_CODE_UNKNOWN;
}

/* One way to its first sign; branches to elsewhere become further ways. */
static enum lnx_code_state follow(struct scan *s, uint64_t pc, enum a64_insn_kind *by_out)
{
	uint32_t word;

	for (; s->budget && lnx_code_fetch(&s->code, pc, &word); s->budget--, pc += 4) {
		struct a64_insn in = a64_decode(word, pc);
		enum lnx_code_state told = told_by(s, pc, &in);

		*by_out = in.kind;
		if (told)
			return told;
		if (in.kind == A64_INSN_BRANCH || in.kind == A64_INSN_BRANCH_IF)
			add_way(s, in.imm);
		if (in.kind == A64_INSN_BRANCH || in.kind == A64_INSN_BRANCH_REG ||
		    in.kind == A64_INSN_TRAP || in.kind == A64_INSN_RET)
			break;
	}
	return LNX_CODE_UNKNOWN;
}

enum lnx_code_state lnx_code_state(struct lnx_view *v, uint64_t pc, bool *call_out)
{
	struct scan s = { .code.v = v, .start = pc, .budget = SCAN_INSNS };
	enum lnx_code_state state = LNX_CODE_UNKNOWN;

	*call_out = true;
	add_way(&s, pc);
	while (s.next < s.ways && s.budget) {
		enum a64_insn_kind by;
		enum lnx_code_state told = follow(&s, s.way[s.next++], &by);

		if (!told)
			continue;
		if (state && told != state)
			return LNX_CODE_UNKNOWN;
		state = told;
		if (by != A64_INSN_CALL && by != A64_INSN_CALL_REG)
			*call_out = false;
	}
	return state;
}

enum lnx_call lnx_call_before(struct lnx_view *v, uint64_t address, uint64_t *target_out)
{
	uint32_t word;

	*target_out = 0;
	if (address & 3)
		return LNX_CALL_NONE;
	if (!read_insn(v, address - 4, &word))
		return LNX_CALL_UNREADABLE;
	struct a64_insn in = a64_decode(word, address - 4);
	if (in.kind == A64_INSN_CALL) {
		*target_out = in.imm;
		return LNX_CALL_DIRECT;
	}
	return in.kind == A64_INSN_CALL_REG ? LNX_CALL_INDIRECT : LNX_CALL_NONE;
}

static enum lnx_doubt doubt_of(struct lnx_view *v, uint64_t address)
{
	uint64_t target;

	/* Its memory is given away when the kernel has started; start_kernel() never returns. */
	if (lnx_range_has(v->k->init_text, address - 1))
		return LNX_CERTAIN;
	switch (lnx_call_before(v, address, &target)) {
	case LNX_CALL_UNREADABLE: return LNX_DOUBT_UNREADABLE;
	case LNX_CALL_NONE: return LNX_DOUBT_NO_CALL;
	case LNX_CALL_INDIRECT:
	case LNX_CALL_DIRECT: break;
	}
	return LNX_CERTAIN;
}

static size_t slot_of(uint64_t address)
{
	const unsigned int bits = (unsigned int)__builtin_ctz(LNX_CACHE_CALLS);

	return (address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
}

enum lnx_doubt lnx_call_doubt(struct lnx_view *v, uint64_t address)
{
	uint64_t *known = NULL;

	if (v->cache) {
		known = &v->cache->call[slot_of(address)];
		if (*known == address)
			return LNX_CERTAIN;
	}
	enum lnx_doubt doubt = doubt_of(v, address);
	if (known && !doubt)
		*known = address;
	return doubt;
}

bool lnx_code_may_push(struct lnx_view *v, uint64_t start, uint64_t pc)
{
	struct lnx_code_reader c = { .v = v };
	uint32_t word;

	if (pc < start || pc - start > PUSH_BYTES)
		return true;
	for (; start < pc; start += 4) {
		if (!lnx_code_fetch(&c, start, &word))
			return true;
		struct a64_insn in = a64_decode(word, start);

		if (in.kind == A64_INSN_STP && in.rn == SP && in.rd == FP && in.rd2 == LR)
			return true;
	}
	return false;
}

bool lnx_code_loads_lr(struct lnx_view *v, uint64_t pc, uint64_t *offset_out)
{
	uint32_t word;

	if (!read_insn(v, pc, &word))
		return false;
	struct a64_insn in = a64_decode(word, pc);
	*offset_out = in.imm;
	return in.kind == A64_INSN_LDR_IMM && in.rd == LR && in.rn == SP;
}
