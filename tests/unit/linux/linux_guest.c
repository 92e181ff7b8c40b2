/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up Linux guest. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PTE_PXN (UINT64_C(1) << 53)
#define PTE_UXN (UINT64_C(1) << 54)

/* --- symbols ---------------------------------------------------------------------------------- */

static const struct {
	const char *name, *old; /* old: of 5.10 where it differs */
} functions[] = {
	{ "vectors", NULL },
	{ "el1h_64_sync", "el1_sync" },
	{ "el1h_64_irq", "el1_irq" },
	{ "el0t_64_sync", "el0_sync" },
	{ "el0t_64_irq", "el0_irq" },
	{ "call_on_irq_stack", NULL },
	{ "ret_from_fork", NULL },
	{ "cpu_switch_to", NULL },
	{ "el1_interrupt", NULL },
	{ "el1h_64_irq_handler", NULL },
	{ "el0t_64_sync_handler", NULL },
	{ "el0_svc", NULL },
	{ "do_interrupt_handler", NULL },
	{ "gic_handle_irq", NULL },
	{ "generic_handle_domain_irq", NULL },
	{ "timer_handler", NULL },
	{ "cpu_do_idle", NULL },
	{ "arch_cpu_idle", NULL },
	{ "do_idle", NULL },
	{ "secondary_start_kernel", NULL },
	{ "idle_task", NULL },
	{ "kthread", NULL },
	{ "worker_thread", NULL },
	{ "vfs_read", NULL },
	{ "pipe_read", NULL },
	{ "do_epoll_wait", NULL },
	{ "futex_wait", NULL },
	{ "do_exit", NULL },
	{ "leaf", NULL },
	{ "__mutex_lock.constprop.0", NULL },
	{ "rwsem_down_write_slowpath", NULL },
	{ "wait_for_completion", NULL },
	{ "autoremove_wake_function", NULL },
	{ LG_NAME_63, NULL },
	{ LG_NAME_64, NULL },
	{ "module_get_kallsym", "m_start" },
	{ "return_to_handler", NULL },
	{ "__kretprobe_trampoline", "kretprobe_trampoline" },
	{ "down_interruptible", NULL },
	{ "do_msgrcv", NULL },
	{ "__do_semtimedop", NULL },
	{ "sigsuspend", NULL },
	{ "do_sys_poll", NULL },
	{ "do_freezer_trap", NULL },
	{ "wake_page_function", NULL },
	{ "wake_bit_function", NULL },
	{ "userfaultfd_wake_function", NULL },
	{ "wakeme_after_rcu", NULL },
	{ "eventfd_release", NULL },
	{ "rescuer_thread", NULL },
	{ "get_taint", NULL },
	{ "nmi_panic", NULL },
	{ "log_buf_vmcoreinfo_setup", NULL },
	{ "bpf_ksym_add", NULL },
	{ "kretprobe_find_ret_addr", "kretprobe_hash_lock" },
	{ "__efi_rt_asm_wrapper", NULL },
	{ "__efi_rt_asm_recover", NULL },
};

/* Functions of the scheduler and of the locks, with the ends of their sections. */
static const struct symtab_symbol special[] = {
	{ 0x18000, "__sched_text_start", 'T' }, { 0x18000, "__switch_to", 'T' },
	{ 0x18200, "schedule", 'T' },		{ 0x18400, "__sched_text_end", 'T' },
	{ 0x18400, "__lock_text_start", 'T' },	{ 0x18400, "_raw_spin_lock", 'T' },
	{ 0x18600, "__lock_text_end", 'T' },	{ 0x18800, "process_timeout", 't' },
	{ 0x18a00, "jiffies_to_usecs", 'T' },	{ 0x18c00, "submit_bio_wait", 'T' },
	{ 0x18e00, "__wait_on_buffer", 'T' },	{ 0x19000, "blkdev_bio_end_io_simple", 't' },
	{ 0x19200, "blk_mq_get_tag", 'T' },
};

/* The first so many functions are entry code. */
#define ENTRIES	    5
#define FILLERS	    1100
#define FILLER_AT   0x1a000
#define FILLER_SIZE 0x40
/* Two at one address: so they fit into the text, and the step is no alignment's. */
#define MANY_SIZE 12

