/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of a guest's probes, and sessions: who has enabled what, and what that recorded. */
#ifndef INTROSPECT_PROBE_SESSION_H
#define INTROSPECT_PROBE_SESSION_H

/*
 *	probe_engine_create(&(struct probe_engine_config){ .guest = g }, &e, &err);
 *	probe_provider_add(e, …);
 *	probe_session_create(e, &s, &err);
 *	probe_session_enable(s, &program, NULL, &matched, &err);
 *	probe_session_go(s, &vcpu, &err);
 *	…probe_session_buffer(s, vcpu, &json, &err), probe_session_status(s, &status, &err)…
 *	probe_session_stop(s, &vcpu, &err);
 *	probe_session_destroy(s);
 *	probe_engine_destroy(e);
 *
 *	inactive --go--> warm-up --> active --stop--> cooldown --> stopped
 *				      |  \--exit()--> draining --stop--^
 *				      \---nobody asks---> killed <--/
 *
 * The operations and what each refuses are those of the DTrace device; docs/tracing.md tells them.
 * Data is kept for each vCPU twice: firings write to one half, the other is handed over. A hand-over
 * that fails changes nothing.
 *
 * Threads: any but a vCPU's, several at once; create and destroy of one thing by one thread. Calls wait
 * for each other, and for providers that enable or disable a probe.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/btlog/book.h"
#include "introspect/btlog/btlog.h"
#include "introspect/guest/guest.h"
#include "introspect/linux/linux.h"
#include "introspect/probe/program.h"
#include "introspect/probe/provider.h"

#define PROBE_SESSIONS_MAX	  32u
#define PROBE_SESSION_CLAUSES_MAX 256u
#define PROBE_ENABLED_MAX	  16384u /* probes that a session has enabled, clause by clause */
#define PROBE_BUFFER_MIN	  4096u	 /* bytes, each half of each vCPU */
#define PROBE_BUFFER_MAX	  (1u << 20)
#define PROBE_BUFFER_DEFAULT	  65536u
#define PROBE_AGGREGATION_DEFAULT 262144u
#define PROBE_SESSION_BYTES_MAX	  (UINT64_C(256) << 20) /* all halves of all vCPUs */
#define PROBE_LIST_MAX		  500u			/* probes in a page of a list */
/* A session of which nobody has asked for status or data for so long is killed. */
#define PROBE_DEADMAN_NS UINT64_C(30000000000)

/* --- the engine ---------------------------------------------------------------------------------
 */

struct probe_engine_config {
	struct guest *guest;	 /* borrowed */
	uint64_t deadman_ns;	 /* 0: PROBE_DEADMAN_NS */
	uint64_t (*clock)(void); /* of the deadman rule and of records; NULL: gs_clock_ns() */
	/**
	 * An action wants a capture; on a firing thread, with a lane held: note it and return. NULL:
	 * programs with that action are refused.
	 */
	void (*stackshot)(void *arg, uint32_t session);
	void *arg;
};

/**
 * @param config borrowed for the call
 * @param e_out  returned: free with probe_engine_destroy()
 * @return GS_OK; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code probe_engine_create(const struct probe_engine_config *config,
					     struct probe_engine **e_out, struct gs_error *err);

/** No session is left, and no provider fires any more. NULL is fine. */
void probe_engine_destroy(struct probe_engine *e);

/** What terms of the guest's kernel are read with. */
struct probe_world {
	const struct lnx_kernel *kernel;
	struct btl_library *library;
	struct btl_log *log; /* where record() goes, and erase(); a hash log */
	/**
	 * The function at an address outside of the kernel's image, as it is now. Called by
	 * probe_session_buffer() and probe_session_aggregates() alone, so that who calls these sees to
	 * whatever lock it needs. NULL: such addresses have no names
	 */
	bool (*name)(void *arg, uint64_t address, struct btl_name *name_out);
	void *arg; /* of name() */
};

/**
 * The guest's kernel was found (or is another one); all of it is borrowed until the next call. NULL:
 * there is none (any more): on return nobody uses the old one. Sessions that have stacks of the old
 * library lose them.
 */
