/* SPDX-License-Identifier: Apache-2.0 */
/* Books: what logs held at some time, whole in itself; saved, loaded, merged and counted. */
#ifndef INTROSPECT_BTLOG_BOOK_H
#define INTROSPECT_BTLOG_BOOK_H

/*
 * A book needs neither library nor guest any more: it has the stacks with the names of their functions,
 * the kernel they are of, and every record with its wall-clock time.
 *
 *	struct btl_book book = { 0 };
 *	struct btl_counts c;
 *
 *	if (!btl_book_take(&book, log, &(struct btl_kernel){ .banner = banner }, name_of, kernel, &err) &&
 *	    !btl_count_functions(&book, NULL, &c, &err)) {
 *		for (uint32_t i = 0; i < c.count; i++)
 *			show(btl_function_name(&book, &c.function[i], buf), c.function[i].self);
 *		btl_counts_deinit(&c);
 *	}
 *	btl_book_deinit(&book);
 *
 * A book that is all zeros is an empty one. Threads: a book belongs to one thread at a time; btl_book_take()
 * may run beside anything that uses the log. Names in books that were loaded are a file's: escape them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/btlog/btlog.h"
#include "introspect/btlog/records.h"

struct btl_symbol {
	uint64_t start;
	uint64_t size;
	uint32_t flags;	 /* enum btl_symbol_flag */
	uint32_t module; /* or BTL_NONE */
	char *name;
};

/** Indices by what is at them: owned by the book. */
struct btl_intern {
	struct btl_intern_slot *slot;
	uint32_t room, used;
};

/** Arrays of records.h; for reading, changed by the functions below only. */
struct btl_book {
	uint32_t flags; /* enum btl_book_flag */
	uint32_t kernels, logs, ops, modules, symbols, frames, stacks, entries;
	struct btl_kernel_record *kernel;
	struct btl_log_record *log;
	struct btl_op_record *op;
	struct btl_module_record *module; /* names terminated, none twice */
	struct btl_symbol *symbol;
	struct btl_frame_record *frame;
	struct btl_stack_record *stack;
	struct btl_entry_record *entry;
	struct btl_intern by_module, by_symbol, by_frame, by_stack; /* private */
};

/** Free what is in it; it is empty then. */
void btl_book_deinit(struct btl_book *book);

/* --- taking, saving, loading ------------------------------------------------------------------- */

/** Which kernel the stacks of a library are of. */
struct btl_kernel {
	const char *banner; /* "Linux version …": equal ones are one build; NULL: not known */
	const uint8_t *build_id;
	uint32_t build_id_len; /* 0: not known */
};

/** A function. */
struct btl_name {
	uint64_t start;
	uint64_t size;
	uint32_t flags; /* enum btl_symbol_flag */
	char name[BTL_LONG_SYMBOL_NAME_SIZE];
	char module[BTL_MODULE_NAME_SIZE]; /* "": of none */
};

/** Names the function at an address; false: not known. */
typedef bool (*btl_name_fn)(void *arg, uint64_t address, struct btl_name *name_out);

/**
 * Add what a log holds to a book.
 *
 * @param book    empty, or with other logs of the same library
 * @param name    called once for each address met; NULL: no names
 * @return GS_OK; GS_ENOENT: the log holds nothing, or is disabled; GS_EINVAL: the book is of another kernel
 *         or start of it, or was merged; GS_ENOSPC: out of memory. After an error the book has the logs and
 *         records that it had.
 */
GS_MUST_USE enum gs_code btl_book_take(struct btl_book *book, struct btl_log *log,
				       const struct btl_kernel *kernel, btl_name_fn name, void *arg,
				       struct gs_error *err);

/**
 * The book as a kcdata stream (records.h).
 *
 * @param data_out  returned: free with free()
 * @return GS_OK; GS_ENOSPC: out of memory; GS_ETOOBIG: more than a stream can have
 */
GS_MUST_USE enum gs_code btl_book_encode(const struct btl_book *book, uint8_t **data_out,
					 size_t *len_out, struct gs_error *err);

