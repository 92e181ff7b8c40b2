/* SPDX-License-Identifier: Apache-2.0 */
/* What firings record: policies of buffers, aggregations, predicates. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/priv.h"
#include "tests/unit/probe/suites.h"

static struct made m;
static struct probe_session *s;

static void begin(const char *text, enum probe_policy policy)
{
	const struct probe_options options = { policy, PROBE_BUFFER_MIN, PROBE_BUFFER_MIN };
	struct probe_program p;

	made_create(&m, NULL, 0);
	s = made_session(&m);
	ck_assert_msg(!probe_program_parse(text, strlen(text), &p, &made_error), "%s",
		      made_error.text);
	ck_assert_msg(!probe_session_enable(s, &p, &options, &made_matched, &made_error), "%s",
		      made_error.text);
	probe_program_deinit(&p);
	made_go(s);
}

static void end(void)
{
	probe_session_destroy(s);
	made_destroy(&m);
}

static json_int_t term(const json_t *records, size_t i, size_t n)
{
	return json_integer_value(
		json_array_get(json_object_get(json_array_get(records, i), "terms"), n));
}

/* Records of trace(arg0) are 24 bytes. */
#define FITS (PROBE_BUFFER_MIN / 24)

START_TEST(switch_hands_over_and_drops)
{
	uint64_t drops = 0, errors = 0;
	struct probe_status status;
	json_t *records;

	begin("made::f0: { trace(arg0) }", PROBE_POLICY_SWITCH);
	for (uint32_t i = 0; i < FITS + 5; i++)
		made_fire(&m, 0, 1, i, 0);
	made_fire(&m, 0, 2, 77, 0);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.drops, 5);
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), FITS);
	for (uint32_t i = 0; i < FITS; i++)
		ck_assert_int_eq(term(records, i, 0), i);
	ck_assert_uint_eq(drops, 5);
	ck_assert_uint_eq(errors, 0);
	json_decref(records);
	drops = 0;
	made_fire(&m, 0, 1, 1000, 0);
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), 1);
	ck_assert_int_eq(term(records, 0, 0), 1000);
	ck_assert_uint_eq(drops, 0); /* they were told */
	json_decref(records);
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), 0); /* not twice */
	json_decref(records);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.drops, 5); /* in the sums they stay */
	end();
}
END_TEST

START_TEST(ring_keeps_the_newest_in_order)
{
	const uint32_t rounds = 100 + 13 * (uint32_t)_i; /* it wraps at various places */
	json_t *json, *records;

	begin("made::f0: { trace(arg0) }; made::f1: { trace(arg0, arg1, arg0, arg1) }",
	      PROBE_POLICY_RING);
	for (uint32_t i = 0; i < rounds; i++)
		made_fire(&m, i % 5 == 0, 1, i, 1);
	ck_assert_int_eq(probe_session_buffer(s, 1, &json, &made_error), GS_EBUSY);
	made_stop(s);
	ck_assert_int_eq(probe_session_buffer(s, 1, &json, &made_error), GS_OK);
	records = json_object_get(json, "records");
	const size_t n = json_array_size(records);
	ck_assert_uint_le(n, rounds);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(term(records, i, 0), (json_int_t)(rounds - n + i));
	if (rounds * 29 < PROBE_BUFFER_MIN) {
		ck_assert_uint_eq(n, rounds);
		ck_assert_int_eq(json_integer_value(json_object_get(json, "oldest")), 0);
	} else if (rounds > 200) {
		ck_assert_uint_ge(n, (PROBE_BUFFER_MIN - 2 * 48) / 29);
	}
	ck_assert_int_eq(json_integer_value(json_object_get(json, "drops")), 0);
	json_decref(json);
	ck_assert_int_eq(probe_session_buffer(s, 1, &json, &made_error), GS_OK);
	ck_assert_int_eq(json_integer_value(json_object_get(json, "size")), 0);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "records")), 0);
	json_decref(json);
	end();
}
END_TEST

