/* SPDX-License-Identifier: Apache-2.0 */
/* Request lines and answers, literally. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "control/protocol.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/control/suites.h"

static const struct good {
	const char *line;
	enum ctl_command command;
	int32_t pid;
	enum ctl_target to;
	const char *path;
	const char *id; /* as JSON */
} good[] = {
	{ "{\"execute\":\"status\"}", CTL_CMD_STATUS, SS_PID_ALL, CTL_TO_FD, NULL, NULL },
	{ " {\"execute\" : \"help\"} \r", CTL_CMD_HELP, SS_PID_ALL, CTL_TO_FD, NULL, NULL },
	{ "{\"execute\":\"commands\"}", CTL_CMD_HELP, SS_PID_ALL, CTL_TO_FD, NULL, NULL },
	{ "{\"execute\":\"stop\",\"id\":1}", CTL_CMD_STOP, SS_PID_ALL, CTL_TO_FD, NULL, "1" },
	{ "{\"id\":null,\"execute\":\"cont\"}", CTL_CMD_CONT, SS_PID_ALL, CTL_TO_FD, NULL, "null" },
	{ "{\"execute\":\"quit\",\"id\":{\"a\": [1, \"b\"]}}", CTL_CMD_QUIT, SS_PID_ALL, CTL_TO_FD,
	  NULL, "{\"a\": [1, \"b\"]}" },
	{ "{\"execute\":\"snap\",\"arguments\":{}}", CTL_CMD_SNAP, SS_PID_ALL, CTL_TO_FD, NULL,
	  NULL },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":0}}", CTL_CMD_SNAP, 0, CTL_TO_FD, NULL,
	  NULL },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":2147483647,\"to\":\"fd\"}}", CTL_CMD_SNAP,
	  INT32_MAX, CTL_TO_FD, NULL, NULL },
	{ "{\"arguments\":{\"path\":\"/a\",\"to\":\"file\"},\"execute\":\"snap\"}", CTL_CMD_SNAP,
	  SS_PID_ALL, CTL_TO_FILE, "/a", NULL },
	{ "{\"execute\":\"dump\",\"arguments\":{\"path\":\"/core\"}}", CTL_CMD_DUMP, SS_PID_ALL,
	  CTL_TO_FD, "/core", NULL },
};

START_TEST(request_is_read)
{
	const struct good *g = &good[_i];
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert_msg(ctl_request_parse(g->line, strlen(g->line), &r, &f), "%s", g->line);
	ck_assert_int_eq(r.command, g->command);
	ck_assert_int_eq(r.ask.pid, g->pid);
	ck_assert_int_eq(r.to, g->to);
	ck_assert_pstr_eq(r.path, g->path);
	char *id = r.id ? json_dumps(r.id, JSON_ENCODE_ANY) : NULL;
	ck_assert_pstr_eq(id, g->id);
	free(id);
	ctl_request_deinit(&r);
	ctl_request_deinit(&r);
}
END_TEST

static const struct {
	const char *arguments;
	struct ss_request ask;
	bool keep;
} asked[] = {
	{ "", { .pid = SS_PID_ALL }, false },
	{ "\"flags\":[]", { .pid = SS_PID_ALL }, false },
	{ "\"flags\":[\"TRYLOCK\"]", { .flags = KCD_SS_TRYLOCK, .pid = SS_PID_ALL }, false },
	{ "\"flags\":[\"LATENCY_INFO\",\"NO_IO_STATS\",\"NO_IO_STATS\"]",
	  { .flags = SS_LATENCY_INFO | KCD_SS_NO_IO_STATS, .pid = SS_PID_ALL },
	  false },
	/* what is refused is the core's to refuse, with its reason */
	{ "\"flags\":[\"GET_DQ\"]", { .flags = KCD_SS_GET_DQ, .pid = SS_PID_ALL }, false },
	{ "\"since_ns\":9223372036854775807,\"flags\":[\"COLLECT_DELTA_SNAPSHOT\"]",
	  { .flags = KCD_SS_COLLECT_DELTA_SNAPSHOT, .since_ns = INT64_MAX, .pid = SS_PID_ALL },
	  false },
	{ "\"since_ns\":1", { .since_ns = 1, .pid = SS_PID_ALL }, false },
	{ "\"threads_max\":4294967295", { .threads_max = UINT32_MAX, .pid = SS_PID_ALL }, false },
	{ "\"threads_max\":0", { .pid = SS_PID_ALL }, false },
	{ "\"size_hint\":9223372036854775807",
	  { .size_hint = INT64_MAX, .pid = SS_PID_ALL },
	  false },
	{ "\"pagetable_mask\":9,\"pid\":7,\"flags\":[\"PAGE_TABLES\"]",
	  { .flags = KCD_SS_REQ_PAGE_TABLES, .pagetable_mask = 9, .pid = 7 },
	  false },
	{ "\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"]",
	  { .flags = KCD_SS_SAVE_IN_KERNEL_BUFFER, .pid = SS_PID_ALL },
	  false },
	{ "\"to\":\"fd\",\"keep\":false,\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"]",
	  { .flags = KCD_SS_RETRIEVE_EXISTING_BUFFER, .pid = SS_PID_ALL },
	  false },
	{ "\"keep\":true,\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"]",
	  { .flags = KCD_SS_RETRIEVE_EXISTING_BUFFER, .pid = SS_PID_ALL },
	  true },
};

