/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that are uncertain, in every view. */
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/records.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

static char *text;

/* Thread 102 waits in a function that was called by none: no call is in front of the address. */
static void setup(void)
{
	sample_setup();
	struct lg_thread *t = &guest.threads[4];

	lg_stack_reset(&guest, t);
	lg_push(&guest, t, lg_in(&guest, "el0_svc"));
	lg_push(&guest, t, lg_symbol(&guest, "vfs_read") + 0x18);
	t->task->fp = t->fp;
	sample_take();
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static void has(const char *part)
{
	sample_has(text, part);
}

START_TEST(text_has_a_mark_and_the_reason)
{
	sample_load();
	sample_show_all();
	for (int group = 0; group < 2; group++) {
		free(text);
		text = sample_text(group);
		has("    vfs_read+0x18/0x200  ? no call is in front of it\n");
		has("    el0_svc+0x14/0x200\n");
	}
}
END_TEST

START_TEST(document_says_why)
{
	sample_load();
	text = sample_json_compact();
	has("\"symbol\":\"vfs_read\",\"offset\":24,\"size\":512,\"module\":null,\"kind\":"
	    "\"return\","
	    "\"uncertain\":\"no call is in front of it\"}");
	has("\"symbol\":\"el0_svc\",\"offset\":20,\"size\":512,\"module\":null,\"kind\":"
	    "\"return\"}");
}
END_TEST

START_TEST(no_other_frame_lacks_its_call)
{
	sample_load();
	uint32_t marked = 0;

	for (size_t i = 0; i < capture.frame_count; i++)
		marked += capture.frames[i].doubt == LNX_DOUBT_NO_CALL;
	const struct rep_thread *t = sample_thread(102);
	ck_assert_uint_eq(capture.frames[t->first_frame + 1].doubt, LNX_DOUBT_NO_CALL);
	ck_assert_uint_eq(marked, 1);
}
END_TEST

// Before there was this field elements had eight bytes.
START_TEST(records_of_older_captures_say_nothing_of_it)
{
	static uint8_t buf[4096];
	const struct ss_thread_record thread = { .tid = 7 };
	const uint32_t kinds[] = { 0, LNX_FRAME_PC, 1, LNX_FRAME_LR };
	const uint64_t frames[] = { 16, 32, 48 };
	struct kcd_writer w;

	ck_assert(!kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0) &&
		  !kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1) &&
		  !kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, 2) &&
		  !kcd_append(&w, SS_RECORD_THREAD, &thread, sizeof(thread)) &&
		  !kcd_append_array(&w, KCD_SS_KERN_STACKLR64, 3, 8, frames) &&
		  !kcd_append_array(&w, SS_RECORD_FRAME_KIND, 2, 8, kinds) &&
		  !kcd_container_end(&w, 2) && !kcd_container_end(&w, 1));
	ck_assert_msg(!sample_read(buf, kcd_writer_used(&w)), "%s", error.text);
	ck_assert_uint_eq(capture.frame_count, 3);
	ck_assert_uint_eq(capture.frames[1].kind, LNX_FRAME_LR);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(capture.frames[i].doubt, LNX_CERTAIN);
}
END_TEST

START_TEST(every_doubt_has_a_name)
{
	ck_assert_str_eq(rep_doubt_name(LNX_DOUBT_NO_CALL), "no call is in front of it");
	ck_assert_str_eq(rep_doubt_name(LNX_DOUBTS), "unknown");
	ck_assert_str_eq(rep_doubt_name(UINT32_MAX), "unknown");
}
END_TEST

Suite *suite_doubt(void)
{
	Suite *s = suite_create("doubt");
	TCase *tc = tcase_create("doubt");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_has_a_mark_and_the_reason);
	tcase_add_test(tc, document_says_why);
	tcase_add_test(tc, no_other_frame_lacks_its_call);
	tcase_add_test(tc, records_of_older_captures_say_nothing_of_it);
	tcase_add_test(tc, every_doubt_has_a_name);
	suite_add_tcase(s, tc);
	return s;
}
