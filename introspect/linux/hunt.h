/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for what a thread waits for, between the files that know kinds. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_HUNT_H
#define INTROSPECT_LINUX_HUNT_H

#include <string.h>

#include "introspect/linux/kernel.h"

#define HUNT_PREV 8 /* struct list_head: next, prev */

/* Searches of the stack's words or of a process's files for one thread, each of hundreds of reads. */
#define HUNT_SEARCHES 16

/* The thread that is looked at, and what was found so far. */
struct hunt {
	struct lnx_view *v;
	const struct lnx_task *task;
	const struct lnx_stack *stack;
	const uint8_t *copy;
	uint64_t start, size; /* of the stack that was copied */
	bool polls_nothing;   /* poll or select of no file */
	uint64_t pi_mutex;    /* of a futex that was found: its rt_mutex is the same wait */
	struct lnx_wait *out;
	uint32_t n;
	uint32_t searches; /* so far */
};

/* How the waiters of a list are told from its head. */
struct ring {
	enum lnx_member node;	/* the list_head in a waiter */
	enum lnx_member marker; /* the waiter's task, or function */
	bool is_function;
};

static inline uint64_t hunt_offset(const struct hunt *h, enum lnx_member m)
{
	return lnx_field_of(h->v->k, m)->offset;
}

static inline bool hunt_has(const struct hunt *h, enum lnx_member m)
{
	return lnx_field_of(h->v->k, m)->present;
}

/* Whether a kernel's types tell of all members in a row. */
static inline bool hunt_has_all(const struct hunt *h, enum lnx_member first, enum lnx_member last)
{
	return lnx_has_all(h->v->k, first, last);
}

/* A word of the stack; false: it is not in the copy. */
static inline bool hunt_local_word(const struct hunt *h, uint64_t at, uint64_t *value_out)
{
	if (!gs_in_range(at, sizeof(*value_out), h->start, h->size))
		return false;
	memcpy(value_out, h->copy + (at - h->start), sizeof(*value_out));
	return true;
}

/* A member, of up to 8 bytes, of a structure on the stack; false: it is not all in the copy. */
static inline bool hunt_local(const struct hunt *h, uint64_t base, enum lnx_member m,
			      uint64_t *value_out)
{
	const struct lnx_field *f = lnx_field_of(h->v->k, m);
	const uint64_t at = base + f->offset;
	const size_t size = (size_t)gs_min(f->size, sizeof(*value_out));

	*value_out = 0;
	if (!gs_in_range(at, size, h->start, h->size))
		return false;
	memcpy(value_out, h->copy + (at - h->start), size);
	return true;
}

/* A word of the kernel's memory. */
static inline bool hunt_remote(const struct hunt *h, uint64_t at, uint64_t *value_out)
{
	return lnx_is_object(h->v->k, at) && !lnx_read_u64(h->v, GVA(at), value_out);
}

/* A member that is a word, of a structure in the kernel's memory. */
static inline bool hunt_member(const struct hunt *h, uint64_t base, enum lnx_member m,
			       uint64_t *value_out)
{
	return hunt_remote(h, base + hunt_offset(h, m), value_out);
}

/* A member of 4 bytes. */
static inline bool hunt_member_u32(const struct hunt *h, uint64_t base, enum lnx_member m,
				   uint32_t *value_out)
{
	return lnx_is_object(h->v->k, base) &&
	       !lnx_read_u32(h->v, GVA(base + hunt_offset(h, m)), value_out);
}

/* Whether one more search is allowed: what a stack holds may be made up. */
static inline bool hunt_may_search(struct hunt *h)
{
	return h->searches < HUNT_SEARCHES && ++h->searches;
}

/* --- waits.c --- */

/* Add a wait unless there is no room: then it is one of very many. */
void hunt_add_wait(struct hunt *h, struct lnx_wait wait);
void hunt_add(struct hunt *h, enum lnx_wait_kind kind, uint64_t object, gva_t owner,
	      uint64_t extra);

/* Whether a word is an address in the kernel's text. */
bool hunt_is_text(const struct hunt *h, uint64_t word);

/* Whether there is a waiter around a node of a list. */
bool hunt_is_waiter(const struct hunt *h, const struct ring *r, uint64_t node);

