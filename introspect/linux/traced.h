/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses that a tracer has taken away. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_TRACED_H
#define INTROSPECT_LINUX_TRACED_H

#include <stdbool.h>
#include <stdint.h>

#include "introspect/linux/linux.h"

/*
 * The function graph tracer and kretprobes replace the return address of a function at its start by
 * that of a trampoline, and keep the real one: the former on a stack of the task, the latter in a list of
 * it, or up to 5.10 in a table of all tasks. Both note beside it what x29 was, which is where the caller's
 * own record lies; kretprobes up to 5.15 what the stack pointer was instead.
 */

/** Where a call is on the stack. */
struct lnx_call_place {
	uint64_t below; /* a record of the function that was called, or farther in; 0: not known */
	uint64_t fp;	/* the caller's x29 */
};

/** Whether an address is that of such a trampoline. */
bool lnx_is_trampoline(const struct lnx_kernel *k, uint64_t address);

/**
 * The real return address.
 *
 * @param task     whose stack it is; a = 0: not known
 * @param address  of a trampoline
 * @param at       of the call that is to return there
 * @return false: it could not be found, and *real_out is not written
 * Origin: kernel/trace/fgraph.c ftrace_graph_ret_addr(), kernel/kprobes.c kretprobe_find_ret_addr(), as
 * arch/arm64/kernel/stacktrace.c calls them, 5.11 to 7.3; 5.10: kretprobe_hash_lock(),
 * arch/arm64/kernel/probes/kprobes.c arch_prepare_kretprobe(). ARM64 has no rethooks in these.
 */
bool lnx_traced_return(struct lnx_view *v, gva_t task, uint64_t address,
		       const struct lnx_call_place *at, uint64_t *real_out);

#endif
