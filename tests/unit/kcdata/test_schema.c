/* SPDX-License-Identifier: Apache-2.0 */
/* The table of types against the layouts of the format, as literal numbers. */
#include <stdio.h>

#include "kcdata/schema.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/kcdata/suites.h"

/* Layouts of section 4.2 of the format: offset and name of each field, and the size. */
static const struct {
	uint32_t code;
	uint32_t size;
	const char *fields;
} layout[] = {
	{ 0x30, 20, "0 u32 imageLoadAddress 4 u8[16] imageUUID" },
	{ 0x31, 24, "0 u64 imageLoadAddress 8 u8[16] imageUUID" },
	{ 0x32, 8, "0 u32 numer 4 u32 denom" },
	{ 0x34, 16, "0 i64 tv_sec 8 i64 tv_usec" },
	{ 0x39, 56,
	  "0 u64 x86LoadAddress 8 u64 aotLoadAddress 16 u64 aotImageSize 24 u8[32] aotImageKey" },
	{ 0x901, 160,
	  "0 u64 ss_disk_reads_count 8 u64 ss_disk_reads_size 16 u64 ss_disk_writes_count "
	  "24 u64 ss_disk_writes_size 32 u64[4] ss_io_priority_count "
	  "64 u64[4] ss_io_priority_size 96 u64 ss_paging_count 104 u64 ss_paging_size "
	  "112 u64 ss_non_paging_count 120 u64 ss_non_paging_size 128 u64 ss_data_count "
	  "136 u64 ss_data_size 144 u64 ss_metadata_count 152 u64 ss_metadata_size" },
	{ 0x902, 61,
	  "0 u32 snapshot_magic 4 u32 free_pages 8 u32 active_pages 12 u32 inactive_pages "
	  "16 u32 purgeable_pages 20 u32 wired_pages 24 u32 speculative_pages "
	  "28 u32 throttled_pages 32 u32 filebacked_pages 36 u32 compressions "
	  "40 u32 decompressions 44 u32 compressor_size 48 i32 busy_buffer_count "
	  "52 u32 pages_wanted 56 u32 pages_reclaimed 60 u8 pages_wanted_reclaimed_valid" },
	{ 0x905, 120,
	  "0 u64 ts_unique_pid 8 u64 ts_ss_flags 16 u64 ts_user_time_in_terminated_thre "
	  "24 u64 ts_system_time_in_terminated_th 32 u64 ts_p_start_sec 40 u64 ts_task_size "
	  "48 u64 ts_max_resident_size 56 u32 ts_suspend_count 60 u32 ts_faults "
	  "64 u32 ts_pageins 68 u32 ts_cow_faults 72 u32 ts_was_throttled "
	  "76 u32 ts_did_throttle 80 u32 ts_latency_qos 84 i32 ts_pid 88 char[32] ts_p_comm" },
	{ 0x906, 128,
	  "0 u64 ths_thread_id 8 u64 ths_wait_event 16 u64 ths_continuation "
	  "24 u64 ths_total_syscalls 32 u64 ths_voucher_identifier 40 u64 ths_dqserialnum "
	  "48 u64 ths_user_time 56 u64 ths_sys_time 64 u64 ths_ss_flags 72 u64 ths_last_run_time "
	  "80 u64 ths_last_made_runnable_time 88 u32 ths_state 92 u32 ths_sched_flags "
	  "96 i16 ths_base_priority 98 i16 ths_sched_priority 100 u8 ths_eqos 101 u8 ths_rqos "
	  "102 u8 ths_rqos_override 103 u8 ths_io_tier 104 u64 ths_thread_t "
	  "112 u64 ths_requested_policy 120 u64 ths_effective_policy" },
	{ 0x908, 48,
	  "0 u64 imageLoadAddress 8 u8[16] imageUUID 24 u64 imageSlidBaseAddress "
	  "32 u64 sharedCacheSlidFirstMapping 40 u32 sharedCacheID 44 u32 sharedCacheFlags" },
	{ 0x90B, 16, "0 u64 lr 8 u64 sp" },
	{ 0x90C, 8, "0 u32 lr 4 u32 sp" },
	{ 0x914, 8, "0 u64 lr" },
	{ 0x915, 4, "0 u32 lr" },
	{ 0x919, 24, "0 u64 user_usec 8 u64 system_usec 16 u64 runnable_usec" },
	{ 0x91A, 24,
	  "0 u64 stackshot_duration 8 u64 stackshot_duration_outer "
	  "16 u64 stackshot_duration_prior" },
	{ 0x91B, 21,
	  "0 u32 sfs_pages_faulted_in 4 u64 sfs_time_spent_faulting "
	  "12 u64 sfs_system_max_fault_time 20 u8 sfs_stopped_faulting" },
	{ 0x91D, 31,
	  "0 u64 owner 8 u64 waiter 16 u64 context 24 u8 wait_type 25 i16 portlabel_id "
	  "27 u32 wait_flags" },
	{ 0x91E, 48,
	  "0 u64 tgs_id 8 char[16] tgs_name 24 u64 tgs_flags 32 char[16] tgs_name_cont" },
	{ 0x920, 32,
	  "0 u64 jcs_id 8 u64 jcs_flags 16 u64 jcs_thread_group 24 u64 jcs_leader_task_uniqueid" },
	{ 0x923, 32,
	  "0 u64 ics_instructions 8 u64 ics_cycles 16 u64 ics_p_instructions "
	  "24 u64 ics_p_cycles" },
	{ 0x924, 16, "0 u64 sp 8 u8[8] stack_contents" },
	{ 0x929, 28,
	  "0 u64 waiter 8 u64 turnstile_context 16 u8 turnstile_priority 17 u8 number_of_hops "
	  "18 u64 turnstile_flags 26 i16 portlabel_id" },
	{ 0x92A, 8, "0 i32 cputype 4 i32 cpusubtype" },
	{ 0x92B, 96,
	  "0 u64 latency_version 8 u64 setup_latency 16 u64 total_task_iteration_latency "
	  "24 u64 total_terminated_task_iteration 32 u64 task_queue_building_latency_mt "
	  "40 u64 terminated_task_queue_building_latency_mt 48 u64 cpu_wait_latency_mt "
	  "56 i32 main_cpu_number 60 i32 calling_cpu_number 64 u64 buffer_size "
	  "72 u64 buffer_used 80 u64 buffer_overhead 88 u64 buffer_count" },
	{ 0x92C, 80,
	  "0 u64 task_uniqueid 8 u64 setup_latency 16 u64 task_thread_count_loop_latency "
	  "24 u64 task_thread_data_loop_latency 32 u64 cur_tsnap_latency 40 u64 pmap_latency "
	  "48 u64 bsd_proc_ids_latency 56 u64 misc_latency 64 u64 misc2_latency "
	  "72 u64 end_latency" },
	{ 0x92D, 80,
	  "0 u64 thread_id 8 u64 cur_thsnap1_latency 16 u64 dispatch_serial_latency "
	  "24 u64 dispatch_label_latency 32 u64 cur_thsnap2_latency 40 u64 thread_name_latency "
	  "48 u64 sur_times_latency 56 u64 user_stack_latency 64 u64 kernel_stack_latency "
	  "72 u64 misc_latency" },
	{ 0x92F, 48,
	  "0 u64 x86SlidBaseAddress 8 u8[16] x86UUID 24 u64 aotSlidBaseAddress "
	  "32 u8[16] aotUUID" },
	{ 0x930, 60,
	  "0 u64 tts_unique_pid 8 u64 tts_ss_flags 16 u64 tts_transition_type 24 i32 tts_pid "
	  "28 char[32] tts_p_comm" },
	{ 0x935, 5, "0 i16 portlabel_id 2 u16 portlabel_flags 4 u8 portlabel_domain" },
	{ 0x938, 32,
	  "0 u64 tss_last_start 8 u64 tss_last_end 16 u64 tss_count 24 u64 tss_duration" },
	{ 0x939, 85, "0 u64 tss_time 8 u64 tss_tid 16 i32 tss_pid 20 char[65] tss_procname" },
	{ 0x940, 76,
	  "0 u64 tds_unique_pid 8 u64 tds_ss_flags 16 u64 tds_user_time_in_terminated_thr "
	  "24 u64 tds_system_time_in_terminated_t 32 u64 tds_task_size "
	  "40 u64 tds_max_resident_size 48 u32 tds_suspend_count 52 u32 tds_faults "
	  "56 u32 tds_pageins 60 u32 tds_cow_faults 64 u32 tds_was_throttled "
	  "68 u32 tds_did_throttle 72 u32 tds_latency_qos" },
	{ 0x941, 64,
	  "0 u64 tds_thread_id 8 u64 tds_voucher_identifier 16 u64 tds_ss_flags "
	  "24 u64 tds_last_made_runnable_time 32 u32 tds_state 36 u32 tds_sched_flags "
	  "40 i16 tds_base_priority 42 i16 tds_sched_priority 44 u8 tds_eqos 45 u8 tds_rqos "
	  "46 u8 tds_rqos_override 47 u8 tds_io_tier 48 u64 tds_requested_policy "
	  "56 u64 tds_effective_policy" },
	{ 0x943, 48,
	  "0 u64 sharedCacheSlide 8 u8[16] sharedCacheUUID 24 u64 sharedCacheUnreliableSlidBaseAd "
	  "32 u64 sharedCacheSlidFirstMapping 40 u32 sharedCacheID 44 u32 sharedCacheFlags" },
	{ 0x946, 12, "0 u64 csflags 8 u32 cs_trust_level" },
	{ 0x948, 16, "0 u64 tei_scid 8 u32 tei_thread_offset 12 u32 tei_flags" },
	{ 0x956, 88,
	  "0 i32 cpu_number 4 i32 cluster_type 8 u64 init_latency_mt 16 u64 workqueue_latency_mt "
	  "24 u64 total_latency_mt 32 u64 total_cycles 40 u64 total_instrs "
	  "48 u64 tasks_processed 56 u64 threads_processed 64 u64 faulting_time_mt "
	  "72 u64 total_buf 80 u64 intercluster_buf_used" },
};

