/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: each operation in each state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/probe/suites.h"

static struct made m;
static struct probe_session *s;
static uint64_t now_ns;

static uint64_t clock_now(void)
{
	return now_ns;
}

static void begin(void)
{
	now_ns = 1000;
	made_create(&m, clock_now, 100);
	s = made_session(&m);
}

static void end(void)
{
	probe_session_destroy(s);
	made_destroy(&m);
}

static enum probe_state state(void)
{
	struct probe_status status;

	if (probe_session_status(s, &status, &made_error) == GS_ENOENT)
		return PROBE_INACTIVE;
	ck_assert_int_eq(status.exiting, status.state == PROBE_DRAINING);
	ck_assert_int_eq(status.killed, status.state == PROBE_KILLED);
	return status.state;
}

/* Bring a new session into a state. */
static void reach(enum probe_state wanted)
{
	begin();
	ck_assert_int_eq(made_enable(s, "made::f0: { count() }; made::f1: { exit() }"), GS_OK);
	if (wanted == PROBE_INACTIVE)
		return;
	made_go(s);
	if (wanted == PROBE_DRAINING)
		made_fire(&m, 1, 2, 0, 0);
	if (wanted == PROBE_STOPPED)
		made_stop(s);
	if (wanted == PROBE_KILLED) {
		now_ns += 101;
		probe_engine_deadman(m.e);
	}
	ck_assert_int_eq(state(), wanted);
}

static const struct {
	enum probe_state state;
	enum gs_code enable, rematch, replicate, go, stop, buffer, aggregates;
	enum probe_state after_go, after_stop;
} rules[] = {
	{ PROBE_INACTIVE, GS_OK, GS_OK, GS_OK, GS_OK, GS_EBUSY, GS_EBUSY, GS_EBUSY, PROBE_ACTIVE,
	  PROBE_INACTIVE },
	{ PROBE_ACTIVE, GS_EBUSY, GS_OK, GS_OK, GS_EBUSY, GS_OK, GS_OK, GS_OK, PROBE_ACTIVE,
	  PROBE_STOPPED },
	{ PROBE_DRAINING, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_OK, GS_OK, GS_OK,
	  PROBE_DRAINING, PROBE_STOPPED },
	{ PROBE_STOPPED, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_OK, GS_OK,
	  PROBE_STOPPED, PROBE_STOPPED },
	{ PROBE_KILLED, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_EBUSY, GS_OK, GS_OK,
	  PROBE_KILLED, PROBE_KILLED },
};

/* The result of a call that sets json, which nobody wants. */
#define taken(call, json)                     \
	({                                    \
		enum gs_code taken_ = (call); \
		if (!taken_)                  \
			json_decref(json);    \
		taken_;                       \
	})

START_TEST(each_state_refuses_what_it_has_to)
{
	struct probe_pattern f0 = { .provider = "made", .function = "f0" };
	struct probe_pattern f2 = { .provider = "made", .function = "f2" };
	uint32_t n;
	json_t *json = NULL;

	reach(rules[_i].state);
	ck_assert_int_eq(made_enable(s, "made::f3: {}"), rules[_i].enable);
	ck_assert_int_eq(probe_session_rematch(s, &n, &made_error), rules[_i].rematch);
	ck_assert_int_eq(probe_session_replicate(s, &f0, &f2, &n, &made_error),
			 rules[_i].replicate);
	ck_assert_int_eq(taken(probe_session_buffer(s, 0, &json, &made_error), json),
			 rules[_i].buffer);
	ck_assert_int_eq(taken(probe_session_aggregates(s, 0, &json, &made_error), json),
			 rules[_i].aggregates);
	ck_assert_int_eq(taken(probe_session_buffer(s, MADE_VCPUS, &json, &made_error), json),
			 GS_ENOENT);
	ck_assert_int_eq(state(), rules[_i].state);
	/* descriptions are given in every state */
	ck_assert_int_eq(taken(probe_session_enablings(s, 100, &json, &made_error), json), GS_OK);
	ck_assert_int_eq(taken(probe_session_eprobe(s, 1, 9, &json, &made_error), json), GS_OK);
	ck_assert_int_eq(taken(probe_session_aggregation(s, 1, 9, &json, &made_error), json),
			 GS_OK);
	end();

	reach(rules[_i].state);
	ck_assert_int_eq(probe_session_go(s, &n, &made_error), rules[_i].go);
	ck_assert_int_eq(state(), rules[_i].after_go);
	end();

	reach(rules[_i].state);
	ck_assert_int_eq(probe_session_stop(s, &n, &made_error), rules[_i].stop);
	ck_assert_int_eq(state(), rules[_i].after_stop);
	end();
}
END_TEST

