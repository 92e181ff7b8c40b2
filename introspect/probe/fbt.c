/* SPDX-License-Identifier: Apache-2.0 */
/* The provider fbt: entry and return of every function of the guest's kernel. */
#include "introspect/probe/fbt.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "introspect/guest/breaks.h"
#include "introspect/linux/functions.h"
#include "introspect/linux/prototype.h"
#include "introspect/probe/fbt_names.h"

#define KERNEL_MODULE "vmlinux" /* what the image itself is called */
#define ENTRY_ARGS    8u
#define PARTS	      2u

#define KPROBE_IMMEDIATE 0x4u /* of its BRK (arch/arm64/include/asm/brk-imm.h) */

/* A probe that was made. */
struct point {
	struct lnx_text part[PARTS]; /* the function; size 0: it has no second part */
	uint64_t module;	     /* which one it is of; 0: the image */
	uint32_t generation;	     /* of the kernel */
	uint32_t id;		     /* ascending */
	bool is_return;
	bool is_enabled;
	bool is_gone; /* enabled, but what it names was unloaded */
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
		bool is_module;
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
	bool is_dirty;		   /* what is wished for is not what is in force */
	struct sites *sites;	   /* NULL: no breakpoints */
	struct probe_names *names; /* of the image; NULL: not asked for yet */
	/* as they were when somebody last asked to look; names by index, read when they are asked for */
	struct lnx_modules *modules;
	struct probe_names *module_names;
	bool *has_names;
	bool are_read;
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
			s->site[s->count].is_module = fbt->point[w->where.key].module;
			s->site[s->count++].start = w->start;
		}
		*(w->is_return ? &s->site[s->count - 1].ret : &s->site[s->count - 1].entry) = w->id;
	}
	*list_out = list;
	*sites_out = s;
	return GS_OK;
}

