/* SPDX-License-Identifier: Apache-2.0 */
/* When the next capture of a schedule is due: interval, jitter, and what the guest may be stopped. */
#ifndef CONTROL_PACE_H
#define CONTROL_PACE_H

/*
 * Captures are due at a raster of one interval, so that none drifts. Each one that stops the guest
 * for some time pays for the time after it: with a budget of 0.1 % one of 1 ms pays for a second, and
 * none begins before that is over. So the guest is never stopped for more than its budget, whatever
 * captures cost, but for the last one.
 *
 * Pure arithmetic: the caller has the clock. Threads: one at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#define CTL_PPM UINT64_C(1000000)

struct ctl_pace {
	uint64_t every_ns;    /* 0: nothing is ever due */
	uint32_t jitter;      /* percent of every_ns that a capture may be late, by chance */
	uint32_t max_stopped; /* parts of a million; 0: no budget */
	uint64_t slot_ns;     /* next point of the raster */
	uint64_t late_ns;     /* the jitter of that point */
	uint64_t paid_ns;     /* nothing is due before */
	uint64_t taken;	      /* began in time */
	uint64_t
		left_out; /* points of the raster that passed: for the budget, or for another capture */
	uint64_t stopped_ns;  /* the guest in all */
	uint64_t interval_ns; /* between the last two that began; 0: not known */
	uint64_t began_ns;    /* the last one; 0: none */
	bool is_stretched;    /* the budget makes the next one late */
};

/** Begin: the first capture is due now. @param p has every_ns, jitter and max_stopped set, else zeroed */
void ctl_pace_start(struct ctl_pace *p, uint64_t now_ns);

/** When the next capture may begin; UINT64_MAX: never. */
uint64_t ctl_pace_due(const struct ctl_pace *p);

/** One that was due begins. @param random  any number, for the jitter of the next */
void ctl_pace_begin(struct ctl_pace *p, uint64_t now_ns, uint64_t random);

/**
 * The guest was stopped, for a capture of the raster or for another one.
 *
 * @param now_ns  when that was over
 * @return whether is_stretched has changed
 */
bool ctl_pace_pay(struct ctl_pace *p, uint64_t now_ns, uint64_t stopped_ns);

#endif
