/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from BTF: both generations of names, what may be absent, and broken blobs. */
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>

#include "base/util.h"
#include "introspect/linux/types.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/linux/suites.h"
#include "tests/unit/linux/typeinfo.h"

static struct lnx_types types;
static struct gs_error err;

static enum gs_code read_form(const struct typeinfo_form *form)
{
	size_t size;
	uint8_t *blob = typeinfo_make(form, &size);

	err = (struct gs_error){ 0 };
	memset(&types, 0x5a, sizeof(types));
	enum gs_code rc = lnx_types_read(blob, size, &types, &err);
	free(blob);
	return rc;
}

static void expect(enum lnx_member m, size_t offset, size_t size)
{
	ck_assert_msg(types.member[m].present, "member %d", m);
	ck_assert_msg(types.member[m].offset == offset, "member %d at %u", m,
		      (unsigned int)types.member[m].offset);
	ck_assert_msg(types.member[m].size == size, "member %d has %u bytes", m,
		      (unsigned int)types.member[m].size);
}

#define TASK(name, member)                                          \
	expect(LNX_M_TASK_##name, offsetof(struct lg_task, member), \
	       sizeof(((struct lg_task *)0)->member))

static void expect_task(void)
{
	TASK(STATE, state);
	TASK(STACK, stack);
	TASK(FLAGS, flags);
	TASK(PRIO, prio);
	TASK(STATIC_PRIO, static_prio);
	TASK(RT_PRIORITY, rt_priority);
	TASK(POLICY, policy);
	TASK(EXEC_START, exec_start);
	TASK(SUM_EXEC_RUNTIME, sum_exec_runtime);
	TASK(TASKS, tasks);
	TASK(MM, mm);
	TASK(EXIT_STATE, exit_state);
	TASK(PID, pid);
	TASK(TGID, tgid);
	TASK(REAL_PARENT, real_parent);
	TASK(GROUP_LEADER, group_leader);
	TASK(THREAD_NODE, thread_node);
	TASK(UTIME, utime);
	TASK(STIME, stime);
	TASK(NVCSW, nvcsw);
	TASK(NIVCSW, nivcsw);
	TASK(START_TIME, start_time);
	TASK(START_BOOTTIME, start_boottime);
	TASK(MIN_FLT, min_flt);
	TASK(MAJ_FLT, maj_flt);
	TASK(COMM, comm);
	TASK(SIGNAL, signal);
	TASK(CONTEXT_FP, fp);
	TASK(CONTEXT_SP, sp);
	TASK(CONTEXT_PC, pc);
	expect(LNX_M_SIGNAL_THREAD_HEAD, offsetof(struct lg_signal, thread_head), 16);
	expect(LNX_M_RQ_IDLE, offsetof(struct lg_rq, idle), 8);
	expect(LNX_M_RQ_CURR, offsetof(struct lg_rq, curr), 8);
	expect(LNX_M_RQ_CPU, offsetof(struct lg_rq, cpu), 4);
	expect(LNX_M_PT_REGS_REGS, 0, 31 * 8);
	expect(LNX_M_PT_REGS_PC, 256, 8);
	expect(LNX_M_MM_PGD, offsetof(struct lg_mm, pgd), 8);
	expect(LNX_M_MM_CONTEXT_ID, offsetof(struct lg_mm, context_id), 8);
	expect(LNX_M_MODULE_STATE, offsetof(struct lg_module, state), 4);
	expect(LNX_M_MODULE_LIST, offsetof(struct lg_module, list), 16);
	expect(LNX_M_MODULE_NAME, offsetof(struct lg_module, name), LG_MODULE_NAME_SIZE);
	expect(LNX_M_MODULE_BUILD_ID, offsetof(struct lg_module, build_id), 20);
	expect(LNX_M_MODULE_KALLSYMS, offsetof(struct lg_module, kallsyms), 8);
	expect(LNX_M_MOD_KALLSYMS_SYMTAB, 8, 8);
	expect(LNX_M_MOD_KALLSYMS_NUM_SYMTAB, 16, 4);
	expect(LNX_M_MOD_KALLSYMS_STRTAB, 24, 8);
	ck_assert_uint_eq(types.task_size, sizeof(struct lg_task));
}

static void expect_counter(enum lnx_counter c, bool of_nodes, uint32_t index)
{
	ck_assert_msg(types.counter[c].present, "%s", lnx_counter_name(c));
	ck_assert_int_eq(types.counter[c].of_nodes, of_nodes);
	ck_assert_uint_eq(types.counter[c].index, index);
}

