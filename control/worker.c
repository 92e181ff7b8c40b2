/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread that stops, captures and resumes the guest, and its queue. */
#include "control/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/util.h"
#include "kcdata/stackshot_types.h"

struct queue {
	struct ctl_job *first, *last;
	uint32_t count;
};

struct ctl_worker {
	struct ctl_worker_config config;
	uv_async_t wake; /* worker to loop: something is in finished */
	pthread_t thread;
	struct ctl_capture_stats stats; /* the loop's thread only */
	uint32_t out;			/* jobs posted and not yet done; the loop's thread only */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t more;
	struct queue waiting;
	struct queue finished;
	struct ctl_job *running;
	bool ending;
};

static void queue_put(struct queue *q, struct ctl_job *job)
{
	job->next = NULL;
	if (q->last)
		q->last->next = job;
	else
		q->first = job;
	q->last = job;
	q->count++;
}

static struct ctl_job *queue_get(struct queue *q)
{
	struct ctl_job *job = q->first;

	if (!job)
		return NULL;
	q->first = job->next;
	if (!q->first)
		q->last = NULL;
	q->count--;
	return job;
}

static bool queue_remove(struct queue *q, const struct ctl_job *job)
{
	struct ctl_job *before = NULL;

	for (struct ctl_job *at = q->first; at; before = at, at = at->next) {
		if (at != job)
			continue;
		if (before)
			before->next = at->next;
		else
			q->first = at->next;
		if (q->last == at)
			q->last = before;
		q->count--;
		return true;
	}
	return false;
}

/* A memory file that nobody can change or cut any more, so that the receiver may map it. */
static enum gs_code publish_fd(const void *data, size_t size, int *fd_out, struct gs_error *err)
{
	GS_CLOSE int fd = memfd_create("guestshot-capture", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "create a memory file");
	}
	enum gs_code rc = gs_file_write_all(fd, data, size, err);
	if (rc)
		return gs_wrap(err, rc, "fill the memory file");
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) ||
	    lseek(fd, 0, SEEK_SET)) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "seal the memory file");
	}
	*fd_out = GS_TAKE_FD(fd);
	return GS_OK;
}

/* relaxed: a hint; when it comes too late, done() gives the result up */
static bool is_wanted(const struct ctl_job *job)
{
	return !atomic_load_explicit(&job->abandoned, memory_order_relaxed);
}

static enum gs_code publish(struct ctl_job *job, const void *data, size_t size)
{
	if (job->sink)
		return job->sink->put(job->sink->arg, job, &job->err);
	return job->path ? gs_file_write_atomic(job->path, data, size, 0600, &job->err)
			 : publish_fd(data, size, &job->fd, &job->err);
}

static bool saves(const struct ctl_job *job)
{
	return job->kind == CTL_JOB_SNAP && job->ask.flags & KCD_SS_SAVE_IN_KERNEL_BUFFER;
}

static bool retrieves(const struct ctl_job *job)
{
	return job->kind == CTL_JOB_SNAP && job->ask.flags & KCD_SS_RETRIEVE_EXISTING_BUFFER;
}

/* Takes a new capture, for somebody. */
static bool captures(const struct ctl_job *job)
{
	return job->kind == CTL_JOB_SNAP && !retrieves(job) && !job->is_look;
}

static void run_snap(struct ctl_worker *w, struct ctl_job *job)
{
	struct ss_request request = job->ask;

	if (job->sink && job->sink->ready)
		job->code = job->sink->ready(job->sink->arg, &job->err);
	if (job->code)
		return;
	request.version = SS_REQUEST_VERSION;
	request.size = sizeof(request);
	if (job->deadline_ms)
		request.deadline_ns = gs_clock_ns() + job->deadline_ms * GS_NS_PER_MS;
	job->code = w->config.capture(w->config.arg, &request, &job->result, &job->err);
	if (job->code || saves(job) || !is_wanted(job))
		return;
	job->code = publish(job, job->result.data, job->result.size);
	/* one that goes over the socket is delivered only when it was sent: the server's to see */
	if (!job->code && job->path && retrieves(job) && !job->keep)
		(void)ctl_worker_saved_drop(w, job->result.saved_id); /* two may have had it */
}

/* The capture that was saved just now: the session lends its stream. If not, it is not recorded. */
static void borrow_saved(struct ctl_worker *w, struct ss_result *r)
{
	const struct ss_request request = {
		.version = SS_REQUEST_VERSION,
		.size = sizeof(request),
		.flags = KCD_SS_RETRIEVE_EXISTING_BUFFER,
		.pid = SS_PID_ALL,
	};

	*r = (struct ss_result){ 0 };
	GS_IGNORE(w->config.capture(w->config.arg, &request, r, NULL));
}

