/* SPDX-License-Identifier: Apache-2.0 */
/* The library inside: entries, table, memory, the thread. Private. */
#ifndef INTROSPECT_BTLOG_PRIV_H
#define INTROSPECT_BTLOG_PRIV_H

/*
 * Table. The hash's top bits choose a block, its low 8 bits one of the block's 256 chains; chains ascend
 * by hash. To double the number of blocks, each block gets a twin and each chain is cut in two where the
 * next bit of the hash changes: no entry moves, and readers go on.
 *
 *	 param ──> blocks[0] or [1] ──> block: head 0 … 255
 *	                                         │
 *	                                         └──> entry (hash a) ──> entry (hash b >= a) ──> 0
 *
 * Memory. Entries lie in one reservation of address space, so a reference is the entry's distance from
 * its start. Memory is committed in slabs (1, 1, 2, 4, … MiB) and touched some steps ahead of use.
 *
 * Locks: log_list, then a log's, then the library's; the last is never held while waiting for readers or
 * while calling out. Lock-free: looking up a stack, retain, all puts but the last one, reading an entry.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "introspect/btlog/btlog.h"
#include "introspect/btlog/rcu.h"

#define BTL_ENTRY_SIZE	 64u
#define BTL_REF_MASK	 UINT32_C(0x3fffffc0)
#define BTL_COUNT_ONE	 0x10u
#define BTL_COUNT_MAX	 UINT32_C(0x0fffffff) /* permanent */
#define BTL_LENGTH_CUT	 14u		      /* the length of 13 frames with more behind */
#define BTL_SLAB_FIRST	 (1u << 20)
#define BTL_STEP	 (64u << 10) /* bytes touched at a time */
#define BTL_HEADS	 256u	     /* of a block */
#define BTL_SHIFT_START	 32u
#define BTL_SHIFT_MIN	 16u /* 65,536 blocks: a chain for each entry of the largest library */
#define BTL_PARAM_OUTER	 UINT32_C(0x80000000)
#define BTL_KEYS	 8u
#define BTL_REGION_SHIFT 21
#define BTL_REGION_SLOTS 4096u
#define BTL_REGION_NONE	 2047u /* pseudo frames */

/** A stack. 64 bytes. */
struct btl_entry {
	_Atomic uint32_t next;	/* reference of the next one of the chain */
	_Atomic uint32_t count; /* references << 4 | length: 0 … 13, or BTL_LENGTH_CUT */
	uint32_t hash;
	uint32_t frame0;
	uint64_t pair[5];      /* frames 1 … 10 */
	_Atomic uint64_t last; /* frames 11 and 12; the next one on a list of dead entries */
};

_Static_assert(sizeof(struct btl_entry) == BTL_ENTRY_SIZE, "what a reference counts in");

/** A stack that is looked for. Words 2 … 7 are frames 1 … 12. */
struct btl_key {
	uint32_t length;
	uint32_t hash;
	uint32_t frame0;
	uint64_t pair[6];
};

struct btl_block {
	_Atomic uint32_t head[BTL_HEADS];
};

/** Entries without references, first in first out, linked through their last frames. */
struct btl_dead {
	uint32_t head, tail, count;
};

/** Where a rehash is; anything but IDLE keeps entries from being unlinked. */
enum btl_rehash {
	BTL_REHASH_IDLE,
	BTL_REHASH_COPY,  /* heads are being copied to the twins: changes go to both */
	BTL_REHASH_SPLIT, /* both lead the same chain, or have been parted */
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the lock is not to share what finders read
struct btl_library {
	/* what finding a stack reads; constant but for param and blocks */
	uint8_t *entries;
	uint64_t base;
	uint64_t key[BTL_KEYS]; /* of the hash */
	uint32_t hash_mask;	/* all ones; fewer in tests */
	_Atomic uint32_t param; /* shift, and which of blocks[] counts */
	struct btl_block **blocks[2];
	_Atomic uint32_t cursor; /* first byte never handed out */
	char rcu_tag;

	/* under the lock */
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t work; /* for the thread */
	pthread_cond_t done; /* the thread has finished something */
	uint32_t touched;    /* bytes */
	uint32_t committed;
	uint32_t max; /* bytes that entries may take; lowered when the system gives no more */
	uint64_t reserved;
	uint32_t linked; /* entries in chains */
	uint32_t heads;
	uint32_t rehash_at; /* of linked */
	enum btl_rehash rehash;
	struct btl_block *twins; /* during a rehash: one of each old block */
	struct btl_dead ready, pending, grace, deferred;
	uint32_t drop_below;	  /* entries left that make the next dropping worth a try */
	uint64_t futile_until_ns; /* the last one found nothing, so no other one before this */
	bool want_rehash, want_drop, want_touch, busy, quit;
	uint64_t rounds; /* things that the thread has finished */
	uint64_t drop_rounds;
	uint64_t table_bytes;
	struct btl_library_stats stats; /* counters only */

	/* logs in order of creation; the lock is held while the limit makes them drop records */
	pthread_mutex_t log_list;
	struct btl_log *logs;

	_Atomic uint64_t saturated, lost, frames_lost, frames_unknown, misuses;
	_Atomic uint64_t region[BTL_REGION_SLOTS]; /* (number << 11 | index) << 1 | 1; 0 free */
	_Atomic uint64_t region_number[BTL_REGIONS_MAX];
	uint32_t regions;

