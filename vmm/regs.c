/* SPDX-License-Identifier: Apache-2.0 */
/* A vCPU's registers: saving them for the introspector, setting the first ones, telling them. */
#include "vmm/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/util.h"
#include "vmm/execute.h"

#define CORE(name) \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE | KVM_REG_ARM_CORE_REG(name))
#define CORE_X(n) (CORE(regs.regs[0]) + (n) * (sizeof(uint64_t) / sizeof(uint32_t)))

/* x29 and x30: the frame pointer and the link register */
#define FIRST_OF_FRAME 29

/* op0, op1, CRn, CRm, op2: Arm ARM (DDI 0487) D19 */
#define REG_MPIDR_EL1	   ARM64_SYS_REG(3, 0, 0, 0, 5)
#define REG_ID_AA64MMFR0   ARM64_SYS_REG(3, 0, 0, 7, 0)
#define REG_SCTLR_EL1	   ARM64_SYS_REG(3, 0, 1, 0, 0)
#define REG_TTBR0_EL1	   ARM64_SYS_REG(3, 0, 2, 0, 0)
#define REG_TTBR1_EL1	   ARM64_SYS_REG(3, 0, 2, 0, 1)
#define REG_TCR_EL1	   ARM64_SYS_REG(3, 0, 2, 0, 2)
#define REG_ESR_EL1	   ARM64_SYS_REG(3, 0, 5, 2, 0)
#define REG_FAR_EL1	   ARM64_SYS_REG(3, 0, 6, 0, 0)
#define REG_MAIR_EL1	   ARM64_SYS_REG(3, 0, 10, 2, 0)
#define REG_VBAR_EL1	   ARM64_SYS_REG(3, 0, 12, 0, 0)
#define REG_CONTEXTIDR_EL1 ARM64_SYS_REG(3, 0, 13, 0, 1)
#define REG_TPIDR_EL1	   ARM64_SYS_REG(3, 0, 13, 0, 4)

struct saved {
	uint64_t id;
	size_t offset;
	uint32_t group; /* enum guest_regs_valid */
};

#define SAVED(id, field, group)                                    \
	{                                                          \
		id, offsetof(struct guest_vcpu_regs, field), group \
	}

static const struct saved saved[] = {
	SAVED(CORE(regs.sp), sp_el0, GUEST_REGS_GENERAL),
	SAVED(CORE(sp_el1), sp_el1, GUEST_REGS_GENERAL),
	SAVED(CORE(regs.pc), pc, GUEST_REGS_GENERAL),
	SAVED(CORE(regs.pstate), pstate, GUEST_REGS_GENERAL),
	SAVED(CORE(elr_el1), elr_el1, GUEST_REGS_EXC),
	SAVED(CORE(spsr[KVM_SPSR_EL1]), spsr_el1, GUEST_REGS_EXC),
	SAVED(REG_TTBR0_EL1, ttbr0_el1, GUEST_REGS_MMU),
	SAVED(REG_TTBR1_EL1, ttbr1_el1, GUEST_REGS_MMU),
	SAVED(REG_TCR_EL1, tcr_el1, GUEST_REGS_MMU),
	SAVED(REG_MAIR_EL1, mair_el1, GUEST_REGS_MMU),
	SAVED(REG_SCTLR_EL1, sctlr_el1, GUEST_REGS_MMU),
	SAVED(REG_VBAR_EL1, vbar_el1, GUEST_REGS_VBAR),
	SAVED(REG_TPIDR_EL1, tpidr_el1, GUEST_REGS_TPIDR),
	SAVED(REG_CONTEXTIDR_EL1, contextidr_el1, GUEST_REGS_CONTEXT),
	SAVED(REG_MPIDR_EL1, mpidr_el1, GUEST_REGS_MPIDR),
};

enum gs_code vmm_regs_get(struct vmm_vcpu *v, uint64_t id, uint64_t *value_out)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)value_out };

	return ioctl(v->fd, KVM_GET_ONE_REG, &reg) ? GS_ESYS : GS_OK;
}

enum gs_code vmm_regs_set(struct vmm_vcpu *v, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	return ioctl(v->fd, KVM_SET_ONE_REG, &reg) ? GS_ESYS : GS_OK;
}

/* The register that execute.h's number stands for. @return GS_ESYS: which SP it is cannot be told */
static enum gs_code execute_id(struct vmm_vcpu *v, uint32_t reg, uint64_t *id_out)
{
	uint64_t pstate;

