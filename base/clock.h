/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define GS_NS_PER_SEC UINT64_C(1000000000)
#define GS_NS_PER_MS  UINT64_C(1000000)
#define GS_NS_PER_US  UINT64_C(1000)

/** Monotonic time in ns since an arbitrary start. Legal while a guest is stopped. */
static inline uint64_t gs_clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * GS_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/** Wall-clock time in microseconds since 1970. Legal while a guest is stopped. */
static inline uint64_t gs_clock_wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

#endif
