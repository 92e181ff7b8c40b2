/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in modules and BPF programs: named when nothing else can have been there, and only then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/btlogs_code.h"
#include "introspect/stackshot/records.h"
#include "kcdata/kcdata.h"
#include "tests/unit/btlogs/suites.h"
#include "tests/unit/linux/linux_guest.h"

#define ONE	LG_MODULE
#define PROGRAM (LG_MODULE + 0x80000)

static struct linux_guest g;
static struct lnx_kernel *k;
static struct btlogs_code *code;
static struct lg_loaded one;
static struct lg_bpf_ksym *program;
static uint64_t program_at;
static struct btl_name name;

static void setup(void)
{
	struct gs_error err = { 0 };

	lg_create(&g, &(struct lg_form){ .style = 'A' });
	lg_populate(&g);
	one = lg_load_module(&g, "one", ONE);
	lg_module_symbol(&one, "one_open", ONE + 0x40);
	lg_module_symbol(&one, "one_read", ONE + 0x100);
	program = lg_load_program(&g, "bpf_prog_6deef7357e7b4530", PROGRAM, 0x400, &program_at);
	ck_assert_msg(!lnx_kernel_find(&g.m.guest, g.m.regs, g.form.vcpus ? g.form.vcpus : 2, NULL,
				       &k, &err),
		      "%s", err.text);
	code = ctl_code_create(k, &g.m.guest);
	ck_assert_ptr_nonnull(code);
}

static void teardown(void)
{
	ctl_code_destroy(code);
	lnx_kernel_destroy(k);
	lg_destroy(&g);
}

/* "name [module]" of an address, or "none". */
static const char *name_at(uint64_t address)
{
	static char text[sizeof(name.name) + sizeof(name.module) + 8];

	if (!ctl_code_name(code, address, &name))
		return "none";
	ck_assert_uint_lt(address - name.start, name.size);
	ck_assert_uint_eq(name.flags, name.module[0] ? BTL_SYMBOL_MODULE : 0);
	snprintf(text, sizeof(text), *name.module ? "%s [%s]" : "%s", name.name, name.module);
	return text;
}

#define NAMED(address, text) ck_assert_str_eq(name_at(address), text)

static void meet(uint64_t address)
{
	const uint64_t frame = address | BTL_FRAME_EXACT;

	ctl_code_meet(code, &frame, 1);
}

static bool knows(uint64_t address)
{
	const uint64_t frame = address | BTL_FRAME_EXACT;

	return ctl_code_knows(code, &frame, 1);
}

START_TEST(functions_of_image_modules_and_programs_have_names)
{
	ctl_code_look(code);
	NAMED(lg_in(&g, "vfs_read"), "vfs_read");
	NAMED(ONE + 0x50, "one_open [one]");
	NAMED(PROGRAM + 0x20, "bpf_prog_6deef7357e7b4530 [bpf]");
	NAMED(ONE + 0x1ff, "one_read [one]");
	NAMED(ONE + 0x10, "none");   // below its first symbol
	NAMED(ONE + 0x1000, "none"); // behind it
	NAMED(PROGRAM + 0x400, "none");
	NAMED(PROGRAM - 4, "none");
	NAMED(0, "none");
	NAMED(UINT64_MAX, "none");
}
END_TEST

START_TEST(what_is_gone_has_no_names)
{
	ctl_code_look(code);
	lg_unload_module(&g, &one);
	program->name[12]++;
	// whether that has been seen or not
	NAMED(ONE + 0x50, "none");
	NAMED(PROGRAM + 0x20, "none");
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(PROGRAM + 0x20, "none");
}
END_TEST

START_TEST(place_that_two_have_had_has_no_names)
{
	ctl_code_look(code);
	lg_unload_module(&g, &one);
	one = lg_load_module(&g, "two", ONE);
	lg_module_symbol(&one, "two_open", ONE);
	program->end += 8; // another one in part of its place
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(PROGRAM + 0x20, "none");
	ck_assert(knows(ONE + 0x50));
	// nothing of them is in any log any more
	ctl_code_forget(code);
	ctl_code_look(code);
	NAMED(ONE + 0x50, "two_open [two]");
	NAMED(PROGRAM + 0x20, "bpf_prog_6deef7357e7b4530 [bpf]");
}
END_TEST

START_TEST(what_comes_back_is_what_it_was)
{
	ctl_code_look(code);
	lg_unload_module(&g, &one);
	ctl_code_look(code);
	one = lg_load_module(&g, "one", ONE);
	lg_module_symbol(&one, "one_open", ONE + 0x40);
	ctl_code_look(code);
	NAMED(ONE + 0x50, "one_open [one]");
}
END_TEST

