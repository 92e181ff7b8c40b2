/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over literal tables, each with its invalid twins. */
#include <inttypes.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "tests/unit/arm64/suites.h"
#include "tests/unit/arm64/walk_cases.h"
#include "tests/unit/arm64/words.h"

static struct words words;
static struct a64_regime regime;
static struct a64_mapping mapping;

static int half_of(const struct walk_case *c)
{
	return (int)BIT(c->va, 55);
}

static void setup_case(const struct walk_case *c)
{
	words_init(&words);
	for (unsigned int i = 0; i < c->entries; i++)
		words_put(&words, c->entry[i].pa, c->entry[i].value);
	ck_assert_int_eq(a64_regime_init(&regime, c->tcr, half_of(c) ? 0x7770000 : c->ttbr,
					 half_of(c) ? c->ttbr : 0x7770000),
			 GS_OK);
}

static enum a64_fault translate(uint64_t va)
{
	mapping = (struct a64_mapping){ GPA(0x5a5a), 0x5a5a, 0x5a5a, 0x5a };
	enum a64_fault fault = a64_translate(&regime, &words.m.guest, GVA(va), &mapping);
	if (fault)
		ck_assert(mapping.pa.a == 0x5a5a && mapping.left == 0x5a5a &&
			  mapping.descriptor == 0x5a5a && mapping.level == 0x5a);
	return fault;
}

static void expect(const struct walk_case *c, uint64_t va, enum a64_fault expected,
		   const char *what)
{
	enum a64_fault fault = translate(va);

	ck_assert_msg(fault == expected, "%s, %s: %s at %#" PRIx64, c->name, what,
		      a64_fault_name(fault), va);
}

// Shorthand for tests below: a regime whose high half starts at 0x10000 and whose RAM is empty.
static void setup_high(uint64_t tcr)
{
	words_init(&words);
	ck_assert_int_eq(a64_regime_init(&regime, tcr, 0, 0x10000), GS_OK);
}

START_TEST(walk_gives_address_extent_and_level)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		setup_case(c);
		expect(c, c->va, A64_OK, "as is");
		ck_assert_msg(mapping.pa.a == c->pa, "%s: %#" PRIx64, c->name, mapping.pa.a);
		ck_assert_msg(mapping.left == c->left, "%s: %#" PRIx64, c->name, mapping.left);
		ck_assert_msg(mapping.level == c->level, "%s: %d", c->name, mapping.level);
		ck_assert_msg(mapping.descriptor == c->entry[c->entries - 1].value, "%s", c->name);
	}
}
END_TEST

START_TEST(left_counts_to_the_end_of_page_or_block)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		setup_case(c);
		expect(c, c->va + c->left - 1, A64_OK, "last byte");
		ck_assert_uint_eq(mapping.left, 1);
		ck_assert_uint_eq(mapping.pa.a, c->pa + c->left - 1);
		// the byte after it needs an entry that is not there
		ck_assert_msg(translate(c->va + c->left) != A64_OK, "%s", c->name);
		// and the first byte has all of it
		int granule = regime.half[half_of(c)].granule_bits;
		uint64_t size = UINT64_C(1) << (granule + (3 - c->level) * (granule - 3));
		expect(c, c->va - (size - c->left), A64_OK, "first byte");
		ck_assert_uint_eq(mapping.left, size);
	}
}
END_TEST

START_TEST(walk_stops_at_an_invalid_descriptor_at_any_level)
{
	static const uint64_t clear[] = { 1, 3, ~UINT64_C(0) };

	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		setup_case(c);
		for (unsigned int e = 0; e < c->entries; e++) {
			for (size_t k = 0; k < ARRAY_SIZE(clear); k++) {
				words_put(&words, c->entry[e].pa, c->entry[e].value & ~clear[k]);
				expect(c, c->va, A64_NOT_MAPPED, "bit 0 clear");
			}
			// what Linux keeps of a PROT_NONE page
			words_put(&words, c->entry[e].pa,
				  (c->entry[e].value & ~UINT64_C(1)) | UINT64_C(1) << 58 | 1 << 11);
			expect(c, c->va, A64_NOT_MAPPED, "PROT_NONE");
			words_put(&words, c->entry[e].pa, c->entry[e].value);
		}
		expect(c, c->va, A64_OK, "restored");
	}
}
END_TEST

