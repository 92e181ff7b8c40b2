/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the store share. */
#ifndef CONTROL_STORE_PRIV_H
#define CONTROL_STORE_PRIV_H

#include "control/store.h"

/* Most entries that are held: what may be kept of both kinds, and one that is about to go. */
#define STORE_ENTRIES_MAX (2 * CTL_STORE_KEEP_MAX + 2)

struct ctl_store {
	struct ctl_store_config config;
	char *path;
	int folder;		       /* open and locked; -1: not yet */
	struct ctl_store_entry *entry; /* ascending by name */
	uint32_t count, room;
	uint64_t last_us; /* time in the last name */
	uint64_t
		base_ns; /* start of our last full one of a schedule, which deltas follow; 0: none */
	size_t lost;	 /* bytes of the last one that could not be written; 0: it could */
	uint64_t removed;
};

/** Name of a capture, by time and what it is. */
void ctl_store_name(uint64_t time_us, uint32_t reason, bool is_delta,
		    char name_out[static CTL_STORE_NAME_MAX]);

/** Read it back. @return false: not a name of ours */
bool ctl_store_name_parse(const char *name, uint64_t *time_us_out, uint32_t *reason_out,
			  bool *is_delta_out);

/** Append one. @return GS_OK; GS_ENOSPC: out of memory; GS_ETOOBIG: too many */
GS_MUST_USE enum gs_code ctl_store_add(struct ctl_store *st, const struct ctl_store_entry *e);

/** Name in a delta the full one that it follows: the last of its time among the first @p count. */
void ctl_store_find_base(const struct ctl_store *st, uint32_t count, struct ctl_store_entry *e);

/** Write a file of the folder, all or nothing. */
GS_MUST_USE enum gs_code ctl_store_write(struct ctl_store *st, const char *name, const void *data,
					 size_t size, struct gs_error *err);

/** Write the index. */
GS_MUST_USE enum gs_code ctl_store_index_write(struct ctl_store *st, struct gs_error *err);

/**
 * Read what is in the folder: index and captures. Temporary files of those that were killed are
 * removed.
 *
 * @param differs_out  the index does not say what is there
 */
GS_MUST_USE enum gs_code ctl_store_load(struct ctl_store *st, bool *differs_out,
					struct gs_error *err);

#endif
