/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot run: the machine, what watches it, and the order in which all of it ends. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/artifacts.h"
#include "cli/cli.h"
#include "cli/outcome.h"
#include "cli/profiles.h"
#include "cli/results.h"
#include "cli/run.h"
#include "control/schedules.h"
#include "control/server.h"
#include "control/worker.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/stackshot_types.h"
#include "vmm/vmm.h"

/* How often the last, unfinished line of the console is looked at while output comes. */
#define RUN_PARTIAL_MS 30
/* After the guest's end, time for its last output to come through before --until has not matched.
 */
#define RUN_SETTLE_MS 150
/* So often at most, while not all of it has come. */
#define RUN_SETTLES_MAX 40
/* From the decision to end until the process has ended, whatever hangs. A CI job must end. */
#define RUN_GUARD_MS 60000
/* For the results, which a disk that hangs must not hold up for ever either. */
#define RUN_RESULTS_MS 15000

/*
 *	RUNNING --reason--> TRIGGERS --taken--> SNAPSHOT --done--> KILLING --guest has ended--> CLOSING
 *					    \--- none asked for ----^		--closed--> out
 */
enum phase { PHASE_RUNNING, PHASE_TRIGGERS, PHASE_SNAPSHOT, PHASE_KILLING, PHASE_CLOSING };

struct run {
	struct cli_run_options *o;
	uv_loop_t loop;
	bool have_loop;
	struct cli_console console;
	struct cli_profiles profiles;
	struct lnx_hints hints;
	struct vmm *vm;
	struct ss_session *session;
	struct ctl_btlogs *btlogs;
	struct ctl_trace *trace; /* outlives the machine, whose vCPUs tell it of themselves */
	struct ctl_worker *worker;
	struct ctl_server *server;
	struct ctl_schedules *schedules;
	bool schedules_finished;
	uint32_t settles; /* waits for the last output */
	struct cli_console_watch watch;
	_Atomic uint64_t console_seen; /* bytes that on_console() has had */
	bool panicked;		       /* the console says so, and a trigger was to see */
	char panic[sizeof(((struct ss_reason_record *)0)->text)]; /* in these words; guest text */
	struct cli_artifacts artifacts;
	uint64_t began_ns, began_us; /* monotonic; since 1970 */
	struct gs_error not_started; /* why */
	struct cli_end facts;
	struct cli_outcome outcome; /* of these; by outcome_find() */

	/* the last capture that was taken for a reason: its stream, or NULL; the worker's until it is closed */
	void *kept;
	size_t kept_size;
	bool kept_waits; /* it says what threads wait for */

	uv_async_t wake; /* from the machine's threads: output came, or the guest has ended */
	pthread_mutex_t wake_lock;
	bool wake_open; /* under wake_lock: the machine outlives the loop and its last output too */
	uv_timer_t timeout; /* --timeout */
	uv_timer_t partial; /* look at the unfinished line; after the guest's end: settle */
	uv_timer_t guard;
	uv_signal_t signals[4];
	size_t signal_count;

	enum phase phase;
	enum cli_run_reason reason; /* from SNAPSHOT on */
	int signo;		    /* of CLI_RUN_SIGNAL */
	bool quit;		    /* somebody asked for the end */
	bool end_seen;
	int snapshot_code; /* exit code of the snapshot's own outcome; 0: fine, or none taken */
	char *snapshot_path;
	struct ctl_job snapshot;
	struct ss_cause cause; /* of the snapshot */
};

/* --- how it turned out --------------------------------------------------------------------------
 */

static void outcome_find(struct run *r, enum vmm_end end)
{
	struct cli_end *e = &r->facts;

	e->reason = r->reason;
	e->end = end;
	e->panicked = r->panicked;
	e->signo = r->signo;
	cli_until_get(&r->o->until, &e->match);
	cli_outcome_find(r->o, e, &r->outcome);
}

/* What became of the guest says more than what became of its capture. */
static int exit_of(const struct run *r)
{
	return r->outcome.code ? r->outcome.code : r->snapshot_code;
}

/* Line by line for a person, when it did not end as a run ends. */
static void explain(const struct cli_outcome *outcome, const char *report)
{
	gs_log(outcome->code ? GS_LOG_ERROR : GS_LOG_INFO, "%s", outcome->text);
	if (report)
		fputs(report, stderr);
}

