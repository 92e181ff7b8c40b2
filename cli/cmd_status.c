/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot status: how the guest behind a control socket and its captures are doing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/remote.h"

struct status_options {
	struct cli_remote remote;
	bool json;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "Print JSON, as the server sent it", 1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct status_options *o = state->input;

	switch (key) {
	case 'j': o->json = true; return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return cli_remote_end(&o->remote, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Show the state of the guest behind a control socket.",
	.children = cli_argp_children,
};

static uint64_t number_of(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n > 0 ? (uint64_t)n : 0;
}

/* A string of the server, harmless for a terminal; "?" when there is none. */
static const char *text_of(const json_t *object, const char *name, char buf[static 128])
{
	const char *s = json_string_value(json_object_get(object, name));

	if (!s)
		return "?";
	gs_escape_terminal(s, strlen(s), buf, 128);
	return buf;
}

static void print_guest(const json_t *answer)
{
	const json_t *guest = json_object_get(answer, "guest");
	char state[128], end[128], source[128], ram[CLI_TEXT_MAX];

	printf("state         %s", text_of(answer, "state", state));
	if (json_is_string(json_object_get(answer, "end")))
		printf(" (%s)", text_of(answer, "end", end));
	if (number_of(answer, "stops"))
		printf(", stops held: %" PRIu64, number_of(answer, "stops"));
	printf("\nguest         %s, %" PRIu64 " vCPUs in %" PRIu64 " clusters, %s\n",
	       text_of(guest, "source", source), number_of(guest, "vcpus"),
	       number_of(guest, "clusters"), cli_format_size(number_of(guest, "ram_bytes"), ram));
}

static void print_machine(const json_t *answer)
{
	const json_t *m = json_object_get(answer, "machine");
	char up[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX], bytes[CLI_TEXT_MAX];

	if (!json_is_object(m))
		return;
	printf("uptime        %s, of it stopped %s in %" PRIu64 " stops\n",
	       cli_format_duration(number_of(m, "uptime_ns"), up),
	       cli_format_duration(number_of(m, "stopped_ns"), stopped),
	       number_of(m, "stop_count"));
	printf("console       %s written, %" PRIu64 " bytes lost to a slow reader\n",
	       cli_format_size(number_of(m, "console_bytes"), bytes),
	       number_of(m, "console_dropped"));
	if (number_of(m, "unknown_mmio"))
		printf("unknown MMIO  %" PRIu64 " accesses\n", number_of(m, "unknown_mmio"));
}

static void print_captures(const json_t *answer)
{
	const json_t *c = json_object_get(answer, "captures");
	const json_t *last = json_object_get(answer, "last_capture");
	char bytes[CLI_TEXT_MAX], t[5][CLI_TEXT_MAX];

	printf("captures      %" PRIu64 " taken (%" PRIu64 " incomplete), %" PRIu64
	       " failed, %" PRIu64 " dropped, %" PRIu64 " waiting\n",
	       number_of(c, "taken"), number_of(c, "incomplete"), number_of(c, "failed"),
	       number_of(c, "dropped"), number_of(c, "queued"));
	if (!json_is_object(last))
		return;
	printf("last capture  %" PRIu64 " tasks, %" PRIu64 " threads, %s, %s\n",
	       number_of(last, "tasks"), number_of(last, "threads"),
	       cli_format_size(number_of(last, "bytes"), bytes),
	       json_is_true(json_object_get(last, "complete")) ? "complete" : "incomplete");
	printf("              stopped %s (stop %s, collect %s, resume %s), in all %s\n",
	       cli_format_duration(number_of(last, "stopped_ns"), t[0]),
	       cli_format_duration(number_of(last, "stop_ns"), t[1]),
	       cli_format_duration(number_of(last, "collect_ns"), t[2]),
	       cli_format_duration(number_of(last, "resume_ns"), t[3]),
	       cli_format_duration(number_of(last, "total_ns"), t[4]));
}

int cli_cmd_status(int argc, char **argv)
{
	struct status_options o = { .remote = CLI_REMOTE_DEFAULT };
	char version[128];
	json_t *answer;
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	code = cli_remote_call(&o.remote, "status", NULL, &answer, NULL);
	if (code)
		return code;
	if (o.json) {
		(void)json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_ENSURE_ASCII);
		putchar('\n'); /* main() looks whether standard output took it */
	} else {
		print_guest(answer);
		print_machine(answer);
		print_captures(answer);
		printf("clients       %" PRIu64 "\n", number_of(answer, "clients"));
		printf("version       %s\n", text_of(answer, "version", version));
	}
	json_decref(answer);
	return CLI_EXIT_OK;
}
