/* SPDX-License-Identifier: Apache-2.0 */
/* What a process and a thread stand in. */
#include "introspect/linux/context.h"

#include <string.h>

#include "introspect/linux/kernel.h"

/* Control groups below each other: cgroup.max.depth has no limit of its own, a path of 4 KiB has. */
#define CGROUPS_DEEP 64
#define NAME_MAX_LEN 256 /* NAME_MAX + 1 */
/* Above any user address (52 bits), and far below where adding a few bytes would wrap. */
#define USER_END   (UINT64_C(1) << 52)
#define PAGE_PIECE UINT64_C(4096)

static const char *const names[LNX_NAMESPACES] = {
	[LNX_NS_UTS] = "uts",	    [LNX_NS_IPC] = "ipc", [LNX_NS_MNT] = "mnt",
	[LNX_NS_PID] = "pid",	    [LNX_NS_NET] = "net", [LNX_NS_TIME] = "time",
	[LNX_NS_CGROUP] = "cgroup",
};

const char *lnx_namespace_name(enum lnx_namespace n)
{
	return n < LNX_NAMESPACES ? names[n] : "unknown";
}

/* A word of an object. */
static bool read_word(struct lnx_view *v, gva_t object, enum lnx_member m, uint64_t *value_out)
{
	return lnx_has(v->k, m, 8) && !lnx_read_u64(v, lnx_member_of(v->k, object, m), value_out);
}

/* ... that leads to another one. */
static bool follow(struct lnx_view *v, gva_t object, enum lnx_member m, gva_t *to_out)
{
	return read_word(v, object, m, &to_out->a) && lnx_is_object(v->k, to_out->a);
}

/* --- control group --- */

/*
 * The names of a node and of those above it, from the end of the buffer on. One without a parent is the
 * root, which has no name.
 *
 * @return where the path begins; 0: it could not be read
 */
static size_t collect_path(struct lnx_view *v, gva_t node, char path[static LNX_CGROUP_PATH])
{
	size_t at = LNX_CGROUP_PATH - 1;
	uint64_t parent, name_at;
	char name[NAME_MAX_LEN];

	path[at] = '\0';
	for (int i = 0; i < CGROUPS_DEEP; i++) {
		if (!read_word(v, node, LNX_M_KERNFS_PARENT, &parent))
			return 0;
		if (!parent)
			return at;
		if (!lnx_is_object(v->k, parent) ||
		    !read_word(v, node, LNX_M_KERNFS_NAME, &name_at) ||
		    lnx_read_string(v, GVA(name_at), name, sizeof(name)))
			return 0;
		const size_t len = strlen(name), fits = gs_min(len, at - 1);

		at -= fits;
		memcpy(path + at, name + (len - fits), fits);
		if (fits < len || at == 1)
			return at;
		path[--at] = '/';
		node = GVA(parent);
	}
	return 0;
}

static void read_cgroup(struct lnx_view *v, const struct lnx_task *leader,
			struct lnx_process_context *c)
{
	char path[LNX_CGROUP_PATH];
	gva_t set, cgroup, node;

	if (!follow(v, leader->address, LNX_M_CONTEXT_CGROUPS, &set) ||
	    !follow(v, set, LNX_M_CSS_SET_CGROUP, &cgroup) ||
	    !follow(v, cgroup, LNX_M_CGROUP_KN, &node))
		return;
	const size_t at = collect_path(v, node, path);
	if (!at)
		return;
	memcpy(c->cgroup, path + at, sizeof(path) - at);
	if (!*c->cgroup)
		c->cgroup[0] = '/';
	c->known |= LNX_PROCESS_CGROUP;
}

/* --- namespaces --- */

static void read_namespaces(struct lnx_view *v, const struct lnx_task *leader,
			    struct lnx_process_context *c)
{
	const struct lnx_kernel *k = v->k;
	gva_t proxy, ns;

	/* a process that has ended has none */
	if (!follow(v, leader->address, LNX_M_TASK_NSPROXY, &proxy))
		return;
	for (int i = 0; i < LNX_NAMESPACES; i++) {
		const enum lnx_member pointer = LNX_M_NSPROXY_UTS + i,
				      number = LNX_M_UTS_NUMBER + i;

		if (lnx_has(k, number, 4) && follow(v, proxy, pointer, &ns) &&
		    !lnx_read_u32(v, lnx_member_of(k, ns, number), &c->namespace[i]))
			c->known |= (uint32_t)LNX_PROCESS_NAMESPACE << i;
	}
}

/* --- command line --- */

/* @return bytes that could be read, a page at a time: what is swapped out ends it */
static size_t read_user(struct lnx_view *v, const struct a64_regime *r, uint64_t from, char *out,
			size_t len)
{
	size_t done = 0;

	while (done < len) {
		const uint64_t at = from + done;
		const size_t n = (size_t)gs_min(len - done, PAGE_PIECE - at % PAGE_PIECE);
		struct a64_mapping m;

		if (a64_translate(r, v->g, GVA(at), &m) ||
		    lnx_read_physical(v, m.pa, out + done, n))
			break;
		done += n;
	}
	return done;
}

static void read_command(struct lnx_view *v, gva_t mm, const struct guest_vcpu_regs *regs,
			 uint32_t n, struct lnx_process_context *c)
{
	struct a64_regime r = v->k->regime;
	uint64_t start, end;

	if (!read_word(v, mm, LNX_M_MM_ARG_START, &start) ||
	    !read_word(v, mm, LNX_M_MM_ARG_END, &end) || !start || start >= end || end > USER_END ||
	    !lnx_knows_page_tables(v->k) || lnx_mm_half(v, mm, regs, n, &r.half[0]))
		return;
	const size_t len = (size_t)gs_min(end - start, LNX_COMMAND - 1);
	const size_t have = read_user(v, &r, start, c->command, len);

	/* what could be read before a failure is in it, too */
	memset(c->command + have, 0, LNX_COMMAND - have);
	if (have)
		c->known |= LNX_PROCESS_COMMAND;
}

