/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that take themselves, as asked for on the command lines of run and attach. */
#ifndef CLI_SCHEDULE_OPTIONS_H
#define CLI_SCHEDULE_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "cli/console_watch.h"
#include "control/schedules.h"

#define CLI_SCHEDULE_DIR "guestshot-captures"

struct cli_schedule_options {
	struct ctl_schedule_config schedule;	     /* dir: of argv, or the default */
	uint32_t triggers;			     /* bits 1 << enum ss_reason */
	const char *pattern[CLI_WATCH_PATTERNS_MAX]; /* of --trigger console=REGEX */
	uint32_t patterns;
	bool has_wish; /* one that needs --every or --trigger */
	bool has_dir;  /* else it is the default */
};

enum {
	CLI_KEY_EVERY = 0x400,
	CLI_KEY_JITTER,
	CLI_KEY_FULL_EVERY,
	CLI_KEY_KEEP,
	CLI_KEY_MAX_BYTES,
	CLI_KEY_MAX_STOPPED,
	CLI_KEY_DIR,
	CLI_KEY_TRIGGER,
};

/* clang-format off */
#define CLI_SCHEDULE_OPTIONS \
	{ NULL, 0, NULL, 0, "Captures that take themselves", 5 }, \
	{ "every", CLI_KEY_EVERY, "DURATION", 0, "Take a capture every so often: 10s, 500ms, 2m", 5 }, \
	{ "jitter", CLI_KEY_JITTER, "PERCENT", OPTION_ARG_OPTIONAL, "Let each be late by chance, by up to so much of the interval (default: 10)", 5 }, \
	{ "full-every", CLI_KEY_FULL_EVERY, "N", 0, "Every Nth is a full capture, others are deltas of it (default: all are full)", 5 }, \
	{ "keep", CLI_KEY_KEEP, "N", 0, "Keep so many, and so many of triggers (default: 1000)", 5 }, \
	{ "max-bytes", CLI_KEY_MAX_BYTES, "SIZE", 0, "Keep no more bytes of captures, with K, M or G", 5 }, \
	{ "max-stopped", CLI_KEY_MAX_STOPPED, "PERCENT", 0, "Stop the guest for no more of the time; else captures are fewer (default: 1%)", 5 }, \
	{ "dir", CLI_KEY_DIR, "DIR", 0, "Where to (default: " CLI_SCHEDULE_DIR ")", 5 }, \
	{ "trigger", CLI_KEY_TRIGGER, "TRIGGERS", 0, "Take a capture when one of these happens, divided by commas: panic, oops, hung-task[=DURATION], soft-lockup[=DURATION], timeout; console=REGEX, alone", 5 }
/* clang-format on */

/** Before parsing: the defaults. */
void cli_schedule_init(struct cli_schedule_options *o);

/** Take one of CLI_SCHEDULE_OPTIONS; ARGP_ERR_UNKNOWN for other keys. */
error_t cli_schedule_key(struct cli_schedule_options *o, int key, const char *arg,
			 struct argp_state *state);

/**
 * For ARGP_KEY_END: what goes with others only.
 *
 * @param has_console  triggers that read it are possible
 */
error_t cli_schedule_end(const struct cli_schedule_options *o, bool has_console,
			 struct argp_state *state);

/** Whether anything was asked for. */
bool cli_schedule_wanted(const struct cli_schedule_options *o);

/** Have a console watched for what was asked, and for panics and oopses. @return GS_OK: always, for what was parsed */
GS_MUST_USE enum gs_code cli_schedule_watch(const struct cli_schedule_options *o,
					    struct cli_console_watch *w, struct gs_error *err);

/** Begin the schedule that was asked for, if any. See ctl_schedules_add(). */
GS_MUST_USE enum gs_code cli_schedule_add(const struct cli_schedule_options *o,
					  struct ctl_schedules *all, struct gs_error *err);

#endif
