/* SPDX-License-Identifier: Apache-2.0 */
/* More than one kernel in memory: the one that runs is found, or it is said that none does. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/reference.h"
#include "tests/unit/linux/image_file.h"
#include "tests/unit/linux/suites.h"

#define HALF LG_RAM_DEFAULT

/* The lower half of RAM is the old kernel's, which is whole, the upper half that of the one now. */
static struct linux_guest old, now;
static struct memory_guest both;
static uint8_t *ram;
static struct lnx_kernel *k;
static struct gs_error err;

/* Where the second kernel has its addresses. */
enum layout {
	RANDOM,		/* elsewhere, as with CONFIG_RANDOMIZE_BASE */
	SAME,		/* at the same ones, images and tasks */
	SAME_BUT_OTHERS /* ... but other tasks run */
};

/* Each maps the other's RAM, too, in the one linear map that both have. */
static void share_linear_map(void)
{
	for (uint64_t at = 0; at < HALF; at += 4096) {
		lg_map(&old, old.linear + HALF + at, LG_RAM + HALF + at, false);
		lg_map(&now, old.linear + at, LG_RAM + at, false);
	}
}

static void take_ram(void)
{
	memcpy(ram, old.ram, HALF);
	memcpy(ram + HALF, now.ram, HALF);
}

static void make(const struct lg_form *form, enum layout layout)
{
	struct lg_form second = *form;

	second.ram = LG_RAM + HALF;
	if (layout == RANDOM)
		second.voffset = UINT64_C(0xffffd5f2c3a00000) - second.ram;
	else
		second.linear = LG_LINEAR + HALF;
	lg_create(&old, form);
	lg_populate(&old);
	lg_create(&now, &second);
	lg_populate(&now);
	if (layout != RANDOM)
		share_linear_map();
	if (layout == SAME_BUT_OTHERS) // threads 101 and 102
		lg_run(&now, 0, &now.threads[4], lg_symbol(&now, "pipe_read") + 0x40);
	ram = malloc(2 * HALF);
	ck_assert_ptr_nonnull(ram);
	take_ram();
	memory_guest_init(&both, form->vcpus ? form->vcpus : 2);
	ck_assert_int_eq(memory_guest_add(&both, GPA(LG_RAM), ram, 2 * HALF), GS_OK);
	memcpy(both.regs, now.m.regs, sizeof(both.regs));
}

static void done(void)
{
	lnx_kernel_destroy(k);
	k = NULL;
	lg_destroy(&old);
	lg_destroy(&now);
	free(ram);
}

/* What a VMM tells that knows no system registers. */
static void keep_general_registers(void)
{
	for (uint32_t v = 0; v < both.guest.vcpu_count; v++) {
		struct guest_vcpu_regs *r = &both.regs[v], all = *r;

		*r = (struct guest_vcpu_regs){
			.valid = GUEST_REGS_GENERAL,
			.pc = all.pc,
			.pstate = all.pstate,
			.sp_el0 = all.sp_el0,
			.sp_el1 = all.sp_el1,
		};
		memcpy(r->x, all.x, sizeof(r->x));
	}
}

static void forget_registers(void)
{
	memset(both.regs, 0, sizeof(both.regs));
}

static enum gs_code find(const struct lnx_hints *hints)
{
	err = (struct gs_error){ 0 };
	k = NULL;
	return lnx_kernel_find(&both.guest, both.regs, both.guest.vcpu_count, hints, &k, &err);
}

static void expect_found(const struct lnx_hints *hints, const struct linux_guest *g)
{
	ck_assert_msg(find(hints) == GS_OK, "style %c: %s", now.form.style, err.text);
	const struct lnx_found *f = lnx_kernel_found(k);

	ck_assert_msg(f->symbols_at.a == g->image + g->table + g->symtab.token_table,
		      "style %c: the one at %#" PRIx64 " instead of %#" PRIx64, now.form.style,
		      f->symbols_at.a, g->image);
	ck_assert_uint_eq(lnx_kernel_info_get(k).voffset, g->voffset);
	ck_assert_uint_eq(lnx_init_task(k).a, g->init.address);
	ck_assert(lnx_kernel_is_current(k, &both.guest));
}

