/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of its own for each test, gone afterwards. */
#ifndef TESTS_UNIT_CONTROL_FOLDER_H
#define TESTS_UNIT_CONTROL_FOLDER_H

#include <stddef.h>

/** Make one and go there; relative paths are short enough for sockets. For tcase setup. */
void folder_enter(void);

/** Remove it with what is in it. For tcase teardown. */
void folder_leave(void);

/** Number of names in it. */
unsigned int folder_count(void);

/** Absolute path of a name in it, in a static buffer. */
const char *folder_path(const char *name);

/** Make a file with this text. */
void folder_put(const char *name, const char *text);

/** Whether @p name has exactly these bytes. */
int folder_has(const char *name, const void *data, size_t len);

/** Bytes of a file that is there. */
size_t folder_size(const char *name);

/** Permission bits of @p name, not following a link; -1: not there. */
int folder_mode(const char *name);

#endif
