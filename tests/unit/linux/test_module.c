/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded modules: their list, their text, their symbols, and all the ways in which these can be wrong. */
#include <stdio.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

#define ONE  LG_MODULE
#define TWO  (LG_MODULE + 0x10000)
#define INIT (LG_MODULE + 0x20000)

static struct lnx_view view;
static struct lnx_modules modules;
static struct lnx_module_symbols symbols;
static struct lnx_symbol symbol;
static struct lg_loaded one, two;

static void read_list(void)
{
	lnx_view_init(&view, made.k, &made.g.m.guest);
	lnx_modules_read(&view, &modules);
}

/* Two modules, of which the second one has init text, too. */
static void load_form(const struct lg_form *form)
{
	make(form);
	one = lg_load_module(&made.g, "one", ONE);
	lg_module_symbol(&one, "one_first", ONE);
	lg_module_symbol(&one, "one_second", ONE + 0x100);
	two = lg_load_module(&made.g, "two", TWO);
	lg_module_init_text(&made.g, &two, INIT);
	lg_module_symbol(&two, "two_start", INIT + 0x40);
	lg_module_symbol(&two, "two_work", TWO + 0x80);
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	read_list();
}

static void load(void)
{
	load_form(&(struct lg_form){ .seqs = true });
}

static void finish(void)
{
	lnx_module_symbols_deinit(&symbols);
	done();
}

/* Names of what the list has, each with a blank behind it. */
static const char *listed(void)
{
	static char text[4096];
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < modules.count && n < sizeof(text) - LNX_MODULE_NAME; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s ", modules.module[i].name);
	return text;
}

#define LISTED(names)                              \
	do {                                       \
		read_list();                       \
		ck_assert_str_eq(listed(), names); \
	} while (0)

/* --- the list --------------------------------------------------------------------------------- */

static void expect_both(void)
{
	const struct lnx_module *m = modules.module;

	ck_assert_str_eq(listed(), "one two ");
	ck_assert_uint_eq(m[0].address.a, one.address);
	ck_assert_uint_eq(m[0].text[LNX_MODULE_CORE].start, ONE);
	ck_assert_uint_eq(m[0].text[LNX_MODULE_CORE].size, made.g.page);
	ck_assert_uint_eq(m[0].text[LNX_MODULE_INIT].size, 0);
	ck_assert_uint_eq(m[1].text[LNX_MODULE_CORE].start, TWO);
	ck_assert_uint_eq(m[1].text[LNX_MODULE_INIT].start, INIT);
	ck_assert_uint_eq(m[1].text[LNX_MODULE_INIT].size, made.g.page);
	ck_assert_int_eq(m[0].build_id[0], 'o');
	ck_assert_int_eq(m[1].build_id[LNX_BUILD_ID - 1], 't');
}

START_TEST(modules_are_listed_with_their_text)
{
	expect_both();
}
END_TEST

START_TEST(modules_of_all_kinds_of_kernels_are_listed)
{
	static const struct typeinfo_form mem = { .mem = true };
	static const struct lg_form forms[] = {
		{ .old = true },
		{ .data_symbols = true },
		{ .style = 'B', .types = &mem },
		{ .style = 'C', .meta = true, .data_symbols = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		finish();
		load_form(&forms[i]);
		expect_both();
	}
}
END_TEST

START_TEST(kernel_without_modules_has_none)
{
	finish();
	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	LISTED("");
	// and is found to have one as soon as there is one
	lg_load_module(&made.g, "late", ONE);
	LISTED("late ");
}
END_TEST

START_TEST(types_that_tell_nothing_of_modules_give_none)
{
	static const char *const missing[] = {
		"module",      "module.state",	     "module.list",
		"module.name", "module.core_layout", "module.init_layout"
	};

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		struct typeinfo_form types = { .omit = missing[i] };

		finish();
		load_form(&(struct lg_form){ .types = &types });
		ck_assert_uint_eq(modules.count, 0);
	}
	static const char *const of_mem[] = { "module.mem", "module_memory.base",
					      "module_memory.size" };
	for (size_t i = 0; i < ARRAY_SIZE(of_mem); i++) {
		struct typeinfo_form types = { .mem = true, .omit = of_mem[i] };

		finish();
		load_form(&(struct lg_form){ .types = &types });
		ck_assert_uint_eq(modules.count, 0);
	}
}
END_TEST

