/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the tables of kallsyms from a list of symbols (scripts/kallsyms.c of the kernel). */
#include "tests/unit/linux/symtab.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* --- growing bytes ---------------------------------------------------------------------------- */

/* Room is a power of two, so that a table of many pieces is not copied for each of them. */
static void put(struct symtab *t, const void *bytes, size_t n)
{
	if (!n)
		return;
	if (t->size + n > t->room) {
		while (t->size + n > t->room)
			t->room = t->room ? 2 * t->room : 4096;
		t->data = realloc(t->data, t->room);
		if (!t->data)
			abort();
	}
	memcpy(t->data + t->size, bytes, n);
	t->size += n;
}

static void put_zeros(struct symtab *t, size_t n)
{
	static const uint8_t zeros[64];

	if (n > sizeof(zeros))
		abort();
	put(t, zeros, n);
}

/* Where the next table starts. */
static size_t align(struct symtab *t, size_t to, unsigned int more)
{
	put_zeros(t, (size_t)gs_align_up(t->size, to) - t->size + more);
	return t->size;
}

static void put_u32(struct symtab *t, uint32_t value)
{
	put(t, &value, sizeof(value));
}

/* --- tokens ----------------------------------------------------------------------------------- */

#define TOKEN_MAX 64

/* Some sequences as they are frequent in kernels; every other code outside of ASCII gets a pair. */
static const char *const sequences[] = {
	"init",	   "_task", "el1h_64_", "sync", "irq",	"__",	 "_text",
	"start",   "end",   "idle",	"fn_",	"read", "write", "switch",
	"handler", "sched", "Tfn_",	"tfn_", "lock", "_to",	 "do_",
};

struct tokens {
	char text[256][TOKEN_MAX];
	uint8_t by_first[128][256]; /* codes of tokens that begin with a character */
	uint8_t count[128];
};

static void make_tokens(struct tokens *k, const struct symtab_form *form)
{
	size_t next = 0;

	for (int c = 0; c < 256; c++) {
		bool printable = c > ' ' && c < 127 && !(form->no_digits && c >= '0' && c <= '9');

		if (printable) {
			k->text[c][0] = (char)c;
			k->text[c][1] = '\0';
		} else if (form->no_digits && c >= 128 && c < 138) {
			k->text[c][0] = (char)('0' + c - 128);
			k->text[c][1] = '\0';
		} else if (next < ARRAY_SIZE(sequences)) {
			strcpy(k->text[c], sequences[next++]);
		} else if (c < 200) { // pairs that no name has
			k->text[c][0] = '~';
			k->text[c][1] = (char)('a' + c % 26);
			k->text[c][2] = '\0';
			if (form->long_tokens && c % 4 == 0) {
				memset(k->text[c], '~', TOKEN_MAX - 1);
				k->text[c][TOKEN_MAX - 1] = '\0';
			}
		} else { // unused ones are empty in small kernels
			k->text[c][0] = '\0';
		}
	}
	// the last one has a length, or nothing would tell the table's end from padding
	strcpy(k->text[255],
	       form->long_tokens ? "~a_token_of_some_forty_characters_or_more~" : "~~");
	for (int c = 0; c < 256; c++) {
		uint8_t first = (uint8_t)k->text[c][0] & 127;

		if (first)
			k->by_first[first][k->count[first]++] = (uint8_t)c;
	}
}

/* Greedy: the longest token at each place. @return codes written */
static size_t compress(const struct tokens *k, const char *text, uint8_t *codes)
{
	size_t n = 0;

	while (*text) {
		size_t best = 0;

		const uint8_t first = (uint8_t)*text & 127;
		for (int i = 0; i < k->count[first]; i++) {
			const char *token = k->text[k->by_first[first][i]];
			size_t len = strlen(token);

			if (len > best && strncmp(text, token, len) == 0) {
				best = len;
				codes[n] = k->by_first[first][i];
			}
		}
		if (!best)
			abort(); // a character without a token
		text += best;
		n++;
	}
	return n;
}

/* --- tables ----------------------------------------------------------------------------------- */

