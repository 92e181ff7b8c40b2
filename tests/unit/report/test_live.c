/* SPDX-License-Identifier: Apache-2.0 */
/* The view of a guest that is captured again and again. */
#include "cli/report/live.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define SECOND UINT64_C(1000000000)

static struct ctl_pace pace;
static struct rep_live live;
static struct rep_live_view view;
static char *text; /* all lines of the view */

static void setup(void)
{
	sample_flags = KCD_SS_REQ_THREAD_WAITINFO;
	sample_setup();
	pace = (struct ctl_pace){ .every_ns = 2 * SECOND,
				  .max_stopped = 10000,
				  .slot_ns = 14 * SECOND,
				  .paid_ns = 13 * SECOND,
				  .taken = 3,
				  .stopped_ns = SECOND / 100,
				  .began_ns = 12 * SECOND };
	live = (struct rep_live){ .capture = &capture,
				  .state = "running",
				  .pace = &pace,
				  .watched_ns = 4 * SECOND,
				  .last_stopped_ns = SECOND / 200,
				  .top = 10 };
}

static void teardown(void)
{
	free(text);
	text = NULL;
	rep_live_view_deinit(&view);
	sample_teardown();
}

static void make(uint32_t width, uint32_t height, size_t first)
{
	size_t size = 0;

	rep_live_view_deinit(&view);
	ck_assert(rep_live_view(&live, width, height, first, &view));
	free(text);
	FILE *f = open_memstream(&text, &size);
	ck_assert_ptr_nonnull(f);
	for (size_t i = 0; i < view.count; i++) {
		for (const char *c = view.line[i]; *c; c++)
			ck_assert_msg(*c >= ' ' && *c <= '~', "byte %#x", *c & 0xff);
		fprintf(f, "%s\n", view.line[i]);
	}
	ck_assert_int_eq(fclose(f), 0);
}

static void take(void)
{
	sample_take();
	sample_load();
	make(0, 0, 0);
}

static void has(const char *part)
{
	sample_has(text, part);
}

static void has_not(const char *part)
{
	ck_assert_msg(!strstr(text, part), "\"%s\" in:\n%s", part, text);
}

static void in_order(const char *a, const char *b)
{
	has(a);
	has(b);
	ck_assert_msg(strstr(text, a) < strstr(text, b), "\"%s\" is not before \"%s\" in:\n%s", a,
		      b, text);
}

static struct lg_thread *add(int32_t pid, const char *comm, uint32_t state)
{
	struct lg_thread *t = lg_add_process(&guest, pid, comm);

	lg_sleep(&guest, t, "pipe_read");
	t->task->state = state;
	return t;
}

/* Last ran on a CPU that no other thread was on, so long after its boot. */
static void ran(struct lg_thread *t, uint64_t ns)
{
	t->task->thread_cpu = 5;
	t->task->exec_start = ns;
}

START_TEST(head_says_how_the_guest_is)
{
	take();
	has("Guest running: memory, 2 vCPUs, ");
	has(", Linux 6.1.0-made-up\n");
	has("UTC: guest stopped for 5.00 ms\n");
	has("\nStopped for 10.00 ms of 4.00 s by 3 captures: 0.25%, at most 1% when the next "
	    "comes; "
	    "one every 2.00 s\n");
	has_not("complete");
	live.state = NULL;
	live.machine_up_ns = 5 * SECOND;
	make(0, 0, 0);
	has("Guest in a state that is not known, its machine up 5.00 s: ");
}
END_TEST

START_TEST(threads_are_counted_by_state)
{
	take();
	has("\n6 threads in 4 processes: 1 running, 0 runnable, 2 sleeping, 1 uninterruptible, "
	    "0 stopped, 1 zombie, 1 idle\n");
	(void)add(300, "runnable", 0);
	(void)add(301, "stopped", 4);
	(void)add(302, "traced", 8);
	(void)add(303, "parked", 0x40);
	take();
	has("\n10 threads in 8 processes: 1 running, 1 runnable, 2 sleeping, 1 uninterruptible, "
	    "2 stopped, 1 zombie, 1 idle, 1 in another state\n");
}
END_TEST

