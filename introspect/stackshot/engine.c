/* SPDX-License-Identifier: Apache-2.0 */
/* What captures work with: made with the session, grown between captures. */
#include <stdlib.h>

#include "introspect/stackshot/capture.h"

/* --- workers --- */

static void run_helper(void *arg, uint32_t thread)
{
	struct ss_engine *e = arg;
	struct ss_worker *w = e->worker[thread + 1];

	if (ss_context_enter(&e->context)) {
		enum gs_code rc = ss_worker_run(w, SS_NO_ITEM);

		if (rc)
			ss_context_fail(&e->context, rc);
		ss_context_leave(&e->context);
	}
	ss_context_gone(&e->context);
}

static enum gs_code make_worker(struct ss_engine *e, uint32_t i, enum ss_cluster_kind kind)
{
	if (ss_pages_reserve(&e->worker_pages[i], sizeof(struct ss_worker)))
		return GS_ENOSPC;
	struct ss_worker *w = e->worker_pages[i].at;
	w->e = e;
	w->number = i;
	w->kind = kind;
	e->worker[i] = w;
	return GS_OK;
}

enum gs_code ss_engine_init(struct ss_engine *e, struct ss_session *s, uint32_t workers,
			    const enum ss_cluster_kind *kind, struct gs_error *err)
{
	e->s = s;
	// NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers is what it is
	e->worker = gs_array_alloc(workers, sizeof(*e->worker));
	e->worker_pages = gs_array_alloc(workers, sizeof(*e->worker_pages));
	if (!e->worker || !e->worker_pages)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	e->workers = workers;
	for (uint32_t i = 0; i < workers; i++)
		if (make_worker(e, i, kind[i]))
			return gs_fail(err, GS_ENOSPC, "out of memory for worker %u of %u", i + 1,
				       workers);
	return ss_pool_create(workers - 1, run_helper, e, &e->pool, err);
}

void ss_engine_deinit(struct ss_engine *e)
{
	ss_pool_destroy(e->pool);
	for (uint32_t i = 0; i < e->workers; i++) {
		if (e->worker[i])
			ss_worker_release(e->worker[i]);
		ss_pages_release(&e->worker_pages[i]);
	}
	free(e->worker);
	free(e->worker_pages);
	ss_pages_release(&e->item_pages);
	ss_queues_release(&e->queues);
	ss_storage_release(&e->storage);
	ss_pages_release(&e->log.pages);
	ss_expected_deinit(&e->expected);
	ss_expected_deinit(&e->before);
}

enum gs_code ss_engine_reserve_tasks(struct ss_engine *e, uint64_t tasks)
{
	uint32_t max = (uint32_t)gs_min(tasks, LNX_TASKS_MAX);

	if (max <= e->max_tasks)
		return GS_OK;
	const size_t items = ((size_t)max + 1) * sizeof(*e->item);
	if (ss_pages_reserve(&e->item_pages, items + max * sizeof(*e->processes)))
		return GS_ENOSPC;
	/* at once: what they pointed to is gone, also if there is no room for the rest */
	e->item = e->item_pages.at;
	e->processes = (void *)((uint8_t *)e->item_pages.at + items);
	if (ss_queues_reserve(&e->queues, max))
		return GS_ENOSPC;
	for (uint32_t i = 0; i < e->workers; i++)
		if (ss_worker_reserve(e->worker[i], max))
			return GS_ENOSPC;
	e->max_tasks = max;
	return GS_OK;
}

/* --- what is expected --- */

void ss_expected_deinit(struct ss_expected *x)
{
	free(x->processes);
	free(x->of);
	free(x->threads);
	*x = (struct ss_expected){ 0 };
}

static bool grow_threads(struct ss_expected *x, uint32_t need)
{
	if (need <= x->thread_room)
		return true;
	uint32_t room = (uint32_t)gs_max(need, gs_max(4096, (uint64_t)x->thread_room * 2));
	gva_t *threads = reallocarray(x->threads, room, sizeof(*threads));
	if (!threads)
		return false;
	x->threads = threads;
	x->thread_room = room;
	return true;
}

static bool grow_processes(struct ss_expected *x, uint32_t need)
{
	if (need <= x->process_room)
		return true;
	free(x->processes);
	free(x->of);
	x->process_room = 0;
	x->processes = gs_array_alloc(need, sizeof(*x->processes));
	x->of = gs_array_alloc(need, sizeof(*x->of));
	if (!x->processes || !x->of)
		return false;
	x->process_room = need;
	return true;
}

/* The place of a process in what was expected before, from *at on; its count, or 0. */
static uint32_t find_before(const struct ss_expected *before, gva_t task, uint32_t *at,
			    const gva_t **threads_out)
{
	for (uint32_t i = *at; i < before->process_count && i < *at + 8; i++) {
		if (before->processes[i].a != task.a)
			continue;
		*at = i + 1;
		*threads_out = before->threads + before->of[i].first;
		return before->of[i].count;
	}
	return 0;
}

/*
 * The lists change meanwhile and may break off anywhere: nothing of this is believed later, it only
 * says what to read ahead, how hard a process is, and how much room to see to.
 */
static void list_threads(struct ss_engine *e, uint32_t i, uint32_t *at)
{
	struct ss_worker *w = e->worker[0];
	struct ss_expected *x = &e->expected;
	const gva_t *known = NULL;
	uint32_t known_count = find_before(&e->before, x->processes[i], at, &known);
	struct lnx_list l;
	gva_t thread, signal;

	x->of[i].first = x->thread_count;
	x->of[i].count = 0;
	if (lnx_task_signal(&w->v, x->processes[i], &signal) ||
	    lnx_threads_begin(&l, &w->v, signal, w->tasks, w->tasks_max))
		return;
	lnx_list_expect(&l, known, known_count);
	while (lnx_list_next(&l, &thread))
		;
	if (l.n > LNX_TASKS_MAX - x->thread_count || !grow_threads(x, x->thread_count + l.n))
		return;
	for (uint32_t k = 0; k < l.n; k++)
		x->threads[x->thread_count + k] = w->tasks[k];
	x->of[i].count = l.n;
	x->thread_count += l.n;
}

uint64_t ss_expect(struct ss_engine *e)
{
	struct ss_worker *w = e->worker[0];
	struct ss_expected last = e->before;
	struct lnx_list l;
	uint32_t at = 0;
	gva_t task;

	e->before = e->expected;
	e->expected = last;
	e->expected.process_count = e->expected.thread_count = 0;
	if (!ss_kernel(e))
		return 0;
	ss_worker_reset(w);
	lnx_processes_begin(&l, &w->v, e->processes, e->max_tasks);
	lnx_list_expect(&l, e->before.processes, e->before.process_count);
	while (lnx_list_next(&l, &task))
		;
	if (!grow_processes(&e->expected, l.n))
		return 0;
	for (uint32_t i = 0; i < l.n; i++)
		e->expected.processes[i] = e->processes[i];
	e->expected.process_count = l.n;
	for (uint32_t i = 0; i < l.n; i++)
		list_threads(e, i, &at);
	return e->expected.thread_count;
}