/*
 * What the logs are to record, out of a job that goes back to its poster with the numbers. A capture
 * that is retrieved was recorded when it was saved.
 */
static struct ss_result take_stream(struct ctl_worker *w, struct ctl_job *job)
{
	struct ss_result stream = job->result;

	job->result.data = NULL;
	job->result.held = NULL;
	if (saves(job) && !job->code)
		borrow_saved(w, &stream);
	else if (retrieves(job) || job->is_look)
		ss_result_deinit(&stream);
	return stream;
}

/* Record a capture that was answered: that may search the kernel, and wait for who reads the log. */
static void feed(struct ctl_worker *w, struct ss_result *stream)
{
	/* without threads no kernel was found: not to be searched again for nothing */
	if (stream->data && w->config.btlogs && stream->threads)
		ctl_btlogs_feed(w->config.btlogs, stream->data, stream->size);
	ss_result_deinit(stream);
}

static bool dump_goes_on(uint64_t done, uint64_t total, void *arg)
{
	(void)done;
	(void)total;
	return is_wanted(arg);
}

static void run_dump(struct ctl_worker *w, struct ctl_job *job)
{
	job->code = ctl_dump_write(w->config.guest, &w->config.hints, job->path, dump_goes_on, job,
				   &job->dump, &job->err);
}

static void run_save(struct ctl_worker *w, struct ctl_job *job)
{
	GS_FREE uint8_t *data = NULL;

	job->code = ctl_btlogs_save(w->config.btlogs, job->log, &data, &job->saved, &job->err);
	if (!job->code && is_wanted(job))
		job->code = publish(job, data, job->saved);
}

static void run_btlog(struct ctl_worker *w, struct ctl_job *job)
{
	struct ctl_btlogs *b = w->config.btlogs;

	if (!b) {
		job->code = gs_fail(&job->err, GS_ENOTSUP, "no backtraces are kept for this guest");
		return;
	}
	if (job->kind == CTL_JOB_SAVE)
		run_save(w, job);
	else if (job->kind == CTL_JOB_BTLOG)
		job->code = ctl_btlogs_act(b, job->log, job->action, &job->err);
	else if (job->kind == CTL_JOB_SAMPLE)
		job->code = ctl_btlogs_sample(b, job->hz, &job->err);
	if (!job->code)
		ctl_btlogs_stats_get(b, &job->btlogs);
}

static void run_resume(struct ctl_worker *w, struct ctl_job *job)
{
	for (uint32_t i = 0; i < job->count; i++) {
		enum gs_code rc = guest_resume(w->config.guest, &job->err);
		if (rc)
			job->code = rc; /* and on: each stop has its resume */
	}
}

static void run_trace(struct ctl_worker *w, struct ctl_job *job)
{
	if (!w->config.trace)
		job->code = gs_fail(&job->err, GS_ENOTSUP, "this guest cannot be traced");
	else
		job->code = ctl_trace_do(w->config.trace, job->tracer, job->operation,
					 job->arguments, &job->answer, &job->err);
}

static void run(struct ctl_worker *w, struct ctl_job *job)
{
	switch (job->kind) {
	case CTL_JOB_SNAP: run_snap(w, job); return;
	case CTL_JOB_DUMP: run_dump(w, job); return;
	case CTL_JOB_SAMPLE:
	case CTL_JOB_BTLOGS:
	case CTL_JOB_BTLOG:
	case CTL_JOB_SAVE: run_btlog(w, job); return;
	case CTL_JOB_TRACE: run_trace(w, job); return;
	case CTL_JOB_TRACE_GONE: ctl_trace_client_gone(w->config.trace, job->tracer); return;
	case CTL_JOB_STOP: job->code = guest_stop(w->config.guest, &job->err); return;
	case CTL_JOB_RESUME: run_resume(w, job); return;
	case CTL_JOB_SINK: job->code = job->sink->ready(job->sink->arg, &job->err); return;
	}
}

