/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON view. Whatever the bytes are: what is written is one JSON value, no object in it has a key
 * twice, and its size stays within a multiple of the input's; a damaged buffer gives nothing, or with
 * salvage a value; a sink that stops early is no harm.
 */
#include <stdbool.h>
#include <string.h>

#include "kcdata/json_view.h"
#include "tests/fuzz/fuzz.h"

/* A field of a byte whose name is escaped for each of its 31 bytes, and more. */
#define GROWTH 256u
#define FIXED  65536u

struct text {
	char *data;
	size_t len;
	size_t max;
	size_t room;
};

static bool take(void *arg, const void *data, size_t len)
{
	struct text *t = arg;

	if (len > t->max - t->len)
		return false;
	if (t->len + len > t->room) {
		t->room = 2 * (t->len + len);
		t->data = realloc(t->data, t->room);
		HOLDS(t->data);
	}
	memcpy(t->data + t->len, data, len);
	t->len += len;
	return true;
}

/* --- a checker of its own: no code of the writer's ------------------------------------------- */

#define DEPTH_MAX 64

struct key {
	const char *at;
	size_t len;
};

struct parse {
	const char *at;
	const char *end;
	int depth;
	struct key *keys; /* of the objects that are open, one after another */
	size_t count, room;
};

static void blanks(struct parse *p)
{
	while (p->at < p->end && (*p->at == ' ' || *p->at == '\n'))
		p->at++;
}

static char next(struct parse *p)
{
	HOLDS(p->at < p->end);
	return *p->at++;
}

static void expect(struct parse *p, const char *word)
{
	for (; *word; word++)
		HOLDS(next(p) == *word);
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static struct key string(struct parse *p)
{
	struct key k = { p->at, 0 };

	HOLDS(next(p) == '"');
	for (;;) {
		unsigned char c = (unsigned char)next(p);

		HOLDS(c >= 0x20);
		HOLDS(c < 0x80); // with KCD_JSON_BYTES_STOCK
		if (c == '"')
			break;
		if (c != '\\')
			continue;
		c = (unsigned char)next(p);
		if (c == 'u') {
			for (int i = 0; i < 4; i++)
				HOLDS(is_hex(next(p)));
		} else {
			HOLDS(strchr("\"\\nrt", c));
		}
	}
	k.len = (size_t)(p->at - k.at);
	return k;
}

static void number(struct parse *p)
{
	const char *start;

	if (*p->at == '-')
		p->at++;
	start = p->at;
	while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
		p->at++;
	HOLDS(p->at > start && (*start != '0' || p->at == start + 1));
}

static int compare_keys(const void *a, const void *b)
{
	const struct key *x = a;
	const struct key *y = b;
	size_t n = x->len < y->len ? x->len : y->len;
	int c = memcmp(x->at, y->at, n);

	return c ? c : (x->len > y->len) - (x->len < y->len);
}

static void value(struct parse *p);

static void object(struct parse *p)
{
	size_t first = p->count;

	expect(p, "{");
	blanks(p);
	while (*p->at != '}') {
		if (p->count > first) {
			expect(p, ",");
			blanks(p);
		}
		if (p->count == p->room) {
			p->room = p->room ? p->room * 2 : 256;
			p->keys = realloc(p->keys, p->room * sizeof(*p->keys));
			HOLDS(p->keys);
		}
		struct key k = string(p);
		p->keys[p->count++] = k;
		blanks(p);
		expect(p, ":");
		value(p);
		blanks(p);
	}
	expect(p, "}");
	if (p->count > first)
		qsort(p->keys + first, p->count - first, sizeof(*p->keys), compare_keys);
	for (size_t i = first + 1; i < p->count; i++)
		HOLDS(compare_keys(&p->keys[i - 1], &p->keys[i]));
	p->count = first;
}

static void array(struct parse *p)
{
	bool some = false;

	expect(p, "[");
	blanks(p);
	while (*p->at != ']') {
		if (some)
			expect(p, ",");
		value(p);
		some = true;
		blanks(p);
	}
	expect(p, "]");
}

static void value(struct parse *p)
{
	HOLDS(++p->depth <= DEPTH_MAX);
	blanks(p);
	HOLDS(p->at < p->end);
	switch (*p->at) {
	case '{': object(p); break;
	case '[': array(p); break;
	case '"': string(p); break;
	case 'n': expect(p, "null"); break;
	default: number(p);
	}
	p->depth--;
}

static void check_json(const struct text *t)
{
	struct parse p = { .at = t->data, .end = t->data + t->len };

	value(&p);
	blanks(&p);
	HOLDS(p.at == p.end);
	free(p.keys);
}

/* --------------------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text t = { .max = GROWTH * size + FIXED };
	struct kcd_error err = { .code = KCD_OK };
	struct kcd_reader r;
	struct kcd_json j;
	size_t end = 0;
	bool begins = !kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL);

	kcd_json_init(&j, take, &t, KCD_JSON_BYTES_STOCK);
	enum kcd_code rc =
		kcd_json_view(data, size, KCD_TOLERANT, KCD_VIEW_SALVAGE, NULL, &j, &end, &err);
	HOLDS(rc != KCD_ENOMEM);
	if (begins) {
		HOLDS(!kcd_json_finish(&j)); // the size is within its limit
		HOLDS(end <= size);
		check_json(&t);
	} else {
		HOLDS(rc != KCD_OK);
	}
	HOLDS(rc == KCD_OK || err.code == rc);

	// the same without salvage: all or nothing, and a sink that stops in the middle
	size_t whole = t.len;
	t.len = 0;
	t.max = rc ? t.max : whole / 2;
	kcd_json_init(&j, take, &t, KCD_JSON_BYTES_STOCK);
	HOLDS(kcd_json_view(data, size, KCD_TOLERANT, 0, NULL, &j, NULL, NULL) == rc);
	if (rc)
		kcd_json_flush(&j);
	HOLDS(!rc || t.len == 0);
	free(t.data);
	return 0;
}
