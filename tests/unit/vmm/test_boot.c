/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of kernel file, placement, loading. */
#include "tests/unit/vmm/vmm_tests.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/util.h"
#include "vmm/boot.h"

#define MIB  (UINT64_C(1) << 20)
#define PAGE UINT64_C(4096)

static void put(uint8_t *at, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void header(uint8_t *head, uint64_t text_offset, uint64_t image_size, uint64_t flags)
{
	memset(head, 0, VMM_BOOT_HEADER_SIZE);
	put(head, 0x14000010, 4);
	put(head + 8, text_offset, 8);
	put(head + 16, image_size, 8);
	put(head + 24, flags, 8);
	memcpy(head + 0x38, "ARM\x64", 4);
}

/* --- header -------------------------------------------------------------------------------- */

START_TEST(header_variants_are_understood)
{
	static const struct {
		uint64_t text_offset, image_size, flags;
		enum gs_code rc;
		uint64_t want_offset;
		uint32_t want_page;
	} cases[] = {
		{ 0, 0x1a00000, 0xa, GS_OK, 0, 4096 },
		{ 0x80000, 0x1a00000, 0xc, GS_OK, 0x80000, 16384 },
		{ 0x80000, 0x1a00000, 0xe, GS_OK, 0x80000, 65536 },
		{ 0, 0x1a00000, 0x8, GS_OK, 0, 0 },
		{ 0, 0, 0, GS_OK, 0x80000, 0 },			      // before 3.17
		{ UINT64_C(0x80000) << 40, 0, 0, GS_OK, 0x80000, 0 }, // and written big-endian
		{ 0, 0x1a00000, 0xb, GS_ENOTSUP, 0, 0 },
		{ 0x80001, 0x1a00000, 0xa, GS_EMALFORMED, 0, 0 },
		{ UINT64_MAX & ~UINT64_C(7), 1, 0xa, GS_OK, UINT64_MAX & ~UINT64_C(7), 4096 },
	};
	uint8_t head[VMM_BOOT_HEADER_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct vmm_boot_image image;
		struct gs_error err;

		header(head, cases[i].text_offset, cases[i].image_size, cases[i].flags);
		ck_assert_int_eq(vmm_boot_image_parse(head, sizeof(head), &image, &err),
				 cases[i].rc);
		if (cases[i].rc)
			continue;
		ck_assert_uint_eq(image.text_offset, cases[i].want_offset);
		ck_assert_uint_eq(image.page_size, cases[i].want_page);
		ck_assert_uint_eq(image.image_size, cases[i].image_size);
	}
}
END_TEST

START_TEST(header_cut_at_any_byte_is_refused)
{
	uint8_t head[VMM_BOOT_HEADER_SIZE];
	struct vmm_boot_image image;

	header(head, 0, MIB, 0xa);
	for (size_t len = 0; len < sizeof(head); len++) {
		uint8_t *exact = malloc(len + !len); // so that a sanitizer sees the end

		memcpy(exact, head, len);
		ck_assert_int_eq(vmm_boot_image_parse(exact, len, &image, NULL), GS_EMALFORMED);
		free(exact);
	}
}
END_TEST

START_TEST(other_kinds_of_file_are_named)
{
	static const struct {
		uint32_t offset;
		const char *magic;
		uint32_t len;
		const char *word;
	} cases[] = {
		{ 0,
		  "\x7f"
		  "ELF",
		  4, "ELF" },
		{ 0, "BZh9", 4, "bzip2" },
		{ 0,
		  "\xfd"
		  "7zXZ\0",
		  6, "xz" },
		{ 0, "\x28\xb5\x2f\xfd", 4, "zstd" },
		{ 0, "MZ\0\0zimg", 8, "zboot" },
		{ 0, "MZ", 2, "EFI" },
		{ 0x202, "HdrS", 4, "x86" },
		{ 0x24, "\x18\x28\x6f\x01", 4, "32-bit" },
		{ 0x38, "RSC\x05", 4, "RISC-V" },
		{ 0, "\x27\x05\x19\x56", 4, "uImage" },
		{ 0, "070701", 6, "cpio" },
		{ 0, "hello", 5, "not an ARM64 Image" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t head[1024] = { 0 };
		struct vmm_boot_image image;
		struct gs_error err;

		memcpy(head + cases[i].offset, cases[i].magic, cases[i].len);
		ck_assert_int_eq(vmm_boot_image_parse(head, sizeof(head), &image, &err),
				 GS_EMALFORMED);
		ck_assert_msg(strstr(err.text, cases[i].word), "%s: %s", cases[i].word, err.text);
	}
}
END_TEST

/* --- placement ----------------------------------------------------------------------------- */

static void check_layout(const struct vmm_boot_layout *at, uint64_t ram)
{
	ck_assert(at->kernel <= ram && at->kernel_size <= ram - at->kernel);
	ck_assert_uint_ge(at->dtb, at->kernel + at->kernel_size);
	ck_assert_uint_eq(at->dtb % 8, 0);
	ck_assert_uint_eq(at->dtb / (2 * MIB), (at->dtb + VMM_BOOT_DTB_MAX - 1) / (2 * MIB));
	ck_assert(gs_in_range(at->dtb, VMM_BOOT_DTB_MAX, 0, ram));
	if (at->initrd_size) {
		ck_assert_uint_ge(at->initrd, at->dtb + VMM_BOOT_DTB_MAX);
		ck_assert(gs_in_range(at->initrd, at->initrd_size, 0, ram));
		ck_assert_uint_le(at->initrd + at->initrd_size, UINT64_C(32) << 30);
	}
}

START_TEST(placement_never_overlaps_whatever_the_sizes)
{
	static const uint64_t rams[] = { 64 * MIB,	    64 * MIB + PAGE,  512 * MIB,
					 1024 * MIB - PAGE, 1024 * MIB,	      1024 * MIB + PAGE,
					 4096 * MIB + PAGE, UINT64_C(1) << 45 };
	static const uint64_t offsets[] = { 0, 0x80000, 0x1ff000 };
	static const int64_t deltas[] = { -2 * 65536 - 1, -65536 - 1, -65536, -4096, -1, 0, 1,
					  4096,		  65536 };
	unsigned int fits = 0, refused = 0;

	for (size_t r = 0; r < ARRAY_SIZE(rams); r++) {
		for (size_t o = 0; o < ARRAY_SIZE(offsets); o++) {
			for (size_t d = 0; d < ARRAY_SIZE(deltas); d++) {
				struct vmm_boot_image k = {
					.text_offset = offsets[o],
					.image_size = rams[r] - offsets[o] + (uint64_t)deltas[d],
				};
				struct vmm_boot_image small = { .text_offset = offsets[o],
								.image_size = 33 * MIB + 1 };
				struct vmm_boot_layout at;
				uint64_t initrd = gs_min(rams[r], UINT64_C(32) << 30) +
						  (uint64_t)deltas[d] - (34 * MIB + 65536);

				if (vmm_boot_place(&k, 1000, 0, rams[r], &at, NULL))
					refused++;
				else
					check_layout(&at, rams[r]), fits++;
				if (vmm_boot_place(&small, 1000, initrd, rams[r], &at, NULL))
					refused++;
				else
					check_layout(&at, rams[r]), fits++;
			}
		}
	}
	ck_assert_uint_gt(fits, 0);
	ck_assert_uint_gt(refused, 0);
}
END_TEST

START_TEST(placement_refuses_an_initrd_of_all_ram_but_a_page)
{
	static const uint64_t rams[] = { 64 * MIB, 512 * MIB, 1024 * MIB, 8192 * MIB };
	struct vmm_boot_image k = { .image_size = 30 * MIB };
	struct vmm_boot_layout at;
	struct gs_error err;

	for (size_t r = 0; r < ARRAY_SIZE(rams); r++) {
		ck_assert_int_eq(vmm_boot_place(&k, MIB, rams[r] - PAGE, rams[r], &at, &err),
				 GS_ETOOBIG);
		ck_assert_ptr_nonnull(strstr(err.text, "initrd"));
	}
	ck_assert_int_eq(vmm_boot_place(&k, MIB, UINT64_MAX, 64 * MIB, &at, &err), GS_ETOOBIG);
	ck_assert_int_eq(vmm_boot_place(&k, MIB, 33 * MIB, 64 * MIB, &at, &err), GS_OK);
	// behind the window in which the kernel looks
	ck_assert_int_eq(vmm_boot_place(&k, MIB, UINT64_C(33) << 30, UINT64_C(1) << 40, &at, &err),
			 GS_ETOOBIG);
}
END_TEST

START_TEST(placement_refuses_kernels_that_wrap_or_do_not_fit)
{
	static const struct vmm_boot_image images[] = {
		{ .text_offset = UINT64_MAX - 7, .image_size = 16 },
		{ .image_size = UINT64_MAX },
		{ .text_offset = 0x80000, .image_size = UINT64_MAX - 0x80000 },
		{ .text_offset = UINT64_C(1) << 63, .image_size = UINT64_C(1) << 63 },
		{ .text_offset = 64 * MIB, .image_size = 4096 },
		{ .image_size = 64 * MIB },
	};
	struct vmm_boot_layout at;

	for (size_t i = 0; i < ARRAY_SIZE(images); i++)
		ck_assert_int_eq(vmm_boot_place(&images[i], 64, 0, 64 * MIB, &at, NULL),
				 GS_ETOOBIG);
	struct vmm_boot_image old = { .text_offset = 0x80000 };
	ck_assert_int_eq(vmm_boot_place(&old, UINT64_MAX, 0, 64 * MIB, &at, NULL), GS_ETOOBIG);
	ck_assert_int_eq(vmm_boot_place(&old, 20 * MIB, 0, 64 * MIB, &at, NULL), GS_OK);
	ck_assert_uint_ge(at.dtb, 0x80000 + 20 * MIB + VMM_BOOT_OLD_BSS);
	// a file longer than it says
	struct vmm_boot_image liar = { .image_size = 4096 };
	ck_assert_int_eq(vmm_boot_place(&liar, 20 * MIB, 0, 64 * MIB, &at, NULL), GS_OK);
	ck_assert_uint_ge(at.dtb, 20 * MIB);
}
END_TEST

/* --- loading ------------------------------------------------------------------------------- */

static char dir[] = "/tmp/vmm-boot-XXXXXX";
static char kernel_path[64], initrd_path[64];
static uint8_t *ram;

#define RAM (64 * MIB)

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(kernel_path, sizeof(kernel_path), "%s/k", dir);
	snprintf(initrd_path, sizeof(initrd_path), "%s/i", dir);
	ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(ram, MAP_FAILED);
}

static void teardown(void)
{
	munmap(ram, RAM);
	unlink(kernel_path);
	unlink(initrd_path);
	rmdir(dir);
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq((int)write(fd, bytes, len), (int)len);
	close(fd);
}

#define KERNEL_BYTES 300000u

static uint8_t *make_kernel(uint64_t text_offset, uint64_t image_size)
{
	uint8_t *k = malloc(KERNEL_BYTES);

	for (uint32_t i = 0; i < KERNEL_BYTES; i++)
		k[i] = (uint8_t)(i * 7 ^ i >> 8);
	header(k, text_offset, image_size, 0xa);
	return k;
}

static size_t gzip(const uint8_t *in, size_t len, uint8_t *out, size_t out_size)
{
	z_stream z = { 0 };

	ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	z.next_in = (Bytef *)in;
	z.avail_in = (uInt)len;
	z.next_out = out;
	z.avail_out = (uInt)out_size;
	ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
	size_t n = out_size - z.avail_out;
	deflateEnd(&z);
	return n;
}

START_TEST(loading_puts_kernel_and_initrd_where_it_says)
{
	uint8_t *k = make_kernel(0x80000, MIB);
	struct vmm_boot boot;
	struct gs_error err;

	write_file(kernel_path, k, KERNEL_BYTES);
	write_file(initrd_path, "initrd!", 7);
	ck_assert_msg(!vmm_boot_load(kernel_path, initrd_path, ram, RAM, &boot, &err), "%s",
		      err.text);
	ck_assert_uint_eq(boot.at.kernel, 0x80000);
	ck_assert_int_eq(memcmp(ram + 0x80000, k, KERNEL_BYTES), 0);
	ck_assert_uint_eq(boot.at.initrd_size, 7);
	ck_assert_int_eq(memcmp(ram + boot.at.initrd, "initrd!", 7), 0);
	check_layout(&boot.at, RAM);
	free(k);
}
END_TEST

START_TEST(loading_unpacks_gzip_and_zboot)
{
	uint8_t *k = make_kernel(0, MIB);
	uint8_t *packed = calloc(1, 2 * KERNEL_BYTES);
	size_t n = gzip(k, KERNEL_BYTES, packed, 2 * KERNEL_BYTES);
	struct vmm_boot boot;
	struct gs_error err;

	write_file(kernel_path, packed, n);
	ck_assert_msg(!vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), "%s", err.text);
	ck_assert_int_eq(memcmp(ram, k, KERNEL_BYTES), 0);

	memset(ram, 0, MIB);
	memmove(packed + 512, packed, n);
	memset(packed, 0, 512);
	memcpy(packed, "MZ\0\0zimg", 8);
	put(packed + 8, 512, 4);
	put(packed + 12, n, 4);
	memcpy(packed + 24, "gzip", 5);
	write_file(kernel_path, packed, n + 512);
	ck_assert_msg(!vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), "%s", err.text);
	ck_assert_int_eq(memcmp(ram, k, KERNEL_BYTES), 0);

	write_file(kernel_path, packed, n);
	ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "cut off"));
	free(packed);
	free(k);
}
END_TEST