static void expect_not_found(const char *text)
{
	enum gs_code rc = find(NULL);

	ck_assert_msg(rc == GS_ENOENT && err.code == GS_ENOENT, "%d, %d: %s", rc, err.code,
		      err.text);
	ck_assert_msg(strstr(err.text, text), "%s", err.text);
	ck_assert_ptr_null(k);
}

/* Tables that samples meet, and tables that only a scan does. */
static const struct lg_form forms[] = {
	{ .style = 'A', .seqs = true },
	{ .style = 'A', .many = true },
	{ .style = 'B', .many = true },
	{ .style = 'C', .many = true, .data_symbols = true },
	{ .style = 'A', .old = true },
	{ .style = 'B', .vcpus = 4, .data_symbols = true },
	{ .style = 'C', .data_symbols = true },
};

#define EVERY_FORM                                              \
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) \
		for (int layout = RANDOM; layout <= SAME_BUT_OTHERS; layout++)

START_TEST(without_anything_to_tell_them_apart_the_first_is_taken)
{
	EVERY_FORM
	{
		make(&forms[form], (enum layout)layout);
		forget_registers();
		expect_found(NULL, &old);
		ck_assert_int_eq(lnx_kernel_found(k)->evidence, 0);
		done();
	}
}
END_TEST

START_TEST(system_registers_tell_the_one_that_runs)
{
	EVERY_FORM
	{
		make(&forms[form], (enum layout)layout);
		expect_found(NULL, &now);
		ck_assert_int_eq(lnx_kernel_found(k)->symbols_by, LNX_BY_REGISTERS);
		ck_assert_int_eq(lnx_kernel_found(k)->place_by, LNX_BY_REGISTERS);
		ck_assert_uint_eq(lnx_kernel_found(k)->evidence, both.guest.vcpu_count);
		done();
	}
}
END_TEST

START_TEST(system_registers_tell_the_one_that_runs_from_user_mode)
{
	EVERY_FORM
	{
		for (int kpti = 0; kpti < 2; kpti++) {
			make(&forms[form], (enum layout)layout);
			for (uint32_t v = 0; v < both.guest.vcpu_count; v++)
				lg_run_user(&now, v, &now.threads[v % 2 ? 4 : 3], kpti);
			take_ram();
			memcpy(both.regs, now.m.regs, sizeof(both.regs));
			expect_found(NULL, &now);
			done();
		}
	}
}
END_TEST

// The vectors are not known: the old one is met first, and the page tables speak against it.
START_TEST(page_tables_alone_tell_the_one_that_runs)
{
	EVERY_FORM
	{
		make(&forms[form], (enum layout)layout);
		for (uint32_t v = 0; v < both.guest.vcpu_count; v++)
			both.regs[v].valid &= ~(uint32_t)GUEST_REGS_VBAR;
		expect_found(NULL, &now);
		ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
		done();
	}
}
END_TEST

START_TEST(general_registers_tell_the_one_that_runs)
{
	EVERY_FORM
	{
		if (layout == SAME)
			continue; // not even the stacks differ
		make(&forms[form], (enum layout)layout);
		keep_general_registers();
		expect_found(NULL, &now);
		ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
		ck_assert_int_gt(lnx_kernel_found(k)->evidence, 0);
		done();
	}
}
END_TEST

// Whatever numbers the VMM gives its vCPUs.
START_TEST(vcpus_need_not_be_numbered_as_linux_numbers_them)
{
	for (int layout = RANDOM; layout <= SAME_BUT_OTHERS; layout += SAME_BUT_OTHERS) {
		make(&forms[2], (enum layout)layout);
		keep_general_registers();
		struct guest_vcpu_regs first = both.regs[0];
		both.regs[0] = both.regs[1];
		both.regs[1] = first;
		expect_found(NULL, &now);
		done();
	}
}
END_TEST

