/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket's language: request lines to structures, answers to lines. */
#include "control/protocol.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/escape.h"
#include "base/util.h"
#include "kcdata/stackshot_types.h"

/* One argument of one command. */
struct arg {
	const char *name;
	const char *type; /* for help */
	const char *help;
	/* NULL: kept as it is, if it is of its type */
	bool (*parse)(const json_t *value, struct ctl_request *r, struct ctl_fault *f);
};

struct command {
	const char *name;
	const char *help;
	const struct arg *args;
	size_t arg_count;
	bool (*check)(const struct ctl_request *r, struct ctl_fault *f); /* across arguments */
};

__attribute__((format(printf, 3, 4))) static bool fault(struct ctl_fault *f, const char *class,
							const char *fmt, ...)
{
	va_list ap;

	f->class = class;
	va_start(ap, fmt);
	vsnprintf(f->desc, sizeof(f->desc), fmt, ap);
	va_end(ap);
	return false;
}

static const char *type_name(const json_t *value)
{
	switch (json_typeof(value)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "an integer";
	case JSON_REAL: return "a number with a fraction";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	case JSON_NULL: return "null";
	}
	return "unknown";
}

/* The value of an argument that is an integer in [min, max]. */
static bool parse_integer(const json_t *value, const struct ctl_request *r, const char *name,
			  json_int_t min, json_int_t max, uint64_t *n_out, struct ctl_fault *f)
{
	const char *command = ctl_command_name(r->command);
	const json_int_t n = json_integer_value(value);

	if (!json_is_integer(value))
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"%s\" is an integer, not %s", command,
			     name, type_name(value));
	if (n < min || n > max)
		return fault(f, CTL_CLASS_ARGUMENT,
			     "%s: \"%s\" %" JSON_INTEGER_FORMAT " is not in %" JSON_INTEGER_FORMAT
			     " … %" JSON_INTEGER_FORMAT,
			     command, name, n, min, max);
	*n_out = (uint64_t)n;
	return true;
}

static bool parse_pid(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	uint64_t n = 0;

	if (!parse_integer(value, r, "pid", 0, INT32_MAX, &n, f))
		return false;
	r->ask.pid = (int32_t)n;
	return true;
}

static bool parse_threads_max(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	uint64_t n = 0;

	if (!parse_integer(value, r, "threads_max", 0, UINT32_MAX, &n, f))
		return false;
	r->ask.threads_max = (uint32_t)n;
	return true;
}

static bool parse_size_hint(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "size_hint", 0, INT64_MAX, &r->ask.size_hint, f);
}

static bool parse_since(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "since_ns", 1, INT64_MAX, &r->ask.since_ns, f);
}

static bool parse_mask(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "pagetable_mask", 0, INT64_MAX, &r->ask.pagetable_mask, f);
}

static bool parse_flags(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	const json_t *name;
	size_t i;

	if (!json_is_array(value))
		return fault(f, CTL_CLASS_ARGUMENT, "snap: \"flags\" is an array of names, not %s",
			     type_name(value));
	json_array_foreach(value, i, name)
	{
		if (!json_is_string(name))
			return fault(f, CTL_CLASS_ARGUMENT,
				     "snap: \"flags\" is an array of names, not of %s",
				     type_name(name));
		uint64_t flag = ss_request_flag(json_string_value(name));
		if (!flag)
			return fault(f, CTL_CLASS_ARGUMENT, "snap: unknown flag \"%.64s\"",
				     json_string_value(name));
		r->ask.flags |= flag;
	}
	return true;
}

static bool parse_keep(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	if (!json_is_boolean(value))
		return fault(f, CTL_CLASS_ARGUMENT, "snap: \"keep\" is a boolean, not %s",
			     type_name(value));
	r->keep = json_is_true(value);
	return true;
}

