/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal ARM64 machine on KVM that offers itself as a guest to the introspector. */
#ifndef VMM_VMM_H
#define VMM_VMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

/*
 *	struct vmm *vm;
 *	if (vmm_create(&config, &vm, &err) || vmm_start(vm, &err))
 *		…
 *	struct guest *g = vmm_guest(vm);	// valid until vmm_destroy
 *	…
 *	vmm_kill(vm);				// or wait for on_end
 *	vmm_destroy(vm);
 *
 * Guest-physical memory map (everything not named is unmapped):
 *
 *	0x0800_0000  GICv3 distributor		64 KiB
 *	0x080a_0000  GICv3 redistributors	128 KiB for each vCPU
 *	0x0900_0000  PL011 console		4 KiB, SPI 1
 *	0x4000_0000  RAM			config.ram_bytes
 */

#define VMM_RAM_BASE		   UINT64_C(0x40000000)
#define VMM_RAM_MIN		   (UINT64_C(64) << 20)
#define VMM_CPUS_MAX		   64
#define VMM_CMDLINE_MAX		   2048 /* COMMAND_LINE_SIZE of arm64 Linux, NUL included */
#define VMM_CONSOLE_BUFFER_DEFAULT (UINT64_C(4) << 20)

/** Why a guest no longer runs. */
enum vmm_end {
	VMM_RUNNING = 0,
	VMM_END_POWEROFF, /* PSCI SYSTEM_OFF */
	VMM_END_REBOOT,	  /* PSCI SYSTEM_RESET or SYSTEM_RESET2 */
	VMM_END_CRASH,	  /* PSCI-reported crash event (KVM_SYSTEM_EVENT_CRASH) */
	VMM_END_ERROR,	  /* KVM could not go on; vmm_end_report() has the registers */
	VMM_END_KILLED,	  /* vmm_kill() */
};

/** What a vCPU does, for vmm_config.on_vcpu(). */
enum vmm_vcpu_event {
	VMM_VCPU_EXIT_MMIO, /* it left the guest for a device; value: guest-physical address */
	VMM_VCPU_EXIT_INTERRUPTED, /* it was made leave */
	VMM_VCPU_EXIT_OTHER,	   /* value: KVM_EXIT_* */
	VMM_VCPU_STOP,		   /* a stop, or a hold of it alone, keeps it out of the guest */
	VMM_VCPU_RESUME,
};

struct vmm_config {
	const char
		*kernel_path; /* ARM64 Image, plain, gzip-compressed, or an EFI zboot with gzip */
	const char *initrd_path; /* NULL: none */
	const char *cmdline;	 /* NULL: empty */
	uint64_t ram_bytes;	 /* VMM_RAM_MIN and up; rounded up to a host page */
	uint32_t cpus;		 /* 1 … VMM_CPUS_MAX */
	uint32_t clusters;	 /* 1 … cpus; vCPU i is in cluster i / ceil(cpus / clusters) */

	int console_in;	 /* descriptor the guest's console input is read from; -1: none; borrowed */
	int console_out; /* where its output goes; -1: nowhere; borrowed; made non-blocking never */
	uint64_t console_buffer; /* bytes kept for a slow reader; 0: VMM_CONSOLE_BUFFER_DEFAULT */

	/**
	 * Gets all console output in order, also what a slow console_out has to drop; called on the
	 * console thread; must not block for long. May be NULL.
	 */
	void (*on_console)(void *arg, const char *bytes, size_t len);
	/**
	 * Called once, on a vCPU's or the killer's thread, when the guest has ended; meant to wake
	 * an event loop. Must not call back into the vmm except vmm_ended(). May be NULL.
	 */
	void (*on_end)(void *arg, enum vmm_end end);
	/**
	 * Called on a vCPU's thread at each of its events; must be quick, and must not call back into
	 * the vmm except, of an exit, vmm_vcpu_regs_here(). May be NULL.
	 */
	void (*on_vcpu)(void *arg, uint32_t vcpu, enum vmm_vcpu_event what, uint64_t value);
	void *arg; /* of all */
};

struct vmm_status {
	enum vmm_end end;
	uint32_t stop_depth;	  /* stops in force */
	uint64_t uptime_ns;	  /* since vmm_start() */
	uint64_t stopped_ns;	  /* total time between stop and resume */
	uint64_t stop_count;	  /* outermost stops so far */
	uint64_t console_bytes;	  /* written by the guest */
	uint64_t console_dropped; /* of these, lost to a slow reader of console_out or on_console */
	uint64_t unknown_mmio;	  /* accesses to no device: reads are 0, writes ignored */
	uint32_t vcpus_on;	  /* as of the last stop; 0 before the first */
};

struct vmm;

/**
 * Open KVM, make the machine and load the kernel; nothing runs yet.
 *
 * @param config borrowed for the call, its descriptors, callbacks and arg until vmm_destroy()
 * @param vm_out returned: free with vmm_destroy()
 * @return GS_OK; GS_ENOENT: a file or /dev/kvm is not there; GS_EDENIED; GS_EMALFORMED: not an
 *         Image; GS_ETOOBIG: does not fit into RAM; GS_ENOTSUP: something this host's KVM or CPU
 *         cannot do; GS_EINVAL: a number out of range; GS_ENOSPC; GS_ESYS. The text
 *         says what to do about it. on_end is not called for a machine that was not made.
 */
GS_MUST_USE enum gs_code vmm_create(const struct vmm_config *config, struct vmm **vm_out,
				    struct gs_error *err);

/**
 * Start the vCPU and console threads; takes the signal SIGRTMIN for the process.
 *
 * @return GS_OK; GS_EBUSY: started or killed before; GS_ESYS: a thread did not start, and the guest
 *         counts as killed without a call of on_end
 */
GS_MUST_USE enum gs_code vmm_start(struct vmm *vm, struct gs_error *err);

/**
 * The machine as a guest; borrowed, valid until vmm_destroy().
 *
 * Stop works in every state: before vmm_start(), which then starts nothing until the resume; during
 * and after the end, when each vCPU has its last registers. It fails with GS_ETIMEDOUT, and is
 * undone, when a vCPU does not leave the guest within 10 s (a host that hangs in a page fault).
 * Resume without a stop is GS_EBUSY. The guest's clocks stand still: docs/timekeeping.md.
 */
struct guest *vmm_guest(struct vmm *vm);

/**
 * Registers of a vCPU that has just left the guest, those of GUEST_REGS_FRAME at least.
 *
 * Threads: its own, within on_vcpu() for an exit.
 */
void vmm_vcpu_regs_here(struct vmm *vm, uint32_t vcpu, struct guest_vcpu_regs *regs_out);

/** Whether and why the guest has ended. Threads: any. */
enum vmm_end vmm_ended(const struct vmm *vm);

/**
 * What is known about an end by error: reason and the vCPU's registers, several lines.
 * @return a string that lives as long as the vm; empty unless VMM_END_ERROR
 */
const char *vmm_end_report(const struct vmm *vm);

/** Counters; Threads: any. */
void vmm_status_get(const struct vmm *vm, struct vmm_status *status_out);

/** End the guest now, in every state, also stopped; no-op when it has ended. Threads: any. */
void vmm_kill(struct vmm *vm);

/**
 * Kill if needed, join all threads, hand on the rest of the console (at most 1 s), free.
 * Takes NULL. Nobody may be inside of stop or resume. on_end may be called by it, as by vmm_kill().
 */
void vmm_destroy(struct vmm *vm);

#endif
