/* SPDX-License-Identifier: Apache-2.0 */
/* A book from a kcdata stream, which may hold anything. */
#include "introspect/btlog/book_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "kcdata/kcdata.h"

/* Indices of the stream and what became of them: equal ones of a made-up stream become one. */
struct map {
	uint32_t *to;
	uint32_t count;
};

struct load {
	struct btl_book book;
	struct map modules, symbols, frames, stacks;
	bool is_book;
	struct kcd_item item;
	struct gs_error *err;
};

static enum gs_code bad(struct load *l, const char *what, uint32_t i)
{
	return gs_fail(l->err, GS_EMALFORMED, "record %llu at offset %zu, element %u: %s",
		       (unsigned long long)l->item.record, l->item.offset, i, what);
}

static bool map_add(struct map *m, uint32_t index)
{
	uint32_t *at = btl_array_next((void **)&m->to, m->count, sizeof(*m->to));

	if (!at || index == BTL_NONE)
		return false;
	*at = index;
	m->count++;
	return true;
}

/* --- one element of each type -------------------------------------------------------------------- */

static enum gs_code load_kernel(struct load *l, uint32_t i)
{
	struct btl_kernel_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.banner[sizeof(r.banner) - 1] = '\0';
	if (r.build_id_len > sizeof(r.build_id))
		return bad(l, "build id too long", i);
	/* two alike would be numbered as one, and shift the others */
	uint32_t before = l->book.kernels, index = btl_book_kernel(&l->book, &r);
	if (index == BTL_NONE)
		return btl_book_no_memory(l->err);
	return index == before ? GS_OK : bad(l, "a kernel twice", i);
}

static enum gs_code load_log(struct load *l, uint32_t i)
{
	struct btl_log_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.name[sizeof(r.name) - 1] = '\0';
	if (r.kernel >= l->book.kernels)
		return bad(l, "no such kernel", i);
	return btl_book_add_log(&l->book, &r) ? GS_OK : btl_book_no_memory(l->err);
}

static enum gs_code load_op(struct load *l, uint32_t i)
{
	struct btl_op_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.name[sizeof(r.name) - 1] = '\0';
	if (r.log >= l->book.logs || r.op >= BTL_OPS)
		return bad(l, "no such log or operation", i);
	return btl_book_add_op(&l->book, &r) ? GS_OK : btl_book_no_memory(l->err);
}

static enum gs_code load_module(struct load *l, uint32_t i)
{
	struct btl_module_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.name[sizeof(r.name) - 1] = '\0';
	return map_add(&l->modules, btl_book_module(&l->book, r.name)) ? GS_OK
								       : btl_book_no_memory(l->err);
}

static enum gs_code add_symbol(struct load *l, uint32_t i, struct btl_symbol s, uint64_t flags)
{
	const uint64_t module = flags >> BTL_SYMBOL_MODULE_SHIFT;

	if (module > l->modules.count)
		return bad(l, "no such module", i);
	if (l->book.flags & BTL_BOOK_BY_NAME)
		s.start = s.size = 0;
	s.flags = (uint32_t)flags & BTL_SYMBOL_MODULE;
	s.module = module ? l->modules.to[module - 1] : BTL_NONE;
	return map_add(&l->symbols, btl_book_symbol(&l->book, &s)) ? GS_OK
								   : btl_book_no_memory(l->err);
}

static enum gs_code load_symbol(struct load *l, uint32_t i)
{
	struct btl_symbol_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.name[sizeof(r.name) - 1] = '\0';
	return add_symbol(l, i, (struct btl_symbol){ r.start, r.size, 0, BTL_NONE, r.name },
			  r.flags);
}

static enum gs_code load_long_symbol(struct load *l, uint32_t i)
{
	struct btl_long_symbol_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	r.name[sizeof(r.name) - 1] = '\0';
	return add_symbol(l, i, (struct btl_symbol){ r.start, r.size, 0, BTL_NONE, r.name },
			  r.flags);
}

static enum gs_code load_frame(struct load *l, uint32_t i)
{
	struct btl_frame_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	if (r.symbol != BTL_NONE) {
		if (r.symbol >= l->symbols.count)
			return bad(l, "no such symbol", i);
		r.symbol = l->symbols.to[r.symbol];
	}
	return map_add(&l->frames, btl_book_frame(&l->book, &r)) ? GS_OK
								 : btl_book_no_memory(l->err);
}

static enum gs_code load_stack(struct load *l, uint32_t i)
{
	struct btl_stack_record in, r = { 0 };

	kcd_item_copy_elem(&l->item, i, &in, sizeof(in));
	if (in.count > BTL_FRAMES_MAX)
		return bad(l, "too many frames", i);
	r.flags = in.flags & BTL_STACK_CUT;
	r.count = in.count;
	for (uint32_t k = 0; k < in.count; k++) {
		if (in.frame[k] >= l->frames.count)
			return bad(l, "no such frame", i);
		r.frame[k] = l->frames.to[in.frame[k]];
	}
	return map_add(&l->stacks, btl_book_stack(&l->book, &r)) ? GS_OK
								 : btl_book_no_memory(l->err);
}

