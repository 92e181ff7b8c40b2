/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of frames, in every view: "function+0x14/0x100 [module]" as the guest's own traces have it. */
#include <stdlib.h>
#include <string.h>

#include "cli/report/delta.h"
#include "cli/report/diff.h"
#include "tests/unit/report/deltas.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define BASE UINT64_C(0x7000)

static struct made m;
static char *text;

static void setup(void)
{
	sample_setup();

	struct lg_loaded one = lg_load_module(&guest, "one", LG_MODULE);
	lg_module_symbol(&one, "one_read", LG_MODULE + 0x100);
	lg_module_symbol(&one, "one_end", LG_MODULE + 0x200);
	lg_stack_reset(&guest, &guest.threads[4]);
	lg_push(&guest, &guest.threads[4], lg_in(&guest, "vfs_read"));
	lg_push(&guest, &guest.threads[4], LG_MODULE + 0x40); // below its first symbol
	lg_push(&guest, &guest.threads[4], LG_MODULE + 0x120);
	guest.threads[4].task->fp = guest.threads[4].fp;
	sample_take();
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static void has(const char *line)
{
	sample_has(text, line);
}

START_TEST(text_names_the_module_behind_the_function)
{
	sample_load();
	sample_show_all();
	for (int group = 0; group < 2; group++) {
		free(text);
		text = sample_text(group);
		has("    one_read+0x20/0x100 [one]\n");
		has("    0xffff800001000040 [one]\n");
		has("    vfs_read+0x14/0x200\n");
	}
}
END_TEST

START_TEST(document_names_the_module)
{
	sample_load();
	text = sample_json_compact();
	has("\"symbol\":\"one_read\",\"offset\":32,\"size\":256,\"module\":\"one\"");
	has("\"address\":\"0xffff800001000040\",\"symbol\":null,\"module\":\"one\"");
	has("\"symbol\":\"vfs_read\",\"offset\":20,\"size\":512,\"module\":null");
}
END_TEST

/* The module's record in the stream: its name stands there once. */
static char *name_in_sample(void)
{
	static const char name[SS_MODULE_NAME] = "one";
	char *at = memmem(sample, sample_size, name, sizeof(name));

	ck_assert_ptr_nonnull(at);
	return at;
}

START_TEST(names_of_modules_are_escaped)
{
	memcpy(name_in_sample(), "\x1b[2J\xff", 5);
	sample_load();
	sample_show_all();
	text = sample_text(false);
	has("one_read+0x20/0x100 [\\x1b[2J\\xff]\n");
}
END_TEST

START_TEST(names_without_an_end_are_cut_at_their_field)
{
	memset(name_in_sample(), 'x', SS_MODULE_NAME);
	sample_load();
	sample_show_all();
	text = sample_text(false);
	ck_assert_uint_eq(strspn(strstr(text, "[xx") + 1, "x"), SS_MODULE_NAME - 1);
}
END_TEST

START_TEST(numbers_of_any_size_are_survived)
{
	static const uint64_t extremes[] = { 0, 1, LG_MODULE, UINT64_MAX };
	uint8_t *start = (uint8_t *)name_in_sample() - offsetof(struct ss_module_record, name);

	for (size_t i = 0; i < ARRAY_SIZE(extremes); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(extremes); k++) {
			memcpy(start, &extremes[i], 8);
			memcpy(start + 8, &extremes[k], 8);
			sample_load();
			sample_show_all();
		}
	}
}
END_TEST

/* --- by hand ---------------------------------------------------------------------------------- */

static void made_module(uint64_t start, const char *name)
{
	struct ss_module_record r = { .start = start, .size = 0x100 };

	strcpy(r.name, name);
	OK(kcd_append_array(&m.w, SS_RECORD_MODULE, 1, sizeof(r), &r));
}

/* A process with a thread of two frames: in a module, and in another one. */
static void make(uint64_t start_ns, uint64_t since_ns, uint64_t id, uint64_t frame,
		 struct rep_capture *out)
{
	made_begin(&m, start_ns, since_ns);
	made_task(&m, id, (int32_t)id, "main");
	made_thread(&m, &(struct made_thread){ .id = id,
					       .tid = (int32_t)id,
					       .comm = "main",
					       .switches = start_ns,
					       .frame = { frame } });
	made_task_end(&m, id);
	if (since_ns)
		made_still(&m, 10);
	made_symbol(&m, frame & ~UINT64_C(0xff), "work", false);
	made_module(frame & ~UINT64_C(0xff), since_ns ? "newer" : "older");
	rep_capture_deinit(out);
	made_end(&m, out);
}

START_TEST(base_and_delta_have_the_modules_of_both)
{
	struct rep_capture delta = { 0 };

	make(1000, 0, 10, BASE + 0x10, &capture);
	make(2000, 1000, 20, BASE + 0x1010, &delta);
	ck_assert_msg(!rep_capture_apply(&capture, &delta, &error), "%s", error.text);
	ck_assert_uint_eq(capture.module_count, 2);
	ck_assert_str_eq(capture.frames[sample_thread(10)->first_frame].module, "older");
	ck_assert_str_eq(capture.frames[sample_thread(20)->first_frame].module, "newer");
	rep_capture_deinit(&delta);
	// one that is in both is there once
	make(3000, 2000, 30, BASE + 0x1020, &delta);
	ck_assert_msg(!rep_capture_apply(&capture, &delta, &error), "%s", error.text);
	ck_assert_uint_eq(capture.module_count, 2);
	sample_show_all();
	rep_capture_deinit(&delta);
}
END_TEST

START_TEST(difference_names_the_module)
{
	struct rep_capture after = { 0 };
	struct rep_diff diff = { 0 };
	size_t size = 0;

	make(1000, 0, 10, BASE + 0x10, &capture);
	make(2000, 0, 10, BASE + 0x20, &after);
	ck_assert_msg(!rep_diff_init(&capture, &after, &diff, &error), "%s", error.text);
	FILE *f = open_memstream(&text, &size);
	ck_assert(rep_diff_text(&diff, true, f));
	ck_assert_int_eq(fclose(f), 0);
	has("S (sleeping) in work [older] -> S (sleeping) in work [older]");
	rep_diff_deinit(&diff);
	rep_capture_deinit(&after);
}
END_TEST

Suite *suite_modules(void)
{
	Suite *s = suite_create("modules");
	TCase *tc = tcase_create("modules");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_names_the_module_behind_the_function);
	tcase_add_test(tc, document_names_the_module);
	tcase_add_test(tc, names_of_modules_are_escaped);
	tcase_add_test(tc, names_without_an_end_are_cut_at_their_field);
	tcase_add_test(tc, numbers_of_any_size_are_survived);
	tcase_add_test(tc, base_and_delta_have_the_modules_of_both);
	tcase_add_test(tc, difference_names_the_module);
	suite_add_tcase(s, tc);
	return s;
}
