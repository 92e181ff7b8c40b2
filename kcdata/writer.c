/* SPDX-License-Identifier: Apache-2.0 */
/* Appending items to a stream in the caller's memory. */
#include "kcdata/kcdata.h"

#include <assert.h>
#include <string.h>

#include "kcdata/schema.h"

/* Bytes kept free behind the items: the END, and one END for each open container. */
static size_t room_set_aside(uint32_t depth)
{
	return KCD_HEADER_SIZE * (size_t)(1 + depth);
}

static void put_header(uint8_t *at, uint32_t type, uint32_t size, uint64_t flags)
{
	struct kcd_header h = { .type = type, .size = size, .flags = flags };

	memcpy(at, &h, sizeof(h));
}

static enum kcd_code check_magic(uint32_t magic, uint32_t flags)
{
	return (flags & KCD_WRITER_FRAGMENT) || kcd_is_magic(magic) ? KCD_OK : KCD_EINVAL;
}

enum kcd_code kcd_writer_init(struct kcd_writer *w, void *buf, size_t size, uint32_t magic,
			      uint32_t flags)
{
	size_t start = flags & KCD_WRITER_FRAGMENT ? 0 : KCD_HEADER_SIZE;

	if (check_magic(magic, flags))
		return KCD_EINVAL;
	if (size < start + KCD_HEADER_SIZE)
		return KCD_ENOSPC;
	*w = (struct kcd_writer){ .buf = buf, .size = size, .used = start, .flags = flags };
	put_header(w->buf + start, KCD_MAGIC_END, 0, 0);
	if (start)
		put_header(w->buf, magic, 0,
			   flags & KCD_WRITER_OLD_BEGIN ? 0 : KCD_FLAG_HAS_PADDING);
	return KCD_OK;
}

enum kcd_code kcd_writer_init_chain(struct kcd_writer *w, struct kcd_chunk *first, uint32_t magic,
				    uint32_t flags, kcd_more_fn more, kcd_less_fn less, void *arg)
{
	enum kcd_code rc = kcd_writer_init(w, first->buf, first->size, magic, flags);

	if (rc)
		return rc;
	first->next = NULL;
	first->used = w->used;
	w->chunk = first;
	w->more = more;
	w->less = less;
	w->chain_arg = arg;
	return KCD_OK;
}

void kcd_writer_set_copy(struct kcd_writer *w, kcd_copy_fn copy, void *arg)
{
	w->copy = copy;
	w->copy_arg = arg;
}

size_t kcd_writer_room(const struct kcd_writer *w)
{
	size_t aside = room_set_aside(w->depth) + KCD_HEADER_SIZE;
	size_t left = w->size - w->used;

	return left < aside ? 0 : (left - aside) & ~(size_t)(KCD_ALIGN - 1);
}

/* Continue in the next piece of a chain, which has room for @p need bytes at @p depth. */
static enum kcd_code next_chunk(struct kcd_writer *w, size_t need, uint32_t depth)
{
	size_t min_size = need + room_set_aside(depth);

	if (!w->more)
		return KCD_ENOSPC;

	struct kcd_chunk *c =
		w->more(w->chain_arg, w->chunk, w->used + room_set_aside(w->depth), min_size);
	if (!c)
		return KCD_ENOSPC;
	assert(c->size >= min_size);
	c->next = NULL;
	c->used = 0;
	put_header(c->buf, KCD_MAGIC_END, 0, 0);
	w->chunk->next = c;
	w->chunk = c;
	w->buf = c->buf;
	w->size = c->size;
	w->used = 0;
	return KCD_OK;
}

/*
 * Make sure that @p need bytes of items (a size that cannot wrap) fit, with what is set aside at
 * @p depth behind them.
 */
static enum kcd_code make_room(struct kcd_writer *w, size_t need, uint32_t depth)
{
	size_t aside = room_set_aside(depth);
	size_t left = w->size - w->used;

	if (left >= aside && need <= left - aside)
		return KCD_OK;
	return next_chunk(w, need, depth);
}

