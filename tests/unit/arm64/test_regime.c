/* SPDX-License-Identifier: Apache-2.0 */
/* Registers to a regime: field codings, legal sizes, table addresses. */
#include <inttypes.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "tests/unit/arm64/suites.h"

#define TCR_EPD0 (UINT64_C(1) << 7)
#define TCR_EPD1 (UINT64_C(1) << 23)
#define TCR_TBI0 (UINT64_C(1) << 37)
#define TCR_TBI1 (UINT64_C(1) << 38)
#define TCR_DS	 (UINT64_C(1) << 59)

// Both halves 4K with 48 bits: a base to change single fields of.
#define TCR_PLAIN UINT64_C(0x0000000580100010)

START_TEST(registers_of_real_kernels_are_understood)
{
	static const struct {
		const char *name;
		uint64_t tcr;
		int granule, va_bits, start_level;
		bool tbi1, ds, wide;
	} row[] = {
		{ "5.10, cpu max", 0x014001b5b5503510, 12, 48, 0, false, false, false },
		{ "6.12, cpu max", 0x095001f6b54c350c, 12, 52, -1, true, true, true },
		{ "6.12 16K, cpu max", 0x095001f6754cb50c, 14, 52, 0, true, true, true },
		{ "6.12 16K, neoverse-n1", 0x005001f57551b511, 14, 47, 1, true, false, false },
		{ "cortex-a57", 0x00500074b5503510, 12, 48, 0, true, false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct a64_regime r;

		ck_assert_int_eq(a64_regime_init(&r, row[i].tcr, 0, 0), GS_OK);
		for (int half = 0; half < 2; half++) {
			const struct a64_half *h = &r.half[half];

			ck_assert_msg(h->enabled, "%s", row[i].name);
			ck_assert_msg(h->granule_bits == row[i].granule, "%s", row[i].name);
			ck_assert_msg(h->va_bits == row[i].va_bits, "%s", row[i].name);
			ck_assert_msg(h->start_level == row[i].start_level, "%s", row[i].name);
			ck_assert_msg(h->ds == row[i].ds, "%s", row[i].name);
			ck_assert_msg(h->wide_oa == row[i].wide, "%s", row[i].name);
		}
		ck_assert_msg(r.half[0].tbi, "%s", row[i].name);
		ck_assert_msg(r.half[1].tbi == row[i].tbi1, "%s", row[i].name);
	}
}
END_TEST

// M08: the two fields are coded differently, and one has its reserved code at 3, the other at 0.
START_TEST(granule_codes_of_the_halves_differ)
{
	static const int tg0[4] = { 12, 16, 14, 0 }, tg1[4] = { 0, 14, 12, 16 };

	for (uint64_t code0 = 0; code0 < 4; code0++) {
		for (uint64_t code1 = 0; code1 < 4; code1++) {
			uint64_t tcr = UINT64_C(0x0000000500100010) | code0 << 14 | code1 << 30;
			struct a64_regime r;
			enum gs_code rc = a64_regime_init(&r, tcr, 0x1000, 0x2000);

			ck_assert_int_eq(rc, tg0[code0] || tg1[code1] ? GS_OK : GS_EMALFORMED);
			ck_assert_int_eq(r.half[0].granule_bits, tg0[code0]);
			ck_assert_int_eq(r.half[1].granule_bits, tg1[code1]);
			ck_assert_int_eq(r.half[0].enabled, tg0[code0] != 0);
			ck_assert_int_eq(r.half[1].enabled, tg1[code1] != 0);
		}
	}
}
END_TEST

START_TEST(sizes_are_legal_by_granule_and_ds)
{
	static const struct {
		uint64_t tg0, tg1;
		bool ds;
		uint64_t min, max;
	} row[] = {
		{ 0, 2, false, 16, 48 }, { 0, 2, true, 12, 48 }, /* 4K */
		{ 2, 1, false, 16, 48 }, { 2, 1, true, 12, 48 }, /* 16K */
		{ 1, 3, false, 12, 47 }, { 1, 3, true, 12, 47 }, /* 64K */
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		for (uint64_t tnsz = 0; tnsz < 64; tnsz++) {
			bool legal = tnsz >= row[i].min && tnsz <= row[i].max;
			uint64_t tcr = tnsz | tnsz << 16 | row[i].tg0 << 14 | row[i].tg1 << 30 |
				       (row[i].ds ? TCR_DS : 0);
			struct a64_regime r;

			ck_assert_int_eq(a64_regime_init(&r, tcr, 0, 0),
					 legal ? GS_OK : GS_EMALFORMED);
			for (int half = 0; half < 2; half++) {
				ck_assert_int_eq(r.half[half].enabled, legal);
				ck_assert_int_eq(r.half[half].va_bits, legal ? 64 - (int)tnsz : 0);
			}
		}
	}
}
END_TEST

START_TEST(one_illegal_half_leaves_the_other_usable)
{
	struct a64_regime r;

	ck_assert_int_eq(a64_regime_init(&r, (TCR_PLAIN & ~UINT64_C(0x3f)) | 15, 0, 0), GS_OK);
	ck_assert(!r.half[0].enabled && r.half[1].enabled);
	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | 0x3f0000, 0, 0), GS_OK);
	ck_assert(r.half[0].enabled && !r.half[1].enabled);
}
END_TEST