static void expect_counters(void)
{
	expect_counter(LNX_C_FREE_PAGES, false, LG_NR_FREE_PAGES);
	expect_counter(LNX_C_ACTIVE_ANON, true, LG_NR_ACTIVE_ANON);
	expect_counter(LNX_C_ACTIVE_FILE, true, LG_NR_ACTIVE_FILE);
	expect_counter(LNX_C_INACTIVE_ANON, true, LG_NR_INACTIVE_ANON);
	expect_counter(LNX_C_INACTIVE_FILE, true, LG_NR_INACTIVE_FILE);
	expect_counter(LNX_C_UNEVICTABLE, true, LG_NR_UNEVICTABLE);
	expect_counter(LNX_C_SLAB_UNRECLAIMABLE, true, LG_NR_SLAB_UNRECLAIMABLE);
	expect_counter(LNX_C_FILE_PAGES, true, LG_NR_FILE_PAGES);
	expect_counter(LNX_C_ZSPAGES, false, LG_NR_ZSPAGES);
}

// S16; pid and tgid lie in an anonymous structure in an anonymous union, on_cpu has one byte.
START_TEST(members_of_new_kernels_are_found)
{
	ck_assert_int_eq(read_form(&(struct typeinfo_form){ 0 }), GS_OK);
	expect_task();
	TASK(CPU, thread_cpu);
	TASK(ON_CPU, on_cpu);
	expect(LNX_M_PT_REGS_STACKFRAME, 304, 16);
	ck_assert_uint_eq(types.pt_regs_size, 336);
	ck_assert(!types.has_frame_record_meta);
}
END_TEST

START_TEST(members_of_old_kernels_are_found)
{
	ck_assert_int_eq(read_form(&(struct typeinfo_form){ .old = true, .int_on_cpu = true }),
			 GS_OK);
	expect_task();
	TASK(CPU, cpu);
	expect(LNX_M_TASK_ON_CPU, offsetof(struct lg_task, on_cpu), 4);
}
END_TEST

START_TEST(frame_records_with_a_type_are_seen)
{
	ck_assert_int_eq(read_form(&(struct typeinfo_form){ .meta = true }), GS_OK);
	ck_assert(types.has_frame_record_meta);
	expect(LNX_M_PT_REGS_STACKFRAME, 296, 24);
	ck_assert_uint_eq(types.pt_regs_size, 320);
}
END_TEST

// Enumerators of 5.8 and before have another name for one of them.
START_TEST(counters_are_found_by_their_enumerators)
{
	for (int old = 0; old < 2; old++) {
		ck_assert_int_eq(read_form(&(struct typeinfo_form){ .old = old }), GS_OK);
		expect_counters();
	}
}
END_TEST

