/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed kcdata buffers: writing them piece by piece, and getting the plain stream back. */
#ifndef KCDATA_COMPRESS_H
#define KCDATA_COMPRESS_H

/*
 * A compressed buffer is a plain wrapper around the compressed items of a plain one:
 *
 *	0x00  16  BEGIN, type KCD_MAGIC_COMPRESSED
 *	0x10  64  named value "kcd_c_type"      1: zlib (Apple's), 0x6474737A: zstd (ours)
 *	0x50  64  named value "kcd_c_totalout"  compressed bytes
 *	0x90  64  named value "kcd_c_totalin"   bytes of items
 *	0xD0  16  BEGIN of the buffer itself
 *	0xE0      compressed bytes of all items between BEGIN and END
 *	          END, wherever that is: not aligned
 *
 * The totals are written as 0 first and patched at the end, so that an interrupted writer leaves
 * what is seen to be incomplete. Stock readers open zlib; zstd they refuse, and say so.
 *
 * From a stream that is finished, into a file:
 *
 *	struct kcd_output out = { write_it, pwrite_it, NULL, &file };
 *	rc = kcd_compress_stream(plain, len, &how, 0, &out, NULL, &err);
 *
 * As records are made, with memory for two pieces instead of the whole stream:
 *
 *	kcd_compressor_create(&params, &out, &c);
 *	kcd_zwriter_init(&z, c, memory, sizeof(memory));
 *	kcd_append_u64(&z.w, ...); ...
 *	kcd_zwriter_close(&z);
 *	kcd_compressor_end(c, NULL);
 *	kcd_compressor_destroy(c);
 *
 * Reading:
 *
 *	rc = kcd_inflate(bytes, len, NULL, 0, &plain, &plain_len, &err);
 *	... kcd_reader_init(&r, plain, plain_len, ...), free(plain)
 *
 * Threads: a compressor belongs to one thread at a time; the rest has no state. Compressors and
 * kcd_inflate() allocate; what they take does not depend on what a file says about itself.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kcdata/kcdata.h"

#pragma GCC visibility push(default)

/** Values of "kcd_c_type". */
#define KCD_C_TYPE_NONE UINT64_C(0)
#define KCD_C_TYPE_ZLIB UINT64_C(1)
#define KCD_C_TYPE_ZSTD UINT64_C(0x6474737A) /* "zstd" */

#define KCD_C_HEADER_SIZE 0xE0u /* bytes in front of the compressed ones */

enum kcd_algorithm {
	KCD_COMPRESS_NONE, /* no wrapper: a plain buffer, which any reader opens */
	KCD_COMPRESS_ZLIB,
	KCD_COMPRESS_ZSTD,
};

#define KCD_ZSTD_LEVEL_MAX     19
#define KCD_ZSTD_LEVEL_DEFAULT 1

struct kcd_compression {
	enum kcd_algorithm algorithm;
	int level; /* zstd: 1 ... KCD_ZSTD_LEVEL_MAX, 0: the default. zlib has one only (2.2) */
};

/** Parse "none", "zlib", "zstd" or "zstd:LEVEL". @return false: not that */
KCD_MUST_USE bool kcd_compression_parse(const char *text, struct kcd_compression *how_out);

/** "none", "zlib", "zstd"; never NULL. */
const char *kcd_algorithm_name(enum kcd_algorithm algorithm);

/* --- output ---------------------------------------------------------------------------------- */

/** Writes over bytes that the sink took before, at @p offset from the first of them. */
typedef bool (*kcd_patch_fn)(void *arg, uint64_t offset, const void *data, size_t len);

/** Bytes that the sink can still take. */
typedef size_t (*kcd_room_fn)(void *arg);

/** Where a compressor's bytes go. */
struct kcd_output {
	kcd_sink_fn sink;
	kcd_patch_fn patch; /* may be NULL for KCD_COMPRESS_NONE */
	kcd_room_fn room;   /* NULL: no limit; else a shortage is KCD_ENOSPC, seen beforehand */
	void *arg;
};

/** A caller's buffer as output. */
struct kcd_buffer {
	uint8_t *data;
	size_t size;
	size_t used;
};

