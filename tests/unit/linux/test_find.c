/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the kernel of a made-up guest, and not finding it. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/linux/linux_guest.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"

static struct linux_guest g;
static struct lnx_kernel *k;
static struct gs_error err;

static enum gs_code find(void)
{
	err = (struct gs_error){ 0 };
	k = NULL;
	return lnx_kernel_find(&g.m.guest, g.m.regs, g.m.guest.vcpu_count, NULL, &k, &err);
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

static void expect_symbols(void)
{
	struct lnx_symbol s;
	gva_t at;

	for (uint32_t i = 0; i < g.symbol_count; i++) {
		ck_assert_int_eq(lnx_symbol_find(k, g.symbols[i].name, &at), GS_OK);
		ck_assert_uint_eq(at.a, g.symbols[i].address);
	}
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_in(&g, "vfs_read")), &s), GS_OK);
	ck_assert_str_eq(s.name, "vfs_read");
	ck_assert_uint_eq(s.start, lg_symbol(&g, "vfs_read"));
	ck_assert_uint_eq(s.size, 0x200);
	ck_assert_uint_eq(s.flags, 0);
	ck_assert_int_eq(s.type, 'T');
}

/* Lists, current tasks and idle tasks must all be reachable. */
static void expect_roots(void)
{
	struct lnx_view v;
	gva_t tasks[16], task;
	uint32_t n;

	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
	ck_assert_int_eq(lnx_processes_collect(&v, tasks, 16, &n), GS_OK);
	ck_assert_uint_eq(n, 4);
	for (uint32_t i = 0; i < g.form.vcpus; i++) {
		ck_assert_int_eq(lnx_idle_task(&v, g.cpu[i].offset, &task), GS_OK);
		ck_assert_uint_eq(task.a, g.cpu[i].idle.address);
	}
	ck_assert_int_eq(lnx_vcpu_current(&v, &g.m.regs[0], &task), GS_OK);
	ck_assert_uint_eq(task.a, g.threads[3].address); // 101
}

static void expect_found(void)
{
	struct lnx_kernel_info info;

	ck_assert_msg(find() == GS_OK, "%s", err.text);
	info = lnx_kernel_info_get(k);
	ck_assert_uint_eq(info.voffset, g.voffset);
	ck_assert_uint_eq(info.text, lg_symbol(&g, "_stext"));
	ck_assert_uint_eq(info.page_size, 4096);
	ck_assert_uint_eq(info.va_bits, 48);
	ck_assert_uint_eq(info.symbols, g.symbol_count);
	ck_assert_int_eq(info.kallsyms_style, g.form.style);
	ck_assert_str_eq(info.release, "6.1.0-made-up");
	ck_assert_str_eq(lnx_kernel_banner(k),
			 "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP");
	ck_assert(lnx_kernel_is_current(k, &g.m.guest));
	expect_symbols();
	expect_roots();
}

static const struct lg_form forms[] = {
	{ .style = 'A', .old = true },
	{ .style = 'A', .seqs = true },
	{ .style = 'B', .seqs = true, .data_symbols = true },
	{ .style = 'C', .data_symbols = true, .meta = true },
	{ .style = 'A', .vcpus = 1 },
	{ .style = 'B', .vcpus = 8 },
	{ .style = 'C', .vcpus = 3 },
};

START_TEST(kernels_of_every_style_are_found)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		expect_found();
		done();
	}
}
END_TEST

// S10: whatever the slide; the image's highest and lowest places included.
START_TEST(kernel_is_found_wherever_it_was_put)
{
	static const uint64_t images[] = {
		UINT64_C(0xffff800008000000), UINT64_C(0xffff800080000000),
		UINT64_C(0xffffffffe0000000), UINT64_C(0xffff812345670000),
		UINT64_C(0xffffd5f2c3a10000),
	};
	uint64_t seed = 3;

	for (size_t i = 0; i < 20; i++) {
		struct lg_form form = forms[i % 4];
		uint64_t image =
			i < ARRAY_SIZE(images)
				? images[i]
				: UINT64_C(0xffffa00000000000) + (prng_below(&seed, 1 << 20) << 16);

		form.voffset = image - LG_IMAGE;
		make(&form);
		expect_found();
		done();
	}
}
END_TEST

