/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a dump: opened for reading only, mapped where that works, never trusted to stay. */
#ifndef INTROSPECT_GUEST_DUMP_FILE_H
#define INTROSPECT_GUEST_DUMP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct guest_dump_resident;

struct guest_dump_file {
	int fd;
	uint64_t size;	 /* when it was opened; what is appended later is not seen */
	const void *map; /* all of it; NULL: it could not be mapped, read() serves */
	struct guest_dump_resident *resident; /* what of the mapping is in memory, about */
};

/**
 * Open a dump.
 *
 * @return GS_OK; GS_ENOENT, GS_EDENIED, GS_ESYS: the system's answer; GS_EINVAL: a folder, a device
 *         or a pipe; GS_ENOTSUP: the host's own memory (/proc/kcore), which is never read;
 *         GS_EMALFORMED: empty
 */
GS_MUST_USE enum gs_code guest_dump_file_open(const char *path, struct guest_dump_file *file_out,
					      struct gs_error *err);

/** Take over a descriptor of a regular file. */
GS_MUST_USE enum gs_code guest_dump_file_adopt(int fd, struct guest_dump_file *file_out,
					       struct gs_error *err);

/** Safe on a zeroed one: its descriptor counts only with a size. */
void guest_dump_file_close(struct guest_dump_file *f);

/** Map it, if that is possible. */
void guest_dump_file_map(struct guest_dump_file *f);

/**
 * Copy bytes of the file.
 *
 * @return GS_OK; GS_EFAULT: beyond its size, cut off by now, or a read error of the disk
 * Threads: any. Allocates nothing; legal while the guest is stopped.
 */
GS_MUST_USE enum gs_code guest_dump_file_read(const struct guest_dump_file *f, uint64_t offset,
					      void *buf, size_t len);

/** The first stretch of [from, end) that is not a hole of the file. @return false: all is one */
bool guest_dump_file_next_data(const struct guest_dump_file *f, uint64_t from, uint64_t end,
			       uint64_t *start_out, uint64_t *end_out);

#endif
