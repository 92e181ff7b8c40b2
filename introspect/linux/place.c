/* SPDX-License-Identifier: Apache-2.0 */
/* Where a kernel whose symbol table was found is mapped: its page tables, its virtual addresses. */
#include <inttypes.h>

#include "introspect/linux/finder.h"

/*
 * Descriptors read to find a table by what it maps: the largest kernels have some 200,000 leaves
 * above their image. One that is no directory may lead in circles, and shall leave the others some.
 */
#define ROOT_BUDGET	(UINT64_C(1) << 24)
#define ROOT_BUDGET_ONE (ROOT_BUDGET / 8)
/*
 * Bits of a table's descriptor that the CPU ignores (DDI 0487J.a, D8.3.1) and Linux leaves 0; its
 * leaves have UXN or PXN among them, the kernel's as well as those of processes (5.10 to 7.3).
 */
#define NOT_TABLE (UINT64_C(0xff) << 51)
/* Entries of a first table besides those of the linear map. */
#define ROOT_ENTRIES_MAX 64
#define TEXT_SAMPLES	 16
/* Execute-never at EL1 (DDI 0487J.a, D8.3.2). */
#define DESCRIPTOR_PXN (UINT64_C(1) << 53)
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
 * Whether all of the text lies where the offset says and can be executed: the first it does in no
 * table that is read with the wrong page size, the second not in the linear map. Symbols of style C
 * count from physical addresses until the offset is known.
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

		if (a64_translate(r, f->g, GVA(va), &m) || m.pa.a != va - voffset ||
		    (m.descriptor & DESCRIPTOR_PXN))
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
 * An address that is surely mapped. _text may be the first symbol, but what is before _stext is not
 * mapped from 5.11 to 6.15, and its address is used for something else.
 */
static uint64_t text_address(const struct kallsyms *ks)
{
	uint64_t va;

	return kallsyms_find(ks, "_stext", &va) ? ks->address[0] : va;
}

/*
 * A table that is sorted by place-relative offsets says nothing of virtual addresses: registers do.
 */
static bool anchor_by_registers(struct lnx_finder *f, const struct a64_regime *r,
				const struct guest_vcpu_regs *regs)
{
	uint64_t candidates[] = { regs->vbar_el1, regs->elr_el1, regs->pc, regs->x[30] };

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		if (anchor_by_address(f, r, a64_strip(candidates[i], r->half[1].va_bits)))
			return true;
	return false;
}

