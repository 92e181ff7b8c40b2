/* SPDX-License-Identifier: Apache-2.0 */
/* What the logs of a guest and their sampler share. */
#ifndef CONTROL_BTLOGS_PRIV_H
#define CONTROL_BTLOGS_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "control/btlogs.h"

/* Records of each log: a minute of 99 Hz on 8 vCPUs, or 10,000 threads six times. 1 MiB. */
#define BTLOGS_CAPACITY 65536u

struct btlogs_code;

/** A kernel, its library and logs. */
struct btlogs_state {
	struct lnx_kernel *k;
	struct btl_library *lib;
	struct btl_log *threads, *samples, *probes;
	struct btlogs_code *code; /* what is outside of the kernel's image */
};

struct ctl_btlogs {
	struct guest *g;
	struct lnx_hints hints;
	uint64_t limit;
	pthread_mutex_t lock;	   /* guards state; held while it is used */
	struct btlogs_state state; /* k NULL: no kernel is known */
	void (*observer)(void *arg, const struct btlogs_state *state); /* lock */
	void *observer_arg;

	pthread_mutex_t sampler_lock; /* guards what follows but the atomics; before lock */
	pthread_cond_t sampler_wake;
	pthread_t sampler;
	bool sampling; /* the thread was started and not yet joined */
	bool ending;
	uint32_t hz;
	struct ctl_sample_stats stats;
};

/**
 * Have a state for the kernel that runs now; the lock is held.
 *
 * @return GS_OK: b->state is it; GS_ENOENT: no kernel, with the reason; GS_ENOSPC
 */
GS_MUST_USE enum gs_code ctl_btlogs_ready_locked(struct ctl_btlogs *b, struct gs_error *err);

/**
 * Have somebody told, with the lock held, of each kernel that is found (and at once of the one that is
 * known), and with NULL before it goes. NULL: nobody any more; the last one is told that it goes.
 */
void ctl_btlogs_observe(struct ctl_btlogs *b,
			void (*observer)(void *arg, const struct btlogs_state *state), void *arg);

/** See which modules and programs there are now, so that what is recorded meanwhile has names when it is read. */
void ctl_btlogs_look(struct ctl_btlogs *b);

/**
 * A pause for a thread that takes the lock again and again, without which nobody else would have it: rounds that
 * take longer than their period follow each other at once. The lock is not held.
 */
void ctl_btlogs_give_way(void);

/** Frames of a kernel stack as btlog has them; at most LNX_FRAMES_MAX. @return how many */
uint32_t ctl_btlogs_frames(const uint64_t *address, const uint8_t *kind, uint32_t count,
			   uint64_t *frames_out);

#endif
