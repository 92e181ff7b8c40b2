/* SPDX-License-Identifier: Apache-2.0 */
/* The kcdata record stream: its constants, the writer and the reader. */
#ifndef KCDATA_KCDATA_H
#define KCDATA_KCDATA_H

/*
 * A kcdata stream is a run of items. Little-endian, each item a header and a padded payload:
 *
 *	 0        4        8                16                16 + size
 *	+--------+--------+----------------+-----------------+
 *	| type   | size   | flags          | payload, zeros  |  next header ...
 *	+--------+--------+----------------+-----------------+
 *
 * The first item's type is the buffer's magic, the last one is KCD_MAGIC_END. `size` counts the
 * padding to 16 too; how much of it is padding is in the flags (records), in the low nibble of the
 * type (arrays), or fixed (containers). docs/kcdata.md has the whole format.
 *
 * Writing, into memory of the caller's:
 *
 *	struct kcd_writer w;
 *	if (kcd_writer_init(&w, buf, sizeof(buf), KCD_MAGIC_STACKSHOT, 0) ||
 *	    kcd_append_u64(&w, "stackshot_in_flags", flags) ||
 *	    kcd_container_begin(&w, KCD_SS_CONTAINER_TASK, id) || ... || kcd_container_end(&w, id))
 *		return out_of_room();
 *	write(fd, buf, kcd_writer_used(&w));
 *
 * Reading:
 *
 *	struct kcd_error err;
 *	struct kcd_reader r;
 *	struct kcd_item it;
 *	enum kcd_code rc = kcd_reader_init(&r, buf, len, KCD_TOLERANT, &err);
 *	while (!rc && !(rc = kcd_reader_next(&r, &it)))
 *		look_at(&it);
 *	if (rc != KCD_DONE)
 *		complain(err.offset, err.record, err.reason);
 *
 * Threads: no function here has state of its own; a writer or reader belongs to one thread at a
 * time, many may run side by side. Nothing in this header allocates, locks or makes system calls.
 * Nothing here needs any other part of guestshot.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kcdata is little-endian and this library does not swap bytes"
#endif

#define KCD_MUST_USE __attribute__((warn_unused_result))

#pragma GCC visibility push(default)

/* --- the format ------------------------------------------------------------------------------ */

/** Header of every item, as it lies in the stream. */
struct kcd_header {
	uint32_t type;
	uint32_t size; /* of the payload that follows, padding included */
	uint64_t flags;
};

_Static_assert(sizeof(struct kcd_header) == 16, "item headers have 16 bytes");

#define KCD_HEADER_SIZE 16u
#define KCD_ALIGN	16u
#define KCD_NAME_SIZE	32u /* names in values and type definitions, with their NUL */
#define KCD_DEPTH_MAX	16u /* most containers open at once, writing and reading */
#define KCD_PAYLOAD_MAX (UINT32_MAX - 15u)

#define KCD_FLAG_PADDING_MASK 0x0fu /* padding bytes of a record */
#define KCD_FLAG_HAS_PADDING  0x80u /* "the padding was recorded"; old writers left it clear */

/** First item of a buffer, and the last. */
enum kcd_magic {
	KCD_MAGIC_CRASHINFO = 0xDEADF157u,
	KCD_MAGIC_STACKSHOT = 0x59A25807u,
	KCD_MAGIC_DELTA_STACKSHOT = 0xDE17A59Au,
	KCD_MAGIC_COMPRESSED = 0x434F4D50u,
	KCD_MAGIC_BTINFO = 0x46414E47u,
	KCD_MAGIC_OS_REASON = 0x53A20900u,
	KCD_MAGIC_XNUPOST_CONFIG = 0x1E21C09Fu,
	KCD_MAGIC_END = 0xF19158EDu,
};

