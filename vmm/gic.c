/* SPDX-License-Identifier: Apache-2.0 */
/* The interrupt controller: KVM's GICv3. */
#include "vmm/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/log.h"
#include "vmm/fdt.h"

/* Private ones included; a multiple of 32, at least 64
 * (Documentation/virt/kvm/devices/arm-vgic-v3). */
#define GIC_IRQS 64

static enum gs_code set_attr(struct vmm *vm, uint32_t group, uint64_t attr, void *value,
			     const char *what, struct gs_error *err)
{
	struct kvm_device_attr a = { .group = group, .attr = attr, .addr = (uintptr_t)value };

	if (ioctl(vm->gic_fd, KVM_SET_DEVICE_ATTR, &a))
		return gs_fail_errno(err, GS_ESYS, errno, "GICv3: setting %s", what);
	return GS_OK;
}

enum gs_code vmm_gic_create(struct vmm *vm, struct gs_error *err)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_ARM_VGIC_V3 };
	uint64_t dist = VMM_GICD_BASE, redist = VMM_GICR_BASE;
	uint32_t irqs = GIC_IRQS;

	if (ioctl(vm->vm_fd, KVM_CREATE_DEVICE, &device)) {
		int e = errno;

		return gs_fail_errno(
			err, e == ENODEV || e == EINVAL ? GS_ENOTSUP : GS_ESYS, e,
			"this host's KVM offers no GICv3 (its interrupt controller is older, "
			"or hides it); guestshot's own guests need one, libvirt and dump "
			"sources do not");
	}
	vm->gic_fd = (int)device.fd;

	enum gs_code rc = set_attr(vm, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_VGIC_V3_ADDR_TYPE_DIST, &dist,
				   "the distributor's address", err);
	// One region for all vCPUs, of whatever number.
	if (!rc)
		rc = set_attr(vm, KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_VGIC_V3_ADDR_TYPE_REDIST, &redist,
			      "the redistributors' address", err);
	if (!rc)
		rc = set_attr(vm, KVM_DEV_ARM_VGIC_GRP_NR_IRQS, 0, &irqs,
			      "the number of interrupts", err);
	return rc;
}

enum gs_code vmm_gic_init(struct vmm *vm, struct gs_error *err)
{
	return set_attr(vm, KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_DEV_ARM_VGIC_CTRL_INIT, NULL, "it up",
			err);
}

void vmm_gic_console_irq(void *arg, bool level)
{
	struct vmm *vm = arg;
	struct kvm_irq_level line = {
		.irq = KVM_ARM_IRQ_TYPE_SPI << KVM_ARM_IRQ_TYPE_SHIFT | (32 + VMM_SPI_CONSOLE),
		.level = level,
	};

	// Fails for an unknown number only, and this one is fixed.
	if (ioctl(vm->vm_fd, KVM_IRQ_LINE, &line))
		gs_log(GS_LOG_DEBUG, "console interrupt: %s", strerror(errno));
}
