/* SPDX-License-Identifier: Apache-2.0 */
/* What there is, told: limits, providers, probes, enabled probes, aggregations, labels. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/priv.h"

static enum gs_code answer(json_t *json, json_t **json_out, struct gs_error *err)
{
	*json_out = json;
	return json ? GS_OK : gs_fail(err, GS_ENOSPC, "out of memory");
}

/* --- the engine ----------------------------------------------------------------------------------
 */

static json_t *limits_json(void)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
			 "program_bytes", (int)PROBE_TEXT_MAX, "clauses", (int)PROBE_CLAUSES_MAX,
			 "session_clauses", (int)PROBE_SESSION_CLAUSES_MAX, "patterns",
			 (int)PROBE_PATTERNS_MAX, "predicate_parts", (int)PROBE_NODES_MAX,
			 "predicate_depth", (int)PROBE_DEPTH_MAX, "actions", (int)PROBE_ACTIONS_MAX,
			 "keys", (int)PROBE_KEYS_MAX, "terms", (int)PROBE_TERMS_MAX, "args",
			 (int)PROBE_ARGS_MAX, "enabled", (int)PROBE_ENABLED_MAX, "sessions",
			 (int)PROBE_SESSIONS_MAX, "operations", (int)PROBE_OPERATIONS);
}

static json_t *buffers_json(const struct probe_engine *e)
{
	return json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:o}", "policy", probe_policy_name(PROBE_POLICY_SWITCH),
		"buffer_bytes", (int)PROBE_BUFFER_DEFAULT, "aggregation_bytes",
		(int)PROBE_AGGREGATION_DEFAULT, "least_bytes", (int)PROBE_BUFFER_MIN, "most_bytes",
		(int)PROBE_BUFFER_MAX, "deadman_ns", probe_number_json(e->config.deadman_ns));
}

static json_t *provider_json(const struct probe_provider *p)
{
	return json_pack("{s:s, s:o}", "provider", p->name, "probes", probe_number_json(p->probes));
}

/* Breakpoints: what there may be, and what there is now. */
static json_t *breaks_json(const struct guest *g)
{
	struct guest_break_counts c;

	if (!guest_can_break(g))
		return json_null();
	guest_break_counts_get(g, &c);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "hardware_max",
			 (json_int_t)c.hardware_max, "hardware", (json_int_t)c.hardware, "text",
			 (json_int_t)c.text, "hits", (json_int_t)c.hits, "given_back",
			 (json_int_t)c.given_back, "overwritten", (json_int_t)c.overwritten);
}

json_t *probe_engine_conf(struct probe_engine *e)
{
	json_t *providers = json_array();
	bool ok = true;

	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->providers; i++)
		ok &= !json_array_append_new(providers, provider_json(&e->provider[i]));
	const uint32_t sessions = e->session_count;
	pthread_mutex_unlock(&e->lock);
	if (!ok) {
		json_decref(providers);
		return NULL;
	}
	return json_pack("{s:i, s:I, s:I, s:o, s:o, s:o, s:o}", "version", 1, "vcpus",
			 (json_int_t)e->vcpus, "sessions", (json_int_t)sessions, "providers",
			 providers, "limits", limits_json(), "defaults", buffers_json(e), "breaks",
			 breaks_json(e->config.guest));
}

enum gs_code probe_engine_provider(struct probe_engine *e, const char *name, json_t **json_out,
				   struct gs_error *err)
{
	enum gs_code rc = gs_fail(err, GS_ENOENT,
				  "there is no provider \"%.64s\" (trace-conf has all)", name);

