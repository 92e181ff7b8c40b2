/* SPDX-License-Identifier: Apache-2.0 */
/* Work queues: one producer that walks the list of processes, many takers. Private. */
#ifndef INTROSPECT_STACKSHOT_QUEUE_H
#define INTROSPECT_STACKSHOT_QUEUE_H

/*
 * Items are in queues by difficulty, the number of threads a process is known to have. Big clusters
 * begin with the hardest, little ones with the easiest; equal ones all begin with the hardest, so
 * that no long item is left for the end. An empty queue is not the end of the work: the populated
 * flag is.
 *
 * Threads: ss_queues_put() and ss_queues_close() by one, ss_queues_take() by any.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/stackshot/stackshot.h"
#include "introspect/stackshot/storage.h"

#define SS_QUEUES 4

struct ss_queues {
	struct {
		_Alignas(64) _Atomic uint32_t count;
		_Atomic uint32_t cursor; /* of the next one to be taken */
		uint32_t *item;		 /* indices, in the order in which they were put */
	} q[SS_QUEUES];
	struct ss_pages pages;
	uint32_t room; /* indices in each */
	_Atomic bool populated;
};

/** See to room for @p items items, none in them. @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code ss_queues_reserve(struct ss_queues *qs, uint32_t items);
void ss_queues_release(struct ss_queues *qs);

/** Forget all items; nobody may be taking. */
void ss_queues_reset(struct ss_queues *qs);

/** Add an item; there must be room. @param threads how many it is known to have; 0: not known */
void ss_queues_put(struct ss_queues *qs, uint32_t item, uint32_t threads);

/** No more items will be put. */
void ss_queues_close(struct ss_queues *qs);

/** Most items that are taken at once. */
#define SS_TAKE_MAX 16

enum ss_take {
	SS_TAKE_SOME,  /* *n_out items */
	SS_TAKE_EMPTY, /* none now, but there may be later */
	SS_TAKE_END,   /* none any more */
};

/**
 * Take items: one that is hard, several that are easy.
 *
 * @param items    room for SS_TAKE_MAX indices
 * @param takers   workers that take: near the end each takes less
 */
enum ss_take ss_queues_take(struct ss_queues *qs, enum ss_cluster_kind kind, uint32_t takers,
			    uint32_t *items, uint32_t *n_out);

#endif
