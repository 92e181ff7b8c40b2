/* SPDX-License-Identifier: Apache-2.0 */
/* Record types of crash information and of exit reasons: read, never written by us. */
#ifndef KCDATA_CRASHINFO_TYPES_H
#define KCDATA_CRASHINFO_TYPES_H

/*
 * Structures as in stackshot_types.h: packed, little-endian, the payload as it lies in a stream.
 * Codes without a structure here have a layout that is not public, or that depends on the machine
 * (0x807 is its struct rusage); they are shown as bytes.
 */

#include <stdint.h>

#include "kcdata/stackshot_types.h"

/** Record types 0x801 ... 0x842, in CRASHINFO buffers; 0x840 and 0x842 in stackshots' tasks too. */
enum kcd_crashinfo_type {
	KCD_CRASH_EXTMODINFO = 0x801,
	KCD_CRASH_BSDINFOWITHUNIQID = 0x802,
	KCD_CRASH_TASKDYLD_INFO = 0x803,
	KCD_CRASH_UUID = 0x804,
	KCD_CRASH_PID = 0x805,
	KCD_CRASH_PPID = 0x806,
	KCD_CRASH_RUSAGE = 0x807,
	KCD_CRASH_RUSAGE_INFO = 0x808,
	KCD_CRASH_PROC_NAME = 0x809,
	KCD_CRASH_PROC_STARTTIME = 0x80B,
	KCD_CRASH_USERSTACK = 0x80C,
	KCD_CRASH_ARGSLEN = 0x80D,
	KCD_CRASH_EXCEPTION_CODES = 0x80E,
	KCD_CRASH_PROC_PATH = 0x80F,
	KCD_CRASH_PROC_CSFLAGS = 0x810,
	KCD_CRASH_PROC_STATUS = 0x811,
	KCD_CRASH_UID = 0x812,
	KCD_CRASH_GID = 0x813,
	KCD_CRASH_PROC_ARGC = 0x814,
	KCD_CRASH_PROC_FLAGS = 0x815,
	KCD_CRASH_CPUTYPE = 0x816,
	KCD_CRASH_WORKQUEUEINFO = 0x817,
	KCD_CRASH_RESPONSIBLE_PID = 0x818,
	KCD_CRASH_DIRTY_FLAGS = 0x819,
	KCD_CRASH_CRASHED_THREADID = 0x81A,
	KCD_CRASH_COALITION_ID = 0x81B,
	KCD_CRASH_UDATA_PTRS = 0x81C,
	KCD_CRASH_MEMORY_LIMIT = 0x81D,
	KCD_CRASH_LEDGER_FIRST = 0x81E, /* 0x81E ... 0x834 but for the two below are ledgers */
	KCD_CRASH_PROC_PERSONA_ID = 0x82B,
	KCD_CRASH_MEMORY_LIMIT_INCREASE = 0x82C,
	KCD_CRASH_LEDGER_LAST = 0x834,
	KCD_CRASH_MEMORYSTATUS_EFFECTIVE_PRIORITY = 0x835,
	KCD_CRASH_KERNEL_TRIAGE_INFO_V1 = 0x836,
	KCD_CRASH_TASK_IS_CORPSE_FORK = 0x837,
	KCD_CRASH_EXCEPTION_TYPE = 0x838,
	KCD_CRASH_CRASH_COUNT = 0x839,
	KCD_CRASH_THROTTLE_TIMEOUT = 0x83A,
	KCD_CRASH_CS_SIGNING_ID = 0x83B,
	KCD_CRASH_CS_TEAM_ID = 0x83C,
	KCD_CRASH_CS_VALIDATION_CATEGORY = 0x83D,
	KCD_CRASH_CS_TRUST_LEVEL = 0x83E,
	KCD_CRASH_PROC_CPUTYPE = 0x83F,
	KCD_CRASH_JIT_ADDRESS_RANGE = 0x840,
	KCD_CRASH_MB = 0x841,
	KCD_CRASH_CS_AUXILIARY_INFO = 0x842,
};

