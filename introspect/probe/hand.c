/* SPDX-License-Identifier: Apache-2.0 */
/* Handing over what a vCPU has recorded: switched under its lane, built here, then marked as handed over. */
#include "base/util.h"
#include "introspect/probe/priv.h"

/* Bytes of JSON in a page, about: lines of the control socket have to stay short. */
#define PAGE_BYTES  (128u << 10)
#define RECORD_COST 64u

static enum gs_code no_memory(struct gs_error *err)
{
	return gs_fail(err, GS_ENOSPC, "out of memory: nothing was handed over");
}

static enum gs_code check(const struct probe_session *s, uint32_t vcpu, struct gs_error *err)
{
	if (vcpu >= s->e->vcpus)
		return gs_fail(err, GS_ENOENT, "there is no vCPU %u", vcpu);
	if (atomic_load(&s->state) == PROBE_INACTIVE)
		return gs_fail(err, GS_EBUSY, "the session has not started");
	return GS_OK;
}

static enum gs_code not_there(uint32_t vcpu, struct gs_error *err)
{
	return gs_fail(err, GS_EBUSY, "vCPU %u did not switch its buffers: try again", vcpu);
}

/* --- records -------------------------------------------------------------------------------------
 */

static json_t *record_json(const struct probe_session *s, const struct probe_record *r,
			   size_t *cost)
{
	const struct probe_clause *c = &s->ecb[r->epid - 1]->enabling->clause;
	const uint64_t *word = (const uint64_t *)(r + 1);
	json_t *terms = json_array();

	*cost += RECORD_COST;
	for (uint32_t a = 0; a < c->action_count; a++) {
		const struct probe_action *action = &c->action[a];

		for (uint32_t i = 0; action->kind == PROBE_ACTION_TRACE && i < action->term_count;
		     i++) {
			if (json_array_append_new(
				    terms, probe_value_json(s, &action->term[i], word, cost))) {
				json_decref(terms);
				return NULL;
			}
			word += probe_term_words(&action->term[i]);
		}
	}
	return json_pack("{s:I, s:o, s:o}", "epid", (json_int_t)r->epid, "time_ns",
			 probe_number_json(r->time_ns), "terms", terms);
}

/* A page of records from *at on, which moves. NULL: out of memory */
static json_t *records_json(const struct probe_session *s, const struct probe_bytes *b,
			    uint32_t *at)
{
	const uint32_t size = probe_half_size(b);
	json_t *list = json_array();
	size_t cost = 0;

	while (*at < size && cost < PAGE_BYTES) {
		const struct probe_record *r = probe_half_record(b, *at);

		if (json_array_append_new(list, record_json(s, r, &cost))) {
			json_decref(list);
			return NULL;
		}
		*at += r->size;
	}
	return list;
}

/* The half was handed over whole. */
static void half_done(struct probe_session *s, struct probe_bytes *b)
{
	probe_half_release(s, b);
	s->drops += b->drops;
	s->errors += b->errors;
	*b = (struct probe_bytes){ .data = b->data };
}

/* Have the vCPU's other half ready; what a hand-over that failed has left there comes first. */
static enum gs_code take_half(struct probe_session *s, uint32_t vcpu, struct gs_error *err)
{
	struct probe_store *store = &s->store[vcpu];
	struct probe_lane *lane = &s->e->lane[vcpu];

	if (store->pending)
		return GS_OK;
	if (s->options.policy != PROBE_POLICY_SWITCH && atomic_load(&s->state) != PROBE_STOPPED)
		return gs_fail(err, GS_EBUSY,
			       "buffers of this policy (%s) are handed over once the session has "
			       "stopped",
			       probe_policy_name(s->options.policy));
	if (!probe_lane_lock_soon(lane))
		return not_there(vcpu, err);
	store->active = !store->active;
	pthread_mutex_unlock(&lane->lock);
	store->pending = true;
	store->at = 0;
	return GS_OK;
}

static json_t *nothing_json(uint32_t vcpu)
{
	return json_pack("{s:I, s:i, s:i, s:i, s:i, s:[], s:b}", "vcpu", (json_int_t)vcpu, "size",
			 0, "drops", 0, "errors", 0, "oldest", 0, "records", "more", 0);
}

static enum gs_code buffer_locked(struct probe_session *s, uint32_t vcpu, json_t **json_out,
				  struct gs_error *err)
{
	enum gs_code rc = check(s, vcpu, err);

	if (rc)
		return rc;
	probe_session_is_alive(s);
	struct probe_store *store = &s->store[vcpu];
	if (store->consumed) {
		*json_out = nothing_json(vcpu);
		return *json_out ? GS_OK : no_memory(err);
	}
	rc = take_half(s, vcpu, err);
	if (rc)
		return rc;
	struct probe_bytes *b = &store->half[!store->active];
	const bool first = store->at == 0;
	uint32_t at = store->at;
	json_t *records = records_json(s, b, &at);
	const bool more = at < probe_half_size(b);
	*json_out = json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:b}", "vcpu", (json_int_t)vcpu,
			      "size", probe_number_json(probe_half_size(b)), "drops",
			      probe_number_json(first ? b->drops : 0), "errors",
			      probe_number_json(first ? b->errors : 0), "oldest",
			      probe_number_json(b->wrapped ? b->oldest : 0), "records", records,
			      "more", (int)more);
	if (!*json_out)
		return no_memory(err);
	store->at = at;
	if (!more) {
		half_done(s, b);
		store->pending = false;
		store->consumed = s->options.policy != PROBE_POLICY_SWITCH;
	}
	return GS_OK;
}