// M07: a stop with all vCPUs in user mode, where TTBR1 is the trampoline's table.
START_TEST(kernel_is_found_from_user_mode_with_kpti)
{
	for (size_t i = 0; i < 4; i++) {
		make(&forms[i]);
		for (uint32_t v = 0; v < 2; v++)
			lg_run_user(&g, v, &g.threads[v ? 4 : 3], true);
		expect_found();
		done();
	}
}
END_TEST

START_TEST(kernel_is_found_when_one_page_directory_is_missing)
{
	// without SW_TTBR0_PAN the trampoline's table is one page before
	make(&forms[1]);
	for (uint32_t v = 0; v < 2; v++) {
		lg_run_user(&g, v, &g.threads[v ? 4 : 3], true);
		g.m.regs[v].ttbr1_el1 += 4096;
	}
	expect_found();
	done();
}
END_TEST

START_TEST(kernel_is_found_from_user_mode_without_kpti)
{
	for (size_t i = 0; i < 4; i++) {
		make(&forms[i]);
		for (uint32_t v = 0; v < 2; v++)
			lg_run_user(&g, v, &g.threads[v ? 4 : 3], false);
		expect_found();
		done();
	}
}
END_TEST

START_TEST(user_stack_pointer_in_the_kernel_falls_back_to_the_entry_task)
{
	static const uint64_t pointers[] = {
		0xffffc0001230, 0, 8, UINT64_C(0xffff000000000001), UINT64_C(0xffff000000000000),
		UINT64_MAX - 7
	};

	for (size_t i = 0; i < ARRAY_SIZE(pointers); i++) {
		make(&forms[i % 2]);
		g.m.regs[0].sp_el0 = pointers[i];
		expect_found();
		done();
	}
}
END_TEST

START_TEST(table_of_another_vcpu_serves_when_the_first_has_none)
{
	make(&(struct lg_form){ .vcpus = 4 });
	g.m.regs[0].state = GUEST_VCPU_OFF;
	g.m.regs[1].valid &= ~(uint32_t)GUEST_REGS_MMU;
	g.m.regs[2].sctlr_el1 &= ~UINT64_C(1);
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
	done();
}
END_TEST

static void expect_not_found(enum gs_code code, const char *reason)
{
	ck_assert_int_eq(find(), code);
	ck_assert_msg(strstr(err.text, reason), "%s", err.text);
	ck_assert_ptr_null(k);
}

// S09
START_TEST(guest_without_a_symbol_table_says_so)
{
	make(&(struct lg_form){ .no_table = true });
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

/* Early boot: the image is there, its page tables are not. */
static void forget_page_table(void)
{
	memset(lg_at(&g, g.swapper), 0, 4096);
}

START_TEST(mmu_that_is_off_says_so)
{
	for (size_t i = 0; i < 4; i++) {
		make(&forms[i]);
		for (uint32_t v = 0; v < 2; v++)
			g.m.regs[v].sctlr_el1 = 0x30d00980;
		forget_page_table();
		expect_not_found(GS_ENOENT, "no page table leads to it (MMU still off?)");
		done();
	}
}
END_TEST

START_TEST(page_table_that_does_not_map_the_image_says_so)
{
	make(&forms[1]);
	for (uint32_t v = 0; v < 2; v++)
		g.m.regs[v].ttbr1_el1 = lg_pages(&g, 3);
	forget_page_table();
	expect_not_found(GS_ENOENT, "no page table leads to it");
	done();
}
END_TEST

// A source that knows no system registers: the page table is in the image.
START_TEST(kernel_is_found_without_registers)
{
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		make(&forms[i]);
		memset(g.m.regs, 0, sizeof(g.m.regs));
		ck_assert_msg(find() == GS_OK, "%s", err.text);
		ck_assert_uint_eq(lnx_kernel_info_get(k).voffset, g.voffset);
		ck_assert_uint_eq(lnx_kernel_info_get(k).va_bits, 48);
		ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
		expect_symbols();
		done();
	}
}
END_TEST

