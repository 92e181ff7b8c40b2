/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON writer: no tree, no allocation, output through a sink. */
#ifndef KCDATA_JSON_H
#define KCDATA_JSON_H

/*
 * Usage:
 *
 *	struct kcd_json j;
 *	kcd_json_init(&j, sink, arg, KCD_JSON_PRETTY);
 *	kcd_json_object_begin(&j);
 *	kcd_json_key(&j, "threads");
 *	kcd_json_u64(&j, n);
 *	kcd_json_key(&j, "comm");
 *	kcd_json_string_n(&j, comm, sizeof(comm));
 *	kcd_json_object_end(&j);
 *	if (kcd_json_finish(&j) != KCD_OK)
 *		complain();
 *
 * Calls that make no document (a value without its key in an object, a key in an array, an end
 * that does not match, a second value at the top) are mistakes of the program and trip an assert.
 * Once the sink has refused bytes everything else is dropped, and kcd_json_finish() says so: there
 * is no need to check in between, but kcd_json_failed() lets a long producer stop early.
 *
 * Threads: a writer belongs to one thread at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kcdata/kcdata.h"

#pragma GCC visibility push(default)

#define KCD_JSON_DEPTH_MAX 64u /* objects and arrays in each other */

/** How the output looks; the three KCD_JSON_BYTES_... exclude each other. */
enum kcd_json_flag {
	KCD_JSON_PRETTY = 1u << 0, /* a member a line, indented by two spaces, final newline */

	/*
	 * Bytes of strings that are not valid UTF-8. Without a flag each becomes U+FFFD: the output
	 * is valid for every JSON parser.
	 * SURROGATE: each becomes the lone surrogate U+DC00 + byte, written \udcXX. The bytes can
	 * be got back (Python: s.encode("utf-8", "surrogateescape")), but strict parsers refuse it.
	 * STOCK: so does every byte of 0x80 or more, also in valid UTF-8; as the stock reader
	 *   prints strings.
	 */
	KCD_JSON_BYTES_SURROGATE = 1u << 1,
	KCD_JSON_BYTES_STOCK = 1u << 2,

	/* '<', '>' and '&' escaped, for JSON inside of HTML (also in a <script>). */
	KCD_JSON_HTML_SAFE = 1u << 3,
};

/** Fields are private. */
struct kcd_json {
	kcd_sink_fn sink;
	void *arg;
	uint32_t flags;
	uint32_t depth;
	uint64_t is_object; /* bit d - 1: what was opened at depth d is an object */
	uint64_t has_some;  /* bit d - 1: it has a member already */
	bool top_done;	    /* the document's value is there */
	bool after_key;	    /* a key waits for its value */
	bool failed;
	uint32_t fill;
	char buf[1024];
};

/**
 * Start a document.
 *
 * @param sink   gets the text in pieces; @p arg is passed on
 * @param flags  enum kcd_json_flag
 */
void kcd_json_init(struct kcd_json *j, kcd_sink_fn sink, void *arg, uint32_t flags);

/**
 * Finish the document and flush it. It must be complete.
 *
 * @return KCD_OK; KCD_EIO: the sink refused something on the way
 */
KCD_MUST_USE enum kcd_code kcd_json_finish(struct kcd_json *j);

/** Give the sink what has been produced so far (a live view, a socket). */
void kcd_json_flush(struct kcd_json *j);

/** Whether the sink has refused bytes. */
static inline bool kcd_json_failed(const struct kcd_json *j)
{
	return j->failed;
}

/**
 * Start the next document of a stream of them, one a line; the last one must be complete.
 */
void kcd_json_next_document(struct kcd_json *j);

void kcd_json_object_begin(struct kcd_json *j);
void kcd_json_object_end(struct kcd_json *j);
void kcd_json_array_begin(struct kcd_json *j);
void kcd_json_array_end(struct kcd_json *j);

/** Name of the next member of an object; escaped like a string. */
void kcd_json_key(struct kcd_json *j, const char *key);
/** The same, up to a NUL or @p max bytes. */
void kcd_json_key_n(struct kcd_json *j, const char *key, size_t max);

/** A string, escaped; NULL is written as null. */
void kcd_json_string(struct kcd_json *j, const char *str);
/** The same, up to a NUL or @p max bytes, for what has no certain end. */
void kcd_json_string_n(struct kcd_json *j, const char *str, size_t max);
/** All @p len bytes, NULs included (\u0000). */
void kcd_json_string_bytes(struct kcd_json *j, const void *bytes, size_t len);

void kcd_json_u64(struct kcd_json *j, uint64_t value);
void kcd_json_i64(struct kcd_json *j, int64_t value);
/** "0x1f": addresses and flags; many parsers lose bits of numbers over 2^53. */
void kcd_json_hex(struct kcd_json *j, uint64_t value);
/** @p value / 10^@p decimals (0 ... 18) without rounding: milliseconds from nanoseconds. */
void kcd_json_fixed(struct kcd_json *j, uint64_t value, uint32_t decimals);
void kcd_json_bool(struct kcd_json *j, bool value);
void kcd_json_null(struct kcd_json *j);

/* A key with its value. */
void kcd_json_member_string(struct kcd_json *j, const char *key, const char *str);
void kcd_json_member_u64(struct kcd_json *j, const char *key, uint64_t value);
void kcd_json_member_i64(struct kcd_json *j, const char *key, int64_t value);
void kcd_json_member_hex(struct kcd_json *j, const char *key, uint64_t value);
void kcd_json_member_bool(struct kcd_json *j, const char *key, bool value);

#pragma GCC visibility pop

#endif
