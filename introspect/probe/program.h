/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: which probes, under which condition, do what. As text and as JSON. */
#ifndef INTROSPECT_PROBE_PROGRAM_H
#define INTROSPECT_PROBE_PROGRAM_H

/*
 *	fbt::vfs_read:entry /comm == "dd" && arg2 >= 4096/ { count() by stack; sum(arg2) by comm }
 *	profile-99 { count() by symbol, comm }
 *
 * A program is a row of clauses; each has patterns of probes, perhaps a predicate, and actions.
 * docs/tracing.md has the language. Programs come from anybody: all is bounded by what is below.
 *
 *	struct probe_program p;
 *	if (!probe_program_parse(text, strlen(text), &p, &err))
 *		…
 *	probe_program_deinit(&p);
 *
 * Threads: any. No globals.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/probe/provider.h"

#define PROBE_TEXT_MAX	   16384u /* bytes of a program */
#define PROBE_CLAUSES_MAX  32u	  /* of a program */
#define PROBE_PATTERNS_MAX 16u	  /* of a clause */
#define PROBE_NODES_MAX	   64u	  /* comparisons and operators of a predicate */
#define PROBE_DEPTH_MAX	   8u	  /* of a predicate: operators inside of each other */
#define PROBE_ACTIONS_MAX  16u	  /* of a clause */
#define PROBE_KEYS_MAX	   4u	  /* of an aggregation */
#define PROBE_TERMS_MAX	   16u	  /* of one trace() */
#define PROBE_COMM_MAX	   16u	  /* name of a thread, NUL included; longer ones do not exist */
#define PROBE_LABEL_MAX	   128u	  /* label of a trace(), NUL included */
#define PROBE_OPERATIONS   64u	  /* of record(): those of a log of backtraces */

enum probe_term_kind {
	PROBE_TERM_NUMBER, /* a constant */
	PROBE_TERM_STRING, /* a constant, to compare comm with */
	PROBE_TERM_COMM,
	PROBE_TERM_PID, /* of the process */
	PROBE_TERM_TID, /* of the thread */
	PROBE_TERM_VCPU,
	PROBE_TERM_TIME, /* host's monotonic clock, ns */
	PROBE_TERM_ARG,	 /* arg0 … arg7 */
	PROBE_TERM_X,	 /* x0 … x30 */
	PROBE_TERM_SP,
	PROBE_TERM_PC,
	PROBE_TERM_PSTATE,
	PROBE_TERM_SYMBOL, /* function that pc is in */
	PROBE_TERM_STACK,  /* kernel stack */
};

struct probe_term {
	enum probe_term_kind kind;
	uint32_t n;		   /* of ARG and X */
	uint64_t number;	   /* of NUMBER; compared as a signed one */
	char text[PROBE_COMM_MAX]; /* of STRING */
};

enum probe_node_kind { PROBE_NODE_COMPARE, PROBE_NODE_AND, PROBE_NODE_OR, PROBE_NODE_NOT };

enum probe_compare { PROBE_EQ, PROBE_NE, PROBE_LT, PROBE_LE, PROBE_GT, PROBE_GE };

/* A predicate is a tree, as an array: an operator is followed by its operands. */
struct probe_node {
	enum probe_node_kind kind;
	enum probe_compare compare; /* of COMPARE */
	uint32_t end;		    /* the node behind all of its operands */
	struct probe_term left, right;
};

enum probe_action_kind {
	PROBE_ACTION_COUNT, /* aggregating ones, up to QUANTIZE */
	PROBE_ACTION_SUM,
	PROBE_ACTION_MIN,
	PROBE_ACTION_MAX,
	PROBE_ACTION_AVG,
	PROBE_ACTION_QUANTIZE,
	PROBE_ACTION_TRACE,	/* terms into the buffer */
	PROBE_ACTION_RECORD,	/* the stack into the log of backtraces, for an element */
	PROBE_ACTION_ERASE,	/* an element's records out of it */
	PROBE_ACTION_STACKSHOT, /* have a capture taken */
	PROBE_ACTION_EXIT,	/* the session drains */
};

static inline bool probe_action_aggregates(enum probe_action_kind kind)
{
	return kind <= PROBE_ACTION_QUANTIZE;
}

struct probe_action {
	enum probe_action_kind kind;
	struct probe_term of; /* SUM … QUANTIZE, RECORD, ERASE: a number */
	uint32_t operation;   /* RECORD */
	uint32_t term_count;  /* TRACE: its terms; aggregating: its keys */
	struct probe_term term[PROBE_TERMS_MAX];
	char label[PROBE_LABEL_MAX]; /* TRACE; "": none */
};

struct probe_pattern {
	char provider[PROBE_NAME_MAX];
	char module[PROBE_NAME_MAX];
	char function[PROBE_FUNCTION_MAX];
	char name[PROBE_NAME_MAX];
};

struct probe_clause {
	uint32_t pattern_count, node_count, action_count;
	struct probe_pattern pattern[PROBE_PATTERNS_MAX];
	struct probe_node node[PROBE_NODES_MAX]; /* node_count 0: no predicate */
	struct probe_action action[PROBE_ACTIONS_MAX];
};

struct probe_program {
	struct probe_clause *clause;
	uint32_t count;
};

/**
 * Read a program.
 *
 * @param program_out freed by probe_program_deinit(); emptied on failure
 * @return GS_OK; GS_EINVAL: with the place and what was expected; GS_ETOOBIG: more than a limit above;
 *         GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code probe_program_parse(const char *text, size_t len,
					     struct probe_program *program_out,
					     struct gs_error *err);

/** The same from the JSON form. @param root borrowed */
GS_MUST_USE enum gs_code probe_program_from_json(const json_t *root,
						 struct probe_program *program_out,
						 struct gs_error *err);

/** Safe on a zeroed one, and twice. */
void probe_program_deinit(struct probe_program *program);

/** The text of clauses; reading it gives equal ones. NULL: out of memory; free with free() */
char *probe_program_text(const struct probe_clause *const *clauses, uint32_t count);

/** Their JSON form. NULL: out of memory; returned: json_decref() */
json_t *probe_program_json(const struct probe_clause *const *clauses, uint32_t count);

/** One pattern, all of @p text; parts from the right: "vfs_read:entry" is function and name. */
GS_MUST_USE enum gs_code probe_pattern_parse(const char *text, struct probe_pattern *pattern_out,
					     struct gs_error *err);

struct probe_name probe_pattern_name(const struct probe_pattern *pattern);

/** "provider:module:function:name". @param buf gets it, cut */
void probe_name_text(const struct probe_name *name, char *buf, size_t size);

#define PROBE_NAME_TEXT_MAX (3 * PROBE_NAME_MAX + PROBE_FUNCTION_MAX)
#define PROBE_TERM_TEXT_MAX 80

/** A term as a program has it. */
void probe_term_text(const struct probe_term *term, char buf[static PROBE_TERM_TEXT_MAX]);

/** "count", "trace", … */
const char *probe_action_name(enum probe_action_kind kind);

#endif
