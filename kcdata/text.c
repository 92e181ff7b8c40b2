/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer as text. */
#include "kcdata/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kcdata/decode.h"
#include "kcdata/walk.h"

#define BUF_SIZE    8192u
#define PIECE_MAX   256u /* what is printed in one go */
#define BYTES_A_ROW 32u

struct text {
	kcd_sink_fn sink;
	void *arg;
	bool failed;
	uint32_t level;
	struct kcd_definitions defs;
	size_t fill;
	char buf[BUF_SIZE];
};

static void flush(struct text *t)
{
	if (!t->failed && t->fill && !t->sink(t->arg, t->buf, t->fill))
		t->failed = true;
	t->fill = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *fmt, ...)
{
	va_list ap;

	if (BUF_SIZE - t->fill < PIECE_MAX)
		flush(t);
	va_start(ap, fmt);
	int n = vsnprintf(t->buf + t->fill, PIECE_MAX, fmt, ap);
	va_end(ap);
	if (n > 0)
		t->fill += (size_t)n < PIECE_MAX ? (size_t)n : PIECE_MAX - 1;
}

static void put_char(struct text *t, char c)
{
	if (t->fill == BUF_SIZE)
		flush(t);
	t->buf[t->fill++] = c;
}

static void put_word(struct text *t, const char *word)
{
	while (*word)
		put_char(t, *word++);
}

static void put_blanks(struct text *t, uint32_t n)
{
	while (n--)
		put_char(t, ' ');
}

/* Most of what a dump prints are numbers: done by hand, it is several times as fast as printf. */
static void put_number(struct text *t, uint64_t value, uint32_t base)
{
	char text[20];
	size_t at = sizeof(text);

	do {
		text[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (at < sizeof(text))
		put_char(t, text[at++]);
}

/* A line that belongs to the item above it, @p more levels deeper. */
static void put_inner_line(struct text *t, uint32_t more)
{
	put_char(t, '\n');
	put_blanks(t, 10 + 2 * (t->level + more));
}

/* A string, up to a NUL; whatever could mean something to a terminal is escaped. */
static void put_string(struct text *t, const void *data, size_t max)
{
	const unsigned char *s = data;
	size_t len = strnlen(data, max);

	put_char(t, '"');
	for (size_t i = 0; i < len; i++) {
		if (s[i] >= 0x20 && s[i] < 0x7f) {
			if (s[i] == '"' || s[i] == '\\')
				put_char(t, '\\');
			put_char(t, (char)s[i]);
		} else {
			put(t, "\\x%02x", s[i]);
		}
	}
	put_char(t, '"');
}

/* A name from the stream: as it is when it is harmless, else as a string. */
static void put_name(struct text *t, const char *name, size_t max)
{
	size_t len = strnlen(name, max);

	for (size_t i = 0; i < len; i++) {
		if (name[i] <= 0x20 || name[i] >= 0x7f) {
			put_string(t, name, max);
			return;
		}
	}
	for (size_t i = 0; i < len; i++)
		put_char(t, name[i]);
}

static void put_bytes(struct text *t, const uint8_t *data, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		if (i % BYTES_A_ROW == 0 && size > BYTES_A_ROW)
			put_inner_line(t, 2);
		put(t, "%s%02x", i % BYTES_A_ROW ? " " : "", data[i]);
	}
}

static void put_element(struct text *t, const struct kcd_field *f, const uint8_t *data, uint32_t i)
{
	uint64_t value = kcd_field_value(f, data, i);

	if (f->kind == KCD_CHAR) {
		put_string(t, data + f->offset + i, 1);
	} else if (f->flags & KCD_FIELD_HEX) {
		// no more digits than the field has, also of a negative number
		uint32_t bits = 8 * kcd_kind_size(f->kind);

		put_word(t, "0x");
		put_number(t, bits < 64 ? value & ((UINT64_C(1) << bits) - 1) : value, 16);
	} else if (kcd_kind_is_signed(f->kind) && (int64_t)value < 0) {
		put_char(t, '-');
		put_number(t, -value, 10);
	} else {
		put_number(t, value, 10);
	}
}

static void put_field(struct text *t, const struct kcd_field *f, const uint8_t *data)
{
	if (!f->count) {
		put_element(t, f, data, 0);
	} else if (f->kind == KCD_CHAR) {
		put_string(t, data + f->offset, f->count);
	} else if (f->kind == KCD_UINT8) {
		for (uint32_t i = 0; i < f->count; i++)
			put(t, "%02x", data[f->offset + i]);
	} else {
		for (uint32_t i = 0; i < f->count; i++) {
			if (i)
				put_char(t, ' ');
			put_element(t, f, data, i);
		}
	}
}

/* A payload: a structure's fields a line each, or in one line for elements of arrays. */
static void put_payload(struct text *t, const struct kcd_type *type, const uint8_t *data,
			uint32_t size, bool lines)
{
	enum kcd_form form = type ? (enum kcd_form)type->form : KCD_FORM_BYTES;

	switch (form) {
	case KCD_FORM_STRUCT:
		for (uint32_t i = 0, n = 0; i < type->field_count; i++) {
			const struct kcd_field *f = &type->fields[i];
			if (!kcd_field_fits(f, size))
				continue;
			if (lines)
				put_inner_line(t, 1);
			else if (n++)
				put_word(t, ", ");
			put_name(t, f->name, KCD_KEY_MAX);
			put_word(t, " = ");
			put_field(t, f, data);
		}
		break;
	case KCD_FORM_SCALAR:
		if (kcd_field_fits(type->fields, size))
			put_field(t, type->fields, data);
		else
			put(t, "(too short)");
		break;
	case KCD_FORM_STRING: put_string(t, data, size); break;
	case KCD_FORM_BYTES:
	case KCD_FORM_CONTAINER:
	case KCD_FORM_SPECIAL: put_bytes(t, data, size); break;
	}
}

static void put_type(struct text *t, const struct kcd_type *type, uint32_t code)
{
	if (type)
		put_name(t, type->name, KCD_KEY_MAX);
	else
		put(t, "type %#" PRIx32, code);
}

static void put_record(struct text *t, const struct kcd_item *it)
{
	const struct kcd_type *type = kcd_schema_find_in(&t->defs.schema, it->type);

	if (kcd_is_named(it)) {
		const uint8_t *value = it->data + KCD_NAME_SIZE;
		uint32_t size = it->size - KCD_NAME_SIZE;

		put_name(t, (const char *)it->data, KCD_NAME_SIZE);
		put(t, " = ");
		if (it->type == KCD_TYPE_STRING_DESC)
			put_string(t, value, size);
		else if (it->type == KCD_TYPE_BINDATA_DESC)
			put_bytes(t, value, size);
		else if (it->type == KCD_TYPE_INT32_DESC || it->type == KCD_TYPE_INT64_DESC)
			put(t, "%" PRId64, (int64_t)kcd_named_number(it));
		else
			put(t, "%" PRIu64, kcd_named_number(it));
		return;
	}
	put_type(t, type, it->type);
	if (it->type == KCD_TYPE_NESTED_KCDATA) {
		put(t, ", %" PRIu32 " bytes", it->size); // what is in it follows
		return;
	}
	if (!type)
		put(t, ", %" PRIu32 " bytes: ", it->size);
	else if (type->form == KCD_FORM_STRUCT)
		put(t, ", %" PRIu32 " bytes", it->size);
	else
		put(t, " = ");
	put_payload(t, type, it->data, it->size, true);
}

static void put_array(struct text *t, const struct kcd_item *it)
{
	const struct kcd_type *type = kcd_schema_find_in(&t->defs.schema, it->elem_type);

	put_type(t, type, it->elem_type);
	put(t, " [%" PRIu32 "], %" PRIu32 " bytes each%s", it->count, it->elem_size,
	    it->raw_type == KCD_TYPE_ARRAY ? ", old style" : "");
	for (uint32_t i = 0; i < it->count && !t->failed; i++) {
		put_inner_line(t, 1);
		put(t, "[%" PRIu32 "] ", i);
		put_payload(t, type, it->data + (size_t)i * it->elem_size, it->elem_size, false);
	}
}

static void put_definition(struct text *t, const struct kcd_item *it)
{
	const struct kcd_type *type;
	struct kcd_error err;

	put(t, "TYPEDEFINITION ");
	if (kcd_definitions_add(&t->defs, it, &type, &err)) {
		put(t, "(%s) ", err.reason);
		put_bytes(t, it->data, it->size);
		return;
	}
	put_name(t, type->name, KCD_NAME_SIZE);
	put(t, " (%#" PRIx32 ")", type->code);
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct kcd_field *f = &type->fields[i];

		put_inner_line(t, 1);
		put(t, "offset %" PRIu32 ", %" PRIu32 " bytes: ", f->offset, kcd_field_size(f));
		put_name(t, f->name, KCD_NAME_SIZE);
	}
}

