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

/* The task's stack of return addresses. */
struct graph {
	uint64_t start, used; /* bytes in use */
	uint64_t size, step;  /* of an element; from one place that may have one to the next */
	uint32_t ret, fp;     /* in an element */
};

/*
 * Up to 6.10 an array, and the number of its last element. Since 6.11 there is something of its own behind
 * each element, and the number is of words: so each word is tried.
 */
static bool read_graph(struct lnx_view *v, gva_t task, struct graph *g)
{
	const struct lnx_kernel *k = v->k;
	/* the last member; of fp and retp, which are the same, so that the other is never taken for it */
	const enum lnx_member key = k->types.member[LNX_M_RET_STACK_RETP].present
					    ? LNX_M_RET_STACK_RETP
					    : LNX_M_RET_STACK_FP;
	const bool is_array = !k->types.member[LNX_M_FGRAPH_OPS_IDX].present;
	uint32_t top;

	if (!lnx_has(k, LNX_M_TASK_RET_STACK, 8) || !lnx_has(k, LNX_M_TASK_CURR_RET_STACK, 4) ||
	    !lnx_has(k, LNX_M_RET_STACK_RET, 8) || !lnx_has(k, key, 8) ||
	    lnx_read_u64(v, lnx_member_of(k, task, LNX_M_TASK_RET_STACK), &g->start) ||
	    lnx_read_u32(v, lnx_member_of(k, task, LNX_M_TASK_CURR_RET_STACK), &top) ||
	    !lnx_is_object(k, g->start) || (int32_t)top < 0)
		return false;
	g->ret = lnx_field_of(k, LNX_M_RET_STACK_RET)->offset;
	g->fp = lnx_field_of(k, key)->offset;
	g->size = (uint64_t)g->fp + 8;
	g->step = is_array ? g->size : 8;
	g->used = is_array ? ((uint64_t)top + 1) * g->size : (uint64_t)top * 8;
	return g->used <= RET_STACK_MAX;
}

/* From the last one on. */
static bool find_in_graph(struct lnx_view *v, gva_t task, uint64_t fp, uint64_t *ret_out)
{
	struct graph g;

	if (!read_graph(v, task, &g))
		return false;
	for (uint64_t at = g.used; at >= g.size; at -= g.step) {
		const uint64_t element = g.start + at - g.size;
		uint64_t word;

		if (lnx_read_u64(v, GVA(element + g.fp), &word))
			return false;
		if (word != fp || lnx_read_u64(v, GVA(element + g.ret), &word))
			continue;
		word = lnx_strip(v->k, word);
		/* functions that have gone to each other have the same x29: the first one counts */
		if (word != v->k->graph_trampoline && lnx_is_text(v, word)) {
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

	if (!lnx_has(k, LNX_M_TASK_KRETPROBES, 8) || !lnx_has(k, LNX_M_KRETPROBE_LIST, 8) ||
	    !lnx_has(k, LNX_M_KRETPROBE_RET_ADDR, 8) || !lnx_has(k, LNX_M_KRETPROBE_FP, 8) ||
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