static bool parse_to(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	const char *command = ctl_command_name(r->command);

	if (!json_is_string(value))
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"to\" is a string, not %s", command,
			     type_name(value));
	if (!strcmp(json_string_value(value), "fd"))
		r->to = CTL_TO_FD;
	else if (!strcmp(json_string_value(value), "file"))
		r->to = CTL_TO_FILE;
	else
		return fault(f, CTL_CLASS_ARGUMENT,
			     "%s: \"to\" is \"fd\" or \"file\", not \"%.64s\"", command,
			     json_string_value(value));
	r->has_to = true;
	return true;
}

static bool parse_path(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	const char *command = ctl_command_name(r->command);

	if (!json_is_string(value))
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"path\" is a string, not %s", command,
			     type_name(value));
	/* The server's working folder is not the client's. */
	if (json_string_value(value)[0] != '/')
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"path\" is not absolute", command);
	r->path = strdup(json_string_value(value));
	return r->path ? true : fault(f, gs_code_name(GS_ENOSPC), "out of memory");
}

static bool check_target(const struct ctl_request *r, struct ctl_fault *f)
{
	const char *command = ctl_command_name(r->command);

	if (r->to == CTL_TO_FILE && !r->path)
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"to\": \"file\" needs \"path\"", command);
	if (r->to != CTL_TO_FILE && r->path)
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"path\" needs \"to\": \"file\"", command);
	return true;
}

static bool check_snap(const struct ctl_request *r, struct ctl_fault *f)
{
	const uint64_t flags = r->ask.flags;

	if ((flags & KCD_SS_SAVE_IN_KERNEL_BUFFER) && (r->has_to || r->path))
		return fault(f, CTL_CLASS_ARGUMENT,
			     "snap: with SAVE_IN_KERNEL_BUFFER nothing is sent or written: no "
			     "\"to\" and no \"path\"");
	if (r->keep && !(flags & KCD_SS_RETRIEVE_EXISTING_BUFFER))
		return fault(f, CTL_CLASS_ARGUMENT,
			     "snap: \"keep\" goes with the flag RETRIEVE_EXISTING_BUFFER");
	return check_target(r, f);
}

static bool parse_deadline(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	uint64_t n = 0;

	if (!parse_integer(value, r, "deadline_ms", 1, CTL_DEADLINE_MS_MAX, &n, f))
		return false;
	r->deadline_ms = (uint32_t)n;
	return true;
}

static const struct arg snap_args[] = {
	{ "deadline_ms", "integer", "let the guest go on after so long, with what there is by then",
	  parse_deadline },
	{ "flags", "array", "names of flags of a request, as in docs/stackshot.md", parse_flags },
	{ "keep", "boolean",
	  "a capture that is retrieved stays saved until saved-drop (default: false)", parse_keep },
	{ "pagetable_mask", "integer",
	  "levels of page tables, bit n: level n (default: all), with the flag PAGE_TABLES",
	  parse_mask },
	{ "pid", "integer", "only the process with this id (default: all)", parse_pid },
	{ "since_ns", "integer",
	  "\"time_ns\" of the capture to compare with, with the flag COLLECT_DELTA_SNAPSHOT",
	  parse_since },
	{ "size_hint", "integer", "bytes of buffer to begin with", parse_size_hint },
	{ "threads_max", "integer", "most threads recorded of a process (default: all)",
	  parse_threads_max },
	{ "to", "string",
	  "\"fd\": a sealed memory file comes with the answer (default); "
	  "\"file\": the server writes \"path\"",
	  parse_to },
	{ "path", "string", "absolute path of the file to write, with \"to\": \"file\"",
	  parse_path },
};

static bool parse_saved_id(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "saved_id", 1, INT64_MAX, &r->saved_id, f);
}

static bool check_saved_drop(const struct ctl_request *r, struct ctl_fault *f)
{
	return r->saved_id ? true
			   : fault(f, CTL_CLASS_ARGUMENT, "saved-drop: \"saved_id\" is missing");
}

static const struct arg saved_drop_args[] = {
	{ "saved_id", "integer", "of the saved capture, as snap and status say it",
	  parse_saved_id },
};

