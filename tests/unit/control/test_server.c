/* SPDX-License-Identifier: Apache-2.0 */
/* What the server does with clients that behave, and with those that do not. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/client.h"
#include "control/protocol.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/served.h"
#include "tests/unit/control/suites.h"

#define STATUS PEER_STATUS
#define SNAP   "{\"execute\":\"snap\"}"
#define STOP   "{\"execute\":\"stop\"}"
#define CONT   "{\"execute\":\"cont\"}"
#define HELP   "{\"execute\":\"help\"}"

static struct served s;
static struct peer a, b;

static void setup(void)
{
	folder_enter();
	served_start(&s, 0);
}

static void teardown(void)
{
	served_stop(&s);
	folder_leave();
}

START_TEST(status_tells_guest_machine_and_captures)
{
	peer_connect(&a, false);
	const char *line = peer_ask(&a, "{\"execute\":\"status\",\"id\":\"x\"}");
	json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	const json_t *r = json_object_get(o, "return");
	json_t *copy = json_deep_copy(json_object_get(r, "captures"));

	ck_assert_str_eq(json_string_value(json_object_get(o, "id")), "x");
	ck_assert_str_eq(json_string_value(json_object_get(r, "state")), "running");
	ck_assert(json_is_null(json_object_get(r, "end")));
	ck_assert(json_is_null(json_object_get(r, "last_capture")));
	ck_assert_int_eq(
		json_integer_value(json_object_get(json_object_get(r, "machine"), "uptime_ns")), 7);
	ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(r, "guest"), "vcpus")),
			 4);
	ck_assert_uint_eq(json_object_size(copy), 5);
	json_decref(copy);
	json_decref(o);
	peer_close(&a);
}
END_TEST

START_TEST(rubbish_is_answered_and_the_next_line_served)
{
	peer_connect(&a, false);
	assert_has(peer_ask(&a, "rubbish"), "invalid-json");
	assert_has(peer_ask(&a, "{\"execute\":\"fly\",\"id\":3}"), "\"id\": 3");
	ck_assert_int_eq(send(a.fd, "\0\xff\n", 3, 0), 3);
	assert_has(peer_line(&a), "invalid-json");
	peer_send(&a, "\n  \r\n");
	assert_has(peer_ask(&a, STATUS), "\"return\"");
	peer_close(&a);
}
END_TEST

START_TEST(lines_come_in_any_pieces)
{
	peer_connect(&a, false);
	for (const char *at = STATUS "\n"; *at; at++)
		ck_assert_int_eq(send(a.fd, at, 1, 0), 1);
	assert_has(peer_line(&a), "running");
	peer_send(&a, STATUS "\n" HELP "\n" STATUS "\n{\"exec");
	assert_has(peer_line(&a), "running");
	assert_has(peer_line(&a), "commands");
	assert_has(peer_line(&a), "running");
	assert_has(peer_ask(&a, "ute\":\"status\"}"), "running");
	peer_close(&a);
}
END_TEST

START_TEST(half_a_line_keeps_nobody_else)
{
	peer_connect(&a, false);
	peer_send(&a, "{\"e");
	peer_connect(&b, false);
	assert_has(peer_ask(&b, STATUS), "\"clients\": 2");
	peer_close(&a);
	peer_wait_status(&b, "\"clients\": 1");
	peer_close(&b);
}
END_TEST

START_TEST(line_without_end_closes_only_its_connection)
{
	static char flood[4 << 20];

	memset(flood, ' ', sizeof(flood));
	peer_connect(&b, false);
	peer_connect(&a, false);
	/* the server leaves in the middle of it */
	size_t sent = 0;
	while (sent < sizeof(flood)) {
		ssize_t n = send(a.fd, flood + sent, sizeof(flood) - sent, MSG_NOSIGNAL);
		if (n < 0)
			break;
		sent += (size_t)n;
	}
	ck_assert_uint_lt(sent, sizeof(flood));
	assert_has(peer_line(&a), "too-big");
	ck_assert_str_eq(peer_line(&a), "");
	peer_wait_status(&b, "\"clients\": 1");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(longest_line_is_served)
{
	char *line = malloc(CTL_LINE_MAX + 1);

	memset(line, ' ', CTL_LINE_MAX);
	memcpy(line, STATUS, strlen(STATUS));
	line[CTL_LINE_MAX - 1] = '\n';
	line[CTL_LINE_MAX] = '\0';
	peer_connect(&a, false);
	peer_send(&a, line);
	assert_has(peer_line(&a), "running");
	free(line);
	peer_close(&a);
}
END_TEST