START_TEST(no_registers_and_no_page_table_say_so)
{
	make(&forms[1]);
	memset(g.m.regs, 0, sizeof(g.m.regs));
	forget_page_table();
	expect_not_found(GS_ENOENT, "no page table leads to it");
	g.m.guest.vcpu_count = 0;
	expect_not_found(GS_ENOENT, "no page table leads to it");
	done();
}
END_TEST

START_TEST(kernel_without_types_says_so)
{
	make(&(struct lg_form){ .no_types = true });
	expect_not_found(GS_ENOENT, "CONFIG_DEBUG_INFO_BTF");
	done();
}
END_TEST

START_TEST(kernel_whose_types_lack_a_member_names_it)
{
	static const struct typeinfo_form types = { .omit = "task_struct.signal" };

	make(&(struct lg_form){ .types = &types });
	expect_not_found(GS_ENOENT, "task_struct.signal");
	done();
}
END_TEST

START_TEST(kernel_with_broken_types_says_so)
{
	make(&forms[1]);
	memset(lg_image(&g, LG_BTF + 24), 0xff, 64);
	expect_not_found(GS_EMALFORMED, "type information is broken");
	done();
}
END_TEST

// The kernel's own copy of the header, with other bytes behind it.
START_TEST(false_header_of_types_before_the_real_one_is_passed_over)
{
	make(&forms[1]);
	memcpy(lg_image(&g, LG_BTF - 0x1000), lg_image(&g, LG_BTF), 24);
	memset(lg_image(&g, LG_BTF - 0x1000 + 24), 0xa5, 0x200);
	expect_found();
	done();
}
END_TEST

START_TEST(types_that_reach_out_of_the_image_are_not_believed)
{
	uint32_t len[2] = { UINT32_C(64) << 20, UINT32_C(64) << 20 };

	make(&forms[1]);
	memcpy(lg_image(&g, LG_BTF + 12), len, sizeof(len));
	expect_not_found(GS_ENOENT, "CONFIG_DEBUG_INFO_BTF");
	done();
}
END_TEST

START_TEST(kernel_without_a_banner_has_an_empty_one)
{
	make(&(struct lg_form){ .no_banner = true });
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	ck_assert_str_eq(lnx_kernel_banner(k), "");
	ck_assert_str_eq(lnx_kernel_info_get(k).release, "");
	done();
}
END_TEST

START_TEST(banner_without_an_end_is_cut)
{
	make(&forms[1]);
	memset((char *)lg_image(&g, LG_BANNER) + 14, '7', 1000);
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	ck_assert_uint_eq(strlen(lnx_kernel_banner(k)), LNX_BANNER_MAX - 1);
	ck_assert_uint_eq(strlen(lnx_kernel_info_get(k).release), 64);
	done();
}
END_TEST

