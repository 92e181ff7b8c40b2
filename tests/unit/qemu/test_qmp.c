/* SPDX-License-Identifier: Apache-2.0 */
/* The QMP client against a QEMU that answers well, late, wrongly or not at all. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "introspect/guest/qmp.h"
#include "tests/unit/qemu/fake_qemu.h"
#include "tests/unit/qemu/suites.h"

/* Long enough for any answer that comes, short enough to wait for one that does not. */
static uint64_t soon(void)
{
	return gs_clock_ns() + 5 * GS_NS_PER_SEC;
}

static uint64_t at_once(void)
{
	return gs_clock_ns() + 100 * GS_NS_PER_MS;
}

static enum gs_code status(struct guest_qmp *q, uint64_t deadline_ns, struct gs_error *err)
{
	json_t *value;
	enum gs_code rc = guest_qmp_execute(q, "query-status", NULL, deadline_ns, &value, err);

	if (!rc) {
		ck_assert(json_is_true(json_object_get(value, "running")));
		json_decref(value);
	}
	return rc;
}

/* One command, which goes well, with a QEMU of this kind. */
static void check_good(struct fake_qemu *f)
{
	struct guest_qmp q;
	struct gs_error err = { 0 };
	int fd = fake_start(f);

	ck_assert_msg(!guest_qmp_start(&q, fd, soon(), &err), "%s", err.text);
	ck_assert_msg(!status(&q, soon(), &err), "%s", err.text);
	ck_assert_msg(!status(&q, soon(), &err), "%s", err.text);
	guest_qmp_deinit(&q);
	fake_end(f);
}

START_TEST(answers_of_any_shape_are_read)
{
	static const struct fake_qemu kinds[] = {
		{ 0 },
		{ .bytewise = true },
		{ .chatty = true },
		{ .pretty = true },
		{ .bytewise = true, .chatty = true, .pretty = true },
		{ .greeting = "\r\n \t{\"QMP\":{}}" },
		{ .greeting = "{\"QMP\":{\"x\":\"}\\\\\\\"{\"}}{\"event\":\"RESUME\"}" },
	};
	struct fake_qemu f = kinds[_i];

	check_good(&f);
}
END_TEST

START_TEST(a_greeting_that_comes_late_is_waited_for)
{
	struct fake_qemu f = { .fault = FAKE_LATE, .faulty = "greeting" };
	struct guest_qmp q;
	int fd = fake_start(&f);

	fake_release(&f);
	ck_assert_int_eq(guest_qmp_start(&q, fd, soon(), NULL), GS_OK);
	guest_qmp_deinit(&q);
	fake_end(&f);
}
END_TEST

START_TEST(what_greets_in_another_way_is_refused)
{
	static const struct {
		struct fake_qemu f;
		enum gs_code code;
	} cases[] = {
		{ { .greeting = "SSH-2.0-OpenSSH_9.2\r\n" }, GS_EMALFORMED },
		{ { .greeting = "QEMU 7.2.22 monitor - type 'help'\r\n(qemu) " }, GS_EMALFORMED },
		{ { .greeting = "{\"guestshot\": {}}\n" }, GS_EMALFORMED },
		{ { .greeting = "{\"QMP\": {,}}\n" }, GS_EMALFORMED },
		{ { .greeting = "{\"QMP\": {}, \"QMP\": {}}\n" }, GS_EMALFORMED },
		{ { .greeting = "[]\n" }, GS_EMALFORMED },
		{ { .fault = FAKE_SILENT, .faulty = "greeting" }, GS_ETIMEDOUT },
		{ { .fault = FAKE_CLOSE, .faulty = "greeting" }, GS_ESYS },
		{ { .fault = FAKE_DEEP, .faulty = "greeting" }, GS_EMALFORMED },
		{ { .fault = FAKE_ENDLESS, .faulty = "greeting" }, GS_ETOOBIG },
		{ { .fault = FAKE_SILENT, .faulty = "qmp_capabilities" }, GS_ETIMEDOUT },
		{ { .fault = FAKE_ERROR, .faulty = "qmp_capabilities" }, GS_EBUSY },
	};
	struct fake_qemu f = cases[_i].f;
	struct guest_qmp q;
	struct gs_error err = { 0 };
	int fd = fake_start(&f);
	uint64_t deadline = cases[_i].code == GS_ETIMEDOUT ? at_once() : soon();

	ck_assert_int_eq(guest_qmp_start(&q, fd, deadline, &err), cases[_i].code);
	ck_assert_str_ne(err.text, "");
	guest_qmp_deinit(&q);
	fake_end(&f);
}
END_TEST