/** Output into @p buffer, which must stay where it is. */
struct kcd_output kcd_buffer_output(struct kcd_buffer *buffer);

/* --- writing --------------------------------------------------------------------------------- */

struct kcd_compress_params {
	struct kcd_compression how;
	uint32_t magic; /* of the buffer; not KCD_MAGIC_COMPRESSED */
	bool old_begin; /* BEGIN without KCD_FLAG_HAS_PADDING (KCD_WRITER_OLD_BEGIN) */
	/*
	 * Bytes of items there will be, 0: not known. For zstd it is put into the frame's header,
	 * and kcd_compressor_end() fails with KCD_EINVAL when it was not true.
	 */
	uint64_t totalin;
};

struct kcd_compressor;

/**
 * Start a compressed buffer: writes the wrapper.
 *
 * @param params  not kept
 * @param out     copied; what it points at is borrowed
 * @param c_out   returned: free with kcd_compressor_destroy()
 * @return KCD_OK; KCD_EINVAL: not a magic, such a level, no patch callback; KCD_ENOMEM; KCD_EIO;
 *         KCD_ENOSPC
 */
KCD_MUST_USE enum kcd_code kcd_compressor_create(const struct kcd_compress_params *params,
						 const struct kcd_output *out,
						 struct kcd_compressor **c_out);

/** Free a compressor; NULL is taken. What was not ended stays incomplete in the output. */
void kcd_compressor_destroy(struct kcd_compressor *c);

/**
 * Compress one item, header and padding included, and flush: a reader of a cut file gets it whole.
 *
 * @param item  as it lies in a plain stream
 * @return KCD_OK; KCD_ENOSPC: not enough room for the worst case of this item; nothing was written,
 *         smaller items and the end still may fit. KCD_EINVAL: not one whole item, END or a magic,
 *         or the stream is final. KCD_EIO, KCD_ENOMEM: as from now on.
 */
KCD_MUST_USE enum kcd_code kcd_compressor_item(struct kcd_compressor *c, const void *item,
					       size_t size);

/**
 * Compress a run of whole items with one flush behind it: the "window" of the format (2.3). Fewer
 * and larger runs compress better.
 *
 * @return as kcd_compressor_item(); @p len may be 0
 */
KCD_MUST_USE enum kcd_code kcd_compressor_run(struct kcd_compressor *c, const void *items,
					      size_t len);

/** The next item or run is the last: it finishes the compressed data instead of flushing. */
void kcd_compressor_finalise(struct kcd_compressor *c);

/** What became of a stream. */
struct kcd_compressed {
	uint64_t totalin;  /* bytes of items */
	uint64_t totalout; /* compressed */
	uint64_t written;  /* in all: wrapper, END */
};

/**
 * Finish: the END, and the totals patched in.
 *
 * @param result_out  may be NULL
 * @return KCD_OK; KCD_EINVAL: the announced totalin was another, or it was ended before; KCD_EIO
 */
KCD_MUST_USE enum kcd_code kcd_compressor_end(struct kcd_compressor *c,
					      struct kcd_compressed *result_out);

/**
 * A writer (kcdata.h) whose memory is two pieces, each compressed as one run when it is full and
 * then used again. Use its member w like any writer; what kcd_reserve() gave must not be touched
 * after the next append, and marks only last until then.
 */
struct kcd_zwriter {
	struct kcd_writer w;
	struct kcd_compressor *c;
	struct kcd_chunk piece[2];
	enum kcd_code status; /* of the compressor; when not KCD_OK, appends fail: KCD_ENOSPC */
};

/**
 * Start a writer in front of a compressor.
 *
 * @param memory  borrowed; half of it is the largest record there can be
 * @return KCD_OK; KCD_ENOSPC: @p size is too small
 */
KCD_MUST_USE enum kcd_code kcd_zwriter_init(struct kcd_zwriter *z, struct kcd_compressor *c,
					    void *memory, size_t size);

/**
 * Compress what is left, as the stream's last run. kcd_compressor_end() comes next.
 *
 * @return as kcd_compressor_run(); KCD_EINVAL: a container is open
 */
KCD_MUST_USE enum kcd_code kcd_zwriter_close(struct kcd_zwriter *z);

