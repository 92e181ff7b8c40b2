/* SPDX-License-Identifier: Apache-2.0 */
/* Reading captures back: whole ones, cut ones, damaged ones, other files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kcdata/stackshot_types.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

START_TEST(capture_reads_back_with_all_that_was_written)
{
	sample_load();
	ck_assert(rep_is_complete(&capture));
	ck_assert_str_eq(capture.release, "6.1.0-made-up");
	ck_assert_str_eq(capture.banner, "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP");
	ck_assert_uint_eq(capture.guest.vcpus, 2);
	ck_assert_uint_eq(capture.vcpu_count, 2);
	ck_assert_int_eq(capture.vcpus[0].tid, 101);
	ck_assert_uint_eq(capture.task_count, 5);
	ck_assert_uint_eq(capture.thread_count, 8);
	ck_assert_uint_eq(capture.missing_count, 0);
	ck_assert_uint_eq(capture.times.tries, 1);
	ck_assert_int_eq(capture.only_pid, -1);
	ck_assert_uint_gt(capture.wall_us, UINT64_C(1600000000000000));
	const struct rep_thread *t = sample_thread(100);
	ck_assert_str_eq(t->comm, "worker");
	ck_assert_uint_eq(t->frame_count, 6);
	ck_assert_str_eq(capture.frames[t->first_frame + 2].symbol->name, LG_NAME_63);
	ck_assert_str_eq(capture.frames[t->first_frame + 3].symbol->name, LG_NAME_64);
	t = sample_thread(101);
	ck_assert_int_eq(t->linux_facts.vcpu, 0);
	ck_assert_uint_eq(capture.frames[t->first_frame].kind, LNX_FRAME_PC);
	for (size_t i = 0; i < capture.frame_count; i++)
		ck_assert_ptr_nonnull(capture.frames[i].symbol);
	sample_show_all();
}
END_TEST

START_TEST(capture_given_back_twice_or_empty_is_fine)
{
	sample_load();
	rep_capture_deinit(&capture);
	ck_assert_uint_eq(capture.task_count, 0);
	rep_capture_deinit(&capture);
	sample_show_all(); // nothing in it
}
END_TEST

static const uint32_t bad_magics[] = { KCD_MAGIC_CRASHINFO, KCD_MAGIC_BTINFO, KCD_MAGIC_OS_REASON,
				       KCD_MAGIC_XNUPOST_CONFIG };

START_TEST(other_kcdata_is_no_capture)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad_magics); i++) {
		memcpy(sample, &bad_magics[i], 4);
		ck_assert_int_eq(sample_read(sample, sample_size), GS_EMALFORMED);
		ck_assert_ptr_nonnull(strstr(error.text, "but no stackshot"));
		ck_assert_uint_eq(capture.task_count, 0);
	}
}
END_TEST

START_TEST(what_is_no_kcdata_is_no_capture)
{
	static const char *const files[] = { "", "x",
					     "plain text that is long enough for a header\n",
					     "\x7f"
					     "ELF\2\1\1" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		ck_assert_int_eq(sample_read(files[i], strlen(files[i])), GS_EMALFORMED);
		ck_assert_ptr_nonnull(strstr(error.text, "unit-report"));
	}
	memset(sample, 0, sample_size);
	ck_assert_int_eq(sample_read(sample, sample_size), GS_EMALFORMED);
	memset(sample, 0xff, sample_size);
	ck_assert_int_eq(sample_read(sample, sample_size), GS_EMALFORMED);
}
END_TEST

START_TEST(files_that_cannot_be_read_say_why)
{
	char folder[] = "/tmp/unit-report-XXXXXX", file[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(rep_capture_read(folder, &capture, &error), GS_ESYS);
	ck_assert_msg(strstr(error.text, "Is a directory"), "%s", error.text);
	snprintf(file, sizeof(file), "%s/none", folder);
	ck_assert_int_eq(rep_capture_read(file, &capture, &error), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(error.text, file));
	ck_assert_int_eq(rep_capture_read("", &capture, &error), GS_ENOENT);
	snprintf(file, sizeof(file), "%s/closed", folder);
	FILE *f = fopen(file, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	ck_assert_int_eq(chmod(file, 0), 0);
	if (geteuid() != 0) // root may read it all the same
		ck_assert_int_eq(rep_capture_read(file, &capture, &error), GS_EDENIED);
	char below[80];
	snprintf(below, sizeof(below), "%s/below", file);
	ck_assert_int_eq(rep_capture_read(below, &capture, &error), GS_ENOENT);
	unlink(file);
	rmdir(folder);
	ck_assert_uint_eq(capture.task_count, 0);
	ck_assert_ptr_null(capture.tasks);
}
END_TEST

START_TEST(capture_comes_through_a_pipe_too)
{
	int ends[2];
	FILE *f;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
	f = fdopen(ends[1], "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_lt(sample_size, 65536); // a pipe takes so much without a reader
	ck_assert_uint_eq(fwrite(sample, 1, sample_size, f), sample_size);
	fclose(f);
	ck_assert_int_eq(rep_capture_read("-", &capture, &error), GS_OK);
	ck_assert_uint_eq(capture.thread_count, 8);
	ck_assert(rep_is_complete(&capture));
}
END_TEST

/* --- cut -------------------------------------------------------------------------------------- */

