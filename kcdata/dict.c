/* SPDX-License-Identifier: Apache-2.0 */
/* Names in open dictionaries: stacked hash tables. */
#include "kcdata/dict.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 16u
#define FIRST_ROOM  64u

/* Indexes are kept times two. */
#define INDEX_MAX (UINT32_MAX / 2 - 1)

void kcd_dict_init(struct kcd_dict *d)
{
	*d = (struct kcd_dict){ .seed = 0 };
}

void kcd_dict_deinit(struct kcd_dict *d)
{
	free(d->entries);
	free(d->members);
	free(d->slots);
}

/* Room for @p more elements behind @p count. */
static enum kcd_code make_room(void **array, uint32_t *room, uint32_t count, uint32_t more,
			       size_t size)
{
	if (more <= *room - count)
		return KCD_OK;
	if (more > INDEX_MAX - count)
		return KCD_ENOMEM;

	uint32_t n = *room ? *room : FIRST_ROOM;
	while (n - count < more)
		n = n > INDEX_MAX / 2 ? INDEX_MAX : n * 2;
	size_t bytes;
	if (__builtin_mul_overflow((size_t)n, size, &bytes))
		return KCD_ENOMEM;
	void *p = realloc(*array, bytes);
	if (!p)
		return KCD_ENOMEM;
	*array = p;
	*room = n;
	return KCD_OK;
}

/* Both halves of the product: every bit of the input reaches every bit of the result. */
static uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

#define MIX_1 UINT64_C(0x9e3779b97f4a7c15)
#define MIX_2 UINT64_C(0xd1b54a32d192ed03)

static uint64_t hash_key(const struct kcd_dict *d, const char *key, size_t len)
{
	uint64_t h = d->seed ^ len * MIX_1;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t part = 0;

		memcpy(&part, key + i, len - i < 8 ? len - i : 8);
		h = mix(h ^ part, MIX_2 ^ d->seed);
	}
	return h;
}

static uint64_t hash_id(const struct kcd_dict *d, uint32_t entry, uint64_t id)
{
	return mix(mix(id ^ d->seed, MIX_1) ^ entry, MIX_2 ^ d->seed);
}

static uint64_t hash_slot(const struct kcd_dict *d, uint32_t slot)
{
	uint32_t index = slot / 2 - 1;

	if (slot & 1)
		return hash_id(d, d->members[index].entry, d->members[index].id);
	return hash_key(d, d->entries[index].key, d->entries[index].key_len);
}

static struct kcd_dict_level *top(struct kcd_dict *d)
{
	assert(d->depth);
	return &d->level[d->depth - 1];
}

enum kcd_code kcd_dict_push(struct kcd_dict *d)
{
	if (d->depth == KCD_LEVELS_MAX)
		return KCD_ETOOBIG;

	enum kcd_code rc = make_room((void **)&d->slots, &d->slot_room, d->slot_count, FIRST_SLOTS,
				     sizeof(*d->slots));
	if (rc)
		return rc;
	if (!d->seed)
		d->seed =
			((uint64_t)(uintptr_t)d->slots ^ (uint64_t)(uintptr_t)d << 17) * MIX_1 | 1;
	d->level[d->depth++] = (struct kcd_dict_level){
		.entries = d->entry_count,
		.members = d->member_count,
		.slots = d->slot_count,
		.slot_mask = FIRST_SLOTS - 1,
	};
	memset(d->slots + d->slot_count, 0, FIRST_SLOTS * sizeof(*d->slots));
	d->slot_count += FIRST_SLOTS;
	return KCD_OK;
}

void kcd_dict_pop(struct kcd_dict *d)
{
	const struct kcd_dict_level *l = top(d);

	d->entry_count = l->entries;
	d->member_count = l->members;
	d->slot_count = l->slots;
	d->depth--;
}

static void place(const struct kcd_dict *d, const struct kcd_dict_level *l, uint64_t hash,
		  uint32_t slot)
{
	uint32_t *slots = d->slots + l->slots;
	uint32_t i = (uint32_t)hash & l->slot_mask;

	while (slots[i])
		i = (i + 1) & l->slot_mask;
	slots[i] = slot;
}

/* Twice the slots for the topmost level; what is in it is placed anew, in its order. */
static enum kcd_code grow_slots(struct kcd_dict *d, struct kcd_dict_level *l)
{
	uint32_t n = l->slot_mask + 1;
	enum kcd_code rc =
		make_room((void **)&d->slots, &d->slot_room, d->slot_count, n, sizeof(*d->slots));

