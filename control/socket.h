/* SPDX-License-Identifier: Apache-2.0 */
/* The listening Unix socket: made with narrow rights, owned by one process, removed by it. */
#ifndef CONTROL_SOCKET_H
#define CONTROL_SOCKET_H

#include <sys/types.h>

#include "base/error.h"

/** A bound, listening socket and the lock that makes it ours. */
struct ctl_socket {
	int fd;	     /* listening, non-blocking; -1: none */
	int lock_fd; /* holds the lock on PATH.lock */
	char *path;
	char *lock_path;
	dev_t dev; /* what we bound, so that only that is removed */
	ino_t ino;
};

/**
 * Listen on @p path, mode 0600 whatever the umask.
 *
 * Of two processes only one gets the lock on PATH.lock; a socket that is left over from a process
 * that died is replaced, one that answers is not, and nothing else at @p path is ever removed.
 *
 * @param socket_out close with ctl_socket_close()
 * @return GS_OK; GS_EBUSY: another process serves it; GS_EINVAL: path too long, or something else
 *         is there; GS_ENOENT: no such folder; GS_EDENIED; GS_ESYS
 */
GS_MUST_USE enum gs_code ctl_socket_listen(const char *path, struct ctl_socket *socket_out,
					   struct gs_error *err);

/** Take the names away; for an exit that closes nothing. Async-signal-safe. */
void ctl_socket_unlink(const struct ctl_socket *s);

/** Take the names away, close, free; safe on one that is closed already. */
void ctl_socket_close(struct ctl_socket *s);

/**
 * Whether the process at the other end may talk to us: the same user or root.
 *
 * @return GS_OK; GS_EDENIED; GS_ESYS
 */
GS_MUST_USE enum gs_code ctl_socket_check_peer(int fd, struct gs_error *err);

#endif
