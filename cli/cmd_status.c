/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot status: how the guest behind a control socket and its captures are doing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/report/lines.h"

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

static void print_guest(const json_t *answer)
{
	const json_t *guest = json_object_get(answer, "guest");
	char state[CLI_ANSWER_TEXT_MAX], end[CLI_ANSWER_TEXT_MAX], source[CLI_ANSWER_TEXT_MAX],
		ram[CLI_TEXT_MAX];

	printf("state         %s", cli_answer_text(answer, "state", state));
	if (json_is_string(json_object_get(answer, "end")))
		printf(" (%s)", cli_answer_text(answer, "end", end));
	if (cli_answer_number(answer, "stops"))
		printf(", stops held: %" PRIu64, cli_answer_number(answer, "stops"));
	printf("\nguest         %s, %" PRIu64 " vCPUs in %" PRIu64 " clusters, %s\n",
	       cli_answer_text(guest, "source", source), cli_answer_number(guest, "vcpus"),
	       cli_answer_number(guest, "clusters"),
	       cli_format_size(cli_answer_number(guest, "ram_bytes"), ram));
}

static void print_machine(const json_t *answer)
{
	const json_t *m = json_object_get(answer, "machine");
	char up[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX], bytes[CLI_TEXT_MAX];

	if (!json_is_object(m))
		return;
	printf("uptime        %s, of it stopped %s in %" PRIu64 " stops\n",
	       cli_format_duration(cli_answer_number(m, "uptime_ns"), up),
	       cli_format_duration(cli_answer_number(m, "stopped_ns"), stopped),
	       cli_answer_number(m, "stop_count"));
	printf("console       %s written, %" PRIu64 " bytes lost to a slow reader\n",
	       cli_format_size(cli_answer_number(m, "console_bytes"), bytes),
	       cli_answer_number(m, "console_dropped"));
	if (cli_answer_number(m, "unknown_mmio"))
		printf("unknown MMIO  %" PRIu64 " accesses\n",
		       cli_answer_number(m, "unknown_mmio"));
}

static void print_captures(const json_t *answer)
{
	const json_t *c = json_object_get(answer, "captures");
	const json_t *last = json_object_get(answer, "last_capture");
	char bytes[CLI_TEXT_MAX], t[5][CLI_TEXT_MAX];

	printf("captures      %" PRIu64 " taken (%" PRIu64 " incomplete), %" PRIu64
	       " failed, %" PRIu64 " dropped, %" PRIu64 " waiting\n",
	       cli_answer_number(c, "taken"), cli_answer_number(c, "incomplete"),
	       cli_answer_number(c, "failed"), cli_answer_number(c, "dropped"),
	       cli_answer_number(c, "queued"));
	if (!json_is_object(last))
		return;
	printf("last capture  %" PRIu64 " tasks, %" PRIu64 " threads, %s, %s\n",
	       cli_answer_number(last, "tasks"), cli_answer_number(last, "threads"),
	       cli_format_size(cli_answer_number(last, "bytes"), bytes),
	       json_is_true(json_object_get(last, "complete")) ? "complete" : "incomplete");
	printf("              stopped %s (stop %s, collect %s, resume %s), in all %s\n",
	       cli_format_duration(cli_answer_number(last, "stopped_ns"), t[0]),
	       cli_format_duration(cli_answer_number(last, "stop_ns"), t[1]),
	       cli_format_duration(cli_answer_number(last, "collect_ns"), t[2]),
	       cli_format_duration(cli_answer_number(last, "resume_ns"), t[3]),
	       cli_format_duration(cli_answer_number(last, "total_ns"), t[4]));
}

static void print_saved(const json_t *answer)
{
	const json_t *saved = json_object_get(answer, "saved_capture");
	char bytes[CLI_TEXT_MAX], when[REP_TIME_TEXT];

	if (!json_is_object(saved))
		return;
	printf("saved capture %" PRIu64 " tasks, %" PRIu64 " threads, %s, at %s\n",
	       cli_answer_number(saved, "tasks"), cli_answer_number(saved, "threads"),
	       cli_format_size(cli_answer_number(saved, "bytes"), bytes),
	       rep_time(cli_answer_number(saved, "time_us"), false, when));
}

int cli_cmd_status(int argc, char **argv)
{
	struct status_options o = { .remote = CLI_REMOTE_DEFAULT };
	char version[CLI_ANSWER_TEXT_MAX];
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
		print_saved(answer);
		printf("clients       %" PRIu64 "\n", cli_answer_number(answer, "clients"));
		printf("version       %s\n", cli_answer_text(answer, "version", version));
	}
	json_decref(answer);
	return CLI_EXIT_OK;
}
