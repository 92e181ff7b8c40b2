/* SPDX-License-Identifier: Apache-2.0 */
/* Programs as text: reading. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/program_priv.h"

/*
 *	program   = clause { [ ";" ] clause } [ ";" ]
 *	clause    = pattern { "," pattern } [ "/" or "/" ] [ "{" [ action { ";" action } ] [ ";" ] "}" ]
 *	or        = and { "||" and }
 *	and       = not { "&&" not }
 *	not       = "!" not | "(" or ")" | term compare term
 *	action    = word "(" [ argument { "," argument } ] ")" [ "by" term { "," term } ]
 */
struct parser {
	const char *text;
	size_t len, at;
	uint32_t depth;
	struct probe_clause *clause;
	struct gs_error *err;
};

#define fail_at(p, code, ...) (gs_error_set((p)->err, (code), 0, __VA_ARGS__), wrap_at((p), (code)))

static enum gs_code wrap_at(const struct parser *p, enum gs_code code)
{
	return gs_wrap(p->err, code, "program, byte %zu", p->at + 1);
}

static void skip_space(struct parser *p)
{
	while (p->at < p->len && isspace((unsigned char)p->text[p->at]))
		p->at++;
}

/* The next byte that is no white space; 0 at the end. */
static char peek(struct parser *p)
{
	skip_space(p);
	return p->at < p->len ? p->text[p->at] : '\0';
}

static bool take(struct parser *p, const char *token)
{
	const size_t n = strlen(token);

	skip_space(p);
	if (p->len - p->at < n || memcmp(p->text + p->at, token, n) != 0)
		return false;
	p->at += n;
	return true;
}

static enum gs_code expect(struct parser *p, const char *token)
{
	return take(p, token) ? GS_OK : fail_at(p, GS_EINVAL, "\"%s\" is missing", token);
}

static size_t word_length(struct parser *p)
{
	size_t n = 0;

	skip_space(p);
	while (p->at + n < p->len &&
	       (isalnum((unsigned char)p->text[p->at + n]) || p->text[p->at + n] == '_'))
		n++;
	return n;
}

/* --- terms ---------------------------------------------------------------------------------------
 */

static enum gs_code parse_number(struct parser *p, struct probe_term *term_out)
{
	const bool negative = take(p, "-");
	const bool hex = p->len - p->at > 2 && p->text[p->at] == '0' &&
			 (p->text[p->at + 1] == 'x' || p->text[p->at + 1] == 'X');
	const uint64_t base = hex ? 16 : 10;
	uint64_t value = 0;
	size_t digits = 0;

	p->at += hex ? 2 : 0;
	for (; p->at < p->len && isxdigit((unsigned char)p->text[p->at]); p->at++, digits++) {
		const char c = (char)tolower((unsigned char)p->text[p->at]);
		const uint64_t digit = (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);

		if (digit >= base)
			return fail_at(p, GS_EINVAL, "not a number");
		if (!gs_mul(value, base, &value) || !gs_add(value, digit, &value))
			return fail_at(p, GS_EINVAL, "a number beyond 64 bits");
	}
	if (!digits ||
	    (p->at < p->len && (isalpha((unsigned char)p->text[p->at]) || p->text[p->at] == '_')))
		return fail_at(p, GS_EINVAL, "not a number");
	if (negative && value > (uint64_t)INT64_MAX + 1)
		return fail_at(p, GS_EINVAL, "a number beyond 64 bits");
	*term_out = (struct probe_term){ .kind = PROBE_TERM_NUMBER,
					 .number = negative ? -value : value };
	return GS_OK;
}

/* Printable ASCII; '\' takes the next byte as it is. */
static enum gs_code parse_string(struct parser *p, char *buf, size_t size, const char *what)
{
	size_t n = 0;

	for (p->at++; p->at < p->len && p->text[p->at] != '"'; p->at++) {
		if (p->text[p->at] == '\\')
			p->at++;
		if (p->at >= p->len || !isprint((unsigned char)p->text[p->at]))
			return fail_at(p, GS_EINVAL, "a string has printable characters only");
		if (n + 1 >= size)
			return fail_at(p, GS_EINVAL, "%s is longer than %zu bytes", what, size - 1);
		buf[n++] = p->text[p->at];
	}
	buf[n] = '\0';
	return expect(p, "\"");
}

static enum gs_code parse_term(struct parser *p, struct probe_term *term_out)
{
	const char c = peek(p);

