/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that take themselves: at intervals, and when something happens to the guest. */
#include "control/schedules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "control/schedules_priv.h"
#include "kcdata/stackshot_types.h"

/* A trigger's next capture for the same reason comes no sooner. */
#define QUIET_NS GS_NS_PER_SEC
/* That the budget stretches a schedule is said no more often. */
#define SAY_NS (60 * GS_NS_PER_SEC)
/* Looks for what hangs: an eighth of the shorter time, so that it is seen soon after, but … */
#define LOOKS_WITHIN   8
#define LOOK_EVERY_MIN (100 * GS_NS_PER_MS)
#define LOOK_EVERY_MAX (750 * GS_NS_PER_MS)
/* Captures that are kept are tried again after so long, twice as long each time, up to … */
#define WRITE_AGAIN_MIN GS_NS_PER_SEC
#define WRITE_AGAIN_MAX (60 * GS_NS_PER_SEC)

static void arm(struct schedule *s);
static void schedule_end(struct schedule *s);

/* --- on the worker's thread ---------------------------------------------------------------------
 */

/* What is kept goes first, so that names are in the order of time. */
static enum gs_code write_kept(struct schedule *s, struct gs_error *err)
{
	uint32_t written;
	const enum gs_code rc = ctl_kept_write(&s->kept, s->store, &written, err);

	s->did.written += written;
	return rc;
}

static enum gs_code sink_ready(void *arg, struct gs_error *err)
{
	struct schedule *s = arg;

	if (s->what == SCHEDULE_LOOK)
		return GS_OK;
	enum gs_code rc = ctl_store_ready(s->store, err);
	if (!rc)
		rc = write_kept(s, err);
	/* what a trigger's capture has does not come again: it is kept */
	return s->what == SCHEDULE_TRIGGER ? GS_OK : rc;
}

static void look(struct schedule *s, const struct ss_result *r)
{
	const struct ctl_schedules_config *c = &s->all->config;

	ctl_watch_look(s->watch, r->data, r->size, c->guest_ns ? c->guest_ns(c->arg) : 0,
		       gs_clock_ns(), &s->found);
}

static enum gs_code put_or_keep(struct schedule *s, const struct ctl_store_item *item,
				struct gs_error *err)
{
	bool is_there = false;
	enum gs_code rc = write_kept(s, err);

	if (!rc)
		rc = ctl_store_put(s->store, item, &is_there, err);
	if (rc && !is_there)
		s->did.is_kept = ctl_kept_add(&s->kept, item, &s->did.lost);
	return rc;
}

static enum gs_code sink_put(void *arg, const struct ctl_job *job, struct gs_error *err)
{
	struct schedule *s = arg;
	const struct ss_result *r = &job->result;
	const struct ctl_store_item item = {
		.data = r->data,
		.size = r->size,
		.numbers = r,
		.reason = s->cause.reason.reason,
		.since_ns = job->ask.since_ns,
		.taken_us = gs_clock_wall_us(),
	};
	bool is_there;

	/* any full capture is a look, too */
	if (s->watch && !job->ask.since_ns)
		look(s, r);
	switch (s->what) {
	case SCHEDULE_DUE: return ctl_store_put(s->store, &item, &is_there, err);
	case SCHEDULE_TRIGGER: return put_or_keep(s, &item, err);
	case SCHEDULE_LOOK:
	case SCHEDULE_WRITE: break;
	}
	return GS_OK;
}

/* --- what is asked of the worker ----------------------------------------------------------------
 */

static void on_done(struct ctl_job *job);

static void post(struct schedule *s, enum schedule_job what, const struct ss_request *ask)
{
	s->what = what;
	s->busy = true;
	s->found = (struct ctl_watch_found){ 0 };
	memset(&s->did, 0, sizeof(s->did));
	s->job = (struct ctl_job){
		.kind = what == SCHEDULE_WRITE ? CTL_JOB_SINK : CTL_JOB_SNAP,
		.ask = *ask,
		.sink = &s->sink,
		.is_look = what == SCHEDULE_LOOK,
		.done = on_done,
		.arg = s,
	};
	ctl_worker_post(s->all->config.worker, &s->job);
}

static uint64_t random_number(void)
{
	uint64_t n;

	/* without one there is no jitter, once */
	return getrandom(&n, sizeof(n), GRND_NONBLOCK) == sizeof(n) ? n : 0;
}

