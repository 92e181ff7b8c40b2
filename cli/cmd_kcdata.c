/* SPDX-License-Identifier: Apache-2.0 */
/* guestshot kcdata: look into kcdata files of any origin, check them, convert them. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/util.h"
#include "cli/cli.h"
#include "introspect/btlog/records.h"
#include "introspect/stackshot/records.h"
#include "kcdata/compress.h"
#include "kcdata/json_view.h"
#include "kcdata/kcdata.h"
#include "kcdata/stat.h"
#include "kcdata/text.h"
#include "kcdata/validate.h"

#define MAX_SIZE_DEFAULT KCD_INFLATE_MAX
#define READ_PIECE	 (256u << 10)

/* Error texts and JSON writers are large: not all of them in the frame of one caller. */
#define OWN_FRAME __attribute__((noinline))

enum action { DUMP, JSON, VALIDATE, STAT, CONVERT, RECORDS };

static const char *const action_names[] = {
	[DUMP] = "dump", [JSON] = "json",	[VALIDATE] = "validate",
	[STAT] = "stat", [CONVERT] = "convert", [RECORDS] = "records",
};

struct kcdata_options {
	enum action action;
	bool has_action;
	const char *input;
	const char *output; /* NULL or "-": standard output */
	struct kcd_compression how;
	uint64_t max_size;
	uint32_t json_flags;
	bool salvage;
	bool strict;
	bool tolerant;
	bool multiple;
	bool quiet;
};

/* The file as it is, and the plain stream in it. */
struct input {
	uint8_t *bytes;
	size_t size;
	uint8_t *plain; /* bytes, or what was made of it */
	size_t plain_size;
	bool compressed; /* bytes are a compressed buffer, after gzip was taken off */
	bool damaged;	 /* the plain stream ends early; said so already */
};

/* --- arguments ------------------------------------------------------------------------------- */

enum {
	KEY_SALVAGE = 0x100,
	KEY_STRICT,
	KEY_TOLERANT,
	KEY_COMPRESS,
	KEY_BYTES,
	KEY_COMPACT,
	KEY_MULTIPLE,
	KEY_MAX_SIZE,
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0, "Write to FILE at once when all is done; - is standard output",
	  1 },
	{ "salvage", KEY_SALVAGE, NULL, 0,
	  "dump, json, stat, convert: use what comes before damage", 1 },
	{ "strict", KEY_STRICT, NULL, 0, "dump, json: oddities are damage too", 1 },
	{ "tolerant", KEY_TOLERANT, NULL, 0,
	  "validate: only what Apple's library refuses is a failure", 1 },
	{ "compress", KEY_COMPRESS, "HOW", 0, "convert: none (default), zlib, zstd or zstd:LEVEL",
	  1 },
	{ "bytes", KEY_BYTES, "HOW", 0,
	  "json: bytes that are not UTF-8: replace (default), surrogate, stock", 1 },
	{ "compact", KEY_COMPACT, NULL, 0, "json: on one line", 1 },
	{ "multiple", KEY_MULTIPLE, NULL, 0, "dump, json: every buffer of the file, not the first",
	  1 },
	{ "max-size", KEY_MAX_SIZE, "SIZE", 0, "Largest input, also decompressed (default: 1G)",
	  1 },
	{ "quiet", 'q', NULL, 0, "validate: no summary; convert: no figures", 1 },
	{ 0 },
};

static error_t parse_bytes(struct kcdata_options *o, const char *arg, struct argp_state *state)
{
	o->json_flags &= ~(uint32_t)(KCD_JSON_BYTES_SURROGATE | KCD_JSON_BYTES_STOCK);
	if (!strcmp(arg, "surrogate")) {
		o->json_flags |= KCD_JSON_BYTES_SURROGATE;
	} else if (!strcmp(arg, "stock")) {
		o->json_flags |= KCD_JSON_BYTES_STOCK;
	} else if (strcmp(arg, "replace") != 0) {
		argp_error(state, "--bytes %s: neither replace nor surrogate nor stock", arg);
		return EINVAL;
	}
	return 0;
}

