/* SPDX-License-Identifier: Apache-2.0 */
/* What a CPU executes, as its run queue says. */
#include "introspect/linux/kernel.h"

enum gs_code lnx_cpu_is_idle(struct lnx_view *v, uint64_t tpidr_el1, bool *idle_out)
{
	const struct lnx_kernel *k = v->k;
	const struct lnx_field *idle = lnx_field_of(k, LNX_M_RQ_IDLE);
	const struct lnx_field *curr = lnx_field_of(k, LNX_M_RQ_CURR);
	gva_t task;

	if (!idle->present || !curr->present || lnx_idle_task(v, tpidr_el1, &task))
		return GS_ENOENT;
	for (uint32_t i = 0; i < k->runqueues_count; i++) {
		uint64_t rq = k->runqueues[i].a + tpidr_el1, value;

		/* of the places that may be the run queue, the one that lnx_idle_task() believed */
		if (lnx_read_u64(v, GVA(rq + idle->offset), &value) || value != task.a)
			continue;
		if (lnx_read_u64(v, GVA(rq + curr->offset), &value))
			return GS_EFAULT;
		*idle_out = value == task.a;
		return GS_OK;
	}
	return GS_ENOENT;
}