/*
 * Make an item of which payload and padding are in place part of the stream. Its header goes over
 * the old END last, so that until then the memory is the stream without the item.
 */
static void commit(struct kcd_writer *w, uint32_t type, uint32_t size, uint64_t flags)
{
	uint8_t *at = w->buf + w->used;

	put_header(at + KCD_HEADER_SIZE + size, KCD_MAGIC_END, 0, 0);
	__atomic_signal_fence(__ATOMIC_RELEASE);
	put_header(at, type, size, flags);
	w->used += KCD_HEADER_SIZE + size;
	if (w->chunk)
		w->chunk->used = w->used;
}

/* Where the payload of the next item goes. */
static uint8_t *next_payload(const struct kcd_writer *w)
{
	return w->buf + w->used + KCD_HEADER_SIZE;
}

static uint32_t padding_of(size_t len)
{
	return (uint32_t)(-len & (KCD_ALIGN - 1));
}

/* BEGIN or END of a buffer. */
static bool is_buffer_edge(uint32_t type)
{
	return type > UINT16_MAX && (type == KCD_MAGIC_END || kcd_is_magic(type));
}

/* Types that plain records may have: others are structure of the stream and have their calls. */
static bool is_record_type(uint32_t type)
{
	if (type >= KCD_TYPE_ARRAY && type < KCD_TYPE_ARRAY_PAD0 + KCD_ALIGN)
		return false;
	return type != KCD_TYPE_INVALID && !is_buffer_edge(type);
}

/* Copy @p len bytes as the payload of the next item, or zero them when there is no source. */
static enum kcd_code fill_payload(struct kcd_writer *w, const void *data, size_t len, uint32_t pad)
{
	uint8_t *at = next_payload(w);

	if (!data)
		memset(at, 0, len);
	else if (!w->copy)
		memcpy(at, data, len);
	else if (!w->copy(w->copy_arg, at, data, len))
		return KCD_ECOPY;
	memset(at + len, 0, pad);
	return KCD_OK;
}

/* Room, payload, commit: what all records and arrays have in common. */
static enum kcd_code append_item(struct kcd_writer *w, uint32_t type, uint64_t flags,
				 const void *data, size_t len, uint32_t pad)
{
	enum kcd_code rc = make_room(w, KCD_HEADER_SIZE + len + pad, w->depth);

	if (!rc)
		rc = fill_payload(w, data, len, pad);
	if (!rc)
		commit(w, type, (uint32_t)len + pad, flags);
	return rc;
}

/* A record from @p data, or of zeros when that is NULL. */
static enum kcd_code append_record(struct kcd_writer *w, uint32_t type, const void *data,
				   size_t len)
{
	uint32_t pad = padding_of(len);

	if (!is_record_type(type))
		return KCD_EINVAL;
	if (len > KCD_PAYLOAD_MAX)
		return KCD_ETOOBIG;
	return append_item(w, type, KCD_FLAG_HAS_PADDING | pad, data, len, pad);
}

enum kcd_code kcd_append(struct kcd_writer *w, uint32_t type, const void *data, size_t len)
{
	if (!data && len)
		return KCD_EINVAL;
	return append_record(w, type, data, len);
}

/* The payload that the last item got: it ends where the END lies. */
static void *last_payload(const struct kcd_writer *w, size_t len)
{
	return w->buf + w->used - (len + padding_of(len));
}

enum kcd_code kcd_reserve(struct kcd_writer *w, uint32_t type, size_t len, void **data_out)
{
	enum kcd_code rc = append_record(w, type, NULL, len);

	if (!rc)
		*data_out = last_payload(w, len);
	return rc;
}

enum kcd_code kcd_append_string(struct kcd_writer *w, uint32_t type, const char *str, size_t max)
{
	if (max == 0)
		return KCD_EINVAL;
	if (max > KCD_PAYLOAD_MAX)
		max = KCD_PAYLOAD_MAX;

	size_t len = strnlen(str, max - 1);
	void *data;
	enum kcd_code rc = kcd_reserve(w, type, len + 1, &data);
	if (!rc)
		memcpy(data, str, len);
	return rc;
}

