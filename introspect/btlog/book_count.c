/* SPDX-License-Identifier: Apache-2.0 */
/* Counting the records of a book. */
#include "introspect/btlog/book_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static bool matches(const struct btl_entry_record *e, const struct btl_filter *f)
{
	if (!f)
		return true;
	return e->time_us >= f->from_us && (!f->to_us || e->time_us < f->to_us) &&
	       (!f->ops || f->ops >> e->op & 1) && (f->log == BTL_NONE || f->log == e->log);
}

static void count_record(const struct btl_book *book, const struct btl_entry_record *e,
			 struct btl_counts *out)
{
	const struct btl_stack_record *s = &book->stack[e->stack];

	out->records++;
	out->cut += s->flags & BTL_STACK_CUT;
	out->empty += s->count == 0;
}

/* How often each stack occurs: an array of book->stacks, to be freed. */
static uint64_t *count_by_stack(const struct btl_book *book, const struct btl_filter *filter,
				struct btl_counts *out)
{
	uint64_t *counts = gs_array_alloc(gs_max(book->stacks, 1), sizeof(*counts));

	for (uint32_t i = 0; i < book->entries && counts; i++) {
		const struct btl_entry_record *e = &book->entry[i];

		if (!matches(e, filter))
			continue;
		counts[e->stack]++;
		count_record(book, e, out);
	}
	return counts;
}

void btl_counts_deinit(struct btl_counts *counts)
{
	free(counts->stack);
	memset(counts, 0, sizeof(*counts));
}

/* Descending, then by index, so that equal inputs give equal results. */
static int descending(uint64_t a, uint64_t b, uint32_t index_a, uint32_t index_b)
{
	if (a != b)
		return a < b ? 1 : -1;
	return (index_a > index_b) - (index_a < index_b);
}

/* --- stacks -------------------------------------------------------------------------------------- */

static int compare_stacks(const void *a, const void *b)
{
	const struct btl_stack_count *x = a, *y = b;

	return descending(x->count, y->count, x->stack, y->stack);
}

enum gs_code btl_count_stacks(const struct btl_book *book, const struct btl_filter *filter,
			      struct btl_counts *counts_out, struct gs_error *err)
{
	struct btl_counts c = { 0 };
	uint64_t *counts = count_by_stack(book, filter, &c);

	c.stack = gs_array_alloc(gs_max(book->stacks, 1), sizeof(*c.stack));
	for (uint32_t i = 0; i < book->stacks && counts && c.stack; i++)
		if (counts[i])
			c.stack[c.count++] = (struct btl_stack_count){ counts[i], i };
	bool ok = counts && c.stack;
	free(counts);
	if (!ok) {
		free(c.stack);
		return btl_book_no_memory(err);
	}
	qsort(c.stack, c.count, sizeof(*c.stack), compare_stacks);
	*counts_out = c;
	return GS_OK;
}

/* --- functions ----------------------------------------------------------------------------------- */

static int compare_functions(const void *a, const void *b)
{
	const struct btl_function_count *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return descending(x->total, y->total, x->frame, y->frame);
}

/* Functions are numbered: symbols, then frames that have none. */
static uint32_t function_of(const struct btl_book *book, uint32_t frame)
{
	uint32_t symbol = book->frame[frame].symbol;

	return symbol != BTL_NONE ? symbol : book->symbols + frame;
}

static void count_stack(const struct btl_book *book, const struct btl_stack_record *s,
			uint64_t count, struct btl_function_count *functions)
{
	uint32_t met[BTL_FRAMES_MAX];

	for (uint32_t k = 0; k < s->count; k++) {
		uint32_t i = function_of(book, s->frame[k]), before = 0;
		struct btl_function_count *f = &functions[i];

		met[k] = i;
		while (met[before] != i)
			before++;
		if (!f->total) {
			f->symbol = book->frame[s->frame[k]].symbol;
			f->frame = s->frame[k];
		}
		f->self += k == 0 ? count : 0;
		f->total += before == k ? count : 0; // recursion counts once
	}
}

