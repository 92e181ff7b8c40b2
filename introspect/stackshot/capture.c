/* SPDX-License-Identifier: Apache-2.0 */
/* A capture from request to result: storage before the stop, retries, kernel search. */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/linux_context.h"
#include "introspect/stackshot/memory.h"
#include "introspect/stackshot/modules.h"
#include "introspect/stackshot/request.h"
#include "introspect/stackshot/system.h"
#include "introspect/stackshot/user.h"
#include "kcdata/stackshot_types.h"

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

void ss_result_deinit(struct ss_result *r)
{
	if (r->held)
		ss_saved_put(r->held);
	else
		free(r->data);
	*r = (struct ss_result){ 0 };
}

uint64_t ss_records_max(const struct ss_session *s)
{
	uint64_t ram = guest_ram_size(s->g);

	if (s->buffer_max)
		return s->buffer_max;
	return gs_max(gs_max(RECORDS_MAX_LEAST, ram >> 10), ram / THREAD_COST * BYTES_PER_THREAD);
}

/* Tell the guest until when it may be stopped. @return when reading has to end; 0: never */
static uint64_t say_deadline(struct guest *g, const struct ss_request *q)
{
	uint64_t end = guest_set_deadline(g, q->deadline_ns ? q->deadline_ns : GUEST_NO_DEADLINE);

	return end == GUEST_NO_DEADLINE ? 0 : end;
}

/* --- kernel --- */

/* Search with registers of a short stop of its own; the search itself runs beside the guest. */
static enum gs_code find_kernel_locked(struct ss_session *s, const struct ss_request *q,
				       uint64_t *stopped_ns, struct gs_error *err)
{
	struct guest_vcpu_regs *regs = s->ordinary.t.regs;
	struct lnx_kernel *k;

	(void)say_deadline(s->g, q);
	uint64_t start = gs_clock_ns();
	enum gs_code rc = guest_regs_of_short_stop(s->g, regs, err);

	*stopped_ns += gs_clock_ns() - start;
	if (rc)
		return rc;

	s->why_no_kernel = (struct gs_error){ 0 };
	ss_history_deinit(&s->history); /* that of another kernel, or boot */
	/* not found is no failure of the capture: it then has the registers and says why */
	if (!lnx_kernel_find(s->g, regs, s->g->vcpu_count, &s->hints, &k, &s->why_no_kernel))
		/* release: pairs with the acquire in take_kernel() */
		atomic_store_explicit(&s->k, k, memory_order_release);
	return GS_OK;
}

/*
 * Have an engine work with the session's kernel, and keep it until drop_kernel(). A panic capture
 * does so without the session's lock: it says first what it is about to use, and then looks whether
 * that is still so; sequentially consistent with the counterpart in forget_kernel_locked().
 */
static void take_kernel(struct ss_engine *e)
{
	struct lnx_kernel *k;

	do {
		k = atomic_load_explicit(&e->s->k, memory_order_acquire);
		atomic_store_explicit(&e->k, k, memory_order_seq_cst);
	} while (k != atomic_load_explicit(&e->s->k, memory_order_seq_cst));
}

static void drop_kernel(struct ss_engine *e)
{
	atomic_store_explicit(&e->k, NULL, memory_order_release);
}

static void forget_kernel_locked(struct ss_session *s)
{
	struct lnx_kernel *k = atomic_exchange_explicit(&s->k, NULL, memory_order_seq_cst);

	/* some ms at most: a panic capture in progress */
	while (k && atomic_load_explicit(&s->panic.k, memory_order_seq_cst) == k)
		(void)sched_yield();
	lnx_kernel_destroy(k);
}

/* --- storage --- */

static enum gs_code prepare_storage(struct ss_engine *e, const struct ss_request *q,
				    struct gs_error *err)
{
	const struct ss_session *s = e->s;

