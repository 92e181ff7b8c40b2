/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a half one after another: which, in which order, what they cover. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "introspect/guest/memory_guest.h"
#include "tests/unit/arm64/suites.h"

#define RAM	 UINT64_C(0x40000000)
#define RAM_SIZE (UINT64_C(1) << 20)
#define OUTSIDE	 (RAM + RAM_SIZE)

static struct memory_guest memory;
static uint8_t *ram;
static struct a64_regime regime;
static struct a64_tables walk;
static struct a64_table table;

static void setup(void)
{
	ram = calloc(1, RAM_SIZE);
	ck_assert_ptr_nonnull(ram);
	memory_guest_init(&memory, 0);
	ck_assert_int_eq(memory_guest_add(&memory, GPA(RAM), ram, RAM_SIZE), GS_OK);
}

static void teardown(void)
{
	free(ram);
}

static void put(uint64_t pa, uint32_t index, uint64_t entry)
{
	memcpy(ram + (pa - RAM) + 8 * index, &entry, sizeof(entry));
}

/* The lower half, with its first table at the start of RAM. */
static void begin(uint64_t tcr, int last_level)
{
	ck_assert_int_eq(a64_regime_init(&regime, tcr, RAM, 0), GS_OK);
	a64_tables_begin(&walk, &regime.half[0], &memory.guest, last_level);
}

static void expect_next(int level, uint64_t at, uint64_t first)
{
	ck_assert_int_eq(a64_tables_next(&walk, &table), GS_OK);
	ck_assert_int_eq(table.level, level);
	ck_assert_uint_eq(table.at.a, at);
	ck_assert_uint_eq(table.first, first);
}

static void expect_end(void)
{
	// and it stays the end
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(a64_tables_next(&walk, &table), GS_ENOENT);
}

/* 4K pages, 39 bits: levels 1 to 3; TTBR1 off */
#define TCR_39 (UINT64_C(1) << 23 | 25)

#define L2 (RAM + 0x1000)
#define L3 (RAM + 0x2000)

// With holes, a block, entries that are reserved, and words that only look like entries.
START_TEST(tables_come_before_those_below_in_ascending_order)
{
	put(RAM, 0, L2 | 3);
	put(RAM, 511, (L2 + 0x2000) | 3);
	put(RAM, 1, 0x80000000 | 1);	 // a block of 1 GiB
	put(RAM, 2, (L2 + 0x4000) | 2);	 // not valid
	put(L2, 31, L3 | 3);		 // the last of the entries that are read at once
	put(L2, 32, 0x40200000 | 0x701); // a block
	put(L2, 33, (L3 + 0x2000) | 3);	 // in those that are read next
	put(L3, 7, 0x40000783);		 // a page: no table
	put(L2 + 0x2000, 511, (L3 + 0x4000) | UINT64_C(1) << 59 | 0x803); // with attributes
	begin(TCR_39, 3);
	expect_next(1, RAM, 0);
	ck_assert_uint_eq(table.entries, 512);
	ck_assert_uint_eq(table.entry_size, UINT64_C(1) << 30);
	expect_next(2, L2, 0);
	ck_assert_uint_eq(table.entries, 512);
	ck_assert_uint_eq(table.entry_size, UINT64_C(1) << 21);
	expect_next(3, L3, UINT64_C(31) << 21);
	ck_assert_uint_eq(table.entries, 512);
	ck_assert_uint_eq(table.entry_size, 4096);
	expect_next(3, L3 + 0x2000, UINT64_C(33) << 21);
	expect_next(2, L2 + 0x2000, UINT64_C(511) << 30);
	expect_next(3, L3 + 0x4000, UINT64_C(511) << 30 | UINT64_C(511) << 21);
	expect_end();
}
END_TEST

