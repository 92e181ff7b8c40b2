/* SPDX-License-Identifier: Apache-2.0 */
/* The stackshot's record types: codes, structures and bits, as Apple's readers know them. */
#ifndef KCDATA_STACKSHOT_TYPES_H
#define KCDATA_STACKSHOT_TYPES_H

/*
 * The structures are the payloads as they lie in a stream: little-endian, packed, so fields are
 * unaligned and a record is copied into one (kcd_item_copy) rather than pointed at. A structure is
 * the newest version; its older ones are prefixes of it, whose sizes stand beside it as
 * ..._V1_SIZE. Field names are those of the original. Layouts and codes: docs/kcdata.md.
 */

#include <stdint.h>

/** Record types 0x901 ... 0x957; containers are marked. [] is sent as an array. */
enum kcd_stackshot_type {
	KCD_SS_IOSTATS = 0x901,
	KCD_SS_GLOBAL_MEM_STATS = 0x902,
	KCD_SS_CONTAINER_TASK = 0x903,	 /* container; id: unique id of the task */
	KCD_SS_CONTAINER_THREAD = 0x904, /* container; id: thread id */
	KCD_SS_TASK_SNAPSHOT = 0x905,
	KCD_SS_THREAD_SNAPSHOT = 0x906,
	KCD_SS_DONATING_PIDS = 0x907,
	KCD_SS_SHAREDCACHE_LOADINFO = 0x908,
	KCD_SS_THREAD_NAME = 0x909, /* always KCD_SS_THREAD_NAME_SIZE bytes */
	KCD_SS_KERN_STACKFRAME = 0x90A,
	KCD_SS_KERN_STACKFRAME64 = 0x90B,
	KCD_SS_USER_STACKFRAME = 0x90C,
	KCD_SS_USER_STACKFRAME64 = 0x90D,
	KCD_SS_BOOTARGS = 0x90E,  /* string */
	KCD_SS_OSVERSION = 0x90F, /* string */
	KCD_SS_KERN_PAGE_SIZE = 0x910,
	KCD_SS_JETSAM_LEVEL = 0x911,
	KCD_SS_DELTA_SINCE_TIMESTAMP = 0x912,
	KCD_SS_KERN_STACKLR = 0x913,   /* u32 [], innermost frame first */
	KCD_SS_KERN_STACKLR64 = 0x914, /* u64 [] */
	KCD_SS_USER_STACKLR = 0x915,   /* u32 [] */
	KCD_SS_USER_STACKLR64 = 0x916, /* u64 [] */
	KCD_SS_NONRUNNABLE_TIDS = 0x917,
	KCD_SS_NONRUNNABLE_TASKS = 0x918,
	KCD_SS_CPU_TIMES = 0x919,
	KCD_SS_DURATION = 0x91A,
	KCD_SS_FAULT_STATS = 0x91B,
	KCD_SS_KERNELCACHE_LOADINFO = 0x91C,
	KCD_SS_THREAD_WAITINFO = 0x91D,	      /* [] */
	KCD_SS_THREAD_GROUP_SNAPSHOT = 0x91E, /* [] */
	KCD_SS_THREAD_GROUP = 0x91F,
	KCD_SS_JETSAM_COALITION_SNAPSHOT = 0x920, /* [] */
	KCD_SS_JETSAM_COALITION = 0x921,
	KCD_SS_THREAD_POLICY_VERSION = 0x922,
	KCD_SS_INSTRS_CYCLES = 0x923,
	KCD_SS_USER_STACKTOP = 0x924,
	KCD_SS_ASID = 0x925,
	KCD_SS_PAGE_TABLES = 0x926,		    /* u64 [] */
	KCD_SS_SYS_SHAREDCACHE_LAYOUT = 0x927,	    /* [] */
	KCD_SS_THREAD_DISPATCH_QUEUE_LABEL = 0x928, /* string */
	KCD_SS_THREAD_TURNSTILEINFO = 0x929,	    /* [] */
	KCD_SS_TASK_CPU_ARCHITECTURE = 0x92A,
	KCD_SS_LATENCY_INFO = 0x92B,
	KCD_SS_LATENCY_INFO_TASK = 0x92C,
	KCD_SS_LATENCY_INFO_THREAD = 0x92D,
	KCD_SS_LOADINFO64_TEXT_EXEC = 0x92E, /* [] */
	KCD_SS_AOTCACHE_LOADINFO = 0x92F,
	KCD_SS_TRANSITIONING_TASK_SNAPSHOT = 0x930,
	KCD_SS_CONTAINER_TRANSITIONING_TASK = 0x931, /* container; id: unique id of the task */
	KCD_SS_USER_ASYNC_START_INDEX = 0x932,
	KCD_SS_USER_ASYNC_STACKLR64 = 0x933, /* u64 [] */
	KCD_SS_CONTAINER_PORTLABEL = 0x934,  /* container; id: label id */
	KCD_SS_PORTLABEL = 0x935,
	KCD_SS_PORTLABEL_NAME = 0x936, /* string */
	KCD_SS_DYLD_COMPACTINFO = 0x937,
	KCD_SS_SUSPENSION_INFO = 0x938,
	KCD_SS_SUSPENSION_SOURCE = 0x939, /* [] */
	KCD_SS_TASK_DELTA_SNAPSHOT = 0x940,
	KCD_SS_THREAD_DELTA_SNAPSHOT = 0x941, /* [] */
	KCD_SS_CONTAINER_SHAREDCACHE = 0x942, /* container; id: cache id */
	KCD_SS_SHAREDCACHE_INFO = 0x943,
	KCD_SS_SHAREDCACHE_AOTINFO = 0x944,
	KCD_SS_SHAREDCACHE_ID = 0x945,
	KCD_SS_CODESIGNING_INFO = 0x946,
	KCD_SS_OS_BUILD_VERSION = 0x947, /* string */
	KCD_SS_KERN_EXCLAVES_THREADINFO = 0x948,
	KCD_SS_CONTAINER_EXCLAVES = 0x949,	   /* container */
	KCD_SS_CONTAINER_EXCLAVE_SCRESULT = 0x94A, /* container */
	KCD_SS_EXCLAVE_SCRESULT_INFO = 0x94B,
	KCD_SS_CONTAINER_EXCLAVE_IPCSTACKENTRY = 0x94C, /* container */
	KCD_SS_EXCLAVE_IPCSTACKENTRY_INFO = 0x94D,
	KCD_SS_EXCLAVE_IPCSTACKENTRY_ECSTACK = 0x94E,  /* u64 [] */
	KCD_SS_CONTAINER_EXCLAVE_ADDRESSSPACE = 0x94F, /* container */
	KCD_SS_EXCLAVE_ADDRESSSPACE_INFO = 0x950,
	KCD_SS_EXCLAVE_ADDRESSSPACE_NAME = 0x951,    /* string */
	KCD_SS_CONTAINER_EXCLAVE_TEXTLAYOUT = 0x952, /* container */
	KCD_SS_EXCLAVE_TEXTLAYOUT_INFO = 0x953,
	KCD_SS_EXCLAVE_TEXTLAYOUT_SEGMENTS = 0x954, /* [] */
	KCD_SS_KERN_EXCLAVES_CRASH_THREADINFO = 0x955,
	KCD_SS_LATENCY_INFO_CPU = 0x956, /* [] */
	KCD_SS_TASK_EXEC_META = 0x957,
};

