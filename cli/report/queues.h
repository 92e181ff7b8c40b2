/* SPDX-License-Identifier: Apache-2.0 */
/* Places of threads in run queues, of captures that have what threads stand in. */
#ifndef CLI_REPORT_QUEUES_H
#define CLI_REPORT_QUEUES_H

#include "cli/report/capture_file.h"

/** Whether a thread is on a run queue for the CPU, and does not have it. */
bool rep_waits_for_cpu(const struct rep_thread *t);

/**
 * Find each waiting thread's place in its queue: of the fair class among the threads of its cfs_rq, in the order
 * that the kernel keeps them in, of real-time threads among those of its CPU.
 *
 * @return false: out of memory
 */
bool rep_queues_resolve(struct rep_capture *c);

#endif
