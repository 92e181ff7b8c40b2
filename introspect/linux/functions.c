/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's functions, and where in them they return. */
#include "introspect/linux/functions.h"

#include <string.h>

#include "introspect/linux/code.h"
#include "introspect/linux/kernel.h"

/* Longest function: those of the crypto library, unrolled, have some 100 KiB. */
#define FUNCTION_INSNS_MAX 65536u

/* By AAPCS64 and with landing pads for branches, tail calls go through these. */
#define IP0 16
#define IP1 17

bool lnx_function_next(const struct lnx_kernel *k, uint64_t *after, struct lnx_symbol *function_out)
{
	uint64_t address = gs_max(*after, k->text.start);

	while (address < k->text.end) {
		if (lnx_nearest_symbol(k, address, function_out) || !function_out->size)
			return false;
		address = function_out->start + function_out->size;
		if (function_out->start < gs_max(*after, k->text.start) || !function_out->type ||
		    !strchr("tTwW", function_out->type) || function_out->name[0] == '$')
			continue;
		*after = address;
		return true;
	}
	return false;
}

enum gs_code lnx_code_place(struct lnx_view *v, gva_t address, gpa_t *place_out)
{
	if (!lnx_is_text(v, address.a))
		return GS_EFAULT;
	return lnx_translate(v, address, place_out);
}

/* --- returns ------------------------------------------------------------------------------ */

struct body {
	const struct lnx_text *part;
	uint32_t parts;
};

static bool is_inside(const struct body *b, uint64_t address)
{
	for (uint32_t i = 0; i < b->parts; i++)
		if (address - b->part[i].start < b->part[i].size)
			return true;
	return false;
}

/* Load of a literal: the address and size of what is data, though it lies in the text. C6.2 LDR (literal) */
static bool is_literal(uint32_t word, uint64_t pc, struct lnx_text *data_out)
{
	if ((word & 0x3b000000) != 0x18000000)
		return false;
	uint64_t distance = (uint64_t)(word >> 5 & 0x7ffff) << 2;
	if (distance & (UINT64_C(1) << 20))
		distance -= UINT64_C(1) << 21;
	// general registers have 4 or 8 bytes; those of vectors, also 16
	*data_out = (struct lnx_text){ pc + distance, word & 0x04000000 ? 16 : 8 };
	return true;
}

/* Whether the instruction leaves the function for good. */
static bool leaves(const struct body *b, const struct a64_insn *in)
{
	switch ((uint32_t)in->kind) {
	case A64_INSN_RET: return true;
	case A64_INSN_BRANCH: return !is_inside(b, in->imm);
	// others are jumps inside, through a table
	case A64_INSN_BRANCH_REG: return in->rn == IP0 || in->rn == IP1;
	default: return false;
	}
}

static void drop_data(struct lnx_returns *r, const struct lnx_text *data)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < r->count; i++)
		if (r->address[i] - data->start >= data->size)
			r->address[kept++] = r->address[i];
	r->count = kept;
}

static enum gs_code scan(struct lnx_view *v, const struct body *b, const struct lnx_text *part,
			 bool want_literals, struct lnx_returns *r)
{
	struct lnx_code_reader code = { .v = v };

	for (uint64_t pc = part->start; pc - part->start < part->size; pc += 4) {
		struct lnx_text data;
		uint32_t word;

		if (!lnx_code_fetch(&code, pc, &word))
			return GS_EFAULT;
		if (want_literals) {
			if (is_literal(word, pc, &data))
				drop_data(r, &data);
			continue;
		}
		struct a64_insn in = a64_decode(word, pc);
		if (!leaves(b, &in))
			continue;
		if (r->count == LNX_RETURNS_MAX)
			return GS_ETOOBIG;
		r->address[r->count++] = pc;
	}
	return GS_OK;
}

enum gs_code lnx_function_returns(struct lnx_view *v, const struct lnx_text *part, uint32_t parts,
				  struct lnx_returns *returns_out)
{
	const struct body b = { part, parts };
	uint64_t insns = 0;

	returns_out->count = 0;
	for (uint32_t i = 0; i < parts; i++) {
		if (part[i].start & 3 || part[i].size & 3)
			return GS_EMALFORMED;
		insns += gs_min(part[i].size / 4, FUNCTION_INSNS_MAX + 1);
	}
	if (insns > FUNCTION_INSNS_MAX)
		return GS_ETOOBIG;
	// what is data is known when all has been seen
	for (int want_literals = 0; want_literals < 2; want_literals++)
		for (uint32_t i = 0; i < parts; i++) {
			enum gs_code rc = scan(v, &b, &part[i], want_literals, returns_out);
			if (rc)
				return rc;
		}
	return GS_OK;
}
