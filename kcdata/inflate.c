/* SPDX-License-Identifier: Apache-2.0 */
/* Reading compressed buffers, with every number in them under suspicion. */
#include "kcdata/compress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define OUT_SIZE  (128u << 10)
#define GROW_FROM (64u << 10)

/* zlib counts in unsigned int. */
#define FEED_MAX ((size_t)1 << 30)

/* What is being read, and where complaints go. */
struct job {
	const uint8_t *buf;
	size_t len;
	enum kcd_mode mode;
	kcd_finding_fn finding;
	void *finding_arg;
	struct kcd_error *err;
	struct kcd_frame frame;
	uint64_t limit;
	uint32_t window_log_max;
	kcd_sink_fn sink;
	void *sink_arg;
	uint64_t total; /* bytes that came out */
	uint8_t *out;	/* OUT_SIZE */
};

#define KCD_PRINTF(fmt, args) __attribute__((format(printf, fmt, args), cold))

static enum kcd_code code_of(enum kcd_finding finding)
{
	switch ((unsigned int)finding) {
	case KCD_FIND_ALGORITHM: return KCD_ENOTSUP;
	case KCD_FIND_LIMIT: return KCD_ETOOBIG;
	default: return KCD_EMALFORMED;
	}
}

KCD_PRINTF(4, 0)
static void fill_error(struct kcd_error *e, enum kcd_finding finding, size_t offset,
		       const char *fmt, va_list ap)
{
	*e = (struct kcd_error){
		.code = code_of(finding),
		.finding = finding,
		.offset = offset,
		.type = KCD_MAGIC_COMPRESSED,
	};
	(void)vsnprintf(e->reason, sizeof(e->reason), fmt, ap); // a cut reason is still one
}

KCD_PRINTF(4, 5)
static enum kcd_code fail(struct job *job, enum kcd_finding finding, size_t offset, const char *fmt,
			  ...)
{
	va_list ap;

	if (job->err) {
		va_start(ap, fmt);
		fill_error(job->err, finding, offset, fmt, ap);
		va_end(ap);
	}
	return code_of(finding);
}

/* A failure that is not about the bytes. */
static enum kcd_code fail_code(struct job *job, enum kcd_code code, const char *why)
{
	if (job->err) {
		*job->err = (struct kcd_error){ .code = code, .type = KCD_MAGIC_COMPRESSED };
		(void)snprintf(job->err->reason, sizeof(job->err->reason), "%s", why);
	}
	return code;
}

/* Something that only a strict reader refuses. */
KCD_PRINTF(4, 5)
static enum kcd_code oddity(struct job *job, enum kcd_finding finding, size_t offset,
			    const char *fmt, ...)
{
	struct kcd_error e;
	va_list ap;

	va_start(ap, fmt);
	fill_error(&e, finding, offset, fmt, ap);
	va_end(ap);
	if (job->mode == KCD_TOLERANT) {
		if (job->finding)
			job->finding(job->finding_arg, &e);
		return KCD_OK;
	}
	if (job->err)
		*job->err = e;
	return e.code;
}

/* --- the wrapper ----------------------------------------------------------------------------- */

enum { HAS_TYPE = 1, HAS_TOTALOUT = 2, HAS_TOTALIN = 4, HAS_ALL = 7 };

/* One item of the wrapper. */
static enum kcd_code read_descriptor(struct job *job, const struct kcd_header *h, size_t pos,
				     unsigned int *seen)
{
	static const struct {
		const char *name;
		unsigned int bit;
	} known[] = { { "kcd_c_type", HAS_TYPE },
		      { "kcd_c_totalout", HAS_TOTALOUT },
		      { "kcd_c_totalin", HAS_TOTALIN } };
	uint64_t *const values[] = { &job->frame.c_type, &job->frame.totalout,
				     &job->frame.totalin };
	const struct kcd_item item = {
		.kind = KCD_ITEM_RECORD,
		.type = h->type,
		.size = h->size,
		.data = job->buf + pos + sizeof(*h),
	};
	const char *name;
	uint64_t value;

	if (h->type == KCD_TYPE_UINT64_DESC && kcd_item_value(&item, &name, &value)) {
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			if (strcmp(name, known[i].name) != 0)
				continue;
			if (*seen & known[i].bit)
				return fail(job, KCD_FIND_FRAME, pos, "a second %s", name);
			*seen |= known[i].bit;
			*values[i] = value;
			return KCD_OK;
		}
	}
	return oddity(job, KCD_FIND_FRAME_EXTRA, pos,
		      "item of type %#" PRIx32 " in the wrapper of a compressed buffer", h->type);
}

static enum kcd_code read_header(struct job *job, size_t pos, struct kcd_header *h)
{
	size_t left = job->len - pos;