START_TEST(every_field_of_a_request_can_be_given)
{
	struct ctl_request r;
	struct ctl_fault f;
	char line[512];

	snprintf(line, sizeof(line), "{\"execute\":\"snap\",\"arguments\":{%s}}",
		 asked[_i].arguments);
	ck_assert_msg(ctl_request_parse(line, strlen(line), &r, &f), "%s: %s", line, f.desc);
	ck_assert_mem_eq(&r.ask, &asked[_i].ask, sizeof(r.ask));
	ck_assert_int_eq(r.keep, asked[_i].keep);
	ctl_request_deinit(&r);
}
END_TEST

START_TEST(identity_of_a_saved_capture_is_read)
{
	static const char line[] =
		"{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":9223372036854775807}}";
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert(ctl_request_parse(line, strlen(line), &r, &f));
	ck_assert_int_eq(r.command, CTL_CMD_SAVED_DROP);
	ck_assert_uint_eq(r.saved_id, INT64_MAX);
	ctl_request_deinit(&r);
}
END_TEST

#define ADD(arguments)	"{\"execute\":\"schedule-add\",\"arguments\":{" arguments "}}"
#define SNAP(arguments) "{\"execute\":\"snap\",\"arguments\":{" arguments "}}"

static const struct bad {
	const char *line;
	const char *class;
	const char *names; /* the description says this */
} bad[] = {
	{ "{\"execute\":\"snap\",\"arguments\":{\"deadline_ms\":0}}", "invalid-argument", "in 1 " },
	{ "{\"execute\":\"snap\",\"arguments\":{\"deadline_ms\":3600001}}", "invalid-argument",
	  "3600000" },
	{ SNAP("\"deadline_ms\":1.5"), "invalid-argument", "not a number with a fraction" },
	{ SNAP("\"flags\":\"TRYLOCK\""), "invalid-argument", "an array of names, not a string" },
	{ SNAP("\"flags\":{}"), "invalid-argument", "an array of names, not an object" },
	{ SNAP("\"flags\":[1048576]"), "invalid-argument", "not of an integer" },
	{ SNAP("\"flags\":[\"TRYLOCK\",null]"), "invalid-argument", "not of null" },
	{ SNAP("\"flags\":[\"TRYLOCK\",\"trylock\"]"), "invalid-argument",
	  "unknown flag \"trylock\"" },
	{ SNAP("\"flags\":[\"\"]"), "invalid-argument", "unknown flag \"\"" },
	{ SNAP("\"flags\":[[\"TRYLOCK\"]]"), "invalid-argument", "not of an array" },
	{ SNAP("\"since_ns\":0"), "invalid-argument", "\"since_ns\" 0 is not in 1 " },
	{ SNAP("\"since_ns\":-1"), "invalid-argument", "-1" },
	{ SNAP("\"since_ns\":\"1\""), "invalid-argument", "\"since_ns\" is an integer, not a" },
	{ SNAP("\"since_ns\":9223372036854775808"), "invalid-json", "big integer" },
	{ SNAP("\"threads_max\":4294967296"), "invalid-argument", "0 … 4294967295" },
	{ SNAP("\"threads_max\":-1"), "invalid-argument", "\"threads_max\" -1" },
	{ SNAP("\"threads_max\":true"), "invalid-argument", "not a boolean" },
	{ SNAP("\"size_hint\":-1"), "invalid-argument", "\"size_hint\" -1" },
	{ SNAP("\"size_hint\":\"1M\""), "invalid-argument", "\"size_hint\" is an integer" },
	{ SNAP("\"pagetable_mask\":-8"), "invalid-argument", "\"pagetable_mask\" -8" },
	{ SNAP("\"pagetable_mask\":[3]"), "invalid-argument", "not an array" },
	{ SNAP("\"keep\":1"), "invalid-argument", "\"keep\" is a boolean, not an integer" },
	{ SNAP("\"keep\":true"), "invalid-argument", "RETRIEVE_EXISTING_BUFFER" },
	{ SNAP("\"keep\":true,\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"]"), "invalid-argument",
	  "RETRIEVE_EXISTING_BUFFER" },
	{ SNAP("\"to\":\"fd\",\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"]"), "invalid-argument",
	  "no \"to\" and no \"path\"" },
	{ SNAP("\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"],\"path\":\"/a\",\"to\":\"file\""),
	  "invalid-argument", "no \"to\" and no \"path\"" },
	{ SNAP("\"flags\":[\"SAVE_IN_KERNEL_BUFFER\"],\"path\":\"/a\""), "invalid-argument",
	  "no \"to\" and no \"path\"" },
	{ SNAP("\"flags\":[\"RETRIEVE_EXISTING_BUFFER\"],\"path\":\"/a\""), "invalid-argument",
	  "needs \"to\": \"file\"" },
	{ SNAP("\"version\":1"), "invalid-argument", "unknown argument" },
	{ "{\"execute\":\"saved-drop\"}", "invalid-argument", "\"saved_id\" is missing" },
	{ "{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":0}}", "invalid-argument",
	  "saved-drop: \"saved_id\" 0 is not in 1 " },
	{ "{\"execute\":\"saved-drop\",\"arguments\":{\"saved_id\":\"1\"}}", "invalid-argument",
	  "\"saved_id\" is an integer, not a string" },
	{ "{\"execute\":\"saved-drop\",\"arguments\":{\"path\":\"/a\"}}", "invalid-argument",
	  "unknown argument" },
	{ ADD(""), "invalid-argument", "schedule-add: \"dir\" is missing" },
	{ ADD("\"dir\":\"/a\""), "invalid-argument", "schedule-add: \"every_ms\" is missing" },
	{ ADD("\"dir\":\"a\",\"every_ms\":10"), "invalid-argument", "\"dir\" is an absolute path" },
	{ ADD("\"dir\":7"), "invalid-argument", "\"dir\" is an absolute path" },
	{ ADD("\"every_ms\":9"), "invalid-argument", "\"every_ms\" 9 is not in 10 " },
	{ ADD("\"every_ms\":\"1s\""), "invalid-argument", "not a string" },
	{ ADD("\"jitter\":51"), "invalid-argument", "\"jitter\" 51 is not in 0 " },
	{ ADD("\"keep\":0"), "invalid-argument", "\"keep\" 0 is not in 1 " },
	{ ADD("\"max_bytes\":-5"), "invalid-argument", "\"max_bytes\" -5" },
	{ ADD("\"full_every\":10001"), "invalid-argument", "\"full_every\" 10001" },
	{ ADD("\"max_stopped_ppm\":0"), "invalid-argument", "\"max_stopped_ppm\" 0" },
	{ ADD("\"path\":\"/a\""), "invalid-argument", "unknown argument" },
	{ "{\"execute\":\"schedule-remove\"}", "invalid-argument", "\"id\" is missing" },
	{ "{\"execute\":\"schedule-remove\",\"arguments\":{\"id\":0}}", "invalid-argument",
	  "\"id\" 0 is not in 1 " },
	{ "{\"execute\":\"schedules\",\"arguments\":{\"id\":1}}", "invalid-argument",
	  "unknown argument" },
	{ "{\"execute\":\"sample\"}", "invalid-argument", "sample: \"hz\" is missing" },
	{ "{\"execute\":\"sample\",\"arguments\":{\"hz\":-1}}", "invalid-argument", "in 0 " },
	{ "{\"execute\":\"sample\",\"arguments\":{\"hz\":10001}}", "invalid-argument", "10000" },
	{ "{\"execute\":\"sample\",\"arguments\":{\"hz\":\"99\"}}", "invalid-argument",
	  "an integer" },
	{ "{\"execute\":\"btlog\"}", "invalid-argument", "btlog: \"action\" is missing" },
	{ "{\"execute\":\"btlog\",\"arguments\":{\"action\":\"stop\"}}", "invalid-argument",
	  "\"reset\"" },
	{ "{\"execute\":\"btlog\",\"arguments\":{\"action\":\"reset\",\"log\":1}}",
	  "invalid-argument", "btlog: \"log\" is a string" },
	{ "{\"execute\":\"btlog-save\",\"arguments\":{\"to\":\"file\"}}", "invalid-argument",
	  "btlog-save: \"to\": \"file\" needs \"path\"" },
	{ "{\"execute\":\"btlogs\",\"arguments\":{\"log\":\"x\"}}", "invalid-argument",
	  "btlogs: unknown argument" },
	{ "{\"execute\":\"dump\"}", "invalid-argument", "dump: \"path\" is missing" },
	{ "{\"execute\":\"dump\",\"arguments\":{\"path\":\"core\"}}", "invalid-argument",
	  "dump: \"path\" is not absolute" },
	{ "{\"execute\":\"dump\",\"arguments\":{\"path\":1}}", "invalid-argument",
	  "dump: \"path\" is a string" },
	{ "{\"execute\":\"dump\",\"arguments\":{\"pid\":1}}", "invalid-argument",
	  "dump: unknown argument" },
	{ "rubbish", "invalid-json", "rubbish" },
	{ "{\"execute\":\"status\"", "invalid-json", "" },
	{ "{\"execute\":\"status\"} x", "invalid-json", "x" },
	{ "{\"execute\":\"status\"}{}", "invalid-json", "" },
	{ "{\"execute\":\"status\",\"execute\":\"quit\"}", "invalid-json", "execute" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":1,\"pid\":2}}", "invalid-json", "pid" },
	{ "{\"execute\":\"a\\u0000b\"}", "invalid-json", "" },
	{ "{\"execute\":\"\xff\"}", "invalid-json", "" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":99999999999999999999}}", "invalid-json",
	  "big integer" },
	{ "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", "invalid-json", "deeper than 16" },
	{ "[]", "invalid-request", "an array" },
	{ "\"status\"", "invalid-request", "a string" },
	{ "7", "invalid-request", "an integer" },
	{ "null", "invalid-request", "null" },
	{ "{}", "invalid-request", "\"execute\" is missing" },
	{ "{\"execute\":1}", "invalid-request", "\"execute\" is a string, not an integer" },
	{ "{\"execute\":\"snap\",\"arguments\":[]}", "invalid-request",
	  "\"arguments\" is an object, not an array" },
	{ "{\"execute\":\"snap\",\"argument\":{}}", "invalid-request",
	  "unknown member \"argument\"" },
	{ "{\"execute\":\"snapp\"}", "unknown-command", "\"snapp\"" },
	{ "{\"execute\":\"\"}", "unknown-command", "\"\"" },
	{ "{\"execute\":\"status\",\"arguments\":{\"pid\":1}}", "invalid-argument",
	  "status: unknown argument \"pid\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"Pid\":1}}", "invalid-argument", "\"Pid\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":\"1\"}}", "invalid-argument",
	  "\"pid\" is an integer, not a string" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":1.0}}", "invalid-argument",
	  "\"pid\" is an integer" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":-1}}", "invalid-argument", "-1" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"pid\":2147483648}}", "invalid-argument",
	  "2147483648" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"to\":1}}", "invalid-argument", "\"to\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"to\":\"tape\"}}", "invalid-argument",
	  "\"tape\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"to\":\"file\"}}", "invalid-argument",
	  "needs \"path\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"path\":\"/a\"}}", "invalid-argument",
	  "needs \"to\": \"file\"" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"path\":\"a\",\"to\":\"file\"}}",
	  "invalid-argument", "not absolute" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"path\":\"\",\"to\":\"file\"}}",
	  "invalid-argument", "not absolute" },
	{ "{\"execute\":\"snap\",\"arguments\":{\"path\":{},\"to\":\"file\"}}", "invalid-argument",
	  "\"path\" is a string, not an object" },
};