/** Types of the generic layer (below 0x800); stackshot_types.h has the stackshot's. */
enum kcd_generic_type {
	KCD_TYPE_INVALID = 0x0,
	KCD_TYPE_STRING_DESC = 0x1,
	KCD_TYPE_UINT32_DESC = 0x2,
	KCD_TYPE_UINT64_DESC = 0x3,
	KCD_TYPE_INT32_DESC = 0x4,
	KCD_TYPE_INT64_DESC = 0x5,
	KCD_TYPE_BINDATA_DESC = 0x6,
	KCD_TYPE_ARRAY = 0x11, /* old style; the reader also folds 0x20..0x2f to it */
	KCD_TYPE_TYPEDEFINITION = 0x12,
	KCD_TYPE_CONTAINER_BEGIN = 0x13,
	KCD_TYPE_CONTAINER_END = 0x14,
	KCD_TYPE_ARRAY_PAD0 = 0x20, /* 0x20 | padding bytes behind the elements */
	KCD_TYPE_LIBRARY_LOADINFO = 0x30,
	KCD_TYPE_LIBRARY_LOADINFO64 = 0x31,
	KCD_TYPE_TIMEBASE = 0x32,
	KCD_TYPE_MACH_ABSOLUTE_TIME = 0x33,
	KCD_TYPE_TIMEVAL = 0x34,
	KCD_TYPE_USECS_SINCE_EPOCH = 0x35,
	KCD_TYPE_PID = 0x36,
	KCD_TYPE_PROCNAME = 0x37,
	KCD_TYPE_NESTED_KCDATA = 0x38,
	KCD_TYPE_LIBRARY_AOTINFO = 0x39,
};

/** Whether @p type is the first item of some buffer (END is not). */
bool kcd_is_magic(uint32_t type);

/** Name of a magic ("STACKSHOT"), NULL for what is none. */
const char *kcd_magic_name(uint32_t type);

/* --- results --------------------------------------------------------------------------------- */

enum kcd_code {
	KCD_OK = 0,
	KCD_DONE,	 /* reader: the END was reached; not a failure */
	KCD_ENOSPC,	 /* out of room; the stream is as it was before the call, and valid */
	KCD_EMALFORMED,	 /* bytes that contradict the format */
	KCD_ETOOBIG,	 /* over a limit of ours: item size, depth, size of what is inflated */
	KCD_EINVAL,	 /* the caller's argument makes no sense, or is not legal here */
	KCD_ECOPY,	 /* the copy callback failed; the stream is as it was */
	KCD_ECOMPRESSED, /* reader: a compressed buffer; inflate it first */
	KCD_ENOTSUP,	 /* a compression algorithm that is not known */
	KCD_ENOMEM,	 /* out of memory (compression only) */
	KCD_EIO,	 /* the caller's sink refused bytes */
};

/** Name of a code for programs ("out-of-room", "malformed", ...); never NULL. */
const char *kcd_code_name(enum kcd_code code);

/** What is wrong with a stream. Which of these are errors depends on enum kcd_mode. */
enum kcd_finding {
	KCD_FIND_NONE,
	/* wrong in both modes */
	KCD_FIND_NO_MAGIC,	   /* does not start like any known buffer */
	KCD_FIND_TRUNCATED_HEADER, /* fewer than 16 bytes where an item should be: no END */
	KCD_FIND_TRUNCATED_ITEM,   /* the payload runs past the end of the bytes */
	KCD_FIND_ARRAY_SIZE,	   /* count, padding and size of an array contradict each other */
	KCD_FIND_ARRAY_ELEMENT,	   /* old-style array whose element size is not known */
	KCD_FIND_CONTAINER_SHORT,  /* a container's BEGIN without room for its type */
	KCD_FIND_CONTAINER_ID,	   /* a container's END with another id than its BEGIN */
	KCD_FIND_CONTAINER_OPEN,   /* END of the buffer inside of a container */
	KCD_FIND_TOO_DEEP,	   /* more than KCD_DEPTH_MAX containers in each other */
	/* wrong in both modes, of compressed buffers (compress.h) */
	KCD_FIND_FRAME,	    /* the wrapper lacks something: a descriptor, the inner BEGIN, bytes */
	KCD_FIND_ALGORITHM, /* compressed in a way that is not known */
	KCD_FIND_DATA,	    /* the compressed bytes are damaged, or have no end */
	KCD_FIND_LENGTH,    /* what comes out is not as long as the wrapper says */
	KCD_FIND_LIMIT,	    /* over a limit of the reader: size or window of what is compressed */
	/* wrong in both modes, seen by those who look into records (validate.h, json_view.h) */
	KCD_FIND_NESTED, /* a nested buffer that is none, or is compressed */
	/* wrong in strict mode, reported in tolerant mode */
	KCD_FIND_CONTAINER_STRAY, /* a container's END where none is open (tolerant: skipped) */
	KCD_FIND_PADDING,	  /* padding that is not zero */
	KCD_FIND_UNALIGNED,	  /* a payload size that is not a multiple of 16 */
	KCD_FIND_MAGIC_INSIDE,	  /* a buffer's magic inside of a buffer */
	KCD_FIND_TRAILING,	  /* bytes other than zero behind the END */
	/* the same, of compressed buffers */
	KCD_FIND_FRAME_EXTRA, /* other items than the three descriptors in the wrapper */
	KCD_FIND_FRAME_END,   /* no END behind the compressed bytes */
	KCD_FIND_SPAN_TAIL,   /* bytes behind the end of the compressed data */
	/* wrong in strict mode of kcd_validate(), and in Apple's library */
	KCD_FIND_KEY_REPEATED,	     /* two records of one name in one container */
	KCD_FIND_CONTAINER_REPEATED, /* two siblings of one container type with one id */
	KCD_FIND_TYPEDEF,	     /* a type definition that is not to be used */
	KCD_FIND_TOO_LARGE,	     /* 4 GiB or more */
	/* wrong in strict mode of kcd_validate() */
	KCD_FIND_FLAGS,		 /* flags that say something else than this type's flags can */
	KCD_FIND_VALUE_SHORT,	 /* a named value or a scalar without room for its value */
	KCD_FIND_VALUE_NAME,	 /* a named value whose name is empty, has no end, or breaks JSON */
	KCD_FIND_MAGIC_UNCOMMON, /* a buffer of a kind that Apple's readers do not open */
};

