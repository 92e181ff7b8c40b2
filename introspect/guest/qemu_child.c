/* SPDX-License-Identifier: Apache-2.0 */
/* A process of ours that outlives us, to let a guest go. */
#include "introspect/guest/qemu_child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"

/* Kernels before 5.9 have no close_range(2); few processes have more descriptors than this. */
#define CHILD_FDS_MAX 65536

static void close_from(unsigned int first)
{
	struct rlimit limit;

#ifdef SYS_close_range
	if (!syscall(SYS_close_range, first, ~0u, 0u))
		return;
#endif
	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > CHILD_FDS_MAX)
		limit.rlim_cur = CHILD_FDS_MAX;
	for (unsigned int fd = first; fd < limit.rlim_cur; fd++)
		close((int)fd);
}

/* Only async-signal-safe calls. */
static void settle(int fd_a, int fd_b, const char *name)
{
	GS_IGNORE(setsid() >= 0); /* fails only for a leader of a group, which a child is not */

	/* above 2 first, so that none is overwritten before it is moved */
	int a = fcntl(fd_a, F_DUPFD, 3);
	int b = fd_b >= 0 ? fcntl(fd_b, F_DUPFD, 3) : open("/dev/null", O_RDWR);
	int null = open("/dev/null", O_RDWR);

	if (a < 0 || b < 0 || dup2(a, 0) < 0 || dup2(b, 1) < 0)
		_exit(1);	       /* the parent sees its end of the pipe close */
	GS_IGNORE(dup2(null, 2) == 0); /* nothing here prints */
	close_from(3);		       /* which tells the parent that we have our own session */
	GS_IGNORE(chdir("/") == 0);
	(void)prctl(PR_SET_NAME, name); /* for people only */
}

/* Until the child has closed its end: from then on what ends our process group does not end it. */
static void await_end(int fd)
{
	char nothing;

	while (read(fd, &nothing, 1) < 0 && errno == EINTR)
		;
}

enum gs_code guest_child_fork(int fd_a, int fd_b, const char *name, pid_t *pid_out,
			      struct gs_error *err)
{
	sigset_t all, before;
	int settled[2];

	if (pipe2(settled, O_CLOEXEC)) {
		int no = errno;
		return gs_fail_errno(err, GS_ENOSPC, no, "a pipe to a process of ours");
	}
	/* blocked over the fork: no handler of ours ever runs in the child */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid_t pid = fork();
	int e = errno;
	if (pid == 0) {
		settle(fd_a, fd_b, name);
		*pid_out = 0;
		return GS_OK;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(settled[1]);
	if (pid > 0)
		await_end(settled[0]);
	close(settled[0]);
	if (pid < 0)
		return gs_fail_errno(err, GS_ENOSPC, e, "start a process");
	*pid_out = pid;
	return GS_OK;
}

void guest_child_reap(pid_t pid, uint64_t deadline_ns)
{
	const struct timespec moment = { .tv_nsec = 1000 * 1000 };

	while (pid > 0) {
		pid_t got = waitpid(pid, NULL, WNOHANG);
		if (got == pid || (got < 0 && errno != EINTR) || gs_clock_ns() >= deadline_ns)
			return;
		nanosleep(&moment, NULL);
	}
}
