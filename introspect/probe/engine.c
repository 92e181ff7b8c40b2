/* SPDX-License-Identifier: Apache-2.0 */
/* The engine: providers, their probes, and what the guest is known to be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "introspect/probe/priv.h"

#define HASH_HEADS 65536u
/* A vCPU's lane is held for a firing; one that takes longer than this hangs in the host. */
#define LANE_WAIT_NS (500 * GS_NS_PER_MS)

/* --- lanes ---------------------------------------------------------------------------------------
 */

void probe_lane_lock(struct probe_lane *lane)
{
	pthread_mutex_lock(&lane->gate);
	pthread_mutex_lock(&lane->lock);
	pthread_mutex_unlock(&lane->gate);
}

void probe_lanes_lock(struct probe_engine *e)
{
	for (uint32_t i = 0; i < e->vcpus; i++)
		probe_lane_lock(&e->lane[i]);
}

void probe_lanes_unlock(struct probe_engine *e)
{
	for (uint32_t i = e->vcpus; i-- > 0;)
		pthread_mutex_unlock(&e->lane[i].lock);
}

bool probe_lane_lock_soon(struct probe_lane *lane)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long)LANE_WAIT_NS;
	until.tv_sec += until.tv_nsec / (long)GS_NS_PER_SEC;
	until.tv_nsec %= (long)GS_NS_PER_SEC;
	if (pthread_mutex_timedlock(&lane->gate, &until))
		return false;
	const bool is_had = pthread_mutex_timedlock(&lane->lock, &until) == 0;
	pthread_mutex_unlock(&lane->gate);
	return is_had;
}

/* --- probes --------------------------------------------------------------------------------------
 */

struct probe_name probe_name_of(const struct probe *p)
{
	return (struct probe_name){ p->provider->name, p->module, p->function, p->name };
}

static uint32_t hash_text(uint32_t h, const char *text)
{
	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * UINT32_C(16777619);
	return (h ^ ':') * UINT32_C(16777619);
}

static uint32_t *hash_head(const struct probe_provider *p, const char *module, const char *function,
			   const char *name)
{
	uint32_t h = hash_text(UINT32_C(2166136261), p->name);

	h = hash_text(hash_text(hash_text(h, module), function), name);
	return &p->e->hash[(h ^ h >> 16) % HASH_HEADS];
}

static uint32_t find_locked(const struct probe_provider *p, const char *module,
			    const char *function, const char *name)
{
	uint32_t id = *hash_head(p, module, function, name);

	while (id) {
		const struct probe *probe = probe_at(p->e, id);

		if (probe->provider == p && !strcmp(probe->module, module) &&
		    !strcmp(probe->function, function) && !strcmp(probe->name, name))
			break;
		id = probe->hash_next;
	}
	return id;
}

bool probe_find(struct probe_provider *p, const char *module, const char *function,
		const char *name, uint32_t *id_out)
{
	pthread_mutex_lock(&p->e->lock);
	const uint32_t id = find_locked(p, module, function, name);
	pthread_mutex_unlock(&p->e->lock);
	if (id)
		*id_out = id;
	return id;
}

/* Firings look probes up by id: a chunk is published to them under all lanes. */
static enum gs_code have_chunk_locked(struct probe_engine *e, uint32_t id)
{
	const uint32_t n = (id - 1) / PROBE_CHUNK;

	if (e->chunk[n])
		return GS_OK;
	struct probe *chunk = calloc(PROBE_CHUNK, sizeof(*chunk));
	if (!chunk)
		return GS_ENOSPC;
	probe_lanes_lock(e);
	e->chunk[n] = chunk;
	probe_lanes_unlock(e);
	return GS_OK;
}

