/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own record types: what a Linux guest on vCPUs has and the original stackshot has no record
 * for.
 */
#ifndef INTROSPECT_STACKSHOT_RECORDS_H
#define INTROSPECT_STACKSHOT_RECORDS_H

/*
 * Type codes lie far from Apple's blocks (0 … 0x10ff). Each type is defined at the start of every
 * stream that uses it, so that a reader without this header prints it too; fields are only ever
 * added at the end. Guest strings are raw bytes, terminated within their field.
 *
 * Where: G buffer level, T in a task container, H in a thread container; [] an array.
 */

#include <stdint.h>

#include "kcdata/schema.h"

#define SS_RECORD_BASE UINT32_C(0x47530000) /* "GS" in the upper half */

enum ss_record {
	SS_RECORD_GUEST = SS_RECORD_BASE + 1,		 /* G   struct ss_guest_record */
	SS_RECORD_VCPU = SS_RECORD_BASE + 2,		 /* G[] struct ss_vcpu_record */
	SS_RECORD_TASK = SS_RECORD_BASE + 3,		 /* T   struct ss_task_record */
	SS_RECORD_THREAD = SS_RECORD_BASE + 4,		 /* H   struct ss_thread_record */
	SS_RECORD_FRAME_KIND = SS_RECORD_BASE + 5,	 /* H[] struct ss_frame_kind_record */
	SS_RECORD_SYMBOL = SS_RECORD_BASE + 6,		 /* G[] struct ss_symbol_record */
	SS_RECORD_LONG_SYMBOL = SS_RECORD_BASE + 7,	 /* G[] struct ss_long_symbol_record */
	SS_RECORD_MISSING = SS_RECORD_BASE + 8,		 /* G[] struct ss_missing_record */
	SS_RECORD_TIMES = SS_RECORD_BASE + 9,		 /* G   struct ss_times_record */
	SS_RECORD_MODULE = SS_RECORD_BASE + 10,		 /* G[] struct ss_module_record */
	SS_RECORD_WAIT = SS_RECORD_BASE + 11,		 /* H[] struct ss_wait_record */
	SS_RECORD_REASON = SS_RECORD_BASE + 16,		 /* G   struct ss_reason_record */
	SS_RECORD_CONSOLE = SS_RECORD_BASE + 17,	 /* G[] struct ss_console_record */
	SS_RECORD_USER_STACK = SS_RECORD_BASE + 20,	 /* H   struct ss_user_stack_record */
	SS_RECORD_MAPPING = SS_RECORD_BASE + 21,	 /* T[] struct ss_mapping_record */
	SS_RECORD_SYSTEM = SS_RECORD_BASE + 30,		 /* G   struct ss_system_record */
	SS_RECORD_LOG = SS_RECORD_BASE + 31,		 /* G[] struct ss_log_record */
	SS_RECORD_PROCESS_CONTEXT = SS_RECORD_BASE + 32, /* T struct ss_process_context_record */
	SS_RECORD_THREAD_CONTEXT = SS_RECORD_BASE + 33,	 /* H struct ss_thread_context_record */
};

/** The guest and its kernel; the latter's fields are 0 when it was not found. */
struct ss_guest_record {
	uint64_t ram_size;
	uint64_t kernel_text;	 /* guest-virtual address of _stext */
	uint64_t kernel_voffset; /* guest-virtual minus guest-physical in the kernel image */
	uint32_t vcpus;
	uint32_t clusters;
	uint32_t page_size;
	uint32_t va_bits; /* of kernel addresses, as the CPU runs */
	uint32_t symbols;
	char source[20]; /* where the guest is from: "kvm", … */
};

/* Bits of ss_vcpu_record.known: which registers the source could tell (enum guest_regs_valid). */

enum ss_vcpu_state {
	SS_VCPU_UNKNOWN = 0,
	SS_VCPU_KERNEL = 1, /* stopped in EL1 */
	SS_VCPU_USER = 2,   /* stopped in EL0 */
	SS_VCPU_OFF = 3,    /* not started, or off by PSCI */
	SS_VCPU_IDLE = 4,   /* in EL1, in the idle task */
};

