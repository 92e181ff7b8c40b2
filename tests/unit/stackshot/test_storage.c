/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and pieces of them; the work queues. */
#include <pthread.h>
#include <string.h>

#include "base/util.h"
#include "introspect/stackshot/queue.h"
#include "introspect/stackshot/storage.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/difficulty.h"
#include "tests/unit/stackshot/suites.h"

static struct ss_storage st;
static uint64_t foreign;

static void release(void)
{
	ss_storage_release(&st);
	foreign = 0;
}

static void reserve(uint32_t buffers, size_t size)
{
	ck_assert_int_eq(ss_storage_reserve(&st, buffers, size), GS_OK);
	ss_storage_reset(&st);
}

static uint32_t buffer_of(const struct kcd_chunk *piece)
{
	for (uint32_t i = 0; i < st.buffers; i++)
		if (gs_in_range((uintptr_t)piece->buf, piece->size,
				(uintptr_t)st.buffer[i].pages.at, st.buffer[i].pages.size))
			return i;
	ck_abort_msg("a piece that lies in no buffer");
	return 0;
}

START_TEST(piece_is_as_large_as_wanted_and_from_the_own_buffer)
{
	reserve(2, 16384);
	for (uint32_t own = 0; own < 2; own++) {
		struct kcd_chunk *p = ss_piece_take(&st, own, 1000, 100, &foreign);

		ck_assert_ptr_nonnull(p);
		ck_assert_uint_ge(p->size, 1000);
		ck_assert_uint_eq((uintptr_t)p->buf % 16, 0);
		ck_assert_uint_eq(buffer_of(p), own);
	}
	ck_assert_uint_eq(foreign, 0);
	ck_assert_ptr_null(ss_piece_take(&st, 0, 8192, 8192, &foreign));
	// less than wanted is fine down to the least
	struct kcd_chunk *p = ss_piece_take(&st, 0, 8192, 100, &foreign);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_lt(p->size, 8192);
	ck_assert_uint_eq(ss_storage_size(&st), 16384);
}
END_TEST

START_TEST(full_buffer_takes_from_the_one_with_most_room)
{
	reserve(3, 3 * 8192);
	ck_assert_ptr_nonnull(ss_piece_take(&st, 1, 4096, 4096, &foreign));
	ck_assert_ptr_nonnull(ss_piece_take(&st, 0, 7000, 7000, &foreign));
	ck_assert_uint_eq(foreign, 0);
	struct kcd_chunk *p = ss_piece_take(&st, 0, 2000, 2000, &foreign);
	ck_assert_uint_eq(buffer_of(p), 2);
	ck_assert_uint_eq(foreign, p->size);
	p = ss_piece_take(&st, 0, 6100, 6100, &foreign);
	ck_assert_uint_eq(buffer_of(p), 2);
	p = ss_piece_take(&st, 0, 3000, 3000, &foreign);
	ck_assert_uint_eq(buffer_of(p), 1);
	ck_assert_ptr_null(ss_piece_take(&st, 0, 3000, 3000, &foreign));
}
END_TEST

START_TEST(tail_of_a_piece_is_given_back)
{
	reserve(1, 8192);
	struct kcd_chunk *first = ss_piece_take(&st, 0, 4096, 100, &foreign);
	ss_piece_trim(&st, first, 200);
	ck_assert_uint_eq(first->size, 208);
	ck_assert_uint_lt(ss_storage_used(&st), 300);
	// at the end it is simply free again
	struct kcd_chunk *second = ss_piece_take(&st, 0, 4096, 4096, &foreign);
	ck_assert_ptr_nonnull(second);
	struct kcd_chunk *third = ss_piece_take(&st, 0, 3000, 100, &foreign);
	ck_assert_ptr_nonnull(third);
	// in the middle it is a leftover, which is taken when the end is used up
	ss_piece_trim(&st, second, 1000);
	ck_assert_ptr_null(ss_piece_take(&st, 0, 3100, 3100, &foreign));
	struct kcd_chunk *p = ss_piece_take(&st, 0, 3000, 2000, &foreign);
	ck_assert_ptr_nonnull(p);
	ck_assert(gs_in_range((uintptr_t)p->buf, p->size, (uintptr_t)second->buf, 4096));
	ck_assert_ptr_null(ss_piece_take(&st, 0, 1000, 1000, &foreign));
	ck_assert_uint_eq(foreign, 0);
}
END_TEST

