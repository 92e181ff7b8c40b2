/* SPDX-License-Identifier: Apache-2.0 */
/* Walking the items of a buffer, with every byte of it under suspicion. */
#include "kcdata/kcdata.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kcdata/schema.h"

/* Old-style arrays do not record their padding; less than one unit of it is possible. */
#define OLD_ARRAY_SLACK KCD_ALIGN

#define KCD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args), cold))

KCD_PRINTF(5, 0)
static void fill_error(struct kcd_error *e, const struct kcd_reader *r, enum kcd_finding finding,
		       uint32_t type, const char *fmt, va_list ap)
{
	*e = (struct kcd_error){
		.code = finding == KCD_FIND_TOO_DEEP ? KCD_ETOOBIG : KCD_EMALFORMED,
		.finding = finding,
		.offset = r->pos,
		.record = r->record,
		.type = type,
	};
	(void)vsnprintf(e->reason, sizeof(e->reason), fmt, ap); // a cut reason is still one
}

/* End the iteration at the item at r->pos. */
KCD_PRINTF(4, 5)
static enum kcd_code fail(struct kcd_reader *r, enum kcd_finding finding, uint32_t type,
			  const char *fmt, ...)
{
	va_list ap;

	r->status = finding == KCD_FIND_TOO_DEEP ? KCD_ETOOBIG : KCD_EMALFORMED;
	if (!r->err)
		return r->status;
	va_start(ap, fmt);
	fill_error(r->err, r, finding, type, fmt, ap);
	va_end(ap);
	return r->status;
}

/* Something that only a strict reader refuses; a tolerant one reports it and goes on. */
KCD_PRINTF(4, 5)
static enum kcd_code oddity(struct kcd_reader *r, enum kcd_finding finding, uint32_t type,
			    const char *fmt, ...)
{
	struct kcd_error e;
	va_list ap;

	if (r->mode == KCD_TOLERANT && !r->finding)
		return KCD_OK;
	va_start(ap, fmt);
	fill_error(&e, r, finding, type, fmt, ap);
	va_end(ap);
	if (r->mode == KCD_TOLERANT) {
		r->finding(r->finding_arg, &e);
		return KCD_OK;
	}
	r->status = e.code;
	if (r->err)
		*r->err = e;
	return r->status;
}

/* Header of the item at r->pos, its payload known to be there. */
static enum kcd_code read_header(struct kcd_reader *r, struct kcd_header *h)
{
	size_t left = r->len - r->pos;

	if (left < sizeof(*h))
		return fail(r, KCD_FIND_TRUNCATED_HEADER, 0,
			    "%zu bytes left where an item's header of 16 should be", left);
	memcpy(h, r->buf + r->pos, sizeof(*h));
	left -= sizeof(*h);
	if (h->size > left)
		return fail(r, KCD_FIND_TRUNCATED_ITEM, h->type,
			    "payload of %" PRIu32 " bytes, %zu left", h->size, left);
	return KCD_OK;
}

enum kcd_code kcd_reader_init(struct kcd_reader *r, const void *buf, size_t len, enum kcd_mode mode,
			      struct kcd_error *err)
{
	struct kcd_header h = { 0 };

	*r = (struct kcd_reader){ .buf = buf, .len = len, .mode = mode, .err = err };
	if (read_header(r, &h))
		return r->status;
	if (!kcd_is_magic(h.type))
		return fail(r, KCD_FIND_NO_MAGIC, h.type, "type %#" PRIx32 " begins no buffer",
			    h.type);
	r->magic = h.type;
	if (h.type == KCD_MAGIC_COMPRESSED) {
		(void)fail(r, KCD_FIND_NONE, h.type, "the buffer is compressed");
		if (err)
			err->code = KCD_ECOMPRESSED;
		return r->status = KCD_ECOMPRESSED;
	}
	if (h.size % KCD_ALIGN &&
	    oddity(r, KCD_FIND_UNALIGNED, h.type, "size %" PRIu32 " is no multiple of 16", h.size))
		return r->status;
	r->pos += sizeof(h) + h.size;
	r->record = 1;
	return KCD_OK;
}

void kcd_reader_on_finding(struct kcd_reader *r, kcd_finding_fn finding, void *arg)
{
	r->finding = finding;
	r->finding_arg = arg;
}

static bool is_zero(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i])
			return false;
	}
	return true;
}

/* Logical size of a record: without padding, which old writers did not record (format, 1.3). */
static uint32_t record_size(const struct kcd_header *h)
{
	uint32_t pad = (uint32_t)h->flags & KCD_FLAG_PADDING_MASK;

	if (!(h->flags & (KCD_FLAG_PADDING_MASK | KCD_FLAG_HAS_PADDING))) {
		const struct kcd_type *t = kcd_schema_find(h->type);
		if (t && t->legacy_padded && t->legacy_padded == h->size)
			return t->legacy_size;
	}
	return h->size < pad ? 0 : h->size - pad;
}

