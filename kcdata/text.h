/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer as text for people: every item with its offset, in stream order. */
#ifndef KCDATA_TEXT_H
#define KCDATA_TEXT_H

/*
 *	00000000  STACKSHOT {
 *	00000010    stackshot_in_flags = 65536
 *	00000120    TASK 7 {
 *	00000140      TASK_SNAPSHOT, 120 bytes
 *	                ts_pid = 42
 *	...
 *
 * Strings are escaped: what a guest puts into a name does not reach the terminal as it is.
 *
 * Threads: no state. Allocates a fixed amount.
 */

#include "kcdata/kcdata.h"
#include "kcdata/schema.h"

#pragma GCC visibility push(default)

/**
 * Write a plain buffer as text, item by item as it is read.
 *
 * @param mode   KCD_STRICT: any finding of the reader's ends it
 * @param extra  tables besides the built-in one; may be NULL
 * @param sink   gets whole pieces of text
 * @param err    may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED, KCD_ETOOBIG: what came before the damage has been written;
 *         KCD_ECOMPRESSED; KCD_ENOMEM; KCD_EIO: the sink
 */
KCD_MUST_USE enum kcd_code kcd_text_dump(const void *buf, size_t len, enum kcd_mode mode,
					 const struct kcd_schema *extra, kcd_sink_fn sink,
					 void *arg, struct kcd_error *err);

#pragma GCC visibility pop

#endif
