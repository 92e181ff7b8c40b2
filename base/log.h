/* SPDX-License-Identifier: Apache-2.0 */
/* One-line diagnostics of vmm, control and cli; kcdata and introspect never print. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum gs_log_level { GS_LOG_ERROR, GS_LOG_WARNING, GS_LOG_INFO, GS_LOG_DEBUG };

/** Show messages up to and including @p level (start value: warning). */
void gs_log_set_level(enum gs_log_level level);

/**
 * Write one line "guestshot: level: text" to standard error. Control characters of the text
 * (it may quote a guest's string) are shown as \xNN. Threads: any.
 */
void gs_log(enum gs_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
