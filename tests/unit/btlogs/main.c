/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests of a guest's backtrace logs: fed by captures, sampled, saved. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "control/btlogs_priv.h"
#include "control/worker.h"
#include "introspect/btlog/book.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/btlogs/suites.h"
#include "tests/unit/linux/linux_guest.h"

static struct linux_guest g;
static struct ctl_btlogs *b;
static struct gs_error err;
static struct guest_ops held_ops; /* with hold and release */
static uint32_t holds, releases, fail_hold;

static void make(const struct lg_form *form)
{
	lg_create(&g, form);
	lg_populate(&g);
	ck_assert_int_eq(ctl_btlogs_create(&g.m.guest, NULL, 0, &b, &err), GS_OK);
}

static void done(void)
{
	ctl_btlogs_destroy(b);
	b = NULL;
	ck_assert_int_eq(g.m.stop_depth, 0);
	lg_destroy(&g);
}

/* Take a capture and feed it. @return threads in it, idle ones included */
static uint32_t feed(void)
{
	const struct ss_request request = { .version = SS_REQUEST_VERSION,
					    .size = sizeof(request),
					    .pid = SS_PID_ALL };
	struct ss_session *session;
	struct ss_result result = { 0 };

	ck_assert_int_eq(ss_session_create(&g.m.guest, &session, &err), GS_OK);
	ck_assert_int_eq(ss_capture(session, &request, &result, &err), GS_OK);
	uint32_t n = result.threads + g.form.vcpus;
	ctl_btlogs_feed(b, result.data, result.size);
	ss_result_deinit(&result);
	ss_session_destroy(session);
	return n;
}

static void load(const char *log, struct btl_book *book)
{
	uint8_t *data;
	size_t len;

	ck_assert_msg(ctl_btlogs_save(b, log, &data, &len, &err) == GS_OK, "%s", err.text);
	ck_assert_msg(btl_book_decode(data, len, book, &err) == GS_OK, "%s", err.text);
	free(data);
}

static uint64_t count_of_op(const struct btl_book *book, const char *name)
{
	struct btl_counts c;
	uint64_t n = 0;

	ck_assert_int_eq(btl_count_ops(book, NULL, &c, &err), GS_OK);
	for (uint32_t i = 0; i < c.count; i++)
		if (!strcmp(c.op[i].name, name))
			n = c.op[i].count;
	btl_counts_deinit(&c);
	return n;
}

static uint64_t total_of_function(const struct btl_book *book, const char *name)
{
	struct btl_counts c;
	char buf[BTL_FUNCTION_TEXT];
	uint64_t n = 0;

	ck_assert_int_eq(btl_count_functions(book, NULL, &c, &err), GS_OK);
	for (uint32_t i = 0; i < c.count; i++)
		if (!strcmp(btl_function_name(book, &c.function[i], buf), name))
			n = c.function[i].total;
	btl_counts_deinit(&c);
	return n;
}

START_TEST(every_thread_of_a_capture_is_recorded)
{
	struct ctl_btlogs_stats s;
	struct btl_book book = { 0 };

	make(&(struct lg_form){ .style = 'A' });
	uint32_t n = feed();
	ck_assert_uint_ge(n, 7);
	ck_assert_uint_eq(feed(), n);
	ctl_btlogs_stats_get(b, &s);
	ck_assert(s.has_library);
	ck_assert_str_eq(s.release, "6.1.0-made-up");
	ck_assert_uint_eq(s.threads.held, 2 * n);
	ck_assert_uint_eq(s.threads.recorded, 2 * n);
	ck_assert_uint_eq(s.samples.held, 0);
	ck_assert_uint_le(s.library.stacks, n); /* equal stacks are kept once */

	load("threads", &book);
	ck_assert_uint_eq(book.entries, 2 * n);
	ck_assert_uint_ge(count_of_op(&book, "idle"), 2 * g.form.vcpus);
	ck_assert_uint_eq(count_of_op(&book, "zombie"), 2);
	ck_assert_uint_gt(count_of_op(&book, "sleeping"), 0);
	ck_assert_uint_gt(total_of_function(&book, "vfs_read"), 0);
	btl_book_deinit(&book);
	done();
}
END_TEST

