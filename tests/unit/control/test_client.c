/* SPDX-License-Identifier: Apache-2.0 */
/* The client against servers that are slow, hostile, late or something else. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/client.h"
#include "control/protocol.h"
#include "control/socket.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/served.h"
#include "tests/unit/control/suites.h"

#define GREETING "{\"guestshot\": {\"protocol\": 1}}\n"

static struct served s;

static uint64_t in_ms(uint64_t ms)
{
	return gs_clock_ns() + ms * GS_NS_PER_MS;
}

/* --- a server that says what a test gives it -----------------------------------------------------
 */

struct script {
	const char *greeting;
	const char *answer; /* NULL: none */
	int pass;	    /* descriptor to pass with the answer; -1: none */
	bool flood;	    /* then send without end */
	uint32_t rejects;   /* connections closed at once, before the one that is served */
	struct ctl_socket socket;
	pthread_t thread;
};

static void send_with(int fd, const char *text, int pass)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	struct iovec iov = { (void *)text, strlen(text) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(h), &pass, sizeof(int));
	}
	(void)sendmsg(fd, &msg, MSG_NOSIGNAL);
}

static void *play(void *arg)
{
	struct script *script = arg;
	char request[1024];
	int fd;

	for (uint32_t i = 0; i < script->rejects; i++) {
		fd = accept4(script->socket.fd, NULL, NULL, SOCK_CLOEXEC);
		close(fd);
	}
	fd = accept4(script->socket.fd, NULL, NULL, SOCK_CLOEXEC);
	send_with(fd, script->greeting, -1);
	if (script->answer && recv(fd, request, sizeof(request), 0) > 0)
		send_with(fd, script->answer, script->pass);
	static const char spaces[4096] = { [0 ... 4094] = ' ' };
	while (script->flood && send(fd, spaces, sizeof(spaces), MSG_NOSIGNAL) > 0)
		continue;
	/* until the client goes */
	while (recv(fd, request, sizeof(request), 0) > 0)
		continue;
	close(fd);
	return NULL;
}

static void script_start(struct script *script)
{
	struct gs_error err;

	ck_assert_int_eq(ctl_socket_listen(SERVED_PATH, &script->socket, &err), GS_OK);
	/* the thread waits in accept4() */
	ck_assert_int_eq(fcntl(script->socket.fd, F_SETFL, 0), 0);
	ck_assert_int_eq(pthread_create(&script->thread, NULL, play, script), 0);
}

static void script_stop(struct script *script)
{
	pthread_join(script->thread, NULL);
	ctl_socket_close(&script->socket);
}

static const struct greeting_case {
	const char *greeting;
	enum gs_code code;
	const char *names;
} greetings[] = {
	{ "220 mail ESMTP\n", GS_EMALFORMED, "not JSON" },
	{ "\n", GS_EMALFORMED, "not JSON" },
	{ "[]\n", GS_EMALFORMED, "not an object" },
	{ "{\"QMP\": {\"version\": {}}}\n", GS_EMALFORMED, "not guestshot" },
	{ "{\"guestshot\": []}\n", GS_EMALFORMED, "not guestshot" },
	{ "{\"guestshot\": {\"protocol\": \"1\"}}\n", GS_EMALFORMED, "not guestshot" },
	{ "{\"guestshot\": {\"protocol\": 2}}\n", GS_ENOTSUP, "protocol 2" },
	{ "{\"error\": {\"class\": \"busy\", \"desc\": \"full\\u001b[31m\"}}\n", GS_EBUSY,
	  "full\\x1b[31m" },
	{ "{\"error\": 5}\n", GS_EMALFORMED, "says nothing" },
	{ "[[[[[[[[[[[[[[[[[[[[\n", GS_EMALFORMED, "deeper" },
};

START_TEST(strange_greeting_is_refused)
{
	const struct greeting_case *g = &greetings[_i];
	struct script script = { .greeting = g->greeting, .pass = -1 };
	struct ctl_client *c;
	struct gs_error err;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), g->code);
	ck_assert_msg(strstr(err.text, g->names), "%s", err.text);
	script_stop(&script);
}
END_TEST

