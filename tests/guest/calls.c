// SPDX-License-Identifier: Apache-2.0
// System calls of all kinds, one after the other for ever: so that who follows a CPU step by step comes
// through functions that call themselves, through assembly, faults, and switches to other threads.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEST	  4 // the kernel allows five
#define PAGE	  4096
#define ECHO_SIZE 300

static pid_t pid;
static char buf[16 * PAGE];
static void *volatile nowhere = (void *)16; // not mapped

// Results do not matter: that the kernel was asked does.
#define ASK(call)                \
	do {                     \
		if ((call) < 0)  \
			(void)0; \
	} while (0)

// epoll files in epoll files: the kernel looks for loops by a function that calls itself.
static void ask_nested(void)
{
	int fd[NEST];
	struct epoll_event event = { .events = EPOLLIN }, got[NEST];
	int bell = eventfd(0, EFD_CLOEXEC);

	for (int i = 0; i < NEST; i++)
		fd[i] = epoll_create1(EPOLL_CLOEXEC);
	ASK(epoll_ctl(fd[NEST - 1], EPOLL_CTL_ADD, bell, &event));
	// from inside out: what is added has others in it
	for (int i = NEST - 1; i > 0; i--)
		ASK(epoll_ctl(fd[i - 1], EPOLL_CTL_ADD, fd[i], &event));
	ASK(write(bell, &(uint64_t){ 1 }, 8));
	ASK(epoll_wait(fd[0], got, NEST, 0));
	struct pollfd p = { .fd = fd[0], .events = POLLIN };
	ASK(poll(&p, 1, 0));
	for (int i = 0; i < NEST; i++)
		close(fd[i]);
	close(bell);
}

static void ask_files(void)
{
	static const char *const names[] = { "/proc/self/status", "/proc/self/maps",
					     "/proc/meminfo",
					     "/sys/kernel/mm/transparent_hugepage/enabled" };
	struct stat st;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int fd = open(names[i], O_RDONLY | O_CLOEXEC);

		ASK(fstat(fd, &st));
		ASK(read(fd, buf, sizeof(buf)));
		ASK(read(fd, nowhere, PAGE));
		close(fd);
	}
	int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASK(syscall(SYS_getdents64, dir, buf, sizeof(buf)));
	close(dir);
	int fd = open("/tmp/calls", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct iovec io[] = { { buf, 100 }, { buf + PAGE, 5000 }, { buf + 1, 77 } };
	ASK(pwritev(fd, io, 3, 4000));
	ASK(preadv(fd, io, 3, 3000));
	ASK(ftruncate(fd, 10));
	close(fd);
	ASK(symlink("calls", "/tmp/link"));
	ASK(stat("/tmp/../tmp/link", &st));
	ASK(rename("/tmp/link", "/tmp/link2"));
	ASK(readlink("/tmp/link2", buf, sizeof(buf)));
	ASK(unlink("/tmp/link2"));
	ASK(syscall(SYS_getcwd, buf, sizeof(buf)));
}

static void ask_memory(void)
{
	char *at = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("calls: mmap");
	at[0] = at[3 * PAGE] = 1;			       // faults of user mode
	ASK(syscall(SYS_getrandom, at + 5 * PAGE - 8, 64, 0)); // ... and of the kernel's copy
	ASK(mprotect(at, PAGE, PROT_READ));
	ASK(madvise(at, 8 * PAGE, MADV_DONTNEED));
	munmap(at, 8 * PAGE);
}

static void ask_others(void)
{
	struct timespec t = { .tv_nsec = 1000 };
	struct utsname uts;
	struct sysinfo info;
	int pair[2], status;

	ASK(uname(&uts));
	ASK(sysinfo(&info));
	ASK(syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t));
	ASK(getrandom(buf, 200, 0));
	t = (struct timespec){ .tv_nsec = 1000 };
	nanosleep(&t, NULL);
	sched_yield();
	kill(getpid(), 0);
	if (!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		ASK(send(pair[0], buf, ECHO_SIZE, 0));
		ASK(recv(pair[1], buf, ECHO_SIZE, 0));
		close(pair[0]);
		close(pair[1]);
	}
	pid_t child = fork();
	if (!child)
		_exit(3);
	if (child > 0)
		waitpid(child, &status, 0);
}

// Another process answers: switches from one task to another and back.
static void ask_peer(int to, int from)
{
	ASK(write(to, buf, ECHO_SIZE));
	ASK(read(from, buf, ECHO_SIZE));
	ASK(write(to, nowhere, ECHO_SIZE));
}

static _Noreturn void echo(int from, int to)
{
	static char own[PAGE];

	prctl(PR_SET_NAME, "w_echo");
	for (;;) {
		ssize_t n = read(from, own, sizeof(own));

		if (n <= 0 || write(to, own, (size_t)n) < 0)
			_exit(0);
	}
}

static _Noreturn void ask_for_ever(void)
{
	int there[2], back[2];

	prctl(PR_SET_NAME, "w_calls");
	if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
		die("calls: pipe");
	pid_t peer = fork();
	if (!peer) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(there[1]);
		close(back[0]);
		echo(there[0], back[1]);
	}
	for (;;) {
		ask_nested();
		ask_files();
		ask_memory();
		ask_peer(there[1], back[0]);
		ask_others();
	}
}

void calls_start(void)
{
	if (pid)
		return;
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("calls: fork");
	if (!pid)
		ask_for_ever();
}