#define KCD_FINDINGS (KCD_FIND_MAGIC_UNCOMMON + 1)

/** Name of a finding for programs ("padding-not-zero", ...); never NULL. */
const char *kcd_finding_name(enum kcd_finding finding);

#define KCD_REASON_MAX 160

/** Where and why; owned by the caller, no allocation. */
struct kcd_error {
	enum kcd_code code;
	enum kcd_finding finding; /* KCD_FIND_NONE when the failure is not about the bytes */
	size_t offset;		  /* of the item's header, from the start of the bytes given */
	uint64_t record;	  /* number of the item; BEGIN is 0 */
	uint32_t type;		  /* its type as stored; 0 when not even the header is there */
	char reason[KCD_REASON_MAX];
};

/**
 * Takes bytes of output, in order.
 *
 * @return false: could not; the producer stops and returns KCD_EIO
 */
typedef bool (*kcd_sink_fn)(void *arg, const void *data, size_t len);

/* --- writer ---------------------------------------------------------------------------------- */

/**
 * Copies a payload into the stream (from a place where plain memcpy is not the right thing).
 *
 * @return false: could not; the append is undone and returns KCD_ECOPY
 */
typedef bool (*kcd_copy_fn)(void *arg, void *dst, const void *src, size_t len);

/**
 * One piece of a stream that lies in several. Owned by the caller, as is its memory.
 * The bytes [buf, buf + used) are whole items; behind them lies an END, so that each piece can be
 * looked at alone. The stream is the pieces' items one after another.
 */
struct kcd_chunk {
	struct kcd_chunk *next;
	void *buf;
	size_t size; /* of buf; at least KCD_CHUNK_MIN */
	size_t used; /* kept up to date by the writer */
};

#define KCD_CHUNK_MIN (2 * KCD_HEADER_SIZE)

/**
 * Gives a writer its next piece when the current one is full.
 *
 * @param full      the piece that is left. The callback may take back what lies behind its first
 *                  @p keep bytes, by lowering full->size
 * @param min_size  least size of the new piece
 * @return a piece with buf and size set (the writer sets next and used); NULL: none left, and the
 *         append fails with KCD_ENOSPC
 */
typedef struct kcd_chunk *(*kcd_more_fn)(void *arg, struct kcd_chunk *full, size_t keep,
					 size_t min_size);

/**
 * Takes back a piece that a rewind emptied. May be NULL in the writer.
 */
typedef void (*kcd_less_fn)(void *arg, struct kcd_chunk *chunk);

