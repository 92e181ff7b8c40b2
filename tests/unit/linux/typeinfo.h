/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of a made-up kernel, and BTF that describes them. */
#ifndef TESTS_UNIT_LINUX_TYPEINFO_H
#define TESTS_UNIT_LINUX_TYPEINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Field names are the kernel's; the order is ours, so that no real offset is right by luck. */

struct lg_list {
	uint64_t next, prev;
};

struct lg_sigpending {
	struct lg_list list;
	uint64_t signal;
};

struct lg_task {
	uint64_t thread_flags;
	uint32_t preempt_count;
	uint32_t thread_cpu; /* thread_info.cpu */
	uint32_t saved_state;
	uint32_t state; /* __state, or state */
	uint64_t stack;
	uint32_t flags;
	uint8_t on_cpu;
	uint8_t bits;
	uint16_t unused;
	uint32_t cpu; /* where kernels before 5.16 have it */
	int32_t prio, static_prio;
	uint32_t rt_priority;
	uint32_t policy;
	uint8_t gap[300];
	uint64_t exec_start, sum_exec_runtime, vruntime, cfs_rq; /* se */
	uint64_t deadline;
	uint8_t sched_delayed;
	struct lg_list tasks;
	uint64_t mm;
	uint8_t gap2[100];
	uint32_t exit_state;
	int32_t pid, tgid; /* in an anonymous structure in an anonymous union */
	uint64_t real_parent, group_leader;
	struct lg_list thread_node;
	uint64_t utime, stime;
	uint64_t nvcsw, nivcsw;
	uint64_t start_time, start_boottime;
	uint64_t min_flt, maj_flt;
	char comm[16];
	uint64_t signal;
	uint64_t ret_stack, kretprobe_instances;
	int32_t curr_ret_stack;
	uint8_t gap3[180];
	uint64_t context[10], fp, sp, pc; /* thread.cpu_context: x19 … x28 first */
	uint64_t nsproxy, blocked;
	struct lg_sigpending pending;
	uint64_t cgroups;
	uint32_t on_rq;
	uint32_t lockdep_depth;
	struct lg_list run_list; /* rt.run_list */
};

/* ftrace_ret_stack */
struct lg_ret_stack {
	uint64_t ret, func, calltime, fp, retp;
};

struct lg_new_ret_stack {
	uint64_t ret, func, retp;
};

struct lg_kretprobe {
	uint64_t rcu, llist, rph, ret_addr, fp;
};

struct lg_old_kretprobe {
	uint64_t hlist[2], rp, ret_addr, task, fp;
};

struct lg_signal {
	uint64_t count;
	struct lg_list thread_head;
	struct lg_sigpending shared_pending;
};

/* From a task to the name of its control group, and its namespaces. */
struct lg_css_set {
	uint64_t gap, dfl_cgrp;
};

struct lg_cgroup {
	uint64_t gap[3], kn;
};

struct lg_kernfs_node {
	uint64_t gap, parent, name;
};

struct lg_nsproxy {
	uint64_t count, uts, ipc, mnt, pid, net, time, cgroup;
};

struct lg_namespace {
	uint64_t gap[2];
	uint32_t gap2, inum; /* ns.inum */
};

struct lg_rq {
	uint32_t nr_running;
	uint32_t unused;
	uint64_t curr, idle;
	uint32_t cpu;
	uint64_t clock;
	struct lg_list rt_queue[100]; /* rt.active.queue */
};

/* The log: a ring of descriptors, what else there is of a message beside it, and a ring of texts. */
struct lg_ring {
	uint64_t gap;
	uint32_t count_bits, gap2; /* desc_ring */
	uint64_t gap3, descs, infos, head_id, tail_id;
	uint32_t size_bits, gap4; /* text_data_ring */
	uint64_t gap5, data;
};

struct lg_desc {
	uint64_t state_var, begin, next;
};

