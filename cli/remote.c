/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands that talk to a control socket have in common: options and one call. */
#include "cli/remote.h"

#include <errno.h>

#include "base/error.h"
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

int cli_remote_call(const struct cli_remote *r, const char *command, json_t *arguments,
		    json_t **answer_out, int *fd_out)
{
	struct gs_error err = { 0 };
	struct ctl_client *c;
	enum gs_code rc = ctl_client_connect(r->control, gs_clock_ns() + r->wait_ns,
					     deadline(r->timeout_ns, r->wait_ns), &c, &err);

	if (rc) {
		json_decref(arguments);
		int code = cli_error(&err);
		/* not "a file is missing": there is nobody to talk to */
		return rc == GS_ENOENT				 ? CLI_EXIT_UNAVAILABLE
		       : rc == GS_EMALFORMED || rc == GS_ENOTSUP ? CLI_EXIT_PROTOCOL
								 : code;
	}
	rc = ctl_client_call(c, command, arguments, deadline(r->timeout_ns, 0), answer_out, fd_out,
			     &err);
	ctl_client_destroy(c);
	if (!rc)
		return CLI_EXIT_OK;
	int code = cli_error(&err);
	return rc == GS_EMALFORMED ? CLI_EXIT_PROTOCOL : code;
}
