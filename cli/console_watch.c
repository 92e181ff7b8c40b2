/* SPDX-License-Identifier: Apache-2.0 */
/* Words on a console that a capture is to be taken for, and the console's last lines. */
#include "cli/console_watch.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"

const char cli_panic_pattern[] = "Kernel panic - not syncing";
/* of arm64's die(), whatever it was: Oops, BUG, undefined instruction */
const char cli_oops_pattern[] = "Internal error: .* \\[#[0-9]+\\]";

void cli_console_watch_init(struct cli_console_watch *w)
{
	memset(w, 0, sizeof(*w));
	w->looked_for = UINT32_MAX;
	pthread_mutex_init(&w->lock, NULL);
}

void cli_console_watch_deinit(struct cli_console_watch *w)
{
	for (uint32_t i = 0; i < w->patterns; i++)
		regfree(&w->pattern[i].re);
	w->patterns = 0;
	pthread_mutex_destroy(&w->lock);
}

enum gs_code cli_console_watch_add(struct cli_console_watch *w, const char *regex, uint32_t reason,
				   struct gs_error *err)
{
	if (w->patterns == CLI_WATCH_PATTERNS_MAX)
		return gs_fail(err, GS_ETOOBIG, "more than %d expressions: join them with |",
			       CLI_WATCH_PATTERNS_MAX);
	enum gs_code rc = cli_line_regex(&w->pattern[w->patterns].re, regex, false, err);
	if (rc)
		return rc;
	w->pattern[w->patterns++].reason = reason;
	return GS_OK;
}

static void remember(struct cli_console_watch *w, const char *text)
{
	struct ss_console_record *to;

	pthread_mutex_lock(&w->lock);
	to = &w->last[w->count++ % SS_CONSOLE_LINES];
	memset(to, 0, sizeof(*to));
	memcpy(to->text, text, strnlen(text, sizeof(to->text) - 1));
	pthread_mutex_unlock(&w->lock);
}

static void find(struct cli_console_watch *w, const char *text, uint32_t reason)
{
	struct ss_reason_record r = { .reason = reason, .pid = -1, .tid = -1, .vcpu = -1 };

	memcpy(r.text, text, strnlen(text, sizeof(r.text) - 1));
	pthread_mutex_lock(&w->lock);
	if (!(w->found & (1u << reason)))
		w->reason[reason] = r; /* the first of those that nobody has taken */
	w->found |= 1u << reason;
	pthread_mutex_unlock(&w->lock);
}

/* Matched without the lock: an expression may take its time, and the loop must not wait for it. */
static bool take_line(void *arg, const char *line, size_t len)
{
	struct cli_console_watch *w = arg;
	char text[CLI_LINE_MAX + 1];

	cli_line_text(line, len, text);
	remember(w, text);
	for (uint32_t i = 0; i < w->patterns; i++)
		if (w->looked_for & 1u << w->pattern[i].reason &&
		    !regexec(&w->pattern[i].re, text, 0, NULL, 0))
			find(w, text, w->pattern[i].reason);
	return true;
}

void cli_console_watch_look_for(struct cli_console_watch *w, uint32_t reasons)
{
	w->looked_for = reasons;
}

void cli_console_watch_feed(struct cli_console_watch *w, const char *bytes, size_t len)
{
	cli_lines_feed(&w->lines, bytes, len, take_line, w);
}

bool cli_console_watch_take(struct cli_console_watch *w, struct ss_reason_record *reason_out)
{
	pthread_mutex_lock(&w->lock);
	const bool has = w->found;
	if (has) {
		const uint32_t reason = (uint32_t)__builtin_ctz(w->found);

		*reason_out = w->reason[reason];
		w->found &= ~(1u << reason);
	}
	pthread_mutex_unlock(&w->lock);
	return has;
}

uint32_t cli_console_watch_tail(struct cli_console_watch *w,
				struct ss_console_record lines_out[SS_CONSOLE_LINES])
{
	pthread_mutex_lock(&w->lock);
	const uint32_t n = (uint32_t)gs_min(w->count, SS_CONSOLE_LINES);
	for (uint32_t i = 0; i < n; i++)
		lines_out[i] = w->last[(w->count - n + i) % SS_CONSOLE_LINES];
	pthread_mutex_unlock(&w->lock);
	return n;
}
