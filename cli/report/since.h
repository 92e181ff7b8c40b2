/* SPDX-License-Identifier: Apache-2.0 */
/* How long threads have not been executed, as far as one capture tells. */
#ifndef CLI_REPORT_SINCE_H
#define CLI_REPORT_SINCE_H

/*
 * It is told by the newest of all threads that ran on the same CPU: the guest's clock is of each CPU, and
 * not read. So it may have been longer, but was not less.
 */

#include <stdbool.h>
#include <stdint.h>

#include "cli/report/capture_file.h"

/* CPUs of which the newest run is kept: more than any guest has here. */
#define REP_SINCE_CPUS 512

struct rep_since {
	uint64_t newest_ns[REP_SINCE_CPUS];
};

/** Whether a thread says when it was last executed, and where. */
bool rep_has_run_time(const struct rep_thread *t);

void rep_since_init(struct rep_since *s, const struct rep_capture *c);

/**
 * @param ns_out  since when at least, back from the capture
 * @return false: it is executed or runnable, or its times are not known
 */
bool rep_since_run(const struct rep_since *s, const struct rep_thread *t, uint64_t *ns_out);

#endif
