/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, and pieces of them for records. */
#include "introspect/stackshot/storage.h"

#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

/* All sizes and places in a buffer are multiples of it, as kcdata's items are. */
#define GRAIN 16u
/* Less than a thread without a stack: not worth a place on the list. */
#define LEFTOVER_MIN 512u
#define HUGE_PAGE    (UINT64_C(2) << 20)

#define HEADER gs_align_up(sizeof(struct kcd_chunk), GRAIN)

/* Stands at the start of a piece that nobody uses. */
struct ss_leftover {
	struct ss_leftover *next;
	size_t size; /* header included */
};

/* --- pages --- */

enum gs_code ss_pages_reserve(struct ss_pages *p, size_t size)
{
	if (size <= p->size)
		return GS_OK;

	size_t whole = (size_t)gs_align_up(size, size >= HUGE_PAGE ? HUGE_PAGE : 4096);
	void *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return GS_ENOSPC;
	/* neither is needed for a correct capture: fewer page walks, no page taken away meanwhile */
	GS_IGNORE(madvise(at, whole, MADV_HUGEPAGE));
	bool locked = mlock(at, whole) == 0;
	/* touched now, so that no page is asked of the host while the guest is stopped */
	memset(at, 0, whole);
	ss_pages_release(p);
	*p = (struct ss_pages){ at, whole, locked };
	return GS_OK;
}

void ss_pages_release(struct ss_pages *p)
{
	if (p->at)
		munmap(p->at, p->size);
	*p = (struct ss_pages){ 0 };
}

/* --- buffers --- */

enum gs_code ss_storage_reserve(struct ss_storage *st, uint32_t buffers, size_t size)
{
	size_t each = (size_t)gs_align_up((size + buffers - 1) / buffers, GRAIN);

	st->buffers = buffers;
	for (uint32_t i = 0; i < buffers; i++) {
		if (ss_pages_reserve(&st->buffer[i].pages, each))
			return GS_ENOSPC;
		st->buffer[i].size = (size_t)gs_max(st->buffer[i].size, each);
	}
	return GS_OK;
}

void ss_storage_release(struct ss_storage *st)
{
	for (uint32_t i = 0; i < st->buffers; i++)
		ss_pages_release(&st->buffer[i].pages);
	*st = (struct ss_storage){ 0 };
}

size_t ss_storage_size(const struct ss_storage *st)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < st->buffers; i++)
		sum += st->buffer[i].size;
	return sum;
}

size_t ss_storage_used(const struct ss_storage *st)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < st->buffers; i++)
		sum += atomic_load_explicit(&st->buffer[i].used, memory_order_relaxed);
	return sum;
}

size_t ss_storage_lost(const struct ss_storage *st)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < st->buffers; i++) {
		sum += atomic_load_explicit(&st->buffer[i].lost, memory_order_relaxed);
		for (const struct ss_leftover *l = st->buffer[i].leftovers; l; l = l->next)
			sum += l->size;
	}
	return sum;
}

void ss_storage_reset(struct ss_storage *st)
{
	for (uint32_t i = 0; i < st->buffers; i++) {
		struct ss_buffer *b = &st->buffer[i];

		atomic_store_explicit(&b->used, 0, memory_order_relaxed);
		atomic_store_explicit(&b->lost, 0, memory_order_relaxed);
		b->leftovers = NULL;
	}
}

/* --- pieces --- */

static void lock_list(struct ss_buffer *b)
{
	/* pairs with the release in unlock_list(): the list is as the last holder left it */
	while (atomic_exchange_explicit(&b->busy, 1, memory_order_acquire))
		;
}

static void unlock_list(struct ss_buffer *b)
{
	atomic_store_explicit(&b->busy, 0, memory_order_release);
}

/* From the unused end: @p want bytes, or what there is if that is @p least; NULL: less. */
static void *take_end(struct ss_buffer *b, size_t want, size_t least, size_t *size_out)
{
	size_t used = atomic_load_explicit(&b->used, memory_order_relaxed), n;

	do {
		size_t left = b->size - used;

		if (left < least)
			return NULL;
		n = (size_t)gs_min(want, left) & ~(size_t)(GRAIN - 1);
		/* acquire: pairs with the release of who gave these bytes back in ss_piece_trim() */
	} while (!atomic_compare_exchange_weak_explicit(
		&b->used, &used, used + n, memory_order_acquire, memory_order_relaxed));
	*size_out = n;
	return (uint8_t *)b->pages.at + used;
}

