/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's server: who is connected, what each may do when, who holds the guest. */
#include "control/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "control/connection.h"
#include "control/protocol.h"
#include "control/socket.h"
#include "kcdata/stackshot_types.h"

/* Pause after the system had no descriptor or memory for a connection. */
#define SERVER_ACCEPT_RETRY_MS 100
/* Of too many clients some may have gone just now, which the loop has yet to see. */
#define SERVER_FULL_MS 50

/*
 * A connection and what it holds. It outlives its connection while a job of it is out or a stop of
 * it is in force; its one job serves for every command and for the clean-up, which so cannot fail.
 */
struct client {
	LIST_ENTRY(client) link;
	struct ctl_server *server;
	struct ctl_conn *conn; /* NULL: gone */
	struct ctl_job job;
	bool busy;		    /* the job is out */
	struct ctl_request request; /* of the job */
	uint32_t stops;		    /* in force */
	struct ctl_trace_client tracer;
};

struct ctl_server {
	uv_loop_t *loop;
	struct ctl_server_config config;
	struct ctl_socket socket;
	uv_poll_t listener;
	uv_timer_t retry;
	uv_async_t stackshot; /* a traced program wants a capture */
	uint32_t handles;     /* of these three, not closed yet */
	struct ctl_job shot;  /* that capture */
	bool takes_shots, shot_busy;

	LIST_HEAD(client_list, client) clients;
	uint32_t connected; /* clients with a connection */
	uint32_t stops;	    /* of all clients */
	const char *ended;  /* reason; NULL: the guest has not ended */

	bool full_for_long; /* more clients are refused now; before that they wait */
	bool closing;
	void (*closed)(void *arg);
	void *closed_arg;
};

static const struct ctl_hooks no_hooks;

/* --- answers ------------------------------------------------------------------------------------
 */

static void send_return_marked(struct client *c, const json_t *id, json_t *body, int fd,
			       uint64_t mark)
{
	size_t len = 0;
	char *line = ctl_line_return(id, body, &len);

	ctl_conn_send_marked(c->conn, line, len, fd, mark);
}

static void send_return(struct client *c, const json_t *id, json_t *body, int fd)
{
	send_return_marked(c, id, body, fd, 0);
}

static void send_fault(struct client *c, const json_t *id, const struct ctl_fault *f)
{
	size_t len = 0;
	char *line = ctl_line_error(id, f, &len);

	ctl_conn_send(c->conn, line, len, -1);
}

static void send_error(struct client *c, const json_t *id, const char *class, const char *desc)
{
	struct ctl_fault f = { .class = class };

	snprintf(f.desc, sizeof(f.desc), "%s", desc);
	send_fault(c, id, &f);
}

static json_t *capture_numbers(const struct ss_result *r)
{
	return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			 "bytes", ctl_json_number(r->size), "complete", (int)r->complete, "tasks",
			 ctl_json_number(r->tasks), "threads", ctl_json_number(r->threads),
			 "same_tasks", ctl_json_number(r->same_tasks), "same_threads",
			 ctl_json_number(r->same_threads), "tries", ctl_json_number(r->tries),
			 "stopped_ns", ctl_json_number(r->stopped_ns), "stop_ns",
			 ctl_json_number(r->stop_ns), "collect_ns", ctl_json_number(r->collect_ns),
			 "resume_ns", ctl_json_number(r->resume_ns), "total_ns",
			 ctl_json_number(r->total_ns), "time_ns", ctl_json_number(r->start_ns));
}

/* The members of two objects, both taken. NULL: out of memory, also when one is NULL */
static json_t *joined(json_t *a, json_t *b)
{
	if (!a || !b || json_object_update(a, b)) {
		json_decref(a);
		a = NULL;
	}
	json_decref(b);
	return a;
}

static json_t *target_object(const struct client *c)
{
	const bool to_file = c->request.to == CTL_TO_FILE;

	return json_pack("{s:s, s:s*}", "to", to_file ? "file" : "fd", "path",
			 to_file ? c->request.path : NULL);
}

static json_t *snap_body(const struct client *c)
{
	const struct ss_result *r = &c->job.result;
	const bool saved = c->request.ask.flags & KCD_SS_SAVE_IN_KERNEL_BUFFER;
	json_t *body = capture_numbers(r);

	body = joined(body, saved ? json_pack("{s:b}", "saved", 1) : target_object(c));
	return r->saved_id
		       ? joined(body, json_pack("{s:o}", "saved_id", ctl_json_number(r->saved_id)))
		       : body;
}

