/* SPDX-License-Identifier: Apache-2.0 */
/* The table of known types. Layouts come from the structures of stackshot_types.h. */
#include "kcdata/schema.h"

#include <stdio.h>
#include <string.h>

#include "kcdata/crashinfo_types.h"
#include "kcdata/stackshot_types.h"

uint32_t kcd_kind_size(uint32_t kind)
{
	static const uint8_t size[] = {
		[KCD_CHAR] = 1,	  [KCD_INT8] = 1,   [KCD_UINT8] = 1,
		[KCD_INT16] = 2,  [KCD_UINT16] = 2, [KCD_INT32] = 4,
		[KCD_UINT32] = 4, [KCD_INT64] = 8,  [KCD_UINT64] = 8,
	};

	return kind < sizeof(size) ? size[kind] : 0;
}

/* Members of the structure S: under their name; hexadecimal where a person reads; under another. */
#define F(member)	 KCD_FIELD(S, member)
#define X(member)	 KCD_FIELD_FLAGS(S, member, #member, KCD_FIELD_HEX)
#define N(member, name)	 KCD_FIELD_AS(S, member, name)
#define XN(member, name) KCD_FIELD_FLAGS(S, member, name, KCD_FIELD_HEX)

/* The only field of scalars; the key of the type is their name. */
static const struct kcd_field u8_value[] = { { "value", 0, KCD_UINT8, 0, 0 } };
static const struct kcd_field i32_value[] = { { "value", 0, KCD_INT32, 0, 0 } };
static const struct kcd_field u32_value[] = { { "value", 0, KCD_UINT32, 0, 0 } };
static const struct kcd_field i64_value[] = { { "value", 0, KCD_INT64, 0, 0 } };
static const struct kcd_field u64_value[] = { { "value", 0, KCD_UINT64, 0, 0 } };
static const struct kcd_field x64_value[] = { { "value", 0, KCD_UINT64, KCD_FIELD_HEX, 0 } };

static const struct kcd_field lr32[] = { { "lr", 0, KCD_UINT32, KCD_FIELD_HEX, 0 } };
static const struct kcd_field lr64[] = { { "lr", 0, KCD_UINT64, KCD_FIELD_HEX, 0 } };

#define S struct kcd_uuid_info_32
static const struct kcd_field load_info_32[] = { X(imageLoadAddress), F(imageUUID) };
#undef S
#define S struct kcd_uuid_info
static const struct kcd_field load_info[] = { X(imageLoadAddress), F(imageUUID) };
#undef S
#define S struct kcd_timebase
static const struct kcd_field timebase[] = { F(numer), F(denom) };
#undef S
#define S struct kcd_timeval
static const struct kcd_field timeval[] = { F(tv_sec), F(tv_usec) };
#undef S
#define S struct kcd_aot_info
static const struct kcd_field aot_info[] = { X(x86LoadAddress), X(aotLoadAddress), F(aotImageSize),
					     F(aotImageKey) };
#undef S

#define S struct kcd_io_stats
static const struct kcd_field io_stats[] = {
	F(ss_disk_reads_count), F(ss_disk_reads_size),	 F(ss_disk_writes_count),
	F(ss_disk_writes_size), F(ss_io_priority_count), F(ss_io_priority_size),
	F(ss_paging_count),	F(ss_paging_size),	 F(ss_non_paging_count),
	F(ss_non_paging_size),	F(ss_data_count),	 F(ss_data_size),
	F(ss_metadata_count),	F(ss_metadata_size),
};
#undef S
#define S struct kcd_mem_and_io
static const struct kcd_field mem_and_io[] = {
	X(snapshot_magic),    F(free_pages),
	F(active_pages),      F(inactive_pages),
	F(purgeable_pages),   F(wired_pages),
	F(speculative_pages), F(throttled_pages),
	F(filebacked_pages),  F(compressions),
	F(decompressions),    F(compressor_size),
	F(busy_buffer_count), F(pages_wanted),
	F(pages_reclaimed),   F(pages_wanted_reclaimed_valid),
};
#undef S

/* Names of more than 31 characters are cut in the stock readers' JSON. */
#define S struct kcd_task_snapshot_v2
static const struct kcd_field task_snapshot[] = {
	F(ts_unique_pid),
	X(ts_ss_flags),
	N(ts_user_time_in_terminated_threads, "ts_user_time_in_terminated_thre"),
	N(ts_system_time_in_terminated_threads, "ts_system_time_in_terminated_th"),
	F(ts_p_start_sec),
	F(ts_task_size),
	F(ts_max_resident_size),
	F(ts_suspend_count),
	F(ts_faults),
	F(ts_pageins),
	F(ts_cow_faults),
	F(ts_was_throttled),
	F(ts_did_throttle),
	X(ts_latency_qos),
	F(ts_pid),
	F(ts_p_comm),
};
#undef S
#define S struct kcd_task_delta_snapshot_v2
static const struct kcd_field task_delta_snapshot[] = {
	F(tds_unique_pid),
	X(tds_ss_flags),
	N(tds_user_time_in_terminated_threads, "tds_user_time_in_terminated_thr"),
	N(tds_system_time_in_terminated_threads, "tds_system_time_in_terminated_t"),
	F(tds_task_size),
	F(tds_max_resident_size),
	F(tds_suspend_count),
	F(tds_faults),
	F(tds_pageins),
	F(tds_cow_faults),
	F(tds_was_throttled),
	F(tds_did_throttle),
	X(tds_latency_qos),
};
#undef S
#define S struct kcd_transitioning_task_snapshot
static const struct kcd_field transitioning_task[] = { F(tts_unique_pid), X(tts_ss_flags),
						       F(tts_transition_type), F(tts_pid),
						       F(tts_p_comm) };
#undef S

#define S struct kcd_thread_snapshot_v4
static const struct kcd_field thread_snapshot[] = {
	F(ths_thread_id),
	X(ths_wait_event),
	X(ths_continuation),
	F(ths_total_syscalls),
	F(ths_voucher_identifier),
	F(ths_dqserialnum),
	F(ths_user_time),
	F(ths_sys_time),
	X(ths_ss_flags),
	F(ths_last_run_time),
	F(ths_last_made_runnable_time),
	X(ths_state),
	X(ths_sched_flags),
	F(ths_base_priority),
	F(ths_sched_priority),
	F(ths_eqos),
	F(ths_rqos),
	F(ths_rqos_override),
	F(ths_io_tier),
	X(ths_thread_t),
	X(ths_requested_policy),
	X(ths_effective_policy),
};
#undef S
#define S struct kcd_thread_delta_snapshot_v3
static const struct kcd_field thread_delta_snapshot[] = {
	F(tds_thread_id),
	F(tds_voucher_identifier),
	X(tds_ss_flags),
	F(tds_last_made_runnable_time),
	X(tds_state),
	X(tds_sched_flags),
	F(tds_base_priority),
	F(tds_sched_priority),
	F(tds_eqos),
	F(tds_rqos),
	F(tds_rqos_override),
	F(tds_io_tier),
	X(tds_requested_policy),
	X(tds_effective_policy),
};
#undef S