START_TEST(levels_below_the_last_that_is_wanted_are_left_alone)
{
	put(RAM, 4, L2 | 3);
	put(L2, 5, L3 | 3);
	begin(TCR_39, 2);
	expect_next(1, RAM, 0);
	expect_next(2, L2, UINT64_C(4) << 30);
	expect_end();
	begin(TCR_39, 1);
	expect_next(1, RAM, 0);
	expect_end();
	begin(TCR_39, 0); // there is no such level
	expect_end();
}
END_TEST

START_TEST(tables_that_lead_to_themselves_end_with_the_levels)
{
	put(RAM, 0, RAM | 3);
	put(RAM, 9, RAM | 3);
	begin(TCR_39, 3);
	for (uint64_t i = 0; i < 2; i++) {
		if (!i)
			expect_next(1, RAM, 0);
		expect_next(2, RAM, (i * 9) << 30);
		expect_next(3, RAM, (i * 9) << 30);
		expect_next(3, RAM, (i * 9) << 30 | UINT64_C(9) << 21);
	}
	expect_end();
}
END_TEST

START_TEST(table_that_is_left_alone_costs_what_is_below_it)
{
	put(RAM, 3, L2 | 3);
	put(L2, 0, L3 | 3);
	put(RAM, 4, (L2 + 0x2000) | 3);
	begin(TCR_39, 3);
	expect_next(1, RAM, 0);
	expect_next(2, L2, UINT64_C(3) << 30);
	a64_tables_skip(&walk);
	expect_next(2, L2 + 0x2000, UINT64_C(4) << 30);
	a64_tables_skip(&walk);
	expect_end();
	begin(TCR_39, 3);
	expect_next(1, RAM, 0);
	a64_tables_skip(&walk);
	expect_end();
}
END_TEST

START_TEST(table_that_cannot_be_read_is_named_and_the_walk_goes_on)
{
	put(RAM, 3, OUTSIDE | 3);
	put(RAM, 4, L2 | 3);
	put(L2, 0, OUTSIDE | 3); // of the last level: its entries are not looked at
	put(L2, 1, L3 | 3);
	begin(TCR_39, 3);
	expect_next(1, RAM, 0);
	expect_next(2, OUTSIDE, UINT64_C(3) << 30);
	ck_assert_int_eq(a64_tables_next(&walk, &table), GS_EFAULT);
	ck_assert_uint_eq(table.at.a, OUTSIDE);
	ck_assert_int_eq(table.level, 2);
	expect_next(2, L2, UINT64_C(4) << 30);
	expect_next(3, OUTSIDE, UINT64_C(4) << 30);
	expect_next(3, L3, UINT64_C(4) << 30 | UINT64_C(1) << 21);
	expect_end();
	// the first one
	ck_assert_int_eq(a64_regime_init(&regime, TCR_39, OUTSIDE, 0), GS_OK);
	a64_tables_begin(&walk, &regime.half[0], &memory.guest, 3);
	expect_next(1, OUTSIDE, 0);
	ck_assert_int_eq(a64_tables_next(&walk, &table), GS_EFAULT);
	expect_end();
}
END_TEST

// The first part of a table is there: what it leads to was given before its end was missed.
START_TEST(table_that_ends_at_the_end_of_memory_is_looked_at_as_far_as_it_goes)
{
	const uint64_t at = OUTSIDE - 0x800;

	memory.ranges[0].size -= 0x800;
	put(RAM, 0, (at & ~UINT64_C(0xfff)) | 3);
	put(at & ~UINT64_C(0xfff), 255, L3 | 3);
	begin(TCR_39, 3);
	expect_next(1, RAM, 0);
	expect_next(2, at & ~UINT64_C(0xfff), 0);
	expect_next(3, L3, UINT64_C(255) << 21);
	ck_assert_int_eq(a64_tables_next(&walk, &table), GS_EFAULT);
	ck_assert_uint_eq(table.at.a, at & ~UINT64_C(0xfff));
	expect_end();
}
END_TEST

