/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace has recorded, put together and shown. */
#include "cli/trace_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/util.h"

#define BAR_WIDTH 40

bool cli_trace_view_init(struct cli_trace_view *v, bool json)
{
	*v = (struct cli_trace_view){ json_object(), json_object(), json_array(), json_object(),
				      json };
	return v->probes && v->aggregations && v->sums && v->places;
}

void cli_trace_view_deinit(struct cli_trace_view *v)
{
	json_decref(v->probes);
	json_decref(v->aggregations);
	json_decref(v->sums);
	json_decref(v->places);
}

/* --- descriptions --------------------------------------------------------------------------------
 */

static const json_t *of_number(const json_t *object, uint64_t n)
{
	char name[24];

	snprintf(name, sizeof(name), "%" PRIu64, n);
	return json_object_get(object, name);
}

static void put_number(json_t *object, uint64_t n, json_t *value)
{
	char name[24];

	snprintf(name, sizeof(name), "%" PRIu64, n);
	(void)json_object_set_new(object, name, value); /* then it is asked for again */
}

bool cli_trace_knows_probe(const struct cli_trace_view *v, uint64_t epid)
{
	return of_number(v->probes, epid);
}

bool cli_trace_knows_aggregation(const struct cli_trace_view *v, uint64_t id)
{
	return of_number(v->aggregations, id);
}

void cli_trace_put_probe(struct cli_trace_view *v, uint64_t epid, json_t *description)
{
	put_number(v->probes, epid, description);
}

void cli_trace_put_aggregation(struct cli_trace_view *v, uint64_t id, json_t *description)
{
	put_number(v->aggregations, id, description);
}

static json_int_t member(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* "made:m:f0:hit" of a description; "?" when that is none. */
static void probe_name(const json_t *description, char *buf, size_t size)
{
	static const char *const parts[] = { "provider", "module", "function", "name" };
	const json_t *probe = json_object_get(description, "probe");
	char *at = buf;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		const char *s = json_string_value(json_object_get(probe, parts[i]));
		const size_t room = size - (size_t)(at - buf);
		char shown[300];

		gs_escape_terminal(s ? s : "?", strlen(s ? s : "?"), shown, sizeof(shown));
		const int n = snprintf(at, room, "%s%s", i ? ":" : "", shown);
		if (n < 0 || (size_t)n >= room)
			return;
		at += n;
	}
}

/* --- values --------------------------------------------------------------------------------------
 */

static void print_text(const char *s, FILE *f)
{
	char shown[1100];

	gs_escape_terminal(s, strlen(s), shown, sizeof(shown));
	fputs(shown, f);
}

/* A stack goes below, a frame a line. */
static void print_value(const json_t *value, FILE *f)
{
	const json_t *frame;
	size_t i;

	if (json_is_integer(value)) {
		fprintf(f, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	} else if (json_is_string(value)) {
		print_text(json_string_value(value), f);
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, frame)
		{
			fputs("\n\t", f);
			print_text(json_is_string(frame) ? json_string_value(frame) : "?", f);
		}
	} else {
		fputs("-", f);
	}
}

static void print_values(const json_t *values, FILE *f)
{
	const json_t *value;
	size_t i;

	json_array_foreach(values, i, value)
	{
		fputs(i ? "  " : "", f);
		print_value(value, f);
	}
}

static void print_json_line(json_t *object, FILE *f)
{
	if (object && !json_dumpf(object, f, JSON_COMPACT | JSON_ENSURE_ASCII))
		fputc('\n', f);
	json_decref(object);
}

void cli_trace_print_record(const struct cli_trace_view *v, uint64_t vcpu, const json_t *record,
			    FILE *f)
{
	const json_t *d = of_number(v->probes, (uint64_t)member(record, "epid"));
	const char *label = json_string_value(json_object_get(d, "label"));
	const json_t *terms = json_object_get(record, "terms");
	char name[512];

	probe_name(d, name, sizeof(name));
	if (v->json) {
		print_json_line(json_pack("{s:s, s:I, s:I, s:s*, s:O}", "probe", name, "vcpu",
					  (json_int_t)vcpu, "time_ns", member(record, "time_ns"),
					  "label", label, "terms", terms ? terms : d),
				f);
		return;
	}
	fprintf(f, "%3" PRIu64 "  %-36s  ", vcpu, name);
	if (label) {
		print_text(label, f);
		fputs("  ", f);
	}
	print_values(terms, f);
	fputc('\n', f);
}

