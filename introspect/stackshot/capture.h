/* SPDX-License-Identifier: Apache-2.0 */
/* A session, and all that one capture at a time works with. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_CAPTURE_H
#define INTROSPECT_STACKSHOT_CAPTURE_H

#include <pthread.h>

#include "introspect/linux/linux.h"
#include "introspect/linux/system.h"
#include "introspect/stackshot/context.h"
#include "introspect/stackshot/history.h"
#include "introspect/stackshot/missing.h"
#include "introspect/stackshot/pool.h"
#include "introspect/stackshot/queue.h"
#include "introspect/stackshot/records.h"
#include "introspect/stackshot/stackshot.h"
#include "introspect/stackshot/storage.h"
#include "introspect/stackshot/worker.h"
#include "kcdata/kcdata.h"

/** What the running guest's lists had shortly before the stop: sizes, and what to read ahead. */
struct ss_expected {
	gva_t *processes;
	struct {
		uint32_t first, count; /* in threads */
	} * of;
	gva_t *threads;
	uint32_t process_count, process_room;
	uint32_t thread_count, thread_room;
};

#define SS_CURRENT_SLOTS 1024 /* twice GUEST_VCPUS_MAX */

/** What one try finds out; zeroed before it. */
struct ss_try {
	const struct ss_request *request;
	struct guest_vcpu_regs regs[GUEST_VCPUS_MAX];
	struct ss_vcpu_record vcpu[GUEST_VCPUS_MAX];
	struct {
		gva_t task; /* 0: none */
		int32_t vcpu;
	} current[SS_CURRENT_SLOTS]; /* hashed by task: what each vCPU executes */
	bool registers_known;	     /* of every vCPU */
	uint32_t items;		     /* of the engine's that count */
	uint32_t longest;	     /* processes met: what the engine's max_tasks must hold */
	uint32_t head_notes;	     /* of what is missing in no item */
	uint64_t honoured;	     /* flags of the request that were, and those that always are */
	struct lnx_page_counts pages;
	struct lnx_system system;
	bool has_system;    /* was read */
	bool has_load_info; /* is recorded */
	bool has_unseen;    /* a process was not looked at: the one that is asked for, maybe */
	bool kernel_changed;
	bool resumed; /* the guest was stopped and runs again: a failure is that of reading it */
	uint64_t wall_us, start_ns; /* when the guest had stopped */
	uint64_t stop_ns, collect_ns, resume_ns;
	uint64_t setup_ns, walk_ns, wait_ns; /* of collect_ns: see collect.c */

	/* after the guest runs again, from all workers */
	uint32_t tasks, threads; /* idle ones not counted */
	uint32_t idle_tasks, idle_threads;
	uint32_t same_tasks, same_threads; /* delta: only named */
	uint64_t missing_count;		   /* may be larger than the list */
	uint32_t missing_listed;
	struct ss_missing_record missing[SS_MISSING_LISTED];
	uint64_t reads, bytes, faults[A64_FAULTS], fault_ns;
};

/** Lines of the kernel's log. */
struct ss_log {
	struct ss_pages pages;
	struct ss_log_record *line; /* room, of which the last used ones are in use */
	uint32_t room, used;
};

/** Everything that a capture works with: there is one for ordinary captures, and one for panics. */
struct ss_engine {
	struct ss_context context;
	struct ss_queues queues;
	struct ss_storage storage;
	struct ss_session *s;
	_Atomic(const struct lnx_kernel *) k; /* during a capture; NULL: not found */
	const char *why_no_kernel;
	struct ss_pages item_pages;
	struct ss_item *item; /* max_tasks + 1: idle threads, then processes in the list's order */
	gva_t *processes;     /* max_tasks */
	uint32_t max_tasks;
	uint32_t workers;
	uint32_t helping; /* that help the calling thread in this capture */
	bool is_fixed; /* there is no more than what is reserved: captures are cut, not repeated */
	struct ss_worker **worker;
	struct ss_pages *worker_pages;
	struct ss_pool *pool; /* of all workers but the first */
	struct ss_expected expected, before;
	struct ss_log log;
	struct lnx_modules modules; /* as they were shortly before the stop */
	struct lnx_bpf bpf;	    /* ... */
	struct ss_try t;
};

