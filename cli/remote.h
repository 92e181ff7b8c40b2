/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands that talk to a control socket have in common: options, a call, its answer. */
#ifndef CLI_REMOTE_H
#define CLI_REMOTE_H

#include <argp.h>
#include <jansson.h>
#include <stdint.h>

#include "base/clock.h"

struct ctl_client;

struct cli_remote {
	const char *control;
	uint64_t wait_ns;    /* for the socket to appear */
	uint64_t timeout_ns; /* for the answer; 0: none */
};

#define CLI_REMOTE_DEFAULT                       \
	{                                        \
		.timeout_ns = 60 * GS_NS_PER_SEC \
	}

enum { CLI_KEY_CONTROL = 0x200, CLI_KEY_WAIT, CLI_KEY_TIMEOUT };

#define CLI_REMOTE_OPTIONS                                                                    \
	{ "control", CLI_KEY_CONTROL, "PATH", 0, "The guest's control socket", 2 },           \
		{ "wait",                                                                     \
		  CLI_KEY_WAIT,                                                               \
		  "DURATION",                                                                 \
		  0,                                                                          \
		  "Wait so long for the socket to appear (default: not at all)",              \
		  2 },                                                                        \
	{                                                                                     \
		"timeout", CLI_KEY_TIMEOUT, "DURATION", 0,                                    \
			"Give up when there is no answer in time (default: 60s; 0: never)", 2 \
	}

/** Take one of CLI_REMOTE_OPTIONS; ARGP_ERR_UNKNOWN for other keys. */
error_t cli_remote_key(struct cli_remote *r, int key, const char *arg, struct argp_state *state);

/** To be called for ARGP_KEY_END: what must be given is given. */
error_t cli_remote_end(const struct cli_remote *r, struct argp_state *state);

/**
 * Connect; a failure is printed.
 *
 * @param client_out returned: ctl_client_destroy()
 * @return an exit code; 0: the output is set
 */
int cli_remote_connect(const struct cli_remote *r, struct ctl_client **client_out);

/** Call; as cli_remote_call(), over a connection that stays. */
int cli_remote_ask(const struct cli_remote *r, struct ctl_client *client, const char *command,
		   json_t *arguments, json_t **answer_out, int *fd_out);

/** When an answer that is asked for now has to be there. */
uint64_t cli_remote_deadline(const struct cli_remote *r);

/**
 * Connect, call, disconnect; a failure is printed.
 *
 * @param arguments  taken; may be NULL
 * @param answer_out returned: json_decref()
 * @param fd_out     as ctl_client_call()
 * @return an exit code; 0: the outputs are set
 */
int cli_remote_call(const struct cli_remote *r, const char *command, json_t *arguments,
		    json_t **answer_out, int *fd_out);

/**
 * The same for a command whose result comes as a sealed memory file: a capture, saved backtraces.
 *
 * @param arguments  taken
 * @param answer_out returned: json_decref(); NULL: not wanted
 * @param data_out   returned, read-only: munmap() with @p size_out, which is not 0
 * @return an exit code; 0: the outputs are set
 */
int cli_remote_fetch(const struct cli_remote *r, const char *command, json_t *arguments,
		     json_t **answer_out, const void **data_out, size_t *size_out);

/** A count in an answer; 0 when there is none, or when it is negative. */
uint64_t cli_answer_number(const json_t *object, const char *name);

/* Longest text of cli_answer_text(), NUL included. */
#define CLI_ANSWER_TEXT_MAX 128

/** A text in an answer, cut and made harmless for a terminal; "?" when there is none. */
const char *cli_answer_text(const json_t *object, const char *name,
			    char buf[static CLI_ANSWER_TEXT_MAX]);

#endif
