/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the guest's kernel memory: translation cache, words, lists. */
#include <string.h>

#include "introspect/linux/kernel.h"

#define TLB_PAGE UINT64_C(4096)

/* Execute-never at EL1, in the descriptors of stage 1 (DDI 0487J.a, D8.3.2). */
#define DESCRIPTOR_PXN (UINT64_C(1) << 53)

void lnx_view_init(struct lnx_view *v, const struct lnx_kernel *k, const struct guest *g)
{
	*v = (struct lnx_view){ .k = k, .g = g };
}

static enum gs_code translate(struct lnx_view *v, gva_t va, gpa_t *pa_out)
{
	uint64_t page = va.a & ~(TLB_PAGE - 1);
	size_t slot = (page / TLB_PAGE) % LNX_TLB_SIZE;

	if (v->tlb[slot].va != (page | 1)) {
		struct a64_mapping m;
		enum a64_fault f = a64_translate(&v->k->regime, v->g, GVA(page), &m);

		if (f) {
			v->faults[f]++;
			return GS_EFAULT;
		}
		v->tlb[slot].va = page | 1;
		v->tlb[slot].pa = m.pa;
	}
	pa_out->a = v->tlb[slot].pa.a + (va.a - page);
	return GS_OK;
}

enum gs_code lnx_read(struct lnx_view *v, gva_t va, void *buf, size_t len)
{
	const size_t whole = len;

	while (len) {
		size_t n = (size_t)gs_min(len, TLB_PAGE - va.a % TLB_PAGE);
		gpa_t pa;
		enum gs_code rc = translate(v, va, &pa);

		if (rc)
			return rc;
		rc = guest_read(v->g, pa, buf, n);
		if (rc) {
			v->faults[A64_NOT_RAM]++;
			return rc;
		}
		buf = (char *)buf + n;
		va.a += n;
		len -= n;
	}
	v->reads++;
	v->bytes += whole;
	return GS_OK;
}

enum gs_code lnx_read_u64(struct lnx_view *v, gva_t va, uint64_t *value_out)
{
	return lnx_read(v, va, value_out, sizeof(*value_out));
}

enum gs_code lnx_read_u32(struct lnx_view *v, gva_t va, uint32_t *value_out)
{
	return lnx_read(v, va, value_out, sizeof(*value_out));
}

bool lnx_is_text(struct lnx_view *v, uint64_t address)
{
	struct a64_mapping m;

	if (lnx_range_has(v->k->text, address) || lnx_range_has(v->k->init_text, address))
		return true;
	if ((address & 3) || !BIT(address, 55))
		return false;
	return a64_translate(&v->k->regime, v->g, GVA(address), &m) == A64_OK &&
	       !(m.descriptor & DESCRIPTOR_PXN);
}

/* A cycle of length @p cycle has been seen: cut the nodes where they begin to repeat. */
static uint32_t distinct_nodes(const gva_t *nodes, uint32_t n, uint32_t cycle)
{
	for (uint32_t i = 0; i + cycle < n; i++)
		if (nodes[i].a == nodes[i + cycle].a)
			return i + cycle;
	return n;
}

enum gs_code lnx_list_collect(struct lnx_view *v, gva_t head, gva_t *nodes, uint32_t max,
			      uint32_t *n_out)
{
	/*
	 * Brent's cycle search: compare each node with one that is moved up at every power of two.
	 */
	uint32_t mark = 0, power = 1;
	gva_t at = head;

	for (*n_out = 0;;) {
		uint64_t next;
		enum gs_code rc = lnx_read_u64(v, at, &next);

		if (rc)
			return rc;
		if (next == head.a)
			return GS_OK;
		if (!lnx_is_object(v->k, next))
			return GS_EFAULT;
		if (*n_out && nodes[mark].a == next) {
			*n_out = distinct_nodes(nodes, *n_out, *n_out - mark);
			return GS_ELOOP;
		}
		if (*n_out == max)
			return GS_ENOSPC;
		if (*n_out == power) {
			mark = *n_out;
			power *= 2;
		}
		nodes[(*n_out)++] = at = GVA(next);
	}
}