START_TEST(ram_of_zeros_has_no_kernel)
{
	make(&forms[1]);
	memset(g.ram, 0, g.ram_size);
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

START_TEST(ram_of_noise_has_no_kernel)
{
	uint64_t seed = 11;

	make(&forms[1]);
	for (size_t i = 0; i + 8 <= g.ram_size; i += 8) {
		uint64_t noise = prng(&seed);

		memcpy(g.ram + i, &noise, 8);
	}
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

START_TEST(table_without_the_ends_of_text_is_malformed)
{
	static const char *const ends[] = { "_stext", "_etext", "_sinittext", "_einittext" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct symtab_form form = { .style = 'A' };

		make(&(struct lg_form){ .style = 'A' });
		symtab_free(&g.symtab);
		for (uint32_t s = 0; s < g.symbol_count; s++)
			if (strcmp(g.symbols[s].name, ends[i]) == 0)
				g.symbols[s].name = "another";
		g.symtab = symtab_make(g.symbols, g.symbol_count, &form);
		memcpy(lg_image(&g, LG_KALLSYMS), g.symtab.data, g.symtab.size);
		expect_not_found(GS_EMALFORMED, "lacks the ends of the kernel's text");
		done();
	}
}
END_TEST

START_TEST(kernel_before_its_first_task_says_so)
{
	make(&forms[1]);
	for (uint32_t v = 0; v < 2; v++) {
		g.m.regs[v].sp_el0 = 0;
		memset(g.cpu[v].bytes, 0, LG_PERCPU_SIZE);
	}
	expect_not_found(GS_ENOENT, "no vCPU executes a task of it");
	done();
}
END_TEST

START_TEST(init_task_is_found_from_the_idle_task_of_another_cpu)
{
	make(&forms[1]);
	// swapper/1 is on no list: the way leads through its parent
	g.m.regs[0].state = GUEST_VCPU_OFF;
	g.cpu[1].idle.task->real_parent = g.threads[0].address;
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	ck_assert_uint_eq(lnx_init_task(k).a, g.init.address);
	done();
}
END_TEST

START_TEST(init_task_is_not_believed_when_its_neighbours_do_not_point_back)
{
	make(&forms[2]); // with a symbol for it
	g.threads[0].task->tasks.prev = g.threads[1].address;
	expect_not_found(GS_ENOENT, "no vCPU executes a task of it");
	done();
}
END_TEST

START_TEST(ring_of_tasks_without_init_task_ends)
{
	make(&forms[1]);
	// 1 -> 2 -> 100 -> 2 …: neither comes back to where it began nor to init_task
	g.threads[2].task->tasks.next = g.threads[1].address + offsetof(struct lg_task, tasks);
	g.threads[5].task->tasks.next = g.threads[1].address + offsetof(struct lg_task, tasks);
	g.init.task->tasks.next = g.init.task->tasks.prev = 0;
	expect_not_found(GS_ENOENT, "no vCPU executes a task of it");
	done();
}
END_TEST

// T10, S20: a task pointer in a register's place is not taken for a list.
START_TEST(run_queues_come_from_code_when_types_do_not_say)
{
	make(&forms[0]);
	expect_found();
	// neither of the two addresses in idle_task() works now
	lnx_kernel_destroy(k);
	for (uint32_t v = 0; v < 2; v++)
		memset(g.cpu[v].bytes + LG_PERCPU_RUNQUEUES, 0, sizeof(struct lg_rq));
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	struct lnx_view v;
	gva_t task;
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_idle_task(&v, g.cpu[0].offset, &task), GS_ENOENT);
	done();
}
END_TEST

START_TEST(kernel_that_was_replaced_is_not_current)
{
	make(&forms[1]);
	ck_assert_int_eq(find(), GS_OK);
	ck_assert(lnx_kernel_is_current(k, &g.m.guest));
	uint8_t *proof = lg_image(&g, LG_KALLSYMS + g.symtab.token_table);
	proof[255] ^= 1;
	ck_assert(!lnx_kernel_is_current(k, &g.m.guest));
	proof[255] ^= 1;
	ck_assert(lnx_kernel_is_current(k, &g.m.guest));
	// the same build at another virtual address
	uint64_t va = lg_image_va(&g, LG_KALLSYMS + g.symtab.token_table);
	lg_unmap(&g, va);
	ck_assert(!lnx_kernel_is_current(k, &g.m.guest));
	lg_map(&g, va, LG_IMAGE, false);
	ck_assert(!lnx_kernel_is_current(k, &g.m.guest));
	done();
}
END_TEST

START_TEST(symbols_of_addresses_are_those_of_the_kernel_itself)
{
	static struct lnx_symbol s;

	make(&forms[1]);
	ck_assert_int_eq(find(), GS_OK);
	// of several at one address the first
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "__switch_to")), &s), GS_OK);
	ck_assert_str_eq(s.name, "__sched_text_start");
	ck_assert_uint_eq(s.flags, LNX_SYMBOL_SCHED);
	ck_assert_uint_eq(s.size, 0x200);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_in(&g, "_raw_spin_lock")), &s), GS_OK);
	ck_assert_uint_eq(s.flags, LNX_SYMBOL_SCHED);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "process_timeout") - 1), &s), GS_OK);
	ck_assert_str_eq(s.name, "__lock_text_end");
	ck_assert_uint_eq(s.flags, 0);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "_etext") - 1), &s), GS_OK);
	ck_assert_str_eq(s.name, "tramp_vectors");
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "_etext")), &s), GS_ENOENT);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "_stext") - 1), &s), GS_ENOENT);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "_einittext") - 1), &s), GS_OK);
	ck_assert_str_eq(s.name, "start_kernel");
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_symbol(&g, "_einittext")), &s), GS_ENOENT);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(0), &s), GS_ENOENT);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(UINT64_MAX), &s), GS_ENOENT);
	done();
}
END_TEST

