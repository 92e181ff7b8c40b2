/* SPDX-License-Identifier: Apache-2.0 */
/* Work queues. */
#include "introspect/stackshot/queue.h"

#include "base/util.h"

/*
 * Queues by difficulty: a process of at least so many threads, and how many such are taken at once.
 * Easy ones are taken together, so that a worker has several tasks in flight.
 */
static const struct {
	uint32_t threads, at_once;
} queues[SS_QUEUES] = { { 0, SS_TAKE_MAX }, { 3, 6 }, { 10, 2 }, { 32, 1 } };

enum gs_code ss_queues_reserve(struct ss_queues *qs, uint32_t items)
{
	if (items > qs->room) {
		if (ss_pages_reserve(&qs->pages, SS_QUEUES * sizeof(uint32_t) * (size_t)items))
			return GS_ENOSPC;
		for (uint32_t i = 0; i < SS_QUEUES; i++)
			qs->q[i].item = (uint32_t *)qs->pages.at + (size_t)i * items;
		qs->room = items;
	}
	ss_queues_reset(qs);
	return GS_OK;
}

void ss_queues_release(struct ss_queues *qs)
{
	ss_pages_release(&qs->pages);
	qs->room = 0;
}

void ss_queues_reset(struct ss_queues *qs)
{
	for (uint32_t i = 0; i < SS_QUEUES; i++) {
		atomic_store_explicit(&qs->q[i].count, 0, memory_order_relaxed);
		atomic_store_explicit(&qs->q[i].cursor, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&qs->populated, false, memory_order_relaxed);
}

void ss_queues_put(struct ss_queues *qs, uint32_t item, uint32_t threads)
{
	uint32_t q = SS_QUEUES - 1;

	while (threads < queues[q].threads)
		q--;
	uint32_t n = atomic_load_explicit(&qs->q[q].count, memory_order_relaxed);
	qs->q[q].item[n] = item;
	/* release: pairs with the acquire in take_from(): index and item are there to be seen */
	atomic_store_explicit(&qs->q[q].count, n + 1, memory_order_release);
}

void ss_queues_close(struct ss_queues *qs)
{
	/* release: pairs with the acquire in ss_queues_take(): who sees it sees all counts */
	atomic_store_explicit(&qs->populated, true, memory_order_release);
}

static uint32_t take_from(struct ss_queues *qs, uint32_t q, uint32_t takers, uint32_t *items)
{
	uint32_t at = atomic_load_explicit(&qs->q[q].cursor, memory_order_relaxed), n;

	do {
		/* acquire: pairs with the release in ss_queues_put() */
		uint32_t count = atomic_load_explicit(&qs->q[q].count, memory_order_acquire);
		uint32_t left = count - at;

		if (!left)
			return 0;
		n = (uint32_t)gs_min(queues[q].at_once, 1 + left / (2 * takers));
		/* relaxed: it only divides the indices; what they lead to came with the count */
	} while (!atomic_compare_exchange_weak_explicit(
		&qs->q[q].cursor, &at, at + n, memory_order_relaxed, memory_order_relaxed));
	for (uint32_t i = 0; i < n; i++)
		items[i] = qs->q[q].item[at + i];
	return n;
}

enum ss_take ss_queues_take(struct ss_queues *qs, enum ss_cluster_kind kind, uint32_t takers,
			    uint32_t *items, uint32_t *n_out)
{
	/*
	 * Read before the queues are looked at: items put between an empty look and a later read of
	 * the flag would be lost. Acquire: pairs with the release in ss_queues_close().
	 */
	bool populated = atomic_load_explicit(&qs->populated, memory_order_acquire);

	for (uint32_t i = 0; i < SS_QUEUES; i++) {
		uint32_t q = kind == SS_CLUSTER_LITTLE ? i : SS_QUEUES - 1 - i;

		*n_out = take_from(qs, q, takers, items);
		if (*n_out)
			return SS_TAKE_SOME;
	}
	return populated ? SS_TAKE_END : SS_TAKE_EMPTY;
}