enum gs_code btl_count_functions(const struct btl_book *book, const struct btl_filter *filter,
				 struct btl_counts *counts_out, struct gs_error *err)
{
	struct btl_counts c = { 0 };
	uint64_t *counts = count_by_stack(book, filter, &c);
	size_t functions = (size_t)book->symbols + book->frames;

	c.function = gs_array_alloc(gs_max(functions, 1), sizeof(*c.function));
	for (uint32_t i = 0; i < book->stacks && counts && c.function; i++)
		if (counts[i])
			count_stack(book, &book->stack[i], counts[i], c.function);
	bool ok = counts && c.function;
	free(counts);
	if (!ok) {
		free(c.function);
		return btl_book_no_memory(err);
	}
	for (size_t i = 0; i < functions; i++)
		if (c.function[i].total)
			c.function[c.count++] = c.function[i];
	qsort(c.function, c.count, sizeof(*c.function), compare_functions);
	*counts_out = c;
	return GS_OK;
}

/* --- operations ---------------------------------------------------------------------------------- */

static int compare_ops(const void *a, const void *b)
{
	const struct btl_op_count *x = a, *y = b;

	return descending(x->count, y->count, x->op, y->op);
}

static int compare_names(const void *a, const void *b)
{
	const struct btl_op_count *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	return by_name ? by_name : (x->op > y->op) - (x->op < y->op);
}

/* Logs may call different things by one number, and one thing by different numbers: names tell. */
static void merge_names(struct btl_counts *c)
{
	uint32_t n = 0;

	qsort(c->op, c->count, sizeof(*c->op), compare_names);
	for (uint32_t i = 0; i < c->count; i++) {
		if (n && !strcmp(c->op[n - 1].name, c->op[i].name))
			c->op[n - 1].count += c->op[i].count;
		else
			c->op[n++] = c->op[i];
	}
	c->count = n;
}

/* Index of the record that names an operation of a log, by log and operation; to be freed. */
static uint32_t *names_of_ops(const struct btl_book *book)
{
	size_t n = gs_max(book->logs, 1) * BTL_OPS;
	uint32_t *names = gs_array_alloc(n, sizeof(*names));

	for (size_t i = 0; i < n && names; i++)
		names[i] = BTL_NONE;
	for (uint32_t i = 0; i < book->ops && names; i++)
		names[(size_t)book->op[i].log * BTL_OPS + book->op[i].op] = i;
	return names;
}

/* From counts by log and operation. */
static bool make_ops(const struct btl_book *book, const uint64_t *counts, struct btl_counts *c)
{
	uint32_t *names = names_of_ops(book);
	bool ok = names != NULL;

	for (size_t i = 0; i < (size_t)book->logs * BTL_OPS && ok; i++) {
		struct btl_op_count *o;

		if (!counts[i])
			continue;
		o = btl_array_next((void **)&c->op, c->count, sizeof(*o));
		ok = o != NULL;
		if (!ok)
			break;
		*o = (struct btl_op_count){ .count = counts[i], .op = i % BTL_OPS };
		if (names[i] != BTL_NONE)
			memcpy(o->name, book->op[names[i]].name, sizeof(o->name));
		else
			snprintf(o->name, sizeof(o->name), "%u", o->op);
		c->count++;
	}
	free(names);
	return ok;
}

enum gs_code btl_count_ops(const struct btl_book *book, const struct btl_filter *filter,
			   struct btl_counts *counts_out, struct gs_error *err)
{
	struct btl_counts c = { 0 };
	uint64_t *counts = gs_array_alloc(gs_max(book->logs, 1), BTL_OPS * sizeof(*counts));
	bool ok = counts != NULL;

	for (uint32_t i = 0; i < book->entries && ok; i++) {
		const struct btl_entry_record *e = &book->entry[i];

		if (!matches(e, filter))
			continue;
		counts[(size_t)e->log * BTL_OPS + e->op]++;
		count_record(book, e, &c);
	}
	ok = ok && make_ops(book, counts, &c);
	free(counts);
	if (!ok) {
		free(c.op);
		return btl_book_no_memory(err);
	}
	if (c.count) {
		merge_names(&c);
		qsort(c.op, c.count, sizeof(*c.op), compare_ops);
	}
	*counts_out = c;
	return GS_OK;
}
