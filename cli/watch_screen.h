/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal as a screen of lines, with keys and signals: what of ncurses guestshot watch needs. */
#ifndef CLI_WATCH_SCREEN_H
#define CLI_WATCH_SCREEN_H

/*
 * Signals that end a program are taken instead, so that the terminal is given back as it was. What stops
 * it (Ctrl-Z) does so too, and the screen is there again afterwards. Threads: one.
 */

#include <stddef.h>
#include <stdint.h>

enum cli_key {
	CLI_KEY_NONE,
	CLI_KEY_QUIT,
	CLI_KEY_PAUSE,
	CLI_KEY_SAVE,
	CLI_KEY_LINE_UP,
	CLI_KEY_LINE_DOWN,
	CLI_KEY_PAGE_UP,
	CLI_KEY_PAGE_DOWN,
	CLI_KEY_FIRST,
	CLI_KEY_LAST,
};

struct cli_screen;

/**
 * Take the terminal that is standard input and output.
 *
 * @return NULL: they are none, or one that is not known or has no addressable cursor; end with
 *         cli_screen_end()
 */
struct cli_screen *cli_screen_begin(void);

/** Give the terminal back. NULL is fine. */
void cli_screen_end(struct cli_screen *s);

/** Columns and lines, as they are now. */
void cli_screen_size(struct cli_screen *s, uint32_t *width_out, uint32_t *height_out);

/** Show these lines, of printable ASCII; the last one stands out. */
void cli_screen_draw(struct cli_screen *s, char *const *line, size_t count);

/** To be polled for reading, beside standard input. */
int cli_screen_signal_fd(const struct cli_screen *s);

/** The next signal that ends the program; 0: none, or only the size has changed. Does not wait. */
int cli_screen_signal(struct cli_screen *s);

/** The next key; CLI_KEY_NONE: no more of them now. Keys that mean nothing are passed over. */
enum cli_key cli_screen_key(struct cli_screen *s);

#endif