void probe_engine_world_set(struct probe_engine *e, const struct probe_world *world);

/**
 * Kill the sessions that nobody has asked about for too long, and have providers look whether what is
 * enabled is there still. To be called about once a second.
 */
void probe_engine_deadman(struct probe_engine *e);

/** Versions and limits. NULL: out of memory; returned: json_decref() */
json_t *probe_engine_conf(struct probe_engine *e);

/**
 * A provider: its name and how many probes it has made so far.
 *
 * @return GS_OK; GS_ENOENT; GS_ENOSPC
 */
GS_MUST_USE enum gs_code probe_engine_provider(struct probe_engine *e, const char *name,
					       json_t **json_out, struct gs_error *err);

/**
 * Probes in ascending order of ids.
 *
 * @param pattern  NULL: all
 * @param from     the least id; 0: from the start, for which providers first make what is asked for
 * @param json_out "probes", at most PROBE_LIST_MAX, and "next": the least id of further ones, or null
 * @return GS_OK; GS_ENOENT: none from there on; GS_ENOSPC
 */
GS_MUST_USE enum gs_code probe_engine_list(struct probe_engine *e,
					   const struct probe_pattern *pattern, uint32_t from,
					   json_t **json_out, struct gs_error *err);

/** Type of a probe's argument. @return GS_OK; GS_EINVAL: no such probe; GS_ENOENT: argument, or its type */
GS_MUST_USE enum gs_code probe_engine_arg(struct probe_engine *e, uint32_t id, uint32_t n,
					  struct probe_arg_type *type_out, struct gs_error *err);

/* --- sessions -----------------------------------------------------------------------------------
 */

enum probe_state {
	PROBE_INACTIVE,
	PROBE_WARMUP,
	PROBE_ACTIVE,
	PROBE_DRAINING,
	PROBE_COOLDOWN,
	PROBE_STOPPED,
	PROBE_KILLED,
};

const char *probe_state_name(enum probe_state state);

/** What a buffer does when it is full: the half that is written to is what counts. */
enum probe_policy {
	PROBE_POLICY_SWITCH, /* drops; a hand-over makes room */
	PROBE_POLICY_RING,   /* overwrites the oldest; handed over once, when stopped */
	PROBE_POLICY_FILL,   /* that vCPU's recording ends; handed over once, when stopped */
};

const char *probe_policy_name(enum probe_policy policy);
bool probe_policy_of_name(const char *name, enum probe_policy *policy_out);

struct probe_options {
	enum probe_policy policy;
	uint32_t buffer_bytes;	    /* 0: PROBE_BUFFER_DEFAULT */
	uint32_t aggregation_bytes; /* 0: PROBE_AGGREGATION_DEFAULT */
};

struct probe_session;

/** @return GS_OK; GS_ETOOBIG: PROBE_SESSIONS_MAX; GS_ENOSPC */
GS_MUST_USE enum gs_code probe_session_create(struct probe_engine *e, struct probe_session **s_out,
					      struct gs_error *err);

/** In every state; what it enabled is disabled on return. NULL is fine. */
void probe_session_destroy(struct probe_session *s);

/** Ascends, and is not used again. */
uint32_t probe_session_id(const struct probe_session *s);

/**
 * Enable a program: all of it or nothing. Several add up.
 *
 * @param program     its clauses are copied
 * @param options     NULL: as they are; else they hold from now on, if all succeeds
 * @param matched_out probes that were enabled, clause by clause; 0 is no error
 * @return GS_OK; GS_EBUSY: not inactive; GS_ETOOBIG: PROBE_SESSION_CLAUSES_MAX, _ENABLED_MAX,
 *         _BYTES_MAX; GS_EINVAL: options; GS_ENOTSUP: an action that is not possible here; GS_ENOSPC;
 *         others from providers
 */
GS_MUST_USE enum gs_code probe_session_enable(struct probe_session *s,
					      const struct probe_program *program,
					      const struct probe_options *options,
					      uint32_t *matched_out, struct gs_error *err);

