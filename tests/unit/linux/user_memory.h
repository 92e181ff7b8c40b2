/* SPDX-License-Identifier: Apache-2.0 */
/* What processes of a made-up guest have in user mode: memory, saved registers, stacks. */
#ifndef TESTS_UNIT_LINUX_USER_MEMORY_H
#define TESTS_UNIT_LINUX_USER_MEMORY_H

#include "tests/unit/linux/linux_guest.h"

/** The word at an address of an address space; its page is there from then on. */
uint64_t *um_word(struct linux_guest *g, const struct lg_mm *mm, uint64_t va);

/** An instruction, in the same way. */
void um_insn(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, uint32_t word);

/** Bytes; their pages are there from then on. */
void um_write(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, const void *buf,
	      size_t len);

/** A program's first page: its header and one segment of notes, with the build id between two others. */
#define UM_NOTES_AT 0x200
void um_program(struct linux_guest *g, const struct lg_mm *mm, uint64_t va, const void *id,
		uint32_t id_size);

/** Take a page away, as when it is swapped out. */
void um_unmap(struct linux_guest *g, const struct lg_mm *mm, uint64_t va);

/** A frame record. */
void um_record(struct linux_guest *g, const struct lg_mm *mm, uint64_t fp, uint64_t next,
	       uint64_t lr);

/** The registers that are saved at the top of a thread's kernel stack. */
struct lg_regs *um_saved(struct linux_guest *g, struct lg_thread *t);

/** Have entered the kernel with these. */
void um_enter(struct linux_guest *g, struct lg_thread *t, uint64_t pc, uint64_t fp, uint64_t lr);

/* --- mappings --- */

/** A directory entry. @param parent  0: it is a root. @return its address */
uint64_t um_dentry(struct linux_guest *g, uint64_t parent, const char *name);

/** An open file. @return its address */
uint64_t um_file(struct linux_guest *g, uint64_t dentry, uint64_t inode);

struct um_mapping {
	uint64_t start, end, pgoff, file; /* file 0: none */
};

#define UM_MAPPINGS_MAX 70

/**
 * Give an address space its mappings, in a tree of the kind that the guest's form has: of a maple tree
 * with more than seven there are two levels.
 *
 * @param m  ascending; @p n 1 … UM_MAPPINGS_MAX
 */
void um_map(struct linux_guest *g, struct lg_mm *mm, const struct um_mapping *m, uint32_t n);

/** Host address of an object of the kernel. */
void *um_object(struct linux_guest *g, uint64_t address);

#endif
