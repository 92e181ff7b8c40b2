/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks, stacks, per-CPU areas and vCPUs of a made-up Linux guest. */
#include "tests/unit/linux/linux_guest.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* A1: as 5.10 on a cortex-a57, but for what the form of the guest says */
#define TCR  UINT64_C(0x0050007435403500)
#define ASID (UINT64_C(0x22) << 48)

#define EL1H 0x3c5
#define EL0T 0

/* --- tasks ------------------------------------------------------------------------------------ */

static uint64_t new_stack(struct linux_guest *g, uint8_t **bytes_out)
{
	const uint64_t size = gs_max(LG_STACK, g->page);
	uint64_t pa = lg_pages(g, (uint32_t)(size / g->page)), va = g->next_stack;

	for (uint64_t at = 0; at < size; at += g->page)
		lg_map(g, va + at, pa + at, false);
	*bytes_out = lg_at(g, pa);
	g->next_stack += 2 * size; // with a guard, and aligned so that a bit tells overflow
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
	*t = (struct lg_thread){ .address = lg_linear(g, pa), .task = lg_at(g, pa) };
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

struct lg_mm *lg_add_mm(struct linux_guest *g, struct lg_thread *t, uint64_t context_id)
{
	uint64_t pa = lg_pages(g, 1);
	struct lg_mm *mm = lg_at(g, pa);

	mm->pgd = lg_linear(g, lg_pages(g, 1));
	mm->context_id = context_id;
	t->task->mm = lg_linear(g, pa);
	return mm;
}

uint64_t lg_directory(const struct linux_guest *g, const struct lg_mm *mm)
{
	return mm->pgd - g->linear + g->ram_start;
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
	uint64_t pa = lg_pages(g, (uint32_t)(gs_max(LG_PERCPU_SIZE, g->page) / g->page));

	c->area = lg_linear(g, pa);
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

static uint64_t tcr_of(const struct lg_form *f)
{
	static const uint64_t tg0[] = { [12] = 0, [14] = 2, [16] = 1 };
	static const uint64_t tg1[] = { [12] = 2, [14] = 1, [16] = 3 };
	const uint64_t tnsz = 64 - f->va_bits; // of both halves
	uint64_t tcr =
		TCR | tnsz | tnsz << 16 | tg0[f->granule_bits] << 14 | tg1[f->granule_bits] << 30;

	// DS, and 52 bits of output addresses instead of 44
	return f->va_bits == 52 ? tcr | UINT64_C(1) << 59 | UINT64_C(6) << 32 : tcr;
}

static struct guest_vcpu_regs kernel_regs(const struct linux_guest *g, uint32_t vcpu)
{
	return (struct guest_vcpu_regs){
		.valid = GUEST_REGS_ALL,
		.state = GUEST_VCPU_ON,
		.pstate = EL1H,
		.ttbr0_el1 = g->swapper - g->page,
		.ttbr1_el1 = g->swapper | ASID | 1, // CnP
		.tcr_el1 = tcr_of(&g->form),
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
		r->ttbr1_el1 = (g->swapper - 2 * g->page) | ASID | UINT64_C(1) << 48;
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

void lg_create_tasks(struct linux_guest *g)
{
	make_init_task(g);
	for (uint32_t i = 0; i < g->form.vcpus; i++) {
		make_cpu(g, i);
		run_idle(g, i);
	}
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
