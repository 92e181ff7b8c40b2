/* SPDX-License-Identifier: Apache-2.0 */
/* Result codes and the caller-owned error text. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

/*
 * A function that can fail returns enum gs_code. Where a person will read the reason it also takes
 * a struct gs_error, owned by the caller, which may be NULL. The text is written once, where the
 * failure is seen, and each caller on the way up may put its own context in front:
 *
 *	struct gs_error err = { 0 };
 *	if (open_it(path, &err))
 *		return gs_wrap(&err, err.code, "reading %s", path);
 *
 * Threads: a gs_error belongs to one thread at a time. Nothing here allocates.
 */

#include <stddef.h>

#define GS_ERROR_TEXT_MAX 512

#define GS_MUST_USE __attribute__((warn_unused_result))

/** What the caller can do about a failure; the text says what it was. */
enum gs_code {
	GS_OK = 0,
	GS_ENOENT,     /* what was asked for is not there */
	GS_EFAULT,     /* an address that cannot be read */
	GS_EMALFORMED, /* data that contradicts its own format */
	GS_ETOOBIG,    /* over a stated limit */
	GS_ELOOP,      /* a chain longer than its budget */
	GS_EDENIED,    /* permission missing */
	GS_EBUSY,      /* in use, or not in a state for this; may work later */
	GS_EEXIST,     /* there is one already, and it is not replaced: take it away first */
	GS_ENOSPC,     /* resource shortage: memory, buffer room, disk */
	GS_ETIMEDOUT,  /* a deadline passed */
	GS_ENOTSUP,    /* a legal wish that is not possible here */
	GS_EINVAL,     /* the caller's argument makes no sense */
	GS_ESYS,       /* the system refused; sys_errno says how */
};

struct gs_error {
	enum gs_code code;
	int sys_errno; /* 0 unless a system call failed */
	char text[GS_ERROR_TEXT_MAX];
};

/**
 * Name of a code for programs ("not-found", "denied", …).
 *
 * @return a static string, never NULL, also for values outside of the enumeration
 */
const char *gs_code_name(enum gs_code code);

/*
 * Use the macros below: their value is the code itself, so that the compiler sees it is not GS_OK.
 */
void gs_error_set(struct gs_error *err, enum gs_code code, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void gs_error_prefix(struct gs_error *err, enum gs_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** Record a failure; the value is @p code. @p err may be NULL. */
#define gs_fail(err, code, ...) (gs_error_set((err), (code), 0, __VA_ARGS__), (code))

/** The same for a failed system call: ": " and the text of @p sys_errno are appended. */
#define gs_fail_errno(err, code, sys_errno, ...) \
	(gs_error_set((err), (code), (sys_errno), __VA_ARGS__), (code))

/** Put "context: " in front of the text that a callee left in @p err; the value is @p code. */
#define gs_wrap(err, code, ...) (gs_error_prefix((err), (code), __VA_ARGS__), (code))

#endif