START_TEST(epd_disables_a_half_but_keeps_its_fields)
{
	struct a64_regime r;

	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | TCR_EPD0, 0x1000, 0x2000), GS_OK);
	ck_assert(!r.half[0].enabled && r.half[1].enabled);
	ck_assert_int_eq(r.half[0].granule_bits, 12);
	ck_assert_uint_eq(r.half[0].table.a, 0x1000);
	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | TCR_EPD1, 0x1000, 0x2000), GS_OK);
	ck_assert(r.half[0].enabled && !r.half[1].enabled);
	ck_assert_uint_eq(r.half[1].table.a, 0x2000);
	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | TCR_EPD0 | TCR_EPD1, 0, 0), GS_EMALFORMED);
}
END_TEST

START_TEST(top_byte_is_ignored_a_half_at_a_time)
{
	struct a64_regime r;

	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | TCR_TBI0, 0, 0), GS_OK);
	ck_assert(r.half[0].tbi && !r.half[1].tbi);
	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN | TCR_TBI1, 0, 0), GS_OK);
	ck_assert(!r.half[0].tbi && r.half[1].tbi);
}
END_TEST

// M06: a code, not a formula; only the code for 52 bits changes how tables of 64K pages look.
START_TEST(ips_code_6_alone_widens_64k_descriptors)
{
	for (uint64_t ips = 0; ips < 8; ips++) {
		struct a64_regime r;

		// low half 4K, high half 64K
		ck_assert_int_eq(a64_regime_init(&r, UINT64_C(0xc0100010) | ips << 32, 0, 0),
				 GS_OK);
		ck_assert(!r.half[0].wide_oa);
		ck_assert_int_eq(r.half[1].wide_oa, ips == 6);
	}
}
END_TEST

START_TEST(ds_widens_4k_and_16k_alone)
{
	struct a64_regime r;

	// low half 16K, high half 64K
	ck_assert_int_eq(a64_regime_init(&r, UINT64_C(0x05c0108010) | TCR_DS, 0, 0), GS_OK);
	ck_assert(r.half[0].ds && r.half[0].wide_oa);
	ck_assert(!r.half[1].ds && !r.half[1].wide_oa);
}
END_TEST

