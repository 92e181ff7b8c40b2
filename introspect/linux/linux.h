/* SPDX-License-Identifier: Apache-2.0 */
/* An ARM64 Linux guest: finding its kernel, naming addresses, reading tasks, unwinding stacks. */
#ifndef INTROSPECT_LINUX_LINUX_H
#define INTROSPECT_LINUX_LINUX_H

/*
 * From memory and registers alone: symbols come from the kernel's own kallsyms tables, structure
 * offsets from its own BTF, roots from decoded instructions; no version number decides anything.
 *
 *	struct lnx_kernel *k;
 *	if (!lnx_kernel_find(g, regs, g->vcpu_count, NULL, &k, &err)) {
 *		struct lnx_view v;
 *		lnx_view_init(&v, k, g);
 *		…lnx_list_collect(), lnx_task_read(), lnx_unwind()…
 *		lnx_kernel_destroy(k);
 *	}
 *
 * Threads: a kernel is read-only once found and may be shared; a view belongs to one thread.
 * lnx_kernel_find() allocates and is slow (tens of ms): call it with the guest running. Everything
 * that takes a view allocates nothing and is legal while the guest is stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/arm64/arm64.h"
#include "introspect/guest/guest.h"

#define LNX_COMM_LEN	  16
#define LNX_BANNER_MAX	  256
#define LNX_SYMBOL_MAX	  512  /* KSYM_NAME_LEN of 6.1 and later, NUL included */
#define LNX_BUILD_ID	  20   /* bytes, a SHA-1 (--build-id=sha1, Makefile since 5.10) */
#define LNX_FRAMES_MAX	  1024 /* THREAD_SIZE / sizeof(frame record), 16 KiB stacks */
#define LNX_TASK_SIZE_MAX 16384
/* PID_MAX_LIMIT (include/linux/threads.h): no list of tasks is longer. */
#define LNX_TASKS_MAX (4u << 20)

struct lnx_kernel;

/* --- finding the kernel --- */

struct lnx_reference; /* an Image or vmlinux of the guest's kernel */
struct lnx_profile;   /* structure layouts from a file */

/** What the user or the dump knows beforehand. Zeroed: nothing. All borrowed by lnx_kernel_find(). */
struct lnx_hints {
	const char *vmcoreinfo; /* the kernel's own text, as a dump carries it; NULL: none */
	size_t vmcoreinfo_size;
	const struct lnx_reference *reference;
	/* for a kernel without types: the profile, or a folder in which to look for one; NULL: none */
	const struct lnx_profile *profile;
	const char *profiles;
};

/** How a thing was found, in the order in which it is tried. */
enum lnx_way {
	LNX_BY_REFERENCE = 0, /* the Image or vmlinux that was given */
	LNX_BY_REGISTERS,     /* VBAR_EL1, TTBR1_EL1 of a vCPU */
	LNX_BY_VMCOREINFO,    /* the text that the dump carries */
	LNX_BY_SAMPLING, /* a look every 64 KiB of RAM for ascending words: the symbols' offsets */
	LNX_BY_SCAN,	 /* all of RAM; of a place: page directories in the image */
	LNX_BY_BTF,	 /* the kernel's own type information */
	LNX_BY_PROFILE,	 /* one that was given, or found in a folder */
	LNX_WAYS
};

/** For messages: "vCPU registers", "scan of memory", … */
const char *lnx_way_name(enum lnx_way way);

/**
 * Find the kernel of a guest.
 *
 * Of several kernels in memory (one that was replaced by kexec, a crash kernel, an image as a file)
 * the one that runs is found: candidates are tried until the registers or VMCOREINFO prove one.
 * Where nothing can prove any, the first whole one is it.
 *
 * @param g      the guest; may be running; borrowed until lnx_kernel_destroy()
 * @param regs   registers of its vCPUs, as of any recent moment
 * @param n      how many
 * @param hints  NULL: none
 * @param k_out  returned: free with lnx_kernel_destroy()
 * @return GS_OK; GS_ENOENT: no kernel (yet), the text names the step that failed;
 *         GS_EMALFORMED: its tables contradict each other; GS_ETOOBIG: too many things that look
 *         like one; GS_EFAULT: memory became unreadable; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code lnx_kernel_find(struct guest *g, const struct guest_vcpu_regs *regs,
					 uint32_t n, const struct lnx_hints *hints,
					 struct lnx_kernel **k_out, struct gs_error *err);

/**
 * The linear map of RAM: virtual minus physical address (modulo 2^64).
 *
 * @return false: the kernel's image is mapped nowhere but as the image
 */
bool lnx_linear_offset(const struct lnx_kernel *k, const struct guest *g, uint64_t *offset_out);

/* The kernel keeps its text in a page, also in one of more than 4 KiB. */
#define LNX_VMCOREINFO_MAX 4096

/**
 * Look for the VMCOREINFO text in the guest's memory: all of it, page by page.
 *
 * @param k        whose it shall be; NULL: the first one there is
 * @param text_out not terminated when it fills all
 * @return false: there is none
 */
bool lnx_vmcoreinfo_find(const struct guest *g, const struct lnx_kernel *k,
			 char text_out[static LNX_VMCOREINFO_MAX], size_t *size_out);

/** Whether a profile says of what kernel it is, and it is this one. */
enum lnx_profile_match {
	LNX_PROFILE_OF_ANY, /* it says nothing that could be compared */
	LNX_PROFILE_OTHER,
	LNX_PROFILE_SAME_BANNER,
	LNX_PROFILE_SAME_BUILD_ID,
};