START_TEST(module_that_is_being_loaded_is_not_listed)
{
	one.m->state = 1;
	LISTED("one two ");
	one.m->state = 2;
	LISTED("one two ");
	two.m->state = 3;
	LISTED("one ");
	two.m->state = UINT32_MAX;
	LISTED("one ");
	two.m->state = 0;
	one.m->state = 3; // the kernel puts new ones at the head
	LISTED("two ");
	one.m->state = 4;
	LISTED("");
}
END_TEST

START_TEST(list_that_loops_has_each_module_once)
{
	// the last one leads back to itself, and to the first
	two.m->list.next = two.address + offsetof(struct lg_module, list);
	LISTED("one two ");
	two.m->list.next = one.address + offsetof(struct lg_module, list);
	LISTED("one two ");
}
END_TEST

START_TEST(list_that_breaks_off_has_what_is_before)
{
	static const uint64_t bad[] = {
		0, 8, 0xdead, UINT64_MAX, LG_LINEAR + 3, LG_LINEAR + (UINT64_C(1) << 40)
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		one.m->list.next = bad[i];
		LISTED("one ");
	}
}
END_TEST

START_TEST(head_whose_first_module_does_not_point_back_is_none)
{
	uint64_t *head = lg_image(&made.g, LG_MODULES);
	const uint64_t good = head[0], bad[] = { 0, one.address, 0xdead, UINT64_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		head[0] = bad[i];
		LISTED("");
	}
	head[0] = good;
	one.m->list.prev++;
	LISTED("");
	one.m->list.prev--;
	LISTED("one two ");
}
END_TEST

START_TEST(long_list_is_cut)
{
	uint64_t pa = 0, last = two.address + offsetof(struct lg_module, list);

	for (uint32_t i = 0; i < LNX_MODULES_MAX + 10; i++) {
		if (i % 4 == 0)
			pa = lg_pages(&made.g, 1);
		struct lg_module *m = lg_at(&made.g, pa + i % 4 * 0x400);
		_Static_assert(sizeof(*m) <= 0x400, "four to a page");
		uint64_t node =
			lg_linear(&made.g, pa + i % 4 * 0x400) + offsetof(struct lg_module, list);

		*m = *two.m;
		m->list.prev = last;
		*lg_word(&made.g, last) = node;
		last = node;
	}
	*lg_word(&made.g, last) = lg_image_va(&made.g, LG_MODULES);
	read_list();
	ck_assert_uint_eq(modules.count, LNX_MODULES_MAX);
}
END_TEST

START_TEST(text_that_cannot_be_a_modules_is_not_believed)
{
	struct lg_layout *core = &two.m->core_layout;
	const struct {
		uint64_t base;
		uint32_t size;
	} bad[] = {
		{ 0x400000, 0x1000 },
		{ TWO + 4, 0x1000 },
		{ TWO, (256u << 20) + 1 },
		{ TWO, UINT32_MAX },
		{ UINT64_MAX - 7, 0x1000 },
		{ LG_MODULE + 0x30000, 0x1000 },		 // not mapped
		{ two.address, 0x1000 },			 // not executable
		{ lg_symbol(&made.g, "vfs_read") & ~7u, 0x100 }, // the kernel's
		{ lg_symbol(&made.g, "_stext") - 0x1000, 0x2000 },
	};

	lg_map(&made.g, lg_symbol(&made.g, "_stext") - 0x1000, lg_pages(&made.g, 1), true);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		core->base = bad[i].base;
		core->text_size = bad[i].size;
		LISTED("one ");
	}
	// no text is no mistake
	core->base = TWO;
	core->text_size = 0;
	LISTED("one two ");
	ck_assert_uint_eq(modules.module[1].text[LNX_MODULE_CORE].size, 0);
}
END_TEST

