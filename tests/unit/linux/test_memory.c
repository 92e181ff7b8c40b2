/* SPDX-License-Identifier: Apache-2.0 */
/* ASIDs, page directories, page counts; variables and the build id that these begin with. */
#include <string.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"
#include "tests/unit/linux/suites.h"

static struct lnx_view view;
static struct lg_thread *worker;
static struct lg_mm *mm;

static void find_it(void)
{
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
}

static void make_form(const struct lg_form *form)
{
	make(form);
	worker = &made.g.threads[2];
	mm = lg_add_mm(&made.g, worker, 0x1234000000abcdef);
}

static void setup(void)
{
	make_form(&(struct lg_form){ .seqs = true });
	find_it();
}

static gva_t mm_address(void)
{
	return GVA(worker->task->mm);
}

/* --- ASIDs ------------------------------------------------------------------------------------ */

START_TEST(asid_is_the_low_part_of_the_context)
{
	uint32_t asid = 0;

	ck_assert(lnx_knows_asid(made.k));
	ck_assert_int_eq(lnx_mm_asid(&view, mm_address(), &asid), GS_OK);
	ck_assert_uint_eq(asid, 0xcdef);
	mm->context_id = 0xffffffffffff0000; // has not been on a CPU in this generation
	ck_assert_int_eq(lnx_mm_asid(&view, mm_address(), &asid), GS_OK);
	ck_assert_uint_eq(asid, 0);
}
END_TEST

START_TEST(asid_of_what_is_no_address_space_is_none)
{
	uint32_t asid = 7;

	ck_assert_int_eq(lnx_mm_asid(&view, GVA(0), &asid), GS_EMALFORMED);
	ck_assert_int_eq(lnx_mm_asid(&view, GVA(0x400000), &asid), GS_EMALFORMED);
	ck_assert_int_eq(lnx_mm_asid(&view, GVA(mm_address().a + 4), &asid), GS_EMALFORMED);
	ck_assert_int_eq(lnx_mm_asid(&view, GVA(UINT64_MAX - 7), &asid), GS_EFAULT);
	lg_unmap(&made.g, mm_address().a);
	ck_assert_int_eq(lnx_mm_asid(&view, mm_address(), &asid), GS_EFAULT);
	ck_assert_uint_eq(asid, 7);
}
END_TEST

// Reading ahead is a guess: of what is no address space nothing is asked for, and nothing counted.
START_TEST(reading_ahead_of_any_address_does_no_harm)
{
	static struct lnx_cache cache;
	const uint64_t addresses[] = { mm_address().a,
				       0,
				       1,
				       0x400000,
				       mm_address().a + 4,
				       UINT64_MAX & ~7u,
				       LG_LINEAR + (UINT64_C(1) << 40) };
	uint32_t asid;

	lnx_view_use_cache(&view, &cache);
	ck_assert(view.can_prefetch);
	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		lnx_mm_prefetch_entry(&view, GVA(addresses[i]));
		lnx_mm_prefetch(&view, GVA(addresses[i]));
	}
	for (size_t f = 0; f < A64_FAULTS; f++)
		ck_assert_uint_eq(view.faults[f], 0);
	ck_assert_int_eq(lnx_mm_asid(&view, mm_address(), &asid), GS_OK);
	ck_assert_uint_eq(asid, 0xcdef);
}
END_TEST

START_TEST(kernel_threads_have_no_address_space_also_when_they_borrow_one)
{
	struct lnx_task task;

	ck_assert_int_eq(lnx_task_read(&view, GVA(worker->address), &task), GS_OK);
	ck_assert_uint_eq(lnx_task_mm(&task).a, worker->task->mm);
	worker->task->flags |= LNX_PF_KTHREAD;
	ck_assert_int_eq(lnx_task_read(&view, GVA(worker->address), &task), GS_OK);
	ck_assert_uint_eq(task.mm.a, worker->task->mm);
	ck_assert_uint_eq(lnx_task_mm(&task).a, 0);
}
END_TEST

/* --- page directories ------------------------------------------------------------------------- */

static enum gs_code half_of(struct a64_half *half)
{
	return lnx_mm_half(&view, mm_address(), made.g.m.regs, made.g.m.guest.vcpu_count, half);
}

static void expect_half(unsigned int granule_bits, unsigned int va_bits, int start_level)
{
	struct a64_half half = { 0 };

	ck_assert_int_eq(half_of(&half), GS_OK);
	ck_assert_uint_eq(half.granule_bits, granule_bits);
	ck_assert_uint_eq(half.va_bits, va_bits);
	ck_assert_int_eq(half.start_level, start_level);
	ck_assert_uint_eq(half.table.a, lg_directory(&made.g, mm));
}

