/* SPDX-License-Identifier: Apache-2.0 */
/* Where a guest's console is connected to, and the terminal it may be. */
#include "cli/console.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/util.h"

#define CTRL_A 1

/* Signals by which a bug of ours would end the process with the terminal in raw mode. */
static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };

/*
 * For a signal handler and atexit(), hence not in an object: the terminal's modes before us.
 * Written before `is_raw` is set and not after.
 */
static struct termios saved_modes;
static volatile sig_atomic_t is_raw;

void cli_console_restore(void)
{
	if (!is_raw)
		return;
	is_raw = 0;
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &saved_modes); /* a hung-up terminal has no modes */
}

static void on_fatal(int signo)
{
	cli_console_restore();
	signal(signo, SIG_DFL);
	raise(signo);
}

static void set_raw(void)
{
	struct termios raw;
	static bool registered;

	if (tcgetattr(STDIN_FILENO, &saved_modes))
		return;
	raw = saved_modes;
	cfmakeraw(&raw);
	raw.c_oflag |= OPOST; /* our own messages end in a bare newline */
	is_raw = 1;
	if (!registered) {
		registered = true;
		atexit(cli_console_restore);
		for (size_t i = 0; i < ARRAY_SIZE(fatal_signals); i++) {
			struct sigaction old;

			/* a sanitizer's report is worth more than ours */
			if (!sigaction(fatal_signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
				signal(fatal_signals[i], on_fatal);
		}
	}
	(void)tcsetattr(STDIN_FILENO, TCSANOW, &raw); /* cooked keys are better than none */
}

/* --- opening ------------------------------------------------------------------------------------
 */

static enum gs_code open_file(struct cli_console *c, const char *path, struct gs_error *err)
{
	c->out = c->owned[0] =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600);
	if (c->out < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "console file %s", path);
	}
	return GS_OK;
}

static enum gs_code open_pty(struct cli_console *c, struct gs_error *err)
{
	char name[64];
	struct termios modes;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	c->owned[0] = master;
	if (master < 0 || grantpt(master) || unlockpt(master) ||
	    ptsname_r(master, name, sizeof(name))) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "create a pty");
	}
	/* Kept open: a master without any slave reads as an error instead of as silence. */
	int slave = c->owned[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0 || tcgetattr(slave, &modes)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open %s", name);
	}
	/* The guest has a terminal driver of its own; a second echo would feed it its own output.
	 */
	cfmakeraw(&modes);
	(void)tcsetattr(slave, TCSANOW, &modes);
	c->in = c->out = master;
	fprintf(stderr, "guestshot: console on %s\n", name);
	return GS_OK;
}

/* A terminal in the foreground is for typing; one in the background would stop us (SIGTTIN). */
static enum gs_code open_stdio(struct cli_console *c, struct gs_error *err)
{
	int ends[2];

	c->out = STDOUT_FILENO;
	if (!isatty(STDIN_FILENO)) {
		c->in = STDIN_FILENO;
		return GS_OK;
	}
	if (tcgetpgrp(STDIN_FILENO) != getpgrp())
		return GS_OK;
	c->tty = open("/proc/self/fd/0", O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (c->tty < 0) {
		gs_log(GS_LOG_WARNING,
		       "the terminal cannot be opened again (%m): no console input");
		return GS_OK;
	}
	c->owned[0] = c->tty;
	if (pipe2(ends, O_CLOEXEC)) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "create a pipe");
	}
	c->in = c->owned[1] = ends[0];
	c->keys = c->owned[2] = ends[1];
	return GS_OK;
}

enum gs_code cli_console_open(struct cli_console *c, enum cli_console_kind kind, const char *path,
			      struct gs_error *err)
{
	enum gs_code rc = GS_OK;

	*c = (struct cli_console)CLI_CONSOLE_CLOSED;
	switch (kind) {
	case CLI_CONSOLE_STDIO: rc = open_stdio(c, err); break;
	case CLI_CONSOLE_PTY: rc = open_pty(c, err); break;
	case CLI_CONSOLE_FILE: rc = open_file(c, path, err); break;
	case CLI_CONSOLE_NONE: break;
	}
	if (rc)
		cli_console_close(c);
	return rc;
}

