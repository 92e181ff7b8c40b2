/* SPDX-License-Identifier: Apache-2.0 */
/* Page counts, where the kernel lies, ASIDs, page tables: asked for, and not to be had. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/trap.h"

#define ALL_FLAGS                                                                    \
	(KCD_SS_GET_GLOBAL_MEM_STATS | KCD_SS_SAVE_KEXT_LOADINFO | KCD_SS_REQ_ASID | \
	 KCD_SS_REQ_PAGE_TABLES)
/* ... of captures of all processes */
#define FLAGS (ALL_FLAGS & ~KCD_SS_REQ_PAGE_TABLES)

static struct lg_thread *init, *worker;
static struct lg_mm *init_mm, *worker_mm;

static void give_memory(void)
{
	init = &guest.threads[0];
	worker = &guest.threads[2];
	init_mm = lg_add_mm(&guest, init, 0x10001);
	worker_mm = lg_add_mm(&guest, worker, 0x7777770000004321);
	guest.threads[3].task->mm = guest.threads[4].task->mm = worker->task->mm;
}

static void make_guest(const struct lg_form *form)
{
	lg_create(&guest, form);
	lg_populate(&guest);
	give_memory();
	session_begin();
}

static void setup(void)
{
	make_guest(&(struct lg_form){ .seqs = true });
}

static enum gs_code capture(int32_t pid, uint64_t flags, uint64_t mask)
{
	struct ss_request q = session_request(pid);

	q.flags = flags;
	q.pagetable_mask = mask;
	return session_capture_with(&q);
}

static void expect_capture(int32_t pid, uint64_t flags, uint64_t mask)
{
	ck_assert_msg(capture(pid, flags, mask) == GS_OK, "%s", error.text);
	ck_assert_uint_eq(view.in_flags, flags | KCD_SS_KCDATA_FORMAT);
}

static void expect_honoured(uint64_t flags)
{
	ck_assert_uint_eq(view.out_flags, flags | KCD_SS_KCDATA_FORMAT);
}

static const struct ss_missing_record *expect_one(enum ss_missing what)
{
	ck_assert(!result.complete);
	ck_assert_uint_eq(view.missing_count, 1);
	return view_missing(&view, what, 0);
}

/* --- of the whole guest ----------------------------------------------------------------------- */

START_TEST(nothing_of_it_is_recorded_unasked)
{
	session_capture_all();
	ck_assert(result.complete);
	ck_assert(!view.has_memory && !view.has_pagetable_mask && !view.tables);
	for (uint32_t i = 0; i < view.tasks; i++)
		ck_assert(!view.task[i].has_asid && !view.task[i].has_kernel);
	expect_honoured(0);
}
END_TEST

static void set_counter(bool node, uint32_t index, int64_t pages)
{
	memcpy(lg_image(&guest, (node ? LG_NODE_STAT : LG_ZONE_STAT) + 8 * index), &pages, 8);
}

START_TEST(page_counts_are_in_the_head)
{
	set_counter(false, LG_NR_FREE_PAGES, 1001);
	set_counter(false, LG_NR_ZSPAGES, 12);
	set_counter(true, LG_NR_ACTIVE_ANON, 20);
	set_counter(true, LG_NR_ACTIVE_FILE, 3);
	set_counter(true, LG_NR_INACTIVE_ANON, 400);
	set_counter(true, LG_NR_INACTIVE_FILE, 50);
	set_counter(true, LG_NR_UNEVICTABLE, 6000);
	set_counter(true, LG_NR_SLAB_UNRECLAIMABLE, 700);
	set_counter(true, LG_NR_SLAB_RECLAIMABLE, 99);
	set_counter(true, LG_NR_FILE_PAGES, INT64_C(1) << 40); // more than the record can say
	expect_capture(SS_PID_ALL, KCD_SS_GET_GLOBAL_MEM_STATS, 0);
	ck_assert(result.complete);
	expect_honoured(KCD_SS_GET_GLOBAL_MEM_STATS);
	const struct kcd_mem_and_io expected = {
		.snapshot_magic = KCD_SS_MEM_AND_IO_MAGIC,
		.free_pages = 1001,
		.active_pages = 23,
		.inactive_pages = 450,
		.wired_pages = 6700,
		.filebacked_pages = UINT32_MAX,
		.compressor_size = 12,
	};
	ck_assert_mem_eq(&view.memory, &expected, sizeof(expected));
	// of one process as well
	expect_capture(100, KCD_SS_GET_GLOBAL_MEM_STATS, 0);
	ck_assert_mem_eq(&view.memory, &expected, sizeof(expected));
}
END_TEST

