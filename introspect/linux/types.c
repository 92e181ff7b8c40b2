/* SPDX-License-Identifier: Apache-2.0 */
/* Structure layouts from the kernel's own BTF. */
#include "introspect/linux/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/util.h"
#include "introspect/linux/layouts.h"

/*
 * Anonymous members nest three deep at most in the kernels looked at; hostile BTF may nest in
 * itself.
 */
#define ANON_DEPTH_MAX 6
/* Steps through typedef, const, volatile … of one member. */
#define CHAIN_MAX 32
/* Members visited for one name: task_struct has some 250. */
#define MEMBER_BUDGET 65536
/* The largest blob seen is 6.6 MB (7.3); the types of the smallest one are over 1 MB. */
#define BTF_TYPES_MIN  (UINT32_C(64) << 10)
#define BTF_SIZE_MAX   (UINT32_C(64) << 20)
#define PERCPU_SECTION ".data..percpu"

/* One place where the names of kernel members stand; order of enum lnx_member. */
static const struct lnx_member_name places[LNX_MEMBERS] = {
	[LNX_M_TASK_STATE] = { "task_struct", "__state|state", true }, /* renamed in 5.14 */
	[LNX_M_TASK_STACK] = { "task_struct", "stack", true },
	[LNX_M_TASK_FLAGS] = { "task_struct", "flags", true },
	[LNX_M_TASK_ON_CPU] = { "task_struct", "on_cpu", false },
	[LNX_M_TASK_CPU] = { "task_struct", "thread_info.cpu|cpu", false }, /* moved in 5.16 */
	[LNX_M_TASK_PRIO] = { "task_struct", "prio", false },
	[LNX_M_TASK_STATIC_PRIO] = { "task_struct", "static_prio", false },
	[LNX_M_TASK_RT_PRIORITY] = { "task_struct", "rt_priority", false },
	[LNX_M_TASK_POLICY] = { "task_struct", "policy", false },
	[LNX_M_TASK_EXEC_START] = { "task_struct", "se.exec_start", false },
	[LNX_M_TASK_SUM_EXEC_RUNTIME] = { "task_struct", "se.sum_exec_runtime", false },
	[LNX_M_TASK_TASKS] = { "task_struct", "tasks", true },
	[LNX_M_TASK_MM] = { "task_struct", "mm", false },
	[LNX_M_TASK_EXIT_STATE] = { "task_struct", "exit_state", true },
	[LNX_M_TASK_PID] = { "task_struct", "pid", true },
	[LNX_M_TASK_TGID] = { "task_struct", "tgid", true },
	[LNX_M_TASK_REAL_PARENT] = { "task_struct", "real_parent", true },
	[LNX_M_TASK_GROUP_LEADER] = { "task_struct", "group_leader", true },
	[LNX_M_TASK_THREAD_NODE] = { "task_struct", "thread_node", true },
	[LNX_M_TASK_UTIME] = { "task_struct", "utime", false },
	[LNX_M_TASK_STIME] = { "task_struct", "stime", false },
	[LNX_M_TASK_NVCSW] = { "task_struct", "nvcsw", false },
	[LNX_M_TASK_NIVCSW] = { "task_struct", "nivcsw", false },
	[LNX_M_TASK_START_TIME] = { "task_struct", "start_time", false },
	[LNX_M_TASK_START_BOOTTIME] = { "task_struct", "start_boottime|real_start_time", false },
	[LNX_M_TASK_MIN_FLT] = { "task_struct", "min_flt", false },
	[LNX_M_TASK_MAJ_FLT] = { "task_struct", "maj_flt", false },
	[LNX_M_TASK_COMM] = { "task_struct", "comm", true },
	[LNX_M_TASK_SIGNAL] = { "task_struct", "signal", true },
	[LNX_M_TASK_CONTEXT_FP] = { "task_struct", "thread.cpu_context.fp", true },
	[LNX_M_TASK_CONTEXT_SP] = { "task_struct", "thread.cpu_context.sp", true },
	[LNX_M_TASK_CONTEXT_PC] = { "task_struct", "thread.cpu_context.pc", true },
	[LNX_M_TASK_RET_STACK] = { "task_struct", "ret_stack", false },
	[LNX_M_TASK_CURR_RET_STACK] = { "task_struct", "curr_ret_stack", false },
	[LNX_M_TASK_KRETPROBES] = { "task_struct", "kretprobe_instances", false }, /* since 5.11 */
	[LNX_M_RET_STACK_RET] = { "ftrace_ret_stack", "ret", false },
	[LNX_M_RET_STACK_FP] = { "ftrace_ret_stack", "fp", false },
	[LNX_M_RET_STACK_RETP] = { "ftrace_ret_stack", "retp", false },
	[LNX_M_FGRAPH_OPS_IDX] = { "fgraph_ops", "idx", false },
	[LNX_M_KRETPROBE_LIST] = { "kretprobe_instance", "llist", false },
	[LNX_M_KRETPROBE_HLIST] = { "kretprobe_instance", "hlist", false }, /* up to 5.10 */
	[LNX_M_KRETPROBE_TASK] = { "kretprobe_instance", "task", false },
	[LNX_M_KRETPROBE_RET_ADDR] = { "kretprobe_instance", "ret_addr", false },
	[LNX_M_KRETPROBE_FP] = { "kretprobe_instance", "fp", false },
	[LNX_M_SIGNAL_THREAD_HEAD] = { "signal_struct", "thread_head", true },
	[LNX_M_PT_REGS_REGS] = { "pt_regs", "regs", true },
	[LNX_M_PT_REGS_PC] = { "pt_regs", "pc", true },
	[LNX_M_PT_REGS_STACKFRAME] = { "pt_regs", "stackframe", true },
	[LNX_M_RQ_IDLE] = { "rq", "idle", false },
	[LNX_M_RQ_CPU] = { "rq", "cpu", false },
	[LNX_M_RQ_CURR] = { "rq", "curr", false },
	[LNX_M_MM_PGD] = { "mm_struct", "pgd", false },
	[LNX_M_MM_CONTEXT_ID] = { "mm_struct", "context.id", false },
	[LNX_M_MODULE_STATE] = { "module", "state", false },
	[LNX_M_MODULE_LIST] = { "module", "list", false },
	[LNX_M_MODULE_NAME] = { "module", "name", false },
	[LNX_M_MODULE_KALLSYMS] = { "module", "kallsyms", false },
	[LNX_M_MODULE_BUILD_ID] = { "module", "build_id", false }, /* since 5.14, if configured */
	[LNX_M_MODULE_MEM] = { "module", "mem", false },
	[LNX_M_MODULE_CORE_BASE] = { "module", "core_layout.base", false },
	[LNX_M_MODULE_CORE_TEXT_SIZE] = { "module", "core_layout.text_size", false },
	[LNX_M_MODULE_INIT_BASE] = { "module", "init_layout.base", false },
	[LNX_M_MODULE_INIT_TEXT_SIZE] = { "module", "init_layout.text_size", false },
	[LNX_M_MODULE_MEMORY_BASE] = { "module_memory", "base", false },
	[LNX_M_MODULE_MEMORY_SIZE] = { "module_memory", "size", false },
	[LNX_M_MOD_KALLSYMS_SYMTAB] = { "mod_kallsyms", "symtab", false },
	[LNX_M_MOD_KALLSYMS_NUM_SYMTAB] = { "mod_kallsyms", "num_symtab", false },
	[LNX_M_MOD_KALLSYMS_STRTAB] = { "mod_kallsyms", "strtab", false },
	[LNX_M_BPF_START] = { "bpf_ksym", "start", false },
	[LNX_M_BPF_END] = { "bpf_ksym", "end", false },
	[LNX_M_BPF_NAME] = { "bpf_ksym", "name", false },
	[LNX_M_BPF_LIST] = { "bpf_ksym", "lnode", false },
	[LNX_M_MUTEX_WAITER_LIST] = { "mutex_waiter", "list", false },
	[LNX_M_MUTEX_WAITER_TASK] = { "mutex_waiter", "task", false },
	[LNX_M_MUTEX_OWNER] = { "mutex", "owner", false },
	[LNX_M_MUTEX_WAIT_LIST] = { "mutex", "wait_list", false }, /* up to 7.0 */
	[LNX_M_RWSEM_WAITER_LIST] = { "rwsem_waiter", "list", false },
	[LNX_M_RWSEM_WAITER_TASK] = { "rwsem_waiter", "task", false },
	[LNX_M_RWSEM_WAITER_TYPE] = { "rwsem_waiter", "type", false },
	[LNX_M_RWSEM_COUNT] = { "rw_semaphore", "count", false },
	[LNX_M_RWSEM_OWNER] = { "rw_semaphore", "owner", false },
	[LNX_M_RWSEM_WAIT_LIST] = { "rw_semaphore", "wait_list", false }, /* up to 7.0 */
	[LNX_M_SWAIT_TASK] = { "swait_queue", "task", false },
	[LNX_M_SWAIT_LIST] = { "swait_queue", "task_list", false },
	[LNX_M_SWAIT_HEAD_LIST] = { "swait_queue_head", "task_list", false },
	[LNX_M_COMPLETION_DONE] = { "completion", "done", false },
	[LNX_M_COMPLETION_WAIT] = { "completion", "wait", false },
	[LNX_M_WAIT_PRIVATE] = { "wait_queue_entry", "private", false },
	[LNX_M_WAIT_FUNC] = { "wait_queue_entry", "func", false },
	[LNX_M_WAIT_ENTRY] = { "wait_queue_entry", "entry", false },
	[LNX_M_WAIT_HEAD_LIST] = { "wait_queue_head", "head", false },
	[LNX_M_POLL_TASK] = { "poll_wqueues", "polling_task", false },
	[LNX_M_POLL_COUNT] = { "poll_wqueues", "inline_index", false },
	[LNX_M_POLL_ENTRIES] = { "poll_wqueues", "inline_entries", false },
	[LNX_M_POLL_WAIT] = { "poll_table_entry", "wait", false },
	[LNX_M_POLL_ADDRESS] = { "poll_table_entry", "wait_address", false },
	[LNX_M_FUTEX_LIST] = { "futex_q", "list.node_list", false },
	[LNX_M_FUTEX_TASK] = { "futex_q", "task", false },
	[LNX_M_FUTEX_LOCK_PTR] = { "futex_q", "lock_ptr", false },
	[LNX_M_FUTEX_KEY_PTR] = { "futex_q", "key.both.ptr", false },
	[LNX_M_FUTEX_KEY_WORD] = { "futex_q", "key.both.word", false },
	[LNX_M_FUTEX_KEY_OFFSET] = { "futex_q", "key.both.offset", false },
	[LNX_M_FUTEX_BUCKET_LOCK] = { "futex_hash_bucket", "lock", false },
	[LNX_M_FUTEX_BUCKET_CHAIN] = { "futex_hash_bucket", "chain.node_list", false },
	[LNX_M_SLEEPER_TASK] = { "hrtimer_sleeper", "task", false },
	[LNX_M_SLEEPER_NODE] = { "hrtimer_sleeper", "timer.node.node", false },
	[LNX_M_SLEEPER_EXPIRES] = { "hrtimer_sleeper", "timer.node.expires", false },
	[LNX_M_SLEEPER_STATE] = { "hrtimer_sleeper", "timer.state|timer.is_queued",
				  false }, /* 7.1 */
	[LNX_M_SLEEPER_BASE] = { "hrtimer_sleeper", "timer.base", false },
	[LNX_M_CLOCK_BASE_ROOT] = { "hrtimer_clock_base", "active.rb_root.rb_root.rb_node", false },
	[LNX_M_MM_MAPLE_ROOT] = { "mm_struct", "mm_mt.ma_root", false }, /* from 6.1 on */
	[LNX_M_MM_RB_ROOT] = { "mm_struct", "mm_rb.rb_node", false },	 /* before */
	[LNX_M_MAPLE_RANGE_PIVOT] = { "maple_range_64", "pivot", false },
	[LNX_M_MAPLE_RANGE_SLOT] = { "maple_range_64", "slot", false },
	[LNX_M_MAPLE_ARANGE_PIVOT] = { "maple_arange_64", "pivot", false },
	[LNX_M_MAPLE_ARANGE_SLOT] = { "maple_arange_64", "slot", false },
	[LNX_M_VMA_START] = { "vm_area_struct", "vm_start", false },
	[LNX_M_VMA_END] = { "vm_area_struct", "vm_end", false },
	[LNX_M_VMA_PGOFF] = { "vm_area_struct", "vm_pgoff", false },
	[LNX_M_VMA_FILE] = { "vm_area_struct", "vm_file", false },
	[LNX_M_VMA_RB] = { "vm_area_struct", "vm_rb", false }, /* before 6.1 */
	[LNX_M_FILE_DENTRY] = { "file", "f_path.dentry", false },
	[LNX_M_DENTRY_PARENT] = { "dentry", "d_parent", false },
	[LNX_M_DENTRY_NAME] = { "dentry", "d_name.name", false },
	[LNX_M_DENTRY_NAME_LEN] = { "dentry", "d_name.len", false },
	[LNX_M_POLL_TABLE] = { "poll_wqueues", "table", false },
	[LNX_M_POLL_FILE] = { "poll_table_entry", "filp", false },
	[LNX_M_FUTEX_PI_STATE] = { "futex_q", "pi_state", false },
	[LNX_M_PI_STATE_MUTEX] = { "futex_pi_state", "pi_mutex", false },
	[LNX_M_PI_STATE_OWNER] = { "futex_pi_state", "owner", false },
	[LNX_M_MUTEX_FIRST] = { "mutex", "first_waiter",
				false }, /* 7.1 and later, as the next two */
	[LNX_M_RWSEM_FIRST] = { "rw_semaphore", "first_waiter", false },
	[LNX_M_SEM_FIRST] = { "semaphore", "first_waiter", false },
	[LNX_M_SEM_WAIT_LIST] = { "semaphore", "wait_list", false }, /* up to 7.0 */
	[LNX_M_SEM_WAITER_LIST] = { "semaphore_waiter", "list", false },
	[LNX_M_SEM_WAITER_TASK] = { "semaphore_waiter", "task", false },
	[LNX_M_SEM_COUNT] = { "semaphore", "count", false },
	[LNX_M_TASK_BLOCKER] = { "task_struct", "blocker", false }, /* since 6.16, if configured */
	[LNX_M_TASK_BLOCKED_ON] = { "task_struct", "blocked_on", false }, /* since 6.17 */
	[LNX_M_RT_WAITER_NODE] = { "rt_mutex_waiter", "tree.entry|tree_entry",
				   false }, /* renamed in 6.6 */
	[LNX_M_RT_WAITER_TASK] = { "rt_mutex_waiter", "task", false },
	[LNX_M_RT_WAITER_LOCK] = { "rt_mutex_waiter", "lock", false },
	[LNX_M_RT_MUTEX_ROOT] = { "rt_mutex",
				  "rtmutex.waiters.rb_root.rb_node|waiters.rb_root.rb_node",
				  false }, /* 5.15 */
	[LNX_M_RT_MUTEX_OWNER] = { "rt_mutex", "rtmutex.owner|owner", false },
	[LNX_M_TASK_FILES] = { "task_struct", "files", false },
	[LNX_M_FILES_TABLE] = { "files_struct", "fdt", false },
	[LNX_M_TABLE_MAX] = { "fdtable", "max_fds", false },
	[LNX_M_TABLE_FILES] = { "fdtable", "fd", false },
	[LNX_M_FILE_INODE] = { "file", "f_inode", false },
	[LNX_M_FILE_PRIVATE] = { "file", "private_data", false },
	[LNX_M_FILE_OPS] = { "file", "f_op", false },
	[LNX_M_FILE_MODE] = { "file", "f_mode", false },
	[LNX_M_OPS_RELEASE] = { "file_operations", "release", false },
	[LNX_M_INODE_NUMBER] = { "inode", "i_ino", false },
	[LNX_M_INODE_MODE] = { "inode", "i_mode", false },
	[LNX_M_INODE_PIPE] = { "inode", "i_pipe", false },
	[LNX_M_PIPE_READERS] = { "pipe_inode_info", "rd_wait", false },
	[LNX_M_PIPE_WRITERS] = { "pipe_inode_info", "wr_wait", false },
	[LNX_M_SOCKET_QUEUE] = { "socket", "wq.wait", false },
	[LNX_M_SOCKET_FILE] = { "socket", "file", false },
	[LNX_M_EPOLL_QUEUE] = { "eventpoll", "wq", false },
	[LNX_M_EPOLL_FILE] = { "eventpoll", "file", false },
	[LNX_M_EVENTFD_QUEUE] = { "eventfd_ctx", "wqh", false },
	[LNX_M_TIMERFD_QUEUE] = { "timerfd_ctx", "wqh", false },
	[LNX_M_NOTIFY_QUEUE] = { "fsnotify_group", "notification_waitq", false },
	[LNX_M_TASK_NSPROXY] = { "task_struct", "nsproxy", false },
	[LNX_M_TASK_PID_LINKS] = { "task_struct", "pid_links", false },
	[LNX_M_SPACE_PARENT] = { "pid_namespace", "parent", false },
	[LNX_M_SPACE_PIDS] = { "pid_namespace", "idr.idr_rt.xa_head", false },
	[LNX_M_PID_TASKS] = { "pid", "tasks", false },
	[LNX_M_XA_SHIFT] = { "xa_node", "shift", false },
	[LNX_M_XA_SLOTS] = { "xa_node", "slots", false },
	[LNX_M_LOCK_BLOCKER] = { "file_lock", "c.flc_blocker|fl_blocker",
				 false }, /* moved in 6.9, as the next ones */
	[LNX_M_LOCK_REQUESTS] = { "file_lock", "c.flc_blocked_requests|fl_blocked_requests",
				  false },
	[LNX_M_LOCK_MEMBER] = { "file_lock", "c.flc_blocked_member|fl_blocked_member", false },
	[LNX_M_LOCK_OWNER] = { "file_lock", "c.flc_owner|fl_owner", false },
	[LNX_M_LOCK_FLAGS] = { "file_lock", "c.flc_flags|fl_flags", false },
	[LNX_M_LOCK_PID] = { "file_lock", "c.flc_pid|fl_pid", false },
	[LNX_M_LOCK_WAIT] = { "file_lock", "c.flc_wait|fl_wait", false },
	[LNX_M_LOCK_FILE] = { "file_lock", "c.flc_file|fl_file", false },
	[LNX_M_INODE_LOCKS] = { "inode", "i_flctx", false },
	[LNX_M_LOCKS_FLOCK] = { "file_lock_context", "flc_flock", false },
	[LNX_M_LOCK_LIST] = { "file_lock", "c.flc_list|fl_list", false },
	[LNX_M_SIGNAL_CHILD_QUEUE] = { "signal_struct", "wait_chldexit", false },
	[LNX_M_PAGE_WAIT_PAGE] = { "wait_page_queue", "folio|page", false },
	[LNX_M_PAGE_WAIT_BIT] = { "wait_page_queue", "bit_nr", false },
	[LNX_M_PAGE_WAIT_ENTRY] = { "wait_page_queue", "wait", false },
	[LNX_M_PAGE_FLAGS] = { "page", "flags", false },
	[LNX_M_BIT_WAIT_WORD] = { "wait_bit_queue_entry", "key.flags", false },
	[LNX_M_BIT_WAIT_BIT] = { "wait_bit_queue_entry", "key.bit_nr", false },
	[LNX_M_BIT_WAIT_ENTRY] = { "wait_bit_queue_entry", "wq_entry", false },
	[LNX_M_FAULT_ADDRESS] = { "userfaultfd_wait_queue", "msg.arg.pagefault.address", false },
	[LNX_M_FAULT_ENTRY] = { "userfaultfd_wait_queue", "wq", false },
	[LNX_M_FAULT_CONTEXT] = { "userfaultfd_wait_queue", "ctx", false },
	[LNX_M_FAULT_CONTEXT_PENDING] = { "userfaultfd_ctx", "fault_pending_wqh", false },
	[LNX_M_FAULT_CONTEXT_TAKEN] = { "userfaultfd_ctx", "fault_wqh", false },
	[LNX_M_FAULT_CONTEXT_MM] = { "userfaultfd_ctx", "mm", false },
	[LNX_M_RCU_FUNC] = { "rcu_synchronize", "head.func", false },
	[LNX_M_RCU_COMPLETION] = { "rcu_synchronize", "completion", false },
	[LNX_M_RECEIVER_LIST] = { "msg_receiver", "r_list", false },
	[LNX_M_RECEIVER_TASK] = { "msg_receiver", "r_tsk", false },
	[LNX_M_SENDER_LIST] = { "msg_sender", "list", false },
	[LNX_M_SENDER_TASK] = { "msg_sender", "tsk", false },
	[LNX_M_MSG_QUEUE_RECEIVERS] = { "msg_queue", "q_receivers", false },
	[LNX_M_MSG_QUEUE_SENDERS] = { "msg_queue", "q_senders", false },
	[LNX_M_MSG_QUEUE_ID] = { "msg_queue", "q_perm.id", false },
	[LNX_M_SEM_QUEUE_LIST] = { "sem_queue", "list", false },
	[LNX_M_SEM_QUEUE_TASK] = { "sem_queue", "sleeper", false },
	[LNX_M_SET_ID] = { "sem_array", "sem_perm.id", false },
	[LNX_M_SET_COUNT] = { "sem_array", "sem_nsems", false },
	[LNX_M_SET_ALTERING] = { "sem_array", "pending_alter", false },
	[LNX_M_SET_WATCHING] = { "sem_array", "pending_const", false },
	[LNX_M_SET_LAST] = { "sem_array", "use_global_lock", false },
	[LNX_M_SYSV_ALTERING] = { "sem", "pending_alter", false },
	[LNX_M_SYSV_WATCHING] = { "sem", "pending_const", false },
	[LNX_M_PT_REGS_SYSCALL] = { "pt_regs", "syscallno", false },
	[LNX_M_TASK_BLOCKED] = { "task_struct", "blocked", false },
	[LNX_M_TASK_JOBCTL] = { "task_struct", "jobctl", false },
	[LNX_M_TASK_KTHREAD] = { "task_struct", "worker_private|set_child_tid",
				 false }, /* moved in 5.17 */
	[LNX_M_KTHREAD_FUNCTION] = { "kthread", "threadfn", false },
	[LNX_M_KTHREAD_DATA] = { "kthread", "data", false },
	[LNX_M_WORKER_TASK] = { "worker", "task", false },
	[LNX_M_WORKER_WORK] = { "worker", "current_work", false },
	[LNX_M_WORKER_FLAGS] = { "worker", "flags", false },
	[LNX_M_WORKER_RESCUES] = { "worker", "rescue_wq", false },
	[LNX_M_TIMEOUT_NODE] = { "process_timer", "timer.entry", false },
	[LNX_M_TIMEOUT_EXPIRES] = { "process_timer", "timer.expires", false },
	[LNX_M_TIMEOUT_FUNCTION] = { "process_timer", "timer.function", false },
	[LNX_M_TIMEOUT_TASK] = { "process_timer", "task", false },
	[LNX_M_CLOCK_MULT] = { "clocksource", "mult", false },
	[LNX_M_CLOCK_SHIFT] = { "clocksource", "shift", false },
	[LNX_M_BIO_END] = { "bio", "bi_end_io", false },
	[LNX_M_BIO_PRIVATE] = { "bio", "bi_private", false },
	[LNX_M_BIO_BDEV] = { "bio", "bi_bdev", false },
	[LNX_M_BIO_DISK] = { "bio", "bi_disk", false },
	[LNX_M_BIO_PARTITION] = { "bio", "bi_partno", false },
	[LNX_M_BDEV_NUMBER] = { "block_device", "bd_dev", false },
	[LNX_M_BDEV_DISK] = { "block_device", "bd_disk", false },
	[LNX_M_DISK_MAJOR] = { "gendisk", "major", false },
	[LNX_M_DISK_MINOR] = { "gendisk", "first_minor", false },
	[LNX_M_DISK_NAME] = { "gendisk", "disk_name", false },
	[LNX_M_TAG_QUEUE] = { "sbq_wait", "sbq", false },
	[LNX_M_TAG_ENTRY] = { "sbq_wait", "wait", false },
	[LNX_M_TAGS_QUEUES] = { "sbitmap_queue", "ws", false },
	[LNX_M_TAGS_QUEUE] = { "sbq_wait_state", "wait", false },
	[LNX_M_BUFFER_STATE] = { "buffer_head", "b_state", false },
	[LNX_M_BUFFER_BDEV] = { "buffer_head", "b_bdev", false },
	[LNX_M_BUFFER_SIZE] = { "buffer_head", "b_size", false },
	[LNX_M_BUFFER_NUMBER] = { "buffer_head", "b_blocknr", false },
	[LNX_M_PAGE_MAPPING] = { "page", "mapping", false },
	[LNX_M_MAPPING_HOST] = { "address_space", "host", false },
	[LNX_M_INODE_DATA] = { "inode", "i_data", false },
	[LNX_M_INODE_SB] = { "inode", "i_sb", false },
	[LNX_M_INODE_DEVICE] = { "inode", "i_rdev", false },
	[LNX_M_SB_DEVICE] = { "super_block", "s_dev", false },
	[LNX_M_RQ_CLOCK] = { "rq", "clock", false },
	[LNX_M_LOG_COUNT_BITS] = { "printk_ringbuffer", "desc_ring.count_bits", false },
	[LNX_M_LOG_DESCS] = { "printk_ringbuffer", "desc_ring.descs", false },
	[LNX_M_LOG_INFOS] = { "printk_ringbuffer", "desc_ring.infos", false },
	[LNX_M_LOG_HEAD_ID] = { "printk_ringbuffer", "desc_ring.head_id", false },
	[LNX_M_LOG_TAIL_ID] = { "printk_ringbuffer", "desc_ring.tail_id", false },
	[LNX_M_LOG_SIZE_BITS] = { "printk_ringbuffer", "text_data_ring.size_bits", false },
	[LNX_M_LOG_DATA] = { "printk_ringbuffer", "text_data_ring.data", false },
	[LNX_M_LOG_DESC_STATE] = { "prb_desc", "state_var", false },
	[LNX_M_LOG_DESC_BEGIN] = { "prb_desc", "text_blk_lpos.begin", false },
	[LNX_M_LOG_DESC_NEXT] = { "prb_desc", "text_blk_lpos.next", false },
	[LNX_M_LOG_INFO_SEQ] = { "printk_info", "seq", false },
	[LNX_M_LOG_INFO_TIME] = { "printk_info", "ts_nsec", false },
	[LNX_M_LOG_INFO_LENGTH] = { "printk_info", "text_len", false },
	[LNX_M_LOG_INFO_FACILITY] = { "printk_info", "facility", false },
	[LNX_M_LOG_INFO_FLAGS] = { "printk_info", "flags", false },
	[LNX_M_LOG_INFO_CALLER] = { "printk_info", "caller_id", false },
	[LNX_M_LOG_INFO_DEVICE] = { "printk_info", "dev_info", false },
	[LNX_M_CONTEXT_ON_RQ] = { "task_struct", "on_rq", false },
	[LNX_M_CONTEXT_VRUNTIME] = { "task_struct", "se.vruntime", false },
	[LNX_M_CONTEXT_CFS_RQ] = { "task_struct", "se.cfs_rq", false },
	[LNX_M_CONTEXT_PENDING] = { "task_struct", "pending.signal", false },
	[LNX_M_CONTEXT_CGROUPS] = { "task_struct", "cgroups", false },
	[LNX_M_SIGNAL_PENDING] = { "signal_struct", "shared_pending.signal", false },
	[LNX_M_CSS_SET_CGROUP] = { "css_set", "dfl_cgrp", false },
	[LNX_M_CGROUP_KN] = { "cgroup", "kn", false },
	[LNX_M_KERNFS_PARENT] = { "kernfs_node", "__parent|parent", false }, /* renamed in 6.15 */
	[LNX_M_KERNFS_NAME] = { "kernfs_node", "name", false },
	[LNX_M_NSPROXY_UTS] = { "nsproxy", "uts_ns", false },
	[LNX_M_NSPROXY_IPC] = { "nsproxy", "ipc_ns", false },
	[LNX_M_NSPROXY_MNT] = { "nsproxy", "mnt_ns", false },
	[LNX_M_NSPROXY_PID] = { "nsproxy", "pid_ns_for_children", false },
	[LNX_M_NSPROXY_NET] = { "nsproxy", "net_ns", false },
	[LNX_M_NSPROXY_TIME] = { "nsproxy", "time_ns", false },
	[LNX_M_NSPROXY_CGROUP] = { "nsproxy", "cgroup_ns", false },
	[LNX_M_UTS_NUMBER] = { "uts_namespace", "ns.inum", false },
	[LNX_M_IPC_NUMBER] = { "ipc_namespace", "ns.inum", false },
	[LNX_M_MNT_NUMBER] = { "mnt_namespace", "ns.inum", false },
	[LNX_M_PID_NUMBER] = { "pid_namespace", "ns.inum", false },
	[LNX_M_NET_NUMBER] = { "net", "ns.inum", false },
	[LNX_M_TIME_NUMBER] = { "time_namespace", "ns.inum", false },
	[LNX_M_CGROUP_NUMBER] = { "cgroup_namespace", "ns.inum", false },
	[LNX_M_MM_ARG_START] = { "mm_struct", "arg_start", false },
	[LNX_M_MM_ARG_END] = { "mm_struct", "arg_end", false },
	[LNX_M_CONTEXT_DEADLINE] = { "task_struct", "se.deadline", false },	/* since 6.6 */
	[LNX_M_CONTEXT_DELAYED] = { "task_struct", "se.sched_delayed", false }, /* since 6.12 */
	[LNX_M_CONTEXT_RT_LIST] = { "task_struct", "rt.run_list", false },
	[LNX_M_CONTEXT_LOCKS] = { "task_struct", "lockdep_depth", false }, /* with CONFIG_LOCKDEP */
	[LNX_M_RQ_RT_QUEUES] = { "rq", "rt.active.queue", false },
	[LNX_M_MM_VDSO] = { "mm_struct", "context.vdso", false },
};

