/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a dump holds: pieces as the file lists them, made into a guest's ranges. */
#include <stdlib.h>

#include "base/util.h"
#include "introspect/guest/dump_priv.h"

enum gs_code guest_dump_pieces_add(struct guest_dump_pieces *p, struct guest_dump_piece piece)
{
	if (p->count == p->room) {
		// Grown as they arrive: a header's count alone allocates nothing (X13).
		uint32_t room = p->room ? p->room * 2 : 64;

		if (p->room >= DUMP_PIECES_MAX)
			return GS_ETOOBIG;
		struct guest_dump_piece *at = reallocarray(p->at, room, sizeof(*at));
		if (!at)
			return GS_ENOSPC;
		p->at = at;
		p->room = room;
	}
	p->at[p->count++] = piece;
	return GS_OK;
}

/* By address; of two that begin together the one that comes first in the file, then the longer. */
static int piece_compare(const void *left, const void *right)
{
	const struct guest_dump_piece *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->size < b->size ? 1 : a->size > b->size ? -1 : 0;
}

uint64_t guest_dump_pieces_clean(struct guest_dump_pieces *p)
{
	uint64_t covered = 0, twice = 0;
	uint32_t kept = 0;

	if (!p->count)
		return 0;
	qsort(p->at, p->count, sizeof(*p->at), piece_compare);
	for (uint32_t i = 0; i < p->count; i++) {
		struct guest_dump_piece q = p->at[i];
		uint64_t cut = q.start < covered ? gs_min(covered - q.start, q.size) : 0;

		/* the image's own segment of a core is the same bytes under another address */
		if (cut && q.offset - p->at[kept - 1].offset != q.start - p->at[kept - 1].start)
			twice += cut;
		q.start += cut;
		q.offset += cut;
		q.size -= cut;
		if (!q.size)
			continue;
		covered = q.start + q.size;
		p->at[kept++] = q;
	}
	p->count = kept;
	return twice;
}

uint32_t guest_dump_piece_find(const struct guest_dump *d, uint64_t at)
{
	uint32_t lo = 0, hi = d->pieces.count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		const struct guest_dump_piece *p = &d->pieces.at[mid];

		if (at >= p->start && at - p->start >= p->size)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int u64_compare(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* Bytes between piece i - 1 and i. */
static uint64_t gap_before(const struct guest_dump_pieces *p, uint32_t i)
{
	return p->at[i].start - (p->at[i - 1].start + p->at[i - 1].size);
}

/* The widest gap that is bridged, so that no more than GUEST_RANGES_MAX ranges are left. */
static enum gs_code bridge_width(const struct guest_dump_pieces *p, uint64_t *width_out)
{
	uint32_t gaps = 0;

	for (uint32_t i = 1; i < p->count; i++)
		gaps += gap_before(p, i) != 0;
	*width_out = 0;
	if (gaps < GUEST_RANGES_MAX)
		return GS_OK;
	GS_FREE uint64_t *widths = gs_array_alloc(gaps, sizeof(*widths));
	if (!widths)
		return GS_ENOSPC;
	for (uint32_t i = 1, n = 0; i < p->count; i++) {
		uint64_t gap = gap_before(p, i);

		if (gap)
			widths[n++] = gap;
	}
	qsort(widths, gaps, sizeof(*widths), u64_compare);
	*width_out = widths[gaps - GUEST_RANGES_MAX];
	return GS_OK;
}

enum gs_code guest_dump_ranges_make(struct guest_dump *d, const struct guest_dump_pieces *p,
				    struct gs_error *err)
{
	uint64_t width;
	uint32_t count = 0;

	if (!p->count)
		return gs_fail(err, GS_EMALFORMED, "holds no memory%s%s", *d->note ? ": " : "",
			       d->note);
	if (bridge_width(p, &width))
		return gs_fail(err, GS_ENOSPC, "out of memory");
	d->ranges = gs_array_alloc(gs_min(p->count, GUEST_RANGES_MAX), sizeof(*d->ranges));
	if (!d->ranges)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	for (uint32_t i = 0; i < p->count; i++) {
		const struct guest_dump_piece *q = &p->at[i];

		if (i && gap_before(p, i) <= width)
			d->ranges[count - 1].size =
				q->start + q->size - d->ranges[count - 1].start.a;
		else
			d->ranges[count++] =
				(struct guest_range){ .start = GPA(q->start), .size = q->size };
	}
	d->guest.range_count = count;
	return GS_OK;
}