START_TEST(place_that_was_met_before_it_was_known_has_no_names)
{
	ck_assert(!knows(ONE + 0x50));
	ck_assert(knows(lg_in(&g, "vfs_read")));
	ck_assert(ctl_code_knows(code, &(uint64_t){ BTL_FRAME_PSEUDO(BTL_PSEUDO_USER) }, 1));
	meet(ONE + 0x50);
	meet(ONE + 0x50);
	meet(lg_in(&g, "vfs_read"));
	meet(UINT64_MAX & ~UINT64_C(3));
	meet(0);
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(ONE + 0x150, "none");
	NAMED(PROGRAM, "bpf_prog_6deef7357e7b4530 [bpf]");
	NAMED(lg_in(&g, "vfs_read"), "vfs_read");
}
END_TEST

/* A capture of one record of each kind. */
static void see_capture(const char *module, const char *symbol)
{
	struct ss_module_record m[] = {
		{ .start = ONE, .size = g.page },
		{ .start = PROGRAM, .size = 0x400, .flags = SS_MODULE_BPF, .name = "bpf" },
	};
	struct ss_symbol_record s[] = { { .start = ONE, .size = 8, .name = "other" },
					{ .start = PROGRAM, .size = 0x400 } };
	struct ss_long_symbol_record l = { .start = PROGRAM + 8, .size = 1, .name = "last" };
	static uint8_t buf[8192];
	struct kcd_writer w;

	strcpy(m[0].name, module);
	memcpy(m[0].build_id, one.m->build_id, sizeof(m[0].build_id));
	strcpy(s[1].name, symbol);
	enum kcd_code rc = kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0);
	rc = rc ? rc : kcd_append_array(&w, SS_RECORD_SYMBOL, 2, sizeof(s[0]), s);
	rc = rc ? rc : kcd_append_array(&w, SS_RECORD_LONG_SYMBOL, 1, sizeof(l), &l);
	rc = rc ? rc : kcd_append_array(&w, SS_RECORD_MODULE, 2, sizeof(m[0]), m);
	ck_assert_int_eq(rc, KCD_OK);
	ctl_code_see_capture(code, buf, kcd_writer_used(&w));
}

START_TEST(capture_that_agrees_makes_places_known)
{
	see_capture("one", "bpf_prog_6deef7357e7b4530");
	meet(ONE + 0x50);
	meet(PROGRAM + 8);
	NAMED(ONE + 0x50, "none"); // not seen there itself
	ctl_code_look(code);
	NAMED(ONE + 0x50, "one_open [one]");
	NAMED(PROGRAM + 0x20, "bpf_prog_6deef7357e7b4530 [bpf]");
}
END_TEST

START_TEST(capture_that_had_another_one_leaves_no_names)
{
	see_capture("once", "bpf_prog_6deef7357e7b4531");
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(PROGRAM + 0x20, "none");
}
END_TEST

START_TEST(more_places_than_are_remembered_have_no_names)
{
	for (uint64_t i = 0; i < 20000; i++)
		meet(LG_STACKS + i * 8);
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(lg_in(&g, "vfs_read"), "vfs_read");
	ctl_code_forget(code);
	ctl_code_look(code);
	NAMED(ONE + 0x50, "one_open [one]");
}
END_TEST

START_TEST(table_that_cannot_be_read_costs_names_alone)
{
	one.kallsyms->num_symtab = UINT32_MAX;
	ctl_code_look(code);
	NAMED(ONE + 0x50, "none");
	NAMED(PROGRAM + 0x20, "bpf_prog_6deef7357e7b4530 [bpf]");
	one.kallsyms->num_symtab = 3;
	lg_unmap(&g, program_at);
	NAMED(PROGRAM + 0x20, "none");
	ctl_code_look(code);
	NAMED(ONE + 0x50, "one_open [one]");
}
END_TEST

TCase *tcase_code(void)
{
	TCase *tc = tcase_create("code");

	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, functions_of_image_modules_and_programs_have_names);
	tcase_add_test(tc, what_is_gone_has_no_names);
	tcase_add_test(tc, place_that_two_have_had_has_no_names);
	tcase_add_test(tc, what_comes_back_is_what_it_was);
	tcase_add_test(tc, place_that_was_met_before_it_was_known_has_no_names);
	tcase_add_test(tc, capture_that_agrees_makes_places_known);
	tcase_add_test(tc, capture_that_had_another_one_leaves_no_names);
	tcase_add_test(tc, more_places_than_are_remembered_have_no_names);
	tcase_add_test(tc, table_that_cannot_be_read_costs_names_alone);
	return tc;
}
