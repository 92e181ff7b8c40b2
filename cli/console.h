/* SPDX-License-Identifier: Apache-2.0 */
/* Where a guest's console is connected to, and the terminal it may be. */
#ifndef CLI_CONSOLE_H
#define CLI_CONSOLE_H

/*
 * A terminal on standard input is put into raw mode while the guest runs, so that its keys, Ctrl-C
 * included, are the guest's; Ctrl-A x ends the guest, Ctrl-A Ctrl-A is one Ctrl-A. Keys go through
 * a pipe whose other end the machine reads; when that is full they stay in the terminal. The
 * terminal is put back on every way out, fatal signals included.
 *
 * Threads: the loop's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>
#include <uv.h>

#include "base/error.h"

enum cli_console_kind {
	CLI_CONSOLE_STDIO,
	CLI_CONSOLE_PTY,
	CLI_CONSOLE_FILE,
	CLI_CONSOLE_NONE,
};

#define CLI_CONSOLE_CHUNK 512

struct cli_console {
	int in;	 /* for the machine to read; -1: none */
	int out; /* for the machine to write; -1: none */

	int owned[3]; /* descriptors to close; -1: none */
	int tty;      /* the terminal, opened again, so that only our view of it is non-blocking */
	int keys;     /* writing end of the pipe to the machine */
	bool attached;
	uv_poll_t tty_poll, keys_poll;
	bool escape; /* Ctrl-A was the last key */
	char pending[CLI_CONSOLE_CHUNK * 2];
	size_t pending_len;
	void (*on_quit)(void *arg);
	void *arg;
};

#define CLI_CONSOLE_CLOSED                                                          \
	{                                                                           \
		.in = -1, .out = -1, .owned = { -1, -1, -1 }, .tty = -1, .keys = -1 \
	}

/**
 * Open what the guest's console shall be; nothing changes for a terminal yet.
 *
 * @param path of CLI_CONSOLE_FILE
 * @return GS_OK; the pty's name is then on standard error. GS_ENOENT; GS_EDENIED; GS_ESYS
 */
GS_MUST_USE enum gs_code cli_console_open(struct cli_console *c, enum cli_console_kind kind,
					  const char *path, struct gs_error *err);

/** If it is a terminal: raw mode, and keys go to the guest. @p on_quit is called for Ctrl-A x. */
void cli_console_attach(struct cli_console *c, uv_loop_t *loop, void (*on_quit)(void *arg),
			void *arg);

/** Put the terminal back; does nothing when there is none. Async-signal-safe. */
void cli_console_restore(void);

/** Put the terminal back and let go of the loop. */
void cli_console_detach(struct cli_console *c);

/** Close what was opened; after the machine has gone and the loop has run. */
void cli_console_close(struct cli_console *c);

/**
 * Take the escapes out of typed keys.
 *
 * @param escape  state between calls, false at first
 * @param out     gets what is for the guest, at most 2 * @p len bytes
 * @param out_len_out how much
 * @return whether Ctrl-A x was among them; what follows it is dropped
 */
bool cli_console_filter(bool *escape, const char *in, size_t len, char *out, size_t *out_len_out);

#endif
