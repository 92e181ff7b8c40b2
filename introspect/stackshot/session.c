/* SPDX-License-Identifier: Apache-2.0 */
/* What is kept between captures of one guest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/stackshot/system.h"

/*
 * What is set aside for a panic: a guest with some thousand threads to each GiB fits, and of a larger
 * one the processes that come first.
 */
#define PANIC_TASKS	  16384u
#define PANIC_RECORDS_MIN (UINT64_C(1) << 20)
#define PANIC_RECORDS_MAX (UINT64_C(8) << 20)

static enum gs_code check_options(const struct guest *g, const struct ss_options *o,
				  struct gs_error *err)
{
	if (o->workers > SS_WORKERS_MAX)
		return gs_fail(err, GS_EINVAL, "%" PRIu32 " workers: at most %d", o->workers,
			       SS_WORKERS_MAX);
	if (o->kinds > gs_max(g->cluster_count, o->workers))
		return gs_fail(err, GS_EINVAL,
			       "%" PRIu32 " kinds of clusters: the guest has %" PRIu32
			       " (vCPUs without known clusters are one)",
			       o->kinds, g->cluster_count);
	return GS_OK;
}

static enum gs_code make_ordinary(struct ss_session *s, const struct ss_options *o,
				  struct gs_error *err)
{
	enum ss_cluster_kind kind[SS_WORKERS_MAX];
	uint32_t workers =
		o->workers ? o->workers : (uint32_t)gs_min(s->g->cluster_count, SS_WORKERS_MAX);

	for (uint32_t i = 0; i < workers; i++)
		kind[i] = i < o->kinds ? o->kind[i] : SS_CLUSTER_SAME;
	return ss_engine_init(&s->ordinary, s, workers, kind, err);
}

static enum gs_code make_panic(struct ss_session *s, const struct ss_options *o,
			       struct gs_error *err)
{
	static const enum ss_cluster_kind same = SS_CLUSTER_SAME;
	struct ss_engine *e = &s->panic;
	uint64_t size = gs_max(guest_ram_size(s->g) >> 9, PANIC_RECORDS_MIN);

	size = o->panic_buffer ? o->panic_buffer : gs_min(size, PANIC_RECORDS_MAX);
	e->is_fixed = true;
	enum gs_code rc = ss_engine_init(e, s, 1, &same, err);
	if (rc)
		return rc;
	if (ss_engine_reserve_tasks(e, PANIC_TASKS) ||
	    ss_log_reserve(&e->log, KCD_SS_FROM_PANIC | SS_KERNEL_LOG) ||
	    ss_storage_reserve(&e->storage, 1, (size_t)size))
		return gs_fail(err, GS_ENOSPC, "out of memory for %" PRIu64 " bytes set aside",
			       size);
	return GS_OK;
}

enum gs_code ss_session_create_with(struct guest *g, const struct ss_options *options,
				    struct ss_session **s_out, struct gs_error *err)
{
	enum gs_code rc = check_options(g, options, err);

	if (rc)
		return rc;
	/* its contexts are aligned to cache lines */
	struct ss_session *s = aligned_alloc(_Alignof(struct ss_session), sizeof(*s));
	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	memset(s, 0, sizeof(*s));
	s->g = g;
	s->buffer_max = options->buffer_max;
	s->remembers = options->remember;
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->saved_lock, NULL);
	rc = make_ordinary(s, options, err);
	if (!rc)
		rc = make_panic(s, options, err);
	if (rc) {
		ss_session_destroy(s);
		return rc;
	}
	*s_out = s;
	return GS_OK;
}

enum gs_code ss_session_create(struct guest *g, struct ss_session **s_out, struct gs_error *err)
{
	return ss_session_create_with(g, &(struct ss_options){ 0 }, s_out, err);
}

void ss_session_hint(struct ss_session *s, const struct lnx_hints *hints)
{
	s->hints = *hints;
}

void ss_session_give_kernel(struct ss_session *s, struct lnx_kernel *k)
{
	/* release: pairs with the acquire in take_kernel() */
	atomic_store_explicit(&s->k, k, memory_order_release);
}

const struct gs_error *ss_session_why_no_kernel(const struct ss_session *s)
{
	return &s->why_no_kernel;
}

const struct lnx_kernel *ss_session_kernel(const struct ss_session *s)
{
	return atomic_load_explicit(&s->k, memory_order_acquire);
}

void ss_session_destroy(struct ss_session *s)
{
	if (!s)
		return;
	ss_engine_deinit(&s->ordinary);
	ss_engine_deinit(&s->panic);
	ss_history_deinit(&s->history);
	lnx_kernel_destroy(atomic_load_explicit(&s->k, memory_order_relaxed));
	ss_saved_put(s->saved);
	pthread_mutex_destroy(&s->saved_lock);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