static json_t *log_object(const struct btl_log_stats *l)
{
	return json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name", l->name,
			 "enabled", (int)l->enabled, "capacity", ctl_json_number(l->capacity),
			 "held", ctl_json_number(l->held), "bytes", ctl_json_number(l->bytes),
			 "recorded", ctl_json_number(l->recorded), "overwritten",
			 ctl_json_number(l->overwritten), "dropped", ctl_json_number(l->dropped),
			 "refused", ctl_json_number(l->refused), "skipped",
			 ctl_json_number(l->skipped));
}

static json_t *library_object(const struct btl_library_stats *l)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "limit",
			 ctl_json_number(l->limit), "stack_bytes", ctl_json_number(l->stack_bytes),
			 "table_bytes", ctl_json_number(l->table_bytes), "stacks",
			 ctl_json_number(l->stacks), "stacks_max", ctl_json_number(l->stacks_max),
			 "lost", ctl_json_number(l->lost), "drops", ctl_json_number(l->drops),
			 "dropped_stacks", ctl_json_number(l->dropped_stacks), "dropped_records",
			 ctl_json_number(l->dropped_records));
}

static json_t *sampling_object(const struct ctl_sample_stats *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "hz",
			 ctl_json_number(s->hz), "rounds", ctl_json_number(s->rounds), "late",
			 ctl_json_number(s->late), "samples", ctl_json_number(s->samples), "idle",
			 ctl_json_number(s->idle), "user", ctl_json_number(s->user), "unknown",
			 ctl_json_number(s->unknown), "failed", ctl_json_number(s->failed),
			 "held_ns", ctl_json_number(s->held_ns), "run_ns",
			 ctl_json_number(s->run_ns), "one_by_one", (int)s->one_by_one, "end",
			 s->end.code ? ctl_json_text(s->end.text) : json_null());
}

static json_t *btlogs_body(const struct client *c)
{
	const struct ctl_btlogs_stats *b = &c->job.btlogs;

	if (!b->has_library)
		return json_pack("{s:n, s:n, s:[], s:o}", "kernel", "library", "logs", "sampling",
				 sampling_object(&b->sampling));
	return json_pack("{s:o, s:o, s:[o, o, o], s:o}", "kernel", ctl_json_text(b->release),
			 "library", library_object(&b->library), "logs", log_object(&b->threads),
			 log_object(&b->samples), log_object(&b->probes), "sampling",
			 sampling_object(&b->sampling));
}

static json_t *save_body(const struct client *c)
{
	return joined(json_pack("{s:o}", "bytes", ctl_json_number(c->job.saved)), target_object(c));
}

static json_t *dump_body(const struct client *c)
{
	const struct ctl_dump_result *r = &c->job.dump;

	return json_pack("{s:o, s:o, s:o, s:b, s:o, s:s}", "bytes", ctl_json_number(r->file_size),
			 "data", ctl_json_number(r->data), "unreadable",
			 ctl_json_number(r->unreadable), "vmcoreinfo", (int)r->vmcoreinfo,
			 "stopped_ns", ctl_json_number(r->stopped_ns), "path", c->request.path);
}

/* What stop, cont and quit return: how things stand now. */
static const char *state_name(const struct ctl_server *s)
{
	if (s->ended)
		return "ended";
	if (ctl_worker_is_capturing(s->config.worker))
		return "capturing";
	return s->stops ? "stopped" : "running";
}

static json_t *stop_body(const struct client *c)
{
	return json_pack("{s:s, s:o, s:o}", "state", state_name(c->server), "stops",
			 ctl_json_number(c->server->stops), "own_stops", ctl_json_number(c->stops));
}

/* --- status -------------------------------------------------------------------------------------
 */

static json_t *machine_object(const struct ctl_server *s)
{
	struct vmm_status m = { 0 };

	if (!s->config.hooks->machine_status)
		return json_null();
	s->config.hooks->machine_status(s->config.arg, &m);
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "uptime_ns",
			 ctl_json_number(m.uptime_ns), "stop_depth", ctl_json_number(m.stop_depth),
			 "stop_count", ctl_json_number(m.stop_count), "stopped_ns",
			 ctl_json_number(m.stopped_ns), "vcpus_on", ctl_json_number(m.vcpus_on),
			 "console_bytes", ctl_json_number(m.console_bytes), "console_dropped",
			 ctl_json_number(m.console_dropped), "unknown_mmio",
			 ctl_json_number(m.unknown_mmio));
}

