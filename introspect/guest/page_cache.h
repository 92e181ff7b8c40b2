/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded cache of guest pages, for sources where a page costs much. */
#ifndef INTROSPECT_GUEST_PAGE_CACHE_H
#define INTROSPECT_GUEST_PAGE_CACHE_H

/*
 *	struct guest_page_cache *c = guest_page_cache_create(12, 16 << 20, fill, source);
 *	rc = guest_page_cache_read(c, at, buf, len);
 *
 * Pages are never written back. Of memory that stands still they never get old; of memory that does
 * not, the reader says how old one may be.
 *
 * Threads: reads run side by side, also the fills of different pages.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/addr.h"

/** Fetch the page at @p page (a multiple of its size) into @p buf. Called from any reading thread. */
typedef enum gs_code (*guest_page_fill_fn)(void *priv, gpa_t page, void *buf);

struct guest_page_cache;

/**
 * @param page_shift  size of a page as a power of two, 9 … 20
 * @param bytes       of pages held; rounded, at least a handful of pages. Touched as it fills.
 * @return returned: free with guest_page_cache_destroy(); NULL: out of memory
 */
struct guest_page_cache *guest_page_cache_create(unsigned int page_shift, size_t bytes,
						 guest_page_fill_fn fill, void *priv);

/** NULL is fine. */
void guest_page_cache_destroy(struct guest_page_cache *c);

/**
 * Copy guest memory through the cache. Whole pages that are not in it go to @p buf directly and are
 * not kept, so that a search through everything does not push out what is needed often.
 *
 * @return GS_OK, or what the fill said; bytes before the page that failed are then overwritten
 * Threads: any. Allocates nothing itself.
 */
GS_MUST_USE enum gs_code guest_page_cache_read(struct guest_page_cache *c, gpa_t at, void *buf,
					       size_t len);

/**
 * The same, but pages that were fetched before @p since_ns (gs_clock_ns()) are fetched again.
 */
GS_MUST_USE enum gs_code guest_page_cache_read_since(struct guest_page_cache *c, gpa_t at,
						     void *buf, size_t len, uint64_t since_ns);

/** Forget all pages: the guest has run. No read may be under way. */
void guest_page_cache_clear(struct guest_page_cache *c);

#endif
