/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot snap: what was asked for. */
#ifndef CLI_SNAP_H
#define CLI_SNAP_H

#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/source.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/compress.h"

struct cli_snap_options {
	struct cli_remote remote;	  /* a guest behind a control socket … */
	struct cli_source_options source; /* … or another one */
	const char *output;		  /* NULL: it is saved with the server */
	struct ss_request ask;		  /* all that needs no clock and no file */
	const char *since;		  /* capture to compare with; NULL: none */
	uint64_t deadline_ns;		  /* most that the guest is stopped; 0: no limit */
	struct kcd_compression how;
	bool quiet;
	int verbosity;
};

/**
 * Parse the arguments of snap.
 *
 * @param o_out    strings point into argv
 * @param exit_out the exit code when the result is false
 * @return whether to go on
 */
GS_MUST_USE bool cli_snap_options_parse(int argc, char **argv, struct cli_snap_options *o_out,
					int *exit_out);

#endif