static json_t *numbers_at(const struct ss_result *r, uint64_t wall_us)
{
	return joined(capture_numbers(r), json_pack("{s:o}", "time_us", ctl_json_number(wall_us)));
}

static json_t *last_object(const struct ctl_capture_stats *stats)
{
	return stats->have_last ? numbers_at(&stats->last, stats->last_wall_us) : json_null();
}

static json_t *saved_object(const struct ctl_server *s)
{
	struct ss_result numbers;
	uint64_t wall_us;

	if (!ctl_worker_saved(s->config.worker, &numbers, &wall_us))
		return json_null();
	return joined(numbers_at(&numbers, wall_us),
		      json_pack("{s:o}", "saved_id", ctl_json_number(numbers.saved_id)));
}

static json_t *status_body(const struct client *c)
{
	struct ctl_server *s = c->server;
	const struct guest *g = s->config.guest;
	const struct ctl_capture_stats *stats = ctl_worker_stats(s->config.worker);

	return json_pack(
		"{s:i, s:s, s:o, s:s, s:o, s:o, s:o, s:{s:s, s:o, s:o, s:o}, "
		"s:{s:o, s:o, s:o, s:o, s:o}, s:o, s:o, s:o}",
		"schema", 1, "state", state_name(s), "end",
		s->ended ? json_string(s->ended) : json_null(), "version", GUESTSHOT_VERSION,
		"clients", ctl_json_number(s->connected), "stops", ctl_json_number(s->stops),
		"own_stops", ctl_json_number(c->stops), "guest", "source", g->source, "vcpus",
		ctl_json_number(g->vcpu_count), "clusters", ctl_json_number(g->cluster_count),
		"ram_bytes", ctl_json_number(guest_ram_size(g)), "captures", "taken",
		ctl_json_number(stats->taken), "incomplete", ctl_json_number(stats->incomplete),
		"failed", ctl_json_number(stats->failed), "dropped",
		ctl_json_number(stats->dropped), "queued",
		ctl_json_number(ctl_worker_queued(s->config.worker)), "last_capture",
		last_object(stats), "saved_capture", saved_object(s), "machine", machine_object(s));
}

/* --- life of a client ---------------------------------------------------------------------------
 */

static void maybe_closed(struct ctl_server *s)
{
	if (!s->closing || !LIST_EMPTY(&s->clients) || s->handles || s->shot_busy)
		return;
	void (*closed)(void *arg) = s->closed;
	void *arg = s->closed_arg;

	free(s);
	closed(arg);
}

static void client_post(struct client *c, enum ctl_job_kind kind, uint32_t resumes);

/* The connection is gone and no job is out: undo its stops, then free it. */
static void client_release(struct client *c)
{
	struct ctl_server *s = c->server;

	ctl_request_deinit(&c->request);
	if (c->stops) {
		s->stops -= c->stops;
		uint32_t resumes = c->stops;
		c->stops = 0;
		client_post(c, CTL_JOB_RESUME, resumes);
		return;
	}
	if (c->tracer.session) {
		client_post(c, CTL_JOB_TRACE_GONE, 0); /* done with none */
		return;
	}
	LIST_REMOVE(c, link);
	free(c);
	maybe_closed(s);
}

static void client_gone(void *arg)
{
	struct client *c = arg;

	c->conn = NULL;
	c->server->connected--;
	if (c->busy && ctl_worker_abandon(c->server->config.worker, &c->job))
		c->busy = false;
	if (!c->busy)
		client_release(c);
}

/* A saved capture is dropped when the answer with it was sent, unless it shall stay. */
static void client_answer_snap(struct client *c)
{
	const struct ctl_job *job = &c->job;
	const bool delivers = job->fd >= 0 && !job->keep;

	send_return_marked(c, c->request.id, snap_body(c), job->fd,
			   delivers ? job->result.saved_id : 0);
}

static void client_sent(void *arg, uint64_t mark)
{
	const struct client *c = arg;

	/* another client may have had it first */
	(void)ctl_worker_saved_drop(c->server->config.worker, mark);
}