START_TEST(bad_request_is_named)
{
	const struct bad *b = &bad[_i];
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert_msg(!ctl_request_parse(b->line, strlen(b->line), &r, &f), "%s", b->line);
	ck_assert_str_eq(f.class, b->class);
	ck_assert_msg(strstr(f.desc, b->names), "%s: %s", b->line, f.desc);
	ctl_request_deinit(&r);
}
END_TEST

START_TEST(id_is_known_although_the_request_is_bad)
{
	static const char line[] = "{\"execute\":\"nope\",\"x\":1,\"id\":\"me\"}";
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert(!ctl_request_parse(line, strlen(line), &r, &f));
	ck_assert_str_eq(json_string_value(r.id), "me");
	ctl_request_deinit(&r);
}
END_TEST

/* Every prefix of a good line is an error, not a crash; under ASan also not a read past its end. */
START_TEST(no_prefix_is_a_request)
{
	const char *line = good[ARRAY_SIZE(good) - 1].line;

	for (size_t len = 0; len < strlen(line); len++) {
		struct ctl_request r;
		struct ctl_fault f;
		char *cut = malloc(len ? len : 1);

		memcpy(cut, line, len);
		ck_assert(!ctl_request_parse(cut, len, &r, &f));
		ctl_request_deinit(&r);
		free(cut);
	}
}
END_TEST

