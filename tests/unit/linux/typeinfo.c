/* SPDX-License-Identifier: Apache-2.0 */
/* BTF of a made-up kernel. */
#include "tests/unit/linux/typeinfo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>

#define FILLER_MEMBERS 6000 /* 12 bytes each: more than the 64 KiB of the smallest kernel */

struct maker {
	struct btf *btf;
	const struct typeinfo_form *form;
	const char *in; /* structure being made */
	int u8, u16, u32, s32, u64, comm, list, ptr, sigset, sigpending;
};

static int good(int id)
{
	if (id < 0)
		abort(); // a mistake in the test
	return id;
}

static bool is_this(const struct maker *m, const char *path, const char *name)
{
	char have[64];

	snprintf(have, sizeof(have), "%s.%s", m->in, name);
	return path && strcmp(path, have) == 0;
}

static void field(struct maker *m, const char *name, int type, size_t offset)
{
	uint32_t bit = (uint32_t)offset * 8, bits = 0;

	if (is_this(m, m->form->omit, name))
		return;
	if (is_this(m, m->form->beyond, name))
		bit = UINT32_C(0xfff000) & ~7u;
	if (is_this(m, m->form->odd, name))
		bit += bits = 3; // libbpf makes only a bit field of it
	good(btf__add_field(m->btf, name, type, bit, bits));
}

static void scalars(struct maker *m)
{
	m->u8 = good(btf__add_int(m->btf, "unsigned char", 1, 0));
	m->u16 = good(btf__add_int(m->btf, "unsigned short", 2, 0));
	m->u32 = good(btf__add_int(m->btf, "unsigned int", 4, 0));
	m->s32 = good(btf__add_typedef(m->btf, "pid_t",
				       good(btf__add_int(m->btf, "int", 4, BTF_INT_SIGNED))));
	m->u64 = good(btf__add_typedef(m->btf, "u64",
				       good(btf__add_int(m->btf, "unsigned long long", 8, 0))));
	m->comm =
		good(btf__add_array(m->btf, m->u32, good(btf__add_int(m->btf, "char", 1, 1)), 16));
	m->ptr = good(btf__add_volatile(m->btf, good(btf__add_ptr(m->btf, 0))));
	m->list = good(btf__add_struct(m->btf, "list_head", 16));
	good(btf__add_field(m->btf, "next", m->ptr, 0, 0));
	good(btf__add_field(m->btf, "prev", m->ptr, 64, 0));
	int words = good(btf__add_array(m->btf, m->u32, m->u64, 1));
	m->sigset = good(btf__add_struct(m->btf, "sigset", 8));
	good(btf__add_field(m->btf, "sig", words, 0, 0));
	m->sigpending = good(btf__add_struct(m->btf, "sigpending", sizeof(struct lg_sigpending)));
	good(btf__add_field(m->btf, "list", m->list, 0, 0));
	good(btf__add_field(m->btf, "signal", m->sigset, 128, 0));
}

static void add_filler(struct maker *m)
{
	good(btf__add_struct(m->btf, "filler", 4));
	for (int i = 0; i < FILLER_MEMBERS; i++)
		good(btf__add_field(m->btf, i & 1 ? "odd" : "even", m->u32, 0, 0));
}

/* Structures that task_struct has as members. */
struct parts {
	int thread_info, se, rt, ids, ids_union, context, thread;
};

static struct parts add_parts(struct maker *m)
{
	struct parts p;

	p.thread_info = good(btf__add_struct(m->btf, "thread_info", 16));
	good(btf__add_field(m->btf, "flags", m->u64, 0, 0));
	good(btf__add_field(m->btf, "preempt_count", m->u32, 64, 0));
	if (!m->form->old)
		good(btf__add_field(m->btf, "cpu", m->u32, 96, 0));
	m->in = "task_struct";
	p.se = good(btf__add_struct(m->btf, "sched_entity", 48));
	good(btf__add_field(m->btf, "exec_start", m->u64, 0, 0));
	good(btf__add_field(m->btf, "sum_exec_runtime", m->u64, 64, 0));
	field(m, "vruntime", m->u64, 16);
	field(m, "cfs_rq", m->ptr, 24);
	if (!m->form->old) {
		field(m, "deadline", m->u64, 32);
		field(m, "sched_delayed", m->u8, 40);
	}
	p.rt = good(btf__add_struct(m->btf, "sched_rt_entity", 16));
	field(m, "run_list", m->list, 0);
	p.ids = good(btf__add_struct(m->btf, NULL, 8));
	field(m, "pid", m->s32, 0);
	field(m, "tgid", m->s32, 4);
	p.ids_union = good(btf__add_union(m->btf, NULL, 8));
	good(btf__add_field(m->btf, "both_ids", m->u64, 0, 0));
	good(btf__add_field(m->btf, NULL, p.ids, 0, 0));
	p.context = good(btf__add_struct(m->btf, "cpu_context", 13 * 8));
	good(btf__add_field(m->btf, "x19", m->u64, 0, 0));
	field(m, "fp", m->u64, 80);
	field(m, "sp", m->u64, 88);
	field(m, "pc", m->u64, 96);
	p.thread = good(btf__add_struct(m->btf, "thread_struct", 13 * 8));
	good(btf__add_field(m->btf, "cpu_context", p.context, 0, 0));
	return p;
}

