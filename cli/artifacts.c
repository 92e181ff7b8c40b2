/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that keeps what a run has left: console, captures, how it went. */
#include "cli/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/util.h"

/* Of a folder of captures: docs/schedules.md. */
#define INDEX "index.json"

static char *path_of(const struct cli_artifacts *a, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", a->path, name) < 0 ? NULL : path;
}

enum gs_code cli_artifacts_open(struct cli_artifacts *a, const char *path, struct gs_error *err)
{
	if (mkdir(path, 0700) && errno != EEXIST) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "make the folder %s", path);
	}
	GS_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open the folder %s", path);
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int e = errno;
		return e == EWOULDBLOCK
			       ? gs_fail(err, GS_EBUSY, "%s: another guestshot run writes there",
					 path)
			       : gs_fail_errno(err, GS_ESYS, e, "lock the folder %s", path);
	}
	a->path = path;
	a->folder = GS_TAKE_FD(fd);
	return GS_OK;
}

enum gs_code cli_artifacts_remove_old(const char *path, struct gs_error *err)
{
	struct stat st;

	if (!lstat(path, &st) && !S_ISREG(st.st_mode))
		return gs_fail(err, GS_EINVAL, "%s: not a regular file: it is not replaced", path);
	if (unlink(path) && errno != ENOENT) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "remove the old %s", path);
	}
	return GS_OK;
}

enum gs_code cli_artifacts_begin(struct cli_artifacts *a, struct gs_error *err)
{
	static const char *const names[] = { CLI_ARTIFACTS_TEXT, CLI_ARTIFACTS_JSON,
					     CLI_ARTIFACTS_JUNIT, CLI_ARTIFACTS_CONSOLE };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		GS_FREE char *path = path_of(a, names[i]);

		if (!path)
			return gs_fail(err, GS_ENOSPC, "out of memory");
		enum gs_code rc = cli_artifacts_remove_old(path, err);
		if (rc)
			return rc;
	}
	a->console = openat(a->folder, CLI_ARTIFACTS_CONSOLE,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (a->console < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "make %s/" CLI_ARTIFACTS_CONSOLE,
				     a->path);
	}
	return GS_OK;
}

/* The first one counts: what follows has the same reason, a full disk mostly. */
static void say_failure(struct cli_artifacts *a, const char *what, const char *why)
{
	const char *colon = *what ? ": " : "";

	/* relaxed: two threads are not to say it twice, and nothing hangs on it */
	if (!atomic_exchange_explicit(&a->said, true, memory_order_relaxed))
		gs_log(GS_LOG_ERROR, "%s%s%s (it goes on; what else fails is not said)", what,
		       colon, why);
}

/* @return how much of it was written */
static size_t write_some(struct cli_artifacts *a, const char *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const ssize_t n = write(a->console, bytes + done, len - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			say_failure(a, CLI_ARTIFACTS_CONSOLE, strerror(errno));
			break;
		}
		done += (size_t)n;
	}
	return done;
}

/* Where bytes are missing, once there is room again for a line that says so. */
static void tell_lost(struct cli_artifacts *a)
{
	char line[96];
	const int n =
		snprintf(line, sizeof(line),
			 "\n[guestshot: %" PRIu64 " bytes could not be written here]\n", a->lost);

	if (write_some(a, line, (size_t)n) == (size_t)n)
		a->lost = 0;
}

void cli_artifacts_console(struct cli_artifacts *a, const char *bytes, size_t len)
{
	if (a->console < 0)
		return;
	if (a->lost)
		tell_lost(a);
	a->lost += len - (a->lost ? 0 : write_some(a, bytes, len));
}

bool cli_artifacts_write(struct cli_artifacts *a, const char *path, const void *data, size_t len)
{
	struct gs_error err = { 0 };

	if (!gs_file_write_atomic(path, data, len, 0600, &err))
		return true;
	say_failure(a, "", err.text); /* which names it */
	return false;
}

bool cli_artifacts_put(struct cli_artifacts *a, const char *name, const void *data, size_t len)
{
	GS_FREE char *path = path_of(a, name);

	if (path)
		return cli_artifacts_write(a, path, data, len);
	say_failure(a, name, "out of memory");
	return false;
}

bool cli_artifacts_close(struct cli_artifacts *a)
{
	if (a->console >= 0 && a->lost)
		tell_lost(a);
	if (a->console >= 0 && fsync(a->console))
		say_failure(a, CLI_ARTIFACTS_CONSOLE, strerror(errno));
	if (a->console >= 0)
		close(a->console);
	if (a->folder >= 0)
		close(a->folder); /* and the lock goes */
	a->folder = a->console = -1;
	return !atomic_load_explicit(&a->said, memory_order_relaxed);
}

char *cli_artifacts_find_capture(const char *dir, uint64_t time_ns)
{
	GS_FREE char *index = NULL;
	char *path = NULL;
	size_t i;
	json_t *entry;

	if (asprintf(&index, "%s/" INDEX, dir) < 0) {
		index = NULL;
		return NULL;
	}
	json_t *root = json_load_file(index, JSON_REJECT_DUPLICATES, NULL);
	json_array_foreach(json_object_get(root, "captures"), i, entry)
	{
		const char *file = json_string_value(json_object_get(entry, "file"));
		const json_int_t at = json_integer_value(json_object_get(entry, "time_ns"));

		if (!file || strchr(file, '/') || at <= 0 || (uint64_t)at != time_ns)
			continue;
		if (asprintf(&path, "%s/%s", dir, file) < 0)
			path = NULL;
		break;
	}
	json_decref(root);
	return path;
}
