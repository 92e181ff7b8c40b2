/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding of the instructions by which kernel code is understood: addresses, control flow, frames. */
#include "introspect/arm64/arm64.h"

/*
 * Patterns of C4.1 and C6.2 (the instructions by name). They exclude each other, so their order is
 * free. What has the same name in assembler but not the same pattern (add with a register, ldr of
 * 32 bits or with write-back) matches none.
 */
static const struct {
	uint32_t mask;
	uint32_t value;
	enum a64_insn_kind kind;
} patterns[] = {
	{ 0x9f000000, 0x90000000, A64_INSN_ADRP },
	{ 0x9f000000, 0x10000000, A64_INSN_ADR },
	{ 0xff800000, 0x91000000, A64_INSN_ADD_IMM }, /* bit 22: lsl #12 */
	{ 0xffc00000, 0xf9400000, A64_INSN_LDR_IMM },
	{ 0xfff00000, 0xd5300000, A64_INSN_MRS }, /* bit 20: op0 is 2 or 3 */
	{ 0xfff00000, 0xd5100000, A64_INSN_MSR },
	{ 0xfc000000, 0x14000000, A64_INSN_BRANCH },
	{ 0xfc000000, 0x94000000, A64_INSN_CALL },
	{ 0xfffffc1f, 0xd65f0000, A64_INSN_RET },
	{ 0xfffffbff, 0xd65f0bff, A64_INSN_RET }, /* retaa, retab */
	{ 0xfffffc1f, 0xd63f0000, A64_INSN_CALL_REG },
	{ 0xfffff81f, 0xd63f081f, A64_INSN_CALL_REG }, /* blraaz, blrabz */
	{ 0xfffff800, 0xd73f0800, A64_INSN_CALL_REG }, /* blraa, blrab */
	{ 0xfffffc1f, 0xd61f0000, A64_INSN_BRANCH_REG },
	{ 0xfffff81f, 0xd61f081f, A64_INSN_BRANCH_REG }, /* braaz, brabz */
	{ 0xfffff800, 0xd71f0800, A64_INSN_BRANCH_REG }, /* braa, brab */
	{ 0xff000000, 0x54000000, A64_INSN_BRANCH_IF },	 /* b.cond, bc.cond */
	{ 0x7e000000, 0x34000000, A64_INSN_BRANCH_IF },	 /* cbz, cbnz */
	{ 0x7e000000, 0x36000000, A64_INSN_BRANCH_IF },	 /* tbz, tbnz */
	{ 0xffffffff, 0xd69f03e0, A64_INSN_ERET },
	{ 0xfffffbff, 0xd69f0bff, A64_INSN_ERET }, /* eretaa, eretab */
	{ 0xfe400000, 0xa8000000, A64_INSN_STP },  /* all ways to form the address, stnp too */
	{ 0xfe400000, 0xa8400000, A64_INSN_LDP },
	{ 0xffe0ffe0, 0xaa0003e0, A64_INSN_MOV_REG },
	{ 0xffffffff, 0xd503201f, A64_INSN_NOP },
	{ 0xffffff3f, 0xd503233f, A64_INSN_PAC_LR }, /* paciasp, pacibsp, autiasp, autibsp */
	{ 0xffe0001f, 0xd4200000, A64_INSN_TRAP },   /* brk */
	{ 0xffff0000, 0x00000000, A64_INSN_TRAP },   /* udf */
};

static enum a64_insn_kind kind_of(uint32_t word)
{
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if ((word & patterns[i].mask) == patterns[i].value)
			return patterns[i].kind;
	return A64_INSN_OTHER;
}

// Sign-extend the low @bits of @x.
static uint64_t extend(uint64_t x, unsigned int bits)
{
	uint64_t sign = UINT64_C(1) << (bits - 1);

	return (x ^ sign) - sign;
}

// immhi:immlo of adr and adrp
static uint64_t adr_immediate(uint32_t word)
{
	return extend(BITS(word, 23, 5) << 2 | BITS(word, 30, 29), 21);
}

// b.cond, cbz and cbnz have 19 bits for it, tbz and tbnz 14
static uint64_t branch_if_target(uint32_t word, uint64_t pc)
{
	bool is_test = BITS(word, 30, 25) == 0x1b;
	uint64_t words = is_test ? extend(BITS(word, 18, 5), 14) : extend(BITS(word, 23, 5), 19);

	return pc + (words << 2);
}

static uint64_t branch_target(uint32_t word, uint64_t pc)
{
	return pc + (extend(BITS(word, 25, 0), 26) << 2);
}

struct a64_insn a64_decode(uint32_t word, uint64_t pc)
{
	struct a64_insn insn = { .kind = kind_of(word) };
	const uint8_t rd = (uint8_t)BITS(word, 4, 0), rn = (uint8_t)BITS(word, 9, 5);
	const uint64_t imm12 = BITS(word, 21, 10);

	switch (insn.kind) {
	case A64_INSN_OTHER:
	case A64_INSN_ERET:
	case A64_INSN_NOP:
	case A64_INSN_PAC_LR:
	case A64_INSN_TRAP: break;
	case A64_INSN_ADRP:
		insn.rd = rd;
		insn.imm = (pc & ~UINT64_C(0xfff)) + (adr_immediate(word) << 12);
		break;
	case A64_INSN_ADR:
		insn.rd = rd;
		insn.imm = pc + adr_immediate(word);
		break;
	case A64_INSN_ADD_IMM:
		insn.rd = rd;
		insn.rn = rn;
		insn.imm = BIT(word, 22) ? imm12 << 12 : imm12;
		break;
	case A64_INSN_LDR_IMM:
		insn.rd = rd;
		insn.rn = rn;
		insn.imm = imm12 * 8;
		break;
	case A64_INSN_MRS:
	case A64_INSN_MSR:
		insn.rd = rd;
		insn.imm = BITS(word, 20, 5);
		break;
	case A64_INSN_BRANCH:
	case A64_INSN_CALL: insn.imm = branch_target(word, pc); break;
	case A64_INSN_BRANCH_IF: insn.imm = branch_if_target(word, pc); break;
	case A64_INSN_BRANCH_REG:
	case A64_INSN_CALL_REG: insn.rn = rn; break;
	case A64_INSN_STP:
	case A64_INSN_LDP:
		insn.rd = rd;
		insn.rd2 = (uint8_t)BITS(word, 14, 10);
		insn.rn = rn;
		break;
	case A64_INSN_MOV_REG:
		insn.rd = rd;
		insn.rn = (uint8_t)BITS(word, 20, 16);
		break;
	case A64_INSN_RET:
		// bit 11: retaa or retab, which have no register field and go to x30
		insn.rn = BIT(word, 11) ? 30 : rn;
		break;
	}
	return insn;
}
