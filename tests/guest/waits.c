// SPDX-License-Identifier: Apache-2.0
// The places in the kernel in which the test guest's threads wait.
#define _GNU_SOURCE
#include "tests/guest/workload.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/vm_sockets.h> // needs <sys/socket.h> before it

_Noreturn void sleep_forever(void)
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

void module_load(void)
{
	int fd = open(MODULE_PATH, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		die(MODULE_PATH);
	close(fd);
}

void module_unload(void)
{
	if (syscall(SYS_delete_module, MODULE_NAME, O_NONBLOCK))
		die(MODULE_NAME);
}

// The one wait that is not in the kernel's own text.
_Noreturn void block_module(void)
{
	const struct sockaddr_vm any = { .svm_family = AF_VSOCK,
					 .svm_port = 1234,
					 .svm_cid = VMADDR_CID_ANY };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof(any)) || listen(fd, 1))
		die("vsock");
	while (accept(fd, NULL, NULL) < 0)
		;
	die("vsock: a connection from nowhere");
	abort();
}

const struct wait waits[] = {
	{ "w_futex", block_futex }, { "w_pipe", block_pipe },	{ "w_poll", block_poll },
	{ "w_epoll", block_epoll }, { "w_sleep", block_sleep }, { "w_sock", block_sock },
	{ "w_flock", block_flock },
};
const size_t wait_count = sizeof(waits) / sizeof(waits[0]);
