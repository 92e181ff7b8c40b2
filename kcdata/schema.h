/* SPDX-License-Identifier: Apache-2.0 */
/* What records mean: the table of known types, and types that a caller adds. */
#ifndef KCDATA_SCHEMA_H
#define KCDATA_SCHEMA_H

/*
 * One table says for each type code its name, its JSON key and its fields. Offsets, sizes and kinds
 * of fields are taken from the C structure by the compiler, so that nothing is written down twice:
 *
 *	static const struct kcd_field lock_fields[] = {
 *		KCD_FIELD(struct ss_lock, address),
 *		KCD_FIELD_AS(struct ss_lock, owner, "owner_tid"),
 *		KCD_FIELD(struct ss_lock, name),	// char[24]: a string
 *	};
 *	static const struct kcd_type types[] = {
 *		KCD_STRUCT_TYPE(0x11001, "LINUX_LOCK", "linux_lock", lock_fields),
 *	};
 *	static const struct kcd_schema schema = { types, 1, NULL };
 *
 * kcd_append_typedef() puts such a type's definition into a stream, for readers without the table.
 *
 * Threads: everything here is constant.
 */

#include <stddef.h>
#include <stdint.h>

#include "kcdata/kcdata.h"

#pragma GCC visibility push(default)

/** Element types of fields; the numbers are those of definitions in streams. */
enum kcd_kind {
	KCD_CHAR = 1,
	KCD_INT8 = 2,
	KCD_UINT8 = 3,
	KCD_INT16 = 4,
	KCD_UINT16 = 5,
	KCD_INT32 = 6,
	KCD_UINT32 = 7,
	KCD_INT64 = 8,
	KCD_UINT64 = 9,
};

/** Bytes of one element; 0 for a number that is no kind. */
uint32_t kcd_kind_size(uint32_t kind);

enum kcd_field_flag {
	KCD_FIELD_HEX = 1u << 0, /* addresses and bits: hexadecimal where a person reads */
};

struct kcd_field {
	const char *name; /* JSON key; at most 31 characters where the type is to be defined */
	uint32_t offset;
	uint8_t kind;	/* enum kcd_kind */
	uint8_t flags;	/* enum kcd_field_flag */
	uint16_t count; /* 0: one value; else an array of so many (of characters: a string) */
};

/** How a payload is laid out. */
enum kcd_form {
	KCD_FORM_STRUCT,    /* fields; shown as a dictionary */
	KCD_FORM_SCALAR,    /* its only field at offset 0; shown as a bare value */
	KCD_FORM_STRING,    /* characters up to a NUL or the end */
	KCD_FORM_BYTES,	    /* bytes without a known meaning */
	KCD_FORM_CONTAINER, /* a container type: no payload */
	KCD_FORM_SPECIAL,   /* belongs to the format itself: values, arrays, definitions, ... */
};

enum kcd_type_flag {
	KCD_TYPE_MERGE = 1u << 0, /* fields go into the dictionary around the record */
};

struct kcd_type {
	uint32_t code;
	uint8_t form;  /* enum kcd_form */
	uint8_t flags; /* enum kcd_type_flag */
	uint16_t field_count;
	const struct kcd_field *fields; /* ascending offsets, unless one is a reading of another */
	const char *name;		/* as in Apple's header, without its prefix */
	const char *key;		/* JSON key; also the name in a definition */
	uint16_t size;			/* of the newest version; 0: varies */
	uint16_t old_element;		/* element size in old-style arrays; 0: never in those */
	uint16_t legacy_size;		/* logical size of a record that ... */
	uint16_t legacy_padded;		/* ... has this one and no padding flags; 0: no such rule */
};

/** A caller's table of types; several are linked. */
struct kcd_schema {
	const struct kcd_type *types;
	size_t count;
	const struct kcd_schema *next;
};

/** Look a type up in the built-in table. @return NULL when it is not there. */
const struct kcd_type *kcd_schema_find(uint32_t code);

/** Look a type up in @p extra (may be NULL), the tables behind it, and then the built-in one. */
const struct kcd_type *kcd_schema_find_in(const struct kcd_schema *extra, uint32_t code);

/** The built-in table itself, ascending codes. */
const struct kcd_schema *kcd_schema_builtin(void);

/** JSON key of a buffer's own dictionary ("kcdata_stackshot"); NULL for what is no magic. */
const char *kcd_magic_key(uint32_t magic);

#define KCD_KEY_MAX 48 /* bytes of a key, NUL included; longer ones are cut */

/**
 * JSON key of a type, known or not: "task_snapshot", or "0x7777".
 *
 * @param type  may be NULL
 * @param buf   room for a key that is not in the table
 */
const char *kcd_type_key(const struct kcd_type *type, uint32_t code, char buf[static KCD_KEY_MAX]);

