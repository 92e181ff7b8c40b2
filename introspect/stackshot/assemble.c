/* SPDX-License-Identifier: Apache-2.0 */
/* The finished stream, built with the guest running again: head, task section, tail, names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/capture.h"
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

static uint64_t frame_address(const struct kcd_item *stack, uint32_t i)
{
	uint64_t address = 0;

	kcd_item_copy_elem(stack, i, &address, sizeof(address));
	return address;
}

static bool add_item(struct addresses *set, const struct kcd_item *it, struct kcd_item *stack)
{
	if (it->kind != KCD_ITEM_ARRAY)
		return true;
	if (it->elem_type == KCD_SS_KERN_STACKLR64) {
		*stack = *it;
		for (uint32_t i = 0; i < it->count; i++)
			if (!add_address(set, frame_address(it, i) - 1))
				return false;
	} else if (it->elem_type == SS_RECORD_FRAME_KIND) {
		for (uint32_t i = 0; i < it->count; i++) {
			struct ss_frame_kind_record r = { 0 };

			kcd_item_copy_elem(it, i, &r, sizeof(r));
			if (r.index < stack->count && r.kind != LNX_FRAME_LR &&
			    !add_address(set, frame_address(stack, r.index)))
				return false;
		}
	}
	return true;
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
};

static bool add_symbol(struct symbols *out, const struct lnx_symbol *s)
{
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

static bool name_addresses(const struct lnx_kernel *k, struct addresses *set, struct symbols *out)
{
	struct lnx_symbol s = { 0 };

	if (set->n)
		qsort(set->a, set->n, sizeof(*set->a), compare_addresses);
	for (size_t i = 0; i < set->n; i++) {
		/* ascending: the function of the one before covers most */
		if (s.size && set->a[i] - s.start < s.size)
			continue;
		if (lnx_symbol_at(k, GVA(set->a[i]), &s)) {
			s.size = 0;
			continue;
		}
		if (!add_symbol(out, &s))
			return false;
	}
	return true;
}