/* What a line that has matched is for an end. */
static enum cli_run_reason reason_of_line(struct run *r)
{
	struct cli_until_match m;

	cli_until_get(&r->o->until, &m);
	return m.kind == CLI_UNTIL_FAIL	    ? CLI_RUN_FAIL_ON
	       : m.kind == CLI_UNTIL_STATUS ? CLI_RUN_STATUS_LINE
					    : CLI_RUN_UNTIL;
}

/* --- what is left of it -------------------------------------------------------------------------
 */

struct results {
	struct run *r;
	struct rep_summary s;
	struct cli_until_match match;
	struct rep_capture capture;
	struct ss_console_record console[SS_CONSOLE_LINES];
	bool written;
};

static void *results_thread(void *arg)
{
	struct results *what = arg;

	what->written = cli_results_write(&what->r->artifacts, what->r->o->junit, &what->s,
					  what->r->began_us);
	return NULL;
}

/* A disk may hang, and the process is to end all the same: the thread is then not waited for. */
static bool results_within_limit(struct results *what, int code)
{
	struct timespec until;
	pthread_t thread;

	if (pthread_create(&thread, NULL, results_thread, what)) {
		(void)results_thread(what);
		return what->written;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += RUN_RESULTS_MS / 1000;
	if (!pthread_timedjoin_np(thread, NULL, &until))
		return what->written;
	gs_log(GS_LOG_ERROR, "the results take longer than %d s: leaving without them",
	       RUN_RESULTS_MS / 1000);
	_exit(code ? code : CLI_EXIT_OUTPUT);
}

/* Where the capture that was kept is; to be freed. */
static char *kept_path(const struct run *r, const struct rep_capture *c)
{
	if (r->snapshot_path && r->snapshot.done && !r->snapshot.code &&
	    r->snapshot.result.start_ns == c->start_ns)
		return strdup(r->snapshot_path);
	return cli_schedule_wanted(&r->o->schedule)
		       ? cli_artifacts_find_capture(r->o->schedule.schedule.dir, c->start_ns)
		       : NULL;
}

/*
 * Say how it went, and write it.
 *
 * @param with_capture  the worker does not take one any more
 * @return whether all is written
 */
static bool sum_up(struct run *r, const char *report, bool with_capture)
{
	const struct cli_outcome *outcome = &r->outcome;
	GS_FREE struct results *what = calloc(1, sizeof(*what));
	GS_FREE char *path = NULL;
	struct gs_error err = { 0 };

	if (!what) {
		explain(outcome, report);
		return false;
	}
	/* of output that came later than another end it is none of the result */
	if (r->reason == CLI_RUN_UNTIL || r->reason == CLI_RUN_FAIL_ON ||
	    r->reason == CLI_RUN_STATUS_LINE)
		cli_until_get(&r->o->until, &what->match);
	what->r = r;
	what->s = (struct rep_summary){
		.name = cli_run_name(r->o),
		.result = outcome->result,
		.type = outcome->type,
		.text = outcome->text,
		.report = report,
		.line = what->match.kind ? what->match.line : NULL,
		.panic = *r->panic ? r->panic : NULL,
		.passed = !strcmp(outcome->result, "passed"),
		.has_status = what->match.has_status,
		.status = what->match.status,
		.exit_code = exit_of(r),
		.took_ns = r->began_ns ? gs_clock_ns() - r->began_ns : 0,
		.console = what->console,
		.console_lines = cli_console_watch_tail(&r->watch, what->console),
	};
	if (with_capture && r->kept) {
		if (rep_capture_parse("the last capture", r->kept, r->kept_size, &what->capture,
				      &err)) {
			gs_log(GS_LOG_ERROR, "%s", err.text);
		} else {
			what->s.capture = &what->capture;
			what->s.capture_file = path = kept_path(r, &what->capture);
		}
	}
	const bool ok = results_within_limit(what, what->s.exit_code);
	if (what->s.capture)
		rep_capture_deinit(&what->capture);
	return ok;
}

/* --- ending -------------------------------------------------------------------------------------
 */

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void set_wake_open(struct run *r, bool open)
{
	pthread_mutex_lock(&r->wake_lock);
	r->wake_open = open;
	pthread_mutex_unlock(&r->wake_lock);
}

static void on_server_closed(void *arg)
{
	struct run *r = arg;

	r->server = NULL;
	ctl_schedules_destroy(GS_TAKE(r->schedules));
	ctl_worker_close(r->worker);
	r->worker = NULL;
	ctl_trace_end(r->trace); /* it may look at the guest until here */
	cli_console_detach(&r->console);
	set_wake_open(r, false);
	uv_walk(&r->loop, close_handle, NULL); /* and uv_run() returns */
}

static void run_close(struct run *r);

static void on_unstarted_finished(void *arg)
{
	struct run *r = arg;

	r->schedules_finished = true;
	run_close(r);
}

static void run_close(struct run *r)
{
	r->phase = PHASE_CLOSING;
	if (r->schedules && !r->schedules_finished)
		ctl_schedules_finish(r->schedules, on_unstarted_finished,
				     r); /* of a failed start */
	else if (r->server)
		ctl_server_close(r->server, on_server_closed, r);
	else
		on_server_closed(r);
}

static void run_kill(struct run *r)
{
	r->phase = PHASE_KILLING;
	if (r->end_seen)
		run_close(r);
	else
		vmm_kill(r->vm); /* on_wake() goes on when it has ended */
}

static void on_snapshot_done(struct ctl_job *job)
{
	struct run *r = job->arg;
	char size[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX];

	if (job->code) {
		gs_log(GS_LOG_ERROR, "snapshot: %s", job->err.text);
		r->snapshot_code = CLI_EXIT_OUTPUT;
	} else {
		fprintf(stderr,
			"guestshot: snapshot on %s: %" PRIu32 " tasks, %" PRIu32
			" threads, %s to %s; "
			"guest stopped %s%s\n",
			cli_run_reason_name(r->reason), job->result.tasks, job->result.threads,
			cli_format_size(job->result.size, size), r->snapshot_path,
			cli_format_duration(job->result.stopped_ns, stopped),
			job->result.complete ? "" : "; incomplete");
		r->snapshot_code = job->result.complete ? CLI_EXIT_OK : CLI_EXIT_INCOMPLETE;
	}
	run_kill(r);
}

/* The process ends although something hangs or nobody wants to wait; only what others see is
 * tidied. */
__attribute__((noreturn)) static void leave_now(struct run *r)
{
	outcome_find(r, vmm_ended(r->vm));
	cli_console_restore();
	ctl_server_unlink(r->server);
	_exit(exit_of(r));
}

static void on_guard(uv_timer_t *handle)
{
	struct run *r = handle->data;

	gs_log(GS_LOG_ERROR, "the end takes longer than %d s: leaving without it",
	       RUN_GUARD_MS / 1000);
	cli_console_restore();
	ctl_server_unlink(r->server); /* a disk may hang, and the process then ends there */
	outcome_find(r, vmm_ended(r->vm));
	if (cli_run_wants_summary(r->o))
		(void)sum_up(r, NULL, false); /* it has said what it could not */
	leave_now(r);
}

static uint32_t console_tail(void *arg, struct ss_console_record lines_out[SS_CONSOLE_LINES])
{
	struct run *r = arg;

	return cli_console_watch_tail(&r->watch, lines_out);
}

static struct ss_reason_record reason_record(struct run *r, enum cli_run_reason reason)
{
	static const uint32_t reasons[] = {
		[CLI_RUN_TIMEOUT] = SS_REASON_TIMEOUT, [CLI_RUN_EXIT] = SS_REASON_EXIT,
		[CLI_RUN_UNTIL] = SS_REASON_UNTIL,     [CLI_RUN_SIGNAL] = SS_REASON_SIGNAL,
		[CLI_RUN_FAIL_ON] = SS_REASON_CONSOLE, [CLI_RUN_STATUS_LINE] = SS_REASON_CONSOLE,
	};
	struct ss_reason_record why = {
		.reason = reasons[reason], .pid = -1, .tid = -1, .vcpu = -1
	};
	struct cli_until_match m;

	cli_until_get(&r->o->until, &m);
	if (why.reason == SS_REASON_CONSOLE)
		memcpy(why.text, m.line, strnlen(m.line, sizeof(why.text) - 1));
	return why;
}

/* What triggers have asked for is taken. */
static void on_schedules_finished(void *arg)
{
	struct run *r = arg;
	const enum cli_run_reason reason = r->reason;

	r->schedules_finished = true;
	if (!(r->o->snapshot_on & (1u << reason))) {
		run_kill(r);
		return;
	}
	r->phase = PHASE_SNAPSHOT;
	const char *folder = r->o->artifacts;
	if (r->o->snapshot
		    ? (r->snapshot_path = strdup(r->o->snapshot)) == NULL
		    : asprintf(&r->snapshot_path, "%s%sguestshot-%s.kcdata", folder ? folder : "",
			       folder ? "/" : "", cli_run_reason_name(reason)) < 0) {
		r->snapshot_path = NULL;
		r->snapshot_code = CLI_EXIT_SYSTEM;
		run_kill(r);
		return;
	}
	r->cause.reason = reason_record(r, reason);
	r->cause.console_lines = console_tail(r, r->cause.console);
	r->snapshot = (struct ctl_job){
		.kind = CTL_JOB_SNAP,
		.ask = { .pid = SS_PID_ALL,
			 .flags = KCD_SS_REQ_THREAD_WAITINFO, /* who holds what is waited for */
			 .cause = &r->cause },
		.path = r->snapshot_path,
		.done = on_snapshot_done,
		.arg = r,
	};
	ctl_worker_post(r->worker, &r->snapshot);
}

/*
 * Whether the folder is to have a capture of the end: of all that did not go well, unless there is one, or
 * will be one, that has nothing less in it.
 */
static bool wants_capture(struct run *r)
{
	if (!r->o->artifacts || r->o->snapshot_on & (1u << r->reason) ||
	    (r->panicked && r->reason == CLI_RUN_EXIT))
		return false;
	outcome_find(r, vmm_ended(r->vm));
	return r->outcome.code;
}

/* The first reason counts; later ones find the end under way. */
static void run_end(struct run *r, enum cli_run_reason reason)
{
	if (r->phase != PHASE_RUNNING)
		return;
	r->phase = PHASE_TRIGGERS;
	r->reason = reason;
	uv_timer_start(&r->guard, on_guard, RUN_GUARD_MS, 0);
	const struct ss_reason_record why = reason_record(r, reason);
	const bool is_asked_for =
		reason == CLI_RUN_TIMEOUT && r->o->schedule.triggers & (1u << SS_REASON_TIMEOUT);
	if (is_asked_for || wants_capture(r))
		ctl_schedules_trigger(r->schedules, &why);
	ctl_schedules_finish(r->schedules, on_schedules_finished, r);
}

/* --- what happens meanwhile ---------------------------------------------------------------------
 */

/* Have captures taken for what the console said, and traces told. */
static void pull_triggers(struct run *r)
{
	struct ss_reason_record reason;

	while (cli_console_watch_take(&r->watch, &reason)) {
		if (!(r->o->schedule.triggers & 1u << reason.reason)) {
			ctl_schedules_tell(r->schedules, &reason);
			continue;
		}
		if (reason.reason == SS_REASON_PANIC && !r->panicked)
			memcpy(r->panic, reason.text, sizeof(r->panic));
		r->panicked |= reason.reason == SS_REASON_PANIC;
		ctl_schedules_trigger(r->schedules, &reason);
	}
}

/* Whether on_console() has had all that the guest has said. */
static bool console_is_seen(const struct run *r)
{
	struct vmm_status status;

	vmm_status_get(r->vm, &status);
	/* relaxed: a hint; what it counts is under locks */
	return atomic_load_explicit(&r->console_seen, memory_order_relaxed) +
		       status.console_dropped >=
	       status.console_bytes;
}

/* The guest has ended and its output had time to come through. */
static void on_settled(uv_timer_t *handle)
{
	struct run *r = handle->data;

	if (!console_is_seen(r) && r->settles++ < RUN_SETTLES_MAX) {
		uv_timer_start(&r->partial, on_settled, RUN_SETTLE_MS, 0);
		return;
	}
	pull_triggers(r);
	run_end(r, cli_until_check_partial(&r->o->until, true) ? reason_of_line(r) : CLI_RUN_EXIT);
}

static void on_partial(uv_timer_t *handle)
{
	struct run *r = handle->data;

	if (cli_until_check_partial(&r->o->until, false))
		run_end(r, reason_of_line(r));
}

static bool reads_console(const struct cli_run_options *o)
{
	return o->until.patterns || o->snapshot_on || cli_schedule_wanted(&o->schedule) ||
	       cli_run_wants_summary(o);
}

static void trace_end(struct run *r, enum vmm_end end)
{
	if (end == VMM_END_POWEROFF)
		ctl_trace_guest(r->trace, CTL_TRACE_POWEROFF, 0, 0);
	else if (end == VMM_END_REBOOT)
		ctl_trace_guest(r->trace, CTL_TRACE_REBOOT, 0, 0);
	else if (end == VMM_END_CRASH)
		ctl_trace_guest(r->trace, CTL_TRACE_CRASH, 0, 0);
}

static void on_guest_end(struct run *r)
{
	r->end_seen = true;
	trace_end(r, vmm_ended(r->vm));
	if (r->server)
		ctl_server_guest_ended(r->server, cli_end_name(vmm_ended(r->vm)));
	ctl_schedules_guest_ended(r->schedules);
	if (r->phase == PHASE_KILLING)
		run_close(r);
	else if (r->phase == PHASE_RUNNING && reads_console(r->o) && !r->quit)
		uv_timer_start(&r->partial, on_settled, RUN_SETTLE_MS, 0);
	else
		run_end(r, CLI_RUN_EXIT);
}

static void on_wake(uv_async_t *handle)
{
	struct run *r = handle->data;

	if (r->phase == PHASE_RUNNING)
		pull_triggers(r);
	if (r->o->until.patterns && r->phase == PHASE_RUNNING) {
		if (cli_until_matched(&r->o->until))
			run_end(r, reason_of_line(r));
		else if (!uv_is_active((uv_handle_t *)&r->partial))
			uv_timer_start(&r->partial, on_partial, RUN_PARTIAL_MS, 0);
	}
	if (!r->end_seen && vmm_ended(r->vm) != VMM_RUNNING)
		on_guest_end(r);
}

static void on_timeout(uv_timer_t *handle)
{
	run_end(handle->data, CLI_RUN_TIMEOUT);
}

static void on_signal(uv_signal_t *handle, int signo)
{
	struct run *r = handle->data;

	if (r->phase != PHASE_RUNNING && r->signo)
		leave_now(r); /* asked twice */
	r->signo = signo;
	run_end(r, CLI_RUN_SIGNAL);
}

static void on_quit(void *arg)
{
	struct run *r = arg;

	if (r->phase != PHASE_RUNNING)
		return;
	r->quit = true;
	vmm_kill(r->vm); /* on_guest_end() follows */
}

/* --- called on the machine's threads ------------------------------------------------------------
 */

static void wake_loop(struct run *r)
{
	pthread_mutex_lock(&r->wake_lock);
	if (r->wake_open)
		uv_async_send(&r->wake);
	pthread_mutex_unlock(&r->wake_lock);
}

/* What traces ask for, whether captures are to be taken of it or not. */
static uint32_t traced_reasons(const struct run *r)
{
	uint32_t reasons = 0;

	if (ctl_trace_wants_guest(r->trace, CTL_TRACE_PANIC))
		reasons |= 1u << SS_REASON_PANIC;
	if (ctl_trace_wants_guest(r->trace, CTL_TRACE_OOPS))
		reasons |= 1u << SS_REASON_OOPS;
	return reasons;
}

static void on_console(void *arg, const char *bytes, size_t len)
{
	struct run *r = arg;
	const uint32_t traced = traced_reasons(r);

	if (!traced && !reads_console(r->o))
		return;
	cli_artifacts_console(&r->artifacts, bytes, len);
	if (r->o->until.patterns)
		(void)cli_until_feed(&r->o->until, bytes, len); /* the loop asks */
	cli_console_watch_look_for(&r->watch, r->o->schedule.triggers | traced);
	cli_console_watch_feed(&r->watch, bytes, len);
	atomic_fetch_add_explicit(&r->console_seen, len, memory_order_relaxed);
	wake_loop(r);
}

static void on_vmm_end(void *arg, enum vmm_end end)
{
	(void)end; /* vmm_ended() has it */
	wake_loop(arg);
}

/*
 * For the summary: a full one that was taken for a reason; one that does not say what threads wait for does not
 * replace one that does. Without memory there is none.
 */
static void keep_capture(struct run *r, const struct ss_request *request,
			 const struct ss_result *result)
{
	const bool has_waits = request->flags & KCD_SS_REQ_THREAD_WAITINFO;

	if (!cli_run_wants_summary(r->o) || !request->cause || request->since_ns || !result->data ||
	    (r->kept && r->kept_waits && !has_waits))
		return;
	void *copy = malloc(result->size);
	if (!copy)
		return;
	memcpy(copy, result->data, result->size);
	free(r->kept);
	r->kept = copy;
	r->kept_size = result->size;
	r->kept_waits = has_waits;
}

/* A vCPU that has left the guest. */
struct vcpu_here {
	struct run *r;
	uint32_t vcpu;
};

static bool regs_here(void *arg, struct guest_vcpu_regs *regs_out)
{
	const struct vcpu_here *here = arg;

	vmm_vcpu_regs_here(here->r->vm, here->vcpu, regs_out);
	return true;
}

static void on_vcpu(void *arg, uint32_t vcpu, enum vmm_vcpu_event what, uint64_t value)
{
	static const enum ctl_trace_vcpu events[] = {
		[VMM_VCPU_EXIT_MMIO] = CTL_TRACE_EXIT_MMIO,
		[VMM_VCPU_EXIT_INTERRUPTED] = CTL_TRACE_EXIT_INTERRUPTED,
		[VMM_VCPU_EXIT_OTHER] = CTL_TRACE_EXIT_OTHER,
		[VMM_VCPU_STOP] = CTL_TRACE_STOP,
		[VMM_VCPU_RESUME] = CTL_TRACE_RESUME,
	};
	struct run *r = arg;
	struct vcpu_here here = { r, vcpu };
	/* of one that is kept out, others may be reading what was saved */
	const bool left = what != VMM_VCPU_STOP && what != VMM_VCPU_RESUME;

	if (r->trace)
		ctl_trace_vcpu(r->trace, vcpu, events[what], value, left ? regs_here : NULL, &here);
}

static enum gs_code capture(void *arg, const struct ss_request *request,
			    struct ss_result *result_out, struct gs_error *err)
{
	struct run *r = arg;
	enum gs_code rc = ss_capture(r->session, request, result_out, err);

	if (!rc)
		keep_capture(r, request, result_out);
	return rc;
}

static void machine_status(void *arg, struct vmm_status *status_out)
{
	const struct run *r = arg;

	vmm_status_get(r->vm, status_out);
}

/* It stands still while the guest is stopped. */
static uint64_t guest_ns(void *arg)
{
	const struct run *r = arg;
	struct vmm_status status;

	vmm_status_get(r->vm, &status);
	return status.uptime_ns - gs_min(status.stopped_ns, status.uptime_ns);
}

static const struct ctl_hooks hooks = { .machine_status = machine_status, .quit = on_quit };

/* --- starting -----------------------------------------------------------------------------------
 */

static void watch_signals(struct run *r)
{
	static const int signos[ARRAY_SIZE(r->signals)] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(signos); i++) {
		struct sigaction old;
		uv_signal_t *s = &r->signals[r->signal_count];

		/* nohup and shells' background jobs have them ignored: so they stay */
		if (!sigaction(signos[i], NULL, &old) && old.sa_handler == SIG_IGN)
			continue;
		if (uv_signal_init(&r->loop, s))
			continue;
		s->data = r;
		(void)uv_signal_start(s, on_signal, signos[i]); /* then it ends us the plain way */
		r->signal_count++;
	}
}

