// SPDX-License-Identifier: Apache-2.0
// The program a test guest runs: threads that block in known places and are named after them, and a
// command reader on standard input that lets the guest testify about itself (see
// tests/guest/README.md).
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define LOCK_PATH    "/tmp/lock"
#define THREAD_STACK (64 << 10)
#define SPIN_BYTES   (8 << 20)
#define LISTING_MAX  (8 << 20)

static void die(const char *what)
{
	fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
	_exit(1);
}

// --- waits
// ------------------------------------------------------------------------------------------

static _Noreturn void sleep_forever(void)
{
	for (;;)
		pause();
}

static _Noreturn void block_futex(void)
{
	static int word;

	for (;;)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static int empty_pipe(void)
{
	int ends[2];

	if (pipe(ends))
		die("pipe");
	return ends[0]; // the writing end stays open and unused, so that readers wait
}

static _Noreturn void block_pipe(void)
{
	int fd = empty_pipe();
	char c;

	while (read(fd, &c, 1) <= 0)
		;
	die("pipe: a byte from nowhere");
	abort();
}

static _Noreturn void block_poll(void)
{
	struct pollfd want = { .fd = empty_pipe(), .events = POLLIN };

	for (;;)
		poll(&want, 1, -1);
}

static _Noreturn void block_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, empty_pipe(), &event))
		die("epoll");
	for (;;)
		epoll_wait(fd, &event, 1, -1);
}

static _Noreturn void block_sleep(void)
{
	struct timespec long_time = { .tv_sec = 1000000 };

	for (;;)
		nanosleep(&long_time, NULL);
}

static _Noreturn void block_sock(void)
{
	int pair[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	for (;;)
		recv(pair[0], &c, 1, 0);
}

static _Noreturn void block_flock(void)
{
	int fd = open(LOCK_PATH, O_RDWR);

	if (fd < 0)
		die(LOCK_PATH);
	while (flock(fd, LOCK_EX))
		;
	die("flock: got a lock that is held");
	abort();
}

static const struct {
	const char *name;
	void (*run)(void);
} waits[] = {
	{ "w_futex", block_futex }, { "w_pipe", block_pipe },	{ "w_poll", block_poll },
	{ "w_epoll", block_epoll }, { "w_sleep", block_sleep }, { "w_sock", block_sock },
	{ "w_flock", block_flock },
};
#define WAITS (sizeof(waits) / sizeof(waits[0]))

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

// --- processes
// --------------------------------------------------------------------------------------

// A child that ends with this process.
static pid_t child_start(const char *name)
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
		for (size_t i = 0; i < WAITS; i++)
			thread_start(wait_thread, (void *)i);
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

static int spin_user_cpu = -1, spin_kernel_cpu = -1;
static pid_t spin_pid, churn_pid;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static void *spin_user(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "w_spin_user");
	pin(spin_user_cpu);
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
	pin(spin_kernel_cpu);
	for (;;) {
		if (pread(fd, sink, SPIN_BYTES, 0) != SPIN_BYTES)
			die("/dev/zero");
	}
	return NULL;
}

