/* SPDX-License-Identifier: Apache-2.0 */
/* The other judge: who has called whom, by the call frame information of the kernel's vmlinux. */
#include "tests/e2e/steps/cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <gelf.h>

#include "tests/e2e/steps/bare.h"

/*
 * DWARF for the Arm 64-bit Architecture (AADWARF64): x0 to x30 are registers 0 to 30, SP is 31. What follows
 * a frame that is no function's are rules of the kernel (arch/arm64/kernel/entry.S), see README.md.
 */

#define FP   29
#define LR   30
#define SP   31
#define REGS 32

#define NOP UINT32_C(0xd503201f)
/* ldp …, …, [sp, #…], not below SP, and the one of x29 and x30 */
#define LOAD_PAIR_MASK	 UINT32_C(0xffe003e0)
#define LOAD_PAIR	 UINT32_C(0xa94003e0)
#define LOAD_RECORD_MASK UINT32_C(0xffe07fff)
#define LOAD_RECORD	 UINT32_C(0xa9407bfd)
#define TRACER_NOPS	 4
#define FUNCTION_MAX	 16384 /* bytes of a function of assembly */

/* struct user_pt_regs, which pt_regs begins with (uapi/asm/ptrace.h): regs[31], sp, pc, pstate */
struct user_pt_regs {
	uint64_t x[31], sp, pc, pstate;
};

struct frame {
	uint64_t pc;
	bool is_exact;
	uint64_t reg[REGS];
};

/* How one step went on; behind the first two there is a further frame. */
enum step { STEP_CALLER, STEP_INTERRUPTED, STEP_END, STEP_BARE, STEP_UNREADABLE };

/* --- vmlinux --- */

static int compare_functions(const void *a, const void *b)
{
	const struct cfi_function *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void take_symbol(struct cfi *c, const GElf_Sym *sym, const char *name)
{
	if (!name || sym->st_shndx == SHN_UNDEF)
		return;
	if (!strcmp(name, "__entry_text_start"))
		c->entry_start = sym->st_value;
	else if (!strcmp(name, "__entry_text_end"))
		c->entry_end = sym->st_value;
	else if (!strcmp(name, "_stext"))
		c->text = sym->st_value;
	if (GELF_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_size)
		c->functions[c->function_count++] =
			(struct cfi_function){ sym->st_value, sym->st_value + sym->st_size };
}

static bool read_symbols(struct cfi *c, Elf *elf)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			break;
	Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
	if (!data || !header.sh_entsize)
		return false;
	const size_t n = header.sh_size / header.sh_entsize;
	c->functions = calloc(n + 1, sizeof(*c->functions));
	for (size_t i = 0; c->functions && i < n; i++) {
		GElf_Sym sym;

		if (gelf_getsym(data, (int)i, &sym))
			take_symbol(c, &sym, elf_strptr(elf, header.sh_link, sym.st_name));
	}
	if (!c->functions || !c->text || !c->entry_start || c->entry_end <= c->entry_start)
		return false;
	qsort(c->functions, c->function_count, sizeof(*c->functions), compare_functions);
	return true;
}

static enum gs_code open_file(struct cfi *c, const char *path, const uint8_t *build_id,
			      struct gs_error *err)
{
	const void *id;

	c->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (c->fd < 0)
		return gs_fail(err, GS_ESYS, "%s: %s", path, strerror(errno));
	c->dwarf = dwarf_begin(c->fd, DWARF_C_READ);
	Elf *elf = c->dwarf ? dwarf_getelf(c->dwarf) : NULL;
	if (!elf || !read_symbols(c, elf))
		return gs_fail(err, GS_EMALFORMED, "%s: no kernel with symbols and DWARF", path);
	if (!build_id || dwelf_elf_gnu_build_id(elf, &id) != LNX_BUILD_ID ||
	    memcmp(id, build_id, LNX_BUILD_ID) != 0)
		return gs_fail(err, GS_ENOENT, "%s: its build id is not that of the guest's kernel",
			       path);
	c->table = dwarf_getcfi(c->dwarf);
	if (!c->table)
		return gs_fail(err, GS_EMALFORMED, "%s: no .debug_frame", path);
	return GS_OK;
}

