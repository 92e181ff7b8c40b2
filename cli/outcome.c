/* SPDX-License-Identifier: Apache-2.0 */
/* What a run's end means: exit code, word, sentence. */
#include "cli/outcome.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/util.h"
#include "cli/cli.h"

/* Of a line of the console in a sentence: bytes shown. */
#define LINE_SHOWN 80

static const char passed[] = "passed", failed[] = "failed", error[] = "error";

const char *cli_end_name(enum vmm_end end)
{
	switch (end) {
	case VMM_RUNNING: return "running";
	case VMM_END_POWEROFF: return "poweroff";
	case VMM_END_REBOOT: return "reboot";
	case VMM_END_CRASH: return "crash";
	case VMM_END_ERROR: return "error";
	case VMM_END_KILLED: return "killed";
	}
	return "unknown";
}

/* What was waited for, and did not come. */
static const char *missed(const struct cli_run_options *o)
{
	const bool good = cli_until_has(&o->until, CLI_UNTIL_GOOD);

	if (cli_until_has(&o->until, CLI_UNTIL_STATUS))
		return good ? "--until or --status-line" : "--status-line";
	return good ? "--until" : NULL;
}

static void set(struct cli_outcome *out, const char *result, const char *type, int code)
{
	out->result = result;
	out->type = type;
	out->code = code;
}

static void find_of_guest(const struct cli_run_options *o, const struct cli_end *e,
			  struct cli_outcome *out)
{
	const char *what = missed(o);

	snprintf(out->text, sizeof(out->text), "the guest ended: %s", cli_end_name(e->end));
	switch (e->end) {
	case VMM_END_POWEROFF:
		if (!what) {
			set(out, passed, "passed", CLI_EXIT_OK);
			return;
		}
		set(out, failed, "no-match", CLI_EXIT_NO_MATCH);
		snprintf(out->text, sizeof(out->text),
			 "the guest powered off before %s had matched", what);
		return;
	case VMM_END_REBOOT: set(out, failed, "reboot", CLI_EXIT_REBOOT); return;
	case VMM_END_CRASH: set(out, failed, "crash", CLI_EXIT_CRASH); return;
	case VMM_END_ERROR:
		set(out, error, "vm-error", CLI_EXIT_VM_ERROR);
		snprintf(out->text, sizeof(out->text), "KVM cannot run the guest any further");
		return;
	case VMM_END_KILLED:
		set(out, error, "requested", CLI_EXIT_REQUESTED);
		snprintf(out->text, sizeof(out->text), "the guest was ended on request");
		return;
	case VMM_RUNNING: break; /* it was killed, so no */
	}
	set(out, error, "unknown", CLI_EXIT_FAILURE);
}

static void find_of_line(const struct cli_until_match *m, struct cli_outcome *out)
{
	char line[4 * LINE_SHOWN + 1];

	gs_escape_terminal(m->line, gs_min(strlen(m->line), LINE_SHOWN), line, sizeof(line));
	switch (m->kind) {
	case CLI_UNTIL_NOTHING:
	case CLI_UNTIL_GOOD:
		set(out, passed, "passed", CLI_EXIT_OK);
		snprintf(out->text, sizeof(out->text), "--until has matched");
		break;
	case CLI_UNTIL_FAIL:
		set(out, failed, "fail-on", CLI_EXIT_FAIL_ON);
		snprintf(out->text, sizeof(out->text), "--fail-on has matched: %s", line);
		break;
	case CLI_UNTIL_STATUS:
		if (m->has_status && !m->status)
			set(out, passed, "passed", CLI_EXIT_OK);
		else
			set(out, failed, "status", CLI_EXIT_TEST_FAILED);
		if (m->has_status)
			snprintf(out->text, sizeof(out->text),
				 "the guest's test ended with status %" PRIu32, m->status);
		else
			snprintf(out->text, sizeof(out->text),
				 "--status-line has matched, but what it has is no status, a "
				 "decimal number from 0 to %d: %s",
				 CLI_UNTIL_STATUS_MAX, line);
		break;
	}
}

/* It reboots then, or hangs until somebody looks. */
static void add_panic(const struct cli_end *e, struct cli_outcome *out)
{
	char then[sizeof(out->text)];

	if (!e->panicked || (e->reason != CLI_RUN_EXIT && e->reason != CLI_RUN_TIMEOUT))
		return;
	set(out, failed, "panic", CLI_EXIT_CRASH);
	memcpy(then, out->text, sizeof(then));
	snprintf(out->text, sizeof(out->text), "the guest's kernel panicked; then %.*s",
		 GS_ERROR_TEXT_MAX, then);
}

void cli_outcome_find(const struct cli_run_options *o, const struct cli_end *e,
		      struct cli_outcome *out)
{
	char text[CLI_TEXT_MAX];

	memset(out, 0, sizeof(*out));
	if (e->not_started) {
		set(out, error, "not-started", cli_exit_of(e->not_started->code));
		gs_escape_terminal(e->not_started->text, sizeof(e->not_started->text), out->text,
				   sizeof(out->text));
		return;
	}
	switch (e->reason) {
	case CLI_RUN_TIMEOUT:
		set(out, failed, "timeout", CLI_EXIT_TIMEOUT);
		snprintf(out->text, sizeof(out->text), "timeout after %s",
			 cli_format_duration(o->timeout_ns, text));
		break;
	case CLI_RUN_SIGNAL:
		set(out, error, "signal", CLI_EXIT_SIGNAL + e->signo);
		snprintf(out->text, sizeof(out->text), "ended by signal %d", e->signo);
		break;
	case CLI_RUN_UNTIL:
	case CLI_RUN_FAIL_ON:
	case CLI_RUN_STATUS_LINE: find_of_line(&e->match, out); break;
	case CLI_RUN_EXIT: find_of_guest(o, e, out); break;
	}
	add_panic(e, out);
}
