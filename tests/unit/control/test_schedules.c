/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules over a made-up capture function: what they ask for, what they keep, what they say. */
#include "control/schedules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "control/kept.h"
#include "control/store_priv.h"
#include "introspect/guest/memory_guest.h"
#include "introspect/linux/linux.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/control/folder.h"
#include "tests/unit/control/suites.h"

/* Longest wait for anything; reached only by a test that fails. */
#define DEADLINE_NS (60 * GS_NS_PER_SEC)
#define STREAM_SIZE 8192
#define ASKED_MAX   4096
#define DIR	    "captures"

/* --- a guest of which anybody may say anything ---------------------------------------------------
 */

static struct memory_guest memory;
static uv_loop_t loop;
static struct ctl_worker *worker;
static struct ctl_schedules *all;
static struct gs_error err;
static bool finished;

/* the worker's thread writes these; the loop's reads them when a job is done */
static struct asked {
	uint64_t flags, since_ns, start_ns;
	uint32_t reason, console_lines;
	char line[32];
} asked[ASKED_MAX];
static _Atomic uint32_t captures;
static _Atomic bool fails;
static _Atomic uint64_t costs_ns;
static _Atomic uint64_t guest_clock_ns;
static _Atomic char state; /* of the one thread */

#define OK(call) ck_assert_int_eq((call), KCD_OK)

static size_t make_stream(uint8_t *room, const struct ss_request *q)
{
	const struct ss_thread_record r = { .tid = 102,
					    .vcpu = -1,
					    .state = (unsigned char)state,
					    .known = LNX_TASK_HAS_SWITCHES,
					    .comm = "waiter" };
	struct kcd_writer w;

	OK(kcd_writer_init(&w, room, STREAM_SIZE,
			   q->since_ns ? KCD_MAGIC_DELTA_STACKSHOT : KCD_MAGIC_STACKSHOT, 0));
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, 1));
	OK(kcd_container_begin(&w, KCD_SS_CONTAINER_THREAD, 2));
	OK(kcd_append(&w, SS_RECORD_THREAD, &r, sizeof(r)));
	OK(kcd_container_end(&w, 2));
	OK(kcd_container_end(&w, 1));
	return kcd_writer_used(&w);
}

static enum gs_code capture(void *arg, const struct ss_request *q, struct ss_result *r_out,
			    struct gs_error *e)
{
	struct asked *a = &asked[gs_min(captures, ASKED_MAX - 1)];

	(void)arg;
	*a = (struct asked){ .flags = q->flags, .since_ns = q->since_ns, .start_ns = captures + 1 };
	if (q->cause) {
		a->reason = q->cause->reason.reason;
		a->console_lines = q->cause->console_lines;
		if (q->cause->console_lines)
			snprintf(a->line, sizeof(a->line), "%.31s", q->cause->console[0].text);
	}
	captures++;
	if (fails)
		return gs_fail(e, GS_ETIMEDOUT, "the guest does not answer");
	*r_out = (struct ss_result){ .data = malloc(STREAM_SIZE),
				     .complete = true,
				     .start_ns = a->start_ns,
				     .stopped_ns = costs_ns };
	ck_assert_ptr_nonnull(r_out->data);
	r_out->size = make_stream(r_out->data, q);
	return GS_OK;
}

static uint64_t guest_ns(void *arg)
{
	(void)arg;
	return guest_clock_ns;
}

static uint32_t console(void *arg, struct ss_console_record lines_out[SS_CONSOLE_LINES])
{
	(void)arg;
	snprintf(lines_out[0].text, sizeof(lines_out[0].text), "last words");
	return 1;
}

static void setup(void)
{
	folder_enter();
	captures = 0;
	fails = false;
	costs_ns = 0;
	guest_clock_ns = GS_NS_PER_SEC;
	state = 'S';
	finished = false;
	gs_log_set_level(GS_LOG_ERROR); /* warnings are what is tested here */
	memory_guest_init(&memory, 1);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	const struct ctl_worker_config config = { .guest = &memory.guest, .capture = capture };
	ck_assert_int_eq(ctl_worker_create(&loop, &config, &worker, &err), GS_OK);
	const struct ctl_schedules_config schedules = { .worker = worker,
							.guest_ns = guest_ns,
							.console = console };
	ck_assert_int_eq(ctl_schedules_create(&loop, &schedules, &all, &err), GS_OK);
}

