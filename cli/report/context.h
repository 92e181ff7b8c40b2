/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in, of captures that have it. */
#ifndef CLI_REPORT_CONTEXT_H
#define CLI_REPORT_CONTEXT_H

#include <stdio.h>

#include "cli/report/capture_file.h"
#include "kcdata/json.h"

/** Lines below that of the process: command, control group, namespaces that are not init's, signals. */
void rep_put_process_context(const struct rep_capture *c, const struct rep_task *t, FILE *to);

/** The rest of a thread's line: that it waits for a CPU, signals that are pending. */
void rep_put_thread_context(const struct rep_thread *t, FILE *to);

/** Members "context" of a task and of a thread. */
void rep_json_process_context(struct kcd_json *j, const struct rep_capture *c,
			      const struct rep_task *t);
void rep_json_thread_context(struct kcd_json *j, const struct rep_thread *t);

#endif
