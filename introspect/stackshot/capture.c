/* SPDX-License-Identifier: Apache-2.0 */
/* A capture from request to result: storage before the stop, retries, kernel search. */
#include "introspect/stackshot/stackshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"

/* Estimates of records: a thread with some 20 frames, a process around its threads. */
#define BYTES_PER_THREAD  UINT64_C(1024)
#define BYTES_PER_PROCESS UINT64_C(512)
#define RECORDS_MIN	  (UINT64_C(256) << 10)
/*
 * Most of a capture: as the original, 8 MiB, or 1 MiB for each GiB of the guest's memory if that is
 * more.
 */
#define RECORDS_MAX_LEAST (UINT64_C(8) << 20)
/*
 * ... but a guest may well have more threads than memory suggests: each needs a 16 KiB stack of its
 * own.
 */
#define THREAD_COST (UINT64_C(24) << 10)
/* Room for tasks that come between the count and the stop. */
#define SLACK_PERCENT 25
#define TASKS_MIN     1024
/* A kernel that is replaced between search and stop (kexec) is searched again this often. */
#define KERNEL_TRIES 3

enum gs_code ss_session_create(struct guest *g, struct ss_session **s_out, struct gs_error *err)
{
	struct ss_session *s = calloc(1, sizeof(*s));

	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	s->g = g;
	*s_out = s;
	return GS_OK;
}

void ss_session_hint(struct ss_session *s, const struct lnx_hints *hints)
{
	s->hints = *hints;
}

const struct lnx_kernel *ss_session_kernel(const struct ss_session *s)
{
	return s->k;
}

static void storage_deinit(struct ss_storage *st)
{
	free(st->records);
	free(st->processes);
	free(st->threads);
	*st = (struct ss_storage){ 0 };
}

void ss_session_destroy(struct ss_session *s)
{
	if (!s)
		return;
	storage_deinit(&s->storage);
	lnx_kernel_destroy(s->k);
	free(s);
}

void ss_result_deinit(struct ss_result *r)
{
	free(r->data);
	*r = (struct ss_result){ 0 };
}

/* --- request --- */

static uint64_t records_max(const struct ss_session *s)
{
	uint64_t ram = guest_ram_size(s->g);

	return gs_max(gs_max(RECORDS_MAX_LEAST, ram >> 10), ram / THREAD_COST * BYTES_PER_THREAD);
}

static enum gs_code check_request(const struct ss_session *s, const struct ss_request *q,
				  struct gs_error *err)
{
	if (q->version != SS_REQUEST_VERSION)
		return gs_fail(err, GS_EINVAL, "request version %" PRIu32 ": only %d is known",
			       q->version, SS_REQUEST_VERSION);
	if (q->size != sizeof(*q))
		return gs_fail(err, GS_EINVAL, "request of %" PRIu32 " bytes instead of %zu",
			       q->size, sizeof(*q));
	if (q->flags)
		return gs_fail(err, GS_EINVAL, "unknown request flags %#" PRIx64, q->flags);
	if (q->reserved)
		return gs_fail(err, GS_EINVAL,
			       "reserved field of the request is %#" PRIx32 ", not 0", q->reserved);
	if (q->pid < SS_PID_ALL || q->pid == 0)
		return gs_fail(err, GS_EINVAL, "pid %" PRId32 " is no process", q->pid);
	if (q->size_hint > records_max(s))
		return gs_fail(err, GS_EINVAL, "size hint of %" PRIu64 " bytes: at most %" PRIu64,
			       q->size_hint, records_max(s));
	return GS_OK;
}

/* --- kernel --- */

/* Search with registers of a short stop of its own; the search itself runs beside the guest. */
static enum gs_code find_kernel(struct ss_session *s, uint64_t *stopped_ns, struct gs_error *err)
{
	uint64_t start = gs_clock_ns();
	enum gs_code rc = guest_stop(s->g, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < s->g->vcpu_count; i++)
		if (guest_vcpu_regs(s->g, i, &s->regs[i]))
			s->regs[i] = (struct guest_vcpu_regs){ 0 };
	rc = guest_resume(s->g, err);
	*stopped_ns += gs_clock_ns() - start;
	if (rc)
		return rc;

