/* SPDX-License-Identifier: Apache-2.0 */
/* The library: one entry a stack, references, misuse, the table while it grows. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/btlog/priv.h"
#include "tests/unit/btlog/suites.h"

START_TEST(the_same_stack_has_one_reference)
{
	struct btl_library *lib = library(0);
	uint32_t first = get(lib, 7), second = get(lib, 7), other = get(lib, 8);

	ck_assert_uint_eq(first, second);
	ck_assert_uint_ne(first, other);
	ck_assert_uint_eq(first % 64, 0);
	ck_assert_uint_eq(stats_of(lib).stacks, 2);
	ck_assert_uint_eq(references(lib, 7), 2);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(btl_put(lib, first), GS_OK);
	ck_assert_int_eq(btl_put(lib, other), GS_OK);
	close_library(lib);
}
END_TEST

START_TEST(stacks_come_out_as_they_went_in)
{
	struct btl_library *lib = library(0);

	for (uint64_t number = 0; number < 1000; number++) {
		uint64_t frames[BTL_FRAMES_MAX];
		uint32_t count = made_stack(number, frames), ref = get(lib, number);
		struct btl_stack stack;

		ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_OK);
		ck_assert_uint_eq(stack.count, count);
		ck_assert_uint_eq(stack.references, 1);
		ck_assert(!stack.cut);
		ck_assert_mem_eq(stack.frame, frames, count * sizeof(*frames));
		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	}
	close_library(lib);
}
END_TEST

START_TEST(a_stack_goes_with_its_last_reference)
{
	struct btl_library *lib = library(0);
	uint32_t ref = get(lib, 1);

	ck_assert_int_eq(btl_retain(lib, ref), GS_OK);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	ck_assert_uint_eq(stats_of(lib).stacks, 1);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	btl_library_settle(lib);
	ck_assert_uint_eq(stats_of(lib).stacks, 0);
	/* its place is used again, after a grace period */
	ck_assert_uint_eq(get(lib, 2), ref);
	ck_assert_uint_ge(stats_of(lib).grace_periods, 1);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	ck_assert_int_eq(btl_put(lib, 0), GS_OK);
	close_library(lib);
}
END_TEST

/* Full comparison, however the hashes are. */
START_TEST(stacks_with_one_hash_stay_apart)
{
	struct btl_library *lib = library(0);
	static uint32_t ref[2000];

	btl_test_hash_mask(lib, 0);
	for (uint32_t i = 0; i < 2000; i++)
		ref[i] = get(lib, i);
	btl_library_settle(lib);
	ck_assert_uint_eq(stats_of(lib).stacks, 2000);
	for (uint32_t i = 0; i < 2000; i++) {
		ck_assert_uint_eq(get(lib, i), ref[i]);
		ck_assert_int_eq(btl_put(lib, ref[i]), GS_OK);
		ck_assert_int_eq(btl_put(lib, ref[i]), GS_OK);
	}
	close_library(lib);
}
END_TEST

START_TEST(many_stacks_stay_apart)
{
	struct btl_library *lib = library(BTL_LIMIT_DEFAULT * 2);
	const uint32_t n = 300000;
	uint32_t *ref = calloc(n, sizeof(*ref));

	ck_assert_ptr_nonnull(ref);
	for (uint32_t i = 0; i < n; i++)
		ref[i] = get(lib, i);
	btl_library_settle(lib);
	struct btl_library_stats s = stats_of(lib);
	ck_assert_uint_eq(s.stacks, n);
	ck_assert_uint_gt(s.rehashes, 8);
	ck_assert_uint_le(s.stack_bytes + s.table_bytes, 80ull * n);
	for (uint32_t i = 0; i < n; i++) {
		ck_assert_uint_eq(get(lib, i), ref[i]);
		ck_assert_int_eq(btl_put(lib, ref[i]), GS_OK);
		ck_assert_int_eq(btl_put(lib, ref[i]), GS_OK);
	}
	free(ref);
	close_library(lib);
}
END_TEST

/* Every entry is in the chain of its hash, once, and chains ascend. */
static void check_chains(struct btl_library *lib)
{
	uint32_t linked = 0;
	uint32_t blocks = lib->heads / BTL_HEADS;
	struct btl_block **block = lib->blocks[atomic_load(&lib->param) >> 31];

	for (uint32_t i = 0; i < blocks; i++)
		for (uint32_t h = 0; h < BTL_HEADS; h++) {
			uint32_t ref = atomic_load(&block[i]->head[h]), before = 0;

			for (; ref; ref = atomic_load(&btl_entry_of(lib, ref)->next)) {
				uint32_t hash = btl_entry_of(lib, ref)->hash;

				ck_assert_ptr_eq(btl_head_of(lib, hash), &block[i]->head[h]);
				ck_assert_uint_ge(hash, before);
				before = hash;
				linked++;
			}
		}
	ck_assert_uint_eq(linked, lib->linked);
}

