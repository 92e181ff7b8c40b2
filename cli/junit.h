/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run as JUnit XML, which CI systems read. */
#ifndef CLI_JUNIT_H
#define CLI_JUNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** One test case; strings of any bytes. */
struct cli_junit {
	const char *name;
	const char *result;  /* "passed", "failed": a failure; others: an error */
	const char *type;    /* in which way, one word */
	const char *message; /* one line */
	const char *text;    /* all that is known, any number of lines */
	uint64_t took_ns;
	uint64_t wall_us; /* when it began, since 1970 */
};

/** A document with one test suite that has one test case. @return false: @p to refused bytes */
bool cli_junit_write(const struct cli_junit *t, FILE *to);

/**
 * Write a string so that it can stand between tags, and between double quotes: what XML has no
 * characters for (most control characters, bytes that are not UTF-8) becomes U+FFFD.
 */
void cli_xml_text(const char *text, size_t len, FILE *to);

#endif
