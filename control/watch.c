/* SPDX-License-Identifier: Apache-2.0 */
/* Hung threads and locked-up vCPUs, found by comparing captures. */
#include "control/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/linux.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

/* Threads in state D that are watched; in a guest with more than these something is wrong anyhow. */
#define MARKS_MAX 65536u
#define VCPUS_MAX 512u

/* A thread since it has been as it is. */
struct mark {
	uint64_t id; /* of its container */
	uint64_t switches;
	uint64_t since_ns; /* the guest's clock */
	bool told;
	int32_t pid, tid;
	uint64_t ran_ns; /* when it ran last, by the scheduler's clock; 0: not known */
	char comm[16];
};

struct vcpu {
	struct mark mark; /* of the thread in the kernel; id 0: none */
	bool in_kernel;	  /* in this look */
	bool seen;	  /* its thread, too */
};

struct marks {
	struct mark *mark; /* ascending by id, but while a look is under way */
	uint32_t count, room;
};

struct ctl_watch {
	uint64_t hung_ns, lockup_ns;
	struct marks before, now;
	struct vcpu vcpu[VCPUS_MAX];
	uint64_t hung_quiet_ns, lockup_quiet_ns; /* host's clock: nothing is told until then */

	/* of the look under way */
	uint64_t clock_ns;
	uint64_t newest_ns; /* of all threads: ran last */
	int32_t pid;	    /* of the task at hand */
	uint64_t thread_id; /* of the container at hand */
};

struct ctl_watch *ctl_watch_create(uint64_t hung_ns, uint64_t lockup_ns)
{
	struct ctl_watch *w = calloc(1, sizeof(*w));

	if (w) {
		w->hung_ns = hung_ns;
		w->lockup_ns = lockup_ns;
	}
	return w;
}

void ctl_watch_destroy(struct ctl_watch *w)
{
	if (!w)
		return;
	free(w->before.mark);
	free(w->now.mark);
	free(w);
}

/* --- reading ------------------------------------------------------------------------------------
 */

static struct mark mark_of(const struct ctl_watch *w, const struct ss_thread_record *r)
{
	struct mark m = { .id = w->thread_id,
			  .switches = r->nvcsw + r->nivcsw,
			  .pid = w->pid,
			  .tid = r->tid,
			  .ran_ns = r->exec_start_ns };

	memcpy(m.comm, r->comm, sizeof(m.comm));
	return m;
}

static void add_mark(struct marks *marks, const struct mark *m)
{
	if (marks->count == marks->room) {
		const uint32_t room = marks->room ? marks->room * 2 : 64;
		void *mark = room > MARKS_MAX ? NULL : reallocarray(marks->mark, room, sizeof(*m));

		if (!mark)
			return; /* one that is not watched */
		marks->mark = mark;
		marks->room = room;
	}
	marks->mark[marks->count++] = *m;
}

/* The thread of a vCPU: the same, or another one now. */
static void take_vcpu_thread(struct vcpu *v, const struct mark *m)
{
	v->seen = true;
	if (v->mark.id != m->id || v->mark.switches != m->switches) {
		v->mark = *m;
		v->mark.since_ns = 0; /* set when the clock is known */
	}
	memcpy(v->mark.comm, m->comm, sizeof(m->comm)); /* it may have got another name */
}

static void take_thread(struct ctl_watch *w, const struct kcd_item *it)
{
	struct ss_thread_record r = { .vcpu = -1 };

	kcd_item_copy(it, &r, sizeof(r));
	w->newest_ns = gs_max(w->newest_ns, r.exec_start_ns);
	if (!(r.known & LNX_TASK_HAS_SWITCHES))
		return;
	const struct mark m = mark_of(w, &r);
	if (r.state == 'D' && r.vcpu < 0)
		add_mark(&w->now, &m);
	if (r.vcpu >= 0 && (uint32_t)r.vcpu < VCPUS_MAX && w->vcpu[r.vcpu].in_kernel)
		take_vcpu_thread(&w->vcpu[r.vcpu], &m);
}

static void take_vcpus(struct ctl_watch *w, const struct kcd_item *it)
{
	for (uint32_t i = 0; i < it->count; i++) {
		struct ss_vcpu_record r = { 0 };

		kcd_item_copy_elem(it, i, &r, sizeof(r));
		if (r.vcpu < VCPUS_MAX)
			w->vcpu[r.vcpu].in_kernel = r.state == SS_VCPU_KERNEL;
	}
}

static void take_record(struct ctl_watch *w, const struct kcd_item *it)
{
	struct ss_task_record task = { .pid = -1 };

	if (it->type == SS_RECORD_THREAD && it->container_type == KCD_SS_CONTAINER_THREAD) {
		w->thread_id = it->container_id;
		take_thread(w, it);
	} else if (it->type == SS_RECORD_TASK) {
		kcd_item_copy(it, &task, sizeof(task));
		w->pid = task.pid;
	}
}

