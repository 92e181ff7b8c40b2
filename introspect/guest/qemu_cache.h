/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of guest memory that were read while the guest stood. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_CACHE_H
#define INTROSPECT_GUEST_QEMU_CACHE_H

/*
 * Where memory is not mapped each read is a system call or worse; a capture reads words that lie
 * close together. Blocks are true only as long as the guest stands: the cache is opened after the
 * stop and closed before the resume, and passes reads through in between.
 *
 * Sets of CACHE_WAYS blocks; in a full set the block unused for longest is replaced. A set's lock
 * is held while its block is fetched, so that no block is fetched twice.
 *
 * Threads: reads side by side; open and close by one thread, with no read under way in which a
 * stale answer would matter.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

struct guest_cache;

/** Read [at, at + len), which lies in one range. */
typedef enum gs_code (*guest_cache_fetch)(void *arg, gpa_t at, void *buf, size_t len);

/**
 * @param block   bytes of a block, a power of two
 * @param blocks  how many, at most; all memory is allocated here
 */
GS_MUST_USE enum gs_code guest_cache_create(uint32_t block, uint32_t blocks,
					    guest_cache_fetch fetch, void *arg,
					    struct guest_cache **cache_out, struct gs_error *err);

/** NULL is fine. */
void guest_cache_destroy(struct guest_cache *c);

/** From now on blocks are kept, or, with false, forgotten and not kept. */
void guest_cache_keep(struct guest_cache *c, bool keep);

/**
 * Read through the cache.
 *
 * @param range  borrowed; holds [at, at + len)
 * @return what fetch returned; a failed block is not kept, and then @p len bytes alone are tried
 * Allocates nothing.
 */
GS_MUST_USE enum gs_code guest_cache_read(struct guest_cache *c, const struct guest_range *range,
					  gpa_t at, void *buf, size_t len);

#endif