	pthread_mutex_lock(&e->lock);
	for (uint32_t i = 0; i < e->providers; i++) {
		if (strcmp(e->provider[i].name, name) != 0)
			continue;
		rc = answer(provider_json(&e->provider[i]), json_out, err);
		break;
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}

static json_t *probe_json(uint32_t id, const struct probe_name *name)
{
	return json_pack("{s:I, s:o, s:o, s:o, s:o}", "id", (json_int_t)id, "provider",
			 probe_text_json(name->provider), "module", probe_text_json(name->module),
			 "function", probe_text_json(name->function), "name",
			 probe_text_json(name->name));
}

/* @return the first id from @p from on that matches; 0: none */
static uint32_t next_match(struct probe_engine *e, const struct probe_name *pattern, uint32_t from)
{
	for (uint32_t id = (uint32_t)gs_max(from, 1); id <= e->probes; id++) {
		const struct probe_name name = probe_name_of(probe_at(e, id));

		if (probe_name_matches(pattern, &name))
			return id;
	}
	return 0;
}

static enum gs_code list_locked(struct probe_engine *e, const struct probe_pattern *pattern,
				uint32_t from, json_t **json_out, struct gs_error *err)
{
	static const struct probe_pattern any = { 0 };
	const struct probe_name glob = probe_pattern_name(pattern ? pattern : &any);

	if (!from) {
		probe_look_locked(e);
		probe_provide_locked(e, pattern);
	}
	uint32_t id = next_match(e, &glob, from);
	if (!id)
		return gs_fail(err, GS_ENOENT, "no probe of id %u or above is meant", from);
	json_t *list = json_array();
	for (uint32_t n = 0; id && n < PROBE_LIST_MAX; n++, id = next_match(e, &glob, id + 1)) {
		const struct probe_name name = probe_name_of(probe_at(e, id));

		if (json_array_append_new(list, probe_json(id, &name))) {
			json_decref(list);
			return answer(NULL, json_out, err);
		}
	}
	return answer(json_pack("{s:o, s:o}", "probes", list, "next",
				id ? json_integer(id) : json_null()),
		      json_out, err);
}

enum gs_code probe_engine_list(struct probe_engine *e, const struct probe_pattern *pattern,
			       uint32_t from, json_t **json_out, struct gs_error *err)
{
	pthread_mutex_lock(&e->lock);
	enum gs_code rc = list_locked(e, pattern, from, json_out, err);
	pthread_mutex_unlock(&e->lock);
	return rc;
}

enum gs_code probe_engine_arg(struct probe_engine *e, uint32_t id, uint32_t n,
			      struct probe_arg_type *type_out, struct gs_error *err)
{
	enum gs_code rc = GS_EINVAL;

