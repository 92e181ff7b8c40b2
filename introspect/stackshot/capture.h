/* SPDX-License-Identifier: Apache-2.0 */
/* State of a session and of one try of a capture. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_CAPTURE_H
#define INTROSPECT_STACKSHOT_CAPTURE_H

#include "introspect/linux/linux.h"
#include "introspect/stackshot/records.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/kcdata.h"

/* What is listed one by one; the rest is counted in a last record. */
#define SS_MISSING_LISTED 256

/** Everything a capture writes to while the guest is stopped, allocated and touched before. */
struct ss_storage {
	uint8_t *records; /* the task section, as a stream of its own */
	size_t records_size;
	gva_t *processes; /* room for max_tasks each */
	gva_t *threads;
	uint32_t max_tasks;
};

struct ss_session {
	struct guest *g;
	struct lnx_hints hints;
	struct lnx_kernel *k; /* NULL: not found (yet) */
	struct gs_error why_no_kernel;
	struct ss_storage storage;
	size_t last_records; /* bytes the last capture of everything needed */
	uint32_t last_tasks;
	uint64_t frames[LNX_FRAMES_MAX];
	uint8_t frame_kinds[LNX_FRAMES_MAX];
	struct guest_vcpu_regs regs[GUEST_VCPUS_MAX];
};

/** One try. */
struct ss_try {
	struct ss_session *s;
	const struct ss_request *request;
	struct kcd_writer w; /* over storage.records */
	struct lnx_view v;
	gva_t current[GUEST_VCPUS_MAX]; /* task each vCPU executes; 0: not known */
	struct ss_vcpu_record vcpu[GUEST_VCPUS_MAX];
	uint32_t tasks, threads;
	bool registers_known; /* of every vCPU */
	bool idle_task;	      /* has been recorded */
	uint32_t idle_threads;
	uint32_t longest; /* most threads of one process, or processes, met: what max_tasks must
			     hold */
	struct ss_missing_record missing[SS_MISSING_LISTED];
	uint32_t missing_count; /* may be larger than the list */
	bool kernel_changed;
	bool resumed; /* the guest was stopped and runs again: a failure is that of reading it */
	uint64_t wall_us, start_ns; /* when the guest had stopped */
	uint64_t stop_ns, collect_ns, resume_ns;
};

/**
 * Read the stopped guest into the storage.
 *
 * @return GS_OK; GS_ENOSPC: the storage is too small; GS_ENOENT: no process has the requested pid
 */
GS_MUST_USE enum gs_code ss_collect(struct ss_try *t);

/** Count something that is not in the capture; @p fmt says why. */
void ss_note_missing(struct ss_try *t, enum ss_missing what, int32_t pid, int32_t tid,
		     uint64_t address, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/**
 * Build the whole stream: head, task section, what stands behind it, names of all addresses.
 *
 * @param prior_ns  stopped before this try
 * @param tries     this one included
 * @param r         data and size are set: returned, free with ss_result_deinit()
 * @return GS_OK; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code ss_assemble(const struct ss_try *t, uint64_t prior_ns, uint32_t tries,
				     struct ss_result *r);

/** A writer's result as ours: out of room, or a mistake of our own. */
static inline enum gs_code ss_code(enum kcd_code rc)
{
	if (rc == KCD_OK)
		return GS_OK;
	return rc == KCD_ENOSPC ? GS_ENOSPC : GS_EINVAL;
}

/*
 * Ids of containers: unique in a capture and the same in later ones, also when a pid is used again;
 * 0 is the idle task ("the kernel" to stock readers). Pids have 22 bits (PID_MAX_LIMIT).
 */
static inline uint64_t ss_unique_id(const struct lnx_task *task)
{
	return task->start_boottime_ns / 1000000 << 22 | (uint32_t)task->pid;
}

/* Idle threads all have pid 0; a boot time never reaches bit 63. */
static inline uint64_t ss_idle_id(uint32_t vcpu)
{
	return UINT64_C(1) << 63 | vcpu;
}

#endif