static bool check_dump(const struct ctl_request *r, struct ctl_fault *f)
{
	return r->path ? true : fault(f, CTL_CLASS_ARGUMENT, "dump: \"path\" is missing");
}

static const struct arg dump_args[] = {
	{ "path", "string", "absolute path of the ELF core to write", parse_path },
};

static bool parse_hz(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	uint64_t n = 0;

	if (!parse_integer(value, r, "hz", 0, CTL_SAMPLE_HZ_MAX, &n, f))
		return false;
	r->hz = (uint32_t)n;
	r->has_hz = true;
	return true;
}

static bool check_sample(const struct ctl_request *r, struct ctl_fault *f)
{
	return r->has_hz ? true : fault(f, CTL_CLASS_ARGUMENT, "sample: \"hz\" is missing");
}

static const struct arg sample_args[] = {
	{ "hz", "integer", "samples of each vCPU in a second; 0: end", parse_hz },
};

static bool parse_log(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	if (!json_is_string(value))
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"log\" is a string, not %s",
			     ctl_command_name(r->command), type_name(value));
	r->log = strdup(json_string_value(value));
	return r->log ? true : fault(f, gs_code_name(GS_ENOSPC), "out of memory");
}

static bool parse_action(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	static const char *const names[] = { [CTL_BTLOG_ENABLE] = "enable",
					     [CTL_BTLOG_DISABLE] = "disable",
					     [CTL_BTLOG_RESET] = "reset" };

	for (size_t i = 0; json_is_string(value) && i < ARRAY_SIZE(names); i++) {
		if (strcmp(json_string_value(value), names[i]) != 0)
			continue;
		r->action = (enum ctl_btlog_action)i;
		r->has_action = true;
		return true;
	}
	return fault(f, CTL_CLASS_ARGUMENT,
		     "btlog: \"action\" is \"enable\", \"disable\" or \"reset\"");
}

static bool check_btlog(const struct ctl_request *r, struct ctl_fault *f)
{
	return r->has_action ? true : fault(f, CTL_CLASS_ARGUMENT, "btlog: \"action\" is missing");
}

static const struct arg btlog_args[] = {
	{ "action", "string", "\"enable\", \"disable\" (drops all), \"reset\"", parse_action },
	{ "log", "string", "\"threads\", \"samples\" or \"probes\" (default: all)", parse_log },
};

static const struct arg btlog_save_args[] = {
	{ "log", "string", "\"threads\", \"samples\" or \"probes\" (default: all)", parse_log },
	{ "to", "string", "\"fd\" (default) or \"file\", as for snap", parse_to },
	{ "path", "string", "absolute path of the file to write, with \"to\": \"file\"",
	  parse_path },
};

static bool parse_dir(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	if (!json_is_string(value) || json_string_value(value)[0] != '/')
		return fault(f, CTL_CLASS_ARGUMENT, "schedule-add: \"dir\" is an absolute path");
	r->path = strdup(json_string_value(value));
	return r->path ? true : fault(f, gs_code_name(GS_ENOSPC), "out of memory");
}

static bool parse_every(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	uint64_t ms = 0;

	if (!parse_integer(value, r, "every_ms", CTL_SCHEDULE_EVERY_MIN_NS / GS_NS_PER_MS,
			   CTL_SCHEDULE_EVERY_MAX_NS / GS_NS_PER_MS, &ms, f))
		return false;
	r->schedule.every_ns = ms * GS_NS_PER_MS;
	return true;
}

/* An integer argument that is a 32-bit number of the schedule. */
static bool parse_small(const json_t *value, struct ctl_request *r, const char *name,
			json_int_t min, json_int_t max, uint32_t *n_out, struct ctl_fault *f)
{
	uint64_t n = 0;

	if (!parse_integer(value, r, name, min, max, &n, f))
		return false;
	*n_out = (uint32_t)n;
	return true;
}