	if (isdigit((unsigned char)c) || c == '-')
		return parse_number(p, term_out);
	if (c == '"') {
		*term_out = (struct probe_term){ .kind = PROBE_TERM_STRING };
		return parse_string(p, term_out->text, sizeof(term_out->text),
				    "a thread's name (comm)");
	}
	const size_t n = word_length(p);
	if (!n)
		return fail_at(p, GS_EINVAL, "a term is missing");
	if (!probe_term_of_name(p->text + p->at, n, term_out))
		return fail_at(p, GS_EINVAL, "unknown term \"%.*s\"", (int)gs_min(n, 32),
			       p->text + p->at);
	p->at += n;
	return GS_OK;
}

enum gs_code probe_term_parse(const char *text, struct probe_term *term_out, struct gs_error *err)
{
	struct parser p = { .text = text, .len = strlen(text), .err = err };
	enum gs_code rc = parse_term(&p, term_out);

	if (!rc && peek(&p))
		rc = fail_at(&p, GS_EINVAL, "more than a term");
	return rc;
}

/* --- predicates ----------------------------------------------------------------------------------
 */

static enum gs_code parse_or(struct parser *p);

static enum gs_code add_node(struct parser *p, const struct probe_node *node, uint32_t at)
{
	struct probe_clause *c = p->clause;

	if (c->node_count == PROBE_NODES_MAX)
		return fail_at(p, GS_ETOOBIG, "a predicate of more than %u parts", PROBE_NODES_MAX);
	memmove(&c->node[at + 1], &c->node[at], (c->node_count - at) * sizeof(c->node[0]));
	c->node[at] = *node;
	c->node_count++;
	/* what was moved ends one further on */
	for (uint32_t i = at + 1; i < c->node_count; i++)
		c->node[i].end++;
	c->node[at].end = c->node_count;
	return GS_OK;
}

static enum gs_code parse_comparison(struct parser *p)
{
	struct probe_node node = { .kind = PROBE_NODE_COMPARE };
	enum gs_code rc = parse_term(p, &node.left);

	if (rc)
		return rc;
	skip_space(p);
	size_t n = probe_compare_of_name(p->text + p->at, p->len - p->at, &node.compare);
	if (!n)
		return fail_at(p, GS_EINVAL, "a comparison is missing (== != < <= > >=)");
	p->at += n;
	rc = parse_term(p, &node.right);
	if (rc)
		return rc;
	rc = probe_compare_check(&node, p->err);
	if (rc)
		return wrap_at(p, rc);
	return add_node(p, &node, p->clause->node_count);
}

/*
 * What was read from @p at on becomes its opposite: a comparison the opposite one, two negations none. So
 * what is negated is always in brackets, and a program that was written out is no deeper than it was.
 */
static enum gs_code negate(struct parser *p, uint32_t at)
{
	static const enum probe_compare opposite[] = {
		[PROBE_EQ] = PROBE_NE, [PROBE_NE] = PROBE_EQ, [PROBE_LT] = PROBE_GE,
		[PROBE_LE] = PROBE_GT, [PROBE_GT] = PROBE_LE, [PROBE_GE] = PROBE_LT,
	};
	struct probe_clause *c = p->clause;
	struct probe_node *node = &c->node[at];

	if (node->kind == PROBE_NODE_COMPARE) {
		node->compare = opposite[node->compare];
		return GS_OK;
	}
	if (node->kind != PROBE_NODE_NOT)
		return add_node(p, &(struct probe_node){ .kind = PROBE_NODE_NOT }, at);
	c->node_count--;
	memmove(node, node + 1, (c->node_count - at) * sizeof(*node));
	for (uint32_t i = at; i < c->node_count; i++)
		c->node[i].end--;
	return GS_OK;
}

static enum gs_code parse_not(struct parser *p)
{
	const uint32_t at = p->clause->node_count;
	enum gs_code rc;

	if (peek(p) != '!' && peek(p) != '(')
		return parse_comparison(p);
	if (++p->depth > PROBE_DEPTH_MAX)
		return fail_at(p, GS_ETOOBIG, "a predicate nested deeper than %u", PROBE_DEPTH_MAX);
	if (take(p, "!")) {
		rc = parse_not(p);
		if (!rc)
			rc = negate(p, at);
	} else {
		(void)take(p, "(");
		rc = parse_or(p);
		if (!rc)
			rc = expect(p, ")");
	}
	p->depth--;
	return rc;
}