	if (left < sizeof(*h))
		return fail(job, KCD_FIND_FRAME, pos, "the wrapper ends without the inner BEGIN");
	memcpy(h, job->buf + pos, sizeof(*h));
	if (h->size > left - sizeof(*h))
		return fail(job, KCD_FIND_FRAME, pos,
			    "item of the wrapper with %" PRIu32 " bytes, %zu left", h->size,
			    left - sizeof(*h));
	return KCD_OK;
}

/* Everything up to the compressed bytes. */
static enum kcd_code read_wrapper(struct job *job)
{
	struct kcd_header h = { 0 };
	unsigned int seen = 0;
	size_t pos = 0;
	enum kcd_code rc = read_header(job, 0, &h);

	if (rc)
		return rc;
	if (h.type != KCD_MAGIC_COMPRESSED)
		return fail_code(job, KCD_EINVAL, "not a compressed buffer");
	for (;;) {
		pos += sizeof(h) + h.size;
		rc = read_header(job, pos, &h);
		if (rc)
			return rc;
		if (kcd_is_magic(h.type))
			break;
		if (h.type == KCD_MAGIC_END)
			return fail(job, KCD_FIND_FRAME, pos, "END without anything compressed");
		rc = read_descriptor(job, &h, pos, &seen);
		if (rc)
			return rc;
	}
	if (h.type == KCD_MAGIC_COMPRESSED)
		return fail(job, KCD_FIND_FRAME, pos, "compressed inside of compressed");
	if (seen != HAS_ALL)
		return fail(job, KCD_FIND_FRAME, pos, "no %s in the wrapper",
			    !(seen & HAS_TYPE)	     ? "kcd_c_type"
			    : !(seen & HAS_TOTALOUT) ? "kcd_c_totalout"
						     : "kcd_c_totalin");
	job->frame.magic = h.type;
	job->frame.begin_flags = h.flags;
	// stock readers start right behind the header, whatever its size says
	job->frame.start = pos + sizeof(h);
	return h.size ? oddity(job, KCD_FIND_FRAME_EXTRA, pos, "inner BEGIN of size %" PRIu32,
			       h.size)
		      : KCD_OK;
}

/* The span, and what comes behind it. */
static enum kcd_code read_span(struct job *job)
{
	struct kcd_frame *f = &job->frame;
	size_t left = job->len - f->start;

	if (f->totalout > left) {
		f->end = job->len;
		return fail(job, KCD_FIND_FRAME, f->start,
			    "%" PRIu64 " compressed bytes announced, %zu there", f->totalout, left);
	}
	f->end = f->start + (size_t)f->totalout;

	struct kcd_header end = { 0 };
	left = job->len - f->end;
	if (left >= sizeof(end))
		memcpy(&end, job->buf + f->end, sizeof(end));
	if (end.type != KCD_MAGIC_END)
		return oddity(job, KCD_FIND_FRAME_END, f->end,
			      "no END behind the compressed bytes");
	f->end += sizeof(end);
	for (size_t i = f->end; i < job->len; i++) {
		if (job->buf[i])
			return oddity(job, KCD_FIND_TRAILING, f->end,
				      "%zu bytes behind the end of the buffer are not all zero",
				      job->len - f->end);
	}
	return KCD_OK;
}

/* @return KCD_OK; also fills the frame when only the span is cut */
static enum kcd_code parse(struct job *job, bool *cut)
{
	enum kcd_code rc = read_wrapper(job);

	*cut = false;
	if (rc)
		return rc;
	rc = read_span(job);
	*cut = job->frame.totalout > job->len - job->frame.start;
	return rc;
}

enum kcd_code kcd_frame_parse(const void *buf, size_t len, enum kcd_mode mode,
			      kcd_finding_fn finding, void *finding_arg,
			      struct kcd_frame *frame_out, struct kcd_error *err)
{
	struct job job = { .buf = buf,
			   .len = len,
			   .mode = mode,
			   .finding = finding,
			   .finding_arg = finding_arg,
			   .err = err };
	bool cut;
	enum kcd_code rc = parse(&job, &cut);

	if (!rc || cut)
		*frame_out = job.frame;
	return rc;
}

/* --- decompression --------------------------------------------------------------------------- */

/* Hand on what an algorithm put into job->out. */
static enum kcd_code deliver(struct job *job, size_t len)
{
	if (len > job->frame.totalin - job->total)
		return fail(job, KCD_FIND_LENGTH, job->frame.start,
			    "more than the announced %" PRIu64 " bytes come out",
			    job->frame.totalin);
	job->total += len;
	if (len && !job->sink(job->sink_arg, job->out, len))
		return fail_code(job, KCD_EIO, "the sink refused bytes");
	return KCD_OK;
}

