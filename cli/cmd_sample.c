/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot sample: what vCPUs execute, for some time, and what that was. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/book_view.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "control/btlogs.h"

#define HZ_DEFAULT  99
#define FOR_DEFAULT (10 * GS_NS_PER_SEC)
#define TOP_DEFAULT 20

struct sample_options {
	struct cli_remote remote;
	uint64_t hz, for_ns;
	const char *output;
	struct cli_book_view view;
};

enum { KEY_HZ = 0x100, KEY_FOR, KEY_BY_FUNCTION, KEY_MAX, KEY_JSON };

static const struct argp_option options[] = {
	{ "hz", KEY_HZ, "NUMBER", 0, "Samples of each vCPU in a second (default: 99)", 1 },
	{ "for", KEY_FOR, "DURATION", 0, "How long (default: 10s; Ctrl-C ends it before)", 1 },
	{ "by-function", KEY_BY_FUNCTION, NULL, 0, "Show functions instead of stacks", 1 },
	{ "max", KEY_MAX, "NUMBER", 0, "Show so many (default: 20; 0: all)", 1 },
	{ "json", KEY_JSON, NULL, 0, "JSON instead of text", 1 },
	{ "output", 'o', "FILE", 0, "Save the samples too, for guestshot btlog", 1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct sample_options *o = state->input;
	uint64_t number;

	switch (key) {
	case KEY_HZ:
		if (cli_parse_number(arg, 1, CTL_SAMPLE_HZ_MAX, &o->hz))
			return 0;
		argp_error(state, "--hz %s: not in 1 … %u", arg, CTL_SAMPLE_HZ_MAX);
		return EINVAL;
	case KEY_FOR:
		if (cli_parse_duration(arg, &o->for_ns))
			return 0;
		argp_error(state, "--for %s: not a duration such as 10s or 5m", arg);
		return EINVAL;
	case KEY_MAX:
		if (!cli_parse_number(arg, 0, UINT32_MAX, &number)) {
			argp_error(state, "--max %s: not a number", arg);
			return EINVAL;
		}
		o->view.max = (uint32_t)number;
		return 0;
	case KEY_BY_FUNCTION: o->view.by = CLI_BOOK_BY_FUNCTION; return 0;
	case KEY_JSON: o->view.json = true; return 0;
	case 'o': o->output = arg; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return cli_remote_end(&o->remote, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Look what each vCPU of a guest executes, some times a second, one vCPU stopped at "
	       "a "
	       "time, and show which kernel stacks that was.",
	.children = cli_argp_children,
};

/* Start (or, with 0, end) sampling. @return exit code */
static int set_rate(const struct sample_options *o, uint64_t hz, json_t **answer_out)
{
	return cli_remote_call(&o->remote, "sample", json_pack("{s:I}", "hz", (json_int_t)hz),
			       answer_out, NULL);
}

/* Until the time is over, or Ctrl-C or a plain kill: then what there is is shown. */
static void wait_for(uint64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / GS_NS_PER_SEC),
				 .tv_nsec = (long)(ns % GS_NS_PER_SEC) };
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	(void)sigtimedwait(&set, NULL, &left);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void print_sampling(const json_t *answer)
{
	const json_t *s = json_object_get(answer, "sampling");
	const char *end = json_string_value(json_object_get(s, "end"));
	char held[CLI_TEXT_MAX], run[CLI_TEXT_MAX];

	fprintf(stderr,
		"guestshot: %" PRIu64 " rounds (%" PRIu64 " too late to be taken) in %s, %" PRIu64
		" samples: %" PRIu64 " idle, %" PRIu64 " in user mode; %" PRIu64
		" vCPUs not known, %" PRIu64 " not stopped; %s of vCPU time held\n",
		cli_answer_number(s, "rounds"), cli_answer_number(s, "late"),
		cli_format_duration(cli_answer_number(s, "run_ns"), run),
		cli_answer_number(s, "samples"), cli_answer_number(s, "idle"),
		cli_answer_number(s, "user"), cli_answer_number(s, "unknown"),
		cli_answer_number(s, "failed"),
		cli_format_duration(cli_answer_number(s, "held_ns"), held));
	if (end)
		gs_log(GS_LOG_WARNING, "sampling ended by itself: %s", end);
}

static int show(const struct sample_options *o, const void *data, size_t size)
{
	struct btl_book book = { 0 };
	struct gs_error err = { 0 };

	if (o->output && gs_file_write_atomic(o->output, data, size, 0600, &err))
		return cli_output_error(&err);
	enum gs_code rc = btl_book_decode(data, size, &book, &err);
	if (!rc)
		rc = cli_book_top(&book, &o->view, stdout, &err);
	btl_book_deinit(&book);
	return rc ? cli_error(&err) : CLI_EXIT_OK;
}

static int fetch_and_show(const struct sample_options *o)
{
	const void *data;
	size_t size;
	int code = cli_remote_fetch(&o->remote, "btlog-save",
				    json_pack("{s:s, s:s}", "to", "fd", "log", "samples"), NULL,
				    &data, &size);

	if (code)
		return code;
	code = show(o, data, size);
	munmap((void *)data, size);
	return code;
}

int cli_cmd_sample(int argc, char **argv)
{
	struct sample_options o = { .remote = CLI_REMOTE_DEFAULT,
				    .hz = HZ_DEFAULT,
				    .for_ns = FOR_DEFAULT,
				    .view = { .max = TOP_DEFAULT } };
	json_t *answer;
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	const uint64_t start_us = gs_clock_wall_us();
	code = set_rate(&o, o.hz, &answer);
	if (code)
		return code;
	json_decref(answer);
	wait_for(o.for_ns);
	code = set_rate(&o, 0, &answer);
	if (code)
		return code;
	print_sampling(answer);
	json_decref(answer);
	o.view.filter = (struct btl_filter){ .from_us = start_us, .log = BTL_NONE };
	return fetch_and_show(&o);
}
