// SPDX-License-Identifier: Apache-2.0
// The guest's own kprobes, by the events of its tracer: set, counted, taken away.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#define GROUP "guest"

int tracefs_mount(void)
{
	return access(TRACEFS "/kprobe_events", W_OK) &&
			       mount("tracefs", TRACEFS, "tracefs", 0, NULL)
		       ? errno
		       : 0;
}

// @return 0, or errno
static int put(const char *file, const char *text, int flags)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC | flags);
	int e = fd < 0 || write(fd, text, strlen(text)) < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return e;
}

static int switch_event(const char *function, const char *on)
{
	char file[256];

	snprintf(file, sizeof(file), TRACEFS "/events/" GROUP "/%s/enable", function);
	return put(file, on, 0);
}

static int add(const char *function)
{
	char line[256];
	int e = tracefs_mount();

	if (e)
		return e;
	snprintf(line, sizeof(line), "p:" GROUP "/%s %s", function, function);
	e = put(TRACEFS "/kprobe_events", line, O_APPEND);
	return e ? e : switch_event(function, "1");
}

static int del(const char *function)
{
	char line[256];
	int e = switch_event(function, "0");

	snprintf(line, sizeof(line), "-:" GROUP "/%s", function);
	return e ? e : put(TRACEFS "/kprobe_events", line, O_APPEND);
}

// Lines of kprobe_profile: name, hits, hits that were missed.
static void say_hits(const char *function)
{
	FILE *f = fopen(TRACEFS "/kprobe_profile", "re");
	unsigned long hits, missed;
	char name[128];

	while (f && fscanf(f, "%127s %lu %lu", name, &hits, &missed) == 3)
		if (!strcmp(name, function))
			printf("KPROBE hits %s %lu missed %lu\n", function, hits, missed);
	if (f)
		fclose(f);
}

void kprobe(const char *what, const char *function)
{
	if (!strcmp(what, "hits")) {
		say_hits(function);
		return;
	}
	int e = !strcmp(what, "add") ? add(function) : del(function);
	printf("KPROBE %s %s %s\n", what, function, e ? strerror(e) : "ok");
}
