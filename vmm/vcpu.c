/* SPDX-License-Identifier: Apache-2.0 */
/* A vCPU: its thread, the exits it handles, leaving the guest and coming back. */
#include "vmm/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "vmm/fdt.h"
#include "vmm/pl011.h"

#define REASON_MAX 256

/* --- making it ----------------------------------------------------------------------------- */

enum gs_code vmm_vcpu_create(struct vmm_vcpu *v, const struct kvm_vcpu_init *init,
			     struct gs_error *err)
{
	struct vmm *vm = v->vm;

	// The id must be the index: see vmm/topology.h.
	v->fd = ioctl(vm->vm_fd, KVM_CREATE_VCPU, (unsigned long)v->index);
	if (v->fd < 0)
		return gs_fail_errno(err, GS_ESYS, errno, "vCPU %" PRIu32 ": KVM_CREATE_VCPU",
				     v->index);
	void *run = mmap(NULL, vm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (run == MAP_FAILED)
		return gs_fail_errno(err, GS_ESYS, errno, "vCPU %" PRIu32 ": mapping its kvm_run",
				     v->index);
	v->run = run;

	struct kvm_vcpu_init mine = *init;
	// All but the first wait for PSCI CPU_ON.
	if (v->index)
		mine.features[0] |= 1u << KVM_ARM_VCPU_POWER_OFF;
	if (ioctl(v->fd, KVM_ARM_VCPU_INIT, &mine))
		return gs_fail_errno(err, GS_ESYS, errno, "vCPU %" PRIu32 ": KVM_ARM_VCPU_INIT",
				     v->index);
	return GS_OK;
}

void vmm_vcpu_destroy(struct vmm_vcpu *v)
{
	if (v->run)
		munmap(v->run, v->vm->run_size);
	v->run = NULL;
	if (v->fd >= 0)
		close(v->fd);
	v->fd = -1;
}

/* --- stopping and ending ------------------------------------------------------------------- */

static void set_immediate_exit(struct vmm_vcpu *v, uint8_t value)
{
	// Shared with the kernel, which reads it after the vCPU can take signals.
	__atomic_store_n(&v->run->immediate_exit, value, __ATOMIC_SEQ_CST);
}

static enum vmm_end end_get(struct vmm *vm)
{
	return (enum vmm_end)atomic_load_explicit(&vm->end, memory_order_acquire);
}

void vmm_vcpu_kick_held_locked(struct vmm *vm)
{
	bool all = vm->stop_depth || end_get(vm) != VMM_RUNNING;

	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		struct vmm_vcpu *v = &vm->vcpus[i];

		if (v->state != VCPU_RUNNING || !(all || v->holds))
			continue;
		set_immediate_exit(v, 1);
		(void)pthread_kill(v->thread.id, VMM_SIGNAL_KICK); // not joined yet, so it exists
	}
}

void vmm_end_set(struct vmm *vm, enum vmm_end end)
{
	pthread_mutex_lock(&vm->lock);
	bool first = end_get(vm) == VMM_RUNNING;
	if (first) {
		// Pairs with the acquire in end_get() and vmm_ended(): the report is complete.
		atomic_store_explicit(&vm->end, (int)end, memory_order_release);
		vmm_vcpu_kick_held_locked(vm);
		pthread_cond_broadcast(&vm->resumed);
	}
	pthread_mutex_unlock(&vm->lock);
	if (first && vm->config.on_end)
		vm->config.on_end(vm->config.arg, end);
}

static void tell(struct vmm_vcpu *v, enum vmm_vcpu_event what, uint64_t value)
{
	const struct vmm_config *c = &v->vm->config;

	if (c->on_vcpu)
		c->on_vcpu(c->arg, v->index, what, value);
}

void vmm_vcpu_regs_here(struct vmm *vm, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct vmm_vcpu *v = &vm->vcpus[vcpu];

	// Nobody reads it: nothing is saved while the vCPU runs.
	vmm_regs_save(v, VMM_SAVED_FRAME);
	*regs_out = v->frame;
}