#define AT(member) offsetof(struct lg_task, member)

static void add_task(struct maker *m)
{
	struct parts p = add_parts(m);
	bool old = m->form->old;

	// the forward declaration that 5.10 has besides
	good(btf__add_fwd(m->btf, "task_struct", BTF_FWD_STRUCT));
	good(btf__add_struct(m->btf, "task_struct", sizeof(struct lg_task)));
	field(m, "thread_info", p.thread_info, 0);
	field(m, old ? "state" : "__state", m->u32, AT(state));
	field(m, "stack", m->ptr, AT(stack));
	field(m, "flags", m->u32, AT(flags));
	field(m, "on_cpu", m->form->int_on_cpu ? m->u32 : m->u8, AT(on_cpu));
	// a bit field makes libbpf set kind_flag, which changes how all offsets are stored
	good(btf__add_field(m->btf, "sched_reset_on_fork", m->u32, AT(bits) * 8 + 1, 1));
	if (old)
		field(m, "cpu", m->u32, AT(cpu));
	field(m, "prio", m->u32, AT(prio));
	field(m, "static_prio", m->u32, AT(static_prio));
	field(m, "rt_priority", m->u32, AT(rt_priority));
	field(m, "policy", m->u32, AT(policy));
	field(m, "se", p.se, AT(exec_start));
	field(m, "tasks", m->list, AT(tasks));
	field(m, "mm", m->ptr, AT(mm));
	field(m, "exit_state", m->u32, AT(exit_state));
	good(btf__add_field(m->btf, NULL, p.ids_union, AT(pid) * 8, 0));
	field(m, "real_parent", m->ptr, AT(real_parent));
	field(m, "group_leader", m->ptr, AT(group_leader));
	field(m, "thread_node", m->list, AT(thread_node));
	field(m, "utime", m->u64, AT(utime));
	field(m, "stime", m->u64, AT(stime));
	field(m, "nvcsw", m->u64, AT(nvcsw));
	field(m, "nivcsw", m->u64, AT(nivcsw));
	field(m, "start_time", m->u64, AT(start_time));
	field(m, old ? "real_start_time" : "start_boottime", m->u64, AT(start_boottime));
	field(m, "min_flt", m->u64, AT(min_flt));
	field(m, "maj_flt", m->u64, AT(maj_flt));
	field(m, "comm", m->comm, AT(comm));
	field(m, "signal", m->ptr, AT(signal));
	field(m, "ret_stack", m->ptr, AT(ret_stack));
	field(m, "curr_ret_stack", m->s32, AT(curr_ret_stack));
	if (!old)
		field(m, "kretprobe_instances", m->ptr, AT(kretprobe_instances));
	field(m, "thread", p.thread, AT(context));
	field(m, "nsproxy", m->ptr, AT(nsproxy));
	field(m, "blocked", m->sigset, AT(blocked));
	field(m, "pending", m->sigpending, AT(pending));
	field(m, "cgroups", m->ptr, AT(cgroups));
	field(m, "on_rq", m->u32, AT(on_rq));
	field(m, "lockdep_depth", m->u32, AT(lockdep_depth));
	field(m, "rt", p.rt, AT(run_list));
}

static bool begin_struct(struct maker *m, const char *name, uint32_t size)
{
	m->in = name;
	if (m->form->omit && strcmp(m->form->omit, name) == 0)
		return false;
	good(btf__add_struct(m->btf, name, size));
	return true;
}

static void add_regs(struct maker *m)
{
	int regs = good(btf__add_array(m->btf, m->u32, m->u64, 31));
	int frame = good(btf__add_array(m->btf, m->u32, m->u64, m->form->meta ? 3 : 2));

	if (m->form->meta)
		good(btf__add_struct(m->btf, "frame_record_meta", 24));
	int user = good(btf__add_struct(m->btf, NULL, 34 * 8));
	m->in = "pt_regs";
	field(m, "regs", regs, 0);
	good(btf__add_field(m->btf, "sp", m->u64, 248 * 8, 0));
	field(m, "pc", m->u64, 256);
	good(btf__add_field(m->btf, "pstate", m->u64, 264 * 8, 0));
	if (!begin_struct(m, "pt_regs", m->form->meta ? LG_REGS_META_SIZE : LG_REGS_SIZE))
		return;
	good(btf__add_field(m->btf, NULL, user, 0, 0));
	field(m, "stackframe", frame, m->form->meta ? 296 : 304);
}

