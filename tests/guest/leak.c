// SPDX-License-Identifier: Apache-2.0
// Processes that have a module leak (tests/modules/leak), on all CPUs at once, and what the module says of it.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEAK_MODULE "/modules/leak.ko"
#define LEAK_FILE   "/proc/leak"

static void leak_load(void)
{
	int fd = open(LEAK_MODULE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		die(LEAK_MODULE);
	close(fd);
}

static int leak_part(long rounds)
{
	FILE *f = fopen(LEAK_FILE, "we");

	return !f || fprintf(f, "%ld", rounds) < 0 || fclose(f);
}

static void leak_report(void)
{
	FILE *f = fopen(LEAK_FILE, "re");
	char line[128];

	if (!f)
		die(LEAK_FILE);
	while (fgets(line, sizeof(line), f))
		printf("LEAK %s", line);
	fclose(f);
}

void leak_rounds(long rounds)
{
	int cpus;

	leak_load();
	if (rounds && on_each_cpu("w_leak", leak_part, rounds, &cpus))
		die(LEAK_FILE);
	leak_report();
	printf("LEAK END %ld\n", rounds);
}
