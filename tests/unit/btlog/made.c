/* SPDX-License-Identifier: Apache-2.0 */
/* What the suites share: libraries, logs and stacks made for tests. */
#include "tests/unit/btlog/suites.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/btlog/log_priv.h"

static void count_only(void *arg, enum btl_misuse what, uint32_t ref)
{
	(void)arg;
	(void)what;
	(void)ref;
}

struct btl_library *library(uint64_t limit)
{
	struct btl_library_options o = { .base = BASE, .limit = limit, .misuse = count_only };
	struct btl_library *lib = NULL;
	struct gs_error err = { 0 };

	ck_assert_msg(!btl_library_create(&o, &lib, &err), "%s", err.text);
	return lib;
}

static struct btl_log *new_log(struct btl_library *lib, enum btl_log_kind kind, uint32_t capacity)
{
	struct btl_log_options o = { .name = "log", .kind = kind, .capacity = capacity };
	struct btl_log *log = NULL;
	struct gs_error err = { 0 };

	ck_assert_msg(!btl_log_create(lib, &o, &log, &err), "%s", err.text);
	return log;
}

struct btl_log *ring(struct btl_library *lib, uint32_t capacity)
{
	return new_log(lib, BTL_LOG_RING, capacity);
}

struct btl_log *hash(struct btl_library *lib, uint32_t capacity)
{
	return new_log(lib, BTL_LOG_HASH, capacity);
}

uint32_t made_stack(uint64_t number, uint64_t frames[BTL_FRAMES_MAX])
{
	uint32_t count = 1 + (uint32_t)(number % BTL_FRAMES_MAX);
	uint64_t x = number;

	frames[0] = BASE + ((number & 0xfffffff) << 2);
	for (uint32_t i = 1; i < count; i++) {
		x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		frames[i] = BASE + (x >> 40 & ~UINT64_C(3));
	}
	return count;
}

uint32_t get(struct btl_library *lib, uint64_t number)
{
	uint64_t frames[BTL_FRAMES_MAX];
	uint32_t count = made_stack(number, frames), ref = 0;

	ck_assert_int_eq(btl_get(lib, frames, count, 0, &ref), GS_OK);
	ck_assert_uint_ne(ref, 0);
	return ref;
}

uint32_t references(struct btl_library *lib, uint64_t number)
{
	uint32_t ref = get(lib, number);
	struct btl_stack stack;

	ck_assert_int_eq(btl_stack_copy(lib, ref, &stack), GS_OK);
	ck_assert_int_eq(btl_put(lib, ref), GS_OK);
	btl_library_settle(lib);
	return stack.references - 1;
}

void record(struct btl_log *log, uint64_t element, uint32_t op, uint64_t number)
{
	ck_assert_int_eq(btl_log_record(log, element, op, get(log->lib, number), gs_clock_ns()),
			 GS_OK);
}

struct btl_library_stats stats_of(struct btl_library *lib)
{
	struct btl_library_stats s;

	btl_library_stats_get(lib, &s);
	return s;
}

struct btl_log_stats log_stats_of(struct btl_log *log)
{
	struct btl_log_stats s;

	btl_log_stats_get(log, &s);
	return s;
}

void close_library(struct btl_library *lib)
{
	btl_library_settle(lib);
	struct btl_library_stats s = stats_of(lib);
	ck_assert_uint_eq(s.stacks, 0);
	ck_assert_uint_eq(s.waiting, 0);
	ck_assert_uint_eq(s.misuses, 0);
	btl_library_destroy(lib);
}

const char *function_name(uint32_t number, char buf[static 512])
{
	int n = snprintf(buf, 512, "function_%u", number);

	if (number == 5) {
		memset(buf + n, '_', 300 - (size_t)n);
		buf[300] = '\0';
	}
	return buf;
}

bool name_of(void *arg, uint64_t address, struct btl_name *name_out)
{
	uint64_t text = *(const uint64_t *)arg;

	if (address < text || address - text >= TEXT_BYTES)
		return false;
	name_out->start = address & ~UINT64_C(0xff);
	name_out->size = 0x100;
	name_out->flags = 0;
	const uint32_t number = (uint32_t)(address - text) / 0x100;
	(void)function_name(number, name_out->name);
	if (number != 5 && number != 7)
		return true;
	name_out->flags = BTL_SYMBOL_MODULE;
	strcpy(name_out->module, number == 5 ? "five" : "seven");
	return true;
}

void record_calls(struct btl_log *log, uint64_t element, uint32_t op, const uint32_t *functions,
		  uint32_t count, uint64_t time_ns)
{
	uint64_t frames[64];
	uint32_t ref;

	for (uint32_t i = 0; i < count; i++)
		frames[i] = log->lib->base + 0x100 * functions[i] + 0x10 + 4 * (functions[i] % 50);
	ck_assert_int_eq(btl_get(log->lib, frames, count, 0, &ref), GS_OK);
	ck_assert_int_eq(btl_log_record(log, element, op, ref, time_ns), GS_OK);
}

void take(struct btl_book *book, struct btl_log *log, const char *banner)
{
	struct gs_error err = { 0 };
	uint64_t text = log->lib->base;

	ck_assert_msg(!btl_book_take(book, log, &(struct btl_kernel){ .banner = banner }, name_of,
				     &text, &err),
		      "%s", err.text);
}

uint32_t roll(struct dice *d, uint32_t below)
{
	d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)((d->state >> 33) % below);
}
