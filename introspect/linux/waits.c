/* SPDX-License-Identifier: Apache-2.0 */
/* Why a thread is blocked: the waiter structures on its kernel stack. */
#include <string.h>

#include "introspect/linux/hunt.h"

/*
 * A thread that waits has put a structure on its stack and linked it to what it waits for. Any word of a
 * stack may hold the thread's address: a structure is believed only if its list leads to it from both
 * sides, and the list's head lies in an object of the right kind.
 */

/* Nodes of a list that are passed, each way, to find its head. */
#define WALK_MAX 128
/* Words of a stack that have the thread's own address. */
#define HITS_MAX 64
/* The functions of a lock are among the innermost: __switch_to, schedule, the slow path, its caller. */
#define NAMED_FRAMES 8

#define MUTEX_FLAGS	   UINT64_C(7) /* kernel/locking/mutex.c: below the task in the owner word */
#define MUTEX_FLAG_WAITERS UINT64_C(1)
#define MUTEX_FLAG_PICKUP  UINT64_C(4) /* the owner was given it, and has not run since */
#define RWSEM_OWNER_FLAGS  UINT64_C(7) /* 5.10 has three bits, later kernels two */
#define RWSEM_FLAG_WAITERS UINT64_C(2) /* of the count */
#define RWSEM_TYPE_WRITE   0	       /* enum rwsem_waiter_type: RWSEM_WAITING_FOR_WRITE */
#define FUT_OFF_INODE	   UINT64_C(1) /* include/linux/futex.h: low bits of a key's offset */
#define FUT_OFF_FLAGS	   UINT64_C(3)
#define TIMER_ENQUEUED	   1 /* HRTIMER_STATE_ENQUEUED */

void hunt_add_wait(struct hunt *h, struct lnx_wait wait)
{
	if (h->n < LNX_WAITS_MAX)
		h->out[h->n++] = wait;
}

void hunt_add(struct hunt *h, enum lnx_wait_kind kind, uint64_t object, gva_t owner, uint64_t extra)
{
	hunt_add_wait(h, (struct lnx_wait){
				 .kind = kind, .object = object, .owner = owner, .extra = extra });
}

/* --- lists --- */

bool hunt_is_text(const struct hunt *h, uint64_t word)
{
	/* lnx_is_text() would count the failed translation of what is no address */
	return lnx_is_object(h->v->k, word & ~UINT64_C(7)) && lnx_is_text(h->v, word);
}

/*
 * Whether there is a waiter around a node: it lies on the stack of the task that it names, or, where
 * others may own the waiters, it names a function. Behind a head is neither; words there may point to
 * near by, but stacks begin at multiples of their size (THREAD_ALIGN).
 */
bool hunt_is_waiter(const struct hunt *h, const struct ring *r, uint64_t node)
{
	const struct lnx_kernel *k = h->v->k;
	uint64_t marker, stack;

	if (!hunt_remote(h, node - hunt_offset(h, r->node) + hunt_offset(h, r->marker), &marker))
		return false;
	if (r->is_function)
		return hunt_is_text(h, marker);
	return lnx_is_object(k, marker) &&
	       hunt_remote(h, marker + hunt_offset(h, LNX_M_TASK_STACK), &stack) &&
	       stack % k->thread_size == 0 && gs_in_range(node, 16, stack, k->thread_size);
}

/* Whether a node of any list is linked from both sides, and not alone. */
bool hunt_is_linked(const struct hunt *h, uint64_t node, uint64_t next, uint64_t prev)
{
	uint64_t back, forth;

	return next != node && prev != node && hunt_remote(h, next + HUNT_PREV, &back) &&
	       back == node && hunt_remote(h, prev, &forth) && forth == node;
}

bool hunt_is_head(const struct hunt *h, uint64_t head)
{
	uint64_t next, prev;

	return hunt_remote(h, head, &next) && hunt_remote(h, head + HUNT_PREV, &prev) &&
	       hunt_is_linked(h, head, next, prev);
}