#define T0SZ(va_bits) ((uint64_t)(64 - (va_bits)))

/* TCR_EL1 as it is, but for the lower half. */
static void set_lower(uint32_t vcpu, uint64_t va_bits)
{
	uint64_t *tcr = &made.g.m.regs[vcpu].tcr_el1;

	*tcr = (*tcr & ~UINT64_C(0x3f)) | T0SZ(va_bits);
}

START_TEST(page_directory_is_that_of_low_addresses)
{
	ck_assert(lnx_knows_page_tables(made.k));
	expect_half(12, 48, 0);
}
END_TEST

// The identity mapping may have more bits than the kernel's half; no process runs on it.
START_TEST(vcpu_that_agrees_with_the_kernel_is_believed)
{
	set_lower(0, 40);
	expect_half(12, 48, 0);
	set_lower(1, 44);
	expect_half(12, 40, 0); // none does: the first
	made.g.m.regs[0].state = GUEST_VCPU_OFF;
	expect_half(12, 44, 0);
	made.g.m.regs[1].valid &= ~(uint32_t)GUEST_REGS_MMU;
	expect_half(12, 48, 0); // nothing is known: as the kernel's half
}
END_TEST

START_TEST(registers_that_make_no_sense_say_nothing)
{
	// T0SZ 0, TG0 reserved; and walks by TTBR0 disabled, as they may be for a moment
	made.g.m.regs[0].tcr_el1 = 0xc000;
	made.g.m.regs[1].tcr_el1 |= UINT64_C(1) << 7;
	set_lower(1, 39);
	expect_half(12, 39, 1);
	made.g.m.regs[1].tcr_el1 = 0;
	expect_half(12, 48, 0);
}
END_TEST

static const struct {
	uint8_t granule_bits, va_bits;
	int start_level;
	uint64_t image; /* 0: the usual one */
} shapes[] = {
	{ 12, 48, 0, 0 },
	{ 12, 52, -1, 0 },
	{ 12, 39, 1, UINT64_C(0xffffffc008000000) },
	{ 14, 47, 1, UINT64_C(0xffffe3c84a000000) },
	{ 14, 48, 0, 0 },
	{ 14, 52, 0, 0 },
	{ 16, 42, 2, UINT64_C(0xfffffe0008000000) },
	{ 16, 48, 1, 0 },
	{ 16, 52, 1, 0 },
};

// And without registers: then the form of the half is what the search for the kernel came by.
START_TEST(directories_of_all_forms_are_found)
{
	done();
	make_form(&(struct lg_form){
		.granule_bits = shapes[_i].granule_bits,
		.va_bits = shapes[_i].va_bits,
		.voffset = shapes[_i].image ? shapes[_i].image - LG_IMAGE : 0,
		.ram_size = UINT64_C(8) << 20,
	});
	find_it();
	expect_half(shapes[_i].granule_bits, shapes[_i].va_bits, shapes[_i].start_level);
	memset(made.g.m.regs, 0, sizeof(made.g.m.regs));
	expect_half(shapes[_i].granule_bits, shapes[_i].va_bits, shapes[_i].start_level);
}
END_TEST

START_TEST(directory_that_is_none_is_refused)
{
	const uint64_t pgd = mm->pgd;
	struct a64_half half = { 0 };

	mm->pgd = 0;
	ck_assert_int_eq(half_of(&half), GS_EMALFORMED);
	mm->pgd = 0x400000;
	ck_assert_int_eq(half_of(&half), GS_EMALFORMED);
	mm->pgd = pgd + 4;
	ck_assert_int_eq(half_of(&half), GS_EMALFORMED);
	mm->pgd = pgd + 8; // 512 entries lie in a page
	ck_assert_int_eq(half_of(&half), GS_EMALFORMED);
	mm->pgd = LG_LINEAR + (UINT64_C(1) << 40); // no RAM
	ck_assert_int_eq(half_of(&half), GS_EFAULT);
	lg_unmap(&made.g, mm_address().a);
	ck_assert_int_eq(half_of(&half), GS_EFAULT);
	ck_assert_uint_eq(half.granule_bits, 0);
}
END_TEST

/* --- counters --------------------------------------------------------------------------------- */

static void set_counter(bool node, uint32_t index, int64_t pages)
{
	memcpy(lg_image(&made.g, (node ? LG_NODE_STAT : LG_ZONE_STAT) + 8 * index), &pages, 8);
}

