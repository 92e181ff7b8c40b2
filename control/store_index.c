/* SPDX-License-Identifier: Apache-2.0 */
/* The index of a folder of captures, and what is in the folder: written, read, made anew. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "control/protocol.h"
#include "control/store_priv.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

#define INDEX_SCHEMA 1
/* Some 400 bytes for each of what may be kept. */
#define INDEX_MAX (16u << 20)
/* What a capture says of itself stands in its head, which is far smaller. */
#define HEAD_MAX (256u << 10)
/* Names of files that a process which was killed did not finish: gs_file_write_atomic(). */
#define TEMP_PREFIX ".guestshot-"
#define TEMP_SUFFIX ".tmp"

/* --- writing ------------------------------------------------------------------------------------
 */

static json_t *entry_object(const struct ctl_store_entry *e)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "file", e->name, "reason",
			      ss_reason_name(e->reason), "form", e->is_delta ? "delta" : "full",
			      "base", *e->base ? json_string(e->base) : json_null(), "taken_us",
			      ctl_json_number(e->taken_us), "time_ns", ctl_json_number(e->start_ns),
			      "bytes", ctl_json_number(e->bytes));

	if (o && e->is_delta && json_object_set_new(o, "since_ns", ctl_json_number(e->since_ns)))
		goto fail;
	if (o && e->has_numbers &&
	    json_object_update_new(
		    o, json_pack("{s:b, s:o, s:o, s:o}", "complete", (int)e->complete, "tasks",
				 ctl_json_number(e->tasks), "threads", ctl_json_number(e->threads),
				 "stopped_ns", ctl_json_number(e->stopped_ns))))
		goto fail;
	return o;
fail:
	json_decref(o);
	return NULL;
}

/* One line for each capture. @return false: out of memory */
static bool print_index(const struct ctl_store *st, FILE *to)
{
	fprintf(to, "{\"schema\": %d, \"captures\": [", INDEX_SCHEMA);
	for (uint32_t i = 0; i < st->count; i++) {
		json_t *o = entry_object(&st->entry[i]);
		const bool ok = o && fputs(i ? ",\n" : "\n", to) >= 0 &&
				!json_dumpf(o, to, JSON_ENSURE_ASCII);

		json_decref(o);
		if (!ok)
			return false;
	}
	fputs("\n]}\n", to);
	return !ferror(to);
}

