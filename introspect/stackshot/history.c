/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads were like in the last capture. */
#include "introspect/stackshot/history.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"
#include "introspect/stackshot/capture.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

/* A guest that finds ids for one place all the same makes its own threads be told again. */
#define PROBES_MAX 64u

/* --- marks --- */

static void marks_deinit(struct ss_marks *m)
{
	free(m->mark);
	free(m->slot);
	*m = (struct ss_marks){ 0 };
}

void ss_history_deinit(struct ss_history *h)
{
	marks_deinit(&h->tasks);
	marks_deinit(&h->threads);
}

/* Room for @p count marks. @return false: out of memory */
static bool marks_init(struct ss_marks *m, uint64_t count)
{
	uint32_t slots = 64;

	while (slots < count * 2)
		slots *= 2;
	*m = (struct ss_marks){ .mark = calloc(gs_max(count, 1), sizeof(*m->mark)),
				.max = (uint32_t)count,
				.slot = calloc(slots, sizeof(*m->slot)),
				.slots = slots };
	/* without random bytes a guest could slow its own deltas down, by PROBES_MAX */
	if (getrandom(&m->seed, sizeof(m->seed), GRND_NONBLOCK) < 0)
		m->seed = UINT64_C(0x9e3779b97f4a7c15);
	return m->mark && m->slot;
}

/*
 * Ids of processes that were started one after another are as far apart as these: a product alone may
 * put them all in one place. The steps of splitmix64.
 */
static uint32_t hash(const struct ss_marks *m, uint64_t id)
{
	uint64_t x = id ^ m->seed;

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint32_t)(x ^ x >> 31);
}

/* The slot of an id, or the free one for it; NULL: there is none near its place. */
static uint32_t *probe(const struct ss_marks *m, uint64_t id)
{
	const uint32_t at = hash(m, id);

	for (uint32_t i = 0; i < PROBES_MAX && i < m->slots; i++) {
		uint32_t *slot = &m->slot[(at + i) & (m->slots - 1)];

		if (!*slot || m->mark[*slot - 1].id == id)
			return slot;
	}
	return NULL;
}

static struct ss_mark *find(const struct ss_marks *m, uint64_t id)
{
	const uint32_t *slot = probe(m, id);

	return slot && *slot ? &m->mark[*slot - 1] : NULL;
}

/* A free mark for an id. Of two with one id neither can be told from the other: NULL, and both never. */
static struct ss_mark *add(struct ss_marks *m, uint64_t id)
{
	uint32_t *slot = id ? probe(m, id) : NULL;

	if (!slot)
		return NULL;
	if (*slot) {
		m->mark[*slot - 1].since_ns = SS_SINCE_NEVER;
		return NULL;
	}
	if (m->count == m->max)
		return NULL; /* more than were counted: a list that loops */
	struct ss_mark *mark = &m->mark[m->count++];

	*slot = m->count;
	mark->id = id;
	return mark;
}

/* --- comparing --- */

/* What a thread is like, without what depends on where it was met and how its stack was read. */
static struct ss_thread_record plain(const struct ss_thread_record *r)
{
	struct ss_thread_record p = *r;

	p.vcpu = -1;
	p.stack_end = 0;
	p.stack_end_at = 0;
	return p;
}

static bool is_whole(const struct ss_thread_record *r)
{
	return r->vcpu < 0 &&
	       (r->stack_end == LNX_END_COMPLETE || r->stack_end == LNX_END_NO_STACK);
}

struct ss_mark *ss_history_task(const struct ss_history *h, uint64_t id,
				const struct ss_task_record *now, uint64_t since_ns)
{
	struct ss_mark *m = find(&h->tasks, id);

	return m && m->since_ns <= since_ns && !memcmp(&m->r.task, now, sizeof(*now)) ? m : NULL;
}

struct ss_mark *ss_history_thread(const struct ss_history *h, uint64_t id,
				  const struct ss_thread_record *now, uint64_t since_ns)
{
	struct ss_mark *m = find(&h->threads, id);

	return m && m->since_ns <= since_ns && !memcmp(&m->r.thread, now, sizeof(*now)) ? m : NULL;
}

/* --- remembering --- */

/* What was found the same is in no record of the capture. */
static void keep_seen(struct ss_marks *now, const struct ss_marks *before, uint64_t start_ns)
{
	for (uint32_t i = 0; i < before->count; i++) {
		const struct ss_mark *old = &before->mark[i];

		if (atomic_load_explicit(&old->seen_ns, memory_order_relaxed) != start_ns)
			continue;
		struct ss_mark *m = add(now, old->id);
		if (m) {
			m->since_ns = old->since_ns;
			m->r = old->r;
		}
	}
}

/* Since when: the same as before, or from this capture on. */
static uint64_t since(const struct ss_mark *old, const void *record, size_t size, uint64_t start_ns)
{
	if (old && old->since_ns != SS_SINCE_NEVER && !memcmp(&old->r, record, size))
		return old->since_ns;
	return start_ns;
}

static void add_task(struct ss_history *now, const struct ss_history *before, uint64_t id,
		     const void *payload, uint64_t start_ns)
{
	struct ss_mark *m = add(&now->tasks, id);

	if (!m)
		return;
	memcpy(&m->r.task, payload, sizeof(m->r.task));
	m->since_ns = since(find(&before->tasks, id), &m->r.task, sizeof(m->r.task), start_ns);
}

static void add_thread(struct ss_history *now, const struct ss_history *before, uint64_t id,
		       const void *payload, uint64_t start_ns)
{
	struct ss_mark *m = add(&now->threads, id);
	struct ss_thread_record r;

	if (!m)
		return;
	memcpy(&r, payload, sizeof(r));
	m->r.thread = plain(&r);
	m->since_ns = is_whole(&r) ? since(find(&before->threads, id), &m->r.thread,
					   sizeof(m->r.thread), start_ns)
				   : SS_SINCE_NEVER;
}

static void add_item(struct ss_history *now, const struct ss_history *before,
		     const struct ss_item *item, uint64_t start_ns)
{
	struct ss_record_walk walk = { .piece = item->records };
	uint64_t task = 0, thread = 0;
	struct kcd_header h;
	uint32_t container;

	while (ss_next_record(&walk, &h)) {
		if (h.type == KCD_TYPE_CONTAINER_BEGIN) {
			memcpy(&container, walk.payload, sizeof(container));
			*(container == KCD_SS_CONTAINER_TASK ? &task : &thread) = h.flags;
		} else if (h.type == SS_RECORD_TASK) {
			add_task(now, before, task, walk.payload, start_ns);
		} else if (h.type == SS_RECORD_THREAD) {
			add_thread(now, before, thread, walk.payload, start_ns);
		}
	}
}

void ss_history_update(struct ss_history *h, const struct ss_engine *e)
{
	const struct ss_try *t = &e->t;
	struct ss_history now = { 0 };

	if (marks_init(&now.tasks, (uint64_t)t->tasks + t->same_tasks) &&
	    marks_init(&now.threads, (uint64_t)t->threads + t->same_threads)) {
		keep_seen(&now.tasks, &h->tasks, t->start_ns);
		keep_seen(&now.threads, &h->threads, t->start_ns);
		/* the first item is that of the idle threads */
		for (uint32_t i = 1; i < t->items; i++)
			add_item(&now, h, &e->item[i], t->start_ns);
	} else {
		ss_history_deinit(&now);
	}
	ss_history_deinit(h);
	*h = now;
}
