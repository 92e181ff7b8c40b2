/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of cli/report. */
#include <stdlib.h>

#include "tests/unit/report/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_read());

	srunner_add_suite(sr, suite_reason());
	srunner_add_suite(sr, suite_text());
	srunner_add_suite(sr, suite_json());
	srunner_add_suite(sr, suite_delta());
	srunner_add_suite(sr, suite_diff());
	srunner_add_suite(sr, suite_modules());
	srunner_add_suite(sr, suite_waits());
	srunner_add_suite(sr, suite_filter());
	srunner_add_suite(sr, suite_summary());
	srunner_add_suite(sr, suite_doubt());
	srunner_add_suite(sr, suite_system());
	srunner_add_suite(sr, suite_linux_context());
	srunner_add_suite(sr, suite_live());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
