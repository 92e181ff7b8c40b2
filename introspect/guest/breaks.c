/* SPDX-License-Identifier: Apache-2.0 */
/* Breaks of any guest: what its source does, or says that it cannot. */
#include "introspect/guest/breaks.h"

#include <stddef.h>

#include "introspect/guest/guest.h"

bool guest_can_break(const struct guest *g)
{
	return g->ops->breaks != NULL;
}

enum gs_code guest_breaks_set(struct guest *g, const struct guest_break_set *set,
			      struct gs_error *err)
{
	if (!guest_can_break(g))
		return set->count ? gs_fail(err, GS_ENOTSUP,
					    "a guest from %s takes no breakpoints: only those that "
					    "guestshot runs itself do",
					    g->source)
				  : GS_OK;
	return g->ops->breaks->set(g->priv, set, err);
}

bool guest_break_original(const struct guest *g, uint64_t va, uint32_t *insn_out)
{
	return guest_can_break(g) && g->ops->breaks->original(g->priv, va, insn_out);
}

void guest_break_counts_get(const struct guest *g, struct guest_break_counts *counts_out)
{
	*counts_out = (struct guest_break_counts){ 0 };
	if (guest_can_break(g))
		g->ops->breaks->counts(g->priv, counts_out);
}