/** How a kernel was found. */
struct lnx_found {
	enum lnx_way symbols_by, place_by, types_by;
	const char *
		profile; /* with LNX_BY_PROFILE its file, as long as the kernel; cut if it is long */
	enum lnx_profile_match profile_match; /* why it was taken */
	gpa_t symbols_at;    /* of the token table; of a reference: of the first bytes recognised */
	uint32_t candidates; /* symbol tables that were looked at */
	int evidence;	     /* vCPUs that speak for it, less those that run something else */
	uint64_t symbols_ns, place_ns, types_ns, roots_ns; /* wall time of the steps */
};

const struct lnx_found *lnx_kernel_found(const struct lnx_kernel *k);

/**
 * Read an Image (plain or gzip) or an ELF vmlinux of the guest's kernel: it tells the kernel from
 * others in memory, and stands in for symbol tables or types that the guest's memory lacks.
 *
 * @param ref_out free with lnx_reference_destroy()
 * @return GS_OK; GS_ENOENT, GS_EDENIED, GS_EINVAL, GS_ESYS: the file; GS_EMALFORMED, GS_ETOOBIG: not
 *         a kernel, or one without symbols; GS_ENOTSUP: EFI zboot; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code lnx_reference_open(const char *path, struct lnx_reference **ref_out,
					    struct gs_error *err);
void lnx_reference_destroy(struct lnx_reference *ref);

/**
 * Read structure layouts (docs/profiles.md).
 *
 * @param profile_out free with lnx_profile_destroy()
 * @return GS_OK; GS_ENOENT, GS_EDENIED, GS_EINVAL, GS_ESYS: the file; GS_EMALFORMED: no profile, or it
 *         lacks a member without which no thread can be shown (named); GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code lnx_profile_open(const char *path, struct lnx_profile **profile_out,
					  struct gs_error *err);
void lnx_profile_destroy(struct lnx_profile *profile);

/**
 * Make a profile: of a vmlinux or an Image (plain or gzip) with BTF, or of a symbol file of Volatility 3
 * (JSON). What it is shows in its first bytes.
 *
 * @param text_out returned: the profile as JSON, terminated; free with free()
 * @return GS_OK; GS_ENOENT, GS_EDENIED, GS_ESYS: the file; GS_EMALFORMED: none of these, damaged, or it
 *         lacks a member without which no thread can be shown (named); GS_ETOOBIG: larger than any of
 *         them; GS_ENOTSUP: a form that is not read here, with what to do; GS_ENOSPC: out of memory
 * Threads: any.
 */
GS_MUST_USE enum gs_code lnx_profile_make(const char *path, char **text_out, struct gs_error *err);

/** A thing in which a profile and a kernel's own types differ: "task_struct.pid". */
struct lnx_difference {
	const char *name;
	const char *profile, *kernel; /* what they say, for people; NULL: nothing */
};

/**
 * Compare a profile with the types by which a kernel was found.
 *
 * @param visit gets each difference; what it points to lives for the call
 * @return how many there are
 */
uint32_t lnx_profile_compare(const struct lnx_profile *profile, const struct lnx_kernel *k,
			     void (*visit)(const struct lnx_difference *d, void *arg), void *arg);

enum lnx_profile_match lnx_profile_match(const struct lnx_profile *profile,
					 const struct lnx_kernel *k);

/**
 * Have a kernel that was found by whatever types take those of a profile instead, made for it or not.
 *
 * @param k       its symbols and place stay; after an error good for lnx_kernel_destroy() alone
 * @param g, regs, n  as for lnx_kernel_find()
 * @return GS_OK; GS_ENOENT, GS_ETOOBIG: with these types no task is found
 */
GS_MUST_USE enum gs_code lnx_kernel_retype(struct lnx_kernel *k, const struct lnx_profile *profile,
					   struct guest *g, const struct guest_vcpu_regs *regs,
					   uint32_t n, struct gs_error *err);

/** NULL is fine. */
void lnx_kernel_destroy(struct lnx_kernel *k);

/** Whether the kernel found earlier is still the one in memory (a few reads; legal while stopped).
 */
bool lnx_kernel_is_current(const struct lnx_kernel *k, const struct guest *g);

/** The banner ("Linux version 6.1.0-…"), one line, unescaped guest text; never NULL, may be empty.
 */
const char *lnx_kernel_banner(const struct lnx_kernel *k);

struct lnx_kernel_info {
	const char *release; /* "6.1.0-57-cloud-arm64", unescaped; as long as the kernel */
	uint64_t text;	     /* address of _stext */
	uint64_t size; /* bytes from there to _einittext: text, read-only data, page directories */
	uint64_t voffset; /* guest-virtual minus guest-physical address of the image */
	uint32_t page_size;
	uint32_t va_bits;
	uint32_t symbols;
	char kallsyms_style;	 /* 'A', 'B' or 'C': see kallsyms.h */
	const uint8_t *build_id; /* LNX_BUILD_ID bytes, as long as the kernel; NULL: not known */
};

struct lnx_kernel_info lnx_kernel_info_get(const struct lnx_kernel *k);

/* --- symbols --- */

enum lnx_symbol_flags {
	LNX_SYMBOL_SCHED =
		1u << 0, /* in the scheduler's or the locks' text: /proc/PID/stack hides it */
};

struct lnx_symbol {
	uint64_t start;
	uint64_t size;	/* to the next symbol */
	uint32_t flags; /* enum lnx_symbol_flags */
	char type;	/* nm letter */
	char name[LNX_SYMBOL_MAX];
};

/**
 * The symbol that covers an address in the kernel image (binary search).
 *
 * Of several symbols at one address the first is taken that is not a mapping symbol ("$x"), as the
 * kernel does for %pB.
 *
 * @return GS_OK; GS_ENOENT: not in the image's text or init text
 */