	if (ss_engine_reserve_tasks(e, gs_max(TASKS_MIN, s->last_tasks + s->last_tasks / 4)))
		return gs_fail(err, GS_ENOSPC, "out of memory for the list of tasks");
	if (ss_log_reserve(&e->log, q->flags))
		return gs_fail(err, GS_ENOSPC, "out of memory for the kernel's log");
	uint64_t size = 0;
	if (!(q->flags & SS_NO_PROCESSES)) {
		uint64_t threads = ss_expect(e);

		size = threads * (BYTES_PER_THREAD + ss_user_room(q) + ss_context_room_thread(q)) +
		       e->expected.process_count * (BYTES_PER_PROCESS + ss_context_room_process(q));
	}
	size = gs_max(size, gs_max(s->last_records, ss_memory_room(q)));
	size = gs_max(size + size / 100 * SLACK_PERCENT, gs_max(RECORDS_MIN, q->size_hint));
	size = gs_min(gs_align_up(size, 4096), ss_records_max(s));
	if (ss_storage_reserve(&e->storage, e->workers, size))
		return gs_fail(err, GS_ENOSPC, "out of memory for a buffer of %" PRIu64 " bytes",
			       size);
	return GS_OK;
}

/* After a try that ran out of room: twice as much of whatever it was. */
static enum gs_code enlarge_storage(struct ss_engine *e, struct gs_error *err)
{
	struct ss_storage *st = &e->storage;

	if (e->t.longest >= e->max_tasks) {
		if (e->max_tasks == LNX_TASKS_MAX ||
		    ss_engine_reserve_tasks(e, (uint64_t)e->max_tasks * 2))
			return gs_fail(err, GS_ENOSPC,
				       "resource shortage: a list of over %" PRIu32 " tasks",
				       e->max_tasks);
		return GS_OK;
	}
	uint64_t max = ss_records_max(e->s), size = ss_storage_size(st);
	const bool is_full =
		size >= max || ss_storage_reserve(st, e->workers, gs_min(size * 2, max));

	if (is_full && (e->t.request->flags & KCD_SS_REQ_PAGE_TABLES))
		return gs_fail(err, GS_ENOSPC,
			       "resource shortage: the page tables need more than %" PRIu64
			       " bytes of buffer, the most this guest's memory allows (ask for "
			       "fewer levels)",
			       max);
	if (is_full)
		return gs_fail(err, GS_ENOSPC,
			       "resource shortage: %" PRIu32 " threads need more than %" PRIu64
			       " bytes of buffer, the most this guest's memory allows",
			       e->t.threads, max);
	return GS_OK;
}

/* --- one try --- */

/* All that can be done before the stop is done here, the waking of the workers last. */
static void get_ready(struct ss_engine *e, const struct ss_request *q, const char *why)
{
	/* of each engine one capture at a time gets here, and leaves it as it was */
	(void)ss_context_setup(&e->context, say_deadline(e->s->g, q));
	memset(&e->t, 0, sizeof(e->t));
	e->t.request = q;
	e->t.honoured = (q->flags & ~(SS_MEMORY_FLAGS | SS_SYSTEM_FLAGS)) | KCD_SS_KCDATA_FORMAT;
	e->why_no_kernel = why;
	e->log.used = 0;
	ss_modules_expect(e);
	ss_storage_reset(&e->storage);
	ss_queues_reset(&e->queues);
	for (uint32_t i = 0; i < e->workers; i++) {
		ss_worker_reset(e->worker[i]);
		e->worker[i]->v.is_timed = q->flags & SS_LATENCY_INFO;
	}
	e->helping = ss_request_is_parallel(q) && e->k ? e->workers - 1 : 0;
	if (!e->helping)
		return;
	ss_context_join(&e->context, e->helping);
	ss_pool_run(e->pool);
	ss_context_wait_arrived(&e->context);
}

/* Stop, collect, resume. The guest is resumed whatever happens in between. */
static enum gs_code run_ready(struct ss_engine *e, struct gs_error *err)
{
	struct guest *g = e->s->g;
	struct ss_try *t = &e->t;
	uint64_t start = gs_clock_ns();
	enum gs_code rc = guest_stop(g, err);

	if (rc) {
		ss_collect_nothing(e);
		ss_context_wait_gone(&e->context);
		return gs_wrap(err, rc, "stopping the guest");
	}
	t->start_ns = e->worker[0]->times.begin_ns = gs_clock_ns();
	if (e->helping)
		ss_pool_avoid_own_cpu(e->pool);
	t->wall_us = gs_clock_wall_us();
	t->stop_ns = t->start_ns - start;
	rc = ss_collect(e);

