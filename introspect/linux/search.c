/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for symbol tables in a guest's memory, the likeliest places first. */
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/finder.h"

/* An index may begin in one chunk and end in the next; the token table lies before it. */
#define SCAN_OVERLAP UINT64_C(8192)

/*
 * Sampling: the offsets of a kernel's symbols, one ascending word for each, are the only long run of
 * that form in memory. Debian's smallest kernel has 39,962 symbols in 156 KiB; a kernel with fewer
 * than 16,384 falls through to the scan.
 */
#define SAMPLE_EVERY (UINT64_C(64) << 10)
#define SAMPLE_WORDS 64
/* Between two symbols: at most a large table or a section's padding. */
#define SAMPLE_STEP_MAX (INT32_C(4) << 20)
/* Of 64 symbols so many have an address of their own; zeros and counters in steps of 1 have not. */
#define SAMPLE_DISTINCT_MIN 24
/* Places that look like one and are scanned closely. */
#define SAMPLES_MAX 64

/* Where an image may begin: boot loaders use 2 MiB, the EFI stub 64 KiB (Documentation/arch/arm64/booting.rst) */
#define IMAGE_EVERY (UINT64_C(64) << 10)

/* --- memory --- */

/* Copy [start, start + size); what is not RAM, or was never written, reads as zero. */
void lnx_read_sparse(struct guest *g, gpa_t start, uint8_t *buf, size_t size)
{
	gpa_t at = start, end = GPA(start.a + size);

	memset(buf, 0, size);
	while (at.a < end.a) {
		const struct guest_range *r = guest_range_find(g, at);

		if (!r) {
			at.a = gs_align_up(at.a + 1, 4096);
			continue;
		}
		gpa_t stop = GPA(gs_min(end.a, r->start.a + r->size)), from = at, to = stop;
		if (g->ops->next_data && !g->ops->next_data(g->priv, at, stop, &from, &to)) {
			at = stop;
			continue;
		}
		if (from.a < at.a || to.a > stop.a || to.a <= from.a ||
		    guest_read(g, from, buf + (from.a - start.a), (size_t)(to.a - from.a)))
			return; /* a source that contradicts itself: the rest stays zero */
		at = to;
	}
}

/* Look at the tables at @p at, unless that was done before. */
static enum lnx_verdict try_once(struct lnx_finder *f, gpa_t at)
{
	for (uint32_t i = 0; i < f->tables; i++)
		if (f->seen[i] == at.a)
			return LNX_GO_ON;
	return lnx_try_tables(f, at);
}

/* Look for tables in [start, end). */
static enum lnx_verdict scan(struct lnx_finder *f, uint64_t start, uint64_t end)
{
	uint8_t *chunk = malloc(LNX_SCAN_CHUNK + SCAN_OVERLAP);
	enum lnx_verdict v = LNX_GO_ON;

	if (!chunk)
		return lnx_give_up(f, GS_ENOSPC, "out of memory for the search");
	for (uint64_t at = start; at < end && v == LNX_GO_ON; at += LNX_SCAN_CHUNK) {
		uint64_t lead = gs_min(SCAN_OVERLAP, at - start);
		size_t size = (size_t)(gs_min(LNX_SCAN_CHUNK, end - at) + lead);
		gpa_t data, data_end;

		if (f->g->ops->next_data &&
		    !f->g->ops->next_data(f->g->priv, GPA(at - lead), GPA(at - lead + size), &data,
					  &data_end))
			continue; /* never written: no need to look at zeros */
		lnx_read_sparse(f->g, GPA(at - lead), chunk, size);
		size_t hit = 0;
		while (v == LNX_GO_ON && (hit = kallsyms_next_candidate(chunk, size, hit)) < size) {
			if (kallsyms_has_tokens(chunk, size, hit))
				v = try_once(f, GPA(at - lead + hit));
			hit += 2;
		}
	}
	free(chunk);
	return v;
}

/* ... in what of [at - before, at + after) may be RAM; the tables may lie in several ranges of it. */
static enum lnx_verdict scan_around(struct lnx_finder *f, gpa_t at, uint64_t before, uint64_t after)
{
	const struct guest_range *first = f->g->ranges, *last = first + f->g->range_count - 1;

	if (!guest_range_find(f->g, at))
		return LNX_GO_ON;
	return scan(f, at.a - gs_min(at.a - first->start.a, before),
		    at.a + gs_min(last->start.a + last->size - at.a, after));
}

/* --- by registers --- */

/*
 * Around where a vCPU's vectors are: they belong to the image even where VBAR is the trampoline's
 * alias.
 */
static enum lnx_verdict by_registers(struct lnx_finder *f)
{
	gpa_t done = { UINT64_MAX };

	for (uint32_t i = 0; i < f->vcpus; i++) {
		struct a64_regime r;
		struct a64_mapping m;

		if (!(f->regs[i].valid & GUEST_REGS_VBAR) || !lnx_regime_of(f, i, 0, &r) ||
		    a64_translate(&r, f->g, GVA(f->regs[i].vbar_el1), &m))
			continue;
		/* hundreds of vCPUs have the same vectors, or the same few */
		if (m.pa.a >= done.a && m.pa.a - done.a < LNX_SCAN_CHUNK)
			continue;
		enum lnx_verdict v = scan_around(f, m.pa, 0, LNX_IMAGE_REACH);
		if (v == LNX_DONE)
			return v;
		done = m.pa;
	}
	return LNX_GO_ON;
}

/* --- by VMCOREINFO --- */

static enum lnx_verdict by_vmcoreinfo(struct lnx_finder *f)
{
	uint64_t text, voffset;

