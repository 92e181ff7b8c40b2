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

/** Longest name of a profile's file that is kept, NUL included: for messages. */
#define LNX_PROFILE_NAME 256

/** Types from a file. */
struct lnx_profile {
	char name[LNX_PROFILE_NAME]; /* of the file; a long one is cut */
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

/**
 * The profile in a folder that is made for a kernel: by build id, else by banner. Of several the first by
 * the name of the file.
 *
 * @param folder      its files *.json are looked at, up to LNX_PROFILES_MAX
 * @param profile_out returned: free with lnx_profile_destroy()
 * @return GS_OK; GS_ENOENT: there is none, the text says how many others; GS_EMALFORMED: the one there
 *         is cannot be used; GS_ENOSPC: out of memory
 */
GS_MUST_USE enum gs_code lnx_profile_choose(const char *folder, const struct lnx_kernel *k,
					    struct lnx_profile **profile_out, struct gs_error *err);
#define LNX_PROFILES_MAX 1024

/**
 * Read one of a folder's files.
 *
 * @param name  as messages have it
 * @param fd    taken: closed in any case; negative: errno says why
 * @return as lnx_profile_open()
 */
GS_MUST_USE enum gs_code lnx_profile_read(int fd, const char *name,
					  struct lnx_profile **profile_out, struct gs_error *err);

/* Headers of BTF that are tried; a kernel has one. */
#define LNX_BTF_TRIES_MAX 64

/** The next place at or behind @p at that has a header of BTF with room for all; @p size: none. */
size_t lnx_image_next_btf(const uint8_t *image, size_t size, size_t at, size_t *blob_out);

/** How many samples are in memory when the image begins at @p image. *proof_out: the first one. */
uint32_t lnx_reference_match(const struct lnx_reference *ref, const struct guest *g, gpa_t image,
			     gpa_t *proof_out);

#endif
