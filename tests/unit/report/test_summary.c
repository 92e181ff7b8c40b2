/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ended, and what the guest was doing. */
#include "cli/report/summary.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define SECOND UINT64_C(1000000000)

enum { SLEEPY, TAR, TAR_2, SYNC, DISK, IDLE, READY, KINDS };

static struct lg_thread *t[KINDS];
static char *text;

/* Threads 300 to 306; the clock of the newest CPU is at 200 s. */
static void setup(void)
{
	static const struct {
		const char *comm, *function;
		uint32_t state, cpu, flags;
		uint64_t ran; /* seconds */
	} is[KINDS] = {
		[SLEEPY] = { "sleepy", "pipe_read", 1, 0, 0, 10 },
		[TAR] = { "tar", "futex_wait", 2, 0, 0, 150 },
		[TAR_2] = { "tar", "futex_wait", 2, 1, 0, 120 },
		[SYNC] = { "sync", "pipe_read", 2, 1, 0, 130 },
		[DISK] = { "kdisk", "vfs_read", 2, 1, LNX_PF_KTHREAD, 190 },
		[IDLE] = { "kidle", "vfs_read", 1, 1, LNX_PF_KTHREAD, 20 },
		[READY] = { "ready", "vfs_read", 0, 0, 0, 200 },
	};

	sample_flags = KCD_SS_REQ_THREAD_WAITINFO;
	sample_setup();
	for (int i = 0; i < KINDS; i++) {
		t[i] = lg_add_process(&guest, 300 + i, is[i].comm);
		lg_sleep(&guest, t[i], is[i].function);
		t[i]->task->state = is[i].state;
		t[i]->task->thread_cpu = is[i].cpu;
		t[i]->task->flags |= is[i].flags;
		t[i]->task->exec_start = is[i].ran * SECOND;
	}
	guest.threads[4].task->state = 1; // of lg_populate(): none but ours are in state D
}

static void teardown(void)
{
	free(text);
	text = NULL;
	sample_teardown();
}

static void show(void)
{
	sample_take();
	sample_load();
	sample_show_all();
	free(text);
	text = sample_summary();
}

/* Parts stand in the text, in this order. */
static void in_order(size_t count, const char *const part[])
{
	const char *at = text;

	for (size_t i = 0; i < count; i++) {
		at = strstr(at, part[i]);
		ck_assert_msg(at, "no \"%s\" (%zu) in its place in:\n%s", part[i], i, text);
		at += strlen(part[i]);
	}
}

START_TEST(longest_blocked_come_first)
{
	show();
	in_order(6, (const char *const[]){
			    "FAILED: timeout\n  test: test\n",
			    "\nLongest blocked: thread 302 tar: D (disk sleep) in futex_wait, not "
			    "executed for some 80.00 s\n",
			    "\n2 threads, D (disk sleep) in futex_wait, not executed for some "
			    "80.00 s: 301 tar, 302 tar\n    ",
			    "\n1 thread, D (disk sleep) in pipe_read, not executed for some "
			    "70.00 s: 303 sync\n",
			    "\n1 thread, D (disk sleep) in vfs_read, not executed for some "
			    "10.00 s: 304 kdisk\n",
			    "\n1 thread, S (sleeping) in pipe_read, not executed for some "
			    "190.00 s: 300 sleepy\n" });
	// what is executed, or wants to be, is between them
	ck_assert(strstr(text, "304 kdisk") < strstr(text, "306 ready"));
	ck_assert(strstr(text, "306 ready") < strstr(text, "300 sleepy"));
}
END_TEST

START_TEST(idle_kernel_threads_are_left_out)
{
	show();
	// kthreadd of lg_populate() is another one; that in state D is none
	sample_has(text, "\n2 idle kernel threads are left out\n");
	ck_assert_ptr_null(strstr(text, "kidle"));
	ck_assert_ptr_null(strstr(text, "kthreadd"));
	// one that waits for somebody is not idle
	lg_mutex_wait(&guest, lg_mutex_make(&guest, t[TAR]->address | 1), t[IDLE]);
	show();
	sample_has(text, "\n1 idle kernel thread is left out\n");
	sample_has(text, "305 kidle\n    waits for mutex");
}
END_TEST

