/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: their words, and what goes together. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/program_priv.h"

static const char *const term_names[] = {
	[PROBE_TERM_COMM] = "comm",	[PROBE_TERM_PID] = "pid",
	[PROBE_TERM_TID] = "tid",	[PROBE_TERM_VCPU] = "vcpu",
	[PROBE_TERM_TIME] = "time_ns",	[PROBE_TERM_SP] = "sp",
	[PROBE_TERM_PC] = "pc",		[PROBE_TERM_PSTATE] = "pstate",
	[PROBE_TERM_SYMBOL] = "symbol", [PROBE_TERM_STACK] = "stack",
};

static const char *const action_names[] = {
	[PROBE_ACTION_COUNT] = "count", [PROBE_ACTION_SUM] = "sum",
	[PROBE_ACTION_MIN] = "min",	[PROBE_ACTION_MAX] = "max",
	[PROBE_ACTION_AVG] = "avg",	[PROBE_ACTION_QUANTIZE] = "quantize",
	[PROBE_ACTION_TRACE] = "trace", [PROBE_ACTION_RECORD] = "record",
	[PROBE_ACTION_ERASE] = "erase", [PROBE_ACTION_STACKSHOT] = "stackshot",
	[PROBE_ACTION_EXIT] = "exit",
};

static const char *const compare_names[] = {
	[PROBE_EQ] = "==", [PROBE_NE] = "!=", [PROBE_LT] = "<",
	[PROBE_LE] = "<=", [PROBE_GT] = ">",  [PROBE_GE] = ">=",
};

static bool is_word(const char *word, const char *text, size_t len)
{
	return word && strlen(word) == len && !memcmp(word, text, len);
}

/* "arg7", "x30": a letter or word and a number without leading zeros. */
static bool numbered(const char *prefix, uint32_t max, const char *name, size_t len,
		     uint32_t *n_out)
{
	char expected[8];

	for (uint32_t n = 0; n <= max; n++) {
		snprintf(expected, sizeof(expected), "%s%" PRIu32, prefix, n);
		if (is_word(expected, name, len)) {
			*n_out = n;
			return true;
		}
	}
	return false;
}

bool probe_term_of_name(const char *name, size_t len, struct probe_term *term_out)
{
	*term_out = (struct probe_term){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(term_names); i++) {
		if (is_word(term_names[i], name, len)) {
			term_out->kind = (enum probe_term_kind)i;
			return true;
		}
	}
	if (is_word("lr", name, len)) {
		term_out->kind = PROBE_TERM_X;
		term_out->n = 30;
		return true;
	}
	term_out->kind = PROBE_TERM_ARG;
	if (numbered("arg", PROBE_ARGS_MAX - 1, name, len, &term_out->n))
		return true;
	term_out->kind = PROBE_TERM_X;
	return numbered("x", 30, name, len, &term_out->n);
}

void probe_term_text(const struct probe_term *term, char buf[static PROBE_TERM_TEXT_MAX])
{
	switch (term->kind) {
	case PROBE_TERM_NUMBER:
		/* large ones are addresses or masks */
		snprintf(buf, PROBE_TERM_TEXT_MAX,
			 term->number > INT64_MAX ? "%#" PRIx64 : "%" PRIu64, term->number);
		return;
	case PROBE_TERM_STRING: {
		size_t n = 0;

		buf[n++] = '"';
		for (const char *s = term->text; *s; s++) {
			if (*s == '"' || *s == '\\')
				buf[n++] = '\\';
			buf[n++] = *s;
		}
		buf[n++] = '"';
		buf[n] = '\0';
		return;
	}
	case PROBE_TERM_ARG: snprintf(buf, PROBE_TERM_TEXT_MAX, "arg%" PRIu32, term->n); return;
	case PROBE_TERM_X: snprintf(buf, PROBE_TERM_TEXT_MAX, "x%" PRIu32, term->n); return;
	case PROBE_TERM_COMM:
	case PROBE_TERM_PID:
	case PROBE_TERM_TID:
	case PROBE_TERM_VCPU:
	case PROBE_TERM_TIME:
	case PROBE_TERM_SP:
	case PROBE_TERM_PC:
	case PROBE_TERM_PSTATE:
	case PROBE_TERM_SYMBOL:
	case PROBE_TERM_STACK:
		snprintf(buf, PROBE_TERM_TEXT_MAX, "%s", term_names[term->kind]);
		return;
	}
}

bool probe_term_is_number(const struct probe_term *term)
{
	return term->kind != PROBE_TERM_STRING && term->kind != PROBE_TERM_COMM &&
	       term->kind != PROBE_TERM_SYMBOL && term->kind != PROBE_TERM_STACK;
}

