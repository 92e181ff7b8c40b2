/* SPDX-License-Identifier: Apache-2.0 */
/* Books: adding to them, freeing them. */
#include "introspect/btlog/book_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

enum gs_code btl_book_no_memory(struct gs_error *err)
{
	return gs_fail(err, GS_ENOSPC, "out of memory for a book of backtraces");
}

void btl_book_deinit(struct btl_book *book)
{
	for (uint32_t i = 0; i < book->symbols; i++)
		free(book->symbol[i].name);
	free(book->kernel);
	free(book->log);
	free(book->op);
	free(book->module);
	free(book->symbol);
	free(book->frame);
	free(book->stack);
	free(book->entry);
	free(book->by_module.slot);
	free(book->by_symbol.slot);
	free(book->by_frame.slot);
	free(book->by_stack.slot);
	memset(book, 0, sizeof(*book));
}

/* A copy of an element behind an array's last one. */
static bool append(void **array, uint32_t *count, size_t size, const void *element)
{
	void *at = btl_array_next(array, *count, size);

	if (!at)
		return false;
	memcpy(at, element, size);
	++*count;
	return true;
}

#define APPEND(array, count, element) \
	append((void **)&(array), &(count), sizeof(*(array)), (element))

bool btl_book_add_log(struct btl_book *book, const struct btl_log_record *log)
{
	return APPEND(book->log, book->logs, log);
}

bool btl_book_add_op(struct btl_book *book, const struct btl_op_record *op)
{
	return APPEND(book->op, book->ops, op);
}

bool btl_book_add_entry(struct btl_book *book, const struct btl_entry_record *entry)
{
	return APPEND(book->entry, book->entries, entry);
}

uint32_t btl_book_kernel(struct btl_book *book, const struct btl_kernel_record *kernel)
{
	for (uint32_t i = 0; i < book->kernels; i++)
		if (!memcmp(&book->kernel[i], kernel, sizeof(*kernel)))
			return i;
	return APPEND(book->kernel, book->kernels, kernel) ? book->kernels - 1 : BTL_NONE;
}

/* --- symbols: by name and module, and within a kernel's image by place too ----------------------- */

static bool same_module(const struct btl_book *book, uint32_t index, const void *key)
{
	return !strcmp(book->module[index].name, key);
}

uint32_t btl_book_module(struct btl_book *book, const char *name)
{
	struct btl_module_record m = { 0 };

	snprintf(m.name, sizeof(m.name), "%s", name);
	const uint64_t hash = btl_hash_bytes(3, m.name, strlen(m.name));
	const uint32_t i = btl_intern_find(&book->by_module, hash, book, same_module, m.name);
	if (i != BTL_NONE)
		return i;
	return APPEND(book->module, book->modules, &m) &&
			       btl_intern_add(&book->by_module, hash, book->modules - 1)
		       ? book->modules - 1
		       : BTL_NONE;
}

static bool place_counts(const struct btl_book *book, uint32_t flags)
{
	return !(book->flags & BTL_BOOK_BY_NAME) && !(flags & BTL_SYMBOL_MODULE);
}

static bool same_symbol(const struct btl_book *book, uint32_t index, const void *key)
{
	const struct btl_symbol *a = &book->symbol[index], *b = key;

	if (a->module != b->module || strcmp(a->name, b->name) != 0)
		return false;
	if (book->flags & BTL_BOOK_BY_NAME)
		return true;
	return a->flags == b->flags && (!place_counts(book, a->flags) || a->start == b->start);
}

uint32_t btl_book_symbol(struct btl_book *book, const struct btl_symbol *symbol)
{
	struct btl_symbol s = *symbol;
	uint64_t hash = btl_hash_bytes((place_counts(book, s.flags) ? s.start : 0) + s.module,
				       s.name, strlen(s.name));
	uint32_t i = btl_intern_find(&book->by_symbol, hash, book, same_symbol, &s);

	if (i != BTL_NONE)
		return i;
	s.name = strdup(s.name);
	if (!s.name || !APPEND(book->symbol, book->symbols, &s)) {
		free(s.name);
		return BTL_NONE;
	}
	/* one that is not found again is harmless, but nothing else shall fail once memory is short */
	return btl_intern_add(&book->by_symbol, hash, book->symbols - 1) ? book->symbols - 1
									 : BTL_NONE;
}

/* --- frames and stacks --------------------------------------------------------------------------- */

static bool same_frame(const struct btl_book *book, uint32_t index, const void *key)
{
	return !memcmp(&book->frame[index], key, sizeof(struct btl_frame_record));
}

uint32_t btl_book_frame(struct btl_book *book, const struct btl_frame_record *frame)
{
	uint64_t hash = btl_hash_bytes(1, frame, sizeof(*frame));
	uint32_t i = btl_intern_find(&book->by_frame, hash, book, same_frame, frame);

	if (i != BTL_NONE)
		return i;
	return APPEND(book->frame, book->frames, frame) &&
			       btl_intern_add(&book->by_frame, hash, book->frames - 1)
		       ? book->frames - 1
		       : BTL_NONE;
}

static bool same_stack(const struct btl_book *book, uint32_t index, const void *key)
{
	return !memcmp(&book->stack[index], key, sizeof(struct btl_stack_record));
}

uint32_t btl_book_stack(struct btl_book *book, const struct btl_stack_record *stack)
{
	uint64_t hash = btl_hash_bytes(2, stack, sizeof(*stack));
	uint32_t i = btl_intern_find(&book->by_stack, hash, book, same_stack, stack);

	if (i != BTL_NONE)
		return i;
	return APPEND(book->stack, book->stacks, stack) &&
			       btl_intern_add(&book->by_stack, hash, book->stacks - 1)
		       ? book->stacks - 1
		       : BTL_NONE;
}

const char *btl_frame_function(const struct btl_book *book, uint32_t frame,
			       char buf[static BTL_FUNCTION_TEXT])
{
	const struct btl_frame_record *f = &book->frame[frame];

	if (f->symbol != BTL_NONE)
		return book->symbol[f->symbol].name;
	if (btl_frame_is_pseudo(f->frame))
		return btl_pseudo_name(f->frame);
	snprintf(buf, BTL_FUNCTION_TEXT, "%#llx", (unsigned long long)btl_frame_address(f->frame));
	return buf;
}

const char *btl_frame_module(const struct btl_book *book, uint32_t frame)
{
	const uint32_t symbol = book->frame[frame].symbol;

	if (symbol == BTL_NONE || book->symbol[symbol].module == BTL_NONE)
		return NULL;
	return book->module[book->symbol[symbol].module].name;
}
