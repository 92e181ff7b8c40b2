/* SPDX-License-Identifier: Apache-2.0 */
/* Record types of saved backtrace logs. */
#ifndef INTROSPECT_BTLOG_RECORDS_H
#define INTROSPECT_BTLOG_RECORDS_H

/*
 * A saved book is a stackshot buffer (the kind that every reader opens) of the records below, in this
 * order, none of them in a container. Each type is defined in the stream. Records refer to each other by
 * index: an entry to a stack and a log, a stack to frames, a frame to a symbol, a symbol to a module, a log
 * to a kernel. Symbols are those of SYMBOL, then those of LONG_SYMBOL. [] an array.
 */

#include <stdint.h>

#include "kcdata/schema.h"

#define BTL_RECORD_BASE	   UINT32_C(0x47530100) /* "GS", 1 */
#define BTL_RECORD_VERSION 1u
#define BTL_NONE	   UINT32_MAX /* no index */

enum btl_record_type {
	BTL_RECORD_BOOK = BTL_RECORD_BASE + 1,	      /*    struct btl_book_record; the first one */
	BTL_RECORD_KERNEL = BTL_RECORD_BASE + 2,      /* [] struct btl_kernel_record */
	BTL_RECORD_LOG = BTL_RECORD_BASE + 3,	      /* [] struct btl_log_record */
	BTL_RECORD_OP = BTL_RECORD_BASE + 4,	      /* [] struct btl_op_record */
	BTL_RECORD_MODULE = BTL_RECORD_BASE + 10,     /* [] struct btl_module_record */
	BTL_RECORD_SYMBOL = BTL_RECORD_BASE + 5,      /* [] struct btl_symbol_record */
	BTL_RECORD_LONG_SYMBOL = BTL_RECORD_BASE + 6, /* [] struct btl_long_symbol_record */
	BTL_RECORD_FRAME = BTL_RECORD_BASE + 7,	      /* [] struct btl_frame_record */
	BTL_RECORD_STACK = BTL_RECORD_BASE + 8,	      /* [] struct btl_stack_record */
	BTL_RECORD_ENTRY = BTL_RECORD_BASE + 9,	      /* [] struct btl_entry_record */
};

enum btl_book_flag {
	BTL_BOOK_BY_NAME =
		1u << 0, /* of several kernel builds: frames are functions by name, without
				       addresses and offsets */
};

struct btl_book_record {
	uint32_t version; /* BTL_RECORD_VERSION */
	uint32_t flags;	  /* enum btl_book_flag */
};

#define BTL_BANNER_SIZE	  256
#define BTL_BUILD_ID_SIZE 20

/** A kernel that stacks are of. Frames are as the first one's addresses. */
struct btl_kernel_record {
	uint64_t text;	       /* address of its text, the base of its library */
	uint32_t build_id_len; /* 0: not known */
	uint8_t build_id[BTL_BUILD_ID_SIZE];
	char banner[BTL_BANNER_SIZE];
};

struct btl_log_record {
	uint32_t kernel;
	uint32_t kind; /* enum btl_log_kind */
	uint32_t capacity;
	uint32_t sample;
	uint64_t from_us; /* wall clock: enabled, and read */
	uint64_t to_us;
	uint64_t recorded; /* since it was enabled; more than there are entries by: */
	uint64_t overwritten;
	uint64_t erased;
	uint64_t dropped;
	uint64_t skipped;
	uint64_t lost; /* stacks that its library had no room for */
	char name[32];
};

/** What an operation of a log is called. */
struct btl_op_record {
	uint32_t log;
	uint32_t op;
	char name[24];
};

enum btl_symbol_flag {
	BTL_SYMBOL_MODULE = 1u << 0, /* outside of the kernel image: elsewhere at each boot */
};

#define BTL_MODULE_NAME_SIZE 64

/** A module that some symbol is of; "bpf" stands for all BPF programs. */
struct btl_module_record {
	char name[BTL_MODULE_NAME_SIZE];
};

/* The high half of a symbol's flags: index of its module and 1; 0: of none, or not known. */
#define BTL_SYMBOL_MODULE_SHIFT 32

#define BTL_SYMBOL_NAME_SIZE	  64
#define BTL_LONG_SYMBOL_NAME_SIZE 512

/** A function that some frame lies in. */
struct btl_symbol_record {
	uint64_t start; /* 0 in a book by name */
	uint64_t size;
	uint64_t flags; /* enum btl_symbol_flag, and the module */
	char name[BTL_SYMBOL_NAME_SIZE];
};

struct btl_long_symbol_record {
	uint64_t start;
	uint64_t size;
	uint64_t flags;
	char name[BTL_LONG_SYMBOL_NAME_SIZE];
};

struct btl_frame_record {
	uint64_t frame;	 /* as btlog.h has them; 0 in a book by name, but for pseudo frames */
	uint32_t symbol; /* or BTL_NONE */
	uint32_t offset; /* of the frame's address in it */
};

enum btl_stack_flag {
	BTL_STACK_CUT = 1u << 0, /* there were more frames, further out */
};

struct btl_stack_record {
	uint32_t flags; /* enum btl_stack_flag */
	uint32_t count;
	uint32_t frame[14]; /* innermost first; those behind count are 0 */
};

struct btl_entry_record {
	uint64_t time_us; /* wall clock, to 10 ms */
	uint64_t element;
	uint32_t log;
	uint32_t stack;
	uint32_t op;
	uint32_t reserved;
};

/** The table of these types. */
extern const struct kcd_schema btl_schema;

#endif