#define S struct kcd_sharedcache_info_v4
static const struct kcd_field sharedcache_loadinfo[] = {
	/* 0x908: older names */
	XN(sharedCacheSlide, "imageLoadAddress"),
	N(sharedCacheUUID, "imageUUID"),
	XN(sharedCacheUnreliableSlidBaseAddress, "imageSlidBaseAddress"),
	X(sharedCacheSlidFirstMapping),
	F(sharedCacheID),
	X(sharedCacheFlags),
};
static const struct kcd_field sharedcache_info[] = {
	/* 0x943 */
	X(sharedCacheSlide),
	F(sharedCacheUUID),
	XN(sharedCacheUnreliableSlidBaseAddress, "sharedCacheUnreliableSlidBaseAd"),
	X(sharedCacheSlidFirstMapping),
	F(sharedCacheID),
	X(sharedCacheFlags),
};
#undef S
#define S struct kcd_aotcache_info
static const struct kcd_field aotcache_info[] = { X(x86SlidBaseAddress), F(x86UUID),
						  X(aotSlidBaseAddress), F(aotUUID) };
#undef S
#define S struct kcd_stackframe
static const struct kcd_field stackframe[] = { X(lr), X(sp) };
#undef S
#define S struct kcd_stackframe64
static const struct kcd_field stackframe64[] = { X(lr), X(sp) };
#undef S
#define S struct kcd_user_stacktop
static const struct kcd_field user_stacktop[] = { X(sp), F(stack_contents) };
#undef S

#define S struct kcd_cpu_times_v2
static const struct kcd_field cpu_times[] = { F(user_usec), F(system_usec), F(runnable_usec) };
#undef S
#define S struct kcd_duration_v2
static const struct kcd_field duration[] = { F(stackshot_duration), F(stackshot_duration_outer),
					     F(stackshot_duration_prior) };
#undef S
#define S struct kcd_fault_stats
static const struct kcd_field fault_stats[] = { F(sfs_pages_faulted_in), F(sfs_time_spent_faulting),
						F(sfs_system_max_fault_time),
						F(sfs_stopped_faulting) };
#undef S
#define S struct kcd_thread_waitinfo_v2
static const struct kcd_field thread_waitinfo[] = { F(owner),	  F(waiter),	   X(context),
						    F(wait_type), F(portlabel_id), X(wait_flags) };
#undef S
#define S struct kcd_thread_turnstileinfo_v2
static const struct kcd_field thread_turnstileinfo[] = {
	F(waiter),	   X(turnstile_context), F(turnstile_priority),
	F(number_of_hops), X(turnstile_flags),	 F(portlabel_id)
};
#undef S
#define S struct kcd_portlabel
static const struct kcd_field portlabel[] = { F(portlabel_id), X(portlabel_flags),
					      F(portlabel_domain) };
#undef S
#define S struct kcd_thread_group_snapshot_v3
static const struct kcd_field thread_group_snapshot[] = { F(tgs_id), F(tgs_name), X(tgs_flags),
							  F(tgs_name_cont) };
#undef S
#define S struct kcd_jetsam_coalition_snapshot
static const struct kcd_field jetsam_coalition_snapshot[] = { F(jcs_id), X(jcs_flags),
							      F(jcs_thread_group),
							      F(jcs_leader_task_uniqueid) };
#undef S
#define S struct kcd_instrs_cycles_v2
static const struct kcd_field instrs_cycles[] = { F(ics_instructions), F(ics_cycles),
						  F(ics_p_instructions), F(ics_p_cycles) };
#undef S
#define S struct kcd_cpu_architecture
static const struct kcd_field cpu_architecture[] = { X(cputype), X(cpusubtype) };
#undef S
#define S struct kcd_codesigning_info
static const struct kcd_field codesigning_info[] = { X(csflags), X(cs_trust_level) };
#undef S
#define S struct kcd_suspension_info
static const struct kcd_field suspension_info[] = { F(tss_last_start), F(tss_last_end),
						    F(tss_count), F(tss_duration) };
#undef S
#define S struct kcd_suspension_source
static const struct kcd_field suspension_source[] = { F(tss_time), F(tss_tid), F(tss_pid),
						      F(tss_procname) };
#undef S

/* Version 2 keeps the meaning of version 1's fields; the stock names of those stay. */
#define S struct kcd_latency_collection_v2
static const struct kcd_field latency_collection[] = {
	F(latency_version),
	N(setup_latency_mt, "setup_latency"),
	N(total_task_iteration_latency_mt, "total_task_iteration_latency"),
	N(total_terminated_task_iteration_latency_mt, "total_terminated_task_iteration"),
	F(task_queue_building_latency_mt),
	F(terminated_task_queue_building_latency_mt),
	F(cpu_wait_latency_mt),
	F(main_cpu_number),
	F(calling_cpu_number),
	F(buffer_size),
	F(buffer_used),
	F(buffer_overhead),
	F(buffer_count),
};
#undef S
#define S struct kcd_latency_cpu
static const struct kcd_field latency_cpu[] = {
	F(cpu_number),	      F(cluster_type),	   F(init_latency_mt), F(workqueue_latency_mt),
	F(total_latency_mt),  F(total_cycles),	   F(total_instrs),    F(tasks_processed),
	F(threads_processed), F(faulting_time_mt), F(total_buf),       F(intercluster_buf_used),
};
#undef S
#define S struct kcd_latency_task
static const struct kcd_field latency_task[] = {
	F(task_uniqueid),
	F(setup_latency),
	F(task_thread_count_loop_latency),
	F(task_thread_data_loop_latency),
	F(cur_tsnap_latency),
	F(pmap_latency),
	F(bsd_proc_ids_latency),
	F(misc_latency),
	F(misc2_latency),
	F(end_latency),
};
#undef S
#define S struct kcd_latency_thread
static const struct kcd_field latency_thread[] = {
	F(thread_id),
	F(cur_thsnap1_latency),
	F(dispatch_serial_latency),
	F(dispatch_label_latency),
	F(cur_thsnap2_latency),
	F(thread_name_latency),
	F(sur_times_latency),
	F(user_stack_latency),
	F(kernel_stack_latency),
	F(misc_latency),
};
#undef S

