/* SPDX-License-Identifier: Apache-2.0 */
/* Which vCPU is in which cluster. */
#ifndef VMM_TOPOLOGY_H
#define VMM_TOPOLOGY_H

/*
 * The guest learns its clusters from the device tree's cpu-map. MPIDR_EL1 cannot say the same: KVM
 * derives it from the id a vCPU is created with (Aff0 = id & 15, Aff1 = id >> 4 & 255), again at
 * every CPU_ON, so that a value written does not last; and ids with gaps send the timer interrupts
 * of one vCPU to another on hosts before Linux 6.7 (tried on 6.1: the vCPUs behind the gap get
 * none). So ids are 0, 1, 2 …, and the device tree's reg is MPIDR_EL1 as read back from KVM.
 *
 * Origin: arch/arm64/kvm/sys_regs.c reset_mpidr(); vgic.c kvm_vgic_inject_irq(), whose cpuid was an
 * id for its callers and an index for itself until 6.7.
 */

#include <stdint.h>

#include "base/error.h"
#include "vmm/vmm.h"

/* MPIDR_EL1 affinity fields Aff2, Aff1, Aff0; Aff3 is always 0 here. */
#define VMM_MPIDR_AFFINITY UINT64_C(0xffffff)

struct vmm_topology {
	uint32_t cpus;
	uint32_t clusters; /* that have a vCPU; may be below what was asked for: 5 in 4 are 2+2+1 */
	uint32_t cluster[VMM_CPUS_MAX]; /* of each vCPU, ascending */
	uint32_t core[VMM_CPUS_MAX];	/* its number inside the cluster */
};

/**
 * Lay out @p cpus vCPUs in @p clusters clusters of ceil(cpus / clusters).
 *
 * @return GS_OK; GS_EINVAL: cpus not in 1 … VMM_CPUS_MAX, or clusters not in 1 … cpus
 */
GS_MUST_USE enum gs_code vmm_topology_init(struct vmm_topology *t, uint32_t cpus, uint32_t clusters,
					   struct gs_error *err);

#endif
