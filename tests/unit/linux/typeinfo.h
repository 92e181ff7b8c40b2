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
	uint64_t exec_start, sum_exec_runtime, vruntime; /* se */
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
	uint8_t gap3[200];
	uint64_t context[10], fp, sp, pc; /* thread.cpu_context: x19 … x28 first */
};

struct lg_signal {
	uint64_t count;
	struct lg_list thread_head;
};

struct lg_rq {
	uint32_t nr_running;
	uint32_t unused;
	uint64_t curr, idle;
	uint32_t cpu;
};

struct lg_mm {
	uint8_t gap[72];
	uint64_t pgd; /* in an anonymous structure, as all that follows */
	uint64_t users;
	uint8_t gap2[16];
	uint64_t maple[2];   /* mm_mt: ma_root is the second word; not in 5.10 */
	uint64_t rb_root;    /* mm_rb.rb_node: in 5.10 only */
	uint64_t context_id; /* context.id */
	uint64_t rest;
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
#define LG_PERCPU_OVERFLOW_STACK 0x400
#define LG_PERCPU_RUNQUEUES	 0x1480
#define LG_PERCPU_SIZE		 0x2000

struct typeinfo_form {
	bool old;	  /* names of 5.10: state, cpu in the task, real_start_time */
	bool meta;	  /* struct frame_record_meta, as 6.19 and later */
	bool no_percpu;	  /* no section of per-CPU variables, as 5.10 */
	bool int_on_cpu;  /* on_cpu as 4 bytes instead of 1 */
	bool small;	  /* without what fills it up to the size of a kernel's BTF */
	const char *omit; /* "task_struct.pid", "pt_regs", "zone_stat_item.NR_ZSPAGES": left out */
	const char *beyond; /* "task_struct.pid": at an offset outside of the structure */
	const char *odd;    /* "task_struct.pid": not at a whole byte */
};

/** @return bytes to be freed with free() */
uint8_t *typeinfo_make(const struct typeinfo_form *form, size_t *size_out);

#endif
