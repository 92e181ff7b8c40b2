/* SPDX-License-Identifier: Apache-2.0 */
/* Deltas of captures, made from two full ones or by hand. */
#include "tests/unit/report/deltas.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/linux.h"
#include "kcdata/stackshot_types.h"
#include "tests/unit/report/sample.h"

struct bytes bytes_of_sample(void)
{
	struct bytes b = { malloc(sample_size), sample_size };

	ck_assert_ptr_nonnull(b.data);
	memcpy(b.data, sample, sample_size);
	return b;
}

void load(struct bytes b, struct rep_capture *out)
{
	ck_assert_msg(sample_read_to(b.data, b.size, out) == GS_OK, "%s", error.text);
}

/* --- a full capture in parts ------------------------------------------------------------------ */

#define PARTS_MAX   512
#define THREADS_MAX 16

struct part {
	uint64_t id;
	size_t begin, end; /* offsets of whole containers */
};

struct task_part {
	struct part p;
	size_t head_end; /* where its first thread begins, or its end */
	struct part thread[THREADS_MAX];
	uint32_t threads;
};

struct parts {
	struct bytes b;
	struct task_part task[PARTS_MAX];
	uint32_t tasks;
};

static struct kcd_reader reader(struct bytes b)
{
	struct kcd_reader r;

	OK(kcd_reader_init(&r, b.data, b.size, KCD_TOLERANT, NULL));
	return r;
}

static struct parts *take_apart(struct bytes b)
{
	struct parts *p = calloc(1, sizeof(*p));
	struct kcd_reader r = reader(b);
	struct task_part *t = NULL;
	struct kcd_item it;

	ck_assert_ptr_nonnull(p);
	p->b = b;
	while (!kcd_reader_next(&r, &it)) {
		bool begin = it.kind == KCD_ITEM_CONTAINER_BEGIN;

		if (!begin && it.kind != KCD_ITEM_CONTAINER_END)
			continue;
		if (it.container_type == KCD_SS_CONTAINER_TASK) {
			if (begin) {
				ck_assert_uint_lt(p->tasks, PARTS_MAX);
				t = &p->task[p->tasks++];
				t->p = (struct part){ it.container_id, it.offset, 0 };
			} else {
				t->p.end = it.offset + KCD_HEADER_SIZE;
				if (!t->threads)
					t->head_end = it.offset;
			}
		} else if (begin) {
			ck_assert_uint_lt(t->threads, ARRAY_SIZE(t->thread));
			if (!t->threads)
				t->head_end = it.offset;
			t->thread[t->threads++] = (struct part){ it.container_id, it.offset, 0 };
		} else {
			t->thread[t->threads - 1].end = it.offset + KCD_HEADER_SIZE;
		}
	}
	return p;
}

static bool is_same(const struct parts *a, size_t begin, size_t end, const struct parts *b,
		    size_t b_begin, size_t b_end)
{
	return end - begin == b_end - b_begin &&
	       memcmp(a->b.data + begin, b->b.data + b_begin, end - begin) == 0;
}

static const struct task_part *find_task(const struct parts *p, uint64_t id)
{
	for (uint32_t i = 0; i < p->tasks; i++)
		if (p->task[i].p.id == id)
			return &p->task[i];
	return NULL;
}

static const struct part *find_thread(const struct task_part *t, uint64_t id)
{
	for (uint32_t i = 0; i < t->threads; i++)
		if (t->thread[i].id == id)
			return &t->thread[i];
	return NULL;
}

/* --- the delta of two ------------------------------------------------------------------------- */

struct weaver {
	const struct parts *base, *full;
	struct kcd_writer w;
	uint64_t still[4]; /* few, so that many are written in several arrays */
	uint32_t stills;
	uint64_t frames[4096];
	uint32_t frame_count;
};

/* Items of the full capture as they are; the addresses of frames are remembered. */
static void copy_items(struct weaver *v, size_t begin, size_t end)
{
	struct kcd_reader r = reader(v->full->b);
	struct kcd_item it;

	while (!kcd_reader_next(&r, &it)) {
		if (it.offset < begin || it.offset >= end)
			continue;
		OK(kcd_append_item(&v->w, &it));
		for (uint32_t i = 0; it.elem_type == KCD_SS_KERN_STACKLR64 && i < it.count; i++) {
			ck_assert_uint_lt(v->frame_count, ARRAY_SIZE(v->frames));
			kcd_item_copy_elem(&it, i, &v->frames[v->frame_count++], 8);
		}
	}
}