static void client_answer_job(struct client *c)
{
	const struct ctl_job *job = &c->job;

	if (job->code) {
		send_error(c, c->request.id, gs_code_name(job->code), job->err.text);
		ctl_request_deinit(&c->request);
		return;
	}
	switch (job->kind) {
	case CTL_JOB_SNAP: client_answer_snap(c); break;
	case CTL_JOB_DUMP: send_return(c, c->request.id, dump_body(c), -1); break;
	case CTL_JOB_SAVE: send_return(c, c->request.id, save_body(c), job->fd); break;
	case CTL_JOB_SAMPLE:
	case CTL_JOB_BTLOGS:
	case CTL_JOB_BTLOG: send_return(c, c->request.id, btlogs_body(c), -1); break;
	case CTL_JOB_TRACE: send_return(c, c->request.id, c->job.answer, -1); break;
	case CTL_JOB_TRACE_GONE: break; /* nobody is left */
	case CTL_JOB_STOP:
	case CTL_JOB_RESUME: send_return(c, c->request.id, stop_body(c), -1); break;
	case CTL_JOB_SINK: break; /* no client's */
	}
	ctl_request_deinit(&c->request);
}

static void client_job_done(struct ctl_job *job)
{
	struct client *c = job->arg;
	struct ctl_server *s = c->server;

	c->busy = false;
	if (job->kind == CTL_JOB_STOP && !job->code) {
		c->stops++;
		s->stops++;
	} else if (job->kind == CTL_JOB_RESUME && c->conn) {
		/* also when it failed: the stop is not ours to undo twice */
		c->stops--;
		s->stops--;
	} else if (job->kind == CTL_JOB_RESUME && job->code) {
		gs_log(GS_LOG_WARNING, "release of a client's stops: %s", job->err.text);
	}
	if (!c->conn) {
		json_decref(job->answer);
		client_release(c);
		return;
	}
	client_answer_job(c);
	if (s->closing)
		ctl_conn_finish(c->conn);
	else
		ctl_conn_resume(c->conn);
}

static void client_post(struct client *c, enum ctl_job_kind kind, uint32_t resumes)
{
	c->job = (struct ctl_job){
		.kind = kind,
		.ask = c->request.ask,
		.keep = c->request.keep,
		.deadline_ms = c->request.deadline_ms,
		.path = c->request.path,
		.count = resumes,
		.hz = c->request.hz,
		.action = c->request.action,
		.log = c->request.log,
		.tracer = &c->tracer,
		.operation = ctl_command_name(c->request.command),
		.arguments = c->request.trace,
		.done = client_job_done,
		.arg = c,
	};
	c->busy = true;
	if (c->conn)
		ctl_conn_pause(c->conn);
	ctl_worker_post(c->server->config.worker, &c->job);
}

/* --- captures that traced programs want -------------------------------------------------------------
 */

static void shot_done(struct ctl_job *job)
{
	struct ctl_server *s = job->arg;

	s->shot_busy = false;
	if (job->code)
		gs_log(GS_LOG_WARNING, "a capture for a trace: %s", job->err.text);
	free((char *)job->path);
	maybe_closed(s);
}

/* One at a time; what is wanted meanwhile is taken by none. */
static void on_stackshot(uv_async_t *handle)
{
	struct ctl_server *s = handle->data;
	char *path = ctl_trace_take_stackshot(s->config.trace);

	if (!path || s->shot_busy || s->closing) {
		free(path);
		return;
	}
	s->shot = (struct ctl_job){ .kind = CTL_JOB_SNAP,
				    .ask.pid = SS_PID_ALL,
				    .path = path,
				    .done = shot_done,
				    .arg = s };
	s->shot_busy = true;
	ctl_worker_post(s->config.worker, &s->shot);
}

/* Any thread. */
static void stackshot_wanted(void *arg)
{
	struct ctl_server *s = arg;

	(void)uv_async_send(&s->stackshot); /* fails only when it is being closed */
}

/* --- commands -----------------------------------------------------------------------------------
 */

