/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file. */
#ifndef TESTS_UNIT_LINUX_SUITES_H
#define TESTS_UNIT_LINUX_SUITES_H

#include <check.h>

Suite *suite_kallsyms(void);
Suite *suite_types(void);
Suite *suite_find(void);
Suite *suite_search(void);
Suite *suite_place(void);
Suite *suite_several(void);
Suite *suite_image(void);
Suite *suite_reference(void);
Suite *suite_profile(void);
Suite *suite_bad_profile(void);
Suite *suite_profile_make(void);
Suite *suite_profile_choose(void);
Suite *suite_profile_dwarf(void);
Suite *suite_list(void);
Suite *suite_ahead(void);
Suite *suite_task(void);
Suite *suite_memory(void);
Suite *suite_unwind(void);
Suite *suite_code(void);
Suite *suite_firmware(void);
Suite *suite_functions(void);
Suite *suite_bpf(void);
Suite *suite_wait_block(void);
Suite *suite_module(void);
Suite *suite_waits(void);
Suite *suite_user(void);
Suite *suite_vma(void);
Suite *suite_build_id(void);
Suite *suite_wait_kinds(void);
Suite *suite_log(void);
Suite *suite_system(void);
Suite *suite_context(void);

#endif