START_TEST(brackets_in_strings_are_no_depth)
{
	static const char line[] = "{\"execute\":\"help\",\"id\":\"[[[[[[[[[[[[[[[[[[[[\\\"[[\"}";
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert(ctl_request_parse(line, strlen(line), &r, &f));
	ctl_request_deinit(&r);
}
END_TEST

START_TEST(deepest_allowed_nesting_is_read)
{
	/* one object and fifteen arrays */
	static const char line[] = "{\"execute\":\"help\",\"id\":[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]}";
	struct ctl_request r;
	struct ctl_fault f;

	ck_assert(ctl_request_parse(line, strlen(line), &r, &f));
	ctl_request_deinit(&r);
}
END_TEST

START_TEST(blank_lines_are_blank)
{
	ck_assert(ctl_line_is_blank("", 0));
	ck_assert(ctl_line_is_blank(" \t\r", 3));
	ck_assert(!ctl_line_is_blank(" x", 2));
	ck_assert(!ctl_line_is_blank("\0", 1));
}
END_TEST

/* Compare and free a line. */
static void check_line(char *line, size_t len, const char *expected)
{
	ck_assert_str_eq(line, expected);
	ck_assert_uint_eq(len, strlen(expected));
	free(line);
}

START_TEST(answers_are_lines)
{
	size_t len;
	json_t *id = json_pack("[i, n]", 1);
	const struct ctl_fault f = { .class = "busy", .desc = "a \"b\"\n\xff" };
	char *line = ctl_line_return(id, json_pack("{s:i}", "a", 1), &len);

	check_line(line, len, "{\"return\": {\"a\": 1}, \"id\": [1, null]}\n");
	line = ctl_line_return(NULL, json_object(), &len);
	check_line(line, len, "{\"return\": {}}\n");
	line = ctl_line_error(id, &f, &len);
	check_line(line, len,
		   "{\"error\": {\"class\": \"busy\", \"desc\": \"a \\\"b\\\"\\\\x0a\\\\xff\"}, "
		   "\"id\": [1, null]}\n");
	line = ctl_line_event("e", 1000002, json_pack("{s:s}", "k", "\xc3\xa9\n"), &len);
	check_line(line, len,
		   "{\"event\": \"e\", \"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, "
		   "\"data\": {\"k\": \"\\u00E9\\n\"}}\n");
	ck_assert_ptr_null(ctl_line_return(id, NULL, &len));
	json_decref(id);
}
END_TEST