/* Names end up in JSON as they are: the stock reader does not escape them. */
static bool is_legal_name(const char *name)
{
	size_t len = strnlen(name, KCD_NAME_SIZE);

	if (len == 0 || len == KCD_NAME_SIZE)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];
		if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
			return false;
	}
	return true;
}

/* A named value of @p size bytes. */
static enum kcd_code append_value(struct kcd_writer *w, uint32_t type, const char *name,
				  const void *value, size_t size)
{
	void *data;

	if (!is_legal_name(name))
		return KCD_EINVAL;

	enum kcd_code rc = kcd_reserve(w, type, KCD_NAME_SIZE + size, &data);
	if (rc)
		return rc;
	memcpy(data, name, strlen(name));
	memcpy((uint8_t *)data + KCD_NAME_SIZE, value, size);
	return KCD_OK;
}

enum kcd_code kcd_append_u32(struct kcd_writer *w, const char *name, uint32_t value)
{
	return append_value(w, KCD_TYPE_UINT32_DESC, name, &value, sizeof(value));
}

enum kcd_code kcd_append_u64(struct kcd_writer *w, const char *name, uint64_t value)
{
	return append_value(w, KCD_TYPE_UINT64_DESC, name, &value, sizeof(value));
}

/* An array from @p data, or of zeros when that is NULL. */
static enum kcd_code append_elements(struct kcd_writer *w, uint32_t elem_type, uint32_t count,
				     size_t elem_size, const void *data)
{
	size_t len;

	if (count && !elem_size)
		return KCD_EINVAL;
	if (__builtin_mul_overflow((size_t)count, elem_size, &len) || len > KCD_PAYLOAD_MAX)
		return KCD_ETOOBIG;

	uint32_t pad = padding_of(len);
	return append_item(w, KCD_TYPE_ARRAY_PAD0 | pad, (uint64_t)elem_type << 32 | count, data,
			   len, pad);
}

enum kcd_code kcd_append_array(struct kcd_writer *w, uint32_t elem_type, uint32_t count,
			       size_t elem_size, const void *data)
{
	if (!data && count)
		return KCD_EINVAL;
	return append_elements(w, elem_type, count, elem_size, data);
}

enum kcd_code kcd_reserve_array(struct kcd_writer *w, uint32_t elem_type, uint32_t count,
				size_t elem_size, void **data_out)
{
	enum kcd_code rc = append_elements(w, elem_type, count, elem_size, NULL);

	if (!rc)
		*data_out = last_payload(w, count * elem_size);
	return rc;
}

enum kcd_code kcd_container_begin(struct kcd_writer *w, uint32_t container_type, uint64_t id)
{
	if (w->depth == KCD_DEPTH_MAX)
		return KCD_ETOOBIG;

	enum kcd_code rc = make_room(w, KCD_HEADER_SIZE + KCD_ALIGN, w->depth + 1);
	if (rc)
		return rc;
	uint8_t *at = next_payload(w);
	memcpy(at, &container_type, sizeof(container_type));
	memset(at + sizeof(container_type), 0, KCD_ALIGN - sizeof(container_type));
	commit(w, KCD_TYPE_CONTAINER_BEGIN, KCD_ALIGN, id);
	w->open_id[w->depth++] = id;
	return KCD_OK;
}

enum kcd_code kcd_container_end(struct kcd_writer *w, uint64_t id)
{
	if (w->depth == 0 || w->open_id[w->depth - 1] != id)
		return KCD_EINVAL;
	// the room was set aside when the container was opened, and moved along with each piece
	assert(w->size - w->used >= room_set_aside(w->depth));
	commit(w, KCD_TYPE_CONTAINER_END, 0, id);
	w->depth--;
	return KCD_OK;
}

