/* SPDX-License-Identifier: Apache-2.0 */
/* The backtrace library: each guest stack is kept once, under a 32-bit reference; and logs of them. */
#ifndef INTROSPECT_BTLOG_BTLOG_H
#define INTROSPECT_BTLOG_BTLOG_H

/*
 * A library holds the stacks of one boot of one kernel. A log records "this element, this operation,
 * this stack, at this time" in 16 or 24 bytes, since the stack is a reference into the library.
 *
 *	struct btl_library *lib;
 *	struct btl_log *log;
 *	uint32_t ref;
 *
 *	if (btl_library_create(&(struct btl_library_options){ .base = kernel_text }, &lib, &err) ||
 *	    btl_log_create(lib, &(struct btl_log_options){ .name = "threads", .capacity = 65536 }, &log,
 *			   &err))
 *		return err.code;
 *	if (btl_log_wants(log) && !btl_get(lib, frames, count, 0, &ref))
 *		(void)btl_log_record(log, task_address, BTL_OP_RUNNING, ref, gs_clock_ns());
 *	…btl_log_groups(), btl_book_take()…
 *	btl_log_destroy(log);
 *	btl_library_destroy(lib);
 *
 * References: 0 is none. A reference is a multiple of 64 that stays what it is, and keeps its stack,
 * until it is put; bit 31 says that it is permanent and need not be put. btl_get() finds or adds a
 * stack and gives one reference to it, btl_log_record() takes one over.
 *
 * Threads: everything but create and destroy, from any threads side by side, none of which needs to
 * be registered or to say when it is idle. A library runs one thread of its own ("btlog"), which waits
 * out readers, grows the table and drops what is least useful when the limit is near. A stack that is
 * known is found without a lock. Functions that take locks are not for the stopped interval of a guest
 * and not for signal handlers, except where said.
 *
 * docs/btlog.md has the encoding of frames, the limits and the rule of what is dropped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define BTL_FRAMES_MAX	  13u
#define BTL_REF_PERMANENT UINT32_C(0x80000000)
#define BTL_LIMIT_MIN	  (UINT64_C(1) << 20) /* bytes, of a library */
#define BTL_LIMIT_MAX	  (UINT64_C(1) << 30)
#define BTL_LIMIT_DEFAULT (UINT64_C(64) << 20)
#define BTL_REGIONS_MAX	  2047u /* 2 MiB regions outside of the kernel's window */

/* --- frames ---------------------------------------------------------------------------------- */

/*
 * A frame is a guest-virtual address of an instruction (a multiple of 4) with flags in its low bits,
 * or a pseudo frame: a small number that says what is there instead of an address.
 */

/** Added to an address that was itself executing; all others are return addresses. */
#define BTL_FRAME_EXACT UINT64_C(2)

/** A pseudo frame of a code (1 … BTL_PSEUDO_CODES - 1). */
#define BTL_FRAME_PSEUDO(code) ((uint64_t)(code) << 2)
#define BTL_PSEUDO_CODES       (UINT64_C(1) << 19)

enum btl_pseudo {
	BTL_PSEUDO_UNKNOWN = 1, /* no address of an instruction */
	BTL_PSEUDO_LOST = 2,	/* outside of the window, and BTL_REGIONS_MAX regions are in use */
	BTL_PSEUDO_USER = 3,	/* user mode */
	BTL_PSEUDO_BROKEN = 4,	/* the unwinder could not go on: outermost frame of such a stack */
};

static inline bool btl_frame_is_pseudo(uint64_t frame)
{
	return frame < BTL_FRAME_PSEUDO(BTL_PSEUDO_CODES);
}

/** The address of a frame that is no pseudo frame. */
static inline uint64_t btl_frame_address(uint64_t frame)
{
	return frame & ~UINT64_C(3);
}

/** The address by which to look for the function: of a return address, the instruction before it. */
static inline uint64_t btl_frame_code(uint64_t frame)
{
	return btl_frame_address(frame) - (frame & BTL_FRAME_EXACT ? 0 : 4);
}

/** Text of a pseudo frame ("[user]"); "[?]" for codes that have none. */
const char *btl_pseudo_name(uint64_t frame);