static const char *const counters[LNX_COUNTERS] = {
	[LNX_C_FREE_PAGES] = "NR_FREE_PAGES",
	[LNX_C_ACTIVE_ANON] = "NR_ACTIVE_ANON",
	[LNX_C_ACTIVE_FILE] = "NR_ACTIVE_FILE",
	[LNX_C_INACTIVE_ANON] = "NR_INACTIVE_ANON",
	[LNX_C_INACTIVE_FILE] = "NR_INACTIVE_FILE",
	[LNX_C_UNEVICTABLE] = "NR_UNEVICTABLE",
	[LNX_C_SLAB_UNRECLAIMABLE] =
		"NR_SLAB_UNRECLAIMABLE_B|NR_SLAB_UNRECLAIMABLE", /* renamed in 5.9 */
	[LNX_C_FILE_PAGES] = "NR_FILE_PAGES",
	[LNX_C_ZSPAGES] = "NR_ZSPAGES", /* with CONFIG_ZSMALLOC */
};

static const char *const percpu_names[LNX_PERCPUS] = {
	[LNX_P_ENTRY_TASK] = "__entry_task",
	[LNX_P_RUNQUEUES] = "runqueues",
	[LNX_P_IRQ_STACK_PTR] = "irq_stack_ptr",
	[LNX_P_OVERFLOW_STACK] = "overflow_stack",
	[LNX_P_SDEI_NORMAL] = "sdei_stack_normal_ptr", /* with CONFIG_ARM_SDE_INTERFACE */
	[LNX_P_SDEI_CRITICAL] = "sdei_stack_critical_ptr",
};

