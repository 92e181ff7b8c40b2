/* SPDX-License-Identifier: Apache-2.0 */
/* Which profile of a folder is made for a kernel. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"
#include "introspect/linux/kernel.h"
#include "introspect/linux/reference.h"

struct choice {
	const char *folder;
	const struct lnx_kernel *k;
	struct lnx_profile *best; /* NULL: none yet */
	enum lnx_profile_match best_match;
	uint32_t files, unreadable;
	struct gs_error why; /* of the first unreadable one */
};

static bool has_suffix(const char *name, const char *suffix)
{
	const size_t len = strlen(name), n = strlen(suffix);

	return len > n && !strcmp(name + len - n, suffix);
}

/* A match by build id counts more than one by banner; of equals the first name. */
static bool is_better(const struct choice *c, const struct lnx_profile *profile,
		      enum lnx_profile_match match)
{
	if (match != LNX_PROFILE_SAME_BANNER && match != LNX_PROFILE_SAME_BUILD_ID)
		return false;
	if (!c->best || match != c->best_match)
		return !c->best || match > c->best_match;
	return strcmp(profile->name, c->best->name) < 0;
}

static enum gs_code look_at(struct choice *c, int folder, const char *file)
{
	char name[LNX_PROFILE_NAME];
	struct lnx_profile *profile;
	struct gs_error err = { 0 };

	snprintf(name, sizeof(name), "%s/%s", c->folder, file);
	enum gs_code rc = lnx_profile_read(openat(folder, file, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
					   name, &profile, &err);
	c->files++;
	if (rc) {
		/* one bad file costs that file */
		if (!c->unreadable++)
			c->why = err;
		return rc == GS_ENOSPC ? rc : GS_OK;
	}
	const enum lnx_profile_match match = lnx_profile_match(profile, c->k);
	if (is_better(c, profile, match)) {
		lnx_profile_destroy(c->best);
		c->best = profile;
		c->best_match = match;
	} else {
		lnx_profile_destroy(profile);
	}
	return GS_OK;
}

static enum gs_code look_at_all(struct choice *c, DIR *dir)
{
	const struct dirent *e;
	enum gs_code rc = GS_OK;

	while (!rc && c->files < LNX_PROFILES_MAX && (e = readdir(dir)))
		if (has_suffix(e->d_name, ".json") && *e->d_name != '.')
			rc = look_at(c, dirfd(dir), e->d_name);
	return rc;
}

#define WHAT_TO_DO \
	"give its vmlinux (--vmlinux), or make a profile of that (guestshot profile make)"

static enum gs_code say_none(const struct choice *c, struct gs_error *err)
{
	if (!c->unreadable)
		return gs_fail(err, GS_ENOENT,
			       "of the %" PRIu32 " profiles in %s none is made for it: " WHAT_TO_DO,
			       c->files, c->folder);
	return gs_fail(err, GS_ENOENT,
		       "of the %" PRIu32 " profiles in %s none is made for it: " WHAT_TO_DO
		       "; %" PRIu32 " cannot be read: %s",
		       c->files, c->folder, c->unreadable, c->why.text);
}

enum gs_code lnx_profile_choose(const char *folder, const struct lnx_kernel *k,
				struct lnx_profile **profile_out, struct gs_error *err)
{
	struct choice c = { .folder = folder, .k = k };
	DIR *dir = opendir(folder);

	if (!dir)
		return gs_fail_errno(err, gs_code_of_errno(errno), errno, "folder of profiles %s",
				     folder);
	enum gs_code rc = look_at_all(&c, dir);
	closedir(dir);
	if (rc) {
		lnx_profile_destroy(c.best);
		return gs_fail(err, rc, "%s", c.why.text);
	}
	if (!c.best)
		return say_none(&c, err);
	*profile_out = c.best;
	return GS_OK;
}