static enum gs_code loop_start(struct run *r, struct gs_error *err)
{
	int e = uv_loop_init(&r->loop);

	if (e)
		return gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	r->have_loop = true;
	e = uv_async_init(&r->loop, &r->wake, on_wake);
	if (e)
		return gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	r->wake.data = r;
	set_wake_open(r, true);
	uv_timer_t *timers[] = { &r->timeout, &r->partial, &r->guard };
	for (size_t i = 0; i < ARRAY_SIZE(timers); i++) {
		(void)uv_timer_init(&r->loop, timers[i]); /* cannot fail */
		timers[i]->data = r;
	}
	return GS_OK;
}

static enum gs_code machine_create(struct run *r, struct gs_error *err)
{
	const struct cli_run_options *o = r->o;
	const struct vmm_config config = {
		.kernel_path = o->kernel,
		.initrd_path = o->initrd,
		.cmdline = o->append,
		.ram_bytes = o->memory,
		.cpus = o->cpus,
		.clusters = o->clusters,
		.console_in = r->console.in,
		.console_out = r->console.out,
		.console_buffer = o->console_buffer,
		/* who traces may want to know of it at any time */
		.on_console = reads_console(o) || o->control ? on_console : NULL,
		.on_end = on_vmm_end,
		.on_vcpu = on_vcpu,
		.arg = r,
	};
	enum gs_code rc = vmm_create(&config, &r->vm, err);
	if (rc == GS_ENOENT && access("/dev/kvm", F_OK))
		rc = err->code = GS_ENOTSUP; /* not a file of the user's that is missing */
	const struct ss_options options = { .kinds = o->kinds.count,
					    .kind = o->kinds.kind,
					    .remember = true };
	if (!rc)
		rc = ss_session_create_with(vmm_guest(r->vm), &options, &r->session, err);
	if (rc)
		return rc;
	ss_session_hint(r->session, &r->hints);
	rc = ctl_btlogs_create(vmm_guest(r->vm), &r->hints, 0, &r->btlogs, err);
	/* without a socket nobody can trace */
	return rc || !o->control ? rc
				 : ctl_trace_create(vmm_guest(r->vm), r->btlogs, &r->trace, err);
}

