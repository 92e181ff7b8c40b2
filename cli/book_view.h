/* SPDX-License-Identifier: Apache-2.0 */
/* Backtrace logs for people: what was counted, stack by stack or function by function. */
#ifndef CLI_BOOK_VIEW_H
#define CLI_BOOK_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "introspect/btlog/book.h"

enum cli_book_by { CLI_BOOK_BY_STACK, CLI_BOOK_BY_FUNCTION, CLI_BOOK_BY_OPERATION };

struct cli_book_view {
	enum cli_book_by by;
	struct btl_filter filter;
	uint32_t max; /* lines or stacks; 0: all */
	bool json;
};

/** Print what a book holds, most frequent first. @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code cli_book_top(const struct btl_book *book, const struct cli_book_view *v,
				      FILE *to, struct gs_error *err);

/** Print the newest records, oldest of them first. */
void cli_book_show(const struct btl_book *book, const struct cli_book_view *v, FILE *to);

/**
 * Print the stacks behind the newest record of each of these elements, counted.
 *
 * @param n           0: of each element that was not erased, of those logs of the view that elements are erased from
 * @param n_known_out how many of them the book knows
 * @return GS_OK; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code cli_book_leaks(const struct btl_book *book, const uint64_t *elements,
					size_t n, const struct cli_book_view *v, FILE *to,
					size_t *n_known_out, struct gs_error *err);

/** Whether elements are erased from a log of the view: else none that is left tells anything. */
bool cli_book_can_leak(const struct btl_book *book, const struct cli_book_view *v);

/** How many records such logs have lost for want of room: the elements of these are not counted. */
uint64_t cli_book_missing(const struct btl_book *book, const struct cli_book_view *v);

#endif
