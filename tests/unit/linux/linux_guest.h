/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up Linux guest: as much of a kernel as introspection looks at, and nothing else. */
#ifndef TESTS_UNIT_LINUX_LINUX_GUEST_H
#define TESTS_UNIT_LINUX_LINUX_GUEST_H

/*
 *	struct linux_guest g;
 *	lg_create(&g, &(struct lg_form){ .style = 'A', .vcpus = 2 });
 *	struct lg_thread *t = lg_add_process(&g, 100, "worker");
 *	lg_block(&g, t, (const char *const[]){ "el0t_64_sync", "el0_svc", "vfs_read", NULL });
 *	…lnx_kernel_find(&g.m.guest, g.m.regs, …), or a session over &g.m.guest…
 *	lg_destroy(&g);
 *
 * RAM starts at LG_RAM. 4K pages, 48 bits, a page table entry for each page, so that single pages can
 * be taken away. The image (offsets from _text):
 *
 *	 0x10000 _stext … 0x34000 _etext   text: named functions, then fn_0000 and so on
 *	 0x34000                           banner, exported symbols, build id, kallsyms, BTF, vDSO
 *	 0x70000                           tramp_pg_dir, reserved_pg_dir, swapper_pg_dir
 *	 0x80000 … 0x82000                 init text
 *	 0x90000                           per-CPU section as linked; data; init_task; page counters
 *	 0xa0000                           kallsyms, when there are many symbols
 *	0x100000                           the three page directories, with larger pages
 *
 * Tasks lie in the linear map, stacks at addresses of their own, as with VMAP_STACK. Each CPU has an
 * area with __entry_task, runqueues, irq_stack_ptr.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "introspect/guest/memory_guest.h"
#include "introspect/linux/linux.h"
#include "tests/unit/linux/symtab.h"
#include "tests/unit/linux/typeinfo.h"

#define LG_RAM	       UINT64_C(0x40000000)
#define LG_RAM_DEFAULT (UINT64_C(4) << 20)
#define LG_IMAGE       (LG_RAM + 0x10000)
#define LG_LINEAR      UINT64_C(0xffff000000000000)
#define LG_MIDDLE      UINT64_C(0xffff800000000000) /* of the kernel's half */
#define LG_STACKS      UINT64_C(0xffff800009000000) /* vmalloc area */
#define LG_MODULE      UINT64_C(0xffff800001000000) /* a page of executable memory */
#define LG_TRAMPOLINE  UINT64_C(0xfffffbfffdbf7000) /* what tramp_pg_dir maps */
#define LG_VOFFSET     (UINT64_C(0xffffa3c84a000000) - LG_IMAGE)

#define LG_STEXT	  0x10000
#define LG_TRAMP_TEXT	  0x33000
#define LG_ETEXT	  0x34000
#define LG_EFI_STACK	  0x34020 /* efi_rt_stack_top */
#define LG_BANNER	  0x34100
#define LG_KSYMTAB	  0x34400
#define LG_KSYMTAB_NAMES  0x34500
#define LG_BUILD_ID_NOTE  0x34700
#define LG_KALLSYMS	  0x34800
#define LG_BTF		  0x50004 /* aligned to 4 only, as up to 6.12 */
#define LG_VDSO		  0x6e000
#define LG_TRAMP_DIR	  0x70000
#define LG_SINITTEXT	  0x80000
#define LG_EINITTEXT	  0x82000
#define LG_PERCPU	  0x90000
#define LG_PERCPU_OFFSETS 0x92000
#define LG_INIT_TASK	  0x93000
#define LG_INIT_SIGNAL	  0x93800
#define LG_ZONE_STAT	  0x94000
#define LG_NODE_STAT	  0x94100
#define LG_MODULES	  0x94200
#define LG_PRB		  0x94300 /* the pointer to the log's ring */
#define LG_TAINT	  0x94308
#define LG_PANIC_CPU	  0x94310
#define LG_LOAD		  0x94318
#define LG_TOTAL_PAGES	  0x94338
#define LG_BPF		  0x94380 /* head of the list of BPF programs */
#define LG_JIFFIES	  0x94398
#define LG_TICK_CLOCK	  0x943a0 /* struct clocksource */
#define LG_KRETPROBES	  0x95000 /* lists of instances: of old kernels */
#define LG_IMAGE_SIZE	  0xa0000
#define LG_KALLSYMS_MANY  0xa0000
#define LG_DIRS_LARGE	  0x100000