	pthread_mutex_lock(&e->lock);
	if (id && id <= e->probes) {
		const struct probe *p = probe_at(e, id);
		const struct probe_provider *pr = p->provider;

		*type_out = (struct probe_arg_type){ 0 };
		rc = n < PROBE_ARGS_MAX && pr->ops->arg_type
			     ? pr->ops->arg_type(pr->arg, p->key, n, type_out)
			     : GS_ENOENT;
	}
	pthread_mutex_unlock(&e->lock);
	if (rc == GS_EINVAL)
		return gs_fail(err, rc, "there is no probe %u", id);
	return rc ? gs_fail(err, rc, "probe %u has no argument %u, or its type is not known", id, n)
		  : GS_OK;
}

/* --- sessions ------------------------------------------------------------------------------------
 */

/* Text cut to what the caller wants, and its true length. */
static json_t *cut_json(const char *text, uint32_t max)
{
	const size_t length = strlen(text);
	const size_t n = gs_min(length, max);

	return json_pack("{s:s%, s:I}", "text", text, n, "length", (json_int_t)length);
}

static json_t *enablings_locked(struct probe_session *s, uint32_t max)
{
	GS_FREE const struct probe_clause **clauses =
		gs_array_alloc(s->enablings + 1, sizeof(void *));

	if (!clauses)
		return NULL;
	for (uint32_t i = 0; i < s->enablings; i++)
		clauses[i] = &s->enabling[i]->clause;
	GS_FREE char *text = probe_program_text(clauses, s->enablings);
	json_t *o = text ? cut_json(text, max) : NULL;
	if (o && json_object_set_new(o, "program", probe_program_json(clauses, s->enablings))) {
		json_decref(o);
		o = NULL;
	}
	return o;
}

enum gs_code probe_session_enablings(struct probe_session *s, uint32_t max, json_t **json_out,
				     struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	json_t *o = enablings_locked(s, max);
	pthread_mutex_unlock(&s->e->lock);
	return answer(o, json_out, err);
}

/* Descriptions of words, from an offset on; only so many, but all are counted. */
struct describer {
	json_t *list; /* NULL: out of memory */
	uint32_t room, count, offset;
};

static void describe(struct describer *d, const char *action, const struct probe_term *term,
		     uint32_t size, uint32_t format)
{
	char text[PROBE_TERM_TEXT_MAX] = "";

	if (d->list && d->count < d->room) {
		if (term)
			probe_term_text(term, text);
		if (json_array_append_new(d->list,
					  json_pack("{s:s, s:s, s:I, s:I, s:I}", "action", action,
						    "term", text, "offset", (json_int_t)d->offset,
						    "size", (json_int_t)size, "format",
						    (json_int_t)format))) {
			json_decref(d->list);
			d->list = NULL;
		}
	}
	d->count++;
	d->offset += size;
}

/* What a probe's records have, one description a term; a trace() without terms is one of its label. */
static void describe_traces(struct describer *d, const struct probe_enabling *en)
{
	const struct probe_clause *c = &en->clause;

	d->offset = sizeof(struct probe_record);
	for (uint32_t a = 0; a < c->action_count; a++) {
		const struct probe_action *action = &c->action[a];

		if (action->kind != PROBE_ACTION_TRACE)
			continue;
		if (!action->term_count)
			describe(d, "trace", NULL, 0, en->format[a]);
		for (uint32_t i = 0; i < action->term_count; i++)
			describe(d, "trace", &action->term[i],
				 8 * probe_term_words(&action->term[i]), i ? 0 : en->format[a]);
	}
}

static json_t *eprobe_locked(struct probe_session *s, const struct probe_ecb *ecb, uint32_t room)
{
	struct describer d = { .list = json_array(), .room = room };
	const struct probe_enabling *en = ecb->enabling;
	uint32_t clause = 0;

	while (s->enabling[clause] != en)
		clause++;
	describe_traces(&d, en);
	const struct probe_name name = probe_name_of(probe_at(s->e, ecb->probe));
	return json_pack("{s:I, s:o, s:I, s:I, s:o, s:I}", "epid", (json_int_t)ecb->epid, "probe",
			 probe_json(ecb->probe, &name), "clause", (json_int_t)clause + 1, "size",
			 (json_int_t)en->record_size, "records", d.list, "record_count",
			 (json_int_t)d.count);
}

enum gs_code probe_session_eprobe(struct probe_session *s, uint32_t epid, uint32_t room,
				  json_t **json_out, struct gs_error *err)
{
	json_t *o = NULL;

	pthread_mutex_lock(&s->e->lock);
	const bool there = epid && epid <= s->ecbs;
	if (there)
		o = eprobe_locked(s, s->ecb[epid - 1], room);
	pthread_mutex_unlock(&s->e->lock);
	return there ? answer(o, json_out, err)
		     : gs_fail(err, GS_ENOENT, "the session has no enabled probe %u", epid);
}

/* Offsets count from the first key. */
static json_t *aggregation_locked(struct probe_session *s, uint32_t id, uint32_t room)
{
	const struct probe_aggregation *a = &s->aggregation[id - 1];
	const struct probe_enabling *en = s->ecb[a->epid - 1]->enabling;
	const struct probe_action *action = &en->clause.action[a->action];
	struct describer d = { .list = json_array(), .room = room };
	char of[PROBE_TERM_TEXT_MAX] = "";

	for (uint32_t i = 0; i < action->term_count; i++)
		describe(&d, "by", &action->term[i], 8 * probe_term_words(&action->term[i]), 0);
	describe(&d, probe_action_name(action->kind),
		 action->kind == PROBE_ACTION_COUNT ? NULL : &action->of,
		 8 * en->layout[a->action].value_words, 0);
	if (action->kind != PROBE_ACTION_COUNT)
		probe_term_text(&action->of, of);
	return json_pack("{s:I, s:I, s:I, s:s, s:s, s:o, s:I}", "aggregation", (json_int_t)id,
			 "epid", (json_int_t)a->epid, "action", (json_int_t)a->action + 1,
			 "function", probe_action_name(action->kind), "of", of, "records", d.list,
			 "record_count", (json_int_t)d.count);
}

enum gs_code probe_session_aggregation(struct probe_session *s, uint32_t id, uint32_t room,
				       json_t **json_out, struct gs_error *err)
{
	json_t *o = NULL;

	pthread_mutex_lock(&s->e->lock);
	const bool there = id && id <= s->aggregations;
	if (there)
		o = aggregation_locked(s, id, room);
	pthread_mutex_unlock(&s->e->lock);
	return there ? answer(o, json_out, err)
		     : gs_fail(err, GS_ENOENT, "the session has no aggregation %u", id);
}

enum gs_code probe_session_format(struct probe_session *s, uint32_t number, uint32_t max,
				  json_t **json_out, struct gs_error *err)
{
	json_t *o = NULL;

	pthread_mutex_lock(&s->e->lock);
	const bool there = number && number <= s->formats;
	if (there)
		o = cut_json(s->format[number - 1], max);
	pthread_mutex_unlock(&s->e->lock);
	return there ? answer(o, json_out, err)
		     : gs_fail(err, GS_ENOENT, "the session has no format %u", number);
}
