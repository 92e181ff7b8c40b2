/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a whole file so that nobody ever sees half of it. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/**
 * Write a file under a temporary name in the same folder, sync it and rename it to @p path.
 *
 * A regular file at @p path is replaced, as late as possible. Anything else there is refused and
 * stays: a symbolic link would lead somewhere else, and renaming over a device would destroy it.
 * On failure @p path is as it was and the temporary file is gone. Signals that end a process wait
 * until then, so that an interrupt leaves nothing behind either.
 *
 * @param path   where to; its folder must exist
 * @param data   borrowed, @p len bytes
 * @param mode   exact permission bits, whatever the umask
 * @param err    may be NULL; filled unless GS_OK
 * @return GS_OK; GS_ENOENT: no such folder; GS_EDENIED: also read-only file systems; GS_ENOSPC:
 * disk or quota full, file size limit; GS_EINVAL: @p path is something that is not replaced;
 *         GS_ESYS: others
 * Threads: any; blocks for the disk.
 */
GS_MUST_USE enum gs_code gs_file_write_atomic(const char *path, const void *data, size_t len,
					      mode_t mode, struct gs_error *err);

#define GS_FILE_TEMP_MAX 48

/** A file that is being written under a temporary name. Zeroed: none. */
struct gs_new_file {
	int fd; /* open for writing, empty */
	int folder;
	const char *base;	     /* name to be, in the folder; points into the caller's path */
	char temp[GS_FILE_TEMP_MAX]; /* "": none */
};

/**
 * Begin to write a file under a temporary name in the folder of @p path; what of gs_file_write_atomic()
 * holds, but for signals: one that ends the process in between leaves the temporary file behind.
 *
 * @param path   borrowed until the commit or discard
 * @param f_out  end with gs_new_file_commit() or gs_new_file_discard()
 */
GS_MUST_USE enum gs_code gs_new_file_create(const char *path, struct gs_new_file *f_out,
					    struct gs_error *err);

/** Sync it and give it its name. Closes it in any case; after a failure it is gone. */
GS_MUST_USE enum gs_code gs_new_file_commit(struct gs_new_file *f, mode_t mode,
					    struct gs_error *err);

/** Remove it. Safe on a zeroed one, and twice. */
void gs_new_file_discard(struct gs_new_file *f);

/**
 * Write all bytes to a descriptor, whatever the pieces the kernel takes them in.
 *
 * @return GS_OK; GS_ENOSPC; GS_EDENIED; GS_ESYS: others, a reader that has gone included. How much
 *         was written before a failure is not told.
 * Threads: any; blocks, also on a descriptor that is non-blocking.
 */
GS_MUST_USE enum gs_code gs_file_write_all(int fd, const void *data, size_t len,
					   struct gs_error *err);

/** The code that says what a caller can do about @p sys_errno of a file operation. */
enum gs_code gs_code_of_errno(int sys_errno);

#endif
