/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from the kernel's own BTF. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_TYPES_H
#define INTROSPECT_LINUX_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Members that are used; the table in types.c says where each is looked for. */
enum lnx_member {
	LNX_M_TASK_STATE,
	LNX_M_TASK_STACK,
	LNX_M_TASK_FLAGS,
	LNX_M_TASK_ON_CPU,
	LNX_M_TASK_CPU,
	LNX_M_TASK_PRIO,
	LNX_M_TASK_STATIC_PRIO,
	LNX_M_TASK_RT_PRIORITY,
	LNX_M_TASK_POLICY,
	LNX_M_TASK_EXEC_START,
	LNX_M_TASK_SUM_EXEC_RUNTIME,
	LNX_M_TASK_TASKS,
	LNX_M_TASK_MM,
	LNX_M_TASK_EXIT_STATE,
	LNX_M_TASK_PID,
	LNX_M_TASK_TGID,
	LNX_M_TASK_REAL_PARENT,
	LNX_M_TASK_GROUP_LEADER,
	LNX_M_TASK_THREAD_NODE,
	LNX_M_TASK_UTIME,
	LNX_M_TASK_STIME,
	LNX_M_TASK_NVCSW,
	LNX_M_TASK_NIVCSW,
	LNX_M_TASK_START_TIME,
	LNX_M_TASK_START_BOOTTIME,
	LNX_M_TASK_MIN_FLT,
	LNX_M_TASK_MAJ_FLT,
	LNX_M_TASK_COMM,
	LNX_M_TASK_SIGNAL,
	LNX_M_TASK_CONTEXT_FP,
	LNX_M_TASK_CONTEXT_SP,
	LNX_M_TASK_CONTEXT_PC,
	LNX_M_TASK_LAST = LNX_M_TASK_CONTEXT_PC,
	LNX_M_TASK_RET_STACK,
	LNX_M_TASK_CURR_RET_STACK,
	LNX_M_TASK_KRETPROBES,
	LNX_M_RET_STACK_RET,
	LNX_M_RET_STACK_FP, /* it and the next one are the same; there is one of them or both */
	LNX_M_RET_STACK_RETP,
	LNX_M_FGRAPH_OPS_IDX, /* since 6.11, when the stack is no longer an array of these */
	LNX_M_KRETPROBE_LIST,
	LNX_M_KRETPROBE_HLIST, /* up to 5.10, in a table of all tasks' */
	LNX_M_KRETPROBE_TASK,
	LNX_M_KRETPROBE_RET_ADDR,
	LNX_M_KRETPROBE_FP,
	LNX_M_SIGNAL_THREAD_HEAD,
	LNX_M_PT_REGS_REGS,
	LNX_M_PT_REGS_PC,
	LNX_M_PT_REGS_STACKFRAME,
	LNX_M_RQ_IDLE,
	LNX_M_RQ_CPU,
	LNX_M_RQ_CURR,
	LNX_M_MM_PGD,
	LNX_M_MM_CONTEXT_ID,
	LNX_M_MODULE_STATE,
	LNX_M_MODULE_LIST,
	LNX_M_MODULE_NAME,
	LNX_M_MODULE_KALLSYMS,
	LNX_M_MODULE_BUILD_ID,
	LNX_M_MODULE_MEM, /* since 6.4; the four after it are what there was before */
	LNX_M_MODULE_CORE_BASE,
	LNX_M_MODULE_CORE_TEXT_SIZE,
	LNX_M_MODULE_INIT_BASE,
	LNX_M_MODULE_INIT_TEXT_SIZE,
	LNX_M_MODULE_MEMORY_BASE,
	LNX_M_MODULE_MEMORY_SIZE,
	LNX_M_MOD_KALLSYMS_SYMTAB,
	LNX_M_MOD_KALLSYMS_NUM_SYMTAB,
	LNX_M_MOD_KALLSYMS_STRTAB,
	LNX_M_BPF_START,
	LNX_M_BPF_END,
	LNX_M_BPF_NAME,
	LNX_M_BPF_LIST,
	/* what threads wait with and for: waits.c needs all of a kind, or does without the kind */
	LNX_M_MUTEX_WAITER_LIST,
	LNX_M_MUTEX_WAITER_TASK,
	LNX_M_MUTEX_OWNER,
	LNX_M_MUTEX_WAIT_LIST,
	LNX_M_RWSEM_WAITER_LIST,
	LNX_M_RWSEM_WAITER_TASK,
	LNX_M_RWSEM_WAITER_TYPE,
	LNX_M_RWSEM_COUNT,
	LNX_M_RWSEM_OWNER,
	LNX_M_RWSEM_WAIT_LIST,
	LNX_M_SWAIT_TASK,
	LNX_M_SWAIT_LIST,
	LNX_M_SWAIT_HEAD_LIST,
	LNX_M_COMPLETION_DONE,
	LNX_M_COMPLETION_WAIT,
	LNX_M_WAIT_PRIVATE,
	LNX_M_WAIT_FUNC,
	LNX_M_WAIT_ENTRY,
	LNX_M_WAIT_HEAD_LIST,
	LNX_M_POLL_TASK,
	LNX_M_POLL_COUNT,
	LNX_M_POLL_ENTRIES,
	LNX_M_POLL_WAIT,
	LNX_M_POLL_ADDRESS,
	LNX_M_FUTEX_LIST,
	LNX_M_FUTEX_TASK,
	LNX_M_FUTEX_LOCK_PTR,
	LNX_M_FUTEX_KEY_PTR,
	LNX_M_FUTEX_KEY_WORD,
	LNX_M_FUTEX_KEY_OFFSET,
	LNX_M_FUTEX_BUCKET_LOCK,
	LNX_M_FUTEX_BUCKET_CHAIN,
	LNX_M_SLEEPER_TASK,
	LNX_M_SLEEPER_NODE,
	LNX_M_SLEEPER_EXPIRES,
	LNX_M_SLEEPER_STATE,
	LNX_M_SLEEPER_BASE,
	LNX_M_CLOCK_BASE_ROOT,
	LNX_M_MM_MAPLE_ROOT,
	LNX_M_MM_RB_ROOT,
	LNX_M_MAPLE_RANGE_PIVOT,
	LNX_M_MAPLE_RANGE_SLOT,
	LNX_M_MAPLE_ARANGE_PIVOT,
	LNX_M_MAPLE_ARANGE_SLOT,
	LNX_M_VMA_START,
	LNX_M_VMA_END,
	LNX_M_VMA_PGOFF,
	LNX_M_VMA_FILE,
	LNX_M_VMA_RB,
	LNX_M_FILE_DENTRY,
	LNX_M_DENTRY_PARENT,
	LNX_M_DENTRY_NAME,
	LNX_M_DENTRY_NAME_LEN,
	LNX_M_POLL_TABLE,
	LNX_M_POLL_FILE,
	LNX_M_FUTEX_PI_STATE,
	LNX_M_PI_STATE_MUTEX,
	LNX_M_PI_STATE_OWNER,
	LNX_M_MUTEX_FIRST,
	LNX_M_RWSEM_FIRST,
	LNX_M_SEM_FIRST,
	LNX_M_SEM_WAIT_LIST,
	LNX_M_SEM_WAITER_LIST,
	LNX_M_SEM_WAITER_TASK,
	LNX_M_SEM_COUNT,
	LNX_M_TASK_BLOCKER,
	LNX_M_TASK_BLOCKED_ON,
	LNX_M_RT_WAITER_NODE,
	LNX_M_RT_WAITER_TASK,
	LNX_M_RT_WAITER_LOCK,
	LNX_M_RT_MUTEX_ROOT,
	LNX_M_RT_MUTEX_OWNER,
	LNX_M_TASK_FILES,
	LNX_M_FILES_TABLE,
	LNX_M_TABLE_MAX,
	LNX_M_TABLE_FILES,
	LNX_M_FILE_INODE,
	LNX_M_FILE_PRIVATE,
	LNX_M_FILE_OPS,
	LNX_M_FILE_MODE,
	LNX_M_OPS_RELEASE,
	LNX_M_INODE_NUMBER,
	LNX_M_INODE_MODE,
	LNX_M_INODE_PIPE,
	LNX_M_PIPE_READERS,
	LNX_M_PIPE_WRITERS,
	LNX_M_SOCKET_QUEUE,
	LNX_M_SOCKET_FILE,
	LNX_M_EPOLL_QUEUE,
	LNX_M_EPOLL_FILE,
	LNX_M_EVENTFD_QUEUE,
	LNX_M_TIMERFD_QUEUE,
	LNX_M_NOTIFY_QUEUE,
	LNX_M_TASK_NSPROXY,
	LNX_M_TASK_PID_LINKS,
	LNX_M_SPACE_PARENT,
	LNX_M_SPACE_PIDS,
	LNX_M_PID_TASKS,
	LNX_M_XA_SHIFT,
	LNX_M_XA_SLOTS,
	LNX_M_LOCK_BLOCKER,
	LNX_M_LOCK_REQUESTS,
	LNX_M_LOCK_MEMBER,
	LNX_M_LOCK_OWNER,
	LNX_M_LOCK_FLAGS,
	LNX_M_LOCK_PID,
	LNX_M_LOCK_WAIT,
	LNX_M_LOCK_FILE,
	LNX_M_INODE_LOCKS,
	LNX_M_LOCKS_FLOCK,
	LNX_M_LOCK_LIST,
	LNX_M_SIGNAL_CHILD_QUEUE,
	LNX_M_PAGE_WAIT_PAGE,
	LNX_M_PAGE_WAIT_BIT,
	LNX_M_PAGE_WAIT_ENTRY,
	LNX_M_PAGE_FLAGS,
	LNX_M_BIT_WAIT_WORD,
	LNX_M_BIT_WAIT_BIT,
	LNX_M_BIT_WAIT_ENTRY,
	LNX_M_FAULT_ADDRESS,
	LNX_M_FAULT_ENTRY,
	LNX_M_FAULT_CONTEXT,
	LNX_M_FAULT_CONTEXT_PENDING,
	LNX_M_FAULT_CONTEXT_TAKEN,
	LNX_M_FAULT_CONTEXT_MM,
	LNX_M_RCU_FUNC,
	LNX_M_RCU_COMPLETION,
	LNX_M_RECEIVER_LIST,
	LNX_M_RECEIVER_TASK,
	LNX_M_SENDER_LIST,
	LNX_M_SENDER_TASK,
	LNX_M_MSG_QUEUE_RECEIVERS,
	LNX_M_MSG_QUEUE_SENDERS,
	LNX_M_MSG_QUEUE_ID,
	LNX_M_SEM_QUEUE_LIST,
	LNX_M_SEM_QUEUE_TASK,
	LNX_M_SET_ID,
	LNX_M_SET_COUNT,
	LNX_M_SET_ALTERING,
	LNX_M_SET_WATCHING,
	LNX_M_SET_LAST,
	LNX_M_SYSV_ALTERING,
	LNX_M_SYSV_WATCHING,
	LNX_M_PT_REGS_SYSCALL,
	LNX_M_TASK_BLOCKED,
	LNX_M_TASK_JOBCTL,
	LNX_M_TASK_KTHREAD,
	LNX_M_KTHREAD_FUNCTION,
	LNX_M_KTHREAD_DATA,
	LNX_M_WORKER_TASK,
	LNX_M_WORKER_WORK,
	LNX_M_WORKER_FLAGS,
	LNX_M_WORKER_RESCUES,
	LNX_M_TIMEOUT_NODE,
	LNX_M_TIMEOUT_EXPIRES,
	LNX_M_TIMEOUT_FUNCTION,
	LNX_M_TIMEOUT_TASK,
	LNX_M_CLOCK_MULT,
	LNX_M_CLOCK_SHIFT,
	LNX_M_BIO_END,
	LNX_M_BIO_PRIVATE,
	LNX_M_BIO_BDEV, /* since 5.12; the two after it are what there was before */
	LNX_M_BIO_DISK,
	LNX_M_BIO_PARTITION,
	LNX_M_BDEV_NUMBER,
	LNX_M_BDEV_DISK,
	LNX_M_DISK_MAJOR,
	LNX_M_DISK_MINOR,
	LNX_M_DISK_NAME,
	LNX_M_TAG_QUEUE,
	LNX_M_TAG_ENTRY,
	LNX_M_TAGS_QUEUES,
	LNX_M_TAGS_QUEUE,
	LNX_M_BUFFER_STATE,
	LNX_M_BUFFER_BDEV,
	LNX_M_BUFFER_SIZE,
	LNX_M_BUFFER_NUMBER,
	LNX_M_PAGE_MAPPING,
	LNX_M_MAPPING_HOST,
	LNX_M_INODE_DATA,
	LNX_M_INODE_SB,
	LNX_M_INODE_DEVICE,
	LNX_M_SB_DEVICE,
	LNX_M_RQ_CLOCK,
	/* the log: log.c needs all of these */
	LNX_M_LOG_COUNT_BITS,
	LNX_M_LOG_DESCS,
	LNX_M_LOG_INFOS,
	LNX_M_LOG_HEAD_ID,
	LNX_M_LOG_TAIL_ID,
	LNX_M_LOG_SIZE_BITS,
	LNX_M_LOG_DATA,
	LNX_M_LOG_DESC_STATE,
	LNX_M_LOG_DESC_BEGIN,
	LNX_M_LOG_DESC_NEXT,
	LNX_M_LOG_INFO_SEQ,
	LNX_M_LOG_INFO_TIME,
	LNX_M_LOG_INFO_LENGTH,
	LNX_M_LOG_INFO_FACILITY,
	LNX_M_LOG_INFO_FLAGS,
	LNX_M_LOG_INFO_CALLER,
	LNX_M_LOG_INFO_DEVICE,
	/* what threads and processes stand in: context.c takes what there is */
	LNX_M_CONTEXT_ON_RQ,
	LNX_M_CONTEXT_VRUNTIME,
	LNX_M_CONTEXT_CFS_RQ,
	LNX_M_CONTEXT_PENDING,
	LNX_M_CONTEXT_CGROUPS,
	LNX_M_SIGNAL_PENDING,
	LNX_M_CSS_SET_CGROUP,
	LNX_M_CGROUP_KN,
	LNX_M_KERNFS_PARENT,
	LNX_M_KERNFS_NAME,
	LNX_M_NSPROXY_UTS, /* in the order of enum lnx_namespace, as are the numbers below */
	LNX_M_NSPROXY_IPC,
	LNX_M_NSPROXY_MNT,
	LNX_M_NSPROXY_PID,
	LNX_M_NSPROXY_NET,
	LNX_M_NSPROXY_TIME,
	LNX_M_NSPROXY_CGROUP,
	LNX_M_UTS_NUMBER,
	LNX_M_IPC_NUMBER,
	LNX_M_MNT_NUMBER,
	LNX_M_PID_NUMBER,
	LNX_M_NET_NUMBER,
	LNX_M_TIME_NUMBER,
	LNX_M_CGROUP_NUMBER,
	LNX_M_MM_ARG_START,
	LNX_M_MM_ARG_END,
	LNX_M_MM_VDSO,
	LNX_M_CONTEXT_DEADLINE,
	LNX_M_CONTEXT_DELAYED,
	LNX_M_CONTEXT_RT_LIST,
	LNX_M_CONTEXT_LOCKS,
	LNX_M_RQ_RT_QUEUES,
	LNX_MEMBERS
};

