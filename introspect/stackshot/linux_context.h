/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads stand in, when a capture is asked for it (SS_CONTEXT). Private. */
#ifndef INTROSPECT_STACKSHOT_LINUX_CONTEXT_H
#define INTROSPECT_STACKSHOT_LINUX_CONTEXT_H

#include "introspect/stackshot/capture.h"

/** Bytes of records that a process, and a thread, may need for it; 0: it is not asked for. */
uint64_t ss_context_room_process(const struct ss_request *q);
uint64_t ss_context_room_thread(const struct ss_request *q);

/** Write that of a process, behind its threads, if it is asked for. @return GS_OK; GS_ENOSPC: no room */
GS_MUST_USE enum gs_code ss_write_process_context(struct ss_worker *w,
						  const struct lnx_task *leader);

/** ... of a thread, in its container. */
GS_MUST_USE enum gs_code ss_write_thread_context(struct ss_worker *w, const struct ss_slot *slot);

#endif
