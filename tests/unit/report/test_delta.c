/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas completed by what was before them: right ones, wrong ones, damaged ones, hostile ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "cli/report/delta.h"
#include "kcdata/compress.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/user_memory.h"
#include "tests/unit/report/deltas.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

/* --- captures of the made-up guest --------------------------------------------------------------
 */

static struct bytes base, full;
static struct rep_capture was, delta;

static void setup(void)
{
	sample_setup();
	base = bytes_of_sample();
}

static void teardown(void)
{
	free(base.data);
	free(full.data);
	base = full = (struct bytes){ 0 };
	rep_capture_deinit(&was);
	rep_capture_deinit(&delta);
	sample_teardown();
}

/* Capture the guest again. */
static void take_full(void)
{
	sample_take();
	free(full.data);
	full = bytes_of_sample();
}

static uint64_t start_of(struct bytes b)
{
	struct rep_capture c;
	uint64_t start_ns;

	load(b, &c);
	start_ns = c.start_ns;
	rep_capture_deinit(&c);
	return start_ns;
}

static void load_delta(struct bytes b)
{
	load(b, &delta);
	free(b.data);
	ck_assert(delta.is_delta && !delta.damaged);
}

/* The capture is what the full one of the same time shows, in every view. */
static void expect_full(void)
{
	struct rep_capture merged = capture;
	char *text[3] = { sample_text(false), sample_text(true), sample_json() };

	ck_assert(rep_is_complete(&capture) && !capture.is_delta);
	sample_show_all();
	capture = (struct rep_capture){ 0 };
	ck_assert_int_eq(sample_read(full.data, full.size), GS_OK);
	char *right[3] = { sample_text(false), sample_text(true), sample_json() };
	for (int i = 0; i < 3; i++) {
		ck_assert_str_eq(text[i], right[i]);
		free(text[i]);
		free(right[i]);
	}
	rep_capture_deinit(&capture);
	capture = merged;
}

static void apply(void)
{
	enum gs_code rc = rep_capture_apply(&capture, &delta, &error);

	ck_assert_msg(rc == GS_OK, "%s", error.text);
	rep_capture_deinit(&delta);
}

/* base and a delta of what is now show what a full capture does. */
static void expect_delta_completes(void)
{
	take_full();
	ck_assert_int_eq(sample_read(base.data, base.size), GS_OK);
	load_delta(delta_of(base, full, start_of(base)));
	apply();
	expect_full();
}

static void run_once(struct lg_thread *t)
{
	t->task->nvcsw++;
	t->task->exec_start += 1000000;
	t->task->sum_exec_runtime += 4000;
}

static void remove_node(uint64_t node)
{
	uint64_t next = *lg_word(&guest, node), before = *lg_word(&guest, node + 8);

	*lg_word(&guest, before) = next;
	*lg_word(&guest, next + 8) = before;
}

static void end_process(struct lg_thread *t)
{
	remove_node(t->address + offsetof(struct lg_task, tasks));
}

static void end_thread(struct lg_thread *t)
{
	remove_node(t->address + offsetof(struct lg_task, thread_node));
}

START_TEST(nothing_changed_gives_the_same_picture)
{
	take_full();
	load_delta(delta_of(base, full, start_of(base)));
	// the idle task alone has a container
	ck_assert_uint_eq(delta.task_count, 1);
	ck_assert_uint_eq(delta.still_task_count, 4);
	rep_capture_deinit(&delta);
	expect_delta_completes();
}
END_TEST

START_TEST(threads_that_ran_are_replaced_and_others_stay)
{
	run_once(&guest.threads[4]);
	lg_block(&guest, &guest.threads[4],
		 (const char *const[]){ "el0t_64_sync", "el0_svc", "pipe_read", NULL });
	expect_delta_completes();
	const struct rep_thread *t = sample_thread(102);
	ck_assert_str_eq(capture.frames[t->first_frame + 1].symbol->name, "pipe_read");
	ck_assert_str_eq(capture.frames[sample_thread(100)->first_frame + 2].symbol->name,
			 LG_NAME_63);
}
END_TEST

START_TEST(user_stacks_and_their_files_stay_or_are_replaced)
{
	const uint64_t tool = um_file(&guest, um_dentry(&guest, 0, "other"), 9);
	const struct um_mapping m = { 0x700000, 0x701000, 0, tool };

	sample_give_user_stack();
	struct lg_mm *mm = lg_add_mm(&guest, &guest.threads[0], 0x10002);
	um_map(&guest, mm, &m, 1);
	um_enter(&guest, &guest.threads[0], 0x700010, 0, 0);
	sample_take();
	free(base.data);
	base = bytes_of_sample();
	// first the one, then the other
	run_once(&guest.threads[0]);
	um_saved(&guest, &guest.threads[0])->pc = 0x700020;
	expect_delta_completes();
	run_once(&guest.threads[4]);
	um_saved(&guest, &guest.threads[4])->pc = 0x400120;
	expect_delta_completes();
	const struct rep_user_frame *f = capture.user_frames;
	ck_assert_str_eq(
		rep_user_frame_file(&capture, &f[sample_thread(102)->first_user_frame])->file,
		"/bin/tool");
	ck_assert_uint_eq(rep_user_frame_file(&capture, &f[sample_thread(102)->first_user_frame])
				  ->build_id_size,
			  8);
	ck_assert_str_eq(
		rep_user_frame_file(&capture, &f[sample_thread(1)->first_user_frame])->file,
		"other");
}
END_TEST

