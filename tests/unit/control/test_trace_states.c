/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing from three clients at once: each operation, in and out of order, beside a model of the sessions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/served.h"
#include "tests/unit/control/suites.h"

#define CLIENTS	     3u
#define VCPUS	     4u
#define OPERATIONS   2000u
#define RACES	     20u
#define PROGRAMS_MAX 3u	  /* that a session enables, so that its buffers hold what is fired */
#define CLAUSES_MAX  24u  /* ... with those that are replicated */
#define RECORDS_MAX  100u /* waiting on a vCPU */
#define NO_SESSION   UINT32_C(4000000000)

static struct served s;

/* --- the model ---------------------------------------------------------------------------------- */

enum state { NONE, INACTIVE, ACTIVE, DRAINING, STOPPED, STATES };

static const char *const state_names[STATES] = {
	[ACTIVE] = "active", [DRAINING] = "draining", [STOPPED] = "stopped"
};

/* What a session is, by what was done to it. Its programs count and record what is fired for it alone. */
struct model {
	enum state state;
	bool is_switch, has_exit;
	bool is_consumed[VCPUS];
	uint32_t programs;
	uint32_t clauses, enabled; /* of these the first one of each program fires */
	uint32_t records[VCPUS];   /* of each program, waiting */
	uint32_t sums[VCPUS];	   /* fired since they were handed over */
	uint32_t own;		   /* number that makes events its own: arg0 */
	uint32_t number;	   /* of a persistent session */
};

enum expected { OK, BUSY, NOT_FOUND, INVALID };

static const char *const classes[] = {
	[BUSY] = "busy", [NOT_FOUND] = "not-found", [INVALID] = "invalid-argument"
};

/* An operation on a session that is needed in one of these states; what is not there is not found. */
static enum expected in_states(const struct model *m, uint32_t mask)
{
	if (m->state == NONE)
		return NOT_FOUND;
	return mask & 1u << m->state ? OK : BUSY;
}

#define LIVES	((1u << INACTIVE) | (1u << ACTIVE))
#define STARTED ((1u << ACTIVE) | (1u << DRAINING) | (1u << STOPPED))
#define ANY	((1u << INACTIVE) | STARTED)

/* --- a client ----------------------------------------------------------------------------------- */

struct actor {
	struct peer *peer;
	uint32_t seed, index;
	struct model own;
	uint32_t oks, refusals; /* so that a run that only ever did one of them is noticed */
	uint32_t reached;	/* a bit for each state that an operation was tried in */
};

static uint32_t chance(struct actor *a, uint32_t n)
{
	a->seed = a->seed * 1664525 + 1013904223;
	return (a->seed >> 12) % n;
}

/*
 * Ask, and see that the answer is what the model says.
 *
 * @param arguments  inside of their braces
 * @return what came back; NULL: an error was expected, and came. json_decref()
 */
static json_t *ask(struct actor *a, struct peer *peer, const struct model *m, const char *operation,
		   const char *arguments, enum expected expected)
{
	char line[1024], session[32] = "";

	if (m && m->number)
		snprintf(session, sizeof(session), "\"session\":%u%s", m->number,
			 *arguments ? "," : "");
	snprintf(line, sizeof(line), "{\"execute\":\"trace-%s\",\"arguments\":{%s%s}}", operation,
		 session, arguments);
	const char *said = peer_ask(peer, line);
	json_t *o = json_loads(said, 0, NULL), *answer = json_object_get(o, "return");
	const char *class =
		json_string_value(json_object_get(json_object_get(o, "error"), "class"));
	ck_assert_msg(o && (expected ? class && !strcmp(class, classes[expected]) : answer != NULL),
		      "%s in state %d, wanted %s: %.300s", line, m ? (int)m->state : -1,
		      expected ? classes[expected] : "an answer", said);
	a->oks += !expected;
	a->refusals += expected != OK;
	if (m)
		a->reached |= 1u << m->state;
	json_incref(answer);
	json_decref(o);
	return answer;
}

static uint32_t number_of(const json_t *answer, const char *name)
{
	const json_t *n = json_object_get(answer, name);

	ck_assert_msg(json_is_integer(n), "no %s", name);
	return (uint32_t)json_integer_value(n);
}

/* --- operations --------------------------------------------------------------------------------- */

