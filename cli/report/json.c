/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON document of a capture: docs/json.md. */
#include <stdio.h>
#include <time.h>

#include "cli/report/context.h"
#include "cli/report/lines.h"
#include "cli/report/members.h"
#include "cli/report/report.h"
#include "cli/report/system.h"
#include "cli/report/waits.h"
#include "introspect/linux/linux.h"

bool rep_json_sink(void *arg, const void *data, size_t len)
{
	return fwrite(data, 1, len, arg) == len;
}

/* kcdata refuses what is not terminated; the records' strings may fill their field. */
static void member_text(struct kcd_json *j, const char *key, const char *text, size_t max)
{
	kcd_json_key(j, key);
	kcd_json_string_n(j, text, max);
}

static void write_missing(struct kcd_json *j, const struct rep_capture *c)
{
	kcd_json_key(j, "missing");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < c->missing_count; i++) {
		const struct ss_missing_record *m = &c->missing[i];

		kcd_json_object_begin(j);
		kcd_json_member_string(j, "what", rep_missing_name(m->what));
		kcd_json_member_u64(j, "count", m->count);
		kcd_json_key(j, "pid");
		m->pid >= 0 ? kcd_json_i64(j, m->pid) : kcd_json_null(j);
		kcd_json_key(j, "tid");
		m->tid >= 0 ? kcd_json_i64(j, m->tid) : kcd_json_null(j);
		kcd_json_member_hex(j, "address", m->address);
		kcd_json_member_string(j, "reason", m->reason);
		kcd_json_object_end(j);
	}
	if (c->damaged) {
		kcd_json_object_begin(j);
		kcd_json_member_string(j, "what", "file");
		kcd_json_member_u64(j, "count", 1);
		kcd_json_key(j, "pid");
		kcd_json_null(j);
		kcd_json_key(j, "tid");
		kcd_json_null(j);
		kcd_json_member_hex(j, "address", 0);
		kcd_json_member_string(j, "reason", c->damage);
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
}

static void write_kernel(struct kcd_json *j, const struct rep_capture *c)
{
	kcd_json_key(j, "kernel");
	if (!c->banner) {
		kcd_json_null(j);
		return;
	}
	kcd_json_object_begin(j);
	kcd_json_member_string(j, "release", c->release);
	kcd_json_member_string(j, "banner", c->banner);
	kcd_json_member_u64(j, "page_size", c->guest.page_size);
	kcd_json_member_u64(j, "va_bits", c->guest.va_bits);
	kcd_json_member_hex(j, "text", c->guest.kernel_text);
	kcd_json_member_hex(j, "voffset", c->guest.kernel_voffset);
	kcd_json_member_u64(j, "symbols", c->guest.symbols);
	kcd_json_object_end(j);
}

static void write_times(struct kcd_json *j, const struct rep_capture *c)
{
	static const char *const faults[] = { "none",	    "not-canonical",	   "no-table",
					      "not-mapped", "reserved-descriptor", "table-not-ram",
					      "not-ram" };
	const struct ss_times_record *t = &c->times;

	kcd_json_key(j, "times");
	kcd_json_object_begin(j);
	kcd_json_member_u64(j, "stopped_ns",
			    t->prior_ns + t->stop_ns + t->collect_ns + t->resume_ns);
	kcd_json_member_u64(j, "stop_ns", t->stop_ns);
	kcd_json_member_u64(j, "collect_ns", t->collect_ns);
	kcd_json_member_u64(j, "resume_ns", t->resume_ns);
	kcd_json_member_u64(j, "prior_ns", t->prior_ns);
	kcd_json_object_end(j);
	kcd_json_member_u64(j, "tries", t->tries);
	kcd_json_key(j, "reading");
	kcd_json_object_begin(j);
	kcd_json_member_u64(j, "reads", t->reads);
	kcd_json_member_u64(j, "bytes", t->bytes);
	kcd_json_key(j, "faults");
	kcd_json_object_begin(j);
	for (size_t i = 1; i < sizeof(faults) / sizeof(faults[0]); i++)
		kcd_json_member_u64(j, faults[i], t->faults[i]);
	kcd_json_object_end(j);
	kcd_json_object_end(j);
}

