/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a capture. */
#ifndef CLI_REPORT_REPORT_H
#define CLI_REPORT_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/report/capture_file.h"

/* Raised only for changes that break a reader; docs/json.md describes each version. */
#define REP_JSON_SCHEMA_VERSION 1

/**
 * Text for people: what was captured, what is missing, the vCPUs, then each process and thread.
 *
 * @param group  threads with the same stack and state are shown once, with their number and names
 * @return false: @p to refused bytes
 */
bool rep_text(const struct rep_capture *c, bool group, FILE *to);

/** The JSON document of docs/json.md. @return false: @p to refused bytes */
bool rep_json(const struct rep_capture *c, FILE *to);

#endif