#define KCD_SS_THREAD_NAME_SIZE	   64
#define KCD_SS_BOOTARGS_MAX	   1024 /* with NUL; the stock reader shows 256 */
#define KCD_SS_OSVERSION_MAX	   256	/* with NUL */
#define KCD_SS_QUEUE_LABEL_MAX	   64	/* with NUL */
#define KCD_SS_FRAMES_MAX	   1000 /* of one stack */
#define KCD_SS_COMM_SIZE	   32
#define KCD_SS_MEM_AND_IO_MAGIC	   0xBFCABCDEu
#define KCD_SS_THREAD_POLICY_VALUE 7 /* contents of 0x922 at the tag of the format sheet */

#define KCD_PACKED		__attribute__((packed))
#define KCD_SIZE_IS(type, size) _Static_assert(sizeof(type) == (size), #type ": bytes on disk")

struct kcd_uuid_info { /* 0x31, 0x91C, 0x927, 0x92E */
	uint64_t imageLoadAddress;
	uint8_t imageUUID[16];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_uuid_info, 24);

struct kcd_uuid_info_32 { /* 0x30 */
	uint32_t imageLoadAddress;
	uint8_t imageUUID[16];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_uuid_info_32, 20);

struct kcd_timebase { /* 0x32 */
	uint32_t numer;
	uint32_t denom;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_timebase, 8);

struct kcd_timeval { /* 0x34 */
	int64_t tv_sec;
	int64_t tv_usec;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_timeval, 16);

