/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: their states, and what each operation refuses in which. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/enable.h"

/* Both ends of a session are this vCPU's. */
#define SESSION_VCPU 0u

static const char *const state_names[] = {
	[PROBE_INACTIVE] = "inactive", [PROBE_WARMUP] = "warm-up",    [PROBE_ACTIVE] = "active",
	[PROBE_DRAINING] = "draining", [PROBE_COOLDOWN] = "cooldown", [PROBE_STOPPED] = "stopped",
	[PROBE_KILLED] = "killed",
};

static const char *const policy_names[] = {
	[PROBE_POLICY_SWITCH] = "switch",
	[PROBE_POLICY_RING] = "ring",
	[PROBE_POLICY_FILL] = "fill",
};

const char *probe_state_name(enum probe_state state)
{
	return state_names[state];
}

const char *probe_policy_name(enum probe_policy policy)
{
	return policy_names[policy];
}

bool probe_policy_of_name(const char *name, enum probe_policy *policy_out)
{
	for (size_t i = 0; i < ARRAY_SIZE(policy_names); i++) {
		if (!strcmp(name, policy_names[i])) {
			*policy_out = (enum probe_policy)i;
			return true;
		}
	}
	return false;
}

static enum probe_state state_of(const struct probe_session *s)
{
	return atomic_load(&s->state);
}

/* --- life ----------------------------------------------------------------------------------------
 */

static enum gs_code create_locked(struct probe_engine *e, struct probe_session *s,
				  struct gs_error *err)
{
	if (e->session_count == PROBE_SESSIONS_MAX)
		return gs_fail(err, GS_ETOOBIG, "there are %u sessions already",
			       PROBE_SESSIONS_MAX);
	s->e = e;
	s->id = ++e->last_session;
	s->options = (struct probe_options){ PROBE_POLICY_SWITCH, PROBE_BUFFER_DEFAULT,
					     PROBE_AGGREGATION_DEFAULT };
	s->library = e->world.library;
	LIST_INSERT_HEAD(&e->sessions, s, link);
	e->session_count++;
	return GS_OK;
}

enum gs_code probe_session_create(struct probe_engine *e, struct probe_session **s_out,
				  struct gs_error *err)
{
	struct probe_session *s = calloc(1, sizeof(*s));

	if (!s)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	pthread_mutex_lock(&e->lock);
	enum gs_code rc = create_locked(e, s, err);
	pthread_mutex_unlock(&e->lock);
	if (rc)
		free(s);
	else
		*s_out = s;
	return rc;
}

void probe_session_destroy(struct probe_session *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->e->lock);
	probe_unlink_locked(s);
	/* of a library that may go when the lock is given up */
	probe_stores_destroy(s);
	LIST_REMOVE(s, link);
	s->e->session_count--;
	pthread_mutex_unlock(&s->e->lock);
	for (uint32_t i = 0; i < s->ecbs; i++)
		free(s->ecb[i]);
	for (uint32_t i = 0; i < s->enablings; i++)
		free(s->enabling[i]);
	free(s->ecb);
	free(s->enabling);
	free(s->aggregation);
	free(s->format);
	free(s);
}

uint32_t probe_session_id(const struct probe_session *s)
{
	return s->id;
}

/* --- enabling ------------------------------------------------------------------------------------
 */

static enum gs_code check_size(const char *what, uint32_t bytes, struct gs_error *err)
{
	if (bytes >= PROBE_BUFFER_MIN && bytes <= PROBE_BUFFER_MAX)
		return GS_OK;
	return gs_fail(err, GS_EINVAL, "%s: %u bytes are not in %u … %u", what, bytes,
		       PROBE_BUFFER_MIN, PROBE_BUFFER_MAX);
}

static enum gs_code settle_options(const struct probe_session *s,
				   const struct probe_options *options,
				   struct probe_options *settled_out, struct gs_error *err)
{
	struct probe_options o = options ? *options : s->options;

	if (!o.buffer_bytes)
		o.buffer_bytes = PROBE_BUFFER_DEFAULT;
	if (!o.aggregation_bytes)
		o.aggregation_bytes = PROBE_AGGREGATION_DEFAULT;
	enum gs_code rc = check_size("buffers", o.buffer_bytes, err);
	if (!rc)
		rc = check_size("aggregations", o.aggregation_bytes, err);
	if (rc)
		return rc;
	/* records and entries are whole words */
	o.buffer_bytes &= ~UINT32_C(63);
	o.aggregation_bytes &= ~UINT32_C(63);
	const uint64_t all = 2 * ((uint64_t)o.buffer_bytes + o.aggregation_bytes) * s->e->vcpus;
	if (all > PROBE_SESSION_BYTES_MAX)
		return gs_fail(err, GS_ETOOBIG,
			       "buffers and aggregations of all vCPUs would take %llu MiB, more "
			       "than %llu",
			       (unsigned long long)(all >> 20),
			       (unsigned long long)(PROBE_SESSION_BYTES_MAX >> 20));
	*settled_out = o;
	return GS_OK;
}

