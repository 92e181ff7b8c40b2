/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_CONTROL_SUITES_H
#define TESTS_UNIT_CONTROL_SUITES_H

#include <check.h>

Suite *suite_protocol(void);
Suite *suite_socket(void);
Suite *suite_server(void);
Suite *suite_saved(void);
Suite *suite_client(void);
Suite *suite_file(void);
Suite *suite_pace(void);
Suite *suite_store(void);
Suite *suite_watch(void);
Suite *suite_schedules(void);
Suite *suite_trace(void);
Suite *suite_trace_states(void);

#endif
