/* SPDX-License-Identifier: Apache-2.0 */
/* Where a kernel whose symbol table was found is mapped: its page tables, its virtual addresses. */
#include <inttypes.h>

#include "introspect/linux/finder.h"

/* Descriptors read to find a table by what it maps: the largest kernels have some 200,000 leaves. */
#define ROOT_BUDGET	 (UINT64_C(1) << 24)
#define ROOT_ENTRIES_MAX 64
#define TEXT_SAMPLES	 16
/* Blocks of 2, 32 or 512 MiB, by the size of pages. */
#define IMAGE_LEVEL_MIN 2

bool lnx_regime_of(const struct lnx_finder *f, uint32_t vcpu, uint32_t variant,
		   struct a64_regime *r)
{
	const struct guest_vcpu_regs *regs = &f->regs[vcpu];

	if (regs->state == GUEST_VCPU_OFF || !(regs->valid & GUEST_REGS_MMU) ||
	    !(regs->sctlr_el1 & 1))
		return false;
	if (a64_regime_init(r, regs->tcr_el1, 0, regs->ttbr1_el1) || !r->half[1].enabled)
		return false;
	/*
	 * tramp_pg_dir, reserved_pg_dir and swapper_pg_dir lie a page apart in this order
	 * (arch/arm64/kernel/vmlinux.lds.S, 5.10 to 7.3; without SW_TTBR0_PAN one page may be
	 * missing).
	 */
	static const uint32_t pages_on[LNX_TABLES_PER_VCPU] = { 0, 2, 1 };
	r->half[1].table.a += (uint64_t)pages_on[variant] << r->half[1].granule_bits;
	r->half[0].enabled = false;
	return true;
}

/*
 * Whether all of the text lies where the offset says, as it does in no table that is read with the
 * wrong page size. Symbols of style C count from physical addresses until the offset is known.
 */
static bool maps_text(const struct lnx_finder *f, const struct a64_regime *r, uint64_t voffset)
{
	const struct kallsyms *ks = &f->k->ks;
	uint64_t start, end, bias = ks->absolute ? 0 : voffset;

	if (kallsyms_find(ks, "_stext", &start) || kallsyms_find(ks, "_etext", &end))
		return true; /* the next step says that they are missing */
	for (uint64_t i = 0; i < TEXT_SAMPLES && start < end; i++) {
		uint64_t va = start + (end - start) / TEXT_SAMPLES * i + bias;
		struct a64_mapping m;

		if (a64_translate(r, f->g, GVA(va), &m) || m.pa.a != va - voffset)
			return false;
	}
	return true;
}

/* A block of 2 MiB that is taken for one of 32 or 512 MiB has address bits where none may be. */
static bool has_reserved_bits(const struct a64_half *h, const struct a64_mapping *m)
{
	unsigned int lsb = h->granule_bits + (unsigned int)(3 - m->level) * (h->granule_bits - 3u);

	return lsb > h->granule_bits && BITS(m->descriptor, lsb - 1, 17) != 0;
}

/*
 * Accept a table and an offset when they map the symbol table to the place where it was found. Parts
 * of the image differ in their permissions, so that no huge block maps it, as any word that looks
 * like the descriptor of one would.
 */
static bool anchor(struct lnx_finder *f, const struct a64_regime *r, uint64_t voffset)
{
	struct lnx_kernel *k = f->k;
	struct a64_mapping m;

	if (a64_translate(r, f->g, GVA(k->proof_pa.a + voffset), &m) || m.pa.a != k->proof_pa.a ||
	    m.level < IMAGE_LEVEL_MIN || has_reserved_bits(&r->half[1], &m) ||
	    !maps_text(f, r, voffset))
		return false;
	k->regime = *r;
	k->voffset = voffset;
	return true;
}

static bool anchor_by_address(struct lnx_finder *f, const struct a64_regime *r, uint64_t va)
{
	struct a64_mapping m;

	return !a64_translate(r, f->g, GVA(va), &m) && anchor(f, r, va - m.pa.a);
}

/*
 * A table that is sorted by place-relative offsets says nothing of virtual addresses: registers do.
 */
static bool anchor_by_registers(struct lnx_finder *f, const struct a64_regime *r,
				const struct guest_vcpu_regs *regs)
{
	uint64_t candidates[] = { regs->vbar_el1, regs->pc, regs->x[30], regs->elr_el1 };

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		if (anchor_by_address(f, r, a64_strip(candidates[i], r->half[1].va_bits)))
			return true;
	return false;
}

static bool place_by_registers(struct lnx_finder *f)
{
	const struct kallsyms *ks = &f->k->ks;

	for (uint32_t variant = 0; variant < LNX_TABLES_PER_VCPU; variant++) {
		for (uint32_t i = 0; i < f->vcpus; i++) {
			struct a64_regime r;

			if (lnx_regime_of(f, i, variant, &r) &&
			    (ks->absolute ? anchor_by_address(f, &r, ks->address[0])
					  : anchor_by_registers(f, &r, &f->regs[i])))
				return true;
		}
	}
	return false;
}

/* Forms of a kernel's half that Linux has been built with: pages and bits of an address. */
static const struct shape {
	uint8_t granule_bits, va_bits;
} shapes[] = {
	{ 12, 48 }, { 12, 52 }, { 14, 47 }, { 14, 52 }, { 14, 48 },
	{ 16, 52 }, { 16, 48 }, { 12, 39 }, { 14, 36 }, { 16, 42 },
};

