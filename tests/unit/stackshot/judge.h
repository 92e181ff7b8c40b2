/* SPDX-License-Identifier: Apache-2.0 */
/* Captures beside a good one: the same, or what is not is said to be missing. */
#ifndef TESTS_UNIT_STACKSHOT_JUDGE_H
#define TESTS_UNIT_STACKSHOT_JUDGE_H

#include <stdbool.h>

#include "tests/unit/stackshot/view.h"

/** The good one. */
extern struct view good;

/** Make what result and view of session.h are the good one; it keeps bytes of its own. */
void judge_keep(void);
void judge_forget(void);

/**
 * Fail the test unless view is as the good one, if it says that it is complete, and else whatever
 * differs is named: a process, a thread, a stack.
 *
 * @param once  a read failed once and not again, which no memory does: see judge.c
 */
void judge_view(bool once);

#endif
