/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of processes and of the whole guest: ASIDs, page directories, counters of pages. */
#include "introspect/linux/kernel.h"

#define ASID_MASK UINT64_C(0xffff)

bool lnx_knows_asid(const struct lnx_kernel *k)
{
	return lnx_field_of(k, LNX_M_TASK_MM)->present &&
	       lnx_field_of(k, LNX_M_MM_CONTEXT_ID)->present;
}

bool lnx_knows_page_tables(const struct lnx_kernel *k)
{
	return lnx_field_of(k, LNX_M_TASK_MM)->present && lnx_field_of(k, LNX_M_MM_PGD)->present;
}

/* --- address spaces --- */

void lnx_mm_prefetch_entry(struct lnx_view *v, gva_t mm)
{
	if (v->can_prefetch && lnx_is_object(v->k, mm.a))
		lnx_prefetch_entry(v, lnx_member_of(v->k, mm, LNX_M_MM_CONTEXT_ID));
}

void lnx_mm_prefetch(struct lnx_view *v, gva_t mm)
{
	if (v->can_prefetch && lnx_is_object(v->k, mm.a))
		lnx_prefetch(v, lnx_member_of(v->k, mm, LNX_M_MM_CONTEXT_ID), sizeof(uint64_t));
}

static enum gs_code read_member(struct lnx_view *v, gva_t mm, enum lnx_member m,
				uint64_t *value_out)
{
	if (!lnx_is_object(v->k, mm.a))
		return GS_EMALFORMED;
	return lnx_read_u64(v, lnx_member_of(v->k, mm, m), value_out);
}

enum gs_code lnx_mm_asid(struct lnx_view *v, gva_t mm, uint32_t *asid_out)
{
	uint64_t id;
	enum gs_code rc = read_member(v, mm, LNX_M_MM_CONTEXT_ID, &id);

	if (!rc)
		*asid_out = (uint32_t)(id & ASID_MASK);
	return rc;
}

/* What low addresses are translated by, but for the table. */
static struct a64_half user_form(const struct lnx_kernel *k, const struct guest_vcpu_regs *regs,
				 uint32_t n)
{
	const struct a64_half *kernel = &k->regime.half[1];
	struct a64_half first = *kernel;
	bool is_first = true;

	for (uint32_t i = 0; i < n; i++) {
		struct a64_regime r;

		if (regs[i].state == GUEST_VCPU_OFF || !(regs[i].valid & GUEST_REGS_MMU) ||
		    a64_regime_init(&r, regs[i].tcr_el1, 0, 0) || !r.half[0].granule_bits)
			continue;
		if (r.half[0].granule_bits == kernel->granule_bits &&
		    r.half[0].va_bits == kernel->va_bits)
			return r.half[0];
		if (is_first)
			first = r.half[0];
		is_first = false;
	}
	return first;
}

enum gs_code lnx_mm_half(struct lnx_view *v, gva_t mm, const struct guest_vcpu_regs *regs,
			 uint32_t n, struct a64_half *half_out)
{
	struct a64_half half = user_form(v->k, regs, n);
	uint64_t pgd;
	gpa_t pa;
	enum gs_code rc = read_member(v, mm, LNX_M_MM_PGD, &pgd);

	if (!rc && !lnx_is_object(v->k, pgd))
		rc = GS_EMALFORMED;
	if (!rc)
		rc = lnx_translate(v, GVA(pgd), &pa);
	if (rc)
		return rc;
	/* as TTBR0_EL1 has it: bits 51:48 of a table are its bits 5:2 */
	a64_half_set_table(&half, (pa.a & ((UINT64_C(1) << 48) - 1)) | BITS(pa.a, 51, 48) << 2);
	if (half.table.a != pa.a)
		return GS_EMALFORMED; /* not aligned as a table of this size */
	/* a vCPU that is in the kernel may have it switched off */
	half.enabled = true;
	*half_out = half;
	return GS_OK;
}

/* --- counters --- */

static bool is_optional(enum lnx_counter c)
{
	return c == LNX_C_ZSPAGES || c == LNX_C_SLAB_UNRECLAIMABLE;
}

bool lnx_knows_page_counts(const struct lnx_kernel *k)
{
	for (int c = 0; c < LNX_COUNTERS; c++)
		if (!k->types.counter[c].present && !is_optional((enum lnx_counter)c))
			return false;
	return k->variable[LNX_V_ZONE_STAT].a && k->variable[LNX_V_NODE_STAT].a;
}

static enum gs_code read_counter(struct lnx_view *v, enum lnx_counter c, uint64_t *pages_out)
{
	const struct lnx_element *e = &v->k->types.counter[c];
	uint64_t value;

	*pages_out = 0;
	if (!e->present)
		return GS_OK;
	const gva_t array = v->k->variable[e->of_nodes ? LNX_V_NODE_STAT : LNX_V_ZONE_STAT];
	enum gs_code rc = lnx_read_u64(v, GVA(array.a + e->index * sizeof(value)),
				       &value); /* atomic_long_t */
	if (!rc && (int64_t)value > 0)
		*pages_out = value;
	return rc;
}

enum gs_code lnx_page_counts_read(struct lnx_view *v, struct lnx_page_counts *counts_out)
{
	uint64_t n[LNX_COUNTERS];

	for (int c = 0; c < LNX_COUNTERS; c++) {
		enum gs_code rc = read_counter(v, (enum lnx_counter)c, &n[c]);

		if (rc)
			return rc;
	}
	*counts_out = (struct lnx_page_counts){
		.free = n[LNX_C_FREE_PAGES],
		.active = n[LNX_C_ACTIVE_ANON] + n[LNX_C_ACTIVE_FILE],
		.inactive = n[LNX_C_INACTIVE_ANON] + n[LNX_C_INACTIVE_FILE],
		.unevictable = n[LNX_C_UNEVICTABLE],
		.slab_unreclaimable = n[LNX_C_SLAB_UNRECLAIMABLE],
		.file = n[LNX_C_FILE_PAGES],
		.zspages = n[LNX_C_ZSPAGES],
	};
	return GS_OK;
}