/* Counters of pages: elements of vm_zone_stat[] or vm_node_stat[], some of which moved between them. */
enum lnx_counter {
	LNX_C_FREE_PAGES,
	LNX_C_ACTIVE_ANON,
	LNX_C_ACTIVE_FILE,
	LNX_C_INACTIVE_ANON,
	LNX_C_INACTIVE_FILE,
	LNX_C_UNEVICTABLE,
	LNX_C_SLAB_UNRECLAIMABLE,
	LNX_C_FILE_PAGES,
	LNX_C_ZSPAGES,
	LNX_COUNTERS
};

/* Per-CPU variables, as offsets from __per_cpu_start. */
enum lnx_percpu {
	LNX_P_ENTRY_TASK,
	LNX_P_RUNQUEUES,
	LNX_P_IRQ_STACK_PTR,
	LNX_P_OVERFLOW_STACK,
	LNX_P_SDEI_NORMAL,
	LNX_P_SDEI_CRITICAL,
	LNX_PERCPUS
};

struct lnx_field {
	bool present;
	uint32_t offset; /* bytes from the start of the structure */
	uint32_t size;
};

/** Which element a counter is. */
struct lnx_element {
	bool present;
	bool of_nodes; /* of vm_node_stat; else of vm_zone_stat */
	uint32_t index;
};

