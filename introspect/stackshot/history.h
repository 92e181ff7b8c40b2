/* SPDX-License-Identifier: Apache-2.0 */
/* What processes and threads were like in the last capture: what a delta compares with. Private. */
#ifndef INTROSPECT_STACKSHOT_HISTORY_H
#define INTROSPECT_STACKSHOT_HISTORY_H

/*
 * The original compares the time at which a thread last ran with the time that the request names.
 * Here the two are of different clocks: the guest's scheduler counts each CPU's time without
 * interrupts and steal, and the request's is the host's. So it is remembered what the record of each
 * thread was, and since which capture it has been the same in every one. A thread that has run since
 * has another: its switches are counted. One that is not known is one that has changed.
 *
 * Threads: any number may look up and note what they saw, while nobody changes it.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/stackshot/records.h"

struct ss_engine;

/* Of since_ns: the thread was being executed, or its stack was not whole; it is told again. */
#define SS_SINCE_NEVER UINT64_MAX

/** A process or a thread. */
struct ss_mark {
	uint64_t id;		  /* of its container; not 0, as the idle task is not remembered */
	uint64_t since_ns;	  /* start of the capture from which on it has been the same */
	_Atomic uint64_t seen_ns; /* start of the last delta that found it the same */
	union {
		struct ss_task_record task;
		struct ss_thread_record thread; /* without what says where and how it was read */
	} r;
};

struct ss_marks {
	struct ss_mark *mark;
	uint32_t count, max;
	uint32_t *slot; /* hashed by id: index of the mark + 1; 0: free */
	uint32_t slots; /* 0, or a power of two */
	uint64_t seed;	/* not known to the guest, which chooses the ids */
};

struct ss_history {
	struct ss_marks tasks, threads;
};

void ss_history_deinit(struct ss_history *h);

/**
 * The mark of a process that is as it was at @p since_ns and in every capture after it.
 *
 * @return NULL: it has changed, or is not known
 * Legal while the guest is stopped.
 */
struct ss_mark *ss_history_task(const struct ss_history *h, uint64_t id,
				const struct ss_task_record *now, uint64_t since_ns);

/** The same of a thread; @p now is made without a vCPU (-1) and with an empty stack. */
struct ss_mark *ss_history_thread(const struct ss_history *h, uint64_t id,
				  const struct ss_thread_record *now, uint64_t since_ns);

/** Note that a mark still holds in a capture that began at @p start_ns. */
static inline void ss_mark_see(struct ss_mark *m, uint64_t start_ns)
{
	/* relaxed: looked at when the workers are done */
	atomic_store_explicit(&m->seen_ns, start_ns, memory_order_relaxed);
}

/**
 * Remember the capture that an engine has just finished, instead of the one before. Without memory
 * for it nothing is remembered: the next delta tells everything.
 */
void ss_history_update(struct ss_history *h, const struct ss_engine *e);

#endif
