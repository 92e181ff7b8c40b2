/* SPDX-License-Identifier: Apache-2.0 */
/* One thread that collects: its view of the guest, its threads in flight, its records. Private. */
#ifndef INTROSPECT_STACKSHOT_WORKER_H
#define INTROSPECT_STACKSHOT_WORKER_H

/*
 * Reading a guest is waiting for memory. A worker therefore has up to SS_SLOTS threads in flight:
 * it asks for the descriptors of all their task structures, then for all the structures, then reads
 * them; the stacks are unwound side by side (lnx_walk_finish()). What is written is in the order of
 * the lists.
 *
 * Threads: a worker is one thread's while the capture runs, the calling thread's before and after.
 */

#include "introspect/linux/linux.h"
#include "introspect/linux/user.h"
#include "introspect/stackshot/history.h"
#include "introspect/stackshot/missing.h"
#include "introspect/stackshot/queue.h"
#include "introspect/stackshot/storage.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

struct ss_engine;

/** A process (or all idle threads) on its way into the capture; its index is its place there. */
struct ss_item {
	gva_t task;	       /* of the thread group's leader */
	const gva_t *expected; /* threads it had before the stop; only read ahead */
	uint32_t expected_count;
	uint32_t worker;	   /* that did it */
	struct kcd_chunk *records; /* NULL: none */
	uint64_t id;		   /* of the process's container */
	uint32_t threads;	   /* recorded */
	uint32_t same;		   /* delta: threads that are only named */
	uint32_t runnable;	   /* ... of these, those that wait for a CPU */
	uint32_t notes;		   /* of what is missing */
	bool is_task;		   /* has a container */
	bool is_same;		   /* delta: only named, as nothing of it has changed */
	bool is_done;		   /* looked at: what is missing has been noted */
};

#define SS_SLOTS 32

/* Of one process, those that frames of user stacks lie in; what else there is has no name. */
#define SS_MAPPINGS_MAX 64

/** A thread in flight. */
struct ss_slot {
	gva_t address;
	enum gs_code rc; /* of reading the task */
	int32_t vcpu;	 /* that executes it; -1: none */
	struct ss_mark
		*same; /* delta: has not changed, and is not unwound; NULL: has, or no delta */
	struct lnx_task task;
	struct lnx_walk walk;
	struct lnx_stack stack;
	uint64_t frames[LNX_FRAMES_MAX];
	uint8_t kinds[LNX_FRAMES_MAX];
	uint8_t doubts[LNX_FRAMES_MAX];
	bool has_user; /* the user stack was asked for, and there may be one */
	struct lnx_user_stack user;
};

/** Monotonic times and durations of a worker that did work. */
struct ss_worker_times {
	uint64_t begin_ns; /* 0: it did none */
	uint64_t queue_ns; /* when it began to take items */
	uint64_t end_ns;
	uint64_t waited_ns; /* for items to come */
};

struct ss_worker {
	struct ss_engine *e;
	uint32_t number; /* 0 is the calling thread; also that of its buffer */
	uint32_t cluster;
	enum ss_cluster_kind kind;
	struct lnx_view v;
	struct lnx_cache cache;
	struct ss_slot slot[SS_SLOTS];
	uint8_t stack[LNX_WAITS_STACK] __attribute__((aligned(8))); /* of a thread that waits */
	struct lnx_user_space user; /* that the last user stack was in */
	struct ss_mappings {
		int32_t tgid;
		uint32_t n;
		struct lnx_mapping at[SS_MAPPINGS_MAX]; /* in the order in which they were met */
	} mappings[SS_TAKE_MAX];			/* of the items at hand that have any */
	uint32_t mappings_used;
	struct lnx_known_ids known_ids; /* of their files */

	struct {
		struct ss_item *item;
		struct lnx_task leader;
		enum gs_code rc;  /* of reading it */
		int32_t ppid;	  /* -1: not known */
		uint32_t listed;  /* threads on its list */
		uint32_t threads; /* of these, those that are recorded */
	} group[SS_TAKE_MAX];	  /* the items at hand */

	struct ss_pages task_pages;
	gva_t *tasks;	       /* thread lists of the items at hand, one after another */
	struct ss_mark **same; /* delta: threads of the item at hand that have not changed */
	uint32_t tasks_max;
	uint32_t at, filled, end; /* of tasks: the next one to be written, in slots, in all */
	uint32_t first;		  /* of tasks: the one in slot 0 */
	uint32_t longest;	  /* most that tasks had to hold, or would have */

	struct kcd_writer out;		 /* records of one item */
	struct kcd_mark begin;		 /* ... before its container */
	gva_t mm;			 /* ... the struct mm_struct; 0: it has none */
	void *snapshot;			 /* ... its 0x905, for what is summed over the threads */
	struct kcd_latency_task latency; /* ... of the item, when that is asked for */
	uint64_t lap_ns;
	struct ss_notes notes;

	uint32_t items; /* done */
	uint32_t threads;
	uint64_t asked, foreign; /* bytes of pieces in all, and from other buffers */
	struct ss_worker_times times;
	bool no_room; /* there was none for some record */
};

