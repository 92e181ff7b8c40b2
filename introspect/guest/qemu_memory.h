/* SPDX-License-Identifier: Apache-2.0 */
/* The RAM of a QEMU guest, read by the best way there is. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_MEMORY_H
#define INTROSPECT_GUEST_QEMU_MEMORY_H

/*
 * Best first:
 *
 *	shared file	RAM is a file or a memfd that QEMU has mapped shared: mapped here as well
 *	process		QEMU's own memory: process_vm_readv(2), or /proc/PID/mem where a sandbox
 *			forbids that call
 *	monitor		libvirt's peek, pmemsave into a file, or the text of xp
 *
 * The first two need QEMU on this host and the right to look at it. They are compared with what
 * the monitor says before they are believed: a process number or a path can lead elsewhere.
 *
 * Threads: reads side by side, the rest on one thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"
#include "introspect/guest/qemu_monitor.h"

struct guest_qemu_memory;

/**
 * Find the guest's RAM and how to read it.
 *
 * @param monitor  borrowed until guest_qemu_memory_destroy()
 * @return GS_OK; GS_EDENIED: there is no way at all, the text says why; others from the monitor
 */
GS_MUST_USE enum gs_code guest_qemu_memory_create(struct guest_monitor *monitor,
						  struct guest_qemu_memory **memory_out,
						  struct gs_error *err);

/** NULL is fine. */
void guest_qemu_memory_destroy(struct guest_qemu_memory *m);

/** The ranges, until destroyed. */
const struct guest_range *guest_qemu_memory_ranges(const struct guest_qemu_memory *m,
						   uint32_t *count_out);

/** How most of it is read, for people; a static string. */
const char *guest_qemu_memory_access(const struct guest_qemu_memory *m);

/** Why no better way was taken; "" if there is none. */
const char *guest_qemu_memory_why(const struct guest_qemu_memory *m);

/** The guest stands from now on, or, with false, is about to run. */
void guest_qemu_memory_stands(struct guest_qemu_memory *m, bool stands);

/** How long a read that has begun may take, about; 0: none waits for anybody. */
uint64_t guest_qemu_memory_ask_ns(const struct guest_qemu_memory *m);

/**
 * As struct guest_ops has them. What is read while the guest runs may be a fraction of a second old
 * where reading is slow.
 */
enum gs_code guest_qemu_memory_read(struct guest_qemu_memory *m, gpa_t at, void *buf, size_t len);
bool guest_qemu_memory_next_data(struct guest_qemu_memory *m, gpa_t from, gpa_t end,
				 gpa_t *start_out, gpa_t *end_out);

#endif
