/* SPDX-License-Identifier: Apache-2.0 */
/* Writing compressed buffers: the wrapper, and zlib or zstd behind one small table. */
#include "kcdata/compress.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

/* Format, 2.2: what the original writes with. */
#define ZLIB_LEVEL	 1
#define ZLIB_WINDOW_BITS 12
#define ZLIB_MEM_LEVEL	 3

#define OUT_SIZE (32u << 10)

/* zlib counts in unsigned int. */
#define FEED_MAX ((size_t)1 << 30)

/* Room to finish with: the end of the compressed data (zstd: 3 + 4 bytes, zlib: 2 + 4, each with
 * some bits in front) and the END. */
#define FINISH_ROOM (32u + KCD_HEADER_SIZE)

/* Where the numbers stand that are patched (format, 2.1). */
#define AT_TOTALOUT 0x80u
#define AT_TOTALIN  0xC0u

enum flush { FLUSH_NONE, FLUSH_SYNC, FLUSH_FINISH };

struct engine {
	uint64_t c_type;
	enum kcd_code (*start)(struct kcd_compressor *c, const struct kcd_compress_params *p);
	enum kcd_code (*feed)(struct kcd_compressor *c, const uint8_t *in, size_t len,
			      enum flush flush);
	size_t (*bound)(struct kcd_compressor *c, size_t len);
	void (*stop)(struct kcd_compressor *c);
};

struct kcd_compressor {
	const struct engine *engine;
	struct kcd_output out;
	z_stream z;
	ZSTD_CCtx *zstd;
	enum kcd_code status; /* sticky: sink or memory */
	bool final;	      /* the next run is the last */
	bool finished;	      /* the compressed data has its end */
	bool ended;
	uint64_t announced;
	uint64_t totalin;
	uint64_t totalout;
	uint64_t written;
	uint8_t buf[OUT_SIZE];
};

/* --- choice ---------------------------------------------------------------------------------- */

bool kcd_compression_parse(const char *text, struct kcd_compression *how_out)
{
	struct kcd_compression how = { KCD_COMPRESS_NONE, 0 };

	if (!strcmp(text, "none")) {
		how.algorithm = KCD_COMPRESS_NONE;
	} else if (!strcmp(text, "zlib")) {
		how.algorithm = KCD_COMPRESS_ZLIB;
	} else if (!strncmp(text, "zstd", 4)) {
		how.algorithm = KCD_COMPRESS_ZSTD;
		text += 4;
		if (*text == ':') {
			do {
				text++;
				if (*text < '0' || *text > '9')
					return false;
				how.level = how.level * 10 + (*text - '0');
				if (how.level > KCD_ZSTD_LEVEL_MAX)
					return false;
			} while (text[1]);
			if (how.level == 0)
				return false;
		} else if (*text) {
			return false;
		}
	} else {
		return false;
	}
	*how_out = how;
	return true;
}

const char *kcd_algorithm_name(enum kcd_algorithm algorithm)
{
	switch (algorithm) {
	case KCD_COMPRESS_NONE: return "none";
	case KCD_COMPRESS_ZLIB: return "zlib";
	case KCD_COMPRESS_ZSTD: return "zstd";
	}
	return "unknown";
}

/* --- output ---------------------------------------------------------------------------------- */

static bool buffer_sink(void *arg, const void *data, size_t len)
{
	struct kcd_buffer *b = arg;

	if (len > b->size - b->used)
		return false;
	if (len)
		memcpy(b->data + b->used, data, len);
	b->used += len;
	return true;
}

static bool buffer_patch(void *arg, uint64_t offset, const void *data, size_t len)
{
	struct kcd_buffer *b = arg;

	if (offset > b->used || len > b->used - offset)
		return false;
	memcpy(b->data + offset, data, len);
	return true;
}

static size_t buffer_room(void *arg)
{
	const struct kcd_buffer *b = arg;

	return b->size - b->used;
}

struct kcd_output kcd_buffer_output(struct kcd_buffer *buffer)
{
	return (struct kcd_output){ buffer_sink, buffer_patch, buffer_room, buffer };
}

