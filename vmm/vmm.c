/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal ARM64 machine on KVM: making it, its life, and what it is to the introspector. */
#include "vmm/vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "vmm/fdt.h"
#include "vmm/machine.h"

#define KVM_API 12
/* IPA bits: what KVM gives without being asked, and the least it takes. */
#define IPA_BITS_DEFAULT 40
#define IPA_BITS_MIN	 32
/* A vCPU leaves within microseconds; only a host that hangs in a page fault takes longer. */
#define STOP_DEADLINE_NS (10 * GS_NS_PER_SEC)
#define STOP_REKICK_NS	 (50 * GS_NS_PER_MS)
#define CONSOLE_DRAIN_NS GS_NS_PER_SEC

/* --- making the machine -------------------------------------------------------------------- */

static enum gs_code check_config(const struct vmm_config *config, struct gs_error *err)
{
	size_t cmdline = config->cmdline ? strlen(config->cmdline) : 0;

	if (!config->kernel_path)
		return gs_fail(err, GS_EINVAL, "no kernel given");
	if (config->ram_bytes < VMM_RAM_MIN)
		return gs_fail(err, GS_EINVAL,
			       "%" PRIu64 " KiB of RAM: give at least %" PRIu64 " MiB",
			       config->ram_bytes >> 10, VMM_RAM_MIN >> 20);
	if (config->ram_bytes > INT64_MAX)
		return gs_fail(err, GS_EINVAL, "%" PRIu64 " bytes of RAM: too much for any machine",
			       config->ram_bytes);
	if (cmdline >= VMM_CMDLINE_MAX)
		return gs_fail(err, GS_EINVAL,
			       "the kernel command line has %zu bytes: Linux takes at most %d",
			       cmdline, VMM_CMDLINE_MAX - 1);
	return GS_OK;
}

static enum gs_code open_kvm(struct vmm *vm, struct gs_error *err)
{
	vm->kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (vm->kvm_fd < 0) {
		int e = errno;

		if (e == ENOENT || e == ENXIO || e == ENODEV)
			return gs_fail_errno(
				err, GS_ENOENT, e,
				"open /dev/kvm (this kernel or machine offers no KVM: the kernel "
				"must have started in EL2; in a VM it needs nested "
				"virtualisation)");
		if (e == EACCES || e == EPERM)
			return gs_fail_errno(err, GS_EDENIED, e,
					     "open /dev/kvm (add yourself to group kvm)");
		return gs_fail_errno(err, GS_ESYS, e, "open /dev/kvm");
	}

	int version = ioctl(vm->kvm_fd, KVM_GET_API_VERSION, 0);
	if (version != KVM_API)
		return gs_fail(err, GS_ENOTSUP, "KVM has interface version %d, not %d", version,
			       KVM_API);
	int size = ioctl(vm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(struct kvm_run))
		return gs_fail(err, GS_ESYS, "KVM gives kvm_run a size of %d bytes", size);
	vm->run_size = (size_t)size;
	if (ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_IMMEDIATE_EXIT) <= 0 ||
	    ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_ARM_PSCI_0_2) <= 0)
		return gs_fail(
			err, GS_ENOTSUP,
			"this kernel's KVM is too old (immediate_exit and PSCI 0.2 are needed)");
	return GS_OK;
}

/* Bits needed for guest-physical addresses below @p end. */
static uint32_t address_bits(uint64_t end)
{
	return end > 1 ? 64 - (uint32_t)__builtin_clzll(end - 1) : 1;
}