START_TEST(uninterruptible_ones_are_the_first_of_the_blocked)
{
	struct lg_thread *long_s = add(300, "long_s", 1), *short_d = add(301, "short_d", 2),
			 *long_d = add(302, "long_d", 2), *last = add(303, "last", 1);
	struct lg_thread *kernel = add(304, "kernel", 1);

	ran(long_s, SECOND);
	ran(long_d, 10 * SECOND);
	ran(short_d, 50 * SECOND);
	ran(last, 100 * SECOND);
	ran(kernel, 2 * SECOND);
	kernel->task->flags |= LNX_PF_KTHREAD;
	take();
	in_order("\nLongest blocked:\n", "\n  thread 302 long_d: D (disk sleep) in pipe_read, for "
					 "at least 90.00 s\n");
	in_order("  thread 302 ", "  thread 301 short_d: D (disk sleep) in pipe_read, for at least "
				  "50.00 s\n");
	in_order("  thread 301 ", "  thread 300 long_s: S (sleeping) in pipe_read, for at least "
				  "99.00 s\n");
	in_order("  thread 300 ", "  thread 303 last: S (sleeping) in pipe_read\n");
	has("  thread 102 waiter: D (disk sleep) in futex_wait");
	// it waits for work, and so do those in state I; a zombie and one that runs wait for nothing
	has_not("  thread 304 ");
	has_not("  thread 2 ");
	has_not("  thread 200 ");
	has_not("  thread 101 ");
	live.top = 2;
	make(0, 0, 0);
	has("  thread 302 ");
	has("  thread 301 ");
	has_not("  thread 102 ");
	has("\n  and 5 more\n");
}
END_TEST

START_TEST(who_waits_for_a_lock_is_shown_with_it_and_a_deadlock_before)
{
	struct lg_thread *a = lg_add_process(&guest, 300, "a"),
			 *b = lg_add_process(&guest, 301, "b");
	const uint64_t of_a = lg_mutex_make(&guest, a->address | 1),
		       of_b = lg_mutex_make(&guest, b->address | 1);

	lg_mutex_wait(&guest, of_b, a);
	take();
	has_not("Deadlock");
	in_order("  thread 300 a: ", "    waits for mutex 0x");
	has(" held by 301 b\n");
	lg_mutex_wait(&guest, of_a, b);
	take();
	in_order("\nDeadlock:\n  thread 300 a waits for mutex 0x", "\nLongest blocked:\n");
	// of a capture that did not look at that, nothing is said
	sample_flags = 0;
	take();
	has_not("Deadlock");
	has_not("waits for");
}
END_TEST

START_TEST(equal_stacks_are_shown_once_the_most_frequent_first)
{
	const char *const stack[] = { "el0t_64_sync", "el0_svc", "pipe_read", NULL };
	struct lg_thread *first = lg_add_process(&guest, 300, "pool");

	lg_block(&guest, first, stack);
	for (int32_t i = 1; i < 12; i++)
		lg_block(&guest, lg_add_thread(&guest, first, 300 + i, "pool"), stack);
	take();
	has("\nTop stacks:\n  12 threads, sleeping: 300 pool, 301 pool, ");
	has(" and 4 more\n    pipe_read < el0_svc < el0t_64_sync\n");
	in_order("  12 threads, ", "  1 thread, running: 101 runner\n    pipe_read < vfs_read < "
				   "el0_svc < el0t_64_sync\n");
	// the scheduler is where all that sleep are
	has("\n    futex_wait < el0_svc < el0t_64_sync\n");
	has_not("schedule <");
	// without a stack there is nothing to be frequent; the idle threads are no threads
	has_not("zombie: ");
	has_not("swapper");
	live.top = 1;
	make(0, 0, 0);
	has("  12 threads, ");
	has("\n  and 5 other stacks\n");
}
END_TEST

START_TEST(what_is_missing_is_said)
{
	guest.threads[4].task->pc = 0;
	take();
	has(" UTC, NOT complete (see the end): guest stopped");
	in_order("\nTop stacks:\n", "\nThis capture is NOT complete:\n  stack of thread 102: ");
}
END_TEST

START_TEST(guest_without_a_kernel_is_shown)
{
	memset(lg_image(&guest, LG_KALLSYMS), 0, guest.symtab.size);
	take();
	has("\n0 threads in 0 processes: 0 running");
	has("\nNo thread is blocked.\n");
	has("\n  kernel: no kernel symbol table in guest memory");
}
END_TEST

START_TEST(strings_of_the_guest_are_escaped)
{
	static const char nasty[] = "\x1b]0;x\x07\r\n\x7f\xc3\xa9\\\x9b";

	memcpy(guest.threads[4].task->comm, nasty, sizeof(nasty));
	sample_take();
	sample_load();
	strcpy(capture.release, "\x1b[31mred"); // which is shorter
	for (uint32_t width = 0; width < 40; width++)
		make(width, 0, 0); // looks at each byte
	make(0, 0, 0);
	has("thread 102 \\x1b]0;x\\x07\\x0d\\x0a\\x7f\\xc3\\xa9\\\\\\x9b: D");
	has("102 \\x1b]0;x\\x07\\x0d\\x0a\\x7f\\xc3\\xa9\\\\\\x9b\n");
	has("\\x1b[31mred");
}
END_TEST

