/* SPDX-License-Identifier: Apache-2.0 */
/* Stage-1 translation: registers to a regime, tables walked as the CPU does it. */
#include "introspect/arm64/arm64.h"

enum {
	GRANULE_4K = 12, /* log2 of the page size */
	GRANULE_16K = 14,
	GRANULE_64K = 16,
	LAST_LEVEL = 3,
	IPS_52_BITS = 6, /* TCR_EL1.IPS; 5 is 48 bits, 7 is reserved before FEAT_D128 */
};

// Descriptor bits (D8.3): 1:0 are 01 for a block and 11 for a table, or at the last level a page.
#define DESCRIPTOR_VALID      UINT64_C(1)
#define DESCRIPTOR_TABLE_PAGE UINT64_C(2)

static uint64_t low_bits(unsigned int n)
{
	return (UINT64_C(1) << n) - 1; // n is below 64 in all uses
}

// TG0 and TG1 are coded differently; 0 stands for the reserved code.
static uint8_t tg0_granule(uint64_t tg0)
{
	static const uint8_t granule[4] = { GRANULE_4K, GRANULE_64K, GRANULE_16K, 0 };

	return granule[tg0 & 3];
}

static uint8_t tg1_granule(uint64_t tg1)
{
	static const uint8_t granule[4] = { 0, GRANULE_16K, GRANULE_4K, GRANULE_64K };

	return granule[tg1 & 3];
}

/*
 * Limits of TnSZ (D8.2; pseudocode AArch64.S1MinTxSZ, AArch64.MaxTxSZ). The upper one is that of
 * FEAT_TTST, 39 without it: we cannot see which CPU it is, and larger values do no harm. 52-bit
 * addresses need DS with 4K and 16K pages; 64K pages ignore DS.
 */
static bool is_tnsz_legal(uint64_t tnsz, uint8_t granule_bits, bool ds)
{
	if (granule_bits == GRANULE_64K)
		return tnsz >= 12 && tnsz <= 47;
	return tnsz >= (ds ? 12u : 16u) && tnsz <= 48;
}

// Address bits that one table after the first resolves: a granule full of 8-byte entries.
static unsigned int stride_bits(const struct a64_half *h)
{
	return h->granule_bits - 3u;
}

// Lowest address bit that a table of this level resolves.
static unsigned int level_lsb(const struct a64_half *h, int level)
{
	return h->granule_bits + (unsigned int)(LAST_LEVEL - level) * stride_bits(h);
}

// Only the first table may have fewer entries than a granule holds.
static uint32_t entries_of(const struct a64_half *h, int level)
{
	unsigned int bits =
		level == h->start_level ? h->va_bits - level_lsb(h, level) : stride_bits(h);

	return UINT32_C(1) << bits;
}

// An illegal half stays all zero, so that nothing downstream shifts by a nonsense amount.
static void half_init(struct a64_half *h, uint64_t tcr, uint8_t granule_bits, uint64_t tnsz)
{
	bool ds = BIT(tcr, 59) && granule_bits != GRANULE_64K;

	*h = (struct a64_half){ 0 };
	if (!granule_bits || !is_tnsz_legal(tnsz, granule_bits, ds))
		return;
	h->granule_bits = granule_bits;
	h->va_bits = (uint8_t)(64 - tnsz);
	h->ds = ds;
	h->wide_oa = ds || (granule_bits == GRANULE_64K && BITS(tcr, 34, 32) == IPS_52_BITS);

	unsigned int stride = stride_bits(h);
	unsigned int levels = (h->va_bits - granule_bits + stride - 1u) / stride;
	h->start_level = (int8_t)(LAST_LEVEL + 1 - (int)levels);
}

enum gs_code a64_regime_init(struct a64_regime *r, uint64_t tcr_el1, uint64_t ttbr0_el1,
			     uint64_t ttbr1_el1)
{
	struct a64_half *low = &r->half[0], *high = &r->half[1];

	half_init(low, tcr_el1, tg0_granule(BITS(tcr_el1, 15, 14)), BITS(tcr_el1, 5, 0));
	low->tbi = BIT(tcr_el1, 37);
	low->enabled = low->granule_bits && !BIT(tcr_el1, 7);
	a64_half_set_table(low, ttbr0_el1);

	half_init(high, tcr_el1, tg1_granule(BITS(tcr_el1, 31, 30)), BITS(tcr_el1, 21, 16));
	high->tbi = BIT(tcr_el1, 38);
	high->enabled = high->granule_bits && !BIT(tcr_el1, 23);
	a64_half_set_table(high, ttbr1_el1);

	return low->enabled || high->enabled ? GS_OK : GS_EMALFORMED;
}

