/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot run: its arguments. */
#include "cli/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "vmm/vmm.h"

#define MEMORY_DEFAULT (UINT64_C(512) << 20)

static const char *const reasons[] = {
	[CLI_RUN_TIMEOUT] = "timeout", [CLI_RUN_EXIT] = "exit",
	[CLI_RUN_UNTIL] = "until",     [CLI_RUN_SIGNAL] = "signal",
	[CLI_RUN_FAIL_ON] = "fail-on", [CLI_RUN_STATUS_LINE] = "status-line",
};

const char *cli_run_reason_name(enum cli_run_reason reason)
{
	return reasons[reason];
}

const char *cli_run_name(const struct cli_run_options *o)
{
	const char *slash = strrchr(o->kernel, '/');

	if (o->name)
		return o->name;
	return slash ? slash + 1 : o->kernel;
}

bool cli_run_wants_summary(const struct cli_run_options *o)
{
	return o->artifacts || o->junit || cli_until_has(&o->until, CLI_UNTIL_FAIL) ||
	       cli_until_has(&o->until, CLI_UNTIL_STATUS);
}

enum {
	KEY_KERNEL = 0x100,
	KEY_INITRD,
	KEY_APPEND,
	KEY_MEMORY,
	KEY_CPUS,
	KEY_CLUSTERS,
	KEY_CLUSTER_KIND,
	KEY_CONSOLE,
	KEY_CONSOLE_BUFFER,
	KEY_CONTROL,
	KEY_UNTIL,
	KEY_TIMEOUT,
	KEY_SNAPSHOT_ON,
	KEY_SNAPSHOT,
	KEY_PROFILE,
	KEY_FAIL_ON,
	KEY_STATUS_LINE,
	KEY_ARTIFACTS,
	KEY_JUNIT,
	KEY_NAME,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The machine", 1 },
	{ "kernel", KEY_KERNEL, "IMAGE", 0, "ARM64 Image to boot, plain or gzip-compressed", 1 },
	{ "initrd", KEY_INITRD, "FILE", 0, "Initial RAM disk", 1 },
	{ "append", KEY_APPEND, "CMDLINE", 0, "The kernel's command line", 1 },
	{ "memory", KEY_MEMORY, "SIZE", 0, "RAM, with K, M or G (default: 512M)", 1 },
	{ "cpus", KEY_CPUS, "N", 0, "vCPUs, 1 to 64 (default: 1)", 1 },
	{ "clusters", KEY_CLUSTERS, "N", 0, "Clusters the vCPUs are in (default: 1)", 1 },
	{ "cluster-kind", KEY_CLUSTER_KIND, "KINDS", 0,
	  "What each cluster is, divided by commas: big, little or same (default: same)", 1 },
	{ NULL, 0, NULL, 0, "Its console", 2 },
	{ "console", KEY_CONSOLE, "WHERE", 0,
	  "stdio (default; Ctrl-A x ends the guest), pty, file:PATH or none", 2 },
	{ "console-buffer", KEY_CONSOLE_BUFFER, "SIZE", 0,
	  "Output kept for a slow reader before some is lost (default: 4M)", 2 },
	{ NULL, 0, NULL, 0, "From outside", 3 },
	{ "profile", KEY_PROFILE, "FILE|FOLDER", 0,
	  "Structure layouts, for a kernel without type information", 3 },
	{ "control", KEY_CONTROL, "PATH", 0, "Serve snap and status on a Unix socket", 3 },
	{ "until", KEY_UNTIL, "REGEX", 0, "End, successfully, when a line of the console matches",
	  3 },
	{ "timeout", KEY_TIMEOUT, "DURATION", 0, "End after so long: 60s, 2m, 500ms", 3 },
	{ "snapshot-on", KEY_SNAPSHOT_ON, "REASONS", 0,
	  "Take a capture before ending for one of these: timeout,exit,until,signal,fail-on,"
	  "status-line",
	  3 },
	{ "snapshot", KEY_SNAPSHOT, "FILE", 0, "Where to (default: guestshot-REASON.kcdata)", 3 },
	{ NULL, 0, NULL, 0, "As a test runner", 4 },
	{ "fail-on", KEY_FAIL_ON, "REGEX", 0,
	  "End as failed when a line of the console matches; may be given several times", 4 },
	{ "status-line", KEY_STATUS_LINE, "REGEX", 0,
	  "End when a line of the console matches; what its first (subexpression) matches is the "
	  "status of the guest's test, 0 is success",
	  4 },
	{ "artifacts", KEY_ARTIFACTS, "DIR", 0,
	  "Keep console, captures and a summary of how it went in this folder", 4 },
	{ "junit", KEY_JUNIT, "FILE", 0,
	  "Write the result as JUnit XML (default with --artifacts: junit.xml in the folder)", 4 },
	{ "name", KEY_NAME, "NAME", 0, "Name of the test (default: the kernel's file name)", 4 },
	CLI_SCHEDULE_OPTIONS,
	{ "verbose", 'v', NULL, 0, "Say what is going on; twice: more", 6 },
	{ 0 },
};

