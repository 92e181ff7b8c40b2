/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: read, written, and refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "tests/unit/probe/suites.h"

static struct probe_program program;
static struct gs_error err;

static enum gs_code parse(const char *text)
{
	return probe_program_parse(text, strlen(text), &program, &err);
}

static const struct probe_clause **clauses(void)
{
	static const struct probe_clause *list[PROBE_CLAUSES_MAX];

	for (uint32_t i = 0; i < program.count; i++)
		list[i] = &program.clause[i];
	return list;
}

START_TEST(glob_matches_as_people_expect)
{
	ck_assert(probe_glob("", "anything"));
	ck_assert(probe_glob("vfs_*", "vfs_read"));
	ck_assert(!probe_glob("vfs_*", "xvfs_read"));
	ck_assert(probe_glob("*read", "vfs_read"));
	ck_assert(probe_glob("v?s_*d", "vfs_read"));
	ck_assert(!probe_glob("v?s", "vfs_read"));
	ck_assert(probe_glob("*", ""));
	ck_assert(!probe_glob("?", ""));
	ck_assert(!probe_glob("a", ""));
	ck_assert(probe_glob("*a*b*", "xxaxxbxx"));
	ck_assert(!probe_glob("*a*b", "xxaxxbxx"));
	ck_assert(probe_glob("**", "x"));
}
END_TEST

/* What takes other matchers ages is over at once. */
START_TEST(glob_of_many_stars_takes_no_time)
{
	char text[200];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ck_assert(!probe_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text));
}
END_TEST

/* Text, and how it is written; NULL: the same. */
static const struct {
	const char *text, *written;
} good[] = {
	{ "fbt::vfs_read:entry /comm == \"dd\"/ { count() by stack }\n", NULL },
	{ "profile-99 { count() by symbol, comm }", ":::profile-99 { count() by symbol, comm }\n" },
	{ "tick-1s", ":::tick-1s {}\n" },
	{ "tick-1s{}", ":::tick-1s {}\n" },
	{ "a:b { exit(); }", "::a:b { exit() }\n" },
	{ "a:b:c:d, e* { trace(\"a \\\"b\\\" \\\\\", arg0, x30, lr); trace() }",
	  "a:b:c:d, :::e* { trace(\"a \\\"b\\\" \\\\\", arg0, x30, x30); trace() }\n" },
	{ "p /arg0==1&&arg1!=0x10||!pid>=-1/ {sum(arg0)by vcpu;min(x0);max(sp);avg(time_ns) by "
	  "tid, pid;quantize(pc)}",
	  ":::p /arg0 == 1 && arg1 != 16 || pid < 0xffffffffffffffff/ { sum(arg0) by vcpu; "
	  "min(x0); max(sp); avg(time_ns) by tid, pid; quantize(pc) }\n" },
	{ "p /!(arg0 == 1 || arg1 == 2) && (arg2 == 3 || arg3 == 4)/",
	  ":::p /!(arg0 == 1 || arg1 == 2) && (arg2 == 3 || arg3 == 4)/ {}\n" },
	{ "p /!!arg0 < 1 && !(!(arg1 > 2))/", ":::p /arg0 < 1 && arg1 > 2/ {}\n" },
	{ "p /(arg0 == 1 && arg1 == 2) && arg2 == 3/",
	  ":::p /(arg0 == 1 && arg1 == 2) && arg2 == 3/ {}\n" },
	{ "p {record(x0); record(arg1, 63); erase(arg0); stackshot()}\nq",
	  ":::p { record(x0); record(arg1, 63); erase(arg0); stackshot() }\n:::q {}\n" },
	{ "p /comm != \"a/b{}\"/", ":::p /comm != \"a/b{}\"/ {}\n" },
	{ "p /arg0 == 18446744073709551615/", ":::p /arg0 == 0xffffffffffffffff/ {}\n" },
};

