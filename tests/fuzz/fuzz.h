/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. Each is linked with libFuzzer, or with replay.c for plain files. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold for every input. */
#define HOLDS(property)                                                                   \
	do {                                                                              \
		if (!(property)) {                                                        \
			fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, \
				#property);                                               \
			abort();                                                          \
		}                                                                         \
	} while (0)

#endif