START_TEST(counters_that_are_absent_are_left_out)
{
	static const struct {
		const char *omit;
		uint32_t absent; /* bits by enum lnx_counter */
	} rows[] = {
		{ "zone_stat_item.NR_FREE_PAGES", 1u << LNX_C_FREE_PAGES },
		{ "node_stat_item.NR_FILE_PAGES", 1u << LNX_C_FILE_PAGES },
		{ "zone_stat_item", 1u << LNX_C_FREE_PAGES | 1u << LNX_C_ZSPAGES },
		{ "node_stat_item",
		  ((1u << LNX_COUNTERS) - 1) & ~(1u << LNX_C_FREE_PAGES | 1u << LNX_C_ZSPAGES) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct typeinfo_form form = { .omit = rows[i].omit, .small = true };

		ck_assert_msg(read_form(&form) == GS_OK, "%s: %s", rows[i].omit, err.text);
		for (uint32_t c = 0; c < LNX_COUNTERS; c++)
			ck_assert_int_eq(types.counter[c].present, !BIT(rows[i].absent, c));
	}
}
END_TEST

START_TEST(per_cpu_variables_have_their_offsets)
{
	ck_assert_int_eq(read_form(&(struct typeinfo_form){ 0 }), GS_OK);
	ck_assert(types.percpu[LNX_P_ENTRY_TASK].present);
	ck_assert_uint_eq(types.percpu[LNX_P_ENTRY_TASK].offset, LG_PERCPU_ENTRY_TASK);
	ck_assert_uint_eq(types.percpu[LNX_P_RUNQUEUES].offset, LG_PERCPU_RUNQUEUES);
	ck_assert_uint_eq(types.percpu[LNX_P_RUNQUEUES].size, sizeof(struct lg_rq));
	ck_assert_uint_eq(types.percpu[LNX_P_IRQ_STACK_PTR].offset, LG_PERCPU_IRQ_STACK_PTR);
	ck_assert_uint_eq(types.percpu[LNX_P_OVERFLOW_STACK].offset, LG_PERCPU_OVERFLOW_STACK);
}
END_TEST

START_TEST(kernels_without_a_per_cpu_section_are_fine)
{
	ck_assert_int_eq(read_form(&(struct typeinfo_form){ .no_percpu = true }), GS_OK);
	for (size_t i = 0; i < LNX_PERCPUS; i++)
		ck_assert(!types.percpu[i].present);
}
END_TEST

static const struct {
	const char *member, *text; /* text: what the error must contain */
} needed[] = {
	{ "task_struct.__state", "task_struct.__state|state" },
	{ "task_struct.stack", "task_struct.stack" },
	{ "task_struct.flags", "task_struct.flags" },
	{ "task_struct.tasks", "task_struct.tasks" },
	{ "task_struct.exit_state", "task_struct.exit_state" },
	{ "task_struct.pid", "task_struct.pid" },
	{ "task_struct.tgid", "task_struct.tgid" },
	{ "task_struct.real_parent", "task_struct.real_parent" },
	{ "task_struct.group_leader", "task_struct.group_leader" },
	{ "task_struct.thread_node", "task_struct.thread_node" },
	{ "task_struct.comm", "task_struct.comm" },
	{ "task_struct.signal", "task_struct.signal" },
	{ "task_struct.fp", "task_struct.thread.cpu_context.fp" },
	{ "task_struct.sp", "task_struct.thread.cpu_context.sp" },
	{ "task_struct.pc", "task_struct.thread.cpu_context.pc" },
	{ "task_struct.thread", "task_struct.thread.cpu_context.fp" },
	{ "signal_struct.thread_head", "signal_struct.thread_head" },
	{ "pt_regs.regs", "pt_regs.regs" },
	{ "pt_regs.pc", "pt_regs.pc" },
	{ "pt_regs.stackframe", "pt_regs.stackframe" },
	{ "task_struct", "task_struct." },
	{ "pt_regs", "pt_regs." },
	{ "signal_struct", "signal_struct." },
};

START_TEST(absent_member_that_is_needed_is_named)
{
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		struct typeinfo_form form = { .omit = needed[i].member, .small = true };

		ck_assert_msg(read_form(&form) == GS_ENOENT, "%s", needed[i].member);
		ck_assert_msg(strstr(err.text, needed[i].text), "%s: %s", needed[i].member,
			      err.text);
	}
}
END_TEST

static const struct {
	const char *name;
	enum lnx_member member;
} optional[] = {
	{ "task_struct.on_cpu", LNX_M_TASK_ON_CPU },
	{ "task_struct.prio", LNX_M_TASK_PRIO },
	{ "task_struct.policy", LNX_M_TASK_POLICY },
	{ "task_struct.se", LNX_M_TASK_EXEC_START },
	{ "task_struct.mm", LNX_M_TASK_MM },
	{ "task_struct.utime", LNX_M_TASK_UTIME },
	{ "task_struct.nvcsw", LNX_M_TASK_NVCSW },
	{ "task_struct.start_boottime", LNX_M_TASK_START_BOOTTIME },
	{ "task_struct.maj_flt", LNX_M_TASK_MAJ_FLT },
	{ "task_struct.thread_info", LNX_M_TASK_CPU },
	{ "rq", LNX_M_RQ_IDLE },
	{ "rq.cpu", LNX_M_RQ_CPU },
	{ "mm_struct", LNX_M_MM_PGD },
	{ "mm_struct.pgd", LNX_M_MM_PGD },
	{ "mm_struct.context", LNX_M_MM_CONTEXT_ID },
	{ "mm_struct.id", LNX_M_MM_CONTEXT_ID },
};

START_TEST(absent_member_that_is_not_needed_is_left_out)
{
	for (size_t i = 0; i < ARRAY_SIZE(optional); i++) {
		struct typeinfo_form form = { .omit = optional[i].name, .small = true };

		ck_assert_msg(read_form(&form) == GS_OK, "%s: %s", optional[i].name, err.text);
		ck_assert(!types.member[optional[i].member].present);
		TASK(PID, pid);
	}
}
END_TEST