/* Save the registers, for which the lock is not needed: all vCPUs do it side by side. */
static void save_unlocked(struct vmm_vcpu *v, enum vmm_saved what)
{
	pthread_mutex_unlock(&v->vm->lock);
	vmm_regs_save(v, what);
	tell(v, VMM_VCPU_STOP, 0);
	pthread_mutex_lock(&v->vm->lock);
	atomic_store_explicit(&v->saved, what, memory_order_release);
}

/* Wait while a stop or a hold is in force. @return false: the guest has ended */
static bool vcpu_may_run(struct vmm_vcpu *v)
{
	struct vmm *vm = v->vm;

	pthread_mutex_lock(&vm->lock);
	while (end_get(vm) == VMM_RUNNING && (vm->stop_depth || v->holds)) {
		enum vmm_saved what = vm->stop_depth ? VMM_SAVED_ALL : VMM_SAVED_FRAME;

		if (atomic_load_explicit(&v->saved, memory_order_relaxed) < what) {
			save_unlocked(v, what);
			continue; // the stop may be over
		}
		v->state = VCPU_PARKED;
		pthread_cond_broadcast(&vm->left); // several may be stopping
		pthread_cond_wait(&vm->resumed, &vm->lock);
	}
	bool may = end_get(vm) == VMM_RUNNING;
	bool resumed =
		may && atomic_load_explicit(&v->saved, memory_order_relaxed) != VMM_SAVED_NONE;
	if (may) {
		set_immediate_exit(v, 0);
		atomic_store_explicit(&v->saved, VMM_SAVED_NONE, memory_order_relaxed);
		v->state = VCPU_RUNNING;
	}
	pthread_mutex_unlock(&vm->lock);
	if (resumed)
		tell(v, VMM_VCPU_RESUME, 0);
	return may;
}

static void vcpu_leave(struct vmm_vcpu *v)
{
	struct vmm *vm = v->vm;

	pthread_mutex_lock(&vm->lock);
	if (atomic_load_explicit(&v->saved, memory_order_relaxed) < VMM_SAVED_ALL)
		save_unlocked(v, VMM_SAVED_ALL);
	v->state = VCPU_ENDED;
	pthread_cond_broadcast(&vm->left);
	pthread_mutex_unlock(&vm->lock);
}

/* --- exits --------------------------------------------------------------------------------- */

/* @return VMM_END_ERROR; the first caller's report is the one that stays */
static enum vmm_end __attribute__((format(printf, 2, 3)))
fail(struct vmm_vcpu *v, const char *fmt, ...)
{
	struct vmm *vm = v->vm;
	char reason[REASON_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);

	pthread_mutex_lock(&vm->lock);
	bool mine = !vm->report_taken && end_get(vm) == VMM_RUNNING;
	vm->report_taken |= mine;
	pthread_mutex_unlock(&vm->lock);
	if (mine)
		vmm_regs_report(v, reason);
	return VMM_END_ERROR;
}

static enum vmm_end exit_mmio(struct vmm_vcpu *v)
{
	struct vmm *vm = v->vm;
	struct kvm_run *run = v->run;
	uint64_t at = run->mmio.phys_addr;
	size_t len = gs_min(run->mmio.len, sizeof(run->mmio.data));
	uint64_t value = 0;

	bool console = gs_in_range(at, len, VMM_CONSOLE_BASE, VMM_PL011_SIZE);
	if (!console)
		atomic_fetch_add_explicit(&vm->unknown_mmio, 1, memory_order_relaxed);
	if (run->mmio.is_write) {
		memcpy(&value, run->mmio.data, len);
		if (console)
			vmm_console_write(vm->console, at - VMM_CONSOLE_BASE, value);
		return VMM_RUNNING;
	}
	if (console)
		value = vmm_console_read(vm->console, at - VMM_CONSOLE_BASE);
	memcpy(run->mmio.data, &value, len);
	return VMM_RUNNING;
}

