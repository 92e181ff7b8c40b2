/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that captures write to while the guest is stopped. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_STORAGE_H
#define INTROSPECT_STACKSHOT_STORAGE_H

/*
 * One buffer a worker, allocated, touched and locked before the stop. Records go into pieces of
 * them, which are chunks of a chained kcdata writer:
 *
 *	buffer  +--------+----------------+--------+-------+------------------------+
 *	        | header | records of one | header | rec…  |  free                  |
 *	        +--------+----------------+--------+-------+------------------------+
 *	        ^ struct kcd_chunk                         ^ used
 *
 * A piece comes from the worker's own buffer, else from the one with most room. What a piece does
 * not need is given back: to the end of the buffer if it lies there, else to a list of leftovers.
 *
 * Threads: pieces may be taken and given back by all workers side by side; the rest is for one
 * thread, before and after them.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/kcdata.h"

/* Pages that nothing else uses, touched, and locked where that is permitted. */
struct ss_pages {
	void *at; /* NULL: none */
	size_t size;
	bool locked;
};

/** Zeroed pages; what is there is kept if it is large enough already, else lost. */
GS_MUST_USE enum gs_code ss_pages_reserve(struct ss_pages *p, size_t size);
void ss_pages_release(struct ss_pages *p);

struct ss_leftover;

struct ss_buffer {
	_Alignas(64) _Atomic size_t used;
	_Atomic size_t lost; /* bytes too few to be of use */
	size_t size;	     /* of the pages, what may be used: they are rounded up */
	struct ss_pages pages;
	struct ss_leftover *leftovers; /* in any order */
	_Atomic uint32_t busy;	       /* guards them: the engine's own, held for a few loads */
};

struct ss_storage {
	struct ss_buffer buffer[SS_WORKERS_MAX];
	uint32_t buffers;
};

/**
 * See to @p size bytes in all, in one buffer for each worker.
 *
 * @return GS_OK; GS_ENOSPC: out of memory, what was there before is still there
 */
GS_MUST_USE enum gs_code ss_storage_reserve(struct ss_storage *st, uint32_t buffers, size_t size);
void ss_storage_release(struct ss_storage *st);

/** Bytes that may be used in all buffers. */
size_t ss_storage_size(const struct ss_storage *st);
/** Bytes handed out and not given back. */
size_t ss_storage_used(const struct ss_storage *st);
/** ... of these, bytes that hold no records: headers' and what was too small to be used. */
size_t ss_storage_lost(const struct ss_storage *st);

/** Empty all buffers. */
void ss_storage_reset(struct ss_storage *st);

/**
 * Take a piece.
 *
 * @param own   the buffer to look in first
 * @param want  bytes for records: as much as there is up to this, and at least @p least
 * @param foreign_out  bytes that came from another buffer are added to it
 * @return NULL: no buffer has so much in one place
 * Legal while the guest is stopped: no allocation, no lock but the list's own.
 */
struct kcd_chunk *ss_piece_take(struct ss_storage *st, uint32_t own, size_t want, size_t least,
				uint64_t *foreign_out);

/**
 * The records in a chain of pieces, one by one. They are our own, and in pieces that a container may go
 * beyond, so that only their headers are looked at, without a reader.
 */
struct ss_record_walk {
	const struct kcd_chunk *piece; /* set at first */
	const uint8_t *payload;	       /* of the record at hand; not aligned */
	size_t next;		       /* in the piece */
};

/** @return false: that was the last one */
bool ss_next_record(struct ss_record_walk *walk, struct kcd_header *header_out);

/** Give back what lies behind the first @p keep bytes of a piece, and lower its size accordingly.
 */
void ss_piece_trim(struct ss_storage *st, struct kcd_chunk *piece, size_t keep);

#endif