static void post_due(struct schedule *s)
{
	const bool full =
		s->config.full_every <= 1 || !s->base_ns || s->deltas + 1 >= s->config.full_every;
	const struct ss_request ask = {
		.pid = SS_PID_ALL,
		.flags = full ? 0 : KCD_SS_COLLECT_DELTA_SNAPSHOT,
		.since_ns = full ? 0 : s->base_ns,
		.cause = &s->cause,
	};

	s->cause.reason = (struct ss_reason_record){
		.reason = SS_REASON_SCHEDULE, .pid = -1, .tid = -1, .vcpu = -1
	};
	s->cause.console_lines = 0;
	ctl_pace_begin(&s->pace, gs_clock_ns(), random_number());
	post(s, SCHEDULE_DUE, &ask);
}

static void post_trigger(struct schedule *s)
{
	const struct ctl_schedules_config *c = &s->all->config;
	const uint32_t reason = (uint32_t)__builtin_ctz(s->pending);
	/* of what the kernel says of itself the console may have been told little (loglevel) */
	const bool with_log = reason == SS_REASON_PANIC || reason == SS_REASON_OOPS;
	const struct ss_request ask = {
		.pid = SS_PID_ALL,
		/* who holds what is waited for */
		.flags = KCD_SS_REQ_THREAD_WAITINFO | (with_log ? SS_KERNEL_LOG : 0),
		.cause = &s->cause,
	};

	s->pending &= ~(1u << reason);
	s->cause.reason = s->asked[reason];
	s->cause.console_lines = c->console ? c->console(c->arg, s->cause.console) : 0;
	post(s, SCHEDULE_TRIGGER, &ask);
}

static void post_look(struct schedule *s)
{
	const struct ss_request ask = { .pid = SS_PID_ALL };

	s->look_ns = gs_clock_ns() + s->look_every_ns;
	s->looks++;
	post(s, SCHEDULE_LOOK, &ask);
}

static void post_write(struct schedule *s)
{
	const struct ss_request none = { 0 };

	post(s, SCHEDULE_WRITE, &none);
}

/* --- what comes of it ---------------------------------------------------------------------------
 */

/* The first failure is said, and its end; what is between is counted. */
static void note_failure(struct schedule *s)
{
	s->lost += !s->did.is_kept && s->what != SCHEDULE_WRITE;
	if (s->what != SCHEDULE_WRITE)
		s->base_ns = 0; /* what comes next is full: it may be the base that was lost */
	if (!s->failing) {
		s->failure = s->job.err;
		gs_log(GS_LOG_WARNING,
		       "schedule %" PRIu32 ": no capture: %s (others that fail are counted%s)",
		       s->id, s->job.err.text,
		       s->did.is_kept ? "; this one is kept until it can be written" : "");
	}
	s->failing = true;
}

static void note_success(struct schedule *s)
{
	if (s->failing)
		gs_log(GS_LOG_WARNING,
		       "schedule %" PRIu32 ": captures are taken again; %" PRIu64 " were not",
		       s->id, s->lost);
	s->failing = false;
	s->failure = (struct gs_error){ 0 };
	if (s->what == SCHEDULE_WRITE)
		return;
	s->written++;
	s->triggered += s->what == SCHEDULE_TRIGGER;
	if (s->what != SCHEDULE_DUE)
		return;
	if (s->job.ask.since_ns) {
		s->deltas++;
	} else {
		s->base_ns = s->job.result.start_ns;
		s->deltas = 0;
	}
}

/* What has become of captures that were kept, and when they are tried again. */
static void note_kept(struct schedule *s, uint64_t now)
{
	s->written += s->did.written;
	s->triggered += s->did.written;
	s->lost += s->did.lost;
	s->kept_now = s->kept.count;
	if (s->did.written)
		gs_log(GS_LOG_WARNING,
		       "schedule %" PRIu32 ": %" PRIu32 " capture%s of before %s written now",
		       s->id, s->did.written, s->did.written == 1 ? "" : "s",
		       s->did.written == 1 ? "is" : "are");
	if (!s->kept.count || s->did.written || !s->write_again)
		s->write_again = WRITE_AGAIN_MIN;
	else if (s->what == SCHEDULE_WRITE)
		s->write_again = gs_min(2 * s->write_again, WRITE_AGAIN_MAX);
	if (!s->kept.count)
		s->write_ns = 0;
	else if (!s->write_ns || s->what == SCHEDULE_WRITE)
		s->write_ns = now + s->write_again;
}