static void put_item(struct text *t, const struct kcd_item *it)
{
	const struct kcd_type *type;

	switch (it->kind) {
	case KCD_ITEM_CONTAINER_BEGIN:
		type = kcd_schema_find_in(&t->defs.schema, it->container_type);
		if (type)
			put_name(t, type->name, KCD_KEY_MAX);
		else
			put(t, "container %#" PRIx32, it->container_type);
		put(t, " %" PRIu64 " {", it->container_id);
		break;
	case KCD_ITEM_CONTAINER_END: put(t, "}"); break;
	case KCD_ITEM_TYPEDEF: put_definition(t, it); break;
	case KCD_ITEM_ARRAY: put_array(t, it); break;
	case KCD_ITEM_RECORD: put_record(t, it); break;
	}
}

static enum kcd_code put_step(void *arg, const struct kcd_step *step)
{
	struct text *t = arg;

	t->level = step->level;
	// a buffer's END has been read: its own header is in front of that
	size_t at = step->kind == KCD_STEP_BUFFER_END ? step->at - KCD_HEADER_SIZE : step->at;
	put(t, "%08zx  ", at);
	put_blanks(t, 2 * step->level);
	switch (step->kind) {
	case KCD_STEP_BUFFER: put(t, "%s {", kcd_magic_name(step->magic)); break;
	case KCD_STEP_BUFFER_END: put(t, "}"); break;
	case KCD_STEP_ITEM: put_item(t, step->item); break;
	}
	put(t, "\n");
	return t->failed ? KCD_EIO : KCD_OK;
}

enum kcd_code kcd_text_dump(const void *buf, size_t len, enum kcd_mode mode,
			    const struct kcd_schema *extra, kcd_sink_fn sink, void *arg,
			    struct kcd_error *err)
{
	const struct kcd_walk_how how = { .mode = mode };
	struct text *t = calloc(1, sizeof(*t));

	if (err)
		*err = (struct kcd_error){ .code = KCD_ENOMEM, .reason = "out of memory" };
	if (!t)
		return KCD_ENOMEM;
	t->sink = sink;
	t->arg = arg;
	kcd_definitions_init(&t->defs, extra);
	enum kcd_code rc = kcd_walk(buf, len, &how, put_step, t, NULL, err);
	flush(t);
	if (t->failed) {
		rc = KCD_EIO;
		if (err)
			*err = (struct kcd_error){ .code = rc, .reason = "the sink refused bytes" };
	}
	free(t);
	return rc;
}
