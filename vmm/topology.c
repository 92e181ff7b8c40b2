/* SPDX-License-Identifier: Apache-2.0 */
/* Which vCPU is in which cluster. */
#include "vmm/topology.h"

#include <inttypes.h>

enum gs_code vmm_topology_init(struct vmm_topology *t, uint32_t cpus, uint32_t clusters,
			       struct gs_error *err)
{
	if (cpus < 1 || cpus > VMM_CPUS_MAX)
		return gs_fail(err, GS_EINVAL, "%" PRIu32 " vCPUs: give 1 to %d", cpus,
			       VMM_CPUS_MAX);
	if (clusters < 1 || clusters > cpus)
		return gs_fail(err, GS_EINVAL,
			       "%" PRIu32 " clusters for %" PRIu32 " vCPUs: give 1 to %" PRIu32,
			       clusters, cpus, cpus);

	uint32_t per_cluster = (cpus + clusters - 1) / clusters;

	t->cpus = cpus;
	t->clusters = (cpus + per_cluster - 1) / per_cluster;
	for (uint32_t i = 0; i < cpus; i++) {
		t->cluster[i] = i / per_cluster;
		t->core[i] = i % per_cluster;
	}
	return GS_OK;
}
