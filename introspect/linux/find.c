/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the guest's kernel: each candidate is taken through all steps, then proved by vCPUs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/linux/finder.h"

const char *lnx_way_name(enum lnx_way way)
{
	static const char *const names[LNX_WAYS] = {
		[LNX_BY_REFERENCE] = "the kernel image given",
		[LNX_BY_REGISTERS] = "vCPU registers",
		[LNX_BY_VMCOREINFO] = "VMCOREINFO",
		[LNX_BY_SAMPLING] = "samples of memory",
		[LNX_BY_SCAN] = "a scan of memory",
		[LNX_BY_BTF] = "the kernel's BTF",
		[LNX_BY_PROFILE] = "the profile given",
	};

	return way < LNX_WAYS ? names[way] : "?";
}

/* --- evidence --- */

/* Whether the stack pointer lies in the stack of the task that this kernel has on the CPU. */
static bool stack_agrees(struct lnx_view *v, const struct guest_vcpu_regs *regs, uint32_t cpu)
{
	struct guest_vcpu_regs r = *regs;
	struct lnx_task task;
	gva_t current;

	/* VMMs describe vCPUs to the guest in their order; a wrong guess proves nothing */
	if (!(r.valid & GUEST_REGS_TPIDR) && !lnx_percpu_offset(v, cpu, &r.tpidr_el1))
		r.valid |= GUEST_REGS_TPIDR;
	return !lnx_vcpu_current(v, &r, &current) && !lnx_task_read(v, current, &task) &&
	       gs_in_range(r.sp_el1, 1, task.stack.a, v->k->thread_size);
}

/* 1: the vCPU executes this kernel or a process of it; -1: something else; 0: it does not show. */
static int vcpu_evidence(const struct lnx_finder *f, struct lnx_view *v, uint32_t vcpu)
{
	const struct guest_vcpu_regs *regs = &f->regs[vcpu];
	struct lnx_kernel *k = f->k;
	struct a64_regime r;

	if (regs->state == GUEST_VCPU_OFF || !(regs->valid & GUEST_REGS_GENERAL))
		return 0;
	if (a64_pstate_el(regs->pstate) == 1) {
		if (stack_agrees(v, regs, vcpu))
			return 1;
		/* one that was never started has all registers 0 */
		return !regs->pc || lnx_is_text(v, regs->pc) ? 0 : -1;
	}
	for (uint32_t i = 0; i < LNX_TABLES_PER_VCPU; i++) {
		struct a64_mapping m;

		if (!lnx_regime_of(f, vcpu, i, &r))
			return 0;
		if (!a64_translate(&r, f->g, GVA(k->text.start), &m) &&
		    m.pa.a == k->text.start - k->voffset)
			return 1;
	}
	return -1;
}

/* Whether VMCOREINFO, written by the kernel that ran last, means this one. */
static bool is_vmcoreinfo_of(const struct lnx_finder *f)
{
	uint64_t text, voffset;

	return lnx_vmcoreinfo_number(f->hints, "NUMBER(kimage_voffset)", &voffset) &&
	       lnx_vmcoreinfo_number(f->hints, "SYMBOL(_stext)", &text) &&
	       voffset == f->k->voffset && text == f->k->text.start;
}

/* The candidate is whole: is it the one that runs? */
static enum lnx_verdict judge(struct lnx_finder *f)
{
	struct lnx_view v;
	int sum = 0;
	bool agrees = false, can_tell = false;

	lnx_view_init(&v, f->k, f->g);
	for (uint32_t i = 0; i < f->vcpus; i++) {
		int evidence = vcpu_evidence(f, &v, i);

		sum += evidence;
		agrees |= evidence > 0;
		can_tell |= evidence != 0;
	}
	f->k->found.evidence = sum;
	/* vCPUs that are off may look as if they ran something else: one that agrees is enough */
	if (agrees || f->way == LNX_BY_REGISTERS || is_vmcoreinfo_of(f)) {
		f->rc = GS_OK;
		return LNX_DONE;
	}
	if (!f->best || sum > f->best_evidence) {
		lnx_kernel_destroy(f->best);
		f->best = f->k;
		f->best_evidence = sum;
		f->k = NULL;
	}
	/* nothing contradicts the first, and nothing would prove another */
	if (!can_tell && f->best_evidence == 0) {
		lnx_kernel_destroy(f->k);
		f->k = f->best;
		f->best = NULL;
		f->rc = GS_OK;
		return LNX_DONE;
	}
	return LNX_GO_ON;
}

/* --- candidates --- */

static void note_failure(struct lnx_finder *f, enum lnx_step step, enum gs_code rc)
{
	if (f->unfinished.code && step < f->furthest)
		return;
	f->furthest = step;
	if (f->err)
		f->unfinished = *f->err;
	f->unfinished.code = rc;
}