void rep_json_taken(struct kcd_json *j, const struct rep_capture *c)
{
	time_t seconds = (time_t)(c->wall_us / 1000000);
	struct tm tm;
	char taken[40] = "";

	if (gmtime_r(&seconds, &tm))
		strftime(taken, sizeof(taken), "%Y-%m-%dT%H:%M:%SZ", &tm);
	kcd_json_member_bool(j, "complete", rep_is_complete(c));
	write_missing(j, c);
	kcd_json_member_string(j, "taken", taken);
	kcd_json_member_u64(j, "usecs_since_epoch", c->wall_us);
}

static void write_reason(struct kcd_json *j, const struct rep_capture *c)
{
	const struct ss_reason_record *r = &c->reason;
	const char *name = ss_reason_name(r->reason);

	kcd_json_key(j, "reason");
	if (!r->reason) {
		kcd_json_null(j);
		return;
	}
	kcd_json_object_begin(j);
	kcd_json_member_string(j, "reason", name ? name : "unknown");
	kcd_json_key(j, "pid");
	r->pid >= 0 ? kcd_json_i64(j, r->pid) : kcd_json_null(j);
	kcd_json_key(j, "tid");
	r->tid >= 0 ? kcd_json_i64(j, r->tid) : kcd_json_null(j);
	kcd_json_key(j, "vcpu");
	r->vcpu >= 0 ? kcd_json_i64(j, r->vcpu) : kcd_json_null(j);
	kcd_json_member_u64(j, "for_ns", r->for_ns);
	member_text(j, "text", r->text, sizeof(r->text));
	kcd_json_key(j, "console");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < c->console_count; i++)
		kcd_json_string_n(j, c->console[i].text, sizeof(c->console[i].text));
	kcd_json_array_end(j);
	kcd_json_object_end(j);
}

static void write_capture(struct kcd_json *j, const struct rep_capture *c)
{
	struct rep_totals sum = rep_capture_totals(c);

	kcd_json_key(j, "capture");
	kcd_json_object_begin(j);
	rep_json_taken(j, c);
	write_reason(j, c);
	member_text(j, "source", c->guest.source, sizeof(c->guest.source));
	kcd_json_member_u64(j, "ram_bytes", c->guest.ram_size);
	kcd_json_member_u64(j, "vcpus", c->guest.vcpus);
	kcd_json_member_u64(j, "clusters", c->guest.clusters);
	kcd_json_member_u64(j, "tasks", sum.processes);
	kcd_json_member_u64(j, "threads", sum.threads);
	write_kernel(j, c);
	rep_json_system(j, c);
	write_times(j, c);
	kcd_json_object_end(j);
}

static void write_registers(struct kcd_json *j, const struct ss_vcpu_record *v)
{
	static const struct {
		const char *name;
		size_t offset;
	} registers[] = {
#define REGISTER(name) { #name, offsetof(struct ss_vcpu_record, name) }
		REGISTER(sp_el0),    REGISTER(sp_el1),	       REGISTER(pc),
		REGISTER(pstate),    REGISTER(elr_el1),	       REGISTER(spsr_el1),
		REGISTER(ttbr0_el1), REGISTER(ttbr1_el1),      REGISTER(tcr_el1),
		REGISTER(mair_el1),  REGISTER(sctlr_el1),      REGISTER(vbar_el1),
		REGISTER(tpidr_el1), REGISTER(contextidr_el1), REGISTER(mpidr_el1),
	};

	kcd_json_key(j, "registers");
	kcd_json_object_begin(j);
	kcd_json_key(j, "x");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < 31; i++)
		kcd_json_hex(j, v->x[i]);
	kcd_json_array_end(j);
	for (size_t i = 0; i < sizeof(registers) / sizeof(registers[0]); i++)
		kcd_json_member_hex(
			j, registers[i].name,
			*(const uint64_t *)(const void *)((const char *)v + registers[i].offset));
	kcd_json_object_end(j);
}

