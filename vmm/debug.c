/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks by KVM's guest debug: hardware breakpoints and BRKs, and giving the guest its own back. */
#include "vmm/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/util.h"
#include "vmm/execute.h"

/*
 * The set in force changes only while all vCPUs are out of the guest, so that a vCPU's thread looks
 * at it without a lock. It tells KVM by itself, when it next runs: a vCPU that is in the middle of a
 * step ends that first.
 *
 * A hit is told, and the instruction is executed for the guest (execute.h). What only the CPU can
 * execute has a hardware breakpoint: those are each vCPU's own, and are out of force for this one
 * while it takes a single step with interrupts masked.
 *
 * Origin: Documentation/virt/kvm/api.rst, KVM_SET_GUEST_DEBUG; arch/arm64/kvm/debug.c.
 */

/* Exception classes: Arm ARM (DDI 0487) D24.2.40, ESR_ELx.EC */
enum exception_class {
	EC_BREAKPOINT = 0x30,
	EC_STEP = 0x32,
	EC_BKPT_32 = 0x38,
	EC_BRK = 0x3c,
};

#define ESR_IL (1u << 25) /* an instruction of 32 bits */

/* DBGBCR<n>_EL1 (D24.3.2): enabled; at EL1 only; all four bytes of an instruction */
#define BCR_EL1_INSN (UINT64_C(1) | UINT64_C(1) << 1 | UINT64_C(0xf) << 5)

#define PSTATE_EL1H   UINT64_C(5)
#define PSTATE_SP     UINT64_C(1)
#define PSTATE_EL     UINT64_C(0xc)
#define PSTATE_32     UINT64_C(0x10)
#define PSTATE_MASKS  UINT64_C(0x3c0) /* D, A, I, F */
#define PSTATE_SSBS   (UINT64_C(1) << 12)
#define PSTATE_PAN    (UINT64_C(1) << 22)
#define PSTATE_DIT    (UINT64_C(1) << 24)
#define PSTATE_FLAGS  (UINT64_C(0xf) << 28)
#define SCTLR_SPAN    (UINT64_C(1) << 23)
#define SCTLR_DSSBS   (UINT64_C(1) << 44)
#define VECTORS_SIZE  0x800u
#define VECTOR_SYNC_1 0x200u /* of the four groups of vectors: those from EL1 with SP_EL1 */

void vmm_debug_init(struct vmm *vm)
{
	int count = ioctl(vm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_GUEST_DEBUG_HW_BPS);

	vm->debug.hardware_max =
		(uint32_t)gs_min((uint64_t)(count > 0 ? count : 0), KVM_ARM_MAX_DBG_REGS);
	vm->debug.can = ioctl(vm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_SET_GUEST_DEBUG) > 0;
}

void vmm_debug_deinit(struct vmm *vm)
{
	free(atomic_load_explicit(&vm->debug.breaks, memory_order_relaxed));
	atomic_store_explicit(&vm->debug.breaks, NULL, memory_order_relaxed);
}

/* For vCPUs' threads, and for who has all of them out of the guest. */
static struct vmm_breaks *breaks_of(struct vmm *vm)
{
	return atomic_load_explicit(&vm->debug.breaks, memory_order_acquire);
}

static struct vmm_breaks_ram ram_of(struct vmm *vm)
{
	return (struct vmm_breaks_ram){ VMM_RAM_BASE, vm->memory.host, vm->memory.size };
}

/* --- telling KVM ---------------------------------------------------------------------------- */

static bool tell_kvm(struct vmm_vcpu *v)
{
	const struct vmm_breaks *b = breaks_of(v->vm);
	struct kvm_guest_debug debug = { 0 };
	uint32_t slot = 0;

	if (b && b->count)
		debug.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_SW_BP;
	if (v->step.is_on) {
		debug.control |= KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP;
	} else if (b && b->hardware) {
		debug.control |= KVM_GUESTDBG_USE_HW;
		for (uint32_t i = 0; i < b->count && slot < KVM_ARM_MAX_DBG_REGS; i++) {
			if (!b->list[i].is_hardware)
				continue;
			debug.arch.dbg_bcr[slot] = BCR_EL1_INSN;
			debug.arch.dbg_bvr[slot++] = b->list[i].where.va;
		}
	}
	return ioctl(v->fd, KVM_SET_GUEST_DEBUG, &debug) == 0;
}

bool vmm_debug_sync(struct vmm_vcpu *v)
{
	// Written while this vCPU was out of the guest, under the lock that it has taken since.
	uint64_t now = v->vm->debug.generation;

	if (v->debug_seen == now || v->step.is_on)
		return true;
	v->debug_seen = now;
	return tell_kvm(v);
}

/* --- stepping over -------------------------------------------------------------------------- */

