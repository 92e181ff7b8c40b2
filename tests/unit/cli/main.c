/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of cli. */
#include <stdlib.h>

#include "tests/unit/cli/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_values());

	srunner_add_suite(sr, suite_until());
	srunner_add_suite(sr, suite_keys());
	srunner_add_suite(sr, suite_run_options());
	srunner_add_suite(sr, suite_snap_options());
	srunner_add_suite(sr, suite_schedule_options());
	srunner_add_suite(sr, suite_console_watch());
	srunner_add_suite(sr, suite_outcome());
	srunner_add_suite(sr, suite_artifacts());
	srunner_add_suite(sr, suite_junit());
	srunner_add_suite(sr, suite_trace_view());
	srunner_add_suite(sr, suite_book_view());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