/*
 * What each does in each state; every pair is answered.
 *
 *		running		stopped		capturing	ended
 * status	answers		answers		answers		answers
 * snap		captures	captures,	after that one	captures what is left:
 *				stays stopped			memory, last registers
 * dump		like snap
 * sample, btlog…,	answer, after what the worker has to do before
 * trace-…
 * saved-drop,	answers		answers		answers		answers
 * schedule…
 * stop		stops		nests		after that one	counts, nothing runs
 * cont		error unless this connection has a stop; else undoes it (after a capture)
 * quit		ends		ends		ends; capture	answers: ended already
 *						is finished
 * help		answers		answers		answers		answers
 */

static void do_stop(struct client *c)
{
	if (c->stops >= CTL_STOPS_MAX)
		send_error(c, c->request.id, gs_code_name(GS_ETOOBIG),
			   "this connection holds as many stops as it may");
	else
		client_post(c, CTL_JOB_STOP, 0);
}

static void do_cont(struct client *c)
{
	if (!c->stops)
		send_error(c, c->request.id, CTL_CLASS_STOPS,
			   "this connection holds no stop (others keep theirs)");
	else
		client_post(c, CTL_JOB_RESUME, 1);
}

static void do_saved_drop(struct client *c)
{
	const bool dropped = ctl_worker_saved_drop(c->server->config.worker, c->request.saved_id);

	send_return(c, c->request.id, json_pack("{s:b}", "dropped", (int)dropped), -1);
}

static void do_quit(struct client *c)
{
	struct ctl_server *s = c->server;

	if (!s->config.hooks->quit) {
		send_error(c, c->request.id, gs_code_name(GS_ENOTSUP),
			   "this guest is not guestshot's to end");
		return;
	}
	/* answered first: the end of the guest may be the end of this server */
	send_return(c, c->request.id, stop_body(c), -1);
	if (!s->ended)
		s->config.hooks->quit(s->config.arg);
}

static void do_schedules(struct client *c)
{
	send_return(
		c, c->request.id,
		json_pack("{s:o}", "schedules", ctl_schedules_list(c->server->config.schedules)),
		-1);
}

static void do_schedule_add(struct client *c)
{
	struct ctl_schedule_config config = c->request.schedule;
	struct gs_error err;
	uint32_t id;

	config.dir = c->request.path;
	/* the loop waits for no disk: what is wrong with the folder is in the list */
	const enum gs_code rc = ctl_schedules_add(c->server->config.schedules, &config,
						  CTL_SCHEDULE_OPEN_LATER, &id, &err);
	if (rc)
		send_error(c, c->request.id, gs_code_name(rc), err.text);
	else
		send_return(c, c->request.id, json_pack("{s:o}", "id", ctl_json_number(id)), -1);
}

static void do_schedule_remove(struct client *c)
{
	const bool removed =
		ctl_schedules_remove(c->server->config.schedules, c->request.schedule_id);

	send_return(c, c->request.id, json_pack("{s:b}", "removed", (int)removed), -1);
}

static void do_schedule_command(struct client *c)
{
	if (!c->server->config.schedules)
		send_error(c, c->request.id, gs_code_name(GS_ENOTSUP),
			   "no schedules are kept for this guest");
	else if (c->request.command == CTL_CMD_SCHEDULES)
		do_schedules(c);
	else if (c->request.command == CTL_CMD_SCHEDULE_ADD)
		do_schedule_add(c);
	else
		do_schedule_remove(c);
}

