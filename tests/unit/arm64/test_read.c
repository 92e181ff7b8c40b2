/* SPDX-License-Identifier: Apache-2.0 */
/* Reading guest-virtual memory: page borders, ends of the address space, what is not RAM. */
#include <string.h>

#include "base/util.h"
#include "introspect/arm64/arm64.h"
#include "introspect/guest/memory_guest.h"
#include "tests/unit/arm64/suites.h"

#define RAM_START UINT64_C(0x40000000)
#define RAM_SIZE  0x8000
#define TABLE	  0x0000 /* offsets in RAM: level 3, 21 bits of VA in each half */
#define LOW_TABLE 0x1000
#define PAGE_A	  0x3000
#define PAGE_B	  0x6000
#define TCR_4K_21 UINT64_C(0x5802b002b) /* T0SZ = T1SZ = 43 */
#define HIGH	  UINT64_C(0xffffffffffe00000)
#define UART	  UINT64_C(0x09000000)

static _Alignas(8) unsigned char ram[RAM_SIZE];
static struct memory_guest memory;
static struct a64_regime regime;

static void put_entry(unsigned int table, unsigned int index, uint64_t value)
{
	memcpy(ram + table + index * 8, &value, 8);
}

/* Pages 1 and 2 of the high half are A and B in reverse order, 3 is a device, 511 is A. */
static void setup(void)
{
	memset(ram, 0, sizeof(ram));
	for (unsigned int i = 0; i < 0x1000; i++) {
		ram[PAGE_A + i] = (unsigned char)(i * 7 + 1);
		ram[PAGE_B + i] = (unsigned char)(i * 5 + 2);
	}
	put_entry(TABLE, 1, (RAM_START + PAGE_B) | 0x783);
	put_entry(TABLE, 2, (RAM_START + PAGE_A) | 0x783);
	put_entry(TABLE, 3, UART | 0x783);
	put_entry(TABLE, 511, (RAM_START + PAGE_A) | 0x783);
	put_entry(LOW_TABLE, 0, (RAM_START + PAGE_B) | 0x783);
	put_entry(LOW_TABLE, 511, (RAM_START + PAGE_B) | 0x783);
	memory_guest_init(&memory, 0);
	ck_assert_int_eq(memory_guest_add(&memory, GPA(RAM_START), ram, sizeof(ram)), GS_OK);
	ck_assert_int_eq(
		a64_regime_init(&regime, TCR_4K_21, RAM_START + LOW_TABLE, RAM_START + TABLE),
		GS_OK);
}

static enum a64_fault read_fault(uint64_t va, void *buf, size_t len)
{
	enum a64_fault fault = A64_FAULTS;
	enum gs_code rc = a64_read(&regime, &memory.guest, GVA(va), buf, len, &fault);

	ck_assert_int_eq(rc, fault ? GS_EFAULT : GS_OK);
	// the same without the reason
	ck_assert_int_eq(a64_read(&regime, &memory.guest, GVA(va), buf, len, NULL), rc);
	return fault;
}

START_TEST(read_crosses_pages_that_are_apart)
{
	static unsigned char buf[0x2000];

	ck_assert_int_eq(read_fault(HIGH + 0x1ffd, buf, 6), A64_OK);
	ck_assert_mem_eq(buf, ram + PAGE_B + 0xffd, 3);
	ck_assert_mem_eq(buf + 3, ram + PAGE_A, 3);
	ck_assert_int_eq(read_fault(HIGH + 0x1000, buf, sizeof(buf)), A64_OK);
	ck_assert_mem_eq(buf, ram + PAGE_B, 0x1000);
	ck_assert_mem_eq(buf + 0x1000, ram + PAGE_A, 0x1000);
}
END_TEST

START_TEST(read_of_nothing_needs_no_mapping)
{
	ck_assert_int_eq(read_fault(HIGH, NULL, 0), A64_OK);
	ck_assert_int_eq(read_fault(UINT64_C(0x1234) << 48, NULL, 0), A64_OK);
}
END_TEST

START_TEST(read_stops_at_an_unmapped_page)
{
	static unsigned char buf[0x1000];

	memset(buf, 0xee, sizeof(buf));
	// pages 0 and 4 are unmapped
	ck_assert_int_eq(read_fault(HIGH + 0xffc, buf, 8), A64_NOT_MAPPED);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(buf[i], 0xee);
	put_entry(TABLE, 3, 0);
	ck_assert_int_eq(read_fault(HIGH + 0x2ffc, buf, 8), A64_NOT_MAPPED);
	ck_assert_mem_eq(buf, ram + PAGE_A + 0xffc, 4); // may have been copied
	for (int i = 4; i < 8; i++)
		ck_assert_uint_eq(buf[i], 0xee);
}
END_TEST

// M17: mapped, but nothing we may read; the buffer stays as it was.
START_TEST(read_of_a_device_is_not_ram)
{
	unsigned char buf[8];

	memset(buf, 0xee, sizeof(buf));
	ck_assert_int_eq(read_fault(HIGH + 0x3000, buf, sizeof(buf)), A64_NOT_RAM);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(buf[i], 0xee);
	ck_assert_int_eq(read_fault(HIGH + 0x2ffc, buf, sizeof(buf)), A64_NOT_RAM);
}
END_TEST

