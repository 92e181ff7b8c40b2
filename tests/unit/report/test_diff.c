/* SPDX-License-Identifier: Apache-2.0 */
/* What happened between two captures: found, as text, as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/report/diff.h"
#include "introspect/linux/linux.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/linux/prng.h"
#include "tests/unit/report/deltas.h"
#include "tests/unit/report/sample.h"
#include "tests/unit/report/suites.h"

#define T0  UINT64_C(5000000000)
#define SEC UINT64_C(1000000000)

static struct made m;
static struct rep_capture before, after;
static struct rep_diff diff;
static char *text;

static void setup(void)
{
	sample_setup();
}

static void teardown(void)
{
	free(text);
	text = NULL;
	rep_diff_deinit(&diff);
	rep_capture_deinit(&before);
	rep_capture_deinit(&after);
	sample_teardown();
}

/* --- printing --------------------------------------------------------------------------------- */

static char *print(bool json, bool all)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);

	ck_assert_ptr_nonnull(f);
	ck_assert(json ? rep_diff_json(&diff, f) : rep_diff_text(&diff, all, f));
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_uint_eq(strlen(out), size);
	return out;
}

static json_t *print_json(void)
{
	json_error_t why;
	char *out = print(true, false);
	json_t *root = json_loads(out, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);

	ck_assert_msg(root, "line %d: %s", why.line, why.text);
	free(out);
	return root;
}

/* Every view; text is lines of printable ASCII. */
static void print_all(void)
{
	for (int all = 0; all < 2; all++) {
		free(text);
		text = print(false, !all);
		for (const char *c = text; *c; c++)
			ck_assert_msg(*c == '\n' || (*c >= ' ' && *c <= '~'), "byte %#x",
				      *c & 0xff);
	}
	json_decref(print_json());
}

static void has(const char *line)
{
	sample_has(text, line);
}

static void has_not(const char *line)
{
	ck_assert_msg(!strstr(text, line), "\"%s\" in:\n%s", line, text);
}

static void find(void)
{
	rep_diff_deinit(&diff);
	ck_assert_msg(rep_diff_init(&before, &after, &diff, &error) == GS_OK, "%s", error.text);
}

static void compare(void)
{
	find();
	print_all();
}

static const struct rep_thread_diff *found(uint64_t id)
{
	for (size_t i = 0; i < diff.thread_count; i++) {
		const struct rep_thread_diff *t = &diff.threads[i];

		if ((t->after ? t->after : t->before)->id == id)
			return t;
	}
	ck_abort_msg("no thread with id %d", (int)id);
	return NULL;
}

/* --- two captures of one process -------------------------------------------------------------- */

static const uint64_t stack_a[] = { 0x1010, 0x5010, 0x2010 },
		      stack_b[] = { 0x1010, 0x5010, 0x3010 };

static struct made_thread thread(uint64_t id, char state, const uint64_t *stack)
{
	struct made_thread t = { .id = id,
				 .tid = (int32_t)id,
				 .comm = "worker",
				 .state = state,
				 .switches = 10,
				 .cpu_ns = 5000,
				 .exec_start_ns = 77 };

	if (stack)
		memcpy(t.frame, stack, 3 * sizeof(*stack));
	return t;
}

static void make(uint64_t start_ns, const struct made_thread *threads, size_t count,
		 struct rep_capture *out)
{
	made_begin(&m, start_ns, 0);
	made_task(&m, 10, 100, "main");
	for (size_t i = 0; i < count; i++)
		made_thread(&m, &threads[i]);
	made_task_end(&m, 10);
	made_task(&m, 0, 0, "swapper");
	made_thread(&m,
		    &(struct made_thread){ .id = UINT64_C(1) << 63, .exec_start_ns = start_ns });
	made_task_end(&m, 0);
	made_symbol(&m, 0x1000, "__switch_to", false);
	made_symbol(&m, 0x5000, "__schedule", true);
	made_symbol(&m, 0x2000, "pipe_read", false);
	made_symbol(&m, 0x3000, "futex_wait", false);
	rep_capture_deinit(out);
	made_end(&m, out);
}

/* One thread, before and after. @return what was found of it */
static const struct rep_thread_diff *compare_one(const struct made_thread *a,
						 const struct made_thread *b)
{
	make(T0, a, 1, &before);
	make(T0 + 2 * SEC + SEC / 80, b, 1, &after);
	compare();
	ck_assert_uint_eq(diff.thread_count, 1);
	return found(a->id);
}