/* Operands with one operator between them: it is in front of all of them, once. */
static enum gs_code parse_row(struct parser *p, const char *token, enum probe_node_kind kind,
			      enum gs_code (*operand)(struct parser *p))
{
	const uint32_t at = p->clause->node_count;
	bool several = false;
	enum gs_code rc = operand(p);

	while (!rc && take(p, token)) {
		several = true;
		rc = operand(p);
	}
	if (!rc && several)
		rc = add_node(p, &(struct probe_node){ .kind = kind }, at);
	return rc;
}

static enum gs_code parse_and(struct parser *p)
{
	return parse_row(p, "&&", PROBE_NODE_AND, parse_not);
}

static enum gs_code parse_or(struct parser *p)
{
	return parse_row(p, "||", PROBE_NODE_OR, parse_and);
}

enum gs_code probe_predicate_parse(const char *text, struct probe_clause *clause,
				   struct gs_error *err)
{
	struct parser p = { .text = text, .len = strlen(text), .clause = clause, .err = err };

	if (p.len > PROBE_TEXT_MAX)
		return gs_fail(err, GS_ETOOBIG, "a predicate of more than %u bytes",
			       PROBE_TEXT_MAX);
	enum gs_code rc = parse_or(&p);
	if (!rc && peek(&p))
		rc = fail_at(&p, GS_EINVAL, "more than a predicate");
	return rc;
}

/* --- actions -------------------------------------------------------------------------------------
 */

static enum gs_code add_term(struct parser *p, struct probe_action *a)
{
	if (a->term_count == PROBE_TERMS_MAX)
		return fail_at(p, GS_ETOOBIG, "more than %u terms", PROBE_TERMS_MAX);
	return parse_term(p, &a->term[a->term_count++]);
}

static enum gs_code parse_trace(struct parser *p, struct probe_action *a)
{
	enum gs_code rc = GS_OK;

	if (peek(p) == '"') {
		rc = parse_string(p, a->label, sizeof(a->label), "a label");
		if (rc || !take(p, ","))
			return rc;
	} else if (peek(p) == ')') {
		return GS_OK;
	}
	do {
		rc = add_term(p, a);
	} while (!rc && take(p, ","));
	return rc;
}

static enum gs_code parse_record(struct parser *p, struct probe_action *a)
{
	struct probe_term operation = { .kind = PROBE_TERM_NUMBER };
	enum gs_code rc = parse_term(p, &a->of);

	if (!rc && take(p, ","))
		rc = parse_term(p, &operation);
	if (!rc && (operation.kind != PROBE_TERM_NUMBER || operation.number >= PROBE_OPERATIONS))
		return fail_at(p, GS_EINVAL, "the operation is a number in 0 … %u",
			       PROBE_OPERATIONS - 1);
	a->operation = (uint32_t)operation.number;
	return rc;
}

static enum gs_code parse_arguments(struct parser *p, struct probe_action *a)
{
	switch (a->kind) {
	case PROBE_ACTION_SUM:
	case PROBE_ACTION_MIN:
	case PROBE_ACTION_MAX:
	case PROBE_ACTION_AVG:
	case PROBE_ACTION_QUANTIZE:
	case PROBE_ACTION_ERASE: return parse_term(p, &a->of);
	case PROBE_ACTION_TRACE: return parse_trace(p, a);
	case PROBE_ACTION_RECORD: return parse_record(p, a);
	case PROBE_ACTION_COUNT:
	case PROBE_ACTION_STACKSHOT:
	case PROBE_ACTION_EXIT: return GS_OK;
	}
	return GS_OK;
}

static enum gs_code parse_keys(struct parser *p, struct probe_action *a)
{
	enum gs_code rc = GS_OK;

	if (word_length(p) != 2 || !probe_action_aggregates(a->kind) || !take(p, "by"))
		return GS_OK;
	do {
		rc = add_term(p, a);
	} while (!rc && take(p, ","));
	return rc;
}

static enum gs_code parse_action(struct parser *p)
{
	struct probe_clause *c = p->clause;
	const size_t n = word_length(p);
	struct probe_action *a = &c->action[c->action_count];

	if (c->action_count == PROBE_ACTIONS_MAX)
		return fail_at(p, GS_ETOOBIG, "more than %u actions", PROBE_ACTIONS_MAX);
	if (!n || !probe_action_of_name(p->text + p->at, n, &a->kind))
		return fail_at(p, GS_EINVAL, "not an action: \"%.*s\"", (int)gs_min(n, 32),
			       p->text + p->at);
	p->at += n;
	enum gs_code rc = expect(p, "(");
	if (!rc)
		rc = parse_arguments(p, a);
	if (!rc)
		rc = expect(p, ")");
	if (!rc)
		rc = parse_keys(p, a);
	c->action_count++;
	if (rc)
		return rc;
	rc = probe_action_check(a, p->err);
	return rc ? wrap_at(p, rc) : GS_OK;
}

