/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of the control socket: a blocking client with deadlines. */
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H

/*
 *	struct ctl_client *c;
 *	json_t *answer;
 *	if (!ctl_client_connect(path, 0, deadline_ns, &c, &err) &&
 *	    !ctl_client_call(c, "status", NULL, deadline_ns, &answer, NULL, &err))
 *		…
 *	ctl_client_destroy(c);
 *
 * The server is not trusted: its lines, their nesting and what it passes along are bounded and
 * checked. Deadlines are values of gs_clock_ns(); CTL_NO_DEADLINE waits for ever.
 * Threads: one client, one thread.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define CTL_NO_DEADLINE UINT64_MAX
/* Longest line taken from a server, and largest capture. */
#define CTL_ANSWER_MAX	(1u << 20)
#define CTL_CAPTURE_MAX (UINT64_C(4) << 30)

struct ctl_client;

/**
 * Connect and read the greeting.
 *
 * @param wait_until_ns  a server that is not there yet is waited for until then; 0: not at all
 * @param deadline_ns    for greeting, once connected
 * @param client_out     returned: free with ctl_client_destroy()
 * @return GS_OK; GS_ENOENT: nobody serves @p path; GS_EDENIED; GS_EBUSY: too many clients;
 *         GS_EINVAL: path too long; GS_EMALFORMED: it is not guestshot that answers; GS_ENOTSUP: it
 *         speaks another protocol; GS_ETIMEDOUT; GS_ESYS
 */
GS_MUST_USE enum gs_code ctl_client_connect(const char *path, uint64_t wait_until_ns,
					    uint64_t deadline_ns, struct ctl_client **client_out,
					    struct gs_error *err);

/**
 * Carry out one command.
 *
 * @param arguments  taken; NULL: none
 * @param return_out returned: json_decref(); an object
 * @param fd_out     gets a descriptor that came along, or -1: close(); NULL: none is wanted
 * @return GS_OK; the code whose name is the class of the server's error, GS_EINVAL for other
 *         classes; GS_ETIMEDOUT; GS_EMALFORMED: no answer of this protocol; GS_ENOENT: the server
 *         went away. After a timeout or a malformed answer the client is of no use any more.
 */
GS_MUST_USE enum gs_code ctl_client_call(struct ctl_client *c, const char *command,
					 json_t *arguments, uint64_t deadline_ns,
					 json_t **return_out, int *fd_out, struct gs_error *err);

/**
 * The two halves of ctl_client_call(), for a caller that waits for other things as well, with poll() on
 * ctl_client_fd(). One command is under way at a time.
 *
 * @param arguments  taken; NULL: none
 * @param id_out     for ctl_client_answer()
 */
GS_MUST_USE enum gs_code ctl_client_send(struct ctl_client *c, const char *command,
					 json_t *arguments, uint64_t deadline_ns,
					 json_int_t *id_out, struct gs_error *err);

/**
 * Take the answer to what was sent, if it has come; never waits. With CTL_NO_ID, when nothing was sent:
 * pass over what the server says.
 *
 * @param return_out  NULL with GS_OK: not all of it is there yet
 * @param fd_out      as ctl_client_call()
 * @return as ctl_client_call()
 */
GS_MUST_USE enum gs_code ctl_client_answer(struct ctl_client *c, json_int_t id, json_t **return_out,
					   int *fd_out, struct gs_error *err);

#define CTL_NO_ID 0

/** The socket, for poll(); borrowed. */
int ctl_client_fd(const struct ctl_client *c);

/** Whether there is no connection any more, as against a command that the server refused. */
bool ctl_client_is_lost(const struct ctl_client *c);

/**
 * Map a capture that came along with an answer; refused unless it is sealed, so that no server can
 * change or cut it under the mapping.
 *
 * @param fd       borrowed
 * @param data_out read-only; munmap() with @p size_out
 * @return GS_OK; GS_EMALFORMED: not a sealed memory file, or empty; GS_ETOOBIG; GS_ESYS
 */
GS_MUST_USE enum gs_code ctl_capture_map(int fd, const void **data_out, size_t *size_out,
					 struct gs_error *err);

/** Close and free. NULL is fine. */
void ctl_client_destroy(struct ctl_client *c);

#endif
