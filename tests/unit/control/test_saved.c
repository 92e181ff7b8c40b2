/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that stay with the server until they were delivered; what a capture may be asked for. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control/client.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/served.h"
#include "tests/unit/control/suites.h"

#define SNAP(arguments) "{\"execute\":\"snap\",\"arguments\":{" arguments "}}"
#define SAVE		SNAP("\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"]")
#define RETRIEVE	SNAP("\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"]")
#define KEEP		SNAP("\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"],\"keep\":true")
#define STATUS		PEER_STATUS
#define HELP		"{\"execute\":\"help\"}"

#define NOTHING_SAVED "\"saved_capture\": null"
#define FIRST_SAVED   "\"saved_id\": 1}"

static struct served s;
static struct peer a, b;

static void setup(void)
{
	folder_enter();
	served_start(&s, 0);
	peer_connect(&a, false);
	peer_connect(&b, false);
}

static void teardown(void)
{
	served_stop(&s);
	folder_leave();
}

/* A retrieval to a file of the test's folder, in a static buffer. */
static const char *retrieve_to(const char *name)
{
	static char request[400];

	snprintf(request, sizeof(request),
		 "{\"execute\":\"snap\",\"arguments\":{\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"],"
		 "\"to\":\"file\",\"path\":\"%s\"}}",
		 folder_path(name));
	return request;
}

static size_t number_in(const char *line, const char *name)
{
	const char *at = strstr(line, name);

	ck_assert_msg(at, "no %s in: %.300s", name, line);
	return strtoull(at + strlen(name), NULL, 10);
}

/* Save one. @return its size */
static size_t save(void)
{
	const char *line = peer_ask(&b, SAVE);

	assert_has(line, "\"saved\": true");
	return number_in(line, "\"bytes\": ");
}

/* What came with the last answer is a whole capture. */
static void check_capture(const struct peer *p, size_t size)
{
	struct kcd_reader reader;
	struct kcd_item it;
	struct gs_error err;
	const void *data;
	size_t got;

	ck_assert_int_ge(p->passed, 0);
	ck_assert_int_eq(ctl_capture_map(p->passed, &data, &got, &err), GS_OK);
	ck_assert_uint_eq(got, size);
	enum kcd_code rc = kcd_reader_init(&reader, data, got, KCD_STRICT, NULL);
	while (!rc)
		rc = kcd_reader_next(&reader, &it);
	ck_assert_int_eq(rc, KCD_DONE);
	munmap((void *)data, got);
}

