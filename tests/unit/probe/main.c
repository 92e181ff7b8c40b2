/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of probes: programs, sessions, buffers, aggregations, firing. */
#include <stdlib.h>

#include "tests/unit/probe/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_program());
	srunner_add_suite(sr, suite_session());
	srunner_add_suite(sr, suite_records());
	srunner_add_suite(sr, suite_kernel());
	srunner_add_suite(sr, suite_fbt());
	srunner_add_suite(sr, suite_threads());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