static void enable(struct actor *a, struct peer *peer, struct model *m, bool persistent)
{
	const bool has_exit = chance(a, 5) == 0, is_bad = chance(a, 8) == 0;
	const bool has_policy = chance(a, 2);
	static const char *const policies[] = { "switch", "ring", "fill" };
	const uint32_t policy = chance(a, 3);
	struct model as_it_is = *m;
	char arguments[600];

	if (m->state == INACTIVE && m->programs == PROGRAMS_MAX)
		return;
	snprintf(arguments, sizeof(arguments),
		 "\"program\":\"vcpu::mmio:exit /arg0 == %u/ { count(); trace(\\\"l\\\", arg0) "
		 "}%s%s\""
		 "%s%s%s%s",
		 m->own, has_exit ? "; session:::begin { exit() }" : "", is_bad ? " }" : "",
		 has_policy ? ",\"policy\":\"" : "", has_policy ? policies[policy] : "",
		 has_policy ? "\"" : "", persistent ? ",\"persistent\":true" : "");
	/* the session is the connection's, or the maker's */
	as_it_is.number = 0;
	json_t *answer = ask(a, peer, &as_it_is, "enable", arguments,
			     is_bad					? INVALID
			     : m->state == NONE || m->state == INACTIVE ? OK
									: BUSY);
	if (!answer)
		return;
	const uint32_t session = number_of(answer, "session");
	ck_assert_uint_eq(number_of(answer, "matched"), 1 + has_exit);
	json_decref(answer);
	if (m->state == NONE)
		*m = (struct model){ .state = INACTIVE, .is_switch = true, .own = m->own };
	m->number = persistent ? session : 0;
	m->programs++;
	m->clauses += 1 + has_exit;
	m->enabled += 1 + has_exit;
	m->has_exit |= has_exit;
	if (has_policy)
		m->is_switch = policy == 0;
}

static void rematch(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer = ask(a, peer, m, "enable", "", in_states(m, LIVES));

	if (answer)
		ck_assert_uint_eq(number_of(answer, "matched"), 0);
	json_decref(answer);
}

static void replicate(struct actor *a, struct peer *peer, struct model *m)
{
	const bool is_there = chance(a, 3);
	enum expected expected = in_states(m, LIVES);

	if (m->clauses + m->programs > CLAUSES_MAX)
		return;
	if (!expected && !is_there)
		expected = NOT_FOUND;
	json_t *answer =
		ask(a, peer, m, "replicate",
		    is_there ? "\"match\":\"vcpu::mmio:exit\",\"create\":\"vcpu::other:exit\""
			     : "\"match\":\"vcpu::other\",\"create\":\"vcpu::mmio:exit\"",
		    expected);
	if (!answer)
		return;
	ck_assert_uint_eq(number_of(answer, "matched"), m->programs);
	json_decref(answer);
	m->clauses += m->programs;
	m->enabled += m->programs;
}

static void go(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer = ask(a, peer, m, "go", "", in_states(m, 1u << INACTIVE));

	if (answer)
		m->state = m->has_exit ? DRAINING : ACTIVE;
	json_decref(answer);
}

static void stop(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer =
		ask(a, peer, m, "stop", "", in_states(m, (1u << ACTIVE) | (1u << DRAINING)));

	if (answer)
		m->state = STOPPED;
	json_decref(answer);
}

static void status(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer = ask(a, peer, m, "status", "",
			     m->state == INACTIVE ? NOT_FOUND : in_states(m, STARTED));

	if (!answer)
		return;
	ck_assert_str_eq(json_string_value(json_object_get(answer, "state")),
			 state_names[m->state]);
	ck_assert_uint_eq(number_of(answer, "enabled"), m->enabled);
	ck_assert_uint_eq(number_of(answer, "clauses"), m->clauses);
	ck_assert_uint_eq(number_of(answer, "drops"), 0);
	ck_assert_uint_eq(number_of(answer, "errors"), 0);
	ck_assert_uint_eq(number_of(answer, "gone"), 0);
	ck_assert_int_eq(json_is_true(json_object_get(answer, "exiting")), m->state == DRAINING);
	ck_assert(json_is_false(json_object_get(answer, "killed")));
	json_decref(answer);
}

static void buf_snap(struct actor *a, struct peer *peer, struct model *m)
{
	const uint32_t vcpu = chance(a, VCPUS + 1);
	enum expected expected = vcpu == VCPUS ? NOT_FOUND : in_states(m, STARTED);
	char arguments[32];

	if (!expected && !m->is_switch && m->state != STOPPED)
		expected = BUSY;
	snprintf(arguments, sizeof(arguments), "\"vcpu\":%u", vcpu);
	json_t *answer = ask(a, peer, m, "buf-snap", arguments, expected);
	if (!answer)
		return;
	/* what was handed over is not handed out again */
	const uint32_t records = m->is_consumed[vcpu] ? 0 : m->records[vcpu] * m->programs;
	const json_t *list = json_object_get(answer, "records");
	ck_assert_uint_eq(json_array_size(list), records);
	for (uint32_t i = 0; i < records; i++)
		ck_assert_int_eq(json_integer_value(json_array_get(
					 json_object_get(json_array_get(list, i), "terms"), 0)),
				 m->own);
	ck_assert(json_is_false(json_object_get(answer, "more")));
	json_decref(answer);
	m->records[vcpu] = 0;
	m->is_consumed[vcpu] = !m->is_switch;
}