static enum gs_code create_locked(struct probe_provider *p, const char *module,
				  const char *function, const char *name, uint64_t key,
				  uint32_t *id_out)
{
	struct probe_engine *e = p->e;
	const size_t m = strlen(module) + 1, f = strlen(function) + 1, n = strlen(name) + 1;
	const uint32_t id = e->probes + 1;

	if (m > PROBE_NAME_MAX || f > PROBE_FUNCTION_MAX || n > PROBE_NAME_MAX ||
	    e->probes == PROBE_PROBES_MAX)
		return GS_ETOOBIG;
	*id_out = find_locked(p, module, function, name);
	if (*id_out)
		return GS_EEXIST;
	char *names = malloc(m + f + n);
	if (!names || have_chunk_locked(e, id)) {
		free(names);
		return GS_ENOSPC;
	}
	uint32_t *head = hash_head(p, module, function, name);
	struct probe *probe = probe_at(e, id);
	*probe = (struct probe){
		.provider = p,
		.key = key,
		.module = memcpy(names, module, m),
		.function = memcpy(names + m, function, f),
		.name = memcpy(names + m + f, name, n),
		.hash_next = *head,
	};
	*head = id;
	p->probes++;
	/* a firing may ask for an id as soon as it has been told */
	probe_lanes_lock(e);
	e->probes = id;
	probe_lanes_unlock(e);
	*id_out = id;
	return GS_OK;
}

enum gs_code probe_create(struct probe_provider *p, const char *module, const char *function,
			  const char *name, uint64_t key, uint32_t *id_out)
{
	pthread_mutex_lock(&p->e->lock);
	enum gs_code rc = create_locked(p, module, function, name, key, id_out);
	pthread_mutex_unlock(&p->e->lock);
	return rc;
}

/* --- providers -----------------------------------------------------------------------------------
 */

static struct probe_provider *provider_locked(struct probe_engine *e, const char *name)
{
	for (uint32_t i = 0; i < e->providers; i++)
		if (!strcmp(e->provider[i].name, name))
			return &e->provider[i];
	return NULL;
}

static enum gs_code add_locked(struct probe_engine *e, const char *name,
			       const struct probe_provider_ops *ops, void *arg,
			       struct probe_provider **provider_out, struct gs_error *err)
{
	if (provider_locked(e, name))
		return gs_fail(err, GS_EEXIST, "there is a provider \"%.64s\" already", name);
	if (e->providers == PROBE_PROVIDERS_MAX || strlen(name) >= PROBE_NAME_MAX)
		return gs_fail(err, GS_ETOOBIG,
			       "provider \"%.64s\": too many, or its name is too long", name);
	struct probe_provider *p = &e->provider[e->providers];
	*p = (struct probe_provider){ .e = e, .ops = ops, .arg = arg };
	memcpy(p->name, name, strlen(name) + 1);
	e->providers++;
	*provider_out = p;
	return GS_OK;
}

enum gs_code probe_provider_add(struct probe_engine *e, const char *name,
				const struct probe_provider_ops *ops, void *arg,
				struct probe_provider **provider_out, struct gs_error *err)
{
	pthread_mutex_lock(&e->lock);
	enum gs_code rc = add_locked(e, name, ops, arg, provider_out, err);
	pthread_mutex_unlock(&e->lock);
	return rc;
}

void probe_provide_locked(struct probe_engine *e, const struct probe_pattern *pattern)
{
	static const struct probe_pattern any = { 0 };
	const struct probe_name name = probe_pattern_name(pattern ? pattern : &any);

	for (uint32_t i = 0; i < e->providers; i++) {
		const struct probe_provider *p = &e->provider[i];

		if (p->ops->provide && probe_glob(name.provider, p->name))
			p->ops->provide(p->arg, &name);
	}
}

void probe_look_locked(struct probe_engine *e)
{
	for (uint32_t i = 0; i < e->providers; i++)
		if (e->provider[i].ops->look)
			e->provider[i].ops->look(e->provider[i].arg);
}