START_TEST(text_that_is_mapped_twice_has_its_names_in_both_places)
{
	static struct lnx_symbol s;
	struct lnx_view v;

	make(&forms[1]);
	ck_assert_int_eq(find(), GS_OK);
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(LG_TRAMPOLINE + 0x481), &s), GS_ENOENT);
	ck_assert_int_eq(lnx_symbol_at_alias(&v, GVA(LG_TRAMPOLINE + 0x481), &s), GS_OK);
	ck_assert_str_eq(s.name, "tramp_vectors");
	ck_assert_uint_eq(s.start, LG_TRAMPOLINE);
	ck_assert_uint_eq(s.size, lg_symbol(&g, "_etext") - lg_symbol(&g, "tramp_vectors"));
	// the image itself is no alias, nor is what cannot be executed
	const uint64_t others[] = { lg_symbol(&g, "tramp_vectors"),
				    lg_symbol(&g, "_etext"),
				    lg_linear(&g, g.image + LG_TRAMP_TEXT),
				    LG_MODULE,
				    LG_TRAMPOLINE + g.page,
				    0x1000,
				    UINT64_MAX };
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		ck_assert_int_eq(lnx_symbol_at_alias(&v, GVA(others[i]), &s), GS_ENOENT);
	done();
}
END_TEST

// Since 6.0 the trampoline is in the read-only data.
static void map_in_rodata(uint32_t pages)
{
	for (uint32_t i = 0; i < pages; i++)
		lg_map(&g, LG_TRAMPOLINE + i * g.page, g.image + LG_VDSO + i * g.page, true);
}

START_TEST(trampoline_without_symbols_has_a_name)
{
	static struct lnx_symbol s;
	struct lnx_view v;

	make(&forms[1]);
	map_in_rodata(2);
	ck_assert_int_eq(find(), GS_OK);
	lnx_view_init(&v, k, &g.m.guest);
	for (uint64_t at = LG_TRAMPOLINE; at < LG_TRAMPOLINE + 2 * g.page; at += 0xc80) {
		ck_assert_int_eq(lnx_symbol_at_alias(&v, GVA(at), &s), GS_OK);
		ck_assert_str_eq(s.name, "tramp_vectors");
		ck_assert_uint_eq(s.start, LG_TRAMPOLINE);
		ck_assert_uint_eq(s.size, 2 * g.page);
		ck_assert_uint_eq(s.flags, 0);
	}
	ck_assert_int_eq(lnx_symbol_at_alias(&v, GVA(LG_TRAMPOLINE + 2 * g.page), &s), GS_ENOENT);
	done();
}
END_TEST

START_TEST(trampoline_with_symbols_has_these)
{
	static struct lnx_symbol s;
	struct symtab_form form = { .style = 'B' };
	struct lnx_view v;

	make(&(struct lg_form){ .style = 'B', .data_symbols = true });
	symtab_free(&g.symtab);
	// what the text ends with moves behind it, and what begins the data
	for (uint32_t i = 0; i < g.symbol_count; i++)
		if (strcmp(g.symbols[i].name, "tramp_vectors") == 0) {
			const struct symtab_symbol moved = { lg_image_va(&g, LG_VDSO),
							     "tramp_vectors", 't' };

			for (; g.symbols[i + 1].address < moved.address; i++)
				g.symbols[i] = g.symbols[i + 1];
			g.symbols[i] = moved;
			break;
		}
	g.symtab = symtab_make(g.symbols, g.symbol_count, &form);
	memcpy(lg_image(&g, LG_KALLSYMS), g.symtab.data, g.symtab.size);
	map_in_rodata(1);
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	lnx_view_init(&v, k, &g.m.guest);
	ck_assert_int_eq(lnx_symbol_at_alias(&v, GVA(LG_TRAMPOLINE + 0xc80), &s), GS_OK);
	ck_assert_str_eq(s.name, "tramp_vectors");
	ck_assert_uint_eq(s.start, LG_TRAMPOLINE);
	ck_assert_uint_eq(s.size, LG_SINITTEXT - LG_VDSO);
	done();
}
END_TEST

