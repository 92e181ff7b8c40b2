/* SPDX-License-Identifier: Apache-2.0 */
/* Which profiles a guest's kernel may be read with: the one that is named, or those of a folder. */
#include "cli/profiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"

/* Beside bin, where make install puts them. */
#define INSTALLED "share/guestshot/guest-profiles"

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/*
 * The folder that belongs to this program, wherever it is installed. The current folder is not looked
 * into: a dump may be looked at in one where others can write. @return NULL: there is none
 */
static char *installed_folder(void)
{
	GS_FREE char *program = realpath("/proc/self/exe", NULL);
	char *path;

	if (!program)
		return NULL;
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(program, '/');

		if (!slash)
			return NULL;
		*slash = '\0';
	}
	if (asprintf(&path, "%s/" INSTALLED, program) < 0)
		return NULL;
	if (is_folder(path))
		return path;
	free(path);
	return NULL;
}

enum gs_code cli_profiles_open(const char *name, struct cli_profiles *profiles_out,
			       struct lnx_hints *hints_out, struct gs_error *err)
{
	struct cli_profiles p = { 0 };

	if (!name) {
		p.folder = installed_folder();
	} else if (is_folder(name)) {
		p.folder = strdup(name);
		if (!p.folder)
			return gs_fail(err, GS_ENOSPC, "out of memory");
	} else {
		enum gs_code rc = lnx_profile_open(name, &p.profile, err);

		if (rc)
			return rc;
	}
	hints_out->profile = p.profile;
	hints_out->profiles = p.folder;
	*profiles_out = p;
	return GS_OK;
}

void cli_profiles_close(struct cli_profiles *p)
{
	lnx_profile_destroy(p->profile);
	free(p->folder);
	*p = (struct cli_profiles){ 0 };
}