static void flush_still(struct weaver *v)
{
	if (v->stills)
		OK(kcd_append_array(&v->w, KCD_SS_NONRUNNABLE_TASKS, v->stills, 8, v->still));
	v->stills = 0;
}

static bool is_task_same(const struct weaver *v, const struct task_part *b,
			 const struct task_part *f)
{
	return b && f->p.id &&
	       is_same(v->base, b->p.begin, b->p.end, v->full, f->p.begin, f->p.end);
}

static bool is_thread_same(const struct weaver *v, const struct task_part *b, const struct part *f)
{
	const struct part *was = b ? find_thread(b, f->id) : NULL;

	return was && is_same(v->base, was->begin, was->end, v->full, f->begin, f->end);
}

static bool is_runnable(const struct parts *p, const struct part *t,
			struct kcd_thread_delta_snapshot_v3 *out)
{
	struct kcd_thread_snapshot_v4 s = { 0 };
	struct kcd_reader r = reader(p->b);
	struct kcd_item it;

	while (!kcd_reader_next(&r, &it))
		if (it.type == KCD_SS_THREAD_SNAPSHOT && it.offset > t->begin && it.offset < t->end)
			kcd_item_copy(&it, &s, sizeof(s));
	*out = (struct kcd_thread_delta_snapshot_v3){
		.tds_thread_id = t->id,
		.tds_ss_flags = s.ths_ss_flags,
		.tds_state = s.ths_state,
		.tds_base_priority = s.ths_base_priority,
		.tds_sched_priority = s.ths_sched_priority,
	};
	return s.ths_state & KCD_THREAD_RUN;
}

static void weave_threads(struct weaver *v, const struct task_part *b, const struct task_part *f)
{
	struct kcd_thread_delta_snapshot_v3 runnable[THREADS_MAX];
	uint64_t waiting[THREADS_MAX];
	uint32_t n_runnable = 0, n_waiting = 0;

	for (uint32_t i = 0; i < f->threads; i++) {
		const struct part *t = &f->thread[i];

		if (!f->p.id || !is_thread_same(v, b, t))
			copy_items(v, t->begin, t->end);
		else if (is_runnable(v->full, t, &runnable[n_runnable]))
			n_runnable++;
		else
			waiting[n_waiting++] = t->id;
	}
	if (n_runnable)
		OK(kcd_append_array(&v->w, KCD_SS_THREAD_DELTA_SNAPSHOT, n_runnable,
				    sizeof(runnable[0]), runnable));
	if (n_waiting)
		OK(kcd_append_array(&v->w, KCD_SS_NONRUNNABLE_TIDS, n_waiting, 8, waiting));
}

/* Those of all its threads: a delta has only what frames in it lie in. */
static void copy_mappings(struct weaver *v, const struct task_part *f)
{
	struct kcd_reader r = reader(v->full->b);
	struct kcd_item it;

	while (!kcd_reader_next(&r, &it))
		if (it.offset > f->p.begin && it.offset < f->p.end &&
		    it.elem_type == SS_RECORD_MAPPING)
			OK(kcd_append_item(&v->w, &it));
}

static void weave_task(struct weaver *v, const struct task_part *f)
{
	const struct task_part *b = find_task(v->base, f->p.id);
	struct kcd_task_delta_snapshot_v2 s = { .tds_unique_pid = f->p.id };

	if (is_task_same(v, b, f)) {
		v->still[v->stills++] = f->p.id;
		if (v->stills == ARRAY_SIZE(v->still))
			flush_still(v);
		return;
	}
	if (b && is_same(v->base, b->p.begin, b->head_end, v->full, f->p.begin, f->head_end)) {
		OK(kcd_container_begin(&v->w, KCD_SS_CONTAINER_TASK, f->p.id));
		OK(kcd_append(&v->w, KCD_SS_TASK_DELTA_SNAPSHOT, &s, sizeof(s)));
	} else {
		copy_items(v, f->p.begin, f->head_end);
	}
	weave_threads(v, b, f);
	copy_mappings(v, f);
	OK(kcd_container_end(&v->w, f->p.id));
}