START_TEST(what_is_read_is_written)
{
	ck_assert_msg(parse(good[_i].text) == GS_OK, "%s: %s", good[_i].text, err.text);
	char *text = probe_program_text(clauses(), program.count);
	ck_assert_str_eq(text, good[_i].written ? good[_i].written : good[_i].text);
	probe_program_deinit(&program);
	ck_assert_msg(parse(text) == GS_OK, "%s: %s", text, err.text);
	char *again = probe_program_text(clauses(), program.count);
	ck_assert_str_eq(again, text);
	probe_program_deinit(&program);
	free(again);
	free(text);
}
END_TEST

START_TEST(json_form_is_the_same_program)
{
	struct probe_program other;

	ck_assert_int_eq(parse(good[_i].text), GS_OK);
	json_t *json = probe_program_json(clauses(), program.count);
	ck_assert_ptr_nonnull(json);
	ck_assert_msg(probe_program_from_json(json, &other, &err) == GS_OK, "%s: %s", good[_i].text,
		      err.text);
	char *text = probe_program_text(clauses(), program.count);
	probe_program_deinit(&program);
	program = other;
	char *same = probe_program_text(clauses(), program.count);
	ck_assert_str_eq(same, text);
	free(same);
	free(text);
	json_decref(json);
	probe_program_deinit(&program);
}
END_TEST

static const struct {
	const char *text;
	enum gs_code code;
	const char *says;
} bad[] = {
	{ "", GS_EINVAL, "a probe is missing" },
	{ "{ count() }", GS_EINVAL, "a probe is missing" },
	{ "a:b:c:d:e", GS_EINVAL, "four parts" },
	{ "p /", GS_EINVAL, "a term is missing" },
	{ "p //", GS_EINVAL, "a term is missing" },
	{ "p /arg0/", GS_EINVAL, "a comparison is missing" },
	{ "p /arg0 = 1/", GS_EINVAL, "a comparison is missing" },
	{ "p /arg0 == 1", GS_EINVAL, "\"/\" is missing" },
	{ "p /(arg0 == 1/", GS_EINVAL, "\")\" is missing" },
	{ "p /arg0 == 1 &&/", GS_EINVAL, "a term is missing" },
	{ "p /arg8 == 1/", GS_EINVAL, "unknown term \"arg8\"" },
	{ "p /x31 == 1/", GS_EINVAL, "unknown term \"x31\"" },
	{ "p /x01 == 1/", GS_EINVAL, "unknown term \"x01\"" },
	{ "p /comm < \"a\"/", GS_EINVAL, "with == or !=" },
	{ "p /comm == 1/", GS_EINVAL, "numbers are compared" },
	{ "p /symbol == 1/", GS_EINVAL, "numbers are compared" },
	{ "p /stack == stack/", GS_EINVAL, "numbers are compared" },
	{ "p /comm == \"0123456789abcdef\"/", GS_EINVAL, "longer than 15 bytes" },
	{ "p /comm == \"a\nb\"/", GS_EINVAL, "printable" },
	{ "p /comm == \"a", GS_EINVAL, "\"\"\" is missing" },
	{ "p /arg0 == 18446744073709551616/", GS_EINVAL, "beyond 64 bits" },
	{ "p /arg0 == -9223372036854775809/", GS_EINVAL, "beyond 64 bits" },
	{ "p /arg0 == 0x/", GS_EINVAL, "not a number" },
	{ "p /arg0 == 1a/", GS_EINVAL, "not a number" },
	{ "p /((((((((( arg0 == 1 )))))))))/", GS_ETOOBIG, "nested deeper than 8" },
	{ "p { fire() }", GS_EINVAL, "not an action: \"fire\"" },
	{ "p { count }", GS_EINVAL, "\"(\" is missing" },
	{ "p { count() count() }", GS_EINVAL, "\";\" or \"}\" is missing" },
	{ "p { count()", GS_EINVAL, "\";\" or \"}\" is missing" },
	{ "p { count(arg0) }", GS_EINVAL, "\")\" is missing" },
	{ "p { sum() }", GS_EINVAL, "a term is missing" },
	{ "p { sum(comm) }", GS_EINVAL, "not a number" },
	{ "p { sum(stack) }", GS_EINVAL, "not a number" },
	{ "p { count() by 5 }", GS_EINVAL, "a constant" },
	{ "p { trace(\"a\", \"b\") }", GS_EINVAL, "a constant" },
	{ "p { count() by pid, tid, vcpu, pc, sp }", GS_ETOOBIG, "more than 4 keys" },
	{ "p { trace(pid) by pid }", GS_EINVAL, "\";\" or \"}\" is missing" },
	{ "p { record(arg0, 64) }", GS_EINVAL, "0 … 63" },
	{ "p { record(arg0, pid) }", GS_EINVAL, "0 … 63" },
	{ "p { record(comm) }", GS_EINVAL, "not a number" },
	{ "p { erase() }", GS_EINVAL, "a term is missing" },
	{ "p } q", GS_EINVAL, "a probe is missing" },
};