START_TEST(start_level_follows_from_size_and_granule)
{
	static const struct {
		uint64_t tg0;
		int va_bits, level;
	} row[] = {
		{ 0, 16, 3 }, { 0, 21, 3 }, { 0, 22, 2 }, { 0, 30, 2 },	 { 0, 31, 1 },
		{ 0, 39, 1 }, { 0, 40, 0 }, { 0, 48, 0 }, { 0, 49, -1 }, { 0, 52, -1 },
		{ 2, 16, 3 }, { 2, 25, 3 }, { 2, 26, 2 }, { 2, 36, 2 },	 { 2, 37, 1 },
		{ 2, 47, 1 }, { 2, 48, 0 }, { 2, 52, 0 }, { 1, 17, 3 },	 { 1, 29, 3 },
		{ 1, 30, 2 }, { 1, 42, 2 }, { 1, 43, 1 }, { 1, 48, 1 },	 { 1, 52, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint64_t tcr = (uint64_t)(64 - row[i].va_bits) | row[i].tg0 << 14 | TCR_DS;
		struct a64_regime r;

		ck_assert_int_eq(a64_regime_init(&r, tcr, 0, 0), GS_OK);
		ck_assert_msg(r.half[0].start_level == row[i].level, "row %zu: level %d", i,
			      r.half[0].start_level);
	}
}
END_TEST

START_TEST(table_address_keeps_what_the_size_of_the_table_allows)
{
	static const struct {
		const char *name;
		uint64_t tcr, ttbr1, table;
	} row[] = {
		{ "4K/39", 0x580190019, ~UINT64_C(0), 0x0000fffffffff000 },
		{ "4K/40", 0x580180018, ~UINT64_C(0), 0x0000fffffffffff0 },
		{ "4K/48", 0x580100010, ~UINT64_C(0), 0x0000fffffffff000 },
		{ "4K/48 IPS 6", 0x680100010, ~UINT64_C(0), 0x0000fffffffff000 },
		{ "4K/48 DS", 0x0800000680100010, ~UINT64_C(0), 0x000ffffffffff000 },
		{ "4K/52 DS", 0x08000006800c000c, ~UINT64_C(0), 0x000fffffffffff80 },
		{ "4K/49 DS", 0x08000006800f000f, ~UINT64_C(0), 0x000fffffffffffc0 },
		{ "4K/16", 0x580300030, ~UINT64_C(0), 0x0000ffffffffff80 },
		{ "16K/47", 0x540110011, ~UINT64_C(0), 0x0000ffffffffc000 },
		{ "16K/48", 0x540100010, ~UINT64_C(0), 0x0000fffffffffff0 },
		{ "16K/48 DS", 0x0800000640100010, ~UINT64_C(0), 0x000fffffffffffc0 },
		{ "16K/52 DS", 0x08000006400c000c, ~UINT64_C(0), 0x000fffffffffff00 },
		{ "64K/42", 0x5c0160016, ~UINT64_C(0), 0x0000ffffffff0000 },
		{ "64K/48", 0x5c0100010, ~UINT64_C(0), 0x0000fffffffffe00 },
		{ "64K/48 LPA", 0x6c0100010, ~UINT64_C(0), 0x000ffffffffffe00 },
		{ "64K/52", 0x5c00c000c, ~UINT64_C(0), 0x0000ffffffffe000 },
		{ "64K/52 LPA", 0x6c00c000c, ~UINT64_C(0), 0x000fffffffffe000 },
		{ "real: 4K/52, in the middle of a page", 0x095001f6b54c350c, 0x0000000043372a81,
		  0x0000000043372a80 },
		{ "real: ASID and CnP", 0x014001b5b5503510, 0x0023000041b2b001,
		  0x0000000041b2b000 },
		{ "bits 5:2 are not address with 48 bits", 0x580100010, 0x000000004000003c,
		  0x0000000040000000 },
		{ "bit 2 is address bit 48 with 52", 0x095001f6b54c350c, 0x0000000000000004,
		  0x0001000000000000 },
		{ "bit 5 is address bit 51 with 52", 0x095001f6b54c350c, 0x0000000000000020,
		  0x0008000000000000 },
		{ "bit 47 is the highest with 48", 0x580100010, 0x0001800000000000,
		  0x0000800000000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct a64_regime r;

		ck_assert_int_eq(a64_regime_init(&r, row[i].tcr, 0, row[i].ttbr1), GS_OK);
		ck_assert_msg(r.half[1].table.a == row[i].table, "%s: %#" PRIx64, row[i].name,
			      r.half[1].table.a);
		ck_assert_uint_eq(r.half[0].table.a, 0);
		r.half[1].table = GPA(0);
		a64_half_set_table(&r.half[1], row[i].ttbr1);
		ck_assert_msg(r.half[1].table.a == row[i].table, "%s", row[i].name);
	}
}
END_TEST

START_TEST(table_of_an_illegal_half_stays_zero)
{
	struct a64_regime r;

	ck_assert_int_eq(a64_regime_init(&r, TCR_PLAIN & ~(UINT64_C(3) << 30), 0x1000, 0x2000),
			 GS_OK);
	ck_assert_uint_eq(r.half[1].table.a, 0);
	a64_half_set_table(&r.half[1], 0x2000);
	ck_assert_uint_eq(r.half[1].table.a, 0);
	ck_assert(!r.half[1].enabled);
}
END_TEST

START_TEST(fault_names_are_distinct)
{
	for (int i = 0; i < A64_FAULTS; i++) {
		ck_assert_str_ne(a64_fault_name((enum a64_fault)i), "unknown");
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(a64_fault_name((enum a64_fault)i),
					 a64_fault_name((enum a64_fault)k));
	}
	ck_assert_str_eq(a64_fault_name(A64_FAULTS), "unknown");
}
END_TEST

Suite *suite_regime(void)
{
	Suite *s = suite_create("regime");
	TCase *tc = tcase_create("regime");

	tcase_add_test(tc, registers_of_real_kernels_are_understood);
	tcase_add_test(tc, granule_codes_of_the_halves_differ);
	tcase_add_test(tc, sizes_are_legal_by_granule_and_ds);
	tcase_add_test(tc, one_illegal_half_leaves_the_other_usable);
	tcase_add_test(tc, epd_disables_a_half_but_keeps_its_fields);
	tcase_add_test(tc, top_byte_is_ignored_a_half_at_a_time);
	tcase_add_test(tc, ips_code_6_alone_widens_64k_descriptors);
	tcase_add_test(tc, ds_widens_4k_and_16k_alone);
	tcase_add_test(tc, start_level_follows_from_size_and_granule);
	tcase_add_test(tc, table_address_keeps_what_the_size_of_the_table_allows);
	tcase_add_test(tc, table_of_an_illegal_half_stays_zero);
	tcase_add_test(tc, fault_names_are_distinct);
	suite_add_tcase(s, tc);
	return s;
}
