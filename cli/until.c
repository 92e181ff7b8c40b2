/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for a regular expression in the lines of a console. */
#include "cli/until.h"

enum gs_code cli_until_init(struct cli_until *u, const char *regex, struct gs_error *err)
{
	enum gs_code rc = cli_line_regex(&u->re, regex, err);

	if (rc)
		return rc;
	atomic_init(&u->matched, false);
	pthread_mutex_init(&u->lock, NULL);
	u->lines.len = 0;
	return GS_OK;
}

void cli_until_deinit(struct cli_until *u)
{
	pthread_mutex_destroy(&u->lock);
	regfree(&u->re);
}

bool cli_until_matched(const struct cli_until *u)
{
	return atomic_load_explicit(&u->matched, memory_order_relaxed); /* nothing hangs on it */
}

static void match(struct cli_until *u, const char *text)
{
	if (!regexec(&u->re, text, 0, NULL, 0))
		atomic_store_explicit(&u->matched, true, memory_order_relaxed);
}

static bool match_line(void *arg, const char *line, size_t len)
{
	char text[CLI_LINE_MAX + 1];

	cli_line_text(line, len, text);
	match(arg, text);
	return !cli_until_matched(arg);
}

bool cli_until_feed(struct cli_until *u, const char *bytes, size_t len)
{
	pthread_mutex_lock(&u->lock);
	if (!cli_until_matched(u))
		cli_lines_feed(&u->lines, bytes, len, match_line, u);
	pthread_mutex_unlock(&u->lock);
	return cli_until_matched(u);
}

bool cli_until_check_partial(struct cli_until *u)
{
	char text[CLI_LINE_MAX + 1];

	if (cli_until_matched(u))
		return true;
	/* a copy: the console's thread must not wait for the expression */
	pthread_mutex_lock(&u->lock);
	const bool has_line = u->lines.len;
	cli_line_text(u->lines.line, u->lines.len, text);
	pthread_mutex_unlock(&u->lock);
	if (has_line)
		match(u, text);
	return cli_until_matched(u);
}