START_TEST(schedules_can_be_asked_for)
{
	static const char all[] =
		ADD("\"dir\":\"/a\",\"every_ms\":500,\"jitter\":20,\"keep\":7,\"max_bytes\":4096,"
		    "\"full_every\":3,\"max_stopped_ppm\":1000");
	struct ctl_request r;
	struct ctl_fault f = { 0 };

	ck_assert_msg(ctl_request_parse(all, strlen(all), &r, &f), "%s", f.desc);
	ck_assert_int_eq(r.command, CTL_CMD_SCHEDULE_ADD);
	ck_assert_str_eq(r.path, "/a");
	ck_assert_uint_eq(r.schedule.every_ns, 500000000);
	ck_assert_uint_eq(r.schedule.jitter, 20);
	ck_assert_uint_eq(r.schedule.keep, 7);
	ck_assert_uint_eq(r.schedule.max_bytes, 4096);
	ck_assert_uint_eq(r.schedule.full_every, 3);
	ck_assert_uint_eq(r.schedule.max_stopped, 1000);
	ck_assert(!r.schedule.triggers && !r.schedule.hung_ns);
	ctl_request_deinit(&r);
	static const char few[] = ADD("\"dir\":\"/a\",\"every_ms\":10");
	ck_assert(ctl_request_parse(few, strlen(few), &r, &f));
	ck_assert_uint_eq(r.schedule.max_stopped, CTL_SCHEDULE_STOPPED_DEFAULT);
	ck_assert_uint_eq(r.schedule.keep, 0);
	ctl_request_deinit(&r);
}
END_TEST

