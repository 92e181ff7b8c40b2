/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot dump: a guest's memory and registers as an ELF core. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/source.h"
#include "control/dump.h"

/* Longest wait for each answer of QEMU or libvirt. */
#define ANSWER_NS (10 * GS_NS_PER_SEC)

struct dump_options {
	struct cli_remote remote;
	struct cli_source_options source;
	const char *output;
	bool quiet;
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write the ELF core to FILE", 1 },
	{ "quiet", 'q', NULL, 0, "No progress and no summary on standard error", 1 },
	CLI_SOURCE_OPTIONS,
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_end(const struct dump_options *o, struct argp_state *state)
{
	if (!o->output)
		argp_error(state, "where to? -o FILE is missing");
	else
		return cli_any_guest_end(&o->source, &o->remote, state);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct dump_options *o = state->input;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case 'q': o->quiet = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return parse_end(o, state);
	default: return cli_any_guest_key(&o->source, &o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Stop a guest, write its memory and registers to an ELF core that crash and drgn "
	       "read, and let it go on.",
	.children = cli_argp_children,
};

static int finish(const struct dump_options *o, const struct ctl_dump_result *r)
{
	char data[CLI_TEXT_MAX], missing[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX];

	if (!o->quiet)
		fprintf(stderr, "guestshot: %s of memory to %s; guest stopped %s%s\n",
			cli_format_size(r->data, data), o->output,
			cli_format_duration(r->stopped_ns, stopped),
			r->vmcoreinfo ? "" : "; no VMCOREINFO in it, which crash and drgn need");
	if (!r->unreadable)
		return CLI_EXIT_OK;
	gs_log(GS_LOG_WARNING, "%s of memory could not be read: zeros in the file",
	       cli_format_size(r->unreadable, missing));
	return CLI_EXIT_INCOMPLETE;
}

/* --- a guest behind a control socket ------------------------------------------------------------
 */

/* The server's working folder is not ours. @return returned: free() */
static char *absolute(const char *path)
{
	GS_FREE char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
	char *whole;

	if (*path == '/')
		return strdup(path);
	return folder && asprintf(&whole, "%s/%s", folder, path) >= 0 ? whole : NULL;
}

static int dump_remote(const struct dump_options *o)
{
	GS_FREE char *path = absolute(o->output);
	json_t *answer;
	int fd = -1;

	if (!path) {
		gs_log(GS_LOG_ERROR, "%s: no absolute path: %m", o->output);
		return CLI_EXIT_SYSTEM;
	}
	json_t *arguments = json_pack("{s:s}", "path", path);
	if (!arguments) {
		gs_log(GS_LOG_ERROR, "%s: the control socket takes UTF-8 names only", o->output);
		return CLI_EXIT_USAGE;
	}
	int code = cli_remote_call(&o->remote, "dump", arguments, &answer, &fd);
	if (code)
		return code;
	if (fd >= 0)
		close(fd); /* none was asked for */
	const struct ctl_dump_result r = {
		.data = cli_answer_number(answer, "data"),
		.unreadable = cli_answer_number(answer, "unreadable"),
		.stopped_ns = cli_answer_number(answer, "stopped_ns"),
		.vmcoreinfo = json_is_true(json_object_get(answer, "vmcoreinfo")),
	};
	json_decref(answer);
	return finish(o, &r);
}

/* --- any other guest ----------------------------------------------------------------------------
 */

static const int end_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/* Which of them has come, or 0: they are blocked meanwhile, so that nothing is left behind. */
static int signal_pending(void)
{
	sigset_t pending;

	sigpending(&pending);
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		if (sigismember(&pending, end_signals[i]) == 1)
			return end_signals[i];
	return 0;
}

struct progress {
	bool shown; /* on a terminal */
	int percent;
};

static bool on_progress(uint64_t done, uint64_t total, void *arg)
{
	struct progress *p = arg;
	int percent = total ? (int)(done * 100 / total) : 100;

	if (p->shown && percent != p->percent) {
		p->percent = percent;
		fprintf(stderr, "\rguestshot: %3d %% of memory", percent);
		if (percent == 100)
			fputs("\r\033[K", stderr);
	}
	return !signal_pending();
}

static int dump_source(const struct dump_options *o)
{
	struct progress progress = { .shown = !o->quiet && isatty(STDERR_FILENO), .percent = -1 };
	struct cli_source source = { 0 };
	struct ctl_dump_result result = { 0 };
	struct gs_error err = { 0 };
	sigset_t block, old;

	enum gs_code rc = cli_source_open(&o->source, ANSWER_NS, o->remote.wait_ns, &source, &err);
	if (rc)
		return cli_error(&err);
	sigemptyset(&block);
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++)
		sigaddset(&block, end_signals[i]);
	pthread_sigmask(SIG_BLOCK, &block, &old);
	rc = ctl_dump_write(source.guest.guest, &source.hints, o->output, on_progress, &progress,
			    &result, &err);
	if (!o->quiet && !rc)
		cli_source_say(&source.guest, "");
	cli_source_close(&source);
	pthread_sigmask(SIG_SETMASK, &old, NULL); /* what has come ends us now */
	if (!rc)
		return finish(o, &result);
	int code = cli_error(&err);
	return rc == GS_ENOSPC || rc == GS_EINVAL ? CLI_EXIT_OUTPUT : code;
}

int cli_cmd_dump(int argc, char **argv)
{
	struct dump_options o = { 0 }; /* no time limit: memory is large */
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	return o.remote.control ? dump_remote(&o) : dump_source(&o);
}
