/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot watch: captures as often as the budget lets, and what is shown of them. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/report/live.h"
#include "cli/watch.h"
#include "cli/watch_screen.h"
#include "control/client.h"

#define NOTE_MAX      256
#define SAVE_NAME_MAX 64

enum asked { NOTHING, SNAP, STATUS };

struct watch {
	const struct cli_watch_options *o;
	struct ctl_client *client;
	struct cli_screen *screen; /* NULL: plain text */
	struct ctl_pace pace;
	uint64_t started_ns;

	enum asked asked;
	json_int_t id; /* of it */
	uint64_t asked_ns, deadline_ns;

	/* what is shown */
	const void *data; /* the capture as it came, for saving; NULL: none yet */
	size_t size;
	struct rep_capture capture;
	bool has_capture;
	char state[CLI_ANSWER_TEXT_MAX];
	uint64_t machine_up_ns, last_stopped_ns;
	uint64_t shown_ns; /* until when it was watched */
	char failure[GS_ERROR_TEXT_MAX];
	enum gs_code failure_code; /* GS_OK: the last capture did not fail */
	uint64_t views;

	char note[NOTE_MAX]; /* until the next key; "": none */
	bool is_paused;
	size_t first, page; /* of the body's lines */

	bool has_ended, has_error; /* which is in err */
	int code;		   /* then */
	struct gs_error err;
};

static void end(struct watch *w, int code)
{
	w->has_ended = true;
	w->code = code;
}

/* What err says is printed once the terminal is as it was. */
static void end_by_error(struct watch *w, int code)
{
	w->has_error = true;
	end(w, code);
}

/* --- what is shown ------------------------------------------------------------------------------
 */

static bool make_view(struct watch *w, uint32_t width, uint32_t height,
		      struct rep_live_view *view_out)
{
	const struct rep_live live = {
		.capture = w->has_capture ? &w->capture : NULL,
		.state = *w->state ? w->state : NULL,
		.machine_up_ns = w->machine_up_ns,
		.pace = &w->pace,
		.watched_ns = w->shown_ns - w->started_ns,
		.last_stopped_ns = w->last_stopped_ns,
		.failure = w->failure_code ? w->failure : NULL,
		.note = *w->note ? w->note : NULL,
		.is_paused = w->is_paused,
		.top = w->o->top,
	};

	if (rep_live_view(&live, width, height, w->first, view_out))
		return true;
	(void)gs_fail(&w->err, GS_ENOSPC, "out of memory for the view");
	end_by_error(w, CLI_EXIT_SYSTEM);
	return false;
}

static void draw(struct watch *w)
{
	uint32_t width, height;
	struct rep_live_view view;

	cli_screen_size(w->screen, &width, &height);
	if (!make_view(w, width, height, &view))
		return;
	w->first = view.first;
	w->page = view.shown;
	cli_screen_draw(w->screen, view.line, view.count);
	rep_live_view_deinit(&view);
}

static void print(struct watch *w)
{
	struct rep_live_view view;

	if (!make_view(w, 0, 0, &view))
		return;
	for (size_t i = 0; i < view.count; i++)
		puts(view.line[i]);
	putchar('\n');
	rep_live_view_deinit(&view);
	if (fflush(stdout) || ferror(stdout)) {
		(void)gs_fail_errno(&w->err, GS_ESYS, errno, "standard output");
		end_by_error(w, CLI_EXIT_OUTPUT);
	}
}

/* All has been asked for one more view. */
static void show(struct watch *w)
{
	w->shown_ns = gs_clock_ns();
	if (w->screen)
		draw(w);
	else
		print(w);
	if (w->has_ended || ++w->views != w->o->count)
		return;
	/* as if each had failed, if none has come */
	end(w, w->has_capture ? CLI_EXIT_OK : (int)cli_exit_of(w->failure_code));
}

/* --- what is asked of the guest -----------------------------------------------------------------
 */

/* There is nobody to ask any more. */
static void lose(struct watch *w)
{
	const enum gs_code rc = gs_wrap(
		&w->err, w->err.code, "the guest is gone: control socket %s", w->o->remote.control);

	/* whatever its last words were */
	end_by_error(w, rc == GS_EMALFORMED  ? CLI_EXIT_PROTOCOL
			: rc == GS_ETIMEDOUT ? CLI_EXIT_TIMEOUT
					     : CLI_EXIT_UNAVAILABLE);
}

