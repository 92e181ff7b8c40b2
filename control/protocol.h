/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's language: request lines to structures, answers to lines. */
#ifndef CONTROL_PROTOCOL_H
#define CONTROL_PROTOCOL_H

/*
 * Newline-delimited JSON in the manner of QMP; docs/control-protocol.md has the whole of it.
 *
 *	server: {"guestshot": {"version": {…}, "protocol": 1, "capabilities": […]}}
 *	client: {"execute": "snap", "arguments": {"to": "fd"}, "id": 1}
 *	server: {"return": {…}, "id": 1}   or   {"error": {"class": "…", "desc": "…"}, "id": 1}
 *	server: {"event": "guest-ended", "timestamp": {…}, "data": {…}}
 *
 * Pure functions: no descriptor, no global, no clock. What they get was sent by anybody.
 * Threads: any.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "control/btlogs.h"
#include "control/schedules.h"
#include "introspect/stackshot/stackshot.h"

#define CTL_PROTOCOL_VERSION 1
/* Longest line a client may send, newline included; a request needs some hundred bytes. */
#define CTL_LINE_MAX 65536u
/* Arrays and objects inside of each other; a request needs two. jansson recurses, so this is low.
 */
#define CTL_DEPTH_MAX 16u
/* Longest deadline of a capture: an hour. */
#define CTL_DEADLINE_MS_MAX UINT64_C(3600000)

enum ctl_command {
	CTL_CMD_STATUS,
	CTL_CMD_SNAP,
	CTL_CMD_SAVED_DROP,
	CTL_CMD_DUMP,
	CTL_CMD_SAMPLE,
	CTL_CMD_BTLOGS,
	CTL_CMD_BTLOG,
	CTL_CMD_BTLOG_SAVE,
	CTL_CMD_SCHEDULES,
	CTL_CMD_SCHEDULE_ADD,
	CTL_CMD_SCHEDULE_REMOVE,
	CTL_CMD_TRACE_CONF, /* tracing, to TRACE_CLOSE */
	CTL_CMD_TRACE_PROVIDER,
	CTL_CMD_TRACE_PROBES,
	CTL_CMD_TRACE_PROBE_MATCH,
	CTL_CMD_TRACE_PROBE_ARG,
	CTL_CMD_TRACE_ENABLE,
	CTL_CMD_TRACE_EPROBE,
	CTL_CMD_TRACE_REPLICATE,
	CTL_CMD_TRACE_ENABLINGS,
	CTL_CMD_TRACE_FORMAT,
	CTL_CMD_TRACE_GO,
	CTL_CMD_TRACE_STOP,
	CTL_CMD_TRACE_BUF_SNAP,
	CTL_CMD_TRACE_AGG_DESC,
	CTL_CMD_TRACE_AGG_SNAP,
	CTL_CMD_TRACE_STATUS,
	CTL_CMD_TRACE_CLOSE,
	CTL_CMD_STOP,
	CTL_CMD_CONT,
	CTL_CMD_QUIT,
	CTL_CMD_HELP,
};

/** Where a capture goes. */
enum ctl_target {
	CTL_TO_FD,   /* a sealed memory file, passed along with the answer */
	CTL_TO_FILE, /* written by the server */
};

struct ctl_request {
	enum ctl_command command;
	json_t *id;	       /* NULL: none was given */
	struct ss_request ask; /* snap: but for version, size and deadline_ns */
	uint32_t deadline_ms;  /* snap: most that the guest is stopped; 0: no limit */
	bool keep;	       /* snap: a saved capture stays saved when it was delivered */
	uint64_t saved_id;     /* saved-drop */
	enum ctl_target to;    /* snap, btlog-save */
	bool has_to, has_hz, has_action;
	uint32_t hz;		      /* sample */
	enum ctl_btlog_action action; /* btlog */
	char *log;		      /* btlog, btlog-save: NULL: all logs */
	char *path;		      /* snap to a file, dump, schedule-add: absolute; else NULL */
	struct ctl_schedule_config schedule; /* schedule-add: but for its dir, which is path */
	uint64_t schedule_id;		     /* schedule-remove */
	json_t *trace; /* tracing: its arguments, of the types that they must have; NULL: none */
};

/* Classes of errors that the protocol adds to the names of enum gs_code. */
#define CTL_CLASS_JSON	   "invalid-json"
#define CTL_CLASS_REQUEST  "invalid-request"
#define CTL_CLASS_COMMAND  "unknown-command"
#define CTL_CLASS_ARGUMENT "invalid-argument" /* the name of GS_EINVAL */
#define CTL_CLASS_STOPS	   "not-stopped"
#define CTL_CLASS_ENDED	   "ended"

/** An answer that is an error. */
struct ctl_fault {
	const char *class; /* a static string */
	char desc[GS_ERROR_TEXT_MAX];
};

/**
 * Read one request line.
 *
 * @param line      without its newline; need not be terminated
 * @param request_out filled also on failure as far as known (its id, so that the error can carry
 * it); free with ctl_request_deinit() in either case
 * @param fault_out filled when false is returned
 * @return whether it is a request that may be carried out
 */
GS_MUST_USE bool ctl_request_parse(const char *line, size_t len, struct ctl_request *request_out,
				   struct ctl_fault *fault_out);

/** Free what a request holds; safe on a zeroed one, and twice. */
void ctl_request_deinit(struct ctl_request *request);

/** Whether a line has nothing but white space: such a line is no request and gets no answer. */
bool ctl_line_is_blank(const char *line, size_t len);

/**
 * Parse JSON that a peer sent: duplicates refused, nesting limited to CTL_DEPTH_MAX.
 *
 * @return returned: json_decref(); NULL with a reason in @p fault_out
 */
json_t *ctl_json_parse(const char *text, size_t len, struct ctl_fault *fault_out);

/** A JSON string of any bytes: what is not UTF-8 is escaped. NULL only when out of memory. */
json_t *ctl_json_text(const char *text);

/** A JSON integer of a counter: below 2^63 for some centuries, and a wrong one is not negative. */
json_t *ctl_json_number(uint64_t value);

/** What "help" returns: every command with its arguments. NULL when out of memory. */
json_t *ctl_help(void);

/** Name of a command as it is sent. */
const char *ctl_command_name(enum ctl_command command);

/*
 * Lines to send, newline included; returned: free with free(); NULL when out of memory, a NULL
 * body included. ids are borrowed and may be NULL; bodies are taken.
 */
char *ctl_line_greeting(size_t *len_out);
char *ctl_line_return(const json_t *id, json_t *body, size_t *len_out);
char *ctl_line_error(const json_t *id, const struct ctl_fault *fault, size_t *len_out);
char *ctl_line_event(const char *name, uint64_t wall_us, json_t *data, size_t *len_out);

#endif