struct lnx_member_name lnx_member_name(enum lnx_member m)
{
	return places[m];
}

bool lnx_next_name(const char **names, const char **name_out, size_t *len_out)
{
	if (!**names)
		return false;
	*name_out = *names;
	*len_out = strcspn(*names, "|");
	*names += *len_out + ((*names)[*len_out] == '|');
	return true;
}

const char *lnx_counter_name(enum lnx_counter c)
{
	return counters[c];
}

const char *lnx_percpu_name(enum lnx_percpu p)
{
	return percpu_names[p];
}

size_t lnx_btf_size(const uint8_t *h)
{
	uint32_t hdr_len = gs_get_u32(h + 4), type_off = gs_get_u32(h + 8),
		 type_len = gs_get_u32(h + 12);
	uint32_t str_off = gs_get_u32(h + 16), str_len = gs_get_u32(h + 20);

	if (h[0] != 0x9f || h[1] != 0xeb || h[2] != 1 || h[3] != 0)
		return 0;
	if (hdr_len != LNX_BTF_HEADER || type_off != 0 || str_off != type_len)
		return 0;
	if (type_len < BTF_TYPES_MIN || type_len > BTF_SIZE_MAX || str_len == 0 ||
	    str_len > BTF_SIZE_MAX)
		return 0;
	return (size_t)hdr_len + type_len + str_len;
}

