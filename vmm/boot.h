/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel and initrd: what kind of file it is, where it goes in guest RAM, and loading it. */
#ifndef VMM_BOOT_H
#define VMM_BOOT_H

/*
 * Offsets here count from the start of RAM, which lies at a multiple of 1 GiB. Layout, low to high:
 *
 *	text_offset	kernel (as much as its header says it needs, .bss included)
 *	64 KiB aligned	device tree, VMM_BOOT_DTB_MAX; so it crosses no 2 MiB boundary
 *	after it	initrd
 *
 * Kernel and initrd lie in one 32 GiB window, the device tree in the kernel's first 512 MiB, as
 * every kernel since 3.7 wants it. Origin: Documentation/arm64/booting.rst (5.10 … 6.12).
 */

#include <stdint.h>

#include "base/error.h"

#define VMM_BOOT_DTB_MAX     (UINT64_C(64) << 10)
#define VMM_BOOT_HEADER_SIZE 64
/* Room for a .bss of which a kernel older than 3.17 does not tell. */
#define VMM_BOOT_OLD_BSS (UINT64_C(16) << 20)

/** The ARM64 Image header. */
struct vmm_boot_image {
	uint64_t text_offset;
	uint64_t image_size; /* 0: older than 3.17, not told */
	uint32_t page_size;  /* 4096, 16384, 65536; 0: not told */
};

struct vmm_boot_layout {
	uint64_t kernel, kernel_size; /* entry point; memory it needs */
	uint64_t dtb;
	uint64_t initrd, initrd_size; /* both 0 without one */
};

struct vmm_boot {
	struct vmm_boot_image image;
	struct vmm_boot_layout at;
};

/**
 * Understand the first bytes of a kernel file.
 *
 * @param head the file's first @p len bytes; 1 KiB is enough to name every kind known here
 * @return GS_OK; GS_EMALFORMED: not an Image, or one that contradicts itself; GS_ENOTSUP: an Image
 *         for a big-endian guest. The text names what it is instead and what to do.
 */
GS_MUST_USE enum gs_code vmm_boot_image_parse(const uint8_t *head, size_t len,
					      struct vmm_boot_image *image_out,
					      struct gs_error *err);

/**
 * Place kernel, device tree and initrd.
 *
 * @param loaded bytes of the kernel file (uncompressed)
 * @return GS_OK; GS_ETOOBIG: they do not fit into @p ram_size bytes
 */
GS_MUST_USE enum gs_code vmm_boot_place(const struct vmm_boot_image *image, uint64_t loaded,
					uint64_t initrd_size, uint64_t ram_size,
					struct vmm_boot_layout *layout_out, struct gs_error *err);

/**
 * Load kernel (plain, gzip, or an EFI zboot image with gzip inside) and initrd into guest RAM.
 *
 * @param initrd_path NULL: none
 * @param ram         @p ram_size zeroed bytes
 * @return GS_OK; GS_ENOENT, GS_EDENIED, GS_ESYS: a file; GS_EMALFORMED, GS_ENOTSUP: no kernel for
 *         here; GS_EINVAL: an empty initrd, not a regular file; GS_ETOOBIG; GS_ENOSPC
 */
GS_MUST_USE enum gs_code vmm_boot_load(const char *kernel_path, const char *initrd_path,
				       uint8_t *ram, uint64_t ram_size, struct vmm_boot *boot_out,
				       struct gs_error *err);

#endif
