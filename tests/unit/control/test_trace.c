/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing over the socket: operations of several clients, providers of time, anything that is sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/served.h"
#include "tests/unit/control/suites.h"

static struct served s;
static struct peer a, b, c;

static void begin(void)
{
	folder_enter();
	served_start(&s, 0);
	peer_connect(&a, false);
	peer_connect(&b, false);
	peer_connect(&c, false);
}

static void end(void)
{
	peer_close(&a);
	peer_close(&b);
	peer_close(&c);
	served_stop(&s);
	folder_leave();
}

/* Ask for an operation with arguments, inside of their braces. */
static const char *ask(struct peer *p, const char *operation, const char *arguments)
{
	static char line[8192];

	snprintf(line, sizeof(line), "{\"execute\":\"trace-%s\",\"arguments\":{%s}}", operation,
		 arguments);
	return peer_ask(p, line);
}

static json_int_t number_in(const char *line, const char *name)
{
	json_t *o = json_loads(line, 0, NULL);
	const json_int_t n =
		json_integer_value(json_object_get(json_object_get(o, "return"), name));

	json_decref(o);
	return n;
}

START_TEST(session_is_its_connections)
{
	begin();
	assert_has(ask(&a, "go", ""), "\"not-found\"");
	assert_has(ask(&a, "status", ""), "\"not-found\"");
	assert_has(ask(&a, "enable", ""), "\"not-found\"");
	assert_has(ask(&a, "enable", "\"program\":\"session:::begin {trace(\\\"hi\\\", vcpu)}\""),
		   "\"session\": 1, \"matched\": 1, \"persistent\": false");
	assert_has(ask(&b, "enable", "\"program\":\"tick-1s {count()}\""), "\"session\": 2");
	assert_has(ask(&a, "enable", ""), "\"matched\": 0");
	assert_has(ask(&a, "status", ""), "\"not-found\"");
	assert_has(ask(&b, "status", "\"session\":1"), "\"not-found\"");
	assert_has(ask(&a, "buf-snap", "\"vcpu\":0"), "\"busy\"");
	assert_has(ask(&a, "go", ""), "\"return\": {\"vcpu\": 0}");
	assert_has(ask(&a, "go", ""), "\"busy\"");
	assert_has(ask(&a, "enable", "\"program\":\"tick-1s {}\""), "\"busy\"");
	assert_has(ask(&a, "status", ""), "\"state\": \"active\"");
	assert_has(ask(&a, "eprobe", "\"epid\":1"), "\"term\": \"vcpu\"");
	assert_has(ask(&a, "format", "\"number\":1"), "\"text\": \"hi\"");
	assert_has(ask(&a, "enablings", ""), "session:::begin { trace(\\\"hi\\\", vcpu) }");
	assert_has(ask(&a, "buf-snap", "\"vcpu\":0"), "\"terms\": [0]");
	assert_has(ask(&a, "buf-snap", "\"vcpu\":4"), "\"not-found\"");
	assert_has(ask(&a, "stop", ""), "\"vcpu\": 0");
	assert_has(ask(&a, "stop", ""), "\"busy\"");
	assert_has(ask(&a, "close", ""), "\"session\": 1");
	assert_has(ask(&a, "stop", ""), "\"not-found\"");
	assert_has(ask(&b, "agg-desc", "\"aggregation\":1"), "\"function\": \"count\"");
	assert_has(ask(&b, "agg-desc", "\"aggregation\":2"), "\"not-found\"");
	end();
}
END_TEST

START_TEST(persistent_session_outlives_its_connection)
{
	begin();
	assert_has(ask(&a, "enable", "\"program\":\"tick-1s {count()}\",\"persistent\":true"),
		   "\"persistent\": true");
	assert_has(ask(&b, "enable", "\"program\":\"tick-1s {count()}\""), "\"session\": 2");
	peer_close(&a);
	peer_close(&b);
	peer_wait_status(&c, "\"clients\": 1,");
	assert_has(ask(&c, "go", "\"session\":1"), "\"vcpu\": 0");
	assert_has(ask(&c, "status", "\"session\":1"), "\"active\"");
	assert_has(ask(&c, "status", "\"session\":2"), "\"not-found\"");
	assert_has(ask(&c, "stop", "\"session\":1"), "\"vcpu\": 0");
	assert_has(ask(&c, "close", "\"session\":1"), "\"session\": 1");
	assert_has(ask(&c, "status", "\"session\":1"), "\"not-found\"");
	peer_connect(&a, false);
	peer_connect(&b, false);
	end();
}
END_TEST