START_TEST(member_outside_of_its_structure_does_not_count)
{
	ck_assert_int_eq(
		read_form(&(struct typeinfo_form){ .beyond = "task_struct.pid", .small = true }),
		GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "task_struct.pid"));
	ck_assert_int_eq(
		read_form(&(struct typeinfo_form){ .beyond = "task_struct.nvcsw", .small = true }),
		GS_OK);
	ck_assert(!types.member[LNX_M_TASK_NVCSW].present);
}
END_TEST

START_TEST(member_that_is_not_at_a_byte_does_not_count)
{
	ck_assert_int_eq(
		read_form(&(struct typeinfo_form){ .odd = "task_struct.signal", .small = true }),
		GS_ENOENT);
	ck_assert_int_eq(
		read_form(&(struct typeinfo_form){ .odd = "task_struct.prio", .small = true }),
		GS_OK);
	ck_assert(!types.member[LNX_M_TASK_PRIO].present);
}
END_TEST

/* --- blobs made by hand ----------------------------------------------------------------------- */

static enum gs_code read_btf(struct btf *btf)
{
	uint32_t size;
	const void *raw = btf__raw_data(btf, &size);

	ck_assert_ptr_nonnull(raw);
	err = (struct gs_error){ 0 };
	enum gs_code rc = lnx_types_read(raw, size, &types, &err);
	btf__free(btf);
	return rc;
}

// libbpf loads these; nothing after it may follow them for ever.
START_TEST(structure_that_contains_itself_ends)
{
	struct btf *btf = btf__new_empty();

	// anonymous, as often as its memory of places to look at allows
	ck_assert_int_eq(btf__add_struct(btf, "task_struct", 64), 1);
	for (int i = 0; i < 5000; i++)
		ck_assert_int_eq(btf__add_field(btf, NULL, 1, 0, 0), 0);
	ck_assert_int_eq(read_btf(btf), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "task_struct.__state|state"));
}
END_TEST

START_TEST(structures_that_contain_each_other_end)
{
	struct btf *btf = btf__new_empty();

	ck_assert_int_eq(btf__add_struct(btf, NULL, 64), 1);
	ck_assert_int_eq(btf__add_field(btf, NULL, 2, 0, 0), 0);
	ck_assert_int_eq(btf__add_field(btf, NULL, 2, 32, 0), 0);
	ck_assert_int_eq(btf__add_union(btf, NULL, 64), 2);
	ck_assert_int_eq(btf__add_field(btf, NULL, 1, 0, 0), 0);
	ck_assert_int_eq(btf__add_field(btf, NULL, 3, 0, 0), 0);
	ck_assert_int_eq(btf__add_struct(btf, "task_struct", 64), 3);
	ck_assert_int_eq(btf__add_field(btf, NULL, 1, 0, 0), 0);
	ck_assert_int_eq(btf__add_field(btf, NULL, 1, 0, 0), 0);
	ck_assert_int_eq(read_btf(btf), GS_ENOENT);
}
END_TEST

START_TEST(typedefs_and_arrays_in_a_circle_end)
{
	struct btf *btf = btf__new_empty();

	ck_assert_int_eq(btf__add_typedef(btf, "one", 2), 1);
	ck_assert_int_eq(btf__add_typedef(btf, "two", 1), 2);
	ck_assert_int_eq(btf__add_array(btf, 1, 3, UINT32_MAX), 3);
	ck_assert_int_eq(btf__add_struct(btf, "task_struct", 64), 4);
	ck_assert_int_eq(btf__add_field(btf, "__state", 1, 0, 0), 0);
	ck_assert_int_eq(btf__add_field(btf, "state", 3, 0, 0), 0);
	ck_assert_int_eq(read_btf(btf), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "task_struct.__state"));
}
END_TEST

START_TEST(sizes_that_overflow_do_not_count)
{
	struct btf *btf = btf__new_empty();
	int id = btf__add_int(btf, "unsigned long", 8, 0);

	for (int i = 0; i < 3; i++) // 2^3 * (2^32 - 1)^3
		id = btf__add_array(btf, 1, id, UINT32_MAX);
	ck_assert_int_gt(btf__add_struct(btf, "task_struct", UINT32_MAX), 0);
	ck_assert_int_eq(btf__add_field(btf, "__state", id, 0, 0), 0);
	ck_assert_int_eq(read_btf(btf), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "task_struct.__state"));
}
END_TEST

