/* SPDX-License-Identifier: Apache-2.0 */
/* The machine from inside: what the KVM part of this room shares. */
#ifndef VMM_MACHINE_H
#define VMM_MACHINE_H

/*
 * Stopping. A vCPU is out of the guest unless it is VCPU_RUNNING; it becomes that, and only that,
 * in vcpu_may_run(), under the lock, when no stop, no hold of it alone and no end is in force.
 * Whoever wants it out sets immediate_exit under the same lock and then kicks; vcpu_may_run()
 * clears immediate_exit. So either the vCPU sees the stop before it runs, or the stop sees it
 * running: no kick is lost.
 *
 * A vCPU's thread looks for a stop only after KVM_RUN has returned EINTR, which with immediate_exit
 * set it does after completing the access of the last exit: registers are then whole.
 *
 * Lock order: vmm.lock is never held together with the console's.
 */

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "introspect/guest/guest.h"
#include "vmm/boot.h"
#include "vmm/breaks.h"
#include "vmm/console.h"
#include "vmm/memory.h"
#include "vmm/thread.h"
#include "vmm/topology.h"
#include "vmm/vmm.h"

#define VMM_REPORT_MAX 8192

enum vmm_vcpu_state {
	VCPU_NEW,     /* its thread has not reached the guest yet */
	VCPU_RUNNING, /* in KVM_RUN or handling an exit */
	VCPU_PARKED,  /* held by a stop */
	VCPU_ENDED,   /* never runs again */
};

struct vmm_vcpu {
	struct vmm *vm;
	uint32_t index;
	int fd;
	struct kvm_run *run; /* NULL: not mapped */
	struct vmm_thread thread;
	enum vmm_vcpu_state state; /* vmm.lock */
	uint32_t holds;		   /* of this vCPU alone; vmm.lock */
	/*
	 * Set (release) once what it says is saved, cleared before the vCPU runs again; pairs with
	 * the acquire in guest_op_vcpu_regs().
	 */
	_Atomic uint32_t saved; /* enum vmm_saved */
	struct guest_vcpu_regs
		frame; /* VMM_SAVED_FRAME: not written again when all are saved later */
	struct guest_vcpu_regs regs; /* VMM_SAVED_ALL */

	/* of its thread alone */
	uint64_t debug_seen; /* generation of the breaks that KVM was told of for it */
	struct {
		bool is_on;	/* it executes one instruction that a break stands on */
		uint64_t masks; /* PSTATE.DAIF before */
	} step;
};

/** How much of a vCPU's registers; each ioctl takes its time, and a sample needs nine of fifty. */
enum vmm_saved {
	VMM_SAVED_NONE,
	VMM_SAVED_FRAME,
	VMM_SAVED_ALL,
};

struct vmm {
	int kvm_fd, vm_fd, gic_fd;
	size_t run_size;
	struct vmm_config config; /* strings and paths are not valid after vmm_create() */
	struct vmm_topology topology;
	struct vmm_memory memory;
	struct vmm_boot boot;
	struct vmm_console *console;
	struct vmm_vcpu vcpus[VMM_CPUS_MAX];
	struct guest guest;
	struct guest_range range;

	pthread_mutex_t lock; /* guards what follows, up to the atomics */
	bool lock_made;
	pthread_cond_t left;	/* a vCPU is no longer running */
	pthread_cond_t resumed; /* a stop or hold is over, or the guest has ended */
	bool started;
	uint32_t stop_depth;
	bool held; /* all vCPUs are out and the counter stands */
	uint64_t held_since_ns;
	uint64_t started_ns;
	uint64_t stopped_ns;
	uint64_t stop_count;
	uint32_t vcpus_on;
	bool report_taken;
	bool has_counter_offset;
	uint64_t counter_offset; /* in force, when has_counter_offset */
	uint64_t counter_held;	 /* virtual counter at the stop */

	struct {
		bool can;	       /* constant */
		uint32_t hardware_max; /* constant */
		uint64_t generation;   /* of breaks; lock, and all vCPUs are out when it changes */
		_Atomic(struct vmm_breaks *) breaks; /* NULL: never set; as generation */
		_Atomic uint32_t readers; /* other than vCPUs' threads, looking at breaks */
		_Atomic uint64_t hits, given_back, overwritten;
	} debug;

	_Atomic int end; /* enum vmm_end; written under the lock, release; read anywhere, acquire */
	_Atomic uint64_t unknown_mmio;
	char report[VMM_REPORT_MAX]; /* written before end becomes VMM_END_ERROR, constant after */
};