static void add_symbol(struct linux_guest *g, uint64_t offset, const char *name, char type)
{
	g->symbols[g->symbol_count++] =
		(struct symtab_symbol){ lg_image_va(g, offset), name, type };
}

static void make_symbols(struct linux_guest *g)
{
	const unsigned int fillers = g->form.many ? LG_MANY : FILLERS;

	g->symbols = calloc(fillers + 100, sizeof(*g->symbols));
	g->names = calloc(fillers, sizeof(*g->names));
	ck_assert(g->symbols && g->names);
	if (g->form.data_symbols)
		add_symbol(g, 0, "_text", 'T');
	add_symbol(g, LG_STEXT, "_stext", 'T');
	add_symbol(g, 0x10800, "__entry_text_start", 'T');
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		if (i == ENTRIES)
			add_symbol(g, 0x10800 + 0x200 * i, "__entry_text_end", 'T');
		add_symbol(g, 0x10800 + 0x200 * i,
			   g->form.old && functions[i].old ? functions[i].old : functions[i].name,
			   'T');
	}
	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		add_symbol(g, special[i].address, special[i].name, special[i].type);
	for (unsigned int i = 0; i < fillers; i++) {
		snprintf(g->names[i], sizeof(g->names[i]), g->form.many ? "f%05u" : "fn_%04u",
			 i % 100000);
		add_symbol(g, FILLER_AT + (g->form.many ? MANY_SIZE * (i / 2) : FILLER_SIZE * i),
			   g->names[i], 't');
	}
	add_symbol(g, LG_TRAMP_TEXT, "tramp_vectors", 'T');
	add_symbol(g, LG_ETEXT, "_etext", 'D');
	if (g->form.data_symbols)
		add_symbol(g, LG_EFI_STACK, "efi_rt_stack_top", 'D');
	add_symbol(g, LG_SINITTEXT, "_sinittext", 'T');
	add_symbol(g, LG_SINITTEXT + 0x200, "start_kernel", 'T');
	add_symbol(g, LG_EINITTEXT, "_einittext", 'T');
	if (g->form.data_symbols) {
		add_symbol(g, LG_PERCPU, "__per_cpu_start", 'D');
		add_symbol(g, LG_INIT_TASK, "init_task", 'D');
		add_symbol(g, LG_ZONE_STAT, "vm_zone_stat", 'B');
		add_symbol(g, LG_NODE_STAT, "vm_node_stat", 'B');
		add_symbol(g, LG_MODULES, "modules", 'D');
		add_symbol(g, LG_PRB, "prb", 'd');
		add_symbol(g, LG_TAINT, "tainted_mask", 'b');
		add_symbol(g, LG_PANIC_CPU, "panic_cpu", 'D');
		add_symbol(g, LG_LOAD, "avenrun", 'B');
		add_symbol(g, LG_TOTAL_PAGES, "_totalram_pages", 'D');
		add_symbol(g, LG_BPF, "bpf_kallsyms", 'd');
		add_symbol(g, LG_JIFFIES, "jiffies_64", 'D');
		add_symbol(g, LG_TICK_CLOCK, "clocksource_jiffies", 'd');
		if (g->form.old)
			add_symbol(g, LG_KRETPROBES, "kretprobe_inst_table", 'b');
	}
}

struct lnx_kernel *lg_kernel_find(struct linux_guest *g)
{
	struct lnx_kernel *k;
	struct gs_error err = { 0 };

	ck_assert_msg(!lnx_kernel_find(&g->m.guest, g->m.regs, g->form.vcpus, NULL, &k, &err), "%s",
		      err.text);
	return k;
}

uint64_t lg_symbol(const struct linux_guest *g, const char *name)
{
	for (uint32_t i = 0; i < g->symbol_count; i++)
		if (strcmp(g->symbols[i].name, name) == 0)
			return g->symbols[i].address;
	ck_abort_msg("no symbol %s", name);
	return 0;
}

uint64_t lg_in(const struct linux_guest *g, const char *function)
{
	return lg_symbol(g, function) + 0x14;
}