START_TEST(silent_server_is_left_in_time)
{
	struct script script = { .greeting = "", .pass = -1 };
	struct ctl_client *c;
	struct gs_error err;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(50), &c, &err), GS_ETIMEDOUT);
	script_stop(&script);
}
END_TEST

START_TEST(endless_line_is_left)
{
	struct script script = { .greeting = "", .pass = -1, .flood = true };
	struct ctl_client *c;
	struct gs_error err;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_EMALFORMED);
	ck_assert_ptr_nonnull(strstr(err.text, "longer than"));
	script_stop(&script);
}
END_TEST

static const struct answer_case {
	const char *answer;
	enum gs_code code;
	const char *names;
} answers[] = {
	{ "{\"return\": {\"a\": 1}, \"id\": 1}\n", GS_OK, "" },
	{ "{\"event\": \"x\"}\n{\"return\": {}, \"id\": 0}\n{\"return\": {}, \"id\": 1}\n", GS_OK,
	  "" },
	{ "{\"return\": 5, \"id\": 1}\n", GS_EMALFORMED, "not an object" },
	{ "rubbish\n", GS_EMALFORMED, "not JSON" },
	{ "{\"error\": {\"class\": \"not-found\", \"desc\": \"no process 9\"}, \"id\": 1}\n",
	  GS_ENOENT, "snap: no process 9" },
	{ "{\"error\": {\"class\": \"a-new-one\", \"desc\": \"why\"}, \"id\": 1}\n", GS_EINVAL,
	  "why" },
	{ "{\"error\": {\"class\": \"too-big\", \"desc\": \"line\"}}\n", GS_ETOOBIG, "line" },
	{ "{\"return\": {}, \"id\": 2}\n", GS_ETIMEDOUT, "in time" },
	{ "{\"return\": {}}\n", GS_ETIMEDOUT, "in time" },
};

START_TEST(answer_is_taken_or_refused)
{
	const struct answer_case *a = &answers[_i];
	struct script script = { .greeting = GREETING, .answer = a->answer, .pass = -1 };
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;
	int fd = 99;
	uint64_t patience_ms = a->code == GS_ETIMEDOUT ? 50 : 20000;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	ck_assert_int_eq(ctl_client_call(c, "snap", NULL, in_ms(patience_ms), &answer, &fd, &err),
			 a->code);
	ck_assert_msg(strstr(err.text, a->names), "%s", err.text);
	ck_assert_int_eq(fd, a->code ? 99 : -1);
	json_decref(answer);
	ctl_client_destroy(c);
	script_stop(&script);
}
END_TEST

/* Until the server has said something that ends the wait. */
static enum gs_code wait_for_answer(struct ctl_client *c, json_int_t id, json_t **answer_out,
				    struct gs_error *err)
{
	const uint64_t end = in_ms(20000);
	enum gs_code rc;

	do {
		struct pollfd p = { .fd = ctl_client_fd(c), .events = POLLIN };

		ck_assert_uint_lt(gs_clock_ns(), end);
		(void)poll(&p, 1, 1000);
		rc = ctl_client_answer(c, id, answer_out, NULL, err);
	} while (!rc && !*answer_out);
	return rc;
}

START_TEST(answer_that_comes_in_pieces_is_not_waited_for)
{
	struct script script = { .greeting = GREETING "{\"event\": \"x\"}\n{\"return\": ",
				 .answer = "{\"a\": 1}, \"id\": 1}\n",
				 .pass = -1 };
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;
	json_int_t id;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(ctl_client_answer(c, CTL_NO_ID, &answer, NULL, &err), GS_OK);
		ck_assert_ptr_null(answer);
	}
	ck_assert_int_eq(ctl_client_send(c, "snap", NULL, in_ms(20000), &id, &err), GS_OK);
	ck_assert_int_eq(wait_for_answer(c, id, &answer, &err), GS_OK);
	ck_assert_int_eq(json_integer_value(json_object_get(answer, "a")), 1);
	ck_assert(!ctl_client_is_lost(c));
	json_decref(answer);
	ctl_client_destroy(c);
	script_stop(&script);
}
END_TEST

