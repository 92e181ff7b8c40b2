/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel image as a file: of use where the guest's memory is not. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/suites.h"

static const struct lg_form forms[] = {
	{ .style = 'A', .old = true },
	{ .style = 'A', .seqs = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
	{ .style = 'B', .data_symbols = true, .no_head = true },
	{ .style = 'C' },
};

/* --- what it is good for ---------------------------------------------------------------------- */

/* All of the guest's symbol table but the names, which tell one kernel from others. */
static void lose_table(void)
{
	uint8_t *table = lg_image(&made.g, made.g.table);

	memset(table, 0, made.g.symtab.names);
	memset(table + made.g.symtab.markers, 0, made.g.symtab.size - made.g.symtab.markers);
}

START_TEST(guest_whose_symbol_table_is_lost_is_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		open_image();
		lose_table();
		expect_found(by_image(), LNX_BY_REFERENCE,
			     // without its base a table says nothing of virtual addresses
			     LNX_BY_REGISTERS, LNX_BY_BTF);
		lnx_kernel_destroy(made.k);
		forget_registers();
		expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_SCAN, LNX_BY_BTF);
		done();
	}
}
END_TEST

START_TEST(guest_whose_symbol_table_is_lost_is_not_found_without_the_image)
{
	make(&forms[1]);
	lose_table();
	ck_assert_int_eq(find(by_image()), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(made.err.text, "no kernel symbol table"));
	done();
}
END_TEST

START_TEST(guest_whose_types_are_lost_is_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		for (int how = 0; how < 3; how++) {
			make(&forms[i]);
			open_image();
			if (how == 0) // all
				memset(lg_image(&made.g, LG_BTF), 0, 0x12000);
			else if (how == 1) // the first page
				memset(lg_image(&made.g, LG_BTF), 0, 4096 - LG_BTF % 4096);
			else // what is behind the header
				memset(lg_image(&made.g, LG_BTF + 24), 0xff, 64);
			expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS,
				     LNX_BY_REFERENCE);
			ck_assert_mem_eq(&made.ref->types, &made.k->types, sizeof(made.k->types));
			done();
		}
	}
}
END_TEST

// Types alone: the guest's own symbols are read when too little of them is left to be recognised.
START_TEST(types_are_taken_of_an_image_with_the_same_symbols)
{
	for (size_t i = 0; i < 4; i++) {
		make(&forms[i]);
		open_image();
		memset(lg_image(&made.g, LG_BTF), 0, 0x12000);
		for (size_t s = 0; s < LNX_SAMPLES; s++)
			made.ref->sample[s] = 0; // the header, which memory has not
		expect_found(by_image(), LNX_BY_REGISTERS, LNX_BY_REGISTERS, LNX_BY_REFERENCE);
		done();
	}
}
END_TEST

/* Take pages out of the guest's memory, as if a dump lacked them. */
static void make_hole(uint64_t offset, uint64_t size)
{
	const uint64_t at = made.g.image - made.g.ram_start + offset;

	made.g.m.guest.range_count = 0;
	ck_assert_int_eq(memory_guest_add(&made.g.m, GPA(made.g.ram_start), made.g.ram, at), GS_OK);
	ck_assert_int_eq(memory_guest_add(&made.g.m, GPA(made.g.ram_start + at + size),
					  made.g.ram + at + size, made.g.ram_size - at - size),
			 GS_OK);
}

START_TEST(guest_with_pages_missing_is_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		open_image();
		// what follows the names: markers, tokens, in styles B and C offsets
		uint64_t at = gs_align_up(made.g.table + made.g.symtab.markers, 4096);
		make_hole(at, 0x3000);
		expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
		lnx_kernel_destroy(made.k);
		forget_registers();
		expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_SCAN, LNX_BY_BTF);
		lnx_kernel_destroy(made.k);
		// of the types
		make_hole(gs_align_up(LG_BTF, 4096) + 0x2000, 0x1000);
		expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_SCAN, LNX_BY_REFERENCE);
		done();
	}
}
END_TEST

static uint32_t match(void)
{
	gpa_t proof = { 0 };
	uint32_t n = lnx_reference_match(made.ref, &made.g.m.guest, GPA(made.g.image), &proof);

	if (n)
		ck_assert_mem_eq(lg_at(&made.g, proof.a),
				 made.ref->image + (proof.a - made.g.image), LNX_SAMPLE_BYTES);
	return n;
}

