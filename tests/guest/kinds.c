// SPDX-License-Identifier: Apache-2.0
// Processes that wait in ways of which it is known what for, and on whom: each says so in a line. And load
// in which locks are fought for all the time without any deadlock.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/tiocl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE	      4096
#define NEVER_BLOCKED (1ul << (SIGKILL - 1) | 1ul << (SIGSTOP - 1) | 3ul << 31)

// What all of them see.
static struct {
	_Atomic int ready, locked;    // about to wait for the last time; has its first lock
	_Atomic int console_free;     // its semaphore was not waited for
	_Atomic uint32_t held, mixed; // futexes that lend priorities
} * shared;

static struct {
	char flock_a[32], flock_b[32], mixed[32], record[32], open_file[32], lease[32], written[32];
} path = { "/tmp/k_flock_a", "/tmp/k_flock_b", "/tmp/k_mixed",	"/tmp/k_record",
	   "/tmp/k_ofd",     "/tmp/k_lease",   "/tmp/k_written" };

static int faulty_pipe[2], full_pipe[2], queue_id, full_id, set_id;

// --- parts

// Nothing blocks between this and what the thread is to wait in.
static void ready(void)
{
	atomic_fetch_add(&shared->ready, 1);
}

static void await(_Atomic int *count, int least)
{
	while (atomic_load(count) < least)
		sched_yield();
}

static int file_of(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		die(name);
	return fd;
}

// Give a file another descriptor, which the case's script knows.
static void move(int fd, int to)
{
	if (fd < 0 || dup2(fd, to) < 0)
		die("descriptor");
	close(fd);
}

static void lock_file(const char *name)
{
	if (flock(file_of(name), LOCK_EX))
		die(name);
}

static void lock_record(const char *name, int how)
{
	struct flock all = { .l_type = F_WRLCK };

	if (fcntl(file_of(name), how, &all))
		die(name);
}

static void lock_futex(_Atomic uint32_t *word)
{
	uint32_t free = 0;

	if (atomic_compare_exchange_strong(word, &free, (uint32_t)getpid()))
		return;
	if (syscall(SYS_futex, word, FUTEX_LOCK_PI, 0, NULL, NULL, 0))
		die("futex");
}

static void unlock_futex(_Atomic uint32_t *word)
{
	uint32_t mine = (uint32_t)getpid();

	if (!atomic_compare_exchange_strong(word, &mine, 0))
		syscall(SYS_futex, word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0);
}

// A page that a fault on waits for ever: registered with a descriptor that nobody reads. There is one before it.
static char *page_nobody_fills(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page = pages + PAGE;
	struct uffdio_register all = { .range = { (uintptr_t)page, PAGE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (fd < 0 || pages == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) ||
	    ioctl(fd, UFFDIO_REGISTER, &all))
		die("userfaultfd");
	return page;
}

// --- those who wait

static void hold(void)
{
	lock_record(path.record, F_SETLK);
	lock_record(path.open_file, F_OFD_SETLK);
	lock_futex(&shared->held);
	signal(SIGIO, SIG_IGN);
	if (fcntl(file_of(path.lease), F_SETLEASE, F_WRLCK))
		die("lease");
}

static void pause_only(void)
{
	ready();
	pause();
}

static void flock_both(const char *first, const char *second)
{
	lock_file(first);
	atomic_fetch_add(&shared->locked, 1);
	await(&shared->locked, 2);
	int fd = file_of(second);
	ready();
	flock(fd, LOCK_EX);
}

static void flock_ab(void)
{
	flock_both(path.flock_a, path.flock_b);
}
static void flock_ba(void)
{
	flock_both(path.flock_b, path.flock_a);
}

static void flock_third(void)
{
	int fd = file_of(path.flock_a);

	ready();
	flock(fd, LOCK_EX);
}

static void mix_futex(void)
{
	lock_file(path.mixed);
	atomic_fetch_add(&shared->locked, 1);
	await(&shared->locked, 4);
	ready();
	lock_futex(&shared->mixed);
}

static void mix_flock(void)
{
	lock_futex(&shared->mixed);
	int fd = file_of(path.mixed);
	atomic_fetch_add(&shared->locked, 1);
	await(&shared->locked, 4);
	ready();
	flock(fd, LOCK_EX);
}

static void wait_lock(const char *name, int how)
{
	struct flock all = { .l_type = F_WRLCK };
	int fd = file_of(name);

	ready();
	fcntl(fd, how, &all);
}

static void record(void)
{
	wait_lock(path.record, F_SETLKW);
}
static void open_file(void)
{
	wait_lock(path.open_file, F_OFD_SETLKW);
}

static void lease(void)
{
	ready();
	open(path.lease, O_RDWR);
}

static void priority_futex(void)
{
	ready();
	lock_futex(&shared->held);
}

static void child(void)
{
	pid_t pid = child_start("k_child_of");

	if (!pid)
		sleep_forever();
	ready();
	waitpid(pid, NULL, 0);
}

static void write_to_full_pipe(void)
{
	char c[PAGE] = { 0 };

	ready();
	for (;;)
		if (write(full_pipe[1], c, sizeof(c)) < 0)
			die("pipe");
}

static void socket_read(void)
{
	int pair[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	move(pair[0], 10);
	ready();
	recv(10, &c, 1, 0);
}

// The kernel counts this time in its ticks.
static void socket_read_for_long(void)
{
	const struct timeval million = { .tv_sec = 1000000 };
	int ends[2];
	char c;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &million, sizeof(million)))
		die("socketpair");
	ready();
	if (read(ends[0], &c, 1))
		die("socket");
}

