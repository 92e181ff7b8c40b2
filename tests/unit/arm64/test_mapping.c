/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: from guest-physical memory to the highest and the lowest address that maps it. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "tests/unit/arm64/suites.h"
#include "tests/unit/arm64/walk_cases.h"
#include "tests/unit/arm64/words.h"

static struct words words;
static struct a64_regime regime;
static uint64_t budget;

#define PLENTY (UINT64_C(1) << 20)
#define NONE   UINT64_C(0x5a5a)

/* The address found, or NONE. */
static uint64_t find_among(const struct guest *g, uint64_t pa, enum a64_end end, uint64_t not_table)
{
	gva_t va = { NONE };
	bool found = a64_find_mapping(&regime, g, GPA(pa), end, not_table, &budget, &va);

	ck_assert(found == (va.a != NONE));
	return va.a;
}

static uint64_t find(uint64_t pa, enum a64_end end)
{
	budget = PLENTY;
	return find_among(&words.m.guest, pa, end, 0);
}

static void setup_high(uint64_t tcr)
{
	words_init(&words);
	ck_assert_int_eq(a64_regime_init(&regime, tcr, 0, 0x10000), GS_OK);
}

static bool setup_case(const struct walk_case *c)
{
	const bool high = BIT(c->va, 55);

	words_init(&words);
	for (unsigned int i = 0; i < c->entries; i++)
		words_put(&words, c->entry[i].pa, c->entry[i].value);
	ck_assert_int_eq(a64_regime_init(&regime, c->tcr, high ? 0x7770000 : c->ttbr,
					 high ? c->ttbr : 0x7770000),
			 GS_OK);
	return high;
}

// Of a page that is mapped once, in all formats; tables of the lower half are no way to it.
START_TEST(single_mapping_is_found_from_both_ends)
{
	unsigned int found = 0;

	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];
		const uint64_t expected = setup_case(c) ? c->va : NONE;

		ck_assert_msg(find(c->pa, A64_HIGHEST) == expected, "%s", c->name);
		ck_assert_msg(find(c->pa, A64_LOWEST) == expected, "%s", c->name);
		found += expected != NONE;
	}
	ck_assert_uint_ge(found, 10);
}
END_TEST

START_TEST(all_of_a_page_or_block_is_found_and_nothing_beside_it)
{
	for (size_t i = 0; i < walk_case_count; i++) {
		const struct walk_case *c = &walk_cases[i];

		if (!setup_case(c))
			continue;
		const struct a64_half *h = &regime.half[1];
		const uint64_t size = UINT64_C(1)
				      << (h->granule_bits + (3 - c->level) * (h->granule_bits - 3));
		const uint64_t into = size - c->left; // of the case's address

		for (int end = A64_HIGHEST; end <= A64_LOWEST; end++) {
			ck_assert_uint_eq(find(c->pa - into, (enum a64_end)end), c->va - into);
			ck_assert_uint_eq(find(c->pa + c->left - 1, (enum a64_end)end),
					  c->va + c->left - 1);
			ck_assert_uint_eq(find(c->pa - into - 1, (enum a64_end)end), NONE);
			ck_assert_uint_eq(find(c->pa + c->left, (enum a64_end)end), NONE);
		}
	}
}
END_TEST

/* 4K pages, 39 bits: level 1 is the first. Table of level 2 at 0x20000, of level 3 at 0x30000. */
#define TCR_39 0x580190019

#define VA_39(i, j, k)                                                                  \
	(UINT64_C(0xffffff8000000000) + ((uint64_t)(i) << 30) + ((uint64_t)(j) << 21) + \
	 ((uint64_t)(k) << 12))

static void setup_three_levels(void)
{
	setup_high(TCR_39);
	words_put(&words, 0x10000 + 8 * 5, 0x20003);
	words_put(&words, 0x20000 + 8 * 7, 0x30003);
}