static void set_counters(void)
{
	set_counter(false, LG_NR_FREE_PAGES, 1000001);
	set_counter(false, LG_NR_ZSPAGES, 2);
	set_counter(true, LG_NR_ACTIVE_ANON, 30);
	set_counter(true, LG_NR_ACTIVE_FILE, 400);
	set_counter(true, LG_NR_INACTIVE_ANON, 5000);
	set_counter(true, LG_NR_INACTIVE_FILE, 60000);
	set_counter(true, LG_NR_UNEVICTABLE, 700000);
	set_counter(true, LG_NR_SLAB_UNRECLAIMABLE, 8000000);
	set_counter(true, LG_NR_SLAB_RECLAIMABLE, 77);
	set_counter(true, LG_NR_FILE_PAGES, INT64_MAX);
}

static void expect_counters(void)
{
	struct lnx_page_counts n = { 0 };

	ck_assert(lnx_knows_page_counts(made.k));
	ck_assert_int_eq(lnx_page_counts_read(&view, &n), GS_OK);
	ck_assert_uint_eq(n.free, 1000001);
	ck_assert_uint_eq(n.zspages, 2);
	ck_assert_uint_eq(n.active, 430);
	ck_assert_uint_eq(n.inactive, 65000);
	ck_assert_uint_eq(n.unevictable, 700000);
	ck_assert_uint_eq(n.slab_unreclaimable, 8000000);
	ck_assert_uint_eq(n.file, INT64_MAX);
}

// Debian's kernels up to 6.1 have no symbols of data: the entries for modules tell.
START_TEST(counters_are_read_with_and_without_symbols_of_data)
{
	static const struct lg_form forms[] = {
		{ .style = 'A', .old = true }, // 5.10: an enumerator has another name
		{ .style = 'A', .seqs = true },
		{ .style = 'B', .seqs = true, .data_symbols = true },
		{ .style = 'C', .data_symbols = true },
		{ .style = 'C' },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		done();
		make_form(&forms[i]);
		find_it();
		set_counters();
		expect_counters();
	}
}
END_TEST

START_TEST(counters_that_are_negative_for_a_moment_are_none)
{
	struct lnx_page_counts n;

	set_counters();
	set_counter(false, LG_NR_FREE_PAGES, -1);
	set_counter(true, LG_NR_ACTIVE_ANON, INT64_MIN);
	ck_assert_int_eq(lnx_page_counts_read(&view, &n), GS_OK);
	ck_assert_uint_eq(n.free, 0);
	ck_assert_uint_eq(n.active, 400);
}
END_TEST

START_TEST(counters_that_cannot_be_read_are_an_error)
{
	struct lnx_page_counts n;

	lg_unmap(&made.g, lg_image_va(&made.g, LG_NODE_STAT));
	ck_assert_int_eq(lnx_page_counts_read(&view, &n), GS_EFAULT);
}
END_TEST

static void make_without(const char *omit)
{
	const struct typeinfo_form types = { .omit = omit };

	done();
	make_form(&(struct lg_form){ .types = &types });
	find_it();
}

START_TEST(kernel_says_what_it_does_not_tell)
{
	struct lnx_page_counts n;

	make_without("zone_stat_item.NR_FREE_PAGES");
	ck_assert(!lnx_knows_page_counts(made.k));
	ck_assert(lnx_knows_asid(made.k) && lnx_knows_page_tables(made.k));
	make_without("node_stat_item");
	ck_assert(!lnx_knows_page_counts(made.k));
	make_without("mm_struct.context");
	ck_assert(!lnx_knows_asid(made.k) && lnx_knows_page_tables(made.k));
	make_without("mm_struct.pgd");
	ck_assert(lnx_knows_asid(made.k) && !lnx_knows_page_tables(made.k));
	make_without("task_struct.mm");
	ck_assert(!lnx_knows_asid(made.k) && !lnx_knows_page_tables(made.k));
	// two of the counters need not be there
	make_without("zone_stat_item.NR_ZSPAGES");
	set_counters();
	ck_assert(lnx_knows_page_counts(made.k));
	ck_assert_int_eq(lnx_page_counts_read(&view, &n), GS_OK);
	ck_assert_uint_eq(n.zspages, 0);
	ck_assert_uint_eq(n.free, 1000001);
}
END_TEST

/* --- entries for modules ---------------------------------------------------------------------- */

static void find_again(void)
{
	lnx_kernel_destroy(made.k);
	find_it();
}

static uint64_t node_stat(void)
{
	find_again();
	return made.k->variable[LNX_V_NODE_STAT].a;
}

static int32_t *export_word(uint32_t entry, uint32_t word)
{
	return (int32_t *)lg_image(&made.g, LG_KSYMTAB + 12 * entry + 4 * word);
}