START_TEST(greeting_names_version_and_protocol)
{
	size_t len;
	char *line = ctl_line_greeting(&len);
	json_t *o = json_loads(line, 0, NULL);
	const json_t *hello = json_object_get(o, "guestshot");

	ck_assert_int_eq(json_integer_value(json_object_get(hello, "protocol")), 1);
	ck_assert_str_eq(
		json_string_value(json_object_get(json_object_get(hello, "version"), "string")),
		GUESTSHOT_VERSION);
	const json_t *list = json_object_get(hello, "capabilities");
	static const char *const able[] = { "snap-fd", "snap-file", "snap-flags", "snap-saved",
					    "dump",    "btlog",	    "schedules",  "trace" };
	ck_assert_uint_eq(json_array_size(list), ARRAY_SIZE(able));
	for (size_t i = 0; i < ARRAY_SIZE(able); i++)
		ck_assert_str_eq(json_string_value(json_array_get(list, i)), able[i]);
	json_decref(o);
	free(line);
}
END_TEST

START_TEST(help_lists_every_command)
{
	json_t *help = ctl_help();
	const json_t *list = json_object_get(help, "commands");

	ck_assert_uint_eq(json_array_size(list), CTL_CMD_HELP + 1);
	for (size_t i = 0; i < json_array_size(list); i++)
		ck_assert_str_eq(
			json_string_value(json_object_get(json_array_get(list, i), "name")),
			ctl_command_name((enum ctl_command)i));
	json_decref(help);
}
END_TEST

Suite *suite_protocol(void)
{
	Suite *s = suite_create("control/protocol");
	TCase *tc = tcase_create("lines");

	tcase_add_loop_test(tc, request_is_read, 0, ARRAY_SIZE(good));
	tcase_add_loop_test(tc, every_field_of_a_request_can_be_given, 0, ARRAY_SIZE(asked));
	tcase_add_test(tc, identity_of_a_saved_capture_is_read);
	tcase_add_loop_test(tc, bad_request_is_named, 0, ARRAY_SIZE(bad));
	tcase_add_test(tc, id_is_known_although_the_request_is_bad);
	tcase_add_test(tc, no_prefix_is_a_request);
	tcase_add_test(tc, brackets_in_strings_are_no_depth);
	tcase_add_test(tc, deepest_allowed_nesting_is_read);
	tcase_add_test(tc, blank_lines_are_blank);
	tcase_add_test(tc, answers_are_lines);
	tcase_add_test(tc, schedules_can_be_asked_for);
	tcase_add_test(tc, greeting_names_version_and_protocol);
	tcase_add_test(tc, help_lists_every_command);
	suite_add_tcase(s, tc);
	return s;
}
