/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding kallsyms: one list of symbols in every style, and everything that can be wrong with it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/kallsyms.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/symtab.h"

#define MANY  3001 /* odd: the tables behind need padding */
#define FEW   1100
#define TEXT  UINT64_C(0xffffa3c84a010000)
#define PLACE UINT64_C(0xffffa3c84b000000) /* of the tables, behind the text as in any kernel */

static struct symtab_symbol list[MANY];
static char names[MANY][520];
static struct kallsyms ks; /* too large for a stack frame */

static const char *const words[] = { "init",  "read",	 "sched",  "lock", "xfs_da3_node", "tcp",
				     "irq",   "el1h_64", "vgic",   "do_",  "__",	   "sync",
				     "write", "Rust0",	 "switch", "42",   "_task",	   "$x" };

/* Names of 1 … 60 characters, mostly unique; addresses with gaps and a few doubles. */
static void make_list(uint32_t n)
{
	uint64_t seed = 7, at = TEXT;

	for (uint32_t i = 0; i < n; i++) {
		char *name = names[i];
		int parts = 1 + (int)prng_below(&seed, 4);

		name[0] = '\0';
		for (int p = 0; p < parts; p++)
			strcat(name, words[prng_below(&seed, ARRAY_SIZE(words))]);
		snprintf(name + strlen(name), 16, ".%u", (unsigned int)i);
		list[i] = (struct symtab_symbol){ at, name, "tTwWdDrb"[prng_below(&seed, 8)] };
		if (i % 50 != 10)
			at += 4 + 4 * prng_below(&seed, 300);
	}
}

/* A copy with exact bounds, so that the sanitizer sees every byte too far. */
static uint8_t *exact(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, data, size);
	return copy;
}

/* Search as the finder does: the first candidate that decodes. */
static enum gs_code search(const uint8_t *data, size_t size)
{
	enum gs_code rc = GS_ENOENT;

	ks = (struct kallsyms){ 0 };
	for (size_t at = 0; rc && (at = kallsyms_next_candidate(data, size, at)) < size; at += 2)
		if (kallsyms_has_tokens(data, size, at))
			rc = kallsyms_decode(data, size, at, false, &ks, NULL);
	return rc;
}

static enum gs_code search_copy(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact(data, size);
	enum gs_code rc = search(copy, size);

	free(copy);
	return rc;
}

static uint64_t lowest_of(const char *name, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (strcmp(list[i].name, name) == 0)
			return list[i].address;
	return 0;
}

static void expect_list(const struct symtab *t, uint32_t n, const struct symtab_form *form)
{
	char name[KALLSYMS_MIN_SYMS];

	ck_assert_int_eq(ks.style, form->style);
	ck_assert_uint_eq(ks.n, n);
	ck_assert_uint_eq(ks.token_table, t->token_table);
	ck_assert_int_eq(ks.absolute, form->style != 'C');
	if (!ks.absolute)
		kallsyms_rebase(&ks, form->place);
	ck_assert(ks.absolute);
	for (uint32_t i = 0; i < n; i++) {
		char type = 0;
		uint64_t address;

		kallsyms_name(&ks, i, &type, name, sizeof(name));
		enum gs_code rc = kallsyms_find(&ks, name, &address);
		uint32_t above = kallsyms_upper_bound(&ks, list[i].address);
		// one assertion a symbol only when it fails: each costs a system call
		if (strcmp(name, list[i].name) != 0 || type != list[i].type ||
		    ks.address[i] != list[i].address || rc ||
		    (address != list[i].address && address != lowest_of(name, n)) || above <= i ||
		    (above != n && ks.address[above] <= list[i].address) ||
		    ks.address[above - 1] != list[i].address)
			ck_abort_msg("symbol %u, %c %s: %c %s at %#" PRIx64 ", found at %#" PRIx64
				     ", %u is above",
				     (unsigned int)i, list[i].type, list[i].name, type, name,
				     ks.address[i], rc ? 0 : address, (unsigned int)above);
	}
}

