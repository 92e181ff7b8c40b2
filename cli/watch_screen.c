/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal as a screen of lines: what of ncurses guestshot watch needs. */
#include "cli/watch_screen.h"

#include <curses.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <term.h>
#include <unistd.h>

/* How long an escape is waited for to become a key, in ms: no key here is an escape alone. */
#define ESCAPE_MS 50

struct cli_screen {
	SCREEN *screen;
	sigset_t before;
	int signals;
};

static void which_signals(sigset_t *set_out)
{
	sigemptyset(set_out);
	sigaddset(set_out, SIGINT);
	sigaddset(set_out, SIGTERM);
	sigaddset(set_out, SIGHUP);
	sigaddset(set_out, SIGQUIT);
	sigaddset(set_out, SIGWINCH);
}

static void set_up(void)
{
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	(void)curs_set(0); /* some terminals cannot */
}

struct cli_screen *cli_screen_begin(void)
{
	sigset_t set;
	struct cli_screen *s;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	/* before ncurses looks which are free for handlers of its own */
	which_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &s->before);
	s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	s->screen = s->signals < 0 ? NULL : newterm(NULL, stdout, stdin);
	/* a terminal without it was made only to be asked */
	if (s->screen && !tigetstr("cup")) {
		endwin();
		delscreen(s->screen);
		s->screen = NULL;
	}
	if (!s->screen) {
		cli_screen_end(s);
		return NULL;
	}
	set_up();
	return s;
}

void cli_screen_end(struct cli_screen *s)
{
	if (!s)
		return;
	if (s->screen) {
		endwin();
		delscreen(s->screen);
	}
	if (s->signals >= 0)
		close(s->signals);
	sigprocmask(SIG_SETMASK, &s->before, NULL);
	free(s);
}

void cli_screen_size(struct cli_screen *s, uint32_t *width_out, uint32_t *height_out)
{
	struct winsize size;

	(void)s;
	/* ncurses sees it by a signal that is taken here */
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col &&
	    (size.ws_row != LINES || size.ws_col != COLS))
		(void)resizeterm(size.ws_row, size.ws_col);
	*width_out = (uint32_t)COLS;
	*height_out = (uint32_t)LINES;
}

void cli_screen_draw(struct cli_screen *s, char *const *line, size_t count)
{
	(void)s;
	erase();
	for (size_t i = 0; i < count && i < (size_t)LINES; i++) {
		if (i + 1 == count)
			attron(A_REVERSE);
		mvaddnstr((int)i, 0, line[i], COLS);
	}
	attroff(A_REVERSE);
	refresh();
}

int cli_screen_signal_fd(const struct cli_screen *s)
{
	return s->signals;
}

int cli_screen_signal(struct cli_screen *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGWINCH)
			return (int)info.ssi_signo;
	return 0;
}

enum cli_key cli_screen_key(struct cli_screen *s)
{
	(void)s;
	for (;;) {
		switch (getch()) {
		case ERR: return CLI_KEY_NONE;
		case 'q':
		case 'Q': return CLI_KEY_QUIT;
		case ' ': return CLI_KEY_PAUSE;
		case 's':
		case 'S': return CLI_KEY_SAVE;
		case KEY_UP: return CLI_KEY_LINE_UP;
		case KEY_DOWN: return CLI_KEY_LINE_DOWN;
		case KEY_PPAGE: return CLI_KEY_PAGE_UP;
		case KEY_NPAGE: return CLI_KEY_PAGE_DOWN;
		case KEY_HOME: return CLI_KEY_FIRST;
		case KEY_END: return CLI_KEY_LAST;
		default: break;
		}
	}
}