START_TEST(what_there_is_is_told)
{
	begin();
	assert_has(ask(&a, "conf", ""), "\"vcpus\": 4");
	assert_has(ask(&a, "conf", ""), "\"provider\": \"guest\"");
	assert_has(ask(&a, "provider", "\"provider\":\"vcpu\""), "\"probes\": 5");
	assert_has(ask(&a, "provider", "\"provider\":\"none\""), "\"not-found\"");
	assert_has(ask(&a, "probes", ""), "\"provider\": \"session\"");
	assert_has(ask(&a, "probes", "\"from\":100000"), "\"not-found\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"vcpu:::exit\""), "\"mmio\"");
	/* a rate is there once it was named, in one spelling, and in range */
	assert_has(ask(&a, "probe-match", "\"probe\":\"profile-97\""), "\"profile-97\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"tick-10ms\""), "\"tick-10ms\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"profile-097\""), "\"not-found\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"profile-1001\""), "\"not-found\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"tick-0\""), "\"not-found\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"tick-999us\""), "\"not-found\"");
	assert_has(ask(&a, "probe-match", "\"probe\":\"tick-2h\""), "\"not-found\"");
	assert_has(ask(&a, "probe-arg", "\"id\":1,\"n\":0"), "\"not-found\"");
	assert_has(ask(&a, "probe-arg", "\"id\":99999,\"n\":0"), "\"invalid-argument\"");
	end();
}
END_TEST

static const struct {
	const char *operation, *arguments, *says;
} wrong[] = {
	{ "conf", "\"a\":1", "unknown argument" },
	{ "provider", "", "\\\"provider\\\" is missing" },
	{ "provider", "\"provider\":1", "is a string, not an integer" },
	{ "probes", "\"from\":-1", "is not in 0" },
	{ "probes", "\"from\":4294967295", "is not in 0" },
	{ "probe-match", "", "\\\"probe\\\" is missing" },
	{ "probe-match", "\"probe\":\"a:b:c:d:e\"", "four parts" },
	{ "probe-arg", "\"id\":1", "\\\"n\\\" is missing" },
	{ "enable", "\"program\":5", "is a string or object" },
	{ "enable", "\"program\":\"tick-1s { fire() }\"", "not an action" },
	{ "enable", "\"program\":{}", "\\\"clauses\\\" is an array" },
	{ "enable", "\"program\":\"tick-1s\",\"policy\":\"none\"", "\\\"policy\\\" is" },
	{ "enable", "\"program\":\"tick-1s\",\"buffer_bytes\":1", "1 bytes are not in" },
	{ "enable", "\"policy\":\"ring\"", "nothing is set" },
	{ "enable", "\"persistent\":1", "is a boolean" },
	{ "replicate", "\"match\":\"a\"", "\\\"create\\\" is missing" },
	{ "eprobe", "", "\\\"epid\\\" is missing" },
	{ "format", "", "\\\"number\\\" is missing" },
	{ "buf-snap", "", "\\\"vcpu\\\" is missing" },
	{ "agg-desc", "", "\\\"aggregation\\\" is missing" },
};

START_TEST(wrong_arguments_are_refused)
{
	begin();
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *line = ask(&a, wrong[i].operation, wrong[i].arguments);

		assert_has(line, "\"invalid-argument\"");
		assert_has(line, wrong[i].says);
	}
	/* no session was left behind by those that failed */
	assert_has(ask(&a, "status", ""), "this connection has no session");
	assert_has(ask(&a, "enable", "\"program\":\"tick-1s { stackshot() }\""),
		   "needs \\\"stackshots\\\", a folder");
	end();
}
END_TEST

