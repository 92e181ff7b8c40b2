/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_CLI_SUITES_H
#define TESTS_UNIT_CLI_SUITES_H

#include <check.h>

Suite *suite_values(void);
Suite *suite_until(void);
Suite *suite_keys(void);
Suite *suite_run_options(void);
Suite *suite_snap_options(void);
Suite *suite_schedule_options(void);
Suite *suite_console_watch(void);
Suite *suite_outcome(void);
Suite *suite_artifacts(void);
Suite *suite_junit(void);
Suite *suite_trace_view(void);
Suite *suite_book_view(void);

#endif