enum gs_code cfi_open(struct cfi *c, const char *path, const struct lnx_kernel *k,
		      uint64_t pt_regs_size, struct gs_error *err)
{
	const struct lnx_kernel_info info = lnx_kernel_info_get(k);

	*c = (struct cfi){ .fd = -1 };
	enum gs_code rc = open_file(c, path, info.build_id, err);
	if (rc)
		return rc;
	c->slide = info.text - c->text;
	c->pt_regs_size = pt_regs_size;
	/* THREAD_SIZE (asm/memory.h): 16 KiB, or one page if that is more */
	c->stack_size = gs_max(info.page_size, 16384);
	c->va_bits = info.va_bits;
	return GS_OK;
}

void cfi_close(struct cfi *c)
{
	free(c->functions);
	if (c->dwarf)
		dwarf_end(c->dwarf);
	if (c->fd >= 0)
		close(c->fd);
}

static const struct cfi_function *function_at(const struct cfi *c, uint64_t at)
{
	size_t low = 0, high = c->function_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->functions[middle].start <= at)
			low = middle + 1;
		else
			high = middle;
	}
	/* of several that begin at one place any will do, if it is long enough */
	for (; low && c->functions[low - 1].start <= at; low--) {
		if (at < c->functions[low - 1].end)
			return &c->functions[low - 1];
		if (at - c->functions[low - 1].start > FUNCTION_MAX)
			break;
	}
	return NULL;
}

/* --- CFI --- */

/* Where a register of the caller is, counted from the CFA. */
static bool place_of(Dwarf_Frame *rules, int reg, int64_t *offset_out)
{
	Dwarf_Op memory[3], *op;
	size_t n;

	if (dwarf_frame_register(rules, reg, memory, &op, &n) || !n || n > 2 ||
	    op[0].atom != DW_OP_call_frame_cfa || (n == 2 && op[1].atom != DW_OP_plus_uconst))
		return false;
	*offset_out = n == 2 ? (int64_t)op[1].number : 0;
	return true;
}

/*
 * Where the CFA is counted from x29, gcc does so until SP is given back, though x29 has been loaded for the
 * caller some instructions before that. If that is what has happened, and nothing but loads from the stack
 * lie between, then the place that x29 was loaded from says where the CFA is.
 */
static bool has_loaded_fp(struct lnx_view *v, Dwarf_Frame *rules, const struct frame *f,
			  uint64_t *cfa_out)
{
	int64_t offset;
	uint32_t word;

	for (uint64_t pc = f->pc - 4;; pc -= 4) {
		if (!f->is_exact || lnx_read_u32(v, GVA(pc), &word) ||
		    (word & LOAD_PAIR_MASK) != LOAD_PAIR)
			return false;
		if ((word & LOAD_RECORD_MASK) == LOAD_RECORD)
			break;
	}
	if (!place_of(rules, FP, &offset))
		return false;
	*cfa_out = f->reg[SP] + 8 * (word >> 15 & 0x3f) - offset;
	return true;
}

static bool cfa_of(Dwarf_Frame *rules, struct lnx_view *v, const struct frame *f, uint64_t *cfa_out)
{
	Dwarf_Op *op;
	size_t n;

	if (dwarf_frame_cfa(rules, &op, &n) || n != 1)
		return false;
	const uint64_t reg =
		op->atom == DW_OP_bregx ? op->number : (uint64_t)op->atom - DW_OP_breg0;
	if (reg >= REGS)
		return false;
	if (reg == FP && has_loaded_fp(v, rules, f, cfa_out))
		return true;
	*cfa_out = f->reg[reg];
	*cfa_out += op->atom == DW_OP_bregx ? op->number2 : op->number;
	return true;
}

enum rule { RULE_SAME, RULE_SET, RULE_UNDEFINED, RULE_UNKNOWN, RULE_UNREADABLE };

