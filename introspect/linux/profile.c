/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from a file, for kernels that carry no type information. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/linux/layouts.h"
#include "introspect/linux/reference.h"

/* A profile of all members that are looked at has some 6 KiB. */
#define PROFILE_SIZE_MAX (1 << 20)
#define STRUCT_SIZE_MAX	 (1 << 20)

static bool take_field(const json_t *place, uint32_t limit, struct lnx_field *out)
{
	json_int_t offset, size;

	if (json_unpack((json_t *)place, "{s:I, s:I}", "offset", &offset, "size", &size))
		return false;
	if (offset < 0 || size <= 0 || offset > limit || size > limit - offset)
		return false;
	*out = (struct lnx_field){ true, (uint32_t)offset, (uint32_t)size };
	return true;
}

static bool take_size(const json_t *structs, const char *name, uint32_t *size_out)
{
	json_int_t size =
		json_integer_value(json_object_get(json_object_get(structs, name), "size"));

	if (size <= 0 || size > STRUCT_SIZE_MAX)
		return false;
	*size_out = (uint32_t)size;
	return true;
}

/* Alternatives are separated by '|': the first that the profile has. */
static const json_t *find_member(const json_t *members, const char *path)
{
	const char *one;
	size_t len;

	while (lnx_next_name(&path, &one, &len)) {
		const json_t *place = json_object_getn(members, one, len);

		if (place)
			return place;
	}
	return NULL;
}

static enum gs_code take_members(const json_t *structs, struct lnx_types *types,
				 struct gs_error *err)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		struct lnx_member_name name = lnx_member_name((enum lnx_member)m);
		const json_t *in = json_object_get(structs, name.in);
		const json_t *place = find_member(json_object_get(in, "members"), name.path);
		uint32_t size;

		if (!place && name.needed)
			return gs_fail(err, GS_EMALFORMED, "lacks %s.%s", name.in, name.path);
		if (place && (!take_size(structs, name.in, &size) ||
			      !take_field(place, size, &types->member[m])))
			return gs_fail(err, GS_EMALFORMED,
				       "%s.%s is no {\"offset\", \"size\"} inside of its structure",
				       name.in, name.path);
	}
	if (!take_size(structs, "task_struct", &types->task_size) ||
	    !take_size(structs, "pt_regs", &types->pt_regs_size))
		return gs_fail(err, GS_EMALFORMED, "lacks the size of task_struct or pt_regs");
	types->has_frame_record_meta = json_object_get(structs, LNX_FRAME_RECORD_META) != NULL;
	return GS_OK;
}

static enum gs_code take_percpu(const json_t *percpu, struct lnx_types *types, struct gs_error *err)
{
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		const char *name = lnx_percpu_name((enum lnx_percpu)p);
		const json_t *place = json_object_get(percpu, name);

		if (place && !take_field(place, INT32_MAX, &types->percpu[p]))
			return gs_fail(err, GS_EMALFORMED,
				       "per-CPU %s is no {\"offset\", \"size\"}", name);
	}
	return GS_OK;
}

static enum gs_code take_counters(const json_t *enums, struct lnx_types *types,
				  struct gs_error *err)
{
	for (size_t c = 0; c < LNX_COUNTERS; c++) {
		const char *name = lnx_counter_name((enum lnx_counter)c);
		const json_t *zone = find_member(json_object_get(enums, LNX_ZONE_ENUM), name);
		const json_t *node = find_member(json_object_get(enums, LNX_NODE_ENUM), name);
		const json_t *value = node ? node : zone;

		if (!value)
			continue;
		json_int_t index = json_integer_value(value);
		if (!json_is_integer(value) || index < 0 || index >= LNX_ELEMENTS_MAX)
			return gs_fail(err, GS_EMALFORMED, "%s is no number from 0 to %d", name,
				       LNX_ELEMENTS_MAX - 1);
		types->counter[c] = (struct lnx_element){ true, node != NULL, (uint32_t)index };
	}
	return GS_OK;
}

enum gs_code lnx_profile_take(const json_t *root, struct lnx_types *types_out, struct gs_error *err)
{
	json_int_t version = json_integer_value(json_object_get(root, "guestshot-profile"));