struct ss_session {
	struct ss_engine ordinary, panic;
	struct ss_history history; /* empty unless remembers */
	bool remembers;
	struct guest *g;
	struct lnx_hints hints;
	uint64_t buffer_max;
	_Atomic(struct lnx_kernel *) k; /* NULL: not found (yet) */
	_Atomic bool panicking;		/* a panic capture is in progress: there is room for one */
	uint32_t last_tasks;
	size_t last_records; /* bytes the last capture of everything needed */
	struct gs_error why_no_kernel;
	/*
	 * Serialises ordinary captures; guards their engine but for its context, changes of k, and
	 * history, last_… and why_no_kernel.
	 */
	pthread_mutex_t lock;
	struct ss_saved *saved; /* NULL: none; set by holders of lock only */
	uint64_t saved_ids;	/* given out */
	/* Guards these two, for moments: no other is taken inside. */
	pthread_mutex_t saved_lock;
};

/** Most bytes of records, the buffers' limit. */
uint64_t ss_records_max(const struct ss_session *s);

/**
 * Make an engine; lists and buffers are reserved later.
 *
 * @param e        zeroed; to be deinitialised also after a failure
 * @param workers  1 … SS_WORKERS_MAX
 * @param kind     of each worker's cluster
 */
GS_MUST_USE enum gs_code ss_engine_init(struct ss_engine *e, struct ss_session *s, uint32_t workers,
					const enum ss_cluster_kind *kind, struct gs_error *err);
void ss_engine_deinit(struct ss_engine *e);

/** See to lists of @p tasks processes, or threads of one. */
GS_MUST_USE enum gs_code ss_engine_reserve_tasks(struct ss_engine *e, uint64_t tasks);

/** Count the running guest's processes and threads, and remember them. @return threads */
uint64_t ss_expect(struct ss_engine *e);
void ss_expected_deinit(struct ss_expected *x);

/**
 * Read the stopped guest into the storage.
 *
 * @return GS_OK; GS_ENOSPC: the storage is too small; GS_ENOENT: no process has the requested pid;
 *         GS_EBUSY: stood aside for a panic capture
 */
GS_MUST_USE enum gs_code ss_collect(struct ss_engine *e);

/** Whether the deadline has passed: what was read after it is not to be believed. */
bool ss_is_late(const struct ss_engine *e);

/** Note that something is missing in no item. */
void ss_note_head(struct ss_engine *e, struct ss_note note);

/** Instead of it, when the guest could not be stopped: let the workers go. */
void ss_collect_nothing(struct ss_engine *e);

/** Sum up what the workers have, with the guest running again. */
void ss_collect_results(struct ss_engine *e);

/**
 * Build the whole stream: head, task section, what stands behind it, names of all addresses.
 *
 * @param prior_ns  stopped before this try
 * @param tries     this one included
 * @param r         data and size are set: returned, free with ss_result_deinit()
 * @return GS_OK; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code ss_assemble(const struct ss_engine *e, uint64_t prior_ns, uint32_t tries,
				     struct ss_result *r);

/** Whether there is room for one more saved capture: GS_EEXIST if not. With the session's lock held. */
GS_MUST_USE enum gs_code ss_saved_check(struct ss_session *s, struct gs_error *err);

/**
 * Keep a finished capture; what is left of it in @p r is its numbers. With the session's lock held
 * since ss_saved_check().
 *
 * @param r  deinitialised on failure
 * @return GS_OK; GS_ENOSPC
 */
GS_MUST_USE enum gs_code ss_saved_keep(struct ss_session *s, struct ss_result *r,
				       struct gs_error *err);

/** The saved capture as a result. @return GS_OK; GS_ENOENT: there is none */
GS_MUST_USE enum gs_code ss_saved_retrieve(struct ss_session *s, struct ss_result *result_out,
					   struct gs_error *err);

/** One holder less. NULL is fine. */
void ss_saved_put(struct ss_saved *saved);

/** The kernel that the engine works with in this capture, or NULL. */
static inline const struct lnx_kernel *ss_kernel(const struct ss_engine *e)
{
	/* relaxed: the calling thread set it, and the workers came to know of the capture later */
	return atomic_load_explicit(&e->k, memory_order_relaxed);
}

/** The vCPU that executes a task, or -1. */
int32_t ss_vcpu_of(const struct ss_try *t, gva_t task);

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