struct kcd_aot_info { /* 0x39 */
	uint64_t x86LoadAddress;
	uint64_t aotLoadAddress;
	uint64_t aotImageSize;
	uint8_t aotImageKey[32];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_aot_info, 56);

struct kcd_io_stats { /* 0x901 */
	uint64_t ss_disk_reads_count;
	uint64_t ss_disk_reads_size;
	uint64_t ss_disk_writes_count;
	uint64_t ss_disk_writes_size;
	uint64_t ss_io_priority_count[4];
	uint64_t ss_io_priority_size[4];
	uint64_t ss_paging_count;
	uint64_t ss_paging_size;
	uint64_t ss_non_paging_count;
	uint64_t ss_non_paging_size;
	uint64_t ss_data_count;
	uint64_t ss_data_size;
	uint64_t ss_metadata_count;
	uint64_t ss_metadata_size;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_io_stats, 160);

struct kcd_mem_and_io {		 /* 0x902; all but the first and busy_buffer_count are pages */
	uint32_t snapshot_magic; /* KCD_SS_MEM_AND_IO_MAGIC */
	uint32_t free_pages;
	uint32_t active_pages;
	uint32_t inactive_pages;
	uint32_t purgeable_pages;
	uint32_t wired_pages;
	uint32_t speculative_pages;
	uint32_t throttled_pages;
	uint32_t filebacked_pages;
	uint32_t compressions;
	uint32_t decompressions;
	uint32_t compressor_size;
	int32_t busy_buffer_count;
	uint32_t pages_wanted;
	uint32_t pages_reclaimed;
	uint8_t pages_wanted_reclaimed_valid;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_mem_and_io, 61);

struct kcd_task_snapshot_v2 { /* 0x905; times in timebase ticks */
	uint64_t ts_unique_pid;
	uint64_t ts_ss_flags; /* enum kcd_task_flag */
	uint64_t ts_user_time_in_terminated_threads;
	uint64_t ts_system_time_in_terminated_threads;
	uint64_t ts_p_start_sec;
	uint64_t ts_task_size; /* bytes of physical footprint */
	uint64_t ts_max_resident_size;
	uint32_t ts_suspend_count;
	uint32_t ts_faults;
	uint32_t ts_pageins;
	uint32_t ts_cow_faults;
	uint32_t ts_was_throttled;
	uint32_t ts_did_throttle;
	uint32_t ts_latency_qos; /* 0: unspecified, else 0xff0000 | tier */
	int32_t ts_pid;		 /* negated in the middle of an exec */
	char ts_p_comm[KCD_SS_COMM_SIZE];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_task_snapshot_v2, 120);

struct kcd_task_delta_snapshot_v2 { /* 0x940 */
	uint64_t tds_unique_pid;
	uint64_t tds_ss_flags; /* enum kcd_task_flag */
	uint64_t tds_user_time_in_terminated_threads;
	uint64_t tds_system_time_in_terminated_threads;
	uint64_t tds_task_size;
	uint64_t tds_max_resident_size;
	uint32_t tds_suspend_count;
	uint32_t tds_faults;
	uint32_t tds_pageins;
	uint32_t tds_cow_faults;
	uint32_t tds_was_throttled;
	uint32_t tds_did_throttle;
	uint32_t tds_latency_qos;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_task_delta_snapshot_v2, 76);

struct kcd_transitioning_task_snapshot { /* 0x930 */
	uint64_t tts_unique_pid;
	uint64_t tts_ss_flags;	      /* enum kcd_task_flag */
	uint64_t tts_transition_type; /* 1: terminated (its exit has started) */
	int32_t tts_pid;
	char tts_p_comm[KCD_SS_COMM_SIZE];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_transitioning_task_snapshot, 60);

#define KCD_SS_TRANSITION_TERMINATED 1

struct kcd_thread_snapshot_v4 { /* 0x906; times in timebase ticks */
	uint64_t ths_thread_id;
	uint64_t ths_wait_event;
	uint64_t ths_continuation;
	uint64_t ths_total_syscalls;
	uint64_t ths_voucher_identifier;
	uint64_t ths_dqserialnum;
	uint64_t ths_user_time;
	uint64_t ths_sys_time;
	uint64_t ths_ss_flags; /* enum kcd_thread_flag */
	uint64_t ths_last_run_time;
	uint64_t ths_last_made_runnable_time;
	uint32_t ths_state; /* enum kcd_thread_state */
	uint32_t ths_sched_flags;
	int16_t ths_base_priority;
	int16_t ths_sched_priority;
	uint8_t ths_eqos;
	uint8_t ths_rqos;
	uint8_t ths_rqos_override;
	uint8_t ths_io_tier;
	uint64_t ths_thread_t;
	uint64_t ths_requested_policy;
	uint64_t ths_effective_policy;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_thread_snapshot_v4, 128);