START_TEST(idle_task_says_where_the_kernel_lies)
{
	expect_capture(SS_PID_ALL, KCD_SS_SAVE_KEXT_LOADINFO, 0);
	const struct view_task *idle = view_task(&view, 0);

	ck_assert(result.complete);
	expect_honoured(KCD_SS_SAVE_KEXT_LOADINFO);
	ck_assert_uint_eq(idle->kernel.imageLoadAddress, lg_symbol(&guest, "_stext"));
	ck_assert_mem_eq(idle->kernel.imageUUID, lg_build_id, 16);
	// it is in no other process
	expect_capture(100, KCD_SS_SAVE_KEXT_LOADINFO, 0);
	ck_assert(result.complete);
	expect_honoured(0);
}
END_TEST

START_TEST(kernel_without_a_build_id_has_zeros_for_it)
{
	static const uint8_t zeros[16];

	memset(lg_image(&guest, LG_BUILD_ID_NOTE), 0, 16);
	expect_capture(SS_PID_ALL, KCD_SS_SAVE_KEXT_LOADINFO, 0);
	ck_assert_mem_eq(view_task(&view, 0)->kernel.imageUUID, zeros, 16);
	expect_honoured(KCD_SS_SAVE_KEXT_LOADINFO);
}
END_TEST

/* --- what a kernel does not tell -------------------------------------------------------------- */

static void make_without(const char *omit)
{
	const struct typeinfo_form types = { .omit = omit };

	session_end();
	make_guest(&(struct lg_form){ .seqs = true, .types = omit ? &types : NULL });
}