static enum gs_code create_vm(struct vmm *vm, struct gs_error *err)
{
	// ram_bytes is at most 2^63, so the sum does not wrap.
	uint32_t need = address_bits(VMM_RAM_BASE + vm->config.ram_bytes);
	int limit = ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_ARM_VM_IPA_SIZE);
	uint32_t have = limit > 0 ? (uint32_t)limit : IPA_BITS_DEFAULT;

	if (need > have)
		return gs_fail(err, GS_ENOTSUP,
			       "%" PRIu64 " MiB of RAM: this host's KVM gives guests %" PRIu32
			       " address bits, so at most %" PRIu64 " MiB",
			       vm->config.ram_bytes >> 20, have,
			       ((UINT64_C(1) << have) - VMM_RAM_BASE) >> 20);

	// virt/kvm/kvm_main.c KVM_MEM_MAX_NR_PAGES: one slot has less than 2^31 pages.
	uint64_t slot_max = (uint64_t)INT32_MAX * (uint64_t)sysconf(_SC_PAGESIZE);
	if (vm->config.ram_bytes > slot_max)
		return gs_fail(err, GS_ENOTSUP,
			       "%" PRIu64 " MiB of RAM: KVM takes at most %" PRIu64 " MiB",
			       vm->config.ram_bytes >> 20, slot_max >> 20);

	uint32_t bits =
		(uint32_t)gs_max(gs_max(need, IPA_BITS_MIN), gs_min(have, IPA_BITS_DEFAULT));
	// A kernel without the capability knows no size: type 0 is all it takes.
	vm->vm_fd = ioctl(vm->kvm_fd, KVM_CREATE_VM, (unsigned long)(limit > 0 ? bits : 0));
	if (vm->vm_fd < 0)
		return gs_fail_errno(err, GS_ESYS, errno, "KVM_CREATE_VM");

	// Without it such an access ends KVM_RUN by ENOSYS, without an address.
	struct kvm_enable_cap nisv = { .cap = KVM_CAP_ARM_NISV_TO_USER };
	(void)ioctl(vm->vm_fd, KVM_ENABLE_CAP, &nisv);
	return GS_OK;
}

static enum gs_code create_ram(struct vmm *vm, struct gs_error *err)
{
	enum gs_code rc = vmm_memory_init(&vm->memory, vm->config.ram_bytes, err);
	if (rc)
		return rc;

	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = VMM_RAM_BASE,
		.memory_size = vm->memory.size,
		.userspace_addr = (uintptr_t)vm->memory.host,
	};
	if (ioctl(vm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region))
		return gs_fail_errno(err, GS_ESYS, errno, "giving KVM %" PRIu64 " MiB of guest RAM",
				     vm->memory.size >> 20);
	return GS_OK;
}

static bool has_cap(struct vmm *vm, int cap)
{
	return ioctl(vm->vm_fd, KVM_CHECK_EXTENSION, cap) > 0;
}

static enum gs_code create_vcpus(struct vmm *vm, struct gs_error *err)
{
	struct kvm_vcpu_init init;

	if (ioctl(vm->vm_fd, KVM_ARM_PREFERRED_TARGET, &init))
		return gs_fail_errno(err, GS_ESYS, errno, "KVM_ARM_PREFERRED_TARGET");
	init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
	// Both or none, says KVM.
	if (has_cap(vm, KVM_CAP_ARM_PTRAUTH_ADDRESS) && has_cap(vm, KVM_CAP_ARM_PTRAUTH_GENERIC))
		init.features[0] |=
			1u << KVM_ARM_VCPU_PTRAUTH_ADDRESS | 1u << KVM_ARM_VCPU_PTRAUTH_GENERIC;

	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		enum gs_code rc = vmm_vcpu_create(&vm->vcpus[i], &init, err);
		if (rc)
			return rc;
	}
	return GS_OK;
}

