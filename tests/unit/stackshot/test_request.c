/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may say. */
#include <string.h>

#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"

static const uint64_t most = UINT64_C(8) << 20; /* hint for a guest of so little memory */

#define SIZE sizeof(struct ss_request)

static const struct {
	struct ss_request q;
	enum gs_code code;
	const char *text;
} requests[] = {
	{ { 1, SIZE, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 1, SIZE, 0, 100, 0, 0, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 1, SIZE, 0, SS_PID_ALL, 0, UINT64_C(8) << 20, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 1, SIZE, 0, SS_PID_ALL, 0, 1, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 0, SIZE, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "version 0" },
	{ { 2, SIZE, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "version 2" },
	{ { UINT32_MAX, SIZE, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL },
	  GS_EINVAL,
	  "version 4294967295" },
	{ { 1, 0, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "0 bytes instead of 64" },
	{ { 1, 55, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "55 bytes" },
	{ { 1, 72, 0, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "72 bytes" },
	{ { 1, SIZE, 1, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_ENOTSUP, "GET_DQ" },
	{ { 1, SIZE, KCD_SS_GET_GLOBAL_MEM_STATS | KCD_SS_SAVE_KEXT_LOADINFO | KCD_SS_REQ_ASID,
	    SS_PID_ALL, 0, 0, 0, 0, 0, NULL },
	  GS_OK,
	  NULL },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, 100, 0, 0, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, 100, 0, 0, 0, 0, UINT64_MAX, NULL }, GS_OK, NULL },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, 100, 0, 0, 0, 0, SS_PAGETABLE_LEVEL(-1), NULL },
	  GS_OK,
	  NULL },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, 100, 0, 0, 0, 0, 0x7ffffff0, NULL },
	  GS_EINVAL,
	  "page table mask 0x7ffffff0 has none of the levels' bits 0x8000000f" },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, 100, 0, 0, 0, 0, UINT64_C(1) << 32, NULL },
	  GS_EINVAL,
	  "page table mask" },
	{ { 1, SIZE, KCD_SS_REQ_PAGE_TABLES, SS_PID_ALL, 0, 0, 0, 0, 0, NULL },
	  GS_EINVAL,
	  "page tables are captured of one process" },
	{ { 1, SIZE, 0, 100, 0, 0, 0, 0, 1, NULL },
	  GS_EINVAL,
	  "a page table mask, but no page tables" },
	{ { 1, SIZE, UINT64_C(1) << 63, SS_PID_ALL, 0, 0, 0, 0, 0, NULL },
	  GS_EINVAL,
	  "flags 0x8000000000000000" },
	{ { 1, SIZE, KCD_SS_REQ_THREAD_WAITINFO, SS_PID_ALL, 0, 0, 0, 0, 0, NULL }, GS_OK, NULL },
	{ { 1, SIZE, KCD_SS_REQ_THREAD_WAITINFO | KCD_SS_COLLECT_DELTA_SNAPSHOT, SS_PID_ALL, 0, 0,
	    1, 0, 0, NULL },
	  GS_EINVAL,
	  "a delta capture of what threads wait for" },
	{ { 1, SIZE, 0, 0, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "pid 0" },
	{ { 1, SIZE, 0, -2, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "pid -2" },
	{ { 1, SIZE, 0, INT32_MIN, 0, 0, 0, 0, 0, NULL }, GS_EINVAL, "pid -2147483648" },
	{ { 1, SIZE, 0, 101, 0, 0, 0, 0, 0, NULL },
	  GS_ENOENT,
	  "no process has pid 101" }, /* a thread */
	{ { 1, SIZE, 0, 4711, 0, 0, 0, 0, 0, NULL }, GS_ENOENT, "no process has pid 4711" },
	{ { 1, SIZE, 0, INT32_MAX, 0, 0, 0, 0, 0, NULL }, GS_ENOENT, "pid 2147483647" },
	{ { 1, SIZE, 0, SS_PID_ALL, 0, (UINT64_C(8) << 20) + 1, 0, 0, 0, NULL },
	  GS_EINVAL,
	  "size hint" },
	{ { 1, SIZE, 0, SS_PID_ALL, 0, UINT64_MAX, 0, 0, 0, NULL }, GS_EINVAL, "size hint" },
};

START_TEST(requests_are_checked)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		struct ss_request q = requests[i].q;
		uint32_t stops = guest.stops;

		error = (struct gs_error){ 0 };
		ss_result_deinit(&result);
		enum gs_code rc = ss_capture(session, &q, &result, &error);
		ck_assert_msg(rc == requests[i].code, "request %zu: %s", i, error.text);
		ck_assert_int_eq(guest.m.stop_depth, 0);
		ck_assert(!rc || !result.data);
		if (requests[i].text)
			ck_assert_msg(strstr(error.text, requests[i].text), "%zu: %s", i,
				      error.text);
		// a wrong request does not stop the guest
		if (rc == GS_EINVAL)
			ck_assert_uint_eq(guest.stops, stops);
		ck_assert_mem_eq(&q, &requests[i].q, sizeof(q));
	}
}
END_TEST

