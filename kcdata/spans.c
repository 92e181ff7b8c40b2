/* SPDX-License-Identifier: Apache-2.0 */
/* Where containers and nested buffers begin and end. */
#include "kcdata/spans.h"

#include <stdlib.h>

void kcd_spans_init(struct kcd_spans *s)
{
	*s = (struct kcd_spans){ .span = NULL };
}

void kcd_spans_deinit(struct kcd_spans *s)
{
	free(s->span);
}

static enum kcd_code open_span(struct kcd_spans *s, const struct kcd_span *span)
{
	if (s->count == s->room) {
		uint32_t room = s->room ? s->room * 2 : 64;
		struct kcd_span *p = room > s->room ? realloc(s->span, room * sizeof(*p)) : NULL;

		if (!p)
			return KCD_ENOMEM;
		s->span = p;
		s->room = room;
	}
	s->open[s->depth++] = s->count;
	s->span[s->count++] = *span;
	return KCD_OK;
}

static void close_span(struct kcd_spans *s, size_t end, size_t next)
{
	struct kcd_span *span = &s->span[s->open[--s->depth]];

	span->end = end;
	span->next = next;
}

enum kcd_code kcd_spans_step(struct kcd_spans *s, const struct kcd_step *step)
{
	struct kcd_span span = { .at = step->at, .body = step->next };

	switch (step->kind) {
	case KCD_STEP_BUFFER:
		span.at = s->count ? s->item : 0;
		span.magic = step->magic;
		return open_span(s, &span);
	case KCD_STEP_BUFFER_END: close_span(s, step->at, step->next); return KCD_OK;
	case KCD_STEP_ITEM: break;
	}
	s->item = step->at;
	if (step->item->kind == KCD_ITEM_CONTAINER_BEGIN)
		return open_span(s, &span);
	if (step->item->kind == KCD_ITEM_CONTAINER_END)
		close_span(s, step->at, step->next);
	return KCD_OK;
}

void kcd_spans_close(struct kcd_spans *s, size_t stop)
{
	while (s->depth)
		close_span(s, stop, stop);
}

const struct kcd_span *kcd_spans_at(const struct kcd_spans *s, size_t at)
{
	uint32_t low = 0;
	uint32_t high = s->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (s->span[mid].at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->count && s->span[low].at == at ? &s->span[low] : NULL;
}

enum kcd_code kcd_spans_read(const void *buf, size_t len, size_t at, struct kcd_item *item_out,
			     size_t *next_out)
{
	// a reader put down in the middle; containers are walked by their spans, so it knows none
	struct kcd_reader r = { .buf = buf, .len = len, .pos = at };
	enum kcd_code rc = kcd_reader_next(&r, item_out);

	*next_out = r.pos;
	return rc;
}
