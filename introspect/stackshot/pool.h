/* SPDX-License-Identifier: Apache-2.0 */
/* Parked threads that are woken for a capture. Private to introspect/stackshot. */
#ifndef INTROSPECT_STACKSHOT_POOL_H
#define INTROSPECT_STACKSHOT_POOL_H

/*
 * The threads are made once and sleep on a condition variable of the pool's own. They are woken
 * before the guest is stopped; within the stopped interval only ss_pool_avoid_own_cpu() is.
 *
 * Threads: one at a time calls ss_pool_create(), the others.
 */

#include <stdint.h>

#include "base/error.h"

struct ss_pool;

/**
 * Start threads.
 *
 * @param threads 0 …; 0 makes an empty pool
 * @param run     what each does on each ss_pool_run(); @p thread is 0 … threads - 1
 * @return GS_OK; GS_ENOSPC: out of memory, or the system has no more threads for us
 */
GS_MUST_USE enum gs_code ss_pool_create(uint32_t threads, void (*run)(void *arg, uint32_t thread),
					void *arg, struct ss_pool **pool_out, struct gs_error *err);

/** Wait for the threads' end, and free. NULL is fine. */
void ss_pool_destroy(struct ss_pool *pool);

/** Have each thread do its work once; returns at once. All must have finished the one before. */
void ss_pool_run(struct ss_pool *pool);

/**
 * Keep the threads off the CPU that the calling thread is on. While the guest runs, its vCPUs have all
 * CPUs, and a thread that is woken waits for any of them; when they leave, it may still be in the queue
 * of the one where the caller collects, with others idle. Does nothing where there is one CPU, or where
 * it was the same the last time.
 *
 * Legal while the guest is stopped: a system call for each thread, if that.
 */
void ss_pool_avoid_own_cpu(struct ss_pool *pool);

#endif