	s->why_no_kernel = (struct gs_error){ 0 };
	/* not found is no failure of the capture: it then has the registers and says why */
	if (lnx_kernel_find(s->g, s->regs, s->g->vcpu_count, &s->hints, &s->k, &s->why_no_kernel))
		s->k = NULL;
	return GS_OK;
}

/* --- storage --- */

/* Threads of the running guest, about: what comes and goes meanwhile is what the slack is for. */
static uint64_t count_threads(struct ss_session *s, uint32_t *processes_out)
{
	struct ss_storage *st = &s->storage;
	struct lnx_view v;
	uint64_t sum = 0;

	*processes_out = 0;
	if (!s->k)
		return 0;
	lnx_view_init(&v, s->k, s->g);
	/* errors are expected while lists change; the stopped walk is the one that reports them */
	GS_IGNORE(lnx_processes_collect(&v, st->processes, st->max_tasks, processes_out));
	for (uint32_t i = 0; i < *processes_out; i++) {
		struct lnx_task task;
		uint32_t n;

		if (lnx_task_read(&v, st->processes[i], &task))
			continue;
		GS_IGNORE(lnx_threads_collect(&v, task.signal, st->threads, st->max_tasks, &n));
		sum += n;
	}
	return sum;
}

static bool grow_tasks(struct ss_storage *st, uint64_t tasks)
{
	uint32_t max = (uint32_t)gs_min(tasks, LNX_TASKS_MAX);

	if (max <= st->max_tasks)
		return true;
	gva_t *processes = gs_array_alloc(max, sizeof(*processes));
	gva_t *threads = gs_array_alloc(max, sizeof(*threads));
	if (!processes || !threads) {
		free(processes);
		free(threads);
		return false;
	}
	free(st->processes);
	free(st->threads);
	st->processes = processes;
	st->threads = threads;
	st->max_tasks = max;
	/* touched now, so that no page is asked of the host while the guest is stopped */
	memset(processes, 0xff, max * sizeof(*processes));
	memset(threads, 0xff, max * sizeof(*threads));
	return true;
}

static bool grow_records(struct ss_storage *st, uint64_t size)
{
	if (size <= st->records_size)
		return true;
	uint8_t *records = malloc((size_t)size);
	if (!records)
		return false;
	memset(records, 0xff, (size_t)size);
	free(st->records);
	st->records = records;
	st->records_size = (size_t)size;
	return true;
}

static enum gs_code prepare_storage(struct ss_session *s, const struct ss_request *q,
				    struct gs_error *err)
{
	uint32_t processes;

	if (!grow_tasks(&s->storage, gs_max(TASKS_MIN, s->last_tasks + s->last_tasks / 4)))
		return gs_fail(err, GS_ENOSPC, "out of memory for the list of tasks");
	uint64_t threads = count_threads(s, &processes);
	uint64_t size = threads * BYTES_PER_THREAD + processes * BYTES_PER_PROCESS;

	size = gs_max(size, s->last_records);
	size = gs_max(size + size / 100 * SLACK_PERCENT, gs_max(RECORDS_MIN, q->size_hint));
	size = gs_min(gs_align_up(size, 4096), records_max(s));
	if (!grow_records(&s->storage, size))
		return gs_fail(err, GS_ENOSPC, "out of memory for a buffer of %" PRIu64 " bytes",
			       size);
	return GS_OK;
}

/* After a try that ran out of room: twice as much of whatever it was. */
static enum gs_code enlarge_storage(struct ss_session *s, const struct ss_try *t,
				    struct gs_error *err)
{
	struct ss_storage *st = &s->storage;

