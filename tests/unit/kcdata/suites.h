/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file, and what they share. */
#ifndef TESTS_UNIT_KCDATA_SUITES_H
#define TESTS_UNIT_KCDATA_SUITES_H

#include <check.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

Suite *suite_writer(void);
Suite *suite_chain(void);
Suite *suite_reader(void);
Suite *suite_schema(void);
Suite *suite_json(void);
Suite *suite_compress(void);
Suite *suite_view(void);
Suite *suite_validate(void);

/**
 * Turn hexadecimal text into bytes.
 *
 * @param hex  pairs of digits, blanks between pairs; "ff*12" is twelve of them; "~" is zeros up to
 *             the next multiple of 16
 * @return how many bytes; the test fails when they are more than @p size
 */
size_t hex_bytes(const char *hex, uint8_t *out, size_t size);

/** Fail the test unless @p got is exactly the bytes of @p hex. */
void assert_bytes(const void *got, size_t len, const char *hex);

#endif
