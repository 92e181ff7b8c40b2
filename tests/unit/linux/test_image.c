/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel image as a file: read in all its forms, refused with the reason when it is none. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/suites.h"

static const struct lg_form forms[] = {
	{ .style = 'A', .old = true },
	{ .style = 'A', .seqs = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
	{ .style = 'B', .data_symbols = true, .no_head = true },
	{ .style = 'C' },
};

/* --- good files ------------------------------------------------------------------------------- */

/* The kernel is found by it, in memory as it is. */
static void expect_good(struct image_file f, const char *what)
{
	enum gs_code rc = lnx_reference_open(f.path, &made.ref, &made.err);

	ck_assert_msg(rc == GS_OK, "style %c, %s: %s", made.g.form.style, what, made.err.text);
	ck_assert_uint_eq(made.ref->ks.n, made.g.symbol_count);
	ck_assert(made.ref->has_types);
	expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
	ck_assert_uint_eq(lnx_kernel_found(made.k)->candidates, 1);
	lnx_kernel_destroy(made.k);
	made.k = NULL;
	lnx_reference_destroy(made.ref);
	made.ref = NULL;
	image_file_close(&f);
}

START_TEST(images_of_all_forms_are_read)
{
	static const uint64_t bases[] = { 0, IMAGE_LINK + LG_STEXT };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
			size_t size;
			uint8_t *image = image_make(&made.g, bases[b], &size);

			expect_good(image_file_make(image, size), "Image");
			expect_good(image_file_make_gzip(image, size), "gzip'ed Image");
			free(image);
			image = image_make_vmlinux(&made.g, bases[b], &size);
			expect_good(image_file_make(image, size), "vmlinux");
			free(image);
		}
		done();
	}
}
END_TEST

START_TEST(bytes_behind_an_image_do_no_harm)
{
	make(&forms[1]);
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);
	struct image_file f = image_file_make(image, size);
	// a signature behind the image, or rubbish behind gzip's
	ck_assert_int_eq(pwrite(f.fd, "signature", 9, (off_t)size), 9);
	expect_good(f, "signed Image");
	f = image_file_make_gzip(image, size);
	ck_assert_int_eq(pwrite(f.fd, "rubbish", 7, lseek(f.fd, 0, SEEK_END)), 7);
	expect_good(f, "gzip'ed Image");
	free(image);
	done();
}
END_TEST

START_TEST(image_without_types_is_read)
{
	make(&forms[1]);
	memset(lg_image(&made.g, LG_BTF), 0, 24);
	open_image();
	ck_assert(!made.ref->has_types);
	ck_assert_uint_eq(made.ref->ks.n, made.g.symbol_count);
	done();
}
END_TEST

START_TEST(types_of_an_image_are_those_behind_false_headers)
{
	make(&forms[1]);
	memcpy(lg_image(&made.g, LG_BTF - 0x1000), lg_image(&made.g, LG_BTF), 24);
	memset(lg_image(&made.g, LG_BTF - 0x1000 + 24), 0xa5, 0x200);
	open_image();
	ck_assert(made.ref->has_types);
	expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
	ck_assert_mem_eq(&made.ref->types, &made.k->types, sizeof(made.k->types));
	done();
}
END_TEST

/* --- bad files -------------------------------------------------------------------------------- */

static void expect_bad(const char *path, enum gs_code code, const char *text)
{
	static struct lnx_reference untouched;

	made.err = (struct gs_error){ 0 };
	made.ref = &untouched; // must stay as it is
	enum gs_code rc = lnx_reference_open(path, &made.ref, &made.err);

	ck_assert_msg(rc == code && made.err.code == code, "%d, %d instead of %d: %s", rc,
		      made.err.code, code, made.err.text);
	ck_assert_msg(strstr(made.err.text, text), "%s: not %s", made.err.text, text);
	ck_assert_msg(!strncmp(made.err.text, "kernel image ", 13) && strstr(made.err.text, path),
		      "%s", made.err.text);
	ck_assert_ptr_eq(made.ref, &untouched);
	made.ref = NULL;
}