START_TEST(capture_comes_as_sealed_memory_file)
{
	const void *data;
	size_t size;
	struct gs_error err;
	char text[128];

	peer_connect(&a, false);
	assert_has(peer_ask(&a, SNAP), "\"complete\": true");
	ck_assert_int_ge(a.passed, 0);
	ck_assert_int_eq(ctl_capture_map(a.passed, &data, &size, &err), GS_OK);
	ck_assert_uint_eq(size, served_capture_len);
	ck_assert_mem_eq(data, served_capture, size);
	munmap((void *)data, size);
	/* its offset is at the start, and nobody can change it */
	ck_assert_int_eq(read(a.passed, text, sizeof(text)), (ssize_t)served_capture_len);
	ck_assert_int_eq(pwrite(a.passed, "x", 1, 0), -1);
	ck_assert_int_ne(ftruncate(a.passed, 0), 0);
	assert_has(peer_ask(&a, STATUS), "\"taken\": 1");
	peer_close(&a);
}
END_TEST

START_TEST(capture_to_file_is_private)
{
	char request[400];

	umask(0);
	snprintf(request, sizeof(request),
		 "{\"execute\":\"snap\",\"arguments\":{\"to\":\"file\",\"path\":\"%s\"}}",
		 folder_path("f"));
	peer_connect(&a, false);
	assert_has(peer_ask(&a, request), "\"stopped_ns\": 1000");
	ck_assert_int_lt(a.passed, 0);
	ck_assert(folder_has("f", served_capture, served_capture_len));
	ck_assert_int_eq(folder_mode("f"), 0600);
	ck_assert_int_eq(unlink("f"), 0);
	ck_assert_int_eq(symlink("elsewhere", "f"), 0);
	assert_has(peer_ask(&a, request), "symbolic link");
	assert_has(peer_ask(&a, STATUS), "\"failed\": 1");
	peer_close(&a);
}
END_TEST

START_TEST(failed_capture_says_why_and_incomplete_one_that)
{
	peer_connect(&a, false);
	served_outcome(&s, true, false);
	assert_has(peer_ask(&a, "{\"execute\":\"snap\",\"arguments\":{\"pid\":9},\"id\":1}"),
		   "{\"class\": \"not-found\", \"desc\": \"no process 9\"}, \"id\": 1");
	served_outcome(&s, false, true);
	assert_has(peer_ask(&a, SNAP), "\"complete\": false");
	assert_has(peer_ask(&a, STATUS),
		   "{\"taken\": 1, \"incomplete\": 1, \"failed\": 1, \"dropped\": 0");
	peer_close(&a);
}
END_TEST

START_TEST(two_captures_at_once_follow_each_other)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	served_gate(&s, true);
	peer_send(&a, SNAP "\n");
	served_wait_entered(&s, 1);
	peer_send(&b, SNAP "\n");
	/* both are answered while a third asks how it goes */
	struct peer *c = malloc(sizeof(*c));
	peer_connect(c, false);
	peer_wait_status(c, "\"queued\": 1");
	assert_has(peer_ask(c, STATUS), "\"state\": \"capturing\"");
	served_gate(&s, false);
	assert_has(peer_line(&a), "\"return\"");
	assert_has(peer_line(&b), "\"return\"");
	ck_assert_int_ge(a.passed, 0);
	ck_assert_int_ge(b.passed, 0);
	peer_close(c);
	free(c);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(one_client_cannot_fill_the_queue)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	served_gate(&s, true);
	for (int i = 0; i < 50; i++)
		peer_send(&a, SNAP "\n");
	served_wait_entered(&s, 1);
	peer_send(&b, SNAP "\n");
	struct peer *c = malloc(sizeof(*c));
	peer_connect(c, false);
	peer_wait_status(c, "\"queued\": 1"); /* b's only */
	served_gate(&s, false);
	assert_has(peer_line(&b), "\"return\"");
	for (int i = 0; i < 50; i++)
		assert_has(peer_line(&a), "\"return\"");
	assert_has(peer_ask(c, STATUS), "\"taken\": 51");
	peer_close(c);
	free(c);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(client_that_vanishes_in_its_capture_gets_nothing)
{
	char request[400];

	snprintf(request, sizeof(request),
		 "{\"execute\":\"snap\",\"arguments\":{\"to\":\"file\",\"path\":\"%s\"}}\n",
		 folder_path("f"));
	peer_connect(&b, false);
	peer_connect(&a, false);
	served_gate(&s, true);
	peer_send(&a, request);
	served_wait_entered(&s, 1);
	peer_close(&a);
	peer_wait_status(&b, "\"clients\": 1");
	served_gate(&s, false);
	peer_wait_status(&b, "\"dropped\": 1");
	served_wait_stops(&s, 0);
	ck_assert_int_eq(folder_mode("f"), -1);
	assert_has(peer_ask(&b, SNAP), "\"return\"");
	peer_close(&b);
}
END_TEST

