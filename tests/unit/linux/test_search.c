/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to a kernel: which one led to it, what each of them makes of hostile input. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "introspect/linux/finder.h"
#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct gs_error err;

static enum gs_code find(const struct lnx_hints *hints)
{
	err = (struct gs_error){ 0 };
	k = NULL;
	return lnx_kernel_find(&g.m.guest, g.m.regs, g.m.guest.vcpu_count, hints, &k, &err);
}

static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	lg_populate(&g);
}

static void done(void)
{
	lnx_kernel_destroy(k);
	k = NULL;
	lg_destroy(&g);
}

static void forget_registers(void)
{
	memset(g.m.regs, 0, sizeof(g.m.regs));
}

/* The kernel itself, and how it was found. */
static void expect_found(const struct lnx_hints *hints, enum lnx_way symbols, enum lnx_way place)
{
	ck_assert_msg(find(hints) == GS_OK, "style %c, pages of %u bits, addresses of %u: %s",
		      g.form.style, g.form.granule_bits, g.form.va_bits, err.text);
	const struct lnx_found *f = lnx_kernel_found(k);
	struct lnx_kernel_info info = lnx_kernel_info_get(k);

	ck_assert_str_eq(lnx_way_name(f->symbols_by), lnx_way_name(symbols));
	ck_assert_str_eq(lnx_way_name(f->place_by), lnx_way_name(place));
	ck_assert_str_eq(lnx_way_name(f->types_by), lnx_way_name(LNX_BY_BTF));
	ck_assert_uint_eq(f->symbols_at.a, g.image + g.table + g.symtab.token_table);
	ck_assert_uint_ge(f->candidates, 1);
	ck_assert_uint_eq(info.voffset, g.voffset);
	ck_assert_uint_eq(info.text, lg_symbol(&g, "_stext"));
	ck_assert_uint_eq(info.page_size, g.page);
	ck_assert_uint_eq(info.va_bits, g.form.va_bits);
	ck_assert_uint_eq(info.symbols, g.symbol_count);
	ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
	ck_assert(lnx_kernel_is_current(k, &g.m.guest));
}

static void expect_not_found(enum gs_code code, const char *text)
{
	enum gs_code rc = find(NULL);

	ck_assert_msg(rc == code && err.code == code, "%d, %d: %s", rc, err.code, err.text);
	ck_assert_msg(strstr(err.text, text), "%s", err.text);
	ck_assert_ptr_null(k);
}

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
		expect_found(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 1);
		ck_assert_int_eq(lnx_kernel_found(k)->evidence, 2);
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
			g.m.regs[v].valid &= ~(uint32_t)GUEST_REGS_VBAR;
		expect_found(NULL, LNX_BY_SCAN, LNX_BY_REGISTERS);
		ck_assert_int_eq(lnx_kernel_found(k)->evidence, 2);
		done();
	}
}
END_TEST

/* The text a kernel writes for readers of its dumps, with these lines left out. */
static struct lnx_hints vmcoreinfo(const char *without)
{
	static char text[1024];
	const struct {
		const char *key, *prefix;
		uint64_t value;
	} lines[] = {
		{ "SYMBOL(swapper_pg_dir)", "", g.swapper + g.voffset },
		{ "SYMBOL(_stext)", "", lg_symbol(&g, "_stext") },
		{ "NUMBER(kimage_voffset)", "0x", g.voffset },
		{ "KERNELOFFSET", "", 0x1000 },
	};
	int n = snprintf(text, sizeof(text),
			 "OSRELEASE=6.1.0-made-up\nPAGESIZE=%" PRIu64 "\nNUMBER(VA_BITS)=%u\n",
			 g.page, g.form.va_bits);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!without || strcmp(lines[i].key, without) != 0)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s=%s%" PRIx64 "\n",
				      lines[i].key, lines[i].prefix, lines[i].value);
	return (struct lnx_hints){ .vmcoreinfo = text, .vmcoreinfo_size = (size_t)n };
}

START_TEST(vmcoreinfo_is_said_to_have_led_to_the_kernel)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		struct lnx_hints hints = vmcoreinfo(NULL);
		forget_registers();
		expect_found(&hints, LNX_BY_VMCOREINFO, LNX_BY_VMCOREINFO);
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
		struct lnx_hints hints = vmcoreinfo(rows[i].without);
		forget_registers();
		expect_found(&hints, rows[i].symbols, rows[i].place);
		done();
	}
}
END_TEST

