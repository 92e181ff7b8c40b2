/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_STACKSHOT_SUITES_H
#define TESTS_UNIT_STACKSHOT_SUITES_H

#include <check.h>

Suite *suite_request(void);
Suite *suite_saved(void);
Suite *suite_capture(void);
Suite *suite_incomplete(void);
Suite *suite_room(void);
Suite *suite_faults(void);
Suite *suite_context(void);
Suite *suite_storage(void);
Suite *suite_parallel(void);
Suite *suite_clusters(void);
Suite *suite_stopped(void);
Suite *suite_inject(void);
Suite *suite_panic(void);
Suite *suite_delta(void);
Suite *suite_accounting(void);
Suite *suite_memory(void);
Suite *suite_modules(void);
Suite *suite_waits(void);
Suite *suite_user(void);
Suite *suite_system(void);
Suite *suite_linux_context(void);

#endif