static error_t wrong(struct argp_state *state, const char *option, const char *arg,
		     const char *expected)
{
	argp_error(state, "--%s %s: %s", option, arg, expected);
	return EINVAL;
}

static error_t set_count(struct argp_state *state, const char *option, const char *arg,
			 uint32_t *count_out)
{
	uint64_t n;

	if (!cli_parse_number(arg, 1, VMM_CPUS_MAX, &n))
		return wrong(state, option, arg, "not a number from 1 to 64");
	*count_out = (uint32_t)n;
	return 0;
}

static error_t set_console(struct argp_state *state, struct cli_run_options *o, const char *arg)
{
	if (!strcmp(arg, "stdio"))
		o->console = CLI_CONSOLE_STDIO;
	else if (!strcmp(arg, "pty"))
		o->console = CLI_CONSOLE_PTY;
	else if (!strcmp(arg, "none"))
		o->console = CLI_CONSOLE_NONE;
	else if (!strncmp(arg, "file:", 5) && arg[5])
		o->console = CLI_CONSOLE_FILE;
	else
		return wrong(state, "console", arg, "not stdio, pty, file:PATH or none");
	o->console_path = o->console == CLI_CONSOLE_FILE ? arg + 5 : NULL;
	return 0;
}

static error_t set_line(struct argp_state *state, struct cli_run_options *o, const char *option,
			enum cli_until_kind kind, const char *arg)
{
	struct gs_error err = { 0 };

	if (kind != CLI_UNTIL_FAIL && cli_until_has(&o->until, kind))
		return wrong(state, option, arg, "given twice; join them with |");
	if (cli_until_add(&o->until, kind, arg, &err))
		return wrong(state, option, arg, err.text);
	return 0;
}

static error_t set_snapshot_on(struct argp_state *state, struct cli_run_options *o, const char *arg)
{
	for (const char *list = arg; list;) {
		const size_t i = cli_take_word(&list, reasons, ARRAY_SIZE(reasons));

		if (i == ARRAY_SIZE(reasons))
			return wrong(state, "snapshot-on", arg,
				     "not a list of timeout, exit, until, signal, fail-on, "
				     "status-line");
		o->snapshot_on |= 1u << i;
	}
	return 0;
}

/* A reason to take a snapshot that can never come, and what is missing; NULL: all can. */
static const char *check_snapshot_on(const struct cli_run_options *o)
{
	const uint32_t on = o->snapshot_on;

	if (o->snapshot && !on)
		return "--snapshot needs --snapshot-on, which says when";
	if (on & (1u << CLI_RUN_TIMEOUT) && !o->timeout_ns)
		return "--snapshot-on timeout needs --timeout";
	if (on & (1u << CLI_RUN_UNTIL) && !cli_until_has(&o->until, CLI_UNTIL_GOOD))
		return "--snapshot-on until needs --until";
	if (on & (1u << CLI_RUN_FAIL_ON) && !cli_until_has(&o->until, CLI_UNTIL_FAIL))
		return "--snapshot-on fail-on needs --fail-on";
	if (on & (1u << CLI_RUN_STATUS_LINE) && !cli_until_has(&o->until, CLI_UNTIL_STATUS))
		return "--snapshot-on status-line needs --status-line";
	return NULL;
}

/* A folder for what is left wants the captures of what went wrong. @return 0; ENOMEM */
static error_t take_artifacts(struct cli_run_options *o)
{
	if (!o->artifacts)
		return 0;
	o->schedule.schedule.triggers = true;
	o->schedule.triggers |= 1u << SS_REASON_PANIC | 1u << SS_REASON_OOPS;
	if (o->schedule.has_dir)
		return 0;
	free(o->captures);
	if (asprintf(&o->captures, "%s/captures", o->artifacts) < 0) {
		o->captures = NULL;
		return ENOMEM;
	}
	o->schedule.schedule.dir = o->captures;
	return 0;
}

