/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/program_priv.h"

/* --- writing ------------------------------------------------------------------------------------
 */

static json_t *terms_json(const struct probe_term *term, uint32_t count)
{
	char text[PROBE_TERM_TEXT_MAX];
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		probe_term_text(&term[i], text);
		if (json_array_append_new(list, json_string(text))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Add a member; a failure anywhere makes the whole NULL. */
static json_t *with(json_t *object, const char *name, json_t *value)
{
	if (!object || json_object_set_new(object, name, value)) {
		if (!object)
			json_decref(value);
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *action_json(const struct probe_action *a)
{
	char of[PROBE_TERM_TEXT_MAX];
	json_t *o = json_pack("{s:s}", "action", probe_action_name(a->kind));

	probe_term_text(&a->of, of);
	if (a->kind == PROBE_ACTION_TRACE) {
		if (*a->label)
			o = with(o, "label", json_string(a->label));
		return with(o, "terms", terms_json(a->term, a->term_count));
	}
	if (a->kind != PROBE_ACTION_COUNT && a->kind != PROBE_ACTION_STACKSHOT &&
	    a->kind != PROBE_ACTION_EXIT)
		o = with(o, "of", json_string(of));
	if (a->kind == PROBE_ACTION_RECORD)
		o = with(o, "operation", json_integer(a->operation));
	if (probe_action_aggregates(a->kind))
		o = with(o, "by", terms_json(a->term, a->term_count));
	return o;
}

static json_t *clause_json(const struct probe_clause *c)
{
	json_t *probes = json_array(), *actions = json_array(), *predicate = NULL;
	char name[PROBE_NAME_TEXT_MAX];
	int failed = 0;

	for (uint32_t i = 0; i < c->pattern_count; i++) {
		const struct probe_name pattern = probe_pattern_name(&c->pattern[i]);

		probe_name_text(&pattern, name, sizeof(name));
		failed |= json_array_append_new(probes, json_string(name));
	}
	for (uint32_t i = 0; i < c->action_count; i++)
		failed |= json_array_append_new(actions, action_json(&c->action[i]));
	if (c->node_count) {
		GS_FREE char *text = probe_predicate_text(c);

		predicate = text ? json_string(text) : NULL;
		failed |= !predicate;
	}
	if (failed) {
		json_decref(probes);
		json_decref(actions);
		json_decref(predicate);
		return NULL;
	}
	return json_pack("{s:o, s:o*, s:o}", "probes", probes, "predicate", predicate, "actions",
			 actions);
}

json_t *probe_program_json(const struct probe_clause *const *clauses, uint32_t count)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		if (json_array_append_new(list, clause_json(clauses[i]))) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", "clauses", list);
}

/* --- reading ------------------------------------------------------------------------------------
 */

/* Members that an object may have; NULL-terminated. */
static enum gs_code check_members(const json_t *object, const char *what, const char *const *names,
				  struct gs_error *err)
{
	const char *name;
	json_t *value;

	if (!json_is_object(object))
		return gs_fail(err, GS_EINVAL, "%s is an object", what);
	json_object_foreach((json_t *)object, name, value)
	{
		bool known = false;

		for (const char *const *n = names; *n; n++)
			known |= !strcmp(*n, name);
		if (!known)
			return gs_fail(err, GS_EINVAL, "%s: unknown member \"%.64s\"", what, name);
	}
	return GS_OK;
}

static enum gs_code read_terms(const json_t *list, const char *what, struct probe_action *a,
			       struct gs_error *err)
{
	const json_t *value;
	size_t i;

	if (!list)
		return GS_OK;
	if (!json_is_array(list) || json_array_size(list) > PROBE_TERMS_MAX)
		return gs_fail(err, GS_EINVAL, "\"%s\" is an array of at most %u terms", what,
			       PROBE_TERMS_MAX);
	json_array_foreach(list, i, value)
	{
		const char *text = json_string_value(value);
		enum gs_code rc =
			text ? probe_term_parse(text, &a->term[a->term_count++], err)
			     : gs_fail(err, GS_EINVAL, "\"%s\" is an array of strings", what);
		if (rc)
			return rc;
	}
	return GS_OK;
}

static enum gs_code read_label(const json_t *label, struct probe_action *a, struct gs_error *err)
{
	const char *text = json_string_value(label);

	if (!label)
		return GS_OK;
	if (!text || strlen(text) >= sizeof(a->label))
		return gs_fail(err, GS_EINVAL, "\"label\" is a string of at most %zu bytes",
			       sizeof(a->label) - 1);
	for (const char *s = text; *s; s++)
		if (*s < ' ' || *s > '~')
			return gs_fail(err, GS_EINVAL, "\"label\" has printable ASCII only");
	strcpy(a->label, text); /* NOLINT: its length was checked */
	return GS_OK;
}

static bool needs_of(enum probe_action_kind kind)
{
	return (probe_action_aggregates(kind) && kind != PROBE_ACTION_COUNT) ||
	       kind == PROBE_ACTION_RECORD || kind == PROBE_ACTION_ERASE;
}

/* Members that go with an action of this kind. */
static const char *const *members_of(enum probe_action_kind kind)
{
	static const char *const plain[] = { "action", NULL };
	static const char *const count[] = { "action", "by", NULL };
	static const char *const aggregation[] = { "action", "of", "by", NULL };
	static const char *const trace[] = { "action", "label", "terms", NULL };
	static const char *const record[] = { "action", "of", "operation", NULL };
	static const char *const erase[] = { "action", "of", NULL };

	switch (kind) {
	case PROBE_ACTION_COUNT: return count;
	case PROBE_ACTION_SUM:
	case PROBE_ACTION_MIN:
	case PROBE_ACTION_MAX:
	case PROBE_ACTION_AVG:
	case PROBE_ACTION_QUANTIZE: return aggregation;
	case PROBE_ACTION_TRACE: return trace;
	case PROBE_ACTION_RECORD: return record;
	case PROBE_ACTION_ERASE: return erase;
	case PROBE_ACTION_STACKSHOT:
	case PROBE_ACTION_EXIT: return plain;
	}
	return plain;
}

static enum gs_code read_action(const json_t *o, struct probe_clause *c, struct gs_error *err)
{
	struct probe_action *a = &c->action[c->action_count];
	const char *name = json_string_value(json_object_get(o, "action"));
	const json_t *operation = json_object_get(o, "operation");
	const char *of = json_string_value(json_object_get(o, "of"));

	if (!name || !probe_action_of_name(name, strlen(name), &a->kind))
		return gs_fail(err, GS_EINVAL, "an action is an object with a known \"action\"");
	enum gs_code rc = check_members(o, name, members_of(a->kind), err);
	if (!rc && needs_of(a->kind) && !of)
		rc = gs_fail(err, GS_EINVAL, "%s: \"of\" is a term, as a string", name);
	if (!rc && needs_of(a->kind))
		rc = probe_term_parse(of, &a->of, err);
	if (!rc && operation &&
	    (!json_is_integer(operation) || json_integer_value(operation) < 0 ||
	     json_integer_value(operation) >= PROBE_OPERATIONS))
		rc = gs_fail(err, GS_EINVAL, "%s: \"operation\" is a number in 0 … %u", name,
			     PROBE_OPERATIONS - 1);
	a->operation = (uint32_t)(rc ? 0 : json_integer_value(operation));
	if (!rc)
		rc = read_label(json_object_get(o, "label"), a, err);
	if (!rc)
		rc = read_terms(json_object_get(o, "by"), "by", a, err);
	if (!rc)
		rc = read_terms(json_object_get(o, "terms"), "terms", a, err);
	if (!rc)
		rc = probe_action_check(a, err);
	c->action_count++;
	return rc;
}

static enum gs_code read_probes(const json_t *list, struct probe_clause *c, struct gs_error *err)
{
	const json_t *value;
	size_t i;

	if (!json_array_size(list) || json_array_size(list) > PROBE_PATTERNS_MAX)
		return gs_fail(err, GS_EINVAL, "\"probes\" is an array of 1 to %u patterns",
			       PROBE_PATTERNS_MAX);
	json_array_foreach(list, i, value)
	{
		const char *text = json_string_value(value);
		enum gs_code rc =
			text ? probe_pattern_parse(text, &c->pattern[c->pattern_count++], err)
			     : gs_fail(err, GS_EINVAL, "\"probes\" is an array of strings");
		if (rc)
			return rc;
	}
	return GS_OK;
}

static enum gs_code read_clause(const json_t *o, struct probe_clause *c, struct gs_error *err)
{
	static const char *const members[] = { "probes", "predicate", "actions", NULL };
	const json_t *predicate = json_object_get(o, "predicate");
	const json_t *actions = json_object_get(o, "actions"), *value;
	enum gs_code rc = check_members(o, "a clause", members, err);
	size_t i;

	if (!rc)
		rc = read_probes(json_object_get(o, "probes"), c, err);
	if (!rc && predicate && !json_is_string(predicate))
		rc = gs_fail(err, GS_EINVAL, "\"predicate\" is a string");
	if (!rc && predicate)
		rc = probe_predicate_parse(json_string_value(predicate), c, err);
	if (!rc && actions &&
	    (!json_is_array(actions) || json_array_size(actions) > PROBE_ACTIONS_MAX))
		rc = gs_fail(err, GS_EINVAL, "\"actions\" is an array of at most %u",
			     PROBE_ACTIONS_MAX);
	for (i = 0; !rc && i < json_array_size(actions); i++) {
		value = json_array_get(actions, i);
		rc = read_action(value, c, err);
	}
	return rc;
}

enum gs_code probe_program_from_json(const json_t *root, struct probe_program *program_out,
				     struct gs_error *err)
{
	static const char *const members[] = { "clauses", NULL };
	const json_t *list = json_object_get(root, "clauses");

	*program_out = (struct probe_program){ 0 };
	enum gs_code rc = check_members(root, "a program", members, err);
	if (!rc && !json_array_size(list))
		rc = gs_fail(err, GS_EINVAL, "\"clauses\" is an array of 1 to %u clauses",
			     PROBE_CLAUSES_MAX);
	for (size_t i = 0; !rc && i < json_array_size(list); i++) {
		struct probe_clause *c = probe_program_add(program_out, err);

		rc = c ? read_clause(json_array_get(list, i), c, err)
		     : program_out->count == PROBE_CLAUSES_MAX ? GS_ETOOBIG
							       : GS_ENOSPC;
		if (rc)
			rc = gs_wrap(err, rc, "program, clause %zu", i + 1);
	}
	if (rc)
		probe_program_deinit(program_out);
	return rc;
}
