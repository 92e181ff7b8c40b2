/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's server: who is connected, what each may do when, who holds the guest. */
#ifndef CONTROL_SERVER_H
#define CONTROL_SERVER_H

/*
 *	ctl_worker_create(loop, &worker_config, &worker, &err);
 *	ctl_server_create(loop, &(struct ctl_server_config){ .path = path, .worker = worker,
 *			  .guest = guest, .hooks = &hooks, .arg = me }, &server, &err);
 *	uv_run(loop, …);
 *	ctl_server_close(server, on_closed, me);	// on_closed may close the worker
 *
 * The server knows a guest (to describe it), a worker (to stop and capture it) and a table of what
 * else its owner offers; not where the guest comes from. docs/control-protocol.md describes what
 * it speaks.
 *
 * What a client does harms nobody else: it has one command under way at a time, one buffer of one
 * line's length, and answers wait until it reads them; who does not read for long is dropped. Stops
 * belong to their connection and end with it.
 *
 * Threads: everything on the loop's thread, which is never blocked by it.
 */

#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "control/schedules.h"
#include "control/worker.h"
#include "introspect/guest/guest.h"
#include "vmm/vmm.h"

#define CTL_CLIENTS_MAX	     16
#define CTL_STOPS_MAX	     1024 /* of one connection */
#define CTL_STALL_MS_DEFAULT 10000

/** What the owner of a guest offers beside the guest itself; each may be NULL. */
struct ctl_hooks {
	/** Counters of the machine, for "status"; must not block. NULL: it is not our machine. */
	void (*machine_status)(void *arg, struct vmm_status *status_out);
	/** "quit": let the guest end; returns at once. NULL: not ours to end. */
	void (*quit)(void *arg);
};

struct ctl_server_config {
	const char *path;	   /* of the socket; borrowed for the call */
	const struct guest *guest; /* borrowed until closed */
	struct ctl_worker *worker; /* borrowed until closed */
	struct ctl_trace *trace;   /* borrowed until closed; NULL: its captures are not taken */
	struct ctl_schedules *schedules; /* borrowed until closed; NULL: none are taken */
	const struct ctl_hooks *hooks;	 /* borrowed until closed */
	void *arg;			 /* of the hooks */
	uint32_t stall_ms; /* a client that takes nothing of its answers for so long is dropped;
			      0: CTL_STALL_MS_DEFAULT */
};

struct ctl_server;

/**
 * Listen and serve, from the next uv_run() on.
 *
 * @param loop   borrowed until closed
 * @param config borrowed for the call
 * @param server_out returned: end with ctl_server_close()
 * @return GS_OK; see ctl_socket_listen(); GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code ctl_server_create(uv_loop_t *loop, const struct ctl_server_config *config,
					   struct ctl_server **server_out, struct gs_error *err);

/**
 * Tell every client that the guest has ended; commands go on to be answered.
 *
 * @param reason a word for programs: "poweroff", "reboot", …; a static string
 */
void ctl_server_guest_ended(struct ctl_server *server, const char *reason);

/**
 * Stop serving: the socket is removed, captures that wait get an error, one that runs is finished
 * and answered, stops of clients are undone.
 *
 * @param closed called on the loop when all that has happened and the server is freed
 */
void ctl_server_close(struct ctl_server *server, void (*closed)(void *arg), void *arg);

/** For an exit that waits for nothing: take the socket's name away. NULL is fine. */
void ctl_server_unlink(const struct ctl_server *server);

#endif
