/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up Linux guest. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	UINT64_C(4096)
#define PTE_PXN (UINT64_C(1) << 53)
#define PTE_UXN (UINT64_C(1) << 54)

/* T1SZ 16, 4K, A1: as 5.10 on a cortex-a57 */
#define TCR  UINT64_C(0x00500074b5503510)
#define ASID (UINT64_C(0x22) << 48)

#define EL1H 0x3c5
#define EL0T 0

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
	{ LG_NAME_63, NULL },
	{ LG_NAME_64, NULL },
};

/* Functions of the scheduler and of the locks, with the ends of their sections. */
static const struct symtab_symbol special[] = {
	{ 0x18000, "__sched_text_start", 'T' }, { 0x18000, "__switch_to", 'T' },
	{ 0x18200, "schedule", 'T' },		{ 0x18400, "__sched_text_end", 'T' },
	{ 0x18400, "__lock_text_start", 'T' },	{ 0x18400, "_raw_spin_lock", 'T' },
	{ 0x18600, "__lock_text_end", 'T' },
};

#define FILLERS	    1100
#define FILLER_AT   0x1a000
#define FILLER_SIZE 0x40

static char filler_names[FILLERS][8];

static void add_symbol(struct linux_guest *g, uint64_t offset, const char *name, char type)
{
	g->symbols[g->symbol_count++] =
		(struct symtab_symbol){ lg_image_va(g, offset), name, type };
}

static void make_symbols(struct linux_guest *g)
{
	g->symbols = calloc(FILLERS + 100, sizeof(*g->symbols));
	ck_assert_ptr_nonnull(g->symbols);
	if (g->form.data_symbols)
		add_symbol(g, 0, "_text", 'T');
	add_symbol(g, LG_STEXT, "_stext", 'T');
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		add_symbol(g, 0x10800 + 0x200 * i,
			   g->form.old && functions[i].old ? functions[i].old : functions[i].name,
			   'T');
	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		add_symbol(g, special[i].address, special[i].name, special[i].type);
	for (unsigned int i = 0; i < FILLERS; i++) {
		snprintf(filler_names[i], sizeof(filler_names[i]), "fn_%04u", i % 10000);
		add_symbol(g, FILLER_AT + FILLER_SIZE * i, filler_names[i], 't');
	}
	add_symbol(g, LG_TRAMP_TEXT, "tramp_vectors", 'T');
	add_symbol(g, LG_ETEXT, "_etext", 'D');
	add_symbol(g, LG_SINITTEXT, "_sinittext", 'T');
	add_symbol(g, LG_SINITTEXT + 0x200, "start_kernel", 'T');
	add_symbol(g, LG_EINITTEXT, "_einittext", 'T');
	if (g->form.data_symbols) {
		add_symbol(g, LG_PERCPU, "__per_cpu_start", 'D');
		add_symbol(g, LG_INIT_TASK, "init_task", 'D');
	}
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
	ck_assert(pa >= LG_RAM && pa - LG_RAM < g->ram_size);
	return g->ram + (pa - LG_RAM);
}

void *lg_image(struct linux_guest *g, uint64_t offset)
{
	return lg_at(g, LG_IMAGE + offset);
}

uint64_t lg_pages(struct linux_guest *g, uint32_t n)
{
	uint64_t pa = g->next_page;

	g->next_page += n * PAGE;
	ck_assert_msg(g->next_page <= LG_RAM + g->ram_size, "the made-up guest needs more RAM");
	return pa;
}

/* The entry of a level-3 table for an address, with the tables before it made as needed. */
static uint64_t *entry_of(struct linux_guest *g, uint64_t root, uint64_t va)
{
	uint64_t table = root;

	for (unsigned int lsb = 39;; lsb -= 9) {
		uint64_t *entry = (uint64_t *)lg_at(g, table) + BITS(va, lsb + 8, lsb);

		if (lsb == 12)
			return entry;
		if (!*entry)
			*entry = lg_pages(g, 1) | 3;
		table = *entry & UINT64_C(0xfffffffff000);
	}
}

void lg_map(struct linux_guest *g, uint64_t va, uint64_t pa, bool exec)
{
	*entry_of(g, g->swapper, va) = pa | 0x783 | PTE_UXN | (exec ? 0 : PTE_PXN);
}

void lg_unmap(struct linux_guest *g, uint64_t va)
{
	*entry_of(g, g->swapper, va) = 0;
}