/* Follow names and qualifiers to what a member really is; NULL for a broken chain. */
static const struct btf_type *resolve(const struct btf *btf, uint32_t id)
{
	for (int i = 0; i < CHAIN_MAX; i++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!t)
			return NULL;
		switch (btf_kind(t)) {
		case BTF_KIND_TYPEDEF:
		case BTF_KIND_CONST:
		case BTF_KIND_VOLATILE:
		case BTF_KIND_RESTRICT:
		case BTF_KIND_TYPE_TAG: id = t->type; break;
		default: return t;
		}
	}
	return NULL;
}

static uint64_t type_size(const struct btf *btf, const struct btf_type *t)
{
	uint64_t count = 1;

	for (int i = 0; t && i < CHAIN_MAX; i++) {
		switch (btf_kind(t)) {
		case BTF_KIND_INT:
		case BTF_KIND_ENUM:
		case BTF_KIND_ENUM64:
		case BTF_KIND_FLOAT:
		case BTF_KIND_STRUCT:
		case BTF_KIND_UNION: return gs_mul(count, t->size, &count) ? count : 0;
		case BTF_KIND_PTR: return gs_mul(count, 8u, &count) ? count : 0;
		case BTF_KIND_ARRAY:
			if (!gs_mul(count, btf_array(t)->nelems, &count))
				return 0;
			t = resolve(btf, btf_array(t)->type);
			break;
		default: return 0;
		}
	}
	return 0;
}

