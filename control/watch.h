/* SPDX-License-Identifier: Apache-2.0 */
/* Hung threads and locked-up vCPUs, found by comparing captures. */
#ifndef CONTROL_WATCH_H
#define CONTROL_WATCH_H

/*
 * A thread is hung that sleeps uninterruptibly (state D) and has not been switched to or from for
 * so long. A vCPU is locked up that was in the kernel, in the same thread, at every look for so
 * long, with no switch of that thread in between. How long is told by the guest's clock, so that a
 * guest which was stopped meanwhile is not blamed for it. Each is found once.
 *
 * Streams are hostile, as the guest that they are of: tables are bounded. Threads: one at a time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "introspect/stackshot/records.h"

/* A new finding of a kind is told no sooner than so long after the last one, by the host's clock. */
#define CTL_WATCH_QUIET_NS UINT64_C(1000000000)

struct ctl_watch;

struct ctl_watch_found {
	bool has_hung, has_lockup;
	struct ss_reason_record hung, lockup;
};

/**
 * @param hung_ns, lockup_ns  how long is too long; 0: not looked for
 * @return NULL: out of memory; end with ctl_watch_destroy()
 */
struct ctl_watch *ctl_watch_create(uint64_t hung_ns, uint64_t lockup_ns);

/** NULL is fine. */
void ctl_watch_destroy(struct ctl_watch *w);

/**
 * Look at a full capture of everything.
 *
 * @param data     borrowed
 * @param guest_ns the guest's clock when it was taken; 0: as its threads' times tell, which stands
 *                 still while none runs
 * @param host_ns  the host's clock
 */
void ctl_watch_look(struct ctl_watch *w, const void *data, size_t size, uint64_t guest_ns,
		    uint64_t host_ns, struct ctl_watch_found *found_out);

#endif