struct btl_stack {
	uint32_t count;
	bool cut;			/* there were more frames, further out */
	uint32_t references;		/* at the moment of the copy; UINT32_MAX: permanent */
	uint64_t frame[BTL_FRAMES_MAX]; /* innermost first; unused ones 0 */
};

/* --- library --------------------------------------------------------------------------------- */

struct btl_library;

/** Uses of references that are bugs of the caller. */
enum btl_misuse {
	BTL_MISUSE_INVALID,	 /* no reference that was ever handed out */
	BTL_MISUSE_OVER_RELEASE, /* put more often than got */
	BTL_MISUSE_RESURRECTION, /* retained or read without holding a reference */
};

struct btl_library_options {
	uint64_t base;	/* address of the kernel's text; a multiple of 4, at least 4 GiB */
	uint64_t limit; /* bytes of stacks and table, BTL_LIMIT_MIN … _MAX; 0: BTL_LIMIT_DEFAULT */
	uint64_t seed;	/* of the hash; 0: random (so that a guest cannot choose collisions) */
	/* Called at a misuse, from the thread that did it; the call at fault then returns an error.
	 * NULL: builds with GS_DEBUG abort, others only return the error. All count it. */
	void (*misuse)(void *arg, enum btl_misuse what, uint32_t ref);
	void *misuse_arg;
};

/**
 * Start an empty library and its thread.
 *
 * @param options  borrowed
 * @param lib_out  returned: free with btl_library_destroy()
 * @return GS_OK; GS_EINVAL: base or limit; GS_ENOSPC: out of memory; GS_ESYS: no thread
 */
GS_MUST_USE enum gs_code btl_library_create(const struct btl_library_options *options,
					    struct btl_library **lib_out, struct gs_error *err);

/** All its logs are destroyed and no thread uses it. References still held end here. NULL is fine. */
void btl_library_destroy(struct btl_library *lib);

enum btl_get_flag {
	BTL_GET_PERMANENT = 1u << 0, /* the stack stays for the library's life */
	BTL_GET_NOWAIT = 1u << 1,    /* take no lock that another thread holds, wait for no room */
	BTL_GET_CUT = 1u << 2, /* of at least BTL_FRAMES_MAX frames: outer ones are left out */
};

/**
 * Get a reference to a stack, adding the stack if it is not known.
 *
 * Of more than BTL_FRAMES_MAX frames the innermost ones count, and the stack says that it is cut. A cut
 * stack is another one than a whole stack of the same frames. What is no frame (an odd address) becomes
 * BTL_PSEUDO_UNKNOWN.
 *
 * @param frames   borrowed; innermost first, as described above
 * @param count    0 is legal
 * @param flags    enum btl_get_flag
 * @param ref_out  to be given back by btl_put() or to a log, unless its bit 31 is set
 * @return GS_OK; GS_ENOSPC: the limit is reached and all stacks are held by others than logs;
 *         GS_EBUSY: with BTL_GET_NOWAIT only: would have to wait. Both are counted (stats.lost).
 * Threads: any; not while holding what btl_put() of another thread may wait for (nothing of btlog's
 * own). Allocates nothing from the heap.
 */
GS_MUST_USE enum gs_code btl_get(struct btl_library *lib, const uint64_t *frames, uint32_t count,
				 uint32_t flags, uint32_t *ref_out);

/**
 * One more reference to a stack of which the caller (or a log) holds one.
 *
 * @return GS_OK, also for permanent ones; GS_EINVAL: a misuse
 * Threads: any; lock-free.
 */
enum gs_code btl_retain(struct btl_library *lib, uint32_t ref);

/**
 * Give a reference back. The stack goes with its last one. 0 is fine.
 *
 * Puts beyond the last one are noticed only until the place of the stack is used again.
 * @return GS_OK; GS_EINVAL: a misuse
 * Threads: any; the last put of a stack takes the library's lock for a moment.
 */
enum gs_code btl_put(struct btl_library *lib, uint32_t ref);

/**
 * Copy a stack out.
 *
 * @param ref  the caller, or a log, holds it for the time of the call
 * @return GS_OK; GS_EINVAL: a misuse
 * Threads: any; takes no lock, allocates nothing.
 */
GS_MUST_USE enum gs_code btl_stack_copy(struct btl_library *lib, uint32_t ref,
					struct btl_stack *stack_out);