#define KCD_RUN_DEFAULT (128u << 10)
#define KCD_RUN_ITEM	1u /* a run for each item */

/**
 * Compress a finished plain stream. Zeros behind its END are kept, behind the new END.
 *
 * @param plain       read twice, never copied as a whole
 * @param run         bytes after which a run is flushed; 0: KCD_RUN_DEFAULT
 * @param result_out  may be NULL
 * @param err         may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED: @p plain is not whole; KCD_EINVAL: it has something the wrapper
 *         cannot keep (a BEGIN or END with a payload); KCD_ECOMPRESSED; else as the calls above
 */
KCD_MUST_USE enum kcd_code kcd_compress_stream(const void *plain, size_t len,
					       const struct kcd_compression *how, size_t run,
					       const struct kcd_output *out,
					       struct kcd_compressed *result_out,
					       struct kcd_error *err);

/* --- reading --------------------------------------------------------------------------------- */

/** What the wrapper of a compressed buffer says. */
struct kcd_frame {
	uint64_t c_type; /* KCD_C_TYPE_... or unknown */
	uint64_t totalout;
	uint64_t totalin;
	uint32_t magic;	      /* of the buffer inside */
	uint64_t begin_flags; /* of its BEGIN */
	size_t start;	      /* of the compressed bytes */
	size_t end; /* behind the END, or behind the compressed bytes when it is missing */
};

/**
 * Read the wrapper.
 *
 * @param mode     KCD_STRICT: oddities are errors
 * @param finding  gets oddities otherwise; may be NULL
 * @param err      may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED; KCD_EINVAL: not a compressed buffer. When only the compressed
 *         bytes are cut short, @p frame_out is filled all the same, with what there is of them
 */
KCD_MUST_USE enum kcd_code kcd_frame_parse(const void *buf, size_t len, enum kcd_mode mode,
					   kcd_finding_fn finding, void *finding_arg,
					   struct kcd_frame *frame_out, struct kcd_error *err);

/** Most that a reader lets a file make it do. */
struct kcd_inflate_limits {
	uint64_t totalin_max;	 /* bytes of items; 0: KCD_INFLATE_MAX */
	uint32_t window_log_max; /* zstd's window is at most 2^this; 0: KCD_WINDOW_LOG_MAX */
};

#define KCD_INFLATE_MAX	   (UINT64_C(1) << 30)
#define KCD_WINDOW_LOG_MAX 23u /* what our highest level needs: 8 MiB */

enum kcd_inflate_flag {
	KCD_INFLATE_SALVAGE = 1u << 0, /* after damage, deliver what came before it */
	KCD_INFLATE_STRICT = 1u << 1,  /* oddities of the wrapper are errors */
};

/**
 * Deliver the plain stream of a compressed buffer piece by piece: BEGIN, items, END, zero fill.
 * Memory: that of the algorithm and 128 KiB.
 *
 * @param limits  may be NULL
 * @param flags   enum kcd_inflate_flag
 * @param err     may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED; KCD_ENOTSUP: unknown algorithm; KCD_ETOOBIG: over a limit;
 *         KCD_ENOMEM; KCD_EIO: the sink; KCD_EINVAL: not compressed.
 *         Bytes before the damage have been delivered; an END comes only when all went well.
 */
KCD_MUST_USE enum kcd_code kcd_inflate_stream(const void *buf, size_t len,
					      const struct kcd_inflate_limits *limits,
					      uint32_t flags, kcd_sink_fn sink, void *arg,
					      struct kcd_error *err);

/**
 * The same into one buffer, which grows as bytes come out, never beyond the limit.
 *
 * @param plain_out  returned: free with free(). After damage: NULL, or with KCD_INFLATE_SALVAGE
 *                   what came before it (NULL when not even the wrapper could be read)
 * @return as kcd_inflate_stream()
 */
KCD_MUST_USE enum kcd_code kcd_inflate(const void *buf, size_t len,
				       const struct kcd_inflate_limits *limits, uint32_t flags,
				       uint8_t **plain_out, size_t *len_out, struct kcd_error *err);

#pragma GCC visibility pop

#endif
