/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: recording, erasing, sampling, their life. */
#include "introspect/btlog/log_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"

const char *btl_op_name(uint32_t op)
{
	static const char *const names[] = {
		[BTL_OP_NONE] = "none",
		[BTL_OP_RUNNING] = "running",
		[BTL_OP_RUNNABLE] = "runnable",
		[BTL_OP_SLEEPING] = "sleeping",
		[BTL_OP_UNINTERRUPTIBLE] = "uninterruptible",
		[BTL_OP_STOPPED] = "stopped",
		[BTL_OP_ZOMBIE] = "zombie",
		[BTL_OP_IDLE] = "idle",
	};

	return op < ARRAY_SIZE(names) ? names[op] : NULL;
}

/* --- buckets of a hash log -------------------------------------------------------------------- */

/* Addresses are a guest's choice, so the multiplier is secret. */
struct btl_bucket *btl_bucket_of(const struct btl_log *log, uint64_t element)
{
	uint64_t h = (element ^ element >> 32) * log->hash_key;

	return &log->buckets[(h >> 32) & (log->bucket_count - 1)];
}

static void bucket_append(struct btl_log *log, uint32_t i)
{
	struct btl_hash_slot *s = btl_hash_slot_of(log, i);
	struct btl_bucket *b = btl_bucket_of(log, s->s.element);

	s->next = BTL_NO_SLOT;
	s->prev = b->last;
	if (b->last == BTL_NO_SLOT)
		b->first = i;
	else
		btl_hash_slot_of(log, b->last)->next = i;
	b->last = i;
}

static void bucket_remove(struct btl_log *log, uint32_t i)
{
	struct btl_hash_slot *s = btl_hash_slot_of(log, i);
	struct btl_bucket *b = btl_bucket_of(log, s->s.element);

	if (s->prev == BTL_NO_SLOT)
		b->first = s->next;
	else
		btl_hash_slot_of(log, s->prev)->next = s->next;
	if (s->next == BTL_NO_SLOT)
		b->last = s->prev;
	else
		btl_hash_slot_of(log, s->next)->prev = s->prev;
}

/* --- records ---------------------------------------------------------------------------------- */

uint32_t btl_slot_clear_locked(struct btl_log *log, uint32_t i)
{
	struct btl_slot *s = btl_slot_of(log, i);
	uint32_t ref = btl_where_ref(s->where);

	if (log->kind == BTL_LOG_HASH) {
		bucket_remove(log, i);
		btl_hash_slot_of(log, i)->next = log->free_head;
		log->free_head = i;
	}
	s->where = 0;
	log->held--;
	return ref;
}

/* A slot for a new record: one that was cleared, else the one at the cursor. */
static uint32_t take_slot(struct btl_log *log)
{
	uint32_t i = log->free_head;

	if (i != BTL_NO_SLOT) {
		log->free_head = btl_hash_slot_of(log, i)->next;
		return i;
	}
	i = log->cursor;
	log->cursor = btl_slot_by_age(log, i, 1);
	return i;
}

static uint32_t ticks_of(const struct btl_log *log, uint64_t time_ns)
{
	uint64_t ticks = time_ns > log->epoch_ns ? (time_ns - log->epoch_ns) / BTL_TICK_NS : 0;

	return (uint32_t)gs_min(ticks, UINT32_MAX);
}

/* The reference of the record that had to go; 0: none. */
static uint32_t record_locked(struct btl_log *log, uint64_t element, uint32_t where,
			      uint64_t time_ns)
{
	uint32_t i = take_slot(log), old = 0;
	struct btl_slot *s = btl_slot_of(log, i);

	if (s->where) {
		old = btl_where_ref(s->where);
		if (log->kind == BTL_LOG_HASH)
			bucket_remove(log, i);
		log->overwritten++;
	} else {
		log->held++;
	}
	*s = (struct btl_slot){ element, where, ticks_of(log, time_ns) };
	if (log->kind == BTL_LOG_HASH)
		bucket_append(log, i);
	log->recorded++;
	return old;
}

enum gs_code btl_log_record(struct btl_log *log, uint64_t element, uint32_t op, uint32_t ref,
			    uint64_t time_ns)
{
	enum gs_code rc = op < BTL_OPS && ref ? GS_OK : GS_EINVAL;
	uint32_t old = ref;

	if (!rc) {
		pthread_mutex_lock(&log->lock);
		if (log->slots) {
			old = record_locked(log, element, ref | op, time_ns);
		} else {
			log->refused++;
			rc = GS_EBUSY;
		}
		pthread_mutex_unlock(&log->lock);
	}
	(void)btl_put(log->lib, old); // a bad one of the caller's has been reported
	return rc;
}

