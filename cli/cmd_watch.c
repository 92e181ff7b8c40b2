/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot watch: what was asked for. */
#include <errno.h>

#include "cli/cli.h"
#include "cli/watch.h"
#include "control/schedules.h"

#define INTERVAL_DEFAULT (2 * GS_NS_PER_SEC)
#define TOP_DEFAULT	 10

enum { KEY_INTERVAL = 0x100, KEY_MAX_STOPPED, KEY_COUNT, KEY_TOP, KEY_PLAIN };

static const struct argp_option options[] = {
	{ "interval", KEY_INTERVAL, "DURATION", 0,
	  "Take a capture every so often (default: 2s), or less often, for the budget", 1 },
	{ "max-stopped", KEY_MAX_STOPPED, "PERCENT", 0,
	  "Stop the guest for no more of the time; else captures are fewer (default: 1%)", 1 },
	{ "count", KEY_COUNT, "N", 0, "End after so many views (default: when somebody ends it)",
	  1 },
	{ "top", KEY_TOP, "N", 0, "List at most N threads and N stacks (default: 10)", 1 },
	{ "plain", KEY_PLAIN, NULL, 0, "Text, one view after the other, as when not on a terminal",
	  1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t wrong(struct argp_state *state, const char *option, const char *arg,
		     const char *expected)
{
	argp_error(state, "--%s %s: %s", option, arg, expected);
	return EINVAL;
}

static error_t set_interval(struct argp_state *state, const char *arg, uint64_t *ns)
{
	return cli_parse_duration(arg, ns) && *ns >= CTL_SCHEDULE_EVERY_MIN_NS &&
			       *ns <= CTL_SCHEDULE_EVERY_MAX_NS
		       ? 0
		       : wrong(state, "interval", arg, "not a duration from 10ms to a week");
}

static error_t set_top(struct argp_state *state, const char *arg, uint32_t *top)
{
	uint64_t n;

	if (!cli_parse_number(arg, 1, UINT32_MAX, &n))
		return wrong(state, "top", arg, "not a number from 1 on");
	*top = (uint32_t)n;
	return 0;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct cli_watch_options *o = state->input;

	switch (key) {
	case KEY_INTERVAL: return set_interval(state, arg, &o->interval_ns);
	case KEY_MAX_STOPPED:
		return cli_parse_percent(arg, &o->max_stopped)
			       ? 0
			       : wrong(state, "max-stopped", arg,
				       "not a percentage from 0.0001% to 100%");
	case KEY_COUNT:
		return cli_parse_number(arg, 1, UINT64_MAX, &o->count)
			       ? 0
			       : wrong(state, "count", arg, "not a number from 1 on");
	case KEY_TOP: return set_top(state, arg, &o->top);
	case KEY_PLAIN: o->plain = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return cli_remote_end(&o->remote, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Show the guest behind a control socket, again and again: its threads by state, "
	       "those "
	       "that "
	       "are blocked the longest, the most frequent stacks, and what that costs it. On a "
	       "terminal, "
	       "space pauses, s saves the capture shown, q quits.",
	.children = cli_argp_children,
};

int cli_cmd_watch(int argc, char **argv)
{
	struct cli_watch_options o = { .remote = CLI_REMOTE_DEFAULT,
				       .interval_ns = INTERVAL_DEFAULT,
				       .max_stopped = CTL_SCHEDULE_STOPPED_DEFAULT,
				       .top = TOP_DEFAULT };
	int code;

	return cli_parse(&argp, argc, argv, &o, &code) ? cli_watch_run(&o) : code;
}
