/* SPDX-License-Identifier: Apache-2.0 */
/* Putting books together. Private. */
#ifndef INTROSPECT_BTLOG_BOOK_PRIV_H
#define INTROSPECT_BTLOG_BOOK_PRIV_H

#include "introspect/btlog/book.h"

/* Records of one kind; so that indices and sizes stay far from their types' ends. */
#define BTL_BOOK_MAX (1u << 30)
/* Of these there are few; they are looked through one by one, or stand for tables. */
#define BTL_BOOK_KERNELS_MAX 4096u
#define BTL_BOOK_LOGS_MAX    65536u

/* intern.c */

/* Whether what is at @p index is @p key. */
typedef bool (*btl_same_fn)(const struct btl_book *book, uint32_t index, const void *key);

/* BTL_NONE: not there. */
uint32_t btl_intern_find(const struct btl_intern *t, uint64_t hash, const struct btl_book *book,
			 btl_same_fn same, const void *key);
GS_MUST_USE bool btl_intern_add(struct btl_intern *t, uint64_t hash, uint32_t index);
uint64_t btl_hash_bytes(uint64_t seed, const void *data, size_t len);

/* Room for one more element at the end of an array; NULL: out of memory, or BTL_BOOK_MAX. */
void *btl_array_next(void **array, uint32_t count, size_t size);

/* book.c: indices of what is there, or was added; BTL_NONE: out of memory */
uint32_t btl_book_module(struct btl_book *book, const char *name);
uint32_t btl_book_symbol(struct btl_book *book, const struct btl_symbol *symbol); /* copied */
uint32_t btl_book_frame(struct btl_book *book, const struct btl_frame_record *frame);
uint32_t btl_book_stack(struct btl_book *book, const struct btl_stack_record *stack);
uint32_t btl_book_kernel(struct btl_book *book, const struct btl_kernel_record *kernel);

/* These are always added. */
GS_MUST_USE bool btl_book_add_log(struct btl_book *book, const struct btl_log_record *log);
GS_MUST_USE bool btl_book_add_op(struct btl_book *book, const struct btl_op_record *op);
GS_MUST_USE bool btl_book_add_entry(struct btl_book *book, const struct btl_entry_record *entry);

enum gs_code btl_book_no_memory(struct gs_error *err);

#endif
