/* SPDX-License-Identifier: Apache-2.0 */
/* Merging books: of one boot, of several boots of one build, of several builds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"
#include "tests/unit/btlog/suites.h"

#define BUILD_A "Linux version 6.1.0-a #1"
#define BUILD_B "Linux version 6.12.0-b #1"
#define MODULE	UINT64_C(0x20000000) /* distance of the test's module below the text */

/* A guest kernel whose functions are numbered: name_of(), and a module at a place of its own. */
struct kernel {
	uint64_t text, module;
	uint32_t first; /* number of the function at the text's start: other builds have others */
	const char *module_name; /* NULL: "m" */
};

static bool name_in_kernel(void *arg, uint64_t address, struct btl_name *out)
{
	const struct kernel *k = arg;
	bool module = address - k->module < 0x10000;

	if (!module && address - k->text >= TEXT_BYTES)
		return false;
	uint64_t start = module ? k->module : k->text;
	uint32_t number = (uint32_t)(address - start) / 0x100 + (module ? 0 : k->first);

	out->start = address & ~UINT64_C(0xff);
	out->size = 0x100;
	out->flags = module ? BTL_SYMBOL_MODULE : 0;
	snprintf(out->name, sizeof(out->name), module ? "module_%u" : "function_%u", number);
	if (module)
		strcpy(out->module, k->module_name ? k->module_name : "m");
	return true;
}

/* Functions of the image by number, of the module by number + 1000, no name: 2000. */
static uint64_t frame_in(const struct kernel *k, uint32_t number)
{
	if (number == 2000)
		return UINT64_C(0xffff900000000044);
	if (number >= 1000)
		return k->module + 0x100 * (number - 1000) + 0x20;
	return k->text + 0x100 * (number - k->first) + 0x20;
}

/* A book of stacks of three functions each; @p times: how often each is recorded. */
static void make(struct btl_book *book, const struct kernel *k, const char *banner,
		 const uint32_t (*stacks)[3], uint32_t count, uint32_t times)
{
	struct btl_library_options o = { .base = k->text };
	struct btl_library *lib;
	uint32_t ref;

	ck_assert_int_eq(btl_library_create(&o, &lib, NULL), GS_OK);
	struct btl_log *log = ring(lib, 256);
	for (uint32_t i = 0; i < count * times; i++) {
		uint64_t frames[3];

		for (uint32_t f = 0; f < 3; f++)
			frames[f] = frame_in(k, stacks[i % count][f]);
		ck_assert_int_eq(btl_get(lib, frames, 3, 0, &ref), GS_OK);
		ck_assert_int_eq(btl_log_record(log, i, 1, ref, gs_clock_ns()), GS_OK);
	}
	ck_assert_int_eq(btl_book_take(book, log, &(struct btl_kernel){ .banner = banner },
				       name_in_kernel, (void *)k, NULL),
			 GS_OK);
	btl_log_destroy(log);
	close_library(lib);
}

/* "name [module]" */
static const char *text_of(const struct btl_book *book, const struct btl_function_count *f)
{
	static char text[BTL_LONG_SYMBOL_NAME_SIZE + BTL_MODULE_NAME_SIZE];
	const char *module = btl_frame_module(book, f->frame);
	char buf[BTL_FUNCTION_TEXT];

	snprintf(text, sizeof(text), module ? "%s [%s]" : "%s", btl_function_name(book, f, buf),
		 module);
	return text;
}

static uint64_t count_of(const struct btl_book *book, const char *name, uint64_t *total_out)
{
	struct btl_counts c;
	uint64_t self = 0;

	*total_out = 0;
	ck_assert_int_eq(btl_count_functions(book, NULL, &c, NULL), GS_OK);
	for (uint32_t i = 0; i < c.count; i++)
		if (!strcmp(text_of(book, &c.function[i]), name)) {
			self = c.function[i].self;
			ck_assert_uint_eq(*total_out, 0); // once
			*total_out = c.function[i].total;
		}
	btl_counts_deinit(&c);
	return self;
}

static void check_function(const struct btl_book *book, const char *name, uint64_t self,
			   uint64_t total)
{
	uint64_t is_total, is_self = count_of(book, name, &is_total);

	ck_assert_msg(is_self == self && is_total == total, "%s: %lu self, %lu total", name,
		      (unsigned long)is_self, (unsigned long)is_total);
}

static const uint32_t first_stacks[][3] = { { 1, 2, 3 }, { 4, 1001, 3 }, { 1002, 2, 3 } };
static const uint32_t second_stacks[][3] = { { 1, 2, 3 }, { 4, 1001, 3 }, { 7, 2, 3 } };

