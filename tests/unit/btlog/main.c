/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of the backtrace library, its logs and books. */
#include <stdlib.h>

#include "tests/unit/btlog/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_library());
	srunner_add_suite(sr, suite_frames());
	srunner_add_suite(sr, suite_grace());
	srunner_add_suite(sr, suite_limit());
	srunner_add_suite(sr, suite_log());
	srunner_add_suite(sr, suite_read());
	srunner_add_suite(sr, suite_book());
	srunner_add_suite(sr, suite_merge());
	srunner_add_suite(sr, suite_faults());
	srunner_add_suite(sr, suite_model());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