/* When the next one may come, in place of the interval that was asked for. */
static void say_stretched(struct schedule *s, uint64_t now)
{
	const struct ctl_pace *p = &s->pace;

	if (!p->is_stretched || (s->said_ns && now - s->said_ns < SAY_NS))
		return;
	s->said_ns = now;
	gs_log(GS_LOG_WARNING,
	       "schedule %" PRIu32
	       ": the guest was stopped for %.2f ms: the next capture comes after "
	       "%.2f s instead of %.2f s (--max-stopped %g%%)",
	       s->id, (double)s->job.result.stopped_ns / 1e6,
	       (double)(ctl_pace_due(p) - gs_min(p->began_ns, ctl_pace_due(p))) / 1e9,
	       (double)p->every_ns / 1e9, (double)p->max_stopped / 1e4);
}

static void ask_for(struct schedule *s, const struct ss_reason_record *reason)
{
	s->asked[reason->reason] = *reason;
	s->pending |= 1u << reason->reason;
}

static void leave(struct schedule *s);

static void note_look(struct schedule *s)
{
	if (s->job.code && !s->look_failing)
		gs_log(GS_LOG_WARNING,
		       "schedule %" PRIu32 ": cannot look for what hangs: %s (it is tried again)",
		       s->id, s->job.err.text);
	s->look_failing = s->job.code;
}

static void tell_tracers(struct ctl_trace *t, const struct ss_reason_record *r)
{
	const uint64_t pid = (uint64_t)(int64_t)r->pid, tid = (uint64_t)(int64_t)r->tid;

	if (r->reason == SS_REASON_PANIC)
		ctl_trace_guest(t, CTL_TRACE_PANIC, 0, 0);
	else if (r->reason == SS_REASON_OOPS)
		ctl_trace_guest(t, CTL_TRACE_OOPS, 0, 0);
	else if (r->reason == SS_REASON_CONSOLE)
		ctl_trace_guest(t, CTL_TRACE_CONSOLE, 0, 0);
	else if (r->reason == SS_REASON_HUNG_TASK)
		ctl_trace_guest(t, CTL_TRACE_HUNG_TASK, pid, tid);
	else if (r->reason == SS_REASON_SOFT_LOCKUP)
		ctl_trace_guest(t, CTL_TRACE_SOFT_LOCKUP, pid, tid);
}

static void found(struct schedule *s, const struct ss_reason_record *reason)
{
	tell_tracers(s->all->config.trace, reason);
	ask_for(s, reason);
}

static void on_done(struct ctl_job *job)
{
	struct schedule *s = job->arg;
	const uint64_t now = gs_clock_ns();

	s->busy = false;
	if (s->what != SCHEDULE_LOOK) /* that puts nothing there */
		ctl_store_stats_get(s->store, &s->folder);
	if (ctl_pace_pay(&s->pace, now, job->result.stopped_ns))
		say_stretched(s, now);
	note_kept(s, now);
	if (s->what == SCHEDULE_LOOK)
		note_look(s);
	else if (job->code)
		note_failure(s);
	else
		note_success(s);
	if (s->found.has_hung)
		found(s, &s->found.hung);
	if (s->found.has_lockup)
		found(s, &s->found.lockup);
	if (s->removed)
		leave(s);
	else
		arm(s);
}

/* --- when ---------------------------------------------------------------------------------------
 */

static uint64_t look_due(const struct schedule *s)
{
	return s->look_ns ? gs_max(s->look_ns, s->pace.paid_ns) : UINT64_MAX;
}

/* Of what is kept; at the end that is done once more, by leave(). */
static uint64_t write_due(const struct schedule *s)
{
	return s->write_ns && !s->all->finishing ? s->write_ns : UINT64_MAX;
}

static bool nothing_is_due(const struct schedule *s)
{
	return s->all->ended || s->all->finishing;
}

static void on_timer(uv_timer_t *timer)
{
	struct schedule *s = timer->data;
	const uint64_t now = gs_clock_ns();

	if (s->busy)
		return; /* on_done() arms it again */
	if (s->pending)
		post_trigger(s);
	else if (write_due(s) <= now)
		post_write(s);
	else if (!nothing_is_due(s) && ctl_pace_due(&s->pace) <= now)
		post_due(s);
	else if (!nothing_is_due(s) && look_due(s) <= now)
		post_look(s);
	else
		arm(s);
}

/* Wait for what comes first. */
static void arm(struct schedule *s)
{
	const uint64_t now = gs_clock_ns();
	uint64_t due = gs_min(ctl_pace_due(&s->pace), look_due(s));

	if (s->busy)
		return;
	if (s->pending)
		due = now;
	else if (nothing_is_due(s))
		due = UINT64_MAX;
	due = gs_min(due, write_due(s));
	if (due == UINT64_MAX) {
		uv_timer_stop(&s->timer);
		if (s->all->finishing)
			schedule_end(s);
		return;
	}
	uv_update_time(s->all->loop);
	uv_timer_start(&s->timer, on_timer,
		       due > now ? (due - now + GS_NS_PER_MS - 1) / GS_NS_PER_MS : 0, 0);
}