START_TEST(names_that_are_no_modules_are_not_believed)
{
	memset(two.m->name, 'x', sizeof(two.m->name)); // no end
	LISTED("one ");
	two.m->name[sizeof(two.m->name) - 1] = '\0';
	read_list();
	ck_assert_uint_eq(modules.count, 2);
	ck_assert_uint_eq(strlen(modules.module[1].name), LG_MODULE_NAME_SIZE - 1);
	two.m->name[1] = '\n';
	LISTED("one ");
	two.m->name[1] = '\xff';
	LISTED("one ");
	two.m->name[0] = '\0';
	LISTED("one ");
}
END_TEST

START_TEST(module_on_a_page_that_is_gone_is_not_listed)
{
	uint64_t page = lg_linear(&made.g, lg_pages(&made.g, 1));
	const uint64_t moved = page + made.g.page - offsetof(struct lg_module, name);

	// its list is on the page, its name is behind it
	lg_unmap(&made.g, page + made.g.page);
	*lg_word(&made.g, moved + offsetof(struct lg_module, list)) =
		lg_image_va(&made.g, LG_MODULES);
	two.m->list.next = moved + offsetof(struct lg_module, list);
	LISTED("one two ");
}
END_TEST

/* --- whether it is still there ---------------------------------------------------------------- */

static bool is_there(uint32_t i)
{
	lnx_view_init(&view, made.k, &made.g.m.guest);
	return lnx_module_is_there(&view, &modules.module[i]);
}

START_TEST(module_that_has_changed_is_not_the_same)
{
	ck_assert(is_there(0) && is_there(1));
	two.m->name[0] = 'T';
	ck_assert(!is_there(1));
	two.m->name[0] = 't';
	two.m->core_layout.text_size--;
	ck_assert(!is_there(1));
	two.m->core_layout.text_size++;
	two.m->build_id[19]++;
	ck_assert(!is_there(1));
	two.m->build_id[19]--;
	lg_module_init_text(&made.g, &two, 0);
	ck_assert(!is_there(1));
	ck_assert(is_there(0));
}
END_TEST

START_TEST(module_that_is_off_the_list_is_not_there)
{
	lg_unload_module(&made.g, &one); // its memory is as it was
	ck_assert(!is_there(0));
	ck_assert(is_there(1));
	lg_unmap(&made.g, two.address);
	ck_assert(!is_there(1));
}
END_TEST

/* --- symbols ---------------------------------------------------------------------------------- */

static enum gs_code read_symbols(uint32_t i)
{
	lnx_module_symbols_deinit(&symbols);
	lnx_view_init(&view, made.k, &made.g.m.guest);
	return lnx_module_symbols_read(&view, &modules.module[i], LNX_MODULE_SYMBOLS_MAX, &symbols);
}

/* "name+0x14/0x100" of an address, or "none". */
static const char *name_in(uint32_t i, uint64_t address)
{
	static char text[LNX_SYMBOL_MAX + 64];

	if (lnx_module_symbol_at(&view, &modules.module[i], &symbols, GVA(address), &symbol))
		return "none";
	ck_assert_uint_lt(address - symbol.start, symbol.size);
	ck_assert_uint_eq(symbol.flags, 0);
	snprintf(text, sizeof(text), "%s+%#x/%#x", symbol.name, (int)(address - symbol.start),
		 (int)symbol.size);
	return text;
}

#define NAMED(i, address, name) ck_assert_str_eq(name_in(i, address), name)

START_TEST(address_has_the_symbol_below_it_up_to_the_next)
{
	ck_assert_int_eq(read_symbols(0), GS_OK);
	ck_assert_uint_eq(symbols.read, 3);
	NAMED(0, ONE, "one_first+0/0x100");
	NAMED(0, ONE + 0xff, "one_first+0xff/0x100");
	NAMED(0, ONE + 0x100, "one_second+0/0xf00");
	NAMED(0, ONE + 0xfff, "one_second+0xeff/0xf00");
	NAMED(0, ONE + 0x1000, "none");
	NAMED(0, ONE - 1, "none");
	NAMED(0, TWO + 0x80, "none");
	NAMED(0, 0, "none");
	NAMED(0, UINT64_MAX, "none");
}
END_TEST

