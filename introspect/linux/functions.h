/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's functions, and where in them they return. */
#ifndef INTROSPECT_LINUX_FUNCTIONS_H
#define INTROSPECT_LINUX_FUNCTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "introspect/linux/linux.h"

/**
 * The functions of the kernel image that stay after its start, ascending. Of several names at one
 * address it is the one of lnx_symbol_at().
 *
 * @param after  0 at first; kept between the calls
 * @return false: there is no further one
 */
bool lnx_function_next(const struct lnx_kernel *k, uint64_t *after,
		       struct lnx_symbol *function_out);

/** Where an instruction of the kernel, a module or a BPF program is in RAM. @return GS_OK; GS_EFAULT */
GS_MUST_USE enum gs_code lnx_code_place(struct lnx_view *v, gva_t address, gpa_t *place_out);

struct lnx_text {
	uint64_t start, size;
};

#define LNX_RETURNS_MAX 256u

struct lnx_returns {
	uint32_t count;
	uint64_t address[LNX_RETURNS_MAX]; /* of the instructions by which it returns */
};

/**
 * The instructions by which a function goes back to its caller: RET, and branches to other functions,
 * which return in its place. A BR is one of these if it goes through x16 or x17, as compilers have it;
 * else it is a jump inside of the function. A conditional branch to elsewhere, which only assembly has,
 * is not found. What the function loads as data is none, whatever it looks like.
 *
 * @param part, parts  the function, and what the compiler has put elsewhere of it (".cold")
 * @return GS_OK, with none for a function that never returns; GS_EFAULT: its code cannot be read;
 *         GS_ETOOBIG: more than 65,536 instructions or LNX_RETURNS_MAX returns; GS_EMALFORMED: it does
 *         not consist of instructions
 * Threads: each with its own view; the guest may be running.
 */
GS_MUST_USE enum gs_code lnx_function_returns(struct lnx_view *v, const struct lnx_text *part,
					      uint32_t parts, struct lnx_returns *returns_out);

#endif
