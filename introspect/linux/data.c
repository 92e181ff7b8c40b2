/* SPDX-License-Identifier: Apache-2.0 */
/* Variables by name, also where kallsyms has none, and the build id. */
#include <elf.h>
#include <string.h>

#include "introspect/linux/finder.h"

/*
 * Without CONFIG_KALLSYMS_ALL (Debian's 5.10 and 6.1) the symbol table has functions only. Variables
 * that modules may use have an entry of __ksymtab all the same, in the read-only data:
 *
 *	{ s32 value_offset, name_offset, namespace_offset }
 *
 * each counted from its own place (struct kernel_symbol in include/linux/export.h and
 * kernel/module/internal.h, HAVE_ARCH_PREL32_RELOCATIONS: since 4.20).
 */
static const char *const names[LNX_V_EXPORTED] = {
	[LNX_V_ZONE_STAT] = "vm_zone_stat", [LNX_V_NODE_STAT] = "vm_node_stat",
	[LNX_V_LOAD] = "avenrun",	    [LNX_V_TOTAL_PAGES] = "_totalram_pages",
	[LNX_V_JIFFIES] = "jiffies_64",
};

/*
 * Entries lie before the names, all of them (RO_DATA in include/asm-generic/vmlinux.lds.h): 12 bytes
 * for each of some 30,000 at most, and some other tables between. In 6.1 it is 130 KiB.
 */
#define ENTRIES_REACH (UINT64_C(2) << 20)

/* --- first round, beside the search for types: build id, names --- */

/* The note of the build id: name and descriptor sizes, NT_GNU_BUILD_ID, name. */
static const uint8_t build_id_note[16] = { 4, 0, 0, 0, LNX_BUILD_ID, 0,	  0,   0,
					   3, 0, 0, 0, 'G',	     'N', 'U', 0 };

void lnx_build_id_look(const uint8_t *piece, size_t size,
		       bool (*is_of_vdso)(size_t note, const void *arg), const void *arg,
		       uint8_t *build_id_out)
{
	for (size_t i = 0; i + sizeof(build_id_note) + LNX_BUILD_ID <= size; i += 4)
		if (piece[i] == build_id_note[0] &&
		    !memcmp(piece + i, build_id_note, sizeof(build_id_note)) && !is_of_vdso(i, arg))
			memcpy(build_id_out, piece + i + sizeof(build_id_note), LNX_BUILD_ID);
}

/* A piece of the guest's memory. */
struct piece {
	const struct lnx_finder *f;
	gpa_t at;
};

/*
 * The vDSOs are ELF files in the read-only data, with notes of their own: on their first page, behind
 * the ELF header at its start (arch/arm64/kernel/vdso.S aligns them to pages).
 */
static bool is_of_vdso(size_t note, const void *arg)
{
	const struct piece *p = arg;
	uint8_t start[SELFMAG];

	return !guest_read(p->f->g, GPA((p->at.a + note) & ~UINT64_C(4095)), start,
			   sizeof(start)) &&
	       !memcmp(start, ELFMAG, SELFMAG);
}

/* What lies in two pieces is met twice. */
static void add_place(struct lnx_data_search *s, size_t n, uint64_t place)
{
	for (uint32_t i = 0; i < s->places[n]; i++)
		if (s->place[n][i] == place)
			return;
	if (s->places[n] == LNX_PLACES_MAX)
		return;
	s->place[n][s->places[n]++] = place;
	s->lowest = gs_min(s->lowest, place);
	s->highest = gs_max(s->highest, place);
}

void lnx_data_look(struct lnx_finder *f, struct lnx_data_search *s, const uint8_t *piece,
		   size_t size, gpa_t at)
{
	lnx_build_id_look(piece, size, is_of_vdso, &(struct piece){ f, at }, f->k->build_id);
	for (size_t n = 0; n < LNX_V_EXPORTED; n++) {
		const size_t len = strlen(names[n]) + 1; /* up to its end */
		const uint8_t *found = piece;

		if (!s->is_wanted[n])
			continue;
		while ((found = memmem(found, size - (size_t)(found - piece), names[n], len))) {
			add_place(s, n, at.a + (uint64_t)(found - piece));
			found++;
		}
	}
}

/* --- second round: entries of these names --- */

/* The offset at @p word leads there from its own place. */
static uint64_t led_to(const uint8_t *word, uint64_t place)
{
	return place + (uint64_t)(int64_t)(int32_t)gs_get_u32(word);
}

/* Believed if it is in the image and mapped as that. */
static void take_value(struct lnx_finder *f, struct lnx_data_search *s, size_t n, uint64_t pa)
{
	const struct lnx_kernel *k = f->k;
	const uint64_t value = pa + k->voffset;
	struct a64_mapping m;

	if (value % 8 || !gs_in_range(value, 8, k->text.start, LNX_IMAGE_REACH) ||
	    a64_translate(&k->regime, f->g, GVA(value), &m) || m.pa.a != pa)
		return;
	s->is_unclear[n] |= s->value[n] && s->value[n] != value;
	s->value[n] = value;
}

static bool look_for_entries(struct lnx_finder *f, const uint8_t *piece, size_t size, gpa_t at,
			     void *arg)
{
	struct lnx_data_search *s = arg;
	const uint64_t lowest = s->lowest, reach = s->highest - lowest;

	for (size_t i = 4; i + 4 <= size; i += 4) {
		const uint64_t name = led_to(piece + i, at.a + i);

		if (name - lowest > reach)
			continue; /* nearly all */
		for (size_t n = 0; n < LNX_V_EXPORTED; n++)
			for (uint32_t p = 0; p < s->places[n]; p++)
				if (s->place[n][p] == name)
					take_value(f, s, n, led_to(piece + i - 4, at.a + i - 4));
	}
	return false;
}

void lnx_data_begin(struct lnx_finder *f, struct lnx_data_search *s)
{
	*s = (struct lnx_data_search){ .lowest = UINT64_MAX };
	for (size_t n = 0; n < LNX_V_EXPORTED; n++)
		s->is_wanted[n] = kallsyms_find(&f->k->ks, names[n], &f->k->variable[n].a) != GS_OK;
}

enum gs_code lnx_data_end(struct lnx_finder *f, struct lnx_data_search *s)
{
	if (!s->highest)
		return GS_OK;
	const uint64_t start = lnx_rodata(f->k).start;
	const uint64_t back = gs_min(s->highest - start, ENTRIES_REACH);
	enum gs_code rc = lnx_scan(f, GPA(s->highest - back), GPA(s->highest), look_for_entries, s);

	for (size_t n = 0; n < LNX_V_EXPORTED; n++)
		if (s->is_wanted[n])
			f->k->variable[n] = GVA(s->is_unclear[n] ? 0 : s->value[n]);
	return rc;
}