static enum gs_code parse_actions(struct parser *p)
{
	if (!take(p, "{"))
		return GS_OK;
	while (!take(p, "}")) {
		enum gs_code rc = parse_action(p);

		if (rc)
			return rc;
		if (!take(p, ";") && peek(p) != '}')
			return fail_at(p, GS_EINVAL, "\";\" or \"}\" is missing");
	}
	return GS_OK;
}

/* --- patterns and clauses ------------------------------------------------------------------------
 */

static bool is_pattern(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_.$-+*?:@", c));
}

static enum gs_code set_part(struct parser *p, char *part, size_t size, const char *text, size_t n)
{
	if (n >= size)
		return fail_at(p, GS_ETOOBIG, "a part of a probe's name is longer than %zu bytes",
			       size - 1);
	memcpy(part, text, n);
	part[n] = '\0';
	return GS_OK;
}

/* Parts from the right, as people leave out what stands in front. */
static enum gs_code parse_pattern(struct parser *p, struct probe_pattern *out)
{
	char *const part[] = { out->name, out->function, out->module, out->provider };
	static const size_t size[] = { sizeof(out->name), sizeof(out->function),
				       sizeof(out->module), sizeof(out->provider) };
	size_t n = 0;

	*out = (struct probe_pattern){ 0 };
	skip_space(p);
	const char *text = p->text + p->at;
	while (p->at + n < p->len && is_pattern(text[n]))
		n++;
	if (!n)
		return fail_at(p, GS_EINVAL, "a probe is missing (provider:module:function:name)");
	size_t end = n;
	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		size_t start = end;

		while (start && text[start - 1] != ':')
			start--;
		enum gs_code rc = set_part(p, part[i], size[i], text + start, end - start);
		if (rc)
			return rc;
		if (!start) {
			p->at += n;
			return GS_OK;
		}
		end = start - 1;
	}
	return fail_at(p, GS_EINVAL, "a probe's name has four parts at most");
}

enum gs_code probe_pattern_parse(const char *text, struct probe_pattern *pattern_out,
				 struct gs_error *err)
{
	struct parser p = { .text = text, .len = strlen(text), .err = err };
	enum gs_code rc = parse_pattern(&p, pattern_out);

	if (!rc && p.at < p.len)
		rc = fail_at(&p, GS_EINVAL, "more than a probe");
	return rc;
}

static enum gs_code parse_patterns(struct parser *p)
{
	struct probe_clause *c = p->clause;
	enum gs_code rc;

	do {
		if (c->pattern_count == PROBE_PATTERNS_MAX)
			return fail_at(p, GS_ETOOBIG, "more than %u probes in a clause",
				       PROBE_PATTERNS_MAX);
		rc = parse_pattern(p, &c->pattern[c->pattern_count++]);
	} while (!rc && take(p, ","));
	return rc;
}

static enum gs_code parse_clause(struct parser *p)
{
	enum gs_code rc = parse_patterns(p);

	if (!rc && take(p, "/")) {
		rc = parse_or(p);
		if (!rc)
			rc = expect(p, "/");
	}
	return rc ? rc : parse_actions(p);
}

enum gs_code probe_program_parse(const char *text, size_t len, struct probe_program *program_out,
				 struct gs_error *err)
{
	struct gs_error local = { 0 };
	struct parser p = { .text = text, .len = len, .err = err ? err : &local };
	enum gs_code rc = GS_OK;

	*program_out = (struct probe_program){ 0 };
	if (len > PROBE_TEXT_MAX)
		return gs_fail(err, GS_ETOOBIG, "a program of more than %u bytes", PROBE_TEXT_MAX);
	do {
		p.clause = probe_program_add(program_out, p.err);
		rc = p.clause ? parse_clause(&p) : p.err->code;
		(void)take(&p, ";"); /* as people put it between clauses on one line */
	} while (!rc && peek(&p));
	/* white space is not the only thing that peek() takes for the end */
	if (!rc && p.at < p.len)
		rc = fail_at(&p, GS_EINVAL, "a zero byte");
	if (rc)
		probe_program_deinit(program_out);
	return rc;
}