/* --- sums ----------------------------------------------------------------------------------------
 */

static void add_member(json_t *sum, const json_t *entry, const char *name)
{
	const uint64_t n = (uint64_t)member(sum, name) + (uint64_t)member(entry, name);

	(void)json_object_set_new(sum, name, json_integer((json_int_t)n)); /* stays as it was */
}

/* Buckets are pairs of value and count. */
static void add_buckets(json_t *sum, const json_t *entry)
{
	json_t *all = json_object_get(sum, "buckets"), *pair, *old;
	size_t i, at;

	json_array_foreach(json_object_get(entry, "buckets"), i, pair)
	{
		const json_int_t value = json_integer_value(json_array_get(pair, 0));
		json_int_t count = json_integer_value(json_array_get(pair, 1));

		for (at = 0; at < json_array_size(all); at++) {
			old = json_array_get(all, at);
			if (json_integer_value(json_array_get(old, 0)) >= value)
				break;
		}
		old = json_array_get(all, at);
		if (old && json_integer_value(json_array_get(old, 0)) == value) {
			count += json_integer_value(json_array_get(old, 1));
			(void)json_array_set_new(old, 1, json_integer(count));
		} else {
			(void)json_array_insert_new(all, at, json_pack("[I, I]", value, count));
		}
	}
}

static void combine(json_t *sum, const json_t *entry, const char *function)
{
	const json_int_t old = member(sum, "value"), value = member(entry, "value");

	if (!strcmp(function, "quantize")) {
		add_buckets(sum, entry);
	} else if (!strcmp(function, "avg")) {
		add_member(sum, entry, "sum");
		add_member(sum, entry, "count");
	} else if (!strcmp(function, "min") || !strcmp(function, "max")) {
		if (function[1] == 'i' ? value < old : value > old)
			(void)json_object_set_new(sum, "value", json_integer(value));
	} else {
		add_member(sum, entry, "value");
	}
}

/* How many of the probes that are known a clause has: with one, its name says nothing. */
static bool has_several(const struct cli_trace_view *v, json_int_t clause)
{
	const char *name;
	json_t *d;
	int n = 0;

	json_object_foreach(v->probes, name, d)
	{
		n += member(d, "clause") == clause;
	}
	return n > 1;
}

void cli_trace_add(struct cli_trace_view *v, const json_t *entry)
{
	const json_t *a = of_number(v->aggregations, (uint64_t)member(entry, "aggregation"));
	const json_t *d = of_number(v->probes, (uint64_t)member(a, "epid"));
	const char *function = json_string_value(json_object_get(a, "function"));
	json_t *keys = json_object_get(entry, "keys");
	char name[512];

	if (!a || !d || !function || !json_is_array(keys))
		return;
	probe_name(d, name, sizeof(name));
	json_t *what =
		json_pack("[I, I, s, O]", member(d, "clause"), member(a, "action"), name, keys);
	GS_FREE char *place = what ? json_dumps(what, JSON_COMPACT) : NULL;
	json_decref(what);
	if (!place)
		return;
	json_t *sum = json_object_get(v->places, place);
	if (sum) {
		combine(sum, entry, function);
		return;
	}
	sum = json_deep_copy(entry);
	if (!sum)
		return;
	(void)json_object_del(sum, "aggregation");
	(void)json_object_set_new(sum, "probe", json_string(name));
	(void)json_object_set_new(sum, "function", json_string(function));
	(void)json_object_set(sum, "of", json_object_get(a, "of"));
	(void)json_object_set(sum, "by", json_object_get(a, "by"));
	(void)json_object_set(sum, "clause", json_object_get(d, "clause"));
	(void)json_object_set(sum, "action", json_object_get(a, "action"));
	(void)json_array_append(v->sums, sum);
	(void)json_object_set_new(v->places, place, sum);
}