	uint64_t collected = gs_clock_ns();
	enum gs_code resumed = guest_resume(g, err);
	t->resume_ns = gs_clock_ns() - collected;
	t->collect_ns = collected - t->start_ns;
	ss_context_wait_gone(&e->context);
	if (resumed)
		return gs_wrap(err, resumed, "resuming the guest");
	t->resumed = true;
	ss_collect_results(e);
	return rc;
}

/* @param why  there is no kernel, if there is none */
static enum gs_code run_try(struct ss_engine *e, const struct ss_request *q, const char *why,
			    struct gs_error *err)
{
	struct ss_try *t = &e->t;

	get_ready(e, q, why);
	enum gs_code rc = run_ready(e, err);
	if (!t->resumed)
		return rc;
	if (rc == GS_EBUSY)
		return gs_fail(err, rc, "a panic capture took over");
	if (!rc && q->pid != SS_PID_ALL && e->k && !t->tasks && !t->kernel_changed &&
	    !t->has_unseen)
		return gs_fail(err, GS_ENOENT, "no process has pid %" PRId32, q->pid);
	/* too little room is for the caller to see to */
	if (rc && rc != GS_ENOSPC)
		return gs_fail(
			err, rc,
			"recording the guest: %s (a mistake of guestshot itself: please report it)",
			gs_code_name(rc));
	return rc;
}

static enum gs_code finish(struct ss_engine *e, uint64_t prior_ns, uint32_t tries,
			   struct ss_result *r, struct gs_error *err)
{
	const struct ss_try *t = &e->t;

	r->complete = t->missing_count == 0;
	r->tasks = t->tasks;
	r->threads = t->threads;
	r->same_tasks = t->same_tasks;
	r->same_threads = t->same_threads;
	r->tries = tries;
	r->start_ns = t->start_ns;
	r->stop_ns = t->stop_ns;
	r->collect_ns = t->collect_ns;
	r->resume_ns = t->resume_ns;
	r->stopped_ns = prior_ns + t->stop_ns + t->collect_ns + t->resume_ns;
	if (ss_assemble(e, prior_ns, tries, r))
		return gs_fail(err, GS_ENOSPC, "out of memory for the finished capture");
	return GS_OK;
}

/* --- captures --- */

/* What the next one will probably need. */
static void remember_locked(struct ss_session *s)
{
	const struct ss_engine *e = &s->ordinary;

	if (e->t.request->pid != SS_PID_ALL || (e->t.request->flags & SS_NO_PROCESSES))
		return;
	s->last_tasks = e->t.longest;
	/* a delta is small; the next full capture is not */
	s->last_records = (size_t)gs_max(e->t.request->since_ns ? s->last_records : 0,
					 ss_storage_used(&e->storage));
	if (s->remembers)
		ss_history_update(&s->history, e);
}

static enum gs_code capture_locked(struct ss_session *s, const struct ss_request *q,
				   struct ss_result *r, struct gs_error *err)
{
	struct ss_engine *e = &s->ordinary;
	const struct ss_try *t = &e->t;
	uint64_t prior_ns = 0;
	uint32_t kernel_tries = 0;
	enum gs_code rc = GS_OK;

	for (uint32_t tries = 1; !rc; tries++) {
		if (!atomic_load_explicit(&s->k, memory_order_relaxed))
			rc = find_kernel_locked(s, q, &prior_ns, err);
		if (rc)
			break;
		take_kernel(e);
		rc = prepare_storage(e, q, err);
		if (rc)
			break;
		rc = run_try(e, q, s->why_no_kernel.text, err);
		if (!rc && t->kernel_changed && ++kernel_tries < KERNEL_TRIES) {
			drop_kernel(e);
			forget_kernel_locked(s);
		} else if (!rc) {
			rc = finish(e, prior_ns, tries, r, err);
			if (!rc)
				remember_locked(s);
			drop_kernel(e);
			return rc;
		} else if (t->resumed && rc == GS_ENOSPC) {
			rc = enlarge_storage(e, err);
		}
		drop_kernel(e);
		prior_ns += t->stop_ns + t->collect_ns + t->resume_ns;
	}
	drop_kernel(e);
	return rc;
}