static bool step_begin(struct vmm_vcpu *v)
{
	uint64_t pstate;

	if (vmm_regs_get_execute(v, VMM_EXECUTE_PSTATE, &pstate))
		return false;
	v->step.is_on = true;
	v->step.masks = pstate & PSTATE_MASKS;
	// An interrupt would be taken before the instruction.
	return !vmm_regs_set_execute(v, VMM_EXECUTE_PSTATE, pstate | PSTATE_MASKS) && tell_kvm(v);
}

/* The masks are again what they were: in PSTATE, or where an exception of the step has saved it. */
static bool step_end(struct vmm_vcpu *v)
{
	struct guest_vcpu_regs r;

	vmm_regs_read(v, &r);
	if ((r.valid & (GUEST_REGS_GENERAL | GUEST_REGS_EXC | GUEST_REGS_VBAR)) !=
	    (GUEST_REGS_GENERAL | GUEST_REGS_EXC | GUEST_REGS_VBAR))
		return false;
	v->step.is_on = false;
	v->debug_seen = v->vm->debug.generation;
	bool took_exception = r.pc - r.vbar_el1 < VECTORS_SIZE;
	uint64_t pstate = took_exception ? r.spsr_el1 : r.pstate;
	pstate = (pstate & ~PSTATE_MASKS) | v->step.masks;
	enum gs_code rc = took_exception ? vmm_regs_set_spsr(v, pstate)
					 : vmm_regs_set_execute(v, VMM_EXECUTE_PSTATE, pstate);
	return !rc && tell_kvm(v);
}

/* --- exits ---------------------------------------------------------------------------------- */

static bool cpu_get(void *v, uint32_t reg, uint64_t *value_out)
{
	return !vmm_regs_get_execute(v, reg, value_out);
}

static bool cpu_set(void *v, uint32_t reg, uint64_t value)
{
	return !vmm_regs_set_execute(v, reg, value);
}

static bool fetch(void *arg, struct guest_vcpu_regs *regs_out)
{
	vmm_regs_read(arg, regs_out);
	return regs_out->valid & GUEST_REGS_GENERAL;
}

/*
 * Let the guest have a breakpoint that it made itself: what the CPU would have done, if KVM had not
 * been asked to take them (Arm ARM, AArch64.TakeException()). Its stack pointer is that of EL1 already.
 */
static bool give_back(struct vmm_vcpu *v, uint32_t syndrome)
{
	struct guest_vcpu_regs r;
	uint64_t vector;

	atomic_fetch_add_explicit(&v->vm->debug.given_back, 1, memory_order_relaxed);
	vmm_regs_read(v, &r);
	if ((r.valid & (GUEST_REGS_GENERAL | GUEST_REGS_MMU | GUEST_REGS_VBAR)) !=
	    (GUEST_REGS_GENERAL | GUEST_REGS_MMU | GUEST_REGS_VBAR))
		return false;
	if (r.pstate & PSTATE_EL)
		vector = r.pstate & PSTATE_SP ? VECTOR_SYNC_1 : 0;
	else
		vector = r.pstate & PSTATE_32 ? 3 * VECTOR_SYNC_1 : 2 * VECTOR_SYNC_1;

	uint64_t pstate =
		(r.pstate & (PSTATE_FLAGS | PSTATE_DIT | PSTATE_PAN)) | PSTATE_MASKS | PSTATE_EL1H;
	if (!(r.sctlr_el1 & SCTLR_SPAN))
		pstate |= PSTATE_PAN;
	if (r.sctlr_el1 & SCTLR_DSSBS)
		pstate |= PSTATE_SSBS;
	return !vmm_regs_set_exception(v, r.pc, r.pstate, syndrome) &&
	       !vmm_regs_set_execute(v, VMM_EXECUTE_PSTATE, pstate) &&
	       !vmm_regs_set_execute(v, VMM_EXECUTE_PC, r.vbar_el1 + vector);
}

static void tell(struct vmm_vcpu *v, const struct vmm_breaks *b, const struct vmm_break *at)
{
	const struct guest_hit h = {
		.where = &at->where, .vcpu = v->index, .fetch = fetch, .arg = v
	};

	atomic_fetch_add_explicit(&v->vm->debug.hits, 1, memory_order_relaxed);
	b->on_hit(b->arg, &h);
}

static bool hit(struct vmm_vcpu *v, const struct vmm_breaks *b, const struct vmm_break *at)
{
	const struct vmm_execute_cpu cpu = { .get = cpu_get, .set = cpu_set, .arg = v };
	const struct vmm_breaks_ram ram = ram_of(v->vm);

	tell(v, b, at);
	uint32_t insn = vmm_breaks_insn(at, &ram);
	if (guest_insn_is_brk(insn)) // planted by the guest meanwhile, under a hardware breakpoint
		return give_back(v, (uint32_t)EC_BRK << 26 | ESR_IL | (insn >> 5 & 0xffff));
	switch (vmm_execute(&cpu, insn)) {
	case VMM_EXECUTE_DONE: return true;
	case VMM_EXECUTE_UNKNOWN: return step_begin(v);
	case VMM_EXECUTE_FAILED: break;
	}
	return false;
}

