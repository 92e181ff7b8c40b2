/* SPDX-License-Identifier: Apache-2.0 */
/* The page cache: same answers as the source, fewer questions, bounded, from many threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/guest/page_cache.h"
#include "tests/unit/guest/suites.h"

#define PAGE 4096

struct origin {
	atomic_uint fills;
	uint64_t bad; /* page that cannot be read; 0: none */
};

/* Every 8 bytes hold their own address. */
static enum gs_code origin_fill(void *priv, gpa_t page, void *buf)
{
	struct origin *o = priv;

	ck_assert_uint_eq(page.a % PAGE, 0);
	atomic_fetch_add(&o->fills, 1);
	for (uint64_t i = 0; i < PAGE; i += 8) {
		uint64_t value = page.a + i;

		memcpy((char *)buf + i, &value, 8);
	}
	return o->bad && page.a == o->bad ? GS_EFAULT : GS_OK;
}

START_TEST(cache_answers_like_its_source_and_asks_once)
{
	struct origin o = { 0 };
	struct guest_page_cache *c = guest_page_cache_create(12, 1 << 20, origin_fill, &o);
	static uint64_t words[1024 + 2];

	ck_assert(c);
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(guest_page_cache_read(c, GPA(0x40000ff8), words, 16), GS_OK);
		ck_assert_uint_eq(words[0], 0x40000ff8);
		ck_assert_uint_eq(words[1], 0x40001000);
	}
	ck_assert_uint_eq(o.fills, 2);
	// Whole pages pass by, but what is there is used.
	ck_assert_int_eq(guest_page_cache_read(c, GPA(0x40000000), words, 8192), GS_OK);
	ck_assert_uint_eq(o.fills, 2);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(guest_page_cache_read(c, GPA(0x50000ff8), words, 8192 + 8), GS_OK);
	ck_assert_uint_eq(words[1025 - 1], 0x50000ff8 + 8192);
	ck_assert_uint_eq(o.fills, 2 + 1 + 2 + 2); // the first is kept, two pass by, twice
	guest_page_cache_clear(c);
	ck_assert_int_eq(guest_page_cache_read(c, GPA(0x40000008), words, 8), GS_OK);
	ck_assert_uint_eq(o.fills, 8);
	guest_page_cache_destroy(c);
	guest_page_cache_destroy(NULL);
}
END_TEST

START_TEST(pages_older_than_wanted_are_fetched_again)
{
	struct origin o = { 0 };
	struct guest_page_cache *c = guest_page_cache_create(12, 1 << 16, origin_fill, &o);
	uint64_t word, before = gs_clock_ns();

	ck_assert_int_eq(guest_page_cache_read_since(c, GPA(0x3008), &word, 8, before), GS_OK);
	ck_assert_int_eq(guest_page_cache_read_since(c, GPA(0x3010), &word, 8, before), GS_OK);
	ck_assert_uint_eq(o.fills, 1);
	uint64_t after = gs_clock_ns() + 1;
	ck_assert_int_eq(guest_page_cache_read_since(c, GPA(0x3010), &word, 8, after), GS_OK);
	ck_assert_uint_eq(word, 0x3010);
	ck_assert_uint_eq(o.fills, 2);
	/* the new one counts from its own time */
	ck_assert_int_eq(guest_page_cache_read_since(c, GPA(0x3010), &word, 8, after), GS_OK);
	ck_assert_int_eq(guest_page_cache_read(c, GPA(0x3010), &word, 8), GS_OK);
	ck_assert_uint_eq(o.fills, 2);
	guest_page_cache_destroy(c);
}
END_TEST

START_TEST(page_that_cannot_be_read_is_not_kept)
{
	struct origin o = { .bad = 0x3000 };
	struct guest_page_cache *c = guest_page_cache_create(12, 1 << 16, origin_fill, &o);
	static uint64_t words[1024];

	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(guest_page_cache_read(c, GPA(0x3008), words, 8), GS_EFAULT);
		ck_assert_int_eq(guest_page_cache_read(c, GPA(0x2ff8), words, 16), GS_EFAULT);
		ck_assert_int_eq(guest_page_cache_read(c, GPA(0x3000), words, 4096), GS_EFAULT);
	}
	o.bad = 0;
	ck_assert_int_eq(guest_page_cache_read(c, GPA(0x3008), words, 8), GS_OK);
	ck_assert_uint_eq(words[0], 0x3008);
	guest_page_cache_destroy(c);
}
END_TEST

START_TEST(pages_in_use_stay_while_others_pass)
{
	struct origin o = { 0 };
	struct guest_page_cache *c = guest_page_cache_create(12, 1, origin_fill, &o); // 8 pages
	uint64_t word;
	unsigned int hot = 0;

	for (uint64_t i = 0; i < 1000; i++) {
		unsigned int before = o.fills;

		ck_assert_int_eq(guest_page_cache_read(c, GPA(8), &word, 8), GS_OK);
		hot += o.fills - before;
		ck_assert_int_eq(guest_page_cache_read(c, GPA((i + 1) * PAGE), &word, 8), GS_OK);
		ck_assert_uint_eq(word, (i + 1) * PAGE);
	}
	ck_assert_uint_eq(hot, 1);
	guest_page_cache_destroy(c);
	ck_assert(!guest_page_cache_create(8, 1 << 20, origin_fill, &o));
	ck_assert(!guest_page_cache_create(21, 1 << 20, origin_fill, &o));
}
END_TEST

static void *reader(void *arg)
{
	uint64_t words[3], x = (uint64_t)(uintptr_t)&words | 1;

	for (int i = 0; i < 20000; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		uint64_t at = (x % (64 * PAGE)) & ~UINT64_C(7);

		if (guest_page_cache_read(arg, GPA(at), words, sizeof(words)) || words[0] != at ||
		    words[1] != at + 8 || words[2] != at + 16)
			return arg;
	}
	return NULL;
}

START_TEST(readers_on_many_threads_see_whole_pages)
{
	struct origin o = { 0 };
	struct guest_page_cache *c = guest_page_cache_create(12, 16 * PAGE, origin_fill, &o);
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, reader, c), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		ck_assert_ptr_null(wrong);
	}
	guest_page_cache_destroy(c);
}
END_TEST

Suite *suite_page_cache(void)
{
	Suite *s = suite_create("page cache");
	TCase *c = tcase_create("page cache");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, cache_answers_like_its_source_and_asks_once);
	tcase_add_test(c, pages_older_than_wanted_are_fetched_again);
	tcase_add_test(c, page_that_cannot_be_read_is_not_kept);
	tcase_add_test(c, pages_in_use_stay_while_others_pass);
	tcase_add_test(c, readers_on_many_threads_see_whole_pages);
	suite_add_tcase(s, c);
	return s;
}