/** Match what is enabled with probes that came since. @return GS_OK; GS_EBUSY: stopped or killed; … */
GS_MUST_USE enum gs_code probe_session_rematch(struct probe_session *s, uint32_t *matched_out,
					       struct gs_error *err);

/**
 * Apply the clauses that have a pattern to further probes.
 *
 * @param match   as it stands in an enabling
 * @return GS_OK; GS_ENOENT: no enabling has @p match; as probe_session_rematch()
 */
GS_MUST_USE enum gs_code probe_session_replicate(struct probe_session *s,
						 const struct probe_pattern *match,
						 const struct probe_pattern *create,
						 uint32_t *matched_out, struct gs_error *err);

/**
 * What is enabled, as a program.
 *
 * @param max      bytes of text at most; the true length is in the answer
 * @param json_out "text", "length", "program"
 */
GS_MUST_USE enum gs_code probe_session_enablings(struct probe_session *s, uint32_t max,
						 json_t **json_out, struct gs_error *err);

/** A probe that is enabled, and what it records: at most @p room records. @return GS_OK; GS_ENOENT */
GS_MUST_USE enum gs_code probe_session_eprobe(struct probe_session *s, uint32_t epid, uint32_t room,
					      json_t **json_out, struct gs_error *err);

/** An aggregation. @return GS_OK; GS_ENOENT */
GS_MUST_USE enum gs_code probe_session_aggregation(struct probe_session *s, uint32_t id,
						   uint32_t room, json_t **json_out,
						   struct gs_error *err);

/** The label of a trace() by its number, cut to @p max bytes. @return GS_OK; GS_ENOENT */
GS_MUST_USE enum gs_code probe_session_format(struct probe_session *s, uint32_t number,
					      uint32_t max, json_t **json_out,
					      struct gs_error *err);

/**
 * Start recording.
 *
 * @param vcpu_out on whose behalf session:::begin was fired: the first record is that one's
 * @return GS_OK; GS_EBUSY: not inactive; GS_ENOSPC: no memory for buffers, still inactive
 */
GS_MUST_USE enum gs_code probe_session_go(struct probe_session *s, uint32_t *vcpu_out,
					  struct gs_error *err);

/** End it, for good. @return GS_OK; GS_EBUSY: neither active nor draining */
GS_MUST_USE enum gs_code probe_session_stop(struct probe_session *s, uint32_t *vcpu_out,
					    struct gs_error *err);

/**
 * Records of a vCPU that nobody has had yet, a page of them.
 *
 * @param json_out "size" (bytes), "drops", "errors" (of the half that is handed over, with its first
 *                 page), "oldest" (offset of the oldest record in a ring), "records", "more"
 * @return GS_OK; GS_ENOENT: no such vCPU; GS_EBUSY: inactive; ring or fill, and not stopped; the vCPU
 *         was not there to switch; GS_ENOSPC: nothing was handed over
 */
GS_MUST_USE enum gs_code probe_session_buffer(struct probe_session *s, uint32_t vcpu,
					      json_t **json_out, struct gs_error *err);

/** The same for aggregations: "entries" are to be added to those that came before. */
GS_MUST_USE enum gs_code probe_session_aggregates(struct probe_session *s, uint32_t vcpu,
						  json_t **json_out, struct gs_error *err);

struct probe_status {
	enum probe_state state;
	uint64_t drops;		    /* records for which there was no room */
	uint64_t aggregation_drops; /* the same of aggregations */
	uint64_t errors;	    /* firings of which a term could not be had */
	uint64_t stack_drops;	    /* of these: no place for a stack */
	uint32_t filled;	    /* buffers of policy fill that are full */
	uint32_t enabled, clauses;
	uint32_t gone; /* of these: what they name was unloaded, so that they do not fire */
	bool exiting, killed;
};

/** Counters, and proof that somebody cares. @return GS_OK; GS_ENOENT: inactive */
GS_MUST_USE enum gs_code probe_session_status(struct probe_session *s,
					      struct probe_status *status_out,
					      struct gs_error *err);

#endif