/* What only makes sense together. */
static error_t check(struct argp_state *state, struct cli_run_options *o)
{
	const char *what = check_snapshot_on(o);

	if (!o->kernel)
		what = "which kernel? --kernel IMAGE is missing";
	else if (o->memory < VMM_RAM_MIN)
		what = "--memory: a guest needs at least 64M";
	else if (o->clusters > o->cpus)
		what = "--clusters: more clusters than vCPUs";
	else if (o->kinds.count > o->clusters)
		what = "--cluster-kind: more kinds than clusters (--clusters)";
	else if ((o->schedule.triggers & (1u << SS_REASON_TIMEOUT)) && !o->timeout_ns)
		what = "--trigger timeout needs --timeout";
	else if (o->name && !o->artifacts && !o->junit)
		what = "--name goes with --junit or --artifacts";
	if (!what) {
		const error_t e = take_artifacts(o);

		return e ? e : cli_schedule_end(&o->schedule, true, state);
	}
	argp_error(state, "%s", what);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct cli_run_options *o = state->input;

	switch (key) {
	case KEY_KERNEL: o->kernel = arg; return 0;
	case KEY_INITRD: o->initrd = arg; return 0;
	case KEY_APPEND: o->append = arg; return 0;
	case KEY_PROFILE: o->profile = arg; return 0;
	case KEY_CONTROL: o->control = arg; return 0;
	case KEY_SNAPSHOT: o->snapshot = arg; return 0;
	case KEY_MEMORY:
		return cli_parse_size(arg, &o->memory)
			       ? 0
			       : wrong(state, "memory", arg, "not a size such as 512M or 2G");
	case KEY_CONSOLE_BUFFER:
		return cli_parse_size(arg, &o->console_buffer) && o->console_buffer
			       ? 0
			       : wrong(state, "console-buffer", arg,
				       "not a size such as 64K or 4M");
	case KEY_CPUS: return set_count(state, "cpus", arg, &o->cpus);
	case KEY_CLUSTERS: return set_count(state, "clusters", arg, &o->clusters);
	case KEY_CLUSTER_KIND:
		return cli_parse_kinds(arg, &o->kinds)
			       ? 0
			       : wrong(state, "cluster-kind", arg, CLI_KINDS_WRONG);
	case KEY_CONSOLE: return set_console(state, o, arg);
	case KEY_UNTIL: return set_line(state, o, "until", CLI_UNTIL_GOOD, arg);
	case KEY_FAIL_ON: return set_line(state, o, "fail-on", CLI_UNTIL_FAIL, arg);
	case KEY_STATUS_LINE: return set_line(state, o, "status-line", CLI_UNTIL_STATUS, arg);
	case KEY_ARTIFACTS:
		o->artifacts = arg;
		return *arg ? 0 : wrong(state, "artifacts", arg, "not a folder");
	case KEY_JUNIT: o->junit = arg; return *arg ? 0 : wrong(state, "junit", arg, "not a file");
	case KEY_NAME: o->name = arg; return *arg ? 0 : wrong(state, "name", arg, "not a name");
	case KEY_TIMEOUT:
		return cli_parse_duration(arg, &o->timeout_ns) && o->timeout_ns
			       ? 0
			       : wrong(state, "timeout", arg,
				       "not a duration such as 60s or 500ms");
	case KEY_SNAPSHOT_ON: return set_snapshot_on(state, o, arg);
	case 'v': o->verbosity++; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return check(state, o);
	default: return cli_schedule_key(&o->schedule, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Boot a guest on ARM64 KVM and stay until it ends.",
	.children = cli_argp_children,
};

bool cli_run_options_parse(int argc, char **argv, struct cli_run_options *o_out, int *exit_out)
{
	*o_out = (struct cli_run_options){ .memory = MEMORY_DEFAULT, .cpus = 1, .clusters = 1 };
	cli_schedule_init(&o_out->schedule);
	cli_until_init(&o_out->until);
	return cli_parse(&argp, argc, argv, o_out, exit_out);
}

void cli_run_options_deinit(struct cli_run_options *o)
{
	cli_until_deinit(&o->until);
	free(GS_TAKE(o->captures));
}
