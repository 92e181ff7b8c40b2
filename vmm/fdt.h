/* SPDX-License-Identifier: Apache-2.0 */
/* The device tree that tells the guest what machine it has. */
#ifndef VMM_FDT_H
#define VMM_FDT_H

#include <stdint.h>

#include "base/error.h"
#include "vmm/topology.h"

#define VMM_FDT_RNG_SEED 64

/* Interrupts: SPI n is the controller's 32 + n, PPI n its 16 + n. */
#define VMM_SPI_CONSOLE 1

#define VMM_GICD_BASE	 UINT64_C(0x08000000)
#define VMM_GICD_SIZE	 UINT64_C(0x10000)
#define VMM_GICR_BASE	 UINT64_C(0x080a0000)
#define VMM_GICR_SIZE	 UINT64_C(0x20000) /* of each vCPU */
#define VMM_CONSOLE_BASE UINT64_C(0x09000000)

struct vmm_fdt_config {
	const char *cmdline;
	uint64_t ram_base, ram_size;
	uint64_t initrd, initrd_size; /* guest-physical; size 0: none */
	const struct vmm_topology *topology;
	const uint64_t *mpidr; /* of each vCPU, as KVM has it */
	uint64_t kaslr_seed;
	uint8_t rng_seed[VMM_FDT_RNG_SEED];
};

/** Write the device tree into @p buf. @return GS_OK; GS_ETOOBIG: it needs more than @p size bytes
 */
GS_MUST_USE enum gs_code vmm_fdt_build(const struct vmm_fdt_config *config, void *buf, size_t size,
				       struct gs_error *err);

#endif