#define KCD_SS_THREAD_SNAPSHOT_V2_SIZE 104
#define KCD_SS_THREAD_SNAPSHOT_V3_SIZE 112

struct kcd_thread_delta_snapshot_v3 { /* 0x941 [] */
	uint64_t tds_thread_id;
	uint64_t tds_voucher_identifier;
	uint64_t tds_ss_flags; /* enum kcd_thread_flag */
	uint64_t tds_last_made_runnable_time;
	uint32_t tds_state; /* enum kcd_thread_state */
	uint32_t tds_sched_flags;
	int16_t tds_base_priority;
	int16_t tds_sched_priority;
	uint8_t tds_eqos;
	uint8_t tds_rqos;
	uint8_t tds_rqos_override;
	uint8_t tds_io_tier;
	uint64_t tds_requested_policy;
	uint64_t tds_effective_policy;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_thread_delta_snapshot_v3, 64);

#define KCD_SS_THREAD_DELTA_V2_SIZE 48

struct kcd_sharedcache_info_v4 {   /* 0x908, 0x943 */
	uint64_t sharedCacheSlide; /* 0x908: imageLoadAddress */
	uint8_t sharedCacheUUID[16];
	uint64_t sharedCacheUnreliableSlidBaseAddress;
	uint64_t sharedCacheSlidFirstMapping;
	uint32_t sharedCacheID;
	uint32_t sharedCacheFlags; /* 1 primary, 2 driverkit, 4 AOT */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_sharedcache_info_v4, 48);

#define KCD_SS_SHAREDCACHE_V1_SIZE 24
#define KCD_SS_SHAREDCACHE_V2_SIZE 32
#define KCD_SS_SHAREDCACHE_V3_SIZE 40

struct kcd_aotcache_info { /* 0x92F, 0x944 */
	uint64_t x86SlidBaseAddress;
	uint8_t x86UUID[16];
	uint64_t aotSlidBaseAddress;
	uint8_t aotUUID[16];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_aotcache_info, 48);

struct kcd_stackframe { /* 0x90A, 0x90C []: read-only history */
	uint32_t lr;
	uint32_t sp;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_stackframe, 8);

struct kcd_stackframe64 { /* 0x90B, 0x90D []: read-only history */
	uint64_t lr;
	uint64_t sp;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_stackframe64, 16);

struct kcd_cpu_times_v2 { /* 0x919; microseconds */
	uint64_t user_usec;
	uint64_t system_usec;
	uint64_t runnable_usec;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_cpu_times_v2, 24);

#define KCD_SS_CPU_TIMES_V1_SIZE 16

struct kcd_duration_v2 {		   /* 0x91A; ticks */
	uint64_t stackshot_duration;	   /* inside the stop */
	uint64_t stackshot_duration_outer; /* with assembly; 0 when compressed */
	uint64_t stackshot_duration_prior; /* of tries that ran out of room */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_duration_v2, 24);

#define KCD_SS_DURATION_V1_SIZE 16

struct kcd_fault_stats { /* 0x91B */
	uint32_t sfs_pages_faulted_in;
	uint64_t sfs_time_spent_faulting;
	uint64_t sfs_system_max_fault_time;
	uint8_t sfs_stopped_faulting;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_fault_stats, 21);

struct kcd_thread_waitinfo_v2 { /* 0x91D [] */
	uint64_t owner;		/* thread id, or enum kcd_wait_owner */
	uint64_t waiter;
	uint64_t context;
	uint8_t wait_type; /* enum kcd_wait_type */
	int16_t portlabel_id;
	uint32_t wait_flags; /* bit 0: special reply port */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_thread_waitinfo_v2, 31);

#define KCD_SS_WAITINFO_V1_SIZE 25

struct kcd_thread_turnstileinfo_v2 { /* 0x929 [] */
	uint64_t waiter;
	uint64_t turnstile_context;
	uint8_t turnstile_priority;
	uint8_t number_of_hops;
	uint64_t turnstile_flags; /* enum kcd_turnstile_flag */
	int16_t portlabel_id;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_thread_turnstileinfo_v2, 28);

#define KCD_SS_TURNSTILEINFO_V1_SIZE 26

