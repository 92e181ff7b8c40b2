/* SPDX-License-Identifier: Apache-2.0 */
/* Which profiles a guest's kernel may be read with: the one that is named, or those of a folder. */
#ifndef CLI_PROFILES_H
#define CLI_PROFILES_H

#include "base/error.h"
#include "introspect/linux/linux.h"

/** Zeroed: none. */
struct cli_profiles {
	struct lnx_profile *profile; /* NULL: none was named */
	char *folder;		     /* to look for one in; NULL: there is none */
};

/**
 * Take what --profile says: a file, or a folder of them.
 *
 * @param name       NULL: the folder that is installed with the program, if it is
 * @param hints_out  its profile and profiles are set; they live until cli_profiles_close()
 * @return as lnx_profile_open()
 */
GS_MUST_USE enum gs_code cli_profiles_open(const char *name, struct cli_profiles *profiles_out,
					   struct lnx_hints *hints_out, struct gs_error *err);

/** Safe on a zeroed one, and twice. */
void cli_profiles_close(struct cli_profiles *p);

#endif
