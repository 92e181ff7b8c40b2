/* SPDX-License-Identifier: Apache-2.0 */
/* What a buffer is made of: records and bytes by type. */
#ifndef KCDATA_STAT_H
#define KCDATA_STAT_H

/*
 * Threads: no state. Allocates a row for each type that occurs.
 */

#include "kcdata/kcdata.h"
#include "kcdata/schema.h"

#pragma GCC visibility push(default)

struct kcd_stat_row {
	uint32_t code;
	bool container;	   /* BEGIN and END of containers of this type, not what is in them */
	uint64_t records;  /* containers: their number */
	uint64_t elements; /* of arrays; records are one each */
	uint64_t bytes;	   /* headers, payloads and padding */
	char name[KCD_KEY_MAX];
};

struct kcd_stat {
	struct kcd_stat_row *rows; /* most bytes first */
	size_t count;
	size_t room;
	uint64_t records; /* all items but BEGIN and END of buffers */
	uint64_t bytes;	  /* of the buffer, BEGIN and END included */
	uint32_t magic;
	uint32_t depth; /* most containers in each other */
};

/**
 * Count.
 *
 * @param extra     tables besides the built-in one; may be NULL
 * @param stat_out  free with kcd_stat_deinit(), whatever comes back; what came before damage counts
 * @param err       may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED; KCD_ETOOBIG; KCD_ECOMPRESSED; KCD_ENOMEM
 */
KCD_MUST_USE enum kcd_code kcd_stat_collect(const void *buf, size_t len,
					    const struct kcd_schema *extra,
					    struct kcd_stat *stat_out, struct kcd_error *err);

void kcd_stat_deinit(struct kcd_stat *stat);

#pragma GCC visibility pop

#endif
