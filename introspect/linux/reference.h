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
	char banner[LNX_BANNER_MAX]; /* of the kernel it was made for; "": not said */
	bool has_build_id;
	uint8_t build_id[LNX_BUILD_ID];
};

/**
 * Read the bytes of an Image (plain or gzip) or an ELF vmlinux.
 *
 * @param ref_out  zeroed; image and size are set, to be freed with free() also after an error
 * @return as lnx_reference_open(); the text does not name the file
 */
GS_MUST_USE enum gs_code lnx_image_load(int fd, uint64_t size, struct lnx_reference *ref_out,
					struct gs_error *err);

/* Headers of BTF that are tried; a kernel has one. */
#define LNX_BTF_TRIES_MAX 64

/** The next place at or behind @p at that has a header of BTF with room for all; @p size: none. */
size_t lnx_image_next_btf(const uint8_t *image, size_t size, size_t at, size_t *blob_out);

/** How many samples are in memory when the image begins at @p image. *proof_out: the first one. */
uint32_t lnx_reference_match(const struct lnx_reference *ref, const struct guest *g, gpa_t image,
			     gpa_t *proof_out);

#endif