static void read_from(int fd)
{
	uint64_t words[64];

	move(fd, 11);
	ready();
	if (read(11, words, sizeof(words)))
		die("a byte from nowhere");
}

static void event_read(void)
{
	read_from(eventfd(0, 0));
}

static void timer_read(void)
{
	struct itimerspec late = { .it_value.tv_sec = 1000000 };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	if (timerfd_settime(fd, 0, &late, NULL))
		die("timerfd");
	read_from(fd);
}

static void notify_read(void)
{
	int fd = inotify_init();

	if (inotify_add_watch(fd, "/proc", IN_CREATE) < 0)
		die("inotify");
	read_from(fd);
}

static void poll_two(void)
{
	int ends[2];

	if (pipe(ends))
		die("pipe");
	move(ends[0], 12);
	move(eventfd(0, 0), 13);
	struct pollfd want[2] = { { .fd = 12, .events = POLLIN }, { .fd = 13, .events = POLLIN } };
	ready();
	poll(want, 2, -1);
}

static void epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	move(epoll_create1(0), 14);
	if (epoll_ctl(14, EPOLL_CTL_ADD, eventfd(0, 0), &event))
		die("epoll");
	ready();
	epoll_wait(14, &event, 1, -1);
}

static void message(void)
{
	struct {
		long type;
		char text[8];
	} m;

	ready();
	msgrcv(queue_id, &m, sizeof(m.text), 0, 0);
}

static void message_room(void)
{
	struct {
		long type;
		char text[1024];
	} m = { .type = 1 };

	ready();
	for (;;)
		if (msgsnd(full_id, &m, sizeof(m.text), 0))
			die("msgsnd");
}

static void semaphore(void)
{
	struct sembuf down = { .sem_num = 1, .sem_op = -1 };

	ready();
	semop(set_id, &down, 1);
}

static void signal_wait(void)
{
	sigset_t all, wanted;

	sigfillset(&all);
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGUSR1);
	sigprocmask(SIG_SETMASK, &all, NULL);
	ready();
	sigwaitinfo(&wanted, NULL);
}

static void signal_suspend(void)
{
	sigset_t all;

	sigfillset(&all);
	sigdelset(&all, SIGUSR2);
	ready();
	sigsuspend(&all);
}

static void timer(void)
{
	struct timespec late = { .tv_sec = 1000000 };

	ready();
	nanosleep(&late, NULL);
}

// write() copies with the file's i_rwsem, or the pipe's mutex, held: its page fault waits with them
static void fault_in_file(void)
{
	const char *page = page_nobody_fills();
	int fd = file_of(path.written);

	ready();
	if (write(fd, page, 1) < 0)
		die("write");
}

static void fault_in_pipe(void)
{
	const char *page = page_nobody_fills();

	ready();
	if (write(faulty_pipe[1], page, 1) < 0)
		die("write");
}

