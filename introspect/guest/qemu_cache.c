/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of guest memory that were read while the guest stood. */
#include "introspect/guest/qemu_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"

#define CACHE_WAYS 4

/* Reads of so many blocks at once come from a search through all memory: nothing to keep. */
#define CACHE_LARGE_BLOCKS 4

struct block {
	uint64_t at; /* guest-physical */
	uint32_t generation;
	uint32_t len; /* less than a whole block at the end of a range */
	uint64_t used;
};

struct set {
	pthread_mutex_t lock; /* guards what follows and its blocks' bytes */
	uint64_t clock;
	struct block blocks[CACHE_WAYS];
};

struct guest_cache {
	guest_cache_fetch fetch;
	void *arg;
	uint32_t block_size;
	uint32_t set_count;
	/*
	 * Blocks of another generation are none; 0: nothing is kept. Relaxed: the guest's stop and
	 * resume order it with the reads.
	 */
	_Atomic uint32_t generation;
	uint32_t last_generation;
	struct set *sets;
	char *bytes;
};

static size_t bytes_size(const struct guest_cache *c)
{
	return (size_t)c->set_count * CACHE_WAYS * c->block_size;
}

enum gs_code guest_cache_create(uint32_t block, uint32_t blocks, guest_cache_fetch fetch, void *arg,
				struct guest_cache **cache_out, struct gs_error *err)
{
	struct guest_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	c->fetch = fetch;
	c->arg = arg;
	c->block_size = block;
	c->set_count = (uint32_t)gs_max(blocks / CACHE_WAYS, 1);
	c->sets = gs_array_alloc(c->set_count, sizeof(*c->sets));
	/* not from the heap: pages that are never filled cost nothing */
	void *bytes = mmap(NULL, bytes_size(c), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!c->sets || bytes == MAP_FAILED) {
		if (bytes != MAP_FAILED)
			munmap(bytes, bytes_size(c));
		free(c->sets);
		free(c);
		return gs_fail(err, GS_ENOSPC, "out of memory for a cache of guest memory");
	}
	c->bytes = bytes;
	for (uint32_t i = 0; i < c->set_count; i++)
		pthread_mutex_init(&c->sets[i].lock, NULL);
	*cache_out = c;
	return GS_OK;
}

void guest_cache_destroy(struct guest_cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->set_count; i++)
		pthread_mutex_destroy(&c->sets[i].lock);
	munmap(c->bytes, bytes_size(c));
	free(c->sets);
	free(c);
}

void guest_cache_keep(struct guest_cache *c, bool keep)
{
	if (keep && ++c->last_generation == 0)
		c->last_generation = 1;
	atomic_store_explicit(&c->generation, keep ? c->last_generation : 0, memory_order_relaxed);
}

/* Bytes of way @p way of set @p set. */
static char *way_bytes(const struct guest_cache *c, uint32_t set, uint32_t way)
{
	return c->bytes + ((size_t)set * CACHE_WAYS + way) * c->block_size;
}

/* The way that has the block at @p at, or the one to put it into. */
static uint32_t pick_way(const struct set *s, uint64_t at, uint32_t generation)
{
	uint32_t victim = 0;

	for (uint32_t way = 0; way < CACHE_WAYS; way++) {
		const struct block *b = &s->blocks[way], *v = &s->blocks[victim];

		if (b->generation == generation && b->at == at)
			return way;
		if (v->generation == generation &&
		    (b->generation != generation || b->used < v->used))
			victim = way;
	}
	return victim;
}

/* Read a part of the block of @p len bytes at @p base. */
static enum gs_code read_block(struct guest_cache *c, uint32_t generation, uint64_t base,
			       uint32_t len, uint32_t offset, void *buf, size_t n)
{
	/* Fibonacci hashing: neighbours go to different sets */
	uint64_t hash = (base / c->block_size) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t set = (uint32_t)((hash >> 32) % c->set_count);
	struct set *s = &c->sets[set];
	enum gs_code rc = GS_OK;

	pthread_mutex_lock(&s->lock);
	uint32_t way = pick_way(s, base, generation);
	struct block *b = &s->blocks[way];
	char *bytes = way_bytes(c, set, way);
	if (b->generation != generation || b->at != base || b->len < len) {
		b->generation = 0;
		rc = c->fetch(c->arg, GPA(base), bytes, len);
		if (!rc)
			*b = (struct block){ .at = base, .generation = generation, .len = len };
	}
	if (!rc) {
		b->used = ++s->clock;
		memcpy(buf, bytes + offset, n);
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

enum gs_code guest_cache_read(struct guest_cache *c, const struct guest_range *range, gpa_t at,
			      void *buf, size_t len)
{
	uint32_t generation = atomic_load_explicit(&c->generation, memory_order_relaxed);

	if (!generation || len > (size_t)c->block_size * CACHE_LARGE_BLOCKS)
		return c->fetch(c->arg, at, buf, len);
	while (len) {
		uint64_t in_range = at.a - range->start.a;
		uint32_t offset = (uint32_t)(in_range % c->block_size);
		uint32_t whole = (uint32_t)gs_min(c->block_size, range->size - (in_range - offset));
		size_t n = gs_min(len, whole - offset);

		/* one bad page costs that page, not its block */
		if (read_block(c, generation, at.a - offset, whole, offset, buf, n)) {
			enum gs_code rc = c->fetch(c->arg, at, buf, n);
			if (rc)
				return rc;
		}
		at.a += n;
		buf = (char *)buf + n;
		len -= n;
	}
	return GS_OK;
}
