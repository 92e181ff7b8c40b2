// SPDX-License-Identifier: Apache-2.0
// Talks to a Unix stream socket the way no well-behaved client would: what is on standard input is
// sent as it is, what comes back is printed.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
	"usage: sockpoke [-n LINES] [-t MS] [-v] SOCKET <BYTES\n"
	"  -n LINES  leave once this many lines have come back (default: when the peer hangs up)\n"
	"  -t MS     leave after this time at the latest (default 10000), with status 1 if -n was "
	"not reached\n"
	"  -v        vanish: send, and close without reading\n";

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int fail(const char *what)
{
	fprintf(stderr, "sockpoke: %s: %s\n", what, strerror(errno));
	return 2;
}

// Sends all of standard input; a peer that has had enough is no error.
static int send_input(int sock)
{
	char buf[65536];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, sizeof(buf))) > 0) {
		for (ssize_t sent = 0, m; sent < n; sent += m) {
			m = send(sock, buf + sent, (size_t)(n - sent), MSG_NOSIGNAL);
			if (m < 0)
				return errno == EPIPE || errno == ECONNRESET ? 0 : -1;
		}
	}
	return n < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	long lines = -1, timeout = 10000;
	int vanish = 0;

	for (int opt; (opt = getopt(argc, argv, "n:t:v")) != -1;) {
		switch (opt) {
		case 'n': lines = atol(optarg); break;
		case 't': timeout = atol(optarg); break;
		case 'v': vanish = 1; break;
		default: fputs(usage, stderr); return 2;
		}
	}
	if (optind != argc - 1 || strlen(argv[optind]) >= sizeof(to.sun_path)) {
		fputs(usage, stderr);
		return 2;
	}
	strcpy(to.sun_path, argv[optind]);

	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof(to)))
		return fail(argv[optind]);
	if (send_input(sock))
		return fail("send");
	if (vanish)
		return 0;
	for (long end = now_ms() + timeout, left; lines != 0 && (left = end - now_ms()) > 0;) {
		struct pollfd p = { .fd = sock, .events = POLLIN };
		char buf[65536];

		if (poll(&p, 1, (int)left) <= 0)
			continue;
		ssize_t n = read(sock, buf, sizeof(buf));
		if (n <= 0)
			return lines > 0;
		for (ssize_t i = 0; i < n && lines != 0; i++) {
			putchar(buf[i]);
			if (buf[i] == '\n' && lines > 0)
				lines--;
		}
		fflush(stdout);
	}
	return lines > 0;
}
