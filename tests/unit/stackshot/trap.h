/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that must not be made while the guest is stopped. */
#ifndef TESTS_UNIT_STACKSHOT_TRAP_H
#define TESTS_UNIT_STACKSHOT_TRAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/unit/linux/linux_guest.h"

/*
 * The program is linked so that calls of the functions in trap.c come here first (--wrap, see
 * tests/tests.mk); they go on to the real ones. What a library does in itself is not seen: system
 * calls of all are test_stopped.c's.
 */

/**
 * While set, calls are counted: by any thread, but of those to lock, wait and wake only the ones of
 * the thread that armed the trap, and of helpers at work. Before and after it they sleep at a lock
 * of the pool.
 */
extern _Atomic bool trap_set;
void trap_arm(void);
/** How many there were, and the name of the first; NULL: none. */
extern _Atomic uint32_t trap_calls;
extern _Atomic(const char *) trap_first;

void trap_reset(void);

/** Have the trap armed while a guest is stopped; replaces its hooks. */
void trap_while_stopped(struct linux_guest *g);

#endif