static bool regime_of_shape(const struct shape *s, struct a64_regime *r)
{
	static const uint64_t tg1[] = { [12] = 2, [14] = 1, [16] = 3 };
	/* EPD0, T1SZ, TG1, 52-bit output addresses for 52-bit input addresses: IPS 6, and DS */
	uint64_t tcr = UINT64_C(1) << 7 | (uint64_t)(64 - s->va_bits) << 16 |
		       tg1[s->granule_bits] << 30 | UINT64_C(5) << 32;

	if (s->va_bits == 52)
		tcr = (tcr & ~(UINT64_C(7) << 32)) | UINT64_C(6) << 32 | UINT64_C(1) << 59;
	return !a64_regime_init(r, tcr, 0, 0) && r->half[1].enabled;
}

/* Entries of a top table are few and lead to RAM; what else lies in the image is hardly so. */
static bool looks_like_root(const struct lnx_finder *f, const struct a64_half *h, gpa_t table)
{
	uint32_t valid = 0;

	for (uint64_t i = 0; i < 512; i++) {
		uint64_t entry;

		if (guest_read_u64(f->g, GPA(table.a + i * sizeof(entry)), &entry))
			return false;
		if (!entry)
			continue;
		uint64_t next = BITS(entry, 47, h->granule_bits) << h->granule_bits;
		if ((entry & 3) != 3 || !guest_range_find(f->g, GPA(next)))
			return false;
		valid++;
	}
	return valid && valid <= ROOT_ENTRIES_MAX;
}

/*
 * Of a symbol table that says nothing of virtual addresses: the directory is the one that maps it
 * twice, in the image and in the linear map below. A table further down maps only one of them.
 */
static bool anchor_by_mappings(struct lnx_finder *f, const struct a64_regime *r, uint64_t *budget)
{
	gva_t image, linear;
	const gpa_t pa = f->k->proof_pa;

	return looks_like_root(f, &r->half[1], r->half[1].table) &&
	       a64_find_mapping(r, f->g, pa, A64_HIGHEST, budget, &image) &&
	       anchor(f, r, image.a - pa.a) &&
	       a64_find_mapping(r, f->g, pa, A64_LOWEST, budget, &linear) && linear.a != image.a;
}

/* Whether the page directory of the kernel, in one of its forms for pages of this size, is at @p at. */
static bool is_directory(struct lnx_finder *f, gpa_t at, unsigned int granule_bits,
			 uint64_t *budget)
{
	const struct kallsyms *ks = &f->k->ks;

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		struct a64_regime r;

		if (shapes[s].granule_bits != granule_bits || !regime_of_shape(&shapes[s], &r))
			continue;
		r.half[1].table = at;
		if (ks->absolute ? anchor_by_address(f, &r, ks->address[0])
				 : anchor_by_mappings(f, &r, budget))
			return true;
	}
	return false;
}

/*
 * Without registers: swapper_pg_dir lies in the image, between its read-only data and its init text
 * (vmlinux.lds.S, 5.10 to 7.3), so mostly above the symbol table; it is known by mapping that to
 * where it was found.
 */
static bool place_by_search(struct lnx_finder *f)
{
	static const unsigned int granules[] = { 12, 14, 16 };
	const struct guest_range *range = guest_range_find(f->g, f->k->proof_pa);
	const uint64_t offset = f->k->proof_pa.a - range->start.a;
	const uint64_t above = gs_min(range->size - offset, LNX_IMAGE_REACH);
	const uint64_t below = gs_min(offset, LNX_IMAGE_REACH);
	uint64_t budget = ROOT_BUDGET;

	for (size_t i = 0; i < ARRAY_SIZE(granules); i++) {
		const uint64_t page = UINT64_C(1) << granules[i];
		const uint64_t middle = f->k->proof_pa.a & ~(page - 1);

		for (uint64_t d = 0; d < above; d += page)
			if (is_directory(f, GPA(middle + d), granules[i], &budget))
				return true;
		for (uint64_t d = page; d < below; d += page)
			if (is_directory(f, GPA(middle - d), granules[i], &budget))
				return true;
	}
	return false;
}

/* The kernel says itself where its page directory and its image are. */
static bool place_by_vmcoreinfo(struct lnx_finder *f)
{
	uint64_t directory, voffset;

	if (!lnx_vmcoreinfo_number(f->hints, "SYMBOL(swapper_pg_dir)", &directory) ||
	    !lnx_vmcoreinfo_number(f->hints, "NUMBER(kimage_voffset)", &voffset))
		return false;
	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		struct a64_regime r;

		if (!regime_of_shape(&shapes[s], &r))
			continue;
		r.half[1].table = GPA(directory - voffset);
		if (anchor(f, &r, voffset))
			return true;
	}
	return false;
}

static bool place_by(struct lnx_finder *f, enum lnx_way way, bool (*find)(struct lnx_finder *))
{
	f->k->found.place_by = way;
	return find(f);
}

enum gs_code lnx_find_place(struct lnx_finder *f)
{
	struct kallsyms *ks = &f->k->ks;

	if (!place_by(f, LNX_BY_REGISTERS, place_by_registers) &&
	    !place_by(f, LNX_BY_VMCOREINFO, place_by_vmcoreinfo) &&
	    !place_by(f, LNX_BY_SCAN, place_by_search))
		return gs_fail(f->err, GS_ENOENT,
			       "a kernel symbol table is at guest-physical %#" PRIx64
			       ", but no page table leads to it (MMU still off?)",
			       f->k->proof_pa.a);
	if (!ks->absolute)
		kallsyms_rebase(ks, f->k->voffset);
	return GS_OK;
}

bool lnx_linear_offset(const struct lnx_kernel *k, const struct guest *g, uint64_t *offset_out)
{
	uint64_t budget = ROOT_BUDGET;
	gva_t linear;

	if (!a64_find_mapping(&k->regime, g, k->proof_pa, A64_LOWEST, &budget, &linear))
		return false;
	*offset_out = linear.a - k->proof_pa.a;
	return *offset_out != k->voffset;
}