/* The first node that is no waiter, from @p at on. @p way: 0 forwards, HUNT_PREV backwards */
static bool walk_to_head(const struct hunt *h, const struct ring *r, uint64_t node, uint64_t at,
			 uint64_t way, uint64_t *head_out)
{
	for (uint32_t i = 0; i < WALK_MAX && at != node; i++) {
		if (!hunt_is_waiter(h, r, at)) {
			*head_out = at;
			return hunt_is_head(h, at);
		}
		if (!hunt_remote(h, at + way, &at))
			return false;
	}
	return false;
}

/* The head of the list that a waiter on the stack is on. */
bool hunt_find_head(const struct hunt *h, const struct ring *r, uint64_t waiter, uint64_t *head_out)
{
	const uint64_t node = waiter + hunt_offset(h, r->node);
	uint64_t next, prev;

	if (!hunt_local_word(h, node, &next) || !hunt_local_word(h, node + HUNT_PREV, &prev) ||
	    !hunt_is_linked(h, node, next, prev))
		return false;
	return walk_to_head(h, r, node, next, 0, head_out) ||
	       walk_to_head(h, r, node, prev, HUNT_PREV, head_out);
}

/* --- evidence --- */

static bool is_named(const char *name, const char *wanted, bool whole)
{
	const size_t len = strlen(wanted);

	/* ".constprop.0" and the like are the compiler's */
	return !strncmp(name, wanted, len) && (!whole || !name[len] || name[len] == '.');
}

static bool is_in(const struct hunt *h, const char *const *names, bool whole)
{
	struct lnx_symbol s;

	for (uint32_t i = 0; i < h->stack->count && i < NAMED_FRAMES; i++) {
		/* the return address may be of the next function already */
		if (lnx_symbol_at(h->v->k, GVA(h->stack->address[i] - 1), &s))
			continue;
		for (const char *const *name = names; *name; name++)
			if (is_named(s.name, *name, whole))
				return true;
	}
	return false;
}

bool hunt_is_in(const struct hunt *h, const char *const *names)
{
	return is_in(h, names, false);
}

bool hunt_is_in_one(const struct hunt *h, const char *const *names)
{
	return is_in(h, names, true);
}

bool hunt_is_function(const struct hunt *h, uint64_t address, const char *name)
{
	struct lnx_symbol s;

	return !lnx_symbol_at(h->v->k, GVA(address), &s) && s.start == address &&
	       !strcmp(s.name, name);
}

/* The task in an owner word, 0 for none; false: what is there is no task. */
bool hunt_owner(const struct hunt *h, uint64_t word, uint64_t flags, gva_t *owner_out)
{
	struct lnx_task t;

	*owner_out = GVA(word & ~flags);
	if (!owner_out->a)
		return true;
	return !lnx_task_read(h->v, *owner_out, &t) && t.comm[0] && t.pid &&
	       lnx_is_object(h->v->k, t.stack.a);
}

/*
 * Who has a lock, as others see it: nobody, if it is the waiter itself, which has got it and is still to
 * leave the list: it was handed over to it, or it was pre-empted there. One that locks twice what it has is
 * on no run queue.
 */
static gva_t other_owner(const struct hunt *h, gva_t owner, bool is_handed_over)
{
	const struct lnx_kernel *k = h->v->k;
	uint64_t on_rq = 0;

	if (owner.a != h->task->address.a)
		return owner;
	if (!is_handed_over && hunt_has(h, LNX_M_CONTEXT_ON_RQ))
		GS_IGNORE(lnx_read(h->v, lnx_member_of(k, owner, LNX_M_CONTEXT_ON_RQ), &on_rq,
				   sizeof(uint32_t)));
	return is_handed_over || on_rq ? GVA(0) : owner;
}

/* --- kinds: each gets the address of a structure that has the thread in it --- */

/*
 * A mutex_waiter, an rwsem_waiter and a semaphore's waiter begin with the same two members, and the owner
 * words of mutexes and rwsems lie equally far from the heads of their lists: functions tell which it is.
 */