static void add_others(struct maker *m)
{
	if (begin_struct(m, "signal_struct", sizeof(struct lg_signal))) {
		field(m, "thread_head", m->list, offsetof(struct lg_signal, thread_head));
		field(m, "shared_pending", m->sigpending,
		      offsetof(struct lg_signal, shared_pending));
	}
	int queues = good(btf__add_array(m->btf, m->u32, m->list, 100));
	int array = good(btf__add_struct(m->btf, "rt_prio_array", 1600));
	good(btf__add_field(m->btf, "queue", queues, 0, 0));
	int rt = good(btf__add_struct(m->btf, "rt_rq", 1600));
	good(btf__add_field(m->btf, "active", array, 0, 0));
	if (begin_struct(m, "rq", sizeof(struct lg_rq))) {
		field(m, "curr", m->ptr, offsetof(struct lg_rq, curr));
		field(m, "idle", m->ptr, offsetof(struct lg_rq, idle));
		field(m, "cpu", m->u32, offsetof(struct lg_rq, cpu));
		field(m, "clock", m->u64, offsetof(struct lg_rq, clock));
		field(m, "rt", rt, offsetof(struct lg_rq, rt_queue));
	}
}

static void add_mm(struct maker *m)
{
	int counter = good(btf__add_struct(m->btf, NULL, 8));
	good(btf__add_field(m->btf, "counter", m->u64, 0, 0));
	int atomic = good(btf__add_typedef(m->btf, "atomic64_t", counter));
	int context = good(btf__add_struct(m->btf, NULL, 16));
	m->in = "mm_struct";
	good(btf__add_field(m->btf, "vdso", m->ptr, 64, 0));
	field(m, "id", atomic, 0);
	context = good(btf__add_typedef(m->btf, "mm_context_t", context));
	int maple = good(btf__add_struct(m->btf, "maple_tree", 16));
	good(btf__add_field(m->btf, "ma_flags", m->u32, 0, 0));
	good(btf__add_field(m->btf, "ma_root", m->ptr, 64, 0));
	int rb = good(btf__add_struct(m->btf, "rb_root", 8));
	good(btf__add_field(m->btf, "rb_node", m->ptr, 0, 0));
	int all = good(btf__add_struct(m->btf, NULL, sizeof(struct lg_mm)));
	field(m, "pgd", m->ptr, offsetof(struct lg_mm, pgd));
	good(btf__add_field(m->btf, "mm_users", atomic, offsetof(struct lg_mm, users) * 8, 0));
	field(m, "context", context, offsetof(struct lg_mm, context_id));
	if (m->form->old)
		field(m, "mm_rb", rb, offsetof(struct lg_mm, rb_root));
	else
		field(m, "mm_mt", maple, offsetof(struct lg_mm, maple));
	field(m, "arg_start", m->u64, offsetof(struct lg_mm, arg_start));
	field(m, "arg_end", m->u64, offsetof(struct lg_mm, arg_end));
	if (begin_struct(m, "mm_struct", sizeof(struct lg_mm)))
		good(btf__add_field(m->btf, NULL, all, 0, 0));
}

static void add_layouts(struct maker *m)
{
	int layout = good(btf__add_struct(m->btf, "module_layout", sizeof(struct lg_layout)));

	good(btf__add_field(m->btf, "base", m->ptr, 0, 0));
	good(btf__add_field(m->btf, "size", m->u32, 64, 0));
	good(btf__add_field(m->btf, "text_size", m->u32, 96, 0));
	if (!begin_struct(m, "module", sizeof(struct lg_module)))
		return;
	field(m, "core_layout", layout, offsetof(struct lg_module, core_layout));
	field(m, "init_layout", layout, offsetof(struct lg_module, init_layout));
}

static void add_memories(struct maker *m)
{
	int memory = good(btf__add_struct(m->btf, "module_memory", sizeof(struct lg_memory)));

	m->in = "module_memory";
	field(m, "base", m->ptr, 0);
	field(m, "size", m->u32, offsetof(struct lg_memory, size));
	memory = good(btf__add_array(m->btf, m->u32, memory, LG_MEMORIES));
	if (begin_struct(m, "module", sizeof(struct lg_module)))
		field(m, "mem", memory, offsetof(struct lg_module, mem));
}

#define MODULE(member) offsetof(struct lg_module, member)