START_TEST(image_is_recognised_with_some_samples_missing)
{
	make(&forms[1]);
	open_image();
	ck_assert_uint_eq(match(), LNX_SAMPLES);
	for (unsigned int lost = 0; lost < 1u << LNX_SAMPLES; lost++) {
		const int n = __builtin_popcount(lost);

		for (size_t i = 0; i < LNX_SAMPLES; i++)
			if (lost >> i & 1)
				*(uint8_t *)lg_image(&made.g, made.ref->sample[i] + i * 9) ^= 1;
		uint32_t matches = match();
		if (LNX_SAMPLES - n >= LNX_SAMPLES_NEEDED)
			ck_assert_uint_eq(matches, LNX_SAMPLES - n);
		else
			ck_assert_uint_lt(matches, LNX_SAMPLES_NEEDED);
		for (size_t i = 0; i < LNX_SAMPLES; i++)
			if (lost >> i & 1)
				*(uint8_t *)lg_image(&made.g, made.ref->sample[i] + i * 9) ^= 1;
	}
	// at another place there is nothing of it, nor where memory ends
	gpa_t proof;
	ck_assert_uint_eq(
		lnx_reference_match(made.ref, &made.g.m.guest, GPA(made.g.image + 0x10000), &proof),
		0);
	ck_assert_uint_eq(lnx_reference_match(made.ref, &made.g.m.guest, GPA(0), &proof), 0);
	ck_assert_uint_eq(
		lnx_reference_match(made.ref, &made.g.m.guest, GPA(UINT64_MAX - 0x1000), &proof),
		0);
	done();
}
END_TEST

START_TEST(samples_are_apart_from_each_other)
{
	make(&forms[2]);
	open_image();
	for (size_t i = 1; i < LNX_SAMPLES; i++)
		ck_assert_uint_ge(made.ref->sample[i] - made.ref->sample[i - 1], LNX_SAMPLE_BYTES);
	ck_assert_uint_ge(made.ref->sample[0], made.g.table + made.g.symtab.names);
	ck_assert_uint_lt(made.ref->sample[LNX_SAMPLES - 1] + LNX_SAMPLE_BYTES,
			  made.g.table + made.g.symtab.markers);
	done();
}
END_TEST

START_TEST(kernel_is_found_with_three_samples_missing_but_not_with_four)
{
	for (int lost = 3; lost <= 4; lost++) {
		make(&forms[2]);
		open_image();
		for (int i = 0; i < lost; i++)
			memset(lg_image(&made.g, made.ref->sample[2 * i % 7]), 0xee,
			       LNX_SAMPLE_BYTES);
		memset(lg_image(&made.g, made.g.table + made.g.symtab.token_table), 0, 512);
		if (lost == 3) {
			expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
		} else {
			ck_assert_int_eq(find(by_image()), GS_ENOENT);
			ck_assert_ptr_nonnull(strstr(made.err.text,
						     "the kernel image given is not in "
						     "guest memory, nor is another"));
		}
		done();
	}
}
END_TEST

/* --- another kernel's ------------------------------------------------------------------------- */

/* The image of a guest with other symbols; it has types, of an older kernel. */
static void open_another(const struct lg_form *form)
{
	static struct linux_guest other;
	size_t size;

	lg_create(&other, form);
	uint8_t *image = image_make(&other, 0, &size);
	struct image_file f = image_file_make(image, size);
	ck_assert_msg(lnx_reference_open(f.path, &made.ref, &made.err) == GS_OK, "%s",
		      made.err.text);
	image_file_close(&f);
	free(image);
	lg_destroy(&other);
}

START_TEST(image_of_another_kernel_is_ignored)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		open_another(&(struct lg_form){ .style = forms[i].style, .many = true });
		expect_found(by_image(), LNX_BY_REGISTERS, LNX_BY_REGISTERS, LNX_BY_BTF);
		ck_assert_uint_eq(lnx_kernel_found(made.k)->candidates, 1);
		done();
	}
}
END_TEST