START_TEST(walk_never_leaves_ram)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		setup_case(c);
		for (unsigned int e = 0; e < c->entries; e++) {
			words_remove(&words, c->entry[e].pa);
			expect(c, c->va, A64_TABLE_NOT_RAM, "table missing");
			words_put(&words, c->entry[e].pa, c->entry[e].value);
		}
	}
}
END_TEST

START_TEST(walk_rejects_code_01_at_the_last_level)
{
	unsigned int pages = 0;

	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];
		unsigned int last = c->entries - 1;

		if (c->level != 3)
			continue;
		setup_case(c);
		words_put(&words, 0, 0); // physical page 0 exists
		words_put(&words, c->entry[last].pa, c->entry[last].value & ~UINT64_C(2));
		expect(c, c->va, A64_RESERVED, "code 01");
		words_put(&words, c->entry[last].pa, 1);
		expect(c, c->va, A64_RESERVED, "code 01, address 0");
		pages++;
	}
	ck_assert_uint_gt(pages, 0);
}
END_TEST

// M09: an empty entry gives no address, least of all 0 when that can be read.
START_TEST(empty_last_entry_is_not_page_zero)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];
		enum a64_fault fault = A64_OK;
		uint64_t word = 0x5a5a;

		setup_case(c);
		words_put(&words, 0, 0x1234);
		words_put(&words, c->pa & 0xff8, 0x1234);
		words_put(&words, c->entry[c->entries - 1].pa, 0);
		ck_assert_int_eq(a64_read(&regime, &words.m.guest, GVA(c->va), &word, 8, &fault),
				 GS_EFAULT);
		ck_assert_int_eq(fault, A64_NOT_MAPPED);
		ck_assert_uint_eq(word, 0x5a5a);
	}
}
END_TEST

START_TEST(any_wrong_bit_above_the_va_is_not_canonical)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		for (int tbi = 0; tbi < 2; tbi++) {
			struct walk_case with = *c;

			with.tcr |= tbi ? UINT64_C(3) << 37 : 0;
			setup_case(&with);
			for (int bit = regime.half[half_of(c)].va_bits; bit < 64; bit++) {
				if (bit == 55) // chooses the half
					continue;
				expect(c, c->va ^ UINT64_C(1) << bit,
				       tbi && bit >= 56 ? A64_OK : A64_NOT_CANONICAL, "bit");
			}
			expect(c, c->va ^ UINT64_C(1) << 55, A64_NOT_CANONICAL, "bit 55");
			expect(c, c->va ^ UINT64_C(0xff) << 56, tbi ? A64_OK : A64_NOT_CANONICAL,
			       "top byte");
			if (tbi)
				ck_assert_uint_eq(mapping.pa.a, c->pa);
		}
	}
}
END_TEST

