/* SPDX-License-Identifier: Apache-2.0 */
/* Walks as literal registers, table entries and results. */
#ifndef TESTS_UNIT_ARM64_WALK_CASES_H
#define TESTS_UNIT_ARM64_WALK_CASES_H

#include <stddef.h>
#include <stdint.h>

#define WALK_ENTRIES_MAX 5

struct walk_case {
	const char *name; /* granule, VA size, options, half */
	uint64_t tcr;	  /* the other half has another granule and another size */
	uint64_t va;
	uint64_t ttbr; /* of the half that bit 55 of va selects; ASID and CnP set */
	struct {
		uint64_t pa;
		uint64_t value;
	} entry[WALK_ENTRIES_MAX];
	unsigned int entries;
	uint64_t pa; /* what comes out */
	uint64_t left;
	int level;
};

extern const struct walk_case walk_cases[];
extern const size_t walk_case_count;

#endif