static void weave_head(struct weaver *v, size_t end, uint64_t since_ns)
{
	struct kcd_reader r = reader(v->full->b);
	struct kcd_item it;

	while (!kcd_reader_next(&r, &it) && it.offset < end) {
		if (it.type == KCD_SS_KERN_PAGE_SIZE || it.type == KCD_SS_OSVERSION ||
		    it.type == KCD_SS_OS_BUILD_VERSION || it.type == KCD_TYPE_TIMEBASE)
			continue;
		if (it.type == KCD_TYPE_MACH_ABSOLUTE_TIME)
			OK(kcd_append(&v->w, KCD_SS_DELTA_SINCE_TIMESTAMP, &since_ns, 8));
		OK(kcd_append_item(&v->w, &it));
	}
}

/* Of the symbols those of frames that are in the delta. */
static void weave_symbols(struct weaver *v, const struct kcd_item *it)
{
	for (uint32_t i = 0; i < it->count; i++) {
		struct ss_long_symbol_record s = { 0 };
		bool used = false;

		kcd_item_copy_elem(it, i, &s, it->elem_size);
		for (uint32_t k = 0; k < v->frame_count; k++)
			used |= v->frames[k] - s.start <= s.size;
		if (used)
			OK(kcd_append_array(&v->w, it->elem_type, 1, it->elem_size, &s));
	}
}

static void weave_tail(struct weaver *v, size_t begin)
{
	struct kcd_reader r = reader(v->full->b);
	struct kcd_item it;

	while (!kcd_reader_next(&r, &it)) {
		if (it.offset < begin)
			continue;
		if (it.elem_type == SS_RECORD_SYMBOL || it.elem_type == SS_RECORD_LONG_SYMBOL)
			weave_symbols(v, &it);
		else
			OK(kcd_append_item(&v->w, &it));
	}
}

struct bytes delta_of(struct bytes base, struct bytes full, uint64_t since_ns)
{
	const size_t room = full.size + 65536;
	struct parts *b = take_apart(base), *f = take_apart(full);
	struct weaver *v = calloc(1, sizeof(*v));
	struct bytes out = { malloc(room), 0 };

	ck_assert(v && out.data && f->tasks);
	v->base = b;
	v->full = f;
	OK(kcd_writer_init(&v->w, out.data, room, KCD_MAGIC_DELTA_STACKSHOT, 0));
	weave_head(v, f->task[0].p.begin, since_ns);
	for (uint32_t i = 0; i < f->tasks; i++)
		weave_task(v, &f->task[i]);
	flush_still(v);
	weave_tail(v, f->task[f->tasks - 1].p.end);
	out.size = kcd_writer_used(&v->w);
	free(v);
	free(b);
	free(f);
	return out;
}

/* --- by hand ---------------------------------------------------------------------------------- */

void made_begin(struct made *m, uint64_t start_ns, uint64_t since_ns)
{
	struct ss_guest_record guest_record = { .ram_size = 1 << 20,
						.kernel_text = 0xffff800008010000,
						.kernel_voffset = 0xffff7fffc8000000,
						.vcpus = 2,
						.clusters = 1,
						.symbols = 77,
						.source = "memory" };
	uint64_t wall_us = 1796030557000000 + start_ns / 1000;

	m->data = malloc(MADE_ROOM);
	ck_assert_ptr_nonnull(m->data);
	OK(kcd_writer_init(&m->w, m->data, MADE_ROOM,
			   since_ns ? KCD_MAGIC_DELTA_STACKSHOT : KCD_MAGIC_STACKSHOT, 0));
	if (since_ns)
		OK(kcd_append(&m->w, KCD_SS_DELTA_SINCE_TIMESTAMP, &since_ns, 8));
	OK(kcd_append(&m->w, KCD_TYPE_MACH_ABSOLUTE_TIME, &start_ns, 8));
	OK(kcd_append(&m->w, KCD_TYPE_USECS_SINCE_EPOCH, &wall_us, 8));
	OK(kcd_append(&m->w, SS_RECORD_GUEST, &guest_record, sizeof(guest_record)));
}

