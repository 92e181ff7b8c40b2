/* SPDX-License-Identifier: Apache-2.0 */
/* A capture read back by a strict reader. */
#include "tests/unit/stackshot/view.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/user.h"

struct parser {
	struct view *v;
	bool in_task, in_thread;
	uint64_t defined; /* bit n: type SS_RECORD_BASE + n */
};

static void check_defined(const struct parser *p, uint32_t type)
{
	if (type > SS_RECORD_BASE && type < SS_RECORD_BASE + 32)
		ck_assert_msg(BIT(p->defined, type - SS_RECORD_BASE), "type %#x is not defined",
			      type);
}

static void take_definition(struct parser *p, const struct kcd_item *it)
{
	uint32_t type;

	ck_assert_uint_eq(it->depth, 0);
	ck_assert_uint_ge(it->size, 4);
	memcpy(&type, it->data, 4);
	ck_assert_msg(type > SS_RECORD_BASE && type <= SS_RECORD_THREAD_CONTEXT, "type %#x", type);
	p->defined |= UINT64_C(1) << (type - SS_RECORD_BASE);
}

/* A record of exactly the size of our structure. */
static void take(const struct kcd_item *it, void *out, size_t size)
{
	ck_assert_uint_eq(it->size, size);
	memcpy(out, it->data, size);
}

static void take_thread_record(struct view_thread *t, const struct kcd_item *it)
{
	switch (it->type) {
	case KCD_SS_THREAD_SNAPSHOT: take(it, &t->stock, sizeof(t->stock)); break;
	case SS_RECORD_THREAD: take(it, &t->r, sizeof(t->r)); break;
	case SS_RECORD_USER_STACK:
		ck_assert(!t->has_user);
		take(it, &t->user, sizeof(t->user));
		t->has_user = true;
		break;
	case SS_RECORD_THREAD_CONTEXT:
		ck_assert(!t->has_context);
		take(it, &t->context, sizeof(t->context));
		t->has_context = true;
		break;
	case KCD_SS_THREAD_NAME: take(it, t->name, sizeof(t->name)); break;
	case KCD_SS_CPU_TIMES: take(it, &t->times, sizeof(t->times)); break;
	default: ck_abort_msg("record %#x in a thread", it->type);
	}
}

static void take_value(struct view *v, const struct kcd_item *it)
{
	const char *name;
	uint64_t value;
	static const struct {
		const char *name;
		size_t offset;
	} values[] = {
		{ "stackshot_tasks_count", offsetof(struct view, tasks_count) },
		{ "stackshot_threads_count", offsetof(struct view, threads_count) },
		{ "stackshot_tries", offsetof(struct view, tries) },
		{ "stackshot_in_flags", offsetof(struct view, in_flags) },
		{ "stackshot_out_flags", offsetof(struct view, out_flags) },
		{ "stackshot_pagetable_mask", offsetof(struct view, pagetable_mask) },
	};

	ck_assert(kcd_item_value(it, &name, &value));
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		if (strcmp(name, values[i].name) == 0)
			memcpy((char *)v + values[i].offset, &value, 8);
	if (strcmp(name, "stackshot_in_pid") == 0)
		v->in_pid = (int32_t)value;
	v->has_pagetable_mask |= strcmp(name, "stackshot_pagetable_mask") == 0;
}

static void take_text(const struct kcd_item *it, char *out)
{
	ck_assert_uint_le(it->size, KCD_SS_OSVERSION_MAX);
	ck_assert_int_eq(it->data[it->size - 1], 0);
	memcpy(out, it->data, it->size);
}

static void take_task_record(const struct view *v, struct view_task *t, const struct kcd_item *it)
{
	struct kcd_task_delta_snapshot_v2 delta;

	switch (it->type) {
	case KCD_SS_TASK_SNAPSHOT:
		take(it, &t->stock, sizeof(t->stock));
		t->is_told = true;
		break;
	case SS_RECORD_TASK: take(it, &t->r, sizeof(t->r)); break;
	case SS_RECORD_PROCESS_CONTEXT:
		ck_assert(!t->has_context);
		take(it, &t->context, sizeof(t->context));
		t->has_context = true;
		break;
	case KCD_SS_TASK_DELTA_SNAPSHOT:
		ck_assert(v->is_delta && !t->is_told);
		take(it, &delta, sizeof(delta));
		ck_assert_uint_eq(delta.tds_unique_pid, t->id);
		break;
	case KCD_SS_LATENCY_INFO_TASK:
		take(it, &t->latency, sizeof(t->latency));
		t->has_latency = true;
		break;
	case KCD_SS_ASID:
		ck_assert(!t->has_asid);
		take(it, &t->asid, sizeof(t->asid));
		t->has_asid = true;
		break;
	case KCD_SS_KERNELCACHE_LOADINFO:
		ck_assert(!t->has_kernel && !t->id);
		take(it, &t->kernel, sizeof(t->kernel));
		t->has_kernel = true;
		break;
	default: ck_abort_msg("record %#x in a task", it->type);
	}
}

