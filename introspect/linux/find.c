/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the guest's kernel: each candidate is taken through all steps, then proved by vCPUs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "introspect/linux/finder.h"

/* _stext in an image: the header has 64 KiB of its own (vmlinux.lds.S, 5.10 to 7.3). */
#define TEXT_AT UINT64_C(0x10000)

const char *lnx_way_name(enum lnx_way way)
{
	static const char *const names[LNX_WAYS] = {
		[LNX_BY_REFERENCE] = "the kernel image given",
		[LNX_BY_REGISTERS] = "vCPU registers",
		[LNX_BY_VMCOREINFO] = "VMCOREINFO",
		[LNX_BY_SAMPLING] = "samples of memory",
		[LNX_BY_SCAN] = "a scan of memory",
		[LNX_BY_BTF] = "the kernel's BTF",
		[LNX_BY_PROFILE] = "a profile",
	};

	return way < LNX_WAYS ? names[way] : "?";
}

/* --- evidence --- */

/* Of the task that a kernel has on a CPU. */
struct cpu_stack {
	uint64_t start; /* 0: not known */
	bool idle;
};

/* What a vCPU says of a candidate. */
enum says {
	SAYS_NO = -1, /* it executes something else */
	SAYS_NOTHING, /* it does not show */
	SAYS_MAYBE,   /* it idles on a stack where the candidate has one, say */
	SAYS_YES,     /* it executes this kernel or a process of it */
};

/*
 * As the kernel's own per-CPU areas say. What registers lead to may be read through any kernel's
 * tables: two that were put to the same addresses, one after the other, differ in nothing else.
 */
static void find_stacks(struct lnx_view *v, struct cpu_stack *stack, uint32_t n)
{
	/* in EL0, so that it is not SP_EL0 that says what is executed */
	struct guest_vcpu_regs r = { .valid = GUEST_REGS_GENERAL | GUEST_REGS_TPIDR,
				     .state = GUEST_VCPU_ON };
	struct lnx_task task;
	gva_t current;

	for (uint32_t cpu = 0; cpu < n; cpu++)
		if (!lnx_percpu_offset(v, cpu, &r.tpidr_el1) &&
		    !lnx_vcpu_current(v, &r, &current) && !lnx_task_read(v, current, &task))
			stack[cpu] = (struct cpu_stack){ task.stack.a, !task.pid };
}

/* What the stack of a vCPU in EL1 says that executes the candidate's text. */
static enum says ask_stack(struct lnx_view *v, const struct guest_vcpu_regs *regs,
			   const struct cpu_stack *stack, uint32_t n)
{
	const uint64_t size = v->k->thread_size;
	struct lnx_task task;
	gva_t current;
	bool known = false;

	/* VMMs need not number vCPUs as Linux does */
	for (uint32_t cpu = 0; cpu < n; cpu++) {
		known |= stack[cpu].start != 0;
		if (stack[cpu].start && gs_in_range(regs->sp_el1, 1, stack[cpu].start, size))
			return stack[cpu].idle ? SAYS_MAYBE : SAYS_YES;
	}
	if (known || lnx_vcpu_current(v, regs, &current) || lnx_task_read(v, current, &task) ||
	    !gs_in_range(regs->sp_el1, 1, task.stack.a, size))
		return SAYS_NOTHING;
	return task.pid ? SAYS_YES : SAYS_MAYBE;
}

static enum says ask_general_registers(struct lnx_view *v, const struct guest_vcpu_regs *regs,
				       const struct cpu_stack *stack, uint32_t n)
{
	const enum says says = ask_stack(v, regs, stack, n);

	if (lnx_is_text(v, regs->pc))
		return says;
	/* it may be in a call of EFI's runtime services, which have low addresses */
	return !BIT(regs->pc, 55) && says > SAYS_NOTHING ? SAYS_MAYBE : SAYS_NO;
}