START_TEST(loading_refuses_damaged_gzip_wherever_the_damage_is)
{
	uint8_t *k = make_kernel(0, MIB);
	uint8_t *packed = malloc(2 * KERNEL_BYTES);
	size_t n = gzip(k, KERNEL_BYTES, packed, 2 * KERNEL_BYTES);
	struct vmm_boot boot;

	for (size_t len = 2; len < n; len += n / 50) {
		write_file(kernel_path, packed, len);
		ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, NULL),
				 GS_EMALFORMED);
	}
	for (size_t at = 10; at < n - 4; at += n / 50) {
		packed[at] ^= 0x55;
		write_file(kernel_path, packed, n);
		ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, NULL),
				 GS_EMALFORMED);
		packed[at] ^= 0x55;
	}
	free(packed);
	free(k);
}
END_TEST

/* 200 MiB of zeroes behind a good header are 200 KiB of gzip. */
START_TEST(loading_stops_a_gzip_bomb_at_the_end_of_ram)
{
	size_t big = 200 * MIB;
	uint8_t *zeroes =
		mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *packed = malloc(4 * MIB);
	struct vmm_boot boot;
	struct gs_error err;

	header(zeroes, 0, MIB, 0xa);
	size_t n = gzip(zeroes, big, packed, 4 * MIB);
	munmap(zeroes, big);
	write_file(kernel_path, packed, n);
	ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), GS_ETOOBIG);
	free(packed);
}
END_TEST