/* Compressed bytes that are there. */
static size_t span_size(const struct job *job)
{
	size_t left = job->len - job->frame.start;

	return job->frame.totalout < left ? (size_t)job->frame.totalout : left;
}

static enum kcd_code span_tail(struct job *job, size_t used)
{
	if (used == span_size(job))
		return KCD_OK;
	return oddity(job, KCD_FIND_SPAN_TAIL, job->frame.start + used,
		      "%zu bytes behind the end of the compressed data", span_size(job) - used);
}

static enum kcd_code inflate_zlib(struct job *job, z_stream *z, size_t *used)
{
	const uint8_t *in = job->buf + job->frame.start;
	size_t len = span_size(job);
	int e = Z_OK;

	*used = 0;
	while (e != Z_STREAM_END) {
		size_t n = len - *used < FEED_MAX ? len - *used : FEED_MAX;

		z->next_in = (Bytef *)(uintptr_t)(in + *used); // only read
		z->avail_in = (uInt)n;
		z->next_out = job->out;
		z->avail_out = OUT_SIZE;
		e = inflate(z, Z_NO_FLUSH);
		*used += n - z->avail_in;

		size_t got = OUT_SIZE - z->avail_out;
		enum kcd_code rc = deliver(job, got);
		if (rc)
			return rc;
		if (e == Z_MEM_ERROR)
			return fail_code(job, KCD_ENOMEM, "out of memory");
		if (e != Z_OK && e != Z_STREAM_END && e != Z_BUF_ERROR)
			return fail(job, KCD_FIND_DATA, job->frame.start + *used, "zlib: %s",
				    z->msg ? z->msg : zError(e));
		if (e != Z_STREAM_END && *used == len && got < OUT_SIZE)
			return fail(job, KCD_FIND_DATA, job->frame.start + *used,
				    "the zlib data has no end");
	}
	return KCD_OK;
}

static enum kcd_code run_zlib(struct job *job)
{
	z_stream z = { 0 };
	size_t used;

	if (inflateInit2(&z, MAX_WBITS) != Z_OK)
		return fail_code(job, KCD_ENOMEM, "out of memory");
	enum kcd_code rc = inflate_zlib(job, &z, &used);
	(void)inflateEnd(&z); // its state is freed whatever it says
	return rc ? rc : span_tail(job, used);
}

static enum kcd_code zstd_error(struct job *job, size_t result, size_t at)
{
	switch ((unsigned int)ZSTD_getErrorCode(result)) {
	case ZSTD_error_memory_allocation: return fail_code(job, KCD_ENOMEM, "out of memory");
	case ZSTD_error_frameParameter_windowTooLarge:
		return fail(job, KCD_FIND_LIMIT, job->frame.start + at,
			    "zstd window over 2^%" PRIu32 " bytes", job->window_log_max);
	default:
		return fail(job, KCD_FIND_DATA, job->frame.start + at, "zstd: %s",
			    ZSTD_getErrorName(result));
	}
}

static enum kcd_code inflate_zstd(struct job *job, ZSTD_DCtx *d)
{
	ZSTD_inBuffer in = { job->buf + job->frame.start, span_size(job), 0 };
	size_t hint = 1;

	// an empty span has no frame: hint stays 1
	while (in.pos < in.size || hint) {
		ZSTD_outBuffer out = { job->out, OUT_SIZE, 0 };
		size_t before = in.pos;

		hint = ZSTD_decompressStream(d, &out, &in);
		enum kcd_code rc = deliver(job, out.pos);
		if (rc)
			return rc;
		if (ZSTD_isError(hint))
			return zstd_error(job, hint, before);
		if (hint && in.pos == in.size && out.pos < out.size)
			return fail(job, KCD_FIND_DATA, job->frame.start + in.pos,
				    "the zstd data has no end");
	}
	return KCD_OK;
}

static enum kcd_code run_zstd(struct job *job)
{
	ZSTD_DCtx *d = ZSTD_createDCtx();

	if (!d)
		return fail_code(job, KCD_ENOMEM, "out of memory");
	size_t bad = ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, (int)job->window_log_max);
	enum kcd_code rc = ZSTD_isError(bad) ? fail_code(job, KCD_EINVAL, "such a window limit")
					     : inflate_zstd(job, d);
	(void)ZSTD_freeDCtx(d); // never fails
	return rc;
}

static enum kcd_code run_algorithm(struct job *job)
{
	enum kcd_code rc;

	switch (job->frame.c_type) {
	case KCD_C_TYPE_ZLIB: rc = run_zlib(job); break;
	case KCD_C_TYPE_ZSTD: rc = run_zstd(job); break;
	default:
		return fail(job, KCD_FIND_ALGORITHM, 0,
			    "kcd_c_type %#" PRIx64 " is not known (1: zlib, 0x6474737a: zstd)",
			    job->frame.c_type);
	}
	if (!rc && job->total != job->frame.totalin)
		return fail(job, KCD_FIND_LENGTH, job->frame.start,
			    "%" PRIu64 " bytes come out, %" PRIu64 " announced", job->total,
			    job->frame.totalin);
	return rc;
}