static enum gs_code schedules_create(struct run *r, struct gs_error *err)
{
	const struct ctl_schedules_config config = {
		.worker = r->worker,
		.guest_ns = guest_ns,
		.console = console_tail,
		.arg = r,
		.trace = r->trace,
	};

	return ctl_schedules_create(&r->loop, &config, &r->schedules, err);
}

static enum gs_code control_create(struct run *r, struct gs_error *err)
{
	const struct ctl_worker_config worker = {
		.guest = vmm_guest(r->vm),
		.capture = capture,
		.arg = r,
		.session = r->session,
		.hints = r->hints,
		.btlogs = r->btlogs,
		.trace = r->trace,
	};
	enum gs_code rc = ctl_worker_create(&r->loop, &worker, &r->worker, err);

	if (!rc)
		rc = schedules_create(r, err);
	if (rc || !r->o->control)
		return rc;
	const struct ctl_server_config server = {
		.path = r->o->control,
		.guest = worker.guest,
		.worker = r->worker,
		.trace = r->trace,
		.schedules = r->schedules,
		.hooks = &hooks,
		.arg = r,
	};
	return ctl_server_create(&r->loop, &server, &r->server, err);
}

/* What cannot be written is better known before the guest has run for an hour. */
static enum gs_code check_folder_of(const char *path, const char *what, struct gs_error *err)
{
	const char *slash = strrchr(path, '/');
	GS_FREE char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	if (!folder)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	if (access(folder, W_OK | X_OK)) {
		int e = errno;
		return gs_fail_errno(err, GS_ESYS, e, "no %s could be written to %s", what, folder);
	}
	return GS_OK;
}

