/* SPDX-License-Identifier: Apache-2.0 */
/* A server on a thread of its own, over a guest and a capture function that a test controls. */
#ifndef TESTS_UNIT_CONTROL_SERVED_H
#define TESTS_UNIT_CONTROL_SERVED_H

#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

#include "control/schedules.h"
#include "control/server.h"
#include "control/trace.h"
#include "control/worker.h"
#include "introspect/guest/memory_guest.h"

/* Longest wait for anything; reached only by a test that fails. */
#define SERVED_DEADLINE_S 20

#define SERVED_PATH "s"

struct served {
	struct memory_guest memory;
	struct guest guest; /* over memory, but counted */
	uv_loop_t loop;
	uv_async_t poke;
	pthread_t thread;
	bool close_asked;	    /* the test's thread only */
	struct ss_session *session; /* of the guest, which has no kernel: saves, retrieves */
	struct ctl_trace *trace;
	struct ctl_worker *worker;
	struct ctl_schedules *schedules;
	struct ctl_server *server;

	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t changed;
	int stops;	      /* in force on the guest */
	unsigned int entered; /* captures begun, retrievals included */
	unsigned int inside;  /* captures under way */
	unsigned int inside_max;
	unsigned int quits;
	bool gate_closed; /* captures wait inside */
	bool fail;	  /* captures fail */
	bool incomplete;
	bool want_end, want_close, is_closed;
	struct ss_request asked; /* the last one */
};

/** Start; @p stall_ms 0: the default. */
void served_start(struct served *s, uint32_t stall_ms);

/** Close the server; returns at once. */
void served_close(struct served *s);

/** Close if that was not done, join, and check that nothing is left. */
void served_stop(struct served *s);

/** Report the end of the guest. */
void served_end_guest(struct served *s);

/** Close or open the gate that captures wait at. */
void served_gate(struct served *s, bool closed);

/** Make captures fail or be incomplete from now on. */
void served_outcome(struct served *s, bool fail, bool incomplete);

/** Wait, to the deadline, until a counter has a value. */
void served_wait_stops(struct served *s, int stops);
void served_wait_entered(struct served *s, unsigned int captures);
void served_wait_quits(struct served *s, unsigned int quits);

/** What the last capture was asked for, its deadline as it was passed on. */
struct ss_request served_asked(struct served *s);

/** The bytes of every capture but those that are saved, which are real ones, of a guest without RAM. */
extern const char served_capture[];
extern const size_t served_capture_len;

/* --- a plain client ------------------------------------------------------------------------------
 */

struct peer {
	int fd;
	int passed; /* last descriptor that came along; -1: none */
	char line[1 << 18], said[1 << 18];
	size_t len;
};

/** Connect; the greeting is read and checked unless @p raw. */
void peer_connect(struct peer *p, bool raw);

/** Send text as it is. */
void peer_send(const struct peer *p, const char *text);

/** Next line, terminated, until the next one of this peer; "" at the end of the stream. */
const char *peer_line(struct peer *p);

/** Send @p request and a newline, return the next line. */
const char *peer_ask(struct peer *p, const char *request);

void peer_close(struct peer *p);

#define PEER_STATUS "{\"execute\":\"status\"}"

/**
 * Ask for the status until it says @p what: what happens after a close has no other announcement.
 */
void peer_wait_status(struct peer *p, const char *what);

/** Fail the test unless a line contains @p what. */
#define assert_has(line, what)                                                           \
	do {                                                                             \
		const char *line_ = (line);                                              \
		ck_assert_msg(strstr(line_, (what)), "no %s in: %.300s", (what), line_); \
	} while (0)

#endif
