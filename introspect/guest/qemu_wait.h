/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a descriptor until a point in time. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_QEMU_WAIT_H
#define INTROSPECT_GUEST_QEMU_WAIT_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/util.h"
#include "introspect/guest/guest.h"

/**
 * Wait for events of a descriptor.
 *
 * @param events       of poll(2)
 * @param deadline_ns  monotonic time; GUEST_NO_DEADLINE: for ever
 * @return GS_OK, also when something is wrong with the descriptor, which the call that follows
 *         tells; GS_ETIMEDOUT
 * Threads: any. Async-signal-safe, for a forked child of a process with threads.
 */
GS_MUST_USE static inline enum gs_code guest_wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };

	for (;;) {
		uint64_t now = gs_clock_ns();
		/* rounded up, so that it does not spin at the end */
		uint64_t ms = now < deadline_ns ? (gs_min(deadline_ns - now, 60 * GS_NS_PER_SEC) +
						   GS_NS_PER_MS - 1) /
							  GS_NS_PER_MS
						: 0;
		int n = poll(&p, 1, (int)ms);
		if (n > 0 || (n < 0 && errno != EINTR))
			return GS_OK;
		if (now >= deadline_ns)
			return GS_ETIMEDOUT;
	}
}

#endif
