/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libkdumpfile, apart so that a test can look for one that is not there. */
#ifndef INTROSPECT_GUEST_DUMP_KDUMP_H
#define INTROSPECT_GUEST_DUMP_KDUMP_H

#include "base/error.h"
#include "introspect/guest/kdump_abi.h"

/**
 * @param soname      KDUMP_ABI_SONAME
 * @param handle_out  for dlclose()
 * @return GS_OK; GS_ENOTSUP: not installed, or not one we know; the text names the package
 */
GS_MUST_USE enum gs_code guest_dump_kdump_load(const char *soname, void **handle_out,
					       struct kdump_abi *abi_out, struct gs_error *err);

#endif