START_TEST(flags_that_cannot_be_honoured_are_dropped)
{
	static const struct {
		const char *omit;
		uint64_t dropped;
	} rows[] = {
		{ "mm_struct.context", KCD_SS_REQ_ASID },
		{ "mm_struct.pgd", KCD_SS_REQ_PAGE_TABLES },
		{ "task_struct.mm", KCD_SS_REQ_ASID | KCD_SS_REQ_PAGE_TABLES },
		{ "mm_struct", KCD_SS_REQ_ASID | KCD_SS_REQ_PAGE_TABLES },
		{ "node_stat_item.NR_UNEVICTABLE", KCD_SS_GET_GLOBAL_MEM_STATS },
		{ "zone_stat_item.NR_ZSPAGES", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make_without(rows[i].omit);
		expect_capture(100, ALL_FLAGS, 0);
		ck_assert_msg(result.complete, "%s", rows[i].omit);
		expect_honoured(ALL_FLAGS & ~KCD_SS_SAVE_KEXT_LOADINFO & ~rows[i].dropped);
		expect_capture(SS_PID_ALL, FLAGS, 0);
		ck_assert(result.complete);
		expect_honoured(FLAGS & ~rows[i].dropped);
	}
}
END_TEST

START_TEST(guest_without_a_kernel_honours_none)
{
	session_end();
	make_guest(&(struct lg_form){ .no_table = true });
	expect_capture(SS_PID_ALL, FLAGS | KCD_SS_NO_IO_STATS, 0);
	expect_honoured(KCD_SS_NO_IO_STATS);
	(void)expect_one(SS_MISSING_KERNEL);
}
END_TEST

// The guest may run again by then: what was read is not to be believed.
START_TEST(nothing_that_was_read_after_the_deadline_is_claimed)
{
	struct ss_request q = session_request(SS_PID_ALL);

	expect_capture(SS_PID_ALL, FLAGS, 0);
	q.flags = FLAGS;
	q.deadline_ns = 1;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	ck_assert(!result.complete && !view.has_memory);
	for (uint32_t i = 0; i < view.tasks; i++)
		ck_assert(!view.task[i].has_asid);
	ck_assert_uint_eq(view.out_flags & KCD_SS_GET_GLOBAL_MEM_STATS, 0);
}
END_TEST

START_TEST(page_counts_that_cannot_be_read_are_dropped)
{
	expect_capture(SS_PID_ALL, FLAGS, 0); // so that the kernel is known
	lg_unmap(&guest, lg_image_va(&guest, LG_ZONE_STAT));
	expect_capture(SS_PID_ALL, FLAGS, 0);
	expect_honoured(FLAGS & ~KCD_SS_GET_GLOBAL_MEM_STATS);
}
END_TEST

/* --- ASIDs ------------------------------------------------------------------------------------ */

START_TEST(each_process_with_an_address_space_has_its_asid)
{
	guest.threads[1].task->mm = worker->task->mm; // a kernel thread that borrows one
	expect_capture(SS_PID_ALL, KCD_SS_REQ_ASID, 0);
	ck_assert(result.complete);
	expect_honoured(KCD_SS_REQ_ASID);
	ck_assert(view_task(&view, 1)->has_asid && view_task(&view, 100)->has_asid);
	ck_assert_uint_eq(view_task(&view, 1)->asid, 1);
	ck_assert_uint_eq(view_task(&view, 100)->asid, 0x4321);
	ck_assert(!view_task(&view, 2)->has_asid);   // a kernel thread
	ck_assert(!view_task(&view, 200)->has_asid); // a zombie
	ck_assert(!view_task(&view, 0)->has_asid);
}
END_TEST

START_TEST(asid_of_a_process_whose_leader_has_ended_is_that_of_its_threads)
{
	worker->task->mm = 0;
	expect_capture(SS_PID_ALL, KCD_SS_REQ_ASID, 0);
	ck_assert(result.complete);
	ck_assert(view_task(&view, 100)->has_asid);
	ck_assert_uint_eq(view_task(&view, 100)->asid, 0x4321);
}
END_TEST

START_TEST(asid_that_cannot_be_read_is_said)
{
	worker->task->mm = 0x1234;
	expect_capture(SS_PID_ALL, KCD_SS_REQ_ASID, 0);
	const struct ss_missing_record *m = expect_one(SS_MISSING_ASID);
	ck_assert_str_eq(m->reason, "the ASID of worker could not be read: malformed");
	ck_assert_int_eq(m->pid, 100);
	ck_assert_int_eq(m->tid, -1);
	ck_assert_uint_eq(m->count, 1);
	ck_assert_uint_eq(m->address, 0x1234);
	ck_assert(!view_task(&view, 100)->has_asid);
	ck_assert_uint_eq(view_task(&view, 100)->count, 3);
	ck_assert_uint_eq(view_task(&view, 1)->asid, 1);
	expect_honoured(KCD_SS_REQ_ASID);
}
END_TEST

/* --- page tables ------------------------------------------------------------------------------ */

static uint64_t *entry(uint64_t va)
{
	return lg_entry(&guest, lg_directory(&guest, worker_mm), va);
}

static uint64_t *word(uint64_t table, uint32_t index)
{
	return (uint64_t *)lg_at(&guest, table) + index;
}

static uint64_t led_to(uint64_t table, uint32_t index)
{
	return *word(table, index) & UINT64_C(0xfffffffff000);
}

/* Tables of the address space that the tests look at. */
static struct {
	uint64_t l0, low1, low2, block2, low3, high1, high2, high3;
} at;

#define HIGH UINT64_C(0x7f0000000000) /* of entry 254 of level 0 */

/*
 * Of several levels, sparse: pages at 4 MiB and near the end, a block beside a hole, words that only look
 * like a table, and an entry that leads back to its own table.
 */
static void make_tables(void)
{
	*entry(0x400000) = 0x40000fc3;
	*entry(0x5ff000) = 0x40001fc3;
	*entry(HIGH + 0x12345000) = 0x40002fc3;
	at.l0 = lg_directory(&guest, worker_mm);
	at.low1 = led_to(at.l0, 0);
	at.low2 = led_to(at.low1, 0);
	at.low3 = led_to(at.low2, 2);
	at.high1 = led_to(at.l0, 254);
	at.high2 = led_to(at.high1, 0);
	at.high3 = led_to(at.high2, 0x12345000 >> 21);
	at.block2 = lg_pages(&guest, 1);
	*word(at.low1, 1) = at.block2 | 3;
	*word(at.block2, 7) = 0x40200000 | 0x701; // a block of 2 MiB
	*word(at.low1, 2) = 0x40000000 | 0x701;	  // one of 1 GiB
	*word(at.low1, 3) = at.low2 | 2;	  // not valid
	*word(at.low1, 5) = at.low1 | 3;	  // itself
	*word(at.l0, 3) = 0x40000000 | 1;	  // reserved at this level
}

#define L1(i) ((uint64_t)(i) << 30)
#define L2(i) ((uint64_t)(i) << 21)

static void expect_table(uint32_t i, int level, uint64_t table, uint64_t first)
{
	const struct view_table *t = &view.table[i];
	const uint64_t size = UINT64_C(4096) << 9 * (3 - level);

	ck_assert_uint_lt(i, view.tables);
	ck_assert_msg(t->at == table, "table %u is at %#lx", i, (unsigned long)t->at);
	ck_assert_uint_eq(t->entries, 512);
	ck_assert_uint_eq(t->first, first);
	ck_assert_uint_eq(t->end, first + 512 * size);
	ck_assert_mem_eq(t->entry, lg_at(&guest, table), 4096);
	ck_assert_int_eq(view.task[t->task].r.pid, 100);
}

START_TEST(page_tables_are_copied_from_the_first_on)
{
	make_tables();
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0);
	ck_assert(result.complete);
	expect_honoured(KCD_SS_REQ_PAGE_TABLES);
	ck_assert_uint_eq(view.pagetable_mask, UINT32_MAX);
	ck_assert_uint_eq(view.tables, 12);
	expect_table(0, 0, at.l0, 0);
	expect_table(1, 1, at.low1, 0);
	expect_table(2, 2, at.low2, 0);
	expect_table(3, 3, at.low3, 0x400000);
	expect_table(4, 2, at.block2, L1(1));
	// the one that leads to itself ends with the levels
	expect_table(5, 2, at.low1, L1(5));
	expect_table(6, 3, at.low2, L1(5));
	expect_table(7, 3, at.block2, L1(5) + L2(1));
	expect_table(8, 3, at.low1, L1(5) + L2(5));
	expect_table(9, 1, at.high1, HIGH);
	expect_table(10, 2, at.high2, HIGH);
	expect_table(11, 3, at.high3, HIGH + 0x12200000);
	// all threads are there as well
	ck_assert_uint_eq(view_task(&view, 100)->count, 3);
	ck_assert_uint_eq(result.tries, 1);
}
END_TEST

