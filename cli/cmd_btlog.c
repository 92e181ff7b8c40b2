/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot btlog: logs of backtraces, of a guest behind a control socket or from files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/book_view.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/report/capture_file.h"

#define TOP_DEFAULT 20
#define ARGS_MAX    4096

enum action {
	ACTION_TOP,
	ACTION_LIST,
	ACTION_SHOW,
	ACTION_LEAKS,
	ACTION_ENABLE,
	ACTION_DISABLE,
	ACTION_RESET,
	ACTION_SAVE,
	ACTION_NONE,
};

static const char *const action_names[] = {
	[ACTION_TOP] = "top",	  [ACTION_LIST] = "list",     [ACTION_SHOW] = "show",
	[ACTION_LEAKS] = "leaks", [ACTION_ENABLE] = "enable", [ACTION_DISABLE] = "disable",
	[ACTION_RESET] = "reset", [ACTION_SAVE] = "save",
};

struct btlog_options {
	struct cli_remote remote;
	enum action action;
	struct cli_book_view view;
	const char *log;
	const char *op;
	const char *output;
	uint64_t since_ns; /* 0: all */
	enum btl_merge merge;
	const char *args[ARGS_MAX]; /* files; of leaks with --control: elements */
	size_t n_args;
	uint64_t element[ARGS_MAX];
	size_t elements;
};

enum {
	KEY_BY = 0x100,
	KEY_LOG,
	KEY_OP,
	KEY_SINCE,
	KEY_MAX,
	KEY_JSON,
	KEY_MERGE,
	KEY_ELEMENT,
};