static bool place_by_registers(struct lnx_finder *f)
{
	const struct kallsyms *ks = &f->k->ks;
	const uint64_t text = text_address(ks);

	for (uint32_t variant = 0; variant < LNX_TABLES_PER_VCPU; variant++) {
		for (uint32_t i = 0; i < f->vcpus; i++) {
			struct a64_regime r;

			if (lnx_regime_of(f, i, variant, &r) &&
			    (ks->absolute ? anchor_by_address(f, &r, text)
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

/* A table, or a block of the linear map. */
static bool leads_to_ram(const struct lnx_finder *f, const struct a64_half *h, uint64_t entry)
{
	uint64_t next = BITS(entry, 47, h->granule_bits) << h->granule_bits;

	return (entry & 1) && guest_range_find(f->g, GPA(next));
}

/* Entries of a first table are few and lead to RAM; what else lies in the image is hardly so. */
static bool looks_like_root(const struct lnx_finder *f, const struct a64_half *h)
{
	const unsigned int stride = h->granule_bits - 3u;
	const unsigned int lsb = h->granule_bits + (unsigned int)(3 - h->start_level) * stride;
	const uint64_t n = UINT64_C(1) << (h->va_bits - lsb);
	const uint64_t most = ROOT_ENTRIES_MAX + 2 * (guest_ram_size(f->g) >> lsb);
	uint64_t valid = 0, entry[64] = { 0 };
	const size_t part = (size_t)gs_min(n, ARRAY_SIZE(entry));

	for (uint64_t at = 0; at < n; at += part) {
		if (guest_read(f->g, GPA(h->table.a + at * sizeof(entry[0])), entry,
			       part * sizeof(entry[0])))
			return false;
		for (size_t i = 0; i < part; i++)
			if (entry[i] && (!leads_to_ram(f, h, entry[i]) || ++valid > most))
				return false;
	}
	return valid;
}

/* The directory is part of the image, and so it maps itself; a table further down does not. */
static bool maps_itself(const struct lnx_finder *f)
{
	const struct a64_regime *r = &f->k->regime;
	const gpa_t table = r->half[1].table;
	struct a64_mapping m;

	return !a64_translate(r, f->g, GVA(table.a + f->k->voffset), &m) && m.pa.a == table.a;
}

/* With pages of 4K and no blocks the linear map takes a descriptor for each page. */
static uint64_t linear_budget(const struct guest *g)
{
	return ROOT_BUDGET + 2 * (guest_ram_size(g) >> 12);
}

/*
 * The image has addresses in the upper half of the kernel's, which are those of 48 bits where there
 * are 52 (KIMAGE_VADDR in arch/arm64/include/asm/memory.h, 5.4 to 7.3). A directory of 48 bits that
 * is read as one of 52 maps all to addresses below.
 */
static bool is_image_address(const struct a64_half *h, gva_t va)
{
	return va.a >= ~UINT64_C(0) << (gs_min(h->va_bits, 48) - 1);
}

/*
 * Of a symbol table that says nothing of virtual addresses: the directory is the one that maps it
 * twice, in the image and in the linear map below. A table further down maps only one of them.
 */
static bool anchor_by_mappings(struct lnx_finder *f, const struct a64_regime *r, uint64_t *budget)
{
	const uint64_t all = gs_min(*budget, ROOT_BUDGET_ONE);
	uint64_t left = all, whole = linear_budget(f->g);
	const gpa_t pa = f->k->proof_pa;
	gva_t image, linear;

	if (!looks_like_root(f, &r->half[1]))
		return false;
	bool found = a64_find_mapping(r, f->g, pa, A64_HIGHEST, NOT_TABLE, &left, &image);
	*budget -= all - left;
	return found && is_image_address(&r->half[1], image) && anchor(f, r, image.a - pa.a) &&
	       maps_itself(f) &&
	       a64_find_mapping(r, f->g, pa, A64_LOWEST, NOT_TABLE, &whole, &linear) &&
	       linear.a != image.a;
}

/* What the search for the page directory goes by. */
struct directory_search {
	struct a64_regime shape[ARRAY_SIZE(shapes)];
	uint64_t text;	 /* address of the text, of a table that has addresses */
	uint64_t budget; /* for one that has not */
};

/* Whether the page directory of the kernel, in one of its forms for pages of this size, is at @p at. */
static bool is_directory(struct lnx_finder *f, gpa_t at, unsigned int granule_bits,
			 struct directory_search *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		struct a64_regime *r = &s->shape[i];

		if (shapes[i].granule_bits != granule_bits)
			continue;
		r->half[1].table = at;
		if (f->k->ks.absolute ? anchor_by_address(f, r, s->text) && maps_itself(f)
				      : anchor_by_mappings(f, r, &s->budget))
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
	/* a dump may lack pages, and be in pieces where it does */
	const uint64_t below = gs_min(f->k->proof_pa.a, LNX_IMAGE_REACH);
	struct directory_search s = { .text = text_address(&f->k->ks), .budget = ROOT_BUDGET };

	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (!regime_of_shape(&shapes[i], &s.shape[i]))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(granules); i++) {
		const uint64_t page = UINT64_C(1) << granules[i];
		const uint64_t middle = f->k->proof_pa.a & ~(page - 1);

		for (uint64_t d = 0; d < LNX_IMAGE_REACH; d += page)
			if (is_directory(f, GPA(middle + d), granules[i], &s))
				return true;
		for (uint64_t d = page; d < below; d += page)
			if (is_directory(f, GPA(middle - d), granules[i], &s))
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
		if (anchor(f, &r, voffset) && maps_itself(f))
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
	uint64_t budget = linear_budget(g);
	gva_t linear;

	if (!a64_find_mapping(&k->regime, g, k->proof_pa, A64_LOWEST, NOT_TABLE, &budget, &linear))
		return false;
	*offset_out = linear.a - k->proof_pa.a;
	return *offset_out != k->voffset;
}
