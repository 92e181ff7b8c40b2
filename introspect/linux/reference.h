/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel image as a file, to recognise its copy in memory. Private to introspect/linux. */
#ifndef INTROSPECT_LINUX_REFERENCE_H
#define INTROSPECT_LINUX_REFERENCE_H

#include "introspect/linux/kallsyms.h"
#include "introspect/linux/linux.h"
#include "introspect/linux/types.h"

/* Bytes of constant data by which a copy in memory is recognised; some of its pages may be lost. */
#define LNX_SAMPLES	 8
#define LNX_SAMPLE_BYTES 64
/* So many of them must be there. */
#define LNX_SAMPLES_NEEDED 5

struct lnx_reference {
	uint8_t *image; /* from _text on */
	size_t size;
	/* addresses: offsets from _text, or styles A and B: from what relative_base is (_stext, say) */
	struct kallsyms ks;
	size_t sample[LNX_SAMPLES]; /* offsets from _text */
	bool has_types;
	struct lnx_types types;
};

/** The types that --profile gave. */
struct lnx_profile {
	struct lnx_types types;
};

/** How many samples are in memory when the image begins at @p image. *proof_out: the first one. */
uint32_t lnx_reference_match(const struct lnx_reference *ref, const struct guest *g, gpa_t image,
			     gpa_t *proof_out);

#endif