START_TEST(a_thread_whose_counts_are_the_same_has_not_run)
{
	struct made_thread a = thread(11, 'S', stack_a), b = a;

	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_NOT_RUN);
	has("2.013 s apart: 0 threads new, 0 gone, 0 ran, 1 has not\n"
	    "Before: 2026-11-30 09:22:42.000 UTC, 1 process, 1 thread\n"
	    "After: 2026-11-30 09:22:44.012 UTC, 1 process, 1 thread\n"
	    "\nHave not run: 1 thread\n\n1 thread, sleeping: 11 worker\n"
	    "    __switch_to+0x10/0x100\n    __schedule+0x10/0x100\n    pipe_read+0x10/0x100\n");
	// woken, but not on a CPU yet: its state is another one, and it has not run all the same
	b.state = 'R';
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_NOT_RUN);
	has("1 has not; 1 of these runnable without a CPU\n");
	has("\nHave not run, though runnable: 1 thread\n"
	    "  thread 11 worker (100 main): R (running), was S (sleeping)\n    __switch_to+0x10");
	// moved to the queue of another CPU while it waits
	b.exec_start_ns = 0;
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_NOT_RUN);
}
END_TEST

START_TEST(any_count_tells_that_a_thread_ran)
{
	const struct made_thread a = thread(11, 'S', stack_a);
	struct made_thread b;

	for (int i = 0; i < 5; i++) {
		b = a;
		b.switches += i == 0;
		b.cpu_ns += i == 1;
		b.exec_start_ns += i == 2;
		b.vcpu_and_1 = i == 3;
		ck_assert_int_eq(compare_one(&a, &b)->change, i < 3   ? REP_CHANGE_RETURNED
							      : i < 4 ? REP_CHANGE_MOVED
								      : REP_CHANGE_NOT_RUN);
	}
	b = a;
	b.switches += 3;
	b.cpu_ns += 2500000;
	memcpy(b.frame, stack_b, sizeof(stack_b));
	const struct rep_thread_diff *t = compare_one(&a, &b);
	ck_assert_int_eq(t->change, REP_CHANGE_MOVED);
	ck_assert_uint_eq(t->switches, 3);
	ck_assert_uint_eq(t->cpu_ns, 2500000);
	has("\nRan, and are elsewhere now: 1 thread\n"
	    "  thread 11 worker (100 main): S (sleeping) in pipe_read -> S (sleeping) in "
	    "futex_wait; "
	    "2.50 ms of CPU time, 3 switches\n");
	has("0 gone, 1 ran, 0 have not\n");
	// the same frames in another state
	memcpy(b.frame, stack_a, sizeof(stack_a));
	b.state = 'D';
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_MOVED);
	has("S (sleeping) in pipe_read -> D (disk sleep) in pipe_read; ");
}
END_TEST

START_TEST(a_thread_on_a_cpu_runs_whatever_its_counts_say)
{
	struct made_thread a = thread(11, 'R', NULL), b;

	a.vcpu_and_1 = 1;
	b = a;
	b.vcpu_and_1 = 2;
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_RETURNED);
	has("\nRan, and are at the same place again: 1 thread\n");
	memcpy(b.frame, stack_a, sizeof(stack_a));
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_MOVED);
	// of one that runs the innermost function is where it is
	has(": on vCPU 0 in user mode -> on vCPU 1 in __switch_to; 0 us of CPU time, 0 switches\n");
	b = thread(11, 'R', stack_a);
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_MOVED);
}
END_TEST

START_TEST(counts_that_are_not_known_tell_nothing)
{
	const uint32_t all = LNX_TASK_HAS_SWITCHES | LNX_TASK_HAS_TIMES | LNX_TASK_HAS_LAST_RUN;
	struct made_thread a = thread(11, 'S', stack_a), b = a;

	b.switches++;
	b.cpu_ns++;
	b.exec_start_ns++;
	b.not_known = all;
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_UNKNOWN);
	has("0 ran, 0 have not; of 1 it is not known\n");
	has("\nNot known whether they ran: 1 thread\n\n1 thread, sleeping: 11 worker\n");
	memcpy(b.frame, stack_b, sizeof(stack_b));
	ck_assert_int_eq(compare_one(&a, &b)->change, REP_CHANGE_MOVED);
	// one of them is enough
	for (uint32_t bit = 1; bit <= all; bit <<= 1) {
		b = a;
		b.not_known = all & ~bit;
		ck_assert_int_eq(compare_one(&a, &b)->change,
				 all & bit ? REP_CHANGE_NOT_RUN : REP_CHANGE_UNKNOWN);
	}
}
END_TEST

