/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot run: what was asked for, and the machine that does it. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/console.h"
#include "cli/schedule_options.h"
#include "cli/until.h"

/** Why a run comes to its end. */
enum cli_run_reason {
	CLI_RUN_TIMEOUT,
	CLI_RUN_EXIT, /* the guest ended by itself, or was asked to: "quit", Ctrl-A x */
	CLI_RUN_UNTIL,
	CLI_RUN_SIGNAL,
	CLI_RUN_FAIL_ON,
	CLI_RUN_STATUS_LINE,
};

/** Name in --snapshot-on and in the default file name. */
const char *cli_run_reason_name(enum cli_run_reason reason);

struct cli_run_options {
	const char *kernel;
	const char *initrd;  /* NULL: none */
	const char *profile; /* file or folder; NULL: those installed */
	const char *append;  /* NULL: none */
	uint64_t memory;
	uint32_t cpus;
	uint32_t clusters;
	struct cli_kinds kinds;
	enum cli_console_kind console;
	const char *console_path;
	uint64_t console_buffer; /* 0: the machine's default */
	const char *control;	 /* NULL: none */
	struct cli_until until;	 /* --until, --fail-on, --status-line */
	uint64_t timeout_ns;	 /* 0: none */
	uint32_t snapshot_on;	 /* bits 1 << enum cli_run_reason */
	const char *snapshot;	 /* NULL: guestshot-<reason>.kcdata */
	struct cli_schedule_options schedule;
	const char *artifacts; /* folder; NULL: none */
	char *captures;	       /* of schedule, in that; NULL: elsewhere */
	const char *junit;     /* file; NULL: in the folder, if there is one */
	const char *name;      /* of the test; NULL: the kernel's file name */
	unsigned int verbosity;
};

/** The name of the test that a run is; points into @p o. */
const char *cli_run_name(const struct cli_run_options *o);

/** Whether the end is to be summed up. */
bool cli_run_wants_summary(const struct cli_run_options *o);

/**
 * Parse the arguments of run.
 *
 * @param o_out    free with cli_run_options_deinit(), also after false; strings point into argv
 * @param exit_out the exit code when the result is false
 * @return whether to go on
 */
GS_MUST_USE bool cli_run_options_parse(int argc, char **argv, struct cli_run_options *o_out,
				       int *exit_out);

void cli_run_options_deinit(struct cli_run_options *o);

/** Boot the guest and stay until it, or the wait for it, has ended. @return the exit code */
int cli_run_machine(struct cli_run_options *o);

#endif
