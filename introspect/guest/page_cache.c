/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded cache of guest pages, for sources where a page costs much. */
#include "introspect/guest/page_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/util.h"

/*
 * A set holds 8 pages and has its own lock: a page can only be in the set that its number selects,
 * and the least recently used of the 8 gives way. No list, nothing to allocate, nothing that two
 * readers of different pages share.
 */
#define CACHE_WAYS 8
#define CACHE_FREE UINT64_MAX /* no page number: addresses have fewer bits */

struct cache_set {
	pthread_mutex_t lock; /* guards the rest, and the data of the set's pages */
	uint64_t clock;
	uint64_t page[CACHE_WAYS];  /* page number, CACHE_FREE */
	uint64_t used[CACHE_WAYS];  /* clock at the last use */
	uint64_t since[CACHE_WAYS]; /* time from which on its bytes are: before the fill */
};

struct guest_page_cache {
	unsigned int shift;
	uint32_t set_count; /* a power of two */
	struct cache_set *sets;
	uint8_t *data; /* set_count * CACHE_WAYS pages */
	size_t data_size;
	guest_page_fill_fn fill;
	void *priv;
};

static uint32_t sets_for(unsigned int shift, size_t bytes)
{
	uint32_t sets = 1;

	while (sets < UINT32_C(1) << 20 && (((size_t)sets * 2 * CACHE_WAYS) << shift) <= bytes)
		sets *= 2;
	return sets;
}

struct guest_page_cache *guest_page_cache_create(unsigned int page_shift, size_t bytes,
						 guest_page_fill_fn fill, void *priv)
{
	if (page_shift < 9 || page_shift > 20)
		return NULL;
	struct guest_page_cache *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->shift = page_shift;
	c->fill = fill;
	c->priv = priv;
	c->set_count = sets_for(page_shift, bytes);
	c->data_size = ((size_t)c->set_count * CACHE_WAYS) << page_shift;
	c->sets = gs_array_alloc(c->set_count, sizeof(*c->sets));
	// Not the heap: nothing of it exists until it is filled.
	void *data = mmap(NULL, c->data_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!c->sets || data == MAP_FAILED) {
		if (data != MAP_FAILED)
			munmap(data, c->data_size);
		free(c->sets);
		free(c);
		return NULL;
	}
	c->data = data;
	for (uint32_t i = 0; i < c->set_count; i++)
		(void)pthread_mutex_init(&c->sets[i].lock, NULL); /* cannot fail with Linux */
	guest_page_cache_clear(c);
	return c;
}

void guest_page_cache_destroy(struct guest_page_cache *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->set_count; i++)
		(void)pthread_mutex_destroy(&c->sets[i].lock);
	munmap(c->data, c->data_size);
	free(c->sets);
	free(c);
}

void guest_page_cache_clear(struct guest_page_cache *c)
{
	for (uint32_t i = 0; i < c->set_count; i++)
		for (int w = 0; w < CACHE_WAYS; w++)
			c->sets[i].page[w] = CACHE_FREE;
}

static uint32_t set_of(const struct guest_page_cache *c, uint64_t page)
{
	// Fibonacci hashing: stacks and task structures lie at regular distances.
	return (uint32_t)((page * UINT64_C(0x9e3779b97f4a7c15)) >> 40) & (c->set_count - 1);
}

static int way_find(const struct cache_set *s, uint64_t page)
{
	for (int w = 0; w < CACHE_WAYS; w++)
		if (s->page[w] == page)
			return w;
	return -1;
}

static int way_oldest(const struct cache_set *s)
{
	int oldest = 0;

	for (int w = 0; w < CACHE_WAYS; w++) {
		if (s->page[w] == CACHE_FREE)
			return w;
		if (s->used[w] < s->used[oldest])
			oldest = w;
	}
	return oldest;
}

/* Copy from one page; where the caller wants all of it, it is not kept. */
static enum gs_code read_page(struct guest_page_cache *c, uint64_t page, size_t skip, void *buf,
			      size_t len, uint64_t since_ns)
{
	bool whole = len == (size_t)1 << c->shift;
	uint32_t index = set_of(c, page);
	struct cache_set *s = &c->sets[index];
	enum gs_code rc = GS_OK;

	pthread_mutex_lock(&s->lock);
	int w = way_find(s, page);
	if (w >= 0 && s->since[w] < since_ns) {
		s->page[w] = CACHE_FREE;
		w = -1;
	}
	if (w < 0 && !whole) {
		w = way_oldest(s);
		s->page[w] = CACHE_FREE; // a failed fill may have overwritten it
		s->since[w] = gs_clock_ns();
		rc = c->fill(c->priv, GPA(page << c->shift),
			     c->data + (((size_t)index * CACHE_WAYS + (size_t)w) << c->shift));
		if (!rc)
			s->page[w] = page;
	}
	if (w >= 0 && !rc) {
		s->used[w] = ++s->clock;
		memcpy(buf, c->data + (((size_t)index * CACHE_WAYS + (size_t)w) << c->shift) + skip,
		       len);
	}
	pthread_mutex_unlock(&s->lock);
	return w < 0 ? c->fill(c->priv, GPA(page << c->shift), buf) : rc;
}

enum gs_code guest_page_cache_read_since(struct guest_page_cache *c, gpa_t at, void *buf,
					 size_t len, uint64_t since_ns)
{
	size_t size = (size_t)1 << c->shift;

	while (len) {
		size_t skip = (size_t)(at.a & (size - 1));
		size_t n = (size_t)gs_min(len, size - skip);
		enum gs_code rc = read_page(c, at.a >> c->shift, skip, buf, n, since_ns);

		if (rc)
			return rc;
		buf = (char *)buf + n;
		at.a += n;
		len -= n;
	}
	return GS_OK;
}

enum gs_code guest_page_cache_read(struct guest_page_cache *c, gpa_t at, void *buf, size_t len)
{
	return guest_page_cache_read_since(c, at, buf, len, 0);
}
