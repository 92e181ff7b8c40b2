/* SPDX-License-Identifier: Apache-2.0 */
/* Test cases of this program. */
#ifndef TESTS_UNIT_BTLOGS_SUITES_H
#define TESTS_UNIT_BTLOGS_SUITES_H

#include <check.h>

TCase *tcase_code(void);

#endif