START_TEST(capture_of_a_client_that_vanished_before_is_not_taken)
{
	peer_connect(&b, false);
	peer_connect(&a, false);
	served_gate(&s, true);
	peer_send(&b, SNAP "\n");
	served_wait_entered(&s, 1);
	peer_send(&a, SNAP "\n");
	struct peer *c = malloc(sizeof(*c));
	peer_connect(c, false);
	peer_wait_status(c, "\"queued\": 1");
	peer_close(&a);
	peer_wait_status(c, "\"queued\": 0");
	served_gate(&s, false);
	assert_has(peer_line(&b), "\"return\"");
	assert_has(peer_ask(c, STATUS),
		   "\"taken\": 1, \"incomplete\": 0, \"failed\": 0, \"dropped\": 0");
	peer_close(c);
	free(c);
	peer_close(&b);
}
END_TEST

START_TEST(client_that_closes_its_sending_side_gets_its_answers)
{
	peer_connect(&a, false);
	peer_send(&a, SNAP "\n" STATUS "\n");
	ck_assert_int_eq(shutdown(a.fd, SHUT_WR), 0);
	assert_has(peer_line(&a), "\"complete\"");
	assert_has(peer_line(&a), "\"state\"");
	ck_assert_str_eq(peer_line(&a), "");
	peer_close(&a);
}
END_TEST

START_TEST(stops_nest_and_belong_to_their_connection)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	assert_has(peer_ask(&a, CONT), "not-stopped");
	assert_has(peer_ask(&a, STOP), "\"state\": \"stopped\", \"stops\": 1, \"own_stops\": 1");
	assert_has(peer_ask(&a, STOP), "\"own_stops\": 2");
	assert_has(peer_ask(&b, CONT), "not-stopped");
	assert_has(peer_ask(&b, STOP), "\"stops\": 3, \"own_stops\": 1");
	served_wait_stops(&s, 3);
	assert_has(peer_ask(&b, CONT), "\"state\": \"stopped\", \"stops\": 2, \"own_stops\": 0");
	assert_has(peer_ask(&b, SNAP), "\"complete\"");
	served_wait_stops(&s, 2);
	assert_has(peer_ask(&a, CONT), "\"own_stops\": 1");
	assert_has(peer_ask(&a, CONT), "\"state\": \"running\"");
	served_wait_stops(&s, 0);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(client_that_dies_releases_its_stops_only)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	assert_has(peer_ask(&b, STOP), "\"stops\": 1");
	for (int i = 0; i < 5; i++)
		assert_has(peer_ask(&a, STOP), "\"return\"");
	peer_close(&a);
	served_wait_stops(&s, 1);
	assert_has(peer_ask(&b, STATUS), "\"stops\": 1, \"own_stops\": 1");
	peer_close(&b);
	served_wait_stops(&s, 0);
}
END_TEST

START_TEST(stop_under_way_when_its_client_dies_is_undone)
{
	for (int i = 0; i < 200; i++) {
		peer_connect(&a, false);
		peer_send(&a, STOP "\n" STOP "\n" CONT "\n");
		peer_close(&a);
	}
	peer_connect(&b, false);
	peer_wait_status(&b, "\"clients\": 1, \"stops\": 0");
	served_wait_stops(&s, 0);
	peer_close(&b);
}
END_TEST

START_TEST(stops_of_one_connection_are_limited)
{
	peer_connect(&a, false);
	for (int i = 0; i < CTL_STOPS_MAX; i++)
		assert_has(peer_ask(&a, STOP), "\"return\"");
	assert_has(peer_ask(&a, STOP), "too-big");
	peer_close(&a);
}
END_TEST

