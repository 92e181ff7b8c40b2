/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to a kernel: which one led to it, what each of them makes of hostile input. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "introspect/linux/finder.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

static const struct lg_form forms[] = {
	{ .style = 'A', .old = true },
	{ .style = 'A', .seqs = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
};

/* --- which way -------------------------------------------------------------------------------- */

START_TEST(registers_are_said_to_have_led_to_the_kernel)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		ck_assert_uint_eq(lnx_kernel_found(made.k)->candidates, 1);
		ck_assert_int_eq(lnx_kernel_found(made.k)->evidence, 2);
		done();
	}
}
END_TEST

// Page tables are known, vectors are not.
START_TEST(registers_may_lead_to_the_place_only)
{
	for (size_t i = 0; i < 3; i++) {
		make(&forms[i]);
		for (uint32_t v = 0; v < 2; v++)
			made.g.m.regs[v].valid &= ~(uint32_t)GUEST_REGS_VBAR;
		expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_REGISTERS);
		ck_assert_int_eq(lnx_kernel_found(made.k)->evidence, 2);
		done();
	}
}
END_TEST

START_TEST(vmcoreinfo_is_said_to_have_led_to_the_kernel)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		struct lnx_hints hints = lg_vmcoreinfo(&made.g, NULL);
		forget_registers();
		expect_found_alone(&hints, LNX_BY_VMCOREINFO, LNX_BY_VMCOREINFO);
		done();
	}
}
END_TEST

START_TEST(vmcoreinfo_that_lacks_lines_helps_as_far_as_it_goes)
{
	static const struct {
		const char *without;
		enum lnx_way symbols, place;
	} rows[] = {
		{ "SYMBOL(swapper_pg_dir)", LNX_BY_VMCOREINFO, LNX_BY_SCAN },
		{ "SYMBOL(_stext)", LNX_BY_SCAN, LNX_BY_VMCOREINFO },
		{ "NUMBER(kimage_voffset)", LNX_BY_SCAN, LNX_BY_SCAN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make(&forms[i]);
		struct lnx_hints hints = lg_vmcoreinfo(&made.g, rows[i].without);
		forget_registers();
		expect_found_alone(&hints, rows[i].symbols, rows[i].place);
		done();
	}
}
END_TEST

START_TEST(vmcoreinfo_that_lies_does_not_hide_the_kernel)
{
	static const char *const lies[] = {
		"SYMBOL(_stext)=ffffa3c84a010000\n"
		"NUMBER(kimage_voffset)=0xffffa3c809000000\n"
		"SYMBOL(swapper_pg_dir)=ffffa3c84a072000\n",
		"SYMBOL(_stext)=0\n"
		"NUMBER(kimage_voffset)=0\nSYMBOL(swapper_pg_dir)=0\n",
		"SYMBOL(_stext)=ffffffffffffffff\n"
		"NUMBER(kimage_voffset)=0\n"
		"SYMBOL(swapper_pg_dir)=ffffffffffffffff\n",
		"SYMBOL(_stext)=40000000\n"
		"NUMBER(kimage_voffset)=0\n"
		"SYMBOL(swapper_pg_dir)=403fffff\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		make(&forms[i]);
		struct lnx_hints hints = { .vmcoreinfo = lies[i],
					   .vmcoreinfo_size = strlen(lies[i]) };
		forget_registers();
		ck_assert_msg(find(&hints) == GS_OK, "%zu: %s", i, made.err.text);
		ck_assert_uint_eq(lnx_kernel_info_get(made.k).voffset, made.g.voffset);
		ck_assert_uint_eq(lnx_kernel_found(made.k)->place_by, LNX_BY_SCAN);
		done();
	}
}
END_TEST

START_TEST(table_of_many_symbols_is_met_by_samples)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct lg_form form = forms[i];

		form.many = true;
		make(&form);
		forget_registers();
		expect_found_alone(NULL, LNX_BY_SAMPLING, LNX_BY_SCAN);
		done();
	}
}
END_TEST

START_TEST(table_of_few_symbols_is_met_by_the_scan)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		forget_registers();
		expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

/* All but what was written: as a source of sparse memory says it. */
static uint64_t hole_start, hole_end;

static bool all_but_a_hole(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	(void)priv;
	if (from.a >= hole_start && from.a < hole_end)
		from.a = hole_end;
	if (from.a >= end.a)
		return false;
	*start_out = from;
	*end_out = GPA(from.a < hole_start ? gs_min(end.a, hole_start) : end.a);
	return true;
}

