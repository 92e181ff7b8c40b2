/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests of introspect/guest's QEMU sources, against a QEMU that is a thread of the test; with
 * arguments a tool for tests/e2e/live.
 */
#include <stdlib.h>

#include "tests/unit/qemu/suites.h"
#include "tests/unit/qemu/tool.h"

int main(int argc, char **argv)
{
	if (argc > 1)
		return tool_run(argc, argv);

	SRunner *sr = srunner_create(suite_text());

	srunner_add_suite(sr, suite_qmp());
	srunner_add_suite(sr, suite_source());
	srunner_add_suite(sr, suite_memory());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