uint64_t *lg_word(struct linux_guest *g, uint64_t va)
{
	uint64_t pte = *entry_of(g, g->swapper, va);

	ck_assert(pte & 1);
	return lg_at(g, (pte & UINT64_C(0xfffffffff000)) | (va & (PAGE - 1)));
}

static uint64_t linear(uint64_t pa)
{
	return LG_LINEAR + (pa - LG_RAM);
}

static void map_kernel(struct linux_guest *g)
{
	uint64_t tramp = LG_IMAGE + LG_TRAMP_DIR;

	g->swapper = tramp + 2 * PAGE;
	for (uint64_t at = 0; at < LG_IMAGE_SIZE; at += PAGE)
		lg_map(g, lg_image_va(g, at), LG_IMAGE + at,
		       (at >= LG_STEXT && at < LG_ETEXT) ||
			       (at >= LG_SINITTEXT && at < LG_EINITTEXT));
	for (uint64_t at = 0; at < g->ram_size; at += PAGE)
		lg_map(g, LG_LINEAR + at, LG_RAM + at, false);
	lg_map(g, LG_MODULE, lg_pages(g, 1), true);
	lg_map(g, LG_TRAMPOLINE, LG_IMAGE + LG_TRAMP_TEXT, true);
	// the trampoline's own table leads nowhere else
	*entry_of(g, tramp, LG_TRAMPOLINE) = (LG_IMAGE + LG_TRAMP_TEXT) | 0x783;
}

/* --- code ------------------------------------------------------------------------------------- */

static uint32_t *put_address(uint32_t *code, uint64_t pc, unsigned int reg, uint64_t target)
{
	uint64_t pages = (target >> 12) - (pc >> 12);

	*code++ = 0x90000000u | (uint32_t)(pages & 3) << 29 |
		  (uint32_t)(pages >> 2 & 0x7ffff) << 5 | reg;			   // adrp
	*code++ = 0x91000000u | (uint32_t)(target & 0xfff) << 10 | reg << 5 | reg; // add
	return code;
}

/* What a kernel does that loads the current task on entry from EL0, and in idle_task(). */
static void make_code(struct linux_guest *g)
{
	uint64_t entry = lg_symbol(g, g->form.old ? "el0_sync" : "el0t_64_sync");
	uint64_t idle = lg_symbol(g, "idle_task");
	uint32_t *code;

	for (uint64_t at = LG_STEXT; at < LG_ETEXT; at += 4)
		*(uint32_t *)lg_image(g, at) = 0xd503201f; // nop
	code = lg_image(g, entry - lg_image_va(g, 0) + 0x20);
	// an address that is not the one: gcc loads others before
	code = put_address(code, entry + 0x20, 3, lg_image_va(g, LG_PERCPU + 0x1f00));
	code = put_address(code, entry + 0x28, 19,
			   lg_image_va(g, LG_PERCPU + LG_PERCPU_ENTRY_TASK));
	*code++ = 0xd538d094; // mrs x20, tpidr_el1
	*code++ = 0xf8746a73; // ldr x19, [x19, x20]
	*code++ = 0xd5184113; // msr sp_el0, x19
	code = lg_image(g, idle - lg_image_va(g, 0));
	code = put_address(code, idle, 1, lg_image_va(g, LG_PERCPU_OFFSETS));
	code = put_address(code, idle + 8, 2, lg_image_va(g, LG_PERCPU + LG_PERCPU_RUNQUEUES));
	*code++ = 0xf8607820; // ldr x0, [x1, x0, lsl #3]
	*code++ = 0x8b020000; // add x0, x0, x2
	*code++ = 0xd65f03c0; // ret
}

/* --- read-only data --------------------------------------------------------------------------- */

static void make_table(struct linux_guest *g)
{
	struct symtab_form form = {
		.style = g->form.style,
		.seqs = g->form.seqs,
		.place = lg_image_va(g, LG_KALLSYMS),
	};

	g->symtab = symtab_make(g->symbols, g->symbol_count, &form);
	ck_assert_uint_lt(g->symtab.size, LG_BTF - LG_KALLSYMS);
	if (!g->form.no_table)
		memcpy(lg_image(g, LG_KALLSYMS), g->symtab.data, g->symtab.size);
}