static enum gs_code check_outputs(struct run *r, struct gs_error *err)
{
	const struct cli_run_options *o = r->o;
	enum gs_code rc = GS_OK;

	if (o->snapshot_on && (o->snapshot || !o->artifacts))
		rc = check_folder_of(o->snapshot ? o->snapshot : "", "snapshot", err);
	if (!rc && o->junit)
		rc = check_folder_of(o->junit, "JUnit file", err);
	if (!rc && o->artifacts)
		rc = cli_artifacts_open(&r->artifacts, o->artifacts, err);
	return rc;
}

/* The folders are ours: what earlier runs have left of their results is not to be taken for that of this one. */
static enum gs_code begin_outputs(struct run *r, struct gs_error *err)
{
	enum gs_code rc = cli_schedule_add(&r->o->schedule, r->schedules, err);

	if (!rc && r->o->artifacts)
		rc = cli_artifacts_begin(&r->artifacts, err);
	if (!rc && r->o->junit)
		rc = cli_artifacts_remove_old(r->o->junit, err);
	return rc;
}

/*
 * Everything up to the first instruction.
 *
 * @param err  what is wrong, which standard error says, too
 * @return exit code; 0: it runs
 */
static int start(struct run *r, struct gs_error *err)
{
	if (check_outputs(r, err) || cli_schedule_watch(&r->o->schedule, &r->watch, err) ||
	    cli_console_open(&r->console, r->o->console, r->o->console_path, err)) {
		(void)cli_error(err);
		return CLI_EXIT_OUTPUT;
	}
	enum gs_code rc = cli_profiles_open(r->o->profile, &r->profiles, &r->hints, err);
	if (!rc)
		rc = loop_start(r, err);
	if (!rc)
		rc = machine_create(r, err);
	if (!rc)
		rc = control_create(r, err);
	if (rc)
		return cli_error(err);
	if (begin_outputs(r, err))
		return cli_output_error(err);
	watch_signals(r);
	cli_console_attach(&r->console, &r->loop, on_quit, r);
	if (r->o->timeout_ns)
		uv_timer_start(&r->timeout, on_timeout,
			       (r->o->timeout_ns + GS_NS_PER_MS - 1) / GS_NS_PER_MS, 0);
	r->began_ns = gs_clock_ns();
	rc = vmm_start(r->vm, err);
	if (!rc)
		return CLI_EXIT_OK;
	cli_console_restore(); /* before the message */
	return cli_error(err);
}

