/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of types.c ask for, taken from type information of any form. */
#include "introspect/linux/layouts.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

/* The next of names that '|' separates. @return false: there is no more */
static bool next_name(const char **names, char name_out[static LNX_NAME_SIZE])
{
	const char *name;
	size_t n;

	if (!lnx_next_name(names, &name, &n) || n >= LNX_NAME_SIZE)
		return false;
	memcpy(name_out, name, n);
	name_out[n] = '\0';
	return true;
}

bool lnx_layouts_member(const struct lnx_layouts *l, enum lnx_member m,
			char path_out[static LNX_NAME_SIZE], struct lnx_field *field_out)
{
	const struct lnx_member_name name = lnx_member_name(m);
	const char *paths = name.path;

	while (next_name(&paths, path_out))
		if (l->ops->member(l->priv, name.in, path_out, field_out))
			return true;
	return false;
}

bool lnx_layouts_counter(const struct lnx_layouts *l, bool of_nodes, enum lnx_counter c,
			 char name_out[static LNX_NAME_SIZE], uint32_t *index_out)
{
	const char *names = lnx_counter_name(c);

	while (next_name(&names, name_out))
		if (l->ops->enumerator(l->priv, of_nodes ? LNX_NODE_ENUM : LNX_ZONE_ENUM, name_out,
				       index_out))
			return true;
	return false;
}

static void read_counters(const struct lnx_layouts *l, bool of_nodes, struct lnx_types *types)
{
	char name[LNX_NAME_SIZE];
	uint32_t index;

	for (size_t c = 0; c < LNX_COUNTERS; c++)
		if (lnx_layouts_counter(l, of_nodes, (enum lnx_counter)c, name, &index))
			types->counter[c] = (struct lnx_element){ true, of_nodes, index };
}

static enum gs_code read_members(const struct lnx_layouts *l, struct lnx_types *types,
				 struct gs_error *err)
{
	char path[LNX_NAME_SIZE];
	uint32_t size;

	for (size_t m = 0; m < LNX_MEMBERS; m++) {
		const struct lnx_member_name name = lnx_member_name((enum lnx_member)m);

		if (!lnx_layouts_member(l, (enum lnx_member)m, path, &types->member[m]) &&
		    name.needed)
			return gs_fail(err, GS_ENOENT, "the kernel's type information lacks %s.%s",
				       name.in, name.path);
	}
	if (!l->ops->size(l->priv, "task_struct", &types->task_size) ||
	    !l->ops->size(l->priv, "pt_regs", &types->pt_regs_size))
		return gs_fail(err, GS_ENOENT,
			       "the kernel's type information lacks the size of task_struct or "
			       "pt_regs");
	types->has_frame_record_meta = l->ops->size(l->priv, LNX_FRAME_RECORD_META, &size);
	return GS_OK;
}

enum gs_code lnx_layouts_read(const struct lnx_layouts *l, struct lnx_types *types_out,
			      struct gs_error *err)
{
	GS_FREE struct lnx_types *types = calloc(1, sizeof(*types)); /* too large for a stack */

	if (!types)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = read_members(l, types, err);
	if (rc)
		return rc;
	for (size_t p = 0; p < LNX_PERCPUS; p++)
		(void)l->ops->percpu(l->priv, lnx_percpu_name((enum lnx_percpu)p),
				     &types->percpu[p]); /* absent is not present */
	/* those that are in both are elements of nodes */
	read_counters(l, false, types);
	read_counters(l, true, types);
	*types_out = *types;
	return GS_OK;
}