/* @return false: it is damaged, which ours never are */
static bool read_all(struct ctl_watch *w, const void *data, size_t size)
{
	struct kcd_reader r;
	struct kcd_item it;
	enum kcd_code rc;

	if (kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL) || r.magic != KCD_MAGIC_STACKSHOT)
		return false;
	while (!(rc = kcd_reader_next(&r, &it))) {
		if (it.kind == KCD_ITEM_RECORD)
			take_record(w, &it);
		else if (it.kind == KCD_ITEM_ARRAY && it.elem_type == SS_RECORD_VCPU)
			take_vcpus(w, &it);
	}
	return rc == KCD_DONE;
}

/* --- comparing ----------------------------------------------------------------------------------
 */

static int compare_marks(const void *a, const void *b)
{
	const uint64_t x = ((const struct mark *)a)->id, y = ((const struct mark *)b)->id;

	return (x > y) - (x < y);
}

static const struct mark *find_mark(const struct marks *marks, uint64_t id)
{
	const struct mark key = { .id = id };

	return marks->count ? bsearch(&key, marks->mark, marks->count, sizeof(key), compare_marks)
			    : NULL;
}

/* One that is seen the first time has been so since it ran last, as far as that is known. */
static uint64_t first_since(const struct ctl_watch *w, const struct mark *m)
{
	const uint64_t ago = m->ran_ns ? w->newest_ns - m->ran_ns : 0;

	return w->clock_ns - gs_min(ago, w->clock_ns);
}

static uint64_t age(const struct ctl_watch *w, const struct mark *m)
{
	return w->clock_ns - gs_min(m->since_ns, w->clock_ns);
}

static struct ss_reason_record reason_of(const struct ctl_watch *w, const struct mark *m,
					 uint32_t reason, int32_t vcpu)
{
	struct ss_reason_record r = {
		.reason = reason, .pid = m->pid, .tid = m->tid, .vcpu = vcpu, .for_ns = age(w, m)
	};

	memcpy(r.text, m->comm, sizeof(m->comm));
	return r;
}

static void find_hung(struct ctl_watch *w, uint64_t host_ns, struct ctl_watch_found *found)
{
	const bool quiet = host_ns < w->hung_quiet_ns;

	if (w->now.count)
		qsort(w->now.mark, w->now.count, sizeof(w->now.mark[0]), compare_marks);
	for (uint32_t i = 0; i < w->now.count; i++) {
		struct mark *m = &w->now.mark[i];
		const struct mark *was = find_mark(&w->before, m->id);
		const bool same = was && was->switches == m->switches;

		m->since_ns = same ? was->since_ns : first_since(w, m);
		m->told = same && was->told;
		if (!w->hung_ns || m->told || quiet || age(w, m) < w->hung_ns)
			continue;
		/* of several the one that has been so for longest; the capture has all */
		m->told = true;
		if (!found->has_hung || age(w, m) > found->hung.for_ns)
			found->hung = reason_of(w, m, SS_REASON_HUNG_TASK, -1);
		found->has_hung = true;
		w->hung_quiet_ns = host_ns + CTL_WATCH_QUIET_NS;
	}
}

static void find_lockup(struct ctl_watch *w, uint64_t host_ns, struct ctl_watch_found *found)
{
	const bool quiet = host_ns < w->lockup_quiet_ns;

	for (uint32_t i = 0; i < VCPUS_MAX; i++) {
		struct vcpu *v = &w->vcpu[i];

		if (!v->in_kernel || !v->seen) {
			v->mark = (struct mark){ 0 };
			continue;
		}
		if (!v->mark.since_ns)
			v->mark.since_ns = gs_max(w->clock_ns, 1);
		if (!w->lockup_ns || v->mark.told || quiet || age(w, &v->mark) < w->lockup_ns)
			continue;
		v->mark.told = true;
		if (!found->has_lockup || age(w, &v->mark) > found->lockup.for_ns)
			found->lockup = reason_of(w, &v->mark, SS_REASON_SOFT_LOCKUP, (int32_t)i);
		found->has_lockup = true;
		w->lockup_quiet_ns = host_ns + CTL_WATCH_QUIET_NS;
	}
}

void ctl_watch_look(struct ctl_watch *w, const void *data, size_t size, uint64_t guest_ns,
		    uint64_t host_ns, struct ctl_watch_found *found_out)
{
	*found_out = (struct ctl_watch_found){ 0 };
	w->now.count = 0;
	w->newest_ns = 0;
	w->pid = -1;
	for (uint32_t i = 0; i < VCPUS_MAX; i++)
		w->vcpu[i].in_kernel = w->vcpu[i].seen = false;
	if (!read_all(w, data, size))
		return;
	w->clock_ns = guest_ns ? guest_ns : w->newest_ns;
	find_hung(w, host_ns, found_out);
	find_lockup(w, host_ns, found_out);

	const struct marks spare = w->before;
	w->before = w->now;
	w->now = spare;
}