static void agg_snap(struct actor *a, struct peer *peer, struct model *m)
{
	const uint32_t vcpu = chance(a, VCPUS + 1);
	char arguments[32];

	snprintf(arguments, sizeof(arguments), "\"vcpu\":%u", vcpu);
	json_t *answer = ask(a, peer, m, "agg-snap", arguments,
			     vcpu == VCPUS ? NOT_FOUND : in_states(m, STARTED));
	if (!answer)
		return;
	const json_t *list = json_object_get(answer, "entries");
	ck_assert_uint_eq(json_array_size(list), m->sums[vcpu] ? m->programs : 0);
	for (size_t i = 0; i < json_array_size(list); i++)
		ck_assert_uint_eq(number_of(json_array_get(list, i), "value"), m->sums[vcpu]);
	json_decref(answer);
	m->sums[vcpu] = 0;
}

/* Descriptions: of the last one there is, or of the one behind it. */
static void describe(struct actor *a, struct peer *peer, struct model *m)
{
	static const char *const operations[][2] = { { "eprobe", "epid" },
						     { "format", "number" },
						     { "agg-desc", "aggregation" } };
	const uint32_t which = chance(a, ARRAY_SIZE(operations));
	const uint32_t past = chance(a, 2), last = which ? m->clauses : m->enabled;
	char arguments[64];

	/* each clause has a label and an aggregation, but for those with exit() */
	snprintf(arguments, sizeof(arguments), "\"%s\":%u", operations[which][1],
		 past ? last + 1 : 1);
	json_decref(ask(a, peer, m, operations[which][0], arguments,
			past ? NOT_FOUND : in_states(m, ANY)));
}

static void enablings(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer = ask(a, peer, m, "enablings", "", in_states(m, ANY));

	if (answer)
		ck_assert_uint_eq(json_array_size(json_object_get(
					  json_object_get(answer, "program"), "clauses")),
				  m->clauses);
	json_decref(answer);
}

static void close_session(struct actor *a, struct peer *peer, struct model *m)
{
	json_t *answer = ask(a, peer, m, "close", "", in_states(m, ANY));

	if (answer)
		*m = (struct model){ .own = m->own, .number = m->number };
	json_decref(answer);
}

/* What needs no session. */
static void look_around(struct actor *a, struct peer *peer, struct model *m)
{
	static const struct {
		const char *operation, *arguments;
		enum expected expected;
	} asked[] = {
		{ "conf", "", OK },
		{ "provider", "\"provider\":\"vcpu\"", OK },
		{ "provider", "\"provider\":\"none\"", NOT_FOUND },
		{ "probes", "", OK },
		{ "probes", "\"from\":100000", NOT_FOUND },
		{ "probe-match", "\"probe\":\"vcpu:::exit\"", OK },
		{ "probe-match", "\"probe\":\"vcpu:::none\"", NOT_FOUND },
		{ "probe-arg", "\"id\":1,\"n\":0", NOT_FOUND },
		{ "probe-arg", "\"id\":99999,\"n\":0", INVALID },
	};
	const uint32_t i = chance(a, ARRAY_SIZE(asked));

	(void)m;
	json_decref(ask(a, peer, NULL, asked[i].operation, asked[i].arguments, asked[i].expected));
}

/* A vCPU's events, from the thread that has this vCPU. */
static void fire(struct actor *a, struct model *m)
{
	const uint32_t n = 1 + chance(a, 5);

	if ((m->records[a->index] + n) * gs_max(m->programs, 1) > RECORDS_MAX)
		return;
	for (uint32_t i = 0; i < n; i++)
		ctl_trace_vcpu(s.trace, a->index, CTL_TRACE_EXIT_MMIO, m->own, NULL, NULL);
	if (m->state == ACTIVE) {
		m->records[a->index] += n;
		m->sums[a->index] += n;
	}
}

static void act(struct actor *a, struct peer *maker, struct model *m)
{
	static void (*const operations[])(struct actor * a, struct peer * peer,
					  struct model * m) = {
		rematch,  replicate, go,	  buf_snap, agg_snap, status,
		describe, enablings, look_around, buf_snap, stop,     close_session,
	};
	const uint32_t which = chance(a, 20);

	if (which < 3)
		enable(a, maker, m, maker != a->peer);
	else if (which < 3 + ARRAY_SIZE(operations))
		operations[which - 3](a, a->peer, m);
	else
		fire(a, m);
}

/* --- three at once ------------------------------------------------------------------------------ */

/* One that all of them use, each operation beside the model at once. */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct model shared;
static struct peer maker;
static struct peer peers[CLIENTS];

static void reconnect(struct actor *a)
{
	peer_close(a->peer);
	peer_connect(a->peer, false);
	a->own = (struct model){ .own = a->own.own };
}

