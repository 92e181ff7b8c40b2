/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each allocation fails once: what was asked for is refused, what was there stays, nothing is lost. The
 * program is linked with --wrap for the functions below (tests/tests.mk).
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "introspect/btlog/log_priv.h"
#include "tests/unit/btlog/suites.h"

/* Allocations until one fails; 0: none does. Of the thread that armed it only. */
static _Thread_local uint32_t fail_in;
static _Thread_local bool failed;

static bool fails(void)
{
	if (!fail_in || --fail_in)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);

void *__wrap_malloc(size_t n)
{
	return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
	return fails() ? NULL : __real_aligned_alloc(align, n);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}

/* Runs @p what with its n-th allocation failing, for all n; it must then say GS_ENOSPC. */
static void walk(enum gs_code (*what)(void *arg), void *arg, uint32_t least)
{
	uint32_t n = 1;

	for (;; n++) {
		fail_in = n;
		failed = false;
		enum gs_code rc = what(arg);
		fail_in = 0;
		if (!failed) {
			ck_assert_int_eq(rc, GS_OK);
			break;
		}
		ck_assert_int_eq(rc, GS_ENOSPC);
	}
	ck_assert_uint_gt(n, least);
}

static enum gs_code make_library(void *arg)
{
	struct btl_library_options o = { .base = BASE };
	struct btl_library *lib;
	struct gs_error err;
	enum gs_code rc = btl_library_create(&o, &lib, &err);

	(void)arg;
	if (!rc)
		btl_library_destroy(lib);
	return rc;
}

static enum gs_code make_log(void *arg)
{
	struct btl_log_options o = { .name = "x", .capacity = 100 };
	struct btl_log *log;
	enum gs_code rc = btl_log_create(arg, &o, &log, NULL);

	if (!rc)
		btl_log_destroy(log);
	return rc;
}

START_TEST(making_libraries_and_logs)
{
	struct btl_library *lib = library(0);

	walk(make_library, NULL, 3);
	walk(make_log, lib, 2);
	ck_assert_ptr_null(lib->logs);
	close_library(lib);
}
END_TEST

struct thing {
	struct btl_log *log;
	struct btl_book book, other;
	uint8_t *data;
	size_t len;
};

static enum gs_code enable(void *arg)
{
	struct thing *t = arg;

	btl_log_disable(t->log);
	return btl_log_enable(t->log, NULL);
}

static enum gs_code groups(void *arg)
{
	struct thing *t = arg;
	struct btl_groups g;
	enum gs_code rc = btl_log_groups(t->log, 0, &g, NULL);

	if (!rc)
		btl_groups_deinit(&g);
	return rc;
}

static enum gs_code leak_sites(void *arg)
{
	struct thing *t = arg;
	const uint64_t elements[] = { 1, 2, 3, 4 };
	struct btl_groups g;
	enum gs_code rc = btl_log_leak_sites(t->log, elements, 4, &g, NULL);

	if (!rc)
		btl_groups_deinit(&g);
	return rc;
}

static enum gs_code take_book(void *arg)
{
	struct thing *t = arg;
	struct btl_book book = { 0 };
	uint64_t text = BASE;
	enum gs_code rc = btl_book_take(&book, t->log, &(struct btl_kernel){ .banner = "b" },
					name_of, &text, NULL);

	if (rc)
		ck_assert_uint_eq(book.entries + book.logs + book.ops, 0);
	btl_book_deinit(&book);
	return rc;
}

static enum gs_code encode(void *arg)
{
	struct thing *t = arg;
	uint8_t *data;
	size_t len;
	enum gs_code rc = btl_book_encode(&t->book, &data, &len, NULL);

	if (!rc)
		free(data);
	return rc;
}

static enum gs_code decode(void *arg)
{
	struct thing *t = arg;
	struct btl_book book;
	enum gs_code rc = btl_book_decode(t->data, t->len, &book, NULL);

	if (!rc)
		btl_book_deinit(&book);
	return rc;
}

static enum gs_code merge(void *arg)
{
	struct thing *t = arg;
	uint32_t entries = t->book.entries, stacks = t->book.stacks;
	enum gs_code rc = btl_book_merge(&t->book, &t->other, BTL_MERGE_AUTO, NULL);

	if (rc) {
		ck_assert_uint_eq(t->book.entries, entries);
		ck_assert_uint_eq(t->book.stacks, stacks);
	}
	return rc;
}

static enum gs_code count(void *arg)
{
	struct thing *t = arg;
	struct btl_counts c;
	enum gs_code rc = btl_count_stacks(&t->book, NULL, &c, NULL);

	if (!rc) {
		btl_counts_deinit(&c);
		rc = btl_count_functions(&t->book, NULL, &c, NULL);
	}
	if (!rc) {
		btl_counts_deinit(&c);
		rc = btl_count_ops(&t->book, NULL, &c, NULL);
	}
	if (!rc)
		btl_counts_deinit(&c);
	return rc;
}

START_TEST(reading_logs_and_working_with_books)
{
	struct btl_library *lib = library(0);
	struct thing t = { .log = hash(lib, 4096) };

	/* more than fits into arrays' first sizes */
	for (uint32_t i = 0; i < 2000; i++)
		record(t.log, i, i % 4, i);
	walk(groups, &t, 2);
	walk(leak_sites, &t, 1);
	walk(take_book, &t, 50);
	take(&t.book, t.log, "a");
	take(&t.other, t.log, "b");
	ck_assert_int_eq(btl_book_encode(&t.book, &t.data, &t.len, NULL), GS_OK);
	walk(encode, &t, 1);
	walk(decode, &t, 50);
	walk(merge, &t, 50);
	walk(count, &t, 5);
	free(t.data);
	btl_book_deinit(&t.book);
	btl_book_deinit(&t.other);
	walk(enable, &t, 1);
	btl_log_destroy(t.log);
	close_library(lib);
}
END_TEST

Suite *suite_faults(void)
{
	Suite *s = suite_create("faults");
	TCase *tc = tcase_create("faults");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, making_libraries_and_logs);
	tcase_add_test(tc, reading_logs_and_working_with_books);
	suite_add_tcase(s, tc);
	return s;
}
