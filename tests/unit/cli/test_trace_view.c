/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace has recorded: pieces of all vCPUs added up, and shown. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cli/trace_view.h"
#include "tests/unit/cli/suites.h"

static struct cli_trace_view v;

static void put(const char *probe, const char *aggregation)
{
	cli_trace_put_probe(&v, (uint64_t)1, json_loads(probe, 0, NULL));
	cli_trace_put_aggregation(&v, (uint64_t)1, json_loads(aggregation, 0, NULL));
}

static void begin(bool json, const char *function)
{
	char aggregation[200];

	ck_assert(cli_trace_view_init(&v, json));
	snprintf(aggregation, sizeof(aggregation),
		 "{\"epid\":1,\"action\":1,\"function\":\"%s\",\"of\":\"arg0\",\"by\":[\"comm\"]}",
		 function);
	put("{\"clause\":1,\"label\":\"read\",\"probe\":{\"provider\":\"fbt\",\"module\":\"\","
	    "\"function\":\"vfs_read\",\"name\":\"entry\"}}",
	    aggregation);
}

static void add(const char *entry)
{
	json_t *o = json_loads(entry, 0, NULL);

	ck_assert_ptr_nonnull(o);
	cli_trace_add(&v, o);
	json_decref(o);
}

/* All sums as printed; free. */
static char *printed(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cli_trace_print_sums(&v, f);
	fclose(f);
	cli_trace_view_deinit(&v);
	return text;
}

static void expect(const char *wanted)
{
	char *text = printed();

	ck_assert_str_eq(text, wanted);
	free(text);
}

#define ENTRY(keys, values) "{\"aggregation\":1,\"keys\":" keys "," values "}"

START_TEST(pieces_are_added_up)
{
	begin(false, "sum");
	add(ENTRY("[\"dd\"]", "\"value\":5"));
	add(ENTRY("[\"sh\"]", "\"value\":90"));
	add(ENTRY("[\"dd\"]", "\"value\":-7"));
	expect("\nsum(arg0) by comm\n"
	       "                  -2  dd\n"
	       "                  90  sh\n");
}
END_TEST

START_TEST(least_most_and_mean_are_not_sums)
{
	begin(false, "min");
	add(ENTRY("[\"dd\"]", "\"value\":5"));
	add(ENTRY("[\"dd\"]", "\"value\":-7"));
	expect("\nmin(arg0) by comm\n                  -7  dd\n");
	begin(false, "max");
	add(ENTRY("[\"dd\"]", "\"value\":5"));
	add(ENTRY("[\"dd\"]", "\"value\":-7"));
	expect("\nmax(arg0) by comm\n                   5  dd\n");
	begin(false, "avg");
	add(ENTRY("[\"dd\"]", "\"sum\":5,\"count\":1"));
	add(ENTRY("[\"dd\"]", "\"sum\":10,\"count\":3"));
	expect("\navg(arg0) by comm\n                 3.8  dd\n");
}
END_TEST

START_TEST(buckets_are_merged_in_order)
{
	begin(true, "quantize");
	add(ENTRY("[\"dd\"]", "\"buckets\":[[-4,1],[8,2]]"));
	add(ENTRY("[\"dd\"]", "\"buckets\":[[0,3],[8,1],[16,1]]"));
	char *text = printed();
	ck_assert_ptr_nonnull(strstr(text, "\"buckets\":[[-4,1],[0,3],[8,3],[16,1]]"));
	free(text);
	begin(false, "quantize");
	add(ENTRY("[\"dd\"]", "\"buckets\":[[0,1],[8,3]]"));
	text = printed();
	ck_assert_ptr_nonnull(
		strstr(text, "                   8 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@          "
			     " 3\n"));
	free(text);
}
END_TEST

/* What the server says is not trusted, nor what the guest says through it. */
START_TEST(rubbish_is_left_out_and_made_harmless)
{
	begin(false, "count");
	add("{\"aggregation\":2,\"keys\":[],\"value\":1}");
	add("{\"aggregation\":1,\"keys\":5,\"value\":1}");
	add("{}");
	add(ENTRY("[\"\\u001b[31m\"]", "\"value\":\"x\""));
	add(ENTRY("[{}]", "\"value\":3"));
	char *text = printed();
	ck_assert_ptr_null(strchr(text, 0x1b));
	ck_assert_ptr_nonnull(strstr(text, "                   3  -\n"));
	free(text);
}
END_TEST

START_TEST(record_says_where_and_what)
{
	json_t *record = json_loads(
		"{\"epid\":1,\"time_ns\":7,\"terms\":[-2,\"dd\",[\"vfs_read\",\"[user]\"],null]}",
		0, NULL);
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	begin(false, "count");
	cli_trace_print_record(&v, 3, record, f);
	v.json = true;
	cli_trace_print_record(&v, 3, record, f);
	fclose(f);
	ck_assert_str_eq(text,
			 "  3  fbt::vfs_read:entry                   read  -2  dd  \n\tvfs_read"
			 "\n\t[user]  -\n"
			 "{\"probe\":\"fbt::vfs_read:entry\",\"vcpu\":3,\"time_ns\":7,"
			 "\"label\":\"read\",\"terms\":[-2,\"dd\",[\"vfs_read\",\"[user]\"],null]}"
			 "\n");
	free(text);
	json_decref(record);
	cli_trace_view_deinit(&v);
}
END_TEST

Suite *suite_trace_view(void)
{
	Suite *s = suite_create("trace_view");
	TCase *t = tcase_create("trace_view");

	tcase_add_test(t, pieces_are_added_up);
	tcase_add_test(t, least_most_and_mean_are_not_sums);
	tcase_add_test(t, buckets_are_merged_in_order);
	tcase_add_test(t, rubbish_is_left_out_and_made_harmless);
	tcase_add_test(t, record_says_where_and_what);
	suite_add_tcase(s, t);
	return s;
}