static void *act_often(void *arg)
{
	struct actor *a = arg;

	for (uint32_t i = 0; i < OPERATIONS; i++) {
		if (chance(a, 3)) {
			act(a, a->peer, &a->own);
		} else {
			pthread_mutex_lock(&shared_lock);
			act(a, &maker, &shared);
			pthread_mutex_unlock(&shared_lock);
		}
		if (chance(a, 60) == 0)
			reconnect(a);
	}
	return NULL;
}

static void begin(void)
{
	folder_enter();
	served_start(&s, 0);
	peer_connect(&maker, false);
	for (uint32_t i = 0; i < CLIENTS; i++)
		peer_connect(&peers[i], false);
}

static void end(void)
{
	peer_close(&maker);
	for (uint32_t i = 0; i < CLIENTS; i++)
		peer_close(&peers[i]);
	served_stop(&s);
	folder_leave();
}

static void run(struct actor *actors, void *(*body)(void *arg))
{
	pthread_t thread[CLIENTS];

	for (uint32_t i = 0; i < CLIENTS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, body, &actors[i]), 0);
	for (uint32_t i = 0; i < CLIENTS; i++)
		pthread_join(thread[i], NULL);
}

START_TEST(each_operation_does_in_each_state_what_the_table_says)
{
	struct actor actors[CLIENTS];

	begin();
	shared = (struct model){ .own = 100, .number = NO_SESSION };
	for (uint32_t i = 0; i < CLIENTS; i++) {
		actors[i] = (struct actor){ .peer = &peers[i], .seed = 77 + i, .index = i };
		actors[i].own.own = i + 1;
	}
	run(actors, act_often);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		ck_assert_uint_eq(actors[i].reached, (1u << STATES) - 1);
		ck_assert_uint_gt(actors[i].oks, OPERATIONS / 8);
		ck_assert_uint_gt(actors[i].refusals, OPERATIONS / 8);
	}
	end();
}
END_TEST

/* --- who is first ------------------------------------------------------------------------------- */

static pthread_barrier_t line;
static struct {
	_Atomic uint32_t done, refused, records;
} race;

/* All at once; one of them does it, and the others are told that it is done. */
static void compete(struct actor *a, const struct model *m, const char *operation,
		    const char *class)
{
	char request[128];

	snprintf(request, sizeof(request),
		 "{\"execute\":\"trace-%s\",\"arguments\":{\"session\":%u}}", operation, m->number);
	pthread_barrier_wait(&line);
	const char *said = peer_ask(a->peer, request);
	if (strstr(said, "\"return\""))
		race.done++;
	else if (strstr(said, class))
		race.refused++;
	pthread_barrier_wait(&line);
	if (a->index == 0) {
		ck_assert_uint_eq(race.done, 1);
		ck_assert_uint_eq(race.refused, CLIENTS - 1);
		race.done = race.refused = 0;
	}
	pthread_barrier_wait(&line);
}

static void *race_often(void *arg)
{
	struct actor *a = arg;

	for (uint32_t i = 0; i < RACES; i++) {
		if (a->index == 0) {
			shared = (struct model){ .own = 100, .number = NO_SESSION };
			json_t *answer = ask(
				a, &maker, NULL, "enable",
				"\"program\":\"session:::end { trace(vcpu) }\",\"policy\":\"fill\","
				"\"persistent\":true",
				OK);
			shared.number = number_of(answer, "session");
			json_decref(answer);
		}
		pthread_barrier_wait(&line);
		compete(a, &shared, "go", "\"busy\"");
		compete(a, &shared, "stop", "\"busy\"");
		/* a buffer that is handed over once is one client's */
		json_t *answer = ask(a, a->peer, &shared, "buf-snap", "\"vcpu\":0", OK);
		race.records += (uint32_t)json_array_size(json_object_get(answer, "records"));
		json_decref(answer);
		compete(a, &shared, "close", "\"not-found\"");
	}
	return NULL;
}

START_TEST(of_several_at_once_one_is_first)
{
	struct actor actors[CLIENTS];

	begin();
	ck_assert_int_eq(pthread_barrier_init(&line, NULL, CLIENTS), 0);
	for (uint32_t i = 0; i < CLIENTS; i++)
		actors[i] = (struct actor){ .peer = &peers[i], .index = i };
	run(actors, race_often);
	ck_assert_uint_eq(race.records, RACES);
	pthread_barrier_destroy(&line);
	end();
}
END_TEST

Suite *suite_trace_states(void)
{
	Suite *suite = suite_create("trace states");
	TCase *t = tcase_create("trace states");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, each_operation_does_in_each_state_what_the_table_says);
	tcase_add_test(t, of_several_at_once_one_is_first);
	suite_add_tcase(suite, t);
	return suite;
}
