/* SPDX-License-Identifier: Apache-2.0 */
/* The finished stream, built with the guest running again: head, task section, tail, names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/capture.h"
#include "introspect/stackshot/memory.h"
#include "introspect/stackshot/modules.h"
#include "introspect/stackshot/request.h"
#include "introspect/stackshot/system.h"
#include "kcdata/stackshot_types.h"

/* Head and tail without their arrays: definitions of our types and some twenty small records. */
#define FIXED_BYTES (UINT64_C(32) << 10)

_Static_assert(A64_FAULTS <= ARRAY_SIZE(((struct ss_times_record *)0)->faults),
	       "a counter for each fault");

/* --- names --- */

/*
 * Addresses to look up: for a return address the byte before it, which lies in the calling
 * function.
 */
struct addresses {
	uint64_t *a;
	size_t n, room;
};

static bool add_address(struct addresses *set, uint64_t address)
{
	if (set->n == set->room) {
		size_t room = set->room ? set->room * 2 : 4096;
		uint64_t *a = realloc(set->a, room * sizeof(*a));

		if (!a)
			return false;
		set->a = a;
		set->room = room;
	}
	set->a[set->n++] = address;
	return true;
}

/* Elements of an array that lies in a piece of records; not aligned. */
struct array {
	const uint8_t *at;
	uint32_t count;
};

static uint64_t frame_address(struct array frames, uint32_t i)
{
	uint64_t address;

	memcpy(&address, frames.at + i * sizeof(address), sizeof(address));
	return address;
}

static bool add_frames(struct addresses *set, struct array frames)
{
	for (uint32_t i = 0; i < frames.count; i++)
		if (!add_address(set, frame_address(frames, i) - 1))
			return false;
	return true;
}

/* Frames of these kinds are looked up as they are, too. */
static bool add_exact_frames(struct addresses *set, struct array frames, struct array kinds)
{
	for (uint32_t i = 0; i < kinds.count; i++) {
		struct ss_frame_kind_record r;

		memcpy(&r, kinds.at + i * sizeof(r), sizeof(r));
		if (lnx_frame_is_exact(r.kind) && r.index < frames.count &&
		    !add_address(set, frame_address(frames, r.index)))
			return false;
	}
	return true;
}

/* The functions that are to wake threads, and the main ones of idle ones. */
static bool add_wakers(struct addresses *set, struct array waits)
{
	for (uint32_t i = 0; i < waits.count; i++) {
		struct ss_wait_record r;

		memcpy(&r, waits.at + i * sizeof(r), sizeof(r));
		if (lnx_wait_has_function(r.kind) && !add_address(set, r.extra))
			return false;
	}
	return true;
}