// execve() in a thread: it goes on as the leader, with counts of its own
START_TEST(counts_that_fell_are_a_run_of_unknown_length)
{
	struct made_thread a = thread(11, 'S', stack_a), b = a;

	b.switches = 2;
	b.cpu_ns = 1;
	const struct rep_thread_diff *t = compare_one(&a, &b);
	ck_assert_int_eq(t->change, REP_CHANGE_RETURNED);
	ck_assert_uint_eq(t->switches, 0);
	ck_assert_uint_eq(t->cpu_ns, 0);
}
END_TEST

START_TEST(new_and_gone_are_told_by_id)
{
	struct made_thread a[] = { thread(11, 'S', stack_a), thread(12, 'D', stack_b) };
	struct made_thread b[] = { thread(11, 'S', stack_a), thread(13, 'S', stack_b) };

	b[1].tid = 12; // the number is used again
	make(T0, a, 2, &before);
	make(T0 + SEC, b, 2, &after);
	compare();
	ck_assert_int_eq(found(12)->change, REP_CHANGE_GONE);
	ck_assert_int_eq(found(13)->change, REP_CHANGE_NEW);
	ck_assert_uint_eq(diff.new_tasks + diff.gone_tasks, 0);
	has("1.000 s apart: 1 thread new, 1 gone, 0 ran, 1 has not\n");
	has("\nNew: 0 processes, 1 thread\n  thread 12 worker (100 main): S (sleeping) in "
	    "futex_wait\n");
	has("\nGone: 0 processes, 1 thread\n  thread 12 worker (100 main): D (disk sleep) in "
	    "futex_wait\n");

	made_begin(&m, T0 + SEC, 0);
	made_task(&m, 20, 100, "next"); // the same pid
	made_thread(&m, &(struct made_thread){ .id = 20, .tid = 100, .comm = "next" });
	made_task_end(&m, 20);
	rep_capture_deinit(&after);
	made_end(&m, &after);
	compare();
	ck_assert_uint_eq(diff.new_tasks, 1);
	ck_assert_uint_eq(diff.gone_tasks, 1);
	has("\nNew: 1 process, 1 thread\n  process 100 next, parent 1\n"
	    "    thread 100 next: S (sleeping) in user mode\n");
	has("\nGone: 1 process, 2 threads\n  process 100 main, parent 1, 2 threads\n"
	    "    thread 11 worker (100 main): S (sleeping) in pipe_read\n"
	    "    thread 12 worker (100 main): D");
}
END_TEST

START_TEST(what_has_not_run_is_listed_worst_first)
{
	static struct made_thread t[24];

	for (int i = 0; i < 24; i++)
		t[i] = thread(11 + (uint64_t)i, 'S', stack_a);
	t[3].state = 'D';
	t[4].state = 'R';
	t[5].state = 'D';
	t[6].state = 'Z';
	make(T0, t, 24, &before);
	make(T0 + SEC, t, 24, &after);
	compare();
	has(" 24 have not; 2 of these in uninterruptible sleep, 1 runnable without a CPU\n");
	const char *d = strstr(text, "\nHave not run, in uninterruptible sleep: 2 threads\n"
				     "  thread 14 worker (100 main): D (disk sleep)\n"
				     "    __switch_to+0x10/0x100\n");
	const char *r = strstr(text, "\nHave not run, though runnable: 1 thread\n"
				     "  thread 15 worker (100 main): R (running)\n");
	const char *s =
		strstr(text, "\nHave not run, the others: 21 threads\n\n20 threads, sleeping: "
			     "11 worker, 12 worker, 13 worker, 18 worker, 19 worker, 20 "
			     "worker, 21 worker, 22 worker and 12 more\n");
	ck_assert_msg(d && r && s && d < r && r < s, "%s", text);
	has("\n1 thread, zombie: 17 worker\n");
	has_not("  thread 11 worker");
	free(text);
	text = print(false, true);
	has("\nHave not run, the others: 21 threads\n  thread 11 worker (100 main): S (sleeping)\n"
	    "    __switch_to+0x10/0x100\n");
	has("  thread 34 worker");
	has_not(" more\n");
}
END_TEST