START_TEST(block_that_maps_no_ram_translates_but_does_not_read)
{
	struct a64_mapping m;
	uint64_t word = 0x5a5a;

	// 30 bits: the first table is level 2
	ck_assert_int_eq(a64_regime_init(&regime, UINT64_C(0x580220022), 0, RAM_START + TABLE),
			 GS_OK);
	put_entry(TABLE, 0, UART | 0x781);
	ck_assert_int_eq(a64_translate(&regime, &memory.guest, GVA(0xffffffffc0000010), &m),
			 A64_OK);
	ck_assert_uint_eq(m.pa.a, UART + 0x10);
	ck_assert_int_eq(m.level, 2);
	ck_assert_int_eq(read_fault(0xffffffffc0000010, &word, 8), A64_NOT_RAM);
	ck_assert_uint_eq(word, 0x5a5a);
	// a block that begins as RAM and goes on behind its end
	unsigned char buf[16];
	put_entry(TABLE, 0, RAM_START | 0x781);
	ck_assert_int_eq(read_fault(0xffffffffc0000000 + RAM_SIZE - 16, buf, 16), A64_OK);
	ck_assert_int_eq(read_fault(0xffffffffc0000000 + RAM_SIZE - 8, buf, 16), A64_NOT_RAM);
}
END_TEST

START_TEST(length_near_2_64_ends_at_the_first_fault)
{
	static unsigned char buf[0x2000];
	const size_t len[] = { SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 0xfff, SIZE_MAX / 2 + 1 };

	for (size_t i = 0; i < ARRAY_SIZE(len); i++) {
		// hides the length from the compiler, which knows the size of buf
		volatile size_t n = len[i];

		ck_assert_int_eq(read_fault(HIGH + 0x1000, buf, n), A64_NOT_RAM);
		ck_assert_int_eq(read_fault(HIGH, buf, n), A64_NOT_MAPPED);
	}
}
END_TEST

START_TEST(read_does_not_wrap_into_the_low_half)
{
	unsigned char buf[16] = { 0 };

	// both the last page of all and page 0 are mapped
	ck_assert_int_eq(read_fault(UINT64_MAX - 7, buf, 8), A64_OK);
	ck_assert_mem_eq(buf, ram + PAGE_A + 0xff8, 8);
	ck_assert_int_eq(read_fault(0, buf, 8), A64_OK);
	ck_assert_int_eq(read_fault(UINT64_MAX - 7, buf, 9), A64_NOT_CANONICAL);
	ck_assert_int_eq(read_fault(UINT64_MAX, buf, 2), A64_NOT_CANONICAL);
	// with tags, where the next address would be 0 under another tag
	regime.half[0].tbi = true;
	regime.half[1].tbi = true;
	ck_assert_int_eq(read_fault(0xf3fffffffffffff8, buf, 8), A64_OK);
	ck_assert_int_eq(read_fault(0xf400000000000000, buf, 8), A64_OK);
	ck_assert_int_eq(read_fault(0xf3fffffffffffff8, buf, 16), A64_NOT_CANONICAL);
}
END_TEST

START_TEST(read_ends_where_the_low_half_ends)
{
	unsigned char buf[16];

	ck_assert_int_eq(read_fault(0x1ffff8, buf, 8), A64_OK);
	ck_assert_int_eq(read_fault(0x1ffff8, buf, 9), A64_NOT_CANONICAL);
	ck_assert_int_eq(read_fault(0x200000, buf, 1), A64_NOT_CANONICAL);
}
END_TEST

static unsigned int source_reads;
static bool source_fails;

static enum gs_code source_read(void *priv, gpa_t at, void *buf, size_t len)
{
	(void)priv;
	ck_assert(gs_in_range(at.a, len, RAM_START, RAM_SIZE));
	source_reads++;
	if (source_fails)
		return GS_EFAULT;
	memcpy(buf, ram + (at.a - RAM_START), len);
	return GS_OK;
}

START_TEST(source_without_a_mapping_is_asked_for_ram_only)
{
	const struct guest_ops ops = { .read = source_read };
	uint64_t word = 0;

	memory.guest.ops = &ops;
	memory.ranges[0].host = NULL;
	source_reads = 0;
	source_fails = false;
	ck_assert_int_eq(a64_read(&regime, &memory.guest, GVA(HIGH + 0x1000), &word, 8, NULL),
			 GS_OK);
	ck_assert_mem_eq(&word, ram + PAGE_B, 8);
	ck_assert_uint_eq(source_reads, 2); // the table and the page
	ck_assert_int_eq(read_fault(HIGH + 0x3000, &word, 8), A64_NOT_RAM);
	ck_assert_uint_eq(source_reads, 4); // the tables of two tries, no device
	source_fails = true;
	ck_assert_int_eq(read_fault(HIGH + 0x1000, &word, 8), A64_TABLE_NOT_RAM);
}
END_TEST

// M19: confidential or empty memory reads as zeros.
START_TEST(ram_of_zeros_maps_nothing)
{
	uint64_t word = 0x5a5a;

	memset(ram, 0, sizeof(ram));
	for (uint64_t va = HIGH; va; va += 0x1000)
		ck_assert_int_eq(read_fault(va, &word, 8), A64_NOT_MAPPED);
	ck_assert_uint_eq(word, 0x5a5a);
}
END_TEST

Suite *suite_read(void)
{
	Suite *s = suite_create("read");
	TCase *tc = tcase_create("read");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, read_crosses_pages_that_are_apart);
	tcase_add_test(tc, read_of_nothing_needs_no_mapping);
	tcase_add_test(tc, read_stops_at_an_unmapped_page);
	tcase_add_test(tc, read_of_a_device_is_not_ram);
	tcase_add_test(tc, block_that_maps_no_ram_translates_but_does_not_read);
	tcase_add_test(tc, length_near_2_64_ends_at_the_first_fault);
	tcase_add_test(tc, read_does_not_wrap_into_the_low_half);
	tcase_add_test(tc, read_ends_where_the_low_half_ends);
	tcase_add_test(tc, source_without_a_mapping_is_asked_for_ram_only);
	tcase_add_test(tc, ram_of_zeros_maps_nothing);
	suite_add_tcase(s, tc);
	return s;
}