START_TEST(members_of_types_that_are_not_there_do_not_count)
{
	struct btf *btf = btf__new_empty();

	ck_assert_int_eq(btf__add_struct(btf, "task_struct", 64), 1);
	ck_assert_int_eq(btf__add_field(btf, "__state", 77777, 0, 0), 0);
	ck_assert_int_eq(btf__add_field(btf, NULL, 88888, 0, 0), 0);
	ck_assert_int_eq(read_btf(btf), GS_ENOENT);
}
END_TEST

static void add_enum(struct btf *btf, const char *in, const char *name, int64_t value)
{
	ck_assert_int_gt(btf__add_enum(btf, in, 4), 0);
	ck_assert_int_eq(btf__add_enum_value(btf, name, value), 0);
}

// No array is that long, and none begins before its first element.
START_TEST(counters_outside_of_any_array_do_not_count)
{
	static const struct {
		int64_t value;
		bool counts;
	} rows[] = { { -1, false },   { INT32_MIN, false }, { INT32_MAX, false },
		     { 1024, false }, { 1023, true },	    { 0, true } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		size_t size;
		uint8_t *blob = typeinfo_make(
			&(struct typeinfo_form){ .omit = "zone_stat_item", .small = true }, &size);
		struct btf *btf = btf__new(blob, (uint32_t)size);

		ck_assert_ptr_nonnull(btf);
		add_enum(btf, "zone_stat_item", "NR_FREE_PAGES", rows[i].value);
		ck_assert_msg(read_btf(btf) == GS_OK, "%s", err.text);
		ck_assert_int_eq(types.counter[LNX_C_FREE_PAGES].present, rows[i].counts);
		free(blob);
	}
}
END_TEST

START_TEST(truncated_blobs_are_malformed)
{
	size_t size;
	uint8_t *blob = typeinfo_make(&(struct typeinfo_form){ .small = true }, &size);

	for (size_t n = 0; n < size; n++) {
		uint8_t *copy = malloc(n ? n : 1);

		ck_assert_ptr_nonnull(copy);
		memcpy(copy, blob, n);
		ck_assert_int_eq(lnx_types_read(copy, n, &types, &err), GS_EMALFORMED);
		free(copy);
	}
	ck_assert_int_eq(lnx_types_read(blob, size, &types, &err), GS_OK);
	free(blob);
}
END_TEST

// S17
START_TEST(unknown_kind_is_malformed_and_no_crash)
{
	size_t size;
	uint8_t *blob = typeinfo_make(&(struct typeinfo_form){ .small = true }, &size);

	blob[24 + 7] = 31; // info of the first type: its kind
	ck_assert_int_eq(lnx_types_read(blob, size, &types, &err), GS_EMALFORMED);
	free(blob);
}
END_TEST

static void check_bounds(void)
{
	for (size_t m = 0; m <= LNX_M_TASK_LAST; m++)
		ck_assert(!types.member[m].present ||
			  gs_in_range(types.member[m].offset, types.member[m].size, 0,
				      types.task_size));
	for (size_t c = 0; c < LNX_COUNTERS; c++)
		ck_assert(!types.counter[c].present || types.counter[c].index < 1024);
	for (size_t m = LNX_M_PT_REGS_REGS; m <= LNX_M_PT_REGS_STACKFRAME; m++)
		ck_assert(gs_in_range(types.member[m].offset, types.member[m].size, 0,
				      types.pt_regs_size));
}

START_TEST(mutated_blobs_are_refused_or_give_offsets_in_bounds)
{
	size_t size;
	uint8_t *blob = typeinfo_make(&(struct typeinfo_form){ .small = true }, &size);
	uint8_t *copy = malloc(size);
	uint64_t seed = 20;
	int good = 0;

	ck_assert_ptr_nonnull(copy);
	for (int round = 0; round < 3000; round++) {
		memcpy(copy, blob, size);
		for (uint64_t k = 1 + prng_below(&seed, 6); k; k--) {
			size_t at = round % 10 ? 24 + prng_below(&seed, size - 24)
					       : prng_below(&seed, 24);
			copy[at] = (uint8_t)prng(&seed);
		}
		if (lnx_types_read(copy, size, &types, NULL) == GS_OK) {
			good++;
			check_bounds();
		}
	}
	ck_assert_int_gt(good, 100); // else the mutations are too wild to get anywhere
	free(copy);
	free(blob);
}
END_TEST