START_TEST(new_processes_and_threads_come_last)
{
	lg_block(&guest, lg_add_process(&guest, 300, "late"),
		 (const char *const[]){ "el0t_64_sync", "vfs_read", NULL });
	lg_add_thread(&guest, &guest.threads[2], 103, "helper");
	lg_add_thread(&guest, &guest.threads[6], 301, "late two");
	expect_delta_completes();
	ck_assert_uint_eq(capture.task_count, 6);
	ck_assert_uint_eq(capture.thread_count, 11);
}
END_TEST

START_TEST(what_is_in_no_form_is_gone)
{
	end_process(&guest.threads[5]);
	end_thread(&guest.threads[4]);
	end_process(&guest.threads[1]);
	expect_delta_completes();
	ck_assert_uint_eq(capture.task_count, 3);
	ck_assert_uint_eq(capture.thread_count, 5);
	// and it comes back as another one
	lg_add_process(&guest, 200, "zombie")->task->start_boottime += 5000000000;
	expect_delta_completes();
	ck_assert_uint_eq(capture.task_count, 4);
}
END_TEST

START_TEST(facts_of_a_process_change_without_its_threads)
{
	struct lg_thread *leader = &guest.threads[2];

	// both: its name, and that of its process
	memcpy(leader->task->comm, "renamed", 8);
	leader->task->real_parent = guest.threads[0].address;
	expect_delta_completes();
	ck_assert_str_eq(capture.tasks[3].comm, "renamed"); // the idle task is the first
	ck_assert_int_eq(capture.tasks[3].ppid, 1);
}
END_TEST

START_TEST(vcpus_times_and_time_are_those_of_the_delta)
{
	lg_run(&guest, 1, &guest.threads[4], lg_symbol(&guest, "vfs_read") + 8);
	expect_delta_completes();
	ck_assert_int_eq(capture.vcpus[1].tid, 102);
	ck_assert_uint_eq(capture.start_ns, start_of(full));
	ck_assert_str_eq(capture.release, "6.1.0-made-up");
}
END_TEST

START_TEST(deltas_in_a_row_each_since_the_base_or_since_the_one_before)
{
	for (int chained = 0; chained < 2; chained++) {
		struct bytes before = base;
		uint64_t since = start_of(base);

		ck_assert_int_eq(sample_read(base.data, base.size), GS_OK);
		for (int i = 0; i < 6; i++) {
			struct lg_thread *t =
				lg_add_process(&guest, 1000 + 10 * chained + i, "new");

			run_once(&guest.threads[i % 5]);
			lg_block(&guest, t,
				 (const char *const[]){ "el0_svc", i % 2 ? "vfs_read" : "pipe_read",
							NULL });
			if (i > 2)
				end_process(&guest.threads[guest.thread_count - 3]);
			take_full();
			load_delta(delta_of(before, full, since));
			apply();
			expect_full();
			if (chained) {
				if (before.data != base.data)
					free(before.data);
				before = bytes_of_sample();
				since = start_of(full);
			}
		}
		if (before.data != base.data)
			free(before.data);
		free(base.data);
		base = bytes_of_sample();
	}
}
END_TEST

START_TEST(a_delta_may_be_applied_twice_and_after_a_later_base)
{
	uint64_t first = start_of(base);

	run_once(&guest.threads[3]);
	expect_delta_completes();
	load_delta(delta_of(base, full, first));
	apply();
	expect_full();
	// since an older time than the base's
	free(base.data);
	base = full;
	full = (struct bytes){ 0 };
	run_once(&guest.threads[2]);
	take_full();
	ck_assert_int_eq(sample_read(base.data, base.size), GS_OK);
	load_delta(delta_of(base, full, first));
	apply();
	expect_full();
}
END_TEST

START_TEST(compressed_deltas_are_read_too)
{
	static const struct kcd_compression zstd = { KCD_COMPRESS_ZSTD, 3 };
	struct kcd_buffer out = { .size = 1 << 20 };

	out.data = malloc(out.size);
	ck_assert_ptr_nonnull(out.data);
	run_once(&guest.threads[0]);
	take_full();
	struct bytes plain = delta_of(base, full, start_of(base));
	struct kcd_output to = kcd_buffer_output(&out);
	ck_assert_int_eq(kcd_compress_stream(plain.data, plain.size, &zstd, 0, &to, NULL, NULL),
			 KCD_OK);
	ck_assert_int_eq(sample_read(base.data, base.size), GS_OK);
	load_delta((struct bytes){ out.data, out.used });
	apply();
	expect_full();
	free(plain.data);
}
END_TEST