/* --- keys ---------------------------------------------------------------------------------------
 */

bool cli_console_filter(bool *escape, const char *in, size_t len, char *out, size_t *out_len_out)
{
	size_t n = 0;
	bool quit = false;

	for (size_t i = 0; i < len && !quit; i++) {
		if (*escape) {
			*escape = false;
			if (in[i] == 'x' || in[i] == 'X') {
				quit = true;
				continue;
			}
			/* Ctrl-A Ctrl-A is one; before anything else it was meant for the guest */
			if (in[i] != CTRL_A)
				out[n++] = CTRL_A;
			out[n++] = in[i];
		} else if (in[i] == CTRL_A) {
			*escape = true;
		} else {
			out[n++] = in[i];
		}
	}
	*out_len_out = n;
	return quit;
}

static void on_tty(uv_poll_t *handle, int status, int events);
static void on_keys(uv_poll_t *handle, int status, int events);

/* Read the terminal while the pipe takes it, wait for the pipe while it does not. */
static void update(struct cli_console *c)
{
	if (c->pending_len) {
		uv_poll_stop(&c->tty_poll);
		uv_poll_start(&c->keys_poll, UV_WRITABLE, on_keys);
	} else {
		uv_poll_stop(&c->keys_poll);
		uv_poll_start(&c->tty_poll, UV_READABLE, on_tty);
	}
}

static void send_pending(struct cli_console *c)
{
	ssize_t n = write(c->keys, c->pending, c->pending_len);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) { /* the machine has closed its end: it takes no keys any more */
		c->pending_len = 0;
		return;
	}
	c->pending_len -= (size_t)n;
	memmove(c->pending, c->pending + n, c->pending_len);
}

static void on_keys(uv_poll_t *handle, int status, int events)
{
	struct cli_console *c = handle->data;

	(void)status; /* write() will tell */
	(void)events;
	send_pending(c);
	update(c);
}

static void on_tty(uv_poll_t *handle, int status, int events)
{
	struct cli_console *c = handle->data;
	char typed[CLI_CONSOLE_CHUNK];
	ssize_t n = read(c->tty, typed, sizeof(typed));

	(void)status; /* read() has told */
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* hung up */
		uv_poll_stop(&c->tty_poll);
		return;
	}
	bool quit = cli_console_filter(&c->escape, typed, (size_t)n, c->pending, &c->pending_len);
	if (c->pending_len)
		send_pending(c);
	update(c);
	if (quit)
		c->on_quit(c->arg);
}

void cli_console_attach(struct cli_console *c, uv_loop_t *loop, void (*on_quit)(void *arg),
			void *arg)
{
	if (c->tty < 0)
		return;
	c->on_quit = on_quit;
	c->arg = arg;
	if (uv_poll_init(loop, &c->tty_poll, c->tty)) {
		gs_log(GS_LOG_WARNING, "the terminal cannot be watched: no console input");
		return;
	}
	c->tty_poll.data = c;
	/* makes the writing end non-blocking, which nobody shares */
	if (uv_poll_init(loop, &c->keys_poll, c->keys)) {
		uv_close((uv_handle_t *)&c->tty_poll, NULL);
		return;
	}
	c->keys_poll.data = c;
	c->attached = true;
	set_raw();
	update(c);
}

void cli_console_detach(struct cli_console *c)
{
	cli_console_restore();
	if (!c->attached)
		return;
	c->attached = false;
	uv_close((uv_handle_t *)&c->tty_poll, NULL);
	uv_close((uv_handle_t *)&c->keys_poll, NULL);
}

void cli_console_close(struct cli_console *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(c->owned); i++) {
		if (c->owned[i] >= 0)
			close(c->owned[i]);
		c->owned[i] = -1;
	}
	c->in = c->out = c->tty = c->keys = -1;
}
