/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from a symbol file of Volatility 3 (ISF), as dwarf2json writes it. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/finder.h"
#include "introspect/linux/layouts.h"

/*
 * The form (schema 6.2.0 of volatility3, framework/schemas):
 *
 *	"base_types": { "int": { "size": 4, … } }
 *	"user_types": { "task_struct": { "size": N, "kind": "struct", "fields": {
 *		"pid": { "type": { "kind": "base", "name": "int" }, "offset": N },
 *		"unnamed_field_0": { "type": {…}, "offset": N, "anonymous": true } } } }
 *	"enums": { "zone_stat_item": { "size": 4, "constants": { "NR_FREE_PAGES": 0 } } }
 *	"symbols": { "runqueues": { "type": {…}, "address": N, "constant_data": base64 } }
 *
 * Kinds of types: base, struct, union, class, enum by name; pointer; array with count and subtype;
 * bitfield, function.
 */

/* Array in array … of one member. */
#define CHAIN_MAX 32
/* Anonymous structures still to look into, and members looked at for one name. */
#define PENDING_MAX   32
#define MEMBER_BUDGET 65536
/* Decimal digits of the largest number that jansson takes. */
#define DIGITS_MAX 18

static const json_t *user_type(const json_t *root, const char *name)
{
	return json_object_get(json_object_get(root, "user_types"), name);
}

static bool is_kind(const json_t *type, const char *kind)
{
	const char *have = json_string_value(json_object_get(type, "kind"));

	return have && !strcmp(have, kind);
}

static bool is_composite(const json_t *type)
{
	return is_kind(type, "struct") || is_kind(type, "union") || is_kind(type, "class");
}

