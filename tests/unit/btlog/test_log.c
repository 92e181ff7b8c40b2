/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: recording, overwriting, erasing, sampling, disabling. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"
#include "tests/unit/btlog/suites.h"

START_TEST(a_full_ring_loses_its_oldest)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 20);
	struct btl_record *r;
	uint32_t n;

	for (uint32_t i = 0; i < 50; i++)
		record(log, 1000 + i, i % 8, i);
	ck_assert_int_eq(btl_log_records(log, &r, &n, NULL), GS_OK);
	ck_assert_uint_eq(n, 20);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t ref = get(lib, 30 + i);

		ck_assert_uint_eq(r[i].element, 1030 + i);
		ck_assert_uint_eq(r[i].op, (30 + i) % 8);
		ck_assert_uint_eq(r[i].ref, ref);
		ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	}
	btl_records_release(log, r, n);
	btl_library_settle(lib);
	ck_assert_uint_eq(stats_of(lib).stacks, 20);
	struct btl_log_stats s = log_stats_of(log);
	ck_assert_uint_eq(s.recorded, 50);
	ck_assert_uint_eq(s.overwritten, 30);
	ck_assert_uint_eq(s.held, 20);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(a_record_takes_the_reference)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = ring(lib, 16);
	uint32_t ref = get(lib, 1);

	ck_assert_int_eq(btl_log_record(log, 5, 3, ref, gs_clock_ns()), GS_OK);
	ck_assert_uint_eq(references(lib, 1), 1);
	/* on errors too */
	ck_assert_int_eq(btl_log_record(log, 5, BTL_OPS, get(lib, 2), 0), GS_EINVAL);
	ck_assert_int_eq(btl_log_record(log, 5, 3, 0, 0), GS_EINVAL);
	btl_log_disable(log);
	ck_assert_int_eq(btl_log_record(log, 5, 3, get(lib, 3), 0), GS_EBUSY);
	ck_assert_uint_eq(log_stats_of(log).refused, 1);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(any_element_and_operation_is_kept)
{
	struct btl_library *lib = library(0);
	const uint64_t elements[] = { 0, 1, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63 };

	for (int kind = 0; kind < 2; kind++) {
		struct btl_log *log = kind ? hash(lib, 128) : ring(lib, 128);
		struct btl_record *r;
		uint32_t n;

		for (uint32_t op = 0; op < BTL_OPS; op++)
			record(log, elements[op % 5], op, op);
		ck_assert_int_eq(btl_log_records(log, &r, &n, NULL), GS_OK);
		ck_assert_uint_eq(n, BTL_OPS);
		for (uint32_t i = 0; i < n; i++) {
			ck_assert_uint_eq(r[i].element, elements[r[i].op % 5]);
			ck_assert_uint_eq(r[i].op, i);
		}
		btl_records_release(log, r, n);
		if (kind) {
			/* operations 0, 5, 10 … are of element 0 */
			ck_assert_uint_eq(btl_log_erase(log, 0), 13);
			ck_assert_uint_eq(btl_log_erase(log, UINT64_MAX), 13);
			ck_assert_uint_eq(log_stats_of(log).held, BTL_OPS - 26);
		}
		btl_log_destroy(log);
	}
	close_library(lib);
}
END_TEST