static void take_record(struct parser *p, const struct kcd_item *it)
{
	struct view *v = p->v;

	check_defined(p, it->type);
	if (p->in_thread) {
		take_thread_record(&v->thread[v->threads - 1], it);
	} else if (p->in_task) {
		struct view_task *t = &v->task[v->tasks - 1];

		take_task_record(v, t, it);
	} else if (it->type == KCD_SS_GLOBAL_MEM_STATS) {
		ck_assert(!v->has_memory);
		take(it, &v->memory, sizeof(v->memory));
		v->has_memory = true;
	} else if (it->type == SS_RECORD_GUEST) {
		take(it, &v->guest, sizeof(v->guest));
	} else if (it->type == SS_RECORD_SYSTEM) {
		ck_assert(!v->has_system);
		take(it, &v->system, sizeof(v->system));
		v->has_system = true;
	} else if (it->type == SS_RECORD_REASON) {
		ck_assert(!v->cause.reason.reason);
		take(it, &v->cause.reason, sizeof(v->cause.reason));
	} else if (it->type == SS_RECORD_TIMES) {
		take(it, &v->times, sizeof(v->times));
	} else if (it->type == KCD_SS_DURATION) {
		take(it, &v->duration, sizeof(v->duration));
	} else if (it->type == KCD_SS_LATENCY_INFO) {
		take(it, &v->latency, sizeof(v->latency));
	} else if (it->type == KCD_SS_DELTA_SINCE_TIMESTAMP) {
		take(it, &v->since_ns, sizeof(v->since_ns));
	} else if (it->type == KCD_TYPE_MACH_ABSOLUTE_TIME) {
		take(it, &v->start_ns, sizeof(v->start_ns));
	} else if (it->type == KCD_SS_OSVERSION) {
		take_text(it, v->banner);
	} else if (it->type == KCD_SS_OS_BUILD_VERSION) {
		take_text(it, v->release);
	} else if (it->type == KCD_TYPE_UINT64_DESC || it->type == KCD_TYPE_UINT32_DESC) {
		take_value(v, it);
	}
}

static void take_symbols(struct view *v, const struct kcd_item *it, bool is_long)
{
	for (uint32_t i = 0; i < it->count; i++) {
		struct ss_long_symbol_record r = { 0 };
		struct view_symbol *s = &v->symbol[v->symbols++];

		ck_assert_uint_le(v->symbols, VIEW_SYMBOLS);
		ck_assert_uint_eq(it->elem_size,
				  is_long ? sizeof(r) : sizeof(struct ss_symbol_record));
		kcd_item_copy_elem(it, i, &r, sizeof(r));
		ck_assert_ptr_nonnull(
			memchr(r.name, 0, is_long ? SS_LONG_SYMBOL_NAME : SS_SYMBOL_NAME));
		*s = (struct view_symbol){ r.start, r.size, r.flags, "", is_long };
		strcpy(s->name, r.name);
		ck_assert_int_eq(is_long, strlen(r.name) >= SS_SYMBOL_NAME);
	}
}

static void take_modules(struct view *v, const struct kcd_item *it)
{
	ck_assert(!v->modules && it->count <= VIEW_MODULES);
	ck_assert_uint_eq(it->size, it->count * sizeof(v->module[0]));
	memcpy(v->module, it->data, it->size);
	v->modules = it->count;
	for (uint32_t i = 0; i < v->modules; i++)
		ck_assert_ptr_nonnull(memchr(v->module[i].name, 0, sizeof(v->module[i].name)));
}

