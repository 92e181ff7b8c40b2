/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of an Arm PL011 UART; no lock, no I/O: vmm/console.h gives it both. */
#include "vmm/pl011.h"

#include "base/util.h"

/* Register offsets, TRM table 3-1. */
enum {
	DR = 0x000,
	RSR = 0x004,
	FR = 0x018,
	ILPR = 0x020,
	IBRD = 0x024,
	FBRD = 0x028,
	LCR_H = 0x02c,
	CR = 0x030,
	IFLS = 0x034,
	IMSC = 0x038,
	RIS = 0x03c,
	MIS = 0x040,
	ICR = 0x044,
	DMACR = 0x048,
	PERIPH_ID0 = 0xfe0,
	PCELL_ID3 = 0xffc,
};

enum {
	FR_CTS = 1 << 0,
	FR_DSR = 1 << 1,
	FR_DCD = 1 << 2,
	FR_RXFE = 1 << 4,
	FR_RXFF = 1 << 6,
	FR_TXFE = 1 << 7,

	LCR_H_FEN = 1 << 4,

	CR_UARTEN = 1 << 0,
	CR_LBE = 1 << 7,
	CR_TXE = 1 << 8,
	CR_RXE = 1 << 9,

	INT_RX = 1 << 4,
	INT_TX = 1 << 5,
	INT_RT = 1 << 6, /* receive timeout: bytes wait, though fewer than the trigger level */
	INT_ALL = 0x7ff,
};

/* A guest that reads FR this often in a row waits for input without interrupts. */
#define FR_POLLS_LISTENING 64

void vmm_pl011_init(struct vmm_pl011 *p)
{
	// Reset values of the TRM; FIFOs off, everything masked.
	*p = (struct vmm_pl011){ .cr = CR_TXE | CR_RXE, .ifls = 0x12 };
}

static uint32_t rx_depth(const struct vmm_pl011 *p)
{
	return p->lcr_h & LCR_H_FEN ? VMM_PL011_FIFO_MAX : 1;
}

/* Bytes from which the receive interrupt is due (TRM 3.3.9: 1/8, 1/4, 1/2, 3/4, 7/8 of the FIFO).
 */
static uint32_t rx_trigger(const struct vmm_pl011 *p)
{
	static const uint8_t levels[8] = { 2, 4, 8, 12, 14, 14, 14, 14 };

	return p->lcr_h & LCR_H_FEN ? levels[BITS(p->ifls, 5, 3)] : 1;
}

static uint32_t rx_pop(struct vmm_pl011 *p)
{
	if (p->rx_count == 0)
		return 0;
	uint8_t byte = p->rx[p->rx_head];

	p->rx_head = (p->rx_head + 1) % VMM_PL011_FIFO_MAX;
	p->rx_count--;
	if (p->rx_count < rx_trigger(p))
		p->ris &= ~(uint32_t)INT_RX;
	if (p->rx_count == 0)
		p->ris &= ~(uint32_t)INT_RT;
	return byte;
}

void vmm_pl011_receive(struct vmm_pl011 *p, uint8_t byte)
{
	if (p->rx_count >= rx_depth(p))
		return;
	p->rx[(p->rx_head + p->rx_count) % VMM_PL011_FIFO_MAX] = byte;
	p->rx_count++;
	if (p->rx_count >= rx_trigger(p))
		p->ris |= INT_RX;
	// The real one waits for 32 bit times of silence; the guest sees no difference.
	p->ris |= INT_RT;
}

uint32_t vmm_pl011_room(const struct vmm_pl011 *p)
{
	uint32_t on = CR_UARTEN | CR_RXE;

	// Linux turns the receiver on well before it empties the FIFO for the last time and opens
	// the interrupts; what came in between would be lost.
	if ((p->cr & on) != on ||
	    (!(p->imsc & (INT_RX | INT_RT)) && p->fr_polls < FR_POLLS_LISTENING))
		return 0;
	return p->rx_count < rx_depth(p) ? rx_depth(p) - p->rx_count : 0;
}

bool vmm_pl011_irq(const struct vmm_pl011 *p)
{
	return p->ris & p->imsc;
}

static uint32_t flags(const struct vmm_pl011 *p)
{
	// The transmitter is always ready: what cannot be kept is dropped and counted, see
	// console.c.
	uint32_t fr = FR_CTS | FR_DSR | FR_DCD | FR_TXFE;

	if (p->rx_count == 0)
		fr |= FR_RXFE;
	if (p->rx_count >= rx_depth(p))
		fr |= FR_RXFF;
	return fr;
}

static uint32_t id_byte(uint64_t offset)
{
	/* TRM 3.3.13 and 3.3.14: part 0x011, Arm 0x41, revision 1 (FIFOs of 16), cell 0xb105f00d */
	static const uint8_t id[] = { 0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1 };

	return id[(offset - PERIPH_ID0) / 4 % ARRAY_SIZE(id)];
}

uint32_t vmm_pl011_read(struct vmm_pl011 *p, uint64_t offset)
{
	if (offset == FR) {
		if (p->fr_polls < FR_POLLS_LISTENING)
			p->fr_polls++;
		return flags(p);
	}
	if (offset & 3)
		return 0;
	if (offset >= PERIPH_ID0 && offset <= PCELL_ID3)
		return id_byte(offset);
	switch (offset) {
	case DR: return rx_pop(p);
	case ILPR: return p->ilpr;
	case IBRD: return p->ibrd;
	case FBRD: return p->fbrd;
	case LCR_H: return p->lcr_h;
	case CR: return p->cr;
	case IFLS: return p->ifls;
	case IMSC: return p->imsc;
	case RIS: return p->ris;
	case MIS: return p->ris & p->imsc;
	case DMACR: return p->dmacr;
	default: return 0; /* RSR has no errors to tell; ICR is write-only */
	}
}

/* Switching the FIFOs on or off empties them, as in hardware. */
static void line_control(struct vmm_pl011 *p, uint32_t value)
{
	if ((p->lcr_h ^ value) & LCR_H_FEN) {
		p->rx_head = 0;
		p->rx_count = 0;
		p->ris &= ~(uint32_t)(INT_RX | INT_RT);
	}
	p->lcr_h = value & 0xff;
}

static bool transmit(struct vmm_pl011 *p, uint8_t byte, uint8_t *tx_out)
{
	// Sent at once, so the FIFO has just passed its trigger level.
	p->ris |= INT_TX;
	if (p->cr & CR_LBE) {
		vmm_pl011_receive(p, byte);
		return false;
	}
	*tx_out = byte;
	return true;
}

bool vmm_pl011_write(struct vmm_pl011 *p, uint64_t offset, uint32_t value, uint8_t *tx_out)
{
	p->fr_polls = 0;
	switch (offset) {
	case DR: return transmit(p, (uint8_t)value, tx_out);
	case ILPR: p->ilpr = value & 0xff; break;
	case IBRD: p->ibrd = value & 0xffff; break;
	case FBRD: p->fbrd = value & 0x3f; break;
	case LCR_H: line_control(p, value); break;
	case CR: p->cr = value & 0xff87; break;
	case IFLS: p->ifls = value & 0x3f; break;
	case IMSC: p->imsc = value & INT_ALL; break;
	case ICR: p->ris &= ~(value & INT_ALL); break;
	case DMACR: p->dmacr = value & 7; break; /* kept, no DMA behind it */
	default: break;
	}
	return false;
}