/* A place still to look into: an anonymous structure or union at a bit offset. */
struct pending {
	const struct btf_type *type;
	uint64_t bit;
	int depth;
};

#define PENDING_MAX 32

/* The member called @p name of @p type, also inside of its anonymous members. */
static const struct btf_type *find_member(const struct btf *btf, const struct btf_type *type,
					  const char *name, size_t len, uint64_t *bit_out)
{
	struct pending stack[PENDING_MAX] = { { type, 0, 0 } };
	int depth = 1, budget = MEMBER_BUDGET;

	while (depth) {
		struct pending p = stack[--depth];

		for (uint32_t i = 0; i < btf_vlen(p.type); i++) {
			const struct btf_member *m = &btf_members(p.type)[i];
			const char *have = btf__name_by_offset(btf, m->name_off);
			uint64_t bit = p.bit + btf_member_bit_offset(p.type, i);

			if (--budget < 0)
				return NULL;
			if (have && strlen(have) == len && memcmp(have, name, len) == 0) {
				*bit_out = bit;
				return resolve(btf, m->type);
			}
			if (have && *have)
				continue;
			const struct btf_type *inner = resolve(btf, m->type);
			if (inner && btf_is_composite(inner) && depth < PENDING_MAX &&
			    p.depth < ANON_DEPTH_MAX)
				stack[depth++] = (struct pending){ inner, bit, p.depth + 1 };
		}
	}
	return NULL;
}

