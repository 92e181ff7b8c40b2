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

/* Searches with a read that fails, about: each makes a session anew. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SEARCHES 300
#else
#define SEARCHES 1500
#endif

/* ThreadSanitizer takes minutes for them, and has nothing to see in one thread. */
#ifdef __SANITIZE_THREAD__
#define WITH_ONE_WORKER false
#else
#define WITH_ONE_WORKER true
#endif

static uint64_t reads_to_find, reads_in_all;
static uint64_t step;		  /* from one read of a later capture that fails to the next */
static struct ss_request request; /* what is captured */

/* A page table of each level for the worker, and a second one of the last. */
static void make_tables(void)
{
	struct lg_mm *mm = lg_add_mm(&guest, &guest.threads[2], 0x1234);

	*lg_entry(&guest, lg_directory(&guest, mm), 0x400000) = 0x40000fc3;
	*lg_entry(&guest, lg_directory(&guest, mm), 0x800000) = 0x40001fc3;
}

static void make_guest(void)
{
	const bool has_tables = request.flags & KCD_SS_REQ_PAGE_TABLES;

	lg_create(&guest, &(struct lg_form){ .seqs = true,
					     .ram_size = has_tables ? 2 * SMALL_RAM : SMALL_RAM });
	lg_populate(&guest);
	if (request.flags)
		make_tables();
}

static void capture_whole(void)
{
	ck_assert_msg(session_capture_with(&request) == GS_OK, "%s", error.text);
	ck_assert(result.complete);
}

/* The capture without a failure, and how many reads it takes. */
static void begin(void)
{
	lg_unmap_host(&guest);
	session_begin();
	capture_whole();
	reads_in_all = guest.reads;
	guest.reads = 0;
	capture_whole();
	reads_to_find = reads_in_all - guest.reads;
	judge_keep();
}

static void setup_request(int32_t pid, uint64_t flags)
{
	request = session_request(pid);
	request.flags = flags;
	make_guest();
	begin();
	step = 1;
}

static void setup(void)
{
	setup_request(SS_PID_ALL, 0);
}

#define MEMORY_FLAGS (KCD_SS_GET_GLOBAL_MEM_STATS | KCD_SS_SAVE_KEXT_LOADINFO | KCD_SS_REQ_ASID)

/* What else a capture of everything can be asked for. */
static void setup_memory(void)
{
	setup_request(SS_PID_ALL, MEMORY_FLAGS);
	ck_assert_uint_eq(good.out_flags, good.in_flags);
}

/* ... and one of a single process. */
static void setup_tables(void)
{
	setup_request(100, MEMORY_FLAGS | KCD_SS_REQ_PAGE_TABLES);
	ck_assert_uint_eq(good.tables, 5);
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
	enum gs_code rc = session_capture_with(&request);

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
	for (uint64_t n = 1; n <= reads_in_all;
	     n += n < 300 ? 1 : step_of(reads_in_all, SEARCHES)) {
		session_restart();
		fail_reads(n, n);
		capture_and_judge(true);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// the next capture of the last session is a good one
	fail_reads(0, 0);
	capture_whole();
	judge_view(false);
}
END_TEST

START_TEST(all_reads_from_one_on_that_fail_in_search_or_capture_are_survived)
{
	for (uint64_t n = 1; n <= reads_in_all;
	     n += n < 300 ? 1 : step_of(reads_in_all, SEARCHES)) {
		session_restart();
		fail_reads(n, UINT64_MAX);
		capture_and_judge(false);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// it still is not the session's fault
	fail_reads(0, 0);
	capture_whole();
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
	capture_whole();
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
		capture_whole();
		judge_view(false);
	}
	ck_assert_uint_eq(failures, 0);
}
END_TEST

/* Each page of the kernel's memory in turn is no RAM. */
START_TEST(any_page_that_is_gone_costs_what_is_on_it)
{
	for (uint64_t at = 0; at < guest.ram_size; at += 4096) {
		uint8_t *page = lg_at(&guest, LG_RAM + at);
		struct guest_range *r = guest.m.ranges;

		// two ranges around the page, mapped again
		r[0] = (struct guest_range){ GPA(LG_RAM), at, guest.ram };
		r[1] = (struct guest_range){ GPA(LG_RAM + at + 4096), guest.ram_size - at - 4096,
					     page + 4096 };
		guest.m.guest.ranges = at ? r : r + 1;
		guest.m.guest.range_count = at && at + 4096 < guest.ram_size ? 2 : 1;
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
	const uint64_t start = LG_IMAGE + LG_INIT_TASK, size = LG_RAM + guest.ram_size - start;
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
		(void)session_capture_with(&request); // the reader in it judges
		incompletes += !result.complete;
	}
	ck_assert_uint_gt(incompletes, 100);
	memcpy(guest.ram, before, guest.ram_size);
	free(before);
	capture_whole();
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
	request = session_request(SS_PID_ALL);
	session_make_crowd(30);
	begin();
	seam_meeting = 4;
	step = step_of(reads_in_all - reads_to_find, 50);
}

static void add_case(Suite *s, const char *name, void (*set_up)(void), bool with_search,
		     bool with_noise)
{
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, set_up, teardown);
	if (with_search) {
		tcase_add_test(tc, any_read_that_fails_once_in_search_or_capture_is_survived);
		tcase_add_test(tc,
			       all_reads_from_one_on_that_fail_in_search_or_capture_are_survived);
	}
	tcase_add_test(tc, any_read_that_fails_once_in_a_later_capture_is_survived);
	tcase_add_test(tc, all_reads_from_one_on_that_fail_in_a_later_capture_are_survived);
	if (with_noise) {
		tcase_add_test(tc, any_page_that_is_gone_costs_what_is_on_it);
		tcase_add_test(tc, noise_in_the_kernels_data_is_survived);
	}
	suite_add_tcase(s, tc);
}

Suite *suite_faults(void)
{
	Suite *s = suite_create("faults");

	if (WITH_ONE_WORKER) {
		add_case(s, "one worker", setup, true, true);
		add_case(s, "page tables", setup_tables, false, true);
		add_case(s, "memory", setup_memory, true, true);
	}
	add_case(s, "three workers", setup_three, false, true);
	add_case(s, "four workers", setup_four, false, false);
	return s;
}