static void write_vcpus(struct kcd_json *j, const struct rep_capture *c)
{
	kcd_json_key(j, "vcpus");
	kcd_json_array_begin(j);
	for (size_t i = 0; i < c->vcpu_count; i++) {
		const struct ss_vcpu_record *v = &c->vcpus[i];

		kcd_json_object_begin(j);
		kcd_json_member_u64(j, "vcpu", v->vcpu);
		kcd_json_member_u64(j, "cluster", v->cluster);
		kcd_json_member_string(j, "state", rep_vcpu_state_name(v->state));
		kcd_json_key(j, "current");
		if (v->pid >= 0) {
			kcd_json_object_begin(j);
			kcd_json_member_i64(j, "pid", v->pid);
			kcd_json_member_i64(j, "tid", v->tid);
			member_text(j, "comm", v->comm, sizeof(v->comm));
			kcd_json_object_end(j);
		} else {
			kcd_json_null(j);
		}
		write_registers(j, v);
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
}

static void write_backtrace(struct kcd_json *j, const struct rep_capture *c,
			    const struct rep_thread *t)
{
	kcd_json_key(j, "kernel_backtrace");
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < t->frame_count; i++) {
		const struct rep_frame *f = &c->frames[t->first_frame + i];

		kcd_json_object_begin(j);
		kcd_json_member_hex(j, "address", f->address);
		kcd_json_key(j, "symbol");
		if (f->symbol) {
			kcd_json_string(j, f->symbol->name);
			kcd_json_member_u64(j, "offset", f->address - f->symbol->start);
			kcd_json_member_u64(j, "size", f->symbol->size);
		} else {
			kcd_json_null(j);
		}
		kcd_json_key(j, "module");
		if (f->module)
			kcd_json_string(j, f->module);
		else
			kcd_json_null(j);
		kcd_json_member_string(j, "kind", rep_frame_kind_name(f->kind));
		if (f->doubt)
			kcd_json_member_string(j, "uncertain", rep_doubt_name(f->doubt));
		if (f->symbol && f->symbol->flags & SS_SYMBOL_SCHED)
			kcd_json_member_bool(j, "sched", true);
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
}

static const char *user_frame_kind(const struct rep_thread *t, uint32_t i)
{
	if (i == 0)
		return rep_frame_kind_name(LNX_FRAME_PC);
	return rep_frame_kind_name(i == 1 && t->user.has_lr ? LNX_FRAME_LR : LNX_FRAME_RETURN);
}

/* Only where it was asked for: member and all. */
static void write_user_backtrace(struct kcd_json *j, const struct rep_capture *c,
				 const struct rep_thread *t)
{
	if (!t->has_user)
		return;
	kcd_json_member_string(j, "user_stack_end", rep_user_end_name(t->user.end));
	kcd_json_key(j, "user_backtrace");
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < t->user_frame_count; i++) {
		const struct rep_user_frame *f = &c->user_frames[t->first_user_frame + i];
		const struct ss_mapping_record *m = rep_user_frame_file(c, f);
		char build_id[REP_BUILD_ID_TEXT];

		kcd_json_object_begin(j);
		kcd_json_member_hex(j, "address", f->address);
		kcd_json_key(j, "file");
		if (m) {
			kcd_json_string_n(j, m->file, sizeof(m->file));
			kcd_json_member_u64(j, "offset", f->address - m->start + m->offset);
			kcd_json_member_u64(j, "inode", m->inode);
			if (m->build_id_size)
				kcd_json_member_string(j, "build_id", rep_build_id(m, build_id));
		} else {
			kcd_json_null(j);
		}
		kcd_json_member_string(j, "kind", user_frame_kind(t, i));
		kcd_json_object_end(j);
	}
	kcd_json_array_end(j);
}

static void write_thread_facts(struct kcd_json *j, const struct ss_thread_record *r)
{
	if (r->known & LNX_TASK_HAS_CPU)
		kcd_json_member_u64(j, "cpu", r->cpu);
	if (r->known & LNX_TASK_HAS_PRIO) {
		kcd_json_key(j, "priority");
		kcd_json_object_begin(j);
		kcd_json_member_i64(j, "prio", r->prio);
		kcd_json_member_i64(j, "static_prio", r->static_prio);
		kcd_json_member_u64(j, "rt_priority", r->rt_priority);
		kcd_json_member_u64(j, "policy", r->policy);
		kcd_json_object_end(j);
	}
	if (r->known & LNX_TASK_HAS_TIMES) {
		kcd_json_key(j, "run_time");
		kcd_json_object_begin(j);
		kcd_json_member_u64(j, "user_ns", r->utime_ns);
		kcd_json_member_u64(j, "system_ns", r->stime_ns);
		kcd_json_member_u64(j, "sum_exec_ns", r->sum_exec_runtime_ns);
		kcd_json_object_end(j);
	}
	if (r->known & LNX_TASK_HAS_START) {
		kcd_json_member_u64(j, "start_ns", r->start_time_ns);
		kcd_json_member_u64(j, "start_boottime_ns", r->start_boottime_ns);
	}
	if (r->known & LNX_TASK_HAS_SWITCHES) {
		kcd_json_key(j, "context_switches");
		kcd_json_object_begin(j);
		kcd_json_member_u64(j, "voluntary", r->nvcsw);
		kcd_json_member_u64(j, "involuntary", r->nivcsw);
		kcd_json_object_end(j);
	}
	if (r->known & LNX_TASK_HAS_FAULTS) {
		kcd_json_key(j, "page_faults");
		kcd_json_object_begin(j);
		kcd_json_member_u64(j, "minor", r->min_flt);
		kcd_json_member_u64(j, "major", r->maj_flt);
		kcd_json_object_end(j);
	}
}

