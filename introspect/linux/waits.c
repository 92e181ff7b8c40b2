/* SPDX-License-Identifier: Apache-2.0 */
/* Why a thread is blocked: the waiter structures on its kernel stack. */
#include <string.h>

#include "introspect/linux/kernel.h"

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
#define RWSEM_OWNER_FLAGS  UINT64_C(7) /* 5.10 has three bits, later kernels two */
#define RWSEM_FLAG_WAITERS UINT64_C(2) /* of the count */
#define RWSEM_TYPE_WRITE   0	       /* enum rwsem_waiter_type: RWSEM_WAITING_FOR_WRITE */
#define FUT_OFF_INODE	   UINT64_C(1) /* include/linux/futex.h: low bits of a key's offset */
#define FUT_OFF_FLAGS	   UINT64_C(3)
#define TIMER_ENQUEUED	   1	       /* HRTIMER_STATE_ENQUEUED */
#define RB_FLAGS	   UINT64_C(3) /* colour, in the parent's word of a struct rb_node */
#define PREV		   8	       /* struct list_head: next, prev */

struct hunt {
	struct lnx_view *v;
	const struct lnx_task *task;
	const struct lnx_stack *stack;
	const uint8_t *copy;
	uint64_t start, size; /* of the stack that was copied */
	struct lnx_wait *out;
	uint32_t n;
};

static uint64_t offset_of(const struct hunt *h, enum lnx_member m)
{
	return h->v->k->types.member[m].offset;
}

static bool has_all(const struct lnx_kernel *k, enum lnx_member first, enum lnx_member last)
{
	for (size_t m = first; m <= (size_t)last; m++)
		if (!k->types.member[m].present)
			return false;
	return true;
}

/* A member, of up to 8 bytes, of a structure on the stack; false: it is not all in the copy. */
static bool local(const struct hunt *h, uint64_t base, enum lnx_member m, uint64_t *value_out)
{
	const struct lnx_field *f = &h->v->k->types.member[m];
	const uint64_t at = base + f->offset;
	const size_t size = (size_t)gs_min(f->size, sizeof(*value_out));

	*value_out = 0;
	if (!gs_in_range(at, size, h->start, h->size))
		return false;
	memcpy(value_out, h->copy + (at - h->start), size);
	return true;
}

static bool local_word(const struct hunt *h, uint64_t at, uint64_t *value_out)
{
	if (!gs_in_range(at, sizeof(*value_out), h->start, h->size))
		return false;
	memcpy(value_out, h->copy + (at - h->start), sizeof(*value_out));
	return true;
}

static bool remote(const struct hunt *h, uint64_t at, uint64_t *value_out)
{
	return lnx_is_object(h->v->k, at) && !lnx_read_u64(h->v, GVA(at), value_out);
}

/* Add a wait unless there is no room: then it is one of very many. */
static void add(struct hunt *h, enum lnx_wait_kind kind, uint64_t object, gva_t owner,
		uint64_t extra)
{
	if (h->n < LNX_WAITS_MAX)
		h->out[h->n++] = (struct lnx_wait){ kind, object, owner, extra };
}

/* --- lists --- */

/* How the waiters of a list are told from its head. */
struct ring {
	enum lnx_member node;	/* the list_head in a waiter */
	enum lnx_member marker; /* the waiter's task, or function */
	bool is_function;
};

static bool is_text_word(const struct hunt *h, uint64_t word)
{
	/* lnx_is_text() would count the failed translation of what is no address */
	return lnx_is_object(h->v->k, word & ~UINT64_C(7)) && lnx_is_text(h->v, word);
}

/*
 * Whether there is a waiter around a node: it lies on the stack of the task that it names, or, where
 * others may own the waiters, it names a function. Behind a head is neither.
 */
static bool is_waiter(const struct hunt *h, const struct ring *r, uint64_t node)
{
	const struct lnx_kernel *k = h->v->k;
	uint64_t marker, stack;

	if (!remote(h, node - offset_of(h, r->node) + offset_of(h, r->marker), &marker))
		return false;
	if (r->is_function)
		return is_text_word(h, marker);
	return lnx_is_object(k, marker) &&
	       remote(h, marker + offset_of(h, LNX_M_TASK_STACK), &stack) &&
	       gs_in_range(node, 16, stack, k->thread_size);
}