struct ss_vcpu_record {
	uint32_t vcpu;
	uint32_t cluster;
	uint32_t state; /* enum ss_vcpu_state */
	uint32_t known; /* enum guest_regs_valid */
	int32_t pid;	/* of the current thread's process; -1: not known */
	int32_t tid;
	uint64_t thread_id; /* id of its container */
	uint64_t x[31];
	uint64_t sp_el0, sp_el1, pc, pstate;
	uint64_t elr_el1, spsr_el1;
	uint64_t ttbr0_el1, ttbr1_el1, tcr_el1, mair_el1, sctlr_el1;
	uint64_t vbar_el1, tpidr_el1, contextidr_el1, mpidr_el1;
	char comm[16];
};

struct ss_task_record {
	int32_t pid;	  /* thread group id, in the initial namespace */
	int32_t ppid;	  /* -1: not readable */
	uint32_t flags;	  /* PF_* of the leader */
	uint32_t threads; /* on its list */
	uint64_t address; /* task_struct of the leader */
	char comm[16];
};

/* Bits of ss_thread_record.known are enum lnx_task_valid. */
struct ss_thread_record {
	int32_t tid;
	int32_t vcpu;	/* that executes it; -1: none */
	uint32_t state; /* the letter of /proc/PID/stat */
	uint32_t raw_state;
	uint32_t exit_state;
	uint32_t flags; /* PF_* */
	uint32_t known;
	uint32_t cpu; /* it ran on last */
	int32_t prio;
	int32_t static_prio;
	uint32_t rt_priority;
	uint32_t policy;
	uint32_t stack_end; /* enum lnx_unwind_end: why the kernel stack has no more frames */
	uint32_t reserved;
	uint64_t stack_end_at; /* where, unless complete */
	uint64_t utime_ns, stime_ns, sum_exec_runtime_ns;
	uint64_t nvcsw, nivcsw;
	uint64_t start_time_ns, start_boottime_ns;
	uint64_t exec_start_ns;
	uint64_t min_flt, maj_flt;
	uint64_t address; /* task_struct */
	char comm[16];
};

/** Frames of the kernel stack that are not plain return addresses, or uncertain. */
struct ss_frame_kind_record {
	uint32_t index;
	uint32_t kind;	/* enum lnx_frame_kind */
	uint32_t doubt; /* enum lnx_doubt */
};

/** How a user stack ends (0x916 has its frames), if it was asked for. */
struct ss_user_stack_record {
	uint32_t end;	 /* enum lnx_user_end: why it has no more frames */
	uint32_t has_lr; /* 1: the second frame is from the link register, and not certain */
	uint64_t end_at; /* the frame pointer or return address that ended it, or 0 */
};

#define SS_MAPPING_FILE 128

/** A mapping of a process that frames of its user stacks lie in. */
struct ss_mapping_record {
	uint64_t start, end;
	uint64_t offset; /* bytes of the file before start */
	uint64_t inode;	 /* 0: of no file */
	/* path in its file system; cut at the beginning, without '/'; "[vdso]" is no file */
	char file[SS_MAPPING_FILE];
	uint32_t build_id_size; /* bytes; 0: not known */
	uint8_t build_id[20];
};

enum ss_symbol_flags {
	SS_SYMBOL_SCHED =
		1, /* scheduler or lock text, which the guest's /proc/PID/stack leaves out */
};

#define SS_SYMBOL_NAME	    64
#define SS_LONG_SYMBOL_NAME 512

/** A function that some frame lies in. */
struct ss_symbol_record {
	uint64_t start;
	uint64_t size;
	uint64_t flags; /* enum ss_symbol_flags */
	char name[SS_SYMBOL_NAME];
};

/** The same for names of SS_SYMBOL_NAME characters and more. */
struct ss_long_symbol_record {
	uint64_t start;
	uint64_t size;
	uint64_t flags;
	char name[SS_LONG_SYMBOL_NAME];
};

#define SS_MODULE_NAME 64