/* The JSON form is taken, too; tick fires on one vCPU, profile on each. */
START_TEST(time_fires)
{
	json_int_t ticks = 0, profiles[4] = { 0 };
	bool all = false;

	begin();
	assert_has(ask(&a, "enable",
		       "\"program\":{\"clauses\":[{\"probes\":[\"tick-1ms\"],\"actions\":"
		       "[{\"action\":\"count\"}]},{\"probes\":[\"profile-1000\"],\"actions\":"
		       "[{\"action\":\"count\",\"by\":[\"vcpu\"]}]}]}"),
		   "\"matched\": 2");
	assert_has(ask(&a, "go", ""), "\"vcpu\": 0");
	while (!all) {
		all = ticks > 2;
		for (json_int_t vcpu = 0; vcpu < 4; vcpu++) {
			char arguments[32];

			snprintf(arguments, sizeof(arguments), "\"vcpu\":%d", (int)vcpu);
			json_t *o = json_loads(ask(&a, "agg-snap", arguments), 0, NULL), *entry;
			size_t i;
			json_array_foreach(json_object_get(json_object_get(o, "return"), "entries"),
					   i, entry)
			{
				const json_int_t n =
					json_integer_value(json_object_get(entry, "value"));
				const json_t *keys = json_object_get(entry, "keys");

				ck_assert(vcpu == 0 || json_array_size(keys) == 1);
				if (!json_array_size(keys)) {
					ticks += n;
					continue;
				}
				ck_assert_int_eq(json_integer_value(json_array_get(keys, 0)), vcpu);
				profiles[vcpu] += n;
			}
			json_decref(o);
			all = all && profiles[vcpu] > 2;
		}
	}
	assert_has(ask(&a, "stop", ""), "\"vcpu\": 0");
	assert_has(ask(&a, "status", ""), "\"errors\": 0");
	served_wait_stops(&s, 0);
	end();
}
END_TEST

/* Sums of what vCPU 0 handed over, by aggregation: a count, then what is least and most of arg0 and arg1. */
struct firings {
	json_int_t count, least[2], most[2];
};

static void add_firings(struct firings *f)
{
	json_t *o = json_loads(ask(&a, "agg-snap", "\"vcpu\":0"), 0, NULL), *entry;
	size_t i;

	json_array_foreach(json_object_get(json_object_get(o, "return"), "entries"), i, entry)
	{
		const json_int_t id = json_integer_value(json_object_get(entry, "aggregation"));
		const json_int_t n = json_integer_value(json_object_get(entry, "value"));

		if (id == 1)
			f->count += n;
		else if (id < 4)
			f->least[id - 2] = gs_min(f->least[id - 2], n);
		else
			f->most[id - 4] = gs_max(f->most[id - 4], n);
	}
	json_decref(o);
}

/* Whatever the machine does meanwhile. */
START_TEST(what_fires_and_what_is_late_was_due)
{
	struct firings f = { .least = { INT64_MAX, INT64_MAX } };

	begin();
	assert_has(ask(&a, "enable",
		       "\"program\":\"profile-1000 /vcpu == 0/ { count(); min(arg0); min(arg1);"
		       "max(arg0); max(arg1) }\""),
		   "\"matched\": 1");
	assert_has(ask(&a, "go", ""), "\"vcpu\": 0");
	while (f.count < 20)
		add_firings(&f);
	assert_has(ask(&a, "stop", ""), "\"vcpu\": 0");
	add_firings(&f);
	add_firings(&f);
	ck_assert_int_eq(f.count + f.most[0] - f.least[0], f.most[1] - f.least[1] + 1);
	served_wait_stops(&s, 0);
	end();
}
END_TEST

START_TEST(events_are_told)
{
	begin();
	assert_has(ask(&a, "enable",
		       "\"program\":\"guest:::panic, guest::poweroff: {trace(arg0)};"
		       "vcpu:::exit {count() by arg0}\""),
		   "\"matched\": 5");
	ck_assert(ctl_trace_wants_guest(s.trace, CTL_TRACE_PANIC));
	ck_assert(!ctl_trace_wants_guest(s.trace, CTL_TRACE_OOPS));
	ck_assert(!ctl_trace_wants_guest(NULL, CTL_TRACE_PANIC));
	assert_has(ask(&a, "go", ""), "\"vcpu\": 0");
	ctl_trace_guest(s.trace, CTL_TRACE_PANIC, 7, 0);
	ctl_trace_guest(s.trace, CTL_TRACE_OOPS, 8, 0);
	ctl_trace_vcpu(s.trace, 3, CTL_TRACE_EXIT_MMIO, 0x9000000, NULL, NULL);
	ctl_trace_vcpu(s.trace, 3, CTL_TRACE_STOP, 0, NULL, NULL);
	assert_has(ask(&a, "buf-snap", "\"vcpu\":0"), "\"terms\": [7]}], \"more\": false");
	assert_has(ask(&a, "agg-snap", "\"vcpu\":3"), "\"keys\": [150994944]");
	end();
}
END_TEST

/* A program has captures taken. */
START_TEST(stackshots_are_taken)
{
	static char arguments[4600];

	begin();
	snprintf(arguments, sizeof(arguments),
		 "\"program\":\"guest:::oops {stackshot()}\",\"stackshots\":\"%s\"",
		 folder_path(""));
	assert_has(ask(&a, "enable", arguments), "\"matched\": 1");
	assert_has(ask(&a, "go", ""), "\"vcpu\": 0");
	ctl_trace_guest(s.trace, CTL_TRACE_OOPS, 0, 0);
	peer_wait_status(&b, "\"taken\": 1,");
	ck_assert(folder_has("trace-1-1.kcdata", served_capture, served_capture_len));
	/* the server may be closed at any moment of it */
	ctl_trace_guest(s.trace, CTL_TRACE_OOPS, 0, 0);
	end();
}
END_TEST

