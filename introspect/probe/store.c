/* SPDX-License-Identifier: Apache-2.0 */
/* What a session has of each vCPU: two halves of records, two tables of aggregations. */
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/priv.h"

/* Bytes of a table for each head of its buckets: about an entry with one key. */
#define TABLE_BYTES_A_HEAD 64u

static uint32_t heads_of(const struct probe_session *s)
{
	return s->options.aggregation_bytes / TABLE_BYTES_A_HEAD;
}

/* --- life ----------------------------------------------------------------------------------------
 */

static bool store_init(struct probe_session *s, struct probe_store *store)
{
	bool ok = true;

	for (uint32_t i = 0; i < 2; i++) {
		store->half[i].data = calloc(1, s->options.buffer_bytes);
		store->table[i].data = calloc(1, s->options.aggregation_bytes);
		store->table[i].bucket = gs_array_alloc(heads_of(s), sizeof(uint32_t));
		ok &= store->half[i].data && store->table[i].data && store->table[i].bucket;
	}
	return ok;
}

enum gs_code probe_stores_create(struct probe_session *s, struct gs_error *err)
{
	s->store = gs_array_alloc(gs_max(s->e->vcpus, 1), sizeof(*s->store));
	bool ok = s->store;

	for (uint32_t i = 0; ok && i < s->e->vcpus; i++)
		ok = store_init(s, &s->store[i]);
	if (ok)
		return GS_OK;
	probe_stores_destroy(s);
	return gs_fail(err, GS_ENOSPC, "out of memory for the buffers of a session");
}

void probe_half_release(const struct probe_session *s, const struct probe_bytes *b)
{
	const uint32_t size = probe_half_size(b);

	for (uint32_t at = 0; s->library && at < size;) {
		const struct probe_record *r = probe_half_record(b, at);

		at += r->size;
		probe_record_release(s, r);
	}
}

void probe_stores_destroy(struct probe_session *s)
{
	for (uint32_t i = 0; s->store && i < s->e->vcpus; i++) {
		struct probe_store *store = &s->store[i];

		for (uint32_t h = 0; h < 2; h++) {
			if (store->half[h].data)
				probe_half_release(s, &store->half[h]);
			if (store->table[h].data && store->table[h].bucket)
				probe_table_reset(s, &store->table[h]);
			free(store->half[h].data);
			free(store->table[h].data);
			free(store->table[h].bucket);
		}
	}
	free(s->store);
	s->store = NULL;
}

/* --- records -------------------------------------------------------------------------------------
 */

void probe_record_release(const struct probe_session *s, const struct probe_record *r)
{
	const struct probe_clause *c = &s->ecb[r->epid - 1]->enabling->clause;
	const uint64_t *word = (const uint64_t *)(r + 1);

	for (uint32_t a = 0; a < c->action_count; a++) {
		const struct probe_action *action = &c->action[a];

		for (uint32_t i = 0; action->kind == PROBE_ACTION_TRACE && i < action->term_count;
		     i++) {
			if (action->term[i].kind == PROBE_TERM_STACK && s->library && *word)
				(void)btl_put(s->library, (uint32_t)*word); /* counts misuses */
			word += probe_term_words(&action->term[i]);
		}
	}
}

static const struct probe_record *oldest_of(const struct probe_bytes *b)
{
	return (const void *)(b->data + b->oldest); /* whole words, as all records */
}

/* Room in a ring: the oldest records go. */
static struct probe_record *ring_reserve(struct probe_session *s, struct probe_bytes *b,
					 uint32_t size)
{
	if (size > s->options.buffer_bytes - b->used) {
		/* the oldest that are left begin at the start again */
		for (; b->wrapped && b->oldest < b->end; b->oldest += oldest_of(b)->size)
			probe_record_release(s, oldest_of(b));
		b->end = b->used;
		b->used = 0;
		b->oldest = 0;
		b->wrapped = true;
	}
	while (b->wrapped && b->oldest - b->used < size && b->oldest < b->end) {
		const struct probe_record *r = oldest_of(b);

		probe_record_release(s, r);
		b->oldest += r->size;
	}
	struct probe_record *r = (void *)(b->data + b->used);
	b->used += size;
	if (b->wrapped && b->oldest >= b->end) {
		b->wrapped = false; /* all of before has been overwritten */
		b->oldest = 0;
	}
	return r;
}