static void expect_bad_bytes(const void *data, size_t size, enum gs_code code, const char *text)
{
	struct image_file f = image_file_make(data, size);

	expect_bad(f.path, code, text);
	image_file_close(&f);
}

START_TEST(what_is_no_file_is_refused)
{
	int ends[2];
	char path[32];

	expect_bad("/no/such/file", GS_ENOENT, "No such file");
	expect_bad("/proc", GS_EMALFORMED, "not a regular file");
	expect_bad("/dev/zero", GS_EMALFORMED, "not a regular file");
	// without a writer an open would wait
	ck_assert_int_eq(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	expect_bad(path, GS_EMALFORMED, "not a regular file");
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(files_that_are_no_kernel_are_refused)
{
	static const uint8_t zeros[4096];
	uint8_t zboot[1024] = { 'M', 'Z', 0, 0, 'z', 'i', 'm', 'g' };
	uint8_t header[64] = { 'M', 'Z' };

	memcpy(header + 56, "ARM\x64", 4);
	expect_bad_bytes("", 0, GS_EMALFORMED, "is cut off");
	expect_bad_bytes("MZ", 2, GS_EMALFORMED, "is cut off");
	expect_bad_bytes("MZ\0\0", 4, GS_EMALFORMED, "neither an ARM64 Image");
	expect_bad_bytes(header, 63, GS_EMALFORMED, "neither an ARM64 Image");
	expect_bad_bytes(header, 64, GS_EMALFORMED, "has no symbol table");
	expect_bad_bytes(zeros, sizeof(zeros), GS_EMALFORMED, "neither an ARM64 Image");
	expect_bad_bytes(zboot, sizeof(zboot), GS_ENOTSUP, "is an EFI zboot image");
	memcpy(zboot + 56, "ARM\x64", 4); // as it has it, too
	expect_bad_bytes(zboot, sizeof(zboot), GS_ENOTSUP, "is an EFI zboot image");
	// an x86 bzImage
	memset(zboot, 0, sizeof(zboot));
	memcpy(zboot + 0x202, "HdrS", 4);
	expect_bad_bytes(zboot, sizeof(zboot), GS_EMALFORMED, "neither an ARM64 Image");
	expect_bad_bytes("\x1f\x8b\x08\xff rubbish", 12, GS_EMALFORMED, "");
}
END_TEST

START_TEST(image_without_a_symbol_table_is_refused)
{
	make(&(struct lg_form){ .no_table = true });
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);

	expect_bad_bytes(image, size, GS_EMALFORMED, "has no symbol table");
	free(image);
	image = image_make_vmlinux(&made.g, 0, &size);
	expect_bad_bytes(image, size, GS_EMALFORMED, "has no symbol table");
	free(image);
	done();
}
END_TEST

START_TEST(images_that_are_cut_off_are_refused)
{
	make(&forms[2]);
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);
	const size_t end = made.g.table + made.g.symtab.base + 8;

	for (size_t cut = 64; cut < size; cut += cut < 0x30000 ? 0x5000 : 0x333) {
		struct image_file f = image_file_make(image, cut);
		enum gs_code rc = lnx_reference_open(f.path, &made.ref, &made.err);

		ck_assert_msg(rc == (cut < end ? GS_EMALFORMED : GS_OK), "%#zx: %s", cut,
			      made.err.text);
		if (!rc)
			lnx_reference_destroy(made.ref);
		else
			ck_assert_ptr_nonnull(
				strstr(made.err.text, "has no symbol table (cut off"));
		made.ref = NULL;
		image_file_close(&f);
	}
	struct image_file f = image_file_make_gzip(image, size);
	off_t whole = lseek(f.fd, 0, SEEK_END);
	// the last eight bytes are a sum and a length
	for (off_t cut = whole - 1; cut > 64; cut -= cut > whole - 12 ? 1 : 4999) {
		ck_assert_int_eq(ftruncate(f.fd, cut), 0);
		expect_bad(f.path, GS_EMALFORMED, "is cut off");
	}
	image_file_close(&f);
	free(image);
	done();
}
END_TEST