/* --- regs.c: a vCPU's registers; its thread, or one that knows that it is out of the guest --- */

/** @param what  goes to v->frame or v->regs */
void vmm_regs_save(struct vmm_vcpu *v, enum vmm_saved what);

/** Where the boot vCPU starts. */
GS_MUST_USE enum gs_code vmm_regs_boot(struct vmm_vcpu *v, uint64_t pc, uint64_t x0,
				       struct gs_error *err);

GS_MUST_USE enum gs_code vmm_regs_get(struct vmm_vcpu *v, uint64_t id, uint64_t *value_out);
GS_MUST_USE enum gs_code vmm_regs_set(struct vmm_vcpu *v, uint64_t id, uint64_t value);

/** All of the registers as they are, into @p regs_out; groups that cannot be read are not valid. */
void vmm_regs_read(struct vmm_vcpu *v, struct guest_vcpu_regs *regs_out);

/** @param reg  a number of execute.h: 0 to 30, enum vmm_execute_reg */
GS_MUST_USE enum gs_code vmm_regs_get_execute(struct vmm_vcpu *v, uint32_t reg,
					      uint64_t *value_out);
GS_MUST_USE enum gs_code vmm_regs_set_execute(struct vmm_vcpu *v, uint32_t reg, uint64_t value);

GS_MUST_USE enum gs_code vmm_regs_set_spsr(struct vmm_vcpu *v, uint64_t spsr);

/** What an exception to EL1 leaves: ELR_EL1, SPSR_EL1, ESR_EL1. */
GS_MUST_USE enum gs_code vmm_regs_set_exception(struct vmm_vcpu *v, uint64_t elr, uint64_t spsr,
						uint64_t esr);

/** Fill vm->report, from @p reason and the vCPU's registers. */
void vmm_regs_report(struct vmm_vcpu *v, const char *reason);

/** MPIDR_EL1 of a vCPU as KVM has it. */
GS_MUST_USE enum gs_code vmm_regs_mpidr(struct vmm_vcpu *v, uint64_t *mpidr_out);

/** @return GS_OK; GS_ENOTSUP: the CPU has no translation granule of @p page_size bytes */
GS_MUST_USE enum gs_code vmm_regs_check_granule(struct vmm_vcpu *v, uint32_t page_size,
						struct gs_error *err);

/* --- clock.c: the guest's counter; all vCPUs are out of the guest --------------------------- */

void vmm_clock_init(struct vmm *vm);
void vmm_clock_hold(struct vmm *vm);
void vmm_clock_release(struct vmm *vm);

/* --- debug.c: breaks ------------------------------------------------------------------------- */

extern const struct guest_break_ops vmm_debug_ops;

void vmm_debug_init(struct vmm *vm);
void vmm_debug_deinit(struct vmm *vm);
/** Tell KVM of new breaks, before the vCPU runs; its thread. @return false: KVM refuses */
bool vmm_debug_sync(struct vmm_vcpu *v);
/** KVM_EXIT_DEBUG; the vCPU's thread. @return false: KVM refuses */
bool vmm_debug_exit(struct vmm_vcpu *v);

/* --- gic.c ---------------------------------------------------------------------------------- */

/** Before the vCPUs. @return GS_OK; GS_ENOTSUP: no GICv3 on this host; GS_ESYS */
GS_MUST_USE enum gs_code vmm_gic_create(struct vmm *vm, struct gs_error *err);
/** After the vCPUs. */
GS_MUST_USE enum gs_code vmm_gic_init(struct vmm *vm, struct gs_error *err);
/** Level of a shared interrupt; for the console. */
void vmm_gic_console_irq(void *vm, bool level);

/* --- vcpu.c --------------------------------------------------------------------------------- */

GS_MUST_USE enum gs_code vmm_vcpu_create(struct vmm_vcpu *v, const struct kvm_vcpu_init *init,
					 struct gs_error *err);
void vmm_vcpu_destroy(struct vmm_vcpu *v);
GS_MUST_USE enum gs_code vmm_vcpu_start(struct vmm_vcpu *v, struct gs_error *err);

/**
 * Make the running vCPUs that are held leave the guest, all of them when a stop is in force or the
 * guest has ended; vmm.lock is held.
 */
void vmm_vcpu_kick_held_locked(struct vmm *vm);

/** End the guest, once; calls on_end. vmm.lock is not held. */
void vmm_end_set(struct vmm *vm, enum vmm_end end);

#endif