/* --- types that streams define --------------------------------------------------------------- */

#define KCD_DEFINITIONS_MAX	  64u
#define KCD_DEFINITION_FIELDS_MAX 256u	/* of one definition */
#define KCD_DEFINED_FIELDS_MAX	  1024u /* of all */

/**
 * Definitions found in a stream. They come before all tables, so they override the built-in types.
 * Owned by the caller (about 20 KiB); must not be moved after the init.
 */
struct kcd_definitions {
	struct kcd_schema schema; /* for kcd_schema_find_in() */
	uint32_t used_fields;
	struct kcd_type types[KCD_DEFINITIONS_MAX];
	struct kcd_field fields[KCD_DEFINED_FIELDS_MAX];
};

/** Start without definitions; @p next (may be NULL) are the tables behind them. */
void kcd_definitions_init(struct kcd_definitions *d, const struct kcd_schema *next);

/**
 * Take a definition in.
 *
 * Refused are: a type of the format itself (below 0x30, containers, magics); an empty or unended
 * name; a kind that is not one of enum kcd_kind, or a size that is not the kind's; arrays of no
 * elements; fields that descend, overlap or share a name; a second, other definition of a type; and
 * more than the limits above. Field flags 0x2 and 0x4 are ignored: a defined type is a dictionary.
 *
 * @param item      a KCD_ITEM_TYPEDEF; its bytes are borrowed as long as @p d is used
 * @param type_out  may be NULL
 * @param err       may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED; KCD_ETOOBIG: over a limit; KCD_EINVAL: another item.
 *         After an error the table is as before.
 */
KCD_MUST_USE enum kcd_code kcd_definitions_add(struct kcd_definitions *d,
					       const struct kcd_item *item,
					       const struct kcd_type **type_out,
					       struct kcd_error *err);

/**
 * Bytes of a field.
 *
 * @return at least 1 for a field of a known kind
 */
static inline uint32_t kcd_field_size(const struct kcd_field *f)
{
	return kcd_kind_size(f->kind) * (f->count ? f->count : 1u);
}

/* --- writing tables -------------------------------------------------------------------------- */

/* Kind of a member, or of the elements of a member that is an array. */
/* clang-format off */
#define KCD_KIND_OF(x)                                                                             \
	_Generic((x),                                                                              \
		char: KCD_CHAR, int8_t: KCD_INT8, uint8_t: KCD_UINT8,                              \
		int16_t: KCD_INT16, uint16_t: KCD_UINT16,                                          \
		int32_t: KCD_INT32, uint32_t: KCD_UINT32,                                          \
		int64_t: KCD_INT64, uint64_t: KCD_UINT64,                                          \
		char *: KCD_CHAR, int8_t *: KCD_INT8, uint8_t *: KCD_UINT8,                        \
		int16_t *: KCD_INT16, uint16_t *: KCD_UINT16,                                      \
		int32_t *: KCD_INT32, uint32_t *: KCD_UINT32,                                      \
		int64_t *: KCD_INT64, uint64_t *: KCD_UINT64)

/* Bytes of an element of a member that is an array; for one that is none, more than it has. */
#define KCD_ELEM_SIZE_OF(x)                                                                        \
	_Generic((x),                                                                              \
		char *: 1u, int8_t *: 1u, uint8_t *: 1u, int16_t *: 2u, uint16_t *: 2u,            \
		int32_t *: 4u, uint32_t *: 4u, int64_t *: 8u, uint64_t *: 8u, default: ~0u)
/* clang-format on */

/* Elements of a member that is an array; 0 for one that is none. */
#define KCD_COUNT_OF(x) ((uint16_t)(sizeof(x) / KCD_ELEM_SIZE_OF(x)))

#define KCD_MEMBER(type, member) (((type *)0)->member)

/** A field that is a member of a structure, under a name of its own, with flags. */
#define KCD_FIELD_FLAGS(type, member, name, flags)                                               \
	{                                                                                        \
		(name), (uint32_t)offsetof(type, member), KCD_KIND_OF(KCD_MEMBER(type, member)), \
			(flags), KCD_COUNT_OF(KCD_MEMBER(type, member))                          \
	}

/** The same without flags. */
#define KCD_FIELD_AS(type, member, name) KCD_FIELD_FLAGS(type, member, name, 0)

/** The same under the member's name. */
#define KCD_FIELD(type, member) KCD_FIELD_FLAGS(type, member, #member, 0)

/** A type that is a structure; @p fields is an array. */
#define KCD_STRUCT_TYPE(code_, name_, key_, fields_)                                      \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_STRUCT, .name = (name_), .key = (key_), \
		.fields = (fields_),                                                      \
		.field_count = (uint16_t)(sizeof(fields_) / sizeof((fields_)[0]))         \
	}

#pragma GCC visibility pop

#endif