static void add_module(struct maker *m)
{
	int c = good(btf__add_int(m->btf, "char", 1, 1));
	int name = good(btf__add_array(m->btf, m->u32, c, LG_MODULE_NAME_SIZE));
	int id = good(btf__add_array(m->btf, m->u32, m->u8, 20));

	if (m->form->mem || m->form->meta)
		add_memories(m);
	else
		add_layouts(m);
	if (!m->form->omit || strcmp(m->form->omit, "module") != 0) {
		field(m, "state", m->u32, MODULE(state));
		field(m, "list", m->list, MODULE(list));
		field(m, "name", name, MODULE(name));
		field(m, "build_id", id, MODULE(build_id));
		field(m, "kallsyms", m->ptr, MODULE(kallsyms));
	}
	if (begin_struct(m, "mod_kallsyms", sizeof(struct lg_mod_kallsyms))) {
		field(m, "symtab", m->ptr, offsetof(struct lg_mod_kallsyms, symtab));
		field(m, "num_symtab", m->u32, offsetof(struct lg_mod_kallsyms, num_symtab));
		field(m, "strtab", m->ptr, offsetof(struct lg_mod_kallsyms, strtab));
	}
}

#define PUT(member, type, in) field(m, #member, type, offsetof(struct in, member))

static void add_bpf(struct maker *m)
{
	int c = good(btf__add_int(m->btf, "char", 1, 1));
	int name = good(btf__add_array(m->btf, m->u32, c, LG_BPF_NAME_SIZE));

	if (!begin_struct(m, "bpf_ksym", sizeof(struct lg_bpf_ksym)))
		return;
	PUT(start, m->u64, lg_bpf_ksym);
	PUT(end, m->u64, lg_bpf_ksym);
	PUT(name, name, lg_bpf_ksym);
	PUT(lnode, m->list, lg_bpf_ksym);
}

static void add_locks(struct maker *m)
{
	if (begin_struct(m, "mutex", sizeof(struct lg_mutex))) {
		PUT(owner, m->u64, lg_mutex);
		PUT(wait_list, m->list, lg_mutex);
	}
	if (begin_struct(m, "mutex_waiter", sizeof(struct lg_mutex_waiter))) {
		PUT(list, m->list, lg_mutex_waiter);
		PUT(task, m->ptr, lg_mutex_waiter);
	}
	if (begin_struct(m, "rw_semaphore", sizeof(struct lg_rwsem))) {
		PUT(count, m->u64, lg_rwsem);
		PUT(owner, m->u64, lg_rwsem);
		PUT(wait_list, m->list, lg_rwsem);
	}
	if (begin_struct(m, "rwsem_waiter", sizeof(struct lg_rwsem_waiter))) {
		PUT(list, m->list, lg_rwsem_waiter);
		PUT(task, m->ptr, lg_rwsem_waiter);
		PUT(type, m->u32, lg_rwsem_waiter);
	}
}

static void add_queues(struct maker *m)
{
	int head = good(btf__add_struct(m->btf, "swait_queue_head", 24));
	good(btf__add_field(m->btf, "task_list", m->list, 64, 0));
	if (begin_struct(m, "swait_queue", sizeof(struct lg_swait))) {
		PUT(task_list, m->list, lg_swait);
		PUT(task, m->ptr, lg_swait);
	}
	if (begin_struct(m, "completion", sizeof(struct lg_completion))) {
		PUT(done, m->u32, lg_completion);
		field(m, "wait", head, offsetof(struct lg_completion, lock));
	}
	if (begin_struct(m, "wait_queue_head", sizeof(struct lg_wait_head)))
		PUT(head, m->list, lg_wait_head);
	if (begin_struct(m, "wait_queue_entry", sizeof(struct lg_wait_entry))) {
		PUT(func, m->ptr, lg_wait_entry);
		PUT(private, m->ptr, lg_wait_entry);
		PUT(entry, m->list, lg_wait_entry);
	}
}

static void add_poll(struct maker *m)
{
	int wait = btf__find_by_name(m->btf, "wait_queue_entry");
	if (wait < 0)
		return; // left out
	int entry = good(btf__add_struct(m->btf, "poll_table_entry", sizeof(struct lg_poll_entry)));
	m->in = "poll_table_entry";
	PUT(wait, wait, lg_poll_entry);
	PUT(wait_address, m->ptr, lg_poll_entry);
	int entries = good(btf__add_array(m->btf, m->u32, entry, 2));
	if (begin_struct(m, "poll_wqueues", sizeof(struct lg_poll))) {
		PUT(polling_task, m->ptr, lg_poll);
		PUT(inline_index, m->u32, lg_poll);
		PUT(inline_entries, entries, lg_poll);
	}
}