START_TEST(loading_refuses_a_kernel_cut_short)
{
	uint8_t *k = make_kernel(0, MIB);
	struct vmm_boot boot;
	struct gs_error err;

	put(k + 0x3c, 0x40, 4); // an EFI program too
	memcpy(k + 0x40, "PE\0\0", 4);
	put(k + 0x46, 2, 2);
	put(k + 0x54, 16, 2);
	uint8_t *section = k + 0x40 + 24 + 16;
	put(section + 16, 0x10000, 4);
	put(section + 20, 0x1000, 4);
	put(section + 40 + 16, KERNEL_BYTES - 0x11000, 4);
	put(section + 40 + 20, 0x11000, 4);
	write_file(kernel_path, k, KERNEL_BYTES);
	ck_assert_msg(!vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), "%s", err.text);
	write_file(kernel_path, k, KERNEL_BYTES - 1);
	ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "cut off"));

	put(k + 0x46, 0xffff, 2); // a table that runs out of the file
	write_file(kernel_path, k, 4096);
	ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), GS_EMALFORMED);
	put(k + 0x3c, 0xfffffff0, 4); // a header that is nowhere is no header
	write_file(kernel_path, k, KERNEL_BYTES);
	ck_assert_int_eq(vmm_boot_load(kernel_path, NULL, ram, RAM, &boot, &err), GS_OK);
	free(k);
}
END_TEST

