/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are files. */
#include "cli/files.h"

#include <errno.h>
#include <string.h>

error_t cli_files_take(struct cli_files *f, struct argp_state *state)
{
	size_t inputs = 0;

	f->path = &state->argv[state->next];
	f->count = (size_t)(state->argc - state->next);
	for (size_t i = 0; i < f->count; i++)
		inputs += strcmp(f->path[i], "-") == 0;
	if (inputs <= 1)
		return 0;
	argp_error(state, "FILE - is standard input, which can be read only once");
	return EINVAL; /* argp itself goes on: it must not exit */
}
