/* SPDX-License-Identifier: Apache-2.0 */
/* The UART's registers. */
#include "tests/unit/vmm/vmm_tests.h"

#include "vmm/pl011.h"

enum {
	DR = 0x00,
	FR = 0x18,
	IBRD = 0x24,
	FBRD = 0x28,
	LCR_H = 0x2c,
	CR = 0x30,
	IFLS = 0x34,
	IMSC = 0x38,
	RIS = 0x3c,
	MIS = 0x40,
	ICR = 0x44,
	DMACR = 0x48
};

enum { RXFE = 0x10, TXFF = 0x20, RXFF = 0x40, TXFE = 0x80, BUSY = 0x08 };
enum { RX = 0x10, TX = 0x20, RT = 0x40 };

static void listen(struct vmm_pl011 *p)
{
	uint8_t tx;

	vmm_pl011_init(p);
	ck_assert(!vmm_pl011_write(p, LCR_H, 0x70, &tx));
	ck_assert(!vmm_pl011_write(p, IFLS, 2 << 3, &tx)); // half full
	ck_assert(!vmm_pl011_write(p, CR, 0x301, &tx));
	ck_assert(!vmm_pl011_write(p, IMSC, RX | RT, &tx));
}

START_TEST(uart_transmits_and_is_always_ready)
{
	struct vmm_pl011 p;
	uint8_t tx = 0;

	vmm_pl011_init(&p);
	ck_assert(vmm_pl011_write(&p, DR, 0xffffff41, &tx));
	ck_assert_int_eq(tx, 'A');
	ck_assert_uint_eq(vmm_pl011_read(&p, FR) & (TXFE | TXFF | BUSY), TXFE);
	ck_assert_uint_eq(vmm_pl011_read(&p, RIS), TX);
	ck_assert(!vmm_pl011_irq(&p));
	ck_assert(!vmm_pl011_write(&p, IMSC, TX, &tx));
	ck_assert(vmm_pl011_irq(&p));
	ck_assert(!vmm_pl011_write(&p, ICR, TX, &tx));
	ck_assert(!vmm_pl011_irq(&p));
	ck_assert(vmm_pl011_write(&p, DR, 'B', &tx));
	ck_assert(vmm_pl011_irq(&p));
}
END_TEST

START_TEST(uart_receives_by_timeout_and_by_level)
{
	struct vmm_pl011 p;

	listen(&p);
	ck_assert_uint_eq(vmm_pl011_room(&p), 16);
	vmm_pl011_receive(&p, 'a');
	ck_assert_uint_eq(vmm_pl011_read(&p, MIS), RT);
	for (int i = 1; i < 8; i++)
		vmm_pl011_receive(&p, (uint8_t)('a' + i));
	ck_assert_uint_eq(vmm_pl011_read(&p, MIS), RT | RX);
	ck_assert_uint_eq(vmm_pl011_read(&p, DR), 'a');
	ck_assert_uint_eq(vmm_pl011_read(&p, MIS), RT);
	for (int i = 1; i < 8; i++)
		ck_assert_uint_eq(vmm_pl011_read(&p, DR), 'a' + (unsigned int)i);
	ck_assert(!vmm_pl011_irq(&p));
	ck_assert(vmm_pl011_read(&p, FR) & RXFE);
	ck_assert_uint_eq(vmm_pl011_read(&p, DR), 0);
}
END_TEST

START_TEST(uart_full_fifo_takes_nothing_more_and_loses_nothing_in_it)
{
	struct vmm_pl011 p;

	listen(&p);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 20; i++)
			vmm_pl011_receive(&p, (uint8_t)i);
		ck_assert_uint_eq(vmm_pl011_room(&p), 0);
		ck_assert(vmm_pl011_read(&p, FR) & RXFF);
		for (unsigned int i = 0; i < 16; i++)
			ck_assert_uint_eq(vmm_pl011_read(&p, DR), i);
		ck_assert(vmm_pl011_read(&p, FR) & RXFE);
		// the ring's start moves on
		vmm_pl011_receive(&p, 1);
		ck_assert_uint_eq(vmm_pl011_read(&p, DR), 1);
	}
}
END_TEST

START_TEST(uart_holds_input_back_until_the_guest_listens)
{
	struct vmm_pl011 p;
	uint8_t tx;

	vmm_pl011_init(&p);
	ck_assert_uint_eq(vmm_pl011_room(&p), 0);
	ck_assert(!vmm_pl011_write(&p, CR, 0x301, &tx));
	ck_assert_uint_eq(vmm_pl011_room(&p), 0);
	for (int i = 0; i < 100; i++)
		(void)vmm_pl011_read(&p, FR); // a guest that polls
	ck_assert_uint_eq(vmm_pl011_room(&p), 1);
	ck_assert(!vmm_pl011_write(&p, CR, 0x101, &tx)); // receiver off
	ck_assert(!vmm_pl011_write(&p, IMSC, RX | RT, &tx));
	ck_assert_uint_eq(vmm_pl011_room(&p), 0);
	ck_assert(!vmm_pl011_write(&p, CR, 0x201, &tx));
	ck_assert_uint_eq(vmm_pl011_room(&p), 1);
	ck_assert(!vmm_pl011_write(&p, LCR_H, 0x10, &tx));
	ck_assert_uint_eq(vmm_pl011_room(&p), 16);
}
END_TEST