static void try_mutex(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "__mutex_lock", "mutex_lock", "__ww_mutex_lock",
					     "ww_mutex_lock", NULL };
	static const struct ring ring = { LNX_M_MUTEX_WAITER_LIST, LNX_M_MUTEX_WAITER_TASK, false };
	uint64_t mutex, word;
	gva_t owner;

	if (!hunt_find_lock(h, &ring, waiter, LNX_M_MUTEX_WAIT_LIST, LNX_M_MUTEX_FIRST, &mutex))
		return;
	if (hunt_member(h, mutex, LNX_M_MUTEX_OWNER, &word) && (word & MUTEX_FLAG_WAITERS) &&
	    hunt_owner(h, word, MUTEX_FLAGS, &owner) && hunt_is_in(h, names))
		hunt_add(h, LNX_WAIT_MUTEX, mutex, other_owner(h, owner, word & MUTEX_FLAG_PICKUP),
			 word);
}

static void try_rwsem(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "rwsem_down_", "down_read",    "down_write",
					     "__down_read", "__down_write", NULL };
	static const struct ring ring = { LNX_M_RWSEM_WAITER_LIST, LNX_M_RWSEM_WAITER_TASK, false };
	uint64_t sem, word, count, type;
	gva_t owner = GVA(0);

	if (!hunt_local(h, waiter, LNX_M_RWSEM_WAITER_TYPE, &type) || type > 1 ||
	    !hunt_find_lock(h, &ring, waiter, LNX_M_RWSEM_WAIT_LIST, LNX_M_RWSEM_FIRST, &sem))
		return;
	if (!hunt_member(h, sem, LNX_M_RWSEM_COUNT, &count) || !(count & RWSEM_FLAG_WAITERS) ||
	    !hunt_member(h, sem, LNX_M_RWSEM_OWNER, &word))
		return;
	/* of readers the word has one that came last, and may have gone: nobody to wait for */
	if (!(word & LNX_RWSEM_READER_OWNED) && !hunt_owner(h, word, RWSEM_OWNER_FLAGS, &owner))
		return;
	if (hunt_is_in(h, names))
		hunt_add(h, type == RWSEM_TYPE_WRITE ? LNX_WAIT_RWSEM_WRITE : LNX_WAIT_RWSEM_READ,
			 sem, owner, word);
}

/* Other queues of this kind are the kernel's own: that it is in a completion, functions say. */
static void try_completion(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "wait_for_completion", "__wait_for_common",
					     "wait_for_common", "do_wait_for_common", NULL };
	static const struct ring ring = { LNX_M_SWAIT_LIST, LNX_M_SWAIT_TASK, false };
	uint64_t head, done;

	if (!hunt_find_head(h, &ring, waiter, &head))
		return;
	const uint64_t completion = head - hunt_offset(h, LNX_M_SWAIT_HEAD_LIST) -
				    hunt_offset(h, LNX_M_COMPLETION_WAIT);
	if (hunt_remote(h, completion + hunt_offset(h, LNX_M_COMPLETION_DONE), &done) &&
	    !(uint32_t)done && hunt_is_in(h, names) && !hunt_block_request(h, completion))
		hunt_add(h,
			 hunt_is_grace_period(h, completion) ? LNX_WAIT_RCU : LNX_WAIT_COMPLETION,
			 completion, GVA(0), 0);
}

static void try_queue(struct hunt *h, uint64_t waiter)
{
	static const struct ring ring = { LNX_M_WAIT_ENTRY, LNX_M_WAIT_FUNC, true };
	uint64_t head, func;

	if (!hunt_local(h, waiter, LNX_M_WAIT_FUNC, &func) || !hunt_is_text(h, func) ||
	    !hunt_find_head(h, &ring, waiter, &head))
		return;
	const uint64_t queue = head - hunt_offset(h, LNX_M_WAIT_HEAD_LIST);
	if (!hunt_special_queue(h, waiter, queue, func) && !hunt_file_lock(h, queue) &&
	    !hunt_file(h, queue))
		hunt_add(h, LNX_WAIT_QUEUE, queue, GVA(0), func);
}