static void decodes(const struct symtab_form *form, uint32_t n)
{
	struct symtab t = symtab_make(list, n, form);

	ck_assert_msg(search_copy(t.data, t.size) == GS_OK, "style %c", form->style);
	expect_list(&t, n, form);
	kallsyms_deinit(&ks);
	symtab_free(&t);
}

static const struct symtab_form forms[] = {
	{ .style = 'A' },
	{ .style = 'A', .seqs = true },
	{ .style = 'B' },
	{ .style = 'B', .seqs = true },
	{ .style = 'C', .seqs = true, .place = PLACE },
	{ .style = 'A', .seqs = true, .no_digits = true },
	{ .style = 'B', .long_tokens = true },
	{ .style = 'C', .seqs = true, .place = PLACE + 0x3334, .no_digits = true },
};

static void setup(void)
{
	make_list(MANY);
}

// S02, S04, S05: nothing but the bytes says which style it is.
START_TEST(same_symbols_in_every_style_decode_to_the_same_list)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		decodes(&forms[i], MANY);
		decodes(&forms[i], MANY - 1);
		decodes(&forms[i], KALLSYMS_MIN_SYMS);
		decodes(&forms[i], 1280); // markers end where a step would go on
	}
}
END_TEST

START_TEST(fewer_symbols_than_any_kernel_has_are_not_a_table)
{
	struct symtab t = symtab_make(list, KALLSYMS_MIN_SYMS - 1, &forms[0]);

	ck_assert_int_eq(search_copy(t.data, t.size), GS_ENOENT);
	symtab_free(&t);
}
END_TEST

// S03: zeros between any two tables; those of words stay aligned as words.
START_TEST(up_to_fifteen_zeros_between_two_tables_are_overlooked)
{
	for (size_t i = 0; i < 5; i++) {
		const unsigned int own = forms[i].style == 'C' ? 3 : 7; // the alignment's share

		for (unsigned int pad = 0; pad + own < 16; pad++) {
			struct symtab_form f = forms[i];
			const unsigned int words_pad = pad & ~3u;

			f.pad = (struct symtab_padding){ .token_table = pad, .seqs = pad };
			decodes(&f, FEW);
			f.pad = (struct symtab_padding){ .token_index = pad & ~1u };
			// what follows is aligned again
			decodes(&f, FEW);
			f.pad = (struct symtab_padding){ .num_syms = words_pad };
			decodes(&f, FEW);
			f.pad = (struct symtab_padding){ .markers = words_pad };
			decodes(&f, FEW + 1);
			f.pad = (struct symtab_padding){ .offsets = words_pad };
			decodes(&f, FEW);
			decodes(&f, FEW + 1);
			f.pad = (struct symtab_padding){ .base = pad & ~7u };
			decodes(&f, FEW);
			decodes(&f, FEW + 1);
		}
		for (unsigned int pad = 0; pad < 16 - 4; pad += 4) {
			struct symtab_form f = forms[i];

			f.pad = (struct symtab_padding){ .names = pad };
			decodes(&f, FEW);
		}
	}
}
END_TEST

START_TEST(padding_everywhere_at_once_is_overlooked)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct symtab_form f = forms[i];

		f.pad = (struct symtab_padding){ 8, 8, 8, 8, 5, 8, 8, 3 };
		decodes(&f, FEW);
		decodes(&f, FEW + 1);
		f.pad = (struct symtab_padding){ 0, 4, 4, 4, 4, 4, 4, 4 };
		decodes(&f, FEW);
		decodes(&f, FEW + 1);
	}
}
END_TEST

START_TEST(sixteen_bytes_of_padding_are_refused)
{
	struct symtab_form f = { .style = 'B', .pad = { .token_index = 16 } };
	struct symtab t = symtab_make(list, FEW, &f);

	ck_assert_int_eq(search_copy(t.data, t.size), GS_ENOENT);
	symtab_free(&t);
	f.pad = (struct symtab_padding){ .markers = 16 };
	t = symtab_make(list, FEW, &f);
	ck_assert_int_eq(search_copy(t.data, t.size), GS_ENOENT);
	symtab_free(&t);
}
END_TEST