static enum gs_code load_entry(struct load *l, uint32_t i)
{
	struct btl_entry_record r;

	kcd_item_copy_elem(&l->item, i, &r, sizeof(r));
	if (r.log >= l->book.logs || r.op >= BTL_OPS || r.stack >= l->stacks.count)
		return bad(l, "no such log, operation or stack", i);
	r.stack = l->stacks.to[r.stack];
	r.reserved = 0;
	return btl_book_add_entry(&l->book, &r) ? GS_OK : btl_book_no_memory(l->err);
}

/* --- the stream ---------------------------------------------------------------------------------- */

static enum gs_code load_book(struct load *l)
{
	struct btl_book_record r;

	if (l->is_book)
		return bad(l, "a second book", 0);
	kcd_item_copy(&l->item, &r, sizeof(r));
	if (r.version != BTL_RECORD_VERSION)
		return gs_fail(l->err, GS_ENOTSUP,
			       "a book of version %u; this program knows version %u", r.version,
			       BTL_RECORD_VERSION);
	l->book.flags = r.flags & BTL_BOOK_BY_NAME;
	l->is_book = true;
	return GS_OK;
}

static enum gs_code load_array(struct load *l, uint32_t size,
			       enum gs_code (*one)(struct load *l, uint32_t i))
{
	enum gs_code rc = GS_OK;

	if (!l->is_book)
		return bad(l, "before the book's own record", 0);
	/* so that what is allocated is bounded by what is there */
	if (l->item.count && l->item.elem_size < size)
		return bad(l, "elements too small", 0);
	for (uint32_t i = 0; i < l->item.count && !rc; i++)
		rc = one(l, i);
	return rc;
}

/* For the few that there are. */
static enum gs_code load_few(struct load *l, uint32_t size, uint32_t there, uint32_t max,
			     enum gs_code (*one)(struct load *l, uint32_t i))
{
	if (l->item.count > max - there)
		return gs_fail(l->err, GS_ETOOBIG,
			       "record %llu: %u elements; at most %u are possible",
			       (unsigned long long)l->item.record, l->item.count, max - there);
	return load_array(l, size, one);
}

static enum gs_code load_item(struct load *l)
{
	if (l->item.depth || l->item.kind == KCD_ITEM_CONTAINER_BEGIN ||
	    l->item.kind == KCD_ITEM_CONTAINER_END || l->item.kind == KCD_ITEM_TYPEDEF)
		return GS_OK;
	switch ((enum btl_record_type)l->item.elem_type) {
	case BTL_RECORD_BOOK: return load_book(l);
	case BTL_RECORD_KERNEL:
		return load_few(l, sizeof(struct btl_kernel_record), l->book.kernels,
				BTL_BOOK_KERNELS_MAX, load_kernel);
	case BTL_RECORD_LOG:
		return load_few(l, sizeof(struct btl_log_record), l->book.logs, BTL_BOOK_LOGS_MAX,
				load_log);
	case BTL_RECORD_OP: return load_array(l, sizeof(struct btl_op_record), load_op);
	case BTL_RECORD_MODULE: return load_array(l, sizeof(struct btl_module_record), load_module);
	case BTL_RECORD_SYMBOL: return load_array(l, sizeof(struct btl_symbol_record), load_symbol);
	case BTL_RECORD_LONG_SYMBOL:
		return load_array(l, sizeof(struct btl_long_symbol_record), load_long_symbol);
	case BTL_RECORD_FRAME: return load_array(l, sizeof(struct btl_frame_record), load_frame);
	case BTL_RECORD_STACK: return load_array(l, sizeof(struct btl_stack_record), load_stack);
	case BTL_RECORD_ENTRY: return load_array(l, sizeof(struct btl_entry_record), load_entry);
	}
	return GS_OK; // other records have their own readers
}

static enum gs_code load_items(struct load *l, const void *data, size_t len)
{
	struct kcd_error why = { .code = KCD_OK };
	struct kcd_reader r;
	enum gs_code rc = GS_OK;
	enum kcd_code kc = kcd_reader_init(&r, data, len, KCD_TOLERANT, &why);

	while (!rc && !kc && !(kc = kcd_reader_next(&r, &l->item)))
		rc = load_item(l);
	if (rc || kc == KCD_DONE)
		return rc;
	return gs_fail(l->err, GS_EMALFORMED, "record %llu at offset %zu: %s",
		       (unsigned long long)why.record, why.offset, why.reason);
}

enum gs_code btl_book_decode(const void *data, size_t len, struct btl_book *book_out,
			     struct gs_error *err)
{
	struct load l = { .err = err };
	enum gs_code rc = load_items(&l, data, len);

	if (!rc && !l.is_book)
		rc = gs_fail(err, GS_ENOENT, "a kcdata file, but no saved backtrace log");
	free(l.modules.to);
	free(l.symbols.to);
	free(l.frames.to);
	free(l.stacks.to);
	if (rc)
		btl_book_deinit(&l.book);
	else
		*book_out = l.book;
	return rc;
}