START_TEST(an_answer_that_is_none_ends_in_an_error)
{
	static const struct {
		enum fake_fault fault;
		enum gs_code code;
		bool usable; /* after it */
	} cases[] = {
		{ FAKE_SILENT, GS_ETIMEDOUT, true },  { FAKE_ERROR, GS_EBUSY, true },
		{ FAKE_UNKNOWN, GS_ENOTSUP, true },   { FAKE_RUBBISH, GS_EMALFORMED, false },
		{ FAKE_HALF, GS_ESYS, false },	      { FAKE_CLOSE, GS_ESYS, false },
		{ FAKE_EVENTS, GS_ETIMEDOUT, false }, { FAKE_ENDLESS, GS_ETOOBIG, false },
		{ FAKE_DEEP, GS_EMALFORMED, false },  { FAKE_NO_RETURN, GS_EBUSY, true },
	};
	struct fake_qemu f = { .fault = cases[_i].fault, .faulty = "stop" };
	struct guest_qmp q;
	struct gs_error err = { 0 };
	int fd = fake_start(&f);

	ck_assert_int_eq(guest_qmp_start(&q, fd, soon(), NULL), GS_OK);
	uint64_t deadline = cases[_i].code == GS_ETIMEDOUT ? at_once() : soon();
	ck_assert_int_eq(guest_qmp_execute(&q, "stop", NULL, deadline, NULL, &err), cases[_i].code);
	ck_assert_msg(strstr(err.text, "stop"), "%s", err.text);
	if (cases[_i].usable)
		ck_assert_int_eq(status(&q, soon(), NULL), GS_OK);
	else
		ck_assert_int_ne(status(&q, at_once(), NULL), GS_OK);
	guest_qmp_deinit(&q);
	fake_end(&f);
}
END_TEST

START_TEST(an_answer_that_was_given_up_is_not_taken_for_the_next)
{
	struct fake_qemu f = { .fault = FAKE_LATE, .faulty = "query-cpus-fast" };
	struct guest_qmp q;
	int fd = fake_start(&f);

	ck_assert_int_eq(guest_qmp_start(&q, fd, soon(), NULL), GS_OK);
	ck_assert_int_eq(guest_qmp_execute(&q, "query-cpus-fast", NULL, at_once(), NULL, NULL),
			 GS_ETIMEDOUT);
	fake_release(&f);
	ck_assert_int_eq(status(&q, soon(), NULL), GS_OK);
	guest_qmp_deinit(&q);
	fake_end(&f);
}
END_TEST

START_TEST(a_qemu_that_takes_no_bytes_does_not_hang_us)
{
	struct fake_qemu f = { .fault = FAKE_LATE, .faulty = "pmemsave" };
	struct guest_qmp q;
	int fd = fake_start(&f);
	enum gs_code rc = GS_OK;

	ck_assert_int_eq(guest_qmp_start(&q, fd, soon(), NULL), GS_OK);
	ck_assert_int_eq(guest_qmp_execute(&q, "pmemsave", NULL, at_once(), NULL, NULL),
			 GS_ETIMEDOUT);
	/* nobody reads: until the socket's buffer is full */
	for (int i = 0; i < 100000 && !q.broken; i++)
		rc = guest_qmp_execute(&q, "query-status", NULL, gs_clock_ns() + 1000, NULL, NULL);
	ck_assert(q.broken);
	ck_assert_int_eq(rc, GS_ETIMEDOUT);
	guest_qmp_deinit(&q);
	fake_end(&f);
}
END_TEST

START_TEST(connecting_to_nothing_is_told)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	char path[200];
	struct gs_error err = { 0 };
	int fd, listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(path, sizeof(path), "/tmp/guestshot-unit-%d", (int)getpid());
	ck_assert_int_eq(guest_qmp_connect(path, soon(), &fd, &err), GS_ENOENT);
	ck_assert_int_eq(guest_qmp_connect("", soon(), &fd, &err), GS_EINVAL);
	strcpy(addr.sun_path, path);
	ck_assert_int_eq(bind(listener, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	ck_assert_int_eq(guest_qmp_connect(path, soon(), &fd, &err), GS_ENOENT);
	/* one waits already: QEMU's queue is one long */
	ck_assert_int_eq(listen(listener, 0), 0);
	int first;
	ck_assert_int_eq(guest_qmp_connect(path, soon(), &first, &err), GS_OK);
	ck_assert_int_eq(guest_qmp_connect(path, at_once(), &fd, &err), GS_ETIMEDOUT);
	close(first);
	close(listener);
	unlink(path);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	ck_assert_int_eq(guest_qmp_connect(path, soon(), &fd, &err), GS_EINVAL);
}
END_TEST

Suite *suite_qmp(void)
{
	Suite *s = suite_create("qmp");
	TCase *tc = tcase_create("client");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, answers_of_any_shape_are_read, 0, 7);
	tcase_add_test(tc, a_greeting_that_comes_late_is_waited_for);
	tcase_add_loop_test(tc, what_greets_in_another_way_is_refused, 0, 12);
	tcase_add_loop_test(tc, an_answer_that_is_none_ends_in_an_error, 0, 10);
	tcase_add_test(tc, an_answer_that_was_given_up_is_not_taken_for_the_next);
	tcase_add_test(tc, a_qemu_that_takes_no_bytes_does_not_hang_us);
	tcase_add_test(tc, connecting_to_nothing_is_told);
	suite_add_tcase(s, tc);
	return s;
}
