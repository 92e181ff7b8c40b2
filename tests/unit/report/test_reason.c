/* SPDX-License-Identifier: Apache-2.0 */
/* Why a capture was taken, in all views. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/delta.h"
#include "tests/unit/report/deltas.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

static void put_why(struct made *m, const struct ss_reason_record *r, uint32_t lines, int byte)
{
	struct ss_console_record console[2];

	memset(console, byte, sizeof(console));
	OK(kcd_append(&m->w, SS_RECORD_REASON, r, sizeof(*r)));
	if (lines)
		OK(kcd_append_array(&m->w, SS_RECORD_CONSOLE, lines, sizeof(console[0]), console));
}

/* The capture, with a reason, and what the text view makes of it. To be freed. */
static char *text_of(const struct ss_reason_record *r, uint32_t lines, int byte)
{
	struct made m;

	made_begin(&m, 1000, 0);
	put_why(&m, r, lines, byte);
	made_end(&m, &capture);
	sample_show_all();
	return sample_text(false);
}

START_TEST(reason_is_shown)
{
	struct ss_reason_record r = {
		.reason = SS_REASON_HUNG_TASK,
		.pid = 100,
		.tid = 102,
		.vcpu = -1,
		.for_ns = 10200000000,
		.text = "wait\x1b",
	};
	char *text = text_of(&r, 2, 'c');

	sample_has(text, "\nTaken because of: hung-task, thread 102 wait\\x1b, for 10.20 s\n");
	sample_has(text, "\nThe console's last lines before it:\n  ccc");
	free(text);
	char *json = sample_json();
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
	json_t *reason = json_object_get(json_object_get(root, "capture"), "reason");
	ck_assert_str_eq(json_string_value(json_object_get(reason, "reason")), "hung-task");
	ck_assert_int_eq(json_integer_value(json_object_get(reason, "tid")), 102);
	ck_assert(json_is_null(json_object_get(reason, "vcpu")));
	ck_assert_uint_eq(json_array_size(json_object_get(reason, "console")), 2);
	json_decref(root);
	free(json);
}
END_TEST

START_TEST(vcpu_and_line_are_shown)
{
	struct ss_reason_record r = {
		.reason = SS_REASON_PANIC, .pid = -1, .tid = -1, .vcpu = 3, .text = "Kernel panic"
	};
	char *text = text_of(&r, 0, 0);

	sample_has(text, "\nTaken because of: panic, vCPU 3: Kernel panic\n");
	ck_assert_ptr_null(strstr(text, "console"));
	free(text);
}
END_TEST

START_TEST(hostile_reason_is_shown_without_harm)
{
	struct ss_reason_record r;

	memset(&r, 0xff, sizeof(r));
	char *text = text_of(&r, 2, 0xff);
	sample_has(text, "\nTaken because of: something unknown: \\xff");
	free(text);
}
END_TEST

START_TEST(short_lines_are_damage)
{
	struct made m;

	made_begin(&m, 1000, 0);
	OK(kcd_append_array(&m.w, SS_RECORD_CONSOLE, 2, 8, "line 1\0\0line 2\0"));
	struct bytes b = made_bytes(&m);
	OK(sample_read(b.data, b.size));
	ck_assert(capture.damaged);
	free(b.data);
}
END_TEST

START_TEST(capture_without_reason_says_none)
{
	sample_load();
	char *text = sample_text(false), *json = sample_json();

	ck_assert_ptr_null(strstr(text, "Taken because"));
	sample_has(json, "\"reason\": null,\n");
	free(text);
	free(json);
}
END_TEST

START_TEST(reason_of_a_base_with_deltas_is_the_last_deltas)
{
	struct ss_reason_record r = { .reason = SS_REASON_PANIC, .pid = -1, .tid = -1, .vcpu = -1 };
	static struct rep_capture base, delta;
	struct made m;

	made_begin(&m, 1000, 0);
	put_why(&m, &r, 2, 'b');
	made_end(&m, &base);
	r.reason = SS_REASON_SCHEDULE;
	made_begin(&m, 2000, 1000);
	put_why(&m, &r, 1, 'd');
	made_end(&m, &delta);
	ck_assert_msg(rep_capture_apply(&base, &delta, &error) == GS_OK, "%s", error.text);
	ck_assert_uint_eq(base.reason.reason, SS_REASON_SCHEDULE);
	ck_assert_uint_eq(base.console_count, 1);
	ck_assert_int_eq(base.console[0].text[0], 'd');
	rep_capture_deinit(&base);
	rep_capture_deinit(&delta);
}
END_TEST

Suite *suite_reason(void)
{
	Suite *s = suite_create("reason");
	TCase *tc = tcase_create("reason");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, sample_setup, sample_teardown);
	tcase_add_test(tc, reason_is_shown);
	tcase_add_test(tc, vcpu_and_line_are_shown);
	tcase_add_test(tc, hostile_reason_is_shown_without_harm);
	tcase_add_test(tc, short_lines_are_damage);
	tcase_add_test(tc, capture_without_reason_says_none);
	tcase_add_test(tc, reason_of_a_base_with_deltas_is_the_last_deltas);
	suite_add_tcase(s, tc);
	return s;
}
