/* SPDX-License-Identifier: Apache-2.0 */
/* Backtrace logs for people. */
#include "cli/book_view.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/util.h"

/* Names have at most 511 characters; only what has to be escaped may be cut. */
#define NAME_MAX_SHOWN 1536

/* --- frames --------------------------------------------------------------------------------------
 */

/* Put " [module]" behind the @p n characters of a function's name. */
static void put_module(const struct btl_book *book, uint32_t frame, char out[static NAME_MAX_SHOWN],
		       size_t n)
{
	const char *module = btl_frame_module(book, frame);
	char name[4 * BTL_MODULE_NAME_SIZE];

	if (!module)
		return;
	gs_escape_terminal(module, strlen(module), name, sizeof(name));
	snprintf(out + n, NAME_MAX_SHOWN - n, " [%s]", name);
}

/* "vfs_read+0x40"; escaped, since a book may be a file of anybody's. */
static const char *frame_text(const struct btl_book *book, uint32_t frame,
			      char out[static NAME_MAX_SHOWN])
{
	const struct btl_frame_record *f = &book->frame[frame];
	char buf[BTL_FUNCTION_TEXT];
	const char *name = btl_frame_function(book, frame, buf);
	size_t n = gs_escape_terminal(name, strlen(name), out, NAME_MAX_SHOWN);

	if (f->symbol != BTL_NONE && !(book->flags & BTL_BOOK_BY_NAME))
		snprintf(out + n, NAME_MAX_SHOWN - n, "+%#" PRIx32, f->offset);
	put_module(book, frame, out, strlen(out));
	return out;
}

static void print_stack(const struct btl_book *book, uint32_t stack, FILE *to)
{
	const struct btl_stack_record *s = &book->stack[stack];
	char name[NAME_MAX_SHOWN];

	for (uint32_t i = 0; i < s->count; i++)
		fprintf(to, "    %s\n", frame_text(book, s->frame[i], name));
	if (s->flags & BTL_STACK_CUT)
		fputs("    … (outer frames are not kept)\n", to);
	if (!s->count)
		fputs("    [no kernel frames]\n", to);
}

static json_t *stack_json(const struct btl_book *book, uint32_t stack)
{
	const struct btl_stack_record *s = &book->stack[stack];
	json_t *frames = json_array();
	char name[NAME_MAX_SHOWN];

	for (uint32_t i = 0; i < s->count; i++)
		(void)json_array_append_new(frames,
					    json_string(frame_text(book, s->frame[i], name)));
	return frames;
}

static double share(uint64_t count, uint64_t of)
{
	return of ? 100.0 * (double)count / (double)of : 0;
}

static uint32_t shown(const struct cli_book_view *v, uint32_t count)
{
	return v->max && v->max < count ? v->max : count;
}

/* --- top -----------------------------------------------------------------------------------------
 */

static void print_count_head(const struct btl_counts *c, const struct cli_book_view *v,
			     const char *what, FILE *to)
{
	fprintf(to, "%" PRIu64 " records, %" PRIu32 " %s", c->records, c->count, what);
	if (shown(v, c->count) < c->count)
		fprintf(to, ", the first %" PRIu32, shown(v, c->count));
	if (c->cut)
		fprintf(to, "; %" PRIu64 " records have stacks whose outer frames are not kept",
			c->cut);
	fputs("\n\n", to);
}

static void print_json(json_t *root, FILE *to)
{
	(void)json_dumpf(root, to, JSON_INDENT(2) | JSON_ENSURE_ASCII);
	fputc('\n', to);
	json_decref(root);
}

static json_t *count_json(const struct btl_counts *c, const char *by)
{
	return json_pack("{s:I, s:I, s:s, s:[]}", "records", (json_int_t)c->records, "cut",
			 (json_int_t)c->cut, "by", by, "counts");
}

static enum gs_code top_stacks(const struct btl_book *book, const struct cli_book_view *v, FILE *to,
			       struct gs_error *err)
{
	struct btl_counts c;
	enum gs_code rc = btl_count_stacks(book, &v->filter, &c, err);

