/* SPDX-License-Identifier: Apache-2.0 */
/* Wrapped functions of the library. */
#include "tests/unit/stackshot/seam.h"

#include <sched.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"

struct seam_point seam_allocations, seam_advice, seam_records, seam_pieces;
enum kcd_code seam_record_code;
_Atomic uint32_t seam_meeting;
void (*seam_on_take)(enum ss_cluster_kind kind, const uint32_t *items, uint32_t n);

static _Thread_local bool is_helper;

void seam_fail(struct seam_point *p, uint32_t first, uint32_t last)
{
	p->calls = p->failed = 0;
	p->first = first;
	p->last = last;
}

/*
 * Relaxed throughout: anything more would order workers, and hide from ThreadSanitizer what they
 * share.
 */
bool seam_fails(struct seam_point *p)
{
	if (p->helpers_only && !is_helper)
		return false;
	uint32_t nth = atomic_fetch_add_explicit(&p->calls, 1, memory_order_relaxed) + 1;
	bool fails = nth >= atomic_load_explicit(&p->first, memory_order_relaxed) &&
		     nth <= atomic_load_explicit(&p->last, memory_order_relaxed);
	if (fails)
		atomic_fetch_add_explicit(&p->failed, 1, memory_order_relaxed);
	return fails;
}

void seam_reset(void)
{
	struct seam_point *points[] = { &seam_allocations, &seam_advice, &seam_records,
					&seam_pieces };

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		seam_fail(points[i], 0, 0);
		points[i]->helpers_only = false;
	}
	seam_record_code = KCD_OK;
	seam_meeting = 0;
	seam_on_take = NULL;
}

/* --- workers ---------------------------------------------------------------------------------- */

bool seam_is_helper(void)
{
	return is_helper;
}

bool __real_ss_context_enter(struct ss_context *c);
bool __wrap_ss_context_enter(struct ss_context *c);
bool __wrap_ss_context_enter(struct ss_context *c)
{
	is_helper = __real_ss_context_enter(c);
	return is_helper;
}

void __real_ss_context_leave(struct ss_context *c);
void __wrap_ss_context_leave(struct ss_context *c);
void __wrap_ss_context_leave(struct ss_context *c)
{
	// before: afterwards the guest may run
	is_helper = false;
	__real_ss_context_leave(c);
}

/* --- queues ----------------------------------------------------------------------------------- */

#define MEETING_NS (60 * GS_NS_PER_SEC)

static _Atomic uint32_t tries, before, after; /* workers that have come to the meeting */
static _Thread_local uint32_t met_in;	      /* number of the try */

void __real_ss_queues_reset(struct ss_queues *qs);
void __wrap_ss_queues_reset(struct ss_queues *qs);
void __wrap_ss_queues_reset(struct ss_queues *qs)
{
	tries++;
	before = after = 0;
	__real_ss_queues_reset(qs);
}

static bool goes_on(struct ss_queues *qs)
{
	struct ss_engine *e = (void *)((char *)qs - offsetof(struct ss_engine, queues));

	return ss_context_state(&e->context) == SS_RUNNING;
}

static void meet(_Atomic uint32_t *come, struct ss_queues *qs)
{
	const uint64_t end = gs_clock_ns() + MEETING_NS;

	++*come;
	while (*come < seam_meeting && goes_on(qs)) {
		if (gs_clock_ns() > end)
			abort();
		sched_yield();
	}
}

enum ss_take __real_ss_queues_take(struct ss_queues *qs, enum ss_cluster_kind kind, uint32_t takers,
				   uint32_t *items, uint32_t *n_out);
enum ss_take __wrap_ss_queues_take(struct ss_queues *qs, enum ss_cluster_kind kind, uint32_t takers,
				   uint32_t *items, uint32_t *n_out);
