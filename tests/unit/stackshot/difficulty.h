/* SPDX-License-Identifier: Apache-2.0 */
/* The queue that a process of so many threads belongs into. */
#ifndef TESTS_UNIT_STACKSHOT_DIFFICULTY_H
#define TESTS_UNIT_STACKSHOT_DIFFICULTY_H

#include <stdint.h>

static inline uint32_t difficulty_of(uint32_t threads)
{
	return threads < 3 ? 0 : threads < 10 ? 1 : threads < 32 ? 2 : 3;
}

#endif
