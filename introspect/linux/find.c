/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the guest's kernel: symbol table, place, types, roots; each checked by a second fact. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"

#define SCAN_CHUNK (UINT64_C(1) << 20)
/* An index may begin in one chunk and end in the next; the token table lies before it. */
#define SCAN_OVERLAP UINT64_C(8192)
/*
 * From VBAR_EL1 (in the image's text, or its trampoline page) to any of the tables: 7.3 needs 50
 * MiB.
 */
#define IMAGE_REACH (UINT64_C(96) << 20)
/* Text of one function that is decoded: the entry code of interest is within 0xc8 bytes. */
#define DECODE_BYTES 512
/* Banners and other strings that merely look like one. */
#define BANNER_PREFIX "Linux version "
/*
 * Places that are looked at closely: a guest may hold copies of kernels in its page cache, but one
 * that has more of them wants to keep us busy.
 */
#define TABLES_MAX 32
/* Descriptors read to find a table by what it maps: the largest kernels have some 200,000 leaves. */
#define ROOT_BUDGET	 (UINT64_C(1) << 24)
#define ROOT_ENTRIES_MAX 64
#define TYPES_MAX	 64

struct finder {
	struct guest *g;
	const struct guest_vcpu_regs *regs;
	uint32_t vcpus;
	struct lnx_kernel *k;
	struct gs_error *err;
	uint32_t tables;	  /* places that looked like a symbol table */
	struct gs_error unusable; /* what was wrong with the last one that was one */
};

/* --- memory --- */

/* Copy [start, start + size); what is not RAM, or was never written, reads as zero. */
static void read_sparse(struct guest *g, gpa_t start, uint8_t *buf, size_t size)
{
	gpa_t at = start, end = GPA(start.a + size);

	memset(buf, 0, size);
	while (at.a < end.a) {
		const struct guest_range *r = guest_range_find(g, at);

		if (!r) {
			at.a = gs_align_up(at.a + 1, 4096);
			continue;
		}
		gpa_t stop = GPA(gs_min(end.a, r->start.a + r->size)), from = at, to = stop;
		if (g->ops->next_data && !g->ops->next_data(g->priv, at, stop, &from, &to)) {
			at = stop;
			continue;
		}
		if (from.a < at.a || to.a > stop.a || to.a <= from.a ||
		    guest_read(g, from, buf + (from.a - start.a), (size_t)(to.a - from.a)))
			return; /* a source that contradicts itself: the rest stays zero */
		at = to;
	}
}

/* --- symbol table --- */

/* Decode the tables around a token_index at @p at; style C addresses are left relative. */
static enum gs_code try_index(struct finder *f, gpa_t at)
{
	const struct guest_range *r = guest_range_find(f->g, at);
	uint64_t before = gs_min(at.a - r->start.a, KALLSYMS_REACH_BEFORE);
	uint64_t after = gs_min(r->size - (at.a - r->start.a), KALLSYMS_REACH_AFTER);
	uint8_t *window = malloc((size_t)(before + after));

	if (!window)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for a window of the symbol table");
	read_sparse(f->g, GPA(at.a - before), window, (size_t)(before + after));
	enum gs_code rc = kallsyms_decode(window, (size_t)(before + after), (size_t)before,
					  &f->k->ks, f->err);
	free(window);
	if (rc)
		return rc;
	f->k->proof_pa = GPA(at.a - before + f->k->ks.token_table);
	if (!f->k->ks.absolute) /* for now as if guest-virtual were guest-physical */
		kallsyms_rebase(&f->k->ks, at.a - before), f->k->ks.absolute = false;
	return GS_OK;
}

/*
 * A place that has tokens. A table without usable addresses may be that of a kernel that lies in
 * memory as a file (kexec): the search goes on.
 */
static enum gs_code try_candidate(struct finder *f, gpa_t at)
{
	if (f->tables++ == TABLES_MAX)
		return gs_fail(f->err, GS_ETOOBIG,
			       "over %d places in guest memory look like a kernel symbol table, up "
			       "to %#" PRIx64 ", and none is",
			       TABLES_MAX, at.a);
	enum gs_code rc = try_index(f, at);
	if (rc != GS_EMALFORMED)
		return rc;
	if (f->err)
		f->unusable = *f->err;
	f->unusable.code = rc;
	return GS_ENOENT;
}