static void warn_of_losses(const struct vmm_status *status)
{
	if (status->console_dropped)
		gs_log(GS_LOG_WARNING,
		       "%" PRIu64 " of %" PRIu64
		       " bytes of console output were lost to a slow reader "
		       "(--console-buffer)",
		       status->console_dropped, status->console_bytes);
}

/* The loop is done: let the last output through, then say how it went. @return exit code */
static int finish(struct run *r)
{
	enum vmm_end end = vmm_ended(r->vm);
	bool written = true;
	struct vmm_status status;
	GS_FREE char *report = strdup(vmm_end_report(r->vm));

	vmm_status_get(r->vm, &status);
	ctl_btlogs_destroy(GS_TAKE(r->btlogs)); /* it may sample until here */
	vmm_destroy(GS_TAKE(r->vm));
	if (r->reason == CLI_RUN_EXIT && cli_until_check_partial(&r->o->until, true))
		r->reason = reason_of_line(r); /* it was in that last output */
	warn_of_losses(&status);
	outcome_find(r, end);
	const bool has_report = end == VMM_END_ERROR && r->reason == CLI_RUN_EXIT;
	if (!cli_run_wants_summary(r->o))
		explain(&r->outcome, has_report ? report : NULL);
	else if (!sum_up(r, has_report ? report : NULL, true))
		written = false;
	if (!cli_artifacts_close(&r->artifacts))
		written = false;
	const int code = exit_of(r);
	return code || written ? code : CLI_EXIT_OUTPUT;
}

