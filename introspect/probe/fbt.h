/* SPDX-License-Identifier: Apache-2.0 */
/* The provider fbt: entry and return of every function of the guest's kernel. */
#ifndef INTROSPECT_PROBE_FBT_H
#define INTROSPECT_PROBE_FBT_H

/*
 * Probes are fbt:vmlinux:FUNCTION:entry and :return, and fbt:MODULE:FUNCTION:… of modules, made when
 * somebody asks for what matches them. Of several functions of one name in one module it is the one with
 * the lowest address.
 *
 *	entry	arg0 to arg7 are x0 to x7
 *	return	arg0 is how far into the function it returns, arg1 is x0. A call of another function in
 *		tail position is a return: that one goes back to the caller in its place
 *
 * They fire on the vCPU's thread, before the instruction is executed, whichever vCPU comes there.
 */

#include "base/error.h"
#include "introspect/guest/guest.h"
#include "introspect/linux/linux.h"
#include "introspect/probe/provider.h"

struct probe_fbt;

/**
 * Add the provider to an engine.
 *
 * @param e, g     borrowed for the provider's life
 * @param fbt_out  free with probe_fbt_destroy(), before the engine is
 * @return GS_OK; GS_ENOTSUP: the guest takes no breakpoints; GS_ENOSPC; as probe_provider_add()
 */
GS_MUST_USE enum gs_code probe_fbt_create(struct probe_engine *e, struct guest *g,
					  struct probe_fbt **fbt_out, struct gs_error *err);

/**
 * The guest's kernel was found, or is another one; borrowed until the next call. Probes of the one
 * before fire no more, until somebody asks for what matches them in this one. NULL: there is none.
 */
void probe_fbt_kernel_set(struct probe_fbt *fbt, const struct lnx_kernel *k);

/** Takes all breakpoints away. No session has probes of it enabled. NULL is fine. */
void probe_fbt_destroy(struct probe_fbt *fbt);

#endif
