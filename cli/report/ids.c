/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the tasks and threads of a capture by the ids of their containers. */
#include "cli/report/ids.h"

#include <stdlib.h>

#include "base/util.h"

static int compare_ids(const void *a, const void *b)
{
	const struct rep_id *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

void rep_id_sort(struct rep_id *ids, size_t count)
{
	if (count)
		qsort(ids, count, sizeof(*ids), compare_ids);
}

size_t rep_id_find(const struct rep_id *ids, size_t count, uint64_t id)
{
	size_t lo = 0, hi = count;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (ids[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < count && ids[lo].id == id ? ids[lo].at : REP_NONE;
}

bool rep_ids_init(const struct rep_capture *c, struct rep_ids *out)
{
	/* one more than there are: none is no failure */
	*out = (struct rep_ids){ .c = c,
				 .tasks = gs_array_alloc(c->task_count + 1, sizeof(*out->tasks)),
				 .threads = gs_array_alloc(c->thread_count + 1,
							   sizeof(*out->threads)) };
	if (!out->tasks || !out->threads) {
		rep_ids_deinit(out);
		return false;
	}
	for (size_t i = 0; i < c->task_count; i++)
		out->tasks[i] = (struct rep_id){ c->tasks[i].id, i };
	for (size_t i = 0; i < c->thread_count; i++)
		out->threads[i] = (struct rep_id){ c->threads[i].id, i };
	rep_id_sort(out->tasks, c->task_count);
	for (size_t i = 0; i < c->task_count; i++)
		rep_id_sort(&out->threads[c->tasks[i].first_thread], c->tasks[i].thread_count);
	return true;
}

void rep_ids_deinit(struct rep_ids *ids)
{
	free(ids->tasks);
	free(ids->threads);
	*ids = (struct rep_ids){ 0 };
}

size_t rep_find_task(const struct rep_ids *ids, uint64_t id)
{
	return rep_id_find(ids->tasks, ids->c->task_count, id);
}

size_t rep_find_thread(const struct rep_ids *ids, const struct rep_task *task, uint64_t id)
{
	return rep_id_find(&ids->threads[task->first_thread], task->thread_count, id);
}