START_TEST(only_an_active_session_records)
{
	begin();
	ck_assert_int_eq(made_enable(s, "made::f0: { count() }; made::f1: { exit() }"), GS_OK);
	made_fire(&m, 0, 1, 0, 0);
	made_go(s);
	made_fire(&m, 0, 1, 0, 0);
	made_fire(&m, 0, 2, 0, 0);
	made_fire(&m, 1, 0, 0, 0);
	made_fire(&m, 0, 1, 0, 0); /* draining */
	made_stop(s);
	made_fire(&m, 0, 1, 0, 0);
	ck_assert_int_eq(made_sum(s), 2);
	ck_assert_int_eq(made_sum(s), 0); /* not twice */
	end();
}
END_TEST

START_TEST(first_and_last_record_are_of_the_session)
{
	json_t *records;

	begin();
	ck_assert_int_eq(
		made_enable(s, "session:::begin, session:::end, made::f0: { trace(vcpu) }"), GS_OK);
	ck_assert_uint_eq(made_matched, 3);
	made_go(s);
	made_fire(&m, 0, 0, 0, 0);
	made_stop(s);
	records = made_records(s, 0, NULL, NULL);
	ck_assert_uint_eq(json_array_size(records), 3);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(records, 0), "epid")),
			 1);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(records, 1), "epid")),
			 3);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(records, 2), "epid")),
			 2);
	json_decref(records);
	end();
}
END_TEST

/* begin may end it; a session without anything enabled goes and stops, too. */
START_TEST(exit_in_begin_drains)
{
	struct probe_session *empty;

	begin();
	ck_assert_int_eq(made_enable(s, "session:::begin { exit() }"), GS_OK);
	made_go(s);
	ck_assert_int_eq(state(), PROBE_DRAINING);
	made_stop(s);
	empty = made_session(&m);
	made_go(empty);
	made_stop(empty);
	probe_session_destroy(empty);
	end();
}
END_TEST

START_TEST(program_is_enabled_whole_or_not_at_all)
{
	json_t *json;

	begin();
	m.refuse = 1u << 5;
	ck_assert_int_eq(made_enable(s, "made::f1: { count() }; made::f?: { trace(arg0) }"),
			 GS_ENOSPC);
	ck_assert_ptr_nonnull(strstr(made_error.text, "made:m:f5:hit: no breakpoint is left"));
	ck_assert_uint_eq(m.enabled, 0);
	ck_assert_int_eq(probe_session_enablings(s, 100, &json, &made_error), GS_OK);
	ck_assert_int_eq(json_integer_value(json_object_get(json, "length")), 0);
	json_decref(json);
	ck_assert_int_eq(probe_session_eprobe(s, 1, 0, &json, &made_error), GS_ENOENT);
	m.refuse = 0;
	ck_assert_int_eq(made_enable(s, "made::f1: { count() }; made::f?: { trace(arg0) }"), GS_OK);
	ck_assert_uint_eq(made_matched, 9);
	ck_assert_uint_eq(m.enabled, 0xff);
	end();
}
END_TEST

START_TEST(probe_is_enabled_once_for_all)
{
	struct probe_session *other;

	begin();
	other = made_session(&m);
	ck_assert_int_eq(made_enable(s, "made::f0: { count() }; made::f0: { count() }"), GS_OK);
	ck_assert_int_eq(made_enable(other, "made::f0: { count() }"), GS_OK);
	ck_assert_uint_eq(m.enables, 1);
	made_go(s);
	made_go(other);
	made_fire(&m, 0, 0, 0, 0);
	made_stop(s);
	ck_assert_uint_eq(m.enabled, 1);
	made_fire(&m, 0, 0, 0, 0);
	ck_assert_int_eq(made_sum(s), 2);
	ck_assert_int_eq(made_sum(other), 2);
	probe_session_destroy(other);
	ck_assert_uint_eq(m.enabled, 0);
	end();
}
END_TEST

