/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters that are not alike: workers of all take part, and begin at the end that suits them. */
#include "introspect/stackshot/capture.h"
#include "tests/unit/stackshot/difficulty.h"
#include "tests/unit/stackshot/picture.h"
#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define ROUNDS	  10
#define ITEMS_MAX 256

/* What the workers of a kind took, in that order; of one worker a kind. */
static struct {
	uint32_t item[ITEMS_MAX];
	uint32_t n;
} taken[SS_CLUSTER_BIG + 1];

static void note_take(enum ss_cluster_kind kind, const uint32_t *items, uint32_t n)
{
	for (uint32_t i = 0; i < n && taken[kind].n < ITEMS_MAX; i++)
		taken[kind].item[taken[kind].n++] = items[i];
}

static uint32_t difficulty_of_item(uint32_t i)
{
	return difficulty_of(session->ordinary.item[i].expected_count);
}

/* Ascending for little ones, from the easiest there is; descending for big ones. */
static void expect_order(enum ss_cluster_kind kind)
{
	const struct ss_engine *e = &session->ordinary;
	const bool is_little = kind == SS_CLUSTER_LITTLE;
	uint32_t last = difficulty_of_item(1);

	for (uint32_t i = 1; i < e->t.items - 1; i++)
		if (is_little ? difficulty_of_item(i) < last : difficulty_of_item(i) > last)
			last = difficulty_of_item(i);
	ck_assert_uint_gt(taken[kind].n, 0);
	ck_assert_uint_eq(difficulty_of_item(taken[kind].item[0]), last);
	for (uint32_t i = 0; i < taken[kind].n; i++) {
		uint32_t now = difficulty_of_item(taken[kind].item[i]);

		ck_assert(is_little ? now >= last : now <= last);
		last = now;
	}
}

static void expect_each_item_once(void)
{
	const struct ss_engine *e = &session->ordinary;
	bool seen[ITEMS_MAX] = { false };
	uint32_t n = 0;

	for (size_t kind = 0; kind < ARRAY_SIZE(taken); kind++) {
		for (uint32_t i = 0; i < taken[kind].n; i++, n++) {
			uint32_t item = taken[kind].item[i];

			ck_assert_uint_lt(item, e->t.items);
			ck_assert(!seen[item]);
			seen[item] = true;
			ck_assert_int_eq(e->worker[e->item[item].worker]->kind, (int)kind);
		}
	}
	// the idle threads and the last process are the calling thread's, and not taken
	ck_assert_uint_eq(n, e->t.items - 2);
	ck_assert(!seen[e->t.items - 1]);
	ck_assert_uint_eq(e->item[e->t.items - 1].worker, 0);
}

static struct picture expected, now;
static const struct ss_request all = { .version = SS_REQUEST_VERSION,
				       .size = sizeof(all),
				       .pid = SS_PID_ALL };

/* As many workers as kinds, all of which meet; the capture is that of one worker. */
static void capture_with(const enum ss_cluster_kind *kind, uint32_t workers)
{
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		taken[i].n = 0;
	seam_meeting = workers;
	seam_on_take = note_take;
	ck_assert_int_eq(session_capture_only(&all), GS_OK);
	seam_reset();
	ck_assert(picture_take(&result, &now));
	ck_assert(picture_is(&now, &expected));
	ck_assert_uint_eq(session->ordinary.helping, workers - 1);
	for (uint32_t i = 0; i < workers; i++) {
		ck_assert_int_eq(session->ordinary.worker[i]->kind, kind[i]);
		ck_assert_uint_gt(session->ordinary.worker[i]->items, 0);
		ck_assert_uint_gt(session->ordinary.worker[i]->threads, 0);
	}
}

static void set_kinds(const enum ss_cluster_kind *kind, uint32_t n)
{
	session_options.kind = kind;
	session_options.kinds = n;
	session_restart();
}

START_TEST(big_cluster_works_from_the_hard_end_and_little_one_from_the_easy_end)
{
	// the calling thread is a worker like the other
	static const enum ss_cluster_kind kinds[][2] = { { SS_CLUSTER_BIG, SS_CLUSTER_LITTLE },
							 { SS_CLUSTER_LITTLE, SS_CLUSTER_BIG } };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		set_kinds(kinds[k], 2);
		for (int round = 0; round < ROUNDS; round++) {
			capture_with(kinds[k], 2);
			expect_order(SS_CLUSTER_BIG);
			expect_order(SS_CLUSTER_LITTLE);
			expect_each_item_once();
		}
	}
}
END_TEST

START_TEST(all_workers_of_two_clusters_take_part)
{
	static const enum ss_cluster_kind kind[] = { SS_CLUSTER_BIG, SS_CLUSTER_BIG,
						     SS_CLUSTER_LITTLE, SS_CLUSTER_LITTLE };

	session_options.workers = 4;
	set_kinds(kind, 4);
	for (int round = 0; round < ROUNDS; round++) {
		seam_meeting = 4;
		ck_assert_int_eq(session_capture_only(&all), GS_OK);
		for (uint32_t i = 0; i < 4; i++) {
			ck_assert_int_eq(session->ordinary.worker[i]->kind, kind[i]);
			ck_assert_uint_gt(session->ordinary.worker[i]->threads, 0);
		}
		ck_assert(picture_take(&result, &now));
		ck_assert(picture_is(&now, &expected));
	}
}
END_TEST

START_TEST(workers_beyond_the_kinds_begin_with_the_hardest)
{
	static const enum ss_cluster_kind kind[] = { SS_CLUSTER_LITTLE, SS_CLUSTER_SAME };

	set_kinds(kind, 1);
	for (int round = 0; round < ROUNDS; round++) {
		capture_with(kind, 2);
		expect_order(SS_CLUSTER_LITTLE);
		expect_order(SS_CLUSTER_SAME);
		expect_each_item_once();
	}
}
END_TEST

/* A guest that is told of two clusters, and with them a worker for each. */
static void setup(void)
{
	session_make_crowd(120);
	guest.m.guest.cluster_count = 2;
	guest.m.clusters[1] = 1;
	session_options.workers = 1;
	session_begin();
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_eq(view.vcpu[1].cluster, 1);
	ck_assert(picture_take(&result, &expected));
	session_options.workers = 0;
}

static void teardown(void)
{
	seam_reset();
	picture_drop(&expected);
	picture_drop(&now);
	session_end();
}

Suite *suite_clusters(void)
{
	Suite *s = suite_create("clusters");
	TCase *tc = tcase_create("clusters");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, big_cluster_works_from_the_hard_end_and_little_one_from_the_easy_end);
	tcase_add_test(tc, all_workers_of_two_clusters_take_part);
	tcase_add_test(tc, workers_beyond_the_kinds_begin_with_the_hardest);
	suite_add_tcase(s, tc);
	return s;
}
