/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a guest's kernel once it is found. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_KERNEL_H
#define INTROSPECT_LINUX_KERNEL_H

#include <string.h>

#include "introspect/linux/kallsyms.h"
#include "introspect/linux/linux.h"
#include "introspect/linux/reference.h"
#include "introspect/linux/types.h"

/* Half-open range of addresses; empty when the kernel lacks the symbols. */
struct lnx_range {
	uint64_t start, end;
};

/* Bytes of the token table kept to recognise the kernel again. */
#define LNX_PROOF_BYTES 256
/* Functions through which an exception taken in EL1 enters: el1h_64_sync, el1_irq, … */
#define LNX_ENTRIES_MAX 16

#define LNX_RUNQUEUES_MAX    8
#define LNX_MODULE_LISTS_MAX 8
#define LNX_BPF_LISTS_MAX    8

/* Variables that are read by name: those that modules may use (data.c), then others (variable.c). */
enum lnx_variable {
	LNX_V_ZONE_STAT,
	LNX_V_NODE_STAT,
	LNX_V_LOAD,
	LNX_V_TOTAL_PAGES,
	LNX_V_JIFFIES,
	LNX_V_EXPORTED, /* how many of that kind */
	LNX_V_TAINT = LNX_V_EXPORTED,
	LNX_V_PANIC_CPU,
	LNX_V_LOG,
	LNX_V_KRETPROBES, /* up to 5.10 */
	LNX_V_EFI_STACK,  /* since 6.2, and in stable kernels since 5.10.163 or so */
	LNX_VARIABLES
};

#define LNX_OVERFLOW_STACK UINT64_C(4096) /* OVERFLOW_STACK_SIZE, asm/memory.h */

/* Stacks that a CPU has besides the task's and the overflow stack; all are of the same size. */
enum lnx_cpu_stack {
	LNX_STACK_IRQ,
	LNX_STACK_SDEI_NORMAL,
	LNX_STACK_SDEI_CRITICAL,
	LNX_CPU_STACKS
};

struct lnx_kernel {
	struct kallsyms ks;
	struct lnx_types types;
	struct a64_regime regime; /* half[1]: swapper_pg_dir; half[0] disabled */
	gpa_t types_at;		  /* the kernel's own type information, if it was taken */
	size_t types_size;	  /* 0: it was not */
	uint64_t voffset;	  /* guest-virtual minus guest-physical address in the image */
	gpa_t proof_pa;		  /* of the token table */
	uint8_t proof[LNX_PROOF_BYTES];

	struct lnx_range text, init_text, sched_text, lock_text, entry_text;
	uint64_t vectors; /* 0: not known */
	/* return_to_handler, __kretprobe_trampoline; 0: not known */
	uint64_t graph_trampoline, probe_trampoline;
	struct lnx_range switch_to, ret_from_fork; /* assembly that has no record of its own */
	/* what calls the EFI firmware, and where that returns to (0: not known); what goes on after a fault in it */
	struct lnx_range efi_wrapper, efi_recover;
	uint64_t efi_return;
	struct lnx_range el1_entry[LNX_ENTRIES_MAX];
	uint32_t el1_entries;

	uint64_t tick_ns;     /* a tick of jiffies; 0: not known */
	uint64_t thread_size; /* bytes of a kernel stack; also of an IRQ stack */
	gva_t entry_task;     /* link-time addresses of per-CPU variables; a = 0: not found */
	/*
	 * Where the run queues may be. Each use proves the place anew: in early boot, when the
	 * kernel may be found, there is nothing yet to prove it by.
	 */
	gva_t runqueues[LNX_RUNQUEUES_MAX];
	uint32_t runqueues_count;
	gva_t stack_ptr[LNX_CPU_STACKS]; /* per-CPU pointers to stacks */
	gva_t overflow_stack;
	gva_t init_task;
	/* where the list of modules may begin; proved anew at each use, as the run queues are */
	gva_t module_list[LNX_MODULE_LISTS_MAX];
	uint32_t module_lists;
	gva_t bpf_list[LNX_BPF_LISTS_MAX]; /* the same for BPF programs */
	uint32_t bpf_lists;
	gva_t variable[LNX_VARIABLES];	/* a = 0: not found */
	uint8_t build_id[LNX_BUILD_ID]; /* all 0: not found */

	/* what of a task_struct is read, as few copies as the distances allow */
	struct lnx_span {
		uint32_t offset, size;
	} span[LNX_M_TASK_LAST + 1];
	uint32_t spans;

	struct lnx_found found;
	char profile[LNX_PROFILE_NAME]; /* that found.profile points to */
	char banner[LNX_BANNER_MAX];
	char release[65]; /* __NEW_UTS_LEN + 1 */
};

