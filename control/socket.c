/* SPDX-License-Identifier: Apache-2.0 */
/* The listening Unix socket: made with narrow rights, owned by one process, removed by it. */
#include "control/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/util.h"

/* Times the lock file may be replaced under us before we give up. */
#define SOCKET_LOCK_TRIES 16
#define SOCKET_BACKLOG	  16

static const struct ctl_socket socket_none = { .fd = -1, .lock_fd = -1 };

static bool is_same_file(int fd, const char *path)
{
	struct stat a, b;

	return !fstat(fd, &a) && !lstat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum gs_code lock_take(const char *path, const char *lock_path, int *fd_out,
			      struct gs_error *err)
{
	for (int i = 0; i < SOCKET_LOCK_TRIES; i++) {
		GS_CLOSE int fd = open(lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0) {
			int e = errno;
			return gs_fail_errno(err, gs_code_of_errno(e), e, "open %s", lock_path);
		}
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			int e = errno;
			if (e == EWOULDBLOCK)
				return gs_fail(err, GS_EBUSY,
					       "%s is served by another guestshot already", path);
			return gs_fail_errno(err, GS_ESYS, e, "lock %s", lock_path);
		}
		/* The owner before us takes the file away at its end: ours must be the one in
		 * place. */
		if (is_same_file(fd, lock_path)) {
			*fd_out = GS_TAKE_FD(fd);
			return GS_OK;
		}
	}
	return gs_fail(err, GS_EBUSY, "%s keeps changing", lock_path);
}

/* Somebody may listen there without our lock: another program. */
static bool is_answering(const struct sockaddr_un *addr)
{
	GS_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* EAGAIN: its queue of connections is full; not knowing counts as answering */
	return fd < 0 || !connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ||
	       errno != ECONNREFUSED;
}

static enum gs_code stale_remove(const struct sockaddr_un *addr, struct gs_error *err)
{
	struct stat st;

	if (lstat(addr->sun_path, &st)) {
		int e = errno;
		return e == ENOENT
			       ? GS_OK
			       : gs_fail_errno(err, gs_code_of_errno(e), e, "%s", addr->sun_path);
	}
	if (!S_ISSOCK(st.st_mode))
		return gs_fail(err, GS_EINVAL,
			       "%s exists and is no socket: remove it or choose another path",
			       addr->sun_path);
	if (is_answering(addr))
		return gs_fail(err, GS_EBUSY, "%s is served by another program already",
			       addr->sun_path);
	if (unlink(addr->sun_path)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "remove the stale socket %s",
				     addr->sun_path);
	}
	return GS_OK;
}

static enum gs_code bind_and_listen(struct ctl_socket *s, const struct sockaddr_un *addr,
				    struct gs_error *err)
{
	struct stat st;

	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->fd < 0) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "create a socket");
	}
	/*
	 * The name gets the socket's own mode & ~umask (unix_bind(), Linux 5.10 … 6.12), so it is
	 * never wider than this, not even for a moment. A umask can only have narrowed it.
	 */
	if (fchmod(s->fd, 0600) || bind(s->fd, (const struct sockaddr *)addr, sizeof(*addr))) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "bind %s", addr->sun_path);
	}
	if (lstat(addr->sun_path, &st)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "%s", addr->sun_path);
	}
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	if (((st.st_mode & 0777) != 0600 && chmod(addr->sun_path, 0600)) ||
	    listen(s->fd, SOCKET_BACKLOG)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "listen on %s", addr->sun_path);
	}
	return GS_OK;
}

enum gs_code ctl_socket_listen(const char *path, struct ctl_socket *socket_out,
			       struct gs_error *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct ctl_socket s = socket_none;

	if (!*path)
		return gs_fail(err, GS_EINVAL, "control socket: empty path");
	if (strlen(path) >= sizeof(addr.sun_path))
		return gs_fail(err, GS_EINVAL,
			       "control socket: path has %zu bytes, a socket's may have %zu: "
			       "choose a shorter one",
			       strlen(path), sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	s.path = strdup(path);
	if (!s.path || asprintf(&s.lock_path, "%s.lock", path) < 0) {
		free(s.path);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	enum gs_code rc = lock_take(path, s.lock_path, &s.lock_fd, err);
	if (!rc)
		rc = stale_remove(&addr, err);
	if (!rc)
		rc = bind_and_listen(&s, &addr, err);
	if (rc) {
		ctl_socket_close(&s);
		return gs_wrap(err, rc, "control socket");
	}
	*socket_out = s;
	return GS_OK;
}

void ctl_socket_unlink(const struct ctl_socket *s)
{
	struct stat st;

	/* Somebody may have put something else there; what is not ours stays. */
	if (s->ino && !lstat(s->path, &st) && st.st_dev == s->dev && st.st_ino == s->ino)
		(void)unlink(s->path); /* nobody is left to tell */
	if (s->lock_fd >= 0)
		(void)unlink(s->lock_path);
}

void ctl_socket_close(struct ctl_socket *s)
{
	ctl_socket_unlink(s);
	if (s->fd >= 0)
		close(s->fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd); /* last: the lock covers the removal */
	free(s->path);
	free(s->lock_path);
	*s = socket_none;
}

enum gs_code ctl_socket_check_peer(int fd, struct gs_error *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || len != sizeof(peer)) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "ask who connects");
	}
	if (peer.uid != 0 && peer.uid != geteuid())
		return gs_fail(err, GS_EDENIED, "user %u may not control this guest", peer.uid);
	return GS_OK;
}