START_TEST(samples_are_taken_of_what_was_written)
{
	make(&(struct lg_form){ .style = 'B', .many = true, .ram = UINT64_C(0x80000000) });
	forget_registers();
	made.g.ops.next_data = all_but_a_hole;
	hole_start = made.g.ram_start;
	hole_end = made.g.image + 0x1000; // not a place for samples
	expect_found_alone(NULL, LNX_BY_SAMPLING, LNX_BY_SCAN);
	lnx_kernel_destroy(made.k);
	hole_end = made.g.ram_start + made.g.ram_size;
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

// RAM that comes in pieces, which meet in the middle of the tables.
START_TEST(tables_may_lie_in_two_ranges)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		forget_registers();
		const size_t cuts[] = {
			made.g.symtab.offsets + 100,	 made.g.symtab.num_syms,
			made.g.symtab.names + 1000,	 made.g.symtab.markers + 4,
			made.g.symtab.token_table,	 made.g.symtab.token_table + 100,
			made.g.symtab.token_index,	 made.g.symtab.token_index + 100,
			made.g.symtab.token_index + 512, made.g.symtab.size
		};

		for (size_t c = 0; c < ARRAY_SIZE(cuts); c++) {
			const uint64_t at =
				made.g.image - made.g.ram_start + made.g.table + cuts[c];

			made.g.m.guest.range_count = 0;
			ck_assert_int_eq(
				memory_guest_add(&made.g.m, GPA(made.g.ram_start), made.g.ram, at),
				GS_OK);
			ck_assert_int_eq(memory_guest_add(&made.g.m, GPA(made.g.ram_start + at),
							  made.g.ram + at, made.g.ram_size - at),
					 GS_OK);
			// by a sample where a range begins, or by the scan
			ck_assert_msg(find(NULL) == GS_OK, "style %c, %zu: %s", forms[i].style, c,
				      made.err.text);
			ck_assert_uint_eq(lnx_kernel_info_get(made.k).voffset, made.g.voffset);
			ck_assert_uint_eq(lnx_kernel_info_get(made.k).symbols, made.g.symbol_count);
			lnx_kernel_destroy(made.k);
			made.k = NULL;
		}
		done();
	}
}
END_TEST

static uint32_t large_reads;

static enum gs_code count_large_reads(void *priv, gpa_t at, void *buf, size_t len)
{
	struct linux_guest *guest = priv;

	large_reads += len >= 0x10000;
	memcpy(buf, lg_at(guest, at.a), len);
	return GS_OK;
}

// What is around their vectors is looked at once, however many vCPUs there are.
START_TEST(vcpus_with_the_same_vectors_are_one)
{
	uint32_t of_one = 0;

	for (uint32_t vcpus = 1; vcpus <= 8; vcpus *= 2) {
		make(&(struct lg_form){ .vcpus = vcpus, .no_table = true });
		for (uint32_t v = 0; v < vcpus; v++)
			made.g.m.regs[v].vbar_el1 += 0x800 * v; // those of the workaround are apart
		made.g.ops.read = count_large_reads;
		made.g.m.ranges[0].host = NULL;
		large_reads = 0;
		expect_not_found(GS_ENOENT, "no kernel symbol table");
		if (vcpus == 1)
			of_one = large_reads;
		ck_assert_uint_ge(of_one, 2); // by registers, and by the scan
		ck_assert_uint_eq(large_reads, of_one);
		done();
	}
}
END_TEST

// Counters and other ascending words, as user memory may have: the samples give up, not the search.
START_TEST(memory_full_of_ascending_words_does_not_hide_the_table)
{
	const uint64_t ram_size = UINT64_C(12) << 20;

	make(&(struct lg_form){ .style = 'B', .ram_size = ram_size });
	forget_registers();
	uint32_t *word = lg_at(&made.g, made.g.ram_start + (UINT64_C(4) << 20));
	for (uint32_t i = 0; i < (8u << 20) / 4; i++)
		word[i] = 0x1000 + 16 * (i % 0x100000);
	expect_found_alone(NULL, LNX_BY_SAMPLING,
			   LNX_BY_SCAN); // the kernel lies within reach of the first
	done();
}
END_TEST

START_TEST(every_way_has_a_name)
{
	for (int way = 0; way < LNX_WAYS; way++) {
		ck_assert_str_ne(lnx_way_name((enum lnx_way)way), "?");
		for (int other = 0; other < way; other++)
			ck_assert_str_ne(lnx_way_name((enum lnx_way)way),
					 lnx_way_name((enum lnx_way)other));
	}
	ck_assert_str_eq(lnx_way_name(LNX_WAYS), "?");
}
END_TEST

/* --- VMCOREINFO's text ------------------------------------------------------------------------ */

#define TEXT(s)                                                     \
	{                                                           \
		.vmcoreinfo = (s), .vmcoreinfo_size = sizeof(s) - 1 \
	}