static const struct loss_case {
	const char *answer;
	enum gs_code code;
	bool is_lost;
} losses[] = {
	{ "{\"error\": {\"class\": \"not-found\", \"desc\": \"no kernel\"}, \"id\": 1}\n",
	  GS_ENOENT, false },
	{ "{\"error\": {\"class\": \"timed-out\", \"desc\": \"no stop\"}, \"id\": 1}\n",
	  GS_ETIMEDOUT, false },
	{ "{\"error\": {\"class\": \"too-big\", \"desc\": \"line\"}}\n", GS_ETOOBIG, true },
	{ "{\"return\": 5, \"id\": 1}\n", GS_EMALFORMED, true },
	{ "rubbish\n", GS_EMALFORMED, true },
};

START_TEST(what_is_refused_is_told_from_a_lost_connection)
{
	const struct loss_case *l = &losses[_i];
	struct script script = { .greeting = GREETING, .answer = l->answer, .pass = -1 };
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;
	json_int_t id;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	ck_assert_int_eq(ctl_client_send(c, "snap", NULL, in_ms(20000), &id, &err), GS_OK);
	ck_assert_int_eq(wait_for_answer(c, id, &answer, &err), l->code);
	ck_assert_ptr_null(answer);
	ck_assert_int_eq(ctl_client_is_lost(c), l->is_lost);
	ctl_client_destroy(c);
	script_stop(&script);
}
END_TEST

START_TEST(server_that_goes_is_noticed_when_nothing_was_asked)
{
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;

	served_start(&s, 0);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	served_close(&s);
	ck_assert_int_eq(wait_for_answer(c, CTL_NO_ID, &answer, &err), GS_ENOENT);
	ck_assert(ctl_client_is_lost(c));
	ctl_client_destroy(c);
	served_stop(&s);
}
END_TEST

static int plain_file(void)
{
	folder_put("plain", "text");
	return open("plain", O_RDONLY | O_CLOEXEC);
}

static int unsealed(void)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(write(fd, "text", 4), 4);
	return fd;
}

static int empty(void)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
	return fd;
}

static int huge(void)
{
	int fd = memfd_create("t", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, (off_t)CTL_CAPTURE_MAX + 1), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
	return fd;
}

static int folder_itself(void)
{
	return open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int (*const strange_files[])(void) = { plain_file, unsealed, empty, huge, folder_itself };

START_TEST(strange_capture_is_refused)
{
	struct script script = { .greeting = GREETING,
				 .answer = "{\"return\": {}, \"id\": 1}\n",
				 .pass = strange_files[_i]() };
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;
	const void *data;
	size_t size;
	int fd = -1;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	ck_assert_int_eq(ctl_client_call(c, "snap", NULL, in_ms(20000), &answer, &fd, &err), GS_OK);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ne(ctl_capture_map(fd, &data, &size, &err), GS_OK);
	close(fd);
	json_decref(answer);
	ctl_client_destroy(c);
	script_stop(&script);
	close(script.pass);
}
END_TEST

START_TEST(descriptor_nobody_wants_is_closed)
{
	struct script script = { .greeting = GREETING,
				 .answer = "{\"return\": {}, \"id\": 1}\n",
				 .pass = unsealed() };
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer = NULL;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	int before = dup(0);
	close(before);
	ck_assert_int_eq(ctl_client_call(c, "stop", NULL, in_ms(20000), &answer, NULL, &err),
			 GS_OK);
	int after = dup(0);
	close(after);
	ck_assert_int_eq(before, after);
	json_decref(answer);
	ctl_client_destroy(c);
	script_stop(&script);
	close(script.pass);
}
END_TEST

START_TEST(nobody_there_is_told_at_once)
{
	struct ctl_client *c;
	struct gs_error err;
	char path[200] = { 0 };

	ck_assert_int_eq(ctl_client_connect("nobody", 0, in_ms(20000), &c, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "nobody"));
	ck_assert_int_eq(ctl_client_connect("nobody", in_ms(50), in_ms(20000), &c, &err),
			 GS_ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	ck_assert_int_eq(ctl_client_connect(path, in_ms(20000), in_ms(20000), &c, &err), GS_EINVAL);
}
END_TEST

START_TEST(server_that_goes_in_mid_handshake_is_tried_again)
{
	struct script script = { .greeting = GREETING, .pass = -1, .rejects = 3 };
	struct ctl_client *c;
	struct gs_error err;

	script_start(&script);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, in_ms(20000), in_ms(20000), &c, &err),
			 GS_OK);
	ctl_client_destroy(c);
	script_stop(&script);
}
END_TEST

