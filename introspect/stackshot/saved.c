/* SPDX-License-Identifier: Apache-2.0 */
/* Captures that stay in the session until somebody has them. */
#include <stdlib.h>

#include "base/clock.h"
#include "introspect/stackshot/capture.h"

/*
 * Retrieving copies nothing: each result that has the stream holds it, and so does the session until it
 * is dropped. A retriever whose delivery fails just lets go, and the session still has it.
 */
struct ss_saved {
	_Atomic uint32_t holders;
	uint64_t wall_us;
	struct ss_result result; /* with the stream; nothing of it changes any more */
};

static uint64_t id_of(const struct ss_saved *saved)
{
	return saved->result.saved_id;
}

void ss_saved_put(struct ss_saved *saved)
{
	/* acquire and release: what other holders did with it comes before the last one frees it */
	if (!saved || atomic_fetch_sub_explicit(&saved->holders, 1, memory_order_acq_rel) > 1)
		return;
	free(saved->result.data);
	free(saved);
}

enum gs_code ss_saved_check(struct ss_session *s, struct gs_error *err)
{
	struct ss_result saved;
	uint64_t wall_us;

	if (!ss_session_saved(s, &saved, &wall_us))
		return GS_OK;
	return gs_fail(err, GS_EEXIST,
		       "a capture of %zu bytes is saved already: retrieve it first "
		       "(RETRIEVE_EXISTING_BUFFER)",
		       saved.size);
}

enum gs_code ss_saved_keep(struct ss_session *s, struct ss_result *r, struct gs_error *err)
{
	struct ss_saved *saved = malloc(sizeof(*saved));

	if (!saved) {
		ss_result_deinit(r);
		return gs_fail(err, GS_ENOSPC, "out of memory for a capture to be saved");
	}
	*saved = (struct ss_saved){ .holders = 1, .wall_us = gs_clock_wall_us(), .result = *r };
	pthread_mutex_lock(&s->saved_lock);
	saved->result.saved_id = ++s->saved_ids;
	r->saved_id = id_of(saved);
	s->saved = saved;
	pthread_mutex_unlock(&s->saved_lock);
	r->data = NULL;
	return GS_OK;
}

enum gs_code ss_saved_retrieve(struct ss_session *s, struct ss_result *result_out,
			       struct gs_error *err)
{
	pthread_mutex_lock(&s->saved_lock);
	struct ss_saved *saved = s->saved;
	/* relaxed: the session holds it, under the lock */
	if (saved)
		atomic_fetch_add_explicit(&saved->holders, 1, memory_order_relaxed);
	pthread_mutex_unlock(&s->saved_lock);
	if (!saved)
		return gs_fail(err, GS_ENOENT,
			       "no capture is saved: SAVE_IN_KERNEL_BUFFER has one saved");
	*result_out = saved->result;
	result_out->held = saved;
	return GS_OK;
}

bool ss_session_saved(struct ss_session *s, struct ss_result *numbers_out, uint64_t *wall_us_out)
{
	pthread_mutex_lock(&s->saved_lock);
	bool is_saved = s->saved;
	if (is_saved) {
		*numbers_out = s->saved->result;
		*wall_us_out = s->saved->wall_us;
	}
	pthread_mutex_unlock(&s->saved_lock);
	if (is_saved)
		numbers_out->data = NULL;
	return is_saved;
}

bool ss_session_saved_drop(struct ss_session *s, uint64_t saved_id)
{
	struct ss_saved *dropped = NULL;

	pthread_mutex_lock(&s->saved_lock);
	if (s->saved && id_of(s->saved) == saved_id) {
		dropped = s->saved;
		s->saved = NULL;
	}
	pthread_mutex_unlock(&s->saved_lock);
	ss_saved_put(dropped); /* not under the lock: freeing that much takes a while */
	return dropped;
}
