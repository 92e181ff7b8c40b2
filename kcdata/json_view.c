/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buffer as JSON. Records of one key may lie far apart in a container, and so may containers of
 * one type; JSON wants them together. So each dictionary is scanned before it is written: its items,
 * without those inside of its containers, are sorted under their keys. Dictionaries in each other are
 * frames of a stack, not of the C stack: the depth is the file's choice.
 */
#include "kcdata/json_view.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/decode.h"
#include "kcdata/dict.h"
#include "kcdata/spans.h"

/* Objects in each other: two for the buffer, two for each level, and a record's array, object and
 * field. */
_Static_assert(2 + 2 * KCD_LEVELS_MAX + 3 <= KCD_JSON_DEPTH_MAX, "the writer is deep enough");

/* What an entry is. */
enum { NEW, HIDDEN, RECORD, ARRAY, FIELD, GROUP, BUFFER };

/* A dictionary being written. */
struct frame {
	uint32_t entry; /* the next one to write */
	uint32_t last_entry;
	uint32_t member; /* of a GROUP: the next container; KCD_DICT_NONE: the group is not open */
	bool in_group;
};

struct view {
	const uint8_t *buf;
	size_t len;
	struct kcd_json *j;
	struct kcd_spans spans;
	struct kcd_definitions defs;
	struct kcd_dict dict;
	struct frame frame[KCD_LEVELS_MAX];
};

/* --- scanning -------------------------------------------------------------------------------- */

/* The first walk: where things are, and what the stream defines. */
static enum kcd_code take_step(void *arg, const struct kcd_step *step)
{
	struct view *v = arg;

	// one that is refused is shown as bytes, and so are its records
	if (step->item && step->item->kind == KCD_ITEM_TYPEDEF)
		(void)!kcd_definitions_add(&v->defs, step->item, NULL, NULL);
	return kcd_spans_step(&v->spans, step);
}

static const struct kcd_type *type_of(const struct view *v, uint32_t code)
{
	return kcd_schema_find_in(&v->defs.schema, code);
}

/*
 * Whether a name is taken for good. Where the stock readers print a name twice, what comes later in
 * their text wins, and containers come last.
 */
static bool is_group(const struct kcd_dict_entry *e)
{
	return e->shown == GROUP;
}

/* Fields that go into the dictionary around their record. */
static enum kcd_code merge_fields(struct view *v, const struct kcd_item *it,
				  const struct kcd_type *t)
{
	for (uint16_t i = 0; i < t->field_count; i++) {
		const struct kcd_field *f = &t->fields[i];
		uint32_t index;
		bool fresh;

		if (!kcd_field_fits(f, it->size))
			continue;
		enum kcd_code rc =
			kcd_dict_entry(&v->dict, f->name, strlen(f->name), &index, &fresh);
		if (rc)
			return rc;
		struct kcd_dict_entry *e = &v->dict.entries[index];
		if (is_group(e))
			continue;
		e->shown = FIELD;
		e->field = i;
		e->first = e->last = KCD_DICT_NONE;
		rc = kcd_dict_add(&v->dict, index, it->offset);
		if (rc)
			return rc;
	}
	return KCD_OK;
}

/* A record or an array: the first one of a key, and further arrays. */
static enum kcd_code scan_record(struct view *v, const struct kcd_item *it)
{
	const struct kcd_type *t = type_of(v, it->elem_type);
	bool is_array = it->kind == KCD_ITEM_ARRAY;
	bool merged = t && t->flags & KCD_TYPE_MERGE && it->kind == KCD_ITEM_RECORD;
	struct kcd_key key;
	uint32_t index;
	bool fresh;

	kcd_key_of(it, t, &key);
	enum kcd_code rc = kcd_dict_entry(&v->dict, key.name, key.len, &index, &fresh);
	if (rc)
		return rc;
	struct kcd_dict_entry *e = &v->dict.entries[index];
	if (e->kind == NEW) {
		e->kind = merged ? HIDDEN : is_array ? ARRAY : RECORD;
		if (merged)
			return merge_fields(v, it, t);
		if (is_group(e))
			return KCD_OK;
		e->shown = e->kind;
		e->first = e->last = KCD_DICT_NONE; // a field of this name gives way
	} else if (!is_array || e->kind != ARRAY || e->shown != ARRAY) {
		return KCD_OK;
	}
	return kcd_dict_add(&v->dict, index, it->offset);
}

