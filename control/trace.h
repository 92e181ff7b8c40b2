/* SPDX-License-Identifier: Apache-2.0 */
/* Tracing of one guest: sessions of connections, the operations of the protocol, and three providers. */
#ifndef CONTROL_TRACE_H
#define CONTROL_TRACE_H

/*
 *	ctl_trace_create(guest, btlogs, &t, &err);
 *	…for each connection a struct ctl_trace_client, zeroed…
 *	ctl_trace_do(t, &client, "trace-enable", arguments, &answer, &err);
 *	ctl_trace_client_gone(t, &client);
 *	…
 *	ctl_trace_end(t);	// while btlogs are there
 *	ctl_trace_destroy(t);	// when no vCPU runs any more
 *
 * Providers: "profile" (profile-N, tick-N), "vcpu" and "guest", which fire what ctl_trace_vcpu() and
 * ctl_trace_guest() are told. docs/tracing.md has what they offer.
 *
 * Threads: one at a time, but for ctl_trace_vcpu() and ctl_trace_guest(). An operation may wait: for the
 * kernel's search, for a provider, for a vCPU.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "control/btlogs.h"
#include "introspect/guest/guest.h"

/** Most of a second that profile and tick may fire. */
#define CTL_TRACE_HZ_MAX 1000u

struct ctl_trace;

/** A connection's. */
struct ctl_trace_client {
	uint32_t session; /* its own; 0: none yet */
};

/**
 * @param btlogs  where kernel, stacks and the log "probes" come from; both are borrowed until
 *                ctl_trace_end(), the guest until destroyed
 * @return GS_OK; GS_ENOSPC: out of memory, or no thread
 */
GS_MUST_USE enum gs_code ctl_trace_create(struct guest *g, struct ctl_btlogs *btlogs,
					  struct ctl_trace **t_out, struct gs_error *err);

/** End all sessions and the thread; events are nobody's any more. NULL, and twice, is fine. */
void ctl_trace_end(struct ctl_trace *t);

/** Ends it, too. Nobody tells events any more. NULL is fine. */
void ctl_trace_destroy(struct ctl_trace *t);

/**
 * Carry out an operation.
 *
 * @param command    one of the protocol's that begin with "trace-"
 * @param arguments  as they came, but of the types that ctl_help() tells; borrowed; NULL: none
 * @param answer_out returned: json_decref()
 * @return GS_OK; GS_EINVAL: arguments; else of the operation
 */
GS_MUST_USE enum gs_code ctl_trace_do(struct ctl_trace *t, struct ctl_trace_client *client,
				      const char *command, const json_t *arguments,
				      json_t **answer_out, struct gs_error *err);

/** Its session ends, unless it was made persistent. */
void ctl_trace_client_gone(struct ctl_trace *t, struct ctl_trace_client *client);

/**
 * Have somebody told that programs want captures: the call comes on any thread, and must only note it.
 * NULL: nobody any more, from the return on. Threads: any.
 */
void ctl_trace_on_stackshot(struct ctl_trace *t, void (*wanted)(void *arg), void *arg);

/**
 * The file that the next of these captures goes to: in the folder of the session that wants it.
 *
 * @return absolute, free with free(); NULL: none is wanted, or one was taken less than a second ago
 * (counted). Threads: one at a time, not that of the operations.
 */
char *ctl_trace_take_stackshot(struct ctl_trace *t);

/** What a vCPU of our machine does. */
enum ctl_trace_vcpu {
	CTL_TRACE_EXIT_MMIO,	    /* value: guest-physical address */
	CTL_TRACE_EXIT_INTERRUPTED, /* somebody wants it out of the guest */
	CTL_TRACE_EXIT_OTHER,	    /* value: KVM's number of the reason */
	CTL_TRACE_STOP,		    /* it is held by a stop */
	CTL_TRACE_RESUME,
	CTL_TRACE_VCPU_EVENTS
};

/**
 * Tell of a vCPU; costs a load when nobody traces it.
 *
 * @param fetch  gives its registers, on this thread, during the call
 * Threads: the vCPU's. Allocates nothing.
 */
void ctl_trace_vcpu(struct ctl_trace *t, uint32_t vcpu, enum ctl_trace_vcpu what, uint64_t value,
		    bool (*fetch)(void *arg, struct guest_vcpu_regs *regs_out), void *arg);

/** What the guest as a whole does. */
enum ctl_trace_guest {
	CTL_TRACE_BOOT, /* a kernel was found that was not known */
	CTL_TRACE_PANIC,
	CTL_TRACE_OOPS,
	CTL_TRACE_CONSOLE,
	CTL_TRACE_HUNG_TASK, /* pid and tid in value and more */
	CTL_TRACE_SOFT_LOCKUP,
	CTL_TRACE_POWEROFF,
	CTL_TRACE_REBOOT,
	CTL_TRACE_CRASH,
	CTL_TRACE_GUEST_EVENTS
};

/** Whether anybody traces such events, so that it is worth looking for them. Threads: any. NULL is fine. */
bool ctl_trace_wants_guest(const struct ctl_trace *t, enum ctl_trace_guest what);

/** Threads: any. NULL is fine. */
void ctl_trace_guest(struct ctl_trace *t, enum ctl_trace_guest what, uint64_t value, uint64_t more);

#endif