/* The same stacks are one whether the kernel and its module lie at the same place or elsewhere. */
static void merge_one_build(uint64_t text, uint64_t module)
{
	const struct kernel a = { BASE, BASE - MODULE, 0, NULL }, b = { text, module, 0, NULL };
	struct btl_book book = { 0 }, other = { 0 };

	make(&book, &a, BUILD_A, first_stacks, 3, 2);
	make(&other, &b, BUILD_A, second_stacks, 3, 5);
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, NULL), GS_OK);
	ck_assert_uint_eq(book.flags, 0);
	ck_assert_uint_eq(book.entries, 21);
	ck_assert_uint_eq(book.logs, 2);
	ck_assert_uint_eq(book.kernels, text == BASE ? 1 : 2);
	ck_assert_uint_eq(book.stacks, 4);
	ck_assert_uint_eq(book.symbols, 7);
	check_function(&book, "function_1", 7, 7);
	check_function(&book, "function_2", 0, 14);
	check_function(&book, "function_3", 0, 21);
	check_function(&book, "module_1 [m]", 0, 7);
	check_function(&book, "module_2 [m]", 2, 2);
	check_function(&book, "function_7", 5, 5);
	for (uint32_t i = 0; i < book.frames; i++) {
		const struct btl_frame_record *f = &book.frame[i];
		const struct btl_symbol *s = &book.symbol[f->symbol];

		/* all addresses are those of the first kernel */
		ck_assert_uint_eq(btl_frame_address(f->frame), s->start + f->offset);
		ck_assert_uint_lt(s->start - (BASE - MODULE), MODULE + TEXT_BYTES);
	}
	btl_book_deinit(&book);
	btl_book_deinit(&other);
}

START_TEST(books_of_one_boot_merge)
{
	merge_one_build(BASE, BASE - MODULE);
}
END_TEST

START_TEST(books_of_one_build_merge_wherever_it_was_loaded)
{
	merge_one_build(BASE + 0x3a00000, BASE - 0x1234000);
	merge_one_build(BASE - 0x7000000, BASE + UINT64_C(0x200000000));
}
END_TEST

START_TEST(books_of_different_builds_merge_by_name)
{
	const struct kernel a = { BASE, BASE - MODULE, 0, NULL };
	/* its functions lie elsewhere: number 1 is the third one, 0 and 2 to go */
	const struct kernel b = { BASE + 0x1000000, BASE - 0x30000000, 1, NULL };
	struct btl_book book = { 0 }, other = { 0 };
	struct gs_error err = { 0 };

	make(&book, &a, BUILD_A, first_stacks, 3, 2);
	make(&other, &b, BUILD_B, second_stacks, 3, 5);
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, &err), GS_EINVAL);
	ck_assert_uint_eq(book.logs, 1);
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_AUTO, NULL), GS_OK);
	ck_assert_uint_eq(book.flags, BTL_BOOK_BY_NAME);
	ck_assert_uint_eq(book.kernels, 2);
	ck_assert_uint_eq(book.stacks, 4);
	check_function(&book, "function_1", 7, 7);
	check_function(&book, "function_3", 0, 21);
	check_function(&book, "module_1 [m]", 0, 7);
	check_function(&book, "function_7", 5, 5);
	/* and saved, and merged with a third one */
	uint8_t *data;
	size_t len;
	struct btl_book loaded;
	ck_assert_int_eq(btl_book_encode(&book, &data, &len, NULL), GS_OK);
	ck_assert_int_eq(btl_book_decode(data, len, &loaded, NULL), GS_OK);
	ck_assert_int_eq(btl_book_merge(&loaded, &other, BTL_MERGE_AUTO, NULL), GS_OK);
	check_function(&loaded, "function_7", 10, 10);
	ck_assert_uint_eq(loaded.logs, 3);
	ck_assert_uint_eq(loaded.kernels, 2);
	ck_assert_uint_eq(loaded.stacks, 4);
	ck_assert_uint_eq(loaded.log[2].kernel, 1);
	free(data);
	btl_book_deinit(&loaded);
	btl_book_deinit(&book);
	btl_book_deinit(&other);
}
END_TEST