/* Its symbols are known: the further steps. */
static enum lnx_verdict take_steps(struct lnx_finder *f)
{
	static enum gs_code (*const steps[LNX_STEPS])(struct lnx_finder *) = {
		[LNX_STEP_PLACE] = lnx_find_place,
		[LNX_STEP_LAYOUT] = lnx_find_layout,
		[LNX_STEP_ROOTS] = lnx_find_roots,
	};
	struct lnx_found *found = &f->k->found;
	uint64_t *const times[LNX_STEPS] = {
		[LNX_STEP_PLACE] = &found->place_ns,
		[LNX_STEP_LAYOUT] = &found->types_ns,
		[LNX_STEP_ROOTS] = &found->roots_ns,
	};

	for (int step = LNX_STEP_PLACE; step < LNX_STEPS; step++) {
		uint64_t start = gs_clock_ns();
		enum gs_code rc = steps[step](f);

		*times[step] = gs_clock_ns() - start;
		if (!rc)
			continue;
		note_failure(f, (enum lnx_step)step, rc);
		/* the vCPUs run it: there is no other to look for */
		if (rc == GS_ENOSPC || (step > LNX_STEP_PLACE && f->way == LNX_BY_REGISTERS)) {
			f->rc = rc;
			return LNX_DONE;
		}
		return LNX_GO_ON;
	}
	return judge(f);
}

static bool begin_candidate(struct lnx_finder *f, gpa_t at)
{
	if (f->tables == LNX_TABLES_MAX) {
		f->rc = gs_fail(f->err, GS_ETOOBIG,
				"over %d places in guest memory look like a kernel symbol table, "
				"up to %#" PRIx64 ", and none is that of the kernel that runs",
				LNX_TABLES_MAX, at.a);
		return false;
	}
	f->seen[f->tables++] = at.a;
	f->k = calloc(1, sizeof(*f->k));
	if (!f->k) {
		f->rc = gs_fail(f->err, GS_ENOSPC, "out of memory");
		return false;
	}
	f->k->found.symbols_by = f->way;
	return true;
}

static enum lnx_verdict end_candidate(struct lnx_finder *f, enum lnx_verdict v)
{
	if (v == LNX_GO_ON || f->rc) {
		lnx_kernel_destroy(f->k);
		f->k = NULL;
	}
	return v;
}

/* Decode the tables around a token_index at @p at; style C addresses are left relative. */
static enum gs_code decode_tables(struct lnx_finder *f, gpa_t at)
{
	const struct guest_range *r = guest_range_find(f->g, at);
	uint64_t before = gs_min(at.a - r->start.a, KALLSYMS_REACH_BEFORE);
	uint64_t after = gs_min(r->size - (at.a - r->start.a), KALLSYMS_REACH_AFTER);
	uint8_t *window = malloc((size_t)(before + after));

	if (!window)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for a window of the symbol table");
	lnx_read_sparse(f->g, GPA(at.a - before), window, (size_t)(before + after));
	enum gs_code rc = kallsyms_decode(window, (size_t)(before + after), (size_t)before, false,
					  &f->k->ks, f->err);
	free(window);
	if (rc)
		return rc;
	f->k->proof_pa = GPA(at.a - before + f->k->ks.token_table);
	if (!f->k->ks.absolute) /* for now as if guest-virtual were guest-physical */
		kallsyms_rebase(&f->k->ks, at.a - before), f->k->ks.absolute = false;
	return GS_OK;
}

enum lnx_verdict lnx_try_tables(struct lnx_finder *f, gpa_t token_index)
{
	uint64_t start = gs_clock_ns();

	if (!begin_candidate(f, token_index))
		return LNX_DONE;
	enum gs_code rc = decode_tables(f, token_index);
	f->k->found.symbols_at = f->k->proof_pa;
	f->k->found.symbols_ns = gs_clock_ns() - start;
	if (!rc)
		return end_candidate(f, take_steps(f));
	/* names without usable addresses may be those of a kernel that lies there as a file */
	if (rc == GS_EMALFORMED)
		note_failure(f, LNX_STEP_SYMBOLS, rc);
	if (rc == GS_ENOSPC)
		f->rc = rc;
	return end_candidate(f, rc == GS_ENOSPC ? LNX_DONE : LNX_GO_ON);
}

/* Give the reference's symbols the addresses they have where it was found. */
static enum gs_code place_reference(struct lnx_finder *f, gpa_t image)
{
	struct kallsyms *ks = &f->k->ks;
	uint64_t base;

	if (kallsyms_copy(&f->hints->reference->ks, ks))
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the symbol table");
	if (ks->style == 'C') {
		kallsyms_rebase(ks, image.a);
		ks->absolute = false; /* as if guest-virtual were guest-physical */
		return GS_OK;
	}
	/* the kernel itself has relocated its base */
	if (guest_read_u64(f->g, GPA(image.a + ks->base_at), &base) || !base)
		return gs_fail(f->err, GS_ENOENT,
			       "the kernel image given is at guest-physical %#" PRIx64
			       ", but where it was relocated to cannot be read",
			       image.a);
	kallsyms_rebase(ks, base);
	return GS_OK;
}

enum lnx_verdict lnx_try_reference(struct lnx_finder *f, gpa_t image, gpa_t proof)
{
	uint64_t start = gs_clock_ns();