static enum kcd_code scan_container(struct view *v, const struct kcd_item *it)
{
	char room[KCD_KEY_MAX];
	const char *key = kcd_type_key(type_of(v, it->container_type), it->container_type, room);
	uint32_t index;
	uint32_t member;
	bool fresh;
	enum kcd_code rc = kcd_dict_entry(&v->dict, key, strlen(key), &index, &fresh);

	if (rc)
		return rc;
	struct kcd_dict_entry *e = &v->dict.entries[index];
	if (e->shown != GROUP) {
		e->shown = GROUP;
		e->first = e->last = KCD_DICT_NONE;
	}
	rc = kcd_dict_member(&v->dict, index, it->container_id, &member, &fresh);
	if (!rc)
		v->dict.members[member].offset = it->offset; // the last one of an id
	return rc;
}

static enum kcd_code scan_nested(struct view *v, const struct kcd_item *it,
				 const struct kcd_span *span)
{
	static const char record_key[] = "KCDATA_TYPE_NESTED_KCDATA";
	const char *key = kcd_magic_key(span->magic);
	uint32_t index;
	bool fresh;
	enum kcd_code rc =
		kcd_dict_entry(&v->dict, record_key, sizeof(record_key) - 1, &index, &fresh);

	if (rc || v->dict.entries[index].kind != NEW)
		return rc;
	v->dict.entries[index].kind = HIDDEN;
	rc = kcd_dict_entry(&v->dict, key, strlen(key), &index, &fresh);
	if (rc)
		return rc;
	struct kcd_dict_entry *e = &v->dict.entries[index];
	if (is_group(e))
		return KCD_OK;
	e->shown = BUFFER;
	e->first = e->last = KCD_DICT_NONE;
	return kcd_dict_add(&v->dict, index, it->offset);
}

/* Open a dictionary and sort its items under their keys. */
static enum kcd_code enter(struct view *v, const struct kcd_span *span)
{
	enum kcd_code rc = kcd_dict_push(&v->dict);

	if (rc)
		return rc;
	struct frame *f = &v->frame[v->dict.depth - 1];
	*f = (struct frame){ .entry = v->dict.entry_count, .member = KCD_DICT_NONE };
	for (size_t pos = span->body; pos < span->end && !rc;) {
		const struct kcd_span *inner;
		struct kcd_item it;

		if (kcd_spans_read(v->buf, v->len, pos, &it, &pos))
			break; // the END, or the damage that ended the span
		switch (it.kind) {
		case KCD_ITEM_CONTAINER_BEGIN:
			rc = scan_container(v, &it);
			inner = kcd_spans_at(&v->spans, it.offset);
			pos = inner ? inner->next : span->end;
			break;
		case KCD_ITEM_CONTAINER_END: break;
		case KCD_ITEM_RECORD:
		case KCD_ITEM_ARRAY:
		case KCD_ITEM_TYPEDEF:
			inner = it.type == KCD_TYPE_NESTED_KCDATA && it.kind == KCD_ITEM_RECORD
					? kcd_spans_at(&v->spans, it.offset)
					: NULL;
			rc = inner ? scan_nested(v, &it, inner) : scan_record(v, &it);
			break;
		}
	}
	f->last_entry = v->dict.entry_count;
	return rc;
}

/* --- values ---------------------------------------------------------------------------------- */

static void write_element(struct kcd_json *j, const struct kcd_field *f, const uint8_t *data,
			  uint32_t i)
{
	uint64_t value = kcd_field_value(f, data, i);

	if (f->kind == KCD_CHAR)
		kcd_json_string_n(j, (const char *)data + f->offset + i, 1);
	else if (kcd_kind_is_signed(f->kind))
		kcd_json_i64(j, (int64_t)value);
	else
		kcd_json_u64(j, value);
}

static void write_field(struct kcd_json *j, const struct kcd_field *f, const uint8_t *data)
{
	if (!f->count) {
		write_element(j, f, data, 0);
	} else if (f->kind == KCD_CHAR) {
		kcd_json_string_n(j, (const char *)data + f->offset, f->count);
	} else {
		kcd_json_array_begin(j);
		for (uint32_t i = 0; i < f->count; i++)
			write_element(j, f, data, i);
		kcd_json_array_end(j);
	}
}

static void write_bytes(struct kcd_json *j, const uint8_t *data, uint32_t size)
{
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < size; i++)
		kcd_json_u64(j, data[i]);
	kcd_json_array_end(j);
}

static void write_struct(struct kcd_json *j, const struct kcd_type *t, const uint8_t *data,
			 uint32_t size)
{
	kcd_json_object_begin(j);
	for (uint32_t i = 0; i < t->field_count; i++) {
		if (kcd_field_fits(&t->fields[i], size)) {
			kcd_json_key(j, t->fields[i].name);
			write_field(j, &t->fields[i], data);
		}
	}
	kcd_json_object_end(j);
}