static void ask(struct watch *w, enum asked what, const char *command, json_t *arguments)
{
	w->asked = what;
	w->asked_ns = gs_clock_ns();
	w->deadline_ns = cli_remote_deadline(&w->o->remote);
	if (ctl_client_send(w->client, command, arguments, w->deadline_ns, &w->id, &w->err))
		lose(w);
}

static void ask_for_capture(struct watch *w)
{
	/* jitter is for many that do the same at once */
	ctl_pace_begin(&w->pace, gs_clock_ns(), 0);
	ask(w, SNAP, "snap",
	    json_pack("{s:s, s:[s]}", "to", "fd", "flags",
		      ss_request_flag_name(KCD_SS_REQ_THREAD_WAITINFO)));
}

static void fail(struct watch *w)
{
	w->failure_code = w->err.code;
	gs_escape_terminal(w->err.text, sizeof(w->err.text), w->failure, sizeof(w->failure));
}

static void drop_capture(struct watch *w)
{
	if (w->has_capture)
		rep_capture_deinit(&w->capture);
	if (w->data)
		munmap((void *)w->data, w->size);
	w->has_capture = false;
	w->data = NULL;
}

static void take_capture(struct watch *w, const json_t *answer, int fd)
{
	const void *data;
	size_t size;
	struct rep_capture capture;

	if (ctl_capture_map(fd, &data, &size, &w->err)) {
		fail(w);
		return;
	}
	if (rep_capture_parse("the capture", data, size, &capture, &w->err)) {
		munmap((void *)data, size);
		fail(w);
		return;
	}
	drop_capture(w);
	w->data = data;
	w->size = size;
	w->capture = capture;
	w->has_capture = true;
	w->failure_code = GS_OK;
	w->last_stopped_ns = cli_answer_number(answer, "stopped_ns");
}

/* @param answer  NULL: the server says that it failed */
static void on_capture(struct watch *w, const json_t *answer, int fd)
{
	const uint64_t now = gs_clock_ns();

	/* what a failed one has cost is not told: no more than all of its time */
	(void)ctl_pace_pay(&w->pace, now,
			   answer ? cli_answer_number(answer, "stopped_ns") : now - w->asked_ns);
	if (answer)
		take_capture(w, answer, fd);
	else
		fail(w);
	ask(w, STATUS, "status", NULL);
}

static void on_status(struct watch *w, const json_t *answer)
{
	if (answer) {
		(void)cli_answer_text(answer, "state", w->state);
		w->machine_up_ns =
			cli_answer_number(json_object_get(answer, "machine"), "uptime_ns");
	}
	show(w);
}

/* The server has said something, or has gone. */
static void on_server(struct watch *w)
{
	const enum asked asked = w->asked;
	GS_CLOSE int fd = -1;
	json_t *answer;
	const enum gs_code rc = ctl_client_answer(w->client, asked == NOTHING ? CTL_NO_ID : w->id,
						  &answer, &fd, &w->err);

	if (ctl_client_is_lost(w->client)) {
		json_decref(answer);
		lose(w);
		return;
	}
	if (!rc && !answer)
		return; /* not all of it is there */
	w->asked = NOTHING;
	if (asked == SNAP)
		on_capture(w, answer, fd);
	else if (asked == STATUS)
		on_status(w, answer);
	json_decref(answer);
}

/* --- keys ---------------------------------------------------------------------------------------
 */