void rep_json_thread(struct kcd_json *j, const struct rep_capture *c, const struct rep_thread *t)
{
	const struct ss_thread_record *r = &t->linux_facts;

	kcd_json_object_begin(j);
	if (t->has_linux) {
		char letter[2] = { (char)r->state, 0 };

		kcd_json_member_i64(j, "tid", r->tid);
		kcd_json_member_string(j, "comm", t->comm);
		kcd_json_member_string(j, "state", letter);
		kcd_json_member_hex(j, "raw_state", r->raw_state);
		kcd_json_member_u64(j, "flags", r->flags);
		kcd_json_member_bool(j, "kernel_thread", r->flags & LNX_PF_KTHREAD);
		kcd_json_key(j, "vcpu");
		r->vcpu >= 0 ? kcd_json_i64(j, r->vcpu) : kcd_json_null(j);
		write_thread_facts(j, r);
		kcd_json_member_hex(j, "task_struct", r->address);
		kcd_json_member_string(j, "stack_end", rep_stack_end_name(r->stack_end));
	} else {
		kcd_json_member_u64(j, "tid", t->stock.ths_thread_id);
		kcd_json_member_string(j, "comm", t->comm);
		kcd_json_key(j, "state");
		kcd_json_null(j);
	}
	rep_json_thread_context(j, t);
	rep_json_waits(j, c, t);
	write_backtrace(j, c, t);
	write_user_backtrace(j, c, t);
	kcd_json_object_end(j);
}

static void write_task(struct kcd_json *j, const struct rep_capture *c, const struct rep_task *t)
{
	kcd_json_object_begin(j);
	kcd_json_member_i64(j, "pid", t->pid);
	kcd_json_key(j, "ppid");
	t->ppid >= 0 ? kcd_json_i64(j, t->ppid) : kcd_json_null(j);
	kcd_json_member_string(j, "comm", t->comm);
	rep_json_process_context(j, c, t);
	kcd_json_key(j, "threads");
	kcd_json_array_begin(j);
	for (uint32_t i = 0; i < t->thread_count; i++)
		rep_json_thread(j, c, &c->threads[t->first_thread + i]);
	kcd_json_array_end(j);
	kcd_json_object_end(j);
}

bool rep_json(const struct rep_capture *c, FILE *to)
{
	const struct rep_task *idle = NULL;
	struct kcd_json j;

	for (size_t i = 0; i < c->task_count; i++)
		if (c->tasks[i].pid == 0)
			idle = &c->tasks[i];

	kcd_json_init(&j, rep_json_sink, to, KCD_JSON_PRETTY);
	kcd_json_object_begin(&j);
	kcd_json_member_u64(&j, "schema_version", REP_JSON_SCHEMA_VERSION);
	write_capture(&j, c);
	write_vcpus(&j, c);
	kcd_json_key(&j, "idle_task");
	if (idle)
		write_task(&j, c, idle);
	else
		kcd_json_null(&j);
	kcd_json_key(&j, "tasks");
	kcd_json_array_begin(&j);
	for (size_t i = 0; i < c->task_count && !kcd_json_failed(&j); i++)
		if (c->tasks[i].pid != 0)
			write_task(&j, c, &c->tasks[i]);
	kcd_json_array_end(&j);
	if (c->log_count)
		rep_json_log(&j, c);
	bool ok = rep_json_deadlocks(&j, c);
	kcd_json_object_end(&j);
	return kcd_json_finish(&j) == KCD_OK && fflush(to) == 0 && ok;
}
