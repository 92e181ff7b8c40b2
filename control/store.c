/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of captures: names that sort by time, an index, and no more of them than wanted. */
#include "control/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "control/store_priv.h"

#define SUFFIX	     ".kcdata"
#define DELTA_SUFFIX "-delta"
/* A file that finds out whether there is room again; a name like those of interrupted writes. */
#define PROBE_NAME ".guestshot-probe.tmp"
/* Time of names; microseconds follow. */
#define TIME_FORMAT "%Y%m%dT%H%M%S"
#define TIME_LENGTH 15

/* --- names --------------------------------------------------------------------------------------
 */

void ctl_store_name(uint64_t time_us, uint32_t reason, bool is_delta,
		    char name_out[static CTL_STORE_NAME_MAX])
{
	const time_t seconds = (time_t)(time_us / 1000000);
	char text[TIME_LENGTH + 1];
	struct tm tm = { 0 };

	(void)gmtime_r(&seconds, &tm);
	strftime(text, sizeof(text), TIME_FORMAT, &tm);
	snprintf(name_out, CTL_STORE_NAME_MAX, "%s.%06uZ-%s%s" SUFFIX, text,
		 (unsigned int)(time_us % 1000000), ss_reason_name(reason),
		 is_delta ? DELTA_SUFFIX : "");
}

bool ctl_store_name_parse(const char *name, uint64_t *time_us_out, uint32_t *reason_out,
			  bool *is_delta_out)
{
	char again[CTL_STORE_NAME_MAX];
	struct tm tm = { 0 };
	unsigned int us;
	const char *dot = strptime(name, TIME_FORMAT, &tm);

	if (!dot || sscanf(dot, ".%6uZ-", &us) != 1)
		return false;
	*time_us_out = (uint64_t)timegm(&tm) * 1000000 + us;
	/* exactly what would be written for one of the reasons */
	for (uint32_t reason = 1; ss_reason_name(reason); reason++) {
		for (int delta = 0; delta < 2; delta++) {
			ctl_store_name(*time_us_out, reason, delta, again);
			if (strcmp(name, again) != 0)
				continue;
			*reason_out = reason;
			*is_delta_out = delta;
			return true;
		}
	}
	return false;
}

/* --- files --------------------------------------------------------------------------------------
 */

static char *path_of(const struct ctl_store *st, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", st->path, name) < 0 ? NULL : path;
}

enum gs_code ctl_store_write(struct ctl_store *st, const char *name, const void *data, size_t size,
			     struct gs_error *err)
{
	GS_FREE char *path = path_of(st, name);

	if (!path)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	return st->config.write(path, data, size, 0600, err);
}

enum gs_code ctl_store_add(struct ctl_store *st, const struct ctl_store_entry *e)
{
	if (st->count == STORE_ENTRIES_MAX)
		return GS_ETOOBIG;
	if (st->count == st->room) {
		const uint32_t room = st->room ? st->room * 2 : 64;
		void *entry = reallocarray(st->entry, room, sizeof(*e));

		if (!entry)
			return GS_ENOSPC;
		st->entry = entry;
		st->room = room;
	}
	st->entry[st->count++] = *e;
	return GS_OK;
}

/* --- what is too much ---------------------------------------------------------------------------
 */

static bool is_scheduled(const struct ctl_store_entry *e)
{
	return e->reason == SS_REASON_SCHEDULE;
}

/* The newest stays, and the full one that deltas here, or those to come, need. */
static bool may_go(const struct ctl_store *st, uint32_t i)
{
	const struct ctl_store_entry *e = &st->entry[i];

	if (i + 1 == st->count)
		return false;
	if (e->is_delta || !is_scheduled(e))
		return true;
	if (st->base_ns && e->start_ns == st->base_ns)
		return false;
	for (uint32_t j = i + 1; j < st->count; j++)
		if (st->entry[j].is_delta && !strcmp(st->entry[j].base, e->name))
			return false;
	return true;
}

