/* SPDX-License-Identifier: Apache-2.0 */
/* kdump-compressed dumps, each method with literal bytes; flattened; damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/util.h"
#include "introspect/guest/kdump_codec.h"
#include "tests/unit/guest/dump_bytes.h"
#include "tests/unit/guest/suites.h"

#define BASE	 UINT64_C(0x40000000)
#define BASE_PFN (BASE / 4096)

/* Blocks: header, sub header, bitmaps (2 × 9 blocks: 4096 * 8 pages each), descriptors. */
#define BITMAP_BLOCKS 18
#define NOTES_AT      (4096 + 512)
#define BITMAP1_AT    (2 * 4096)
#define BITMAP2_AT    (BITMAP1_AT + BITMAP_BLOCKS / 2 * 4096)
#define DESCS_AT      (BITMAP1_AT + BITMAP_BLOCKS * 4096)
#define DATA_AT	      (DESCS_AT + 4096)

enum { PLAIN = 0, ZLIB = 1, LZO = 2, SNAPPY = 4, ZSTD = 0x20 };

static void set_bit(struct bytes *b, size_t bitmap, uint64_t pfn)
{
	b->at[bitmap + pfn / 8] |= (uint8_t)(1 << (pfn % 8));
}

static void kdump_header(struct bytes *b)
{
	bytes_put(b, DATA_AT - 1, "", 1);
	bytes_put(b, 0, "KDUMP   ", 8);
	bytes_put32(b, 8, 6); // version
	bytes_put(b, 12, "Linux", 6);
	bytes_put(b, 272, "aarch64", 8);
	bytes_put32(b, 424, ZLIB);
	bytes_put32(b, 428, 4096);
	bytes_put32(b, 432, 1);
	bytes_put32(b, 436, BITMAP_BLOCKS);
	bytes_put32(b, 440, BASE_PFN + 100);
	size_t end = elf_prstatus(b, NOTES_AT, 0x5000, 0x3c5);
	end = elf_note(b, end, "VMCOREINFO", 0, "OSRELEASE=6.1\n", 14);
	bytes_put64(b, 4096 + 48, NOTES_AT);
	bytes_put64(b, 4096 + 56, end - NOTES_AT);
	bytes_put64(b, 4096 + 96, BASE_PFN + 100);
}

/* Page number @p index of the dump, at @p pfn. */
static void kdump_page(struct bytes *b, unsigned int index, uint64_t pfn, uint32_t flags,
		       const void *data, uint32_t size)
{
	size_t desc = DESCS_AT + index * 24, at = gs_max(b->size, DATA_AT);

	set_bit(b, BITMAP1_AT, pfn);
	set_bit(b, BITMAP2_AT, pfn);
	bytes_put(b, at, data, size);
	bytes_put64(b, desc, at);
	bytes_put32(b, desc + 8, size);
	bytes_put32(b, desc + 12, flags);
}

/* One page in each method: bytes of 0x11, 0x22, … ; page 5 is RAM that was filtered out. */
static void kdump_all_methods(struct bytes *b)
{
	static uint8_t page[4096], packed[8192];
	uLongf len = sizeof(packed);

	kdump_header(b);
	memset(page, 0x11, sizeof(page));
	kdump_page(b, 0, BASE_PFN, PLAIN, page, sizeof(page));

	memset(page, 0x22, sizeof(page));
	ck_assert_int_eq(compress2(packed, &len, page, sizeof(page), 6), Z_OK);
	kdump_page(b, 1, BASE_PFN + 1, ZLIB, packed, (uint32_t)len);

	// lzo1x: 4 literals, a match of 4092 bytes at distance 4, the end
	uint8_t lzo[64] = { 21, 0x33, 0x33, 0x33, 0x33, 0x20 };
	size_t n = 6 + 15; // 2 + 31 + 15 * 255 + 234 = 4092
	lzo[n++] = 234;
	lzo[n++] = 3 << 2;
	lzo[n++] = 0;
	lzo[n++] = 0x11;
	n += 2;
	kdump_page(b, 2, BASE_PFN + 2, LZO, lzo, (uint32_t)n);

	// snappy: length 4096, a literal of 64 bytes, 63 copies of 64 bytes from 64 before
	uint8_t snappy[2 + 2 + 64 + 63 * 3] = { 0x80, 0x20, 60 << 2, 63 };
	memset(snappy + 4, 0x44, 64);
	for (size_t i = 0; i < 63; i++)
		memcpy(snappy + 68 + i * 3, "\xfe\x40", 3);
	kdump_page(b, 3, BASE_PFN + 3, SNAPPY, snappy, sizeof(snappy));

	// zstd: one segment, content size 256 + 3840, one last block: 4096 times the byte
	static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x00,
					0x0f, 0x03, 0x80, 0x00, 0x55 };
	kdump_page(b, 4, BASE_PFN + 4, ZSTD, zstd, sizeof(zstd));

	set_bit(b, BITMAP1_AT, BASE_PFN + 5);
	memset(page, 0x77, sizeof(page));
	kdump_page(b, 5, BASE_PFN + 6, PLAIN, page, sizeof(page));
}