static enum kcd_code emit(struct kcd_compressor *c, const void *data, size_t len)
{
	if (!c->status && len && !c->out.sink(c->out.arg, data, len))
		c->status = KCD_EIO;
	c->written += len;
	return c->status;
}

static enum kcd_code emit_compressed(struct kcd_compressor *c, size_t len)
{
	c->totalout += len;
	return emit(c, c->buf, len);
}

/* --- none ------------------------------------------------------------------------------------ */

static enum kcd_code none_start(struct kcd_compressor *c, const struct kcd_compress_params *p)
{
	(void)c;
	return p->how.level ? KCD_EINVAL : KCD_OK;
}

static enum kcd_code none_feed(struct kcd_compressor *c, const uint8_t *in, size_t len,
			       enum flush flush)
{
	(void)flush;
	c->totalout += len;
	return emit(c, in, len);
}

static size_t none_bound(struct kcd_compressor *c, size_t len)
{
	(void)c;
	return len;
}

static void none_stop(struct kcd_compressor *c)
{
	(void)c;
}

/* --- zlib ------------------------------------------------------------------------------------ */

static enum kcd_code zlib_start(struct kcd_compressor *c, const struct kcd_compress_params *p)
{
	if (p->how.level)
		return KCD_EINVAL;
	return deflateInit2(&c->z, ZLIB_LEVEL, Z_DEFLATED, ZLIB_WINDOW_BITS, ZLIB_MEM_LEVEL,
			    Z_DEFAULT_STRATEGY) == Z_OK
		       ? KCD_OK
		       : KCD_ENOMEM;
}

/* One call's worth of input, at most FEED_MAX. */
static enum kcd_code zlib_feed_some(struct kcd_compressor *c, const uint8_t *in, size_t len,
				    int flush)
{
	c->z.next_in = (Bytef *)(uintptr_t)in; // only read
	c->z.avail_in = (uInt)len;
	do {
		c->z.next_out = c->buf;
		c->z.avail_out = OUT_SIZE;
		// Z_BUF_ERROR: nothing to do, as after a flush that just fitted
		(void)deflate(&c->z, flush);
		if (emit_compressed(c, OUT_SIZE - c->z.avail_out))
			return c->status;
	} while (c->z.avail_out == 0);
	assert(c->z.avail_in == 0);
	return KCD_OK;
}

static enum kcd_code zlib_feed(struct kcd_compressor *c, const uint8_t *in, size_t len,
			       enum flush flush)
{
	static const int modes[] = {
		[FLUSH_NONE] = Z_NO_FLUSH, [FLUSH_SYNC] = Z_SYNC_FLUSH, [FLUSH_FINISH] = Z_FINISH
	};

	while (len > FEED_MAX) {
		if (zlib_feed_some(c, in, FEED_MAX, Z_NO_FLUSH))
			return c->status;
		in += FEED_MAX;
		len -= FEED_MAX;
	}
	return zlib_feed_some(c, in, len, modes[flush]);
}

static size_t zlib_bound(struct kcd_compressor *c, size_t len)
{
	return deflateBound(&c->z, len) + 16; // and a flush
}

static void zlib_stop(struct kcd_compressor *c)
{
	(void)deflateEnd(&c->z); // its state is freed whatever it says
}

/* --- zstd ------------------------------------------------------------------------------------ */

static enum kcd_code zstd_start(struct kcd_compressor *c, const struct kcd_compress_params *p)
{
	int level = p->how.level ? p->how.level : KCD_ZSTD_LEVEL_DEFAULT;

	if (level < 1 || level > KCD_ZSTD_LEVEL_MAX)
		return KCD_EINVAL;
	c->zstd = ZSTD_createCCtx();
	if (!c->zstd)
		return KCD_ENOMEM;
	size_t bad = ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_compressionLevel, level);
	if (!ZSTD_isError(bad))
		bad = ZSTD_CCtx_setParameter(c->zstd, ZSTD_c_checksumFlag, 1);
	if (!ZSTD_isError(bad) && p->totalin)
		bad = ZSTD_CCtx_setPledgedSrcSize(c->zstd, p->totalin);
	return ZSTD_isError(bad) ? KCD_ENOMEM : KCD_OK;
}

