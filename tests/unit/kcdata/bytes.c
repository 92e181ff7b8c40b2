/* SPDX-License-Identifier: Apache-2.0 */
/* Literal bytes as text. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kcdata/suites.h"

static int digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

size_t hex_bytes(const char *hex, uint8_t *out, size_t size)
{
	size_t n = 0;

	while (*hex) {
		if (isspace((unsigned char)*hex)) {
			hex++;
		} else if (*hex == '*') {
			char *end;
			size_t more = strtoul(hex + 1, &end, 10) - 1;

			ck_assert(n > 0 && more <= size - n);
			memset(out + n, out[n - 1], more);
			n += more;
			hex = end;
		} else if (*hex == '~') {
			size_t more = -n & 15;

			ck_assert(more && more <= size - n);
			memset(out + n, 0, more);
			n += more;
			hex++;
		} else {
			ck_assert(isxdigit((unsigned char)hex[0]));
			ck_assert(isxdigit((unsigned char)hex[1]));
			ck_assert_uint_lt(n, size);
			out[n++] = (uint8_t)(digit(hex[0]) << 4 | digit(hex[1]));
			hex += 2;
		}
	}
	return n;
}

void assert_bytes(const void *got, size_t len, const char *hex)
{
	static uint8_t want[65536];
	size_t n = hex_bytes(hex, want, sizeof(want));
	const uint8_t *bytes = got;

	for (size_t i = 0; i < n && i < len; i++)
		ck_assert_msg(bytes[i] == want[i], "byte %#zx is %02x, not %02x", i, bytes[i],
			      want[i]);
	ck_assert_msg(len == n, "%zu bytes, not %zu", len, n);
}
