/* SPDX-License-Identifier: Apache-2.0 */
/* The names used in the dictionaries that are open while a buffer is walked. Private. */
#ifndef KCDATA_DICT_H
#define KCDATA_DICT_H

/*
 * A buffer and each container in it is a dictionary to its readers: records have names there, and
 * containers have ids under the name of their type. Those of one dictionary form a level; levels lie
 * on each other like the containers they are for, and only the topmost one grows. A level holds
 *
 *	entries   one for each name, in order of first appearance
 *	members   what belongs to an entry: items under its name, containers with their ids
 *
 * both found by hashing, so that a buffer of n items costs about n, whatever its bytes are: the
 * hash depends on where the tables lie, which a file's author does not know.
 *
 * Memory grows with what is found in the open dictionaries, never with what a file announces.
 */

#include "kcdata/kcdata.h"
#include "kcdata/schema.h"
#include "kcdata/walk.h"

#define KCD_DICT_NONE UINT32_MAX

struct kcd_dict_entry {
	uint32_t first; /* members, a list in order of appearance; KCD_DICT_NONE: none */
	uint32_t last;
	uint16_t field; /* for the user */
	uint8_t shown;	/* for the user */
	uint8_t kind;	/* for the user; 0 in a new entry */
	uint8_t key_len;
	char key[KCD_KEY_MAX - 1];
};

struct kcd_dict_member {
	uint64_t id;
	size_t offset; /* for the user */
	uint32_t entry;
	uint32_t next;
};

struct kcd_dict_level {
	uint32_t entries; /* where those of the level start */
	uint32_t members;
	uint32_t slots;
	uint32_t slot_mask; /* their number - 1 */
	uint32_t used;
};

struct kcd_dict {
	struct kcd_dict_entry *entries;
	struct kcd_dict_member *members;
	uint32_t *slots; /* 0: empty; else index + 1, times two, plus one for a member */
	uint32_t entry_count, entry_room;
	uint32_t member_count, member_room;
	uint32_t slot_count, slot_room;
	uint32_t depth;
	uint64_t seed;
	struct kcd_dict_level level[KCD_LEVELS_MAX];
};

void kcd_dict_init(struct kcd_dict *d);
void kcd_dict_deinit(struct kcd_dict *d);

/** Open a level. @return KCD_OK; KCD_ETOOBIG: KCD_LEVELS_MAX are open; KCD_ENOMEM */
KCD_MUST_USE enum kcd_code kcd_dict_push(struct kcd_dict *d);

/** Close the topmost level and forget what is in it. */
void kcd_dict_pop(struct kcd_dict *d);

/**
 * Find the topmost level's entry of a name, or make one.
 *
 * @param entry_out  an index, for d->entries
 * @param new_out    whether it was made now
 */
KCD_MUST_USE enum kcd_code kcd_dict_entry(struct kcd_dict *d, const char *key, size_t len,
					  uint32_t *entry_out, bool *new_out);

/** Put a member at the end of an entry's list, without an id to find it by. */
KCD_MUST_USE enum kcd_code kcd_dict_add(struct kcd_dict *d, uint32_t entry, size_t offset);

/** Find an entry's member of this id, or put one at the end of its list. */
KCD_MUST_USE enum kcd_code kcd_dict_member(struct kcd_dict *d, uint32_t entry, uint64_t id,
					   uint32_t *member_out, bool *new_out);

#endif