static void expect_damaged(size_t size)
{
	ck_assert_int_eq(sample_read(sample, size), GS_OK);
	ck_assert_msg(capture.damaged, "%zu of %zu bytes", size, sample_size);
	ck_assert(!rep_is_complete(&capture));
	ck_assert_ptr_nonnull(strstr(capture.damage, "the file is damaged at offset"));
	sample_show_all();
}

START_TEST(file_cut_at_any_record_gives_what_was_before)
{
	size_t threads = 0, cuts = 0;

	for (size_t at = 16; at + 16 <= sample_size;) {
		struct kcd_header h;

		memcpy(&h, sample + at, sizeof(h));
		expect_damaged(at);
		ck_assert_uint_ge(capture.thread_count, threads);
		threads = capture.thread_count;
		cuts++;
		if (h.type == KCD_MAGIC_END)
			break;
		at += 16 + h.size;
	}
	ck_assert_uint_gt(cuts, 60);
	ck_assert_uint_eq(threads, 8);
}
END_TEST

START_TEST(file_cut_at_any_byte_gives_what_was_before)
{
	for (size_t size = 16; size < sample_size; size += size < 200 ? 1 : 61)
		expect_damaged(size);
	for (size_t size = 0; size < 16; size++)
		ck_assert_int_eq(sample_read(sample, size), GS_EMALFORMED);
	expect_damaged(sample_size - 1);
}
END_TEST

START_TEST(bytes_behind_the_end_do_not_matter)
{
	uint8_t *more = malloc(sample_size + 100);

	ck_assert_ptr_nonnull(more);
	memcpy(more, sample, sample_size);
	memset(more + sample_size, 0x5a, 100);
	ck_assert_int_eq(sample_read(more, sample_size + 100), GS_OK);
	ck_assert_uint_eq(capture.thread_count, 8);
	free(more);
}
END_TEST

/* --- damaged ---------------------------------------------------------------------------------- */

static void mutate(uint8_t *copy, uint64_t *seed)
{
	for (uint64_t k = 1 + prng_below(seed, 10); k; k--) {
		size_t at = prng_below(seed, sample_size);

		switch (prng_below(seed, 4)) {
		case 0: copy[at] = (uint8_t)prng(seed); break;
		case 1: copy[at] ^= (uint8_t)(1u << prng_below(seed, 8)); break;
		case 2: copy[at] = 0xff; break;
		default: { // a header: type, size or flags
			uint32_t word = prng_below(seed, 2) ? (uint32_t)prng(seed)
							    : (uint32_t)prng_below(seed, 64);

			at = at & ~(size_t)3;
			if (at + 4 <= sample_size)
				memcpy(copy + at, &word, 4);
			break;
		}
		}
	}
}

// X11, X13
START_TEST(mutated_files_are_read_or_refused_and_shown_without_harm)
{
	uint8_t *copy = malloc(sample_size);
	uint64_t seed = 8;
	int shown = 0;

	ck_assert_ptr_nonnull(copy);
	for (int round = 0; round < 2000; round++) {
		memcpy(copy, sample, sample_size);
		mutate(copy, &seed);
		enum gs_code rc = sample_read(copy, sample_size);
		ck_assert(rc == GS_OK || rc == GS_EMALFORMED);
		if (rc)
			continue;
		ck_assert(!capture.damaged || capture.damage[0]);
		sample_show_all();
		shown++;
	}
	ck_assert_int_gt(shown, 1500);
	free(copy);
}
END_TEST

/* --- made by hand ----------------------------------------------------------------------------- */

static uint8_t made[1 << 16];
static struct kcd_writer w;

static void made_begin(void)
{
	ck_assert_int_eq(kcd_writer_init(&w, made, sizeof(made), KCD_MAGIC_STACKSHOT, 0), KCD_OK);
}

static void made_read(void)
{
	ck_assert_msg(sample_read(made, kcd_writer_used(&w)) == GS_OK, "%s", error.text);
}

#define OK(call) ck_assert_int_eq((call), KCD_OK)

static void container(uint32_t type, uint64_t id)
{
	OK(kcd_container_begin(&w, type, id));
}