static error_t parse_argument(struct kcdata_options *o, char *arg, struct argp_state *state)
{
	if (o->has_action && !o->input) {
		o->input = arg;
		return 0;
	}
	for (size_t i = 0; !o->has_action && i < ARRAY_SIZE(action_names); i++) {
		if (!strcmp(arg, action_names[i])) {
			o->action = (enum action)i;
			o->has_action = true;
			return 0;
		}
	}
	argp_error(state, o->has_action ? "one file at a time: %s" : "nothing to do is called %s",
		   arg);
	return EINVAL;
}

static error_t check_options(const struct kcdata_options *o, struct argp_state *state)
{
	const char *wrong = NULL;

	if (!o->has_action)
		wrong = "what to do? dump, json, validate, stat or convert";
	else if (!o->input && o->action != RECORDS)
		wrong = "which file? - is standard input";
	else if (o->action == CONVERT && (!o->output || !strcmp(o->output, "-")) &&
		 isatty(STDOUT_FILENO))
		wrong = "kcdata is binary: not written to a terminal (-o FILE)";
	else if (o->action == VALIDATE && o->output)
		wrong = "validate writes no file";
	if (!wrong)
		return 0;
	argp_error(state, "%s", wrong);
	return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
	struct kcdata_options *o = state->input;

	switch (key) {
	case 'o': o->output = arg; return 0;
	case 'q': o->quiet = true; return 0;
	case KEY_SALVAGE: o->salvage = true; return 0;
	case KEY_STRICT: o->strict = true; return 0;
	case KEY_TOLERANT: o->tolerant = true; return 0;
	case KEY_MULTIPLE: o->multiple = true; return 0;
	case KEY_COMPACT: o->json_flags &= ~(uint32_t)KCD_JSON_PRETTY; return 0;
	case KEY_BYTES: return parse_bytes(o, arg, state);
	case KEY_COMPRESS:
		if (kcd_compression_parse(arg, &o->how))
			return 0;
		argp_error(state, "--compress %s: neither none nor zlib nor zstd nor zstd:1 ... %d",
			   arg, KCD_ZSTD_LEVEL_MAX);
		return EINVAL;
	case KEY_MAX_SIZE:
		if (cli_parse_size(arg, &o->max_size) && o->max_size > 0 &&
		    o->max_size <= UINT32_MAX)
			return 0;
		argp_error(state, "--max-size %s: not a size below 4G", arg);
		return EINVAL;
	case ARGP_KEY_ARG: return parse_argument(o, arg, state);
	case ARGP_KEY_END: return check_options(o, state);
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_key,
	.args_doc = "dump|json|validate|stat|convert FILE",
	.doc = "Look into kcdata files: captures of guestshot, stackshots, crash information. FILE "
	       "may "
	       "be plain or compressed (zlib, zstd), either also in gzip; - is standard input.\v"
	       "dump: every record as text. json: keys and values of Apple's readers. validate: "
	       "everything that is wrong. stat: records and bytes by type. convert: the same "
	       "records, "
	       "compressed or plain, byte for byte.",
	.children = cli_argp_children,
};

/* --- input ----------------------------------------------------------------------------------- */

static bool grow(uint8_t **data, size_t *room, size_t need)
{
	size_t n = *room ? *room : READ_PIECE;

	while (n < need)
		n *= 2;
	if (n == *room)
		return true;
	uint8_t *p = realloc(*data, n);
	if (!p)
		return false;
	*data = p;
	*room = n;
	return true;
}

static enum gs_code read_fd(int fd, uint64_t max, struct input *in, struct gs_error *err)
{
	size_t room = 0;

	for (;;) {
		if (!grow(&in->bytes, &room, in->size + READ_PIECE))
			return gs_fail(err, GS_ENOSPC, "out of memory");
		ssize_t n = read(fd, in->bytes + in->size, READ_PIECE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int e = errno;
			enum gs_code code = gs_code_of_errno(e);
			return gs_fail_errno(err, code == GS_EINVAL ? GS_EMALFORMED : code, e,
					     "read");
		}
		if (n == 0)
			return GS_OK;
		in->size += (size_t)n;
		if (in->size > max)
			return gs_fail(err, GS_ETOOBIG, "more than %" PRIu64 " bytes (--max-size)",
				       max);
	}
}

static enum gs_code read_input(const struct kcdata_options *o, struct input *in,
			       struct gs_error *err)
{
	if (!strcmp(o->input, "-"))
		return read_fd(STDIN_FILENO, o->max_size, in, err);

	GS_CLOSE int fd = open(o->input, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0) {
		int e = errno;
		return gs_fail_errno(err, gs_code_of_errno(e), e, "open");
	}
	return read_fd(fd, o->max_size, in, err);
}

/* One or more gzip members. What comes before damage stays in *out. */
static enum gs_code gunzip(const struct input *in, uint64_t max, uint8_t **out, size_t *size,
			   struct gs_error *err)
{
	z_stream z = { .next_in = in->bytes, .avail_in = (uInt)in->size };
	enum gs_code rc = GS_OK;
	size_t room = 0;
	int e;

	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	while (!rc) {
		if (!grow(out, &room, *size + READ_PIECE)) {
			rc = gs_fail(err, GS_ENOSPC, "out of memory");
			break;
		}
		z.next_out = *out + *size;
		z.avail_out = READ_PIECE;
		e = inflate(&z, Z_NO_FLUSH);
		*size += READ_PIECE - z.avail_out;
		if (*size > max)
			rc = gs_fail(err, GS_ETOOBIG, "more than %" PRIu64 " bytes (--max-size)",
				     max);
		else if (e == Z_STREAM_END && (z.avail_in < 2 || z.next_in[0] != 0x1f))
			break;
		else if (e == Z_STREAM_END)
			(void)inflateReset(&z); /* the stream is sound: it cannot fail */
		else if (e != Z_OK && e != Z_BUF_ERROR)
			rc = gs_fail(err, GS_EMALFORMED, "gzip: %s", z.msg ? z.msg : zError(e));
		else if (!z.avail_in && z.avail_out)
			rc = gs_fail(err, GS_EMALFORMED, "gzip: cut short");
	}
	(void)inflateEnd(&z); /* its state is freed whatever it says */
	return rc;
}

static bool starts_with_magic(const struct input *in, uint32_t magic)
{
	uint32_t first;

	if (in->size < KCD_HEADER_SIZE)
		return false;
	memcpy(&first, in->bytes, sizeof(first));
	return first == magic;
}

static enum gs_code code_of(enum kcd_code code)
{
	switch (code) {
	case KCD_OK:
	case KCD_DONE: return GS_OK;
	case KCD_ETOOBIG: return GS_ETOOBIG;
	case KCD_ENOMEM: return GS_ENOSPC;
	case KCD_ENOSPC:
	case KCD_EIO: return GS_ESYS;
	case KCD_EMALFORMED:
	case KCD_EINVAL:
	case KCD_ECOPY:
	case KCD_ECOMPRESSED:
	case KCD_ENOTSUP: return GS_EMALFORMED;
	}
	return GS_EMALFORMED;
}

/* "FILE: offset 0x40, record 3: why (name)"; @return the exit code */
OWN_FRAME static int complain(const struct kcdata_options *o, const struct kcd_error *e)
{
	struct gs_error err = { 0 };

	if (e->finding == KCD_FIND_NONE)
		(void)gs_fail(&err, code_of(e->code), "%s: %s", o->input, e->reason);
	else
		(void)gs_fail(&err, code_of(e->code),
			      "%s: offset %#zx, record %" PRIu64 ": %s (%s)", o->input, e->offset,
			      e->record, e->reason, kcd_finding_name(e->finding));
	return cli_error(&err);
}

/* Take gzip off. @return whether to go on */
OWN_FRAME static bool take_off_gzip(const struct kcdata_options *o, struct input *in, int *exit_out)
{
	struct gs_error err = { 0 };
	uint8_t *out = NULL;
	size_t size = 0;

	if (in->size < 2 || in->bytes[0] != 0x1f || in->bytes[1] != 0x8b)
		return true;
	enum gs_code rc = gunzip(in, o->max_size, &out, &size, &err);
	if (rc) {
		(void)gs_wrap(&err, rc, "%s", o->input);
		*exit_out = cli_error(&err);
		if (rc != GS_EMALFORMED || !o->salvage) {
			free(out);
			return false;
		}
		in->damaged = true;
	}
	free(in->bytes);
	in->bytes = out;
	in->size = size;
	return true;
}

/* Read the file and get at the plain stream. @return whether to go on */
static bool load(const struct kcdata_options *o, struct input *in, bool inflate, int *exit_out)
{
	struct gs_error err = { 0 };
	struct kcd_error why;
	enum gs_code rc = read_input(o, in, &err);

	if (rc) {
		(void)gs_wrap(&err, rc, "%s", strcmp(o->input, "-") ? o->input : "standard input");
		*exit_out = cli_error(&err);
		return false;
	}
	if (!take_off_gzip(o, in, exit_out))
		return false;
	assert(in->bytes); /* also of an empty file: memory comes before the first read */
	in->plain = in->bytes;
	in->plain_size = in->size;
	in->compressed = starts_with_magic(in, KCD_MAGIC_COMPRESSED);
	if (!in->compressed || !inflate)
		return true;

	const struct kcd_inflate_limits limits = { .totalin_max = o->max_size };
	uint32_t flags =
		(o->salvage ? KCD_INFLATE_SALVAGE : 0u) | (o->strict ? KCD_INFLATE_STRICT : 0u);
	enum kcd_code code =
		kcd_inflate(in->bytes, in->size, &limits, flags, &in->plain, &in->plain_size, &why);
	if (!code)
		return true;
	*exit_out = complain(o, &why);
	in->damaged = true;
	return in->plain != NULL;
}

static void unload(struct input *in)
{
	if (in->plain != in->bytes)
		free(in->plain);
	free(in->bytes);
}

/* --- output ---------------------------------------------------------------------------------- */

/* Standard output as it comes, or a file when all is done. */
struct output {
	const char *path; /* NULL: standard output */
	uint8_t *data;
	size_t size;
	size_t room;
	bool no_memory;
};

static bool put_memory(struct output *out, const void *data, size_t len)
{
	if (!grow(&out->data, &out->room, out->size + len)) {
		out->no_memory = true;
		return false;
	}
	memcpy(out->data + out->size, data, len);
	out->size += len;
	return true;
}

static bool put_output(void *arg, const void *data, size_t len)
{
	struct output *out = arg;

	if (out->path)
		return put_memory(out, data, len);
	return fwrite(data, 1, len, stdout) == len;
}

static struct output output_of(const struct kcdata_options *o)
{
	return (struct output){ .path = o->output && strcmp(o->output, "-") ? o->output : NULL };
}

/* Write what was collected. @return the exit code: @p code, unless the output fails */
OWN_FRAME static int finish_output(struct output *out, int code)
{
	struct gs_error err = { 0 };

	if (out->path && !out->no_memory &&
	    gs_file_write_atomic(out->path, out->data, out->size, 0600, &err))
		code = cli_output_error(&err);
	free(out->data);
	return code;
}

/* A producer's result. @return the exit code */
static int outcome(const struct kcdata_options *o, const struct input *in, struct output *out,
		   enum kcd_code rc, const struct kcd_error *why)
{
	if (rc == KCD_EIO && !out->no_memory) {
		gs_log(GS_LOG_ERROR, "standard output: %m");
		free(out->data);
		return CLI_EXIT_OUTPUT;
	}
	if (rc == KCD_EIO || rc == KCD_ENOMEM) {
		gs_log(GS_LOG_ERROR, "%s: out of memory", o->input);
		free(out->data);
		return CLI_EXIT_SYSTEM;
	}
	int code = rc ? complain(o, why) : CLI_EXIT_OK;
	if (rc && !o->salvage) {
		free(out->data);
		return code;
	}
	return finish_output(out, rc || in->damaged ? CLI_EXIT_INCOMPLETE : CLI_EXIT_OK);
}

/* --- dump and json --------------------------------------------------------------------------- */

static enum kcd_mode mode_of(const struct kcdata_options *o)
{
	return o->strict ? KCD_STRICT : KCD_TOLERANT;
}

/* Whether there is a buffer at all; a dump or JSON of nothing is no salvage. */
static bool begins(const struct kcdata_options *o, const struct input *in, int *exit_out)
{
	struct kcd_reader r;
	struct kcd_error why;

	if (!kcd_reader_init(&r, in->plain, in->plain_size, KCD_TOLERANT, &why))
		return true;
	*exit_out = complain(o, &why);
	return false;
}

/* Where the next buffer of a file starts, behind zero fill; the end: there is none. */
static size_t next_buffer(const struct input *in, size_t pos)
{
	while (in->plain_size - pos >= KCD_HEADER_SIZE) {
		uint32_t type;

		memcpy(&type, in->plain + pos, sizeof(type));
		if (type)
			return kcd_is_magic(type) ? pos : in->plain_size;
		pos += KCD_HEADER_SIZE;
	}
	return in->plain_size;
}

/* Bytes of the buffer that starts at @p pos. */
static size_t buffer_size(const struct input *in, size_t pos)
{
	struct kcd_reader r;
	struct kcd_item it;
	enum kcd_code rc =
		kcd_reader_init(&r, in->plain + pos, in->plain_size - pos, KCD_TOLERANT, NULL);

	while (!rc)
		rc = kcd_reader_next(&r, &it);
	return rc == KCD_DONE ? r.pos : in->plain_size - pos;
}

static bool drop(void *arg, const void *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return true;
}

/* Without --salvage nothing is shown of a damaged file: it is looked at first. */
static enum kcd_code look_first(const struct kcdata_options *o, const struct input *in,
				struct kcd_error *why)
{
	struct kcd_stat stat;

	if (o->strict)
		return kcd_text_dump(in->plain, in->plain_size, KCD_STRICT, NULL, drop, NULL, why);
	enum kcd_code rc = kcd_stat_collect(in->plain, in->plain_size, NULL, &stat, why);
	kcd_stat_deinit(&stat);
	return rc;
}

static int do_dump(const struct kcdata_options *o, const struct input *in)
{
	struct output out = output_of(o);
	struct kcd_error why;
	enum kcd_code rc = o->salvage ? KCD_OK : look_first(o, in, &why);
	size_t pos = 0;
	int code;

	if (!begins(o, in, &code))
		return code;
	while (!rc && pos < in->plain_size) {
		size_t size = o->multiple ? buffer_size(in, pos) : in->plain_size;

		rc = kcd_text_dump(in->plain + pos, size, mode_of(o), &ss_schema, put_output, &out,
				   &why);
		pos = o->multiple ? next_buffer(in, pos + size) : in->plain_size;
	}
	return outcome(o, in, &out, rc, &why);
}

/* The buffer at *pos as one JSON document; *pos is moved to the next one. */
OWN_FRAME static enum kcd_code put_document(const struct kcdata_options *o, const struct input *in,
					    struct output *out, size_t *pos, struct kcd_error *why)
{
	struct kcd_json j;
	size_t size = in->plain_size - *pos;

	kcd_json_init(&j, put_output, out, o->json_flags);
	enum kcd_code rc =
		kcd_json_view(in->plain + *pos, in->plain_size - *pos, mode_of(o),
			      o->salvage ? KCD_VIEW_SALVAGE : 0, &ss_schema, &j, &size, why);
	if (rc && !o->salvage)
		return rc; /* nothing was written */
	if (kcd_json_finish(&j))
		return KCD_EIO;
	if (!(o->json_flags & KCD_JSON_PRETTY) && !put_output(out, "\n", 1))
		return KCD_EIO;
	*pos = next_buffer(in, *pos + size);
	return rc;
}

static int do_json(const struct kcdata_options *o, const struct input *in)
{
	struct output out = output_of(o);
	struct kcd_error why;
	enum kcd_code rc;
	size_t pos = 0;
	int code;

	if (!begins(o, in, &code))
		return code;
	do
		rc = put_document(o, in, &out, &pos, &why);
	while (!rc && o->multiple && pos < in->plain_size);
	return outcome(o, in, &out, rc, &why);
}

/* --- validate -------------------------------------------------------------------------------- */

static void print_finding(void *arg, const struct kcd_error *e)
{
	const struct kcdata_options *o = arg;
	const struct kcd_type *t = kcd_schema_find_in(&ss_schema, e->type);

	printf("%s: offset %#zx, record %" PRIu64 " (", o->input, e->offset, e->record);
	if (t)
		fputs(t->name, stdout);
	else if (kcd_magic_name(e->type))
		fputs(kcd_magic_name(e->type), stdout);
	else
		printf("type %#" PRIx32, e->type);
	printf("): %s: %s: %s\n", kcd_finding_is_error(e->finding) ? "error" : "oddity",
	       kcd_finding_name(e->finding), e->reason);
}

static int do_validate(const struct kcdata_options *o, const struct input *in)
{
	const struct kcd_inflate_limits limits = { .totalin_max = o->max_size };
	struct kcd_verdict v;

	if (kcd_validate(in->bytes, in->size, &limits, print_finding, (void *)o, &v)) {
		gs_log(GS_LOG_ERROR, "%s: out of memory", o->input);
		return CLI_EXIT_SYSTEM;
	}
	if (!o->quiet)
		printf("%s: %" PRIu64 " records%s%s; %" PRIu64 " errors, %" PRIu64 " oddities\n",
		       o->input, v.records, in->compressed ? ", compressed" : "",
		       v.whole ? "" : ", cut short", v.errors, v.findings - v.errors);
	return (o->tolerant ? v.errors : v.findings) ? CLI_EXIT_BAD_DATA : CLI_EXIT_OK;
}

/* --- stat ------------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static bool put_line(struct output *out, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return put_output(out, text, gs_min((uint64_t)n, sizeof(text) - 1));
}

/* A type's name may be a stream's: only what is harmless on a terminal. */
static const char *printable(char *name)
{
	for (char *c = name; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
	return name;
}

static bool put_stat(struct output *out, const struct kcd_stat *s, const struct input *in)
{
	bool ok = put_line(
		out, "%s: %" PRIu64 " records, %" PRIu64 " bytes, containers %" PRIu32 " deep\n",
		kcd_magic_name(s->magic), s->records, s->bytes, s->depth);

	if (in->compressed)
		ok &= put_line(out, "compressed: %zu bytes, %.1f%% of the plain stream\n", in->size,
			       100.0 * (double)in->size / (double)(s->bytes ? s->bytes : 1));
	ok &= put_line(out, "%10s %10s %12s %6s  type\n", "records", "elements", "bytes", "share");
	for (size_t i = 0; i < s->count && ok; i++) {
		struct kcd_stat_row *r = &s->rows[i];

		ok = put_line(out,
			      "%10" PRIu64 " %10" PRIu64 " %12" PRIu64 " %5.1f%%  %s (%#" PRIx32
			      ")%s\n",
			      r->records, r->elements, r->bytes,
			      100.0 * (double)r->bytes / (double)(s->bytes ? s->bytes : 1),
			      printable(r->name), r->code, r->container ? ", container" : "");
	}
	return ok;
}

static int do_stat(const struct kcdata_options *o, const struct input *in)
{
	struct output out = output_of(o);
	struct kcd_stat s;
	struct kcd_error why;
	int code;

	if (!begins(o, in, &code))
		return code;
	enum kcd_code rc = kcd_stat_collect(in->plain, in->plain_size, &ss_schema, &s, &why);
	if ((!rc || o->salvage) && !put_stat(&out, &s, in))
		rc = KCD_EIO;
	kcd_stat_deinit(&s);
	return outcome(o, in, &out, rc, &why);
}

/* --- convert --------------------------------------------------------------------------------- */

/* A plain stream of the items before the damage, its containers closed. */
static enum kcd_code rebuild(const struct input *in, uint8_t **out, size_t *size,
			     struct kcd_error *why)
{
	size_t room = in->plain_size + (KCD_DEPTH_MAX + 2) * (size_t)KCD_HEADER_SIZE;
	struct kcd_header begin;
	struct kcd_writer w;
	struct kcd_reader r;
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&r, in->plain, in->plain_size, KCD_TOLERANT, why);

	if (rc)
		return rc;
	*out = malloc(room);
	if (!*out)
		return KCD_ENOMEM;
	memcpy(&begin, in->plain, sizeof(begin));
	rc = kcd_writer_init(&w, *out, room, begin.type,
			     begin.flags & KCD_FLAG_HAS_PADDING ? 0 : KCD_WRITER_OLD_BEGIN);
	enum kcd_code read = KCD_OK;
	while (!rc && !(read = kcd_reader_next(&r, &it)))
		rc = kcd_append_item(&w, &it);
	if (read == KCD_DONE)
		read = KCD_OK;
	while (!rc && kcd_writer_depth(&w))
		rc = kcd_container_end(&w, r.open[kcd_writer_depth(&w) - 1].id);
	*size = kcd_writer_used(&w);
	return rc ? rc : read;
}

static bool patch_memory(void *arg, uint64_t offset, const void *data, size_t len)
{
	struct output *out = arg;

	memcpy(out->data + offset, data, len);
	return true;
}

static bool collect(void *arg, const void *data, size_t len)
{
	return put_memory(arg, data, len);
}

static int deliver(const struct kcdata_options *o, struct output *out, int code)
{
	if (out->path)
		return finish_output(out, code);
	if (fwrite(out->data, 1, out->size, stdout) != out->size) {
		gs_log(GS_LOG_ERROR, "standard output: %m");
		code = CLI_EXIT_OUTPUT;
	}
	free(out->data);
	(void)o;
	return code;
}

static int convert(const struct kcdata_options *o, const uint8_t *plain, size_t size, int code)
{
	struct output out = output_of(o);
	const struct kcd_output to = { collect, patch_memory, NULL, &out };
	struct kcd_compressed result = { 0 };
	struct kcd_error why;
	char before[CLI_TEXT_MAX], after[CLI_TEXT_MAX];
	enum kcd_code rc = kcd_compress_stream(plain, size, &o->how, 0, &to, &result, &why);

	if (rc) {
		free(out.data);
		if (out.no_memory)
			why = (struct kcd_error){ .code = KCD_ENOMEM, .reason = "out of memory" };
		return complain(o, &why);
	}
	if (!o->quiet)
		fprintf(stderr, "guestshot: %s: %s of records, %s as %s (%.1f%%)\n", o->input,
			cli_format_size(result.totalin, before), cli_format_size(out.size, after),
			kcd_algorithm_name(o->how.algorithm),
			100.0 * (double)out.size / (double)(size ? size : 1));
	return deliver(o, &out, code);
}

static int do_convert(const struct kcdata_options *o, const struct input *in)
{
	uint8_t *rebuilt = NULL;
	size_t size = 0;
	struct kcd_error why;
	int code = in->damaged ? CLI_EXIT_INCOMPLETE : CLI_EXIT_OK;

	if (!o->salvage)
		return convert(o, in->plain, in->plain_size, code);
	enum kcd_code rc = rebuild(in, &rebuilt, &size, &why);
	if (rc && !(rebuilt && (rc == KCD_EMALFORMED || rc == KCD_ETOOBIG))) {
		free(rebuilt);
		if (rc == KCD_ENOMEM || rc == KCD_EINVAL || rc == KCD_ENOSPC)
			why = (struct kcd_error){ .code = rc, .reason = "cannot be rebuilt" };
		return complain(o, &why);
	}
	if (rc) {
		(void)complain(o, &why);
		code = CLI_EXIT_INCOMPLETE;
	} else if (!in->damaged) {
		/* nothing to save: the stream as it is, zeros behind its end included */
		free(rebuilt);
		return convert(o, in->plain, in->plain_size, code);
	}
	code = convert(o, rebuilt, size, code);
	free(rebuilt);
	return code;
}

/* --- records: docs/records.md ---------------------------------------------------------------- */

static const char *form_name(const struct kcd_type *t)
{
	switch ((enum kcd_form)t->form) {
	case KCD_FORM_STRUCT:
		return t->flags & KCD_TYPE_MERGE ? "structure, merged into what is around it"
						 : "structure";
	case KCD_FORM_SCALAR: return "value";
	case KCD_FORM_STRING: return "string";
	case KCD_FORM_BYTES: return "bytes";
	case KCD_FORM_CONTAINER: return "container";
	case KCD_FORM_SPECIAL: return "part of the format";
	}
	return "";
}

static const char *kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[KCD_CHAR] = "char",  [KCD_INT8] = "i8",    [KCD_UINT8] = "u8",
		[KCD_INT16] = "i16",  [KCD_UINT16] = "u16", [KCD_INT32] = "i32",
		[KCD_UINT32] = "u32", [KCD_INT64] = "i64",  [KCD_UINT64] = "u64",
	};

	return names[kind];
}

