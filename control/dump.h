/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's memory and registers as an ELF core, in a file. */
#ifndef CONTROL_DUMP_H
#define CONTROL_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"
#include "introspect/linux/linux.h"

struct ctl_dump_result {
	uint64_t file_size;  /* bytes, holes included */
	uint64_t data;	     /* bytes of memory that were written */
	uint64_t unreadable; /* bytes of RAM that could not be read: zeros in the file */
	uint64_t stopped_ns;
	bool vmcoreinfo; /* the kernel's text was found: crash and drgn need it */
};

/**
 * Stop a guest, write its memory and registers to a file, let it go on.
 *
 * @param hints     what is known of its kernel; the VMCOREINFO in it is taken as it is; may be NULL
 * @param path      as gs_file_write_atomic(), mode 0600
 * @param progress  called on the calling thread with bytes of RAM done and in all; returns whether to
 *                  go on; may be NULL
 * @return GS_OK, also with unreadable memory; GS_ETIMEDOUT: progress said stop, and there is no file;
 *         others of the guest's stop, or of the file
 * Threads: any that may stop the guest; the guest stands still until all is written.
 */
GS_MUST_USE enum gs_code ctl_dump_write(struct guest *g, const struct lnx_hints *hints,
					const char *path,
					bool (*progress)(uint64_t done, uint64_t total, void *arg),
					void *arg, struct ctl_dump_result *result_out,
					struct gs_error *err);

#endif
