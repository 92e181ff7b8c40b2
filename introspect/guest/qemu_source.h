/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU guest over a link, as a source. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_SOURCE_H
#define INTROSPECT_GUEST_QEMU_SOURCE_H

#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/qemu_link.h"
#include "introspect/guest/source.h"

/**
 * Make a guest of a link: find its vCPUs and its memory.
 *
 * @param link     taken, also on failure
 * @param wait_ns  longest wait for each answer from now on
 * @return GS_OK; GS_ENOTSUP: not an ARM64 guest; others from the link
 */
GS_MUST_USE enum gs_code guest_qemu_source_create(struct guest_link *link, uint64_t wait_ns,
						  struct guest_source *source_out,
						  struct gs_error *err);

/** How long each later wait may be, from the time by which the first ones end. */
uint64_t guest_qemu_wait_ns(uint64_t deadline_ns);

#endif
