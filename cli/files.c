/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share that report on captures in files: show and diff. */
#include "cli/files.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

error_t cli_files_complain(struct argp_state *state, const char *what)
{
	argp_error(state, "%s", what);
	return EINVAL; /* argp itself goes on: it must not exit */
}

error_t cli_files_no_json(struct argp_state *state, bool json, const char *option, bool given)
{
	if (!json || !given)
		return 0;
	argp_error(state, "--%s is for text: the JSON document always has every thread", option);
	return EINVAL;
}

error_t cli_files_take(struct cli_files *f, struct argp_state *state)
{
	size_t inputs = 0;

	f->path = &state->argv[state->next];
	f->count = (size_t)(state->argc - state->next);
	for (size_t i = 0; i < f->count; i++)
		inputs += strcmp(f->path[i], "-") == 0;
	return inputs <= 1
		       ? 0
		       : cli_files_complain(
				 state, "FILE - is standard input, which can be read only once");
}

void cli_report_begin(void)
{
	signal(SIGPIPE, SIG_DFL);
}

int cli_report_end(bool written, bool complete)
{
	if (!written) {
		fprintf(stderr, "guestshot: error: writing the report: %s\n", strerror(errno));
		return CLI_EXIT_OUTPUT;
	}
	return complete ? CLI_EXIT_OK : CLI_EXIT_INCOMPLETE;
}