// vm_node_stat, which is the third; its name is the end of another one.
START_TEST(exported_variables_are_found_by_their_names)
{
	const uint64_t wanted = lg_image_va(&made.g, LG_NODE_STAT);

	ck_assert_uint_eq(made.k->variable[LNX_V_NODE_STAT].a, wanted);
	ck_assert_uint_eq(made.k->variable[LNX_V_ZONE_STAT].a, lg_image_va(&made.g, LG_ZONE_STAT));
	// twice the same is clear, two are not
	memcpy(export_word(5, 0), export_word(2, 0), 12);
	*export_word(5, 0) -= 3 * 12;
	*export_word(5, 1) -= 3 * 12;
	ck_assert_uint_eq(node_stat(), wanted);
	*export_word(5, 0) += 8;
	ck_assert_uint_eq(node_stat(), 0);
	ck_assert(!lnx_knows_page_counts(made.k));
	memset(export_word(5, 0), 0, 12);
	ck_assert_uint_eq(node_stat(), wanted);
}
END_TEST

START_TEST(exports_that_lead_nowhere_are_not_believed)
{
	int32_t *value = export_word(2, 0), good = *value;

	*value = good + 4; // not aligned
	ck_assert_uint_eq(node_stat(), 0);
	*value = INT32_MAX;
	ck_assert_uint_eq(node_stat(), 0);
	*value = INT32_MIN;
	ck_assert_uint_eq(node_stat(), 0);
	*value = good;
	lg_unmap(&made.g, lg_image_va(&made.g, LG_NODE_STAT));
	ck_assert_uint_eq(node_stat(), 0);
	lg_map(&made.g, lg_image_va(&made.g, LG_NODE_STAT), lg_pages(&made.g, 1), false);
	ck_assert_uint_eq(node_stat(), 0); // not a part of the image
}
END_TEST

START_TEST(variables_without_an_export_are_not_known)
{
	memset(lg_image(&made.g, LG_KSYMTAB), 0, 64);
	find_again();
	ck_assert_uint_eq(made.k->variable[LNX_V_NODE_STAT].a, 0);
	ck_assert_uint_eq(made.k->variable[LNX_V_ZONE_STAT].a, 0);
	ck_assert(!lnx_knows_page_counts(made.k));
	memset(lg_image(&made.g, LG_KSYMTAB_NAMES), 'x', 64);
	find_again();
	ck_assert(!lnx_knows_page_counts(made.k));
}
END_TEST

/* --- build id --------------------------------------------------------------------------------- */

// Which lies behind it here, so that only the ELF header tells.
START_TEST(build_id_is_not_that_of_a_vdso)
{
	struct lnx_kernel_info info = lnx_kernel_info_get(made.k);

	ck_assert_ptr_nonnull(info.build_id);
	ck_assert_mem_eq(info.build_id, lg_build_id, LNX_BUILD_ID);
}
END_TEST

START_TEST(kernel_without_a_build_id_has_none)
{
	memset(lg_image(&made.g, LG_BUILD_ID_NOTE), 0, 16);
	find_again();
	ck_assert_ptr_null(lnx_kernel_info_get(made.k).build_id);
}
END_TEST

Suite *suite_memory(void)
{
	Suite *s = suite_create("memory");
	TCase *tc = tcase_create("memory");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, done);
	tcase_add_test(tc, asid_is_the_low_part_of_the_context);
	tcase_add_test(tc, asid_of_what_is_no_address_space_is_none);
	tcase_add_test(tc, reading_ahead_of_any_address_does_no_harm);
	tcase_add_test(tc, kernel_threads_have_no_address_space_also_when_they_borrow_one);
	tcase_add_test(tc, page_directory_is_that_of_low_addresses);
	tcase_add_test(tc, vcpu_that_agrees_with_the_kernel_is_believed);
	tcase_add_test(tc, registers_that_make_no_sense_say_nothing);
	tcase_add_loop_test(tc, directories_of_all_forms_are_found, 0, ARRAY_SIZE(shapes));
	tcase_add_test(tc, directory_that_is_none_is_refused);
	tcase_add_test(tc, counters_are_read_with_and_without_symbols_of_data);
	tcase_add_test(tc, counters_that_are_negative_for_a_moment_are_none);
	tcase_add_test(tc, counters_that_cannot_be_read_are_an_error);
	tcase_add_test(tc, kernel_says_what_it_does_not_tell);
	tcase_add_test(tc, exported_variables_are_found_by_their_names);
	tcase_add_test(tc, exports_that_lead_nowhere_are_not_believed);
	tcase_add_test(tc, variables_without_an_export_are_not_known);
	tcase_add_test(tc, build_id_is_not_that_of_a_vdso);
	tcase_add_test(tc, kernel_without_a_build_id_has_none);
	suite_add_tcase(s, tc);
	return s;
}