/* "name [module]" of frames, with how many records have them. */
static uint64_t total_of_frame(const struct btl_book *book, const char *function,
			       const char *module)
{
	struct btl_counts c;
	char buf[BTL_FUNCTION_TEXT];
	uint64_t n = 0;

	ck_assert_int_eq(btl_count_functions(book, NULL, &c, &err), GS_OK);
	for (uint32_t i = 0; i < c.count; i++) {
		const char *of = btl_frame_module(book, c.function[i].frame);

		if (of && !strcmp(of, module) &&
		    !strcmp(btl_function_name(book, &c.function[i], buf), function))
			n = c.function[i].total;
	}
	btl_counts_deinit(&c);
	return n;
}

static struct lg_loaded one;

/* The thread that sleeps does so in a module, and in a program that calls it. */
static void block_in_module(void)
{
	struct lg_thread *t = &g.threads[4];
	uint64_t at;

	one = lg_load_module(&g, "one", LG_MODULE);
	lg_module_symbol(&one, "one_read", LG_MODULE + 0x100);
	lg_load_program(&g, "bpf_prog_6deef7357e7b4530", LG_MODULE + 0x80000, 0x400, &at);
	lg_push(&g, t, LG_MODULE + 0x80024);
	lg_push(&g, t, LG_MODULE + 0x120);
	t->task->fp = t->fp;
}

START_TEST(threads_in_modules_have_their_functions)
{
	struct btl_book book = { 0 };

	make(&(struct lg_form){ .style = 'A' });
	block_in_module();
	feed();
	feed();
	load("threads", &book);
	ck_assert_uint_eq(total_of_frame(&book, "one_read", "one"), 2);
	ck_assert_uint_eq(total_of_frame(&book, "bpf_prog_6deef7357e7b4530", "bpf"), 2);
	btl_book_deinit(&book);
	// another module comes to lie where it was: the records stay, without a name
	lg_unload_module(&g, &one);
	one = lg_load_module(&g, "other", LG_MODULE);
	lg_module_symbol(&one, "other_read", LG_MODULE + 0x100);
	load("threads", &book);
	ck_assert_uint_eq(total_of_frame(&book, "one_read", "one"), 0);
	ck_assert_uint_eq(total_of_frame(&book, "other_read", "other"), 0);
	ck_assert_uint_eq(total_of_function(&book, "0xffff800001000120"), 2);
	ck_assert_uint_eq(total_of_frame(&book, "bpf_prog_6deef7357e7b4530", "bpf"), 2);
	btl_book_deinit(&book);
	// and is named once the records of the first one are gone
	ck_assert_int_eq(ctl_btlogs_act(b, NULL, CTL_BTLOG_RESET, &err), GS_OK);
	feed();
	load("threads", &book);
	ck_assert_uint_eq(total_of_frame(&book, "other_read", "other"), 1);
	btl_book_deinit(&book);
	done();
}
END_TEST