START_TEST(what_is_asked_for_reaches_the_capture)
{
	const char *line = peer_ask(
		&a, SNAP("\"flags\":[\"PAGE_TABLES\",\"LATENCY_INFO\"],\"pid\":7,\"since_ns\":5,"
			 "\"threads_max\":3,\"size_hint\":4096,\"pagetable_mask\":12"));
	struct ss_request asked = served_asked(&s);

	assert_has(line, "\"time_ns\": 12345678901");
	ck_assert_uint_eq(asked.version, SS_REQUEST_VERSION);
	ck_assert_uint_eq(asked.size, sizeof(asked));
	ck_assert_uint_eq(asked.flags, KCD_SS_REQ_PAGE_TABLES | SS_LATENCY_INFO);
	ck_assert_int_eq(asked.pid, 7);
	ck_assert_uint_eq(asked.since_ns, 5);
	ck_assert_uint_eq(asked.threads_max, 3);
	ck_assert_uint_eq(asked.size_hint, 4096);
	ck_assert_uint_eq(asked.pagetable_mask, 12);
	ck_assert_uint_eq(asked.deadline_ns, 0);
	/* and the next one starts from nothing */
	assert_has(peer_ask(&a, SNAP("")), "\"return\"");
	asked = served_asked(&s);
	ck_assert_uint_eq(asked.flags, 0);
	ck_assert_int_eq(asked.pid, SS_PID_ALL);
	ck_assert_uint_eq(asked.threads_max, 0);
	assert_has(peer_ask(&a, STATUS), "\"time_ns\": 12345678901");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(refusals_have_the_reason_of_who_refuses)
{
	assert_has(peer_ask(&a, SNAP("\"flags\":[\"SAVE_IN_KERNEL_BUFFER\",\"GET_DQ\"]")),
		   "{\"class\": \"not-supported\", \"desc\": \"request flag GET_DQ: Linux has no");
	assert_has(peer_ask(&a, SNAP("\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"],\"pid\":1")),
		   "{\"class\": \"invalid-argument\", \"desc\": \"a saved capture is retrieved as");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(saved_capture_stays_with_the_server)
{
	assert_has(peer_ask(&a, STATUS), NOTHING_SAVED);
	const char *line = peer_ask(&a, SAVE);
	assert_has(line, "\"saved\": true, \"saved_id\": 1");
	ck_assert_ptr_null(strstr(line, "\"to\""));
	ck_assert_int_lt(a.passed, 0);
	size_t size = number_in(line, "\"bytes\": ");

	line = peer_ask(&b, STATUS);
	assert_has(line, FIRST_SAVED);
	assert_has(line, "\"taken\": 1");
	ck_assert_uint_eq(number_in(strstr(line, "\"saved_capture\""), "\"bytes\": "), size);
	ck_assert_uint_gt(number_in(strstr(line, "\"saved_capture\""), "\"time_us\": "), 0);

	assert_has(peer_ask(&b, SAVE), "{\"class\": \"exists\", \"desc\": \"a capture of ");
	assert_has(peer_ask(&b, STATUS), FIRST_SAVED);
	assert_has(peer_ask(&b, STATUS), "\"failed\": 1");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(capture_that_was_handed_over_is_dropped)
{
	size_t size = save();
	const char *line = peer_ask(&a, RETRIEVE);

	assert_has(line, "\"to\": \"fd\", \"saved_id\": 1");
	check_capture(&a, size);
	line = peer_ask(&a, STATUS);
	assert_has(line, NOTHING_SAVED);
	/* to have it is to take none */
	assert_has(line, "\"taken\": 1, \"incomplete\": 1, \"failed\": 0, \"dropped\": 0");
	assert_has(peer_ask(&b, RETRIEVE), "{\"class\": \"not-found\", \"desc\": \"no capture is");
	assert_has(peer_ask(&b, STATUS), "\"failed\": 0");
	assert_has(peer_ask(&b, SAVE), "\"saved_id\": 2");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(capture_that_is_in_its_file_is_dropped)
{
	size_t size = save();

	assert_has(peer_ask(&a, retrieve_to("f")), "\"to\": \"file\", \"path\": \"/");
	ck_assert_int_lt(a.passed, 0);
	ck_assert_int_eq(folder_mode("f"), 0600);
	ck_assert_uint_eq(folder_size("f"), size);
	assert_has(peer_ask(&a, STATUS), NOTHING_SAVED);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(file_that_cannot_be_written_leaves_it_saved)
{
	struct rlimit old, low;
	size_t size = save();

	ck_assert_int_eq(symlink("elsewhere", "link"), 0);
	assert_has(peer_ask(&a, retrieve_to("link")), "symbolic link");
	assert_has(peer_ask(&a, retrieve_to("no/f")), "\"class\": \"not-found\"");
	/* a full disk */
	folder_put("f", "old");
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = size - 1;
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
	const char *line = peer_ask(&a, retrieve_to("f"));
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_has(line, "\"class\": \"resource-shortage\"");
	ck_assert(folder_has("f", "old", 3));
	ck_assert_uint_eq(folder_count(), 4); /* the socket and its lock, two of ours */
	assert_has(peer_ask(&a, STATUS), FIRST_SAVED);
	assert_has(peer_ask(&a, retrieve_to("f")), "\"return\"");
	ck_assert_uint_eq(folder_size("f"), size);
	assert_has(peer_ask(&a, STATUS), NOTHING_SAVED);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(client_that_vanishes_while_it_retrieves_leaves_it_saved)
{
	for (unsigned int to_file = 0; to_file < 2; to_file++) {
		if (!to_file)
			(void)save();
		served_gate(&s, true);
		peer_send(&a, to_file ? retrieve_to("f") : RETRIEVE);
		peer_send(&a, "\n");
		served_wait_entered(&s, 2 + to_file);
		/* retrieving stops nothing */
		assert_has(peer_ask(&b, STATUS), "\"state\": \"running\"");
		peer_close(&a);
		peer_wait_status(&b, "\"clients\": 1");
		served_gate(&s, false);
		/* the next job comes after it */
		assert_has(peer_ask(&b, "{\"execute\":\"stop\"}"), "\"return\"");
		assert_has(peer_ask(&b, "{\"execute\":\"cont\"}"), "\"return\"");
		assert_has(peer_ask(&b, STATUS), FIRST_SAVED);
		ck_assert_int_eq(folder_mode("f"), -1);
		peer_connect(&a, false);
	}
	assert_has(peer_ask(&b, STATUS), "\"dropped\": 0");
	assert_has(peer_ask(&a, RETRIEVE), "\"saved_id\": 1");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(client_that_vanishes_while_it_saves_leaves_it_saved)
{
	served_gate(&s, true);
	peer_send(&a, SAVE "\n");
	served_wait_entered(&s, 1);
	peer_close(&a);
	peer_wait_status(&b, "\"clients\": 1");
	served_gate(&s, false);
	peer_wait_status(&b, FIRST_SAVED);
	peer_wait_status(&b, "\"taken\": 1, \"incomplete\": 1, \"failed\": 0, \"dropped\": 0");
	peer_close(&b);
}
END_TEST

/*
 * Let answers for @p p wait in the server: its socket takes no more. Two questions of another client
 * see to it that the server has come to what @p p asked.
 * @return answers that it has not read
 */
static unsigned int fill(struct peer *p, struct peer *other)
{
	const size_t len = strlen(peer_ask(p, HELP)) + 1;
	int there = 0;
	unsigned int n = 0;

	do {
		peer_send(p, HELP "\n");
		n++;
		for (int i = 0; i < 2; i++)
			assert_has(peer_ask(other, STATUS), "\"return\"");
		ck_assert_int_eq(ioctl(p->fd, FIONREAD, &there), 0);
	} while ((size_t)there == n * len);
	return n;
}

START_TEST(answer_that_was_not_sent_leaves_it_saved)
{
	size_t size = save();

	(void)fill(&a, &b);
	peer_send(&a, RETRIEVE "\n");
	served_wait_entered(&s, 2);
	/* the next job comes after it, and its answer after that for the other */
	assert_has(peer_ask(&b, SNAP("")), "\"complete\"");
	assert_has(peer_ask(&b, STATUS), FIRST_SAVED);
	peer_close(&a);
	peer_wait_status(&b, "\"clients\": 1");
	assert_has(peer_ask(&b, STATUS), FIRST_SAVED);
	assert_has(peer_ask(&b, RETRIEVE), "\"saved_id\": 1");
	check_capture(&b, size);
	assert_has(peer_ask(&b, STATUS), NOTHING_SAVED);
	peer_close(&b);
}
END_TEST

START_TEST(two_who_retrieve_it_at_once_both_have_it)
{
	size_t size = save();
	unsigned int unread = fill(&a, &b);

	peer_send(&a, RETRIEVE "\n");
	served_wait_entered(&s, 2);
	assert_has(peer_ask(&b, SNAP("")), "\"complete\""); /* comes after it */
	assert_has(peer_ask(&b, RETRIEVE), "\"saved_id\": 1");
	check_capture(&b, size);
	/* dropped once; another one that is saved now is not the first one's to drop */
	assert_has(peer_ask(&b, STATUS), NOTHING_SAVED);
	assert_has(peer_ask(&b, SAVE), "\"saved_id\": 2");
	while (unread--)
		assert_has(peer_line(&a), "commands");
	assert_has(peer_line(&a), "\"saved_id\": 1");
	check_capture(&a, size);
	assert_has(peer_ask(&b, STATUS), "\"saved_id\": 2");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(kept_capture_goes_when_it_is_told_to)
{
	size_t size = save();

	for (int i = 0; i < 2; i++) {
		assert_has(peer_ask(&a, KEEP), "\"saved_id\": 1");
		check_capture(&a, size);
		assert_has(peer_ask(&a, STATUS), FIRST_SAVED);
	}
	assert_has(peer_ask(&a, "{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":2}}"),
		   "{\"dropped\": false}");
	assert_has(peer_ask(&a, STATUS), FIRST_SAVED);
	assert_has(peer_ask(&b, "{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":1}}"),
		   "{\"dropped\": true}");
	assert_has(peer_ask(&a, STATUS), NOTHING_SAVED);
	assert_has(peer_ask(&a, "{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":1}}"),
		   "{\"dropped\": false}");
	peer_close(&a);
	peer_close(&b);
}
END_TEST

START_TEST(kept_capture_stays_beside_its_file)
{
	char request[400];

	(void)save();
	snprintf(request, sizeof(request),
		 SNAP("\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"],\"keep\":true,\"to\":\"file\","
		      "\"path\":\"%s\""),
		 folder_path("f"));
	assert_has(peer_ask(&a, request), "\"saved_id\": 1");
	ck_assert_int_eq(folder_mode("f"), 0600);
	assert_has(peer_ask(&a, STATUS), FIRST_SAVED);
	peer_close(&a);
	peer_close(&b);
}
END_TEST

Suite *suite_saved(void)
{
	Suite *suite = suite_create("control/saved");
	TCase *tc = tcase_create("saved");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, what_is_asked_for_reaches_the_capture);
	tcase_add_test(tc, refusals_have_the_reason_of_who_refuses);
	tcase_add_test(tc, saved_capture_stays_with_the_server);
	tcase_add_test(tc, capture_that_was_handed_over_is_dropped);
	tcase_add_test(tc, capture_that_is_in_its_file_is_dropped);
	tcase_add_test(tc, file_that_cannot_be_written_leaves_it_saved);
	tcase_add_test(tc, client_that_vanishes_while_it_retrieves_leaves_it_saved);
	tcase_add_test(tc, client_that_vanishes_while_it_saves_leaves_it_saved);
	tcase_add_test(tc, answer_that_was_not_sent_leaves_it_saved);
	tcase_add_test(tc, two_who_retrieve_it_at_once_both_have_it);
	tcase_add_test(tc, kept_capture_goes_when_it_is_told_to);
	tcase_add_test(tc, kept_capture_stays_beside_its_file);
	suite_add_tcase(suite, tc);
	return suite;
}