struct kcd_portlabel {		  /* 0x935 */
	int16_t portlabel_id;	  /* 0 none, -1 existed but could not be tracked */
	uint16_t portlabel_flags; /* 1 read failed, 2 throttled */
	uint8_t portlabel_domain; /* 1 system, 2 user, 5 pid, 7 port */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_portlabel, 5);

struct kcd_thread_group_snapshot_v3 { /* 0x91E [] */
	uint64_t tgs_id;
	char tgs_name[16];
	uint64_t tgs_flags;	/* enum kcd_thread_group_flag */
	char tgs_name_cont[16]; /* bytes 16 ... 31 of the name; no NUL between the halves */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_thread_group_snapshot_v3, 48);

#define KCD_SS_THREAD_GROUP_V1_SIZE 24
#define KCD_SS_THREAD_GROUP_V2_SIZE 32

struct kcd_jetsam_coalition_snapshot { /* 0x920 [] */
	uint64_t jcs_id;
	uint64_t jcs_flags; /* 1 term requested, 2 terminated, 4 reaped, 8 privileged */
	uint64_t jcs_thread_group;
	uint64_t jcs_leader_task_uniqueid;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_jetsam_coalition_snapshot, 32);

struct kcd_instrs_cycles_v2 { /* 0x923; threads send v1 */
	uint64_t ics_instructions;
	uint64_t ics_cycles;
	uint64_t ics_p_instructions;
	uint64_t ics_p_cycles;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_instrs_cycles_v2, 32);

#define KCD_SS_INSTRS_CYCLES_V1_SIZE 16

struct kcd_user_stacktop { /* 0x924: read-only history */
	uint64_t sp;
	uint8_t stack_contents[8];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_user_stacktop, 16);

struct kcd_cpu_architecture { /* 0x92A */
	int32_t cputype;
	int32_t cpusubtype;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_cpu_architecture, 8);

#define KCD_SS_CPU_TYPE_ARM64 0x0100000c

struct kcd_codesigning_info { /* 0x946 */
	uint64_t csflags;
	uint32_t cs_trust_level; /* 0xffffffff: unknown */
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_codesigning_info, 12);

struct kcd_suspension_info { /* 0x938 */
	uint64_t tss_last_start;
	uint64_t tss_last_end;
	uint64_t tss_count;
	uint64_t tss_duration;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_suspension_info, 32);

struct kcd_suspension_source { /* 0x939 [] */
	uint64_t tss_time;
	uint64_t tss_tid;
	int32_t tss_pid;
	char tss_procname[65];
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_suspension_source, 85);

struct kcd_latency_collection { /* 0x92B version 1: read-only history; not a prefix of version 2 */
	uint64_t latency_version;
	uint64_t setup_latency;
	uint64_t total_task_iteration_latency;
	uint64_t total_terminated_task_iteration_latency;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_latency_collection, 32);

struct kcd_latency_collection_v2 { /* 0x92B; ticks */
	uint64_t latency_version;  /* 2 */
	uint64_t setup_latency_mt;
	uint64_t total_task_iteration_latency_mt;
	uint64_t total_terminated_task_iteration_latency_mt;
	uint64_t task_queue_building_latency_mt;
	uint64_t terminated_task_queue_building_latency_mt;
	uint64_t cpu_wait_latency_mt;
	int32_t main_cpu_number;
	int32_t calling_cpu_number;
	uint64_t buffer_size;
	uint64_t buffer_used;
	uint64_t buffer_overhead;
	uint64_t buffer_count;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_latency_collection_v2, 96);

struct kcd_latency_cpu { /* 0x956 []; ticks */
	int32_t cpu_number;
	int32_t cluster_type; /* 0 SMP, 1 E, 2 P */
	uint64_t init_latency_mt;
	uint64_t workqueue_latency_mt;
	uint64_t total_latency_mt;
	uint64_t total_cycles;
	uint64_t total_instrs;
	uint64_t tasks_processed;
	uint64_t threads_processed;
	uint64_t faulting_time_mt;
	uint64_t total_buf;
	uint64_t intercluster_buf_used;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_latency_cpu, 88);

struct kcd_latency_task { /* 0x92C; ticks */
	uint64_t task_uniqueid;
	uint64_t setup_latency;
	uint64_t task_thread_count_loop_latency;
	uint64_t task_thread_data_loop_latency;
	uint64_t cur_tsnap_latency;
	uint64_t pmap_latency;
	uint64_t bsd_proc_ids_latency;
	uint64_t misc_latency;
	uint64_t misc2_latency;
	uint64_t end_latency;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_latency_task, 80);

