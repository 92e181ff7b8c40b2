/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow call stack: who has called whom, as told by the instructions that were executed alone. */
#include "tests/e2e/steps/calls.h"

#include <string.h>

#include "introspect/linux/linux.h"

#define MSR_SP_EL0 UINT32_C(0xd5184100) /* msr sp_el0, x0 */

static struct call_chain *chain_of(struct calls *c, uint64_t task)
{
	for (uint32_t i = 0; i < c->left_count; i++)
		if (c->left[i].task == task)
			return &c->left[i];
	return NULL;
}

bool calls_knows(struct calls *c, uint64_t task)
{
	return chain_of(c, task) != NULL;
}

/* A place for a task's chain; of too many tasks the first ones are forgotten. */
static struct call_chain *new_chain(struct calls *c, uint64_t task)
{
	struct call_chain *chain = chain_of(c, task);

	if (!chain) {
		if (c->left_count == CALL_TASKS) {
			memmove(&c->left[0], &c->left[1], (CALL_TASKS - 1) * sizeof(c->left[0]));
			c->left_count--;
		}
		chain = &c->left[c->left_count++];
	}
	chain->task = task;
	chain->count = 0;
	return chain;
}

void calls_learn(struct calls *c, uint64_t task, const uint64_t *address, const uint8_t *kind,
		 uint32_t count)
{
	struct call_chain *chain = new_chain(c, task);

	for (uint32_t i = count; i-- > 0;)
		chain->call[chain->count++] =
			(struct call){ address[i], kind[i] == LNX_FRAME_INTERRUPTED };
}

void calls_begin(struct calls *c)
{
	c->is_known = true;
	c->count = 0;
}

/* With the widest addresses there are, 52 bits, the kernel's begin at 0xfff0000000000000. */
static bool is_kernel(uint64_t address)
{
	return address >> 52 == 0xfff;
}

void calls_before(struct calls *c, const struct guest_vcpu_regs *before, uint32_t word)
{
	const uint32_t x = word & 31;
	/* what sets it in entry and exit code sets the current task, or the user's */
	bool is_switch = (word & ~UINT32_C(31)) == MSR_SP_EL0 && x < 31 && c->is_known &&
			 c->count && is_kernel(before->x[x]) && before->x[x] != before->sp_el0 &&
			 is_kernel(before->sp_el0);

	c->next_task = is_switch ? before->x[x] : 0;
}

static enum calls_event switch_task(struct calls *c, uint64_t from, uint64_t to)
{
	struct call_chain *chain = new_chain(c, from);

	memcpy(chain->call, c->call, c->count * sizeof(c->call[0]));
	chain->count = c->count;
	chain = chain_of(c, to);
	c->is_known = chain != NULL;
	if (!chain)
		return CALLS_LOST;
	memcpy(c->call, chain->call, chain->count * sizeof(c->call[0]));
	c->count = chain->count;
	return CALLS_SWITCH;
}

static enum calls_event push(struct calls *c, uint64_t address, bool is_interrupted)
{
	if (c->count == CALLS_MAX) {
		c->is_known = false;
		return CALLS_LOST;
	}
	c->call[c->count++] = (struct call){ address, is_interrupted };
	return CALLS_NOTHING;
}

static enum calls_event pop(struct calls *c, uint64_t to, bool is_interrupted)
{
	if (c->count && c->call[c->count - 1].is_interrupted == is_interrupted &&
	    (is_interrupted || c->call[c->count - 1].address == to)) {
		c->count--;
		return CALLS_NOTHING;
	}
	c->is_known = false;
	return CALLS_LOST;
}

static bool is_vector(const struct guest_vcpu_regs *regs, uint64_t pc)
{
	return gs_in_range(pc, 4, regs->vbar_el1 + 0x200, 0x200);
}

/* What an instruction that was executed has done. */
static enum calls_event execute(struct calls *c, const struct guest_vcpu_regs *before,
				uint32_t word, uint64_t to)
{
	const enum a64_insn_kind kind = a64_decode(word, before->pc).kind;

	if (kind == A64_INSN_CALL || kind == A64_INSN_CALL_REG)
		return push(c, before->pc + 4, false);
	if (kind == A64_INSN_RET || kind == A64_INSN_ERET)
		return pop(c, to, kind == A64_INSN_ERET);
	return CALLS_NOTHING;
}

enum calls_event calls_after(struct calls *c, const struct guest_vcpu_regs *before, uint32_t word,
			     const struct guest_vcpu_regs *after)
{
	if (!c->is_known || a64_pstate_el(after->pstate) == 0)
		return CALLS_NOTHING;
	if (is_vector(after, after->pc) && !is_vector(before, before->pc)) {
		/* an instruction that faults, or is not reached for an interrupt, is interrupted itself */
		enum calls_event event = after->elr_el1 == before->pc
						 ? CALLS_NOTHING
						 : execute(c, before, word, after->elr_el1);
		if (!event)
			event = push(c, after->elr_el1, true);
		return event ? event : CALLS_INTERRUPT;
	}
	if (c->next_task)
		return switch_task(c, before->sp_el0, c->next_task);
	return execute(c, before, word, after->pc);
}