static void on_finished(void *arg)
{
	(void)arg;
	finished = true;
}

static void wake_up(uv_timer_t *timer)
{
	(void)timer;
}

/* Run the loop until a condition holds. */
static void run_until(bool (*holds)(void))
{
	const uint64_t end = gs_clock_ns() + DEADLINE_NS;
	uv_timer_t timer;

	uv_timer_init(&loop, &timer);
	uv_timer_start(&timer, wake_up, 1, 1); /* what another thread does may be waited for, too */
	while (!holds()) {
		ck_assert_uint_lt(gs_clock_ns(), end);
		(void)uv_run(&loop, UV_RUN_ONCE);
	}
	uv_close((uv_handle_t *)&timer, NULL);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
}

static bool is_finished(void)
{
	return finished;
}

static void finish(void)
{
	ctl_schedules_finish(all, on_finished, NULL);
	ck_assert(!finished);
	run_until(is_finished);
	ctl_schedules_destroy(GS_TAKE(all));
}

static void teardown(void)
{
	if (all)
		finish();
	ctl_worker_close(worker);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ck_assert_int_eq(system("rm -rf " DIR " " DIR "2"), 0);
	folder_leave();
}

static const struct ctl_schedule_config often = { .dir = DIR,
						  .every_ns = CTL_SCHEDULE_EVERY_MIN_NS,
						  .keep = 5,
						  .max_stopped = CTL_SCHEDULE_STOPPED_MAX };

static uint32_t add(const struct ctl_schedule_config *config)
{
	uint32_t id = 0;

	ck_assert_msg(!ctl_schedules_add(all, config, CTL_SCHEDULE_OPEN_NOW, &id, &err), "%s",
		      err.text);
	return id;
}

/* A number of the first schedule in the list. */
static uint64_t number(const char *name)
{
	json_t *list = ctl_schedules_list(all);
	const json_t *o = json_array_get(list, 0), *n = json_object_get(o, name);
	const uint64_t value = (uint64_t)json_integer_value(n);

	ck_assert_msg(json_is_integer(n), "%s", name);
	json_decref(list);
	return value;
}

/* Whether the first one says that it fails, and how. */
static bool says_failure(const char *text)
{
	json_t *list = ctl_schedules_list(all);
	const json_t *failure = json_object_get(json_array_get(list, 0), "failure");
	const bool says = json_is_string(failure) && strstr(json_string_value(failure), text);

	ck_assert(json_is_string(failure) || json_is_null(failure));
	json_decref(list);
	return says;
}

static void trigger(uint32_t reason)
{
	const struct ss_reason_record r = { .reason = reason, .pid = -1, .tid = -1, .vcpu = -1 };

	ctl_schedules_trigger(all, &r);
}

/* --- at intervals --------------------------------------------------------------------------------
 */

static bool wrote_twenty(void)
{
	return number("written") >= 20;
}

START_TEST(captures_are_taken_kept_and_counted)
{
	(void)add(&often);
	run_until(wrote_twenty);
	ck_assert_uint_eq(number("captures"), 5);
	ck_assert_uint_eq(number("removed"), number("written") - 5);
	ck_assert_uint_eq(number("failed"), 0);
	ck_assert(!says_failure(""));
	finish();
	for (uint32_t i = 0; i < captures; i++) {
		ck_assert_uint_eq(asked[i].reason, SS_REASON_SCHEDULE);
		ck_assert_uint_eq(asked[i].flags, 0);
		ck_assert_uint_eq(asked[i].console_lines, 0);
	}
	ck_assert_int_eq(chdir(DIR), 0);
	ck_assert_int_eq(access("index.json", R_OK), 0);
	ck_assert_int_eq(chdir(".."), 0);
}
END_TEST

START_TEST(deltas_are_between_full_ones)
{
	struct ctl_schedule_config c = often;

	c.full_every = 4;
	(void)add(&c);
	run_until(wrote_twenty);
	finish();
	for (uint32_t i = 0; i < 20; i++) {
		const uint64_t base = i % 4 ? i / 4 * 4 + 1 : 0;

		ck_assert_uint_eq(asked[i].since_ns, base);
		ck_assert_uint_eq(asked[i].flags, base ? KCD_SS_COLLECT_DELTA_SNAPSHOT : 0);
	}
}
END_TEST