enum gs_code ctl_store_index_write(struct ctl_store *st, struct gs_error *err)
{
	GS_FREE char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return gs_fail(err, GS_ENOSPC, "out of memory for the index");
	bool ok = print_index(st, f);
	if (fclose(f) || !ok)
		return gs_fail(err, GS_ENOSPC, "out of memory for the index");
	return ctl_store_write(st, CTL_STORE_INDEX, text, size, err);
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* The first bytes of a regular file. @return NULL: there is none, or it cannot be read, or no memory */
static char *read_file(int folder, const char *name, size_t max, size_t *len_out,
		       uint64_t *size_out)
{
	GS_CLOSE int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return NULL;
	const size_t want = gs_min((uint64_t)st.st_size, max);
	GS_FREE char *data = malloc(want + 1);
	size_t len = 0;
	ssize_t n;
	while (data && len < want && (n = read(fd, data + len, want - len)) > 0)
		len += (size_t)n;
	*len_out = len;
	*size_out = (uint64_t)st.st_size;
	return GS_TAKE(data);
}

static uint64_t member(const json_t *o, const char *name)
{
	const json_int_t n = json_integer_value(json_object_get(o, name));

	return n > 0 ? (uint64_t)n : 0;
}

static void take_numbers(const json_t *o, struct ctl_store_entry *e)
{
	e->complete = json_is_true(json_object_get(o, "complete"));
	e->tasks = (uint32_t)member(o, "tasks");
	e->threads = (uint32_t)member(o, "threads");
	e->stopped_ns = member(o, "stopped_ns");
	e->has_numbers = json_is_boolean(json_object_get(o, "complete"));
}

/* What the index says of a file by this name. @return whether it does */
static bool take_member(const json_t *o, struct ctl_store_entry *e)
{
	const char *name = json_string_value(json_object_get(o, "file"));
	const char *base = json_string_value(json_object_get(o, "base"));
	uint64_t time_us;

	if (!name || strlen(name) >= sizeof(e->name) ||
	    !ctl_store_name_parse(name, &time_us, &e->reason, &e->is_delta))
		return false;
	snprintf(e->name, sizeof(e->name), "%s", name);
	if (base && strlen(base) < sizeof(e->base))
		snprintf(e->base, sizeof(e->base), "%s", base);
	e->taken_us = member(o, "taken_us");
	e->start_ns = member(o, "time_ns");
	e->since_ns = member(o, "since_ns");
	e->bytes = member(o, "bytes");
	take_numbers(o, e);
	return true;
}

/* What it lists, by name. NULL: there is no index, or none that can be read */
static json_t *read_index(const struct ctl_store *st)
{
	size_t len = 0;
	uint64_t size = 0;
	GS_FREE char *text = read_file(st->folder, CTL_STORE_INDEX, INDEX_MAX, &len, &size);
	json_t *root = text ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
	json_t *list = json_object_get(root, "captures"), *named = NULL, *o;
	size_t i;

	if (json_is_array(list) && member(root, "schema") == INDEX_SCHEMA)
		named = json_object();
	json_array_foreach(list, i, o)
	{
		const char *name = json_string_value(json_object_get(o, "file"));

		/* one that cannot be kept is one that is read from the capture again */
		if (named && name)
			(void)json_object_set(named, name, o);
	}
	json_decref(root);
	return named;
}

static void take_item(const struct kcd_item *it, struct ctl_store_entry *e)
{
	struct ss_reason_record r = { 0 };

	if (it->type == KCD_TYPE_MACH_ABSOLUTE_TIME) {
		kcd_item_copy(it, &e->start_ns, sizeof(e->start_ns));
	} else if (it->type == KCD_SS_DELTA_SINCE_TIMESTAMP) {
		kcd_item_copy(it, &e->since_ns, sizeof(e->since_ns));
	} else if (it->type == KCD_TYPE_USECS_SINCE_EPOCH) {
		kcd_item_copy(it, &e->taken_us, sizeof(e->taken_us));
	} else if (it->type == SS_RECORD_REASON) {
		kcd_item_copy(it, &r, sizeof(r));
		if (ss_reason_name(r.reason))
			e->reason = r.reason;
	}
}

/* A capture that the index does not have says itself what it is. @return false: it is none */
static bool read_capture(const struct ctl_store *st, struct ctl_store_entry *e)
{
	size_t len = 0;
	GS_FREE char *head = read_file(st->folder, e->name, HEAD_MAX, &len, &e->bytes);
	struct kcd_reader r;
	struct kcd_item it;

	if (!head || kcd_reader_init(&r, head, len, KCD_TOLERANT, NULL))
		return false;
	while (!kcd_reader_next(&r, &it) && it.kind != KCD_ITEM_CONTAINER_BEGIN)
		if (it.kind == KCD_ITEM_RECORD)
			take_item(&it, e);
	return true;
}

/* --- the folder ---------------------------------------------------------------------------------
 */

static bool is_temporary(const char *name)
{
	const size_t len = strlen(name), tail = sizeof(TEMP_SUFFIX) - 1;

	return !strncmp(name, TEMP_PREFIX, sizeof(TEMP_PREFIX) - 1) && len > tail &&
	       !strcmp(name + len - tail, TEMP_SUFFIX);
}

/* @param listed_out  the index has it, and rightly */
static enum gs_code take_file(struct ctl_store *st, const json_t *index, const char *name,
			      bool *listed_out)
{
	struct ctl_store_entry e = { 0 };
	struct stat file;
	uint64_t time_us;

	if (is_temporary(name))
		(void)unlinkat(st->folder, name, 0); /* what cannot be removed does no harm */
	if (strlen(name) >= sizeof(e.name) ||
	    !ctl_store_name_parse(name, &time_us, &e.reason, &e.is_delta) ||
	    fstatat(st->folder, name, &file, AT_SYMLINK_NOFOLLOW) || !S_ISREG(file.st_mode))
		return GS_OK;
	*listed_out =
		take_member(json_object_get(index, name), &e) && e.bytes == (uint64_t)file.st_size;
	if (*listed_out)
		return ctl_store_add(st, &e);
	e = (struct ctl_store_entry){ .reason = e.reason,
				      .is_delta = e.is_delta,
				      .taken_us = time_us };
	snprintf(e.name, sizeof(e.name), "%s", name);
	return read_capture(st, &e) ? ctl_store_add(st, &e) : GS_OK;
}

static int compare_entries(const void *a, const void *b)
{
	return strcmp(((const struct ctl_store_entry *)a)->name,
		      ((const struct ctl_store_entry *)b)->name);
}

void ctl_store_find_base(const struct ctl_store *st, uint32_t count, struct ctl_store_entry *e)
{
	while (e->since_ns && !*e->base && count-- > 0) {
		const struct ctl_store_entry *b = &st->entry[count];

		if (!b->is_delta && b->start_ns == e->since_ns)
			memcpy(e->base, b->name, sizeof(e->base));
	}
}

static enum gs_code take_folder(struct ctl_store *st, DIR *d, const json_t *index,
				uint32_t *listed_out)
{
	const struct dirent *file;

	*listed_out = 0;
	while ((file = readdir(d))) {
		bool listed = false;
		const enum gs_code rc = take_file(st, index, file->d_name, &listed);

		*listed_out += listed;
		if (rc)
			return rc;
	}
	return GS_OK;
}

enum gs_code ctl_store_load(struct ctl_store *st, bool *differs_out, struct gs_error *err)
{
	const int fd = openat(st->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	uint32_t listed = 0;

	if (!d) {
		int e = errno;
		if (fd >= 0)
			close(fd);
		return gs_fail_errno(err, gs_code_of_errno(e), e, "read %s", st->path);
	}
	json_t *index = read_index(st);
	st->count = 0;
	enum gs_code rc = take_folder(st, d, index, &listed);
	*differs_out = !index || listed != st->count || listed != json_object_size(index);
	if (!index && st->count)
		gs_log(GS_LOG_WARNING,
		       "%s: no readable " CTL_STORE_INDEX ": made anew from %" PRIu32 " captures",
		       st->path, st->count);
	json_decref(index);
	closedir(d);
	if (rc)
		return gs_fail(err, rc, "%s: %s", st->path,
			       rc == GS_ETOOBIG
				       ? "more captures than may be kept: use another folder"
				       : "out of memory");
	if (st->count)
		qsort(st->entry, st->count, sizeof(st->entry[0]), compare_entries);
	for (uint32_t i = 0; i < st->count; i++)
		ctl_store_find_base(st, i, &st->entry[i]);
	return GS_OK;
}
