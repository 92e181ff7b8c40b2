/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot watch: what was asked for. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/remote.h"

struct cli_watch_options {
	struct cli_remote remote;
	uint64_t interval_ns;
	uint32_t max_stopped; /* parts of a million that captures may stop the guest */
	uint64_t count;	      /* of views; 0: until somebody ends it */
	uint32_t top;	      /* most threads and most stacks that are listed */
	bool plain;	      /* text, also on a terminal */
};

/** Show the guest until it is gone, somebody quits, or a signal comes. @return the exit code */
int cli_watch_run(const struct cli_watch_options *o);

#endif
