/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot snap: take a capture, over a control socket or of a guest by itself, into a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/report/capture_file.h"
#include "cli/snap.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

static enum gs_code write_bytes(const struct cli_snap_options *o, const void *data, size_t size,
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
static enum gs_code write_output(const struct cli_snap_options *o, const void *data, size_t *size,
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
	uint64_t same_threads; /* of a delta: those that have not changed */
	bool complete;
	bool is_dump; /* nothing was stopped */
};

static void print_summary(const struct cli_snap_options *o, const struct outcome *r, size_t size)
{
	char bytes[CLI_TEXT_MAX], stopped[CLI_TEXT_MAX], same[2 * CLI_TEXT_MAX] = "";

	if (o->since)
		snprintf(same, sizeof(same), " have changed, %" PRIu64 " have not",
			 r->same_threads);
	fprintf(stderr, "guestshot: %" PRIu64 " tasks, %" PRIu64 " threads%s, %s %s%s; %s %s%s\n",
		r->tasks, r->threads, same, cli_format_size(size, bytes),
		o->output ? "to " : "saved",
		!o->output		 ? ""
		: strcmp(o->output, "-") ? o->output
					 : "standard output",
		r->is_dump ? "read in" : "guest stopped",
		cli_format_duration(r->stopped_ns, stopped),
		r->complete ? "" : "; incomplete: guestshot show says what is missing");
	if (!o->output)
		fprintf(stderr,
			"guestshot: guestshot snap --control %s --retrieve -o FILE gets it\n",
			o->remote.control);
}

static int exit_of(const struct outcome *r)
{
	return r->complete ? CLI_EXIT_OK : CLI_EXIT_INCOMPLETE;
}

/* There is a capture: write it, say so. */
static int deliver(const struct cli_snap_options *o, const struct outcome *r, const void *data,
		   size_t size)
{
	struct gs_error err = { 0 };

	if (write_output(o, data, &size, &err))
		return cli_output_error(&err);
	if (!o->quiet)
		print_summary(o, r, size);
	return exit_of(r);
}

/* --- a guest behind a control socket ------------------------------------------------------------ */

/* When the guest of an earlier capture had stopped. */
static enum gs_code read_start(const char *path, uint64_t *start_ns_out, struct gs_error *err)
{
	GS_FREE uint8_t *data = NULL;
	size_t size;
	struct kcd_reader reader;
	struct kcd_item it;
	uint64_t start_ns = 0;
	enum gs_code rc = rep_stream_read(path, &data, &size, err);

	if (rc)
		return rc;
	if (!kcd_reader_init(&reader, data, size, KCD_TOLERANT, NULL) &&
	    (reader.magic == KCD_MAGIC_STACKSHOT || reader.magic == KCD_MAGIC_DELTA_STACKSHOT))
		while (!start_ns && !kcd_reader_next(&reader, &it))
			if (it.type == KCD_TYPE_MACH_ABSOLUTE_TIME && it.depth == 0)
				(void)kcd_item_copy(&it, &start_ns, sizeof(start_ns));
	if (!start_ns || start_ns > INT64_MAX)
		return gs_fail(err, GS_EMALFORMED, "%s: no capture, or it does not say its time",
			       path);
	*start_ns_out = start_ns;
	return GS_OK;
}

/* Members that are asked for; those that are not given are 0. */
static bool set_number(json_t *arguments, const char *name, uint64_t n)
{
	return !n || !json_object_set_new(arguments, name, json_integer((json_int_t)n));
}

static json_t *flag_names(uint64_t flags)
{
	json_t *names = json_array();

	for (uint32_t bit = 0; bit < 64; bit++) {
		const uint64_t flag = flags & UINT64_C(1) << bit;

		if (flag && json_array_append_new(names, json_string(ss_request_flag_name(flag)))) {
			json_decref(names);
			return NULL;
		}
	}
	return names;
}

/* @return NULL: out of memory */
static json_t *make_arguments(const struct cli_snap_options *o, uint64_t since_ns)
{
	const struct ss_request *q = &o->ask;
	json_t *a = json_object();
	bool ok = a;

	if (q->flags)
		ok = !json_object_set_new(a, "flags", flag_names(q->flags));
	ok = ok && set_number(a, "deadline_ms", o->deadline_ns / GS_NS_PER_MS) &&
	     set_number(a, "since_ns", since_ns) && set_number(a, "threads_max", q->threads_max) &&
	     set_number(a, "pagetable_mask", q->pagetable_mask);
	if (ok && q->pid != SS_PID_ALL)
		ok = !json_object_set_new(a, "pid", json_integer(q->pid));
	/* not dropped before it is written: a disk that is full loses nothing */
	if (ok && q->flags & KCD_SS_RETRIEVE_EXISTING_BUFFER)
		ok = !json_object_set_new(a, "keep", json_true());
	if (ok)
		return a;
	json_decref(a); /* may be NULL, as all that is set may be */
	return NULL;
}

static struct outcome outcome_of(const json_t *answer)
{
	return (struct outcome){
		.tasks = cli_answer_number(answer, "tasks"),
		.threads = cli_answer_number(answer, "threads"),
		.same_threads = cli_answer_number(answer, "same_threads"),
		.stopped_ns = cli_answer_number(answer, "stopped_ns"),
		.complete = json_is_true(json_object_get(answer, "complete")),
	};
}

static int save_remote(const struct cli_snap_options *o, json_t *arguments)
{
	json_t *answer;
	int code = cli_remote_call(&o->remote, "snap", arguments, &answer, NULL);

	if (code)
		return code;
	const struct outcome r = outcome_of(answer);
	if (!o->quiet)
		print_summary(o, &r, cli_answer_number(answer, "bytes"));
	json_decref(answer);
	return exit_of(&r);
}

/* A capture that was saved is written now. If this fails, it is there twice, which is said. */
static void drop_saved(const struct cli_snap_options *o, uint64_t saved_id)
{
	json_t *answer, *arguments = json_pack("{s:I}", "saved_id", (json_int_t)saved_id);

	if (!cli_remote_call(&o->remote, "saved-drop", arguments, &answer, NULL))
		json_decref(answer);
	else
		gs_log(GS_LOG_WARNING, "the capture is written, but may be saved there still");
}

static int fetch_remote(const struct cli_snap_options *o, json_t *arguments)
{
	json_t *answer;
	const void *data;
	size_t size;
	int code = cli_remote_fetch(&o->remote, "snap", arguments, &answer, &data, &size);

	if (code)
		return code;
	const struct outcome r = outcome_of(answer);
	const uint64_t saved_id = cli_answer_number(answer, "saved_id");
	json_decref(answer);
	code = deliver(o, &r, data, size);
	munmap((void *)data, size);
	if (saved_id && code == exit_of(&r))
		drop_saved(o, saved_id);
	return code;
}

static int snap_remote(const struct cli_snap_options *o)
{
	struct gs_error err = { 0 };
	uint64_t since_ns = 0;

	if (o->since && read_start(o->since, &since_ns, &err))
		return cli_error(&err);
	json_t *arguments = make_arguments(o, since_ns);
	if (!arguments) {
		gs_log(GS_LOG_ERROR, "out of memory");
		return CLI_EXIT_SYSTEM;
	}
	return o->output ? fetch_remote(o, arguments) : save_remote(o, arguments);
}

/* --- any other guest ----------------------------------------------------------------------------- */

static int snap_source(const struct cli_snap_options *o)
{
	struct cli_source source = { 0 };
	struct ss_result result = { 0 };
	struct gs_error err = { 0 };
	enum gs_code rc = cli_source_capture(&o->source, &o->remote, &o->ask, o->deadline_ns,
					     &source, &result, &err);

	if (!rc && !o->quiet && source.no_kernel)
		gs_log(GS_LOG_ERROR, "no kernel is found: %s", source.no_kernel);
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
	struct cli_snap_options o;
	int code;

	if (!cli_snap_options_parse(argc, argv, &o, &code))
		return code;
	if (o.verbosity)
		gs_log_set_level(o.verbosity > 1 ? GS_LOG_DEBUG : GS_LOG_INFO);
	return o.remote.control ? snap_remote(&o) : snap_source(&o);
}