// X04: elements of one byte: hundreds of times their size if they were taken for records.
START_TEST(arrays_of_too_short_elements_are_damage)
{
	static const uint32_t types[] = {
		SS_RECORD_VCPU,		 SS_RECORD_MISSING,
		SS_RECORD_SYMBOL,	 SS_RECORD_LONG_SYMBOL,
		SS_RECORD_FRAME_KIND,	 KCD_SS_KERN_STACKLR64,
		KCD_SS_KERN_STACKLR,	 KCD_SS_THREAD_DELTA_SNAPSHOT,
		KCD_SS_NONRUNNABLE_TIDS, KCD_SS_NONRUNNABLE_TASKS,
		SS_RECORD_MODULE,
	};
	static uint8_t zeros[60000];

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		made_begin();
		container(KCD_SS_CONTAINER_TASK, 1);
		container(KCD_SS_CONTAINER_THREAD, 2);
		OK(kcd_append_array(&w, types[i], 60000, 1, zeros));
		OK(kcd_container_end(&w, 2));
		OK(kcd_container_end(&w, 1));
		made_read();
		ck_assert(capture.damaged);
		ck_assert_ptr_nonnull(strstr(capture.damage, "with 1 bytes instead of"));
		ck_assert_uint_eq(capture.frame_count + capture.vcpu_count + capture.missing_count +
					  capture.symbol_count + capture.module_count +
					  capture.runnable_count + capture.waiting_count +
					  capture.still_task_count,
				  0);
		ck_assert_uint_eq(capture.thread_count, 1);
		sample_show_all();
	}
}
END_TEST

START_TEST(later_versions_with_longer_elements_are_read)
{
	struct {
		struct ss_symbol_record r;
		uint64_t more[3];
	} s = { { 0x1000, 0x100, 0, "one" }, { ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0) } };

	made_begin();
	OK(kcd_append_array(&w, SS_RECORD_SYMBOL, 1, sizeof(s), &s));
	made_read();
	ck_assert(!capture.damaged);
	ck_assert_uint_eq(capture.symbol_count, 1);
	ck_assert_str_eq(capture.symbols[0].name, "one");
	sample_show_all();
}
END_TEST

START_TEST(strange_nesting_of_containers_is_survived)
{
	static const uint32_t types[] = { KCD_SS_CONTAINER_TASK, KCD_SS_CONTAINER_THREAD, 0x935,
					  7 };
	uint64_t seed = 12, frames[3] = { 1, 2, 3 }, open[KCD_DEPTH_MAX];

	for (int round = 0; round < 500; round++) {
		struct ss_frame_kind_record kind = { (uint32_t)prng_below(&seed, 4), 3,
						     (uint32_t)prng_below(&seed, 9) };
		struct ss_thread_record thread = { .tid = 5 };
		struct ss_task_record task = { .pid = 6 };
		size_t depth = 0;

		made_begin();
		for (int step = 0; step < 60; step++) {
			switch (prng_below(&seed, 7)) {
			case 0:
			case 1:
				if (depth == KCD_DEPTH_MAX)
					break;
				open[depth] = prng(&seed);
				container(types[prng_below(&seed, 4)], open[depth++]);
				break;
			case 2:
				if (depth)
					OK(kcd_container_end(&w, open[--depth]));
				break;
			case 3:
				OK(kcd_append_array(&w, KCD_SS_KERN_STACKLR64, 3, 8, frames));
				break;
			case 4:
				OK(kcd_append_array(&w, SS_RECORD_FRAME_KIND, 1, sizeof(kind),
						    &kind));
				break;
			case 5:
				OK(kcd_append(&w, SS_RECORD_THREAD, &thread, sizeof(thread)));
				break;
			default: OK(kcd_append(&w, SS_RECORD_TASK, &task, sizeof(task))); break;
			}
		}
		while (depth)
			OK(kcd_container_end(&w, open[--depth]));
		made_read();
		ck_assert(!capture.damaged);
		size_t threads = 0;
		for (size_t i = 0; i < capture.task_count; i++)
			threads += capture.tasks[i].thread_count;
		ck_assert_uint_eq(threads, capture.thread_count);
		sample_show_all();
	}
}
END_TEST

START_TEST(symbols_that_overlap_wrap_or_are_empty_name_only_what_they_cover)
{
	struct ss_symbol_record s[] = {
		{ 0x2000, 0x100, 0, "b" },
		{ 0x1000, 0, 0, "empty" },
		{ UINT64_MAX - 15, UINT64_MAX, 0, "wraps" },
		{ 0, 16, 0, "zero" },
	};
	uint64_t frames[] = { 0x2000, 0x2001, 0x2100, 0x2101, 0x1001, UINT64_MAX, 0, 1, 17 };
	static const char *const names[] = { NULL,    "b",     "b",    NULL, NULL,
					     "wraps", "wraps", "zero", NULL };

	made_begin();
	container(KCD_SS_CONTAINER_TASK, 1);
	container(KCD_SS_CONTAINER_THREAD, 2);
	OK(kcd_append_array(&w, KCD_SS_KERN_STACKLR64, ARRAY_SIZE(frames), 8, frames));
	OK(kcd_container_end(&w, 2));
	OK(kcd_container_end(&w, 1));
	OK(kcd_append_array(&w, SS_RECORD_SYMBOL, ARRAY_SIZE(s), sizeof(s[0]), s));
	made_read();
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		const struct rep_symbol *have = capture.frames[i].symbol;

		if (names[i])
			ck_assert_msg(have && strcmp(have->name, names[i]) == 0, "frame %zu", i);
		else
			ck_assert_msg(!have, "frame %zu: %s", i, have->name);
	}
	sample_show_all();
}
END_TEST