/* Threads of the task at hand that are only named. */
static void take_same(struct parser *p, const struct kcd_item *it)
{
	struct view *v = p->v;
	struct view_task *t = &v->task[v->tasks - 1];
	const bool runnable = it->elem_type == KCD_SS_THREAD_DELTA_SNAPSHOT;

	ck_assert(v->is_delta && p->in_task && !p->in_thread);
	ck_assert_uint_le(v->same_count + it->count, VIEW_THREADS);
	if (!t->same_count)
		t->first_same = v->same_count;
	for (uint32_t i = 0; i < it->count; i++) {
		struct view_same *s = &v->same[v->same_count++];

		s->runnable = runnable;
		if (runnable)
			kcd_item_copy_elem(it, i, &s->delta, sizeof(s->delta));
		kcd_item_copy_elem(it, i, &s->id, sizeof(s->id)); /* comes first in both */
		t->same_count++;
	}
}

/* Each table is what its head says, and an array of its own. */
static void take_tables(struct view *v, const struct kcd_item *it)
{
	struct view_table *t = &v->table[v->tables++];
	uint64_t head[4];

	ck_assert_uint_le(v->tables, VIEW_TABLES);
	ck_assert(it->elem_size == 8 && it->count > 4);
	memcpy(head, it->data, sizeof(head));
	*t = (struct view_table){ v->tasks - 1, head[0], head[1],
				  head[2],	head[3], it->data + sizeof(head) };
	ck_assert_uint_eq(t->entries, it->count - 4);
	ck_assert_uint_lt(t->first, t->end);
	ck_assert_uint_eq((t->end - t->first) % t->entries, 0);
	// tables come before what is below them, and by ascending address
	if (v->tables > 1 && v->table[v->tables - 2].task == t->task)
		ck_assert(t->first >= v->table[v->tables - 2].end ||
			  (t->first >= v->table[v->tables - 2].first &&
			   t->end <= v->table[v->tables - 2].end));
}

static void take_mappings(struct view_task *t, const struct kcd_item *it)
{
	ck_assert(!t->mapping_count && it->count);
	ck_assert_uint_eq(it->elem_size, sizeof(t->mapping[0]));
	t->mapping_count = it->count;
	for (uint32_t i = 0; i < it->count; i++) {
		struct ss_mapping_record r;

		kcd_item_copy_elem(it, i, &r, sizeof(r));
		ck_assert_uint_lt(r.start, r.end);
		ck_assert_ptr_nonnull(memchr(r.file, 0, sizeof(r.file)));
		if (i < VIEW_MAPPINGS)
			t->mapping[i] = r;
	}
}

