/* SPDX-License-Identifier: Apache-2.0 */
/* A set of breaks: where each goes, and putting it into the guest's text. */
#ifndef VMM_BREAKS_H
#define VMM_BREAKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "introspect/guest/breaks.h"

struct vmm_break {
	struct guest_break where;
	uint32_t insn;	  /* what the guest has there */
	bool is_hardware; /* else a BRK in its text */
	bool is_guests;	  /* ... of the guest's own, which it has put where the break was before */
};

/** Constant once it is made. */
struct vmm_breaks {
	void (*on_hit)(void *arg, const struct guest_hit *hit);
	bool (*is_there)(void *arg, const struct guest_break *where);
	void *arg;
	uint32_t count, hardware;
	struct vmm_break list[]; /* ascending by va */
};

/** Guest RAM as mapped here. */
struct vmm_breaks_ram {
	uint64_t base; /* guest-physical */
	uint8_t *host;
	uint64_t size;
};

/**
 * Make a set of what is in the text now: nothing may be planted.
 *
 * Hardware breakpoints go to those first whose instruction cannot be executed for the guest.
 *
 * @param old           the set before, which was removed: where it had a break, the guest may have put one
 *                      of its own; NULL: none
 * @param hardware_max  breakpoints of a vCPU
 * @param breaks_out    free() it
 * @return as guest_breaks_set()
 */
GS_MUST_USE enum gs_code vmm_breaks_make(const struct guest_break_set *set,
					 const struct vmm_breaks *old,
					 const struct vmm_breaks_ram *ram, uint32_t hardware_max,
					 struct vmm_breaks **breaks_out, struct gs_error *err);

/** Write the BRKs into the text, but for where the guest has written since. All vCPUs are out of the guest. */
void vmm_breaks_plant(const struct vmm_breaks *b, const struct vmm_breaks_ram *ram);

/**
 * Undo it, but for what the guest has written there itself and for places that are there no more. All
 * vCPUs are out of the guest.
 * @return how many the guest has overwritten
 */
uint32_t vmm_breaks_remove(const struct vmm_breaks *b, const struct vmm_breaks_ram *ram);

/** What the guest has at a break now: under a hardware breakpoint it may have changed it. */
uint32_t vmm_breaks_insn(const struct vmm_break *b, const struct vmm_breaks_ram *ram);

/** The break at @p va, or NULL; @p b may be NULL. */
const struct vmm_break *vmm_breaks_find(const struct vmm_breaks *b, uint64_t va);

#endif
