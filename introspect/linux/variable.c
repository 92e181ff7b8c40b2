/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that neither the symbol table nor an export names: the functions that use them tell. */
#include "introspect/linux/finder.h"
#include "introspect/linux/system.h"

/* Without CONFIG_KALLSYMS_ALL (Debian's 5.10 and 6.1) the symbol table has functions only. */

/* Text of one function that is looked through. */
#define DECODE_BYTES  512
#define ADDRESSES_MAX 16
/* Of __efi_rt_asm_wrapper, up to the call */
#define WRAPPER_WORDS 20

/*
 * Exclusive and atomic accesses of 32 bits (DDI 0487J.a, C6.2): ldxr, and the four forms of cas. Their
 * address is in bits 9:5.
 */
static bool is_exclusive(uint32_t word)
{
	return (word & 0xfffffc00) == 0x885f7c00 || (word & 0xffa07c00) == 0x88a07c00;
}

/* add (shifted register) of a register times eight (C6.2.5): the place of a pointer in an array. */
static bool is_index(uint32_t word)
{
	return (word & 0xffe0fc00) == 0x8b000c00;
}

/* What of a function's use of an address counts; a setting is loaded, and written at boot alone. */
enum use { USE_ANY, USE_LOAD, USE_EXCLUSIVE, USE_ARRAY, USE_SETTING };

/* What the kernel writes lies behind its init text; but for settings, which are in the read-only data. */
static bool is_variable(const struct lnx_kernel *k, uint64_t address, enum use use)
{
	const uint64_t start = use == USE_SETTING ? k->text.end : k->init_text.end;

	return lnx_range_has((struct lnx_range){ start, k->text.start + LNX_IMAGE_REACH }, address);
}

struct decoded {
	uint64_t address[ADDRESSES_MAX];
	uint32_t n;
};

static void add(const struct lnx_kernel *k, struct decoded *d, uint64_t address, enum use use)
{
	if (d->n < ADDRESSES_MAX && is_variable(k, address, use))
		d->address[d->n++] = address;
}

/* Registers whose values adrp, adr and add make known. */
struct registers {
	uint64_t value[32];
	bool known[32];
};

static void look_at(const struct lnx_kernel *k, struct registers *r, uint32_t word, uint64_t pc,
		    enum use use, struct decoded *d)
{
	const struct a64_insn in = a64_decode(word, pc);
	const uint32_t base = BITS(word, 9, 5);

	if (in.kind == A64_INSN_ADRP || in.kind == A64_INSN_ADR) {
		r->value[in.rd] = in.imm;
		r->known[in.rd] = true;
	} else if (in.kind == A64_INSN_ADD_IMM) {
		r->known[in.rd] = r->known[in.rn];
		r->value[in.rd] = r->value[in.rn] + in.imm;
		if (r->known[in.rd] && use == USE_ANY)
			add(k, d, r->value[in.rd], use);
	} else if (in.kind == A64_INSN_LDR_IMM) {
		if (r->known[in.rn] && (use == USE_ANY || use == USE_LOAD || use == USE_SETTING))
			add(k, d, r->value[in.rn] + in.imm, use);
		r->known[in.rd] = false;
	} else if (use == USE_EXCLUSIVE && is_exclusive(word) && r->known[base]) {
		add(k, d, r->value[base], use);
	} else if (use == USE_ARRAY && is_index(word) && r->known[base]) {
		add(k, d, r->value[base], use);
		r->known[in.rd] = false;
	}
}

/* Straight through a function, as if nothing branched: what is found has to prove itself. */
static struct decoded decode(struct lnx_view *v, const char *function, enum use use)
{
	const struct lnx_kernel *k = v->k;
	uint32_t code[DECODE_BYTES / 4];
	struct registers r = { 0 };
	struct decoded d = { 0 };
	uint64_t start, end = UINT64_MAX;