#define LG_STACK     0x4000
#define LG_TOP	     (LG_STACK - 0x20) /* the outermost record, from the start of the stack */
#define LG_TOP_META  (LG_STACK - LG_REGS_META_SIZE + 296)
#define LG_VCPUS_MAX 8
#define LG_NAME_63   "sixty_three_characters_of_a_name_that_still_fits_a_short_record"
#define LG_NAME_64   "sixty_four_characters_of_a_name_that_no_longer_fits_short_record"

struct lg_form {
	char style; /* of kallsyms; 0: 'A' */
	bool seqs;
	bool data_symbols; /* CONFIG_KALLSYMS_ALL: _text, init_task, vm_zone_stat, modules */
	bool old;	   /* names and types of 5.10 */
	bool meta;	   /* exception frames of 6.19 */
	bool no_table, no_types, no_banner;
	bool many;	   /* symbols, enough that every 64 KiB their table is met: LG_MANY */
	bool no_head;	   /* [_text, _stext) is not mapped, as from 5.11 to 6.15 */
	bool blocks;	   /* the linear map has the largest blocks there are */
	uint32_t vcpus;	   /* 0: 2 */
	uint64_t ram_size; /* 0: LG_RAM_DEFAULT */
	uint64_t voffset;  /* 0: the image at the address it has with LG_VOFFSET */
	const struct typeinfo_form *types; /* instead of what old and meta say */

	uint64_t ram;	 /* where it starts; 0: LG_RAM. The image is 64 KiB on. */
	uint64_t linear; /* where it is mapped; 0: at the start of the kernel's half */
	uint8_t granule_bits, va_bits; /* 0: 12 and 48; less than 47 needs a voffset */
};

#define LG_MANY 17000

struct lg_thread {
	uint64_t address; /* of task_struct */
	struct lg_task *task;
	uint64_t signal_address;
	struct lg_signal *signal;
	uint64_t stack; /* 0: none */
	uint8_t *stack_bytes;
	uint64_t fp;   /* the innermost record so far */
	uint64_t next; /* where the next one goes */
};

#define LG_THREADS_MAX 4096

struct lg_cpu {
	uint64_t area; /* linear-map address of the copy of the per-CPU section */
	uint8_t *bytes;
	uint64_t offset; /* TPIDR_EL1 */
	uint64_t irq_stack;
	uint8_t *irq_bytes;
	struct lg_thread idle;
};

struct linux_guest {
	struct memory_guest m;
	struct lg_form form;
	struct guest_ops ops; /* memory_guest's with hooks */
	const struct guest_ops *memory_ops;
	uint8_t *ram;
	uint64_t ram_start, ram_size, voffset;
	uint64_t page;	/* bytes */
	uint64_t image; /* physical, of _text; its size is a multiple of pages */
	uint64_t image_size;
	uint64_t table; /* kallsyms, from _text */
	uint64_t linear;
	uint64_t swapper;			   /* physical */
	uint64_t next_page, next_stack, next_half; /* allocation */
	struct symtab symtab;
	struct symtab_symbol *symbols;
	char (*names)[8]; /* of those without a name of their own */
	uint32_t symbol_count;
	struct lg_cpu cpu[LG_VCPUS_MAX];
	struct lg_thread init; /* init_task: CPU 0's idle task */
	struct lg_thread *threads;
	struct lg_log { /* lg_log_create() */
		struct lg_ring *ring;
		struct lg_desc *desc;
		struct lg_info *info;
		uint8_t *data;
		uint64_t next; /* position of the next text */
	} log;
	uint32_t thread_count;

	/* hooks */
	enum gs_code (*on_stop)(struct linux_guest *g, uint32_t nth); /* from 1; before the stop */
	enum gs_code (*on_resume)(struct linux_guest *g, uint32_t nth);
	uint32_t stops, resumes;
	uint32_t deaf;			/* bit n: registers of vCPU n cannot be had */
	_Atomic uint64_t reads;		/* since lg_unmap_host(); any thread's */
	uint64_t fail_first, fail_last; /* reads that fail, from 1 */
	void *arg;
};

void lg_create(struct linux_guest *g, const struct lg_form *form);
void lg_destroy(struct linux_guest *g);

