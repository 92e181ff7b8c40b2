/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of introspect/linux. */
#include <stdlib.h>

#include "tests/unit/linux/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_kallsyms());

	srunner_add_suite(sr, suite_types());
	srunner_add_suite(sr, suite_find());
	srunner_add_suite(sr, suite_search());
	srunner_add_suite(sr, suite_place());
	srunner_add_suite(sr, suite_several());
	srunner_add_suite(sr, suite_image());
	srunner_add_suite(sr, suite_reference());
	srunner_add_suite(sr, suite_profile());
	srunner_add_suite(sr, suite_bad_profile());
	srunner_add_suite(sr, suite_profile_make());
	srunner_add_suite(sr, suite_profile_choose());
	srunner_add_suite(sr, suite_profile_dwarf());
	srunner_add_suite(sr, suite_list());
	srunner_add_suite(sr, suite_ahead());
	srunner_add_suite(sr, suite_task());
	srunner_add_suite(sr, suite_memory());
	srunner_add_suite(sr, suite_unwind());
	srunner_add_suite(sr, suite_code());
	srunner_add_suite(sr, suite_firmware());
	srunner_add_suite(sr, suite_functions());
	srunner_add_suite(sr, suite_bpf());
	srunner_add_suite(sr, suite_wait_block());
	srunner_add_suite(sr, suite_module());
	srunner_add_suite(sr, suite_waits());
	srunner_add_suite(sr, suite_user());
	srunner_add_suite(sr, suite_vma());
	srunner_add_suite(sr, suite_build_id());
	srunner_add_suite(sr, suite_wait_kinds());
	srunner_add_suite(sr, suite_log());
	srunner_add_suite(sr, suite_system());
	srunner_add_suite(sr, suite_context());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
