/* SPDX-License-Identifier: Apache-2.0 */
/* The backtrace logs of one guest: what captures and samples have seen of its kernel's stacks. */
#ifndef CONTROL_BTLOGS_H
#define CONTROL_BTLOGS_H

/*
 *	ctl_btlogs_create(guest, &hints, &b, &err);
 *	…after each capture: ctl_btlogs_feed(b, result.data, result.size);
 *	ctl_btlogs_sample(b, 99, &err);		// from now on, by a thread of its own
 *	…
 *	ctl_btlogs_save(b, NULL, &data, &len, &err);
 *	ctl_btlogs_destroy(b);
 *
 * Three logs: "threads" (each thread of each capture; element: its task), "samples" (what vCPUs were
 * executing; element: the current task) and "probes" (what record() of traces puts there). A library belongs to one boot of one kernel: when the guest
 * has another one, all logs begin anew.
 *
 * Threads: any, but create and destroy. Calls block: for the kernel's search (some 40 ms, with one short
 * stop of the guest), for a log that is being read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/btlog/btlog.h"
#include "introspect/guest/guest.h"
#include "introspect/linux/linux.h"

#define CTL_SAMPLE_HZ_MAX 10000u

enum ctl_btlog_action { CTL_BTLOG_ENABLE, CTL_BTLOG_DISABLE, CTL_BTLOG_RESET };

struct ctl_sample_stats {
	uint32_t hz;	     /* 0: not sampling */
	uint64_t rounds;     /* over all vCPUs, since sampling was last started */
	uint64_t late;	     /* rounds that came too late to be taken: their samples are missing */
	uint64_t samples;    /* recorded, idle ones included */
	uint64_t idle;	     /* of these: the vCPU was idle; it was not stopped for that */
	uint64_t user;	     /* … in user mode */
	uint64_t unknown;    /* vCPUs whose task or registers were not known: not recorded */
	uint64_t failed;     /* vCPUs that could not be stopped */
	uint64_t held_ns;    /* vCPU time taken from the guest */
	uint64_t run_ns;     /* since sampling was started, until it ended */
	bool one_by_one;     /* each vCPU was stopped alone; else all at a time */
	struct gs_error end; /* why it ended by itself; GS_OK: it did not */
};

struct ctl_btlogs_stats {
	bool has_library; /* a kernel was found */
	char release[65];
	struct btl_library_stats library;
	struct btl_log_stats threads, samples, probes;
	struct ctl_sample_stats sampling;
};

struct ctl_btlogs;

/**
 * @param g      borrowed until destroyed
 * @param hints  copied; what it points to is borrowed; may be NULL
 * @param limit  bytes of the library; 0: BTL_LIMIT_DEFAULT
 * @return GS_OK; GS_EINVAL: the limit; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code ctl_btlogs_create(struct guest *g, const struct lnx_hints *hints,
					   uint64_t limit, struct ctl_btlogs **b_out,
					   struct gs_error *err);

/** Ends sampling. NULL is fine. */
void ctl_btlogs_destroy(struct ctl_btlogs *b);

/**
 * Record every thread of a finished capture; does nothing while "threads" is disabled, or when no
 * kernel is known.
 *
 * @param data, size  the stream; borrowed
 */
void ctl_btlogs_feed(struct ctl_btlogs *b, const void *data, size_t size);

/**
 * Start, change or end sampling.
 *
 * @param hz  rounds over all vCPUs in a second, up to CTL_SAMPLE_HZ_MAX; 0 ends it
 * @return GS_OK; GS_EINVAL: hz; GS_ENOENT: no kernel was found; GS_ESYS: no thread
 */
GS_MUST_USE enum gs_code ctl_btlogs_sample(struct ctl_btlogs *b, uint32_t hz, struct gs_error *err);

/** @param log NULL: all. @return GS_OK; GS_ENOENT: no log of this name, or no kernel; GS_ENOSPC */
GS_MUST_USE enum gs_code ctl_btlogs_act(struct ctl_btlogs *b, const char *log,
					enum ctl_btlog_action action, struct gs_error *err);

/**
 * The logs as a book (introspect/btlog/book.h) in kcdata.
 *
 * @param log       NULL: all
 * @param data_out  returned: free with free()
 * @return GS_OK; GS_ENOENT: no log of this name, or nothing in it; GS_ENOSPC
 */
GS_MUST_USE enum gs_code ctl_btlogs_save(struct ctl_btlogs *b, const char *log, uint8_t **data_out,
					 size_t *len_out, struct gs_error *err);

void ctl_btlogs_stats_get(struct ctl_btlogs *b, struct ctl_btlogs_stats *stats_out);

#endif