/* Depth behind a foreign item; false: its container does not fit in here. */
static bool depth_behind(const struct kcd_writer *w, const struct kcd_item *item, uint32_t *depth)
{
	*depth = w->depth;
	if (item->kind == KCD_ITEM_CONTAINER_BEGIN)
		return (*depth)++ < KCD_DEPTH_MAX;
	if (item->kind == KCD_ITEM_CONTAINER_END)
		return (*depth)-- > 0 && w->open_id[w->depth - 1] == item->raw_flags;
	return !is_buffer_edge(item->raw_type);
}

enum kcd_code kcd_append_item(struct kcd_writer *w, const struct kcd_item *item)
{
	uint32_t depth;

	if (!depth_behind(w, item, &depth))
		return item->kind == KCD_ITEM_CONTAINER_BEGIN ? KCD_ETOOBIG : KCD_EINVAL;

	enum kcd_code rc = make_room(w, KCD_HEADER_SIZE + (size_t)item->raw_size, depth);
	if (rc)
		return rc;
	if (item->raw_size)
		memcpy(next_payload(w), item->data, item->raw_size);
	commit(w, item->raw_type, item->raw_size, item->raw_flags);
	if (depth > w->depth)
		w->open_id[w->depth] = item->raw_flags;
	w->depth = depth;
	return KCD_OK;
}

enum {
	TYPEDEF_ENTRY = 40,		/* bytes of the header, and of each field */
	TYPEDEF_FIRST_PRIVATE = 0x1100, /* types below are Apple's */
	FIELD_ARRAY = 0x1,
	FIELD_FORCE_STRUCT = 0x2,
};

static bool is_definable(const struct kcd_type *t)
{
	if (t->code < TYPEDEF_FIRST_PRIVATE || !is_record_type(t->code) || t->field_count == 0 ||
	    !is_legal_name(t->key))
		return false;
	for (uint32_t i = 0; i < t->field_count; i++) {
		const struct kcd_field *f = &t->fields[i];
		if (!is_legal_name(f->name) || !kcd_kind_size(f->kind) || f->offset > UINT16_MAX)
			return false;
	}
	return true;
}

/* One field descriptor: flags, kind, offset, size or count and element size, name. */
static void put_field(uint8_t *at, const struct kcd_field *f, uint8_t flags)
{
	uint16_t offset = (uint16_t)f->offset;
	uint32_t size = kcd_kind_size(f->kind);

	if (f->count) {
		flags |= FIELD_ARRAY;
		size |= (uint32_t)f->count << 16;
	}
	at[0] = flags;
	at[1] = f->kind;
	memcpy(at + 2, &offset, sizeof(offset));
	memcpy(at + 4, &size, sizeof(size));
	memcpy(at + 8, f->name, strlen(f->name));
}

enum kcd_code kcd_append_typedef(struct kcd_writer *w, const struct kcd_type *type)
{
	// libkdd looks for definitions at the top level only
	if (w->depth || !is_definable(type))
		return KCD_EINVAL;

	uint32_t n = type->field_count;
	size_t len = TYPEDEF_ENTRY * (size_t)(n + 1);
	uint32_t pad = padding_of(len);
	// here the padding stands in the flags without KCD_FLAG_HAS_PADDING
	enum kcd_code rc = append_item(w, KCD_TYPE_TYPEDEFINITION, pad, NULL, len, pad);
	if (rc)
		return rc;
	uint8_t *at = last_payload(w, len);
	memcpy(at, &type->code, sizeof(type->code));
	memcpy(at + 4, &n, sizeof(n));
	memcpy(at + 8, type->key, strlen(type->key));
	// without it libkdd files a definition of one field under the number of the field's kind
	uint8_t flags = n == 1 ? FIELD_FORCE_STRUCT : 0;
	for (uint32_t i = 0; i < n; i++)
		put_field(at + TYPEDEF_ENTRY * (size_t)(i + 1), &type->fields[i], flags);
	return KCD_OK;
}

/*
 * Whether a run of bytes is whole items, with no container closed that was not opened since depth
 * @p outside. @p depth is carried from run to run of one stream.
 */