START_TEST(new_probes_are_matched_when_asked)
{
	uint32_t n;

	begin();
	m.there = 2;
	ck_assert_int_eq(made_enable(s, "made::f?: { count() }"), GS_OK);
	ck_assert_uint_eq(made_matched, 2);
	made_go(s);
	m.there = 4;
	ck_assert_int_eq(probe_session_rematch(s, &n, &made_error), GS_OK);
	ck_assert_uint_eq(n, 2);
	ck_assert_int_eq(probe_session_rematch(s, &n, &made_error), GS_OK);
	ck_assert_uint_eq(n, 0);
	for (uint32_t i = 0; i < 4; i++)
		made_fire(&m, i, 1, 0, 0);
	ck_assert_int_eq(made_sum(s), 4);
	end();
}
END_TEST

START_TEST(clause_is_replicated_by_its_pattern)
{
	struct probe_pattern match = { .provider = "made", .function = "f0" };
	struct probe_pattern create = { .provider = "made", .function = "f[67]" };
	json_t *json;
	uint32_t n;

	begin();
	ck_assert_int_eq(made_enable(s, "made::f1:, made::f0: { sum(arg0) }"), GS_OK);
	ck_assert_int_eq(probe_session_replicate(s, &match, &create, &n, &made_error), GS_OK);
	ck_assert_uint_eq(n, 0); /* brackets are no glob */
	strcpy(create.function, "f7");
	ck_assert_int_eq(probe_session_replicate(s, &match, &create, &n, &made_error), GS_OK);
	ck_assert_uint_eq(n, 1);
	strcpy(match.function, "f9");
	ck_assert_int_eq(probe_session_replicate(s, &match, &create, &n, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_session_enablings(s, 12, &json, &made_error), GS_OK);
	ck_assert_str_eq(json_string_value(json_object_get(json, "text")), "made::f1:, m");
	ck_assert_int_gt(json_integer_value(json_object_get(json, "length")), 60);
	ck_assert_uint_eq(
		json_array_size(json_object_get(json_object_get(json, "program"), "clauses")), 3);
	json_decref(json);
	made_go(s);
	made_fire(&m, 7, 2, 5, 0);
	made_fire(&m, 0, 2, 6, 0);
	ck_assert_int_eq(made_sum(s), 11);
	end();
}
END_TEST

START_TEST(session_that_nobody_asks_about_is_killed)
{
	struct probe_status status;
	json_t *json;

	reach(PROBE_ACTIVE);
	made_fire(&m, 0, 0, 0, 0);
	now_ns += 100;
	probe_engine_deadman(m.e);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK); /* proof of life */
	ck_assert_int_eq(status.state, PROBE_ACTIVE);
	now_ns += 100;
	ck_assert_int_eq(probe_session_buffer(s, 0, &json, &made_error), GS_OK); /* so is this */
	json_decref(json);
	now_ns += 100;
	probe_engine_deadman(m.e);
	ck_assert_uint_eq(m.enabled, 3);
	now_ns += 1;
	probe_engine_deadman(m.e);
	ck_assert_uint_eq(m.enabled, 0); /* the guest has its text back */
	ck_assert_int_eq(state(), PROBE_KILLED);
	made_fire(&m, 0, 0, 0, 0);
	ck_assert_int_eq(made_sum(s), 1); /* what it has is still to be had */
	end();
}
END_TEST

