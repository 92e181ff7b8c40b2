/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a log: groups, the top one, leak sites, all records. */
#include "introspect/btlog/log_priv.h"

#include <stdlib.h>

#include "base/util.h"

/* --- counting -------------------------------------------------------------------------------- */

struct pair {
	uint32_t where; /* 0: free */
	uint32_t count;
};

/* Pairs by where; each holds a reference to its stack. Grows to twice the pairs that are in it. */
struct tally {
	struct btl_library *lib;
	struct pair *pair;
	uint32_t room, used; /* room: a power of two */
};

#define TALLY_START 1024u

static uint32_t tally_slot(const struct tally *t, uint32_t where)
{
	uint32_t i = (uint32_t)((where * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (t->room - 1);

	while (t->pair[i].where && t->pair[i].where != where)
		i = (i + 1) & (t->room - 1);
	return i;
}

static bool tally_grow(struct tally *t)
{
	struct tally old = *t;

	t->room = old.room ? 2 * old.room : TALLY_START;
	t->pair = gs_array_alloc(t->room, sizeof(*t->pair));
	if (!t->pair) {
		*t = old;
		return false;
	}
	for (uint32_t i = 0; i < old.room; i++)
		if (old.pair[i].where)
			t->pair[tally_slot(t, old.pair[i].where)] = old.pair[i];
	free(old.pair);
	return true;
}

/* Count a record of a log whose lock is held. The reference of a permanent stack has two forms. */
static bool tally_add(struct tally *t, uint32_t where)
{
	where &= ~BTL_REF_PERMANENT;
	if (2 * (t->used + 1) > t->room && !tally_grow(t))
		return false;

	struct pair *p = &t->pair[tally_slot(t, where)];

	if (!p->where) {
		(void)btl_retain(t->lib, btl_where_ref(where)); // the log holds it
		p->where = where;
		t->used++;
	}
	p->count++;
	return true;
}

static void tally_deinit(struct tally *t)
{
	for (uint32_t i = 0; i < t->room; i++)
		if (t->pair[i].where)
			(void)btl_put(t->lib, btl_where_ref(t->pair[i].where)); // our own
	free(t->pair);
}

/* --- groups ----------------------------------------------------------------------------------- */

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->where > y->where) - (x->where < y->where);
}

static void fill_group(struct btl_library *lib, const struct pair *p, struct btl_group *g)
{
	struct btl_stack stack;

	btl_entry_unpack(lib, btl_entry_of(lib, p->where & BTL_REF_MASK), &stack);
	g->count = p->count;
	g->op = p->where % BTL_OPS;
	g->frames = stack.count;
	g->cut = stack.cut;
	memcpy(g->frame, stack.frame, sizeof(g->frame));
}

/* Ends the tally. */
static enum gs_code make_groups(struct tally *t, uint32_t max, struct btl_groups *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->room; i++)
		if (t->pair[i].where)
			t->pair[n++] = t->pair[i];
	t->room = n; // packed: all of them are in use
	if (n)
		qsort(t->pair, n, sizeof(*t->pair), compare_pairs);
	out->count = max ? (uint32_t)gs_min(n, max) : n;
	out->group = gs_array_alloc(gs_max(out->count, 1), sizeof(*out->group));
	for (uint32_t i = 0; i < n && out->group; i++) {
		if (i < out->count) {
			fill_group(t->lib, &t->pair[i], &out->group[i]);
			out->records += t->pair[i].count;
		} else {
			out->clipped++;
			out->clipped_records += t->pair[i].count;
		}
	}
	tally_deinit(t);
	return out->group ? GS_OK : GS_ENOSPC;
}

static enum gs_code out_of_memory(const struct btl_log *log, struct gs_error *err)
{
	return gs_fail(err, GS_ENOSPC, "log %s: out of memory to read it", log->name);
}

static enum gs_code nothing_there(const struct btl_log *log, struct gs_error *err)
{
	return gs_fail(err, GS_ENOENT, "log %s: nothing recorded", log->name);
}

