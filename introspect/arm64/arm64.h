/* SPDX-License-Identifier: Apache-2.0 */
/* The architecture: stage-1 translation, pointer authentication, instruction decoding. */
#ifndef INTROSPECT_ARM64_ARM64_H
#define INTROSPECT_ARM64_ARM64_H

/*
 *	struct a64_regime r;
 *	if (!a64_regime_init(&r, regs.tcr_el1, regs.ttbr0_el1, regs.ttbr1_el1))
 *		rc = a64_read(&r, guest, GVA(address), buf, len, NULL);
 *
 * We read memory as a debugger does, not as the CPU: access permissions, the access flag, execute
 * never and the contiguous hint do not matter to a translation; nor does the limit that IPS puts on
 * output addresses, since what lies beyond it is no RAM. Section numbers are those of the Arm
 * Architecture Reference Manual, DDI 0487, issue J.a. Not handled: 128-bit descriptors (FEAT_D128).
 *
 * Threads: a regime is read-only after init. Nothing here allocates or blocks; all of it is legal
 * while the guest is stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/guest.h"

/** One half (TTBR0 or TTBR1) of a translation regime; an illegal one is all zero but for tbi. */
struct a64_half {
	bool enabled;	      /* EPDn clear and the fields legal */
	bool tbi;	      /* top byte of an address ignored */
	bool wide_oa;	      /* 52-bit output addresses in descriptors (DS, or 64K with IPS 6) */
	bool ds;	      /* TCR_EL1.DS: the 4K/16K 52-bit descriptor format */
	uint8_t granule_bits; /* 12, 14 or 16 */
	uint8_t va_bits;      /* 64 - TnSZ */
	int8_t start_level;   /* -1 … 3 */
	gpa_t table;	      /* of the start level */
};

struct a64_regime {
	struct a64_half half[2]; /* [0]: low addresses, [1]: high ones */
};

/** Why a translation failed; also the index of a counter. */
enum a64_fault {
	A64_OK = 0,
	A64_NOT_CANONICAL, /* neither half covers the address */
	A64_DISABLED,	   /* that half has no (legal) table */
	A64_NOT_MAPPED,	   /* an invalid descriptor */
	A64_RESERVED,	   /* a descriptor the architecture forbids at that level */
	A64_TABLE_NOT_RAM, /* a table outside of RAM */
	A64_NOT_RAM,	   /* mapped, but to no RAM (a device, say) */
	A64_FAULTS
};

/** A translated address and how far the mapping goes. */
struct a64_mapping {
	gpa_t pa;
	uint64_t left; /* bytes from here to the end of the page or block */
	uint64_t descriptor;
	int8_t level;
};

/**
 * Set both halves up from live register values (TCR_EL1: D19.2.139; walks: D8.2).
 *
 * A half with a reserved granule code, an impossible TnSZ, or EPDn set is left disabled:
 * translating through it is A64_DISABLED. With EPDn alone the fields and the table are filled in
 * all the same.
 *
 * @return GS_OK; GS_EMALFORMED: neither half is usable
 */
GS_MUST_USE enum gs_code a64_regime_init(struct a64_regime *r, uint64_t tcr_el1, uint64_t ttbr0_el1,
					 uint64_t ttbr1_el1);

/**
 * Set one half's table from a TTBR value; ASID, CnP and the 52-bit base layout are handled.
 * Does nothing to an illegal half.
 */
void a64_half_set_table(struct a64_half *h, uint64_t ttbr);

/**
 * Walk the tables for one address.
 *
 * @param r    the regime
 * @param g    whose memory; the walk never reads outside of its RAM
 * @param va   any value; bit 55 chooses the half, the top byte is ignored where TBI says so
 * @return A64_OK (the place it leads to need not be RAM); else the reason, and *out is not written.
 *         In a disabled half every address is A64_DISABLED, canonical or not.
 */
enum a64_fault a64_translate(const struct a64_regime *r, const struct guest *g, gva_t va,
			     struct a64_mapping *out);

/*
 * A walk in two parts, for those who translate many addresses that lie close together: the tables
 * of the last level are few, so that they can be remembered, and only the last descriptor is read
 * for each page.
 */