/* --- anything --------------------------------------------------------------------------------------
 */

static uint32_t seed = 7;

static uint32_t chance(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 12) % n;
}

static const char *const operations[] = {
	"conf",	     "provider",  "probes", "probe-match", "probe-arg", "enable",   "eprobe",
	"replicate", "enablings", "format", "go",	   "stop",	"buf-snap", "agg-desc",
	"agg-snap",  "status",	  "close",  "enable",	   "go",	"stop",
};
static const char *const pieces[] = {
	"\"session\":1",
	"\"session\":3",
	"\"persistent\":true",
	"\"policy\":\"ring\"",
	"\"policy\":\"fill\"",
	"\"buffer_bytes\":4096",
	"\"program\":\"tick-1ms {count(); trace(time_ns)}\"",
	"\"program\":\"tick-1ms /arg0 > 1/ {exit()}\"",
	"\"program\":\"session:::begin {trace(\\\"a\\\", vcpu)}\"",
	"\"program\":{\"clauses\":[{\"probes\":[\"tick-2ms\"]}]}",
	"\"program\":\"} {\"",
	"\"program\":\"tick-3ms {stackshot()}\",\"stackshots\":\"/nonexistent\"",
	"\"match\":\"tick-1ms\"",
	"\"create\":\"tick-5ms\"",
	"\"vcpu\":0",
	"\"vcpu\":3",
	"\"vcpu\":900",
	"\"epid\":1",
	"\"aggregation\":1",
	"\"number\":1",
	"\"length\":0",
	"\"room\":0",
	"\"from\":0",
	"\"id\":2",
	"\"n\":1",
	"\"probe\":\"*\"",
	"\"provider\":\"profile\"",
	"\"vcpu\":\"x\"",
	"\"program\":null",
};

static void send_anything(struct peer *p)
{
	char line[1024];
	size_t at =
		(size_t)snprintf(line, sizeof(line), "{\"execute\":\"trace-%s\",\"arguments\":{",
				 operations[chance(ARRAY_SIZE(operations))]);
	const uint32_t n = chance(3);
	uint32_t piece = chance(ARRAY_SIZE(pieces));

	for (uint32_t i = 0; i < n; i++) {
		at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s", i ? "," : "",
				       pieces[piece % ARRAY_SIZE(pieces)]);
		piece += 3 + chance(5);
	}
	snprintf(line + at, sizeof(line) - at, "}}\n");
	peer_send(p, line);
}

/* Three clients at once: each request has its answer, whatever it is, and the server lives on. */
START_TEST(anything_is_answered)
{
	struct peer *const peers[] = { &a, &b, &c };
	uint32_t returns = 0, errors = 0;

	begin();
	for (uint32_t round = 0; round < 700; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
			send_anything(peers[i]);
		for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
			const char *line = peer_line(peers[i]);
			json_t *o = json_loads(line, 0, NULL);

			ck_assert_msg(o, "%.200s", line);
			returns += json_object_get(o, "return") != NULL;
			errors += json_object_get(o, "error") != NULL;
			json_decref(o);
		}
		if (chance(50) == 0) {
			struct peer *p = peers[chance(3)];

			peer_close(p);
			peer_connect(p, false);
		}
	}
	ck_assert_uint_eq(returns + errors, 3 * 700);
	ck_assert_uint_gt(returns, 100);
	ck_assert_int_gt(number_in(ask(&a, "conf", ""), "vcpus"), 0);
	end();
}
END_TEST

Suite *suite_trace(void)
{
	Suite *suite = suite_create("trace");
	TCase *t = tcase_create("trace");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, session_is_its_connections);
	tcase_add_test(t, persistent_session_outlives_its_connection);
	tcase_add_test(t, what_there_is_is_told);
	tcase_add_test(t, wrong_arguments_are_refused);
	tcase_add_test(t, time_fires);
	tcase_add_test(t, what_fires_and_what_is_late_was_due);
	tcase_add_test(t, events_are_told);
	tcase_add_test(t, stackshots_are_taken);
	tcase_add_test(t, anything_is_answered);
	suite_add_tcase(suite, t);
	return suite;
}