START_TEST(those_that_ran_are_ordered_by_cpu_time)
{
	struct made_thread a[4], b[4];

	for (int i = 0; i < 4; i++) {
		b[i] = a[i] = thread(11 + (uint64_t)i, 'S', stack_a);
		memcpy(b[i].frame, stack_b, sizeof(stack_b));
		b[i].switches++;
	}
	b[2].cpu_ns += 3000;
	b[1].cpu_ns += 1000;
	b[3].switches++;
	make(T0, a, 4, &before);
	make(T0 + SEC, b, 4, &after);
	compare();
	const char *at = strstr(text, "elsewhere now: 4 threads");
	static const char *const order[] = { "thread 13 ", "thread 12 ", "thread 14 ",
					     "thread 11 " };
	for (int i = 0; i < 4; i++) {
		at = strstr(at, order[i]);
		ck_assert_msg(at, "%s\n%s", order[i], text);
	}
	has("0 us of CPU time, 2 switches\n");
	has("0 us of CPU time, 1 switch\n");
}
END_TEST

START_TEST(idle_threads_are_left_out)
{
	struct made_thread a = thread(11, 'S', stack_a);

	make(T0, &a, 1, &before);
	made_begin(&m, T0 + SEC, 0);
	made_task(&m, 10, 100, "main");
	made_thread(&m, &a);
	made_task_end(&m, 10);
	rep_capture_deinit(&after);
	made_end(&m, &after);
	compare();
	ck_assert_uint_eq(diff.thread_count, 1);
	ck_assert_uint_eq(diff.gone_tasks, 0);
	has("0 threads new, 0 gone, 0 ran, 1 has not\n");
}
END_TEST

/* --- what cannot be compared ------------------------------------------------------------------ */

static void refused(enum gs_code rc, const char *part)
{
	ck_assert_int_eq(rep_diff_init(&before, &after, &diff, &error), rc);
	ck_assert_msg(strstr(error.text, part), "%s", error.text);
}

START_TEST(captures_of_different_guests_or_in_the_wrong_order_are_refused)
{
	struct made_thread a = thread(11, 'S', stack_a);

	make(T0, &a, 1, &before);
	make(T0 + SEC, &a, 1, &after);
	after.guest.kernel_text++;
	refused(GS_EINVAL, "the last capture: of another guest than the capture before it, or of "
			   "another boot");
	after.guest.kernel_text--;
	after.only_pid = 100;
	refused(GS_EINVAL, "the last capture: of other processes than");
	after.only_pid = -1;
	after.has_guest = false;
	refused(GS_EMALFORMED, "the last capture is of another tool");
	before.has_guest = false;
	refused(GS_EMALFORMED, "the first capture is of another tool");
	after.has_guest = before.has_guest = true;
	after.start_ns = T0 - 1;
	refused(GS_EINVAL, "give the older one first");
	// dumps may be read in any order; when their guest stood nobody knows
	static const char *const dumps[] = { "raw", "elf-core", "kdump" };
	for (size_t i = 0; i < ARRAY_SIZE(dumps); i++) {
		strcpy(after.guest.source, dumps[i]);
		strcpy(before.guest.source, dumps[i]);
		compare();
		has("Time between the dumps is not known: 0 threads new, 0 gone, 0 ran, 1 has "
		    "not\n");
	}
}
END_TEST

START_TEST(what_is_missing_is_said_of_either_side)
{
	struct made_thread a = thread(11, 'S', stack_a);

	make(T0, &a, 1, &before);
	made_begin(&m, T0 + SEC, 0);
	made_missing(&m, SS_MISSING_STACK, 100, 11, "torn");
	rep_capture_deinit(&after);
	made_end(&m, &after);
	compare();
	has("0 threads new, 1 gone or not captured, 0 ran, 0 have not\n");
	has("\nThe last capture is NOT complete; what is gone may still be there:\n"
	    "  stack of thread 11: torn\n");
	has_not("first capture is NOT");
	json_t *root = print_json();
	ck_assert(json_is_false(json_object_get(json_object_get(root, "diff"), "complete")));
	json_decref(root);
	before.damaged = true;
	strcpy(before.damage, "ends early");
	compare();
	has("0 threads new or not captured before, ");
	has("\nThe first capture is NOT complete; what is new may have been there:\n"
	    "  file: ends early\n");
}
END_TEST

