/* SPDX-License-Identifier: Apache-2.0 */
/* Executing an instruction for the guest. Encodings: Arm ARM (DDI 0487) C4.1 and C6.2. */
#include "vmm/execute.h"

#include <stddef.h>

#include "base/util.h"

#define PSTATE_V     (UINT64_C(1) << 28)
#define PSTATE_C     (UINT64_C(1) << 29)
#define PSTATE_Z     (UINT64_C(1) << 30)
#define PSTATE_N     (UINT64_C(1) << 31)
#define PSTATE_BTYPE (UINT64_C(3) << 10)
#define ZERO	     31 /* register number of the zero register */

/* What an instruction does: at most one register besides the program counter. */
struct effect {
	uint32_t reg; /* ZERO: none */
	uint64_t value;
	uint64_t pc;
};

enum outcome {
	OK,
	UNKNOWN,
	FAILED,
};

static uint32_t bits(uint32_t insn, unsigned int low, unsigned int count)
{
	return insn >> low & ((1u << count) - 1);
}

static uint64_t extend(uint64_t value, unsigned int width)
{
	uint64_t sign = UINT64_C(1) << (width - 1);

	return (value ^ sign) - sign;
}

static bool get(const struct vmm_execute_cpu *cpu, uint32_t reg, uint64_t *value_out)
{
	*value_out = 0;
	return reg == ZERO || cpu->get(cpu->arg, reg, value_out);
}

/* --- data processing ------------------------------------------------------------------------ */

/* NOP, and the landing pads of branches: BTI, BTI c, BTI j, BTI jc. */
static bool is_nop(uint32_t insn)
{
	return insn == 0xd503201f || (insn & 0xffffff3f) == 0xd503241f;
}

/* MOV of a register: ORR of it and the zero register. */
static enum outcome move_register(const struct vmm_execute_cpu *cpu, uint32_t insn,
				  struct effect *e)
{
	if ((insn & 0x7fe0ffe0) != 0x2a0003e0)
		return UNKNOWN;
	if (!get(cpu, bits(insn, 16, 5), &e->value))
		return FAILED;
	if (!bits(insn, 31, 1))
		e->value = (uint32_t)e->value;
	e->reg = bits(insn, 0, 5);
	return OK;
}

/* MOVN, MOVZ, MOVK */
static enum outcome move_constant(const struct vmm_execute_cpu *cpu, uint32_t insn,
				  struct effect *e)
{
	uint32_t kind = bits(insn, 29, 2), shift = bits(insn, 21, 2) * 16;
	bool is_64 = bits(insn, 31, 1);
	uint64_t constant = (uint64_t)bits(insn, 5, 16) << shift, old = 0;

	if ((insn & 0x1f800000) != 0x12800000 || kind == 1 || (!is_64 && shift > 16))
		return UNKNOWN;
	e->reg = bits(insn, 0, 5);
	if (kind == 3 && !get(cpu, e->reg, &old))
		return FAILED;
	if (kind == 0)
		constant = ~constant;
	else if (kind == 3)
		constant |= old & ~(UINT64_C(0xffff) << shift);
	e->value = is_64 ? constant : (uint32_t)constant;
	return OK;
}

/* ADD and SUB of a constant, without flags: register 31 is SP in both places. */
static enum outcome add_constant(const struct vmm_execute_cpu *cpu, uint32_t insn, struct effect *e)
{
	uint64_t constant = (uint64_t)bits(insn, 10, 12) << (bits(insn, 22, 1) * 12), value;

	if ((insn & 0x3f800000) != 0x11000000)
		return UNKNOWN;
	if (!cpu->get(cpu->arg, bits(insn, 5, 5), &value))
		return FAILED;
	value = bits(insn, 30, 1) ? value - constant : value + constant;
	e->value = bits(insn, 31, 1) ? value : (uint32_t)value;
	e->reg = bits(insn, 0, 5);
	if (e->reg == ZERO && !cpu->set(cpu->arg, VMM_EXECUTE_SP, e->value))
		return FAILED;
	return OK;
}