void ctl_schedules_tell(struct ctl_schedules *all, const struct ss_reason_record *reason)
{
	tell_tracers(all->config.trace, reason);
}

void ctl_schedules_trigger(struct ctl_schedules *all, const struct ss_reason_record *reason)
{
	const uint64_t now = gs_clock_ns();
	struct schedule *s;

	tell_tracers(all->config.trace, reason);
	LIST_FOREACH(s, &all->list, link)
	{
		if (!s->config.triggers || s->removed || reason->reason >= REASONS)
			continue;
		if (now < s->quiet_ns[reason->reason]) {
			s->suppressed++;
			continue;
		}
		s->quiet_ns[reason->reason] = now + QUIET_NS;
		ask_for(s, reason);
		arm(s);
	}
}

/* --- life ---------------------------------------------------------------------------------------
 */

static void schedule_free(struct schedule *s)
{
	ctl_kept_deinit(&s->kept);
	ctl_store_destroy(s->store);
	ctl_watch_destroy(s->watch);
	free((char *)s->config.dir);
	free(s);
}

static void on_last_closed(uv_handle_t *handle)
{
	struct ctl_schedules *all = handle->data;

	all->finished(all->arg);
}

static void maybe_finished(struct ctl_schedules *all)
{
	if (all->finishing && !all->count && !uv_is_closing((uv_handle_t *)&all->last))
		uv_close((uv_handle_t *)&all->last, on_last_closed);
}

static void on_closed(uv_handle_t *handle)
{
	struct schedule *s = handle->data;
	struct ctl_schedules *all = s->all;

	LIST_REMOVE(s, link);
	all->count--;
	schedule_free(s);
	maybe_finished(all);
}

static void release(struct schedule *s)
{
	uv_close((uv_handle_t *)&s->timer, on_closed);
}

/* For good, but not without a last try to write what is kept. */
static void leave(struct schedule *s)
{
	if (s->kept_now && !s->tried_last) {
		s->tried_last = true;
		post_write(s);
		return;
	}
	if (s->kept_now)
		gs_log(GS_LOG_WARNING,
		       "schedule %" PRIu32 ": %" PRIu32
		       " captures of triggers are lost: they could not be written",
		       s->id, s->kept_now);
	release(s);
}

static void schedule_end(struct schedule *s)
{
	s->removed = true;
	uv_timer_stop(&s->timer);
	if (s->busy && ctl_worker_withdraw(s->all->config.worker, &s->job))
		s->busy = false;
	if (!s->busy)
		leave(s);
}

static enum gs_code check(const struct ctl_schedule_config *c, struct gs_error *err)
{
	if (c->every_ns &&
	    (c->every_ns < CTL_SCHEDULE_EVERY_MIN_NS || c->every_ns > CTL_SCHEDULE_EVERY_MAX_NS))
		return gs_fail(err, GS_EINVAL, "an interval of 10 ms to a week");
	if (!c->every_ns && !c->triggers)
		return gs_fail(err, GS_EINVAL, "neither an interval nor triggers");
	if (c->jitter > CTL_SCHEDULE_JITTER_MAX)
		return gs_fail(err, GS_EINVAL, "jitter of %" PRIu32 " %%: at most %d", c->jitter,
			       CTL_SCHEDULE_JITTER_MAX);
	if (c->keep > CTL_SCHEDULE_KEEP_MAX)
		return gs_fail(err, GS_EINVAL, "%" PRIu32 " captures to keep: at most %d", c->keep,
			       CTL_SCHEDULE_KEEP_MAX);
	if (c->full_every > CTL_SCHEDULE_FULL_EVERY_MAX)
		return gs_fail(err, GS_EINVAL, "a full capture every %" PRIu32 ": at most %d",
			       c->full_every, CTL_SCHEDULE_FULL_EVERY_MAX);
	if (!c->max_stopped || c->max_stopped > CTL_SCHEDULE_STOPPED_MAX)
		return gs_fail(err, GS_EINVAL, "a budget of 1 to %d millionths",
			       CTL_SCHEDULE_STOPPED_MAX);
	return GS_OK;
}