START_TEST(what_makes_no_sense_is_refused)
{
	err = (struct gs_error){ 0 };
	ck_assert_int_eq(parse(bad[_i].text), bad[_i].code);
	ck_assert_msg(strstr(err.text, bad[_i].says), "%s: %s", bad[_i].text, err.text);
	ck_assert_ptr_nonnull(strstr(err.text, "program, byte "));
	ck_assert_ptr_null(program.clause);
}
END_TEST

/* @p n times a piece, between a start and an end. */
static enum gs_code parse_many(const char *start, const char *piece, uint32_t n, const char *end)
{
	static char text[PROBE_TEXT_MAX + 1000];
	size_t at = (size_t)snprintf(text, sizeof(text), "%s", start);

	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", piece);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", end);
	enum gs_code rc = probe_program_parse(text, at, &program, &err);
	probe_program_deinit(&program);
	return rc;
}

START_TEST(each_limit_holds)
{
	static char name[PROBE_FUNCTION_MAX + 20];

	ck_assert_int_eq(parse_many("", "p{} ", PROBE_CLAUSES_MAX, ""), GS_OK);
	ck_assert_int_eq(parse_many("", "p{} ", PROBE_CLAUSES_MAX + 1, ""), GS_ETOOBIG);
	ck_assert_int_eq(parse_many("p", ",p", PROBE_PATTERNS_MAX - 1, ""), GS_OK);
	ck_assert_int_eq(parse_many("p", ",p", PROBE_PATTERNS_MAX, ""), GS_ETOOBIG);
	/* the row of them is a part, too */
	ck_assert_int_eq(parse_many("p /pid==1", "&&pid==1", PROBE_NODES_MAX - 2, "/"), GS_OK);
	ck_assert_int_eq(parse_many("p /pid==1", "&&pid==1", PROBE_NODES_MAX - 1, "/"), GS_ETOOBIG);
	ck_assert_int_eq(parse_many("p {", "count();", PROBE_ACTIONS_MAX, "}"), GS_OK);
	ck_assert_int_eq(parse_many("p {", "count();", PROBE_ACTIONS_MAX + 1, "}"), GS_ETOOBIG);
	ck_assert_int_eq(parse_many("p {trace(pid", ",pid", PROBE_TERMS_MAX - 1, ")}"), GS_OK);
	ck_assert_int_eq(parse_many("p {trace(pid", ",pid", PROBE_TERMS_MAX, ")}"), GS_ETOOBIG);
	ck_assert_int_eq(parse_many("p {trace(\"", "x", PROBE_LABEL_MAX - 1, "\")}"), GS_OK);
	ck_assert_int_eq(parse_many("p {trace(\"", "x", PROBE_LABEL_MAX, "\")}"), GS_EINVAL);
	ck_assert_int_eq(parse_many("p", " ", PROBE_TEXT_MAX - 1, ""), GS_OK);
	ck_assert_int_eq(parse_many("p", " ", PROBE_TEXT_MAX, ""), GS_ETOOBIG);
	memset(name, 'x', PROBE_FUNCTION_MAX - 1);
	strcpy(name + PROBE_FUNCTION_MAX - 1, ":entry");
	ck_assert_int_eq(parse_many(name, "", 0, ""), GS_OK);
	memset(name, 'x', PROBE_FUNCTION_MAX);
	strcpy(name + PROBE_FUNCTION_MAX, ":entry");
	ck_assert_int_eq(parse_many(name, "", 0, ""), GS_ETOOBIG);
}
END_TEST

