/* SPDX-License-Identifier: Apache-2.0 */
/* What a CPU executes, as its run queue says. */
#include "introspect/linux/kernel.h"

enum gs_code lnx_cpu_is_idle(struct lnx_view *v, uint64_t tpidr_el1, bool *idle_out)
{
	gva_t rq, idle;
	uint64_t curr;

	if (!lnx_field_of(v->k, LNX_M_RQ_CURR)->present || lnx_runqueue(v, tpidr_el1, &rq, &idle))
		return GS_ENOENT;
	if (lnx_read_u64(v, lnx_member_of(v->k, rq, LNX_M_RQ_CURR), &curr))
		return GS_EFAULT;
	*idle_out = curr == idle.a;
	return GS_OK;
}