/* --- memory ----------------------------------------------------------------------------------- */

void *lg_at(struct linux_guest *g, uint64_t pa)
{
	// an assertion that holds costs a system call, and this is called for every page
	if (pa < g->ram_start || pa - g->ram_start >= g->ram_size)
		ck_abort_msg("no RAM of the made-up guest: %#" PRIx64, pa);
	return g->ram + (pa - g->ram_start);
}

void *lg_image(struct linux_guest *g, uint64_t offset)
{
	return lg_at(g, g->image + offset);
}

uint64_t lg_pages(struct linux_guest *g, uint32_t n)
{
	uint64_t pa = g->next_page;

	g->next_page += n * g->page;
	if (g->next_page > g->ram_start + g->ram_size)
		ck_abort_msg("the made-up guest needs more RAM");
	return pa;
}

/* Bits of an address below the index of a table: of the first one, of the largest block. */
static unsigned int first_lsb(const struct lg_form *f)
{
	const unsigned int stride = f->granule_bits - 3u;

	return f->granule_bits + (f->va_bits - f->granule_bits - 1u) / stride * stride;
}

static unsigned int block_lsb(const struct lg_form *f)
{
	return f->granule_bits + (f->granule_bits == 12 ? 2u : 1u) * (f->granule_bits - 3u);
}

/* The entry for an address in the table whose entries map 1 << @p last bytes. */
static uint64_t *entry_of(struct linux_guest *g, uint64_t root, uint64_t va, unsigned int last)
{
	const unsigned int stride = g->form.granule_bits - 3u;
	uint64_t table = root, in = va & ((UINT64_C(1) << g->form.va_bits) - 1);

	for (unsigned int lsb = first_lsb(&g->form);; lsb -= stride) {
		uint64_t *entry = (uint64_t *)lg_at(g, table) + (in >> lsb);

		if (lsb == last || (*entry & 3) == 1)
			return entry;
		if (!*entry)
			*entry = lg_pages(g, 1) | 3;
		table = *entry & UINT64_C(0xffffffffffff) & ~(g->page - 1);
		in &= (UINT64_C(1) << lsb) - 1;
	}
}

uint64_t *lg_entry(struct linux_guest *g, uint64_t root, uint64_t va)
{
	return entry_of(g, root, va, g->form.granule_bits);
}

/* 52-bit addresses take the place of the shareability with 4K and 16K pages. */
static uint64_t attributes(const struct linux_guest *g)
{
	return g->form.va_bits == 52 && g->form.granule_bits != 16 ? 0x483 : 0x783;
}

void lg_map(struct linux_guest *g, uint64_t va, uint64_t pa, bool exec)
{
	*lg_entry(g, g->swapper, va) = pa | attributes(g) | PTE_UXN | (exec ? 0 : PTE_PXN);
}

void lg_unmap(struct linux_guest *g, uint64_t va)
{
	*lg_entry(g, g->swapper, va) = 0;
}

uint64_t *lg_word(struct linux_guest *g, uint64_t va)
{
	uint64_t pte = *lg_entry(g, g->swapper, va);
	uint64_t below = (pte & 2 ? g->page : UINT64_C(1) << block_lsb(&g->form)) - 1;

	if (!(pte & 1))
		ck_abort_msg("not mapped: %#" PRIx64, va);
	return lg_at(g, (pte & UINT64_C(0xffffffffffff) & ~below) | (va & below));
}

static void map_linear(struct linux_guest *g)
{
	const unsigned int lsb = g->form.blocks ? block_lsb(&g->form) : g->form.granule_bits;

	for (uint64_t at = 0; at < g->ram_size; at += UINT64_C(1) << lsb)
		*entry_of(g, g->swapper, g->linear + at, lsb) =
			(g->ram_start + at) | (attributes(g) & (g->form.blocks ? ~2u : ~0u)) |
			PTE_UXN | PTE_PXN;
}

static bool is_text_page(const struct linux_guest *g, uint64_t at)
{
	return (at + g->page > LG_STEXT && at < LG_ETEXT) ||
	       (at + g->page > LG_SINITTEXT && at < LG_EINITTEXT);
}

