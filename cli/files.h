/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands share that report on captures in files: show and diff. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include <argp.h>
#include <stdbool.h>
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

/** Say on standard error what is wrong with the arguments. @return EINVAL, for the parser */
error_t cli_files_complain(struct argp_state *state, const char *what);

/** Refuse an option that has no meaning beside --json. @return 0, or EINVAL for the parser */
error_t cli_files_no_json(struct argp_state *state, bool json, const char *option, bool given);

/** Have a reader of the report that has seen enough (head, less) end the program without a message. */
void cli_report_begin(void);

/**
 * Say so if the report could not be written (errno: why).
 *
 * @param complete  whether nothing is missing in what was reported
 * @return the exit code
 */
int cli_report_end(bool written, bool complete);

#endif