START_TEST(chains_are_split_by_doubling)
{
	struct btl_library *lib = library(0);

	for (uint32_t i = 0; i < 5000; i++)
		(void)get(lib, i);
	btl_library_settle(lib);
	check_chains(lib);
	/* further than there is need for: chains that are empty, and of one entry */
	for (int i = 0; i < 3; i++) {
		uint32_t heads = stats_of(lib).heads;

		ck_assert(btl_test_rehash(lib));
		btl_library_settle(lib);
		ck_assert_uint_eq(stats_of(lib).heads, 2 * heads);
		check_chains(lib);
	}
	for (uint32_t i = 0; i < 5000; i++) {
		uint32_t ref = get(lib, i);

		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	}
	btl_library_settle(lib);
	check_chains(lib);
	close_library(lib);
}
END_TEST

START_TEST(a_permanent_stack_stays)
{
	struct btl_library *lib = library(0);
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count = made_stack(3, frames), before = get(lib, 3), ref;
	struct btl_stack stack;

	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_PERMANENT, &ref), GS_OK);
	ck_assert_uint_eq(ref, before | BTL_REF_PERMANENT);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(btl_put(lib, before), GS_OK);
		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
		ck_assert_int_eq(btl_retain(lib, ref), GS_OK);
	}
	ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_OK);
	ck_assert_uint_eq(stack.references, UINT32_MAX);
	ck_assert_uint_eq(get(lib, 3), ref);
	ck_assert_uint_eq(stats_of(lib).stacks, 1);
	/* and a new one */
	count = made_stack(4, frames);
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_PERMANENT, &ref), GS_OK);
	ck_assert_uint_ne(ref & BTL_REF_PERMANENT, 0);
	ck_assert_uint_eq(get(lib, 4), ref);
	ck_assert_uint_eq(stats_of(lib).misuses, 0);
	btl_library_destroy(lib);
}
END_TEST

START_TEST(a_count_that_reaches_its_end_stays_there)
{
	struct btl_library *lib = library(0);
	uint32_t ref = get(lib, 5);
	struct btl_entry *e = btl_entry_of(lib, ref);

	/* as after 268,435,453 more */
	atomic_fetch_add(&e->count, (BTL_COUNT_MAX - 2) * BTL_COUNT_ONE);
	ck_assert_uint_eq(atomic_load(&e->count) >> 4, BTL_COUNT_MAX - 1);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	ck_assert_uint_eq(get(lib, 5), ref);
	ck_assert_uint_eq(stats_of(lib).saturated, 0);
	ck_assert_int_eq(btl_retain(lib, ref), GS_OK);
	ck_assert_uint_eq(stats_of(lib).saturated, 1);
	ck_assert_uint_eq(atomic_load(&e->count) >> 4, BTL_COUNT_MAX);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	ck_assert_uint_eq(atomic_load(&e->count) >> 4, BTL_COUNT_MAX);
	ck_assert_uint_eq(get(lib, 5), ref | BTL_REF_PERMANENT);
	/* the length beside it is what it was */
	ck_assert_uint_eq(atomic_load(&e->count) & 15, 1 + 5 % BTL_FRAMES_MAX);
	btl_library_destroy(lib);
}
END_TEST

struct misuses {
	uint32_t count[3];
	uint32_t ref;
};

static void note_misuse(void *arg, enum btl_misuse what, uint32_t ref)
{
	struct misuses *m = arg;

	m->count[what]++;
	m->ref = ref;
}

