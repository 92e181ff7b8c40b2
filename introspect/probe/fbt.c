/* SPDX-License-Identifier: Apache-2.0 */
/* The provider fbt: entry and return of every function of the guest's kernel. */
#include "introspect/probe/fbt.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/linux/functions.h"
#include "introspect/linux/prototype.h"

#define KERNEL_MODULE "vmlinux" /* what the image itself is called */
#define COLD	      ".cold"	/* what gcc adds to the name of a function's unlikely part */
#define ENTRY_ARGS    8u
#define PARTS	      2u

/* A probe that was made. */
struct point {
	struct lnx_text part[PARTS]; /* the function; size 0: it has no second part */
	uint32_t generation;	     /* of the kernel */
	uint32_t id;		     /* ascending */
	bool is_return;
	bool is_module;
};

/* An instruction that an enabled probe needs. */
struct wish {
	struct guest_break where; /* key: of the point */
	uint64_t start;		  /* of the function */
	uint32_t id;
	bool is_return;
};

/* What the breakpoints in force mean; constant. */
struct sites {
	struct probe_fbt *fbt;
	uint32_t count;
	struct site {
		uint64_t start;
		uint32_t entry, ret; /* ids; 0: none */
	} site[];
};

struct probe_fbt {
	struct probe_engine *e;
	struct probe_provider *provider;
	struct guest *g;
	/* guards the rest; not taken by vCPUs' threads */
	pthread_mutex_t lock;
	const struct lnx_kernel *k; /* NULL: none */
	uint32_t generation;
	struct point *point;
	uint64_t points, points_room;
	struct wish *wish;
	uint32_t wishes, wishes_room;
	struct sites *sites; /* NULL: no breakpoints */
	struct lnx_modules *modules;
	struct lnx_view view;
	struct lnx_returns returns;
	struct lnx_prototypes *prototypes; /* NULL: not asked for yet */
};

/* --- hits --------------------------------------------------------------------------------------- */

static void fire(const struct sites *s, uint32_t id, const struct guest_hit *hit,
		 const struct site *site, bool is_return)
{
	struct probe_context c = {
		.vcpu = hit->vcpu,
		.fetch = hit->fetch,
		.arg = hit->arg,
		.arg_registers = is_return ? 1 : ENTRY_ARGS,
	};

	if (is_return)
		c.args[c.arg_count++] = hit->where->va - site->start;
	if (id)
		probe_fire(s->fbt->e, id, &c);
}

static void on_hit(void *arg, const struct guest_hit *hit)
{
	const struct sites *s = arg;
	const struct site *site = &s->site[hit->where->key];

	/* one that returns at once does both */
	fire(s, site->entry, hit, site, false);
	fire(s, site->ret, hit, site, true);
}

/* --- breakpoints -------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct wish *x = a, *y = b;

	return (x->where.va > y->where.va) - (x->where.va < y->where.va);
}

/* What the wishes come to: a breakpoint for each address. */
static enum gs_code resolve(struct probe_fbt *fbt, struct guest_break **list_out,
			    struct sites **sites_out)
{
	struct guest_break *list = gs_array_alloc(fbt->wishes, sizeof(*list));
	struct sites *s = calloc(1, sizeof(*s) + fbt->wishes * sizeof(s->site[0]));

	if (!list || !s) {
		free(list);
		free(s);
		return GS_ENOSPC;
	}
	s->fbt = fbt;
	qsort(fbt->wish, fbt->wishes, sizeof(*fbt->wish), by_address);
	for (uint32_t i = 0; i < fbt->wishes; i++) {
		const struct wish *w = &fbt->wish[i];

		if (!s->count || list[s->count - 1].va != w->where.va) {
			list[s->count] = w->where;
			list[s->count].key = s->count;
			s->site[s->count++].start = w->start;
		}
		*(w->is_return ? &s->site[s->count - 1].ret : &s->site[s->count - 1].entry) = w->id;
	}
	*list_out = list;
	*sites_out = s;
	return GS_OK;
}

static enum gs_code commit_locked(struct probe_fbt *fbt, struct gs_error *err)
{
	struct guest_break *list = NULL;
	struct sites *s = NULL, *old = fbt->sites;
	enum gs_code rc = GS_OK;

	if (fbt->wishes)
		rc = resolve(fbt, &list, &s);
	if (rc)
		return gs_fail(err, rc, "no memory for %" PRIu32 " breakpoints", fbt->wishes);
	if (s || old)
		rc = guest_breaks_set(
			fbt->g, &(struct guest_break_set){ list, s ? s->count : 0, on_hit, s },
			err);
	free(list);
	/* whichever is out of force is looked at by nobody any more */
	free(rc ? s : old);
	if (!rc)
		fbt->sites = s;
	return rc;
}