/*
 * Only the size of the first table aligns it, not the granule (AArch64.S1TTBaseAddress): Linux
 * keeps the 16 entries of a five-level table inside of a page. Clearing the bits below also drops
 * CnP (bit 0), since no table has fewer than two entries.
 */
void a64_half_set_table(struct a64_half *h, uint64_t ttbr)
{
	if (!h->granule_bits)
		return;

	unsigned int size_bits = h->va_bits - level_lsb(h, h->start_level) + 3;
	uint64_t table = ttbr & low_bits(48);
	if (h->wide_oa) {
		// bits 5:2 are address bits 51:48, hence alignment to 64 bytes at least
		size_bits = size_bits < 6 ? 6 : size_bits;
		table |= BITS(ttbr, 5, 2) << 48;
	}
	h->table = GPA(table & ~low_bits(size_bits));
}

/*
 * The address a descriptor leads to, bits below @lsb clear (D8.3). We do not compare it with IPS,
 * as the CPU does for its address size fault: what lies beyond is not RAM, and is refused as that.
 */
static inline uint64_t output_address(const struct a64_half *h, uint64_t descriptor,
				      unsigned int lsb)
{
	const uint64_t field = (h->ds ? low_bits(50) : low_bits(48)) & ~low_bits(lsb);
	const uint64_t oa = descriptor & field;

	if (h->ds)
		return oa | BITS(descriptor, 9, 8) << 50;
	return h->wide_oa ? oa | BITS(descriptor, 15, 12) << 48 : oa;
}

/*
 * The first level at which a block may stand (AArch64.BlockDescSupported). With 64K pages the CPU
 * goes by its own physical address size instead of IPS; guests that set less than they have use no
 * block of 4 TiB.
 */
static inline int first_block_level(const struct a64_half *h)
{
	return (h->granule_bits == GRANULE_4K ? 1 : 2) - (h->wide_oa ? 1 : 0);
}

/* 01 is a block and only legal at some levels; at the last one it is reserved. */
static inline bool is_reserved(const struct a64_half *h, uint64_t descriptor, int level)
{
	return !(descriptor & DESCRIPTOR_TABLE_PAGE) &&
	       (level == LAST_LEVEL || level < first_block_level(h));
}

/* Whether all bits from va_bits up (to 55 with TBI, else to 63) are copies of bit 55. */
static inline bool is_canonical(const struct a64_half *h, uint64_t va)
{
	uint64_t differ = va ^ (UINT64_C(0) - BIT(va, 55));

	if (h->tbi)
		differ &= low_bits(56);
	return !(differ >> h->va_bits);
}

/* The descriptor for an address in a table of one level. */
static enum a64_fault read_entry(const struct a64_half *h, const struct guest *g, gpa_t table,
				 unsigned int lsb, uint64_t in, uint64_t *descriptor)
{
	uint64_t index = (in >> lsb) & low_bits(stride_bits(h));

	if (guest_read_u64(g, GPA(table.a + index * sizeof(*descriptor)), descriptor))
		return A64_TABLE_NOT_RAM;
	return *descriptor & DESCRIPTOR_VALID ? A64_OK : A64_NOT_MAPPED;
}

/* Where the descriptor that ends a walk leads. */
static enum a64_fault map_entry(const struct a64_half *h, int level, unsigned int lsb, uint64_t in,
				uint64_t descriptor, struct a64_mapping *out)
{
	if (is_reserved(h, descriptor, level))
		return A64_RESERVED;

	uint64_t offset = in & low_bits(lsb);
	*out = (struct a64_mapping){
		.pa = GPA(output_address(h, descriptor, lsb) | offset),
		.left = (UINT64_C(1) << lsb) - offset,
		.descriptor = descriptor,
		.level = (int8_t)level,
	};
	return A64_OK;
}

static enum a64_fault check_half(const struct a64_half *h, gva_t va)
{
	if (!h->enabled)
		return A64_DISABLED;
	return is_canonical(h, va.a) ? A64_OK : A64_NOT_CANONICAL;
}

enum a64_fault a64_translate(const struct a64_regime *r, const struct guest *g, gva_t va,
			     struct a64_mapping *out)
{
	const struct a64_half *h = &r->half[BIT(va.a, 55)];
	enum a64_fault fault = check_half(h, va);

	if (fault)
		return fault;

	// A first table smaller than the others needs no own index mask once the copies are gone.
	const uint64_t in = va.a & low_bits(h->va_bits);
	int level = h->start_level;
	unsigned int lsb = level_lsb(h, level);
	gpa_t table = h->table;

