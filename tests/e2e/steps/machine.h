/* SPDX-License-Identifier: Apache-2.0 */
/* A guest of QEMU by its debug stub: one vCPU that goes step by step, or several that are stopped. */
#ifndef TESTS_E2E_STEPS_MACHINE_H
#define TESTS_E2E_STEPS_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/memory_guest.h"

#define MACHINE_PACKET	65536
#define MACHINE_SYSREGS 12
#define MACHINE_VCPUS	8

struct machine {
	int fd;
	char asked[128];	     /* the last question */
	char packet[MACHINE_PACKET]; /* the last answer, terminated */
	uint8_t in[MACHINE_PACKET];  /* received, not looked at yet */
	size_t in_at, in_end;
	unsigned int sysreg[MACHINE_SYSREGS]; /* the stub's numbers of them */
	void *ram;
	size_t ram_size;
	struct memory_guest memory;
	uint32_t vcpus;
	char vcpu[MACHINE_VCPUS][24]; /* the stub's names of them */
	struct guest_vcpu_regs
		regs; /* of the one that is looked at: the first one, to begin with */
	bool with_interrupts;
	char mode; /* what the stub was told of steps: '1' with interrupts and timers, '7' without */
	bool has_breakpoints, is_failed;
};

/**
 * Connect, stop the vCPU and read its registers.
 *
 * @param socket  of the stub; @param ram_file  what the guest's memory is shared by
 */
bool machine_open(struct machine *m, const char *socket, const char *ram_file,
		  struct gs_error *err);
void machine_close(struct machine *m);

/** Read the registers of another vCPU of a stopped machine. */
bool machine_look_at(struct machine *m, uint32_t vcpu);

/** Let all vCPUs run, and stop them after some time, wherever they are. */
bool machine_run_for(struct machine *m, uint32_t us);

/**
 * Execute one instruction.
 *
 * @param word  the instruction: one that waits for an interrupt gets one
 */
bool machine_step(struct machine *m, uint32_t word);

/** Let it run until it comes from user mode to a vector of the kernel. */
bool machine_run_to_entry(struct machine *m);

#endif