	switch (reg) {
	case VMM_EXECUTE_PC: *id_out = CORE(regs.pc); return GS_OK;
	case VMM_EXECUTE_PSTATE: *id_out = CORE(regs.pstate); return GS_OK;
	case VMM_EXECUTE_SP:
		if (vmm_regs_get(v, CORE(regs.pstate), &pstate))
			return GS_ESYS;
		// PSTATE.SP: the stack pointer of the exception level; set in EL1h only
		*id_out = pstate & 1 ? CORE(sp_el1) : CORE(regs.sp);
		return GS_OK;
	default: *id_out = CORE_X(reg); return GS_OK;
	}
}

enum gs_code vmm_regs_get_execute(struct vmm_vcpu *v, uint32_t reg, uint64_t *value_out)
{
	uint64_t id;
	enum gs_code rc = execute_id(v, reg, &id);

	return rc ? rc : vmm_regs_get(v, id, value_out);
}

enum gs_code vmm_regs_set_execute(struct vmm_vcpu *v, uint32_t reg, uint64_t value)
{
	uint64_t id;
	enum gs_code rc = execute_id(v, reg, &id);

	return rc ? rc : vmm_regs_set(v, id, value);
}

enum gs_code vmm_regs_set_spsr(struct vmm_vcpu *v, uint64_t spsr)
{
	return vmm_regs_set(v, CORE(spsr[KVM_SPSR_EL1]), spsr);
}

enum gs_code vmm_regs_set_exception(struct vmm_vcpu *v, uint64_t elr, uint64_t spsr, uint64_t esr)
{
	if (vmm_regs_set(v, CORE(elr_el1), elr) || vmm_regs_set_spsr(v, spsr) ||
	    vmm_regs_set(v, REG_ESR_EL1, esr))
		return GS_ESYS;
	return GS_OK;
}

static enum guest_vcpu_state power_state(struct vmm_vcpu *v)
{
	struct kvm_mp_state mp;

	if (ioctl(v->fd, KVM_GET_MP_STATE, &mp))
		return GUEST_VCPU_UNKNOWN;
	return mp.mp_state == KVM_MP_STATE_STOPPED ? GUEST_VCPU_OFF : GUEST_VCPU_ON;
}

/*
 * KVM marks every vCPU as stopped when the guest asks for power-off or reset
 * (kvm_prepare_system_event(), arch/arm64/kvm/psci.c). Those that ran until then, with their MMU
 * on, hold what the guest did last: for a look at it they count as on.
 */
static bool stopped_by_the_end(const struct vmm *vm, const struct guest_vcpu_regs *r)
{
	enum vmm_end end = vmm_ended(vm);
	bool event = end == VMM_END_POWEROFF || end == VMM_END_REBOOT || end == VMM_END_CRASH;

	return event && (r->valid & GUEST_REGS_MMU) && (r->sctlr_el1 & 1);
}

/* Read some registers; a group of which one cannot be read is not valid. */
static void save(struct vmm_vcpu *v, uint32_t groups, uint32_t first_x, struct guest_vcpu_regs *r)
{
	uint32_t bad = 0;

	for (uint32_t i = first_x; i < ARRAY_SIZE(r->x); i++)
		if (vmm_regs_get(v, CORE_X(i), &r->x[i]))
			bad |= GUEST_REGS_GENERAL;
	for (size_t i = 0; i < ARRAY_SIZE(saved); i++) {
		uint64_t value;

		if (!(saved[i].group & groups))
			continue;
		if (vmm_regs_get(v, saved[i].id, &value))
			bad |= saved[i].group;
		else
			memcpy((char *)r + saved[i].offset, &value, sizeof(value));
	}
	r->valid = groups & ~bad;
}

void vmm_regs_read(struct vmm_vcpu *v, struct guest_vcpu_regs *regs_out)
{
	*regs_out = (struct guest_vcpu_regs){ .state = power_state(v) };
	save(v, GUEST_REGS_ALL, 0, regs_out);
}

void vmm_regs_save(struct vmm_vcpu *v, enum vmm_saved what)
{
	struct guest_vcpu_regs r;

	if (what == VMM_SAVED_FRAME) {
		r = (struct guest_vcpu_regs){ .state = power_state(v) };
		save(v, GUEST_REGS_GENERAL | GUEST_REGS_EXC | GUEST_REGS_TPIDR, FIRST_OF_FRAME, &r);
		if (r.valid & GUEST_REGS_GENERAL)
			r.valid ^= GUEST_REGS_GENERAL | GUEST_REGS_FRAME;
		v->frame = r;
		return;
	}
	vmm_regs_read(v, &r);
	if (r.state == GUEST_VCPU_OFF && stopped_by_the_end(v->vm, &r))
		r.state = GUEST_VCPU_ON;
	v->regs = r;
}

