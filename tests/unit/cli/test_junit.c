/* SPDX-License-Identifier: Apache-2.0 */
/* JUnit XML is well-formed, whatever the guest says. */
#include "cli/junit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "tests/unit/cli/suites.h"

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *in, *out;
} texts[] = {
	{ "plain text\n\tindented", "plain text\n\tindented" },
	{ "a<b>&\"c\"'", "a&lt;b&gt;&amp;&quot;c&quot;'" },
	{ "<![CDATA[x]]>", "&lt;![CDATA[x]]&gt;" },
	{ "\x01\x08\x0b\x0c\r\x1b[0m\x1f\x7f", BAD BAD BAD BAD BAD BAD "[0m" BAD BAD },
	// the first and the last of each length
	{ "\xc2\xa0\xdf\xbf", "\xc2\xa0\xdf\xbf" },
	{ "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80", "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80" },
	{ "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
	// controls of terminals, U+FFFE, U+FFFF
	{ "\xc2\x80\xc2\x9f", BAD BAD },
	{ "\xef\xbf\xbe\xef\xbf\xbf", BAD BAD },
	// overlong, a surrogate, over U+10FFFF, bytes that begin nothing
	{ "\xc0\x80\xc1\xbf", BAD BAD BAD BAD },
	{ "\xe0\x9f\xbf", BAD BAD BAD },
	{ "\xf0\x8f\xbf\xbf", BAD BAD BAD BAD },
	{ "\xed\xa0\x80", BAD BAD BAD },
	{ "\xf4\x90\x80\x80", BAD BAD BAD BAD },
	{ "\x80\xbf\xf8\xff", BAD BAD BAD BAD },
	// cut off
	{ "\xc3", BAD },
	{ "\xe2\x82<", BAD BAD "&lt;" },
	{ "\xf0\x9f\x98", BAD BAD BAD },
};

START_TEST(text_is_escaped)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	ck_assert_ptr_nonnull(f);
	cli_xml_text(texts[_i].in, strlen(texts[_i].in), f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_str_eq(out, texts[_i].out);
	free(out);
}
END_TEST

/* All pairs of bytes, so that each stands before and behind any other. */
static char *all_pairs(void)
{
	char *text = malloc(255 * 255 * 2 + 1), *at = text;

	ck_assert_ptr_nonnull(text);
	for (int a = 1; a < 256; a++) {
		for (int b = 1; b < 256; b++) {
			*at++ = (char)a;
			*at++ = (char)b;
		}
	}
	*at = '\0';
	return text;
}

/* Have another parser than ours look at it. */
static int parse(const struct cli_junit *t, const char *expression)
{
	char path[] = "/tmp/unit-junit-XXXXXX", command[512];
	FILE *f = fdopen(mkstemp(path), "w");

	ck_assert_ptr_nonnull(f);
	ck_assert(cli_junit_write(t, f));
	ck_assert_int_eq(fclose(f), 0);
	snprintf(command, sizeof(command),
		 "python3 -c \"import sys, xml.etree.ElementTree as x\n"
		 "s = x.parse(sys.argv[1]).getroot()[0]\nc = s[0]\nsys.exit(not (%s))\" %s",
		 expression, path);
	const int status = system(command);
	unlink(path);
	return status;
}

static const struct {
	const char *result, *expression;
} results[] = {
	{ "passed", "s.get('failures') == '0' and s.get('errors') == '0' and "
		    "c[0].tag == 'system-out' and c[0].get('type') is None" },
	{ "failed", "s.get('failures') == '1' and s.get('errors') == '0' and "
		    "c[0].tag == 'failure' and c[0].get('type') == 'panic' and "
		    "c[0].get('message') == 'a & b'" },
	{ "error", "s.get('failures') == '0' and s.get('errors') == '1' and c[0].tag == 'error'" },
};

START_TEST(results_are_as_ci_systems_count_them)
{
	const struct cli_junit t = {
		.name = "boot",
		.result = results[_i].result,
		.type = "panic",
		.message = "a & b",
		.text = "first\nsecond",
		.took_ns = 1234567890,
		.wall_us = 1796078795000000,
	};

	ck_assert_int_eq(parse(&t, results[_i].expression), 0);
	ck_assert_int_eq(parse(&t, "len(s) == len(c) == 1 and s.get('tests') == '1' and "
				   "c.get('name') == 'boot' and c.get('time') == '1.234' and "
				   "s.get('timestamp') == '2026-11-30T22:46:35' and "
				   "c[0].text == 'first\\nsecond'"),
			 0);
}
END_TEST

START_TEST(any_bytes_make_a_document)
{
	char *pairs = all_pairs();
	const struct cli_junit t = {
		.name = pairs, .result = "failed", .type = pairs, .message = pairs, .text = pairs
	};

	ck_assert_int_eq(parse(&t, "'<' in c[0].text and ']]>' not in c[0].text and "
				   "'<' in c.get('name')"),
			 0);
	free(pairs);
}
END_TEST

START_TEST(full_disk_is_told)
{
	const struct cli_junit t = {
		.name = "", .result = "passed", .type = "", .message = "", .text = ""
	};
	FILE *f = fopen("/dev/full", "w");

	ck_assert_ptr_nonnull(f);
	ck_assert(!cli_junit_write(&t, f));
	fclose(f);
}
END_TEST

Suite *suite_junit(void)
{
	Suite *s = suite_create("cli/junit");
	TCase *tc = tcase_create("junit");

	tcase_set_timeout(tc, 60); // another program starts
	tcase_add_loop_test(tc, text_is_escaped, 0, ARRAY_SIZE(texts));
	tcase_add_loop_test(tc, results_are_as_ci_systems_count_them, 0, ARRAY_SIZE(results));
	tcase_add_test(tc, any_bytes_make_a_document);
	tcase_add_test(tc, full_disk_is_told);
	suite_add_tcase(s, tc);
	return s;
}