/* What a queue of poll is, by the file that the entry names. */
static void add_polled(struct hunt *h, uint64_t entry, uint64_t queue, uint64_t func)
{
	uint64_t file, object;

	if (!hunt_has(h, LNX_M_POLL_FILE) || !hunt_local(h, entry, LNX_M_POLL_FILE, &file)) {
		hunt_add(h, LNX_WAIT_QUEUE, queue, GVA(0), func);
		return;
	}
	const int32_t fd = hunt_descriptor(h, file);
	if (fd < 0) {
		hunt_add(h, LNX_WAIT_QUEUE, queue, GVA(0), func);
		return;
	}
	const enum lnx_wait_kind kind = hunt_file_kind(h, file, queue, &object);
	hunt_add(h, kind, object, GVA(0), (uint64_t)fd);
}

/* One of poll's entries: these name the structure on the stack instead of the task, and their queue. */
static void try_poll_entry(struct hunt *h, uint64_t poll, uint64_t entry)
{
	const uint64_t waiter = entry + hunt_offset(h, LNX_M_POLL_WAIT);
	const uint64_t node = waiter + hunt_offset(h, LNX_M_WAIT_ENTRY);
	uint64_t private, func, next, prev, queue;

	if (hunt_local(h, waiter, LNX_M_WAIT_PRIVATE, &private) && private == poll &&
	    hunt_local(h, waiter, LNX_M_WAIT_FUNC, &func) && hunt_is_text(h, func) &&
	    hunt_local_word(h, node, &next) && hunt_local_word(h, node + HUNT_PREV, &prev) &&
	    hunt_is_linked(h, node, next, prev) &&
	    hunt_local(h, entry, LNX_M_POLL_ADDRESS, &queue) &&
	    hunt_is_head(h, queue + hunt_offset(h, LNX_M_WAIT_HEAD_LIST)))
		add_polled(h, entry, queue, func);
}

/* The entries that are on the stack: of poll() and select() of many files further ones are elsewhere. */
static void try_poll(struct hunt *h, uint64_t poll)
{
	/* the queue's address is the last member (include/linux/poll.h, 5.10 to 7.3) */
	const uint64_t size = hunt_offset(h, LNX_M_POLL_ADDRESS) + sizeof(uint64_t);
	const uint64_t room = h->v->k->types.member[LNX_M_POLL_ENTRIES].size;
	uint64_t count, more;

	if (room % size || !hunt_local(h, poll, LNX_M_POLL_COUNT, &count) || count > room / size)
		return;
	if (!count && hunt_has(h, LNX_M_POLL_TABLE) &&
	    hunt_local(h, poll, LNX_M_POLL_TABLE, &more) && !more)
		h->polls_nothing = true;
	for (uint64_t i = 0; i < count; i++)
		try_poll_entry(h, poll, poll + hunt_offset(h, LNX_M_POLL_ENTRIES) + i * size);
}

/* The bucket's lock says where the head is: nothing is walked. */
static bool is_in_bucket(const struct hunt *h, uint64_t q)
{
	const uint64_t node = q + hunt_offset(h, LNX_M_FUTEX_LIST);
	uint64_t next, prev, lock;

	return hunt_local_word(h, node, &next) && hunt_local_word(h, node + HUNT_PREV, &prev) &&
	       hunt_is_linked(h, node, next, prev) &&
	       hunt_local(h, q, LNX_M_FUTEX_LOCK_PTR, &lock) &&
	       hunt_is_head(h, lock - hunt_offset(h, LNX_M_FUTEX_BUCKET_LOCK) +
				       hunt_offset(h, LNX_M_FUTEX_BUCKET_CHAIN));
}

