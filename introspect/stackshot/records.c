/* SPDX-License-Identifier: Apache-2.0 */
/* Our own record types as a table. */
#include "introspect/stackshot/records.h"

#include "base/util.h"

#define HEX KCD_FIELD_HEX

static const struct kcd_field guest_fields[] = {
	KCD_FIELD(struct ss_guest_record, ram_size),
	KCD_FIELD_FLAGS(struct ss_guest_record, kernel_text, "kernel_text", HEX),
	KCD_FIELD_FLAGS(struct ss_guest_record, kernel_voffset, "kernel_voffset", HEX),
	KCD_FIELD(struct ss_guest_record, vcpus),
	KCD_FIELD(struct ss_guest_record, clusters),
	KCD_FIELD(struct ss_guest_record, page_size),
	KCD_FIELD(struct ss_guest_record, va_bits),
	KCD_FIELD(struct ss_guest_record, symbols),
	KCD_FIELD(struct ss_guest_record, source),
};

#define VCPU_HEX(member) KCD_FIELD_FLAGS(struct ss_vcpu_record, member, #member, HEX)

static const struct kcd_field vcpu_fields[] = {
	KCD_FIELD(struct ss_vcpu_record, vcpu),
	KCD_FIELD(struct ss_vcpu_record, cluster),
	KCD_FIELD(struct ss_vcpu_record, state),
	VCPU_HEX(known),
	KCD_FIELD(struct ss_vcpu_record, pid),
	KCD_FIELD(struct ss_vcpu_record, tid),
	VCPU_HEX(thread_id),
	VCPU_HEX(x),
	VCPU_HEX(sp_el0),
	VCPU_HEX(sp_el1),
	VCPU_HEX(pc),
	VCPU_HEX(pstate),
	VCPU_HEX(elr_el1),
	VCPU_HEX(spsr_el1),
	VCPU_HEX(ttbr0_el1),
	VCPU_HEX(ttbr1_el1),
	VCPU_HEX(tcr_el1),
	VCPU_HEX(mair_el1),
	VCPU_HEX(sctlr_el1),
	VCPU_HEX(vbar_el1),
	VCPU_HEX(tpidr_el1),
	VCPU_HEX(contextidr_el1),
	VCPU_HEX(mpidr_el1),
	KCD_FIELD(struct ss_vcpu_record, comm),
};

static const struct kcd_field task_fields[] = {
	KCD_FIELD(struct ss_task_record, pid),
	KCD_FIELD(struct ss_task_record, ppid),
	KCD_FIELD_FLAGS(struct ss_task_record, flags, "flags", HEX),
	KCD_FIELD(struct ss_task_record, threads),
	KCD_FIELD_FLAGS(struct ss_task_record, address, "address", HEX),
	KCD_FIELD(struct ss_task_record, comm),
};

#define THREAD(member)	   KCD_FIELD(struct ss_thread_record, member)
#define THREAD_HEX(member) KCD_FIELD_FLAGS(struct ss_thread_record, member, #member, HEX)

static const struct kcd_field thread_fields[] = {
	THREAD(tid),
	THREAD(vcpu),
	THREAD(state),
	THREAD_HEX(raw_state),
	THREAD_HEX(exit_state),
	THREAD_HEX(flags),
	THREAD_HEX(known),
	THREAD(cpu),
	THREAD(prio),
	THREAD(static_prio),
	THREAD(rt_priority),
	THREAD(policy),
	THREAD(stack_end),
	THREAD(reserved),
	THREAD_HEX(stack_end_at),
	THREAD(utime_ns),
	THREAD(stime_ns),
	THREAD(sum_exec_runtime_ns),
	THREAD(nvcsw),
	THREAD(nivcsw),
	THREAD(start_time_ns),
	THREAD(start_boottime_ns),
	THREAD(exec_start_ns),
	THREAD(min_flt),
	THREAD(maj_flt),
	THREAD_HEX(address),
	THREAD(comm),
};

static const struct kcd_field frame_kind_fields[] = {
	KCD_FIELD(struct ss_frame_kind_record, index),
	KCD_FIELD(struct ss_frame_kind_record, kind),
	KCD_FIELD(struct ss_frame_kind_record, doubt),
};

static const struct kcd_field symbol_fields[] = {
	KCD_FIELD_FLAGS(struct ss_symbol_record, start, "start", HEX),
	KCD_FIELD(struct ss_symbol_record, size),
	KCD_FIELD_FLAGS(struct ss_symbol_record, flags, "flags", HEX),
	KCD_FIELD(struct ss_symbol_record, name),
};

static const struct kcd_field long_symbol_fields[] = {
	KCD_FIELD_FLAGS(struct ss_long_symbol_record, start, "start", HEX),
	KCD_FIELD(struct ss_long_symbol_record, size),
	KCD_FIELD_FLAGS(struct ss_long_symbol_record, flags, "flags", HEX),
	KCD_FIELD(struct ss_long_symbol_record, name),
};

