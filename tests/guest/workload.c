// SPDX-License-Identifier: Apache-2.0
// The program a test guest runs: threads that block in known places and are named after them, and a
// command reader on standard input that lets the guest testify about itself (see
// tests/guest/README.md).
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define THREAD_STACK (64 << 10)
#define SPIN_BYTES   (8 << 20)
#define CROWD_MAX    100000 // threads
#define CPUS_MAX     64

// What the listing says of us; -1: no spinner of this kind.
static struct testimony self = { .spin_user_cpu = -1, .spin_kernel_cpu = -1 };
static pid_t churn_pid, hung_pid, hog_pid;

void die(const char *what)
{
	fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
	_exit(1);
}

// --- threads and processes

static void *wait_thread(void *arg)
{
	size_t i = (size_t)arg;

	prctl(PR_SET_NAME, waits[i].name);
	waits[i].run();
	return NULL;
}

static void thread_start(void *(*run)(void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	errno = pthread_create(&thread, &attr, run, arg);
	if (errno)
		die("pthread_create");
	pthread_attr_destroy(&attr);
}

// A child that ends with this process.
pid_t child_start(const char *name)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
	}
	return pid;
}

static void holder_start(void)
{
	int ready[2];
	char c;

	if (pipe(ready))
		die("pipe");
	if (child_start("w_holder") == 0) {
		int fd = open(LOCK_PATH, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0 || flock(fd, LOCK_EX))
			die(LOCK_PATH);
		if (write(ready[1], "", 1) != 1)
			die("pipe");
		sleep_forever();
	}
	if (read(ready[0], &c, 1) != 1)
		die("lock holder");
	close(ready[0]);
	close(ready[1]);
}

static void waiters_start(void)
{
	if (child_start("w_main") == 0) {
		for (size_t i = 0; i < wait_count; i++)
			thread_start(wait_thread, (void *)i);
		sleep_forever();
	}
}

// The kernel's limit is at least this afterwards.
static void limit_raise(const char *path, long least)
{
	FILE *f = fopen(path, "r+e");
	long now;

	if (!f || fscanf(f, "%ld", &now) != 1)
		die(path);
	rewind(f);
	if (now < least && (fprintf(f, "%ld", least) < 0 || fflush(f)))
		die(path);
	fclose(f);
}

// Processes in which a few of each kind wait; each one's first thread sleeps, and counts as one.
static void crowd_start(void)
{
	int processes = self.crowd_processes, threads = self.crowd_threads;
	// a wait has three descriptors at most
	struct rlimit files = { .rlim_cur = (rlim_t)threads * 3 + 64,
				.rlim_max = (rlim_t)threads * 3 + 64 };

	if (!processes)
		return;
	limit_raise("/proc/sys/kernel/threads-max", 2L * processes * threads + 1000);
	limit_raise("/proc/sys/kernel/pid_max", 2L * processes * threads + 1000);
	limit_raise("/proc/sys/vm/max_map_count", 4L * threads + 1000);
	for (int p = 0; p < processes; p++) {
		if (child_start("w_crowd"))
			continue;
		if (setrlimit(RLIMIT_NOFILE, &files))
			die("setrlimit");
		for (int i = 1; i < threads; i++)
			thread_start(wait_thread, (void *)((size_t)(p + i) % wait_count));
		sleep_forever();
	}
}

static void families_start(void)
{
	if (child_start("w_parent") == 0) {
		pid_t child = child_start("w_child");

		if (child == 0)
			sleep_forever();
		while (waitpid(child, NULL, 0) < 0)
			;
		die("w_child ended");
	}
	if (child_start("w_zparent") == 0) {
		if (child_start("w_zombie") == 0)
			_exit(0);
		sleep_forever();
	}
	if (child_start("w_stopped") == 0) {
		raise(SIGSTOP);
		sleep_forever();
	}
}