START_TEST(loading_names_the_file_that_is_wrong)
{
	uint8_t *k = make_kernel(0, MIB);
	struct vmm_boot boot;
	struct gs_error err;

	write_file(kernel_path, k, KERNEL_BYTES);
	free(k);
	ck_assert_int_eq(vmm_boot_load("/nowhere/at/all", NULL, ram, RAM, &boot, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "kernel /nowhere/at/all"));
	ck_assert_int_eq(vmm_boot_load(dir, NULL, ram, RAM, &boot, &err), GS_EMALFORMED);
	ck_assert_int_eq(vmm_boot_load(kernel_path, "/nowhere", ram, RAM, &boot, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "initrd /nowhere"));
	write_file(initrd_path, "", 0);
	ck_assert_int_eq(vmm_boot_load(kernel_path, initrd_path, ram, RAM, &boot, &err),
			 GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "empty"));
	ck_assert_int_eq(truncate(initrd_path, (off_t)(RAM - PAGE)), 0);
	ck_assert_int_eq(vmm_boot_load(kernel_path, initrd_path, ram, RAM, &boot, &err),
			 GS_ETOOBIG);
	unlink(initrd_path);
	ck_assert_int_eq(mkfifo(initrd_path, 0600), 0); // must not wait for a writer
	ck_assert_int_eq(vmm_boot_load(kernel_path, initrd_path, ram, RAM, &boot, &err),
			 GS_EMALFORMED);
}
END_TEST

TCase *boot_case(void)
{
	TCase *c = tcase_create("boot");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, header_variants_are_understood);
	tcase_add_test(c, header_cut_at_any_byte_is_refused);
	tcase_add_test(c, other_kinds_of_file_are_named);
	tcase_add_test(c, placement_never_overlaps_whatever_the_sizes);
	tcase_add_test(c, placement_refuses_an_initrd_of_all_ram_but_a_page);
	tcase_add_test(c, placement_refuses_kernels_that_wrap_or_do_not_fit);
	tcase_add_test(c, loading_puts_kernel_and_initrd_where_it_says);
	tcase_add_test(c, loading_unpacks_gzip_and_zboot);
	tcase_add_test(c, loading_refuses_damaged_gzip_wherever_the_damage_is);
	tcase_add_test(c, loading_stops_a_gzip_bomb_at_the_end_of_ram);
	tcase_add_test(c, loading_refuses_a_kernel_cut_short);
	tcase_add_test(c, loading_names_the_file_that_is_wrong);
	return c;
}
