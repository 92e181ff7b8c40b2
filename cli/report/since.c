/* SPDX-License-Identifier: Apache-2.0 */
/* How long threads have not been executed, as far as one capture tells. */
#include "cli/report/since.h"

#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"

bool rep_has_run_time(const struct rep_thread *t)
{
	const uint32_t both = LNX_TASK_HAS_LAST_RUN | LNX_TASK_HAS_CPU;

	return t->has_linux && (t->linux_facts.known & both) == both;
}

void rep_since_init(struct rep_since *s, const struct rep_capture *c)
{
	memset(s, 0, sizeof(*s));
	for (size_t i = 0; i < c->thread_count; i++) {
		const struct ss_thread_record *r = &c->threads[i].linux_facts;

		/* clocks of different CPUs cannot be compared: one without a place is left out */
		if (rep_has_run_time(&c->threads[i]) && r->cpu < REP_SINCE_CPUS)
			s->newest_ns[r->cpu] = gs_max(s->newest_ns[r->cpu], r->exec_start_ns);
	}
}

bool rep_since_run(const struct rep_since *s, const struct rep_thread *t, uint64_t *ns_out)
{
	const struct ss_thread_record *r = &t->linux_facts;

	if (!rep_has_run_time(t) || r->vcpu >= 0 || r->state == 'R' || r->cpu >= REP_SINCE_CPUS)
		return false;
	*ns_out = s->newest_ns[r->cpu] - r->exec_start_ns;
	return true;
}