static uint64_t number(const json_t *object, const char *key)
{
	const json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* 0: it has none that makes sense. */
static uint64_t size_of(const json_t *root, const json_t *type)
{
	uint64_t count = 1;

	for (int i = 0; type && i < CHAIN_MAX; i++) {
		const char *name = json_string_value(json_object_get(type, "name"));
		uint64_t size = 0;

		if (is_kind(type, "array")) {
			if (!gs_mul(count, number(type, "count"), &count))
				return 0;
			type = json_object_get(type, "subtype");
			continue;
		}
		if (is_kind(type, "pointer"))
			size = 8;
		else if (is_kind(type, "base"))
			size = number(json_object_get(json_object_get(root, "base_types"), name),
				      "size");
		else if (is_kind(type, "enum"))
			size = number(json_object_get(json_object_get(root, "enums"), name),
				      "size");
		else if (is_composite(type))
			size = number(user_type(root, name), "size");
		return gs_mul(count, size, &count) ? count : 0;
	}
	return 0;
}

/* --- members --- */

struct pending {
	const json_t *fields;
	uint64_t offset;
};

/* The field called @p name, also inside of anonymous ones; NULL: there is none. */
static const json_t *find_field(const json_t *root, const json_t *fields, const char *name,
				uint64_t *offset_out)
{
	struct pending stack[PENDING_MAX] = { { fields, 0 } };
	int depth = 1, budget = MEMBER_BUDGET;

	while (depth) {
		struct pending p = stack[--depth];
		const json_t *field = json_object_get(p.fields, name);
		const char *key;

		if (field) {
			*offset_out = p.offset;
			return field;
		}
		json_object_foreach((json_t *)p.fields, key, field)
		{
			const json_t *type = json_object_get(field, "type");
			uint64_t offset;

			if (--budget < 0)
				return NULL;
			if (!json_is_true(json_object_get(field, "anonymous")) ||
			    !is_composite(type) ||
			    !gs_add(p.offset, number(field, "offset"), &offset))
				continue;
			const json_t *inner =
				user_type(root, json_string_value(json_object_get(type, "name")));
			if (depth < PENDING_MAX)
				stack[depth++] = (struct pending){ json_object_get(inner, "fields"),
								   offset };
		}
	}
	return NULL;
}

static bool symbol_file_member(void *priv, const char *in, const char *path,
			       struct lnx_field *field_out)
{
	const json_t *root = priv, *outer = user_type(root, in), *type = outer;
	const uint64_t whole = number(outer, "size");
	uint64_t offset = 0, inner = 0;
	char name[64];

	for (;;) {
		size_t n = strcspn(path, ".");

		if (n >= sizeof(name))
			return false;
		memcpy(name, path, n);
		name[n] = '\0';
		const json_t *field =
			find_field(root, json_object_get(type, "fields"), name, &inner);
		if (!json_is_integer(json_object_get(field, "offset")) ||
		    json_integer_value(json_object_get(field, "offset")) < 0 ||
		    !gs_add(offset, inner, &offset) ||
		    !gs_add(offset, number(field, "offset"), &offset))
			return false;
		type = json_object_get(field, "type");
		path += n;
		if (!*path++)
			break;
		if (!is_composite(type))
			return false;
		type = user_type(root, json_string_value(json_object_get(type, "name")));
	}
	const uint64_t size = size_of(root, type);
	if (!size || whole > UINT32_MAX || !gs_in_range(offset, size, 0, whole))
		return false;
	*field_out = (struct lnx_field){ true, (uint32_t)offset, (uint32_t)size };
	return true;
}

static bool symbol_file_size(void *priv, const char *in, uint32_t *size_out)
{
	const uint64_t size = number(user_type(priv, in), "size");

	if (!size || size > UINT32_MAX)
		return false;
	*size_out = (uint32_t)size;
	return true;
}

static bool symbol_file_enumerator(void *priv, const char *in, const char *name,
				   uint32_t *value_out)
{
	const json_t *constants = json_object_get(
		json_object_get(json_object_get((json_t *)priv, "enums"), in), "constants");
	const json_t *value = json_object_get(constants, name);
	const json_int_t n = json_integer_value(value);

	if (!json_is_integer(value) || n < 0 || n >= LNX_ELEMENTS_MAX)
		return false;
	*value_out = (uint32_t)n;
	return true;
}

/* --- symbols --- */

/* Kernel addresses came as strings: see quote_addresses(). */
static bool address_of(const json_t *symbols, const char *name, uint64_t *address_out)
{
	const json_t *address = json_object_get(json_object_get(symbols, name), "address");
	const char *text = json_string_value(address);
	char *end;

	if (json_is_integer(address)) {
		*address_out = (uint64_t)json_integer_value(address);
		return true;
	}
	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*address_out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static bool symbol_file_percpu(void *priv, const char *name, struct lnx_field *field_out)
{
	const json_t *symbols = json_object_get((json_t *)priv, "symbols");
	const uint64_t size =
		size_of(priv, json_object_get(json_object_get(symbols, name), "type"));
	uint64_t start, at;

	if (!address_of(symbols, "__per_cpu_start", &start) || !address_of(symbols, name, &at) ||
	    !size || !gs_in_range(at, size, start, INT32_MAX))
		return false;
	*field_out = (struct lnx_field){ true, (uint32_t)(at - start), (uint32_t)size };
	return true;
}

/* The value of a base64 digit; -1: it is none. */
static int digit(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Up to its end, or the end of the room. @return bytes */
static size_t decode_base64(const char *text, char *out, size_t room)
{
	uint32_t bits = 0;
	size_t n = 0;

	for (size_t i = 0; n < room && digit(text[i]) >= 0; i++) {
		bits = bits << 6 | (uint32_t)digit(text[i]);
		if (i % 4)
			out[n++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	return n;
}

static void find_banner(const json_t *root, struct lnx_layouts *l)
{
	const json_t *symbol = json_object_get(json_object_get(root, "symbols"), "linux_banner");
	const char *data = json_string_value(json_object_get(symbol, "constant_data"));
	char banner[LNX_BANNER_MAX] = { 0 };

	if (!data)
		return;
	size_t n = decode_base64(data, banner, sizeof(banner) - 1);
	if (lnx_is_banner(banner))
		lnx_banner_take(banner, n, l->banner);
}

/* --- the file --- */

/*
 * Put numbers that are too large for jansson (kernel addresses) into quotes. @p out has room for twice
 * the text. @return bytes
 */
static size_t quote_addresses(const char *text, size_t size, char *out)
{
	bool in_string = false;
	size_t n = 0;

	for (size_t i = 0; i < size;) {
		size_t digits = 0;

		while (!in_string && i + digits < size && text[i + digits] >= '0' &&
		       text[i + digits] <= '9')
			digits++;
		const bool quoted = digits > DIGITS_MAX && (!i || text[i - 1] != '-');
		if (digits) {
			if (quoted)
				out[n++] = '"';
			memcpy(out + n, text + i, digits);
			n += digits;
			i += digits;
			if (quoted)
				out[n++] = '"';
			continue;
		}
		if (in_string && text[i] == '\\' && i + 1 < size)
			out[n++] = text[i++];
		else if (text[i] == '"')
			in_string = !in_string;
		out[n++] = text[i++];
	}
	return n;
}

static void symbol_file_close(void *priv)
{
	json_decref(priv);
}

enum gs_code lnx_layouts_open_symbol_file(const char *text, size_t size,
					  struct lnx_layouts *layouts_out, struct gs_error *err)
{
	static const struct lnx_layouts_ops ops = {
		.size = symbol_file_size,
		.member = symbol_file_member,
		.percpu = symbol_file_percpu,
		.enumerator = symbol_file_enumerator,
		.close = symbol_file_close,
	};
	GS_FREE char *quoted = gs_array_alloc(size ? size : 1, 2);
	json_error_t why;

	if (!quoted)
		return gs_fail(err, GS_ENOSPC, "out of memory for %zu bytes", 2 * size);
	size = quote_addresses(text, size, quoted);
	json_t *root = json_loadb(quoted, size, 0, &why);
	if (!root)
		return gs_fail(err, GS_EMALFORMED, "line %d: %s", why.line, why.text);
	if (!json_is_object(json_object_get(root, "user_types"))) {
		const bool is_profile = json_object_get(root, "guestshot-profile") != NULL;

		json_decref(root);
		return gs_fail(err, GS_EMALFORMED,
			       is_profile
				       ? "is a profile already"
				       : "is no symbol file of Volatility 3 (no \"user_types\")");
	}
	find_banner(root, layouts_out);
	layouts_out->priv = root;
	layouts_out->ops = &ops;
	return GS_OK;
}
