/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's state in every capture, its log when asked for. */
#include <string.h>

#include "base/clock.h"
#include "introspect/linux/system.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

static struct ss_request request;

static void set(uint64_t offset, uint64_t value)
{
	memcpy(lg_image(&guest, offset), &value, sizeof(value));
}

static void setup(void)
{
	lg_create(&guest, &(struct lg_form){ 0 });
	lg_log_create(&guest);
	lg_populate(&guest);
	session_begin();
	request = session_request(SS_PID_ALL);
	request.flags = SS_KERNEL_LOG;
	lg_log_add(&guest, 1000, 6, "first");
	lg_log_add(&guest, 2000, 3, "second");
}

static void capture(void)
{
	ck_assert_msg(!session_capture_with(&request), "%s", error.text);
}

static void expect_honoured(bool is)
{
	ck_assert_int_eq((view.out_flags & SS_KERNEL_LOG) != 0, is);
}

static void panic(void)
{
	set(LG_PANIC_CPU, 1);
	lg_log_add(&guest, 3000, 0, "Kernel panic - not syncing: it was too much");
}

START_TEST(state_is_in_every_capture)
{
	set(LG_TAINT, 1 << 12);
	set(LG_LOAD, 100);
	set(LG_TOTAL_PAGES, 5000);
	panic();
	session_capture_all();
	ck_assert(result.complete && view.has_system);
	ck_assert_uint_eq(view.system.known & LNX_SYSTEM_TAINT, LNX_SYSTEM_TAINT);
	ck_assert_uint_eq(view.system.taint, 1 << 12);
	ck_assert_uint_eq(view.system.load[0], 100);
	ck_assert_uint_eq(view.system.total_pages, 5000);
	ck_assert_int_eq(view.system.panic_cpu, 1);
	ck_assert_str_eq(view.system.panic, "it was too much");
	ck_assert_uint_eq(view.lines, 0);
	expect_honoured(false);
}
END_TEST

START_TEST(log_is_told_oldest_first_when_asked_for)
{
	capture();
	ck_assert(result.complete);
	expect_honoured(true);
	ck_assert_uint_eq(view.lines, 2);
	ck_assert_uint_eq(view.log[0].seq, 0);
	ck_assert_uint_eq(view.log[0].time_ns, 1000);
	ck_assert_uint_eq(view.log[0].level_flags & 7, 6);
	ck_assert_str_eq(view.log[0].text, "first");
	ck_assert_uint_eq(view.log[1].seq, 1);
	ck_assert_uint_eq(view.log[1].facility, 3);
	ck_assert_uint_eq(view.log[1].level_flags, 3 | 2 << 3);
	ck_assert_uint_eq(view.log[1].caller, 77);
	ck_assert_str_eq(view.log[1].text, "second");
	ck_assert_uint_ne(view.tasks, 0);
}
END_TEST

START_TEST(long_message_is_told_in_parts)
{
	char text[2 * (SS_LOG_TEXT - 1) + 2];

	memset(text, 'a', SS_LOG_TEXT - 1);
	memset(text + SS_LOG_TEXT - 1, 'b', SS_LOG_TEXT - 1);
	strcpy(text + 2 * (SS_LOG_TEXT - 1), "c");
	lg_log_add(&guest, 3000, 6, text);
	capture();
	ck_assert_uint_eq(view.lines, 5);
	for (uint16_t i = 0; i < 3; i++) {
		const struct ss_log_record *l = &view.log[2 + i];

		ck_assert_uint_eq(l->seq, 2);
		ck_assert_uint_eq(l->part, i);
		ck_assert_uint_eq(strlen(l->text), i < 2 ? SS_LOG_TEXT - 1 : 1);
		ck_assert_int_eq(l->text[0], "abc"[i]);
	}
}
END_TEST

