/* SPDX-License-Identifier: Apache-2.0 */
/* The engine from inside. */
#ifndef INTROSPECT_PROBE_PRIV_H
#define INTROSPECT_PROBE_PRIV_H

/*
 * Locks, in this order:
 *
 *	engine.lock	providers, probes, sessions and all that describes them. Recursive, since
 *			providers create probes while they are asked for them
 *	lane.lock	one a vCPU: what firings read and write. Several are taken in ascending order
 *
 * What firings read (the table of probes, a probe's ecbs, a session's library, the world) is written
 * with engine.lock and all lanes held. What they write (the halves of buffers and aggregations that are
 * in use, counters of a vCPU) belongs to the lane.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "introspect/probe/session.h"

#define PROBE_CHUNK 4096u /* probes that are allocated together; they do not move */

/* --- enabled probes ---------------------------------------------------------------------------- */

/* How an aggregation's entry is made up, in words of 8 bytes. */
struct probe_layout {
	uint32_t key_words;
	uint32_t value_words;
};

/* A clause of a session. */
struct probe_enabling {
	struct probe_clause clause;
	uint32_t next; /* least id of probes that were not looked at yet */
	uint32_t
		record_size; /* bytes of a record with all that its trace() actions want; 0: none */
	uint32_t aggregations;
	uint32_t format[PROBE_ACTIONS_MAX]; /* number of its label; 0: none */
	struct probe_layout layout[PROBE_ACTIONS_MAX];
};

/* An enabled probe ("enabling control block"): a clause of a session at a probe. */
struct probe_ecb {
	struct probe_ecb *next; /* of the probe */
	struct probe_session *session;
	const struct probe_enabling *enabling;
	uint32_t probe;
	uint32_t epid;
	uint32_t first_aggregation;
};

struct probe {
	const struct probe_provider *provider;
	uint64_t key;
	char *module; /* one allocation, with the others behind */
	char *function;
	char *name;
	uint32_t hash_next;    /* id; 0: end */
	uint32_t users;	       /* ecbs, linked or about to be; engine.lock */
	struct probe_ecb *ecb; /* lanes */
};

struct probe_provider {
	struct probe_engine *e;
	char name[PROBE_NAME_MAX];
	const struct probe_provider_ops *ops;
	void *arg;
	uint32_t probes;
	bool is_changed; /* by what commit() was not told of yet */
};

/* --- what is recorded --------------------------------------------------------------------------- */

/* A record; terms follow in order, 8 bytes each, comm 16. */
struct probe_record {
	uint32_t size;
	uint32_t epid;
	uint64_t time_ns;
};

/* A half. */
struct probe_bytes {
	uint8_t *data;
	uint32_t used; /* switch, fill: bytes; ring: where the next record goes */
	/* ring: the oldest record, and where the bytes before the last wrap end; wrapped: used <= oldest */
	uint32_t oldest, end;
	bool wrapped;
	bool full; /* fill: nothing is added any more */
	uint64_t drops, errors;
};

struct probe_entry {
	uint32_t next; /* offset of the next one of its bucket, plus 1; 0: none */
	uint32_t aggregation;
	uint64_t word[]; /* keys, then values */
};

struct probe_table {
	uint8_t *data;
	uint32_t *bucket;
	uint32_t used;
	uint64_t drops;
};

/* What a session has of a vCPU. Those with index `active` belong to the lane, others to engine.lock. */
struct probe_store {
	struct probe_bytes half[2];
	uint32_t active;
	bool pending;	  /* the other half is being handed over */
	uint32_t at;	  /* ... up to here */
	uint32_t skipped; /* ring: bytes of it that were handed over */
	bool consumed;	  /* ring, fill: it was handed over */
	struct probe_table table[2];
	uint32_t table_active;
	bool table_pending;
	uint32_t table_at;
	uint64_t stack_drops; /* lane */
};

struct probe_session {
	LIST_ENTRY(probe_session) link;
	struct probe_engine *e;
	uint32_t id;
	/*
	 * Written under engine.lock, but for WARMUP or ACTIVE to DRAINING, by a firing. Relaxed reads in firings:
	 * go, stop and kill take all lanes after they have changed it where that matters.
	 */
	_Atomic enum probe_state state;
	_Atomic uint64_t alive_ns; /* of the deadman rule; UINT64_MAX: just now */
	struct probe_options options;
	struct probe_enabling **enabling;
	uint32_t enablings;
	struct probe_ecb **ecb; /* by epid - 1 */
	uint32_t ecbs;
	bool linked; /* ecbs are in their probes' lists */
	struct probe_aggregation {
		uint32_t epid, action;
	} * aggregation; /* by id - 1 */
	uint32_t aggregations;
	const char **format; /* labels by number - 1; within enablings */
	uint32_t formats;
	struct probe_store *store; /* of each vCPU; NULL: inactive */
	/* lanes: whose references are in stores; NULL: none; once lost, for good */
	struct btl_library *library;
	bool library_lost;
	uint64_t drops, errors, table_drops; /* of halves that were handed over */
};

/* --- the engine ---------------------------------------------------------------------------------- */