static void add_futex(struct maker *m)
{
	int node = good(btf__add_struct(m->btf, "plist_node", 40));
	good(btf__add_field(m->btf, "prio_list", m->list, 64, 0));
	good(btf__add_field(m->btf, "node_list", m->list, 192, 0));
	int both = good(btf__add_struct(m->btf, NULL, 24));
	good(btf__add_field(m->btf, "ptr", m->u64, 0, 0));
	good(btf__add_field(m->btf, "word", m->u64, 64, 0));
	good(btf__add_field(m->btf, "offset", m->u32, 128, 0));
	int key = good(btf__add_union(m->btf, "futex_key", 24));
	good(btf__add_field(m->btf, "both", both, 0, 0));
	int chain = good(btf__add_struct(m->btf, "plist_head", 16));
	good(btf__add_field(m->btf, "node_list", m->list, 0, 0));
	if (begin_struct(m, "futex_q", sizeof(struct lg_futex_q))) {
		PUT(lock_ptr, m->ptr, lg_futex_q);
		field(m, "list", node, offsetof(struct lg_futex_q, prio));
		PUT(task, m->ptr, lg_futex_q);
		field(m, "key", key, offsetof(struct lg_futex_q, key_ptr));
	}
	if (begin_struct(m, "futex_hash_bucket", sizeof(struct lg_futex_bucket))) {
		PUT(lock, m->u64, lg_futex_bucket);
		field(m, "chain", chain, offsetof(struct lg_futex_bucket, chain));
	}
}

static void add_timers(struct maker *m)
{
	const uint32_t node_at = offsetof(struct lg_sleeper, parent);
	int rb = good(btf__add_struct(m->btf, "rb_node", 24));
	good(btf__add_field(m->btf, "rb_right", m->ptr, 64, 0));
	good(btf__add_field(m->btf, "rb_left", m->ptr, 128, 0));
	int node = good(btf__add_struct(m->btf, "timerqueue_node", 32));
	good(btf__add_field(m->btf, "node", rb, 0, 0));
	good(btf__add_field(m->btf, "expires", m->u64, 192, 0));
	int timer = good(btf__add_struct(m->btf, "hrtimer", 48));
	good(btf__add_field(m->btf, "node", node, 0, 0));
	good(btf__add_field(m->btf, "base", m->ptr, 256, 0));
	good(btf__add_field(m->btf, "state", m->u8, 320, 0));
	int root = good(btf__add_struct(m->btf, "rb_root", 8));
	good(btf__add_field(m->btf, "rb_node", m->ptr, 0, 0));
	int cached = good(btf__add_struct(m->btf, "rb_root_cached", 16));
	good(btf__add_field(m->btf, "rb_root", root, 0, 0));
	int active = good(btf__add_struct(m->btf, "timerqueue_head", 16));
	good(btf__add_field(m->btf, "rb_root", cached, 0, 0));
	if (begin_struct(m, "hrtimer_sleeper", sizeof(struct lg_sleeper))) {
		PUT(task, m->ptr, lg_sleeper);
		field(m, "timer", timer, node_at);
	}
	if (begin_struct(m, "hrtimer_clock_base", sizeof(struct lg_clock_base)))
		field(m, "active", active, offsetof(struct lg_clock_base, root));
}

static void add_maple_node(struct maker *m, const char *name, uint32_t slots, size_t at)
{
	int pivot = good(btf__add_array(m->btf, m->u32, m->u64, slots - 1));
	int slot = good(btf__add_array(m->btf, m->u32, m->ptr, slots));

	if (!begin_struct(m, name, 256))
		return;
	field(m, "parent", m->ptr, 0);
	field(m, "pivot", pivot, 8);
	field(m, "slot", slot, at);
}

static void add_vma(struct maker *m)
{
	int rb = good(btf__find_by_name(m->btf, "rb_node"));

	if (!begin_struct(m, "vm_area_struct", sizeof(struct lg_vma)))
		return;
	field(m, "vm_start", m->u64, offsetof(struct lg_vma, start));
	field(m, "vm_end", m->u64, offsetof(struct lg_vma, end));
	if (m->form->old)
		field(m, "vm_rb", rb, offsetof(struct lg_vma, rb));
	field(m, "vm_pgoff", m->u64, offsetof(struct lg_vma, pgoff));
	field(m, "vm_file", m->ptr, offsetof(struct lg_vma, file));
}