static bool is_run_of_items(const uint8_t *items, size_t len, uint32_t outside, uint32_t *depth)
{
	for (size_t pos = 0; pos < len;) {
		struct kcd_header h;

		if (len - pos < sizeof(h))
			return false;
		memcpy(&h, items + pos, sizeof(h));
		pos += sizeof(h);
		if (h.size > len - pos || h.size % KCD_ALIGN || is_buffer_edge(h.type))
			return false;
		if (h.type == KCD_TYPE_CONTAINER_BEGIN && ++*depth > KCD_DEPTH_MAX)
			return false;
		if (h.type == KCD_TYPE_CONTAINER_END && (*depth)-- == outside)
			return false;
		pos += h.size;
	}
	return true;
}

enum kcd_code kcd_append_items(struct kcd_writer *w, const void *items, size_t len)
{
	// the list is only read
	struct kcd_chunk piece = { .buf = (void *)(uintptr_t)items, .size = len, .used = len };

	return kcd_append_chain(w, &piece);
}

enum kcd_code kcd_append_chain(struct kcd_writer *w, const struct kcd_chunk *first)
{
	uint32_t depth = w->depth;
	size_t len = 0;

	for (const struct kcd_chunk *c = first; c; c = c->next) {
		if (!is_run_of_items(c->buf, c->used, w->depth, &depth))
			return KCD_EINVAL;
		if (__builtin_add_overflow(len, c->used, &len))
			return KCD_ETOOBIG;
	}
	if (depth != w->depth)
		return KCD_EINVAL;
	if (len > SIZE_MAX - room_set_aside(w->depth))
		return KCD_ETOOBIG;
	if (len == 0)
		return KCD_OK;

	enum kcd_code rc = make_room(w, len, w->depth);
	if (rc)
		return rc;
	uint8_t *at = w->buf + w->used;
	uint8_t *end = at;
	struct kcd_header head = { 0 };
	// all but the first header, which goes over the old END last, as in commit()
	for (const struct kcd_chunk *c = first; c; c = c->next) {
		size_t skip = end == at && c->used ? sizeof(head) : 0;
		if (skip)
			memcpy(&head, c->buf, sizeof(head));
		if (c->used)
			memcpy(end + skip, (uint8_t *)c->buf + skip, c->used - skip);
		end += c->used;
	}
	put_header(end, KCD_MAGIC_END, 0, 0);
	__atomic_signal_fence(__ATOMIC_RELEASE);
	memcpy(at, &head, sizeof(head));
	w->used += len;
	if (w->chunk)
		w->chunk->used = w->used;
	return KCD_OK;
}

struct kcd_mark kcd_writer_mark(const struct kcd_writer *w)
{
	return (struct kcd_mark){ .chunk = w->chunk,
				  .used = w->used,
				  .depth = w->depth,
				  .open_id = w->depth ? w->open_id[w->depth - 1] : 0 };
}

/* Whether @p mark lies in the part of the stream that is there. */
static bool is_mark_reached(const struct kcd_writer *w, const struct kcd_mark *mark)
{
	const struct kcd_chunk *c = mark->chunk;

	if (mark->depth > w->depth || (mark->depth && w->open_id[mark->depth - 1] != mark->open_id))
		return false;
	if (!c)
		return !w->chunk && mark->used <= w->used;
	if (mark->used > c->used)
		return false;
	while (c && c != w->chunk)
		c = c->next;
	return c != NULL;
}

enum kcd_code kcd_writer_rewind(struct kcd_writer *w, struct kcd_mark mark)
{
	if (!is_mark_reached(w, &mark))
		return KCD_EINVAL;
	if (mark.chunk) {
		struct kcd_chunk *c = mark.chunk->next;

		mark.chunk->next = NULL;
		while (c) {
			struct kcd_chunk *next = c->next;
			if (w->less)
				w->less(w->chain_arg, c);
			c = next;
		}
		w->chunk = mark.chunk;
		w->chunk->used = mark.used;
		w->buf = w->chunk->buf;
		w->size = w->chunk->size;
	}
	w->used = mark.used;
	w->depth = mark.depth;
	put_header(w->buf + w->used, KCD_MAGIC_END, 0, 0);
	return KCD_OK;
}
