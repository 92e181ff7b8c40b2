/* SPDX-License-Identifier: Apache-2.0 */
/* A guest whose RAM is single words: a walk that reads any other place fails. */
#ifndef TESTS_UNIT_ARM64_WORDS_H
#define TESTS_UNIT_ARM64_WORDS_H

#include "introspect/guest/memory_guest.h"

struct words {
	struct memory_guest m;
	uint64_t value[MEMORY_GUEST_RANGES_MAX];
};

void words_init(struct words *w);

/** Set the word at @p pa, making it RAM when it is not. */
void words_put(struct words *w, uint64_t pa, uint64_t value);

/** Make the word at @p pa no RAM. */
void words_remove(struct words *w, uint64_t pa);

#endif
