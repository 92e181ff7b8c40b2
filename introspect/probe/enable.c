/* SPDX-License-Identifier: Apache-2.0 */
/* Enabling: which probes a session's clauses mean, and linking them to these. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/enable.h"

/* --- clauses -------------------------------------------------------------------------------------
 */

static uint32_t value_words(enum probe_action_kind kind)
{
	if (kind == PROBE_ACTION_QUANTIZE)
		return PROBE_QUANTIZE_BUCKETS;
	return kind == PROBE_ACTION_AVG ? 2 : 1;
}

/* Offsets and sizes of what a clause records. */
static void lay_out(struct probe_enabling *en)
{
	const struct probe_clause *c = &en->clause;
	uint32_t words = 0;
	bool traces = c->action_count == 0; /* then that it fired is all there is to say */

	for (uint32_t i = 0; i < c->action_count; i++) {
		const struct probe_action *a = &c->action[i];
		uint32_t n = 0;

		for (uint32_t t = 0; t < a->term_count; t++)
			n += probe_term_words(&a->term[t]);
		if (a->kind == PROBE_ACTION_TRACE) {
			traces = true;
			words += n;
		} else if (probe_action_aggregates(a->kind)) {
			en->layout[i] = (struct probe_layout){ n, value_words(a->kind) };
			en->aggregations++;
		}
	}
	en->record_size = traces ? (uint32_t)(sizeof(struct probe_record) + words * 8) : 0;
}

struct probe_enabling *probe_enabling_create(const struct probe_clause *clause)
{
	struct probe_enabling *en = calloc(1, sizeof(*en));

	if (!en)
		return NULL;
	en->clause = *clause;
	en->next = 1;
	lay_out(en);
	return en;
}

static bool clause_matches(const struct probe_clause *c, const struct probe_name *name)
{
	for (uint32_t i = 0; i < c->pattern_count; i++) {
		const struct probe_name pattern = probe_pattern_name(&c->pattern[i]);

		if (probe_name_matches(&pattern, name))
			return true;
	}
	return false;
}

/* --- a change: what is to be added to a session, all of it or nothing --------------------------------
 */

void probe_change_deinit(struct probe_change *change)
{
	for (uint32_t i = 0; i < change->enablings; i++)
		free(change->enabling[i]);
	for (uint32_t i = 0; i < change->ecbs; i++)
		free(change->ecb[i]);
	free(change->enabling);
	free(change->ecb);
	*change = (struct probe_change){ 0 };
}

static enum gs_code no_memory(struct gs_error *err)
{
	return gs_fail(err, GS_ENOSPC, "out of memory");
}

enum gs_code probe_change_add_clause(struct probe_session *s, struct probe_change *change,
				     const struct probe_clause *clause, struct gs_error *err)
{
	if (s->enablings + change->enablings >= PROBE_SESSION_CLAUSES_MAX)
		return gs_fail(err, GS_ETOOBIG, "more than %u clauses in a session",
			       PROBE_SESSION_CLAUSES_MAX);
	for (uint32_t i = 0; i < clause->action_count; i++)
		if (clause->action[i].kind == PROBE_ACTION_STACKSHOT && !s->e->config.stackshot)
			return gs_fail(err, GS_ENOTSUP,
				       "stackshot(): no captures are taken for this guest");
	struct probe_enabling **more =
		realloc(change->enabling, (change->enablings + 1) * sizeof(void *));
	if (!more)
		return no_memory(err);
	change->enabling = more;
	more[change->enablings] = probe_enabling_create(clause);
	if (!more[change->enablings])
		return no_memory(err);
	change->enablings++;
	return GS_OK;
}

