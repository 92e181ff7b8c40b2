/* SPDX-License-Identifier: Apache-2.0 */
/* The streaming JSON writer. */
#include "kcdata/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INDENT 2u

void kcd_json_init(struct kcd_json *j, kcd_sink_fn sink, void *arg, uint32_t flags)
{
	assert(!(flags & KCD_JSON_BYTES_SURROGATE) || !(flags & KCD_JSON_BYTES_STOCK));
	j->sink = sink;
	j->arg = arg;
	j->flags = flags;
	j->depth = 0;
	j->is_object = 0;
	j->has_some = 0;
	j->top_done = false;
	j->after_key = false;
	j->failed = false;
	j->fill = 0;
}

void kcd_json_flush(struct kcd_json *j)
{
	if (!j->failed && j->fill && !j->sink(j->arg, j->buf, j->fill))
		j->failed = true;
	j->fill = 0;
}

static void put_char(struct kcd_json *j, char c)
{
	if (j->fill == sizeof(j->buf))
		kcd_json_flush(j);
	j->buf[j->fill++] = c;
}

static void put(struct kcd_json *j, const char *s, size_t len)
{
	while (len) {
		size_t n = sizeof(j->buf) - j->fill;

		if (n == 0) {
			kcd_json_flush(j);
			continue;
		}
		if (n > len)
			n = len;
		memcpy(j->buf + j->fill, s, n);
		j->fill += (uint32_t)n;
		s += n;
		len -= n;
	}
}

static void put_newline(struct kcd_json *j, uint32_t depth)
{
	put_char(j, '\n');
	for (uint32_t i = 0; i < depth * INDENT; i++)
		put_char(j, ' ');
}

static uint64_t level(const struct kcd_json *j)
{
	return UINT64_C(1) << (j->depth - 1);
}

static bool in_object(const struct kcd_json *j)
{
	return j->depth && (j->is_object & level(j));
}

/* The comma and the new line in front of a member or an element. */
static void separate(struct kcd_json *j)
{
	if (j->has_some & level(j))
		put_char(j, ',');
	j->has_some |= level(j);
	if (j->flags & KCD_JSON_PRETTY)
		put_newline(j, j->depth);
}

/* In front of each value; a value must be expected here. */
static void before_value(struct kcd_json *j)
{
	if (in_object(j)) {
		assert(j->after_key);
		j->after_key = false;
	} else if (j->depth) {
		separate(j);
	} else {
		assert(!j->top_done);
		j->top_done = true;
	}
}

static void open_level(struct kcd_json *j, bool object)
{
	before_value(j);
	assert(j->depth < KCD_JSON_DEPTH_MAX);
	j->depth++;
	if (object)
		j->is_object |= level(j);
	else
		j->is_object &= ~level(j);
	j->has_some &= ~level(j);
	put_char(j, object ? '{' : '[');
}

static void close_level(struct kcd_json *j, bool object)
{
	assert(j->depth && in_object(j) == object && !j->after_key);

	bool had_some = j->has_some & level(j);
	j->depth--;
	if (had_some && (j->flags & KCD_JSON_PRETTY))
		put_newline(j, j->depth);
	put_char(j, object ? '}' : ']');
}

void kcd_json_object_begin(struct kcd_json *j)
{
	open_level(j, true);
}

void kcd_json_object_end(struct kcd_json *j)
{
	close_level(j, true);
}

void kcd_json_array_begin(struct kcd_json *j)
{
	open_level(j, false);
}

void kcd_json_array_end(struct kcd_json *j)
{
	close_level(j, false);
}

void kcd_json_next_document(struct kcd_json *j)
{
	assert(j->depth == 0 && j->top_done);
	j->top_done = false;
	put_char(j, '\n');
}

enum kcd_code kcd_json_finish(struct kcd_json *j)
{
	assert(j->depth == 0 && j->top_done);
	if (j->flags & KCD_JSON_PRETTY)
		put_char(j, '\n');
	kcd_json_flush(j);
	return j->failed ? KCD_EIO : KCD_OK;
}