static enum vmm_end exit_system_event(struct vmm_vcpu *v)
{
	switch (v->run->system_event.type) {
	case KVM_SYSTEM_EVENT_SHUTDOWN: return VMM_END_POWEROFF;
	case KVM_SYSTEM_EVENT_RESET: return VMM_END_REBOOT;
	case KVM_SYSTEM_EVENT_CRASH: return VMM_END_CRASH;
	default:
		return fail(v, "KVM reports system event %" PRIu32 ", which is not known here",
			    (uint32_t)v->run->system_event.type);
	}
}

static enum vmm_end handle_exit(struct vmm_vcpu *v)
{
	struct kvm_run *run = v->run;

	if (run->exit_reason == KVM_EXIT_MMIO)
		tell(v, VMM_VCPU_EXIT_MMIO, run->mmio.phys_addr);
	else
		tell(v, VMM_VCPU_EXIT_OTHER, run->exit_reason);
	switch (run->exit_reason) {
	case KVM_EXIT_MMIO: return exit_mmio(v);
	case KVM_EXIT_SYSTEM_EVENT: return exit_system_event(v);
	case KVM_EXIT_INTR: return VMM_RUNNING;
	case KVM_EXIT_DEBUG:
		return vmm_debug_exit(v) ? VMM_RUNNING
					 : fail(v, "a breakpoint could not be handled");
	case KVM_EXIT_ARM_NISV:
		return fail(v,
			    "the guest accessed guest-physical %#" PRIx64
			    ", where there is no RAM, with an instruction that the CPU does not "
			    "describe "
			    "(no valid syndrome, ISS %#" PRIx64
			    "): a pair, an atomic, a vector or a write-back access to a device",
			    (uint64_t)run->arm_nisv.fault_ipa, (uint64_t)run->arm_nisv.esr_iss);
	case KVM_EXIT_FAIL_ENTRY:
		return fail(v, "the CPU refused to enter the guest, hardware reason %#" PRIx64,
			    (uint64_t)run->fail_entry.hardware_entry_failure_reason);
	case KVM_EXIT_INTERNAL_ERROR:
		return fail(v, "KVM reports an internal error, suberror %" PRIu32,
			    (uint32_t)run->internal.suberror);
	default:
		return fail(v,
			    "KVM_RUN returned with exit reason %" PRIu32 ", which is not handled",
			    (uint32_t)run->exit_reason);
	}
}

static enum vmm_end run_failed(struct vmm_vcpu *v, int e)
{
	switch (e) {
	case ENOSYS:
		return fail(v, "the guest accessed an address without RAM, with an instruction "
			       "that the CPU "
			       "does not describe (no valid syndrome)");
	case EFAULT:
		return fail(
			v,
			"the host could not provide a page of the guest's RAM (out of memory, or a "
			"damaged page): %s",
			strerrordesc_np(e));
	default: {
		const char *text = strerrordesc_np(e);
		return fail(v, "KVM_RUN failed: %s (%d)", text ? text : "unknown error", e);
	}
	}
}

/* Run until kicked. @return VMM_RUNNING: kicked; how the guest ended otherwise */
static enum vmm_end run_guest(struct vmm_vcpu *v)
{
	for (;;) {
		enum vmm_end end = VMM_RUNNING;

		if (ioctl(v->fd, KVM_RUN, 0) == 0) {
			end = handle_exit(v);
		} else if (errno == EINTR) {
			tell(v, VMM_VCPU_EXIT_INTERRUPTED, 0);
			return VMM_RUNNING;
		} else if (errno != EAGAIN) {
			end = run_failed(v, errno);
		}
		if (end)
			return end;
	}
}

static void vcpu_main(void *arg)
{
	struct vmm_vcpu *v = arg;

	while (vcpu_may_run(v)) {
		enum vmm_end end =
			vmm_debug_sync(v) ? run_guest(v) : fail(v, "KVM_SET_GUEST_DEBUG failed");
		if (end)
			vmm_end_set(v->vm, end);
	}
	vcpu_leave(v);
}

enum gs_code vmm_vcpu_start(struct vmm_vcpu *v, struct gs_error *err)
{
	char name[16];

	snprintf(name, sizeof(name), "vcpu%" PRIu32, v->index);
	return vmm_thread_start(&v->thread, name, true, vcpu_main, v, err);
}