struct btl_library_stats {
	uint64_t limit;	      /* bytes */
	uint64_t stack_bytes; /* of memory taken for stacks so far */
	uint64_t table_bytes; /* of the hash table */
	uint32_t stacks;      /* held now */
	uint32_t stacks_max;  /* that fit below the limit */
	uint32_t waiting;     /* without references, until their last readers are certainly gone */
	uint32_t heads;	      /* chains of the table */
	uint32_t regions;     /* 2 MiB regions outside of the kernel's window that are in use */
	uint64_t rehashes;
	uint64_t grace_periods;
	uint64_t saturated;	  /* stacks whose count reached its end, permanent since */
	uint64_t lost;		  /* btl_get() calls that failed: stacks that nobody recorded */
	uint64_t frames_lost;	  /* frames that became BTL_PSEUDO_LOST */
	uint64_t frames_unknown;  /* … BTL_PSEUDO_UNKNOWN, because their address is odd */
	uint64_t drops;		  /* times that the limit made logs drop records */
	uint64_t dropped_stacks;  /* so chosen */
	uint64_t dropped_records; /* so dropped, of all logs */
	uint64_t misuses;
};

void btl_library_stats_get(struct btl_library *lib, struct btl_library_stats *stats_out);

/** Wait until the library's thread has nothing to do: no rehash, no stack waiting for readers. */
void btl_library_settle(struct btl_library *lib);

/* --- logs ------------------------------------------------------------------------------------ */

struct btl_log;

/** Operations are 0 … BTL_OPS - 1. What captures and samples use: */
enum btl_op {
	BTL_OP_NONE = 0,
	BTL_OP_RUNNING = 1,
	BTL_OP_RUNNABLE = 2,
	BTL_OP_SLEEPING = 3,
	BTL_OP_UNINTERRUPTIBLE = 4,
	BTL_OP_STOPPED = 5,
	BTL_OP_ZOMBIE = 6,
	BTL_OP_IDLE = 7,
};

#define BTL_OPS 64u

/** Name of an enum btl_op ("running"); NULL for others. */
const char *btl_op_name(uint32_t op);

enum btl_log_kind {
	BTL_LOG_RING, /* the newest records, 16 bytes each */
	BTL_LOG_HASH, /* the same, found by element, with erase; 24 bytes and 2 of buckets */
};

#define BTL_LOG_NAME_SIZE    32u
#define BTL_LOG_CAPACITY_MIN 16u
#define BTL_LOG_CAPACITY_MAX (1u << 26)
#define BTL_LOG_SAMPLE_MAX   0x7fffffu

struct btl_log_options {
	const char *name; /* at most 31 characters count; borrowed for the call */
	enum btl_log_kind kind;
	uint32_t capacity; /* records, BTL_LOG_CAPACITY_MIN … _MAX */
	uint32_t sample;   /* record one of so many of each thread, to _SAMPLE_MAX; 0 and 1: all */
	/* names of operations for saved files, borrowed for the log's life; NULL: btl_op_name() */
	const char *(*op_name)(uint32_t op);
};

/**
 * Start an empty, enabled log.
 *
 * @param lib      outlives the log
 * @param log_out  returned: free with btl_log_destroy()
 * @return GS_OK; GS_EINVAL: options out of range; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code btl_log_create(struct btl_library *lib,
					const struct btl_log_options *options,
					struct btl_log **log_out, struct gs_error *err);

/** Releases all stacks that it holds. No thread uses it any more. NULL is fine. */
void btl_log_destroy(struct btl_log *log);

/** Whether it is this thread's turn to record (sampling), and the log is enabled. Ask before unwinding.
 * Threads: any; no lock. */
bool btl_log_wants(struct btl_log *log);

/**
 * Record a stack. The oldest record of a full log goes.
 *
 * @param element  what the stack is about: a task's address, an object's; any number
 * @param op       0 … BTL_OPS - 1
 * @param ref      taken over, on errors too
 * @param time_ns  of gs_clock_ns(), when it was so
 * @return GS_OK; GS_EBUSY: the log is disabled; GS_EINVAL: op, or @p ref is 0
 */
enum gs_code btl_log_record(struct btl_log *log, uint64_t element, uint32_t op, uint32_t ref,
			    uint64_t time_ns);