/* A record, or an element of an array. */
static void write_payload(struct kcd_json *j, const struct kcd_type *t, const uint8_t *data,
			  uint32_t size)
{
	enum kcd_form form = t ? (enum kcd_form)t->form : KCD_FORM_BYTES;

	switch (form) {
	case KCD_FORM_STRUCT: write_struct(j, t, data, size); break;
	case KCD_FORM_SCALAR:
		if (kcd_field_fits(t->fields, size))
			write_field(j, t->fields, data);
		else
			kcd_json_null(j);
		break;
	case KCD_FORM_STRING: kcd_json_string_n(j, (const char *)data, size); break;
	case KCD_FORM_BYTES:
	case KCD_FORM_CONTAINER:
	case KCD_FORM_SPECIAL: write_bytes(j, data, size); break;
	}
}

static void write_named(struct kcd_json *j, const struct kcd_item *it)
{
	const uint8_t *value = it->data + KCD_NAME_SIZE;
	uint32_t size = it->size - KCD_NAME_SIZE;

	switch (it->type) {
	case KCD_TYPE_STRING_DESC: kcd_json_string_n(j, (const char *)value, size); break;
	case KCD_TYPE_BINDATA_DESC: write_bytes(j, value, size); break;
	case KCD_TYPE_INT32_DESC:
	case KCD_TYPE_INT64_DESC: kcd_json_i64(j, (int64_t)kcd_named_number(it)); break;
	default: kcd_json_u64(j, kcd_named_number(it));
	}
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[KCD_CHAR] = "char",	   [KCD_INT8] = "int8_t",     [KCD_UINT8] = "uint8_t",
		[KCD_INT16] = "int16_t",   [KCD_UINT16] = "uint16_t", [KCD_INT32] = "int32_t",
		[KCD_UINT32] = "uint32_t", [KCD_INT64] = "int64_t",   [KCD_UINT64] = "uint64_t",
	};

	return names[kind];
}

/* A definition, in the stock reader's words: "[8,4] int32_t  expected_retval;". */
static void write_definition(struct view *v, const struct kcd_item *it)
{
	const struct kcd_type *t;

	if (kcd_definitions_add(&v->defs, it, &t, NULL)) {
		write_bytes(v->j, it->data, it->size);
		return;
	}
	kcd_json_object_begin(v->j);
	kcd_json_member_string(v->j, "name", t->key);
	kcd_json_member_u64(v->j, "typeID", t->code);
	kcd_json_member_u64(v->j, "numOfFields", t->field_count);
	kcd_json_key(v->j, "fields");
	kcd_json_array_begin(v->j);
	for (uint32_t i = 0; i < t->field_count; i++) {
		const struct kcd_field *f = &t->fields[i];
		char text[128];
		int n = snprintf(text, sizeof(text), "[%" PRIu32 ",%" PRIu32 "] %s  %s", f->offset,
				 kcd_field_size(f), kind_name(f->kind), f->name);

		if (f->count)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "[%u]", f->count);
		(void)snprintf(text + n, sizeof(text) - (size_t)n, ";");
		kcd_json_string(v->j, text);
	}
	kcd_json_array_end(v->j);
	kcd_json_object_end(v->j);
}

static void write_elements(struct view *v, const struct kcd_item *it)
{
	const struct kcd_type *t = type_of(v, it->elem_type);

	for (uint32_t i = 0; i < it->count && !kcd_json_failed(v->j); i++)
		write_payload(v->j, t, it->data + (size_t)i * it->elem_size, it->elem_size);
}

static void write_record(struct view *v, const struct kcd_item *it)
{
	if (it->kind == KCD_ITEM_TYPEDEF)
		write_definition(v, it);
	else if (kcd_is_named(it))
		write_named(v->j, it);
	else
		write_payload(v->j, type_of(v, it->type), it->data, it->size);
}

/* --- dictionaries ---------------------------------------------------------------------------- */

static void read_member(const struct view *v, uint32_t member, struct kcd_item *it)
{
	size_t next;
	enum kcd_code rc =
		kcd_spans_read(v->buf, v->len, v->dict.members[member].offset, it, &next);

	assert(!rc); // the scan has read it
	(void)rc;
}