	if (rc)
		return rc;
	json_t *root = v->json ? count_json(&c, "stack") : NULL;
	if (!root)
		print_count_head(&c, v, "stacks", to);
	for (uint32_t i = 0; i < shown(v, c.count); i++) {
		if (root) {
			(void)json_array_append_new(
				json_object_get(root, "counts"),
				json_pack("{s:I, s:o}", "count", (json_int_t)c.stack[i].count,
					  "frames", stack_json(book, c.stack[i].stack)));
			continue;
		}
		fprintf(to, "%5.1f %%  %" PRIu64 "\n", share(c.stack[i].count, c.records),
			c.stack[i].count);
		print_stack(book, c.stack[i].stack, to);
		fputc('\n', to);
	}
	if (root)
		print_json(root, to);
	btl_counts_deinit(&c);
	return GS_OK;
}

static enum gs_code top_functions(const struct btl_book *book, const struct cli_book_view *v,
				  FILE *to, struct gs_error *err)
{
	struct btl_counts c;
	enum gs_code rc = btl_count_functions(book, &v->filter, &c, err);

	if (rc)
		return rc;
	json_t *root = v->json ? count_json(&c, "function") : NULL;
	if (!root) {
		print_count_head(&c, v, "functions", to);
		fputs("  self          total         function\n", to);
	}
	for (uint32_t i = 0; i < shown(v, c.count); i++) {
		const struct btl_function_count *f = &c.function[i];
		char buf[BTL_FUNCTION_TEXT], name[NAME_MAX_SHOWN];
		const char *raw = btl_function_name(book, f, buf);

		put_module(book, f->frame, name,
			   gs_escape_terminal(raw, strlen(raw), name, sizeof(name)));
		if (root)
			(void)json_array_append_new(
				json_object_get(root, "counts"),
				json_pack("{s:I, s:I, s:s}", "self", (json_int_t)f->self, "total",
					  (json_int_t)f->total, "function", name));
		else
			fprintf(to, "%5.1f %% %6" PRIu64 "  %5.1f %% %6" PRIu64 "  %s\n",
				share(f->self, c.records), f->self, share(f->total, c.records),
				f->total, name);
	}
	if (root)
		print_json(root, to);
	btl_counts_deinit(&c);
	return GS_OK;
}

static enum gs_code top_operations(const struct btl_book *book, const struct cli_book_view *v,
				   FILE *to, struct gs_error *err)
{
	struct btl_counts c;
	enum gs_code rc = btl_count_ops(book, &v->filter, &c, err);

	if (rc)
		return rc;
	json_t *root = v->json ? count_json(&c, "operation") : NULL;
	if (!root)
		print_count_head(&c, v, "operations", to);
	for (uint32_t i = 0; i < shown(v, c.count); i++) {
		char name[4 * sizeof(c.op[i].name)];

		gs_escape_terminal(c.op[i].name, sizeof(c.op[i].name), name, sizeof(name));
		if (root)
			(void)json_array_append_new(json_object_get(root, "counts"),
						    json_pack("{s:I, s:s}", "count",
							      (json_int_t)c.op[i].count,
							      "operation", name));
		else
			fprintf(to, "%5.1f %%  %8" PRIu64 "  %s\n", share(c.op[i].count, c.records),
				c.op[i].count, name);
	}
	if (root)
		print_json(root, to);
	btl_counts_deinit(&c);
	return GS_OK;
}

enum gs_code cli_book_top(const struct btl_book *book, const struct cli_book_view *v, FILE *to,
			  struct gs_error *err)
{
	switch (v->by) {
	case CLI_BOOK_BY_STACK: return top_stacks(book, v, to, err);
	case CLI_BOOK_BY_FUNCTION: return top_functions(book, v, to, err);
	case CLI_BOOK_BY_OPERATION: return top_operations(book, v, to, err);
	}
	return GS_EINVAL;
}

/* --- records -------------------------------------------------------------------------------------
 */

