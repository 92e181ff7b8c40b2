/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses that a tracer has taken away. */
#include "introspect/linux/traced.h"

#include "introspect/linux/kernel.h"

/* Bytes of a task's stack of return addresses: SHADOW_STACK_SIZE, or 50 entries of 48 bytes at most. */
#define RET_STACK_MAX 4096
#define INSTANCES_MAX 256
/* One tracer may have taken away what another has put there. */
#define DEPTH_MAX 4

bool lnx_is_trampoline(const struct lnx_kernel *k, uint64_t address)
{
	return address && (address == k->graph_trampoline || address == k->probe_trampoline);
}

static bool has(const struct lnx_kernel *k, enum lnx_member m, uint32_t size)
{
	return k->types.member[m].present && k->types.member[m].size == size;
}

/* Bytes of the stack in use: elements to the last one's number, or since 6.11 words. */
static uint64_t used(const struct lnx_kernel *k, int32_t top)
{
	const enum lnx_member last =
		has(k, LNX_M_RET_STACK_RETP, 8) ? LNX_M_RET_STACK_RETP : LNX_M_RET_STACK_FP;
	const uint64_t size = (uint64_t)lnx_field_of(k, last)->offset + 8;
	const bool is_array = k->types.member[LNX_M_RET_STACK_CALLTIME].present;

	if (top < 0)
		return 0;
	return gs_min(is_array ? ((uint64_t)top + 1) * size : (uint64_t)top * 8, RET_STACK_MAX);
}

/*
 * Since 6.11 there are elements of several sizes: so each word is tried, from the last one on. It is the
 * x29 of a function if what is beside it can be a return address.
 */
static bool find_in_graph(struct lnx_view *v, gva_t task, uint64_t fp, uint64_t *ret_out)
{
	const struct lnx_kernel *k = v->k;
	const uint32_t ret = lnx_field_of(k, LNX_M_RET_STACK_RET)->offset;
	const enum lnx_member key =
		has(k, LNX_M_RET_STACK_FP, 8) ? LNX_M_RET_STACK_FP : LNX_M_RET_STACK_RETP;
	const uint32_t at_fp = lnx_field_of(k, key)->offset;
	uint64_t stack, word;
	uint32_t top;

	if (!has(k, LNX_M_TASK_RET_STACK, 8) || !has(k, LNX_M_TASK_CURR_RET_STACK, 4) ||
	    !has(k, LNX_M_RET_STACK_RET, 8) || !has(k, key, 8) ||
	    lnx_read_u64(v, lnx_member_of(k, task, LNX_M_TASK_RET_STACK), &stack) ||
	    lnx_read_u32(v, lnx_member_of(k, task, LNX_M_TASK_CURR_RET_STACK), &top) ||
	    !lnx_is_object(k, stack))
		return false;
	for (uint64_t at = used(k, (int32_t)top) & ~UINT64_C(7); at >= 8 + (uint64_t)at_fp;
	     at -= 8) {
		const uint64_t element = stack + at - 8 - at_fp;

		if (lnx_read_u64(v, GVA(element + at_fp), &word))
			return false;
		if (word != fp || lnx_read_u64(v, GVA(element + ret), &word))
			continue;
		word = lnx_strip(k, word);
		/* functions that have gone to each other have the same x29: the first one counts */
		if (word != k->graph_trampoline && lnx_is_text(v, word)) {
			*ret_out = word;
			return true;
		}
	}
	return false;
}

static bool find_in_probes(struct lnx_view *v, gva_t task, uint64_t fp, uint64_t *ret_out)
{
	const struct lnx_kernel *k = v->k;
	const uint32_t list = lnx_field_of(k, LNX_M_KRETPROBE_LIST)->offset;
	uint64_t node, word;

	if (!has(k, LNX_M_TASK_KRETPROBES, 8) || !has(k, LNX_M_KRETPROBE_LIST, 8) ||
	    !has(k, LNX_M_KRETPROBE_RET_ADDR, 8) || !has(k, LNX_M_KRETPROBE_FP, 8) ||
	    lnx_read_u64(v, lnx_member_of(k, task, LNX_M_TASK_KRETPROBES), &node))
		return false;
	for (int i = 0; i < INSTANCES_MAX && lnx_is_object(k, node); i++) {
		const gva_t instance = GVA(node - list);

		if (lnx_read_u64(v, lnx_member_of(k, instance, LNX_M_KRETPROBE_FP), &word))
			return false;
		if (word == fp &&
		    !lnx_read_u64(v, lnx_member_of(k, instance, LNX_M_KRETPROBE_RET_ADDR), &word) &&
		    lnx_strip(k, word) != k->probe_trampoline) {
			*ret_out = lnx_strip(k, word);
			return true;
		}
		if (lnx_read_u64(v, GVA(node), &node))
			return false;
	}
	return false;
}

bool lnx_traced_return(struct lnx_view *v, gva_t task, uint64_t address, uint64_t fp,
		       uint64_t *real_out)
{
	const struct lnx_kernel *k = v->k;

	if (!task.a)
		return false;
	for (int depth = 0; depth < DEPTH_MAX && lnx_is_trampoline(k, address); depth++) {
		bool is_found = address == k->graph_trampoline
					? find_in_graph(v, task, fp, &address)
					: find_in_probes(v, task, fp, &address);
		if (!is_found)
			return false;
	}
	if (lnx_is_trampoline(k, address) || !lnx_is_text(v, address))
		return false;
	*real_out = address;
	return true;
}