static enum gs_code add_ecb(struct probe_session *s, struct probe_change *change,
			    const struct probe_enabling *en, uint32_t probe, struct gs_error *err)
{
	if (s->ecbs + change->ecbs >= PROBE_ENABLED_MAX)
		return gs_fail(err, GS_ETOOBIG, "more than %u probes are meant", PROBE_ENABLED_MAX);
	if (!(change->ecbs & (change->ecbs - 1))) { /* doubled at each power of two */
		const size_t room = change->ecbs ? 2 * (size_t)change->ecbs : 1;
		struct probe_ecb **more = realloc(change->ecb, room * sizeof(void *));

		if (!more)
			return no_memory(err);
		change->ecb = more;
	}
	struct probe_ecb *ecb = calloc(1, sizeof(*ecb));
	if (!ecb)
		return no_memory(err);
	*ecb = (struct probe_ecb){
		.session = s,
		.enabling = en,
		.probe = probe,
		.epid = s->ecbs + change->ecbs + 1,
		.first_aggregation = s->aggregations + change->aggregations + 1,
	};
	change->aggregations += en->aggregations;
	change->ecb[change->ecbs++] = ecb;
	return GS_OK;
}

static enum gs_code match_enabling(struct probe_session *s, struct probe_change *change,
				   const struct probe_enabling *en, struct gs_error *err)
{
	struct probe_engine *e = s->e;
	enum gs_code rc = GS_OK;

	for (uint32_t id = en->next; !rc && id <= e->probes; id++) {
		const struct probe_name name = probe_name_of(probe_at(e, id));

		if (clause_matches(&en->clause, &name))
			rc = add_ecb(s, change, en, id, err);
	}
	return rc;
}

enum gs_code probe_change_match(struct probe_session *s, struct probe_change *change, bool old_too,
				struct gs_error *err)
{
	enum gs_code rc = GS_OK;

	probe_look_locked(s->e);
	for (uint32_t i = 0; old_too && i < s->enablings; i++)
		for (uint32_t p = 0; p < s->enabling[i]->clause.pattern_count; p++)
			probe_provide_locked(s->e, &s->enabling[i]->clause.pattern[p]);
	for (uint32_t i = 0; i < change->enablings; i++)
		for (uint32_t p = 0; p < change->enabling[i]->clause.pattern_count; p++)
			probe_provide_locked(s->e, &change->enabling[i]->clause.pattern[p]);
	change->last = s->e->probes;
	change->old_too = old_too;
	for (uint32_t i = 0; !rc && old_too && i < s->enablings; i++)
		rc = match_enabling(s, change, s->enabling[i], err);
	for (uint32_t i = 0; !rc && i < change->enablings; i++)
		rc = match_enabling(s, change, change->enabling[i], err);
	return rc;
}

/* --- applying it -----------------------------------------------------------------------------------
 */

/* Room for everything, so that nothing can fail once probes are enabled. */
static bool have_room(struct probe_session *s, const struct probe_change *change)
{
	const size_t ecbs = s->ecbs + change->ecbs + 1;
	const size_t enablings = s->enablings + change->enablings + 1;
	const size_t aggregations = s->aggregations + change->aggregations + 1;
	size_t formats = s->formats + 1;

	for (uint32_t i = 0; i < change->enablings; i++)
		formats += change->enabling[i]->clause.action_count;
	/* what has grown without use is fine if another one fails */
	void *p = realloc(s->ecb, ecbs * sizeof(void *));
	s->ecb = p ? p : s->ecb;
	void *q = realloc(s->enabling, enablings * sizeof(void *));
	s->enabling = q ? q : s->enabling;
	void *r = realloc(s->aggregation, aggregations * sizeof(*s->aggregation));
	s->aggregation = r ? r : s->aggregation;
	void *t = realloc(s->format, formats * sizeof(*s->format));
	s->format = t ? t : s->format;
	return p && q && r && t;
}

static struct probe_provider *provider_of(struct probe_engine *e, const struct probe *p)
{
	return &e->provider[p->provider - e->provider];
}

/* One that nobody uses any more is disabled. */
static void let_go(struct probe_engine *e, uint32_t id)
{
	struct probe *p = probe_at(e, id);

	if (--p->users)
		return;
	if (p->provider->ops->disable)
		p->provider->ops->disable(p->provider->arg, p->key);
	provider_of(e, p)->is_changed = true;
}

/* What was enabled and disabled comes into force. @return the first that failed */
static enum gs_code commit(struct probe_engine *e, struct gs_error *err)
{
	enum gs_code first = GS_OK;

	for (uint32_t i = 0; i < e->providers; i++) {
		struct probe_provider *p = &e->provider[i];
		enum gs_code rc = GS_OK;

		if (p->is_changed && p->ops->commit)
			rc = p->ops->commit(p->arg, first ? NULL : err);
		p->is_changed = false;
		first = first ? first : rc;
	}
	return first;
}