enum gs_code vmm_regs_boot(struct vmm_vcpu *v, uint64_t pc, uint64_t x0, struct gs_error *err)
{
	// booting.rst section 4; all else is as KVM resets it: EL1h, everything masked, x1–x3 zero.
	if (vmm_regs_set(v, CORE(regs.pc), pc) || vmm_regs_set(v, CORE_X(0), x0))
		return gs_fail_errno(err, GS_ESYS, errno, "setting the boot vCPU's registers");
	return GS_OK;
}

enum gs_code vmm_regs_mpidr(struct vmm_vcpu *v, uint64_t *mpidr_out)
{
	return vmm_regs_get(v, REG_MPIDR_EL1, mpidr_out);
}

enum gs_code vmm_regs_check_granule(struct vmm_vcpu *v, uint32_t page_size, struct gs_error *err)
{
	uint64_t mmfr0;

	// What cannot be asked is left to the kernel, which stops by itself.
	if (page_size == 0 || vmm_regs_get(v, REG_ID_AA64MMFR0, &mmfr0))
		return GS_OK;

	/* Arm ARM D19.2.64: TGran4, TGran64: 15 is none; TGran16: 0 is none */
	bool has = page_size == 4096	? BITS(mmfr0, 31, 28) != 15
		   : page_size == 16384 ? BITS(mmfr0, 23, 20) != 0
					: BITS(mmfr0, 27, 24) != 15;
	if (!has)
		return gs_fail(
			err, GS_ENOTSUP,
			"the kernel uses %" PRIu32
			" KiB pages, which this host's CPU does not have: use another kernel",
			page_size >> 10);
	return GS_OK;
}

/* --- report -------------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t left;
};

static void __attribute__((format(printf, 2, 3))) add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	size_t len = n < 0 ? 0 : gs_min((size_t)n, t->left - 1);
	t->at += len;
	t->left -= len;
}

static void add_reg(struct text *t, struct vmm_vcpu *v, const char *name, uint64_t id, char after)
{
	uint64_t value;

	if (vmm_regs_get(v, id, &value))
		add(t, "  %-10s %18s%c", name, "?", after);
	else
		add(t, "  %-10s 0x%016" PRIx64 "%c", name, value, after);
}

void vmm_regs_report(struct vmm_vcpu *v, const char *reason)
{
	static const struct {
		const char *name;
		uint64_t id;
	} named[] = {
		{ "pc", CORE(regs.pc) },	{ "pstate", CORE(regs.pstate) },
		{ "sp_el0", CORE(regs.sp) },	{ "sp_el1", CORE(sp_el1) },
		{ "elr_el1", CORE(elr_el1) },	{ "spsr_el1", CORE(spsr[KVM_SPSR_EL1]) },
		{ "esr_el1", REG_ESR_EL1 },	{ "far_el1", REG_FAR_EL1 },
		{ "sctlr_el1", REG_SCTLR_EL1 }, { "tcr_el1", REG_TCR_EL1 },
		{ "ttbr0_el1", REG_TTBR0_EL1 }, { "ttbr1_el1", REG_TTBR1_EL1 },
		{ "mair_el1", REG_MAIR_EL1 },	{ "vbar_el1", REG_VBAR_EL1 },
		{ "tpidr_el1", REG_TPIDR_EL1 }, { "mpidr_el1", REG_MPIDR_EL1 },
	};
	struct text t = { v->vm->report, sizeof(v->vm->report) };

	add(&t, "vCPU %" PRIu32 ": %s\n", v->index, reason);
	for (size_t i = 0; i < ARRAY_SIZE(named); i++)
		add_reg(&t, v, named[i].name, named[i].id, i % 2 ? '\n' : ' ');
	for (uint32_t i = 0; i < ARRAY_SIZE(v->regs.x); i++) {
		char name[8];

		snprintf(name, sizeof(name), "x%" PRIu32, i);
		add_reg(&t, v, name, CORE_X(i), i % 2 ? '\n' : ' ');
	}
	add(&t, "\n");
}