START_TEST(only_levels_that_are_selected_are_copied)
{
	static const struct {
		uint64_t mask;
		uint32_t levels; /* of the tables copied, bits */
		uint32_t tables;
	} rows[] = {
		{ 0x1, 0x1, 1 },	 { 0x2, 0x2, 2 },
		{ 0x4, 0x4, 4 },	 { 0x8, 0x8, 5 },
		{ 0x9, 0x9, 6 },	 { 0x6, 0x6, 6 },
		{ 0x8000000f, 0xf, 12 }, { UINT64_MAX, 0xf, 12 },
		{ 0x80000000, 0, 0 }, // there is no level -1 here
	};

	make_tables();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		expect_capture(100, KCD_SS_REQ_PAGE_TABLES, rows[i].mask);
		ck_assert(result.complete);
		ck_assert_uint_eq(view.pagetable_mask, (uint32_t)rows[i].mask);
		ck_assert_uint_eq(view.tables, rows[i].tables);
		for (uint32_t t = 0; t < view.tables; t++) {
			const struct view_table *v = &view.table[t];
			int lsb = __builtin_ctzll((v->end - v->first) / v->entries);

			ck_assert(BIT(rows[i].levels, 3 - (lsb - 12) / 9));
		}
	}
}
END_TEST

START_TEST(page_tables_of_a_process_whose_leader_has_ended_are_those_of_its_threads)
{
	make_tables();
	worker->task->mm = 0;
	expect_capture(100, ALL_FLAGS, 0);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tables, 12);
}
END_TEST

START_TEST(kernel_threads_have_no_page_tables)
{
	expect_capture(2, ALL_FLAGS, 0);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tables, 0);
	ck_assert(!view_task(&view, 2)->has_asid);
	expect_honoured(ALL_FLAGS & ~KCD_SS_SAVE_KEXT_LOADINFO);
}
END_TEST

