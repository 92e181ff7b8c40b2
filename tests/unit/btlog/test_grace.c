/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for readers: places of stacks that are gone, the steps of a rehash. */
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "introspect/btlog/priv.h"
#include "tests/unit/btlog/suites.h"

/* A thread that stays in a read section until it is told to leave it. */
struct reader {
	struct btl_library *lib;
	sem_t inside, leave;
	pthread_t thread;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;

	btl_read_lock();
	sem_post(&r->inside);
	while (sem_wait(&r->leave))
		;
	btl_read_unlock(&r->lib->rcu_tag);
	return NULL;
}

static void reader_start(struct reader *r, struct btl_library *lib)
{
	r->lib = lib;
	sem_init(&r->inside, 0, 0);
	sem_init(&r->leave, 0, 0);
	ck_assert_int_eq(pthread_create(&r->thread, NULL, read_on, r), 0);
	while (sem_wait(&r->inside))
		;
}

static void reader_end(struct reader *r)
{
	sem_post(&r->leave);
	ck_assert_int_eq(pthread_join(r->thread, NULL), 0);
}

START_TEST(a_place_is_not_used_again_while_it_may_be_read)
{
	struct btl_library *lib = library(0);
	struct reader r;
	uint32_t ref = get(lib, 1);

	reader_start(&r, lib);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	for (uint32_t i = 0; i < 50; i++) {
		uint32_t other = get(lib, 2 + i);

		ck_assert_uint_ne(other, ref);
		ck_assert_uint_eq(stats_of(lib).waiting, 1);
		usleep(1000); // the library's thread would have had the time
	}
	reader_end(&r);
	btl_library_settle(lib);
	ck_assert_uint_eq(stats_of(lib).waiting, 0);
	ck_assert_uint_eq(get(lib, 1000), ref);
	btl_library_destroy(lib);
}
END_TEST

/*
 * A rehash that cannot get on, since somebody may still take an old block for the whole: stacks are found,
 * added and put meanwhile, and are where they belong afterwards.
 */
START_TEST(the_table_is_used_while_a_rehash_waits)
{
	struct btl_library *lib = library(0);
	struct reader r;
	enum btl_rehash state;

	btl_test_hash_mask(lib, 0xff0000ff); // few hashes, so long chains, cut at many places
	for (uint32_t i = 0; i < 150; i++)
		(void)get(lib, i);
	btl_library_settle(lib);
	uint64_t rehashes = stats_of(lib).rehashes;
	reader_start(&r, lib);
	ck_assert(btl_test_rehash(lib));
	do {
		pthread_mutex_lock(&lib->lock);
		state = lib->rehash;
		pthread_mutex_unlock(&lib->lock);
	} while (state != BTL_REHASH_SPLIT);

	for (uint32_t i = 0; i < 150; i++) {
		uint32_t known = get(lib, i), added = get(lib, 1000 + i);

		ck_assert_uint_eq(get(lib, i), known);
		ck_assert_uint_eq(get(lib, 1000 + i), added);
		/* one of three goes, with its other references; the places wait for the end */
		for (uint32_t n = i % 3 ? 2 : 3; n; n--)
			ck_assert_int_eq(btl_put(lib, known), GS_OK);
		ck_assert_int_eq(btl_put(lib, added), GS_OK);
	}
	ck_assert_uint_eq(stats_of(lib).waiting, 50);
	ck_assert_uint_eq(lib->deferred.count, 50);
	ck_assert_uint_eq(stats_of(lib).rehashes, rehashes);
	/* one that has gone comes back, beside what is left of it */
	uint32_t again = get(lib, 0);
	ck_assert_uint_eq(get(lib, 0), again);
	ck_assert_int_eq(btl_put(lib, again), GS_OK);
	reader_end(&r);
	btl_library_settle(lib);
	ck_assert_uint_ge(stats_of(lib).rehashes, rehashes + 1);
	ck_assert_uint_eq(stats_of(lib).waiting, 0);
	ck_assert_uint_eq(stats_of(lib).stacks, 100 + 150 + 1);
	for (uint32_t i = 0; i < 150; i++) {
		ck_assert_uint_eq(references(lib, i), i % 3 ? 1 : (i == 0));
		ck_assert_uint_eq(references(lib, 1000 + i), 1);
	}
	btl_library_destroy(lib);
}
END_TEST

Suite *suite_grace(void)
{
	Suite *s = suite_create("grace");
	TCase *tc = tcase_create("grace");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, a_place_is_not_used_again_while_it_may_be_read);
	tcase_add_test(tc, the_table_is_used_while_a_rehash_waits);
	suite_add_tcase(s, tc);
	return s;
}
