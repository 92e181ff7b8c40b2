/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded modules: their list, where their text is, their own symbol tables. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "introspect/linux/kernel.h"

/* enum module_state (include/linux/module.h, 5.10 to 7.3), its last one: not yet laid out. */
#define MODULE_STATE_UNFORMED 3u

/* enum mod_mem_type (6.4 and later): elements of mem[], of which these two are executable. */
#define MEMORIES	 7
#define MEMORY_CORE_TEXT 0
#define MEMORY_INIT_TEXT 4

/* More than all modules may have together: the region they are in is 2 GiB, the largest one 100 MiB. */
#define TEXT_SIZE_MAX (UINT64_C(256) << 20)

/* Read at once; half of what a stack frame may have. */
#define SYMBOLS_AT_ONCE 40

/* --- a module --- */

/* A part's place in memory is {address, 32-bit size}; only what can be text of a module counts. */
static enum gs_code read_part(struct lnx_view *v, gva_t base_at, gva_t size_at,
			      struct lnx_module *m, enum lnx_module_part part)
{
	const struct lnx_kernel *k = v->k;
	uint64_t start;
	uint32_t size;

	if (lnx_read_u64(v, base_at, &start) || lnx_read_u32(v, size_at, &size))
		return GS_EFAULT;
	if (!size || !start)
		return GS_OK;
	if (size > TEXT_SIZE_MAX || !lnx_is_object(k, start) || start > ~(uint64_t)size)
		return GS_EMALFORMED;
	/* the kernel's own text has names of its own */
	if (k->text.start - start < size || lnx_range_has(k->text, start) || !lnx_is_text(v, start))
		return GS_EMALFORMED;
	m->text[part].start = start;
	m->text[part].size = size;
	return GS_OK;
}

/* Element of mem[]. The array has one for each kind, so that its size says how long each is. */
static enum gs_code read_memory(struct lnx_view *v, struct lnx_module *m, uint32_t element,
				enum lnx_module_part part)
{
	const struct lnx_kernel *k = v->k;
	const uint64_t each = lnx_field_of(k, LNX_M_MODULE_MEM)->size / MEMORIES;
	const gva_t at = GVA(lnx_member_of(k, m->address, LNX_M_MODULE_MEM).a + element * each);

	return read_part(v, lnx_member_of(k, at, LNX_M_MODULE_MEMORY_BASE),
			 lnx_member_of(k, at, LNX_M_MODULE_MEMORY_SIZE), m, part);
}

static bool has_memories(const struct lnx_kernel *k)
{
	const struct lnx_field *mem = lnx_field_of(k, LNX_M_MODULE_MEM);

	return mem->present && mem->size % MEMORIES == 0 &&
	       lnx_has(k, LNX_M_MODULE_MEMORY_BASE, 8) && lnx_has(k, LNX_M_MODULE_MEMORY_SIZE, 4) &&
	       gs_in_range(lnx_field_of(k, LNX_M_MODULE_MEMORY_BASE)->offset, 8, 0,
			   mem->size / MEMORIES) &&
	       gs_in_range(lnx_field_of(k, LNX_M_MODULE_MEMORY_SIZE)->offset, 4, 0,
			   mem->size / MEMORIES);
}

static bool has_layouts(const struct lnx_kernel *k)
{
	return lnx_has(k, LNX_M_MODULE_CORE_BASE, 8) &&
	       lnx_has(k, LNX_M_MODULE_CORE_TEXT_SIZE, 4) &&
	       lnx_has(k, LNX_M_MODULE_INIT_BASE, 8) && lnx_has(k, LNX_M_MODULE_INIT_TEXT_SIZE, 4);
}

static bool knows_modules(const struct lnx_kernel *k)
{
	return lnx_has(k, LNX_M_MODULE_STATE, 4) && lnx_has(k, LNX_M_MODULE_LIST, 16) &&
	       lnx_field_of(k, LNX_M_MODULE_NAME)->present && (has_memories(k) || has_layouts(k));
}