/* What a register was in the caller. */
static enum rule register_of(Dwarf_Frame *rules, struct lnx_view *v, uint64_t cfa, int reg,
			     uint64_t *value_out)
{
	Dwarf_Op memory[3], *op;
	size_t n;

	if (dwarf_frame_register(rules, reg, memory, &op, &n))
		return RULE_UNKNOWN;
	if (!n)
		return op ? RULE_UNDEFINED : RULE_SAME;
	if (op[0].atom != DW_OP_call_frame_cfa)
		return RULE_UNKNOWN;
	uint64_t at = cfa;
	size_t i = 1;
	if (i < n && op[i].atom == DW_OP_plus_uconst)
		at += op[i++].number;
	*value_out = at;
	if (i < n)
		return op[i].atom == DW_OP_stack_value && i + 1 == n ? RULE_SET : RULE_UNKNOWN;
	return lnx_read_u64(v, GVA(at), value_out) ? RULE_UNREADABLE : RULE_SET;
}

/* The caller, by the rules of the row that covers an address. */
static enum step apply(Dwarf_Frame *rules, struct lnx_view *v, struct frame *f, bool *has_link)
{
	struct frame caller = *f;
	uint64_t cfa;

	if (!cfa_of(rules, v, f, &cfa))
		return STEP_BARE;
	caller.reg[SP] = cfa;
	for (int reg = 19; reg <= LR; reg++) {
		switch (register_of(rules, v, cfa, reg, &caller.reg[reg])) {
		case RULE_SAME: *has_link |= reg == LR; break;
		case RULE_SET: break;
		case RULE_UNDEFINED:
			if (reg == LR)
				return STEP_END;
			break;
		case RULE_UNKNOWN: return STEP_BARE;
		case RULE_UNREADABLE: return STEP_UNREADABLE;
		}
	}
	*f = caller;
	return STEP_CALLER;
}

/*
 * Functions begin with a place for the tracer's call, some nops, in front of what the compiler describes.
 * @return where that begins, 0: this is no such place
 */
static uint64_t behind_nops(const struct cfi *c, struct lnx_view *v, uint64_t pc)
{
	for (unsigned int i = 0; i < TRACER_NOPS; i++, pc += 4) {
		Dwarf_Frame *rules;
		Dwarf_Addr start = 0;
		uint32_t word;

		if (lnx_read_u32(v, GVA(pc), &word) || word != NOP)
			return 0;
		if (dwarf_cfi_addrframe(c->table, pc + 4 - c->slide, &rules))
			continue;
		dwarf_frame_info(rules, &start, NULL, NULL);
		free(rules);
		return start == pc + 4 - c->slide ? pc + 4 : 0;
	}
	return 0;
}

/* --- what has no CFI --- */

static bool is_entry(const struct cfi *c, uint64_t pc)
{
	return gs_in_range(pc - c->slide, 4, c->entry_start, c->entry_end - c->entry_start);
}

/* The outermost code of a task begins with an empty stack, or with the pt_regs that are for user mode. */
static bool is_at_top(const struct cfi *c, uint64_t sp)
{
	return sp % c->stack_size == 0 || (sp + c->pt_regs_size) % c->stack_size == 0;
}

/*
 * Entry code that has called a handler has the pt_regs at SP; one that has changed to the IRQ stack by
 * itself (5.10) begins there with an empty one, and has them in x19.
 */
static enum step leave_entry(const struct cfi *c, struct lnx_view *v, struct frame *f)
{
	const uint64_t at = f->reg[SP] % c->stack_size ? f->reg[SP] : f->reg[19];
	struct user_pt_regs regs;

	if (is_at_top(c, at))
		return STEP_END;
	if (lnx_read(v, GVA(at), &regs, sizeof(regs)))
		return STEP_UNREADABLE;
	if (a64_pstate_el(regs.pstate) == 0)
		return STEP_BARE; /* only the outermost ones come from user mode */
	memcpy(f->reg, regs.x, sizeof(regs.x));
	f->reg[SP] = regs.sp;
	f->pc = regs.pc;
	return STEP_INTERRUPTED;
}

