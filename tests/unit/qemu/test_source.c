/* SPDX-License-Identifier: Apache-2.0 */
/* Stop, resume and registers of a QEMU guest, and who resumes it when we cannot. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/qemu_source.h"
#include "tests/unit/qemu/fake_qemu.h"
#include "tests/unit/qemu/suites.h"

#define RAM_SIZE (1u << 20)

static char *ram;

static void make_ram(void)
{
	ram = mmap(NULL, RAM_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(ram, 0x5a, RAM_SIZE);
}

/* A source over a fake; waits are as long as @p wait_ns. */
static enum gs_code open_fake(struct fake_qemu *f, uint64_t wait_ns, struct guest_source *s,
			      struct gs_error *err)
{
	struct guest_link *link;

	f->ram = ram;
	f->ram_size = RAM_SIZE;
	int fd = fake_start(f);
	enum gs_code rc = guest_qmp_link_start(fd, gs_clock_ns() + 5 * GS_NS_PER_SEC, &link, err);
	return rc ? rc : guest_qemu_source_create(link, wait_ns, s, err);
}

static void open_good(struct fake_qemu *f, uint64_t wait_ns, struct guest_source *s)
{
	struct gs_error err = { 0 };

	ck_assert_msg(!open_fake(f, wait_ns, s, &err), "%s", err.text);
}

START_TEST(stops_nest_and_the_last_resume_counts)
{
	struct fake_qemu f = { 0 };
	struct guest_source s;
	struct guest_vcpu_regs regs;

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_uint_eq(s.guest->vcpu_count, 2);
	ck_assert_uint_eq(s.guest->cluster_count, 1);
	ck_assert_int_eq(guest_vcpu_regs(s.guest, 0, &regs), GS_EBUSY);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_vcpu_regs(s.guest, 1, &regs), GS_OK);
	ck_assert_uint_eq(regs.valid, GUEST_REGS_GENERAL);
	ck_assert_uint_eq(regs.pc, 0x1001);
	ck_assert_uint_eq(regs.sp_el1, 0x2001);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	ck_assert(!f.running);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	ck_assert(f.running);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_EBUSY);
	ck_assert_uint_eq(f.stops, 1);
	ck_assert_uint_eq(f.conts, 1);
	guest_source_close(&s);
	fake_end(&f);
	ck_assert_uint_eq(f.conts, 1);
	ck_assert_uint_eq(f.resets, 0);
}
END_TEST

START_TEST(a_guest_found_paused_is_left_paused)
{
	struct fake_qemu f = { .paused = true };
	struct guest_source s;

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	if (_i == 0)
		ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
	ck_assert(!f.running);
	ck_assert_uint_eq(f.stops + f.conts, 0);
}
END_TEST

START_TEST(closing_a_stopped_guest_resumes_it)
{
	struct fake_qemu f = { 0 };
	struct guest_source s;

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
	ck_assert(f.running);
	ck_assert_uint_eq(f.conts, 1);
}
END_TEST

START_TEST(a_stop_that_is_not_answered_is_undone)
{
	static const enum fake_fault faults[] = { FAKE_LATE, FAKE_RUBBISH };
	struct fake_qemu f = { .fault = faults[_i], .faulty = "stop" };
	struct guest_source s;
	struct gs_error err = { 0 };

	open_good(&f, 100 * GS_NS_PER_MS, &s);
	ck_assert_int_ne(guest_stop(s.guest, &err), GS_OK);
	ck_assert_msg(strstr(err.text, "stays to resume"), "%s", err.text);
	fake_release(&f);
	guest_source_close(&s);
	fake_end(&f); /* the watcher stays until it has its answer */
	ck_assert(f.running);
	ck_assert_uint_eq(f.conts, _i ? 1 : 2); /* ours too, after a late answer */
	ck_assert_uint_eq(f.resets, 1);
}
END_TEST

START_TEST(a_late_stop_is_undone_and_the_connection_stays_good)
{
	struct fake_qemu f = { .fault = FAKE_SILENT, .faulty = "stop" };
	struct guest_source s;

	open_good(&f, 100 * GS_NS_PER_MS, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_ETIMEDOUT);
	ck_assert(fake_await_running(&f, true));
	ck_assert_uint_eq(fake_counts(&f).conts, 1);
	ck_assert_uint_eq(fake_counts(&f).resets, 0);
	f.fault = FAKE_NONE;
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(a_stop_that_is_refused_leaves_all_as_it_was)
{
	struct fake_qemu f = { .fault = FAKE_ERROR, .faulty = "stop" };
	struct guest_source s;

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_EBUSY);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_EBUSY);
	guest_source_close(&s);
	fake_end(&f);
	ck_assert_uint_eq(f.conts, 0);
}
END_TEST