static bool is_text(const struct probe_term *term)
{
	return term->kind == PROBE_TERM_STRING || term->kind == PROBE_TERM_COMM;
}

enum gs_code probe_compare_check(const struct probe_node *node, struct gs_error *err)
{
	const struct probe_term *l = &node->left, *r = &node->right;
	char left[PROBE_TERM_TEXT_MAX], right[PROBE_TERM_TEXT_MAX];

	if (probe_term_is_number(l) && probe_term_is_number(r))
		return GS_OK;
	if (is_text(l) && is_text(r) && (node->compare == PROBE_EQ || node->compare == PROBE_NE))
		return GS_OK;
	probe_term_text(l, left);
	probe_term_text(r, right);
	return gs_fail(err, GS_EINVAL,
		       "%s %s %s: numbers are compared, and comm with == or !=", left,
		       compare_names[node->compare], right);
}

enum gs_code probe_action_check(const struct probe_action *a, struct gs_error *err)
{
	const char *name = action_names[a->kind];
	char text[PROBE_TERM_TEXT_MAX];

	if (a->kind != PROBE_ACTION_COUNT && a->kind != PROBE_ACTION_TRACE &&
	    a->kind != PROBE_ACTION_STACKSHOT && a->kind != PROBE_ACTION_EXIT &&
	    !probe_term_is_number(&a->of)) {
		probe_term_text(&a->of, text);
		return gs_fail(err, GS_EINVAL, "%s(%s): not a number", name, text);
	}
	if (a->kind == PROBE_ACTION_RECORD && a->operation >= PROBE_OPERATIONS)
		return gs_fail(err, GS_EINVAL, "record(): the operation is not in 0 … %u",
			       PROBE_OPERATIONS - 1);
	if (probe_action_aggregates(a->kind) && a->term_count > PROBE_KEYS_MAX)
		return gs_fail(err, GS_ETOOBIG, "%s(): more than %u keys", name, PROBE_KEYS_MAX);
	for (uint32_t i = 0; i < a->term_count; i++) {
		if (a->term[i].kind != PROBE_TERM_NUMBER && a->term[i].kind != PROBE_TERM_STRING)
			continue;
		probe_term_text(&a->term[i], text);
		return gs_fail(err, GS_EINVAL, "%s(): %s is a constant", name, text);
	}
	return GS_OK;
}

bool probe_action_of_name(const char *name, size_t len, enum probe_action_kind *kind_out)
{
	for (size_t i = 0; i < ARRAY_SIZE(action_names); i++) {
		if (is_word(action_names[i], name, len)) {
			*kind_out = (enum probe_action_kind)i;
			return true;
		}
	}
	return false;
}

const char *probe_action_name(enum probe_action_kind kind)
{
	return action_names[kind];
}

const char *probe_compare_name(enum probe_compare compare)
{
	return compare_names[compare];
}

size_t probe_compare_of_name(const char *text, size_t len, enum probe_compare *compare_out)
{
	size_t best = 0;

	for (size_t i = 0; i < ARRAY_SIZE(compare_names); i++) {
		size_t n = strlen(compare_names[i]);

		if (n > best && n <= len && !memcmp(text, compare_names[i], n)) {
			best = n; /* "<=" is not "<" */
			*compare_out = (enum probe_compare)i;
		}
	}
	return best;
}

struct probe_clause *probe_program_add(struct probe_program *p, struct gs_error *err)
{
	if (p->count == PROBE_CLAUSES_MAX) {
		gs_error_set(err, GS_ETOOBIG, 0, "more than %u clauses", PROBE_CLAUSES_MAX);
		return NULL;
	}
	struct probe_clause *more = realloc(p->clause, (p->count + 1) * sizeof(*more));
	if (!more) {
		gs_error_set(err, GS_ENOSPC, 0, "out of memory");
		return NULL;
	}
	p->clause = more;
	memset(&more[p->count], 0, sizeof(*more));
	return &more[p->count++];
}

void probe_program_deinit(struct probe_program *program)
{
	free(program->clause);
	*program = (struct probe_program){ 0 };
}

struct probe_name probe_pattern_name(const struct probe_pattern *pattern)
{
	return (struct probe_name){ pattern->provider, pattern->module, pattern->function,
				    pattern->name };
}

void probe_name_text(const struct probe_name *name, char *buf, size_t size)
{
	snprintf(buf, size, "%s:%s:%s:%s", name->provider, name->module, name->function,
		 name->name);
}
