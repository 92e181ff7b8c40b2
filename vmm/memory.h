/* SPDX-License-Identifier: Apache-2.0 */
/* Guest RAM: one sparse, sealed memory file, mapped once. */
#ifndef VMM_MEMORY_H
#define VMM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct vmm_memory {
	int fd;
	uint8_t *host; /* NULL: not made */
	uint64_t size;
};

/**
 * Make @p size bytes of zeroed memory; nothing is allocated before it is written.
 *
 * @return GS_OK; GS_ENOSPC: the address space or the memory limit does not allow it; GS_ESYS.
 *         On failure @p m can be given to vmm_memory_deinit().
 */
GS_MUST_USE enum gs_code vmm_memory_init(struct vmm_memory *m, uint64_t size, struct gs_error *err);

void vmm_memory_deinit(struct vmm_memory *m);

/**
 * The first stretch of [from, end) that was ever written; offsets into the memory.
 * @return false when there is none
 * Threads: any. Legal while the guest is stopped.
 */
bool vmm_memory_next_data(const struct vmm_memory *m, uint64_t from, uint64_t end,
			  uint64_t *start_out, uint64_t *end_out);

#endif
