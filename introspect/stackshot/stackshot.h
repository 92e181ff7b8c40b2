/* SPDX-License-Identifier: Apache-2.0 */
/* Taking stackshots of a guest: a session keeps what is known of its kernel between captures. */
#ifndef INTROSPECT_STACKSHOT_STACKSHOT_H
#define INTROSPECT_STACKSHOT_STACKSHOT_H

/*
 *	struct ss_session *s;
 *	struct ss_result r = { 0 };
 *	if (!ss_session_create(guest, &s, &err)) {
 *		if (!ss_capture(s, &(struct ss_request){ .version = SS_REQUEST_VERSION,
 *							  .size = sizeof(struct ss_request),
 *							  .pid = SS_PID_ALL }, &r, &err))
 *			write(fd, r.data, r.size);
 *		ss_result_deinit(&r);
 *		ss_session_destroy(s);
 *	}
 *
 * Threads: captures of one session may be asked for by several threads; they come one after
 * another, but for a panic capture (KCD_SS_FROM_PANIC), for which an ordinary one stands aside.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"
#include "introspect/linux/linux.h"

#define SS_REQUEST_VERSION 1
#define SS_PID_ALL	   (-1)

/*
 * Flags of a request are KCD_SS_… of kcdata/stackshot_types.h, those of the original that mean
 * something here, and these. docs/stackshot.md has the table.
 */
#define SS_LATENCY_INFO (UINT64_C(1) << 48) /* records of how long what took */
#define SS_USER_STACKS	(UINT64_C(1) << 49) /* stacks of user mode, too */
#define SS_CONTEXT	(UINT64_C(1) << 50) /* what processes and threads stand in */
#define SS_KERNEL_LOG	(UINT64_C(1) << 51) /* the newest messages of the kernel's log */
#define SS_NO_PROCESSES (UINT64_C(1) << 52) /* no processes and threads */

/** A flag by its name in docs/stackshot.md, those that are refused included; 0: there is no such flag. */
uint64_t ss_request_flag(const char *name);

/** Name of a single flag; NULL: there is no such flag. */
const char *ss_request_flag_name(uint64_t flag);

struct ss_cause; /* records.h */

/** Exact size and version are checked, so that both sides agree on what the fields mean. */
struct ss_request {
	uint32_t version;	 /* SS_REQUEST_VERSION */
	uint32_t size;		 /* sizeof(struct ss_request) */
	uint64_t flags;		 /* 0: none */
	int32_t pid;		 /* one process (thread group id), or SS_PID_ALL */
	uint32_t threads_max;	 /* most threads recorded of a process; 0: all */
	uint64_t size_hint;	 /* bytes of buffer for the first try; 0: estimate */
	uint64_t since_ns;	 /* delta: start of the capture to compare with, as it says it */
	uint64_t deadline_ns;	 /* monotonic time by which the guest runs again; 0: none */
	uint64_t pagetable_mask; /* levels of page tables: SS_PAGETABLE_LEVEL(); 0: all */

	/* recorded in the capture; borrowed; NULL: somebody wants to see the guest */
	const struct ss_cause *cause;
};

/*
 * Levels as the architecture numbers them: 3 is the last; the first one of 52-bit addresses with pages
 * of 4 KiB is -1, and has the highest bit of the 32 that a capture has for them.
 */
#define SS_PAGETABLE_LEVEL(level) (UINT64_C(1) << ((unsigned int)(level) % 32))
#define SS_PAGETABLE_LEVELS	  (UINT64_C(0xf) | SS_PAGETABLE_LEVEL(-1))

/** A finished capture: a kcdata stream and what the caller may want to know without parsing it. */
struct ss_result {
	void *data;	     /* the stream, until ss_result_deinit(); NULL: saved in the session */
	size_t size;	     /* bytes of it */
	bool complete;	     /* false: the stream says what is missing and why */
	uint32_t tasks;	     /* processes recorded, idle task not counted */
	uint32_t threads;    /* their threads */
	uint32_t same_tasks; /* delta: processes of which nothing has changed, only named */
	uint32_t same_threads; /* delta: threads that are only named, of all processes */
	uint32_t tries;	       /* captures taken for want of buffer, the last one included */
	uint64_t stopped_ns;   /* from the call of stop to the end of resume, all tries */
	uint64_t stop_ns;      /* of these: until every vCPU had left the guest (last try) */
	uint64_t collect_ns;   /* reading the guest (last try) */
	uint64_t resume_ns;    /* (last try) */
	uint64_t total_ns;     /* whole call: kernel search, capture, symbols */
	uint64_t start_ns; /* when the guest had stopped, as the stream says: since_ns of a delta */
	uint64_t saved_id; /* of the saved capture that this is; 0: it was not saved */
	struct ss_saved *held; /* whose stream it is; NULL: its own; for ss_result_deinit() */
};

