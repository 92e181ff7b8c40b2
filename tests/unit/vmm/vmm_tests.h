/* SPDX-License-Identifier: Apache-2.0 */
/* The test cases of the vmm room, one a file. */
#ifndef TESTS_UNIT_VMM_VMM_TESTS_H
#define TESTS_UNIT_VMM_VMM_TESTS_H

#include <check.h>

TCase *boot_case(void);
TCase *breaks_case(void);
TCase *console_case(void);
TCase *execute_case(void);
TCase *fdt_case(void);
TCase *memory_case(void);
TCase *pl011_case(void);

#endif
