/* SPDX-License-Identifier: Apache-2.0 */
/* makedumpfile's flattened format: a dump that went through a pipe, as a list of writes. */
#ifndef INTROSPECT_GUEST_DUMP_FLAT_H
#define INTROSPECT_GUEST_DUMP_FLAT_H

/*
 * File, all numbers big-endian (makedumpfile 1.7.2, makedumpfile.h: struct makedumpfile_header and
 * makedumpfile_data_header; QEMU writes the same, dump/dump.c):
 *
 *	0       "makedumpfile" NUL-filled to 16, type = 1 (8 bytes), version = 1 (8 bytes)
 *	4096    record: offset (8), size (8), size bytes that belong at offset
 *	…       record: …
 *	        end: offset = size = -1
 */

#include <stdbool.h>

#include "base/error.h"
#include "introspect/guest/dump_file.h"

/**
 * Do the writes, into a temporary file without a name in $TMPDIR or /var/tmp.
 *
 * @param flat          the flattened file; borrowed
 * @param file_out      the rearranged one; close it
 * @param complete_out  false: the list ends without its end mark
 * @return GS_OK; GS_EMALFORMED: another version, or no record; GS_ENOSPC: the disk is full;
 *         GS_EDENIED, GS_ESYS: the temporary file
 */
GS_MUST_USE enum gs_code guest_dump_flat_rearrange(const struct guest_dump_file *flat,
						   struct guest_dump_file *file_out,
						   bool *complete_out, struct gs_error *err);

#endif
