// SPDX-License-Identifier: Apache-2.0
// The guest's testimony of what stands around its processes, and of the kernel as a whole.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUPS "/sys/fs/cgroup"
#define OUTER	CGROUPS "/outer"
#define INNER	OUTER "/inner one"

static pid_t cgroup_pid;

static void make_folder(const char *path)
{
	if (mkdir(path, 0755) && errno != EEXIST)
		die(path);
}

// A process w_cgroup in a control group of its own.
void cgroup_start(void)
{
	FILE *f;

	if (cgroup_pid)
		return;
	if (mount("none", CGROUPS, "cgroup2", 0, NULL) && errno != EBUSY)
		die("mount cgroup2");
	make_folder(OUTER);
	make_folder(INNER);
	cgroup_pid = child_start("w_cgroup");
	if (!cgroup_pid)
		sleep_forever();
	f = fopen(INNER "/cgroup.procs", "we");
	if (!f || fprintf(f, "%d\n", cgroup_pid) < 0 || fclose(f))
		die("cgroup.procs");
}

void cgroup_end(void)
{
	child_end(&cgroup_pid);
}

// --- a queue

#define QUEUE 3

static pid_t queue_pid[QUEUE];

// Processes w_queue that all want the last CPU, for ever.
void queue_start(void)
{
	cpu_set_t last;

	CPU_ZERO(&last);
	CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &last);
	for (int i = 0; i < QUEUE; i++) {
		if (queue_pid[i])
			continue;
		queue_pid[i] = child_start("w_queue");
		if (queue_pid[i])
			continue;
		if (sched_setaffinity(0, sizeof(last), &last))
			die("queue: sched_setaffinity");
		for (;;)
			;
	}
}

void queue_end(void)
{
	for (int i = 0; i < QUEUE; i++)
		child_end(&queue_pid[i]);
}

// --- the listing

// The first line of a file that begins with a word, without this.
static bool line_of(const char *path, const char *begin, char *line, size_t size)
{
	FILE *f = fopen(path, "re");
	bool found = false;

	while (f && !found && fgets(line, (int)size, f))
		found = !strncmp(line, begin, strlen(begin));
	if (f)
		fclose(f);
	if (found)
		memmove(line, line + strlen(begin), strlen(line + strlen(begin)) + 1);
	return found;
}

static void print_line(const char *word, const char *path, const char *begin)
{
	char line[512];

	if (!line_of(path, begin, line, sizeof(line)))
		die(path);
	printf("%s %s", word, line);
}

// When this is: the scheduler's clock, which the kernel writes in front of each message.
static void print_clock_of_log(const char *word, const char *id)
{
	char mark[64], record[2048];
	int fd = open("/dev/kmsg", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	unsigned long long us = 0;
	bool found = false;

	const int len = snprintf(mark, sizeof(mark), "<7>surroundings %s %s\n", id, word);
	if (len >= (int)sizeof(mark) || fd < 0 || lseek(fd, 0, SEEK_END) < 0 ||
	    write(fd, mark, (size_t)len) != len)
		die("/dev/kmsg");
	for (ssize_t n; !found && (n = read(fd, record, sizeof(record) - 1)) > 0;) {
		record[n] = 0;
		found = strstr(record, mark + 3) && sscanf(record, "%*u,%*u,%llu,", &us) == 1;
	}
	close(fd);
	if (!found)
		die("no mark in /dev/kmsg");
	printf("%s %llu\n", word, us);
}

void print_surroundings(const char *id)
{
	struct dirent *entry;
	char path[300], line[512];
	DIR *processes;

	printf("SURROUNDINGS BEGIN %s\nprinter %d\n", id, getpid());
	print_clock_of_log("begin_us", id);
	print_line("load", "/proc/loadavg", "");
	print_clock_of_log("load_us", id);
	print_line("taint", "/proc/sys/kernel/tainted", "");
	print_line("total", "/proc/meminfo", "MemTotal:");
	processes = opendir("/proc");
	if (!processes)
		die("/proc");
	while ((entry = readdir(processes))) {
		snprintf(path, sizeof(path), "/proc/%s/cgroup", entry->d_name);
		if (atoi(entry->d_name) && line_of(path, "0::", line, sizeof(line)))
			printf("cgroup %s %s", entry->d_name, line);
	}
	closedir(processes);
	printf("SURROUNDINGS END %s\n", id);
}
