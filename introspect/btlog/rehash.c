/* SPDX-License-Identifier: Apache-2.0 */
/* Doubling the table while it is read and written. */
#include "introspect/btlog/priv.h"

#include <sched.h>
#include <stdlib.h>

#include "base/util.h"

/*
 * 1. Each block gets a twin whose heads lead the same chains; changes meanwhile go to both.
 * 2. The doubled array of blocks is published. A grace period: nobody takes an old block for the whole.
 * 3. The twins' heads move on to the first entry whose new bit is set. A grace period: nobody who came
 *    by a twin is still in front of that entry.
 * 4. The old blocks' chains end before it.
 *
 * A reader between steps may miss an entry that was added meanwhile; it then looks again under the lock,
 * which goes by the doubled array. Entries that die meanwhile are unlinked at the end.
 *
 * The lock is given up after each block, so that adding a stack waits for microseconds only.
 */

static void breathe(struct btl_library *lib)
{
	pthread_mutex_unlock(&lib->lock);
	sched_yield();
	pthread_mutex_lock(&lib->lock);
}

static void copy_heads(struct btl_library *lib, struct btl_block **old, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t h = 0; h < BTL_HEADS; h++)
			atomic_store_explicit(
				&lib->twins[i].head[h],
				atomic_load_explicit(&old[i]->head[h], memory_order_relaxed),
				memory_order_relaxed);
		breathe(lib);
	}
}

/* First entry of a chain that belongs to the twin; *last_out is the one before it, 0 if none. */
static uint32_t find_cut(const struct btl_library *lib, const _Atomic uint32_t *head,
			 uint32_t boundary, uint32_t *last_out)
{
	uint32_t ref = atomic_load_explicit(head, memory_order_relaxed);

	*last_out = 0;
	while (ref && btl_entry_of(lib, ref)->hash < boundary) {
		*last_out = ref;
		ref = atomic_load_explicit(&btl_entry_of(lib, ref)->next, memory_order_relaxed);
	}
	return ref;
}

static void advance_twins(struct btl_library *lib, struct btl_block **blocks, uint32_t count,
			  uint32_t shift)
{
	uint32_t last;

	for (uint32_t i = 0; i < count; i++) {
		struct btl_block *twin = blocks[2 * i + 1];
		uint32_t boundary = (2 * i + 1) << shift;

		/* release: as by the entry's own publication */
		for (uint32_t h = 0; h < BTL_HEADS; h++)
			atomic_store_explicit(&twin->head[h],
					      find_cut(lib, &twin->head[h], boundary, &last),
					      memory_order_release);
		breathe(lib);
	}
}

static void cut_chains(struct btl_library *lib, struct btl_block **blocks, uint32_t count,
		       uint32_t shift)
{
	for (uint32_t i = 0; i < count; i++) {
		struct btl_block *block = blocks[2 * i];
		uint32_t boundary = (2 * i + 1) << shift;

		for (uint32_t h = 0; h < BTL_HEADS; h++) {
			uint32_t last;

			if (!find_cut(lib, &block->head[h], boundary, &last))
				continue;
			atomic_store_explicit(last ? &btl_entry_of(lib, last)->next
						   : &block->head[h],
					      0, memory_order_relaxed);
		}
		breathe(lib);
	}
}

static void synchronize_unlocked(struct btl_library *lib)
{
	pthread_mutex_unlock(&lib->lock);
	btl_synchronize(&lib->rcu_tag);
	pthread_mutex_lock(&lib->lock);
	lib->stats.grace_periods++;
}

static void bury_deferred(struct btl_library *lib)
{
	uint32_t ref;

	while ((ref = btl_dead_pop(lib, &lib->deferred)))
		btl_table_bury_locked(lib, ref);
}

static void double_table(struct btl_library *lib, struct btl_block **blocks, uint32_t count)
{
	uint32_t param = atomic_load_explicit(&lib->param, memory_order_relaxed);
	uint32_t shift = (param & 63) - 1, outer = !(param >> 31);
	struct btl_block **old = lib->blocks[!outer];

	lib->rehash = BTL_REHASH_COPY;
	copy_heads(lib, old, count);
	for (uint32_t i = 0; i < count; i++) {
		blocks[2 * i] = old[i];
		blocks[2 * i + 1] = &lib->twins[i];
	}
	lib->blocks[outer] = blocks;
	lib->rehash = BTL_REHASH_SPLIT;
	/* release: pairs with btl_head_of() */
	atomic_store_explicit(&lib->param, shift | outer << 31, memory_order_release);
	synchronize_unlocked(lib);
	lib->blocks[!outer] = NULL;
	free(old);
	advance_twins(lib, blocks, count, shift);
	synchronize_unlocked(lib);
	cut_chains(lib, blocks, count, shift);
	lib->rehash = BTL_REHASH_IDLE;
	lib->twins = NULL;
	bury_deferred(lib);
}

void btl_rehash_run(struct btl_library *lib)
{
	pthread_mutex_lock(&lib->lock);
	lib->want_rehash = false;
	uint32_t count = lib->heads / BTL_HEADS;
	pthread_mutex_unlock(&lib->lock);
	if (count >= 1u << (BTL_SHIFT_START - BTL_SHIFT_MIN))
		return;

	struct btl_block *twins = aligned_alloc(64, count * sizeof(*twins));
	struct btl_block **blocks = gs_array_alloc(2 * (size_t)count, sizeof(struct btl_block *));

	pthread_mutex_lock(&lib->lock);
	if (!twins || !blocks) {
		free(twins);
		free(blocks);
		lib->rehash_at *=
			2; // longer chains; tried again when there are twice as many entries
	} else {
		lib->twins = twins;
		lib->chunks[lib->chunk_count++] = twins;
		lib->heads *= 2;
		lib->rehash_at = btl_rehash_at(lib->heads);
		lib->table_bytes += count * (sizeof(*twins) + sizeof(struct btl_block *));
		double_table(lib, blocks, count);
		lib->stats.rehashes++;
		/* stacks that came meanwhile may be enough for the next one */
		lib->want_rehash = lib->linked > lib->rehash_at;
	}
	pthread_mutex_unlock(&lib->lock);
}

bool btl_test_rehash(struct btl_library *lib)
{
	pthread_mutex_lock(&lib->lock);
	bool possible = lib->heads / BTL_HEADS < 1u << (BTL_SHIFT_START - BTL_SHIFT_MIN);
	if (possible) {
		lib->want_rehash = true;
		btl_keeper_kick_locked(lib);
	}
	pthread_mutex_unlock(&lib->lock);
	return possible;
}