static bool parse_jitter(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_small(value, r, "jitter", 0, CTL_SCHEDULE_JITTER_MAX, &r->schedule.jitter, f);
}

static bool parse_full_every(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_small(value, r, "full_every", 1, CTL_SCHEDULE_FULL_EVERY_MAX,
			   &r->schedule.full_every, f);
}

static bool parse_keep_count(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_small(value, r, "keep", 1, CTL_SCHEDULE_KEEP_MAX, &r->schedule.keep, f);
}

static bool parse_max_bytes(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "max_bytes", 1, INT64_MAX, &r->schedule.max_bytes, f);
}

static bool parse_max_stopped(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_small(value, r, "max_stopped_ppm", 1, CTL_SCHEDULE_STOPPED_MAX,
			   &r->schedule.max_stopped, f);
}

static bool check_schedule_add(const struct ctl_request *r, struct ctl_fault *f)
{
	if (!r->path)
		return fault(f, CTL_CLASS_ARGUMENT, "schedule-add: \"dir\" is missing");
	return r->schedule.every_ns
		       ? true
		       : fault(f, CTL_CLASS_ARGUMENT, "schedule-add: \"every_ms\" is missing");
}

static const struct arg schedule_add_args[] = {
	{ "dir", "string", "absolute path of the folder for its captures, made if need be",
	  parse_dir },
	{ "every_ms", "integer", "milliseconds from one capture to the next", parse_every },
	{ "full_every", "integer", "every so many captures a full one, deltas between (default: 1)",
	  parse_full_every },
	{ "jitter", "integer", "percent of every_ms that one may be late by chance (default: 0)",
	  parse_jitter },
	{ "keep", "integer", "most captures in the folder (default: 1000)", parse_keep_count },
	{ "max_bytes", "integer", "most bytes of captures in the folder (default: no limit)",
	  parse_max_bytes },
	{ "max_stopped_ppm", "integer",
	  "millionths of the time that captures may stop the guest (default: 10000)",
	  parse_max_stopped },
};

static bool parse_schedule_id(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	return parse_integer(value, r, "id", 1, INT64_MAX, &r->schedule_id, f);
}

static bool check_schedule_remove(const struct ctl_request *r, struct ctl_fault *f)
{
	return r->schedule_id ? true
			      : fault(f, CTL_CLASS_ARGUMENT, "schedule-remove: \"id\" is missing");
}

static const struct arg schedule_remove_args[] = {
	{ "id", "integer", "of the schedule, as schedule-add and schedules say it",
	  parse_schedule_id },
};

/* The session is left out where one's own is meant. */
#define TRACE_SESSION                                                                              \
	{                                                                                          \
		"session", "integer", "a persistent session (default: the connection's own)", NULL \
	}

static const struct arg trace_provider_args[] = {
	{ "provider", "string", "its name", NULL },
};

static const struct arg trace_probes_args[] = {
	{ "from", "integer", "the least id (default: 0, from the start)", NULL },
};

static const struct arg trace_match_args[] = {
	{ "from", "integer", "the least id (default: 0, from the start)", NULL },
	{ "probe", "string", "provider:module:function:name, globs, parts from the right", NULL },
};

static const struct arg trace_arg_args[] = {
	{ "id", "integer", "of the probe", NULL },
	{ "n", "integer", "of the argument, from 0", NULL },
};

static const struct arg trace_enable_args[] = {
	{ "aggregation_bytes", "integer", "of each vCPU's aggregations (default: 262144)", NULL },
	{ "buffer_bytes", "integer", "of each vCPU's buffer (default: 65536)", NULL },
	{ "persistent", "boolean", "the session outlives its connection (default: false)", NULL },
	{ "policy", "string", "of buffers: \"switch\" (default), \"ring\" or \"fill\"", NULL },
	{ "program", "string or object", "what to enable (none: match again what is enabled)",
	  NULL },
	{ "stackshots", "string", "absolute path of the folder for captures of stackshot()", NULL },
	TRACE_SESSION,
};