/** Where a member is in its structure; present says whether this kernel has it. */
static inline const struct lnx_field *lnx_field_of(const struct lnx_kernel *k, enum lnx_member m)
{
	return &k->types.member[m];
}

/** Whether a kernel's types tell of a member, of this size. */
static inline bool lnx_has(const struct lnx_kernel *k, enum lnx_member m, uint32_t size)
{
	return lnx_field_of(k, m)->present && lnx_field_of(k, m)->size == size;
}

/** Whether a kernel's types tell of all members in a row. */
static inline bool lnx_has_all(const struct lnx_kernel *k, enum lnx_member first,
			       enum lnx_member last)
{
	for (size_t m = first; m <= (size_t)last; m++)
		if (!k->types.member[m].present)
			return false;
	return true;
}

/** The address of a member of the structure at @p object. */
static inline gva_t lnx_member_of(const struct lnx_kernel *k, gva_t object, enum lnx_member m)
{
	return GVA(object.a + lnx_field_of(k, m)->offset);
}

/** Whether there is a build id: none is of zeros. */
static inline bool lnx_is_build_id(const uint8_t id[LNX_BUILD_ID])
{
	static const uint8_t none[LNX_BUILD_ID];

	return memcmp(id, none, sizeof(none)) != 0;
}

static inline bool lnx_range_has(struct lnx_range r, uint64_t address)
{
	return address >= r.start && address < r.end;
}

/** The run queue of a CPU: of the places that may be it, the one that leads to an idle task. @return GS_OK, GS_ENOENT */
GS_MUST_USE enum gs_code lnx_runqueue(struct lnx_view *v, uint64_t tpidr_el1, gva_t *rq_out,
				      gva_t *idle_out);

/** Where a kernel address leads. @return GS_OK; GS_EFAULT (counted by reason in the view) */
GS_MUST_USE enum gs_code lnx_translate(struct lnx_view *v, gva_t va, gpa_t *pa_out);

/** Whether a node is on a kernel list: its neighbours point back at it. */
bool lnx_list_has(struct lnx_view *v, gva_t node);

/** Copy a terminated string, a piece at a time. @return GS_OK; GS_EFAULT; GS_EMALFORMED: it has no end within @p room */
GS_MUST_USE enum gs_code lnx_read_string(struct lnx_view *v, gva_t at, char *text, size_t room);

/*
 * Whether an address can be an instruction of the kernel: image text, or mapped executable
 * (modules, BPF).
 */
bool lnx_is_text(struct lnx_view *v, uint64_t address);

/*
 * Whether an address is outside of the image and leads to text in it: that of KPTI's trampoline, where
 * a vCPU is between user mode and the kernel.
 */
bool lnx_is_alias(struct lnx_view *v, uint64_t address);

/* The symbol at or before an address, wherever in the image. @return GS_OK; GS_ENOENT: none */
GS_MUST_USE enum gs_code lnx_nearest_symbol(const struct lnx_kernel *k, uint64_t address,
					    struct lnx_symbol *symbol_out);

static inline uint64_t lnx_strip(const struct lnx_kernel *k, uint64_t address)
{
	return a64_strip(address, k->regime.half[1].va_bits);
}

/*
 * Copy memory of a user space. @return A64_OK; why it could not be read (counted in the view)
 */
struct lnx_user_space;
enum a64_fault lnx_user_read(struct lnx_user_space *u, uint64_t va, void *buf, size_t len);

/*
 * Where an address space has the beginning of a mapping's file: in that mapping, or in one of those before
 * it. @return GS_OK; GS_ENOENT: in none of these; GS_EFAULT, GS_EMALFORMED, GS_ELOOP as lnx_mapping_find()
 */
struct lnx_mapping;
GS_MUST_USE enum gs_code lnx_mapping_find_begin(struct lnx_view *v, gva_t mm,
						const struct lnx_mapping *of, uint64_t *start_out,
						uint64_t *end_out);

/* Plausible address of a kernel object: high half, canonical, 8-aligned. */
static inline bool lnx_is_object(const struct lnx_kernel *k, uint64_t address)
{
	return (address & 7) == 0 &&
	       address >> k->regime.half[1].va_bits == ~UINT64_C(0) >> k->regime.half[1].va_bits;
}

/**
 * Whether a vCPU in EL1 has no kernel stack: in the first instructions after an exception from user
 * mode, or in the last ones before the return to it, where x29 is the user's.
 */
bool lnx_has_no_chain(struct lnx_view *v, const struct guest_vcpu_regs *regs);

#endif