/* Whether a node of any list is linked from both sides, and not alone. */
static bool is_linked(const struct hunt *h, uint64_t node, uint64_t next, uint64_t prev)
{
	uint64_t back, forth;

	return next != node && prev != node && remote(h, next + PREV, &back) && back == node &&
	       remote(h, prev, &forth) && forth == node;
}

static bool is_head(const struct hunt *h, uint64_t head)
{
	uint64_t next, prev;

	return remote(h, head, &next) && remote(h, head + PREV, &prev) &&
	       is_linked(h, head, next, prev);
}

/* The first node that is no waiter, from @p at on. @p way: 0 forwards, PREV backwards */
static bool walk_to_head(const struct hunt *h, const struct ring *r, uint64_t node, uint64_t at,
			 uint64_t way, uint64_t *head_out)
{
	for (uint32_t i = 0; i < WALK_MAX && at != node; i++) {
		if (!is_waiter(h, r, at)) {
			*head_out = at;
			return is_head(h, at);
		}
		if (!remote(h, at + way, &at))
			return false;
	}
	return false;
}

/* The head of the list that a waiter on the stack is on. */
static bool find_head(const struct hunt *h, const struct ring *r, uint64_t waiter,
		      uint64_t *head_out)
{
	const uint64_t node = waiter + offset_of(h, r->node);
	uint64_t next, prev;

	if (!local_word(h, node, &next) || !local_word(h, node + PREV, &prev) ||
	    !is_linked(h, node, next, prev))
		return false;
	return walk_to_head(h, r, node, next, 0, head_out) ||
	       walk_to_head(h, r, node, prev, PREV, head_out);
}

/* --- evidence --- */

/* Whether an inner frame is of a function with one of these beginnings, NULL at the end. */
static bool is_in(const struct hunt *h, const char *const *names)
{
	struct lnx_symbol s;

	for (uint32_t i = 0; i < h->stack->count && i < NAMED_FRAMES; i++) {
		/* the return address may be of the next function already */
		if (lnx_symbol_at(h->v->k, GVA(h->stack->address[i] - 1), &s))
			continue;
		for (const char *const *name = names; *name; name++)
			if (!strncmp(s.name, *name, strlen(*name)))
				return true;
	}
	return false;
}

/* The task in an owner word, 0 for none; false: what is there is no task. */
static bool owner_of(const struct hunt *h, uint64_t word, uint64_t flags, gva_t *owner_out)
{
	struct lnx_task t;

	*owner_out = GVA(word & ~flags);
	if (!owner_out->a)
		return true;
	return !lnx_task_read(h->v, *owner_out, &t) && t.comm[0] && t.pid &&
	       lnx_is_object(h->v->k, t.stack.a);
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
	uint64_t head, word;
	gva_t owner;

	if (!find_head(h, &ring, waiter, &head))
		return;
	const uint64_t mutex = head - offset_of(h, LNX_M_MUTEX_WAIT_LIST);
	if (remote(h, mutex + offset_of(h, LNX_M_MUTEX_OWNER), &word) &&
	    (word & MUTEX_FLAG_WAITERS) && owner_of(h, word, MUTEX_FLAGS, &owner) &&
	    is_in(h, names))
		add(h, LNX_WAIT_MUTEX, mutex, owner, word);
}

static void try_rwsem(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "rwsem_down_", "down_read",    "down_write",
					     "__down_read", "__down_write", NULL };
	static const struct ring ring = { LNX_M_RWSEM_WAITER_LIST, LNX_M_RWSEM_WAITER_TASK, false };
	uint64_t head, word, count, type;
	gva_t owner = GVA(0);

	if (!local(h, waiter, LNX_M_RWSEM_WAITER_TYPE, &type) || type > 1 ||
	    !find_head(h, &ring, waiter, &head))
		return;
	const uint64_t sem = head - offset_of(h, LNX_M_RWSEM_WAIT_LIST);
	if (!remote(h, sem + offset_of(h, LNX_M_RWSEM_COUNT), &count) ||
	    !(count & RWSEM_FLAG_WAITERS) ||
	    !remote(h, sem + offset_of(h, LNX_M_RWSEM_OWNER), &word))
		return;
	/* of readers the word has one that came last, and may have gone: nobody to wait for */
	if (!(word & LNX_RWSEM_READER_OWNED) && !owner_of(h, word, RWSEM_OWNER_FLAGS, &owner))
		return;
	if (is_in(h, names))
		add(h, type == RWSEM_TYPE_WRITE ? LNX_WAIT_RWSEM_WRITE : LNX_WAIT_RWSEM_READ, sem,
		    owner, word);
}

