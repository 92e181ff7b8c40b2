/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run as JUnit XML, which CI systems read. */
#include "cli/junit.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * The character that a string begins with.
 *
 * @return its bytes; 0: not UTF-8 (overlong, a surrogate, over U+10FFFF, cut off)
 */
static size_t take_character(const char *text, size_t len, uint32_t *character_out)
{
	/* the smallest that needs so many bytes behind the first one */
	static const uint32_t smallest[] = { 0, 0x80, 0x800, 0x10000 };
	const uint8_t *s = (const uint8_t *)text;
	const size_t more = s[0] < 0x80		    ? 0
			    : (s[0] & 0xe0) == 0xc0 ? 1
			    : (s[0] & 0xf0) == 0xe0 ? 2
						    : 3;
	uint32_t c = more ? s[0] & (0x3fu >> more) : s[0];

	if (more == 3 && (s[0] & 0xf8) != 0xf0)
		return 0;
	if (more >= len)
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < smallest[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0;
	*character_out = c;
	return more + 1;
}

/* Char of XML 1.0, section 2.2; DEL to U+009F are discouraged there, and would harm a terminal. */
static bool is_character(uint32_t c)
{
	if (c < 0x20)
		return c == '\t' || c == '\n';
	return (c < 0x7f || c > 0x9f) && c != 0xfffe && c != 0xffff;
}

static const char *escape_of(uint32_t c)
{
	switch (c) {
	case '&': return "&amp;";
	case '<': return "&lt;";
	case '>': return "&gt;"; /* "]]>" may not stand in text */
	case '"': return "&quot;";
	default: return NULL;
	}
}

void cli_xml_text(const char *text, size_t len, FILE *to)
{
	for (size_t i = 0; i < len;) {
		uint32_t c = 0;
		const size_t n = take_character(text + i, len - i, &c);
		const char *escape = escape_of(c);

		if (!n || !is_character(c))
			fputs(REPLACEMENT, to);
		else if (escape)
			fputs(escape, to);
		else
			fwrite(text + i, 1, n, to);
		i += n ? n : 1;
	}
}

static void put_attribute(const char *name, const char *value, FILE *to)
{
	fprintf(to, " %s=\"", name);
	cli_xml_text(value, strlen(value), to);
	fputc('"', to);
}

static void put_time(uint64_t ns, FILE *to)
{
	fprintf(to, " time=\"%" PRIu64 ".%03" PRIu64 "\"", ns / GS_NS_PER_SEC,
		ns % GS_NS_PER_SEC / GS_NS_PER_MS);
}

/* Of the form that JUnit's schema has: without a zone. */
static void put_timestamp(uint64_t wall_us, FILE *to)
{
	const time_t seconds = (time_t)(wall_us / 1000000);
	struct tm tm;
	char text[32];

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm))
		put_attribute("timestamp", text, to);
}

static void put_element(const char *element, const struct cli_junit *t, bool with_why, FILE *to)
{
	fprintf(to, "      <%s", element);
	if (with_why) {
		put_attribute("type", t->type, to);
		put_attribute("message", t->message, to);
	}
	fputc('>', to);
	cli_xml_text(t->text, strlen(t->text), to);
	fprintf(to, "</%s>\n", element);
}

bool cli_junit_write(const struct cli_junit *t, FILE *to)
{
	const bool passed = !strcmp(t->result, "passed"), failed = !strcmp(t->result, "failed");

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", to);
	fprintf(to,
		"  <testsuite name=\"guestshot\" tests=\"1\" failures=\"%d\" errors=\"%d\" "
		"skipped=\"0\"",
		failed, !passed && !failed);
	put_time(t->took_ns, to);
	put_timestamp(t->wall_us, to);
	fputs(">\n    <testcase classname=\"guestshot.run\"", to);
	put_attribute("name", t->name, to);
	put_time(t->took_ns, to);
	fputs(">\n", to);
	put_element(passed ? "system-out" : failed ? "failure" : "error", t, !passed, to);
	fputs("    </testcase>\n  </testsuite>\n</testsuites>\n", to);
	return fflush(to) == 0 && !ferror(to);
}