static void make_types(struct linux_guest *g)
{
	struct typeinfo_form form = { .old = g->form.old,
				      .meta = g->form.meta,
				      .no_percpu = g->form.old };
	size_t size;
	uint8_t *types = typeinfo_make(g->form.types ? g->form.types : &form, &size);

	ck_assert_uint_lt(size, LG_TRAMP_DIR - LG_BTF);
	memcpy(lg_image(g, LG_BTF), types, size);
	free(types);
}

static void make_rodata(struct linux_guest *g)
{
	static const char banner[] = "Linux version 6.1.0-made-up (someone@somewhere) #1 SMP\n";

	// a string that merely looks like it, as the format of the real one
	strcpy(lg_image(g, LG_BANNER - 0x80), "Linux version %s (%s)");
	if (!g->form.no_banner)
		memcpy(lg_image(g, LG_BANNER), banner, sizeof(banner));
	make_table(g);
	if (!g->form.no_types)
		make_types(g);
}

/* --- tasks ------------------------------------------------------------------------------------ */

static uint64_t new_stack(struct linux_guest *g, uint8_t **bytes_out)
{
	uint64_t pa = lg_pages(g, LG_STACK / PAGE), va = g->next_stack;

	for (uint64_t at = 0; at < LG_STACK; at += PAGE)
		lg_map(g, va + at, pa + at, false);
	*bytes_out = lg_at(g, pa);
	g->next_stack += 2 * LG_STACK; // with a guard, and aligned so that a bit tells overflow
	return va;
}

void lg_stack_reset(struct linux_guest *g, struct lg_thread *t)
{
	uint64_t top = g->form.meta ? LG_TOP_META : LG_TOP, final[3] = { 0, 0, g->form.meta };

	memset(t->stack_bytes, 0, LG_STACK);
	memcpy(t->stack_bytes + top, final, g->form.meta ? 24 : 16);
	t->fp = t->stack + top;
	t->next = t->stack + LG_STACK - LG_REGS_SIZE;
}

uint64_t lg_push(struct linux_guest *g, struct lg_thread *t, uint64_t lr)
{
	uint64_t record[2] = { t->fp, lr };

	(void)g;
	t->next -= 0x40;
	ck_assert(t->next >= t->stack);
	memcpy(t->stack_bytes + (t->next - t->stack), record, sizeof(record));
	t->fp = t->next;
	return t->fp;
}

static void init_task(struct linux_guest *g, struct lg_thread *t, int32_t tid, const char *comm)
{
	struct lg_task *k = t->task;

	k->pid = tid;
	k->tgid = tid;
	k->state = 1;
	k->prio = 120;
	k->static_prio = 120;
	k->start_time = (uint64_t)tid * 1000000 + 500;
	k->start_boottime = (uint64_t)tid * 1000000 + 700;
	k->utime = 7000000 + (uint64_t)tid;
	k->stime = 3000000;
	k->nvcsw = 5;
	k->nivcsw = 6;
	k->min_flt = 8;
	k->maj_flt = 9;
	k->sum_exec_runtime = 10000000;
	k->exec_start = 123456789;
	k->thread_cpu = k->cpu = 1;
	k->real_parent = g->init.address;
	k->group_leader = t->address;
	k->signal = t->signal_address;
	// a decoy: x20 of a blocked task often is the task (cpu_context.x20)
	k->context[1] = t->address;
	snprintf(k->comm, sizeof(k->comm), "%s", comm);
}

static void add_node(struct linux_guest *g, uint64_t head, uint64_t node)
{
	uint64_t last = *lg_word(g, head + 8);

	*lg_word(g, node) = head;
	*lg_word(g, node + 8) = last;
	*lg_word(g, last) = node;
	*lg_word(g, head + 8) = node;
}

/* A task structure with its signal structure in 2 KiB; two to a page. */
static struct lg_thread *new_thread(struct linux_guest *g)
{
	_Static_assert(sizeof(struct lg_task) <= 0x700, "the signal structure is behind it");
	ck_assert_uint_lt(g->thread_count, LG_THREADS_MAX);
	struct lg_thread *t = &g->threads[g->thread_count++];
	uint64_t pa = g->next_half ? g->next_half : lg_pages(g, 1);

	g->next_half = g->next_half ? 0 : pa + 0x800;
	*t = (struct lg_thread){ .address = linear(pa), .task = lg_at(g, pa) };
	t->signal_address = t->address + 0x700;
	t->signal = lg_at(g, pa + 0x700);
	return t;
}