/* --- files ------------------------------------------------------------------------------------ */

static char folder[] = "/tmp/unit-report-XXXXXX";

static char *write_file(const char *name, struct bytes b)
{
	char *path;

	ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(b.data, 1, b.size, f), b.size);
	ck_assert_int_eq(fclose(f), 0);
	return path;
}

START_TEST(files_are_read_in_a_row)
{
	char *paths[4];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	paths[0] = write_file("base", base);
	run_once(&guest.threads[0]);
	take_full();
	struct bytes d = delta_of(base, full, start_of(base));
	paths[1] = write_file("delta", d);
	paths[2] = write_file("full", full);
	paths[3] = write_file("cut", (struct bytes){ d.data, d.size - 64 });

	ck_assert_int_eq(rep_files_read(paths, 2, &capture, &error), GS_OK);
	expect_full();
	rep_capture_deinit(&capture);
	// a full one is no delta
	ck_assert_int_eq(rep_files_read((char *[]){ paths[0], paths[2] }, 2, &capture, &error),
			 GS_EINVAL);
	ck_assert_msg(strstr(error.text, "/full: a full capture"), "%s", error.text);
	// a delta is no base
	ck_assert_int_eq(rep_files_read(&paths[1], 1, &capture, &error), GS_EINVAL);
	ck_assert_msg(strstr(error.text, "/delta: a delta since 20") &&
			      strstr(error.text, " UTC, no full capture: give the full one"),
		      "%s", error.text);
	ck_assert_int_eq(rep_files_read((char *[]){ paths[0], folder }, 2, &capture, &error),
			 GS_ESYS);
	// which one is damaged
	ck_assert_int_eq(
		rep_files_read((char *[]){ paths[0], paths[1], paths[3] }, 3, &capture, &error),
		GS_OK);
	ck_assert_msg(strstr(capture.damage, "number 3 of 3: the file is damaged at"), "%s",
		      capture.damage);
	sample_show_all();
	for (int i = 0; i < 4; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	free(d.data);
	rmdir(folder);
}
END_TEST

/* A sample of another tool, which may be packed with gzip. @return false: it is not at hand */
static bool read_sample(const char *name, struct bytes *out)
{
	const char *samples = getenv("KCDATA_SAMPLES");
	char *path;

	ck_assert_int_gt(
		asprintf(&path, "%s/%s", samples ? samples : "../shared/kcdata-samples", name), 0);
	gzFile f = gzopen(path, "rb");
	if (!f)
		fprintf(stderr, "SKIP %s: not there\n", path);
	free(path);
	if (!f)
		return false;
	out->data = malloc(1 << 20);
	ck_assert_ptr_nonnull(out->data);
	int size = gzread(f, out->data, 1 << 20);
	ck_assert_int_gt(size, 0);
	ck_assert_int_eq(gzclose(f), Z_OK);
	out->size = (size_t)size;
	return true;
}

START_TEST(deltas_of_other_tools_are_refused)
{
	static const char *const names[] = { "delta-stackshot-sample-new-arrays",
					     "delta-stackshot-sample-old-arrays" };
	struct bytes b;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!read_sample(names[i], &b))
			continue;
		ck_assert_int_eq(sample_read(base.data, base.size), GS_OK);
		load_delta(b);
		ck_assert_uint_gt(delta.runnable_count, 80);
		ck_assert_int_eq(rep_capture_apply(&capture, &delta, &error), GS_EMALFORMED);
		ck_assert_msg(strstr(error.text, "of another tool"), "%s", error.text);
		ck_assert_int_eq(rep_refuse_delta(&delta, "x", &error), GS_EMALFORMED);
		ck_assert_msg(strstr(error.text, "x: a delta of another tool"), "%s", error.text);
		rep_capture_deinit(&delta);
	}
}
END_TEST

/* --- damaged ---------------------------------------------------------------------------------- */

static void try_merge(const uint8_t *data, size_t size, uint32_t counts[static 2])
{
	static struct rep_capture d, out; // too large for the stack

	if (sample_read_to(data, size, &d)) {
		ck_assert_int_eq(error.code, GS_EMALFORMED);
		return;
	}
	enum gs_code rc = rep_capture_merge(&was, &d, &out, &error);
	ck_assert(rc == GS_OK || rc == GS_EINVAL || rc == GS_EMALFORMED);
	ck_assert(!rc || error.text[0]);
	counts[rc != GS_OK]++;
	if (!rc) {
		ck_assert(!d.damaged || (out.damaged && out.damage[0]));
		rep_capture_deinit(&capture);
		capture = out;
		sample_show_all();
	}
	rep_capture_deinit(&d);
}

