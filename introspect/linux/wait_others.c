/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: children, bits, page faults, IPC of System V, signals, work. */
#include "introspect/linux/hunt.h"

/* Words of the stack, innermost first, among which the address of a set of semaphores is looked for. */
#define WORDS_MAX 512
/* struct sem is aligned to a cache line (ipc/sem.c); arm64's are 64 bytes for this (5.10 to 7.3). */
#define SEM_SIZE UINT64_C(64)
#define SEMS_MAX UINT32_C(65536)

#define PF_WQ_WORKER UINT32_C(0x20)
#define WORKER_IDLE  UINT32_C(4) /* kernel/workqueue.c */

#define JOBCTL_TRAP_FREEZE (UINT64_C(1) << 23) /* include/linux/sched/jobctl.h, 5.2 and later */

/* include/uapi/asm-generic/unistd.h */
#define NR_PPOLL	   73
#define NR_RT_SIGSUSPEND   133
#define NR_RT_SIGTIMEDWAIT 137
#define PSTATE_32BIT	   UINT64_C(0x10)

/* --- wait queues that the waiter itself tells of: names last, as looking them up takes longest --- */

/* Whether a bit that is waited for is set: bit 0 of a word that was never an address of one is none. */
static bool is_set(const struct hunt *h, uint64_t word, uint64_t bit)
{
	uint64_t flags;

	return bit < 64 && hunt_remote(h, word, &flags) && (flags >> bit & 1);
}

static bool page_bit(struct hunt *h, uint64_t waiter, uint64_t func)
{
	uint64_t page, bit;

	if (!hunt_has_all(h, LNX_M_PAGE_WAIT_PAGE, LNX_M_PAGE_FLAGS))
		return false;
	const uint64_t around = waiter - hunt_offset(h, LNX_M_PAGE_WAIT_ENTRY);
	if (!hunt_local(h, around, LNX_M_PAGE_WAIT_PAGE, &page) ||
	    !hunt_local(h, around, LNX_M_PAGE_WAIT_BIT, &bit) ||
	    !is_set(h, page + hunt_offset(h, LNX_M_PAGE_FLAGS), bit) ||
	    !hunt_is_function(h, func, "wake_page_function"))
		return false;
	struct lnx_wait w = { .kind = LNX_WAIT_PAGE, .object = page, .extra = bit };
	hunt_page_file(h, page, &w);
	hunt_add_wait(h, w);
	return true;
}

static bool any_bit(struct hunt *h, uint64_t waiter, uint64_t func)
{
	uint64_t word, bit;

	if (!hunt_has_all(h, LNX_M_BIT_WAIT_WORD, LNX_M_BIT_WAIT_ENTRY))
		return false;
	const uint64_t around = waiter - hunt_offset(h, LNX_M_BIT_WAIT_ENTRY);
	if (!hunt_local(h, around, LNX_M_BIT_WAIT_WORD, &word) ||
	    !hunt_local(h, around, LNX_M_BIT_WAIT_BIT, &bit) || !is_set(h, word, bit) ||
	    !hunt_is_function(h, func, "wake_bit_function"))
		return false;
	if (!hunt_buffer(h, word, bit))
		hunt_add(h, LNX_WAIT_BIT, word, GVA(0), bit);
	return true;
}

/* A page fault that another thread is to handle: its context has the queue, and this address space. */
static bool user_fault(struct hunt *h, uint64_t waiter, uint64_t queue, uint64_t func)
{
	uint64_t context, address, mm;

	if (!hunt_has_all(h, LNX_M_FAULT_ADDRESS, LNX_M_FAULT_CONTEXT_MM))
		return false;
	const uint64_t around = waiter - hunt_offset(h, LNX_M_FAULT_ENTRY);
	if (!hunt_local(h, around, LNX_M_FAULT_ADDRESS, &address) ||
	    !hunt_local(h, around, LNX_M_FAULT_CONTEXT, &context) ||
	    !hunt_member(h, context, LNX_M_FAULT_CONTEXT_MM, &mm) || mm != h->task->mm.a ||
	    (queue != context + hunt_offset(h, LNX_M_FAULT_CONTEXT_PENDING) &&
	     queue != context + hunt_offset(h, LNX_M_FAULT_CONTEXT_TAKEN)) ||
	    !hunt_is_function(h, func, "userfaultfd_wake_function"))
		return false;
	hunt_add(h, LNX_WAIT_USERFAULT, context, GVA(0), address);
	return true;
}

static bool child(struct hunt *h, uint64_t queue)
{
	const uint64_t signal = h->task->signal.a;

	if (!hunt_has(h, LNX_M_SIGNAL_CHILD_QUEUE) ||
	    queue != signal + hunt_offset(h, LNX_M_SIGNAL_CHILD_QUEUE))
		return false;
	hunt_add(h, LNX_WAIT_CHILD, signal, GVA(0), 0);
	return true;
}

