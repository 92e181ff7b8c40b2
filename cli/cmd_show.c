/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot show: a capture as text or JSON. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/files.h"
#include "cli/report/delta.h"
#include "cli/report/filter.h"
#include "cli/report/report.h"
#include "cli/report/waits.h"

struct show_options {
	struct cli_files files;
	bool json, group, waits;
	struct rep_filter filter;
};

enum {
	OPTION_JSON = 256,
	OPTION_GROUP,
	OPTION_WAITS,
	OPTION_STATE,
	OPTION_WAITING_SINCE,
	OPTION_PROCESS,
	OPTION_FUNCTION,
};

static const struct argp_option options[] = {
	{ "json", OPTION_JSON, NULL, 0, "print the document that docs/json.md describes", 0 },
	{ "group", OPTION_GROUP, NULL, 0, "show threads with the same stack once", 0 },
	{ "waits", OPTION_WAITS, NULL, 0,
	  "show who waits for whom, deadlocks first (of a capture that was taken with --waits)",
	  0 },
	{ "state", OPTION_STATE, "LETTERS", 0, "show only threads in one of these states (D, SD)",
	  1 },
	{ "waiting-since", OPTION_WAITING_SINCE, "DURATION", 0,
	  "show only threads that have not been executed for at least so long (10s)", 1 },
	{ "process", OPTION_PROCESS, "NAME", 0,
	  "show only threads of processes with this name or number", 1 },
	{ "function", OPTION_FUNCTION, "NAME", 0,
	  "show only threads with this function in their stack", 1 },
	{ 0 },
};

static error_t parse_filter(int key, char *arg, struct rep_filter *f, struct argp_state *state)
{
	switch (key) {
	case OPTION_STATE:
		f->states = arg;
		if (rep_filter_are_states(arg))
			return 0;
		argp_error(state, "--state %s: not letters of R, S, D, T, t, Z, X, I, P", arg);
		return EINVAL; /* argp itself goes on: it must not exit */
	case OPTION_WAITING_SINCE:
		if (cli_parse_duration(arg, &f->waiting_ns) && f->waiting_ns)
			return 0;
		argp_error(state, "--waiting-since %s: not a duration such as 10s or 500ms", arg);
		return EINVAL;
	case OPTION_PROCESS: f->process = arg; return 0;
	case OPTION_FUNCTION: f->function = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static error_t check_options(const struct show_options *o, struct argp_state *state)
{
	if (!o->files.count)
		return cli_files_complain(state, "FILE is missing");
	if (o->waits && (o->json || o->group))
		return cli_files_complain(state, "--waits is a view of its own: the JSON document "
						 "always has what threads wait for");
	if ((o->json || o->waits) && rep_filter_is_set(&o->filter))
		return cli_files_complain(state, "--state, --waiting-since, --process and "
						 "--function choose threads of the plain text and "
						 "of --group");
	return cli_files_no_json(state, o->json, "group", o->group);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct show_options *o = state->input;

	switch (key) {
	case OPTION_JSON: o->json = true; return 0;
	case OPTION_GROUP: o->group = true; return 0;
	case OPTION_WAITS: o->waits = true; return 0;
	case ARGP_KEY_ARGS: return cli_files_take(&o->files, state);
	case ARGP_KEY_END: return check_options(o, state);
	default: return parse_filter(key, arg, &o->filter, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "FILE [DELTA...]",
	.doc = "Show a capture: every process and thread of the guest with its kernel stack. With "
	       "deltas "
	       "of it: what they were doing when the last one was taken. FILE \"-\" is standard "
	       "input.",
	.children = cli_argp_children,
};

int cli_cmd_show(int argc, char **argv)
{
	struct show_options o = { 0 };
	struct rep_capture c;
	struct gs_error err = { 0 };
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (rep_files_read(o.files.path, o.files.count, &c, &err))
		return cli_error(&err);

	if (o.waits && !c.has_waits) {
		(void)gs_fail(&err, GS_EINVAL,
			      "%s does not say what threads wait for: take it with snap --waits",
			      o.files.path[o.files.count - 1]);
		rep_capture_deinit(&c);
		return cli_error(&err);
	}
	if (rep_filter_is_set(&o.filter))
		(void)rep_filter_apply(&c, &o.filter); /* none may be left: the text says so */
	cli_report_begin();
	bool ok = o.json    ? rep_json(&c, stdout)
		  : o.waits ? rep_waits(&c, stdout)
			    : rep_text(&c, o.group, stdout);
	code = cli_report_end(ok, rep_is_complete(&c));
	rep_capture_deinit(&c);
	return code;
}