static enum gs_code build_fdt(struct vmm *vm, struct gs_error *err)
{
	uint64_t mpidr[VMM_CPUS_MAX];
	struct vmm_fdt_config fdt = {
		.cmdline = vm->config.cmdline ? vm->config.cmdline : "",
		.ram_base = VMM_RAM_BASE,
		.ram_size = vm->memory.size,
		.initrd = VMM_RAM_BASE + vm->boot.at.initrd,
		.initrd_size = vm->boot.at.initrd_size,
		.topology = &vm->topology,
		.mpidr = mpidr,
	};

	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		if (vmm_regs_mpidr(&vm->vcpus[i], &mpidr[i]))
			return gs_fail_errno(err, GS_ESYS, errno,
					     "vCPU %" PRIu32 ": reading its MPIDR", i);
	}
	// Requests of this size are never cut short (getrandom(2)).
	if (getrandom(&fdt.kaslr_seed, sizeof(fdt.kaslr_seed), 0) < 0 ||
	    getrandom(fdt.rng_seed, sizeof(fdt.rng_seed), 0) < 0)
		return gs_fail_errno(err, GS_ESYS, errno, "random numbers for the guest");
	return vmm_fdt_build(&fdt, vm->memory.host + vm->boot.at.dtb, VMM_BOOT_DTB_MAX, err);
}

static enum gs_code load(struct vmm *vm, struct gs_error *err)
{
	enum gs_code rc = vmm_boot_load(vm->config.kernel_path, vm->config.initrd_path,
					vm->memory.host, vm->memory.size, &vm->boot, err);
	if (!rc)
		rc = vmm_regs_check_granule(&vm->vcpus[0], vm->boot.image.page_size, err);
	if (!rc)
		rc = build_fdt(vm, err);
	if (!rc)
		rc = vmm_regs_boot(&vm->vcpus[0], VMM_RAM_BASE + vm->boot.at.kernel,
				   VMM_RAM_BASE + vm->boot.at.dtb, err);
	return rc;
}

static enum gs_code create_console(struct vmm *vm, struct gs_error *err)
{
	struct vmm_console_config console = {
		.in = vm->config.console_in,
		.out = vm->config.console_out,
		.buffer = vm->config.console_buffer ? vm->config.console_buffer
						    : VMM_CONSOLE_BUFFER_DEFAULT,
		.on_console = vm->config.on_console,
		.arg = vm->config.arg,
		.set_irq = vmm_gic_console_irq,
		.irq_arg = vm,
	};

	return vmm_console_create(&console, &vm->console, err);
}

static enum gs_code create_locks(struct vmm *vm, struct gs_error *err)
{
	enum gs_code rc = vmm_lock_init(&vm->lock, err);

	if (!rc)
		rc = vmm_cond_init(&vm->left, err);
	if (!rc)
		rc = vmm_cond_init(&vm->resumed, err);
	vm->lock_made = !rc;
	return rc;
}

static const struct guest_ops guest_ops;

static void describe_guest(struct vmm *vm)
{
	vm->range = (struct guest_range){ GPA(VMM_RAM_BASE), vm->memory.size, vm->memory.host };
	vm->guest = (struct guest){
		.ops = &guest_ops,
		.priv = vm,
		.source = "kvm",
		.ranges = &vm->range,
		.range_count = 1,
		.vcpu_count = vm->topology.cpus,
		.cluster_count = vm->topology.clusters,
		.vcpu_cluster = vm->topology.cluster,
	};
}

static enum gs_code build(struct vmm *vm, struct gs_error *err)
{
	enum gs_code (*const steps[])(struct vmm *, struct gs_error *) = {
		create_locks, open_kvm,	    create_vm, create_ram,     vmm_gic_create,
		create_vcpus, vmm_gic_init, load,      create_console,
	};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		enum gs_code rc = steps[i](vm, err);
		if (rc)
			return rc;
	}
	vmm_clock_init(vm);
	vmm_debug_init(vm);
	describe_guest(vm);
	return vmm_thread_kick_install(err);
}

enum gs_code vmm_create(const struct vmm_config *config, struct vmm **vm_out, struct gs_error *err)
{
	enum gs_code rc = check_config(config, err);
	if (rc)
		return rc;
	struct vmm *vm = gs_array_alloc(1, sizeof(*vm));
	if (!vm)
		return gs_fail(err, GS_ENOSPC, "no memory for the machine");