static uint32_t erase_some_locked(struct btl_log *log, uint64_t element, uint32_t *refs)
{
	uint32_t n = 0;
	uint32_t i = btl_bucket_of(log, element)->first;

	while (i != BTL_NO_SLOT && n < BTL_RELEASE_BATCH) {
		uint32_t next = btl_hash_slot_of(log, i)->next;

		if (btl_slot_of(log, i)->element == element)
			refs[n++] = btl_slot_clear_locked(log, i);
		i = next;
	}
	log->erased += n;
	return n;
}

uint32_t btl_log_erase(struct btl_log *log, uint64_t element)
{
	uint32_t refs[BTL_RELEASE_BATCH], n, sum = 0;

	if (log->kind != BTL_LOG_HASH)
		return 0;
	do {
		pthread_mutex_lock(&log->lock);
		n = log->slots ? erase_some_locked(log, element, refs) : 0;
		pthread_mutex_unlock(&log->lock);
		for (uint32_t i = 0; i < n; i++)
			(void)btl_put(log->lib, refs[i]); // the log's own
		sum += n;
	} while (n == BTL_RELEASE_BATCH);
	return sum;
}

/* --- sampling --------------------------------------------------------------------------------- */

/* Something of each thread's own tells threads apart: the place of its thread-local storage. */
static struct btl_turn *turn_of_thread(struct btl_log *log)
{
	static _Thread_local char mine;
	uint64_t h = (uint64_t)(uintptr_t)&mine * UINT64_C(0x9e3779b97f4a7c15);

	return &log->turn[h >> 58];
}

/* Threads do not all record their first call, nor all at the same time. */
static void spread_turns(struct btl_log *log)
{
	for (uint32_t i = 0; i < BTL_TURNS && log->sample > 1; i++)
		atomic_init(&log->turn[i].left, (i + 1) * log->sample / BTL_TURNS % log->sample);
}

bool btl_log_wants(struct btl_log *log)
{
	/* relaxed: a log that is just being disabled refuses the record */
	if (!atomic_load_explicit(&log->enabled, memory_order_relaxed))
		return false;
	if (log->sample <= 1)
		return true;

	struct btl_turn *turn = turn_of_thread(log);
	uint32_t left = atomic_load_explicit(&turn->left, memory_order_relaxed), then;

	do
		then = left ? left - 1 : log->sample - 1;
	while (!atomic_compare_exchange_weak_explicit(&turn->left, &left, then,
						      memory_order_relaxed, memory_order_relaxed));
	if (left)
		atomic_fetch_add_explicit(&turn->skipped, 1, memory_order_relaxed);
	return left == 0;
}

/* --- life ------------------------------------------------------------------------------------- */

static uint32_t bucket_count_of(const struct btl_log *log)
{
	uint32_t n = 32;

	while (n < log->capacity / 4)
		n *= 2;
	return log->kind == BTL_LOG_HASH ? n : 0;
}

static bool start_locked(struct btl_log *log)
{
	uint32_t buckets = bucket_count_of(log);
	size_t slots = gs_align_up((size_t)log->capacity * log->stride, 64);
	size_t bytes = slots + buckets * sizeof(struct btl_bucket);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		return false;
	log->slots = map;
	log->mapped = bytes;
	log->buckets = (struct btl_bucket *)(void *)(log->slots + slots);
	log->bucket_count = buckets;
	if (buckets)
		memset(log->buckets, 0xff, buckets * sizeof(struct btl_bucket)); // BTL_NO_SLOT
	log->cursor = 0;
	log->free_head = BTL_NO_SLOT;
	log->held = 0;
	log->epoch_ns = gs_clock_ns();
	log->recorded = log->overwritten = log->erased = log->dropped = 0;
	atomic_store_explicit(&log->enabled, true, memory_order_relaxed);
	return true;
}

enum gs_code btl_log_enable(struct btl_log *log, struct gs_error *err)
{
	pthread_mutex_lock(&log->lock);
	bool ok = log->slots || start_locked(log);
	pthread_mutex_unlock(&log->lock);
	return ok ? GS_OK : gs_fail(err, GS_ENOSPC, "log %s: out of memory", log->name);
}

