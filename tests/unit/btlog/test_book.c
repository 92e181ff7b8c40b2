/* SPDX-License-Identifier: Apache-2.0 */
/* Books: what is taken from a log, counted, saved, loaded; and streams that are none. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"
#include "kcdata/kcdata.h"
#include "kcdata/validate.h"
#include "tests/unit/btlog/suites.h"

#define BANNER "Linux version 6.1.0-test (a@b) #1 SMP"

#define CALLS(log, element, op, time_ns, ...)                                   \
	record_calls((log), (element), (op), (const uint32_t[]){ __VA_ARGS__ }, \
		     sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), (time_ns))

/*
 * Ten records: function 1 called from 2 and 3, recursion of 4, a deep stack that is cut, one without
 * frames, one in user mode.
 */
static void fill(struct btl_log *log)
{
	uint64_t t = gs_clock_ns();
	uint32_t deep[20], ref;
	uint64_t user = BTL_FRAME_PSEUDO(BTL_PSEUDO_USER);

	for (uint32_t i = 0; i < 20; i++)
		deep[i] = 10 + i;
	for (uint32_t i = 0; i < 3; i++)
		CALLS(log, i, BTL_OP_SLEEPING, t, 1, 2, 5);
	CALLS(log, 3, BTL_OP_RUNNING, t, 1, 3, 5);
	CALLS(log, 4, BTL_OP_RUNNING, t, 4, 4, 4, 5);
	CALLS(log, 5, BTL_OP_RUNNING, t, 5);
	record_calls(log, 6, BTL_OP_SLEEPING, deep, 20, t);
	record_calls(log, 7, BTL_OP_ZOMBIE, deep, 0, t);
	for (uint32_t i = 8; i < 10; i++) {
		ck_assert_int_eq(btl_get(log->lib, &user, 1, 0, &ref), GS_OK);
		ck_assert_int_eq(btl_log_record(log, i, BTL_OP_RUNNING, ref, t), GS_OK);
	}
}

static void make(struct btl_book *book)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 64);

	fill(log);
	take(book, log, BANNER);
	btl_log_destroy(log);
	close_library(lib);
}

static const struct btl_function_count *find_function(const struct btl_book *book,
						      const struct btl_counts *c, const char *name)
{
	char buf[BTL_FUNCTION_TEXT];

	for (uint32_t i = 0; i < c->count; i++)
		if (!strcmp(btl_function_name(book, &c->function[i], buf), name))
			return &c->function[i];
	ck_abort_msg("no function %s", name);
}

static void check_function(const struct btl_book *book, const struct btl_counts *c,
			   const char *name, uint64_t self, uint64_t total)
{
	const struct btl_function_count *f = find_function(book, c, name);

	ck_assert_msg(f->self == self && f->total == total, "%s: %lu self, %lu total", name,
		      (unsigned long)f->self, (unsigned long)f->total);
}