static void lengthen(uint32_t i, size_t len)
{
	memset(names[i], 'Q', len); // no token but 'Q' itself: so many codes
	names[i][len] = '\0';
	names[i][len - 1] = (char)('a' + i % 26);
}

// S01: from 128 codes on the length has two bytes.
START_TEST(names_around_128_and_of_511_characters_decode)
{
	static const size_t lengths[] = { 1,   2,   125, 126, 127, 128, 129,
					  130, 254, 255, 256, 257, 510, 511 };

	for (size_t k = 0; k < ARRAY_SIZE(lengths); k++)
		lengthen((uint32_t)(100 + 190 * k), lengths[k]);
	lengthen(0, 511);
	lengthen(255, 511); // the last before a marker, the first at one
	lengthen(256, 511);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		decodes(&forms[i], MANY);
	lengthen(MANY - 1, 511);
	lengthen(FEW - 1, 511);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		decodes(&forms[i], MANY);
		decodes(&forms[i], FEW);
	}
}
END_TEST

START_TEST(names_are_cut_at_the_room_given)
{
	struct symtab t;
	char small[8];

	lengthen(5, 511);
	t = symtab_make(list, FEW, &forms[0]);
	ck_assert_int_eq(search_copy(t.data, t.size), GS_OK);
	memset(small, '!', sizeof(small));
	kallsyms_name(&ks, 5, NULL, small, 4);
	ck_assert_mem_eq(small, "QQQ\0!!!!", 8);
	kallsyms_name(&ks, 5, NULL, small, 1);
	ck_assert_mem_eq(small, "\0QQ\0!!!!", 8);
	kallsyms_name(&ks, 5, NULL, small, 0);
	kallsyms_deinit(&ks);
	symtab_free(&t);
}
END_TEST

/* The table with a byte changed must not decode; it may not even be looked at wrongly. */
static void refuses_byte(struct symtab *t, size_t at, uint8_t value)
{
	uint8_t before = t->data[at];

	t->data[at] = value;
	enum gs_code rc = search_copy(t->data, t->size);
	ck_assert_msg(rc == GS_ENOENT || rc == GS_EMALFORMED, "byte %zu", at);
	ck_assert_ptr_null(ks.names);
	t->data[at] = before;
}

START_TEST(lying_lengths_of_names_are_refused)
{
	struct symtab t = symtab_make(list, FEW, &forms[1]);
	static const uint32_t which[] = { 0, 1, 255, 256, 700, FEW - 1 };

	for (size_t k = 0; k < ARRAY_SIZE(which); k++) {
		size_t at = symtab_entry(&t, which[k]);

		refuses_byte(&t, at, 0);
		refuses_byte(&t, at, t.data[at] + 1);
		refuses_byte(&t, at, 0x7f);
		refuses_byte(&t, at, 0x80); // long form
		refuses_byte(&t, at, 0xff);
	}
	symtab_free(&t);
}
END_TEST

// X04, X13: the count in the table, and a limit on memory while it is believed.
START_TEST(lying_counts_are_refused)
{
	static const uint32_t lies[] = { 0,
					 1,
					 FEW - 1,
					 FEW + 1,
					 FEW - 256,
					 FEW + 256,
					 FEW * 2,
					 KALLSYMS_MAX_SYMS,
					 KALLSYMS_MAX_SYMS + 1,
					 UINT32_MAX / 4 + 1,
					 INT32_MAX,
					 UINT32_C(1) << 31,
					 UINT32_MAX - 255,
					 UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct symtab t = symtab_make(list, FEW, &forms[i]);

		for (size_t k = 0; k < ARRAY_SIZE(lies); k++) {
			memcpy(t.data + t.num_syms, &lies[k], 4);
			ck_assert_int_eq(search_copy(t.data, t.size), GS_ENOENT);
		}
		symtab_free(&t);
	}
}
END_TEST

START_TEST(markers_that_lie_are_refused)
{
	struct symtab t = symtab_make(list, MANY, &forms[2]);

	for (size_t m = 0; m < (MANY + 255) / 256; m++)
		for (size_t byte = 0; byte < 4; byte++)
			refuses_byte(&t, t.markers + 4 * m + byte,
				     t.data[t.markers + 4 * m + byte] ^ 1);
	symtab_free(&t);
}
END_TEST

