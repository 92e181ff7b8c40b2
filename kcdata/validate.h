/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that is wrong with a buffer, one finding after another. */
#ifndef KCDATA_VALIDATE_H
#define KCDATA_VALIDATE_H

/*
 * Usage:
 *
 *	static void print(void *arg, const struct kcd_error *e) { ... }
 *	struct kcd_verdict v;
 *	rc = kcd_validate(buf, len, NULL, print, NULL, &v);
 *	if (v.errors) ...
 *
 * What is looked for (names: kcd_finding_name()): all that Apple's readers refuse, and what the
 * format asks for and they do not check. Structural damage ends the walk, everything else does not.
 *
 * Threads: no state. Allocates an index of the names in open containers.
 */

#include "kcdata/compress.h"
#include "kcdata/kcdata.h"

#pragma GCC visibility push(default)

struct kcd_verdict {
	uint64_t findings; /* all */
	uint64_t errors;   /* those that Apple's library refuses the file for */
	uint64_t records;  /* items looked at, BEGIN and END not counted */
	uint64_t count[KCD_FINDINGS];
	size_t end; /* of the (compressed) buffer; what follows is not part of it */
	bool whole; /* its END was reached */
};

/** Whether Apple's library refuses a file for this; else it is an oddity of which it says nothing. */
bool kcd_finding_is_error(enum kcd_finding finding);

/**
 * Validate a buffer, plain or compressed. Offsets in a compressed one's findings are of the wrapper
 * for the wrapper's, and of the plain stream for the rest.
 *
 * @param limits   for compressed ones; may be NULL
 * @param finding  gets each finding, in order; may be NULL
 * @return KCD_OK: it was looked at, @p verdict_out says what came of it; KCD_ENOMEM
 */
KCD_MUST_USE enum kcd_code kcd_validate(const void *buf, size_t len,
					const struct kcd_inflate_limits *limits,
					kcd_finding_fn finding, void *arg,
					struct kcd_verdict *verdict_out);

#pragma GCC visibility pop

#endif