struct probe_lane {
	/*
	 * Taken through probe_lane_lock() alone. A vCPU that fires all the time takes the lock again before
	 * who waits for it has woken up; the gate is before the lock, and held for no longer than it takes to get
	 * that, so that whoever waits is next.
	 */
	pthread_mutex_t gate;
	pthread_mutex_t lock;
	/* scratch of the firing under way */
	struct lnx_view view;
	uint64_t address[LNX_FRAMES_MAX];
	uint8_t kind[LNX_FRAMES_MAX];
};

struct probe_engine {
	struct probe_engine_config config;
	uint32_t vcpus;
	struct probe_lane *lane;
	pthread_mutex_t lock;
	uint64_t seed;

	struct probe_provider provider[PROBE_PROVIDERS_MAX];
	uint32_t providers;
	struct probe *chunk[PROBE_PROBES_MAX / PROBE_CHUNK]; /* lanes */
	uint32_t probes;				     /* ids are 1 … probes */
	uint32_t *hash;					     /* ids by name */
	uint32_t begin, end;				     /* ids of session:::begin and end */

	LIST_HEAD(probe_session_list, probe_session) sessions;
	uint32_t session_count, last_session;
	struct probe_world world; /* lanes */
};

static inline struct probe *probe_at(struct probe_engine *e, uint32_t id)
{
	return &e->chunk[(id - 1) / PROBE_CHUNK][(id - 1) % PROBE_CHUNK];
}

void probe_lane_lock(struct probe_lane *lane);
void probe_lanes_lock(struct probe_engine *e);
void probe_lanes_unlock(struct probe_engine *e);

/** A lane, soon. @return false: it is not to be had */
bool probe_lane_lock_soon(struct probe_lane *lane);

struct probe_name probe_name_of(const struct probe *p);

/** Have providers create what a pattern can mean; engine.lock is held. NULL: anything */
void probe_provide_locked(struct probe_engine *e, const struct probe_pattern *pattern);

/** Have providers look at what the guest has now; engine.lock is held. */
void probe_look_locked(struct probe_engine *e);

/** probe_fire() for one session alone: begin and end. */
void probe_fire_for(struct probe_session *s, uint32_t id, uint32_t vcpu);

/** Somebody cares; engine.lock is held. */
void probe_session_is_alive(struct probe_session *s);

/** Take a session's probes away from it; engine.lock is held. */
void probe_unlink_locked(struct probe_session *s);

/* --- store.c: buffers and aggregations of a vCPU; see struct probe_store for locks ---------------- */

GS_MUST_USE enum gs_code probe_stores_create(struct probe_session *s, struct gs_error *err);
void probe_stores_destroy(struct probe_session *s);

/** Room for a record of a session on a vCPU. NULL: none (counted) */
struct probe_record *probe_store_reserve(struct probe_session *s, struct probe_store *store,
					 uint32_t size);
/** Give back what was reserved last. */
void probe_store_undo(struct probe_session *s, struct probe_store *store, uint32_t size);

/**
 * The entry of an aggregation with these keys, new ones with zeroed values. NULL: no room (counted)
 *
 * @param is_new_out  the entry has taken over the references of its keys
 */
uint64_t *probe_table_entry(struct probe_session *s, struct probe_store *store,
			    uint32_t aggregation, const struct probe_layout *layout,
			    const uint64_t *keys, bool *is_new_out);

/** Give back the references that a record, or the entries of a table, hold. */
void probe_record_release(const struct probe_session *s, const struct probe_record *r);
void probe_table_reset(struct probe_session *s, struct probe_table *t);

/** Bytes of a half. */
static inline uint32_t probe_half_size(const struct probe_bytes *b)
{
	return b->wrapped ? b->end - b->oldest + b->used : b->used;
}

/** The record at its n-th byte, a ring in order. */
static inline const struct probe_record *probe_half_record(const struct probe_bytes *b, uint32_t n)
{
	const uint32_t before = b->wrapped ? b->end - b->oldest : 0;

	return (const void *)(b->data + (n < before ? b->oldest + n : n - before));
}

/** Give back the references of all its records. */
void probe_half_release(const struct probe_session *s, const struct probe_bytes *b);

/** Words of a term: 2 for comm, else 1. */
static inline uint32_t probe_term_words(const struct probe_term *term)
{
	return term->kind == PROBE_TERM_COMM ? PROBE_COMM_MAX / 8 : 1;
}

#define PROBE_QUANTIZE_BUCKETS 127u
#define PROBE_QUANTIZE_ZERO    63u

/** The bucket of a value: of 2^n … 2^(n+1) - 1, of 0, of -2^n … -2^(n+1) + 1. */
uint32_t probe_quantize_bucket(int64_t value);
/** The value of a bucket that is nearest to 0. */
int64_t probe_quantize_value(uint32_t bucket);

/* --- values.c: what people see of terms; engine.lock is held ---------------------------------------- */

/**
 * A value as JSON. NULL: out of memory
 *
 * @param word  of the term, as many as probe_term_words()
 * @param cost  its bytes as text, or somewhat more, are added
 */
json_t *probe_value_json(const struct probe_session *s, const struct probe_term *term,
			 const uint64_t *word, size_t *cost);

/** Text of the guest, whatever its bytes. */
json_t *probe_text_json(const char *text);

/** A number: counters, and what is compared as a signed one; addresses as "0x…". */
json_t *probe_number_json(uint64_t value);

#endif