/* More elements than either array has: 43 in 6.1. */
#define LNX_ELEMENTS_MAX 1024

/** The enumerations that name the elements of vm_zone_stat and of vm_node_stat. */
#define LNX_ZONE_ENUM "zone_stat_item"
#define LNX_NODE_ENUM "node_stat_item"
/** A structure that need only be there. */
#define LNX_FRAME_RECORD_META "frame_record_meta"

/** What a member is called: alternatives of the path are separated by '|', the first there is counts. */
struct lnx_member_name {
	const char *in;	  /* structure */
	const char *path; /* "a.b" */
	bool needed;	  /* without it no thread can be shown */
};

struct lnx_member_name lnx_member_name(enum lnx_member m);

/**
 * The next of names that '|' separates: alternatives by version.
 *
 * @param names    the list; what is left of it afterwards
 * @param name_out not terminated
 * @return false: there is none left
 */
bool lnx_next_name(const char **names, const char **name_out, size_t *len_out);

/** Enumerator of a counter: alternatives are separated by '|'. */
const char *lnx_counter_name(enum lnx_counter c);
const char *lnx_percpu_name(enum lnx_percpu p);

struct lnx_types {
	struct lnx_field member[LNX_MEMBERS];
	struct lnx_field percpu[LNX_PERCPUS];
	struct lnx_element counter[LNX_COUNTERS];
	uint32_t task_size;
	uint32_t pt_regs_size;
	bool has_frame_record_meta; /* 6.19 and later: exception frames are marked in the chain */
};

/**
 * Read the layouts out of a BTF blob.
 *
 * @param data, size  a private copy of the blob; hostile
 * @return GS_OK; GS_EMALFORMED: not BTF, or an offset outside of its structure; GS_ENOENT: it lacks
 * a member without which no thread can be shown (named) Origin: Documentation/bpf/btf.rst; member
 * names per version in linux-arm64-guest facts, 5.10 to 7.3.
 */
GS_MUST_USE enum gs_code lnx_types_read(const void *data, size_t size, struct lnx_types *types_out,
					struct gs_error *err);

/**
 * Length of the BTF blob that starts with these bytes, or 0 if none does: the header of vmlinux'
 * BTF has no other form (version 1, types right behind the header, strings right behind the types).
 *
 * @param header 24 bytes
 */
size_t lnx_btf_size(const uint8_t *header);

#define LNX_BTF_HEADER 24

#endif
