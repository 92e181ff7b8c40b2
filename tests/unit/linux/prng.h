/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-random numbers that are the same in every run. */
#ifndef TESTS_UNIT_LINUX_PRNG_H
#define TESTS_UNIT_LINUX_PRNG_H

#include <stdint.h>

/* xorshift64*; the seed is not 0. */
static inline uint64_t prng(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* 0 … below - 1 */
static inline uint64_t prng_below(uint64_t *state, uint64_t below)
{
	return (prng(state) >> 11) % below;
}

#endif
