/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace has recorded, put together and shown. */
#ifndef CLI_TRACE_VIEW_H
#define CLI_TRACE_VIEW_H

/*
 * The server hands aggregations over piece by piece: of each vCPU, since the last time. They are added up
 * here, by clause, action and keys; by probe as well where a clause has more than one. What comes from the
 * server is not trusted: whatever is not as it should be is left out.
 *
 * Threads: one.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cli_trace_view {
	json_t *probes;	      /* what trace-eprobe said, by "epid" as text */
	json_t *aggregations; /* what trace-agg-desc said, by id as text */
	json_t *sums;	      /* array: an object for each sum */
	json_t *places;	      /* of sums, by text of what they are of */
	bool json;
};

/** @return false: out of memory; deinit in either case */
bool cli_trace_view_init(struct cli_trace_view *v, bool json);
void cli_trace_view_deinit(struct cli_trace_view *v);

/** Whether a description is known already. */
bool cli_trace_knows_probe(const struct cli_trace_view *v, uint64_t epid);
bool cli_trace_knows_aggregation(const struct cli_trace_view *v, uint64_t id);

/** @param description taken */
void cli_trace_put_probe(struct cli_trace_view *v, uint64_t epid, json_t *description);
void cli_trace_put_aggregation(struct cli_trace_view *v, uint64_t id, json_t *description);

/** Print a record of trace-buf-snap. @param vcpu  whose it is */
void cli_trace_print_record(const struct cli_trace_view *v, uint64_t vcpu, const json_t *record,
			    FILE *f);

/** Add an entry of trace-agg-snap up. */
void cli_trace_add(struct cli_trace_view *v, const json_t *entry);

/** Print all sums. */
void cli_trace_print_sums(const struct cli_trace_view *v, FILE *f);

#endif
