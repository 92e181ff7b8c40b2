/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as 32-bit words: docs/btlog.md has the encoding. */
#include "introspect/btlog/priv.h"

#define WORD_FAR     1u
#define REGION_BYTES (UINT64_C(1) << BTL_REGION_SHIFT)

static uint32_t pseudo_word(uint64_t code)
{
	return BTL_REGION_NONE << BTL_REGION_SHIFT | (uint32_t)(code << 2) | WORD_FAR;
}

static uint32_t region_slot(uint64_t number)
{
	return (uint32_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 52) % BTL_REGION_SLOTS;
}

/*
 * Index of a region that is known; else the free slot that it would get. The table is never full:
 * there are twice as many slots as regions.
 */
static bool region_find(struct btl_library *lib, uint64_t number, uint32_t *index_out,
			uint32_t *slot_out)
{
	uint32_t slot = region_slot(number);

	for (;; slot = (slot + 1) % BTL_REGION_SLOTS) {
		/* acquire: with the release in region_add(), region_number[] is there */
		uint64_t v = atomic_load_explicit(&lib->region[slot], memory_order_acquire);

		if (v == 0) {
			*slot_out = slot;
			return false;
		}
		if (v >> 12 == number) {
			*index_out = (uint32_t)(v >> 1) & 2047;
			return true;
		}
	}
}

/* False: all are in use. */
static bool region_add_locked(struct btl_library *lib, uint64_t number, uint32_t *index_out)
{
	uint32_t slot;

	if (region_find(lib, number, index_out, &slot))
		return true;
	if (lib->regions == BTL_REGIONS_MAX)
		return false;
	*index_out = lib->regions++;
	atomic_store_explicit(&lib->region_number[*index_out], number, memory_order_relaxed);
	atomic_store_explicit(&lib->region[slot], (number << 11 | *index_out) << 1 | 1,
			      memory_order_release); /* pairs with region_find() */
	return true;
}

/* False: would have to wait. */
static bool pack_region(struct btl_library *lib, uint64_t frame, bool nowait, uint32_t *word_out)
{
	uint64_t number = frame >> BTL_REGION_SHIFT;
	uint32_t index, slot;
	bool known = region_find(lib, number, &index, &slot);

	if (!known) {
		if (!nowait)
			pthread_mutex_lock(&lib->lock);
		else if (pthread_mutex_trylock(&lib->lock))
			return false;
		known = region_add_locked(lib, number, &index);
		pthread_mutex_unlock(&lib->lock);
	}
	if (known) {
		*word_out = index << BTL_REGION_SHIFT | (uint32_t)(frame % REGION_BYTES) | WORD_FAR;
	} else {
		atomic_fetch_add_explicit(&lib->frames_lost, 1, memory_order_relaxed);
		*word_out = pseudo_word(BTL_PSEUDO_LOST);
	}
	return true;
}

static bool pack(struct btl_library *lib, uint64_t frame, bool nowait, uint32_t *word_out)
{
	uint64_t distance = frame - lib->base;

	if (frame & 1) {
		atomic_fetch_add_explicit(&lib->frames_unknown, 1, memory_order_relaxed);
		*word_out = pseudo_word(BTL_PSEUDO_UNKNOWN);
	} else if (btl_frame_is_pseudo(frame)) {
		*word_out = pseudo_word(frame >> 2 ? frame >> 2 : BTL_PSEUDO_UNKNOWN);
	} else if ((int64_t)distance == (int32_t)distance) {
		*word_out = (uint32_t)distance;
	} else {
		return pack_region(lib, frame, nowait, word_out);
	}
	return true;
}

bool btl_pack_far(struct btl_library *lib, const uint64_t *frames, uint32_t count, uint32_t *words,
		  bool nowait)
{
	for (uint32_t i = 0; i < count; i++)
		if (!pack(lib, frames[i], nowait, &words[i]))
			return false;
	return true;
}

uint64_t btl_unpack(const struct btl_library *lib, uint32_t word)
{
	uint32_t index = word >> BTL_REGION_SHIFT;

	if (!(word & WORD_FAR))
		return lib->base + (uint64_t)(int64_t)(int32_t)word;
	word = word % REGION_BYTES & ~WORD_FAR;
	if (index == BTL_REGION_NONE)
		return word & ~UINT64_C(3);
	return atomic_load_explicit(&lib->region_number[index], memory_order_relaxed)
		       << BTL_REGION_SHIFT |
	       word;
}

const char *btl_pseudo_name(uint64_t frame)
{
	switch ((enum btl_pseudo)(frame >> 2)) {
	case BTL_PSEUDO_UNKNOWN: return "[unknown]";
	case BTL_PSEUDO_LOST: return "[lost]";
	case BTL_PSEUDO_USER: return "[user]";
	case BTL_PSEUDO_BROKEN: return "[broken off]";
	}
	return "[?]";
}