/** The kernel as it is found with all vCPUs' registers; fails the test when it is not. lnx_kernel_destroy() */
struct lnx_kernel *lg_kernel_find(struct linux_guest *g);

/** Address of a symbol; fails the test when there is none. */
uint64_t lg_symbol(const struct linux_guest *g, const char *name);

/** Host address of guest-physical memory, and of the image. */
void *lg_at(struct linux_guest *g, uint64_t pa);
void *lg_image(struct linux_guest *g, uint64_t offset);
static inline uint64_t lg_image_va(const struct linux_guest *g, uint64_t offset)
{
	return g->image + g->voffset + offset;
}

/** Pages of RAM, of the size the kernel uses, zeroed. @return guest-physical address */
uint64_t lg_pages(struct linux_guest *g, uint32_t n);

/** A page of code in which any address follows a call. @return guest-physical address */
uint64_t lg_code_page(struct linux_guest *g);

/** The word in the last table for an address, below any page directory; missing tables are made. */
uint64_t *lg_entry(struct linux_guest *g, uint64_t root, uint64_t va);

/** Where guest-physical memory is in the linear map. */
static inline uint64_t lg_linear(const struct linux_guest *g, uint64_t pa)
{
	return g->linear + (pa - g->ram_start);
}

/** Map a page; executable in the kernel or not. */
void lg_map(struct linux_guest *g, uint64_t va, uint64_t pa, bool exec);
void lg_unmap(struct linux_guest *g, uint64_t va);

/**
 * Add a process with its first thread, or a thread. Both have a stack with only the outermost record
 * and are on the lists; state 1 (sleeping). The pointers stay good.
 */
struct lg_thread *lg_add_process(struct linux_guest *g, int32_t pid, const char *comm);
struct lg_thread *lg_add_thread(struct linux_guest *g, struct lg_thread *leader, int32_t tid,
				const char *comm);
/** The same without a stack of its own: it uses that of @p other. For many threads. */
struct lg_thread *lg_add_light_process(struct linux_guest *g, int32_t pid, struct lg_thread *other);
struct lg_thread *lg_add_light_thread(struct linux_guest *g, struct lg_thread *leader, int32_t tid,
				      struct lg_thread *other);

/**
 * Give a thread an address space of its own, with an empty page directory.
 *
 * @param context_id  generation and ASID
 */
struct lg_mm *lg_add_mm(struct linux_guest *g, struct lg_thread *t, uint64_t context_id);

/** Guest-physical address of an address space's page directory: for lg_entry(). */
uint64_t lg_directory(const struct linux_guest *g, const struct lg_mm *mm);

/** A loaded module, its symbol table and its strings, in a page each. */
struct lg_loaded {
	uint64_t address; /* of struct module */
	struct lg_module *m;
	struct lg_mod_kallsyms *kallsyms;
	Elf64_Sym *symtab;
	char *strtab;
	uint32_t strtab_used;
};

/**
 * Load a module: on the list, with a page of text, no init text and no symbols but the first, which is
 * none. Its layout is that of both kinds of kernels.
 *
 * @param text  address of a page that is executable or not mapped: then it is mapped
 */
struct lg_loaded lg_load_module(struct linux_guest *g, const char *name, uint64_t text);

/** Give it init text, a page at @p text; 0: take it away. */
void lg_module_init_text(struct linux_guest *g, struct lg_loaded *l, uint64_t text);

/** Add a symbol behind those that it has. @return its index */
uint32_t lg_module_symbol(struct lg_loaded *l, const char *name, uint64_t value);

/**
 * Load a BPF program: on the list behind the others, with @p size bytes of executable memory, which is
 * mapped if it is not.
 *
 * @return its structure; *address_out: where that is
 */
struct lg_bpf_ksym *lg_load_program(struct linux_guest *g, const char *name, uint64_t start,
				    uint64_t size, uint64_t *address_out);

/** Take a module off the list; its memory stays. */
void lg_unload_module(struct linux_guest *g, const struct lg_loaded *l);

/**
 * Put a thread into a control group and namespaces of its own; these have the numbers @p first and on, in
 * the order of enum lnx_namespace.
 *
 * @param path  "/a/b", or "/"
 */
void lg_set_cgroup(struct linux_guest *g, struct lg_thread *t, const char *path);
struct lg_nsproxy *lg_set_namespaces(struct linux_guest *g, struct lg_thread *t, uint32_t first);

