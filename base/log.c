/* SPDX-License-Identifier: Apache-2.0 */
/* One-line diagnostics of vmm, control and cli; kcdata and introspect never print. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/escape.h"

static _Atomic int log_level = GS_LOG_WARNING;

void gs_log_set_level(enum gs_log_level level)
{
	atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
}

void gs_log(enum gs_log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };

	if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;

	char text[320];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);

	char line[800];
	size_t n = (size_t)snprintf(line, sizeof(line), "guestshot: %s: ", names[level]);
	n += gs_escape_terminal(text, sizeof(text), line + n, sizeof(line) - n - 1);
	line[n++] = '\n';
	/*
	 * One write, so that lines of several threads do not mix. Nobody is left to tell if it
	 * fails.
	 */
	if (write(STDERR_FILENO, line, n) < 0)
		return;
}