uint64_t lg_code_page(struct linux_guest *g)
{
	const uint64_t pa = lg_pages(g, 1);
	uint32_t *code = lg_at(g, pa);

	for (uint64_t i = 0; i < g->page / 4; i++)
		code[i] = 0x94000000; // bl .
	return pa;
}

static void map_kernel(struct linux_guest *g)
{
	uint64_t tramp = g->image + (g->page == 4096 ? LG_TRAMP_DIR : LG_DIRS_LARGE);
	uint64_t middle = ~UINT64_C(0) << (g->form.va_bits - 1);

	g->swapper = tramp + 2 * g->page;
	for (uint64_t at = g->form.no_head ? LG_STEXT : 0; at < g->image_size; at += g->page)
		lg_map(g, lg_image_va(g, at), g->image + at, is_text_page(g, at));
	map_linear(g);
	lg_map(g, middle + (LG_MODULE - LG_MIDDLE), lg_code_page(g), true);
	// a page of 64K would hold more than the trampoline's text
	if (g->form.va_bits < 47 || g->form.granule_bits == 16)
		return;
	lg_map(g, LG_TRAMPOLINE & ~(g->page - 1), g->image + (LG_TRAMP_TEXT & ~(g->page - 1)),
	       true);
	// the trampoline's own table leads nowhere else
	*lg_entry(g, tramp, LG_TRAMPOLINE) =
		(g->image + (LG_TRAMP_TEXT & ~(g->page - 1))) | attributes(g);
}

/* --- code ------------------------------------------------------------------------------------- */

uint32_t *lg_put_address(uint32_t *code, uint64_t pc, unsigned int reg, uint64_t target)
{
	uint64_t pages = (target >> 12) - (pc >> 12);

	*code++ = 0x90000000u | (uint32_t)(pages & 3) << 29 |
		  (uint32_t)(pages >> 2 & 0x7ffff) << 5 | reg;			   // adrp
	*code++ = 0x91000000u | (uint32_t)(target & 0xfff) << 10 | reg << 5 | reg; // add
	return code;
}

/* The list of BPF programs, empty, and a function that uses it and what lies beside it. */
static void make_bpf(struct linux_guest *g)
{
	const uint64_t at = lg_symbol(g, "bpf_ksym_add");
	uint64_t *head = lg_image(g, LG_BPF);
	uint32_t *code = lg_image(g, at - lg_image_va(g, 0));

	head[0] = head[1] = lg_image_va(g, LG_BPF);
	code = lg_put_address(code, at, 2, lg_image_va(g, LG_MODULES));
	code = lg_put_address(code, at + 8, 3, lg_image_va(g, LG_BPF - 0x10));
	*code++ = 0x91000000u | 0x10 << 10 | 3 << 5 | 1; // add x1, x3, #0x10
	*code++ = 0xd65f03c0;				 // ret
}