static struct bytes lively_delta(void)
{
	run_once(&guest.threads[4]);
	guest.threads[0].task->state = 0;
	sample_take();
	free(base.data);
	base = bytes_of_sample();
	run_once(&guest.threads[3]);
	lg_add_thread(&guest, &guest.threads[0], 103, "helper");
	lg_add_process(&guest, 300, "late");
	end_process(&guest.threads[1]);
	take_full();
	load(base, &was);
	return delta_of(base, full, start_of(base));
}

START_TEST(deltas_cut_anywhere_are_refused_or_incomplete)
{
	struct bytes d = lively_delta();
	uint32_t counts[2] = { 0 };

	for (size_t size = 0; size < d.size; size += 16) {
		uint32_t merged = counts[0];

		try_merge(d.data, size, counts);
		ck_assert(counts[0] == merged || !rep_is_complete(&capture));
	}
	ck_assert_uint_gt(counts[0], 100);
	ck_assert_uint_gt(counts[1], 20); // before the guest is told
	try_merge(d.data, d.size, counts);
	ck_assert(rep_is_complete(&capture));
	free(d.data);
}
END_TEST

START_TEST(mutated_deltas_are_merged_or_refused_without_harm)
{
	struct bytes d = lively_delta();
	uint8_t *copy = malloc(d.size);
	uint32_t counts[2] = { 0 };
	uint64_t seed = 21;

	ck_assert_ptr_nonnull(copy);
	for (int round = 0; round < 600; round++) {
		memcpy(copy, d.data, d.size);
		for (uint64_t k = 1 + prng_below(&seed, 6); k; k--) {
			size_t at = prng_below(&seed, d.size) & ~(size_t)3;
			uint32_t word = prng_below(&seed, 2) ? (uint32_t)prng(&seed)
							     : (uint32_t)prng_below(&seed, 64);

			memcpy(copy + at, &word, 4);
		}
		try_merge(copy, d.size, counts);
	}
	ck_assert_uint_gt(counts[0], 120);
	ck_assert_uint_gt(counts[1], 10);
	free(copy);
	free(d.data);
}
END_TEST

/* --- made by hand ----------------------------------------------------------------------------- */

#define T0  UINT64_C(5000000000)
#define SEC UINT64_C(1000000000)

static struct made m;

/* Two processes: 10 with threads 11 to 13, 20 with thread 21; symbols of their frames. */
static void make_base(void)
{
	static const struct made_thread threads[] = {
		{ .id = 11, .tid = 11, .state = 'R', .frame = { 0x1010, 0x2010 } },
		{ .id = 12, .tid = 12, .frame = { 0x1020, 0x3010 } },
		{ .id = 13, .tid = 13, .state = 'D', .frame = { 0x1030 } },
		{ .id = 21, .tid = 21, .frame = { 0x2050 } },
	};

	made_begin(&m, T0, 0);
	made_task(&m, 10, 100, "ten");
	for (int i = 0; i < 3; i++)
		made_thread(&m, &threads[i]);
	made_task_end(&m, 10);
	made_task(&m, 20, 200, "twenty");
	made_thread(&m, &threads[3]);
	made_task_end(&m, 20);
	made_symbol(&m, 0x1000, "one", false);
	made_symbol(&m, 0x2000, "two", false);
	made_symbol(&m, 0x3000, "three", false);
	rep_capture_deinit(&capture);
	made_end(&m, &capture);
}

static void begin_delta(void)
{
	made_begin(&m, T0 + SEC, T0);
}

static enum gs_code apply_made(void)
{
	rep_capture_deinit(&delta);
	made_end(&m, &delta);
	return rep_capture_apply(&capture, &delta, &error);
}

static void has_error(const char *part)
{
	ck_assert_msg(strstr(error.text, part), "no \"%s\" in: %s", part, error.text);
	// the base is as it was
	ck_assert_uint_eq(capture.task_count, 2);
	ck_assert_uint_eq(capture.thread_count, 4);
	ck_assert_uint_eq(capture.start_ns, T0);
}

static void expect_ids(const uint64_t *ids, size_t count)
{
	ck_assert_uint_eq(capture.thread_count, count);
	for (size_t i = 0; i < count; i++)
		ck_assert_uint_eq(capture.threads[i].id, ids[i]);
	sample_show_all();
}

#define EXPECT_IDS(...)                                           \
	do {                                                      \
		const uint64_t ids_[] = { __VA_ARGS__ };          \
		expect_ids(ids_, sizeof(ids_) / sizeof(ids_[0])); \
	} while (0)