/*
 * Look for the tables in [start, end) of RAM. @return GS_OK, GS_ENOENT, or what stopped the search
 */
static enum gs_code scan_for_symbols(struct finder *f, uint64_t start, uint64_t end)
{
	uint8_t *chunk = malloc(SCAN_CHUNK + SCAN_OVERLAP);
	enum gs_code rc = GS_ENOENT;

	if (!chunk)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the search");
	for (uint64_t at = start; at < end && rc == GS_ENOENT; at += SCAN_CHUNK) {
		uint64_t lead = gs_min(SCAN_OVERLAP, at - start);
		size_t size = (size_t)(gs_min(SCAN_CHUNK, end - at) + lead);

		read_sparse(f->g, GPA(at - lead), chunk, size);
		size_t hit = 0;
		while (rc == GS_ENOENT &&
		       (hit = kallsyms_next_candidate(chunk, size, hit)) < size) {
			if (kallsyms_has_tokens(chunk, size, hit))
				rc = try_candidate(f, GPA(at - lead + hit));
			hit += 2;
		}
	}
	free(chunk);
	return rc;
}

/*
 * Tables a vCPU may use for kernel addresses: its TTBR1, and what is 2 pages on in EL0 under KPTI.
 */
#define TABLES_PER_VCPU 3

static bool regime_of(const struct finder *f, uint32_t vcpu, uint32_t variant, struct a64_regime *r)
{
	const struct guest_vcpu_regs *regs = &f->regs[vcpu];

	if (regs->state == GUEST_VCPU_OFF || !(regs->valid & GUEST_REGS_MMU) ||
	    !(regs->sctlr_el1 & 1))
		return false;
	if (a64_regime_init(r, regs->tcr_el1, 0, regs->ttbr1_el1) || !r->half[1].enabled)
		return false;
	/*
	 * tramp_pg_dir, reserved_pg_dir and swapper_pg_dir lie a page apart in this order
	 * (arch/arm64/kernel/vmlinux.lds.S, 5.10 to 7.3; without SW_TTBR0_PAN one page may be
	 * missing).
	 */
	static const uint32_t pages_on[TABLES_PER_VCPU] = { 0, 2, 1 };
	r->half[1].table.a += (uint64_t)pages_on[variant] << r->half[1].granule_bits;
	r->half[0].enabled = false;
	return true;
}

/*
 * Around where a vCPU's vectors are: they belong to the image even where VBAR is the trampoline's
 * alias.
 */
static enum gs_code find_symbols_by_vbar(struct finder *f)
{
	for (uint32_t i = 0; i < f->vcpus; i++) {
		struct a64_regime r;
		struct a64_mapping m;

		if (!(f->regs[i].valid & GUEST_REGS_VBAR) || !regime_of(f, i, 0, &r) ||
		    a64_translate(&r, f->g, GVA(f->regs[i].vbar_el1), &m))
			continue;
		const struct guest_range *range = guest_range_find(f->g, m.pa);
		if (!range)
			continue;
		uint64_t end =
			gs_min(range->size - (m.pa.a - range->start.a), IMAGE_REACH) + m.pa.a;
		enum gs_code rc = scan_for_symbols(f, m.pa.a, end);
		if (rc != GS_ENOENT)
			return rc;
	}
	return GS_ENOENT;
}

static enum gs_code find_symbols(struct finder *f)
{
	enum gs_code rc = find_symbols_by_vbar(f);

	for (uint32_t i = 0; rc == GS_ENOENT && i < f->g->range_count; i++) {
		const struct guest_range *r = &f->g->ranges[i];

		rc = scan_for_symbols(f, r->start.a, r->start.a + r->size);
	}
	if (rc == GS_ENOENT && f->unusable.code)
		return gs_fail(f->err, f->unusable.code, "%s", f->unusable.text);
	if (rc == GS_ENOENT)
		return gs_fail(f->err, rc,
			       "no kernel symbol table in guest memory (still in firmware or early "
			       "boot, not "
			       "Linux, or built without CONFIG_KALLSYMS)");
	return rc;
}