// An idle guest: the stacks of idle tasks are at the same addresses in both, or are not.
START_TEST(idle_vcpus_tell_kernels_at_different_addresses)
{
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		make(&forms[form], RANDOM);
		lg_run(&now, 0, &now.init, lg_symbol(&now, "cpu_do_idle") + 8);
		take_ram();
		memcpy(both.regs, now.m.regs, sizeof(both.regs));
		keep_general_registers();
		expect_found(NULL, &now);
		ck_assert_uint_eq(lnx_kernel_found(k)->evidence, both.guest.vcpu_count);
		done();
	}
}
END_TEST

// More than that there is not to be known: no second one is looked for.
START_TEST(likely_kernel_ends_the_search)
{
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		make(&forms[form], SAME);
		lg_run(&old, 0, &old.init, lg_symbol(&old, "cpu_do_idle") + 8);
		lg_run(&now, 0, &now.init, lg_symbol(&now, "cpu_do_idle") + 8);
		take_ram();
		memcpy(both.regs, now.m.regs, sizeof(both.regs));
		keep_general_registers();
		expect_found(NULL, &old);
		ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 1);
		done();
	}
}
END_TEST

// ... then one vCPU more that agrees decides.
START_TEST(kernel_that_more_vcpus_agree_with_is_taken)
{
	make(&forms[2], SAME);
	// all are idle now; the old one had a process on its first CPU
	lg_run(&now, 0, &now.init, lg_symbol(&now, "cpu_do_idle") + 8);
	take_ram();
	memcpy(both.regs, now.m.regs, sizeof(both.regs));
	keep_general_registers();
	expect_found(NULL, &now);
	ck_assert_uint_eq(lnx_kernel_found(k)->evidence, 2);
	ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
	done();
}
END_TEST

// Stacks of interrupts say nothing, nor does a vCPU in user mode whose page tables are not known.
START_TEST(vcpus_that_say_nothing_speak_against_none)
{
	make(&forms[2], RANDOM);
	keep_general_registers();
	both.regs[0].sp_el1 = now.cpu[0].irq_stack + 0x1000;
	both.regs[1].pstate = 0;
	both.regs[1].pc = 0xaaaab0001234;
	expect_found(NULL, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->evidence, 0);
	lnx_kernel_destroy(k);
	both.regs[0] = both.regs[1];
	expect_found(NULL, &old); // the first
	done();
}
END_TEST

// What nothing contradicts is not worth a scan of all memory for another.
START_TEST(kernel_that_nothing_contradicts_is_not_scanned_beyond)
{
	make(&forms[2], RANDOM);
	keep_general_registers();
	for (uint32_t v = 0; v < 2; v++)
		both.regs[v].sp_el1 = now.cpu[v].irq_stack + 0x1000;
	memset(ram, 0, HALF);
	memcpy(ram + 0x100000, now.symtab.data + now.symtab.token_table,
	       now.symtab.token_index + 512 - now.symtab.token_table);
	expect_found(NULL, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->evidence, 0);
	// the beginning of a table, met within the reach of the sample, and no other
	ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
	done();
}
END_TEST

// A call of EFI's runtime services has its code at low addresses, and the stack of its caller.
START_TEST(vcpu_in_runtime_services_of_efi_may_run_the_kernel)
{
	static const struct lg_form one = { .style = 'B', .many = true, .vcpus = 1 };

	for (int layout = RANDOM; layout <= SAME_BUT_OTHERS; layout += SAME_BUT_OTHERS) {
		make(&one, (enum layout)layout);
		keep_general_registers();
		both.regs[0].pc = 0x20001234;
		memset(ram, 0, HALF);
		expect_found(NULL, &now);
		ck_assert_int_eq(lnx_kernel_found(k)->evidence, 1);
		done();
	}
}
END_TEST

