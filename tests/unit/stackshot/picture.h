/* SPDX-License-Identifier: Apache-2.0 */
/* What of a capture depends on the guest's state alone: the same state has the same picture. */
#ifndef TESTS_UNIT_STACKSHOT_PICTURE_H
#define TESTS_UNIT_STACKSHOT_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "introspect/stackshot/stackshot.h"

/** Bytes of a capture as they stand in it, one after another; zeroed: none. */
struct picture {
	uint8_t *bytes; /* freed by picture_drop() */
	size_t size;
	size_t tasks; /* of these, bytes of the task section */
};

/**
 * Take the task section (all containers with what is in them), and the arrays of vCPUs, of names,
 * and of what is missing.
 *
 * @param out  zeroed, or a picture, which is replaced
 * @return false: no valid stream, or out of memory
 */
bool picture_take(const struct ss_result *r, struct picture *out);

bool picture_is(const struct picture *a, const struct picture *b);

/** Zeroed is fine. */
void picture_drop(struct picture *p);

#endif