static double weight(const json_t *sum)
{
	const json_t *buckets = json_object_get(sum, "buckets"), *pair;
	double n = 0;
	size_t i;

	json_array_foreach(buckets, i, pair)
	{
		n += (double)json_integer_value(json_array_get(pair, 1));
	}
	if (buckets)
		return n;
	if (json_object_get(sum, "count"))
		return (double)member(sum, "sum") /
		       (double)gs_max(1, (uint64_t)member(sum, "count"));
	return (double)member(sum, "value");
}

/* By clause and action, then the least first, as it ends up at the bottom of a terminal. */
static int by_place(const void *a, const void *b)
{
	const json_t *l = *(json_t *const *)a, *r = *(json_t *const *)b;
	const double lw = weight(l), rw = weight(r);

	if (member(l, "clause") != member(r, "clause"))
		return member(l, "clause") < member(r, "clause") ? -1 : 1;
	if (member(l, "action") != member(r, "action"))
		return member(l, "action") < member(r, "action") ? -1 : 1;
	return (lw > rw) - (lw < rw);
}

static void print_title(const json_t *sum, FILE *f)
{
	const json_t *by = json_object_get(sum, "by"), *key;
	size_t i;

	fputc('\n', f);
	print_text(json_string_value(json_object_get(sum, "function")), f);
	fputc('(', f);
	if (json_is_string(json_object_get(sum, "of")))
		print_text(json_string_value(json_object_get(sum, "of")), f);
	fputc(')', f);
	json_array_foreach(by, i, key)
	{
		fputs(i ? ", " : " by ", f);
		print_text(json_is_string(key) ? json_string_value(key) : "?", f);
	}
	fputc('\n', f);
}

static void print_histogram(const json_t *buckets, FILE *f)
{
	const json_t *pair;
	json_int_t all = 0;
	size_t i;

	json_array_foreach(buckets, i, pair)
	{
		all += json_integer_value(json_array_get(pair, 1));
	}
	fputs("               value  ------------- distribution -------------  count\n", f);
	json_array_foreach(buckets, i, pair)
	{
		const json_int_t count = json_integer_value(json_array_get(pair, 1));
		const double share = all > 0 ? (double)count / (double)all : 0;
		const int bar = (int)(share * BAR_WIDTH + 0.5);

		fprintf(f, "%20" JSON_INTEGER_FORMAT " |",
			json_integer_value(json_array_get(pair, 0)));
		for (int n = 0; n < BAR_WIDTH; n++)
			fputc(n < bar ? '@' : ' ', f);
		fprintf(f, " %" JSON_INTEGER_FORMAT "\n", count);
	}
}

static void print_sum(const struct cli_trace_view *v, const json_t *sum, FILE *f)
{
	const json_t *buckets = json_object_get(sum, "buckets");

	if (json_object_get(sum, "count"))
		fprintf(f, "%20.1f  ", weight(sum));
	else if (!buckets)
		fprintf(f, "%20" JSON_INTEGER_FORMAT "  ", member(sum, "value"));
	else
		fputs("  ", f);
	if (has_several(v, member(sum, "clause"))) {
		print_text(json_string_value(json_object_get(sum, "probe")), f);
		fputs("  ", f);
	}
	print_values(json_object_get(sum, "keys"), f);
	fputc('\n', f);
	if (buckets)
		print_histogram(buckets, f);
}

void cli_trace_print_sums(const struct cli_trace_view *v, FILE *f)
{
	const size_t n = json_array_size(v->sums);
	GS_FREE json_t **sorted = gs_array_alloc(n ? n : 1, sizeof(void *));
	const json_t *last = NULL;

	if (v->json) {
		print_json_line(json_pack("{s:O}", "aggregations", v->sums), f);
		return;
	}
	for (size_t i = 0; sorted && i < n; i++)
		sorted[i] = json_array_get(v->sums, i);
	if (sorted)
		qsort(sorted, n, sizeof(void *), by_place);
	for (size_t i = 0; sorted && i < n; i++) {
		if (!last || member(last, "clause") != member(sorted[i], "clause") ||
		    member(last, "action") != member(sorted[i], "action"))
			print_title(sorted[i], f);
		print_sum(v, sorted[i], f);
		last = sorted[i];
	}
}
