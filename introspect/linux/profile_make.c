/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made of type information in whatever form it comes. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/linux/finder.h"
#include "introspect/linux/layouts.h"
#include "introspect/linux/reference.h"

/* --- what a profile has, by the tables of types.c --- */

static json_t *place_of(const struct lnx_field *f)
{
	return json_pack("{s:I, s:I}", "offset", (json_int_t)f->offset, "size",
			 (json_int_t)f->size);
}

/* json_object_set_new() takes the value in any case, NULL included: then it fails. */
static bool put(json_t *object, const char *key, json_t *value)
{
	return !json_object_set_new(object, key, value);
}

/* The object of a structure's members, made when it is first needed. */
static json_t *members_in(const struct lnx_layouts *l, json_t *structs, const char *in)
{
	json_t *have = json_object_get(structs, in);
	uint32_t size;

	// NOLINTNEXTLINE(clang-analyzer-core.NullDereference): whoever opens layouts sets ops
	if (!have && l->ops->size(l->priv, in, &size)) {
		have = json_pack("{s:I, s:{}}", "size", (json_int_t)size, "members");
		if (!put(structs, in, have))
			return NULL;
	}
	return json_object_get(have, "members");
}

static bool put_members(const struct lnx_layouts *l, json_t *structs)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		char path[LNX_NAME_SIZE];
		struct lnx_field field;

		if (!lnx_layouts_member(l, (enum lnx_member)m, path, &field))
			continue;
		json_t *members = members_in(l, structs, lnx_member_name((enum lnx_member)m).in);
		if (members && !put(members, path, place_of(&field)))
			return false;
	}
	/* that there is one is all that counts */
	uint32_t size;
	return !l->ops->size(l->priv, LNX_FRAME_RECORD_META, &size) ||
	       put(structs, LNX_FRAME_RECORD_META, json_pack("{s:I}", "size", (json_int_t)size));
}

static bool put_percpu(const struct lnx_layouts *l, json_t *percpu)
{
	for (size_t p = 0; p < LNX_PERCPUS; p++) {
		const char *name = lnx_percpu_name((enum lnx_percpu)p);
		struct lnx_field field;

		if (l->ops->percpu(l->priv, name, &field) && !put(percpu, name, place_of(&field)))
			return false;
	}
	return true;
}

static bool put_counters(const struct lnx_layouts *l, bool of_nodes, json_t *values)
{
	for (size_t c = 0; c < LNX_COUNTERS; c++) {
		char name[LNX_NAME_SIZE];
		uint32_t value;

		if (lnx_layouts_counter(l, of_nodes, (enum lnx_counter)c, name, &value) &&
		    !put(values, name, json_integer(value)))
			return false;
	}
	return true;
}

/* What kernel it is of. A banner that is no UTF-8 cannot be said in JSON. */
static bool put_origin(const struct lnx_layouts *l, json_t *root)
{
	char id[LNX_BUILD_ID * 2 + 1];
	json_t *banner = *l->banner ? json_string(l->banner) : NULL;

	if (banner && !put(root, "banner", banner))
		return false;
	for (size_t i = 0; i < LNX_BUILD_ID; i++)
		snprintf(id + 2 * i, 3, "%02x", l->build_id[i]);
	return !l->has_build_id || put(root, "build-id", json_string(id));
}

static json_t *profile_of(const struct lnx_layouts *l)
{
	json_t *root = json_pack("{s:i}", "guestshot-profile", LNX_PROFILE_VERSION);
	json_t *structs = json_object(), *percpu = json_object();
	json_t *zone = json_object(), *node = json_object();
	bool ok = root && structs && percpu && zone && node && put_origin(l, root) &&
		  put_members(l, structs) && put_percpu(l, percpu) &&
		  put_counters(l, false, zone) && put_counters(l, true, node);
	json_t *enums =
		ok ? json_pack("{s:O, s:O}", LNX_ZONE_ENUM, zone, LNX_NODE_ENUM, node) : NULL;

	ok = enums && put(root, "structs", json_incref(structs)) &&
	     put(root, "percpu", json_incref(percpu)) && put(root, "enums", json_incref(enums));
	json_decref(structs);
	json_decref(percpu);
	json_decref(zone);
	json_decref(node);
	json_decref(enums);
	if (ok)
		return root;
	json_decref(root);
	return NULL;
}

/* --- an image, with BTF --- */

static bool is_of_vdso(size_t note, const void *arg)
{
	const uint8_t *image = arg;

	return !memcmp(image + (note & ~(size_t)4095), ELFMAG, SELFMAG);
}

void lnx_banner_find(const uint8_t *bytes, size_t size, char *banner_out)
{
	const uint8_t *p = bytes, *end = bytes + size;

	for (; end - p >= LNX_BANNER_MAX; p++) {
		p = memchr(p, 'L', (size_t)(end - p));
		if (!p || end - p < LNX_BANNER_MAX)
			return;
		if (lnx_is_banner((const char *)p)) {
			lnx_banner_take((const char *)p, LNX_BANNER_MAX, banner_out);
			return;
		}
	}
}