static void add_file(struct maker *m)
{
	int path = good(btf__add_struct(m->btf, "path", 16));

	good(btf__add_field(m->btf, "mnt", m->ptr, 0, 0));
	good(btf__add_field(m->btf, "dentry", m->ptr, 64, 0));
	if (begin_struct(m, "file", sizeof(struct lg_file))) {
		field(m, "f_path", path, offsetof(struct lg_file, mount));
		field(m, "f_inode", m->ptr, offsetof(struct lg_file, inode));
	}
	if (begin_struct(m, "inode", sizeof(struct lg_inode)))
		field(m, "i_ino", m->u64, offsetof(struct lg_inode, number));
	int both = good(btf__add_struct(m->btf, NULL, 8));
	good(btf__add_field(m->btf, "hash", m->u32, 0, 0));
	good(btf__add_field(m->btf, "len", m->u32, 32, 0));
	int name = good(btf__add_struct(m->btf, "qstr", 16));
	good(btf__add_field(m->btf, NULL, both, 0, 0));
	good(btf__add_field(m->btf, "name", m->ptr, 64, 0));
	if (begin_struct(m, "dentry", sizeof(struct lg_dentry))) {
		field(m, "d_parent", m->ptr, offsetof(struct lg_dentry, parent));
		field(m, "d_name", name, offsetof(struct lg_dentry, hash));
	}
}

static void add_mappings(struct maker *m)
{
	add_vma(m);
	add_file(m);
	if (m->form->old)
		return;
	add_maple_node(m, "maple_range_64", 16, offsetof(struct lg_maple_range, slot));
	add_maple_node(m, "maple_arange_64", 10, offsetof(struct lg_maple_arange, slot));
}

static void add_tracers(struct maker *m)
{
	const bool is_new = m->form->meta;

	if (begin_struct(m, "ftrace_ret_stack",
			 is_new ? sizeof(struct lg_new_ret_stack) : sizeof(struct lg_ret_stack))) {
		field(m, "ret", m->u64, offsetof(struct lg_ret_stack, ret));
		field(m, "func", m->u64, offsetof(struct lg_ret_stack, func));
		if (is_new) {
			field(m, "retp", m->ptr, offsetof(struct lg_new_ret_stack, retp));
		} else {
			good(btf__add_field(m->btf, "calltime", m->u64,
					    offsetof(struct lg_ret_stack, calltime) * 8, 0));
			field(m, "fp", m->u64, offsetof(struct lg_ret_stack, fp));
			field(m, "retp", m->ptr, offsetof(struct lg_ret_stack, retp));
		}
	}
	if (is_new && begin_struct(m, "fgraph_ops", 16))
		field(m, "idx", m->s32, 8);
	if (!m->form->old && begin_struct(m, "kretprobe_instance", sizeof(struct lg_kretprobe))) {
		field(m, "llist", m->ptr, offsetof(struct lg_kretprobe, llist));
		field(m, "ret_addr", m->ptr, offsetof(struct lg_kretprobe, ret_addr));
		field(m, "fp", m->ptr, offsetof(struct lg_kretprobe, fp));
	}
	if (m->form->old &&
	    begin_struct(m, "kretprobe_instance", sizeof(struct lg_old_kretprobe))) {
		field(m, "hlist", m->list, offsetof(struct lg_old_kretprobe, hlist));
		field(m, "ret_addr", m->ptr, offsetof(struct lg_old_kretprobe, ret_addr));
		field(m, "task", m->ptr, offsetof(struct lg_old_kretprobe, task));
		field(m, "fp", m->ptr, offsetof(struct lg_old_kretprobe, fp));
	}
}

static void add_cgroups(struct maker *m)
{
	if (begin_struct(m, "css_set", sizeof(struct lg_css_set)))
		field(m, "dfl_cgrp", m->ptr, offsetof(struct lg_css_set, dfl_cgrp));
	if (begin_struct(m, "cgroup", sizeof(struct lg_cgroup)))
		field(m, "kn", m->ptr, offsetof(struct lg_cgroup, kn));
	if (!begin_struct(m, "kernfs_node", sizeof(struct lg_kernfs_node)))
		return;
	field(m, m->form->old ? "parent" : "__parent", m->ptr,
	      offsetof(struct lg_kernfs_node, parent));
	field(m, "name", m->ptr, offsetof(struct lg_kernfs_node, name));
}

/* Members of nsproxy, and what they lead to. */
static void add_namespaces(struct maker *m)
{
	static const struct {
		const char *member, *in;
		size_t offset;
	} each[] = {
		{ "uts_ns", "uts_namespace", offsetof(struct lg_nsproxy, uts) },
		{ "ipc_ns", "ipc_namespace", offsetof(struct lg_nsproxy, ipc) },
		{ "mnt_ns", "mnt_namespace", offsetof(struct lg_nsproxy, mnt) },
		{ "pid_ns_for_children", "pid_namespace", offsetof(struct lg_nsproxy, pid) },
		{ "net_ns", "net", offsetof(struct lg_nsproxy, net) },
		{ "time_ns", "time_namespace", offsetof(struct lg_nsproxy, time) },
		{ "cgroup_ns", "cgroup_namespace", offsetof(struct lg_nsproxy, cgroup) },
	};
	const uint32_t before = offsetof(struct lg_namespace, gap2);
	int common = good(btf__add_struct(m->btf, "ns_common", 8));

	good(btf__add_field(m->btf, "inum", m->u32, 32, 0));
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		if (begin_struct(m, each[i].in, sizeof(struct lg_namespace)))
			field(m, "ns", common, before);
	if (begin_struct(m, "nsproxy", sizeof(struct lg_nsproxy)))
		for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++)
			field(m, each[i].member, m->ptr, each[i].offset);
}

