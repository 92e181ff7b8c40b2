/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernel's tasks hang: per-CPU variables, run queues, init_task. */
#include <string.h>

#include "introspect/linux/finder.h"

/* Text of one function that is decoded: the entry code of interest is within 0xc8 bytes. */
#define DECODE_BYTES 512

#define ADDRESSES_MAX 8

/*
 * The addresses that a function forms by adrp + add (or adr) before it reads a system register, or
 * before its end when @p until is 0. With @p chained an address may be
 * what another add begins with: so gcc reaches variables that lie side by side.
 */
static uint32_t decode_addresses_at(struct lnx_view *v, uint64_t start, uint64_t until,
				    bool chained, uint64_t *found)
{
	uint32_t code[DECODE_BYTES / 4], n = 0;
	uint64_t reg[32] = { 0 };
	bool known[32] = { false };

	if (lnx_read(v, GVA(start), code, sizeof(code)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(code) && n < ADDRESSES_MAX; i++) {
		struct a64_insn in = a64_decode(code[i], start + 4 * i);

		if (in.kind == A64_INSN_ADRP || in.kind == A64_INSN_ADR) {
			reg[in.rd] = in.imm;
			known[in.rd] = true;
			if (in.kind == A64_INSN_ADR)
				found[n++] = in.imm;
		} else if (in.kind == A64_INSN_ADD_IMM && known[in.rn]) {
			reg[in.rd] = found[n++] = reg[in.rn] + in.imm;
			known[in.rd] = chained;
		} else if (until && in.kind == A64_INSN_MRS && in.imm == until) {
			return n;
		} else if (!until && in.kind == A64_INSN_RET) {
			return n;
		}
	}
	return until ? 0 : n;
}

static uint32_t decode_addresses_of(struct lnx_view *v, const char *function, uint64_t until,
				    uint64_t *found)
{
	uint64_t start;

	return kallsyms_find(&v->k->ks, function, &start)
		       ? 0
		       : decode_addresses_at(v, start, until, false, found);
}

/*
 * 5.10's types do not tell of per-CPU variables. Its entry code takes the address of one before the
 * per-CPU offset: el1_irq irq_stack_ptr, __bad_stack the end of overflow_stack (arch/arm64/kernel/entry.S).
 */
static void find_stacks(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t found[ADDRESSES_MAX];
	uint32_t n = decode_addresses_of(v, "el1_irq", A64_SYSREG_TPIDR_EL1, found);

	if (n && found[n - 1] >= k->text.start)
		k->stack_ptr[LNX_STACK_IRQ] = GVA(found[n - 1]);
	n = decode_addresses_of(v, "__bad_stack", A64_SYSREG_TPIDR_EL1, found);
	if (n && found[n - 1] >= k->text.start)
		k->overflow_stack = GVA(found[n - 1] - LNX_OVERFLOW_STACK);
}

static void find_percpu(struct lnx_kernel *k, struct lnx_view *v)
{
	static const enum lnx_percpu stacks[LNX_CPU_STACKS] = {
		[LNX_STACK_IRQ] = LNX_P_IRQ_STACK_PTR,
		[LNX_STACK_SDEI_NORMAL] = LNX_P_SDEI_NORMAL,
		[LNX_STACK_SDEI_CRITICAL] = LNX_P_SDEI_CRITICAL,
	};
	const struct lnx_field *pc = k->types.percpu;
	uint64_t found[ADDRESSES_MAX];
	/*
	 * entry from EL0 loads the current task: __entry_task is the last address before the
	 * per-CPU offset
	 */
	uint32_t n = decode_addresses_of(v, "el0t_64_sync", A64_SYSREG_TPIDR_EL1, found);

	if (!n)
		n = decode_addresses_of(v, "el0_sync", A64_SYSREG_TPIDR_EL1, found);
	if (!n || found[n - 1] < k->text.start)
		return;
	k->entry_task = GVA(found[n - 1]);
	if (!pc[LNX_P_ENTRY_TASK].present) {
		find_stacks(k, v);
		return;
	}
	uint64_t start = k->entry_task.a - pc[LNX_P_ENTRY_TASK].offset;
	if (pc[LNX_P_RUNQUEUES].present)
		k->runqueues[k->runqueues_count++] = GVA(start + pc[LNX_P_RUNQUEUES].offset);
	for (size_t i = 0; i < ARRAY_SIZE(stacks); i++)
		if (pc[stacks[i]].present)
			k->stack_ptr[i] = GVA(start + pc[stacks[i]].offset);
	if (pc[LNX_P_OVERFLOW_STACK].present)
		k->overflow_stack = GVA(start + pc[LNX_P_OVERFLOW_STACK].offset);
}

/* idle_task(cpu) adds __per_cpu_offset[cpu] and runqueues: lnx_idle_task() sees which is which. */
static void find_runqueues(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t found[ADDRESSES_MAX];
	uint32_t n = decode_addresses_of(v, "idle_task", 0, found);

	for (uint32_t i = 0; i < n && k->runqueues_count < LNX_RUNQUEUES_MAX; i++)
		k->runqueues[k->runqueues_count++] = GVA(found[i]);
}

static void add_module_lists(struct lnx_kernel *k, const uint64_t *found, uint32_t n)
{
	for (uint32_t i = 0; i < n && k->module_lists < LNX_MODULE_LISTS_MAX; i++)
		k->module_list[k->module_lists++] = GVA(found[i]);
}

/*
 * Without CONFIG_KALLSYMS_ALL the list's head has no symbol. module_get_kallsym() walks the list and
 * uses no other variable; in 5.10 it is told by m_start() of /proc/modules, one of several functions of
 * that name (kernel/module.c, kernel/module/).
 */
static void find_module_list(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t found[ADDRESSES_MAX], address;
	uint32_t passed = 0;

	if (!kallsyms_find(&k->ks, "modules", &address)) {
		add_module_lists(k, &address, 1);
		return;
	}
	add_module_lists(k, found, decode_addresses_of(v, "module_get_kallsym", 0, found));
	while (kallsyms_next_named(&k->ks, "m_start", &passed, &address))
		add_module_lists(k, found, decode_addresses_at(v, address, 0, true, found));
}

/* This list's head has no symbol there either: bpf_ksym_add() has its address, and some others. */
static void find_bpf_list(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t found[ADDRESSES_MAX] = { 0 }, address;
	uint32_t n = 0;

	if (!kallsyms_find(&k->ks, "bpf_kallsyms", &found[0]))
		n = 1;
	else if (!kallsyms_find(&k->ks, "bpf_ksym_add", &address))
		n = decode_addresses_at(v, address, 0, true, found);
	for (uint32_t i = 0; i < n && k->bpf_lists < LNX_BPF_LISTS_MAX; i++)
		k->bpf_list[k->bpf_lists++] = GVA(found[i]);
}

/* The one task whose pid is 0 and which is on the list of all: neighbours must point back at it. */
static bool is_init_task(struct lnx_view *v, gva_t address)
{
	const struct lnx_kernel *k = v->k;
	uint64_t node = lnx_member_of(k, address, LNX_M_TASK_TASKS).a, next, back;
	struct lnx_task t;

	return !lnx_task_read(v, address, &t) && t.pid == 0 && t.tgid == 0 &&
	       strncmp(t.comm, "swapper", 7) == 0 && !lnx_read_u64(v, GVA(node), &next) &&
	       !lnx_read_u64(v, GVA(next + 8), &back) && back == node;
}

/*
 * From any task: its leader, else its parent's (an idle task of a second CPU is on no list), round
 * the ring.
 */
static bool find_init_from(struct lnx_view *v, gva_t from, uint32_t *steps, gva_t *init_out)
{
	const uint32_t offset = lnx_field_of(v->k, LNX_M_TASK_TASKS)->offset;
	struct lnx_task t;

	if (lnx_task_read(v, from, &t))
		return false;
	gva_t starts[] = { t.group_leader, t.real_parent };
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		uint64_t at = starts[i].a, mark = at;
		uint32_t since_mark = 0, power = 1;

		/* a ring that leads into a loop never comes back to its start: Brent's search again */
		for (; *steps; --*steps) {
			uint64_t next;

			if (is_init_task(v, GVA(at))) {
				*init_out = GVA(at);
				return true;
			}
			if (lnx_read_u64(v, GVA(at + offset), &next) ||
			    !lnx_is_object(v->k, next) || next - offset == mark)
				break;
			at = next - offset;
			if (++since_mark == power) {
				mark = at;
				power *= 2;
				since_mark = 0;
			}
		}
	}
	return false;
}