static const struct kcd_field module_fields[] = {
	KCD_FIELD_FLAGS(struct ss_module_record, start, "start", HEX),
	KCD_FIELD(struct ss_module_record, size),
	KCD_FIELD_FLAGS(struct ss_module_record, flags, "flags", HEX),
	KCD_FIELD(struct ss_module_record, name),
	KCD_FIELD_FLAGS(struct ss_module_record, build_id, "build_id", HEX),
	KCD_FIELD(struct ss_module_record, reserved),
};

static const struct kcd_field system_fields[] = {
	KCD_FIELD_FLAGS(struct ss_system_record, known, "known", HEX),
	KCD_FIELD(struct ss_system_record, panic_cpu),
	KCD_FIELD_FLAGS(struct ss_system_record, taint, "taint", HEX),
	KCD_FIELD(struct ss_system_record, uptime_ns),
	KCD_FIELD(struct ss_system_record, load),
	KCD_FIELD(struct ss_system_record, total_pages),
	KCD_FIELD(struct ss_system_record, free_pages),
	KCD_FIELD(struct ss_system_record, file_pages),
	KCD_FIELD(struct ss_system_record, panic),
};

static const struct kcd_field log_fields[] = {
	KCD_FIELD(struct ss_log_record, seq),
	KCD_FIELD(struct ss_log_record, time_ns),
	KCD_FIELD_FLAGS(struct ss_log_record, caller, "caller", HEX),
	KCD_FIELD(struct ss_log_record, part),
	KCD_FIELD(struct ss_log_record, facility),
	KCD_FIELD_FLAGS(struct ss_log_record, level_flags, "level_flags", HEX),
	KCD_FIELD(struct ss_log_record, text),
};

static const struct kcd_field process_context_fields[] = {
	KCD_FIELD_FLAGS(struct ss_process_context_record, known, "known", HEX),
	KCD_FIELD(struct ss_process_context_record, namespace),
	KCD_FIELD_FLAGS(struct ss_process_context_record, pending, "pending", HEX),
	KCD_FIELD(struct ss_process_context_record, cgroup),
	KCD_FIELD_FLAGS(struct ss_process_context_record, command, "command", HEX),
};

static const struct kcd_field thread_context_fields[] = {
	KCD_FIELD_FLAGS(struct ss_thread_context_record, known, "known", HEX),
	KCD_FIELD(struct ss_thread_context_record, on_rq),
	KCD_FIELD(struct ss_thread_context_record, vruntime),
	KCD_FIELD_FLAGS(struct ss_thread_context_record, cfs_rq, "cfs_rq", HEX),
	KCD_FIELD_FLAGS(struct ss_thread_context_record, pending, "pending", HEX),
	KCD_FIELD_FLAGS(struct ss_thread_context_record, blocked, "blocked", HEX),
	KCD_FIELD(struct ss_thread_context_record, deadline),
	KCD_FIELD(struct ss_thread_context_record, rt_place),
	KCD_FIELD(struct ss_thread_context_record, delayed),
	KCD_FIELD(struct ss_thread_context_record, locks),
	KCD_FIELD(struct ss_thread_context_record, reserved),
};

static const struct kcd_field missing_fields[] = {
	KCD_FIELD(struct ss_missing_record, what),
	KCD_FIELD(struct ss_missing_record, count),
	KCD_FIELD(struct ss_missing_record, pid),
	KCD_FIELD(struct ss_missing_record, tid),
	KCD_FIELD_FLAGS(struct ss_missing_record, address, "address", HEX),
	KCD_FIELD(struct ss_missing_record, reason),
};

static const struct kcd_field times_fields[] = {
	KCD_FIELD(struct ss_times_record, stop_ns),
	KCD_FIELD(struct ss_times_record, collect_ns),
	KCD_FIELD(struct ss_times_record, resume_ns),
	KCD_FIELD(struct ss_times_record, prior_ns),
	KCD_FIELD(struct ss_times_record, reads),
	KCD_FIELD(struct ss_times_record, bytes),
	KCD_FIELD(struct ss_times_record, faults),
	KCD_FIELD(struct ss_times_record, tries),
	KCD_FIELD(struct ss_times_record, reserved),
	KCD_FIELD(struct ss_times_record, fault_ns),
	KCD_FIELD(struct ss_times_record, buffer_size),
	KCD_FIELD(struct ss_times_record, buffer_used),
	KCD_FIELD(struct ss_times_record, buffer_overhead),
	KCD_FIELD(struct ss_times_record, buffers),
	KCD_FIELD(struct ss_times_record, workers),
	KCD_FIELD(struct ss_times_record, same_tasks),
	KCD_FIELD(struct ss_times_record, same_threads),
};

static const struct kcd_field wait_fields[] = {
	KCD_FIELD(struct ss_wait_record, kind),
	KCD_FIELD(struct ss_wait_record, owner_tid),
	KCD_FIELD_FLAGS(struct ss_wait_record, owner, "owner", HEX),
	KCD_FIELD_FLAGS(struct ss_wait_record, object, "object", HEX),
	KCD_FIELD_FLAGS(struct ss_wait_record, extra, "extra", HEX),
	KCD_FIELD_FLAGS(struct ss_wait_record, device, "device", HEX),
	KCD_FIELD(struct ss_wait_record, reserved),
	KCD_FIELD(struct ss_wait_record, inode),
};