// The console's semaphore is held while the table of letters is copied (drivers/tty/vt/selection.c, sel_loadlut()):
// its page fault waits with it. The table is 4 bytes behind the byte that says what is asked for.
static void load_letters(char *request)
{
	const int fd = open("/dev/tty0", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		die("/dev/tty0");
	*request = TIOCL_SELLOADLUT;
	ready();
	if (ioctl(fd, TIOCLINUX, request))
		die("TIOCLINUX");
}

static void fault_in_console(void)
{
	load_letters(page_nobody_fills() - 4);
}

// Newer kernels (7.3) copy first, and nobody has to wait.
static void use_console(void)
{
	static char request[64];

	load_letters(request);
	atomic_store(&shared->console_free, 1);
	pause();
}

static void write_same_file(void)
{
	int fd = file_of(path.written);

	ready();
	if (write(fd, "", 1) < 0)
		die("write");
}

static void write_same_pipe(void)
{
	ready();
	if (write(faulty_pipe[1], "", 1) < 0)
		die("write");
}

// --- starting them

char state_of(pid_t pid)
{
	char name[64], line[512] = "";

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	FILE *f = fopen(name, "re");
	if (!f || !fgets(line, sizeof(line), f))
		die(name);
	fclose(f);
	char *end = strrchr(line, ')');
	return end ? end[2] : '?';
}

static pid_t start(const char *name, void (*run)(void))
{
	pid_t pid = child_start(name);

	if (!pid) {
		run();
		die("something that was to wait for ever came back");
	}
	return pid;
}

// Wait until as many are ready, and the last one has gone to sleep.
static void settle(int count, pid_t pid)
{
	while (atomic_load(&shared->ready) < count)
		usleep(1000);
	while (!strchr("SD", state_of(pid)))
		usleep(1000);
}

static unsigned long inode(const char *name)
{
	struct stat st;

	if (stat(name, &st))
		die(name);
	return (unsigned long)st.st_ino;
}

static void set_up(void)
{
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	queue_id = msgget(IPC_PRIVATE, 0600);
	full_id = msgget(IPC_PRIVATE, 0600);
	set_id = semget(IPC_PRIVATE, 3, 0600);
	if (shared == MAP_FAILED || pipe(faulty_pipe) || pipe(full_pipe) || queue_id < 0 ||
	    full_id < 0 || set_id < 0)
		die("kinds");
	if (!access("/proc/sys/kernel/hung_task_timeout_secs", W_OK))
		setting_write("/proc/sys/kernel/hung_task_timeout_secs", "0");
	setting_write("/proc/sys/fs/lease-break-time", "1000000");
}

// A process that its control group keeps frozen.
static pid_t start_frozen(void)
{
	char number[16];
	pid_t pid;

	if (mkdir("/tmp/cgroup", 0700) || mount("cgroup2", "/tmp/cgroup", "cgroup2", 0, NULL) ||
	    mkdir("/tmp/cgroup/frozen", 0700))
		die("cgroup2");
	pid = start("k_frozen", pause_only);
	settle(1, pid);
	snprintf(number, sizeof(number), "%d", pid);
	setting_write("/tmp/cgroup/frozen/cgroup.procs", number);
	setting_write("/tmp/cgroup/frozen/cgroup.freeze", "1");
	for (char text[256] = ""; !strstr(text, "frozen 1");) {
		FILE *f = fopen("/tmp/cgroup/frozen/cgroup.events", "re");
		size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

		text[n] = 0;
		if (!f)
			die("cgroup.events");
		fclose(f);
	}
	return pid;
}

// "KIND name pid kind owner key value": what the guest knows; "-" for none
static void say(const char *name, pid_t pid, const char *kind, pid_t owner, const char *key,
		unsigned long value)
{
	printf("KIND %s %d %s %d %s %lu\n", name, pid, kind, owner, key, value);
}

static int count; // of those that are to be ready

static pid_t begin(const char *name, void (*run)(void))
{
	pid_t pid = start(name, run);

	settle(++count, pid);
	return pid;
}

static void one(const char *name, void (*run)(void), const char *kind, pid_t owner, const char *key,
		unsigned long value)
{
	say(name, begin(name, run), kind, owner, key, value);
}

static void in_rings(void)
{
	const pid_t ab = start("k_flock_ab", flock_ab), ba = start("k_flock_ba", flock_ba);

	count += 2;
	settle(count, ab);
	settle(count, ba);
	say("k_flock_ab", ab, "flock", ba, "inode", inode(path.flock_b));
	say("k_flock_ba", ba, "flock", ab, "inode", inode(path.flock_a));
	one("k_flock_third", flock_third, "flock", ab, "inode", inode(path.flock_a));

	const pid_t futex = start("k_mix_futex", mix_futex), lock = start("k_mix_flock", mix_flock);
	count += 2;
	settle(count, futex);
	settle(count, lock);
	say("k_mix_futex", futex, "futex-shared", lock, "-", 0);
	say("k_mix_flock", lock, "flock", futex, "inode", inode(path.mixed));
	printf("RING %d %d\nRING %d %d\n", ab, ba, futex, lock);
}

static void hold_and_pause(void)
{
	hold();
	pause_only();
}

static void on_holder(void)
{
	const pid_t holder = begin("k_holder", hold_and_pause);

	say("k_holder", holder, "signal", 0, "-", 0);
	one("k_record", record, "record-lock", holder, "inode", inode(path.record));
	one("k_ofd", open_file, "record-lock", holder, "inode", inode(path.open_file));
	one("k_lease", lease, "lease", holder, "inode", inode(path.lease));
	one("k_pi", priority_futex, "futex-shared", holder, "-", 0);
}

static void on_faults(void)
{
	const pid_t file = begin("k_fault_file", fault_in_file);
	const pid_t ends = begin("k_fault_pipe", fault_in_pipe);

	say("k_fault_file", file, "userfault", 0, "-", 0);
	say("k_fault_pipe", ends, "userfault", 0, "-", 0);
	one("k_rwsem", write_same_file, "rwsem-write", file, "-", 0);
	begin("k_fault_console", fault_in_console);
	const pid_t console = begin("k_semaphore", use_console);
	if (!atomic_load(&shared->console_free))
		say("k_semaphore", console, "semaphore", 0, "-", 0);
	one("k_mutex", write_same_pipe, "mutex", ends, "-", 0);
}

void kinds_start(void)
{
	set_up();
	const pid_t frozen = start_frozen();
	count = 1;
	say("k_frozen", frozen, "freezer", 0, "-", 0);
	in_rings();
	on_holder();
	on_faults();
	one("k_child", child, "child", 0, "-", 0);
	one("k_pipe_full", write_to_full_pipe, "pipe", 0, "descriptor",
	    (unsigned long)full_pipe[1]);
	one("k_socket", socket_read, "socket", 0, "descriptor", 10);
	one("k_eventfd", event_read, "eventfd", 0, "descriptor", 11);
	one("k_timerfd", timer_read, "timerfd", 0, "descriptor", 11);
	one("k_inotify", notify_read, "inotify", 0, "descriptor", 11);
	const pid_t poller = begin("k_poll", poll_two);
	say("k_poll", poller, "pipe", 0, "descriptor", 12);
	say("k_poll", poller, "eventfd", 0, "descriptor", 13);
	one("k_epoll", epoll, "epoll", 0, "descriptor", 14);
	one("k_msgrcv", message, "message", 0, "id", (unsigned long)queue_id);
	one("k_msgsnd", message_room, "message-room", 0, "id", (unsigned long)full_id);
	one("k_semop", semaphore, "sysv-semaphore", 0, "id", (unsigned long)set_id);
	// SIGUSR1, the two that cannot be blocked, and the two that the C library does not block
	one("k_sigwait", signal_wait, "signal", 0, "signals", 1ul << (SIGUSR1 - 1) | NEVER_BLOCKED);
	one("k_sigsuspend", signal_suspend, "signal", 0, "signals",
	    1ul << (SIGUSR2 - 1) | NEVER_BLOCKED);
	one("k_timer", timer, "timer", 0, "-", 0);
	one("k_timeout", socket_read_for_long, "timeout", 0, "-", 0);
	printf("KINDS END\n");
}

// --- load

static pid_t load_pid;

// Locks are held while others want them, and always taken in one order: some one can go on. The pauses leave
// the machine time for captures.
static void load_flock(void)
{
	int a = file_of("/tmp/l_flock_a"), b = file_of("/tmp/l_flock_b");

	for (;;)
		if (flock(a, LOCK_EX) || flock(b, LOCK_EX) || usleep(300) || flock(b, LOCK_UN) ||
		    flock(a, LOCK_UN))
			die("flock");
}

static void load_record(void)
{
	struct flock all = { .l_type = F_WRLCK }, none = { .l_type = F_UNLCK };
	int fd = file_of("/tmp/l_record");

	for (;;)
		if (fcntl(fd, F_SETLKW, &all) || usleep(300) || fcntl(fd, F_SETLK, &none))
			die("fcntl");
}

static void load_file(void)
{
	int fd = file_of("/tmp/l_file");
	static char bytes[64 << 10];

	for (;;)
		if (pwrite(fd, bytes, sizeof(bytes), 0) < 0 || usleep(100))
			die("pwrite");
}

static void load_futex(void)
{
	for (;;) {
		lock_futex(&shared->held);
		usleep(300);
		unlock_futex(&shared->held);
	}
}

static void load_directory(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/tmp/l_name.%d", getpid());
	for (;;)
		if (close(file_of(name)) || unlink(name) || usleep(100))
			die(name);
}

static void load_pipe(void)
{
	char c[512] = { 0 };

	for (;;)
		if (write(faulty_pipe[1], c, sizeof(c)) < 0 ||
		    read(faulty_pipe[0], c, sizeof(c)) < 0 || usleep(100))
			die("pipe");
}

// Each call waits until all CPUs have been out of the kernel.
static void load_rcu(void)
{
	for (;;)
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
			die("membarrier");
}

void load_start(void)
{
	static void (*const parts[])(void) = { load_flock,     load_record, load_file, load_futex,
					       load_directory, load_pipe,   load_rcu };

	if (load_pid)
		return;
	load_pid = child_start("w_load");
	if (load_pid)
		return;
	set_up();
	for (size_t i = 0; i < 2 * sizeof(parts) / sizeof(parts[0]); i++)
		start("w_load_part", parts[i / 2]);
	sleep_forever();
}

void load_end(void)
{
	child_end(&load_pid);
}