static const struct form {
	const char *name;
	uint64_t tcr; /* T0SZ, TG0, IPS, DS */
	int level;
	uint32_t entries;
	unsigned int lsb; /* of the first table's entries */
	uint32_t below;	  /* entries of a table below */
} forms[] = {
	{ "4K, 48 bits", 16, 0, 512, 39, 512 },
	{ "4K, 52 bits", UINT64_C(1) << 59 | 12, -1, 16, 48, 512 },
	{ "4K, 47 bits", 17, 0, 256, 39, 512 },
	{ "16K, 47 bits", 2 << 14 | 17, 1, 2048, 36, 2048 },
	{ "16K, 48 bits", 2 << 14 | 16, 0, 2, 47, 2048 },
	{ "16K, 52 bits", UINT64_C(1) << 59 | 2 << 14 | 12, 0, 32, 47, 2048 },
	{ "64K, 48 bits", 1 << 14 | 16, 1, 64, 42, 8192 },
	{ "64K, 52 bits", UINT64_C(6) << 32 | 1 << 14 | 12, 1, 1024, 42, 8192 },
};

START_TEST(first_table_has_the_entries_its_half_needs)
{
	const struct form *f = &forms[_i];
	const uint64_t below = RAM + 0x10000; // aligned to any page

	put(RAM, 0, below | 3);
	put(RAM, f->entries - 1, (below + 0x10000) | 3);
	put(RAM, f->entries, (below + 0x20000) | 3); // beyond its end
	begin(f->tcr | UINT64_C(1) << 23, f->level + 1);
	expect_next(f->level, RAM, 0);
	ck_assert_msg(table.entries == f->entries, "%s: %u", f->name, table.entries);
	ck_assert_uint_eq(table.entry_size, UINT64_C(1) << f->lsb);
	expect_next(f->level + 1, below, 0);
	ck_assert_uint_eq(table.entries, f->below);
	expect_next(f->level + 1, below + 0x10000, (uint64_t)(f->entries - 1) << f->lsb);
	expect_end();
}
END_TEST

// Five levels, each table with its last entry in use: the highest address there is.
START_TEST(walk_goes_through_five_levels)
{
	uint64_t at = RAM, first = 0;

	put(RAM, 15, (RAM + 0x1000) | 3);
	for (int i = 1; i < 4; i++)
		put(RAM + 0x1000 * (uint64_t)i, 511, (RAM + 0x1000 * (uint64_t)(i + 1)) | 3);
	begin(UINT64_C(1) << 59 | UINT64_C(1) << 23 | 12, 3);
	for (int level = -1; level <= 3; level++) {
		expect_next(level, at, first);
		first = table.first + (table.entries - 1) * table.entry_size;
		at += 0x1000;
	}
	ck_assert_uint_eq(first + table.entry_size, UINT64_C(1) << 52);
	expect_end();
}
END_TEST

START_TEST(half_that_is_illegal_has_no_tables)
{
	const struct a64_half none = { 0 };

	a64_tables_begin(&walk, &none, &memory.guest, 3);
	expect_end();
}
END_TEST

Suite *suite_tables(void)
{
	Suite *s = suite_create("tables");
	TCase *tc = tcase_create("tables");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, tables_come_before_those_below_in_ascending_order);
	tcase_add_test(tc, levels_below_the_last_that_is_wanted_are_left_alone);
	tcase_add_test(tc, tables_that_lead_to_themselves_end_with_the_levels);
	tcase_add_test(tc, table_that_is_left_alone_costs_what_is_below_it);
	tcase_add_test(tc, table_that_cannot_be_read_is_named_and_the_walk_goes_on);
	tcase_add_test(tc, table_that_ends_at_the_end_of_memory_is_looked_at_as_far_as_it_goes);
	tcase_add_loop_test(tc, first_table_has_the_entries_its_half_needs, 0, ARRAY_SIZE(forms));
	tcase_add_test(tc, walk_goes_through_five_levels);
	tcase_add_test(tc, half_that_is_illegal_has_no_tables);
	suite_add_tcase(s, tc);
	return s;
}
