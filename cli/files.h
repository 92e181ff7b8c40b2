/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that are files: captures of show and diff. Private. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <argp.h>
#include <stddef.h>

struct cli_files {
	char **path; /* of argv; "-": standard input, at most once */
	size_t count;
};

/**
 * Take all arguments that are no options, for ARGP_KEY_ARGS (a parser that returns ARGP_ERR_UNKNOWN for
 * ARGP_KEY_ARG gets that).
 *
 * @return 0; EINVAL: "-" more than once, and standard error says so
 */
error_t cli_files_take(struct cli_files *f, struct argp_state *state);

#endif
