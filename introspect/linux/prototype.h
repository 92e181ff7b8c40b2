/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's kernel says of its functions' parameters. */
#ifndef INTROSPECT_LINUX_PROTOTYPE_H
#define INTROSPECT_LINUX_PROTOTYPE_H

#include <stdint.h>

#include "introspect/linux/linux.h"

struct lnx_prototypes;

#define LNX_PROTOTYPE_TYPE   128 /* bytes of a type's text, NUL included; longer ones end in "..." */
#define LNX_PROTOTYPE_NAME   64
#define LNX_PROTOTYPE_RETURN UINT32_MAX

/** Of a parameter; printable ASCII only. */
struct lnx_parameter {
	char type[LNX_PROTOTYPE_TYPE]; /* "struct file *"; of a function pointer "function *" */
	char name
		[LNX_PROTOTYPE_NAME]; /* "" if it is not known, or of what is returned; may be cut */
};

/**
 * Read the types out of the guest's memory again; some 10 MiB, as long as they are open.
 *
 * @param prototypes_out free with lnx_prototypes_close()
 * @return GS_OK; GS_ENOENT: the kernel has no types in memory; GS_EFAULT, GS_EMALFORMED: they are gone
 *         or broken; GS_ENOSPC
 * Threads: one at a time for each. The guest may be running.
 */
GS_MUST_USE enum gs_code lnx_prototypes_open(const struct lnx_kernel *k, const struct guest *g,
					     struct lnx_prototypes **prototypes_out,
					     struct gs_error *err);
void lnx_prototypes_close(struct lnx_prototypes *p);

/**
 * Parameter @p n of a function of the kernel image, from 0, or LNX_PROTOTYPE_RETURN.
 *
 * @return GS_OK; GS_ENOENT: no types of that function (they lack static functions that are called
 *         differently than they are declared, and modules'), or it has fewer parameters
 */
GS_MUST_USE enum gs_code lnx_prototype_parameter(const struct lnx_prototypes *p,
						 const char *function, uint32_t n,
						 struct lnx_parameter *parameter_out);

#endif