START_TEST(highest_and_lowest_of_several_are_found)
{
	setup_three_levels();
	words_put(&words, 0x30000 + 8 * 0, 0x80000783);
	words_put(&words, 0x30000 + 8 * 100, 0x80001783);
	words_put(&words, 0x30000 + 8 * 511, 0x80000783);
	ck_assert_uint_eq(find(0x80000123, A64_LOWEST), VA_39(5, 7, 0) + 0x123);
	ck_assert_uint_eq(find(0x80000123, A64_HIGHEST), VA_39(5, 7, 511) + 0x123);
	ck_assert_uint_eq(find(0x80001fff, A64_LOWEST), VA_39(5, 7, 100) + 0xfff);
	ck_assert_uint_eq(find(0x80001fff, A64_HIGHEST), VA_39(5, 7, 100) + 0xfff);
	// the first and the last entries there are, as blocks that hold the page
	words_put(&words, 0x10000, 0x80000781);
	words_put(&words, 0x10ff8, 0x80000781);
	ck_assert_uint_eq(find(0x80001fff, A64_LOWEST), VA_39(0, 0, 1) + 0xfff);
	ck_assert_uint_eq(find(0x80001fff, A64_HIGHEST), VA_39(511, 0, 1) + 0xfff);
	// beside a table, at a level of blocks
	words_put(&words, 0x10000, 0);
	words_put(&words, 0x10ff8, 0);
	words_put(&words, 0x20000 + 8 * 8, 0x80000781);
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), VA_39(5, 7, 0));
	ck_assert_uint_eq(find(0x80000000, A64_HIGHEST), VA_39(5, 8, 0));
	ck_assert_uint_eq(find(0x801fffff, A64_LOWEST), VA_39(5, 8, 511) + 0xfff);
}
END_TEST

START_TEST(tables_that_are_shared_give_each_of_their_addresses)
{
	setup_three_levels();
	words_put(&words, 0x10000 + 8 * 3, 0x20003);
	words_put(&words, 0x20000 + 8 * 400, 0x30003);
	words_put(&words, 0x30000 + 8 * 9, 0x80000783);
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), VA_39(3, 7, 9));
	ck_assert_uint_eq(find(0x80000000, A64_HIGHEST), VA_39(5, 400, 9));
}
END_TEST

START_TEST(invalid_and_reserved_descriptors_are_no_mapping)
{
	static const uint64_t entries[] = { 0, 0x80000782, 0x80000780, 0x80000781, 2 };

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		setup_three_levels();
		words_put(&words, 0x30000, entries[i]); // a block at the last level is none
		ck_assert_uint_eq(find(0x80000000, A64_LOWEST), NONE);
		ck_assert_uint_eq(find(0x80000000, A64_HIGHEST), NONE);
	}
	// 48 bits: no blocks at level 0
	setup_high(0x580100010);
	words_put(&words, 0x10000, 0x781);
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), NONE);
}
END_TEST

START_TEST(half_that_is_disabled_maps_nothing)
{
	setup_three_levels();
	words_put(&words, 0x30000, 0x80000783);
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), VA_39(5, 7, 0));
	regime.half[1].enabled = false;
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), NONE);
	ck_assert_uint_eq(budget, PLENTY);
}
END_TEST

START_TEST(tables_that_are_not_ram_are_passed_over)
{
	setup_three_levels();
	words_put(&words, 0x30000, 0x80000783);
	words_put(&words, 0x10000 + 8 * 4, 0x7777000 | 3);
	words_put(&words, 0x10000 + 8 * 6, UINT64_C(0xfffffffff003));
	words_put(&words, 0x20000 + 8 * 6, 0x7778000 | 3);
	words_put(&words, 0x20000 + 8 * 8, 0x7778000 | 3);
	ck_assert_uint_eq(find(0x80000000, A64_LOWEST), VA_39(5, 7, 0));
	ck_assert_uint_eq(find(0x80000000, A64_HIGHEST), VA_39(5, 7, 0));
}
END_TEST