/* Whether a list begins there that is not empty. */
bool hunt_is_head(const struct hunt *h, uint64_t head);

/* Whether a node of any list is linked from both sides, and not alone. */
bool hunt_is_linked(const struct hunt *h, uint64_t node, uint64_t next, uint64_t prev);

/* The head of the list that a waiter on the stack is on. */
bool hunt_find_head(const struct hunt *h, const struct ring *r, uint64_t waiter,
		    uint64_t *head_out);

/* Whether an inner frame is of a function with one of these beginnings, NULL at the end. */
bool hunt_is_in(const struct hunt *h, const char *const *names);

/* Whether an inner frame is of a function with one of these names, but for what a compiler adds. */
bool hunt_is_in_one(const struct hunt *h, const char *const *names);

/* Whether an address is where a function of this name begins. */
bool hunt_is_function(const struct hunt *h, uint64_t address, const char *name);

/* The task in an owner word, 0 for none; false: what is there is no task. */
bool hunt_owner(const struct hunt *h, uint64_t word, uint64_t flags, gva_t *owner_out);

/* --- wait_locks.c --- */

/*
 * The lock that a waiter on the stack waits for: around the head of its list, or, from 7.1 on, where its
 * list has no head, the one that has a waiter of this list as its first.
 *
 * @param head   the list's head in the lock, up to 7.0
 * @param first  the lock's first waiter, later
 */
bool hunt_find_lock(struct hunt *h, const struct ring *r, uint64_t waiter, enum lnx_member head,
		    enum lnx_member first, uint64_t *lock_out);

/** Whether the tree that @p root leads to has a node on the stack: its parent, or the root, leads to it. */
bool hunt_is_in_tree(const struct hunt *h, uint64_t node, uint64_t root);

void hunt_semaphore(struct hunt *h, uint64_t waiter);
void hunt_rt_mutex(struct hunt *h, uint64_t waiter);

/* --- wait_files.c --- */

/* A file of this thread: its descriptor. @return its number, or -1 */
int32_t hunt_descriptor(struct hunt *h, uint64_t file);

/*
 * What of a file a wait queue is, that poll or select waits in.
 *
 * @return its kind, LNX_WAIT_FILE if it is none of those with a kind of their own
 */
enum lnx_wait_kind hunt_file_kind(const struct hunt *h, uint64_t file, uint64_t queue,
				  uint64_t *object_out);

/* A wait queue that belongs to a file lock, or to an open file of this thread: then it is added. */
bool hunt_file_lock(struct hunt *h, uint64_t queue);
bool hunt_file(struct hunt *h, uint64_t queue);

/* --- wait_block.c --- */

/* A completion that the end of a bio completes: then that is added. */
bool hunt_block_request(struct hunt *h, uint64_t completion);

void hunt_bio(struct hunt *h, uint64_t bio);

/* A wait queue of those who wait for a free tag: then it is added. */
bool hunt_tag(struct hunt *h, uint64_t waiter, uint64_t queue);

/* What file a page is of, as far as that is sure. */
void hunt_page_file(const struct hunt *h, uint64_t page, struct lnx_wait *wait);

/* A bit that locks a buffer: then that is added. */
bool hunt_buffer(struct hunt *h, uint64_t word, uint64_t bit);

/* --- wait_timeout.c --- */

void hunt_timeout(struct hunt *h, uint64_t timer);

/* --- wait_others.c --- */

/* A wait queue that is told by the structure around the waiter, or by the thread: then it is added. */
bool hunt_special_queue(struct hunt *h, uint64_t waiter, uint64_t queue, uint64_t func);

/* Whether a completion on this stack is of one who waits for a grace period of RCU. */
bool hunt_is_grace_period(const struct hunt *h, uint64_t completion);

void hunt_receiver(struct hunt *h, uint64_t waiter);
void hunt_sender(struct hunt *h, uint64_t waiter);
void hunt_sysv_semaphore(struct hunt *h, uint64_t waiter);

/* What is told by the thread's own state: after all others. */
void hunt_signals(struct hunt *h);
void hunt_freezer(struct hunt *h);
void hunt_idle(struct hunt *h);

#endif
