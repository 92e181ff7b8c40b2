/* SPDX-License-Identifier: Apache-2.0 */
/* Where containers and nested buffers of a buffer begin and end. Private. */
#ifndef KCDATA_SPANS_H
#define KCDATA_SPANS_H

#include "kcdata/kcdata.h"
#include "kcdata/walk.h"

/** A container, a nested buffer, or (the first one) the buffer itself. */
struct kcd_span {
	size_t at;	/* of its header; a nested buffer's: of the record that it is */
	size_t body;	/* of the first item inside */
	size_t end;	/* behind the last item inside; a buffer's: behind its END */
	size_t next;	/* of what follows the whole of it */
	uint32_t magic; /* of a buffer; 0: a container */
};

struct kcd_spans {
	struct kcd_span *span; /* ascending @at */
	uint32_t count;
	uint32_t room;
	uint32_t open[KCD_LEVELS_MAX];
	uint32_t depth;
	size_t item; /* the last one seen */
};

void kcd_spans_init(struct kcd_spans *s);
void kcd_spans_deinit(struct kcd_spans *s);

/** Take in each step of a walk. @return KCD_OK; KCD_ENOMEM */
KCD_MUST_USE enum kcd_code kcd_spans_step(struct kcd_spans *s, const struct kcd_step *step);

/** The walk has ended: what is still open ends where it did. */
void kcd_spans_close(struct kcd_spans *s, size_t stop);

/** The span whose header is at this offset; NULL: none. */
const struct kcd_span *kcd_spans_at(const struct kcd_spans *s, size_t at);

/** Read the item at an offset that the walk has passed; @p item_out's offset is from @p buf. */
KCD_MUST_USE enum kcd_code kcd_spans_read(const void *buf, size_t len, size_t at,
					  struct kcd_item *item_out, size_t *next_out);

#endif
