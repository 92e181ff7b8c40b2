/* SPDX-License-Identifier: Apache-2.0 */
/* Between stop and resume: no heap, no lock, no file, no socket, by any worker. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"
#include "tests/unit/linux/user_memory.h"
#include "tests/unit/stackshot/seam.h"
#include "tests/unit/stackshot/session.h"
#include "tests/unit/stackshot/suites.h"
#include "tests/unit/stackshot/trap.h"

static const uint32_t worker_counts[] = { 1, 2, 4, 8 };

static enum gs_code (*real_read)(void *priv, gpa_t at, void *buf, size_t len);
static void (*misbehave)(void); /* in a read of a helper */

static enum gs_code read_and_misbehave(void *priv, gpa_t at, void *buf, size_t len)
{
	if (misbehave && guest.m.stop_depth && seam_is_helper())
		misbehave();
	return real_read(priv, at, buf, len);
}

/* Each read is a call, which allocates nothing and asks for nothing itself. */
static void use_callback(void)
{
	lg_unmap_host(&guest);
	real_read = guest.ops.read;
	guest.ops.read = read_and_misbehave;
}

/* --- calls of the C library ------------------------------------------------------------------- */

static void expect_quiet(struct ss_request q, enum gs_code wanted)
{
	trap_reset();
	ck_assert_int_eq(session_capture_only(&q), wanted);
	ck_assert_msg(trap_calls == 0, "%s while the guest was stopped", trap_first);
}

/* Captures of all kinds, also those that come to an end before they are whole. */
static void capture_in_all_ways(void)
{
	const struct ss_request all = session_request(SS_PID_ALL);
	struct ss_request q = all;

	for (int round = 0; round < 5; round++)
		expect_quiet(all, GS_OK);
	expect_quiet(session_request(100), GS_OK);
	q.flags = SS_KERNEL_LOG | SS_CONTEXT;
	expect_quiet(q, GS_OK);
	q.flags = SS_KERNEL_LOG | SS_NO_PROCESSES;
	expect_quiet(q, GS_OK);
	expect_quiet(session_request(77), GS_OK); // maybe the one that cannot be read
	ck_assert(!result.complete && result.tasks == 0);
	q.flags = KCD_SS_FROM_PANIC;
	expect_quiet(q, GS_OK);
	q.flags = SS_USER_STACKS;
	expect_quiet(q, GS_OK);
	q = all;
	q.deadline_ns = 1;
	expect_quiet(q, GS_OK);
	q.deadline_ns = gs_clock_ns() + 300 * GS_NS_PER_US;
	expect_quiet(q, GS_OK);
	seam_fail(&seam_pieces, 20, 20);
	expect_quiet(all, GS_OK);
	ck_assert_uint_eq(result.tries, 2);
	seam_fail(&seam_records, 50, 50);
	seam_record_code = KCD_EINVAL;
	expect_quiet(all, GS_EINVAL);
	seam_reset();
	guest.deaf = 1;
	expect_quiet(all, GS_OK);
	guest.deaf = 0;
}

static void capture_with_all_numbers_of_workers(void)
{
	trap_while_stopped(&guest);
	for (size_t i = 0; i < ARRAY_SIZE(worker_counts); i++) {
		session_options.workers = worker_counts[i];
		session_restart();
		capture_in_all_ways();
	}
}

START_TEST(nothing_is_allocated_locked_formatted_or_written_while_the_guest_is_stopped)
{
	capture_with_all_numbers_of_workers();
}
END_TEST

START_TEST(nor_while_it_is_read_through_a_callback)
{
	use_callback();
	capture_with_all_numbers_of_workers();
	guest.reads = 0;
	guest.fail_first = 500;
	guest.fail_last = UINT64_MAX;
	expect_quiet(session_request(SS_PID_ALL), GS_OK);
	ck_assert(!result.complete);
}
END_TEST

/* --- the trap traps --------------------------------------------------------------------------- */

static pthread_mutex_t some_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_cond = PTHREAD_COND_INITIALIZER;
static sem_t some_semaphore;

