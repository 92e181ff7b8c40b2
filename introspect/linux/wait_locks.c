/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread waits for: locks with a list that has no head, semaphores, rt_mutexes. */
#include "introspect/linux/hunt.h"

/* Waiters of a list that are passed, each way. */
#define WALK_MAX 128
/* Words of the stack, innermost first, among which a lock's address is looked for. */
#define WORDS_MAX 512
/* kernel/locking/rtmutex_common.h: RT_MUTEX_HAS_WAITERS, below the task in the owner word */
#define RT_WAITERS UINT64_C(1)
/* task_struct.blocker (6.16): a kind in the lowest bits; blocked_on (6.17): a state in them */
#define BLOCKER_FLAGS UINT64_C(7)
#define RB_FLAGS      UINT64_C(3)

/* --- lists without a head, of 7.1 and later --- */

/* Whether a waiter is on the list of this thread's own one. */
static bool is_in_ring(const struct hunt *h, const struct ring *r, uint64_t node, uint64_t at)
{
	for (uint64_t way = 0; way <= HUNT_PREV; way += HUNT_PREV) {
		uint64_t here = at;

		for (uint32_t i = 0; i < WALK_MAX; i++) {
			if (here == node)
				return true;
			if (!hunt_is_waiter(h, r, here) || !hunt_remote(h, here + way, &here))
				break;
		}
	}
	return false;
}

static bool has_this_list(const struct hunt *h, const struct ring *r, uint64_t node, uint64_t lock,
			  enum lnx_member first)
{
	uint64_t waiter;

	return hunt_member(h, lock, first, &waiter) && lnx_is_object(h->v->k, waiter) &&
	       is_in_ring(h, r, node, waiter + hunt_offset(h, r->node));
}

/* What the kernel itself notes of what a thread is blocked on. */
static bool noted_lock(const struct hunt *h, const struct ring *r, uint64_t node,
		       enum lnx_member first, uint64_t *lock_out)
{
	static const enum lnx_member notes[] = { LNX_M_TASK_BLOCKER, LNX_M_TASK_BLOCKED_ON };

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		uint64_t word;

		if (!hunt_has(h, notes[i]) || !hunt_member(h, h->task->address.a, notes[i], &word))
			continue;
		*lock_out = word & ~BLOCKER_FLAGS;
		if (has_this_list(h, r, node, *lock_out, first))
			return true;
	}
	return false;
}

/* The functions that wait for a lock have its address in a register, which those they call save. */
static bool lock_on_stack(const struct hunt *h, const struct ring *r, uint64_t node,
			  enum lnx_member first, uint64_t *lock_out)
{
	for (uint64_t i = 0; i < WORDS_MAX && hunt_local_word(h, h->start + i * 8, lock_out); i++)
		if (lnx_is_object(h->v->k, *lock_out) &&
		    has_this_list(h, r, node, *lock_out, first))
			return true;
	return false;
}

bool hunt_find_lock(struct hunt *h, const struct ring *r, uint64_t waiter, enum lnx_member head,
		    enum lnx_member first, uint64_t *lock_out)
{
	const uint64_t node = waiter + hunt_offset(h, r->node);
	uint64_t next, prev;

	if (hunt_has(h, head)) {
		if (!hunt_find_head(h, r, waiter, lock_out))
			return false;
		*lock_out -= hunt_offset(h, head);
		return true;
	}
	if (!hunt_local_word(h, node, &next) || !hunt_local_word(h, node + HUNT_PREV, &prev))
		return false;
	/* alone it leads to itself */
	if ((next != node || prev != node) && !hunt_is_linked(h, node, next, prev))
		return false;
	return noted_lock(h, r, node, first, lock_out) ||
	       (hunt_may_search(h) && lock_on_stack(h, r, node, first, lock_out));
}

/* --- kinds --- */

void hunt_semaphore(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "__down",
					     "down",
					     "__down_interruptible",
					     "down_interruptible",
					     "__down_killable",
					     "down_killable",
					     "__down_timeout",
					     "down_timeout",
					     NULL };
	static const struct ring ring = { LNX_M_SEM_WAITER_LIST, LNX_M_SEM_WAITER_TASK, false };
	uint64_t sem;
	uint32_t count;

	/* whoever goes while others wait gives it to the first of them: it is never counted */
	if (hunt_find_lock(h, &ring, waiter, LNX_M_SEM_WAIT_LIST, LNX_M_SEM_FIRST, &sem) &&
	    hunt_member_u32(h, sem, LNX_M_SEM_COUNT, &count) && !count && hunt_is_in_one(h, names))
		hunt_add(h, LNX_WAIT_SEMAPHORE, sem, GVA(0), 0);
}

bool hunt_is_in_tree(const struct hunt *h, uint64_t node, uint64_t root)
{
	uint64_t parent, one, other;

	if (!hunt_local_word(h, node, &parent))
		return false;
	parent &= ~RB_FLAGS;
	/* struct rb_node: parent and colour, right, left */
	if (!parent)
		return hunt_remote(h, root, &one) && one == node;
	return hunt_remote(h, parent + 8, &one) && hunt_remote(h, parent + 16, &other) &&
	       (one == node || other == node);
}

void hunt_rt_mutex(struct hunt *h, uint64_t waiter)
{
	uint64_t lock, root, word;
	gva_t owner;

	if (!hunt_local(h, waiter, LNX_M_RT_WAITER_LOCK, &lock) || !lnx_is_object(h->v->k, lock) ||
	    !hunt_is_in_tree(h, waiter + hunt_offset(h, LNX_M_RT_WAITER_NODE),
			     lock + hunt_offset(h, LNX_M_RT_MUTEX_ROOT)) ||
	    !hunt_member(h, lock, LNX_M_RT_MUTEX_ROOT, &root) || !root ||
	    !hunt_member(h, lock, LNX_M_RT_MUTEX_OWNER, &word) || !(word & RT_WAITERS) ||
	    !hunt_owner(h, word, RT_WAITERS, &owner))
		return;
	if (lock != h->pi_mutex)
		hunt_add(h, LNX_WAIT_RT_MUTEX, lock, owner, word);
}