static enum kcd_code put_header(struct job *job, uint32_t type, uint64_t flags)
{
	struct kcd_header h = { .type = type, .flags = flags };

	return job->sink(job->sink_arg, &h, sizeof(h))
		       ? KCD_OK
		       : fail_code(job, KCD_EIO, "the sink refused bytes");
}

/* Zeros behind the END go along; other things there have been complained about. */
static enum kcd_code put_fill(struct job *job)
{
	size_t left = job->len - job->frame.end;

	for (size_t i = job->frame.end; i < job->len; i++) {
		if (job->buf[i])
			return KCD_OK;
	}
	memset(job->out, 0, OUT_SIZE);
	while (left) {
		size_t n = left < OUT_SIZE ? left : OUT_SIZE;

		if (!job->sink(job->sink_arg, job->out, n))
			return fail_code(job, KCD_EIO, "the sink refused bytes");
		left -= n;
	}
	return KCD_OK;
}

/* The wrapper has been read; @p cut: its span runs past the end, and job->err says so. */
static enum kcd_code inflate_frame(struct job *job, bool cut)
{
	if (job->frame.totalin > job->limit)
		return fail(job, KCD_FIND_LIMIT, 0,
			    "%" PRIu64 " bytes announced, the limit is %" PRIu64,
			    job->frame.totalin, job->limit);
	job->out = malloc(OUT_SIZE);
	if (!job->out)
		return fail_code(job, KCD_ENOMEM, "out of memory");

	struct kcd_error *err = job->err;
	enum kcd_code rc = put_header(job, job->frame.magic, job->frame.begin_flags);
	if (cut)
		job->err = NULL; // the cut is the reason, not what follows from it
	if (!rc)
		rc = run_algorithm(job);
	job->err = err;
	if (cut && rc != KCD_EIO && rc != KCD_ENOMEM)
		rc = KCD_EMALFORMED;
	if (!rc)
		rc = put_header(job, KCD_MAGIC_END, 0);
	if (!rc)
		rc = put_fill(job);
	free(job->out);
	return rc;
}

enum kcd_code kcd_inflate_stream(const void *buf, size_t len,
				 const struct kcd_inflate_limits *limits, uint32_t flags,
				 kcd_sink_fn sink, void *arg, struct kcd_error *err)
{
	struct job job = {
		.buf = buf,
		.len = len,
		.mode = flags & KCD_INFLATE_STRICT ? KCD_STRICT : KCD_TOLERANT,
		.err = err,
		.limit = limits && limits->totalin_max ? limits->totalin_max : KCD_INFLATE_MAX,
		.window_log_max = limits && limits->window_log_max ? limits->window_log_max
								   : KCD_WINDOW_LOG_MAX,
		.sink = sink,
		.sink_arg = arg,
	};
	bool cut;
	enum kcd_code rc = parse(&job, &cut);

	if (rc && !(cut && flags & KCD_INFLATE_SALVAGE))
		return rc;
	return inflate_frame(&job, cut);
}

/* --- into one buffer ------------------------------------------------------------------------- */

struct growing {
	uint8_t *data;
	size_t used;
	size_t size;
	bool no_memory;
};

static bool grow_sink(void *arg, const void *data, size_t len)
{
	struct growing *g = arg;

	if (len > g->size - g->used) {
		size_t size = g->size ? g->size : GROW_FROM;
		uint8_t *p;

		while (size - g->used < len) {
			if (__builtin_mul_overflow(size, (size_t)2, &size))
				return false;
		}
		p = realloc(g->data, size);
		if (!p) {
			g->no_memory = true;
			return false;
		}
		g->data = p;
		g->size = size;
	}
	memcpy(g->data + g->used, data, len);
	g->used += len;
	return true;
}

enum kcd_code kcd_inflate(const void *buf, size_t len, const struct kcd_inflate_limits *limits,
			  uint32_t flags, uint8_t **plain_out, size_t *len_out,
			  struct kcd_error *err)
{
	struct growing g = { 0 };
	enum kcd_code rc = kcd_inflate_stream(buf, len, limits, flags, grow_sink, &g, err);

	if (g.no_memory) {
		rc = KCD_ENOMEM;
		if (err)
			*err = (struct kcd_error){ .code = rc, .reason = "out of memory" };
	}
	if (rc && !(flags & KCD_INFLATE_SALVAGE)) {
		free(g.data);
		g = (struct growing){ 0 };
	}
	*plain_out = g.data;
	*len_out = g.used;
	return rc;
}