/* --- where the image is --- */

/* Accept a table and an offset when they map the symbol table to the place where it was found. */
static bool anchor(struct finder *f, const struct a64_regime *r, uint64_t voffset)
{
	struct lnx_kernel *k = f->k;
	struct a64_mapping m;

	if (a64_translate(r, f->g, GVA(k->proof_pa.a + voffset), &m) || m.pa.a != k->proof_pa.a)
		return false;
	k->regime = *r;
	k->voffset = voffset;
	return true;
}

static bool anchor_by_address(struct finder *f, const struct a64_regime *r, uint64_t va)
{
	struct a64_mapping m;

	return !a64_translate(r, f->g, GVA(va), &m) && anchor(f, r, va - m.pa.a);
}

/*
 * A table that is sorted by place-relative offsets says nothing of virtual addresses: registers do.
 */
static bool anchor_by_registers(struct finder *f, const struct a64_regime *r,
				const struct guest_vcpu_regs *regs)
{
	uint64_t candidates[] = { regs->vbar_el1, regs->pc, regs->x[30], regs->elr_el1 };

	for (size_t i = 0; i < ARRAY_SIZE(candidates); i++)
		if (anchor_by_address(f, r, a64_strip(candidates[i], r->half[1].va_bits)))
			return true;
	return false;
}

static bool place_by_registers(struct finder *f)
{
	const struct kallsyms *ks = &f->k->ks;

	for (uint32_t variant = 0; variant < TABLES_PER_VCPU; variant++) {
		for (uint32_t i = 0; i < f->vcpus; i++) {
			struct a64_regime r;

			if (regime_of(f, i, variant, &r) &&
			    (ks->absolute ? anchor_by_address(f, &r, ks->address[0])
					  : anchor_by_registers(f, &r, &f->regs[i])))
				return true;
		}
	}
	return false;
}

/* Forms of a kernel's half that Linux has been built with: pages and bits of an address. */
static const struct shape {
	uint8_t granule_bits, va_bits;
} shapes[] = {
	{ 12, 48 }, { 12, 52 }, { 14, 47 }, { 14, 52 }, { 14, 48 },
	{ 16, 52 }, { 16, 48 }, { 12, 39 }, { 14, 36 }, { 16, 42 },
};

static bool regime_of_shape(const struct shape *s, struct a64_regime *r)
{
	static const uint64_t tg1[] = { [12] = 2, [14] = 1, [16] = 3 };
	/* EPD0, T1SZ, TG1, 52-bit output addresses for 52-bit input addresses: IPS 6, and DS */
	uint64_t tcr = UINT64_C(1) << 7 | (uint64_t)(64 - s->va_bits) << 16 |
		       tg1[s->granule_bits] << 30 | UINT64_C(5) << 32;

	if (s->va_bits == 52)
		tcr = (tcr & ~(UINT64_C(7) << 32)) | UINT64_C(6) << 32 | UINT64_C(1) << 59;
	return !a64_regime_init(r, tcr, 0, 0) && r->half[1].enabled;
}

/* Entries of a top table are few and lead to RAM; what else lies in the image is hardly so. */
static bool looks_like_root(const struct finder *f, const struct a64_half *h, gpa_t table)
{
	uint32_t valid = 0;

	for (uint64_t i = 0; i < 512; i++) {
		uint64_t entry;

		if (guest_read_u64(f->g, GPA(table.a + i * sizeof(entry)), &entry))
			return false;
		if (!entry)
			continue;
		uint64_t next = BITS(entry, 47, h->granule_bits) << h->granule_bits;
		if ((entry & 3) != 3 || !guest_range_find(f->g, GPA(next)))
			return false;
		valid++;
	}
	return valid && valid <= ROOT_ENTRIES_MAX;
}

/*
 * Without registers: swapper_pg_dir lies in the image, between its read-only data and its init text
 * (vmlinux.lds.S, 5.10 to 7.3), and is known by mapping the symbol table to where it was found.
 */