/* Compiled so that each call is made as it stands here (tests/tests.mk). */
#define TRAPS_AS(name, call)                                 \
	do {                                                 \
		trap_reset();                                \
		trap_arm();                                  \
		call;                                        \
		trap_set = false;                            \
		ck_assert_msg(trap_calls == 1, "%s", #name); \
		ck_assert_str_eq(trap_first, #name);         \
	} while (0)
#define TRAPS(name, ...)      TRAPS_AS(name, GS_IGNORE(name(__VA_ARGS__)))
#define TRAPS_VOID(name, ...) TRAPS_AS(name, name(__VA_ARGS__))
#define TRAPS_ALLOCATION(name, ...)                     \
	do {                                            \
		void *p_;                               \
                                                        \
		TRAPS_AS(name, p_ = name(__VA_ARGS__)); \
		free(p_);                               \
	} while (0)

static int compare(const void *a, const void *b)
{
	return *(const char *)a - *(const char *)b;
}

START_TEST(trap_traps_the_heap_and_pages)
{
	char small[8] = { 0 };
	void *p = NULL;

	TRAPS_ALLOCATION(malloc, 1);
	TRAPS_ALLOCATION(calloc, 1, 1);
	TRAPS_ALLOCATION(realloc, NULL, 1);
	TRAPS_ALLOCATION(reallocarray, NULL, 1, 1);
	TRAPS_ALLOCATION(aligned_alloc, 16, 16);
	TRAPS(posix_memalign, &p, 16, 16);
	TRAPS_VOID(free, p);
	TRAPS_ALLOCATION(strdup, "x");
	TRAPS_ALLOCATION(strndup, "x", 1);
	TRAPS_VOID(qsort, small, 8, 1, compare);
	TRAPS(mmap, NULL, 0, PROT_READ, MAP_PRIVATE, -1, 0);
	TRAPS(munmap, NULL, 0);
	TRAPS(mprotect, NULL, 0, PROT_READ);
	TRAPS(madvise, NULL, 0, MADV_NORMAL);
	TRAPS(mlock, NULL, 0);
	TRAPS(sbrk, 0);
	TRAPS(brk, NULL);
}
END_TEST

START_TEST(trap_traps_locks)
{
	const struct timespec past = { 0 };

	TRAPS(pthread_mutex_lock, &some_lock);
	TRAPS(pthread_cond_timedwait, &some_cond, &some_lock, &past);
	TRAPS(pthread_mutex_unlock, &some_lock);
	TRAPS(pthread_mutex_trylock, &some_lock);
	TRAPS(pthread_mutex_timedlock, &some_lock, &past);
	TRAPS(pthread_mutex_unlock, &some_lock);
	TRAPS(pthread_cond_signal, &some_cond);
	TRAPS(pthread_cond_broadcast, &some_cond);
	ck_assert_int_eq(sem_init(&some_semaphore, 0, 0), 0);
	TRAPS(sem_post, &some_semaphore);
	TRAPS(sem_wait, &some_semaphore);
}
END_TEST

START_TEST(trap_traps_files_sockets_and_formatting)
{
	char text[8] = { 0 };
	FILE *null;

	TRAPS_AS(fopen, null = fopen("/dev/null", "r+"));
	ck_assert_ptr_nonnull(null);
	TRAPS(open, "/nothing", O_RDONLY);
	TRAPS(close, -1);
	TRAPS(read, -1, text, 1);
	TRAPS(write, -1, text, 1);
	TRAPS(pread, -1, text, 1, 0);
	TRAPS(pwrite, -1, text, 1, 0);
	TRAPS(send, -1, text, 1, 0);
	TRAPS(recv, -1, text, 1, 0);
	TRAPS(sendmsg, -1, &(struct msghdr){ 0 }, 0);
	TRAPS(recvmsg, -1, &(struct msghdr){ 0 }, 0);
	TRAPS(ioctl, -1, 0, NULL);
	TRAPS(poll, NULL, 0, 0);
	TRAPS(printf, "%s", "");
	TRAPS(fprintf, null, "%s", "");
	TRAPS(snprintf, text, sizeof(text), "%d", 1);
	TRAPS(fputs, "x", null);
	TRAPS(fputc, 'x', null);
	TRAPS(fwrite, "x", 1, 1, null);
	TRAPS(fflush, null);
	TRAPS(fclose, null);
}
END_TEST

static void allocate(void)
{
	void *volatile p = malloc(1);

	free(p);
}

static void lock(void)
{
	pthread_mutex_lock(&some_lock);
	pthread_mutex_unlock(&some_lock);
}

static void say(void)
{
	ssize_t volatile n = write(-1, "", 0);

	(void)n;
}

START_TEST(trap_traps_helpers_at_work)
{
	static const struct {
		void (*call)(void);
		const char *name;
	} calls[] = { { allocate, "malloc" }, { lock, "pthread_mutex_lock" }, { say, "write" } };
	const struct ss_request all = session_request(SS_PID_ALL);

	use_callback();
	session_options.workers = 4;
	session_restart();
	trap_while_stopped(&guest);
	seam_meeting = 4;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		misbehave = calls[i].call;
		trap_reset();
		ck_assert_int_eq(session_capture_only(&all), GS_OK);
		ck_assert_uint_gt(trap_calls, 0);
		ck_assert_str_eq(trap_first, calls[i].name);
	}
	misbehave = NULL;
	expect_quiet(all, GS_OK);
}
END_TEST

/* --- system calls ----------------------------------------------------------------------------- */

/*
 * Whatever a library does in itself, it does with system calls. A child forbids them to all its
 * threads when it stops its guest, but for those to wait for another thread and to look at the
 * clock; the first other one ends it. With the resume it ends in any case: what is forbidden stays
 * so. Not where sanitizers make calls of their own.
 */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

enum { RESUMED = 0, NOT_STOPPED = 3, NOT_FORBIDDEN = 4 };

static bool ask_at_stop;

static void ask(void)
{
	(void)syscall(SYS_getppid);
}

static enum gs_code forbid(struct linux_guest *g, uint32_t nth)
{
	static const uint32_t allowed[] = { SYS_futex, SYS_sched_yield, SYS_sched_setaffinity,
					    SYS_clock_gettime, SYS_exit_group };
	struct sock_filter filter[ARRAY_SIZE(allowed) + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	struct sock_fprog program = { ARRAY_SIZE(filter), filter };
	uint32_t n = 1;

	(void)g;
	(void)nth;
	for (uint32_t i = 0; i < ARRAY_SIZE(allowed); i++)
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
							   (uint8_t)(ARRAY_SIZE(allowed) - i), 0);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		_exit(NOT_FORBIDDEN);
	if (ask_at_stop)
		ask();
	return GS_OK;
}

static enum gs_code end_here(struct linux_guest *g, uint32_t nth)
{
	(void)g;
	(void)nth;
	_exit(RESUMED);
}

/* @return as waitpid() has it */
static int status_of_child(const struct ss_request *q)
{
	const struct ss_request all = session_request(SS_PID_ALL);
	int status;
	pid_t child = fork();

	if (!child) {
		session_begin();
		// the search is not what is looked at
		GS_IGNORE(ss_capture(session, &all, &result, &error));
		ss_result_deinit(&result);
		guest.on_stop = forbid;
		guest.on_resume = end_here;
		GS_IGNORE(ss_capture(session, q, &result, &error));
		_exit(NOT_STOPPED);
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return status;
}

static void expect_no_system_call(struct ss_request q)
{
	int status = status_of_child(&q);

	ck_assert_msg(WIFEXITED(status), "%u workers: a system call while the guest was stopped",
		      session_options.workers);
	ck_assert_int_eq(WEXITSTATUS(status), RESUMED);
}

static void look_for_system_calls(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(worker_counts); i++) {
		struct ss_request q = session_request(SS_PID_ALL);

		session_options.workers = worker_counts[i];
		for (int round = 0; round < 5; round++)
			expect_no_system_call(q);
		expect_no_system_call(session_request(100));
		q.flags = SS_USER_STACKS;
		expect_no_system_call(q);
		q.flags = KCD_SS_FROM_PANIC;
		expect_no_system_call(q);
	}
}

START_TEST(no_system_call_but_to_wait_is_made_while_the_guest_is_stopped)
{
	look_for_system_calls();
}
END_TEST

START_TEST(no_system_call_but_to_wait_is_made_while_it_is_read_through_a_callback)
{
	use_callback();
	look_for_system_calls();
}
END_TEST

static void expect_killed(void)
{
	const struct ss_request all = session_request(SS_PID_ALL);
	int status = status_of_child(&all);

	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGSYS);
}