GS_MUST_USE enum gs_code lnx_symbol_at(const struct lnx_kernel *k, gva_t address,
				       struct lnx_symbol *symbol_out);

/** Address of a symbol by its full name, the lowest if there are several. @return GS_OK, GS_ENOENT
 */
GS_MUST_USE enum gs_code lnx_symbol_find(const struct lnx_kernel *k, const char *name,
					 gva_t *address_out);

/* --- reading --- */

#define LNX_TLB_SIZE	 64
#define LNX_CACHE_PAGES	 1024
#define LNX_CACHE_TABLES 256
#define LNX_CACHE_CALLS	 1024

struct lnx_tlb_entry {
	uint64_t va; /* page address | 1, or 0 for none */
	uint64_t pa; /* of the page; | 1: executable in the kernel */
};

/**
 * Room for one thread that reads much: more translations than a view has itself, and the tables of
 * the last level, so that a page costs one read of a descriptor. Caller's memory, touched before
 * the guest stops.
 */
struct lnx_cache {
	struct lnx_tlb_entry page[LNX_CACHE_PAGES];
	struct {
		uint64_t region; /* address >> a64_last_table_bits(), | bit 63; 0: none */
		gpa_t table;
	} table[LNX_CACHE_TABLES];
	uint64_t call[LNX_CACHE_CALLS];	 /* return addresses that follow a call */
	uint8_t task[LNX_TASK_SIZE_MAX]; /* copy of the task that is being read */
};

/** One thread's way to read the guest's kernel memory; dies with the stop, so that no translation
 * is stale. */
struct lnx_view {
	const struct lnx_kernel *k;
	const struct guest *g;
	struct lnx_cache *cache; /* NULL: the small one below */
	bool can_prefetch;
	struct lnx_tlb_entry tlb[LNX_TLB_SIZE];
	uint64_t reads;		     /* successful copies */
	uint64_t bytes;		     /* copied */
	uint64_t faults[A64_FAULTS]; /* failed translations by reason */
	bool is_timed;		     /* measure how long these take */
	uint64_t fault_ns;
};

void lnx_view_init(struct lnx_view *v, const struct lnx_kernel *k, const struct guest *g);

/**
 * The symbol at an address outside of the image that is mapped to it, executable: a vCPU that goes from
 * user mode to the kernel or back under KPTI is in the trampoline, which is in the fixmap, too.
 *
 * @param symbol_out  start is an address of the alias; not written unless GS_OK
 * @return GS_OK; GS_ENOENT: not mapped, or not to the image's text
 * Origin: map_entry_trampoline() in arch/arm64/mm/mmu.c, 5.10 to 7.3. The trampoline lies in the text up to
 * 5.19, in the read-only data since (.rodata.text in vmlinux.lds.S), where symbol tables without data have
 * no names: then it is "tramp_vectors" as a whole, as its first label in entry.S is in all versions.
 */
GS_MUST_USE enum gs_code lnx_symbol_at_alias(struct lnx_view *v, gva_t address,
					     struct lnx_symbol *symbol_out);

/** Give a view more room, emptied here; borrowed as long as the view is used. */
void lnx_view_use_cache(struct lnx_view *v, struct lnx_cache *cache);

/*
 * Reading ahead. A read of a far place takes as long as a hundred instructions or more: those who
 * have many places to read ask for all of them first. In two rounds, since the translation is a
 * read, too. Both do nothing where the guest's memory is not mapped here, report nothing, and count
 * no faults.
 */

/** First round: the descriptor of the page at @p va. */
void lnx_prefetch_entry(struct lnx_view *v, gva_t va);
/** Second round: the lines of [va, va + len), @p len at least 1. */
void lnx_prefetch(struct lnx_view *v, gva_t va, size_t len);

/** Copy kernel memory. @return GS_OK; GS_EFAULT (counted by reason in the view) */
GS_MUST_USE enum gs_code lnx_read(struct lnx_view *v, gva_t va, void *buf, size_t len);
GS_MUST_USE enum gs_code lnx_read_u64(struct lnx_view *v, gva_t va, uint64_t *value_out);
GS_MUST_USE enum gs_code lnx_read_u32(struct lnx_view *v, gva_t va, uint32_t *value_out);

/** Copy guest-physical memory, counted as the others are. @return as guest_read() */
GS_MUST_USE enum gs_code lnx_read_physical(struct lnx_view *v, gpa_t at, void *buf, size_t len);

/**
 * Addresses of the nodes of a kernel list, the head left out.
 *
 * @param head   address of the struct list_head that is the head
 * @param nodes  room for @p max addresses
 * @param n_out  always written: how many distinct nodes were found, also before an error
 * @return GS_OK; GS_EFAULT: a link could not be read; GS_ELOOP: the list comes back to one of its
 *         nodes instead of its head; GS_ENOSPC: more than @p max nodes
 * Origin: struct list_head is {next, prev} (include/linux/types.h, 5.10 to 7.3). Forward links stay
 * good on a list that a stopped vCPU was changing.
 */
GS_MUST_USE enum gs_code lnx_list_collect(struct lnx_view *v, gva_t head, gva_t *nodes,
					  uint32_t max, uint32_t *n_out);

/**
 * A kernel list that is walked node by node.
 *
 *	struct lnx_list l;
 *	gva_t object;
 *	lnx_list_begin(&l, v, head, offset, objects, max);
 *	while (lnx_list_next(&l, &object))
 *		…
 *	…l.rc, l.n…
 */