#define S struct kcd_exclaves_threadinfo
static const struct kcd_field exclaves_threadinfo[] = { X(tei_scid), F(tei_thread_offset),
							X(tei_flags) };
#undef S
#define S struct kcd_exclave_scresult
static const struct kcd_field exclave_scresult[] = { X(esc_id), X(esc_flags) };
#undef S
#define S struct kcd_exclave_ipcstackentry
static const struct kcd_field exclave_ipcstackentry[] = { F(eise_asid), F(eise_tnid),
							  F(eise_invocationid), X(eise_flags) };
#undef S
#define S struct kcd_exclave_addressspace
static const struct kcd_field exclave_addressspace[] = { F(eas_id), X(eas_flags), F(eas_layoutid),
							 X(eas_slide), X(eas_asroot) };
#undef S
#define S struct kcd_exclave_textlayout_v2
static const struct kcd_field exclave_textlayout[] = { F(layout_id), X(etl_flags),
						       F(sharedcache_index) };
#undef S
#define S struct kcd_exclave_segment_v2
static const struct kcd_field exclave_segment[] = { F(layoutSegment_uuid),
						    X(layoutSegment_loadAddress),
						    X(layoutSegment_rawLoadAddress) };
#undef S
#define S struct kcd_exclaves_crash_threadinfo
static const struct kcd_field exclaves_crash_threadinfo[] = { X(tcei_scid), F(tcei_thread_id),
							      X(tcei_flags) };
#undef S

#define S struct kcd_bsdinfo_with_uniqid
static const struct kcd_field bsdinfo_with_uniqid[] = { F(p_uuid), F(p_uniqueid), F(p_puniqueid) };
#undef S
#define S struct kcd_rusage_info
static const struct kcd_field rusage_info[] = {
	F(ri_uuid),
	F(ri_user_time),
	F(ri_system_time),
	F(ri_pkg_idle_wkups),
	F(ri_interrupt_wkups),
	F(ri_pageins),
	F(ri_wired_size),
	F(ri_resident_size),
	F(ri_phys_footprint),
	F(ri_proc_start_abstime),
	F(ri_proc_exit_abstime),
	F(ri_child_user_time),
	F(ri_child_system_time),
	F(ri_child_pkg_idle_wkups),
	F(ri_child_interrupt_wkups),
	F(ri_child_pageins),
	F(ri_child_elapsed_abstime),
	F(ri_diskio_bytesread),
	F(ri_diskio_byteswritten),
	F(ri_cpu_time_qos_default),
	F(ri_cpu_time_qos_maintenance),
	F(ri_cpu_time_qos_background),
	F(ri_cpu_time_qos_utility),
	F(ri_cpu_time_qos_legacy),
	F(ri_cpu_time_qos_user_initiated),
	N(ri_cpu_time_qos_user_interactive, "ri_cpu_time_qos_user_interactiv"),
	F(ri_billed_system_time),
	F(ri_serviced_system_time),
};
#undef S
#define S struct kcd_proc_starttime
static const struct kcd_field proc_starttime[] = { F(tv_sec), F(tv_usec) };
#undef S
#define S struct kcd_exception_codes
static const struct kcd_field exception_codes[] = { X(code_0), X(code_1) };
#undef S
#define S struct kcd_jit_address_range
static const struct kcd_field jit_address_range[] = { X(start_address), X(end_address) };
#undef S
#define S struct kcd_crash_mb
static const struct kcd_field crash_mb[] = { X(start_address) };
#undef S
#define S struct kcd_exit_reason_snapshot
static const struct kcd_field exit_reason_snapshot[] = { F(ers_namespace), X(ers_code),
							 X(ers_flags) };
#undef S
#define S struct kcd_exit_reason_codesigning_info
static const struct kcd_field exit_reason_codesigning[] = {
	X(ceri_virt_addr),
	X(ceri_file_offset),
	F(ceri_pathname),
	F(ceri_filename),
	F(ceri_codesig_modtime_secs),
	F(ceri_codesig_modtime_nsecs),
	F(ceri_page_modtime_secs),
	F(ceri_page_modtime_nsecs),
	F(ceri_path_truncated),
	F(ceri_object_codesigned),
	F(ceri_page_codesig_validated),
	F(ceri_page_codesig_tainted),
	F(ceri_page_codesig_nx),
	F(ceri_page_wpmapped),
	F(ceri_page_slid),
	F(ceri_page_dirty),
	F(ceri_page_shadow_depth),
};
#undef S

#undef F
#undef X
#undef N
#undef XN

#define FIELDS(f) .fields = (f), .field_count = (uint16_t)(sizeof(f) / sizeof((f)[0]))

#define STRUCT(code_, name_, key_, fields_, size_)                                        \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_STRUCT, .name = (name_), .key = (key_), \
		.size = (size_), FIELDS(fields_)                                          \
	}
#define SCALAR(code_, name_, key_, fields_, size_)                                        \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_SCALAR, .name = (name_), .key = (key_), \
		.size = (size_), FIELDS(fields_)                                          \
	}
#define PLAIN(form_, code_, name_, key_)                                         \
	{                                                                        \
		.code = (code_), .form = (form_), .name = (name_), .key = (key_) \
	}
#define STRING(code_, name_, key_)    PLAIN(KCD_FORM_STRING, code_, name_, key_)
#define BYTES(code_, name_, key_)     PLAIN(KCD_FORM_BYTES, code_, name_, key_)
#define CONTAINER(code_, name_, key_) PLAIN(KCD_FORM_CONTAINER, code_, name_, key_)
#define SPECIAL(code_, name_)	      PLAIN(KCD_FORM_SPECIAL, code_, name_, NULL)
/* A type that also occurs in old-style arrays, with elements of this size there (format, 1.4). */
#define OLD_STRUCT(code_, name_, key_, fields_, size_, old_)                              \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_STRUCT, .name = (name_), .key = (key_), \
		.size = (size_), .old_element = (old_), FIELDS(fields_)                   \
	}
#define OLD_SCALAR(code_, name_, key_, fields_, size_, old_)                              \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_SCALAR, .name = (name_), .key = (key_), \
		.size = (size_), .old_element = (old_), FIELDS(fields_)                   \
	}
/* A type whose fields go into the dictionary around it. */
#define MERGED(code_, name_, key_, fields_, size_)                                 \
	{                                                                          \
		.code = (code_), .form = KCD_FORM_STRUCT, .flags = KCD_TYPE_MERGE, \
		.name = (name_), .key = (key_), .size = (size_), FIELDS(fields_)   \
	}