void btl_log_disable(struct btl_log *log)
{
	pthread_mutex_lock(&log->lock);
	uint8_t *slots = log->slots;
	size_t mapped = log->mapped;

	log->slots = NULL;
	log->mapped = 0;
	log->held = 0;
	atomic_store_explicit(&log->enabled, false, memory_order_relaxed);
	pthread_mutex_unlock(&log->lock);
	if (!slots)
		return;
	for (uint32_t i = 0; i < log->capacity; i++) {
		const struct btl_slot *s = (void *)(slots + (size_t)i * log->stride);

		(void)btl_put(log->lib, btl_where_ref(s->where)); // the log's own
	}
	munmap(slots, mapped);
}

static enum gs_code check_options(const struct btl_log_options *o, struct gs_error *err)
{
	if (!o->name || (o->kind != BTL_LOG_RING && o->kind != BTL_LOG_HASH))
		return gs_fail(err, GS_EINVAL, "a log needs a name and a kind");
	if (o->capacity < BTL_LOG_CAPACITY_MIN || o->capacity > BTL_LOG_CAPACITY_MAX)
		return gs_fail(err, GS_EINVAL, "log %s: %u records: from %u to %u are possible",
			       o->name, o->capacity, BTL_LOG_CAPACITY_MIN, BTL_LOG_CAPACITY_MAX);
	if (o->sample > BTL_LOG_SAMPLE_MAX)
		return gs_fail(err, GS_EINVAL, "log %s: one record of %u: at most %u", o->name,
			       o->sample, BTL_LOG_SAMPLE_MAX);
	return GS_OK;
}

static void add_to_library(struct btl_log *log)
{
	struct btl_library *lib = log->lib;
	struct btl_log **end;

	pthread_mutex_lock(&lib->log_list);
	for (end = &lib->logs; *end; end = &(*end)->next)
		;
	*end = log;
	pthread_mutex_unlock(&lib->log_list);
}

static void remove_from_library(struct btl_log *log)
{
	struct btl_library *lib = log->lib;
	struct btl_log **at;

	pthread_mutex_lock(&lib->log_list);
	for (at = &lib->logs; *at != log; at = &(*at)->next)
		;
	*at = log->next;
	pthread_mutex_unlock(&lib->log_list);
}

enum gs_code btl_log_create(struct btl_library *lib, const struct btl_log_options *options,
			    struct btl_log **log_out, struct gs_error *err)
{
	enum gs_code rc = check_options(options, err);
	struct btl_log *log;

	if (rc)
		return rc;
	log = aligned_alloc(64, gs_align_up(sizeof(*log), 64));
	if (!log)
		return gs_fail(err, GS_ENOSPC, "log %s: out of memory", options->name);
	memset(log, 0, sizeof(*log));
	log->lib = lib;
	snprintf(log->name, sizeof(log->name), "%s", options->name);
	log->kind = options->kind;
	log->capacity = options->capacity;
	log->sample = options->sample;
	log->op_name = options->op_name ? options->op_name : btl_op_name;
	log->stride = options->kind == BTL_LOG_HASH ? sizeof(struct btl_hash_slot)
						    : sizeof(struct btl_slot);
	log->hash_key = lib->key[0] | 1;
	spread_turns(log);
	pthread_mutex_init(&log->lock, NULL);
	rc = btl_log_enable(log, err);
	if (rc) {
		pthread_mutex_destroy(&log->lock);
		free(log);
		return rc;
	}
	add_to_library(log);
	*log_out = log;
	return GS_OK;
}

void btl_log_destroy(struct btl_log *log)
{
	if (!log)
		return;
	/* first, so that the thread does not meet it any more */
	remove_from_library(log);
	btl_log_disable(log);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

void btl_log_stats_get(struct btl_log *log, struct btl_log_stats *stats_out)
{
	pthread_mutex_lock(&log->lock);
	*stats_out = (struct btl_log_stats){
		.kind = log->kind,
		.enabled = log->slots != NULL,
		.capacity = log->capacity,
		.sample = log->sample,
		.held = log->held,
		.bytes = log->mapped,
		.enabled_at_ns = log->epoch_ns,
		.recorded = log->recorded,
		.overwritten = log->overwritten,
		.erased = log->erased,
		.dropped = log->dropped,
		.refused = log->refused,
	};
	pthread_mutex_unlock(&log->lock);
	memcpy(stats_out->name, log->name, sizeof(log->name));
	for (uint32_t i = 0; i < BTL_TURNS; i++)
		stats_out->skipped +=
			atomic_load_explicit(&log->turn[i].skipped, memory_order_relaxed);
}