/* --- JSON ------------------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key)
{
	ck_assert_msg(json_is_real(json_object_get(o, key)), "%s", key);
	return json_real_value(json_object_get(o, key));
}

static const char *string(const json_t *o, const char *key)
{
	ck_assert_msg(json_is_string(json_object_get(o, key)), "%s", key);
	return json_string_value(json_object_get(o, key));
}

START_TEST(document_has_what_is_documented)
{
	struct made_thread a[] = { thread(11, 'S', stack_a), thread(12, 'D', stack_a),
				   thread(13, 'S', stack_a) };
	struct made_thread b[] = { a[0], a[1], thread(14, 'R', stack_b) };

	b[0].switches += 4;
	b[0].cpu_ns += 1000;
	make(T0, a, 3, &before);
	make(T0 + SEC, b, 3, &after);
	compare();
	json_t *root = print_json();
	ck_assert(number(root, "schema_version") == REP_DIFF_SCHEMA_VERSION);
	const json_t *d = json_object_get(root, "diff");
	ck_assert(json_is_true(json_object_get(d, "complete")));
	ck_assert(number(d, "apart_ns") == 1e9);
	ck_assert_str_eq(string(json_object_get(d, "before"), "taken"), "2026-11-30T09:22:42Z");
	ck_assert(number(json_object_get(d, "after"), "threads") == 3);
	ck_assert(number(json_object_get(d, "tasks"), "new") == 0);
	const json_t *counts = json_object_get(d, "threads");
	static const struct {
		const char *name;
		int count;
	} right[] = { { "new", 1 },	 { "gone", 1 },		  { "moved", 0 },
		      { "returned", 1 }, { "not-run", 1 },	  { "unknown", 0 },
		      { "starving", 0 }, { "uninterruptible", 1 } };
	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		ck_assert_msg((int)number(counts, right[i].name) == right[i].count, "%s",
			      right[i].name);
	const json_t *threads = json_object_get(root, "threads");
	static const char *const changes[] = { "returned", "not-run", "new", "gone" };
	ck_assert_uint_eq(json_array_size(threads), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *t = json_array_get(threads, i);

		ck_assert_str_eq(string(t, "change"), changes[i]);
		ck_assert_str_eq(string(json_object_get(t, "process"), "comm"), "main");
		ck_assert_int_eq(json_is_null(json_object_get(t, "before")), i == 2);
		ck_assert_int_eq(json_is_null(json_object_get(t, "after")), i == 3);
		ck_assert_int_eq(json_object_get(t, "switches") != NULL, i < 2);
	}
	ck_assert(number(json_array_get(threads, 0), "switches") == 4);
	ck_assert(number(json_array_get(threads, 0), "cpu_ns") == 1000);
	const json_t *side = json_object_get(json_array_get(threads, 2), "after");
	ck_assert(number(side, "tid") == 14);
	ck_assert_uint_eq(json_array_size(json_object_get(side, "kernel_backtrace")), 3);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "tasks")), 0);
	json_decref(root);
}
END_TEST

START_TEST(document_lists_processes_that_are_new_or_gone)
{
	struct made_thread a = thread(11, 'S', stack_a);

	make(T0, &a, 1, &before);
	made_begin(&m, T0 + SEC, 0);
	made_task(&m, 20, 200, "next");
	made_task_end(&m, 20);
	rep_capture_deinit(&after);
	made_end(&m, &after);
	strcpy(before.guest.source, "raw");
	compare();
	json_t *root = print_json();
	ck_assert(json_is_null(json_object_get(json_object_get(root, "diff"), "apart_ns")));
	const json_t *tasks = json_object_get(root, "tasks");
	ck_assert_uint_eq(json_array_size(tasks), 2);
	ck_assert_str_eq(string(json_array_get(tasks, 0), "change"), "new");
	ck_assert_str_eq(string(json_array_get(tasks, 0), "comm"), "next");
	ck_assert_str_eq(string(json_array_get(tasks, 1), "change"), "gone");
	ck_assert(number(json_array_get(tasks, 1), "pid") == 100);
	ck_assert(number(json_array_get(tasks, 1), "threads") == 1);
	json_decref(root);
}
END_TEST

START_TEST(output_that_refuses_bytes_is_a_failure)
{
	struct made_thread a = thread(11, 'S', stack_a);
	FILE *full = fopen("/dev/full", "w");

	make(T0, &a, 1, &before);
	make(T0 + SEC, &a, 1, &after);
	compare();
	ck_assert_ptr_nonnull(full);
	ck_assert(!rep_diff_text(&diff, false, full));
	ck_assert(!rep_diff_text(&diff, true, full));
	ck_assert(!rep_diff_json(&diff, full));
	fclose(full);
}
END_TEST

/* --- whole captures --------------------------------------------------------------------------- */