/* All frames of a process's records. */
static bool add_records(struct addresses *set, const struct kcd_chunk *piece)
{
	struct ss_record_walk walk = { .piece = piece };
	struct array frames = { 0 };
	struct kcd_header h;
	bool ok = true;

	while (ok && ss_next_record(&walk, &h)) {
		const struct array a = { walk.payload, (uint32_t)h.flags };

		if ((h.type & ~15u) != KCD_TYPE_ARRAY_PAD0)
			continue;
		if (h.flags >> 32 == KCD_SS_KERN_STACKLR64)
			ok = add_frames(set, frames = a);
		else if (h.flags >> 32 == SS_RECORD_FRAME_KIND)
			ok = add_exact_frames(set, frames, a);
		else if (h.flags >> 32 == SS_RECORD_WAIT)
			ok = add_wakers(set, a);
	}
	return ok;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The functions that all frames lie in, in two lists by the length of their names. */
struct symbols {
	struct ss_symbol_record *shorts;
	struct ss_long_symbol_record *longs;
	uint32_t short_count, long_count;
	struct ss_modules modules; /* that any lies in */
};

static bool add_symbol(void *arg, const struct lnx_symbol *s)
{
	struct symbols *out = arg;
	uint64_t flags = s->flags & LNX_SYMBOL_SCHED ? SS_SYMBOL_SCHED : 0;

	if (strlen(s->name) < SS_SYMBOL_NAME) {
		struct ss_symbol_record *r =
			realloc(out->shorts, (out->short_count + 1) * sizeof(*out->shorts));
		if (!r)
			return false;
		out->shorts = r;
		r[out->short_count] = (struct ss_symbol_record){ s->start, s->size, flags, "" };
		strcpy(r[out->short_count++].name, s->name);
	} else {
		struct ss_long_symbol_record *r =
			realloc(out->longs, (out->long_count + 1) * sizeof(*out->longs));
		if (!r)
			return false;
		out->longs = r;
		r[out->long_count] = (struct ss_long_symbol_record){ s->start, s->size, flags, "" };
		snprintf(r[out->long_count++].name, sizeof(r->name), "%s", s->name);
	}
	return true;
}

static bool name_addresses(const struct ss_engine *e, struct addresses *set, struct symbols *out)
{
	const struct lnx_kernel *k = ss_kernel(e);
	struct lnx_symbol s = { 0 };
	struct lnx_view v;

	lnx_view_init(&v, k, e->s->g);

	if (set->n)
		qsort(set->a, set->n, sizeof(*set->a), compare_addresses);
	for (size_t i = 0; i < set->n; i++) {
		/* ascending: the function of the one before covers most */
		if (s.size && set->a[i] - s.start < s.size)
			continue;
		if (lnx_symbol_at(k, GVA(set->a[i]), &s) &&
		    lnx_symbol_at_alias(&v, GVA(set->a[i]), &s)) {
			s.size = 0;
			continue;
		}
		if (!add_symbol(out, &s))
			return false;
	}
	return true;
}

static bool find_symbols(const struct ss_engine *e, struct symbols *out)
{
	struct addresses set = { 0 };
	bool ok = true;

	for (uint32_t i = 0; ok && i < e->t.items; i++)
		ok = add_records(&set, e->item[i].records);
	ok = ok && (!set.n || name_addresses(e, &set, out));
	ok = ok && ss_modules_name(e, set.a, set.n, &out->modules, add_symbol, out);
	/* those of modules came last; all begin with their start */
	if (out->short_count)
		qsort(out->shorts, out->short_count, sizeof(*out->shorts), compare_addresses);
	if (out->long_count)
		qsort(out->longs, out->long_count, sizeof(*out->longs), compare_addresses);
	free(set.a);
	return ok;
}

/* --- head and tail --- */

#define TRY(call)                               \
	do {                                    \
		enum kcd_code try_rc_ = (call); \
		if (try_rc_)                    \
			return try_rc_;         \
	} while (0)

static enum kcd_code write_cause(struct kcd_writer *w, const struct ss_cause *cause)
{
	if (!cause)
		return KCD_OK;
	TRY(kcd_append(w, SS_RECORD_REASON, &cause->reason, sizeof(cause->reason)));
	return cause->console_lines ? kcd_append_array(w, SS_RECORD_CONSOLE, cause->console_lines,
						       sizeof(cause->console[0]), cause->console)
				    : KCD_OK;
}

static enum kcd_code write_head(struct kcd_writer *w, const struct ss_engine *e)
{
	const struct lnx_kernel *k = ss_kernel(e);
	const struct ss_try *t = &e->t;
	static const struct kcd_timebase nanoseconds = { 1, 1 };
	const struct guest *g = e->s->g;
	struct lnx_kernel_info info = { 0 };

	for (size_t i = 0; i < ss_schema.count; i++)
		TRY(kcd_append_typedef(w, &ss_schema.types[i]));
	if (k)
		info = lnx_kernel_info_get(k);

	struct ss_guest_record guest = {
		.ram_size = guest_ram_size(g),
		.kernel_text = info.text,
		.kernel_voffset = info.voffset,
		.vcpus = g->vcpu_count,
		.clusters = g->cluster_count,
		.page_size = info.page_size,
		.va_bits = info.va_bits,
		.symbols = info.symbols,
	};
	snprintf(guest.source, sizeof(guest.source), "%s", g->source);

	TRY(kcd_append_u64(w, "stackshot_in_flags", t->request->flags | KCD_SS_KCDATA_FORMAT));
	TRY(kcd_append_u32(w, "stackshot_in_pid", (uint32_t)t->request->pid));
	TRY(kcd_append_u64(w, "system_state_flags", KCD_SS_USER64 | KCD_SS_KERNEL64));
	TRY(ss_write_pagetable_mask(w, t));
	/* a delta has none of what does not change: who reads it has the capture it follows */
	if (t->request->since_ns)
		TRY(kcd_append(w, KCD_SS_DELTA_SINCE_TIMESTAMP, &t->request->since_ns,
			       sizeof(t->request->since_ns)));
	if (k && !t->request->since_ns) {
		TRY(kcd_append(w, KCD_SS_KERN_PAGE_SIZE, &info.page_size, sizeof(info.page_size)));
		TRY(kcd_append_string(w, KCD_SS_OSVERSION, lnx_kernel_banner(k),
				      KCD_SS_OSVERSION_MAX));
		TRY(kcd_append_string(w, KCD_SS_OS_BUILD_VERSION, info.release,
				      KCD_SS_OSVERSION_MAX));
	}
	if (!t->request->since_ns)
		TRY(kcd_append(w, KCD_TYPE_TIMEBASE, &nanoseconds, sizeof(nanoseconds)));
	TRY(kcd_append(w, KCD_TYPE_MACH_ABSOLUTE_TIME, &t->start_ns, sizeof(t->start_ns)));
	TRY(kcd_append(w, KCD_TYPE_USECS_SINCE_EPOCH, &t->wall_us, sizeof(t->wall_us)));
	TRY(write_cause(w, t->request->cause));
	TRY(ss_write_page_counts(w, t));
	TRY(kcd_append(w, SS_RECORD_GUEST, &guest, sizeof(guest)));
	TRY(ss_write_system(w, e));
	return kcd_append_array(w, SS_RECORD_VCPU, g->vcpu_count, sizeof(t->vcpu[0]), t->vcpu);
}

static uint32_t workers_at_work(const struct ss_engine *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->workers; i++)
		n += e->worker[i]->times.end_ns != 0;
	return n;
}

