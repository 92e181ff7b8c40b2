/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's code says of its own stack frames. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_CODE_H
#define INTROSPECT_LINUX_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "introspect/linux/linux.h"

/*
 * Where a function that stopped at some instruction has its caller. The kernel is compiled with frame
 * pointers, so that all functions of C (and nearly all of assembly, and BPF programs) go through
 *
 *	[mov x9, x30; nop]              the tracer's site
 *	[paciasp]
 *	stp x29, x30, [sp, …]           from here on the record is in memory,
 *	mov x29, sp                     from here on x29 points to it;
 *	… bl …                          calls are made only then, since they change x30
 *	ldp x29, x30, [sp, …]           and from here on it is as in the beginning
 *	[autiasp]
 *	ret                             or a branch to another function
 *
 * So whichever of these the code comes to next tells which it is, whatever branches lie between. Nothing
 * has to be known of where a function begins or what it is called.
 */
enum lnx_code_state {
	LNX_CODE_UNKNOWN, /* unreadable, or it comes to none of these, or not to the same on all ways */
	LNX_CODE_NO_RECORD, /* x30 has the return address, x29 is still, or again, the caller's */
	LNX_CODE_RECORD,    /* x29 points to the function's own record; x30 may be anything */
};

/**
 * What the code from @p pc on says; of exception entry code likewise: LNX_CODE_NO_RECORD before x29
 * points into the pt_regs, and after it was loaded from there for the return.
 *
 * @param call_out  the only sign of a record was that the code comes to a call: assembly may have none
 */
enum lnx_code_state lnx_code_state(struct lnx_view *v, uint64_t pc, bool *call_out);

/** Reads code in pieces, for those who look at one instruction after another; zeroed but for v. */
struct lnx_code_reader {
	struct lnx_view *v;
	uint64_t at; /* of word[0], on a boundary of as many bytes */
	bool is_read;
	uint32_t word[16];
};

/** The instruction at @p pc, as the guest has it. @return false: it cannot be read, or is none */
bool lnx_code_fetch(struct lnx_code_reader *c, uint64_t pc, uint32_t *word_out);

/** What is in front of a return address. */
enum lnx_call {
	LNX_CALL_UNREADABLE,
	LNX_CALL_NONE,	   /* no call */
	LNX_CALL_INDIRECT, /* one to an address in a register */
	LNX_CALL_DIRECT,
};

/** @param target_out what is called, of a direct one; else 0 */
enum lnx_call lnx_call_before(struct lnx_view *v, uint64_t address, uint64_t *target_out);

/**
 * Whether a return address follows a call. Remembered by the view's cache, if it has one: a kernel's
 * stacks have few different ones.
 */
enum lnx_doubt lnx_call_doubt(struct lnx_view *v, uint64_t address);

/** Whether the code in [start, pc) has a stp of x29 and x30; also if it cannot be read or is too long. */
bool lnx_code_may_push(struct lnx_view *v, uint64_t start, uint64_t pc);

/**
 * Whether the instruction at @p pc loads x30 from the stack, as the return from an exception does
 * last.
 *
 * @param offset_out from SP
 */
bool lnx_code_loads_lr(struct lnx_view *v, uint64_t pc, uint64_t *offset_out);

#endif
