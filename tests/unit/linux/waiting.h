/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a made-up guest that wait, and what is found of that: for the tests of waiting. */
#ifndef TESTS_UNIT_LINUX_WAITING_H
#define TESTS_UNIT_LINUX_WAITING_H

#include <stddef.h>

#include "introspect/linux/kernel.h"
#include "tests/unit/linux/found_kernel.h"

#define AT(type, member) offsetof(struct type, member)

extern struct lg_thread *a, *b, *owner; // processes 300, 301, 302
extern struct lnx_wait waits[LNX_WAITS_MAX];
extern uint32_t found;

void make_form(const struct lg_form *form);
void waiting_setup(void);

uint64_t *word(uint64_t va);

/** Find what a thread waits for: into waits. */
void look(const struct lg_thread *t);
void expect(const struct lg_thread *t, enum lnx_wait_kind kind, uint64_t object, uint64_t held_by,
	    uint64_t extra);
void expect_none(const struct lg_thread *t);

/** A waiter at a thread's place: the task, and the node at the end of a list. */
uint64_t wait_at(struct lg_thread *t, uint32_t slot, size_t task, size_t node, uint64_t head);

/** Have the kernel's types place a member of 8 bytes, or some in a row; every object is at least so large. */
void place(enum lnx_member m, uint32_t offset);
void place_all(enum lnx_member first, enum lnx_member last, uint32_t offset);
uint32_t at(enum lnx_member m);
uint64_t *member(uint64_t object, enum lnx_member m);

/** A waiter at a thread's place, alone in a wait queue, with the function that is to wake it. */
void queue_at(struct lg_thread *t, uint32_t slot, uint64_t queue, const char *func);

#endif
