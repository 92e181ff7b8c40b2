/* SPDX-License-Identifier: Apache-2.0 */
/* What processes of a made-up guest have in user mode. */
#include "tests/unit/linux/user_memory.h"

#include <check.h>
#include <string.h>

#define USER_PAGE    UINT64_C(0x20000000000f43) // valid, user, not global, no execution in the kernel
#define PAGE_ADDRESS UINT64_C(0xfffffffff000)

/* With pages of 4 KiB. */
static uint8_t *byte_at(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	uint64_t *entry = lg_entry(g, lg_directory(g, mm), va);

	ck_assert_uint_eq(g->page, 4096);
	if (!*entry)
		*entry = lg_pages(g, 1) | USER_PAGE;
	return (uint8_t *)lg_at(g, *entry & PAGE_ADDRESS) + va % 4096;
}

uint64_t *um_word(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	ck_assert_uint_eq(va % 8, 0);
	return (uint64_t *)(void *)byte_at(g, mm, va);
}

void um_insn(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, uint32_t word)
{
	memcpy(byte_at(g, mm, va), &word, sizeof(word));
}

void um_unmap(struct linux_guest *g, const struct lg_mm *mm, uint64_t va)
{
	// a swap entry: not valid, but not 0 either
	*lg_entry(g, lg_directory(g, mm), va) = 0x1234500;
}

void um_record(struct linux_guest *g, const struct lg_mm *mm, uint64_t fp, uint64_t next,
	       uint64_t lr)
{
	*um_word(g, mm, fp) = next;
	*um_word(g, mm, fp + 8) = lr;
}

struct lg_regs *um_saved(struct linux_guest *g, struct lg_thread *t)
{
	const size_t size = g->form.meta ? LG_REGS_META_SIZE : LG_REGS_SIZE;

	ck_assert_ptr_nonnull(t->stack_bytes);
	return (struct lg_regs *)(void *)(t->stack_bytes + LG_STACK - size);
}

void um_enter(struct linux_guest *g, struct lg_thread *t, uint64_t pc, uint64_t fp, uint64_t lr)
{
	struct lg_regs *r = um_saved(g, t);

	r->pc = pc;
	r->regs[29] = fp;
	r->regs[30] = lr;
	r->pstate = 0;
}
