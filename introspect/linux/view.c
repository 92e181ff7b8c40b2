/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the guest's kernel memory: translation cache, words, lists. */
#include <string.h>

#include "base/clock.h"
#include "introspect/linux/kernel.h"

#define TLB_PAGE   UINT64_C(4096)
#define CACHE_LINE UINT64_C(64)

/* Execute-never at EL1, in the descriptors of stage 1 (DDI 0487J.a, D8.3.2). */
#define DESCRIPTOR_PXN (UINT64_C(1) << 53)

void lnx_view_init(struct lnx_view *v, const struct lnx_kernel *k, const struct guest *g)
{
	*v = (struct lnx_view){ .k = k, .g = g };
}

void lnx_view_use_cache(struct lnx_view *v, struct lnx_cache *cache)
{
	memset(cache->page, 0, sizeof(cache->page));
	memset(cache->table, 0, sizeof(cache->table));
	memset(cache->call, 0, sizeof(cache->call));
	v->cache = cache;
	v->can_prefetch = guest_can_prefetch(v->g);
}

/*
 * The bits that distinguish pages are the low ones of tasks (which lie side by side) and higher ones
 * of stacks (8 pages apart): multiply, take the top.
 */
static size_t hash(uint64_t x, unsigned int bits)
{
	return (x * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - bits);
}

#define BITS_OF(n) ((unsigned int)__builtin_ctz(n))

static struct lnx_tlb_entry *slot_of(struct lnx_view *v, uint64_t page)
{
	if (!v->cache)
		return &v->tlb[hash(page / TLB_PAGE, BITS_OF(LNX_TLB_SIZE))];
	return &v->cache->page[hash(page / TLB_PAGE, BITS_OF(LNX_CACHE_PAGES))];
}

/* The last-level table for an address, remembered if possible; false: none, or no cache. */
static bool last_table(struct lnx_view *v, gva_t va, gpa_t *table_out)
{
	const struct a64_regime *r = &v->k->regime;

	if (!v->cache)
		return false;
	uint64_t region = va.a >> a64_last_table_bits(r, va) | UINT64_C(1) << 63;
	size_t slot = hash(region, BITS_OF(LNX_CACHE_TABLES));
	if (v->cache->table[slot].region != region) {
		gpa_t table;

		if (!a64_last_table(r, v->g, va, &table))
			return false;
		v->cache->table[slot].region = region;
		v->cache->table[slot].table = table;
	}
	*table_out = v->cache->table[slot].table;
	return true;
}

/* The entry for the page at @p va, made if need be. */
static enum a64_fault lookup(struct lnx_view *v, gva_t va, const struct lnx_tlb_entry **out)
{
	const uint64_t page = va.a & ~(TLB_PAGE - 1);
	struct lnx_tlb_entry *e = slot_of(v, page);
	struct a64_mapping m;
	gpa_t table;

	*out = e;
	if (e->va == (page | 1))
		return A64_OK;
	enum a64_fault f = last_table(v, GVA(page), &table)
				   ? a64_translate_last(&v->k->regime, v->g, table, GVA(page), &m)
				   : a64_translate(&v->k->regime, v->g, GVA(page), &m);
	if (f)
		return f;
	e->va = page | 1;
	e->pa = m.pa.a | !(m.descriptor & DESCRIPTOR_PXN);
	return A64_OK;
}

static gpa_t place_in(const struct lnx_tlb_entry *e, gva_t va)
{
	return GPA((e->pa & ~UINT64_C(1)) + va.a % TLB_PAGE);
}

enum gs_code lnx_translate(struct lnx_view *v, gva_t va, gpa_t *pa_out)
{
	const struct lnx_tlb_entry *e;
	uint64_t start = v->is_timed ? gs_clock_ns() : 0;
	enum a64_fault f = lookup(v, va, &e);

	if (f) {
		v->faults[f]++;
		if (v->is_timed)
			v->fault_ns += gs_clock_ns() - start;
		return GS_EFAULT;
	}
	*pa_out = place_in(e, va);
	return GS_OK;
}

