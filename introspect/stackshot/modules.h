/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in kernel modules and BPF programs: which one, which function. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_MODULES_H
#define INTROSPECT_STACKSHOT_MODULES_H

/*
 * Nothing of modules is read while the guest stands still: a hundred of them are some thousand cache
 * lines. Their list is read before the stop, and the symbol tables of those that frames lie in after it.
 * What was read is believed only if the module is then on the list as it was before the stop, by a look
 * that comes after all others: so it was there all the time, the frame's function is one of its, and no
 * page of it had been given to others when its names were read. A module that was loaded or unloaded in
 * that time names nothing. BPF programs are read in the same way, as modules of one function each.
 */

#include "introspect/stackshot/capture.h"

/** Parts of modules, and BPF programs, that frames lie in. */
struct ss_modules {
	struct ss_module_record *record;
	uint32_t count;
};

/** Read the list of modules, before the stop; there are none without a kernel. */
void ss_modules_expect(struct ss_engine *e);

/**
 * Find modules and functions of addresses, with the guest running again.
 *
 * @param address  n, ascending
 * @param out      zeroed; to be deinitialised also after a failure
 * @param add      gets each function once, and @p arg; false: out of memory
 * @return false: out of memory
 */
GS_MUST_USE bool ss_modules_name(const struct ss_engine *e, const uint64_t *address, size_t n,
				 struct ss_modules *out,
				 bool (*add)(void *arg, const struct lnx_symbol *symbol),
				 void *arg);
void ss_modules_deinit(struct ss_modules *modules);

#endif