static bool passes(const struct btl_filter *f, const struct btl_entry_record *e)
{
	return e->time_us >= f->from_us && (!f->to_us || e->time_us < f->to_us) &&
	       (!f->ops || (e->op < BTL_OPS && f->ops & UINT64_C(1) << e->op)) &&
	       (f->log == BTL_NONE || e->log == f->log);
}

static const char *op_text(const struct btl_book *book, uint32_t log, uint32_t op,
			   char out[static 128])
{
	for (uint32_t i = 0; i < book->ops; i++) {
		if (book->op[i].log != log || book->op[i].op != op)
			continue;
		gs_escape_terminal(book->op[i].name, sizeof(book->op[i].name), out, 128);
		return out;
	}
	snprintf(out, 128, "operation %" PRIu32, op);
	return out;
}

/* What records are sorted by: a book of one log is sorted already, a merged one is not. */
struct moment {
	uint64_t time_us;
	uint32_t entry;
};

static int compare_moments(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->time_us != y->time_us)
		return x->time_us < y->time_us ? -1 : 1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

static void print_entry(const struct btl_book *book, const struct btl_entry_record *e, FILE *to)
{
	time_t seconds = (time_t)(e->time_us / 1000000);
	char when[32] = "?", op[128];
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%F %T", &tm);
	fprintf(to, "%s.%02u  %#" PRIx64 "  %s\n", when,
		(unsigned int)(e->time_us % 1000000 / 10000), e->element,
		op_text(book, e->log, e->op, op));
	print_stack(book, e->stack, to);
	fputc('\n', to);
}

static json_t *entry_json(const struct btl_book *book, const struct btl_entry_record *e)
{
	char element[32], op[128];

	snprintf(element, sizeof(element), "%#" PRIx64, e->element);
	return json_pack("{s:I, s:s, s:s, s:o}", "time_us", (json_int_t)e->time_us, "element",
			 element, "operation", op_text(book, e->log, e->op, op), "frames",
			 stack_json(book, e->stack));
}

void cli_book_show(const struct btl_book *book, const struct cli_book_view *v, FILE *to)
{
	GS_FREE struct moment *at = gs_array_alloc(book->entries, sizeof(*at));
	json_t *root = v->json ? json_array() : NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; at && i < book->entries; i++)
		if (passes(&v->filter, &book->entry[i]))
			at[n++] = (struct moment){ book->entry[i].time_us, i };
	if (n)
		qsort(at, n, sizeof(*at), compare_moments);
	for (uint32_t i = n - shown(v, n); i < n; i++) {
		const struct btl_entry_record *e = &book->entry[at[i].entry];

		if (root)
			(void)json_array_append_new(root, entry_json(book, e));
		else
			print_entry(book, e, to);
	}
	if (root)
		print_json(root, to);
}

/* --- leaks ---------------------------------------------------------------------------------------
 */

static const struct btl_entry_record *newest_of(const struct btl_book *book,
						const struct cli_book_view *v, uint64_t element)
{
	const struct btl_entry_record *newest = NULL;

	for (uint32_t i = 0; i < book->entries; i++) {
		const struct btl_entry_record *e = &book->entry[i];

		if (e->element == element && passes(&v->filter, e) &&
		    (!newest || e->time_us >= newest->time_us))
			newest = e;
	}
	return newest;
}

static void print_leaks(const struct btl_book *book, const struct btl_counts *c, uint64_t of,
			const struct cli_book_view *v, FILE *to)
{
	json_t *root = v->json ? count_json(c, "stack") : NULL;

	for (uint32_t i = 0; i < shown(v, c->count); i++) {
		const struct btl_stack_count *s = &c->stack[i];

		if (root) {
			(void)json_array_append_new(json_object_get(root, "counts"),
						    json_pack("{s:I, s:o}", "count",
							      (json_int_t)s->count, "frames",
							      stack_json(book, s->stack)));
			continue;
		}
		fprintf(to, "%" PRIu64 " of %" PRIu64 "\n", s->count, of);
		print_stack(book, s->stack, to);
		fputc('\n', to);
	}
	if (root)
		print_json(root, to);
}