/* What a kernel does that loads the current task on entry from EL0, and in idle_task(). */
static void make_code(struct linux_guest *g)
{
	uint64_t entry = lg_symbol(g, g->form.old ? "el0_sync" : "el0t_64_sync");
	uint64_t idle = lg_symbol(g, "idle_task");
	uint64_t modules = lg_symbol(g, g->form.old ? "m_start" : "module_get_kallsym");
	uint32_t *code;

	// a call in front of each address of lg_in(); otherwise nothing that tells of frames
	for (uint64_t at = LG_STEXT; at < LG_ETEXT; at += 4)
		*(uint32_t *)lg_image(g, at) =
			at % 0x20 == 0x10 ? 0x94000000 : 0xd4200000; // bl ., brk
	code = lg_image(g, entry - lg_image_va(g, 0) + 0x20);
	// an address that is not the one: gcc loads others before
	code = lg_put_address(code, entry + 0x20, 3, lg_image_va(g, LG_PERCPU + 0x1f00));
	code = lg_put_address(code, entry + 0x28, 19,
			      lg_image_va(g, LG_PERCPU + LG_PERCPU_ENTRY_TASK));
	*code++ = 0xd538d094; // mrs x20, tpidr_el1
	*code++ = 0xf8746a73; // ldr x19, [x19, x20]
	*code++ = 0xd5184113; // msr sp_el0, x19
	code = lg_image(g, idle - lg_image_va(g, 0));
	code = lg_put_address(code, idle, 1, lg_image_va(g, LG_PERCPU_OFFSETS));
	code = lg_put_address(code, idle + 8, 2, lg_image_va(g, LG_PERCPU + LG_PERCPU_RUNQUEUES));
	*code++ = 0xf8607820; // ldr x0, [x1, x0, lsl #3]
	*code++ = 0x8b020000; // add x0, x0, x2
	*code++ = 0xd65f03c0; // ret
	code = lg_image(g, modules - lg_image_va(g, 0));
	// not a list, and then one that is empty
	code = lg_put_address(code, modules, 4, lg_image_va(g, LG_BANNER));
	code = lg_put_address(code, modules + 8, 5, lg_image_va(g, LG_MODULES + 0x40));
	if (g->form.old) { // from a variable beside it
		code = lg_put_address(code, modules + 16, 6, lg_image_va(g, LG_MODULES - 0x20));
		*code++ = 0x91000000u | 0x20 << 10 | 6 << 5 | 0; // add x0, x6, #0x20
	} else {
		code = lg_put_address(code, modules + 16, 6, lg_image_va(g, LG_MODULES));
	}
	*code++ = 0xd65f03c0; // ret
	for (uint64_t at = LG_MODULES; at <= LG_MODULES + 0x40; at += 0x40) {
		uint64_t *head = lg_image(g, at);

		head[0] = head[1] = lg_image_va(g, at);
	}
	make_bpf(g);
	code = lg_image(g, lg_symbol(g, "jiffies_to_usecs") - lg_image_va(g, 0));
	*code++ = 0x52800001 | 4000 << 5; // mov w1, #4000
	*code++ = 0x1b007c20;		  // mul w0, w1, w0
	*code++ = 0xd65f03c0;		  // ret
}

/* --- read-only data --------------------------------------------------------------------------- */

static void make_table(struct linux_guest *g)
{
	struct symtab_form form = {
		.style = g->form.style,
		.seqs = g->form.seqs,
		.place = lg_image_va(g, g->table),
	};

	g->symtab = symtab_make(g->symbols, g->symbol_count, &form);
	ck_assert_uint_lt(g->symtab.size,
			  g->form.many ? LG_DIRS_LARGE - LG_KALLSYMS_MANY : LG_BTF - LG_KALLSYMS);
	if (!g->form.no_table)
		memcpy(lg_image(g, g->table), g->symtab.data, g->symtab.size);
}

static void make_types(struct linux_guest *g)
{
	struct typeinfo_form form = { .old = g->form.old,
				      .meta = g->form.meta,
				      .no_percpu = g->form.old };
	size_t size;
	uint8_t *types = typeinfo_make(g->form.types ? g->form.types : &form, &size);

	ck_assert_uint_lt(size, LG_VDSO - LG_BTF);
	memcpy(lg_image(g, LG_BTF), types, size);
	free(types);
}

/* An entry of __ksymtab: where the variable and its name are, each counted from its own place. */
static void put_export(struct linux_guest *g, uint64_t at, uint64_t variable, uint64_t name)
{
	const int32_t entry[3] = { (int32_t)(variable - at), (int32_t)(name - at - 4), 0 };

	memcpy(lg_image(g, at), entry, sizeof(entry));
}