static void check_all_methods(const struct guest_source *s)
{
	struct guest_vcpu_regs r;
	static uint8_t buf[5 * 4096];
	size_t size;
	gpa_t from, to;

	ck_assert_uint_eq(s->guest->range_count, 2);
	ck_assert_uint_eq(s->guest->ranges[0].start.a, BASE);
	ck_assert_uint_eq(s->guest->ranges[0].size, 5 * 4096);
	for (unsigned int i = 0; i < 5; i++) {
		ck_assert_uint_eq(byte_of(s, BASE + i * 4096), 0x11 * (i + 1));
		ck_assert_uint_eq(byte_of(s, BASE + i * 4096 + 4095), 0x11 * (i + 1));
	}
	ck_assert_int_eq(guest_read(s->guest, GPA(BASE), buf, sizeof(buf)), GS_OK);
	ck_assert(buf[0x1fff] == 0x22 && buf[0x2000] == 0x33 && buf[0x4fff] == 0x55);
	ck_assert(!is_readable(s, BASE + 5 * 4096, 1)); // filtered out: not zeros
	ck_assert_uint_eq(byte_of(s, BASE + 6 * 4096), 0x77);
	ck_assert(!is_readable(s, BASE - 1, 1) && !is_readable(s, BASE + 7 * 4096, 1));
	ck_assert(s->guest->ops->next_data(s->guest->priv, GPA(BASE + 5 * 4096), GPA(UINT64_MAX),
					   &from, &to));
	ck_assert(from.a == BASE + 6 * 4096 && to.a == BASE + 7 * 4096);
	ck_assert_uint_eq(s->guest->vcpu_count, 1);
	ck_assert_int_eq(guest_vcpu_regs(s->guest, 0, &r), GS_OK);
	ck_assert_uint_eq(r.pc, 0x5020);
	ck_assert_str_eq(guest_dump_vmcoreinfo(s, &size), "OSRELEASE=6.1\n");
	use_all(s);
}

