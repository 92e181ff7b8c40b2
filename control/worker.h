/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread that stops, captures and resumes the guest, and its queue. */
#ifndef CONTROL_WORKER_H
#define CONTROL_WORKER_H

/*
 * What touches the guest blocks, so the event loop posts it here as a job and goes on; the job's
 * done() runs on the loop again. One thread makes stops, captures and resumes of all clients a
 * single sequence. Jobs are the caller's memory: posting and giving up cannot fail.
 *
 *	ctl_worker_create(loop, &config, &w, &err);
 *	job = (struct ctl_job){ .kind = CTL_JOB_SNAP, .ask.pid = SS_PID_ALL,
 *				 .done = on_done };
 *	ctl_worker_post(w, &job);		// on_done(&job) follows, on the loop
 *	…
 *	ctl_worker_close(w);			// when no job is out
 *
 * Threads: everything here is called on the loop's thread, except where said.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "control/btlogs.h"
#include "control/dump.h"
#include "control/trace.h"
#include "introspect/guest/guest.h"
#include "introspect/stackshot/stackshot.h"

enum ctl_job_kind {
	CTL_JOB_SNAP,	    /* capture, then publish to path or as a memory file */
	CTL_JOB_DUMP,	    /* an ELF core of the guest, to path */
	CTL_JOB_SAMPLE,	    /* start or end sampling, with hz */
	CTL_JOB_BTLOGS,	    /* counters of the logs of backtraces */
	CTL_JOB_BTLOG,	    /* action on log */
	CTL_JOB_SAVE,	    /* the logs, to path or as a memory file */
	CTL_JOB_TRACE,	    /* an operation of tracing */
	CTL_JOB_TRACE_GONE, /* end a connection's session */
	CTL_JOB_STOP,	    /* one guest_stop() */
	CTL_JOB_RESUME,	    /* count times guest_resume() */
	CTL_JOB_SINK,	    /* the sink's ready(), and nothing else */
};

struct ctl_job;

/** Somebody who takes captures otherwise than as one file; called on the worker's thread. */
struct ctl_sink {
	/** Before the guest is stopped for it. NULL: always ready. @return GS_OK: go on */
	enum gs_code (*ready)(void *arg, struct gs_error *err);
	/** Take one that was finished: what of it is borrowed, its numbers are in the job's result. */
	enum gs_code (*put)(void *arg, const struct ctl_job *job, struct gs_error *err);
	void *arg;
};

struct ctl_job {
	enum ctl_job_kind kind;
	struct ss_request ask; /* snap: but for version, size and deadline_ns */
	uint32_t deadline_ms;  /* snap; 0: none; from when its turn comes */
	const char *path; /* file to write; snap: NULL for a memory file; borrowed until done */
	const struct ctl_sink *sink; /* snap: instead of path or memory file; borrowed until done */
	bool is_look; /* snap to a sink: a look at the guest that is no capture for anybody else */
	bool keep;    /* snap that retrieves: it is not dropped when it was written to path */
	uint32_t count;			 /* resume */
	uint32_t hz;			 /* sample */
	enum ctl_btlog_action action;	 /* btlog */
	const char *log;		 /* btlog, save: NULL: all; borrowed until done */
	struct ctl_trace_client *tracer; /* trace, gone: the connection's; borrowed until done */
	const char *operation;		 /* trace; a static string */
	json_t *arguments;		 /* trace; borrowed until done */
	void (*done)(struct ctl_job *job);
	void *arg; /* the poster's */

	/* results, from done() on */
	enum gs_code code;
	struct gs_error err;
	struct ss_result result;	/* snap, GS_OK: numbers; data is NULL, published or saved */
	struct ctl_dump_result dump;	/* dump, GS_OK */
	struct ctl_btlogs_stats btlogs; /* btlogs, sample: GS_OK */
	size_t saved;			/* save, GS_OK: bytes */
	json_t *answer;			/* trace, GS_OK; taken by done() */
	int fd; /* snap to a memory file, GS_OK: sealed; taken by done(); else -1 */

	/* the worker's */
	atomic_bool abandoned;
	struct ctl_job *next;
};

struct ctl_worker_config {
	struct guest *guest; /* borrowed until ctl_worker_close() */
	/**
	 * Take a capture; called on the worker's thread, one at a time. Same contract as
	 * ss_capture(), which it usually calls.
	 */
	enum gs_code (*capture)(void *arg, const struct ss_request *request,
				struct ss_result *result_out, struct gs_error *err);
	void *arg;
	struct ss_session *session; /* where these are saved; borrowed like guest; NULL: nowhere */
	struct lnx_hints hints;	    /* for dumps; what it points to is borrowed like guest */
	struct ctl_trace *trace;    /* borrowed; NULL: nothing is traced */
	struct ctl_btlogs *btlogs;  /* fed by captures once these are done; borrowed; NULL: none */
};

/** Counters of everything captured through one worker; retrieving one that was saved is no capture. */
struct ctl_capture_stats {
	uint64_t taken;	     /* published or saved; incomplete ones included */
	uint64_t incomplete; /* of these */
	uint64_t failed;     /* capture or publishing failed */
	uint64_t dropped;    /* nobody was left to take it */
	bool have_last;
	struct ss_result last; /* numbers of the last one taken; data is NULL */
	uint64_t last_wall_us; /* when it was finished, since 1970 */
};

struct ctl_worker;

/**
 * Start the thread.
 *
 * @param loop   borrowed until the handle is closed, that is until uv_run() after
 * ctl_worker_close()
 * @param config borrowed for the call
 * @param worker_out returned: end with ctl_worker_close()
 * @return GS_OK; GS_ENOSPC: no memory or no thread
 */
GS_MUST_USE enum gs_code ctl_worker_create(uv_loop_t *loop, const struct ctl_worker_config *config,
					   struct ctl_worker **worker_out, struct gs_error *err);

/** Queue a job; it is the worker's until done(). First come, first served. */
void ctl_worker_post(struct ctl_worker *w, struct ctl_job *job);

/**
 * Nobody wants the job's result any more. One that waits is taken out of the queue: true, and its
 * done() is not called. One that runs is finished (a guest is never left stopped by it) but a
 * capture is not published (to be saved, it is) and a dump is ended: false, and done() follows.
 */
bool ctl_worker_abandon(struct ctl_worker *w, struct ctl_job *job);

/** Like ctl_worker_abandon() for a job that waits; one that runs is left alone: false. */
bool ctl_worker_withdraw(struct ctl_worker *w, struct ctl_job *job);

/** ss_session_saved() of the session; false: none is saved. */
bool ctl_worker_saved(struct ctl_worker *w, struct ss_result *numbers_out, uint64_t *wall_us_out);

/** A saved capture was delivered, or is not wanted. @return false: it is not saved any more */
bool ctl_worker_saved_drop(struct ctl_worker *w, uint64_t saved_id);

/** Whether a capture is being taken at this moment. */
bool ctl_worker_is_capturing(struct ctl_worker *w);

/** Jobs that wait. */
uint32_t ctl_worker_queued(struct ctl_worker *w);

const struct ctl_capture_stats *ctl_worker_stats(const struct ctl_worker *w);

/** Join the thread and free; no job may be out. NULL is fine. */
void ctl_worker_close(struct ctl_worker *w);

#endif