static bool tally_log(struct tally *t, struct btl_log *log)
{
	bool ok = true;

	pthread_mutex_lock(&log->lock);
	for (uint32_t i = 0; ok && log->held && i < log->capacity; i++) {
		uint32_t where = btl_slot_of(log, i)->where;

		ok = !where || tally_add(t, where);
	}
	pthread_mutex_unlock(&log->lock);
	return ok;
}

enum gs_code btl_log_groups(struct btl_log *log, uint32_t max, struct btl_groups *groups_out,
			    struct gs_error *err)
{
	struct tally t = { .lib = log->lib };
	struct btl_groups groups = { 0 };

	if (!tally_log(&t, log)) {
		tally_deinit(&t);
		return out_of_memory(log, err);
	}
	if (!t.used)
		return nothing_there(log, err);
	if (make_groups(&t, max, &groups))
		return out_of_memory(log, err);
	*groups_out = groups;
	return GS_OK;
}

void btl_groups_deinit(struct btl_groups *groups)
{
	free(groups->group);
	*groups = (struct btl_groups){ 0 };
}

/* --- the top one ------------------------------------------------------------------------------ */

#define TOP 8u

struct top {
	uint32_t ref[TOP];
	uint32_t references[TOP];
	uint32_t count;
};

/* Keeps the stacks with most references, descending. */
static void top_add(struct top *top, uint32_t ref, uint32_t references)
{
	uint32_t i = top->count;

	for (uint32_t k = 0; k < top->count; k++)
		if (top->ref[k] == ref)
			return;
	if (i == TOP && references <= top->references[TOP - 1])
		return;
	if (i == TOP)
		i--;
	else
		top->count++;
	for (; i > 0 && top->references[i - 1] < references; i--) {
		top->ref[i] = top->ref[i - 1];
		top->references[i] = top->references[i - 1];
	}
	top->ref[i] = ref;
	top->references[i] = references;
}

static uint32_t ref_of_slot(const struct btl_log *log, uint32_t i)
{
	return btl_where_ref(btl_slot_of(log, i)->where) & ~BTL_REF_PERMANENT;
}

static uint32_t find_top_locked(struct btl_log *log, uint32_t *count_out)
{
	uint32_t count[TOP] = { 0 }, best = 0;
	struct top top = { .count = 0 };

	for (uint32_t i = 0; i < log->capacity; i++) {
		uint32_t ref = ref_of_slot(log, i);

		if (ref)
			top_add(&top, ref,
				atomic_load_explicit(&btl_entry_of(log->lib, ref)->count,
						     memory_order_relaxed) >>
					4);
	}
	for (uint32_t i = 0; i < log->capacity; i++)
		for (uint32_t k = 0, ref = ref_of_slot(log, i); k < top.count; k++)
			count[k] += top.ref[k] == ref;
	for (uint32_t k = 1; k < top.count; k++)
		if (count[k] > count[best])
			best = k;
	*count_out = count[best];
	return top.count ? top.ref[best] : 0;
}

enum gs_code btl_log_guess_top(struct btl_log *log, struct btl_stack *stack_out,
			       uint32_t *count_out)
{
	uint32_t ref, count;

	if (pthread_mutex_trylock(&log->lock))
		return GS_EBUSY;
	ref = log->held ? find_top_locked(log, &count) : 0;
	if (ref) {
		*count_out = count;
		btl_entry_unpack(log->lib, btl_entry_of(log->lib, ref), stack_out);
	}
	pthread_mutex_unlock(&log->lock);
	return ref ? GS_OK : GS_ENOENT;
}

/* --- leak sites ------------------------------------------------------------------------------- */

/* So that recording does not wait for all of a long list. */
#define ELEMENTS_A_LOCK 4096u

/* The newest record of an element, 0 if there is none. */
static uint32_t where_of(const struct btl_log *log, uint64_t element)
{
	uint32_t i = btl_bucket_of(log, element)->last;

	while (i != BTL_NO_SLOT && btl_slot_of(log, i)->element != element)
		i = btl_hash_slot_of(log, i)->prev;
	return i == BTL_NO_SLOT ? 0 : btl_slot_of(log, i)->where;
}

