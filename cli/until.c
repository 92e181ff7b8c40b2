/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for regular expressions in the lines of a console that end a run, well or badly. */
#include "cli/until.h"

#include <string.h>

#include "cli/cli.h"

void cli_until_init(struct cli_until *u)
{
	memset(u, 0, sizeof(*u));
	atomic_init(&u->matched, false);
	pthread_mutex_init(&u->lock, NULL);
}

enum gs_code cli_until_add(struct cli_until *u, enum cli_until_kind kind, const char *regex,
			   struct gs_error *err)
{
	const bool has_status = kind == CLI_UNTIL_STATUS;

	if (u->patterns == CLI_UNTIL_PATTERNS_MAX)
		return gs_fail(err, GS_ETOOBIG, "too many expressions: join them with |");
	regex_t *re = &u->pattern[u->patterns].re;
	enum gs_code rc = cli_line_regex(re, regex, has_status, err);
	if (rc)
		return rc;
	if (has_status && !re->re_nsub) {
		regfree(re);
		return gs_fail(err, GS_EINVAL,
			       "regular expression '%s': has no (subexpression) for the status",
			       regex);
	}
	u->pattern[u->patterns++].kind = kind;
	return GS_OK;
}

bool cli_until_has(const struct cli_until *u, enum cli_until_kind kind)
{
	for (uint32_t i = 0; i < u->patterns; i++)
		if (u->pattern[i].kind == kind)
			return true;
	return false;
}

void cli_until_deinit(struct cli_until *u)
{
	for (uint32_t i = 0; i < u->patterns; i++)
		regfree(&u->pattern[i].re);
	u->patterns = 0;
	pthread_mutex_destroy(&u->lock);
}

bool cli_until_matched(const struct cli_until *u)
{
	return atomic_load_explicit(&u->matched, memory_order_relaxed); /* nothing hangs on it */
}

void cli_until_get(struct cli_until *u, struct cli_until_match *match_out)
{
	pthread_mutex_lock(&u->lock);
	*match_out = u->match;
	pthread_mutex_unlock(&u->lock);
}

/* The status that a line has at a place; the guest decides what stands there. */
static void read_status(struct cli_until_match *m, const regmatch_t *at)
{
	char text[16];
	const size_t len = at->rm_so < 0 ? 0 : (size_t)(at->rm_eo - at->rm_so);
	uint64_t n;

	if (!len || len >= sizeof(text))
		return;
	memcpy(text, m->line + at->rm_so, len);
	text[len] = '\0';
	m->has_status = cli_parse_number(text, 0, CLI_UNTIL_STATUS_MAX, &n);
	m->status = m->has_status ? (uint32_t)n : 0;
}

static bool match_kind(const struct cli_until *u, enum cli_until_kind kind,
		       struct cli_until_match *m)
{
	regmatch_t at[2];

	for (uint32_t i = 0; i < u->patterns; i++) {
		if (u->pattern[i].kind != kind ||
		    regexec(&u->pattern[i].re, m->line, kind == CLI_UNTIL_STATUS ? 2 : 0, at, 0))
			continue;
		m->kind = kind;
		if (kind == CLI_UNTIL_STATUS)
			read_status(m, &at[1]);
		return true;
	}
	return false;
}

static bool match_whole(const struct cli_until *u, struct cli_until_match *m)
{
	return match_kind(u, CLI_UNTIL_FAIL, m) || match_kind(u, CLI_UNTIL_STATUS, m) ||
	       match_kind(u, CLI_UNTIL_GOOD, m);
}

/* What is good so far may go on to a status, or be what fails already. */
static bool match_unfinished(const struct cli_until *u, struct cli_until_match *m)
{
	return !cli_until_has(u, CLI_UNTIL_STATUS) && match_kind(u, CLI_UNTIL_GOOD, m) &&
	       match_whole(u, m);
}

static void keep_locked(struct cli_until *u, const struct cli_until_match *m)
{
	if (u->match.kind)
		return;
	u->match = *m;
	atomic_store_explicit(&u->matched, true, memory_order_relaxed);
}

static bool match_line(void *arg, const char *line, size_t len)
{
	struct cli_until *u = arg;
	struct cli_until_match m = { 0 };

	cli_line_text(line, len, m.line);
	if (match_whole(u, &m))
		keep_locked(u, &m);
	return !cli_until_matched(u);
}

bool cli_until_feed(struct cli_until *u, const char *bytes, size_t len)
{
	pthread_mutex_lock(&u->lock);
	if (!cli_until_matched(u))
		cli_lines_feed(&u->lines, bytes, len, match_line, u);
	pthread_mutex_unlock(&u->lock);
	return cli_until_matched(u);
}

bool cli_until_check_partial(struct cli_until *u, bool is_last)
{
	struct cli_until_match m = { 0 };

	if (cli_until_matched(u))
		return true;
	/* a copy: the console's thread must not wait for the expression */
	pthread_mutex_lock(&u->lock);
	const bool has_line = u->lines.len;
	cli_line_text(u->lines.line, u->lines.len, m.line);
	pthread_mutex_unlock(&u->lock);
	if (has_line && (is_last ? match_whole(u, &m) : match_unfinished(u, &m))) {
		pthread_mutex_lock(&u->lock);
		keep_locked(u, &m);
		pthread_mutex_unlock(&u->lock);
	}
	return cli_until_matched(u);
}