START_TEST(a_resume_that_is_not_answered_happens_later)
{
	struct fake_qemu f = { .fault = FAKE_LATE, .faulty = "cont" };
	struct guest_source s;
	struct gs_error err = { 0 };

	open_good(&f, 100 * GS_NS_PER_MS, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, &err), GS_ETIMEDOUT);
	ck_assert_msg(strstr(err.text, "stays to resume"), "%s", err.text);
	ck_assert_int_ne(guest_stop(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	ck_assert(!f.running);
	fake_release(&f);
	ck_assert(fake_await_running(&f, true));
	fake_end(&f);
}
END_TEST

START_TEST(registers_that_do_not_come_in_time_end_the_stop)
{
	struct fake_qemu f = { 0 };
	struct guest_source s;

	open_good(&f, 100 * GS_NS_PER_MS, &s);
	f.fault = FAKE_SILENT; /* read by its thread after our next command has come to it */
	f.faulty = "human-monitor-command";
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_ETIMEDOUT);
	ck_assert_uint_eq(f.stops, 1);
	ck_assert(f.running);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(a_guest_without_registers_is_still_one)
{
	struct fake_qemu f = { .registers = "info registers: no such command\r\n" };
	struct guest_source s;
	struct guest_vcpu_regs regs;

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_msg(strstr(s.note, "no registers"), "%s", s.note);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_vcpu_regs(s.guest, 0, &regs), GS_OK);
	ck_assert_uint_eq(regs.valid, 0);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(a_qemu_that_ends_while_stopped_is_told)
{
	struct fake_qemu f = { .fault = FAKE_CLOSE, .faulty = "cont" };
	struct guest_source s;
	struct gs_error err = { 0 };

	open_good(&f, 5 * GS_NS_PER_SEC, &s);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, &err), GS_ESYS);
	ck_assert_msg(strstr(err.text, "closed"), "%s", err.text);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(opening_fails_with_a_reason_for_each_wrong_answer)
{
	static const struct {
		struct fake_qemu f;
		enum gs_code code;
	} cases[] = {
		{ { .fault = FAKE_ERROR, .faulty = "query-cpus-fast" }, GS_EBUSY },
		{ { .fault = FAKE_WRONG_TYPE, .faulty = "query-cpus-fast" }, GS_EMALFORMED },
		{ { .fault = FAKE_CLOSE, .faulty = "query-cpus-fast" }, GS_ESYS },
		{ { .fault = FAKE_CLOSE, .faulty = "human-monitor-command" }, GS_ESYS },
		{ { .fault = FAKE_WRONG_TYPE, .faulty = "human-monitor-command" }, GS_EMALFORMED },
		{ { .fault = FAKE_UNKNOWN, .faulty = "human-monitor-command" }, GS_ENOTSUP },
		{ { .map = "rubbish" }, GS_EMALFORMED },
	};
	struct fake_qemu f = cases[_i].f;
	struct guest_source s;
	struct gs_error err = { 0 };

	ck_assert_int_eq(open_fake(&f, 5 * GS_NS_PER_SEC, &s, &err), cases[_i].code);
	ck_assert_str_ne(err.text, "");
	fake_end(&f);
}
END_TEST

/* --- deadlines --- */

