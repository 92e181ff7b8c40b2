/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of a made-up guest that wait, and what is found of that. */
#include "tests/unit/linux/waiting.h"

#include <check.h>

static struct lnx_view view;
struct lg_thread *a, *b, *owner;
struct lnx_wait waits[LNX_WAITS_MAX];
uint32_t found;

void make_form(const struct lg_form *form)
{
	make(form);
	a = lg_add_process(&made.g, 300, "first");
	b = lg_add_process(&made.g, 301, "second");
	owner = lg_add_process(&made.g, 302, "owner");
	ck_assert_msg(find(NULL) == GS_OK, "%s", made.err.text);
	lnx_view_init(&view, made.k, &made.g.m.guest);
}

void waiting_setup(void)
{
	make_form(&(struct lg_form){ .seqs = true });
}

uint64_t *word(uint64_t va)
{
	return lg_word(&made.g, va);
}

void look(const struct lg_thread *t)
{
	static uint8_t copy[LNX_WAITS_STACK] __attribute__((aligned(8)));
	static uint64_t frames[LNX_FRAMES_MAX];
	static uint8_t frame_kinds[LNX_FRAMES_MAX];
	struct lnx_stack stack = { .address = frames, .kind = frame_kinds };
	struct lnx_task task;

	ck_assert_int_eq(lnx_task_read(&view, GVA(t->address), &task), GS_OK);
	lnx_unwind_blocked(&view, &task, &stack);
	found = lnx_waits_find(&view, &task, &stack, copy, waits);
	ck_assert_uint_le(found, LNX_WAITS_MAX);
}

void expect(const struct lg_thread *t, enum lnx_wait_kind kind, uint64_t object, uint64_t held_by,
	    uint64_t extra)
{
	look(t);
	ck_assert_uint_eq(found, 1);
	ck_assert_uint_eq(waits[0].kind, kind);
	ck_assert_uint_eq(waits[0].object, object);
	ck_assert_uint_eq(waits[0].owner.a, held_by);
	ck_assert_uint_eq(waits[0].extra, extra);
}

void expect_none(const struct lg_thread *t)
{
	look(t);
	ck_assert_uint_eq(found, 0);
}

/* A waiter at a thread's place: the task, and the node at the end of a list. */
uint64_t wait_at(struct lg_thread *t, uint32_t slot, size_t task, size_t node, uint64_t head)
{
	uint64_t at = lg_slot(t, slot);

	*word(at + task) = t->address;
	lg_list_add(&made.g, head, at + node);
	return at;
}

void place(enum lnx_member m, uint32_t offset)
{
	made.k->types.member[m] = (struct lnx_field){ true, offset, 8 };
}

void place_all(enum lnx_member first, enum lnx_member last, uint32_t offset)
{
	for (size_t m = first; m <= (size_t)last; m++, offset += 8)
		place((enum lnx_member)m, offset);
}

uint32_t at(enum lnx_member m)
{
	return made.k->types.member[m].offset;
}

uint64_t *member(uint64_t object, enum lnx_member m)
{
	return word(object + at(m));
}

void queue_at(struct lg_thread *t, uint32_t slot, uint64_t queue, const char *func)
{
	lg_list_init(&made.g, queue + AT(lg_wait_head, head));
	const uint64_t waiter = wait_at(t, slot, AT(lg_wait_entry, private),
					AT(lg_wait_entry, entry), queue + AT(lg_wait_head, head));
	*word(waiter + AT(lg_wait_entry, func)) = lg_symbol(&made.g, func);
}
