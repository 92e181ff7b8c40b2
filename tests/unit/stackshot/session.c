/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up guest with a session over it. */
#include "tests/unit/stackshot/session.h"

#include <check.h>

#include "introspect/stackshot/capture.h"
#include "tests/unit/linux/prng.h"

struct linux_guest guest;
struct ss_session *session;
struct ss_result result;
struct gs_error error;
struct view view;
struct ss_options session_options;

void session_begin(void)
{
	ck_assert_int_eq(ss_session_create_with(&guest.m.guest, &session_options, &session, &error),
			 GS_OK);
}

void session_make(const struct lg_form *form)
{
	lg_create(&guest, form);
	lg_populate(&guest);
	session_begin();
}

void session_setup(void)
{
	session_make(&(struct lg_form){ .seqs = true });
}

void session_end(void)
{
	ss_result_deinit(&result);
	ss_session_destroy(session);
	session = NULL;
	lg_destroy(&guest);
}

void session_restart(void)
{
	ss_session_destroy(session);
	session = NULL;
	session_begin();
}

void session_make_crowd(uint32_t processes)
{
	uint64_t seed = 9;
	int32_t pid = 1000;

	lg_create(&guest, &(struct lg_form){ .seqs = true, .ram_size = UINT64_C(12) << 20 });
	lg_populate(&guest);
	for (uint32_t i = 0; i < processes; i++) {
		struct lg_thread *p = lg_add_light_process(&guest, pid++, &guest.threads[2]);
		uint32_t more = i % 10 == 0 ? 40 : (uint32_t)prng_below(&seed, i % 3 ? 3 : 14);

		while (more--)
			lg_add_light_thread(&guest, p, pid++, &guest.threads[2]);
	}
}

struct ss_request session_request(int32_t pid)
{
	return (struct ss_request){ .version = SS_REQUEST_VERSION,
				    .size = sizeof(struct ss_request),
				    .pid = pid };
}

enum gs_code session_capture(int32_t pid)
{
	struct ss_request request = session_request(pid);

	return session_capture_with(&request);
}

enum gs_code session_capture_only(const struct ss_request *request)
{
	ss_result_deinit(&result);
	error = (struct gs_error){ 0 };
	enum gs_code rc = ss_capture(session, request, &result, &error);
	ck_assert_int_eq(guest.m.stop_depth, 0);
	ck_assert_int_eq(ss_context_state(&session->ordinary.context), SS_INACTIVE);
	ck_assert_uint_eq(session->ordinary.context.joined, 0);
	ck_assert_int_eq(ss_context_state(&session->panic.context), SS_INACTIVE);
	if (rc) {
		ck_assert_ptr_null(result.data);
		ck_assert_int_eq(error.code, rc);
		ck_assert_int_ne(error.text[0], 0);
	}
	return rc;
}

enum gs_code session_capture_with(const struct ss_request *request)
{
	enum gs_code rc = session_capture_only(request);

	if (!rc)
		view_read(&view, &result);
	return rc;
}

void session_capture_all(void)
{
	ck_assert_msg(session_capture(SS_PID_ALL) == GS_OK, "%s", error.text);
}
