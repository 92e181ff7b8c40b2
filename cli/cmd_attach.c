/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot attach: serve the control socket for a guest of another VMM, or for a dump. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/schedule_options.h"
#include "cli/source.h"
#include "control/server.h"
#include "control/worker.h"
#include "introspect/stackshot/stackshot.h"

/* From the decision to end until the process has ended, whatever hangs. */
#define ATTACH_GUARD_MS 60000

struct attach_options {
	struct cli_source_options source;
	const char *control;
	uint64_t deadline_ns; /* for each wait */
	uint64_t wait_ns;     /* for the guest to appear */
	struct cli_kinds kinds;
	struct cli_schedule_options schedule;
	int verbosity;
};

enum { KEY_CONTROL = 0x100, KEY_DEADLINE, KEY_WAIT, KEY_CLUSTER_KIND };

static const struct argp_option options[] = {
	CLI_SOURCE_OPTIONS,
	{ "control", KEY_CONTROL, "PATH", 0, "Serve the control socket here", 3 },
	{ "deadline", KEY_DEADLINE, "DURATION", 0,
	  "Longest wait for each answer of QEMU or libvirt (default: 10s)", 3 },
	{ "wait", KEY_WAIT, "DURATION", 0,
	  "Wait so long for the guest to appear (default: not at all)", 3 },
	{ "cluster-kind", KEY_CLUSTER_KIND, "KINDS", 0,
	  "What each cluster of vCPUs is, divided by commas: big, little or same (default: same)",
	  3 },
	CLI_SCHEDULE_OPTIONS,
	{ "verbose", 'v', NULL, 0, "Say what is going on; twice: more", 6 },
	{ 0 },
};

static error_t parse_end(const struct attach_options *o, struct argp_state *state)
{
	if (cli_source_count(&o->source) != 1)
		argp_error(state, "one guest, please: --domain, --qmp or --core");
	else if (!o->control && !cli_schedule_wanted(&o->schedule))
		argp_error(state, "serve it where? --control PATH is missing");
	else if (cli_schedule_end(&o->schedule, false, state))
		return EINVAL;
	else
		return cli_source_end(&o->source, state);
	return EINVAL;
}

static error_t parse_duration(const char *name, const char *arg, uint64_t *ns_out,
			      struct argp_state *state)
{
	if (cli_parse_duration(arg, ns_out))
		return 0;
	argp_error(state, "%s %s: not a duration (500ms, 10s, 2m)", name, arg);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct attach_options *o = state->input;

	switch (key) {
	case KEY_CONTROL: o->control = arg; return 0;
	case KEY_DEADLINE: return parse_duration("--deadline", arg, &o->deadline_ns, state);
	case KEY_WAIT: return parse_duration("--wait", arg, &o->wait_ns, state);
	case KEY_CLUSTER_KIND:
		if (cli_parse_kinds(arg, &o->kinds))
			return 0;
		argp_error(state, "--cluster-kind %s: " CLI_KINDS_WRONG, arg);
		return EINVAL;
	case 'v': o->verbosity++; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return parse_end(o, state);
	default: break;
	}
	const error_t e = cli_schedule_key(&o->schedule, key, arg, state);
	return e == ARGP_ERR_UNKNOWN ? cli_source_key(&o->source, key, arg, state) : e;
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Serve a control socket for a guest of QEMU or libvirt, or for a memory dump, as "
	       "guestshot run does for its own.",
	.children = cli_argp_children,
};

/* --- serving ------------------------------------------------------------------------------------
 */

struct attach {
	const struct attach_options *o;
	struct cli_source source;
	struct ss_session *session;
	struct ctl_btlogs *btlogs;
	struct ctl_trace *trace;
	uv_loop_t loop;
	bool have_loop;
	struct ctl_worker *worker;
	struct ctl_server *server;
	struct ctl_schedules *schedules;
	bool bad_output; /* the folder for captures cannot be used */
	uv_timer_t guard;
	uv_signal_t signals[4];
	bool ending;
	int signo; /* that ended it; 0: "quit" */
};

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void on_server_closed(void *arg)
{
	struct attach *a = arg;

	a->server = NULL;
	ctl_schedules_destroy(GS_TAKE(a->schedules));
	ctl_worker_close(a->worker);
	a->worker = NULL;
	ctl_trace_end(a->trace);
	uv_walk(&a->loop, close_handle, NULL); /* and uv_run() returns */
}

static int exit_code(const struct attach *a)
{
	return a->signo ? CLI_EXIT_SIGNAL + a->signo : CLI_EXIT_OK;
}

/* What is stopped is resumed by the watcher: guest_source_close() might wait for what hangs. */
__attribute__((noreturn)) static void leave_now(struct attach *a)
{
	ctl_server_unlink(a->server);
	_exit(exit_code(a));
}

static void on_guard(uv_timer_t *handle)
{
	gs_log(GS_LOG_ERROR, "the end takes longer than %d s: leaving without it",
	       ATTACH_GUARD_MS / 1000);
	leave_now(handle->data);
}

static void on_schedules_finished(void *arg)
{
	struct attach *a = arg;

	if (a->server)
		ctl_server_close(a->server, on_server_closed, a);
	else
		on_server_closed(a);
}