START_TEST(uart_identifies_itself_as_a_pl011_with_fifos_of_16)
{
	static const uint8_t id[] = { 0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1 };
	struct vmm_pl011 p;

	vmm_pl011_init(&p);
	for (unsigned int i = 0; i < 8; i++)
		ck_assert_uint_eq(vmm_pl011_read(&p, 0xfe0 + 4 * i), id[i]);
}
END_TEST

START_TEST(uart_registers_keep_their_bits_and_no_others)
{
	static const struct {
		uint64_t offset;
		uint32_t mask;
	} regs[] = { { IBRD, 0xffff }, { FBRD, 0x3f },	{ LCR_H, 0xff }, { CR, 0xff87 },
		     { IFLS, 0x3f },   { IMSC, 0x7ff }, { DMACR, 0x7 } };
	struct vmm_pl011 p;
	uint8_t tx;

	vmm_pl011_init(&p);
	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		ck_assert(!vmm_pl011_write(&p, regs[i].offset, UINT32_MAX, &tx));
		ck_assert_uint_eq(vmm_pl011_read(&p, regs[i].offset), regs[i].mask);
	}
}
END_TEST

START_TEST(uart_loops_back_without_transmitting)
{
	struct vmm_pl011 p;
	uint8_t tx;

	listen(&p);
	ck_assert(!vmm_pl011_write(&p, CR, 0x381, &tx));
	for (int i = 0; i < 40; i++)
		ck_assert(!vmm_pl011_write(&p, DR, 'x', &tx));
	ck_assert_uint_eq(p.rx_count, 16);
	ck_assert_uint_eq(vmm_pl011_read(&p, DR), 'x');
}
END_TEST

/* A hostile driver: every offset and value, in an order of no sense. Nothing leaves its bounds. */
START_TEST(uart_survives_any_sequence_of_accesses)
{
	struct vmm_pl011 p;
	uint64_t rnd = 0x9e3779b97f4a7c15;
	uint8_t tx;
	bool sane = true;

	vmm_pl011_init(&p);
	for (int i = 0; i < 1000000 && sane; i++) {
		rnd = rnd * UINT64_C(6364136223846793005) + 1442695040888963407;
		uint64_t offset = rnd >> 40 & (rnd & 1 ? 0x4f : 0xfff);

		switch (rnd >> 8 & 3) {
		case 0: (void)vmm_pl011_read(&p, offset); break;
		case 1: (void)vmm_pl011_write(&p, offset, (uint32_t)(rnd >> 16), &tx); break;
		case 2: vmm_pl011_receive(&p, (uint8_t)rnd); break;
		default: (void)vmm_pl011_read(&p, rnd); break;
		}
		sane = p.rx_count <= 16 && p.rx_head < 16 && vmm_pl011_room(&p) <= 16 &&
		       !(p.ris & ~0x7ffu);
	}
	ck_assert(sane);
}
END_TEST

START_TEST(uart_ignores_what_is_no_register)
{
	static const uint64_t offsets[] = { 1,	   2,	  3,	 0x19,	 0x08,	    0x4c,
					    0xfdc, 0xfe1, 0xfff, 0x1000, UINT64_MAX };
	struct vmm_pl011 p;
	uint8_t tx;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		listen(&p);
		vmm_pl011_receive(&p, 'q');
		ck_assert(!vmm_pl011_write(&p, offsets[i], UINT32_MAX, &tx));
		ck_assert_uint_eq(vmm_pl011_read(&p, offsets[i]), 0);
		ck_assert_uint_eq(p.rx_count, 1);
		ck_assert_uint_eq(p.imsc, RX | RT);
	}
}
END_TEST

TCase *pl011_case(void)
{
	TCase *c = tcase_create("pl011");

	tcase_add_test(c, uart_transmits_and_is_always_ready);
	tcase_add_test(c, uart_receives_by_timeout_and_by_level);
	tcase_add_test(c, uart_full_fifo_takes_nothing_more_and_loses_nothing_in_it);
	tcase_add_test(c, uart_holds_input_back_until_the_guest_listens);
	tcase_add_test(c, uart_identifies_itself_as_a_pl011_with_fifos_of_16);
	tcase_add_test(c, uart_registers_keep_their_bits_and_no_others);
	tcase_add_test(c, uart_loops_back_without_transmitting);
	tcase_add_test(c, uart_survives_any_sequence_of_accesses);
	tcase_add_test(c, uart_ignores_what_is_no_register);
	return c;
}
