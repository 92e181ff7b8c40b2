/* SPDX-License-Identifier: Apache-2.0 */
/* Read sections and grace periods. Private. */
#ifndef INTROSPECT_BTLOG_RCU_H
#define INTROSPECT_BTLOG_RCU_H

/*
 * liburcu's "bulletproof" flavour: threads need neither register nor report quiescent states, since they
 * belong to whoever calls us (event loops, workers). Its read section costs what that of the flavour
 * with registration does (1.7 and 1.6 ns where membarrier(2) is there).
 */

/*
 * Inlines the two functions below. Their header says that they are short enough for any program. Not with
 * the checkers that complain of what is in it (0.13.2): a reader's state is less aligned than its type, and
 * seems to be NULL.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__clang_analyzer__)
#define _LGPL_SOURCE
#endif
#include <urcu/urcu-bp.h>

/*
 * liburcu is not instrumented, so ThreadSanitizer is told what a grace period promises: all that readers
 * did in sections that began before it comes before what follows it.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define btl_tsan_acquire(addr) __tsan_acquire(addr)
#define btl_tsan_release(addr) __tsan_release(addr)
#else
#define btl_tsan_acquire(addr) ((void)(addr))
#define btl_tsan_release(addr) ((void)(addr))
#endif

static inline void btl_read_lock(void)
{
	urcu_bp_read_lock();
}

static inline void btl_read_unlock(void *tag)
{
	btl_tsan_release(tag);
	urcu_bp_read_unlock();
}

/* Wait until every read section that runs now has ended. */
static inline void btl_synchronize(void *tag)
{
	urcu_bp_synchronize_rcu();
	btl_tsan_acquire(tag);
}

#endif