/**
 * Walk all levels but the last.
 *
 * @param table_out  the last level's table; good for all addresses that are equal from bit
 *                   a64_last_table_bits() up, as long as the tables do not change
 * @return false: the address has no such table (a fault, or a block that ends the walk before);
 *         a64_translate() tells which
 */
bool a64_last_table(const struct a64_regime *r, const struct guest *g, gva_t va, gpa_t *table_out);

/** log2 of the bytes that one last-level table maps: 21 with 4K pages, 25 with 16K, 29 with 64K. */
unsigned int a64_last_table_bits(const struct a64_regime *r, gva_t va);

/** Where in its last-level table the descriptor of an address lies. */
gpa_t a64_last_entry(const struct a64_regime *r, gpa_t table, gva_t va);

/** The last step, with a table that a64_last_table() gave for @p va. As a64_translate(). */
enum a64_fault a64_translate_last(const struct a64_regime *r, const struct guest *g, gpa_t table,
				  gva_t va, struct a64_mapping *out);

enum a64_end { A64_HIGHEST, A64_LOWEST };

/**
 * The highest or lowest address of the upper half that maps a guest-physical page.
 *
 * For a kernel whose own addresses are not known: its image is mapped above all other mappings of
 * the same memory, and the linear map lies below all. Visits the tables from that end on.
 *
 * @param pa         any address in the page
 * @param not_table  a descriptor of a table with any of these bits is passed over: bits that the CPU
 *                   ignores and the guest leaves 0, so that pages which are mistaken for tables cost
 *                   little; 0: none
 * @param budget     most descriptors to read; what is left when it returns
 * @return false: no mapping, or the budget was used up
 */
bool a64_find_mapping(const struct a64_regime *r, const struct guest *g, gpa_t pa, enum a64_end end,
		      uint64_t not_table, uint64_t *budget, gva_t *va_out);

/* --- tables themselves --- */

/** A table of a half. */
struct a64_table {
	gpa_t at;
	int8_t level;
	uint32_t entries;    /* words of 8 bytes */
	uint64_t first;	     /* address that the first entry covers, from the half's lowest one */
	uint64_t entry_size; /* bytes of addresses that each entry covers */
};

#define A64_LEVELS	  5 /* -1 … 3 */
#define A64_ENTRIES_AHEAD 32

/** A walk over the tables of a half, from a table to those below it. Fields are private. */
struct a64_tables {
	const struct a64_half *half;
	const struct guest *g;
	int last_level;
	struct {
		struct a64_table table;
		bool is_given;
		uint32_t next; /* entry to look at */
	} way[A64_LEVELS];     /* from the first table to the one at hand */
	uint32_t depth;	       /* tables in it */
	uint64_t entry[A64_ENTRIES_AHEAD];
	bool is_read; /* entry has those around next of the table at hand */
};

/**
 * Begin with the first table of a half; it need not be enabled.
 *
 * @param h, g        borrowed as long as the walk lasts
 * @param last_level  tables of levels after this one are left alone, -1 … 3
 */
void a64_tables_begin(struct a64_tables *t, const struct a64_half *h, const struct guest *g,
		      int last_level);

/**
 * The next table: a table comes before those that it leads to, and these by ascending address.
 *
 * Levels bound how deep it goes, also where a table leads to itself; then there may be as many as
 * entries of all levels multiplied, and the caller counts them.
 *
 * @return GS_OK; GS_ENOENT: no more tables, or an illegal half; GS_EFAULT: entries of the table
 *         *table_out, which was given before, could not be read: the walk goes on behind it
 * Threads: one at a time. Allocates nothing; legal while the guest is stopped.
 */
GS_MUST_USE enum gs_code a64_tables_next(struct a64_tables *t, struct a64_table *table_out);

/** Leave alone the tables that the last one given leads to. */
void a64_tables_skip(struct a64_tables *t);

/**
 * Copy guest-virtual memory, page by page. Running past the last address is A64_NOT_CANONICAL.
 *
 * @param fault_out  may be NULL; A64_OK with GS_OK, else why
 * @return GS_OK; GS_EFAULT: bytes before the fault may have been copied
 */
