/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for a regular expression in the lines of a console. */
#include "cli/until.h"

#include <string.h>

#include "base/util.h"

enum gs_code cli_until_init(struct cli_until *u, const char *regex, struct gs_error *err)
{
	int e = regcomp(&u->re, regex, REG_EXTENDED | REG_NOSUB);

	if (e) {
		char why[128];
		regerror(e, &u->re, why, sizeof(why));
		return gs_fail(err, GS_EINVAL, "regular expression '%s': %s", regex, why);
	}
	atomic_init(&u->matched, false);
	pthread_mutex_init(&u->lock, NULL);
	u->len = 0;
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

static void match(struct cli_until *u, const char *line, size_t len)
{
	char text[CLI_UNTIL_LINE_MAX + 1];
	size_t n = 0;

	/* What ends a C string or a terminal's line is no part of the text. */
	for (size_t i = 0; i < len; i++) {
		if (line[i] && line[i] != '\r')
			text[n++] = line[i];
	}
	text[n] = '\0';
	if (!regexec(&u->re, text, 0, NULL, 0))
		atomic_store_explicit(&u->matched, true, memory_order_relaxed);
}

bool cli_until_feed(struct cli_until *u, const char *bytes, size_t len)
{
	pthread_mutex_lock(&u->lock);
	while (len && !cli_until_matched(u)) {
		size_t room = sizeof(u->line) - u->len;
		size_t n = gs_min(len, room);
		const char *newline = memchr(bytes, '\n', n);

		if (newline)
			n = (size_t)(newline - bytes);
		memcpy(u->line + u->len, bytes, n);
		u->len += n;
		bytes += n;
		len -= n;
		if (newline || u->len == sizeof(u->line)) {
			match(u, u->line, u->len);
			u->len = 0;
		}
		if (newline) {
			bytes++;
			len--;
		}
	}
	pthread_mutex_unlock(&u->lock);
	return cli_until_matched(u);
}

bool cli_until_check_partial(struct cli_until *u)
{
	char line[CLI_UNTIL_LINE_MAX];
	size_t len;

	if (cli_until_matched(u))
		return true;
	/* a copy: the console's thread must not wait for the expression */
	pthread_mutex_lock(&u->lock);
	len = u->len;
	memcpy(line, u->line, len);
	pthread_mutex_unlock(&u->lock);
	if (len)
		match(u, line, len);
	return cli_until_matched(u);
}