START_TEST(reads_end_in_time_for_the_deadline)
{
	struct fake_qemu f = { .shown = ram };
	struct guest_source s;
	struct gs_error err = { 0 };
	struct guest_link *link;
	uint64_t at = 0;
	enum gs_code rc;
	char byte;

	f.ram_size = RAM_SIZE;
	int fd = fake_start(&f);
	ck_assert_int_eq(guest_qmp_link_start(fd, gs_clock_ns() + 5 * GS_NS_PER_SEC, &link, &err),
			 GS_OK);
	ck_assert_int_eq(guest_qemu_source_create(link, 5 * GS_NS_PER_SEC, &s, &err), GS_OK);
	ck_assert_msg(strstr(s.access, "pmemsave"), "%s", s.access);
	const uint64_t deadline = gs_clock_ns() + GS_NS_PER_SEC;
	const uint64_t end = guest_set_deadline(s.guest, deadline);
	ck_assert_uint_lt(end, deadline);
	ck_assert_uint_ge(end, deadline - GS_NS_PER_SEC / 2 - GS_NS_PER_MS);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	do {
		rc = guest_read(s.guest, GPA(FAKE_RAM_START + at++ % RAM_SIZE), &byte, 1);
	} while (!rc);
	ck_assert_int_eq(rc, GS_ETIMEDOUT);
	ck_assert_uint_ge(gs_clock_ns(), end);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	ck_assert(fake_await_running(&f, true));
	/* it was that of one stop */
	ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START), &byte, 1), GS_OK);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_read(s.guest, GPA(FAKE_RAM_START), &byte, 1), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(a_stop_that_takes_longer_than_the_deadline_fails)
{
	struct fake_qemu f = { .fault = FAKE_SILENT, .faulty = "stop" };
	struct guest_source s;

	open_good(&f, 30 * GS_NS_PER_SEC, &s);
	const uint64_t start = gs_clock_ns();
	(void)guest_set_deadline(s.guest, start + 200 * GS_NS_PER_MS);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_ETIMEDOUT);
	ck_assert_uint_lt(gs_clock_ns() - start, 20 * GS_NS_PER_SEC);
	ck_assert(fake_await_running(&f, true));
	f.fault = FAKE_NONE;
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
}
END_TEST

START_TEST(the_watcher_resumes_at_the_deadline_and_we_may_go_on)
{
	struct fake_qemu f = { 0 };
	struct guest_source s;

	open_good(&f, 30 * GS_NS_PER_SEC, &s);
	for (uint32_t i = 1; i <= 2; i++) {
		(void)guest_set_deadline(s.guest, gs_clock_ns() + 200 * GS_NS_PER_MS);
		ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
		ck_assert(fake_await_running(&f, true)); /* this thread does nothing for it */
		ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
		ck_assert_uint_eq(fake_counts(&f).stops, i);
	}
	/* and not at one that is over */
	(void)guest_set_deadline(s.guest, gs_clock_ns() + 200 * GS_NS_PER_MS);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	const struct timespec longer = { .tv_nsec = 400 * (long)GS_NS_PER_MS };
	nanosleep(&longer, NULL); /* that something does not happen can only be waited for */
	ck_assert(fake_await_running(&f, false));
	ck_assert_int_eq(guest_resume(s.guest, NULL), GS_OK);
	guest_source_close(&s);
	fake_end(&f);
	ck_assert_uint_eq(f.resets, 0);
}
END_TEST

/* --- our death --- */

/*
 * A process that stops the guest and then stays; @return its number, once the guest stands
 *
 * @param limit_ns  how long it may stand; GUEST_NO_DEADLINE
 */
static pid_t hold_in_process(struct fake_qemu *f, struct guest_source *s, uint64_t limit_ns)
{
	int ready[2];
	char byte;

	ck_assert_int_eq(pipe(ready), 0);
	f->ram = ram;
	f->ram_size = RAM_SIZE;
	int fd = fake_connect(f);
	pid_t pid = fork();
	if (pid == 0) {
		struct guest_link *link;

		close(f->fd);
		close(ready[0]);
		alarm(60);
		if (guest_qmp_link_start(fd, gs_clock_ns() + 5 * GS_NS_PER_SEC, &link, NULL) ||
		    guest_qemu_source_create(link, 5 * GS_NS_PER_SEC, s, NULL))
			_exit(1);
		if (limit_ns != GUEST_NO_DEADLINE)
			(void)guest_set_deadline(s->guest, gs_clock_ns() + limit_ns);
		if (guest_stop(s->guest, NULL))
			_exit(1);
		GS_IGNORE(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	close(fd);
	close(ready[1]);
	fake_run(f);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

START_TEST(a_guest_is_resumed_when_we_are_killed)
{
	static const int signals[] = { SIGKILL, SIGSEGV, SIGABRT, SIGHUP };
	struct fake_qemu f = { 0 };
	struct guest_source s;
	pid_t pid = hold_in_process(&f, &s, GUEST_NO_DEADLINE);

	ck_assert(fake_await_running(&f, false));
	kill(pid, signals[_i]);
	ck_assert(fake_await_running(&f, true));
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	fake_end(&f);
	ck_assert_uint_eq(f.conts, 1);
	ck_assert_uint_eq(f.resets, 1);
}
END_TEST

START_TEST(a_guest_is_resumed_at_the_deadline_while_we_are_stopped)
{
	struct fake_qemu f = { 0 };
	struct guest_source s;
	pid_t pid = hold_in_process(&f, &s, GS_NS_PER_SEC);

	kill(pid, SIGSTOP);
	ck_assert(fake_await_running(&f, true));
	ck_assert_uint_eq(fake_counts(&f).conts, 1);
	ck_assert_uint_eq(fake_counts(&f).resets, 0);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	fake_end(&f);
	ck_assert(f.running);
}
END_TEST

START_TEST(a_guest_found_paused_stays_so_when_we_are_killed)
{
	struct fake_qemu f = { .paused = true };
	struct guest_source s;
	pid_t pid = hold_in_process(&f, &s, GUEST_NO_DEADLINE);

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	fake_end(&f);
	ck_assert(!f.running);
	ck_assert_uint_eq(f.conts, 0);
}
END_TEST

/* Kill each child of ours: there is one, the watcher. */
static void kill_watcher(void)
{
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), file));
	fclose(file);
	pid_t pid = (pid_t)strtol(text, NULL, 10);
	ck_assert_int_gt(pid, 1);
	siginfo_t info;
	kill(pid, SIGKILL);
	/* until it is dead, but without reaping it */
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
}