	// Ends at the last level even in tables that point at themselves.
	for (;; level++, lsb -= stride_bits(h)) {
		uint64_t descriptor;

		fault = read_entry(h, g, table, lsb, in, &descriptor);
		if (fault)
			return fault;
		if (level == LAST_LEVEL || !(descriptor & DESCRIPTOR_TABLE_PAGE))
			return map_entry(h, level, lsb, in, descriptor, out);
		table = GPA(output_address(h, descriptor, h->granule_bits));
	}
}

bool a64_last_table(const struct a64_regime *r, const struct guest *g, gva_t va, gpa_t *table_out)
{
	const struct a64_half *h = &r->half[BIT(va.a, 55)];

	// Of a half that one table more than covers not all addresses of it are canonical.
	if (check_half(h, va) || h->va_bits < h->granule_bits + stride_bits(h))
		return false;

	const uint64_t in = va.a & low_bits(h->va_bits);
	unsigned int lsb = level_lsb(h, h->start_level);
	gpa_t table = h->table;
	for (int level = h->start_level; level < LAST_LEVEL; level++, lsb -= stride_bits(h)) {
		uint64_t descriptor;

		if (read_entry(h, g, table, lsb, in, &descriptor) ||
		    !(descriptor & DESCRIPTOR_TABLE_PAGE))
			return false;
		table = GPA(output_address(h, descriptor, h->granule_bits));
	}
	*table_out = table;
	return true;
}

unsigned int a64_last_table_bits(const struct a64_regime *r, gva_t va)
{
	const struct a64_half *h = &r->half[BIT(va.a, 55)];

	return h->granule_bits + stride_bits(h);
}

gpa_t a64_last_entry(const struct a64_regime *r, gpa_t table, gva_t va)
{
	const struct a64_half *h = &r->half[BIT(va.a, 55)];
	uint64_t index = (va.a >> h->granule_bits) & low_bits(stride_bits(h));

	return GPA(table.a + index * sizeof(uint64_t));
}

enum a64_fault a64_translate_last(const struct a64_regime *r, const struct guest *g, gpa_t table,
				  gva_t va, struct a64_mapping *out)
{
	const struct a64_half *h = &r->half[BIT(va.a, 55)];
	const uint64_t in = va.a & low_bits(h->va_bits);
	uint64_t descriptor;
	enum a64_fault fault = read_entry(h, g, table, h->granule_bits, in, &descriptor);

	if (fault)
		return fault;
	return map_entry(h, LAST_LEVEL, h->granule_bits, in, descriptor, out);
}

/* A table on the way down. */
struct visit {
	gpa_t table;
	uint64_t size; /* entries */
	uint64_t left; /* ... not looked at yet */
	uint64_t va;   /* of its first entry */
};

bool a64_find_mapping(const struct a64_regime *r, const struct guest *g, gpa_t pa, enum a64_end end,
		      uint64_t not_table, uint64_t *budget, gva_t *va_out)
{
	const struct a64_half *h = &r->half[1];
	struct visit at[A64_LEVELS];
	int level = h->start_level, top = level;

	if (!h->enabled)
		return false;
	const uint64_t first = entries_of(h, level);
	at[0] = (struct visit){ h->table, first, first, ~low_bits(h->va_bits) };
	while (level >= top) {
		struct visit *v = &at[level - top];
		const unsigned int lsb = level_lsb(h, level);
		uint64_t descriptor;

		if (!v->left) {
			level--;
			continue;
		}
		const uint64_t i = end == A64_HIGHEST ? v->left - 1 : v->size - v->left;
		v->left--;
		if (!*budget)
			return false;
		--*budget;
		if (guest_read_u64(g, GPA(v->table.a + i * sizeof(descriptor)), &descriptor) ||
		    !(descriptor & DESCRIPTOR_VALID))
			continue;
		const uint64_t va = v->va + (i << lsb);
		if (level < LAST_LEVEL && (descriptor & DESCRIPTOR_TABLE_PAGE)) {
			if (descriptor & not_table)
				continue;
			const uint64_t size = entries_of(h, ++level);
			at[level - top] =
				(struct visit){ GPA(output_address(h, descriptor, h->granule_bits)),
						size, size, va };
			continue;
		}
		if (is_reserved(h, descriptor, level))
			continue;
		const uint64_t oa = output_address(h, descriptor, lsb);
		if (pa.a >= oa && pa.a - oa < UINT64_C(1) << lsb) {
			*va_out = GVA(va + (pa.a - oa));
			return true;
		}
	}
	return false;
}

