/* SPDX-License-Identifier: Apache-2.0 */
/* The record types of saved logs as a table. */
#include "introspect/btlog/records.h"

#include "base/util.h"

#define HEX KCD_FIELD_HEX

static const struct kcd_field book_fields[] = {
	KCD_FIELD(struct btl_book_record, version),
	KCD_FIELD_FLAGS(struct btl_book_record, flags, "flags", HEX),
};

static const struct kcd_field kernel_fields[] = {
	KCD_FIELD_FLAGS(struct btl_kernel_record, text, "text", HEX),
	KCD_FIELD(struct btl_kernel_record, build_id_len),
	KCD_FIELD_FLAGS(struct btl_kernel_record, build_id, "build_id", HEX),
	KCD_FIELD(struct btl_kernel_record, banner),
};

#define LOG(member) KCD_FIELD(struct btl_log_record, member)

static const struct kcd_field log_fields[] = {
	LOG(kernel),  LOG(kind),     LOG(capacity),    LOG(sample), LOG(from_us),
	LOG(to_us),   LOG(recorded), LOG(overwritten), LOG(erased), LOG(dropped),
	LOG(skipped), LOG(lost),     LOG(name),
};

static const struct kcd_field op_fields[] = {
	KCD_FIELD(struct btl_op_record, log),
	KCD_FIELD(struct btl_op_record, op),
	KCD_FIELD(struct btl_op_record, name),
};

static const struct kcd_field module_fields[] = {
	KCD_FIELD(struct btl_module_record, name),
};

static const struct kcd_field symbol_fields[] = {
	KCD_FIELD_FLAGS(struct btl_symbol_record, start, "start", HEX),
	KCD_FIELD(struct btl_symbol_record, size),
	KCD_FIELD_FLAGS(struct btl_symbol_record, flags, "flags", HEX),
	KCD_FIELD(struct btl_symbol_record, name),
};

static const struct kcd_field long_symbol_fields[] = {
	KCD_FIELD_FLAGS(struct btl_long_symbol_record, start, "start", HEX),
	KCD_FIELD(struct btl_long_symbol_record, size),
	KCD_FIELD_FLAGS(struct btl_long_symbol_record, flags, "flags", HEX),
	KCD_FIELD(struct btl_long_symbol_record, name),
};

static const struct kcd_field frame_fields[] = {
	KCD_FIELD_FLAGS(struct btl_frame_record, frame, "frame", HEX),
	KCD_FIELD(struct btl_frame_record, symbol),
	KCD_FIELD(struct btl_frame_record, offset),
};

static const struct kcd_field stack_fields[] = {
	KCD_FIELD_FLAGS(struct btl_stack_record, flags, "flags", HEX),
	KCD_FIELD(struct btl_stack_record, count),
	KCD_FIELD(struct btl_stack_record, frame),
};

static const struct kcd_field entry_fields[] = {
	KCD_FIELD(struct btl_entry_record, time_us),
	KCD_FIELD_FLAGS(struct btl_entry_record, element, "element", HEX),
	KCD_FIELD(struct btl_entry_record, log),
	KCD_FIELD(struct btl_entry_record, stack),
	KCD_FIELD(struct btl_entry_record, op),
	KCD_FIELD(struct btl_entry_record, reserved),
};

static const struct kcd_type types[] = {
	KCD_STRUCT_TYPE(BTL_RECORD_BOOK, "BTLOG_BOOK", "gs_btlog_book", book_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_KERNEL, "BTLOG_KERNEL", "gs_btlog_kernel", kernel_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_LOG, "BTLOG_LOG", "gs_btlog_log", log_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_OP, "BTLOG_OP", "gs_btlog_op", op_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_SYMBOL, "BTLOG_SYMBOL", "gs_btlog_symbol", symbol_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_LONG_SYMBOL, "BTLOG_LONG_SYMBOL", "gs_btlog_long_symbol",
			long_symbol_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_FRAME, "BTLOG_FRAME", "gs_btlog_frame", frame_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_STACK, "BTLOG_STACK", "gs_btlog_stack", stack_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_ENTRY, "BTLOG_ENTRY", "gs_btlog_entry", entry_fields),
	KCD_STRUCT_TYPE(BTL_RECORD_MODULE, "BTLOG_MODULE", "gs_btlog_module", module_fields),
};

const struct kcd_schema btl_schema = { types, ARRAY_SIZE(types), NULL };