static bool place_by_search(struct finder *f)
{
	const struct kallsyms *ks = &f->k->ks;
	const struct guest_range *range = guest_range_find(f->g, f->k->proof_pa);
	uint64_t start = f->k->proof_pa.a - gs_min(f->k->proof_pa.a - range->start.a, IMAGE_REACH);
	uint64_t end = f->k->proof_pa.a +
		       gs_min(range->size - (f->k->proof_pa.a - range->start.a), IMAGE_REACH);
	uint64_t budget = ROOT_BUDGET;

	for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
		struct a64_regime r;
		uint64_t page = UINT64_C(1) << shapes[s].granule_bits;
		gva_t va;

		if (!regime_of_shape(&shapes[s], &r))
			continue;
		for (uint64_t at = gs_align_up(start, page); at + page <= end; at += page) {
			r.half[1].table = GPA(at);
			if (ks->absolute ? anchor_by_address(f, &r, ks->address[0])
					 : looks_like_root(f, &r.half[1], GPA(at)) &&
						   a64_find_highest(&r, f->g, f->k->proof_pa,
								    &budget, &va) &&
						   anchor(f, &r, va.a - f->k->proof_pa.a))
				return true;
		}
	}
	return false;
}

static enum gs_code find_place(struct finder *f)
{
	struct kallsyms *ks = &f->k->ks;

	if (!place_by_registers(f) && !place_by_search(f))
		return gs_fail(f->err, GS_ENOENT,
			       "a kernel symbol table is at guest-physical %#" PRIx64
			       ", but no page table leads to it (MMU still off?)",
			       f->k->proof_pa.a);
	if (!ks->absolute)
		kallsyms_rebase(ks, f->k->voffset);
	return GS_OK;
}

static struct lnx_range range_of(struct lnx_kernel *k, const char *start, const char *end)
{
	struct lnx_range r;

	if (kallsyms_find(&k->ks, start, &r.start) || kallsyms_find(&k->ks, end, &r.end) ||
	    r.end < r.start)
		return (struct lnx_range){ 0 };
	return r;
}

static void find_entries(struct lnx_kernel *k)
{
	static const char *const names[] = {
		"el1h_64_sync", "el1h_64_irq", "el1h_64_fiq", "el1h_64_error", /* 5.14 and later */
		"el1t_64_sync", "el1t_64_irq", "el1t_64_fiq", "el1t_64_error",
		"el1_sync",	"el1_irq",     "el1_fiq",     "el1_error",
	};
	_Static_assert(ARRAY_SIZE(names) <= LNX_ENTRIES_MAX, "room for all entries");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t start;

		if (kallsyms_find(&k->ks, names[i], &start))
			continue;
		uint32_t next = kallsyms_upper_bound(&k->ks, start);
		if (next < k->ks.n)
			k->el1_entry[k->el1_entries++] =
				(struct lnx_range){ start, k->ks.address[next] };
	}
}

static enum gs_code find_text(struct finder *f)
{
	struct lnx_kernel *k = f->k;

	k->text = range_of(k, "_stext", "_etext");
	k->init_text = range_of(k, "_sinittext", "_einittext");
	k->sched_text = range_of(k, "__sched_text_start", "__sched_text_end");
	k->lock_text = range_of(k, "__lock_text_start", "__lock_text_end");
	k->entry_text = range_of(k, "__entry_text_start", "__entry_text_end");
	if (kallsyms_find(&k->ks, "vectors", &k->vectors))
		k->vectors = 0;
	if (!k->text.end || !k->init_text.end)
		return gs_fail(f->err, GS_EMALFORMED,
			       "the symbol table lacks the ends of the kernel's text");
	find_entries(k);
	if (guest_read(f->g, k->proof_pa, k->proof, sizeof(k->proof)))
		return gs_fail(f->err, GS_EFAULT, "the symbol table became unreadable");
	return GS_OK;
}

/*
 * --- types and banner: both in the read-only data between text and init text
 * ----------------------
 */

static bool is_banner(const char *s)
{
	size_t n = strlen(BANNER_PREFIX);

	return strncmp(s, BANNER_PREFIX, n) == 0 && s[n] >= '0' && s[n] <= '9';
}

