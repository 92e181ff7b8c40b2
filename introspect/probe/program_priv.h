/* SPDX-License-Identifier: Apache-2.0 */
/* What the two forms of programs share. */
#ifndef INTROSPECT_PROBE_PROGRAM_PRIV_H
#define INTROSPECT_PROBE_PROGRAM_PRIV_H

#include "introspect/probe/program.h"

/** A clause more. NULL with a reason: too many, or out of memory */
struct probe_clause *probe_program_add(struct probe_program *p, struct gs_error *err);

/** @return false: no term has this name */
bool probe_term_of_name(const char *name, size_t len, struct probe_term *term_out);

/** Whether a term is a number, so that it can be compared and added up. */
bool probe_term_is_number(const struct probe_term *term);

/** Whether two terms can be compared so. */
GS_MUST_USE enum gs_code probe_compare_check(const struct probe_node *node, struct gs_error *err);

/** Whether an action has what it needs. */
GS_MUST_USE enum gs_code probe_action_check(const struct probe_action *a, struct gs_error *err);

/** The kind of an action's name. @return false: none has it */
bool probe_action_of_name(const char *name, size_t len, enum probe_action_kind *kind_out);

/** Symbol of a comparison ("=="). */
const char *probe_compare_name(enum probe_compare compare);
/** The comparison that a text begins with. @return its length, 0: none */
size_t probe_compare_of_name(const char *text, size_t len, enum probe_compare *compare_out);

/** A term that is all of a text. */
GS_MUST_USE enum gs_code probe_term_parse(const char *text, struct probe_term *term_out,
					  struct gs_error *err);

/** A predicate that is all of a text, into a clause that has none yet. */
GS_MUST_USE enum gs_code probe_predicate_parse(const char *text, struct probe_clause *clause,
					       struct gs_error *err);

/** A clause's predicate as text, without the slashes. NULL: out of memory; free with free() */
char *probe_predicate_text(const struct probe_clause *clause);

#endif
