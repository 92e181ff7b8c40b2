/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the functions of a kernel or a module, and where each of them is. */
#include "introspect/probe/fbt_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/probe/provider.h"

#define COLD ".cold" /* what gcc adds to the name of a function's unlikely part */

void probe_names_deinit(struct probe_names *names)
{
	free(names->list);
	free(names->pool);
	*names = (struct probe_names){ 0 };
}

/* --- collecting --------------------------------------------------------------------------------- */

static bool have_pool(struct probe_names *names, size_t size)
{
	if (names->room - names->used >= size)
		return true;
	const size_t room = names->room ? names->room * 2 : 16 * PROBE_FUNCTION_MAX;
	char *grown = realloc(names->pool, room);
	if (!grown)
		return false;
	names->pool = grown;
	names->room = room;
	return true;
}

static bool have_list(struct probe_names *names)
{
	if (names->count < names->list_room)
		return true;
	const uint32_t room = names->list_room ? names->list_room * 2 : 256;
	struct probe_function *grown = reallocarray(names->list, room, sizeof(*grown));
	if (!grown)
		return false;
	names->list = grown;
	names->list_room = room;
	return true;
}

static bool add(struct probe_names *names, const struct lnx_symbol *s)
{
	const size_t size = strlen(s->name) + 1;

	if (size > PROBE_FUNCTION_MAX)
		return true; /* one that is not probed */
	if (!have_pool(names, size) || !have_list(names))
		return false;
	memcpy(names->pool + names->used, s->name, size);
	names->list[names->count++] =
		(struct probe_function){ .text = { s->start, s->size }, .name = names->used };
	names->used += size;
	return true;
}

/* --- in order ----------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b, void *pool)
{
	const struct probe_function *x = a, *y = b;
	const int order = strcmp((char *)pool + x->name, (char *)pool + y->name);

	return order ? order : (x->text.start > y->text.start) - (x->text.start < y->text.start);
}

uint32_t probe_names_find(const struct probe_names *names, const char *name)
{
	uint32_t lo = 0, hi = names->count;

	while (lo < hi) {
		const uint32_t mid = lo + (hi - lo) / 2;

		if (strcmp(probe_names_at(names, mid), name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < names->count && !strcmp(probe_names_at(names, lo), name) ? lo : names->count;
}

/* Parts that gcc has moved elsewhere are no functions of their own. */
static bool is_part(const char *function)
{
	const char *cold = strstr(function, COLD);

	return cold && cold != function && (!cold[strlen(COLD)] || cold[strlen(COLD)] == '.');
}

/* One that is the unlikely part of another function is told of it. */
static void give_part(struct probe_names *names, uint32_t i)
{
	char name[PROBE_FUNCTION_MAX];
	const size_t size = strlen(probe_names_at(names, i));

	if (!is_part(probe_names_at(names, i)) ||
	    strcmp(probe_names_at(names, i) + size - strlen(COLD), COLD) != 0)
		return;
	memcpy(name, probe_names_at(names, i), size - strlen(COLD));
	name[size - strlen(COLD)] = '\0';
	const uint32_t whole = probe_names_find(names, name);
	if (whole < names->count)
		names->list[whole].cold = names->list[i].text;
}

static void settle(struct probe_names *names)
{
	uint32_t kept = 0;

	if (names->count)
		qsort_r(names->list, names->count, sizeof(*names->list), compare, names->pool);
	for (uint32_t i = names->count; i-- > 0;) /* the first one of a name stays */
		give_part(names, i);
	for (uint32_t i = 0; i < names->count; i++) {
		const char *name = probe_names_at(names, i);

		if (!is_part(name) && (!kept || strcmp(name, probe_names_at(names, kept - 1)) != 0))
			names->list[kept++] = names->list[i];
	}
	names->count = kept;
}

/* --- from where --------------------------------------------------------------------------------- */

enum gs_code probe_names_of_kernel(const struct lnx_kernel *k, struct probe_names *names_out)
{
	struct lnx_symbol s;
	uint64_t after = 0;

	*names_out = (struct probe_names){ 0 };
	while (lnx_function_next(k, &after, &s))
		if (!add(names_out, &s))
			return GS_ENOSPC;
	settle(names_out);
	return GS_OK;
}

enum gs_code probe_names_of_module(struct lnx_view *v, const struct lnx_module *m,
				   struct probe_names *names_out)
{
	const uint64_t start = m->text[LNX_MODULE_CORE].start, size = m->text[LNX_MODULE_CORE].size;
	struct lnx_module_symbols symbols;
	struct lnx_symbol s;
	uint64_t last = 0;

	*names_out = (struct probe_names){ 0 };
	enum gs_code rc = lnx_module_symbols_read(v, m, LNX_MODULE_SYMBOLS_MAX, &symbols);
	for (uint32_t i = 0; !rc && i < symbols.count; i++) {
		const uint64_t at = symbols.symbol[i].value;

		if (at == last || at - start >= size ||
		    lnx_module_symbol_at(v, m, &symbols, GVA(at), &s))
			continue;
		last = at;
		if (!add(names_out, &s))
			rc = GS_ENOSPC;
	}
	lnx_module_symbols_deinit(&symbols);
	if (!rc)
		settle(names_out);
	return rc;
}