static const struct arg trace_eprobe_args[] = {
	{ "epid", "integer", "of the enabled probe, from 1", NULL },
	{ "room", "integer", "most records to describe (default: 64)", NULL },
	TRACE_SESSION,
};

static const struct arg trace_replicate_args[] = {
	{ "create", "string", "the probes to apply these clauses to", NULL },
	{ "match", "string", "a pattern as clauses of the session have it", NULL },
	TRACE_SESSION,
};

static const struct arg trace_enablings_args[] = {
	{ "length", "integer", "most bytes of the text", NULL },
	TRACE_SESSION,
};

static const struct arg trace_format_args[] = {
	{ "length", "integer", "most bytes of the text", NULL },
	{ "number", "integer", "of the label, from 1", NULL },
	TRACE_SESSION,
};

static const struct arg trace_session_args[] = {
	TRACE_SESSION,
};

static const struct arg trace_snap_args[] = {
	TRACE_SESSION,
	{ "vcpu", "integer", "whose", NULL },
};

static const struct arg trace_agg_args[] = {
	{ "aggregation", "integer", "its id, from 1", NULL },
	{ "room", "integer", "most records to describe (default: 64)", NULL },
	TRACE_SESSION,
};

static const struct command commands[] = {
	[CTL_CMD_STATUS] = { "status", "state of the guest, captures and clients", NULL, 0, NULL },
	[CTL_CMD_SNAP] = { "snap", "stop the guest, record every thread, let it go on", snap_args,
			   ARRAY_SIZE(snap_args), check_snap },
	[CTL_CMD_SAVED_DROP] = { "saved-drop", "give up the saved capture", saved_drop_args,
				 ARRAY_SIZE(saved_drop_args), check_saved_drop },
	[CTL_CMD_DUMP] = { "dump", "stop the guest, write its memory to a file, let it go on",
			   dump_args, ARRAY_SIZE(dump_args), check_dump },
	[CTL_CMD_SAMPLE] = { "sample", "record what vCPUs execute, some times a second",
			     sample_args, ARRAY_SIZE(sample_args), check_sample },
	[CTL_CMD_BTLOGS] = { "btlogs", "the logs of backtraces, their counters, and sampling's",
			     NULL, 0, NULL },
	[CTL_CMD_BTLOG] = { "btlog", "enable, disable or empty logs of backtraces", btlog_args,
			    ARRAY_SIZE(btlog_args), check_btlog },
	[CTL_CMD_BTLOG_SAVE] = { "btlog-save", "logs of backtraces as kcdata", btlog_save_args,
				 ARRAY_SIZE(btlog_save_args), check_target },
	[CTL_CMD_SCHEDULES] = { "schedules", "captures that take themselves, and how they do", NULL,
				0, NULL },
	[CTL_CMD_SCHEDULE_ADD] = { "schedule-add", "have captures taken at intervals",
				   schedule_add_args, ARRAY_SIZE(schedule_add_args),
				   check_schedule_add },
	[CTL_CMD_SCHEDULE_REMOVE] = { "schedule-remove", "end a schedule; its captures stay",
				      schedule_remove_args, ARRAY_SIZE(schedule_remove_args),
				      check_schedule_remove },
	[CTL_CMD_TRACE_CONF] = { "trace-conf", "what can be traced, and limits", NULL, 0, NULL },
	[CTL_CMD_TRACE_PROVIDER] = { "trace-provider", "a provider of probes", trace_provider_args,
				     ARRAY_SIZE(trace_provider_args), NULL },
	[CTL_CMD_TRACE_PROBES] = { "trace-probes", "all probes, by id", trace_probes_args,
				   ARRAY_SIZE(trace_probes_args), NULL },
	[CTL_CMD_TRACE_PROBE_MATCH] = { "trace-probe-match", "probes that a pattern means, by id",
					trace_match_args, ARRAY_SIZE(trace_match_args), NULL },
	[CTL_CMD_TRACE_PROBE_ARG] = { "trace-probe-arg", "the type of a probe's argument",
				      trace_arg_args, ARRAY_SIZE(trace_arg_args), NULL },
	[CTL_CMD_TRACE_ENABLE] = { "trace-enable", "enable a program, before it goes",
				   trace_enable_args, ARRAY_SIZE(trace_enable_args), NULL },
	[CTL_CMD_TRACE_EPROBE] = { "trace-eprobe", "an enabled probe and what it records",
				   trace_eprobe_args, ARRAY_SIZE(trace_eprobe_args), NULL },
	[CTL_CMD_TRACE_REPLICATE] = { "trace-replicate", "apply clauses to further probes",
				      trace_replicate_args, ARRAY_SIZE(trace_replicate_args),
				      NULL },
	[CTL_CMD_TRACE_ENABLINGS] = { "trace-enablings", "what is enabled, as a program",
				      trace_enablings_args, ARRAY_SIZE(trace_enablings_args),
				      NULL },
	[CTL_CMD_TRACE_FORMAT] = { "trace-format", "the label of a trace()", trace_format_args,
				   ARRAY_SIZE(trace_format_args), NULL },
	[CTL_CMD_TRACE_GO] = { "trace-go", "start recording", trace_session_args,
			       ARRAY_SIZE(trace_session_args), NULL },
	[CTL_CMD_TRACE_STOP] = { "trace-stop", "end recording", trace_session_args,
				 ARRAY_SIZE(trace_session_args), NULL },
	[CTL_CMD_TRACE_BUF_SNAP] = { "trace-buf-snap", "records of a vCPU that nobody has had yet",
				     trace_snap_args, ARRAY_SIZE(trace_snap_args), NULL },
	[CTL_CMD_TRACE_AGG_DESC] = { "trace-agg-desc", "an aggregation: its keys and its value",
				     trace_agg_args, ARRAY_SIZE(trace_agg_args), NULL },
	[CTL_CMD_TRACE_AGG_SNAP] = { "trace-agg-snap", "what a vCPU has aggregated since the last",
				     trace_snap_args, ARRAY_SIZE(trace_snap_args), NULL },
	[CTL_CMD_TRACE_STATUS] = { "trace-status", "state and counters of a session",
				   trace_session_args, ARRAY_SIZE(trace_session_args), NULL },
	[CTL_CMD_TRACE_CLOSE] = { "trace-close", "end a session, and all that it has",
				  trace_session_args, ARRAY_SIZE(trace_session_args), NULL },
	[CTL_CMD_STOP] = { "stop", "stop the guest until this connection says cont or ends; nests",
			   NULL, 0, NULL },
	[CTL_CMD_CONT] = { "cont", "undo one stop of this connection", NULL, 0, NULL },
	[CTL_CMD_QUIT] = { "quit", "end the guest", NULL, 0, NULL },
	[CTL_CMD_HELP] = { "help", "this list", NULL, 0, NULL },
};