	if (kallsyms_find(&k->ks, function, &start) || lnx_read(v, GVA(start), code, sizeof(code)))
		return d;
	const uint32_t next = kallsyms_upper_bound(&k->ks, start);
	if (next < k->ks.n)
		end = k->ks.address[next];
	for (size_t i = 0; i < ARRAY_SIZE(code) && start + 4 * i < end; i++)
		look_at(k, &r, code[i], start + 4 * i, use, &d);
	return d;
}

static bool take_symbol(struct lnx_kernel *k, const char *name, enum lnx_variable variable)
{
	return kallsyms_find(&k->ks, name, &k->variable[variable].a) == GS_OK;
}

/* get_taint() does nothing but load it. */
static void find_taint(struct lnx_kernel *k, struct lnx_view *v)
{
	struct decoded d;

	if (take_symbol(k, "tainted_mask", LNX_V_TAINT))
		return;
	d = decode(v, "get_taint", USE_LOAD);
	k->variable[LNX_V_TAINT] = GVA(d.n == 1 ? d.address[0] : 0);
}

/* nmi_panic() exchanges it, in one of two ways that lead to the same address. */
static void find_panic_cpu(struct lnx_kernel *k, struct lnx_view *v)
{
	struct decoded d;

	if (take_symbol(k, "panic_cpu", LNX_V_PANIC_CPU))
		return;
	d = decode(v, "nmi_panic", USE_EXCLUSIVE);
	for (uint32_t i = 1; i < d.n; i++)
		if (d.address[i] != d.address[0])
			return;
	k->variable[LNX_V_PANIC_CPU] = GVA(d.n ? d.address[0] : 0);
}

/* log_buf_vmcoreinfo_setup() says where it is; the ring behind it proves it. */
static void find_log(struct lnx_kernel *k, struct lnx_view *v)
{
	struct lnx_log log;
	struct decoded d;

	if (take_symbol(k, "prb", LNX_V_LOG))
		return;
	d = decode(v, "log_buf_vmcoreinfo_setup", USE_ANY);
	for (uint32_t i = 0; i < d.n; i++) {
		k->variable[LNX_V_LOG] = GVA(d.address[i]);
		if (!lnx_log_begin(&log, v))
			return;
	}
	k->variable[LNX_V_LOG] = GVA(0);
}

/* kretprobe_hash_lock() says in which list of it the instances of a task are. */
static void find_kretprobes(struct lnx_kernel *k, struct lnx_view *v)
{
	struct decoded d;

	if (!k->types.member[LNX_M_KRETPROBE_HLIST].present ||
	    take_symbol(k, "kretprobe_inst_table", LNX_V_KRETPROBES))
		return;
	d = decode(v, "kretprobe_hash_lock", USE_ARRAY);
	k->variable[LNX_V_KRETPROBES] = GVA(d.n == 1 ? d.address[0] : 0);
}

/* The call of the firmware is the only one in its wrapper by a register. */
static uint64_t return_from_firmware(struct lnx_view *v, struct lnx_range wrapper)
{
	uint32_t code[WRAPPER_WORDS];

	if (wrapper.end - wrapper.start < sizeof(code) ||
	    lnx_read(v, GVA(wrapper.start), code, sizeof(code)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(code); i++) {
		const uint64_t pc = wrapper.start + 4 * i;

		if (a64_decode(code[i], pc).kind == A64_INSN_CALL_REG)
			return pc + 4;
	}
	return 0;
}

/* __efi_rt_asm_wrapper() loads nothing else but what it has pushed. */
static void find_efi_stack(struct lnx_kernel *k, struct lnx_view *v)
{
	struct decoded d;

	k->efi_return = return_from_firmware(v, k->efi_wrapper);
	if (take_symbol(k, "efi_rt_stack_top", LNX_V_EFI_STACK))
		return;
	d = decode(v, "__efi_rt_asm_wrapper", USE_SETTING);
	k->variable[LNX_V_EFI_STACK] = GVA(d.n == 1 ? d.address[0] : 0);
}

void lnx_find_variables(struct lnx_kernel *k, struct lnx_view *v)
{
	find_taint(k, v);
	find_panic_cpu(k, v);
	find_log(k, v);
	find_kretprobes(k, v);
	find_efi_stack(k, v);
}