/* The oldest of a kind that may go; count: none. */
static uint32_t oldest(const struct ctl_store *st, bool scheduled)
{
	uint32_t i = 0;

	while (i < st->count && (is_scheduled(&st->entry[i]) != scheduled || !may_go(st, i)))
		i++;
	return i;
}

/* @return index of what is to go next; count: nothing */
static uint32_t next_to_go(const struct ctl_store *st)
{
	uint32_t kinds[2] = { 0 };
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < st->count; i++) {
		kinds[is_scheduled(&st->entry[i])]++;
		bytes += st->entry[i].bytes;
	}
	for (int scheduled = 0; scheduled < 2; scheduled++)
		if (kinds[scheduled] > st->config.keep)
			return oldest(st, scheduled);
	if (!st->config.max_bytes || bytes <= st->config.max_bytes)
		return st->count;
	/* what a trigger saw is worth more */
	const uint32_t i = oldest(st, true);
	return i < st->count ? i : oldest(st, false);
}

/* Take what is too much off the list. @return how many; they are in @p gone_out, to be freed */
static uint32_t take_too_much(struct ctl_store *st, struct ctl_store_entry **gone_out)
{
	struct ctl_store_entry *gone = NULL;
	uint32_t n = 0, i;

	while ((i = next_to_go(st)) < st->count) {
		void *more = reallocarray(gone, n + 1, sizeof(*gone));

		if (!more)
			break; /* next time */
		gone = more;
		gone[n++] = st->entry[i];
		memmove(&st->entry[i], &st->entry[i + 1],
			(st->count - i - 1) * sizeof(st->entry[0]));
		st->count--;
	}
	*gone_out = gone;
	return n;
}

/* Bring index and folder up to date: an index that lists nothing that is not there comes first. */
static enum gs_code settle(struct ctl_store *st, struct gs_error *err)
{
	GS_FREE struct ctl_store_entry *gone = NULL;
	const uint32_t n = take_too_much(st, &gone);
	enum gs_code rc = ctl_store_index_write(st, err);

	for (uint32_t i = 0; i < n; i++)
		(void)unlinkat(st->folder, gone[i].name, 0); /* or the next one to open does it */
	st->removed += n;
	/* what has gone may have been the room that was missing */
	return rc && n ? ctl_store_index_write(st, err) : rc;
}

/* --- the store ----------------------------------------------------------------------------------
 */

enum gs_code ctl_store_create(const struct ctl_store_config *config, struct ctl_store **store_out,
			      struct gs_error *err)
{
	struct ctl_store *st = calloc(1, sizeof(*st));

	if (st)
		st->path = strdup(config->path);
	if (!st || !st->path) {
		free(st);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	st->config = *config;
	st->config.path = NULL; /* the caller's */
	if (!st->config.write)
		st->config.write = gs_file_write_atomic;
	st->folder = -1;
	*store_out = st;
	return GS_OK;
}

void ctl_store_destroy(struct ctl_store *st)
{
	if (!st)
		return;
	if (st->folder >= 0)
		close(st->folder);
	free(st->entry);
	free(st->path);
	free(st);
}

/* A lock of the open folder itself needs no file, and ends with the process. */
static enum gs_code lock_folder(struct ctl_store *st, struct gs_error *err)
{
	if (mkdir(st->path, 0700) && errno != EEXIST) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "make %s", st->path);
	}
	GS_CLOSE int fd = open(st->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open %s", st->path);
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int e = errno;
		return e == EWOULDBLOCK
			       ? gs_fail(err, GS_EBUSY,
					 "%s: captures are written there by another schedule",
					 st->path)
			       : gs_fail_errno(err, gs_code_of_errno(e), e, "lock %s", st->path);
	}
	st->folder = GS_TAKE_FD(fd);
	return GS_OK;
}

static void let_go(struct ctl_store *st)
{
	close(st->folder);
	st->folder = -1;
	st->count = 0;
}

enum gs_code ctl_store_open(struct ctl_store *st, struct gs_error *err)
{
	bool differs = false;