/* Fields as in the table above. */
static void describe(const struct kcd_type *t, char *out, size_t size)
{
	static const char *const kind[] = { "?",   "char", "i8",  "u8",	 "i16",
					    "u16", "i32",  "u32", "i64", "u64" };
	size_t n = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < t->field_count; i++) {
		const struct kcd_field *f = &t->fields[i];
		char count[16] = "";

		if (f->count)
			snprintf(count, sizeof(count), "[%u]", f->count);
		n += (size_t)snprintf(out + n, size - n, "%s%u %s%s %s", i ? " " : "", f->offset,
				      kind[f->kind], count, f->name);
		ck_assert_uint_lt(n, size);
	}
}

START_TEST(layouts_are_those_of_the_format)
{
	for (size_t i = 0; i < COUNT_OF(layout); i++) {
		const struct kcd_type *t = kcd_schema_find(layout[i].code);
		static char fields[2048];

		ck_assert_msg(t != NULL, "%#x is missing", layout[i].code);
		ck_assert_uint_eq(t->size, layout[i].size);
		describe(t, fields, sizeof(fields));
		ck_assert_str_eq(fields, layout[i].fields);
	}
}
END_TEST

START_TEST(every_code_of_the_format_is_in_the_table)
{
	for (uint32_t code = 0x901; code <= 0x957; code++) {
		if (code > 0x939 && code < 0x940)
			continue; // a gap between two blocks
		ck_assert_msg(kcd_schema_find(code) != NULL, "%#x is missing", code);
	}
	for (uint32_t code = 0x30; code <= 0x39; code++)
		ck_assert_msg(kcd_schema_find(code) != NULL, "%#x is missing", code);
	ck_assert_ptr_null(kcd_schema_find(0x7777));
	ck_assert_ptr_null(kcd_schema_find(0x900));
	ck_assert_ptr_null(kcd_schema_find(UINT32_MAX));
}
END_TEST