// M13: one half's TBI says nothing about the other's.
START_TEST(tags_are_ignored_where_tbi_says_so)
{
	// 4K, 30 bits in both halves: one block each
	const uint64_t tcr = 0x580220022;
	static const struct {
		uint64_t tbi, va;
		enum a64_fault fault;
	} row[] = {
		{ 0, 0xf3ffffffc0001000, A64_NOT_CANONICAL },
		{ 1, 0xf3ffffffc0001000, A64_NOT_CANONICAL },
		{ 2, 0xf3ffffffc0001000, A64_OK },
		{ 2, 0x00ffffffc0001000, A64_OK },
		{ 2, 0xf37fffffc0001000, A64_NOT_CANONICAL },
		{ 0, 0x5a00000000001000, A64_NOT_CANONICAL },
		{ 1, 0x5a00000000001000, A64_OK },
		{ 2, 0x5a00000000001000, A64_NOT_CANONICAL },
		{ 3, 0x5a00000000001000, A64_OK },
		{ 3, 0xff00000000001000, A64_OK },
		{ 3, 0xff40000000001000, A64_NOT_CANONICAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		setup_high(tcr | row[i].tbi << 37);
		words_put(&words, 0x10000, 0x40000781);
		words_put(&words, 0, 0x40000781);
		ck_assert_msg(translate(row[i].va) == row[i].fault, "row %zu", i);
		if (!row[i].fault)
			ck_assert_uint_eq(mapping.pa.a, 0x40001000);
	}
}
END_TEST

START_TEST(limits_of_the_halves_are_exact)
{
	// low: 4K/39; high: 16K/47. Each table has only its first and its last entry.
	words_init(&words);
	ck_assert_int_eq(a64_regime_init(&regime, 0x540110019, 0x10000, 0x20000), GS_OK);
	words_put(&words, 0x10000, 0x40000781); /* level 1: 1 GiB */
	words_put(&words, 0x10ff8, 0x80000781);
	words_put(&words, 0x20000, 0x30003); /* level 1 */
	words_put(&words, 0x23ff8, 0x40003);
	words_put(&words, 0x30000, 0x100000781); /* level 2: 32 MiB */
	words_put(&words, 0x43ff8, 0x200000781);

	ck_assert_int_eq(translate(0), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x40000000);
	ck_assert_int_eq(translate(0x7fffffffff), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0xbfffffff);
	ck_assert_int_eq(translate(0x8000000000), A64_NOT_CANONICAL);
	ck_assert_int_eq(translate(0x007fffffffffffff), A64_NOT_CANONICAL);
	ck_assert_int_eq(translate(0x0080000000000000), A64_NOT_CANONICAL);
	ck_assert_int_eq(translate(0xffff7fffffffffff), A64_NOT_CANONICAL);
	ck_assert_int_eq(translate(0xffff800000000000), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x100000000);
	ck_assert_int_eq(translate(0xffffffffffffffff), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x201ffffff);
	ck_assert_uint_eq(mapping.left, 1);
}
END_TEST

// M06: first tables larger than 512 entries exist in stage 1 with 64K pages and 52 bits.
START_TEST(first_table_of_1024_entries_is_used_whole)
{
	static const struct {
		uint64_t va, entry;
	} row[] = {
		{ 0xfff0000000000000, 0x10000 }, /* 0 */
		{ 0xfff7fc0000000000, 0x10ff8 }, /* 511 */
		{ 0xfff8000000000000, 0x11000 }, /* 512 */
		{ 0xfffffc0000000000, 0x11ff8 }, /* 1023 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		setup_high(0x6c00c000c);
		words_put(&words, row[i].entry, 0x0000040000000781);
		ck_assert_int_eq(translate(row[i].va), A64_OK);
		ck_assert_uint_eq(mapping.pa.a, 0x0000040000000000);
	}
}
END_TEST

// M10: where blocks may stand.
START_TEST(blocks_are_legal_by_granule_level_and_width)
{
	static const struct {
		const char *name;
		uint64_t tcr;	     /* high half */
		int first, legal[5]; /* start level; by level + 1 */
	} row[] = {
		{ "4K", 0x580100010, 0, { 0, 0, 1, 1, 0 } },
		{ "4K, IPS 6", 0x680100010, 0, { 0, 0, 1, 1, 0 } },
		{ "4K DS", 0x08000006800c000c, -1, { 0, 1, 1, 1, 0 } },
		{ "16K", 0x540100010, 0, { 0, 0, 0, 1, 0 } },
		{ "16K, IPS 6", 0x640100010, 0, { 0, 0, 0, 1, 0 } },
		{ "16K DS", 0x08000006400c000c, 0, { 0, 0, 1, 1, 0 } },
		{ "64K", 0x5c00c000c, 1, { 0, 0, 0, 1, 0 } },
		{ "64K, DS set", 0x08000005c00c000c, 1, { 0, 0, 0, 1, 0 } },
		{ "64K LPA", 0x6c00c000c, 1, { 0, 0, 1, 1, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (int level = row[i].first; level <= 3; level++) {
			setup_high(row[i].tcr);
			uint64_t va = ~UINT64_C(0) << regime.half[1].va_bits, table = 0x10000;
			for (int l = row[i].first; l < level; l++, table += 0x10000)
				words_put(&words, table, (table + 0x10000) | 3);
			words_put(&words, table, 0x781 & ~0x300);

			enum a64_fault fault = translate(va);
			enum a64_fault expected = row[i].legal[level + 1] ? A64_OK : A64_RESERVED;
			ck_assert_msg(fault == expected, "%s, level %d: %s", row[i].name, level,
				      a64_fault_name(fault));
			if (!fault)
				ck_assert_int_eq(mapping.level, level);
		}
	}
}
END_TEST

/* Which descriptor bits are address, by format; level 2 is the start level of each. */
static const struct format {
	const char *name;
	uint64_t tcr;	     /* high half */
	uint64_t block;	     /* size of a level-2 block */
	uint64_t page_ones;  /* address of a page descriptor of all ones */
	uint64_t block_ones; /* of a block descriptor of all ones but bit 1 */
	uint64_t no_address; /* all bits that are not address */
	int granule;
	int high_bits[4]; /* descriptor bits of address bits 48 … 51, or -1 */
} formats[] = {
	{ "4K",
	  0x580220022,
	  0x200000,
	  0x0000fffffffff000,
	  0x0000ffffffe00000,
	  0xffff000000000fff,
	  12,
	  { -1, -1, -1, -1 } },
	{ "4K DS",
	  0x0800000680220022,
	  0x200000,
	  0x000ffffffffff000,
	  0x000fffffffe00000,
	  0xfffc000000000cff,
	  12,
	  { 48, 49, 8, 9 } },
	{ "16K",
	  0x5401c001c,
	  0x2000000,
	  0x0000ffffffffc000,
	  0x0000fffffe000000,
	  0xffff000000003fff,
	  14,
	  { -1, -1, -1, -1 } },
	{ "16K DS",
	  0x08000006401c001c,
	  0x2000000,
	  0x000fffffffffc000,
	  0x000ffffffe000000,
	  0xfffc000000003cff,
	  14,
	  { 48, 49, 8, 9 } },
	{ "64K",
	  0x5c0160016,
	  0x20000000,
	  0x0000ffffffff0000,
	  0x0000ffffe0000000,
	  0xffff00000000ffff,
	  16,
	  { -1, -1, -1, -1 } },
	{ "64K, DS set",
	  0x08000005c0160016,
	  0x20000000,
	  0x0000ffffffff0000,
	  0x0000ffffe0000000,
	  0xffff00000000ffff,
	  16,
	  { -1, -1, -1, -1 } },
	{ "64K LPA",
	  0x6c0160016,
	  0x20000000,
	  0x000fffffffff0000,
	  0x000fffffe0000000,
	  0xffff000000000fff,
	  16,
	  { 12, 13, 14, 15 } },
};

// Put @leaf at level 3 (page) or 2 (block) and translate the first address of the high half.
static enum a64_fault translate_leaf(const struct format *f, uint64_t leaf, bool block)
{
	setup_high(f->tcr);
	ck_assert_int_eq(regime.half[1].start_level, 2);
	if (!block)
		words_put(&words, 0x10000, 0x20003);
	words_put(&words, block ? 0x10000 : 0x20000, leaf);
	return translate(~UINT64_C(0) << regime.half[1].va_bits);
}

START_TEST(each_address_bit_of_a_page_is_where_the_format_has_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct format *f = &formats[i];

		for (int bit = f->granule; bit < 52; bit++) {
			int in = bit < 48 ? bit : f->high_bits[bit - 48];

			if (in < 0)
				continue;
			ck_assert_int_eq(translate_leaf(f, UINT64_C(1) << in | 3, false), A64_OK);
			ck_assert_msg(mapping.pa.a == UINT64_C(1) << bit, "%s, bit %d: %#" PRIx64,
				      f->name, bit, mapping.pa.a);
		}
		ck_assert_int_eq(translate_leaf(f, ~UINT64_C(0), false), A64_OK);
		ck_assert_msg(mapping.pa.a == f->page_ones, "%s: %#" PRIx64, f->name, mapping.pa.a);
	}
}
END_TEST

START_TEST(each_address_bit_of_a_block_is_where_the_format_has_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct format *f = &formats[i];

		ck_assert_int_eq(translate_leaf(f, ~UINT64_C(2), true), A64_OK);
		ck_assert_msg(mapping.pa.a == f->block_ones, "%s: %#" PRIx64, f->name,
			      mapping.pa.a);
		ck_assert_uint_eq(mapping.left, f->block);
		// bits between the granule and the size of the block (nT among them) are not
		// address
		ck_assert_int_eq(translate_leaf(f, f->block / 2 | 0x401, true), A64_OK);
		ck_assert_uint_eq(mapping.pa.a, 0);
		ck_assert_int_eq(translate_leaf(f, f->block | 0x401, true), A64_OK);
		ck_assert_uint_eq(mapping.pa.a, f->block);
		for (int bit = 48; bit < 52; bit++) {
			int in = f->high_bits[bit - 48];

			if (in < 0)
				continue;
			ck_assert_int_eq(translate_leaf(f, UINT64_C(1) << in | 1, true), A64_OK);
			ck_assert_uint_eq(mapping.pa.a, UINT64_C(1) << bit);
		}
	}
}
END_TEST

// Access flag, permissions, nG, contiguous, software bits; and those of table descriptors.
START_TEST(attributes_do_not_matter)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct format *f = &formats[i];

		ck_assert_int_eq(translate_leaf(f, f->no_address, false), A64_OK);
		ck_assert_msg(mapping.pa.a == 0, "%s: %#" PRIx64, f->name, mapping.pa.a);
		ck_assert_int_eq(translate_leaf(f, f->no_address & ~UINT64_C(2), true), A64_OK);
		ck_assert_msg(mapping.pa.a == 0, "%s: %#" PRIx64, f->name, mapping.pa.a);

		setup_high(f->tcr);
		words_put(&words, 0x10000, f->no_address | 0x20000);
		words_put(&words, 0x20000, 0x50003);
		ck_assert_int_eq(translate(~UINT64_C(0) << regime.half[1].va_bits), A64_OK);
		ck_assert_uint_eq(mapping.pa.a, 0x50000);
	}
}
END_TEST