/* How long each worker did what, and how much it did; ticks are nanoseconds. */
static struct kcd_latency_cpu worker_latency(const struct ss_engine *e, uint32_t i)
{
	const struct ss_worker *w = e->worker[i];
	static const int32_t cluster_type[] = {
		[SS_CLUSTER_SAME] = 0,
		[SS_CLUSTER_LITTLE] = 1,
		[SS_CLUSTER_BIG] = 2,
	};
	const struct kcd_latency_cpu latency = {
		.cpu_number = (int32_t)i,
		.cluster_type = cluster_type[w->kind],
		.init_latency_mt = w->times.queue_ns - w->times.begin_ns,
		.workqueue_latency_mt = w->times.waited_ns,
		.total_latency_mt = w->times.end_ns - w->times.begin_ns,
		.tasks_processed = w->items,
		.threads_processed = w->threads,
		.faulting_time_mt = w->v.fault_ns,
		.total_buf = w->asked,
		.intercluster_buf_used = w->foreign,
	};

	return latency;
}

static enum kcd_code write_latency(struct kcd_writer *w, const struct ss_engine *e,
				   const struct ss_times_record *times)
{
	const struct ss_try *t = &e->t;
	const bool parallel = ss_request_is_parallel(t->request);
	const struct kcd_latency_collection_v2 all = {
		.latency_version = 2,
		.setup_latency_mt = t->setup_ns,
		.total_task_iteration_latency_mt = parallel ? 0 : t->collect_ns - t->setup_ns,
		.task_queue_building_latency_mt = parallel ? t->walk_ns : 0,
		.cpu_wait_latency_mt = t->wait_ns,
		.buffer_size = times->buffer_size,
		.buffer_used = times->buffer_used,
		.buffer_overhead = times->buffer_overhead,
		.buffer_count = times->buffers,
	};
	void *room;

	if (t->request->flags & KCD_SS_DISABLE_LATENCY_INFO)
		return KCD_OK;
	TRY(kcd_reserve_array(w, KCD_SS_LATENCY_INFO_CPU, times->workers,
			      sizeof(struct kcd_latency_cpu), &room));
	uint8_t *out = room;
	for (uint32_t i = 0; i < e->workers; i++) {
		if (!e->worker[i]->times.end_ns)
			continue;
		struct kcd_latency_cpu latency = worker_latency(e, i);
		memcpy(out, &latency, sizeof(latency));
		out += sizeof(latency);
	}
	return kcd_append(w, KCD_SS_LATENCY_INFO, &all, sizeof(all));
}

