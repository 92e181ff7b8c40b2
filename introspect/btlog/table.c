/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table under its lock: adding and removing entries. */
#include "introspect/btlog/priv.h"

#include <stdlib.h>

#include "base/util.h"

bool btl_table_init(struct btl_library *lib)
{
	struct btl_block *first = aligned_alloc(64, sizeof(*first));

	lib->blocks[0] = gs_array_alloc(1, sizeof(struct btl_block *));
	if (!first || !lib->blocks[0]) {
		free(first);
		return false;
	}
	memset(first, 0, sizeof(*first));
	lib->chunks[lib->chunk_count++] = first;
	lib->blocks[0][0] = first;
	atomic_init(&lib->param, BTL_SHIFT_START);
	lib->heads = BTL_HEADS;
	lib->rehash_at = btl_rehash_at(BTL_HEADS);
	lib->table_bytes = sizeof(*first) + sizeof(void *);
	return true;
}

void btl_table_deinit(struct btl_library *lib)
{
	for (uint32_t i = 0; i < lib->chunk_count; i++)
		free(lib->chunks[i]);
	free(lib->blocks[0]);
	free(lib->blocks[1]);
}

/* Where an entry of a hash goes: behind *prev_out (0: at the head), before what is returned. */
static uint32_t find_place(const struct btl_library *lib, const _Atomic uint32_t *head,
			   uint32_t hash, uint32_t *prev_out)
{
	uint32_t ref = atomic_load_explicit(head, memory_order_relaxed);

	*prev_out = 0;
	while (ref && btl_entry_of(lib, ref)->hash < hash) {
		*prev_out = ref;
		ref = atomic_load_explicit(&btl_entry_of(lib, ref)->next, memory_order_relaxed);
	}
	return ref;
}

/* The live entry of a stack among those from @p ref on; takes a reference to it. */
static uint32_t find_live(struct btl_library *lib, uint32_t ref, const struct btl_key *key)
{
	while (ref) {
		struct btl_entry *e = btl_entry_of(lib, ref);
		uint32_t permanent;

		if (e->hash != key->hash)
			return 0;
		if (btl_entry_is(e, key) && btl_entry_retain(lib, e, &permanent))
			return ref | permanent;
		ref = atomic_load_explicit(&e->next, memory_order_relaxed);
	}
	return 0;
}

static void make_permanent(struct btl_entry *e)
{
	atomic_fetch_or_explicit(&e->count, BTL_COUNT_MAX << 4, memory_order_relaxed);
}

/* While heads are being copied to their twins, the twin's must not fall behind. */
static void set_head_locked(struct btl_library *lib, _Atomic uint32_t *head, uint32_t hash,
			    uint32_t ref)
{
	/* release: with the acquire of readers, they see the entry whole */
	atomic_store_explicit(head, ref, memory_order_release);
	if (lib->rehash == BTL_REHASH_COPY) {
		uint32_t param = atomic_load_explicit(&lib->param, memory_order_relaxed);

		atomic_store_explicit(
			&lib->twins[(uint64_t)hash >> (param & 63)].head[hash % BTL_HEADS], ref,
			memory_order_relaxed);
	}
}

static void fill(struct btl_entry *e, const struct btl_key *key, uint32_t next, bool permanent)
{
	uint32_t count = permanent ? BTL_COUNT_MAX << 4 : BTL_COUNT_ONE;

	e->hash = key->hash;
	e->frame0 = key->frame0;
	memcpy(e->pair, key->pair, sizeof(e->pair));
	atomic_store_explicit(&e->last, key->pair[5], memory_order_relaxed);
	atomic_store_explicit(&e->count, count | key->length, memory_order_relaxed);
	atomic_store_explicit(&e->next, next, memory_order_relaxed);
}

uint32_t btl_table_get_locked(struct btl_library *lib, const struct btl_key *key, bool permanent)
{
	_Atomic uint32_t *head = btl_head_of(lib, key->hash);
	uint32_t prev, next = find_place(lib, head, key->hash, &prev);
	uint32_t ref = find_live(lib, next, key);

	if (ref && permanent)
		make_permanent(btl_entry_of(lib, ref & BTL_REF_MASK));
	if (!ref) {
		ref = btl_memory_take_locked(lib);
		if (!ref)
			return 0;
		/* in front of equal hashes, so of a dying entry of the same stack too */
		fill(btl_entry_of(lib, ref), key, next, permanent);
		if (prev)
			/* release: with the acquire of readers, they see the entry whole */
			atomic_store_explicit(&btl_entry_of(lib, prev)->next, ref,
					      memory_order_release);
		else
			set_head_locked(lib, head, key->hash, ref);
		if (++lib->linked > lib->rehash_at && !lib->want_rehash) {
			lib->want_rehash = true;
			btl_keeper_kick_locked(lib);
		}
	}
	return permanent ? ref | BTL_REF_PERMANENT : ref;
}

static void unlink_locked(struct btl_library *lib, uint32_t ref)
{
	struct btl_entry *e = btl_entry_of(lib, ref);
	_Atomic uint32_t *at = btl_head_of(lib, e->hash);
	uint32_t next = atomic_load_explicit(&e->next, memory_order_relaxed);

	for (;;) {
		uint32_t here = atomic_load_explicit(at, memory_order_relaxed);

		if (here == ref)
			break;
		at = &btl_entry_of(lib, here)->next;
	}
	/* release: readers that get past here see the next entry whole, as by its own publication */
	atomic_store_explicit(at, next, memory_order_release);
	lib->linked--;
}

void btl_table_bury_locked(struct btl_library *lib, uint32_t ref)
{
	if (lib->rehash != BTL_REHASH_IDLE) {
		/* two heads may lead to it */
		btl_dead_push(lib, &lib->deferred, ref);
		return;
	}
	unlink_locked(lib, ref);
	btl_dead_push(lib, &lib->pending, ref);
	btl_keeper_kick_locked(lib);
}