START_TEST(vmcoreinfo_that_lies_does_not_hide_the_kernel)
{
	static const char *const lies[] = {
		"SYMBOL(_stext)=ffffa3c84a010000\nNUMBER(kimage_voffset)=0xffffa3c809000000\n"
		"SYMBOL(swapper_pg_dir)=ffffa3c84a072000\n",
		"SYMBOL(_stext)=0\nNUMBER(kimage_voffset)=0\nSYMBOL(swapper_pg_dir)=0\n",
		"SYMBOL(_stext)=ffffffffffffffff\nNUMBER(kimage_voffset)=0\n"
		"SYMBOL(swapper_pg_dir)=ffffffffffffffff\n",
		"SYMBOL(_stext)=40000000\nNUMBER(kimage_voffset)=0\n"
		"SYMBOL(swapper_pg_dir)=403fffff\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		make(&forms[i]);
		struct lnx_hints hints = { .vmcoreinfo = lies[i],
					   .vmcoreinfo_size = strlen(lies[i]) };
		forget_registers();
		ck_assert_msg(find(&hints) == GS_OK, "%zu: %s", i, err.text);
		ck_assert_uint_eq(lnx_kernel_info_get(k).voffset, g.voffset);
		ck_assert_uint_eq(lnx_kernel_found(k)->place_by, LNX_BY_SCAN);
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
		expect_found(NULL, LNX_BY_SAMPLING, LNX_BY_SCAN);
		done();
	}
}
END_TEST

START_TEST(table_of_few_symbols_is_met_by_the_scan)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		forget_registers();
		expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
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
	g.ops.next_data = all_but_a_hole;
	hole_start = g.ram_start;
	hole_end = g.image + 0x1000; // not a place for samples
	expect_found(NULL, LNX_BY_SAMPLING, LNX_BY_SCAN);
	lnx_kernel_destroy(k);
	hole_end = g.ram_start + g.ram_size;
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

// Counters and other ascending words, as user memory may have: the samples give up, not the search.
START_TEST(memory_full_of_ascending_words_does_not_hide_the_table)
{
	const uint64_t ram_size = UINT64_C(12) << 20;

	make(&(struct lg_form){ .style = 'B', .ram_size = ram_size });
	forget_registers();
	uint32_t *word = lg_at(&g, g.ram_start + (UINT64_C(4) << 20));
	for (uint32_t i = 0; i < (8u << 20) / 4; i++)
		word[i] = 0x1000 + 16 * (i % 0x100000);
	expect_found(NULL, LNX_BY_SAMPLING,
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

/* --- the page directory, without registers ---------------------------------------------------- */

/* Every form of a kernel's half that Linux can be built with. */
static const struct {
	uint8_t granule_bits, va_bits;
	uint64_t image; /* 0: the usual one */
} shapes[] = {
	{ 12, 48, 0 },
	{ 12, 52, 0 },
	{ 12, 39, UINT64_C(0xffffffc008000000) },
	{ 14, 47, UINT64_C(0xffffe3c84a000000) },
	{ 14, 48, 0 },
	{ 14, 52, 0 },
	{ 14, 36, UINT64_C(0xfffffff808000000) },
	{ 16, 48, 0 },
	{ 16, 52, 0 },
	{ 16, 42, UINT64_C(0xfffffe0008000000) },
};

static struct lg_form form_of_shape(size_t i, char style)
{
	return (struct lg_form){
		.style = style,
		.meta = style == 'C',
		.granule_bits = shapes[i].granule_bits,
		.va_bits = shapes[i].va_bits,
		.voffset = shapes[i].image ? shapes[i].image - LG_IMAGE : 0,
		.ram_size = UINT64_C(8) << 20,
	};
}

START_TEST(page_directories_of_all_page_sizes_are_found_without_registers)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (const char *style = "ABC"; *style; style++) {
			struct lg_form form = form_of_shape(i, *style);

			make(&form);
			forget_registers();
			expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
			done();
		}
	}
}
END_TEST

START_TEST(page_directories_of_all_page_sizes_are_found_by_registers)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (const char *style = "ABC"; *style; style++) {
			struct lg_form form = form_of_shape(i, *style);

			make(&form);
			expect_found(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
			done();
		}
	}
}
END_TEST