	if (t->longest >= st->max_tasks) {
		if (st->max_tasks == LNX_TASKS_MAX || !grow_tasks(st, (uint64_t)st->max_tasks * 2))
			return gs_fail(err, GS_ENOSPC,
				       "resource shortage: a list of over %" PRIu32 " tasks",
				       st->max_tasks);
		return GS_OK;
	}
	uint64_t max = records_max(s);
	if (st->records_size >= max ||
	    !grow_records(st, gs_min((uint64_t)st->records_size * 2, max)))
		return gs_fail(err, GS_ENOSPC,
			       "resource shortage: %" PRIu32
			       " threads need more than %zu bytes of buffer, "
			       "the most this guest's memory allows",
			       t->threads, st->records_size);
	return GS_OK;
}

/* --- capture --- */

/* Stop, collect, resume. The guest is resumed whatever happens in between. */
static enum gs_code run_try(struct ss_try *t, struct gs_error *err)
{
	struct guest *g = t->s->g;
	uint64_t start = gs_clock_ns();
	enum gs_code rc = guest_stop(g, err);

	if (rc)
		return gs_wrap(err, rc, "stopping the guest");
	t->start_ns = gs_clock_ns();
	t->wall_us = gs_clock_wall_us();
	t->stop_ns = t->start_ns - start;
	rc = ss_collect(t);

	uint64_t collected = gs_clock_ns();
	enum gs_code resumed = guest_resume(g, err);
	t->resume_ns = gs_clock_ns() - collected;
	t->collect_ns = collected - t->start_ns;
	if (resumed)
		return gs_wrap(err, resumed, "resuming the guest");
	t->resumed = true;
	return rc;
}

static struct ss_try *try_create(struct ss_session *s, const struct ss_request *q)
{
	struct ss_try *t = calloc(1, sizeof(*t));

	if (t) {
		t->s = s;
		t->request = q;
	}
	return t;
}

static enum gs_code finish(struct ss_try *t, uint64_t prior_ns, uint32_t tries, struct ss_result *r,
			   struct gs_error *err)
{
	struct ss_session *s = t->s;

	if (t->request->pid == SS_PID_ALL) {
		s->last_records = t->w.used;
		s->last_tasks = t->longest;
	}
	r->complete = t->missing_count == 0;
	r->tasks = t->tasks;
	r->threads = t->threads;
	r->tries = tries;
	r->stop_ns = t->stop_ns;
	r->collect_ns = t->collect_ns;
	r->resume_ns = t->resume_ns;
	r->stopped_ns = prior_ns + t->stop_ns + t->collect_ns + t->resume_ns;
	if (ss_assemble(t, prior_ns, tries, r))
		return gs_fail(err, GS_ENOSPC, "out of memory for the finished capture");
	return GS_OK;
}

enum gs_code ss_capture(struct ss_session *s, const struct ss_request *request,
			struct ss_result *result_out, struct gs_error *err)
{
	uint64_t begin = gs_clock_ns(), prior_ns = 0;
	uint32_t kernel_tries = 0;
	enum gs_code rc = check_request(s, request, err);

	for (uint32_t tries = 1; !rc; tries++) {
		if (!s->k) {
			rc = find_kernel(s, &prior_ns, err);
			if (rc)
				break;
		}
		rc = prepare_storage(s, request, err);
		if (rc)
			break;

		struct ss_try *t = try_create(s, request);
		if (!t)
			return gs_fail(err, GS_ENOSPC, "out of memory");
		rc = run_try(t, err);
		if (!rc && t->kernel_changed && ++kernel_tries < KERNEL_TRIES) {
			lnx_kernel_destroy(s->k);
			s->k = NULL;
		} else if (!rc) {
			rc = finish(t, prior_ns, tries, result_out, err);
			result_out->total_ns = gs_clock_ns() - begin;
			free(t);
			return rc;
		} else if (t->resumed && rc == GS_ENOSPC) {
			rc = enlarge_storage(s, t, err);
		} else if (t->resumed && rc == GS_ENOENT) {
			(void)gs_fail(err, rc, "no process has pid %" PRId32, request->pid);
		}
		prior_ns += t->stop_ns + t->collect_ns + t->resume_ns;
		free(t);
	}
	return rc;
}
