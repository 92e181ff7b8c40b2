/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's end means: exit code, word, sentence. */
#ifndef CLI_OUTCOME_H
#define CLI_OUTCOME_H

#include "base/error.h"
#include "cli/run.h"
#include "cli/until.h"
#include "vmm/vmm.h"

/** What is known of the end. */
struct cli_end {
	enum cli_run_reason reason;
	enum vmm_end end; /* of CLI_RUN_EXIT */
	bool panicked;	  /* the console says so, and that was looked for */
	int signo;	  /* of CLI_RUN_SIGNAL */
	struct cli_until_match match;
	const struct gs_error *not_started; /* no guest was; NULL: one was */
};

struct cli_outcome {
	const char *
		result; /* "passed"; "failed": the guest or its test; "error": it was kept from its end */
	const char *type;		   /* one word: docs/ci.md has the table */
	int code;			   /* exit code */
	char text[GS_ERROR_TEXT_MAX + 64]; /* a sentence for a person, harmless for a terminal */
};

/** "poweroff", "reboot", … */
const char *cli_end_name(enum vmm_end end);

/** @param o  what was asked for */
void cli_outcome_find(const struct cli_run_options *o, const struct cli_end *e,
		      struct cli_outcome *outcome_out);

#endif