static const struct {
	const char *name;
	uint64_t flag;
} names[] = {
	{ "GET_DQ", 1 },
	{ "SAVE_IN_KERNEL_BUFFER", 0x4000 },
	{ "RETRIEVE_EXISTING_BUFFER", 0x8000 },
	{ "COLLECT_DELTA_SNAPSHOT", 0x40000 },
	{ "TRYLOCK", 0x100000 },
	{ "PAGE_TABLES", 0x20000000 },
	{ "SKIP_EXCLAVES", UINT64_C(1) << 34 },
	{ "LATENCY_INFO", UINT64_C(1) << 48 },
	{ "USER_STACKS", UINT64_C(1) << 49 },
	{ "CONTEXT", UINT64_C(1) << 50 },
	{ "KERNEL_LOG", UINT64_C(1) << 51 },
	{ "NO_PROCESSES", UINT64_C(1) << 52 },
};

START_TEST(flags_have_names)
{
	uint32_t known = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ck_assert_uint_eq(ss_request_flag(names[i].name), names[i].flag);
		ck_assert_str_eq(ss_request_flag_name(names[i].flag), names[i].name);
	}
	for (uint32_t bit = 0; bit < 64; bit++) {
		const char *name = ss_request_flag_name(UINT64_C(1) << bit);

		if (!name)
			continue;
		ck_assert_uint_eq(ss_request_flag(name), UINT64_C(1) << bit);
		known++;
	}
	ck_assert_uint_ge(known, 30);
	ck_assert_uint_eq(ss_request_flag(""), 0);
	ck_assert_uint_eq(ss_request_flag("get_dq"), 0);
	ck_assert_uint_eq(ss_request_flag("GET_DQ "), 0);
	ck_assert_ptr_null(ss_request_flag_name(0));
	ck_assert_ptr_null(ss_request_flag_name(0x10)); // reserved
	ck_assert_ptr_null(ss_request_flag_name(3));
}
END_TEST

START_TEST(request_without_room_for_an_error_is_fine)
{
	struct ss_request q = session_request(0);

	ck_assert_int_eq(ss_capture(session, &q, &result, NULL), GS_EINVAL);
	q.pid = 4711;
	ck_assert_int_eq(ss_capture(session, &q, &result, NULL), GS_ENOENT);
	q.pid = SS_PID_ALL;
	ck_assert_int_eq(ss_capture(session, &q, &result, NULL), GS_OK);
}
END_TEST

START_TEST(size_hint_is_the_buffer_of_the_first_try)
{
	struct ss_request q = session_request(SS_PID_ALL);

	q.size_hint = most;
	ck_assert_int_eq(ss_capture(session, &q, &result, &error), GS_OK);
	ck_assert_uint_eq(result.tries, 1);
	view_read(&view, &result);
	ck_assert_uint_lt(result.size, 100000); // the result has what it needs only
}
END_TEST

START_TEST(results_and_sessions_may_be_given_back_twice_and_empty)
{
	session_capture_all();
	ss_result_deinit(&result);
	ck_assert_ptr_null(result.data);
	ck_assert_uint_eq(result.size, 0);
	ss_result_deinit(&result);
	ss_session_destroy(NULL);
}
END_TEST

START_TEST(reason_is_recorded)
{
	static struct ss_cause cause = {
		.reason = { .reason = SS_REASON_HUNG_TASK,
			    .pid = 100,
			    .tid = 102,
			    .vcpu = -1,
			    .for_ns = 10,
			    .text = "waiter" },
		.console_lines = SS_CONSOLE_LINES,
	};
	struct ss_request r = session_request(SS_PID_ALL);

	session_capture_all();
	ck_assert_uint_eq(view.cause.reason.reason, 0);
	for (size_t i = 0; i < SS_CONSOLE_LINES; i++)
		memset(cause.console[i].text, 'a' + (int)i % 26, sizeof(cause.console[i].text));
	r.cause = &cause;
	ck_assert_int_eq(session_capture_with(&r), GS_OK);
	ck_assert_int_eq(memcmp(&view.cause, &cause, sizeof(cause)), 0);
	r.pid = 100;
	r.flags = KCD_SS_FROM_PANIC;
	ck_assert_int_eq(session_capture_with(&r), GS_OK);
	ck_assert_int_eq(memcmp(&view.cause, &cause, sizeof(cause)), 0);
	cause.console_lines++;
	ck_assert_int_eq(session_capture_with(&r), GS_EINVAL);
}
END_TEST

START_TEST(reasons_have_names)
{
	for (uint32_t i = SS_REASON_SCHEDULE; i <= SS_REASON_SIGNAL; i++)
		ck_assert_ptr_nonnull(ss_reason_name(i));
	ck_assert_str_eq(ss_reason_name(SS_REASON_SOFT_LOCKUP), "soft-lockup");
	ck_assert_ptr_null(ss_reason_name(0));
	ck_assert_ptr_null(ss_reason_name(SS_REASON_SIGNAL + 1));
}
END_TEST

Suite *suite_request(void)
{
	Suite *s = suite_create("request");
	TCase *tc = tcase_create("request");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, session_setup, session_end);
	tcase_add_test(tc, requests_are_checked);
	tcase_add_test(tc, flags_have_names);
	tcase_add_test(tc, request_without_room_for_an_error_is_fine);
	tcase_add_test(tc, size_hint_is_the_buffer_of_the_first_try);
	tcase_add_test(tc, reason_is_recorded);
	tcase_add_test(tc, reasons_have_names);
	tcase_add_test(tc, results_and_sessions_may_be_given_back_twice_and_empty);
	suite_add_tcase(s, tc);
	return s;
}