static bool is_stretched(void)
{
	return number("written") >= 1 && number("stopped_ns");
}

START_TEST(budget_makes_captures_fewer)
{
	struct ctl_schedule_config c = often;

	costs_ns = 3600 * GS_NS_PER_SEC; /* as it were: nothing else is due for long */
	c.max_stopped = 1000;
	(void)add(&c);
	run_until(is_stretched);
	json_t *list = ctl_schedules_list(all);
	ck_assert(json_is_true(json_object_get(json_array_get(list, 0), "stretched")));
	json_decref(list);
	ck_assert_uint_eq(captures, 1);
}
END_TEST

/* --- failures ------------------------------------------------------------------------------------
 */

static bool failed_thrice(void)
{
	return number("failed") >= 3;
}

static bool wrote_more(void)
{
	return number("written") >= 3 && !says_failure("");
}

START_TEST(failing_captures_are_counted_and_then_taken_again)
{
	struct ctl_schedule_config c = often;

	c.full_every = 100;
	fails = true;
	(void)add(&c);
	run_until(failed_thrice);
	ck_assert(says_failure("the guest does not answer"));
	ck_assert_uint_eq(number("written"), 0);
	fails = false;
	run_until(wrote_more);
	finish();
	/* each was to be full until one was written */
	for (uint32_t i = 0; i < captures - 3; i++)
		ck_assert(!asked[i].since_ns || asked[i].since_ns > 3);
}
END_TEST

START_TEST(full_disk_stops_no_guest_and_passes)
{
	const struct rlimit small = { 100, RLIM_INFINITY },
			    large = { RLIM_INFINITY, RLIM_INFINITY };

	(void)add(&often);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	run_until(failed_thrice);
	ck_assert(says_failure("File too large"));
	/* one found out, the others were not even taken */
	ck_assert_uint_le(captures, number("written") + 1);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &large), 0);
	run_until(wrote_more);
}
END_TEST

START_TEST(folder_that_cannot_be_used_is_told_at_once_or_later)
{
	uint32_t id;

	folder_put(DIR, "no folder");
	ck_assert_int_eq(ctl_schedules_add(all, &often, CTL_SCHEDULE_OPEN_NOW, &id, &err),
			 GS_ENOENT);
	ck_assert_int_eq(ctl_schedules_add(all, &often, CTL_SCHEDULE_OPEN_LATER, &id, &err), GS_OK);
	run_until(failed_thrice);
	ck_assert(says_failure("Not a directory"));
	ck_assert_uint_eq(captures, 0);
	ck_assert_int_eq(unlink(DIR), 0);
	run_until(wrote_more);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
	const struct ctl_schedule_config wrong[] = {
		{ .dir = DIR, .max_stopped = 1 },
		{ .dir = DIR, .max_stopped = 1, .every_ns = 1 },
		{ .dir = DIR, .max_stopped = 1, .every_ns = UINT64_MAX },
		{ .dir = DIR, .every_ns = GS_NS_PER_SEC },
		{ .dir = DIR, .every_ns = GS_NS_PER_SEC, .max_stopped = UINT32_MAX },
		{ .dir = DIR, .every_ns = GS_NS_PER_SEC, .max_stopped = 1, .jitter = 51 },
		{ .dir = DIR, .every_ns = GS_NS_PER_SEC, .max_stopped = 1, .keep = 10001 },
		{ .dir = DIR, .every_ns = GS_NS_PER_SEC, .max_stopped = 1, .full_every = 10001 },
	};
	uint32_t id;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		ck_assert_int_eq(
			ctl_schedules_add(all, &wrong[i], CTL_SCHEDULE_OPEN_LATER, &id, &err),
			GS_EINVAL);
	ck_assert_int_ne(access(DIR, F_OK), 0);
}
END_TEST

/* --- several -------------------------------------------------------------------------------------
 */

static bool only_second_is_left(void)
{
	return number("id") == 2 && number("written") >= 3;
}