/**
 * Drop all records of an element (it was freed, it has exited). BTL_LOG_HASH only.
 *
 * @return how many; 0 in a ring, and when disabled
 */
uint32_t btl_log_erase(struct btl_log *log, uint64_t element);

/** Drop all records and the memory behind them; records are then refused. Fine when disabled. */
void btl_log_disable(struct btl_log *log);

/** Start again, empty. Fine when enabled. @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code btl_log_enable(struct btl_log *log, struct gs_error *err);

struct btl_log_stats {
	char name[BTL_LOG_NAME_SIZE];
	enum btl_log_kind kind;
	bool enabled;
	uint32_t capacity;
	uint32_t sample;
	uint32_t held;		/* records now */
	uint64_t bytes;		/* of memory behind them */
	uint64_t enabled_at_ns; /* gs_clock_ns() */
	/* since the log was last enabled */
	uint64_t recorded;
	uint64_t overwritten; /* by newer ones */
	uint64_t erased;
	uint64_t dropped; /* because of the library's limit */
	/* since it was created */
	uint64_t refused; /* records while disabled */
	uint64_t skipped; /* by sampling */
};

void btl_log_stats_get(struct btl_log *log, struct btl_log_stats *stats_out);

/* --- reading logs ---------------------------------------------------------------------------- */

/** Equal records: same stack, same operation. 128 bytes. */
struct btl_group {
	uint32_t count;
	uint32_t op;
	uint32_t frames;
	uint32_t cut; /* 1: there were more frames */
	uint64_t frame[BTL_FRAMES_MAX];
	uint64_t reserved;
};

struct btl_groups {
	struct btl_group *group; /* most popular first */
	uint32_t count;
	uint32_t clipped;	  /* groups for which there was no room */
	uint64_t records;	  /* in the groups that are here */
	uint64_t clipped_records; /* in the others */
};

/**
 * What a log holds, counted.
 *
 * @param max         most groups; the most popular stay. 0: no limit
 * @param groups_out  returned: free with btl_groups_deinit()
 * @return GS_OK; GS_ENOENT: nothing in it, or disabled; GS_ENOSPC: out of memory
 * Recording waits while the references are copied (8 bytes a record).
 */
GS_MUST_USE enum gs_code btl_log_groups(struct btl_log *log, uint32_t max,
					struct btl_groups *groups_out, struct gs_error *err);

void btl_groups_deinit(struct btl_groups *groups);

/**
 * The stack that probably occurs most in a log: of its 8 stacks with most references in the library,
 * the one that is most frequent in the log.
 *
 * @param count_out  how often
 * @return GS_OK; GS_ENOENT: nothing in it, or disabled; GS_EBUSY: the log is being written
 * For emergencies: allocates nothing, waits for no lock. Misled by permanent stacks.
 */
GS_MUST_USE enum gs_code btl_log_guess_top(struct btl_log *log, struct btl_stack *stack_out,
					   uint32_t *count_out);

/**
 * The stacks behind given elements: who allocated what was never freed. The newest record of each
 * element counts. BTL_LOG_HASH only.
 *
 * @param elements    borrowed
 * @param groups_out  as btl_log_groups(), by stack alone (op is 0); clipped_records: elements of which
 *                    the log knows nothing
 * @return GS_OK, also when none is known; GS_ENOTSUP: a ring; GS_ENOENT: disabled; GS_ENOSPC
 */
GS_MUST_USE enum gs_code btl_log_leak_sites(struct btl_log *log, const uint64_t *elements,
					    uint32_t count, struct btl_groups *groups_out,
					    struct gs_error *err);

/** One record. */
struct btl_record {
	uint64_t element;
	uint64_t time_ns; /* of gs_clock_ns(), to 10 ms */
	uint32_t ref;
	uint32_t op;
};

/**
 * All records, oldest first, each with a reference of its own: give each back with btl_put().
 *
 * @param records_out  returned: free with free() (btl_records_release() does both)
 * @return as btl_log_groups()
 */
GS_MUST_USE enum gs_code btl_log_records(struct btl_log *log, struct btl_record **records_out,
					 uint32_t *count_out, struct gs_error *err);

void btl_records_release(struct btl_log *log, struct btl_record *records, uint32_t count);

#endif