/* Of one that lends its priority the kernel knows the owner; else it is user mode's business. */
static gva_t owner_of_futex(struct hunt *h, uint64_t q)
{
	uint64_t state, word;
	gva_t owner;

	if (!hunt_has_all(h, LNX_M_FUTEX_PI_STATE, LNX_M_PI_STATE_OWNER) ||
	    !hunt_local(h, q, LNX_M_FUTEX_PI_STATE, &state) || !state ||
	    !hunt_member(h, state, LNX_M_PI_STATE_OWNER, &word) || !hunt_owner(h, word, 0, &owner))
		return GVA(0);
	h->pi_mutex = state + hunt_offset(h, LNX_M_PI_STATE_MUTEX);
	/* who unlocks it names the next one before waking it; nobody is let wait for himself (EDEADLK) */
	return other_owner(h, owner, true);
}

static void try_futex(struct hunt *h, uint64_t q)
{
	uint64_t ptr, word, offset;

	if (!hunt_local(h, q, LNX_M_FUTEX_KEY_PTR, &ptr) ||
	    !hunt_local(h, q, LNX_M_FUTEX_KEY_WORD, &word) ||
	    !hunt_local(h, q, LNX_M_FUTEX_KEY_OFFSET, &offset) || !is_in_bucket(h, q))
		return;
	const uint64_t in_page = offset & ~FUT_OFF_FLAGS;
	const uint64_t page = UINT64_C(1) << h->v->k->regime.half[1].granule_bits;

	if (in_page >= page)
		return;
	/* a key is {mm, address of the page, offset}, or {number of the file, page in it, offset} */
	if (offset & FUT_OFF_INODE)
		hunt_add(h, LNX_WAIT_FUTEX_SHARED, word * page + in_page, owner_of_futex(h, q),
			 ptr);
	else if (ptr && ptr == h->task->mm.a)
		hunt_add(h, LNX_WAIT_FUTEX, word + in_page, owner_of_futex(h, q), 0);
}

/* Timers are in a tree: the parent, or the root, leads to the node. */
static void try_timer(struct hunt *h, uint64_t sleeper)
{
	const uint64_t node = sleeper + hunt_offset(h, LNX_M_SLEEPER_NODE);
	uint64_t state, base, expires;

	if (!hunt_local(h, sleeper, LNX_M_SLEEPER_STATE, &state) || state != TIMER_ENQUEUED ||
	    !hunt_local(h, sleeper, LNX_M_SLEEPER_BASE, &base) ||
	    !hunt_local(h, sleeper, LNX_M_SLEEPER_EXPIRES, &expires))
		return;
	if (hunt_is_in_tree(h, node, base + hunt_offset(h, LNX_M_CLOCK_BASE_ROOT)))
		hunt_add(h, LNX_WAIT_TIMER, node, GVA(0), expires);
}

static const struct {
	enum lnx_member first, last; /* members that it takes */
	enum lnx_member either[2];   /* of which it takes one */
	enum lnx_member task;
	void (*look)(struct hunt *h, uint64_t structure);
} kinds[] = {
	{ LNX_M_MUTEX_WAITER_LIST,
	  LNX_M_MUTEX_OWNER,
	  { LNX_M_MUTEX_WAIT_LIST, LNX_M_MUTEX_FIRST },
	  LNX_M_MUTEX_WAITER_TASK,
	  try_mutex },
	{ LNX_M_RWSEM_WAITER_LIST,
	  LNX_M_RWSEM_OWNER,
	  { LNX_M_RWSEM_WAIT_LIST, LNX_M_RWSEM_FIRST },
	  LNX_M_RWSEM_WAITER_TASK,
	  try_rwsem },
	{ LNX_M_SEM_WAITER_LIST,
	  LNX_M_SEM_COUNT,
	  { LNX_M_SEM_WAIT_LIST, LNX_M_SEM_FIRST },
	  LNX_M_SEM_WAITER_TASK,
	  hunt_semaphore },
	/* before rt_mutexes, of which it has one */
	{ LNX_M_FUTEX_LIST, LNX_M_FUTEX_BUCKET_CHAIN, { 0 }, LNX_M_FUTEX_TASK, try_futex },
	{ LNX_M_RT_WAITER_NODE, LNX_M_RT_MUTEX_OWNER, { 0 }, LNX_M_RT_WAITER_TASK, hunt_rt_mutex },
	{ LNX_M_SWAIT_TASK, LNX_M_COMPLETION_WAIT, { 0 }, LNX_M_SWAIT_TASK, try_completion },
	{ LNX_M_WAIT_PRIVATE, LNX_M_WAIT_HEAD_LIST, { 0 }, LNX_M_WAIT_PRIVATE, try_queue },
	{ LNX_M_RECEIVER_LIST, LNX_M_MSG_QUEUE_ID, { 0 }, LNX_M_RECEIVER_TASK, hunt_receiver },
	{ LNX_M_RECEIVER_LIST, LNX_M_MSG_QUEUE_ID, { 0 }, LNX_M_SENDER_TASK, hunt_sender },
	{ LNX_M_SEM_QUEUE_LIST,
	  LNX_M_SYSV_WATCHING,
	  { 0 },
	  LNX_M_SEM_QUEUE_TASK,
	  hunt_sysv_semaphore },
	{ LNX_M_BIO_END, LNX_M_BIO_PRIVATE, { 0 }, LNX_M_BIO_PRIVATE, hunt_bio },
	{ LNX_M_SLEEPER_TASK, LNX_M_CLOCK_BASE_ROOT, { 0 }, LNX_M_SLEEPER_TASK, try_timer },
	{ LNX_M_TIMEOUT_NODE, LNX_M_TIMEOUT_TASK, { 0 }, LNX_M_TIMEOUT_TASK, hunt_timeout },
	/* last: there may be many */
	{ LNX_M_WAIT_PRIVATE, LNX_M_POLL_ADDRESS, { 0 }, LNX_M_POLL_TASK, try_poll },
};

