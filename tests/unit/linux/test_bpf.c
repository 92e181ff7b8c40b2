/* SPDX-License-Identifier: Apache-2.0 */
/* BPF programs: their list, their symbols, and all the ways in which these can be wrong. */
#include <stdio.h>
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

#define CODE (LG_MODULE + 0x100000)
#define ONE  (CODE + 0x44) /* several share a page */
#define TWO  (CODE + 0x200)
#define NODE offsetof(struct lg_bpf_ksym, lnode)

static struct lnx_view view;
static struct lnx_bpf bpf;
static struct lnx_symbol symbol;
static struct lg_bpf_ksym *one, *two;
static uint64_t one_at, two_at;

static void load_form(const struct lg_form *form)
{
	make(form);
	one = lg_load_program(&made.g, "bpf_prog_6deef7357e7b4530_one", ONE, 0x120, &one_at);
	two = lg_load_program(&made.g, "bpf_trampoline_6442450944", TWO, 0xe00, &two_at);
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
}

static void load(void)
{
	load_form(&(struct lg_form){ .seqs = true });
}

static void read_list(void)
{
	lnx_view_init(&view, made.k, &made.g.m.guest);
	lnx_bpf_read(&view, &bpf);
}

static void expect(uint32_t count, uint64_t first, uint64_t second)
{
	read_list();
	ck_assert_uint_eq(bpf.count, count);
	if (count)
		ck_assert_uint_eq(bpf.program[0].start, first);
	if (count > 1)
		ck_assert_uint_eq(bpf.program[1].start, second);
}

static enum gs_code name_of(uint32_t i)
{
	lnx_view_init(&view, made.k, &made.g.m.guest);
	return lnx_bpf_symbol(&view, &bpf.program[i], &symbol);
}

START_TEST(programs_are_listed_and_named)
{
	expect(2, ONE, TWO);
	ck_assert_uint_eq(bpf.program[0].size, 0x120);
	ck_assert_uint_eq(bpf.program[0].address.a, one_at);
	ck_assert_int_eq(name_of(0), GS_OK);
	ck_assert_str_eq(symbol.name, "bpf_prog_6deef7357e7b4530_one");
	ck_assert_uint_eq(symbol.start, ONE);
	ck_assert_uint_eq(symbol.size, 0x120);
	ck_assert_int_eq(name_of(1), GS_OK);
	ck_assert_str_eq(symbol.name, "bpf_trampoline_6442450944");
}
END_TEST

START_TEST(programs_of_all_kinds_of_kernels_are_listed)
{
	static const struct lg_form forms[] = {
		{ .old = true },
		{ .style = 'B', .data_symbols = true },
		{ .style = 'C', .meta = true, .data_symbols = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		done();
		load_form(&forms[i]);
		expect(2, ONE, TWO);
		ck_assert_int_eq(name_of(1), GS_OK);
	}
}
END_TEST

START_TEST(kernel_without_programs_has_none)
{
	done();
	make(&(struct lg_form){ 0 });
	ck_assert_int_eq(find(NULL), GS_OK);
	expect(0, 0, 0);
	one = lg_load_program(&made.g, "late", ONE, 0x100, &one_at);
	expect(1, ONE, 0);
}
END_TEST

START_TEST(types_that_tell_nothing_of_programs_give_none)
{
	static const char *const missing[] = { "bpf_ksym", "bpf_ksym.start", "bpf_ksym.end",
					       "bpf_ksym.name", "bpf_ksym.lnode" };

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		struct typeinfo_form types = { .omit = missing[i] };

		done();
		load_form(&(struct lg_form){ .types = &types });
		expect(0, 0, 0);
	}
}
END_TEST

START_TEST(list_that_loops_or_breaks_off_has_each_program_once)
{
	static const uint64_t bad[] = {
		0, 8, 0xdead, UINT64_MAX, LG_LINEAR + 3, LG_LINEAR + (UINT64_C(1) << 40)
	};

	two->lnode.next = two_at + NODE;
	expect(2, ONE, TWO);
	two->lnode.next = one_at + NODE;
	expect(2, ONE, TWO);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		one->lnode.next = bad[i];
		expect(1, ONE, 0);
	}
}
END_TEST

START_TEST(head_whose_first_program_does_not_point_back_is_none)
{
	one->lnode.prev += 8;
	expect(0, 0, 0);
	one->lnode.prev -= 8;
	one->name[0] = '\0';
	expect(0, 0, 0);
}
END_TEST

