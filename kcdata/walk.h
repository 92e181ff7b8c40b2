/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a buffer together with the buffers nested in it. Private. */
#ifndef KCDATA_WALK_H
#define KCDATA_WALK_H

#include "kcdata/kcdata.h"

/* Buffers and containers in each other: those of a buffer, and of buffers nested in it. */
#define KCD_LEVELS_MAX 28u
#define KCD_NEST_MAX   4u /* buffers in each other, the outermost included */

enum kcd_step_kind {
	KCD_STEP_BUFFER,     /* a buffer begins; a nested one's record has been a step before */
	KCD_STEP_ITEM,	     /* an item, containers' BEGIN and END included */
	KCD_STEP_BUFFER_END, /* its END has been read */
};

struct kcd_step {
	enum kcd_step_kind kind;
	const struct kcd_item *item; /* its offset is from the start of the outermost buffer */
	size_t at;		     /* of what this step is about, from there too */
	size_t next;		     /* of what follows it */
	uint32_t magic;		     /* of the buffer around */
	uint32_t level;		     /* buffers and containers around it; an item's at least 1 */
};

/** @return KCD_OK to go on; anything else ends the walk and is its result */
typedef enum kcd_code (*kcd_step_fn)(void *arg, const struct kcd_step *step);

/** How the walk goes on where a nested buffer is none. */
struct kcd_walk_how {
	enum kcd_mode mode;
	kcd_finding_fn finding; /* of a tolerant reader; offsets from the outermost buffer */
	void *finding_arg;
};

/**
 * Walk.
 *
 * @param stop_out  may be NULL: where the walk ended: behind the outermost END, or at the damage
 * @param err       may be NULL; filled by the walk unless KCD_OK, not by @p step
 * @return KCD_OK: the outermost END was reached; else as kcd_reader_next(); KCD_EMALFORMED with
 *         KCD_FIND_NESTED; KCD_ENOMEM; what @p step returned
 */
KCD_MUST_USE enum kcd_code kcd_walk(const void *buf, size_t len, const struct kcd_walk_how *how,
				    kcd_step_fn step, void *arg, size_t *stop_out,
				    struct kcd_error *err);

#endif