static void client_command(struct client *c)
{
	switch (c->request.command) {
	case CTL_CMD_STATUS: send_return(c, c->request.id, status_body(c), -1); break;
	case CTL_CMD_SNAP: client_post(c, CTL_JOB_SNAP, 0); break;
	case CTL_CMD_SAVED_DROP: do_saved_drop(c); break;
	case CTL_CMD_DUMP: client_post(c, CTL_JOB_DUMP, 0); break;
	case CTL_CMD_SAMPLE: client_post(c, CTL_JOB_SAMPLE, 0); break;
	case CTL_CMD_BTLOGS: client_post(c, CTL_JOB_BTLOGS, 0); break;
	case CTL_CMD_BTLOG: client_post(c, CTL_JOB_BTLOG, 0); break;
	case CTL_CMD_BTLOG_SAVE: client_post(c, CTL_JOB_SAVE, 0); break;
	case CTL_CMD_SCHEDULES:
	case CTL_CMD_SCHEDULE_ADD:
	case CTL_CMD_SCHEDULE_REMOVE: do_schedule_command(c); break;
	case CTL_CMD_TRACE_CONF:
	case CTL_CMD_TRACE_PROVIDER:
	case CTL_CMD_TRACE_PROBES:
	case CTL_CMD_TRACE_PROBE_MATCH:
	case CTL_CMD_TRACE_PROBE_ARG:
	case CTL_CMD_TRACE_ENABLE:
	case CTL_CMD_TRACE_EPROBE:
	case CTL_CMD_TRACE_REPLICATE:
	case CTL_CMD_TRACE_ENABLINGS:
	case CTL_CMD_TRACE_FORMAT:
	case CTL_CMD_TRACE_GO:
	case CTL_CMD_TRACE_STOP:
	case CTL_CMD_TRACE_BUF_SNAP:
	case CTL_CMD_TRACE_AGG_DESC:
	case CTL_CMD_TRACE_AGG_SNAP:
	case CTL_CMD_TRACE_STATUS:
	case CTL_CMD_TRACE_CLOSE: client_post(c, CTL_JOB_TRACE, 0); break;
	case CTL_CMD_STOP: do_stop(c); break;
	case CTL_CMD_CONT: do_cont(c); break;
	case CTL_CMD_QUIT: do_quit(c); break;
	case CTL_CMD_HELP: send_return(c, c->request.id, ctl_help(), -1); break;
	}
}

static void client_line(void *arg, const char *line, size_t len)
{
	struct client *c = arg;
	struct ctl_fault f;

	if (ctl_line_is_blank(line, len))
		return;
	if (ctl_request_parse(line, len, &c->request, &f))
		client_command(c);
	else
		send_fault(c, c->request.id, &f);
	if (!c->busy)
		ctl_request_deinit(&c->request);
}

static void client_overlong(void *arg)
{
	struct client *c = arg;
	struct ctl_fault f = { .class = gs_code_name(GS_ETOOBIG) };

	snprintf(f.desc, sizeof(f.desc), "line longer than %u bytes; connection closed",
		 CTL_LINE_MAX);
	send_fault(c, NULL, &f);
	ctl_conn_finish(c->conn);
}

static const struct ctl_conn_events client_events = {
	.line = client_line,
	.overlong = client_overlong,
	.sent = client_sent,
	.gone = client_gone,
};

/* --- connections --------------------------------------------------------------------------------
 */

/* One line, if the socket takes it, and goodbye. */
static void refuse(int fd, const char *class, const char *desc)
{
	struct ctl_fault f = { .class = class };
	size_t len;

	snprintf(f.desc, sizeof(f.desc), "%s", desc);
	char *line = ctl_line_error(NULL, &f, &len);
	if (line)
		(void)send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT); /* a courtesy */
	free(line);
	close(fd);
}

static void welcome(struct ctl_server *s, int fd)
{
	struct gs_error err;

	if (ctl_socket_check_peer(fd, &err)) {
		refuse(fd, gs_code_name(err.code), err.text);
		return;
	}
	if (s->connected >= CTL_CLIENTS_MAX) {
		refuse(fd, gs_code_name(GS_EBUSY), "too many clients; try again later");
		return;
	}
	struct client *c = calloc(1, sizeof(*c));
	if (!c) {
		refuse(fd, gs_code_name(GS_ENOSPC), "out of memory");
		return;
	}
	c->server = s;
	if (ctl_conn_create(s->loop, fd, s->config.stall_ms, &client_events, c, &c->conn)) {
		free(c);
		return;
	}
	LIST_INSERT_HEAD(&s->clients, c, link);
	s->connected++;

	size_t len = 0;
	char *line = ctl_line_greeting(&len);
	ctl_conn_send(c->conn, line, len, -1);
}

static void on_connection(uv_poll_t *handle, int status, int events);

static void on_retry(uv_timer_t *handle)
{
	struct ctl_server *s = handle->data;

	s->full_for_long = s->connected >= CTL_CLIENTS_MAX;
	uv_poll_start(&s->listener, UV_READABLE, on_connection);
}

/* Take no connection for a moment; they wait in the socket's backlog. */
static void accept_later(struct ctl_server *s, uint64_t ms)
{
	uv_poll_stop(&s->listener);
	uv_timer_start(&s->retry, on_retry, ms, 0);
}

