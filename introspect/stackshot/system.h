/* SPDX-License-Identifier: Apache-2.0 */
/* What captures say of the guest's kernel as a whole: its state always, its log when asked for. Private. */
#ifndef INTROSPECT_STACKSHOT_SYSTEM_H
#define INTROSPECT_STACKSHOT_SYSTEM_H

#include "introspect/stackshot/capture.h"

/** Flags that are honoured only if it turns out that they can be. */
#define SS_SYSTEM_FLAGS SS_KERNEL_LOG

/** See to room for the log, if it is asked for; before the stop. @return GS_OK; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code ss_log_reserve(struct ss_log *log, uint64_t flags);

/** Read the kernel's state. Legal while the guest is stopped, as what follows. */
void ss_system_read(struct ss_engine *e);

/**
 * Read the log, if it is asked for, from its newest message back as far as there is room and time.
 * What is wrong with it is noted.
 *
 * @return GS_OK; GS_ETIMEDOUT, GS_EBUSY: as ss_context_check(), and there is no log
 */
GS_MUST_USE enum gs_code ss_log_read(struct ss_engine *e);

/** Say that there is a log, with the guest running again: helpers look at the flags until then. */
void ss_system_end(struct ss_engine *e);

/** Write the state, and the log. */
KCD_MUST_USE enum kcd_code ss_write_system(struct kcd_writer *out, const struct ss_engine *e);
KCD_MUST_USE enum kcd_code ss_write_log(struct kcd_writer *out, const struct ss_engine *e);

/** Bytes of the log's records. */
size_t ss_log_size(const struct ss_engine *e);

#endif