/* ADR, ADRP */
static enum outcome address(uint32_t insn, uint64_t pc, struct effect *e)
{
	uint64_t distance = extend((uint64_t)bits(insn, 5, 19) << 2 | bits(insn, 29, 2), 21);

	if ((insn & 0x1f000000) != 0x10000000)
		return UNKNOWN;
	e->value = bits(insn, 31, 1) ? (pc & ~UINT64_C(0xfff)) + (distance << 12) : pc + distance;
	e->reg = bits(insn, 0, 5);
	return OK;
}

/* --- branches ------------------------------------------------------------------------------- */

/* B, BL */
static enum outcome branch(uint32_t insn, uint64_t pc, struct effect *e)
{
	if ((insn & 0x7c000000) != 0x14000000)
		return UNKNOWN;
	e->pc = pc + extend((uint64_t)bits(insn, 0, 26) << 2, 28);
	if (bits(insn, 31, 1)) {
		e->reg = 30;
		e->value = pc + 4;
	}
	return OK;
}

/* BR, BLR, RET; not those that authenticate */
static enum outcome branch_register(const struct vmm_execute_cpu *cpu, uint32_t insn, uint64_t pc,
				    struct effect *e)
{
	uint32_t kind = bits(insn, 21, 4);

	if ((insn & 0xfe1ffc1f) != 0xd61f0000 || kind > 2)
		return UNKNOWN;
	if (!get(cpu, bits(insn, 5, 5), &e->pc))
		return FAILED;
	if (kind == 1) {
		e->reg = 30;
		e->value = pc + 4;
	}
	return OK;
}

/* C1.2.4 */
static bool condition_holds(uint32_t condition, uint64_t pstate)
{
	bool n = pstate & PSTATE_N, z = pstate & PSTATE_Z, c = pstate & PSTATE_C,
	     v = pstate & PSTATE_V, holds;

	switch (condition >> 1) {
	case 0: holds = z; break;
	case 1: holds = c; break;
	case 2: holds = n; break;
	case 3: holds = v; break;
	case 4: holds = c && !z; break;
	case 5: holds = n == v; break;
	case 6: holds = n == v && !z; break;
	default: return true; // AL, and NV is the same
	}
	return holds != (condition & 1);
}

/* B.cond */
static enum outcome branch_condition(const struct vmm_execute_cpu *cpu, uint32_t insn, uint64_t pc,
				     struct effect *e)
{
	uint64_t pstate;

	if ((insn & 0xff000010) != 0x54000000)
		return UNKNOWN;
	if (!cpu->get(cpu->arg, VMM_EXECUTE_PSTATE, &pstate))
		return FAILED;
	if (condition_holds(bits(insn, 0, 4), pstate))
		e->pc = pc + extend((uint64_t)bits(insn, 5, 19) << 2, 21);
	return OK;
}

/* CBZ, CBNZ, TBZ, TBNZ */
static enum outcome branch_compare(const struct vmm_execute_cpu *cpu, uint32_t insn, uint64_t pc,
				   struct effect *e)
{
	bool is_test = (insn & 0x7e000000) == 0x36000000;
	uint64_t value;

	if (!is_test && (insn & 0x7e000000) != 0x34000000)
		return UNKNOWN;
	if (!get(cpu, bits(insn, 0, 5), &value))
		return FAILED;
	if (is_test)
		value &= UINT64_C(1) << (bits(insn, 31, 1) * 32 + bits(insn, 19, 5));
	else if (!bits(insn, 31, 1))
		value = (uint32_t)value;
	if ((value != 0) == bits(insn, 24, 1))
		e->pc = pc + (is_test ? extend((uint64_t)bits(insn, 5, 14) << 2, 16)
				      : extend((uint64_t)bits(insn, 5, 19) << 2, 21));
	return OK;
}

/* --- together ------------------------------------------------------------------------------- */