START_TEST(options_are_checked_and_kept_on_success_only)
{
	static const struct probe_options bad[] = {
		{ PROBE_POLICY_SWITCH, PROBE_BUFFER_MIN - 1, 0 },
		{ PROBE_POLICY_SWITCH, PROBE_BUFFER_MAX + 1, 0 },
		{ PROBE_POLICY_SWITCH, 0, PROBE_BUFFER_MIN - 1 },
		{ PROBE_POLICY_SWITCH, 0, PROBE_BUFFER_MAX + 1 },
	};
	struct probe_program p;
	uint32_t n;
	json_t *json;

	begin();
	ck_assert_int_eq(probe_program_parse("made::f0: {}", 12, &p, &made_error), GS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		ck_assert_int_eq(probe_session_enable(s, &p, &bad[i], &n, &made_error), GS_EINVAL);
	m.refuse = 1;
	ck_assert_int_eq(
		probe_session_enable(s, &p, &(struct probe_options){ .policy = PROBE_POLICY_FILL },
				     &n, &made_error),
		GS_ENOSPC);
	m.refuse = 0;
	ck_assert_int_eq(probe_session_enable(s, &p, NULL, &n, &made_error), GS_OK);
	made_go(s);
	/* of policy fill it could not be had yet */
	ck_assert_int_eq(probe_session_buffer(s, 0, &json, &made_error), GS_OK);
	json_decref(json);
	probe_program_deinit(&p);
	end();
}
END_TEST

START_TEST(what_is_enabled_is_described)
{
	json_t *json;

	begin();
	ck_assert_int_eq(made_enable(s,
				     "made::f0: { trace(\"opened\", comm, arg0); "
				     "quantize(arg1) by comm, vcpu; trace(pid); trace(\"end\") }"),
			 GS_OK);
	ck_assert_int_eq(probe_session_eprobe(s, 1, 2, &json, &made_error), GS_OK);
	char *text = json_dumps(json, JSON_COMPACT);
	ck_assert_str_eq(text,
			 "{\"epid\":1,\"probe\":{\"id\":3,\"provider\":\"made\",\"module\":\"m\","
			 "\"function\":\"f0\",\"name\":\"hit\"},\"clause\":1,\"size\":48,"
			 "\"records\":[{\"action\":\"trace\",\"term\":\"comm\",\"offset\":16,"
			 "\"size\":16,\"format\":1},{\"action\":\"trace\",\"term\":\"arg0\","
			 "\"offset\":32,\"size\":8,\"format\":0}],\"record_count\":4}");
	free(text);
	json_decref(json);
	ck_assert_int_eq(probe_session_aggregation(s, 1, 8, &json, &made_error), GS_OK);
	text = json_dumps(json, JSON_COMPACT);
	ck_assert_str_eq(
		text, "{\"aggregation\":1,\"epid\":1,\"action\":2,\"function\":\"quantize\","
		      "\"of\":\"arg1\",\"records\":[{\"action\":\"by\",\"term\":\"comm\","
		      "\"offset\":0,\"size\":16,\"format\":0},{\"action\":\"by\",\"term\":\"vcpu\","
		      "\"offset\":16,\"size\":8,\"format\":0},{\"action\":\"quantize\","
		      "\"term\":\"arg1\",\"offset\":24,\"size\":1016,\"format\":0}],"
		      "\"record_count\":3}");
	free(text);
	json_decref(json);
	ck_assert_int_eq(probe_session_format(s, 1, 3, &json, &made_error), GS_OK);
	text = json_dumps(json, JSON_COMPACT);
	ck_assert_str_eq(text, "{\"text\":\"ope\",\"length\":6}");
	free(text);
	json_decref(json);
	ck_assert_int_eq(probe_session_format(s, 2, 3, &json, &made_error), GS_OK);
	json_decref(json);
	ck_assert_int_eq(probe_session_format(s, 3, 3, &json, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_session_format(s, 0, 3, &json, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_session_eprobe(s, 2, 3, &json, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_session_aggregation(s, 2, 3, &json, &made_error), GS_ENOENT);
	end();
}
END_TEST

START_TEST(probes_are_listed_in_pages)
{
	struct probe_pattern f = { .provider = "made", .function = "f[" };
	struct probe_arg_type type;
	json_t *json;
	char name[16];
	uint32_t id;

	begin();
	for (uint32_t i = 0; i < PROBE_LIST_MAX + 10; i++) {
		snprintf(name, sizeof(name), "g%u", i);
		ck_assert_int_eq(probe_create(m.p, "n", name, "hit", i, &id), GS_OK);
		ck_assert_int_eq(probe_create(m.p, "n", name, "hit", i, &id), GS_EEXIST);
		ck_assert_uint_eq(id, i + 3);
	}
	ck_assert_int_eq(probe_engine_list(m.e, &f, 0, &json, &made_error), GS_ENOENT);
	strcpy(f.function, "g*");
	ck_assert_int_eq(probe_engine_list(m.e, &f, 0, &json, &made_error), GS_OK);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "probes")), PROBE_LIST_MAX);
	const json_int_t next = json_integer_value(json_object_get(json, "next"));
	json_decref(json);
	ck_assert_int_eq(next, PROBE_LIST_MAX + 3);
	ck_assert_int_eq(probe_engine_list(m.e, &f, (uint32_t)next, &json, &made_error), GS_OK);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "probes")), 10);
	ck_assert(json_is_null(json_object_get(json, "next")));
	json_decref(json);
	/* from none on, they are provided; from some id on, they are not */
	strcpy(f.function, "f?");
	ck_assert_int_eq(probe_engine_list(m.e, &f, 1, &json, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_engine_list(m.e, &f, 0, &json, &made_error), GS_OK);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "probes")), MADE_PROBES);
	json_decref(json);
	ck_assert_int_eq(probe_engine_arg(m.e, m.id[0], 0, &type, &made_error), GS_OK);
	ck_assert_str_eq(type.native, "struct file *");
	ck_assert_int_eq(probe_engine_arg(m.e, m.id[0], 1, &type, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_engine_arg(m.e, m.id[0], PROBE_ARGS_MAX, &type, &made_error),
			 GS_ENOENT);
	ck_assert_int_eq(probe_engine_arg(m.e, 1, 0, &type, &made_error), GS_ENOENT);
	ck_assert_int_eq(probe_engine_arg(m.e, 0, 0, &type, &made_error), GS_EINVAL);
	ck_assert_int_eq(probe_engine_arg(m.e, 99999, 0, &type, &made_error), GS_EINVAL);
	ck_assert_int_eq(probe_engine_provider(m.e, "made", &json, &made_error), GS_OK);
	ck_assert_int_eq(json_integer_value(json_object_get(json, "probes")),
			 PROBE_LIST_MAX + 10 + MADE_PROBES);
	json_decref(json);
	ck_assert_int_eq(probe_engine_provider(m.e, "fbt", &json, &made_error), GS_ENOENT);
	json = probe_engine_conf(m.e);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "providers")), 2);
	json_decref(json);
	end();
}
END_TEST