/* --- strings --------------------------------------------------------------------------------- */

static void put_u16_escape(struct kcd_json *j, uint32_t code)
{
	static const char hex[] = "0123456789abcdef";
	char esc[6] = {
		'\\',	       'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15],
		hex[code & 15]
	};

	put(j, esc, sizeof(esc));
}

static bool is_continuation(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/*
 * Length of the valid UTF-8 sequence at @p s, which starts with a byte of 0x80 or more; 0 when it
 * is none. The second byte's range keeps out overlong forms, surrogates and code points over
 * U+10FFFF (Unicode, table 3-7).
 */
static size_t utf8_length(const uint8_t *s, size_t len)
{
	uint8_t first = s[0];
	uint8_t low = 0x80;
	uint8_t high = 0xbf;
	size_t n;

	if (first >= 0xc2 && first <= 0xdf) {
		n = 2;
	} else if (first >= 0xe0 && first <= 0xef) {
		n = 3;
		low = first == 0xe0 ? 0xa0 : 0x80;
		high = first == 0xed ? 0x9f : 0xbf;
	} else if (first >= 0xf0 && first <= 0xf4) {
		n = 4;
		low = first == 0xf0 ? 0x90 : 0x80;
		high = first == 0xf4 ? 0x8f : 0xbf;
	} else {
		return 0;
	}
	if (len < n || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++) {
		if (!is_continuation(s[i]))
			return 0;
	}
	return n;
}

/* Code points that are legal in JSON but harmful where it is shown or embedded, up to U+FFFF. */
static bool must_escape_wide(const uint8_t *s, size_t n)
{
	if (n == 2)
		return s[0] == 0xc2 && s[1] < 0xa0; // U+0080 ... U+009F: terminal controls
	// U+2028 and U+2029 end a line in older JavaScript
	return n == 3 && s[0] == 0xe2 && s[1] == 0x80 && (s[2] == 0xa8 || s[2] == 0xa9);
}

/* One character of 0x80 or more, or one bad byte. @return bytes used, at least 1 */
static size_t put_wide(struct kcd_json *j, const uint8_t *s, size_t len)
{
	size_t n = utf8_length(s, len);

	if (j->flags & KCD_JSON_BYTES_STOCK || (n == 0 && j->flags & KCD_JSON_BYTES_SURROGATE)) {
		put_u16_escape(j, 0xdc00u + s[0]);
		return 1;
	}
	if (n == 0) {
		put_u16_escape(j, 0xfffd);
		return 1;
	}
	if (!must_escape_wide(s, n))
		put(j, (const char *)s, n);
	else if (n == 2)
		put_u16_escape(j, (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu));
	else
		put_u16_escape(j, (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu));
	return n;
}

static void put_escaped(struct kcd_json *j, uint8_t c)
{
	switch (c) {
	case '"': put(j, "\\\"", 2); break;
	case '\\': put(j, "\\\\", 2); break;
	case '\n': put(j, "\\n", 2); break;
	case '\r': put(j, "\\r", 2); break;
	case '\t': put(j, "\\t", 2); break;
	default: put_u16_escape(j, c);
	}
}

/* Whether an ASCII character stands for itself. */
static bool is_plain(const struct kcd_json *j, uint8_t c)
{
	if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
		return false;
	return !(j->flags & KCD_JSON_HTML_SAFE) || (c != '<' && c != '>' && c != '&');
}

static void put_string(struct kcd_json *j, const uint8_t *s, size_t len)
{
	put_char(j, '"');
	for (size_t i = 0; i < len;) {
		size_t run = i;

		while (run < len && is_plain(j, s[run]))
			run++;
		put(j, (const char *)s + i, run - i);
		i = run;
		if (i == len)
			break;
		if (s[i] < 0x80)
			put_escaped(j, s[i++]);
		else
			i += put_wide(j, s + i, len - i);
	}
	put_char(j, '"');
}

static void put_key(struct kcd_json *j, const char *key, size_t len)
{
	assert(in_object(j) && !j->after_key);
	separate(j);
	put_string(j, (const uint8_t *)key, len);
	put_char(j, ':');
	if (j->flags & KCD_JSON_PRETTY)
		put_char(j, ' ');
	j->after_key = true;
}

void kcd_json_key(struct kcd_json *j, const char *key)
{
	put_key(j, key, strlen(key));
}

void kcd_json_key_n(struct kcd_json *j, const char *key, size_t max)
{
	put_key(j, key, strnlen(key, max));
}

void kcd_json_string(struct kcd_json *j, const char *str)
{
	if (str)
		kcd_json_string_bytes(j, str, strlen(str));
	else
		kcd_json_null(j);
}

void kcd_json_string_n(struct kcd_json *j, const char *str, size_t max)
{
	kcd_json_string_bytes(j, str, strnlen(str, max));
}

void kcd_json_string_bytes(struct kcd_json *j, const void *bytes, size_t len)
{
	before_value(j);
	put_string(j, bytes, len);
}

/* --- other values ---------------------------------------------------------------------------- */

/* Digits of @p value in front of @p end. @return where they start */
static char *digits_before(char *end, uint64_t value)
{
	do {
		*--end = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	return end;
}

void kcd_json_u64(struct kcd_json *j, uint64_t value)
{
	char text[20];
	char *at = digits_before(text + sizeof(text), value);

	before_value(j);
	put(j, at, (size_t)(text + sizeof(text) - at));
}

void kcd_json_i64(struct kcd_json *j, int64_t value)
{
	char text[20];
	// negating in unsigned arithmetic is right for INT64_MIN too
	char *at =
		digits_before(text + sizeof(text), value < 0 ? -(uint64_t)value : (uint64_t)value);

	before_value(j);
	if (value < 0)
		put_char(j, '-');
	put(j, at, (size_t)(text + sizeof(text) - at));
}

void kcd_json_hex(struct kcd_json *j, uint64_t value)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "\"0x%" PRIx64 "\"", value);

	before_value(j);
	put(j, text, (size_t)n);
}