START_TEST(addresses_that_do_not_ascend_are_malformed)
{
	for (size_t i = 0; i < 5; i++) {
		struct symtab t = symtab_make(list, FEW, &forms[i]);
		struct gs_error err = { 0 };
		uint32_t wild = 0x7ffffff0;

		memcpy(t.data + t.offsets + 4 * 500, &wild, 4);
		ck_assert_int_eq(kallsyms_decode(t.data, t.size, t.token_index, false, &ks, &err),
				 GS_EMALFORMED);
		ck_assert_ptr_nonnull(strstr(err.text, "no encoding of their addresses ascends"));
		ck_assert_ptr_null(ks.address);
		symtab_free(&t);
	}
}
END_TEST

START_TEST(base_that_is_no_kernel_address_is_malformed)
{
	static const uint64_t bases[] = { 0, 1, 0x40000000, UINT64_C(0x0000ffff00000000),
					  UINT64_C(0xff0f000000000000) };

	for (size_t i = 0; i < 4; i++) {
		for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
			struct symtab t = symtab_make(list, FEW, &forms[i]);

			memcpy(t.data + t.base, &bases[b], 8);
			ck_assert_int_eq(search_copy(t.data, t.size), GS_EMALFORMED);
			symtab_free(&t);
		}
	}
}
END_TEST

// S06: the base need not be the first symbol, nor the first symbol `_text`.
START_TEST(base_below_the_first_symbol_decodes)
{
	for (size_t i = 0; i < 4; i++) {
		struct symtab_form f = forms[i];

		f.base = TEXT - 0x10000;
		decodes(&f, MANY);
		f.base = TEXT - 0x7fff0000;
		decodes(&f, MANY);
	}
}
END_TEST

// The first bytes behind a style C table may look like a base: 1 kernel in 8192 has such seqs.
START_TEST(base_like_bytes_behind_place_relative_offsets_are_no_base)
{
	struct symtab_form f = { .style = 'C', .place = PLACE, .seqs_fill = 0xff };

	for (uint32_t n = FEW; n < FEW + 4; n++) {
		// no doubles, so that the offsets ascend as plain numbers, too
		for (uint32_t i = 0; i < n; i++)
			list[i].address = TEXT + 64 * i;
		decodes(&f, n);
	}
}
END_TEST

static uint64_t find(const char *name)
{
	uint64_t address;

	ck_assert_int_eq(kallsyms_find(&ks, name, &address), GS_OK);
	return address;
}

START_TEST(lowest_of_several_addresses_of_a_name_is_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct symtab t;

		for (uint32_t k = 100; k < 1000; k += 100)
			strcpy(names[k], "cleanup");
		t = symtab_make(list, FEW, &forms[i]);
		ck_assert_int_eq(search_copy(t.data, t.size), GS_OK);
		if (!ks.absolute)
			kallsyms_rebase(&ks, forms[i].place);
		ck_assert_uint_eq(find("cleanup"), list[100].address);
		kallsyms_deinit(&ks);
		symtab_free(&t);
	}
}
END_TEST

START_TEST(absent_names_are_not_found)
{
	static const char *const absent[] = {
		"", "no_such_function", "init", "Tinit", "read.1x", "Q", "~~", "\xff"
	};
	struct symtab t = symtab_make(list, MANY, &forms[1]);
	char longest[600];
	uint64_t address = 5;

	ck_assert_int_eq(search_copy(t.data, t.size), GS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
		ck_assert_int_eq(kallsyms_find(&ks, absent[i], &address), GS_ENOENT);
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ck_assert_int_eq(kallsyms_find(&ks, longest, &address), GS_ENOENT);
	ck_assert_uint_eq(address, 5);
	kallsyms_deinit(&ks);
	symtab_free(&t);
}
END_TEST

START_TEST(upper_bound_is_right_at_and_beyond_both_ends)
{
	struct symtab t = symtab_make(list, MANY, &forms[2]);

	ck_assert_int_eq(search_copy(t.data, t.size), GS_OK);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, 0), 0);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[0].address - 1), 0);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[0].address), 1);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[1].address - 1), 1);
	// 10 and 11 are at one address
	ck_assert_uint_eq(list[10].address, list[11].address);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[10].address), 12);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[10].address - 1), 10);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[MANY - 1].address - 1), MANY - 1);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, list[MANY - 1].address), MANY);
	ck_assert_uint_eq(kallsyms_upper_bound(&ks, UINT64_MAX), MANY);
	kallsyms_deinit(&ks);
	symtab_free(&t);
}
END_TEST