struct lnx_list {
	struct lnx_view *v;
	enum gs_code rc; /* after the end: what ended it, as of lnx_list_collect() */
	uint32_t n;	 /* objects so far; after a loop was found, distinct ones */
	gva_t *objects;	 /* they themselves */
	uint32_t max, mark, power;
	uint64_t offset; /* of the list_head in its object */
	gva_t head, at;
	const gva_t *expected; /* what the list had at another time: read ahead, not believed */
	uint32_t expected_count, next_expected;
};

/**
 * @param objects  room for @p max addresses; needed to the end to tell a loop
 * @param offset   of the list_head inside of each object
 */
void lnx_list_begin(struct lnx_list *l, struct lnx_view *v, gva_t head, uint64_t offset,
		    gva_t *objects, uint32_t max);

/** Objects that are probably on the list, in this order; borrowed to the end of the walk. */
void lnx_list_expect(struct lnx_list *l, const gva_t *objects, uint32_t n);

/** @return false at the end: see l->rc. An object may be given twice before a loop is found. */
bool lnx_list_next(struct lnx_list *l, gva_t *object_out);

/* --- tasks --- */

/** Begin a walk over the task structures of all thread-group leaders, init_task excluded. */
void lnx_processes_begin(struct lnx_list *l, struct lnx_view *v, gva_t *tasks, uint32_t max);

/** ... of all threads of a process. @return GS_OK; GS_EMALFORMED: @p signal is no address */
GS_MUST_USE enum gs_code lnx_threads_begin(struct lnx_list *l, struct lnx_view *v, gva_t signal,
					   gva_t *tasks, uint32_t max);

/** Addresses of the task structures of all thread-group leaders, init_task excluded; see
 * lnx_list_collect(). */
GS_MUST_USE enum gs_code lnx_processes_collect(struct lnx_view *v, gva_t *tasks, uint32_t max,
					       uint32_t *n_out);

/** Addresses of all threads of the process whose signal structure is @p signal. */
GS_MUST_USE enum gs_code lnx_threads_collect(struct lnx_view *v, gva_t signal, gva_t *tasks,
					     uint32_t max, uint32_t *n_out);

/** Which optional facts of struct lnx_task this kernel has and could be read. */
enum lnx_task_valid {
	LNX_TASK_HAS_CPU = 1u << 0,
	LNX_TASK_HAS_TIMES = 1u << 1,	 /* utime, stime, sum_exec_runtime */
	LNX_TASK_HAS_SWITCHES = 1u << 2, /* nvcsw, nivcsw */
	LNX_TASK_HAS_START = 1u << 3,	 /* start_time, start_boottime */
	LNX_TASK_HAS_FAULTS = 1u << 4,	 /* min_flt, maj_flt */
	LNX_TASK_HAS_PRIO = 1u << 5,	 /* prio, static_prio, rt_priority, policy */
	LNX_TASK_HAS_LAST_RUN = 1u << 6, /* exec_start */
};

/** A thread as its task_struct says; field names are the kernel's. */
struct lnx_task {
	gva_t address;
	uint32_t valid; /* enum lnx_task_valid */
	int32_t pid;
	int32_t tgid;
	char comm[LNX_COMM_LEN]; /* terminated, unescaped */
	char state;		 /* the letter of /proc/PID/stat */
	uint32_t raw_state;
	uint32_t exit_state;
	uint32_t flags; /* PF_* */
	uint32_t on_cpu;
	uint32_t cpu;
	int32_t prio, static_prio;
	uint32_t rt_priority, policy;
	uint64_t utime_ns, stime_ns, sum_exec_runtime_ns;
	uint64_t nvcsw, nivcsw;
	uint64_t start_time_ns, start_boottime_ns;
	uint64_t exec_start_ns; /* the run queue's clock when it last began to run or was accounted
				 */
	uint64_t min_flt, maj_flt;
	gva_t mm, signal, stack, real_parent, group_leader;
	uint64_t context_fp, context_sp, context_pc; /* thread.cpu_context */
};

#define LNX_PF_KTHREAD UINT32_C(0x00200000) /* include/linux/sched.h, 5.10 to 7.3 */

/**
 * Read one task_struct.
 *
 * @return GS_OK; GS_EFAULT: a needed part is unreadable; GS_EMALFORMED: it does not look like a
 * task
 */
GS_MUST_USE enum gs_code lnx_task_read(struct lnx_view *v, gva_t address,
				       struct lnx_task *task_out);

/*
 * Reading ahead, in the rounds of lnx_prefetch_entry() and lnx_prefetch(): what lnx_task_read()
 * wants, and then what lnx_threads_begin() and lnx_task_tgid() want of the task's signal structure
 * and parent.
 */
void lnx_task_prefetch_entry(struct lnx_view *v, gva_t address);
void lnx_task_prefetch(struct lnx_view *v, gva_t address);
void lnx_relatives_prefetch_entry(struct lnx_view *v, const struct lnx_task *task);
void lnx_relatives_prefetch(struct lnx_view *v, const struct lnx_task *task);

/** signal of the task at @p address, and nothing else. */
GS_MUST_USE enum gs_code lnx_task_signal(struct lnx_view *v, gva_t address, gva_t *signal_out);

/** tgid of the task at @p address (a parent, say). */
GS_MUST_USE enum gs_code lnx_task_tgid(struct lnx_view *v, gva_t address, int32_t *tgid_out);

/** init_task. Its threads and relatives are reached like any other's. */
gva_t lnx_init_task(const struct lnx_kernel *k);

/**
 * The idle task of a CPU, from its run queue.
 *
 * @param tpidr_el1 the CPU's per-CPU offset (TPIDR_EL1 of its vCPU)
 * @return GS_OK; GS_ENOENT: no place that may be its run queue has one (yet)
 */
GS_MUST_USE enum gs_code lnx_idle_task(struct lnx_view *v, uint64_t tpidr_el1, gva_t *task_out);