/* A type that old writers sent in an older version without saying how much is padding (1.3). */
#define LEGACY_STRUCT(code_, name_, key_, fields_, size_, legacy_, padded_)               \
	{                                                                                 \
		.code = (code_), .form = KCD_FORM_STRUCT, .name = (name_), .key = (key_), \
		.size = (size_), .legacy_size = (legacy_), .legacy_padded = (padded_),    \
		FIELDS(fields_)                                                           \
	}

/* Ascending codes: kcd_schema_find() halves. */
static const struct kcd_type types[] = {
	SPECIAL(KCD_TYPE_INVALID, "INVALID"),
	SPECIAL(KCD_TYPE_STRING_DESC, "STRING_DESC"),
	SPECIAL(KCD_TYPE_UINT32_DESC, "UINT32_DESC"),
	SPECIAL(KCD_TYPE_UINT64_DESC, "UINT64_DESC"),
	SPECIAL(KCD_TYPE_INT32_DESC, "INT32_DESC"),
	SPECIAL(KCD_TYPE_INT64_DESC, "INT64_DESC"),
	SPECIAL(KCD_TYPE_BINDATA_DESC, "BINDATA_DESC"),
	SPECIAL(KCD_TYPE_ARRAY, "ARRAY"),
	SPECIAL(KCD_TYPE_TYPEDEFINITION, "TYPEDEFINITION"),
	SPECIAL(KCD_TYPE_CONTAINER_BEGIN, "CONTAINER_BEGIN"),
	SPECIAL(KCD_TYPE_CONTAINER_END, "CONTAINER_END"),
	OLD_STRUCT(KCD_TYPE_LIBRARY_LOADINFO, "LIBRARY_LOADINFO", "dyld_load_info", load_info_32,
		   20, 20),
	OLD_STRUCT(KCD_TYPE_LIBRARY_LOADINFO64, "LIBRARY_LOADINFO64", "dyld_load_info", load_info,
		   24, 24),
	STRUCT(KCD_TYPE_TIMEBASE, "TIMEBASE", "mach_timebase_info", timebase, 8),
	SCALAR(KCD_TYPE_MACH_ABSOLUTE_TIME, "MACH_ABSOLUTE_TIME", "mach_absolute_time", u64_value,
	       8),
	STRUCT(KCD_TYPE_TIMEVAL, "TIMEVAL", "timeval", timeval, 16),
	SCALAR(KCD_TYPE_USECS_SINCE_EPOCH, "USECS_SINCE_EPOCH", "usecs_since_epoch", u64_value, 8),
	SCALAR(KCD_TYPE_PID, "PID", "pid", i32_value, 4),
	STRING(KCD_TYPE_PROCNAME, "PROCNAME", "proc_name"),
	SPECIAL(KCD_TYPE_NESTED_KCDATA, "NESTED_KCDATA"),
	STRUCT(KCD_TYPE_LIBRARY_AOTINFO, "LIBRARY_AOTINFO", "dyld_aot_info", aot_info, 56),

	BYTES(KCD_CRASH_EXTMODINFO, "EXTMODINFO", "TASK_CRASHINFO_EXTMODINFO"),
	STRUCT(KCD_CRASH_BSDINFOWITHUNIQID, "BSDINFOWITHUNIQID", "proc_uniqidentifierinfo",
	       bsdinfo_with_uniqid, 32),
	BYTES(KCD_CRASH_TASKDYLD_INFO, "TASKDYLD_INFO", "TASK_CRASHINFO_TASKDYLD_INFO"),
	BYTES(KCD_CRASH_UUID, "UUID", "TASK_CRASHINFO_UUID"),
	SCALAR(KCD_CRASH_PID, "PID", "pid", i32_value, 4),
	SCALAR(KCD_CRASH_PPID, "PPID", "ppid", i32_value, 4),
	BYTES(KCD_CRASH_RUSAGE, "RUSAGE", "Type_0x807"),
	STRUCT(KCD_CRASH_RUSAGE_INFO, "RUSAGE_INFO", "rusage_info", rusage_info, 232),
	STRING(KCD_CRASH_PROC_NAME, "PROC_NAME", "p_comm"),
	STRUCT(KCD_CRASH_PROC_STARTTIME, "PROC_STARTTIME", "proc_starttime", proc_starttime, 16),
	SCALAR(KCD_CRASH_USERSTACK, "USERSTACK", "userstack_ptr", x64_value, 8),
	SCALAR(KCD_CRASH_ARGSLEN, "ARGSLEN", "p_argslen", i32_value, 4),
	STRUCT(KCD_CRASH_EXCEPTION_CODES, "EXCEPTION_CODES", "mach_exception_data_t",
	       exception_codes, 16),
	STRING(KCD_CRASH_PROC_PATH, "PROC_PATH", "p_path"),
	SCALAR(KCD_CRASH_PROC_CSFLAGS, "PROC_CSFLAGS", "p_csflags", i32_value, 4),
	SCALAR(KCD_CRASH_PROC_STATUS, "PROC_STATUS", "p_status", u8_value, 1),
	SCALAR(KCD_CRASH_UID, "UID", "uid", i32_value, 4),
	SCALAR(KCD_CRASH_GID, "GID", "gid", i32_value, 4),
	SCALAR(KCD_CRASH_PROC_ARGC, "PROC_ARGC", "argc", i32_value, 4),
	SCALAR(KCD_CRASH_PROC_FLAGS, "PROC_FLAGS", "p_flags", i32_value, 4),
	SCALAR(KCD_CRASH_CPUTYPE, "CPUTYPE", "cputype", i32_value, 4),
	BYTES(KCD_CRASH_WORKQUEUEINFO, "WORKQUEUEINFO", "TASK_CRASHINFO_WORKQUEUEINFO"),
	SCALAR(KCD_CRASH_RESPONSIBLE_PID, "RESPONSIBLE_PID", "responsible_pid", i32_value, 4),
	SCALAR(KCD_CRASH_DIRTY_FLAGS, "DIRTY_FLAGS", "dirty_flags", i32_value, 4),
	OLD_SCALAR(KCD_CRASH_CRASHED_THREADID, "CRASHED_THREADID", "crashed_threadid", u64_value, 8,
		   8),
	SCALAR(KCD_CRASH_COALITION_ID, "COALITION_ID", "coalition_id", u64_value, 8),
	BYTES(KCD_CRASH_UDATA_PTRS, "UDATA_PTRS", NULL),
	BYTES(KCD_CRASH_MEMORY_LIMIT, "MEMORY_LIMIT", NULL),
	BYTES(0x81E, "LEDGER_81E", NULL),
	BYTES(0x81F, "LEDGER_81F", NULL),
	BYTES(0x820, "LEDGER_820", NULL),
	BYTES(0x821, "LEDGER_821", NULL),
	BYTES(0x822, "LEDGER_822", NULL),
	BYTES(0x823, "LEDGER_823", NULL),
	BYTES(0x824, "LEDGER_824", NULL),
	BYTES(0x825, "LEDGER_825", NULL),
	BYTES(0x826, "LEDGER_826", NULL),
	BYTES(0x827, "LEDGER_827", NULL),
	BYTES(0x828, "LEDGER_828", NULL),
	BYTES(0x829, "LEDGER_829", NULL),
	BYTES(0x82A, "LEDGER_82A", NULL),
	BYTES(KCD_CRASH_PROC_PERSONA_ID, "PROC_PERSONA_ID", NULL),
	BYTES(KCD_CRASH_MEMORY_LIMIT_INCREASE, "MEMORY_LIMIT_INCREASE", NULL),
	BYTES(0x82D, "LEDGER_82D", NULL),
	BYTES(0x82E, "LEDGER_82E", NULL),
	BYTES(0x82F, "LEDGER_82F", NULL),
	BYTES(0x830, "LEDGER_830", NULL),
	BYTES(0x831, "LEDGER_831", NULL),
	BYTES(0x832, "LEDGER_832", NULL),
	BYTES(0x833, "LEDGER_833", NULL),
	BYTES(0x834, "LEDGER_834", NULL),
	BYTES(KCD_CRASH_MEMORYSTATUS_EFFECTIVE_PRIORITY, "MEMORYSTATUS_EFFECTIVE_PRIORITY", NULL),
	BYTES(KCD_CRASH_KERNEL_TRIAGE_INFO_V1, "KERNEL_TRIAGE_INFO_V1", NULL),
	BYTES(KCD_CRASH_TASK_IS_CORPSE_FORK, "TASK_IS_CORPSE_FORK", NULL),
	BYTES(KCD_CRASH_EXCEPTION_TYPE, "EXCEPTION_TYPE", NULL),
	BYTES(KCD_CRASH_CRASH_COUNT, "CRASH_COUNT", NULL),
	BYTES(KCD_CRASH_THROTTLE_TIMEOUT, "THROTTLE_TIMEOUT", NULL),
	STRING(KCD_CRASH_CS_SIGNING_ID, "CS_SIGNING_ID", "cs_signing_id"),
	STRING(KCD_CRASH_CS_TEAM_ID, "CS_TEAM_ID", "cs_team_id"),
	SCALAR(KCD_CRASH_CS_VALIDATION_CATEGORY, "CS_VALIDATION_CATEGORY", "cs_validation_category",
	       u32_value, 4),
	SCALAR(KCD_CRASH_CS_TRUST_LEVEL, "CS_TRUST_LEVEL", "cs_trust_level", u32_value, 4),
	BYTES(KCD_CRASH_PROC_CPUTYPE, "PROC_CPUTYPE", NULL),
	STRUCT(KCD_CRASH_JIT_ADDRESS_RANGE, "JIT_ADDRESS_RANGE", "jit_address_range",
	       jit_address_range, 16),
	/* the stock reader gives this one no name of its own */
	STRUCT(KCD_CRASH_MB, "MB", "anon", crash_mb, 8),
	SCALAR(KCD_CRASH_CS_AUXILIARY_INFO, "CS_AUXILIARY_INFO", "cs_auxiliary_info", x64_value, 8),

	STRUCT(KCD_SS_IOSTATS, "IOSTATS", "io_statistics", io_stats, 160),
	STRUCT(KCD_SS_GLOBAL_MEM_STATS, "GLOBAL_MEM_STATS", "mem_and_io_snapshot", mem_and_io, 61),
	CONTAINER(KCD_SS_CONTAINER_TASK, "TASK", "task_snapshots"),
	CONTAINER(KCD_SS_CONTAINER_THREAD, "THREAD", "thread_snapshots"),
	STRUCT(KCD_SS_TASK_SNAPSHOT, "TASK_SNAPSHOT", "task_snapshot", task_snapshot, 120),
	LEGACY_STRUCT(KCD_SS_THREAD_SNAPSHOT, "THREAD_SNAPSHOT", "thread_snapshot", thread_snapshot,
		      128, KCD_SS_THREAD_SNAPSHOT_V2_SIZE, 112),
	OLD_SCALAR(KCD_SS_DONATING_PIDS, "DONATING_PIDS", "donating_pids", i32_value, 4, 4),
	LEGACY_STRUCT(KCD_SS_SHAREDCACHE_LOADINFO, "SHAREDCACHE_LOADINFO",
		      "shared_cache_dyld_load_info", sharedcache_loadinfo, 48,
		      KCD_SS_SHAREDCACHE_V1_SIZE, 32),
	STRING(KCD_SS_THREAD_NAME, "THREAD_NAME", "pth_name"),
	OLD_STRUCT(KCD_SS_KERN_STACKFRAME, "KERN_STACKFRAME", "kernel_stack_frames", stackframe, 8,
		   8),
	OLD_STRUCT(KCD_SS_KERN_STACKFRAME64, "KERN_STACKFRAME64", "kernel_stack_frames",
		   stackframe64, 16, 16),
	OLD_STRUCT(KCD_SS_USER_STACKFRAME, "USER_STACKFRAME", "user_stack_frames", stackframe, 8,
		   8),
	OLD_STRUCT(KCD_SS_USER_STACKFRAME64, "USER_STACKFRAME64", "user_stack_frames", stackframe64,
		   16, 16),
	STRING(KCD_SS_BOOTARGS, "BOOTARGS", "boot_args"),
	STRING(KCD_SS_OSVERSION, "OSVERSION", "osversion"),
	SCALAR(KCD_SS_KERN_PAGE_SIZE, "KERN_PAGE_SIZE", "kernel_page_size", u32_value, 4),
	SCALAR(KCD_SS_JETSAM_LEVEL, "JETSAM_LEVEL", "jetsam_level", u32_value, 4),
	SCALAR(KCD_SS_DELTA_SINCE_TIMESTAMP, "DELTA_SINCE_TIMESTAMP",
	       "stackshot_delta_since_timestamp", u64_value, 8),
	STRUCT(KCD_SS_KERN_STACKLR, "KERN_STACKLR", "kernel_stack_frames", lr32, 4),
	STRUCT(KCD_SS_KERN_STACKLR64, "KERN_STACKLR64", "kernel_stack_frames", lr64, 8),
	STRUCT(KCD_SS_USER_STACKLR, "USER_STACKLR", "user_stack_frames", lr32, 4),
	STRUCT(KCD_SS_USER_STACKLR64, "USER_STACKLR64", "user_stack_frames", lr64, 8),
	SCALAR(KCD_SS_NONRUNNABLE_TIDS, "NONRUNNABLE_TIDS", "nonrunnable_threads", i64_value, 8),
	SCALAR(KCD_SS_NONRUNNABLE_TASKS, "NONRUNNABLE_TASKS", "nonrunnable_tasks", i64_value, 8),
	STRUCT(KCD_SS_CPU_TIMES, "CPU_TIMES", "cpu_times", cpu_times, 24),
	MERGED(KCD_SS_DURATION, "STACKSHOT_DURATION", "stackshot_duration", duration, 24),
	STRUCT(KCD_SS_FAULT_STATS, "STACKSHOT_FAULT_STATS", "stackshot_fault_stats", fault_stats,
	       21),
	STRUCT(KCD_SS_KERNELCACHE_LOADINFO, "KERNELCACHE_LOADINFO", "kernelcache_load_info",
	       load_info, 24),
	STRUCT(KCD_SS_THREAD_WAITINFO, "THREAD_WAITINFO", "thread_waitinfo", thread_waitinfo, 31),
	STRUCT(KCD_SS_THREAD_GROUP_SNAPSHOT, "THREAD_GROUP_SNAPSHOT", "thread_group_snapshot",
	       thread_group_snapshot, 48),
	SCALAR(KCD_SS_THREAD_GROUP, "THREAD_GROUP", "thread_group", u64_value, 8),
	STRUCT(KCD_SS_JETSAM_COALITION_SNAPSHOT, "JETSAM_COALITION_SNAPSHOT",
	       "jetsam_coalition_snapshot", jetsam_coalition_snapshot, 32),
	SCALAR(KCD_SS_JETSAM_COALITION, "JETSAM_COALITION", "jetsam_coalition", u64_value, 8),
	SCALAR(KCD_SS_THREAD_POLICY_VERSION, "THREAD_POLICY_VERSION", "thread_policy_version",
	       u32_value, 4),
	STRUCT(KCD_SS_INSTRS_CYCLES, "INSTRS_CYCLES", "instrs_cycles_snapshot", instrs_cycles, 32),
	STRUCT(KCD_SS_USER_STACKTOP, "USER_STACKTOP", "user_stacktop", user_stacktop, 16),
	SCALAR(KCD_SS_ASID, "ASID", "ts_asid", u32_value, 4),
	SCALAR(KCD_SS_PAGE_TABLES, "PAGE_TABLES", "ts_pagetable", x64_value, 8),
	STRUCT(KCD_SS_SYS_SHAREDCACHE_LAYOUT, "SYS_SHAREDCACHE_LAYOUT",
	       "system_shared_cache_layout", load_info, 24),
	STRING(KCD_SS_THREAD_DISPATCH_QUEUE_LABEL, "THREAD_DISPATCH_QUEUE_LABEL",
	       "dispatch_queue_label"),
	STRUCT(KCD_SS_THREAD_TURNSTILEINFO, "THREAD_TURNSTILEINFO", "thread_turnstileinfo",
	       thread_turnstileinfo, 28),
	STRUCT(KCD_SS_TASK_CPU_ARCHITECTURE, "TASK_CPU_ARCHITECTURE", "task_cpu_architecture",
	       cpu_architecture, 8),
	STRUCT(KCD_SS_LATENCY_INFO, "LATENCY_INFO", "stackshot_latency_collection",
	       latency_collection, 96),
	STRUCT(KCD_SS_LATENCY_INFO_TASK, "LATENCY_INFO_TASK", "stackshot_latency_task",
	       latency_task, 80),
	STRUCT(KCD_SS_LATENCY_INFO_THREAD, "LATENCY_INFO_THREAD", "stackshot_latency_thread",
	       latency_thread, 80),
	STRUCT(KCD_SS_LOADINFO64_TEXT_EXEC, "LOADINFO64_TEXT_EXEC", "dyld_load_info_text_exec",
	       load_info, 24),
	STRUCT(KCD_SS_AOTCACHE_LOADINFO, "AOTCACHE_LOADINFO", "dyld_aot_cache_uuid_info",
	       aotcache_info, 48),
	STRUCT(KCD_SS_TRANSITIONING_TASK_SNAPSHOT, "TRANSITIONING_TASK_SNAPSHOT",
	       "transitioning_task_snapshot", transitioning_task, 60),
	CONTAINER(KCD_SS_CONTAINER_TRANSITIONING_TASK, "TRANSITIONING_TASK",
		  "transitioning_task_snapshots"),
	SCALAR(KCD_SS_USER_ASYNC_START_INDEX, "USER_ASYNC_START_INDEX", "user_async_start_index",
	       u32_value, 4),
	STRUCT(KCD_SS_USER_ASYNC_STACKLR64, "USER_ASYNC_STACKLR64", "user_async_stack_frames", lr64,
	       8),
	CONTAINER(KCD_SS_CONTAINER_PORTLABEL, "PORTLABEL", "portlabels"),
	MERGED(KCD_SS_PORTLABEL, "PORTLABEL", "portlabel_info", portlabel, 5),
	STRING(KCD_SS_PORTLABEL_NAME, "PORTLABEL_NAME", "portlabel_name"),
	BYTES(KCD_SS_DYLD_COMPACTINFO, "DYLD_COMPACTINFO", "STACKSHOT_KCTYPE_DYLD_COMPACTINFO"),
	STRUCT(KCD_SS_SUSPENSION_INFO, "SUSPENSION_INFO", "suspension_info", suspension_info, 32),
	STRUCT(KCD_SS_SUSPENSION_SOURCE, "SUSPENSION_SOURCE", "suspension_source",
	       suspension_source, 85),
	STRUCT(KCD_SS_TASK_DELTA_SNAPSHOT, "TASK_DELTA_SNAPSHOT", "task_delta_snapshot",
	       task_delta_snapshot, 76),
	OLD_STRUCT(KCD_SS_THREAD_DELTA_SNAPSHOT, "THREAD_DELTA_SNAPSHOT", "thread_delta_snapshot",
		   thread_delta_snapshot, 64, KCD_SS_THREAD_DELTA_V2_SIZE),
	CONTAINER(KCD_SS_CONTAINER_SHAREDCACHE, "SHAREDCACHE", "shared_caches"),
	STRUCT(KCD_SS_SHAREDCACHE_INFO, "SHAREDCACHE_INFO", "shared_cache_dyld_load_info",
	       sharedcache_info, 48),
	STRUCT(KCD_SS_SHAREDCACHE_AOTINFO, "SHAREDCACHE_AOTINFO", "dyld_aot_cache_uuid_info",
	       aotcache_info, 48),
	SCALAR(KCD_SS_SHAREDCACHE_ID, "SHAREDCACHE_ID", "sharedCacheID", u32_value, 4),
	STRUCT(KCD_SS_CODESIGNING_INFO, "CODESIGNING_INFO", "stackshot_task_codesigning_info",
	       codesigning_info, 12),
	STRING(KCD_SS_OS_BUILD_VERSION, "OS_BUILD_VERSION", "os_build_version"),
	STRUCT(KCD_SS_KERN_EXCLAVES_THREADINFO, "KERN_EXCLAVES_THREADINFO", "exclaves_thread_info",
	       exclaves_threadinfo, 16),
	CONTAINER(KCD_SS_CONTAINER_EXCLAVES, "EXCLAVES", "threads_exclave"),
	CONTAINER(KCD_SS_CONTAINER_EXCLAVE_SCRESULT, "EXCLAVE_SCRESULT", "thread_exclave"),
	STRUCT(KCD_SS_EXCLAVE_SCRESULT_INFO, "EXCLAVE_SCRESULT_INFO", "exclave_scresult_info",
	       exclave_scresult, 16),
	CONTAINER(KCD_SS_CONTAINER_EXCLAVE_IPCSTACKENTRY, "EXCLAVE_IPCSTACKENTRY",
		  "exclave_ipcstackentry"),
	STRUCT(KCD_SS_EXCLAVE_IPCSTACKENTRY_INFO, "EXCLAVE_IPCSTACKENTRY_INFO",
	       "exclave_ipcstackentry_info", exclave_ipcstackentry, 32),
	STRUCT(KCD_SS_EXCLAVE_IPCSTACKENTRY_ECSTACK, "EXCLAVE_IPCSTACKENTRY_ECSTACK",
	       "secure_ecstack_entry", lr64, 8),
	CONTAINER(KCD_SS_CONTAINER_EXCLAVE_ADDRESSSPACE, "EXCLAVE_ADDRESSSPACE",
		  "exclave_addressspace"),
	STRUCT(KCD_SS_EXCLAVE_ADDRESSSPACE_INFO, "EXCLAVE_ADDRESSSPACE_INFO",
	       "exclave_addressspace_info", exclave_addressspace, 40),
	STRING(KCD_SS_EXCLAVE_ADDRESSSPACE_NAME, "EXCLAVE_ADDRESSSPACE_NAME",
	       "exclave_addressspace_name"),
	CONTAINER(KCD_SS_CONTAINER_EXCLAVE_TEXTLAYOUT, "EXCLAVE_TEXTLAYOUT", "exclave_textlayout"),
	STRUCT(KCD_SS_EXCLAVE_TEXTLAYOUT_INFO, "EXCLAVE_TEXTLAYOUT_INFO", "exclave_textlayout_info",
	       exclave_textlayout, 20),
	STRUCT(KCD_SS_EXCLAVE_TEXTLAYOUT_SEGMENTS, "EXCLAVE_TEXTLAYOUT_SEGMENTS",
	       "exclave_textlayout_segments", exclave_segment, 32),
	STRUCT(KCD_SS_KERN_EXCLAVES_CRASH_THREADINFO, "KERN_EXCLAVES_CRASH_THREADINFO",
	       "exclaves_crash_thread_info", exclaves_crash_threadinfo, 20),
	STRUCT(KCD_SS_LATENCY_INFO_CPU, "LATENCY_INFO_CPU", "stackshot_latency_cpu", latency_cpu,
	       88),
	SCALAR(KCD_SS_TASK_EXEC_META, "TASK_EXEC_META", "task_exec_meta", x64_value, 8),

	STRUCT(KCD_EXIT_REASON_SNAPSHOT, "EXIT_REASON_SNAPSHOT", "exit_reason_basic_info",
	       exit_reason_snapshot, 20),
	STRING(KCD_EXIT_REASON_USER_DESC, "EXIT_REASON_USER_DESC", "exit_reason_user_description"),
	BYTES(KCD_EXIT_REASON_USER_PAYLOAD, "EXIT_REASON_USER_PAYLOAD", "exit_reason_user_payload"),
	STRUCT(KCD_EXIT_REASON_CODESIGNING_INFO, "EXIT_REASON_CODESIGNING_INFO",
	       "exit_reason_codesigning_info", exit_reason_codesigning, 2108),
	SCALAR(KCD_EXIT_REASON_WORKLOOP_ID, "EXIT_REASON_WORKLOOP_ID", "exit_reason_workloop_id",
	       u64_value, 8),
	SCALAR(KCD_EXIT_REASON_DISPATCH_QUEUE_NO, "EXIT_REASON_DISPATCH_QUEUE_NO",
	       "exit_reason_dispatch_queue_no", u64_value, 8),
	BYTES(KCD_XNUPOST_TEST_CONFIG, "XNUPOST_TEST_CONFIG", NULL),
};