struct lg_info {
	uint64_t seq, ts_nsec;
	uint16_t text_len;
	uint8_t facility, flags; /* flags:5, level:3 */
	uint32_t caller_id;
	char dev_info[64];
};

struct lg_mm {
	uint8_t gap[72];
	uint64_t pgd; /* in an anonymous structure, as all that follows */
	uint64_t users;
	uint8_t gap2[16];
	uint64_t maple[2];   /* mm_mt: ma_root is the second word; not in 5.10 */
	uint64_t rb_root;    /* mm_rb.rb_node: in 5.10 only */
	uint64_t context_id; /* context.id */
	uint64_t vdso;	     /* context.vdso */
	uint64_t arg_start, arg_end;
};

/* Up to 6.3, and since 6.4: seven of these, of which 0 and 4 are text. A module here has both. */
struct lg_layout {
	uint64_t base;
	uint32_t size, text_size, ro_size, rest;
};

struct lg_memory {
	uint64_t base;
	uint32_t is_rox; /* since 6.19 */
	uint32_t size;
	uint64_t rest[2];
};

#define LG_MEMORIES	    7
#define LG_MEM_TEXT	    0
#define LG_MEM_INIT	    4
#define LG_MODULE_NAME_SIZE 56

struct lg_module {
	uint64_t rest;
	uint32_t state; /* 0 live, 1 coming, 2 going, 3 unformed */
	uint32_t rest2;
	struct lg_list list;
	char name[LG_MODULE_NAME_SIZE];
	uint8_t build_id[20];
	uint32_t rest3;
	struct lg_layout core_layout, init_layout;
	struct lg_memory mem[LG_MEMORIES];
	uint64_t kallsyms;
};

struct lg_mod_kallsyms {
	uint64_t typetab; /* not looked at; the kernel has it last */
	uint64_t symtab;
	uint32_t num_symtab, rest;
	uint64_t strtab;
};

/* A BPF program among the kernel's symbols. */
#define LG_BPF_NAME_SIZE 128

struct lg_bpf_ksym {
	uint64_t rest, start, end;
	char name[LG_BPF_NAME_SIZE];
	struct lg_list lnode;
};

/* What threads wait with, and for. The owner words lie equally far from the list's head, as they do. */
struct lg_mutex {
	uint64_t gap, owner, gap2;
	struct lg_list wait_list;
};

struct lg_mutex_waiter {
	uint64_t gap;
	struct lg_list list;
	uint64_t task;
};

struct lg_rwsem {
	uint64_t gap, count, owner, gap2;
	struct lg_list wait_list;
};

struct lg_rwsem_waiter {
	uint64_t gap;
	struct lg_list list;
	uint64_t task;
	uint32_t type;
};

struct lg_swait {
	struct lg_list task_list;
	uint64_t task;
};

struct lg_completion {
	uint64_t gap;
	uint32_t done;
	uint64_t lock; /* wait: struct swait_queue_head */
	struct lg_list task_list;
};

struct lg_wait_entry {
	uint64_t flags, gap, func, private;
	struct lg_list entry;
};

struct lg_wait_head {
	uint64_t lock, gap;
	struct lg_list head;
};

struct lg_poll_entry {
	uint64_t file;
	struct lg_wait_entry wait;
	uint64_t wait_address;
};

struct lg_poll {
	uint64_t gap, polling_task;
	uint32_t inline_index;
	struct lg_poll_entry inline_entries[2];
};

struct lg_futex_q {
	uint64_t lock_ptr, prio; /* prio: list begins here */
	struct lg_list prio_list, node_list;
	uint64_t task, key_ptr, key_word;
	uint32_t key_offset;
};

struct lg_futex_bucket {
	uint32_t waiters, gap;
	uint64_t lock;
	struct lg_list chain;
};

struct lg_sleeper {
	uint64_t task;
	uint64_t parent, right, left; /* timer begins here */
	uint64_t expires, base;
	uint8_t state;
};

struct lg_clock_base {
	uint64_t index, root, leftmost;
};