/** See to room for thread lists of @p tasks entries. @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code ss_worker_reserve(struct ss_worker *w, uint32_t tasks);
void ss_worker_release(struct ss_worker *w);

/** Be ready for a new capture; last before the stop. */
void ss_worker_reset(struct ss_worker *w);

/** Note that something is missing in the item at hand. */
void ss_worker_note(struct ss_worker *w, struct ss_item *item, struct ss_note note);

#define SS_NO_ITEM UINT32_MAX

/**
 * Take items and record them until there are no more.
 *
 * @param own  item that comes first and is in no queue, or SS_NO_ITEM
 * @return GS_OK, also when the deadline ended it; GS_ENOSPC: storage or a list is too small;
 *         GS_EBUSY: stood aside
 */
GS_MUST_USE enum gs_code ss_worker_run(struct ss_worker *w, uint32_t own);

/** Record processes one after another. @return as ss_worker_run() */
GS_MUST_USE enum gs_code ss_worker_do(struct ss_worker *w, const uint32_t *items, uint32_t n);

/** Record the idle threads of all vCPUs, as item 0. */
GS_MUST_USE enum gs_code ss_worker_do_idle(struct ss_worker *w);

/* --- item.c: the records of an item --- */

/** A note of something missing; @p task is the process's leader, or NULL. */
struct ss_note ss_note_of(const struct lnx_task *task, enum ss_missing what, enum ss_why why);

/**
 * Whether a failure only ends the capture, with what there is: the deadline has passed, or there is
 * no more room and cannot be. What is left out is noted.
 */
bool ss_is_cut(const struct ss_worker *w, enum gs_code rc);

/** Note what of @p threads that were to be recorded is left out for @p rc. */
void ss_note_cut(struct ss_worker *w, struct ss_item *item, const struct lnx_task *leader,
		 uint32_t threads, enum gs_code rc);

/** Measure the time of the item at hand, if that is asked for. */
void ss_lap_begin(struct ss_worker *w);
/** Nanoseconds since the last lap; 0: not asked for. */
uint64_t ss_lap(struct ss_worker *w);

/**
 * Begin an item's records with its container, and nothing if there is no room.
 *
 * @param threads  that are going to be recorded
 */
GS_MUST_USE enum gs_code ss_item_open(struct ss_worker *w, struct ss_item *item, uint64_t id,
				      const struct lnx_task *leader,
				      const struct ss_task_record *record, uint32_t threads);

/** Record a thread, or take note that a delta is to name it. */
GS_MUST_USE enum gs_code ss_item_thread(struct ss_worker *w, struct ss_item *item,
					struct ss_slot *s, uint64_t id);

/**
 * End an item's records.
 *
 * @param threads  that were to be recorded
 * @param cut  what ended the loop over them: GS_OK or a failure
 * @return @p cut, or a failure of its own
 */
GS_MUST_USE enum gs_code ss_item_close(struct ss_worker *w, struct ss_item *item,
				       const struct lnx_task *leader,
				       const struct ss_task_record *record, uint32_t threads,
				       enum gs_code cut);

/* --- write.c: what a thread and a process look like in the stream --- */
/**
 * Open an item's container.
 *
 * @param snapshot_out  what is summed over the threads is filled in later through it
 */
GS_MUST_USE enum gs_code ss_write_task_begin(struct ss_worker *w, const struct lnx_task *leader,
					     uint64_t id, const struct ss_task_record *record,
					     void **snapshot_out);

/** Whether a thread waits for a CPU. */
bool ss_is_runnable(const struct ss_mark *m);

/** The same of a process that has not changed itself, in a delta. */
GS_MUST_USE enum gs_code ss_write_same_task_begin(struct ss_worker *w, uint64_t id);

/** Name threads that have not changed: those that could run with what a scheduler knows of them. */
GS_MUST_USE enum gs_code ss_write_same_threads(struct ss_worker *w, struct ss_mark *const *same,
					       uint32_t count);

/** How long a process took. */
GS_MUST_USE enum gs_code ss_write_task_latency(struct ss_worker *w,
					       const struct kcd_latency_task *latency);

/** What stands in the records of a process and of a thread. */
struct ss_task_record ss_task_record_of(const struct lnx_task *leader, int32_t ppid,
					uint32_t threads, const char *comm);
struct ss_thread_record ss_thread_record_of(const struct lnx_task *task, int32_t vcpu,
					    const struct lnx_stack *stack);

/** Add a thread's page faults to its process's. */
void ss_write_task_faults(void *snapshot, uint64_t minor, uint64_t major);

/* --- waits.c --- */

/** What a thread waits for. @return how many */
uint32_t ss_find_waits(struct ss_worker *w, const struct ss_slot *slot,
		       struct ss_wait_record waits_out[static LNX_WAITS_MAX]);

/** The same as the original's 0x91D, which is of the process: behind the thread's container. */
GS_MUST_USE enum gs_code ss_write_waitinfo(struct ss_worker *w, uint64_t id,
					   const struct ss_wait_record *waits, uint32_t n);

/** The whole container of a thread. */
GS_MUST_USE enum gs_code ss_write_thread(struct ss_worker *w, const struct ss_slot *slot,
					 uint64_t id);

#endif