START_TEST(every_command_is_answered_in_every_state)
{
	static const char *const commands[] = { STATUS, STOP, CONT, SNAP, HELP };
	static const char *const states[] = { "running", "stopped", "ended" };

	peer_connect(&a, false);
	peer_connect(&b, false);
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (i == 1)
			assert_has(peer_ask(&a, STOP), "stopped");
		if (i == 2) {
			served_end_guest(&s);
			assert_has(peer_line(&a), "guest-ended");
			assert_has(peer_line(&b), "\"reason\": \"poweroff\"");
		}
		assert_has(peer_ask(&b, STATUS), states[i]);
		for (size_t j = 0; j < ARRAY_SIZE(commands); j++)
			assert_has(peer_ask(&b, commands[j]), "\"return\"");
		assert_has(peer_ask(&b, CONT), "not-stopped");
	}
	assert_has(peer_ask(&a, "{\"execute\":\"quit\"}"), "\"state\": \"ended\"");
	assert_has(peer_ask(&a, CONT), "\"state\": \"ended\"");
	ck_assert_uint_eq(s.quits, 0);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(commands_during_a_capture_wait_for_it_or_do_not_need_to)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	served_gate(&s, true);
	peer_send(&a, SNAP "\n");
	served_wait_entered(&s, 1);
	assert_has(peer_ask(&b, STATUS), "\"state\": \"capturing\"");
	assert_has(peer_ask(&b, HELP), "commands");
	assert_has(peer_ask(&b, CONT), "not-stopped");
	assert_has(peer_ask(&b, "{\"execute\":\"quit\"}"), "\"return\"");
	served_wait_quits(&s, 1);
	peer_send(&b, STOP "\n" CONT "\n");
	served_gate(&s, false);
	assert_has(peer_line(&a), "\"complete\"");
	assert_has(peer_line(&b), "\"own_stops\": 1");
	assert_has(peer_line(&b), "\"own_stops\": 0");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(seventeenth_client_is_refused_politely)
{
	struct peer *peers = calloc(CTL_CLIENTS_MAX, sizeof(*peers));

	for (int i = 0; i < CTL_CLIENTS_MAX; i++)
		peer_connect(&peers[i], false);
	peer_connect(&a, true);
	assert_has(peer_line(&a), "too many clients");
	ck_assert_str_eq(peer_line(&a), "");
	peer_close(&a);
	peer_close(&peers[3]);
	peer_wait_status(&peers[0], "\"clients\": 15");
	peer_connect(&a, false);
	assert_has(peer_ask(&a, STATUS), "\"clients\": 16");
	peer_close(&a);
	for (int i = 0; i < CTL_CLIENTS_MAX; i++) {
		if (i != 3)
			peer_close(&peers[i]);
	}
	free(peers);
}
END_TEST