	void *chunks[BTL_SHIFT_START - BTL_SHIFT_MIN + 1]; /* of blocks, by rehash */
	uint32_t chunk_count;
	uint64_t limit;
	void (*misuse)(void *arg, enum btl_misuse what, uint32_t ref);
	void *misuse_arg;
	pthread_t thread;
};

static inline struct btl_entry *btl_entry_of(const struct btl_library *lib, uint32_t ref)
{
	return (struct btl_entry *)(void *)(lib->entries + ref);
}

/* The chain of a hash, as it is now; inside a read section, or under the lock. */
static inline _Atomic uint32_t *btl_head_of(const struct btl_library *lib, uint32_t hash)
{
	/* acquire: with the release in btl_rehash_step(), blocks[] and what they lead to are whole */
	uint32_t param = atomic_load_explicit(&lib->param, memory_order_acquire);
	struct btl_block **blocks = lib->blocks[param >> 31];

	return &blocks[(uint64_t)hash >> (param & 63)]->head[hash % BTL_HEADS];
}

/* Written out: compilers make a loop of a loop. */
static inline bool btl_entry_is(struct btl_entry *e, const struct btl_key *key)
{
	/* atomic, since a dead entry's last frames become its link while readers may still look */
	uint64_t last = atomic_load_explicit(&e->last, memory_order_relaxed);
	uint32_t count = atomic_load_explicit(&e->count, memory_order_relaxed);
	uint64_t diff = (e->frame0 ^ key->frame0) | ((count & 15) ^ key->length);

	diff |= (e->pair[0] ^ key->pair[0]) | (e->pair[1] ^ key->pair[1]);
	diff |= (e->pair[2] ^ key->pair[2]) | (e->pair[3] ^ key->pair[3]);
	diff |= (e->pair[4] ^ key->pair[4]) | (last ^ key->pair[5]);
	return diff == 0;
}

/* One reference more unless there are none: those are about to go, which is for good. */
static inline bool btl_entry_retain(struct btl_library *lib, struct btl_entry *e,
				    uint32_t *permanent_out)
{
	uint32_t count = atomic_load_explicit(&e->count, memory_order_relaxed);

	do {
		*permanent_out = count >> 4 == BTL_COUNT_MAX ? BTL_REF_PERMANENT : 0;
		if (*permanent_out)
			return true;
		if (count >> 4 == 0)
			return false;
		/* acquire: with the release of the put that would have been the last but for this */
	} while (!atomic_compare_exchange_weak_explicit(&e->count, &count, count + BTL_COUNT_ONE,
							memory_order_acquire,
							memory_order_relaxed));
	if (__builtin_expect((count >> 4) + 1 == BTL_COUNT_MAX, 0)) {
		atomic_fetch_add_explicit(&lib->saturated, 1, memory_order_relaxed);
		*permanent_out = BTL_REF_PERMANENT;
	}
	return true;
}

/* frames.c */

/* Pack frames that do not all lie in the window. False: would have to wait. */
bool btl_pack_far(struct btl_library *lib, const uint64_t *frames, uint32_t count, uint32_t *words,
		  bool nowait);
uint64_t btl_unpack(const struct btl_library *lib, uint32_t word);

/* table.c; all under the lock */

/* Find a stack, or link a new entry for it; the reference is the caller's. 0: no entry is free. */
uint32_t btl_table_get_locked(struct btl_library *lib, const struct btl_key *key, bool permanent);
/* Take an entry without references out of its chain and put it on the list of those that wait. */
void btl_table_bury_locked(struct btl_library *lib, uint32_t ref);
bool btl_table_init(struct btl_library *lib);
void btl_table_deinit(struct btl_library *lib);

/* How many entries make a table of so many heads double: then a look-up meets 1.4 of them at most, on
 * average, and the heads of an entry take 5 to 11 bytes. */
static inline uint32_t btl_rehash_at(uint32_t heads)
{
	return heads / 4 * 3;
}

/* rehash.c; by the thread, takes and drops the lock itself */
void btl_rehash_run(struct btl_library *lib);

/* memory.c */
GS_MUST_USE enum gs_code btl_memory_init(struct btl_library *lib, uint64_t limit,
					 struct gs_error *err);
void btl_memory_deinit(struct btl_library *lib);
uint32_t btl_memory_take_locked(struct btl_library *lib); /* an entry, or 0 */
bool btl_memory_touch_locked(struct btl_library *lib);	  /* one step more; false: at the limit */
uint32_t btl_memory_left_locked(const struct btl_library *lib); /* entries */
void btl_dead_push(struct btl_library *lib, struct btl_dead *list, uint32_t ref);
uint32_t btl_dead_pop(struct btl_library *lib, struct btl_dead *list);
void btl_dead_append(struct btl_library *lib, struct btl_dead *to, struct btl_dead *from);

/* keeper.c */
GS_MUST_USE enum gs_code btl_keeper_start(struct btl_library *lib, struct gs_error *err);
void btl_keeper_stop(struct btl_library *lib);
void btl_keeper_kick_locked(struct btl_library *lib);
/* Wait for the thread to finish something; the lock is dropped meanwhile. */
void btl_keeper_wait_locked(struct btl_library *lib);

/* drop.c; by the thread, without the lock */
#define BTL_FUTILE_NS (UINT64_C(100) * 1000 * 1000)
void btl_drop_run(struct btl_library *lib);

/* library.c */
GS_MUST_USE enum gs_code btl_misused(struct btl_library *lib, enum btl_misuse what, uint32_t ref);
/* The entry of a reference of the caller's; NULL: it is none, what @p rc_out says. */
struct btl_entry *btl_entry_checked(struct btl_library *lib, uint32_t ref, enum gs_code *rc_out);
void btl_entry_unpack(const struct btl_library *lib, struct btl_entry *e,
		      struct btl_stack *stack_out);

/* For tests: hash values are cut to these bits, before anything is in the library. */
void btl_test_hash_mask(struct btl_library *lib, uint32_t mask);
/* For tests: double the table though there is no need. False: it has its largest size. */
bool btl_test_rehash(struct btl_library *lib);

#endif