START_TEST(the_table_is_in_order_and_each_type_is_whole)
{
	const struct kcd_schema *s = kcd_schema_builtin();

	for (size_t i = 0; i < s->count; i++) {
		const struct kcd_type *t = &s->types[i];
		uint32_t end = 0;

		ck_assert(i == 0 || s->types[i - 1].code < t->code);
		ck_assert_ptr_eq(kcd_schema_find(t->code), t);
		ck_assert_ptr_nonnull(t->name);
		ck_assert(t->legacy_padded == 0 || t->legacy_size < t->legacy_padded);
		switch ((enum kcd_form)t->form) {
		case KCD_FORM_STRUCT: ck_assert_uint_gt(t->field_count, 0); break;
		case KCD_FORM_SCALAR: ck_assert_uint_eq(t->field_count, 1); break;
		case KCD_FORM_STRING:
		case KCD_FORM_BYTES:
		case KCD_FORM_CONTAINER:
		case KCD_FORM_SPECIAL: ck_assert_uint_eq(t->field_count, 0); continue;
		}
		ck_assert_ptr_nonnull(t->key);
		for (uint32_t f = 0; f < t->field_count; f++) {
			ck_assert_uint_eq(t->fields[f].offset, end); // packed, no gaps
			end = t->fields[f].offset + kcd_field_size(&t->fields[f]);
		}
		ck_assert_uint_eq(end, t->size);
	}
}
END_TEST

