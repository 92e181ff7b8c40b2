/* SPDX-License-Identifier: Apache-2.0 */
/* A process of ours that outlives us, to let a guest go. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_CHILD_H
#define INTROSPECT_GUEST_QEMU_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/**
 * Fork a process that is not hit by what ends us: it has its own session (a terminal's signals and
 * kill -PGID go to ours), all signals blocked, "/" as its folder, and no descriptor but @p fd_a as
 * 0 and @p fd_b as 1, so that it keeps nobody's pipe open. Only what ends both hits both: kill -9
 * of either by its number, or of a whole control group.
 *
 * @param fd_a, fd_b  borrowed; @p fd_b may be -1
 * @param name        as ps shows it, up to 15 bytes
 * @param pid_out     0 in the child, which never returns into the caller's caller: it ends by
 *                    _exit(); else reap it with guest_child_reap()
 * @return GS_OK; GS_ENOSPC
 * Threads: other threads may exist; the child may then use what fork(2) allows, and malloc(), which
 * the C library keeps usable.
 */
GS_MUST_USE enum gs_code guest_child_fork(int fd_a, int fd_b, const char *name, pid_t *pid_out,
					  struct gs_error *err);

/** Wait for its end, at most until @p deadline_ns. One that does not end by then is let be. */
void guest_child_reap(pid_t pid, uint64_t deadline_ns);

#endif
