/* SPDX-License-Identifier: Apache-2.0 */
/* What guestshot's library makes of a stopped vCPU: the backtrace that is judged. */
#include "tests/e2e/steps/backtrace.h"

#include <inttypes.h>
#include <stdio.h>

void backtrace_take(struct backtrace *b, struct lnx_view *v, const struct lnx_kernel *k,
		    const struct guest *g, const struct guest_vcpu_regs *regs)
{
	static struct lnx_task task;
	gva_t current;

	b->s = (struct lnx_stack){ .address = b->address, .kind = b->kind, .doubt = b->doubt };
	lnx_view_init(v, k, g);
	bool is_known = !lnx_vcpu_current(v, regs, &current) && !lnx_task_read(v, current, &task);
	lnx_unwind_running(v, is_known ? &task : NULL, regs, &b->s);
	b->is_idle = is_known && task.pid == 0;
}

bool backtrace_is_flagged(const struct backtrace *b)
{
	if (b->s.end != LNX_END_COMPLETE)
		return true;
	for (uint32_t i = 0; i < b->s.count; i++)
		if (b->doubt[i])
			return true;
	return false;
}

static bool is_same_function(const struct lnx_kernel *k, uint64_t a, uint64_t b)
{
	static struct lnx_symbol of_a, of_b;

	return !lnx_symbol_at(k, GVA(a), &of_a) && !lnx_symbol_at(k, GVA(b), &of_b) &&
	       of_a.start == of_b.start;
}

bool backtrace_is_recursive(const struct backtrace *b, const struct lnx_kernel *k)
{
	return b->s.count >= 2 && is_same_function(k, b->address[0], b->address[1] - 1);
}

bool backtrace_is_same_place(const struct lnx_kernel *k, bool is_interrupted, uint64_t a,
			     uint64_t b)
{
	return a == b || (is_interrupted && is_same_function(k, a, b));
}

const char *backtrace_name(const struct lnx_kernel *k, uint64_t address, bool is_exact)
{
	static struct lnx_symbol s;
	static char text[LNX_SYMBOL_MAX + 32];

	if (lnx_symbol_at(k, GVA(address - !is_exact), &s))
		snprintf(text, sizeof(text), "%#" PRIx64, address);
	else
		snprintf(text, sizeof(text), "%s+%#" PRIx64, s.name, address - s.start);
	return text;
}

void backtrace_print_beside(const struct backtrace *b, const struct lnx_kernel *k, uint32_t i,
			    uint64_t judge, bool is_exact)
{
	const bool is_there = i < b->s.count;

	printf("#   %-44s", is_there ? backtrace_name(k, b->address[i], b->kind[i] & 1) : "-");
	printf(" %-10s",
	       is_there && b->doubt[i] ? lnx_doubt_name((enum lnx_doubt)b->doubt[i]) : "");
	printf(" %s\n", judge ? backtrace_name(k, judge, is_exact) : "");
}
