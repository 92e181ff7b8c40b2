/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps as bytes: an ELF core is put together header by header, and opened from a file. */
#ifndef TESTS_UNIT_GUEST_DUMP_BYTES_H
#define TESTS_UNIT_GUEST_DUMP_BYTES_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "introspect/guest/dump.h"

/** A file's content, grown as it is written to. */
struct bytes {
	uint8_t *at;
	size_t size;
	size_t room; /* allocated */
};

/** Write at any offset; what lies between is zero. */
void bytes_put(struct bytes *b, size_t offset, const void *data, size_t size);
void bytes_put32(struct bytes *b, size_t offset, uint32_t value);
void bytes_put64(struct bytes *b, size_t offset, uint64_t value);
void bytes_free(struct bytes *b);

/** Write them into an unnamed file. @return descriptor */
int bytes_file(const struct bytes *b);

/** Open an unnamed file as a dump. */
enum gs_code open_fd(int fd, const struct guest_dump_options *options, struct guest_source *s,
		     struct gs_error *err);

/** bytes_file() and open_fd() in one; the file is gone but for the source. */
enum gs_code open_bytes(const struct bytes *b, struct guest_source *s, struct gs_error *err);

/** It must open. */
struct guest_source open_good(const struct bytes *b);

/** It must fail with @p code and a text that holds @p text. */
void open_bad(const struct bytes *b, enum gs_code code, const char *text);

/** A good ELF header of an ARM64 core with program headers at 64. */
void elf_header(struct bytes *b, uint16_t phnum);
void elf_phdr(struct bytes *b, unsigned int index, Elf64_Phdr ph);
/** PT_LOAD; @p filesz bytes of which byte i is fill + i / 4096. */
void elf_load(struct bytes *b, unsigned int index, uint64_t offset, uint64_t paddr, uint64_t filesz,
	      uint64_t memsz, uint8_t fill);
/** @return offset behind the note */
size_t elf_note(struct bytes *b, size_t offset, const char *name, uint32_t type, const void *desc,
		size_t size);
/** NT_PRSTATUS whose registers are first, first + 1, …, with this PSTATE. */
size_t elf_prstatus(struct bytes *b, size_t offset, uint64_t first, uint64_t pstate);

/* Two CPUs, VMCOREINFO, memory at 1 GiB (3 pages from 0x1000) and at 5 GiB (1 page from 0x4000). */
#define TWO_RANGES_A UINT64_C(0x40000000)
#define TWO_RANGES_B UINT64_C(0x140000000)
void elf_two_ranges(struct bytes *b);

/** The byte at @p gpa. */
uint8_t byte_of(const struct guest_source *s, uint64_t gpa);
bool is_readable(const struct guest_source *s, uint64_t gpa, size_t len);

/**
 * Read all ranges, next_data included, and all registers, whatever comes.
 *
 * @return what was promised and is not so; NULL: nothing
 */
const char *use_fault(const struct guest_source *s);

/** The same; a fault fails the test. */
void use_all(const struct guest_source *s);

#endif