START_TEST(keeping_all_of_a_piece_gives_nothing_back)
{
	reserve(1, 4096);
	struct kcd_chunk *p = ss_piece_take(&st, 0, 1000, 100, &foreign);
	size_t used = ss_storage_used(&st), size = p->size;
	ss_piece_trim(&st, p, size);
	ss_piece_trim(&st, p, size + 100);
	ck_assert_uint_eq(p->size, size);
	ck_assert_uint_eq(ss_storage_used(&st), used);
	ss_storage_reset(&st);
	ck_assert_uint_eq(ss_storage_used(&st), 0);
	ck_assert_uint_eq(ss_storage_lost(&st), 0);
}
END_TEST

#define TAKERS 4
#define HELD   64

/* Take, fill, trim and check pieces: each byte of a piece is its taker's alone. */
static void *take_pieces(void *arg)
{
	uint32_t own = *(uint32_t *)arg;
	uint64_t seed = own + 1, from_others = 0;
	struct kcd_chunk *held[HELD];

	for (uint32_t n = 0; n < HELD; n++) {
		held[n] = ss_piece_take(&st, own, 64 + prng_below(&seed, 4000), 64, &from_others);
		ck_assert_ptr_nonnull(held[n]);
		size_t keep = 16 + prng_below(&seed, held[n]->size - 16);
		memset(held[n]->buf, (int)(own + 1), keep);
		held[n]->used = keep;
		ss_piece_trim(&st, held[n], keep);
	}
	size_t wrong = 0;
	for (uint32_t n = 0; n < HELD; n++)
		for (size_t i = 0; i < held[n]->used; i++)
			wrong += ((uint8_t *)held[n]->buf)[i] != own + 1;
	ck_assert_uint_eq(wrong, 0);
	return NULL;
}

START_TEST(workers_do_not_get_in_each_others_way)
{
	pthread_t id[TAKERS];
	uint32_t own[TAKERS];

	reserve(TAKERS, (size_t)600 << 10);
	for (int round = 0; round < 20; round++) {
		ss_storage_reset(&st);
		for (uint32_t i = 0; i < TAKERS; i++) {
			own[i] = i;
			ck_assert_int_eq(pthread_create(&id[i], NULL, take_pieces, &own[i]), 0);
		}
		for (uint32_t i = 0; i < TAKERS; i++)
			ck_assert_int_eq(pthread_join(id[i], NULL), 0);
	}
}
END_TEST

START_TEST(storage_only_grows)
{
	reserve(2, 4096);
	ck_assert_uint_eq(ss_storage_size(&st), 4096);
	void *before = st.buffer[0].pages.at;
	ck_assert_int_eq(ss_storage_reserve(&st, 2, 100), GS_OK);
	ck_assert_ptr_eq(st.buffer[0].pages.at, before);
	ck_assert_int_eq(ss_storage_reserve(&st, 2, 3 << 20), GS_OK);
	ck_assert_uint_ge(ss_storage_size(&st), 3 << 20);
	size_t size = ss_storage_size(&st);
	// more than there can be: what was there stays
	ck_assert_int_eq(ss_storage_reserve(&st, 2, SIZE_MAX / 2), GS_ENOSPC);
	ck_assert_uint_eq(ss_storage_size(&st), size);
	ck_assert_ptr_nonnull(ss_piece_take(&st, 0, 1000, 1000, &foreign));
}
END_TEST

/* --- queues ----------------------------------------------------------------------------------- */

static struct ss_queues qs;

static uint32_t take_all(enum ss_cluster_kind kind, uint32_t *out)
{
	uint32_t items[SS_TAKE_MAX], n, total = 0;

	while (ss_queues_take(&qs, kind, 1, items, &n) == SS_TAKE_SOME) {
		ck_assert_uint_le(n, SS_TAKE_MAX);
		for (uint32_t i = 0; i < n; i++)
			out[total++] = items[i];
	}
	return total;
}

static const uint32_t threads_of[] = { 1, 500, 2, 12, 0, 40, 5, 1, 9, 10, 31, 32, 1 };

static void put_all(void)
{
	ck_assert_int_eq(ss_queues_reserve(&qs, 64), GS_OK);
	for (uint32_t i = 0; i < ARRAY_SIZE(threads_of); i++)
		ss_queues_put(&qs, i, threads_of[i]);
	ss_queues_close(&qs);
}

START_TEST(big_clusters_take_from_the_hard_end_and_little_ones_from_the_easy_end)
{
	static const enum ss_cluster_kind kinds[] = { SS_CLUSTER_SAME, SS_CLUSTER_BIG,
						      SS_CLUSTER_LITTLE };
	uint32_t got[64];

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		bool seen[ARRAY_SIZE(threads_of)] = { false };

		put_all();
		ck_assert_uint_eq(take_all(kinds[k], got), ARRAY_SIZE(threads_of));
		for (uint32_t i = 0; i < ARRAY_SIZE(threads_of); i++) {
			ck_assert(!seen[got[i]]);
			seen[got[i]] = true;
			if (!i)
				continue;
			uint32_t last = difficulty_of(threads_of[got[i - 1]]);
			uint32_t now = difficulty_of(threads_of[got[i]]);
			ck_assert(kinds[k] == SS_CLUSTER_LITTLE ? now >= last : now <= last);
		}
	}
	ss_queues_release(&qs);
}
END_TEST