START_TEST(schedules_come_and_go)
{
	struct ctl_schedule_config other = often;

	other.dir = DIR "2";
	ck_assert_uint_eq(add(&often), 1);
	ck_assert_uint_eq(add(&other), 2);
	ck_assert(ctl_schedules_remove(all, 1));
	ck_assert(!ctl_schedules_remove(all, 1));
	ck_assert(!ctl_schedules_remove(all, 7));
	run_until(only_second_is_left);
	ck_assert_uint_eq(add(&often), 3); /* the folder is free again */
	json_t *list = ctl_schedules_list(all);
	ck_assert_uint_eq(json_array_size(list), 2);
	ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(list, 1), "id")), 3);
	json_decref(list);
}
END_TEST

START_TEST(there_are_not_too_many)
{
	struct ctl_schedule_config c = often;
	uint32_t id;
	char dir[16];

	c.dir = dir;
	c.every_ns = CTL_SCHEDULE_EVERY_MAX_NS;
	for (int i = 0; i < CTL_SCHEDULES_MAX; i++) {
		snprintf(dir, sizeof(dir), "%d", i);
		ck_assert_int_eq(ctl_schedules_add(all, &c, CTL_SCHEDULE_OPEN_LATER, &id, &err),
				 GS_OK);
	}
	ck_assert_int_eq(ctl_schedules_add(all, &c, CTL_SCHEDULE_OPEN_LATER, &id, &err),
			 GS_ETOOBIG);
	finish();
	ck_assert_uint_eq(captures, 0); /* none had its turn */
}
END_TEST

/* --- triggers ------------------------------------------------------------------------------------
 */

static const struct ctl_schedule_config triggers = {
	.dir = DIR, .triggers = true, .max_stopped = 1, .hung_ns = CTL_SCHEDULE_WATCH_MIN_NS
};

static bool triggered_twice(void)
{
	return number("triggered") == 2;
}

START_TEST(triggers_are_taken_with_what_the_console_said)
{
	(void)add(&triggers);
	trigger(SS_REASON_CONSOLE);
	trigger(SS_REASON_PANIC);
	trigger(SS_REASON_PANIC); /* so soon after the other: counted only */
	run_until(triggered_twice);
	ck_assert_uint_eq(number("suppressed"), 1);
	finish();
	const struct asked *last = &asked[captures - 1];
	ck_assert_uint_eq(last->reason, SS_REASON_CONSOLE); /* the panic came first */
	ck_assert_uint_eq(last[-1].reason, SS_REASON_PANIC);
	ck_assert_uint_eq(last->flags, KCD_SS_REQ_THREAD_WAITINFO);
	ck_assert_uint_eq(last[-1].flags, KCD_SS_REQ_THREAD_WAITINFO | SS_KERNEL_LOG);
	ck_assert_uint_eq(last->console_lines, 1);
	ck_assert_str_eq(last->line, "last words");
}
END_TEST

START_TEST(schedules_without_triggers_have_none)
{
	struct ctl_schedule_config c = often;

	c.every_ns = CTL_SCHEDULE_EVERY_MAX_NS;
	(void)add(&c);
	trigger(SS_REASON_PANIC);
	finish();
	for (uint32_t i = 0; i < captures; i++)
		ck_assert_uint_eq(asked[i].reason, SS_REASON_SCHEDULE);
}
END_TEST

START_TEST(triggers_of_an_ending_guest_are_taken)
{
	(void)add(&triggers);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	ctl_schedules_guest_ended(all);
	trigger(SS_REASON_PANIC);
	finish(); /* at once: it waits for the capture */
	ck_assert_uint_ge(captures, 1);
	ck_assert_uint_eq(asked[captures - 1].reason, SS_REASON_PANIC);
}
END_TEST

/* --- triggers without room -----------------------------------------------------------------------
 */

/* For triggers alone: nothing else is due that could find out whether there is room. */
static const struct ctl_schedule_config waiting = { .dir = DIR,
						    .triggers = true,
						    .max_stopped = 1 };