static const struct kcd_field reason_fields[] = {
	KCD_FIELD(struct ss_reason_record, reason), KCD_FIELD(struct ss_reason_record, pid),
	KCD_FIELD(struct ss_reason_record, tid),    KCD_FIELD(struct ss_reason_record, vcpu),
	KCD_FIELD(struct ss_reason_record, for_ns), KCD_FIELD(struct ss_reason_record, text),
};

static const struct kcd_field console_fields[] = {
	KCD_FIELD(struct ss_console_record, text),
};

static const struct kcd_field user_stack_fields[] = {
	KCD_FIELD(struct ss_user_stack_record, end),
	KCD_FIELD(struct ss_user_stack_record, has_lr),
	KCD_FIELD_FLAGS(struct ss_user_stack_record, end_at, "end_at", HEX),
};

static const struct kcd_field mapping_fields[] = {
	KCD_FIELD_FLAGS(struct ss_mapping_record, start, "start", HEX),
	KCD_FIELD_FLAGS(struct ss_mapping_record, end, "end", HEX),
	KCD_FIELD_FLAGS(struct ss_mapping_record, offset, "offset", HEX),
	KCD_FIELD(struct ss_mapping_record, inode),
	KCD_FIELD(struct ss_mapping_record, file),
	KCD_FIELD(struct ss_mapping_record, build_id_size),
	KCD_FIELD_FLAGS(struct ss_mapping_record, build_id, "build_id", HEX),
};

static const struct kcd_type types[] = {
	KCD_STRUCT_TYPE(SS_RECORD_GUEST, "GUEST", "gs_guest", guest_fields),
	KCD_STRUCT_TYPE(SS_RECORD_VCPU, "VCPU", "gs_vcpu", vcpu_fields),
	KCD_STRUCT_TYPE(SS_RECORD_TASK, "LINUX_TASK", "gs_linux_task", task_fields),
	KCD_STRUCT_TYPE(SS_RECORD_THREAD, "LINUX_THREAD", "gs_linux_thread", thread_fields),
	KCD_STRUCT_TYPE(SS_RECORD_FRAME_KIND, "FRAME_KIND", "gs_frame_kind", frame_kind_fields),
	KCD_STRUCT_TYPE(SS_RECORD_SYMBOL, "SYMBOL", "gs_symbol", symbol_fields),
	KCD_STRUCT_TYPE(SS_RECORD_LONG_SYMBOL, "LONG_SYMBOL", "gs_long_symbol", long_symbol_fields),
	KCD_STRUCT_TYPE(SS_RECORD_MISSING, "MISSING", "gs_missing", missing_fields),
	KCD_STRUCT_TYPE(SS_RECORD_TIMES, "TIMES", "gs_times", times_fields),
	KCD_STRUCT_TYPE(SS_RECORD_MODULE, "MODULE", "gs_module", module_fields),
	KCD_STRUCT_TYPE(SS_RECORD_WAIT, "WAIT", "gs_wait", wait_fields),
	KCD_STRUCT_TYPE(SS_RECORD_REASON, "REASON", "gs_reason", reason_fields),
	KCD_STRUCT_TYPE(SS_RECORD_CONSOLE, "CONSOLE", "gs_console", console_fields),
	KCD_STRUCT_TYPE(SS_RECORD_USER_STACK, "USER_STACK", "gs_user_stack", user_stack_fields),
	KCD_STRUCT_TYPE(SS_RECORD_MAPPING, "MAPPING", "gs_mapping", mapping_fields),
	KCD_STRUCT_TYPE(SS_RECORD_SYSTEM, "LINUX_SYSTEM", "gs_linux_system", system_fields),
	KCD_STRUCT_TYPE(SS_RECORD_LOG, "KERNEL_LOG", "gs_kernel_log", log_fields),
	KCD_STRUCT_TYPE(SS_RECORD_PROCESS_CONTEXT, "PROCESS_CONTEXT", "gs_process_context",
			process_context_fields),
	KCD_STRUCT_TYPE(SS_RECORD_THREAD_CONTEXT, "THREAD_CONTEXT", "gs_thread_context",
			thread_context_fields),
};

const struct kcd_schema ss_schema = { types, ARRAY_SIZE(types), NULL };

const char *ss_reason_name(uint32_t reason)
{
	static const char *const names[] = {
		[SS_REASON_SCHEDULE] = "schedule",
		[SS_REASON_PANIC] = "panic",
		[SS_REASON_OOPS] = "oops",
		[SS_REASON_HUNG_TASK] = "hung-task",
		[SS_REASON_SOFT_LOCKUP] = "soft-lockup",
		[SS_REASON_CONSOLE] = "console",
		[SS_REASON_TIMEOUT] = "timeout",
		[SS_REASON_EXIT] = "exit",
		[SS_REASON_UNTIL] = "until",
		[SS_REASON_SIGNAL] = "signal",
	};

	return reason < ARRAY_SIZE(names) ? names[reason] : NULL;
}