void lnx_prefetch_entry(struct lnx_view *v, gva_t va)
{
	const uint64_t page = va.a & ~(TLB_PAGE - 1);
	gpa_t table;

	if (!v->can_prefetch || slot_of(v, page)->va == (page | 1) || !last_table(v, va, &table))
		return;
	guest_prefetch(v->g, a64_last_entry(&v->k->regime, table, va));
}

/* Lines of one page, both addresses in it. */
static void prefetch_in_page(struct lnx_view *v, gva_t from, gva_t last)
{
	const struct lnx_tlb_entry *e;

	if (lookup(v, from, &e))
		return;
	uint64_t lines = last.a / CACHE_LINE - from.a / CACHE_LINE + 1;
	for (uint64_t i = 0; i < lines; i++)
		guest_prefetch(v->g,
			       place_in(e, GVA((from.a & ~(CACHE_LINE - 1)) + i * CACHE_LINE)));
}

void lnx_prefetch(struct lnx_view *v, gva_t va, size_t len)
{
	const uint64_t last = va.a + (len - 1);

	if (!v->can_prefetch || last < va.a)
		return;
	/* counted: the last page may be the last of all */
	uint64_t pages = last / TLB_PAGE - va.a / TLB_PAGE + 1;
	for (uint64_t i = 0; i < pages; i++) {
		uint64_t page = (va.a & ~(TLB_PAGE - 1)) + i * TLB_PAGE;

		prefetch_in_page(v, GVA(gs_max(va.a, page)),
				 GVA(gs_min(last, page + (TLB_PAGE - 1))));
	}
}

enum gs_code lnx_read(struct lnx_view *v, gva_t va, void *buf, size_t len)
{
	const size_t whole = len;

	while (len) {
		size_t n = (size_t)gs_min(len, TLB_PAGE - va.a % TLB_PAGE);
		gpa_t pa;
		enum gs_code rc = lnx_translate(v, va, &pa);

		if (rc)
			return rc;
		rc = guest_read(v->g, pa, buf, n);
		if (rc) {
			v->faults[A64_NOT_RAM]++;
			return rc;
		}
		buf = (char *)buf + n;
		va.a += n;
		len -= n;
	}
	v->reads++;
	v->bytes += whole;
	return GS_OK;
}

enum gs_code lnx_read_physical(struct lnx_view *v, gpa_t at, void *buf, size_t len)
{
	enum gs_code rc = guest_read(v->g, at, buf, len);

	if (rc) {
		v->faults[A64_NOT_RAM]++;
		return rc;
	}
	v->reads++;
	v->bytes += len;
	return GS_OK;
}

enum gs_code lnx_read_u64(struct lnx_view *v, gva_t va, uint64_t *value_out)
{
	return lnx_read(v, va, value_out, sizeof(*value_out));
}

enum gs_code lnx_read_u32(struct lnx_view *v, gva_t va, uint32_t *value_out)
{
	return lnx_read(v, va, value_out, sizeof(*value_out));
}

/* What is behind a string's end may not be there. */
#define STRING_AT_ONCE UINT64_C(64)

enum gs_code lnx_read_string(struct lnx_view *v, gva_t at, char *text, size_t room)
{
	for (size_t n = 0; n < room;) {
		size_t piece = (size_t)gs_min(room - n, STRING_AT_ONCE - at.a % STRING_AT_ONCE);

		if (lnx_read(v, at, text + n, piece))
			return GS_EFAULT;
		if (memchr(text + n, '\0', piece))
			return GS_OK;
		n += piece;
		at.a += piece;
	}
	return GS_EMALFORMED;
}

bool lnx_is_text(struct lnx_view *v, uint64_t address)
{
	const struct lnx_tlb_entry *e;

	if (lnx_range_has(v->k->text, address) || lnx_range_has(v->k->init_text, address))
		return true;
	if ((address & 3) || !BIT(address, 55))
		return false;
	return lookup(v, GVA(address), &e) == A64_OK && (e->pa & 1);
}

/* --- lists --- */

/* How far ahead of the walk what is expected is asked for: descriptors, and the links. */
#define AHEAD_ENTRIES 24
#define AHEAD_LINKS   12
/* Objects that have gone since are skipped in what is expected, this many at once. */
#define EXPECT_SKIP 4