static void take_banner(struct lnx_kernel *k, const char *s, size_t len)
{
	len = strnlen(s, gs_min(len, sizeof(k->banner) - 1));
	memcpy(k->banner, s, len);
	k->banner[len] = '\0';
	k->banner[strcspn(k->banner, "\n")] = '\0';

	const char *release = k->banner + strlen(BANNER_PREFIX);
	size_t n = gs_min(strcspn(release, " "), sizeof(k->release) - 1);
	memcpy(k->release, release, n);
	k->release[n] = '\0';
}

static enum gs_code read_types(struct finder *f, gpa_t at, size_t size)
{
	uint8_t *blob = malloc(size);

	if (!blob)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for %zu bytes of type information",
			       size);
	enum gs_code rc = guest_read(f->g, at, blob, size);
	if (rc)
		(void)gs_fail(f->err, rc, "the kernel's type information reaches out of RAM");
	else
		rc = lnx_types_read(blob, size, &f->k->types, f->err);
	free(blob);
	return rc;
}

struct rodata_scan {
	bool types, banner;
	uint32_t tried;	       /* headers that may be those of the types */
	enum gs_code types_rc; /* of the last one */
};

static void look_at_chunk(struct finder *f, const uint8_t *chunk, size_t size, gpa_t base,
			  gpa_t end, struct rodata_scan *s)
{
	for (size_t i = 0; i + LNX_BTF_HEADER <= size && !s->types && s->tried < TYPES_MAX;
	     i += 4) {
		size_t blob =
			chunk[i] == 0x9f && chunk[i + 1] == 0xeb ? lnx_btf_size(chunk + i) : 0;

		/*
		 * The kernel keeps a copy of the header in its heap, with other bytes behind it;
		 * only what lies wholly inside of the image counts.
		 */
		if (!blob || !gs_in_range(base.a + i, blob, base.a, end.a - base.a))
			continue;
		s->tried++;
		s->types_rc = read_types(f, GPA(base.a + i), blob);
		s->types = s->types_rc == GS_OK || s->types_rc == GS_ENOSPC;
	}
	for (const uint8_t *p = chunk; !s->banner && p < chunk + size; p++) {
		p = memchr(p, 'L', (size_t)(chunk + size - p));
		if (!p || chunk + size - p < LNX_BANNER_MAX)
			break;
		if (is_banner((const char *)p)) {
			take_banner(f->k, (const char *)p, LNX_BANNER_MAX);
			s->banner = true;
		}
	}
}

static enum gs_code find_types(struct finder *f)
{
	struct lnx_kernel *k = f->k;
	gpa_t at = GPA(k->text.end - k->voffset), end = GPA(k->init_text.start - k->voffset);
	struct rodata_scan s = { 0 };

	if (k->init_text.start < k->text.end || end.a - at.a > IMAGE_REACH)
		return gs_fail(f->err, GS_EMALFORMED,
			       "the kernel's text and init text are not in order");
	uint8_t *chunk = malloc(SCAN_CHUNK + LNX_BANNER_MAX);
	if (!chunk)
		return gs_fail(f->err, GS_ENOSPC, "out of memory for the search");
	for (at.a &= ~UINT64_C(3); at.a < end.a && !(s.types && s.banner); at.a += SCAN_CHUNK) {
		size_t size = (size_t)gs_min(SCAN_CHUNK + LNX_BANNER_MAX, end.a - at.a);

		read_sparse(f->g, at, chunk, size);
		look_at_chunk(f, chunk, size, at, end, &s);
	}
	free(chunk);
	if (!s.tried)
		return gs_fail(f->err, GS_ENOENT,
			       "the kernel has no usable type information (built without "
			       "CONFIG_DEBUG_INFO_BTF?)");
	return s.types_rc;
}

/* --- what is read of a task --- */

