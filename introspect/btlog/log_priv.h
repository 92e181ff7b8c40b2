/* SPDX-License-Identifier: Apache-2.0 */
/* A log inside. Private. */
#ifndef INTROSPECT_BTLOG_LOG_PRIV_H
#define INTROSPECT_BTLOG_LOG_PRIV_H

#include "introspect/btlog/priv.h"

#define BTL_TICK_NS	  (UINT64_C(10) * 1000 * 1000) /* of a record's time: 497 days in 32 bits */
#define BTL_NO_SLOT	  UINT32_MAX
#define BTL_TURNS	  64u
#define BTL_RELEASE_BATCH 64u

/** A record; of a ring, all there is. */
struct btl_slot {
	uint64_t element;
	uint32_t where; /* reference | operation; 0: empty */
	uint32_t ticks; /* since the log was enabled */
};

/** A record of a hash log: in the list of its bucket, in order of insertion, or on the free list. */
struct btl_hash_slot {
	struct btl_slot s;
	uint32_t next, prev;
};

_Static_assert(sizeof(struct btl_slot) == 16 && sizeof(struct btl_hash_slot) == 24,
	       "as btlog.h says");

struct btl_bucket {
	uint32_t first, last;
};

/** Sampling state of the threads that share it. */
struct btl_turn {
	_Alignas(64) _Atomic uint32_t left; /* calls to skip before the next record */
	_Atomic uint64_t skipped;
};

struct btl_log {
	struct btl_library *lib;
	struct btl_log *next; /* under the library's log_list */
	char name[BTL_LOG_NAME_SIZE];
	enum btl_log_kind kind;
	uint32_t capacity;
	uint32_t sample;
	const char *(*op_name)(uint32_t op);
	uint64_t hash_key;
	_Atomic bool enabled; /* changed under the lock */

	pthread_mutex_t lock; /* of what follows */
	uint8_t *slots;	      /* one mapping of slots and buckets */
	size_t mapped;
	uint32_t stride; /* bytes of a slot */
	struct btl_bucket *buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t cursor;
	uint32_t free_head;
	uint32_t held;
	uint64_t epoch_ns;
	uint64_t recorded, overwritten, erased, dropped, refused;

	struct btl_turn turn[BTL_TURNS];
};

static inline struct btl_slot *btl_slot_of(const struct btl_log *log, uint32_t i)
{
	return (struct btl_slot *)(void *)(log->slots + (size_t)i * log->stride);
}

static inline struct btl_hash_slot *btl_hash_slot_of(const struct btl_log *log, uint32_t i)
{
	return (struct btl_hash_slot *)(void *)btl_slot_of(log, i);
}

static inline uint32_t btl_where_ref(uint32_t where)
{
	return where & ~(BTL_OPS - 1);
}

/* The i-th slot from a cursor on: its oldest record comes first, as far as places tell. */
static inline uint32_t btl_slot_by_age(const struct btl_log *log, uint32_t cursor, uint32_t i)
{
	uint64_t at = (uint64_t)cursor + i;

	return (uint32_t)(at >= log->capacity ? at - log->capacity : at);
}

struct btl_bucket *btl_bucket_of(const struct btl_log *log, uint64_t element);

/* Empty a slot; its reference is the caller's. */
uint32_t btl_slot_clear_locked(struct btl_log *log, uint32_t i);

#endif
