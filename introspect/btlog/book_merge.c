/* SPDX-License-Identifier: Apache-2.0 */
/* Merging books: by build, where places in a kernel mean the same, or by the names of functions. */
#include "introspect/btlog/book_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static bool same_build(const struct btl_kernel_record *a, const struct btl_kernel_record *b)
{
	if (strcmp(a->banner, b->banner) != 0 || !a->banner[0])
		return false;
	if (!a->build_id_len || !b->build_id_len)
		return true;
	return a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len);
}

static bool is_one_build(const struct btl_book *a, const struct btl_book *b)
{
	const struct btl_kernel_record *first = a->kernels ? &a->kernel[0] : &b->kernel[0];

	if ((a->flags | b->flags) & BTL_BOOK_BY_NAME)
		return false;
	for (uint32_t i = 0; i < a->kernels; i++)
		if (!same_build(first, &a->kernel[i]))
			return false;
	for (uint32_t i = 0; i < b->kernels; i++)
		if (!same_build(first, &b->kernel[i]))
			return false;
	return true;
}

/* A book being copied into another one, with where its things went. */
struct import {
	struct btl_book *to;
	const struct btl_book *from;
	uint64_t shift; /* of addresses in the image */
	uint32_t first_log;
	uint32_t *module, *symbol, *frame, *stack, *kernel;
};

static bool import_symbols(struct import *m)
{
	bool by_name = m->to->flags & BTL_BOOK_BY_NAME;

	for (uint32_t i = 0; i < m->from->modules; i++) {
		m->module[i] = btl_book_module(m->to, m->from->module[i].name);
		if (m->module[i] == BTL_NONE)
			return false;
	}
	for (uint32_t i = 0; i < m->from->symbols; i++) {
		struct btl_symbol s = m->from->symbol[i];

		s.start = by_name ? 0 : s.start + (s.flags & BTL_SYMBOL_MODULE ? 0 : m->shift);
		s.size = by_name ? 0 : s.size;
		if (s.module != BTL_NONE)
			s.module = m->module[s.module];
		m->symbol[i] = btl_book_symbol(m->to, &s);
		if (m->symbol[i] == BTL_NONE)
			return false;
	}
	return true;
}

/*
 * By build: a frame keeps its place in its function, wherever that is in the book merged into. Without a
 * function, nothing says where it would have been, so it stays as it is.
 */
static struct btl_frame_record translate(const struct import *m, const struct btl_frame_record *f)
{
	bool by_name = m->to->flags & BTL_BOOK_BY_NAME;
	struct btl_frame_record r = *f;

	if (f->symbol == BTL_NONE) {
		if (by_name && !btl_frame_is_pseudo(f->frame))
			r.frame = BTL_FRAME_PSEUDO(BTL_PSEUDO_UNKNOWN);
		return r;
	}
	r.symbol = m->symbol[f->symbol];
	if (by_name)
		r.frame = r.offset = 0;
	else
		// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): frames' symbols are there
		r.frame = (m->to->symbol[r.symbol].start + r.offset) | (f->frame & 3);
	return r;
}

static bool import_frames(struct import *m)
{
	for (uint32_t i = 0; i < m->from->frames; i++) {
		struct btl_frame_record r = translate(m, &m->from->frame[i]);

		m->frame[i] = btl_book_frame(m->to, &r);
		if (m->frame[i] == BTL_NONE)
			return false;
	}
	return true;
}

static bool import_stacks(struct import *m)
{
	for (uint32_t i = 0; i < m->from->stacks; i++) {
		struct btl_stack_record r = m->from->stack[i];

		for (uint32_t k = 0; k < r.count; k++)
			r.frame[k] = m->frame[r.frame[k]];
		m->stack[i] = btl_book_stack(m->to, &r);
		if (m->stack[i] == BTL_NONE)
			return false;
	}
	return true;
}

static bool import_logs(struct import *m)
{
	m->first_log = m->to->logs;
	for (uint32_t i = 0; i < m->from->kernels; i++) {
		m->kernel[i] = btl_book_kernel(m->to, &m->from->kernel[i]);
		if (m->kernel[i] == BTL_NONE)
			return false;
	}
	for (uint32_t i = 0; i < m->from->logs; i++) {
		struct btl_log_record r = m->from->log[i];

		r.kernel = m->kernel[r.kernel];
		if (!btl_book_add_log(m->to, &r))
			return false;
	}
	for (uint32_t i = 0; i < m->from->ops; i++) {
		struct btl_op_record r = m->from->op[i];

		r.log += m->first_log;
		if (!btl_book_add_op(m->to, &r))
			return false;
	}
	return true;
}

static bool import_entries(struct import *m)
{
	for (uint32_t i = 0; i < m->from->entries; i++) {
		struct btl_entry_record r = m->from->entry[i];

		r.log += m->first_log;
		r.stack = m->stack[r.stack];
		if (!btl_book_add_entry(m->to, &r))
			return false;
	}
	return true;
}

static uint32_t *indices(uint32_t count)
{
	return gs_array_alloc(gs_max(count, 1), sizeof(uint32_t));
}

static bool import(struct btl_book *to, const struct btl_book *from)
{
	struct import m = { .to = to,
			    .from = from,
			    .module = indices(from->modules),
			    .symbol = indices(from->symbols),
			    .frame = indices(from->frames),
			    .stack = indices(from->stacks),
			    .kernel = indices(from->kernels) };

	/* addresses are those of the first kernel, in both */
	if (to->kernels && from->kernels)
		m.shift = to->kernel[0].text - from->kernel[0].text;
	bool ok = m.module && m.symbol && m.frame && m.stack && m.kernel && import_logs(&m) &&
		  import_symbols(&m) && import_frames(&m) && import_stacks(&m) &&
		  import_entries(&m);
	free(m.module);
	free(m.symbol);
	free(m.frame);
	free(m.stack);
	free(m.kernel);
	return ok;
}

enum gs_code btl_book_merge(struct btl_book *book, const struct btl_book *other, enum btl_merge how,
			    struct gs_error *err)
{
	struct btl_book both = { 0 };
	bool by_name = how == BTL_MERGE_BY_NAME || !is_one_build(book, other);

	if (by_name && how == BTL_MERGE_BY_BUILD)
		return gs_fail(err, GS_EINVAL, "backtraces of different kernel builds");
	if ((uint64_t)book->entries + other->entries > BTL_BOOK_MAX ||
	    book->kernels + other->kernels > BTL_BOOK_KERNELS_MAX ||
	    book->logs + other->logs > BTL_BOOK_LOGS_MAX)
		return gs_fail(err, GS_ETOOBIG, "too many records, kernels or logs together");
	both.flags = by_name ? BTL_BOOK_BY_NAME : 0;
	if (!import(&both, book) || !import(&both, other)) {
		btl_book_deinit(&both);
		return btl_book_no_memory(err);
	}
	btl_book_deinit(book);
	*book = both;
	return GS_OK;
}