/* Undo the first @p count of a change; it may fail, and then fires what nobody listens to. */
static void let_all_go(struct probe_engine *e, const struct probe_change *change, uint32_t count)
{
	while (count-- > 0)
		let_go(e, change->ecb[count]->probe);
	(void)commit(e, NULL);
}

static enum gs_code enable_probes(struct probe_engine *e, const struct probe_change *change,
				  struct gs_error *err)
{
	for (uint32_t i = 0; i < change->ecbs; i++) {
		const uint32_t id = change->ecb[i]->probe;
		struct probe *p = probe_at(e, id);
		const struct probe_name name = probe_name_of(p);
		enum gs_code rc = GS_OK;

		if (!p->users && p->provider->ops->enable)
			rc = p->provider->ops->enable(p->provider->arg, p->key, id, err);
		if (!rc) {
			provider_of(e, p)->is_changed |= !p->users;
			p->users++;
			continue;
		}
		char text[PROBE_NAME_TEXT_MAX];
		probe_name_text(&name, text, sizeof(text));
		let_all_go(e, change, i);
		return gs_wrap(err, rc, "%s", text);
	}
	enum gs_code rc = commit(e, err);
	if (rc)
		let_all_go(e, change, change->ecbs);
	return rc;
}

static void name_aggregations(struct probe_session *s, const struct probe_ecb *ecb)
{
	const struct probe_clause *c = &ecb->enabling->clause;

	for (uint32_t a = 0; a < c->action_count; a++)
		if (probe_action_aggregates(c->action[a].kind))
			s->aggregation[s->aggregations++] =
				(struct probe_aggregation){ ecb->epid, a };
}

static void number_formats(struct probe_session *s, struct probe_enabling *en)
{
	for (uint32_t a = 0; a < en->clause.action_count; a++) {
		if (!*en->clause.action[a].label)
			continue;
		s->format[s->formats++] = en->clause.action[a].label;
		en->format[a] = s->formats;
	}
}

enum gs_code probe_change_apply(struct probe_session *s, struct probe_change *change,
				uint32_t *matched_out, struct gs_error *err)
{
	struct probe_engine *e = s->e;

	if (!have_room(s, change))
		return no_memory(err);
	enum gs_code rc = enable_probes(e, change, err);
	if (rc)
		return rc;
	probe_look_locked(e); /* some may be there again */
	for (uint32_t i = 0; change->old_too && i < s->enablings; i++)
		s->enabling[i]->next = change->last + 1;
	for (uint32_t i = 0; i < change->enablings; i++) {
		change->enabling[i]->next = change->last + 1;
		number_formats(s, change->enabling[i]);
		s->enabling[s->enablings++] = change->enabling[i];
	}
	probe_lanes_lock(e);
	for (uint32_t i = 0; i < change->ecbs; i++) {
		struct probe_ecb *ecb = change->ecb[i];
		struct probe *p = probe_at(e, ecb->probe);
		struct probe_ecb **at = &p->ecb;

		while (*at)
			at = &(*at)->next; /* clauses act in the order of the program */
		*at = ecb;
		s->ecb[s->ecbs++] = ecb;
		name_aggregations(s, ecb);
	}
	s->linked = true;
	probe_lanes_unlock(e);
	*matched_out = change->ecbs;
	change->enablings = 0; /* they are the session's now */
	change->ecbs = 0;
	return GS_OK;
}

void probe_unlink_locked(struct probe_session *s)
{
	if (!s->linked)
		return;
	probe_lanes_lock(s->e);
	for (uint32_t i = 0; i < s->ecbs; i++) {
		struct probe_ecb **at = &probe_at(s->e, s->ecb[i]->probe)->ecb;

		while (*at != s->ecb[i])
			at = &(*at)->next;
		*at = s->ecb[i]->next;
	}
	probe_lanes_unlock(s->e);
	s->linked = false;
	for (uint32_t i = 0; i < s->ecbs; i++)
		let_go(s->e, s->ecb[i]->probe);
	(void)commit(s->e, NULL);
}