/**
 * Whether a CPU executes its idle task, as its run queue says: also of a CPU that is running.
 *
 * @return GS_OK; GS_ENOENT: its run queue was not found (yet); GS_EFAULT
 */
GS_MUST_USE enum gs_code lnx_cpu_is_idle(struct lnx_view *v, uint64_t tpidr_el1, bool *idle_out);

/**
 * The per-CPU offset of a CPU as the kernel's own table has it, for sources that do not know
 * TPIDR_EL1.
 *
 * @param cpu  Linux' number of it
 * @return GS_OK; GS_ENOENT: no such CPU, or the table was not found; proved by the CPU's run queue
 */
GS_MUST_USE enum gs_code lnx_percpu_offset(struct lnx_view *v, uint32_t cpu, uint64_t *offset_out);

/**
 * The task a vCPU executes: SP_EL0 where the kernel keeps it there, else the per-CPU __entry_task;
 * in both cases only if what is there is a task.
 *
 * @return GS_OK; GS_ENOENT: no task (early boot, registers unknown, vCPU off)
 */
GS_MUST_USE enum gs_code lnx_vcpu_current(struct lnx_view *v, const struct guest_vcpu_regs *regs,
					  gva_t *task_out);

/* --- modules --- */

/* More than any distribution's kernel loads; some 140 bytes each. */
#define LNX_MODULES_MAX 1024
#define LNX_MODULE_NAME 64 /* MODULE_NAME_LEN is 56, NUL included (include/linux/module.h) */
/* Most symbols of a module: the largest drivers have some 40,000. */
#define LNX_MODULE_SYMBOLS_MAX (UINT32_C(1) << 18)

/** Parts of a module that have instructions: what stays, and what is freed after its start. */
enum lnx_module_part { LNX_MODULE_CORE, LNX_MODULE_INIT, LNX_MODULE_PARTS };

/** A loaded module as its struct module says. */
struct lnx_module {
	gva_t address;		    /* of the struct module */
	char name[LNX_MODULE_NAME]; /* terminated; only printable ASCII */
	struct {
		uint64_t start, size; /* size 0: none */
	} text[LNX_MODULE_PARTS];
	uint8_t build_id[LNX_BUILD_ID]; /* all 0: the kernel does not keep it */
};

/** Caller's memory, large. */
struct lnx_modules {
	uint32_t count;
	struct lnx_module module[LNX_MODULES_MAX];
	gva_t listed[LNX_MODULES_MAX]; /* for the walk */
};

/**
 * Read the list of modules. One that is being loaded or cannot be read is left out; a list that breaks
 * off, loops or is too long gives what there is before. None at all is no error: kernels without modules
 * or with types that do not tell of them have none.
 *
 * @param v  the guest may be running: what was read is then a guess until lnx_module_is_there()
 * Threads: any, each with its own view. Allocates nothing.
 * Origin: struct module in include/linux/module.h; core_layout and init_layout up to 6.3, mem[] since.
 */
void lnx_modules_read(struct lnx_view *v, struct lnx_modules *modules_out);

/**
 * Whether a module is on the list and just as it was read before.
 *
 * @param v  made after all that is to be believed was read: a translation it remembers from before
 *           would show a module that is gone
 */
bool lnx_module_is_there(struct lnx_view *v, const struct lnx_module *module);

/** Functions of a module, ascending; their names stay in the guest. */
struct lnx_module_symbols {
	struct lnx_module_symbol {
		uint64_t value;
		uint32_t name;	/* offset in strtab */
		uint32_t index; /* in the module's own table */
	} * symbol;
	uint32_t count;
	uint32_t read; /* entries of the module's table, also after an error */
	gva_t strtab;
};

/**
 * Read a module's own symbol table, as far as it is about its text.
 *
 * @param max          most entries to read
 * @param symbols_out  freed by lnx_module_symbols_deinit(), also after a failure
 * @return GS_OK; GS_ENOENT: it has no table; GS_EMALFORMED; GS_ETOOBIG: more than @p max entries or
 *         LNX_MODULE_SYMBOLS_MAX; GS_EFAULT; GS_ENOSPC: out of memory
 * Origin: struct mod_kallsyms (kernel/module/internal.h); entries are Elf64_Sym with absolute values.
 */
GS_MUST_USE enum gs_code lnx_module_symbols_read(struct lnx_view *v,
						 const struct lnx_module *module, uint32_t max,
						 struct lnx_module_symbols *symbols_out);
void lnx_module_symbols_deinit(struct lnx_module_symbols *symbols);

/**
 * The function that covers an address in a module's text: from the symbol below it to the next one, as
 * the kernel's find_kallsyms_symbol() has it, so that it is named and measured as in the guest's own logs.
 *
 * @return GS_OK; GS_ENOENT: not in its text, or no symbol is below; GS_EFAULT, GS_EMALFORMED: the name
 */
GS_MUST_USE enum gs_code lnx_module_symbol_at(struct lnx_view *v, const struct lnx_module *module,
					      const struct lnx_module_symbols *symbols,
					      gva_t address, struct lnx_symbol *symbol_out);

/* --- BPF programs --- */

/* Machines full of containers have some thousand; 56 bytes each. */
#define LNX_BPF_MAX 4096

/** A BPF program in machine code, or a trampoline to such, as the kernel lists it for its symbols. */
struct lnx_bpf_program {
	gva_t address; /* of the struct bpf_ksym */
	uint64_t start, size;
	uint64_t name_hash; /* lnx_bpf_hash_name() */
};