	if (rc)
		return rc;
	// members without an id have no slot; those that have one are told by the old table
	uint32_t *old = malloc(n * sizeof(*old));
	if (!old)
		return KCD_ENOMEM;
	memcpy(old, d->slots + l->slots, n * sizeof(*old));
	d->slot_count += n;
	l->slot_mask = 2 * n - 1;
	memset(d->slots + l->slots, 0, 2 * (size_t)n * sizeof(*d->slots));
	for (uint32_t i = 0; i < n; i++) {
		if (old[i])
			place(d, l, hash_slot(d, old[i]), old[i]);
	}
	free(old);
	return KCD_OK;
}

/* Put a new entry or member into the table. */
static enum kcd_code add_slot(struct kcd_dict *d, uint64_t hash, uint32_t slot)
{
	struct kcd_dict_level *l = top(d);

	if (l->used >= (l->slot_mask + 1) / 2) {
		enum kcd_code rc = grow_slots(d, l);
		if (rc)
			return rc;
	}
	place(d, l, hash, slot);
	l->used++;
	return KCD_OK;
}

enum kcd_code kcd_dict_entry(struct kcd_dict *d, const char *key, size_t len, uint32_t *entry_out,
			     bool *new_out)
{
	const struct kcd_dict_level *l = top(d);

	if (len > sizeof(d->entries->key))
		len = sizeof(d->entries->key);

	uint64_t hash = hash_key(d, key, len);
	for (uint32_t i = (uint32_t)hash & l->slot_mask; d->slots[l->slots + i];
	     i = (i + 1) & l->slot_mask) {
		uint32_t slot = d->slots[l->slots + i];
		const struct kcd_dict_entry *e;
		if (slot & 1)
			continue;
		e = &d->entries[slot / 2 - 1];
		if (e->key_len == len && !memcmp(e->key, key, len)) {
			*entry_out = slot / 2 - 1;
			*new_out = false;
			return KCD_OK;
		}
	}

	uint32_t index = d->entry_count;
	enum kcd_code rc =
		make_room((void **)&d->entries, &d->entry_room, index, 1, sizeof(*d->entries));
	if (!rc)
		rc = add_slot(d, hash, (index + 1) * 2);
	if (rc)
		return rc;
	struct kcd_dict_entry *e = &d->entries[d->entry_count++];
	*e = (struct kcd_dict_entry){ .first = KCD_DICT_NONE,
				      .last = KCD_DICT_NONE,
				      .key_len = (uint8_t)len };
	memcpy(e->key, key, len);
	*entry_out = index;
	*new_out = true;
	return KCD_OK;
}

/* A member at the end of the list, in no slot. */
static enum kcd_code append_member(struct kcd_dict *d, uint32_t entry, uint64_t id, size_t offset)
{
	uint32_t index = d->member_count;
	enum kcd_code rc =
		make_room((void **)&d->members, &d->member_room, index, 1, sizeof(*d->members));

	if (rc)
		return rc;
	struct kcd_dict_entry *e = &d->entries[entry];
	d->members[d->member_count++] = (struct kcd_dict_member){
		.id = id, .offset = offset, .entry = entry, .next = KCD_DICT_NONE
	};
	if (e->last == KCD_DICT_NONE)
		e->first = index;
	else
		d->members[e->last].next = index;
	e->last = index;
	return KCD_OK;
}

enum kcd_code kcd_dict_add(struct kcd_dict *d, uint32_t entry, size_t offset)
{
	return append_member(d, entry, 0, offset);
}

enum kcd_code kcd_dict_member(struct kcd_dict *d, uint32_t entry, uint64_t id, uint32_t *member_out,
			      bool *new_out)
{
	const struct kcd_dict_level *l = top(d);
	uint64_t hash = hash_id(d, entry, id);

	for (uint32_t i = (uint32_t)hash & l->slot_mask; d->slots[l->slots + i];
	     i = (i + 1) & l->slot_mask) {
		uint32_t slot = d->slots[l->slots + i];
		const struct kcd_dict_member *m;
		if (!(slot & 1))
			continue;
		m = &d->members[slot / 2 - 1];
		if (m->entry == entry && m->id == id) {
			*member_out = slot / 2 - 1;
			*new_out = false;
			return KCD_OK;
		}
	}

	uint32_t index = d->member_count;
	enum kcd_code rc = append_member(d, entry, id, 0);
	if (!rc)
		rc = add_slot(d, hash, (index + 1) * 2 + 1);
	if (rc)
		return rc;
	*member_out = index;
	*new_out = true;
	return KCD_OK;
}