	vm->kvm_fd = vm->vm_fd = vm->gic_fd = vm->memory.fd = -1;
	vm->config = *config;
	vm->config.on_end = NULL; // not for a machine that was never handed over
	vm->config.ram_bytes = gs_align_up(config->ram_bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	for (uint32_t i = 0; i < VMM_CPUS_MAX; i++) {
		vm->vcpus[i].vm = vm;
		vm->vcpus[i].index = i;
		vm->vcpus[i].fd = -1;
	}
	rc = vmm_topology_init(&vm->topology, config->cpus, config->clusters, err);
	if (!rc)
		rc = build(vm, err);
	// Borrowed for the call only.
	vm->config.kernel_path = vm->config.initrd_path = vm->config.cmdline = NULL;
	if (rc) {
		vmm_destroy(vm);
		return rc;
	}
	vm->config.on_end = config->on_end;
	*vm_out = vm;
	return GS_OK;
}

/* --- its life ------------------------------------------------------------------------------ */

static enum gs_code start_vcpus_locked(struct vmm *vm, struct gs_error *err)
{
	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		enum gs_code rc = vmm_vcpu_start(&vm->vcpus[i], err);
		if (rc) {
			// Those started wait for the lock; they find an end and run nothing.
			atomic_store_explicit(&vm->end, VMM_END_KILLED, memory_order_release);
			return rc;
		}
	}
	vm->started_ns = gs_clock_ns();
	return GS_OK;
}

enum gs_code vmm_start(struct vmm *vm, struct gs_error *err)
{
	pthread_mutex_lock(&vm->lock);
	bool may = !vm->started && vmm_ended(vm) == VMM_RUNNING;
	vm->started = true;
	pthread_mutex_unlock(&vm->lock);
	if (!may)
		return gs_fail(err, GS_EBUSY, "the guest was started or ended before");

	enum gs_code rc = vmm_console_start(vm->console, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&vm->lock);
	rc = start_vcpus_locked(vm, err);
	pthread_mutex_unlock(&vm->lock);
	return rc;
}

struct guest *vmm_guest(struct vmm *vm)
{
	return &vm->guest;
}

enum vmm_end vmm_ended(const struct vmm *vm)
{
	return (enum vmm_end)atomic_load_explicit(&vm->end, memory_order_acquire);
}

const char *vmm_end_report(const struct vmm *vm)
{
	return vmm_ended(vm) == VMM_END_ERROR ? vm->report : "";
}

void vmm_status_get(const struct vmm *vm_const, struct vmm_status *status_out)
{
	struct vmm *vm = (struct vmm *)vm_const; // for its lock
	struct vmm_console_counts console;
	struct vmm_status s = { .end = vmm_ended(vm) };

	vmm_console_counts_get(vm->console, &console);
	s.console_bytes = console.bytes;
	s.console_dropped = console.dropped;
	s.unknown_mmio = atomic_load_explicit(&vm->unknown_mmio, memory_order_relaxed);

	pthread_mutex_lock(&vm->lock);
	uint64_t now = gs_clock_ns();
	s.stop_depth = vm->stop_depth;
	s.uptime_ns = vm->started_ns ? now - vm->started_ns : 0;
	s.stopped_ns = vm->stopped_ns + (vm->held ? now - vm->held_since_ns : 0);
	s.stop_count = vm->stop_count;
	s.vcpus_on = vm->vcpus_on;
	pthread_mutex_unlock(&vm->lock);
	*status_out = s;
}

void vmm_kill(struct vmm *vm)
{
	vmm_end_set(vm, VMM_END_KILLED);
}