bool hunt_special_queue(struct hunt *h, uint64_t waiter, uint64_t queue, uint64_t func)
{
	return child(h, queue) || page_bit(h, waiter, func) || any_bit(h, waiter, func) ||
	       user_fault(h, waiter, queue, func) || hunt_tag(h, waiter, queue);
}

bool hunt_is_grace_period(const struct hunt *h, uint64_t completion)
{
	uint64_t func;

	return hunt_has_all(h, LNX_M_RCU_FUNC, LNX_M_RCU_COMPLETION) &&
	       hunt_local(h, completion - hunt_offset(h, LNX_M_RCU_COMPLETION), LNX_M_RCU_FUNC,
			  &func) &&
	       hunt_is_function(h, func, "wakeme_after_rcu");
}

/* --- System V --- */

/* A message queue around the head of one of its lists: what it is called by programs. */
static void message_queue(struct hunt *h, const struct ring *r, uint64_t waiter,
			  enum lnx_member list, enum lnx_wait_kind kind)
{
	static const char *const names[] = { "do_msgrcv",   "do_msgsnd",    "ksys_msgrcv",
					     "ksys_msgsnd", "__do_sys_msg", "__arm64_sys_msg",
					     NULL };
	uint64_t head;
	uint32_t id;

	if (!hunt_find_head(h, r, waiter, &head))
		return;
	const uint64_t queue = head - hunt_offset(h, list);
	if (hunt_member_u32(h, queue, LNX_M_MSG_QUEUE_ID, &id) && id <= INT32_MAX &&
	    hunt_is_in(h, names))
		hunt_add(h, kind, queue, GVA(0), id);
}

void hunt_receiver(struct hunt *h, uint64_t waiter)
{
	static const struct ring ring = { LNX_M_RECEIVER_LIST, LNX_M_RECEIVER_TASK, false };

	message_queue(h, &ring, waiter, LNX_M_MSG_QUEUE_RECEIVERS, LNX_WAIT_MESSAGE);
}

void hunt_sender(struct hunt *h, uint64_t waiter)
{
	static const struct ring ring = { LNX_M_SENDER_LIST, LNX_M_SENDER_TASK, false };

	message_queue(h, &ring, waiter, LNX_M_MSG_QUEUE_SENDERS, LNX_WAIT_MESSAGE_ROOM);
}

/* Whether a list of those who wait is one of a set of semaphores. */
static bool is_list_of(const struct hunt *h, uint64_t set, uint64_t head)
{
	uint32_t n;

	if (!lnx_is_object(h->v->k, set) || !hunt_member_u32(h, set, LNX_M_SET_COUNT, &n) || !n ||
	    n > SEMS_MAX)
		return false;
	if (head == set + hunt_offset(h, LNX_M_SET_ALTERING) ||
	    head == set + hunt_offset(h, LNX_M_SET_WATCHING))
		return true;
	/* the semaphores themselves begin at the next cache line */
	const uint64_t sems =
		set + gs_align_up(hunt_offset(h, LNX_M_SET_LAST) + sizeof(uint32_t), SEM_SIZE);
	if (head < sems || head - sems >= n * SEM_SIZE)
		return false;
	const uint64_t in_sem = (head - sems) % SEM_SIZE;
	return in_sem == hunt_offset(h, LNX_M_SYSV_ALTERING) ||
	       in_sem == hunt_offset(h, LNX_M_SYSV_WATCHING);
}

void hunt_sysv_semaphore(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "do_semtimedop", "__do_semtimedop", "ksys_semtimedop",
					     "__do_sys_sem",  "__arm64_sys_sem", NULL };
	static const struct ring ring = { LNX_M_SEM_QUEUE_LIST, LNX_M_SEM_QUEUE_TASK, false };
	uint64_t head, set;
	uint32_t id;

	if (!hunt_find_head(h, &ring, waiter, &head) || !hunt_is_in(h, names) ||
	    !hunt_may_search(h))
		return;
	/* the set's address is what the function that waits needs again when it is woken */
	for (uint64_t i = 0; i < WORDS_MAX && hunt_local_word(h, h->start + i * 8, &set); i++) {
		if (!is_list_of(h, set, head) || !hunt_member_u32(h, set, LNX_M_SET_ID, &id) ||
		    id > INT32_MAX)
			continue;
		hunt_add(h, LNX_WAIT_SYSV_SEMAPHORE, set, GVA(0), id);
		return;
	}
}

/* --- what a thread's own state tells --- */