static bool on_exception(struct vmm_vcpu *v, uint32_t syndrome)
{
	const struct vmm_breaks *b = breaks_of(v->vm);
	uint32_t class = syndrome >> 26, immediate = syndrome & 0xffff;
	const struct vmm_break *at;
	uint64_t pc;

	if (class == EC_STEP && v->step.is_on)
		return step_end(v);
	if (vmm_regs_get_execute(v, VMM_EXECUTE_PC, &pc))
		return false;
	at = vmm_breaks_find(b, pc);
	switch (class) {
	case EC_BREAKPOINT: return !at || hit(v, b, at);
	case EC_BRK:
		if (at && immediate == GUEST_BREAK_IMMEDIATE)
			return hit(v, b, at);
		if (at) // the guest has put its own over ours
			tell(v, b, at);
		return give_back(v, syndrome);
	case EC_BKPT_32: return give_back(v, syndrome);
	default: return true; // a step that was given up
	}
}

bool vmm_debug_exit(struct vmm_vcpu *v)
{
	return on_exception(v, v->run->debug.arch.hsr);
}

/* --- as a guest ----------------------------------------------------------------------------- */

static void publish(struct vmm *vm, struct vmm_breaks *b, struct vmm_breaks *old)
{
	// With the reader's increment, in one order for all: either it sees the new set, or we see it.
	atomic_store(&vm->debug.breaks, b);
	while (atomic_load(&vm->debug.readers))
		sched_yield();
	free(old);
	vm->debug.generation++;
}

/* All vCPUs are out of the guest, and stay so. */
static enum gs_code replace_locked(struct vmm *vm, const struct guest_break_set *set,
				   struct gs_error *err)
{
	const struct vmm_breaks_ram ram = ram_of(vm);
	struct vmm_breaks *old = breaks_of(vm), *b;
	uint32_t overwritten = old ? vmm_breaks_remove(old, &ram) : 0;
	enum gs_code rc = vmm_breaks_make(set, old, &ram, vm->debug.hardware_max, &b, err);

	if (rc) {
		if (old)
			vmm_breaks_plant(old, &ram);
		return rc;
	}
	vmm_breaks_plant(b, &ram);
	atomic_fetch_add_explicit(&vm->debug.overwritten, overwritten, memory_order_relaxed);
	publish(vm, b, old);
	return GS_OK;
}

static enum gs_code op_set(void *priv, const struct guest_break_set *set, struct gs_error *err)
{
	struct vmm *vm = priv;

	if (!vm->debug.can && set->count)
		return gs_fail(err, GS_ENOTSUP, "this host's KVM does not debug guests");
	enum gs_code rc = guest_stop(&vm->guest, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&vm->lock);
	rc = replace_locked(vm, set, err);
	pthread_mutex_unlock(&vm->lock);
	// One stop was made, so one can be undone.
	(void)guest_resume(&vm->guest, NULL);
	return rc;
}

/* The set in force stays until reading_end(); with publish(), in one order for all. NULL: never set */
static const struct vmm_breaks *reading_begin(struct vmm *vm)
{
	atomic_fetch_add(&vm->debug.readers, 1);
	return atomic_load(&vm->debug.breaks);
}

static void reading_end(struct vmm *vm)
{
	atomic_fetch_sub_explicit(&vm->debug.readers, 1, memory_order_release);
}

static bool op_original(void *priv, uint64_t va, uint32_t *insn_out)
{
	struct vmm *vm = priv;

	const struct vmm_break *at = vmm_breaks_find(reading_begin(vm), va);

	if (at)
		*insn_out = at->insn;
	reading_end(vm);
	return at;
}

static void op_counts(void *priv, struct guest_break_counts *counts_out)
{
	struct vmm *vm = priv;
	struct guest_break_counts c = {
		.hardware_max = vm->debug.hardware_max,
		.hits = atomic_load_explicit(&vm->debug.hits, memory_order_relaxed),
		.given_back = atomic_load_explicit(&vm->debug.given_back, memory_order_relaxed),
		.overwritten = atomic_load_explicit(&vm->debug.overwritten, memory_order_relaxed),
	};

	const struct vmm_breaks *b = reading_begin(vm);
	if (b) {
		c.hardware = b->hardware;
		c.text = b->count - b->hardware;
	}
	reading_end(vm);
	*counts_out = c;
}

const struct guest_break_ops vmm_debug_ops = {
	.set = op_set,
	.original = op_original,
	.counts = op_counts,
};