static enum gs_code read_parts(struct lnx_view *v, struct lnx_module *m)
{
	const struct lnx_kernel *k = v->k;
	enum gs_code rc;

	if (has_memories(k)) {
		rc = read_memory(v, m, MEMORY_CORE_TEXT, LNX_MODULE_CORE);
		return rc ? rc : read_memory(v, m, MEMORY_INIT_TEXT, LNX_MODULE_INIT);
	}
	rc = read_part(v, lnx_member_of(k, m->address, LNX_M_MODULE_CORE_BASE),
		       lnx_member_of(k, m->address, LNX_M_MODULE_CORE_TEXT_SIZE), m,
		       LNX_MODULE_CORE);
	return rc ? rc
		  : read_part(v, lnx_member_of(k, m->address, LNX_M_MODULE_INIT_BASE),
			      lnx_member_of(k, m->address, LNX_M_MODULE_INIT_TEXT_SIZE), m,
			      LNX_MODULE_INIT);
}

/* A module is named after its file: whatever else is there is no module. */
static bool is_name(const char *name, size_t room)
{
	size_t n = strnlen(name, room);

	for (size_t i = 0; i < n; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return n && n < room;
}

/* What every module on the list has, however far its loading has come. */
static enum gs_code read_identity(struct lnx_view *v, gva_t address, struct lnx_module *m,
				  uint32_t *state_out)
{
	const struct lnx_kernel *k = v->k;
	const size_t room =
		(size_t)gs_min(lnx_field_of(k, LNX_M_MODULE_NAME)->size, sizeof(m->name));

	*m = (struct lnx_module){ .address = address };
	if (!lnx_is_object(k, address.a))
		return GS_EMALFORMED;
	if (lnx_read_u32(v, lnx_member_of(k, address, LNX_M_MODULE_STATE), state_out) ||
	    lnx_read(v, lnx_member_of(k, address, LNX_M_MODULE_NAME), m->name, room))
		return GS_EFAULT;
	return *state_out > MODULE_STATE_UNFORMED || !is_name(m->name, room) ? GS_EMALFORMED
									     : GS_OK;
}

static enum gs_code read_module(struct lnx_view *v, gva_t address, struct lnx_module *m)
{
	const struct lnx_kernel *k = v->k;
	uint32_t state;
	enum gs_code rc = read_identity(v, address, m, &state);

	if (rc)
		return rc;
	if (state == MODULE_STATE_UNFORMED)
		return GS_ENOENT;
	if (lnx_has(k, LNX_M_MODULE_BUILD_ID, sizeof(m->build_id)) &&
	    lnx_read(v, lnx_member_of(k, address, LNX_M_MODULE_BUILD_ID), m->build_id,
		     sizeof(m->build_id)))
		return GS_EFAULT;
	return read_parts(v, m);
}

/* --- the list --- */

/*
 * Of what may be the list's head, the one that is: what is first on it points back, and looks like a
 * module. An empty list has nothing to tell it by.
 */
static bool find_head(struct lnx_view *v, gva_t *head_out)
{
	const struct lnx_kernel *k = v->k;

	for (uint32_t i = 0; i < k->module_lists; i++) {
		const gva_t head = k->module_list[i];
		struct lnx_module m;
		uint64_t first, back;
		uint32_t state;

		if (!lnx_is_object(k, head.a) || lnx_read_u64(v, head, &first) || first == head.a ||
		    !lnx_is_object(k, first) || lnx_read_u64(v, GVA(first + 8), &back) ||
		    back != head.a ||
		    read_identity(v, GVA(first - lnx_field_of(k, LNX_M_MODULE_LIST)->offset), &m,
				  &state))
			continue;
		*head_out = head;
		return true;
	}
	return false;
}

void lnx_modules_read(struct lnx_view *v, struct lnx_modules *out)
{
	struct lnx_list l;
	gva_t head, module;

	out->count = 0;
	if (!knows_modules(v->k) || !find_head(v, &head))
		return;
	lnx_list_begin(&l, v, head, lnx_field_of(v->k, LNX_M_MODULE_LIST)->offset, out->listed,
		       LNX_MODULES_MAX);
	while (lnx_list_next(&l, &module))
		;
	/* afterwards: of a list that loops they are distinct only now */
	for (uint32_t i = 0; i < l.n; i++)
		if (!read_module(v, out->listed[i], &out->module[out->count]))
			out->count++;
}

static bool is_same(const struct lnx_module *a, const struct lnx_module *b)
{
	for (int i = 0; i < LNX_MODULE_PARTS; i++)
		if (a->text[i].start != b->text[i].start || a->text[i].size != b->text[i].size)
			return false;
	return !strcmp(a->name, b->name) && !memcmp(a->build_id, b->build_id, sizeof(a->build_id));
}

bool lnx_module_is_there(struct lnx_view *v, const struct lnx_module *module)
{
	struct lnx_module now;

	return !read_module(v, module->address, &now) && is_same(&now, module) &&
	       lnx_list_has(v, lnx_member_of(v->k, module->address, LNX_M_MODULE_LIST));
}

/* --- symbols --- */

/* The part of a module that has an address; LNX_MODULE_PARTS: none. */
static enum lnx_module_part part_of(const struct lnx_module *m, uint64_t address)
{
	for (int i = 0; i < LNX_MODULE_PARTS; i++)
		if (address - m->text[i].start < m->text[i].size)
			return (enum lnx_module_part)i;
	return LNX_MODULE_PARTS;
}

/*
 * Whether a name counts: the kernel passes over names that are empty and those that only mark what is
 * code and what is data (is_mapping_symbol() in include/linux/module_symbol.h). One that cannot be read
 * does: else what it covers would get the name of the function before it.
 */
static bool is_named(struct lnx_view *v, gva_t name)
{
	char first, second;

	if (lnx_read(v, name, &first, 1))
		return true;
	if (first != '.' && first != 'L')
		return first && first != '$';
	if (lnx_read(v, GVA(name.a + 1), &second, 1))
		return true;
	return second != (first == '.' ? 'L' : '0');
}

static bool add_symbol(struct lnx_module_symbols *s, struct lnx_module_symbol symbol)
{
	/* doubled at each power of two */
	if (!(s->count & (s->count - 1))) {
		size_t room = s->count ? (size_t)s->count * 2 : 1;
		struct lnx_module_symbol *grown = reallocarray(s->symbol, room, sizeof(*grown));

		if (!grown)
			return false;
		s->symbol = grown;
	}
	s->symbol[s->count++] = symbol;
	return true;
}

/* Entries of the table from @p first on. */
static enum gs_code take_symbols(struct lnx_view *v, const struct lnx_module *m,
				 const Elf64_Sym *entry, uint32_t n, uint32_t first,
				 struct lnx_module_symbols *s)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct lnx_module_symbol symbol = { entry[i].st_value, entry[i].st_name,
							  first + i };

		/* the first one is none (ELF) */
		if (!symbol.index || entry[i].st_shndx == SHN_UNDEF ||
		    part_of(m, symbol.value) == LNX_MODULE_PARTS ||
		    !is_named(v, GVA(s->strtab.a + symbol.name)))
			continue;
		if (!add_symbol(s, symbol))
			return GS_ENOSPC;
	}
	return GS_OK;
}

