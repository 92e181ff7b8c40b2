/* SPDX-License-Identifier: Apache-2.0 */
/* Making strings of a guest, a file or a peer harmless for the place where they are shown. */
#include "base/escape.h"

#include <string.h>

size_t gs_escape_terminal(const char *in, size_t in_len, char *out, size_t out_size)
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 0;

	for (size_t i = 0; i < in_len && in[i]; i++) {
		unsigned char c = (unsigned char)in[i];
		char piece[4];
		size_t len;

		if (c == '\\') {
			memcpy(piece, "\\\\", 2);
			len = 2;
		} else if (c >= 0x20 && c < 0x7f) {
			piece[0] = (char)c;
			len = 1;
		} else {
			piece[0] = '\\';
			piece[1] = 'x';
			piece[2] = hex[c >> 4];
			piece[3] = hex[c & 15];
			len = 4;
		}
		if (len >= out_size - n)
			break;
		memcpy(out + n, piece, len);
		n += len;
	}
	out[n] = '\0';
	return n;
}
