/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's own symbol table, found and decoded from bare memory. */
#include "introspect/linux/kallsyms.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define TOKENS	      256
#define INDEX_BYTES   (TOKENS * 2)
#define PADDING_MAX   16 /* exclusive: 0 … 15 bytes between tables */
#define SYMS_A_MARKER 256
/* A name is a length (at most 511, KSYM_NAME_LEN) and as many codes. */
#define NAME_BYTES_MAX 513
/* Steps between markers: 256 names of at least a length and a code, of at most NAME_BYTES_MAX. */
#define MARKER_STEP_MIN 512
#define MARKER_STEP_MAX (SYMS_A_MARKER * NAME_BYTES_MAX)
/* Bytes after the last marker that happen to go on ascending may look like further markers. */
#define MARKER_EXCESS_MAX 16
/* Places tried and names stepped over for one candidate: twice what the most symbols need. */
#define WORK_MAX (2 * KALLSYMS_MAX_SYMS)

static bool is_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/* --- token table --- */

static bool is_ascending_index(const uint8_t *p)
{
	if (gs_get_u16(p) != 0)
		return false;
	for (size_t k = 1; k < TOKENS; k++)
		if (gs_get_u16(p + 2 * k) <= gs_get_u16(p + 2 * (k - 1)))
			return false;
	return true;
}

size_t kallsyms_next_candidate(const uint8_t *data, size_t size, size_t from)
{
	/*
	 * Any 256-byte stride of a real index holds ascending words, so looking at four words in
	 * each stride finds every one and skips nearly everything else.
	 */
	const size_t stride = INDEX_BYTES / 2;
	size_t at = gs_align_up(from, 2);

	while (at < size && size - at >= INDEX_BYTES) {
		size_t probe = at + stride;
		uint16_t a = gs_get_u16(data + probe), b = gs_get_u16(data + probe + 2),
			 c = gs_get_u16(data + probe + 4), d = gs_get_u16(data + probe + 6);

		if (a < b && b < c && c < d) {
			for (size_t p = at; p < at + stride && size - p >= INDEX_BYTES; p += 2)
				if (is_ascending_index(data + p))
					return p;
		}
		at += stride;
	}
	return size;
}

/* Start of token_table, or SIZE_MAX: before each token but the first is a NUL, in none is one. */
static size_t find_token_table(const uint8_t *data, size_t index)
{
	uint32_t last = gs_get_u16(data + index + 2 * (TOKENS - 1));

	/* the last token is at least one character and its NUL */
	for (size_t back = last + 2; back <= last + NAME_BYTES_MAX && back <= index; back++) {
		size_t start = index - back;

		/*
		 * The last token is looked at first and the others from there on back: of all starts
		 * hardly one gets past it, whatever the guest has put there.
		 */
		const uint8_t *end = memchr(data + start + last, 0, back - last);
		if (!end || end == data + start + last)
			continue;
		size_t pad = (size_t)(data + index - (end + 1));
		if (pad >= PADDING_MAX || !is_zero(end + 1, pad))
			continue;

		size_t k = TOKENS - 1;
		for (; k; k--) {
			uint32_t from = gs_get_u16(data + index + 2 * (k - 1));
			uint32_t to = gs_get_u16(data + index + 2 * k);

			if (data[start + to - 1] || memchr(data + start + from, 0, to - 1 - from))
				break;
		}
		if (!k)
			return start;
	}
	return SIZE_MAX;
}

bool kallsyms_has_tokens(const uint8_t *data, size_t size, size_t token_index)
{
	return token_index <= size && size - token_index >= INDEX_BYTES &&
	       find_token_table(data, token_index) != SIZE_MAX;
}

/* --- names and markers --- */

/* Bytes of the entry at @p at, its length field included, or 0 if it does not fit below @p end. */
static size_t name_entry_size(const uint8_t *data, size_t at, size_t end)
{
	if (at >= end)
		return 0;
	size_t len = data[at], head = 1;
	if (len & 0x80) { /* names of 128 codes and more, 6.1 and later */
		if (end - at < 2)
			return 0;
		len = (len & 0x7f) | (size_t)data[at + 1] << 7;
		head = 2;
	}
	if (len == 0 || head + len > NAME_BYTES_MAX + 1 || head + len > end - at)
		return 0;
	return head + len;
}

/* Whether n names from @p names on agree with every marker; *end_out is the end of the last one. */
static bool names_match_markers(const uint8_t *data, size_t names, uint32_t n, size_t markers,
				uint32_t *work, size_t *end_out)
{
	size_t at = names;

	for (uint32_t i = 0; i < n; i++) {
		if (i % SYMS_A_MARKER == 0 &&
		    gs_get_u32(data + markers + 4 * (i / SYMS_A_MARKER)) != at - names)
			return false;
		size_t len = name_entry_size(data, at, markers);
		if (!len || !*work)
			return false;
		--*work;
		at += len;
	}
	*end_out = at;
	return true;
}