enum gs_code ss_session_prepare(struct ss_session *s, struct gs_error *err)
{
	const struct ss_request none = { 0 };
	uint64_t stopped_ns = 0;
	enum gs_code rc = GS_OK;

	pthread_mutex_lock(&s->lock);
	if (!atomic_load_explicit(&s->k, memory_order_relaxed))
		rc = find_kernel_locked(s, &none, &stopped_ns, err);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum gs_code capture_and_save_locked(struct ss_session *s, const struct ss_request *q,
					    uint64_t begin_ns, struct ss_result *r,
					    struct gs_error *err)
{
	enum gs_code rc = ss_saved_check(s, err);

	if (!rc)
		rc = capture_locked(s, q, r, err);
	if (rc)
		return rc;
	r->total_ns = gs_clock_ns() - begin_ns; /* who retrieves it wants to know, too */
	return ss_saved_keep(s, r, err);
}

static enum gs_code capture_ordinary(struct ss_session *s, const struct ss_request *q,
				     uint64_t begin_ns, struct ss_result *r, struct gs_error *err)
{
	if (q->since_ns && !s->remembers)
		return gs_fail(err, GS_ENOTSUP,
			       "a delta capture of a guest of which earlier captures are not kept");
	if (!(q->flags & KCD_SS_TRYLOCK))
		pthread_mutex_lock(&s->lock);
	else if (pthread_mutex_trylock(&s->lock))
		return gs_fail(err, GS_EBUSY, "another capture is in progress");
	enum gs_code rc = q->flags & KCD_SS_SAVE_IN_KERNEL_BUFFER
				  ? capture_and_save_locked(s, q, begin_ns, r, err)
				  : capture_locked(s, q, r, err);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static enum gs_code run_panic(struct ss_session *s, const struct ss_request *q, const char *why,
			      uint64_t prior_ns, struct ss_result *r, struct gs_error *err)
{
	struct ss_engine *e = &s->panic;

	take_kernel(e);
	enum gs_code rc = run_try(e, q, why, err);
	if (!rc)
		rc = finish(e, prior_ns, 1, r, err);
	drop_kernel(e);
	return rc;
}

/*
 * The guest is dying, and who holds the session's lock may be stuck: a kernel that is known is used,
 * one that is not is searched only if the lock is free.
 */
static enum gs_code capture_panic(struct ss_session *s, const struct ss_request *q,
				  struct ss_result *r, struct gs_error *err)
{
	struct gs_error why = { .text = "no kernel had been found before the panic" };
	uint64_t prior_ns = 0;
	enum gs_code rc = GS_OK;

	/* acquire and release: the panic engine goes from one to the next */
	if (atomic_exchange_explicit(&s->panicking, true, memory_order_acquire))
		return gs_fail(err, GS_EBUSY, "another panic capture is in progress");
	ss_context_panic(&s->ordinary.context);
	if (!atomic_load_explicit(&s->k, memory_order_relaxed) &&
	    !pthread_mutex_trylock(&s->lock)) {
		rc = find_kernel_locked(s, q, &prior_ns, err);
		why = s->why_no_kernel;
		pthread_mutex_unlock(&s->lock);
	}
	if (!rc)
		rc = run_panic(s, q, why.text, prior_ns, r, err);
	atomic_store_explicit(&s->panicking, false, memory_order_release);
	return rc;
}

enum gs_code ss_capture(struct ss_session *s, const struct ss_request *request,
			struct ss_result *result_out, struct gs_error *err)
{
	uint64_t begin = gs_clock_ns();
	enum gs_code rc = ss_request_check(request, ss_records_max(s), err);

	if (rc)
		return rc;
	if (request->flags & KCD_SS_RETRIEVE_EXISTING_BUFFER)
		return ss_saved_retrieve(s, result_out, err);
	rc = request->flags & KCD_SS_FROM_PANIC
		     ? capture_panic(s, request, result_out, err)
		     : capture_ordinary(s, request, begin, result_out, err);
	if (!rc)
		result_out->total_ns = gs_clock_ns() - begin;
	return rc;
}