START_TEST(page_directories_of_all_page_sizes_are_found_by_vmcoreinfo)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (const char *style = "ABC"; *style; style++) {
			struct lg_form form = form_of_shape(i, *style);

			make(&form);
			struct lnx_hints hints = vmcoreinfo(NULL);
			forget_registers();
			expect_found(&hints, LNX_BY_VMCOREINFO, LNX_BY_VMCOREINFO);
			done();
		}
	}
}
END_TEST

// The linear map has the largest blocks: where the first table is one of blocks, these are in it.
START_TEST(page_directories_with_blocks_in_the_linear_map_are_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (const char *style = "ABC"; *style; style++) {
			struct lg_form form = form_of_shape(i, *style);

			form.blocks = true;
			make(&form);
			forget_registers();
			expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
			done();
		}
	}
}
END_TEST

// Linux puts the linear map anywhere into the lower half of its addresses, by chance.
START_TEST(page_directory_is_found_wherever_the_linear_map_is)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct lg_form form = form_of_shape(i, 'C');
		const uint64_t half = UINT64_C(1) << (form.va_bits - 1);
		const uint64_t block = gs_min(UINT64_C(1) << 30, half / 4);

		form.linear = (~UINT64_C(0) << form.va_bits) + half - block;
		make(&form);
		forget_registers();
		expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

