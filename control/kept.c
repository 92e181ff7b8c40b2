/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of triggers that could not be written, kept in memory until they can. */
#include "control/kept.h"

#include <stdlib.h>
#include <string.h>

static void drop_oldest(struct ctl_kept *k)
{
	k->bytes -= k->capture[0].item.size;
	free(k->capture[0].data);
	k->count--;
	memmove(&k->capture[0], &k->capture[1], k->count * sizeof(k->capture[0]));
	/* each item means the numbers beside it */
	for (uint32_t i = 0; i < k->count; i++)
		k->capture[i].item.numbers = &k->capture[i].numbers;
}

bool ctl_kept_add(struct ctl_kept *k, const struct ctl_store_item *item, uint32_t *lost_out)
{
	void *data = item->size <= CTL_KEPT_BYTES_MAX ? malloc(item->size) : NULL;

	*lost_out = 0;
	if (!data)
		return false;
	memcpy(data, item->data, item->size);
	while (k->count == CTL_KEPT_MAX || k->bytes > CTL_KEPT_BYTES_MAX - item->size) {
		drop_oldest(k);
		(*lost_out)++;
	}
	struct ctl_kept_capture *c = &k->capture[k->count++];
	*c = (struct ctl_kept_capture){ .data = data, .numbers = *item->numbers, .item = *item };
	c->numbers.data = NULL; /* of the one that was copied */
	c->numbers.held = NULL;
	c->item.data = data;
	c->item.numbers = &c->numbers;
	k->bytes += item->size;
	return true;
}

enum gs_code ctl_kept_write(struct ctl_kept *k, struct ctl_store *st, uint32_t *written_out,
			    struct gs_error *err)
{
	enum gs_code rc = GS_OK;

	*written_out = 0;
	while (k->count && !rc) {
		bool is_there;

		rc = ctl_store_put(st, &k->capture[0].item, &is_there, err);
		if (!is_there)
			break;
		drop_oldest(k);
		(*written_out)++;
	}
	return rc;
}

void ctl_kept_deinit(struct ctl_kept *k)
{
	while (k->count)
		drop_oldest(k);
}