struct kcd_latency_thread { /* 0x92D; ticks */
	uint64_t thread_id;
	uint64_t cur_thsnap1_latency;
	uint64_t dispatch_serial_latency;
	uint64_t dispatch_label_latency;
	uint64_t cur_thsnap2_latency;
	uint64_t thread_name_latency;
	uint64_t sur_times_latency;
	uint64_t user_stack_latency;
	uint64_t kernel_stack_latency;
	uint64_t misc_latency;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_latency_thread, 80);

struct kcd_exclaves_threadinfo { /* 0x948 */
	uint64_t tei_scid;
	uint32_t tei_thread_offset;
	uint32_t tei_flags;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclaves_threadinfo, 16);

struct kcd_exclave_scresult { /* 0x94B */
	uint64_t esc_id;
	uint64_t esc_flags;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclave_scresult, 16);

struct kcd_exclave_ipcstackentry { /* 0x94D */
	uint64_t eise_asid;
	uint64_t eise_tnid;
	uint64_t eise_invocationid;
	uint64_t eise_flags;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclave_ipcstackentry, 32);

struct kcd_exclave_addressspace { /* 0x950 */
	uint64_t eas_id;
	uint64_t eas_flags;
	uint64_t eas_layoutid;
	uint64_t eas_slide;
	uint64_t eas_asroot;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclave_addressspace, 40);

struct kcd_exclave_textlayout_v2 { /* 0x953 */
	uint64_t layout_id;
	uint64_t etl_flags;
	uint32_t sharedcache_index;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclave_textlayout_v2, 20);

struct kcd_exclave_segment_v2 { /* 0x954 [] */
	uint8_t layoutSegment_uuid[16];
	uint64_t layoutSegment_loadAddress;
	uint64_t layoutSegment_rawLoadAddress;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclave_segment_v2, 32);

struct kcd_exclaves_crash_threadinfo { /* 0x955 */
	uint64_t tcei_scid;
	uint64_t tcei_thread_id;
	uint32_t tcei_flags;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exclaves_crash_threadinfo, 20);

/** Bits 0 and 1 of system_state_flags and of both kinds of ss_flags. */
enum kcd_state_flag {
	KCD_SS_USER64 = 0x1,
	KCD_SS_KERNEL64 = 0x2, /* on a thread only if a kernel stack was recorded */
};

/** ts_ss_flags, tds_ss_flags of tasks, tts_ss_flags. */
enum kcd_task_flag {
	KCD_TASK_RSRC_FLAGGED = 0x4,
	KCD_TASK_TERMINATED = 0x8,
	KCD_TASK_PID_SUSPENDED = 0x10,
	KCD_TASK_FROZEN = 0x20,
	KCD_TASK_DARWIN_BG = 0x40,
	KCD_TASK_EXT_DARWIN_BG = 0x80,
	KCD_TASK_VIS_VISIBLE = 0x100,
	KCD_TASK_VIS_NONVISIBLE = 0x200,
	KCD_TASK_IS_FOREGROUND = 0x400,
	KCD_TASK_IS_BOOSTED = 0x800,
	KCD_TASK_IS_SUPPRESSED = 0x1000,
	KCD_TASK_IS_TIMER_THROTTLED = 0x2000,
	KCD_TASK_IS_IMP_DONOR = 0x4000,
	KCD_TASK_IS_LIVE_IMP_DONOR = 0x8000,
	KCD_TASK_IS_DIRTY = 0x10000,
	KCD_TASK_WQ_EXCEEDED_CONSTRAINED = 0x20000,
	KCD_TASK_WQ_EXCEEDED_TOTAL = 0x40000,
	KCD_TASK_WQ_FLAGS_AVAILABLE = 0x80000,
	KCD_TASK_UUID_FAULTED_IN = 0x100000,
	KCD_TASK_UUID_MISSING = 0x200000,
	KCD_TASK_UUID_TRIED_FAULT = 0x400000,
	KCD_TASK_SHARED_REGION_INFO_UNAVAILABLE = 0x800000,
	KCD_TASK_TAL_ENGAGED = 0x1000000,
	KCD_TASK_IS_DIRTY_TRACKED = 0x4000000,
	KCD_TASK_ALLOW_IDLE_EXIT = 0x8000000,
	KCD_TASK_IS_TRANSLATED = 0x10000000,
	KCD_TASK_SHARED_REGION_NONE = 0x20000000, /* what a Linux task has */
	KCD_TASK_SHARED_REGION_SYSTEM = 0x40000000,
	KCD_TASK_SHARED_REGION_OTHER = 0x80000000u,
};