struct name_tables {
	size_t num_syms;  /* offset of the count */
	size_t names;	  /* offset of the names */
	size_t names_end; /* their end */
	size_t markers;
	uint32_t n;
};

/*
 * The names before given markers. Their start is where the count stands before them; it lies
 * between last marker + 1 entry and last marker + 256 entries before the markers.
 */
static bool find_names(const uint8_t *data, size_t markers, uint32_t run, uint32_t *work,
		       struct name_tables *t)
{
	uint32_t least = run > MARKER_EXCESS_MAX ? run - MARKER_EXCESS_MAX : 1;

	for (uint32_t m = run; m >= least; m--) {
		uint64_t before_last = gs_get_u32(data + markers + 4 * (m - 1));
		uint64_t nearest = before_last + 2;
		uint64_t farthest = before_last + MARKER_STEP_MAX + PADDING_MAX;

		for (uint64_t back = gs_align_up(nearest, 4);
		     back <= farthest && back + 4 <= markers; back += 4) {
			size_t names = markers - (size_t)back;

			if (!*work)
				return false;
			--*work;
			for (size_t pad = 4; pad <= PADDING_MAX && pad <= names; pad += 4) {
				uint32_t n = gs_get_u32(data + names - pad);

				if (n < KALLSYMS_MIN_SYMS || n > KALLSYMS_MAX_SYMS ||
				    (n + SYMS_A_MARKER - 1) / SYMS_A_MARKER != m ||
				    !is_zero(data + names - pad + 4, pad - 4))
					continue;
				size_t end;
				if (!names_match_markers(data, names, n, markers, work, &end) ||
				    markers - end >= PADDING_MAX ||
				    !is_zero(data + end, markers - end))
					continue;
				*t = (struct name_tables){ names - pad, names, end, markers, n };
				return true;
			}
		}
	}
	return false;
}

/*
 * Going back from the token table: the first ascending run from 0 that turns out to be the markers.
 */
static bool find_name_tables(const uint8_t *data, size_t token_table, struct name_tables *t)
{
	uint32_t run = 0; /* words from here on that go on ascending by legal steps */
	uint32_t next = 0, work = WORK_MAX;

	for (size_t at = token_table & ~(size_t)3; at >= 4 && work;) {
		at -= 4;
		uint32_t word = gs_get_u32(data + at);
		bool rises = run && word < next && next - word >= MARKER_STEP_MIN &&
			     next - word <= MARKER_STEP_MAX;

		run = rises ? run + 1 : 1;
		next = word;
		if (word == 0 && run >= KALLSYMS_MIN_SYMS / SYMS_A_MARKER &&
		    find_names(data, at, run, &work, t))
			return true;
	}
	return false;
}

/* --- addresses --- */

/*
 * An image has less than 2 GiB, and its text lies before its read-only data: the first offset is
 * small when it counts from the base, and negative when it counts from its own place. So neither
 * reading fits the other's table, nor its own shifted by a word of padding.
 */
static bool is_from_base(uint32_t first_offset)
{
	return (int32_t)first_offset >= 0;
}

static bool offsets_ascend(const uint8_t *p, uint32_t n)
{
	if (!is_from_base(gs_get_u32(p)))
		return false;
	for (uint32_t i = 1; i < n; i++)
		if (gs_get_u32(p + 4 * (size_t)i) < gs_get_u32(p + 4 * (size_t)(i - 1)))
			return false;
	return gs_get_u32(p) < gs_get_u32(p + 4 * (size_t)(n - 1));
}

static int64_t pc_relative(const uint8_t *data, size_t offsets, uint32_t i)
{
	size_t at = offsets + 4 * (size_t)i;

	return (int64_t)at + (int32_t)gs_get_u32(data + at);
}

static bool pc_relative_ascend(const uint8_t *data, size_t offsets, uint32_t n)
{
	if (is_from_base(gs_get_u32(data + offsets)))
		return false;
	for (uint32_t i = 1; i < n; i++)
		if (pc_relative(data, offsets, i) < pc_relative(data, offsets, i - 1))
			return false;
	return pc_relative(data, offsets, 0) < pc_relative(data, offsets, n - 1);
}

/*
 * The base behind a table of offsets that ends at @p end. In an image as a file it may be 0: the
 * kernel adds the address at which it runs (arm64 links with --no-apply-dynamic-relocs).
 */
static bool base_after(const uint8_t *data, size_t size, size_t end, bool is_file,
		       struct kallsyms *ks)
{
	size_t at = (size_t)gs_align_up(end, 8);

