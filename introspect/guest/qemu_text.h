/* SPDX-License-Identifier: Apache-2.0 */
/* What QEMU's human monitor prints, as numbers. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_TEXT_H
#define INTROSPECT_GUEST_QEMU_TEXT_H

/*
 * QMP has no commands for registers and the memory map; "human-monitor-command" has them as text
 * for people. The text is not trusted: every parser is bounded by the length it is given, takes
 * lines in any order and skips what it does not know.
 *
 * Threads: any. Allocates nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

/**
 * Take the general registers out of "info registers -a".
 *
 * A vCPU whose section has x0 … x30, SP, PC and PSTATE gets GUEST_REGS_GENERAL; SP goes to the
 * bank that PSTATE selects, the other bank is zero. System registers are not in the text.
 *
 * @param text  @p len bytes, no NUL needed
 * @param regs  @p vcpus of them, indexed by QEMU's number of the CPU; one without a complete
 *              section gets valid 0
 * @return how many are complete
 * Origin: target/arm/cpu.c, aarch64_cpu_dump_state(), QEMU 2.10 … 10.0: tokens NAME=HEX.
 */
uint32_t guest_qemu_parse_registers(const char *text, size_t len, struct guest_vcpu_regs *regs,
				    uint32_t vcpus);

/** What QEMU calls the block that a piece of RAM is in, and where in the block the piece begins. */
struct guest_qemu_block {
	char name[64]; /* "" if longer */
	uint64_t offset;
};

/**
 * Take the RAM of the machine out of "info mtree -f": entries "ram" of the flat view whose address
 * space is "memory". Devices, ROM and flash are not in it. Entries that touch each other and are
 * one block stay apart.
 *
 * @param ranges_out  gets up to @p max, ascending; host is NULL
 * @param blocks_out  as many
 * @return GS_OK; GS_EMALFORMED: no such view, no RAM in it, or entries that overlap or descend;
 *         GS_ETOOBIG: more than @p max
 * Origin: softmmu/memory.c, mtree_print_flatview(), QEMU 2.10 … 10.0.
 */
GS_MUST_USE enum gs_code guest_qemu_parse_ram(const char *text, size_t len,
					      struct guest_range *ranges_out,
					      struct guest_qemu_block *blocks_out, uint32_t max,
					      uint32_t *count_out, struct gs_error *err);

/** The answer of "gpa2hva ADDRESS": "Host virtual address for 0x… (BLOCK) is 0x…". */
bool guest_qemu_parse_hva(const char *text, size_t len, uint64_t *hva_out);

/**
 * The answer of "xp /NUMBERgx ADDRESS": lines of "address: 0x… 0x…", little-endian words.
 *
 * @param buf  gets @p size bytes, a multiple of 8; written only in part on failure
 * @return whether the text has exactly that much, without a gap
 */
bool guest_qemu_parse_words(const char *text, size_t len, gpa_t at, void *buf, size_t size);

#endif
