/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of items. */
#include "kcdata/decode.h"

#include <stdio.h>

void kcd_key_of(const struct kcd_item *it, const struct kcd_type *type, struct kcd_key *key_out)
{
	if (kcd_is_named(it)) {
		key_out->name = (const char *)it->data;
		key_out->len = strnlen(key_out->name, KCD_NAME_SIZE);
		return;
	}
	if (it->kind == KCD_ITEM_TYPEDEF && it->size >= 8 + KCD_NAME_SIZE) {
		int n = snprintf(key_out->room, sizeof(key_out->room), "typedef[%.*s]",
				 (int)KCD_NAME_SIZE, (const char *)it->data + 8);
		key_out->name = key_out->room;
		key_out->len = (size_t)n;
		return;
	}
	key_out->name = kcd_type_key(type, it->elem_type, key_out->room);
	key_out->len = strlen(key_out->name);
}
