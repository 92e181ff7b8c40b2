// SPDX-License-Identifier: Apache-2.0
// The guest's testimony: what its own /proc says of every thread.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zlib.h>

#define LISTING_FIRST (1 << 20)
#define LISTING_MAX   (256 << 20)
#define ENTRY_MAX     (16 << 10) // of one line or one thread

// Everything is read first and printed afterwards: the console is far slower than /proc.
struct listing {
	char *text;
	size_t len, size;
};

// Room for one more entry.
static void listing_grow(struct listing *l)
{
	if (l->size - l->len >= ENTRY_MAX)
		return;
	if (l->size >= LISTING_MAX)
		die("listing too long");
	l->size = l->size ? 2 * l->size : LISTING_FIRST;
	l->text = realloc(l->text, l->size);
	if (!l->text)
		die("listing");
}

static __attribute__((format(printf, 2, 3))) void listing_add(struct listing *l, const char *format,
							      ...)
{
	va_list args;

	listing_grow(l);
	va_start(args, format);
	int n = vsnprintf(l->text + l->len, ENTRY_MAX, format, args);
	va_end(args);
	if (n < 0 || n >= ENTRY_MAX)
		die("listing: entry too long");
	l->len += (size_t)n;
}

static ssize_t slurp(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (len < size - 1 && (n = read(fd, buf + len, size - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	buf[len] = 0;
	return (ssize_t)len;
}

struct switches {
	unsigned long long voluntary, involuntary;
};

static bool switches_read(const char *task, struct switches *out)
{
	char path[96], buf[8192];

	snprintf(path, sizeof(path), "%s/status", task);
	if (slurp(path, buf, sizeof(buf)) <= 0)
		return false;
	const char *v = strstr(buf, "\nvoluntary_ctxt_switches:"),
		   *n = strstr(buf, "\nnonvoluntary_ctxt_switches:");
	return v && n && sscanf(v, "\nvoluntary_ctxt_switches: %llu", &out->voluntary) == 1 &&
	       sscanf(n, "\nnonvoluntary_ctxt_switches: %llu", &out->involuntary) == 1;
}

// The counts on both sides of the stack show whether the thread ran while it was looked at.
static void listing_add_thread(int tgid, int tid, void *arg)
{
	struct listing *l = arg;
	char task[64], path[96], stat[2048], comm[128], stack[8192];
	struct switches before, after;
	size_t start = l->len;

	snprintf(task, sizeof(task), "/proc/%d/task/%d", tgid, tid);
	for (int attempt = 0; attempt < 5; attempt++) {
		if (!switches_read(task, &before))
			return; // gone
		snprintf(path, sizeof(path), "%s/stat", task);
		if (slurp(path, stat, sizeof(stat)) <= 0)
			return;
		snprintf(path, sizeof(path), "%s/comm", task);
		if (slurp(path, comm, sizeof(comm)) <= 0)
			return;
		snprintf(path, sizeof(path), "%s/stack", task);
		if (slurp(path, stack, sizeof(stack)) < 0)
			return;
		if (!switches_read(task, &after))
			return;
		l->len = start;
		listing_add(l, "T %d %d\nstat %scomm %sswitches %llu %llu %llu %llu\n%s.\n", tgid,
			    tid, stat, comm, before.voluntary, before.involuntary, after.voluntary,
			    after.involuntary, stack);
		if (before.voluntary == after.voluntary && before.involuntary == after.involuntary)
			return;
	}
}

static int number_name(const struct dirent *entry)
{
	return isdigit((unsigned char)entry->d_name[0]);
}

static void each_thread(void (*visit)(int tgid, int tid, void *arg), void *arg)
{
	struct dirent **procs, **tasks;
	int nprocs = scandir("/proc", &procs, number_name, NULL);

	if (nprocs < 0)
		die("/proc");
	for (int p = 0; p < nprocs; p++) {
		char path[300];

		snprintf(path, sizeof(path), "/proc/%s/task", procs[p]->d_name);
		int ntasks = scandir(path, &tasks, number_name, NULL);
		for (int t = 0; t < ntasks; t++) {
			visit(atoi(procs[p]->d_name), atoi(tasks[t]->d_name), arg);
			free(tasks[t]);
		}
		if (ntasks >= 0)
			free(tasks);
		free(procs[p]);
	}
	free(procs);
}

struct stat_visit {
	void (*visit)(const char *stat, void *arg);
	void *arg;
};

static void visit_stat(int tgid, int tid, void *arg)
{
	const struct stat_visit *v = arg;
	char path[96], stat[2048];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", tgid, tid);
	if (slurp(path, stat, sizeof(stat)) > 0)
		v->visit(stat, v->arg);
}

void each_thread_stat(void (*visit)(const char *stat, void *arg), void *arg)
{
	struct stat_visit v = { visit, arg };

	each_thread(visit_stat, &v);
}

// What the reader needs to know of the kernel: which addresses its own stack listing leaves out.
static void listing_add_kernel(struct listing *l)
{
	static const char *const wanted[] = { "__sched_text_start", "__sched_text_end",
					      "__lock_text_start", "__lock_text_end" };
	char line[512], name[256], type;
	FILE *f = fopen("/proc/kallsyms", "re");
	struct utsname uts;
	unsigned long long address;

	uname(&uts);
	listing_add(l, "U %s\n", uts.release);
	if (!f)
		die("/proc/kallsyms");
	while (fgets(line, sizeof(line), f)) {
		if (!strstr(line, "_text_") ||
		    sscanf(line, "%llx %c %255s", &address, &type, name) != 3)
			continue;
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			if (!strcmp(name, wanted[i]))
				listing_add(l, "K %s %#llx\n", name, address);
	}
	fclose(f);
}

// The listing as lines "Z <base64 of a zlib stream>": a tenth of the bytes for a slow console.
static void print_packed(const char *text, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uLongf size = compressBound(len);
	unsigned char *packed = calloc(1, size + 3); // three bytes at a time

	if (!packed || compress2(packed, &size, (const Bytef *)text, len, 9) != Z_OK)
		die("packing");
	for (size_t i = 0; i < size; i += 3) {
		unsigned bits =
			(unsigned)packed[i] << 16 | (unsigned)packed[i + 1] << 8 | packed[i + 2];

		printf("%s%c%c%c%c",
		       i % 72 ? ""
		       : i    ? "\nZ "
			      : "Z ",
		       digits[bits >> 18], digits[bits >> 12 & 63],
		       i + 1 < size ? digits[bits >> 6 & 63] : '=',
		       i + 2 < size ? digits[bits & 63] : '=');
	}
	printf("\n");
	free(packed);
}

void print_truth(const char *id, bool pack, const struct testimony *about)
{
	static struct listing kernel;
	struct listing l = { 0 };

	if (!kernel.text)
		listing_add_kernel(&kernel);
	listing_add(&l, "%sP %d %d\n", kernel.text, getpid(), (int)gettid());
	if (about->spin_pid && about->spin_user_cpu >= 0)
		listing_add(&l, "S w_spin_user %d %d\n", about->spin_pid, about->spin_user_cpu);
	if (about->spin_pid && about->spin_kernel_cpu >= 0)
		listing_add(&l, "S w_spin_kernel %d %d\n", about->spin_pid, about->spin_kernel_cpu);
	if (about->crowd_processes)
		listing_add(&l, "C %d %d\n", about->crowd_processes, about->crowd_threads);
	each_thread(listing_add_thread, &l);
	printf("TRUTH BEGIN %s\n", id);
	if (pack)
		print_packed(l.text, l.len);
	else
		fwrite(l.text, 1, l.len, stdout);
	printf("TRUTH END %s\n", id);
	free(l.text);
}