static int compare_spans(const void *a, const void *b)
{
	const struct lnx_span *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/*
 * Merge the members' places into few copies: a gap of up to a cache line costs less than another
 * one.
 */
static enum gs_code plan_spans(struct finder *f)
{
	struct lnx_kernel *k = f->k;
	struct lnx_span all[LNX_M_TASK_LAST + 1];
	uint32_t n = 0;

	if (k->types.task_size > LNX_TASK_SIZE_MAX)
		return gs_fail(f->err, GS_ETOOBIG, "task_struct of %" PRIu32 " bytes",
			       k->types.task_size);
	for (size_t m = 0; m <= LNX_M_TASK_LAST; m++) {
		const struct lnx_field *fd = &k->types.member[m];

		if (fd->present)
			all[n++] = (struct lnx_span){ fd->offset, (uint32_t)gs_min(fd->size, 16) };
	}
	qsort(all, n, sizeof(all[0]), compare_spans);
	for (uint32_t i = 0; i < n; i++) {
		struct lnx_span *last = k->spans ? &k->span[k->spans - 1] : NULL;

		if (last && all[i].offset <= last->offset + last->size + 64)
			last->size = (uint32_t)gs_max(last->size,
						      all[i].offset + all[i].size - last->offset);
		else
			k->span[k->spans++] = all[i];
	}
	return GS_OK;
}

/* --- roots --- */

#define ADDRESSES_MAX 8

/*
 * The addresses that a function forms by adrp + add (or adr) before it reads a system register, or
 * before its end when @p until is 0.
 */
static uint32_t decode_addresses_of(struct lnx_view *v, const char *function, uint64_t until,
				    uint64_t *found)
{
	uint32_t code[DECODE_BYTES / 4], n = 0;
	uint64_t start, reg[32] = { 0 };
	bool known[32] = { false };

	if (kallsyms_find(&v->k->ks, function, &start) ||
	    lnx_read(v, GVA(start), code, sizeof(code)))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(code) && n < ADDRESSES_MAX; i++) {
		struct a64_insn in = a64_decode(code[i], start + 4 * i);

		if (in.kind == A64_INSN_ADRP || in.kind == A64_INSN_ADR) {
			reg[in.rd] = in.imm;
			known[in.rd] = true;
			if (in.kind == A64_INSN_ADR)
				found[n++] = in.imm;
		} else if (in.kind == A64_INSN_ADD_IMM && known[in.rn]) {
			found[n++] = reg[in.rn] + in.imm;
			known[in.rd] = false;
		} else if (until && in.kind == A64_INSN_MRS && in.imm == until) {
			return n;
		} else if (!until && in.kind == A64_INSN_RET) {
			return n;
		}
	}
	return until ? 0 : n;
}

static void find_percpu(struct lnx_kernel *k, struct lnx_view *v)
{
	const struct lnx_field *pc = k->types.percpu;
	uint64_t found[ADDRESSES_MAX];
	/*
	 * entry from EL0 loads the current task: __entry_task is the last address before the
	 * per-CPU offset
	 */
	uint32_t n = decode_addresses_of(v, "el0t_64_sync", A64_SYSREG_TPIDR_EL1, found);

	if (!n)
		n = decode_addresses_of(v, "el0_sync", A64_SYSREG_TPIDR_EL1, found);
	if (!n || found[n - 1] < k->text.start)
		return;
	k->entry_task = GVA(found[n - 1]);
	if (!pc[LNX_P_ENTRY_TASK].present)
		return;
	uint64_t start = k->entry_task.a - pc[LNX_P_ENTRY_TASK].offset;
	if (pc[LNX_P_RUNQUEUES].present)
		k->runqueues[k->runqueues_count++] = GVA(start + pc[LNX_P_RUNQUEUES].offset);
	if (pc[LNX_P_IRQ_STACK_PTR].present)
		k->irq_stack_ptr = GVA(start + pc[LNX_P_IRQ_STACK_PTR].offset);
	if (pc[LNX_P_OVERFLOW_STACK].present)
		k->overflow_stack = GVA(start + pc[LNX_P_OVERFLOW_STACK].offset);
}

/* idle_task(cpu) adds __per_cpu_offset[cpu] and runqueues: lnx_idle_task() sees which is which. */
static void find_runqueues(struct lnx_kernel *k, struct lnx_view *v)
{
	uint64_t found[ADDRESSES_MAX];
	uint32_t n = decode_addresses_of(v, "idle_task", 0, found);

	for (uint32_t i = 0; i < n && k->runqueues_count < LNX_RUNQUEUES_MAX; i++)
		k->runqueues[k->runqueues_count++] = GVA(found[i]);
}