START_TEST(limits_of_sessions_hold)
{
	struct probe_session *many[PROBE_SESSIONS_MAX], *more;
	char name[16];
	uint32_t id;

	begin();
	for (uint32_t i = 1; i < PROBE_SESSIONS_MAX; i++) {
		many[i] = made_session(&m);
		ck_assert_uint_eq(probe_session_id(many[i]), i + 1);
	}
	ck_assert_int_eq(probe_session_create(m.e, &more, &made_error), GS_ETOOBIG);
	for (uint32_t i = 1; i < PROBE_SESSIONS_MAX; i++)
		probe_session_destroy(many[i]);
	for (uint32_t i = 0; i < PROBE_SESSION_CLAUSES_MAX; i++)
		ck_assert_int_eq(made_enable(s, "none {}"), GS_OK);
	ck_assert_int_eq(made_enable(s, "none {}"), GS_ETOOBIG);
	probe_session_destroy(s);
	s = made_session(&m);
	for (uint32_t i = 0; i < PROBE_ENABLED_MAX / 4 + 1; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		ck_assert_int_eq(probe_create(m.p, "n", name, "many", 9, &id), GS_OK);
	}
	m.id[7] = 0;
	ck_assert_int_eq(made_enable(s, "many {} many {} many {} many {}"), GS_ETOOBIG);
	ck_assert_uint_eq(m.enables, 0);
	end();
}
END_TEST

Suite *suite_session(void)
{
	Suite *suite = suite_create("session");
	TCase *t = tcase_create("session");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, each_state_refuses_what_it_has_to, 0, ARRAY_SIZE(rules));
	tcase_add_test(t, only_an_active_session_records);
	tcase_add_test(t, first_and_last_record_are_of_the_session);
	tcase_add_test(t, exit_in_begin_drains);
	tcase_add_test(t, program_is_enabled_whole_or_not_at_all);
	tcase_add_test(t, probe_is_enabled_once_for_all);
	tcase_add_test(t, new_probes_are_matched_when_asked);
	tcase_add_test(t, clause_is_replicated_by_its_pattern);
	tcase_add_test(t, session_that_nobody_asks_about_is_killed);
	tcase_add_test(t, options_are_checked_and_kept_on_success_only);
	tcase_add_test(t, what_is_enabled_is_described);
	tcase_add_test(t, probes_are_listed_in_pages);
	tcase_add_test(t, limits_of_sessions_hold);
	suite_add_tcase(suite, t);
	return suite;
}