enum ss_module_flags {
	SS_MODULE_INIT = 1, /* the part that is freed when the module has started */
	SS_MODULE_BPF =
		2, /* no module, but a BPF program, or a trampoline to one; its name is "bpf" */
};

/** Text of a module that some frame lies in. */
struct ss_module_record {
	uint64_t start;
	uint64_t size;
	uint64_t flags; /* enum ss_module_flags */
	char name[SS_MODULE_NAME];
	uint8_t build_id[20]; /* all 0: not known */
	uint32_t reserved;
};

#define SS_PANIC_MESSAGE 256

/** The kernel as a whole. What is not in known (enum lnx_system_known) is 0. */
struct ss_system_record {
	uint32_t known;
	int32_t panic_cpu; /* Linux' number of it; -1: it has not panicked, or that is not known */
	uint64_t taint;	   /* as /proc/sys/kernel/tainted */
	uint64_t uptime_ns;
	uint64_t load[3]; /* averages of 1, 5 and 15 minutes, times 2048 */
	uint64_t total_pages, free_pages, file_pages;
	char panic[SS_PANIC_MESSAGE]; /* "": none was found */
};

#define SS_LOG_TEXT 104

/** A line of the kernel's log, or a part of a long one: these follow one another, with one number. */
struct ss_log_record {
	uint64_t seq;
	uint64_t time_ns; /* since boot */
	uint32_t caller;  /* number of the thread; with bit 31 of the CPU */
	uint16_t part;	  /* 0, 1, … */
	uint8_t facility;
	uint8_t level_flags; /* bits 2:0 level, 0 (emergency) … 7 (debug); 7:3 enum printk_info_flags */
	char text[SS_LOG_TEXT];
};

#define SS_CGROUP_PATH 192
#define SS_COMMAND     192
#define SS_NAMESPACES  7

/** What a process stands in. What is not in known (enum lnx_process_known) is 0. */
struct ss_process_context_record {
	uint32_t known;
	uint32_t namespace[SS_NAMESPACES]; /* inode numbers, by enum lnx_namespace */
	uint64_t pending;		   /* signals of the process: bit n is signal n + 1 */
	char cgroup[SS_CGROUP_PATH];	   /* cut at the beginning, then without '/' */
	uint8_t command[SS_COMMAND];	   /* arguments, each terminated; the rest is 0 */
};

/** What a thread stands in. What is not in known (enum lnx_thread_known) is 0. */
struct ss_thread_context_record {
	uint32_t known;
	uint32_t on_rq;		   /* 1: on its CPU's run queue */
	uint64_t vruntime, cfs_rq; /* of the fair class: where in which queue */
	uint64_t pending, blocked; /* signals: bit n is signal n + 1 */
	uint64_t deadline;	   /* of the fair class, which then has its queues in this order */
	uint32_t
		rt_place; /* of real-time threads: from 1, among those of its priority; 0: not known */
	uint32_t delayed; /* 1: it sleeps, and is still on the run queue */
	uint32_t locks;	  /* held, as lockdep counts them */
	uint32_t reserved;
};

enum ss_missing {
	SS_MISSING_KERNEL = 1,	/* no kernel found: registers only */
	SS_MISSING_TASKS = 2,	/* the list of all processes breaks off */
	SS_MISSING_THREADS = 3, /* the list of a process's threads breaks off */
	SS_MISSING_TASK = 4,	/* a task_struct could not be read */
	SS_MISSING_STACK = 5,	/* a kernel stack is incomplete */
	SS_MISSING_CURRENT = 6, /* what a vCPU executes is not known */
	SS_MISSING_IDLE = 7,	/* the idle task of a vCPU was not found */
	SS_MISSING_MORE = 8,	/* further things, too many to list: count says how many */
	SS_MISSING_LATE = 9,	/* the deadline passed: count threads of a process, or processes */
	SS_MISSING_ROOM = 10,	/* the same for want of room in a panic capture's buffer */
	SS_MISSING_ASID = 11,	/* the ASID of a process */
	SS_MISSING_PAGE_TABLES = 12, /* count page tables of a process, or all from some one on */
	SS_MISSING_LOG = 30,	     /* the kernel's log */
};

