/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of an Arm PL011 UART; no lock, no I/O: vmm/console.h gives it both. */
#ifndef VMM_PL011_H
#define VMM_PL011_H

#include <stdbool.h>
#include <stdint.h>

#define VMM_PL011_SIZE	   UINT64_C(0x1000)
#define VMM_PL011_FIFO_MAX 16

/* Origin: Arm PrimeCell UART (PL011) Technical Reference Manual r1p5 (DDI 0183G), chapter 3. */
struct vmm_pl011 {
	uint8_t rx[VMM_PL011_FIFO_MAX];
	uint32_t rx_head;
	uint32_t rx_count;
	uint32_t fr_polls; /* reads of FR since anything else was touched */
	uint32_t cr, lcr_h, imsc, ris, ibrd, fbrd, ifls, dmacr, ilpr;
};

void vmm_pl011_init(struct vmm_pl011 *p);

/**
 * A guest's read of any size at any offset; what is no register reads as 0.
 * Bytes above the 32 of a register are 0.
 */
uint32_t vmm_pl011_read(struct vmm_pl011 *p, uint64_t offset);

/**
 * A guest's write at any offset; what is no register ignores it.
 * @return true: the guest has sent *tx_out
 */
bool vmm_pl011_write(struct vmm_pl011 *p, uint64_t offset, uint32_t value, uint8_t *tx_out);

/** Level of the combined interrupt line. */
bool vmm_pl011_irq(const struct vmm_pl011 *p);

/** How many bytes the guest can take now: 0 also while it does not listen. */
uint32_t vmm_pl011_room(const struct vmm_pl011 *p);

/** Receive a byte; lost, with the overrun bit set, when the FIFO is full. */
void vmm_pl011_receive(struct vmm_pl011 *p, uint8_t byte);

#endif
