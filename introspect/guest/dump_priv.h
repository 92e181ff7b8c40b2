/* SPDX-License-Identifier: Apache-2.0 */
/* A dump as a guest: what the readers of the single formats fill in, and what they share. */
#ifndef INTROSPECT_GUEST_DUMP_PRIV_H
#define INTROSPECT_GUEST_DUMP_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/dump_file.h"
#include "introspect/guest/guest.h"
#include "introspect/guest/source.h"

/*
 * Pieces of memory that one dump may have. makedumpfile cuts a segment at each longer run of
 * filtered pages; a million of them is 24 MiB here and a thousand times what was seen.
 */
#define DUMP_PIECES_MAX (UINT32_C(1) << 20)

/*
 * Physical addresses end here (FEAT_D128; Arm ARM D8.1): what claims to lie above is damage. It
 * also keeps every sum of an address and a size below 2^64.
 */
#define DUMP_PHYS_END (UINT64_C(1) << 56)

/** A stretch of guest-physical memory [start, start + size) that the file holds. */
struct guest_dump_piece {
	uint64_t start;
	uint64_t size;
	uint64_t offset; /* in the file; of no meaning for compressed dumps */
};

/** A growing list of them. Zeroed: empty. */
struct guest_dump_pieces {
	struct guest_dump_piece *at; /* freed by the owner */
	uint32_t count;
	uint32_t room;
};

struct guest_dump_kdump;

struct guest_dump {
	struct guest guest; /* guest.priv points back here */
	struct guest_dump_file file;
	struct guest_dump_pieces pieces; /* ascending, no two overlap */
	struct guest_range *ranges;
	uint32_t *clusters;
	struct guest_vcpu_regs *regs; /* room for GUEST_VCPUS_MAX */
	uint32_t cpus;
	char *vmcoreinfo; /* NUL behind its vmcoreinfo_size bytes; NULL: none */
	size_t vmcoreinfo_size;
	struct guest_dump_kdump *kdump; /* NULL unless it is one */
	const char *access;
	atomic_uint stops;
	char note[GUEST_SOURCE_NOTE_MAX];
	/* while opening */
	size_t prstatus_size;	/* of the first NT_PRSTATUS; 0: none */
	size_t notes_left;	/* bytes of ELF notes still to be looked at */
	bool has_process_notes; /* notes that only a process's core has */
};

/** Add a remark to the source's note, "; " between two; what does not fit is left out. */
void guest_dump_remark(struct guest_dump *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/** @return GS_OK; GS_ETOOBIG: DUMP_PIECES_MAX; GS_ENOSPC: out of memory */
GS_MUST_USE enum gs_code guest_dump_pieces_add(struct guest_dump_pieces *p,
					       struct guest_dump_piece piece);

/**
 * Sort the pieces and let none overlap: where two hold the same memory the one that begins lower is
 * taken, of two that begin together the one that comes first in the file.
 *
 * @return bytes that were held twice, at two places of the file
 */
uint64_t guest_dump_pieces_clean(struct guest_dump_pieces *p);

/**
 * Make guest.ranges of clean pieces. Touching ones become one range; beyond GUEST_RANGES_MAX the
 * narrowest gaps are bridged, in which reads fail.
 */
GS_MUST_USE enum gs_code guest_dump_ranges_make(struct guest_dump *d,
						const struct guest_dump_pieces *p,
						struct gs_error *err);

/** The first piece that ends above @p at; pieces.count when there is none. */
uint32_t guest_dump_piece_find(const struct guest_dump *d, uint64_t at);

/* --- ELF notes (dump_notes.c) --- */

/* What is looked at of a dump's notes in all: 512 CPUs with wide SVE registers have 5 MiB. */
#define DUMP_NOTES_BYTES_MAX (UINT64_C(16) << 20)

/** Take registers and VMCOREINFO from the notes in [offset, offset + size) of @p f. */
GS_MUST_USE enum gs_code guest_dump_notes_read(struct guest_dump *d,
					       const struct guest_dump_file *f, uint64_t offset,
					       uint64_t size, struct gs_error *err);

/** The same for notes in memory. */
GS_MUST_USE enum gs_code guest_dump_notes_parse(struct guest_dump *d, const uint8_t *notes,
						size_t size, struct gs_error *err);

/** Keep a VMCOREINFO text, unless there is one. */
GS_MUST_USE enum gs_code guest_dump_vmcoreinfo_keep(struct guest_dump *d, const void *text,
						    size_t size, struct gs_error *err);

/*
 * Our own note, one a vCPU, so that what QEMU's notes have no place for survives: name "GUESTSHOT",
 * this type, this struct, little endian. Other readers skip it; the type is none of the kernel's, since
 * crash and readelf look at types without the name.
 */
#define DUMP_NOTE_NAME	"GUESTSHOT"
#define DUMP_NOTE_VCPU	0x47530001
#define DUMP_NOTE_WORDS 13

struct guest_dump_vcpu_note {
	uint32_t vcpu;
	uint32_t valid; /* enum guest_regs_valid */
	uint32_t state; /* enum guest_vcpu_state */
	uint32_t reserved;
	/* sp_el0, sp_el1, elr_el1, spsr_el1, ttbr0_el1, ttbr1_el1, tcr_el1, mair_el1, sctlr_el1,
	 * vbar_el1, tpidr_el1, contextidr_el1, mpidr_el1 */
	uint64_t word[DUMP_NOTE_WORDS];
};

/** The register of @p regs that stands at word[@p i]. */
uint64_t *guest_dump_note_word(struct guest_vcpu_regs *regs, unsigned int i);

/* struct elf_prstatus of arm64 (include/linux/elfcore.h): 392 bytes, registers in user_pt_regs order */
#define DUMP_PRSTATUS_SIZE 392
#define DUMP_PRSTATUS_PID  32
#define DUMP_PRSTATUS_REGS 112
#define DUMP_PRSTATUS_NREG 34 /* x0 … x30, sp, pc, pstate */

/** MiB for people: rounded up. */
static inline uint64_t guest_dump_mib(uint64_t bytes)
{
	return (bytes >> 20) + ((bytes & ((UINT64_C(1) << 20) - 1)) != 0);
}

/** Whether SP of a CPU in @p pstate is SP_EL0: exception level 0, or PSTATE.SP clear. */
static inline bool guest_dump_sp_is_el0(uint64_t pstate)
{
	return !(pstate & 0xc) || !(pstate & 1);
}

/* --- formats; each fills d->pieces, d->ranges, d->guest.ops, d->access --- */

GS_MUST_USE enum gs_code guest_dump_elf_open(struct guest_dump *d, struct gs_error *err);
GS_MUST_USE enum gs_code guest_dump_raw_open(struct guest_dump *d, gpa_t base,
					     struct gs_error *err);
GS_MUST_USE enum gs_code guest_dump_kdump_open(struct guest_dump *d, struct gs_error *err);
void guest_dump_kdump_close(struct guest_dump_kdump *k);

/** What all formats answer alike. */
enum gs_code guest_dump_op_stop(void *priv, struct gs_error *err);
enum gs_code guest_dump_op_resume(void *priv, struct gs_error *err);
enum gs_code guest_dump_op_vcpu_regs(void *priv, uint32_t vcpu, struct guest_vcpu_regs *regs_out);

/** For dumps whose pieces lie in the file as they are. */
extern const struct guest_ops guest_dump_plain_ops;

#endif