const char *ctl_command_name(enum ctl_command command)
{
	return commands[command].name;
}

/* Brackets outside of strings; text that is not JSON is left to the parser to refuse. */
static bool depth_ok(const char *text, size_t len)
{
	unsigned int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > CTL_DEPTH_MAX)
				return false;
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		}
	}
	return true;
}

json_t *ctl_json_parse(const char *text, size_t len, struct ctl_fault *fault_out)
{
	json_error_t e;

	if (!depth_ok(text, len)) {
		fault(fault_out, CTL_CLASS_JSON, "nested deeper than %u", CTL_DEPTH_MAX);
		return NULL;
	}
	json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	if (!value)
		fault(fault_out, CTL_CLASS_JSON, "byte %d: %s", e.position, e.text);
	return value;
}

static bool find_command(const char *name, enum ctl_command *command_out)
{
	/* QMP's word for a list of commands is taken as well */
	if (!strcmp(name, "commands")) {
		*command_out = CTL_CMD_HELP;
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(name, commands[i].name)) {
			*command_out = (enum ctl_command)i;
			return true;
		}
	}
	return false;
}

static const struct arg *find_arg(const struct command *c, const char *name)
{
	for (size_t i = 0; i < c->arg_count; i++) {
		if (!strcmp(name, c->args[i].name))
			return &c->args[i];
	}
	return NULL;
}

