/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_REPORT_SUITES_H
#define TESTS_UNIT_REPORT_SUITES_H

#include <check.h>

Suite *suite_read(void);
Suite *suite_reason(void);
Suite *suite_text(void);
Suite *suite_json(void);
Suite *suite_delta(void);
Suite *suite_diff(void);
Suite *suite_modules(void);
Suite *suite_waits(void);
Suite *suite_filter(void);
Suite *suite_summary(void);
Suite *suite_doubt(void);
Suite *suite_system(void);
Suite *suite_linux_context(void);
Suite *suite_live(void);

#endif
