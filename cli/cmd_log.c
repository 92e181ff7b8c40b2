/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot log: the log of a guest's kernel, out of its memory. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/remote.h"
#include "cli/report/lines.h"
#include "cli/report/system.h"
#include "cli/source.h"
#include "introspect/stackshot/stackshot.h"

struct log_options {
	struct cli_remote remote;	  /* a guest behind a control socket … */
	struct cli_source_options source; /* … or another one */
	int verbosity;
};

static const struct argp_option options[] = {
	{ "verbose", 'v', NULL, 0, "Say how the guest's kernel was found", 1 },
	CLI_SOURCE_OPTIONS,
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct log_options *o = state->input;

	switch (key) {
	case 'v': o->verbosity++; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return cli_any_guest_end(&o->source, &o->remote, state);
	default: return cli_any_guest_key(&o->source, &o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Print the log of a guest's kernel, as dmesg does in the guest: its newest "
	       "messages, "
	       "out of its memory. A panicked kernel's message comes first.",
	.children = cli_argp_children,
};

/* @return the exit code */
static int print(const void *data, size_t size)
{
	struct rep_capture c;
	struct gs_error err = { 0 };

	if (rep_capture_parse("the capture", data, size, &c, &err))
		return cli_error(&err);
	cli_report_begin();
	rep_put_panic(&c, stdout);
	rep_put_log(&c, "", stdout);
	if (!rep_is_complete(&c)) {
		fputs("guestshot: what is missing:\n", stderr);
		rep_put_missing(&c, stderr);
	}
	int code = cli_report_end(!ferror(stdout) && !fflush(stdout), rep_is_complete(&c));
	rep_capture_deinit(&c);
	return code;
}

static int log_remote(const struct log_options *o)
{
	json_t *arguments = json_pack("{s:[s,s]}", "flags", ss_request_flag_name(SS_KERNEL_LOG),
				      ss_request_flag_name(SS_NO_PROCESSES));
	const void *data;
	size_t size;
	int code = cli_remote_fetch(&o->remote, "snap", arguments, NULL, &data, &size);

	if (code)
		return code;
	code = print(data, size);
	munmap((void *)data, size);
	return code;
}

static int log_source(const struct log_options *o)
{
	const struct ss_request ask = { .flags = SS_KERNEL_LOG | SS_NO_PROCESSES,
					.pid = SS_PID_ALL };
	struct cli_source source = { 0 };
	struct ss_result result = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc =
		cli_source_capture(&o->source, &o->remote, &ask, 0, &source, &result, &err);

	cli_source_close(&source); /* a live guest is let go before anything is written */
	if (rc)
		return cli_error(&err);
	int code = print(result.data, result.size);
	ss_result_deinit(&result);
	return code;
}

int cli_cmd_log(int argc, char **argv)
{
	struct log_options o = { .remote = CLI_REMOTE_DEFAULT };
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (o.verbosity)
		gs_log_set_level(o.verbosity > 1 ? GS_LOG_DEBUG : GS_LOG_INFO);
	return o.remote.control ? log_remote(&o) : log_source(&o);
}
