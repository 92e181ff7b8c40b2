/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of kcdata. */
#include <stdlib.h>

#include "tests/unit/kcdata/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_writer());

	srunner_add_suite(sr, suite_chain());
	srunner_add_suite(sr, suite_reader());
	srunner_add_suite(sr, suite_schema());
	srunner_add_suite(sr, suite_json());
	srunner_add_suite(sr, suite_compress());
	srunner_add_suite(sr, suite_view());
	srunner_add_suite(sr, suite_validate());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
