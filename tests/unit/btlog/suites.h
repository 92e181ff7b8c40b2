/* SPDX-License-Identifier: Apache-2.0 */
/* The suites of this program, one a file, and what they share. */
#ifndef TESTS_UNIT_BTLOG_SUITES_H
#define TESTS_UNIT_BTLOG_SUITES_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>

#include "introspect/btlog/book.h"
#include "introspect/btlog/btlog.h"

#define BASE UINT64_C(0xffff800008000000)

Suite *suite_library(void);
Suite *suite_frames(void);
Suite *suite_grace(void);
Suite *suite_limit(void);
Suite *suite_log(void);
Suite *suite_read(void);
Suite *suite_book(void);
Suite *suite_merge(void);
Suite *suite_faults(void);
Suite *suite_model(void);

/* A library of this limit (0: the usual one); misuses are counted in its statistics and do not abort. */
struct btl_library *library(uint64_t limit);
struct btl_log *ring(struct btl_library *lib, uint32_t capacity);
struct btl_log *hash(struct btl_library *lib, uint32_t capacity);

/* A stack that only @p number has: 1 to 13 frames in the window, depending on it. */
uint32_t made_stack(uint64_t number, uint64_t frames[BTL_FRAMES_MAX]);
/* A reference to it. */
uint32_t get(struct btl_library *lib, uint64_t number);
/* How many references it has now; 0 if it is not there. Settles the library. */
uint32_t references(struct btl_library *lib, uint64_t number);
void record(struct btl_log *log, uint64_t element, uint32_t op, uint64_t number);
struct btl_library_stats stats_of(struct btl_library *lib);
struct btl_log_stats log_stats_of(struct btl_log *log);
/* Destroys it when no stack is left in it. */
void close_library(struct btl_library *lib);

/* --- books: functions of 0x100 bytes from the text's address (which @p text has) on --- */

#define TEXT_BYTES UINT64_C(0x100000)

/* The name of a function by its number; number 5's has 300 characters. */
const char *function_name(uint32_t number, char buf[static 512]);
/* For btl_book_take(); @p arg is a uint64_t, the address of the text. */
bool name_of(void *arg, uint64_t address, struct btl_name *name_out);
/* Records a stack of frames as numbers of functions, innermost first; the offset in each is 0x10 + 4 * number. */
void record_calls(struct btl_log *log, uint64_t element, uint32_t op, const uint32_t *functions,
		  uint32_t count, uint64_t time_ns);
/* A book of what the log holds. */
void take(struct btl_book *book, struct btl_log *log, const char *banner);

/* Numbers that look random. */
struct dice {
	uint64_t state;
};
uint32_t roll(struct dice *d, uint32_t below);

#endif
