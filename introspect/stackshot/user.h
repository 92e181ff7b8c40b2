/* SPDX-License-Identifier: Apache-2.0 */
/* User stacks of threads, when a capture is asked for them (SS_USER_STACKS). Private. */
#ifndef INTROSPECT_STACKSHOT_USER_H
#define INTROSPECT_STACKSHOT_USER_H

#include "introspect/stackshot/capture.h"

/** Bytes of records that each thread may need for it; 0: it is not asked for. */
uint64_t ss_user_room(const struct ss_request *q);

/** Forget the mappings of items before: new ones are at hand. */
void ss_user_begin(struct ss_worker *w);

/**
 * Unwind the user stacks of @p n threads in slots, if asked for: of those that have an address space
 * and are not told as unchanged. Legal while the guest is stopped.
 */
void ss_user_walk(struct ss_worker *w, struct ss_slot *slots, uint32_t n);

/** What the user stack says in the flags of a thread's snapshot (enum of KCD_SS_USER64, KCD_THREAD_…). */
uint64_t ss_user_flags(const struct ss_slot *slot);

/** Write a thread's user stack into its container, if it was unwound. @return GS_OK; GS_ENOSPC: no room */
GS_MUST_USE enum gs_code ss_write_user_stack(struct ss_worker *w, const struct ss_slot *slot);

/**
 * Write the mappings that frames of a process's user stacks lie in.
 *
 * @return GS_OK; GS_ENOSPC: no room
 */
GS_MUST_USE enum gs_code ss_write_mappings(struct ss_worker *w, const struct lnx_task *leader);

#endif
