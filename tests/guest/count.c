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
#define CPUS_MAX 64

static bool call_right(void)
{
	return syscall(SYS_sched_get_priority_max, SCHED_FIFO) == FIFO_MAX;
}

static bool socket_right(void)
{
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	return fd >= 0 && !close(fd);
}

// A process on each CPU; nothing else in the guest makes these calls. @return wrong results
static int count_on(int cpu, long calls, bool (*right)(void))
{
	cpu_set_t one;
	int wrong = 0;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("count: sched_setaffinity");
	for (long i = 0; i < calls; i++)
		wrong += !right();
	return wrong;
}

void count_calls(long calls, bool sockets)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), wrong = 0, status;
	pid_t pid[CPUS_MAX];

	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	for (int cpu = 0; cpu < cpus; cpu++) {
		pid[cpu] = child_start("w_count");
		// the first ones make one more, so that it is as many as were asked for
		if (pid[cpu] == 0)
			_exit(count_on(cpu, calls / cpus + (cpu < calls % cpus),
				       sockets ? socket_right : call_right) != 0);
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		if (waitpid(pid[cpu], &status, 0) != pid[cpu])
			die("count: waitpid");
		wrong += status != 0;
	}
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