// Without run queues the CPUs' own tasks are not known: SP_EL0 has to do.
START_TEST(kernel_without_known_run_queues_is_told_by_its_current_tasks)
{
	static const struct typeinfo_form types = { .omit = "rq" };
	static const struct lg_form form = { .style = 'B', .many = true, .types = &types };

	make(&form, RANDOM);
	keep_general_registers();
	expect_found(NULL, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->evidence, 2);
	ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
	done();
	// a process proves it, an idle task does not
	for (int idle = 0; idle < 2; idle++) {
		make(&form, SAME);
		if (idle)
			lg_run(&now, 0, &now.init, lg_symbol(&now, "cpu_do_idle") + 8);
		take_ram();
		memcpy(both.regs, now.m.regs, sizeof(both.regs));
		keep_general_registers();
		both.regs[1].sp_el1 = now.cpu[1].irq_stack + 0x1000;
		expect_found(NULL, &old);
		ck_assert_int_eq(lnx_kernel_found(k)->evidence, 1);
		ck_assert_uint_eq(lnx_kernel_found(k)->candidates, idle ? 2 : 1);
		done();
	}
}
END_TEST

START_TEST(one_vcpu_that_agrees_outweighs_others_that_run_something_else)
{
	make(&forms[5], RANDOM);
	for (uint32_t v = 1; v < 4; v++) { // in firmware, or never started
		both.regs[v].sctlr_el1 = 0;
		both.regs[v].pc = 0x7e001000;
		both.regs[v].sp_el1 = 0x7e100000;
	}
	expect_found(NULL, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->evidence, 1 - 3);
	lnx_kernel_destroy(k);
	keep_general_registers();
	expect_found(NULL, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->evidence, 1 - 3);
	done();
}
END_TEST

START_TEST(vmcoreinfo_alone_tells_which_one_is_meant)
{
	EVERY_FORM
	{
		make(&forms[form], (enum layout)layout);
		struct lnx_hints hints = lg_vmcoreinfo(&now, NULL);
		forget_registers();
		expect_found(&hints, &now);
		ck_assert_int_eq(lnx_kernel_found(k)->symbols_by, LNX_BY_VMCOREINFO);
		ck_assert_int_eq(lnx_kernel_found(k)->place_by, LNX_BY_VMCOREINFO);
		lnx_kernel_destroy(k);
		hints = lg_vmcoreinfo(&old, NULL);
		expect_found(&hints, &old);
		done();
	}
}
END_TEST

// ... also when an image that was given is met in the old one only.
START_TEST(vmcoreinfo_outweighs_an_image_that_is_met_first)
{
	static const struct lg_form form = { .style = 'B', .many = true };
	struct lnx_reference *reference;
	size_t size;

	make(&form, RANDOM);
	uint8_t *image = image_make(&now, 0, &size);
	struct image_file f = image_file_make(image, size);
	ck_assert_msg(lnx_reference_open(f.path, &reference, &err) == GS_OK, "%s", err.text);
	image_file_close(&f);
	struct lnx_hints hints = lg_vmcoreinfo(&now, NULL);
	hints.reference = reference;
	forget_registers();
	ck_assert_msg(find(&hints) == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_kernel_found(k)->symbols_by, LNX_BY_REFERENCE);
	ck_assert_uint_eq(lnx_kernel_info_get(k).voffset, now.voffset);
	ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
	lnx_kernel_destroy(k);
	// half of the samples are where the new one was written over
	for (size_t i = 0; i < 4; i++)
		reference->sample[i] = LG_BANNER;
	memset(ram + HALF + (now.image - now.ram_start) + LG_BANNER, 0xee, LNX_SAMPLE_BYTES);
	expect_found(&hints, &now);
	ck_assert_int_eq(lnx_kernel_found(k)->symbols_by, LNX_BY_VMCOREINFO);
	lnx_reference_destroy(reference);
	free(image);
	done();
}
END_TEST

// The table that VMCOREINFO leads to is lost: the other kernel is not the one that is meant.
START_TEST(old_kernel_is_only_taken_when_nothing_speaks_against_it)
{
	make(&forms[2], RANDOM);
	memset(ram + HALF + (now.image - now.ram_start) + now.table, 0, now.symtab.size);
	expect_not_found("a kernel is in guest memory (6.1.0-made-up), but the vCPUs run something "
			 "else: firmware, early boot, or a kernel that was not found");
	keep_general_registers();
	expect_not_found("but the vCPUs run something else");
	forget_registers();
	expect_found(NULL, &old);
	done();
}
END_TEST