void made_task(struct made *m, uint64_t id, int32_t pid, const char *comm)
{
	struct ss_task_record record = { .pid = pid, .ppid = 1 };
	struct kcd_task_snapshot_v2 snapshot = { .ts_unique_pid = id, .ts_pid = pid };
	struct kcd_task_delta_snapshot_v2 delta = { .tds_unique_pid = id };

	OK(kcd_container_begin(&m->w, KCD_SS_CONTAINER_TASK, id));
	if (!comm) {
		OK(kcd_append(&m->w, KCD_SS_TASK_DELTA_SNAPSHOT, &delta, sizeof(delta)));
		return;
	}
	snprintf(record.comm, sizeof(record.comm), "%s", comm);
	snprintf(snapshot.ts_p_comm, sizeof(snapshot.ts_p_comm), "%s", comm);
	OK(kcd_append(&m->w, KCD_SS_TASK_SNAPSHOT, &snapshot, sizeof(snapshot)));
	OK(kcd_append(&m->w, SS_RECORD_TASK, &record, sizeof(record)));
}

void made_thread(struct made *m, const struct made_thread *t)
{
	struct ss_thread_record r = {
		.tid = t->tid,
		.vcpu = t->vcpu_and_1 - 1,
		.state = t->state ? (uint32_t)t->state : 'S',
		.known = 0x7f & ~t->not_known,
		.prio = 120,
		.static_prio = 120,
		.nvcsw = t->switches / 2,
		.nivcsw = t->switches - t->switches / 2,
		.sum_exec_runtime_ns = t->cpu_ns,
		.exec_start_ns = t->exec_start_ns,
	};
	struct kcd_thread_snapshot_v4 snapshot = { .ths_thread_id = t->id };
	char name[KCD_SS_THREAD_NAME_SIZE] = "";
	uint32_t frames = 0;

	snprintf(name, sizeof(name), "%s", t->comm ? t->comm : "thread");
	while (frames < ARRAY_SIZE(t->frame) && t->frame[frames])
		frames++;
	OK(kcd_container_begin(&m->w, KCD_SS_CONTAINER_THREAD, t->id));
	OK(kcd_append(&m->w, KCD_SS_THREAD_SNAPSHOT, &snapshot, sizeof(snapshot)));
	OK(kcd_append(&m->w, SS_RECORD_THREAD, &r, sizeof(r)));
	OK(kcd_append(&m->w, KCD_SS_THREAD_NAME, name, sizeof(name)));
	if (frames)
		OK(kcd_append_array(&m->w, KCD_SS_KERN_STACKLR64, frames, 8, t->frame));
	OK(kcd_container_end(&m->w, t->id));
}

void made_runnable(struct made *m, uint64_t id, int16_t prio)
{
	struct kcd_thread_delta_snapshot_v3 s = { .tds_thread_id = id,
						  .tds_state = KCD_THREAD_RUN,
						  .tds_base_priority = 120,
						  .tds_sched_priority = prio };

	OK(kcd_append_array(&m->w, KCD_SS_THREAD_DELTA_SNAPSHOT, 1, sizeof(s), &s));
}

void made_waiting(struct made *m, uint64_t id)
{
	OK(kcd_append_array(&m->w, KCD_SS_NONRUNNABLE_TIDS, 1, 8, &id));
}

void made_task_end(struct made *m, uint64_t id)
{
	OK(kcd_container_end(&m->w, id));
}

void made_still(struct made *m, uint64_t id)
{
	OK(kcd_append_array(&m->w, KCD_SS_NONRUNNABLE_TASKS, 1, 8, &id));
}

void made_symbol(struct made *m, uint64_t start, const char *name, bool sched)
{
	struct ss_symbol_record s = { start, 0x100, sched ? SS_SYMBOL_SCHED : 0, "" };

	snprintf(s.name, sizeof(s.name), "%s", name);
	OK(kcd_append_array(&m->w, SS_RECORD_SYMBOL, 1, sizeof(s), &s));
}

void made_missing(struct made *m, uint32_t what, int32_t pid, int32_t tid, const char *reason)
{
	struct ss_missing_record r = { .what = what, .count = 1, .pid = pid, .tid = tid };

	snprintf(r.reason, sizeof(r.reason), "%s", reason);
	OK(kcd_append_array(&m->w, SS_RECORD_MISSING, 1, sizeof(r), &r));
}

struct bytes made_bytes(struct made *m)
{
	return (struct bytes){ m->data, kcd_writer_used(&m->w) };
}

void made_end(struct made *m, struct rep_capture *out)
{
	struct bytes b = made_bytes(m);

	load(b, out);
	free(b.data);
}
