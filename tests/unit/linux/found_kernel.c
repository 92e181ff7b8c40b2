/* SPDX-License-Identifier: Apache-2.0 */
/* One made guest and the kernel that a search finds in it. */
#include "tests/unit/linux/found_kernel.h"

#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/suites.h"

const struct lg_form data_forms[4] = {
	{ .style = 'A', .old = true },
	{ .style = 'A', .seqs = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
};

struct found_kernel made;

void make(const struct lg_form *form)
{
	lg_create(&made.g, form);
	lg_populate(&made.g);
}

void done(void)
{
	lnx_kernel_destroy(made.k);
	lnx_reference_destroy(made.ref);
	made.k = NULL;
	made.ref = NULL;
	lg_destroy(&made.g);
}

void forget_registers(void)
{
	memset(made.g.m.regs, 0, sizeof(made.g.m.regs));
}

void open_image(void)
{
	size_t size;
	uint8_t *image = image_make(&made.g, 0, &size);
	struct image_file f = image_file_make(image, size);

	ck_assert_msg(lnx_reference_open(f.path, &made.ref, &made.err) == GS_OK, "%s",
		      made.err.text);
	image_file_close(&f);
	free(image);
}

const struct lnx_hints *by_image(void)
{
	static struct lnx_hints hints;

	hints.reference = made.ref;
	return &hints;
}

enum gs_code find(const struct lnx_hints *hints)
{
	made.err = (struct gs_error){ 0 };
	made.k = NULL;
	return lnx_kernel_find(&made.g.m.guest, made.g.m.regs, made.g.m.guest.vcpu_count, hints,
			       &made.k, &made.err);
}

void expect_found(const struct lnx_hints *hints, enum lnx_way symbols, enum lnx_way place,
		  enum lnx_way types)
{
	ck_assert_msg(find(hints) == GS_OK, "style %c, pages of %u bits, addresses of %u: %s",
		      made.g.form.style, made.g.form.granule_bits, made.g.form.va_bits,
		      made.err.text);
	const struct lnx_found *f = lnx_kernel_found(made.k);
	struct lnx_kernel_info info = lnx_kernel_info_get(made.k);
	gva_t at;

	ck_assert_str_eq(lnx_way_name(f->symbols_by), lnx_way_name(symbols));
	ck_assert_str_eq(lnx_way_name(f->place_by), lnx_way_name(place));
	ck_assert_str_eq(lnx_way_name(f->types_by), lnx_way_name(types));
	ck_assert_uint_ge(f->candidates, 1);
	ck_assert_uint_eq(info.voffset, made.g.voffset);
	ck_assert_uint_eq(info.text, lg_symbol(&made.g, "_stext"));
	ck_assert_uint_eq(info.page_size, made.g.page);
	ck_assert_uint_eq(info.va_bits, made.g.form.va_bits);
	ck_assert_uint_eq(info.symbols, made.g.symbol_count);
	ck_assert_int_eq(info.kallsyms_style, made.g.form.style);
	ck_assert_uint_eq(lnx_init_task(made.k).a, made.g.init.address);
	ck_assert(lnx_kernel_is_current(made.k, &made.g.m.guest));
	for (uint32_t i = 0; i < made.g.symbol_count; i += 7) {
		ck_assert_int_eq(lnx_symbol_find(made.k, made.g.symbols[i].name, &at), GS_OK);
		ck_assert_uint_eq(at.a, made.g.symbols[i].address);
	}
}

void expect_found_alone(const struct lnx_hints *hints, enum lnx_way symbols, enum lnx_way place)
{
	expect_found(hints, symbols, place, LNX_BY_BTF);
	ck_assert_uint_eq(lnx_kernel_found(made.k)->symbols_at.a,
			  made.g.image + made.g.table + made.g.symtab.token_table);
}

void expect_not_found(enum gs_code code, const char *text)
{
	enum gs_code rc = find(NULL);

	ck_assert_msg(rc == code && made.err.code == code, "%d, %d: %s", rc, made.err.code,
		      made.err.text);
	ck_assert_msg(strstr(made.err.text, text), "%s", made.err.text);
	ck_assert_ptr_null(made.k);
}
