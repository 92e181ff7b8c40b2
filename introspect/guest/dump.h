/* SPDX-License-Identifier: Apache-2.0 */
/* What a dump can tell besides being a guest. */
#ifndef INTROSPECT_GUEST_DUMP_H
#define INTROSPECT_GUEST_DUMP_H

/*
 * Dumps are opened by guest_source_open_dump() (source.h):
 *
 *	struct guest_source s;
 *	if (!guest_source_open_dump(path, NULL, &s, &err)) {
 *		size_t size;
 *		const char *hint = guest_dump_vmcoreinfo(&s, &size);
 *		…
 *		guest_source_close(&s);
 *	}
 *
 * What is promised of a dump's memory:
 *
 * - Addresses are the physical ones of the file (p_paddr); p_vaddr is not looked at (M14).
 * - What the file does not hold cannot be read (GS_EFAULT): filtered pages, memory of a segment
 *   beyond p_filesz, and what lies after the place where the file was cut. It is never zeros.
 * - A file that is cut while it is open makes reads fail with GS_EFAULT. The rest of the page in
 *   which the new end lies may read as zeros: the kernel fills it up.
 *
 * Threads: reads of one dump run side by side.
 */

#include <stddef.h>

#include "introspect/guest/source.h"

/** Where RAM begins on QEMU's "virt" machine and on ours. */
#define GUEST_DUMP_RAM_BASE UINT64_C(0x40000000)

/**
 * The VMCOREINFO text that the dump carries as a note: a hint, written by whoever wrote the file.
 *
 * @param s         an open source of any kind
 * @param size_out  bytes of it, without the NUL behind it; it may hold further NULs
 * @return valid until the source is closed; NULL: not a dump, or it has no such note
 */
const char *guest_dump_vmcoreinfo(const struct guest_source *s, size_t *size_out);

#endif