START_TEST(empty_queue_is_not_the_end)
{
	uint32_t items[SS_TAKE_MAX], n;

	ck_assert_int_eq(ss_queues_reserve(&qs, 4), GS_OK);
	ck_assert_int_eq(ss_queues_take(&qs, SS_CLUSTER_SAME, 2, items, &n), SS_TAKE_EMPTY);
	ss_queues_put(&qs, 3, 7);
	ck_assert_int_eq(ss_queues_take(&qs, SS_CLUSTER_SAME, 2, items, &n), SS_TAKE_SOME);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_eq(items[0], 3);
	ck_assert_int_eq(ss_queues_take(&qs, SS_CLUSTER_SAME, 2, items, &n), SS_TAKE_EMPTY);
	ss_queues_close(&qs);
	ck_assert_int_eq(ss_queues_take(&qs, SS_CLUSTER_SAME, 2, items, &n), SS_TAKE_END);
	ss_queues_reset(&qs);
	ck_assert_int_eq(ss_queues_take(&qs, SS_CLUSTER_SAME, 2, items, &n), SS_TAKE_EMPTY);
	ss_queues_release(&qs);
}
END_TEST

#define ITEMS 20000u

static uint8_t taken_by[ITEMS]; // written by who takes the item, read after the join
static uint32_t payload[ITEMS]; // written by who puts it, read by who takes it

static void *take_items(void *arg)
{
	uint8_t who = *(uint8_t *)arg;
	uint32_t items[SS_TAKE_MAX], n;

	for (;;) {
		enum ss_take take = ss_queues_take(
			&qs, who % 2 ? SS_CLUSTER_BIG : SS_CLUSTER_LITTLE, TAKERS, items, &n);
		if (take == SS_TAKE_END)
			return NULL;
		for (uint32_t i = 0; take == SS_TAKE_SOME && i < n; i++) {
			ck_assert_uint_eq(payload[items[i]], ~items[i]);
			ck_assert_uint_eq(taken_by[items[i]], 0);
			taken_by[items[i]] = who;
		}
	}
}

START_TEST(every_item_is_taken_once_while_others_are_put)
{
	uint64_t seed = 5;

	for (int round = 0; round < 10; round++) {
		pthread_t id[TAKERS];
		uint8_t who[TAKERS];

		memset(taken_by, 0, sizeof(taken_by));
		memset(payload, 0, sizeof(payload));
		ck_assert_int_eq(ss_queues_reserve(&qs, ITEMS), GS_OK);
		for (uint8_t i = 0; i < TAKERS; i++) {
			who[i] = (uint8_t)(i + 1);
			ck_assert_int_eq(pthread_create(&id[i], NULL, take_items, &who[i]), 0);
		}
		for (uint32_t i = 0; i < ITEMS; i++) {
			payload[i] = ~i;
			ss_queues_put(&qs, i, (uint32_t)prng_below(&seed, 60));
		}
		ss_queues_close(&qs);
		for (uint32_t i = 0; i < TAKERS; i++)
			ck_assert_int_eq(pthread_join(id[i], NULL), 0);
		for (uint32_t i = 0; i < ITEMS; i++)
			ck_assert_uint_ne(taken_by[i], 0);
	}
	ss_queues_release(&qs);
}
END_TEST

Suite *suite_storage(void)
{
	Suite *s = suite_create("storage");
	TCase *tc = tcase_create("storage");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, NULL, release);
	tcase_add_test(tc, piece_is_as_large_as_wanted_and_from_the_own_buffer);
	tcase_add_test(tc, full_buffer_takes_from_the_one_with_most_room);
	tcase_add_test(tc, tail_of_a_piece_is_given_back);
	tcase_add_test(tc, keeping_all_of_a_piece_gives_nothing_back);
	tcase_add_test(tc, workers_do_not_get_in_each_others_way);
	tcase_add_test(tc, storage_only_grows);
	tcase_add_test(tc, big_clusters_take_from_the_hard_end_and_little_ones_from_the_easy_end);
	tcase_add_test(tc, empty_queue_is_not_the_end);
	tcase_add_test(tc, every_item_is_taken_once_while_others_are_put);
	suite_add_tcase(s, tc);
	return s;
}