static void print_type_row(const struct kcd_type *t)
{
	char key[KCD_KEY_MAX];
	uint32_t size = 0;

	for (uint32_t i = 0; i < t->field_count; i++)
		size = (uint32_t)gs_max(size, t->fields[i].offset + kcd_field_size(&t->fields[i]));
	printf("| %#x | %s | `%s` | %s | ", t->code, t->name, kcd_type_key(t, t->code, key),
	       form_name(t));
	if (t->form == KCD_FORM_SCALAR)
		printf("%s", kind_name(t->fields[0].kind));
	else if (t->form == KCD_FORM_STRUCT)
		printf("%u", size);
	puts(" |");
}

static void print_fields(const struct kcd_type *t)
{
	printf("\n### %#x %s\n\n| offset | field | type | |\n|---:|---|---|---|\n", t->code,
	       t->name);
	for (uint32_t i = 0; i < t->field_count; i++) {
		const struct kcd_field *f = &t->fields[i];

		printf("| %u | `%s` | %s", f->offset, f->name, kind_name(f->kind));
		if (f->count)
			printf("[%u]", f->count);
		printf(" | %s |\n", f->flags & KCD_FIELD_HEX ? "hexadecimal in text" : "");
	}
}

static void print_schema(const struct kcd_schema *s)
{
	puts("| code | name | key in JSON | form | bytes |\n|---:|---|---|---|---:|");
	for (size_t i = 0; i < s->count; i++)
		print_type_row(&s->types[i]);
	for (size_t i = 0; i < s->count; i++)
		if (s->types[i].form == KCD_FORM_STRUCT)
			print_fields(&s->types[i]);
}