static void *worker_main(void *arg)
{
	struct ctl_worker *w = arg;

	pthread_setname_np(pthread_self(), "gs-capture");
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct ctl_job *job = queue_get(&w->waiting);

		if (job) {
			w->running = job;
			pthread_mutex_unlock(&w->lock);
			run(w, job);
			struct ss_result stream = take_stream(w, job);
			pthread_mutex_lock(&w->lock);
			w->running = NULL;
			queue_put(&w->finished, job);
			uv_async_send(&w->wake); /* under the lock: w cannot be closed yet */
			pthread_mutex_unlock(&w->lock);
			feed(w, &stream); /* the job is the poster's again */
			pthread_mutex_lock(&w->lock);
		} else if (w->ending) {
			break;
		} else {
			pthread_cond_wait(&w->more, &w->lock);
		}
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void count(struct ctl_worker *w, const struct ctl_job *job)
{
	struct ctl_capture_stats *s = &w->stats;

	if (!captures(job))
		return;
	if (job->code) {
		s->failed++;
	} else if (!is_wanted(job) && !saves(job)) {
		s->dropped++;
	} else {
		s->taken++;
		s->incomplete += !job->result.complete;
		s->have_last = true;
		s->last = job->result;
		s->last_wall_us = gs_clock_wall_us();
	}
}

static void on_wake(uv_async_t *handle)
{
	struct ctl_worker *w = handle->data;

	for (;;) {
		pthread_mutex_lock(&w->lock);
		struct ctl_job *job = queue_get(&w->finished);
		pthread_mutex_unlock(&w->lock);
		if (!job)
			return;
		w->out--;
		count(w, job);
		if (job->fd >= 0 && !is_wanted(job)) {
			close(job->fd);
			job->fd = -1;
		}
		bool last = w->out == 0;
		job->done(job);
		/* done() may have closed the worker, which needs that no job is out */
		if (last)
			return;
	}
}

static enum gs_code thread_start(struct ctl_worker *w, struct gs_error *err)
{
	sigset_t all, old;

	/* signals are the event loop's; a bus error is its own: blocked it would kill us unasked */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	int e = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return e ? gs_fail_errno(err, GS_ENOSPC, e, "start the capture thread") : GS_OK;
}

static void on_closed(uv_handle_t *handle)
{
	struct ctl_worker *w = handle->data;

	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

enum gs_code ctl_worker_create(uv_loop_t *loop, const struct ctl_worker_config *config,
			       struct ctl_worker **worker_out, struct gs_error *err)
{
	struct ctl_worker *w = calloc(1, sizeof(*w));

	if (!w)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	w->config = *config;
	w->wake.data = w;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	/* the handle comes last: once the loop knows it, it is freed by the loop only */
	enum gs_code rc = GS_OK;
	int e = uv_async_init(loop, &w->wake, on_wake);
	if (e)
		rc = gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	if (rc) {
		free(w);
		return rc;
	}
	rc = thread_start(w, err);
	if (rc) {
		uv_close((uv_handle_t *)&w->wake, on_closed);
		return rc;
	}
	*worker_out = w;
	return GS_OK;
}

void ctl_worker_post(struct ctl_worker *w, struct ctl_job *job)
{
	job->code = GS_OK;
	job->err = (struct gs_error){ 0 };
	job->result = (struct ss_result){ 0 };
	job->fd = -1;
	atomic_store_explicit(&job->abandoned, false, memory_order_relaxed);
	w->out++;

	pthread_mutex_lock(&w->lock);
	assert(!w->ending);
	queue_put(&w->waiting, job);
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
}

bool ctl_worker_withdraw(struct ctl_worker *w, struct ctl_job *job)
{
	pthread_mutex_lock(&w->lock);
	bool was_waiting = queue_remove(&w->waiting, job);
	pthread_mutex_unlock(&w->lock);
	w->out -= was_waiting;
	return was_waiting;
}

bool ctl_worker_abandon(struct ctl_worker *w, struct ctl_job *job)
{
	if (ctl_worker_withdraw(w, job))
		return true;
	atomic_store_explicit(&job->abandoned, true, memory_order_relaxed);
	return false;
}

bool ctl_worker_saved(struct ctl_worker *w, struct ss_result *numbers_out, uint64_t *wall_us_out)
{
	return w->config.session && ss_session_saved(w->config.session, numbers_out, wall_us_out);
}

bool ctl_worker_saved_drop(struct ctl_worker *w, uint64_t saved_id)
{
	return w->config.session && ss_session_saved_drop(w->config.session, saved_id);
}

bool ctl_worker_is_capturing(struct ctl_worker *w)
{
	pthread_mutex_lock(&w->lock);
	const struct ctl_job *job = w->running;
	bool is = job && (captures(job) || job->kind == CTL_JOB_DUMP);
	pthread_mutex_unlock(&w->lock);
	return is;
}

uint32_t ctl_worker_queued(struct ctl_worker *w)
{
	pthread_mutex_lock(&w->lock);
	uint32_t n = w->waiting.count;
	pthread_mutex_unlock(&w->lock);
	return n;
}

const struct ctl_capture_stats *ctl_worker_stats(const struct ctl_worker *w)
{
	return &w->stats;
}

void ctl_worker_close(struct ctl_worker *w)
{
	if (!w)
		return;
	assert(w->out == 0);
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	pthread_cond_signal(&w->more);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	uv_close((uv_handle_t *)&w->wake, on_closed);
}