START_TEST(closing_finishes_the_running_capture_and_refuses_the_waiting)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	assert_has(peer_ask(&a, STOP), "stopped");
	served_gate(&s, true);
	peer_send(&a, SNAP "\n");
	served_wait_entered(&s, 1);
	peer_send(&b, SNAP "\n");
	struct peer *c = malloc(sizeof(*c));
	peer_connect(c, false);
	peer_wait_status(c, "\"queued\": 1");
	served_close(&s);
	ck_assert_str_eq(peer_line(c), "");
	assert_has(peer_line(&b), "\"class\": \"ended\"");
	ck_assert_str_eq(peer_line(&b), "");
	served_gate(&s, false);
	assert_has(peer_line(&a), "\"complete\"");
	ck_assert_int_ge(a.passed, 0);
	ck_assert_str_eq(peer_line(&a), "");
	served_wait_stops(&s, 0);
	peer_close(c);
	free(c);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(another_user_is_refused)
{
	if (geteuid() != 0) {
		fprintf(stderr,
			"SKIP another_user_is_refused: only root can become another user\n");
		return;
	}
	ck_assert_int_eq(chmod(folder_path("."), 0777), 0);
	ck_assert_int_eq(chmod(SERVED_PATH, 0666), 0);
	pid_t child = fork();
	if (child == 0) {
		if (setuid(65534))
			_exit(2);
		peer_connect(&a, true);
		_exit(strstr(peer_line(&a), "\"class\": \"denied\"") ? 0 : 1);
	}
	int status;
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* --- with a short patience -----------------------------------------------------------------------
 */

static void setup_impatient(void)
{
	folder_enter();
	served_start(&s, 200);
}

START_TEST(client_that_does_not_read_is_dropped_and_harms_nobody)
{
	peer_connect(&b, false);
	peer_connect(&a, false);
	assert_has(peer_ask(&a, STOP), "stopped");
	/* ask and ask, never read, until the server reads no more either */
	ck_assert_int_eq(fcntl(a.fd, F_SETFL, O_NONBLOCK), 0);
	for (;;) {
		ssize_t n = send(a.fd, HELP "\n", strlen(HELP "\n"), MSG_NOSIGNAL);
		if (n < 0)
			break;
		assert_has(peer_ask(&b, STATUS), "\"return\"");
	}
	peer_wait_status(&b, "\"clients\": 1");
	served_wait_stops(&s, 0);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

#define SCHEDULES "{\"execute\":\"schedules\"}"
#define REMOVE	  "{\"execute\":\"schedule-remove\",\"arguments\":{\"id\":1}}"

START_TEST(schedules_are_added_listed_and_removed)
{
	char line[400];

	peer_connect(&a, false);
	assert_has(peer_ask(&a, SCHEDULES), "\"schedules\": []");
	snprintf(line, sizeof(line),
		 "{\"execute\":\"schedule-add\",\"arguments\":{\"dir\":\"%s\",\"every_ms\":10,"
		 "\"keep\":3,\"max_stopped_ppm\":1000000}}",
		 folder_path("kept"));
	assert_has(peer_ask(&a, line), "\"id\": 1");
	served_wait_entered(&s, 5); /* captures of it */
	assert_has(peer_ask(&a, SCHEDULES), "\"failure\": null");
	assert_has(peer_ask(&a, REMOVE), "\"removed\": true");
	assert_has(peer_ask(&a, REMOVE), "\"removed\": false");
	assert_has(peer_ask(&a, SCHEDULES), "\"schedules\": []");
	/* one that goes on is ended with the server */
	assert_has(peer_ask(&a, line), "\"id\": 2");
	peer_close(&a);
	served_stop(&s);
	ck_assert_int_eq(access("kept/index.json", R_OK), 0);
	served_start(&s, 0); /* for the teardown */
	ck_assert_int_eq(system("rm -r kept"), 0);
}
END_TEST

START_TEST(patience_is_for_answers_not_for_silence)
{
	peer_connect(&a, false);
	peer_connect(&b, false);
	assert_has(peer_ask(&a, STOP), "stopped");
	served_gate(&s, true);
	peer_send(&b, SNAP "\n");
	served_wait_entered(&s, 1);
	/* longer than the server waits for a reader: 200 ms */
	struct pollfd p = { .fd = a.fd, .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 600), 0);
	served_gate(&s, false);
	assert_has(peer_line(&b), "\"complete\"");
	assert_has(peer_ask(&a, CONT), "running");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

Suite *suite_server(void)
{
	Suite *suite = suite_create("control/server");
	TCase *tc = tcase_create("clients");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, status_tells_guest_machine_and_captures);
	tcase_add_test(tc, rubbish_is_answered_and_the_next_line_served);
	tcase_add_test(tc, lines_come_in_any_pieces);
	tcase_add_test(tc, half_a_line_keeps_nobody_else);
	tcase_add_test(tc, line_without_end_closes_only_its_connection);
	tcase_add_test(tc, longest_line_is_served);
	tcase_add_test(tc, capture_comes_as_sealed_memory_file);
	tcase_add_test(tc, capture_to_file_is_private);
	tcase_add_test(tc, failed_capture_says_why_and_incomplete_one_that);
	tcase_add_test(tc, two_captures_at_once_follow_each_other);
	tcase_add_test(tc, one_client_cannot_fill_the_queue);
	tcase_add_test(tc, client_that_vanishes_in_its_capture_gets_nothing);
	tcase_add_test(tc, capture_of_a_client_that_vanished_before_is_not_taken);
	tcase_add_test(tc, client_that_closes_its_sending_side_gets_its_answers);
	tcase_add_test(tc, stops_nest_and_belong_to_their_connection);
	tcase_add_test(tc, client_that_dies_releases_its_stops_only);
	tcase_add_test(tc, stop_under_way_when_its_client_dies_is_undone);
	tcase_add_test(tc, stops_of_one_connection_are_limited);
	tcase_add_test(tc, every_command_is_answered_in_every_state);
	tcase_add_test(tc, commands_during_a_capture_wait_for_it_or_do_not_need_to);
	tcase_add_test(tc, schedules_are_added_listed_and_removed);
	tcase_add_test(tc, seventeenth_client_is_refused_politely);
	tcase_add_test(tc, closing_finishes_the_running_capture_and_refuses_the_waiting);
	tcase_add_test(tc, another_user_is_refused);
	suite_add_tcase(suite, tc);

	tc = tcase_create("impatient");
	tcase_add_checked_fixture(tc, setup_impatient, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, client_that_does_not_read_is_dropped_and_harms_nobody);
	tcase_add_test(tc, patience_is_for_answers_not_for_silence);
	suite_add_tcase(suite, tc);
	return suite;
}