START_TEST(each_address_bit_of_a_table_is_where_the_format_has_it)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const struct format *f = &formats[i];

		for (int bit = f->granule; bit < 52; bit++) {
			int in = bit < 48 ? bit : f->high_bits[bit - 48];

			if (in < 0 || bit == 16) // the first table lies there
				continue;
			setup_high(f->tcr);
			words_put(&words, 0x10000, UINT64_C(1) << in | 3);
			words_put(&words, UINT64_C(1) << bit, 0x50003);
			ck_assert_msg(translate(~UINT64_C(0) << regime.half[1].va_bits) == A64_OK,
				      "%s, bit %d", f->name, bit);
		}
		setup_high(f->tcr);
		words_put(&words, 0x10000, ~UINT64_C(0));
		words_put(&words, f->page_ones, 0x50003);
		ck_assert_int_eq(translate(~UINT64_C(0) << regime.half[1].va_bits), A64_OK);
		// a table is aligned to its granule: the bits below never reach the address
		ck_assert_uint_eq(mapping.pa.a, 0x50000);
	}
}
END_TEST

START_TEST(contiguous_pages_and_kpti_entries_of_real_kernels_translate)
{
	static const uint64_t leaf[] = { 0x00d0000040210783, 0x00d0000040210f83 };

	for (size_t i = 0; i < ARRAY_SIZE(leaf); i++) {
		ck_assert_int_eq(translate_leaf(&formats[0], leaf[i], false), A64_OK);
		ck_assert_uint_eq(mapping.pa.a, 0x40210000);
	}
	ck_assert_int_eq(translate_leaf(&formats[0], 0x0040000040200781, true), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x40200000);
}
END_TEST

