/* SPDX-License-Identifier: Apache-2.0 */
/* The backtrace logs of one guest. */
#include "control/btlogs.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "control/btlogs_code.h"
#include "control/btlogs_priv.h"
#include "introspect/btlog/book.h"
#include "introspect/stackshot/records.h"
#include "kcdata/kcdata.h"
#include "kcdata/stackshot_types.h"

/* --- one kernel's library and logs --------------------------------------------------------------
 */

static void state_deinit(struct btlogs_state *s)
{
	btl_log_destroy(s->threads);
	btl_log_destroy(s->samples);
	btl_log_destroy(s->probes);
	btl_library_destroy(s->lib);
	ctl_code_destroy(s->code);
	lnx_kernel_destroy(s->k);
	*s = (struct btlogs_state){ 0 };
}

/* Registers of a short stop, as for a capture; the search itself runs beside the guest. */
static enum gs_code find_kernel(struct ctl_btlogs *b, struct lnx_kernel **k_out,
				struct gs_error *err)
{
	GS_FREE struct guest_vcpu_regs *regs = gs_array_alloc(b->g->vcpu_count, sizeof(*regs));

	if (!regs && b->g->vcpu_count)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	enum gs_code rc = guest_regs_of_short_stop(b->g, regs, err);
	return rc ? rc : lnx_kernel_find(b->g, regs, b->g->vcpu_count, &b->hints, k_out, err);
}

static enum gs_code state_init(struct ctl_btlogs *b, struct btlogs_state *s, struct gs_error *err)
{
	enum gs_code rc = find_kernel(b, &s->k, err);

	if (rc)
		return rc;
	const struct btl_library_options library = {
		.base = lnx_kernel_info_get(s->k).text,
		.limit = b->limit,
	};
	const struct btl_log_options threads = { .name = "threads", .capacity = BTLOGS_CAPACITY };
	const struct btl_log_options samples = { .name = "samples", .capacity = BTLOGS_CAPACITY };
	/* by element, since it is erased so */
	const struct btl_log_options probes = { .name = "probes",
						.kind = BTL_LOG_HASH,
						.capacity = BTLOGS_CAPACITY };
	rc = btl_library_create(&library, &s->lib, err);
	if (!rc)
		rc = btl_log_create(s->lib, &threads, &s->threads, err);
	if (!rc)
		rc = btl_log_create(s->lib, &samples, &s->samples, err);
	if (!rc)
		rc = btl_log_create(s->lib, &probes, &s->probes, err);
	if (rc)
		return rc;
	s->code = ctl_code_create(s->k, b->g);
	return s->code ? GS_OK : gs_fail(err, GS_ENOSPC, "out of memory");
}

/* Where no record is, nothing has been met. */
static void forget_code(struct btlogs_state *s)
{
	struct btl_log_stats threads, samples, probes;

	btl_log_stats_get(s->threads, &threads);
	btl_log_stats_get(s->samples, &samples);
	btl_log_stats_get(s->probes, &probes);
	if (!threads.held && !samples.held && !probes.held)
		ctl_code_forget(s->code);
}

static void forget_locked(struct ctl_btlogs *b)
{
	if (b->observer)
		b->observer(b->observer_arg, NULL);
	state_deinit(&b->state);
}

enum gs_code ctl_btlogs_ready_locked(struct ctl_btlogs *b, struct gs_error *err)
{
	if (b->state.k && lnx_kernel_is_current(b->state.k, b->g))
		return GS_OK;
	forget_locked(b);
	enum gs_code rc = state_init(b, &b->state, err);
	if (rc)
		state_deinit(&b->state);
	else if (b->observer)
		b->observer(b->observer_arg, &b->state);
	return rc;
}

void ctl_btlogs_observe(struct ctl_btlogs *b,
			void (*observer)(void *arg, const struct btlogs_state *state), void *arg)
{
	pthread_mutex_lock(&b->lock);
	if (b->observer)
		b->observer(b->observer_arg, NULL);
	b->observer = observer;
	b->observer_arg = arg;
	if (observer && b->state.k)
		observer(arg, &b->state);
	pthread_mutex_unlock(&b->lock);
}

void ctl_btlogs_look(struct ctl_btlogs *b)
{
	pthread_mutex_lock(&b->lock);
	if (b->state.k && lnx_kernel_is_current(b->state.k, b->g)) {
		forget_code(&b->state);
		ctl_code_look(b->state.code);
	}
	pthread_mutex_unlock(&b->lock);
}

