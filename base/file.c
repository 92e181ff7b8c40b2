/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a whole file so that nobody ever sees half of it. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

/* Random names tried before giving up; more than one is needed only when somebody plants files. */
#define FILE_NAME_TRIES 16

enum gs_code gs_code_of_errno(int sys_errno)
{
	switch (sys_errno) {
	case 0: return GS_OK;
	case ENOENT:
	case ENOTDIR: return GS_ENOENT;
	case EACCES:
	case EPERM:
	case EROFS: return GS_EDENIED;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case ENOMEM:
	case EMFILE:
	case ENFILE: return GS_ENOSPC;
	case EISDIR:
	case ENAMETOOLONG:
	case ELOOP: return GS_EINVAL;
	default: return GS_ESYS;
	}
}

enum gs_code gs_file_write_all(int fd, const void *data, size_t len, struct gs_error *err)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };
			(void)poll(&p, 1, -1); /* the next write tells what is wrong, if anything */
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int e = errno;
			return gs_fail_errno(err, gs_code_of_errno(e), e, "write");
		}
		at += n;
		len -= (size_t)n;
	}
	return GS_OK;
}

/* The folder of @p path, opened; *base_out points at the name inside of it. */
static enum gs_code folder_open(const char *path, const char **base_out, int *fd_out,
				struct gs_error *err)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	GS_FREE char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	if (!folder)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	if (!*base)
		return gs_fail(err, GS_EINVAL, "no file name");
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open its folder");
	}
	*base_out = base;
	*fd_out = fd;
	return GS_OK;
}

/* Only a regular file, or nothing, may give way to the new one. */
static enum gs_code target_check(int folder, const char *base, struct gs_error *err)
{
	struct stat st;

	// NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): set wherever folder_open() is GS_OK
	if (fstatat(folder, base, &st, AT_SYMLINK_NOFOLLOW)) {
		int e = errno;
		return e == ENOENT ? GS_OK
				   : gs_fail_errno(err, gs_code_of_errno(e), e, "look at it");
	}
	if (S_ISREG(st.st_mode))
		return GS_OK;
	return gs_fail(err, GS_EINVAL, "is %s, which is not replaced: name a regular file",
		       S_ISLNK(st.st_mode)   ? "a symbolic link"
		       : S_ISDIR(st.st_mode) ? "a folder"
					     : "not a regular file");
}

static enum gs_code temp_create(int folder, char name_out[static GS_FILE_TEMP_MAX], int *fd_out,
				struct gs_error *err)
{
	int e = EEXIST;

	for (int i = 0; i < FILE_NAME_TRIES && e == EEXIST; i++) {
		uint64_t random;

		if (getrandom(&random, sizeof(random), 0) != sizeof(random))
			return gs_fail(err, GS_ESYS, "no random numbers for a temporary name");
		snprintf(name_out, GS_FILE_TEMP_MAX, ".guestshot-%016" PRIx64 ".tmp", random);
		int fd = openat(folder, name_out,
				O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0) {
			*fd_out = fd;
			return GS_OK;
		}
		e = errno;
	}
	return gs_fail_errno(err, gs_code_of_errno(e), e, "create a temporary file beside it");
}

static enum gs_code temp_settle(int fd, mode_t mode, struct gs_error *err)
{
	if (fchmod(fd, mode)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "set its mode");
	}
	if (fsync(fd)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "sync");
	}
	return GS_OK;
}

/* The name is durable only when its folder is; a file system that cannot sync one is no failure. */
static void folder_sync(int folder)
{
	GS_CLOSE int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		(void)fsync(fd);
}

static enum gs_code create(const char *path, struct gs_new_file *f, struct gs_error *err)
{
	enum gs_code rc = folder_open(path, &f->base, &f->folder, err);

	if (rc)
		return rc;
	rc = target_check(f->folder, f->base, err); /* before the work, and again before rename */
	if (!rc)
		rc = temp_create(f->folder, f->temp, &f->fd, err);
	if (rc)
		close(f->folder);
	return rc;
}

static enum gs_code commit(struct gs_new_file *f, mode_t mode, struct gs_error *err)
{
	enum gs_code rc = temp_settle(f->fd, mode, err);

	/* network file systems report a full disk here */
	if (close(f->fd) && !rc) {
		int e = errno;
		rc = gs_fail_errno(err, gs_code_of_errno(e), e, "close");
	}
	f->fd = -1;
	if (!rc)
		rc = target_check(f->folder, f->base, err);
	if (!rc && renameat(f->folder, f->temp, f->folder, f->base)) {
		int e = errno;
		rc = gs_fail_errno(err, gs_code_of_errno(e), e, "rename");
	}
	if (rc)
		return rc;
	folder_sync(f->folder);
	*f->temp = '\0'; /* nothing is left to remove */
	return GS_OK;
}

enum gs_code gs_new_file_create(const char *path, struct gs_new_file *f_out, struct gs_error *err)
{
	struct gs_new_file f = { .fd = -1, .folder = -1 };
	enum gs_code rc = create(path, &f, err);

	if (rc)
		return gs_wrap(err, rc, "%s", path);
	*f_out = f;
	return GS_OK;
}

enum gs_code gs_new_file_commit(struct gs_new_file *f, mode_t mode, struct gs_error *err)
{
	enum gs_code rc = commit(f, mode, err);

	if (rc)
		rc = gs_wrap(err, rc, "%s", f->base);
	gs_new_file_discard(f);
	return rc;
}

void gs_new_file_discard(struct gs_new_file *f)
{
	if (!f->base)
		return;
	if (*f->temp)
		(void)unlinkat(f->folder, f->temp, 0); /* the failure before it is what counts */
	if (f->fd >= 0)
		close(f->fd);
	close(f->folder);
	*f = (struct gs_new_file){ 0 };
}

static enum gs_code write_whole(const char *path, const void *data, size_t len, mode_t mode,
				struct gs_error *err)
{
	struct gs_new_file f = { .fd = -1, .folder = -1 };
	enum gs_code rc = create(path, &f, err);

	if (rc)
		return rc;
	rc = gs_file_write_all(f.fd, data, len, err);
	if (!rc)
		rc = commit(&f, mode, err);
	gs_new_file_discard(&f);
	return rc;
}

enum gs_code gs_file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
				  struct gs_error *err)
{
	sigset_t block, old;

	sigemptyset(&block);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGHUP);
	sigaddset(&block, SIGQUIT);
	pthread_sigmask(SIG_BLOCK, &block, &old);
	enum gs_code rc = write_whole(path, data, len, mode, err);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc ? gs_wrap(err, rc, "%s", path) : GS_OK;
}
