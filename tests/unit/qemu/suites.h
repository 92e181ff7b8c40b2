/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_QEMU_SUITES_H
#define TESTS_UNIT_QEMU_SUITES_H

#include <check.h>

Suite *suite_text(void);
Suite *suite_qmp(void);
Suite *suite_source(void);
Suite *suite_memory(void);

#endif
