/* SPDX-License-Identifier: Apache-2.0 */
/* Captures beside a good one. */
#include "tests/unit/stackshot/judge.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/stackshot/session.h"

struct view good;
static uint8_t *good_data;

void judge_keep(void)
{
	judge_forget();
	good = view;
	// frames point into the capture
	good_data = malloc(result.size);
	ck_assert_ptr_nonnull(good_data);
	memcpy(good_data, result.data, result.size);
	for (uint32_t i = 0; i < good.threads; i++) {
		struct view_thread *t = &good.thread[i];

		if (t->frames.count)
			t->frames.data = good_data + (t->frames.data - (uint8_t *)result.data);
		if (t->kinds.count)
			t->kinds.data = good_data + (t->kinds.data - (uint8_t *)result.data);
	}
	for (uint32_t i = 0; i < good.tables; i++)
		good.table[i].entry = good_data + (good.table[i].entry - (uint8_t *)result.data);
}

void judge_forget(void)
{
	free(good_data);
	good_data = NULL;
}

/* --- what is the same ------------------------------------------------------------------------- */

static bool same_stack(const struct view_thread *a, const struct view_thread *b)
{
	return a->frames.count == b->frames.count &&
	       (!a->frames.count || memcmp(a->frames.data, b->frames.data, a->frames.size) == 0);
}

/*
 * A stack that has one frame more than it should: when the word that tells whether the link
 * register is in the chain already cannot be read once, and can be read a moment later, it seems to
 * be missing. No memory does that; a source that fails stays so.
 */
static bool has_link_register_twice(const struct view_thread *t, const struct view_thread *wanted)
{
	return t->frames.count == wanted->frames.count + 1 && view_kind(t, 1) == LNX_FRAME_LR &&
	       view_frame(t, 1) == view_frame(t, 2);
}

static bool same_thread(const struct view_thread *t, const struct view_thread *wanted, bool once)
{
	return memcmp(&t->r, &wanted->r, sizeof(t->r)) == 0 && t->id == wanted->id &&
	       (same_stack(t, wanted) || (once && has_link_register_twice(t, wanted)));
}

/* What is claimed to have been done was; a kernel of which less was found lets less be done. */
static void expect_good_memory(void)
{
	if (view.out_flags & KCD_SS_GET_GLOBAL_MEM_STATS)
		ck_assert_mem_eq(&view.memory, &good.memory, sizeof(view.memory));
	for (uint32_t i = 0; i < view.tasks; i++) {
		const struct view_task *t = &view.task[i];

		ck_assert(!(view.out_flags & KCD_SS_REQ_ASID) ||
			  t->has_asid == good.task[i].has_asid);
		ck_assert_uint_eq(t->asid, t->has_asid ? good.task[i].asid : 0);
		if (t->has_kernel)
			ck_assert_uint_eq(t->kernel.imageLoadAddress,
					  good.task[i].kernel.imageLoadAddress);
	}
	if (!(view.out_flags & KCD_SS_REQ_PAGE_TABLES))
		return;
	ck_assert_uint_eq(view.tables, good.tables);
	for (uint32_t i = 0; i < view.tables; i++) {
		ck_assert_uint_eq(view.table[i].at, good.table[i].at);
		ck_assert_mem_eq(view.table[i].entry, good.table[i].entry, 4096);
	}
}

static void expect_good(bool once)
{
	expect_good_memory();
	ck_assert_uint_eq(view.tasks, good.tasks);
	ck_assert_uint_eq(view.threads, good.threads);
	for (uint32_t i = 0; i < view.tasks; i++) {
		ck_assert_uint_eq(view.task[i].id, good.task[i].id);
		ck_assert_str_eq(view.task[i].r.comm, good.task[i].r.comm);
		// a parent that cannot be read is shown as not known
		ck_assert(view.task[i].r.ppid == good.task[i].r.ppid || view.task[i].r.ppid == -1);
	}
	for (uint32_t i = 0; i < view.threads; i++)
		ck_assert_msg(same_thread(&view.thread[i], &good.thread[i], once), "thread %s",
			      view.thread[i].r.comm);
	for (uint32_t i = 0; i < view.vcpus; i++)
		ck_assert_int_eq(view.vcpu[i].tid, good.vcpu[i].tid);
}

/* --- what is missing -------------------------------------------------------------------------- */

/* Whether a note says that any process may be missing. */
static bool is_of_many(const struct ss_missing_record *m)
{
	switch ((enum ss_missing)m->what) {
	case SS_MISSING_KERNEL:
	case SS_MISSING_TASKS:
	case SS_MISSING_MORE: return true;
	case SS_MISSING_LATE:
	case SS_MISSING_ROOM: return m->pid == -1;
	case SS_MISSING_THREADS:
	case SS_MISSING_TASK:
	case SS_MISSING_STACK:
	case SS_MISSING_CURRENT:
	case SS_MISSING_ASID:
	case SS_MISSING_PAGE_TABLES:
	case SS_MISSING_LOG:
	case SS_MISSING_IDLE: break;
	}
	return false;
}

/* Whether a note is the reason why a thread of the good capture is not there. */
static bool is_for_thread(const struct ss_missing_record *m, const struct view_thread *t)
{
	const struct ss_task_record *process = &good.task[t->task].r;

	switch ((enum ss_missing)m->what) {
	case SS_MISSING_THREADS:
	case SS_MISSING_LATE:
	case SS_MISSING_ROOM: return m->pid == process->pid;
	case SS_MISSING_TASK: return m->address == t->r.address || m->address == process->address;
	case SS_MISSING_IDLE: return process->pid == 0;
	case SS_MISSING_KERNEL:
	case SS_MISSING_TASKS:
	case SS_MISSING_MORE:
	case SS_MISSING_STACK:
	case SS_MISSING_ASID:
	case SS_MISSING_PAGE_TABLES:
	case SS_MISSING_LOG:
	case SS_MISSING_CURRENT: break;
	}
	return false;
}

/* ... or why it is not as it should be; what its vCPU executes may be unknown. */
static bool is_for_stack(const struct ss_missing_record *m, const struct view_thread *t)
{
	return m->what == SS_MISSING_MORE || (m->what == SS_MISSING_CURRENT && t->r.vcpu >= 0) ||
	       (m->what == SS_MISSING_STACK && m->tid == t->r.tid);
}

static const struct view_thread *find(const struct view_thread *wanted)
{
	for (uint32_t i = 0; i < view.threads; i++)
		if (view.thread[i].r.address == wanted->r.address)
			return &view.thread[i];
	return NULL;
}

static bool is_said(const struct view_thread *t, bool is_there)
{
	for (uint32_t i = 0; i < view.missing_count; i++) {
		const struct ss_missing_record *m = &view.missing[i];

		if (is_there ? is_for_stack(m, t) : is_of_many(m) || is_for_thread(m, t))
			return true;
	}
	return false;
}

static void expect_named(bool once)
{
	uint32_t there = 0;

	for (uint32_t i = 0; i < good.threads; i++) {
		const struct view_thread *wanted = &good.thread[i], *t = find(wanted);

		there += t != NULL;
		if (t ? same_thread(t, wanted, once) : is_said(wanted, false))
			continue;
		ck_assert_msg(t, "thread %d is not there, and that is not said", wanted->r.tid);
		ck_assert_msg(is_said(wanted, true), "thread %d is another, and that is not said",
			      wanted->r.tid);
	}
	// and nothing that there is not
	ck_assert_uint_eq(there, view.threads);
}

void judge_view(bool once)
{
	if (view.missing_count)
		expect_named(once);
	else
		expect_good(once);
}