// S07, S09: memory that starts with what looks like the tables.
START_TEST(decoys_before_the_tables_are_passed_over)
{
	for (size_t i = 0; i < 5; i++) {
		struct symtab t = symtab_make(list, FEW, &forms[i]);
		size_t size = 0x80000;
		uint8_t *memory = calloc(1, size);
		size_t at = 0;

		ck_assert_ptr_nonnull(memory);
		// ascending words without tokens, thousands of them
		for (uint16_t w = 0; w < 3000; w++, at += 2)
			memcpy(memory + at, &w, 2);
		at = gs_align_up(at, 4096);
		// tokens and index without names
		memcpy(memory + at, t.data + t.token_table, t.token_index + 512 - t.token_table);
		at = gs_align_up(at + 8192, 4096);
		// everything, but the names of one symbol have been written over
		memcpy(memory + at, t.data, t.size);
		memset(memory + at + symtab_entry(&t, 700), 0, 40);
		at = gs_align_up(at + t.size, 4096);
		// everything up to the index: without addresses in B and C, without markers in A
		memcpy(memory + at, t.data, t.token_index + 512);
		memset(memory + at + t.markers, 0x55, 4);
		at = gs_align_up(at + t.size, 4096);
		ck_assert(at + t.size <= size);
		memcpy(memory + at, t.data, t.size);

		struct symtab_form f = forms[i];
		ck_assert_int_eq(search_copy(memory, size), GS_OK);
		t.token_table += at;
		f.place -= at;
		expect_list(&t, FEW, &f);
		kallsyms_deinit(&ks);
		free(memory);
		symtab_free(&t);
	}
}
END_TEST

START_TEST(windows_that_end_early_are_refused_without_reading_on)
{
	for (size_t i = 0; i < 5; i++) {
		struct symtab t = symtab_make(list, FEW, &forms[i]);
		size_t needed = forms[i].style == 'A'	? t.token_index + 512
				: forms[i].style == 'B' ? t.base + 8
							: t.offsets + 4 * (size_t)FEW;

		for (size_t size = 0; size < t.size; size += size + 400 < needed ? 97 : 1) {
			uint8_t *copy = exact(t.data, size);
			enum gs_code rc =
				kallsyms_decode(copy, size, t.token_index, false, &ks, NULL);

			if (size < needed)
				ck_assert_msg(rc, "style %c, %zu bytes", forms[i].style, size);
			else
				ck_assert_int_eq(rc, GS_OK);
			kallsyms_deinit(&ks);
			ck_assert(kallsyms_has_tokens(copy, size, t.token_index) ==
				  (size >= t.token_index + 512));
			free(copy);
		}
		symtab_free(&t);
	}
}
END_TEST

START_TEST(windows_that_begin_late_are_refused_without_reading_before)
{
	for (size_t i = 0; i < 5; i++) {
		struct symtab t = symtab_make(list, FEW, &forms[i]);
		size_t first = forms[i].style == 'A' ? t.offsets : t.num_syms;

		for (size_t cut = 4; cut <= t.token_index; cut += cut + 512 < t.markers ? 92 : 4) {
			uint8_t *copy = exact(t.data + cut, t.size - cut);
			enum gs_code rc = kallsyms_decode(copy, t.size - cut, t.token_index - cut,
							  false, &ks, NULL);

			ck_assert_msg(cut <= first || rc, "style %c from %zu", forms[i].style, cut);
			kallsyms_deinit(&ks);
			free(copy);
		}
		symtab_free(&t);
	}
}
END_TEST