enum ss_take __wrap_ss_queues_take(struct ss_queues *qs, enum ss_cluster_kind kind, uint32_t takers,
				   uint32_t *items, uint32_t *n_out)
{
	const bool meets = seam_meeting && met_in != tries;

	met_in = tries;
	if (meets)
		meet(&before, qs);
	enum ss_take take = __real_ss_queues_take(qs, kind, takers, items, n_out);
	if (take == SS_TAKE_SOME && seam_on_take)
		seam_on_take(kind, items, *n_out);
	if (meets)
		meet(&after, qs);
	return take;
}

/* --- what fails ------------------------------------------------------------------------------- */

struct kcd_chunk *__real_ss_piece_take(struct ss_storage *st, uint32_t own, size_t want,
				       size_t least, uint64_t *foreign_out);
struct kcd_chunk *__wrap_ss_piece_take(struct ss_storage *st, uint32_t own, size_t want,
				       size_t least, uint64_t *foreign_out);
struct kcd_chunk *__wrap_ss_piece_take(struct ss_storage *st, uint32_t own, size_t want,
				       size_t least, uint64_t *foreign_out)
{
	if (seam_fails(&seam_pieces))
		return NULL;
	return __real_ss_piece_take(st, own, want, least, foreign_out);
}

#define RECORD(name, params, args)                             \
	enum kcd_code __real_##name params;                    \
	enum kcd_code __wrap_##name params;                    \
	enum kcd_code __wrap_##name params                     \
	{                                                      \
		if (seam_fails(&seam_records))                 \
			return seam_record_code ?: KCD_ENOSPC; \
		return __real_##name args;                     \
	}

RECORD(kcd_append, (struct kcd_writer * w, uint32_t type, const void *data, size_t len),
       (w, type, data, len))
RECORD(kcd_reserve, (struct kcd_writer * w, uint32_t type, size_t len, void **out),
       (w, type, len, out))
RECORD(kcd_append_array,
       (struct kcd_writer * w, uint32_t type, uint32_t n, size_t size, const void *data),
       (w, type, n, size, data))
RECORD(kcd_reserve_array,
       (struct kcd_writer * w, uint32_t type, uint32_t n, size_t size, void **out),
       (w, type, n, size, out))
RECORD(kcd_append_string, (struct kcd_writer * w, uint32_t type, const char *s, size_t max),
       (w, type, s, max))
RECORD(kcd_append_u32, (struct kcd_writer * w, const char *name, uint32_t value), (w, name, value))
RECORD(kcd_append_u64, (struct kcd_writer * w, const char *name, uint64_t value), (w, name, value))
RECORD(kcd_append_typedef, (struct kcd_writer * w, const struct kcd_type *type), (w, type))
RECORD(kcd_append_chain, (struct kcd_writer * w, const struct kcd_chunk *first), (w, first))
RECORD(kcd_append_items, (struct kcd_writer * w, const void *items, size_t len), (w, items, len))
RECORD(kcd_container_begin, (struct kcd_writer * w, uint32_t type, uint64_t id), (w, type, id))
RECORD(kcd_writer_init,
       (struct kcd_writer * w, void *buf, size_t size, uint32_t magic, uint32_t flags),
       (w, buf, size, magic, flags))
RECORD(kcd_writer_init_chain,
       (struct kcd_writer * w, struct kcd_chunk *first, uint32_t magic, uint32_t flags,
	kcd_more_fn more, kcd_less_fn less, void *arg),
       (w, first, magic, flags, more, less, arg))

enum kcd_code __real_kcd_container_end(struct kcd_writer *w, uint64_t id);
enum kcd_code __wrap_kcd_container_end(struct kcd_writer *w, uint64_t id);
enum kcd_code __wrap_kcd_container_end(struct kcd_writer *w, uint64_t id)
{
	// its room was set aside when the container was opened: it may be refused, but never lacks
	// room
	if (seam_record_code && seam_fails(&seam_records))
		return seam_record_code;
	return __real_kcd_container_end(w, id);
}
