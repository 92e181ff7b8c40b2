/* SPDX-License-Identifier: Apache-2.0 */
/* Threads in user mode: their registers and stacks. */
#ifndef INTROSPECT_LINUX_USER_H
#define INTROSPECT_LINUX_USER_H

/*
 *	struct lnx_user_space u;
 *	struct lnx_user_stack s;
 *	lnx_user_space_init(&u, &v, lnx_task_mm(&task), regs, g->vcpu_count);
 *	lnx_user_unwind(&u, &task, NULL, &s);
 *	…s.address[0 … s.count - 1], s.end…
 *
 * Programs keep frame records as the kernel does, if they are compiled to: what is compiled without
 * ends a stack early, or is passed over in it. Nothing here allocates; all of it is legal while the
 * guest is stopped.
 */

#include <stdbool.h>
#include <stdint.h>

#include "introspect/linux/linux.h"

#define LNX_USER_FRAMES_MAX 256

/** Why a user stack has no more frames. */
enum lnx_user_end {
	LNX_USER_COMPLETE = 0, /* the outermost frame, with a frame pointer of 0, was reached */
	LNX_USER_NO_REGISTERS, /* not known: it runs, or its kernel stack cannot be read */
	LNX_USER_NEVER,	       /* it has never been in user mode, as io_uring's workers */
	LNX_USER_32BIT,	       /* AArch32 state, which keeps no such frames */
	LNX_USER_NO_TABLES,    /* its page directory could not be found */
	LNX_USER_NOT_PRESENT,  /* a frame record in a page that is not in memory */
	LNX_USER_UNREADABLE,   /* a frame record where page tables lead to no memory */
	LNX_USER_BAD_RECORD,   /* a frame pointer that is misaligned, not rising, or the kernel's */
	LNX_USER_BAD_RETURN,   /* a return address that can be none */
	LNX_USER_TRUNCATED,    /* more frames than there is room for */
	LNX_USER_ENDS
};

const char *lnx_user_end_name(enum lnx_user_end end);

/** A user stack, innermost frame first: where it executes, then return addresses. */
struct lnx_user_stack {
	uint64_t address[LNX_USER_FRAMES_MAX]; /* without authentication codes and tags */
	uint32_t count;
	bool has_lr; /* address[1] is from the link register: probable, not certain */
	enum lnx_user_end end;
	uint64_t end_at; /* the frame pointer or return address that ended it, or 0 */
};

/** An address space that stacks are read from; dies with the stop. Fields are private. */
struct lnx_user_space {
	struct lnx_view *v;
	gva_t mm;
	enum gs_code rc;	  /* of finding its page directory */
	struct a64_regime regime; /* half[0]: its own; half[1] disabled */
	uint64_t page;		  /* address of the page that was read last | 1; 0: none */
	gpa_t page_at;
};

/** Whether a kernel's types tell what is needed; else nothing here is to be asked for. */
bool lnx_knows_user_stacks(const struct lnx_kernel *k);

/**
 * Look for an address space. One that cannot be found has stacks that end with LNX_USER_NO_TABLES.
 *
 * @param v     borrowed as long as @p u is used
 * @param mm    its struct mm_struct
 * @param regs  of @p n vCPUs: see lnx_mm_half()
 */
void lnx_user_space_init(struct lnx_user_space *u, struct lnx_view *v, gva_t mm,
			 const struct guest_vcpu_regs *regs, uint32_t n);

/**
 * Unwind the user stack of a thread.
 *
 * The registers are those that the kernel saved at the top of its stack when the thread entered it
 * last, or the vCPU's own while it is in user mode. A link register counts as a caller if a call left
 * it there that has not returned as far as can be seen, and the first frame record has another one:
 * then has_lr says so.
 *
 * @param task  of this address space
 * @param cpu   registers of the vCPU that executes it; NULL: none does
 * Origin: struct user_pt_regs (include/uapi/asm/ptrace.h): x0 … x30, sp, pc, pstate; its place at the top
 * of the stack: task_pt_regs() (asm/processor.h), 5.10 to 7.3. Frame records: AAPCS64, 6.4.6.
 */
void lnx_user_unwind(struct lnx_user_space *u, const struct lnx_task *task,
		     const struct guest_vcpu_regs *cpu, struct lnx_user_stack *stack_out);

/* --- what is mapped --- */

#define LNX_FILE_NAME 128
/* What /proc/PID/maps calls the code that the kernel maps into each process. */
#define LNX_VDSO_NAME "[vdso]"

/** A build id, as long as its linker made it; longer ones than the kernel itself would take are none. */
struct lnx_build_id {
	uint32_t size; /* bytes; 0: not known */
	uint8_t byte[LNX_BUILD_ID];
};

/** A part of an address space that is mapped as a whole. */
struct lnx_mapping {
	uint64_t start, end;
	uint64_t offset; /* bytes of the file before start */
	uint64_t inode;	 /* 0: of no file */
	gva_t inode_at;	 /* struct inode; a = 0: of no file, or not known */
	/*
	 * Path in its file system, unescaped and terminated: "" for none, or one that could not be read.
	 * Of a longer one the beginning is left out: then it does not begin with '/'. LNX_VDSO_NAME of what
	 * is no file.
	 */
	char file[LNX_FILE_NAME];
	struct lnx_build_id build_id; /* lnx_mapping_identify() */
};

/** Whether a kernel's types tell what is needed for lnx_mapping_find(). */
bool lnx_knows_mappings(const struct lnx_kernel *k);

/**
 * The mapping that an address lies in.
 *
 * @param mm  a struct mm_struct
 * @return GS_OK; GS_ENOENT: none, or the kernel does not tell; GS_EFAULT; GS_EMALFORMED: the tree of
 *         mappings leads to what is none; GS_ELOOP: it is too deep. A vCPU that was changing the tree
 *         may have it so.
 * Origin: mm_mt, a maple tree (lib/maple_tree.c mtree_range_walk(), 6.1 to 7.3); mm_rb, a red-black tree
 * (mm/mmap.c find_vma(), before 6.1).
 */
GS_MUST_USE enum gs_code lnx_mapping_find(struct lnx_view *v, gva_t mm, uint64_t address,
					  struct lnx_mapping *mapping_out);

#define LNX_KNOWN_IDS 256

/** Build ids that were found, by file. Caller's memory, zeroed; good for one stop. Fields are private. */
struct lnx_known_ids {
	struct lnx_known_id {
		gva_t inode; /* a = 0: none */
		struct lnx_build_id id;
	} at[LNX_KNOWN_IDS];
};

/**
 * Find the build id of a mapping's file, or of the vdso.
 *
 * It is read where a process has mapped the file's beginning, at most eight mappings and gaps before
 * this one, and through its page tables: it stays unknown while these pages are not in memory. What one
 * process has there counts for all that map the file. A process that has changed its own copy of the page
 * is believed.
 *
 * @param u      the address space that the mapping is of
 * @param known  borrowed
 * @param m      from lnx_mapping_find(); gets build_id
 * Origin: NT_GNU_BUILD_ID in a segment of type PT_NOTE (elf.h); the kernel reads it likewise (lib/buildid.c,
 * 5.12 to 7.3).
 */
void lnx_mapping_identify(struct lnx_user_space *u, struct lnx_known_ids *known,
			  struct lnx_mapping *m);

#endif