START_TEST(a_guest_is_compared_with_itself_later)
{
	sample_take();
	load((struct bytes){ sample, sample_size }, &before);
	guest.threads[0].task->nvcsw++;
	guest.threads[4].task->state = 2;
	lg_add_process(&guest, 300, "late");
	sample_take();
	load((struct bytes){ sample, sample_size }, &after);
	compare();
	ck_assert_uint_eq(diff.thread_count, 7);
	ck_assert_uint_eq(diff.changes[REP_CHANGE_NEW], 1);
	ck_assert_uint_eq(diff.changes[REP_CHANGE_RETURNED], 2); // with the one on a vCPU
	ck_assert_uint_eq(diff.changes[REP_CHANGE_NOT_RUN], 4);
	ck_assert_uint_eq(diff.uninterruptible, 1);
	has("; 1 of these in uninterruptible sleep\n");
	has("  thread 102 waiter (100 worker): D (disk sleep)");
	has("  process 300 late, parent 0\n    thread 300 late: S (sleeping) in ");
}
END_TEST

static char folder[] = "/tmp/unit-report-XXXXXX";

static char *write_file(int n, struct bytes b)
{
	char *path;

	ck_assert_int_gt(asprintf(&path, "%s/%d", folder, n), 0);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(b.data, 1, b.size, f), b.size);
	ck_assert_int_eq(fclose(f), 0);
	free(b.data);
	return path;
}

static struct bytes made_file(uint64_t start_ns, uint64_t since_ns, uint64_t switches)
{
	struct made_thread t = thread(11, 'S', stack_a);

	t.switches = switches;
	made_begin(&m, start_ns, since_ns);
	made_task(&m, 10, 100, "main");
	made_thread(&m, &t);
	made_task_end(&m, 10);
	return made_bytes(&m);
}

static void read_two(char *const *paths, size_t count)
{
	rep_capture_deinit(&before);
	rep_capture_deinit(&after);
	ck_assert_msg(rep_files_read_two(paths, count, &before, &after, &error) == GS_OK, "%s",
		      error.text);
	compare();
}

START_TEST(the_first_file_is_compared_with_what_the_last_completes)
{
	char *base, *d1, *d2, *full, *other;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	base = write_file(0, made_file(T0, 0, 10));
	d1 = write_file(1, made_file(T0 + SEC, T0, 20));
	d2 = write_file(2, made_file(T0 + 2 * SEC, T0 + SEC, 40));
	full = write_file(3, made_file(T0 + 3 * SEC, 0, 80));
	other = write_file(4, made_file(T0 + 4 * SEC, T0 + 3 * SEC, 160));
	read_two((char *[]){ base, d1 }, 2);
	ck_assert_uint_eq(found(11)->switches, 10);
	read_two((char *[]){ base, d1, d2 }, 3);
	ck_assert_uint_eq(found(11)->switches, 30);
	ck_assert_uint_eq(diff.apart_ns, 2 * SEC);
	read_two((char *[]){ base, full }, 2);
	ck_assert_uint_eq(found(11)->switches, 70);
	read_two((char *[]){ base, d1, full, other }, 4);
	ck_assert_uint_eq(found(11)->switches, 150);

	rep_capture_deinit(&before);
	rep_capture_deinit(&after);
	ck_assert_int_eq(rep_files_read_two((char *[]){ d1, full }, 2, &before, &after, &error),
			 GS_EINVAL);
	ck_assert_msg(strstr(error.text, "/1: a delta since "), "%s", error.text);
	rep_capture_deinit(&before);
	ck_assert_int_eq(rep_files_read_two((char *[]){ base, d2 }, 2, &before, &after, &error),
			 GS_EINVAL);
	ck_assert_msg(strstr(error.text, "/2: a delta since "), "%s", error.text);
	ck_assert_ptr_null(after.tasks);
	char *const all[] = { base, d1, d2, full, other };
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		unlink(all[i]);
		free(all[i]);
	}
	rmdir(folder);
}
END_TEST

