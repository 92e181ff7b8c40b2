/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the tasks and threads of a capture by the ids of their containers. Private. */
#ifndef CLI_REPORT_IDS_H
#define CLI_REPORT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/report/capture_file.h"

struct rep_id {
	uint64_t id;
	size_t at; /* in rep_capture.tasks or .threads */
};

/** Sort ids, equal ones by where they are. */
void rep_id_sort(struct rep_id *ids, size_t count);

/** Where the first with an id is, of ids that are sorted; REP_NONE: nowhere. */
size_t rep_id_find(const struct rep_id *ids, size_t count, uint64_t id);

/** Ids sorted, those of threads within their task. A file may have an id twice: the first is found. */
struct rep_ids {
	const struct rep_capture *c; /* borrowed; must not change */
	struct rep_id *tasks;
	struct rep_id *threads; /* of a task: where its threads are in rep_capture.threads */
};

/** @return false: out of memory */
GS_MUST_USE bool rep_ids_init(const struct rep_capture *c, struct rep_ids *out);

/** Safe on a zeroed one. */
void rep_ids_deinit(struct rep_ids *ids);

/** Where in rep_capture.tasks the task with an id is; REP_NONE: nowhere. */
size_t rep_find_task(const struct rep_ids *ids, uint64_t id);

/** Where in rep_capture.threads the thread of @p task (of the same capture) with an id is. */
size_t rep_find_thread(const struct rep_ids *ids, const struct rep_task *task, uint64_t id);

#endif