static enum gs_code op_commit(void *arg, struct gs_error *err)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	enum gs_code rc = commit_locked(fbt, err);
	pthread_mutex_unlock(&fbt->lock);
	return rc;
}

/* --- enabling ----------------------------------------------------------------------------------- */

static enum gs_code add_wish(struct probe_fbt *fbt, uint64_t key, uint32_t id, uint64_t va,
			     struct gs_error *err)
{
	const struct point *p = &fbt->point[key];
	gpa_t at;

	if (lnx_code_place(&fbt->view, GVA(va), &at))
		return gs_fail(err, GS_EFAULT,
			       "the function at %#" PRIx64 ": its code is not in memory",
			       p->part[0].start);
	if (fbt->wishes == fbt->wishes_room) {
		const uint32_t room = fbt->wishes_room ? fbt->wishes_room * 2 : 64;
		struct wish *grown = room > GUEST_BREAKS_MAX
					     ? NULL
					     : reallocarray(fbt->wish, room, sizeof(*grown));

		if (!grown)
			return gs_fail(err, GS_ETOOBIG, "more than %" PRIu32 " breakpoints",
				       fbt->wishes);
		fbt->wish = grown;
		fbt->wishes_room = room;
	}
	fbt->wish[fbt->wishes++] = (struct wish){
		.where = { .va = va, .at = at, .key = key },
		.start = p->part[0].start,
		.id = id,
		.is_return = p->is_return,
	};
	return GS_OK;
}

static void drop_wishes(struct probe_fbt *fbt, uint64_t key)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < fbt->wishes; i++)
		if (fbt->wish[i].where.key != key)
			fbt->wish[kept++] = fbt->wish[i];
	fbt->wishes = kept;
}

static enum gs_code wish_returns(struct probe_fbt *fbt, uint64_t key, uint32_t id,
				 struct gs_error *err)
{
	const struct point *p = &fbt->point[key];
	struct lnx_returns *r = &fbt->returns;
	enum gs_code rc = lnx_function_returns(&fbt->view, p->part, p->part[1].size ? PARTS : 1, r);

	if (rc)
		return gs_fail(err, rc,
			       "the function at %#" PRIx64 ": its returns cannot be found: %s",
			       p->part[0].start,
			       rc == GS_EFAULT ? "its code is not in memory" : "it is too large");
	/* none: one that never returns */
	for (uint32_t i = 0; !rc && i < r->count; i++)
		rc = add_wish(fbt, key, id, r->address[i], err);
	return rc;
}

/* Whether a module still has its text where the probe was made. */
static bool is_loaded(struct probe_fbt *fbt, const struct point *p)
{
	if (!p->is_module)
		return true;
	lnx_modules_read(&fbt->view, fbt->modules);
	for (uint32_t i = 0; i < fbt->modules->count; i++)
		for (int part = 0; part < LNX_MODULE_PARTS; part++)
			if (p->part[0].start - fbt->modules->module[i].text[part].start <
			    fbt->modules->module[i].text[part].size)
				return true;
	return false;
}

static enum gs_code enable_locked(struct probe_fbt *fbt, uint64_t key, uint32_t id,
				  struct gs_error *err)
{
	const struct point *p = &fbt->point[key];
	enum gs_code rc;

	if (!fbt->k || p->generation != fbt->generation)
		return gs_fail(err, GS_ENOENT, "the kernel that the probe was of is gone");
	lnx_view_init(&fbt->view, fbt->k, fbt->g);
	if (!is_loaded(fbt, p))
		return gs_fail(err, GS_ENOENT, "the module that the probe was of is gone");
	rc = p->is_return ? wish_returns(fbt, key, id, err)
			  : add_wish(fbt, key, id, p->part[0].start, err);
	if (rc)
		drop_wishes(fbt, key);
	return rc;
}

static enum gs_code op_enable(void *arg, uint64_t key, uint32_t id, struct gs_error *err)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	enum gs_code rc = enable_locked(fbt, key, id, err);
	pthread_mutex_unlock(&fbt->lock);
	return rc;
}

static void op_disable(void *arg, uint64_t key)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	drop_wishes(fbt, key);
	pthread_mutex_unlock(&fbt->lock);
}

/* --- making probes ------------------------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* One that was made for an earlier kernel, or for a module that was loaded again, is of this one now. */
static void renew_point(struct probe_fbt *fbt, const struct point *now)
{
	struct point *p = bsearch(now, fbt->point, fbt->points, sizeof(*now), by_id);

	if (p && (p->generation != now->generation || now->is_module))
		*p = *now;
}

