/* SPDX-License-Identifier: Apache-2.0 */
/* Places in a guest's kernel code at which its vCPUs report. */
#ifndef INTROSPECT_GUEST_BREAKS_H
#define INTROSPECT_GUEST_BREAKS_H

/*
 * A source that can (guest_can_break()) has one set of breaks, which is replaced as a whole:
 *
 *	rc = guest_breaks_set(g, &(struct guest_break_set){ list, count, on_hit, me }, &err);
 *	…
 *	rc = guest_breaks_set(g, &(struct guest_break_set){ 0 }, &err);	// as it was before
 *
 * Each break is in a hardware breakpoint, which the guest cannot see, or, when those are used up, a
 * BRK in place of its instruction. Other breakpoints of the guest, of its kernel or its programs, are
 * given back to it; where the guest puts one over a break, both are hit. Who reads the guest's code sees the BRK: guest_break_original() has what is behind.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/addr.h"

struct guest;
struct guest_vcpu_regs;

#define GUEST_BREAKS_MAX 65536u

/*
 * BRK with an immediate that neither Linux (arch/arm64/include/asm/brk-imm.h: 0x4-0x6, 0x100, 0x400,
 * 0x401, 0x800, 0x900, 0x55xx, 0x8xxx up) nor debuggers in a guest (0, 1, 0xf000) use.
 */
#define GUEST_BREAK_IMMEDIATE 0x6773u
#define GUEST_BREAK_INSN      GUEST_BRK(GUEST_BREAK_IMMEDIATE)

/* BRK with an immediate: Arm ARM (DDI 0487) C6.2 */
#define GUEST_BRK(immediate) (0xd4200000u | (immediate) << 5)

/** Whether an instruction is a BRK, of whomever. */
static inline bool guest_insn_is_brk(uint32_t insn)
{
	return (insn & 0xffe0001fu) == GUEST_BRK(0u);
}

struct guest_break {
	uint64_t va;  /* where the guest's kernel executes it; a multiple of 4 */
	gpa_t at;     /* where the instruction is in RAM; must be whole there */
	uint64_t key; /* the caller's own */
};

struct guest_hit {
	const struct guest_break *where;
	uint32_t vcpu;
	/**
	 * The vCPU's registers (GUEST_REGS_ALL, as far as the source has them), before the instruction
	 * was executed. @return false: they cannot be had
	 */
	bool (*fetch)(void *arg, struct guest_vcpu_regs *regs_out);
	void *arg;
};

struct guest_break_set {
	const struct guest_break *list; /* any order, no address twice; copied */
	uint32_t count;			/* 0 … GUEST_BREAKS_MAX; 0: none, on_hit may be NULL */
	/**
	 * A vCPU has come to a break, and executes it next. On its thread: must not wait for a stop.
	 * Not called any more once a set without it is in force.
	 */
	void (*on_hit)(void *arg, const struct guest_hit *hit);
	/**
	 * Before anything is written for a break: whether its place in RAM still is what it was made for,
	 * which else is left as it is. On the thread that sets the next breaks, with the guest stopped. NULL: all are
	 */
	bool (*is_there)(void *arg, const struct guest_break *where);
	void *arg;
};

/** What a source can do, and what became of a set. */
struct guest_break_counts {
	uint32_t hardware_max; /* hardware breakpoints of a vCPU */
	uint32_t hardware;     /* breaks of the set in such */
	uint32_t text;	       /* breaks of the set that are BRKs */
	uint64_t hits;	       /* of all sets so far */
	uint64_t given_back;   /* breakpoints of the guest's own, so far */
	/* BRKs that the guest had overwritten when they were to be taken away: it is left as it is */
	uint64_t overwritten;
};

struct guest_break_ops {
	enum gs_code (*set)(void *priv, const struct guest_break_set *set, struct gs_error *err);
	bool (*original)(void *priv, uint64_t va, uint32_t *insn_out);
	void (*counts)(void *priv, struct guest_break_counts *counts_out);
};

/** Whether a guest takes breaks at all. */
bool guest_can_break(const struct guest *g);

/**
 * Replace the breaks. Stops the guest for a moment.
 *
 * @return GS_OK; all others leave the old set in force: GS_ENOTSUP: the source has none, or an
 *         instruction that can be neither executed for the guest nor stepped, or only stepped and
 *         there is no hardware breakpoint left: the text names its address; GS_EBUSY: one of the
 *         guest's own is there; GS_EINVAL: twice the same address, or not a multiple of 4; GS_EFAULT:
 *         not in RAM; GS_ETOOBIG; GS_ENOSPC; GS_ETIMEDOUT: the guest does not stop; GS_ESYS
 * Threads: any but a vCPU's.
 */
GS_MUST_USE enum gs_code guest_breaks_set(struct guest *g, const struct guest_break_set *set,
					  struct gs_error *err);

/**
 * What the guest itself would have read at @p va, when a reader found GUEST_BREAK_INSN there.
 *
 * @return false: there is no break
 * Threads: any; takes no lock, allocates nothing.
 */
bool guest_break_original(const struct guest *g, uint64_t va, uint32_t *insn_out);

/** Counters; all 0 of a source that takes none. Threads: any. */
void guest_break_counts_get(const struct guest *g, struct guest_break_counts *counts_out);

#endif