void ctl_btlogs_give_way(void)
{
	/* as long as it takes to wake a thread */
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

/* --- captures ------------------------------------------------------------------------------------
 */

uint32_t ctl_btlogs_frames(const uint64_t *address, const uint8_t *kind, uint32_t count,
			   uint64_t *frames_out)
{
	uint32_t n = (uint32_t)gs_min(count, LNX_FRAMES_MAX);

	for (uint32_t i = 0; i < n; i++)
		frames_out[i] = (address[i] & ~UINT64_C(3)) |
				(lnx_frame_is_exact(kind[i]) ? BTL_FRAME_EXACT : 0);
	return n;
}

static uint32_t operation_of(const struct ss_thread_record *t)
{
	if (!t->tid)
		return BTL_OP_IDLE; /* an idle thread, whatever its state says */
	switch (t->state) {
	case 'R': return t->vcpu >= 0 ? BTL_OP_RUNNING : BTL_OP_RUNNABLE;
	case 'S':
	case 'P': return BTL_OP_SLEEPING;
	case 'D': return BTL_OP_UNINTERRUPTIBLE;
	case 'I': return BTL_OP_IDLE;
	case 'T':
	case 't': return BTL_OP_STOPPED;
	case 'Z':
	case 'X': return BTL_OP_ZOMBIE;
	default: return BTL_OP_NONE;
	}
}

/* What of a thread's container is needed, until its end. */
struct thread {
	struct ss_thread_record record;
	uint64_t address[LNX_FRAMES_MAX];
	uint8_t kind[LNX_FRAMES_MAX];
	uint64_t frames[LNX_FRAMES_MAX];
	uint32_t count;
};

static void take_item(struct thread *t, const struct kcd_item *it)
{
	if (it->kind == KCD_ITEM_RECORD && it->type == SS_RECORD_THREAD) {
		(void)kcd_item_copy(it, &t->record, sizeof(t->record));
		return;
	}
	if (it->kind != KCD_ITEM_ARRAY)
		return;
	if (it->elem_type == KCD_SS_KERN_STACKLR64) {
		t->count = (uint32_t)gs_min(it->count, LNX_FRAMES_MAX);
		memset(t->kind, LNX_FRAME_RETURN, t->count);
		for (uint32_t i = 0; i < t->count; i++)
			(void)kcd_item_copy_elem(it, i, &t->address[i], sizeof(t->address[i]));
	} else if (it->elem_type == SS_RECORD_FRAME_KIND) {
		for (uint32_t i = 0; i < it->count; i++) {
			struct ss_frame_kind_record r = { 0 };

			(void)kcd_item_copy_elem(it, i, &r, sizeof(r));
			if (r.index < t->count)
				t->kind[r.index] = (uint8_t)r.kind;
		}
	}
}

static void record_thread(struct btlogs_state *s, struct thread *t, uint64_t now)
{
	uint64_t user = BTL_FRAME_PSEUDO(BTL_PSEUDO_USER);
	uint32_t n = ctl_btlogs_frames(t->address, t->kind, t->count, t->frames), ref;
	/* on a vCPU without kernel frames: it was in user mode */
	bool in_user = !n && t->record.vcpu >= 0;

	if (!t->record.address || !btl_log_wants(s->threads) ||
	    btl_get(s->lib, in_user ? &user : t->frames, in_user ? 1 : n, 0, &ref))
		return; /* counted by the library */
	ctl_code_meet(s->code, t->frames, n);
	(void)btl_log_record(s->threads, t->record.address, operation_of(&t->record), ref, now);
}

static void feed_locked(struct btlogs_state *s, const void *data, size_t size, struct thread *t)
{
	const uint64_t now = gs_clock_ns();
	struct kcd_reader r;
	struct btl_log_stats stats;
	struct kcd_item it;

	if (kcd_reader_init(&r, data, size, KCD_TOLERANT, NULL))
		return; /* our own stream */
	btl_log_stats_get(s->threads, &stats);
	if (!stats.enabled)
		return;
	forget_code(s);
	ctl_code_see_capture(s->code, data, size);
	while (kcd_reader_next(&r, &it) == KCD_OK) {
		if (it.kind == KCD_ITEM_CONTAINER_BEGIN &&
		    it.container_type == KCD_SS_CONTAINER_THREAD) {
			t->count = 0;
			t->record = (struct ss_thread_record){ 0 };
		} else if (it.kind == KCD_ITEM_CONTAINER_END &&
			   it.container_type == KCD_SS_CONTAINER_THREAD) {
			record_thread(s, t, now);
		} else if (it.container_type == KCD_SS_CONTAINER_THREAD) {
			take_item(t, &it);
		}
	}
	ctl_code_look(s->code);
}

void ctl_btlogs_feed(struct ctl_btlogs *b, const void *data, size_t size)
{
	GS_FREE struct thread *t = calloc(1, sizeof(*t));

	if (!t)
		return; /* the capture itself is what counts */
	pthread_mutex_lock(&b->lock);
	if (!ctl_btlogs_ready_locked(b, NULL))
		feed_locked(&b->state, data, size, t);
	pthread_mutex_unlock(&b->lock);
}

/* --- what people do with them --------------------------------------------------------------------
 */

static enum gs_code act_on(struct btl_log *log, enum ctl_btlog_action action, struct gs_error *err)
{
	switch (action) {
	case CTL_BTLOG_ENABLE: return btl_log_enable(log, err);
	case CTL_BTLOG_DISABLE: btl_log_disable(log); return GS_OK;
	case CTL_BTLOG_RESET: btl_log_disable(log); return btl_log_enable(log, err);
	}
	return GS_EINVAL;
}

/* The logs that a name stands for, NULL-terminated. @return false: none */
static bool choose(const struct btlogs_state *s, const char *name, struct btl_log *logs_out[4])
{
	size_t n = 0;

	if (!name || !strcmp(name, "threads"))
		logs_out[n++] = s->threads;
	if (!name || !strcmp(name, "samples"))
		logs_out[n++] = s->samples;
	if (!name || !strcmp(name, "probes"))
		logs_out[n++] = s->probes;
	logs_out[n] = NULL;
	return n;
}

static enum gs_code no_log(const char *name, struct gs_error *err)
{
	return gs_fail(err, GS_ENOENT,
		       "no log \"%.32s\": there are \"probes\", \"threads\" and \"samples\"", name);
}

enum gs_code ctl_btlogs_act(struct ctl_btlogs *b, const char *log, enum ctl_btlog_action action,
			    struct gs_error *err)
{
	struct btl_log *logs[4];

	pthread_mutex_lock(&b->lock);
	enum gs_code rc = ctl_btlogs_ready_locked(b, err);
	if (!rc && !choose(&b->state, log, logs))
		rc = no_log(log, err);
	for (size_t i = 0; !rc && logs[i]; i++)
		rc = act_on(logs[i], action, err);
	pthread_mutex_unlock(&b->lock);
	return rc;
}

static enum gs_code take_book(struct btlogs_state *s, struct btl_log *const *logs,
			      struct btl_book *book, struct gs_error *err)
{
	const struct btl_kernel kernel = { .banner = lnx_kernel_banner(s->k) };
	bool any = false;

	ctl_code_look(s->code);
	for (; *logs; logs++) {
		enum gs_code rc = btl_book_take(book, *logs, &kernel, ctl_code_name, s->code, err);

		if (rc && rc != GS_ENOENT)
			return rc;
		any |= !rc;
	}
	return any ? GS_OK
		   : gs_fail(err, GS_ENOENT,
			     "nothing is in it: take a capture, sample, or trace with record()");
}

enum gs_code ctl_btlogs_save(struct ctl_btlogs *b, const char *log, uint8_t **data_out,
			     size_t *len_out, struct gs_error *err)
{
	struct btl_book book = { 0 };
	struct btl_log *logs[4];

	pthread_mutex_lock(&b->lock);
	enum gs_code rc = b->state.k ? GS_OK : ctl_btlogs_ready_locked(b, err);
	if (!rc && !choose(&b->state, log, logs))
		rc = no_log(log, err);
	if (!rc)
		rc = take_book(&b->state, logs, &book, err);
	pthread_mutex_unlock(&b->lock);
	if (!rc)
		rc = btl_book_encode(&book, data_out, len_out, err);
	btl_book_deinit(&book);
	return rc;
}

void ctl_btlogs_stats_get(struct ctl_btlogs *b, struct ctl_btlogs_stats *stats_out)
{
	*stats_out = (struct ctl_btlogs_stats){ 0 };
	pthread_mutex_lock(&b->sampler_lock);
	stats_out->sampling = b->stats;
	pthread_mutex_unlock(&b->sampler_lock);
	pthread_mutex_lock(&b->lock);
	stats_out->has_library = b->state.k;
	if (b->state.k) {
		strncpy(stats_out->release, lnx_kernel_info_get(b->state.k).release,
			sizeof(stats_out->release) - 1);
		btl_library_stats_get(b->state.lib, &stats_out->library);
		btl_log_stats_get(b->state.threads, &stats_out->threads);
		btl_log_stats_get(b->state.samples, &stats_out->samples);
		btl_log_stats_get(b->state.probes, &stats_out->probes);
	}
	pthread_mutex_unlock(&b->lock);
}

/* --- life ----------------------------------------------------------------------------------------
 */

enum gs_code ctl_btlogs_create(struct guest *g, const struct lnx_hints *hints, uint64_t limit,
			       struct ctl_btlogs **b_out, struct gs_error *err)
{
	if (limit && (limit < BTL_LIMIT_MIN || limit > BTL_LIMIT_MAX))
		return gs_fail(err, GS_EINVAL,
			       "the limit of the backtrace library is not in "
			       "1 MiB … 1 GiB");
	struct ctl_btlogs *b = calloc(1, sizeof(*b));
	pthread_condattr_t monotonic;

	if (!b)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	b->g = g;
	b->hints = hints ? *hints : (struct lnx_hints){ 0 };
	b->limit = limit;
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->sampler_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&b->sampler_wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	*b_out = b;
	return GS_OK;
}

void ctl_btlogs_destroy(struct ctl_btlogs *b)
{
	if (!b)
		return;
	GS_IGNORE(ctl_btlogs_sample(b, 0, NULL)); /* ending cannot fail */
	forget_locked(b);
	pthread_cond_destroy(&b->sampler_wake);
	pthread_mutex_destroy(&b->sampler_lock);
	pthread_mutex_destroy(&b->lock);
	free(b);
}
