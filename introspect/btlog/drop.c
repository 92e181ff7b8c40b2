/* SPDX-License-Identifier: Apache-2.0 */
/* At the limit, logs drop the records of the stacks that are least useful: docs/btlog.md has the rule. */
#include "introspect/btlog/log_priv.h"

#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"

/* Counts of references told apart; more is as good as this. */
#define COUNTS 256u

/* What is to happen with a stack, in place of how many records hold it. */
#define VICTIM	 UINT32_MAX
#define IN_DOUBT (UINT32_MAX - 1) /* goes as long as more room is wanted */
#define HELD_MAX (UINT32_MAX - 2)

struct drop {
	struct btl_library *lib;
	uint32_t entries; /* looked at: those handed out when it began */
	uint32_t *held;	  /* by entry: records that hold it, then VICTIM, IN_DOUBT or 0 */
	uint32_t quota;	  /* of those in doubt */
	uint64_t stacks, records;
};

static uint32_t index_of(uint32_t where)
{
	return (where & BTL_REF_MASK) / BTL_ENTRY_SIZE;
}

static uint32_t references(const struct drop *d, uint32_t i)
{
	return atomic_load_explicit(&btl_entry_of(d->lib, i * BTL_ENTRY_SIZE)->count,
				    memory_order_relaxed) >>
	       4;
}

static void count_records(struct drop *d, struct btl_log *log)
{
	pthread_mutex_lock(&log->lock);
	for (uint32_t i = 0; i < log->capacity && log->slots; i++) {
		uint32_t where = btl_slot_of(log, i)->where, at = index_of(where);

		if (where && at < d->entries && d->held[at] < HELD_MAX)
			d->held[at]++;
	}
	pthread_mutex_unlock(&log->lock);
}

/* Only stacks that records alone hold come free when these are dropped. */
static bool is_droppable(const struct drop *d, uint32_t i)
{
	uint32_t refs = references(d, i);

	return refs && refs != BTL_COUNT_MAX && d->held[i] >= refs;
}

static void choose(struct drop *d, uint32_t goal)
{
	uint32_t by_count[COUNTS] = { 0 }, limit, sum = 0;

	for (uint32_t i = 1; i < d->entries; i++)
		if (is_droppable(d, i))
			by_count[gs_min(references(d, i), COUNTS - 1)]++;
	for (limit = 0; limit < COUNTS - 1 && sum + by_count[limit] < goal; limit++)
		sum += by_count[limit];
	d->quota = goal - sum;
	for (uint32_t i = 1; i < d->entries; i++) {
		uint32_t count = (uint32_t)gs_min(references(d, i), COUNTS - 1);

		if (!is_droppable(d, i) || count > limit)
			d->held[i] = 0;
		else
			d->held[i] = count < limit ? VICTIM : IN_DOUBT;
		d->stacks += d->held[i] == VICTIM;
	}
}

static bool is_chosen(struct drop *d, uint32_t where)
{
	uint32_t i = index_of(where);

	if (!where || i >= d->entries)
		return false;
	if (d->held[i] == IN_DOUBT) {
		d->held[i] = d->quota ? VICTIM : 0;
		d->stacks += d->quota > 0;
		d->quota -= d->quota > 0;
	}
	return d->held[i] == VICTIM;
}

/* Records from the oldest on. The lock is given up after each batch, and the log's cursor moves on then. */
static void drop_records(struct drop *d, struct btl_log *log)
{
	uint32_t refs[BTL_RELEASE_BATCH], at = 0, cursor = 0, n;

	do {
		pthread_mutex_lock(&log->lock);
		cursor = at ? cursor : log->cursor;
		for (n = 0; log->slots && at < log->capacity && n < BTL_RELEASE_BATCH; at++) {
			uint32_t i = btl_slot_by_age(log, cursor, at);

			if (is_chosen(d, btl_slot_of(log, i)->where))
				refs[n++] = btl_slot_clear_locked(log, i);
		}
		log->dropped += n;
		pthread_mutex_unlock(&log->lock);
		for (uint32_t i = 0; i < n; i++)
			(void)btl_put(d->lib, refs[i]); // the log's own
		d->records += n;
	} while (n == BTL_RELEASE_BATCH);
}

static void drop_from_logs(struct drop *d, uint32_t goal)
{
	pthread_mutex_lock(&d->lib->log_list);
	for (struct btl_log *log = d->lib->logs; log; log = log->next)
		count_records(d, log);
	choose(d, goal);
	for (struct btl_log *log = d->lib->logs; log; log = log->next)
		drop_records(d, log);
	pthread_mutex_unlock(&d->lib->log_list);
}

void btl_drop_run(struct btl_library *lib)
{
	struct drop d = { .lib = lib };

	pthread_mutex_lock(&lib->lock);
	d.entries = atomic_load_explicit(&lib->cursor, memory_order_relaxed) / BTL_ENTRY_SIZE;
	uint32_t goal = (uint32_t)gs_max(lib->max / BTL_ENTRY_SIZE / 16, 1);
	pthread_mutex_unlock(&lib->lock);
	size_t bytes = (size_t)d.entries * sizeof(*d.held);
	/* not from the heap: it is used rarely, can be large, and shall go back to the system */
	d.held = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d.held != MAP_FAILED) {
		drop_from_logs(&d, goal);
		munmap(d.held, bytes);
	}
	pthread_mutex_lock(&lib->lock);
	lib->drop_below = d.stacks ? UINT32_MAX : lib->drop_below;
	lib->futile_until_ns = d.stacks ? 0 : gs_clock_ns() + BTL_FUTILE_NS;
	lib->stats.drops += d.stacks > 0;
	lib->stats.dropped_stacks += d.stacks;
	lib->stats.dropped_records += d.records;
	pthread_mutex_unlock(&lib->lock);
}