enum gs_code probe_session_buffer(struct probe_session *s, uint32_t vcpu, json_t **json_out,
				  struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = buffer_locked(s, vcpu, json_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}

/* --- aggregations --------------------------------------------------------------------------------
 */

static json_t *quantize_json(const uint64_t *value, size_t *cost)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < PROBE_QUANTIZE_BUCKETS; i++) {
		if (!value[i])
			continue;
		*cost += 40;
		if (json_array_append_new(list,
					  json_pack("[I, o]", (json_int_t)probe_quantize_value(i),
						    probe_number_json(value[i])))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "buckets", list);
}

static json_t *result_json(enum probe_action_kind kind, const uint64_t *value, size_t *cost)
{
	if (kind == PROBE_ACTION_QUANTIZE)
		return quantize_json(value, cost);
	if (kind == PROBE_ACTION_AVG)
		return json_pack("{s:I, s:o}", "sum", (json_int_t)value[0], "count",
				 probe_number_json(value[1]));
	return json_pack("{s:I}", "value", (json_int_t)value[0]);
}

static json_t *keys_json(const struct probe_session *s, const struct probe_action *a,
			 const uint64_t *word, size_t *cost)
{
	json_t *keys = json_array();

	for (uint32_t i = 0; i < a->term_count; i++) {
		if (json_array_append_new(keys, probe_value_json(s, &a->term[i], word, cost))) {
			json_decref(keys);
			return NULL;
		}
		word += probe_term_words(&a->term[i]);
	}
	return keys;
}

static json_t *entry_json(const struct probe_session *s, const struct probe_entry *entry,
			  uint32_t *size_out, size_t *cost)
{
	const struct probe_aggregation *a = &s->aggregation[entry->aggregation - 1];
	const struct probe_enabling *en = s->ecb[a->epid - 1]->enabling;
	const struct probe_action *action = &en->clause.action[a->action];
	const struct probe_layout *l = &en->layout[a->action];

	*size_out = (uint32_t)(sizeof(*entry) +
			       (l->key_words + l->value_words) * sizeof(entry->word[0]));
	*cost += RECORD_COST;
	json_t *o = result_json(action->kind, entry->word + l->key_words, cost);
	json_t *keys = keys_json(s, action, entry->word, cost);
	if (!o || !keys ||
	    json_object_set_new(o, "aggregation", json_integer(entry->aggregation)) ||
	    json_object_set(o, "keys", keys)) {
		json_decref(o);
		o = NULL;
	}
	json_decref(keys);
	return o;
}

static json_t *entries_json(const struct probe_session *s, const struct probe_table *t,
			    uint32_t *at)
{
	json_t *list = json_array();
	size_t cost = 0;

	while (*at < t->used && cost < PAGE_BYTES) {
		const struct probe_entry *entry = (const void *)(t->data + *at);
		uint32_t size = 0;

		if (json_array_append_new(list, entry_json(s, entry, &size, &cost))) {
			json_decref(list);
			return NULL;
		}
		*at += size;
	}
	return list;
}

static enum gs_code take_table(struct probe_session *s, uint32_t vcpu, struct gs_error *err)
{
	struct probe_store *store = &s->store[vcpu];
	struct probe_lane *lane = &s->e->lane[vcpu];

	if (store->table_pending)
		return GS_OK;
	if (!probe_lane_lock_soon(lane))
		return not_there(vcpu, err);
	store->table_active = !store->table_active;
	pthread_mutex_unlock(&lane->lock);
	store->table_pending = true;
	store->table_at = 0;
	return GS_OK;
}

static enum gs_code aggregates_locked(struct probe_session *s, uint32_t vcpu, json_t **json_out,
				      struct gs_error *err)
{
	enum gs_code rc = check(s, vcpu, err);

	if (!rc) {
		probe_session_is_alive(s);
		rc = take_table(s, vcpu, err);
	}
	if (rc)
		return rc;
	struct probe_store *store = &s->store[vcpu];
	struct probe_table *t = &store->table[!store->table_active];
	const bool first = store->table_at == 0;
	uint32_t at = store->table_at;
	json_t *entries = entries_json(s, t, &at);
	const bool more = at < t->used;
	*json_out = json_pack("{s:I, s:o, s:o, s:o, s:b}", "vcpu", (json_int_t)vcpu, "size",
			      probe_number_json(t->used), "drops",
			      probe_number_json(first ? t->drops : 0), "entries", entries, "more",
			      (int)more);
	if (!*json_out)
		return no_memory(err);
	store->table_at = at;
	if (!more) {
		s->table_drops += t->drops;
		probe_table_reset(s, t);
		store->table_pending = false;
	}
	return GS_OK;
}

enum gs_code probe_session_aggregates(struct probe_session *s, uint32_t vcpu, json_t **json_out,
				      struct gs_error *err)
{
	pthread_mutex_lock(&s->e->lock);
	enum gs_code rc = aggregates_locked(s, vcpu, json_out, err);
	pthread_mutex_unlock(&s->e->lock);
	return rc;
}