// What the vCPUs run is named, not what they do not run.
START_TEST(kernel_that_runs_without_types_is_not_passed_over)
{
	make(&forms[2], RANDOM);
	memset(ram + HALF + (now.image - now.ram_start) + LG_BTF, 0, 24);
	expect_not_found("CONFIG_DEBUG_INFO_BTF");
	done();
}
END_TEST

/* A vCPU in firmware: EL1, its own page tables below, or none that are known. */
static void run_firmware(uint32_t vcpu, bool system_registers)
{
	both.regs[vcpu] = (struct guest_vcpu_regs){
		.valid = system_registers ? GUEST_REGS_ALL : GUEST_REGS_GENERAL,
		.state = GUEST_VCPU_ON,
		.pc = 0x7e001000 + 0x100 * vcpu,
		.pstate = 0x3c5,
		.sp_el1 = 0x7e100000,
		.x = { [29] = 0x7e100010, [30] = 0x7e001004 },
		.ttbr0_el1 = 0x7e000000,
		.tcr_el1 = 0x80803520, // EPD1
		.sctlr_el1 = 0x30d0198d,
		.vbar_el1 = 0x7e002000,
	};
}

START_TEST(kernel_that_is_left_over_under_firmware_does_not_run)
{
	EVERY_FORM
	{
		for (int system = 0; system < 2; system++) {
			make(&forms[form], (enum layout)layout);
			for (uint32_t v = 0; v < both.guest.vcpu_count; v++)
				run_firmware(v, system);
			expect_not_found("a kernel is in guest memory (6.1.0-made-up), but the "
					 "vCPUs run something else: firmware, early boot");
			done();
		}
	}
}
END_TEST

// Of several vCPUs only the first runs in firmware.
START_TEST(vcpus_that_were_never_started_do_not_hide_firmware)
{
	make(&forms[5], RANDOM);
	forget_registers();
	run_firmware(0, true);
	for (uint32_t v = 1; v < 4; v++)
		both.regs[v].valid = GUEST_REGS_ALL, both.regs[v].pstate = 0x3c5;
	expect_not_found("but the vCPUs run something else");
	for (uint32_t v = 1; v < 4; v++)
		both.regs[v].state = GUEST_VCPU_OFF;
	expect_not_found("but the vCPUs run something else");
	done();
}
END_TEST

/* --- files ------------------------------------------------------------------------------------ */

/*
 * The image as it is on disk, in memory below the kernel: in the page cache, or loaded for kexec. Its
 * base is 0, or with RELR the address at which it was linked.
 */
static void put_file(uint64_t base)
{
	uint8_t *file = ram + 0x200000;

	memcpy(file, now.ram + (now.image - now.ram_start), now.image_size);
	memset(file + (now.swapper - now.image), 0, 4096);
	if (now.form.style != 'C')
		memcpy(file + now.table + now.symtab.base, &base, sizeof(base));
}

static void make_file(const struct lg_form *form, uint64_t base)
{
	make(form, RANDOM);
	memset(ram, 0, HALF);
	// as any memory it is in the linear map
	for (uint64_t at = 0; at < HALF; at += 4096)
		lg_map(&now, now.linear + HALF + at, LG_RAM + at, false);
	take_ram();
	memset(ram, 0, HALF);
	put_file(base);
}

START_TEST(image_that_lies_in_memory_as_a_file_is_passed_over)
{
	static const uint64_t bases[] = { 0, UINT64_C(0xffff800008010000),
					  UINT64_C(0xffff800080000000) };

	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		for (size_t base = 0; base < ARRAY_SIZE(bases); base++) {
			make_file(&forms[form], bases[base]);
			expect_found(NULL, &now);
			lnx_kernel_destroy(k);
			keep_general_registers();
			expect_found(NULL, &now);
			lnx_kernel_destroy(k);
			forget_registers();
			expect_found(NULL, &now);
			ck_assert_uint_eq(lnx_kernel_found(k)->candidates, 2);
			done();
		}
	}
}
END_TEST

