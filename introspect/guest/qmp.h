/* SPDX-License-Identifier: Apache-2.0 */
/* A client of QEMU's machine protocol, QMP. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QMP_H
#define INTROSPECT_GUEST_QMP_H

/*
 *	int fd;
 *	struct guest_qmp q;
 *	if (!guest_qmp_connect(path, deadline_ns, &fd, &err) &&
 *	    !guest_qmp_start(&q, fd, deadline_ns, &err)) {
 *		json_t *status;
 *		rc = guest_qmp_execute(&q, "query-status", NULL, deadline_ns, &status, &err);
 *	}
 *	guest_qmp_deinit(&q);
 *
 * The peer is not trusted: an answer has a greatest length, nesting has a greatest depth (jansson's),
 * and each call ends at its deadline whatever comes in. Events, and answers to commands that had
 * been given up, are skipped.
 *
 * Threads: one at a time.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* "info registers -a" of 512 vCPUs with long vectors is the longest text that is asked for. */
#define GUEST_QMP_ANSWER_MAX (16u << 20)

struct guest_qmp {
	int fd; /* -1: closed */
	/* Nothing can be said or heard any more: the peer has gone, or does not speak QMP. */
	bool broken;
	bool gone; /* and it is the peer that closed */
	uint64_t commands;
	char *buf; /* bytes not yet taken apart */
	size_t len, size;
	/* how far the object at the front of buf has been looked at */
	size_t scanned;
	uint32_t depth;
	bool in_string, escaped;
};

/**
 * Connect to a Unix socket.
 *
 * @return GS_OK; GS_ENOENT: no such socket, or nobody listens; GS_EDENIED; GS_ETIMEDOUT: too many
 *         wait for it; GS_EINVAL: path too long; GS_ESYS
 */
GS_MUST_USE enum gs_code guest_qmp_connect(const char *path, uint64_t deadline_ns, int *fd_out,
					   struct gs_error *err);

/**
 * Take the greeting and leave negotiation mode.
 *
 * @param q   filled, also on failure: end it with guest_qmp_deinit()
 * @param fd  taken
 * @return GS_OK; GS_ETIMEDOUT: no greeting, which is how QEMU treats a second client;
 *         GS_EMALFORMED: not QMP; others as guest_qmp_execute()
 */
GS_MUST_USE enum gs_code guest_qmp_start(struct guest_qmp *q, int fd, uint64_t deadline_ns,
					 struct gs_error *err);

/**
 * Run a command and wait for its answer.
 *
 * @param command     its name
 * @param arguments   taken; NULL: none
 * @param value_out   returned: what "return" holds, json_decref() it; NULL: not wanted
 * @return GS_OK; GS_EBUSY: QEMU refuses it now; GS_ENOTSUP: QEMU has no such command;
 *         GS_ETIMEDOUT: no answer by the deadline, it may still take effect; GS_EMALFORMED,
 *         GS_ETOOBIG: the connection is broken by what came in; GS_ESYS: or by its end;
 *         GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code guest_qmp_execute(struct guest_qmp *q, const char *command,
					   json_t *arguments, uint64_t deadline_ns,
					   json_t **value_out, struct gs_error *err);

/**
 * What an answer says, whichever way it came: {"return": …} or {"error": {"class", "desc"}}.
 *
 * @param answer     borrowed
 * @param value_out  as guest_qmp_execute()
 */
GS_MUST_USE enum gs_code guest_qmp_answer(const json_t *answer, const char *command,
					  json_t **value_out, struct gs_error *err);

void guest_qmp_deinit(struct guest_qmp *q);

#endif