/* --- header ----------------------------------------------------------------------------------- */

static size_t header_size(uint32_t hdr_len, uint32_t type_off, uint32_t type_len, uint32_t str_off,
			  uint32_t str_len)
{
	uint8_t h[24] = { 0x9f, 0xeb, 1, 0 };
	uint32_t words[5] = { hdr_len, type_off, type_len, str_off, str_len };

	memcpy(h + 4, words, sizeof(words));
	return lnx_btf_size(h);
}

START_TEST(header_says_how_long_the_blob_is)
{
	const uint32_t most = UINT32_C(64) << 20;

	ck_assert_uint_eq(header_size(24, 0, 0x10000, 0x10000, 1), 24 + 0x10000 + 1);
	ck_assert_uint_eq(header_size(24, 0, most, most, most), 24 + 2 * (size_t)most);
	ck_assert_uint_eq(header_size(24, 0, 0xfffc, 0xfffc, 1), 0);
	ck_assert_uint_eq(header_size(24, 0, most + 4, most + 4, 1), 0);
	ck_assert_uint_eq(header_size(24, 0, most, most, most + 1), 0);
	ck_assert_uint_eq(header_size(24, 0, 0x10000, 0x10000, 0), 0);
	ck_assert_uint_eq(header_size(24, 0, 0x10000, 0x10004, 1), 0);
	ck_assert_uint_eq(header_size(24, 4, 0x10000, 0x10004, 1), 0);
	ck_assert_uint_eq(header_size(20, 0, 0x10000, 0x10000, 1), 0);
	ck_assert_uint_eq(header_size(24, 0, UINT32_MAX, UINT32_MAX, UINT32_MAX), 0);
	ck_assert_uint_eq(lnx_btf_size((const uint8_t[24]){ 0xeb, 0x9f, 1 }), 0);
	ck_assert_uint_eq(lnx_btf_size((const uint8_t[24]){ 0 }), 0);
}
END_TEST

START_TEST(more_bytes_than_any_kernel_has_are_too_big)
{
	// not looked at: only the size counts
	ck_assert_int_eq(lnx_types_read("", SIZE_MAX, &types, &err), GS_ETOOBIG);
	ck_assert_int_eq(lnx_types_read("", (size_t)UINT32_MAX + 100, &types, &err), GS_ETOOBIG);
}
END_TEST

Suite *suite_types(void)
{
	Suite *s = suite_create("types");
	TCase *tc = tcase_create("types");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, members_of_new_kernels_are_found);
	tcase_add_test(tc, members_of_old_kernels_are_found);
	tcase_add_test(tc, frame_records_with_a_type_are_seen);
	tcase_add_test(tc, counters_are_found_by_their_enumerators);
	tcase_add_test(tc, counters_that_are_absent_are_left_out);
	tcase_add_test(tc, per_cpu_variables_have_their_offsets);
	tcase_add_test(tc, kernels_without_a_per_cpu_section_are_fine);
	tcase_add_test(tc, absent_member_that_is_needed_is_named);
	tcase_add_test(tc, absent_member_that_is_not_needed_is_left_out);
	tcase_add_test(tc, member_outside_of_its_structure_does_not_count);
	tcase_add_test(tc, member_that_is_not_at_a_byte_does_not_count);
	tcase_add_test(tc, structure_that_contains_itself_ends);
	tcase_add_test(tc, structures_that_contain_each_other_end);
	tcase_add_test(tc, typedefs_and_arrays_in_a_circle_end);
	tcase_add_test(tc, sizes_that_overflow_do_not_count);
	tcase_add_test(tc, members_of_types_that_are_not_there_do_not_count);
	tcase_add_test(tc, counters_outside_of_any_array_do_not_count);
	tcase_add_test(tc, truncated_blobs_are_malformed);
	tcase_add_test(tc, unknown_kind_is_malformed_and_no_crash);
	tcase_add_test(tc, mutated_blobs_are_refused_or_give_offsets_in_bounds);
	tcase_add_test(tc, header_says_how_long_the_blob_is);
	tcase_add_test(tc, more_bytes_than_any_kernel_has_are_too_big);
	suite_add_tcase(s, tc);
	return s;
}