START_TEST(capture_of_another_tool_is_shown_with_what_it_has)
{
	struct kcd_thread_snapshot_v4 stock = { .ths_thread_id = 4711 };
	struct kcd_task_snapshot_v2 task = { .ts_pid = 77, .ts_p_comm = "launchd" };
	uint32_t frames[2] = { 0x80001234, 0x80005678 };

	made_begin();
	container(KCD_SS_CONTAINER_TASK, 77);
	OK(kcd_append(&w, KCD_SS_TASK_SNAPSHOT, &task, sizeof(task)));
	container(KCD_SS_CONTAINER_THREAD, 4711);
	OK(kcd_append(&w, KCD_SS_THREAD_SNAPSHOT, &stock, sizeof(stock)));
	OK(kcd_append_array(&w, KCD_SS_KERN_STACKLR, 2, 4, frames));
	OK(kcd_container_end(&w, 4711));
	OK(kcd_container_end(&w, 77));
	made_read();
	ck_assert_int_eq(capture.tasks[0].pid, 77);
	ck_assert_str_eq(capture.tasks[0].comm, "launchd");
	ck_assert(!capture.threads[0].has_linux);
	ck_assert_uint_eq(capture.frames[1].address, 0x80005678);
	sample_show_all();
	char *text = sample_text(false);
	ck_assert_ptr_nonnull(strstr(text, "process 77 launchd"));
	ck_assert_ptr_nonnull(strstr(text, "thread 4711"));
	ck_assert_ptr_nonnull(strstr(text, "0x80001234"));
	free(text);
}
END_TEST

START_TEST(numbers_outside_of_their_names_have_a_word)
{
	ck_assert_str_eq(rep_state_text('S'), "sleeping");
	ck_assert_str_eq(rep_state_text((char)200), "unknown state");
	for (uint32_t i = 0; i < 20; i++) {
		ck_assert_ptr_nonnull(rep_vcpu_state_name(i));
		ck_assert_ptr_nonnull(rep_missing_name(i));
		ck_assert_ptr_nonnull(rep_frame_kind_name(i));
		ck_assert_ptr_nonnull(rep_stack_end_name(i));
	}
	ck_assert_str_eq(rep_vcpu_state_name(UINT32_MAX), "unknown");
	ck_assert_str_eq(rep_missing_name(UINT32_MAX), "unknown");
	ck_assert_str_eq(rep_frame_kind_name(UINT32_MAX), "unknown");
	ck_assert_str_eq(rep_stack_end_name(UINT32_MAX), "unknown");
}
END_TEST

Suite *suite_read(void)
{
	Suite *s = suite_create("read");
	TCase *tc = tcase_create("read");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, sample_setup, sample_teardown);
	tcase_add_test(tc, capture_reads_back_with_all_that_was_written);
	tcase_add_test(tc, capture_given_back_twice_or_empty_is_fine);
	tcase_add_test(tc, other_kcdata_is_no_capture);
	tcase_add_test(tc, what_is_no_kcdata_is_no_capture);
	tcase_add_test(tc, files_that_cannot_be_read_say_why);
	tcase_add_test(tc, capture_comes_through_a_pipe_too);
	tcase_add_test(tc, file_cut_at_any_record_gives_what_was_before);
	tcase_add_test(tc, file_cut_at_any_byte_gives_what_was_before);
	tcase_add_test(tc, bytes_behind_the_end_do_not_matter);
	tcase_add_test(tc, mutated_files_are_read_or_refused_and_shown_without_harm);
	tcase_add_test(tc, arrays_of_too_short_elements_are_damage);
	tcase_add_test(tc, later_versions_with_longer_elements_are_read);
	tcase_add_test(tc, strange_nesting_of_containers_is_survived);
	tcase_add_test(tc, symbols_that_overlap_wrap_or_are_empty_name_only_what_they_cover);
	tcase_add_test(tc, capture_of_another_tool_is_shown_with_what_it_has);
	tcase_add_test(tc, numbers_outside_of_their_names_have_a_word);
	suite_add_tcase(s, tc);
	return s;
}
