/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the machine: named, every signal blocked but at most the kick. */
#ifndef VMM_THREAD_H
#define VMM_THREAD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/**
 * The signal that makes KVM_RUN and blocking reads and writes return EINTR; its handler is empty.
 * Blocked in all threads but those started with @p kickable.
 */
#define VMM_SIGNAL_KICK SIGRTMIN

struct vmm_thread {
	pthread_t id;
	bool started;
	sem_t ended; /* posted as the last thing that the thread does */
	void (*fn)(void *);
	void *arg;
};

/** Give the kick its empty handler; process-wide and idempotent. */
GS_MUST_USE enum gs_code vmm_thread_kick_install(struct gs_error *err);

/** Start @p fn(@p arg); @p name has at most 15 characters; @p t stays where it is until joined. */
GS_MUST_USE enum gs_code vmm_thread_start(struct vmm_thread *t, const char *name, bool kickable,
					  void (*fn)(void *), void *arg, struct gs_error *err);

/**
 * Wait for the end of a thread that has been told to end; does nothing when none was started.
 *
 * @param kick_after_ns from then on it is kicked until it ends; UINT64_MAX: never
 */
void vmm_thread_join(struct vmm_thread *t, uint64_t kick_after_ns);

/** A mutex, and a condition that waits on the monotonic clock. @return GS_OK; GS_ESYS */
GS_MUST_USE enum gs_code vmm_lock_init(pthread_mutex_t *lock, struct gs_error *err);
GS_MUST_USE enum gs_code vmm_cond_init(pthread_cond_t *cond, struct gs_error *err);

/** Wait until signalled or gs_clock_ns() reaches @p until_ns. @return false: it did */
bool vmm_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