/** Map a page of an address space, zeroed. @return its bytes */
uint8_t *lg_user_page(struct linux_guest *g, const struct lg_mm *mm, uint64_t va);

/* The log: 1 << LG_LOG_COUNT messages, 1 << LG_LOG_SIZE bytes of text. linux_system.c. */
#define LG_LOG_COUNT 5
#define LG_LOG_SIZE  10

/** Make the log, empty; before the kernel is searched, where nothing but the ring proves its place. */
void lg_log_create(struct linux_guest *g);

/** Write a message as printk() does, over the oldest ones if need be. @return its descriptor's number in the arrays */
uint32_t lg_log_add(struct linux_guest *g, uint64_t time_ns, uint8_t level, const char *text);

/** Where the wrapper of the EFI firmware's calls is returned to, from its start. */
#define LG_EFI_RETURN 0x50

/** Variables and code of the kernel as a whole. Part of lg_create(). */
void lg_create_system(struct linux_guest *g);

/** Put adrp and add that form an address into a register. @return behind them */
uint32_t *lg_put_address(uint32_t *code, uint64_t pc, unsigned int reg, uint64_t target);

/** The first bytes of the kernel's build id. */
extern const uint8_t lg_build_id[LNX_BUILD_ID];

/** Empty a stack but for the outermost record. */
void lg_stack_reset(struct linux_guest *g, struct lg_thread *t);

/** Push a record with this return address; @return where it lies */
uint64_t lg_push(struct linux_guest *g, struct lg_thread *t, uint64_t lr);

/** Return address in a function: 0x14 bytes behind its start. */
uint64_t lg_in(const struct linux_guest *g, const char *function);

/** A thread blocked in __switch_to under these functions, outermost first, NULL at the end. */
void lg_block(struct linux_guest *g, struct lg_thread *t, const char *const *functions);

/*
 * Threads that wait. linux_waits.c; structures are in typeinfo.h. Each thread has LG_SLOTS places of
 * LG_SLOT bytes for them on its stack.
 */
#define LG_SLOTS 8
#define LG_SLOT	 0x80

/** Let a thread sleep in a function under others, in state D, with its structures' places in use. */
void lg_sleep(struct linux_guest *g, struct lg_thread *t, const char *function);

/** Address of such a place. */
uint64_t lg_slot(const struct lg_thread *t, uint32_t i);

/** An object in zeroed memory of its own. @return its address */
uint64_t lg_object(struct linux_guest *g);

/** Make the list at @p head empty, or add a node to its end. */
void lg_list_init(struct linux_guest *g, uint64_t head);
void lg_list_add(struct linux_guest *g, uint64_t head, uint64_t node);

/** A mutex with an owner word, and threads that wait for it in their first place. */
uint64_t lg_mutex_make(struct linux_guest *g, uint64_t word);
void lg_mutex_wait(struct linux_guest *g, uint64_t mutex, struct lg_thread *t);

/** Have a vCPU execute a thread in EL1, with its innermost record in x29. */
void lg_run(struct linux_guest *g, uint32_t vcpu, struct lg_thread *t, uint64_t pc);

/** ... in EL0; with @p kpti on the trampoline's page table and vectors. */
void lg_run_user(struct linux_guest *g, uint32_t vcpu, struct lg_thread *t, bool kpti);

/** The words of memory at an address in one of the two stacks' or the linear map. */
uint64_t *lg_word(struct linux_guest *g, uint64_t va);

/**
 * What most tests use: init (1), kthreadd (2), worker (100, with threads 101 and 102), a zombie (200)
 * without a stack; vCPU 0 executes 101 in EL1, the others are idle in EL1.
 */
void lg_populate(struct linux_guest *g);

/** init_task, the CPUs with their idle tasks, vCPUs that execute these. Part of lg_create(). */
void lg_create_tasks(struct linux_guest *g);

/**
 * VMCOREINFO, the text a kernel writes for readers of its dumps; good until the next call.
 *
 * @param without  key of a line that is left out; NULL: none
 */
struct lnx_hints lg_vmcoreinfo(const struct linux_guest *g, const char *without);

/** Take the host mapping away: everything goes through a callback, which counts and may fail. */
void lg_unmap_host(struct linux_guest *g);

#endif
