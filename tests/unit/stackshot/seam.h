/* SPDX-License-Identifier: Apache-2.0 */
/* Calls between the library's files that tests see, and may fail. */
#ifndef TESTS_UNIT_STACKSHOT_SEAM_H
#define TESTS_UNIT_STACKSHOT_SEAM_H

/*
 * The program is linked so that calls of some functions of the library come to seam.c first
 * (--wrap, see tests/tests.mk), and go on from there. The library itself knows nothing of it.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "introspect/stackshot/stackshot.h"
#include "kcdata/kcdata.h"

/** Calls of one kind, of which some fail; zeroed: none does. */
struct seam_point {
	_Atomic uint32_t calls, failed; /* since seam_fail() */
	_Atomic uint32_t first, last;	/* that fail, from 1 */
	bool helpers_only;		/* the calling thread's are not counted */
};

/** Begin to count; the calls @p first … @p last fail. Both 0: none does. */
void seam_fail(struct seam_point *p, uint32_t first, uint32_t last);

/** Count a call. @return whether it is one that fails */
bool seam_fails(struct seam_point *p);

/** Allocations of any kind: see trap.c. */
extern struct seam_point seam_allocations;
/** Locking and advising of memory, which nothing depends on. */
extern struct seam_point seam_advice;
/** Whatever is written into a stream: records, arrays, containers, by workers and in the end. */
extern struct seam_point seam_records;
extern enum kcd_code seam_record_code; /* they fail with; KCD_OK: KCD_ENOSPC */
/** Pieces of the storage. */
extern struct seam_point seam_pieces;

/** Nothing fails, nobody meets. */
void seam_reset(void);

/** Whether the thread is at work in a capture, but not the one that called for it. */
bool seam_is_helper(void);

/**
 * While not 0: so many workers meet before each of them takes items for the first time in a try,
 * and again after that. So each has its part of the work, and none is done before the others have
 * begun. A capture that has failed is not waited for.
 */
extern _Atomic uint32_t seam_meeting;

/** What a worker has taken, if not NULL; called by several side by side. */
extern void (*seam_on_take)(enum ss_cluster_kind kind, const uint32_t *items, uint32_t n);

#endif