START_TEST(table_that_points_at_itself_ends_at_the_last_level)
{
	static const struct {
		uint64_t tcr;
		int start;
	} row[] = {
		{ 0x580100010, 0 },
		{ 0x08000006800c000c, -1 },
		{ 0x540100010, 0 },
		{ 0x5c00c000c, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		setup_high(row[i].tcr);
		words_put(&words, 0x10000, 0x10003);
		ck_assert_int_eq(regime.half[1].start_level, row[i].start);
		ck_assert_int_eq(translate(~UINT64_C(0) << regime.half[1].va_bits), A64_OK);
		ck_assert_int_eq(mapping.level, 3);
		ck_assert_uint_eq(mapping.pa.a, 0x10000);
	}
}
END_TEST

START_TEST(disabled_half_is_named)
{
	static const struct {
		const char *name;
		uint64_t tcr;
		enum a64_fault low, high;
	} row[] = {
		{ "EPD0", 0x580100090, A64_DISABLED, A64_TABLE_NOT_RAM },
		{ "EPD1", 0x580900010, A64_TABLE_NOT_RAM, A64_DISABLED },
		{ "TG0 reserved", 0x58010c010, A64_DISABLED, A64_TABLE_NOT_RAM },
		{ "TG1 reserved", 0x500100010, A64_TABLE_NOT_RAM, A64_DISABLED },
		{ "T1SZ 15", 0x5800f0010, A64_TABLE_NOT_RAM, A64_DISABLED },
		{ "T0SZ 49", 0x580100031, A64_DISABLED, A64_TABLE_NOT_RAM },
		{ "T1SZ 11 with DS", 0x08000005800b0010, A64_TABLE_NOT_RAM, A64_DISABLED },
		{ "T1SZ 48, 64K", 0x5c0300010, A64_TABLE_NOT_RAM, A64_DISABLED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		setup_high(row[i].tcr);
		ck_assert_msg(translate(0x1000) == row[i].low, "%s", row[i].name);
		ck_assert_msg(translate(0xfffffffffffff000) == row[i].high, "%s", row[i].name);
	}
}
END_TEST

// M16: nothing is remembered from one walk to the next.
START_TEST(changed_table_is_seen)
{
	ck_assert_int_eq(translate_leaf(&formats[0], 0x40000003, false), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x40000000);
	words_put(&words, 0x20000, 0x50000003);
	ck_assert_int_eq(translate(0xffffffffc0000000), A64_OK);
	ck_assert_uint_eq(mapping.pa.a, 0x50000000);
	words_put(&words, 0x20000, 0);
	ck_assert_int_eq(translate(0xffffffffc0000000), A64_NOT_MAPPED);
}
END_TEST

Suite *suite_walk(void)
{
	Suite *s = suite_create("walk");
	TCase *tc = tcase_create("walk");

	tcase_add_test(tc, walk_gives_address_extent_and_level);
	tcase_add_test(tc, left_counts_to_the_end_of_page_or_block);
	tcase_add_test(tc, walk_stops_at_an_invalid_descriptor_at_any_level);
	tcase_add_test(tc, walk_never_leaves_ram);
	tcase_add_test(tc, walk_rejects_code_01_at_the_last_level);
	tcase_add_test(tc, empty_last_entry_is_not_page_zero);
	tcase_add_test(tc, any_wrong_bit_above_the_va_is_not_canonical);
	tcase_add_test(tc, tags_are_ignored_where_tbi_says_so);
	tcase_add_test(tc, limits_of_the_halves_are_exact);
	tcase_add_test(tc, first_table_of_1024_entries_is_used_whole);
	tcase_add_test(tc, blocks_are_legal_by_granule_level_and_width);
	tcase_add_test(tc, each_address_bit_of_a_page_is_where_the_format_has_it);
	tcase_add_test(tc, each_address_bit_of_a_block_is_where_the_format_has_it);
	tcase_add_test(tc, each_address_bit_of_a_table_is_where_the_format_has_it);
	tcase_add_test(tc, attributes_do_not_matter);
	tcase_add_test(tc, contiguous_pages_and_kpti_entries_of_real_kernels_translate);
	tcase_add_test(tc, table_that_points_at_itself_ends_at_the_last_level);
	tcase_add_test(tc, disabled_half_is_named);
	tcase_add_test(tc, changed_table_is_seen);
	suite_add_tcase(s, tc);
	return s;
}
