/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel as a whole, in both views: panic first, state, log. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/system.h"
#include "introspect/stackshot/stackshot.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

static char *text;

static void set(uint64_t offset, uint64_t value)
{
	memcpy(lg_image(&guest, offset), &value, sizeof(value));
}

static void setup(void)
{
	sample_setup();
	lg_log_create(&guest);
	lg_log_add(&guest, 1500000, 6, "first\n and more");
	lg_log_add(&guest, UINT64_C(12000345678), 3, "evil \x1b[2J\ttab");
	set(LG_TAINT, 1 << 12 | 1 << 9);
	set(LG_LOAD, LNX_LOAD_ONE / 4);
	set(LG_LOAD + 8, 12 * LNX_LOAD_ONE);
	set(LG_TOTAL_PAGES, 262144);
	((struct lg_rq *)(void *)(guest.cpu[0].bytes + LG_PERCPU_RUNQUEUES))->clock =
		UINT64_C(93784) * 1000000000;
	sample_flags = SS_KERNEL_LOG;
}

static void teardown(void)
{
	sample_flags = 0;
	free(text);
	text = NULL;
	sample_teardown();
}

static void take(void)
{
	sample_take();
	sample_load();
	free(text);
	text = sample_text(false);
}

static void has(const char *line)
{
	sample_has(text, line);
}

static void has_not(const char *line)
{
	ck_assert_msg(!strstr(text, line), "\"%s\" in:\n%s", line, text);
}

static void panic(void)
{
	set(LG_PANIC_CPU, 1);
	lg_log_add(&guest, UINT64_C(13000000000), 0, "Kernel panic - not syncing: the end");
}

START_TEST(text_has_state_and_log)
{
	take();
	has("\nup 1 day, 2:03:04; load 0.25 12.00 0.00; memory 1 GiB, 0 bytes free, 0 bytes of "
	    "files; tainted 4608 (W: warning, O: out-of-tree module)\n");
	has("\nlog\n  [    0.001500] first\n                  and more\n  [   12.000345] evil "
	    "\\x1b[2J\ttab\n");
	has_not("PANIC");
	sample_show_all();
}
END_TEST

START_TEST(panic_comes_first)
{
	panic();
	take();
	ck_assert_msg(!strncmp(text, "PANIC on CPU 1: the end\nCapture of", 34), "%s", text);
	guest.log.ring->count_bits = 0;
	take();
	ck_assert_msg(!strncmp(text, "PANIC on CPU 1: the log does not tell its message\n", 50),
		      "%s", text);
}
END_TEST

START_TEST(messages_that_are_gone_are_counted)
{
	for (uint64_t i = 0; i < 5; i++)
		lg_log_add(&guest, UINT64_C(20000000000) + i, 6, "more");
	for (uint64_t i = 0; i < 3; i++) // all but the newest and the oldest of the five
		guest.log.desc[(guest.log.ring->head_id - 1 - i) % (1 << LG_LOG_COUNT)].state_var =
			0;
	take();
	has("\n  [   20.000000] more\n  (3 messages are not there)\n  [   20.000000] more\n");
}
END_TEST

START_TEST(text_without_them_has_no_line)
{
	sample_flags = 0;
	take();
	has_not("log");
	capture.system.known = 0;
	free(text);
	text = sample_text(false);
	has_not("load");
	capture.has_system = false;
	free(text);
	text = sample_text(false);
	has_not("load");
}
END_TEST

static void take_json(void)
{
	sample_take();
	sample_load();
	free(text);
	text = sample_json_compact();
}

START_TEST(document_has_state_and_log)
{
	take_json();
	has("\"panic\":null,\"uptime_ns\":93784000000000,\"load\":[\"0.25\",\"12.00\",\"0.00\"]");
	has("\"total_pages\":262144,\"free_pages\":0,\"file_pages\":0");
	has("\"taint\":{\"value\":4608,\"flags\":[\"W\",\"O\"]}");
	has("\"log\":[{\"seq\":0,\"time_ns\":1500000,\"level\":6,\"facility\":3,\"tid\":77,"
	    "\"text\":\"first\\n and more\"},");
	panic();
	take_json();
	has("\"panic\":{\"cpu\":1,\"message\":\"the end\"}");
}
END_TEST

START_TEST(document_puts_long_messages_together)
{
	char message[300];

	memset(message, 'x', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	lg_log_add(&guest, 1, 6, message);
	take_json();
	has(message);
	guest.log.info[guest.log.ring->head_id % (1 << LG_LOG_COUNT)].caller_id = 0x80000003;
	take_json();
	has("\"cpu\":3,\"text\":\"xxx");
}
END_TEST

Suite *suite_system(void)
{
	Suite *s = suite_create("system");
	TCase *tc = tcase_create("system");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, text_has_state_and_log);
	tcase_add_test(tc, panic_comes_first);
	tcase_add_test(tc, messages_that_are_gone_are_counted);
	tcase_add_test(tc, text_without_them_has_no_line);
	tcase_add_test(tc, document_has_state_and_log);
	tcase_add_test(tc, document_puts_long_messages_together);
	suite_add_tcase(s, tc);
	return s;
}