static enum outcome find_effect(const struct vmm_execute_cpu *cpu, uint32_t insn, uint64_t pc,
				struct effect *e)
{
	enum outcome o;

	if (is_nop(insn))
		return OK;
	if ((o = move_register(cpu, insn, e)) != UNKNOWN)
		return o;
	if ((o = move_constant(cpu, insn, e)) != UNKNOWN)
		return o;
	if ((o = add_constant(cpu, insn, e)) != UNKNOWN)
		return o;
	if ((o = address(insn, pc, e)) != UNKNOWN)
		return o;
	if ((o = branch(insn, pc, e)) != UNKNOWN)
		return o;
	if ((o = branch_register(cpu, insn, pc, e)) != UNKNOWN)
		return o;
	if ((o = branch_condition(cpu, insn, pc, e)) != UNKNOWN)
		return o;
	return branch_compare(cpu, insn, pc, e);
}

static bool clear_btype(const struct vmm_execute_cpu *cpu)
{
	uint64_t pstate;

	if (!cpu->get(cpu->arg, VMM_EXECUTE_PSTATE, &pstate))
		return false;
	return !(pstate & PSTATE_BTYPE) ||
	       cpu->set(cpu->arg, VMM_EXECUTE_PSTATE, pstate & ~PSTATE_BTYPE);
}

enum vmm_execute_result vmm_execute(const struct vmm_execute_cpu *cpu, uint32_t insn)
{
	struct effect e = { .reg = ZERO };
	uint64_t pc;

	if (!cpu->get(cpu->arg, VMM_EXECUTE_PC, &pc))
		return VMM_EXECUTE_FAILED;
	e.pc = pc + 4;
	switch (find_effect(cpu, insn, pc, &e)) {
	case OK: break;
	case UNKNOWN: return VMM_EXECUTE_UNKNOWN;
	case FAILED: return VMM_EXECUTE_FAILED;
	}
	if (e.reg != ZERO && !cpu->set(cpu->arg, e.reg, e.value))
		return VMM_EXECUTE_FAILED;
	if (!clear_btype(cpu) || !cpu->set(cpu->arg, VMM_EXECUTE_PC, e.pc))
		return VMM_EXECUTE_FAILED;
	return VMM_EXECUTE_DONE;
}

static bool get_nothing(void *arg, uint32_t reg, uint64_t *value_out)
{
	(void)arg;
	(void)reg;
	*value_out = 0;
	return true;
}

static bool set_nothing(void *arg, uint32_t reg, uint64_t value)
{
	(void)arg;
	(void)reg;
	(void)value;
	return true;
}

bool vmm_can_execute(uint32_t insn)
{
	const struct vmm_execute_cpu none = { .get = get_nothing, .set = set_nothing };

	return vmm_execute(&none, insn) == VMM_EXECUTE_DONE;
}

/* The hints that only change a register, or nothing: NOP, BTI, XPACLRI, PACIASP and the like. */
static bool is_harmless_hint(uint32_t insn)
{
	uint32_t hint = bits(insn, 5, 7);

	if ((insn & 0xfffff01f) != 0xd503201f)
		return false;
	return hint == 0 || hint == 7 || hint == 8 || hint == 10 || hint == 12 || hint == 14 ||
	       (hint >= 24 && hint <= 31) || hint == 32 || hint == 34 || hint == 36 || hint == 38;
}

bool vmm_can_step(uint32_t insn)
{
	// C4.1.65: exceptions, hints, barriers, system instructions and registers; ERET and DRPS
	bool is_system = (insn & 0xff000000) == 0xd4000000 || (insn & 0xff000000) == 0xd5000000;
	bool is_return = (insn & 0xfec00000) == 0xd6800000; // ERET (all kinds), DRPS
	// C4.1.66: load/store exclusive and ordered, compare-and-swap; the latter are lost with them
	bool is_exclusive = (insn & 0x3f000000) == 0x08000000;

	if (is_system)
		return is_harmless_hint(insn);
	return !is_return && !is_exclusive;
}