static const struct kcd_schema builtin = { types, sizeof(types) / sizeof(types[0]), NULL };

const struct kcd_schema *kcd_schema_builtin(void)
{
	return &builtin;
}

const struct kcd_type *kcd_schema_find(uint32_t code)
{
	size_t low = 0;
	size_t high = builtin.count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (types[mid].code == code)
			return &types[mid];
		if (types[mid].code < code)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

const struct kcd_type *kcd_schema_find_in(const struct kcd_schema *extra, uint32_t code)
{
	for (; extra; extra = extra->next) {
		for (size_t i = 0; i < extra->count; i++) {
			if (extra->types[i].code == code)
				return &extra->types[i];
		}
	}
	return kcd_schema_find(code);
}

const char *kcd_magic_key(uint32_t magic)
{
	switch (magic) {
	case KCD_MAGIC_CRASHINFO: return "kcdata_crashinfo";
	case KCD_MAGIC_STACKSHOT: return "kcdata_stackshot";
	case KCD_MAGIC_DELTA_STACKSHOT: return "kcdata_delta_stackshot";
	case KCD_MAGIC_BTINFO: return "kcdata_btinfo";
	case KCD_MAGIC_OS_REASON: return "kcdata_reason";
	case KCD_MAGIC_XNUPOST_CONFIG: return "xnupost_testconfig";
	default: return NULL;
	}
}

const char *kcd_type_key(const struct kcd_type *type, uint32_t code, char buf[static KCD_KEY_MAX])
{
	if (type && type->key)
		return type->key;
	if (type && type->form == KCD_FORM_SPECIAL)
		(void)snprintf(buf, KCD_KEY_MAX, "KCDATA_TYPE_%s", type->name);
	else
		(void)snprintf(buf, KCD_KEY_MAX, "0x%x", (unsigned int)code);
	return buf;
}

/* --- definitions in streams ------------------------------------------------------------------ */

/* One definition, and each of its fields, as they lie in a stream (format, 1.8). */
struct stored_definition {
	uint32_t code;
	uint32_t field_count;
	char name[KCD_NAME_SIZE];
};
struct stored_field {
	uint8_t flags;
	uint8_t kind;
	uint16_t offset;
	uint32_t size; /* array: count << 16 | element size */
	char name[KCD_NAME_SIZE];
};
_Static_assert(sizeof(struct stored_definition) == 40 && sizeof(struct stored_field) == 40,
	       "definitions are made of pieces of 40 bytes");

#define STORED_PIECE 40u
#define STORED_ARRAY 0x1u

void kcd_definitions_init(struct kcd_definitions *d, const struct kcd_schema *next)
{
	d->schema = (struct kcd_schema){ .types = d->types, .count = 0, .next = next };
	d->used_fields = 0;
}

static enum kcd_code refuse(struct kcd_error *err, const struct kcd_item *item, enum kcd_code code,
			    const char *why, uint32_t number)
{
	if (err) {
		*err = (struct kcd_error){
			.code = code,
			.finding = KCD_FIND_TYPEDEF,
			.offset = item->offset,
			.record = item->record,
			.type = item->raw_type,
		};
		(void)snprintf(err->reason, sizeof(err->reason), "type definition: %s (%#x)", why,
			       (unsigned int)number);
	}
	return code;
}

/* A name that ends within its field and is not empty. */
static bool is_stored_name(const char *name)
{
	return name[0] && !name[KCD_NAME_SIZE - 1];
}

/* Types that belong to the format itself are never another's: their items are read by rule. */
static bool is_definable_code(uint32_t code)
{
	const struct kcd_type *t = kcd_schema_find(code);

	if (code < KCD_TYPE_LIBRARY_LOADINFO || code == KCD_MAGIC_END || kcd_is_magic(code))
		return false;
	return !t || (t->form != KCD_FORM_CONTAINER && t->form != KCD_FORM_SPECIAL);
}

/* One field. @p low is where the field before it ends: they may not lie in each other, or a few
 * bytes would be shown a thousand times. */
static const char *read_field(const struct kcd_item *item, uint32_t i, uint32_t *low,
			      struct kcd_field *out)
{
	const uint8_t *at = item->data + STORED_PIECE * (size_t)(i + 1);
	struct stored_field f;

	memcpy(&f, at, sizeof(f));
	uint32_t size = kcd_kind_size(f.kind);
	uint32_t count = f.flags & STORED_ARRAY ? f.size >> 16 : 0;
	uint32_t stored = f.flags & STORED_ARRAY ? f.size & 0xffff : f.size;

	if (!is_stored_name(f.name))
		return "a field's name is empty or has no end";
	if (!size)
		return "a field's element type is not known";
	if (stored != size)
		return "a field's size is not that of its type";
	if ((f.flags & STORED_ARRAY) && !count)
		return "an array without elements";
	if (f.offset < *low)
		return "fields lie in each other, or descend";
	*out = (struct kcd_field){
		.name = (const char *)at + offsetof(struct stored_field, name),
		.offset = f.offset,
		.kind = f.kind,
		.count = (uint16_t)count,
	};
	*low = f.offset + kcd_field_size(out);
	return NULL;
}

static bool is_name_taken(const struct kcd_field *fields, uint32_t n, const char *name)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(fields[i].name, name))
			return true;
	}
	return false;
}