/** Caller's memory, large. */
struct lnx_bpf {
	uint32_t count;
	struct lnx_bpf_program program[LNX_BPF_MAX];
	gva_t listed[LNX_BPF_MAX]; /* for the walk */
};

/**
 * Read the list of BPF programs; hostile and broken ones as of lnx_modules_read().
 *
 * @param v  the guest may be running: what was read is then a guess until lnx_bpf_symbol()
 * Threads: any, each with its own view. Allocates nothing.
 * Origin: bpf_kallsyms, a list of struct bpf_ksym (kernel/bpf/core.c, include/linux/bpf.h, 5.7 to 7.3).
 */
void lnx_bpf_read(struct lnx_view *v, struct lnx_bpf *bpf_out);

/** A name as lists have it. */
uint64_t lnx_bpf_hash_name(const char *name);

/**
 * The symbol of a program that is on the list and just as it was read before.
 *
 * @param v           made after all that is to be believed was read, as for lnx_module_is_there()
 * @param symbol_out  its name as in /proc/kallsyms: bpf_prog_TAG_NAME, bpf_trampoline_KEY, …
 * @return GS_OK; GS_ENOENT: it is another one now, or on no list; GS_EFAULT; GS_EMALFORMED
 */
GS_MUST_USE enum gs_code lnx_bpf_symbol(struct lnx_view *v, const struct lnx_bpf_program *program,
					struct lnx_symbol *symbol_out);

/* --- memory --- */

/** What of this a kernel's types and symbols tell; else it is not to be asked for. */
bool lnx_knows_asid(const struct lnx_kernel *k);
bool lnx_knows_page_tables(const struct lnx_kernel *k);
bool lnx_knows_page_counts(const struct lnx_kernel *k);

/**
 * The address space of a thread: 0 for one that has none. Kernel threads have none of their own, but
 * may borrow one (kthread_use_mm()).
 */
static inline gva_t lnx_task_mm(const struct lnx_task *task)
{
	return task->flags & LNX_PF_KTHREAD ? GVA(0) : task->mm;
}

/** Reading ahead, in the rounds of lnx_prefetch_entry() and lnx_prefetch(), for lnx_mm_asid(). */
void lnx_mm_prefetch_entry(struct lnx_view *v, gva_t mm);
void lnx_mm_prefetch(struct lnx_view *v, gva_t mm);

/**
 * The ASID of an address space.
 *
 * @param mm        a struct mm_struct
 * @param asid_out  0: it has not been on a CPU yet. Under KPTI that of the kernel's side; the user's is
 *                  one more
 * @return GS_OK; GS_EFAULT; GS_EMALFORMED: @p mm is no address
 * Origin: ASID(mm) in arch/arm64/include/asm/mmu.h, 5.10 and later: the low 16 bits of context.id, above
 * which is the generation.
 */
GS_MUST_USE enum gs_code lnx_mm_asid(struct lnx_view *v, gva_t mm, uint32_t *asid_out);

/**
 * The user half of an address space, for a64_tables_begin().
 *
 * Its form is the one that a vCPU has for low addresses, TCR_EL1's T0SZ and TG0. Linux gives both halves
 * one size, but for the time that a CPU spends on the identity mapping: of vCPUs that differ one that
 * agrees with the kernel's half is believed, and where none is known the kernel's half itself.
 *
 * @param mm    a struct mm_struct
 * @param regs  of @p n vCPUs
 * @return GS_OK; GS_EFAULT; GS_EMALFORMED: @p mm or its page directory is none
 * Origin: vabits_actual is in TCR_EL1 as T0SZ and T1SZ (arch/arm64/mm/proc.S,
 * include/asm/mmu_context.h cpu_set_default_tcr_t0sz(), 5.10 and later).
 */
GS_MUST_USE enum gs_code lnx_mm_half(struct lnx_view *v, gva_t mm,
				     const struct guest_vcpu_regs *regs, uint32_t n,
				     struct a64_half *half_out);

/** Pages of the whole guest, as its /proc/vmstat has them: of the kernel's own size. */
struct lnx_page_counts {
	uint64_t free;
	uint64_t active, inactive; /* anonymous and of files */
	uint64_t unevictable;
	uint64_t slab_unreclaimable;
	uint64_t file; /* of files, swap cache included */
	uint64_t
		zspages; /* that zswap and zram have their compressed pages in; 0 also: not there */
};

/**
 * @return GS_OK; GS_EFAULT
 * Origin: vm_zone_stat[], vm_node_stat[] (mm/vmstat.c since 4.8): what CPUs have counted and not yet
 * passed on is not in them, so that a count may be somewhat off; negative ones are 0, as the kernel
 * shows them.
 */
GS_MUST_USE enum gs_code lnx_page_counts_read(struct lnx_view *v,
					      struct lnx_page_counts *counts_out);

/* --- stacks --- */

/** What the address of a frame is; decides how it is looked up. */
enum lnx_frame_kind {
	LNX_FRAME_RETURN = 0, /* a return address: belongs to the instruction before it */
	LNX_FRAME_PC,	      /* where a vCPU stopped: exact */
	LNX_FRAME_LR,	      /* return address still in the link register */
	LNX_FRAME_INTERRUPTED /* pc that an exception interrupted: exact */
};

/** Whether a frame's address is looked up as it is, and not the instruction before it. */
static inline bool lnx_frame_is_exact(uint32_t kind)
{
	return kind == LNX_FRAME_PC || kind == LNX_FRAME_INTERRUPTED;
}