START_TEST(system_calls_are_seen)
{
	use_callback();
	session_options.workers = 2;
	ask_at_stop = true;
	expect_killed();
	// and those of the other workers
	ask_at_stop = false;
	misbehave = ask;
	seam_meeting = 2;
	expect_killed();
}
END_TEST

#endif

/* --- all of it -------------------------------------------------------------------------------- */

static void setup(void)
{
	session_make_crowd(120);
	// things that are missing make notes
	lg_stack_reset(&guest, &guest.threads[4]);
	guest.threads[4].task->fp = guest.threads[4].stack + 0x1234;
	guest.threads[50].task->pid = -1;
	// user stacks, when they are asked for
	struct lg_mm *mm = lg_add_mm(&guest, &guest.threads[0], 0x10001);
	um_enter(&guest, &guest.threads[0], 0x400100, 0x500000, 0);
	um_record(&guest, mm, 0x500000, 0x500ff8, 0x400200);
	um_record(&guest, mm, 0x500ff8, 0x600000, 0x400300);
	// without its assertion, which allocates
	guest.ops.vcpu_regs = guest.memory_ops->vcpu_regs;
}

static void setup_with_session(void)
{
	setup();
	session_begin();
}

static void teardown(void)
{
	trap_reset();
	seam_reset();
	session_end();
}

Suite *suite_stopped(void)
{
	Suite *s = suite_create("stopped");
	TCase *calls = tcase_create("calls"), *syscalls = tcase_create("system calls");

	tcase_set_timeout(calls, 300);
	tcase_add_checked_fixture(calls, setup_with_session, teardown);
	tcase_add_test(calls,
		       nothing_is_allocated_locked_formatted_or_written_while_the_guest_is_stopped);
	tcase_add_test(calls, nor_while_it_is_read_through_a_callback);
	tcase_add_test(calls, trap_traps_the_heap_and_pages);
	tcase_add_test(calls, trap_traps_locks);
	tcase_add_test(calls, trap_traps_files_sockets_and_formatting);
	tcase_add_test(calls, trap_traps_helpers_at_work);
	suite_add_tcase(s, calls);
	tcase_set_timeout(syscalls, 300);
	// without a session: its threads would not be in a child
	tcase_add_checked_fixture(syscalls, setup, teardown);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	tcase_add_test(syscalls, no_system_call_but_to_wait_is_made_while_the_guest_is_stopped);
	tcase_add_test(syscalls,
		       no_system_call_but_to_wait_is_made_while_it_is_read_through_a_callback);
	tcase_add_test(syscalls, system_calls_are_seen);
#endif
	suite_add_tcase(s, syscalls);
	return s;
}