static enum kcd_code zstd_feed(struct kcd_compressor *c, const uint8_t *in, size_t len,
			       enum flush flush)
{
	static const ZSTD_EndDirective modes[] = { [FLUSH_NONE] = ZSTD_e_continue,
						   [FLUSH_SYNC] = ZSTD_e_flush,
						   [FLUSH_FINISH] = ZSTD_e_end };
	ZSTD_inBuffer input = { in, len, 0 };
	bool more;

	do {
		ZSTD_outBuffer output = { c->buf, OUT_SIZE, 0 };
		size_t left = ZSTD_compressStream2(c->zstd, &output, &input, modes[flush]);
		if (ZSTD_isError(left)) {
			// it has checked the announced size: the only mistake that can be the
			// caller's
			c->status = c->announced ? KCD_EINVAL : KCD_ENOMEM;
			return c->status;
		}
		if (emit_compressed(c, output.pos))
			return c->status;
		more = flush == FLUSH_NONE ? input.pos < len : left != 0;
	} while (more);
	return KCD_OK;
}

static size_t zstd_bound(struct kcd_compressor *c, size_t len)
{
	(void)c;
	return ZSTD_compressBound(len) + 32; // and the frame's header
}

static void zstd_stop(struct kcd_compressor *c)
{
	(void)ZSTD_freeCCtx(c->zstd); // never fails
}

static const struct engine engines[] = {
	[KCD_COMPRESS_NONE] = { KCD_C_TYPE_NONE, none_start, none_feed, none_bound, none_stop },
	[KCD_COMPRESS_ZLIB] = { KCD_C_TYPE_ZLIB, zlib_start, zlib_feed, zlib_bound, zlib_stop },
	[KCD_COMPRESS_ZSTD] = { KCD_C_TYPE_ZSTD, zstd_start, zstd_feed, zstd_bound, zstd_stop },
};

#define ENGINES (sizeof(engines) / sizeof(engines[0]))

/* --- the compressor -------------------------------------------------------------------------- */

static struct kcd_header begin_of(const struct kcd_compress_params *p)
{
	return (struct kcd_header){ .type = p->magic,
				    .flags = p->old_begin ? 0 : KCD_FLAG_HAS_PADDING };
}

/* The wrapper up to the inner BEGIN. The writer makes the values; what it has no call for, a magic
 * inside of a buffer, goes where its END lies. */
static void make_wrapper(uint8_t out[static KCD_C_HEADER_SIZE], uint64_t c_type,
			 const struct kcd_header *begin)
{
	struct kcd_writer w;
	enum kcd_code rc = kcd_writer_init(&w, out, KCD_C_HEADER_SIZE, KCD_MAGIC_COMPRESSED, 0);

	if (!rc)
		rc = kcd_append_u64(&w, "kcd_c_type", c_type);
	if (!rc)
		rc = kcd_append_u64(&w, "kcd_c_totalout", 0);
	if (!rc)
		rc = kcd_append_u64(&w, "kcd_c_totalin", 0);
	assert(!rc && kcd_writer_used(&w) == KCD_C_HEADER_SIZE);
	(void)rc; // the sizes are constants
	memcpy(out + KCD_C_HEADER_SIZE - sizeof(*begin), begin, sizeof(*begin));
}

static enum kcd_code start(struct kcd_compressor *c, const struct kcd_compress_params *p)
{
	struct kcd_header begin = begin_of(p);
	uint8_t wrapper[KCD_C_HEADER_SIZE];

	if (c->engine->c_type == KCD_C_TYPE_NONE)
		return emit(c, &begin, sizeof(begin));
	make_wrapper(wrapper, c->engine->c_type, &begin);
	return emit(c, wrapper, sizeof(wrapper));
}