START_TEST(gzip_data_that_is_damaged_is_refused)
{
	make(&forms[2]);
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);
	struct image_file f = image_file_make_gzip(image, size);
	off_t whole = lseek(f.fd, 0, SEEK_END);

	for (off_t at = whole - 8; at < whole; at++) { // sum and length
		uint8_t byte;

		ck_assert_int_eq(pread(f.fd, &byte, 1, at), 1);
		byte ^= 0x40;
		ck_assert_int_eq(pwrite(f.fd, &byte, 1, at), 1);
		expect_bad(f.path, GS_EMALFORMED, "cannot be read as gzip data");
		byte ^= 0x40;
		ck_assert_int_eq(pwrite(f.fd, &byte, 1, at), 1);
	}
	expect_good(f, "mended");
	free(image);
	done();
}
END_TEST

// What is larger than any kernel is not read to its end; nor is what gzip makes so large.
START_TEST(files_larger_than_any_kernel_are_refused)
{
	uint8_t header[64] = { 'M', 'Z' };

	memcpy(header + 56, "ARM\x64", 4);
	struct image_file f = image_file_make(header, sizeof(header));
	ck_assert_int_eq(ftruncate(f.fd, (off_t)1 << 40), 0);
	expect_bad(f.path, GS_ETOOBIG, "is larger than a kernel");
	image_file_close(&f);
}
END_TEST

static uint8_t *vmlinux;
static size_t vmlinux_size;

/* The vmlinux with a field of its header changed. */
static void expect_bad_header(size_t at, const void *bytes, size_t n, const char *text)
{
	uint8_t before[8];

	memcpy(before, vmlinux + at, n);
	memcpy(vmlinux + at, bytes, n);
	expect_bad_bytes(vmlinux, vmlinux_size, GS_EMALFORMED, text);
	memcpy(vmlinux + at, before, n);
}

#define HEADER(field) offsetof(Elf64_Ehdr, field)
#define SEGMENT(i, field) \
	(sizeof(Elf64_Ehdr) + (i) * sizeof(Elf64_Phdr) + offsetof(Elf64_Phdr, field))

START_TEST(elf_files_that_are_no_vmlinux_are_refused)
{
	static const struct {
		size_t at;
		uint16_t value;
		const char *text;
	} rows[] = {
		{ HEADER(e_ident) + EI_CLASS, ELFCLASS32 | ELFDATA2LSB << 8, "ARM64" },
		{ HEADER(e_ident) + EI_CLASS, ELFCLASS64 | ELFDATA2MSB << 8, "ARM64" },
		{ HEADER(e_machine), EM_X86_64, "is not for little-endian ARM64" },
		{ HEADER(e_type), ET_REL, "is no vmlinux" },
		{ HEADER(e_type), ET_CORE, "is no vmlinux" },
		{ HEADER(e_phentsize), 32, "is no vmlinux" },
		{ HEADER(e_phentsize), 0, "is no vmlinux" },
		{ HEADER(e_phnum), 0, "is no vmlinux" },
		{ HEADER(e_phnum), 257, "is no vmlinux" },
		{ HEADER(e_phnum), UINT16_MAX, "is no vmlinux" },
	};

	make(&forms[1]);
	vmlinux = image_make_vmlinux(&made.g, 0, &vmlinux_size);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_bad_header(rows[i].at, &rows[i].value, 2, rows[i].text);
	expect_bad_bytes(vmlinux, sizeof(Elf64_Ehdr) - 1, GS_EMALFORMED, "is cut off");
	expect_bad_bytes(vmlinux, sizeof(Elf64_Ehdr), GS_EMALFORMED, "is cut off");
	expect_bad_bytes(vmlinux, 0x1000, GS_EMALFORMED, "is cut off");
	expect_bad_bytes(vmlinux, vmlinux_size - 1, GS_EMALFORMED, "is cut off");
	free(vmlinux);
	done();
}
END_TEST

