/* SPDX-License-Identifier: Apache-2.0 */
/* Decompressing the pages of kdump-compressed dumps. Private to introspect/guest. */
#ifndef INTROSPECT_GUEST_KDUMP_CODEC_H
#define INTROSPECT_GUEST_KDUMP_CODEC_H

/*
 * zlib and zstd are linked; lzo and snappy are loaded when a page needs them. A decompressor is told
 * how much room there is and is never believed about how much it wrote: a page that does not come out
 * with exactly its size is damaged.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Flags of a page descriptor and of the header (makedumpfile 1.7.2, diskdump_mod.h). */
enum kdump_method {
	KDUMP_PLAIN = 0,
	KDUMP_ZLIB = 0x1,
	KDUMP_LZO = 0x2,
	KDUMP_SNAPPY = 0x4,
	KDUMP_ZSTD = 0x20,
};

#define KDUMP_METHODS  (KDUMP_ZLIB | KDUMP_LZO | KDUMP_SNAPPY | KDUMP_ZSTD)
#define KDUMP_PAGE_MAX 65536

struct kdump_codec;

/** @return GS_OK; GS_ENOSPC: out of memory. @p codec_out: free with guest_kdump_codec_destroy() */
GS_MUST_USE enum gs_code guest_kdump_codec_create(struct kdump_codec **codec_out,
						  struct gs_error *err);

/** NULL is fine. */
void guest_kdump_codec_destroy(struct kdump_codec *codec);

/**
 * Get ready for a method.
 *
 * @param flags  of a page; several bits are none that is known
 * @return GS_OK, also when it is no method; GS_ENOTSUP: its library is not installed; the text names
 *         the package
 */
GS_MUST_USE enum gs_code guest_kdump_codec_load(struct kdump_codec *codec, uint32_t flags,
						struct gs_error *err);

/**
 * Decompress one page.
 *
 * @param flags  of its descriptor
 * @param to     gets @p page_size bytes (at most KDUMP_PAGE_MAX); garbage after a failure
 * @return GS_OK; GS_EFAULT: damaged, or of a method that is not known or not installed
 * Threads: any.
 */
GS_MUST_USE enum gs_code guest_kdump_codec_page(struct kdump_codec *codec, uint32_t flags,
						const uint8_t *from, size_t size, uint8_t *to,
						size_t page_size);

/** Where a library is looked for; for tests. */
GS_MUST_USE enum gs_code guest_kdump_codec_find(const char *soname, const char *package,
						const char *function, void **handle_out,
						void **fn_out, struct gs_error *err);

#endif