struct lg_vma {
	uint8_t gap[16];
	uint64_t start, end;
	uint64_t rb[3]; /* in 5.10 only: the parent, right, left */
	uint8_t gap2[40];
	uint64_t pgoff, file;
};

struct lg_file {
	uint8_t gap[48];
	uint64_t mount, dentry; /* f_path */
	uint64_t inode;
};

struct lg_inode {
	uint8_t gap[56];
	uint64_t number;
};

struct lg_dentry {
	uint8_t gap[24];
	uint64_t parent;
	uint32_t hash, len; /* d_name, in a structure in a union */
	uint64_t name;
	uint8_t gap2[8];
	char inline_name[256];
};

/* Nodes of maple trees as they are, 256 bytes. */
struct lg_maple_range {
	uint64_t parent, pivot[15], slot[16];
};

struct lg_maple_arange {
	uint64_t parent, pivot[9], slot[10], gap[10], meta[2];
};

/* Elements of vm_zone_stat and vm_node_stat. */
enum lg_zone_item { LG_NR_FREE_PAGES = 3, LG_NR_ZSPAGES = 6, LG_ZONE_ITEMS };
enum lg_node_item {
	LG_NR_INACTIVE_ANON = 2,
	LG_NR_ACTIVE_ANON,
	LG_NR_INACTIVE_FILE,
	LG_NR_ACTIVE_FILE,
	LG_NR_UNEVICTABLE,
	LG_NR_SLAB_RECLAIMABLE = 9,
	LG_NR_SLAB_UNRECLAIMABLE,
	LG_NR_FILE_PAGES = 14,
	LG_NODE_ITEMS
};

/* Up to 6.12; from 6.19 on 320 bytes with a record of three words at 296. */
struct lg_regs {
	uint64_t regs[31], sp, pc, pstate;
	uint64_t orig_x0, syscallno, sdei_ttbr1;
	uint64_t stackframe_meta; /* 296 */
	uint64_t stackframe[2];	  /* 304 */
	uint64_t rest[2];
};

#define LG_REGS_SIZE	  336
#define LG_REGS_META_SIZE 320

_Static_assert(offsetof(struct lg_regs, stackframe_meta) == 296, "as 6.19 has it");
_Static_assert(offsetof(struct lg_regs, stackframe) == 304, "as 5.10 to 6.12 have it");
_Static_assert(sizeof(struct lg_regs) == LG_REGS_SIZE, "as 5.10 to 6.12 have it");

/* Places of per-CPU variables, from __per_cpu_start. */
#define LG_PERCPU_ENTRY_TASK	 0x308
#define LG_PERCPU_IRQ_STACK_PTR	 0x90
#define LG_PERCPU_SDEI_NORMAL	 0x98
#define LG_PERCPU_SDEI_CRITICAL	 0xa0
#define LG_PERCPU_OVERFLOW_STACK 0x400
#define LG_PERCPU_RUNQUEUES	 0x1480
#define LG_PERCPU_SIZE		 0x2000

struct typeinfo_form {
	bool old;	  /* names of 5.10: state, cpu in the task, real_start_time */
	bool meta;	  /* struct frame_record_meta, as 6.19 and later */
	bool no_percpu;	  /* no section of per-CPU variables, as 5.10 */
	bool int_on_cpu;  /* on_cpu as 4 bytes instead of 1 */
	bool mem;	  /* modules have mem[], as 6.4 and later; with meta, too */
	bool small;	  /* without what fills it up to the size of a kernel's BTF */
	const char *omit; /* "task_struct.pid", "pt_regs", "zone_stat_item.NR_ZSPAGES": left out */
	const char *beyond; /* "task_struct.pid": at an offset outside of the structure */
	const char *odd;    /* "task_struct.pid": not at a whole byte */
};

/** @return bytes to be freed with free() */
uint8_t *typeinfo_make(const struct typeinfo_form *form, size_t *size_out);

#endif