static enum kcd_code write_tail(struct kcd_writer *w, const struct ss_engine *e,
				const struct symbols *names, uint64_t prior_ns, uint32_t tries)
{
	const struct ss_try *t = &e->t;
	uint64_t stopped = t->stop_ns + t->collect_ns + t->resume_ns;
	struct kcd_duration_v2 duration = {
		.stackshot_duration = t->collect_ns,
		.stackshot_duration_outer = stopped,
		.stackshot_duration_prior = prior_ns,
	};
	struct ss_times_record times = {
		.stop_ns = t->stop_ns,
		.collect_ns = t->collect_ns,
		.resume_ns = t->resume_ns,
		.prior_ns = prior_ns,
		.reads = t->reads,
		.bytes = t->bytes,
		.tries = tries,
		.fault_ns = t->fault_ns,
		.buffer_size = ss_storage_size(&e->storage),
		.buffer_used = ss_storage_used(&e->storage),
		.buffer_overhead = ss_storage_lost(&e->storage),
		.buffers = e->storage.buffers,
		.workers = workers_at_work(e),
		.same_tasks = t->same_tasks,
		.same_threads = t->same_threads,
	};
	/* the idle task and its threads have containers, too, but are none of the processes */
	uint64_t task_containers = t->tasks + t->idle_tasks;
	uint64_t thread_containers = (uint64_t)t->threads + t->idle_threads;

	memcpy(times.faults, t->faults, sizeof(t->faults));
	TRY(kcd_append_u64(w, "stackshot_tasks_count", task_containers));
	TRY(kcd_append_u64(w, "stackshot_threads_count", thread_containers));
	if (names->short_count)
		TRY(kcd_append_array(w, SS_RECORD_SYMBOL, names->short_count,
				     sizeof(names->shorts[0]), names->shorts));
	if (names->long_count)
		TRY(kcd_append_array(w, SS_RECORD_LONG_SYMBOL, names->long_count,
				     sizeof(names->longs[0]), names->longs));
	if (names->modules.count)
		TRY(kcd_append_array(w, SS_RECORD_MODULE, names->modules.count,
				     sizeof(names->modules.record[0]), names->modules.record));
	TRY(ss_write_log(w, e));
	if (t->missing_listed)
		TRY(kcd_append_array(w, SS_RECORD_MISSING, t->missing_listed, sizeof(t->missing[0]),
				     t->missing));
	TRY(write_latency(w, e, &times));
	TRY(kcd_append(w, SS_RECORD_TIMES, &times, sizeof(times)));
	TRY(kcd_append(w, KCD_SS_DURATION, &duration, sizeof(duration)));
	TRY(kcd_append_u64(w, "stackshot_tries", tries));
	return kcd_append_u64(w, "stackshot_out_flags", t->honoured);
}

/* The processes of which a delta says only that nothing has changed. */
static enum kcd_code write_same_tasks(struct kcd_writer *w, const struct ss_engine *e)
{
	void *room;

	TRY(kcd_reserve_array(w, KCD_SS_NONRUNNABLE_TASKS, e->t.same_tasks, sizeof(uint64_t),
			      &room));
	uint8_t *out = room;
	for (uint32_t i = 0; i < e->t.items; i++) {
		if (!e->item[i].is_same)
			continue;
		memcpy(out, &e->item[i].id, sizeof(e->item[i].id));
		out += sizeof(e->item[i].id);
	}
	return KCD_OK;
}

static enum kcd_code write_items(struct kcd_writer *w, const struct ss_engine *e)
{
	for (uint32_t i = 0; i < e->t.items; i++)
		if (e->item[i].records)
			TRY(kcd_append_chain(w, e->item[i].records));
	return e->t.same_tasks ? write_same_tasks(w, e) : KCD_OK;
}

static size_t items_size(const struct ss_engine *e)
{
	size_t sum = 0;

	for (uint32_t i = 0; i < e->t.items; i++)
		for (const struct kcd_chunk *c = e->item[i].records; c; c = c->next)
			sum += c->used;
	return sum;
}

static enum gs_code build(const struct ss_engine *e, const struct symbols *names, uint64_t prior_ns,
			  uint32_t tries, struct ss_result *r)
{
	const struct ss_try *t = &e->t;
	size_t size = FIXED_BYTES + items_size(e) + t->same_tasks * sizeof(uint64_t) +
		      e->s->g->vcpu_count * sizeof(t->vcpu[0]) +
		      names->short_count * sizeof(names->shorts[0]) +
		      names->long_count * sizeof(names->longs[0]) +
		      names->modules.count * sizeof(names->modules.record[0]) + ss_log_size(e) +
		      t->missing_listed * sizeof(t->missing[0]) +
		      (t->request->cause ? sizeof(*t->request->cause) : 0);
	struct kcd_writer w;
	GS_FREE uint8_t *data = malloc(size);

	if (!data)
		return GS_ENOSPC;
	uint32_t magic = t->request->since_ns ? KCD_MAGIC_DELTA_STACKSHOT : KCD_MAGIC_STACKSHOT;
	enum kcd_code rc = kcd_writer_init(&w, data, size, magic, 0);
	(void)(rc || (rc = write_head(&w, e)) || (rc = write_items(&w, e)) ||
	       (rc = write_tail(&w, e, names, prior_ns, tries)));
	if (rc)
		return ss_code(rc);
	r->size = kcd_writer_used(&w);
	r->data = GS_TAKE(data);
	return GS_OK;
}

enum gs_code ss_assemble(const struct ss_engine *e, uint64_t prior_ns, uint32_t tries,
			 struct ss_result *r)
{
	struct symbols names = { 0 };
	enum gs_code rc = GS_ENOSPC;

	if (find_symbols(e, &names))
		rc = build(e, &names, prior_ns, tries, r);
	free(names.shorts);
	free(names.longs);
	ss_modules_deinit(&names.modules);
	return rc;
}