// Linked at the very addresses at which the kernel runs, as without CONFIG_RANDOMIZE_BASE.
START_TEST(file_with_the_addresses_of_the_kernel_is_passed_over)
{
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		make_file(&forms[form], 0);
		put_file(now.symbols[0].address);
		expect_found(NULL, &now);
		lnx_kernel_destroy(k);
		forget_registers();
		expect_found(NULL, &now);
		done();
	}
}
END_TEST

START_TEST(file_alone_is_no_kernel)
{
	for (size_t form = 0; form < ARRAY_SIZE(forms); form++) {
		make_file(&forms[form], 0);
		memset(ram + HALF, 0, HALF);
		enum gs_code rc = find(NULL);
		if (now.form.style == 'C') {
			ck_assert_int_eq(rc, GS_ENOENT);
			ck_assert_ptr_nonnull(strstr(err.text, "no page table leads to it"));
		} else {
			ck_assert_int_eq(rc, GS_EMALFORMED);
			ck_assert_ptr_nonnull(strstr(err.text, "no encoding of their addresses"));
		}
		done();
	}
}
END_TEST

// More things that look like tables than are looked at: a kernel that nothing contradicts is enough.
START_TEST(copies_beyond_number_do_not_hide_a_kernel_that_may_be_the_one)
{
	make(&forms[0], RANDOM);
	keep_general_registers();
	for (uint32_t v = 0; v < 2; v++)
		both.regs[v].sp_el1 = now.cpu[v].irq_stack + 0x1000;
	memset(ram, 0, HALF);
	for (uint64_t at = 0; at < 40; at++) // without addresses
		memcpy(ram + HALF + 0x200000 + at * 0x8000,
		       now.symtab.data + now.symtab.token_table,
		       now.symtab.token_index + 512 - now.symtab.token_table);
	expect_found(NULL, &now);
	done();
}
END_TEST

Suite *suite_several(void)
{
	Suite *s = suite_create("several");
	TCase *tc = tcase_create("several");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, without_anything_to_tell_them_apart_the_first_is_taken);
	tcase_add_test(tc, system_registers_tell_the_one_that_runs);
	tcase_add_test(tc, system_registers_tell_the_one_that_runs_from_user_mode);
	tcase_add_test(tc, page_tables_alone_tell_the_one_that_runs);
	tcase_add_test(tc, general_registers_tell_the_one_that_runs);
	tcase_add_test(tc, vcpus_need_not_be_numbered_as_linux_numbers_them);
	tcase_add_test(tc, idle_vcpus_tell_kernels_at_different_addresses);
	tcase_add_test(tc, likely_kernel_ends_the_search);
	tcase_add_test(tc, kernel_that_more_vcpus_agree_with_is_taken);
	tcase_add_test(tc, vcpus_that_say_nothing_speak_against_none);
	tcase_add_test(tc, kernel_that_nothing_contradicts_is_not_scanned_beyond);
	tcase_add_test(tc, vcpu_in_runtime_services_of_efi_may_run_the_kernel);
	tcase_add_test(tc, kernel_without_known_run_queues_is_told_by_its_current_tasks);
	tcase_add_test(tc, one_vcpu_that_agrees_outweighs_others_that_run_something_else);
	tcase_add_test(tc, vmcoreinfo_outweighs_an_image_that_is_met_first);
	tcase_add_test(tc, kernel_that_runs_without_types_is_not_passed_over);
	tcase_add_test(tc, vmcoreinfo_alone_tells_which_one_is_meant);
	tcase_add_test(tc, old_kernel_is_only_taken_when_nothing_speaks_against_it);
	tcase_add_test(tc, kernel_that_is_left_over_under_firmware_does_not_run);
	tcase_add_test(tc, vcpus_that_were_never_started_do_not_hide_firmware);
	tcase_add_test(tc, image_that_lies_in_memory_as_a_file_is_passed_over);
	tcase_add_test(tc, file_with_the_addresses_of_the_kernel_is_passed_over);
	tcase_add_test(tc, file_alone_is_no_kernel);
	tcase_add_test(tc, copies_beyond_number_do_not_hide_a_kernel_that_may_be_the_one);
	suite_add_tcase(s, tc);
	return s;
}