START_TEST(all_forms_of_a_task_and_of_a_thread)
{
	make_base();
	begin_delta();
	made_task(&m, 10, 0, NULL);
	made_waiting(&m, 12);
	made_thread(&m, &(struct made_thread){ .id = 14, .tid = 14, .frame = { 0x4010 } });
	made_runnable(&m, 11, 99);
	made_thread(&m, &(struct made_thread){ .id = 13, .tid = 13, .frame = { 0x3020 } });
	made_task_end(&m, 10);
	made_still(&m, 20);
	made_task(&m, 30, 300, "thirty");
	made_thread(&m, &(struct made_thread){ .id = 31, .tid = 31 });
	made_task_end(&m, 30);
	made_symbol(&m, 0x3000, "three", false);
	made_symbol(&m, 0x4000, "four", false);
	ck_assert_msg(apply_made() == GS_OK, "%s", error.text);
	EXPECT_IDS(11, 12, 13, 14, 21, 31);
	ck_assert_uint_eq(capture.task_count, 3);
	ck_assert_str_eq(capture.tasks[0].comm, "ten");
	ck_assert_int_eq(capture.tasks[0].pid, 100);
	ck_assert_uint_eq(capture.tasks[0].thread_count, 4);
	ck_assert_uint_eq(capture.tasks[0].waiting_count + capture.tasks[0].runnable_count, 0);
	ck_assert_str_eq(capture.tasks[2].comm, "thirty");
	// what the short form tells
	ck_assert_int_eq(capture.threads[0].linux_facts.prio, 99);
	ck_assert_int_eq(capture.threads[0].linux_facts.static_prio, 120);
	ck_assert_int_eq(capture.threads[0].linux_facts.state, 'R');
	ck_assert_int_eq(capture.threads[0].stock.ths_sched_priority, 99);
	ck_assert_uint_eq(capture.threads[0].stock.ths_state, KCD_THREAD_RUN);
	ck_assert_int_eq(capture.threads[1].linux_facts.prio, 120);
	// names of both
	static const char *const names[] = { "one", "two", "one", "three", "three", "four", "two" };
	ck_assert_uint_eq(capture.frame_count, ARRAY_SIZE(names));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		ck_assert_str_eq(capture.frames[i].symbol->name, names[i]);
	ck_assert_uint_eq(capture.symbol_count, 4);
	ck_assert(rep_is_complete(&capture));
	ck_assert_uint_eq(capture.start_ns, T0 + SEC);
}
END_TEST

START_TEST(a_task_that_is_not_named_takes_its_threads_along)
{
	make_base();
	begin_delta();
	made_still(&m, 20);
	ck_assert_int_eq(apply_made(), GS_OK);
	EXPECT_IDS(21);
	make_base();
	begin_delta();
	made_task(&m, 10, 0, NULL);
	made_task_end(&m, 10);
	ck_assert_int_eq(apply_made(), GS_OK);
	ck_assert_uint_eq(capture.task_count, 1);
	ck_assert_uint_eq(capture.thread_count, 0);
	sample_show_all();
}
END_TEST

static void damage_guest(size_t offset)
{
	struct bytes b = made_bytes(&m);
	struct kcd_reader r;
	struct kcd_item it;

	OK(kcd_reader_init(&r, b.data, b.size, KCD_TOLERANT, NULL));
	while (!kcd_reader_next(&r, &it))
		if (it.type == SS_RECORD_GUEST)
			b.data[it.offset + KCD_HEADER_SIZE + offset] ^= 1;
}

START_TEST(deltas_of_another_guest_or_boot_are_refused)
{
	static const size_t fields[] = { offsetof(struct ss_guest_record, ram_size),
					 offsetof(struct ss_guest_record, kernel_text),
					 offsetof(struct ss_guest_record, kernel_voffset),
					 offsetof(struct ss_guest_record, vcpus),
					 offsetof(struct ss_guest_record, symbols) };

	make_base();
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		begin_delta();
		damage_guest(fields[i]);
		ck_assert_int_eq(apply_made(), GS_EINVAL);
		has_error("of another guest than the capture before it, or of another boot");
	}
	begin_delta();
	damage_guest(offsetof(struct ss_guest_record, source));
	ck_assert_int_eq(apply_made(), GS_OK);
}
END_TEST

START_TEST(deltas_of_other_processes_are_refused)
{
	make_base();
	begin_delta();
	OK(kcd_append_u32(&m.w, "stackshot_in_pid", 100));
	made_still(&m, 10);
	ck_assert_int_eq(apply_made(), GS_EINVAL);
	has_error("of other processes than the capture before it");
	capture.only_pid = 100;
	begin_delta();
	OK(kcd_append_u32(&m.w, "stackshot_in_pid", 100));
	OK(kcd_append_u32(&m.w, "stackshot_in_flags", 7));
	made_still(&m, 10);
	ck_assert_int_eq(apply_made(), GS_OK);
	ck_assert_int_eq(capture.only_pid, 100);
}
END_TEST