static void take_array(struct parser *p, const struct kcd_item *it)
{
	struct view *v = p->v;

	check_defined(p, it->elem_type);
	switch (it->elem_type) {
	case KCD_SS_KERN_STACKLR64:
		ck_assert(p->in_thread && it->elem_size == 8 && it->count);
		ck_assert_uint_le(it->count, KCD_SS_FRAMES_MAX);
		v->thread[v->threads - 1].frames = *it;
		break;
	case KCD_SS_USER_STACKLR64:
		ck_assert(p->in_thread && it->elem_size == 8 && it->count);
		ck_assert_uint_le(it->count, LNX_USER_FRAMES_MAX);
		v->thread[v->threads - 1].user_frames = *it;
		break;
	case SS_RECORD_FRAME_KIND:
		ck_assert(p->in_thread && it->elem_size == sizeof(struct ss_frame_kind_record));
		v->thread[v->threads - 1].kinds = *it;
		break;
	case SS_RECORD_WAIT:
		ck_assert(p->in_thread && it->elem_size == sizeof(struct ss_wait_record));
		v->thread[v->threads - 1].waits = *it;
		break;
	case KCD_SS_THREAD_WAITINFO:
		ck_assert(p->in_task && !p->in_thread && v->threads);
		ck_assert_uint_eq(it->elem_size, sizeof(struct kcd_thread_waitinfo_v2));
		v->thread[v->threads - 1].waitinfo = *it; /* behind its thread */
		break;
	case SS_RECORD_VCPU:
		ck_assert(!p->in_task && it->count <= LG_VCPUS_MAX && !v->vcpus);
		ck_assert_uint_eq(it->size, it->count * sizeof(v->vcpu[0]));
		memcpy(v->vcpu, it->data, it->size);
		v->vcpus = it->count;
		break;
	case SS_RECORD_MISSING:
		ck_assert(!p->in_task && it->count <= VIEW_MISSING && !v->missing_count);
		ck_assert_uint_eq(it->size, it->count * sizeof(v->missing[0]));
		memcpy(v->missing, it->data, it->size);
		v->missing_count = it->count;
		break;
	case KCD_SS_THREAD_DELTA_SNAPSHOT:
	case KCD_SS_NONRUNNABLE_TIDS: take_same(p, it); break;
	case KCD_SS_NONRUNNABLE_TASKS:
		ck_assert(v->is_delta && !p->in_task);
		ck_assert_uint_le(v->same_tasks + it->count, VIEW_TASKS);
		for (uint32_t i = 0; i < it->count; i++)
			kcd_item_copy_elem(it, i, &v->same_task[v->same_tasks++], 8);
		break;
	case KCD_SS_LATENCY_INFO_CPU:
		ck_assert(!p->in_task && it->count <= SS_WORKERS_MAX && !v->workers);
		ck_assert_uint_eq(it->size, it->count * sizeof(v->worker[0]));
		memcpy(v->worker, it->data, it->size);
		v->workers = it->count;
		break;
	case KCD_SS_PAGE_TABLES:
		ck_assert(p->in_task && !p->in_thread);
		take_tables(v, it);
		break;
	case SS_RECORD_MAPPING:
		ck_assert(p->in_task && !p->in_thread);
		take_mappings(&v->task[v->tasks - 1], it);
		break;
	case SS_RECORD_SYMBOL: take_symbols(v, it, false); break;
	case SS_RECORD_LONG_SYMBOL: take_symbols(v, it, true); break;
	case SS_RECORD_MODULE: take_modules(v, it); break;
	case SS_RECORD_LOG:
		ck_assert(!v->lines && it->count <= VIEW_LOG);
		ck_assert_uint_eq(it->size, it->count * sizeof(v->log[0]));
		memcpy(v->log, it->data, it->size);
		v->lines = it->count;
		break;
	case SS_RECORD_CONSOLE:
		ck_assert(!p->in_task && it->count <= SS_CONSOLE_LINES && !v->cause.console_lines);
		ck_assert_uint_eq(it->size, it->count * sizeof(v->cause.console[0]));
		memcpy(v->cause.console, it->data, it->size);
		v->cause.console_lines = it->count;
		break;
	default: ck_abort_msg("array of %#x", it->elem_type);
	}
}

static void begin(struct parser *p, const struct kcd_item *it)
{
	struct view *v = p->v;

	if (it->container_type == KCD_SS_CONTAINER_TASK) {
		ck_assert(!p->in_task);
		ck_assert_uint_lt(v->tasks, VIEW_TASKS);
		v->task[v->tasks++] =
			(struct view_task){ .id = it->container_id, .first = v->threads };
		p->in_task = true;
	} else {
		ck_assert_uint_eq(it->container_type, KCD_SS_CONTAINER_THREAD);
		ck_assert(p->in_task && !p->in_thread);
		ck_assert_uint_lt(v->threads, VIEW_THREADS);
		v->thread[v->threads++] =
			(struct view_thread){ .id = it->container_id, .task = v->tasks - 1 };
		v->task[v->tasks - 1].count++;
		p->in_thread = true;
	}
}

static void end(struct parser *p, const struct kcd_item *it)
{
	if (it->container_type == KCD_SS_CONTAINER_THREAD)
		p->in_thread = false;
	else
		p->in_task = false;
}

static void parse(struct view *v, const struct ss_result *r)
{
	struct parser p = { .v = v };
	struct kcd_error err = { 0 };
	struct kcd_reader reader;
	struct kcd_item it;
	enum kcd_code rc = kcd_reader_init(&reader, r->data, r->size, KCD_STRICT, &err);

	v->is_delta = !rc && reader.magic == KCD_MAGIC_DELTA_STACKSHOT;
	while (!rc && !(rc = kcd_reader_next(&reader, &it))) {
		switch (it.kind) {
		case KCD_ITEM_RECORD: take_record(&p, &it); break;
		case KCD_ITEM_ARRAY: take_array(&p, &it); break;
		case KCD_ITEM_CONTAINER_BEGIN: begin(&p, &it); break;
		case KCD_ITEM_CONTAINER_END: end(&p, &it); break;
		case KCD_ITEM_TYPEDEF: take_definition(&p, &it); break;
		}
	}
	ck_assert_msg(rc == KCD_DONE, "%s", err.reason);
	ck_assert(v->is_delta || reader.magic == KCD_MAGIC_STACKSHOT);
	ck_assert_int_eq(v->is_delta, v->since_ns != 0);
	ck_assert_int_eq(v->is_delta, (v->in_flags & KCD_SS_COLLECT_DELTA_SNAPSHOT) != 0);
	ck_assert_uint_eq(v->start_ns, r->start_ns);
	ck_assert_uint_eq(reader.pos, r->size);
	for (size_t i = 0; i < ss_schema.count; i++)
		p.defined ^= UINT64_C(1) << (ss_schema.types[i].code - SS_RECORD_BASE);
	ck_assert_uint_eq(p.defined, 0); /* each once, and nothing else */
}

