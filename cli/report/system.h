/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's kernel as a whole: panic, state, log. */
#ifndef CLI_REPORT_SYSTEM_H
#define CLI_REPORT_SYSTEM_H

#include <stdio.h>

#include "cli/report/capture_file.h"
#include "kcdata/json.h"

/** "PANIC on CPU 1: message", if it has. */
void rep_put_panic(const struct rep_capture *c, FILE *to);

/** Uptime, load, memory and taint, as far as they are known. */
void rep_put_system(const struct rep_capture *c, FILE *to);

/** The log, as dmesg shows it: a line of a message after another, each behind @p indent. */
void rep_put_log(const struct rep_capture *c, const char *indent, FILE *to);

/** Members "system" and "log". */
void rep_json_system(struct kcd_json *j, const struct rep_capture *c);
void rep_json_log(struct kcd_json *j, const struct rep_capture *c);

#endif