static const char *const bad_json[] = {
	"[]",
	"{}",
	"{\"clauses\": []}",
	"{\"clauses\": [{}]}",
	"{\"clauses\": [5]}",
	"{\"clauses\": [{\"probes\": []}]}",
	"{\"clauses\": [{\"probes\": [5]}]}",
	"{\"clauses\": [{\"probes\": [\"p {}\"]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"more\": 1}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"predicate\": 5}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"predicate\": \"pid == 1/ {}\"}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": 5}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [5]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"fire\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"sum\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"sum\", \"of\": "
	"\"comm\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"count\", \"of\": "
	"\"pid\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"count\", \"by\": "
	"\"pid\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"count\", \"by\": "
	"[5]}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"count\", \"by\": "
	"[\"pid, tid\"]}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"trace\", \"label\": "
	"\"\\n\"}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"record\", \"of\": "
	"\"x0\", \"operation\": 64}]}]}",
	"{\"clauses\": [{\"probes\": [\"p\"], \"actions\": [{\"action\": \"record\", \"of\": "
	"\"x0\", \"operation\": \"a\"}]}]}",
};

START_TEST(json_that_makes_no_sense_is_refused)
{
	json_t *json = json_loads(bad_json[_i], 0, NULL);

	ck_assert_ptr_nonnull(json);
	ck_assert_int_eq(probe_program_from_json(json, &program, &err), GS_EINVAL);
	ck_assert_ptr_null(program.clause);
	json_decref(json);
}
END_TEST

/* Any bytes: either refused, or written and read again as the same. */
START_TEST(changed_programs_are_refused_or_hold)
{
	uint32_t seed = 1;

	for (uint32_t i = 0; i < 40000; i++) {
		char text[512];
		size_t len = strlen(good[i % ARRAY_SIZE(good)].text);

		memcpy(text, good[i % ARRAY_SIZE(good)].text, len);
		for (uint32_t n = 0; n < 1 + i % 3; n++) {
			seed = seed * 1664525 + 1013904223;
			text[(seed >> 8) % len] =
				(char)" /{}()!&|=<>;,.:*\"\\-09axby\0z"[(seed >> 20) % 28];
		}
		if (probe_program_parse(text, len, &program, &err))
			continue;
		char *written = probe_program_text(clauses(), program.count);
		probe_program_deinit(&program);
		ck_assert_msg(parse(written) == GS_OK, "%s: %s", written, err.text);
		char *again = probe_program_text(clauses(), program.count);
		ck_assert_str_eq(again, written);
		probe_program_deinit(&program);
		free(again);
		free(written);
	}
}
END_TEST

Suite *suite_program(void)
{
	Suite *s = suite_create("program");
	TCase *t = tcase_create("program");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, glob_matches_as_people_expect);
	tcase_add_test(t, glob_of_many_stars_takes_no_time);
	tcase_add_loop_test(t, what_is_read_is_written, 0, ARRAY_SIZE(good));
	tcase_add_loop_test(t, json_form_is_the_same_program, 0, ARRAY_SIZE(good));
	tcase_add_loop_test(t, what_makes_no_sense_is_refused, 0, ARRAY_SIZE(bad));
	tcase_add_test(t, each_limit_holds);
	tcase_add_loop_test(t, json_that_makes_no_sense_is_refused, 0, ARRAY_SIZE(bad_json));
	tcase_add_test(t, changed_programs_are_refused_or_hold);
	suite_add_tcase(s, t);
	return s;
}
