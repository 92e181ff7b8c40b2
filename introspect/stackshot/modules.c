/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in kernel modules and BPF programs: which one, which function. */
#include "introspect/stackshot/modules.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(((struct ss_module_record *)0)->name) >= LNX_MODULE_NAME, "names fit");
_Static_assert(sizeof(((struct ss_module_record *)0)->build_id) == LNX_BUILD_ID, "ids fit");

/*
 * Symbols that are read for one capture: modules with frames in them are few, and one has some
 * thousands. A guest that claims more only keeps us busy.
 */
#define SYMBOLS_MAX (UINT32_C(1) << 20)

/* The functions of one module that addresses lie in; added once it is sure that they are right. */
struct found {
	struct lnx_symbol *symbol;
	size_t count, room;
};

struct naming {
	const struct ss_engine *e;
	const uint64_t *address;
	size_t n;
	struct ss_modules *out;
	bool (*add)(void *arg, const struct lnx_symbol *symbol);
	void *arg;
	uint32_t left; /* of SYMBOLS_MAX */
	struct lnx_view v;
};

void ss_modules_expect(struct ss_engine *e)
{
	struct lnx_view v;

	e->modules.count = e->bpf.count = 0;
	/* without processes there is no address to be named */
	if (!ss_kernel(e) || (e->t.request->flags & SS_NO_PROCESSES))
		return;
	lnx_view_init(&v, ss_kernel(e), e->s->g);
	lnx_modules_read(&v, &e->modules);
	lnx_bpf_read(&v, &e->bpf);
}

/* Index of the first address that is not below @p start. */
static size_t lower_bound(const struct naming *w, uint64_t start)
{
	size_t lo = 0, hi = w->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (w->address[mid] < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Addresses in a range: from *first_out on. */
static size_t addresses_within(const struct naming *w, uint64_t start, uint64_t size,
			       size_t *first_out)
{
	*first_out = lower_bound(w, start);
	return lower_bound(w, start + size) - *first_out;
}

/* ... in a part of a module. */
static size_t addresses_in(const struct naming *w, const struct lnx_module *m,
			   enum lnx_module_part part, size_t *first_out)
{
	return addresses_within(w, m->text[part].start, m->text[part].size, first_out);
}

static bool add_found(struct found *f, const struct lnx_symbol *s)
{
	if (f->count == f->room) {
		size_t room = f->room ? f->room * 2 : 16;
		struct lnx_symbol *grown = reallocarray(f->symbol, room, sizeof(*grown));

		if (!grown)
			return false;
		f->symbol = grown;
		f->room = room;
	}
	f->symbol[f->count++] = *s;
	return true;
}

/* The functions of addresses in one part. @return false: out of memory */
static bool find_in_part(struct naming *w, const struct lnx_module *m, enum lnx_module_part part,
			 const struct lnx_module_symbols *symbols, struct found *f)
{
	size_t first, count = addresses_in(w, m, part, &first);
	uint64_t end = 0;

	for (size_t i = first; i < first + count; i++) {
		struct lnx_symbol s;

		/* ascending: the function of the one before covers most */
		if (w->address[i] < end ||
		    lnx_module_symbol_at(&w->v, m, symbols, GVA(w->address[i]), &s))
			continue;
		end = s.start + s.size;
		if (!add_found(f, &s))
			return false;
	}
	return true;
}

/* ... of addresses in a module. One whose table cannot be read has no functions. */
static bool find_functions(struct naming *w, const struct lnx_module *m, struct found *f)
{
	struct lnx_module_symbols symbols;
	bool ok = true;
	enum gs_code rc = lnx_module_symbols_read(&w->v, m, w->left, &symbols);

	w->left -= symbols.read;
	for (int i = 0; !rc && ok && i < LNX_MODULE_PARTS; i++)
		ok = find_in_part(w, m, (enum lnx_module_part)i, &symbols, f);
	lnx_module_symbols_deinit(&symbols);
	return ok && rc != GS_ENOSPC;
}

static bool add_record(struct ss_modules *out, const struct ss_module_record *r)
{
	struct ss_module_record *grown =
		reallocarray(out->record, (size_t)out->count + 1, sizeof(*grown));

	if (!grown)
		return false;
	out->record = grown;
	out->record[out->count++] = *r;
	return true;
}

static bool add_part(struct ss_modules *out, const struct lnx_module *m, enum lnx_module_part part)
{
	struct ss_module_record r = {
		.start = m->text[part].start,
		.size = m->text[part].size,
		.flags = part == LNX_MODULE_INIT ? SS_MODULE_INIT : 0,
	};

	memcpy(r.name, m->name, sizeof(m->name));
	memcpy(r.build_id, m->build_id, sizeof(r.build_id));
	return add_record(out, &r);
}

/* What was found of a module, which is what it was before the stop. */
static bool add_module(struct naming *w, const struct lnx_module *m, const struct found *f)
{
	size_t first;

	for (int i = 0; i < LNX_MODULE_PARTS; i++)
		if (addresses_in(w, m, (enum lnx_module_part)i, &first) &&
		    !add_part(w->out, m, (enum lnx_module_part)i))
			return false;
	for (size_t i = 0; i < f->count; i++)
		if (!w->add(w->arg, &f->symbol[i]))
			return false;
	return true;
}

/* The view forgets what it knew: a translation from before would show a module that is gone. */
static bool is_still_there(struct naming *w, const struct lnx_module *m)
{
	lnx_view_init(&w->v, ss_kernel(w->e), w->e->s->g);
	return lnx_module_is_there(&w->v, m);
}

static bool name_module(struct naming *w, const struct lnx_module *m)
{
	struct found f = { 0 };
	size_t first, count = 0;

	for (int i = 0; i < LNX_MODULE_PARTS; i++)
		count += addresses_in(w, m, (enum lnx_module_part)i, &first);
	if (!count)
		return true;
	bool ok = find_functions(w, m, &f);
	if (ok && is_still_there(w, m))
		ok = add_module(w, m, &f);
	free(f.symbol);
	return ok;
}

/* A program is one function, which the kernel lists with its name. */
static bool name_program(struct naming *w, const struct lnx_bpf_program *p)
{
	struct lnx_symbol s;
	size_t first;

	if (!addresses_within(w, p->start, p->size, &first))
		return true;
	lnx_view_init(&w->v, ss_kernel(w->e), w->e->s->g);
	if (lnx_bpf_symbol(&w->v, p, &s))
		return true;
	const struct ss_module_record r = {
		.start = s.start,
		.size = s.size,
		.flags = SS_MODULE_BPF,
		.name = "bpf",
	};
	return add_record(w->out, &r) && w->add(w->arg, &s);
}

bool ss_modules_name(const struct ss_engine *e, const uint64_t *address, size_t n,
		     struct ss_modules *out,
		     bool (*add)(void *arg, const struct lnx_symbol *symbol), void *arg)
{
	struct naming w = {
		.e = e,
		.address = address,
		.n = n,
		.out = out,
		.add = add,
		.arg = arg,
		.left = SYMBOLS_MAX,
	};
	bool ok = true;

	if (!n)
		return true;
	lnx_view_init(&w.v, ss_kernel(e), e->s->g);
	for (uint32_t i = 0; ok && i < e->modules.count; i++)
		ok = name_module(&w, &e->modules.module[i]);
	for (uint32_t i = 0; ok && i < e->bpf.count; i++)
		ok = name_program(&w, &e->bpf.program[i]);
	return ok;
}

void ss_modules_deinit(struct ss_modules *modules)
{
	free(modules->record);
	*modules = (struct ss_modules){ 0 };
}
