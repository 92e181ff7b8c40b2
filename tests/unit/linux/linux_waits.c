/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a made-up guest that wait for something. */
#include <stddef.h>

#include <check.h>

#include "tests/unit/linux/linux_guest.h"

#define DEPTH 0x1000 /* of the saved stack pointer: far below the frames */

void lg_sleep(struct linux_guest *g, struct lg_thread *t, const char *function)
{
	lg_block(g, t,
		 (const char *const[]){ "el0t_64_sync", "el0_svc", "vfs_read", function, "schedule",
					NULL });
	t->task->sp = t->stack + DEPTH;
	t->task->state = 2;
	for (uint64_t at = t->task->sp; at < lg_slot(t, LG_SLOTS); at += 8)
		*lg_word(g, at) = 0;
}

uint64_t lg_slot(const struct lg_thread *t, uint32_t i)
{
	return t->stack + DEPTH + 0x100 + (uint64_t)i * LG_SLOT;
}

uint64_t lg_object(struct linux_guest *g)
{
	return lg_linear(g, lg_pages(g, 1)) + 0x100;
}

void lg_list_init(struct linux_guest *g, uint64_t head)
{
	*lg_word(g, head) = *lg_word(g, head + 8) = head;
}

void lg_list_add(struct linux_guest *g, uint64_t head, uint64_t node)
{
	uint64_t last = *lg_word(g, head + 8);

	*lg_word(g, node) = head;
	*lg_word(g, node + 8) = last;
	*lg_word(g, last) = node;
	*lg_word(g, head + 8) = node;
}

uint64_t lg_mutex_make(struct linux_guest *g, uint64_t word)
{
	uint64_t mutex = lg_object(g);

	lg_list_init(g, mutex + offsetof(struct lg_mutex, wait_list));
	*lg_word(g, mutex + offsetof(struct lg_mutex, owner)) = word;
	return mutex;
}

void lg_mutex_wait(struct linux_guest *g, uint64_t mutex, struct lg_thread *t)
{
	uint64_t waiter = lg_slot(t, 0);

	lg_sleep(g, t, "__mutex_lock.constprop.0");
	*lg_word(g, waiter + offsetof(struct lg_mutex_waiter, task)) = t->address;
	lg_list_add(g, mutex + offsetof(struct lg_mutex, wait_list),
		    waiter + offsetof(struct lg_mutex_waiter, list));
}
