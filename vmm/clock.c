/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's counter stands still while the guest is stopped; see docs/timekeeping.md. */
#include "vmm/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/log.h"

/* Linux 6.4; the headers built against may be older than the kernel run on. */
#ifndef KVM_CAP_COUNTER_OFFSET
#define KVM_CAP_COUNTER_OFFSET 227
#endif
#ifndef KVM_ARM_SET_COUNTER_OFFSET
struct kvm_arm_counter_offset {
	__u64 counter_offset;
	__u64 reserved;
};
#define KVM_ARM_SET_COUNTER_OFFSET _IOW(KVMIO, 0xb5, struct kvm_arm_counter_offset)
#endif

/* The guest's counters become the host's minus @p offset. Fails (EBUSY) when a vCPU is running. */
static bool set_offset(struct vmm *vm, uint64_t offset)
{
	struct kvm_arm_counter_offset o = { .counter_offset = offset };

	if (ioctl(vm->vm_fd, KVM_ARM_SET_COUNTER_OFFSET, &o))
		return false;
	vm->counter_offset = offset;
	return true;
}

/* KVM_REG_ARM_TIMER_CNT and _CVAL are swapped in the ABI: use the macros, not the encodings. */
static bool counter_get(struct vmm *vm, uint64_t *count_out)
{
	return vmm_regs_get(&vm->vcpus[0], KVM_REG_ARM_TIMER_CNT, count_out) == GS_OK;
}

/*
 * KVM starts the virtual counter of a guest at 0 and leaves the physical one alone. Where it can
 * offset both, do so from the start, as from then on it ignores writes to the single ones.
 */
void vmm_clock_init(struct vmm *vm)
{
	uint64_t host;

	vm->has_counter_offset =
		ioctl(vm->vm_fd, KVM_CHECK_EXTENSION, KVM_CAP_COUNTER_OFFSET) > 0 &&
		set_offset(vm, 0) && counter_get(vm, &host) && set_offset(vm, host);
}

void vmm_clock_hold(struct vmm *vm)
{
	if (!counter_get(vm, &vm->counter_held))
		gs_log(GS_LOG_DEBUG, "reading the guest's counter: %s", strerror(errno));
}

void vmm_clock_release(struct vmm *vm)
{
	uint64_t now;
	bool ok;

	if (vm->has_counter_offset)
		ok = counter_get(vm, &now) &&
		     set_offset(vm, vm->counter_offset + (now - vm->counter_held));
	else
		ok = vmm_regs_set(&vm->vcpus[0], KVM_REG_ARM_TIMER_CNT, vm->counter_held) == GS_OK;
	// The guest goes on all the same; its clocks then show the stop.
	if (!ok)
		gs_log(GS_LOG_DEBUG, "setting the guest's counter back: %s", strerror(errno));
}