#define RING(member)  offsetof(struct lg_ring, member)
#define DESCS(member) (RING(member) - RING(count_bits))
#define TEXTS(member) (RING(member) - RING(size_bits))

static void add_ring(struct maker *m)
{
	int descs = good(btf__add_struct(m->btf, "prb_desc_ring", DESCS(size_bits)));
	m->in = "printk_ringbuffer";
	field(m, "count_bits", m->u32, 0);
	field(m, "descs", m->ptr, DESCS(descs));
	field(m, "infos", m->ptr, DESCS(infos));
	field(m, "head_id", m->u64, DESCS(head_id));
	field(m, "tail_id", m->u64, DESCS(tail_id));
	int texts = good(
		btf__add_struct(m->btf, "prb_data_ring", sizeof(struct lg_ring) - RING(size_bits)));
	field(m, "size_bits", m->u32, 0);
	field(m, "data", m->ptr, TEXTS(data));
	if (begin_struct(m, "printk_ringbuffer", sizeof(struct lg_ring))) {
		field(m, "desc_ring", descs, RING(count_bits));
		field(m, "text_data_ring", texts, RING(size_bits));
	}
}

static void add_messages(struct maker *m)
{
	int device = good(btf__add_array(m->btf, m->u32, m->u8, 64));
	int lpos = good(btf__add_struct(m->btf, "prb_data_blk_lpos", 16));
	m->in = "prb_desc";
	field(m, "begin", m->u64, 0);
	field(m, "next", m->u64, 8);
	if (begin_struct(m, "prb_desc", sizeof(struct lg_desc))) {
		field(m, "state_var", m->u64, 0);
		field(m, "text_blk_lpos", lpos, offsetof(struct lg_desc, begin));
	}
	if (!begin_struct(m, "printk_info", sizeof(struct lg_info)))
		return;
	field(m, "seq", m->u64, offsetof(struct lg_info, seq));
	field(m, "ts_nsec", m->u64, offsetof(struct lg_info, ts_nsec));
	field(m, "text_len", m->u16, offsetof(struct lg_info, text_len));
	field(m, "facility", m->u8, offsetof(struct lg_info, facility));
	if (!is_this(m, m->form->omit, "flags"))
		good(btf__add_field(m->btf, "flags", m->u8, offsetof(struct lg_info, flags) * 8,
				    5));
	good(btf__add_field(m->btf, "level", m->u8, offsetof(struct lg_info, flags) * 8 + 5, 3));
	field(m, "caller_id", m->u32, offsetof(struct lg_info, caller_id));
	field(m, "dev_info", device, offsetof(struct lg_info, dev_info));
}

static void enumerator(struct maker *m, const char *name, int64_t value)
{
	if (!is_this(m, m->form->omit, name))
		good(btf__add_enum_value(m->btf, name, value));
}

static void add_enums(struct maker *m)
{
	m->in = "zone_stat_item";
	if (!m->form->omit || strcmp(m->form->omit, m->in) != 0) {
		good(btf__add_enum(m->btf, m->in, 4));
		enumerator(m, "NR_FREE_PAGES", LG_NR_FREE_PAGES);
		enumerator(m, "NR_ZONE_ACTIVE_ANON", 4);
		enumerator(m, "NR_ZSPAGES", LG_NR_ZSPAGES);
		enumerator(m, "NR_VM_ZONE_STAT_ITEMS", LG_ZONE_ITEMS);
	}
	m->in = "node_stat_item";
	if (m->form->omit && strcmp(m->form->omit, m->in) == 0)
		return;
	good(btf__add_enum(m->btf, m->in, 4));
	enumerator(m, "NR_LRU_BASE", LG_NR_INACTIVE_ANON);
	enumerator(m, "NR_INACTIVE_ANON", LG_NR_INACTIVE_ANON);
	enumerator(m, "NR_ACTIVE_ANON", LG_NR_ACTIVE_ANON);
	enumerator(m, "NR_INACTIVE_FILE", LG_NR_INACTIVE_FILE);
	enumerator(m, "NR_ACTIVE_FILE", LG_NR_ACTIVE_FILE);
	enumerator(m, "NR_UNEVICTABLE", LG_NR_UNEVICTABLE);
	enumerator(m, "NR_SLAB_RECLAIMABLE_B", LG_NR_SLAB_RECLAIMABLE);
	enumerator(m, m->form->old ? "NR_SLAB_UNRECLAIMABLE" : "NR_SLAB_UNRECLAIMABLE_B",
		   LG_NR_SLAB_UNRECLAIMABLE);
	enumerator(m, "NR_FILE_PAGES", LG_NR_FILE_PAGES);
	enumerator(m, "NR_VM_NODE_STAT_ITEMS", LG_NODE_ITEMS);
}