enum kcd_writer_flag {
	/* No BEGIN: a run of items to be spliced into another stream by kcd_append_items/_chain. */
	KCD_WRITER_FRAGMENT = 1u << 0,
	/* BEGIN without KCD_FLAG_HAS_PADDING, as writers had it before padding was recorded. */
	KCD_WRITER_OLD_BEGIN = 1u << 1,
};

/**
 * A stream being written. Fields are private; the struct may be copied or moved between calls.
 *
 * After every successful call the memory holds a stream that ends in END. The room of the END, and
 * of one container END for each open container, is set aside: kcd_container_end() never runs out
 * of room, so that a writer that is full can always be closed properly. During a call the previous
 * END is overwritten last, by the header of the new item.
 */
struct kcd_writer {
	uint8_t *buf;
	size_t size;
	size_t used; /* bytes of whole items: where the END lies */
	uint32_t depth;
	uint32_t flags;
	kcd_copy_fn copy;
	void *copy_arg;
	struct kcd_chunk *chunk; /* NULL: a single buffer */
	kcd_more_fn more;
	kcd_less_fn less;
	void *chain_arg;
	uint64_t open_id[KCD_DEPTH_MAX];
};

/**
 * Start a stream in a buffer: writes BEGIN (unless a fragment) and END.
 *
 * @param buf    borrowed until the caller is done with the stream; no alignment needed
 * @param magic  one of enum kcd_magic but END; ignored for a fragment
 * @param flags  enum kcd_writer_flag
 * @return KCD_OK; KCD_ENOSPC: @p size is below 32 (16 for a fragment); KCD_EINVAL: not a magic
 */
KCD_MUST_USE enum kcd_code kcd_writer_init(struct kcd_writer *w, void *buf, size_t size,
					   uint32_t magic, uint32_t flags);

/**
 * Start a stream that continues in further pieces.
 *
 * @param first  its buf and size are set by the caller; stays the head of the list
 * @param more   called when a record does not fit; a record never spans pieces
 * @param less   may be NULL; gets the pieces that kcd_writer_rewind() empties
 * @return as kcd_writer_init()
 */
KCD_MUST_USE enum kcd_code kcd_writer_init_chain(struct kcd_writer *w, struct kcd_chunk *first,
						 uint32_t magic, uint32_t flags, kcd_more_fn more,
						 kcd_less_fn less, void *arg);

/** Let kcd_append() and kcd_append_array() copy through @p copy; NULL: memcpy. */
void kcd_writer_set_copy(struct kcd_writer *w, kcd_copy_fn copy, void *arg);

/** Bytes of the stream in the current piece, END included. */
static inline size_t kcd_writer_used(const struct kcd_writer *w)
{
	return w->used + KCD_HEADER_SIZE;
}

/** Bytes of payload (padding included) that a record appended now may have in this piece. */
size_t kcd_writer_room(const struct kcd_writer *w);

/** Containers open now. A stream is complete only when this is 0. */
static inline uint32_t kcd_writer_depth(const struct kcd_writer *w)
{
	return w->depth;
}

/**
 * Append a record: a struct, string or scalar with the padding recorded.
 *
 * @param type  not 0, not a magic, not one of the types with their own calls (0x11..0x14,
 *              0x20..0x2f)
 * @param data  borrowed; may be NULL when @p len is 0
 * @param len   logical bytes, 0 ... KCD_PAYLOAD_MAX
 * @return KCD_OK; KCD_ENOSPC; KCD_EINVAL: such a type; KCD_ETOOBIG; KCD_ECOPY.
 *         After an error the stream is as before.
 */
KCD_MUST_USE enum kcd_code kcd_append(struct kcd_writer *w, uint32_t type, const void *data,
				      size_t len);

/**
 * Append a record of @p len zero bytes to be filled in.
 *
 * @param data_out  its payload; stays valid, and may be changed, as long as the stream's memory.
 *                  Not aligned unless the buffer is (then to 16)
 * @return as kcd_append()
 */
KCD_MUST_USE enum kcd_code kcd_reserve(struct kcd_writer *w, uint32_t type, size_t len,
				       void **data_out);

/**
 * Append a string with its NUL as a record.
 *
 * @param max  most bytes to store, NUL included, at least 1; a longer string is cut
 * @return as kcd_append()
 */
KCD_MUST_USE enum kcd_code kcd_append_string(struct kcd_writer *w, uint32_t type, const char *str,
					     size_t max);

