/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot snap: take a capture, over a control socket or of a guest by itself, into a file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/source.h"
#include "control/client.h"
#include "control/protocol.h"
#include "introspect/stackshot/stackshot.h"
#include "kcdata/compress.h"

struct snap_options {
	struct cli_remote remote;	  /* a guest behind a control socket … */
	struct cli_source_options source; /* … or another one */
	const char *output;
	int64_t pid;	      /* -1: all */
	uint64_t deadline_ns; /* most that the guest is stopped; 0: no limit */
	struct kcd_compression how;
	bool quiet;
	int verbosity;
};

enum { KEY_PID = 0x100, KEY_COMPRESS, KEY_DEADLINE };

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write the capture to FILE; - is standard output", 1 },
	{ "pid", KEY_PID, "PID", 0, "Only the guest's process PID", 1 },
	{ "compress", KEY_COMPRESS, "HOW", 0,
	  "none (default: any kcdata reader opens it), zlib, zstd or zstd:LEVEL", 1 },
	{ "deadline", KEY_DEADLINE, "DURATION", 0,
	  "Let the guest go on after so long, with what there is by then", 1 },
	{ "quiet", 'q', NULL, 0, "No summary on standard error", 1 },
	{ "verbose", 'v', NULL, 0, "Say how the guest's kernel was found, and what took how long",
	  1 },
	CLI_SOURCE_OPTIONS,
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_end(const struct snap_options *o, struct argp_state *state)
{
	if (!o->output)
		argp_error(state, "where to? -o FILE is missing");
	else if (!strcmp(o->output, "-") && isatty(STDOUT_FILENO))
		argp_error(state, "a capture is binary: not written to a terminal");
	else
		return cli_any_guest_end(&o->source, &o->remote, state);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct snap_options *o = state->input;
	uint64_t number;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case 'q': o->quiet = true; return 0;
	case 'v': o->verbosity++; return 0;
	case KEY_PID:
		if (!cli_parse_number(arg, 0, INT32_MAX, &number)) {
			argp_error(state, "--pid %s: not a process id", arg);
			return EINVAL;
		}
		o->pid = (int64_t)number;
		return 0;
	case KEY_DEADLINE:
		if (cli_parse_duration(arg, &o->deadline_ns) && o->deadline_ns >= GS_NS_PER_MS &&
		    o->deadline_ns <= CTL_DEADLINE_MS_MAX * GS_NS_PER_MS)
			return 0;
		argp_error(state, "--deadline %s: not a duration in 1ms … 1h, such as 200ms", arg);
		return EINVAL;
	case KEY_COMPRESS:
		if (!kcd_compression_parse(arg, &o->how)) {
			argp_error(state, "--compress %s: neither none nor zlib nor zstd:LEVEL",
				   arg);
			return EINVAL;
		}
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END: return parse_end(o, state);
	default: return cli_any_guest_key(&o->source, &o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Stop a guest for some milliseconds, record what every thread is doing, and write "
	       "that to a file. The guest is one behind a control socket, one of libvirt or QEMU, "
	       "or a memory dump.",
	.children = cli_argp_children,
};

static enum gs_code write_bytes(const struct snap_options *o, const void *data, size_t size,
				struct gs_error *err)
{
	if (strcmp(o->output, "-") != 0)
		return gs_file_write_atomic(o->output, data, size, 0600, err);
	enum gs_code rc = gs_file_write_all(STDOUT_FILENO, data, size, err);
	return rc ? gs_wrap(err, rc, "standard output") : GS_OK;
}

/* "--timeout 0": longer than anybody waits, but a time that can be added to. */
#define ANSWER_NEVER_NS (UINT64_C(365) * 24 * 3600 * GS_NS_PER_SEC)

/* What a stream that does not compress may grow by: blocks of their own, flushes, the wrapper. */
#define COMPRESS_SLACK (UINT64_C(64) << 10)

/* The capture is finished: the guest runs while it is compressed. @p size becomes that of the file */
static enum gs_code write_output(const struct snap_options *o, const void *data, size_t *size,
				 struct gs_error *err)
{
	if (o->how.algorithm == KCD_COMPRESS_NONE)
		return write_bytes(o, data, *size, err);

	size_t room = *size + *size / 16 + COMPRESS_SLACK;
	GS_FREE uint8_t *bytes = malloc(room);
	struct kcd_buffer buffer = { bytes, room, 0 };
	struct kcd_output to = kcd_buffer_output(&buffer);
	struct kcd_error why = { 0 };

	if (!bytes)
		return gs_fail(err, GS_ENOSPC, "out of memory for the compressed capture");
	if (kcd_compress_stream(data, *size, &o->how, 0, &to, NULL, &why))
		return gs_fail(err, GS_ESYS, "compressing the capture: %s", why.reason);
	*size = buffer.used;
	return write_bytes(o, bytes, buffer.used, err);
}

/* What the summary needs, from the socket's answer or from a capture of our own. */
struct outcome {
	uint64_t tasks, threads, stopped_ns;
	bool complete;
	bool is_dump; /* nothing was stopped */
};

static void print_summary(const struct snap_options *o, const struct outcome *r, size_t size)
{
	char bytes[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX];

	fprintf(stderr, "guestshot: %" PRIu64 " tasks, %" PRIu64 " threads, %s to %s; %s %s%s\n",
		r->tasks, r->threads, cli_format_size(size, bytes),
		strcmp(o->output, "-") ? o->output : "standard output",
		r->is_dump ? "read in" : "guest stopped",
		cli_format_duration(r->stopped_ns, stopped),
		r->complete ? "" : "; incomplete: guestshot show says what is missing");
}

/* There is a capture: write it, say so. */
static int deliver(const struct snap_options *o, const struct outcome *r, const void *data,
		   size_t size)
{
	struct gs_error err = { 0 };

	if (write_output(o, data, &size, &err))
		return cli_output_error(&err);
	if (!o->quiet)
		print_summary(o, r, size);
	return r->complete ? CLI_EXIT_OK : CLI_EXIT_INCOMPLETE;
}

/* --- a guest behind a control socket ------------------------------------------------------------ */

static int snap_remote(const struct snap_options *o)
{
	json_t *answer, *arguments = json_pack("{s:s}", "to", "fd");
	const void *data;
	size_t size;

	if (o->pid >= 0)
		(void)json_object_set_new(arguments, "pid", json_integer(o->pid));
	if (o->deadline_ns)
		(void)json_object_set_new(
			arguments, "deadline_ms",
			json_integer((json_int_t)(o->deadline_ns / GS_NS_PER_MS)));
	int code = cli_remote_fetch(&o->remote, "snap", arguments, &answer, &data, &size);
	if (code)
		return code;
	const struct outcome r = {
		.tasks = cli_answer_number(answer, "tasks"),
		.threads = cli_answer_number(answer, "threads"),
		.stopped_ns = cli_answer_number(answer, "stopped_ns"),
		.complete = json_is_true(json_object_get(answer, "complete")),
	};
	json_decref(answer);
	code = deliver(o, &r, data, size);
	munmap((void *)data, size);
	return code;
}

/* --- any other guest ----------------------------------------------------------------------------- */

static enum gs_code capture_source(const struct snap_options *o, const struct cli_source *source,
				   struct ss_result *result_out, struct gs_error *err)
{
	struct ss_request request = {
		.version = SS_REQUEST_VERSION,
		.size = sizeof(request),
		.pid = o->pid >= 0 ? (int32_t)o->pid : SS_PID_ALL,
	};
	struct ss_session *session;
	enum gs_code rc = ss_session_create(source->guest.guest, &session, err);

	if (rc)
		return rc;
	ss_session_hint(session, &source->hints);
	if (o->deadline_ns) {
		rc = ss_session_prepare(session, err);
		request.deadline_ns = gs_clock_ns() + o->deadline_ns;
	}
	if (!rc)
		rc = ss_capture(session, &request, result_out, err);
	if (!rc)
		cli_kernel_say(ss_session_kernel(session));
	ss_session_destroy(session);
	return rc;
}

static int snap_source(const struct snap_options *o)
{
	struct cli_source source = { 0 };
	struct ss_result result = { 0 };
	struct gs_error err = { 0 };
	uint64_t answer_ns = o->remote.timeout_ns ? o->remote.timeout_ns : ANSWER_NEVER_NS;
	enum gs_code rc = cli_source_open(&o->source, answer_ns, o->remote.wait_ns, &source, &err);

	if (!rc)
		rc = capture_source(o, &source, &result, &err);
	if (!rc && !o->quiet)
		cli_source_say(&source.guest, "");
	cli_source_close(&source); /* a live guest is let go before anything is written */
	if (rc)
		return cli_error(&err);
	const struct outcome r = {
		.tasks = result.tasks,
		.threads = result.threads,
		.stopped_ns = result.stopped_ns,
		.complete = result.complete,
		.is_dump = o->source.core != NULL,
	};
	int code = deliver(o, &r, result.data, result.size);
	ss_result_deinit(&result);
	return code;
}

int cli_cmd_snap(int argc, char **argv)
{
	struct snap_options o = { .remote = CLI_REMOTE_DEFAULT, .pid = -1 };
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (o.verbosity)
		gs_log_set_level(o.verbosity > 1 ? GS_LOG_DEBUG : GS_LOG_INFO);
	return o.remote.control ? snap_remote(&o) : snap_source(&o);
}