START_TEST(deltas_of_another_time_are_refused)
{
	make_base();
	made_begin(&m, T0 + SEC, T0 + 1);
	ck_assert_int_eq(apply_made(), GS_EINVAL);
	has_error("a delta since 2026-11-30 09:22:42.000 UTC, but the capture before it is of "
		  "2026-11-30 09:22:42.000 UTC: one in between is missing");
	made_begin(&m, T0 - 1, T0 - SEC);
	ck_assert_int_eq(apply_made(), GS_EINVAL);
	has_error("give them in the order they were taken");
	// the two bounds themselves
	made_begin(&m, T0, T0);
	made_still(&m, 10);
	made_still(&m, 20);
	ck_assert_int_eq(apply_made(), GS_OK);
	EXPECT_IDS(11, 12, 13, 21);
	// times that make no sense
	made_begin(&m, 1, UINT64_MAX);
	ck_assert_int_eq(apply_made(), GS_EINVAL);
	made_begin(&m, UINT64_MAX, 1);
	ck_assert_int_eq(apply_made(), GS_OK);
	sample_show_all();
}
END_TEST

START_TEST(base_and_delta_are_not_taken_for_each_other)
{
	struct rep_capture other;

	make_base();
	made_begin(&m, T0 + SEC, 0);
	ck_assert_int_eq(apply_made(), GS_EINVAL);
	has_error("a full capture: only deltas complete");
	begin_delta();
	made_end(&m, &other);
	ck_assert_int_eq(rep_refuse_delta(&other, "x", &error), GS_EINVAL);
	has_error("x: a delta since 2026-11-30 09:22:42.000 UTC, no full capture");
	begin_delta();
	rep_capture_deinit(&delta);
	made_end(&m, &delta);
	ck_assert_int_eq(rep_capture_apply(&other, &delta, &error), GS_EINVAL);
	has_error("is a delta, too");
	rep_capture_deinit(&other);
}
END_TEST

START_TEST(unchanged_ids_that_the_base_does_not_have_are_named)
{
	make_base();
	begin_delta();
	made_still(&m, 10);
	made_still(&m, 0x1234);
	ck_assert_int_eq(apply_made(), GS_EMALFORMED);
	has_error("a process with id 0x1234 is unchanged, it says, but the capture before it has "
		  "none: it is of another base, or a delta in between is missing");
	begin_delta();
	made_task(&m, 20, 0, NULL);
	made_waiting(&m, 0x4321);
	made_task_end(&m, 20);
	ck_assert_int_eq(apply_made(), GS_EMALFORMED);
	has_error("a thread with id 0x4321 is unchanged");
	begin_delta();
	made_task(&m, 20, 0, NULL);
	made_runnable(&m, 11, 1); // there, but of another process
	made_task_end(&m, 20);
	ck_assert_int_eq(apply_made(), GS_EMALFORMED);
	has_error("a thread with id 0xb is unchanged");
	begin_delta();
	made_task(&m, 30, 0, NULL); // new, but without facts
	made_task_end(&m, 30);
	ck_assert_int_eq(apply_made(), GS_EMALFORMED);
	has_error("a process with id 0x1e is unchanged");
	begin_delta();
	made_task(&m, 30, 300, "new");
	made_waiting(&m, 31);
	made_task_end(&m, 30);
	ck_assert_int_eq(apply_made(), GS_EMALFORMED);
	has_error("a thread with id 0x1f is unchanged");
}
END_TEST

static bool says_missing(uint32_t what, const char *reason)
{
	for (size_t i = 0; i < capture.missing_count; i++)
		if (capture.missing[i].what == what && strstr(capture.missing[i].reason, reason))
			return true;
	return false;
}

START_TEST(ids_that_an_incomplete_base_does_not_have_are_missing)
{
	make_base();
	begin_delta();
	made_missing(&m, SS_MISSING_TASKS, -1, -1, "the list breaks off");
	made_still(&m, 10);
	ck_assert_int_eq(apply_made(), GS_OK);
	// not known to be gone, and said so
	ck_assert(!rep_is_complete(&capture));
	ck_assert(says_missing(SS_MISSING_TASKS, "the list breaks off"));
	EXPECT_IDS(11, 12, 13);

	made_begin(&m, T0 + 2 * SEC, T0);
	made_still(&m, 10);
	made_still(&m, 20);
	made_task(&m, 30, 0, NULL);
	made_waiting(&m, 31);
	made_thread(&m, &(struct made_thread){ .id = 32, .tid = 32 });
	made_task_end(&m, 30);
	ck_assert_msg(apply_made() == GS_OK, "%s", error.text);
	EXPECT_IDS(11, 12, 13, 32);
	ck_assert_uint_eq(capture.missing_count, 1);
	ck_assert_uint_eq(capture.missing[0].count, 3);
	ck_assert(says_missing(SS_MISSING_TASK, "does not have it (id 0x1e)"));
}
END_TEST