static void spin_start(void)
{
	if (spin_pid || (spin_user_cpu < 0 && spin_kernel_cpu < 0))
		return;
	spin_pid = child_start("w_spin");
	if (spin_pid == 0) {
		if (spin_user_cpu >= 0)
			thread_start(spin_user, NULL);
		if (spin_kernel_cpu >= 0)
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

static void child_end(pid_t *pid)
{
	if (*pid) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

// --- testimony
// --------------------------------------------------------------------------------------

// Everything is read first and printed afterwards: the console is far slower than /proc.
struct listing {
	char *text;
	size_t len;
};

static __attribute__((format(printf, 2, 3))) void listing_add(struct listing *l, const char *format,
							      ...)
{
	va_list args;

	va_start(args, format);
	int n = vsnprintf(l->text + l->len, LISTING_MAX - l->len, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= LISTING_MAX - l->len)
		die("listing too long");
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
static void listing_add_thread(struct listing *l, int tgid, int tid)
{
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

static void listing_add_threads(struct listing *l)
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
			listing_add_thread(l, atoi(procs[p]->d_name), atoi(tasks[t]->d_name));
			free(tasks[t]);
		}
		if (ntasks >= 0)
			free(tasks);
		free(procs[p]);
	}
	free(procs);
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

static void print_truth(const char *id, bool pack)
{
	static struct listing kernel;
	struct listing l = { .text = malloc(LISTING_MAX) };

	if (!kernel.text) {
		kernel.text = malloc(LISTING_MAX);
		if (!kernel.text)
			die("malloc");
		listing_add_kernel(&kernel);
	}
	if (!l.text)
		die("malloc");
	listing_add(&l, "%sP %d %d\n", kernel.text, getpid(), (int)gettid());
	if (spin_pid && spin_user_cpu >= 0)
		listing_add(&l, "S w_spin_user %d %d\n", spin_pid, spin_user_cpu);
	if (spin_pid && spin_kernel_cpu >= 0)
		listing_add(&l, "S w_spin_kernel %d %d\n", spin_pid, spin_kernel_cpu);
	listing_add_threads(&l);
	printf("TRUTH BEGIN %s\n", id);
	if (pack)
		print_packed(l.text, l.len);
	else
		fwrite(l.text, 1, l.len, stdout);
	printf("TRUTH END %s\n", id);
	free(l.text);
}

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
// ---------------------------------------------------------------------------------------

static void obey(char *line)
{
	char *word = strtok(line, " \r\n"), *arg = strtok(NULL, " \r\n");
	bool on = arg && !strcmp(arg, "on");

	if (!word)
		return;
	if (!strcmp(word, "truth") || !strcmp(word, "ztruth")) {
		print_truth(arg ? arg : "-", *word == 'z');
	} else if (!strcmp(word, "dmesg")) {
		print_log(arg ? arg : "-");
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
			child_end(&spin_pid);
		printf("SPIN %s\n", on ? "on" : "off");
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

// A thread is where it should be once the kernel calls it sleeping (or what its name says).
static bool settled(void)
{
	struct listing l = { .text = malloc(LISTING_MAX) };
	bool all = true;

	if (!l.text)
		die("malloc");
	listing_add_threads(&l);
	for (const char *p = l.text; (p = strstr(p, "\nstat ")); p++) {
		const char *comm = strchr(p, '('), *state = strstr(p, ") ");

		if (!comm || !state || strncmp(comm, "(w_", 3) || !strncmp(comm, "(w_spin", 7))
			continue;
		char want = !strncmp(comm, "(w_zombie)", 10)	? 'Z'
			    : !strncmp(comm, "(w_stopped)", 11) ? 'T'
								: 'S';
		all = all && state[2] == want;
	}
	for (size_t i = 0; i < WAITS; i++)
		all = all && strstr(l.text, waits[i].name);
	free(l.text);
	return all;
}

int main(int argc, char **argv)
{
	bool spin = false, churn = false;
	char line[256];

	for (int opt; (opt = getopt(argc, argv, "u:k:sc")) != -1;) {
		switch (opt) {
		case 'u': spin_user_cpu = atoi(optarg); break;
		case 'k': spin_kernel_cpu = atoi(optarg); break;
		case 's': spin = true; break;
		case 'c': churn = true; break;
		default:
			fprintf(stderr,
				"usage: workload [-u CPU] [-k CPU] [-s] [-c]\n"
				"  -u CPU, -k CPU  where to spin in user space, in the kernel\n"
				"  -s, -c          begin to spin, to churn, at once\n");
			return 2;
		}
	}
	console_quiet();
	setvbuf(stdout, NULL, _IOFBF, 65536);
	holder_start();
	waiters_start();
	families_start();
	while (!settled())
		usleep(20000);
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