static enum gs_code prepare(struct schedule *s, const struct ctl_schedule_config *config,
			    enum ctl_schedule_open open, struct gs_error *err)
{
	const struct ctl_store_config store = {
		.path = config->dir,
		.keep = config->keep ? config->keep : CTL_SCHEDULE_KEEP_DEFAULT,
		.max_bytes = config->max_bytes,
	};
	const bool watches = config->hung_ns || config->lockup_ns;

	s->config = *config;
	s->config.keep = store.keep;
	s->config.dir = strdup(config->dir);
	if (watches)
		s->watch = ctl_watch_create(config->hung_ns, config->lockup_ns);
	if (!s->config.dir || (watches && !s->watch))
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = ctl_store_create(&store, &s->store, err);
	if (!rc && open == CTL_SCHEDULE_OPEN_NOW)
		rc = ctl_store_open(s->store, err);
	if (!rc)
		ctl_store_stats_get(s->store, &s->folder);
	return rc;
}

static void begin(struct schedule *s)
{
	const uint64_t now = gs_clock_ns();
	const uint64_t hung = s->config.hung_ns ? s->config.hung_ns : UINT64_MAX;
	const uint64_t lockup = s->config.lockup_ns ? s->config.lockup_ns : UINT64_MAX;

	s->pace = (struct ctl_pace){ .every_ns = s->config.every_ns,
				     .jitter = s->config.jitter,
				     .max_stopped = s->config.max_stopped };
	ctl_pace_start(&s->pace, now);
	if (s->watch) {
		s->look_every_ns =
			gs_max(gs_min(gs_min(hung, lockup) / LOOKS_WITHIN, LOOK_EVERY_MAX),
			       LOOK_EVERY_MIN);
		s->look_ns = now + s->look_every_ns;
	}
	arm(s);
}

enum gs_code ctl_schedules_add(struct ctl_schedules *all, const struct ctl_schedule_config *config,
			       enum ctl_schedule_open open, uint32_t *id_out, struct gs_error *err)
{
	enum gs_code rc = check(config, err);

	if (rc)
		return rc;
	if (all->finishing)
		return gs_fail(err, GS_EBUSY, "guestshot is ending");
	if (all->count == CTL_SCHEDULES_MAX)
		return gs_fail(err, GS_ETOOBIG, "%d schedules: remove one first",
			       CTL_SCHEDULES_MAX);
	struct schedule *s = calloc(1, sizeof(*s));
	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	s->all = all;
	rc = prepare(s, config, open, err);
	if (rc) {
		schedule_free(s);
		return rc;
	}
	s->id = ++all->ids;
	s->sink = (struct ctl_sink){ .ready = sink_ready, .put = sink_put, .arg = s };
	(void)uv_timer_init(all->loop, &s->timer); /* cannot fail */
	s->timer.data = s;
	LIST_INSERT_HEAD(&all->list, s, link);
	all->count++;
	begin(s);
	*id_out = s->id;
	return GS_OK;
}

bool ctl_schedules_remove(struct ctl_schedules *all, uint64_t id)
{
	struct schedule *s;

	LIST_FOREACH(s, &all->list, link)
	{
		if (s->id != id || s->removed)
			continue;
		schedule_end(s);
		return true;
	}
	return false;
}

enum gs_code ctl_schedules_create(uv_loop_t *loop, const struct ctl_schedules_config *config,
				  struct ctl_schedules **all_out, struct gs_error *err)
{
	struct ctl_schedules *all = calloc(1, sizeof(*all));

	if (!all)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	all->loop = loop;
	all->config = *config;
	LIST_INIT(&all->list);
	*all_out = all;
	return GS_OK;
}

void ctl_schedules_destroy(struct ctl_schedules *all)
{
	free(all);
}

void ctl_schedules_guest_ended(struct ctl_schedules *all)
{
	struct schedule *s;

	all->ended = true;
	LIST_FOREACH(s, &all->list, link)
	{
		arm(s);
	}
}

void ctl_schedules_finish(struct ctl_schedules *all, void (*finished)(void *arg), void *arg)
{
	struct schedule *s;

	all->finishing = true;
	all->finished = finished;
	all->arg = arg;
	(void)uv_timer_init(all->loop, &all->last); /* cannot fail */
	all->last.data = all;
	LIST_FOREACH(s, &all->list, link)
	{
		if (s->removed)
			continue; /* on its way */
		if (s->busy && s->what != SCHEDULE_TRIGGER &&
		    ctl_worker_withdraw(all->config.worker, &s->job))
			s->busy = false;
		arm(s);
	}
	maybe_finished(all);
}