START_TEST(parts_of_a_module_have_their_own_symbols)
{
	ck_assert_int_eq(read_symbols(1), GS_OK);
	NAMED(1, TWO, "none"); // a symbol below all of them is in no part
	NAMED(1, TWO + 0x7f, "none");
	NAMED(1, TWO + 0x80, "two_work+0/0xf80");
	NAMED(1, INIT + 0x3f, "none"); // not the other part's last one
	NAMED(1, INIT + 0x40, "two_start+0/0xfc0");
	NAMED(1, INIT + 0xfff, "two_start+0xfbf/0xfc0");
}
END_TEST

START_TEST(symbols_that_the_kernel_passes_over_name_nothing)
{
	static const char *const names[] = { "$x", "$d.12", "", ".Lname", "L0\x01" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		lg_module_symbol(&one, names[i], ONE + 0x40);
	one.symtab[lg_module_symbol(&one, "elsewhere", ONE + 0x40)].st_shndx = SHN_UNDEF;
	one.symtab[0] = one.symtab[1]; // the first one is none
	one.symtab[0].st_value = ONE + 0x20;
	lg_module_symbol(&one, "data", one.address);
	ck_assert_int_eq(read_symbols(0), GS_OK);
	ck_assert_uint_eq(symbols.count, 2);
	NAMED(0, ONE + 0x44, "one_first+0x44/0x100");
}
END_TEST

START_TEST(of_several_symbols_at_one_address_the_first_is_taken)
{
	lg_module_symbol(&one, "other", ONE + 0x100);
	lg_module_symbol(&one, "aaa", ONE + 0x100);
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE + 0x104, "one_second+0x4/0xf00");
	one.symtab[2].st_value = ONE; // behind one_first
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE + 0x104, "other+0x4/0xf00");
	NAMED(0, ONE + 0x10, "one_first+0x10/0x100");
}
END_TEST

START_TEST(tables_that_lie_are_not_believed)
{
	struct lg_mod_kallsyms *t = one.kallsyms;
	const struct lg_mod_kallsyms good = *t;

	one.m->kallsyms = 0;
	ck_assert_int_eq(read_symbols(0), GS_ENOENT);
	one.m->kallsyms = one.address + 0x801;
	ck_assert_int_eq(read_symbols(0), GS_EMALFORMED);
	one.m->kallsyms = LG_LINEAR + (UINT64_C(1) << 40);
	ck_assert_int_eq(read_symbols(0), GS_EFAULT);
	one.m->kallsyms = one.address + 0x800;
	t->num_symtab = UINT32_MAX;
	ck_assert_int_eq(read_symbols(0), GS_ETOOBIG);
	t->num_symtab = LNX_MODULE_SYMBOLS_MAX; // more than there is memory
	ck_assert_int_eq(read_symbols(0), GS_EFAULT);
	ck_assert_uint_lt(symbols.read, LNX_MODULE_SYMBOLS_MAX);
	*t = good;
	t->symtab = 0x1000;
	ck_assert_int_eq(read_symbols(0), GS_EMALFORMED);
	t->symtab = UINT64_MAX - 7;
	ck_assert_int_eq(read_symbols(0), GS_EFAULT);
	*t = good;
	t->strtab = UINT64_MAX - 100;
	ck_assert_int_eq(read_symbols(0), GS_EMALFORMED);
	t->strtab = 0;
	ck_assert_int_eq(read_symbols(0), GS_EMALFORMED);
	*t = good;
	t->num_symtab = 0;
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE, "none");
}
END_TEST

START_TEST(no_more_is_read_than_is_allowed)
{
	lnx_module_symbols_deinit(&symbols);
	ck_assert_int_eq(lnx_module_symbols_read(&view, &modules.module[0], 2, &symbols),
			 GS_ETOOBIG);
	ck_assert_uint_eq(symbols.read, 0);
	ck_assert_int_eq(lnx_module_symbols_read(&view, &modules.module[0], 3, &symbols), GS_OK);
}
END_TEST

