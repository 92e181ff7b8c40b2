/* SPDX-License-Identifier: Apache-2.0 */
/* Return addresses that a tracer has taken away. */
#include "introspect/linux/traced.h"

#include "introspect/linux/kernel.h"

/* Bytes of a task's stack of return addresses: SHADOW_STACK_SIZE, or 50 entries of 48 bytes at most. */
#define RET_STACK_MAX 4096
#define INSTANCES_MAX 256
/* Up to 5.10: KPROBE_HASH_BITS (kernel/kprobes.c), GOLDEN_RATIO_64 (include/linux/hash.h). */
#define TABLE_BITS  6
#define HASH_FACTOR UINT64_C(0x61c8864680b583eb)
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

/* --- kretprobes --- */

/* A list of instances, newest first. */
struct instances {
	uint64_t first;
	uint32_t node;	/* in an instance: what leads to the next one, at 0 in it */
	bool is_shared; /* with other tasks */
};

/* 5.10 has all tasks' instances in one table of lists; hash_ptr() says in which list a task's are. */
static bool begin_shared(struct lnx_view *v, gva_t task, struct instances *list)
{
	const struct lnx_kernel *k = v->k;
	const uint64_t table = k->variable[LNX_V_KRETPROBES].a;
	const uint64_t hash = task.a * HASH_FACTOR >> (64 - TABLE_BITS);

	if (!table || !lnx_has(k, LNX_M_KRETPROBE_HLIST, 16) ||
	    !lnx_has(k, LNX_M_KRETPROBE_TASK, 8))
		return false;
	list->node = lnx_field_of(k, LNX_M_KRETPROBE_HLIST)->offset;
	list->is_shared = true;
	return !lnx_read_u64(v, GVA(table + 8 * hash), &list->first);
}

static bool begin_instances(struct lnx_view *v, gva_t task, struct instances *list)
{
	const struct lnx_kernel *k = v->k;

	if (!lnx_has(k, LNX_M_KRETPROBE_RET_ADDR, 8) || !lnx_has(k, LNX_M_KRETPROBE_FP, 8))
		return false;
	if (!lnx_has(k, LNX_M_TASK_KRETPROBES, 8))
		return begin_shared(v, task, list);
	if (!lnx_has(k, LNX_M_KRETPROBE_LIST, 8))
		return false;
	list->node = lnx_field_of(k, LNX_M_KRETPROBE_LIST)->offset;
	list->is_shared = false;
	return !lnx_read_u64(v, lnx_member_of(k, task, LNX_M_TASK_KRETPROBES), &list->first);
}

/* Whether an instance is one of the task, and what it notes of where the call is. */
static bool read_instance(struct lnx_view *v, const struct instances *list, gva_t instance,
			  gva_t task, uint64_t *fp_out, uint64_t *ret_out)
{
	const struct lnx_kernel *k = v->k;
	uint64_t of = task.a;

	if ((list->is_shared &&
	     lnx_read_u64(v, lnx_member_of(k, instance, LNX_M_KRETPROBE_TASK), &of)) ||
	    of != task.a ||
	    lnx_read_u64(v, lnx_member_of(k, instance, LNX_M_KRETPROBE_FP), fp_out) ||
	    lnx_read_u64(v, lnx_member_of(k, instance, LNX_M_KRETPROBE_RET_ADDR), ret_out))
		return false;
	*ret_out = lnx_strip(k, *ret_out);
	/* of several probes of one function the oldest has the return address, the others each other's */
	return *ret_out != k->probe_trampoline;
}

/*
 * An instance notes the caller's x29, or up to 5.15 its stack pointer: that is no higher than the record
 * that x29 leads to, and above all of the function's own. Of those in between the newest counts.
 */
static bool find_in_probes(struct lnx_view *v, gva_t task, const struct lnx_call_place *at,
			   uint64_t *ret_out)
{
	struct instances list;
	bool is_found = false;

	if (!begin_instances(v, task, &list))
		return false;
	uint64_t node = list.first;
	for (int i = 0; i < INSTANCES_MAX && lnx_is_object(v->k, node); i++) {
		uint64_t fp, ret;

		if (read_instance(v, &list, GVA(node - list.node), task, &fp, &ret)) {
			const bool is_between = fp < at->fp && fp > at->below;

			if (fp == at->fp || (is_between && !is_found))
				*ret_out = ret;
			is_found |= is_between;
			if (fp == at->fp)
				return true;
		}
		if (lnx_read_u64(v, GVA(node), &node))
			break;
	}
	return is_found;
}

bool lnx_traced_return(struct lnx_view *v, gva_t task, uint64_t address,
		       const struct lnx_call_place *at, uint64_t *real_out)
{
	const struct lnx_kernel *k = v->k;

	if (!task.a)
		return false;
	for (int depth = 0; depth < DEPTH_MAX && lnx_is_trampoline(k, address); depth++) {
		bool is_found = address == k->graph_trampoline
					? find_in_graph(v, task, at->fp, &address)
					: find_in_probes(v, task, at, &address);
		if (!is_found)
			return false;
	}
	if (lnx_is_trampoline(k, address) || !lnx_is_text(v, address))
		return false;
	*real_out = address;
	return true;
}