static void *connect_late(void *arg)
{
	struct ctl_client *c;
	struct gs_error err = { 0 };
	json_t *answer;

	(void)arg;
	ck_assert_msg(!ctl_client_connect(SERVED_PATH, in_ms(20000), in_ms(20000), &c, &err), "%s",
		      err.text);
	ck_assert_int_eq(ctl_client_call(c, "status", NULL, in_ms(20000), &answer, NULL, &err),
			 GS_OK);
	json_decref(answer);
	ctl_client_destroy(c);
	return NULL;
}

START_TEST(server_that_comes_later_is_waited_for)
{
	pthread_t thread;

	ck_assert_int_eq(pthread_create(&thread, NULL, connect_late, NULL), 0);
	served_start(&s, 0);
	pthread_join(thread, NULL);
	served_stop(&s);
}
END_TEST

START_TEST(snap_of_client_and_server_fit)
{
	struct ctl_client *c;
	struct gs_error err;
	json_t *answer;
	const void *data;
	size_t size;
	int fd;

	served_start(&s, 0);
	ck_assert_int_eq(ctl_client_connect(SERVED_PATH, 0, in_ms(20000), &c, &err), GS_OK);
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(ctl_client_call(c, "snap", json_pack("{s:i}", "pid", 1),
						 in_ms(20000), &answer, &fd, &err),
				 GS_OK);
		ck_assert_int_eq(ctl_capture_map(fd, &data, &size, &err), GS_OK);
		ck_assert_uint_eq(size, served_capture_len);
		munmap((void *)data, size);
		close(fd);
		json_decref(answer);
	}
	ck_assert_int_eq(ctl_client_call(c, "cont", NULL, in_ms(20000), &answer, &fd, &err),
			 GS_EINVAL);
	ctl_client_destroy(c);
	served_stop(&s);
}
END_TEST

Suite *suite_client(void)
{
	Suite *suite = suite_create("control/client");
	TCase *tc = tcase_create("client");

	tcase_add_checked_fixture(tc, folder_enter, folder_leave);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, strange_greeting_is_refused, 0, ARRAY_SIZE(greetings));
	tcase_add_test(tc, silent_server_is_left_in_time);
	tcase_add_test(tc, endless_line_is_left);
	tcase_add_loop_test(tc, answer_is_taken_or_refused, 0, ARRAY_SIZE(answers));
	tcase_add_test(tc, answer_that_comes_in_pieces_is_not_waited_for);
	tcase_add_loop_test(tc, what_is_refused_is_told_from_a_lost_connection, 0,
			    ARRAY_SIZE(losses));
	tcase_add_test(tc, server_that_goes_is_noticed_when_nothing_was_asked);
	tcase_add_loop_test(tc, strange_capture_is_refused, 0, ARRAY_SIZE(strange_files));
	tcase_add_test(tc, descriptor_nobody_wants_is_closed);
	tcase_add_test(tc, nobody_there_is_told_at_once);
	tcase_add_test(tc, server_that_goes_in_mid_handshake_is_tried_again);
	tcase_add_test(tc, server_that_comes_later_is_waited_for);
	tcase_add_test(tc, snap_of_client_and_server_fit);
	suite_add_tcase(suite, tc);
	return suite;
}