void lnx_list_begin(struct lnx_list *l, struct lnx_view *v, gva_t head, uint64_t offset,
		    gva_t *objects, uint32_t max)
{
	*l = (struct lnx_list){ .v = v,
				.head = head,
				.at = head,
				.offset = offset,
				.objects = objects,
				.max = max,
				.power = 1 };
}

static void ask_entry(const struct lnx_list *l, uint32_t i)
{
	if (i < l->expected_count)
		lnx_prefetch_entry(l->v, GVA(l->expected[i].a + l->offset));
}

static void ask_link(const struct lnx_list *l, uint32_t i)
{
	if (i < l->expected_count)
		lnx_prefetch(l->v, GVA(l->expected[i].a + l->offset), sizeof(uint64_t));
}

void lnx_list_expect(struct lnx_list *l, const gva_t *objects, uint32_t n)
{
	if (!l->v->can_prefetch)
		return;
	l->expected = objects;
	l->expected_count = n;
	for (uint32_t i = 0; i < AHEAD_ENTRIES; i++)
		ask_entry(l, i);
	for (uint32_t i = 0; i < AHEAD_LINKS; i++)
		ask_link(l, i);
}

/* Read ahead of an object that was met, if it is where it is expected to be. */
static void ask_ahead(struct lnx_list *l, gva_t object)
{
	for (uint32_t skip = 0; skip <= EXPECT_SKIP; skip++) {
		uint32_t i = l->next_expected + skip;

		if (i >= l->expected_count)
			return;
		if (l->expected[i].a != object.a)
			continue;
		for (; l->next_expected <= i; l->next_expected++) {
			ask_entry(l, l->next_expected + AHEAD_ENTRIES);
			ask_link(l, l->next_expected + AHEAD_LINKS);
		}
		return;
	}
}

/* A cycle of length @p cycle has been seen: cut the objects where they begin to repeat. */
static uint32_t distinct_objects(const gva_t *objects, uint32_t n, uint32_t cycle)
{
	for (uint32_t i = 0; i + cycle < n; i++)
		if (objects[i].a == objects[i + cycle].a)
			return i + cycle;
	return n;
}

static bool end_list(struct lnx_list *l, enum gs_code rc)
{
	l->rc = rc;
	return false;
}

bool lnx_list_next(struct lnx_list *l, gva_t *object_out)
{
	uint64_t next;
	enum gs_code rc = lnx_read_u64(l->v, l->at, &next);

	if (rc)
		return end_list(l, rc);
	if (next == l->head.a)
		return end_list(l, GS_OK);
	if (!lnx_is_object(l->v->k, next))
		return end_list(l, GS_EFAULT);

	gva_t object = GVA(next - l->offset);
	/*
	 * Brent's cycle search: compare each object with one that is moved up at every power of
	 * two.
	 */
	if (l->n && l->objects[l->mark].a == object.a) {
		l->n = distinct_objects(l->objects, l->n, l->n - l->mark);
		return end_list(l, GS_ELOOP);
	}
	if (l->n == l->max)
		return end_list(l, GS_ENOSPC);
	if (l->n == l->power) {
		l->mark = l->n;
		l->power *= 2;
	}
	l->objects[l->n++] = object;
	l->at = GVA(next);
	ask_ahead(l, object);
	*object_out = object;
	return true;
}

bool lnx_list_has(struct lnx_view *v, gva_t node)
{
	uint64_t next, prev, back;

	return !lnx_read_u64(v, node, &next) && !lnx_read_u64(v, GVA(node.a + 8), &prev) &&
	       lnx_is_object(v->k, next) && lnx_is_object(v->k, prev) &&
	       !lnx_read_u64(v, GVA(next + 8), &back) && back == node.a &&
	       !lnx_read_u64(v, GVA(prev), &back) && back == node.a;
}

enum gs_code lnx_list_collect(struct lnx_view *v, gva_t head, gva_t *nodes, uint32_t max,
			      uint32_t *n_out)
{
	struct lnx_list l;
	gva_t node;

	lnx_list_begin(&l, v, head, 0, nodes, max);
	while (lnx_list_next(&l, &node))
		;
	*n_out = l.n;
	return l.rc;
}