START_TEST(log_alone_has_no_processes)
{
	request.flags |= SS_NO_PROCESSES;
	capture();
	ck_assert(result.complete);
	ck_assert_uint_eq(result.tasks, 0);
	ck_assert_uint_eq(view.tasks, 0);
	ck_assert_uint_eq(view.lines, 2);
	ck_assert_uint_ne(view.vcpus, 0);
	// the next capture of everything is as ever
	session_capture_all();
	ck_assert(result.complete);
	ck_assert_uint_ne(view.tasks, 0);
}
END_TEST

START_TEST(panic_capture_has_the_log)
{
	session_capture_all();
	panic();
	request.flags |= KCD_SS_FROM_PANIC;
	capture();
	expect_honoured(true);
	ck_assert_uint_eq(view.lines, 3);
	ck_assert_int_eq(view.system.panic_cpu, 1);
}
END_TEST

/* A log that is not there is said to be missing, for this reason. */
static void expect_missing(const char *reason)
{
	capture();
	ck_assert(!result.complete);
	expect_honoured(false);
	ck_assert_uint_eq(view.lines, 0);
	ck_assert_uint_eq(view_count_missing(&view, SS_MISSING_LOG), 1);
	const struct ss_missing_record *m = view_missing(&view, SS_MISSING_LOG, 0);
	ck_assert_msg(strstr(m->reason, reason), "%s", m->reason);
	ck_assert_uint_ne(view.tasks, 0);
}

START_TEST(log_that_cannot_be_read_is_missing)
{
	session_capture_all();
	guest.log.ring->count_bits = 0;
	expect_missing("malformed");
	guest.log.ring->count_bits = LG_LOG_COUNT;
	lg_unmap(&guest, guest.log.ring->descs);
	expect_missing("no message");
}
END_TEST

START_TEST(kernel_without_the_types_has_no_log)
{
	const struct typeinfo_form types = { .omit = "prb_desc.state_var" };

	session_end();
	session_make(&(struct lg_form){ .types = &types });
	expect_missing("not-found");
}
END_TEST

START_TEST(text_that_is_not_mapped_is_left_out)
{
	session_capture_all();
	lg_unmap(&guest, guest.log.ring->data);
	expect_missing("no message");
}
END_TEST

START_TEST(deadline_before_the_log_is_noted)
{
	session_capture_all();
	request.deadline_ns = 1;
	capture();
	ck_assert(!result.complete);
	expect_honoured(false);
	ck_assert_uint_eq(view.lines, 0);
	ck_assert(!view.has_system);
}
END_TEST

START_TEST(requests_that_make_no_sense_are_refused)
{
	request.flags |= SS_NO_PROCESSES;
	request.pid = 100;
	ck_assert_int_eq(session_capture_with(&request), GS_EINVAL);
	request.pid = SS_PID_ALL;
	request.flags |= KCD_SS_COLLECT_DELTA_SNAPSHOT;
	request.since_ns = gs_clock_ns();
	ck_assert_int_eq(session_capture_with(&request), GS_EINVAL);
	request = session_request(SS_PID_ALL);
	request.flags = SS_NO_PROCESSES | KCD_SS_REQ_PAGE_TABLES;
	ck_assert_int_eq(session_capture_with(&request), GS_EINVAL);
}
END_TEST

Suite *suite_system(void)
{
	Suite *s = suite_create("system");
	TCase *tc = tcase_create("system");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, session_end);
	tcase_add_test(tc, state_is_in_every_capture);
	tcase_add_test(tc, log_is_told_oldest_first_when_asked_for);
	tcase_add_test(tc, long_message_is_told_in_parts);
	tcase_add_test(tc, log_alone_has_no_processes);
	tcase_add_test(tc, panic_capture_has_the_log);
	tcase_add_test(tc, log_that_cannot_be_read_is_missing);
	tcase_add_test(tc, kernel_without_the_types_has_no_log);
	tcase_add_test(tc, text_that_is_not_mapped_is_left_out);
	tcase_add_test(tc, deadline_before_the_log_is_noted);
	tcase_add_test(tc, requests_that_make_no_sense_are_refused);
	suite_add_tcase(s, tc);
	return s;
}
