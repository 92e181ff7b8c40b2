/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of what a session has enabled: made up first, then applied whole. */
#ifndef INTROSPECT_PROBE_ENABLE_H
#define INTROSPECT_PROBE_ENABLE_H

#include "introspect/probe/priv.h"

/* Everything here is called with engine.lock held, but for probe_enabling_create(). */
struct probe_change {
	struct probe_enabling **enabling; /* new clauses */
	uint32_t enablings;
	struct probe_ecb **ecb; /* new ones, of new and of old clauses */
	uint32_t ecbs;
	uint32_t aggregations; /* of these */
	uint32_t last;	       /* probes up to here were looked at */
	bool old_too;	       /* ... by the session's own clauses as well */
};

/** NULL: out of memory; free with free() */
struct probe_enabling *probe_enabling_create(const struct probe_clause *clause);

GS_MUST_USE enum gs_code probe_change_add_clause(struct probe_session *s,
						 struct probe_change *change,
						 const struct probe_clause *clause,
						 struct gs_error *err);

/**
 * Find the probes that are meant.
 *
 * @param old_too  by the session's own clauses as well, among the probes that are new to these
 */
GS_MUST_USE enum gs_code probe_change_match(struct probe_session *s, struct probe_change *change,
					    bool old_too, struct gs_error *err);

/** Enable them and make them the session's. On failure nothing has changed. */
GS_MUST_USE enum gs_code probe_change_apply(struct probe_session *s, struct probe_change *change,
					    uint32_t *matched_out, struct gs_error *err);

void probe_change_deinit(struct probe_change *change);

#endif