	/* what lies between is padding: else it is the table's end, and @p end is too early */
	if (at > size || !is_zero(data + end, at - end))
		return false;
	for (int tries = 0; tries < 2; at += 8, tries++) {
		if (at > size || size - at < 8)
			break;
		ks->base_at = at;
		ks->relative_base = gs_get_u64(data + at);
		if (kallsyms_is_address(ks->relative_base) || (is_file && !ks->relative_base))
			return true;
		if (ks->relative_base)
			break;
	}
	return false;
}

/* Of a file only the distances from the base mean something. */
static void take_offsets(struct kallsyms *ks, const uint8_t *offsets, bool is_file)
{
	ks->absolute = !is_file;
	if (is_file)
		ks->relative_base = 0;
	for (uint32_t i = 0; i < ks->n; i++)
		ks->address[i] = ks->relative_base + gs_get_u32(offsets + 4 * (size_t)i);
}

/* Fill ks->address; the encoding is the one that makes the table ascend. */
static bool decode_addresses(const uint8_t *data, size_t size, const struct name_tables *t,
			     size_t after_index, bool is_file, struct kallsyms *ks)
{
	size_t bytes = 4 * (size_t)t->n;

	/* A: the offsets end at most two paddings and the base before the count. */
	for (size_t gap = 8; gap < 8 + 2 * PADDING_MAX; gap += 4) {
		if (t->num_syms < gap + bytes)
			break;
		size_t offsets = t->num_syms - gap - bytes;
		if (!base_after(data, t->num_syms, offsets + bytes, is_file, ks) ||
		    !offsets_ascend(data + offsets, t->n))
			continue;
		ks->style = 'A';
		take_offsets(ks, data + offsets, is_file);
		return true;
	}

	for (size_t pad = 0; pad < PADDING_MAX; pad += 4) {
		size_t offsets = gs_align_up(after_index, 4) + pad;

		if (offsets > size || size - offsets < bytes)
			break;
		if (base_after(data, size, offsets + bytes, is_file, ks) &&
		    offsets_ascend(data + offsets, t->n)) {
			ks->style = 'B';
			take_offsets(ks, data + offsets, is_file);
			return true;
		}
		if (pc_relative_ascend(data, offsets, t->n)) {
			ks->style = 'C';
			for (uint32_t i = 0; i < t->n; i++)
				ks->address[i] = (uint64_t)pc_relative(data, offsets, i);
			return true;
		}
	}
	return false;
}

void kallsyms_rebase(struct kallsyms *ks, uint64_t delta)
{
	for (uint32_t i = 0; i < ks->n; i++)
		ks->address[i] += delta;
	ks->absolute = true;
}

/* --- names --- */

void kallsyms_name(const struct kallsyms *ks, uint32_t i, char *type_out, char *name, size_t size)
{
	size_t at = ks->name_offset[i];
	size_t len = name_entry_size(ks->names, at, ks->names_size);
	size_t head = ks->names[at] & 0x80 ? 2 : 1;
	size_t out = 0;
	bool first = true;

	for (size_t c = head; c < len; c++) {
		const char *token = ks->tokens + ks->token_index[ks->names[at + c]];

		for (; *token; token++) {
			if (first) { /* the nm letter is the first character of the expansion */
				first = false;
				if (type_out)
					*type_out = *token;
			} else if (out + 1 < size) {
				name[out++] = *token;
			}
		}
	}
	if (size)
		name[out] = '\0';
	if (first && type_out)
		*type_out = '?';
}

static uint32_t hash_name(const char *name)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h;
}

static bool build_hash(struct kallsyms *ks)
{
	ks->hash_size = 1;
	while (ks->hash_size < ks->n * 2)
		ks->hash_size *= 2;
	ks->hash = gs_array_alloc(ks->hash_size, sizeof(*ks->hash));
	if (!ks->hash)
		return false;

	char name[NAME_BYTES_MAX];
	for (uint32_t i = 0; i < ks->n; i++) {
		kallsyms_name(ks, i, NULL, name, sizeof(name));
		uint32_t slot = hash_name(name) & (ks->hash_size - 1);
		while (ks->hash[slot]) /* ends: at most half of the slots are taken */
			slot = (slot + 1) & (ks->hash_size - 1);
		ks->hash[slot] = i + 1;
	}
	return true;
}

bool kallsyms_next_named(const struct kallsyms *ks, const char *name, uint32_t *passed,
			 uint64_t *address_out)
{
	const uint32_t first = hash_name(name), mask = ks->hash_size - 1;
	char have[NAME_BYTES_MAX];
	uint32_t entry;

	/* insertion was in address order, and so is a probe run */
	while ((entry = ks->hash[(first + *passed) & mask])) {
		++*passed;
		kallsyms_name(ks, entry - 1, NULL, have, sizeof(have));
		if (strcmp(have, name) == 0) {
			*address_out = ks->address[entry - 1];
			return true;
		}
	}
	return false;
}

