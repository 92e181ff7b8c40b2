/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot trace: enable a program at a running guest, show what it records. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/trace_view.h"
#include "control/client.h"

/* More often than the server forgets who does not ask. */
#define INTERVAL_DEFAULT GS_NS_PER_SEC
#define INTERVAL_MAX	 (10 * GS_NS_PER_SEC)
#define VCPUS_MAX	 512
#define SWITCH_TRIES	 20

struct trace_options {
	struct cli_remote remote;
	const char *program;
	const char *policy;
	const char *stackshots;
	uint64_t for_ns, interval_ns, buffer;
	bool json, list;
};

enum { KEY_FOR = 0x100, KEY_INTERVAL, KEY_POLICY, KEY_BUFFER, KEY_JSON, KEY_LIST, KEY_STACKSHOTS };

static const struct argp_option options[] = {
	{ "for", KEY_FOR, "DURATION", 0, "How long (default: until Ctrl-C, or exit())", 1 },
	{ "interval", KEY_INTERVAL, "DURATION", 0,
	  "Fetch what was recorded so often (default: 1s, at most 10s)", 1 },
	{ "policy", KEY_POLICY, "NAME", 0,
	  "What a full buffer does: switch (drop; default), ring (lose the oldest), fill (end)",
	  1 },
	{ "buffer", KEY_BUFFER, "SIZE", 0, "Buffer of each vCPU (default: 64K)", 1 },
	{ "stackshots", KEY_STACKSHOTS, "FOLDER", 0, "Where captures of stackshot() go", 1 },
	{ "json", KEY_JSON, NULL, 0, "JSON, one object a line, instead of text", 1 },
	{ "list", KEY_LIST, NULL, 0, "List the probes that a pattern means instead", 1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct trace_options *o = state->input;

	switch (key) {
	case KEY_FOR:
		if (cli_parse_duration(arg, &o->for_ns) && o->for_ns)
			return 0;
		argp_error(state, "--for %s: not a duration such as 10s or 5m", arg);
		return EINVAL;
	case KEY_INTERVAL:
		if (cli_parse_duration(arg, &o->interval_ns) && o->interval_ns &&
		    o->interval_ns <= INTERVAL_MAX)
			return 0;
		argp_error(state, "--interval %s: not a duration of at most 10s", arg);
		return EINVAL;
	case KEY_BUFFER:
		if (cli_parse_size(arg, &o->buffer) && o->buffer && o->buffer < UINT32_MAX)
			return 0;
		argp_error(state, "--buffer %s: not a size such as 256K", arg);
		return EINVAL;
	case KEY_POLICY: o->policy = arg; return 0;
	case KEY_STACKSHOTS: o->stackshots = arg; return 0;
	case KEY_JSON: o->json = true; return 0;
	case KEY_LIST: o->list = true; return 0;
	case ARGP_KEY_ARG:
		if (o->program) {
			argp_error(state, "a program is one argument: put it into quotes");
			return EINVAL;
		}
		o->program = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->program && !o->list) {
			argp_error(state, "trace what? a program is missing");
			return EINVAL;
		}
		return cli_remote_end(&o->remote, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.args_doc = "PROGRAM",
	.doc = "Probe a running guest, such as 'profile-99 { count() by symbol, comm }', and show "
	       "what "
	       "that records.",
	.children = cli_argp_children,
};

/* --- a trace under way ---------------------------------------------------------------------------
 */

struct trace {
	const struct trace_options *o;
	struct ctl_client *client;
	struct cli_trace_view view;
	uint64_t vcpus;
	uint64_t drops, aggregation_drops, errors, gone;
};

/* @param arguments taken @return exit code */
static int ask(struct trace *t, const char *command, json_t *arguments, json_t **answer_out)
{
	return cli_remote_ask(&t->o->remote, t->client, command, arguments, answer_out, NULL);
}

/* The label of a probe's first trace() that has one, for all of its records. */
static int fetch_label(struct trace *t, json_t *description)
{
	const json_t *record;
	size_t i;

	json_array_foreach(json_object_get(description, "records"), i, record)
	{
		const uint64_t n = cli_answer_number(record, "format");
		json_t *answer;

		if (!n)
			continue;
		int code = ask(t, "trace-format", json_pack("{s:I}", "number", (json_int_t)n),
			       &answer);
		if (code)
			return code;
		(void)json_object_set(description, "label", json_object_get(answer, "text"));
		json_decref(answer);
		return CLI_EXIT_OK;
	}
	return CLI_EXIT_OK;
}

static int know_probe(struct trace *t, uint64_t epid)
{
	json_t *answer;

	if (cli_trace_knows_probe(&t->view, epid))
		return CLI_EXIT_OK;
	int code = ask(t, "trace-eprobe", json_pack("{s:I}", "epid", (json_int_t)epid), &answer);
	if (!code)
		code = fetch_label(t, answer);
	else
		return code;
	cli_trace_put_probe(&t->view, epid, answer);
	return code;
}

/* The keys' terms, as an array. */
static void name_keys(json_t *description)
{
	json_t *by = json_array(), *record;
	size_t i;

	json_array_foreach(json_object_get(description, "records"), i, record)
	{
		const char *action = json_string_value(json_object_get(record, "action"));

		if (action && !strcmp(action, "by"))
			(void)json_array_append(by, json_object_get(record, "term"));
	}
	(void)json_object_set_new(description, "by", by);
}

static int know_aggregation(struct trace *t, uint64_t id)
{
	json_t *answer;

	if (cli_trace_knows_aggregation(&t->view, id))
		return CLI_EXIT_OK;
	int code = ask(t, "trace-agg-desc", json_pack("{s:I}", "aggregation", (json_int_t)id),
		       &answer);
	if (code)
		return code;
	const uint64_t epid = cli_answer_number(answer, "epid");
	name_keys(answer);
	cli_trace_put_aggregation(&t->view, id, answer);
	return know_probe(t, epid);
}

static int take_records(struct trace *t, uint64_t vcpu, const json_t *answer)
{
	const json_t *record;
	size_t i;

	json_array_foreach(json_object_get(answer, "records"), i, record)
	{
		int code = know_probe(t, cli_answer_number(record, "epid"));

		if (code)
			return code;
		cli_trace_print_record(&t->view, vcpu, record, stdout);
	}
	return CLI_EXIT_OK;
}

static int take_entries(struct trace *t, uint64_t vcpu, const json_t *answer)
{
	const json_t *entry;
	size_t i;

	(void)vcpu;
	json_array_foreach(json_object_get(answer, "entries"), i, entry)
	{
		int code = know_aggregation(t, cli_answer_number(entry, "aggregation"));

		if (code)
			return code;
		cli_trace_add(&t->view, entry);
	}
	return CLI_EXIT_OK;
}

/* A page; a vCPU that does not come to switch, on a host that is busy, may do so soon. */
static int ask_page(struct trace *t, uint64_t vcpu, const char *command, json_t **answer_out)
{
	struct gs_error err = { 0 };
	enum gs_code rc = GS_EBUSY;

	for (int i = 0; rc == GS_EBUSY && i < SWITCH_TRIES; i++)
		rc = ctl_client_call(t->client, command,
				     json_pack("{s:I}", "vcpu", (json_int_t)vcpu),
				     cli_remote_deadline(&t->o->remote), answer_out, NULL, &err);
	if (!rc)
		return CLI_EXIT_OK;
	int code = cli_error(&err);
	return rc == GS_EMALFORMED ? CLI_EXIT_PROTOCOL : code;
}

/* All pages that a vCPU has now. */
static int drain_vcpu(struct trace *t, uint64_t vcpu, const char *command,
		      int (*take)(struct trace *t, uint64_t vcpu, const json_t *answer))
{
	bool more = true;

	while (more) {
		json_t *answer;
		int code = ask_page(t, vcpu, command, &answer);

		if (code)
			return code;
		code = take(t, vcpu, answer);
		more = json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
		if (code)
			return code;
	}
	return CLI_EXIT_OK;
}

static int drain(struct trace *t, bool records)
{
	int code = CLI_EXIT_OK;

	for (uint64_t i = 0; !code && i < t->vcpus; i++) {
		if (records)
			code = drain_vcpu(t, i, "trace-buf-snap", take_records);
		if (!code)
			code = drain_vcpu(t, i, "trace-agg-snap", take_entries);
	}
	if (fflush(stdout) && !code)
		code = CLI_EXIT_OUTPUT;
	return code;
}

/* @param over_out  it drains, or was killed: nothing more comes */
static int look(struct trace *t, bool *over_out)
{
	json_t *answer;
	int code = ask(t, "trace-status", NULL, &answer);

	if (code)
		return code;
	t->drops = cli_answer_number(answer, "drops");
	t->aggregation_drops = cli_answer_number(answer, "aggregation_drops");
	t->errors = cli_answer_number(answer, "errors");
	const uint64_t gone = cli_answer_number(answer, "gone");
	if (gone > t->gone)
		gs_log(GS_LOG_WARNING,
		       "%" PRIu64 " of %" PRIu64 " enabled probes are gone, with the module or the "
		       "kernel that they were of",
		       gone, cli_answer_number(answer, "enabled"));
	t->gone = gone;
	*over_out = json_is_true(json_object_get(answer, "exiting")) ||
		    json_is_true(json_object_get(answer, "killed"));
	if (json_is_true(json_object_get(answer, "killed")))
		gs_log(GS_LOG_WARNING, "the session was killed: nobody had asked about it for too "
				       "long");
	json_decref(answer);
	return CLI_EXIT_OK;
}

/* Until the time is over, the program says so, or Ctrl-C or a plain kill. */
static int follow(struct trace *t, const sigset_t *set)
{
	const bool live = !t->o->policy || !strcmp(t->o->policy, "switch");
	const uint64_t start = gs_clock_ns();
	bool over = false;
	int code = CLI_EXIT_OK;

	while (!code && !over) {
		const uint64_t passed = gs_clock_ns() - start;

		if (t->o->for_ns && passed >= t->o->for_ns)
			break;
		uint64_t ns = t->o->interval_ns;
		if (t->o->for_ns)
			ns = gs_min(ns, t->o->for_ns - passed);
		const struct timespec pause = { .tv_sec = (time_t)(ns / GS_NS_PER_SEC),
						.tv_nsec = (long)(ns % GS_NS_PER_SEC) };
		if (sigtimedwait(set, NULL, &pause) > 0)
			break;
		code = drain(t, live);
		if (!code)
			code = look(t, &over);
	}
	return code;
}

static int finish(struct trace *t)
{
	json_t *answer = NULL;
	bool over = false;
	int code = look(t, &over);

	/* one that was killed cannot be stopped */
	if (!code &&
	    !ctl_client_call(t->client, "trace-stop", NULL, CTL_NO_DEADLINE, &answer, NULL, NULL))
		json_decref(answer);
	/* both halves */
	for (int i = 0; !code && i < 2; i++)
		code = drain(t, answer || !t->o->policy || !strcmp(t->o->policy, "switch"));
	if (!code)
		code = look(t, &over);
	if (code)
		return code;
	cli_trace_print_sums(&t->view, stdout);
	if (t->drops || t->aggregation_drops || t->errors)
		fprintf(stderr,
			"guestshot: %" PRIu64 " records and %" PRIu64
			" values of aggregations dropped (no room), %" PRIu64
			" firings with something that could not be read\n",
			t->drops, t->aggregation_drops, t->errors);
	return fflush(stdout) ? CLI_EXIT_OUTPUT : CLI_EXIT_OK;
}

static int enable(struct trace *t)
{
	json_t *answer;
	int code = ask(t, "trace-conf", NULL, &answer);

	if (code)
		return code;
	t->vcpus = gs_min(cli_answer_number(answer, "vcpus"), VCPUS_MAX);
	json_decref(answer);
	/* the server's working folder is not ours */
	GS_FREE char *folder = t->o->stackshots ? realpath(t->o->stackshots, NULL) : NULL;
	if (t->o->stackshots && !folder) {
		gs_log(GS_LOG_ERROR, "--stackshots %s: %s", t->o->stackshots, strerror(errno));
		return CLI_EXIT_OUTPUT;
	}
	json_t *arguments = json_pack("{s:s, s:s*, s:s*}", "program", t->o->program, "policy",
				      t->o->policy, "stackshots", folder);
	if (t->o->buffer)
		(void)json_object_set_new(arguments, "buffer_bytes",
					  json_integer((json_int_t)t->o->buffer));
	code = ask(t, "trace-enable", arguments, &answer);
	if (code)
		return code;
	const uint64_t matched = cli_answer_number(answer, "matched");
	json_decref(answer);
	if (!matched) {
		gs_log(GS_LOG_ERROR,
		       "no probe is meant (guestshot trace --list shows what there is)");
		return CLI_EXIT_NO_INPUT;
	}
	if (!t->o->json)
		fprintf(stderr, "guestshot: %" PRIu64 " probes\n", matched);
	code = ask(t, "trace-go", NULL, &answer);
	if (!code)
		json_decref(answer);
	return code;
}

static int run(struct trace *t)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	int code = enable(t);
	if (!code)
		code = follow(t, &set);
	if (!code)
		code = finish(t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return code;
}

/* --- listing -------------------------------------------------------------------------------------
 */

static void print_probes(const json_t *answer, bool json)
{
	json_t *probe;
	size_t i;

	json_array_foreach(json_object_get(answer, "probes"), i, probe)
	{
		static const char *const parts[] = { "provider", "module", "function", "name" };
		char text[CLI_ANSWER_TEXT_MAX];

		if (json) {
			(void)json_dumpf(probe, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
			putchar('\n');
			continue;
		}
		printf("%7" PRIu64 "  ", cli_answer_number(probe, "id"));
		for (size_t p = 0; p < ARRAY_SIZE(parts); p++)
			printf("%s%s", p ? ":" : "", cli_answer_text(probe, parts[p], text));
		putchar('\n');
	}
}

static int list(struct trace *t)
{
	uint64_t from = 0;
	json_t *answer;

	do {
		json_t *arguments = json_pack("{s:I, s:s}", "from", (json_int_t)from, "probe",
					      t->o->program ? t->o->program : "*");
		int code = ask(t, "trace-probe-match", arguments, &answer);

		if (code)
			return code;
		print_probes(answer, t->o->json);
		from = cli_answer_number(answer, "next");
		json_decref(answer);
	} while (from);
	return fflush(stdout) ? CLI_EXIT_OUTPUT : CLI_EXIT_OK;
}

int cli_cmd_trace(int argc, char **argv)
{
	struct trace_options o = { .remote = CLI_REMOTE_DEFAULT, .interval_ns = INTERVAL_DEFAULT };
	struct trace t = { .o = &o };
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	code = cli_remote_connect(&o.remote, &t.client);
	if (code)
		return code;
	if (!cli_trace_view_init(&t.view, o.json)) {
		gs_log(GS_LOG_ERROR, "out of memory");
		code = CLI_EXIT_SYSTEM;
	} else {
		code = o.list ? list(&t) : run(&t);
	}
	cli_trace_view_deinit(&t.view);
	ctl_client_destroy(t.client);
	return code;
}
