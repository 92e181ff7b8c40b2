/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a made-up guest's kernel as a file. */
#include "tests/unit/linux/image_file.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"

static struct image_file make_empty(void)
{
	struct image_file f = { .fd = memfd_create("image", MFD_CLOEXEC) };

	ck_assert_int_ge(f.fd, 0);
	snprintf(f.path, sizeof(f.path), "/proc/self/fd/%d", f.fd);
	return f;
}

struct image_file image_file_make(const void *data, size_t size)
{
	struct image_file f = make_empty();

	ck_assert_int_eq(gs_file_write_all(f.fd, data, size, NULL), GS_OK);
	return f;
}

struct image_file image_file_make_gzip(const void *data, size_t size)
{
	struct image_file f = make_empty();
	gzFile gz = gzdopen(dup(f.fd), "wb1");

	ck_assert_ptr_nonnull(gz);
	ck_assert_int_eq(gzwrite(gz, data, (unsigned int)size), (int)size);
	ck_assert_int_eq(gzclose(gz), Z_OK);
	return f;
}

void image_file_close(struct image_file *f)
{
	close(f->fd);
}

uint8_t *image_make(struct linux_guest *g, uint64_t base, size_t *size_out)
{
	uint8_t *image = malloc(g->image_size);

	ck_assert_ptr_nonnull(image);
	memcpy(image, lg_image(g, 0), g->image_size);
	memcpy(image, "MZ", 2);
	memcpy(image + 56, "ARM\x64", 4);
	if (g->symtab.base != SIZE_MAX)
		memcpy(image + g->table + g->symtab.base, &base, sizeof(base));
	*size_out = g->image_size;
	return image;
}

uint8_t *image_make_vmlinux(struct linux_guest *g, uint64_t base, size_t *size_out)
{
	const Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			     EV_CURRENT },
		.e_type = ET_DYN,
		.e_machine = EM_AARCH64,
		.e_version = EV_CURRENT,
		.e_phoff = sizeof(header),
		.e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
	};
	size_t size;
	uint8_t *image = image_make(g, base, &size);
	const size_t first = 0x10000, second = first + IMAGE_SPLIT + 0x1000;
	// in no order; the note lies in neither
	const Elf64_Phdr segments[] = {
		{ .p_type = PT_LOAD,
		  .p_offset = second,
		  .p_vaddr = IMAGE_LINK + IMAGE_SPLIT,
		  .p_filesz = size - IMAGE_SPLIT,
		  .p_memsz = size - IMAGE_SPLIT + 0x100000 },
		{ .p_type = PT_NOTE, .p_offset = 0x1000, .p_vaddr = 0x1000, .p_filesz = 0x100 },
		{ .p_type = PT_LOAD,
		  .p_offset = first,
		  .p_vaddr = IMAGE_LINK,
		  .p_filesz = IMAGE_SPLIT,
		  .p_memsz = IMAGE_SPLIT },
	};
	uint8_t *file = calloc(1, second + size);

	ck_assert_ptr_nonnull(file);
	memcpy(file, &header, sizeof(header));
	memcpy(file + sizeof(header), segments, sizeof(segments));
	memcpy(file + first, image, IMAGE_SPLIT);
	memcpy(file + second, image + IMAGE_SPLIT, size - IMAGE_SPLIT);
	free(image);
	*size_out = second + size - IMAGE_SPLIT;
	return file;
}