static void make_exports(struct linux_guest *g)
{
	static const char names_text[] =
		"old_vm_node_stat\0vm_zone_stat\0vm_event_states\0avenrun\0"
		"_totalram_pages\0jiffies_64";
	const uint64_t zone = sizeof("old_vm_node_stat"), event = zone + sizeof("vm_zone_stat");
	const uint64_t load = event + sizeof("vm_event_states"), pages = load + sizeof("avenrun");
	const uint64_t jiffies = pages + sizeof("_totalram_pages");

	memcpy(lg_image(g, LG_KSYMTAB_NAMES), names_text, sizeof(names_text));
	put_export(g, LG_KSYMTAB, LG_INIT_TASK, LG_KSYMTAB_NAMES);
	put_export(g, LG_KSYMTAB + 12, LG_PERCPU, LG_KSYMTAB_NAMES + event);
	// the linker has one copy of what is the end of another name
	put_export(g, LG_KSYMTAB + 24, LG_NODE_STAT, LG_KSYMTAB_NAMES + strlen("old_"));
	put_export(g, LG_KSYMTAB + 36, LG_ZONE_STAT, LG_KSYMTAB_NAMES + zone);
	put_export(g, LG_KSYMTAB + 48, LG_LOAD, LG_KSYMTAB_NAMES + load);
	put_export(g, LG_KSYMTAB + 60, LG_TOTAL_PAGES, LG_KSYMTAB_NAMES + pages);
	put_export(g, LG_KSYMTAB + 72, LG_JIFFIES, LG_KSYMTAB_NAMES + jiffies);
}

const uint8_t lg_build_id[LNX_BUILD_ID] = { 0xb1, 0xd0, 3,  4,	5,  6,	7,  8,	9,  10,
					    11,	  12,	13, 14, 15, 16, 17, 18, 19, 20 };

static void put_note(struct linux_guest *g, uint64_t at, const uint8_t *id)
{
	static const uint8_t head[16] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0 };

	memcpy(lg_image(g, at), head, sizeof(head));
	memcpy(lg_image(g, at + sizeof(head)), id, LNX_BUILD_ID);
}

static void make_rodata(struct linux_guest *g)
{
	static const uint8_t vdso[LNX_BUILD_ID] = { 0xbd, 0x50 };

	make_exports(g);
	memcpy(lg_image(g, LG_VDSO), "\177ELF\2\1\1", 8);
	put_note(g, LG_VDSO + 0x268, vdso);
	put_note(g, LG_BUILD_ID_NOTE, lg_build_id);
	static const char banner[] = "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP\n";

	// a string that merely looks like it, as the format of the real one
	strcpy(lg_image(g, LG_BANNER - 0x80), "Linux version %s (%s)");
	if (!g->form.no_banner)
		memcpy(lg_image(g, LG_BANNER), banner, sizeof(banner));
	make_table(g);
	if (!g->form.no_types)
		make_types(g);
}

/* --- hooks ------------------------------------------------------------------------------------ */

static enum gs_code hooked_stop(void *priv, struct gs_error *err)
{
	struct linux_guest *g = priv;
	uint32_t nth = ++g->stops;
	enum gs_code rc = g->on_stop ? g->on_stop(g, nth) : GS_OK;

	if (rc)
		return gs_fail(err, rc, "the test says no");
	return g->memory_ops->stop(&g->m, err);
}

static enum gs_code hooked_resume(void *priv, struct gs_error *err)
{
	struct linux_guest *g = priv;
	enum gs_code rc = g->memory_ops->resume(&g->m, err);
	enum gs_code more = g->on_resume ? g->on_resume(g, ++g->resumes) : GS_OK;

	return !rc && more ? gs_fail(err, more, "the test says no") : rc;
}

static enum gs_code hooked_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct linux_guest *g = priv;

	ck_assert_int_gt(g->m.stop_depth, 0);
	if (BIT(g->deaf, vcpu))
		return GS_ESYS;
	return g->memory_ops->vcpu_regs(&g->m, vcpu, regs_out);
}

static enum gs_code hooked_read(void *priv, gpa_t at, void *buf, size_t len)
{
	struct linux_guest *g = priv;

	if (!gs_in_range(at.a, len, g->ram_start, g->ram_size))
		ck_abort_msg("a read of %zu bytes at %#" PRIx64 " leaves RAM", len, at.a);
	// relaxed: more would order the readers, and hide from ThreadSanitizer what they share
	uint64_t nth = atomic_fetch_add_explicit(&g->reads, 1, memory_order_relaxed) + 1;
	if (nth >= g->fail_first && nth <= g->fail_last)
		return GS_EFAULT;
	memcpy(buf, g->ram + (at.a - g->ram_start), len);
	return GS_OK;
}