/* An entry that is no dictionary of its own. */
static void write_plain_entry(struct view *v, const struct kcd_dict_entry *e)
{
	struct kcd_item it;

	if (e->shown == ARRAY) {
		kcd_json_array_begin(v->j);
		for (uint32_t m = e->first; m != KCD_DICT_NONE; m = v->dict.members[m].next) {
			read_member(v, m, &it);
			write_elements(v, &it);
		}
		kcd_json_array_end(v->j);
		return;
	}
	read_member(v, e->first, &it);
	if (e->shown == FIELD)
		write_field(v->j, &type_of(v, it.type)->fields[e->field], it.data);
	else
		write_record(v, &it);
}

/* Go on with a group's next container, or end the group. @return its span; NULL: ended */
static const struct kcd_span *next_in_group(struct view *v, struct frame *f)
{
	char id[24];

	if (f->member == KCD_DICT_NONE) {
		kcd_json_object_end(v->j);
		f->in_group = false;
		f->entry++;
		return NULL;
	}
	const struct kcd_dict_member *m = &v->dict.members[f->member];
	f->member = m->next;
	(void)snprintf(id, sizeof(id), "%" PRIu64, m->id);
	kcd_json_key(v->j, id);
	return kcd_spans_at(&v->spans, m->offset);
}

/* Write the next entry of a dictionary. @return what it is a dictionary of itself; NULL: nothing */
static const struct kcd_span *next_entry(struct view *v, struct frame *f)
{
	const struct kcd_dict_entry *e = &v->dict.entries[f->entry];

	if (e->shown == NEW) {
		f->entry++; // only a name that is taken
		return NULL;
	}
	kcd_json_key_n(v->j, e->key, e->key_len);
	if (e->shown == GROUP) {
		kcd_json_object_begin(v->j);
		f->in_group = true;
		f->member = e->first;
		return NULL;
	}
	f->entry++;
	if (e->shown == BUFFER)
		return kcd_spans_at(&v->spans, v->dict.members[e->first].offset);
	write_plain_entry(v, e);
	return NULL;
}

/* The dictionary of a span and all that are in it. */
static enum kcd_code write_dictionary(struct view *v, const struct kcd_span *outermost)
{
	enum kcd_code rc = enter(v, outermost);

	kcd_json_object_begin(v->j);
	while (v->dict.depth && !rc && !kcd_json_failed(v->j)) {
		struct frame *f = &v->frame[v->dict.depth - 1];
		const struct kcd_span *inner = NULL;

		if (f->in_group) {
			inner = next_in_group(v, f);
		} else if (f->entry < f->last_entry) {
			inner = next_entry(v, f);
		} else {
			kcd_json_object_end(v->j);
			kcd_dict_pop(&v->dict);
		}
		if (inner) {
			kcd_json_object_begin(v->j);
			rc = enter(v, inner);
		}
	}
	return rc;
}

/* After a failure in the middle: close what is open, so that it is JSON all the same. */
static void close_all(struct view *v, uint32_t depth)
{
	while (v->j->depth > depth) {
		if (v->j->after_key)
			kcd_json_null(v->j);
		kcd_json_object_end(v->j);
	}
}

static enum kcd_code write_buffer(struct view *v)
{
	const struct kcd_span *span = &v->spans.span[0];
	uint32_t depth = v->j->depth;

	kcd_json_object_begin(v->j);
	kcd_json_key(v->j, kcd_magic_key(span->magic));
	enum kcd_code rc = write_dictionary(v, span);
	close_all(v, depth);
	return rc;
}

enum kcd_code kcd_json_view(const void *buf, size_t len, enum kcd_mode mode, uint32_t flags,
			    const struct kcd_schema *extra, struct kcd_json *j, size_t *end_out,
			    struct kcd_error *err)
{
	struct view *v = calloc(1, sizeof(*v));

	if (err)
		*err = (struct kcd_error){ .code = KCD_ENOMEM, .reason = "out of memory" };
	if (!v)
		return KCD_ENOMEM;
	v->buf = buf;
	v->len = len;
	v->j = j;
	kcd_definitions_init(&v->defs, extra);
	kcd_dict_init(&v->dict);
	kcd_spans_init(&v->spans);
	const struct kcd_walk_how how = { .mode = mode };
	size_t stop;
	enum kcd_code rc = kcd_walk(buf, len, &how, take_step, v, &stop, err);
	kcd_spans_close(&v->spans, stop);
	if (v->spans.count && (!rc || flags & KCD_VIEW_SALVAGE)) {
		enum kcd_code written = write_buffer(v);
		if (end_out)
			*end_out = v->spans.span[0].next;
		rc = rc ? rc : written;
	}
	kcd_dict_deinit(&v->dict);
	kcd_spans_deinit(&v->spans);
	free(v);
	return rc;
}