static void add_percpu(struct maker *m)
{
	static const struct {
		const char *name;
		uint32_t offset, size;
	} vars[] = {
		{ "irq_stack_ptr", LG_PERCPU_IRQ_STACK_PTR, 8 },
		{ "__entry_task", LG_PERCPU_ENTRY_TASK, 8 },
		{ "sdei_stack_normal_ptr", LG_PERCPU_SDEI_NORMAL, 8 },
		{ "sdei_stack_critical_ptr", LG_PERCPU_SDEI_CRITICAL, 8 },
		{ "overflow_stack", LG_PERCPU_OVERFLOW_STACK, 4096 },
		{ "runqueues", LG_PERCPU_RUNQUEUES, sizeof(struct lg_rq) },
	};
	enum { COUNT = sizeof(vars) / sizeof(*vars) };
	int id[COUNT];

	for (int i = 0; i < COUNT; i++)
		id[i] = good(btf__add_var(m->btf, vars[i].name, BTF_VAR_GLOBAL_ALLOCATED, m->u64));
	good(btf__add_datasec(m->btf, ".data..percpu", LG_PERCPU_SIZE));
	for (int i = 0; i < COUNT; i++)
		good(btf__add_datasec_var_info(m->btf, id[i], vars[i].offset, vars[i].size));
}

/*
 * pid_t vfs_read(struct list_head *file, const char *text, u64, void (**hooks)(void),
 *		  const char *const fixed, unsigned int words[1], ...);
 * void schedule(void);
 */
static void add_functions(struct maker *m)
{
	const int character = good(btf__add_const(m->btf, good(btf__find_by_name(m->btf, "char"))));
	const int nothing = good(btf__add_func_proto(m->btf, 0));
	const int hook = good(btf__add_ptr(m->btf, nothing));
	const int hooks = good(btf__add_ptr(m->btf, hook)),
		  list = good(btf__add_ptr(m->btf, m->list));
	const int text = good(btf__add_ptr(m->btf, character));
	const int fixed = good(btf__add_const(m->btf, text));
	const int words = good(btf__add_array(m->btf, m->u32, m->u32, 1));
	const int read = good(btf__add_func_proto(m->btf, m->s32));

	/* of the prototype, as long as it is the last type */
	good(btf__add_func_param(m->btf, "file", list));
	good(btf__add_func_param(m->btf, "text", text));
	good(btf__add_func_param(m->btf, NULL, m->u64));
	good(btf__add_func_param(m->btf, "hooks", hooks));
	good(btf__add_func_param(m->btf, "fixed", fixed));
	good(btf__add_func_param(m->btf, "words", words));
	good(btf__add_func_param(m->btf, NULL, 0));
	good(btf__add_func(m->btf, "vfs_read", BTF_FUNC_STATIC, read));
	good(btf__add_func(m->btf, "schedule", BTF_FUNC_STATIC, nothing));
}

uint8_t *typeinfo_make(const struct typeinfo_form *form, size_t *size_out)
{
	struct maker m = { .btf = btf__new_empty(), .form = form };

	if (!m.btf)
		abort();
	scalars(&m);
	if (!form->small)
		add_filler(&m);
	if (!form->omit || strcmp(form->omit, "task_struct") != 0)
		add_task(&m);
	add_regs(&m);
	add_others(&m);
	add_mm(&m);
	add_module(&m);
	add_bpf(&m);
	add_locks(&m);
	add_queues(&m);
	add_poll(&m);
	add_futex(&m);
	add_timers(&m);
	add_mappings(&m);
	add_tracers(&m);
	add_cgroups(&m);
	add_namespaces(&m);
	add_ring(&m);
	add_messages(&m);
	add_enums(&m);
	add_functions(&m);
	if (!form->no_percpu)
		add_percpu(&m);

	uint32_t size;
	const void *raw = btf__raw_data(m.btf, &size);
	uint8_t *copy = malloc(size);
	if (!raw || !copy)
		abort();
	memcpy(copy, raw, size);
	btf__free(m.btf);
	*size_out = size;
	return copy;
}
