/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of introspect/guest's QEMU sources, against a QEMU that is a thread of the test. */
#include <stdlib.h>

#include "tests/unit/qemu/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_text());

	srunner_add_suite(sr, suite_qmp());
	srunner_add_suite(sr, suite_source());
	srunner_add_suite(sr, suite_memory());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