static bool find_symbols(const struct ss_try *t, struct symbols *out)
{
	struct addresses set = { 0 };
	struct kcd_reader r;
	struct kcd_item it, stack = { 0 };
	bool ok = true;

	if (!t->s->k)
		return true;
	enum kcd_code rc = kcd_reader_init(&r, t->s->storage.records, kcd_writer_used(&t->w),
					   KCD_STRICT, NULL);
	while (ok && !rc && !(rc = kcd_reader_next(&r, &it)))
		ok = add_item(&set, &it, &stack);
	ok = ok && rc == KCD_DONE && name_addresses(t->s->k, &set, out);
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

static enum kcd_code write_head(struct kcd_writer *w, const struct ss_try *t)
{
	static const struct kcd_timebase nanoseconds = { 1, 1 };
	const struct guest *g = t->s->g;
	struct lnx_kernel_info info = { 0 };

	for (size_t i = 0; i < ss_schema.count; i++)
		TRY(kcd_append_typedef(w, &ss_schema.types[i]));
	if (t->s->k)
		info = lnx_kernel_info_get(t->s->k);

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

	TRY(kcd_append_u64(w, "stackshot_in_flags", KCD_SS_KCDATA_FORMAT));
	TRY(kcd_append_u32(w, "stackshot_in_pid", (uint32_t)t->request->pid));
	TRY(kcd_append_u64(w, "system_state_flags", KCD_SS_USER64 | KCD_SS_KERNEL64));
	if (t->s->k) {
		TRY(kcd_append(w, KCD_SS_KERN_PAGE_SIZE, &info.page_size, sizeof(info.page_size)));
		TRY(kcd_append_string(w, KCD_SS_OSVERSION, lnx_kernel_banner(t->s->k),
				      KCD_SS_OSVERSION_MAX));
		TRY(kcd_append_string(w, KCD_SS_OS_BUILD_VERSION, info.release,
				      KCD_SS_OSVERSION_MAX));
	}
	TRY(kcd_append(w, KCD_TYPE_TIMEBASE, &nanoseconds, sizeof(nanoseconds)));
	TRY(kcd_append(w, KCD_TYPE_MACH_ABSOLUTE_TIME, &t->start_ns, sizeof(t->start_ns)));
	TRY(kcd_append(w, KCD_TYPE_USECS_SINCE_EPOCH, &t->wall_us, sizeof(t->wall_us)));
	TRY(kcd_append(w, SS_RECORD_GUEST, &guest, sizeof(guest)));
	return kcd_append_array(w, SS_RECORD_VCPU, g->vcpu_count, sizeof(t->vcpu[0]), t->vcpu);
}

static uint32_t missing_listed(const struct ss_try *t)
{
	return t->missing_count < SS_MISSING_LISTED ? t->missing_count : SS_MISSING_LISTED;
}

/* The last place of a full list says how many more there are. */
static enum kcd_code write_missing(struct kcd_writer *w, const struct ss_try *t)
{
	uint32_t listed = missing_listed(t);
	void *room;

	if (!listed)
		return KCD_OK;
	enum kcd_code rc =
		kcd_reserve_array(w, SS_RECORD_MISSING, listed, sizeof(t->missing[0]), &room);
	if (rc)
		return rc;
	memcpy(room, t->missing, listed * sizeof(t->missing[0]));
	if (t->missing_count > listed) {
		struct ss_missing_record more = {
			.what = SS_MISSING_MORE,
			.count = t->missing_count - listed + 1,
			.pid = -1,
			.tid = -1,
			.reason = "too many to list each",
		};
		memcpy((uint8_t *)room + (listed - 1) * sizeof(more), &more, sizeof(more));
	}
	return KCD_OK;
}

static enum kcd_code write_tail(struct kcd_writer *w, const struct ss_try *t,
				const struct symbols *names, uint64_t prior_ns, uint32_t tries)
{
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
		.reads = t->v.reads,
		.bytes = t->v.bytes,
		.tries = tries,
	};
	/* the idle task and its threads have containers, too, but are none of the processes */
	uint64_t task_containers = t->tasks + t->idle_task;
	uint64_t thread_containers = (uint64_t)t->threads + t->idle_threads;

	memcpy(times.faults, t->v.faults, sizeof(t->v.faults));
	TRY(kcd_append_u64(w, "stackshot_tasks_count", task_containers));
	TRY(kcd_append_u64(w, "stackshot_threads_count", thread_containers));
	if (names->short_count)
		TRY(kcd_append_array(w, SS_RECORD_SYMBOL, names->short_count,
				     sizeof(names->shorts[0]), names->shorts));
	if (names->long_count)
		TRY(kcd_append_array(w, SS_RECORD_LONG_SYMBOL, names->long_count,
				     sizeof(names->longs[0]), names->longs));
	TRY(write_missing(w, t));
	TRY(kcd_append(w, SS_RECORD_TIMES, &times, sizeof(times)));
	TRY(kcd_append(w, KCD_SS_DURATION, &duration, sizeof(duration)));
	TRY(kcd_append_u64(w, "stackshot_tries", tries));
	return kcd_append_u64(w, "stackshot_out_flags", KCD_SS_KCDATA_FORMAT);
}

static enum gs_code build(const struct ss_try *t, const struct symbols *names, uint64_t prior_ns,
			  uint32_t tries, struct ss_result *r)
{
	/* between the BEGIN and the END of the task section's own stream */
	const uint8_t *tasks = t->s->storage.records + KCD_HEADER_SIZE;
	size_t tasks_size = kcd_writer_used(&t->w) - 2 * KCD_HEADER_SIZE;
	size_t size = FIXED_BYTES + tasks_size + t->s->g->vcpu_count * sizeof(t->vcpu[0]) +
		      names->short_count * sizeof(names->shorts[0]) +
		      names->long_count * sizeof(names->longs[0]) +
		      missing_listed(t) * sizeof(t->missing[0]);
	struct kcd_writer w;
	GS_FREE uint8_t *data = malloc(size);

	if (!data)
		return GS_ENOSPC;
	enum kcd_code rc = kcd_writer_init(&w, data, size, KCD_MAGIC_STACKSHOT, 0);
	(void)(rc || (rc = write_head(&w, t)) || (rc = kcd_append_items(&w, tasks, tasks_size)) ||
	       (rc = write_tail(&w, t, names, prior_ns, tries)));
	if (rc)
		return ss_code(rc);
	r->size = kcd_writer_used(&w);
	r->data = GS_TAKE(data);
	return GS_OK;
}

enum gs_code ss_assemble(const struct ss_try *t, uint64_t prior_ns, uint32_t tries,
			 struct ss_result *r)
{
	struct symbols names = { 0 };
	enum gs_code rc = GS_ENOSPC;

	if (find_symbols(t, &names))
		rc = build(t, &names, prior_ns, tries, r);
	free(names.shorts);
	free(names.longs);
	return rc;
}