// 5.11 to 6.15 do not map what is before _stext; with CONFIG_KALLSYMS_ALL _text is the first symbol.
START_TEST(first_symbol_need_not_be_mapped)
{
	for (const char *style = "ABC"; *style; style++) {
		make(&(struct lg_form){ .style = *style, .data_symbols = true, .no_head = true });
		expect_found(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		lnx_kernel_destroy(k);
		forget_registers();
		expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

// ... and something else may have got its address.
START_TEST(address_of_the_first_symbol_may_be_used_by_another)
{
	for (const char *style = "ABC"; *style; style++) {
		make(&(struct lg_form){ .style = *style, .data_symbols = true, .no_head = true });
		lg_map(&g, lg_image_va(&g, 0), lg_pages(&g, 1), false);
		expect_found(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		lnx_kernel_destroy(k);
		forget_registers();
		expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

// What is left of the tables of a 4K kernel is not taken for those of another size of pages.
START_TEST(tables_without_their_directory_are_no_page_directory)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (const char *style = "ABC"; *style; style++) {
			for (int blocks = 0; blocks < 2; blocks++) {
				struct lg_form form = form_of_shape(i, *style);

				form.blocks = blocks;
				make(&form);
				forget_registers();
				memset(lg_at(&g, g.swapper), 0, g.page);
				expect_not_found(GS_ENOENT, "no page table leads to it");
				done();
			}
		}
	}
}
END_TEST

/* A directory of three levels with 4K or 16K pages, of two with 64K: one block where _stext is. */
static void put_false_directory(unsigned int granule_bits, unsigned int lsb, uint64_t block)
{
	const uint64_t size = UINT64_C(1) << granule_bits, va = lg_symbol(&g, "_stext");
	uint64_t top = gs_align_up(lg_pages(&g, 64), size), *entry = lg_at(&g, top);

	if (granule_bits == 16) { // 42 bits
		entry[BITS(va, 41, lsb)] = block;
		return;
	}
	// 48 and 47 bits
	entry[granule_bits == 12 ? BITS(va, 47, 39) : BITS(va, 46, 36)] = (top + size) | 3;
	entry = lg_at(&g, top + size);
	entry[granule_bits == 12 ? BITS(va, 38, lsb) : BITS(va, 35, lsb)] = block;
}

/*
 * A 4K kernel's block of 2 MiB where a directory with larger pages would have one of 32 or 512 MiB:
 * all of the image would be where that block maps it, but for bits that are reserved there. And one
 * of 1 GiB, by which no kernel is mapped.
 */
START_TEST(block_of_2_mib_is_not_taken_for_a_larger_one)
{
	static const struct {
		unsigned int granule_bits, lsb;
		uint64_t ram; /* the image is 64 KiB on, and so is its address */
		bool whole;   /* the block is one of that size */
	} rows[] = {
		{ 14, 25, 0x40200000, false }, { 14, 25, 0x41e00000, false },
		{ 14, 25, 0x42000000, true },  { 16, 29, 0x40200000, false },
		{ 16, 29, 0x50000000, false }, { 16, 29, 0x60000000, true },
		{ 12, 30, 0x40000000, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t image = rows[i].ram + 0x10000;
		const uint64_t size = UINT64_C(1) << rows[i].lsb;

		// as far into its block as the address is into the block of that size
		make(&(struct lg_form){
			.style = 'A',
			.ram = rows[i].ram,
			.voffset = UINT64_C(0xfffffe0040000000) + image % size - image,
		});
		forget_registers();
		memset(lg_at(&g, g.swapper), 0, 4096);
		put_false_directory(rows[i].granule_bits, rows[i].lsb, rows[i].ram | 0x701);
		if (rows[i].whole) { // else the test proves nothing
			ck_assert_msg(find(NULL) != GS_OK && strstr(err.text, "early boot"),
				      "row %zu: %s", i, err.text);
		} else {
			expect_not_found(GS_ENOENT, "no page table leads to it");
		}
		done();
	}
}
END_TEST

// Without its image's mapping a directory leads to the symbol table by the linear map, all the same.
START_TEST(linear_map_is_not_taken_for_the_image)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (int registers = 0; registers < 2; registers++) {
			struct lg_form form = form_of_shape(i, 'C');

			make(&form);
			if (!registers)
				forget_registers();
			for (uint64_t at = 0; at < g.image_size; at += g.page)
				lg_unmap(&g, lg_image_va(&g, at));
			for (uint32_t v = 0; v < 2; v++)
				g.m.regs[v].vbar_el1 = g.m.regs[v].pc = g.linear + 0x20000;
			expect_not_found(GS_ENOENT, "no page table leads to it");
			done();
		}
	}
}
END_TEST

// A process may put into its registers whatever it likes.
START_TEST(addresses_in_registers_of_a_process_do_not_mislead)
{
	for (int kpti = 0; kpti < 2; kpti++) {
		make(&(struct lg_form){ .style = 'C' });
		for (uint32_t v = 0; v < 2; v++) {
			struct guest_vcpu_regs *r = &g.m.regs[v];

			lg_run_user(&g, v, &g.threads[v ? 4 : 3], kpti);
			r->pc = r->x[30] = r->elr_el1 = g.linear + 0x20000;
		}
		expect_found(NULL, LNX_BY_REGISTERS, kpti ? LNX_BY_SCAN : LNX_BY_REGISTERS);
		done();
	}
}
END_TEST

// What leads in circles is left early: pages full of last entries cost next to nothing.
START_TEST(pages_that_are_mistaken_for_tables_cost_little)
{
	const uint64_t start = 0x63000; // behind the types, before the page directories

	make(&(struct lg_form){ .style = 'C' });
	forget_registers();
	uint64_t *leaves = lg_image(&g, start), leaf = *lg_entry(&g, g.swapper, g.linear);
	for (size_t i = 0; i < 512; i++)
		leaves[i] = (leaf & ~UINT64_C(0xfffffffff000)) | (g.image + start);
	for (uint64_t at = start + 4096; at < LG_TRAMP_DIR; at += 4096)
		*(uint64_t *)lg_image(&g, at) = (g.image + start) | 3;
	expect_found(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
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
	tcase_add_test(tc, memory_full_of_ascending_words_does_not_hide_the_table);
	tcase_add_test(tc, every_way_has_a_name);
	tcase_add_test(tc, numbers_of_vmcoreinfo_are_read_as_the_kernel_writes_them);
	tcase_add_test(tc, what_is_no_number_in_vmcoreinfo_is_refused);
	tcase_add_test(tc, vmcoreinfo_is_never_read_beyond_its_end);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_without_registers);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_by_registers);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_by_vmcoreinfo);
	tcase_add_test(tc, page_directories_with_blocks_in_the_linear_map_are_found);
	tcase_add_test(tc, page_directory_is_found_wherever_the_linear_map_is);
	tcase_add_test(tc, first_symbol_need_not_be_mapped);
	tcase_add_test(tc, address_of_the_first_symbol_may_be_used_by_another);
	tcase_add_test(tc, tables_without_their_directory_are_no_page_directory);
	tcase_add_test(tc, block_of_2_mib_is_not_taken_for_a_larger_one);
	tcase_add_test(tc, linear_map_is_not_taken_for_the_image);
	tcase_add_test(tc, addresses_in_registers_of_a_process_do_not_mislead);
	tcase_add_test(tc, pages_that_are_mistaken_for_tables_cost_little);
	suite_add_tcase(s, tc);
	return s;
}
