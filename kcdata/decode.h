/* SPDX-License-Identifier: Apache-2.0 */
/* Values inside of payloads, for those who show them. Private. */
#ifndef KCDATA_DECODE_H
#define KCDATA_DECODE_H

#include <string.h>

#include "kcdata/kcdata.h"
#include "kcdata/schema.h"

/* Whether a whole field lies in a payload of @p size bytes. */
static inline bool kcd_field_fits(const struct kcd_field *f, uint32_t size)
{
	uint32_t bytes = kcd_field_size(f);

	return f->offset <= size && bytes <= size - f->offset;
}

/* Element @p i of a field, sign-extended. The element lies in the payload. */
static inline uint64_t kcd_field_value(const struct kcd_field *f, const uint8_t *data, uint32_t i)
{
	const uint8_t *at = data + f->offset + (size_t)i * kcd_kind_size(f->kind);
	union {
		int8_t i8;
		uint8_t u8;
		int16_t i16;
		uint16_t u16;
		int32_t i32;
		uint32_t u32;
		uint64_t u64;
	} v = { .u64 = 0 };

	memcpy(&v, at, kcd_kind_size(f->kind));
	switch (f->kind) {
	case KCD_INT8: return (uint64_t)(int64_t)v.i8;
	case KCD_INT16: return (uint64_t)(int64_t)v.i16;
	case KCD_INT32: return (uint64_t)(int64_t)v.i32;
	default: return v.u64; // little-endian, the rest is zero
	}
}

static inline bool kcd_kind_is_signed(uint32_t kind)
{
	return kind == KCD_INT8 || kind == KCD_INT16 || kind == KCD_INT32 || kind == KCD_INT64;
}

/* What a named value holds: STRING_DESC ... BINDATA_DESC with room for a name and its value. */
static inline bool kcd_is_named(const struct kcd_item *it)
{
	if (it->kind != KCD_ITEM_RECORD || it->size < KCD_NAME_SIZE)
		return false;
	switch (it->type) {
	case KCD_TYPE_STRING_DESC:
	case KCD_TYPE_BINDATA_DESC: return true;
	case KCD_TYPE_UINT32_DESC:
	case KCD_TYPE_INT32_DESC: return it->size >= KCD_NAME_SIZE + 4;
	case KCD_TYPE_UINT64_DESC:
	case KCD_TYPE_INT64_DESC: return it->size >= KCD_NAME_SIZE + 8;
	default: return false;
	}
}

/* The number in a named value of a numeric type. */
static inline uint64_t kcd_named_number(const struct kcd_item *it)
{
	uint32_t v32;
	uint64_t v64;

	switch (it->type) {
	case KCD_TYPE_UINT32_DESC:
	case KCD_TYPE_INT32_DESC:
		memcpy(&v32, it->data + KCD_NAME_SIZE, sizeof(v32));
		return it->type == KCD_TYPE_INT32_DESC ? (uint64_t)(int64_t)(int32_t)v32 : v32;
	default: memcpy(&v64, it->data + KCD_NAME_SIZE, sizeof(v64)); return v64;
	}
}

/* Key of an item in the dictionary around it, which is not NUL-terminated. */
struct kcd_key {
	const char *name;
	size_t len;
	char room[KCD_KEY_MAX];
};

/* Key of an item that is neither a container nor a nested buffer. */
void kcd_key_of(const struct kcd_item *it, const struct kcd_type *type, struct kcd_key *key_out);

#endif