enum gs_code kallsyms_find(const struct kallsyms *ks, const char *name, uint64_t *address_out)
{
	uint32_t passed = 0;

	return kallsyms_next_named(ks, name, &passed, address_out) ? GS_OK : GS_ENOENT;
}

uint32_t kallsyms_upper_bound(const struct kallsyms *ks, uint64_t address)
{
	uint32_t lo = 0, hi = ks->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (ks->address[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* --- all of it --- */

static enum gs_code copy_names(const uint8_t *data, const struct name_tables *t, size_t token_index,
			       struct kallsyms *ks)
{
	ks->names_at = t->names;
	ks->names_size = t->names_end - t->names;
	ks->names = malloc(ks->names_size);
	ks->address = gs_array_alloc(t->n, sizeof(*ks->address));
	ks->name_offset = gs_array_alloc(t->n, sizeof(*ks->name_offset));
	if (!ks->names || !ks->address || !ks->name_offset)
		return GS_ENOSPC;
	memcpy(ks->names, data + t->names, ks->names_size);
	ks->n = t->n;

	size_t at = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		ks->name_offset[i] = (uint32_t)at;
		at += name_entry_size(ks->names, at, ks->names_size);
	}

	size_t table = (size_t)ks->token_table;
	size_t tokens = token_index - table;
	memcpy(ks->tokens, data + table, tokens);
	for (size_t k = 0; k < TOKENS; k++)
		ks->token_index[k] = gs_get_u16(data + token_index + 2 * k);
	return GS_OK;
}

enum gs_code kallsyms_decode(const uint8_t *data, size_t size, size_t token_index, bool is_file,
			     struct kallsyms *ks_out, struct gs_error *err)
{
	struct name_tables t;

	*ks_out = (struct kallsyms){ 0 };
	if (token_index > size || size - token_index < INDEX_BYTES)
		return gs_fail(err, GS_ENOENT, "symbol table: cut off");

	size_t table = find_token_table(data, token_index);
	if (table == SIZE_MAX || token_index - table > sizeof(ks_out->tokens) - 1)
		return gs_fail(err, GS_ENOENT, "symbol table: no token table before the index");
	if (!find_name_tables(data, table, &t))
		return gs_fail(err, GS_ENOENT,
			       "symbol table: no names and markers before the tokens");
	ks_out->token_table = table;

	enum gs_code rc = copy_names(data, &t, token_index, ks_out);
	if (!rc && !decode_addresses(data, size, &t, token_index + INDEX_BYTES, is_file, ks_out))
		rc = gs_fail(err, GS_EMALFORMED,
			     "symbol table: %" PRIu32
			     " names, but no encoding of their addresses ascends",
			     t.n);
	if (!rc && !build_hash(ks_out))
		rc = GS_ENOSPC;
	if (rc) {
		if (rc == GS_ENOSPC)
			gs_error_set(err, rc, 0,
				     "symbol table: out of memory for %" PRIu32 " names", t.n);
		kallsyms_deinit(ks_out);
	}
	return rc;
}

static void *copy_array(const void *from, size_t n, size_t size)
{
	void *to = gs_array_alloc(n, size);

	if (to)
		memcpy(to, from, n * size);
	return to;
}

enum gs_code kallsyms_copy(const struct kallsyms *from, struct kallsyms *to)
{
	*to = *from;
	to->address = copy_array(from->address, from->n, sizeof(*to->address));
	to->name_offset = copy_array(from->name_offset, from->n, sizeof(*to->name_offset));
	to->names = copy_array(from->names, from->names_size, 1);
	to->hash = copy_array(from->hash, from->hash_size, sizeof(*to->hash));
	if (to->address && to->name_offset && to->names && to->hash)
		return GS_OK;
	kallsyms_deinit(to);
	return GS_ENOSPC;
}

bool kallsyms_is_same(const struct kallsyms *a, const struct kallsyms *b)
{
	if (a->n != b->n || a->names_size != b->names_size ||
	    memcmp(a->names, b->names, a->names_size) != 0 ||
	    memcmp(a->token_index, b->token_index, sizeof(a->token_index)) != 0 ||
	    memcmp(a->tokens, b->tokens, sizeof(a->tokens)) != 0)
		return false;
	for (uint32_t i = 1; i < a->n; i++)
		if (a->address[i] - a->address[0] != b->address[i] - b->address[0])
			return false;
	return true;
}

void kallsyms_deinit(struct kallsyms *ks)
{
	free(ks->names);
	free(ks->address);
	free(ks->name_offset);
	free(ks->hash);
	*ks = (struct kallsyms){ 0 };
}
