/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of guest memory that fail: each one once, and all from each one on. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/prng.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

#define SMALL_RAM (UINT64_C(5) << 18) /* 1.25 MiB: what there is of the guest, and no more */

static struct view good;
static uint8_t *good_data;
static uint64_t reads_to_find, reads_in_all;
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
	lg_unmap_host(&guest);
}

static void capture_whole(void)
{
	ck_assert_msg(session_capture_with(&request) == GS_OK, "%s", error.text);
	ck_assert(result.complete);
}

/* The capture without a failure, and how many reads it takes. */
static void setup_request(int32_t pid, uint64_t flags)
{
	request = session_request(pid);
	request.flags = flags;
	make_guest();
	session_begin();
	capture_whole();
	reads_in_all = guest.reads;
	guest.reads = 0;
	capture_whole();
	reads_to_find = reads_in_all - guest.reads;
	good = view;
	// frames point into the capture
	good_data = malloc(result.size);
	ck_assert_ptr_nonnull(good_data);
	memcpy(good_data, result.data, result.size);
	for (uint32_t i = 0; i < good.threads; i++) {
		struct view_thread *t = &good.thread[i];

		if (t->frames.count)
			t->frames.data = good_data + (t->frames.data - (uint8_t *)result.data);
		if (t->kinds.count)
			t->kinds.data = good_data + (t->kinds.data - (uint8_t *)result.data);
	}
	for (uint32_t i = 0; i < good.tables; i++)
		good.table[i].entry = good_data + (good.table[i].entry - (uint8_t *)result.data);
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
	session_end();
	free(good_data);
}

static void fail_reads(uint64_t first, uint64_t last)
{
	guest.reads = 0;
	guest.fail_first = first;
	guest.fail_last = last;
}

static void new_session(void)
{
	ss_session_destroy(session);
	session_begin();
}

static bool same_stack(const struct view_thread *a, const struct view_thread *b)
{
	return a->frames.count == b->frames.count &&
	       (!a->frames.count || memcmp(a->frames.data, b->frames.data, a->frames.size) == 0);
}

/*
 * A stack that has one frame more than it should: when the word that tells whether the link register
 * is in the chain already cannot be read once, and can be read a moment later, it seems to be missing.
 * No memory does that; a source that fails stays so.
 */
static bool has_link_register_twice(const struct view_thread *t, const struct view_thread *wanted)
{
	return t->frames.count == wanted->frames.count + 1 && view_kind(t, 1) == LNX_FRAME_LR &&
	       view_frame(t, 1) == view_frame(t, 2);
}

/* What is claimed to have been done was; a kernel of which less was found lets less be done. */
static void expect_good_memory(void)
{
	if (view.out_flags & KCD_SS_GET_GLOBAL_MEM_STATS)
		ck_assert_mem_eq(&view.memory, &good.memory, sizeof(view.memory));
	for (uint32_t i = 0; i < view.tasks; i++) {
		const struct view_task *t = &view.task[i];

		ck_assert(!(view.out_flags & KCD_SS_REQ_ASID) ||
			  t->has_asid == good.task[i].has_asid);
		ck_assert_uint_eq(t->asid, t->has_asid ? good.task[i].asid : 0);
		if (t->has_kernel)
			ck_assert_uint_eq(t->kernel.imageLoadAddress,
					  good.task[i].kernel.imageLoadAddress);
	}
	if (!(view.out_flags & KCD_SS_REQ_PAGE_TABLES))
		return;
	ck_assert_uint_eq(view.tables, good.tables);
	for (uint32_t i = 0; i < view.tables; i++) {
		ck_assert_uint_eq(view.table[i].at, good.table[i].at);
		ck_assert_mem_eq(view.table[i].entry, good.table[i].entry, 4096);
	}
}

