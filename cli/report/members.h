/* SPDX-License-Identifier: Apache-2.0 */
/* Members of JSON documents that the views for programs share: docs/json.md. Private. */
#ifndef CLI_REPORT_MEMBERS_H
#define CLI_REPORT_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/report/capture_file.h"
#include "kcdata/json.h"

/** Sink of a document that goes to the FILE @p arg. */
bool rep_json_sink(void *arg, const void *data, size_t len);

/** The members complete, missing, taken and usecs_since_epoch. */
void rep_json_taken(struct kcd_json *j, const struct rep_capture *c);

/** A thread as a value. */
void rep_json_thread(struct kcd_json *j, const struct rep_capture *c, const struct rep_thread *t);

#endif