START_TEST(deadlocks_come_first)
{
	const uint64_t a = lg_mutex_make(&guest, t[SLEEPY]->address | 1);
	const uint64_t b = lg_mutex_make(&guest, t[SYNC]->address | 1);

	lg_mutex_wait(&guest, b, t[SLEEPY]);
	lg_mutex_wait(&guest, a, t[SYNC]);
	show();
	in_order(4,
		 (const char *const[]){ "\nDeadlock:\n  thread 300 sleepy waits for mutex 0x",
					" held by 303 sync\n  thread 303 sync waits for mutex 0x",
					" held by 300 sleepy\n", "\nLongest blocked: " });
}
END_TEST

START_TEST(document_has_the_same)
{
	struct rep_summary s = {
		.name = "a", .result = "failed", .type = "timeout", .text = "", .capture = &capture
	};
	char *json = NULL;
	size_t size;

	show();
	FILE *f = open_memstream(&json, &size);
	ck_assert(f && rep_summary_json(&s, f));
	fclose(f);
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
	const json_t *c = json_object_get(root, "capture");
	const json_t *g = json_array_get(json_object_get(c, "groups"), 0);
	ck_assert_str_eq(json_string_value(json_object_get(g, "state")), "D");
	ck_assert_str_eq(json_string_value(json_object_get(g, "function")), "futex_wait");
	ck_assert_int_eq(json_integer_value(json_object_get(g, "not_executed_ns")), 80 * SECOND);
	ck_assert_uint_eq(json_array_size(json_object_get(g, "threads")), 2);
	ck_assert_int_eq(json_integer_value(json_object_get(c, "idle_kernel_threads")), 2);
	ck_assert(json_is_array(json_object_get(c, "deadlocks")));
	ck_assert(json_is_null(json_object_get(c, "file")));
	json_decref(root);
	free(json);
}
END_TEST

START_TEST(what_passed_is_told_shortly)
{
	struct rep_summary s = {
		.name = "a\x1b",
		.result = "passed",
		.type = "passed",
		.text = "good",
		.passed = true,
		.capture = &capture,
	};
	size_t size;

	show();
	free(text);
	FILE *f = open_memstream(&text, &size);
	ck_assert(f && rep_summary_text(&s, f));
	fclose(f);
	ck_assert_str_eq(text,
			 "PASSED: good\n  test: a\\x1b\n  took: 0 us\n  exit code: 0 (passed)\n");
}
END_TEST

START_TEST(all_that_is_known_is_told)
{
	struct ss_console_record lines[2] = { { "one" }, { "tw\x1bo" } };
	struct rep_summary s = {
		.name = "a",
		.result = "failed",
		.type = "panic",
		.text = "bad",
		.line = "l",
		.panic = "Kernel panic - not syncing: \xff",
		.report = "registers\n",
		.exit_code = 4,
		.took_ns = 2 * SECOND,
		.console = lines,
		.console_lines = 2,
	};
	size_t size;
	FILE *f = open_memstream(&text, &size);

	ck_assert(f && rep_summary_text(&s, f));
	fclose(f);
	ck_assert_str_eq(text,
			 "FAILED: bad\n  test: a\n  took: 2.00 s\n  exit code: 4 (panic)\n"
			 "  panic: Kernel panic - not syncing: \\xff\n  line: l\nregisters\n\n"
			 "The console's last lines:\n  one\n  tw\\x1bo\n");
	f = fopen("/dev/full", "w");
	ck_assert(f && !rep_summary_text(&s, f) && !rep_summary_json(&s, f));
	fclose(f);
}
END_TEST

START_TEST(capture_of_registers_only_is_told)
{
	struct rep_summary s = { .name = "", .result = "failed", .type = "", .text = "" };
	static struct rep_capture empty;
	size_t size;

	s.capture = &empty;
	FILE *f = open_memstream(&text, &size);
	ck_assert(f && rep_summary_text(&s, f) && rep_summary_json(&s, f));
	ck_assert(!rep_put_stuck(&empty, f));
	fclose(f);
	sample_has(text, ": 0 processes, 0 threads\n");
}
END_TEST

Suite *suite_summary(void)
{
	Suite *s = suite_create("summary");
	TCase *tc = tcase_create("summary");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, longest_blocked_come_first);
	tcase_add_test(tc, idle_kernel_threads_are_left_out);
	tcase_add_test(tc, deadlocks_come_first);
	tcase_add_test(tc, document_has_the_same);
	tcase_add_test(tc, what_passed_is_told_shortly);
	tcase_add_test(tc, all_that_is_known_is_told);
	tcase_add_test(tc, capture_of_registers_only_is_told);
	suite_add_tcase(s, tc);
	return s;
}
