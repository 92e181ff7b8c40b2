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
 * it. Both note beside it what x29 was, which is where the caller's own record lies.
 */

/** Whether an address is that of such a trampoline. */
bool lnx_is_trampoline(const struct lnx_kernel *k, uint64_t address);

/**
 * The real return address.
 *
 * @param task     whose stack it is; a = 0: not known
 * @param address  of a trampoline
 * @param fp       the caller's x29
 * @return false: it could not be found, and *real_out is not written
 * Origin: kernel/trace/fgraph.c ftrace_graph_ret_addr(), kernel/kprobes.c kretprobe_find_ret_addr(), as
 * arch/arm64/kernel/stacktrace.c calls them, 5.10 to 7.3. 5.10 has kretprobes in a table of its own.
 */
bool lnx_traced_return(struct lnx_view *v, gva_t task, uint64_t address, uint64_t fp,
		       uint64_t *real_out);

#endif