enum kcd_code kcd_compressor_create(const struct kcd_compress_params *params,
				    const struct kcd_output *out, struct kcd_compressor **c_out)
{
	size_t wrapper = KCD_C_HEADER_SIZE + FINISH_ROOM;

	if ((size_t)params->how.algorithm >= ENGINES || !kcd_is_magic(params->magic) ||
	    params->magic == KCD_MAGIC_COMPRESSED ||
	    (params->how.algorithm != KCD_COMPRESS_NONE && !out->patch))
		return KCD_EINVAL;
	if (out->room && out->room(out->arg) < wrapper)
		return KCD_ENOSPC;

	struct kcd_compressor *c = calloc(1, sizeof(*c));
	if (!c)
		return KCD_ENOMEM;
	c->engine = &engines[params->how.algorithm];
	c->out = *out;
	c->announced = params->totalin;
	enum kcd_code rc = c->engine->start(c, params);
	if (!rc)
		rc = start(c, params);
	if (rc) {
		kcd_compressor_destroy(c);
		return rc;
	}
	*c_out = c;
	return KCD_OK;
}

void kcd_compressor_destroy(struct kcd_compressor *c)
{
	if (!c)
		return;
	c->engine->stop(c);
	free(c);
}

/* Number of whole items in a run that may be in a buffer; 0: it is no such run. */
static size_t count_items(const uint8_t *items, size_t len)
{
	size_t n = 0;

	for (size_t pos = 0; pos < len; n++) {
		struct kcd_header h;

		if (len - pos < sizeof(h))
			return 0;
		memcpy(&h, items + pos, sizeof(h));
		pos += sizeof(h);
		if (h.size > len - pos || h.type == KCD_MAGIC_END || kcd_is_magic(h.type))
			return 0;
		pos += h.size;
	}
	return n;
}

/* Whether the output has room for the worst case of @p len more bytes. */
static bool has_room(struct kcd_compressor *c, size_t len)
{
	if (!c->out.room)
		return true;

	size_t room = c->out.room(c->out.arg);
	return room >= FINISH_ROOM && c->engine->bound(c, len) <= room - FINISH_ROOM;
}

static enum kcd_code check_input(struct kcd_compressor *c, size_t len)
{
	if (c->status)
		return c->status;
	if (c->finished || c->ended)
		return KCD_EINVAL;
	return has_room(c, len) ? KCD_OK : KCD_ENOSPC;
}

/* After the last piece of an item or a run was fed. */
static enum kcd_code fed(struct kcd_compressor *c, size_t len)
{
	c->totalin += len;
	c->finished = c->final;
	return c->status;
}

static enum flush last_flush(const struct kcd_compressor *c)
{
	return c->final ? FLUSH_FINISH : FLUSH_SYNC;
}

/* Padding bytes of an item; 0 where they are not recorded. */
static uint32_t item_padding(const struct kcd_header *h)
{
	uint32_t pad = 0;

	if (h->type == KCD_TYPE_CONTAINER_BEGIN)
		pad = h->size > 4 ? h->size - 4 : 0;
	else if (h->type == KCD_TYPE_CONTAINER_END)
		return 0;
	else if ((h->type & ~0xfu) == KCD_TYPE_ARRAY_PAD0)
		pad = h->type & 0xf;
	else
		pad = (uint32_t)h->flags & KCD_FLAG_PADDING_MASK;
	return pad < h->size ? pad : h->size;
}

enum kcd_code kcd_compressor_item(struct kcd_compressor *c, const void *item, size_t size)
{
	enum kcd_code rc = check_input(c, size);
	struct kcd_header h;

	if (rc)
		return rc;
	if (count_items(item, size) != 1)
		return KCD_EINVAL;
	memcpy(&h, item, sizeof(h));

	// header, payload, padding: the pieces of the original, so that the bytes are the same
	const uint8_t *at = item;
	size_t piece[3] = { sizeof(h), h.size - item_padding(&h), item_padding(&h) };
	size_t last = piece[2] ? 2 : piece[1] ? 1 : 0;
	for (size_t i = 0; i <= last && !rc; i++) {
		if (piece[i] || i == last)
			rc = c->engine->feed(c, at, piece[i],
					     i == last ? last_flush(c) : FLUSH_NONE);
		at += piece[i];
	}
	return rc ? rc : fed(c, size);
}