	if (!lnx_vmcoreinfo_number(f->hints, "SYMBOL(_stext)", &text) ||
	    !lnx_vmcoreinfo_number(f->hints, "NUMBER(kimage_voffset)", &voffset))
		return LNX_GO_ON;
	return scan_around(f, GPA(text - voffset), 0, LNX_IMAGE_REACH);
}

/* --- by sampling --- */

/*
 * Whether words ascend as the offsets of symbols do: from a base, or from the place of each (then a
 * step of 0 shows as -4).
 */
static bool words_ascend(const uint32_t *word)
{
	uint32_t distinct = 0;

	for (size_t i = 1; i < SAMPLE_WORDS; i++) {
		int64_t step = (int64_t)(int32_t)word[i] - (int32_t)word[i - 1];

		if (step < -4 || step > SAMPLE_STEP_MAX)
			return false;
		/* code is aligned to 4 and hardly a function is shorter than 8 */
		distinct += step >= 8;
	}
	return distinct >= SAMPLE_DISTINCT_MIN;
}

/* The next place at or after @p at that has ever been written, a multiple of SAMPLE_EVERY if it can. */
static bool next_sample(const struct lnx_finder *f, const struct guest_range *r, gpa_t at,
			gpa_t *at_out)
{
	gpa_t end = GPA(r->start.a + r->size), data_end;

	*at_out = at;
	if (!f->g->ops->next_data)
		return true;
	return f->g->ops->next_data(f->g->priv, at, end, at_out, &data_end) && at_out->a >= at.a;
}

static enum lnx_verdict sample_range(struct lnx_finder *f, const struct guest_range *r,
				     uint32_t *tries)
{
	uint64_t end = r->start.a + r->size, done = r->start.a;
	uint32_t word[SAMPLE_WORDS];
	gpa_t at = r->start;

	while (at.a < end && next_sample(f, r, at, &at) && end - at.a >= sizeof(word)) {
		if (at.a >= done && !guest_read(f->g, at, word, sizeof(word)) &&
		    words_ascend(word)) {
			if (++*tries > SAMPLES_MAX)
				return LNX_GO_ON; /* the scan comes next */
			enum lnx_verdict v =
				scan_around(f, at, KALLSYMS_REACH_BEFORE, KALLSYMS_REACH_BEFORE);
			if (v == LNX_DONE)
				return v;
			done = at.a + KALLSYMS_REACH_BEFORE;
		}
		at.a = gs_align_up(at.a + 1, SAMPLE_EVERY);
	}
	return LNX_GO_ON;
}

static enum lnx_verdict by_sampling(struct lnx_finder *f)
{
	enum lnx_verdict v = LNX_GO_ON;
	uint32_t tries = 0;

	for (uint32_t i = 0; v == LNX_GO_ON && i < f->g->range_count; i++)
		v = sample_range(f, &f->g->ranges[i], &tries);
	return v;
}

/* --- by looking at everything --- */

static enum lnx_verdict by_scan(struct lnx_finder *f)
{
	enum lnx_verdict v = LNX_GO_ON;

	for (uint32_t i = 0; v == LNX_GO_ON && i < f->g->range_count; i++) {
		const struct guest_range *r = &f->g->ranges[i];

		/* tables may begin in the range before */
		v = scan(f, r->start.a - gs_min(r->start.a, SCAN_OVERLAP), r->start.a + r->size);
	}
	return v;
}

/* --- by a reference --- */

/* Where an image may begin of which something has ever been written. */
static bool next_image(const struct lnx_finder *f, const struct guest_range *r, uint64_t size,
		       uint64_t *at)
{
	const gpa_t end = GPA(r->start.a + r->size);
	gpa_t data, data_end;

	if (*at >= end.a)
		return false;
	if (!f->g->ops->next_data)
		return true;
	if (!f->g->ops->next_data(f->g->priv, GPA(*at), end, &data, &data_end))
		return false;
	if (data.a > *at && data.a - *at > size)
		*at = gs_align_up(data.a - size, IMAGE_EVERY);
	return true;
}

static enum lnx_verdict by_reference(struct lnx_finder *f)
{
	const struct lnx_reference *ref = f->hints->reference;
	gpa_t proof;

	for (uint32_t i = 0; ref && i < f->g->range_count; i++) {
		const struct guest_range *r = &f->g->ranges[i];

		for (uint64_t at = gs_align_up(r->start.a, IMAGE_EVERY);
		     next_image(f, r, ref->size, &at); at += IMAGE_EVERY) {
			if (lnx_reference_match(ref, f->g, GPA(at), &proof) < LNX_SAMPLES_NEEDED)
				continue;
			enum lnx_verdict v = lnx_try_reference(f, GPA(at), proof);
			if (v == LNX_DONE)
				return v;
		}
	}
	return LNX_GO_ON;
}

/* --- all of them --- */

enum lnx_verdict lnx_search(struct lnx_finder *f)
{
	static enum lnx_verdict (*const ways[])(struct lnx_finder *) = {
		[LNX_BY_REFERENCE] = by_reference,
		[LNX_BY_REGISTERS] = by_registers,
		[LNX_BY_VMCOREINFO] = by_vmcoreinfo,
		[LNX_BY_SAMPLING] = by_sampling,
		[LNX_BY_SCAN] = by_scan,
	};
	enum lnx_verdict v = LNX_GO_ON;

	for (size_t i = 0; v == LNX_GO_ON && i < ARRAY_SIZE(ways); i++) {
		f->way = (enum lnx_way)i;
		v = ways[i](f);
		/* nothing contradicts the best one: the scan would take long for nothing */
		if (v == LNX_GO_ON && i == LNX_BY_SAMPLING && f->best && f->best_evidence >= 0)
			break;
	}
	return v;
}
