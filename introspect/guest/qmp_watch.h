/* SPDX-License-Identifier: Apache-2.0 */
/* The process that lets a guest run again when we cannot. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QMP_WATCH_H
#define INTROSPECT_GUEST_QMP_WATCH_H

/*
 * A guest that we have stopped must run again even if we are killed. QMP serves one client at a
 * time, so a second connection could not help: a child shares our connection. It reads nothing and
 * writes nothing as long as we live and are in time. Our death, by whatever signal, closes the pipe
 * that it waits on; if the guest is ours to resume then, it
 *
 *	writes 0xff, which no JSON text has: QEMU drops a command that we may have written half and
 *	is ready for a new one (docs/interop/qmp-spec.txt, 2.6, "Forcing the JSON parser into
 *	known-good state"),
 *	writes "cont", and
 *	stays until QEMU has answered it: what is still unread when a connection ends is lost.
 *
 * The same process takes over when QEMU does not answer us in time: see guest_watch_let_go().
 *
 * And it writes "cont" at a deadline, if we have not by then: we may be stopped (SIGSTOP, a
 * debugger), or hang. We may also wake up at that moment, so it writes no more than a line of its
 * own and leaves the answer to us, who skip what has another id.
 *
 *	guest_watch_start(fd, &w, &err);
 *	guest_watch_arm(&w, fd, deadline_ns, &err);	// before "stop" is written
 *	…
 *	guest_watch_disarm(&w);		// after "cont" has been answered
 *	guest_watch_end(&w, deadline_ns);
 *
 * Threads: one at a time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct guest_watch_shared;

struct guest_watch {
	pid_t pid; /* 0: none */
	int pipe;  /* its other end closes when we die */
	struct guest_watch_shared *shared;
};

/** @param qmp_fd borrowed; the child has its own copy @return GS_OK; GS_ENOSPC */
GS_MUST_USE enum gs_code guest_watch_start(int qmp_fd, struct guest_watch *watch_out,
					   struct gs_error *err);

/**
 * From now on our death resumes the guest. A watcher that somebody has killed is replaced.
 *
 * @param qmp_fd       as guest_watch_start()
 * @param deadline_ns  and this time does; GUEST_NO_DEADLINE
 * @return GS_OK; GS_ENOSPC
 */
GS_MUST_USE enum gs_code guest_watch_arm(struct guest_watch *w, int qmp_fd, uint64_t deadline_ns,
					 struct gs_error *err);

/** From now on it does not. */
void guest_watch_disarm(struct guest_watch *w);

/** Whether it has resumed the guest, at the deadline. */
bool guest_watch_has_resumed(const struct guest_watch *w);

/**
 * Leave the connection to the watcher, which resumes the guest if armed and then ends by itself;
 * nothing must be written to it or read from it any more. Does not wait. Safe on an ended watch.
 *
 * @return its process number, for a message; 0: there is none, and none could be started
 */
pid_t guest_watch_let_go(struct guest_watch *w, int qmp_fd);

/** End the watcher of a guest that needs none. */
void guest_watch_end(struct guest_watch *w, uint64_t deadline_ns);

#endif