static void check_counts(const struct btl_book *book)
{
	struct btl_counts c;
	char name[512];

	ck_assert_int_eq(btl_count_functions(book, NULL, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 10);
	ck_assert_uint_eq(c.cut, 1);
	ck_assert_uint_eq(c.empty, 1);
	check_function(book, &c, "function_1", 4, 4);
	check_function(book, &c, "function_2", 0, 3);
	check_function(book, &c, "function_3", 0, 1);
	check_function(book, &c, "function_4", 1, 1);
	check_function(book, &c, function_name(5, name), 1, 6);
	check_function(book, &c, "function_10", 1, 1);
	check_function(book, &c, "function_22", 0, 1);
	check_function(book, &c, "[user]", 2, 2);
	ck_assert_uint_eq(c.count, 5 + 13 + 1);
	btl_counts_deinit(&c);

	ck_assert_int_eq(btl_count_stacks(book, NULL, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.count, 7);
	ck_assert_uint_eq(c.stack[0].count, 3);
	ck_assert_uint_eq(book->stack[c.stack[0].stack].count, 3);
	btl_counts_deinit(&c);

	ck_assert_int_eq(btl_count_ops(book, NULL, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.count, 3);
	ck_assert_str_eq(c.op[0].name, "running");
	ck_assert_uint_eq(c.op[0].count, 5);
	ck_assert_str_eq(c.op[1].name, "sleeping");
	ck_assert_uint_eq(c.op[1].count, 4);
	ck_assert_str_eq(c.op[2].name, "zombie");
	ck_assert_uint_eq(c.op[2].count, 1);
	btl_counts_deinit(&c);
}

START_TEST(records_are_counted_by_stack_function_and_operation)
{
	struct btl_book book = { 0 };

	make(&book);
	check_counts(&book);
	btl_book_deinit(&book);
}
END_TEST

START_TEST(a_filter_chooses_operations_and_times)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 64);
	uint64_t start = gs_clock_ns() - 2 * GS_NS_PER_SEC;
	struct btl_book book = { 0 };
	struct btl_counts c;

	/* one record each 100 ms of the last 2 s, in a log that is as old */
	log->epoch_ns -= 10 * GS_NS_PER_SEC;
	for (uint32_t i = 0; i < 20; i++)
		CALLS(log, i, i % 4, start + i * 100 * GS_NS_PER_MS, i % 4);
	take(&book, log, BANNER);
	uint64_t first = book.entry[0].time_us;
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_uint_eq(book.entry[i].element, i);
		ck_assert_uint_eq(book.entry[i].time_us, first + i * 100000);
	}

	struct btl_filter f = { .from_us = first - 5000, .log = BTL_NONE };
	ck_assert_int_eq(btl_count_stacks(&book, &f, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 20);
	btl_counts_deinit(&c);
	f.ops = 1 << 1 | 1 << 3;
	ck_assert_int_eq(btl_count_ops(&book, &f, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 10);
	ck_assert_uint_eq(c.count, 2);
	btl_counts_deinit(&c);
	f = (struct btl_filter){ .from_us = book.entry[3].time_us,
				 .to_us = book.entry[7].time_us,
				 .log = 0 };
	ck_assert_int_eq(btl_count_functions(&book, &f, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 4);
	check_function(&book, &c, "function_3", 1, 1);
	btl_counts_deinit(&c);
	f.log = 7;
	ck_assert_int_eq(btl_count_functions(&book, &f, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 0);
	ck_assert_uint_eq(c.count, 0);
	btl_counts_deinit(&c);
	btl_book_deinit(&book);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

/* Times are moved to the wall clock by what both clocks show when the log is read. */
START_TEST(times_are_of_the_wall_clock)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 64);
	struct btl_book book = { 0 };
	uint64_t before = gs_clock_wall_us();

	CALLS(log, 1, 1, gs_clock_ns(), 1);
	take(&book, log, BANNER);
	uint64_t after = gs_clock_wall_us();
	/* to 10 ms, downwards, but not before the log was enabled */
	ck_assert_uint_ge(book.entry[0].time_us + 50000, before);
	ck_assert_uint_le(book.entry[0].time_us, after);
	ck_assert_uint_le(book.log[0].from_us, book.entry[0].time_us + 1);
	ck_assert_uint_ge(book.log[0].to_us, book.entry[0].time_us);
	btl_book_deinit(&book);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

static void check_equal(const struct btl_book *a, const struct btl_book *b)
{
#define SAME(n, array)                                                                  \
	do {                                                                            \
		ck_assert_uint_eq(a->n, b->n);                                          \
		if (a->n)                                                               \
			ck_assert_mem_eq(a->array, b->array, a->n * sizeof(*a->array)); \
	} while (0)
	ck_assert_uint_eq(a->flags, b->flags);
	SAME(kernels, kernel);
	SAME(logs, log);
	SAME(ops, op);
	SAME(stacks, stack);
	SAME(entries, entry);
	ck_assert_uint_eq(a->frames, b->frames);
	ck_assert_uint_eq(a->symbols, b->symbols);
	/* symbols are sorted by the length of their names, so their indices may differ */
	for (uint32_t i = 0; i < a->frames; i++) {
		char x[BTL_FUNCTION_TEXT], y[BTL_FUNCTION_TEXT];

		ck_assert_uint_eq(a->frame[i].frame, b->frame[i].frame);
		ck_assert_uint_eq(a->frame[i].offset, b->frame[i].offset);
		ck_assert_str_eq(btl_frame_function(a, i, x), btl_frame_function(b, i, y));
		const char *of_a = btl_frame_module(a, i), *of_b = btl_frame_module(b, i);
		ck_assert(!of_a == !of_b && (!of_a || !strcmp(of_a, of_b)));
	}
#undef SAME
}

START_TEST(a_saved_book_comes_back)
{
	struct btl_book book = { 0 }, loaded;
	struct gs_error err = { 0 };
	struct kcd_verdict v;
	uint8_t *data;
	size_t len;

	make(&book);
	ck_assert_int_eq(btl_book_encode(&book, &data, &len, &err), GS_OK);
	/* it describes itself: nothing to complain of for a reader that does not know it */
	ck_assert_int_eq(kcd_validate(data, len, NULL, NULL, NULL, &v), KCD_OK);
	ck_assert_uint_eq(v.errors, 0);
	ck_assert_int_eq(btl_book_decode(data, len, &loaded, &err), GS_OK);
	check_equal(&book, &loaded);
	check_counts(&loaded);
	ck_assert_uint_gt(loaded.modules, 0);
	ck_assert_str_eq(loaded.kernel[0].banner, BANNER);
	ck_assert_uint_eq(loaded.kernel[0].text, BASE);
	ck_assert_str_eq(loaded.log[0].name, "log");
	btl_book_deinit(&loaded);
	btl_book_deinit(&book);
	/* an empty one too */
	free(data);
	ck_assert_int_eq(btl_book_encode(&book, &data, &len, &err), GS_OK);
	ck_assert_int_eq(btl_book_decode(data, len, &loaded, &err), GS_OK);
	ck_assert_uint_eq(loaded.entries, 0);
	btl_book_deinit(&loaded);
	free(data);
}
END_TEST

START_TEST(a_book_may_have_several_logs_of_one_kernel)
{
	struct btl_library *lib = library(0);
	struct btl_log *a = ring(lib, 64), *b = hash(lib, 64);
	struct btl_book book = { 0 };
	struct btl_counts c;
	uint64_t text = BASE;

	fill(a);
	fill(b);
	take(&book, a, BANNER);
	uint32_t stacks = book.stacks, symbols = book.symbols, frames = book.frames;
	take(&book, b, BANNER);
	ck_assert_uint_eq(book.kernels, 1);
	ck_assert_uint_eq(book.logs, 2);
	ck_assert_uint_eq(book.stacks, stacks);
	ck_assert_uint_eq(book.symbols, symbols);
	ck_assert_uint_eq(book.frames, frames);
	ck_assert_int_eq(btl_count_ops(&book, NULL, &c, NULL), GS_OK);
	ck_assert_uint_eq(c.records, 20);
	ck_assert_uint_eq(c.count, 3);
	btl_counts_deinit(&c);
	ck_assert_int_eq(btl_book_take(&book, a, &(struct btl_kernel){ .banner = "another" },
				       name_of, &text, NULL),
			 GS_EINVAL);
	ck_assert_uint_eq(book.logs, 2);
	btl_log_disable(a);
	ck_assert_int_eq(
		btl_book_take(&book, a, &(struct btl_kernel){ .banner = BANNER }, NULL, NULL, NULL),
		GS_ENOENT);
	btl_book_deinit(&book);
	btl_log_destroy(a);
	btl_log_destroy(b);
	close_library(lib);
}
END_TEST

START_TEST(without_names_functions_are_addresses)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 64);
	struct btl_book book = { 0 };
	struct btl_counts c;

	CALLS(log, 1, 1, 0, 1, 2);
	ck_assert_int_eq(btl_book_take(&book, log, &(struct btl_kernel){ .banner = BANNER }, NULL,
				       NULL, NULL),
			 GS_OK);
	ck_assert_int_eq(btl_count_functions(&book, NULL, &c, NULL), GS_OK);
	check_function(&book, &c, "0xffff800008000114", 1, 1);
	check_function(&book, &c, "0xffff800008000218", 0, 1);
	btl_counts_deinit(&c);
	btl_book_deinit(&book);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(other_streams_are_no_books)
{
	uint8_t buf[256];
	struct kcd_writer w;
	struct btl_book book;
	struct gs_error err = { 0 };

	ck_assert_int_eq(kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0), KCD_OK);
	ck_assert_int_eq(btl_book_decode(buf, kcd_writer_used(&w), &book, &err), GS_ENOENT);
	ck_assert_int_eq(btl_book_decode(buf, 20, &book, &err), GS_EMALFORMED);
	ck_assert_int_eq(btl_book_decode("", 0, &book, &err), GS_EMALFORMED);
	struct btl_book_record r = { BTL_RECORD_VERSION + 1, 0 };
	ck_assert_int_eq(kcd_append(&w, BTL_RECORD_BOOK, &r, sizeof(r)), KCD_OK);
	ck_assert_int_eq(btl_book_decode(buf, kcd_writer_used(&w), &book, &err), GS_ENOTSUP);
}
END_TEST

/* A stream of one array of one element, behind the book's record and what it refers to. */
static enum gs_code decode_one(uint32_t type, const void *element, size_t size)
{
	static uint8_t buf[4096];
	const struct btl_book_record b = { BTL_RECORD_VERSION, 0 };
	const struct btl_kernel_record kernel = { .text = BASE, .banner = "x" };
	const struct btl_log_record log = { .name = "x" };
	const struct btl_module_record module = { .name = "m" };
	const struct btl_symbol_record symbol = { .start = BASE, .size = 1, .name = "f" };
	const struct btl_frame_record frame = { BASE, 0, 0 };
	const struct btl_stack_record stack = { .count = 1 };
	struct btl_book book;
	struct kcd_writer w;

	enum kcd_code rc = kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0);
	rc = rc ? rc : kcd_append(&w, BTL_RECORD_BOOK, &b, sizeof(b));
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_KERNEL, 1, sizeof(kernel), &kernel);
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_LOG, 1, sizeof(log), &log);
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_MODULE, 1, sizeof(module), &module);
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_SYMBOL, 1, sizeof(symbol), &symbol);
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_FRAME, 1, sizeof(frame), &frame);
	rc = rc ? rc : kcd_append_array(&w, BTL_RECORD_STACK, 1, sizeof(stack), &stack);
	rc = rc ? rc : kcd_append_array(&w, type, 1, size, element);
	ck_assert_int_eq(rc, KCD_OK);
	enum gs_code result = btl_book_decode(buf, kcd_writer_used(&w), &book, NULL);
	if (!result)
		btl_book_deinit(&book);
	return result;
}