/* --- hostile ---------------------------------------------------------------------------------- */

START_TEST(mutated_captures_are_compared_without_harm)
{
	uint8_t *copy = malloc(sample_size);
	uint64_t seed = 33;
	int compared = 0;

	ck_assert_ptr_nonnull(copy);
	load((struct bytes){ sample, sample_size }, &before);
	for (int round = 0; round < 600; round++) {
		memcpy(copy, sample, sample_size);
		for (uint64_t k = 1 + prng_below(&seed, 10); k; k--)
			copy[prng_below(&seed, sample_size)] = (uint8_t)prng(&seed);
		rep_capture_deinit(&after);
		if (sample_read_to(copy, sample_size, &after))
			continue;
		after.guest = before.guest;
		after.has_guest = true;
		after.only_pid = before.only_pid;
		after.start_ns = before.start_ns;
		compare();
		compared++;
	}
	ck_assert_int_gt(compared, 400);
	free(copy);
}
END_TEST

START_TEST(ids_that_occur_twice_are_compared_once)
{
	const size_t count = 50000;
	struct made_thread *t = calloc(count, sizeof(*t));

	ck_assert_ptr_nonnull(t);
	for (size_t i = 0; i < count; i++)
		t[i] = thread(11 + i % 2, 'S', NULL);
	make(T0, t, count, &before);
	make(T0 + SEC, t, count, &after);
	find(); // so many take long to print and to parse
	ck_assert_uint_eq(diff.changes[REP_CHANGE_NOT_RUN], 2);
	ck_assert_uint_eq(diff.changes[REP_CHANGE_NEW], count - 2);
	ck_assert_uint_eq(diff.changes[REP_CHANGE_GONE], count - 2);
	free(t);
	// tasks
	for (int i = 0; i < 2; i++) {
		made_begin(&m, T0, 0);
		for (int k = 0; k < 3; k++) {
			made_task(&m, 10, 100 + k, "x");
			made_task_end(&m, 10);
		}
		rep_capture_deinit(i ? &after : &before);
		made_end(&m, i ? &after : &before);
	}
	compare();
	ck_assert_uint_eq(diff.new_tasks, 2);
	ck_assert_uint_eq(diff.gone_tasks, 2);
}
END_TEST

Suite *suite_diff(void)
{
	Suite *s = suite_create("diff");
	TCase *tc = tcase_create("diff");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, a_thread_whose_counts_are_the_same_has_not_run);
	tcase_add_test(tc, any_count_tells_that_a_thread_ran);
	tcase_add_test(tc, a_thread_on_a_cpu_runs_whatever_its_counts_say);
	tcase_add_test(tc, counts_that_are_not_known_tell_nothing);
	tcase_add_test(tc, counts_that_fell_are_a_run_of_unknown_length);
	tcase_add_test(tc, new_and_gone_are_told_by_id);
	tcase_add_test(tc, what_has_not_run_is_listed_worst_first);
	tcase_add_test(tc, those_that_ran_are_ordered_by_cpu_time);
	tcase_add_test(tc, idle_threads_are_left_out);
	tcase_add_test(tc, captures_of_different_guests_or_in_the_wrong_order_are_refused);
	tcase_add_test(tc, what_is_missing_is_said_of_either_side);
	tcase_add_test(tc, document_has_what_is_documented);
	tcase_add_test(tc, document_lists_processes_that_are_new_or_gone);
	tcase_add_test(tc, output_that_refuses_bytes_is_a_failure);
	tcase_add_test(tc, a_guest_is_compared_with_itself_later);
	tcase_add_test(tc, the_first_file_is_compared_with_what_the_last_completes);
	tcase_add_test(tc, mutated_captures_are_compared_without_harm);
	tcase_add_test(tc, ids_that_occur_twice_are_compared_once);
	suite_add_tcase(s, tc);
	return s;
}
