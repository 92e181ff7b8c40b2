/* SPDX-License-Identifier: Apache-2.0 */
/* Indices by content, and arrays that grow. */
#include "introspect/btlog/book_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

struct btl_intern_slot {
	uint32_t hash;
	uint32_t index; /* plus 1; 0: free */
};

#define ROOM_START 64u

uint64_t btl_hash_bytes(uint64_t seed, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t h = seed ^ len;

	for (; len >= 8; len -= 8, p += 8) {
		uint64_t word;

		memcpy(&word, p, sizeof(word));
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 32;
	}
	for (; len; len--)
		h = (h ^ *p++) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

uint32_t btl_intern_find(const struct btl_intern *t, uint64_t hash, const struct btl_book *book,
			 btl_same_fn same, const void *key)
{
	if (!t->room)
		return BTL_NONE;
	for (uint32_t i = (uint32_t)hash & (t->room - 1); t->slot[i].index;
	     i = (i + 1) & (t->room - 1))
		if (t->slot[i].hash == (uint32_t)hash && same(book, t->slot[i].index - 1, key))
			return t->slot[i].index - 1;
	return BTL_NONE;
}

static void put(struct btl_intern *t, struct btl_intern_slot slot)
{
	uint32_t i = slot.hash & (t->room - 1);

	while (t->slot[i].index)
		i = (i + 1) & (t->room - 1);
	t->slot[i] = slot;
}

static bool grow(struct btl_intern *t)
{
	struct btl_intern old = *t;

	t->room = old.room ? 2 * old.room : ROOM_START;
	t->slot = gs_array_alloc(t->room, sizeof(*t->slot));
	if (!t->slot) {
		*t = old;
		return false;
	}
	for (uint32_t i = 0; i < old.room; i++)
		if (old.slot[i].index)
			put(t, old.slot[i]);
	free(old.slot);
	return true;
}

bool btl_intern_add(struct btl_intern *t, uint64_t hash, uint32_t index)
{
	if (2 * (uint64_t)(t->used + 1) > t->room && !grow(t))
		return false;
	put(t, (struct btl_intern_slot){ (uint32_t)hash, index + 1 });
	t->used++;
	return true;
}

void *btl_array_next(void **array, uint32_t count, size_t size)
{
	/* full at 16 elements and at each power of two from there on */
	if (count == 0 || (count >= 16 && (count & (count - 1)) == 0)) {
		size_t bytes;
		void *more;

		if (count >= BTL_BOOK_MAX || !gs_mul(count ? 2 * (size_t)count : 16, size, &bytes))
			return NULL;
		more = realloc(*array, bytes);
		if (!more)
			return NULL;
		*array = more;
	}
	return (uint8_t *)*array + count * size;
}
