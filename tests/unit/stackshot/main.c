/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of introspect/stackshot. */
#include <stdlib.h>

#include "tests/unit/stackshot/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_request());

	srunner_add_suite(sr, suite_capture());
	srunner_add_suite(sr, suite_incomplete());
	srunner_add_suite(sr, suite_room());
	srunner_add_suite(sr, suite_context());
	srunner_add_suite(sr, suite_storage());
	srunner_add_suite(sr, suite_parallel());
	srunner_add_suite(sr, suite_clusters());
	srunner_add_suite(sr, suite_stopped());
	srunner_add_suite(sr, suite_panic());
	srunner_add_suite(sr, suite_delta());
	srunner_add_suite(sr, suite_accounting());
	srunner_add_suite(sr, suite_memory());
	srunner_add_suite(sr, suite_modules());
	srunner_add_suite(sr, suite_waits());
	srunner_add_suite(sr, suite_user());
	srunner_add_suite(sr, suite_system());
	srunner_add_suite(sr, suite_linux_context());
	srunner_add_suite(sr, suite_inject());
	srunner_add_suite(sr, suite_faults());
	srunner_add_suite(sr, suite_saved());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
