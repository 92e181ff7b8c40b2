/* SPDX-License-Identifier: Apache-2.0 */
/* Where a function of assembly, of which no CFI tells, has its caller: by what its instructions do. */
#ifndef TESTS_E2E_STEPS_BARE_H
#define TESTS_E2E_STEPS_BARE_H

#include <stdint.h>

enum bare {
	BARE_UNKNOWN,
	BARE_LINK,   /* x30 has the return address; x29 and SP are the caller's */
	BARE_PUSHED, /* x29 and x30 of the caller are at SP */
	BARE_RECORD, /* ... at x29 */
};

/**
 * The rules, for a function of which all code is known:
 *
 * - one that has no instruction that writes x29, x30 or SP has its caller in x30, anywhere;
 * - one that pushes x29 and x30 (stp x29, x30, [sp, #-N]!), sets x29 to them (mov x29, sp) and pops them
 *   (ldp x29, x30, [sp], #N) before it returns has them where the last of these in front of @p at has put
 *   them. Code behind the return goes on with the record. Nothing else may write x29, nor x30 or SP without
 *   a record.
 *
 * @param word      the function's instructions; @param count  how many
 * @param at        the one it stopped at, or that would come next
 * @param size_out  N, of a record; else 0
 */
enum bare bare_state(const uint32_t *word, uint32_t count, uint32_t at, uint32_t *size_out);

#endif