START_TEST(names_without_an_end_name_nothing)
{
	// to the end of the table's page, behind which all is zero
	memset(one.strtab + 1, 'x', 4095);
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE, "none");
	one.strtab[one.symtab[1].st_name + LNX_SYMBOL_MAX - 1] = '\0';
	ck_assert_int_eq(
		lnx_module_symbol_at(&view, &modules.module[0], &symbols, GVA(ONE), &symbol),
		GS_OK);
	ck_assert_uint_eq(strlen(symbol.name), LNX_SYMBOL_MAX - 1);
}
END_TEST

START_TEST(name_before_a_page_that_is_gone_is_read)
{
	const uint32_t at = 4096 - sizeof("last");

	lg_unmap(&made.g, one.kallsyms->strtab + 4096);
	memcpy(one.strtab + at, "last", sizeof("last"));
	one.symtab[1].st_name = at;
	one.symtab[2].st_name = 4095; // empty
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE + 0x200, "last+0x200/0x1000");
	// what cannot be read has no name, and does not get that of the function before
	static const uint32_t gone[] = { 4096, 5000, UINT32_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++) {
		one.symtab[2].st_name = gone[i];
		ck_assert_int_eq(read_symbols(0), GS_OK);
		NAMED(0, ONE + 0x200, "none");
		NAMED(0, ONE + 0x50, "last+0x50/0x100");
	}
	one.strtab[4095] = 'L'; // goes on where nothing is
	one.symtab[2].st_name = 4095;
	ck_assert_int_eq(read_symbols(0), GS_OK);
	NAMED(0, ONE + 0x200, "none");
}
END_TEST

START_TEST(many_symbols_are_found)
{
	char name[32];

	one.kallsyms->num_symtab = 1;
	one.strtab_used = 1;
	for (unsigned int i = 160; i--;) { // descending, as no table has to be sorted
		snprintf(name, sizeof(name), "f%u", i);
		lg_module_symbol(&one, name, ONE + 16 * i);
	}
	ck_assert_int_eq(read_symbols(0), GS_OK);
	ck_assert_uint_eq(symbols.count, 160);
	for (unsigned int i = 0; i < 159; i++) {
		snprintf(name, sizeof(name), "f%u+0x4/0x10", i);
		NAMED(0, ONE + 16 * i + 4, name);
	}
}
END_TEST

Suite *suite_module(void)
{
	Suite *s = suite_create("module");
	TCase *tc = tcase_create("module");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, load, finish);
	tcase_add_test(tc, modules_are_listed_with_their_text);
	tcase_add_test(tc, modules_of_all_kinds_of_kernels_are_listed);
	tcase_add_test(tc, kernel_without_modules_has_none);
	tcase_add_test(tc, types_that_tell_nothing_of_modules_give_none);
	tcase_add_test(tc, module_that_is_being_loaded_is_not_listed);
	tcase_add_test(tc, list_that_loops_has_each_module_once);
	tcase_add_test(tc, list_that_breaks_off_has_what_is_before);
	tcase_add_test(tc, head_whose_first_module_does_not_point_back_is_none);
	tcase_add_test(tc, long_list_is_cut);
	tcase_add_test(tc, text_that_cannot_be_a_modules_is_not_believed);
	tcase_add_test(tc, names_that_are_no_modules_are_not_believed);
	tcase_add_test(tc, module_on_a_page_that_is_gone_is_not_listed);
	tcase_add_test(tc, module_that_has_changed_is_not_the_same);
	tcase_add_test(tc, module_that_is_off_the_list_is_not_there);
	tcase_add_test(tc, address_has_the_symbol_below_it_up_to_the_next);
	tcase_add_test(tc, parts_of_a_module_have_their_own_symbols);
	tcase_add_test(tc, symbols_that_the_kernel_passes_over_name_nothing);
	tcase_add_test(tc, of_several_symbols_at_one_address_the_first_is_taken);
	tcase_add_test(tc, tables_that_lie_are_not_believed);
	tcase_add_test(tc, no_more_is_read_than_is_allowed);
	tcase_add_test(tc, names_without_an_end_name_nothing);
	tcase_add_test(tc, name_before_a_page_that_is_gone_is_read);
	tcase_add_test(tc, many_symbols_are_found);
	suite_add_tcase(s, tc);
	return s;
}
