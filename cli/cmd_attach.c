/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot attach: serve the control socket for a guest of another VMM, or for a dump. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "control/server.h"
#include "control/worker.h"
#include "introspect/guest/source.h"
#include "introspect/stackshot/stackshot.h"

/* From the decision to end until the process has ended, whatever hangs. */
#define ATTACH_GUARD_MS 60000
/* How far apart the tries are while the guest is waited for. */
#define ATTACH_WAIT_MS 100

struct attach_options {
	const char *domain, *connect, *qmp, *core;
	const char *control;
	uint64_t deadline_ns; /* for each wait */
	uint64_t wait_ns;     /* for the guest to appear */
	int verbosity;
};

enum { KEY_DOMAIN = 0x100, KEY_CONNECT, KEY_QMP, KEY_CORE, KEY_CONTROL, KEY_DEADLINE, KEY_WAIT };

static const struct argp_option options[] = {
	{ "domain", KEY_DOMAIN, "NAME", 0, "A libvirt domain, by name or UUID", 1 },
	{ "connect", KEY_CONNECT, "URI", 0, "libvirt's URI (default: libvirt's own)", 1 },
	{ "qmp", KEY_QMP, "SOCKET", 0, "A QEMU, by its QMP socket", 1 },
	{ "core", KEY_CORE, "FILE", 0, "A memory dump", 1 },
	{ "control", KEY_CONTROL, "PATH", 0, "Serve the control socket here", 2 },
	{ "deadline", KEY_DEADLINE, "DURATION", 0,
	  "Longest wait for each answer of QEMU or libvirt (default: 10s)", 2 },
	{ "wait", KEY_WAIT, "DURATION", 0,
	  "Wait so long for the guest to appear (default: not at all)", 2 },
	{ "verbose", 'v', NULL, 0, "Say what is going on; twice: more", 2 },
	{ 0 },
};

static error_t parse_end(const struct attach_options *o, struct argp_state *state)
{
	int guests = (o->domain != NULL) + (o->qmp != NULL) + (o->core != NULL);

	if (guests != 1)
		argp_error(state, "one guest, please: --domain, --qmp or --core");
	else if (o->connect && !o->domain)
		argp_error(state, "--connect goes with --domain");
	else if (!o->control)
		argp_error(state, "serve it where? --control PATH is missing");
	else
		return 0;
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
	case KEY_DOMAIN: o->domain = arg; return 0;
	case KEY_CONNECT: o->connect = arg; return 0;
	case KEY_QMP: o->qmp = arg; return 0;
	case KEY_CORE: o->core = arg; return 0;
	case KEY_CONTROL: o->control = arg; return 0;
	case KEY_DEADLINE: return parse_duration("--deadline", arg, &o->deadline_ns, state);
	case KEY_WAIT: return parse_duration("--wait", arg, &o->wait_ns, state);
	case 'v': o->verbosity++; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return parse_end(o, state);
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Serve a control socket for a guest of QEMU or libvirt, or for a memory dump, as "
	       "guestshot run does for its own.",
	.children = cli_argp_children,
};

/* --- the guest ----------------------------------------------------------------------------------
 */

static enum gs_code open_once(const struct attach_options *o, struct guest_source *source_out,
			      struct gs_error *err)
{
	uint64_t deadline = gs_clock_ns() + o->deadline_ns;

	if (o->domain)
		return guest_source_open_libvirt(o->connect, o->domain, deadline, source_out, err);
	if (o->qmp)
		return guest_source_open_qmp(o->qmp, deadline, source_out, err);
	return guest_source_open_dump(o->core, NULL, source_out, err);
}

/* Open it, as soon as it is there. */
static enum gs_code open_source(const struct attach_options *o, struct guest_source *source_out,
				struct gs_error *err)
{
	const struct timespec pause = { .tv_nsec = ATTACH_WAIT_MS * (long)GS_NS_PER_MS };
	const uint64_t give_up = gs_clock_ns() + o->wait_ns;

	for (;;) {
		enum gs_code rc = open_once(o, source_out, err);
		if (rc != GS_ENOENT || gs_clock_ns() >= give_up)
			return rc;
		nanosleep(&pause, NULL);
	}
}

/* --- serving ------------------------------------------------------------------------------------
 */

struct attach {
	const struct attach_options *o;
	struct guest_source source;
	struct ss_session *session;
	uv_loop_t loop;
	bool have_loop;
	struct ctl_worker *worker;
	struct ctl_server *server;
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
	ctl_worker_close(a->worker);
	a->worker = NULL;
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

static void attach_end(struct attach *a)
{
	if (a->ending)
		return;
	a->ending = true;
	uv_timer_start(&a->guard, on_guard, ATTACH_GUARD_MS, 0);
	if (a->server)
		ctl_server_close(a->server, on_server_closed, a);
	else
		on_server_closed(a);
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

	return ss_capture(a->session, request, result_out, err);
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

static enum gs_code serve_start(struct attach *a, struct gs_error *err)
{
	enum gs_code rc = ss_session_create(a->source.guest, &a->session, err);

	if (rc)
		return rc;
	int e = uv_loop_init(&a->loop);
	if (e)
		return gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	a->have_loop = true;
	(void)uv_timer_init(&a->loop, &a->guard); /* cannot fail */
	a->guard.data = a;
	const struct ctl_worker_config worker = {
		.guest = a->source.guest,
		.capture = capture,
		.arg = a,
	};
	rc = ctl_worker_create(&a->loop, &worker, &a->worker, err);
	if (rc)
		return rc;
	const struct ctl_server_config server = {
		.path = a->o->control,
		.guest = a->source.guest,
		.worker = a->worker,
		.hooks = &hooks,
		.arg = a,
	};
	rc = ctl_server_create(&a->loop, &server, &a->server, err);
	if (!rc)
		watch_signals(a);
	return rc;
}

static void say_attached(const struct attach *a)
{
	const struct guest_source *s = &a->source;
	char size[CLI_TEXT_MAX];

	fprintf(stderr, "guestshot: attached by %s: %" PRIu32 " vCPUs, %s; memory: %s%s%s\n",
		s->guest->source, s->guest->vcpu_count,
		cli_format_size(guest_ram_size(s->guest), size), s->access, *s->note ? "; " : "",
		s->note);
}

static int attach_run(struct attach *a)
{
	struct gs_error err = { 0 };
	int code = CLI_EXIT_OK;
	enum gs_code rc = open_source(a->o, &a->source, &err);

	if (!rc)
		rc = serve_start(a, &err);
	if (rc) {
		code = cli_error(&err);
		if (a->have_loop)
			attach_end(a);
	} else {
		say_attached(a);
	}
	if (a->have_loop) {
		uv_run(&a->loop, UV_RUN_DEFAULT);
		(void)uv_loop_close(&a->loop); /* nothing is open: all was closed and run */
	}
	ss_session_destroy(a->session);
	guest_source_close(&a->source);
	return code ? code : exit_code(a);
}

int cli_cmd_attach(int argc, char **argv)
{
	struct attach_options o = { .deadline_ns = 10 * GS_NS_PER_SEC };
	int code;

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