START_TEST(segments_that_lie_are_refused)
{
	static const struct {
		size_t at;
		uint64_t value;
		const char *text;
	} rows[] = {
		{ HEADER(e_phoff), UINT64_MAX, "is cut off" },
		{ HEADER(e_phoff), INT64_MAX, "is cut off" },
		{ HEADER(e_phoff), INT64_MAX - 100, "is cut off" },
		{ HEADER(e_phoff), UINT64_C(1) << 40, "is cut off" },
		{ SEGMENT(0, p_offset), UINT64_MAX, "is cut off" },
		{ SEGMENT(0, p_offset), UINT64_C(1) << 40, "is cut off" },
		{ SEGMENT(0, p_filesz), UINT64_C(100) << 20, "is cut off" },
		{ SEGMENT(0, p_filesz), UINT64_MAX, "has a segment that wraps" },
		{ SEGMENT(0, p_vaddr), UINT64_MAX - 0x1000, "has a segment that wraps" },
		{ SEGMENT(0, p_vaddr), IMAGE_LINK + (UINT64_C(256) << 20), "has no segments" },
		{ SEGMENT(0, p_vaddr), 0, "has no segments" },
	};

	make(&forms[1]);
	vmlinux = image_make_vmlinux(&made.g, 0, &vmlinux_size);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_bad_header(rows[i].at, &rows[i].value, 8, rows[i].text);
	// only debug information: a file of --only-keep-debug
	for (size_t i = 0; i < 3; i += 2)
		memset(vmlinux + SEGMENT(i, p_filesz), 0, 8);
	expect_bad_bytes(vmlinux, vmlinux_size, GS_EMALFORMED,
			 "(stripped of all but debug information?)");
	free(vmlinux);
	done();
}
END_TEST

// A file of beginnings of tables must not keep us for hours.
START_TEST(image_full_of_beginnings_of_tables_is_given_up)
{
	make(&forms[1]);
	const size_t n = made.g.symtab.token_index + 512 - made.g.symtab.token_table, step = 0x2000;
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);
	uint8_t *file = calloc(1, 40 * step + size);

	ck_assert_ptr_nonnull(file);
	memcpy(file, image, 64);
	memcpy(file + 40 * step, image, size);
	for (size_t i = 9; i < 40; i++) // 31 of them
		memcpy(file + i * step, made.g.symtab.data + made.g.symtab.token_table, n);
	struct image_file f = image_file_make(file, 40 * step + size);
	ck_assert_msg(lnx_reference_open(f.path, &made.ref, &made.err) == GS_OK, "%s",
		      made.err.text);
	ck_assert_uint_eq(made.ref->ks.n, made.g.symbol_count);
	image_file_close(&f);
	lnx_reference_destroy(made.ref);
	memcpy(file + 8 * step, made.g.symtab.data + made.g.symtab.token_table, n);
	expect_bad_bytes(file, 40 * step + size, GS_EMALFORMED, "has no symbol table");
	free(image);
	free(file);
	done();
}
END_TEST

Suite *suite_image(void)
{
	Suite *s = suite_create("image");
	TCase *tc = tcase_create("image");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, images_of_all_forms_are_read);
	tcase_add_test(tc, bytes_behind_an_image_do_no_harm);
	tcase_add_test(tc, image_without_types_is_read);
	tcase_add_test(tc, types_of_an_image_are_those_behind_false_headers);
	tcase_add_test(tc, what_is_no_file_is_refused);
	tcase_add_test(tc, files_that_are_no_kernel_are_refused);
	tcase_add_test(tc, image_without_a_symbol_table_is_refused);
	tcase_add_test(tc, images_that_are_cut_off_are_refused);
	tcase_add_test(tc, gzip_data_that_is_damaged_is_refused);
	tcase_add_test(tc, files_larger_than_any_kernel_are_refused);
	tcase_add_test(tc, elf_files_that_are_no_vmlinux_are_refused);
	tcase_add_test(tc, segments_that_lie_are_refused);
	tcase_add_test(tc, image_full_of_beginnings_of_tables_is_given_up);
	suite_add_tcase(s, tc);
	return s;
}