/* Whether registers show what a vCPU executes: its page tables, or in the kernel its stack. */
static bool can_tell(const struct lnx_finder *f, uint32_t vcpu)
{
	const struct guest_vcpu_regs *regs = &f->regs[vcpu];
	struct a64_regime r;

	if (lnx_regime_of(f, vcpu, 0, &r))
		return true;
	/* one that was never started has all registers 0 */
	return regs->state != GUEST_VCPU_OFF && (regs->valid & GUEST_REGS_GENERAL) &&
	       a64_pstate_el(regs->pstate) == 1 && regs->pc;
}

static enum says ask_vcpu(const struct lnx_finder *f, struct lnx_view *v, uint32_t vcpu,
			  const struct cpu_stack *stack)
{
	const struct lnx_kernel *k = f->k;
	struct a64_regime r;
	struct a64_mapping m;

	if (!can_tell(f, vcpu))
		return SAYS_NOTHING;
	if (!lnx_regime_of(f, vcpu, 0, &r))
		return ask_general_registers(v, &f->regs[vcpu], stack, f->vcpus);
	for (uint32_t i = 0; i < LNX_TABLES_PER_VCPU; i++)
		if (lnx_regime_of(f, vcpu, i, &r) &&
		    !a64_translate(&r, f->g, GVA(k->text.start), &m) &&
		    m.pa.a == k->text.start - k->voffset)
			return SAYS_YES;
	return SAYS_NO;
}

/* Where VMCOREINFO, written by the kernel that ran last, says that this is. */
static bool read_vmcoreinfo(const struct lnx_finder *f, uint64_t *text_out, uint64_t *voffset_out)
{
	return lnx_vmcoreinfo_number(f->hints, "NUMBER(kimage_voffset)", voffset_out) &&
	       lnx_vmcoreinfo_number(f->hints, "SYMBOL(_stext)", text_out);
}

/* What vCPUs and VMCOREINFO say of the candidate. */
struct evidence {
	int sum;
	bool agrees; /* something does; vCPUs that are off may look as if they ran something else */
	bool can_tell; /* something could */
	bool likely;   /* nothing does, but all that could seem to */
};

static enum gs_code weigh(struct lnx_finder *f, struct evidence *e)
{
	GS_FREE struct cpu_stack *stack = gs_array_alloc(f->vcpus ? f->vcpus : 1, sizeof(*stack));
	uint64_t text, voffset;
	struct lnx_view v;
	int tellers = 0;

	*e = (struct evidence){ 0 };
	if (!stack)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the search");
	lnx_view_init(&v, f->k, f->g);
	find_stacks(&v, stack, f->vcpus);
	for (uint32_t i = 0; i < f->vcpus; i++) {
		enum says says = ask_vcpu(f, &v, i, stack);

		e->sum += says == SAYS_NO ? -1 : says >= SAYS_MAYBE;
		e->agrees |= says == SAYS_YES;
		tellers += can_tell(f, i);
	}
	e->can_tell = tellers > 0;
	e->likely = tellers && e->sum == tellers;
	if (read_vmcoreinfo(f, &text, &voffset)) {
		e->agrees |= voffset == f->k->voffset && text == f->k->text.start;
		e->can_tell = true;
	}
	return GS_OK;
}

/* The candidate is whole: is it the one that runs? */
static enum lnx_verdict judge(struct lnx_finder *f)
{
	struct evidence e;