	if (!begin_candidate(f, image))
		return LNX_DONE;
	enum gs_code rc = place_reference(f, image);
	f->k->proof_pa = proof;
	f->k->found.symbols_at = proof;
	f->k->found.symbols_ns = gs_clock_ns() - start;
	if (!rc)
		return end_candidate(f, take_steps(f));
	note_failure(f, LNX_STEP_SYMBOLS, rc);
	if (rc == GS_ENOSPC)
		f->rc = rc;
	return end_candidate(f, rc == GS_ENOSPC ? LNX_DONE : LNX_GO_ON);
}

/* --- the kernel --- */

/* The search is over: what came of it. */
static enum gs_code conclude(struct lnx_finder *f, enum lnx_verdict v)
{
	if (v == LNX_DONE)
		return f->rc;
	if (f->best && f->best_evidence >= 0) {
		f->k = f->best;
		f->best = NULL;
		return GS_OK;
	}
	if (f->best)
		return gs_fail(
			f->err, GS_ENOENT,
			"a kernel is in guest memory (%s), but the vCPUs run something else: "
			"firmware, early boot, or a kernel that was not found",
			f->best->release);
	if (f->unfinished.code)
		return gs_fail(f->err, f->unfinished.code, "%s", f->unfinished.text);
	return gs_fail(
		f->err, GS_ENOENT,
		f->hints->reference
			? "the kernel image given is not in guest memory, nor is another "
			  "kernel's symbol table"
			: "no kernel symbol table in guest memory (still in firmware or early "
			  "boot, not Linux, or built without CONFIG_KALLSYMS)");
}

enum gs_code lnx_kernel_find(struct guest *g, const struct guest_vcpu_regs *regs, uint32_t n,
			     const struct lnx_hints *hints, struct lnx_kernel **k_out,
			     struct gs_error *err)
{
	static const struct lnx_hints none;
	struct gs_error own = { 0 }; /* the steps report into it, whether the caller asks or not */
	struct lnx_finder f = {
		.g = g,
		.regs = regs,
		.vcpus = n,
		.hints = hints ? hints : &none,
		.err = &own,
	};
	enum gs_code rc = conclude(&f, lnx_search(&f));

	lnx_kernel_destroy(f.best);
	if (rc) {
		if (err)
			*err = own;
		return rc;
	}
	f.k->found.candidates = f.tables;
	*k_out = f.k;
	return GS_OK;
}

const struct lnx_found *lnx_kernel_found(const struct lnx_kernel *k)
{
	return &k->found;
}

void lnx_kernel_destroy(struct lnx_kernel *k)
{
	if (!k)
		return;
	kallsyms_deinit(&k->ks);
	free(k);
}

bool lnx_kernel_is_current(const struct lnx_kernel *k, const struct guest *g)
{
	uint8_t now[LNX_PROOF_BYTES];
	struct a64_mapping m;

	return !guest_read(g, k->proof_pa, now, sizeof(now)) &&
	       memcmp(now, k->proof, sizeof(now)) == 0 &&
	       !a64_translate(&k->regime, g, GVA(k->proof_pa.a + k->voffset), &m) &&
	       m.pa.a == k->proof_pa.a;
}

const char *lnx_kernel_banner(const struct lnx_kernel *k)
{
	return k->banner;
}

struct lnx_kernel_info lnx_kernel_info_get(const struct lnx_kernel *k)
{
	return (struct lnx_kernel_info){
		.release = k->release,
		.text = k->text.start,
		.size = k->init_text.end - k->text.start,
		.voffset = k->voffset,
		.page_size = 1u << k->regime.half[1].granule_bits,
		.va_bits = k->regime.half[1].va_bits,
		.symbols = k->ks.n,
		.kallsyms_style = k->ks.style,
	};
}

/* --- names --- */

enum gs_code lnx_symbol_at(const struct lnx_kernel *k, gva_t address, struct lnx_symbol *symbol_out)
{
	if (!lnx_range_has(k->text, address.a) && !lnx_range_has(k->init_text, address.a))
		return GS_ENOENT;
	uint32_t end = kallsyms_upper_bound(&k->ks, address.a), first = end;

	/* the first of those with the same address (kallsyms.c get_symbol_pos()) */
	while (first && k->ks.address[first - 1] == k->ks.address[end - 1])
		first--;
	if (!end)
		return GS_ENOENT;

	uint32_t pick = first;
	do {
		kallsyms_name(&k->ks, pick, &symbol_out->type, symbol_out->name,
			      sizeof(symbol_out->name));
	} while (symbol_out->name[0] == '$' && ++pick < end);

	symbol_out->start = k->ks.address[first];
	symbol_out->size =
		(end < k->ks.n ? k->ks.address[end] : k->init_text.end) - symbol_out->start;
	symbol_out->flags = 0;
	if (lnx_range_has(k->sched_text, address.a) || lnx_range_has(k->lock_text, address.a))
		symbol_out->flags |= LNX_SYMBOL_SCHED;
	return GS_OK;
}

enum gs_code lnx_symbol_find(const struct lnx_kernel *k, const char *name, gva_t *address_out)
{
	return kallsyms_find(&k->ks, name, &address_out->a);
}
