/* SPDX-License-Identifier: Apache-2.0 */
/* A book as a kcdata stream. */
#include "introspect/btlog/book_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "kcdata/kcdata.h"

/* BEGIN, END, definitions and headers, with room to spare: ten types of at most 13 fields. */
#define FIXED_BYTES (16u << 10)

/* Symbols of the stream are those with short names, then the others: where each of the book's went. */
struct symbols {
	uint32_t *index;
	uint32_t shorts, longs;
};

static bool is_long(const struct btl_symbol *s)
{
	return strlen(s->name) >= BTL_SYMBOL_NAME_SIZE;
}

static bool number_symbols(const struct btl_book *book, struct symbols *out)
{
	out->index = gs_array_alloc(gs_max(book->symbols, 1), sizeof(*out->index));
	if (!out->index)
		return false;
	for (uint32_t i = 0; i < book->symbols; i++)
		if (!is_long(&book->symbol[i]))
			out->index[i] = out->shorts++;
	for (uint32_t i = 0; i < book->symbols; i++)
		if (is_long(&book->symbol[i]))
			out->index[i] = out->shorts + out->longs++;
	return true;
}

static bool size_of(const struct btl_book *book, const struct symbols *s, size_t *size_out)
{
	const struct {
		size_t count, size;
	} arrays[] = {
		{ book->kernels, sizeof(*book->kernel) },
		{ book->logs, sizeof(*book->log) },
		{ book->ops, sizeof(*book->op) },
		{ book->modules, sizeof(*book->module) },
		{ s->shorts, sizeof(struct btl_symbol_record) },
		{ s->longs, sizeof(struct btl_long_symbol_record) },
		{ book->frames, sizeof(*book->frame) },
		{ book->stacks, sizeof(*book->stack) },
		{ book->entries, sizeof(*book->entry) },
	};
	size_t sum = FIXED_BYTES, bytes;

	for (size_t i = 0; i < ARRAY_SIZE(arrays); i++)
		if (!gs_mul(arrays[i].count, arrays[i].size, &bytes) || bytes > KCD_PAYLOAD_MAX ||
		    !gs_add(sum, bytes, &sum))
			return false;
	*size_out = sum;
	return sum <= UINT32_MAX; // Apple's library opens no larger ones
}

static enum kcd_code put_head(struct kcd_writer *w, const struct btl_book *book)
{
	const struct btl_book_record r = { BTL_RECORD_VERSION, book->flags };
	enum kcd_code rc = KCD_OK;

	for (size_t i = 0; i < btl_schema.count && !rc; i++)
		rc = kcd_append_typedef(w, &btl_schema.types[i]);
	return rc ? rc : kcd_append(w, BTL_RECORD_BOOK, &r, sizeof(r));
}

static uint64_t flags_of(const struct btl_symbol *s)
{
	const uint64_t module = s->module == BTL_NONE ? 0 : (uint64_t)s->module + 1;

	return s->flags | module << BTL_SYMBOL_MODULE_SHIFT;
}

static enum kcd_code put_symbols(struct kcd_writer *w, const struct btl_book *book,
				 const struct symbols *s)
{
	void *shorts, *longs;
	enum kcd_code rc = kcd_reserve_array(w, BTL_RECORD_SYMBOL, s->shorts,
					     sizeof(struct btl_symbol_record), &shorts);
	if (!rc)
		rc = kcd_reserve_array(w, BTL_RECORD_LONG_SYMBOL, s->longs,
				       sizeof(struct btl_long_symbol_record), &longs);
	for (uint32_t i = 0; i < book->symbols && !rc; i++) {
		const struct btl_symbol *b = &book->symbol[i];

		/* the memory is the caller's and new, so it is aligned */
		if (s->index[i] < s->shorts) {
			struct btl_symbol_record *r =
				(struct btl_symbol_record *)shorts + s->index[i];
			r->start = b->start;
			r->size = b->size;
			r->flags = flags_of(b);
			memcpy(r->name, b->name, strlen(b->name));
		} else {
			struct btl_long_symbol_record *r =
				(struct btl_long_symbol_record *)longs + (s->index[i] - s->shorts);
			r->start = b->start;
			r->size = b->size;
			r->flags = flags_of(b);
			memcpy(r->name, b->name, gs_min(strlen(b->name), sizeof(r->name) - 1));
		}
	}
	return rc;
}

static enum kcd_code put_frames(struct kcd_writer *w, const struct btl_book *book,
				const struct symbols *s)
{
	void *to;
	enum kcd_code rc =
		kcd_reserve_array(w, BTL_RECORD_FRAME, book->frames, sizeof(*book->frame), &to);

	for (uint32_t i = 0; i < book->frames && !rc; i++) {
		struct btl_frame_record *r = (struct btl_frame_record *)to + i;

		*r = book->frame[i];
		if (r->symbol != BTL_NONE)
			r->symbol = s->index[r->symbol];
	}
	return rc;
}

static enum kcd_code put_all(struct kcd_writer *w, const struct btl_book *book,
			     const struct symbols *s)
{
	enum kcd_code rc = put_head(w, book);

#define ARRAY(type, array, count) \
	(rc = kcd_append_array(w, (type), (count), sizeof(*(array)), (array)))
	if (rc || ARRAY(BTL_RECORD_KERNEL, book->kernel, book->kernels) ||
	    ARRAY(BTL_RECORD_LOG, book->log, book->logs) ||
	    ARRAY(BTL_RECORD_OP, book->op, book->ops) ||
	    (book->modules && ARRAY(BTL_RECORD_MODULE, book->module, book->modules)) ||
	    (rc = put_symbols(w, book, s)) || (rc = put_frames(w, book, s)) ||
	    ARRAY(BTL_RECORD_STACK, book->stack, book->stacks) ||
	    ARRAY(BTL_RECORD_ENTRY, book->entry, book->entries))
		return rc;
#undef ARRAY
	return KCD_OK;
}

enum gs_code btl_book_encode(const struct btl_book *book, uint8_t **data_out, size_t *len_out,
			     struct gs_error *err)
{
	struct symbols s = { 0 };
	struct kcd_writer w;
	uint8_t *data = NULL;
	size_t size;

	if (!number_symbols(book, &s))
		return btl_book_no_memory(err);
	bool fits = size_of(book, &s, &size);
	if (fits)
		data = malloc(size);
	enum kcd_code rc =
		data ? kcd_writer_init(&w, data, size, KCD_MAGIC_STACKSHOT, 0) : KCD_ENOSPC;
	if (!rc)
		rc = put_all(&w, book, &s);
	free(s.index);
	if (!fits)
		return gs_fail(err, GS_ETOOBIG, "%u records: more than a file can have",
			       book->entries);
	if (!data)
		return btl_book_no_memory(err);
	if (rc) {
		free(data);
		return gs_fail(err, GS_ENOSPC, "writing a book of backtraces: %s",
			       kcd_code_name(rc));
	}
	*data_out = data;
	*len_out = kcd_writer_used(&w);
	return GS_OK;
}
