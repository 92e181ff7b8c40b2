/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of introspect/arm64. */
#include <stdlib.h>

#include "tests/unit/arm64/suites.h"

int main(void)
{
	SRunner *sr = srunner_create(suite_regime());

	srunner_add_suite(sr, suite_walk());
	srunner_add_suite(sr, suite_mapping());
	srunner_add_suite(sr, suite_read());
	srunner_add_suite(sr, suite_reference());
	srunner_add_suite(sr, suite_insn());
	srunner_add_suite(sr, suite_tables());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
