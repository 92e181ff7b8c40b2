/* SPDX-License-Identifier: Apache-2.0 */
/* The library's front: finding and adding stacks, references, copies. */
#include "introspect/btlog/priv.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/util.h"

/* --- looking a stack up ----------------------------------------------------------------------- */

static inline uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * 52 bytes of frames and the length, in four multiplications that do not wait for each other. The keys
 * are random, so that a guest cannot make up stacks that share a chain.
 */
static inline uint32_t hash_of(const struct btl_library *lib, const struct btl_key *key)
{
	const uint64_t *k = lib->key, *pair = key->pair;
	uint64_t h = fold((key->frame0 | (uint64_t)key->length << 32) ^ k[0], pair[0] ^ k[1]) ^
		     fold(pair[1] ^ k[2], pair[2] ^ k[3]) ^ fold(pair[3] ^ k[4], pair[4] ^ k[5]) ^
		     fold(pair[5] ^ k[6], k[7]);

	return (uint32_t)((h * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & lib->hash_mask;
}

/* False: would have to wait. */
__attribute__((noinline, cold)) static bool make_far_key(struct btl_library *lib,
							 const uint64_t *frames, uint32_t n,
							 bool nowait, struct btl_key *key)
{
	uint32_t words[BTL_FRAMES_MAX] = { 0 };

	if (!btl_pack_far(lib, frames, n, words, nowait))
		return false;
	key->frame0 = words[0];
	for (uint32_t i = 0; i < 6; i++)
		key->pair[i] = words[1 + 2 * i] | (uint64_t)words[2 + 2 * i] << 32;
	return true;
}

/* What all frames say against being kept as distances from the base. */
struct window {
	uint64_t base;
	uint64_t high; /* bits from 32 on: out of reach */
	uint64_t low;  /* bit 0: odd */
};

static inline uint64_t distance(struct window *w, uint64_t frame)
{
	uint64_t d = frame - w->base;

	w->high |= d + 0x80000000u;
	w->low |= d;
	return (uint32_t)d;
}

/*
 * Frames as they are kept. Most stacks lie in the window, where packing is a subtraction; what speaks
 * against that is gathered and looked at once. Pairs are put together in registers: two 32-bit stores that
 * are read back as 64 bits would stall.
 */
static inline bool make_key(struct btl_library *lib, const uint64_t *frames, uint32_t count,
			    uint32_t flags, struct btl_key *key)
{
	struct window w = { .base = lib->base };
	uint32_t n = count, i = 1, p = 0;

	*key = (struct btl_key){ .length = count };
	if (count > BTL_FRAMES_MAX || (count == BTL_FRAMES_MAX && flags & BTL_GET_CUT)) {
		n = BTL_FRAMES_MAX;
		key->length = BTL_LENGTH_CUT;
	}
	if (n)
		key->frame0 = (uint32_t)distance(&w, frames[0]);
	for (; i + 1 < n; i += 2)
		key->pair[p++] = distance(&w, frames[i]) | distance(&w, frames[i + 1]) << 32;
	if (i < n)
		key->pair[p] = distance(&w, frames[i]);
	if (__builtin_expect((w.high >> 32 | (w.low & 1)) != 0, 0) &&
	    !make_far_key(lib, frames, n, flags & BTL_GET_NOWAIT, key))
		return false;
	key->hash = hash_of(lib, key);
	return true;
}

/* A reference to a stack that is known; 0: not seen, which the lock may tell otherwise. */
static inline uint32_t find(struct btl_library *lib, const struct btl_key *key)
{
	uint32_t permanent = 0, ref;

	btl_read_lock();
	/* acquire, here and below: pairs with the releases in table.c and rehash.c */
	ref = atomic_load_explicit(btl_head_of(lib, key->hash), memory_order_acquire);
	while (ref) {
		struct btl_entry *e = btl_entry_of(lib, ref);

		if (e->hash > key->hash) {
			ref = 0;
			break;
		}
		if (e->hash == key->hash && btl_entry_is(e, key) &&
		    btl_entry_retain(lib, e, &permanent))
			break;
		ref = atomic_load_explicit(&e->next, memory_order_acquire);
	}
	btl_read_unlock(&lib->rcu_tag);
	return ref | permanent;
}

/*
 * Make an entry free, waiting if need be. False: the limit is reached, and neither are entries waiting
 * for their readers nor can logs do without any.
 */
static bool make_room_locked(struct btl_library *lib)
{
	if (btl_memory_touch_locked(lib))
		return true;
	if (lib->pending.count + lib->grace.count + lib->deferred.count) {
		btl_keeper_kick_locked(lib);
		btl_keeper_wait_locked(lib);
		return true;
	}
	if (gs_clock_ns() < lib->futile_until_ns)
		return false;
	uint64_t round = lib->drop_rounds;

	lib->want_drop = true;
	while (lib->drop_rounds == round && !lib->ready.count) {
		btl_keeper_kick_locked(lib);
		btl_keeper_wait_locked(lib);
	}
	return lib->ready.count + lib->pending.count + lib->grace.count > 0;
}

/* Tries before others are believed to take each entry that becomes free. */
#define ROOM_TRIES 64

static enum gs_code get_locked(struct btl_library *lib, const struct btl_key *key, uint32_t flags,
			       uint32_t *ref_out)
{
	bool permanent = flags & BTL_GET_PERMANENT, nowait = flags & BTL_GET_NOWAIT;

	for (uint32_t i = 0; i < ROOM_TRIES; i++) {
		*ref_out = btl_table_get_locked(lib, key, permanent);
		if (*ref_out)
			return GS_OK;
		if (nowait) {
			lib->want_touch = true;
			btl_keeper_kick_locked(lib);
			return GS_EBUSY;
		}
		if (!make_room_locked(lib))
			break;
	}
	return GS_ENOSPC;
}

/* Long before nothing is left, logs are made to drop records, so that few callers have to wait for it. */
static void watch_limit_locked(struct btl_library *lib)
{
	uint32_t left = btl_memory_left_locked(lib);

	if (left >= lib->max / BTL_ENTRY_SIZE / 32 || lib->want_drop || left > lib->drop_below)
		return;
	lib->drop_below = left / 2;
	lib->want_drop = true;
	btl_keeper_kick_locked(lib);
}

static enum gs_code lost(struct btl_library *lib, enum gs_code rc)
{
	atomic_fetch_add_explicit(&lib->lost, 1, memory_order_relaxed);
	return rc;
}

/* Apart, so that the way of stacks that are known is short. */
__attribute__((noinline)) static enum gs_code get_slow(struct btl_library *lib,
						       const struct btl_key *key, uint32_t flags,
						       uint32_t *ref_out)
{
	uint32_t ref;

	if (!(flags & BTL_GET_NOWAIT))
		pthread_mutex_lock(&lib->lock);
	else if (pthread_mutex_trylock(&lib->lock))
		return lost(lib, GS_EBUSY);
	enum gs_code rc = get_locked(lib, key, flags, &ref);
	watch_limit_locked(lib);
	pthread_mutex_unlock(&lib->lock);
	if (rc)
		return lost(lib, rc);
	*ref_out = ref;
	return GS_OK;
}

enum gs_code btl_get(struct btl_library *lib, const uint64_t *frames, uint32_t count,
		     uint32_t flags, uint32_t *ref_out)
{
	struct btl_key key;

	if (!make_key(lib, frames, count, flags, &key))
		return lost(lib, GS_EBUSY);
	uint32_t ref = flags & BTL_GET_PERMANENT ? 0 : find(lib, &key);
	if (__builtin_expect(ref == 0, 0))
		return get_slow(lib, &key, flags, ref_out);
	*ref_out = ref;
	return GS_OK;
}

/* --- references ------------------------------------------------------------------------------- */

enum gs_code btl_misused(struct btl_library *lib, enum btl_misuse what, uint32_t ref)
{
	atomic_fetch_add_explicit(&lib->misuses, 1, memory_order_relaxed);
	if (lib->misuse) {
		lib->misuse(lib->misuse_arg, what, ref);
		return GS_EINVAL;
	}
#ifdef GS_DEBUG
	abort(); // a debugger or a core shows the caller at fault
#else
	return GS_EINVAL;
#endif
}

struct btl_entry *btl_entry_checked(struct btl_library *lib, uint32_t ref, enum gs_code *rc_out)
{
	uint32_t at = ref & ~BTL_REF_PERMANENT;
	/* acquire: pairs with the release in btl_memory_take_locked() */
	uint32_t cursor = atomic_load_explicit(&lib->cursor, memory_order_acquire);

	if (at & ~BTL_REF_MASK || at < BTL_ENTRY_SIZE || at >= cursor) {
		*rc_out = btl_misused(lib, BTL_MISUSE_INVALID, ref);
		return NULL;
	}
	*rc_out = GS_OK;
	return btl_entry_of(lib, at);
}

enum gs_code btl_retain(struct btl_library *lib, uint32_t ref)
{
	enum gs_code rc;
	struct btl_entry *e = btl_entry_checked(lib, ref, &rc);
	uint32_t permanent;

	if (!e || ref & BTL_REF_PERMANENT)
		return rc;
	return btl_entry_retain(lib, e, &permanent)
		       ? GS_OK
		       : btl_misused(lib, BTL_MISUSE_RESURRECTION, ref);
}

enum gs_code btl_put(struct btl_library *lib, uint32_t ref)
{
	if (!ref)
		return GS_OK;

	enum gs_code rc;
	struct btl_entry *e = btl_entry_checked(lib, ref, &rc);
	uint32_t count;

	if (!e || ref & BTL_REF_PERMANENT)
		return rc;
	count = atomic_load_explicit(&e->count, memory_order_relaxed);
	do {
		if (count >> 4 == BTL_COUNT_MAX)
			return GS_OK;
		if (count >> 4 == 0)
			return btl_misused(lib, BTL_MISUSE_OVER_RELEASE, ref);
		/* release: all that was read by this reference comes before; acquire: the last put
		 * comes behind all others */
	} while (!atomic_compare_exchange_weak_explicit(&e->count, &count, count - BTL_COUNT_ONE,
							memory_order_acq_rel,
							memory_order_relaxed));
	if (count >> 4 == 1) {
		pthread_mutex_lock(&lib->lock);
		btl_table_bury_locked(lib, ref);
		pthread_mutex_unlock(&lib->lock);
	}
	return GS_OK;
}

void btl_entry_unpack(const struct btl_library *lib, struct btl_entry *e,
		      struct btl_stack *stack_out)
{
	uint32_t count = atomic_load_explicit(&e->count, memory_order_relaxed);
	uint64_t last = atomic_load_explicit(&e->last, memory_order_relaxed);
	uint32_t words[BTL_FRAMES_MAX] = { e->frame0 };

	memcpy(words + 1, e->pair, sizeof(e->pair));
	memcpy(words + 11, &last, sizeof(last));
	memset(stack_out, 0, sizeof(*stack_out));
	stack_out->cut = (count & 15) == BTL_LENGTH_CUT;
	stack_out->count = (uint32_t)gs_min(count & 15, BTL_FRAMES_MAX);
	stack_out->references = count >> 4 == BTL_COUNT_MAX ? UINT32_MAX : count >> 4;
	for (uint32_t i = 0; i < stack_out->count; i++)
		stack_out->frame[i] = btl_unpack(lib, words[i]);
}

enum gs_code btl_stack_copy(struct btl_library *lib, uint32_t ref, struct btl_stack *stack_out)
{
	enum gs_code rc;
	struct btl_entry *e = btl_entry_checked(lib, ref, &rc);

	if (!e)
		return rc;
	if (atomic_load_explicit(&e->count, memory_order_relaxed) >> 4 == 0)
		return btl_misused(lib, BTL_MISUSE_RESURRECTION, ref);
	btl_entry_unpack(lib, e, stack_out);
	return GS_OK;
}

/* --- life ------------------------------------------------------------------------------------- */

/* Any odd numbers that differ do for a seed that a caller gave; a random one is mixed the same way. */
static void make_keys(struct btl_library *lib, uint64_t seed)
{
	if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = gs_clock_ns() ^ (uint64_t)(uintptr_t)lib; // early in the host's boot
	for (uint32_t i = 0; i < BTL_KEYS; i++) {
		seed += UINT64_C(0x9e3779b97f4a7c15);
		lib->key[i] = fold(seed ^ UINT64_C(0xd6e8feb86659fd93),
				   seed ^ UINT64_C(0xa0761d6478bd642f)) |
			      1;
	}
}

static enum gs_code check_options(const struct btl_library_options *o, struct gs_error *err)
{
	if (o->base % 4 || o->base < UINT64_C(1) << 32)
		return gs_fail(err, GS_EINVAL, "%#llx is no address of a kernel's text",
			       (unsigned long long)o->base);
	if (o->limit && (o->limit < BTL_LIMIT_MIN || o->limit > BTL_LIMIT_MAX))
		return gs_fail(
			err, GS_EINVAL,
			"a limit of %llu bytes for backtraces: from %llu to %llu are possible",
			(unsigned long long)o->limit, (unsigned long long)BTL_LIMIT_MIN,
			(unsigned long long)BTL_LIMIT_MAX);
	return GS_OK;
}

static void library_free(struct btl_library *lib)
{
	btl_table_deinit(lib);
	btl_memory_deinit(lib);
	free(lib);
}

enum gs_code btl_library_create(const struct btl_library_options *options,
				struct btl_library **lib_out, struct gs_error *err)
{
	enum gs_code rc = check_options(options, err);
	struct btl_library *lib;

	if (rc)
		return rc;
	lib = aligned_alloc(64, gs_align_up(sizeof(*lib), 64));
	if (!lib)
		return gs_fail(err, GS_ENOSPC, "out of memory for a backtrace library");
	memset(lib, 0, sizeof(*lib));
	lib->base = options->base;
	lib->hash_mask = UINT32_MAX;
	lib->drop_below = UINT32_MAX;
	lib->misuse = options->misuse;
	lib->misuse_arg = options->misuse_arg;
	make_keys(lib, options->seed);
	rc = btl_memory_init(lib, options->limit ? options->limit : BTL_LIMIT_DEFAULT, err);
	if (!rc && !btl_table_init(lib))
		rc = gs_fail(err, GS_ENOSPC, "out of memory for a backtrace library");
	if (!rc)
		rc = btl_keeper_start(lib, err);
	if (rc) {
		library_free(lib);
		return rc;
	}
	*lib_out = lib;
	return GS_OK;
}

void btl_library_destroy(struct btl_library *lib)
{
	if (!lib)
		return;
	btl_keeper_stop(lib);
	library_free(lib);
}

void btl_library_stats_get(struct btl_library *lib, struct btl_library_stats *stats_out)
{
	pthread_mutex_lock(&lib->lock);
	uint32_t used = atomic_load_explicit(&lib->cursor, memory_order_relaxed);
	uint32_t dead = lib->pending.count + lib->grace.count + lib->deferred.count;

	*stats_out = lib->stats;
	stats_out->limit = lib->limit;
	stats_out->stack_bytes = lib->touched;
	stats_out->table_bytes = lib->table_bytes;
	stats_out->stacks = used / BTL_ENTRY_SIZE - 1 - lib->ready.count - dead;
	stats_out->stacks_max = lib->max / BTL_ENTRY_SIZE - 1;
	stats_out->waiting = dead;
	stats_out->heads = lib->heads;
	stats_out->regions = lib->regions;
	pthread_mutex_unlock(&lib->lock);
	stats_out->saturated = atomic_load_explicit(&lib->saturated, memory_order_relaxed);
	stats_out->lost = atomic_load_explicit(&lib->lost, memory_order_relaxed);
	stats_out->frames_lost = atomic_load_explicit(&lib->frames_lost, memory_order_relaxed);
	stats_out->frames_unknown =
		atomic_load_explicit(&lib->frames_unknown, memory_order_relaxed);
	stats_out->misuses = atomic_load_explicit(&lib->misuses, memory_order_relaxed);
}

void btl_test_hash_mask(struct btl_library *lib, uint32_t mask)
{
	lib->hash_mask = mask;
}
