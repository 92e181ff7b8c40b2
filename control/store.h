/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of captures: names that sort by time, an index, and no more of them than wanted. */
#ifndef CONTROL_STORE_H
#define CONTROL_STORE_H

/*
 *	20261130T184216.123456Z-schedule.kcdata		a full capture
 *	20261130T184226.123457Z-schedule-delta.kcdata	what has changed since
 *	20261130T184230.000001Z-hung-task.kcdata	a trigger's
 *	index.json					what each is; docs/schedules.md
 *
 * Files appear whole or not at all, the index included, in this order: capture, index, removal of
 * old ones. A process that was killed in between leaves a capture that the index does not know, or
 * one that it does not know any more: the next one to open the folder puts that right. A damaged
 * index is made anew from the captures. Meanwhile the folder is locked, and what is under our names
 * in it is ours.
 *
 * Threads: one at a time; everything but create and destroy may wait for a disk.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "introspect/stackshot/records.h"
#include "introspect/stackshot/stackshot.h"

#define CTL_STORE_INDEX	   "index.json"
#define CTL_STORE_KEEP_MAX 10000u /* the index is written anew with each capture */
#define CTL_STORE_NAME_MAX 64

/** One capture. */
struct ctl_store_entry {
	char name[CTL_STORE_NAME_MAX];
	char base
		[CTL_STORE_NAME_MAX]; /* of a delta: the full one it needs; "": full, or not known */
	bool is_delta;
	uint32_t reason;   /* enum ss_reason */
	uint64_t taken_us; /* since 1970 */
	uint64_t start_ns; /* host's monotonic clock: the guest had stopped */
	uint64_t since_ns; /* delta: start of the capture it follows */
	uint64_t bytes;
	bool has_numbers; /* what follows is known */
	bool complete;
	uint32_t tasks, threads;
	uint64_t stopped_ns;
};

struct ctl_store_config {
	const char
		*path; /* of the folder; made if its own folder is there; borrowed for the call */
	uint32_t keep; /* most captures of the schedule, and as many of triggers; not 0 */
	uint64_t max_bytes; /* of all captures; 0: no limit. The newest stays, and what it needs */
	/** What writes files; NULL: gs_file_write_atomic(). */
	enum gs_code (*write)(const char *path, const void *data, size_t len, mode_t mode,
			      struct gs_error *err);
};

struct ctl_store;

/** @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code ctl_store_create(const struct ctl_store_config *config,
					  struct ctl_store **store_out, struct gs_error *err);

/** Lets others have the folder. NULL is fine. */
void ctl_store_destroy(struct ctl_store *st);

/**
 * Make the folder, lock it, read what is in it and put that right. Does nothing when that is done.
 *
 * @return GS_OK; GS_EBUSY: another guestshot has it; others: of the folder, or of the index to be
 *         written. It can be tried again.
 */
GS_MUST_USE enum gs_code ctl_store_open(struct ctl_store *st, struct gs_error *err);

/**
 * Whether a capture is likely to find its room, before the guest is stopped for it: opens the folder,
 * and after a failure tries to write as much as was lost.
 */
GS_MUST_USE enum gs_code ctl_store_ready(struct ctl_store *st, struct gs_error *err);

/** A capture to be written. */
struct ctl_store_item {
	const void *data;
	size_t size;
	const struct ss_result *numbers; /* of it */
	uint32_t reason;		 /* enum ss_reason */
	uint64_t since_ns;		 /* 0: it is a full one */
	uint64_t taken_us;		 /* when, since 1970; 0: now */
};

/**
 * Write a capture, list it, remove what is too much.
 *
 * @param item         borrowed, with what it points to
 * @param is_there_out whether it has been written, also after a failure
 * @return GS_OK; GS_ENOENT: also, a delta whose full one is not there. A failure that leaves only the
 *         index behind the times counts as one, although the capture is there.
 */
GS_MUST_USE enum gs_code ctl_store_put(struct ctl_store *st, const struct ctl_store_item *item,
				       bool *is_there_out, struct gs_error *err);

struct ctl_store_stats {
	uint32_t captures; /* in the folder */
	uint64_t bytes;	   /* of these */
	uint64_t removed;  /* by us */
	char last[CTL_STORE_NAME_MAX];
};

void ctl_store_stats_get(const struct ctl_store *st, struct ctl_store_stats *stats_out);

/** The captures, ascending; until the next call of another function. */
const struct ctl_store_entry *ctl_store_list(const struct ctl_store *st, uint32_t *count_out);

#endif