/* The system call that a thread is in; false: it is a kernel thread, or not a 64-bit one. */
static bool system_call(const struct hunt *h, uint32_t *number_out)
{
	const struct lnx_kernel *k = h->v->k;
	const uint64_t regs = h->task->stack.a + k->thread_size - k->types.pt_regs_size;
	uint64_t pstate;

	/* pstate is behind pc in every version (arch/arm64/include/asm/ptrace.h) */
	return !(h->task->flags & LNX_PF_KTHREAD) && hunt_has(h, LNX_M_PT_REGS_SYSCALL) &&
	       hunt_remote(h, regs + hunt_offset(h, LNX_M_PT_REGS_PC) + 8, &pstate) &&
	       !(pstate & PSTATE_32BIT) &&
	       hunt_member_u32(h, regs, LNX_M_PT_REGS_SYSCALL, number_out);
}

/* Nothing but a signal, or the end of a time, wakes it. */
void hunt_signals(struct hunt *h)
{
	static const struct {
		uint32_t number;
		const char *functions[3];
	} calls[] = {
		{ NR_RT_SIGSUSPEND, { "sigsuspend", NULL } },
		{ NR_RT_SIGTIMEDWAIT, { "do_sigtimedwait", NULL } },
		{ NR_PPOLL, { "do_poll", "do_sys_poll", NULL } }, /* of no file */
	};
	uint32_t number;
	uint64_t blocked;

	for (uint32_t i = 0; i < h->n; i++)
		if (h->out[i].kind != LNX_WAIT_TIMER)
			return;
	if (h->task->state != 'S' || !hunt_has(h, LNX_M_TASK_BLOCKED) || !system_call(h, &number) ||
	    !hunt_member(h, h->task->address.a, LNX_M_TASK_BLOCKED, &blocked))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (number == calls[i].number && hunt_is_in(h, calls[i].functions) &&
		    (number != NR_PPOLL || h->polls_nothing))
			hunt_add(h, LNX_WAIT_SIGNAL, 0, GVA(0), ~blocked);
}

void hunt_freezer(struct hunt *h)
{
	static const char *const names[] = { "do_freezer_trap", "get_signal", NULL };
	uint64_t jobctl;

	if (hunt_has(h, LNX_M_TASK_JOBCTL) &&
	    hunt_member(h, h->task->address.a, LNX_M_TASK_JOBCTL, &jobctl) &&
	    (jobctl & JOBCTL_TRAP_FREEZE) && hunt_is_in(h, names))
		hunt_add(h, LNX_WAIT_FREEZER, h->task->address.a, GVA(0), 0);
}

/* Whether a kernel thread has gone to sleep in its main function itself, not in any that this calls. */
static bool is_in_main(const struct hunt *h, uint64_t function)
{
	const struct lnx_kernel *k = h->v->k;
	struct lnx_symbol s;

	for (uint32_t i = 0; i < h->stack->count; i++) {
		const uint64_t at = h->stack->address[i] - 1;

		if (lnx_symbol_at(k, GVA(at), &s))
			return false;
		/* 5.10 has __switch_to outside of the scheduler's text */
		if (i && !lnx_range_has(k->sched_text, at))
			return s.start == function;
	}
	return false;
}

/* A worker of a workqueue has to say so itself. */
static bool is_idle_worker(const struct hunt *h, uint64_t worker)
{
	uint64_t task, work, rescues;
	uint32_t flags;

	if (!hunt_has_all(h, LNX_M_WORKER_TASK, LNX_M_WORKER_RESCUES) ||
	    !hunt_member(h, worker, LNX_M_WORKER_TASK, &task) || task != h->task->address.a ||
	    !hunt_member(h, worker, LNX_M_WORKER_WORK, &work) || work ||
	    !hunt_member_u32(h, worker, LNX_M_WORKER_FLAGS, &flags) ||
	    !hunt_member(h, worker, LNX_M_WORKER_RESCUES, &rescues))
		return false;
	/* one that is there for another queue's rescue is in no pool */
	return rescues || (flags & WORKER_IDLE);
}

void hunt_idle(struct hunt *h)
{
	uint64_t kthread, function, data;

	if (!(h->task->flags & LNX_PF_KTHREAD) ||
	    !hunt_has_all(h, LNX_M_TASK_KTHREAD, LNX_M_KTHREAD_DATA) ||
	    !hunt_member(h, h->task->address.a, LNX_M_TASK_KTHREAD, &kthread) ||
	    !hunt_member(h, kthread, LNX_M_KTHREAD_FUNCTION, &function) ||
	    !hunt_is_text(h, function) || !is_in_main(h, function) ||
	    !hunt_member(h, kthread, LNX_M_KTHREAD_DATA, &data))
		return;
	if ((h->task->flags & PF_WQ_WORKER) && !is_idle_worker(h, data))
		return;
	hunt_add(h, LNX_WAIT_WORK, kthread, GVA(0), function);
}
