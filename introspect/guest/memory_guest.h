/* SPDX-License-Identifier: Apache-2.0 */
/* A guest made of the caller's own buffers and register values. */
#ifndef INTROSPECT_GUEST_MEMORY_GUEST_H
#define INTROSPECT_GUEST_MEMORY_GUEST_H

#include "introspect/guest/guest.h"

#define MEMORY_GUEST_RANGES_MAX 16
#define MEMORY_GUEST_VCPUS_MAX	64

/**
 * A stopped guest over memory that somebody else holds. All fields but @p guest may be set after
 * memory_guest_init() and before the first use; the ranges must ascend.
 */
struct memory_guest {
	struct guest guest;
	struct guest_range ranges[MEMORY_GUEST_RANGES_MAX];
	struct guest_vcpu_regs regs[MEMORY_GUEST_VCPUS_MAX];
	uint32_t clusters[MEMORY_GUEST_VCPUS_MAX];
	int stop_depth; /* stops not yet resumed, for tests to look at */
};

/**
 * Make an empty guest with @p vcpus vCPUs in one cluster, registers zero and valid.
 *
 * @param m     caller's memory, used until nobody uses m->guest any more; must not move
 * @param vcpus 0 … MEMORY_GUEST_VCPUS_MAX, larger counts are cut
 */
void memory_guest_init(struct memory_guest *m, uint32_t vcpus);

/**
 * Append RAM.
 *
 * @param start  guest-physical start, above the end of the previous range
 * @param host   the bytes; borrowed until the guest is no longer used
 * @return GS_OK; GS_ENOSPC: too many ranges; GS_EINVAL: empty, wraps, or not above the last one
 */
GS_MUST_USE enum gs_code memory_guest_add(struct memory_guest *m, gpa_t start, const void *host,
					  uint64_t size);

#endif
