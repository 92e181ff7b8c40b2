/* SPDX-License-Identifier: Apache-2.0 */
/* A capture of many threads that no guest ever had: what benchmarks and tests of size work on. */
#ifndef TESTS_BENCH_KCDATA_CAPTURE_H
#define TESTS_BENCH_KCDATA_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Write a capture as introspect/stackshot does: its records, one process for about twelve threads,
 * values spread like a busy machine's (most idle, some busy; times over many magnitudes; addresses of
 * the linear map), stacks drawn from a few hundred paths through a kernel of 40,000 functions.
 *
 * @param threads  how many
 * @param seed     the same seed gives the same bytes
 * @param len_out  bytes of the stream
 * @return returned: free with free(); NULL: out of memory
 */
uint8_t *kcdata_capture_make(uint32_t threads, uint64_t seed, size_t *len_out);

#endif