/* One connection a turn of the loop: those that are there have their turn as well. */
static void on_connection(uv_poll_t *handle, int status, int events)
{
	struct ctl_server *s = handle->data;

	(void)status; /* accept4() will tell */
	(void)events;
	if (s->connected < CTL_CLIENTS_MAX) {
		s->full_for_long = false;
	} else if (!s->full_for_long) {
		accept_later(s, SERVER_FULL_MS);
		return;
	}
	int fd = accept4(s->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		welcome(s, fd);
	else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		accept_later(s, SERVER_ACCEPT_RETRY_MS); /* or it would be reported at once again */
}

/* --- the server ---------------------------------------------------------------------------------
 */

enum gs_code ctl_server_create(uv_loop_t *loop, const struct ctl_server_config *config,
			       struct ctl_server **server_out, struct gs_error *err)
{
	struct ctl_server *s = calloc(1, sizeof(*s));

	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	s->loop = loop;
	s->config = *config;
	if (!s->config.hooks)
		s->config.hooks = &no_hooks;
	if (!s->config.stall_ms)
		s->config.stall_ms = CTL_STALL_MS_DEFAULT;
	LIST_INIT(&s->clients);
	enum gs_code rc = ctl_socket_listen(config->path, &s->socket, err);
	if (rc) {
		free(s);
		return rc;
	}
	int e = uv_poll_init(loop, &s->listener, s->socket.fd);
	if (e) {
		ctl_socket_close(&s->socket);
		free(s);
		return gs_fail(err, GS_ENOSPC, "event loop: %s", uv_strerror(e));
	}
	(void)uv_timer_init(loop, &s->retry); /* cannot fail */
	s->handles = 2;
	s->listener.data = s;
	s->retry.data = s;
	s->stackshot.data = s;
	/* without it, programs that want captures are refused */
	if (s->config.trace && !uv_async_init(loop, &s->stackshot, on_stackshot)) {
		s->handles++;
		s->takes_shots = true;
		ctl_trace_on_stackshot(s->config.trace, stackshot_wanted, s);
	}
	uv_poll_start(&s->listener, UV_READABLE, on_connection);
	*server_out = s;
	return GS_OK;
}

void ctl_server_guest_ended(struct ctl_server *s, const char *reason)
{
	struct client *c;

	if (s->ended)
		return;
	s->ended = reason;
	LIST_FOREACH(c, &s->clients, link)
	{
		size_t len = 0;

		if (c->conn) {
			char *line = ctl_line_event("guest-ended", gs_clock_wall_us(),
						    json_pack("{s:s}", "reason", reason), &len);
			ctl_conn_send(c->conn, line, len, -1);
		}
	}
}

static void on_closed(uv_handle_t *handle)
{
	struct ctl_server *s = handle->data;

	s->handles--;
	maybe_closed(s);
}

/* Persistent sessions may go on firing: nobody tells us any more. A capture that waits is given up. */
static void shot_close(struct ctl_server *s)
{
	if (s->takes_shots) {
		ctl_trace_on_stackshot(s->config.trace, NULL, NULL);
		uv_close((uv_handle_t *)&s->stackshot, on_closed);
	}
	if (s->shot_busy && ctl_worker_withdraw(s->config.worker, &s->shot)) {
		free((char *)s->shot.path);
		s->shot_busy = false;
	}
}

void ctl_server_close(struct ctl_server *s, void (*closed)(void *arg), void *arg)
{
	struct client *c;

	s->closing = true;
	s->closed = closed;
	s->closed_arg = arg;
	uv_close((uv_handle_t *)&s->listener, on_closed);
	uv_close((uv_handle_t *)&s->retry, on_closed);
	shot_close(s);
	ctl_socket_close(&s->socket);
	/* gone() of these comes from the loop, so the list stays as it is */
	LIST_FOREACH(c, &s->clients, link)
	{
		if (!c->conn)
			continue; /* its resume is out */
		if (c->busy && !ctl_worker_withdraw(s->config.worker, &c->job))
			continue; /* runs: answered when it is done */
		if (c->busy) {
			c->busy = false;
			send_error(c, c->request.id, CTL_CLASS_ENDED, "guestshot is ending");
			ctl_request_deinit(&c->request);
		}
		ctl_conn_finish(c->conn);
	}
}

void ctl_server_unlink(const struct ctl_server *s)
{
	if (s)
		ctl_socket_unlink(&s->socket);
}