void vmm_destroy(struct vmm *vm)
{
	if (!vm)
		return;
	if (vm->lock_made)
		vmm_kill(vm);
	for (uint32_t i = 0; i < vm->topology.cpus; i++)
		vmm_thread_join(&vm->vcpus[i].thread, STOP_REKICK_NS);
	vmm_console_destroy(vm->console, CONSOLE_DRAIN_NS);
	for (uint32_t i = 0; i < vm->topology.cpus; i++)
		vmm_vcpu_destroy(&vm->vcpus[i]);
	if (vm->gic_fd >= 0)
		close(vm->gic_fd);
	if (vm->vm_fd >= 0)
		close(vm->vm_fd);
	if (vm->kvm_fd >= 0)
		close(vm->kvm_fd);
	vmm_debug_deinit(vm);
	vmm_memory_deinit(&vm->memory);
	if (vm->lock_made) {
		pthread_cond_destroy(&vm->resumed);
		pthread_cond_destroy(&vm->left);
		pthread_mutex_destroy(&vm->lock);
	}
	free(vm);
}

/* --- as a guest ---------------------------------------------------------------------------- */

/* The first vCPU that is held but still in the guest, or NULL. */
static struct vmm_vcpu *leaving_locked(struct vmm *vm)
{
	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		struct vmm_vcpu *v = &vm->vcpus[i];

		if (v->state == VCPU_RUNNING && (vm->stop_depth || v->holds))
			return v;
	}
	return NULL;
}

/*
 * Registers of vCPUs whose threads have not come to save them, and the rest of those of vCPUs that a
 * hold has stopped before: they cannot run as long as the lock is held.
 */
static void save_others_locked(struct vmm *vm)
{
	for (uint32_t i = 0; i < vm->topology.cpus; i++) {
		struct vmm_vcpu *v = &vm->vcpus[i];
		bool is_out = v->state == VCPU_NEW || (v->state == VCPU_PARKED && vm->stop_depth);

		if (!is_out || !(vm->stop_depth || v->holds) ||
		    atomic_load_explicit(&v->saved, memory_order_relaxed) == VMM_SAVED_ALL)
			continue;
		vmm_regs_save(v, VMM_SAVED_ALL);
		atomic_store_explicit(&v->saved, VMM_SAVED_ALL, memory_order_release);
	}
}

static void hold_locked(struct vmm *vm)
{
	vm->held = true;
	vm->held_since_ns = gs_clock_ns();
	vm->stop_count++;
	vmm_clock_hold(vm);
	vm->vcpus_on = 0;
	for (uint32_t i = 0; i < vm->topology.cpus; i++)
		vm->vcpus_on += vm->vcpus[i].regs.state == GUEST_VCPU_ON;
}

static void undo_stop_locked(struct vmm *vm)
{
	if (--vm->stop_depth)
		return;
	if (vm->held) {
		vmm_clock_release(vm);
		vm->stopped_ns += gs_clock_ns() - vm->held_since_ns;
		vm->held = false;
	}
	pthread_cond_broadcast(&vm->resumed);
}

/* Wait until everything that is held has left the guest. @return GS_OK; GS_ETIMEDOUT */
static enum gs_code await_held_locked(struct vmm *vm, struct gs_error *err)
{
	uint64_t now = gs_clock_ns(), deadline = now + STOP_DEADLINE_NS;
	struct vmm_vcpu *v;

	save_others_locked(vm);
	vmm_vcpu_kick_held_locked(vm);
	while ((v = leaving_locked(vm))) {
		if (vmm_cond_wait_until(&vm->left, &vm->lock,
					gs_min(now + STOP_REKICK_NS, deadline)))
			continue;
		now = gs_clock_ns();
		if (now >= deadline)
			return gs_fail(err, GS_ETIMEDOUT,
				       "vCPU %" PRIu32
				       " did not leave the guest within %u s (is the host "
				       "short of memory?)",
				       v->index, (unsigned int)(STOP_DEADLINE_NS / GS_NS_PER_SEC));
		vmm_vcpu_kick_held_locked(vm);
	}
	return GS_OK;
}