START_TEST(fill_keeps_the_oldest)
{
	uint64_t drops = 0, errors = 0;
	struct probe_status status;
	json_t *json, *records;

	begin("made::f0: { trace(arg0) }; made::f1: {}", PROBE_POLICY_FILL);
	for (uint32_t i = 0; i < FITS + 5; i++)
		made_fire(&m, 0, 1, i, 0);
	made_fire(&m, 1, 1, 0, 0); /* would fit, but then it were no whole story */
	ck_assert_int_eq(probe_session_buffer(s, 1, &json, &made_error), GS_EBUSY);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.filled, 1);
	made_stop(s);
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), FITS);
	ck_assert_int_eq(term(records, FITS - 1, 0), FITS - 1);
	ck_assert_uint_eq(drops, 6);
	json_decref(records);
	drops = 0;
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), 0);
	ck_assert_uint_eq(drops, 0);
	json_decref(records);
	end();
}
END_TEST

/* A large half comes in pages, each once, while the other one is written to. */
START_TEST(large_half_comes_in_pages)
{
	struct probe_program p;
	const struct probe_options options = { PROBE_POLICY_SWITCH, PROBE_BUFFER_MAX, 0 };
	uint32_t pages = 0, seen = 0, fired;
	bool more = true;
	json_t *json;

	made_create(&m, NULL, 0);
	s = made_session(&m);
	ck_assert_int_eq(probe_program_parse("made::f0: { trace(arg0) }", 25, &p, &made_error),
			 GS_OK);
	ck_assert_int_eq(probe_session_enable(s, &p, &options, &made_matched, &made_error), GS_OK);
	probe_program_deinit(&p);
	made_go(s);
	for (fired = 0; fired < 20000; fired++)
		made_fire(&m, 0, 0, fired, 0);
	for (; more; pages++) {
		ck_assert_int_eq(probe_session_buffer(s, 0, &json, &made_error), GS_OK);
		const json_t *records = json_object_get(json, "records");
		char *text = json_dumps(json, 0);
		ck_assert_uint_lt(strlen(text), 300000);
		free(text);
		for (size_t i = 0; i < json_array_size(records); i++)
			ck_assert_int_eq(term(records, i, 0), seen++);
		more = json_is_true(json_object_get(json, "more"));
		json_decref(json);
		made_fire(&m, 0, 0, fired++, 0);
	}
	ck_assert_uint_gt(pages, 5);
	ck_assert_uint_eq(seen, 20000);
	ck_assert_int_eq(probe_session_buffer(s, 0, &json, &made_error), GS_OK);
	ck_assert_uint_eq(json_array_size(json_object_get(json, "records")), pages);
	json_decref(json);
	end();
}
END_TEST

static const struct {
	const char *predicate;
	int64_t arg0, arg1;
	bool is_so;
} predicates[] = {
	{ "arg0 == 5", 5, 0, true },
	{ "arg0 == 5", 6, 0, false },
	{ "arg0 != 5", 6, 0, true },
	{ "arg0 < 0", -1, 0, true },
	{ "arg0 < arg1", -5, -4, true },
	{ "arg0 <= -5", -5, 0, true },
	{ "arg0 > 5", 5, 0, false },
	{ "arg0 >= 5", 5, 0, true },
	{ "arg0 == 1 && arg1 == 2", 1, 2, true },
	{ "arg0 == 1 && arg1 == 2", 1, 3, false },
	{ "arg0 == 1 || arg1 == 2", 0, 2, true },
	{ "arg0 == 1 || arg1 == 2", 0, 3, false },
	{ "!(arg0 == 1 || arg1 == 2)", 0, 3, true },
	{ "!(arg0 == 1 && arg1 == 2)", 1, 2, false },
	{ "!arg0 == 1", 1, 2, false },
	{ "arg0 == 0 || arg0 == 1 && arg1 == 9", 1, 9, true },
	{ "(arg0 == 0 || arg0 == 1) && arg1 == 9", 0, 8, false },
	{ "vcpu == 1", 0, 0, true },
	{ "0x10 == arg0", 16, 0, true },
	/* what comes after a decision is not looked at: arg7 is not there */
	{ "arg0 == 1 || arg7 == 0", 1, 0, true },
	{ "arg0 == 1 && arg7 == 0", 0, 0, false },
};

