/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions of a kernel or a module, and where each of them is. */
#ifndef INTROSPECT_PROBE_FBT_NAMES_H
#define INTROSPECT_PROBE_FBT_NAMES_H

#include "base/error.h"
#include "introspect/linux/functions.h"
#include "introspect/linux/linux.h"

struct probe_function {
	struct lnx_text text;
	struct lnx_text cold; /* what the compiler has put elsewhere of it; size 0: nothing */
	size_t name;	      /* where in the pool */
};

/*
 * Ascending by name, each name once: of several functions of one name it is the one with the lowest
 * address. What is part of another one is none of its own.
 */
struct probe_names {
	struct probe_function *list;
	uint32_t count;
	char *pool;
	size_t used, room; /* of the pool */
	uint32_t list_room;
};

static inline const char *probe_names_at(const struct probe_names *names, uint32_t i)
{
	return names->pool + names->list[i].name;
}

/**
 * All functions of the kernel's image; takes some ten milliseconds.
 *
 * @param names_out  probe_names_deinit(), also after a failure
 * @return GS_OK; GS_ENOSPC
 */
GS_MUST_USE enum gs_code probe_names_of_kernel(const struct lnx_kernel *k,
					       struct probe_names *names_out);

/**
 * The functions of a module that stay after its start. Names that do not fit into a probe's are left out.
 *
 * @param v  made for this
 * @return as probe_names_of_kernel(), or of lnx_module_symbols_read()
 */
GS_MUST_USE enum gs_code probe_names_of_module(struct lnx_view *v, const struct lnx_module *m,
					       struct probe_names *names_out);

/** Which one has a name. @return its index; that of none: count */
uint32_t probe_names_find(const struct probe_names *names, const char *name);

void probe_names_deinit(struct probe_names *names);

#endif
