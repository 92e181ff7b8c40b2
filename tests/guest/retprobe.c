// SPDX-License-Identifier: Apache-2.0
// Two processes that wait in the same function, one of them under functions whose return the kernel probes.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

static pid_t plain_pid, probed_pid;

// One function that has two probes, and one that it is called by.
static void probes_set(bool on)
{
	if (!on)
		setting_write(TRACEFS "/events/gs/enable", "0");
	setting_write(TRACEFS "/kprobe_events", on ? "r:gs/one vfs_read\n"
						     "r:gs/two vfs_read\n"
						     "r:gs/three ksys_read\n"
						   : "-:gs/one\n-:gs/two\n-:gs/three\n");
	if (on)
		setting_write(TRACEFS "/events/gs/enable", "1");
}

// A child that has read one byte of a pipe, and waits for another.
static pid_t reader_start(const char *name)
{
	int ends[2];
	char c;

	if (pipe(ends))
		die("pipe");
	pid_t pid = child_start(name);
	if (!pid) {
		for (;;)
			if (read(ends[0], &c, 1) != 1)
				die("pipe");
	}
	if (write(ends[1], "", 1) != 1)
		die("pipe");
	close(ends[0]);
	// the end that is written to stays open: there is never an end of file
	return pid;
}

// It goes to sleep nowhere else.
static void await_sleep(pid_t pid)
{
	while (state_of(pid) != 'S')
		usleep(1000);
}

// How often probed functions have returned, of all probes.
static unsigned long returns_count(void)
{
	FILE *f = fopen(TRACEFS "/kprobe_profile", "re");
	unsigned long sum = 0, hits, misses;
	char name[64];

	if (!f)
		die("kprobe_profile");
	while (fscanf(f, "%63s %lu %lu", name, &hits, &misses) == 3)
		sum += hits;
	fclose(f);
	return sum;
}

void retprobe_start(void)
{
	if (plain_pid)
		return;
	if (tracefs_mount())
		die(TRACEFS);
	plain_pid = reader_start("w_plain");
	await_sleep(plain_pid);
	probes_set(true);
	probed_pid = reader_start("w_probed");
	await_sleep(probed_pid);
	printf("RETPROBE returns %lu\n", returns_count());
}

void retprobe_end(void)
{
	if (!plain_pid)
		return;
	child_end(&plain_pid);
	child_end(&probed_pid);
	probes_set(false);
}