#define DECODE(type, ...) decode_one((type), &(__VA_ARGS__), sizeof(__VA_ARGS__))

START_TEST(what_refers_to_nothing_is_malformed)
{
	struct btl_stack_record s = { .count = 13 };

	ck_assert_int_eq(DECODE(BTL_RECORD_STACK, s), GS_OK);
	s.count = 14;
	ck_assert_int_eq(DECODE(BTL_RECORD_STACK, s), GS_EMALFORMED);
	s.count = 13;
	s.frame[12] = 1;
	ck_assert_int_eq(DECODE(BTL_RECORD_STACK, s), GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_FRAME, (struct btl_frame_record){ BASE, 1, 0 }),
			 GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_FRAME, (struct btl_frame_record){ BASE, BTL_NONE, 0 }),
			 GS_OK);
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (struct btl_entry_record){ .op = 63 }), GS_OK);
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (struct btl_entry_record){ .op = 64 }),
			 GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (struct btl_entry_record){ .log = 1 }),
			 GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (struct btl_entry_record){ .stack = 1 }),
			 GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_LOG, (struct btl_log_record){ .kernel = 1 }),
			 GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_OP, (struct btl_op_record){ .log = 1 }), GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_OP, (struct btl_op_record){ .op = 64 }), GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_KERNEL,
				(struct btl_kernel_record){ .text = BASE, .banner = "x" }),
			 GS_EMALFORMED);
	ck_assert_int_eq(
		DECODE(BTL_RECORD_SYMBOL, (struct btl_symbol_record){ .flags = UINT64_C(1) << 32 }),
		GS_OK);
	ck_assert_int_eq(
		DECODE(BTL_RECORD_SYMBOL, (struct btl_symbol_record){ .flags = UINT64_C(2) << 32 }),
		GS_EMALFORMED);
	ck_assert_int_eq(
		DECODE(BTL_RECORD_LONG_SYMBOL, (struct btl_long_symbol_record){ .flags = ~0ull }),
		GS_EMALFORMED);
	ck_assert_int_eq(
		DECODE(BTL_RECORD_KERNEL, (struct btl_kernel_record){ .build_id_len = 21 }),
		GS_EMALFORMED);
	ck_assert_int_eq(DECODE(BTL_RECORD_BOOK, (struct btl_book_record){ BTL_RECORD_VERSION, 0 }),
			 GS_EMALFORMED);
	/* elements shorter than the first version's */
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (uint64_t){ 0 }), GS_EMALFORMED);
	/* longer ones are newer */
	ck_assert_int_eq(DECODE(BTL_RECORD_ENTRY, (struct {
					struct btl_entry_record e;
					uint64_t more;
				}){ .more = 1 }),
			 GS_OK);
}
END_TEST