static enum step leave_bare(const struct cfi *c, struct lnx_view *v, struct frame *f,
			    bool *has_link)
{
	static uint32_t word[FUNCTION_MAX / 4];
	const struct cfi_function *in = function_at(c, f->pc - c->slide - (f->is_exact ? 0 : 4));
	const uint64_t start = in ? in->start + c->slide : 0;
	uint64_t record[2];
	uint32_t size;

	if (!in || in->end - in->start > FUNCTION_MAX)
		return STEP_BARE;
	if (lnx_read(v, GVA(start), word, in->end - in->start))
		return STEP_UNREADABLE;
	const enum bare state = bare_state(word, (uint32_t)((in->end - in->start) / 4),
					   (uint32_t)((f->pc - start) / 4), &size);
	const uint64_t at = f->reg[state == BARE_RECORD ? FP : SP];
	switch (state) {
	case BARE_UNKNOWN: return STEP_BARE;
	case BARE_LINK:
		/* one that has called has x30 of that */
		*has_link = true;
		return f->is_exact ? STEP_CALLER : STEP_BARE;
	case BARE_PUSHED:
	case BARE_RECORD: break;
	}
	if (lnx_read(v, GVA(at), record, sizeof(record)))
		return STEP_UNREADABLE;
	f->reg[FP] = record[0];
	f->reg[LR] = record[1];
	f->reg[SP] = at + size;
	return STEP_CALLER;
}

/* The registers of the caller, whose pc then is in x30; or those that an exception interrupted, and pc. */
static enum step leave(const struct cfi *c, struct lnx_view *v, struct frame *f, bool *has_link)
{
	Dwarf_Frame *rules;
	uint64_t behind;

	if (!dwarf_cfi_addrframe(c->table, f->pc - c->slide - (f->is_exact ? 0 : 1), &rules)) {
		enum step step = apply(rules, v, f, has_link);

		free(rules);
		return step;
	}
	behind = f->is_exact ? behind_nops(c, v, f->pc) : 0;
	if (behind) {
		*has_link = true;
		return STEP_CALLER;
	}
	if (is_entry(c, f->pc - (f->is_exact ? 0 : 4)))
		return f->is_exact ? STEP_BARE : leave_entry(c, v, f);
	const bool is_top = !f->is_exact && is_at_top(c, f->reg[SP]);
	const enum step step = leave_bare(c, v, f, has_link);
	/* what has a record there has changed to the IRQ stack; code of the start is not kept */
	return is_top && (step == STEP_BARE || step == STEP_UNREADABLE) ? STEP_END : step;
}

static bool push(struct cfi_chain *chain, const struct frame *f)
{
	if (chain->count == LNX_FRAMES_MAX)
		return false;
	chain->frame[chain->count++] = (struct cfi_frame){ f->pc, f->is_exact };
	return true;
}

static void begin(struct frame *f, const struct guest_vcpu_regs *regs)
{
	memcpy(f->reg, regs->x, sizeof(regs->x));
	f->reg[SP] = regs->sp_el1;
	f->pc = regs->pc;
	f->is_exact = true;
}

/* At the first instruction of a vector all registers are still those of what was interrupted. */
static bool is_at_vector(const struct guest_vcpu_regs *regs)
{
	return gs_in_range(regs->pc, 4, regs->vbar_el1, 0x800) && regs->pc % 0x80 == 0;
}

static enum step leave_vector(struct frame *f, const struct guest_vcpu_regs *regs)
{
	if (a64_pstate_el(regs->spsr_el1) == 0)
		return STEP_END;
	f->pc = regs->elr_el1;
	return STEP_INTERRUPTED;
}

void cfi_unwind(const struct cfi *c, struct lnx_view *v, const struct guest_vcpu_regs *regs,
		struct cfi_chain *chain)
{
	static const enum cfi_end ends[] = { [STEP_END] = CFI_COMPLETE,
					     [STEP_BARE] = CFI_BARE,
					     [STEP_UNREADABLE] = CFI_UNREADABLE };
	struct frame f;

	begin(&f, regs);
	*chain = (struct cfi_chain){ .end = CFI_ENDLESS };
	while (push(chain, &f)) {
		bool has_link = false;
		enum step step = chain->count == 1 && is_at_vector(regs)
					 ? leave_vector(&f, regs)
					 : leave(c, v, &f, &has_link);

		chain->has_link |= chain->count == 1 && has_link;
		if (step > STEP_INTERRUPTED) {
			chain->end = ends[step];
			return;
		}
		f.is_exact = step == STEP_INTERRUPTED;
		chain->interrupts += f.is_exact;
		if (!f.is_exact)
			f.pc = a64_strip(f.reg[LR], c->va_bits);
		if (!f.pc) {
			chain->end = CFI_COMPLETE;
			return;
		}
	}
}
