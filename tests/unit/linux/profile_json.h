/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles made from the types of a made-up kernel, to be taken apart. */
#ifndef TESTS_UNIT_LINUX_PROFILE_JSON_H
#define TESTS_UNIT_LINUX_PROFILE_JSON_H

#include <jansson.h>

#include "introspect/linux/reference.h"
#include "tests/unit/linux/typeinfo.h"

/** What is read of a made-up kernel's BTF. */
void types_of(const struct typeinfo_form *form, struct lnx_types *types_out);

/** The name of a member; of two the older one with @p old. */
void member_name(enum lnx_member m, bool old, char *name, size_t size);

/** All of @p types as a profile. Returned: end with json_decref(). */
json_t *profile_of(const struct lnx_types *types, bool old);

/** ... of the made-up kernel without further options. */
json_t *good_profile(void);

json_t *struct_in(json_t *root, const char *name);
json_t *members_in(json_t *root, const char *name);

/** Open a profile with these bytes. Checks that a failure's text names the file. */
enum gs_code profile_open_text(const char *text, size_t size, struct lnx_profile **profile_out,
			       struct gs_error *err);
enum gs_code profile_open_json(const json_t *root, struct lnx_profile **profile_out,
			       struct gs_error *err);

#endif