static enum gs_code tally_elements(struct tally *t, struct btl_log *log, const uint64_t *elements,
				   uint32_t count, uint64_t *unknown_out)
{
	for (uint32_t i = 0; i < count;) {
		uint32_t end = i + (uint32_t)gs_min(count - i, ELEMENTS_A_LOCK);
		bool ok = true;

		pthread_mutex_lock(&log->lock);
		bool enabled = log->slots != NULL;
		for (; i < end && ok && enabled; i++) {
			uint32_t where = where_of(log, elements[i]);

			ok = !where || tally_add(t, btl_where_ref(where));
			*unknown_out += !where;
		}
		pthread_mutex_unlock(&log->lock);
		if (!ok || !enabled)
			return ok ? GS_ENOENT : GS_ENOSPC;
	}
	return GS_OK;
}

enum gs_code btl_log_leak_sites(struct btl_log *log, const uint64_t *elements, uint32_t count,
				struct btl_groups *groups_out, struct gs_error *err)
{
	struct tally t = { .lib = log->lib };
	struct btl_groups groups = { 0 };

	if (log->kind != BTL_LOG_HASH)
		return gs_fail(err, GS_ENOTSUP, "log %s is a ring: it does not find elements",
			       log->name);
	enum gs_code rc = tally_elements(&t, log, elements, count, &groups.clipped_records);
	if (rc) {
		tally_deinit(&t);
		return rc == GS_ENOENT ? nothing_there(log, err) : out_of_memory(log, err);
	}
	if (make_groups(&t, 0, &groups))
		return out_of_memory(log, err);
	*groups_out = groups;
	return GS_OK;
}

/* --- all records ------------------------------------------------------------------------------ */

static int compare_times(const void *a, const void *b)
{
	const struct btl_record *x = a, *y = b;

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static bool is_sorted(const struct btl_record *records, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		if (records[i].time_ns < records[i - 1].time_ns)
			return false;
	return true;
}

static uint32_t copy_records_locked(struct btl_log *log, struct btl_record *to, uint32_t room)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < log->capacity && n < room; k++) {
		const struct btl_slot *s = btl_slot_of(log, btl_slot_by_age(log, log->cursor, k));
		uint32_t ref = btl_where_ref(s->where);

		if (!ref)
			continue;
		(void)btl_retain(log->lib, ref); // the log holds it
		to[n++] = (struct btl_record){
			.element = s->element,
			.time_ns = log->epoch_ns + s->ticks * BTL_TICK_NS,
			.ref = ref,
			.op = s->where % BTL_OPS,
		};
	}
	return n;
}

enum gs_code btl_log_records(struct btl_log *log, struct btl_record **records_out,
			     uint32_t *count_out, struct gs_error *err)
{
	struct btl_record *records = NULL;
	uint32_t room = 0, held, n = 0;

	/* room for all is had before the lock; they may grow more meanwhile */
	do {
		pthread_mutex_lock(&log->lock);
		held = log->slots ? log->held : 0;
		if (held <= room)
			n = records ? copy_records_locked(log, records, room) : 0;
		pthread_mutex_unlock(&log->lock);
		if (held <= room)
			break;
		free(records);
		room = (uint32_t)gs_min(held + held / 8ull + 64, log->capacity);
		records = gs_array_alloc(room, sizeof(*records));
	} while (records);
	if (!records)
		return held ? out_of_memory(log, err) : nothing_there(log, err);
	if (!n) {
		free(records);
		return nothing_there(log, err);
	}
	/* a ring may be used by threads that overtake each other, places of a hash log are used anew */
	if (!is_sorted(records, n))
		qsort(records, n, sizeof(*records), compare_times);
	*records_out = records;
	*count_out = n;
	return GS_OK;
}

void btl_records_release(struct btl_log *log, struct btl_record *records, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)btl_put(log->lib, records[i].ref); // had from btl_log_records()
	free(records);
}