// Its layouts would be wrong, and nothing would show it.
START_TEST(types_of_another_kernel_are_not_used)
{
	static const struct lg_form others[] = {
		{ .style = 'A', .old = true },		// other names
		{ .style = 'A', .data_symbols = true }, // more of them
		{ .style = 'A', .many = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		make(&(struct lg_form){ .style = 'A', .no_types = true });
		open_another(&others[i]);
		ck_assert(made.ref->has_types);
		ck_assert_int_eq(find(by_image()), GS_ENOENT);
		ck_assert_msg(strstr(made.err.text, "CONFIG_DEBUG_INFO_BTF"), "%s", made.err.text);
		done();
	}
}
END_TEST

// The same names at other distances: a build with one option changed.
START_TEST(symbol_tables_are_the_same_by_names_and_distances)
{
	static struct kallsyms a, b;

	make(&forms[1]);
	open_image();
	ck_assert_int_eq(kallsyms_copy(&made.ref->ks, &a), GS_OK);
	ck_assert_int_eq(kallsyms_copy(&made.ref->ks, &b), GS_OK);
	kallsyms_rebase(&b, 0x1234567);
	ck_assert(kallsyms_is_same(&a, &b));
	b.address[b.n - 1]++;
	ck_assert(!kallsyms_is_same(&a, &b));
	b.address[b.n - 1]--;
	b.names[b.names_size - 1] ^= 1;
	ck_assert(!kallsyms_is_same(&a, &b));
	b.names[b.names_size - 1] ^= 1;
	b.tokens[a.token_index[255]] ^= 1;
	ck_assert(!kallsyms_is_same(&a, &b));
	b.tokens[a.token_index[255]] ^= 1;
	b.token_index[255]++;
	ck_assert(!kallsyms_is_same(&a, &b));
	b.token_index[255]--;
	ck_assert(kallsyms_is_same(&a, &b));
	kallsyms_deinit(&a);
	kallsyms_deinit(&b);
	done();
}
END_TEST

// What the kernel has at its base is not what a kernel has there.
START_TEST(base_that_was_written_over_is_not_believed)
{
	static const uint64_t bases[] = { 0, 1, 0x40010000, UINT64_C(0xff00000000000000) };

	for (size_t i = 0; i < 3; i++) {
		for (size_t b = 0; b < ARRAY_SIZE(bases); b++) {
			make(&forms[i]);
			open_image();
			memcpy(lg_image(&made.g, made.g.table + made.g.symtab.base), &bases[b], 8);
			expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
			done();
		}
	}
}
END_TEST

/* --- sparse memory ---------------------------------------------------------------------------- */

static uint64_t data_start, data_end;

static bool one_stretch(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	(void)priv;
	if (from.a >= data_end || end.a <= data_start)
		return false;
	*start_out = GPA(from.a > data_start ? from.a : data_start);
	*end_out = GPA(gs_min(end.a, data_end));
	return true;
}

static enum gs_code read_of_data(void *priv, gpa_t at, void *buf, size_t len)
{
	(void)priv;
	if (!gs_in_range(at.a, len, data_start, data_end - data_start))
		ck_abort_msg("%#" PRIx64 " was never written, but is read", at.a);
	memcpy(buf, lg_at(&made.g, at.a), len);
	return GS_OK;
}

// Reading a hole would make the host fill it.
START_TEST(memory_that_was_never_written_is_not_read)
{
	make(&(struct lg_form){ .style = 'B', .ram_size = UINT64_C(16) << 20 });
	open_image();
	data_start = made.g.image;
	data_end = made.g.next_page;
	made.g.ops.next_data = one_stretch;
	made.g.ops.read = read_of_data;
	// with more before it than the image takes, and its first pages given back
	made.g.m.ranges[0] = (struct guest_range){ GPA(made.g.ram_start - 0x400000),
						   made.g.ram_size + 0x400000, NULL };
	expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
	lnx_kernel_destroy(made.k);
	data_start = made.g.image + LG_STEXT;
	expect_found(by_image(), LNX_BY_REFERENCE, LNX_BY_REGISTERS, LNX_BY_BTF);
	lnx_kernel_destroy(made.k);
	forget_registers();
	// nothing of the image is there
	data_start = made.g.next_page - 4096;
	ck_assert_int_eq(find(by_image()), GS_ENOENT);
	// nothing at all
	data_end = 0;
	ck_assert_int_eq(find(by_image()), GS_ENOENT);
	done();
}
END_TEST

Suite *suite_reference(void)
{
	Suite *s = suite_create("reference");
	TCase *tc = tcase_create("reference");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, guest_whose_symbol_table_is_lost_is_found);
	tcase_add_test(tc, guest_whose_symbol_table_is_lost_is_not_found_without_the_image);
	tcase_add_test(tc, guest_whose_types_are_lost_is_found);
	tcase_add_test(tc, types_are_taken_of_an_image_with_the_same_symbols);
	tcase_add_test(tc, guest_with_pages_missing_is_found);
	tcase_add_test(tc, image_is_recognised_with_some_samples_missing);
	tcase_add_test(tc, samples_are_apart_from_each_other);
	tcase_add_test(tc, kernel_is_found_with_three_samples_missing_but_not_with_four);
	tcase_add_test(tc, image_of_another_kernel_is_ignored);
	tcase_add_test(tc, types_of_another_kernel_are_not_used);
	tcase_add_test(tc, symbol_tables_are_the_same_by_names_and_distances);
	tcase_add_test(tc, base_that_was_written_over_is_not_believed);
	tcase_add_test(tc, memory_that_was_never_written_is_not_read);
	suite_add_tcase(s, tc);
	return s;
}
