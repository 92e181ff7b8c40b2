/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of introspect/guest; with arguments a tool for tests/e2e/dumps. */
#include <stdlib.h>

#include "tests/unit/guest/suites.h"
#include "tests/unit/guest/tool.h"

int main(int argc, char **argv)
{
	if (argc > 1)
		return tool_run(argc, argv);

	SRunner *sr = srunner_create(suite_elf());

	srunner_add_suite(sr, suite_elf_damaged());
	srunner_add_suite(sr, suite_file());
	srunner_add_suite(sr, suite_kdump());
	srunner_add_suite(sr, suite_page_cache());
	srunner_add_suite(sr, suite_write());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
