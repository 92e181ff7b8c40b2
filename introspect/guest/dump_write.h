/* SPDX-License-Identifier: Apache-2.0 */
/* Writing any guest as an ELF core, for crash, drgn and guest_source_open_dump(). */
#ifndef INTROSPECT_GUEST_DUMP_WRITE_H
#define INTROSPECT_GUEST_DUMP_WRITE_H

/*
 *	if (!guest_stop(g, &err)) {
 *		rc = guest_dump_write(g, fd, &(struct guest_dump_write_options){
 *			.vmcoreinfo = text, .vmcoreinfo_size = size }, &written, &err);
 *		guest_resume(g, NULL);
 *	}
 *
 * The file, like that of QEMU's dump-guest-memory:
 *
 *	0      ELF header (ET_CORE, EM_AARCH64)
 *	64     program headers: PT_NOTE, one PT_LOAD a RAM range, one for the image (the same bytes)
 *	…      notes: "CORE" NT_PRSTATUS of each vCPU in order (zeros when nothing is known of it),
 *	       "GUESTSHOT" 0x47530001 with its system registers, "VMCOREINFO" 0
 *	4 KiB… memory of each range, from a page boundary on; holes where it was never written, or
 *	       is zero, or cannot be read
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

struct guest_dump_write_options {
	const char *vmcoreinfo; /* borrowed; NULL: no such note. crash and drgn need it */
	size_t vmcoreinfo_size; /* without a NUL */
	/** Of the kernel's linear map: virtual minus physical address, for p_vaddr. 0: not known */
	uint64_t linear_offset;
	/**
	 * Where the kernel's image lies, as /proc/vmcore says it in a PT_LOAD of its own, so that
	 * readers that go by virtual addresses find its page directory. Size 0: not known.
	 */
	gpa_t image;
	uint64_t image_size;
	uint64_t image_offset; /* virtual minus physical address in it */
	/** Called now and then with bytes of RAM done and in all. @return false: stop */
	bool (*progress)(uint64_t done, uint64_t total, void *arg);
	void *arg;
};

struct guest_dump_written {
	uint64_t file_size;  /* holes included */
	uint64_t data;	     /* bytes of memory that were written */
	uint64_t unreadable; /* bytes of RAM that could not be read: they are zeros in the file */
};

/**
 * Write a guest's registers and memory.
 *
 * @param g            stopped by the caller
 * @param fd           an empty regular file, open for writing; stays open, not synced: write to a
 *                     temporary name and rename it when this succeeded
 * @param options      may be NULL
 * @param written_out  may be NULL; filled also when unreadable is not 0, which is success
 * @return GS_OK; GS_EINVAL: not a regular file; GS_ENOSPC: disk full, or out of memory;
 *         GS_ETIMEDOUT: progress said stop; GS_ESYS: others. The file is then a part.
 * Threads: any that may read the guest. Needs about 1 MiB.
 */
GS_MUST_USE enum gs_code guest_dump_write(struct guest *g, int fd,
					  const struct guest_dump_write_options *options,
					  struct guest_dump_written *written_out,
					  struct gs_error *err);

#endif
