/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for everything that is wrong with a buffer (format, section 9.4). */
#include "kcdata/validate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/decode.h"
#include "kcdata/dict.h"
#include "kcdata/walk.h"

struct check {
	kcd_finding_fn finding;
	void *arg;
	struct kcd_verdict v;
	struct kcd_definitions defs;
	struct kcd_dict dict;
};

bool kcd_finding_is_error(enum kcd_finding finding)
{
	switch (finding) {
	case KCD_FIND_NONE:
	case KCD_FIND_CONTAINER_STRAY:
	case KCD_FIND_PADDING:
	case KCD_FIND_UNALIGNED:
	case KCD_FIND_MAGIC_INSIDE:
	case KCD_FIND_TRAILING:
	case KCD_FIND_FRAME_EXTRA:
	case KCD_FIND_FRAME_END:
	case KCD_FIND_SPAN_TAIL:
	case KCD_FIND_TYPEDEF:
	case KCD_FIND_FLAGS:
	case KCD_FIND_VALUE_SHORT:
	case KCD_FIND_VALUE_NAME: return false;
	case KCD_FIND_NO_MAGIC:
	case KCD_FIND_TRUNCATED_HEADER:
	case KCD_FIND_TRUNCATED_ITEM:
	case KCD_FIND_ARRAY_SIZE:
	case KCD_FIND_ARRAY_ELEMENT:
	case KCD_FIND_CONTAINER_SHORT:
	case KCD_FIND_CONTAINER_ID:
	case KCD_FIND_CONTAINER_OPEN:
	case KCD_FIND_TOO_DEEP:
	case KCD_FIND_FRAME:
	case KCD_FIND_ALGORITHM:
	case KCD_FIND_DATA:
	case KCD_FIND_LENGTH:
	case KCD_FIND_LIMIT:
	case KCD_FIND_NESTED:
	case KCD_FIND_KEY_REPEATED:
	case KCD_FIND_CONTAINER_REPEATED:
	case KCD_FIND_TOO_LARGE:
	case KCD_FIND_MAGIC_UNCOMMON: return true;
	}
	return true;
}

static void take_finding(void *arg, const struct kcd_error *e)
{
	struct check *c = arg;

	c->v.findings++;
	c->v.errors += kcd_finding_is_error(e->finding);
	c->v.count[e->finding]++;
	if (c->finding)
		c->finding(c->arg, e);
}

__attribute__((format(printf, 4, 5))) static void found(struct check *c, enum kcd_finding finding,
							const struct kcd_item *it, const char *fmt,
							...)
{
	struct kcd_error e = {
		.code = KCD_EMALFORMED,
		.finding = finding,
		.offset = it->offset,
		.record = it->record,
		.type = it->raw_type,
	};
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(e.reason, sizeof(e.reason), fmt, ap); // a cut reason is still one
	va_end(ap);
	take_finding(c, &e);
}

/* --- one item -------------------------------------------------------------------------------- */

/* What the flags of a record of this kind may be (format, 1.3). */
static bool flags_are_legal(const struct kcd_item *it)
{
	uint64_t flags = it->raw_flags;

	switch (it->kind) {
	case KCD_ITEM_RECORD:
		// some old writers recorded the padding and left the bit that says so clear
		return !(flags & ~(uint64_t)(KCD_FLAG_PADDING_MASK | KCD_FLAG_HAS_PADDING));
	case KCD_ITEM_TYPEDEF: return flags <= KCD_FLAG_PADDING_MASK;
	case KCD_ITEM_ARRAY:
	case KCD_ITEM_CONTAINER_BEGIN:
	case KCD_ITEM_CONTAINER_END: return true; // counts and ids
	}
	return true;
}

static void check_flags(struct check *c, const struct kcd_item *it)
{
	uint32_t pad = (uint32_t)it->raw_flags & KCD_FLAG_PADDING_MASK;

	if (!flags_are_legal(it))
		found(c, KCD_FIND_FLAGS, it, "flags %#" PRIx64, it->raw_flags);
	else if ((it->kind == KCD_ITEM_RECORD || it->kind == KCD_ITEM_TYPEDEF) &&
		 pad > it->raw_size)
		found(c, KCD_FIND_FLAGS, it, "%" PRIu32 " bytes of padding in %" PRIu32, pad,
		      it->raw_size);
	else if (it->kind == KCD_ITEM_CONTAINER_END && it->raw_size)
		found(c, KCD_FIND_FLAGS, it, "a container's END with %" PRIu32 " bytes",
		      it->raw_size);
}