// Not selected, and the last level: neither costs a read, or a word.
START_TEST(tables_that_cannot_be_read_are_counted_and_cost_what_is_below_them)
{
	const uint64_t outside = LG_RAM + LG_RAM_DEFAULT;

	make_tables();
	*word(at.l0, 0) = outside | 3;		     // with all that was below it
	*word(at.high2, 0) = (outside + 0x1000) | 3; // of the last level
	expect_capture(100, ALL_FLAGS, 0);
	const struct ss_missing_record *m = expect_one(SS_MISSING_PAGE_TABLES);
	ck_assert_str_eq(m->reason, "2 page tables of worker could not be read");
	ck_assert_uint_eq(m->count, 2);
	ck_assert_uint_eq(m->address, outside);
	ck_assert_int_eq(m->pid, 100);
	ck_assert_uint_eq(view.tables, 4);
	expect_table(0, 0, at.l0, 0);
	expect_table(1, 1, at.high1, HIGH);
	expect_table(2, 2, at.high2, HIGH);
	expect_table(3, 3, at.high3, HIGH + 0x12200000);
	ck_assert(view.times.faults[A64_NOT_RAM] >= 2);
	expect_honoured(ALL_FLAGS & ~KCD_SS_SAVE_KEXT_LOADINFO);
	// of levels that are only on the way
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0x4);
	m = expect_one(SS_MISSING_PAGE_TABLES);
	ck_assert_uint_eq(m->count, 1);
	ck_assert_uint_eq(view.tables, 1);
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0x1);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tables, 1);
}
END_TEST

START_TEST(page_directory_that_is_none_is_said)
{
	worker_mm->pgd = 0x1000;
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0);
	const struct ss_missing_record *m = expect_one(SS_MISSING_PAGE_TABLES);
	ck_assert_str_eq(m->reason, "the page directory of worker could not be found: malformed");
	ck_assert_uint_eq(m->address, worker->task->mm);
	ck_assert_uint_eq(view.tables, 0);
	ck_assert_uint_eq(view.threads, 3);
	worker_mm->pgd = LG_LINEAR + LG_RAM_DEFAULT - 4096; // a page of zeros
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tables, 1);
}
END_TEST

// The table of level 2 has entries at its start only, each to one that is no RAM: 2^27 of them.
START_TEST(tables_that_lead_to_each_other_end)
{
	const uint64_t nowhere = LG_RAM - 0x1000;
	const uint64_t l1 = lg_pages(&guest, 1), l2 = lg_pages(&guest, 1);

	for (uint32_t i = 0; i < 512; i++) {
		*word(lg_directory(&guest, worker_mm), i) = l1 | 3;
		*word(l1, i) = l2 | 3;
		*word(l2, i) = nowhere | 3;
	}
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0x8);
	ck_assert(!result.complete);
	ck_assert_uint_eq(view.tables, 0);
	ck_assert_uint_eq(view.missing_count, 2);
	const struct ss_missing_record *m = view_missing(&view, SS_MISSING_PAGE_TABLES, 0);
	ck_assert_uint_gt(m->count, 1000000);
	ck_assert_uint_le(m->count, 1 << 20);
	ck_assert_uint_eq(m->address, nowhere);
	ck_assert_str_eq(view_missing(&view, SS_MISSING_PAGE_TABLES, 1)->reason,
			 "page tables of worker after the first 1048576 were left alone: they seem "
			 "to lead to each other");
	ck_assert_uint_eq(view.threads, 3);
}
END_TEST

static const struct form {
	uint8_t granule_bits, va_bits;
	int level; /* the first one */
	uint32_t entries, below;
	uint64_t image; /* 0: the usual one */
} forms[] = {
	{ 12, 52, -1, 16, 512, 0 },   { 12, 39, 1, 512, 512, UINT64_C(0xffffffc008000000) },
	{ 14, 48, 0, 2, 2048, 0 },    { 14, 47, 1, 2048, 2048, UINT64_C(0xffffe3c84a000000) },
	{ 16, 52, 1, 1024, 8192, 0 },
};