	if (st->folder >= 0)
		return GS_OK;
	enum gs_code rc = lock_folder(st, err);
	if (rc)
		return rc;
	rc = ctl_store_load(st, &differs, err);
	/* it is also found out so whether anything can be written here */
	if (!rc && (differs || access(st->path, W_OK) || !st->count))
		rc = settle(st, err);
	if (rc)
		let_go(st);
	else if (st->count)
		(void)ctl_store_name_parse(st->entry[st->count - 1].name, &st->last_us,
					   &(uint32_t){ 0 }, &(bool){ false });
	return rc;
}

/* Whether the folder is still the one that was opened: it may have been removed, or moved away. */
static bool is_in_place(const struct ctl_store *st)
{
	struct stat here, there;

	return !fstat(st->folder, &here) && !stat(st->path, &there) &&
	       here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

enum gs_code ctl_store_ready(struct ctl_store *st, struct gs_error *err)
{
	if (st->folder >= 0 && !is_in_place(st))
		let_go(st);
	enum gs_code rc = ctl_store_open(st, err);
	if (rc || !st->lost)
		return rc;
	GS_FREE uint8_t *zeros = calloc(1, st->lost);
	if (!zeros)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	rc = ctl_store_write(st, PROBE_NAME, zeros, st->lost, err);
	if (!rc)
		(void)unlinkat(st->folder, PROBE_NAME, 0); /* the next probe replaces it */
	return rc;
}

static struct ctl_store_entry describe(const struct ctl_store *st,
				       const struct ctl_store_item *item, uint64_t *name_us_out)
{
	const struct ss_result *r = item->numbers;
	struct ctl_store_entry e = {
		.is_delta = item->since_ns != 0,
		.reason = item->reason,
		.taken_us = item->taken_us ? item->taken_us : gs_clock_wall_us(),
		.start_ns = r->start_ns,
		.since_ns = item->since_ns,
		.bytes = r->size,
		.has_numbers = true,
		.complete = r->complete,
		.tasks = r->tasks,
		.threads = r->threads,
		.stopped_ns = r->stopped_ns,
	};

	/* names go up although the clock may be set back */
	*name_us_out = gs_max(e.taken_us, st->last_us + 1);
	ctl_store_name(*name_us_out, item->reason, e.is_delta, e.name);
	ctl_store_find_base(st, st->count, &e);
	return e;
}

static enum gs_code put(struct ctl_store *st, const struct ctl_store_item *item, bool *is_there_out,
			struct gs_error *err)
{
	uint64_t name_us;
	const struct ctl_store_entry e = describe(st, item, &name_us);

	if (item->since_ns && !*e.base)
		return gs_fail(err, GS_ENOENT,
			       "%s: the full capture that this delta follows is not there",
			       st->path);
	enum gs_code rc = ctl_store_write(st, e.name, item->data, item->size, err);
	if (rc)
		return rc;
	st->last_us = name_us;
	if (ctl_store_add(st, &e)) {
		(void)unlinkat(st->folder, e.name, 0); /* or the next one to open finds it */
		return gs_fail(err, GS_ENOSPC, "out of memory for the list of captures");
	}
	*is_there_out = true;
	if (!e.is_delta && is_scheduled(&e))
		st->base_ns = e.start_ns;
	return settle(st, err);
}

enum gs_code ctl_store_put(struct ctl_store *st, const struct ctl_store_item *item,
			   bool *is_there_out, struct gs_error *err)
{
	enum gs_code rc = ctl_store_open(st, err);

	*is_there_out = false;
	if (!rc)
		rc = put(st, item, is_there_out, err);
	st->lost = rc ? item->size : 0;
	return rc;
}

void ctl_store_stats_get(const struct ctl_store *st, struct ctl_store_stats *stats_out)
{
	*stats_out = (struct ctl_store_stats){ .captures = st->count, .removed = st->removed };
	for (uint32_t i = 0; i < st->count; i++)
		stats_out->bytes += st->entry[i].bytes;
	if (st->count)
		memcpy(stats_out->last, st->entry[st->count - 1].name, sizeof(stats_out->last));
}

const struct ctl_store_entry *ctl_store_list(const struct ctl_store *st, uint32_t *count_out)
{
	*count_out = st->count;
	return st->entry;
}
