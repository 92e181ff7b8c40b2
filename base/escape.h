/* SPDX-License-Identifier: Apache-2.0 */
/* Making strings of a guest, a file or a peer harmless for the place where they are shown. */
#ifndef BASE_ESCAPE_H
#define BASE_ESCAPE_H

#include <stddef.h>

/**
 * Copy a string for a terminal: printable ASCII stays, a backslash is doubled, every other byte
 * becomes \xNN, so that no control sequence and no invalid UTF-8 gets through.
 *
 * @param in      need not be terminated; ends at the first NUL or at @p in_len
 * @param out     always terminated; cut at whole characters when @p out_size is short
 * @param out_size at least 1; 4 * length + 1 never cuts
 * @return bytes written, without the NUL
 */
size_t gs_escape_terminal(const char *in, size_t in_len, char *out, size_t out_size);

#endif
