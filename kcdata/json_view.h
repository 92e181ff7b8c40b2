/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer as JSON, with the keys and values of the stock readers. */
#ifndef KCDATA_JSON_VIEW_H
#define KCDATA_JSON_VIEW_H

/*
 *	{ "kcdata_stackshot": {
 *		"stackshot_in_flags": 65536,
 *		"task_snapshots": { "7": {
 *			"task_snapshot": { "ts_pid": 42, ... },
 *			"thread_snapshots": { "99": { "kernel_stack_frames": [ { "lr": ... } ] } } } } } }
 *
 * Usage:
 *
 *	struct kcd_json j;
 *	kcd_json_init(&j, sink, arg, KCD_JSON_PRETTY);
 *	rc = kcd_json_view(buf, len, KCD_TOLERANT, 0, &our_schema, &j, NULL, &err);
 *	if (!rc)
 *		rc = kcd_json_finish(&j);
 *
 * Rules, from the stock readers: records are members under their type's key; arrays of one key are
 * one array, whatever their types; of other records with one key the first is shown; containers of
 * one type are members of a dictionary, their ids the keys, the last one of an id is shown; fields
 * that do not fit into a record are left out; a type that the stream defines is shown by its
 * definition, wherever that stands. No key appears twice. docs/kcdata.md says where this view departs
 * from Apple's script on purpose (unknown types without their padding, named strings, ...).
 *
 * Threads: no state. Allocates: an index of the containers, and of the names in open ones.
 */

#include "kcdata/json.h"
#include "kcdata/kcdata.h"
#include "kcdata/schema.h"

#pragma GCC visibility push(default)

enum kcd_view_flag {
	KCD_VIEW_SALVAGE = 1u << 0, /* after damage, show what came before it */
};

/**
 * Write a plain buffer as one JSON value. The structure is checked before anything is written.
 *
 * @param buf      a plain buffer; what follows its END is not looked at, unless strict
 * @param mode     KCD_STRICT: any finding of the reader's is an error
 * @param flags    enum kcd_view_flag
 * @param extra    tables besides the built-in one; may be NULL
 * @param j        where a value is expected
 * @param end_out  may be NULL: bytes of the buffer, its END included; written with the value
 * @param err      may be NULL; filled unless KCD_OK
 * @return KCD_OK; KCD_EMALFORMED, KCD_ETOOBIG: nothing was written, or with KCD_VIEW_SALVAGE what
 *         came before the damage (nothing when not even the BEGIN could be read:
 *         kcd_reader_init() tells); KCD_ECOMPRESSED; KCD_ENOMEM: the value may be cut short, but
 *         is complete JSON
 */
KCD_MUST_USE enum kcd_code kcd_json_view(const void *buf, size_t len, enum kcd_mode mode,
					 uint32_t flags, const struct kcd_schema *extra,
					 struct kcd_json *j, size_t *end_out,
					 struct kcd_error *err);

#pragma GCC visibility pop

#endif
