/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot snap: take a capture over the control socket and write it to a file. */
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
#include "control/client.h"
#include "kcdata/compress.h"

struct snap_options {
	struct cli_remote remote;
	const char *output;
	int64_t pid; /* -1: all */
	struct kcd_compression how;
	bool quiet;
};

enum { KEY_PID = 0x100, KEY_COMPRESS };

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write the capture to FILE; - is standard output", 1 },
	{ "pid", KEY_PID, "PID", 0, "Only the guest's process PID", 1 },
	{ "compress", KEY_COMPRESS, "HOW", 0,
	  "none (default: any kcdata reader opens it), zlib, zstd or zstd:LEVEL", 1 },
	{ "quiet", 'q', NULL, 0, "No summary on standard error", 1 },
	CLI_REMOTE_OPTIONS,
	{ 0 },
};

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct snap_options *o = state->input;
	uint64_t number;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case 'q': o->quiet = true; return 0;
	case KEY_PID:
		if (!cli_parse_number(arg, 0, INT32_MAX, &number)) {
			argp_error(state, "--pid %s: not a process id", arg);
			return EINVAL;
		}
		o->pid = (int64_t)number;
		return 0;
	case KEY_COMPRESS:
		if (!kcd_compression_parse(arg, &o->how)) {
			argp_error(state, "--compress %s: neither none nor zlib nor zstd:LEVEL",
				   arg);
			return EINVAL;
		}
		return 0;
	case ARGP_KEY_ARG: argp_error(state, "unexpected argument: %s", arg); return EINVAL;
	case ARGP_KEY_END:
		if (!o->output) {
			argp_error(state, "where to? -o FILE is missing");
			return EINVAL;
		}
		if (!strcmp(o->output, "-") && isatty(STDOUT_FILENO)) {
			argp_error(state, "a capture is binary: not written to a terminal");
			return EINVAL;
		}
		return cli_remote_end(&o->remote, state);
	default: return cli_remote_key(&o->remote, key, arg, state);
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.doc = "Stop the guest behind a control socket for some milliseconds, record what every "
	       "thread is doing, and write that to a file.",
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

static uint64_t number_of(const json_t *answer, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(answer, name));

	return n > 0 ? (uint64_t)n : 0;
}

static void print_summary(const struct snap_options *o, const json_t *answer, size_t size,
			  bool complete)
{
	char bytes[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX];

	fprintf(stderr,
		"guestshot: %" PRIu64 " tasks, %" PRIu64 " threads, %s to %s; guest stopped %s%s\n",
		number_of(answer, "tasks"), number_of(answer, "threads"),
		cli_format_size(size, bytes),
		strcmp(o->output, "-") ? o->output : "standard output",
		cli_format_duration(number_of(answer, "stopped_ns"), stopped),
		complete ? "" : "; incomplete: guestshot show says what is missing");
}

/* The answer and its descriptor are here: map, write, say so. */
static int deliver(const struct snap_options *o, const json_t *answer, int fd)
{
	struct gs_error err = { 0 };
	const void *data;
	size_t size;
	bool complete = json_is_true(json_object_get(answer, "complete"));

	if (ctl_capture_map(fd, &data, &size, &err)) {
		(void)cli_error(&err);
		return CLI_EXIT_PROTOCOL;
	}
	size_t mapped = size;
	enum gs_code rc = write_output(o, data, &size, &err);
	munmap((void *)data, mapped);
	if (rc) {
		int code = cli_error(&err);
		return code == CLI_EXIT_DENIED ? code : CLI_EXIT_OUTPUT;
	}
	if (!o->quiet)
		print_summary(o, answer, size, complete);
	return complete ? CLI_EXIT_OK : CLI_EXIT_INCOMPLETE;
}

int cli_cmd_snap(int argc, char **argv)
{
	struct snap_options o = { .remote = CLI_REMOTE_DEFAULT, .pid = -1 };
	json_t *answer, *arguments;
	GS_CLOSE int fd = -1;
	int code;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	arguments = json_pack("{s:s}", "to", "fd");
	if (o.pid >= 0)
		(void)json_object_set_new(arguments, "pid", json_integer(o.pid));
	code = cli_remote_call(&o.remote, "snap", arguments, &answer, &fd);
	if (code)
		return code;
	if (fd < 0) {
		gs_log(GS_LOG_ERROR, "snap: the server passed no capture");
		code = CLI_EXIT_PROTOCOL;
	} else {
		code = deliver(&o, answer, fd);
	}
	json_decref(answer);
	return code;
}