START_TEST(budget_and_failures_are_said)
{
	take();
	pace.paid_ns = 15 * SECOND + SECOND / 2;
	pace.is_stretched = true;
	pace.taken = 1;
	live.failure = "the guest does not answer";
	make(0, 0, 0);
	has(" by 1 capture: ");
	has("; one every 2.00 s, the next 1.50 s later for the budget\n");
	has("\nCapture of ");
	has("\nNo new capture: the guest does not answer\n");
	live.is_paused = true;
	make(0, 0, 0);
	has("when the next comes; paused\n");
	live.capture = NULL;
	make(0, 0, 0);
	has("\nNo new capture: ");
	has_not("threads");
	live.failure = NULL;
	make(0, 0, 0);
	has("\nNo capture yet\n");
}
END_TEST

/* The lines without blanks. */
static char *letters(void)
{
	char *out = malloc(strlen(text) + 1);
	size_t n = 0;

	ck_assert_ptr_nonnull(out);
	for (const char *c = text; *c; c++)
		if (*c != ' ' && *c != '\n')
			out[n++] = *c;
	out[n] = '\0';
	return out;
}

START_TEST(long_lines_go_on_in_the_next)
{
	take();
	char *all = letters();
	for (uint32_t width = 20; width < 200; width++) {
		make(width, 0, 0);
		char *now = letters();
		ck_assert_str_eq(now, all);
		free(now);
		for (size_t i = 0; i < view.count; i++)
			ck_assert_uint_le(strlen(view.line[i]), width);
	}
	free(all);
	// words stay whole where they fit, and what goes on is farther in
	make(60, 0, 0);
	has("\n6 threads in 4 processes: 1 running, 0 runnable, 2 sleeping,\n"
	    "    1 uninterruptible, 0 stopped, 1 zombie, 1 idle\n");
	// no screen for people, but nothing breaks
	for (uint32_t width = 1; width < 20; width++) {
		make(width, 0, 0);
		for (size_t i = 0; i < view.count; i++)
			ck_assert_uint_le(strlen(view.line[i]), width);
	}
}
END_TEST

START_TEST(screen_is_head_part_of_the_body_and_keys)
{
	take();
	const size_t whole = view.count;
	char *all = strdup(text);
	const size_t heads =
		6; // a line for each of guest, system, threads, capture, cost; and nothing
	size_t shown = 0;

	ck_assert_ptr_nonnull(all);
	for (size_t first = 0; first < whole; first += view.shown) {
		make(200, 14, first);
		ck_assert_uint_eq(view.count, 14);
		if (view.first != first)
			break; // the last page
		for (size_t i = heads; i + 1 < view.count; i++, shown++)
			ck_assert_msg(strstr(all, view.line[i]), "%s", view.line[i]);
	}
	free(all);
	ck_assert_uint_gt(shown, 0);
	has("lines ");
	// the last lines, whatever was asked for
	make(200, 14, SIZE_MAX);
	const size_t last = view.first;
	make(200, 14, last + 1);
	ck_assert_uint_eq(view.first, last);
	// all of it at once: nothing to be scrolled
	make(200, 500, 7);
	ck_assert_uint_eq(view.first, 0);
	ck_assert_uint_eq(view.count, whole + 1);
	has("\nspace pauses, s saves, q quits, arrow and page keys scroll\n");
	live.note = "saved to a file";
	make(200, 500, 0);
	has("\nsaved to a file\n");
	has_not("space pauses");
	live.note = NULL;
	live.is_paused = true;
	make(200, 500, 0);
	has("\npaused: space goes on, s saves, q quits\n");
}
END_TEST

START_TEST(any_size_of_a_screen_will_do)
{
	take();
	for (uint32_t height = 1; height < 60; height++)
		for (uint32_t width = 1; width < 120; width += 7)
			for (size_t first = 0; first < 40; first += 3) {
				make(width, height, first);
				ck_assert_uint_le(view.count, height);
				ck_assert_uint_ge(view.count, 1);
				for (size_t i = 0; i < view.count; i++)
					ck_assert_uint_le(strlen(view.line[i]), width);
			}
	live.capture = NULL;
	for (uint32_t height = 1; height < 10; height++)
		make(80, height, 3);
}
END_TEST

Suite *suite_live(void)
{
	Suite *s = suite_create("live");
	TCase *tc = tcase_create("live");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, head_says_how_the_guest_is);
	tcase_add_test(tc, threads_are_counted_by_state);
	tcase_add_test(tc, uninterruptible_ones_are_the_first_of_the_blocked);
	tcase_add_test(tc, who_waits_for_a_lock_is_shown_with_it_and_a_deadlock_before);
	tcase_add_test(tc, equal_stacks_are_shown_once_the_most_frequent_first);
	tcase_add_test(tc, what_is_missing_is_said);
	tcase_add_test(tc, guest_without_a_kernel_is_shown);
	tcase_add_test(tc, strings_of_the_guest_are_escaped);
	tcase_add_test(tc, budget_and_failures_are_said);
	tcase_add_test(tc, long_lines_go_on_in_the_next);
	tcase_add_test(tc, screen_is_head_part_of_the_body_and_keys);
	tcase_add_test(tc, any_size_of_a_screen_will_do);
	suite_add_tcase(s, tc);
	return s;
}
