/* SPDX-License-Identifier: Apache-2.0 */
/* What of a capture depends on the guest's state alone. */
#include "tests/unit/stackshot/picture.h"

#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/records.h"
#include "kcdata/kcdata.h"

static bool is_wanted_array(const struct kcd_item *it)
{
	return it->kind == KCD_ITEM_ARRAY &&
	       (it->elem_type == SS_RECORD_VCPU || it->elem_type == SS_RECORD_SYMBOL ||
		it->elem_type == SS_RECORD_LONG_SYMBOL || it->elem_type == SS_RECORD_MODULE ||
		it->elem_type == SS_RECORD_MISSING);
}

static bool is_in_section(const struct kcd_item *it)
{
	return it->depth || it->kind == KCD_ITEM_CONTAINER_BEGIN ||
	       it->kind == KCD_ITEM_CONTAINER_END;
}

static bool copy(const struct ss_result *r, struct picture *out)
{
	struct kcd_reader reader;
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&reader, r->data, r->size, KCD_STRICT, NULL);

	while (!rc && !(rc = kcd_reader_next(&reader, &it))) {
		const size_t size = reader.pos - it.offset;

		if (!is_in_section(&it) && !is_wanted_array(&it))
			continue;
		memcpy(out->bytes + out->size, (const uint8_t *)r->data + it.offset, size);
		out->size += size;
		out->tasks += is_in_section(&it) ? size : 0;
	}
	return rc == KCD_DONE;
}

bool picture_take(const struct ss_result *r, struct picture *out)
{
	picture_drop(out);
	out->bytes = malloc(r->size);
	if (out->bytes && copy(r, out))
		return true;
	picture_drop(out);
	return false;
}

bool picture_is(const struct picture *a, const struct picture *b)
{
	return a->size == b->size && a->tasks == b->tasks &&
	       (!a->size || memcmp(a->bytes, b->bytes, a->size) == 0);
}

void picture_drop(struct picture *p)
{
	free(p->bytes);
	*p = (struct picture){ 0 };
}