static enum gs_code enable_locked(struct probe_session *s, const struct probe_program *program,
				  const struct probe_options *options, uint32_t *matched_out,
				  struct gs_error *err)
{
	struct probe_change change = { 0 };
	struct probe_options settled;

	if (state_of(s) != PROBE_INACTIVE)
		return gs_fail(err, GS_EBUSY,
			       "the session is %s: programs are enabled before it "
			       "has started",
			       probe_state_name(state_of(s)));
	enum gs_code rc = settle_options(s, options, &settled, err);
	for (uint32_t i = 0; !rc && i < program->count; i++)
		rc = probe_change_add_clause(s, &change, &program->clause[i], err);
	if (!rc)
		rc = probe_change_match(s, &change, false, err);
	if (!rc)
		rc = probe_change_apply(s, &change, matched_out, err);
	if (!rc)
		s->options = settled;
	probe_change_deinit(&change);
	return rc;
}

enum gs_code probe_session_enable(struct probe_session *s, const struct probe_program *program,
				  const struct probe_options *options, uint32_t *matched_out,
				  struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = enable_locked(s, program, options, matched_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

/* Probes can be added as long as something records them, or will. */
static enum gs_code check_not_over(const struct probe_session *s, struct gs_error *err)
{
	const enum probe_state state = state_of(s);

	return state == PROBE_INACTIVE || state == PROBE_ACTIVE
		       ? GS_OK
		       : gs_fail(err, GS_EBUSY, "the session is %s", probe_state_name(state));
}

static enum gs_code rematch_locked(struct probe_session *s, uint32_t *matched_out,
				   struct gs_error *err)
{
	struct probe_change change = { 0 };
	enum gs_code rc = check_not_over(s, err);

	if (!rc)
		rc = probe_change_match(s, &change, true, err);
	if (!rc)
		rc = probe_change_apply(s, &change, matched_out, err);
	probe_change_deinit(&change);
	return rc;
}

enum gs_code probe_session_rematch(struct probe_session *s, uint32_t *matched_out,
				   struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = rematch_locked(s, matched_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

static bool same_pattern(const struct probe_pattern *a, const struct probe_pattern *b)
{
	return !strcmp(a->provider, b->provider) && !strcmp(a->module, b->module) &&
	       !strcmp(a->function, b->function) && !strcmp(a->name, b->name);
}

static bool has_pattern(const struct probe_clause *c, const struct probe_pattern *pattern)
{
	for (uint32_t i = 0; i < c->pattern_count; i++)
		if (same_pattern(&c->pattern[i], pattern))
			return true;
	return false;
}

/* The clauses that have the pattern, with another one instead of theirs. */
static enum gs_code add_replicas(struct probe_session *s, const struct probe_pattern *match,
				 const struct probe_pattern *create, struct probe_change *change,
				 struct gs_error *err)
{
	for (uint32_t i = 0; i < s->enablings; i++) {
		if (!has_pattern(&s->enabling[i]->clause, match))
			continue;
		GS_FREE struct probe_clause *c = malloc(sizeof(*c));
		if (!c)
			return gs_fail(err, GS_ENOSPC, "out of memory");
		*c = s->enabling[i]->clause;
		c->pattern[0] = *create;
		c->pattern_count = 1;
		enum gs_code rc = probe_change_add_clause(s, change, c, err);
		if (rc)
			return rc;
	}
	return change->enablings
		       ? GS_OK
		       : gs_fail(err, GS_ENOENT, "no clause of the session has that pattern");
}

static enum gs_code replicate_locked(struct probe_session *s, const struct probe_pattern *match,
				     const struct probe_pattern *create, uint32_t *matched_out,
				     struct gs_error *err)
{
	struct probe_change change = { 0 };
	enum gs_code rc = check_not_over(s, err);

	if (!rc)
		rc = add_replicas(s, match, create, &change, err);
	if (!rc)
		rc = probe_change_match(s, &change, false, err);
	if (!rc)
		rc = probe_change_apply(s, &change, matched_out, err);
	probe_change_deinit(&change);
	return rc;
}

enum gs_code probe_session_replicate(struct probe_session *s, const struct probe_pattern *match,
				     const struct probe_pattern *create, uint32_t *matched_out,
				     struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = replicate_locked(s, match, create, matched_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

/* --- going and stopping ------------------------------------------------------------------------------
 */

/*
 * The far future first: a check at the same time must not take the old time for the last one (the check
 * is under the engine's lock here, as this is, but for who reads it without).
 */
void probe_session_is_alive(struct probe_session *s)
{
	atomic_store(&s->alive_ns, UINT64_MAX);
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store(&s->alive_ns, s->e->config.clock());
}

static enum gs_code go_locked(struct probe_session *s, uint32_t *vcpu_out, struct gs_error *err)
{
	if (state_of(s) != PROBE_INACTIVE)
		return gs_fail(err, GS_EBUSY, "the session is %s: a session starts once",
			       probe_state_name(state_of(s)));
	enum gs_code rc = probe_stores_create(s, err);
	if (rc)
		return rc;
	probe_session_is_alive(s);
	/* firings that see the state see the stores: they look under a lane, which was held in between */
	probe_lanes_lock(s->e);
	atomic_store(&s->state, PROBE_WARMUP);
	probe_lanes_unlock(s->e);
	probe_fire_for(s, s->e->begin, SESSION_VCPU);
	/* unless begin had it drain */
	enum probe_state warm = PROBE_WARMUP;
	(void)atomic_compare_exchange_strong(&s->state, &warm, PROBE_ACTIVE);
	*vcpu_out = SESSION_VCPU;
	return GS_OK;
}

enum gs_code probe_session_go(struct probe_session *s, uint32_t *vcpu_out, struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = go_locked(s, vcpu_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

static enum gs_code stop_locked(struct probe_session *s, uint32_t *vcpu_out, struct gs_error *err)
{
	const enum probe_state state = state_of(s);

	if (state != PROBE_ACTIVE && state != PROBE_DRAINING)
		return gs_fail(err, GS_EBUSY, "the session is %s: nothing is to be stopped",
			       probe_state_name(state));
	atomic_store(&s->state, PROBE_COOLDOWN);
	/* firings that saw it active are over when their lane is to be had */
	probe_lanes_lock(s->e);
	probe_lanes_unlock(s->e);
	probe_fire_for(s, s->e->end, SESSION_VCPU);
	atomic_store(&s->state, PROBE_STOPPED);
	probe_unlink_locked(s);
	*vcpu_out = SESSION_VCPU;
	return GS_OK;
}

enum gs_code probe_session_stop(struct probe_session *s, uint32_t *vcpu_out, struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = stop_locked(s, vcpu_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

static bool is_forgotten(const struct probe_session *s, uint64_t now_ns)
{
	const enum probe_state state = state_of(s);
	const uint64_t alive_ns = atomic_load(&s->alive_ns);

	return (state == PROBE_ACTIVE || state == PROBE_DRAINING) && now_ns > alive_ns &&
	       now_ns - alive_ns > s->e->config.deadman_ns;
}

void probe_engine_deadman(struct probe_engine *e)
{
	struct probe_session *s;

	pthread_mutex_lock(&e->lock);
	probe_look_locked(e);
	const uint64_t now_ns = e->config.clock();
	LIST_FOREACH(s, &e->sessions, link)
	{
		if (!is_forgotten(s, now_ns))
			continue;
		atomic_store(&s->state, PROBE_KILLED);
		probe_unlink_locked(s);
	}
	pthread_mutex_unlock(&e->lock);
}

/* --- status --------------------------------------------------------------------------------------
 */

static void add_store(const struct probe_session *s, uint32_t vcpu, struct probe_status *status)
{
	struct probe_lane *lane = &s->e->lane[vcpu];
	const struct probe_store *store = &s->store[vcpu];

	probe_lane_lock(lane);
	for (uint32_t i = 0; i < 2; i++) {
		status->drops += store->half[i].drops;
		status->errors += store->half[i].errors;
		status->aggregation_drops += store->table[i].drops;
		status->filled += store->half[i].full;
	}
	status->stack_drops += store->stack_drops;
	pthread_mutex_unlock(&lane->lock);
}

static bool is_gone(struct probe_engine *e, uint32_t id)
{
	const struct probe *p = probe_at(e, id);

	return p->provider->ops->is_gone && p->provider->ops->is_gone(p->provider->arg, p->key);
}

static enum gs_code status_locked(struct probe_session *s, struct probe_status *status_out,
				  struct gs_error *err)
{
	const enum probe_state state = state_of(s);

	if (state == PROBE_INACTIVE)
		return gs_fail(err, GS_ENOENT, "the session has not started");
	probe_session_is_alive(s);
	*status_out = (struct probe_status){
		.state = state,
		.drops = s->drops,
		.errors = s->errors,
		.aggregation_drops = s->table_drops,
		.enabled = s->ecbs,
		.clauses = s->enablings,
		.exiting = state == PROBE_DRAINING,
		.killed = state == PROBE_KILLED,
	};
	for (uint32_t i = 0; i < s->e->vcpus; i++)
		add_store(s, i, status_out);
	if (s->linked)
		probe_look_locked(s->e);
	for (uint32_t i = 0; s->linked && i < s->ecbs; i++)
		status_out->gone += is_gone(s->e, s->ecb[i]->probe);
	return GS_OK;
}

enum gs_code probe_session_status(struct probe_session *s, struct probe_status *status_out,
				  struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = status_locked(s, status_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}