static void push_table(struct a64_tables *t, gpa_t at, int level, uint64_t first)
{
	t->way[t->depth].table = (struct a64_table){
		.at = at,
		.level = (int8_t)level,
		.entries = entries_of(t->half, level),
		.first = first,
		.entry_size = UINT64_C(1) << level_lsb(t->half, level),
	};
	t->way[t->depth].is_given = false;
	t->way[t->depth].next = 0;
	t->depth++;
	t->is_read = false;
}

static void pop_table(struct a64_tables *t)
{
	t->depth--;
	t->is_read = false;
}

void a64_tables_begin(struct a64_tables *t, const struct a64_half *h, const struct guest *g,
		      int last_level)
{
	*t = (struct a64_tables){ .half = h, .g = g, .last_level = last_level };
	if (h->granule_bits && h->start_level <= last_level)
		push_table(t, h->table, h->start_level, 0);
}

/* Look on in the table at hand for an entry that leads to a table; it becomes the one at hand. */
static enum gs_code enter_next(struct a64_tables *t)
{
	const struct a64_table *table = &t->way[t->depth - 1].table;
	uint32_t *next = &t->way[t->depth - 1].next;

	if (table->level >= t->last_level || table->level == LAST_LEVEL)
		return GS_ENOENT;
	for (; *next < table->entries; ++*next) {
		const uint32_t i = *next % A64_ENTRIES_AHEAD;
		const size_t n = (size_t)gs_min(table->entries, A64_ENTRIES_AHEAD);

		if ((!i || !t->is_read) &&
		    guest_read(t->g, GPA(table->at.a + (*next - i) * sizeof(t->entry[0])), t->entry,
			       n * sizeof(t->entry[0])))
			return GS_EFAULT;
		t->is_read = true;
		if (!(t->entry[i] & DESCRIPTOR_VALID) || !(t->entry[i] & DESCRIPTOR_TABLE_PAGE))
			continue;
		push_table(t, GPA(output_address(t->half, t->entry[i], t->half->granule_bits)),
			   table->level + 1, table->first + (*next)++ * table->entry_size);
		return GS_OK;
	}
	return GS_ENOENT;
}

enum gs_code a64_tables_next(struct a64_tables *t, struct a64_table *table_out)
{
	while (t->depth) {
		const uint32_t at = t->depth - 1;

		if (!t->way[at].is_given) {
			t->way[at].is_given = true;
			*table_out = t->way[at].table;
			return GS_OK;
		}
		enum gs_code rc = enter_next(t);
		if (!rc)
			continue;
		pop_table(t);
		if (rc == GS_EFAULT) {
			*table_out = t->way[at].table;
			return rc;
		}
	}
	return GS_ENOENT;
}

void a64_tables_skip(struct a64_tables *t)
{
	pop_table(t);
}

static enum a64_fault read_pages(const struct a64_regime *r, const struct guest *g, gva_t va,
				 char *buf, size_t len)
{
	gva_t at = va;

	while (len) {
		struct a64_mapping m;

		/*
		 * Past the end of the high half addresses start at 0 again, or with a tag at 0 of
		 * the next tag. No object lies there, so a read that gets that far is a wrong one.
		 */
		if (BIT(at.a, 55) != BIT(va.a, 55))
			return A64_NOT_CANONICAL;
		enum a64_fault fault = a64_translate(r, g, at, &m);
		if (fault)
			return fault;
		size_t n = (size_t)gs_min(len, m.left);
		if (guest_read(g, m.pa, buf, n))
			return A64_NOT_RAM;
		buf += n;
		len -= n;
		at.a += n;
	}
	return A64_OK;
}

enum gs_code a64_read(const struct a64_regime *r, const struct guest *g, gva_t va, void *buf,
		      size_t len, enum a64_fault *fault_out)
{
	enum a64_fault fault = read_pages(r, g, va, buf, len);

	if (fault_out)
		*fault_out = fault;
	return fault ? GS_EFAULT : GS_OK;
}

const char *a64_fault_name(enum a64_fault fault)
{
	switch (fault) {
	case A64_OK: return "ok";
	case A64_NOT_CANONICAL: return "not-canonical";
	case A64_DISABLED: return "translation-disabled";
	case A64_NOT_MAPPED: return "not-mapped";
	case A64_RESERVED: return "reserved-descriptor";
	case A64_TABLE_NOT_RAM: return "table-not-ram";
	case A64_NOT_RAM: return "not-ram";
	case A64_FAULTS: break;
	}
	return "unknown";
}