START_TEST(predicate_decides)
{
	struct probe_status status;
	char text[200];

	snprintf(text, sizeof(text), "made::f0: /%s/ { count() }", predicates[_i].predicate);
	begin(text, PROBE_POLICY_SWITCH);
	made_fire(&m, 0, 1, (uint64_t)predicates[_i].arg0, (uint64_t)predicates[_i].arg1);
	ck_assert_msg(made_sum(s) == predicates[_i].is_so, "%s", text);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.errors, 0);
	end();
}
END_TEST

START_TEST(terms_that_cannot_be_had_are_errors)
{
	uint64_t drops = 0, errors = 0;
	struct probe_status status;
	json_t *records;

	begin("made::f0: /comm == \"dd\"/ { count() }; made::f1: { trace(arg0, arg5); count() };"
	      "made::f2: { sum(x3) }; made::f3: { count() by stack }; made::f4: { record(arg0) }",
	      PROBE_POLICY_SWITCH);
	for (uint32_t i = 0; i < 5; i++)
		made_fire(&m, i, 1, 0, 0);
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.errors, 5);
	ck_assert_uint_eq(status.stack_drops, 1);
	records = made_records(s, 1, &drops, &errors);
	ck_assert_uint_eq(json_array_size(records), 0); /* no half record */
	ck_assert_uint_eq(errors, 5);
	json_decref(records);
	ck_assert_int_eq(made_sum(s), 1); /* the action that could be done was done */
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.errors, 5);
	end();
}
END_TEST

static json_t *entry_of(const json_t *entries, json_int_t aggregation)
{
	json_t *entry;
	size_t i;

	json_array_foreach(entries, i, entry)
	{
		if (json_integer_value(json_object_get(entry, "aggregation")) == aggregation)
			return entry;
	}
	ck_abort_msg("no aggregation %d", (int)aggregation);
	return NULL;
}

static json_int_t value_of(const json_t *entries, json_int_t aggregation, const char *name)
{
	return json_integer_value(json_object_get(entry_of(entries, aggregation), name));
}

START_TEST(aggregations_add_up)
{
	static const int64_t values[] = { -3, 7, 0, 100, -200, 7 };
	json_t *entries;
	char *text;

	begin("made::f0: { count(); sum(arg0); min(arg0); max(arg0); avg(arg0); quantize(arg0) }",
	      PROBE_POLICY_SWITCH);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		made_fire(&m, 0, 2, (uint64_t)values[i], 0);
	entries = made_entries(s, 2, NULL);
	ck_assert_uint_eq(json_array_size(entries), 6);
	ck_assert_int_eq(value_of(entries, 1, "value"), 6);
	ck_assert_int_eq(value_of(entries, 2, "value"), -89);
	ck_assert_int_eq(value_of(entries, 3, "value"), -200);
	ck_assert_int_eq(value_of(entries, 4, "value"), 100);
	ck_assert_int_eq(value_of(entries, 5, "sum"), -89);
	ck_assert_int_eq(value_of(entries, 5, "count"), 6);
	text = json_dumps(json_object_get(entry_of(entries, 6), "buckets"), JSON_COMPACT);
	ck_assert_str_eq(text, "[[-128,1],[-2,1],[0,1],[4,2],[64,1]]");
	free(text);
	json_decref(entries);
	end();
}
END_TEST

START_TEST(keys_keep_values_apart)
{
	uint64_t drops = 0;
	json_t *entries;
	int64_t sum = 0;

	begin("made::f0: { sum(arg1) by arg0, vcpu }", PROBE_POLICY_SWITCH);
	for (uint64_t i = 0; i < 60; i++)
		made_fire(&m, 0, 1, i % 7, i);
	entries = made_entries(s, 1, &drops);
	ck_assert_uint_eq(json_array_size(entries), 7);
	for (size_t i = 0; i < 7; i++) {
		const json_t *entry = json_array_get(entries, i);
		const json_t *keys = json_object_get(entry, "keys");

		ck_assert_int_lt(json_integer_value(json_array_get(keys, 0)), 7);
		ck_assert_int_eq(json_integer_value(json_array_get(keys, 1)), 1);
		sum += json_integer_value(json_object_get(entry, "value"));
	}
	ck_assert_int_eq(sum, 59 * 60 / 2);
	ck_assert_uint_eq(drops, 0);
	json_decref(entries);
	end();
}
END_TEST

