/* SPDX-License-Identifier: Apache-2.0 */
/* What guestshot run says and writes about how it went. */
#ifndef CLI_RESULTS_H
#define CLI_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/artifacts.h"
#include "cli/report/summary.h"

/**
 * Print the summary to standard error and write the files.
 *
 * @param junit   file for JUnit XML; NULL: in the folder, if there is one
 * @param wall_us when the run began, since 1970
 * @return false: something was not written, and that was said
 */
bool cli_results_write(struct cli_artifacts *a, const char *junit, const struct rep_summary *s,
		       uint64_t wall_us);

#endif
