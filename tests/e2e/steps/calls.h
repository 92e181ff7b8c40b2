/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow call stack: who has called whom, as told by the instructions that were executed alone. */
#ifndef TESTS_E2E_STEPS_CALLS_H
#define TESTS_E2E_STEPS_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "introspect/guest/guest.h"

#define CALLS_MAX  1024
#define CALL_TASKS 256

struct call {
	uint64_t address; /* of the return, or what was interrupted */
	bool is_interrupted;
};

struct call_chain {
	uint64_t task; /* task_struct; 0: free */
	uint32_t count;
	struct call call[CALLS_MAX]; /* outermost first */
};

struct calls {
	bool is_known;
	uint32_t count;
	struct call call[CALLS_MAX];
	struct call_chain left[CALL_TASKS]; /* tasks that the vCPU has left */
	uint32_t left_count;
	uint64_t
		next_task; /* the instruction at hand makes this the current task; 0: it does not */
};

enum calls_event { CALLS_NOTHING, CALLS_INTERRUPT, CALLS_SWITCH, CALLS_LOST };

/** The vCPU has just come from user mode: nobody has called. */
void calls_begin(struct calls *c);

/** Call before each step: what the instruction will do that has to be prepared. */
void calls_before(struct calls *c, const struct guest_vcpu_regs *before, uint32_t word);

/** Call after each step. */
enum calls_event calls_after(struct calls *c, const struct guest_vcpu_regs *before, uint32_t word,
			     const struct guest_vcpu_regs *after);

bool calls_knows(struct calls *c, uint64_t task);

/** The chain of a task that the vCPU was not seen to leave, innermost first. */
void calls_learn(struct calls *c, uint64_t task, const uint64_t *address, const uint8_t *kind,
		 uint32_t count);

/** The i-th caller, innermost first. */
static inline const struct call *calls_at(const struct calls *c, uint32_t i)
{
	return &c->call[c->count - 1 - i];
}

#endif