START_TEST(erase_drops_an_element_and_no_other)
{
	struct btl_library *lib = library(0);
	struct btl_log *log = hash(lib, 4096);

	/* several records each, more than one batch for element 7 */
	for (uint32_t i = 0; i < 2000; i++)
		record(log, i % 2 ? 7 : i, 1, i);
	ck_assert_uint_eq(btl_log_erase(log, 7), 1000);
	ck_assert_uint_eq(btl_log_erase(log, 7), 0);
	ck_assert_uint_eq(btl_log_erase(log, 123456), 0);
	btl_library_settle(lib);
	ck_assert_uint_eq(stats_of(lib).stacks, 1000);
	struct btl_log_stats s = log_stats_of(log);
	ck_assert_uint_eq(s.held, 1000);
	ck_assert_uint_eq(s.erased, 1000);
	/* the places are used first: nothing is overwritten until all are taken */
	for (uint32_t i = 0; i < 3096; i++)
		record(log, 100000 + i, 1, i);
	ck_assert_uint_eq(log_stats_of(log).overwritten, 0);
	record(log, 1, 1, 1);
	ck_assert_uint_eq(log_stats_of(log).overwritten, 1);
	btl_log_destroy(log);
	/* a ring has no elements to find */
	log = ring(lib, 16);
	record(log, 7, 1, 1);
	ck_assert_uint_eq(btl_log_erase(log, 7), 0);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(disable_lets_everything_go)
{
	struct btl_library *lib = library(0);

	for (int kind = 0; kind < 2; kind++) {
		struct btl_log *log = kind ? hash(lib, 500) : ring(lib, 500);
		struct btl_groups g;

		for (uint32_t i = 0; i < 900; i++)
			record(log, i, 1, i);
		btl_log_disable(log);
		btl_library_settle(lib);
		ck_assert_uint_eq(stats_of(lib).stacks, 0);
		struct btl_log_stats s = log_stats_of(log);
		ck_assert(!s.enabled);
		ck_assert_uint_eq(s.bytes, 0);
		ck_assert_uint_eq(s.held, 0);
		ck_assert(!btl_log_wants(log));
		ck_assert_uint_eq(btl_log_erase(log, 5), 0);
		ck_assert_int_eq(btl_log_groups(log, 0, &g, NULL), GS_ENOENT);
		btl_log_disable(log);
		ck_assert_int_eq(btl_log_enable(log, NULL), GS_OK);
		ck_assert_int_eq(btl_log_enable(log, NULL), GS_OK);
		ck_assert(btl_log_wants(log));
		ck_assert_int_eq(btl_log_groups(log, 0, &g, NULL), GS_ENOENT);
		record(log, 1, 2, 3);
		s = log_stats_of(log);
		ck_assert_uint_eq(s.recorded, 1);
		ck_assert_uint_eq(s.held, 1);
		ck_assert_uint_eq(s.overwritten, 0);
		btl_log_destroy(log);
	}
	close_library(lib);
}
END_TEST

struct sampler {
	struct btl_log *log;
	uint32_t calls, wanted;
};

static void *sample_thread(void *arg)
{
	struct sampler *s = arg;

	for (uint32_t i = 0; i < s->calls; i++)
		s->wanted += btl_log_wants(s->log);
	return NULL;
}

START_TEST(each_thread_records_one_of_so_many)
{
	struct btl_library *lib = library(0);
	struct btl_log_options o = { .name = "s", .capacity = 64, .sample = 100 };
	struct sampler s[4];
	uint32_t wanted = 0;
	pthread_t t[4];
	struct btl_log *log;

	ck_assert_int_eq(btl_log_create(lib, &o, &log, NULL), GS_OK);
	for (int i = 0; i < 4; i++) {
		s[i] = (struct sampler){ .log = log, .calls = 10000 };
		ck_assert_int_eq(pthread_create(&t[i], NULL, sample_thread, &s[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
		wanted += s[i].wanted;
	}
	/* threads that share a turn share its rate */
	ck_assert_uint_ge(wanted, 396);
	ck_assert_uint_le(wanted, 404);
	ck_assert_uint_eq(log_stats_of(log).skipped, 40000 - wanted);
	btl_log_destroy(log);

	o.sample = 1;
	ck_assert_int_eq(btl_log_create(lib, &o, &log, NULL), GS_OK);
	for (int i = 0; i < 10; i++)
		ck_assert(btl_log_wants(log));
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

/* The spread of the first turns: XNU's rule with 64 in place of the number of CPUs. */
START_TEST(threads_begin_at_different_calls)
{
	struct btl_library *lib = library(0);
	struct btl_log_options o = { .name = "s", .capacity = 64, .sample = 640 };
	struct btl_log *log;

	ck_assert_int_eq(btl_log_create(lib, &o, &log, NULL), GS_OK);
	for (uint32_t i = 0; i < BTL_TURNS; i++)
		ck_assert_uint_eq(atomic_load(&log->turn[i].left), (i + 1) * 10 % 640);
	btl_log_destroy(log);
	close_library(lib);
}
END_TEST

START_TEST(bad_log_options_are_refused)
{
	struct btl_library *lib = library(0);
	const struct btl_log_options bad[] = {
		{ .name = NULL, .capacity = 100 },
		{ .name = "x", .capacity = BTL_LOG_CAPACITY_MIN - 1 },
		{ .name = "x", .capacity = BTL_LOG_CAPACITY_MAX + 1 },
		{ .name = "x", .capacity = 100, .sample = BTL_LOG_SAMPLE_MAX + 1 },
		{ .name = "x", .capacity = 100, .kind = (enum btl_log_kind)2 },
	};

	for (uint32_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct btl_log *log = NULL;
		struct gs_error err = { 0 };

		ck_assert_int_eq(btl_log_create(lib, &bad[i], &log, &err), GS_EINVAL);
		ck_assert_ptr_null(log);
		ck_assert_uint_ne(strlen(err.text), 0);
	}
	btl_log_destroy(NULL);
	close_library(lib);
}
END_TEST

/* --- recording beside everything else ------------------------------------------------------------ */

struct busy {
	struct btl_library *lib;
	struct btl_log *log;
	_Atomic bool stop;
	uint32_t number;
};

static void *record_thread(void *arg)
{
	struct busy *b = arg;
	struct dice d = { (uintptr_t)&d };

	while (!atomic_load(&b->stop)) {
		uint32_t n = roll(&d, 3000);
		uint64_t frames[BTL_FRAMES_MAX];
		uint32_t count = made_stack(n, frames), ref;

		if (btl_log_wants(b->log) && !btl_get(b->lib, frames, count, 0, &ref))
			(void)btl_log_record(b->log, n, n % BTL_OPS, ref, gs_clock_ns());
		if (n % 16 == 0)
			(void)btl_log_erase(b->log, n);
	}
	return NULL;
}

static void read_it(struct btl_log *log, uint32_t round)
{
	struct btl_groups g;
	struct btl_record *r;
	struct btl_stack s;
	uint32_t n;
	uint64_t elements[100];

	switch (round % 5) {
	case 0:
		if (!btl_log_groups(log, 50, &g, NULL)) {
			ck_assert_uint_le(g.count, 50);
			btl_groups_deinit(&g);
		}
		break;
	case 1:
		if (!btl_log_records(log, &r, &n, NULL))
			btl_records_release(log, r, n);
		break;
	case 2: (void)!btl_log_guess_top(log, &s, &n); break;
	case 3:
		for (uint32_t i = 0; i < 100; i++)
			elements[i] = i;
		if (!btl_log_leak_sites(log, elements, 100, &g, NULL))
			btl_groups_deinit(&g);
		break;
	case 4:
		btl_log_disable(log);
		ck_assert_int_eq(btl_log_enable(log, NULL), GS_OK);
		break;
	}
}

START_TEST(reading_and_disabling_go_beside_recording)
{
	struct btl_library *lib = library(BTL_LIMIT_MIN);
	struct busy b = { .lib = lib, .log = hash(lib, 5000) };
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, record_thread, &b), 0);
	for (uint32_t i = 0; i < 200; i++)
		read_it(b.log, i);
	atomic_store(&b.stop, true);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(pthread_join(t[i], NULL), 0);
	struct btl_log_stats s = log_stats_of(b.log);
	ck_assert_uint_eq(s.recorded, s.held + s.overwritten + s.erased + s.dropped);
	btl_log_destroy(b.log);
	close_library(lib);
}
END_TEST

Suite *suite_log(void)
{
	Suite *s = suite_create("log");
	TCase *tc = tcase_create("log");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, a_full_ring_loses_its_oldest);
	tcase_add_test(tc, a_record_takes_the_reference);
	tcase_add_test(tc, any_element_and_operation_is_kept);
	tcase_add_test(tc, erase_drops_an_element_and_no_other);
	tcase_add_test(tc, disable_lets_everything_go);
	tcase_add_test(tc, each_thread_records_one_of_so_many);
	tcase_add_test(tc, threads_begin_at_different_calls);
	tcase_add_test(tc, bad_log_options_are_refused);
	tcase_add_test(tc, reading_and_disabling_go_beside_recording);
	suite_add_tcase(s, tc);
	return s;
}
