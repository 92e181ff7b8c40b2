/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a capture in progress, which its workers share. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_CONTEXT_H
#define INTROSPECT_STACKSHOT_CONTEXT_H

/*
 *	             +-----------------------------------------+
 *	             v                                         |
 *	INACTIVE -> SETUP -> RUNNING --------------------------+
 *	   ^          |        |  \                            |
 *	   |          +--------+---+--> ERRORED (first code) --+
 *	   |          |        |           |
 *	   |          +--------+-----------+--> PANICKED
 *	   +---------------------------------------+
 *
 * All transitions are compare-and-swap. The calling thread makes them but for the two that anybody
 * may make: to ERRORED by the first worker that fails, to PANICKED by a panic capture, for which
 * the workers of an ordinary one stand aside. The original has no way out of PANICKED, as the
 * system is dying; here it is the guest that dies, and may be captured again.
 *
 * The count of workers at work is the completion barrier: the calling thread goes on when it is 0,
 * and nobody enters any more. A worker that has been woken but has not come so far (the machine has
 * other things to do) is not waited for while the guest is stopped.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum ss_state {
	SS_INACTIVE = 0,
	SS_SETUP = 1,
	SS_RUNNING = 2,
	SS_ERRORED = 3, /* the code is in the bits above */
	SS_PANICKED = 4,
};

#define SS_STATE_BITS 3

/** Zeroed: inactive. */
struct ss_context {
	_Alignas(64) _Atomic uint32_t state;   /* enum gs_code << SS_STATE_BITS | enum ss_state */
	_Alignas(64) _Atomic uint32_t working; /* workers at work; bit 31: nobody else may enter */
	_Alignas(64) _Atomic uint32_t joined;  /* helpers that were woken and are not gone yet */
	_Atomic uint32_t arrived;  /* of these, how many have come to wait for the stop */
	_Atomic uint32_t sleepers; /* threads that have given up to spin for any of these */
	_Atomic bool late;	   /* the deadline has passed: finish what is begun, take no more */
	uint64_t deadline_ns;
};

enum ss_state ss_context_state(const struct ss_context *c);

/** INACTIVE to SETUP, with the caller as the only worker. @return false: it was not inactive */
bool ss_context_setup(struct ss_context *c, uint64_t deadline_ns);

/** SETUP to RUNNING; wakes those who wait for it. @return false: it was not SETUP any more */
bool ss_context_run(struct ss_context *c);

/** To ERRORED, unless another was first; @p code is not GS_OK. */
void ss_context_fail(struct ss_context *c, enum gs_code code);

/** A panic capture takes over, unless nobody is at work. */
void ss_context_panic(struct ss_context *c);

/**
 * To INACTIVE, when all workers are done, or when there is nothing for them to do.
 * @return why the capture failed, or GS_OK
 */
enum gs_code ss_context_end(struct ss_context *c);

/** @p helpers are going to be woken. */
void ss_context_join(struct ss_context *c, uint32_t helpers);

/** Wait until all of them have arrived; before the stop. */
void ss_context_wait_arrived(struct ss_context *c);

/**
 * A helper arrives, and waits until there is something to do.
 *
 * @return true: it is at work until ss_context_leave(); false: there is nothing to do (any more)
 */
bool ss_context_enter(struct ss_context *c);

/** One less at work. */
void ss_context_leave(struct ss_context *c);

/** A helper is gone, whether it was at work or not: the last thing that it does. */
void ss_context_gone(struct ss_context *c);

/** Let nobody enter any more, and wait until nobody is at work. */
void ss_context_wait_done(struct ss_context *c);

/** Wait until all helpers are gone; not while the guest is stopped. */
void ss_context_wait_gone(struct ss_context *c);

/**
 * Whether to go on: to be asked before each step.
 *
 * @return GS_OK; GS_ETIMEDOUT: the deadline has passed; GS_EBUSY: stand aside, another worker has
 *         failed or a panic capture has taken over
 */
GS_MUST_USE enum gs_code ss_context_check(struct ss_context *c);

/** A pause in a loop that waits for another thread, longer from time to time. */
void ss_relax(uint32_t *rounds);

#endif
