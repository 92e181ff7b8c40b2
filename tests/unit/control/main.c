/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of control, and of the file writing that it uses. */
#include <signal.h>
#include <stdlib.h>

#include "tests/unit/control/suites.h"

int main(void)
{
	signal(SIGXFSZ, SIG_IGN); /* as guestshot has it */

	SRunner *sr = srunner_create(suite_protocol());
	srunner_add_suite(sr, suite_file());
	srunner_add_suite(sr, suite_socket());
	srunner_add_suite(sr, suite_server());
	srunner_add_suite(sr, suite_saved());
	srunner_add_suite(sr, suite_client());
	srunner_add_suite(sr, suite_pace());
	srunner_add_suite(sr, suite_store());
	srunner_add_suite(sr, suite_watch());
	srunner_add_suite(sr, suite_schedules());
	srunner_add_suite(sr, suite_trace());
	srunner_add_suite(sr, suite_trace_states());
	srunner_run_all(sr, CK_ENV);

	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