/* One of a function's two probes; those that cannot be made, for lack of memory or names, are left out. */
static void make_probe(struct probe_fbt *fbt, const struct point *like, const char *module,
		       const char *function, bool is_return)
{
	const char *name = is_return ? "return" : "entry";
	struct point wanted = *like;

	wanted.is_return = is_return;
	if (fbt->points == fbt->points_room) {
		const uint64_t room = fbt->points_room ? fbt->points_room * 2 : 256;
		struct point *grown = reallocarray(fbt->point, room, sizeof(*grown));

		if (!grown)
			return;
		fbt->point = grown;
		fbt->points_room = room;
	}
	enum gs_code rc =
		probe_create(fbt->provider, module, function, name, fbt->points, &wanted.id);
	if (!rc)
		fbt->point[fbt->points++] = wanted;
	else if (rc == GS_EEXIST)
		renew_point(fbt, &wanted);
}

static void make_probes(struct probe_fbt *fbt, const struct probe_name *pattern,
			const struct point *like, const char *module, const char *function)
{
	for (int is_return = 0; is_return < 2; is_return++)
		if (probe_glob(pattern->name, is_return ? "return" : "entry"))
			make_probe(fbt, like, module, function, is_return);
}

/* Parts that gcc has moved elsewhere are no functions of their own. */
static bool is_part(const char *function)
{
	const char *cold = strstr(function, COLD);

	return cold && cold != function && (!cold[strlen(COLD)] || cold[strlen(COLD)] == '.');
}

static void provide_kernel(struct probe_fbt *fbt, const struct probe_name *pattern)
{
	struct lnx_symbol s, cold;
	uint64_t after = 0;
	gva_t at;

	while (lnx_function_next(fbt->k, &after, &s)) {
		struct point p = { .part[0] = { s.start, s.size }, .generation = fbt->generation };
		char name[LNX_SYMBOL_MAX + sizeof(COLD)];

		if (!probe_glob(pattern->function, s.name) || is_part(s.name))
			continue;
		snprintf(name, sizeof(name), "%s" COLD, s.name);
		if (!lnx_symbol_find(fbt->k, name, &at) && !lnx_symbol_at(fbt->k, at, &cold))
			p.part[1] = (struct lnx_text){ cold.start, cold.size };
		make_probes(fbt, pattern, &p, KERNEL_MODULE, s.name);
	}
}

/* --- modules --- */

struct named {
	struct lnx_text text;
	char name[PROBE_FUNCTION_MAX];
};

struct names {
	struct named *list;
	uint32_t count;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* The functions of a module that stay. Names that do not fit are left out. */
static bool names_read(struct probe_fbt *fbt, const struct lnx_module *m, struct names *out)
{
	const uint64_t start = m->text[LNX_MODULE_CORE].start, size = m->text[LNX_MODULE_CORE].size;
	struct lnx_module_symbols symbols;
	struct lnx_symbol s;
	uint64_t last = 0;

	*out = (struct names){ 0 };
	if (!lnx_module_symbols_read(&fbt->view, m, LNX_MODULE_SYMBOLS_MAX, &symbols) &&
	    symbols.count)
		out->list = calloc(symbols.count, sizeof(*out->list));
	for (uint32_t i = 0; out->list && i < symbols.count; i++) {
		const uint64_t at = symbols.symbol[i].value;

		if (at == last || at - start >= size ||
		    lnx_module_symbol_at(&fbt->view, m, &symbols, GVA(at), &s) ||
		    strlen(s.name) >= PROBE_FUNCTION_MAX)
			continue;
		last = at;
		out->list[out->count].text = (struct lnx_text){ s.start, s.size };
		memcpy(out->list[out->count++].name, s.name, strlen(s.name) + 1);
	}
	lnx_module_symbols_deinit(&symbols);
	return out->count;
}

static const struct named *find_cold(const struct names *names, const char *function)
{
	struct named key;

	if ((size_t)snprintf(key.name, sizeof(key.name), "%s" COLD, function) >= sizeof(key.name))
		return NULL;
	return bsearch(&key, names->list, names->count, sizeof(key), by_name);
}

static void provide_module(struct probe_fbt *fbt, const struct probe_name *pattern,
			   const struct lnx_module *m)
{
	struct names names;

	if (!names_read(fbt, m, &names))
		return;
	qsort(names.list, names.count, sizeof(*names.list), by_name);
	for (uint32_t i = 0; i < names.count; i++) {
		const struct named *n = &names.list[i], *cold = find_cold(&names, n->name);
		struct point p = { .part[0] = n->text,
				   .generation = fbt->generation,
				   .is_module = true };

		if (!probe_glob(pattern->function, n->name) || is_part(n->name))
			continue;
		if (cold)
			p.part[1] = cold->text;
		make_probes(fbt, pattern, &p, m->name, n->name);
	}
	free(names.list);
}

static void op_provide(void *arg, const struct probe_name *pattern)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	if (fbt->k) {
		lnx_view_init(&fbt->view, fbt->k, fbt->g);
		if (probe_glob(pattern->module, KERNEL_MODULE))
			provide_kernel(fbt, pattern);
		lnx_modules_read(&fbt->view, fbt->modules);
		for (uint32_t i = 0; i < fbt->modules->count; i++)
			if (probe_glob(pattern->module, fbt->modules->module[i].name))
				provide_module(fbt, pattern, &fbt->modules->module[i]);
	}
	pthread_mutex_unlock(&fbt->lock);
}