/* The one task whose pid is 0 and which is on the list of all: neighbours must point back at it. */
static bool is_init_task(struct lnx_view *v, gva_t address)
{
	const struct lnx_kernel *k = v->k;
	uint64_t node = address.a + k->types.member[LNX_M_TASK_TASKS].offset, next, back;
	struct lnx_task t;

	return !lnx_task_read(v, address, &t) && t.pid == 0 && t.tgid == 0 &&
	       strncmp(t.comm, "swapper", 7) == 0 && !lnx_read_u64(v, GVA(node), &next) &&
	       !lnx_read_u64(v, GVA(next + 8), &back) && back == node;
}

/*
 * From any task: its leader, else its parent's (an idle task of a second CPU is on no list), round
 * the ring.
 */
static bool find_init_from(struct lnx_view *v, gva_t from, uint32_t *steps, gva_t *init_out)
{
	const uint32_t offset = v->k->types.member[LNX_M_TASK_TASKS].offset;
	struct lnx_task t;

	if (lnx_task_read(v, from, &t))
		return false;
	gva_t starts[] = { t.group_leader, t.real_parent };
	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		uint64_t at = starts[i].a, mark = at;
		uint32_t since_mark = 0, power = 1;

		/* a ring that leads into a loop never comes back to its start: Brent's search again */
		for (; *steps; --*steps) {
			uint64_t next;

			if (is_init_task(v, GVA(at))) {
				*init_out = GVA(at);
				return true;
			}
			if (lnx_read_u64(v, GVA(at + offset), &next) ||
			    !lnx_is_object(v->k, next) || next - offset == mark)
				break;
			at = next - offset;
			if (++since_mark == power) {
				mark = at;
				power *= 2;
				since_mark = 0;
			}
		}
	}
	return false;
}

static enum gs_code find_init_task(struct finder *f, struct lnx_view *v)
{
	struct lnx_kernel *k = f->k;
	uint64_t address;
	uint32_t steps = LNX_TASKS_MAX; /* for all vCPUs together */
	gva_t current;

	if (!kallsyms_find(&k->ks, "init_task", &address) && is_init_task(v, GVA(address))) {
		k->init_task = GVA(address);
		return GS_OK;
	}
	for (uint32_t i = 0; i < f->vcpus; i++)
		if (!lnx_vcpu_current(v, &f->regs[i], &current) &&
		    find_init_from(v, current, &steps, &k->init_task))
			return GS_OK;
	/* the idle task of the boot CPU is init_task */
	uint64_t offset;
	if (!lnx_percpu_offset(v, 0, &offset) && !lnx_idle_task(v, offset, &current) &&
	    is_init_task(v, current)) {
		k->init_task = current;
		return GS_OK;
	}
	return gs_fail(f->err, GS_ENOENT,
		       "the kernel is there, but no vCPU executes a task of it (early boot?)");
}

/* --- all of it --- */

static enum gs_code find_roots(struct finder *f)
{
	struct lnx_kernel *k = f->k;
	struct lnx_view v;

	/*
	 * THREAD_SIZE is 16 KiB, or one page where that is larger (arch/arm64/include/asm/memory.h)
	 */
	k->thread_size = gs_max(UINT64_C(16) << 10, UINT64_C(1) << k->regime.half[1].granule_bits);
	lnx_view_init(&v, k, f->g);
	find_percpu(k, &v);
	find_runqueues(k, &v);
	return find_init_task(f, &v);
}

enum gs_code lnx_kernel_find(struct guest *g, const struct guest_vcpu_regs *regs, uint32_t n,
			     struct lnx_kernel **k_out, struct gs_error *err)
{
	static enum gs_code (*const steps[])(struct finder *) = {
		find_symbols, find_place, find_text, find_types, plan_spans, find_roots,
	};
	struct lnx_kernel *k = calloc(1, sizeof(*k));
	struct finder f = { .g = g, .regs = regs, .vcpus = n, .k = k, .err = err };

	if (!k)
		return gs_fail(err, GS_ENOSPC, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		enum gs_code rc = steps[i](&f);

		if (rc) {
			lnx_kernel_destroy(k);
			return rc;
		}
	}
	*k_out = k;
	return GS_OK;
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
