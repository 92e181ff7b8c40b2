/* SPDX-License-Identifier: Apache-2.0 */
/* A guest whose RAM is single words: a walk that reads any other place fails. */
#include "tests/unit/arm64/words.h"

#include <stdlib.h>

void words_init(struct words *w)
{
	memory_guest_init(&w->m, 0);
}

void words_put(struct words *w, uint64_t pa, uint64_t value)
{
	struct guest *g = &w->m.guest;
	uint32_t i = 0;

	while (i < g->range_count && w->m.ranges[i].start.a < pa)
		i++;
	if (i == g->range_count || w->m.ranges[i].start.a != pa) {
		if (g->range_count == MEMORY_GUEST_RANGES_MAX)
			abort(); // a mistake in the test
		for (uint32_t k = g->range_count++; k > i; k--) {
			w->m.ranges[k] =
				(struct guest_range){ w->m.ranges[k - 1].start, 8, &w->value[k] };
			w->value[k] = w->value[k - 1];
		}
		w->m.ranges[i] = (struct guest_range){ GPA(pa), 8, &w->value[i] };
	}
	w->value[i] = value;
}

void words_remove(struct words *w, uint64_t pa)
{
	struct guest *g = &w->m.guest;
	uint32_t i = 0;

	while (i < g->range_count && w->m.ranges[i].start.a != pa)
		i++;
	if (i == g->range_count)
		abort();
	g->range_count--;
	for (; i < g->range_count; i++) {
		w->m.ranges[i].start = w->m.ranges[i + 1].start;
		w->value[i] = w->value[i + 1];
	}
}