START_TEST(mapping_symbols_do_not_name_addresses)
{
	static struct lnx_symbol s;
	struct symtab_form form = { .style = 'A' };

	make(&(struct lg_form){ .style = 'A' });
	symtab_free(&g.symtab);
	for (uint32_t i = 0; i < g.symbol_count; i++)
		if (strcmp(g.symbols[i].name, "__sched_text_start") == 0)
			g.symbols[i].name = "$x";
	g.symtab = symtab_make(g.symbols, g.symbol_count, &form);
	memcpy(lg_image(&g, LG_KALLSYMS), g.symtab.data, g.symtab.size);
	ck_assert_msg(find() == GS_OK, "%s", err.text);
	ck_assert_int_eq(lnx_symbol_at(k, GVA(lg_in(&g, "__switch_to")), &s), GS_OK);
	ck_assert_str_eq(s.name, "__switch_to");
	done();
}
END_TEST

// A kernel for a crash lies in memory as a file, its table without a base.
START_TEST(unusable_copy_of_a_table_does_not_hide_the_real_one)
{
	make(&forms[1]);
	uint64_t at = lg_pages(&g, 32);
	memcpy(lg_at(&g, at), g.symtab.data, g.symtab.size);
	memset(lg_at(&g, at + g.symtab.base), 0, 8);
	// the search that begins at the vectors is of no use here
	for (uint32_t v = 0; v < 2; v++)
		g.m.regs[v].valid &= ~(uint32_t)GUEST_REGS_VBAR;
	// the copy comes first
	memmove(lg_image(&g, 0x2000 - 0x10000), lg_at(&g, at), 0xf000);
	expect_found();
	done();
}
END_TEST

/* --- holes ------------------------------------------------------------------------------------ */

static uint32_t asked;

/* Only the image and what is behind it has ever been written, in pieces of 64 KiB. */
static bool some_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	uint64_t at = from.a < LG_IMAGE ? LG_IMAGE : from.a;

	(void)priv;
	asked++;
	if (at >= end.a)
		return false;
	*start_out = GPA(at);
	*end_out = GPA(gs_min(end.a, gs_align_up(at + 1, 0x10000)));
	return true;
}

START_TEST(search_leaves_holes_of_the_memory_alone)
{
	make(&forms[2]);
	g.ops.next_data = some_data;
	expect_found();
	ck_assert_uint_gt(asked, 16);
	done();
}
END_TEST

static bool lying_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	(void)priv;
	*start_out = GPA(from.a - 4096);
	*end_out = GPA(end.a + 4096);
	return true;
}

START_TEST(source_that_contradicts_itself_ends_the_search)
{
	make(&forms[2]);
	g.ops.next_data = lying_data;
	expect_not_found(GS_ENOENT, "no kernel symbol table in guest memory");
	done();
}
END_TEST

START_TEST(kernel_in_the_second_of_two_ranges_is_found)
{
	static uint8_t low[0x3000];

	make(&forms[1]);
	g.m.guest.range_count = 0;
	ck_assert_int_eq(memory_guest_add(&g.m, GPA(0x1000), low, sizeof(low)), GS_OK);
	ck_assert_int_eq(memory_guest_add(&g.m, GPA(LG_RAM), g.ram, g.ram_size), GS_OK);
	expect_found();
	done();
}
END_TEST

// A guest that fills its memory with beginnings of tables must not keep us for hours.
START_TEST(memory_full_of_beginnings_of_tables_does_not_stop_the_search_for_long)
{
	make(&(struct lg_form){ .style = 'B', .ram_size = UINT64_C(16) << 20 });
	uint64_t start = LG_IMAGE + LG_IMAGE_SIZE + (UINT64_C(2) << 20);
	size_t tokens = g.symtab.token_index + 512 - g.symtab.token_table;

	for (uint64_t at = start; at < LG_RAM + g.ram_size; at += 16)
		memcpy(lg_at(&g, at), (uint32_t[4]){ 0, 512, 1024, 1536 }, 16);
	for (uint64_t at = start + 0x10000; at + tokens < LG_RAM + g.ram_size; at += 0x10000)
		memcpy(lg_at(&g, at), g.symtab.data + g.symtab.token_table, tokens);
	memset(lg_image(&g, LG_KALLSYMS), 0, g.symtab.size);
	expect_not_found(GS_ETOOBIG, "look like a kernel symbol table");
	done();
}
END_TEST