START_TEST(disabled_log_takes_nothing_and_reset_empties)
{
	struct ctl_btlogs_stats s;
	uint8_t *data;
	size_t len;

	make(&(struct lg_form){ .style = 'B' });
	feed();
	ck_assert_int_eq(ctl_btlogs_act(b, "threads", CTL_BTLOG_DISABLE, &err), GS_OK);
	feed();
	ctl_btlogs_stats_get(b, &s);
	ck_assert(!s.threads.enabled && s.samples.enabled);
	ck_assert_uint_eq(s.threads.held, 0);
	ck_assert_int_eq(ctl_btlogs_save(b, NULL, &data, &len, &err), GS_ENOENT);
	ck_assert_int_eq(ctl_btlogs_act(b, NULL, CTL_BTLOG_ENABLE, &err), GS_OK);
	uint32_t n = feed();
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_eq(s.threads.held, n);
	ck_assert_int_eq(ctl_btlogs_act(b, "threads", CTL_BTLOG_RESET, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	ck_assert(s.threads.enabled);
	ck_assert_uint_eq(s.threads.held, 0);
	done();
}
END_TEST

static enum gs_code capture(void *arg, const struct ss_request *request,
			    struct ss_result *result_out, struct gs_error *e)
{
	return ss_capture(arg, request, result_out, e);
}

static bool is_done;

static void on_done(struct ctl_job *job)
{
	ck_assert_msg(job->code == GS_OK, "%s", job->err.text);
	ck_assert_ptr_null(job->result.data);
	if (job->fd >= 0)
		close(job->fd);
	is_done = true;
}

static void fell_due(uv_timer_t *timer)
{
	uv_stop(timer->loop);
}

/* A worker over the guest, in a loop that does not run for ever. */
static struct ctl_worker *w;
static struct ss_session *session;
static uv_loop_t loop;
static uv_timer_t patience;

static void worker_begin(void)
{
	make(&(struct lg_form){ .style = 'A' });
	ck_assert_int_eq(ss_session_create(&g.m.guest, &session, &err), GS_OK);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(uv_timer_init(&loop, &patience), 0);
	ck_assert_int_eq(uv_timer_start(&patience, fell_due, 60000, 0), 0);
	const struct ctl_worker_config config = { .guest = &g.m.guest,
						  .capture = capture,
						  .arg = session,
						  .session = session,
						  .btlogs = b };
	ck_assert_int_eq(ctl_worker_create(&loop, &config, &w, &err), GS_OK);
}

static void worker_do(struct ctl_job *job)
{
	is_done = false;
	ctl_worker_post(w, job);
	while (!is_done && uv_run(&loop, UV_RUN_ONCE) && uv_is_active((uv_handle_t *)&patience))
		;
	ck_assert(is_done);
}

/* Has recorded all when it returns. */
static void worker_end(void)
{
	ctl_worker_close(w);
	uv_close((uv_handle_t *)&patience, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	ss_session_destroy(session);
}

/* Who asked for a capture does not wait for the logs; what is asked of them next has it. */
START_TEST(capture_is_answered_before_it_is_recorded)
{
	static struct ctl_job job = { .kind = CTL_JOB_SNAP,
				      .ask.pid = SS_PID_ALL,
				      .done = on_done };
	static struct ctl_btlogs_stats s;

	worker_begin();
	pthread_mutex_lock(&b->lock); /* somebody reads the logs */
	worker_do(&job);
	pthread_mutex_unlock(&b->lock);
	worker_end();
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_eq(s.threads.held, job.result.threads + g.form.vcpus);
	done();
}
END_TEST

START_TEST(capture_that_is_saved_is_recorded_once)
{
	static struct ctl_job save = { .kind = CTL_JOB_SNAP,
				       .ask = { .flags = KCD_SS_SAVE_IN_KERNEL_BUFFER,
						.pid = SS_PID_ALL },
				       .done = on_done };
	static struct ctl_job retrieve = { .kind = CTL_JOB_SNAP,
					   .ask = { .flags = KCD_SS_RETRIEVE_EXISTING_BUFFER,
						    .pid = SS_PID_ALL },
					   .done = on_done };
	static struct ctl_btlogs_stats s;

	worker_begin();
	worker_do(&save);
	worker_do(&retrieve);
	worker_do(&retrieve);
	worker_end();
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_gt(save.result.threads, 0);
	ck_assert_uint_eq(s.threads.held, save.result.threads + g.form.vcpus);
	done();
}
END_TEST

START_TEST(log_of_another_name_is_refused)
{
	uint8_t *data;
	size_t len;

	make(&(struct lg_form){ .style = 'A' });
	feed();
	ck_assert_int_eq(ctl_btlogs_act(b, "thread", CTL_BTLOG_RESET, &err), GS_ENOENT);
	ck_assert_ptr_nonnull(strstr(err.text, "\"threads\" and \"samples\""));
	ck_assert_int_eq(ctl_btlogs_save(b, "", &data, &len, &err), GS_ENOENT);
	ck_assert_int_eq(ctl_btlogs_save(b, "samples", &data, &len, &err), GS_ENOENT);
	done();
}
END_TEST

START_TEST(guest_without_a_kernel_has_no_logs)
{
	static uint8_t zeros[1 << 20];
	static struct memory_guest m;
	struct ctl_btlogs_stats s;
	uint8_t *data;
	size_t len;

	memory_guest_init(&m, 1);
	ck_assert_int_eq(memory_guest_add(&m, GPA(0x40000000), zeros, sizeof(zeros)), GS_OK);
	ck_assert_int_eq(ctl_btlogs_create(&m.guest, NULL, 0, &b, &err), GS_OK);
	ctl_btlogs_feed(b, "nothing", 7);
	ck_assert_int_eq(ctl_btlogs_sample(b, 99, &err), GS_ENOENT);
	ck_assert_int_eq(ctl_btlogs_act(b, NULL, CTL_BTLOG_RESET, &err), GS_ENOENT);
	ck_assert_int_eq(ctl_btlogs_save(b, NULL, &data, &len, &err), GS_ENOENT);
	ctl_btlogs_stats_get(b, &s);
	ck_assert(!s.has_library);
	ck_assert_int_eq(m.stop_depth, 0);
	ctl_btlogs_destroy(b);
	b = NULL;
}
END_TEST

START_TEST(limits_are_checked)
{
	static struct memory_guest m;

	memory_guest_init(&m, 1);
	ck_assert_int_eq(ctl_btlogs_create(&m.guest, NULL, BTL_LIMIT_MIN - 1, &b, &err), GS_EINVAL);
	ck_assert_int_eq(ctl_btlogs_create(&m.guest, NULL, BTL_LIMIT_MAX + 1, &b, &err), GS_EINVAL);
	ck_assert_int_eq(ctl_btlogs_create(&m.guest, NULL, BTL_LIMIT_MIN, &b, &err), GS_OK);
	ck_assert_int_eq(ctl_btlogs_sample(b, CTL_SAMPLE_HZ_MAX + 1, &err), GS_EINVAL);
	ctl_btlogs_destroy(b);
	b = NULL;
}
END_TEST

/* --- sampling ------------------------------------------------------------------------------------ */

static void await_rounds(uint64_t rounds)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct ctl_btlogs_stats s;

	for (int i = 0; i < 20000; i++) {
		ctl_btlogs_stats_get(b, &s);
		if (s.sampling.rounds >= rounds || !s.sampling.hz)
			return;
		nanosleep(&pause, NULL);
	}
	ck_abort_msg("no %d rounds", (int)rounds);
}

static enum gs_code hold(void *priv, uint32_t vcpu, struct gs_error *e)
{
	(void)priv;
	if (fail_hold == vcpu + 1)
		return gs_fail(e, GS_ETIMEDOUT, "does not leave");
	ck_assert_uint_eq(holds, releases); /* one at a time */
	holds++;
	g.m.stop_depth++; /* or no registers are told */
	return GS_OK;
}

static enum gs_code release(void *priv, uint32_t vcpu, struct gs_error *e)
{
	(void)priv;
	(void)vcpu;
	(void)e;
	releases++;
	g.m.stop_depth--;
	return GS_OK;
}

static void make_holdable(void)
{
	make(&(struct lg_form){ .style = 'A', .vcpus = 3 });
	held_ops = *g.m.guest.ops;
	held_ops.hold_vcpu = hold;
	held_ops.release_vcpu = release;
	g.m.guest.ops = &held_ops;
	holds = releases = fail_hold = 0;
}

START_TEST(running_vcpus_are_sampled_one_at_a_time)
{
	struct ctl_btlogs_stats s;
	struct btl_book book = { 0 };

	make_holdable();
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	uint32_t stops = g.stops; /* of the kernel's search */
	await_rounds(20);
	ck_assert_int_eq(ctl_btlogs_sample(b, 0, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_ge(s.sampling.rounds, 20);
	ck_assert_uint_eq(s.sampling.hz, 0);
	ck_assert(s.sampling.one_by_one);
	ck_assert_uint_eq(s.sampling.samples, 3 * s.sampling.rounds);
	ck_assert_uint_eq(s.sampling.failed + s.sampling.unknown, 0);
	ck_assert_uint_eq(g.stops, stops); /* the guest as a whole was never stopped */
	ck_assert_uint_eq(holds, releases);
	ck_assert_uint_gt(holds, 0);

	load("samples", &book);
	/* vCPU 0 executes 101 in the kernel, the others are idle */
	ck_assert_uint_eq(count_of_op(&book, "running"), s.sampling.rounds);
	ck_assert_uint_eq(count_of_op(&book, "idle"), 2 * s.sampling.rounds);
	ck_assert_uint_eq(s.sampling.idle, 2 * s.sampling.rounds);
	ck_assert_uint_eq(total_of_function(&book, "vfs_read"), s.sampling.rounds);
	btl_book_deinit(&book);
	done();
}
END_TEST

START_TEST(samples_in_modules_have_their_functions)
{
	struct ctl_btlogs_stats s;
	struct btl_book book = { 0 };

	make_holdable();
	block_in_module();
	lg_run(&g, 0, &g.threads[4], LG_MODULE + 0x104);
	g.m.regs[0].x[30] = LG_MODULE + 0x80024;
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	await_rounds(5);
	ck_assert_int_eq(ctl_btlogs_sample(b, 0, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	load("samples", &book);
	ck_assert_uint_eq(count_of_op(&book, "running"), s.sampling.rounds);
	ck_assert_uint_eq(total_of_frame(&book, "one_read", "one"), s.sampling.rounds);
	ck_assert_uint_eq(total_of_frame(&book, "bpf_prog_6deef7357e7b4530", "bpf"),
			  s.sampling.rounds);
	btl_book_deinit(&book);
	done();
}
END_TEST

START_TEST(user_mode_is_a_frame_of_its_own)
{
	struct ctl_btlogs_stats s;
	struct btl_book book = { 0 };

	make_holdable();
	lg_run_user(&g, 0, &g.threads[3], false);
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	await_rounds(5);
	ck_assert_int_eq(ctl_btlogs_sample(b, 0, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_eq(s.sampling.user, s.sampling.rounds);
	load("samples", &book);
	ck_assert_uint_eq(total_of_function(&book, "[user]"), s.sampling.rounds);
	btl_book_deinit(&book);
	done();
}
END_TEST

START_TEST(vcpu_that_cannot_be_stopped_is_counted)
{
	struct ctl_btlogs_stats s;

	make_holdable();
	fail_hold = 1;
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	await_rounds(5);
	ck_assert_int_eq(ctl_btlogs_sample(b, 0, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_eq(s.sampling.failed, s.sampling.rounds);
	ck_assert_uint_eq(s.sampling.samples, 2 * s.sampling.rounds);
	done();
}
END_TEST

START_TEST(source_that_stops_all_is_sampled_so)
{
	struct ctl_btlogs_stats s;

	make(&(struct lg_form){ .style = 'A', .vcpus = 2 });
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	await_rounds(5);
	ck_assert_int_eq(ctl_btlogs_sample(b, 0, &err), GS_OK);
	ctl_btlogs_stats_get(b, &s);
	ck_assert(!s.sampling.one_by_one);
	ck_assert_uint_eq(s.sampling.samples, 2 * s.sampling.rounds);
	ck_assert_uint_ge(g.stops, s.sampling.rounds);
	done();
}
END_TEST

/* A second start takes the place of the first; destroy ends what runs. */
START_TEST(sampling_is_changed_and_ended)
{
	make_holdable();
	ck_assert_int_eq(ctl_btlogs_sample(b, 100, &err), GS_OK);
	ck_assert_int_eq(ctl_btlogs_sample(b, 2000, &err), GS_OK);
	await_rounds(3);
	done();
}
END_TEST

static enum gs_code no_resume(struct linux_guest *lg, uint32_t nth)
{
	(void)lg;
	return nth > 3 ? GS_ESYS : GS_OK;
}

START_TEST(sampling_ends_when_the_guest_cannot_be_resumed)
{
	struct ctl_btlogs_stats s;

	make(&(struct lg_form){ .style = 'A', .vcpus = 2 });
	g.on_resume = no_resume;
	ck_assert_int_eq(ctl_btlogs_sample(b, 1000, &err), GS_OK);
	await_rounds(1000);
	ctl_btlogs_stats_get(b, &s);
	ck_assert_uint_eq(s.sampling.hz, 0);
	ck_assert_int_ne(s.sampling.end.code, GS_OK);
	ctl_btlogs_destroy(b);
	b = NULL;
	lg_destroy(&g);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control/btlogs");
	TCase *c = tcase_create("logs");

	tcase_set_timeout(c, 120); /* other programs may have the CPUs */
	tcase_add_test(c, every_thread_of_a_capture_is_recorded);
	tcase_add_test(c, threads_in_modules_have_their_functions);
	tcase_add_test(c, disabled_log_takes_nothing_and_reset_empties);
	tcase_add_test(c, capture_is_answered_before_it_is_recorded);
	tcase_add_test(c, capture_that_is_saved_is_recorded_once);
	tcase_add_test(c, log_of_another_name_is_refused);
	tcase_add_test(c, guest_without_a_kernel_has_no_logs);
	tcase_add_test(c, limits_are_checked);
	suite_add_tcase(s, c);
	c = tcase_create("sampling");
	tcase_set_timeout(c, 120);
	tcase_add_test(c, running_vcpus_are_sampled_one_at_a_time);
	tcase_add_test(c, samples_in_modules_have_their_functions);
	tcase_add_test(c, user_mode_is_a_frame_of_its_own);
	tcase_add_test(c, vcpu_that_cannot_be_stopped_is_counted);
	tcase_add_test(c, source_that_stops_all_is_sampled_so);
	tcase_add_test(c, sampling_is_changed_and_ended);
	tcase_add_test(c, sampling_ends_when_the_guest_cannot_be_resumed);
	suite_add_tcase(s, c);
	suite_add_tcase(s, tcase_code());

	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