/* New-style arrays: padding in the low nibble of the type (format, 1.4). */
static enum kcd_code new_array(struct kcd_reader *r, const struct kcd_header *h,
			       struct kcd_item *it)
{
	uint32_t pad = h->type & 0xf;

	if (pad > h->size || it->count > h->size - pad)
		return fail(r, KCD_FIND_ARRAY_SIZE, h->type,
			    "array of %" PRIu32 " elements and %" PRIu32
			    " bytes of padding in %" PRIu32 " bytes",
			    it->count, pad, h->size);
	it->size = h->size - pad;
	if (it->count == 0 ? h->size != 0 : it->size % it->count != 0)
		return fail(r, KCD_FIND_ARRAY_SIZE, h->type,
			    "%" PRIu32 " bytes do not divide into %" PRIu32 " elements", it->size,
			    it->count);
	it->elem_size = it->count ? it->size / it->count : 0;
	return KCD_OK;
}

/* Old-style arrays: the element size is known or the array cannot be read (format, 1.4). */
static enum kcd_code old_array(struct kcd_reader *r, const struct kcd_header *h,
			       struct kcd_item *it)
{
	const struct kcd_type *t = kcd_schema_find(it->elem_type);
	uint32_t elem = t ? t->old_element : 0;

	if (!elem)
		return fail(r, KCD_FIND_ARRAY_ELEMENT, h->type,
			    "old-style array of type %#" PRIx32 ", whose size is not known",
			    it->elem_type);
	if (it->count == 0 ? h->size != 0
			   : it->count > h->size / elem || h->size % it->count >= OLD_ARRAY_SLACK)
		return fail(r, KCD_FIND_ARRAY_SIZE, h->type,
			    "%" PRIu32 " bytes for %" PRIu32 " elements of %" PRIu32, h->size,
			    it->count, elem);
	it->size = it->count * elem;
	it->elem_size = it->count ? elem : 0;
	return KCD_OK;
}

static enum kcd_code read_array(struct kcd_reader *r, const struct kcd_header *h,
				struct kcd_item *it)
{
	it->kind = KCD_ITEM_ARRAY;
	it->type = KCD_TYPE_ARRAY;
	it->elem_type = (uint32_t)(h->flags >> 32);
	it->count = (uint32_t)h->flags;
	return h->type == KCD_TYPE_ARRAY ? old_array(r, h, it) : new_array(r, h, it);
}

static enum kcd_code read_container_begin(struct kcd_reader *r, const struct kcd_header *h,
					  struct kcd_item *it)
{
	it->kind = KCD_ITEM_CONTAINER_BEGIN;
	if (h->size < sizeof(it->container_type))
		return fail(r, KCD_FIND_CONTAINER_SHORT, h->type,
			    "%" PRIu32 " bytes where a container's type of 4 should be", h->size);
	if (r->depth == KCD_DEPTH_MAX)
		return fail(r, KCD_FIND_TOO_DEEP, h->type, "more than %u containers in each other",
			    KCD_DEPTH_MAX);
	it->size = it->elem_size = sizeof(it->container_type);
	memcpy(&it->container_type, it->data, sizeof(it->container_type));
	it->container_id = h->flags;
	r->open[r->depth++] = (struct kcd_container){ .type = it->container_type,
						      .id = it->container_id,
						      .offset = r->pos };
	return KCD_OK;
}

static enum kcd_code read_container_end(struct kcd_reader *r, const struct kcd_header *h,
					struct kcd_item *it)
{
	const struct kcd_container *c = &r->open[r->depth - 1];

	it->kind = KCD_ITEM_CONTAINER_END;
	if (c->id != h->flags)
		return fail(r, KCD_FIND_CONTAINER_ID, h->type,
			    "end of container %#" PRIx64 ", but %#" PRIx64
			    " (opened at offset %zu) is open",
			    h->flags, c->id, c->offset);
	it->size = it->elem_size = 0;
	it->container_type = c->type;
	it->container_id = c->id;
	it->depth = --r->depth;
	return KCD_OK;
}

/* What an item is, by its type; the rest of @p it is filled in. */
static enum kcd_code classify(struct kcd_reader *r, const struct kcd_header *h, struct kcd_item *it)
{
	switch (h->type) {
	case KCD_TYPE_CONTAINER_BEGIN: return read_container_begin(r, h, it);
	case KCD_TYPE_CONTAINER_END: return read_container_end(r, h, it);
	case KCD_TYPE_ARRAY: return read_array(r, h, it);
	case KCD_TYPE_TYPEDEFINITION: it->kind = KCD_ITEM_TYPEDEF; break;
	default:
		if ((h->type & ~0xfu) == KCD_TYPE_ARRAY_PAD0)
			return read_array(r, h, it);
		it->kind = KCD_ITEM_RECORD;
	}
	it->size = it->elem_size = record_size(h);
	return KCD_OK;
}

