/* SPDX-License-Identifier: Apache-2.0 */
/* What a process and a thread stand in: control group, namespaces, run queue, signals, command line. */
#ifndef INTROSPECT_LINUX_CONTEXT_H
#define INTROSPECT_LINUX_CONTEXT_H

/*
 * Threads: any, each with its own view. Nothing is allocated; legal while the guest is stopped.
 */

#include "introspect/linux/linux.h"

/** Namespaces, by what /proc/PID/ns calls them; the pid one is that of children (pid_for_children). */
enum lnx_namespace {
	LNX_NS_UTS,
	LNX_NS_IPC,
	LNX_NS_MNT,
	LNX_NS_PID,
	LNX_NS_NET,
	LNX_NS_TIME,
	LNX_NS_CGROUP,
	LNX_NAMESPACES
};

const char *lnx_namespace_name(enum lnx_namespace n);

enum lnx_process_known {
	LNX_PROCESS_CGROUP = 1u << 0,
	LNX_PROCESS_PENDING = 1u << 1,
	LNX_PROCESS_COMMAND = 1u << 2,
	LNX_PROCESS_NAMESPACE = 1u << 8, /* of LNX_NS_UTS; the others' bits follow */
};

#define LNX_CGROUP_PATH 192
#define LNX_COMMAND	192

/** What is not known is 0. */
struct lnx_process_context {
	uint32_t known;			    /* enum lnx_process_known */
	uint32_t namespace[LNX_NAMESPACES]; /* inode numbers */
	uint64_t pending; /* signals for the process as a whole: bit n is signal n + 1 */
	char cgroup
		[LNX_CGROUP_PATH]; /* of cgroup 2, terminated; cut at the beginning, then without '/' */
	char command
		[LNX_COMMAND]; /* arguments, each terminated, the last one maybe cut; then zeros */
};

/**
 * Read what there is of a process.
 *
 * @param leader  its first thread
 * @param mm      its address space; 0: it has none
 * @param regs    of @p n vCPUs: the form of user addresses
 * Origin: css_set.dfl_cgrp and kernfs_node (fs/kernfs/dir.c), nsproxy and ns_common, 5.10 to 7.3.
 */
void lnx_process_context_read(struct lnx_view *v, const struct lnx_task *leader, gva_t mm,
			      const struct guest_vcpu_regs *regs, uint32_t n,
			      struct lnx_process_context *context_out);

enum lnx_thread_known {
	LNX_THREAD_QUEUE = 1u << 0,
	LNX_THREAD_SIGNALS = 1u << 1,
	LNX_THREAD_DEADLINE =
		1u << 2, /* queues of the fair class are ordered by it, else by vruntime */
	LNX_THREAD_LOCKS = 1u << 3,
};

/* Those in front of a thread in the queue of its priority that are looked at. */
#define LNX_RT_PLACE_MAX 64

/* Priorities of real time are below it, of the fair class from it on (include/linux/sched/prio.h). */
#define LNX_RT_PRIORITIES 100

/** What is not known is 0. */
struct lnx_thread_context {
	uint32_t known; /* enum lnx_thread_known */
	uint32_t on_rq; /* 0: not on its CPU's run queue; 1: it is; 2: on its way to another */
	uint64_t vruntime,
		cfs_rq; /* of the fair class: where it stands, in which queue (an address) */
	uint64_t pending, blocked; /* signals: bit n is signal n + 1 */
	uint64_t deadline;	   /* virtual, of the fair class */
	/*
	 * Of a real-time thread on its run queue: from 1, its place among those of its priority. 0: not known,
	 * or behind more than LNX_RT_PLACE_MAX.
	 */
	uint32_t rt_place;
	uint32_t delayed; /* 1: it sleeps, and is on the queue for its lag in CPU time alone */
	uint32_t locks;	  /* held, as lockdep counts them */
};

/**
 * Origin: sched_entity and sched_rt_entity (include/linux/sched.h), rt_prio_array (kernel/sched/sched.h): a
 * list for each priority, first come, first served. 5.10 to 7.3; deadline since 6.6, sched_delayed since 6.12.
 */
void lnx_thread_context_read(struct lnx_view *v, const struct lnx_task *task,
			     struct lnx_thread_context *context_out);

#endif