enum lnx_unwind_end {
	LNX_END_COMPLETE = 0, /* the outermost frame was reached */
	LNX_END_NO_STACK,     /* the task has none (a zombie whose stack is freed) */
	LNX_END_UNREADABLE,   /* a frame record could not be read */
	LNX_END_BAD_RECORD,   /* a frame pointer outside of the stack, misaligned, or not rising */
	LNX_END_NOT_TEXT,     /* a return address that is not kernel text */
	LNX_END_TRUNCATED,    /* more frames than there is room for */
	LNX_END_RUNNING,      /* on a CPU whose registers are not known: nothing to start from */
	LNX_ENDS
};

const char *lnx_unwind_end_name(enum lnx_unwind_end end);

/**
 * Why a frame is uncertain: it may not belong there, or a caller between it and the frame before it may
 * be missing. Frames behind it are as good as any.
 */
enum lnx_doubt {
	LNX_CERTAIN = 0,
	LNX_DOUBT_NO_CALL,    /* no call instruction is in front of the return address */
	LNX_DOUBT_UNREADABLE, /* what is in front of it could not be read */
	LNX_DOUBT_LINK,	      /* the code does not tell whether the link register has a caller */
	LNX_DOUBT_TRACED,     /* a tracer's trampoline, whose real return address was not found */
	LNX_DOUBT_ENTRY,      /* exception entry or exit code: what was interrupted is not known */
	LNX_DOUBT_FIRMWARE, /* code of the EFI firmware: no symbols, and its own callers are not known */
	LNX_DOUBTS
};

/** For people: "no call before it", …; "certain" for LNX_CERTAIN. */
const char *lnx_doubt_name(enum lnx_doubt doubt);

struct lnx_stack {
	uint64_t *address; /* caller's room for LNX_FRAMES_MAX */
	uint8_t *kind;	   /* enum lnx_frame_kind, as many */
	uint8_t *doubt;	   /* enum lnx_doubt, as many; NULL: not asked for */
	uint32_t count;
	enum lnx_unwind_end end;
	uint64_t end_at; /* the frame pointer or address that ended it, unless complete */
};

#define LNX_STACKS_MAX 6

/** A stack that is being unwound; fields are private. */
struct lnx_walk {
	struct lnx_view *v;
	struct lnx_stack *out;
	/*
	 * Known stacks, outermost first: a chain only ever goes from a later one to an earlier one.
	 */
	struct {
		uint64_t start, end;
	} stack[LNX_STACKS_MAX];
	uint32_t stacks;
	uint32_t on;  /* the one the chain is on; stacks: none yet */
	uint64_t top; /* end of the task's stack, 0 if unknown */
	gva_t task;   /* task_struct; a = 0: not known */
	uint64_t fp;  /* of the next record */
	uint64_t last_fp;
	bool has_efi; /* the stack of the EFI runtime services is known, behind that of the task */
	bool entered; /* the frame before this one is exception entry code of EL1 */
	bool ended;
	enum lnx_doubt doubt;	 /* of the next frame, or of the last one if there is none */
	uint64_t elr;		 /* pc of the first pt_regs, which may not have it yet; 0: none */
	uint32_t scans, lookups; /* of code, of tracers' memory; limited */
};

/**
 * Begin with the kernel stack of a task that is not running, from its saved context.
 * An empty stack with LNX_END_NO_STACK is a result, not an error.
 *
 * @param stack  gets the frames by lnx_walk_finish(); borrowed until then
 */
void lnx_walk_blocked(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      struct lnx_stack *stack);

/**
 * Begin with the kernel stack of a vCPU, from its registers: nothing for one in user mode.
 *
 * @param task  what it executes, or NULL when that is not known (only the IRQ stack is then
 * allowed)
 */
void lnx_walk_running(struct lnx_walk *w, struct lnx_view *v, const struct lnx_task *task,
		      const struct guest_vcpu_regs *regs, struct lnx_stack *stack);

/** Most walks that are finished side by side. */
#define LNX_WALKS_MAX 64

/**
 * Unwind stacks to their ends, side by side: while the next record of one is on its way from
 * memory, the others are looked at. All walks are of one view.
 *
 * @param n 0 … LNX_WALKS_MAX
 */
void lnx_walk_finish(struct lnx_walk *const *walks, uint32_t n);

/** One stack: lnx_walk_blocked() to its end. */
void lnx_unwind_blocked(struct lnx_view *v, const struct lnx_task *task, struct lnx_stack *stack);

/** One stack: lnx_walk_running() to its end. */
void lnx_unwind_running(struct lnx_view *v, const struct lnx_task *task,
			const struct guest_vcpu_regs *regs, struct lnx_stack *stack);

/* --- what a thread waits for --- */