	if (version != LNX_PROFILE_VERSION)
		return gs_fail(err, GS_EMALFORMED,
			       "is no profile of version %d (\"guestshot-profile\": %d)",
			       LNX_PROFILE_VERSION, LNX_PROFILE_VERSION);
	enum gs_code rc = take_members(json_object_get(root, "structs"), types_out, err);
	if (!rc)
		rc = take_percpu(json_object_get(root, "percpu"), types_out, err);
	return rc ? rc : take_counters(json_object_get(root, "enums"), types_out, err);
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* What kernel it is of: both are optional, but not nonsense. */
static enum gs_code take_origin(const json_t *root, struct lnx_profile *profile,
				struct gs_error *err)
{
	const json_t *banner = json_object_get(root, "banner");
	const json_t *id = json_object_get(root, "build-id");

	if (banner && (!json_is_string(banner) || json_string_length(banner) >= LNX_BANNER_MAX))
		return gs_fail(err, GS_EMALFORMED, "\"banner\" is no string of up to %d bytes",
			       LNX_BANNER_MAX - 1);
	if (banner)
		memcpy(profile->banner, json_string_value(banner), json_string_length(banner));
	if (!id)
		return GS_OK;
	for (size_t i = 0; i < LNX_BUILD_ID; i++) {
		const char *text =
			json_string_length(id) == LNX_BUILD_ID * 2 ? json_string_value(id) : "";
		const int high = hex_digit(text[0] ? text[2 * i] : 0);
		const int low = hex_digit(text[0] ? text[2 * i + 1] : 0);

		if (high < 0 || low < 0)
			return gs_fail(err, GS_EMALFORMED,
				       "\"build-id\" is no string of %d hexadecimal digits",
				       LNX_BUILD_ID * 2);
		profile->build_id[i] = (uint8_t)(high << 4 | low);
	}
	profile->has_build_id = true;
	return GS_OK;
}

/* Refuses what is no file of a profile's size, so that the parser does not have to. */
static enum gs_code load_file(int fd, const char *path, json_t **root_out, struct gs_error *err)
{
	struct stat st;
	json_error_t why;

	if (fd < 0)
		return gs_fail_errno(err, gs_code_of_errno(errno), errno, "profile %s", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > PROFILE_SIZE_MAX) {
		close(fd);
		return gs_fail(err, GS_EMALFORMED, "profile %s: not a file of up to %d KiB", path,
			       PROFILE_SIZE_MAX >> 10);
	}
	/* not json_loadfd(), which reads byte by byte */
	FILE *file = fdopen(fd, "r");
	if (!file) {
		close(fd);
		return gs_fail_errno(err, GS_ENOSPC, errno, "profile %s", path);
	}
	*root_out = json_loadf(file, JSON_REJECT_DUPLICATES, &why);
	fclose(file);
	if (!*root_out)
		return gs_fail(err, GS_EMALFORMED, "profile %s: line %d: %s", path, why.line,
			       why.text);
	return GS_OK;
}

enum gs_code lnx_profile_read(int fd, const char *name, struct lnx_profile **profile_out,
			      struct gs_error *err)
{
	json_t *root = NULL;
	enum gs_code rc = load_file(fd, name, &root, err);

	if (rc)
		return rc;
	struct lnx_profile *profile = calloc(1, sizeof(*profile));
	rc = profile ? lnx_profile_take(root, &profile->types, err)
		     : gs_fail(err, GS_ENOSPC, "out of memory");
	if (!rc)
		rc = take_origin(root, profile, err);
	json_decref(root);
	if (rc) {
		free(profile);
		return gs_wrap(err, rc, "profile %s", name);
	}
	snprintf(profile->name, sizeof(profile->name), "%s", name);
	*profile_out = profile;
	return GS_OK;
}

enum gs_code lnx_profile_open(const char *path, struct lnx_profile **profile_out,
			      struct gs_error *err)
{
	return lnx_profile_read(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), path, profile_out,
				err);
}

void lnx_profile_destroy(struct lnx_profile *profile)
{
	free(profile);
}
