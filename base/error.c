/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes and the caller-owned error text. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

const char *gs_code_name(enum gs_code code)
{
	switch (code) {
	case GS_OK: return "ok";
	case GS_ENOENT: return "not-found";
	case GS_EFAULT: return "unreadable";
	case GS_EMALFORMED: return "malformed";
	case GS_ETOOBIG: return "too-big";
	case GS_ELOOP: return "loop";
	case GS_EDENIED: return "denied";
	case GS_EBUSY: return "busy";
	case GS_EEXIST: return "exists";
	case GS_ENOSPC: return "resource-shortage";
	case GS_ETIMEDOUT: return "timed-out";
	case GS_ENOTSUP: return "not-supported";
	case GS_EINVAL: return "invalid-argument";
	case GS_ESYS: return "system-error";
	}
	return "unknown";
}

void gs_error_set(struct gs_error *err, enum gs_code code, int sys_errno, const char *fmt, ...)
{
	if (!err)
		return;
	err->code = code;
	err->sys_errno = sys_errno;

	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n < 0)
		n = 0;
	if (sys_errno && (size_t)n < sizeof(err->text)) {
		char buf[128];
		const char *what = strerror_r(sys_errno, buf, sizeof(buf));
		snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", what);
	}
}

void gs_error_prefix(struct gs_error *err, enum gs_code code, const char *fmt, ...)
{
	if (!err)
		return;
	err->code = code;

	char old[GS_ERROR_TEXT_MAX];
	memcpy(old, err->text, sizeof(old));

	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(err->text, sizeof(err->text), fmt, ap);
	va_end(ap);
	if (n < 0 || !old[0])
		return;
	/* what does not fit is cut at the end: the reason's start says most */
	for (const char *from[] = { ": ", old }, **f = from; f < from + 2; f++)
		for (const char *c = *f; *c && (size_t)n < sizeof(err->text) - 1; c++)
			err->text[n++] = *c;
	err->text[gs_min((uint64_t)n, sizeof(err->text) - 1)] = '\0';
}