void lg_unmap_host(struct linux_guest *g)
{
	g->ops.read = hooked_read;
	g->m.ranges[0].host = NULL;
	g->reads = 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void init_guest(struct linux_guest *g)
{
	memory_guest_init(&g->m, g->form.vcpus);
	ck_assert_int_eq(memory_guest_add(&g->m, GPA(g->ram_start), g->ram, g->ram_size), GS_OK);
	g->memory_ops = g->m.guest.ops;
	g->ops = (struct guest_ops){ .stop = hooked_stop,
				     .resume = hooked_resume,
				     .vcpu_regs = hooked_regs };
	g->m.guest.ops = &g->ops;
	g->m.guest.priv = g;
}

/* What the form leaves open. */
static void complete_form(struct lg_form *f)
{
	f->style = f->style ? f->style : 'A';
	f->vcpus = f->vcpus ? f->vcpus : 2;
	f->ram = f->ram ? f->ram : LG_RAM;
	f->ram_size = f->ram_size ? f->ram_size : LG_RAM_DEFAULT;
	f->voffset = f->voffset ? f->voffset : LG_VOFFSET - (f->ram - LG_RAM);
	f->granule_bits = f->granule_bits ? f->granule_bits : 12;
	f->va_bits = f->va_bits ? f->va_bits : 48;
	f->linear = f->linear ? f->linear : ~UINT64_C(0) << f->va_bits;
	ck_assert_uint_le(f->vcpus, LG_VCPUS_MAX);
}

void lg_create(struct linux_guest *g, const struct lg_form *form)
{
	memset(g, 0, sizeof(*g)); // it is too large for a copy on the stack
	g->form = *form;
	complete_form(&g->form);
	g->page = UINT64_C(1) << g->form.granule_bits;
	g->ram_start = g->form.ram;
	g->ram_size = g->form.ram_size;
	g->voffset = g->form.voffset;
	g->linear = g->form.linear;
	g->image = g->ram_start + (LG_IMAGE - LG_RAM);
	g->image_size = g->page > 4096 ? LG_DIRS_LARGE + 3 * g->page
			: form->many   ? LG_DIRS_LARGE
				       : LG_IMAGE_SIZE;
	g->table = form->many ? LG_KALLSYMS_MANY : LG_KALLSYMS;
	g->ram = calloc(1, g->ram_size);
	g->threads = calloc(LG_THREADS_MAX, sizeof(*g->threads));
	ck_assert(g->ram && g->threads);
	g->next_page = g->image + g->image_size;
	g->next_stack = (~UINT64_C(0) << (g->form.va_bits - 1)) + (LG_STACKS - LG_MIDDLE);

	init_guest(g);
	make_symbols(g);
	map_kernel(g);
	make_code(g);
	make_rodata(g);
	lg_create_tasks(g);
	lg_create_system(g);
}

void lg_destroy(struct linux_guest *g)
{
	symtab_free(&g->symtab);
	free(g->symbols);
	free(g->names);
	free(g->threads);
	free(g->ram);
}

struct lnx_hints lg_vmcoreinfo(const struct linux_guest *g, const char *without)
{
	static char text[512];
	const struct {
		const char *key, *prefix;
		uint64_t value;
	} lines[] = {
		{ "SYMBOL(swapper_pg_dir)", "", g->swapper + g->voffset },
		{ "SYMBOL(_stext)", "", lg_symbol(g, "_stext") },
		{ "NUMBER(kimage_voffset)", "0x", g->voffset },
		{ "KERNELOFFSET", "", 0x1000 },
	};
	int n = snprintf(text, sizeof(text),
			 "OSRELEASE=6.1.0-made-up\nPAGESIZE=%" PRIu64 "\n"
			 "NUMBER(VA_BITS)=%u\n",
			 g->page, g->form.va_bits);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!without || strcmp(lines[i].key, without) != 0)
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s=%s%" PRIx64 "\n",
				      lines[i].key, lines[i].prefix, lines[i].value);
	return (struct lnx_hints){ .vmcoreinfo = text, .vmcoreinfo_size = (size_t)n };
}