START_TEST(what_the_base_lacks_is_lacking_as_long_as_it_is_unchanged)
{
	static const struct {
		uint32_t what;
		int32_t pid, tid;
		bool stays;
	} notes[] = {
		{ SS_MISSING_STACK, 100, 12, true },  /* kept */
		{ SS_MISSING_STACK, 100, 11, true },  /* kept, with another priority */
		{ SS_MISSING_STACK, 100, 13, false }, /* in the delta */
		{ SS_MISSING_STACK, 100, 19, false }, /* gone */
		{ SS_MISSING_LATE, 200, -1, true },   /* of a process that is kept as a whole */
		{ SS_MISSING_LATE, 100, -1, false },  /* the delta says which threads it has */
		{ SS_MISSING_TASKS, -1, -1, false },  { SS_MISSING_IDLE, -1, -1, false },
		{ SS_MISSING_MORE, -1, -1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		make_base();
		capture.missing = realloc(capture.missing, 16 * sizeof(*capture.missing));
		ck_assert_ptr_nonnull(capture.missing);
		capture.missing[0] = (struct ss_missing_record){ .what = notes[i].what,
								 .pid = notes[i].pid,
								 .tid = notes[i].tid };
		capture.missing_count = 1;
		begin_delta();
		made_task(&m, 10, 0, NULL);
		made_runnable(&m, 11, 1);
		made_waiting(&m, 12);
		made_thread(&m, &(struct made_thread){ .id = 13, .tid = 13 });
		made_task_end(&m, 10);
		made_still(&m, 20);
		ck_assert_int_eq(apply_made(), GS_OK);
		ck_assert_msg(capture.missing_count == notes[i].stays, "note %zu", i);
		sample_show_all();
	}
}
END_TEST

START_TEST(a_damaged_base_stays_damaged)
{
	make_base();
	capture.damaged = true;
	strcpy(capture.damage, "torn");
	begin_delta();
	made_still(&m, 10);
	made_still(&m, 77);
	ck_assert_int_eq(apply_made(), GS_OK);
	ck_assert(capture.damaged);
	ck_assert_str_eq(capture.damage, "torn");
	ck_assert(says_missing(SS_MISSING_TASK, "id 0x4d"));
	EXPECT_IDS(11, 12, 13);
}
END_TEST

/* --- ids that occur twice --------------------------------------------------------------------- */

START_TEST(of_two_with_an_id_the_first_counts)
{
	make_base();
	begin_delta();
	made_task(&m, 10, 0, NULL);
	made_thread(&m, &(struct made_thread){ .id = 12, .tid = 1 });
	made_thread(&m, &(struct made_thread){ .id = 12, .tid = 2 });
	made_thread(&m, &(struct made_thread){ .id = 14, .tid = 3 });
	made_thread(&m, &(struct made_thread){ .id = 14, .tid = 4 });
	made_waiting(&m, 12);
	made_waiting(&m, 13);
	made_waiting(&m, 13);
	made_runnable(&m, 13, 7);
	made_task_end(&m, 10);
	made_task(&m, 10, 101, "again");
	made_thread(&m, &(struct made_thread){ .id = 11, .tid = 5 });
	made_task_end(&m, 10);
	made_still(&m, 10);
	made_still(&m, 20);
	made_still(&m, 20);
	ck_assert_msg(apply_made() == GS_OK, "%s", error.text);
	EXPECT_IDS(12, 13, 14, 21);
	ck_assert_int_eq(capture.threads[0].linux_facts.tid, 1);
	ck_assert_int_eq(capture.threads[2].linux_facts.tid, 3);
	ck_assert_int_eq(capture.threads[1].linux_facts.prio,
			 7); // that form comes before the other
	ck_assert_str_eq(capture.tasks[0].comm, "ten");
	ck_assert_uint_eq(capture.missing_count, 1);
	ck_assert(says_missing(SS_MISSING_TASK, "has the id of another one"));
	ck_assert_uint_eq(capture.missing[0].count, 8);
}
END_TEST

START_TEST(of_two_in_the_base_the_first_counts)
{
	made_begin(&m, T0, 0);
	for (int i = 0; i < 2; i++) {
		made_task(&m, 10, 100 + i, "ten");
		made_thread(&m, &(struct made_thread){ .id = 11, .tid = 1 });
		made_thread(&m, &(struct made_thread){ .id = 11, .tid = 2 });
		made_task_end(&m, 10);
	}
	rep_capture_deinit(&capture);
	made_end(&m, &capture);
	begin_delta();
	made_still(&m, 10);
	ck_assert_int_eq(apply_made(), GS_OK);
	ck_assert_uint_eq(capture.task_count, 1);
	ck_assert_int_eq(capture.tasks[0].pid, 100);
	EXPECT_IDS(11, 11);
	ck_assert(says_missing(SS_MISSING_TASK, "has the id of another one"));

	made_begin(&m, T0 + SEC, T0);
	made_task(&m, 10, 0, NULL);
	made_waiting(&m, 11);
	made_task_end(&m, 10);
	ck_assert_int_eq(apply_made(), GS_OK);
	EXPECT_IDS(11);
	ck_assert_int_eq(capture.threads[0].linux_facts.tid, 1);
	ck_assert(says_missing(SS_MISSING_TASK, "has the id of another one"));
}
END_TEST

#define MANY 100000

/* In one process, with ids from a few; twice the number would be for a day if it were quadratic. */
static void make_many(uint64_t start_ns, uint64_t since_ns, uint64_t ids, bool waiting)
{
	made_begin(&m, start_ns, since_ns);
	made_task(&m, 10, 100, "many");
	for (uint64_t i = 0; i < MANY; i++) {
		if (waiting)
			made_waiting(&m, i % ids);
		else
			made_thread(&m, &(struct made_thread){ .id = i % ids, .tid = 1 });
	}
	made_task_end(&m, 10);
}

START_TEST(many_threads_are_merged_whatever_their_ids)
{
	static const uint64_t ids[] = { 1, 7, MANY };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		make_many(T0, 0, ids[i], false);
		rep_capture_deinit(&capture);
		made_end(&m, &capture);
		ck_assert_uint_eq(capture.thread_count, MANY);
		make_many(T0 + SEC, T0, ids[i], true);
		ck_assert_int_eq(apply_made(), GS_OK);
		ck_assert_uint_eq(capture.thread_count, ids[i]);
		make_many(T0 + SEC, T0, ids[i], false);
		ck_assert_int_eq(apply_made(), GS_OK);
		ck_assert_uint_eq(capture.thread_count, ids[i]);
		ck_assert_int_eq(rep_is_complete(&capture), ids[i] == MANY);
	}
}
END_TEST