/* --- both --- */

void lnx_process_context_read(struct lnx_view *v, const struct lnx_task *leader, gva_t mm,
			      const struct guest_vcpu_regs *regs, uint32_t n,
			      struct lnx_process_context *context_out)
{
	*context_out = (struct lnx_process_context){ 0 };
	read_cgroup(v, leader, context_out);
	read_namespaces(v, leader, context_out);
	if (lnx_is_object(v->k, leader->signal.a) &&
	    read_word(v, leader->signal, LNX_M_SIGNAL_PENDING, &context_out->pending))
		context_out->known |= LNX_PROCESS_PENDING;
	if (mm.a && lnx_is_object(v->k, mm.a))
		read_command(v, mm, regs, n, context_out);
}

/* --- run queues --- */

#define LIST_SIZE 16 /* struct list_head: next, prev */

/*
 * Whether an address is the head of the queue of a thread's priority: then a run queue is around it, which is
 * that of the thread's CPU and has the idle thread of this.
 */
static bool is_rt_queue(struct lnx_view *v, const struct lnx_task *task, uint64_t node)
{
	const struct lnx_kernel *k = v->k;
	const gva_t rq = GVA(node - (uint32_t)task->prio * LIST_SIZE -
			     lnx_field_of(k, LNX_M_RQ_RT_QUEUES)->offset);
	uint32_t cpu, pid;
	gva_t idle;

	return lnx_is_object(k, rq.a) && lnx_has(k, LNX_M_RQ_CPU, 4) &&
	       lnx_has(k, LNX_M_TASK_PID, 4) &&
	       !lnx_read_u32(v, lnx_member_of(k, rq, LNX_M_RQ_CPU), &cpu) && cpu == task->cpu &&
	       follow(v, rq, LNX_M_RQ_IDLE, &idle) &&
	       !lnx_read_u32(v, lnx_member_of(k, idle, LNX_M_TASK_PID), &pid) && !pid;
}

/* Back from a thread to the head of its queue. @return 0: it leads to none */
static uint32_t rt_place(struct lnx_view *v, const struct lnx_task *task)
{
	const struct lnx_kernel *k = v->k;
	uint64_t node = lnx_member_of(k, task->address, LNX_M_CONTEXT_RT_LIST).a, before[2],
		 link[2];

	if (!(task->valid & LNX_TASK_HAS_PRIO) || !(task->valid & LNX_TASK_HAS_CPU) ||
	    task->prio < 0 || task->prio >= LNX_RT_PRIORITIES ||
	    !lnx_has(k, LNX_M_CONTEXT_RT_LIST, LIST_SIZE) ||
	    !lnx_has(k, LNX_M_RQ_RT_QUEUES, LNX_RT_PRIORITIES * LIST_SIZE) ||
	    lnx_read(v, GVA(node), link, sizeof(link)))
		return 0;
	for (uint32_t place = 1; place <= LNX_RT_PLACE_MAX; place++) {
		if (!lnx_is_object(k, link[1]) ||
		    lnx_read(v, GVA(link[1]), before, sizeof(before)) || before[0] != node)
			return 0;
		node = link[1];
		if (is_rt_queue(v, task, node))
			return place;
		memcpy(link, before, sizeof(link));
	}
	return 0;
}

static void read_queue(struct lnx_view *v, const struct lnx_task *task,
		       struct lnx_thread_context *c)
{
	const struct lnx_kernel *k = v->k;
	const gva_t at = task->address;
	uint8_t delayed;

	if (!lnx_has(k, LNX_M_CONTEXT_ON_RQ, 4) ||
	    lnx_read_u32(v, lnx_member_of(k, at, LNX_M_CONTEXT_ON_RQ), &c->on_rq) ||
	    !read_word(v, at, LNX_M_CONTEXT_VRUNTIME, &c->vruntime))
		return;
	c->known |= LNX_THREAD_QUEUE;
	/* with CONFIG_FAIR_GROUP_SCHED; else each CPU has one such queue */
	(void)read_word(v, at, LNX_M_CONTEXT_CFS_RQ, &c->cfs_rq);
	if (read_word(v, at, LNX_M_CONTEXT_DEADLINE, &c->deadline))
		c->known |= LNX_THREAD_DEADLINE;
	if (!c->on_rq)
		return;
	if (lnx_has(k, LNX_M_CONTEXT_DELAYED, 1) &&
	    !lnx_read(v, lnx_member_of(k, at, LNX_M_CONTEXT_DELAYED), &delayed, 1))
		c->delayed = delayed & 1;
	c->rt_place = rt_place(v, task);
}

void lnx_thread_context_read(struct lnx_view *v, const struct lnx_task *task,
			     struct lnx_thread_context *context_out)
{
	struct lnx_thread_context c = { 0 };
	const gva_t at = task->address;

	read_queue(v, task, &c);
	if (lnx_has(v->k, LNX_M_CONTEXT_LOCKS, 4) &&
	    !lnx_read_u32(v, lnx_member_of(v->k, at, LNX_M_CONTEXT_LOCKS), &c.locks))
		c.known |= LNX_THREAD_LOCKS;
	if (read_word(v, at, LNX_M_CONTEXT_PENDING, &c.pending) &&
	    read_word(v, at, LNX_M_TASK_BLOCKED, &c.blocked))
		c.known |= LNX_THREAD_SIGNALS;
	*context_out = c;
}
