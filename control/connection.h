/* SPDX-License-Identifier: Apache-2.0 */
/* One connected stream of lines: bounded in both directions, never blocking. */
#ifndef CONTROL_CONNECTION_H
#define CONTROL_CONNECTION_H

/*
 * Input: one buffer of CTL_LINE_MAX bytes. Lines are handed over one by one, not while the owner
 * has the connection paused (a command of it is under way), and not while more than CTL_OUT_HIGH
 * bytes of answers wait; input beyond that stays in the socket, where the peer feels it.
 *
 * Output: sent at once as far as the socket takes it, queued otherwise. Owners may add lines that
 * nobody asked for (events); beyond CTL_OUT_MAX the connection is given up, as it is when the peer
 * takes nothing for stall_ms.
 *
 * Threads: the loop's only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/error.h"
#include "control/protocol.h"

#define CTL_OUT_HIGH 65536u
#define CTL_OUT_MAX  (1u << 20)

struct ctl_conn;

struct ctl_conn_events {
	/** A line without its newline; valid during the call. */
	void (*line)(void *arg, const char *line, size_t len);
	/** The peer sent more than a line may have; no more line() comes. Called once. */
	void (*overlong)(void *arg);
	/**
	 * A line with this mark was wholly handed to the peer's socket, its descriptor with it. May be
	 * called inside of ctl_conn_send_marked(); the connection must not be used.
	 */
	void (*sent)(void *arg, uint64_t mark);
	/** The connection is over, whoever ended it, and freed on return; not after
	 * ctl_conn_close(). */
	void (*gone)(void *arg);
};

/**
 * Serve a connected, non-blocking socket.
 *
 * @param fd     taken, also on failure
 * @param events borrowed until gone() or ctl_conn_close()
 * @return GS_OK; GS_ENOSPC
 */
GS_MUST_USE enum gs_code ctl_conn_create(uv_loop_t *loop, int fd, uint32_t stall_ms,
					 const struct ctl_conn_events *events, void *arg,
					 struct ctl_conn **conn_out);

/**
 * Send a line, after what waits already. A failure shows as gone(), later, from the loop.
 *
 * @param line taken; NULL (its maker was out of memory) gives the connection up
 * @param fd   taken; passed along with the line's first byte; -1: none
 */
void ctl_conn_send(struct ctl_conn *c, char *line, size_t len, int fd);

/**
 * The same for a line whose sender wants to know that it arrived in the peer's socket.
 *
 * @param mark  for sent(), not 0; a line that is given up with its connection is not sent
 */
void ctl_conn_send_marked(struct ctl_conn *c, char *line, size_t len, int fd, uint64_t mark);

/** No line() until ctl_conn_resume(). May be called from line(). */
void ctl_conn_pause(struct ctl_conn *c);

/** Not from line(): hands over lines that wait before it returns. */
void ctl_conn_resume(struct ctl_conn *c);

/** Read nothing more; gone() when the peer has taken what waits, or does not within a second. */
void ctl_conn_finish(struct ctl_conn *c);

/** End it now, without gone(). Not from inside line(). */
void ctl_conn_close(struct ctl_conn *c);

#endif
