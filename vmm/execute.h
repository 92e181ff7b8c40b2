/* SPDX-License-Identifier: Apache-2.0 */
/* Executing an instruction for the guest: the one that a breakpoint stands on. */
#ifndef VMM_EXECUTE_H
#define VMM_EXECUTE_H

/*
 * A breakpoint that is written into the guest's text is met by every vCPU. To let one go on, the
 * instruction that was there would have to come back for a moment, and others would pass in that
 * moment without a hit. So what functions begin and end with is executed here instead: no-operation,
 * moves of registers and constants, sums with constants, addresses, and branches of every kind.
 * None of these reads or writes memory or raises an exception. (With a return address that is signed
 * for a return in one instruction, RETAA, or a paciasp there is no way: the keys are the CPU's.)
 */

#include <stdbool.h>
#include <stdint.h>

/** What is named as register of an instruction, beside 0 to 30. */
enum vmm_execute_reg {
	VMM_EXECUTE_SP = 31, /* the current one */
	VMM_EXECUTE_PC,
	VMM_EXECUTE_PSTATE,
};

/** A vCPU's registers, each got and set at most once for an instruction. */
struct vmm_execute_cpu {
	/** @return false: it cannot be had */
	bool (*get)(void *arg, uint32_t reg, uint64_t *value_out);
	bool (*set)(void *arg, uint32_t reg, uint64_t value);
	void *arg;
};

enum vmm_execute_result {
	VMM_EXECUTE_DONE,
	VMM_EXECUTE_UNKNOWN, /* none of those above; no register was set */
	VMM_EXECUTE_FAILED, /* a register could not be got or set; the program counter is as it was */
};

/** Whether it is one that can be executed here. Arm ARM (DDI 0487) C4 has the encodings. */
bool vmm_can_execute(uint32_t insn);

/**
 * Execute it: all that it changes, and the program counter. PSTATE.BTYPE becomes 0, so that what a
 * branch leads to is not checked for a landing pad.
 */
enum vmm_execute_result vmm_execute(const struct vmm_execute_cpu *cpu, uint32_t insn);

/**
 * Whether the CPU may execute it alone, by a single step with interrupts masked: nothing that looks at
 * or changes the masks, changes the exception level, waits, or belongs to a pair of exclusive accesses.
 */
bool vmm_can_step(uint32_t insn);

#endif