START_TEST(each_method_is_read)
{
	struct bytes b = { 0 };

	kdump_all_methods(&b);
	struct guest_source s = open_good(&b);
	check_all_methods(&s);
	ck_assert_str_eq(s.access, "kdump-compressed");
	ck_assert_str_eq(s.note, "1 MiB of memory were filtered out");
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

/* The file as records, in an order of its own. */
static void flatten(struct bytes *flat, const struct bytes *b)
{
	const size_t step = 7000;
	size_t at = 4096;

	bytes_put(flat, 0, "makedumpfile\0\0\0", 16);
	bytes_put64(flat, 16, htobe64(1));
	bytes_put64(flat, 24, htobe64(1));
	for (size_t i = (b->size - 1) / step + 1; i--;) {
		size_t size = gs_min(step, b->size - i * step);

		bytes_put64(flat, at, htobe64(i * step));
		bytes_put64(flat, at + 8, htobe64(size));
		bytes_put(flat, at + 16, b->at + i * step, size);
		at += 16 + size;
	}
	bytes_put64(flat, at, UINT64_MAX);
	bytes_put64(flat, at + 8, UINT64_MAX);
}

START_TEST(flattened_dump_is_read)
{
	struct bytes b = { 0 }, flat = { 0 };

	kdump_all_methods(&b);
	flatten(&flat, &b);
	struct guest_source s = open_good(&flat);
	check_all_methods(&s);
	ck_assert(strstr(s.access, "temporary file"));
	guest_source_close(&s);

	flat.size -= 16; // without its end mark
	s = open_good(&flat);
	check_all_methods(&s);
	ck_assert(strstr(s.note, "end mark"));
	guest_source_close(&s);
	bytes_free(&flat);
	bytes_free(&b);
}
END_TEST

START_TEST(damaged_flattened_dump_is_refused)
{
	struct bytes b = { 0 }, flat = { 0 };

	kdump_all_methods(&b);
	flatten(&flat, &b);
	bytes_put64(&flat, 4096, htobe64(UINT64_C(1) << 62));
	open_bad(&flat, GS_EMALFORMED, "beyond any end");
	bytes_put64(&flat, 4096, htobe64(UINT64_MAX - 8));
	open_bad(&flat, GS_EMALFORMED, "beyond any end");
	bytes_put64(&flat, 24, htobe64(2));
	open_bad(&flat, GS_EMALFORMED, "version 2");
	flat.size = 4096 + 8;
	bytes_put64(&flat, 24, htobe64(1));
	open_bad(&flat, GS_EMALFORMED, "");
	flat.size = 24;
	open_bad(&flat, GS_EMALFORMED, "cut off");
	bytes_free(&flat);
	bytes_free(&b);

	// An ELF core can be flattened too.
	elf_two_ranges(&b);
	flatten(&flat, &b);
	open_bad(&flat, GS_ENOTSUP, "makedumpfile -R");
	bytes_free(&flat);
	bytes_free(&b);
}
END_TEST

START_TEST(other_machines_and_parts_are_named)
{
	struct bytes b = { 0 };

	kdump_all_methods(&b);
	bytes_put(&b, 272, "x86_64\0", 8);
	open_bad(&b, GS_ENOTSUP, "machine 'x86_64'");
	memset(b.at + 272, 'A', 65);
	open_bad(&b, GS_ENOTSUP, "AAAA");
	bytes_put(&b, 272, "aarch64", 8);
	bytes_put32(&b, 4096 + 12, 1);
	open_bad(&b, GS_ENOTSUP, "--reassemble");
	bytes_free(&b);
}
END_TEST

/* QEMU names no machine; x86-64's notes have 336 bytes, RISC-V's 376. */
START_TEST(nameless_machine_is_known_by_its_notes)
{
	static const char *const names[] = { "", "Unknown" };
	static const size_t sizes[] = { 336, 376, 480 };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct bytes b = { 0 };
		static const uint8_t desc[480] = { 1 };

		kdump_all_methods(&b);
		memset(b.at + 272, 0, 65);
		bytes_put(&b, 272, names[i], strlen(names[i]));
		struct guest_source s = open_good(&b);
		check_all_methods(&s);
		guest_source_close(&s);
		for (size_t j = 0; j < ARRAY_SIZE(sizes); j++) {
			elf_note(&b, NOTES_AT, "CORE", 1, desc, sizes[j]);
			open_bad(&b, GS_EMALFORMED, "no registers of an ARM64 CPU");
		}
		bytes_free(&b);
	}
}
END_TEST

START_TEST(missing_library_names_the_package)
{
	struct gs_error err = { 0 };
	void *handle, *fn;

	ck_assert_int_eq(
		guest_kdump_codec_find("libnowhere.so.2", "libnowhere2", "f", &handle, &fn, &err),
		GS_ENOTSUP);
	ck_assert(strstr(err.text, "Debian package libnowhere2"));
	ck_assert_int_eq(guest_kdump_codec_find("libz.so.1", "zlib1g", "lzo1x_decompress_safe",
						&handle, &fn, &err),
			 GS_ENOTSUP);
	ck_assert(strstr(err.text, "lzo1x_decompress_safe"));
}
END_TEST