/**
 * Append a named value, a record that readers show under its name.
 *
 * @param name  1 ... 31 printable ASCII characters without '"' and '\\' (the stock reader pastes
 *              names into JSON as they are)
 * @return as kcd_append(); KCD_EINVAL: such a name
 */
KCD_MUST_USE enum kcd_code kcd_append_u32(struct kcd_writer *w, const char *name, uint32_t value);
KCD_MUST_USE enum kcd_code kcd_append_u64(struct kcd_writer *w, const char *name, uint64_t value);

/**
 * Append an array in the new style (type 0x20 | padding).
 *
 * @param count      elements, 0 is legal
 * @param elem_size  bytes each, at least 1 unless @p count is 0
 * @param data       @p count elements back to back
 * @return as kcd_append()
 */
KCD_MUST_USE enum kcd_code kcd_append_array(struct kcd_writer *w, uint32_t elem_type,
					    uint32_t count, size_t elem_size, const void *data);

/** The same with zeroed elements to be filled in; see kcd_reserve(). */
KCD_MUST_USE enum kcd_code kcd_reserve_array(struct kcd_writer *w, uint32_t elem_type,
					     uint32_t count, size_t elem_size, void **data_out);

/**
 * Open a container. Ids must be unique among the siblings of one container type.
 *
 * @return as kcd_append(); KCD_ETOOBIG: KCD_DEPTH_MAX are open
 */
KCD_MUST_USE enum kcd_code kcd_container_begin(struct kcd_writer *w, uint32_t container_type,
					       uint64_t id);

/**
 * Close the innermost container. Has its room set aside, so it does not run out of it.
 *
 * @return KCD_OK; KCD_EINVAL: none is open, or its id is another
 */
KCD_MUST_USE enum kcd_code kcd_container_end(struct kcd_writer *w, uint64_t id);

struct kcd_item;

/**
 * Append an item as a reader gave it, byte for byte: old encodings, sizes that are no multiple of
 * 16 and what padding holds are kept. Items of containers open and close containers.
 *
 * @return as kcd_append(); KCD_EINVAL: a container's END that does not fit, a buffer's BEGIN
 */
KCD_MUST_USE enum kcd_code kcd_append_item(struct kcd_writer *w, const struct kcd_item *item);

struct kcd_type;

/**
 * Append the definition of a type (see schema.h), so that readers without it can print its records.
 * Must come before the type's first record.
 *
 * @return as kcd_append(); KCD_EINVAL: a container is open (a stock reader ignores definitions
 *         there), the type has no fields, is in Apple's range (below 0x1100), or a name is empty
 *         or longer than 31
 */
KCD_MUST_USE enum kcd_code kcd_append_typedef(struct kcd_writer *w, const struct kcd_type *type);

/**
 * Append items that lie elsewhere (a fragment, without its END).
 *
 * @param items  whole items as a writer made them (sizes a multiple of 16), containers closed
 * @return as kcd_append(); KCD_EINVAL: the items are not whole, or not closed
 */
KCD_MUST_USE enum kcd_code kcd_append_items(struct kcd_writer *w, const void *items, size_t len);

/**
 * Append the items of a chain of fragments, all or none of them, in one piece.
 *
 * @param first  head of the list; its streams were made with KCD_WRITER_FRAGMENT and are closed
 * @return as kcd_append_items()
 */
KCD_MUST_USE enum kcd_code kcd_append_chain(struct kcd_writer *w, const struct kcd_chunk *first);

/** A place in a stream to go back to. */
struct kcd_mark {
	struct kcd_chunk *chunk;
	size_t used;
	uint32_t depth;
	uint64_t open_id; /* of the innermost container, when depth is not 0 */
};

/** Remember where the stream is now. */
struct kcd_mark kcd_writer_mark(const struct kcd_writer *w);

/**
 * Drop everything appended since @p mark. Pieces added since then go to the `less` callback.
 *
 * @return KCD_OK; KCD_EINVAL: a container that was open at @p mark has been closed since, or the
 *         stream does not reach that far (any more)
 */
KCD_MUST_USE enum kcd_code kcd_writer_rewind(struct kcd_writer *w, struct kcd_mark mark);

/* --- reader ---------------------------------------------------------------------------------- */