// A table of 64 KiB is more than what records are given at once.
START_TEST(page_tables_of_all_forms_are_copied)
{
	const struct form *f = &forms[_i];
	const uint64_t va = (UINT64_C(1) << f->va_bits) - (UINT64_C(1) << f->granule_bits);

	session_end();
	make_guest(&(struct lg_form){ .granule_bits = f->granule_bits,
				      .va_bits = f->va_bits,
				      .voffset = f->image ? f->image - LG_IMAGE : 0,
				      .ram_size = UINT64_C(16) << 20 });
	*entry(va) = LG_RAM | 3; // the highest page there is
	expect_capture(100, ALL_FLAGS, 0);
	ck_assert(result.complete);
	ck_assert_uint_eq(view.tables, (uint32_t)(4 - f->level));
	for (uint32_t i = 0; i < view.tables; i++) {
		const struct view_table *t = &view.table[i];

		ck_assert_uint_eq(t->entries, i ? f->below : f->entries);
		ck_assert_uint_eq(t->end, UINT64_C(1) << f->va_bits);
		ck_assert_mem_eq(t->entry, lg_at(&guest, t->at), t->entries * 8);
	}
	ck_assert_uint_eq(view.table[0].at, lg_directory(&guest, worker_mm));
	ck_assert_uint_eq(view.table[0].first, 0);
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, SS_PAGETABLE_LEVEL(f->level));
	ck_assert_uint_eq(view.tables, 1);
	ck_assert_uint_eq(view.table[0].entries, f->entries);
}
END_TEST

/* --- room and time ---------------------------------------------------------------------------- */

/* A guest with so many tables of the last level, all in one of level 2 or in several. */
static void make_many(uint32_t tables)
{
	session_end();
	lg_create(&guest, &(struct lg_form){ .ram_size = UINT64_C(24) << 20 });
	lg_populate(&guest);
	give_memory();
	for (uint32_t i = 0; i < tables; i++)
		*entry(L2(i)) = 0x40000fc3 + i;
	session_begin();
}

static void expect_many(uint32_t tables)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < view.tables; i++) {
		uint64_t first;

		if (view.table[i].end - view.table[i].first != L2(1))
			continue;
		ck_assert_uint_eq(view.table[i].first, L2(last));
		memcpy(&first, view.table[i].entry, 8);
		ck_assert_uint_eq(first, 0x40000fc3 + last++);
	}
	ck_assert_uint_eq(last, tables);
}

START_TEST(tables_that_need_more_room_are_captured_in_a_second_try)
{
	make_many(900); // some 3.7 MiB
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0);
	ck_assert(result.complete);
	ck_assert_uint_eq(result.tries, 2);
	expect_many(900);
	ck_assert_uint_eq(view.threads, 3);
	// fewer levels need less
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0x7);
	ck_assert_uint_eq(result.tries, 1);
	ck_assert_uint_eq(view.tables, 4);
}
END_TEST

START_TEST(tables_over_the_limit_are_a_shortage_that_says_so)
{
	make_many(2100); // over 8 MiB, the most for a guest of so little memory
	ck_assert_int_eq(capture(100, KCD_SS_REQ_PAGE_TABLES, 0), GS_ENOSPC);
	ck_assert_msg(strstr(error.text, "the page tables need more than 8388608 bytes"), "%s",
		      error.text);
	expect_capture(100, KCD_SS_REQ_PAGE_TABLES, 0x7);
	ck_assert(result.complete);
	expect_capture(100, 0, 0);
	ck_assert(result.complete);
}
END_TEST

START_TEST(panic_without_room_for_tables_keeps_the_threads)
{
	uint32_t most = 0;

	make_many(100);
	for (uint64_t size = 16 << 10; size <= 512 << 10; size += 16 << 10) {
		ss_session_destroy(session);
		session_options.panic_buffer = size;
		session_begin();
		expect_capture(100, KCD_SS_REQ_PAGE_TABLES | KCD_SS_FROM_PANIC, 0);
		ck_assert_uint_eq(view.threads, 3);
		ck_assert_uint_ge(view.tables, most);
		most = view.tables;
		if (most < 103) {
			const struct ss_missing_record *m = expect_one(SS_MISSING_PAGE_TABLES);
			ck_assert_msg(strstr(m->reason, "the buffer was full after"), "%s",
				      m->reason);
		}
	}
	ck_assert_uint_eq(most, 103);
	ck_assert(result.complete);
	expect_many(100);
}
END_TEST

// Whatever it was that the deadline cut is said, and what is there is whole.
START_TEST(deadline_leaves_the_tables_that_were_read_by_then)
{
	struct ss_request q = session_request(100);
	uint32_t cut = 0;

	make_many(900);
	q.flags = KCD_SS_REQ_PAGE_TABLES | KCD_SS_REQ_ASID;
	q.size_hint = UINT64_C(6) << 20;
	ck_assert_int_eq(session_capture_with(&q), GS_OK);
	for (uint64_t us = 1; us < 4000000; us += us / 5 + 1) {
		q.deadline_ns = gs_clock_ns() + us * 1000;
		ck_assert_int_eq(session_capture_with(&q), GS_OK);
		ck_assert_uint_eq(result.tries, 1);
		if (result.complete)
			break;
		if (view.threads == 3 && view.tables) {
			const struct ss_missing_record *m = expect_one(SS_MISSING_PAGE_TABLES);
			char text[100];

			snprintf(text, sizeof(text),
				 "the deadline passed after %u page tables of worker", view.tables);
			ck_assert_str_eq(m->reason, text);
			cut++;
		}
	}
	ck_assert(result.complete);
	expect_many(900);
	ck_assert_uint_gt(cut, 0);
}
END_TEST