START_TEST(long_list_is_cut)
{
	uint64_t pa = 0, last = two_at + NODE;

	for (uint32_t i = 0; i < LNX_BPF_MAX + 10; i++) {
		if (i % 16 == 0)
			pa = lg_pages(&made.g, 1);
		struct lg_bpf_ksym *p = lg_at(&made.g, pa + i % 16 * 0x100);
		_Static_assert(sizeof(*p) <= 0x100, "sixteen to a page");
		const uint64_t node = lg_linear(&made.g, pa + i % 16 * 0x100) + NODE;

		*p = *two;
		p->lnode.prev = last;
		*lg_word(&made.g, last) = node;
		last = node;
	}
	*lg_word(&made.g, last) = lg_image_va(&made.g, LG_BPF);
	read_list();
	ck_assert_uint_eq(bpf.count, LNX_BPF_MAX);
}
END_TEST

START_TEST(code_that_cannot_be_a_programs_is_not_believed)
{
	const struct {
		uint64_t start, end;
	} bad[] = {
		{ TWO, TWO },
		{ TWO, TWO - 4 },
		{ TWO + 2, TWO + 0x100 },
		{ TWO, TWO + (UINT64_C(64) << 20) + 4 },
		{ TWO, UINT64_MAX },
		{ 0, UINT64_MAX },
		{ 0x400000, 0x401000 },
		{ UINT64_MAX - 3, 0 },
		{ LG_MODULE + 0x300000, LG_MODULE + 0x301000 }, // not mapped
		{ two_at, two_at + 0x100 },			// not executable
		{ lg_symbol(&made.g, "vfs_read"), lg_symbol(&made.g, "vfs_read") + 0x100 },
		{ lg_symbol(&made.g, "_stext") - 0x1000, lg_symbol(&made.g, "_stext") + 0x1000 },
	};

	lg_map(&made.g, lg_symbol(&made.g, "_stext") - 0x1000, lg_pages(&made.g, 1), true);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		two->start = bad[i].start;
		two->end = bad[i].end;
		expect(1, ONE, 0);
	}
}
END_TEST

START_TEST(names_that_are_no_programs_are_not_believed)
{
	memset(two->name, 'x', sizeof(two->name)); // no end
	expect(1, ONE, 0);
	two->name[sizeof(two->name) - 1] = '\0';
	expect(2, ONE, TWO);
	ck_assert_int_eq(name_of(1), GS_OK);
	ck_assert_uint_eq(strlen(symbol.name), LG_BPF_NAME_SIZE - 1);
	two->name[1] = ' ';
	expect(1, ONE, 0);
	two->name[1] = '\xff';
	expect(1, ONE, 0);
	two->name[0] = '\0';
	expect(1, ONE, 0);
}
END_TEST

START_TEST(program_that_has_changed_has_no_name)
{
	read_list();
	two->name[4] = 'x';
	ck_assert_int_eq(name_of(1), GS_ENOENT);
	two->name[4] = 't';
	two->end -= 4;
	ck_assert_int_eq(name_of(1), GS_ENOENT);
	two->end += 4;
	two->start -= 4;
	ck_assert_int_eq(name_of(1), GS_ENOENT);
	two->start += 4;
	ck_assert_int_eq(name_of(1), GS_OK);
	ck_assert_int_eq(name_of(0), GS_OK);
}
END_TEST

START_TEST(program_that_is_off_the_list_has_no_name)
{
	read_list();
	one->lnode.next = lg_image_va(&made.g, LG_BPF); // as list_del_rcu() leaves it
	*lg_word(&made.g, one->lnode.next + 8) = one_at + NODE;
	*lg_word(&made.g, one->lnode.next) = one_at + NODE;
	ck_assert_int_eq(name_of(1), GS_ENOENT);
	ck_assert_int_eq(name_of(0), GS_OK);
	lg_unmap(&made.g, one_at);
	ck_assert_int_eq(name_of(0), GS_EFAULT);
}
END_TEST

Suite *suite_bpf(void)
{
	Suite *s = suite_create("bpf");
	TCase *tc = tcase_create("bpf");

	tcase_add_checked_fixture(tc, load, done);
	tcase_add_test(tc, programs_are_listed_and_named);
	tcase_add_test(tc, programs_of_all_kinds_of_kernels_are_listed);
	tcase_add_test(tc, kernel_without_programs_has_none);
	tcase_add_test(tc, types_that_tell_nothing_of_programs_give_none);
	tcase_add_test(tc, list_that_loops_or_breaks_off_has_each_program_once);
	tcase_add_test(tc, head_whose_first_program_does_not_point_back_is_none);
	tcase_add_test(tc, long_list_is_cut);
	tcase_add_test(tc, code_that_cannot_be_a_programs_is_not_believed);
	tcase_add_test(tc, names_that_are_no_programs_are_not_believed);
	tcase_add_test(tc, program_that_has_changed_has_no_name);
	tcase_add_test(tc, program_that_is_off_the_list_has_no_name);
	suite_add_tcase(s, tc);
	return s;
}
