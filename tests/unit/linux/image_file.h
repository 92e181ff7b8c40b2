/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a made-up guest's kernel as a file, in the forms in which kernels are distributed. */
#ifndef TESTS_UNIT_LINUX_IMAGE_FILE_H
#define TESTS_UNIT_LINUX_IMAGE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "tests/unit/linux/linux_guest.h"

/* A file that nobody else sees; it is gone when it is closed. */
struct image_file {
	int fd;
	char path[32];
};

struct image_file image_file_make(const void *data, size_t size);
struct image_file image_file_make_gzip(const void *data, size_t size);
void image_file_close(struct image_file *f);

/**
 * The bytes of an Image: what is in memory, with a header, and as it was before it was relocated.
 *
 * @param base  what is where relative_base is, unless style C: 0, or with RELR the address of the link
 * @return size bytes to be freed with free()
 */
uint8_t *image_make(struct linux_guest *g, uint64_t base, size_t *size_out);

#define IMAGE_LINK UINT64_C(0xffff800008000000)
/* Segments of the vmlinux: text and read-only data, and the rest. */
#define IMAGE_SPLIT 0x70000

/** The bytes of a vmlinux, linked at IMAGE_LINK. */
uint8_t *image_make_vmlinux(struct linux_guest *g, uint64_t base, size_t *size_out);

#endif