/* --- the stopped interval --------------------------------------------------------------------- */

START_TEST(nothing_is_allocated_or_locked_while_tables_are_copied)
{
	struct ss_request q = session_request(100);

	make_tables();
	*word(at.l0, 9) = (LG_RAM - 0x1000) | 3; // something that is missing, too
	trap_reset();
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs; // its assertion allocates
	trap_while_stopped(&guest);
	for (int round = 0; round < 4; round++) {
		q.pid = round % 2 ? SS_PID_ALL : 100;
		q.flags = round % 2 ? FLAGS : ALL_FLAGS;
		ck_assert_int_eq(session_capture_only(&q), GS_OK);
		ck_assert_msg(trap_calls == 0, "%s while the guest was stopped", trap_first);
	}
	view_read(&view, &result);
	ck_assert_uint_eq(view_task(&view, 100)->asid, 0x4321);
}
END_TEST

static void teardown(void)
{
	trap_reset();
	session_end();
}

/* With one worker, and with three: nothing is different. */
static void setup_three(void)
{
	session_options.workers = 3;
	setup();
}

static void add_tests(TCase *tc)
{
	tcase_add_test(tc, nothing_of_it_is_recorded_unasked);
	tcase_add_test(tc, page_counts_are_in_the_head);
	tcase_add_test(tc, idle_task_says_where_the_kernel_lies);
	tcase_add_test(tc, kernel_without_a_build_id_has_zeros_for_it);
	tcase_add_test(tc, flags_that_cannot_be_honoured_are_dropped);
	tcase_add_test(tc, guest_without_a_kernel_honours_none);
	tcase_add_test(tc, nothing_that_was_read_after_the_deadline_is_claimed);
	tcase_add_test(tc, page_counts_that_cannot_be_read_are_dropped);
	tcase_add_test(tc, each_process_with_an_address_space_has_its_asid);
	tcase_add_test(tc, asid_of_a_process_whose_leader_has_ended_is_that_of_its_threads);
	tcase_add_test(tc, asid_that_cannot_be_read_is_said);
	tcase_add_test(tc, page_tables_are_copied_from_the_first_on);
	tcase_add_test(tc, only_levels_that_are_selected_are_copied);
	tcase_add_test(tc,
		       page_tables_of_a_process_whose_leader_has_ended_are_those_of_its_threads);
	tcase_add_test(tc, kernel_threads_have_no_page_tables);
	tcase_add_test(tc, tables_that_cannot_be_read_are_counted_and_cost_what_is_below_them);
	tcase_add_test(tc, page_directory_that_is_none_is_said);
	tcase_add_test(tc, tables_that_lead_to_each_other_end);
	tcase_add_loop_test(tc, page_tables_of_all_forms_are_copied, 0, ARRAY_SIZE(forms));
	tcase_add_test(tc, tables_that_need_more_room_are_captured_in_a_second_try);
	tcase_add_test(tc, tables_over_the_limit_are_a_shortage_that_says_so);
	tcase_add_test(tc, panic_without_room_for_tables_keeps_the_threads);
	tcase_add_test(tc, deadline_leaves_the_tables_that_were_read_by_then);
	tcase_add_test(tc, nothing_is_allocated_or_locked_while_tables_are_copied);
}

Suite *suite_memory(void)
{
	Suite *s = suite_create("memory");
	TCase *one = tcase_create("one worker"), *three = tcase_create("three workers");

	tcase_set_timeout(one, 300);
	tcase_set_timeout(three, 300);
	tcase_add_checked_fixture(one, setup, teardown);
	tcase_add_checked_fixture(three, setup_three, teardown);
	add_tests(one);
	add_tests(three);
	suite_add_tcase(s, one);
	suite_add_tcase(s, three);
	return s;
}
