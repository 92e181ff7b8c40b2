/* SPDX-License-Identifier: Apache-2.0 */
/* Another process's memory on this host, by way of /proc. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_PROC_H
#define INTROSPECT_GUEST_QEMU_PROC_H

/*
 * Nothing here knows QEMU. What another process's files in /proc say is checked before use: it may
 * be another process than we think.
 *
 * Threads: any.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/** What backs a stretch of a process's addresses. */
struct guest_proc_backing {
	bool shared_file;		 /* one file, mapped shared, without a gap */
	bool anonymous;			 /* no file anywhere: what was never touched is zero */
	uint64_t offset;		 /* in it, of the stretch's first byte */
	uint64_t first_start, first_end; /* of the first mapping of the stretch */
	dev_t dev;
	ino_t ino;
	char path[256]; /* as /proc/PID/maps has it; "" if longer */
};

/**
 * What backs [address, address + size) of a process.
 *
 * @return GS_OK; GS_EDENIED; GS_ENOENT: no such process; GS_EFAULT: not all of it is mapped
 */
GS_MUST_USE enum gs_code guest_proc_backing_find(pid_t pid, uint64_t address, uint64_t size,
						 struct guest_proc_backing *backing_out,
						 struct gs_error *err);

/**
 * Open the file that backs a stretch, for reading, by whichever way is open to us: the mapping
 * itself, its path, one of the process's descriptors.
 *
 * @return GS_OK; GS_EDENIED
 */
GS_MUST_USE enum gs_code guest_proc_backing_open(pid_t pid, const struct guest_proc_backing *b,
						 int *fd_out, struct gs_error *err);

/**
 * The next stretch of [from, end) of a process's anonymous memory that has ever been touched, from
 * its pagemap.
 *
 * @param pagemap_fd  /proc/PID/pagemap
 * @return false: there is none
 */
bool guest_proc_next_touched(int pagemap_fd, uint64_t from, uint64_t end, uint64_t *start_out,
			     uint64_t *end_out);

/** Why this process may not read that one's memory, and what to do; at most @p size bytes. */
void guest_proc_explain_denial(pid_t pid, char *text_out, size_t size);

/** The process on this host that was started with argument @p name followed by @p value; 0: none.
 */
pid_t guest_proc_find_by_argument(const char *name, const char *value);

#endif