/* One "a.b.c" path of @p len characters. */
static bool find_path(const struct btf *btf, const struct btf_type *type, const char *path,
		      size_t len, struct lnx_field *field_out)
{
	uint64_t bits = 0, whole = type->size;

	while (len) {
		const char *dot = memchr(path, '.', len);
		size_t part = dot ? (size_t)(dot - path) : len;
		uint64_t bit;

		if (!type || !btf_is_composite(type))
			return false;
		type = find_member(btf, type, path, part, &bit);
		if (!type)
			return false;
		bits += bit;
		path += dot ? part + 1 : part;
		len -= dot ? part + 1 : part;
	}

	uint64_t size = type_size(btf, type);
	if (bits % 8 || !size || !gs_in_range(bits / 8, size, 0, whole))
		return false;
	*field_out = (struct lnx_field){ true, (uint32_t)(bits / 8), (uint32_t)size };
	return true;
}

/* A type that is asked for. */
struct btf_wanted {
	const char *name;
	uint32_t kind;
	const struct btf_type *type; /* NULL: there is none of that name */
};

/* BTF, and where in it is what is asked for: libbpf would compare the names of all types, each time. */
struct btf_layouts {
	struct btf *btf;
	struct btf_wanted wanted[LNX_MEMBERS + 4]; /* structures of members, and the others */
	uint32_t count;
};

