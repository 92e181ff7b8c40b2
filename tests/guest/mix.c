// SPDX-License-Identifier: Apache-2.0
// A known mix of work on each CPU: 40 % in one kernel path, 30 % in another, 30 % in user space, by the
// guest's own clock. What each part really took is what samples are compared with.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CYCLE_NS     (50 * 1000000LL)
#define READ_BYTES   (4 << 20)
#define RANDOM_BYTES (512 << 10)
#define CPUS_MAX     64

enum part { PART_READ, PART_RANDOM, PART_USER, PARTS };

static const int percent[PARTS] = { 40, 30, 30 };

struct account {
	_Atomic int64_t ns[PARTS]; // CPU time of the thread
	_Atomic uint64_t cycles;   // of all parts
	_Atomic uint64_t units;	   // pieces of work done: the throughput
};

static struct account *accounts; // one a CPU, shared with the process that works
static int cpus;
static pid_t pid;

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void work(enum part part, int zero, char *buf)
{
	static volatile uint64_t sink;

	switch (part) {
	// large pieces, so that hardly any time is that of entering the kernel
	case PART_READ:
		if (pread(zero, buf, READ_BYTES, 0) != READ_BYTES)
			die("mix: read /dev/zero");
		break;
	case PART_RANDOM:
		if (getrandom(buf, RANDOM_BYTES, 0) != RANDOM_BYTES)
			die("mix: getrandom");
		break;
	case PART_USER:
	case PARTS:
		for (uint64_t i = 0, x = sink; i < 1500000; i++, sink = x)
			x = x * 6364136223846793005u + i;
		break;
	}
}

static int64_t random_ns(unsigned int *seed)
{
	return (int64_t)rand_r(seed) * 1000;
}

static void *mix_thread(void *arg)
{
	unsigned int seed = 1 + (unsigned int)(intptr_t)arg;
	int cpu = (int)(intptr_t)arg, zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char *buf =
		mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (zero < 0 || buf == MAP_FAILED || sched_setaffinity(0, sizeof(set), &set))
		die("mix");
	prctl(PR_SET_NAME, "w_mix");
	for (;;) {
		// of uneven length: what samples in step with even ones would only see one part
		int64_t cycle = CYCLE_NS / 2 + random_ns(&seed) % CYCLE_NS;

		for (int p = 0; p < PARTS; p++) {
			int64_t start = cpu_ns(), end = start + cycle / 100 * percent[p], now;

			do {
				work((enum part)p, zero, buf);
				accounts[cpu].units++;
				now = cpu_ns();
			} while (now < end);
			accounts[cpu].ns[p] += now - start;
		}
		accounts[cpu].cycles++;
	}
	return NULL;
}

void mix_start(void)
{
	if (pid)
		return;
	cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	if (!accounts)
		accounts = mmap(NULL, sizeof(*accounts) * CPUS_MAX, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (accounts == MAP_FAILED)
		die("mix: mmap");
	pid = fork();
	if (pid < 0)
		die("mix: fork");
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (intptr_t i = 1; i < cpus; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, mix_thread, (void *)i))
			die("mix: pthread_create");
	}
	mix_thread(NULL);
}

// Sums since the mix was first started: two of these lines give what was between them.
void mix_report(const char *id)
{
	int64_t ns[PARTS] = { 0 };
	uint64_t units = 0, cycles = 0;
	struct timespec t;

	for (int i = 0; accounts && i < cpus; i++) {
		for (int p = 0; p < PARTS; p++)
			ns[p] += accounts[i].ns[p];
		units += accounts[i].units;
		cycles += accounts[i].cycles;
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("MIX %s read %" PRId64 " random %" PRId64 " user %" PRId64 " units %" PRIu64
	       " cycles %" PRIu64 " mono %lld.%09ld\n",
	       id, ns[PART_READ], ns[PART_RANDOM], ns[PART_USER], units, cycles,
	       (long long)t.tv_sec, t.tv_nsec);
}

void mix_end(void)
{
	if (!pid)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pid = 0;
}