START_TEST(a_watcher_that_was_killed_is_replaced)
{
	struct fake_qemu f = { .fault = _i ? FAKE_LATE : FAKE_NONE, .faulty = "cont" };
	struct guest_source s;

	open_good(&f, 100 * GS_NS_PER_MS, &s);
	kill_watcher();
	ck_assert_int_eq(guest_stop(s.guest, NULL), GS_OK);
	kill_watcher();
	ck_assert_int_eq(guest_resume(s.guest, NULL), _i ? GS_ETIMEDOUT : GS_OK);
	guest_source_close(&s);
	fake_release(&f);
	ck_assert(fake_await_running(&f, true));
	fake_end(&f);
}
END_TEST

/* --- libvirt --- */

START_TEST(a_libvirt_that_is_not_qemus_is_refused)
{
	struct guest_source s;
	struct gs_error err = { 0 };

	/* libvirt's own test driver needs no daemon; without libvirt the code is the same */
	ck_assert_int_eq(guest_source_open_libvirt("test:///default", "test",
						   gs_clock_ns() + 20 * GS_NS_PER_SEC, &s, &err),
			 GS_ENOTSUP);
	ck_assert_str_ne(err.text, "");
}
END_TEST

Suite *suite_source(void)
{
	Suite *s = suite_create("qemu source");
	TCase *tc = tcase_create("stop and resume");

	tcase_add_checked_fixture(tc, make_ram, NULL);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, stops_nest_and_the_last_resume_counts);
	tcase_add_loop_test(tc, a_guest_found_paused_is_left_paused, 0, 2);
	tcase_add_test(tc, closing_a_stopped_guest_resumes_it);
	tcase_add_loop_test(tc, a_stop_that_is_not_answered_is_undone, 0, 2);
	tcase_add_test(tc, a_late_stop_is_undone_and_the_connection_stays_good);
	tcase_add_test(tc, a_stop_that_is_refused_leaves_all_as_it_was);
	tcase_add_test(tc, a_resume_that_is_not_answered_happens_later);
	tcase_add_test(tc, registers_that_do_not_come_in_time_end_the_stop);
	tcase_add_test(tc, a_guest_without_registers_is_still_one);
	tcase_add_test(tc, a_qemu_that_ends_while_stopped_is_told);
	tcase_add_loop_test(tc, opening_fails_with_a_reason_for_each_wrong_answer, 0, 7);
	suite_add_tcase(s, tc);
	tc = tcase_create("deadlines");
	tcase_add_checked_fixture(tc, make_ram, NULL);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, reads_end_in_time_for_the_deadline);
	tcase_add_test(tc, a_stop_that_takes_longer_than_the_deadline_fails);
	tcase_add_test(tc, the_watcher_resumes_at_the_deadline_and_we_may_go_on);
	suite_add_tcase(s, tc);
	tc = tcase_create("death");
	tcase_add_checked_fixture(tc, make_ram, NULL);
	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, a_guest_is_resumed_when_we_are_killed, 0, 4);
	tcase_add_test(tc, a_guest_is_resumed_at_the_deadline_while_we_are_stopped);
	tcase_add_test(tc, a_guest_found_paused_stays_so_when_we_are_killed);
	tcase_add_loop_test(tc, a_watcher_that_was_killed_is_replaced, 0, 2);
	suite_add_tcase(s, tc);
	tc = tcase_create("libvirt");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_libvirt_that_is_not_qemus_is_refused);
	suite_add_tcase(s, tc);
	return s;
}