// What the CPU ignores in a table's descriptor tells a page from one, where the guest leaves it 0.
START_TEST(descriptors_with_bits_that_no_table_has_are_not_followed)
{
	const uint64_t uxn = UINT64_C(1) << 54;

	setup_three_levels();
	words_put(&words, 0x30000 + 8 * 9, 0x80000783 | uxn);
	words_put(&words, 0x10000 + 8 * 3, 0x20003 | uxn);
	words_put(&words, 0x20000 + 8 * 400, 0x30003 | uxn);
	words_put(&words, 0x10000 + 8 * 2, 0x80000781 | uxn);
	budget = PLENTY;
	// pages and blocks may have them
	ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, A64_HIGHEST, uxn), VA_39(5, 7, 9));
	ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, A64_LOWEST, uxn), VA_39(2, 0, 0));
	words_put(&words, 0x10000 + 8 * 2, 0);
	ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, A64_LOWEST, uxn), VA_39(5, 7, 9));
	ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, A64_LOWEST, uxn << 1),
			  VA_39(3, 7, 9));
	ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, A64_HIGHEST, 0), VA_39(5, 400, 9));
}
END_TEST

START_TEST(budget_counts_descriptors_and_ends_the_search)
{
	// to the mapping: those before, and those on the way down
	const uint64_t up = 6 + 8 + 10, down = (512 - 5) + (512 - 7) + (512 - 9);

	for (int end = A64_HIGHEST; end <= A64_LOWEST; end++) {
		const uint64_t needed = end == A64_LOWEST ? up : down;

		setup_three_levels();
		words_put(&words, 0x30000 + 8 * 9, 0x80000783);
		budget = needed + 100;
		ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, (enum a64_end)end, 0),
				  VA_39(5, 7, 9));
		ck_assert_uint_eq(budget, 100);
		budget = needed;
		ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, (enum a64_end)end, 0),
				  VA_39(5, 7, 9));
		ck_assert_uint_eq(budget, 0);
		budget = needed - 1;
		ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, (enum a64_end)end, 0),
				  NONE);
		ck_assert_uint_eq(budget, 0);
		ck_assert_uint_eq(find_among(&words.m.guest, 0x80000000, (enum a64_end)end, 0),
				  NONE);
		// all there are
		budget = PLENTY;
		ck_assert_uint_eq(find_among(&words.m.guest, 0x90000000, (enum a64_end)end, 0),
				  NONE);
		ck_assert_uint_eq(budget, PLENTY - 3 * 512);
	}
}
END_TEST

START_TEST(table_that_points_at_itself_ends_with_the_budget)
{
	static const uint64_t tcr[] = { 0x580100010, 0x08000006800c000c, 0x540100010, 0x5c00c000c };

	for (size_t i = 0; i < ARRAY_SIZE(tcr); i++) {
		for (int end = A64_HIGHEST; end <= A64_LOWEST; end++) {
			static uint64_t table[8192] __attribute__((aligned(65536)));
			static struct memory_guest m;

			for (size_t e = 0; e < ARRAY_SIZE(table); e++)
				table[e] = 0x10003;
			memory_guest_init(&m, 0);
			ck_assert_int_eq(memory_guest_add(&m, GPA(0x10000), table, sizeof(table)),
					 GS_OK);
			ck_assert_int_eq(a64_regime_init(&regime, tcr[i], 0, 0x10000), GS_OK);
			budget = 3000000;
			ck_assert_uint_eq(find_among(&m.guest, 0x80000000, (enum a64_end)end, 0),
					  NONE);
			ck_assert_uint_eq(budget, 0);
		}
	}
}
END_TEST

/* --- against the walk itself ------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The last two levels, in some 128 KiB of tables: of all addresses each is walked to. */
static const struct {
	uint64_t tcr;
	unsigned int granule_bits, va_bits;
} small[] = {
	{ 0x580270027, 12, 25 },
	{ 0x5401c001c + (UINT64_C(8) << 16) + 8, 14, 28 },
	{ 0x5c01f001f, 16, 33 },
};