START_TEST(full_table_drops_new_keys_only)
{
	const uint64_t fits = PROBE_BUFFER_MIN / 24; /* 8 bytes, a key, a value */
	uint64_t drops = 0;
	struct probe_status status;
	json_t *entries;

	begin("made::f0: { count() by arg0 }", PROBE_POLICY_SWITCH);
	for (uint64_t i = 0; i < 2 * fits; i++)
		made_fire(&m, 0, 0, i, 0);
	made_fire(&m, 0, 0, 3, 0);
	entries = made_entries(s, 0, &drops);
	ck_assert_uint_eq(json_array_size(entries), fits);
	ck_assert_uint_eq(drops, fits);
	json_decref(entries);
	made_fire(&m, 0, 0, 2 * fits, 0);
	ck_assert_int_eq(made_sum(s), 1); /* there is room again */
	ck_assert_int_eq(probe_session_status(s, &status, &made_error), GS_OK);
	ck_assert_uint_eq(status.aggregation_drops, fits);
	end();
}
END_TEST

START_TEST(every_number_has_its_bucket)
{
	static const struct {
		int64_t value, bucket;
	} cases[] = {
		{ 0, 0 },
		{ 1, 1 },
		{ 2, 2 },
		{ 3, 2 },
		{ 4, 4 },
		{ -1, -1 },
		{ -3, -2 },
		{ INT64_MAX, INT64_C(1) << 62 },
		{ INT64_MIN, -(INT64_C(1) << 62) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ck_assert_int_eq(probe_quantize_value(probe_quantize_bucket(cases[i].value)),
				 cases[i].bucket);
	for (uint32_t b = 0; b < PROBE_QUANTIZE_BUCKETS; b++)
		ck_assert_uint_eq(probe_quantize_bucket(probe_quantize_value(b)), b);
}
END_TEST

START_TEST(numbers_and_addresses_are_told_apart)
{
	json_t *records;
	char *text;

	begin("made::f0: { trace(arg0, arg1) }", PROBE_POLICY_SWITCH);
	made_fire(&m, 0, 0, (uint64_t)-22, UINT64_C(0xffff800008000000));
	records = made_records(s, 0, NULL, NULL);
	text = json_dumps(json_object_get(json_array_get(records, 0), "terms"), JSON_COMPACT);
	ck_assert_str_eq(text, "[-22,\"0xffff800008000000\"]");
	free(text);
	json_decref(records);
	end();
}
END_TEST

START_TEST(other_actions_are_told)
{
	begin("made::f0: { stackshot() }", PROBE_POLICY_SWITCH);
	made_fire(&m, 0, 0, 0, 0);
	made_fire(&m, 0, 2, 0, 0);
	ck_assert_uint_eq(m.stackshots, 2);
	/* nobody's, of no vCPU, of nobody's interest: nothing */
	probe_fire(m.e, 0, &(struct probe_context){ 0 });
	probe_fire(m.e, 9999, &(struct probe_context){ 0 });
	probe_fire(m.e, m.id[0], &(struct probe_context){ .vcpu = MADE_VCPUS });
	ck_assert_uint_eq(m.stackshots, 2);
	end();
}
END_TEST

Suite *suite_records(void)
{
	Suite *suite = suite_create("records");
	TCase *t = tcase_create("records");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, switch_hands_over_and_drops);
	tcase_add_loop_test(t, ring_keeps_the_newest_in_order, 0, 25);
	tcase_add_test(t, fill_keeps_the_oldest);
	tcase_add_test(t, large_half_comes_in_pages);
	tcase_add_loop_test(t, predicate_decides, 0, ARRAY_SIZE(predicates));
	tcase_add_test(t, terms_that_cannot_be_had_are_errors);
	tcase_add_test(t, aggregations_add_up);
	tcase_add_test(t, keys_keep_values_apart);
	tcase_add_test(t, full_table_drops_new_keys_only);
	tcase_add_test(t, every_number_has_its_bucket);
	tcase_add_test(t, numbers_and_addresses_are_told_apart);
	tcase_add_test(t, other_actions_are_told);
	suite_add_tcase(suite, t);
	return suite;
}