GS_MUST_USE enum gs_code a64_read(const struct a64_regime *r, const struct guest *g, gva_t va,
				  void *buf, size_t len, enum a64_fault *fault_out);

/** Text of a fault, for messages; never NULL. */
const char *a64_fault_name(enum a64_fault fault);

/**
 * Remove the pointer-authentication code (and tag) from an address.
 *
 * Bit 55 says which half it belongs to; all bits above the half's VA size become copies of it, bits
 * 63:56 included even when TBI is on: instruction addresses are signed with TBID in force.
 *
 * @param va_bits 64 - TnSZ of the half, 16 … 52 (a 52-bit guest keeps bits 51:48)
 */
static inline uint64_t a64_strip(uint64_t address, unsigned int va_bits)
{
	uint64_t low = (UINT64_C(1) << va_bits) - 1;

	return (address & (UINT64_C(1) << 55)) ? address | ~low : address & low;
}

/* PSTATE.M: exception level in bits 3:2 (C5.2.19 SPSR_EL1). */
static inline unsigned int a64_pstate_el(uint64_t pstate)
{
	return (unsigned int)BITS(pstate, 3, 2);
}

/* --- instructions --- */

/* Register 31 is SP in ADD_IMM and as the base of a load or store, the zero register elsewhere. */
enum a64_insn_kind {
	A64_INSN_OTHER,
	A64_INSN_ADRP,	  /* rd = imm (absolute page address) */
	A64_INSN_ADR,	  /* rd = imm (absolute address) */
	A64_INSN_ADD_IMM, /* rd = rn + imm, 64-bit, imm shifted already; mov to or from sp is one */
	A64_INSN_LDR_IMM, /* rd = [rn + imm], 64-bit, unsigned offset */
	A64_INSN_MRS,	  /* rd = system register imm (op0:op1:CRn:CRm:op2 as in bits 20:5) */
	A64_INSN_MSR,	  /* system register imm = rd; the form with an immediate is OTHER */
	A64_INSN_BRANCH,  /* b imm (absolute address) */
	A64_INSN_CALL,	  /* bl imm (absolute address) */
	A64_INSN_RET,	  /* ret rn; retaa and retab with rn = 30 */
	A64_INSN_BRANCH_IF,  /* b.cond, cbz, cbnz, tbz, tbnz: to imm (absolute address), or on */
	A64_INSN_BRANCH_REG, /* br rn, authenticated or not */
	A64_INSN_CALL_REG,   /* blr rn, authenticated or not */
	A64_INSN_ERET,	     /* authenticated or not */
	A64_INSN_STP,	  /* of the 64-bit registers rd and rd2, base rn; with write-back or not */
	A64_INSN_LDP,	  /* the same as a load */
	A64_INSN_MOV_REG, /* rd = rn, 64-bit, neither is SP */
	A64_INSN_NOP,
	A64_INSN_PAC_LR, /* paciasp, pacibsp, autiasp, autibsp */
	A64_INSN_TRAP,	 /* brk, udf */
};

/* System registers as A64_INSN_MRS/MSR give them: op0<<14 | op1<<11 | CRn<<7 | CRm<<3 | op2. */
#define A64_SYSREG(op0, op1, crn, crm, op2) \
	((op0) << 14 | (op1) << 11 | (crn) << 7 | (crm) << 3 | (op2))
#define A64_SYSREG_TPIDR_EL1 A64_SYSREG(3, 0, 13, 0, 4)
#define A64_SYSREG_SP_EL0    A64_SYSREG(3, 0, 4, 1, 0)

/** Fields that a kind does not have are 0. */
struct a64_insn {
	enum a64_insn_kind kind;
	uint8_t rd;
	uint8_t rn;
	uint64_t imm;
	uint8_t rd2; /* second register of a pair */
};

/** Decode the instruction word at @p pc; whatever enum a64_insn_kind has not is A64_INSN_OTHER. */
struct a64_insn a64_decode(uint32_t word, uint64_t pc);

#endif
