/* SPDX-License-Identifier: Apache-2.0 */
/* A console's bytes as lines. */
#include "cli/console_lines.h"

#include <string.h>

#include "base/util.h"

void cli_lines_feed(struct cli_lines *l, const char *bytes, size_t len,
		    bool (*visit)(void *arg, const char *line, size_t len), void *arg)
{
	bool go_on = true;

	while (len && go_on) {
		const size_t room = sizeof(l->line) - l->len;
		size_t n = gs_min(len, room);
		const char *newline = memchr(bytes, '\n', n);

		if (newline)
			n = (size_t)(newline - bytes);
		memcpy(l->line + l->len, bytes, n);
		l->len += n;
		bytes += n;
		len -= n;
		if (newline || l->len == sizeof(l->line)) {
			go_on = visit(arg, l->line, l->len);
			l->len = 0;
		}
		if (newline) {
			bytes++;
			len--;
		}
	}
}

void cli_line_text(const char *line, size_t len, char text_out[static CLI_LINE_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < CLI_LINE_MAX; i++) {
		if (line[i] && line[i] != '\r')
			text_out[n++] = line[i];
	}
	text_out[n] = '\0';
}

enum gs_code cli_line_regex(regex_t *re_out, const char *regex, bool with_places,
			    struct gs_error *err)
{
	char why[128];
	const int e = regcomp(re_out, regex, REG_EXTENDED | (with_places ? 0 : REG_NOSUB));

	if (!e)
		return GS_OK;
	regerror(e, re_out, why, sizeof(why));
	return gs_fail(err, GS_EINVAL, "regular expression '%s': %s", regex, why);
}