	f->rc = weigh(f, &e);
	if (f->rc)
		return LNX_DONE;
	f->k->found.evidence = e.sum;
	/* proved; or nothing can prove one, or more of one: then it is the first */
	if (e.agrees || !e.can_tell || e.likely)
		return LNX_DONE;
	if (!f->best || e.sum > f->best_evidence) {
		lnx_kernel_destroy(f->best);
		f->best = f->k;
		f->best_evidence = e.sum;
		f->k = NULL;
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
		/* the vCPUs run it: there is no other to look for, but a better table than a file's */
		if (rc == GS_ENOSPC || (step > LNX_STEP_PLACE && f->way != LNX_BY_REFERENCE &&
					found->place_by == LNX_BY_REGISTERS)) {
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

/* Decode the tables around a token_index at @p at, in a window of a quarter or all of their reach. */
static enum gs_code decode_window(struct lnx_finder *f, gpa_t at, uint64_t divisor)
{
	/* they may lie in several ranges */
	const struct guest_range *first = f->g->ranges, *last = first + f->g->range_count - 1;
	const uint64_t before = gs_min(at.a - first->start.a, KALLSYMS_REACH_BEFORE / divisor);
	const uint64_t after =
		gs_min(last->start.a + last->size - at.a, KALLSYMS_REACH_AFTER / divisor);
	const size_t size = (size_t)(before + after);
	uint8_t *window = malloc(size);

	if (!window)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for a window of the symbol table");
	lnx_read_sparse(f->g, GPA(at.a - before), window, size);
	enum gs_code rc = kallsyms_decode(window, size, (size_t)before, false, &f->k->ks, f->err);
	free(window);
	if (rc)
		return rc;
	f->k->proof_pa = GPA(at.a - before + f->k->ks.token_table);
	if (!f->k->ks.absolute) /* for now as if guest-virtual were guest-physical */
		kallsyms_rebase(&f->k->ks, at.a - before), f->k->ks.absolute = false;
	return GS_OK;
}

/* Most kernels' tables fit into a quarter of what the largest one needs. */
static enum gs_code decode_tables(struct lnx_finder *f, gpa_t at)
{
	enum gs_code rc = decode_window(f, at, 4);

	return rc == GS_ENOENT || rc == GS_EMALFORMED ? decode_window(f, at, 1) : rc;
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
	uint64_t base, text;

	if (kallsyms_copy(&f->hints->reference->ks, ks))
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the symbol table");
	/* the kernel itself has relocated its base, which may be lost as any other word */
	if (ks->style != 'C' && !guest_read_u64(f->g, GPA(image.a + ks->base_at), &base) &&
	    kallsyms_is_address(base)) {
		kallsyms_rebase(ks, base);
		return GS_OK;
	}
	if (kallsyms_find(ks, "_stext", &text))
		return gs_fail(f->err, GS_EMALFORMED,
			       "the symbol table lacks the ends of the kernel's text");
	/* as if guest-virtual were guest-physical: offsets may count from another symbol than _text */
	kallsyms_rebase(ks, image.a + TEXT_AT - text);
	ks->absolute = false;
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
	const bool has_best = f->best && f->best_evidence >= 0;

	if (v == LNX_DONE && !(f->rc == GS_ETOOBIG && has_best))
		return f->rc;
	if (has_best) {
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
		.build_id = lnx_is_build_id(k->build_id) ? k->build_id : NULL,
	};
}

/* --- names --- */

enum gs_code lnx_nearest_symbol(const struct lnx_kernel *k, uint64_t address,
				struct lnx_symbol *symbol_out)
{
	uint32_t end = kallsyms_upper_bound(&k->ks, address), first = end;

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
	if (lnx_range_has(k->sched_text, address) || lnx_range_has(k->lock_text, address))
		symbol_out->flags |= LNX_SYMBOL_SCHED;
	return GS_OK;
}

enum gs_code lnx_symbol_at(const struct lnx_kernel *k, gva_t address, struct lnx_symbol *symbol_out)
{
	if (!lnx_range_has(k->text, address.a) && !lnx_range_has(k->init_text, address.a))
		return GS_ENOENT;
	return lnx_nearest_symbol(k, address.a, symbol_out);
}

enum gs_code lnx_symbol_find(const struct lnx_kernel *k, const char *name, gva_t *address_out)
{
	return kallsyms_find(&k->ks, name, &address_out->a);
}
