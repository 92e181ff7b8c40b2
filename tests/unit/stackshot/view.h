/* SPDX-License-Identifier: Apache-2.0 */
/* A capture read back by a strict reader, with what must be true of every capture checked. */
#ifndef TESTS_UNIT_STACKSHOT_VIEW_H
#define TESTS_UNIT_STACKSHOT_VIEW_H

#include <stdbool.h>

#include "introspect/stackshot/records.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/linux/linux_guest.h"

#define VIEW_TASKS   4096
#define VIEW_THREADS 8192
#define VIEW_MISSING 300
#define VIEW_SYMBOLS 200
#define VIEW_MODULES 16
#define VIEW_TABLES  4096
#define VIEW_LOG     128
/* Of a task; more are counted only. */
#define VIEW_MAPPINGS 2

struct view_thread {
	uint64_t id;
	uint32_t task; /* index */
	struct ss_thread_record r;
	bool has_context;
	struct ss_thread_context_record context;
	struct kcd_thread_snapshot_v4 stock;
	char name[KCD_SS_THREAD_NAME_SIZE];
	struct kcd_cpu_times_v2 times;
	/* count 0: none; they point into the capture */
	struct kcd_item frames, kinds, waits, waitinfo;
	struct kcd_item user_frames;
	bool has_user;
	struct ss_user_stack_record user;
};

struct view_task {
	uint64_t id;
	struct ss_task_record r; /* zeroed unless told */
	bool has_context;
	struct ss_process_context_record context;
	struct kcd_task_snapshot_v2 stock;
	bool is_told; /* has its 0x905; else, in a delta, 0x940 */
	bool has_latency;
	struct kcd_latency_task latency;
	uint32_t first, count;		 /* threads */
	uint32_t first_same, same_count; /* of view.same */
	bool has_asid, has_kernel;
	uint32_t asid;
	struct kcd_uuid_info kernel; /* load address and build id */
	uint32_t mapping_count;
	struct ss_mapping_record mapping[VIEW_MAPPINGS];
};

/** A thread that a delta only names. */
struct view_same {
	uint64_t id;
	bool runnable; /* in a 0x941, which is here */
	struct kcd_thread_delta_snapshot_v3 delta;
};

/* A page table. */
struct view_table {
	uint32_t task; /* index */
	uint64_t at, entries, first, end;
	const uint8_t *entry; /* in the capture; not aligned */
};

struct view_symbol {
	uint64_t start, size, flags;
	char name[SS_LONG_SYMBOL_NAME];
	bool is_long;
};

struct view {
	struct view_task task[VIEW_TASKS];
	struct view_thread thread[VIEW_THREADS];
	struct ss_vcpu_record vcpu[LG_VCPUS_MAX];
	struct ss_missing_record missing[VIEW_MISSING];
	struct view_symbol symbol[VIEW_SYMBOLS];
	struct ss_module_record module[VIEW_MODULES];
	struct view_same same[VIEW_THREADS];
	uint64_t same_task[VIEW_TASKS];
	struct kcd_latency_cpu worker[SS_WORKERS_MAX];
	uint32_t tasks, threads, vcpus, missing_count, symbols, modules, same_count, same_tasks,
		workers;
	struct kcd_latency_collection_v2 latency;
	bool is_delta;
	uint64_t since_ns, start_ns;
	struct view_table table[VIEW_TABLES];
	uint32_t tables;
	bool has_memory, has_pagetable_mask;
	struct kcd_mem_and_io memory;
	uint64_t pagetable_mask;
	struct ss_guest_record guest;
	bool has_system;
	struct ss_system_record system;
	struct ss_log_record log[VIEW_LOG];
	uint32_t lines;
	struct ss_times_record times;
	struct kcd_duration_v2 duration;
	char banner[KCD_SS_OSVERSION_MAX], release[KCD_SS_OSVERSION_MAX];
	uint64_t tasks_count, threads_count, tries, in_flags, out_flags;
	int64_t in_pid;
	struct ss_cause cause; /* zeroed: not said */
};

/**
 * Read a result. Fails the test unless it is a valid stream in which ids are unique, counts agree with
 * each other and with the result, frames and their kinds fit, each frame in the kernel has its symbol.
 */
void view_read(struct view *v, const struct ss_result *r);

/** The thread with this tid; fails the test when it is not there exactly once. */
const struct view_thread *view_thread(const struct view *v, int32_t tid);
const struct view_task *view_task(const struct view *v, int32_t pid);
bool view_has_thread(const struct view *v, int32_t tid);

/** The task or thread with this id of its container; NULL: not in this capture. */
const struct view_task *view_task_by_id(const struct view *v, uint64_t id);
const struct view_thread *view_thread_by_id(const struct view *v, uint64_t id);

uint64_t view_frame(const struct view_thread *t, uint32_t i);
uint64_t view_user_frame(const struct view_thread *t, uint32_t i);
/** Kind of a frame (enum lnx_frame_kind). */
uint32_t view_kind(const struct view_thread *t, uint32_t i);

/** "vfs_read+0x14", the kernel's way to name a frame; "0x…" without a symbol. */
const char *view_name(const struct view *v, const struct view_thread *t, uint32_t i);

/** The n-th (from 0) record of something missing; fails the test when there is none. */
const struct ss_missing_record *view_missing(const struct view *v, enum ss_missing what,
					     uint32_t n);
uint32_t view_count_missing(const struct view *v, enum ss_missing what);

#endif
