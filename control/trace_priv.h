/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of tracing share. */
#ifndef CONTROL_TRACE_PRIV_H
#define CONTROL_TRACE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "control/btlogs_priv.h"
#include "control/trace.h"
#include "introspect/probe/fbt.h"
#include "introspect/probe/session.h"

#define TRACE_RATES_MAX 64u

struct trace_session {
	LIST_ENTRY(trace_session) link;
	struct probe_session *s;
	bool persistent;
	char *dir;	/* for its captures; NULL: none. lock */
	uint32_t taken; /* captures so far; lock */
};

/* A probe of the provider "profile". */
struct trace_rate {
	uint64_t period_ns;
	bool is_tick;
	uint32_t id;	  /* 0: not enabled */
	uint64_t next_ns; /* when it is due */
	uint64_t due;	  /* times that it was, since it was enabled */
	uint64_t late;	  /* of these, times that came too late to be taken */
};

/* What of these is due: ids, how many times each had passed unused (arg0), and how often it was due (arg1). */
struct trace_due {
	uint32_t count, profiles;
	struct {
		uint32_t id;
		bool is_tick;
		uint64_t late, due;
	} probe[TRACE_RATES_MAX];
};

struct trace_event {
	_Atomic uint32_t id; /* of the probe; 0: not enabled */
};

struct ctl_trace {
	struct guest *g;
	struct ctl_btlogs *btlogs;
	struct probe_engine *e;
	LIST_HEAD(trace_sessions, trace_session) sessions;
	bool ended;
	_Atomic uint32_t wants;	     /* number of the session that wants a capture; 0: none */
	pthread_mutex_t wanted_lock; /* guards the next two; held for a moment, by firings, too */
	void (*wanted)(void *arg);
	void *wanted_arg;
	uint64_t stackshot_ns;	     /* when the last one was taken; lock */
	_Atomic uint64_t suppressed; /* that came too soon after it */

	struct btlogs_code *code; /* of the kernel that is known; its logs' lock */
	bool has_looked; /* at what modules there are, since the hand-over began; the same */

	struct probe_fbt *fbt; /* NULL: the guest takes no breakpoints */
	struct probe_provider *profile, *vcpu, *guest;
	struct trace_event vcpu_event[CTL_TRACE_VCPU_EVENTS];
	struct trace_event guest_event[CTL_TRACE_GUEST_EVENTS];

	pthread_t thread;
	bool has_thread;
	/* guards the list of sessions against other threads, and what follows; not held while probes fire. Taken under the engine's lock */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ending;
	struct trace_rate rate[TRACE_RATES_MAX];
	uint32_t rates;

	/* the thread's */
	struct trace_due due;
	uint64_t tpidr[GUEST_VCPUS_MAX]; /* of each vCPU, once known */
};

/** Providers; before any session. */
GS_MUST_USE enum gs_code ctl_trace_add_profile(struct ctl_trace *t, struct gs_error *err);
GS_MUST_USE enum gs_code ctl_trace_add_events(struct ctl_trace *t, struct gs_error *err);

/** The thread of profile, tick and the deadman rule. */
GS_MUST_USE enum gs_code ctl_trace_start(struct ctl_trace *t, struct gs_error *err);
void ctl_trace_join(struct ctl_trace *t);

#endif
