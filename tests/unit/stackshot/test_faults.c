/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of guest memory that fail: each one once, and all from each one on. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/judge.h"
#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define SMALL_RAM (UINT64_C(5) << 18) /* 1.25 MiB: what there is of the guest, and no more */

static uint64_t reads_to_find, reads_in_all;
static uint64_t step; /* from one read of a later capture that fails to the next */

/* The capture without a failure, and how many reads it takes. */
static void begin(void)
{
	lg_unmap_host(&guest);
	session_begin();
	session_capture_all();
	ck_assert(result.complete);
	reads_in_all = guest.reads;
	guest.reads = 0;
	session_capture_all();
	reads_to_find = reads_in_all - guest.reads;
	judge_keep();
}

static void setup(void)
{
	lg_create(&guest, &(struct lg_form){ .seqs = true, .ram_size = SMALL_RAM });
	lg_populate(&guest);
	begin();
	step = 1;
}

static void teardown(void)
{
	seam_reset();
	session_end();
	judge_forget();
}

static void fail_reads(uint64_t first, uint64_t last)
{
	guest.reads = 0;
	guest.fail_first = first;
	guest.fail_last = last;
}

static uint32_t completes, incompletes, failures;

static void capture_and_judge(bool once)
{
	enum gs_code rc = session_capture(SS_PID_ALL);

	if (rc)
		failures++;
	else if (!result.complete)
		incompletes++;
	else
		completes++;
	if (!rc)
		judge_view(once);
}

/* All numbers of a read, or about so many of them where a sanitizer makes it slow. */
static uint64_t step_of(uint64_t reads, uint64_t most)
{
	return reads > most ? reads / most : 1;
}