static enum gs_code stop_locked(struct vmm *vm, struct gs_error *err)
{
	if (vm->stop_depth == UINT32_MAX)
		return gs_fail(err, GS_EBUSY, "too many stops in force");
	vm->stop_depth++;
	enum gs_code rc = await_held_locked(vm, err);
	if (rc)
		undo_stop_locked(vm);
	else if (!vm->held)
		hold_locked(vm);
	return rc;
}

static enum gs_code guest_op_stop(void *priv, struct gs_error *err)
{
	struct vmm *vm = priv;

	pthread_mutex_lock(&vm->lock);
	enum gs_code rc = stop_locked(vm, err);
	pthread_mutex_unlock(&vm->lock);
	return rc;
}

static enum gs_code guest_op_resume(void *priv, struct gs_error *err)
{
	struct vmm *vm = priv;

	pthread_mutex_lock(&vm->lock);
	bool stopped = vm->stop_depth;
	if (stopped)
		undo_stop_locked(vm);
	pthread_mutex_unlock(&vm->lock);
	return stopped ? GS_OK : gs_fail(err, GS_EBUSY, "resume without a stop");
}

/* One vCPU is out, the others and the guest's clock go on. */
static enum gs_code guest_op_hold_vcpu(void *priv, uint32_t vcpu, struct gs_error *err)
{
	struct vmm *vm = priv;
	struct vmm_vcpu *v = &vm->vcpus[vcpu];
	enum gs_code rc;

	pthread_mutex_lock(&vm->lock);
	if (v->holds == UINT32_MAX) {
		rc = gs_fail(err, GS_EBUSY, "vCPU %" PRIu32 ": too many holds in force", vcpu);
	} else {
		v->holds++;
		rc = await_held_locked(vm, err);
		if (rc && !--v->holds)
			pthread_cond_broadcast(&vm->resumed);
	}
	pthread_mutex_unlock(&vm->lock);
	return rc;
}

static enum gs_code guest_op_release_vcpu(void *priv, uint32_t vcpu, struct gs_error *err)
{
	struct vmm *vm = priv;
	struct vmm_vcpu *v = &vm->vcpus[vcpu];

	pthread_mutex_lock(&vm->lock);
	bool held = v->holds;
	if (held && !--v->holds)
		pthread_cond_broadcast(&vm->resumed);
	pthread_mutex_unlock(&vm->lock);
	return held ? GS_OK
		    : gs_fail(err, GS_EBUSY, "vCPU %" PRIu32 ": release without a hold", vcpu);
}

static enum gs_code guest_op_vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct vmm *vm = priv;
	struct vmm_vcpu *v = &vm->vcpus[vcpu];

	// Pairs with the release where they are saved. No lock: legal while stopped.
	enum vmm_saved what = (enum vmm_saved)atomic_load_explicit(&v->saved, memory_order_acquire);
	if (what == VMM_SAVED_NONE)
		return GS_EBUSY;
	*regs_out = what == VMM_SAVED_ALL ? v->regs : v->frame;
	return GS_OK;
}

static bool guest_op_next_data(void *priv, gpa_t from, gpa_t end, gpa_t *start_out, gpa_t *end_out)
{
	struct vmm *vm = priv;
	uint64_t start, stop;

	if (end.a <= VMM_RAM_BASE)
		return false;
	if (!vmm_memory_next_data(&vm->memory, from.a > VMM_RAM_BASE ? from.a - VMM_RAM_BASE : 0,
				  end.a - VMM_RAM_BASE, &start, &stop))
		return false;
	*start_out = GPA(VMM_RAM_BASE + start);
	*end_out = GPA(VMM_RAM_BASE + stop);
	return true;
}

static const struct guest_ops guest_ops = {
	.stop = guest_op_stop,
	.resume = guest_op_resume,
	.vcpu_regs = guest_op_vcpu_regs,
	.next_data = guest_op_next_data,
	.hold_vcpu = guest_op_hold_vcpu,
	.release_vcpu = guest_op_release_vcpu,
	.breaks = &vmm_debug_ops,
};