/* Functions of one name in modules of two names are two, as is one of the image. */
static void merge_two_modules(const char *banner)
{
	const struct kernel a = { BASE, BASE - MODULE, 0, "m" };
	const struct kernel b = { BASE, BASE - MODULE - 0x100000, 0, "n" };
	struct btl_book book = { 0 }, other = { 0 };
	char name[] = "module_3";

	make(&book, &a, BUILD_A, first_stacks, 3, 2);
	make(&other, &b, banner, first_stacks, 3, 5);
	/* names are the books' own memory: one of the image gets that of one in a module */
	for (uint32_t i = 0; i < other.symbols; i++)
		if (!strcmp(other.symbol[i].name, "module_1"))
			memcpy(other.symbol[i].name, name, sizeof(name));
	for (uint32_t i = 0; i < book.symbols; i++)
		if (!strcmp(book.symbol[i].name, "function_4"))
			memcpy(book.symbol[i].name, name, sizeof(name));
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_AUTO, NULL), GS_OK);
	ck_assert_uint_eq(book.modules, 2);
	check_function(&book, "module_1 [m]", 0, 2);
	check_function(&book, "module_2 [m]", 2, 2);
	check_function(&book, "module_3 [n]", 0, 5);
	check_function(&book, "module_2 [n]", 5, 5);
	check_function(&book, "module_3", 2, 2);
	check_function(&book, "function_2", 0, 14);
	btl_book_deinit(&book);
	btl_book_deinit(&other);
}

START_TEST(functions_of_different_modules_are_different)
{
	merge_two_modules(BUILD_A);
	merge_two_modules(BUILD_B);
}
END_TEST

START_TEST(frames_without_names_are_not_mistaken)
{
	const struct kernel k = { BASE, BASE - MODULE, 0, NULL };
	static const uint32_t stacks[][3] = { { 2000, 2, 3 } };
	struct btl_book book = { 0 }, other = { 0 }, third = { 0 };

	make(&book, &k, BUILD_A, stacks, 1, 1);
	make(&other, &k, BUILD_A, stacks, 1, 1);
	make(&third, &k, BUILD_B, stacks, 1, 1);
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_AUTO, NULL), GS_OK);
	check_function(&book, "0xffff900000000044", 2, 2);
	ck_assert_int_eq(btl_book_merge(&book, &third, BTL_MERGE_AUTO, NULL), GS_OK);
	check_function(&book, "0xffff900000000044", 0, 0);
	check_function(&book, "[unknown]", 3, 3);
	btl_book_deinit(&book);
	btl_book_deinit(&other);
	btl_book_deinit(&third);
}
END_TEST

START_TEST(builds_differ_by_build_id_too)
{
	const struct kernel k = { BASE, BASE - MODULE, 0, NULL };
	struct btl_book book = { 0 }, other = { 0 };

	make(&book, &k, BUILD_A, first_stacks, 3, 1);
	make(&other, &k, BUILD_A, first_stacks, 3, 1);
	book.kernel[0].build_id_len = other.kernel[0].build_id_len = 20;
	book.kernel[0].build_id[19] = 1;
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, NULL), GS_EINVAL);
	other.kernel[0].build_id[19] = 1;
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, NULL), GS_OK);
	/* unknown in one of them: the banner decides */
	other.kernel[0].build_id_len = 0;
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, NULL), GS_OK);
	/* no banner, no build */
	book.kernel[0].banner[0] = other.kernel[0].banner[0] = '\0';
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_BUILD, NULL), GS_EINVAL);
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_BY_NAME, NULL), GS_OK);
	ck_assert_uint_eq(book.flags, BTL_BOOK_BY_NAME);
	btl_book_deinit(&book);
	btl_book_deinit(&other);
}
END_TEST

START_TEST(operations_are_told_by_name)
{
	struct btl_book book = { 0 }, other = { 0 };
	const struct kernel k = { BASE, BASE - MODULE, 0, NULL };
	struct btl_counts c;

	make(&book, &k, BUILD_A, first_stacks, 3, 1);
	make(&other, &k, BUILD_A, first_stacks, 3, 1);
	/* a log that calls operation 1 "alloc" */
	strcpy(other.op[0].name, "alloc");
	ck_assert_int_eq(btl_book_merge(&book, &other, BTL_MERGE_AUTO, NULL), GS_OK);
	ck_assert_int_eq(btl_count_ops(&book, NULL, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.count, 2);
	ck_assert_uint_eq(c.op[0].count, 3);
	ck_assert_uint_eq(c.op[1].count, 3);
	ck_assert_str_ne(c.op[0].name, c.op[1].name);
	btl_counts_deinit(&c);
	btl_book_deinit(&book);
	btl_book_deinit(&other);
}
END_TEST

Suite *suite_merge(void)
{
	Suite *s = suite_create("merge");
	TCase *tc = tcase_create("merge");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, books_of_one_boot_merge);
	tcase_add_test(tc, books_of_one_build_merge_wherever_it_was_loaded);
	tcase_add_test(tc, books_of_different_builds_merge_by_name);
	tcase_add_test(tc, functions_of_different_modules_are_different);
	tcase_add_test(tc, frames_without_names_are_not_mistaken);
	tcase_add_test(tc, builds_differ_by_build_id_too);
	tcase_add_test(tc, operations_are_told_by_name);
	suite_add_tcase(s, tc);
	return s;
}