/* --- what must be true ------------------------------------------------------------------------ */

static int compare_ids(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void check_unique(uint64_t *ids, uint32_t n)
{
	qsort(ids, n, sizeof(*ids), compare_ids);
	for (uint32_t i = 1; i < n; i++)
		ck_assert_uint_ne(ids[i - 1], ids[i]);
}

static void check_ids(const struct view *v)
{
	static uint64_t ids[VIEW_THREADS];

	for (uint32_t i = 0; i < v->tasks; i++) {
		ids[i] = v->task[i].id;
		if (!v->task[i].is_told)
			continue;
		ck_assert_uint_eq(v->task[i].stock.ts_unique_pid, v->task[i].id);
		ck_assert_int_eq(v->task[i].stock.ts_pid, v->task[i].r.pid);
	}
	check_unique(ids, v->tasks);
	for (uint32_t i = 0; i < v->threads; i++) {
		ids[i] = v->thread[i].id;
		ck_assert_uint_eq(v->thread[i].stock.ths_thread_id, v->thread[i].id);
	}
	check_unique(ids, v->threads);
}

static const struct view_symbol *symbol_at(const struct view *v, uint64_t address)
{
	for (uint32_t i = 0; i < v->symbols; i++)
		if (address >= v->symbol[i].start &&
		    address - v->symbol[i].start < v->symbol[i].size)
			return &v->symbol[i];
	return NULL;
}

static void check_user_stack(const struct view *v, const struct view_thread *t)
{
	const uint64_t flags = t->stock.ths_ss_flags;

	ck_assert(t->has_user || !t->user_frames.count);
	ck_assert(!t->has_user || (v->out_flags & SS_USER_STACKS));
	ck_assert_uint_lt(t->user.end, LNX_USER_ENDS);
	ck_assert_uint_lt(t->user.has_lr, t->user_frames.count > 1 ? 2 : 1);
	ck_assert_int_eq((flags & KCD_SS_USER64) == 0, t->user.end == LNX_USER_32BIT);
	ck_assert_int_eq((flags & KCD_THREAD_TRUNC_USER_BT) != 0,
			 t->user.end != LNX_USER_COMPLETE && t->user.end != LNX_USER_NEVER);
	ck_assert_int_eq((flags & KCD_THREAD_TRUNCATED_BT) != 0,
			 (flags & (KCD_THREAD_TRUNC_USER_BT | KCD_THREAD_TRUNC_KERN_BT)) != 0);
}

static void check_stack(const struct view_thread *t)
{
	const uint64_t cut = KCD_THREAD_TRUNC_KERN_BT;

	ck_assert_uint_lt(t->r.stack_end, LNX_ENDS);
	if (t->r.stack_end == LNX_END_COMPLETE || t->r.stack_end == LNX_END_NO_STACK)
		ck_assert_uint_eq(t->stock.ths_ss_flags & cut, 0);
	else
		ck_assert_uint_eq(t->stock.ths_ss_flags & cut, cut);
	for (uint32_t i = 0; i < t->kinds.count; i++) {
		struct ss_frame_kind_record r;

		kcd_item_copy_elem(&t->kinds, i, &r, sizeof(r));
		ck_assert_uint_lt(r.index, t->frames.count);
		ck_assert(r.kind == LNX_FRAME_PC || r.kind == LNX_FRAME_LR ||
			  r.kind == LNX_FRAME_INTERRUPTED ||
			  (r.kind == LNX_FRAME_RETURN && r.doubt));
		ck_assert_uint_lt(r.doubt, LNX_DOUBTS);
	}
	ck_assert_int_eq(t->r.vcpu >= 0, (t->stock.ths_ss_flags & KCD_THREAD_ON_CORE) != 0);
	ck_assert_ptr_nonnull(memchr(t->name, 0, sizeof(t->name)));
	ck_assert_str_eq(t->name, t->r.comm);
}

static void check_symbols(const struct view *v)
{
	uint64_t text = v->guest.kernel_text, end = text + LG_ETEXT - LG_STEXT;

	for (uint32_t i = 1; i < v->symbols; i++)
		ck_assert(v->symbol[i].is_long != v->symbol[i - 1].is_long ||
			  v->symbol[i].start > v->symbol[i - 1].start);
	for (uint32_t i = 0; i < v->threads; i++) {
		for (uint32_t f = 0; f < v->thread[i].frames.count; f++) {
			uint64_t at = view_frame(&v->thread[i], f);

			ck_assert_msg(at <= text || at >= end ||
					      symbol_at(v, at - (view_kind(&v->thread[i], f) ==
								 LNX_FRAME_RETURN)),
				      "no symbol for %#" PRIx64, at);
		}
	}
}

static void check_counts(const struct view *v, const struct ss_result *r)
{
	uint32_t processes = 0, threads = 0;
	uint64_t workers_threads = 0;

	for (uint32_t i = 0; i < v->tasks; i++)
		processes += v->task[i].id != 0;
	for (uint32_t i = 0; i < v->threads; i++)
		threads += v->thread[i].r.tid != 0;
	ck_assert_uint_eq(r->tasks, processes);
	ck_assert_uint_eq(r->threads, threads);
	for (uint32_t i = 0; i < v->workers; i++)
		workers_threads += v->worker[i].threads_processed;
	if (v->workers)
		ck_assert_uint_ge(workers_threads, threads + v->same_count);
	ck_assert_uint_eq(v->latency.buffer_used, v->workers ? v->times.buffer_used : 0);
	ck_assert_uint_le(v->times.buffer_used, v->times.buffer_size);
	ck_assert_uint_le(v->times.buffer_overhead, v->times.buffer_used);
	ck_assert_uint_eq(r->same_tasks, v->same_tasks);
	ck_assert_uint_ge(r->same_threads, v->same_count);
	ck_assert_uint_eq(v->times.same_tasks, r->same_tasks);
	ck_assert_uint_eq(v->times.same_threads, r->same_threads);
	ck_assert_uint_eq(v->tasks_count, v->tasks);
	ck_assert_uint_eq(v->threads_count, v->threads);
	ck_assert_int_eq(r->complete, v->missing_count == 0);
	ck_assert_uint_eq(v->tries, r->tries);
	ck_assert_uint_eq(v->times.tries, r->tries);
	ck_assert_uint_eq(v->times.stop_ns, r->stop_ns);
	ck_assert_uint_eq(v->times.collect_ns, r->collect_ns);
	ck_assert_uint_eq(v->times.resume_ns, r->resume_ns);
	ck_assert_uint_eq(v->times.prior_ns + r->stop_ns + r->collect_ns + r->resume_ns,
			  r->stopped_ns);
	ck_assert_uint_le(r->stopped_ns, r->total_ns);
	ck_assert(v->in_flags & KCD_SS_KCDATA_FORMAT);
	// what cannot be done is not claimed, and what is not claimed is not there
	ck_assert_uint_eq(v->out_flags & ~v->in_flags, 0);
	ck_assert_int_eq(v->has_memory, (v->out_flags & KCD_SS_GET_GLOBAL_MEM_STATS) != 0);
	ck_assert_int_eq(v->has_pagetable_mask, (v->in_flags & KCD_SS_REQ_PAGE_TABLES) != 0);
	ck_assert((v->out_flags & KCD_SS_REQ_PAGE_TABLES) || !v->tables);
	for (uint32_t i = 0; i < v->tasks; i++) {
		ck_assert((v->out_flags & KCD_SS_REQ_ASID) || !v->task[i].has_asid);
		ck_assert((v->out_flags & SS_USER_STACKS) || !v->task[i].mapping_count);
		if (!v->task[i].id)
			ck_assert_int_eq(v->task[i].has_kernel,
					 (v->out_flags & KCD_SS_SAVE_KEXT_LOADINFO) != 0);
	}
}

void view_read(struct view *v, const struct ss_result *r)
{
	// not the lists: what is put there is put whole, and clearing megabytes takes longer than a
	// capture
	const size_t counts = offsetof(struct view, tasks);

	memset((char *)v + counts, 0, sizeof(*v) - counts);
	parse(v, r);
	check_ids(v);
	for (uint32_t i = 0; i < v->threads; i++) {
		check_stack(&v->thread[i]);
		check_user_stack(v, &v->thread[i]);
	}
	for (uint32_t i = 0; i < v->missing_count; i++) {
		ck_assert_ptr_nonnull(memchr(v->missing[i].reason, 0, 160));
		ck_assert_uint_gt(v->missing[i].count, 0);
		ck_assert_int_ne(v->missing[i].reason[0], 0);
	}
	check_symbols(v);
	check_counts(v, r);
}

/* --- looking at it ---------------------------------------------------------------------------- */

bool view_has_thread(const struct view *v, int32_t tid)
{
	for (uint32_t i = 0; i < v->threads; i++)
		if (v->thread[i].r.tid == tid)
			return true;
	return false;
}

const struct view_task *view_task_by_id(const struct view *v, uint64_t id)
{
	for (uint32_t i = 0; i < v->tasks; i++)
		if (v->task[i].id == id)
			return &v->task[i];
	return NULL;
}

const struct view_thread *view_thread_by_id(const struct view *v, uint64_t id)
{
	for (uint32_t i = 0; i < v->threads; i++)
		if (v->thread[i].id == id)
			return &v->thread[i];
	return NULL;
}

const struct view_thread *view_thread(const struct view *v, int32_t tid)
{
	const struct view_thread *found = NULL;

	for (uint32_t i = 0; i < v->threads; i++) {
		if (v->thread[i].r.tid != tid)
			continue;
		ck_assert_msg(!found, "thread %d is there twice", tid);
		found = &v->thread[i];
	}
	ck_assert_msg(found, "no thread %d", tid);
	return found;
}

const struct view_task *view_task(const struct view *v, int32_t pid)
{
	const struct view_task *found = NULL;

	for (uint32_t i = 0; i < v->tasks; i++) {
		if (v->task[i].r.pid != pid)
			continue;
		ck_assert_msg(!found, "process %d is there twice", pid);
		found = &v->task[i];
	}
	ck_assert_msg(found, "no process %d", pid);
	return found;
}

uint64_t view_user_frame(const struct view_thread *t, uint32_t i)
{
	uint64_t address;

	ck_assert_uint_lt(i, t->user_frames.count);
	kcd_item_copy_elem(&t->user_frames, i, &address, sizeof(address));
	return address;
}

uint64_t view_frame(const struct view_thread *t, uint32_t i)
{
	uint64_t address;

	ck_assert_uint_lt(i, t->frames.count);
	kcd_item_copy_elem(&t->frames, i, &address, sizeof(address));
	return address;
}

uint32_t view_kind(const struct view_thread *t, uint32_t i)
{
	for (uint32_t k = 0; k < t->kinds.count; k++) {
		struct ss_frame_kind_record r;

		kcd_item_copy_elem(&t->kinds, k, &r, sizeof(r));
		if (r.index == i)
			return r.kind;
	}
	return LNX_FRAME_RETURN;
}

const char *view_name(const struct view *v, const struct view_thread *t, uint32_t i)
{
	static char text[600];
	uint64_t at = view_frame(t, i);
	uint64_t in = at - (view_kind(t, i) == LNX_FRAME_RETURN);
	const struct view_symbol *s = symbol_at(v, in);
	int n = s ? snprintf(text, sizeof(text), "%s+%#" PRIx64, s->name, at - s->start)
		  : snprintf(text, sizeof(text), "%#" PRIx64, at);

	for (uint32_t m = 0; m < v->modules; m++)
		if (in - v->module[m].start < v->module[m].size)
			snprintf(text + n, sizeof(text) - (size_t)n, " [%s]", v->module[m].name);
	return text;
}

uint32_t view_count_missing(const struct view *v, enum ss_missing what)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->missing_count; i++)
		n += v->missing[i].what == what;
	return n;
}

const struct ss_missing_record *view_missing(const struct view *v, enum ss_missing what, uint32_t n)
{
	for (uint32_t i = 0; i < v->missing_count; i++)
		if (v->missing[i].what == what && !n--)
			return &v->missing[i];
	ck_abort_msg("nothing of kind %d is missing", what);
	return NULL;
}