static void set_stack(struct linux_guest *g, struct lg_thread *t, struct lg_thread *other)
{
	if (other) {
		t->stack = other->stack;
		t->stack_bytes = other->stack_bytes;
		t->fp = other->fp;
		t->task->fp = other->task->fp;
	} else {
		t->stack = new_stack(g, &t->stack_bytes);
		lg_stack_reset(g, t);
		t->task->fp = t->fp;
	}
	t->task->stack = t->stack;
	t->task->sp = t->task->fp;
	t->task->pc = lg_in(g, "__switch_to");
}

#define NODE(member) offsetof(struct lg_task, member)

static struct lg_thread *add_process(struct linux_guest *g, int32_t pid, const char *comm,
				     struct lg_thread *other)
{
	struct lg_thread *t = new_thread(g);
	uint64_t head = t->signal_address + offsetof(struct lg_signal, thread_head);

	init_task(g, t, pid, comm);
	*lg_word(g, head) = head;
	*lg_word(g, head + 8) = head;
	add_node(g, head, t->address + NODE(thread_node));
	add_node(g, g->init.address + NODE(tasks), t->address + NODE(tasks));
	set_stack(g, t, other);
	return t;
}

static struct lg_thread *add_thread(struct linux_guest *g, struct lg_thread *leader, int32_t tid,
				    const char *comm, struct lg_thread *other)
{
	struct lg_thread *t = new_thread(g);

	t->signal_address = leader->signal_address;
	t->signal = leader->signal;
	init_task(g, t, tid, comm);
	t->task->tgid = leader->task->tgid;
	t->task->group_leader = leader->address;
	add_node(g, leader->signal_address + offsetof(struct lg_signal, thread_head),
		 t->address + NODE(thread_node));
	set_stack(g, t, other);
	return t;
}

struct lg_thread *lg_add_process(struct linux_guest *g, int32_t pid, const char *comm)
{
	return add_process(g, pid, comm, NULL);
}

struct lg_thread *lg_add_thread(struct linux_guest *g, struct lg_thread *leader, int32_t tid,
				const char *comm)
{
	return add_thread(g, leader, tid, comm, NULL);
}

struct lg_thread *lg_add_light_process(struct linux_guest *g, int32_t pid, struct lg_thread *other)
{
	return add_process(g, pid, "light", other);
}

struct lg_thread *lg_add_light_thread(struct linux_guest *g, struct lg_thread *leader, int32_t tid,
				      struct lg_thread *other)
{
	return add_thread(g, leader, tid, "light", other);
}

void lg_block(struct linux_guest *g, struct lg_thread *t, const char *const *names)
{
	lg_stack_reset(g, t);
	for (; *names; names++)
		lg_push(g, t, lg_in(g, *names));
	t->task->fp = t->fp;
	t->task->sp = t->next;
	t->task->pc = lg_in(g, "__switch_to");
}

static void make_init_task(struct linux_guest *g)
{
	struct lg_thread *t = &g->init;
	uint64_t head = lg_image_va(g, LG_INIT_SIGNAL) + offsetof(struct lg_signal, thread_head);

	t->address = lg_image_va(g, LG_INIT_TASK);
	t->task = lg_image(g, LG_INIT_TASK);
	t->signal_address = lg_image_va(g, LG_INIT_SIGNAL);
	t->signal = lg_image(g, LG_INIT_SIGNAL);
	init_task(g, t, 0, "swapper/0");
	t->task->state = 0;
	t->task->cpu = t->task->thread_cpu = 0;
	*lg_word(g, head) = *lg_word(g, head + 8) = t->address + NODE(thread_node);
	*lg_word(g, t->address + NODE(thread_node)) = head;
	*lg_word(g, t->address + NODE(thread_node) + 8) = head;
	*lg_word(g, t->address + NODE(tasks)) = t->address + NODE(tasks);
	*lg_word(g, t->address + NODE(tasks) + 8) = t->address + NODE(tasks);
	set_stack(g, t, NULL);
	lg_push(g, t, lg_in(g, "start_kernel"));
	t->task->fp = lg_push(g, t, lg_in(g, "do_idle"));
}

