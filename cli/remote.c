/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands that talk to a control socket have in common: options, a call, its answer. */
#include "cli/remote.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "control/client.h"

error_t cli_remote_key(struct cli_remote *r, int key, const char *arg, struct argp_state *state)
{
	switch (key) {
	case CLI_KEY_CONTROL: r->control = arg; return 0;
	case CLI_KEY_WAIT:
		if (cli_parse_duration(arg, &r->wait_ns))
			return 0;
		argp_error(state, "--wait %s: not a duration such as 5s or 500ms", arg);
		return EINVAL;
	case CLI_KEY_TIMEOUT:
		if (cli_parse_duration(arg, &r->timeout_ns))
			return 0;
		argp_error(state, "--timeout %s: not a duration such as 60s or 2m", arg);
		return EINVAL;
	default: return ARGP_ERR_UNKNOWN;
	}
}

error_t cli_remote_end(const struct cli_remote *r, struct argp_state *state)
{
	if (r->control)
		return 0;
	argp_error(state, "which guest? --control PATH is missing");
	return EINVAL;
}

static uint64_t deadline(uint64_t timeout_ns, uint64_t extra_ns)
{
	uint64_t at;

	if (!timeout_ns || !gs_add(gs_clock_ns(), timeout_ns, &at) || !gs_add(at, extra_ns, &at))
		return CTL_NO_DEADLINE;
	return at;
}

uint64_t cli_remote_deadline(const struct cli_remote *r)
{
	return deadline(r->timeout_ns, 0);
}

int cli_remote_connect(const struct cli_remote *r, struct ctl_client **client_out)
{
	struct gs_error err = { 0 };
	enum gs_code rc = ctl_client_connect(r->control, gs_clock_ns() + r->wait_ns,
					     deadline(r->timeout_ns, r->wait_ns), client_out, &err);

	if (!rc)
		return CLI_EXIT_OK;
	int code = cli_error(&err);
	/* not "a file is missing": there is nobody to talk to */
	return rc == GS_ENOENT				 ? CLI_EXIT_UNAVAILABLE
	       : rc == GS_EMALFORMED || rc == GS_ENOTSUP ? CLI_EXIT_PROTOCOL
							 : code;
}

int cli_remote_ask(const struct cli_remote *r, struct ctl_client *client, const char *command,
		   json_t *arguments, json_t **answer_out, int *fd_out)
{
	struct gs_error err = { 0 };
	enum gs_code rc = ctl_client_call(client, command, arguments, cli_remote_deadline(r),
					  answer_out, fd_out, &err);

	if (!rc)
		return CLI_EXIT_OK;
	int code = cli_error(&err);
	return rc == GS_EMALFORMED ? CLI_EXIT_PROTOCOL : code;
}

int cli_remote_call(const struct cli_remote *r, const char *command, json_t *arguments,
		    json_t **answer_out, int *fd_out)
{
	struct ctl_client *c;
	int code = cli_remote_connect(r, &c);

	if (code) {
		json_decref(arguments);
		return code;
	}
	code = cli_remote_ask(r, c, command, arguments, answer_out, fd_out);
	ctl_client_destroy(c);
	return code;
}

int cli_remote_fetch(const struct cli_remote *r, const char *command, json_t *arguments,
		     json_t **answer_out, const void **data_out, size_t *size_out)
{
	struct gs_error err = { 0 };
	GS_CLOSE int fd = -1;
	json_t *answer;
	int code = cli_remote_call(r, command, arguments, &answer, &fd);

	if (code)
		return code;
	if (fd < 0) {
		gs_log(GS_LOG_ERROR, "%s: the server passed no file", command);
		code = CLI_EXIT_PROTOCOL;
	} else if (ctl_capture_map(fd, data_out, size_out, &err)) {
		(void)cli_error(&err);
		code = CLI_EXIT_PROTOCOL;
	}
	if (!code && answer_out)
		*answer_out = answer;
	else
		json_decref(answer);
	return code;
}

uint64_t cli_answer_number(const json_t *object, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(object, name));

	return n > 0 ? (uint64_t)n : 0;
}

const char *cli_answer_text(const json_t *object, const char *name,
			    char buf[static CLI_ANSWER_TEXT_MAX])
{
	const char *s = json_string_value(json_object_get(object, name));

	if (!s)
		return "?";
	gs_escape_terminal(s, strlen(s), buf, CLI_ANSWER_TEXT_MAX);
	return buf;
}
