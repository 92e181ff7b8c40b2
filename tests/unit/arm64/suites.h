/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_ARM64_SUITES_H
#define TESTS_UNIT_ARM64_SUITES_H

#include <check.h>

Suite *suite_regime(void);
Suite *suite_walk(void);
Suite *suite_mapping(void);
Suite *suite_read(void);
Suite *suite_reference(void);
Suite *suite_insn(void);
Suite *suite_tables(void);

#endif