enum kcd_code kcd_compressor_run(struct kcd_compressor *c, const void *items, size_t len)
{
	enum kcd_code rc = check_input(c, len);

	if (rc)
		return rc;
	if (len && !count_items(items, len))
		return KCD_EINVAL;
	if (!len && !c->final)
		return KCD_OK;
	rc = c->engine->feed(c, items, len, last_flush(c));
	return rc ? rc : fed(c, len);
}

void kcd_compressor_finalise(struct kcd_compressor *c)
{
	c->final = true;
}

static enum kcd_code patch(struct kcd_compressor *c, uint64_t offset, uint64_t value)
{
	if (!c->status && !c->out.patch(c->out.arg, offset, &value, sizeof(value)))
		c->status = KCD_EIO;
	return c->status;
}

enum kcd_code kcd_compressor_end(struct kcd_compressor *c, struct kcd_compressed *result_out)
{
	static const struct kcd_header end = { .type = KCD_MAGIC_END };

	if (c->status)
		return c->status;
	if (c->ended || (c->announced && c->announced != c->totalin))
		return KCD_EINVAL;
	if (!c->finished && c->engine->feed(c, NULL, 0, FLUSH_FINISH))
		return c->status;
	c->finished = c->ended = true;
	if (emit(c, &end, sizeof(end)))
		return c->status;
	if (c->engine->c_type != KCD_C_TYPE_NONE &&
	    (patch(c, AT_TOTALOUT, c->totalout) || patch(c, AT_TOTALIN, c->totalin)))
		return c->status;
	if (result_out)
		*result_out = (struct kcd_compressed){ .totalin = c->totalin,
						       .totalout = c->totalout,
						       .written = c->written };
	return KCD_OK;
}

/* --- a writer in front of it ----------------------------------------------------------------- */

static struct kcd_chunk *zwriter_more(void *arg, struct kcd_chunk *full, size_t keep,
				      size_t min_size)
{
	struct kcd_zwriter *z = arg;
	struct kcd_chunk *next = &z->piece[full == &z->piece[0]];

	(void)keep; // the END behind the items is not part of the run
	if (z->status || min_size > next->size)
		return NULL;
	z->status = kcd_compressor_run(z->c, full->buf, full->used);
	return z->status ? NULL : next;
}

enum kcd_code kcd_zwriter_init(struct kcd_zwriter *z, struct kcd_compressor *c, void *memory,
			       size_t size)
{
	size_t half = size / 2 & ~(size_t)(KCD_ALIGN - 1);

	*z = (struct kcd_zwriter){
		.c = c,
		.piece = { { .buf = memory, .size = half },
			   { .buf = (uint8_t *)memory + half, .size = half } },
	};
	if (half < KCD_CHUNK_MIN)
		return KCD_ENOSPC;
	return kcd_writer_init_chain(&z->w, &z->piece[0], 0, KCD_WRITER_FRAGMENT, zwriter_more,
				     NULL, z);
}

enum kcd_code kcd_zwriter_close(struct kcd_zwriter *z)
{
	if (z->status)
		return z->status;
	if (kcd_writer_depth(&z->w))
		return KCD_EINVAL;
	kcd_compressor_finalise(z->c);
	z->status = kcd_compressor_run(z->c, z->w.chunk->buf, z->w.chunk->used);
	return z->status;
}

/* --- a finished stream ----------------------------------------------------------------------- */

struct extent {
	size_t start; /* of the items */
	size_t end;   /* where the END lies */
	size_t fill;  /* zeros behind the END */
	struct kcd_header begin;
};

static enum kcd_code fail_at(struct kcd_error *err, size_t offset, uint32_t type, const char *why)
{
	if (err) {
		*err = (struct kcd_error){ .code = KCD_EINVAL, .offset = offset, .type = type };
		memcpy(err->reason, why, strlen(why) + 1);
	}
	return KCD_EINVAL;
}