/* A capture that says it is complete is: nothing is left out of it without a word. */
static void expect_good(bool once)
{
	expect_good_memory();
	ck_assert_uint_eq(view.tasks, good.tasks);
	ck_assert_uint_eq(view.threads, good.threads);
	for (uint32_t i = 0; i < view.tasks; i++) {
		ck_assert_uint_eq(view.task[i].id, good.task[i].id);
		ck_assert_str_eq(view.task[i].r.comm, good.task[i].r.comm);
		// a parent that cannot be read is shown as not known
		ck_assert(view.task[i].r.ppid == good.task[i].r.ppid || view.task[i].r.ppid == -1);
	}
	for (uint32_t i = 0; i < view.threads; i++) {
		const struct view_thread *t = &view.thread[i], *wanted = &good.thread[i];

		ck_assert_mem_eq(&t->r, &wanted->r, sizeof(t->r));
		ck_assert_uint_eq(t->id, wanted->id);
		ck_assert_msg(same_stack(t, wanted) || (once && has_link_register_twice(t, wanted)),
			      "stack of %s", t->r.comm);
	}
	for (uint32_t i = 0; i < view.vcpus; i++)
		ck_assert_int_eq(view.vcpu[i].tid, good.vcpu[i].tid);
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
	if (!rc && result.complete)
		expect_good(once);
}

/* All numbers of a read, or about so many of them where a sanitizer makes it slow. */
static uint64_t step_of(uint64_t reads, uint64_t most)
{
	return reads > most ? reads / most : 1;
}

START_TEST(any_read_that_fails_once_in_search_or_capture_is_survived)
{
	for (uint64_t n = 1; n <= reads_in_all; n += n < 300 ? 1 : step_of(reads_in_all, 1500)) {
		new_session();
		fail_reads(n, n);
		capture_and_judge(true);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// the next capture of the last session is a good one
	fail_reads(0, 0);
	capture_whole();
	expect_good(false);
}
END_TEST

START_TEST(all_reads_from_one_on_that_fail_in_search_or_capture_are_survived)
{
	for (uint64_t n = 1; n <= reads_in_all; n += n < 300 ? 1 : step_of(reads_in_all, 1500)) {
		new_session();
		fail_reads(n, UINT64_MAX);
		capture_and_judge(false);
		ck_assert_uint_ge(guest.reads, n);
	}
	ck_assert_uint_gt(incompletes, 10);
	// it still is not the session's fault
	fail_reads(0, 0);
	capture_whole();
	expect_good(false);
}
END_TEST

START_TEST(any_read_that_fails_once_in_a_later_capture_is_survived)
{
	uint64_t reads = reads_in_all - reads_to_find;

	for (uint64_t n = 1; n <= reads; n++) {
		fail_reads(n, n);
		capture_and_judge(true);
	}
	ck_assert_uint_gt(incompletes, 10);
	ck_assert_uint_eq(failures, 0);
	fail_reads(0, 0);
	capture_whole();
	expect_good(false);
}
END_TEST

START_TEST(all_reads_from_one_on_that_fail_in_a_later_capture_are_survived)
{
	uint64_t reads = reads_in_all - reads_to_find;

	for (uint64_t n = 1; n <= reads; n++) {
		fail_reads(n, UINT64_MAX);
		capture_and_judge(false);
		// the next capture finds everything again
		fail_reads(0, 0);
		capture_whole();
		expect_good(false);
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
		new_session();
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
			new_session();
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

static void add_case(Suite *s, const char *name, void (*set_up)(void), bool with_search)
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
	tcase_add_test(tc, any_page_that_is_gone_costs_what_is_on_it);
	tcase_add_test(tc, noise_in_the_kernels_data_is_survived);
	suite_add_tcase(s, tc);
}

Suite *suite_faults(void)
{
	Suite *s = suite_create("faults");

	add_case(s, "one worker", setup, true);
	add_case(s, "three workers", setup_three, false);
	add_case(s, "memory", setup_memory, true);
	add_case(s, "page tables", setup_tables, false);
	return s;
}
