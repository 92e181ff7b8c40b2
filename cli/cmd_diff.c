/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot diff: what happened between two captures, and what did not. */
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/report/diff.h"

struct diff_options {
	struct cli_files files;
	bool json, all;
};

enum { OPTION_JSON = 256, OPTION_ALL };

static const struct argp_option options[] = {
	{ "json", OPTION_JSON, NULL, 0, "print the document that docs/json.md describes", 0 },
	{ "all", OPTION_ALL, NULL, 0, "list sleeping threads one by one", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct diff_options *o = state->input;

	(void)arg;
	switch (key) {
	case OPTION_JSON: o->json = true; return 0;
	case OPTION_ALL: o->all = true; return 0;
	case ARGP_KEY_ARGS: return cli_files_take(&o->files, state);
	case ARGP_KEY_END:
		if (o->files.count < 2)
			return cli_files_complain(state, "two captures are needed");
		return cli_files_no_json(state, o->json, "all", o->all);
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "BEFORE AFTER...",
	.doc = "Compare two captures of a guest: which threads are new or gone, which ran, and "
	       "which have "
	       "not. AFTER may be a delta of BEFORE; of more files the first is compared with what "
	       "the "
	       "last one completes. One of them may be \"-\": standard input.",
	.children = cli_argp_children,
};

/* Too large for the stack, both of them. */
struct captures {
	struct rep_capture before, after;
};

static int show(const struct diff_options *o, const struct captures *c)
{
	struct gs_error err = { 0 };
	struct rep_diff d;

	if (rep_diff_init(&c->before, &c->after, &d, &err))
		return cli_error(&err);
	cli_report_begin();
	bool ok = o->json ? rep_diff_json(&d, stdout) : rep_diff_text(&d, o->all, stdout);
	rep_diff_deinit(&d);
	return cli_report_end(ok, rep_is_complete(&c->before) && rep_is_complete(&c->after));
}

int cli_cmd_diff(int argc, char **argv)
{
	GS_FREE struct captures *c = calloc(1, sizeof(*c));
	struct diff_options o = { 0 };
	struct gs_error err = { 0 };
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (!c) {
		gs_error_set(&err, GS_ENOSPC, 0, "out of memory");
		return cli_error(&err);
	}
	if (rep_files_read_two(o.files.path, o.files.count, &c->before, &c->after, &err))
		code = cli_error(&err);
	else
		code = show(&o, c);
	rep_capture_deinit(&c->before);
	rep_capture_deinit(&c->after);
	return code;
}