static struct btf_wanted *wanted_of(struct btf_layouts *b, const char *name, uint32_t kind)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (b->wanted[i].kind == kind && !strcmp(b->wanted[i].name, name))
			return &b->wanted[i];
	return NULL;
}

static void want(struct btf_layouts *b, const char *name, uint32_t kind)
{
	if (!wanted_of(b, name, kind))
		b->wanted[b->count++] = (struct btf_wanted){ name, kind, NULL };
}

static void find_types(struct btf_layouts *b)
{
	for (size_t m = 0; m < LNX_MEMBERS; m++)
		want(b, places[m].in, BTF_KIND_STRUCT);
	want(b, LNX_FRAME_RECORD_META, BTF_KIND_STRUCT);
	want(b, PERCPU_SECTION, BTF_KIND_DATASEC);
	want(b, LNX_ZONE_ENUM, BTF_KIND_ENUM);
	want(b, LNX_NODE_ENUM, BTF_KIND_ENUM);
	for (uint32_t id = 1; id < btf__type_cnt(b->btf); id++) {
		const struct btf_type *t = btf__type_by_id(b->btf, id);
		const uint32_t kind = t ? btf_kind(t) : BTF_KIND_UNKN;

		if (kind != BTF_KIND_STRUCT && kind != BTF_KIND_ENUM && kind != BTF_KIND_DATASEC)
			continue;
		const char *name = btf__name_by_offset(b->btf, t->name_off);
		struct btf_wanted *w = name && *name ? wanted_of(b, name, kind) : NULL;
		if (w && !w->type)
			w->type = t; /* the first of several, as libbpf has it */
	}
}

