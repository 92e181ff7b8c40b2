/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that keeps what a run has left: console, captures, how it went. */
#ifndef CLI_ARTIFACTS_H
#define CLI_ARTIFACTS_H

/*
 *	console.log	what the guest said, as it says it
 *	captures/	of triggers, schedules and of the end (docs/schedules.md)
 *	summary.txt, summary.json, junit.xml	when it has ended, each whole or not at all
 *
 * What a run before has left under these names is removed when the next one begins, so that nobody takes an
 * old result for that of a run that was killed. The first thing that cannot be written is said, once.
 *
 * Threads: cli_artifacts_console() one, beside the others; they come one after another.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CLI_ARTIFACTS_CONSOLE "console.log"
#define CLI_ARTIFACTS_TEXT    "summary.txt"
#define CLI_ARTIFACTS_JSON    "summary.json"
#define CLI_ARTIFACTS_JUNIT   "junit.xml"

struct cli_artifacts {
	const char *path; /* of the folder; borrowed; NULL: there is none */
	int folder;	  /* locked; -1: not open */
	int console;	  /* -1: not open */
	uint64_t lost; /* bytes of the console since something was written; the console thread's */
	atomic_bool said; /* that something cannot be written */
};

#define CLI_ARTIFACTS_NONE                  \
	{                                   \
		.folder = -1, .console = -1 \
	}

/**
 * Make the folder if its own one is there, and lock it.
 *
 * @return GS_OK; GS_EBUSY: another run has it; GS_ENOENT, GS_EDENIED, …: of the folder
 */
GS_MUST_USE enum gs_code cli_artifacts_open(struct cli_artifacts *a, const char *path,
					    struct gs_error *err);

/** Remove what a run before has left, and begin with the console. Errors as of files. */
GS_MUST_USE enum gs_code cli_artifacts_begin(struct cli_artifacts *a, struct gs_error *err);

/** Write what the guest says. What finds no room is counted, and told in its place later. */
void cli_artifacts_console(struct cli_artifacts *a, const char *bytes, size_t len);

/** Write a file of the folder. @return whether it is there */
bool cli_artifacts_put(struct cli_artifacts *a, const char *name, const void *data, size_t len);

/** The same of a file that is elsewhere. */
bool cli_artifacts_write(struct cli_artifacts *a, const char *path, const void *data, size_t len);

/** Close all; after the console. @return whether nothing was lost. Safe on what was not opened. */
bool cli_artifacts_close(struct cli_artifacts *a);

/** Remove a result of an earlier run, if there is one. @return GS_OK; GS_EINVAL: that is no regular file */
GS_MUST_USE enum gs_code cli_artifacts_remove_old(const char *path, struct gs_error *err);

/**
 * The file of a capture, by the index of a folder of captures.
 *
 * @param time_ns  when the guest had stopped, as the capture says it
 * @return its path, to be freed with free(); NULL: it is not listed
 */
char *cli_artifacts_find_capture(const char *dir, uint64_t time_ns);

#endif