static bool knows(const struct lnx_kernel *k, size_t kind)
{
	const enum lnx_member *either = kinds[kind].either;

	return lnx_has_all(k, kinds[kind].first, kinds[kind].last) &&
	       (either[0] == either[1] || lnx_field_of(k, either[0])->present ||
		lnx_field_of(k, either[1])->present);
}

bool lnx_knows_waits(const struct lnx_kernel *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (knows(k, i))
			return true;
	return false;
}

/* Copy what is used of the stack; the registers at its top are the user's to choose. */
static bool copy_stack(struct hunt *h, uint8_t *copy)
{
	const struct lnx_kernel *k = h->v->k;
	const uint64_t stack = h->task->stack.a, sp = h->task->context_sp;
	const uint64_t used = k->thread_size - k->types.pt_regs_size;

	if (!lnx_is_object(k, stack) || stack > ~k->thread_size || (sp & 7) ||
	    !gs_in_range(sp, 8, stack, used))
		return false;
	h->start = sp;
	h->size = gs_min(stack + used - sp, LNX_WAITS_STACK);
	h->copy = copy;
	return !lnx_read(h->v, GVA(sp), copy, (size_t)h->size);
}

/* Structures on the stack that have this thread in them. */
static void look_at_stack(struct hunt *h)
{
	uint64_t hit[HITS_MAX];
	uint32_t hits = 0;

	for (uint64_t at = h->start; at + 8 <= h->start + h->size && hits < HITS_MAX; at += 8) {
		uint64_t word;

		if (hunt_local_word(h, at, &word) && word == h->task->address.a)
			hit[hits++] = at;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!knows(h->v->k, i))
			continue;
		for (uint32_t k = 0; k < hits; k++)
			kinds[i].look(h, hit[k] - hunt_offset(h, kinds[i].task));
	}
}

uint32_t lnx_waits_find(struct lnx_view *v, const struct lnx_task *task,
			const struct lnx_stack *stack, uint8_t *copy,
			struct lnx_wait waits_out[static LNX_WAITS_MAX])
{
	struct hunt h = { .v = v, .task = task, .stack = stack, .out = waits_out };
	const bool sleeps = task->state == 'S' || task->state == 'D';

	if ((!sleeps && task->state != 'I') || task->on_cpu)
		return 0;
	if (sleeps && copy_stack(&h, copy)) {
		look_at_stack(&h);
		hunt_signals(&h);
		hunt_freezer(&h);
	}
	hunt_idle(&h);
	return h.n;
}