/* A record, in an order that puts those of an element together, the newest last. */
struct place {
	uint64_t element, time_us;
	uint32_t log, entry;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->log != y->log)
		return x->log < y->log ? -1 : 1;
	if (x->element != y->element)
		return x->element < y->element ? -1 : 1;
	if (x->time_us != y->time_us)
		return x->time_us < y->time_us ? -1 : 1;
	return (x->entry > y->entry) - (x->entry < y->entry);
}

/* A log out of which elements are erased; what is left of one was not. */
static bool is_erased_from(const struct btl_book *book, const struct cli_book_view *v, uint32_t log)
{
	return book->log[log].kind == BTL_LOG_HASH &&
	       (v->filter.log == BTL_NONE || v->filter.log == log);
}

static void count_record(const struct btl_book *book, const struct btl_entry_record *e,
			 struct btl_stack_count *count, struct btl_counts *c)
{
	count[e->stack].count++;
	c->records++;
	c->cut += book->stack[e->stack].flags & BTL_STACK_CUT;
}

/* The newest record of each element that was not erased. @return false: out of memory */
static bool count_left(const struct btl_book *book, const struct cli_book_view *v,
		       struct btl_stack_count *count, struct btl_counts *c)
{
	GS_FREE struct place *place = gs_array_alloc(gs_max(book->entries, 1), sizeof(*place));
	uint32_t n = 0;

	for (uint32_t i = 0; place && i < book->entries; i++) {
		const struct btl_entry_record *e = &book->entry[i];

		if (is_erased_from(book, v, e->log) && passes(&v->filter, e))
			place[n++] = (struct place){ e->element, e->time_us, e->log, i };
	}
	if (n)
		qsort(place, n, sizeof(*place), compare_places);
	for (uint32_t i = 0; i < n; i++) {
		if (i + 1 < n && place[i].log == place[i + 1].log &&
		    place[i].element == place[i + 1].element)
			continue;
		count_record(book, &book->entry[place[i].entry], count, c);
	}
	return place;
}

static void count_given(const struct btl_book *book, const struct cli_book_view *v,
			const uint64_t *elements, size_t n, struct btl_stack_count *count,
			struct btl_counts *c)
{
	for (size_t i = 0; i < n; i++) {
		const struct btl_entry_record *e = newest_of(book, v, elements[i]);

		if (e)
			count_record(book, e, count, c);
	}
}

static int compare_counts(const void *a, const void *b)
{
	const struct btl_stack_count *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

bool cli_book_can_leak(const struct btl_book *book, const struct cli_book_view *v)
{
	for (uint32_t i = 0; i < book->logs; i++)
		if (is_erased_from(book, v, i))
			return true;
	return false;
}

uint64_t cli_book_missing(const struct btl_book *book, const struct cli_book_view *v)
{
	uint64_t missing = 0;

	for (uint32_t i = 0; i < book->logs; i++)
		if (is_erased_from(book, v, i))
			missing += book->log[i].overwritten + book->log[i].dropped;
	return missing;
}

enum gs_code cli_book_leaks(const struct btl_book *book, const uint64_t *elements, size_t n,
			    const struct cli_book_view *v, FILE *to, size_t *n_known_out,
			    struct gs_error *err)
{
	GS_FREE struct btl_stack_count *count = gs_array_alloc(book->stacks + 1, sizeof(*count));
	struct btl_counts c = { .count = 0 };

	if (!count)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	for (uint32_t i = 0; i < book->stacks; i++)
		count[i].stack = i;
	if (n)
		count_given(book, v, elements, n, count, &c);
	else if (!count_left(book, v, count, &c))
		return gs_fail(err, GS_ENOSPC, "out of memory");
	qsort(count, book->stacks, sizeof(*count), compare_counts);
	while (c.count < book->stacks && count[c.count].count)
		c.count++;
	c.stack = count;
	print_leaks(book, &c, n ? n : c.records, v, to);
	*n_known_out = (size_t)c.records;
	return GS_OK;
}