/* No guest was started: that is a result, too. */
static void finish_unstarted(struct run *r, int code)
{
	r->facts.not_started = &r->not_started;
	cli_outcome_find(r->o, &r->facts, &r->outcome);
	r->outcome.code = code;
	if (cli_run_wants_summary(r->o))
		(void)sum_up(r, NULL, false); /* it has said what it could not */
	(void)cli_artifacts_close(&r->artifacts);
}

static void run_destroy(struct run *r)
{
	ctl_trace_end(r->trace);
	ctl_btlogs_destroy(r->btlogs);
	vmm_destroy(r->vm);
	ctl_trace_destroy(r->trace);
	ss_session_destroy(r->session);
	cli_profiles_close(&r->profiles);
	cli_console_close(&r->console);
	if (r->have_loop)
		(void)uv_loop_close(&r->loop); /* nothing is open: all was closed and run */
	pthread_mutex_destroy(&r->wake_lock);
	cli_console_watch_deinit(&r->watch);
	ctl_schedules_destroy(r->schedules);
	free(r->snapshot_path);
	free(r->kept);
	free(r);
}

int cli_run_machine(struct cli_run_options *o)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	r->o = o;
	r->console = (struct cli_console)CLI_CONSOLE_CLOSED;
	r->artifacts = (struct cli_artifacts)CLI_ARTIFACTS_NONE;
	r->began_us = gs_clock_wall_us();
	pthread_mutex_init(&r->wake_lock, NULL);
	cli_console_watch_init(&r->watch);
	int code = start(r, &r->not_started);
	if (code && r->have_loop)
		run_close(r);
	if (r->have_loop)
		uv_run(&r->loop, UV_RUN_DEFAULT);
	if (code)
		finish_unstarted(r, code);
	else
		code = finish(r);
	run_destroy(r);
	return code;
}