/* An argument of an operation of tracing: of its type, and kept. */
static bool keep_argument(const struct arg *a, json_t *value, struct ctl_request *r,
			  struct ctl_fault *f)
{
	const char *command = ctl_command_name(r->command);
	uint64_t n = 0;

	if (!strcmp(a->type, "integer") &&
	    !parse_integer(value, r, a->name, 0, UINT32_MAX - 1, &n, f))
		return false;
	if ((!strcmp(a->type, "string") && !json_is_string(value)) ||
	    (!strcmp(a->type, "boolean") && !json_is_boolean(value)) ||
	    (!strcmp(a->type, "string or object") && !json_is_string(value) &&
	     !json_is_object(value)))
		return fault(f, CTL_CLASS_ARGUMENT, "%s: \"%s\" is a %s, not %s", command, a->name,
			     a->type, type_name(value));
	if (!r->trace)
		r->trace = json_object();
	if (json_object_set(r->trace, a->name, value))
		return fault(f, gs_code_name(GS_ENOSPC), "out of memory");
	return true;
}

static bool parse_arguments(json_t *arguments, struct ctl_request *r, struct ctl_fault *f)
{
	const struct command *c = &commands[r->command];
	const char *name;
	json_t *value;

	json_object_foreach(arguments, name, value)
	{
		const struct arg *a = find_arg(c, name);

		if (!a)
			return fault(f, CTL_CLASS_ARGUMENT, "%s: unknown argument \"%.64s\"",
				     c->name, name);
		if (!(a->parse ? a->parse(value, r, f) : keep_argument(a, value, r, f)))
			return false;
	}
	return !c->check || c->check(r, f);
}

static bool parse_members(json_t *root, struct ctl_request *r, struct ctl_fault *f)
{
	json_t *execute = NULL, *arguments = NULL, *value;
	const char *name;

	if (!json_is_object(root))
		return fault(f, CTL_CLASS_REQUEST, "a request is an object, not %s",
			     type_name(root));
	r->id = json_incref(json_object_get(root, "id")); /* first, for the errors below */
	json_object_foreach(root, name, value)
	{
		if (!strcmp(name, "execute"))
			execute = value;
		else if (!strcmp(name, "arguments"))
			arguments = value;
		else if (strcmp(name, "id") != 0)
			return fault(f, CTL_CLASS_REQUEST, "unknown member \"%.64s\"", name);
	}
	if (!execute)
		return fault(f, CTL_CLASS_REQUEST, "\"execute\" is missing");
	if (!json_is_string(execute))
		return fault(f, CTL_CLASS_REQUEST, "\"execute\" is a string, not %s",
			     type_name(execute));
	if (arguments && !json_is_object(arguments))
		return fault(f, CTL_CLASS_REQUEST, "\"arguments\" is an object, not %s",
			     type_name(arguments));
	if (!find_command(json_string_value(execute), &r->command))
		return fault(f, CTL_CLASS_COMMAND, "unknown command \"%.64s\" (try \"help\")",
			     json_string_value(execute));
	return parse_arguments(arguments, r, f);
}

bool ctl_request_parse(const char *line, size_t len, struct ctl_request *request_out,
		       struct ctl_fault *fault_out)
{
	*request_out = (struct ctl_request){
		.ask.pid = SS_PID_ALL,
		.to = CTL_TO_FD,
		.schedule.max_stopped = CTL_SCHEDULE_STOPPED_DEFAULT,
	};

	json_t *root = ctl_json_parse(line, len, fault_out);
	if (!root)
		return false;
	bool ok = parse_members(root, request_out, fault_out);
	json_decref(root);
	return ok;
}