/* What is only wrong for a strict reader; a container's END has been looked at before. */
static enum kcd_code check_oddities(struct kcd_reader *r, const struct kcd_header *h,
				    const struct kcd_item *it)
{
	if (r->mode == KCD_TOLERANT && !r->finding)
		return KCD_OK;
	if (h->size % KCD_ALIGN && oddity(r, KCD_FIND_UNALIGNED, h->type,
					  "size %" PRIu32 " is no multiple of 16", h->size))
		return r->status;
	if (it->kind != KCD_ITEM_CONTAINER_END &&
	    !is_zero(it->data + it->size, h->size - it->size) &&
	    oddity(r, KCD_FIND_PADDING, h->type, "%" PRIu32 " bytes of padding are not all zero",
		   h->size - it->size))
		return r->status;
	if (h->type > UINT16_MAX && kcd_is_magic(h->type) &&
	    oddity(r, KCD_FIND_MAGIC_INSIDE, h->type, "begin of a %s buffer inside of another",
		   kcd_magic_name(h->type)))
		return r->status;
	return KCD_OK;
}

/* The END of the buffer. */
static enum kcd_code finish(struct kcd_reader *r, const struct kcd_header *h)
{
	if (r->depth)
		return fail(r, KCD_FIND_CONTAINER_OPEN, h->type,
			    "end of the buffer, but container %#" PRIx64
			    " (opened at offset %zu) is open",
			    r->open[r->depth - 1].id, r->open[r->depth - 1].offset);

	size_t end = r->pos + sizeof(*h) + h->size;
	if (r->mode == KCD_STRICT || r->finding) {
		if (!is_zero(r->buf + end, r->len - end) &&
		    oddity(r, KCD_FIND_TRAILING, h->type,
			   "%zu bytes behind the end of the buffer are not all zero", r->len - end))
			return r->status;
	}
	r->pos = end;
	r->record++;
	return r->status = KCD_DONE;
}

enum kcd_code kcd_reader_next(struct kcd_reader *r, struct kcd_item *item_out)
{
	struct kcd_header h = { 0 };

	if (r->status)
		return r->status;
	for (;;) {
		if (read_header(r, &h))
			return r->status;
		if (h.type == KCD_MAGIC_END)
			return finish(r, &h);
		if (h.type != KCD_TYPE_CONTAINER_END || r->depth)
			break;
		if (oddity(r, KCD_FIND_CONTAINER_STRAY, h.type,
			   "end of container %#" PRIx64 ", but none is open", h.flags))
			return r->status;
		r->pos += sizeof(h) + h.size;
		r->record++;
	}

	const struct kcd_container *inner = r->depth ? &r->open[r->depth - 1] : NULL;
	struct kcd_item it = {
		.type = h.type,
		.elem_type = h.type,
		.count = 1,
		.data = r->buf + r->pos + sizeof(h),
		.depth = r->depth,
		.container_type = inner ? inner->type : 0,
		.container_id = inner ? inner->id : 0,
		.record = r->record,
		.offset = r->pos,
		.raw_type = h.type,
		.raw_size = h.size,
		.raw_flags = h.flags,
	};
	if (classify(r, &h, &it) || check_oddities(r, &h, &it))
		return r->status;
	r->pos += sizeof(h) + h.size;
	r->record++;
	*item_out = it;
	return KCD_OK;
}

/* Bytes of a value's payload; 0 for a type that is none. */
static uint32_t value_size(uint32_t type)
{
	switch (type) {
	case KCD_TYPE_UINT32_DESC:
	case KCD_TYPE_INT32_DESC: return 4;
	case KCD_TYPE_UINT64_DESC:
	case KCD_TYPE_INT64_DESC: return 8;
	default: return 0;
	}
}

bool kcd_item_value(const struct kcd_item *item, const char **name_out, uint64_t *value_out)
{
	uint32_t size = value_size(item->type);
	uint64_t value = 0;

	if (item->kind != KCD_ITEM_RECORD || !size || item->size < KCD_NAME_SIZE + size ||
	    item->data[KCD_NAME_SIZE - 1])
		return false;
	memcpy(&value, item->data + KCD_NAME_SIZE, size);
	if (item->type == KCD_TYPE_INT32_DESC)
		value = (uint64_t)(int64_t)(int32_t)value;
	*name_out = (const char *)item->data;
	*value_out = value;
	return true;
}

size_t kcd_item_copy_elem(const struct kcd_item *item, uint32_t index, void *dst, size_t dst_size)
{
	size_t n = index < item->count ? item->elem_size : 0;

	if (n > dst_size)
		n = dst_size;
	memset((uint8_t *)dst + n, 0, dst_size - n);
	if (n)
		memcpy(dst, item->data + (size_t)index * item->elem_size, n);
	return n;
}

size_t kcd_item_copy(const struct kcd_item *item, void *dst, size_t dst_size)
{
	return kcd_item_copy_elem(item, 0, dst, dst_size);
}
