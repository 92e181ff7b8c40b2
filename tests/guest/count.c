// SPDX-License-Identifier: Apache-2.0
// A known number of calls of one function of the kernel, on all CPUs at once, and a breakpoint of a
// program's own: what probes must count, and must not touch.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIFO_MAX 99 // MAX_RT_PRIO - 1 in the kernel

// Nothing else in the guest makes these calls.
static bool call_right(void)
{
	return syscall(SYS_sched_get_priority_max, SCHED_FIFO) == FIFO_MAX;
}

static bool socket_right(void)
{
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	return fd >= 0 && !close(fd);
}

static int count_wrong(long calls, bool (*right)(void))
{
	int wrong = 0;

	for (long i = 0; i < calls; i++)
		wrong += !right();
	return wrong;
}

static int calls_part(long calls)
{
	return count_wrong(calls, call_right);
}

static int sockets_part(long calls)
{
	return count_wrong(calls, socket_right);
}

void count_calls(long calls, bool sockets)
{
	int cpus, wrong = on_each_cpu("w_count", sockets ? sockets_part : calls_part, calls, &cpus);

	printf("COUNT %ld on %d wrong %d\n", calls, cpus, wrong);
}

void trap_self(void)
{
	int status;
	pid_t pid = child_start("w_trap");

	if (pid == 0) {
		// guestshot's own immediate: in a program it is the program's
		__asm__ volatile("brk #0x6773");
		_exit(1);
	}
	if (waitpid(pid, &status, 0) != pid)
		die("trap: waitpid");
	printf("TRAP %s\n", WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP ? "ok" : "wrong");
}