START_TEST(nothing_is_found_in_zeros_ones_and_noise)
{
	const size_t size = 1 << 20;
	uint8_t *memory = calloc(1, size);
	uint64_t seed = 99;

	ck_assert_ptr_nonnull(memory);
	ck_assert_int_eq(search(memory, size), GS_ENOENT);
	memset(memory, 0xff, size);
	ck_assert_int_eq(search(memory, size), GS_ENOENT);
	for (size_t i = 0; i < size; i++)
		memory[i] = (uint8_t)prng(&seed);
	ck_assert_int_eq(search(memory, size), GS_ENOENT);
	for (size_t i = 0; i + 2 <= size; i += 2) { // every stride ascends
		uint16_t w = (uint16_t)(i / 2);

		memcpy(memory + i, &w, 2);
	}
	ck_assert_int_eq(search(memory, size), GS_ENOENT);
	free(memory);
}
END_TEST

START_TEST(mutated_tables_decode_to_something_in_bounds_or_are_refused)
{
	uint64_t seed = 4242;

	for (int round = 0; round < 400; round++) {
		const struct symtab_form *f = &forms[prng_below(&seed, 5)];
		struct symtab t = symtab_make(list, KALLSYMS_MIN_SYMS + 7, f);
		char name[512];

		for (uint64_t k = prng_below(&seed, 8); k < 8; k++) {
			// mostly where the structure is
			size_t at = prng_below(&seed, 2)
					    ? t.markers + prng_below(&seed, t.token_index + 512 -
										    t.markers)
					    : prng_below(&seed, t.size);
			t.data[at] = (uint8_t)prng(&seed);
		}
		if (search_copy(t.data, t.size) == GS_OK) {
			for (uint32_t i = 0; i < ks.n; i++) {
				uint64_t address;

				kallsyms_name(&ks, i, NULL, name, sizeof(name));
				if ((i && ks.address[i] < ks.address[i - 1]) ||
				    strlen(name) >= sizeof(name) ||
				    kallsyms_find(&ks, name, &address))
					ck_abort_msg("round %d, symbol %u", round, (unsigned int)i);
			}
			kallsyms_deinit(&ks);
		}
		symtab_free(&t);
	}
}
END_TEST

Suite *suite_kallsyms(void)
{
	Suite *s = suite_create("kallsyms");
	TCase *tc = tcase_create("kallsyms");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, same_symbols_in_every_style_decode_to_the_same_list);
	tcase_add_test(tc, fewer_symbols_than_any_kernel_has_are_not_a_table);
	tcase_add_test(tc, up_to_fifteen_zeros_between_two_tables_are_overlooked);
	tcase_add_test(tc, padding_everywhere_at_once_is_overlooked);
	tcase_add_test(tc, sixteen_bytes_of_padding_are_refused);
	tcase_add_test(tc, names_around_128_and_of_511_characters_decode);
	tcase_add_test(tc, names_are_cut_at_the_room_given);
	tcase_add_test(tc, lying_lengths_of_names_are_refused);
	tcase_add_test(tc, lying_counts_are_refused);
	tcase_add_test(tc, markers_that_lie_are_refused);
	tcase_add_test(tc, addresses_that_do_not_ascend_are_malformed);
	tcase_add_test(tc, base_that_is_no_kernel_address_is_malformed);
	tcase_add_test(tc, base_below_the_first_symbol_decodes);
	tcase_add_test(tc, base_like_bytes_behind_place_relative_offsets_are_no_base);
	tcase_add_test(tc, lowest_of_several_addresses_of_a_name_is_found);
	tcase_add_test(tc, absent_names_are_not_found);
	tcase_add_test(tc, upper_bound_is_right_at_and_beyond_both_ends);
	tcase_add_test(tc, decoys_before_the_tables_are_passed_over);
	tcase_add_test(tc, windows_that_end_early_are_refused_without_reading_on);
	tcase_add_test(tc, windows_that_begin_late_are_refused_without_reading_before);
	tcase_add_test(tc, nothing_is_found_in_zeros_ones_and_noise);
	tcase_add_test(tc, mutated_tables_decode_to_something_in_bounds_or_are_refused);
	suite_add_tcase(s, tc);
	return s;
}
