/* SPDX-License-Identifier: Apache-2.0 */
/* Copying out of a file mapping that somebody may cut short meanwhile. */
#ifndef INTROSPECT_GUEST_DUMP_GUARD_H
#define INTROSPECT_GUEST_DUMP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Get ready for guest_guard_copy(): installs a handler for SIGBUS, once a process, for good. Faults
 * that are not ours go on to the handler that was there before.
 */
void guest_guard_install(void);

/**
 * Copy from a mapping. A page that has gone (the file was cut) or cannot be read from disk raises
 * SIGBUS; here it ends the copy instead of the process.
 *
 * @param src  in a mapping; guest_guard_install() was called after it was made, or before
 * @return false: not all could be read; what comes before in @p dst may be overwritten
 * Threads: any; unblocks SIGBUS in the calling one, since a fault kills who blocks it. Allocates
 * nothing; legal while the guest is stopped.
 */
bool guest_guard_copy(void *dst, const void *src, size_t len);

#endif
