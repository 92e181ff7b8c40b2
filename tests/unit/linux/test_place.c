/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's page directory: found in every form it can have, and nothing else taken for it. */
#include <string.h>

#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

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
			expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
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
			expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
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
			struct lnx_hints hints = lg_vmcoreinfo(&made.g, NULL);
			forget_registers();
			expect_found_alone(&hints, LNX_BY_VMCOREINFO, LNX_BY_VMCOREINFO);
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
			expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
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
		expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

START_TEST(linear_map_is_found_with_every_page_size)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (int blocks = 0; blocks < 2; blocks++) {
			struct lg_form form = form_of_shape(i, 'B');
			uint64_t offset;

			form.blocks = blocks;
			form.linear = (~UINT64_C(0) << form.va_bits) + (UINT64_C(1) << 30);
			make(&form);
			expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
			ck_assert(lnx_linear_offset(made.k, &made.g.m.guest, &offset));
			ck_assert_uint_eq(offset, made.g.linear - made.g.ram_start);
			// without it the image's own mapping is the lowest
			for (uint64_t at = 0; at < made.g.ram_size; at += made.g.page)
				lg_unmap(&made.g, made.g.linear + at);
			ck_assert(!lnx_linear_offset(made.k, &made.g.m.guest, &offset));
			done();
		}
	}
}
END_TEST

// 5.11 to 6.15 do not map what is before _stext; with CONFIG_KALLSYMS_ALL _text is the first symbol.
START_TEST(first_symbol_need_not_be_mapped)
{
	for (const char *style = "ABC"; *style; style++) {
		make(&(struct lg_form){ .style = *style, .data_symbols = true, .no_head = true });
		expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		lnx_kernel_destroy(made.k);
		forget_registers();
		expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
		done();
	}
}
END_TEST

// ... and something else may have got its address.
START_TEST(address_of_the_first_symbol_may_be_used_by_another)
{
	for (const char *style = "ABC"; *style; style++) {
		make(&(struct lg_form){ .style = *style, .data_symbols = true, .no_head = true });
		lg_map(&made.g, lg_image_va(&made.g, 0), lg_pages(&made.g, 1), false);
		expect_found_alone(NULL, LNX_BY_REGISTERS, LNX_BY_REGISTERS);
		lnx_kernel_destroy(made.k);
		forget_registers();
		expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
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
				memset(lg_at(&made.g, made.g.swapper), 0, made.g.page);
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
	const uint64_t size = UINT64_C(1) << granule_bits, va = lg_symbol(&made.g, "_stext");
	uint64_t top = gs_align_up(lg_pages(&made.g, 64), size), *entry = lg_at(&made.g, top);

	if (granule_bits == 16) { // 42 bits
		entry[BITS(va, 41, lsb)] = block;
		return;
	}
	// 48 and 47 bits
	entry[granule_bits == 12 ? BITS(va, 47, 39) : BITS(va, 46, 36)] = (top + size) | 3;
	entry = lg_at(&made.g, top + size);
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
		memset(lg_at(&made.g, made.g.swapper), 0, 4096);
		put_false_directory(rows[i].granule_bits, rows[i].lsb, rows[i].ram | 0x701);
		if (rows[i].whole) { // else the test proves nothing
			ck_assert_msg(find(NULL) != GS_OK && strstr(made.err.text, "early boot"),
				      "row %zu: %s", i, made.err.text);
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
			for (uint64_t at = 0; at < made.g.image_size; at += made.g.page)
				lg_unmap(&made.g, lg_image_va(&made.g, at));
			for (uint32_t v = 0; v < 2; v++)
				made.g.m.regs[v].vbar_el1 = made.g.m.regs[v].pc =
					made.g.linear + 0x20000;
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
			struct guest_vcpu_regs *r = &made.g.m.regs[v];

			lg_run_user(&made.g, v, &made.g.threads[v ? 4 : 3], kpti);
			r->pc = r->x[30] = r->elr_el1 = made.g.linear + 0x20000;
		}
		expect_found_alone(NULL, LNX_BY_REGISTERS, kpti ? LNX_BY_SCAN : LNX_BY_REGISTERS);
		done();
	}
}
END_TEST

// What leads in circles is left early: pages full of last entries cost next to nothing.
START_TEST(pages_that_are_mistaken_for_tables_cost_little)
{
	const uint64_t start = 0x68000; // behind the types, before the page directories

	make(&(struct lg_form){ .style = 'C' });
	forget_registers();
	uint64_t *leaves = lg_image(&made.g, start),
		 leaf = *lg_entry(&made.g, made.g.swapper, made.g.linear);
	for (size_t i = 0; i < 512; i++)
		leaves[i] = (leaf & ~UINT64_C(0xfffffffff000)) | (made.g.image + start);
	for (uint64_t at = start + 4096; at < LG_TRAMP_DIR; at += 4096)
		*(uint64_t *)lg_image(&made.g, at) = (made.g.image + start) | 3;
	expect_found_alone(NULL, LNX_BY_SCAN, LNX_BY_SCAN);
	done();
}
END_TEST

Suite *suite_place(void)
{
	Suite *s = suite_create("place");
	TCase *tc = tcase_create("place");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_without_registers);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_by_registers);
	tcase_add_test(tc, page_directories_of_all_page_sizes_are_found_by_vmcoreinfo);
	tcase_add_test(tc, page_directories_with_blocks_in_the_linear_map_are_found);
	tcase_add_test(tc, page_directory_is_found_wherever_the_linear_map_is);
	tcase_add_test(tc, linear_map_is_found_with_every_page_size);
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
