/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as text: writing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "introspect/probe/program_priv.h"

static void put_terms(FILE *f, const struct probe_term *term, uint32_t count)
{
	char text[PROBE_TERM_TEXT_MAX];

	for (uint32_t i = 0; i < count; i++) {
		probe_term_text(&term[i], text);
		fprintf(f, "%s%s", i ? ", " : "", text);
	}
}

static void put_label(FILE *f, const char *label)
{
	fputc('"', f);
	for (; *label; label++) {
		if (*label == '"' || *label == '\\')
			fputc('\\', f);
		fputc(*label, f);
	}
	fputc('"', f);
}

/* The nodes from @p at to its end. */
static void put_node(FILE *f, const struct probe_clause *c, uint32_t at, bool brackets)
{
	const struct probe_node *node = &c->node[at];

	if (node->kind == PROBE_NODE_COMPARE) {
		put_terms(f, &node->left, 1);
		fprintf(f, " %s ", probe_compare_name(node->compare));
		put_terms(f, &node->right, 1);
		return;
	}
	if (node->kind == PROBE_NODE_NOT) {
		fputs("!(", f);
		put_node(f, c, at + 1, false);
		fputc(')', f);
		return;
	}
	const bool is_and = node->kind == PROBE_NODE_AND;
	fputs(brackets ? "(" : "", f);
	for (uint32_t i = at + 1; i < node->end; i = c->node[i].end) {
		if (i > at + 1)
			fputs(is_and ? " && " : " || ", f);
		put_node(f, c, i, is_and || c->node[i].kind == PROBE_NODE_OR);
	}
	fputs(brackets ? ")" : "", f);
}

static void put_action(FILE *f, const struct probe_action *a)
{
	fprintf(f, "%s(", probe_action_name(a->kind));
	if (a->kind == PROBE_ACTION_TRACE) {
		if (*a->label)
			put_label(f, a->label);
		fputs(*a->label && a->term_count ? ", " : "", f);
		put_terms(f, a->term, a->term_count);
	} else if (a->kind != PROBE_ACTION_COUNT && a->kind != PROBE_ACTION_STACKSHOT &&
		   a->kind != PROBE_ACTION_EXIT) {
		put_terms(f, &a->of, 1);
	}
	if (a->kind == PROBE_ACTION_RECORD && a->operation)
		fprintf(f, ", %" PRIu32, a->operation);
	fputc(')', f);
	if (probe_action_aggregates(a->kind) && a->term_count) {
		fputs(" by ", f);
		put_terms(f, a->term, a->term_count);
	}
}

static void put_clause(FILE *f, const struct probe_clause *c)
{
	char name[PROBE_NAME_TEXT_MAX];

	for (uint32_t i = 0; i < c->pattern_count; i++) {
		const struct probe_name pattern = probe_pattern_name(&c->pattern[i]);

		probe_name_text(&pattern, name, sizeof(name));
		fprintf(f, "%s%s", i ? ", " : "", name);
	}
	if (c->node_count) {
		fputs(" /", f);
		put_node(f, c, 0, false);
		fputc('/', f);
	}
	fputs(" {", f);
	for (uint32_t i = 0; i < c->action_count; i++) {
		fputs(i ? "; " : " ", f);
		put_action(f, &c->action[i]);
	}
	fputs(c->action_count ? " }\n" : "}\n", f);
}

/* @return the text that was written, NULL: out of memory */
static char *finish(FILE *f, char **text)
{
	const bool failed = ferror(f);

	if (fclose(f) || failed) {
		free(*text);
		return NULL;
	}
	return *text;
}

char *probe_program_text(const struct probe_clause *const *clauses, uint32_t count)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		put_clause(f, clauses[i]);
	return finish(f, &text);
}

char *probe_predicate_text(const struct probe_clause *clause)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	put_node(f, clause, 0, false);
	return finish(f, &text);
}