START_TEST(any_read_that_fails_once_in_search_or_capture_is_survived)
{
	for (uint64_t n = 1; n <= reads_in_all; n += n < 300 ? 1 : step_of(reads_in_all, 1500)) {
		session_restart();
		fail_reads(n, n);
		capture_and_judge(true);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// the next capture of the last session is a good one
	fail_reads(0, 0);
	session_capture_all();
	ck_assert(result.complete);
	judge_view(false);
}
END_TEST

START_TEST(all_reads_from_one_on_that_fail_in_search_or_capture_are_survived)
{
	for (uint64_t n = 1; n <= reads_in_all; n += n < 300 ? 1 : step_of(reads_in_all, 1500)) {
		session_restart();
		fail_reads(n, UINT64_MAX);
		capture_and_judge(false);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// it still is not the session's fault
	fail_reads(0, 0);
	session_capture_all();
	ck_assert(result.complete);
	judge_view(false);
}
END_TEST

START_TEST(any_read_that_fails_once_in_a_later_capture_is_survived)
{
	uint64_t reads = reads_in_all - reads_to_find;

	for (uint64_t n = 1; n <= reads; n += step) {
		fail_reads(n, n);
		capture_and_judge(true);
	}
	ck_assert_uint_gt(incompletes, 10);
	ck_assert_uint_eq(failures, 0);
	fail_reads(0, 0);
	session_capture_all();
	ck_assert(result.complete);
	judge_view(false);
}
END_TEST

START_TEST(all_reads_from_one_on_that_fail_in_a_later_capture_are_survived)
{
	uint64_t reads = reads_in_all - reads_to_find;

	for (uint64_t n = 1; n <= reads; n += step) {
		fail_reads(n, UINT64_MAX);
		capture_and_judge(false);
		// the next capture finds everything again
		fail_reads(0, 0);
		session_capture_all();
		ck_assert(result.complete);
		judge_view(false);
	}
	ck_assert_uint_eq(failures, 0);
}
END_TEST

/* Each page of the kernel's memory in turn is no RAM. */
START_TEST(any_page_that_is_gone_costs_what_is_on_it)
{
	for (uint64_t at = 0; at < SMALL_RAM; at += 4096) {
		uint8_t *page = lg_at(&guest, LG_RAM + at);
		struct guest_range *r = guest.m.ranges;

		// two ranges around the page, mapped again
		r[0] = (struct guest_range){ GPA(LG_RAM), at, guest.ram };
		r[1] = (struct guest_range){ GPA(LG_RAM + at + 4096), SMALL_RAM - at - 4096,
					     page + 4096 };
		guest.m.guest.ranges = at ? r : r + 1;
		guest.m.guest.range_count = at && at + 4096 < SMALL_RAM ? 2 : 1;
		capture_and_judge(false);
		session_restart();
		capture_and_judge(false);
	}
	ck_assert_uint_gt(incompletes, 10);
	ck_assert_uint_gt(completes, 10);
}
END_TEST

/* --- noise ------------------------------------------------------------------------------------ */

/* A word of what lies behind the image, or of init_task, that is not zero. */
static uint64_t *used_word(uint64_t *seed)
{
	const uint64_t start = LG_IMAGE + LG_INIT_TASK, size = LG_RAM + SMALL_RAM - start;
	uint64_t *word;

	do {
		word = lg_at(&guest, start + (prng_below(seed, size - 8) & ~UINT64_C(7)));
	} while (!*word);
	return word;
}

/* Words of tasks, signal structures, stacks, per-CPU areas and page tables replaced by others. */
START_TEST(noise_in_the_kernels_data_is_survived)
{
	uint64_t seed = 77;
	uint8_t *before = malloc(guest.ram_size);

	ck_assert_ptr_nonnull(before);
	memcpy(before, guest.ram, guest.ram_size);
	guest.m.ranges[0].host = guest.ram; // mapped: faster
	for (int round = 0; round < 600; round++) {
		memcpy(guest.ram, before, guest.ram_size);
		for (uint64_t k = 1 + prng_below(&seed, 30); k; k--) {
			uint64_t *to = used_word(&seed), *from = used_word(&seed);

			switch (prng_below(&seed, 4)) {
			case 0: *to = prng(&seed); break;
			case 1: *to = 0; break;
			case 2: *to = *from; break;
			default: *to ^= UINT64_C(1) << prng_below(&seed, 64); break;
			}
		}
		if (round % 4 == 0)
			session_restart();
		(void)session_capture(SS_PID_ALL); // the reader in it judges
		incompletes += !result.complete;
	}
	ck_assert_uint_gt(incompletes, 100);
	memcpy(guest.ram, before, guest.ram_size);
	free(before);
	session_capture_all();
	ck_assert(result.complete);
}
END_TEST

/* With one worker, and with three: nothing is different. */
static void setup_three(void)
{
	session_options.workers = 3;
	setup();
}

/* So many processes that each of four workers has some; about fifty of the reads. */
static void setup_four(void)
{
	session_options.workers = 4;
	session_make_crowd(30);
	begin();
	seam_meeting = 4;
	step = step_of(reads_in_all - reads_to_find, 50);
}

static void add_tests_of_reads(TCase *tc)
{
	tcase_add_test(tc, any_read_that_fails_once_in_a_later_capture_is_survived);
	tcase_add_test(tc, all_reads_from_one_on_that_fail_in_a_later_capture_are_survived);
}

static void add_tests(TCase *tc)
{
	add_tests_of_reads(tc);
	tcase_add_test(tc, any_page_that_is_gone_costs_what_is_on_it);
	tcase_add_test(tc, noise_in_the_kernels_data_is_survived);
}

Suite *suite_faults(void)
{
	Suite *s = suite_create("faults");
	TCase *one = tcase_create("one worker"), *three = tcase_create("three workers");
	TCase *four = tcase_create("four workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(three, 300);
	tcase_set_timeout(four, 300);
	tcase_add_checked_fixture(one, setup, teardown);
	tcase_add_checked_fixture(three, setup_three, teardown);
	tcase_add_checked_fixture(four, setup_four, teardown);
	tcase_add_test(one, any_read_that_fails_once_in_search_or_capture_is_survived);
	tcase_add_test(one, all_reads_from_one_on_that_fail_in_search_or_capture_are_survived);
	add_tests(one);
	add_tests(three);
	add_tests_of_reads(four);
#ifndef __SANITIZE_THREAD__ // which takes minutes for them, and has nothing to see in one thread
	suite_add_tcase(s, one);
#endif
	suite_add_tcase(s, three);
	suite_add_tcase(s, four);
	return s;
}
