/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_GUEST_SUITES_H
#define TESTS_UNIT_GUEST_SUITES_H

#include <check.h>

Suite *suite_elf(void);
Suite *suite_elf_damaged(void);
Suite *suite_file(void);
Suite *suite_kdump(void);
Suite *suite_page_cache(void);
Suite *suite_write(void);

#endif
