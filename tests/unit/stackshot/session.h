/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up guest with a session over it, shared by the suites. */
#ifndef TESTS_UNIT_STACKSHOT_SESSION_H
#define TESTS_UNIT_STACKSHOT_SESSION_H

#include "tests/unit/stackshot/view.h"

extern struct linux_guest guest;
extern struct ss_session *session;
extern struct ss_result result;
extern struct gs_error error;
extern struct view view;
/** Of the sessions to come. */
extern struct ss_options session_options;

/** Make the guest (populated) and a session. */
void session_make(const struct lg_form *form);
/** The same with a guest of one's own making. */
void session_begin(void);
void session_end(void);
void session_setup(void); /* the default guest */
/** A new session over the same guest, with session_options as they are now. */
void session_restart(void);

/**
 * Make a guest without a session: the default one's processes, and so many more of all sizes, with
 * some five threads each.
 */
void session_make_crowd(uint32_t processes);

/** Requests of all processes, or of one. */
struct ss_request session_request(int32_t pid);

/**
 * Capture into result; read it into view when it is one. Checks that the guest runs again, that a
 * failure leaves nothing behind and has a text.
 */
enum gs_code session_capture(int32_t pid);

/** The same with a request of one's own. */
enum gs_code session_capture_with(const struct ss_request *request);

/**
 * The same without reading it into view, which takes longer than many a capture. Checks that no
 * worker is left at work.
 */
enum gs_code session_capture_only(const struct ss_request *request);

/** ... that must be good. */
void session_capture_all(void);

#endif