static bool is_same_definition(const struct kcd_type *a, const struct kcd_type *b)
{
	if (a->field_count != b->field_count || strcmp(a->key, b->key) != 0)
		return false;
	for (uint32_t i = 0; i < a->field_count; i++) {
		const struct kcd_field *x = &a->fields[i];
		const struct kcd_field *y = &b->fields[i];
		if (x->offset != y->offset || x->kind != y->kind || x->count != y->count ||
		    strcmp(x->name, y->name) != 0)
			return false;
	}
	return true;
}

static const struct kcd_type *defined(const struct kcd_definitions *d, uint32_t code)
{
	for (size_t i = 0; i < d->schema.count; i++) {
		if (d->types[i].code == code)
			return &d->types[i];
	}
	return NULL;
}

enum kcd_code kcd_definitions_add(struct kcd_definitions *d, const struct kcd_item *item,
				  const struct kcd_type **type_out, struct kcd_error *err)
{
	struct stored_definition h;
	uint32_t low = 0;

	if (item->kind != KCD_ITEM_TYPEDEF)
		return KCD_EINVAL;
	if (item->size < STORED_PIECE)
		return refuse(err, item, KCD_EMALFORMED, "too short", item->size);
	memcpy(&h, item->data, sizeof(h));
	if (!is_stored_name(h.name))
		return refuse(err, item, KCD_EMALFORMED, "the name is empty or has no end", h.code);
	if (!is_definable_code(h.code))
		return refuse(err, item, KCD_EMALFORMED, "of a type of the format itself", h.code);
	if (h.field_count == 0 || h.field_count > item->size / STORED_PIECE - 1)
		return refuse(err, item, KCD_EMALFORMED, "number of fields", h.field_count);
	if (h.field_count > KCD_DEFINITION_FIELDS_MAX ||
	    h.field_count > KCD_DEFINED_FIELDS_MAX - d->used_fields ||
	    d->schema.count == KCD_DEFINITIONS_MAX)
		return refuse(err, item, KCD_ETOOBIG, "more than the reader keeps", h.code);

	struct kcd_field *fields = d->fields + d->used_fields;
	for (uint32_t i = 0; i < h.field_count; i++) {
		const char *why = read_field(item, i, &low, &fields[i]);
		if (!why && is_name_taken(fields, i, fields[i].name))
			why = "two fields of one name";
		if (why)
			return refuse(err, item, KCD_EMALFORMED, why, i);
	}
	const char *name = (const char *)item->data + offsetof(struct stored_definition, name);
	struct kcd_type type = {
		.code = h.code,
		.form = KCD_FORM_STRUCT,
		.field_count = (uint16_t)h.field_count,
		.fields = fields,
		.name = name,
		.key = name,
		.size = low <= UINT16_MAX ? (uint16_t)low : 0,
	};
	const struct kcd_type *old = defined(d, h.code);
	if (old && !is_same_definition(old, &type))
		return refuse(err, item, KCD_EMALFORMED, "defined before as something else",
			      h.code);
	if (!old) {
		d->types[d->schema.count] = type;
		old = &d->types[d->schema.count++];
		d->used_fields += h.field_count;
	}
	if (type_out)
		*type_out = old;
	return KCD_OK;
}
