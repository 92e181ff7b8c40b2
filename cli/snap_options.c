/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot snap: its arguments. */
#include "cli/snap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "control/protocol.h"
#include "kcdata/stackshot_types.h"

enum {
	KEY_PID = 0x100,
	KEY_COMPRESS,
	KEY_CONTEXT,
	KEY_DEADLINE,
	KEY_FLAGS,
	KEY_LATENCY,
	KEY_LOG,
	KEY_PAGE_TABLES,
	KEY_RETRIEVE,
	KEY_SAVE,
	KEY_SINCE,
	KEY_THREADS_MAX,
	KEY_WAITS,
	KEY_USER,
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write the capture to FILE; - is standard output", 1 },
	{ "pid", KEY_PID, "PID", 0, "Only the guest's process PID", 1 },
	{ "since", KEY_SINCE, "FILE", 0,
	  "Only what has changed since the capture in FILE (with --control)", 1 },
	{ "threads-max", KEY_THREADS_MAX, "N", 0, "At most N threads of each process", 1 },
	{ "page-tables", KEY_PAGE_TABLES, "LEVELS", OPTION_ARG_OPTIONAL,
	  "The process's page tables, too: of all levels, or of those in a list such as 2,3", 1 },
	{ "waits", KEY_WAITS, NULL, 0, "Record what each sleeping thread waits for, and who has it",
	  1 },
	{ "user", KEY_USER, NULL, 0, "The stacks of user mode, too", 1 },
	{ "context", KEY_CONTEXT, NULL, 0,
	  "The processes' control groups, namespaces, signals and command lines, too", 1 },
	{ "log", KEY_LOG, NULL, 0, "The newest messages of the kernel's log, too", 1 },
	{ "latency", KEY_LATENCY, NULL, 0, "Record how long each part of the capture took", 1 },
	{ "flags", KEY_FLAGS, "NAMES", 0, "Other flags of a request, divided by commas", 1 },
	{ "compress", KEY_COMPRESS, "HOW", 0,
	  "none (default: any kcdata reader opens it), zlib, zstd or zstd:LEVEL", 1 },
	{ "deadline", KEY_DEADLINE, "DURATION", 0,
	  "Let the guest go on after so long, with what there is by then", 1 },
	{ "save", KEY_SAVE, NULL, 0, "Keep the capture where the guest is, for --retrieve", 1 },
	{ "retrieve", KEY_RETRIEVE, NULL, 0, "Take no capture, but get the one that was saved", 1 },
	{ "quiet", 'q', NULL, 0, "No summary on standard error", 1 },
	{ "verbose", 'v', NULL, 0, "Say how the guest's kernel was found, and what took how long",
	  1 },
	CLI_SOURCE_OPTIONS,
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t wrong(struct argp_state *state, const char *option, const char *arg,
		     const char *expected)
{
	argp_error(state, "--%s %s: %s", option, arg, expected);
	return EINVAL;
}

static error_t set_levels(struct argp_state *state, struct cli_snap_options *o, const char *arg)
{
	static const char *const levels[] = { "0", "1", "2", "3" };

	o->ask.flags |= KCD_SS_REQ_PAGE_TABLES;
	for (const char *list = arg; list;) {
		const size_t level = cli_take_word(&list, levels, ARRAY_SIZE(levels));

		if (level == ARRAY_SIZE(levels))
			return wrong(state, "page-tables", arg, "not a list of levels, 0 to 3");
		o->ask.pagetable_mask |= UINT64_C(1) << level;
	}
	return 0;
}

static error_t add_flags(struct argp_state *state, struct cli_snap_options *o, const char *arg)
{
	for (const char *at = arg;; at++) {
		const size_t len = strcspn(at, ",");
		char name[64]; /* no flag has so long a name */

		snprintf(name, sizeof(name), "%.*s", (int)gs_min(len, sizeof(name)), at);
		const uint64_t flag = ss_request_flag(name);
		if (!flag)
			return wrong(state, "flags", arg,
				     "not a list of flags; guestshot-snap(1) names them");
		o->ask.flags |= flag;
		at += len;
		if (!*at)
			return 0;
	}
}

/* What goes with a control socket only. */
static const char *without_socket(const struct cli_snap_options *o)
{
	const uint64_t flags = o->ask.flags;

	if (o->remote.control)
		return NULL;
	if (flags & (KCD_SS_SAVE_IN_KERNEL_BUFFER | KCD_SS_RETRIEVE_EXISTING_BUFFER))
		return "--save and --retrieve go with --control: the guestshot there keeps the "
		       "capture, this one ends";
	if (flags & KCD_SS_COLLECT_DELTA_SNAPSHOT)
		return "--since goes with --control: a guest that is opened for one capture has "
		       "nothing to compare it with";
	return NULL;
}

/* What only makes sense together, or not at all. @return what is wrong; NULL: nothing */
static const char *complaint(const struct cli_snap_options *o)
{
	const uint64_t flags = o->ask.flags;
	const bool saves = flags & KCD_SS_SAVE_IN_KERNEL_BUFFER;

	if (saves && (flags & KCD_SS_RETRIEVE_EXISTING_BUFFER))
		return "--save or --retrieve: not both at once";
	if (saves && (o->output || o->how.algorithm != KCD_COMPRESS_NONE))
		return "--save writes no file: -o and --compress go with --retrieve";
	if (!saves && !o->output)
		return "where to? -o FILE is missing";
	if (!saves && !strcmp(o->output, "-") && isatty(STDOUT_FILENO))
		return "a capture is binary: not written to a terminal";
	if ((flags & KCD_SS_REQ_PAGE_TABLES) && o->ask.pid == SS_PID_ALL)
		return "--page-tables needs --pid: they are captured of one process";
	return without_socket(o);
}

static error_t parse_end(const struct cli_snap_options *o, struct argp_state *state)
{
	const char *what = complaint(o);

	if (!what)
		return cli_any_guest_end(&o->source, &o->remote, state);
	argp_error(state, "%s", what);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct cli_snap_options *o = state->input;
	uint64_t n;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case 'q': o->quiet = true; return 0;
	case 'v': o->verbosity++; return 0;
	case KEY_FLAGS: return add_flags(state, o, arg);
	case KEY_LATENCY: o->ask.flags |= SS_LATENCY_INFO; return 0;
	case KEY_CONTEXT: o->ask.flags |= SS_CONTEXT; return 0;
	case KEY_LOG: o->ask.flags |= SS_KERNEL_LOG; return 0;
	case KEY_PAGE_TABLES: return set_levels(state, o, arg);
	case KEY_RETRIEVE: o->ask.flags |= KCD_SS_RETRIEVE_EXISTING_BUFFER; return 0;
	case KEY_USER: o->ask.flags |= SS_USER_STACKS; return 0;
	case KEY_SAVE: o->ask.flags |= KCD_SS_SAVE_IN_KERNEL_BUFFER; return 0;
	case KEY_WAITS: o->ask.flags |= KCD_SS_REQ_THREAD_WAITINFO; return 0;
	case KEY_SINCE:
		o->ask.flags |= KCD_SS_COLLECT_DELTA_SNAPSHOT;
		o->since = arg;
		return 0;
	case KEY_PID:
		if (!cli_parse_number(arg, 0, INT32_MAX, &n))
			return wrong(state, "pid", arg, "not a process id");
		o->ask.pid = (int32_t)n;
		return 0;
	case KEY_THREADS_MAX:
		if (!cli_parse_number(arg, 1, UINT32_MAX, &n))
			return wrong(state, "threads-max", arg, "not a number from 1 on");
		o->ask.threads_max = (uint32_t)n;
		return 0;
	case KEY_DEADLINE:
		return cli_parse_duration(arg, &o->deadline_ns) && o->deadline_ns >= GS_NS_PER_MS &&
				       o->deadline_ns <= CTL_DEADLINE_MS_MAX * GS_NS_PER_MS
			       ? 0
			       : wrong(state, "deadline", arg,
				       "not a duration in 1ms … 1h, such as 200ms");
	case KEY_COMPRESS:
		return kcd_compression_parse(arg, &o->how)
			       ? 0
			       : wrong(state, "compress", arg,
				       "neither none nor zlib nor zstd:LEVEL");
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return parse_end(o, state);
	default: return cli_any_guest_key(&o->source, &o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Stop a guest for some milliseconds, record what every thread is doing, and write "
	       "that to a file. The guest is one behind a control socket, one of libvirt or QEMU, "
	       "or a memory dump.",
	.children = cli_argp_children,
};

bool cli_snap_options_parse(int argc, char **argv, struct cli_snap_options *o_out, int *exit_out)
{
	*o_out = (struct cli_snap_options){ .remote = CLI_REMOTE_DEFAULT, .ask.pid = SS_PID_ALL };
	return cli_parse(&argp, argc, argv, o_out, exit_out);
}