/* Memory of a module that was unloaded is somebody else's. The lock is held by who sets the breaks. */
static bool is_there(void *arg, const struct guest_break *where)
{
	const struct sites *s = arg;
	struct probe_fbt *fbt = s->fbt;
	gpa_t at;

	if (!s->site[where->key].is_module || !fbt->k)
		return true;
	lnx_view_init(&fbt->view, fbt->k, fbt->g);
	return !lnx_code_place(&fbt->view, GVA(where->va), &at) && at.a == where->at.a;
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
		rc = guest_breaks_set(fbt->g,
				      &(struct guest_break_set){ .list = list,
								 .count = s ? s->count : 0,
								 .on_hit = on_hit,
								 .is_there = is_there,
								 .arg = s },
				      err);
	free(list);
	/* whichever is out of force is looked at by nobody any more */
	free(rc ? s : old);
	if (!rc) {
		fbt->sites = s;
		fbt->is_dirty = false;
	}
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

/* Where the guest has a breakpoint of its own there is none of ours: what is behind it is not known. */
static enum gs_code check_free(const struct probe_fbt *fbt, uint64_t va, gpa_t at,
			       struct gs_error *err)
{
	uint32_t insn;

	if (guest_read(fbt->g, at, &insn, sizeof(insn)) || !guest_insn_is_brk(insn) ||
	    insn == GUEST_BREAK_INSN)
		return GS_OK;
	if (insn == GUEST_BRK(KPROBE_IMMEDIATE))
		return gs_fail(err, GS_EBUSY,
			       "the guest has a kprobe of its own at %#" PRIx64
			       " (its kprobe_events, or a tracer's program: remove it there)",
			       va);
	return gs_fail(err, GS_EBUSY,
		       "the guest has a breakpoint of its own at %#" PRIx64 " (BRK %#" PRIx32 ")",
		       va, insn >> 5 & 0xffff);
}

static enum gs_code add_wish(struct probe_fbt *fbt, uint64_t key, uint32_t id, uint64_t va,
			     struct gs_error *err)
{
	const struct point *p = &fbt->point[key];
	gpa_t at;

	if (lnx_code_place(&fbt->view, GVA(va), &at))
		return gs_fail(err, GS_EFAULT,
			       "the function at %#" PRIx64 ": its code is not in memory",
			       p->part[0].start);
	enum gs_code rc = check_free(fbt, va, at, err);
	if (rc)
		return rc;
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

/* Which module it is, whatever its place; not 0. */
static uint64_t identity_of(const struct lnx_module *m)
{
	uint64_t hash = lnx_bpf_hash_name(m->name);

	for (size_t i = 0; i < LNX_BUILD_ID; i++)
		hash = (hash ^ m->build_id[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash | 1;
}

static void forget_modules(struct probe_fbt *fbt)
{
	for (uint32_t i = 0; i < fbt->modules->count; i++) {
		if (fbt->has_names[i])
			probe_names_deinit(&fbt->module_names[i]);
		fbt->has_names[i] = false;
	}
	fbt->modules->count = 0;
	fbt->are_read = false;
}

/* The modules that there are; the lock is held, and there is a kernel. */
static const struct lnx_modules *modules_of(struct probe_fbt *fbt)
{
	if (!fbt->are_read) {
		lnx_view_init(&fbt->view, fbt->k, fbt->g);
		lnx_modules_read(&fbt->view, fbt->modules);
		fbt->are_read = true;
	}
	return fbt->modules;
}

/* Whether a module still has its text where the probe was made. */
static bool is_loaded(struct probe_fbt *fbt, const struct point *p)
{
	if (!p->module)
		return true;
	const struct lnx_modules *all = modules_of(fbt);
	for (uint32_t i = 0; i < all->count; i++) {
		const struct lnx_module *m = &all->module[i];

		if (p->part[0].start - m->text[LNX_MODULE_CORE].start <
		    m->text[LNX_MODULE_CORE].size)
			return identity_of(m) == p->module;
	}
	return false;
}

/* On failure no wish is left. */
static enum gs_code enable_locked(struct probe_fbt *fbt, uint64_t key, uint32_t id,
				  struct gs_error *err)
{
	const struct point *p = &fbt->point[key];
	enum gs_code rc;

	if (!fbt->k || p->generation != fbt->generation)
		return gs_fail(err, GS_ENOENT, "the kernel that the probe was of is gone");
	if (!is_loaded(fbt, p))
		return gs_fail(err, GS_ENOENT, "the module that the probe was of is gone");
	lnx_view_init(&fbt->view, fbt->k, fbt->g);
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
	fbt->point[key].is_enabled = !rc;
	fbt->point[key].is_gone = false;
	pthread_mutex_unlock(&fbt->lock);
	return rc;
}

static void op_disable(void *arg, uint64_t key)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	drop_wishes(fbt, key);
	fbt->point[key].is_enabled = false;
	fbt->point[key].is_gone = false;
	pthread_mutex_unlock(&fbt->lock);
}

/* --- what has gone ------------------------------------------------------------------------------ */

static bool is_in_place(struct probe_fbt *fbt, const struct wish *w)
{
	const struct point *p = &fbt->point[w->where.key];
	gpa_t at;

	if (!p->module)
		return true;
	return is_loaded(fbt, p) && !lnx_code_place(&fbt->view, GVA(w->where.va), &at) &&
	       at.a == w->where.at.a;
}

/* Wishes in modules that were unloaded, or loaded again meanwhile. */
static void drop_gone(struct probe_fbt *fbt)
{
	uint32_t kept = 0;

	lnx_view_init(&fbt->view, fbt->k, fbt->g);
	for (uint32_t i = 0; i < fbt->wishes; i++) {
		struct point *p = &fbt->point[fbt->wish[i].where.key];

		if (is_in_place(fbt, &fbt->wish[i]))
			fbt->wish[kept++] = fbt->wish[i];
		else
			p->is_gone = true;
	}
	fbt->is_dirty |= kept != fbt->wishes;
	fbt->wishes = kept;
}

static bool has_modules(const struct probe_fbt *fbt)
{
	for (uint32_t i = 0; i < fbt->wishes; i++)
		if (fbt->point[fbt->wish[i].where.key].module)
			return true;
	return false;
}

static void op_look(void *arg)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	forget_modules(fbt);
	if (fbt->k && has_modules(fbt))
		drop_gone(fbt);
	/* a guest that cannot be stopped now is looked at again */
	if (fbt->is_dirty)
		(void)commit_locked(fbt, NULL);
	pthread_mutex_unlock(&fbt->lock);
}

static bool op_is_gone(void *arg, uint64_t key)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	const struct point *p = &fbt->point[key];
	const bool is_gone = p->is_gone || !fbt->k || p->generation != fbt->generation;
	pthread_mutex_unlock(&fbt->lock);
	return is_gone;
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

	if (!p || (p->generation == now->generation && !now->module))
		return;
	const bool was_gone = p->is_enabled && (p->is_gone || p->generation != now->generation);
	const bool is_enabled = p->is_enabled, is_gone = p->is_gone;
	*p = *now;
	p->is_enabled = is_enabled;
	p->is_gone = is_gone;
	/* whoever has it enabled has it again */
	if (was_gone) {
		drop_wishes(fbt, (uint64_t)(p - fbt->point));
		p->is_gone = enable_locked(fbt, (uint64_t)(p - fbt->point), p->id, NULL);
		fbt->is_dirty |= !p->is_gone;
	}
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

static void provide_name(struct probe_fbt *fbt, const struct probe_name *pattern,
			 const struct probe_names *names, uint32_t i, const char *module,
			 uint64_t identity)
{
	const struct point p = { .part = { names->list[i].text, names->list[i].cold },
				 .module = identity,
				 .generation = fbt->generation };

	make_probes(fbt, pattern, &p, module, probe_names_at(names, i));
}

static void provide_names(struct probe_fbt *fbt, const struct probe_name *pattern,
			  const struct probe_names *names, const char *module, uint64_t identity)
{
	/* one that is named needs not be compared with all */
	const bool is_one = *pattern->function && !strpbrk(pattern->function, "*?");
	const uint32_t one = is_one ? probe_names_find(names, pattern->function) : names->count;

	if (one < names->count)
		provide_name(fbt, pattern, names, one, module, identity);
	for (uint32_t i = 0; !is_one && i < names->count; i++)
		if (probe_glob(pattern->function, probe_names_at(names, i)))
			provide_name(fbt, pattern, names, i, module, identity);
}

/* Once for each kernel; without memory for it there are no functions. */
static const struct probe_names *names_of_kernel(struct probe_fbt *fbt)
{
	static const struct probe_names none = { 0 };

	if (!fbt->names)
		fbt->names = calloc(1, sizeof(*fbt->names));
	if (fbt->names && !fbt->names->count && probe_names_of_kernel(fbt->k, fbt->names))
		probe_names_deinit(fbt->names);
	return fbt->names ? fbt->names : &none;
}

static const struct probe_names *names_of_module(struct probe_fbt *fbt, uint32_t i)
{
	if (!fbt->has_names[i]) {
		lnx_view_init(&fbt->view, fbt->k, fbt->g);
		/* one that cannot be read, or goes meanwhile, has none */
		if (probe_names_of_module(&fbt->view, &fbt->modules->module[i],
					  &fbt->module_names[i]))
			probe_names_deinit(&fbt->module_names[i]);
		fbt->has_names[i] = true;
	}
	return &fbt->module_names[i];
}

static void op_provide(void *arg, const struct probe_name *pattern)
{
	struct probe_fbt *fbt = arg;

	pthread_mutex_lock(&fbt->lock);
	if (fbt->k && probe_glob(pattern->module, KERNEL_MODULE))
		provide_names(fbt, pattern, names_of_kernel(fbt), KERNEL_MODULE, 0);
	for (uint32_t i = 0; fbt->k && i < modules_of(fbt)->count; i++) {
		const struct lnx_module *m = &fbt->modules->module[i];

		if (probe_glob(pattern->module, m->name))
			provide_names(fbt, pattern, names_of_module(fbt, i), m->name,
				      identity_of(m));
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

	if (!fbt->k || p->generation != fbt->generation || p->module)
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
	.look = op_look,
	.is_gone = op_is_gone,
	.provide = op_provide,
	.enable = op_enable,
	.disable = op_disable,
	.commit = op_commit,
	.arg_type = op_arg_type,
};

/* --- its life ----------------------------------------------------------------------------------- */

static bool have_room(struct probe_fbt *fbt)
{
	fbt->modules = calloc(1, sizeof(*fbt->modules));
	fbt->module_names = gs_array_alloc(LNX_MODULES_MAX, sizeof(*fbt->module_names));
	fbt->has_names = gs_array_alloc(LNX_MODULES_MAX, sizeof(*fbt->has_names));
	return fbt->modules && fbt->module_names && fbt->has_names;
}

static void drop_room(struct probe_fbt *fbt)
{
	free(fbt->modules);
	free(fbt->module_names);
	free(fbt->has_names);
}

static void forget_names(struct probe_fbt *fbt)
{
	if (fbt->names)
		probe_names_deinit(fbt->names);
	free(fbt->names);
	fbt->names = NULL;
	forget_modules(fbt);
}

enum gs_code probe_fbt_create(struct probe_engine *e, struct guest *g, struct probe_fbt **fbt_out,
			      struct gs_error *err)
{
	if (!guest_can_break(g))
		return gs_fail(err, GS_ENOTSUP, "a guest from %s takes no breakpoints", g->source);
	struct probe_fbt *fbt = calloc(1, sizeof(*fbt));
	if (!fbt || !have_room(fbt) || pthread_mutex_init(&fbt->lock, NULL)) {
		if (fbt)
			drop_room(fbt);
		free(fbt);
		return gs_fail(err, GS_ENOSPC, "no memory for the provider fbt");
	}
	fbt->e = e;
	fbt->g = g;
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
	fbt->wishes = 0;
	/*
	 * While the one before is still known. A guest that cannot be stopped keeps breakpoints that mean
	 * nothing to anybody.
	 */
	(void)commit_locked(fbt, NULL);
	fbt->k = k;
	fbt->generation++;
	lnx_prototypes_close(fbt->prototypes);
	fbt->prototypes = NULL;
	forget_names(fbt);
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
	drop_room(fbt);
	free(fbt->point);
	free(fbt->wish);
	free(fbt);
}