/* The idle task of a further CPU: on no list, its list node is a stale copy of init_task's. */
static void make_idle_task(struct linux_guest *g, uint32_t i)
{
	struct lg_thread *t = &g->cpu[i].idle;
	char comm[16];

	snprintf(comm, sizeof(comm), "swapper/%u", (unsigned int)i);
	*t = *new_thread(g);
	g->thread_count--; // none of the listed
	init_task(g, t, 0, comm);
	t->task->state = 0;
	t->task->cpu = t->task->thread_cpu = i;
	t->task->signal = g->init.signal_address;
	t->task->tasks =
		(struct lg_list){ g->init.address + NODE(tasks), g->init.address + NODE(tasks) };
	set_stack(g, t, NULL);
	lg_push(g, t, lg_in(g, "secondary_start_kernel"));
	t->task->fp = lg_push(g, t, lg_in(g, "do_idle"));
}

static void put_percpu(struct lg_cpu *c, uint64_t offset, uint64_t value)
{
	memcpy(c->bytes + offset, &value, sizeof(value));
}

static void make_cpu(struct linux_guest *g, uint32_t i)
{
	struct lg_cpu *c = &g->cpu[i];
	uint64_t pa = lg_pages(g, LG_PERCPU_SIZE / PAGE);

	c->area = linear(pa);
	c->bytes = lg_at(g, pa);
	c->offset = c->area - lg_image_va(g, LG_PERCPU);
	*(uint64_t *)lg_image(g, LG_PERCPU_OFFSETS + 8 * i) = c->offset;
	if (i == 0)
		c->idle = g->init;
	else
		make_idle_task(g, i);
	c->irq_stack = new_stack(g, &c->irq_bytes);

	struct lg_rq rq = { .curr = c->idle.address, .idle = c->idle.address, .cpu = i };
	memcpy(c->bytes + LG_PERCPU_RUNQUEUES, &rq, sizeof(rq));
	put_percpu(c, LG_PERCPU_IRQ_STACK_PTR, c->irq_stack);
	put_percpu(c, LG_PERCPU_ENTRY_TASK, c->idle.address);
}

/* --- vCPUs ------------------------------------------------------------------------------------ */

static void run(struct linux_guest *g, uint32_t vcpu, struct lg_thread *t)
{
	struct lg_cpu *c = &g->cpu[vcpu];
	struct lg_rq rq;

	t->task->on_cpu = 1;
	t->task->state = 0;
	t->task->cpu = t->task->thread_cpu = vcpu;
	put_percpu(c, LG_PERCPU_ENTRY_TASK, t->address);
	memcpy(&rq, c->bytes + LG_PERCPU_RUNQUEUES, sizeof(rq));
	rq.curr = t->address;
	memcpy(c->bytes + LG_PERCPU_RUNQUEUES, &rq, sizeof(rq));
}

static struct guest_vcpu_regs kernel_regs(const struct linux_guest *g, uint32_t vcpu)
{
	return (struct guest_vcpu_regs){
		.valid = GUEST_REGS_ALL,
		.state = GUEST_VCPU_ON,
		.pstate = EL1H,
		.ttbr0_el1 = LG_IMAGE + LG_TRAMP_DIR + PAGE,
		.ttbr1_el1 = g->swapper | ASID | 1, // CnP
		.tcr_el1 = TCR,
		.sctlr_el1 = 0x34d4d91d,
		.vbar_el1 = lg_symbol(g, "vectors"),
		.tpidr_el1 = g->cpu[vcpu].offset,
		.mpidr_el1 = UINT64_C(0x80000000) | vcpu,
	};
}

void lg_run(struct linux_guest *g, uint32_t vcpu, struct lg_thread *t, uint64_t pc)
{
	struct guest_vcpu_regs *r = &g->m.regs[vcpu];

	run(g, vcpu, t);
	*r = kernel_regs(g, vcpu);
	r->pc = pc;
	r->sp_el0 = t->address;
	r->sp_el1 = t->next;
	r->x[29] = t->fp;
}

void lg_run_user(struct linux_guest *g, uint32_t vcpu, struct lg_thread *t, bool kpti)
{
	struct guest_vcpu_regs *r = &g->m.regs[vcpu];

	run(g, vcpu, t);
	*r = kernel_regs(g, vcpu);
	r->pstate = EL0T;
	r->pc = 0xaaaab0001234;
	r->x[29] = r->sp_el0 = 0xffffc0001230;
	r->x[30] = 0xaaaab0005678;
	r->sp_el1 = t->stack + LG_STACK;
	if (kpti) {
		r->ttbr1_el1 = (g->swapper - 2 * PAGE) | ASID | UINT64_C(1) << 48;
		r->vbar_el1 = LG_TRAMPOLINE + 0x800;
	}
}