START_TEST(image_full_of_headers_of_types_does_not_stop_the_search_for_long)
{
	make(&forms[1]);
	uint8_t *from = lg_image(&g, LG_BTF), *to = lg_image(&g, LG_BTF - 0x6000);
	uint32_t type_len;

	memcpy(&type_len, from + 12, 4);
	ck_assert_uint_gt(type_len, 0x10000);
	for (size_t at = 0; at < 0x6000; at += 24)
		memcpy(to + at, from, 24);
	expect_not_found(GS_EMALFORMED, "type information is broken");
	done();
}
END_TEST

Suite *suite_find(void)
{
	Suite *s = suite_create("find");
	TCase *tc = tcase_create("find");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, kernels_of_every_style_are_found);
	tcase_add_test(tc, kernel_is_found_wherever_it_was_put);
	tcase_add_test(tc, kernel_is_found_from_user_mode_with_kpti);
	tcase_add_test(tc, kernel_is_found_when_one_page_directory_is_missing);
	tcase_add_test(tc, kernel_is_found_from_user_mode_without_kpti);
	tcase_add_test(tc, user_stack_pointer_in_the_kernel_falls_back_to_the_entry_task);
	tcase_add_test(tc, table_of_another_vcpu_serves_when_the_first_has_none);
	tcase_add_test(tc, guest_without_a_symbol_table_says_so);
	tcase_add_test(tc, mmu_that_is_off_says_so);
	tcase_add_test(tc, kernel_is_found_without_registers);
	tcase_add_test(tc, no_registers_and_no_page_table_say_so);
	tcase_add_test(tc, page_table_that_does_not_map_the_image_says_so);
	tcase_add_test(tc, kernel_without_types_says_so);
	tcase_add_test(tc, kernel_whose_types_lack_a_member_names_it);
	tcase_add_test(tc, kernel_with_broken_types_says_so);
	tcase_add_test(tc, false_header_of_types_before_the_real_one_is_passed_over);
	tcase_add_test(tc, types_that_reach_out_of_the_image_are_not_believed);
	tcase_add_test(tc, kernel_without_a_banner_has_an_empty_one);
	tcase_add_test(tc, banner_without_an_end_is_cut);
	tcase_add_test(tc, ram_of_zeros_has_no_kernel);
	tcase_add_test(tc, ram_of_noise_has_no_kernel);
	tcase_add_test(tc, table_without_the_ends_of_text_is_malformed);
	tcase_add_test(tc, kernel_before_its_first_task_says_so);
	tcase_add_test(tc, init_task_is_found_from_the_idle_task_of_another_cpu);
	tcase_add_test(tc, init_task_is_not_believed_when_its_neighbours_do_not_point_back);
	tcase_add_test(tc, ring_of_tasks_without_init_task_ends);
	tcase_add_test(tc, run_queues_come_from_code_when_types_do_not_say);
	tcase_add_test(tc, kernel_that_was_replaced_is_not_current);
	tcase_add_test(tc, symbols_of_addresses_are_those_of_the_kernel_itself);
	tcase_add_test(tc, text_that_is_mapped_twice_has_its_names_in_both_places);
	tcase_add_test(tc, trampoline_without_symbols_has_a_name);
	tcase_add_test(tc, trampoline_with_symbols_has_these);
	tcase_add_test(tc, mapping_symbols_do_not_name_addresses);
	tcase_add_test(tc, unusable_copy_of_a_table_does_not_hide_the_real_one);
	tcase_add_test(tc, search_leaves_holes_of_the_memory_alone);
	tcase_add_test(tc, source_that_contradicts_itself_ends_the_search);
	tcase_add_test(tc, kernel_in_the_second_of_two_ranges_is_found);
	tcase_add_test(tc, memory_full_of_beginnings_of_tables_does_not_stop_the_search_for_long);
	tcase_add_test(tc, image_full_of_headers_of_types_does_not_stop_the_search_for_long);
	suite_add_tcase(s, tc);
	return s;
}