void ctl_request_deinit(struct ctl_request *request)
{
	json_decref(request->id);
	free(request->path);
	request->id = NULL;
	request->path = NULL;
	free(request->log);
	request->log = NULL;
	json_decref(request->trace);
	request->trace = NULL;
}

bool ctl_line_is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!memchr(" \t\r\n", line[i], 4))
			return false;
	}
	return true;
}

json_t *ctl_json_text(const char *text)
{
	json_t *s = json_string(text);

	if (s)
		return s;
	char shown[2 * GS_ERROR_TEXT_MAX];
	gs_escape_terminal(text, strlen(text), shown, sizeof(shown));
	return json_string(shown);
}

json_t *ctl_json_number(uint64_t value)
{
	return json_integer((json_int_t)gs_min(value, INT64_MAX));
}

json_t *ctl_help(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		const struct command *c = &commands[i];
		json_t *args = json_array();

		for (size_t j = 0; j < c->arg_count; j++)
			json_array_append_new(
				args, json_pack("{s:s, s:s, s:s}", "name", c->args[j].name, "type",
						c->args[j].type, "help", c->args[j].help));
		/* a NULL anywhere makes the append fail, and json_pack refuses a NULL list */
		if (json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", c->name,
							  "help", c->help, "arguments", args))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "commands", list);
}

/* One line of @p root (taken), as ASCII: it may be read on a terminal. */
static char *line_of(json_t *root, size_t *len_out)
{
	if (!root)
		return NULL;
	char *text = json_dumps(root, JSON_ENSURE_ASCII);
	json_decref(root);
	if (!text)
		return NULL;
	size_t len = strlen(text);
	char *line = realloc(text, len + 2);
	if (!line) {
		free(text);
		return NULL;
	}
	memcpy(line + len, "\n", 2);
	*len_out = len + 1;
	return line;
}

static json_t *version_object(void)
{
	unsigned int major = 0, minor = 0, micro = 0;

	(void)sscanf(GUESTSHOT_VERSION, "%u.%u.%u", &major, &minor, &micro);
	return json_pack("{s:s, s:i, s:i, s:i}", "string", GUESTSHOT_VERSION, "major", (int)major,
			 "minor", (int)minor, "micro", (int)micro);
}

char *ctl_line_greeting(size_t *len_out)
{
	return line_of(json_pack("{s:{s:o, s:i, s:[s, s, s, s, s, s, s, s]}}", "guestshot",
				 "version", version_object(), "protocol", CTL_PROTOCOL_VERSION,
				 "capabilities", "snap-fd", "snap-file", "snap-flags", "snap-saved",
				 "dump", "btlog", "schedules", "trace"),
		       len_out);
}

/* Adds the id that the request had; a line without it could not be matched, so NULL on failure. */
static json_t *with_id(json_t *root, const json_t *id)
{
	if (root && id && json_object_set_new(root, "id", json_deep_copy(id))) {
		json_decref(root);
		return NULL;
	}
	return root;
}

char *ctl_line_return(const json_t *id, json_t *body, size_t *len_out)
{
	return body ? line_of(with_id(json_pack("{s:o}", "return", body), id), len_out) : NULL;
}

char *ctl_line_error(const json_t *id, const struct ctl_fault *f, size_t *len_out)
{
	json_t *desc = ctl_json_text(f->desc);

	if (!desc)
		return NULL;
	return line_of(
		with_id(json_pack("{s:{s:s, s:o}}", "error", "class", f->class, "desc", desc), id),
		len_out);
}

char *ctl_line_event(const char *name, uint64_t wall_us, json_t *data, size_t *len_out)
{
	if (!data)
		return NULL;
	return line_of(json_pack("{s:s, s:{s:I, s:I}, s:o}", "event", name, "timestamp", "seconds",
				 (json_int_t)(wall_us / 1000000), "microseconds",
				 (json_int_t)(wall_us % 1000000), "data", data),
		       len_out);
}
