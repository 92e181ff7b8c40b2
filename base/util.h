/* SPDX-License-Identifier: Apache-2.0 */
/* Checked arithmetic, ranges, bit fields, scope guards: what every room uses and no domain owns. */
#ifndef BASE_UTIL_H
#define BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Bits hi…lo of x, as the Arm manual writes fields. */
#define BITS(x, hi, lo) (((uint64_t)(x) >> (lo)) & (~UINT64_C(0) >> (63 - ((hi) - (lo)))))
#define BIT(x, n)	(((uint64_t)(x) >> (n)) & 1)

/** @return false on overflow; *out is then undefined */
#define gs_add(a, b, out) (!__builtin_add_overflow((a), (b), (out)))
#define gs_sub(a, b, out) (!__builtin_sub_overflow((a), (b), (out)))
#define gs_mul(a, b, out) (!__builtin_mul_overflow((a), (b), (out)))

/** Whether [addr, addr + len) lies inside [base, base + size); never adds, so nothing wraps. */
static inline bool gs_in_range(uint64_t addr, uint64_t len, uint64_t base, uint64_t size)
{
	return addr >= base && addr - base <= size && len <= size - (addr - base);
}

static inline uint64_t gs_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t gs_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/** Round up to a power of two @p align; values within align of 2^64 wrap, so check them first. */
static inline uint64_t gs_align_up(uint64_t x, uint64_t align)
{
	return (x + align - 1) & ~(align - 1);
}

/* Little-endian words at any alignment; the hosts are little endian, as the guests are. */
static inline uint16_t gs_get_u16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t gs_get_u32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t gs_get_u64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/**
 * Allocate n zeroed elements.
 *
 * @return returned: free with free(); NULL when out of memory, n * size overflows, or n * size is 0
 */
static inline void *gs_array_alloc(size_t n, size_t size)
{
	size_t bytes;

	if (!gs_mul(n, size, &bytes) || bytes == 0)
		return NULL;
	return calloc(n, size);
}

/* Drop a result that must otherwise be looked at; a comment beside it says why that is right. */
#define GS_IGNORE(call) ((void)!(call))

/* Scope guards: GS_FREE char *p = …; GS_CLOSE int fd = …; GS_TAKE(p) gives the value away. */
static inline void gs_free_guard(void *p)
{
	free(*(void **)p);
}

static inline void gs_close_guard(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define GS_FREE	 __attribute__((cleanup(gs_free_guard)))
#define GS_CLOSE __attribute__((cleanup(gs_close_guard)))

#define GS_TAKE(ptr)                               \
	({                                         \
		__typeof__(ptr) gs_taken_ = (ptr); \
		(ptr) = NULL;                      \
		gs_taken_;                         \
	})

#define GS_TAKE_FD(fd)                   \
	({                               \
		int gs_taken_fd_ = (fd); \
		(fd) = -1;               \
		gs_taken_fd_;            \
	})

#endif