/* Zeros behind the END, when there is nothing else. */
static size_t fill_behind(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (p[i])
			return 0;
	}
	return len;
}

static enum kcd_code find_extent(const uint8_t *plain, size_t len, struct extent *e,
				 struct kcd_error *err)
{
	struct kcd_reader r;
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&r, plain, len, KCD_TOLERANT, err);

	if (rc)
		return rc;
	memcpy(&e->begin, plain, sizeof(e->begin));
	if (e->begin.size)
		return fail_at(err, 0, e->begin.type, "a BEGIN with a payload");
	e->start = e->end = r.pos;
	while (!(rc = kcd_reader_next(&r, &it))) {
		if (kcd_is_magic(it.raw_type))
			return fail_at(err, it.offset, it.raw_type,
				       "a buffer's BEGIN inside of a buffer");
		e->end = r.pos;
	}
	if (rc != KCD_DONE)
		return rc;
	// stray ENDs of containers are items too, which the reader steps over
	struct kcd_header end;
	memcpy(&end, plain + r.pos - sizeof(end), sizeof(end));
	if (end.type != KCD_MAGIC_END || end.size)
		return fail_at(err, r.pos, KCD_MAGIC_END, "an END with a payload");
	e->end = r.pos - sizeof(end);
	e->fill = fill_behind(plain + r.pos, len - r.pos);
	return KCD_OK;
}

static size_t item_size(const uint8_t *item)
{
	struct kcd_header h;

	memcpy(&h, item, sizeof(h));
	return sizeof(h) + h.size;
}

/* All items, in runs of about @p run bytes; the last one finishes. */
static enum kcd_code compress_items(struct kcd_compressor *c, const uint8_t *items, size_t len,
				    size_t run)
{
	for (size_t from = 0; from < len;) {
		size_t to = from;

		do
			to += item_size(items + to);
		while (to < len && to - from < run);
		if (to == len)
			kcd_compressor_finalise(c);
		enum kcd_code rc = run == KCD_RUN_ITEM
					   ? kcd_compressor_item(c, items + from, to - from)
					   : kcd_compressor_run(c, items + from, to - from);
		if (rc)
			return rc;
		from = to;
	}
	return KCD_OK;
}

static enum kcd_code put_fill(struct kcd_compressor *c, size_t len)
{
	static const uint8_t zeros[4096];

	while (len) {
		size_t n = len < sizeof(zeros) ? len : sizeof(zeros);

		if (c->out.room && c->out.room(c->out.arg) < n)
			return KCD_ENOSPC;
		if (emit(c, zeros, n))
			return c->status;
		len -= n;
	}
	return KCD_OK;
}

enum kcd_code kcd_compress_stream(const void *plain, size_t len, const struct kcd_compression *how,
				  size_t run, const struct kcd_output *out,
				  struct kcd_compressed *result_out, struct kcd_error *err)
{
	struct extent e = { 0 };
	struct kcd_compressed result = { 0 };
	struct kcd_compressor *c;
	enum kcd_code rc = find_extent(plain, len, &e, err);

	if (rc)
		return rc;
	struct kcd_compress_params params = {
		.how = *how,
		.magic = e.begin.type,
		.old_begin = !(e.begin.flags & KCD_FLAG_HAS_PADDING),
		.totalin = e.end - e.start,
	};
	rc = kcd_compressor_create(&params, out, &c);
	if (!rc) {
		rc = compress_items(c, (const uint8_t *)plain + e.start, e.end - e.start,
				    run ? run : KCD_RUN_DEFAULT);
		if (!rc)
			rc = kcd_compressor_end(c, &result);
		if (!rc)
			rc = put_fill(c, e.fill);
		kcd_compressor_destroy(c);
	}
	if (rc) {
		(void)fail_at(err, 0, 0, kcd_code_name(rc));
		if (err)
			err->code = rc;
		return rc;
	}
	result.written += e.fill;
	if (result_out)
		*result_out = result;
	return KCD_OK;
}
