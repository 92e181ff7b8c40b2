/* SPDX-License-Identifier: Apache-2.0 */
/* A guest made of the caller's own buffers and register values. */
#include "introspect/guest/memory_guest.h"

static enum gs_code memory_stop(void *priv, struct gs_error *err)
{
	struct memory_guest *m = priv;

	(void)err; /* cannot fail: nothing runs */
	m->stop_depth++;
	return GS_OK;
}

static enum gs_code memory_resume(void *priv, struct gs_error *err)
{
	struct memory_guest *m = priv;

	if (m->stop_depth == 0)
		return gs_fail(err, GS_EBUSY, "resume without a stop");
	m->stop_depth--;
	return GS_OK;
}

static enum gs_code memory_vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out)
{
	struct memory_guest *m = priv;

	*regs_out = m->regs[vcpu];
	return GS_OK;
}

static const struct guest_ops memory_ops = {
	.stop = memory_stop,
	.resume = memory_resume,
	.vcpu_regs = memory_vcpu_regs,
};

void memory_guest_init(struct memory_guest *m, uint32_t vcpus)
{
	*m = (struct memory_guest){ 0 };
	m->guest = (struct guest){
		.ops = &memory_ops,
		.priv = m,
		.source = "memory",
		.ranges = m->ranges,
		.vcpu_count = (uint32_t)gs_min(vcpus, MEMORY_GUEST_VCPUS_MAX),
		.cluster_count = 1,
		.vcpu_cluster = m->clusters,
	};
	for (uint32_t i = 0; i < m->guest.vcpu_count; i++) {
		m->regs[i].valid = GUEST_REGS_ALL;
		m->regs[i].state = GUEST_VCPU_ON;
	}
}

enum gs_code memory_guest_add(struct memory_guest *m, gpa_t start, const void *host, uint64_t size)
{
	struct guest *g = &m->guest;

	if (g->range_count == MEMORY_GUEST_RANGES_MAX)
		return GS_ENOSPC;
	if (size == 0 || !host || size - 1 > ~start.a)
		return GS_EINVAL;
	if (g->range_count) {
		const struct guest_range *last = &m->ranges[g->range_count - 1];

		if (start.a <= last->start.a || start.a - last->start.a < last->size)
			return GS_EINVAL;
	}
	m->ranges[g->range_count++] = (struct guest_range){ start, size, host };
	return GS_OK;
}
