/* SPDX-License-Identifier: Apache-2.0 */
/* What threads wait for: lines, JSON, and who waits for whom. Private. */
#ifndef CLI_REPORT_WAITS_H
#define CLI_REPORT_WAITS_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/capture_file.h"
#include "kcdata/json.h"

/** Find the owners among the threads, and the functions' names. @return false: out of memory */
bool rep_waits_resolve(struct rep_capture *c);

/** A line for each thing that a thread waits for. */
void rep_put_waits(const struct rep_capture *c, const struct rep_thread *t, const char *indent,
		   FILE *to);

/**
 * Who waits for whom: deadlocks, then each thread that holds something with those that wait for it,
 * then how many wait for what has no owner.
 *
 * @return false: @p to refused bytes, or out of memory
 */
bool rep_waits(const struct rep_capture *c, FILE *to);

/**
 * The deadlocks alone: "Deadlock:", a line for each of its threads, an empty line.
 *
 * @return false: out of memory
 */
bool rep_put_deadlocks(const struct rep_capture *c, FILE *to);

/** The member "waits" of a thread, if that was looked at. */
void rep_json_waits(struct kcd_json *j, const struct rep_capture *c, const struct rep_thread *t);

/** The member "deadlocks" of the document, if that was looked at. @return false: out of memory */
bool rep_json_deadlocks(struct kcd_json *j, const struct rep_capture *c);

#endif
