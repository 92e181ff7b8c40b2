/* SPDX-License-Identifier: Apache-2.0 */
/* Names of magics, codes and findings, for programs and messages. */
#include "kcdata/kcdata.h"

const char *kcd_magic_name(uint32_t type)
{
	switch (type) {
	case KCD_MAGIC_CRASHINFO: return "CRASHINFO";
	case KCD_MAGIC_STACKSHOT: return "STACKSHOT";
	case KCD_MAGIC_DELTA_STACKSHOT: return "DELTA_STACKSHOT";
	case KCD_MAGIC_COMPRESSED: return "COMPRESSED";
	case KCD_MAGIC_BTINFO: return "BTINFO";
	case KCD_MAGIC_OS_REASON: return "OS_REASON";
	case KCD_MAGIC_XNUPOST_CONFIG: return "XNUPOST_CONFIG";
	default: return NULL;
	}
}

bool kcd_is_magic(uint32_t type)
{
	return kcd_magic_name(type) != NULL;
}

const char *kcd_code_name(enum kcd_code code)
{
	switch (code) {
	case KCD_OK: return "ok";
	case KCD_DONE: return "done";
	case KCD_ENOSPC: return "out-of-room";
	case KCD_EMALFORMED: return "malformed";
	case KCD_ETOOBIG: return "too-big";
	case KCD_EINVAL: return "invalid-argument";
	case KCD_ECOPY: return "copy-failed";
	case KCD_ECOMPRESSED: return "compressed";
	case KCD_ENOTSUP: return "not-supported";
	case KCD_ENOMEM: return "out-of-memory";
	case KCD_EIO: return "output-failed";
	}
	return "unknown";
}

const char *kcd_finding_name(enum kcd_finding finding)
{
	switch (finding) {
	case KCD_FIND_NONE: return "none";
	case KCD_FIND_NO_MAGIC: return "no-magic";
	case KCD_FIND_TRUNCATED_HEADER: return "truncated-header";
	case KCD_FIND_TRUNCATED_ITEM: return "truncated-item";
	case KCD_FIND_ARRAY_SIZE: return "array-size";
	case KCD_FIND_ARRAY_ELEMENT: return "array-element-unknown";
	case KCD_FIND_CONTAINER_SHORT: return "container-too-short";
	case KCD_FIND_CONTAINER_ID: return "container-id-mismatch";
	case KCD_FIND_CONTAINER_OPEN: return "container-not-closed";
	case KCD_FIND_TOO_DEEP: return "too-deep";
	case KCD_FIND_FRAME: return "compressed-frame";
	case KCD_FIND_ALGORITHM: return "compressed-algorithm-unknown";
	case KCD_FIND_DATA: return "compressed-data";
	case KCD_FIND_LENGTH: return "compressed-length";
	case KCD_FIND_LIMIT: return "compressed-over-limit";
	case KCD_FIND_NESTED: return "nested-buffer";
	case KCD_FIND_CONTAINER_STRAY: return "container-end-stray";
	case KCD_FIND_PADDING: return "padding-not-zero";
	case KCD_FIND_UNALIGNED: return "size-unaligned";
	case KCD_FIND_MAGIC_INSIDE: return "magic-inside";
	case KCD_FIND_TRAILING: return "trailing-bytes";
	case KCD_FIND_FRAME_EXTRA: return "compressed-frame-extra";
	case KCD_FIND_FRAME_END: return "compressed-frame-end";
	case KCD_FIND_SPAN_TAIL: return "compressed-span-tail";
	case KCD_FIND_KEY_REPEATED: return "key-repeated";
	case KCD_FIND_CONTAINER_REPEATED: return "container-repeated";
	case KCD_FIND_TYPEDEF: return "type-definition";
	case KCD_FIND_TOO_LARGE: return "too-large";
	case KCD_FIND_FLAGS: return "flags";
	case KCD_FIND_VALUE_SHORT: return "value-too-short";
	case KCD_FIND_VALUE_NAME: return "value-name";
	case KCD_FIND_MAGIC_UNCOMMON: return "magic-uncommon";
	}
	return "unknown";
}
