/* SPDX-License-Identifier: Apache-2.0 */
/* What a request may ask for. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_REQUEST_H
#define INTROSPECT_STACKSHOT_REQUEST_H

#include <stdbool.h>

#include "introspect/stackshot/stackshot.h"

/**
 * @param size_max largest size hint
 * @return GS_OK; GS_EINVAL: makes no sense; GS_ENOTSUP: a flag that has no meaning here
 */
GS_MUST_USE enum gs_code ss_request_check(const struct ss_request *q, uint64_t size_max,
					  struct gs_error *err);

/** Whether more than the calling thread is to collect. */
bool ss_request_is_parallel(const struct ss_request *q);

#endif