void kcd_json_fixed(struct kcd_json *j, uint64_t value, uint32_t decimals)
{
	char text[24];
	char *end = text + sizeof(text);
	char *at = end;

	assert(decimals <= 18);
	for (uint32_t i = 0; i < decimals; i++) {
		*--at = (char)('0' + value % 10);
		value /= 10;
	}
	if (decimals)
		*--at = '.';
	at = digits_before(at, value);
	before_value(j);
	put(j, at, (size_t)(end - at));
}

void kcd_json_bool(struct kcd_json *j, bool value)
{
	before_value(j);
	if (value)
		put(j, "true", 4);
	else
		put(j, "false", 5);
}

void kcd_json_null(struct kcd_json *j)
{
	before_value(j);
	put(j, "null", 4);
}

void kcd_json_member_string(struct kcd_json *j, const char *key, const char *str)
{
	kcd_json_key(j, key);
	kcd_json_string(j, str);
}

void kcd_json_member_u64(struct kcd_json *j, const char *key, uint64_t value)
{
	kcd_json_key(j, key);
	kcd_json_u64(j, value);
}

void kcd_json_member_i64(struct kcd_json *j, const char *key, int64_t value)
{
	kcd_json_key(j, key);
	kcd_json_i64(j, value);
}

void kcd_json_member_hex(struct kcd_json *j, const char *key, uint64_t value)
{
	kcd_json_key(j, key);
	kcd_json_hex(j, value);
}

void kcd_json_member_bool(struct kcd_json *j, const char *key, bool value)
{
	kcd_json_key(j, key);
	kcd_json_bool(j, value);
}
