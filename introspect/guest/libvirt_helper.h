/* SPDX-License-Identifier: Apache-2.0 */
/* The process that talks to libvirt for us, and what is said to it. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_LIBVIRT_HELPER_H
#define INTROSPECT_GUEST_LIBVIRT_HELPER_H

/*
 * libvirt is loaded, and called, in a child process of its own:
 *
 *	a call that never returns (a lock held by a migration, a daemon that hangs) blocks the child;
 *	we stop waiting at our deadline;
 *	the child outlives us: a domain that it suspended for us it resumes as soon as our end of the
 *	socket closes, by whatever death, and tries on with a new connection where that fails;
 *	the same at a deadline, if we have not asked for it by then: we may be stopped, or hang;
 *	dozens of shared objects, their threads and their start-up stay out of our process.
 *
 * Requests and answers go over a stream socket, each a header, then its payload, answers in the
 * order of the requests. What a peek reads comes by memory that both have mapped: a stream would
 * have both run in turn for each piece of it. Both ends are one program; lengths are checked all the
 * same.
 *
 * Threads: the child has one, besides what libvirt starts.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum guest_libvirt_op {
	GUEST_LIBVIRT_OPEN,    /* payload: URI, NUL, domain, NUL → struct guest_libvirt_domain */
	GUEST_LIBVIRT_COMMAND, /* payload: a QMP command, NUL → its answer, NUL */
	GUEST_LIBVIRT_STATE,   /* → one byte: whether it executes; GS_ENOENT: another run of it */
	GUEST_LIBVIRT_SUSPEND, /* at: when to resume by itself, GUEST_NO_DEADLINE */
	GUEST_LIBVIRT_RESUME,
	GUEST_LIBVIRT_PEEK, /* at, count → as many bytes, in the shared memory */
};

struct guest_libvirt_request {
	uint32_t op;
	uint32_t len; /* of the payload */
	uint64_t at;
	uint32_t count;
	uint32_t limit_s; /* after which nobody waits for it any more */
};

struct guest_libvirt_answer {
	uint32_t code; /* enum gs_code; unless GS_OK the payload is text for a person, NUL */
	uint32_t len;
};

/** Answer of OPEN. */
struct guest_libvirt_domain {
	char uuid[40];
	int32_t id;	  /* another one each time that the domain is started */
	uint8_t is_local; /* its daemon is on this host */
};

#define GUEST_LIBVIRT_REQUEST_MAX 4096
#define GUEST_LIBVIRT_ANSWER_MAX  (16u << 20)

struct guest_libvirt_helper {
	int fd; /* close it to end the child, which resumes first */
	pid_t pid;
	void *peeked; /* GUEST_LINK_PEEK_MAX bytes: munmap() it */
};

/** Start one. @return GS_OK; GS_ENOSPC */
GS_MUST_USE enum gs_code guest_libvirt_helper_start(struct guest_libvirt_helper *helper_out,
						    struct gs_error *err);

#endif
