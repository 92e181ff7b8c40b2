/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of triggers that could not be written, kept in memory until they can. Private. */
#ifndef CONTROL_KEPT_H
#define CONTROL_KEPT_H

/*
 * What a trigger saw does not come again. The newest few stay, whole, and are written in the order in
 * which they were taken. Threads: one at a time.
 */

#include <stdbool.h>
#include <stdint.h>

#include "control/store.h"

#define CTL_KEPT_MAX	   4
#define CTL_KEPT_BYTES_MAX (UINT64_C(256) << 20) /* of all of them */

struct ctl_kept_capture {
	void *data;
	struct ss_result numbers; /* data is NULL */
	struct ctl_store_item item;
};

/** Zeroed: none. */
struct ctl_kept {
	struct ctl_kept_capture capture[CTL_KEPT_MAX]; /* the oldest first */
	uint32_t count;
	uint64_t bytes;
};

/**
 * Keep a copy; the oldest go for it.
 *
 * @param item      borrowed; with the time when it was taken
 * @param lost_out  how many went
 * @return false: it is too large, or memory is short; none went
 */
bool ctl_kept_add(struct ctl_kept *k, const struct ctl_store_item *item, uint32_t *lost_out);

/**
 * Write them, the oldest first, until one cannot be written.
 *
 * @param written_out  so many were, also after a failure
 * @return GS_OK: none is left; others: of ctl_store_put()
 */
GS_MUST_USE enum gs_code ctl_kept_write(struct ctl_kept *k, struct ctl_store *st,
					uint32_t *written_out, struct gs_error *err);

/** Give up what is left. */
void ctl_kept_deinit(struct ctl_kept *k);

#endif
