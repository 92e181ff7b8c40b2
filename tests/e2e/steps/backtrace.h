/* SPDX-License-Identifier: Apache-2.0 */
/* What guestshot's library makes of a stopped vCPU: the backtrace that is judged. */
#ifndef TESTS_E2E_STEPS_BACKTRACE_H
#define TESTS_E2E_STEPS_BACKTRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "introspect/linux/linux.h"

struct backtrace {
	struct lnx_stack s;
	uint64_t address[LNX_FRAMES_MAX];
	uint8_t kind[LNX_FRAMES_MAX], doubt[LNX_FRAMES_MAX];
	bool is_idle; /* of a CPU's idle task */
};

/**
 * The backtrace of a vCPU in the kernel.
 *
 * @param v  is begun anew: page tables change under a guest that runs on
 */
void backtrace_take(struct backtrace *b, struct lnx_view *v, const struct lnx_kernel *k,
		    const struct guest *g, const struct guest_vcpu_regs *regs);

/** Whether a frame is marked uncertain, or the stack is said to be cut. */
bool backtrace_is_flagged(const struct backtrace *b);

/** Whether the innermost function has called itself. */
bool backtrace_is_recursive(const struct backtrace *b, const struct lnx_kernel *k);

/**
 * Whether two addresses are one place in a chain: a function that was fixed up after a fault goes on
 * elsewhere in itself.
 */
bool backtrace_is_same_place(const struct lnx_kernel *k, bool is_interrupted, uint64_t a,
			     uint64_t b);

/** "function+offset"; valid until the next call. */
const char *backtrace_name(const struct lnx_kernel *k, uint64_t address, bool is_exact);

/**
 * Print one line of two chains: the i-th frame, and what the judge has there.
 *
 * @param judge  0: nothing
 */
void backtrace_print_beside(const struct backtrace *b, const struct lnx_kernel *k, uint32_t i,
			    uint64_t judge, bool is_exact);

#endif