struct probe_record *probe_store_reserve(struct probe_session *s, struct probe_store *store,
					 uint32_t size)
{
	struct probe_bytes *b = &store->half[store->active];

	if (size > s->options.buffer_bytes || b->full) {
		b->drops++;
		return NULL;
	}
	if (s->options.policy == PROBE_POLICY_RING)
		return ring_reserve(s, b, size);
	if (size > s->options.buffer_bytes - b->used) {
		b->drops++;
		b->full = s->options.policy == PROBE_POLICY_FILL;
		return NULL;
	}
	b->used += size;
	return (void *)(b->data + b->used - size);
}

void probe_store_undo(struct probe_session *s, struct probe_store *store, uint32_t size)
{
	(void)s;
	store->half[store->active].used -= size;
}

/* --- aggregations --------------------------------------------------------------------------------
 */

static uint32_t bucket_of(const struct probe_session *s, uint32_t aggregation, const uint64_t *keys,
			  uint32_t words)
{
	uint64_t h = aggregation * s->e->seed;

	for (uint32_t i = 0; i < words; i++) {
		h = (h ^ keys[i]) * s->e->seed;
		h ^= h >> 29;
	}
	return (uint32_t)((h ^ h >> 32) % heads_of(s));
}

static struct probe_entry *entry_at(struct probe_table *t, uint32_t offset_plus_1)
{
	return offset_plus_1 ? (void *)(t->data + offset_plus_1 - 1) : NULL;
}

uint64_t *probe_table_entry(struct probe_session *s, struct probe_store *store,
			    uint32_t aggregation, const struct probe_layout *layout,
			    const uint64_t *keys, bool *is_new_out)
{
	struct probe_table *t = &store->table[store->table_active];
	const uint32_t words = layout->key_words;
	uint32_t *head = &t->bucket[bucket_of(s, aggregation, keys, words)];
	struct probe_entry *entry;

	*is_new_out = false;
	for (uint32_t at = *head; at; at = entry->next) {
		entry = entry_at(t, at);
		if (entry->aggregation == aggregation &&
		    !memcmp(entry->word, keys, words * sizeof(keys[0])))
			return entry->word + words;
	}
	const size_t size = sizeof(*entry) + (words + layout->value_words) * sizeof(entry->word[0]);
	if (size > s->options.aggregation_bytes - t->used) {
		t->drops++;
		return NULL;
	}
	entry = (void *)(t->data + t->used);
	*entry = (struct probe_entry){ .next = *head, .aggregation = aggregation };
	memcpy(entry->word, keys, words * sizeof(keys[0]));
	memset(entry->word + words, 0, layout->value_words * sizeof(entry->word[0]));
	*head = t->used + 1;
	t->used += (uint32_t)size;
	*is_new_out = true;
	return entry->word + words;
}

static void entry_release(const struct probe_session *s, const struct probe_entry *entry,
			  const struct probe_action *action)
{
	const uint64_t *word = entry->word;

	for (uint32_t i = 0; i < action->term_count; i++) {
		if (action->term[i].kind == PROBE_TERM_STACK && *word)
			(void)btl_put(s->library, (uint32_t)*word); /* counts misuses */
		word += probe_term_words(&action->term[i]);
	}
}

void probe_table_reset(struct probe_session *s, struct probe_table *t)
{
	for (uint32_t at = 0; at < t->used;) {
		const struct probe_entry *entry = (void *)(t->data + at);
		const struct probe_aggregation *a = &s->aggregation[entry->aggregation - 1];
		const struct probe_enabling *e = s->ecb[a->epid - 1]->enabling;
		const struct probe_layout *l = &e->layout[a->action];

		if (s->library)
			entry_release(s, entry, &e->clause.action[a->action]);
		at += (uint32_t)(sizeof(*entry) +
				 (l->key_words + l->value_words) * sizeof(entry->word[0]));
	}
	memset(t->bucket, 0, heads_of(s) * sizeof(t->bucket[0]));
	t->used = 0;
	t->drops = 0;
}

uint32_t probe_quantize_bucket(int64_t value)
{
	if (!value)
		return PROBE_QUANTIZE_ZERO;
	const uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
	/* -2^63 has no positive counterpart: it counts as -2^62 */
	const uint32_t power = (uint32_t)gs_min(63 - (uint32_t)__builtin_clzll(magnitude), 62);
	return value < 0 ? PROBE_QUANTIZE_ZERO - 1 - power : PROBE_QUANTIZE_ZERO + 1 + power;
}

int64_t probe_quantize_value(uint32_t bucket)
{
	if (bucket == PROBE_QUANTIZE_ZERO)
		return 0;
	return bucket < PROBE_QUANTIZE_ZERO ? -(INT64_C(1) << (PROBE_QUANTIZE_ZERO - 1 - bucket))
					    : INT64_C(1) << (bucket - PROBE_QUANTIZE_ZERO - 1);
}