/* Names as the stock reader can print them: it pastes them into JSON. */
static bool is_printable_name(const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (name[i] < 0x20 || name[i] > 0x7e || name[i] == '"' || name[i] == '\\')
			return false;
	}
	return len > 0;
}

static void check_named(struct check *c, const struct kcd_item *it)
{
	if (it->kind != KCD_ITEM_RECORD || it->type < KCD_TYPE_STRING_DESC ||
	    it->type > KCD_TYPE_BINDATA_DESC)
		return;
	if (!kcd_is_named(it)) {
		found(c, KCD_FIND_VALUE_SHORT, it, "%" PRIu32 " bytes hold no name and value",
		      it->size);
		return;
	}
	const char *name = (const char *)it->data;
	if (name[KCD_NAME_SIZE - 1])
		found(c, KCD_FIND_VALUE_NAME, it, "the name has no end within its 32 bytes");
	else if (!is_printable_name(name, strlen(name)))
		found(c, KCD_FIND_VALUE_NAME, it,
		      "the name is empty, or has characters that stock readers cannot print");
}

static void check_scalar(struct check *c, const struct kcd_item *it, const struct kcd_type *t)
{
	if (t && t->form == KCD_FORM_SCALAR && it->count &&
	    !kcd_field_fits(t->fields, it->elem_size))
		found(c, KCD_FIND_VALUE_SHORT, it, "%" PRIu32 " bytes for a %s of %" PRIu32,
		      it->elem_size, t->name, kcd_field_size(t->fields));
}

static void check_definition(struct check *c, const struct kcd_item *it)
{
	struct kcd_error err;

	if (it->kind == KCD_ITEM_TYPEDEF && kcd_definitions_add(&c->defs, it, NULL, &err))
		take_finding(c, &err);
}

/* --- names ----------------------------------------------------------------------------------- */

static enum kcd_code check_container(struct check *c, const struct kcd_item *it)
{
	const struct kcd_type *t = kcd_schema_find_in(&c->defs.schema, it->container_type);
	char key[KCD_KEY_MAX + 2] = "{"; // a name space of their own
	char room[KCD_KEY_MAX];
	uint32_t entry, member;
	bool fresh = true;

	(void)snprintf(key + 1, sizeof(key) - 1, "%s", kcd_type_key(t, it->container_type, room));
	enum kcd_code rc = kcd_dict_entry(&c->dict, key, strlen(key), &entry, &fresh);
	if (!rc)
		rc = kcd_dict_member(&c->dict, entry, it->container_id, &member, &fresh);
	if (!rc && !fresh)
		found(c, KCD_FIND_CONTAINER_REPEATED, it,
		      "a second container %#" PRIx32 " with id %#" PRIx64 " beside the first",
		      it->container_type, it->container_id);
	return rc ? rc : kcd_dict_push(&c->dict);
}

enum { NEW, SINGLE, ARRAY };

static enum kcd_code check_key(struct check *c, const struct kcd_item *it, const struct kcd_type *t)
{
	uint8_t kind = it->kind == KCD_ITEM_ARRAY ? ARRAY : SINGLE;
	struct kcd_key key;
	uint32_t entry;
	bool fresh;

	kcd_key_of(it, t, &key);
	enum kcd_code rc = kcd_dict_entry(&c->dict, key.name, key.len, &entry, &fresh);
	if (rc)
		return rc;
	struct kcd_dict_entry *e = &c->dict.entries[entry];
	if (e->kind != NEW && (e->kind != ARRAY || kind != ARRAY))
		found(c, KCD_FIND_KEY_REPEATED, it, "a second %.*s in one container",
		      (int)e->key_len, is_printable_name(e->key, e->key_len) ? e->key : "");
	if (e->kind == NEW)
		e->kind = kind;
	return KCD_OK;
}

static enum kcd_code check_item(struct check *c, const struct kcd_item *it)
{
	const struct kcd_type *t;

	c->v.records++;
	check_flags(c, it);
	if (it->kind == KCD_ITEM_CONTAINER_BEGIN)
		return check_container(c, it);
	if (it->kind == KCD_ITEM_CONTAINER_END) {
		kcd_dict_pop(&c->dict);
		return KCD_OK;
	}
	check_named(c, it);
	check_definition(c, it);
	t = kcd_schema_find_in(&c->defs.schema, it->elem_type);
	check_scalar(c, it, t);
	return check_key(c, it, t);
}

/* --- whole buffers --------------------------------------------------------------------------- */