static enum gs_code find_init_task(struct lnx_finder *f, struct lnx_view *v)
{
	struct lnx_kernel *k = f->k;
	uint64_t address;
	uint32_t steps = LNX_TASKS_MAX; /* for all vCPUs together */
	gva_t current;

	if (!kallsyms_find(&k->ks, "init_task", &address) && is_init_task(v, GVA(address))) {
		k->init_task = GVA(address);
		return GS_OK;
	}
	for (uint32_t i = 0; i < f->vcpus; i++)
		if (!lnx_vcpu_current(v, &f->regs[i], &current) &&
		    find_init_from(v, current, &steps, &k->init_task))
			return GS_OK;
	/* the idle task of the boot CPU is init_task */
	uint64_t offset;
	if (!lnx_percpu_offset(v, 0, &offset) && !lnx_idle_task(v, offset, &current) &&
	    is_init_task(v, current)) {
		k->init_task = current;
		return GS_OK;
	}
	return gs_fail(f->err, GS_ENOENT,
		       "the kernel is there, but no vCPU executes a task of it (early boot?)");
}

enum gs_code lnx_find_roots(struct lnx_finder *f)
{
	struct lnx_kernel *k = f->k;
	struct lnx_view v;

	/*
	 * THREAD_SIZE is 16 KiB, or one page where that is larger (arch/arm64/include/asm/memory.h)
	 */
	k->thread_size = gs_max(UINT64_C(16) << 10, UINT64_C(1) << k->regime.half[1].granule_bits);
	lnx_view_init(&v, k, f->g);
	/* those that other types led to */
	k->entry_task = k->overflow_stack = k->init_task = GVA(0);
	memset(k->stack_ptr, 0, sizeof(k->stack_ptr));
	k->runqueues_count = k->module_lists = k->bpf_lists = 0;
	find_percpu(k, &v);
	find_runqueues(k, &v);
	find_module_list(k, &v);
	find_bpf_list(k, &v);
	lnx_find_variables(k, &v);
	lnx_find_tick(k, &v);
	return find_init_task(f, &v);
}