/** Record types 0x1001 ... 0x1006, in OS_REASON buffers; 0x1040 in XNUPOST_CONFIG ones. */
enum kcd_exit_reason_type {
	KCD_EXIT_REASON_SNAPSHOT = 0x1001,
	KCD_EXIT_REASON_USER_DESC = 0x1002,    /* string */
	KCD_EXIT_REASON_USER_PAYLOAD = 0x1003, /* bytes */
	KCD_EXIT_REASON_CODESIGNING_INFO = 0x1004,
	KCD_EXIT_REASON_WORKLOOP_ID = 0x1005,
	KCD_EXIT_REASON_DISPATCH_QUEUE_NO = 0x1006,
	KCD_XNUPOST_TEST_CONFIG = 0x1040, /* defined in the streams that have it */
};

struct kcd_bsdinfo_with_uniqid { /* 0x802; what follows is not shown by the stock readers */
	uint8_t p_uuid[16];
	uint64_t p_uniqueid;
	uint64_t p_puniqueid;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_bsdinfo_with_uniqid, 32);

struct kcd_rusage_info { /* 0x808, version 3; times in ticks */
	uint8_t ri_uuid[16];
	uint64_t ri_user_time;
	uint64_t ri_system_time;
	uint64_t ri_pkg_idle_wkups;
	uint64_t ri_interrupt_wkups;
	uint64_t ri_pageins;
	uint64_t ri_wired_size;
	uint64_t ri_resident_size;
	uint64_t ri_phys_footprint;
	uint64_t ri_proc_start_abstime;
	uint64_t ri_proc_exit_abstime;
	uint64_t ri_child_user_time;
	uint64_t ri_child_system_time;
	uint64_t ri_child_pkg_idle_wkups;
	uint64_t ri_child_interrupt_wkups;
	uint64_t ri_child_pageins;
	uint64_t ri_child_elapsed_abstime;
	uint64_t ri_diskio_bytesread;
	uint64_t ri_diskio_byteswritten;
	uint64_t ri_cpu_time_qos_default;
	uint64_t ri_cpu_time_qos_maintenance;
	uint64_t ri_cpu_time_qos_background;
	uint64_t ri_cpu_time_qos_utility;
	uint64_t ri_cpu_time_qos_legacy;
	uint64_t ri_cpu_time_qos_user_initiated;
	uint64_t ri_cpu_time_qos_user_interactive;
	uint64_t ri_billed_system_time;
	uint64_t ri_serviced_system_time;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_rusage_info, 232);

struct kcd_proc_starttime { /* 0x80B */
	uint64_t tv_sec;
	uint64_t tv_usec;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_proc_starttime, 16);

struct kcd_exception_codes { /* 0x80E */
	uint64_t code_0;
	uint64_t code_1;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exception_codes, 16);

struct kcd_jit_address_range { /* 0x840 */
	uint64_t start_address;
	uint64_t end_address;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_jit_address_range, 16);

struct kcd_crash_mb { /* 0x841; its data is not shown by the stock readers */
	uint64_t start_address;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_crash_mb, 8);

struct kcd_exit_reason_snapshot { /* 0x1001 */
	uint32_t ers_namespace;
	uint64_t ers_code;
	uint64_t ers_flags;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exit_reason_snapshot, 20);

struct kcd_exit_reason_codesigning_info { /* 0x1004 */
	uint64_t ceri_virt_addr;
	uint64_t ceri_file_offset;
	char ceri_pathname[1024];
	char ceri_filename[1024];
	uint64_t ceri_codesig_modtime_secs;
	uint64_t ceri_codesig_modtime_nsecs;
	uint64_t ceri_page_modtime_secs;
	uint64_t ceri_page_modtime_nsecs;
	uint8_t ceri_path_truncated;
	uint8_t ceri_object_codesigned;
	uint8_t ceri_page_codesig_validated;
	uint8_t ceri_page_codesig_tainted;
	uint8_t ceri_page_codesig_nx;
	uint8_t ceri_page_wpmapped;
	uint8_t ceri_page_slid;
	uint8_t ceri_page_dirty;
	uint32_t ceri_page_shadow_depth;
} KCD_PACKED;
KCD_SIZE_IS(struct kcd_exit_reason_codesigning_info, 2108);

#endif