START_TEST(a_callers_table_comes_before_the_builtin_one)
{
	static const struct kcd_field field[] = { { "value", 0, KCD_UINT64, 0, 0 } };
	static const struct kcd_type mine[] = {
		KCD_STRUCT_TYPE(0x11001, "MINE", "mine", field),
		KCD_STRUCT_TYPE(0x905, "OTHER_TASK", "other_task", field),
	};
	static const struct kcd_type more[] = { KCD_STRUCT_TYPE(0x11002, "MORE", "more", field) };
	static const struct kcd_schema second = { more, 1, NULL };
	static const struct kcd_schema first = { mine, 2, &second };

	ck_assert_ptr_eq(kcd_schema_find_in(&first, 0x11001), &mine[0]);
	ck_assert_ptr_eq(kcd_schema_find_in(&first, 0x11002), &more[0]);
	ck_assert_ptr_eq(kcd_schema_find_in(&first, 0x905), &mine[1]);
	ck_assert_ptr_eq(kcd_schema_find_in(NULL, 0x905), kcd_schema_find(0x905));
	ck_assert_ptr_eq(kcd_schema_find_in(&first, 0x906), kcd_schema_find(0x906));
	ck_assert_ptr_null(kcd_schema_find_in(&first, 0x11003));
}
END_TEST

START_TEST(kinds_have_the_sizes_of_definitions)
{
	static const uint32_t size[] = { 0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 0 };

	for (uint32_t kind = 0; kind < COUNT_OF(size); kind++)
		ck_assert_uint_eq(kcd_kind_size(kind), size[kind]);
	ck_assert_uint_eq(kcd_kind_size(UINT32_MAX), 0);
}
END_TEST

Suite *suite_schema(void)
{
	Suite *s = suite_create("schema");
	TCase *tc = tcase_create("schema");

	tcase_add_test(tc, layouts_are_those_of_the_format);
	tcase_add_test(tc, every_code_of_the_format_is_in_the_table);
	tcase_add_test(tc, the_table_is_in_order_and_each_type_is_whole);
	tcase_add_test(tc, a_callers_table_comes_before_the_builtin_one);
	tcase_add_test(tc, kinds_have_the_sizes_of_definitions);
	suite_add_tcase(s, tc);
	return s;
}