/** ths_ss_flags, tds_ss_flags of threads. */
enum kcd_thread_flag {
	KCD_THREAD_HAS_DISPATCH_SERIAL = 0x4,
	KCD_THREAD_STACKS_PC_ONLY = 0x8,
	KCD_THREAD_DARWIN_BG = 0x10,
	KCD_THREAD_IO_PASSIVE = 0x20,
	KCD_THREAD_SUSPENDED = 0x40,
	KCD_THREAD_TRUNCATED_BT = 0x80, /* together with one of the three TRUNC_ bits */
	KCD_THREAD_GLOBAL_FORCED_IDLE = 0x100,
	KCD_THREAD_FAULTED_BT = 0x200,
	KCD_THREAD_TRIED_FAULT_BT = 0x400,
	KCD_THREAD_ON_CORE = 0x800,
	KCD_THREAD_IDLE_WORKER = 0x1000,
	KCD_THREAD_MAIN = 0x2000,
	KCD_THREAD_TRUNC_KERN_BT = 0x4000,
	KCD_THREAD_TRUNC_USER_BT = 0x8000,
	KCD_THREAD_TRUNC_USER_ASYNC_BT = 0x10000,
};

/** ths_state, tds_state. */
enum kcd_thread_state {
	KCD_THREAD_WAIT = 0x01,
	KCD_THREAD_SUSP = 0x02,
	KCD_THREAD_RUN = 0x04, /* running or on a run queue */
	KCD_THREAD_UNINT = 0x08,
	KCD_THREAD_TERMINATE = 0x10,
	KCD_THREAD_TERMINATE2 = 0x20,
	KCD_THREAD_IDLE = 0x80,
};

/** wait_type of 0x91D. Not recorded: NONE and PARKED_WORKQUEUE. */
enum kcd_wait_type {
	KCD_WAIT_NONE = 0,
	KCD_WAIT_KERNEL_MUTEX = 1,
	KCD_WAIT_PORT_RECEIVE = 2,
	KCD_WAIT_PORT_SET_RECEIVE = 3,
	KCD_WAIT_PORT_SEND = 4,
	KCD_WAIT_PORT_SEND_IN_TRANSIT = 5,
	KCD_WAIT_SEMAPHORE = 6,
	KCD_WAIT_KERNEL_RWLOCK_READ = 7,
	KCD_WAIT_KERNEL_RWLOCK_WRITE = 8,
	KCD_WAIT_KERNEL_RWLOCK_UPGRADE = 9,
	KCD_WAIT_USER_LOCK = 0xa,
	KCD_WAIT_PTHREAD_MUTEX = 0xb,
	KCD_WAIT_PTHREAD_RWLOCK_READ = 0xc,
	KCD_WAIT_PTHREAD_RWLOCK_WRITE = 0xd,
	KCD_WAIT_PTHREAD_CONDVAR = 0xe,
	KCD_WAIT_PARKED_WORKQUEUE = 0xf,
	KCD_WAIT_WORKLOOP_SYNC = 0x10,
	KCD_WAIT_ON_PROCESS = 0x11,
	KCD_WAIT_SLEEP_WITH_INHERITOR = 0x12,
	KCD_WAIT_EVENTLINK = 0x13,
	KCD_WAIT_COMPRESSOR = 0x14,
	KCD_WAIT_PARKED_BOUND_WORKQUEUE = 0x15,
	KCD_WAIT_PAGE_BUSY = 0x16,
	KCD_WAIT_PAGER_INIT = 0x17,
	KCD_WAIT_PAGER_READY = 0x18,
	KCD_WAIT_PAGING_ACTIVITY = 0x19,
	KCD_WAIT_MAPPING_IN_PROGRESS = 0x1a,
	KCD_WAIT_MEMORY_BLOCKED = 0x1b,
	KCD_WAIT_PAGING_IN_PROGRESS = 0x1c,
	KCD_WAIT_PAGEIN_THROTTLE = 0x1d,
	KCD_WAIT_EXCLAVE_CORE = 0x1e,
	KCD_WAIT_EXCLAVE_KIT = 0x1f,
};

/* Owners that are no thread id (0x91D). */
#define KCD_WAIT_OWNER_KERNEL	       UINT64_C(0xfffffffffffffffe)
#define KCD_WAIT_OWNER_PORT_LOCKED     UINT64_C(0xfffffffffffffffd)
#define KCD_WAIT_OWNER_PORT_SET_LOCKED UINT64_C(0xfffffffffffffffc)
#define KCD_WAIT_OWNER_IN_TRANSIT      UINT64_C(0xfffffffffffffffb)
#define KCD_WAIT_OWNER_MUTEX_SPIN      UINT64_C(0xfffffffffffffffa)
#define KCD_WAIT_OWNER_THREAD_REQUEST  UINT64_C(0xfffffffffffffff9)
#define KCD_WAIT_OWNER_SUSPENDED       UINT64_C(0xfffffffffffffff8)