START_TEST(numbers_of_vmcoreinfo_are_read_as_the_kernel_writes_them)
{
	static const struct {
		struct lnx_hints text;
		const char *key;
		uint64_t value;
	} rows[] = {
		{ TEXT("SYMBOL(_stext)=ffff800008010000\n"), "SYMBOL(_stext)",
		  UINT64_C(0xffff800008010000) },
		{ TEXT("A=1\nSYMBOL(_stext)=10\nB=2\n"), "SYMBOL(_stext)", 0x10 },
		{ TEXT("NUMBER(VA_BITS)=48\n"), "NUMBER(VA_BITS)", 48 },
		{ TEXT("NUMBER(kimage_voffset)=0xffff80003fe00000\n"), "NUMBER(kimage_voffset)",
		  UINT64_C(0xffff80003fe00000) },
		{ TEXT("KERNELOFFSET=3b802f560000\n"), "KERNELOFFSET", UINT64_C(0x3b802f560000) },
		// no newline at the end
		{ TEXT("X=1\nSYMBOL(_stext)=abc"), "SYMBOL(_stext)", 0xabc },
		{ TEXT("SYMBOL(_stext)=f"), "SYMBOL(_stext)", 0xf },
		// padded, as a note's text may be
		{ TEXT("SYMBOL(_stext)=abc\0\0\0"), "SYMBOL(_stext)", 0xabc },
		{ TEXT("SYMBOL(_stext)=abc\n\0\0\0"), "SYMBOL(_stext)", 0xabc },
		{ TEXT("SYMBOL(_stext)=12\0003\nSYMBOL(_stext)=5\n"), "SYMBOL(_stext)", 0x12 },
		// keys that begin with each other
		{ TEXT("SYMBOL(_stext)x=1\nxSYMBOL(_stext)=2\nSYMBOL(_stext=3\nSYMBOL(_stext)=4\n"),
		  "SYMBOL(_stext)", 4 },
		{ TEXT("KERNELOFFSET2=1\nKERNELOFFSE=2\nKERNELOFFSET=3\n"), "KERNELOFFSET", 3 },
		// the largest there is
		{ TEXT("SYMBOL(a)=ffffffffffffffff\n"), "SYMBOL(a)", UINT64_MAX },
		{ TEXT("NUMBER(a)=18446744073709551615\n"), "NUMBER(a)", UINT64_MAX },
		{ TEXT("NUMBER(a)=0000000000000000000000000000012\n"), "NUMBER(a)", 10 }, // octal
		// the first of two
		{ TEXT("SYMBOL(a)=1\nSYMBOL(a)=2\n"), "SYMBOL(a)", 1 },
		{ TEXT("\n\n\nSYMBOL(a)=1\n"), "SYMBOL(a)", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t value = 0x5a5a;
		bool found = lnx_vmcoreinfo_number(&rows[i].text, rows[i].key, &value);

		ck_assert_msg(found && value == rows[i].value, "row %zu: %d, %#" PRIx64, i, found,
			      value);
	}
}
END_TEST

START_TEST(what_is_no_number_in_vmcoreinfo_is_refused)
{
	static const struct lnx_hints rows[] = {
		{ 0 },
		TEXT(""),
		TEXT("\0"),
		TEXT("\n"),
		TEXT("SYMBOL(_stext)"),
		TEXT("SYMBOL(_stext)="),
		TEXT("SYMBOL(_stext)=\n"),
		TEXT("SYMBOL(_stext)= \n"),
		TEXT("SYMBOL(_stext)=xyz\n"),
		TEXT("SYMBOL(_stext)=12 \n"),
		TEXT("SYMBOL(_stext)=12 34\n"),
		TEXT("SYMBOL(_stext)=12\r\n"),
		TEXT("SYMBOL(_stext)=\00012\n"),
		TEXT("\0SYMBOL(_stext)=12\n"),
		TEXT("A=1\n\0\nSYMBOL(_stext)=12\n"),
		TEXT("SYMBOL(_stext)=10000000000000000\n"), // 2^64
		TEXT("SYMBOL(_stext)=ffffffffffffffffffffffffffffffff\n"),
		// what is cut off would be another number
		TEXT("SYMBOL(_stext)=00000000000000000000000000000000000000012\n"),
		TEXT("SYMBOL(_stext)=000000000000000000000000000000012\n"),
		TEXT("SYMBOL(_stext)\n=12\n"),
		TEXT("SYMBOL(_stext) =12\n"),
		TEXT(" SYMBOL(_stext)=12\n"),
		// the first line of that name counts
		TEXT("SYMBOL(_stext)=\nSYMBOL(_stext)x=12\n"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t value;

		ck_assert_msg(!lnx_vmcoreinfo_number(&rows[i], "SYMBOL(_stext)", &value),
			      "row %zu: %#" PRIx64, i, value);
	}
}
END_TEST

// With bounds that the sanitizer knows.
START_TEST(vmcoreinfo_is_never_read_beyond_its_end)
{
	static const char text[] = "A=1\nSYMBOL(_stext)=ffff800008010000\n";

	for (size_t size = 0; size < sizeof(text); size++) {
		char *copy = malloc(size ? size : 1);
		uint64_t value = 0;

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, text, size);
		struct lnx_hints hints = { .vmcoreinfo = copy, .vmcoreinfo_size = size };
		bool found = lnx_vmcoreinfo_number(&hints, "SYMBOL(_stext)", &value);
		ck_assert_int_eq(found, size > strlen("A=1\nSYMBOL(_stext)="));
		if (size + 1 >= sizeof(text) - 1)
			ck_assert_uint_eq(value, UINT64_C(0xffff800008010000));
		free(copy);
	}
}
END_TEST

/* --- VMCOREINFO in memory --------------------------------------------------------------------- */

static bool find_text(const struct lnx_kernel *of, char *text, size_t *size)
{
	memset(text, '!', LNX_VMCOREINFO_MAX);
	*size = 5;
	return lnx_vmcoreinfo_find(&made.g.m.guest, of, text, size);
}

START_TEST(vmcoreinfo_is_found_in_the_page_the_kernel_keeps_it_in)
{
	static char text[LNX_VMCOREINFO_MAX];
	size_t size;

	make(&forms[2]);
	ck_assert(!find_text(NULL, text, &size));
	const struct lnx_hints own = lg_vmcoreinfo(&made.g, NULL);
	const uint64_t at = lg_pages(&made.g, 4);
	static const char incomplete[] = "OSRELEASE=5.10\n"
					 "NUMBER(kimage_voffset)=0x1000\n";
	static const char another[] = "OSRELEASE=5.10\n"
				      "NUMBER(kimage_voffset)=0xffff800000000000\n"
				      "SYMBOL(swapper_pg_dir)=ffff800040001000\n";
	memcpy(lg_at(&made.g, at), incomplete, sizeof(incomplete));
	memcpy(lg_at(&made.g, at + 0x1000), another, sizeof(another));
	memcpy(lg_at(&made.g, at + 0x2008), own.vmcoreinfo,
	       own.vmcoreinfo_size); // at no page's start
	ck_assert(find_text(NULL, text, &size));
	ck_assert_uint_eq(size, sizeof(another) - 1);
	expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
	ck_assert(!find_text(made.k, text, &size));
	memcpy(lg_at(&made.g, at + 0x3000), own.vmcoreinfo, own.vmcoreinfo_size);
	ck_assert(find_text(made.k, text, &size));
	ck_assert_uint_eq(size, own.vmcoreinfo_size);
	ck_assert_mem_eq(text, own.vmcoreinfo, size);
	done();
}
END_TEST

Suite *suite_search(void)
{
	Suite *s = suite_create("search");
	TCase *tc = tcase_create("search");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, registers_are_said_to_have_led_to_the_kernel);
	tcase_add_test(tc, registers_may_lead_to_the_place_only);
	tcase_add_test(tc, vmcoreinfo_is_said_to_have_led_to_the_kernel);
	tcase_add_test(tc, vmcoreinfo_that_lacks_lines_helps_as_far_as_it_goes);
	tcase_add_test(tc, vmcoreinfo_that_lies_does_not_hide_the_kernel);
	tcase_add_test(tc, table_of_many_symbols_is_met_by_samples);
	tcase_add_test(tc, table_of_few_symbols_is_met_by_the_scan);
	tcase_add_test(tc, samples_are_taken_of_what_was_written);
	tcase_add_test(tc, tables_may_lie_in_two_ranges);
	tcase_add_test(tc, vcpus_with_the_same_vectors_are_one);
	tcase_add_test(tc, memory_full_of_ascending_words_does_not_hide_the_table);
	tcase_add_test(tc, every_way_has_a_name);
	tcase_add_test(tc, numbers_of_vmcoreinfo_are_read_as_the_kernel_writes_them);
	tcase_add_test(tc, what_is_no_number_in_vmcoreinfo_is_refused);
	tcase_add_test(tc, vmcoreinfo_is_never_read_beyond_its_end);
	tcase_add_test(tc, vmcoreinfo_is_found_in_the_page_the_kernel_keeps_it_in);
	suite_add_tcase(s, tc);
	return s;
}