/* The engine's own: what is fired for one session, when it starts and when it stops. */
static enum gs_code session_enable(void *arg, uint64_t key, uint32_t id, struct gs_error *err)
{
	(void)arg;
	(void)key;
	(void)id;
	(void)err;
	return GS_OK;
}

static void session_disable(void *arg, uint64_t key)
{
	(void)arg;
	(void)key;
}

static enum gs_code add_own(struct probe_engine *e, struct gs_error *err)
{
	static const struct probe_provider_ops ops = { .enable = session_enable,
						       .disable = session_disable };
	struct probe_provider *p;
	enum gs_code rc = probe_provider_add(e, "session", &ops, NULL, &p, err);

	if (!rc)
		rc = probe_create(p, "", "", "begin", 0, &e->begin);
	if (!rc)
		rc = probe_create(p, "", "", "end", 1, &e->end);
	return rc ? gs_fail(err, rc, "out of memory") : GS_OK;
}

/* --- the kernel ----------------------------------------------------------------------------------
 */

void probe_engine_world_set(struct probe_engine *e, const struct probe_world *world)
{
	static const struct probe_world none = { 0 };
	struct probe_session *s;

	pthread_mutex_lock(&e->lock);
	probe_lanes_lock(e);
	e->world = world ? *world : none;
	LIST_FOREACH(s, &e->sessions, link)
	{
		if (s->library && s->library != e->world.library) {
			s->library = NULL;
			s->library_lost = true;
		} else if (!s->library_lost) {
			s->library = e->world.library;
		}
	}
	probe_lanes_unlock(e);
	pthread_mutex_unlock(&e->lock);
}

/* --- life ----------------------------------------------------------------------------------------
 */

static void lock_init(struct probe_engine *e)
{
	pthread_mutexattr_t recursive;

	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&e->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	for (uint32_t i = 0; i < e->vcpus; i++) {
		pthread_mutex_init(&e->lane[i].gate, NULL);
		pthread_mutex_init(&e->lane[i].lock, NULL);
	}
}

enum gs_code probe_engine_create(const struct probe_engine_config *config,
				 struct probe_engine **e_out, struct gs_error *err)
{
	struct probe_engine *e = calloc(1, sizeof(*e));

	if (!e)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	e->config = *config;
	if (!e->config.clock)
		e->config.clock = gs_clock_ns;
	if (!e->config.deadman_ns)
		e->config.deadman_ns = PROBE_DEADMAN_NS;
	e->vcpus = config->guest->vcpu_count;
	e->lane = gs_array_alloc(gs_max(e->vcpus, 1), sizeof(*e->lane)); /* a dump may have none */
	e->hash = gs_array_alloc(HASH_HEADS, sizeof(*e->hash));
	if (!e->lane || !e->hash) {
		free(e->lane);
		free(e->hash);
		free(e);
		return gs_fail(err, GS_ENOSPC, "out of memory");
	}
	/* so that a guest cannot choose keys that share a bucket; an odd number does without, too */
	if (getrandom(&e->seed, sizeof(e->seed), GRND_NONBLOCK) != sizeof(e->seed))
		e->seed = gs_clock_ns();
	e->seed |= 1;
	LIST_INIT(&e->sessions);
	lock_init(e);
	enum gs_code rc = add_own(e, err);
	if (rc) {
		probe_engine_destroy(e);
		return rc;
	}
	*e_out = e;
	return GS_OK;
}

void probe_engine_destroy(struct probe_engine *e)
{
	if (!e)
		return;
	for (uint32_t id = 1; id <= e->probes; id++)
		free(probe_at(e, id)->module);
	for (size_t i = 0; i < ARRAY_SIZE(e->chunk); i++)
		free(e->chunk[i]);
	for (uint32_t i = 0; i < e->vcpus; i++) {
		pthread_mutex_destroy(&e->lane[i].lock);
		pthread_mutex_destroy(&e->lane[i].gate);
	}
	pthread_mutex_destroy(&e->lock);
	free(e->hash);
	free(e->lane);
	free(e);
}
