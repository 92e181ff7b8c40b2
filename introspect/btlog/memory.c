/* SPDX-License-Identifier: Apache-2.0 */
/* Where entries live: one reservation, committed in slabs, and the entries that wait to be used again. */
#include "introspect/btlog/priv.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/util.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 // linux/mman.h; not in every libc's
#endif

/* 64 of an entry, and at most 11 of heads: see btl_rehash_at() */
#define BYTES_AN_ENTRY 75u

/* Address space that begins at a huge page. @return MAP_FAILED */
static void *reserve(uint64_t size)
{
	uint8_t *at = mmap(NULL, size + HUGE_PAGE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return at;
	size_t before = (size_t)(gs_align_up((uintptr_t)at, HUGE_PAGE) - (uintptr_t)at);
	if (before)
		munmap(at, before);
	if (before < HUGE_PAGE)
		munmap(at + before + size, HUGE_PAGE - before);
	return at + before;
}

enum gs_code btl_memory_init(struct btl_library *lib, uint64_t limit, struct gs_error *err)
{
	lib->limit = limit;
	lib->max = (uint32_t)(limit / BYTES_AN_ENTRY * BTL_ENTRY_SIZE) & ~(BTL_STEP - 1);
	lib->reserved = gs_align_up(lib->max, BTL_SLAB_FIRST);
	/* address space only; nothing counts as memory until it is committed */
	lib->entries = reserve(lib->reserved);
	if (lib->entries == MAP_FAILED) {
		lib->entries = NULL;
		return gs_fail_errno(err, GS_ENOSPC, errno, "reserve %llu bytes for backtraces",
				     (unsigned long long)lib->reserved);
	}
	/* reference 0 is none */
	atomic_init(&lib->cursor, BTL_ENTRY_SIZE);
	return GS_OK;
}

void btl_memory_deinit(struct btl_library *lib)
{
	if (lib->entries)
		munmap(lib->entries, lib->reserved);
}

/* The next slab: 1 MiB, then as much as there is already. */
static bool commit_locked(struct btl_library *lib)
{
	uint64_t more = gs_min(lib->committed ? lib->committed : BTL_SLAB_FIRST,
			       lib->reserved - lib->committed);

	if (mprotect(lib->entries + lib->committed, more, PROT_READ | PROT_WRITE))
		return false;
	lib->committed += (uint32_t)more;
	return true;
}

/* Page faults are taken here rather than one by one in the callers. */
static void touch(uint8_t *start)
{
#ifdef MADV_POPULATE_WRITE
	if (madvise(start, BTL_STEP, MADV_POPULATE_WRITE) == 0)
		return; // Linux 5.14 and later
#endif
	for (size_t at = 0; at < BTL_STEP; at += 4096)
		*(volatile uint8_t *)(start + at) = 0;
}

/*
 * A look-up reads an entry anywhere: with small pages that is a walk of the page tables as well. Memory
 * that is all in use becomes a huge page; before that it would be more than is needed.
 */
static void make_huge(uint8_t *start)
{
	GS_IGNORE(madvise(start, HUGE_PAGE, MADV_COLLAPSE)); // Linux 6.1 and later; only faster
}

bool btl_memory_touch_locked(struct btl_library *lib)
{
	if (lib->touched >= lib->max)
		return false;
	if (lib->touched == lib->committed && !commit_locked(lib)) {
		/* the system has no more: this is the limit from now on */
		lib->max = lib->touched;
		return false;
	}
	touch(lib->entries + lib->touched);
	lib->touched += BTL_STEP;
	if (lib->touched % HUGE_PAGE == 0)
		make_huge(lib->entries + lib->touched - HUGE_PAGE);
	return true;
}

uint32_t btl_memory_left_locked(const struct btl_library *lib)
{
	uint32_t cursor = atomic_load_explicit(&lib->cursor, memory_order_relaxed);

	return lib->ready.count + lib->pending.count + lib->grace.count + lib->deferred.count +
	       (lib->max > cursor ? (lib->max - cursor) / BTL_ENTRY_SIZE : 0);
}

uint32_t btl_memory_take_locked(struct btl_library *lib)
{
	uint32_t ref = btl_dead_pop(lib, &lib->ready);

	if (ref)
		return ref;
	ref = atomic_load_explicit(&lib->cursor, memory_order_relaxed);
	if (ref >= lib->touched)
		return 0;
	/* release: with btl_entry_checked(), what it takes for an entry is below the cursor */
	atomic_store_explicit(&lib->cursor, ref + BTL_ENTRY_SIZE, memory_order_release);
	if (lib->touched - ref < BTL_STEP / 2 && lib->touched < lib->max && !lib->want_touch) {
		lib->want_touch = true;
		btl_keeper_kick_locked(lib);
	}
	return ref;
}

/* --- lists of entries without references ------------------------------------------------------ */

static void set_link(struct btl_library *lib, uint32_t ref, uint32_t next)
{
	atomic_store_explicit(&btl_entry_of(lib, ref)->last, next, memory_order_relaxed);
}

void btl_dead_push(struct btl_library *lib, struct btl_dead *list, uint32_t ref)
{
	set_link(lib, ref, 0);
	if (list->count++)
		set_link(lib, list->tail, ref);
	else
		list->head = ref;
	list->tail = ref;
}

uint32_t btl_dead_pop(struct btl_library *lib, struct btl_dead *list)
{
	uint32_t ref = list->head;

	if (!list->count)
		return 0;
	list->count--;
	list->head =
		(uint32_t)atomic_load_explicit(&btl_entry_of(lib, ref)->last, memory_order_relaxed);
	return ref;
}

void btl_dead_append(struct btl_library *lib, struct btl_dead *to, struct btl_dead *from)
{
	if (!from->count)
		return;
	if (to->count)
		set_link(lib, to->tail, from->head);
	else
		to->head = from->head;
	to->tail = from->tail;
	to->count += from->count;
	*from = (struct btl_dead){ 0 };
}