/** What a vCPU cluster is, as the guest is told: decides from which end its worker begins. */
enum ss_cluster_kind {
	SS_CLUSTER_SAME = 0, /* all are alike: hardest first */
	SS_CLUSTER_LITTLE,   /* easiest first */
	SS_CLUSTER_BIG,	     /* hardest first */
};

#define SS_WORKERS_MAX 64

/** Zeroed: defaults. */
struct ss_options {
	uint32_t workers; /* host threads that collect, 1 … SS_WORKERS_MAX; 0: one a cluster */
	uint32_t kinds;	  /* of the clusters (or workers, if these are more): entries of kind */
	const enum ss_cluster_kind *kind; /* those beyond are SS_CLUSTER_SAME; borrowed */
	uint64_t buffer_max;		  /* most bytes of records; 0: by the guest's memory */
	uint64_t panic_buffer; /* bytes of records set aside for a panic; 0: by its memory */
	bool remember;	       /* what captures of everything saw, so that deltas can be taken */
};

struct ss_session;

/** ss_session_create() with other options than the defaults. GS_EINVAL: too many workers or kinds. */
GS_MUST_USE enum gs_code ss_session_create_with(struct guest *g, const struct ss_options *options,
						struct ss_session **s_out, struct gs_error *err);

/** @param g borrowed until ss_session_destroy() @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code ss_session_create(struct guest *g, struct ss_session **s_out,
					   struct gs_error *err);

/** What is known of the guest's kernel beforehand; what it points to is borrowed until the end. */
void ss_session_hint(struct ss_session *s, const struct lnx_hints *hints);

/**
 * Give a session that has none yet the guest's kernel, so that it is not searched for.
 *
 * @param k taken
 */
void ss_session_give_kernel(struct ss_session *s, struct lnx_kernel *k);

/** Why the last search found no kernel; code GS_OK: none has failed. As long as the session is idle. */
const struct gs_error *ss_session_why_no_kernel(const struct ss_session *s);

/**
 * Search for the guest's kernel now, so that a capture with a deadline has all of its time for itself.
 *
 * @return GS_OK, also when none is found: captures say why; others from the guest's stop
 */
GS_MUST_USE enum gs_code ss_session_prepare(struct ss_session *s, struct gs_error *err);

/** The kernel that the last capture found, until the next one; NULL: none. */
const struct lnx_kernel *ss_session_kernel(const struct ss_session *s);

/** A capture that is still saved is lost. NULL is fine. */
void ss_session_destroy(struct ss_session *s);

/**
 * Stop the guest, record every thread, resume it, name the addresses.
 *
 * A guest whose kernel cannot be found (firmware, early boot) still gives its vCPUs' registers: the
 * result is then not complete. The guest runs again on every return.
 *
 * With KCD_SS_SAVE_IN_KERNEL_BUFFER the session keeps the stream, one at a time, and the result has its
 * numbers only. With KCD_SS_RETRIEVE_EXISTING_BUFFER no guest is stopped: the result is the one
 * that was saved, which stays saved until ss_session_saved_drop().
 *
 * @param request borrowed
 * @param result_out must be zeroed or deinitialised; free with ss_result_deinit()
 * @return GS_OK, also when incomplete; GS_EINVAL: the request; GS_ENOTSUP: a flag that has no
 *         meaning here; GS_ENOENT: no such pid, or no capture is saved; GS_ENOSPC: resource
 *         shortage; GS_EBUSY: another capture is in progress and KCD_SS_TRYLOCK, or a panic
 *         capture took over; GS_EEXIST: to be saved, but one is saved already, which stays (the
 *         guest is not stopped for that); others from the guest's stop
 * Threads: not a vCPU's, not an event loop's (it blocks).
 */
GS_MUST_USE enum gs_code ss_capture(struct ss_session *s, const struct ss_request *request,
				    struct ss_result *result_out, struct gs_error *err);

/** Free the stream; safe on a zeroed one, and twice, and after the end of the session. */
void ss_result_deinit(struct ss_result *r);

/**
 * Look at the saved capture.
 *
 * @param numbers_out  as of the capture that was saved; data is NULL
 * @param wall_us_out  when it was saved, since 1970
 * @return false: none is saved
 * Threads: any, also an event loop's: waits for no capture.
 */
bool ss_session_saved(struct ss_session *s, struct ss_result *numbers_out, uint64_t *wall_us_out);

/**
 * Give up a saved capture that was delivered. Who retrieved it may go on to use the result.
 *
 * Several may retrieve one before it is dropped: all get it, and the first drop counts. Identities are
 * never used again, so that a drop which comes late cannot hit the next saved capture.
 *
 * @param saved_id  of the result that was retrieved
 * @return false: it is not saved any more
 * Threads: any, also an event loop's.
 */
bool ss_session_saved_drop(struct ss_session *s, uint64_t saved_id);

#endif