START_TEST(misuse_is_an_error)
{
	struct misuses m = { { 0 }, 0 };
	struct btl_library_options o = { .base = BASE, .misuse = note_misuse, .misuse_arg = &m };
	struct btl_library *lib;
	struct btl_stack stack;

	ck_assert_int_eq(btl_library_create(&o, &lib, NULL), GS_OK);
	uint32_t ref = get(lib, 1), kept = get(lib, 2);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	ck_assert_int_eq(btl_put(lib, ref), GS_EINVAL);
	ck_assert_uint_eq(m.count[BTL_MISUSE_OVER_RELEASE], 1);
	ck_assert_uint_eq(m.ref, ref);
	ck_assert_int_eq(btl_retain(lib, ref), GS_EINVAL);
	ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_EINVAL);
	ck_assert_uint_eq(m.count[BTL_MISUSE_RESURRECTION], 2);
	const uint32_t invalid[] = { 1,
				     63,
				     kept + 1,
				     kept + 32,
				     kept | 0x40000000,
				     kept + 64,
				     BTL_REF_PERMANENT,
				     0x3fffffc0,
				     UINT32_MAX };
	for (uint32_t i = 0; i < sizeof(invalid) / sizeof(*invalid); i++) {
		ck_assert_int_eq(btl_put(lib, invalid[i]), GS_EINVAL);
		ck_assert_int_eq(btl_retain(lib, invalid[i]), GS_EINVAL);
		ck_assert_int_eq(btl_stack_copy(lib, invalid[i], &stack), GS_EINVAL);
		ck_assert_uint_eq(m.count[BTL_MISUSE_INVALID], 3 * (i + 1));
		ck_assert_uint_eq(m.ref, invalid[i]);
	}
	ck_assert_uint_eq(stats_of(lib).misuses, 3 + m.count[BTL_MISUSE_INVALID]);
	ck_assert_uint_eq(references(lib, 2), 1);
	btl_library_destroy(lib);
}
END_TEST

#ifdef GS_DEBUG
START_TEST(misuse_is_fatal_in_debug_builds)
{
	struct btl_library *lib;
	struct btl_library_options o = { .base = BASE };

	ck_assert_int_eq(btl_library_create(&o, &lib, NULL), GS_OK);
	uint32_t ref = get(lib, 1);
	(void)btl_put(lib, ref);
	(void)btl_put(lib, ref);
}
END_TEST
#endif

START_TEST(nowait_takes_no_lock_that_is_held)
{
	struct btl_library *lib = library(0);
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count = made_stack(1, frames), known = get(lib, 1), ref = 99;

	pthread_mutex_lock(&lib->lock);
	/* known: no lock is needed */
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_NOWAIT, &ref), GS_OK);
	ck_assert_uint_eq(ref, known);
	count = made_stack(2, frames);
	ref = 99;
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_NOWAIT, &ref), GS_EBUSY);
	/* nor for a frame in a region that would be new */
	frames[0] = BASE + (UINT64_C(1) << 40);
	ck_assert_int_eq(btl_get(lib, frames, 1, BTL_GET_NOWAIT, &ref), GS_EBUSY);
	ck_assert_uint_eq(ref, 99);
	pthread_mutex_unlock(&lib->lock);
	ck_assert_uint_eq(stats_of(lib).lost, 2);
	/* the library's thread touches memory ahead, so this works soon at the latest */
	count = made_stack(2, frames);
	btl_library_settle(lib);
	(void)get(lib, 3);
	btl_library_settle(lib);
	ck_assert_int_eq(btl_get(lib, frames, count, BTL_GET_NOWAIT, &ref), GS_OK);
	btl_library_destroy(lib);
}
END_TEST

START_TEST(bad_options_are_refused)
{
	const struct btl_library_options bad[] = {
		{ .base = 0 },
		{ .base = BASE + 2 },
		{ .base = 0xfffffffc },
		{ .base = BASE, .limit = BTL_LIMIT_MIN - 1 },
		{ .base = BASE, .limit = BTL_LIMIT_MAX + 1 },
	};

	for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct btl_library *lib = NULL;
		struct gs_error err = { 0 };

		ck_assert_int_eq(btl_library_create(&bad[i], &lib, &err), GS_EINVAL);
		ck_assert_ptr_null(lib);
		ck_assert_uint_ne(strlen(err.text), 0);
	}
	btl_library_destroy(NULL);
	btl_library_destroy(library(BTL_LIMIT_MIN));
	btl_library_destroy(library(BTL_LIMIT_MAX));
}
END_TEST

Suite *suite_library(void)
{
	Suite *s = suite_create("library");
	TCase *tc = tcase_create("library");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, the_same_stack_has_one_reference);
	tcase_add_test(tc, stacks_come_out_as_they_went_in);
	tcase_add_test(tc, a_stack_goes_with_its_last_reference);
	tcase_add_test(tc, stacks_with_one_hash_stay_apart);
	tcase_add_test(tc, many_stacks_stay_apart);
	tcase_add_test(tc, chains_are_split_by_doubling);
	tcase_add_test(tc, a_permanent_stack_stays);
	tcase_add_test(tc, a_count_that_reaches_its_end_stays_there);
	tcase_add_test(tc, misuse_is_an_error);
#ifdef GS_DEBUG
	tcase_add_test_raise_signal(tc, misuse_is_fatal_in_debug_builds, SIGABRT);
#endif
	tcase_add_test(tc, nowait_takes_no_lock_that_is_held);
	tcase_add_test(tc, bad_options_are_refused);
	suite_add_tcase(s, tc);
	return s;
}