/** turnstile_flags of 0x929. */
enum kcd_turnstile_flag {
	KCD_TURNSTILE_UNKNOWN = 0x1,
	KCD_TURNSTILE_LOCKED_WAITQ = 0x2,
	KCD_TURNSTILE_WORKQUEUE = 0x4,
	KCD_TURNSTILE_THREAD = 0x8,
	KCD_TURNSTILE_BLOCKED_ON_TASK = 0x10,
	KCD_TURNSTILE_HELD_IPLOCK = 0x20,
	KCD_TURNSTILE_SENDPORT = 0x40,
	KCD_TURNSTILE_RECEIVEPORT = 0x80,
};

/** tgs_flags of 0x91E. */
enum kcd_thread_group_flag {
	KCD_THREAD_GROUP_EFFICIENT = 0x1,
	KCD_THREAD_GROUP_APPLICATION = 0x2,
	KCD_THREAD_GROUP_CRITICAL = 0x4,
	KCD_THREAD_GROUP_BEST_EFFORT = 0x8,
	KCD_THREAD_GROUP_UI_APPLICATION = 0x100,
	KCD_THREAD_GROUP_MANAGED = 0x200,
	KCD_THREAD_GROUP_STRICT_TIMERS = 0x400,
};

/** Request flags: stackshot_in_flags and stackshot_out_flags (section 6.2 of the format). */
#define KCD_SS_GET_DQ			  UINT64_C(0x1)
#define KCD_SS_SAVE_LOADINFO		  UINT64_C(0x2)
#define KCD_SS_GET_GLOBAL_MEM_STATS	  UINT64_C(0x4)
#define KCD_SS_SAVE_KEXT_LOADINFO	  UINT64_C(0x8)
#define KCD_SS_ACTIVE_KERNEL_THREADS_ONLY UINT64_C(0x100)
#define KCD_SS_GET_BOOT_PROFILE		  UINT64_C(0x200)
#define KCD_SS_DO_COMPRESS		  UINT64_C(0x400)
#define KCD_SS_SAVE_IMP_DONATION_PIDS	  UINT64_C(0x2000)
#define KCD_SS_SAVE_IN_KERNEL_BUFFER	  UINT64_C(0x4000)
#define KCD_SS_RETRIEVE_EXISTING_BUFFER	  UINT64_C(0x8000)
#define KCD_SS_KCDATA_FORMAT		  UINT64_C(0x10000)
#define KCD_SS_ENABLE_BT_FAULTING	  UINT64_C(0x20000)
#define KCD_SS_COLLECT_DELTA_SNAPSHOT	  UINT64_C(0x40000)
#define KCD_SS_COLLECT_SHAREDCACHE_LAYOUT UINT64_C(0x80000)
#define KCD_SS_TRYLOCK			  UINT64_C(0x100000)
#define KCD_SS_ENABLE_UUID_FAULTING	  UINT64_C(0x200000)
#define KCD_SS_FROM_PANIC		  UINT64_C(0x400000)
#define KCD_SS_NO_IO_STATS		  UINT64_C(0x800000)
#define KCD_SS_REQ_THREAD_WAITINFO	  UINT64_C(0x1000000)
#define KCD_SS_REQ_THREAD_GROUP		  UINT64_C(0x2000000)
#define KCD_SS_SAVE_JETSAM_COALITIONS	  UINT64_C(0x4000000)
#define KCD_SS_REQ_INSTRS_CYCLES	  UINT64_C(0x8000000)
#define KCD_SS_REQ_ASID			  UINT64_C(0x10000000)
#define KCD_SS_REQ_PAGE_TABLES		  UINT64_C(0x20000000)
#define KCD_SS_DISABLE_LATENCY_INFO	  UINT64_C(0x40000000)
#define KCD_SS_SAVE_DYLD_COMPACTINFO	  UINT64_C(0x80000000)
#define KCD_SS_INCLUDE_DRIVER_THREADS	  UINT64_C(0x100000000)
#define KCD_SS_REQ_EXCLAVES		  UINT64_C(0x200000000)
#define KCD_SS_SKIP_EXCLAVES		  UINT64_C(0x400000000)

#endif
