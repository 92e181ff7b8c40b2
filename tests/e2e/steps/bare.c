/* SPDX-License-Identifier: Apache-2.0 */
/* Where a function of assembly, of which no CFI tells, has its caller: by what its instructions do. */
#include "tests/e2e/steps/bare.h"

#include <stdbool.h>

/* Encodings: Arm Architecture Reference Manual (DDI 0487), C4.1. */

#define FP 29
#define LR 30
#define SP 31

#define PUSH_MASK UINT32_C(0xffc07fff) /* all but the size */
#define PUSH	  UINT32_C(0xa9807bfd) /* stp x29, x30, [sp, #…]! */
#define POP	  UINT32_C(0xa8c07bfd) /* ldp x29, x30, [sp], #… */
#define SET_FP	  UINT32_C(0x910003fd) /* mov x29, sp */
#define RET	  UINT32_C(0xd65f03c0)

enum { WRITES_FP = 1, WRITES_LR = 2, WRITES_SP = 4 };

static uint32_t bits(uint32_t word, unsigned int high, unsigned int low)
{
	return word >> low & ((UINT32_C(1) << (high - low + 1)) - 1);
}

/* What a register is as the destination; 31 is SP or, for most instructions, nothing. */
static int written(uint32_t reg, bool may_be_sp)
{
	return reg == FP		? WRITES_FP
	       : reg == LR		? WRITES_LR
	       : reg == SP && may_be_sp ? WRITES_SP
					: 0;
}

static int branch_writes(uint32_t word)
{
	const bool is_call = bits(word, 31, 26) == 0x25 ||				 /* bl */
			     bits(word, 31, 21) == 0x6b1 || bits(word, 31, 21) == 0x6b9; /* blr… */

	if (is_call)
		return WRITES_LR;
	/* mrs, sysl; of the hints, pacia… only sign x30 */
	return bits(word, 31, 22) == 0x354 && bits(word, 21, 21) ? written(bits(word, 4, 0), false)
								 : 0;
}

static int immediate_writes(uint32_t word)
{
	/* add, sub; those of tags */
	const bool is_add = bits(word, 28, 24) == 0x11 && !bits(word, 29, 29);
	const bool is_logical = bits(word, 28, 23) == 0x24 && bits(word, 30, 29) != 3;

	return written(bits(word, 4, 0), is_add || is_logical);
}

/* Stores do not write a register, but are not told from loads. */
static int load_writes(uint32_t word)
{
	const uint32_t class = bits(word, 29, 27);
	const bool is_pair = class == 5, is_vector = bits(word, 26, 26);
	const bool is_single = class == 7 && !bits(word, 24, 24) && !bits(word, 21, 21);
	const bool writes_base = (is_pair && bits(word, 23, 23)) ||
				 (is_single && bits(word, 10, 10)) ||
				 (class == 1 && is_vector && bits(word, 23, 23));
	/* exclusive and compare-and-swap, copies of memory: up to three registers */
	const bool is_other = class == 1 || (class == 3 && bits(word, 24, 24));
	int writes = writes_base || is_other ? written(bits(word, 9, 5), writes_base) : 0;

	if (is_vector)
		return writes;
	writes |= written(bits(word, 4, 0), false);
	if (is_pair || is_other)
		writes |= written(bits(word, 14, 10), false);
	return is_other ? writes | written(bits(word, 20, 16), false) : writes;
}

static int register_writes(uint32_t word)
{
	/* add and sub of an extended register, without flags */
	const bool is_extended = bits(word, 28, 21) == 0x59 && !bits(word, 29, 29);

	return written(bits(word, 4, 0), is_extended);
}

static int vector_writes(uint32_t word)
{
	const bool is_converted =
		bits(word, 30, 24) == 0x1e && bits(word, 21, 21) && !bits(word, 15, 10);
	const bool is_moved = bits(word, 29, 21) == 0x70 &&
			      (bits(word, 15, 10) == 0x0f || bits(word, 15, 10) == 0x0b);

	return is_converted || is_moved ? written(bits(word, 4, 0), false) : 0;
}

/* Which of the three an instruction may write; stores of them count as if they did. */
static int writes_of(uint32_t word)
{
	switch (bits(word, 28, 25)) {
	case 8:
	case 9: return immediate_writes(word);
	case 10:
	case 11: return branch_writes(word);
	case 4:
	case 6:
	case 12:
	case 14: return load_writes(word);
	case 5:
	case 13: return register_writes(word);
	case 7:
	case 15: return vector_writes(word);
	default: return WRITES_FP | WRITES_LR | WRITES_SP; /* not known */
	}
}

static bool is_leaf(const uint32_t *word, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (writes_of(word[i]))
			return false;
	return true;
}

/* One instruction in front of the place, in the order in which they lie there. */
static enum bare after(enum bare state, uint32_t word, bool *has_popped, uint32_t *size)
{
	const int writes = writes_of(word);

	if (state == BARE_LINK && (word & PUSH_MASK) == PUSH) {
		*size = 8 * (128 - bits(word, 21, 15));
		return BARE_PUSHED;
	}
	if (state == BARE_PUSHED && word == SET_FP)
		return BARE_RECORD;
	if (state == BARE_RECORD && (word & PUSH_MASK) == POP && 8 * bits(word, 21, 15) == *size) {
		*has_popped = true;
		return BARE_LINK;
	}
	if (state == BARE_LINK && *has_popped && word == RET)
		return BARE_RECORD;
	return !writes || (state == BARE_RECORD && !(writes & WRITES_FP)) ? state : BARE_UNKNOWN;
}

enum bare bare_state(const uint32_t *word, uint32_t count, uint32_t at, uint32_t *size_out)
{
	enum bare state = BARE_LINK;
	bool has_popped = false;
	uint32_t size = 0;

	*size_out = 0;
	if (is_leaf(word, count))
		return BARE_LINK;
	for (uint32_t i = 0; i < at && state != BARE_UNKNOWN; i++)
		state = after(state, word[i], &has_popped, &size);
	if (state == BARE_PUSHED || state == BARE_RECORD)
		*size_out = size;
	return state;
}