static const struct argp_option options[] = {
	{ "by", KEY_BY, "WHAT", 0, "top: stack (default), function or operation", 1 },
	{ "log", KEY_LOG, "NAME", 0, "Only this log: threads, samples or probes", 1 },
	{ "op", KEY_OP, "NAME", 0, "Only this operation: running, sleeping, uninterruptible …", 1 },
	{ "since", KEY_SINCE, "DURATION", 0, "Only records of the last so long", 1 },
	{ "max", KEY_MAX, "NUMBER", 0, "Show so many (default: 20; 0: all)", 1 },
	{ "element", KEY_ELEMENT, "ADDRESS", 0,
	  "leaks: an element (a task, an object); repeat. "
	  "Default: all that were recorded and not erased",
	  1 },
	{ "merge", KEY_MERGE, "HOW", 0, "Several files: auto (default), build or name", 1 },
	{ "json", KEY_JSON, NULL, 0, "JSON instead of text", 1 },
	{ "output", 'o', "FILE", 0, "save: write to FILE", 1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t wrong(struct argp_state *state, const char *option, const char *arg,
		     const char *legal)
{
	argp_error(state, "%s %s: %s", option, arg, legal);
	return EINVAL;
}

static error_t parse_by(struct btlog_options *o, const char *arg, struct argp_state *state)
{
	static const char *const names[] = { [CLI_BOOK_BY_STACK] = "stack",
					     [CLI_BOOK_BY_FUNCTION] = "function",
					     [CLI_BOOK_BY_OPERATION] = "operation" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(arg, names[i])) {
			o->view.by = (enum cli_book_by)i;
			return 0;
		}
	}
	return wrong(state, "--by", arg, "stack, function or operation");
}

static error_t parse_merge(struct btlog_options *o, const char *arg, struct argp_state *state)
{
	if (!strcmp(arg, "auto"))
		o->merge = BTL_MERGE_AUTO;
	else if (!strcmp(arg, "build"))
		o->merge = BTL_MERGE_BY_BUILD;
	else if (!strcmp(arg, "name"))
		o->merge = BTL_MERGE_BY_NAME;
	else
		return wrong(state, "--merge", arg, "auto, build or name");
	return 0;
}

static error_t parse_element(struct btlog_options *o, const char *arg, struct argp_state *state)
{
	uint64_t value;

	if (!cli_parse_address(arg, &value))
		return wrong(state, "--element", arg, "not an address such as 0xffff000002a85140");
	if (o->elements == ARGS_MAX)
		return wrong(state, "--element", arg, "too many");
	o->element[o->elements++] = value;
	return 0;
}

static error_t parse_argument(struct btlog_options *o, const char *arg, struct argp_state *state)
{
	if (o->action == ACTION_NONE) {
		for (size_t i = 0; i < ARRAY_SIZE(action_names); i++)
			if (!strcmp(arg, action_names[i]))
				o->action = (enum action)i;
		if (o->action != ACTION_NONE)
			return 0;
		argp_error(state,
			   "what is '%s'? top, list, show, leaks, enable, disable, reset or save",
			   arg);
		return EINVAL;
	}
	if (o->n_args == ARGS_MAX)
		return wrong(state, "FILE", arg, "too many");
	o->args[o->n_args++] = arg;
	return 0;
}

static error_t parse_end(const struct btlog_options *o, struct argp_state *state)
{
	bool reads = o->action == ACTION_TOP || o->action == ACTION_SHOW ||
		     o->action == ACTION_LEAKS || o->action == ACTION_SAVE;

	if (o->action == ACTION_NONE)
		argp_error(state, "top, list, show, leaks, enable, disable, reset or save?");
	else if (!reads && (o->n_args || !o->remote.control))
		argp_error(state, "btlog %s needs --control PATH, and no file",
			   action_names[o->action]);
	else if ((o->remote.control != NULL) == (o->n_args != 0) && reads)
		argp_error(state, "of what? --control PATH, or saved files");
	else if (o->action == ACTION_SAVE && !o->output)
		argp_error(state, "where to? -o FILE is missing");
	else
		return 0;
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct btlog_options *o = state->input;
	uint64_t number;

	switch (key) {
	case KEY_BY: return parse_by(o, arg, state);
	case KEY_LOG: o->log = arg; return 0;
	case KEY_OP: o->op = arg; return 0;
	case KEY_MERGE: return parse_merge(o, arg, state);
	case KEY_ELEMENT: return parse_element(o, arg, state);
	case KEY_JSON: o->view.json = true; return 0;
	case 'o': o->output = arg; return 0;
	case KEY_SINCE:
		if (!cli_parse_duration(arg, &o->since_ns))
			return wrong(state, "--since", arg, "not a duration such as 30s or 5m");
		return 0;
	case KEY_MAX:
		if (!cli_parse_number(arg, 0, UINT32_MAX, &number))
			return wrong(state, "--max", arg, "not a number");
		o->view.max = (uint32_t)number;
		return 0;
	case ARGP_KEY_ARG: return parse_argument(o, arg, state);
	case ARGP_KEY_END: return parse_end(o, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.args_doc = "top|show|leaks|save [FILE...]\nlist|enable|disable|reset",
	.doc = "Look at the backtraces that captures and samples have collected of a guest, or at "
	       "saved ones; several files are merged.",
	.children = cli_argp_children,
};

/* --- books ---------------------------------------------------------------------------------------
 */

static int book_remote(const struct btlog_options *o, struct btl_book *book)
{
	struct gs_error err = { 0 };
	const void *data;
	size_t size;
	int code = cli_remote_fetch(&o->remote, "btlog-save",
				    json_pack("{s:s, s:s*}", "to", "fd", "log", o->log), NULL,
				    &data, &size);

	if (code)
		return code;
	enum gs_code rc = btl_book_decode(data, size, book, &err);
	munmap((void *)data, size);
	return rc ? cli_error(&err) : CLI_EXIT_OK;
}

static enum gs_code book_file(const char *path, struct btl_book *book, struct gs_error *err)
{
	GS_FREE uint8_t *data = NULL;
	size_t size;
	enum gs_code rc = rep_stream_read(path, &data, &size, err);

	if (rc)
		return rc;
	rc = btl_book_decode(data, size, book, err);
	if (rc == GS_ENOENT) /* a good stream of something else */
		return gs_fail(err, GS_EMALFORMED, "%s: no saved backtraces in it", path);
	return rc ? gs_wrap(err, rc, "%s", path) : GS_OK;
}

static int book_files(const struct btlog_options *o, struct btl_book *book)
{
	struct gs_error err = { 0 };
	enum gs_code rc = book_file(o->args[0], book, &err);

	for (size_t i = 1; !rc && i < o->n_args; i++) {
		struct btl_book other = { 0 };

		rc = book_file(o->args[i], &other, &err);
		if (!rc && btl_book_merge(book, &other, o->merge, &err))
			rc = gs_wrap(&err, err.code, "%s", o->args[i]);
		btl_book_deinit(&other);
	}
	return rc ? cli_error(&err) : CLI_EXIT_OK;
}

/* --- actions -------------------------------------------------------------------------------------
 */

static bool find_op(const struct btl_book *book, const char *name, uint64_t *ops_out)
{
	*ops_out = 0;
	for (uint32_t i = 0; i < book->ops; i++)
		if (book->op[i].op < BTL_OPS &&
		    !strncmp(book->op[i].name, name, sizeof(book->op[i].name)))
			*ops_out |= UINT64_C(1) << book->op[i].op;
	return *ops_out;
}

static bool find_log(const struct btl_book *book, const char *name, uint32_t *log_out)
{
	for (uint32_t i = 0; i < book->logs; i++) {
		if (strncmp(book->log[i].name, name, sizeof(book->log[i].name)) != 0)
			continue;
		*log_out = i;
		return true;
	}
	return false;
}

static uint64_t newest_time(const struct btl_book *book)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < book->entries; i++)
		newest = gs_max(newest, book->entry[i].time_us);
	return newest;
}

/* What the options say, in the book's own terms. */
static int make_filter(struct btlog_options *o, const struct btl_book *book)
{
	struct btl_filter *f = &o->view.filter;

	f->log = BTL_NONE;
	if (o->op && !find_op(book, o->op, &f->ops)) {
		gs_log(GS_LOG_ERROR, "no record has an operation called %s", o->op);
		return CLI_EXIT_NO_INPUT;
	}
	if (o->log && !find_log(book, o->log, &f->log)) {
		gs_log(GS_LOG_ERROR, "no log is called %s", o->log);
		return CLI_EXIT_NO_INPUT;
	}
	if (o->since_ns) {
		/* of files: before the newest record, whenever that was */
		uint64_t end = o->remote.control ? gs_clock_wall_us() : newest_time(book);

		f->from_us = end - gs_min(end, o->since_ns / GS_NS_PER_US);
	}
	return CLI_EXIT_OK;
}

static int save_book(const struct btlog_options *o, const struct btl_book *book)
{
	GS_FREE uint8_t *data = NULL;
	struct gs_error err = { 0 };
	size_t size;
	char bytes[CLI_TEXT_MAX];

	if (btl_book_encode(book, &data, &size, &err))
		return cli_error(&err);
	if (gs_file_write_atomic(o->output, data, size, 0600, &err))
		return cli_output_error(&err);
	fprintf(stderr, "guestshot: %" PRIu32 " records of %" PRIu32 " stacks, %s to %s\n",
		book->entries, book->stacks, cli_format_size(size, bytes), o->output);
	return CLI_EXIT_OK;
}

static int leaks(const struct btlog_options *o, const struct btl_book *book)
{
	struct gs_error err = { 0 };
	size_t known = 0;

	if (!o->elements && !cli_book_can_leak(book, &o->view)) {
		gs_log(GS_LOG_ERROR,
		       "leaks of what? From %s nothing is erased: name elements with "
		       "--element ADDRESS, or look at the log \"probes\"",
		       o->log ? o->log : "these logs");
		return CLI_EXIT_NO_INPUT;
	}
	if (cli_book_leaks(book, o->element, o->elements, &o->view, stdout, &known, &err))
		return cli_error(&err);
	const uint64_t missing = cli_book_missing(book, &o->view);
	if (known < o->elements)
		gs_log(GS_LOG_WARNING, "of %zu elements no record is there", o->elements - known);
	if (missing)
		gs_log(GS_LOG_WARNING,
		       "%" PRIu64 " records were lost for want of room: their elements "
		       "are not counted",
		       missing);
	return CLI_EXIT_OK;
}

static int look(struct btlog_options *o)
{
	struct btl_book book = { 0 };
	struct gs_error err = { 0 };
	int code = o->remote.control ? book_remote(o, &book) : book_files(o, &book);

	if (!code && o->action != ACTION_SAVE)
		code = make_filter(o, &book);
	if (!code && o->action == ACTION_SAVE)
		code = save_book(o, &book);
	else if (!code && o->action == ACTION_SHOW)
		cli_book_show(&book, &o->view, stdout);
	else if (!code && o->action == ACTION_TOP && cli_book_top(&book, &o->view, stdout, &err))
		code = cli_error(&err);
	else if (!code && o->action == ACTION_LEAKS)
		code = leaks(o, &book);
	btl_book_deinit(&book);
	return code;
}

static void print_logs(const json_t *answer)
{
	const json_t *logs = json_object_get(answer, "logs");
	const json_t *library = json_object_get(answer, "library"), *log;
	const json_t *sampling = json_object_get(answer, "sampling");
	char name[CLI_ANSWER_TEXT_MAX];
	size_t i;

	json_array_foreach(logs, i, log)
		printf("%-8s  %s, %" PRIu64 " of %" PRIu64 " records held; %" PRIu64
		       " recorded, %" PRIu64 " overwritten, %" PRIu64 " dropped\n",
		       cli_answer_text(log, "name", name),
		       json_is_true(json_object_get(log, "enabled")) ? "enabled" : "disabled",
		       cli_answer_number(log, "held"), cli_answer_number(log, "capacity"),
		       cli_answer_number(log, "recorded"), cli_answer_number(log, "overwritten"),
		       cli_answer_number(log, "dropped"));
	if (json_is_object(library))
		printf("library   %" PRIu64 " of at most %" PRIu64 " stacks; %" PRIu64
		       " not kept for want of room\n",
		       cli_answer_number(library, "stacks"),
		       cli_answer_number(library, "stacks_max"),
		       cli_answer_number(library, "lost"));
	else
		puts("library   none yet: take a capture, or sample");
	printf("sampling  %" PRIu64 " Hz; %" PRIu64 " rounds, %" PRIu64 " late, %" PRIu64
	       " samples\n",
	       cli_answer_number(sampling, "hz"), cli_answer_number(sampling, "rounds"),
	       cli_answer_number(sampling, "late"), cli_answer_number(sampling, "samples"));
}

static int list_or_act(const struct btlog_options *o)
{
	bool list = o->action == ACTION_LIST;
	json_t *answer, *arguments = list ? NULL
					  : json_pack("{s:s, s:s*}", "action",
						      action_names[o->action], "log", o->log);
	int code = cli_remote_call(&o->remote, list ? "btlogs" : "btlog", arguments, &answer, NULL);

	if (code)
		return code;
	if (list && o->view.json) {
		(void)json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n');
	} else if (list) {
		print_logs(answer);
	}
	json_decref(answer);
	return CLI_EXIT_OK;
}

int cli_cmd_btlog(int argc, char **argv)
{
	struct btlog_options *o = calloc(1, sizeof(*o));
	int code;

	if (!o) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	*o = (struct btlog_options){ .remote = CLI_REMOTE_DEFAULT,
				     .action = ACTION_NONE,
				     .view.max = TOP_DEFAULT };
	if (cli_parse(&argp, argc, argv, o, &code)) {
		bool books = o->action == ACTION_TOP || o->action == ACTION_SHOW ||
			     o->action == ACTION_LEAKS || o->action == ACTION_SAVE;
		code = books ? look(o) : list_or_act(o);
	}
	free(o);
	return code;
}
