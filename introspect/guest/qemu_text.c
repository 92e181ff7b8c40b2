/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU's human monitor prints, as numbers. */
#include "introspect/guest/qemu_text.h"

#include <inttypes.h>
#include <string.h>

/* --- pieces of text -----------------------------------------------------------------------------
 */

struct text {
	const char *at, *end;
};

static bool next_line(struct text *all, struct text *line_out)
{
	if (all->at == all->end)
		return false;
	const char *newline = memchr(all->at, '\n', (size_t)(all->end - all->at));
	*line_out = (struct text){ all->at, newline ? newline : all->end };
	all->at = newline ? newline + 1 : all->end;
	return true;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(struct text *t)
{
	while (t->at < t->end && is_blank(*t->at))
		t->at++;
}

/* Take @p word from the front. */
static bool take(struct text *t, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
		return false;
	t->at += n;
	return true;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/* Digits of @p base, at least one, at most 64 bits. */
static bool take_number(struct text *t, int base, uint64_t *value_out)
{
	const char *start = t->at;
	uint64_t value = 0;

	while (t->at < t->end && digit_value(*t->at) < base) {
		if (!gs_mul(value, (uint64_t)base, &value) ||
		    !gs_add(value, (uint64_t)digit_value(*t->at), &value))
			return false;
		t->at++;
	}
	*value_out = value;
	return t->at > start;
}

/* Go behind the first @p word of the text. */
static bool find(struct text *t, const char *word)
{
	const char *at = memmem(t->at, (size_t)(t->end - t->at), word, strlen(word));

	if (!at)
		return false;
	t->at = at + strlen(word);
	return true;
}

/* --- registers ----------------------------------------------------------------------------------
 */

enum {
	SEEN_PC = 31, /* below it: x0 … x30 */
	SEEN_SP,
	SEEN_PSTATE,
	SEEN_ALL = SEEN_PSTATE + 1,
};

/* One vCPU's section so far. */
struct section {
	struct guest_vcpu_regs *regs; /* NULL: not one of ours, or over */
	uint64_t sp;
	uint64_t seen; /* bit per register */
};

/* The place of a register and its bit; NULL: not a general one. */
static uint64_t *register_named(struct section *s, struct text name, unsigned int *bit_out)
{
	size_t n = (size_t)(name.end - name.at);
	uint64_t number;

	if (n == 2 && !memcmp(name.at, "PC", 2)) {
		*bit_out = SEEN_PC;
		return &s->regs->pc;
	}
	if (n == 2 && !memcmp(name.at, "SP", 2)) {
		*bit_out = SEEN_SP;
		return &s->sp;
	}
	if (n == 6 && !memcmp(name.at, "PSTATE", 6)) {
		*bit_out = SEEN_PSTATE;
		return &s->regs->pstate;
	}
	if (n < 2 || n > 3 || !take(&name, "X") || !take_number(&name, 10, &number) ||
	    name.at != name.end || number > 30)
		return NULL;
	*bit_out = (unsigned int)number;
	return &s->regs->x[number];
}

/* @return whether the section is complete now */
static bool section_end(struct section *s)
{
	/* PSTATE.M[0] selects the bank above EL0 (Arm ARM, C5.2: SPSel) */
	bool own_sp = BIT(s->regs->pstate, 0) && BITS(s->regs->pstate, 3, 2) != 0;
	bool aarch32 = BIT(s->regs->pstate, 4);

	s->regs->sp_el0 = own_sp ? 0 : s->sp;
	/* a kernel at EL2 (VHE) runs on SP_EL2 as others run on SP_EL1 */
	s->regs->sp_el1 = own_sp ? s->sp : 0;
	if (s->seen != (UINT64_C(1) << SEEN_ALL) - 1 || aarch32)
		return false;
	s->regs->valid = GUEST_REGS_GENERAL;
	return true;
}

/* The tokens NAME=HEX of a line. PSTATE is the last of them: vector registers follow. */
static bool section_line(struct section *s, struct text line)
{
	while (s->regs && line.at < line.end) {
		skip_blanks(&line);
		struct text name = { line.at, line.at };

		while (line.at < line.end && !is_blank(*line.at) && *line.at != '=')
			line.at++;
		name.end = line.at;
		if (!take(&line, "="))
			continue; /* a word */
		unsigned int bit;
		uint64_t value, *place = register_named(s, name, &bit);
		if (!place || !take_number(&line, 16, &value) || BIT(s->seen, bit))
			continue;
		*place = value;
		s->seen |= UINT64_C(1) << bit;
		if (bit == SEEN_PSTATE) {
			bool complete = section_end(s);
			s->regs = NULL;
			return complete;
		}
	}
	return false;
}

uint32_t guest_qemu_parse_registers(const char *text, size_t len, struct guest_vcpu_regs *regs,
				    uint32_t vcpus)
{
	struct text all = { text, text + len }, line;
	struct section s = { 0 };
	uint32_t complete = 0;

	for (uint32_t i = 0; i < vcpus; i++)
		regs[i] = (struct guest_vcpu_regs){ .state = GUEST_VCPU_UNKNOWN };
	while (next_line(&all, &line)) {
		skip_blanks(&line);
		if (take(&line, "CPU#")) {
			uint64_t number;
			bool ours = take_number(&line, 10, &number) && number < vcpus &&
				    !regs[number].valid;

			s = (struct section){ .regs = ours ? &regs[number] : NULL };
		} else if (section_line(&s, line)) {
			complete++;
		}
	}
	return complete;
}

/* --- memory map ---------------------------------------------------------------------------------
 */

/* "NAME", or "NAME @OFFSET" where a piece does not begin at the block's start, or "NAME KVM" */
static void parse_block(struct text line, struct guest_qemu_block *b)
{
	struct text offset = line;
	const char *end = line.end;

	*b = (struct guest_qemu_block){ 0 };
	if (find(&offset, " @")) {
		const char *digits = offset.at;
		if (take_number(&offset, 16, &b->offset))
			end = digits - 2;
	}
	while (end > line.at && is_blank(end[-1]))
		end--;
	if (end - line.at > 4 && !memcmp(end - 4, " KVM", 4)) /* mapped into the accelerator too */
		end -= 4;
	if ((size_t)(end - line.at) < sizeof(b->name))
		memcpy(b->name, line.at, (size_t)(end - line.at));
}

/* "  START-LAST (prio N, KIND): NAME…"; @return whether it is RAM */
static bool ram_line(struct text line, uint64_t *start_out, uint64_t *last_out,
		     struct guest_qemu_block *block_out)
{
	skip_blanks(&line);
	if (!take_number(&line, 16, start_out) || !take(&line, "-") ||
	    !take_number(&line, 16, last_out) || !take(&line, " (prio "))
		return false;
	/* the kind ends the first bracket: a block's name may hold anything */
	if (!find(&line, ", ") || !take(&line, "ram): "))
		return false;
	parse_block(line, block_out);
	return true;
}

static enum gs_code add_range(struct guest_range *ranges, uint32_t *count, uint64_t start,
			      uint64_t last, struct gs_error *err)
{
	if (last < start || last - start == UINT64_MAX)
		return gs_fail(err, GS_EMALFORMED,
			       "QEMU's memory map: %#" PRIx64 "-%#" PRIx64 " is no range", start,
			       last);
	if (*count) {
		const struct guest_range *before = &ranges[*count - 1];

		if (start < before->start.a || start - before->start.a < before->size)
			return gs_fail(err, GS_EMALFORMED,
				       "QEMU's memory map: RAM at %#" PRIx64
				       " overlaps or descends",
				       start);
	}
	ranges[(*count)++] = (struct guest_range){ GPA(start), last - start + 1, NULL };
	return GS_OK;
}

/* Whether this line ends a view: the next one begins. */
static bool is_view_start(struct text line)
{
	return take(&line, "FlatView #");
}

/* Go to the lines of the view that CPUs see. */
static bool find_system_view(struct text *all)
{
	struct text line;

	while (next_line(all, &line)) {
		skip_blanks(&line);
		if (take(&line, "AS \"memory\""))
			return true;
	}
	return false;
}

enum gs_code guest_qemu_parse_ram(const char *text, size_t len, struct guest_range *ranges_out,
				  struct guest_qemu_block *blocks_out, uint32_t max,
				  uint32_t *count_out, struct gs_error *err)
{
	struct text all = { text, text + len }, line;
	uint32_t count = 0;

	if (!find_system_view(&all))
		return gs_fail(err, GS_EMALFORMED, "QEMU's memory map has no view \"memory\"");
	while (next_line(&all, &line) && !is_view_start(line)) {
		struct guest_qemu_block block;
		uint64_t start, last;

		if (!ram_line(line, &start, &last, &block))
			continue;
		if (count == max)
			return gs_fail(err, GS_ETOOBIG,
				       "QEMU's memory map: over %" PRIu32 " pieces of RAM", max);
		blocks_out[count] = block;
		enum gs_code rc = add_range(ranges_out, &count, start, last, err);
		if (rc)
			return rc;
	}
	if (!count)
		return gs_fail(err, GS_EMALFORMED, "QEMU's memory map has no RAM");
	*count_out = count;
	return GS_OK;
}

bool guest_qemu_parse_hva(const char *text, size_t len, uint64_t *hva_out)
{
	struct text t = { text, text + len };

	/* the last one: the block's name in between may hold anything */
	if (!take(&t, "Host virtual address for ") || !find(&t, ") is 0x"))
		return false;
	struct text later = t;
	while (find(&later, ") is 0x"))
		t = later;
	return take_number(&t, 16, hva_out) && *hva_out != 0;
}

bool guest_qemu_parse_words(const char *text, size_t len, gpa_t at, void *buf, size_t size)
{
	struct text all = { text, text + len }, line;
	size_t done = 0;

	while (done < size && next_line(&all, &line)) {
		uint64_t address, word;

		skip_blanks(&line);
		if (!take_number(&line, 16, &address) || !take(&line, ":") ||
		    address != at.a + done)
			return false;
		for (skip_blanks(&line); line.at < line.end; skip_blanks(&line)) {
			if (size - done < sizeof(word) || !take(&line, "0x") ||
			    !take_number(&line, 16, &word))
				return false;
			memcpy((char *)buf + done, &word, sizeof(word));
			done += sizeof(word);
		}
	}
	return done == size;
}
