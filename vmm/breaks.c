/* SPDX-License-Identifier: Apache-2.0 */
/* A set of breaks: where each goes, and putting it into the guest's text. */
#include "vmm/breaks.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/util.h"
#include "vmm/execute.h"

#define INSN_SIZE 4

static uint32_t *word_of(const struct vmm_breaks_ram *ram, gpa_t at)
{
	return (uint32_t *)(void *)(ram->host + (at.a - ram->base));
}

static void put_word(const struct vmm_breaks_ram *ram, gpa_t at, uint32_t insn)
{
	uint32_t *word = word_of(ram, at);

	__atomic_store_n(word, insn, __ATOMIC_RELAXED);
	// What the guest fetches by another address: CPUs whose instruction cache is indexed by physical
	// ones see to that, and KVM itself counts on no others where it can choose.
	__builtin___clear_cache((char *)word, (char *)(word + 1));
}

static uint32_t get_word(const struct vmm_breaks_ram *ram, gpa_t at)
{
	return __atomic_load_n(word_of(ram, at), __ATOMIC_RELAXED);
}

uint32_t vmm_breaks_insn(const struct vmm_break *b, const struct vmm_breaks_ram *ram)
{
	return b->is_hardware ? get_word(ram, b->where.at) : b->insn;
}

static int by_va(const void *a, const void *b)
{
	const struct vmm_break *x = a, *y = b;

	return (x->where.va > y->where.va) - (x->where.va < y->where.va);
}

static enum gs_code check_place(const struct guest_break *b, const struct vmm_breaks_ram *ram,
				struct gs_error *err)
{
	if (b->va % INSN_SIZE || b->at.a % INSN_SIZE)
		return gs_fail(err, GS_EINVAL, "break at %#" PRIx64 ": no instruction begins there",
			       b->va);
	if (!gs_in_range(b->at.a, INSN_SIZE, ram->base, ram->size))
		return gs_fail(err, GS_EFAULT,
			       "break at %#" PRIx64 ": guest-physical %#" PRIx64 " is not RAM",
			       b->va, b->at.a);
	return GS_OK;
}

static enum gs_code check_insn(const struct vmm_break *b, struct gs_error *err)
{
	if (b->is_guests)
		return GS_OK;
	if (guest_insn_is_brk(b->insn))
		return gs_fail(err, GS_EBUSY,
			       "break at %#" PRIx64 ": the guest has a breakpoint of its own there",
			       b->where.va);
	if (!vmm_can_step(b->insn))
		return gs_fail(err, GS_ENOTSUP,
			       "break at %#" PRIx64 ": the instruction there, %#010" PRIx32
			       ", can be neither executed for the guest nor stepped over",
			       b->where.va, b->insn);
	return GS_OK;
}

/*
 * Where a break was before, the guest may have put a breakpoint of its own since. What the instruction
 * behind it is, only the guest knows: the break stays in its hardware breakpoint, or is hit by way of the
 * guest's own.
 */
static void keep_guests(struct vmm_break *b, const struct vmm_breaks *old)
{
	const struct vmm_break *was = vmm_breaks_find(old, b->where.va);

	if (!was || was->where.at.a != b->where.at.a || !guest_insn_is_brk(b->insn))
		return;
	b->is_guests = true;
	b->is_hardware = was->is_hardware;
}

/* Copy, check, and read what is in the text. */
static enum gs_code fill(struct vmm_breaks *b, const struct guest_break_set *set,
			 const struct vmm_breaks *old, const struct vmm_breaks_ram *ram,
			 struct gs_error *err)
{
	for (uint32_t i = 0; i < set->count; i++) {
		enum gs_code rc = check_place(&set->list[i], ram, err);
		if (rc)
			return rc;
		b->list[i].where = set->list[i];
		b->list[i].insn = get_word(ram, set->list[i].at);
		keep_guests(&b->list[i], old);
		rc = check_insn(&b->list[i], err);
		if (rc)
			return rc;
	}
	qsort(b->list, b->count, sizeof(*b->list), by_va);
	for (uint32_t i = 1; i < b->count; i++)
		if (b->list[i].where.va == b->list[i - 1].where.va)
			return gs_fail(err, GS_EINVAL, "break at %#" PRIx64 ": given twice",
				       b->list[i].where.va);
	return GS_OK;
}

static enum gs_code assign_hardware(struct vmm_breaks *b, uint32_t max, struct gs_error *err)
{
	for (uint32_t i = 0; i < b->count; i++)
		b->hardware += b->list[i].is_hardware;
	for (uint32_t i = 0; i < b->count; i++) {
		if (b->list[i].is_guests || vmm_can_execute(b->list[i].insn))
			continue;
		if (b->hardware == max)
			return gs_fail(err, GS_ENOTSUP,
				       "break at %#" PRIx64 ": its instruction, %#010" PRIx32
				       ", needs a hardware breakpoint, and all %" PRIu32
				       " are in use",
				       b->list[i].where.va, b->list[i].insn, max);
		b->list[i].is_hardware = true;
		b->hardware++;
	}
	for (uint32_t i = 0; i < b->count && b->hardware < max; i++) {
		b->hardware += !b->list[i].is_hardware;
		b->list[i].is_hardware = true;
	}
	return GS_OK;
}

enum gs_code vmm_breaks_make(const struct guest_break_set *set, const struct vmm_breaks *old,
			     const struct vmm_breaks_ram *ram, uint32_t hardware_max,
			     struct vmm_breaks **breaks_out, struct gs_error *err)
{
	if (set->count > GUEST_BREAKS_MAX)
		return gs_fail(err, GS_ETOOBIG, "%" PRIu32 " breaks: at most %u at once",
			       set->count, GUEST_BREAKS_MAX);
	struct vmm_breaks *b = calloc(1, sizeof(*b) + set->count * sizeof(b->list[0]));
	if (!b)
		return gs_fail(err, GS_ENOSPC, "no memory for %" PRIu32 " breaks", set->count);
	b->on_hit = set->on_hit;
	b->is_there = set->is_there;
	b->arg = set->arg;
	b->count = set->count;
	enum gs_code rc = fill(b, set, old, ram, err);
	if (!rc)
		rc = assign_hardware(b, hardware_max, err);
	if (rc) {
		free(b);
		return rc;
	}
	*breaks_out = b;
	return GS_OK;
}

/* Whether it is a BRK of ours in memory that still is the guest's text. */
static bool is_planted(const struct vmm_breaks *b, const struct vmm_break *one)
{
	return !one->is_hardware && !one->is_guests &&
	       (!b->is_there || b->is_there(b->arg, &one->where));
}

void vmm_breaks_plant(const struct vmm_breaks *b, const struct vmm_breaks_ram *ram)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct vmm_break *one = &b->list[i];

		if (is_planted(b, one) && get_word(ram, one->where.at) == one->insn)
			put_word(ram, one->where.at, GUEST_BREAK_INSN);
	}
}

uint32_t vmm_breaks_remove(const struct vmm_breaks *b, const struct vmm_breaks_ram *ram)
{
	uint32_t overwritten = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct vmm_break *one = &b->list[i];

		if (!is_planted(b, one))
			continue;
		if (get_word(ram, one->where.at) == GUEST_BREAK_INSN)
			put_word(ram, one->where.at, one->insn);
		else
			overwritten++;
	}
	return overwritten;
}

const struct vmm_break *vmm_breaks_find(const struct vmm_breaks *b, uint64_t va)
{
	const struct vmm_break key = { .where.va = va };

	return b ? bsearch(&key, b->list, b->count, sizeof(key), by_va) : NULL;
}