static void describe(const struct lnx_reference *image, struct lnx_layouts *l)
{
	lnx_build_id_look(image->image, image->size, is_of_vdso, image->image, l->build_id);
	l->has_build_id = lnx_is_build_id(l->build_id);
	lnx_banner_find(image->image, image->size, l->banner);
}

/* The first that has the structure without which nothing goes; else what the last one lacked. */
static enum gs_code open_btf(const struct lnx_reference *image, struct lnx_layouts *l,
			     struct gs_error *err)
{
	enum gs_code rc = gs_fail(err, GS_ENOENT, "has no type information: neither DWARF nor BTF");
	size_t at = 0, blob;
	uint32_t size;

	for (uint32_t tried = 0; tried < LNX_BTF_TRIES_MAX; tried++, at += 4) {
		at = lnx_image_next_btf(image->image, image->size, at, &blob);
		if (at == image->size)
			break;
		rc = lnx_layouts_open_btf(image->image + at, blob, l, err);
		if (rc == GS_ENOSPC || (!rc && l->ops->size(l->priv, "task_struct", &size)))
			break;
		lnx_layouts_close(l);
		if (!rc)
			rc = gs_fail(err, GS_ENOENT, "has type information without task_struct");
	}
	return rc;
}

static enum gs_code open_image(int fd, uint64_t size, struct lnx_layouts *l, struct gs_error *err)
{
	struct lnx_reference *image = calloc(1, sizeof(*image));

	if (!image)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = lnx_image_load(fd, size, image, err);
	if (!rc)
		rc = open_btf(image, l, err);
	if (!rc)
		describe(image, l);
	lnx_reference_destroy(image);
	return rc;
}

/* --- a symbol file --- */

static enum gs_code open_symbol_file(int fd, uint64_t size, struct lnx_layouts *l,
				     struct gs_error *err)
{
	if (size > LNX_INPUT_MAX)
		return gs_fail(err, GS_ETOOBIG, "is larger than any symbol file (over %d MiB)",
			       (int)(LNX_INPUT_MAX >> 20));
	GS_FREE char *text = malloc((size_t)size);
	if (!text)
		return gs_fail(err, GS_ENOSPC, "out of memory for %zu bytes", (size_t)size);
	size_t have = 0;
	while (have < size) {
		ssize_t n = pread(fd, text + have, (size_t)size - have, (off_t)have);

		if (n < 0)
			return gs_fail_errno(err, gs_code_of_errno(errno), errno, "cannot be read");
		if (!n)
			break; /* it was made shorter */
		have += (size_t)n;
	}
	return lnx_layouts_open_symbol_file(text, have, l, err);
}

/* --- any of them --- */

static enum gs_code open_input(int fd, uint64_t size, struct lnx_layouts *l, struct gs_error *err)
{
	static const char xz[] = "\xfd"
				 "7zXZ";
	char magic[64] = { 0 };

	if (pread(fd, magic, sizeof(magic) - 1, 0) < 0)
		return gs_fail_errno(err, gs_code_of_errno(errno), errno, "cannot be read");
	if (!memcmp(magic, xz, sizeof(xz)))
		return gs_fail(err, GS_ENOTSUP, "is compressed with xz: unpack it first (xz -dk)");
	if (magic[strspn(magic, " \t\r\n")] == '{')
		return open_symbol_file(fd, size, l, err);
	/* DWARF tells more than BTF, which lacks places of per-CPU variables up to 5.10 */
	if (!memcmp(magic, ELFMAG, SELFMAG)) {
		enum gs_code rc = lnx_layouts_open_dwarf(fd, l, err);

		if (rc != GS_ENOENT)
			return rc;
	}
	return open_image(fd, size, l, err);
}

static enum gs_code write_text(const struct lnx_layouts *l, char **text_out, struct gs_error *err)
{
	GS_FREE struct lnx_types *types = calloc(1, sizeof(*types)); /* too large for a stack */
	json_t *root = types ? profile_of(l) : NULL;

	if (!root)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	/* what its reader would not take is not written */
	enum gs_code rc = lnx_profile_take(root, types, err);
	if (!rc) {
		*text_out = json_dumps(root, JSON_INDENT(2));
		rc = *text_out ? GS_OK : gs_fail(err, GS_ENOSPC, "out of memory");
	}
	json_decref(root);
	return rc;
}

enum gs_code lnx_profile_make(const char *path, char **text_out, struct gs_error *err)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct lnx_layouts l = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return gs_fail_errno(err, gs_code_of_errno(errno), errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return gs_fail(err, GS_EMALFORMED, "%s: not a regular file", path);
	enum gs_code rc = open_input(fd, (uint64_t)st.st_size, &l, err);
	if (!rc)
		rc = write_text(&l, text_out, err);
	lnx_layouts_close(&l);
	return rc ? gs_wrap(err, rc, "%s", path) : GS_OK;
}