static void module_start(void)
{
	module_load();
	if (child_start("w_module") == 0)
		block_module();
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

int on_each_cpu(const char *name, int (*run)(long part), long things, int *cpus_out)
{
	int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN), failed = 0, status;
	pid_t pid[CPUS_MAX];

	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	for (int cpu = 0; cpu < cpus; cpu++) {
		pid[cpu] = child_start(name);
		if (pid[cpu])
			continue;
		pin(cpu);
		// the first ones do one more, so that it is as many as were asked for
		_exit(run(things / cpus + (cpu < things % cpus)) != 0);
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		if (waitpid(pid[cpu], &status, 0) != pid[cpu])
			die(name);
		failed += status != 0;
	}
	*cpus_out = cpus;
	return failed;
}

static void *spin_user(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "w_spin_user");
	pin(self.spin_user_cpu);
	for (volatile unsigned i = 0;; i++)
		;
	return NULL;
}

static void *spin_kernel(void *arg)
{
	int fd = open("/dev/zero", O_RDONLY);
	char *sink = mmap(NULL, SPIN_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	(void)arg;
	if (fd < 0 || sink == MAP_FAILED)
		die("/dev/zero");
	prctl(PR_SET_NAME, "w_spin_kernel");
	pin(self.spin_kernel_cpu);
	for (;;) {
		if (pread(fd, sink, SPIN_BYTES, 0) != SPIN_BYTES)
			die("/dev/zero");
	}
	return NULL;
}

static void spin_start(void)
{
	if (self.spin_pid || (self.spin_user_cpu < 0 && self.spin_kernel_cpu < 0))
		return;
	self.spin_pid = child_start("w_spin");
	if (self.spin_pid == 0) {
		if (self.spin_user_cpu >= 0)
			thread_start(spin_user, NULL);
		if (self.spin_kernel_cpu >= 0)
			thread_start(spin_kernel, NULL);
		sleep_forever();
	}
}

static void *short_thread(void *arg)
{
	return arg;
}

// Processes that fork, start a thread and end, as fast as they can.
static void churn_start(void)
{
	if (churn_pid)
		return;
	churn_pid = child_start("w_churn");
	if (churn_pid)
		return;
	for (unsigned i = 0;; i++) {
		if (child_start("w_brief") == 0) {
			thread_start(short_thread, NULL);
			if (i % 2)
				sched_yield();
			_exit(0);
		}
		if (i % 4 == 3)
			while (waitpid(-1, NULL, i % 8 == 7 ? 0 : WNOHANG) > 0)
				;
	}
}

void child_end(pid_t *pid)
{
	if (*pid) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

// --- what a guest should not do

// A child that waits in uninterruptible sleep: its own child neither ends nor runs another program.
static void hang_start(void)
{
	if (hung_pid)
		return;
	hung_pid = child_start("w_hung");
	if (hung_pid)
		return;
	if (vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sleep_forever();
	}
	die("w_hung goes on");
}

void setting_write(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		die(path);
	close(fd);
}

// A child that keeps the last CPU in the kernel, and lets nobody else have it, the watchdog included.
static void hog_start(void)
{
	struct sched_param highest = { .sched_priority = 99 };

	if (hog_pid)
		return;
	setting_write("/proc/sys/kernel/watchdog", "0");
	setting_write("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	hog_pid = child_start("w_hog");
	if (hog_pid)
		return;
	if (sched_setscheduler(0, SCHED_FIFO, &highest))
		die("sched_setscheduler");
	self.spin_kernel_cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	spin_kernel(NULL);
}

// No oops, but what the kernel would say.
static void oops_say(void)
{
	setting_write("/dev/kmsg", "<1>Internal error: Oops: 0000000096000004 [#1] SMP\n");
}

// --- testimony

static void print_clock(void)
{
	struct timespec mono, real;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	printf("CLOCK mono %lld.%09ld real %lld.%09ld\n", (long long)mono.tv_sec, mono.tv_nsec,
	       (long long)real.tv_sec, real.tv_nsec);
}

static void print_log(const char *id)
{
	enum { READ_ALL = 3, SIZE = 10 };
	int size = klogctl(SIZE, NULL, 0);
	char *text = size > 0 ? malloc((size_t)size) : NULL;
	int n = text ? klogctl(READ_ALL, text, size) : -1;

	printf("DMESG BEGIN %s\n%.*s\nDMESG END %s\n", id, n > 0 ? n : 0, text ? text : "", id);
	free(text);
}

static void print_flood(long kib)
{
	char line[65];

	memset(line, 'x', 63);
	line[63] = '\n';
	line[64] = 0;
	for (long i = 0; i < kib * 16; i++)
		fputs(line, stdout);
	printf("FLOOD END %ld\n", kib);
}

static void end(int how)
{
	fflush(stdout);
	tcdrain(STDOUT_FILENO);
	sync();
	reboot(how);
	die("reboot");
}

static void crash(void)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY);

	fflush(stdout);
	if (fd < 0 || write(fd, "c", 1) != 1)
		die("sysrq-trigger");
}

// --- commands

static void obey(char *line)
{
	char *word = strtok(line, " \r\n"), *arg = strtok(NULL, " \r\n");
	bool on = arg && !strcmp(arg, "on");

	if (!word)
		return;
	if (!strcmp(word, "truth") || !strcmp(word, "ztruth")) {
		print_truth(arg ? arg : "-", *word == 'z', &self);
	} else if (!strcmp(word, "dmesg")) {
		print_log(arg ? arg : "-");
	} else if (!strcmp(word, "surroundings")) {
		print_surroundings(arg ? arg : "-");
	} else if (!strcmp(word, "cgroup")) {
		if (on)
			cgroup_start();
		else
			cgroup_end();
		printf("CGROUP %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "queue")) {
		if (on)
			queue_start();
		else
			queue_end();
		printf("QUEUE %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "clock")) {
		print_clock();
	} else if (!strcmp(word, "flood")) {
		print_flood(arg ? atol(arg) : 1);
	} else if (!strcmp(word, "echo")) {
		printf("ECHO %s\n", arg ? arg : "");
	} else if (!strcmp(word, "churn")) {
		if (on)
			churn_start();
		else
			child_end(&churn_pid);
		printf("CHURN %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "spin")) {
		if (on)
			spin_start();
		else
			child_end(&self.spin_pid);
		printf("SPIN %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "kinds")) {
		kinds_start();
	} else if (!strcmp(word, "load")) {
		if (on)
			load_start();
		else
			load_end();
		printf("LOAD %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "mix")) {
		if (on)
			mix_start();
		else if (arg && !strcmp(arg, "off"))
			mix_end();
		if (on || !arg || !strcmp(arg, "off"))
			printf("MIX %s\n", on ? "on" : "off");
		else
			mix_report(arg);
	} else if (!strcmp(word, "count")) {
		const char *of = strtok(NULL, " \r\n");
		count_calls(arg ? atol(arg) : 0, of && !strcmp(of, "sockets"));
	} else if (!strcmp(word, "leak")) {
		leak_rounds(arg ? atol(arg) : 0);
	} else if (!strcmp(word, "kprobe")) {
		const char *function = strtok(NULL, " \r\n");
		if (function)
			kprobe(arg, function);
	} else if (!strcmp(word, "module")) {
		if (arg && !strcmp(arg, "load"))
			module_load();
		else
			module_unload();
		printf("MODULE %s\n", arg ? arg : "");
	} else if (!strcmp(word, "trap")) {
		trap_self();
	} else if (!strcmp(word, "bpf")) {
		if (on)
			bpf_start();
		else
			bpf_end();
		printf("BPF %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "retprobe")) {
		if (on)
			retprobe_start();
		else
			retprobe_end();
		printf("RETPROBE %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "calls")) {
		calls_start();
		printf("CALLS\n");
	} else if (!strcmp(word, "hang")) {
		if (on)
			hang_start();
		else
			child_end(&hung_pid);
		printf("HANG %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "hog")) {
		if (on)
			hog_start();
		else
			child_end(&hog_pid);
		printf("HOG %s\n", on ? "on" : "off");
	} else if (!strcmp(word, "oops")) {
		oops_say();
	} else if (!strcmp(word, "status")) {
		printf("TEST EXIT %s\n", arg);
	} else if (!strcmp(word, "poweroff")) {
		end(RB_POWER_OFF);
	} else if (!strcmp(word, "reboot")) {
		end(RB_AUTOBOOT);
	} else if (!strcmp(word, "crash")) {
		crash();
	} else {
		printf("UNKNOWN %s\n", word);
	}
}

static void console_quiet(void)
{
	struct termios t;

	if (tcgetattr(STDIN_FILENO, &t))
		return;
	t.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL | ISIG);
	tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

struct settling {
	bool all;
	size_t waiting; // threads in one of the waits
};

// A thread is where it should be once the kernel calls it sleeping (or what its name says).
static void settle(const char *stat, void *arg)
{
	struct settling *s = arg;
	const char *comm = strchr(stat, '('), *state = strstr(stat, ") ");

	if (!comm || !state || strncmp(comm, "(w_", 3) || !strncmp(comm, "(w_spin", 7))
		return;
	char want = !strncmp(comm, "(w_zombie)", 10)	? 'Z'
		    : !strncmp(comm, "(w_stopped)", 11) ? 'T'
							: 'S';
	s->all = s->all && state[2] == want;
	for (size_t i = 0; i < wait_count; i++) {
		size_t len = strlen(waits[i].name);
		s->waiting += !strncmp(comm + 1, waits[i].name, len) && comm[1 + len] == ')';
	}
}

static bool settled(void)
{
	struct settling s = { .all = true };
	size_t crowd = (size_t)self.crowd_processes * (size_t)(self.crowd_threads - 1);

	each_thread_stat(settle, &s);
	return s.all && s.waiting == wait_count + crowd;
}

static bool crowd_parse(const char *arg)
{
	int processes, threads;
	char end;

	if (sscanf(arg, "%dx%d%c", &processes, &threads, &end) != 2 || processes < 1 ||
	    threads < 1 || processes > CROWD_MAX / threads)
		return false;
	self.crowd_processes = processes;
	self.crowd_threads = threads;
	return true;
}

int main(int argc, char **argv)
{
	bool spin = false, churn = false, module = false;
	char line[256];

	for (int opt; (opt = getopt(argc, argv, "u:k:scmn:")) != -1;) {
		switch (opt) {
		case 'u': self.spin_user_cpu = atoi(optarg); break;
		case 'k': self.spin_kernel_cpu = atoi(optarg); break;
		case 's': spin = true; break;
		case 'c': churn = true; break;
		case 'm': module = true; break;
		case 'n':
			if (crowd_parse(optarg))
				break;
			// fall through
		default:
			fprintf(stderr,
				"usage: workload [-u CPU] [-k CPU] [-s] [-c] [-m] [-n PxT]\n"
				"  -u CPU, -k CPU  where to spin in user space, in the kernel\n"
				"  -s, -c          begin to spin, to churn, at once\n"
				"  -m              wait in a module, too\n"
				"  -n PxT          P more processes of T waiting threads each\n");
			return 2;
		}
	}
	console_quiet();
	setvbuf(stdout, NULL, _IOFBF, 65536);
	holder_start();
	waiters_start();
	families_start();
	if (module)
		module_start();
	crowd_start();
	// each look at many threads takes time that they need to get where they wait
	while (!settled())
		usleep(20000 + 200 * (useconds_t)(self.crowd_processes * self.crowd_threads));
	if (spin)
		spin_start();
	if (churn)
		churn_start();
	printf("READY\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
		fflush(stdout);
	}
	// nobody can talk to us any more; what runs in the guest runs on
	sleep_forever();
}