/**
 * Read such a stream. Any bytes may come; memory is bounded by a small multiple of @p len.
 *
 * @param data      plain, not compressed; borrowed for the call
 * @param book_out  written on success only; btl_book_deinit() it
 * @return GS_OK; GS_ENOENT: a good stream, but no book; GS_EMALFORMED; GS_ENOTSUP: of a newer version;
 *         GS_ETOOBIG: more kernels or logs than a book can have; GS_ENOSPC
 */
GS_MUST_USE enum gs_code btl_book_decode(const void *data, size_t len, struct btl_book *book_out,
					 struct gs_error *err);

/* --- merging ----------------------------------------------------------------------------------- */

enum btl_merge {
	BTL_MERGE_AUTO,	    /* by build where all kernels are of one build, else by name */
	BTL_MERGE_BY_BUILD, /* refuse several builds */
	BTL_MERGE_BY_NAME,
};

/**
 * Add a book to another one.
 *
 * By build, a place in the kernel's image is the same wherever the kernel was loaded; places in modules are
 * the same when function and offset are. By name, a frame is just its function's name, and its module's; frames
 * without a name become BTL_PSEUDO_UNKNOWN. The result of a merge by name stays by name.
 *
 * @param book  of one log at least, as is @p other; unchanged after an error
 * @return GS_OK; GS_EINVAL: BTL_MERGE_BY_BUILD and several builds; GS_ENOSPC; GS_ETOOBIG
 */
GS_MUST_USE enum gs_code btl_book_merge(struct btl_book *book, const struct btl_book *other,
					enum btl_merge how, struct gs_error *err);

/* --- counting ---------------------------------------------------------------------------------- */

/** Which records count; NULL in place of it: all. */
struct btl_filter {
	uint64_t from_us; /* wall clock, [from, to) */
	uint64_t to_us;	  /* 0: no end */
	uint64_t ops;	  /* bit by operation; 0: all */
	uint32_t log;	  /* index; BTL_NONE: all */
};

struct btl_stack_count {
	uint64_t count;
	uint32_t stack;
};

struct btl_function_count {
	uint64_t self;	 /* records in it */
	uint64_t total;	 /* records in it or in what it called; once a record */
	uint32_t symbol; /* or BTL_NONE: then the frame is a function of its own */
	uint32_t frame;	 /* one that lies in it */
};

struct btl_op_count {
	uint64_t count;
	uint32_t op; /* in the first log that has one of this name */
	char name[24];
};

/** A result; the array that was asked for, most frequent first. */
struct btl_counts {
	uint64_t records; /* that counted */
	uint64_t cut;	/* of these, with stacks whose outer frames are missing: totals lack them */
	uint64_t empty; /* of these, without any frame */
	uint32_t count; /* of the array */
	union {
		struct btl_stack_count *stack;
		struct btl_function_count *function;
		struct btl_op_count *op;
	};
};

/**
 * Count records by unique stack, by function, by operation.
 *
 * @param counts_out  returned: free with btl_counts_deinit(); an array of none is fine
 * @return GS_OK; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code btl_count_stacks(const struct btl_book *book,
					  const struct btl_filter *filter,
					  struct btl_counts *counts_out, struct gs_error *err);
GS_MUST_USE enum gs_code btl_count_functions(const struct btl_book *book,
					     const struct btl_filter *filter,
					     struct btl_counts *counts_out, struct gs_error *err);
GS_MUST_USE enum gs_code btl_count_ops(const struct btl_book *book, const struct btl_filter *filter,
				       struct btl_counts *counts_out, struct gs_error *err);

void btl_counts_deinit(struct btl_counts *counts);

#define BTL_FUNCTION_TEXT 24

/** Name of a frame's function: its symbol's, a pseudo frame's, or its address in @p buf. */
const char *btl_frame_function(const struct btl_book *book, uint32_t frame,
			       char buf[static BTL_FUNCTION_TEXT]);

/** Name of the module that a frame's function is of; NULL: none, or not known. */
const char *btl_frame_module(const struct btl_book *book, uint32_t frame);

/** The same of a count. */
static inline const char *btl_function_name(const struct btl_book *book,
					    const struct btl_function_count *count,
					    char buf[static BTL_FUNCTION_TEXT])
{
	return btl_frame_function(book, count->frame, buf);
}

#endif