static void note(struct watch *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void note(struct watch *w, const char *fmt, ...)
{
	char text[NOTE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gs_escape_terminal(text, sizeof(text), w->note, sizeof(w->note));
}

/* "guestshot-20261130T184216.123Z.kcdata": when it was taken. */
static void save_name(uint64_t wall_us, char name_out[static SAVE_NAME_MAX])
{
	const time_t seconds = (time_t)(wall_us / 1000000);
	char text[32] = "unknown-time";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &tm);
	snprintf(name_out, SAVE_NAME_MAX, "guestshot-%s.%03uZ.kcdata", text,
		 (unsigned int)(wall_us / 1000 % 1000));
}

static void save(struct watch *w)
{
	char name[SAVE_NAME_MAX];
	struct gs_error err;

	if (!w->has_capture) {
		note(w, "there is no capture to save yet");
		return;
	}
	save_name(w->capture.wall_us, name);
	if (gs_file_write_atomic(name, w->data, w->size, 0600, &err))
		note(w, "not saved: %s", err.text);
	else
		note(w, "saved to %s", name);
}

static size_t up(size_t first, size_t by)
{
	return first > by ? first - by : 0;
}

/* Beyond the end is put right when it is drawn. */
static void on_key(struct watch *w, enum cli_key key)
{
	*w->note = '\0';
	switch (key) {
	case CLI_KEY_NONE: break;
	case CLI_KEY_QUIT: end(w, CLI_EXIT_OK); break;
	case CLI_KEY_PAUSE: w->is_paused = !w->is_paused; break;
	case CLI_KEY_SAVE: save(w); break;
	case CLI_KEY_LINE_UP: w->first = up(w->first, 1); break;
	case CLI_KEY_LINE_DOWN: w->first++; break;
	case CLI_KEY_PAGE_UP: w->first = up(w->first, w->page); break;
	case CLI_KEY_PAGE_DOWN: w->first += w->page; break;
	case CLI_KEY_FIRST: w->first = 0; break;
	case CLI_KEY_LAST: w->first = INT32_MAX; break;
	}
}

static void on_keys(struct watch *w, short events)
{
	enum cli_key key;

	while (!w->has_ended && (key = cli_screen_key(w->screen)) != CLI_KEY_NONE)
		on_key(w, key);
	/* the terminal is gone */
	if (!w->has_ended && events & (POLLHUP | POLLERR | POLLNVAL))
		end(w, CLI_EXIT_SIGNAL + SIGHUP);
}

static void on_signal(struct watch *w)
{
	const int signal = cli_screen_signal(w->screen);

	if (signal)
		end(w, CLI_EXIT_SIGNAL + signal);
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static uint64_t next_ns(const struct watch *w)
{
	if (w->asked != NOTHING)
		return w->deadline_ns;
	return w->is_paused ? UINT64_MAX : ctl_pace_due(&w->pace);
}

/* For poll(): rounded up, so that it is not called again and again at the end. */
static int until_ms(uint64_t at_ns)
{
	const uint64_t now = gs_clock_ns();

	if (at_ns == UINT64_MAX)
		return -1;
	return at_ns <= now
		       ? 0
		       : (int)gs_min((at_ns - now + GS_NS_PER_MS - 1) / GS_NS_PER_MS, INT32_MAX);
}

static void on_time(struct watch *w)
{
	const uint64_t now = gs_clock_ns();

	if (w->asked != NOTHING && w->deadline_ns <= now) {
		(void)gs_fail(&w->err, GS_ETIMEDOUT, "control socket %s: no answer in time",
			      w->o->remote.control);
		end_by_error(w, CLI_EXIT_TIMEOUT);
	} else if (w->asked == NOTHING && !w->is_paused && ctl_pace_due(&w->pace) <= now) {
		ask_for_capture(w);
	}
}

static void wait_and_act(struct watch *w)
{
	struct pollfd p[] = {
		{ .fd = ctl_client_fd(w->client), .events = POLLIN },
		{ .fd = w->screen ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = w->screen ? cli_screen_signal_fd(w->screen) : -1, .events = POLLIN },
	};
	const int n = poll(p, ARRAY_SIZE(p), until_ms(next_ns(w)));

	if (n < 0 && errno != EINTR) {
		(void)gs_fail_errno(&w->err, GS_ESYS, errno, "poll");
		end_by_error(w, CLI_EXIT_SYSTEM);
	}
	if (n > 0 && p[2].revents)
		on_signal(w);
	if (!w->has_ended && n > 0 && p[1].revents)
		on_keys(w, p[1].revents);
	if (!w->has_ended && n > 0 && p[0].revents)
		on_server(w);
	if (!w->has_ended)
		on_time(w);
	/* a key, another size */
	if (!w->has_ended && w->screen)
		draw(w);
}

static int run(struct watch *w)
{
	int code = cli_remote_connect(&w->o->remote, &w->client);

	if (code)
		return code;
	w->screen = w->o->plain ? NULL : cli_screen_begin();
	w->pace = (struct ctl_pace){ .every_ns = w->o->interval_ns,
				     .max_stopped = w->o->max_stopped };
	w->started_ns = w->shown_ns = gs_clock_ns();
	ctl_pace_start(&w->pace, w->started_ns);
	while (!w->has_ended)
		wait_and_act(w);
	cli_screen_end(w->screen);
	drop_capture(w);
	ctl_client_destroy(w->client);
	if (w->has_error)
		(void)cli_error(&w->err);
	return w->code;
}

int cli_watch_run(const struct cli_watch_options *o)
{
	struct watch *w = calloc(1, sizeof(*w));

	if (!w) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	w->o = o;
	const int code = run(w);
	free(w);
	return code;
}