static int do_records(void)
{
	puts("# Record types\n\n"
	     "Written by `guestshot kcdata records` from the tables that the readers use: do not "
	     "edit\n"
	     "(`make docs/records.md` writes it anew, `make check-records` compares).\n\n"
	     "`bytes` is the size of the newest version known; older versions are prefixes of it, "
	     "newer\n"
	     "ones may be longer. Values are little-endian and packed. What the fields mean stands "
	     "in\n"
	     "`kcdata/stackshot_types.h`, `kcdata/crashinfo_types.h`, "
	     "`introspect/stackshot/records.h`\n"
	     "and `introspect/btlog/records.h`.\n\n"
	     "## Types of guestshot\n\n"
	     "Defined in every stream that has them, so that readers without this table show "
	     "them.\n");
	print_schema(&ss_schema);
	puts("\n## Types of saved backtrace logs\n\n"
	     "Likewise ours, and defined in every stream that has them.\n");
	print_schema(&btl_schema);
	puts("\n## Types of the original\n");
	print_schema(kcd_schema_builtin());
	return CLI_EXIT_OK;
}

/* --------------------------------------------------------------------------------------------- */

int cli_cmd_kcdata(int argc, char **argv)
{
	struct kcdata_options o = { .max_size = MAX_SIZE_DEFAULT, .json_flags = KCD_JSON_PRETTY };
	struct input in = { 0 };
	int code = CLI_EXIT_OK;

	if (!cli_parse(&argp, argc, argv, &o, &code))
		return code;
	if (o.action == RECORDS)
		return do_records();
	if (load(&o, &in, o.action != VALIDATE, &code)) {
		switch (o.action) {
		case DUMP: code = do_dump(&o, &in); break;
		case JSON: code = do_json(&o, &in); break;
		case VALIDATE: code = do_validate(&o, &in); break;
		case STAT: code = do_stat(&o, &in); break;
		case CONVERT: code = do_convert(&o, &in); break;
		case RECORDS: break;
		}
	}
	unload(&in);
	return code;
}