enum lnx_wait_kind {
	LNX_WAIT_MUTEX = 1,
	LNX_WAIT_RWSEM_READ,	 /* struct rw_semaphore, to read */
	LNX_WAIT_RWSEM_WRITE,	 /* ... to write */
	LNX_WAIT_COMPLETION,	 /* struct completion */
	LNX_WAIT_QUEUE,		 /* struct wait_queue_head */
	LNX_WAIT_FUTEX,		 /* of this address space */
	LNX_WAIT_FUTEX_SHARED,	 /* in a mapping of a file or of shared memory */
	LNX_WAIT_TIMER,		 /* struct hrtimer: until a time */
	LNX_WAIT_FLOCK,		 /* struct file_lock: flock() */
	LNX_WAIT_RECORD_LOCK,	 /* ... fcntl(), of a process or of an open file */
	LNX_WAIT_LEASE,		 /* ... that another one gives its lease of the file back */
	LNX_WAIT_RT_MUTEX,	 /* struct rt_mutex; in PREEMPT_RT kernels most locks have one */
	LNX_WAIT_SEMAPHORE,	 /* struct semaphore */
	LNX_WAIT_CHILD,		 /* struct signal_struct of its own process: wait4(), waitid() */
	LNX_WAIT_PIPE,		 /* struct pipe_inode_info */
	LNX_WAIT_SOCKET,	 /* struct socket */
	LNX_WAIT_EPOLL,		 /* struct eventpoll */
	LNX_WAIT_EVENTFD,	 /* struct eventfd_ctx */
	LNX_WAIT_TIMERFD,	 /* struct timerfd_ctx */
	LNX_WAIT_INOTIFY,	 /* struct fsnotify_group */
	LNX_WAIT_FILE,		 /* struct file of another kind, in poll or select */
	LNX_WAIT_MESSAGE,	 /* struct msg_queue: msgrcv() */
	LNX_WAIT_MESSAGE_ROOM,	 /* ... msgsnd() */
	LNX_WAIT_SYSV_SEMAPHORE, /* struct sem_array: semop() */
	LNX_WAIT_PAGE,		 /* struct page or folio: a bit of its flags, locked or written */
	LNX_WAIT_BIT,		 /* a bit of a word */
	LNX_WAIT_USERFAULT,	 /* struct userfaultfd_ctx: a page that user mode is to fill */
	LNX_WAIT_RCU,		 /* struct completion: the end of a grace period */
	LNX_WAIT_SIGNAL,	 /* no object: a signal */
	LNX_WAIT_FREEZER, /* struct task_struct of its own: that its control group is thawed */
	LNX_WAIT_WORK,	  /* struct kthread of its own: idle in its main function */
	LNX_WAIT_TIMEOUT, /* struct timer_list on its stack: schedule_timeout() */
	LNX_WAIT_BLOCK,	  /* struct bio: the end of a request to a block device */
	LNX_WAIT_TAG,	  /* struct sbitmap_queue: that one of a block device's requests is free */
	LNX_WAIT_BUFFER,  /* struct buffer_head: a block that is read or written */
	LNX_WAIT_KINDS
};

/** One thing that a thread waits for; it may wait for several at once, a futex and a timer, say. */
struct lnx_wait {
	enum lnx_wait_kind kind;
	/*
	 * Block, buffer: the device's number, major << 20 | minor; page: that of the file system that its file
	 * is on, or of the device that it is of; 0: not known.
	 */
	uint32_t device;
	/* the kernel's object; of a futex its user address, of a shared one its offset in the file */
	uint64_t object;
	/*
	 * Task that holds the object; 0: nobody, or the kernel does not say. Locks of files are held by
	 * a process: its first thread.
	 */
	gva_t owner;
	/*
	 * Mutex, rwsem, rt_mutex: the owner word as it is. Wait queue: the function that is to wake the
	 * thread. Shared futex: the kernel's number of the file (i_seq). Timer: when it is due, of its
	 * clock. Locks of files: the file's inode number. Pipes to other files: a descriptor of this
	 * thread. System V: what programs call it (msqid, semid). Page, bit: the bit's number. Page fault:
	 * its address. Signal: those that are not blocked, bit n - 1 for signal n. Work: the thread's
	 * main function. Timeout: milliseconds until it is due, or LNX_TIMEOUT_UNKNOWN. Buffer: the block's
	 * number.
	 */
	uint64_t extra;
	uint64_t inode; /* page: number of its file's inode; 0: of none */
};

#define LNX_TIMEOUT_UNKNOWN UINT64_MAX

/** Whether the owner of what a thread waits for is a process, any thread of which may let it go. */
static inline bool lnx_wait_is_for_process(uint32_t kind)
{
	return kind == LNX_WAIT_FLOCK || kind == LNX_WAIT_RECORD_LOCK || kind == LNX_WAIT_LEASE;
}

/** Whether @p extra of a wait is the address of a function. */
static inline bool lnx_wait_has_function(uint32_t kind)
{
	return kind == LNX_WAIT_QUEUE || kind == LNX_WAIT_WORK;
}

/* The owner word of a rw_semaphore that readers hold (kernel/locking/rwsem.c, 5.10 to 7.3). */
#define LNX_RWSEM_READER_OWNED UINT64_C(1)

#define LNX_WAITS_MAX 8
#define LNX_WAITS_STACK \
	16384 /* of the used part of a stack as much is looked at, innermost first */

/** Whether a kernel's types tell of any kind. */
bool lnx_knows_waits(const struct lnx_kernel *k);

/**
 * What a thread that is blocked waits for.
 *
 * Found on its stack by what the kernel links there: a structure with this thread in it, of a list
 * (or tree) whose neighbours lead back to it, and which belongs to an object that fits. Where two
 * kinds look alike, the functions on the stack have to agree, too. What fails any of this is no wait.
 *
 * @param task   in state S, D or I and not executed; else nothing is found; of state I only idle
 *               kernel threads are
 * @param stack  its frames
 * @param copy   room for LNX_WAITS_STACK bytes, 8-aligned
 * @return how many were found
 * Threads: as the view. Allocates nothing; legal while the guest is stopped; all loops are bounded.
 * Origin: kernel/locking/{mutex,rwsem,semaphore,rtmutex}.c, kernel/sched/{swait,wait,wait_bit}.c,
 * kernel/futex/, kernel/time/hrtimer.c, fs/{locks,pipe,select,eventpoll,userfaultfd}.c, ipc/{msg,sem}.c,
 * kernel/{kthread,workqueue}.c, kernel/time/{timer,sleep_timeout}.c, block/bio.c, lib/sbitmap.c, fs/buffer.c, 5.10 to 7.3.
 */
uint32_t lnx_waits_find(struct lnx_view *v, const struct lnx_task *task,
			const struct lnx_stack *stack, uint8_t *copy,
			struct lnx_wait waits_out[static LNX_WAITS_MAX]);

#endif