START_TEST(many_processes_are_merged_whatever_their_ids)
{
	for (uint64_t ids = 3; ids <= MANY; ids *= 33333) {
		for (int pass = 0; pass < 2; pass++) {
			made_begin(&m, T0 + (uint64_t)pass, pass * T0);
			for (uint64_t i = 0; i < MANY; i++) {
				made_task(&m, i % ids, 1, "x");
				made_task_end(&m, i % ids);
			}
			if (pass) {
				ck_assert_int_eq(apply_made(), GS_OK);
			} else {
				rep_capture_deinit(&capture);
				made_end(&m, &capture);
			}
		}
		ck_assert_uint_eq(capture.task_count, ids);
	}
}
END_TEST

Suite *suite_delta(void)
{
	Suite *s = suite_create("delta");
	TCase *tc = tcase_create("delta");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, nothing_changed_gives_the_same_picture);
	tcase_add_test(tc, threads_that_ran_are_replaced_and_others_stay);
	tcase_add_test(tc, user_stacks_and_their_files_stay_or_are_replaced);
	tcase_add_test(tc, new_processes_and_threads_come_last);
	tcase_add_test(tc, what_is_in_no_form_is_gone);
	tcase_add_test(tc, facts_of_a_process_change_without_its_threads);
	tcase_add_test(tc, vcpus_times_and_time_are_those_of_the_delta);
	tcase_add_test(tc, deltas_in_a_row_each_since_the_base_or_since_the_one_before);
	tcase_add_test(tc, a_delta_may_be_applied_twice_and_after_a_later_base);
	tcase_add_test(tc, compressed_deltas_are_read_too);
	tcase_add_test(tc, files_are_read_in_a_row);
	tcase_add_test(tc, deltas_of_other_tools_are_refused);
	tcase_add_test(tc, deltas_cut_anywhere_are_refused_or_incomplete);
	tcase_add_test(tc, mutated_deltas_are_merged_or_refused_without_harm);
	tcase_add_test(tc, all_forms_of_a_task_and_of_a_thread);
	tcase_add_test(tc, a_task_that_is_not_named_takes_its_threads_along);
	tcase_add_test(tc, deltas_of_another_guest_or_boot_are_refused);
	tcase_add_test(tc, deltas_of_other_processes_are_refused);
	tcase_add_test(tc, deltas_of_another_time_are_refused);
	tcase_add_test(tc, base_and_delta_are_not_taken_for_each_other);
	tcase_add_test(tc, unchanged_ids_that_the_base_does_not_have_are_named);
	tcase_add_test(tc, ids_that_an_incomplete_base_does_not_have_are_missing);
	tcase_add_test(tc, what_the_base_lacks_is_lacking_as_long_as_it_is_unchanged);
	tcase_add_test(tc, a_damaged_base_stays_damaged);
	tcase_add_test(tc, of_two_with_an_id_the_first_counts);
	tcase_add_test(tc, of_two_in_the_base_the_first_counts);
	tcase_add_test(tc, many_threads_are_merged_whatever_their_ids);
	tcase_add_test(tc, many_processes_are_merged_whatever_their_ids);
	suite_add_tcase(s, tc);
	return s;
}