static uint64_t slow(const struct guest *g, unsigned int granule_bits, unsigned int va_bits,
		     uint64_t pa, enum a64_end end)
{
	const uint64_t n = UINT64_C(1) << (va_bits - granule_bits);

	for (uint64_t i = 0; i < n; i++) {
		const uint64_t page = end == A64_LOWEST ? i : n - 1 - i;
		const uint64_t va = (~UINT64_C(0) << va_bits) + (page << granule_bits);
		const uint64_t in = pa & ((UINT64_C(1) << granule_bits) - 1);
		struct a64_mapping m;

		if (!a64_translate(&regime, g, GVA(va + in), &m) && m.pa.a == pa)
			return va + in;
	}
	return NONE;
}

#define TABLES_AT 0x40000000

static void fill(uint64_t *entry, size_t n, unsigned int granule_bits, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t r = next_random(seed), page = (r >> 8) % 16;

		// nothing, a table or page among the tables, a block or reserved, another page
		switch (r % 6) {
		case 0: entry[i] = (TABLES_AT + ((page % 4) << granule_bits)) | 3; break;
		case 1: entry[i] = (page << (2 * granule_bits - 3)) | 0x701; break;
		case 2: entry[i] = (page << granule_bits) | 0x703; break;
		default: entry[i] = 0; break;
		}
	}
}

START_TEST(random_tables_give_what_walks_of_all_addresses_give)
{
	static uint64_t tables[4 * 8192];
	uint64_t seed = 20240229, found = 0, missing = 0;

	for (size_t round = 0; round < 60; round++) {
		const unsigned int bits = small[round % 3].granule_bits;
		const unsigned int va_bits = small[round % 3].va_bits;
		static struct memory_guest m;

		memset(tables, 0, sizeof(tables));
		fill(tables, ((size_t)4 << bits) / 8, bits, &seed);
		memory_guest_init(&m, 0);
		ck_assert_int_eq(memory_guest_add(&m, GPA(TABLES_AT), tables, (size_t)4 << bits),
				 GS_OK);
		ck_assert_int_eq(a64_regime_init(&regime, small[round % 3].tcr, 0, TABLES_AT),
				 GS_OK);
		ck_assert_int_eq(regime.half[1].start_level, 2);
		ck_assert_uint_eq(regime.half[1].granule_bits, bits);
		ck_assert_uint_eq(regime.half[1].va_bits, va_bits);
		for (int i = 0; i < 8; i++) {
			const uint64_t r = next_random(&seed);
			const uint64_t pa = (((r >> 8) % 32) << bits) + (r >> 20) % 4096;

			for (int end = A64_HIGHEST; end <= A64_LOWEST; end++) {
				uint64_t expected =
					slow(&m.guest, bits, va_bits, pa, (enum a64_end)end);

				budget = PLENTY;
				uint64_t have = find_among(&m.guest, pa, (enum a64_end)end, 0);
				ck_assert_msg(have == expected,
					      "round %zu, %#" PRIx64 ": %#" PRIx64
					      " instead of %#" PRIx64,
					      round, pa, have, expected);
				found += have != NONE;
				missing += have == NONE;
			}
		}
	}
	ck_assert_uint_gt(found, 100);
	ck_assert_uint_gt(missing, 10);
}
END_TEST

Suite *suite_mapping(void)
{
	Suite *s = suite_create("mapping");
	TCase *tc = tcase_create("mapping");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, single_mapping_is_found_from_both_ends);
	tcase_add_test(tc, all_of_a_page_or_block_is_found_and_nothing_beside_it);
	tcase_add_test(tc, highest_and_lowest_of_several_are_found);
	tcase_add_test(tc, tables_that_are_shared_give_each_of_their_addresses);
	tcase_add_test(tc, invalid_and_reserved_descriptors_are_no_mapping);
	tcase_add_test(tc, half_that_is_disabled_maps_nothing);
	tcase_add_test(tc, tables_that_are_not_ram_are_passed_over);
	tcase_add_test(tc, descriptors_with_bits_that_no_table_has_are_not_followed);
	tcase_add_test(tc, budget_counts_descriptors_and_ends_the_search);
	tcase_add_test(tc, table_that_points_at_itself_ends_with_the_budget);
	tcase_add_test(tc, random_tables_give_what_walks_of_all_addresses_give);
	suite_add_tcase(s, tc);
	return s;
}
