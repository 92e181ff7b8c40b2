/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the schedules share. */
#ifndef CONTROL_SCHEDULES_PRIV_H
#define CONTROL_SCHEDULES_PRIV_H

#include <sys/queue.h>

#include "control/kept.h"
#include "control/pace.h"
#include "control/schedules.h"
#include "control/store.h"
#include "control/watch.h"

#define REASONS (SS_REASON_SIGNAL + 1)

enum schedule_job { SCHEDULE_DUE, SCHEDULE_TRIGGER, SCHEDULE_LOOK, SCHEDULE_WRITE };

struct schedule {
	LIST_ENTRY(schedule) link;
	struct ctl_schedules *all;
	uint32_t id;
	struct ctl_schedule_config config; /* dir is ours */
	struct ctl_pace pace;
	uint64_t look_every_ns, look_ns; /* next look; 0: none */
	uv_timer_t timer;
	bool removed;

	bool busy; /* the job is out */
	enum schedule_job what;
	struct ctl_job job;
	struct ctl_sink sink;
	struct ss_cause cause; /* of the job */

	/* the worker's thread while the job is out */
	struct ctl_store *store;
	struct ctl_watch *watch; /* NULL: looks for nothing */
	struct ctl_watch_found found;
	struct ctl_kept kept; /* of triggers */
	struct {
		uint32_t written; /* that were kept */
		uint32_t lost;	  /* that were to be kept */
		bool is_kept;	  /* the job's own capture */
	} did;

	uint32_t pending; /* bits 1 << enum ss_reason: to be taken */
	struct ss_reason_record asked[REASONS];
	uint64_t quiet_ns[REASONS]; /* no other of this reason until then */

	uint64_t base_ns; /* of the full capture that deltas follow; 0: the next one is full */
	uint32_t deltas;  /* since that */

	uint32_t kept_now; /* as of the last job */
	uint64_t write_ns,
		write_again; /* when they are tried again; 0: not; in how long after that */
	bool tried_last;     /* to write them, at the end */

	uint64_t written, triggered, lost, suppressed, looks;
	bool failing, look_failing;
	struct gs_error failure; /* the first since captures fail */
	uint64_t said_ns;	 /* that the budget stretches it; 0: never */
	struct ctl_store_stats folder;
};

struct ctl_schedules {
	uv_loop_t *loop;
	struct ctl_schedules_config config;
	LIST_HEAD(schedule_list, schedule) list;
	uint32_t count, ids;
	bool ended; /* the guest */
	bool finishing;
	uv_timer_t last; /* calls finished() */
	void (*finished)(void *arg);
	void *arg;
};

#endif