enum kcd_mode {
	KCD_TOLERANT, /* what Apple's readers take is taken; oddities go to the finding callback */
	KCD_STRICT,   /* every finding is an error */
};

enum kcd_item_kind {
	KCD_ITEM_RECORD, /* struct, string or scalar, nested buffers included */
	KCD_ITEM_ARRAY,
	KCD_ITEM_CONTAINER_BEGIN,
	KCD_ITEM_CONTAINER_END,
	KCD_ITEM_TYPEDEF,
};

/** One item; pointers go into the bytes given to kcd_reader_init(). Not aligned: copy fields out.
 */
struct kcd_item {
	enum kcd_item_kind kind;
	uint32_t type;	    /* arrays: KCD_TYPE_ARRAY, whatever the encoding */
	uint32_t elem_type; /* arrays; else the type again */
	uint32_t count;	    /* arrays; else 1 */
	uint32_t elem_size; /* arrays; else the size again */
	uint32_t size;	    /* logical bytes at data, padding not counted */
	const uint8_t *data;
	uint32_t depth;		 /* containers around this item; BEGIN and END count as outside */
	uint32_t container_type; /* of the innermost one, 0 if none; BEGIN and END: their own */
	uint64_t container_id;
	uint64_t record;   /* number of the item in the buffer; BEGIN of the buffer is 0 */
	size_t offset;	   /* of its header */
	uint32_t raw_type; /* header as stored */
	uint32_t raw_size;
	uint64_t raw_flags;
};

/** Gets what a tolerant reader overlooks; @p finding is valid during the call. */
typedef void (*kcd_finding_fn)(void *arg, const struct kcd_error *finding);

struct kcd_container {
	uint32_t type;
	uint64_t id;
	size_t offset;
};

/** An iterator; fields are private but for magic. */
struct kcd_reader {
	const uint8_t *buf;
	size_t len;
	size_t pos; /* of the next header; after KCD_DONE, behind the END */
	uint64_t record;
	uint32_t magic; /* of the buffer */
	enum kcd_mode mode;
	enum kcd_code status; /* sticky: what ended the iteration */
	uint32_t depth;
	struct kcd_error *err;
	kcd_finding_fn finding;
	void *finding_arg;
	struct kcd_container open[KCD_DEPTH_MAX];
};

/**
 * Start reading a buffer.
 *
 * @param buf  borrowed while the reader and its items are used; no alignment needed
 * @param err  may be NULL; filled by this and by kcd_reader_next() unless they return KCD_OK or
 *             KCD_DONE
 * @return KCD_OK; KCD_EMALFORMED; KCD_ECOMPRESSED: the items are compressed (see compress.h)
 */
KCD_MUST_USE enum kcd_code kcd_reader_init(struct kcd_reader *r, const void *buf, size_t len,
					   enum kcd_mode mode, struct kcd_error *err);

/** Have findings that are no errors reported; NULL: not. Call it right after the init. */
void kcd_reader_on_finding(struct kcd_reader *r, kcd_finding_fn finding, void *arg);

/**
 * Get the next item.
 *
 * @return KCD_OK; KCD_DONE: the END was reached, @p item_out is untouched; KCD_EMALFORMED;
 *         KCD_ETOOBIG: nested too deep. Once it is not KCD_OK it stays what it was.
 * Each call moves on by at least 16 bytes and allocates nothing.
 */
KCD_MUST_USE enum kcd_code kcd_reader_next(struct kcd_reader *r, struct kcd_item *item_out);

/**
 * Name and value of a 32- or 64-bit named value (signed ones are sign-extended).
 *
 * @param name_out  points into the item, NUL-terminated within 32 bytes
 * @return false: another item, too short, or its name has no end
 */
bool kcd_item_value(const struct kcd_item *item, const char **name_out, uint64_t *value_out);

/**
 * Copy a record into a struct of perhaps another version: what the item lacks becomes zero, what
 * the struct lacks is dropped.
 *
 * @return bytes that came from the item
 */
size_t kcd_item_copy(const struct kcd_item *item, void *dst, size_t dst_size);

/** The same for element @p index (below item->count) of an array; a record is its own element 0. */
size_t kcd_item_copy_elem(const struct kcd_item *item, uint32_t index, void *dst, size_t dst_size);

#pragma GCC visibility pop

#endif