/* Other queues of this kind are the kernel's own: that it is in a completion, functions say. */
static void try_completion(struct hunt *h, uint64_t waiter)
{
	static const char *const names[] = { "wait_for_completion", "__wait_for_common",
					     "wait_for_common", "do_wait_for_common", NULL };
	static const struct ring ring = { LNX_M_SWAIT_LIST, LNX_M_SWAIT_TASK, false };
	uint64_t head, done;

	if (!find_head(h, &ring, waiter, &head))
		return;
	const uint64_t completion =
		head - offset_of(h, LNX_M_SWAIT_HEAD_LIST) - offset_of(h, LNX_M_COMPLETION_WAIT);
	if (remote(h, completion + offset_of(h, LNX_M_COMPLETION_DONE), &done) && !(uint32_t)done &&
	    is_in(h, names))
		add(h, LNX_WAIT_COMPLETION, completion, GVA(0), 0);
}

static void try_queue(struct hunt *h, uint64_t waiter)
{
	static const struct ring ring = { LNX_M_WAIT_ENTRY, LNX_M_WAIT_FUNC, true };
	uint64_t head, func;

	if (local(h, waiter, LNX_M_WAIT_FUNC, &func) && is_text_word(h, func) &&
	    find_head(h, &ring, waiter, &head))
		add(h, LNX_WAIT_QUEUE, head - offset_of(h, LNX_M_WAIT_HEAD_LIST), GVA(0), func);
}

/* One of poll's entries: these name the structure on the stack instead of the task, and their queue. */
static void try_poll_entry(struct hunt *h, uint64_t poll, uint64_t entry)
{
	const uint64_t waiter = entry + offset_of(h, LNX_M_POLL_WAIT);
	const uint64_t node = waiter + offset_of(h, LNX_M_WAIT_ENTRY);
	uint64_t private, func, next, prev, queue;

	if (local(h, waiter, LNX_M_WAIT_PRIVATE, &private) && private == poll &&
	    local(h, waiter, LNX_M_WAIT_FUNC, &func) && is_text_word(h, func) &&
	    local_word(h, node, &next) && local_word(h, node + PREV, &prev) &&
	    is_linked(h, node, next, prev) && local(h, entry, LNX_M_POLL_ADDRESS, &queue) &&
	    is_head(h, queue + offset_of(h, LNX_M_WAIT_HEAD_LIST)))
		add(h, LNX_WAIT_QUEUE, queue, GVA(0), func);
}

/* The entries that are on the stack: of poll() and select() of many files further ones are elsewhere. */
static void try_poll(struct hunt *h, uint64_t poll)
{
	/* the queue's address is the last member (include/linux/poll.h, 5.10 to 7.3) */
	const uint64_t size = offset_of(h, LNX_M_POLL_ADDRESS) + sizeof(uint64_t);
	const uint64_t room = h->v->k->types.member[LNX_M_POLL_ENTRIES].size;
	uint64_t count;

	if (room % size || !local(h, poll, LNX_M_POLL_COUNT, &count) || count > room / size)
		return;
	for (uint64_t i = 0; i < count; i++)
		try_poll_entry(h, poll, poll + offset_of(h, LNX_M_POLL_ENTRIES) + i * size);
}

/* The bucket's lock says where the head is: nothing is walked. */
static bool is_in_bucket(const struct hunt *h, uint64_t q)
{
	const uint64_t node = q + offset_of(h, LNX_M_FUTEX_LIST);
	uint64_t next, prev, lock;

	return local_word(h, node, &next) && local_word(h, node + PREV, &prev) &&
	       is_linked(h, node, next, prev) && local(h, q, LNX_M_FUTEX_LOCK_PTR, &lock) &&
	       is_head(h, lock - offset_of(h, LNX_M_FUTEX_BUCKET_LOCK) +
				  offset_of(h, LNX_M_FUTEX_BUCKET_CHAIN));
}

