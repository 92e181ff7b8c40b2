/* SPDX-License-Identifier: Apache-2.0 */
/* Text of the image that is mapped a second time: KPTI's trampoline. */
#include "introspect/linux/kernel.h"

#define TRAMP_PAGE  UINT64_C(4096)
#define TRAMP_PAGES 4 /* it is asserted to have three at most (vmlinux.lds.S, 6.1) */

/* Where an executable address leads in the image. */
static bool image_of(struct lnx_view *v, uint64_t address, uint64_t *image_out)
{
	gpa_t pa;

	if (!lnx_is_text(v, address & ~UINT64_C(3)) || lnx_translate(v, GVA(address), &pa))
		return false;
	*image_out = pa.a + v->k->voffset;
	return true;
}

bool lnx_is_alias(struct lnx_view *v, uint64_t address)
{
	const struct lnx_kernel *k = v->k;
	const struct lnx_range image = { k->text.start, k->init_text.end };
	uint64_t there;

	return !lnx_range_has(image, address) && image_of(v, address, &there) &&
	       lnx_range_has(image, there);
}

/* Pages on from @p page, by @p step, that are the same piece of the image. */
static uint64_t same_piece(struct lnx_view *v, uint64_t page, uint64_t image, uint64_t step)
{
	uint64_t n = 0, other;

	while (n < TRAMP_PAGES && image_of(v, page + (n + 1) * step, &other) &&
	       other == image + (n + 1) * step)
		n++;
	return n;
}

/* Without CONFIG_KALLSYMS_ALL it has no symbols where it lies in the read-only data. */
static void name_trampoline(struct lnx_view *v, uint64_t address, uint64_t image,
			    struct lnx_symbol *symbol_out)
{
	const uint64_t page = address & ~(TRAMP_PAGE - 1);

	image &= ~(TRAMP_PAGE - 1);
	*symbol_out = (struct lnx_symbol){ .type = 't', .name = "tramp_vectors" };
	symbol_out->start = page - same_piece(v, page, image, -TRAMP_PAGE) * TRAMP_PAGE;
	symbol_out->size = page + (same_piece(v, page, image, TRAMP_PAGE) + 1) * TRAMP_PAGE -
			   symbol_out->start;
}

enum gs_code lnx_symbol_at_alias(struct lnx_view *v, gva_t address, struct lnx_symbol *symbol_out)
{
	const struct lnx_kernel *k = v->k;
	const struct lnx_range rodata = { k->text.end, k->init_text.start };
	uint64_t image;

	if (!image_of(v, address.a, &image) || image == address.a)
		return GS_ENOENT;
	if (lnx_range_has(rodata, image)) {
		if (lnx_nearest_symbol(k, image, symbol_out) || symbol_out->start < rodata.start ||
		    (symbol_out->type | 0x20) != 't') {
			name_trampoline(v, address.a, image, symbol_out);
			return GS_OK;
		}
	} else if (lnx_symbol_at(k, GVA(image), symbol_out)) {
		return GS_ENOENT;
	}
	symbol_out->start += address.a - image;
	return GS_OK;
}