static void run_idle(struct linux_guest *g, uint32_t vcpu)
{
	// a leaf: its caller is only in the link register
	lg_run(g, vcpu, &g->cpu[vcpu].idle, lg_symbol(g, "cpu_do_idle") + 8);
	g->m.regs[vcpu].x[30] = lg_in(g, "arch_cpu_idle");
	g->m.regs[vcpu].x[29] = g->cpu[vcpu].idle.fp;
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

	ck_assert(gs_in_range(at.a, len, LG_RAM, g->ram_size));
	g->reads++;
	if (g->reads >= g->fail_first && g->reads <= g->fail_last)
		return GS_EFAULT;
	memcpy(buf, g->ram + (at.a - LG_RAM), len);
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
	ck_assert_int_eq(memory_guest_add(&g->m, GPA(LG_RAM), g->ram, g->ram_size), GS_OK);
	g->memory_ops = g->m.guest.ops;
	g->ops = (struct guest_ops){ .stop = hooked_stop,
				     .resume = hooked_resume,
				     .vcpu_regs = hooked_regs };
	g->m.guest.ops = &g->ops;
	g->m.guest.priv = g;
}

void lg_create(struct linux_guest *g, const struct lg_form *form)
{
	*g = (struct linux_guest){ .form = *form };
	if (!g->form.style)
		g->form.style = 'A';
	if (!g->form.vcpus)
		g->form.vcpus = 2;
	ck_assert_uint_le(g->form.vcpus, LG_VCPUS_MAX);
	g->ram_size = form->ram_size ? form->ram_size : LG_RAM_DEFAULT;
	g->voffset = form->voffset ? form->voffset : LG_VOFFSET;
	g->ram = calloc(1, g->ram_size);
	g->threads = calloc(LG_THREADS_MAX, sizeof(*g->threads));
	ck_assert(g->ram && g->threads);
	g->next_page = LG_IMAGE + LG_IMAGE_SIZE;
	g->next_stack = LG_STACKS;

	init_guest(g);
	make_symbols(g);
	map_kernel(g);
	make_code(g);
	make_rodata(g);
	make_init_task(g);
	for (uint32_t i = 0; i < g->form.vcpus; i++) {
		make_cpu(g, i);
		run_idle(g, i);
	}
}

void lg_destroy(struct linux_guest *g)
{
	symtab_free(&g->symtab);
	free(g->symbols);
	free(g->threads);
	free(g->ram);
}

void lg_populate(struct linux_guest *g)
{
	struct lg_thread *t = lg_add_process(g, 1, "init");
	const char *entry = g->form.old ? "el0_sync" : "el0t_64_sync";

	lg_block(g, t,
		 (const char *const[]){ entry, "el0_svc", "do_epoll_wait", "schedule", NULL });
	t = lg_add_process(g, 2, "kthreadd");
	t->task->flags = LNX_PF_KTHREAD;
	t->task->state = 0x402;
	lg_block(g, t,
		 (const char *const[]){ "ret_from_fork", "kthread", "worker_thread", "schedule",
					NULL });

	struct lg_thread *worker = lg_add_process(g, 100, "worker");
	lg_block(g, worker,
		 (const char *const[]){ entry, "el0_svc", LG_NAME_64, LG_NAME_63, "schedule",
					NULL });
	t = lg_add_thread(g, worker, 101, "runner");
	lg_stack_reset(g, t);
	lg_push(g, t, lg_in(g, entry));
	lg_push(g, t, lg_in(g, "el0_svc"));
	lg_push(g, t, lg_in(g, "vfs_read"));
	lg_run(g, 0, t, lg_symbol(g, "pipe_read") + 0x40);
	g->m.regs[0].x[30] = lg_in(g, "vfs_read");
	t = lg_add_thread(g, worker, 102, "waiter");
	lg_block(g, t, (const char *const[]){ entry, "el0_svc", "futex_wait", "schedule", NULL });
	t->task->state = 2;

	t = lg_add_process(g, 200, "zombie");
	t->task->exit_state = 0x20;
	t->task->state = 0x80;
	t->task->stack = t->stack = 0;
	t->task->mm = 0;
}