static void try_futex(struct hunt *h, uint64_t q)
{
	uint64_t ptr, word, offset;

	if (!local(h, q, LNX_M_FUTEX_KEY_PTR, &ptr) || !local(h, q, LNX_M_FUTEX_KEY_WORD, &word) ||
	    !local(h, q, LNX_M_FUTEX_KEY_OFFSET, &offset) || !is_in_bucket(h, q))
		return;
	const uint64_t in_page = offset & ~FUT_OFF_FLAGS;
	const uint64_t page = lnx_kernel_info_get(h->v->k).page_size;

	if (in_page >= page)
		return;
	/* a key is {mm, address of the page, offset}, or {number of the file, page in it, offset} */
	if (offset & FUT_OFF_INODE)
		add(h, LNX_WAIT_FUTEX_SHARED, word * page + in_page, GVA(0), ptr);
	else if (ptr && ptr == h->task->mm.a)
		add(h, LNX_WAIT_FUTEX, word + in_page, GVA(0), 0);
}

/* Timers are in a tree: the parent, or the root, leads to the node. */
static void try_timer(struct hunt *h, uint64_t sleeper)
{
	const uint64_t node = sleeper + offset_of(h, LNX_M_SLEEPER_NODE);
	uint64_t state, parent, base, expires, one, other;

	if (!local(h, sleeper, LNX_M_SLEEPER_STATE, &state) || state != TIMER_ENQUEUED ||
	    !local_word(h, node, &parent) || !local(h, sleeper, LNX_M_SLEEPER_BASE, &base) ||
	    !local(h, sleeper, LNX_M_SLEEPER_EXPIRES, &expires))
		return;
	parent &= ~RB_FLAGS;
	/* struct rb_node: parent and colour, right, left */
	if (parent && (!remote(h, parent + 8, &one) || !remote(h, parent + 16, &other)))
		return;
	if (!parent && !remote(h, base + offset_of(h, LNX_M_CLOCK_BASE_ROOT), &one))
		return;
	if (one == node || (parent && other == node))
		add(h, LNX_WAIT_TIMER, node, GVA(0), expires);
}

static const struct {
	enum lnx_member first, last; /* members that it takes */
	enum lnx_member task;
	void (*look)(struct hunt *h, uint64_t structure);
} kinds[] = {
	{ LNX_M_MUTEX_WAITER_LIST, LNX_M_MUTEX_WAIT_LIST, LNX_M_MUTEX_WAITER_TASK, try_mutex },
	{ LNX_M_RWSEM_WAITER_LIST, LNX_M_RWSEM_WAIT_LIST, LNX_M_RWSEM_WAITER_TASK, try_rwsem },
	{ LNX_M_SWAIT_TASK, LNX_M_COMPLETION_WAIT, LNX_M_SWAIT_TASK, try_completion },
	{ LNX_M_WAIT_PRIVATE, LNX_M_WAIT_HEAD_LIST, LNX_M_WAIT_PRIVATE, try_queue },
	{ LNX_M_FUTEX_LIST, LNX_M_FUTEX_BUCKET_CHAIN, LNX_M_FUTEX_TASK, try_futex },
	{ LNX_M_SLEEPER_TASK, LNX_M_CLOCK_BASE_ROOT, LNX_M_SLEEPER_TASK, try_timer },
	/* last: there may be many */
	{ LNX_M_WAIT_PRIVATE, LNX_M_POLL_ADDRESS, LNX_M_POLL_TASK, try_poll },
};

bool lnx_knows_waits(const struct lnx_kernel *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (has_all(k, kinds[i].first, kinds[i].last))
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

uint32_t lnx_waits_find(struct lnx_view *v, const struct lnx_task *task,
			const struct lnx_stack *stack, uint8_t *copy,
			struct lnx_wait waits_out[static LNX_WAITS_MAX])
{
	struct hunt h = { .v = v, .task = task, .stack = stack, .out = waits_out };
	uint64_t hit[HITS_MAX];
	uint32_t hits = 0;

	if ((task->state != 'S' && task->state != 'D') || task->on_cpu || !copy_stack(&h, copy))
		return 0;
	for (uint64_t at = 0; at + 8 <= h.size && hits < HITS_MAX; at += 8) {
		uint64_t word;

		memcpy(&word, copy + at, sizeof(word));
		if (word == task->address.a)
			hit[hits++] = h.start + at;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		for (uint32_t k = 0; k < hits && has_all(v->k, kinds[i].first, kinds[i].last); k++)
			kinds[i].look(&h, hit[k] - offset_of(&h, kinds[i].task));
	return h.n;
}