static void set_room(bool is_there)
{
	const struct rlimit limit = { is_there ? RLIM_INFINITY : 100, RLIM_INFINITY };

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static uint64_t wanted;

static bool has_kept(void)
{
	return number("kept") == wanted;
}

static bool has_lost(void)
{
	return number("failed") == wanted;
}

static bool has_triggered(void)
{
	return number("triggered") == wanted && !number("kept");
}

static void wait_for(bool (*holds)(void), uint64_t count)
{
	wanted = count;
	run_until(holds);
}

/* Reasons in the index, in its order, each taken between two moments and named by that. */
static void check_index(const uint32_t *reasons, size_t count, uint64_t from_us, uint64_t to_us)
{
	json_error_t why;
	json_t *root = json_load_file(DIR "/index.json", 0, &why);
	const json_t *list = json_object_get(root, "captures");

	ck_assert_msg(root, "%s", why.text);
	ck_assert_uint_eq(json_array_size(list), count);
	for (size_t i = 0; i < count; i++) {
		const json_t *o = json_array_get(list, i);
		const uint64_t us = (uint64_t)json_integer_value(json_object_get(o, "taken_us"));
		const char *file = json_string_value(json_object_get(o, "file"));
		char name[CTL_STORE_NAME_MAX], path[2 * CTL_STORE_NAME_MAX];

		ck_assert_str_eq(json_string_value(json_object_get(o, "reason")),
				 ss_reason_name(reasons[i]));
		ck_assert_uint_ge(us, from_us);
		ck_assert_uint_le(us, to_us);
		ctl_store_name(us, reasons[i], false, name);
		ck_assert_str_eq(file, name);
		snprintf(path, sizeof(path), DIR "/%s", file);
		ck_assert_uint_eq(folder_size(path),
				  (size_t)json_integer_value(json_object_get(o, "bytes")));
	}
	json_decref(root);
}

START_TEST(trigger_s_capture_without_room_is_written_when_there_is_some)
{
	static const uint32_t reasons[] = { SS_REASON_CONSOLE, SS_REASON_OOPS };
	const uint64_t from_us = gs_clock_wall_us();

	(void)add(&waiting);
	set_room(false);
	trigger(reasons[0]);
	wait_for(has_kept, 1);
	ck_assert(says_failure("File too large"));
	trigger(reasons[1]); /* is taken although it is known that there is no room */
	wait_for(has_kept, 2);
	ck_assert_uint_eq(number("failed"), 0);
	ck_assert_uint_eq(number("captures"), 0);
	const uint64_t to_us = gs_clock_wall_us();
	set_room(true);
	wait_for(has_triggered, 2);
	ck_assert(!says_failure(""));
	ck_assert_uint_eq(number("written"), 2);
	ck_assert_uint_eq(number("failed"), 0);
	ck_assert_uint_eq(captures, 2);
	check_index(reasons, ARRAY_SIZE(reasons), from_us, to_us);
}
END_TEST

START_TEST(newest_of_too_many_triggers_are_kept)
{
	static const uint32_t reasons[] = { SS_REASON_PANIC,	 SS_REASON_OOPS,
					    SS_REASON_HUNG_TASK, SS_REASON_SOFT_LOCKUP,
					    SS_REASON_CONSOLE,	 SS_REASON_TIMEOUT };
	const uint32_t lost = ARRAY_SIZE(reasons) - CTL_KEPT_MAX;

	(void)add(&waiting);
	set_room(false);
	for (uint32_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		trigger(reasons[i]);
		wait_for(i < CTL_KEPT_MAX ? has_kept : has_lost,
			 i < CTL_KEPT_MAX ? i + 1 : i + 1 - CTL_KEPT_MAX);
	}
	ck_assert_uint_eq(number("kept"), CTL_KEPT_MAX);
	set_room(true);
	finish(); /* tries them once more */
	check_index(reasons + lost, CTL_KEPT_MAX, 0, UINT64_MAX);
}
END_TEST

START_TEST(what_is_kept_goes_before_the_next_capture)
{
	static const uint32_t first = SS_REASON_PANIC;
	struct ctl_schedule_config c = often;

	c.every_ns = CTL_SCHEDULE_EVERY_MAX_NS;
	c.triggers = true;
	set_room(false);
	ck_assert_int_eq(mkdir(DIR, 0700), 0);
	folder_put(DIR "/index.json", "{\"schema\": 1, \"captures\": [\n]}\n");
	uint32_t id;
	ck_assert_int_eq(ctl_schedules_add(all, &c, CTL_SCHEDULE_OPEN_LATER, &id, &err), GS_OK);
	wait_for(has_lost, 1); /* the first of the schedule */
	trigger(first);
	wait_for(has_kept, 1);
	set_room(true);
	trigger(SS_REASON_OOPS);
	wait_for(has_triggered, 2);
	const uint32_t reasons[] = { first, SS_REASON_OOPS };
	check_index(reasons, ARRAY_SIZE(reasons), 0, UINT64_MAX);
}
END_TEST

START_TEST(what_is_kept_is_lost_if_there_is_no_room_at_the_end)
{
	(void)add(&waiting);
	set_room(false);
	trigger(SS_REASON_PANIC);
	wait_for(has_kept, 1);
	finish();
	set_room(true);
	check_index(NULL, 0, 0, 0);
}
END_TEST

START_TEST(removed_schedule_writes_what_it_has_kept)
{
	static const uint32_t reasons[] = { SS_REASON_PANIC };
	const uint32_t id = add(&waiting);

	set_room(false);
	trigger(SS_REASON_PANIC);
	wait_for(has_kept, 1);
	set_room(true);
	ck_assert(ctl_schedules_remove(all, id));
	finish();
	check_index(reasons, 1, 0, UINT64_MAX);
}
END_TEST

START_TEST(trigger_whose_capture_fails_has_nothing_to_keep)
{
	(void)add(&waiting);
	fails = true;
	trigger(SS_REASON_PANIC);
	wait_for(has_lost, 1);
	ck_assert_uint_eq(number("kept"), 0);
	ck_assert(says_failure("the guest does not answer"));
}
END_TEST

static uint64_t seen_at;

static bool looked_again(void)
{
	return number("looks") > seen_at + 2;
}

static bool triggered(void)
{
	return number("triggered") == 1;
}

START_TEST(hung_thread_is_looked_for)
{
	state = 'D';
	(void)add(&triggers);
	run_until(looked_again);
	ck_assert_uint_eq(number("triggered"), 0); /* the guest's clock stands still */
	ck_assert_uint_eq(number("captures"), 0);
	guest_clock_ns += CTL_SCHEDULE_WATCH_MIN_NS;
	run_until(triggered);
	seen_at = number("looks");
	run_until(looked_again);
	ck_assert_uint_eq(number("triggered"), 1);
	ck_assert_uint_eq(number("captures"), 1);
	finish();
}
END_TEST

START_TEST(ended_guest_is_not_looked_at)
{
	(void)add(&often);
	run_until(wrote_more);
	ctl_schedules_guest_ended(all);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	const uint32_t then = captures;
	finish();
	ck_assert_uint_le(captures, then + 1);
}
END_TEST

Suite *suite_schedules(void)
{
	Suite *s = suite_create("schedules");
	TCase *tc = tcase_create("schedules");

	tcase_set_timeout(tc, 300);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, captures_are_taken_kept_and_counted);
	tcase_add_test(tc, deltas_are_between_full_ones);
	tcase_add_test(tc, budget_makes_captures_fewer);
	tcase_add_test(tc, failing_captures_are_counted_and_then_taken_again);
	tcase_add_test(tc, full_disk_stops_no_guest_and_passes);
	tcase_add_test(tc, folder_that_cannot_be_used_is_told_at_once_or_later);
	tcase_add_test(tc, what_makes_no_sense_is_refused);
	tcase_add_test(tc, schedules_come_and_go);
	tcase_add_test(tc, there_are_not_too_many);
	tcase_add_test(tc, triggers_are_taken_with_what_the_console_said);
	tcase_add_test(tc, schedules_without_triggers_have_none);
	tcase_add_test(tc, triggers_of_an_ending_guest_are_taken);
	tcase_add_test(tc, trigger_s_capture_without_room_is_written_when_there_is_some);
	tcase_add_test(tc, newest_of_too_many_triggers_are_kept);
	tcase_add_test(tc, what_is_kept_goes_before_the_next_capture);
	tcase_add_test(tc, what_is_kept_is_lost_if_there_is_no_room_at_the_end);
	tcase_add_test(tc, removed_schedule_writes_what_it_has_kept);
	tcase_add_test(tc, trigger_whose_capture_fails_has_nothing_to_keep);
	tcase_add_test(tc, hung_thread_is_looked_for);
	tcase_add_test(tc, ended_guest_is_not_looked_at);
	suite_add_tcase(s, tc);
	return s;
}