/* Whatever is done to a stream: an error or a book that can be counted, and no crash. */
START_TEST(damaged_books_do_no_harm)
{
	struct btl_book book = { 0 }, loaded;
	struct dice d = { (uint64_t)_i };
	uint8_t *data, *copy;
	uint32_t good = 0;
	size_t len;

	make(&book);
	ck_assert_int_eq(btl_book_encode(&book, &data, &len, NULL), GS_OK);
	copy = malloc(len);
	ck_assert_ptr_nonnull(copy);
	for (uint32_t round = 0; round < 2000; round++) {
		struct btl_counts c;

		memcpy(copy, data, len);
		for (uint32_t n = 1 + roll(&d, 4); n; n--)
			copy[roll(&d, (uint32_t)len)] = roll(&d, 2)
								? (uint8_t)roll(&d, 256)
								: (uint8_t)(0xffu >> roll(&d, 8));
		if (btl_book_decode(copy, round % 3 ? len : roll(&d, (uint32_t)len), &loaded, NULL))
			continue;
		good++;
		ck_assert_int_eq(btl_count_functions(&loaded, NULL, &c, NULL), GS_OK);
		btl_counts_deinit(&c);
		ck_assert_int_eq(btl_count_ops(&loaded, NULL, &c, NULL), GS_OK);
		btl_counts_deinit(&c);
		ck_assert_int_eq(btl_book_merge(&loaded, &book, BTL_MERGE_AUTO, NULL), GS_OK);
		btl_book_deinit(&loaded);
	}
	ck_assert_uint_gt(good, 100);
	free(copy);
	free(data);
	btl_book_deinit(&book);
}
END_TEST

Suite *suite_book(void)
{
	Suite *s = suite_create("book");
	TCase *tc = tcase_create("book");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, records_are_counted_by_stack_function_and_operation);
	tcase_add_test(tc, a_filter_chooses_operations_and_times);
	tcase_add_test(tc, times_are_of_the_wall_clock);
	tcase_add_test(tc, a_saved_book_comes_back);
	tcase_add_test(tc, a_book_may_have_several_logs_of_one_kernel);
	tcase_add_test(tc, without_names_functions_are_addresses);
	tcase_add_test(tc, other_streams_are_no_books);
	tcase_add_test(tc, what_refers_to_nothing_is_malformed);
	tcase_add_loop_test(tc, damaged_books_do_no_harm, 0, 4);
	suite_add_tcase(s, tc);
	return s;
}