static void attach_end(struct attach *a)
{
	if (a->ending)
		return;
	a->ending = true;
	uv_timer_start(&a->guard, on_guard, ATTACH_GUARD_MS, 0);
	if (a->schedules)
		ctl_schedules_finish(a->schedules, on_schedules_finished, a);
	else
		on_schedules_finished(a);
}

static void on_signal(uv_signal_t *handle, int signo)
{
	struct attach *a = handle->data;

	if (a->ending && a->signo)
		leave_now(a); /* asked twice */
	a->signo = signo;
	attach_end(a);
}

static void on_quit(void *arg)
{
	attach_end(arg);
}

static enum gs_code capture(void *arg, const struct ss_request *request,
			    struct ss_result *result_out, struct gs_error *err)
{
	struct attach *a = arg;

	const struct lnx_kernel *before = ss_session_kernel(a->session);
	enum gs_code rc = ss_capture(a->session, request, result_out, err);

	if (ss_session_kernel(a->session) != before)
		cli_kernel_say(ss_session_kernel(a->session));
	return rc;
}

static const struct ctl_hooks hooks = { .quit = on_quit };

static void watch_signals(struct attach *a)
{
	static const int signos[ARRAY_SIZE(a->signals)] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	for (size_t i = 0; i < ARRAY_SIZE(signos); i++) {
		struct sigaction old;

		/* nohup and shells' background jobs have them ignored: so they stay */
		if (!sigaction(signos[i], NULL, &old) && old.sa_handler == SIG_IGN)
			continue;
		if (uv_signal_init(&a->loop, &a->signals[i]))
			continue;
		a->signals[i].data = a;
		/* where it fails it ends us the plain way, and the watcher resumes the guest */
		(void)uv_signal_start(&a->signals[i], on_signal, signos[i]);
	}
}

static enum gs_code server_start(struct attach *a, struct gs_error *err)
{
	const struct ctl_server_config server = {
		.path = a->o->control,
		.guest = a->source.guest.guest,
		.worker = a->worker,
		.trace = a->trace,
		.schedules = a->schedules,
		.hooks = &hooks,
		.arg = a,
	};

	return ctl_server_create(&a->loop, &server, &a->server, err);
}

static enum gs_code serve_start(struct attach *a, struct gs_error *err)
{
	const struct cli_kinds *kinds = &a->o->kinds;
	const struct ss_options how = { .kinds = kinds->count,
					.kind = kinds->kind,
					.remember = true };
	enum gs_code rc = ss_session_create_with(a->source.guest.guest, &how, &a->session, err);

	if (rc)
		return rc;
	int e = uv_loop_init(&a->loop);
	if (e)
		return gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	a->have_loop = true;
	ss_session_hint(a->session, &a->source.hints);
	rc = ctl_btlogs_create(a->source.guest.guest, &a->source.hints, 0, &a->btlogs, err);
	if (!rc && a->o->control) /* without a socket nobody can trace */
		rc = ctl_trace_create(a->source.guest.guest, a->btlogs, &a->trace, err);
	if (rc)
		return rc;
	(void)uv_timer_init(&a->loop, &a->guard); /* cannot fail */
	a->guard.data = a;
	const struct ctl_worker_config worker = {
		.guest = a->source.guest.guest,
		.capture = capture,
		.arg = a,
		.session = a->session,
		.hints = a->source.hints,
		.btlogs = a->btlogs,
		.trace = a->trace,
	};
	rc = ctl_worker_create(&a->loop, &worker, &a->worker, err);
	if (!rc)
		rc = ctl_schedules_create(
			&a->loop,
			&(struct ctl_schedules_config){ .worker = a->worker, .trace = a->trace },
			&a->schedules, err);
	if (!rc && a->o->control)
		rc = server_start(a, err);
	if (rc)
		return rc;
	rc = cli_schedule_add(&a->o->schedule, a->schedules, err);
	a->bad_output = rc;
	if (!rc)
		watch_signals(a);
	return rc;
}

static int attach_run(struct attach *a)
{
	struct gs_error err = { 0 };
	int code = CLI_EXIT_OK;
	enum gs_code rc =
		cli_source_open(&a->o->source, a->o->deadline_ns, a->o->wait_ns, &a->source, &err);

	if (!rc)
		rc = serve_start(a, &err);
	if (rc) {
		code = a->bad_output ? cli_output_error(&err) : cli_error(&err);
		if (a->have_loop)
			attach_end(a);
	} else {
		cli_source_say(&a->source.guest, "attached by ");
	}
	if (a->have_loop) {
		uv_run(&a->loop, UV_RUN_DEFAULT);
		(void)uv_loop_close(&a->loop); /* nothing is open: all was closed and run */
	}
	ctl_trace_destroy(a->trace);
	ctl_btlogs_destroy(a->btlogs);
	ss_session_destroy(a->session);
	cli_source_close(&a->source);
	return code ? code : exit_code(a);
}

int cli_cmd_attach(int argc, char **argv)
{
	struct attach_options o = { .deadline_ns = 10 * GS_NS_PER_SEC };
	int code;

	cli_schedule_init(&o.schedule);
	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (o.verbosity)
		gs_log_set_level(o.verbosity > 1 ? GS_LOG_DEBUG : GS_LOG_INFO);
	struct attach *a = calloc(1, sizeof(*a));
	if (!a) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	a->o = &o;
	code = attach_run(a);
	free(a);
	return code;
}
