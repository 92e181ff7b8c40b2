/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot run: boot a guest under our own KVM machine. */
#include <stdlib.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/run.h"

int cli_cmd_run(int argc, char **argv)
{
	struct cli_run_options *o = malloc(sizeof(*o)); /* too large for a stack */
	int code;

	if (!o) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	if (cli_run_options_parse(argc, argv, o, &code)) {
		if (o->verbosity)
			gs_log_set_level(o->verbosity > 1 ? GS_LOG_DEBUG : GS_LOG_INFO);
#if GUESTSHOT_HAVE_VMM
		code = cli_run_machine(o);
#else
		gs_log(GS_LOG_ERROR,
		       "this machine has no ARM64 KVM: use `make demo`, which emulates "
		       "one, or an ARM64 host");
		code = CLI_EXIT_UNAVAILABLE;
#endif
	}
	cli_run_options_deinit(o);
	free(o);
	return code;
}