/* Each method, with a page that comes out too short, too long, or not at all. */
START_TEST(page_of_another_size_is_damaged)
{
	static const uint32_t methods[] = { PLAIN, ZLIB, LZO, SNAPPY, ZSTD, 3, 0x40 };
	static uint8_t page[8192], packed[16384];
	uLongf len = sizeof(packed);
	struct kdump_codec *codec;
	struct gs_error err = { 0 };

	ck_assert_int_eq(guest_kdump_codec_create(&codec, &err), GS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		ck_assert_msg(!guest_kdump_codec_load(codec, methods[i], &err), "%s", err.text);
	memset(page, 0x5a, sizeof(page));
	ck_assert_int_eq(compress(packed, &len, page, 8192), Z_OK);
	ck_assert_int_eq(guest_kdump_codec_page(codec, ZLIB, packed, len, page, 8192), GS_OK);
	ck_assert_int_eq(guest_kdump_codec_page(codec, ZLIB, packed, len, page, 4096), GS_EFAULT);
	ck_assert_int_eq(guest_kdump_codec_page(codec, ZLIB, packed, len - 1, page, 8192),
			 GS_EFAULT);
	len = sizeof(packed);
	ck_assert_int_eq(compress(packed, &len, page, 4096), Z_OK);
	ck_assert_int_eq(guest_kdump_codec_page(codec, ZLIB, packed, len, page, 8192), GS_EFAULT);
	ck_assert_int_eq(guest_kdump_codec_page(codec, PLAIN, page, 4095, packed, 4096), GS_EFAULT);
	ck_assert_int_eq(guest_kdump_codec_page(codec, PLAIN, page, 4097, packed, 4096), GS_EFAULT);
	for (size_t i = 1; i < ARRAY_SIZE(methods); i++) {
		memset(packed, 0xff, sizeof(packed));
		ck_assert_int_eq(
			guest_kdump_codec_page(codec, methods[i], packed, 4000, page, 4096),
			GS_EFAULT);
		ck_assert_int_eq(guest_kdump_codec_page(codec, methods[i], packed, 0, page, 4096),
				 GS_EFAULT);
	}
	guest_kdump_codec_destroy(codec);
}
END_TEST

/* F05, F06: a page that makes no sense is unreadable, the others are fine. */
START_TEST(bad_page_costs_that_page)
{
	static const struct {
		size_t at; /* in the descriptor of page 1 */
		uint32_t value;
	} damage[] = { { 8, 0 },	  { 8, 1 },	     { 8, 4097 },	{ 8, 8192 },
		       { 8, 262144 },	  { 8, UINT32_MAX }, { 12, 0 },		{ 12, 0x40 },
		       { 12, LZO },	  { 12, SNAPPY },    { 12, ZSTD },	{ 12, UINT32_MAX },
		       { 0, UINT32_MAX }, { 4, UINT32_MAX }, { 4, 0x80000000 }, { 0, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(damage); i++) {
		struct bytes b = { 0 };

		kdump_all_methods(&b);
		bytes_put32(&b, DESCS_AT + 24 + damage[i].at, damage[i].value);
		struct guest_source s = open_good(&b);
		ck_assert_msg(!is_readable(&s, BASE + 4096, 1), "%zu", i);
		ck_assert(!is_readable(&s, BASE + 4096, 4096));
		ck_assert_uint_eq(byte_of(&s, BASE), 0x11);
		ck_assert_uint_eq(byte_of(&s, BASE + 2 * 4096), 0x33);
		guest_source_close(&s);
		bytes_free(&b);
	}

	struct bytes b = { 0 };
	kdump_all_methods(&b);
	bytes_put32(&b, DESCS_AT + 12, 0x40);
	struct guest_source s = open_good(&b);
	ck_assert_msg(strstr(s.note, "unknown method (flags 0x40)"), "%s", s.note);
	guest_source_close(&s);
	bytes_free(&b);
}
END_TEST

static void try_kdump(const struct bytes *b)
{
	struct guest_source s = { 0 };
	struct gs_error err = { 0 };

	if (open_bytes(b, &s, &err)) {
		ck_assert(*err.text && !s.guest);
		return;
	}
	use_all(&s);
	guest_source_close(&s);
}

START_TEST(cut_kdump_gives_what_is_there)
{
	struct bytes b = { 0 };

	kdump_all_methods(&b);
	size_t whole = b.size;
	for (b.size = 0; b.size < whole; b.size += b.size % 4096 < 600 ? 13 : 509)
		try_kdump(&b);

	b.size = whole - 1;
	struct guest_source s = open_good(&b);
	ck_assert_msg(strstr(s.note, "cut off: the last 1 KiB"), "%s", s.note);
	ck_assert(!is_readable(&s, BASE + 6 * 4096, 1));
	ck_assert_uint_eq(byte_of(&s, BASE + 4 * 4096), 0x55);
	guest_source_close(&s);
	b.size = DESCS_AT + 25;
	s = open_good(&b);
	ck_assert_msg(strstr(s.note, "1 of 6 page descriptors"), "%s", s.note);
	guest_source_close(&s);
	b.size = BITMAP2_AT + 1;
	open_bad(&b, GS_EMALFORMED, "page bitmaps");
	b.size = 4096 + 10;
	open_bad(&b, GS_EMALFORMED, "second header");
	b.size = 100;
	open_bad(&b, GS_EMALFORMED, "cut off in its header");
	b.size = whole;
	bytes_free(&b);
}
END_TEST

START_TEST(kdump_fields_at_their_extremes_break_nothing)
{
	static const size_t fields[] = { 8,	    416,       420,	  424,	     428,
					 432,	    436,       440,	  4096,	     4096 + 32,
					 4096 + 40, 4096 + 44, 4096 + 48, 4096 + 52, 4096 + 56,
					 4096 + 60, 4096 + 96, 4096 + 100 };
	static const uint32_t values[] = {
		0,	    1,	       2,     3,       4,	   5,	       31,
		4095,	    4096,      65536, 0x20000, 0x7fffffff, 0x80000000, UINT32_MAX - 1,
		UINT32_MAX, 0x00100000
	};

	for (size_t f = 0; f < ARRAY_SIZE(fields); f++)
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct bytes b = { 0 };

			kdump_all_methods(&b);
			bytes_put32(&b, fields[f], values[i]);
			try_kdump(&b);
			bytes_free(&b);
		}
}
END_TEST

START_TEST(flipped_bits_in_kdump_break_nothing)
{
	uint64_t x = 88172645463325252;

	for (int i = 0; i < 1000; i++) {
		static const size_t where[][2] = { { 0, 464 },
						   { 4096, 4096 + 1100 },
						   { DESCS_AT, DESCS_AT + 144 },
						   { BITMAP2_AT + BASE_PFN / 8 - 64,
						     BITMAP2_AT + BASE_PFN / 8 + 13 },
						   { DATA_AT, DATA_AT + 4500 } };
		struct bytes b = { 0 };

		kdump_all_methods(&b);
		for (int n = 0; n <= i % 3; n++) {
			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			const size_t *w = where[x % ARRAY_SIZE(where)];

			b.at[w[0] + (x >> 8) % (w[1] - w[0])] ^= (uint8_t)(1 << (x >> 60 & 7));
		}
		try_kdump(&b);
		bytes_free(&b);
	}
}
END_TEST

Suite *suite_kdump(void)
{
	Suite *s = suite_create("kdump-compressed");
	TCase *c = tcase_create("kdump-compressed");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, each_method_is_read);
	tcase_add_test(c, flattened_dump_is_read);
	tcase_add_test(c, damaged_flattened_dump_is_refused);
	tcase_add_test(c, other_machines_and_parts_are_named);
	tcase_add_test(c, nameless_machine_is_known_by_its_notes);
	tcase_add_test(c, missing_library_names_the_package);
	tcase_add_test(c, page_of_another_size_is_damaged);
	tcase_add_test(c, bad_page_costs_that_page);
	tcase_add_test(c, cut_kdump_gives_what_is_there);
	tcase_add_test(c, kdump_fields_at_their_extremes_break_nothing);
	tcase_add_test(c, flipped_bits_in_kdump_break_nothing);
	suite_add_tcase(s, c);
	return s;
}