static int compare_symbols(const void *a, const void *b)
{
	const struct lnx_module_symbol *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

struct table {
	uint64_t symtab, strtab;
	uint32_t count;
};

static enum gs_code find_table(struct lnx_view *v, const struct lnx_module *m, struct table *t)
{
	const struct lnx_kernel *k = v->k;
	uint64_t at;

	if (!lnx_has(k, LNX_M_MODULE_KALLSYMS, 8) || !lnx_has(k, LNX_M_MOD_KALLSYMS_SYMTAB, 8) ||
	    !lnx_has(k, LNX_M_MOD_KALLSYMS_NUM_SYMTAB, 4) ||
	    !lnx_has(k, LNX_M_MOD_KALLSYMS_STRTAB, 8))
		return GS_ENOENT;
	if (lnx_read_u64(v, lnx_member_of(k, m->address, LNX_M_MODULE_KALLSYMS), &at))
		return GS_EFAULT;
	if (!at)
		return GS_ENOENT;
	if (!lnx_is_object(k, at))
		return GS_EMALFORMED;
	if (lnx_read_u64(v, lnx_member_of(k, GVA(at), LNX_M_MOD_KALLSYMS_SYMTAB), &t->symtab) ||
	    lnx_read_u32(v, lnx_member_of(k, GVA(at), LNX_M_MOD_KALLSYMS_NUM_SYMTAB), &t->count) ||
	    lnx_read_u64(v, lnx_member_of(k, GVA(at), LNX_M_MOD_KALLSYMS_STRTAB), &t->strtab))
		return GS_EFAULT;
	/* the names are aligned to nothing */
	if (!lnx_is_object(k, t->symtab) || !lnx_is_object(k, t->strtab & ~UINT64_C(7)) ||
	    t->strtab > ~(uint64_t)UINT32_MAX)
		return GS_EMALFORMED;
	return t->count > LNX_MODULE_SYMBOLS_MAX ? GS_ETOOBIG : GS_OK;
}

enum gs_code lnx_module_symbols_read(struct lnx_view *v, const struct lnx_module *module,
				     uint32_t max, struct lnx_module_symbols *s)
{
	struct table t;
	enum gs_code rc;

	*s = (struct lnx_module_symbols){ 0 };
	rc = find_table(v, module, &t);
	if (rc)
		return rc;
	if (t.count > max)
		return GS_ETOOBIG;
	s->strtab = GVA(t.strtab);
	while (s->read < t.count) {
		Elf64_Sym entry[SYMBOLS_AT_ONCE];
		const uint32_t n = (uint32_t)gs_min(t.count - s->read, SYMBOLS_AT_ONCE);

		rc = lnx_read(v, GVA(t.symtab + s->read * sizeof(entry[0])), entry,
			      n * sizeof(entry[0]));
		if (!rc)
			rc = take_symbols(v, module, entry, n, s->read, s);
		if (rc)
			return rc;
		s->read += n;
	}
	if (s->count)
		qsort(s->symbol, s->count, sizeof(*s->symbol), compare_symbols);
	return GS_OK;
}

void lnx_module_symbols_deinit(struct lnx_module_symbols *s)
{
	free(s->symbol);
	*s = (struct lnx_module_symbols){ 0 };
}

/* Number of symbols up to @p address. */
static uint32_t upper_bound(const struct lnx_module_symbols *s, uint64_t address)
{
	uint32_t lo = 0, hi = s->count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (s->symbol[mid].value <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

enum gs_code lnx_module_symbol_at(struct lnx_view *v, const struct lnx_module *module,
				  const struct lnx_module_symbols *s, gva_t address,
				  struct lnx_symbol *symbol_out)
{
	const enum lnx_module_part part = part_of(module, address.a);
	uint32_t next = upper_bound(s, address.a), at = next;

	if (part == LNX_MODULE_PARTS || !at)
		return GS_ENOENT;
	const uint64_t start = module->text[part].start, size = module->text[part].size;
	const uint64_t value = s->symbol[--at].value;
	/* the one before may be of the other part */
	if (value - start >= size)
		return GS_ENOENT;
	while (at && s->symbol[at - 1].value == value)
		at--;
	*symbol_out =
		(struct lnx_symbol){ .start = value, .size = start + size - value, .type = 't' };
	if (next < s->count && s->symbol[next].value - start < size)
		symbol_out->size = s->symbol[next].value - value;
	return lnx_read_string(v, GVA(s->strtab.a + s->symbol[at].name), symbol_out->name,
			       sizeof(symbol_out->name));
}