/** Something that should be in the capture and is not. */
struct ss_missing_record {
	uint32_t what; /* enum ss_missing */
	uint32_t count;
	int32_t pid; /* of the thread or process concerned; -1: none */
	int32_t tid;
	uint64_t address;
	char reason[160];
};

struct ss_times_record {
	uint64_t stop_ns;    /* from the request to stop until every vCPU had left the guest */
	uint64_t collect_ns; /* reading the guest */
	uint64_t resume_ns;
	uint64_t prior_ns;  /* stopped in tries before this one, and to look at the registers */
	uint64_t reads;	    /* copies out of guest memory */
	uint64_t bytes;	    /* so copied */
	uint64_t faults[8]; /* failed translations by reason (enum a64_fault) */
	uint32_t tries;
	uint32_t reserved;
	uint64_t fault_ns;    /* in failed translations; measured if SS_LATENCY_INFO is asked for */
	uint64_t buffer_size; /* what there was for records, of the last try */
	uint64_t buffer_used;
	uint64_t buffer_overhead; /* of these: what holds no records */
	uint32_t buffers;	  /* one for each worker */
	uint32_t workers;	  /* that collected */
	uint32_t same_tasks;	  /* delta: processes of which nothing has changed */
	uint32_t same_threads;	  /* delta: threads that have not changed, of all processes */
};

/** Something that a thread waits for. */
struct ss_wait_record {
	uint32_t kind;	   /* enum lnx_wait_kind */
	int32_t owner_tid; /* thread that holds the object; -1: nobody, or not known */
	uint64_t owner;	   /* id of its container; 0: none */
	uint64_t object;   /* address of the object; of a shared futex its offset in the file */
	uint64_t extra; /* by kind: owner word, function that wakes, number of the file, due time */
	uint32_t device; /* block device, major << 20 | minor; 0: none, or not known */
	uint32_t reserved;
	uint64_t inode; /* of a page: number of its file; 0: none */
};

enum ss_reason {
	SS_REASON_SCHEDULE = 1,	   /* it was due */
	SS_REASON_PANIC = 2,	   /* the console says that the kernel panics */
	SS_REASON_OOPS = 3,	   /* the console says that the kernel hit an error of its own */
	SS_REASON_HUNG_TASK = 4,   /* a thread sleeps uninterruptibly for long */
	SS_REASON_SOFT_LOCKUP = 5, /* a vCPU is in the kernel for long without a switch */
	SS_REASON_CONSOLE = 6,	   /* a line of the console matches */
	/* guestshot run is about to end: */
	SS_REASON_TIMEOUT = 7,
	SS_REASON_EXIT = 8,
	SS_REASON_UNTIL = 9,
	SS_REASON_SIGNAL = 10,
};

/** Why a capture was taken that nobody asked for at that moment. */
struct ss_reason_record {
	uint32_t reason; /* enum ss_reason */
	int32_t pid;	 /* of the thread concerned; -1: none */
	int32_t tid;
	int32_t vcpu;	 /* concerned; -1: none */
	uint64_t for_ns; /* how long it had been so, by the guest's clock; 0: not known */
	char text[128];	 /* line of the console, name of the thread; guest text */
};

/** A line of what the guest said on its console before the capture, oldest first. */
struct ss_console_record {
	char text[160]; /* the line's beginning; guest text */
};

/* Most lines of the console in a capture. */
#define SS_CONSOLE_LINES 40

/** What a request has recorded of its own reason. */
struct ss_cause {
	struct ss_reason_record reason;
	uint32_t console_lines; /* at most SS_CONSOLE_LINES */
	struct ss_console_record console[SS_CONSOLE_LINES];
};

/** "schedule", "panic", "hung-task" and so on for enum ss_reason; NULL: none of them. */
const char *ss_reason_name(uint32_t reason);

/** The table of these types, for kcd_append_typedef() and for readers. */
extern const struct kcd_schema ss_schema;

#endif
