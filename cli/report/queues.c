/* SPDX-License-Identifier: Apache-2.0 */
/* Places of threads in run queues. */
#include "cli/report/queues.h"

#include <stdlib.h>

#include "base/util.h"
#include "introspect/linux/context.h"
#include "introspect/linux/linux.h"

/* Where a thread stands. */
struct waiting {
	struct rep_thread *t;
	bool is_fair;
	uint64_t queue; /* of the fair class an address, else the CPU */
	/* within it, ascending: virtual times begin a little below 0, and are far from ever wrapping */
	int64_t key;
};

bool rep_waits_for_cpu(const struct rep_thread *t)
{
	return t->has_context && t->context.known & LNX_THREAD_QUEUE && t->context.on_rq &&
	       !t->context.delayed && t->linux_facts.vcpu < 0;
}

/* @return whether its place can be told: not of a thread on its way to another CPU, nor of the deadline class */
static bool describe(struct rep_thread *t, struct waiting *w)
{
	const struct ss_thread_context_record *r = &t->context;
	const struct ss_thread_record *f = &t->linux_facts;

	if (!rep_waits_for_cpu(t) || r->on_rq != 1 || !(f->known & LNX_TASK_HAS_CPU) ||
	    !(f->known & LNX_TASK_HAS_PRIO) || f->prio < 0)
		return false;
	*w = (struct waiting){ .t = t, .is_fair = f->prio >= LNX_RT_PRIORITIES, .queue = f->cpu };
	if (w->is_fair) {
		w->key = (int64_t)(r->known & LNX_THREAD_DEADLINE ? r->deadline : r->vruntime);
		if (r->cfs_rq)
			w->queue = r->cfs_rq;
	} else {
		/* whose place is not known stands behind the others of its priority */
		w->key = (int64_t)f->prio << 32 | (r->rt_place ? r->rt_place : UINT32_MAX);
	}
	return true;
}

static int compare_queues(const struct waiting *a, const struct waiting *b)
{
	if (a->is_fair != b->is_fair)
		return a->is_fair ? 1 : -1;
	return (a->queue > b->queue) - (a->queue < b->queue);
}

static int compare(const void *x, const void *y)
{
	const struct waiting *a = x, *b = y;
	const int order = compare_queues(a, b);

	if (order)
		return order;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return (a->t > b->t) - (a->t < b->t); /* one array: its order */
}

static void number_queue(struct waiting *first, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const bool is_told = first[i].is_fair || first[i].t->context.rt_place;

		first[i].t->queue_place = is_told ? (uint32_t)(i + 1) : 0;
		first[i].t->queue_length = (uint32_t)n;
	}
}

bool rep_queues_resolve(struct rep_capture *c)
{
	GS_FREE struct waiting *w = gs_array_alloc(c->thread_count + 1, sizeof(*w));
	size_t n = 0;

	if (!w)
		return false;
	for (size_t i = 0; i < c->thread_count; i++)
		n += describe(&c->threads[i], &w[n]);
	qsort(w, n, sizeof(*w), compare);
	for (size_t first = 0, end; first < n; first = end) {
		for (end = first + 1; end < n && !compare_queues(&w[first], &w[end]);)
			end++;
		number_queue(&w[first], end - first);
	}
	return true;
}