static void check_begin(struct check *c, const struct kcd_step *step)
{
	const struct kcd_item at = { .offset = step->at, .raw_type = step->magic };

	switch (step->magic) {
	case KCD_MAGIC_CRASHINFO:
	case KCD_MAGIC_STACKSHOT:
	case KCD_MAGIC_DELTA_STACKSHOT:
	case KCD_MAGIC_OS_REASON:
	case KCD_MAGIC_XNUPOST_CONFIG: break;
	default:
		found(c, KCD_FIND_MAGIC_UNCOMMON, &at, "Apple's readers open no %s buffer",
		      kcd_magic_name(step->magic));
	}
}

static enum kcd_code check_step(void *arg, const struct kcd_step *step)
{
	struct check *c = arg;

	switch (step->kind) {
	case KCD_STEP_BUFFER: check_begin(c, step); return kcd_dict_push(&c->dict);
	case KCD_STEP_ITEM: return check_item(c, step->item);
	case KCD_STEP_BUFFER_END: kcd_dict_pop(&c->dict); return KCD_OK;
	}
	return KCD_OK;
}

static enum kcd_code check_plain(struct check *c, const uint8_t *buf, size_t len)
{
	const struct kcd_walk_how how = { KCD_TOLERANT, take_finding, c };
	struct kcd_error err = { .code = KCD_OK };
	enum kcd_code rc = kcd_walk(buf, len, &how, check_step, c, &c->v.end, &err);

	c->v.whole = rc == KCD_OK;
	if (rc == KCD_ENOMEM)
		return rc;
	if (rc)
		take_finding(c, &err);
	return KCD_OK;
}

/* The first BEGIN is read before anybody can listen to its reader. */
static void check_first(struct check *c, const uint8_t *buf, size_t len)
{
	struct kcd_reader r;
	struct kcd_error err;

	if (!kcd_reader_init(&r, buf, len, KCD_TOLERANT, NULL) &&
	    kcd_reader_init(&r, buf, len, KCD_STRICT, &err))
		take_finding(c, &err);
}

static enum kcd_code check_compressed(struct check *c, const uint8_t *buf, size_t len,
				      const struct kcd_inflate_limits *limits)
{
	struct kcd_frame frame = { .end = 0 };
	struct kcd_error err = { .code = KCD_OK };
	uint8_t *plain;
	size_t plain_len;
	enum kcd_code rc = kcd_frame_parse(buf, len, KCD_TOLERANT, take_finding, c, &frame, &err);

	if (rc)
		take_finding(c, &err);
	if (rc && !frame.end)
		return KCD_OK;

	enum kcd_code framed = rc;
	rc = kcd_inflate(buf, len, limits, KCD_INFLATE_SALVAGE, &plain, &plain_len, &err);
	if (rc == KCD_ENOMEM) {
		free(plain);
		return rc;
	}
	if (rc && !framed)
		take_finding(c, &err);
	if (!rc && !framed) {
		// bytes behind the end of the data are an oddity that only a strict reader tells
		uint8_t *again;
		size_t again_len;
		if (kcd_inflate(buf, len, limits, KCD_INFLATE_STRICT, &again, &again_len, &err) ==
			    KCD_EMALFORMED &&
		    err.finding == KCD_FIND_SPAN_TAIL)
			take_finding(c, &err);
		free(again);
	}
	enum kcd_code looked = KCD_OK;
	if (plain)
		looked = check_plain(c, plain, plain_len);
	c->v.whole = c->v.whole && !rc;
	c->v.end = frame.end;
	free(plain);
	return looked;
}

enum kcd_code kcd_validate(const void *buf, size_t len, const struct kcd_inflate_limits *limits,
			   kcd_finding_fn finding, void *arg, struct kcd_verdict *verdict_out)
{
	struct check *c = calloc(1, sizeof(*c));
	uint32_t magic = 0;

	if (!c)
		return KCD_ENOMEM;
	c->finding = finding;
	c->arg = arg;
	kcd_definitions_init(&c->defs, NULL);
	kcd_dict_init(&c->dict);
	if (len > UINT32_MAX) {
		const struct kcd_item at = { .offset = 0 };
		found(c, KCD_FIND_TOO_LARGE, &at, "%zu bytes are 4 GiB or more", len);
	}
	if (len >= sizeof(magic))
		memcpy(&magic, buf, sizeof(magic));
	enum kcd_code rc;
	if (magic == KCD_MAGIC_COMPRESSED && len >= KCD_HEADER_SIZE) {
		rc = check_compressed(c, buf, len, limits);
	} else {
		check_first(c, buf, len);
		rc = check_plain(c, buf, len);
	}
	if (!rc)
		*verdict_out = c->v;
	kcd_dict_deinit(&c->dict);
	free(c);
	return rc;
}