/* The first leftover that is large enough, whole. */
static void *take_leftover(struct ss_buffer *b, size_t least, size_t *size_out)
{
	struct ss_leftover *found = NULL;

	lock_list(b);
	for (struct ss_leftover **at = &b->leftovers; *at; at = &(*at)->next) {
		if ((*at)->size < least)
			continue;
		found = *at;
		*at = found->next;
		break;
	}
	unlock_list(b);
	if (found)
		*size_out = found->size;
	return found;
}

static struct kcd_chunk *take_from(struct ss_buffer *b, size_t want, size_t least)
{
	size_t size;
	void *at = take_end(b, want, least, &size);

	if (!at)
		at = take_leftover(b, least, &size);
	if (!at)
		return NULL;
	struct kcd_chunk *piece = at;
	*piece = (struct kcd_chunk){ .buf = (uint8_t *)at + HEADER, .size = size - HEADER };
	atomic_fetch_add_explicit(&b->lost, HEADER, memory_order_relaxed);
	return piece;
}

static size_t room_at_end(const struct ss_buffer *b)
{
	return b->size - atomic_load_explicit(&b->used, memory_order_relaxed);
}

/* The buffer with most room that has not been tried; its number is or-ed into *tried. */
static struct ss_buffer *fullest_free(struct ss_storage *st, uint64_t *tried)
{
	uint32_t best = SS_WORKERS_MAX;

	for (uint32_t i = 0; i < st->buffers; i++) {
		if (BIT(*tried, i))
			continue;
		if (best == SS_WORKERS_MAX ||
		    room_at_end(&st->buffer[i]) > room_at_end(&st->buffer[best]))
			best = i;
	}
	if (best == SS_WORKERS_MAX)
		return NULL;
	*tried |= UINT64_C(1) << best;
	return &st->buffer[best];
}

struct kcd_chunk *ss_piece_take(struct ss_storage *st, uint32_t own, size_t want, size_t least,
				uint64_t *foreign_out)
{
	uint64_t tried = UINT64_C(1) << own;

	least = (size_t)gs_align_up(least, GRAIN) + HEADER;
	want = (size_t)gs_max(gs_align_up(want, GRAIN) + HEADER, least);
	struct kcd_chunk *piece = take_from(&st->buffer[own], want, least);
	while (!piece) {
		struct ss_buffer *b = fullest_free(st, &tried);

		if (!b)
			return NULL;
		piece = take_from(b, want, least);
		if (piece)
			*foreign_out += piece->size;
	}
	return piece;
}

static struct ss_buffer *buffer_of(struct ss_storage *st, const void *at)
{
	uint32_t i = 0;

	while (!gs_in_range((uintptr_t)at, 1, (uintptr_t)st->buffer[i].pages.at,
			    st->buffer[i].pages.size))
		i++; /* a piece lies in one of them */
	return &st->buffer[i];
}

void ss_piece_trim(struct ss_storage *st, struct kcd_chunk *piece, size_t keep)
{
	keep = (size_t)gs_align_up(keep, GRAIN);
	if (keep >= piece->size)
		return;

	struct ss_buffer *b = buffer_of(st, piece);
	struct ss_leftover *tail = (void *)((uint8_t *)piece->buf + keep);
	size_t size = piece->size - keep;
	size_t from = (size_t)((uint8_t *)tail - (uint8_t *)b->pages.at), end = from + size;

	piece->size = keep;
	/* release: pairs with the acquire of who takes these bytes next in take_end() */
	if (atomic_compare_exchange_strong_explicit(&b->used, &end, from, memory_order_release,
						    memory_order_relaxed))
		return;
	if (size < LEFTOVER_MIN) {
		atomic_fetch_add_explicit(&b->lost, size, memory_order_relaxed);
		return;
	}
	tail->size = size;
	lock_list(b);
	tail->next = b->leftovers;
	b->leftovers = tail;
	unlock_list(b);
}

bool ss_next_record(struct ss_record_walk *walk, struct kcd_header *header_out)
{
	while (walk->piece && walk->next >= walk->piece->used) {
		walk->piece = walk->piece->next;
		walk->next = 0;
	}
	if (!walk->piece)
		return false;
	const uint8_t *at = (const uint8_t *)walk->piece->buf + walk->next;

	memcpy(header_out, at, sizeof(*header_out));
	walk->payload = at + sizeof(*header_out);
	walk->next += sizeof(*header_out) + header_out->size;
	return true;
}