static void put_names(struct symtab *t, const struct tokens *k, const struct symtab_symbol *s,
		      uint32_t n, uint32_t *markers)
{
	for (uint32_t i = 0; i < n; i++) {
		char text[640];
		uint8_t entry[640];
		size_t len = strlen(s[i].name);

		if (len > 600)
			abort();
		text[0] = s[i].type;
		strcpy(text + 1, s[i].name);
		if (i % 256 == 0)
			markers[i / 256] = (uint32_t)(t->size - t->names);
		len = compress(k, text, entry + 2);
		if (len < 128) {
			entry[1] = (uint8_t)len;
			put(t, entry + 1, len + 1);
		} else {
			entry[0] = (uint8_t)(len & 0x7f) | 0x80;
			entry[1] = (uint8_t)(len >> 7);
			put(t, entry, len + 2);
		}
	}
}

static void put_tokens(struct symtab *t, const struct tokens *k, const struct symtab_form *form,
		       size_t to)
{
	uint16_t index[256];

	t->token_table = align(t, to, form->pad.token_table);
	for (int c = 0; c < 256; c++) {
		index[c] = (uint16_t)(t->size - t->token_table);
		put(t, k->text[c], strlen(k->text[c]) + 1);
	}
	t->token_index = align(t, to, form->pad.token_index);
	put(t, index, sizeof(index));
}

struct by_name {
	const char *name;
	uint32_t i;
};

static int compare_names(const void *a, const void *b)
{
	const struct by_name *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->i > y->i) - (x->i < y->i);
}

/* Indexes in the order of names, 3 bytes each, big endian. */
static void put_seqs(struct symtab *t, const struct symtab_symbol *s, uint32_t n,
		     const struct symtab_form *form, size_t to)
{
	struct by_name *sorted = calloc(n, sizeof(*sorted));

	if (!sorted)
		abort();
	for (uint32_t i = 0; i < n; i++)
		sorted[i] = (struct by_name){ s[i].name, i };
	qsort(sorted, n, sizeof(*sorted), compare_names);
	t->seqs = align(t, to, form->pad.seqs);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t seq[3] = { (uint8_t)(sorted[i].i >> 16), (uint8_t)(sorted[i].i >> 8),
				   (uint8_t)sorted[i].i };

		if (form->seqs_fill)
			memset(seq, form->seqs_fill, sizeof(seq));
		put(t, seq, sizeof(seq));
	}
	free(sorted);
}

static void put_offsets(struct symtab *t, const struct symtab_symbol *s, uint32_t n,
			const struct symtab_form *form, size_t to)
{
	uint64_t base = form->base ? form->base : s[0].address;

	t->offsets = align(t, to, form->pad.offsets);
	for (uint32_t i = 0; i < n; i++)
		put_u32(t, (uint32_t)(s[i].address -
				      (form->style == 'C' ? form->place + t->size : base)));
	if (form->style == 'C')
		return;
	t->base = align(t, to, form->pad.base);
	put(t, &base, sizeof(base));
}

struct symtab symtab_make(const struct symtab_symbol *symbols, uint32_t n,
			  const struct symtab_form *form)
{
	struct symtab t = { .base = SIZE_MAX, .seqs = SIZE_MAX };
	struct tokens *k = calloc(1, sizeof(*k));
	uint32_t *markers = calloc(n / 256 + 1, sizeof(*markers));
	const size_t to = form->style == 'C' ? 4 : 8;

	if (!k || !markers)
		abort();
	make_tokens(k, form);
	if (form->style == 'A')
		put_offsets(&t, symbols, n, form, to);
	t.num_syms = align(&t, to, form->pad.num_syms);
	put_u32(&t, n);
	t.names = align(&t, to, form->pad.names);
	put_names(&t, k, symbols, n, markers);
	t.markers = align(&t, to, form->pad.markers);
	put(&t, markers, 4 * ((n + 255) / 256));
	if (form->style == 'A' && form->seqs)
		put_seqs(&t, symbols, n, form, to);
	put_tokens(&t, k, form, to);
	if (form->style != 'A')
		put_offsets(&t, symbols, n, form, to);
	if (form->style == 'C' || (form->style == 'B' && form->seqs))
		put_seqs(&t, symbols, n, form, to);
	free(k);
	free(markers);
	return t;
}

void symtab_free(struct symtab *t)
{
	free(t->data);
	*t = (struct symtab){ 0 };
}

size_t symtab_entry(const struct symtab *t, uint32_t i)
{
	size_t at = t->names;

	for (; i; i--)
		at += t->data[at] & 0x80 ? 2 + (t->data[at] & 0x7fu) + t->data[at + 1] * 128u
					 : 1u + t->data[at];
	return at;
}
