/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the vmm room: the parts that need no KVM. */
#include "tests/unit/vmm/vmm_tests.h"

#include <stdlib.h>

int main(void)
{
	Suite *s = suite_create("vmm");

	suite_add_tcase(s, boot_case());
	suite_add_tcase(s, breaks_case());
	suite_add_tcase(s, console_case());
	suite_add_tcase(s, execute_case());
	suite_add_tcase(s, fdt_case());
	suite_add_tcase(s, memory_case());
	suite_add_tcase(s, pl011_case());
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