static const struct btf_type *find_type(struct btf_layouts *b, const char *name, uint32_t kind)
{
	const struct btf_wanted *w = wanted_of(b, name, kind);

	return w ? w->type : NULL;
}

static bool btf_size_of(void *priv, const char *in, uint32_t *size_out)
{
	const struct btf_type *type = find_type(priv, in, BTF_KIND_STRUCT);

	if (type)
		*size_out = type->size;
	return type != NULL;
}

static bool btf_member_of(void *priv, const char *in, const char *path, struct lnx_field *field_out)
{
	struct btf_layouts *b = priv;
	const struct btf_type *type = find_type(b, in, BTF_KIND_STRUCT);

	return type && find_path(b->btf, type, path, strlen(path), field_out);
}

/* The per-CPU section is the only one in the kernel's BTF, and absent before 5.11 or so. */
static bool btf_percpu_of(void *priv, const char *wanted, struct lnx_field *field_out)
{
	struct btf_layouts *b = priv;
	const struct btf_type *sec = find_type(b, PERCPU_SECTION, BTF_KIND_DATASEC);

	for (uint32_t i = 0; sec && i < btf_vlen(sec); i++) {
		const struct btf_var_secinfo *info = &btf_var_secinfos(sec)[i];
		const struct btf_type *var = btf__type_by_id(b->btf, info->type);
		const char *name = var ? btf__name_by_offset(b->btf, var->name_off) : NULL;

		if (name && strcmp(name, wanted) == 0) {
			*field_out = (struct lnx_field){ true, info->offset, info->size };
			return true;
		}
	}
	return false;
}

static bool btf_enumerator_of(void *priv, const char *in, const char *wanted, uint32_t *value_out)
{
	struct btf_layouts *b = priv;
	const struct btf_type *type = find_type(b, in, BTF_KIND_ENUM);

	for (uint32_t i = 0; type && i < btf_vlen(type); i++) {
		const struct btf_enum *e = &btf_enum(type)[i];
		const char *name = btf__name_by_offset(b->btf, e->name_off);

		if (!name || strcmp(name, wanted) != 0 || e->val < 0 || e->val >= LNX_ELEMENTS_MAX)
			continue;
		*value_out = (uint32_t)e->val;
		return true;
	}
	return false;
}

static void btf_close(void *priv)
{
	struct btf_layouts *b = priv;

	btf__free(b->btf);
	free(b);
}

static int be_silent(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

enum gs_code lnx_btf_open(const void *blob, size_t size, struct btf **btf_out, struct gs_error *err)
{
	if (size > 2 * (size_t)BTF_SIZE_MAX + LNX_BTF_HEADER)
		return gs_fail(err, GS_ETOOBIG, "type information of %zu bytes", size);
	libbpf_set_print(be_silent);
	*btf_out = btf__new(blob, (uint32_t)size);
	if (!*btf_out)
		return gs_fail(err, GS_EMALFORMED, "the kernel's type information is broken");
	return GS_OK;
}

enum gs_code lnx_layouts_open_btf(const void *blob, size_t size, struct lnx_layouts *layouts_out,
				  struct gs_error *err)
{
	static const struct lnx_layouts_ops ops = {
		.size = btf_size_of,
		.member = btf_member_of,
		.percpu = btf_percpu_of,
		.enumerator = btf_enumerator_of,
		.close = btf_close,
	};

	struct btf_layouts *b = calloc(1, sizeof(*b));
	if (!b)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = lnx_btf_open(blob, size, &b->btf, err);
	if (rc) {
		free(b);
		return rc;
	}
	find_types(b);
	layouts_out->priv = b;
	layouts_out->ops = &ops;
	return GS_OK;
}

enum gs_code lnx_types_read(const void *data, size_t size, struct lnx_types *types_out,
			    struct gs_error *err)
{
	struct lnx_layouts l = { 0 };
	enum gs_code rc = lnx_layouts_open_btf(data, size, &l, err);

	if (!rc)
		rc = lnx_layouts_read(&l, types_out, err);
	lnx_layouts_close(&l);
	return rc;
}
