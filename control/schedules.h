/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that take themselves: at intervals, and when something happens to the guest. */
#ifndef CONTROL_SCHEDULES_H
#define CONTROL_SCHEDULES_H

/*
 *	ctl_schedules_create(loop, &(struct ctl_schedules_config){ .worker = worker, … }, &all, &err);
 *	ctl_schedules_add(all, &(struct ctl_schedule_config){ .dir = "captures", .every_ns = … },
 *			  CTL_SCHEDULE_OPEN_NOW, &id, &err);
 *	uv_run(loop, …);
 *	ctl_schedules_finish(all, on_finished, me);	// before the server and the worker close
 *	ctl_schedules_destroy(all);			// from on_finished() on
 *
 * A schedule takes captures through the worker, as clients do, and keeps them in a folder of its own
 * (store.h). docs/schedules.md is for people.
 *
 * Threads: everything on the loop's thread, which waits for no disk but where said.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "control/trace.h"
#include "control/worker.h"
#include "introspect/stackshot/records.h"

#define CTL_SCHEDULES_MAX	     8
#define CTL_SCHEDULE_EVERY_MIN_NS    UINT64_C(10000000)
#define CTL_SCHEDULE_EVERY_MAX_NS    UINT64_C(604800000000000) /* a week */
#define CTL_SCHEDULE_JITTER_MAX	     50			       /* percent */
#define CTL_SCHEDULE_KEEP_DEFAULT    1000
#define CTL_SCHEDULE_KEEP_MAX	     10000
#define CTL_SCHEDULE_FULL_EVERY_MAX  10000
#define CTL_SCHEDULE_STOPPED_DEFAULT 10000   /* 1 %, in parts of a million */
#define CTL_SCHEDULE_STOPPED_MAX     1000000 /* all */
#define CTL_SCHEDULE_WATCH_MIN_NS    UINT64_C(1000000000)
#define CTL_SCHEDULE_WATCH_MAX_NS    UINT64_C(86400000000000)

struct ctl_schedule_config {
	const char *dir;      /* borrowed for the call */
	uint64_t every_ns;    /* CTL_SCHEDULE_EVERY_MIN_NS …; 0: for triggers only */
	uint32_t jitter;      /* percent of every_ns, at most CTL_SCHEDULE_JITTER_MAX */
	uint32_t full_every;  /* every so many captures a full one, deltas between; 0, 1: all are */
	uint32_t keep;	      /* most of the schedule, and as many of triggers; 0: the default */
	uint64_t max_bytes;   /* 0: no limit */
	uint32_t max_stopped; /* parts of a million that captures may stop the guest */
	bool triggers;	      /* ctl_schedules_trigger() is for it */
	uint64_t hung_ns, lockup_ns; /* triggers that this one looks for itself; 0: not */
};

struct ctl_schedules_config {
	struct ctl_worker *worker; /* borrowed until finished */
	/** The guest's clock; called on the worker's thread. NULL: as its threads' times tell. */
	uint64_t (*guest_ns)(void *arg);
	/** What the guest said last; oldest first. @return lines; NULL: nobody knows */
	uint32_t (*console)(void *arg, struct ss_console_record lines_out[SS_CONSOLE_LINES]);
	void *arg; /* of these */
	struct ctl_trace
		*trace; /* told of what triggers find; borrowed until finished; NULL: none */
};

struct ctl_schedules;

GS_MUST_USE enum gs_code ctl_schedules_create(uv_loop_t *loop,
					      const struct ctl_schedules_config *config,
					      struct ctl_schedules **all_out, struct gs_error *err);

/** From the call of finished() on, or when there never was a schedule. NULL is fine. */
void ctl_schedules_destroy(struct ctl_schedules *all);

enum ctl_schedule_open {
	CTL_SCHEDULE_OPEN_NOW,	 /* waits for the disk, and fails if the folder cannot be used */
	CTL_SCHEDULE_OPEN_LATER, /* on the worker's thread; the list tells whether it can */
};

/**
 * Begin; the first capture is due at once.
 *
 * @param id_out  never used again
 * @return GS_OK; GS_EINVAL: a value out of its range; GS_ETOOBIG: CTL_SCHEDULES_MAX; GS_EBUSY: they
 *         are being finished; GS_ENOSPC; of the folder: see ctl_store_open()
 */
GS_MUST_USE enum gs_code ctl_schedules_add(struct ctl_schedules *all,
					   const struct ctl_schedule_config *config,
					   enum ctl_schedule_open open, uint32_t *id_out,
					   struct gs_error *err);

/** End one; what it has captured stays, and what it has kept is tried once more. @return false: there is none of that number */
bool ctl_schedules_remove(struct ctl_schedules *all, uint64_t id);

/** All of them, for the control socket. NULL: out of memory */
json_t *ctl_schedules_list(const struct ctl_schedules *all);

/**
 * Something has happened to the guest: the schedules with triggers take a capture, as soon as they
 * can. One of the same reason within a second of the last is only counted.
 *
 * @param reason  borrowed
 */
void ctl_schedules_trigger(struct ctl_schedules *all, const struct ss_reason_record *reason);

/** The same for those alone who trace the guest: nobody has asked for captures of it. */
void ctl_schedules_tell(struct ctl_schedules *all, const struct ss_reason_record *reason);

/** The guest has ended: nothing is due any more. What triggers have asked for is taken. */
void ctl_schedules_guest_ended(struct ctl_schedules *all);

/**
 * Take what triggers have asked for, and no more; what could not be written is tried once more.
 *
 * @param finished  called on the loop, not before this returns
 */
void ctl_schedules_finish(struct ctl_schedules *all, void (*finished)(void *arg), void *arg);

#endif
