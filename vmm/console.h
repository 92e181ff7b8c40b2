/* SPDX-License-Identifier: Apache-2.0 */
/* The console: a PL011 whose output never makes a vCPU wait and whose input is read as needed. */
#ifndef VMM_CONSOLE_H
#define VMM_CONSOLE_H

/*
 *	vCPU --MMIO--> PL011 --> tap ring --> tap thread --> on_console(): all of it
 *	                     \-> out ring --> out thread --> descriptor out: drops what it cannot
 *keep descriptor in --> in thread --> receive FIFO of the PL011, only while that has room
 *
 * Each thread exists only where its end does. A thread may stand in its blocking write, read or
 * callback for as long as it likes: a vCPU takes the console's lock for the time of a few stores.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define VMM_CONSOLE_BUFFER_MAX (UINT64_C(1) << 30)

struct vmm_console_config {
	int in;		 /* -1: none; borrowed */
	int out;	 /* -1: none; borrowed; its flags are left alone: others may share it */
	uint64_t buffer; /* bytes kept for a slow reader of out: 1 … VMM_CONSOLE_BUFFER_MAX */
	void (*on_console)(void *arg, const char *bytes, size_t len); /* may be NULL */
	void *arg;
	/** Sets the interrupt line; called under the console's lock, on level changes only. */
	void (*set_irq)(void *irq_arg, bool level);
	void *irq_arg;
};

struct vmm_console_counts {
	uint64_t bytes;	  /* sent by the guest */
	uint64_t dropped; /* of these, not written to out, or not given to on_console */
};

struct vmm_console;

/** @return GS_OK; GS_EINVAL: buffer out of range; GS_ENOSPC: no memory for the buffers; GS_ESYS */
GS_MUST_USE enum gs_code vmm_console_create(const struct vmm_console_config *config,
					    struct vmm_console **console_out, struct gs_error *err);

/** Start the threads; the kick must be installed (vmm/thread.h). Once. @return GS_OK; GS_ESYS */
GS_MUST_USE enum gs_code vmm_console_start(struct vmm_console *c, struct gs_error *err);

/** A guest's access, any offset and size of 1 to 8 bytes. Threads: any vCPU's. Never waits. */
uint64_t vmm_console_read(struct vmm_console *c, uint64_t offset);
void vmm_console_write(struct vmm_console *c, uint64_t offset, uint64_t value);

/** Threads: any. */
void vmm_console_counts_get(struct vmm_console *c, struct vmm_console_counts *counts_out);

/** Hand on what is buffered, for at most @p drain_ns, end the threads and free. Takes NULL. */
void vmm_console_destroy(struct vmm_console *c, uint64_t drain_ns);

#endif