/* --- types of arguments ------------------------------------------------------------------------- */

_Static_assert(sizeof(((struct probe_arg_type *)0)->native) >= LNX_PROTOTYPE_TYPE &&
		       sizeof(((struct probe_arg_type *)0)->name) >= LNX_PROTOTYPE_NAME,
	       "a parameter fits");

static enum gs_code parameter_locked(struct probe_fbt *fbt, const struct point *p, uint32_t n,
				     struct lnx_parameter *out)
{
	struct lnx_symbol s;

	if (!fbt->k || p->generation != fbt->generation || p->is_module)
		return GS_ENOENT;
	if (p->is_return && n == 0) {
		*out = (struct lnx_parameter){ "unsigned long", "offset" };
		return GS_OK;
	}
	if (!fbt->prototypes && lnx_prototypes_open(fbt->k, fbt->g, &fbt->prototypes, NULL))
		return GS_ENOENT;
	if (lnx_symbol_at(fbt->k, GVA(p->part[0].start), &s))
		return GS_ENOENT;
	if (!p->is_return)
		return n < ENTRY_ARGS ? lnx_prototype_parameter(fbt->prototypes, s.name, n, out)
				      : GS_ENOENT;
	return n == 1 ? lnx_prototype_parameter(fbt->prototypes, s.name, LNX_PROTOTYPE_RETURN, out)
		      : GS_ENOENT;
}

static enum gs_code op_arg_type(void *arg, uint64_t key, uint32_t n,
				struct probe_arg_type *type_out)
{
	struct probe_fbt *fbt = arg;
	struct lnx_parameter p;

	pthread_mutex_lock(&fbt->lock);
	enum gs_code rc = parameter_locked(fbt, &fbt->point[key], n, &p);
	pthread_mutex_unlock(&fbt->lock);
	if (rc)
		return rc;
	memcpy(type_out->native, p.type, sizeof(p.type));
	memcpy(type_out->name, p.name, sizeof(p.name));
	return GS_OK;
}

static const struct probe_provider_ops ops = {
	.provide = op_provide,
	.enable = op_enable,
	.disable = op_disable,
	.commit = op_commit,
	.arg_type = op_arg_type,
};

/* --- its life ----------------------------------------------------------------------------------- */

enum gs_code probe_fbt_create(struct probe_engine *e, struct guest *g, struct probe_fbt **fbt_out,
			      struct gs_error *err)
{
	if (!guest_can_break(g))
		return gs_fail(err, GS_ENOTSUP, "a guest from %s takes no breakpoints", g->source);
	struct probe_fbt *fbt = calloc(1, sizeof(*fbt));
	struct lnx_modules *modules = calloc(1, sizeof(*modules));
	if (!fbt || !modules || pthread_mutex_init(&fbt->lock, NULL)) {
		free(fbt);
		free(modules);
		return gs_fail(err, GS_ENOSPC, "no memory for the provider fbt");
	}
	fbt->e = e;
	fbt->g = g;
	fbt->modules = modules;
	enum gs_code rc = probe_provider_add(e, "fbt", &ops, fbt, &fbt->provider, err);
	if (rc)
		probe_fbt_destroy(fbt);
	else
		*fbt_out = fbt;
	return rc;
}

void probe_fbt_kernel_set(struct probe_fbt *fbt, const struct lnx_kernel *k)
{
	pthread_mutex_lock(&fbt->lock);
	fbt->k = k;
	fbt->generation++;
	lnx_prototypes_close(fbt->prototypes);
	fbt->prototypes = NULL;
	fbt->wishes = 0;
	/* a guest that cannot be stopped keeps breakpoints that mean nothing to anybody */
	(void)commit_locked(fbt, NULL);
	pthread_mutex_unlock(&fbt->lock);
}

void probe_fbt_destroy(struct probe_fbt *fbt)
{
	if (!fbt)
		return;
	probe_fbt_kernel_set(fbt, NULL);
	/* the guest could not be stopped: vCPUs may still come here */
	if (fbt->sites)
		return;
	pthread_mutex_destroy(&fbt->lock);
	free(fbt->modules);
	free(fbt->point);
	free(fbt->wish);
	free(fbt);
}
